//! How an agent says that an attempt has effects, so that the attempt is not repeated by itself.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::RwLock;

use crate::{
    clock::Clock,
    store::{Conflict, SentBy, Store, StoreError},
};

/// Records that an attempt of a run or a turn has effects: something that another attempt would do a
/// second time, such as an order, a mail or a write to a file. Copies of it report for the same
/// attempt.
///
/// An agent reports *before* the effect, and has the effect only if the report was taken: then an
/// attempt of which nothing was reported can be repeated, whenever its process died.
#[derive(Clone)]
pub struct EffectReporter {
    /// Where it is recorded; `None` where nothing depends on it.
    attempt: Option<Arc<Attempt>>,
    /// Reports hold it shared while they are written; whoever ends the attempt waits for them.
    is_over: Arc<RwLock<bool>>,
}

struct Attempt {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    by: SentBy,
    has_reported: AtomicBool,
}

/// Why a report was not taken. The effect must not follow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The attempt is over: it was called off, took too long, or was taken over.
    #[error("the attempt is over")]
    Over,
    /// It could not be recorded.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EffectReporter {
    /// For an attempt of a run, or a person's turn, under its lease.
    pub(crate) fn of(store: Arc<dyn Store>, by: SentBy, clock: Arc<dyn Clock>) -> Self {
        Self {
            attempt: Some(Arc::new(Attempt {
                store,
                clock,
                by,
                has_reported: AtomicBool::new(false),
            })),
            is_over: Arc::default(),
        }
    }

    /// For a turn of a test: its reports are taken and kept nowhere.
    #[cfg(any(test, feature = "testing"))]
    pub fn detached() -> Self {
        Self {
            attempt: None,
            is_over: Arc::default(),
        }
    }

    /// Reports that the attempt is about to have effects. When this returns `Ok`, the report is
    /// durable: whatever happens from then on, the attempt is not repeated, unless the job has
    /// `retry_after_effects = true`. Reporting again changes nothing.
    ///
    /// # Errors
    /// [`ReportError`] where the report was not taken; the effect must not follow then.
    pub async fn report(&self) -> Result<(), ReportError> {
        let is_over = self.is_over.read().await;
        if *is_over {
            return Err(ReportError::Over);
        }
        let Some(attempt) = &self.attempt else {
            return Ok(());
        };
        let now = attempt.clock.now();
        let taken = attempt.store.report_effects(attempt.by, now).await?;
        taken.map_err(|_: Conflict| ReportError::Over)?;
        attempt.has_reported.store(true, Ordering::Release);
        Ok(())
    }

    /// Ends the attempt: waits for reports that are being written, and takes no more.
    pub(crate) async fn close(&self) {
        *self.is_over.write().await = true;
    }

    /// Whether a report was taken.
    pub(crate) fn has_reported(&self) -> bool {
        let attempt = self.attempt.as_ref();
        attempt.is_some_and(|attempt| attempt.has_reported.load(Ordering::Acquire))
    }
}

impl fmt::Debug for EffectReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = self.attempt.as_ref().map(|attempt| attempt.by);
        f.debug_struct("EffectReporter").field("by", &by).finish()
    }
}
