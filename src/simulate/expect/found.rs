//! What is held against expectations in the end.

use super::{Expect, First, Started, Unmet, slots, words};
use crate::simulate::{JobTotals, Report};

/// What is found against one expectation.
pub(super) struct Found<'a> {
    pub(super) index: usize,
    pub(super) expect: &'a Expect,
    pub(super) unmet: &'a mut Vec<Unmet>,
}

impl Found<'_> {
    fn add(&mut self, key: &'static str, expected: String, found: String, event: Option<String>) {
        self.unmet.push(Unmet {
            index: self.index,
            job: self.expect.job.clone(),
            key,
            expected,
            found,
            event,
        });
    }

    pub(super) fn counts(&mut self, report: &Report, first: &First) {
        let expect = self.expect;
        let sum = |of: fn(&JobTotals) -> u64| -> u64 {
            let jobs = report
                .jobs
                .iter()
                .filter(|job| expect.concerns(&job.job_id));
            jobs.map(of).sum()
        };
        let starts = sum(|job| job.starts);
        let failed = sum(JobTotals::failures);
        let skipped = sum(JobTotals::skips);
        let exact = [
            ("starts", expect.starts, starts, &first.too_many),
            ("failed", expect.failed, failed, &first.failed),
            ("skipped", expect.skipped, skipped, &first.skipped),
        ];
        for (key, wanted, found, event) in exact {
            if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
                let event = event.clone().filter(|_| found > wanted);
                self.add(key, format!("exactly {wanted}"), found.to_string(), event);
            }
        }
        if let Some(least) = expect.starts_min.filter(|least| starts < *least) {
            self.add(
                "starts_min",
                format!("at least {least}"),
                starts.to_string(),
                None,
            );
        }
        if let Some(most) = expect.starts_max.filter(|most| starts > *most) {
            let event = first.too_many.clone();
            self.add(
                "starts_max",
                format!("at most {most}"),
                starts.to_string(),
                event,
            );
        }
        let peak = first.peak;
        if let Some(most) = expect.peak_concurrency_max.filter(|most| peak > *most) {
            let event = first.concurrency.clone();
            self.add(
                "peak_concurrency_max",
                format!("at most {most}"),
                peak.to_string(),
                event,
            );
        }
    }

    pub(super) fn rules(&mut self, report: &Report, first: First, started: Started) {
        let expect = self.expect;
        if let (Some(most), Some((late, event))) = (expect.max_lateness, first.lateness) {
            let jobs = report
                .jobs
                .iter()
                .filter(|job| expect.concerns(&job.job_id));
            let worst = jobs.map(|job| job.lateness.longest()).max().unwrap_or(late);
            self.add(
                "max_lateness",
                format!("at most {most:#}"),
                format!("{worst:#}"),
                Some(event),
            );
        }
        if let (Some((from, to)), Some(event)) = (expect.never_between, first.between) {
            let expected = format!(
                "no start from {} to {}",
                from.strftime("%H:%M"),
                to.strftime("%H:%M")
            );
            self.add(
                "never_between",
                expected,
                String::from("a start"),
                Some(event),
            );
        }
        if let Some(event) = first.skip {
            let expected = format!("no slot skipped for {}", words(&expect.no_skips));
            self.add("no_skips", expected, String::from("one was"), Some(event));
        }
        if let Some(slots) = &expect.slots
            && !started.is_as_expected()
        {
            let (expected, found) = (slots::spelled(slots), started.spelled());
            self.add("slots", expected, found, first.other_slot);
        }
    }
}
