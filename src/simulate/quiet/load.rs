//! What jobs do together, counted by the second, the minute and the hour of one piece of the window.

use jiff::{SignedDuration, Timestamp};

use crate::simulate::{Peak, Report, Window, report::busy};

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;

/// Counts of one piece, and what the pieces before it came to.
pub(super) struct Load {
    room: i64,
    window_end: i64,
    /// The first second of the piece.
    from: i64,
    /// How many more attempts are under way from each second on.
    change: Vec<i32>,
    running: i64,
    starts: Buckets,
    messages: Vec<Buckets>,
    /// Ends of attempts, and messages with their destination, after the piece.
    later: Vec<(i64, Option<usize>)>,
    concurrency: Peak,
    herd_minutes: u64,
    busiest: Vec<Peak>,
    totals: Vec<(u64, Peak)>,
}

/// Counts by stretches of the clock.
struct Buckets {
    width: i64,
    first: i64,
    counts: Vec<u32>,
}

impl Buckets {
    fn new(width: i64, from: i64, length: i64) -> Self {
        Self {
            width,
            first: from.div_euclid(width),
            // A piece need not begin where a bucket does.
            counts: vec![0; usize::try_from(length / width).unwrap_or(0) + 2],
        }
    }

    fn add(&mut self, second: i64) {
        let place = usize::try_from(second.div_euclid(self.width) - self.first);
        if let Some(count) = place.ok().and_then(|place| self.counts.get_mut(place)) {
            *count += 1;
        }
    }

    /// Takes the counts of the buckets that end by `to`, and moves the others to the front.
    fn take(&mut self, to: i64, is_last: IsLast, mut each: impl FnMut(u64, i64)) {
        let done = match is_last {
            IsLast::Yes => self.counts.len(),
            IsLast::No => usize::try_from(to.div_euclid(self.width) - self.first).unwrap_or(0),
        };
        for (place, count) in self.counts.iter_mut().take(done).enumerate() {
            let count = std::mem::take(count);
            if count > 0 {
                each(u64::from(count), (self.first + place as i64) * self.width);
            }
        }
        self.counts.rotate_left(done);
        self.first += done as i64;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IsLast {
    Yes,
    No,
}

impl Load {
    pub(super) fn new(
        window: Window,
        piece: SignedDuration,
        room: usize,
        destinations: usize,
    ) -> Self {
        let from = window.from.as_second();
        let length = piece.as_secs();
        let of_hours = || Buckets::new(HOUR, from, length);
        Self {
            room: i64::try_from(room).unwrap_or(i64::MAX),
            window_end: window.to.as_second() + i64::from(window.to.subsec_nanosecond() > 0),
            from,
            change: vec![0; usize::try_from(length).unwrap_or(0)],
            running: 0,
            starts: Buckets::new(MINUTE, from, length),
            messages: (0..destinations).map(|_| of_hours()).collect(),
            later: Vec::new(),
            concurrency: Peak::default(),
            herd_minutes: 0,
            busiest: Vec::new(),
            totals: vec![(0, Peak::default()); destinations],
        }
    }

    /// A run comes due.
    #[inline]
    pub(super) fn start(&mut self, at: i64) {
        self.starts.add(at);
    }

    /// An attempt is under way from second to second.
    #[inline]
    pub(super) fn attempt(&mut self, from: i64, to: i64) {
        self.count(from, 1);
        if !self.count(to, -1) {
            self.later.push((to, None));
        }
    }

    /// A message is shown.
    #[inline]
    pub(super) fn message(&mut self, destination: usize, at: i64) {
        if at < self.from + self.change.len() as i64 {
            self.messages[destination].add(at);
        } else {
            self.later.push((at, Some(destination)));
        }
    }

    #[inline]
    fn count(&mut self, second: i64, by: i32) -> bool {
        let place = usize::try_from(second - self.from).ok();
        match place.and_then(|place| self.change.get_mut(place)) {
            Some(change) => {
                *change += by;
                true
            }
            None => false,
        }
    }

    /// Adds the piece up, and begins the next one. Nothing where there was not room for all.
    pub(super) fn close(&mut self, to: Timestamp) -> Option<()> {
        let to = to.as_second();
        let is_last = if to + 1 >= self.window_end {
            IsLast::Yes
        } else {
            IsLast::No
        };
        let mut running = self.running;
        for (place, change) in self.change.iter_mut().enumerate() {
            if *change == 0 {
                continue;
            }
            running += i64::from(std::mem::take(change));
            if running > self.concurrency.count as i64 {
                let at = Timestamp::from_second(self.from + place as i64).ok()?;
                self.concurrency.meet(running as u64, at);
            }
        }
        if self.concurrency.count as i64 > self.room {
            return None;
        }
        self.running = running;
        let (room, herds, busiest) = (self.room, &mut self.herd_minutes, &mut self.busiest);
        self.starts.take(to, is_last, |count, second| {
            *herds += u64::from(count as i64 > room);
            if let (true, Ok(at)) = (count > 1, Timestamp::from_second(second)) {
                busy(busiest, count, at);
            }
        });
        for (buckets, (messages, peak)) in self.messages.iter_mut().zip(&mut self.totals) {
            buckets.take(to, is_last, |count, second| {
                *messages += count;
                if let Ok(at) = Timestamp::from_second(second) {
                    peak.meet(count, at);
                }
            });
        }
        self.from = to;
        for (second, destination) in std::mem::take(&mut self.later) {
            match destination {
                Some(destination) => self.message(destination, second),
                None => {
                    if !self.count(second, -1) {
                        self.later.push((second, None));
                    }
                }
            }
        }
        Some(())
    }

    /// Puts what was counted into the report.
    pub(super) fn tell(self, report: &mut Report, names: &[&str]) {
        report.concurrency = self.concurrency;
        report.herd_minutes = self.herd_minutes;
        report.busiest = self.busiest;
        for (name, (messages, peak_hour)) in names.iter().zip(self.totals) {
            if let Some(totals) = report.destinations.get_mut(*name) {
                totals.messages = messages;
                totals.peak_hour = peak_hour;
            }
        }
    }
}
