//! `chatcron accept-clock`, and what commands do while the machine's clock is not believed.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{Exit, database, failure::Failure, print, reading::Place, words},
    clock::{Clock, SystemClock},
    store::{Store, StoreError},
    worker::clock_doubt,
};

/// How often it is looked at again whether the clock is right, or confirmed.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Confirm that the machine's clock is right.
///
/// A clock that is more than a day ahead of what the database knows, or that was set forward by more
/// than a day while chatcron runs, is not believed: nothing is started until it is right again, or
/// confirmed by this.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let store = arguments.place.open_to_write().await?;
    let now = SystemClock.now();
    let failed = |error: StoreError| database::failure(&error);
    let doubt = clock_doubt(&*store, now).await.map_err(failed)?;
    store.see_clock(now).await.map_err(failed)?;
    print(&match doubt {
        Some(by) => format!(
            "the clock is believed, {} ahead of what the database knew: it is {now}\n",
            words::span(by)
        ),
        None => format!("the clock is believed, as it was: it is {now}\n"),
    })?;
    Ok(Exit::Fine)
}

/// Whether the clock is believed, or was confirmed just now; waits until it is. `false` where it is
/// asked to stop first.
///
/// # Errors
/// Where the store cannot be read or written.
pub(super) async fn until_believed(
    store: &dyn Store,
    accepted: Accepted,
    stop: &CancellationToken,
) -> Result<bool, Failure> {
    let failed = |error: StoreError| database::failure(&error);
    if accepted == Accepted::Yes {
        let now = SystemClock.now();
        store.see_clock(now).await.map_err(failed)?;
    }
    let mut has_told = false;
    loop {
        let now = SystemClock.now();
        let Some(by) = clock_doubt(store, now).await.map_err(failed)? else {
            return Ok(true);
        };
        if !has_told {
            tracing::error!("{}", doubted(by, now));
            tracing::error!(
                "nothing is started until the clock is right, or `chatcron accept-clock` confirms it"
            );
            has_told = true;
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(false),
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
    }
}

/// Whether a person has confirmed the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepted {
    Yes,
    No,
}

/// Refuses where the clock is not believed: what a command decides now would be wrong for good.
///
/// # Errors
/// Then, and where the store cannot be read.
pub(super) async fn must_be_believed(store: &dyn Store, now: Timestamp) -> Result<(), Failure> {
    let doubt = clock_doubt(store, now).await;
    match doubt.map_err(|error| database::failure(&error))? {
        None => Ok(()),
        Some(by) => Err(not_believed(by, now)),
    }
}

pub(super) fn not_believed(by: SignedDuration, now: Timestamp) -> Failure {
    Failure::new(Exit::Refused, doubted(by, now)).help(
        "if the clock is right, `chatcron accept-clock` confirms it; else set it, and try again",
    )
}

fn doubted(by: SignedDuration, now: Timestamp) -> String {
    format!(
        "the machine's clock shows {now}, which is {} after the last time that chatcron is known to \
         have worked",
        words::span(by)
    )
}
