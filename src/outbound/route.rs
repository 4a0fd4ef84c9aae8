//! Where a job's run takes place, and where its result goes.

use std::collections::BTreeMap;

use crate::{
    directory::Chat,
    ids::ChatName,
    job::{Job, Overlap},
    message::place,
    store::Route,
};

/// Resolves a job's lane and destination by the chats as they are now; the result is frozen with
/// the occurrence. A chat that is not known gives no destination, and the run says so.
pub fn route(job: &Job, chats: &BTreeMap<ChatName, Chat>) -> Route {
    let (lane, destination) = place(job, chats);
    Route {
        lane,
        lane_per_run: job.policies.overlap == Overlap::Allow,
        destination,
    }
}
