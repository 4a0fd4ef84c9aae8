//! `chatcron backfill`: slots of the past, again.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::{
    cli::{
        Exit, control,
        failure::Failure,
        json,
        moment::Moment,
        names::{self, unreadable},
        print,
        reading::Place,
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
    clock::{Clock, SystemClock},
    ids::JobId,
    occurrence::{Cause, Slot},
    policy::{BACKFILL_MAX, BackfillSlot, FailedSlots, OwnedEvent, Past, Refill, refill},
    schedule::Planner,
    store::{RangeRow, RunFilter, RunRow, Store, StoredJob},
    worker::{Applied, Change, ChangeError},
};

/// How often the slots are looked at again, where the job was changed meanwhile.
const ROUNDS: usize = 32;

/// How many slots are looked at.
const LOOKED_AT_MAX: usize = 100_000;

/// Run slots of the past again that were skipped, one after another.
///
/// Their records stay, and each run is linked to its slot. Slots that were done are left alone, and
/// so are those that a backfill has done or will do: asking twice does nothing twice.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The job.
    job: JobId,
    /// From when on: wall time in the job's zone, RFC 3339, `yesterday`, or a span such as 2d.
    #[arg(long, value_name = "T", value_parser = Moment::parse)]
    from: Moment,
    /// Until when, not part of it; the same forms.
    #[arg(long, value_name = "T", value_parser = Moment::parse)]
    to: Moment,
    /// Slots as well that failed or were called off.
    #[arg(long)]
    failed: bool,
    /// Show what would run, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// A slot between the two moments, and what is done with it.
struct Looked {
    slot: Slot,
    nominal: Timestamp,
    was: String,
    refill: Refill,
}

pub(super) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let now = SystemClock.now();
    let store = if arguments.dry_run {
        arguments.place.open().await?
    } else {
        arguments.place.open_to_write().await?
    };
    for _ in 0..ROUNDS {
        let stored = names::job(store.as_ref(), arguments.job.as_str()).await?;
        let looked = look(store.as_ref(), &stored, arguments, now).await?;
        if !arguments.dry_run && !ask(store.as_ref(), &stored, &looked).await? {
            continue;
        }
        print(&if arguments.json {
            as_json(arguments, &looked)
        } else {
            render(arguments, &stored, &looked, now, Screen::of_stdout())
        })?;
        return Ok(Exit::Fine);
    }
    let message = format!("job `{}` is being changed too often", arguments.job);
    Err(Failure::new(Exit::DoesNotHold, message).help("try again, or pause the job for a moment"))
}

/// Asks for the slots that run again; whether the job was still as it was looked at. If it was not,
/// another backfill may have asked for the same slots, or one of them has ended.
async fn ask(store: &dyn Store, stored: &StoredJob, looked: &[Looked]) -> Result<bool, Failure> {
    let job = &stored.job.id;
    let chosen = looked.iter().filter(|slot| slot.refill == Refill::Runs);
    let chosen: Vec<_> = chosen.collect();
    if chosen.is_empty() {
        return Ok(true);
    }
    let request = store.new_request().await.map_err(unreadable)?;
    let slots = chosen.iter().map(|looked| BackfillSlot {
        request,
        slot: looked.slot.clone(),
        nominal: looked.nominal,
    });
    let slots = slots.collect();
    let event = OwnedEvent::Backfill { slots };
    let change = Change::new(job.clone(), event).as_seen(stored.version);
    match control::apply(store, change).await? {
        Ok(Applied {
            refusal: Some(refusal),
            ..
        }) => {
            let message = format!("nothing of `{job}` runs again: {refusal}");
            Err(Failure::new(Exit::DoesNotHold, message))
        }
        Ok(_) => Ok(true),
        Err(ChangeError::Outdated { .. } | ChangeError::Busy { .. }) => Ok(false),
        Err(error) => Err(Failure::new(Exit::DoesNotHold, error.to_string())),
    }
}

fn too_many(message: String) -> Failure {
    Failure::new(Exit::Usage, message).help("ask for a shorter stretch with --from and --to")
}

/// Every slot between the two moments that is accounted for, with its record.
async fn look(
    store: &dyn Store,
    stored: &StoredJob,
    arguments: &Arguments,
    now: Timestamp,
) -> Result<Vec<Looked>, Failure> {
    let zone = &stored.job.schedule.zone;
    let (from, to) = (
        arguments.from.instant(now, zone)?,
        arguments.to.instant(now, zone)?,
    );
    if from >= to {
        return Err(Failure::new(
            Exit::Usage,
            format!("--from {from} is not before --to {to}"),
        ));
    }
    let planner = Planner::new(&stored.job.schedule, stored.first_seen_at)
        .map_err(|error| Failure::new(Exit::DoesNotHold, error.to_string()))?;
    // What has no record yet is the schedule's own.
    let (after, until) = (just_before(from), just_before(to).min(stored.state.cursor));
    let count = planner.series(after, until).map(|series| series.count);
    let many = u64::try_from(LOOKED_AT_MAX).unwrap_or(u64::MAX);
    if let Some(count) = count.filter(|count| *count > many) {
        return Err(too_many(format!(
            "{count} slots of `{}` lie between {from} and {to}, and {LOOKED_AT_MAX} are looked at at most",
            arguments.job
        )));
    }
    let planned: Vec<_> = planner
        .firing_between(after, until)
        .take(LOOKED_AT_MAX + 1)
        .collect();
    if planned.len() > LOOKED_AT_MAX {
        return Err(too_many(format!(
            "more than {LOOKED_AT_MAX} slots of `{}` lie between {from} and {to}",
            arguments.job
        )));
    }
    let records = Records::load(store, stored, from).await?;
    let failed = if arguments.failed {
        FailedSlots::Run
    } else {
        FailedSlots::Stay
    };
    let looked = planned.iter().map(|planned| {
        let slot = planner.slot(planned);
        let (past, backfilled, was) = records.of(&slot, planned.nominal);
        Looked {
            nominal: planned.nominal,
            was,
            refill: refill(past, backfilled, failed),
            slot,
        }
    });
    let looked: Vec<_> = looked.collect();
    let runs = looked.iter().filter(|slot| slot.refill == Refill::Runs);
    let runs = runs.count();
    if runs > BACKFILL_MAX {
        return Err(too_many(format!(
            "{runs} slots of `{}` would run, and a backfill runs {BACKFILL_MAX} at most",
            arguments.job
        )));
    }
    Ok(looked)
}

fn just_before(at: Timestamp) -> Timestamp {
    at.checked_sub(SignedDuration::from_micros(1)).unwrap_or(at)
}

/// What the ledger has of a job.
struct Records {
    slots: HashMap<Slot, RunRow>,
    /// The newest backfill of a slot.
    backfills: HashMap<Slot, RunRow>,
    ranges: Vec<RangeRow>,
    /// Slots that wait for a backfill.
    waiting: Vec<Slot>,
}

impl Records {
    async fn load(store: &dyn Store, stored: &StoredJob, from: Timestamp) -> Result<Self, Failure> {
        let filter = RunFilter {
            job_id: Some(stored.job.id.clone()),
            since: Some(from),
            ..RunFilter::default()
        };
        let mut records = Self {
            slots: HashMap::new(),
            backfills: HashMap::new(),
            ranges: store.ranges(&filter).await.map_err(unreadable)?,
            waiting: stored
                .state
                .backfill
                .iter()
                .map(|slot| slot.slot.clone())
                .collect(),
        };
        // Newest first: the first one of a slot is the one that counts.
        for row in store.runs(&filter).await.map_err(unreadable)? {
            let Some(slot) = row.slot.clone() else {
                continue;
            };
            let kind = match row.cause {
                Cause::Backfill => &mut records.backfills,
                Cause::Scheduled | Cause::CatchUp | Cause::Manual => &mut records.slots,
            };
            kind.entry(slot).or_insert(row);
        }
        Ok(records)
    }

    /// How far a slot has come, and its newest backfill; and both in words.
    fn of(&self, slot: &Slot, nominal: Timestamp) -> (Past, Option<Past>, String) {
        let inside =
            |range: &&RangeRow| (range.first_nominal_at..=range.last_nominal_at).contains(&nominal);
        let (past, words) = match self.slots.get(slot) {
            Some(row) => told(row),
            None => match self.ranges.iter().find(inside) {
                Some(range) => (Past::Skipped, format!("skipped: {}", range.reason.as_str())),
                None => (Past::Unknown, String::from("no record")),
            },
        };
        if self.waiting.contains(slot) {
            return (
                past,
                Some(Past::Open),
                format!("{words}; waits for its backfill"),
            );
        }
        match self.backfills.get(slot).map(told) {
            Some((backfilled, again)) => {
                (past, Some(backfilled), format!("{words}; backfill {again}"))
            }
            None => (past, None, words),
        }
    }
}

fn told(row: &RunRow) -> (Past, String) {
    let past = match row.state.as_str() {
        "done" => Past::Done,
        "failed" | "cancelled" => Past::Failed,
        "skipped" => Past::Skipped,
        _ => Past::Open,
    };
    let words = match &row.reason {
        Some(reason) => format!("{}: {reason}", row.state),
        None => row.state.clone(),
    };
    (past, words)
}

fn does(refill: Refill) -> &'static str {
    match refill {
        Refill::Runs => "runs again",
        Refill::Stays => "stays",
        Refill::NeedsFailed => "stays; --failed runs it again",
    }
}

fn as_json(arguments: &Arguments, looked: &[Looked]) -> String {
    let slots = looked.iter().map(|slot| {
        json!({
            "slot": slot.slot,
            "nominal_at": slot.nominal,
            "was": slot.was,
            "runs": slot.refill == Refill::Runs,
        })
    });
    let slots: Vec<_> = slots.collect();
    json::text(&json!({
        "job": arguments.job,
        "dry_run": arguments.dry_run,
        "slots": slots,
    }))
}

fn render(
    arguments: &Arguments,
    stored: &StoredJob,
    looked: &[Looked],
    now: Timestamp,
    screen: Screen,
) -> String {
    let zone = words::zone(&stored.job.schedule.zone);
    let mut table = Table::new([Column::Left, Column::Left, Column::Left]);
    for slot in looked {
        let tone = match slot.refill {
            Refill::Runs => Tone::Strong,
            Refill::Stays | Refill::NeedsFailed => Tone::Usual,
        };
        table.row([
            words::scheduled(slot.nominal, now, &zone).into(),
            slot.was.as_str().into(),
            Cell::toned(does(slot.refill), tone),
        ]);
    }
    let mut text = table.render(screen);
    let runs = looked.iter().filter(|slot| slot.refill == Refill::Runs);
    let runs = runs.count();
    let slots = words::counted(u64::try_from(looked.len()).unwrap_or(u64::MAX), "slot");
    let job = &arguments.job;
    text.push_str(&match (runs, arguments.dry_run) {
        (0, _) => format!("nothing of {job} is to be run again: {slots} looked at\n"),
        (_, true) => {
            format!(
                "{runs} of {slots} of {job} would run, one after another; nothing was changed\n"
            )
        }
        (_, false) => format!("{runs} of {slots} of {job} run again, one after another\n"),
    });
    text
}
