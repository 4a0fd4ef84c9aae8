//! The checker: what must hold of every history, whatever died and failed on the way.
//!
//! It shares no code with the product. It reads the database with plain SQL and compares it with
//! what was seen outside: what the chats showed, and what the agents were asked. Each violation
//! names the invariant:
//!
//! - I1 every slot has exactly one record, terminal, with a reason
//! - I2 no more starts than attempts allow, none before its slot, none after its window
//! - I3 a part is shown once; on a blind channel not more than once, and a doubt is recorded;
//!   nothing is lost, and nothing is shown that nobody sent
//! - I4 a chat's transcript is what it showed, in its order
//! - I5 the parts of a message are shown in order and together
//! - I6 runs of one job do not overlap, and the cap holds
//! - I7 nothing is left to do, and what comes next is armed
//!
//! I8 (the simulator does the same) is `tests/sameness.rs`. I9 (a restart changes nothing) compares
//! two [`dump`]s.

#![allow(dead_code, reason = "each test binary uses a part of it")]

#[path = "checker/delivery.rs"]
mod delivery;
#[path = "checker/facts.rs"]
mod facts;
#[path = "checker/ledger.rs"]
mod ledger;

use std::{collections::BTreeMap, fmt, path::Path};

#[allow(unused_imports, reason = "each test binary uses a part of it")]
pub(crate) use facts::dump;

/// What the scenario promises.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    pub(crate) jobs: BTreeMap<String, JobRule>,
    /// Prefixes of the session keys of chats whose channel knows no keys.
    pub(crate) blind: Vec<String>,
    pub(crate) max_concurrent: usize,
}

/// What is promised of one job.
#[derive(Debug, Clone)]
pub(crate) struct JobRule {
    pub(crate) slots: Slots,
    /// How often one occurrence may be tried, over all processes.
    pub(crate) attempts: i64,
    /// How long after its slot a run may begin, in microseconds.
    pub(crate) window: i64,
    /// Whether more slots come.
    pub(crate) goes_on: bool,
    /// Whether its runs may overlap.
    pub(crate) overlaps: bool,
}

/// Which slots a job has had.
#[derive(Debug, Clone)]
pub(crate) enum Slots {
    /// At these instants, in microseconds since the epoch.
    At(Vec<i64>),
    /// At every multiple of so many microseconds after the job was first seen, up to its cursor.
    Every(i64),
}

/// A message that a chat showed; the truth, kept outside of what is tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The session key of the chat, or of the webhook.
    pub(crate) chat: String,
    pub(crate) message_id: String,
    /// The key it came under, where the channel knows keys or keeps them for us.
    pub(crate) key: Option<String>,
    pub(crate) text: String,
}

/// That an agent was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// The job, or `None` for a person's turn.
    pub(crate) job: Option<String>,
    /// The same for every attempt of one occurrence or turn, where the agent is told.
    pub(crate) key: Option<String>,
    /// In microseconds since the epoch, where the agent has the clock of the process.
    pub(crate) at: Option<i64>,
}

/// What does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) invariant: &'static str,
    pub(crate) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// Collects violations.
#[derive(Default)]
struct Found(Vec<Violation>);

impl Found {
    #[expect(
        clippy::fn_params_excessive_bools,
        reason = "it reads like an assertion"
    )]
    fn unless(&mut self, holds: bool, invariant: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            let what = what();
            self.0.push(Violation { invariant, what });
        }
    }
}

/// Everything that does not hold of a history that has come to rest.
pub(crate) async fn check(
    database: &Path,
    rules: &Rules,
    lines: &[Line],
    calls: &[Call],
) -> Vec<Violation> {
    let facts = facts::load(database).await;
    let mut found = Found::default();
    ledger::every_slot_has_one_record(&facts, rules, &mut found);
    ledger::records_agree_with_runs(&facts, &mut found);
    ledger::starts_are_allowed(&facts, rules, calls, &mut found);
    ledger::runs_keep_apart(&facts, rules, &mut found);
    ledger::nothing_is_left(&facts, rules, &mut found);
    delivery::shown_once(&facts, rules, lines, &mut found);
    delivery::nothing_is_lost(&facts, &mut found);
    delivery::transcripts_are_what_was_shown(&facts, lines, &mut found);
    delivery::parts_stand_together(&facts, lines, &mut found);
    found.0
}
