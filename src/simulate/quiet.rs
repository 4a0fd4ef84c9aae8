//! Totals only, and fast: jobs that do not touch each other, one after the other.
//!
//! Where the process is never down, its clock is never set, no two jobs share a lane, and there is
//! room for every run, jobs do not wait for each other, so each can be followed alone. And a slot
//! that comes on time to an idle job, and whose only attempt succeeds before the next slot, is
//! decided like the one before it. The policy is asked about each of the first thousand such slots
//! of a job and about one in 256 after them, and about every other kind of slot each time.
//!
//! Whether there was room is seen in the end: if not, there is no answer, and the whole simulation
//! is run as usual. A test holds the answer against that of the whole simulation.

use jiff::SignedDuration;

use super::{Report, Scenario, Simulation, Tally, Window};

mod alone;
mod load;

use alone::Alone;
use load::Load;

/// How long a piece of the window is; what is counted by the second is kept for one piece.
const PIECE: SignedDuration = SignedDuration::from_hours(14 * 24);

/// The totals of a window, where jobs do not touch each other; else nothing.
///
/// The simulation stands at the beginning of the window, and stays there.
pub fn totals(simulation: &Simulation, scenario: &Scenario, window: Window) -> Option<Report> {
    let is_calm = scenario.outages.is_empty() && scenario.clock_steps.is_empty();
    if !is_calm || simulation.shares_lanes() || window.from.subsec_nanosecond() != 0 {
        return None;
    }
    let names: Vec<&str> = simulation.destination_names();
    let mut jobs = simulation
        .alone()
        .map(|job| Alone::new(job, &names, window.to))
        .collect::<Option<Vec<_>>>()?;
    let mut tally = Tally::of_totals(simulation, window);
    let mut load = Load::new(window, PIECE, simulation.max_concurrent(), names.len());
    let mut from = window.from;
    while from < window.to {
        let to = from.saturating_add(PIECE).unwrap_or(window.to);
        let to = to.min(window.to);
        for job in &mut jobs {
            job.run_until(to, &mut tally, &mut load)?;
        }
        load.close(to)?;
        from = to;
    }
    for job in &jobs {
        job.close(&mut tally);
    }
    let mut report = tally.finish_at(jobs.iter().map(Alone::standing));
    load.tell(&mut report, &names);
    Some(report)
}
