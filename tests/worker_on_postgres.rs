//! The worker's scenarios once more, on databases of a PostgreSQL server: the same files, whose world
//! (`tests/support/world.rs`) sees by the name of this binary where it is.
#![cfg(feature = "postgres")]
#![allow(
    clippy::duplicate_mod,
    reason = "each of these files is a test binary of its own, with a world of its own"
)]

#[path = "alerts.rs"]
mod alerts;
#[path = "late.rs"]
mod late;
#[path = "parity.rs"]
mod parity;
#[path = "policies.rs"]
mod policies;
#[path = "worker.rs"]
mod worker;
