//! Turns of people, and the replies to them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{message::Origin, worker::TurnRows};

use super::{At, Part};

/// A turn of a person.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Turn {
    turn_id: i64,
    session_key: String,
    #[schema(value_type = TurnState)]
    state: String,
    requested_at: At,
    started_at: Option<At>,
    ended_at: Option<At>,
    /// Why it failed.
    error: Option<String>,
    /// What the agent replied, as far as it is known; null where it said nothing.
    reply: Option<String>,
    /// The messages of the turn: its reply, and what tools have sent.
    parts: Vec<Part>,
}

/// How a turn stands.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "the schema of a word")]
enum TurnState {
    Waiting,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl From<&TurnRows> for Turn {
    fn from(rows: &TurnRows) -> Self {
        let turn = &rows.turn;
        let replies = rows
            .parts
            .iter()
            .filter(|part| part.origin == Origin::TurnReply);
        let texts: Vec<&str> = replies.filter_map(|part| part.text.as_deref()).collect();
        Self {
            turn_id: turn.turn_id.0,
            session_key: turn.session_key.as_str().to_owned(),
            state: turn.state.clone(),
            requested_at: At(turn.requested_at),
            started_at: turn.started_at.map(At),
            ended_at: turn.ended_at.map(At),
            error: turn.error.clone(),
            reply: (!texts.is_empty()).then(|| texts.join("\n")),
            parts: rows.parts.iter().map(Part::from).collect(),
        }
    }
}
