//! THE outbound writer: everything a chat will show leaves through here.
//!
//! A message is composed into parts (`compose`), committed with the state change that caused it,
//! sent when its lane is free ([`Writer::send`], the only caller of `Channel::send`), and becomes
//! history in the transaction that records the channel's confirmation. [`verify`] compares that
//! history with what is outside the database.

pub mod alerts;
mod channels;
mod compose;
mod route;
pub mod verify;
mod writer;

pub use channels::Channels;
pub use compose::{Author, compose, compose_shown};
pub use route::route;
pub use writer::Writer;
#[cfg(feature = "http-api")]
pub(crate) use writer::note as posting_note;
