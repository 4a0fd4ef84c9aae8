//! chatcron schedules the jobs of chat agents: each runs at its time, exactly once, as an agent
//! turn, and its result shows in exactly one place.
//!
//! A pure core decides and a thin shell acts; `docs/ARCHITECTURE.md` has the map.

pub mod audit;
pub mod config;
pub mod directory;
pub mod hygiene;
pub mod ids;
pub mod job;
pub mod message;
pub mod occurrence;
pub mod policy;
pub mod replay;
pub mod schedule;
pub mod simulate;
pub mod transcript;

#[cfg(feature = "runtime")]
pub mod agent;
#[cfg(feature = "runtime")]
pub mod channel;
#[cfg(feature = "runtime")]
pub mod clock;
#[cfg(feature = "sqlite")]
pub mod embed;
#[cfg(feature = "http-api")]
pub mod http;
#[cfg(feature = "http-client")]
pub mod http_client;
#[cfg(feature = "runtime")]
mod measure;
#[cfg(feature = "runtime")]
pub mod outbound;
#[cfg(feature = "runtime")]
pub mod secret;
#[cfg(feature = "runtime")]
pub mod session;
#[cfg(feature = "runtime")]
pub mod store;
#[cfg(feature = "http-api")]
mod view;
#[cfg(feature = "sqlite")]
pub(crate) mod wiring;
#[cfg(feature = "runtime")]
pub mod worker;

#[cfg(feature = "cli")]
pub mod cli;
