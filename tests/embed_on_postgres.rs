//! The tests of `embed.rs` and `embed_turns.rs` once more, on databases of a PostgreSQL server:
//! `tests/embed/place.rs` chooses the database by the name of this binary.
#![cfg(feature = "postgres")]
#![allow(
    clippy::duplicate_mod,
    reason = "each of these files is a test binary of its own, with a place of its own"
)]

#[path = "embed.rs"]
mod embed;
#[path = "embed_turns.rs"]
mod embed_turns;
