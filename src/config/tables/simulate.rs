//! The keys of `[simulate]`, which are those of a scenario file.

use super::key;
use crate::config::keys::{Rule, Shape, Shortest, Table};
use crate::config::problem::Code;

/// A scenario.
pub(in crate::config) static SIMULATE: Table = Table {
    what: "`[simulate]`",
    doc: "What `chatcron simulate` is told about the world, and what it must come to.",
    groups: &[&[
        key(
            "from",
            Shape::Text,
            "The beginning of the window: `2026-12-01T08:00` in the file's zone, `2026-12-01` or an instant with an offset. Default: today.",
        ),
        key("to", Shape::Text, "The end of the window; exclusive."),
        key(
            "for",
            Shape::Duration(Shortest::OneSecond),
            "The length of the window, in the place of `to`.",
        ),
        key(
            "seed",
            Shape::Integer {
                min: 0,
                max: i64::MAX,
            },
            "What chance depends on. Default: 0.",
        ),
        key(
            "outage",
            Shape::OneOrList(&Shape::Text),
            "When the process is down: `FROM..TO`.",
        ),
        key(
            "clock_step",
            Shape::OneOrList(&Shape::Text),
            "When the machine's clock is set, and by how much: `AT=+1h`.",
        ),
        key(
            "run_time",
            Shape::Text,
            "How long an attempt takes: `30s`, or drawn from `10s..2m`. Default: 30s.",
        ),
        key(
            "run_times",
            Shape::TextMap,
            "How long an attempt of each of these jobs takes.",
        ),
        key(
            "fail",
            Shape::TextMap,
            "When attempts of a job fail: a share such as `10%`, a moment, or a stretch `FROM..TO`.",
        ),
        key(
            "channel_fail",
            Shape::TextMap,
            "Which share of the sends to a chat is refused, such as `10%`.",
        ),
        key(
            "max_concurrent",
            Shape::Integer {
                min: 1,
                max: 10_000,
            },
            "How many job runs may be in progress at once. Default: the file's.",
        ),
        key(
            "expect",
            Shape::ListOrEmpty(&Shape::Table(&EXPECT)),
            "What the simulation must come to.",
        ),
    ]],
    rules: &[Rule::AtMostOne {
        keys: &[
            ("to", "ends the window there"),
            ("for", "ends the window after so long"),
        ],
        many: (Code::BadScenario, "keep one of `to` and `for`"),
    }],
};

const COUNT: Shape = Shape::Integer {
    min: 0,
    max: i64::MAX,
};

static EXPECT: Table = Table {
    what: "an expectation",
    doc: "What a simulation must come to.",
    groups: &[&[
        key(
            "job",
            Shape::Text,
            "Of this job. Default: counts are those of all jobs together, and everything else must hold of each.",
        ),
        key("starts", COUNT, "Exactly so many runs start."),
        key("starts_min", COUNT, "At least so many runs start."),
        key("starts_max", COUNT, "At most so many runs start."),
        key("failed", COUNT, "Exactly so many occurrences are given up."),
        key("skipped", COUNT, "Exactly so many slots do not run."),
        key(
            "max_lateness",
            Shape::Duration(Shortest::Zero),
            "No run starts later after its slot than this.",
        ),
        key(
            "never_between",
            Shape::Text,
            "No run starts in these hours of the job's zone: `23:00..06:00`.",
        ),
        key(
            "peak_concurrency_max",
            COUNT,
            "At most so many attempts are under way at once, of all jobs.",
        ),
        key(
            "no_skips",
            Shape::OneOrList(&Shape::Word {
                accepted: &[
                    "paused",
                    "overlap",
                    "missed",
                    "superseded",
                    "excluded",
                    "no-such-date",
                ],
            }),
            "No slot is skipped for these reasons.",
        ),
        key(
            "slots",
            Shape::ListOrEmpty(&Shape::DateTime),
            "These slots start, as wall time in the job's zone, and no other; one that is named twice starts twice.",
        ),
    ]],
    rules: &[],
};
