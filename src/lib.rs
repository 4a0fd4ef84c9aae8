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
//! `docs/ARCHITECTURE.md` has the map. What is not named in this documentation can be reached by its
//! path for tests, and changes without notice.

// Data that the interface speaks of.
pub mod directory;
pub mod ids;
pub mod job;
pub mod message;
pub mod occurrence;
pub mod transcript;

#[doc(hidden)]
pub mod audit;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod hygiene;
#[doc(hidden)]
pub mod policy;
#[doc(hidden)]
pub mod replay;
#[doc(hidden)]
pub mod schedule;
#[doc(hidden)]
pub mod simulate;

#[cfg(feature = "runtime")]
#[doc(hidden)]
pub mod agent;
#[cfg(feature = "runtime")]
#[doc(hidden)]
pub mod channel;
#[cfg(feature = "runtime")]
#[doc(hidden)]
pub mod clock;
#[cfg(feature = "sqlite")]
#[doc(hidden)]
pub mod embed;
#[cfg(feature = "http-api")]
#[doc(hidden)]
pub mod http;
#[cfg(feature = "http-client")]
#[doc(hidden)]
pub mod http_client;
#[cfg(feature = "runtime")]
mod measure;
#[cfg(feature = "runtime")]
#[doc(hidden)]
pub mod outbound;
#[cfg(feature = "runtime")]
#[doc(hidden)]
pub mod secret;
#[cfg(feature = "runtime")]
#[doc(hidden)]
pub mod session;
#[cfg(feature = "runtime")]
#[doc(hidden)]
pub mod store;
#[cfg(feature = "http-api")]
mod view;
#[cfg(feature = "sqlite")]
pub(crate) mod wiring;
#[cfg(feature = "runtime")]
#[doc(hidden)]
pub mod worker;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

pub use config::{InvalidJob, JobDraft, Problem};
pub use directory::{Chat, Permission};

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
    store::{
        AttemptRow, DiagnosticRow, OutboxRow, OutboxScope, RangeRow, Resolution, RunFilter, RunRow,
        StoreError, TurnRow, WindowOf,
    },
    worker::{
        BackfillError, Event, EventReader, Happened, JobChange, JobError, JobsChange, Missed,
        PastSlot, Stretch,
    },
};

#[cfg(feature = "sqlite")]
pub use embed::{
    Accepted, BuildError, Builder, Chatcron, DatabaseUrlError, Ended, HandedBack, JobView, Jobs,
    NewJob, Outbound, OutboundMessage, Outbox, OwnOrigin, ReadError, ReloadError, Reply, RunDetail,
    RunningWorker, Runs, SendError, Sessions, StartError, To, Transcripts, Turn, TurnError,
    UnknownChat, UnreadableFile, UserMessage,
};

/// The examples of the documentation, which are compiled with the tests.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../docs/embedding.md")]
struct Embedding;
