//! How the store fails: the whole of it, or one item of a batch.

use crate::{
    ids::PartId,
    message::{MESSAGE_ID_MAX, PartState},
    occurrence::Slot,
};

/// Why the store did nothing at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It cannot be opened, read or written.
    #[error("{what}")]
    Unavailable {
        /// What was tried, and on which file or server.
        what: String,
        /// The driver's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another program has held the database for longer than we wait.
    #[error("another program keeps {database} busy")]
    Busy {
        /// Which database.
        database: String,
    },
    /// Its disk is full: nothing of what was asked for is written.
    #[error("no room is left on the disk of {database}")]
    Full {
        /// Which database.
        database: String,
    },
    /// Another worker holds the database.
    #[error("another `chatcron run` is working on {database}")]
    Held {
        /// Which database.
        database: String,
    },
    /// A newer version of chatcron has written it.
    #[error(
        "{database} has schema {found}, and this version knows {known}: a newer chatcron wrote it"
    )]
    Newer {
        /// Which database.
        database: String,
        /// The schema found.
        found: i64,
        /// The newest schema this version knows.
        known: i64,
    },
    /// It has no tables yet: no jobs file was ever applied to it.
    #[error("nothing has been applied to {database} yet: it has no tables of chatcron")]
    Unapplied {
        /// Which database.
        database: String,
    },
    /// An older version of chatcron has written it, and it may not be brought up to date by reading.
    #[error("{database} has the schema of an older chatcron")]
    Older {
        /// Which database.
        database: String,
    },
    /// It holds something that this version cannot have written.
    #[error("{what}")]
    Corrupt {
        /// What was found where.
        what: String,
    },
    /// A person asked for something that the part's state does not allow.
    #[error("part {part} is {}; {accepted}", .found.as_str())]
    WrongPartState {
        /// The part.
        part: PartId,
        /// Its state.
        found: PartState,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// A person asked for something about a part that a worker may be sending at this moment.
    #[error("part {part} is being sent, and nobody can say yet whether it will be shown")]
    PartUnderWay {
        /// The part.
        part: PartId,
    },
    /// A person gave something as a channel's id of a message that cannot be one.
    #[error(
        "a channel's id of a message has 1 to {MESSAGE_ID_MAX} bytes, and this one has {found}"
    )]
    NoMessageId {
        /// How many bytes it has.
        found: usize,
    },
    /// There is no such part.
    #[error("there is no part {part} in the outbox")]
    NoSuchPart {
        /// The id that was given.
        part: PartId,
    },
}

/// Why one item of a batch was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// Somebody else decided about the job meanwhile; load it and decide again.
    #[error("the job was changed meanwhile")]
    StaleVersion,
    /// The lease under which the work was done is no longer held.
    #[error("the lease was lost")]
    LeaseLost,
    /// The lane is taken.
    #[error("the lane is taken")]
    LaneTaken,
    /// As many runs are under way as may be.
    #[error("as many runs are under way as may be")]
    NoSlot,
    /// The slot has a record already.
    #[error("slot {slot} is accounted for already")]
    SlotAccounted {
        /// The slot.
        slot: Slot,
    },
    /// The part is not in a state that the settlement could follow.
    #[error("the part is settled already")]
    PartSettled,
    /// Something else of its lane goes first, or its time has not come.
    #[error("it is not the next of its lane")]
    NotNext,
    /// An attempt ended, and the decision leaves its run as if it had not.
    #[error("the attempt ended and nothing was decided about its run")]
    Undecided,
    /// It was asked for before anything was pruned, so that its key may have been forgotten.
    #[error("it was asked for before {pruned_before}, and keys of that time may be forgotten")]
    TooOld {
        /// What is older may be forgotten.
        pruned_before: jiff::Timestamp,
    },
    /// There is nothing by that id, or it has ended already.
    #[error("it does not exist")]
    Missing,
}
