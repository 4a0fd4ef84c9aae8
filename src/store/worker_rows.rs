//! Workers, as the store takes and gives them.

use std::time::Duration;

use jiff::Timestamp;

use super::{ClaimedPart, ClaimedRun};

/// A worker's identity in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerId(pub i64);

/// What a worker works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything: `chatcron run`, or a gateway's worker.
    Worker,
    /// An errand of a command where no worker runs; it is soon gone.
    Errand,
}

impl Role {
    /// The word stored in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Errand => "errand",
        }
    }

    /// The role that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        [Self::Worker, Self::Errand]
            .into_iter()
            .find(|role| role.as_str() == word)
    }
}

/// A worker that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorker {
    /// What it works for.
    pub role: Role,
    /// A fingerprint of the zone data in use.
    pub zone_data: String,
    /// The name of the release of that data, such as `2026a`, where it is known. Names have an order.
    pub zone_release: Option<String>,
}

/// A worker that has begun.
#[derive(Debug, Clone)]
pub struct BegunWorker {
    /// Which one it is.
    pub id: WorkerId,
    /// How long its lease lasts, counted from before it was asked for; `None` where no others share
    /// the database, so that it needs none.
    pub lease: Option<Duration>,
    /// What dead workers left, which is its own now.
    pub interrupted: Interrupted,
    /// Runs that were queued and had not begun while no worker was alive.
    pub unbegun: Vec<ClaimedRun>,
    /// The other workers that are alive.
    pub others: Vec<WorkerRow>,
}

/// What a dead worker left unfinished. Its lanes are free again, and its leases void.
#[derive(Debug, Clone, Default)]
pub struct Interrupted {
    /// The workers that were found dead.
    pub dead: Vec<WorkerId>,
    /// Runs whose attempt was under way.
    pub runs: Vec<ClaimedRun>,
    /// Parts marked `sending`.
    pub parts: Vec<ClaimedPart>,
}

/// A lease that was renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// How long it lasts, counted from before it was asked for.
    pub lasts: Duration,
    /// The other workers that are alive.
    pub others: Vec<WorkerRow>,
    /// When the lease of the next of all others is over, unless that is renewed: in so long. Zero
    /// where one is over already.
    pub next_over: Option<Duration>,
}

/// A worker that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRow {
    /// Which one.
    pub id: WorkerId,
    /// What it works for.
    pub role: Role,
    /// Since when.
    pub started_at: Timestamp,
    /// Its version of chatcron.
    pub version: String,
    /// The fingerprint of its zone data.
    pub zone_data: String,
    /// The name of the release of that, where it is known.
    pub zone_release: Option<String>,
}

/// Who claims lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimant {
    /// The worker.
    pub worker: WorkerId,
    /// How many runs may be under way at the same time, over all workers that share the database.
    pub max_concurrent: usize,
}

impl From<WorkerId> for Claimant {
    /// Without a limit of runs.
    fn from(worker: WorkerId) -> Self {
        Self {
            worker,
            max_concurrent: usize::MAX,
        }
    }
}

/// Who claims due jobs, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueClaimant {
    /// The worker.
    pub worker: WorkerId,
    /// Which jobs it decides about.
    pub kinds: DueKinds,
}

/// Which jobs a worker decides about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueKinds {
    /// All of them.
    All,
    /// Those whose slots need no zone data: of kind `every`.
    WithoutZones,
}
