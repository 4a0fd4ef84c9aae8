//! Noticing that somebody has committed.
//!
//! Every commit that changes something notifies the channel `chatcron`, so that what one process has
//! written another takes up at once. It is a hint and no more: a notification that is lost with its connection is made up for by looking again, and a worker looks
//! at everything every 30 s anyway.

use std::time::Duration;

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgListener},
};

use super::address;
use crate::store::sql::UNTOLD_WAIT;

const CHANNEL: &str = "chatcron";

/// Notifications that come this soon after one another are one: a busy database wakes nobody for
/// each commit.
const TOGETHER: Duration = Duration::from_millis(30);

const LOOK: &str = "SELECT 1";

/// A connection that listens.
#[derive(Debug)]
pub(super) struct Watch {
    connections: PgPool,
    listener: Option<PgListener>,
    seen: i64,
}

impl Watch {
    /// Listens from the first time that it is asked.
    pub(super) fn start(options: PgConnectOptions) -> Self {
        Self {
            connections: address::pool(1).connect_lazy_with(options),
            listener: None,
            seen: 0,
        }
    }

    /// A number that changes with every commit that is noticed.
    pub(super) async fn token(&mut self) -> Result<i64, sqlx::Error> {
        let mut listener = match self.listener.take() {
            Some(listener) => listener,
            None => self.listen().await?,
        };
        // The server sends what it has to tell before its answer. Where that fails the listener is
        // dropped, and the next one begins with another number: nobody knows what was missed.
        sqlx::query(LOOK).execute(&mut listener).await?;
        while listener.next_buffered().is_some() {
            self.seen += 1;
        }
        self.listener = Some(listener);
        Ok(self.seen)
    }

    /// Waits for a notification, or for so long at most.
    pub(super) async fn wait(&mut self, at_most: Duration) {
        let Some(listener) = &mut self.listener else {
            return tokio::time::sleep(at_most.min(UNTOLD_WAIT)).await;
        };
        match tokio::time::timeout(at_most, listener.try_recv()).await {
            Err(_nobody_told) => {}
            Ok(Ok(Some(_))) => {
                self.seen += 1;
                tokio::time::sleep(TOGETHER).await;
            }
            // The connection is gone, and nobody knows what was missed.
            Ok(Ok(None) | Err(_)) => self.listener = None,
        }
    }

    async fn listen(&mut self) -> Result<PgListener, sqlx::Error> {
        let mut listener = PgListener::connect_with(&self.connections).await?;
        listener.listen(CHANNEL).await?;
        self.seen += 1;
        Ok(listener)
    }
}
