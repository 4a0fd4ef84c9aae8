//! Sessions: what a turn is given, and what becomes of its answer.
//!
//! Reading and appending rows is the store's work, showing them the outbound writer's; here is
//! what a turn of a person, of an in-chat job and of a background job have in common and do not.

mod agents;
mod ask;
mod reply;
mod window;

pub use agents::Agents;
pub use ask::{AskError, ask_for_run, ask_for_turn};
pub use reply::{
    AnsweredHere, SILENCE, Said, run_rows, said, turn_rows, unanswered_rows, unanswered_turn_rows,
};
pub use window::recall;
