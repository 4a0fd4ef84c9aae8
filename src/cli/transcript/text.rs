//! A transcript for people: when, who, what, and how it came there.

use jiff::Timestamp;

use crate::{
    cli::{
        parts, plain,
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
    message::Origin,
    transcript::{Block, Content, Entry, Role, TriggerSource, Visibility},
};

use super::Transcript;

/// How much of a tool's arguments or result is shown, in characters.
const TOOL_SHOWN: usize = 200;

pub(super) fn render(transcript: &Transcript, now: Timestamp, screen: Screen) -> String {
    if transcript.entries.is_empty() {
        return format!(
            "nothing has been shown in {} yet\n",
            transcript.session.name
        );
    }
    let zone = words::zone(&transcript.zone);
    let agent = transcript
        .session
        .chat
        .as_ref()
        .map_or("agent", |chat| chat.agent.as_str());
    let columns = [Column::Left, Column::Left, Column::Left, Column::Breaks];
    let mut out = String::new();
    let mut rest = &transcript.entries[..];
    while let Some(first) = rest.first() {
        let len = rest
            .iter()
            .take_while(|entry| entry.generation == first.generation)
            .count();
        if !out.is_empty() {
            out.push_str(" --- reset: what follows began anew ---\n");
        }
        let mut table = Table::new(columns);
        for entry in &rest[..len] {
            table.row([
                words::moment(entry.shown_at.unwrap_or(entry.created_at), now, &zone).into(),
                Cell::toned(speaker(entry, agent), Tone::Strong),
                Cell::toned(how(entry), tone(entry)),
                said(&entry.content).into(),
            ]);
        }
        out.push_str(&table.render(screen));
        rest = &rest[len..];
    }
    out.push_str(&format!("times in {}\n", transcript.zone));
    out
}

/// The person, the job that posted it, or the agent.
fn speaker(entry: &Entry, agent: &str) -> String {
    let from = &entry.provenance;
    match (entry.role, &from.posted_by_job) {
        (Role::User, _) => match (&from.sender_display, from.trigger_source) {
            (Some(name), _) => plain::beginning(name, 20),
            (None, Some(TriggerSource::User) | None) => String::from("you"),
            (None, Some(TriggerSource::Cron)) => String::from("prompt"),
            (None, Some(other)) => other.as_str().to_owned(),
        },
        (Role::Tool, _) => String::from("tool"),
        (Role::Assistant, Some(job)) => job.to_string(),
        (Role::Assistant, None) => agent.to_owned(),
    }
}

/// `(job, #8812)`: as what it came, and whether the chat showed it.
fn how(entry: &Entry) -> String {
    let origin = entry.provenance.origin.and_then(|origin| match origin {
        Origin::TurnReply => None,
        Origin::JobResult => Some("job"),
        Origin::FailureAlert => Some("alert"),
        Origin::Recovery => Some("recovery"),
        Origin::MessageTool => Some("tool"),
        Origin::SubagentAnnouncement => Some("subagent"),
        Origin::Gateway => Some("gateway"),
    });
    let visibility = match entry.visibility {
        Visibility::Visible => None,
        Visibility::Interior => Some("not shown: inside the turn"),
        Visibility::Internal => Some("not shown: the job's own"),
        Visibility::Pending => Some("not shown yet"),
        Visibility::Withheld => Some("not shown: withheld"),
    };
    let id = entry.channel_message_id.as_deref().map(parts::short_id);
    // Of a row that nobody posted, the trigger says whether a person began its turn.
    let trigger = match (entry.provenance.trigger_source, origin) {
        (Some(TriggerSource::User) | None, _) | (_, Some(_)) => None,
        (Some(TriggerSource::Cron), None) => Some("by a job"),
        (Some(TriggerSource::Heartbeat), None) => Some("by a heartbeat"),
        (Some(TriggerSource::Subagent), None) => Some("by a subagent"),
        (Some(TriggerSource::Acp), None) => Some("by another agent"),
    };
    let words: Vec<String> = [origin, trigger, visibility]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .chain(id)
        .collect();
    if words.is_empty() {
        return String::new();
    }
    format!("({})", words.join(", "))
}

fn tone(entry: &Entry) -> Tone {
    match entry.visibility {
        Visibility::Visible => Tone::Faint,
        Visibility::Interior | Visibility::Internal => Tone::Faint,
        Visibility::Pending | Visibility::Withheld => Tone::Warn,
    }
}

/// The words, and tool calls and results in brackets. What was said cannot look like another row:
/// its further lines are set in under its first.
fn said(content: &Content) -> String {
    let blocks = match content {
        Content::Text(text) => return plain::lines(text),
        Content::Blocks(blocks) => blocks,
    };
    let lines: Vec<String> = blocks.iter().map(block).collect();
    lines.join("\n")
}

fn block(block: &Block) -> String {
    match block {
        Block::Text { text } => plain::lines(text),
        Block::ToolUse { name, input, .. } => format!(
            "[calls {} {}]",
            plain::line(name),
            plain::beginning(&input.to_string(), TOOL_SHOWN)
        ),
        Block::ToolResult {
            content, is_error, ..
        } => {
            let what = if *is_error { "error" } else { "result" };
            format!("[{what}: {}]", plain::beginning(content, TOOL_SHOWN))
        }
        Block::Opaque(_) => String::from("[a part of the provider's own]"),
    }
}
