//! What is wrong with a jobs file: one problem, where it is, and what would be right.
//!
//! Turning problems into text for people is the command line's work.

use std::ops::Range;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What has it is left out.
    Error,
    /// It works, and may not be what was meant.
    Warning,
}

impl Level {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// What kind of problem it is: a stable word for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The stable word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

codes! {
    /// The file is not TOML, so nothing in it counts.
    NotToml = "not-toml",
    /// A key or table is there twice, so the file is not TOML.
    DuplicateKey = "duplicate-key",
    /// Nothing has this name here.
    UnknownKey = "unknown-key",
    /// The key belongs to another kind of agent or channel.
    OtherKindKey = "other-kind-key",
    /// A key that must be there is not.
    MissingKey = "missing-key",
    /// A TOML type that the key does not take.
    WrongType = "wrong-type",
    /// A word or number that the key does not take.
    BadValue = "bad-value",
    /// A name of a job, chat, channel or agent with other characters than names have.
    BadName = "bad-name",
    /// A name that means something else.
    ReservedName = "reserved-name",
    /// Not a duration with units.
    BadDuration = "bad-duration",
    /// Not a time of day.
    BadTime = "bad-time",
    /// Not a date, or not a date with a time.
    BadDate = "bad-date",
    /// Not days of the week.
    BadDays = "bad-days",
    /// Not an IANA zone.
    BadZone = "bad-zone",
    /// Not a cron expression.
    BadCron = "bad-cron",
    /// Not an absolute `http` or `https` URL.
    BadUrl = "bad-url",
    /// An address that the channel cannot have, or none where it needs one.
    BadAddress = "bad-address",
    /// Not the name of an environment variable.
    BadEnvName = "bad-env-name",
    /// A secret in clear.
    SecretInFile = "secret-in-file",
    /// Two sources for one secret.
    TwoSecrets = "two-secrets",
    /// A secret that is needed has no source.
    NoSecret = "no-secret",
    /// No chat has this name.
    UnknownChat = "unknown-chat",
    /// No agent has this name.
    UnknownAgent = "unknown-agent",
    /// No channel has this name.
    UnknownChannel = "unknown-channel",
    /// Nothing says which agent is meant.
    NoAgent = "no-agent",
    /// Two chats are the same conversation.
    SameChat = "same-chat",
    /// A job has both `chat` and `deliver`.
    BothModes = "both-modes",
    /// A job has neither `chat` nor `deliver`.
    NoMode = "no-mode",
    /// A job says in more than one way when it runs.
    ManySchedules = "many-schedules",
    /// A job does not say when it runs.
    NoSchedule = "no-schedule",
    /// `days` without `daily`.
    DaysWithoutDaily = "days-without-daily",
    /// `anchor` without `every`.
    AnchorWithoutEvery = "anchor-without-every",
    /// Both `prompt` and `prompt_file`.
    TwoPrompts = "two-prompts",
    /// Neither `prompt` nor `prompt_file`.
    NoPrompt = "no-prompt",
    /// A prompt without words.
    EmptyPrompt = "empty-prompt",
    /// A prompt file that cannot be read.
    PromptFile = "prompt-file",
    /// A command agent without a command.
    EmptyArgv = "empty-argv",
    /// `memory` or `context` on an in-chat job.
    BackgroundOnly = "background-only",
    /// Wall time without a zone.
    NoZone = "no-zone",
    /// `until` is not after `from`.
    EmptyBounds = "empty-bounds",
    /// A key that changes nothing about this job.
    NoEffect = "no-effect",
    /// A schedule that never comes.
    Never = "never",
    /// The jitter would reach the following slot.
    WideJitter = "wide-jitter",
    /// Policies that contradict each other, or what the job is.
    Contradiction = "contradiction",
    /// The only time of an `at` job has passed.
    Past = "past",
    /// The job's `until` has passed.
    AlreadyOver = "already-over",
    /// A time that the zone's next clock change skips or repeats.
    ClockChange = "clock-change",
    /// A cron expression that names days of the month and of the week.
    EitherDay = "either-day",
    /// Not a scenario's moment, stretch, share or run time; or a window that is none.
    BadScenario = "bad-scenario",
    /// An expectation that nothing could meet.
    ImpossibleExpectation = "impossible-expectation",
    /// No job has this name.
    UnknownJob = "unknown-job",
    /// More jobs come due in one minute than may run at once.
    Herd = "herd",
    /// Jobs whose failures are told to nobody.
    NobodyTold = "nobody-told",
    /// A job comes due again before its run has ended.
    ShortPeriod = "short-period",
    /// The job's agent is not the chat's.
    AgentDiffers = "agent-differs",
    /// A quoted chat is not the chat that gets the result.
    ContextElsewhere = "context-elsewhere",
}

/// A place in the file and what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Byte range in the source.
    pub span: Range<usize>,
    /// What is there.
    pub text: String,
}

/// One thing that is wrong, or may not be what was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub level: Level,
    /// What kind of problem it is.
    pub code: Code,
    /// What was found.
    pub message: String,
    /// Byte range in the source.
    pub span: Range<usize>,
    /// What is at the span; may be empty.
    pub label: String,
    /// Other places that matter.
    pub secondary: Vec<Label>,
    /// What to do, or what is accepted.
    pub help: Option<String>,
    /// The job that it is in, as named in the file.
    pub job: Option<String>,
    /// The name in the header of the table that it is in.
    pub header: Option<Range<usize>>,
}

impl Problem {
    /// A problem that leaves something out.
    pub(super) fn error(code: Code, span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            level: Level::Error,
            code,
            message: message.into(),
            span,
            label: String::new(),
            secondary: Vec::new(),
            help: None,
            job: None,
            header: None,
        }
    }

    /// A problem that leaves nothing out.
    pub(super) fn warning(code: Code, span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            level: Level::Warning,
            ..Self::error(code, span, message)
        }
    }

    pub(super) fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }

    pub(super) fn also(mut self, span: Range<usize>, text: impl Into<String>) -> Self {
        self.secondary.push(Label {
            span,
            text: text.into(),
        });
        self
    }

    pub(super) fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }
}

/// A line and a column, counted from 1; columns are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Position {
    /// Where a byte of the source is.
    pub fn of(source: &str, offset: usize) -> Self {
        let offset = (0..=offset.min(source.len()))
            .rev()
            .find(|at| source.is_char_boundary(*at))
            .unwrap_or(0);
        let before = &source[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}
