//! When the process dies and starts again, and when its clock is set.

use jiff::{SignedDuration, Timestamp};

use super::{Simulation, Standing};
use crate::simulate::{Event, Happening, Outage, Scenario, Sink};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurningPoint {
    Down,
    Up,
    Step(SignedDuration),
}

impl Simulation {
    pub(super) fn pass_turning_points(&mut self, sink: &mut impl Sink) {
        while let Some((at, point)) = self.turning_points.get(self.passed).copied() {
            if at > self.now {
                return;
            }
            self.passed += 1;
            let what = match point {
                TurningPoint::Down => {
                    self.crash();
                    Happening::Down
                }
                TurningPoint::Up => {
                    self.down = false;
                    // A worker that begins takes the clock as it finds it: whoever starts it after
                    // more than a day has confirmed it.
                    self.believed = self.offset;
                    Happening::Up
                }
                TurningPoint::Step(by) => {
                    self.offset = self.offset.saturating_add(by);
                    Happening::ClockStep(by)
                }
            };
            sink.take(&Event {
                at: self.wall(),
                job: None,
                what,
            });
            if point == TurningPoint::Up {
                self.recover(sink);
            }
        }
    }

    /// The process dies: what it was doing is interrupted.
    fn crash(&mut self) {
        self.down = true;
        for (_, _, run) in std::mem::take(&mut self.ends) {
            if let Some(run) = &mut self.runs[run] {
                run.standing = Standing::Interrupted;
            }
        }
    }
}

/// Outages that overlap or touch are one, so that each end is told once.
pub(super) fn turning_points(
    scenario: &Scenario,
    from: Timestamp,
) -> Vec<(Timestamp, TurningPoint)> {
    let begun = scenario.outages.iter().filter(|outage| outage.to > from);
    let mut outages: Vec<_> = begun
        .map(|outage| Outage {
            from: outage.from.max(from),
            to: outage.to,
        })
        .collect();
    outages.sort_unstable();
    let mut points = Vec::new();
    let mut last: Option<(Timestamp, Timestamp)> = None;
    for outage in outages {
        match &mut last {
            Some((_, to)) if outage.from <= *to => *to = (*to).max(outage.to),
            Some((begin, to)) => {
                points.push((*begin, TurningPoint::Down));
                points.push((*to, TurningPoint::Up));
                last = Some((outage.from, outage.to));
            }
            None => last = Some((outage.from, outage.to)),
        }
    }
    if let Some((begin, to)) = last {
        points.push((begin, TurningPoint::Down));
        points.push((to, TurningPoint::Up));
    }
    let steps = scenario.clock_steps.iter();
    points.extend(steps.map(|step| (step.at, TurningPoint::Step(step.by))));
    points.retain(|(at, _)| *at >= from);
    points.sort_by_key(|(at, _)| *at);
    points
}
