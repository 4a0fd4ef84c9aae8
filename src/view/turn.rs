//! Turns of people, and the replies to them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    ids::TurnId,
    message::Origin,
    store::{OutboxRow, Store, StoreError, TurnRow},
};

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

/// What is known of a turn.
#[derive(Debug)]
pub(crate) struct TurnRows {
    pub(crate) turn: TurnRow,
    pub(crate) parts: Vec<OutboxRow>,
}

impl TurnRows {
    /// Whether it has ended and every part of its messages is settled.
    pub(crate) fn is_over(&self) -> bool {
        let is_open = matches!(self.turn.state.as_str(), "waiting" | "running");
        !is_open && self.parts.iter().all(|part| part.state.is_settled())
    }
}

/// A turn and its messages; `None` where there is none.
///
/// # Errors
/// [`StoreError`] where the store cannot be read.
pub(crate) async fn turn(store: &dyn Store, id: TurnId) -> Result<Option<TurnRows>, StoreError> {
    // Its parts are committed with its end: looked at after it, none is missed.
    let Some(turn) = store.turn(id).await? else {
        return Ok(None);
    };
    let parts = store.turn_parts(id).await?;
    Ok(Some(TurnRows { turn, parts }))
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
