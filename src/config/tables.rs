//! Every key of the jobs file, declared once.

use super::keys::{EntryKind, EntryTable, Key, Need, Shape, Table};

mod directory;
mod jobs;
mod simulate;

use directory::{AGENT_KINDS, CHANNEL_KINDS, CHAT, RETENTION};
use jobs::{JOB, POLICIES};
pub(super) use simulate::SIMULATE;

const fn key(name: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key {
        name,
        shape,
        doc,
        since: "0.1",
        need: Need::Optional,
    }
}

const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key {
        name,
        shape,
        doc,
        since: "0.1",
        need: Need::Required,
    }
}

/// The whole file.
pub(super) static FILE: Table = Table {
    what: "the jobs file",
    doc: "Jobs of chat agents: when each runs, in which chat or for which destination.",
    groups: &[&[
        key(
            "timezone",
            Shape::Zone,
            "The IANA zone of all jobs that do not name their own.",
        ),
        key(
            "max_concurrent",
            Shape::Integer {
                min: 1,
                max: 10_000,
            },
            "How many job runs may be in progress at once. Default: 8.",
        ),
        key(
            "defaults",
            Shape::Table(&DEFAULTS),
            "Policies of all jobs that do not set their own.",
        ),
        key(
            "jobs",
            Shape::Entries {
                kind: EntryKind::Job,
                table: EntryTable::Plain(&JOB),
            },
            "The jobs, each under its id.",
        ),
        key(
            "chats",
            Shape::Entries {
                kind: EntryKind::Chat,
                table: EntryTable::Plain(&CHAT),
            },
            "The chats, each under a name.",
        ),
        key(
            "channels",
            Shape::Entries {
                kind: EntryKind::Channel,
                table: EntryTable::ByKind {
                    kinds: CHANNEL_KINDS,
                },
            },
            "The channels that chats are on.",
        ),
        key(
            "agents",
            Shape::Entries {
                kind: EntryKind::Agent,
                table: EntryTable::ByKind { kinds: AGENT_KINDS },
            },
            "The agents that do the work.",
        ),
        key(
            "retention",
            Shape::Table(&RETENTION),
            "How long rows are kept. What a chat showed is never pruned.",
        ),
        key(
            "simulate",
            Shape::Table(&SIMULATE),
            "What `chatcron simulate` is told about the world, and what it must come to.",
        ),
    ]],
    rules: &[],
};

static DEFAULTS: Table = Table {
    what: "`[defaults]`",
    doc: "Policies of all jobs that do not set their own.",
    groups: &[
        &[key(
            "agent",
            Shape::AgentName,
            "The agent of chats and jobs that name none.",
        )],
        POLICIES,
    ],
    rules: &[],
};
