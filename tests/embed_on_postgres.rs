//! The library's own interface once more, on databases of a PostgreSQL server: the same files, whose
//! place (`tests/embed/place.rs`) sees by the name of this binary where it is.
#![cfg(feature = "postgres")]
#![allow(
    clippy::duplicate_mod,
    reason = "each of these files is a test binary of its own, with a place of its own"
)]

#[path = "embed.rs"]
mod embed;
#[path = "embed_turns.rs"]
mod embed_turns;
