//! `chatcron stats`: whose turns a conversation has, and when a person spoke last.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    cli::{
        Exit,
        failure::Failure,
        json,
        names::{self, unreadable},
        plain, print,
        reading::Place,
        runtime,
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
    clock::{Clock, SystemClock},
    ids::SessionKey,
    store::{Store, TurnCount},
    transcript::TriggerSource,
};

#[cfg(test)]
mod tests;

/// Count the turns of each conversation, by who began them.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Of this chat only: its name, or a session key such as cron:JOB.
    chat: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// The turns of one session.
#[derive(Debug, Default, PartialEq, Eq)]
struct Turns {
    by_trigger: BTreeMap<&'static str, u64>,
    automated: u64,
    total: u64,
    last_human_turn_at: Option<Timestamp>,
}

impl Turns {
    fn add(&mut self, count: &TurnCount) {
        *self.by_trigger.entry(count.trigger.as_str()).or_default() += count.turns;
        self.total += count.turns;
        if count.trigger.is_automated() {
            self.automated += count.turns;
        } else {
            self.last_human_turn_at = self.last_human_turn_at.max(Some(count.last_at));
        }
    }

    fn of(&self, trigger: TriggerSource) -> u64 {
        self.by_trigger.get(trigger.as_str()).copied().unwrap_or(0)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a share needs no more digits than a float has"
    )]
    fn automated_share(&self) -> Option<f64> {
        (self.total > 0).then(|| self.automated as f64 / self.total as f64)
    }
}

/// All that is told, by session.
#[derive(Debug)]
struct Stats {
    sessions: Vec<(SessionKey, Option<String>, Turns)>,
    zone: String,
}

impl Stats {
    fn new(
        counts: &[TurnCount],
        name: impl Fn(&SessionKey) -> Option<String>,
        zone: String,
    ) -> Self {
        let mut sessions: Vec<(SessionKey, Option<String>, Turns)> = Vec::new();
        for count in counts {
            let is_same = |(key, ..): &(SessionKey, _, _)| *key == count.session_key;
            if !sessions.last().is_some_and(is_same) {
                let key = count.session_key.clone();
                let name = name(&key);
                sessions.push((key, name, Turns::default()));
            }
            if let Some((_, _, turns)) = sessions.last_mut() {
                turns.add(count);
            }
        }
        Self { sessions, zone }
    }

    fn all(&self) -> Turns {
        let mut all = Turns::default();
        for (_, _, turns) in &self.sessions {
            all.total += turns.total;
            all.automated += turns.automated;
        }
        all
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let now = SystemClock.now();
    let stats = runtime::block_on(load(arguments))?;
    print(&if arguments.json {
        as_json(&stats)
    } else {
        render(&stats, now, Screen::of_stdout())
    })?;
    Ok(Exit::Fine)
}

async fn load(arguments: &Arguments) -> Result<Stats, Failure> {
    let store = arguments.place.open().await?;
    let mut counts = store.turn_counts().await.map_err(unreadable)?;
    if let Some(chat) = &arguments.chat {
        let session = names::session(&*store, &arguments.place.file, chat).await?;
        counts.retain(|count| count.session_key == session.key);
    }
    let chats = store.chats().await.map_err(unreadable)?;
    let name = |key: &SessionKey| {
        let chat = chats.iter().find(|chat| chat.session_key() == *key)?;
        Some(chat.name.to_string())
    };
    let zone = common_zone(&*store).await?;
    Ok(Stats::new(&counts, name, zone))
}

async fn common_zone(store: &dyn Store) -> Result<String, Failure> {
    let jobs = store.all_jobs().await.map_err(unreadable)?;
    Ok(words::common_zone(jobs.iter().map(|stored| &stored.job)))
}

fn as_json(stats: &Stats) -> String {
    let all = stats.all();
    let sessions: Vec<Value> = stats
        .sessions
        .iter()
        .map(|(key, chat, turns)| {
            let count = |trigger: TriggerSource| (trigger.as_str().to_owned(), turns.of(trigger));
            json!({
                "session_key": key,
                "chat": chat,
                "turns": turns.total,
                "automated": turns.automated,
                "automated_share": turns.automated_share(),
                "by_trigger": TriggerSource::ALL.map(count).into_iter().collect::<BTreeMap<_, _>>(),
                "last_human_turn_at": turns.last_human_turn_at,
            })
        })
        .collect();
    json::text(&json!({
        "sessions": sessions,
        "turns": all.total,
        "automated": all.automated,
        "automated_share": all.automated_share(),
    }))
}

fn render(stats: &Stats, now: Timestamp, screen: Screen) -> String {
    if stats.sessions.is_empty() {
        return String::from("there has been no turn yet\n");
    }
    let zone = words::zone(&stats.zone);
    let mut table = Table::new([
        Column::Left,
        Column::Right,
        Column::Right,
        Column::Left,
        Column::Left,
    ])
    .head([
        "conversation",
        "turns",
        "automated",
        "by whom",
        "a person last",
    ]);
    for (key, name, turns) in &stats.sessions {
        let name = name.as_deref().unwrap_or(key.as_str());
        let last = turns.last_human_turn_at;
        table.row([
            Cell::toned(plain::line(name), Tone::Strong),
            turns.total.to_string().into(),
            share(turns).into(),
            by_whom(turns).into(),
            last.map_or(String::from("never"), |at| words::moment(at, now, &zone))
                .into(),
        ]);
    }
    let all = stats.all();
    format!(
        "{}{}, {} automated; times in {}\n",
        table.render(screen),
        words::counted(all.total, "turn"),
        share(&all),
        stats.zone
    )
}

/// In whole percent, but never all or nothing unless it is.
fn share(turns: &Turns) -> String {
    let percent = match (turns.automated, turns.total) {
        (_, 0) => return String::from("0 %"),
        (0, _) => 0,
        (automated, total) if automated == total => 100,
        (automated, total) => ((automated.saturating_mul(200) + total) / (total * 2)).clamp(1, 99),
    };
    format!("{percent} %")
}

fn by_whom(turns: &Turns) -> String {
    let counts = TriggerSource::ALL.into_iter().filter_map(|trigger| {
        let count = turns.of(trigger);
        (count > 0).then(|| format!("{} {count}", trigger.as_str()))
    });
    counts.collect::<Vec<_>>().join(", ")
}
