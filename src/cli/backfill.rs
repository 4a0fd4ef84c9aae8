//! `chatcron backfill`: slots of the past, again.

use jiff::Timestamp;
use serde_json::json;

use crate::{
    cli::{
        Exit, control,
        failure::Failure,
        json,
        moment::Moment,
        names, print,
        reading::Place,
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
    clock::{Clock, SystemClock},
    ids::JobId,
    policy::{FailedSlots, Refill},
    store::StoredJob,
    worker::{JobError, PastSlot, Stretch},
};

/// How many slots in a row that are alike have a line each; more of them share one.
const ALIKE_MAX: usize = 3;

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

pub(super) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let now = SystemClock.now();
    let store = if arguments.dry_run {
        arguments.place.open().await?
    } else {
        arguments.place.open_to_write().await?
    };
    let job = arguments.job.as_str();
    let stored = names::job(store.as_ref(), job).await?;
    let stretch = stretch(arguments, &stored, now)?;
    let directory = control::directory(store.as_ref()).await?;
    let control = control::control(store.as_ref(), &directory);
    let looked = if arguments.dry_run {
        control.preview_backfill(job, stretch).await
    } else {
        control.backfill(job, stretch, now).await
    };
    let looked = looked.map_err(|error| not_done(&error))?;
    print(&if arguments.json {
        as_json(arguments, &looked)
    } else {
        render(arguments, &stored, &looked, now, Screen::of_stdout())
    })?;
    Ok(Exit::Fine)
}

/// The stretch between the two moments, in the job's zone.
fn stretch(arguments: &Arguments, stored: &StoredJob, now: Timestamp) -> Result<Stretch, Failure> {
    let zone = &stored.job.schedule.zone;
    let (from, to) = (
        arguments.from.instant(now, zone)?,
        arguments.to.instant(now, zone)?,
    );
    if from >= to {
        return Err(Failure::new(
            Exit::Usage,
            format!("--from {from} is not before --to {to}"),
        )
        .help("--from is the earlier one, such as --from 2d --to 1d"));
    }
    Ok(Stretch {
        from,
        to,
        failed: if arguments.failed {
            FailedSlots::Run
        } else {
            FailedSlots::Stay
        },
    })
}

fn not_done(error: &JobError) -> Failure {
    if let JobError::Refused { job_id, refusal } = error {
        let message = format!("nothing of `{job_id}` runs again: {refusal}");
        let help = control::after_refusal(job_id, *refusal);
        return Failure::new(Exit::DoesNotHold, message).help(help);
    }
    control::not_done(error)
}

fn does(refill: Refill) -> &'static str {
    match refill {
        Refill::Runs => "runs again",
        Refill::Stays => "stays",
        Refill::NeedsFailed => "stays; --failed runs it again",
    }
}

fn as_json(arguments: &Arguments, looked: &[PastSlot]) -> String {
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

/// Slots that are alike, each by itself where they are few.
fn stretches(alike: &[PastSlot]) -> impl Iterator<Item = &[PastSlot]> {
    let size = if alike.len() > ALIKE_MAX {
        alike.len()
    } else {
        1
    };
    alike.chunks(size)
}

/// A line for slots that are alike.
fn row(alike: &[PastSlot], when: String) -> [Cell; 3] {
    let (was, refill) = (&alike[0].was, alike[0].refill);
    let was = match alike.len() {
        1 => was.clone(),
        several => format!("{was} ({several})"),
    };
    let tone = match refill {
        Refill::Runs => Tone::Strong,
        Refill::Stays | Refill::NeedsFailed => Tone::Usual,
    };
    [when.into(), was.into(), Cell::toned(does(refill), tone)]
}

fn render(
    arguments: &Arguments,
    stored: &StoredJob,
    looked: &[PastSlot],
    now: Timestamp,
    screen: Screen,
) -> String {
    let zone = words::zone(&stored.job.schedule.zone);
    let mut table = Table::new([Column::Left, Column::Left, Column::Left]);
    let is_alike =
        |one: &PastSlot, other: &PastSlot| one.refill == other.refill && one.was == other.was;
    for alike in looked.chunk_by(is_alike).flat_map(stretches) {
        let [first, .., last] = alike else {
            table.row(row(alike, words::scheduled(alike[0].nominal, now, &zone)));
            continue;
        };
        let ends = [first, last].map(|slot| words::scheduled(slot.nominal, now, &zone));
        table.row(row(alike, ends.join(" to ")));
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
