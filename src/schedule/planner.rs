//! The planner itself: a schedule, compiled, and the questions it answers.

use jiff::{SignedDuration, Timestamp};

use crate::{
    ids::JobId,
    job::{ScheduleSpec, When},
    occurrence::Slot,
    schedule::{
        Planned, ScheduleError, Series,
        calendar::{day_of, local_ceil, second_of_day},
        cron,
        day_rule::{Dates, DayRule},
        day_times::DayTimes,
        every::{Every, Grid},
        jitter, note, slot_text,
        wall::{ClockRule, Scope, Walk, Wall},
        zone::ZoneTable,
    },
};

/// A schedule, compiled for planning.
///
/// Every answer depends on the schedule, the zone data and the arguments only.
///
/// ```
/// use chatcron::{
///     job::{ScheduleSpec, When},
///     schedule::Planner,
/// };
/// use jiff::{SignedDuration, Timestamp};
///
/// let spec = ScheduleSpec {
///     when: When::Cron("30 2 * * *".into()),
///     zone: "Europe/Berlin".into(),
///     from: None,
///     until: None,
///     exclude: vec![],
///     jitter: SignedDuration::ZERO,
/// };
/// let planner = Planner::new(&spec, Timestamp::UNIX_EPOCH)?;
///
/// // The clock goes from 02:00 to 03:00 on this day.
/// let planned = planner.next("2027-03-27T12:00:00Z".parse()?).unwrap();
/// assert_eq!(planned.nominal.to_string(), "2027-03-28T01:00:00Z");
/// assert_eq!(planner.slot(&planned).as_str(), "2027-03-28T02:30:00[Europe/Berlin]");
/// assert_eq!(
///     planner.note(&planned).unwrap(),
///     "02:30 does not exist on 2027-03-28 in Europe/Berlin; runs at 03:00",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Planner {
    kind: Kind,
    jitter: SignedDuration,
}

#[derive(Debug, Clone)]
enum Kind {
    Wall(Wall),
    Every(Every),
}

impl Planner {
    /// Compiles a schedule. `first_seen` is when the job was first seen: the grid's origin of an
    /// `every` job without an anchor, taken down to its whole second.
    ///
    /// # Errors
    /// [`ScheduleError`] for a zone, an expression or a value that cannot be planned.
    pub fn new(spec: &ScheduleSpec, first_seen: Timestamp) -> Result<Self, ScheduleError> {
        let zone = ZoneTable::get(&spec.zone)?;
        let mut exclude: Vec<i64> = spec.exclude.iter().copied().map(day_of).collect();
        exclude.sort_unstable();
        exclude.dedup();
        let exclude = exclude.into_boxed_slice();
        let (rule, dates, times) = match &spec.when {
            When::Every { period, anchor } => {
                let anchor = anchor.unwrap_or_else(|| whole_second(first_seen));
                let bounds = [spec.from, spec.until];
                let every = Every::new(zone, *period, anchor, bounds, exclude)?;
                return Ok(Self {
                    kind: Kind::Every(every),
                    jitter: spec.jitter,
                });
            }
            When::Daily { times, days } => daily(times, days.bits())?,
            When::Cron(text) => {
                let expr = cron::parse(text)?;
                let rule = if expr.is_frequent() {
                    ClockRule::Frequent
                } else {
                    ClockRule::Fixed
                };
                let times = expr.times();
                (rule, Dates::Rule(expr.days), times)
            }
            When::At(at) => {
                let times = DayTimes::listed([whole_time(at.time())?]);
                (ClockRule::Fixed, Dates::One(day_of(at.date())), times)
            }
        };
        let wall = Wall {
            zone,
            dates,
            times,
            rule,
            from: spec.from.map_or(i64::MIN, local_ceil),
            until: spec.until.map_or(i64::MAX, local_ceil),
            exclude,
        };
        Ok(Self {
            kind: Kind::Wall(wall),
            jitter: spec.jitter,
        })
    }

    /// The first occurrence that fires strictly after `after`; `None` where none ever does.
    pub fn next(&self, after: Timestamp) -> Option<Planned> {
        match &self.kind {
            Kind::Wall(wall) => wall.next(after),
            Kind::Every(every) => every.walk(Scope::Firing, after, Timestamp::MAX).next(),
        }
    }

    /// The last occurrence that fires at or before `at`: the mirror of [`Planner::next`].
    pub fn latest_at_or_before(&self, at: Timestamp) -> Option<Planned> {
        match &self.kind {
            Kind::Wall(wall) => wall.latest_at_or_before(at),
            Kind::Every(every) => every.latest_at_or_before(at),
        }
    }

    /// Every slot whose nominal lies after `after` and not after `until`, void ones included, in
    /// ascending order.
    ///
    /// Void are the slots of excluded dates, and of a date that the zone skipped whole. The void
    /// written times that one gap swallows are one slot, named by the earliest; its nominal is the
    /// first instant after the gap, or one microsecond before it where an occurrence fires there.
    pub fn between(&self, after: Timestamp, until: Timestamp) -> Occurrences<'_> {
        self.walk(Scope::All, after, until)
    }

    /// The occurrences among [`Planner::between`] that fire; faster than filtering.
    pub fn firing_between(&self, after: Timestamp, until: Timestamp) -> Occurrences<'_> {
        self.walk(Scope::Firing, after, until)
    }

    /// The slots after `after` and not after `until`, counted without a walk: those of an `every`
    /// job, where all of them fire.
    ///
    /// `None` where there are none, where an excluded date may lie among them, and for every other
    /// kind of schedule.
    pub fn series(&self, after: Timestamp, until: Timestamp) -> Option<Series> {
        match &self.kind {
            Kind::Wall(_) => None,
            Kind::Every(every) => every.series(after, until),
        }
    }

    #[inline]
    fn walk(&self, scope: Scope, after: Timestamp, until: Timestamp) -> Occurrences<'_> {
        Occurrences(match &self.kind {
            Kind::Wall(wall) => Steps::Wall(Walk::new(wall, scope, after, until)),
            Kind::Every(every) => Steps::Every(every.walk(scope, after, until)),
        })
    }

    /// The identity of an occurrence: the written local time and zone, with `/2` on the second
    /// pass of a repeated hour, or the grid instant.
    pub fn slot(&self, planned: &Planned) -> Slot {
        match &self.kind {
            Kind::Wall(wall) => slot_text::of_wall(wall, planned),
            Kind::Every(_) => Slot::from_text(planned.nominal.to_string()),
        }
    }

    /// The other written times that fell to the same end of a gap. They have no record of their
    /// own.
    pub fn merged(&self, planned: &Planned) -> Vec<Slot> {
        match &self.kind {
            Kind::Wall(wall) => slot_text::merged(wall, planned),
            Kind::Every(_) => Vec::new(),
        }
    }

    /// The instant of a slot by the zone data in use; `None` where the text is no slot, its zone
    /// is unknown, or the clock no longer makes the pass that it names.
    ///
    /// The slot may be of an earlier definition of the job, in another zone.
    pub fn resolve(&self, slot: &Slot) -> Option<Timestamp> {
        slot_text::resolve(slot)
    }

    /// When the occurrence starts: its nominal and an offset within the jitter window, which is a
    /// stable hash of the job's id and the slot, and never reaches the following nominal.
    pub fn fire_at(&self, job: &JobId, planned: &Planned) -> Timestamp {
        if !self.jitter.is_positive() {
            return planned.nominal;
        }
        let following = self.next(planned.nominal).map(|next| next.nominal);
        let window = jitter::window(self.jitter, planned.nominal, following);
        jitter::start(planned.nominal, window, job, &self.slot(planned))
    }

    /// Why the occurrence does not start as written, for people; `None` where it does.
    pub fn note(&self, planned: &Planned) -> Option<String> {
        match &self.kind {
            Kind::Wall(wall) => note::of_wall(wall, planned),
            Kind::Every(_) => note::of_grid(planned),
        }
    }
}

/// Slots in ascending order; see [`Planner::between`].
#[derive(Debug, Clone)]
pub struct Occurrences<'p>(Steps<'p>);

#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "an iterator lives on the stack, and boxing it would cost an allocation a question"
)]
enum Steps<'p> {
    Wall(Walk<'p>),
    Every(Grid<'p>),
}

impl Iterator for Occurrences<'_> {
    type Item = Planned;

    #[inline]
    fn next(&mut self) -> Option<Planned> {
        match &mut self.0 {
            Steps::Wall(walk) => walk.next(),
            Steps::Every(grid) => grid.next(),
        }
    }
}

fn daily(
    times: &[jiff::civil::Time],
    days: u8,
) -> Result<(ClockRule, Dates, DayTimes), ScheduleError> {
    let mut seconds = Vec::with_capacity(times.len());
    for time in times {
        seconds.push(whole_time(*time)?);
    }
    seconds.sort_unstable();
    seconds.dedup();
    if seconds.is_empty() {
        return Err(ScheduleError::NoTimes);
    }
    if days == 0 {
        return Err(ScheduleError::NoDays);
    }
    let dates = Dates::Rule(DayRule::weekdays(days));
    Ok((ClockRule::Fixed, dates, DayTimes::listed(seconds)))
}

fn whole_time(time: jiff::civil::Time) -> Result<u32, ScheduleError> {
    if time.subsec_nanosecond() != 0 {
        return Err(ScheduleError::FractionOfSecond { found: time });
    }
    Ok(second_of_day(time))
}

/// A grid that starts within a second would put fractions into every slot's name.
fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(crate::schedule::calendar::floor_second(at)).unwrap_or(at)
}
