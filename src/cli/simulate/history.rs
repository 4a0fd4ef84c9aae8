//! Run times from what a database remembers of the jobs.

use std::path::Path;

use jiff::SignedDuration;

use crate::{
    cli::{database::Database, failure::Failure, names, reading, runtime},
    job::Job,
    simulate::{RunTime, Written},
    store::{RunFilter, RunRow},
};

/// How many of a job's last runs are looked at.
const RUNS: u32 = 200;
/// How many of a hundred runs are left out at either end: what is rare is no habit.
const RARE: usize = 5;

/// The run times of the jobs, as far as the database has any.
///
/// # Errors
/// Where there is no database, or it cannot be read.
pub(super) fn run_times(path: &Path, jobs: &[Job]) -> Result<Written, Failure> {
    runtime::block_on(async {
        let store = reading::open(&Database::File(path.to_owned())).await?;
        let mut written = Written::default();
        for job in jobs {
            let filter = RunFilter {
                job_id: Some(job.id.clone()),
                limit: Some(RUNS),
                ..RunFilter::default()
            };
            let runs = store.runs(&filter).await.map_err(names::unreadable)?;
            let time = usual(runs.iter().filter_map(took).collect());
            written
                .run_times
                .extend(time.map(|time| (job.id.clone(), time)));
        }
        Ok(written)
    })
}

/// How long the only attempt of a run took that succeeded.
fn took(run: &RunRow) -> Option<SignedDuration> {
    let only = run.state == "done" && run.attempts == 1;
    let (started_at, ended_at) = (run.started_at?, run.ended_at.filter(|_| only)?);
    Some(
        started_at
            .duration_until(ended_at)
            .max(SignedDuration::ZERO),
    )
}

fn usual(mut times: Vec<SignedDuration>) -> Option<RunTime> {
    times.sort_unstable();
    let rare = times.len() * RARE / 100;
    let usual = &times[rare..times.len() - rare];
    // Run times are drawn in whole seconds.
    let whole = |time: &SignedDuration| SignedDuration::from_secs(time.as_secs());
    Some(RunTime {
        shortest: whole(usual.first()?),
        longest: whole(usual.last()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rare_is_left_out() {
        let times = |seconds: &[i64]| {
            seconds
                .iter()
                .map(|s| SignedDuration::from_secs(*s))
                .collect()
        };
        assert_eq!(usual(Vec::new()), None);
        let few = usual(times(&[9, 3, 5])).unwrap();
        assert_eq!((few.shortest.as_secs(), few.longest.as_secs()), (3, 9));
        let many: Vec<i64> = (1..=100).collect();
        let many = usual(times(&many)).unwrap();
        assert_eq!((many.shortest.as_secs(), many.longest.as_secs()), (6, 95));
    }
}
