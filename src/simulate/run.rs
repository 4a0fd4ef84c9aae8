//! The simulation itself: the worker's loop over virtual time.
//!
//! One turn of it is the worker's `step` until all is quiet: what has ended is absorbed, due jobs
//! are decided on in the order (wake-up, job id), free lanes are filled.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::{
    directory::Chat,
    ids::{ChatName, JobId},
    job::{Job, Mode},
    message::{Destination, place},
    occurrence::{Cause, OccurrenceRef},
    policy::{
        AttemptResult, JobPlan, JobState,
        clock::{doubt, is_set_back},
    },
    schedule::ScheduleError,
};

use super::{
    Event, Happening, Scenario, Sink,
    lanes::{Lanes, Part, Queued},
    world::JobWorld,
};

mod decided;
mod turn;
mod turning_points;

use turning_points::{TurningPoint, turning_points};

/// Why nothing can be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// A schedule cannot be planned with the zone data in use.
    #[error("job `{job}` cannot be planned: {source}")]
    Unplannable {
        /// The job.
        job: JobId,
        /// Why.
        #[source]
        source: ScheduleError,
    },
}

/// Jobs in a world, at an instant. It can be continued any number of times.
///
/// ```
/// use chatcron::{config, simulate::{Log, Scenario, Simulation}};
///
/// let source = r#"
///     timezone = "Europe/Berlin"
///     [agents.main]
///     kind = "echo"
///     [jobs.budget]
///     daily = "08:00"
///     deliver = "history"
///     prompt = "Summarise yesterday's spending."
/// "#;
/// let no_files = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
/// let from = "2026-12-01T00:00:00Z".parse()?;
/// let file = config::parse(source, &no_files, from).file.expect("it is TOML");
///
/// let scenario = Scenario::default();
/// let mut simulation = Simulation::new(file.jobs, &file.directory.chats, 8, &scenario, from)?;
/// let mut log = Log::new(Vec::new());
/// simulation.run_until("2026-12-02T00:00:00Z".parse()?, &mut log);
/// let (_, sum) = log.finish()?;
/// // It starts, its attempt begins and ends, and the occurrence ends.
/// assert_eq!(sum.lines, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Simulation {
    jobs: Vec<SimulatedJob>,
    lanes: Lanes,
    runs: Vec<Option<Run>>,
    free: Vec<usize>,
    /// By what the machine's clock shows.
    wakes: BTreeSet<(Timestamp, usize)>,
    /// Attempts under way, by when they will end on a clock that nobody has touched.
    ends: BTreeSet<(Timestamp, usize, usize)>,
    turning_points: Vec<(Timestamp, TurningPoint)>,
    passed: usize,
    /// The instant by a clock that nobody has touched.
    now: Timestamp,
    /// What the machine's clock shows more than that.
    offset: SignedDuration,
    down: bool,
    /// The offset that was believed last.
    believed: SignedDuration,
    /// The latest instant that the machine's clock showed while it was believed.
    latest: Timestamp,
    max_concurrent: usize,
    messages: i64,
    sent: Vec<(usize, Part)>,
}

#[derive(Debug, Clone)]
struct SimulatedJob {
    plan: JobPlan,
    state: JobState,
    wake_at: Option<Timestamp>,
    world: JobWorld,
    lane: usize,
    destination: Option<Target>,
    /// Its runs that have not ended.
    runs: Vec<usize>,
}

/// One job of a simulation that has not begun, for following it alone.
pub(super) struct OneJob<'s> {
    pub(super) index: usize,
    pub(super) plan: &'s JobPlan,
    pub(super) state: &'s JobState,
    pub(super) world: &'s JobWorld,
    pub(super) destination: Option<&'s str>,
    pub(super) now: Timestamp,
}

#[derive(Debug, Clone)]
struct Target {
    name: String,
    lane: usize,
    /// Whether the result is the reply of a turn that had this lane.
    reply: bool,
}

#[derive(Debug, Clone)]
struct Run {
    job: usize,
    occurrence: OccurrenceRef,
    nominal: Timestamp,
    cause: Cause,
    due_at: Timestamp,
    attempts: u32,
    standing: Standing,
    /// Its job's, or its own where the runs of its job may overlap.
    lane: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Queued,
    Running {
        ends_at: Timestamp,
        result: AttemptResult,
    },
    /// Its process has died.
    Interrupted,
    Backoff,
}

impl Run {
    fn queued(&self, place: usize) -> Queued {
        (self.due_at, self.job, place)
    }
}

impl Simulation {
    /// Jobs that are first seen just before `from`, so that a slot at `from` is the first that runs.
    /// An `every` job without an anchor counts from `from`.
    ///
    /// # Errors
    /// [`SimulateError`] where a schedule cannot be planned.
    pub fn new(
        jobs: Vec<Job>,
        chats: &BTreeMap<ChatName, Chat>,
        max_concurrent: usize,
        scenario: &Scenario,
        from: Timestamp,
    ) -> Result<Self, SimulateError> {
        let activated_at = before(from);
        let starts = |plan: JobPlan| (plan, JobState::activated(activated_at));
        let plans = jobs.into_iter().map(|job| {
            let id = job.id.clone();
            let unplannable = |source| SimulateError::Unplannable { job: id, source };
            JobPlan::new(job, from).map(starts).map_err(unplannable)
        });
        let plans = plans.collect::<Result<Vec<_>, _>>()?;
        Ok(Self::resume(plans, chats, max_concurrent, scenario, from))
    }

    /// Jobs in the states in which they are.
    pub fn resume(
        plans: Vec<(JobPlan, JobState)>,
        chats: &BTreeMap<ChatName, Chat>,
        max_concurrent: usize,
        scenario: &Scenario,
        from: Timestamp,
    ) -> Self {
        let mut simulation = Self {
            jobs: Vec::with_capacity(plans.len()),
            lanes: Lanes::default(),
            runs: Vec::new(),
            free: Vec::new(),
            wakes: BTreeSet::new(),
            ends: BTreeSet::new(),
            turning_points: turning_points(scenario, from),
            passed: 0,
            now: from,
            offset: SignedDuration::ZERO,
            down: false,
            believed: SignedDuration::ZERO,
            latest: from,
            max_concurrent,
            messages: 0,
            sent: Vec::new(),
        };
        let mut plans = plans;
        plans.sort_by(|(left, _), (right, _)| left.job.id.cmp(&right.job.id));
        for (plan, state) in plans {
            simulation.add(plan, state, chats, scenario);
        }
        simulation
    }

    fn add(
        &mut self,
        plan: JobPlan,
        state: JobState,
        chats: &BTreeMap<ChatName, Chat>,
        scenario: &Scenario,
    ) {
        let (lane, destination) = place(&plan.job, chats);
        let world = JobWorld::new(&plan.job, destination.as_ref(), scenario);
        let reply = matches!(plan.job.mode, Mode::InChat { .. });
        let destination = destination.map(|destination| Target {
            name: name_of(&destination),
            lane: self.lanes.open(&destination.session_key()),
            reply,
        });
        let index = self.jobs.len();
        // Whether anything is due is the policy's to say; it is asked at the first turn.
        self.wakes.insert((self.now, index));
        self.jobs.push(SimulatedJob {
            lane: self.lanes.open(&lane),
            wake_at: Some(self.now),
            plan,
            state,
            world,
            destination,
            runs: Vec::new(),
        });
    }

    /// The jobs, in the order of their ids.
    pub fn plans(&self) -> impl Iterator<Item = &JobPlan> {
        self.jobs.iter().map(|job| &job.plan)
    }

    /// What the policy remembers of the jobs, in the order of their ids.
    pub fn states(&self) -> impl Iterator<Item = &JobState> {
        self.jobs.iter().map(|job| &job.state)
    }

    /// How many attempts may be under way at once.
    pub fn max_concurrent(&self) -> usize {
        self.max_concurrent
    }

    /// The names of the places that results go to; a name may come more than once.
    pub fn destinations(&self) -> impl Iterator<Item = &str> {
        let of_jobs = self.jobs.iter();
        of_jobs.filter_map(|job| Some(job.destination.as_ref()?.name.as_str()))
    }

    /// The names of the places that results go to, ascending and each once.
    pub(super) fn destination_names(&self) -> Vec<&str> {
        let names: BTreeSet<&str> = self.destinations().collect();
        names.into_iter().collect()
    }

    /// The jobs one by one.
    pub(super) fn alone(&self) -> impl Iterator<Item = OneJob<'_>> {
        let jobs = self.jobs.iter().enumerate();
        jobs.map(|(index, job)| OneJob {
            index,
            plan: &job.plan,
            state: &job.state,
            world: &job.world,
            destination: job.destination.as_ref().map(|to| to.name.as_str()),
            now: self.now,
        })
    }

    /// Whether any job may have to wait for the lane in which another one runs.
    pub(super) fn shares_lanes(&self) -> bool {
        let mut runs_in: BTreeMap<usize, usize> = BTreeMap::new();
        for (index, job) in self.jobs.iter().enumerate() {
            if runs_in.insert(job.lane, index).is_some() {
                return true;
            }
        }
        let mut delivering = self.jobs.iter().enumerate();
        delivering.any(|(index, job)| {
            let to = job.destination.as_ref().map(|to| to.lane);
            let runner = to.and_then(|lane| runs_in.get(&lane));
            runner.is_some_and(|runner| *runner != index)
        })
    }

    /// Goes on to `to`, which is not part of it.
    pub fn run_until(&mut self, to: Timestamp, sink: &mut impl Sink) {
        while let Some(at) = self.next_instant().filter(|at| *at < to) {
            self.now = self.now.max(at);
            self.pass_turning_points(sink);
            if !self.down && self.believes() {
                self.turn(sink);
            }
        }
        self.now = self.now.max(to);
    }

    /// Tells what has not ended.
    pub fn close(&self, sink: &mut impl Sink) {
        let at = self.wall();
        for (index, job) in self.jobs.iter().enumerate() {
            let runs = job.runs.iter().filter_map(|run| self.runs[*run].as_ref());
            let runs = runs.filter_map(|run| {
                let phase = match run.standing {
                    Standing::Queued => "queued",
                    Standing::Running { .. } | Standing::Interrupted => "running",
                    Standing::Backoff => "backoff",
                };
                Some((super::event::slot_of(&run.occurrence)?, phase))
            });
            let waiting = job.state.waiting.iter().map(|slot| (&slot.slot, "waiting"));
            for (slot, phase) in runs.chain(waiting) {
                sink.take(&Event {
                    at,
                    job: Some((index, &job.plan.job.id)),
                    what: Happening::Open { slot, phase },
                });
            }
        }
    }

    /// What the machine's clock shows.
    fn wall(&self) -> Timestamp {
        self.now.saturating_add(self.offset).unwrap_or(self.now)
    }

    /// Whether the clock was set forward further than the worker believes.
    fn is_doubted(&self) -> bool {
        let expected = self.now.saturating_add(self.believed);
        doubt(expected.unwrap_or(self.now), self.wall()).is_some()
    }

    /// Whether anything is begun at this instant; every job is looked at where the clock was set
    /// back so far that its cursor may be ahead.
    fn believes(&mut self) -> bool {
        if self.is_doubted() {
            return false;
        }
        let wall = self.wall();
        self.believed = self.offset;
        if is_set_back(self.latest, wall) {
            self.latest = wall;
            self.look_again(wall);
        }
        self.latest = self.latest.max(wall);
        true
    }

    fn look_again(&mut self, wall: Timestamp) {
        for (index, job) in self.jobs.iter_mut().enumerate() {
            let Some(at) = job.wake_at.filter(|at| *at > wall) else {
                continue;
            };
            self.wakes.remove(&(at, index));
            self.wakes.insert((wall, index));
            job.wake_at = Some(wall);
        }
    }

    fn next_instant(&self) -> Option<Timestamp> {
        let turning = self.turning_points.get(self.passed).map(|(at, _)| *at);
        if self.down || self.is_doubted() {
            return turning;
        }
        let wall = self.wall();
        let wake = self.wakes.first().map(|(at, _)| *at);
        let by_the_clock = wake.into_iter().chain(self.lanes.next_instant(wall)).min();
        let by_the_clock = by_the_clock.map(|at| at.checked_sub(self.offset).unwrap_or(at));
        let end = self.ends.first().map(|(at, ..)| *at);
        turning.into_iter().chain(by_the_clock).chain(end).min()
    }
}

/// The last instant before this one.
pub(super) fn before(at: Timestamp) -> Timestamp {
    at.checked_sub(SignedDuration::from_micros(1)).unwrap_or(at)
}

fn name_of(destination: &Destination) -> String {
    match destination {
        Destination::Chat(chat) => chat.chat.to_string(),
        Destination::Webhook(webhook) => host(&webhook.url),
    }
}

/// A URL without its path and query, in which some services keep a secret.
fn host(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}
