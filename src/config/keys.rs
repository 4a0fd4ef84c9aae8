//! How the keys of a table are declared: name, shape, doc line, and since when.
//!
//! The declarations themselves are in `tables`. The walk, the lists of what is accepted and the
//! JSON Schema all read them, so that the three cannot drift apart.

use super::{nearest::listed, problem::Code};

/// What `deliver` says for "run history only", and so the name of no chat.
pub(super) const HISTORY: &str = "history";

/// One kind of TOML table.
pub(super) struct Table {
    /// What has these keys, with its article: "a job".
    pub(super) what: &'static str,
    /// One sentence for people.
    pub(super) doc: &'static str,
    /// The keys, grouped so that tables can share a group.
    pub(super) groups: &'static [&'static [Key]],
    /// What must hold between keys.
    pub(super) rules: &'static [Rule],
}

/// One key.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) doc: &'static str,
    pub(super) since: &'static str,
    pub(super) need: Need,
}

/// Whether a key must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    Optional,
}

/// What a value looks like.
pub(super) enum Shape {
    /// Any text.
    Text,
    /// Text with at least one character that is not white space.
    Prompt,
    /// The name of a chat.
    ChatName,
    /// The name of an agent.
    AgentName,
    /// The name of a channel.
    ChannelName,
    /// The name of an environment variable.
    EnvName,
    /// A path, relative to the jobs file.
    Path,
    /// An absolute `http` or `https` URL.
    Url,
    /// An IANA zone.
    Zone,
    /// A cron expression.
    Cron,
    /// A duration with units.
    Duration(Shortest),
    /// A time of day.
    Time,
    /// A date.
    Date,
    /// A date with a time of day.
    DateTime,
    /// A date, or a date with a time of day.
    Moment,
    /// A date with a time of day, and possibly an offset from UTC.
    Instant,
    /// Days of the week.
    Days,
    /// A whole number.
    Integer { min: i64, max: i64 },
    /// A number.
    Number { min: f64, max: f64 },
    /// `true` or `false`.
    Flag,
    /// One of some words.
    Word { accepted: &'static [&'static str] },
    /// A program and its arguments: a list of at least one text.
    Argv,
    /// A list that may be empty.
    ListOrEmpty(&'static Shape),
    /// One item, or a list of at least one.
    OneOrList(&'static Shape),
    /// A table.
    Table(&'static Table),
    /// Text, or a table.
    TextOrTable(&'static Shape, &'static Table),
    /// `false`, or a table.
    FalseOrTable(&'static Table),
    /// A table of texts under names of one's own.
    TextMap,
    /// Tables under names of one's own: `[jobs.ID]`.
    Entries { kind: EntryKind, table: EntryTable },
}

/// The shortest duration that makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shortest {
    Zero,
    OneSecond,
}

/// What named tables are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    Job,
    Chat,
    Channel,
    Agent,
}

impl EntryKind {
    /// The word for one of them.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Chat => "chat",
            Self::Channel => "channel",
            Self::Agent => "agent",
        }
    }
}

/// The keys of a named table.
pub(super) enum EntryTable {
    /// All have the same keys.
    Plain(&'static Table),
    /// The keys depend on the word under `kind`.
    ByKind {
        kinds: &'static [(&'static str, &'static Table)],
    },
}

/// What must hold between the keys of one table.
pub(super) enum Rule {
    /// Exactly one of these keys; each with a label that says what it does.
    ExactlyOne {
        keys: &'static [(&'static str, &'static str)],
        many: (Code, &'static str),
        none: (Code, &'static str),
    },
    /// At most one of these keys.
    AtMostOne {
        keys: &'static [(&'static str, &'static str)],
        many: (Code, &'static str),
    },
    /// A key that means nothing without another.
    Needs {
        key: &'static str,
        other: &'static str,
        code: Code,
        help: &'static str,
    },
    /// A key that has no place beside another.
    Excludes {
        key: &'static str,
        other: &'static str,
        code: Code,
        help: &'static str,
    },
}

impl Table {
    /// All keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// The declaration of a key.
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }

    /// "`a`, `b` and `c`".
    pub(super) fn accepted(&self) -> String {
        listed(self.keys().map(|key| key.name), "and")
    }
}

impl Shape {
    /// What is accepted, for people.
    pub(super) fn accepted(&self) -> String {
        match self {
            Self::Text => String::from("text in quotes"),
            Self::Prompt => String::from("text in quotes, not empty"),
            Self::ChatName => String::from("the name of a chat, in quotes"),
            Self::AgentName => String::from("the name of an agent, in quotes"),
            Self::ChannelName => String::from("the name of a channel, in quotes"),
            Self::EnvName => String::from("the name of an environment variable, in quotes"),
            Self::Path => String::from("a path in quotes, relative to this file"),
            Self::Url => String::from("an absolute `http` or `https` URL, in quotes"),
            Self::Zone => String::from("an IANA zone such as `\"Europe/Berlin\"`"),
            Self::Cron => String::from("a cron expression such as `\"0 8 * * mon-fri\"`"),
            Self::Duration(_) => String::from(
                "a number with `s`, `m`, `h` or `d`, in quotes: `\"30s\"`, `\"5m\"`, `\"2h\"`, `\"1d\"`, `\"1h30m\"`",
            ),
            Self::Time => String::from("a time of day such as `\"08:00\"`"),
            Self::Date => String::from("a date such as `\"2026-12-24\"`"),
            Self::DateTime => String::from("a date with a time such as `\"2026-12-24T18:00\"`"),
            Self::Moment => String::from(
                "a date such as `\"2026-12-24\"`, or with a time: `\"2026-12-24T18:00\"`",
            ),
            Self::Instant => String::from(
                "a date with a time such as `\"2026-12-24T18:00\"`, or with an offset: `\"2026-12-24T18:00:00Z\"`",
            ),
            Self::Days => String::from("days such as `\"mon-fri\"` or `\"sat,sun\"`"),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::Flag => String::from("`true` or `false`"),
            Self::Word { accepted } => listed(accepted.iter().copied(), "or"),
            Self::Argv => String::from("a list of texts: the program, then its arguments"),
            Self::ListOrEmpty(item) => format!("a list; each item is {}", item.accepted()),
            Self::OneOrList(item) => format!("{}, or a list of them", item.accepted()),
            Self::Table(table) => format!("a table with {}", table.accepted()),
            Self::TextOrTable(text, table) => {
                format!("{}, or a table with {}", text.accepted(), table.accepted())
            }
            Self::FalseOrTable(table) => {
                format!("`false`, or a table with {}", table.accepted())
            }
            Self::TextMap => String::from("a table of texts"),
            Self::Entries { kind, .. } => {
                let word = kind.word();
                format!("a table for each {word}: `[{word}s.NAME]`")
            }
        }
    }
}
