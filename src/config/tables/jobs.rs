//! The keys of `[jobs.ID]`, and the policies that `[defaults]` shares with it.

use super::{directory::WEBHOOK_POST, key, required};
use crate::config::{
    keys::{Key, Rule, Shape, Shortest, Table},
    problem::Code,
};

pub(super) static JOB: Table = Table {
    what: "a job",
    doc: "One job: what the agent is asked, when, and where the answer shows.",
    groups: &[WHEN, WHAT, WHERE, POLICIES],
    rules: &[
        Rule::ExactlyOne {
            keys: &[
                ("chat", "this makes it a turn in that chat, answered there"),
                ("deliver", "a background job has this instead"),
            ],
            many: (
                Code::BothModes,
                "a job runs in a chat or in the background, never both: keep `chat` to answer in that chat, or keep `deliver` to send a result to one place",
            ),
            none: (
                Code::NoMode,
                "a job runs in a chat or in the background: add `chat = \"NAME\"` to answer in that chat, or `deliver = \"NAME\"` to send a result there; `deliver = \"history\"` sends nothing",
            ),
        },
        Rule::ExactlyOne {
            keys: &[
                ("daily", "runs at times of day"),
                ("cron", "runs by a cron expression"),
                ("every", "runs every so often"),
                ("at", "runs once"),
            ],
            many: (
                Code::ManySchedules,
                "keep one of `daily`, `cron`, `every` and `at`; two rhythms are two jobs",
            ),
            none: (
                Code::NoSchedule,
                "add one: `daily = \"08:00\"`, `cron = \"0 8 * * mon-fri\"`, `every = \"2h\"` or `at = \"2026-12-24T18:00\"`",
            ),
        },
        Rule::ExactlyOne {
            keys: &[
                ("prompt", "the prompt"),
                ("prompt_file", "a file that holds another prompt"),
            ],
            many: (Code::TwoPrompts, "keep one of the two"),
            none: (
                Code::NoPrompt,
                "say what the agent is asked: `prompt = \"...\"` or `prompt_file = \"prompts/name.md\"`",
            ),
        },
        Rule::Needs {
            key: "days",
            other: "daily",
            code: Code::DaysWithoutDaily,
            help: "`days` narrows `daily`; in a cron expression the fifth field names the days: `0 8 * * mon-fri`",
        },
        Rule::Needs {
            key: "anchor",
            other: "every",
            code: Code::AnchorWithoutEvery,
            help: "`anchor` is where the grid of `every` begins; the other schedules have no grid",
        },
        Rule::Excludes {
            key: "memory",
            other: "chat",
            code: Code::BackgroundOnly,
            help: "an in-chat job always has the memory of its chat; remove `memory`",
        },
        Rule::Excludes {
            key: "context",
            other: "chat",
            code: Code::BackgroundOnly,
            help: "an in-chat job already sees its chat; remove `context`",
        },
    ],
};

const WHEN: &[Key] = &[
    key(
        "daily",
        Shape::OneOrList(&Shape::Time),
        "Runs every day at this time, or at each of a list of times.",
    ),
    key(
        "days",
        Shape::Days,
        "The days of the week of `daily`: `mon-fri`, `sat,sun`, or a list. Default: all.",
    ),
    key(
        "cron",
        Shape::Cron,
        "Runs by a cron expression of 5 fields, or of 6 with seconds first.",
    ),
    key(
        "every",
        Shape::Duration(Shortest::OneSecond),
        "Runs every so often of elapsed time.",
    ),
    key(
        "anchor",
        Shape::Instant,
        "Where the grid of `every` begins. Default: when the job was first seen.",
    ),
    key(
        "at",
        Shape::DateTime,
        "Runs once, at this date and time in the job's zone.",
    ),
    key(
        "timezone",
        Shape::Zone,
        "The job's IANA zone. Default: the file's.",
    ),
    key(
        "from",
        Shape::Moment,
        "The first moment at which it may run, in the job's zone; inclusive.",
    ),
    key(
        "until",
        Shape::Moment,
        "The moment from which on it no longer runs, in the job's zone; exclusive.",
    ),
    key(
        "exclude",
        Shape::ListOrEmpty(&Shape::Date),
        "Dates on which it does not run.",
    ),
    key(
        "enabled",
        Shape::Flag,
        "`false` switches it off and keeps its history. Default: true.",
    ),
];

const WHAT: &[Key] = &[
    key(
        "name",
        Shape::Text,
        "What a person calls it. Default: its id.",
    ),
    key("prompt", Shape::Prompt, "What the agent is asked."),
    key(
        "prompt_file",
        Shape::Path,
        "A text file that holds the prompt, relative to the jobs file.",
    ),
    key(
        "agent",
        Shape::AgentName,
        "The agent. Default: the chat's, else `defaults.agent`, else the only one.",
    ),
    key(
        "memory",
        Shape::Flag,
        "Whether a background job remembers its own earlier runs. Default: false.",
    ),
    key(
        "context",
        Shape::Table(&CONTEXT),
        "A snapshot of a chat that is quoted to the agent of a background job.",
    ),
];

const WHERE: &[Key] = &[
    key(
        "chat",
        Shape::ChatName,
        "Makes it an in-chat job: a turn in this chat, answered there and nowhere else.",
    ),
    key(
        "deliver",
        Shape::TextOrTable(&Shape::ChatName, &WEBHOOK),
        "Makes it a background job: its result goes to this chat, to a webhook, or with `history` nowhere.",
    ),
];

pub(super) const POLICIES: &[Key] = &[
    key(
        "catch_up",
        Shape::Word {
            accepted: &["latest", "none", "all"],
        },
        "What happens to slots missed while nothing ran: the newest one runs, none, or all one after another. Default: latest.",
    ),
    key(
        "catch_up_window",
        Shape::Duration(Shortest::Zero),
        "How late a slot may still start. Default: until the job's next slot, 5 minutes to 24 hours; with `all` any time.",
    ),
    key(
        "catch_up_spread",
        Shape::Duration(Shortest::Zero),
        "Over how long the late starts of different jobs are spread. Default: 1m.",
    ),
    key(
        "overlap",
        Shape::Word {
            accepted: &[
                "skip",
                "buffer-one",
                "buffer-all",
                "cancel-running",
                "allow",
            ],
        },
        "What a slot does that meets a run of the same job: it is skipped, waits, calls the run off, or starts beside it. Default: skip.",
    ),
    key(
        "retry",
        Shape::Table(&RETRY),
        "How often a transient failure is tried again. Default: 3 attempts, 30s and 2m apart.",
    ),
    key(
        "timeout",
        Shape::Duration(Shortest::OneSecond),
        "How long one attempt may take. Default: 10m.",
    ),
    key(
        "on_interrupt",
        Shape::Word {
            accepted: &["retry", "fail"],
        },
        "What happens to a run whose process died. Default: retry.",
    ),
    key(
        "max_runs",
        Shape::Integer {
            min: 1,
            max: 1_000_000_000,
        },
        "After how many started scheduled runs the job ends. Default: never.",
    ),
    key(
        "jitter",
        Shape::Duration(Shortest::Zero),
        "The width of the window after the slot in which the start is drawn. Default: 0s.",
    ),
    key(
        "on_unknown",
        Shape::Word {
            accepted: &["hold", "resend"],
        },
        "What happens to a message of which nobody can say whether the chat showed it: it waits for a person, or is sent again. Default: hold.",
    ),
    key(
        "retry_after_effects",
        Shape::Flag,
        "Whether an attempt that has sent something, or had another effect, is tried again like any other. Default: false.",
    ),
    key(
        "pause_after_failures",
        Shape::Integer {
            min: 1,
            max: 1_000_000,
        },
        "After how many failed scheduled runs in a row the job pauses itself. Default: never.",
    ),
    key(
        "alert",
        Shape::FalseOrTable(&ALERT),
        "When a person is told that the job fails. Default: after 2 failures in a row, once an incident.",
    ),
    key(
        "alert_to",
        Shape::ChatName,
        "The chat that is told. Default: the chat in which the job is answered.",
    ),
    key(
        "late",
        Shape::Word {
            accepted: &["label", "withhold"],
        },
        "What happens to a background result long after its slot: it says so, or it is not sent. Default: label.",
    ),
    key(
        "late_after",
        Shape::Duration(Shortest::OneSecond),
        "How long after its slot a result is late. Default: 3h.",
    ),
];

static RETRY: Table = Table {
    what: "`retry`",
    doc: "How often a transient failure is tried again, inside the occurrence.",
    groups: &[&[
        key(
            "attempts",
            Shape::Integer { min: 1, max: 100 },
            "All attempts, the first one included. Default: 3.",
        ),
        key(
            "backoff",
            Shape::OneOrList(&Shape::Duration(Shortest::Zero)),
            "The wait before the second, third, ... attempt; the last one repeats. Default: 30s, 2m.",
        ),
    ]],
    rules: &[],
};

static ALERT: Table = Table {
    what: "`alert`",
    doc: "When a person is told that a job fails: once an incident.",
    groups: &[&[
        key(
            "after",
            Shape::Integer { min: 1, max: 1_000 },
            "After so many failures in a row of one cause. Default: 2.",
        ),
        key(
            "cooldown",
            Shape::Duration(Shortest::Zero),
            "For so long after an alert a new incident of the same cause is silent. Default: 1h.",
        ),
    ]],
    rules: &[],
};

static CONTEXT: Table = Table {
    what: "`context`",
    doc: "A snapshot of a chat, taken once per occurrence.",
    groups: &[&[
        required("chat", Shape::ChatName, "The chat that is quoted."),
        key(
            "last",
            Shape::Integer { min: 1, max: 1_000 },
            "How many of its last visible texts, at most. Default: 20.",
        ),
    ]],
    rules: &[],
};

static WEBHOOK: Table = Table {
    what: "`deliver` to a webhook",
    doc: "A URL that results are posted to.",
    groups: &[&[required("webhook", Shape::Url, "The URL.")], WEBHOOK_POST],
    rules: &[],
};
