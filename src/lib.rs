//! chatcron schedules the jobs of chat agents: each runs at its time, exactly once, as an agent
//! turn, and its result shows in exactly one place.
//!
//! A program that embeds it builds a [`Chatcron`], with [`Agent`]s and [`Channel`]s of its own, and
//! starts a worker:
//!
//! ```no_run
//! use chatcron::{Chatcron, JobDraft};
//! # use chatcron::{Agent, Channel, Chat};
//! # async fn gateway(my_agent: impl Agent, my_channel: impl Channel, me: Chat)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let chatcron = Chatcron::builder()
//!     .database("sqlite:chatcron.db")
//!     .agent("main", my_agent)
//!     .channel("phone", my_channel)
//!     .chat(me)
//!     .timezone("Europe/Paris")
//!     .build()
//!     .await?;
//! let worker = chatcron.start().await?;
//! let budget = JobDraft::new("budget")
//!     .set("daily", "08:00")
//!     .set("deliver", "me")
//!     .set("prompt", "How much is left?");
//! chatcron.jobs().create(budget, "ada").await?;
//! worker.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! `docs/embedding.md` has the rest. A pure core decides and a thin shell acts;
//! `docs/ARCHITECTURE.md` has the map. What this documentation names is public, and nothing else; the
//! feature `testing` opens the modules behind it to the tests of this package, and what it opens
//! changes without notice.

// The items of internal modules are `pub` for tests: with `testing` the lint holds.
#![cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
// What public functions take and return has a public name.
#![cfg_attr(not(feature = "testing"), warn(unnameable_types))]
// A build without the binary leaves over what only commands use; the binary's build says what nobody
// uses.
#![cfg_attr(not(feature = "cli"), allow(dead_code))]
#![cfg_attr(not(any(feature = "cli", feature = "testing")), allow(unused_imports))]

// Data that the interface speaks of.
pub mod directory;
pub mod ids;
pub mod job;
pub mod message;
pub mod occurrence;
pub mod transcript;

// What is behind the interface, each module twice: opened for tests, and as it is for everybody else.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod audit;
#[cfg(not(feature = "testing"))]
mod audit;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod config;
#[cfg(not(feature = "testing"))]
mod config;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod hygiene;
#[cfg(not(feature = "testing"))]
mod hygiene;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod policy;
#[cfg(not(feature = "testing"))]
mod policy;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod replay;
#[cfg(not(feature = "testing"))]
mod replay;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod schedule;
#[cfg(not(feature = "testing"))]
mod schedule;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod simulate;
#[cfg(not(feature = "testing"))]
mod simulate;

#[cfg(all(feature = "runtime", feature = "testing"))]
#[doc(hidden)]
pub mod agent;
#[cfg(all(feature = "runtime", not(feature = "testing")))]
mod agent;
#[cfg(all(feature = "runtime", feature = "testing"))]
#[doc(hidden)]
pub mod channel;
#[cfg(all(feature = "runtime", not(feature = "testing")))]
mod channel;
#[cfg(all(feature = "runtime", feature = "testing"))]
#[doc(hidden)]
pub mod clock;
#[cfg(all(feature = "runtime", not(feature = "testing")))]
mod clock;
#[cfg(all(feature = "sqlite", feature = "testing"))]
#[doc(hidden)]
pub mod embed;
#[cfg(all(feature = "sqlite", not(feature = "testing")))]
mod embed;
#[cfg(all(feature = "http-api", feature = "testing"))]
#[doc(hidden)]
pub mod http;
#[cfg(all(feature = "http-api", not(feature = "testing")))]
mod http;
#[cfg(all(feature = "http-client", feature = "testing"))]
#[doc(hidden)]
pub mod http_client;
#[cfg(all(feature = "http-client", not(feature = "testing")))]
mod http_client;
#[cfg(feature = "runtime")]
mod measure;
#[cfg(all(feature = "runtime", feature = "testing"))]
#[doc(hidden)]
pub mod outbound;
#[cfg(all(feature = "runtime", not(feature = "testing")))]
mod outbound;
#[cfg(all(feature = "runtime", feature = "testing"))]
#[doc(hidden)]
pub mod secret;
#[cfg(all(feature = "runtime", not(feature = "testing")))]
mod secret;
#[cfg(all(feature = "runtime", feature = "testing"))]
#[doc(hidden)]
pub mod session;
#[cfg(all(feature = "runtime", not(feature = "testing")))]
mod session;
#[cfg(all(feature = "runtime", feature = "testing"))]
#[doc(hidden)]
pub mod store;
#[cfg(all(feature = "runtime", not(feature = "testing")))]
mod store;
#[cfg(feature = "http-api")]
mod view;
#[cfg(feature = "sqlite")]
pub(crate) mod wiring;
#[cfg(all(feature = "runtime", feature = "testing"))]
#[doc(hidden)]
pub mod worker;
#[cfg(all(feature = "runtime", not(feature = "testing")))]
mod worker;

// For `src/main.rs`.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

pub use config::{
    Code as ProblemCode, InvalidJob, JobDraft, Label as ProblemLabel, Level as ProblemLevel,
    Problem,
};
pub use directory::{Chat, Permission};
pub use policy::QUEUE_MAX;

#[cfg(feature = "runtime")]
pub use {
    agent::{
        Agent, AgentError, AgentReply, AgentTurn, EffectReporter, ReportError, ToolCall,
        ToolOutput, Toolbox, Tools, Usage,
    },
    channel::{Ability, Channel, OutgoingBody, OutgoingPart, TextLimit, TextUnit},
    clock::{Clock, SystemClock},
    outbound::verify::{Finding, FindingKind, Report, ShownLine},
    policy::{FailedSlots, Refill, Refusal},
    replay::Tool,
    schedule::{
        ScheduleError,
        cron::{CronError, Field as CronField},
    },
    store::{
        AttemptRow, DeliveryCounts, DiagnosticRow, Level as DiagnosticLevel, OutboxRow,
        OutboxScope, PostedBy, RangeCursor, RangeRow, Resolution, RunCursor, RunFilter, RunRow,
        StoreError, TurnRow, WindowOf,
    },
    worker::{
        ApplyError, BackfillError, Event, EventReader, Happened, HousekeepingError, JobChange,
        JobError, JobsChange, Missed, PastSlot, Stretch,
    },
};

/// What a [`Channel`] needs that also brings in what people write.
#[cfg(feature = "runtime")]
pub mod inbound {
    pub use crate::channel::inbound::{
        Arrived, Inbound, InboundEvent, InboundPlace, PollError, Position, Said,
    };
}

#[cfg(feature = "postgres")]
pub use store::postgres::AddressError;

#[cfg(feature = "sqlite")]
pub use embed::{
    Accepted, BuildError, Builder, Chatcron, DatabaseUrlError, Ended, HandedBack, JobView, Jobs,
    NewJob, Outbound, OutboundMessage, Outbox, OwnOrigin, ReadError, ReloadError, Reply, RunDetail,
    RunningWorker, Runs, SendError, Sessions, StartError, To, Transcripts, Turn, TurnError,
    UnknownChat, UnreadableFile, UserMessage,
};

#[cfg(feature = "http-api")]
pub use http::{AccessError, Listen, ServeError};

/// The examples of the documentation, which are compiled with the tests.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../docs/embedding.md")]
struct Embedding;
