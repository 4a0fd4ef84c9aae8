//! A timeline that a person reads at a glance: lanes of jobs, outages and clock changes across them,
//! concurrency below. What is drawn is gathered in columns, so that a year of events takes no more
//! space than a day.

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    occurrence::{Cause, Outcome},
    policy::AttemptFate,
};

use super::{Event, Happening, Report, Simulation, Sink, Window};

mod axis;
mod draw;
mod html;

/// How many columns the window has.
const COLUMNS: usize = 480;
/// The most lanes that are drawn.
const LANES_MAX: usize = 500;

/// Gathers what is drawn.
#[derive(Debug, Clone)]
pub struct Timeline {
    window: Window,
    zone: TimeZone,
    zone_name: String,
    lanes: Vec<Lane>,
    left_out: usize,
    concurrency: Vec<u32>,
    running: u32,
    column: usize,
    max_concurrent: usize,
    outages: Vec<(Timestamp, Timestamp)>,
    down_since: Option<Timestamp>,
    changes: Vec<(Timestamp, String)>,
}

#[derive(Debug, Clone)]
struct Lane {
    name: String,
    starts: Vec<u32>,
    late: Vec<u32>,
    skips: Vec<u32>,
    failures: Vec<u32>,
    catching_up: bool,
}

impl Lane {
    fn new(name: String) -> Self {
        let none = || vec![0; COLUMNS];
        Self {
            name,
            starts: none(),
            late: none(),
            skips: none(),
            failures: none(),
            catching_up: false,
        }
    }
}

impl Timeline {
    /// Nothing yet. Times are told in the zone; `changes` are clock changes, each with its words.
    pub fn new(
        simulation: &Simulation,
        window: Window,
        (zone_name, zone): (&str, TimeZone),
        changes: Vec<(Timestamp, String)>,
    ) -> Self {
        let names = simulation.plans().map(|plan| plan.job.id.to_string());
        let lanes: Vec<Lane> = names.take(LANES_MAX).map(Lane::new).collect();
        Self {
            left_out: simulation.plans().count() - lanes.len(),
            window,
            zone,
            zone_name: zone_name.to_owned(),
            lanes,
            concurrency: vec![0; COLUMNS],
            running: 0,
            column: 0,
            max_concurrent: simulation.max_concurrent(),
            outages: Vec::new(),
            down_since: None,
            changes,
        }
    }

    /// The timeline as SVG: no script, and nothing from elsewhere.
    pub fn svg(&self) -> String {
        draw::svg(self)
    }

    /// The timeline in a page of its own, with the totals as a table.
    pub fn html(&self, report: &Report) -> String {
        html::page(self, report)
    }

    fn column_of(&self, at: Timestamp) -> usize {
        let whole = self
            .window
            .from
            .duration_until(self.window.to)
            .as_secs_f64();
        let part = self.window.from.duration_until(at).as_secs_f64();
        let column = part / whole * COLUMNS as f64;
        (column.max(0.0) as usize).min(COLUMNS - 1)
    }

    /// What ran so far ran in all the columns that have passed.
    fn advance(&mut self, at: Timestamp) {
        let column = self.column_of(at);
        while self.column < column {
            self.column += 1;
            self.concurrency[self.column] = self.running;
        }
    }

    fn count_running(&mut self, running: u32) {
        self.running = running;
        let most = &mut self.concurrency[self.column];
        *most = (*most).max(running);
    }

    /// Draws slots that were skipped where they would have been.
    fn skip(&mut self, lane: usize, (first, last): (Timestamp, Timestamp), count: u64) {
        let (from, to) = (self.column_of(first), self.column_of(last));
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let Some(lane) = self.lanes.get_mut(lane) else {
            return;
        };
        let columns = u32::try_from(to - from + 1).unwrap_or(1).min(count).max(1);
        for number in 0..columns {
            // A stretch of few slots is as many marks.
            let column =
                from + (to - from) * number as usize / columns.max(2).saturating_sub(1) as usize;
            let column = column.min(to);
            lane.skips[column] = lane.skips[column].saturating_add((count / columns).max(1));
        }
    }
}

impl Sink for Timeline {
    fn take(&mut self, event: &Event<'_>) {
        self.advance(event.at);
        let column = self.column_of(event.at);
        let Some((index, _)) = event.job else {
            if event.what == Happening::Down {
                self.down_since = Some(event.at);
                self.running = 0;
            } else if event.what == Happening::Up {
                let since = self.down_since.take().unwrap_or(self.window.from);
                self.outages.push((since, event.at));
            }
            return;
        };
        match &event.what {
            Happening::Attempt { attempt, .. } => {
                self.count_running(self.running + 1);
                if let Some(lane) = self.lanes.get_mut(index).filter(|_| *attempt == 1) {
                    let starts = if lane.catching_up {
                        &mut lane.late
                    } else {
                        &mut lane.starts
                    };
                    starts[column] += 1;
                }
            }
            Happening::AttemptEnd {
                fate: AttemptFate::Interrupted,
                ..
            } => {}
            Happening::AttemptEnd { .. } => self.running = self.running.saturating_sub(1),
            Happening::Start { cause, .. } => {
                if let Some(lane) = self.lanes.get_mut(index) {
                    lane.catching_up = *cause == Cause::CatchUp;
                }
            }
            Happening::Skip(range) => {
                let stretch = (range.first_nominal, range.last_nominal);
                self.skip(index, stretch, range.count);
            }
            Happening::End { outcome, .. } => {
                if let Some(lane) = self.lanes.get_mut(index) {
                    match outcome {
                        Outcome::Failed(_) => lane.failures[column] += 1,
                        Outcome::Skipped(_) | Outcome::Cancelled => lane.skips[column] += 1,
                        Outcome::Done | Outcome::Silent => {}
                    }
                }
            }
            Happening::Down
            | Happening::Up
            | Happening::ClockStep(_)
            | Happening::Wait { .. }
            | Happening::Backoff { .. }
            | Happening::Requeue { .. }
            | Happening::Send { .. }
            | Happening::Open { .. } => {}
        }
    }
}
