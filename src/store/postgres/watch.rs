//! Noticing that somebody has committed.
//!
//! Every commit that changes something notifies the channel `chatcron`. It is a hint and no more: a
//! notification that is lost with its connection is made up for by looking again, and a worker looks
//! at everything every 30 s anyway.

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgListener},
};

use super::address;

const CHANNEL: &str = "chatcron";

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

    async fn listen(&mut self) -> Result<PgListener, sqlx::Error> {
        let mut listener = PgListener::connect_with(&self.connections).await?;
        listener.listen(CHANNEL).await?;
        self.seen += 1;
        Ok(listener)
    }
}
