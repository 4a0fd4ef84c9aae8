//! Rows to messages: who speaks when, in a form that the family accepts.

use std::borrow::Cow;

use super::{
    BLANK, BRIDGE, Family, Message, NO_OUTPUT, NO_RESULT, NOTHING_SAID,
    calls::Calls,
    family::{UserMessages, WordsBesideCalls},
    note::{neutralise, neutralise_json},
};
use crate::{
    directory::ReplayMode,
    hygiene,
    ids::{RunId, TurnId},
    message::Origin,
    transcript::{Block, Content, Entry, NewEntry, Provenance, Role, TriggerSource},
};

/// Projects a history, and what is asked now, to the messages of one request.
///
/// The caller chooses the rows (recall, a job's memory, rows of the running attempt); all of them
/// appear, in order. The result is never empty, begins with the user and never ends on the agent.
/// The result of a tool call whose call is not in the rows is left out: no provider accepts it.
///
/// `mode` says whether a person's messages are given as words alone, also those of rows that are
/// older than hygiene, or with the framing they came in.
pub fn project(
    history: &[Entry],
    prompt: &[NewEntry],
    family: Family,
    mode: ReplayMode,
) -> Vec<Message> {
    let mut projection = Projection {
        family,
        mode,
        messages: Vec::new(),
        calls: Calls::new(family.id_form()),
        part_of: None,
    };
    for entry in history {
        let part_of = PartOf::of(&entry.provenance);
        if let Some(note) = &entry.provenance.posting_note
            && !note.trim().is_empty()
            && !projection.goes_on(part_of)
        {
            // The note is ours, composed from escaped values: it alone is not neutralised.
            projection.push_user(vec![text_block(note.clone())]);
        }
        projection.row(entry.role, &content_of(entry, mode), part_of);
    }
    for row in prompt {
        let framed = row.framed.as_ref().filter(|_| mode == ReplayMode::Framed);
        projection.row(row.role, framed.unwrap_or(&row.content), None);
    }
    projection.close()
}

/// What a row says in this mode.
fn content_of(entry: &Entry, mode: ReplayMode) -> Cow<'_, Content> {
    let by_person = matches!(
        entry.provenance.trigger_source,
        Some(TriggerSource::User) | None
    );
    match mode {
        ReplayMode::Framed => Cow::Borrowed(entry.framed.as_ref().unwrap_or(&entry.content)),
        ReplayMode::Clean if entry.role == Role::User && by_person => {
            Cow::Owned(hygiene::clean(&entry.content).content)
        }
        ReplayMode::Clean => Cow::Borrowed(&entry.content),
    }
}

/// The message of which a row is one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PartOf {
    turn: Option<TurnId>,
    run: Option<RunId>,
    attempt: Option<u32>,
    origin: Origin,
}

impl PartOf {
    /// `None` for rows that were not sent, or whose producer nobody recorded.
    fn of(provenance: &Provenance) -> Option<Self> {
        let origin = provenance.origin?;
        let known = provenance.turn_id.is_some() || provenance.run_id.is_some();
        known.then_some(Self {
            turn: provenance.turn_id,
            run: provenance.run_id,
            attempt: provenance.attempt,
            origin,
        })
    }
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Returned,
    Failed,
}

struct Projection {
    family: Family,
    mode: ReplayMode,
    messages: Vec<Message>,
    calls: Calls,
    /// What the last message is a part of, if it is the agent's words.
    part_of: Option<PartOf>,
}

impl Projection {
    /// Whether a row is the next part of the message that was said last; it needs no second note.
    fn goes_on(&self, part_of: Option<PartOf>) -> bool {
        let last = self.messages.last();
        part_of.is_some()
            && part_of == self.part_of
            && last.is_some_and(|last| last.role == Role::Assistant)
    }

    fn row(&mut self, role: Role, content: &Content, part_of: Option<PartOf>) {
        match role {
            Role::User => self.user(content),
            Role::Assistant => self.assistant(content, part_of),
            Role::Tool => self.tool(content),
        }
    }

    fn user(&mut self, content: &Content) {
        let results = self.results_in(content);
        let blocks = self.said(Role::User, content);
        // A row that only carries results, as some providers shape it, says nothing itself.
        if blocks.is_empty() && results {
            return;
        }
        self.push_user(or_blank(blocks));
    }

    fn assistant(&mut self, content: &Content, part_of: Option<PartOf>) {
        let mut blocks = self.said(Role::Assistant, content);
        // Thinking leads to what is behind it; providers refuse it at the end.
        while let Some(Block::Opaque(_)) = blocks.last() {
            blocks.pop();
        }
        self.fill_missing_results();
        let has_calls = !is_only_words(&blocks);
        if has_calls && self.family.words_beside_calls() == WordsBesideCalls::Apart {
            let (words, calls) = blocks
                .into_iter()
                .partition::<Vec<_>, _>(|block| matches!(block, Block::Text { .. }));
            if !words.is_empty() {
                self.say(words, part_of);
            }
            blocks = calls;
        }
        self.say(or_blank(blocks), part_of);
    }

    /// What the agent says, as a message of its own or the next part of its last one.
    fn say(&mut self, blocks: Vec<Block>, part_of: Option<PartOf>) {
        let only_words = is_only_words(&blocks);
        let goes_on = self.goes_on(part_of);
        match self.messages.last_mut() {
            Some(last) if last.role == Role::Assistant => {
                if goes_on && only_words && is_only_words(&last.blocks) {
                    last.blocks.extend(blocks);
                    return;
                }
                self.push_user(vec![text_block(BRIDGE.to_owned())]);
            }
            None => self.push_user(vec![text_block(BRIDGE.to_owned())]),
            Some(_) => {}
        }
        let blocks = blocks
            .into_iter()
            .map(|block| match block {
                Block::ToolUse { id, name, input } => {
                    let (id, name) = self.calls.open(id, &name);
                    Block::ToolUse { id, name, input }
                }
                Block::Text { .. } | Block::ToolResult { .. } | Block::Opaque(_) => block,
            })
            .collect();
        self.part_of = part_of;
        self.messages.push(Message {
            role: Role::Assistant,
            blocks,
        });
    }

    fn tool(&mut self, content: &Content) {
        if self.results_in(content) {
            return;
        }
        // Rows of old writers hold the bare output; calls are answered in their order.
        if let Some(id) = self.calls.answer_next() {
            self.push_result(id, &content.text(), Outcome::Returned);
        }
    }

    /// Takes the results out of a row; false if it has none.
    fn results_in(&mut self, content: &Content) -> bool {
        let Content::Blocks(blocks) = content else {
            return false;
        };
        let mut found = false;
        for block in blocks {
            if let Block::ToolResult {
                tool_use_id,
                content,
                is_error,
            } = block
            {
                found = true;
                if let Some(id) = self.calls.answer(tool_use_id) {
                    let outcome = if *is_error {
                        Outcome::Failed
                    } else {
                        Outcome::Returned
                    };
                    self.push_result(id, content, outcome);
                }
            }
        }
        found
    }

    /// The blocks of a row that this family can be given, results apart.
    fn said(&self, role: Role, content: &Content) -> Vec<Block> {
        let mut said = Vec::new();
        let one;
        let blocks = match content {
            Content::Text(text) => {
                one = [text_block(text.clone())];
                &one[..]
            }
            Content::Blocks(blocks) => blocks,
        };
        for block in blocks {
            match block {
                Block::Text { text } if !text.trim().is_empty() => {
                    said.push(text_block(self.harmless(role, text)));
                }
                Block::ToolUse { id, name, input } if role == Role::Assistant => {
                    said.push(Block::ToolUse {
                        id: id.clone(),
                        name: name.clone(),
                        input: neutralise_json(input),
                    });
                }
                Block::Opaque(value) if self.family.carries(role, value) => {
                    said.push(block.clone());
                }
                Block::Text { .. }
                | Block::ToolUse { .. }
                | Block::ToolResult { .. }
                | Block::Opaque(_) => {}
            }
        }
        said
    }

    /// The text without anything that could be taken for a note, or for framing where framing is
    /// replayed. The first thing a person says may have framing in front.
    fn harmless(&self, role: Role, text: &str) -> String {
        let text = neutralise(text);
        match (self.mode, role) {
            (ReplayMode::Clean, _) => text.into_owned(),
            (ReplayMode::Framed, Role::User) => hygiene::neutralise_words(&text).into_owned(),
            (ReplayMode::Framed, Role::Assistant | Role::Tool) => {
                hygiene::neutralise(&text).into_owned()
            }
        }
    }

    fn push_user(&mut self, blocks: Vec<Block>) {
        self.fill_missing_results();
        self.part_of = None;
        let joined = self.family.user_messages() == UserMessages::Joined;
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User && joined => {
                last.blocks.extend(blocks);
                return;
            }
            Some(last) if last.role == Role::Tool => self.messages.push(Message {
                role: Role::Assistant,
                blocks: vec![text_block(NOTHING_SAID.to_owned())],
            }),
            Some(_) | None => {}
        }
        self.messages.push(Message {
            role: Role::User,
            blocks,
        });
    }

    fn push_result(&mut self, tool_use_id: String, content: &str, outcome: Outcome) {
        let content = if content.trim().is_empty() {
            NO_OUTPUT.to_owned()
        } else {
            self.harmless(Role::Tool, content)
        };
        let result = Block::ToolResult {
            tool_use_id,
            content,
            is_error: outcome == Outcome::Failed,
        };
        match self.messages.last_mut() {
            Some(last) if last.role == Role::Tool => last.blocks.push(result),
            Some(_) | None => self.messages.push(Message {
                role: Role::Tool,
                blocks: vec![result],
            }),
        }
    }

    /// Answers what is still open, so that nothing ever stands between a call and its result.
    fn fill_missing_results(&mut self) {
        while let Some(id) = self.calls.answer_next() {
            self.push_result(id, NO_RESULT, Outcome::Failed);
        }
    }

    fn close(mut self) -> Vec<Message> {
        self.fill_missing_results();
        if self
            .messages
            .last()
            .is_none_or(|last| last.role == Role::Assistant)
        {
            self.push_user(vec![text_block(BRIDGE.to_owned())]);
        }
        self.messages
    }
}

fn text_block(text: String) -> Block {
    Block::Text { text }
}

fn or_blank(blocks: Vec<Block>) -> Vec<Block> {
    if blocks.is_empty() {
        vec![text_block(BLANK.to_owned())]
    } else {
        blocks
    }
}

fn is_only_words(blocks: &[Block]) -> bool {
    blocks
        .iter()
        .all(|block| matches!(block, Block::Text { .. }))
}
