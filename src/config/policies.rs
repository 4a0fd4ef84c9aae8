//! A job's policies: its own, else the file's defaults, else those of this version.

use super::fields::Fields;
use crate::job::{CatchUp, OnInterrupt, OnUnknown, Overlap, Policies, Retry};

/// A job's keys above the file's defaults.
#[derive(Clone, Copy)]
pub(super) struct Merged<'a> {
    pub(super) own: &'a Fields,
    pub(super) defaults: &'a Fields,
}

impl<'a> Merged<'a> {
    /// The table that decides about a key.
    pub(super) fn of(&self, key: &str) -> &'a Fields {
        if self.own.has(key) {
            self.own
        } else {
            self.defaults
        }
    }

    /// What of the defaults this job relies on and is wrong.
    pub(super) fn wrong_default(&self) -> Option<String> {
        if self.defaults.has_stray {
            return Some(String::from("`[defaults]`"));
        }
        let key = self
            .defaults
            .wrong_keys()
            .find(|key| *key != "agent" && !self.own.has(key))?;
        Some(format!("`defaults.{key}`"))
    }
}

/// All policies, gaps filled in.
pub(super) fn build(merged: Merged<'_>) -> Policies {
    let standard = Policies::default();
    let duration = |key| merged.of(key).duration(key);
    let word = |key| merged.of(key).text(key);
    Policies {
        catch_up: match word("catch_up") {
            Some("none") => CatchUp::None,
            Some(_) => CatchUp::Latest,
            None => standard.catch_up,
        },
        catch_up_window: duration("catch_up_window").or(standard.catch_up_window),
        catch_up_spread: duration("catch_up_spread").unwrap_or(standard.catch_up_spread),
        overlap: match word("overlap") {
            Some(_) => Overlap::Skip,
            None => standard.overlap,
        },
        retry: retry(merged, standard.retry),
        timeout: duration("timeout").unwrap_or(standard.timeout),
        on_interrupt: match word("on_interrupt") {
            Some("fail") => OnInterrupt::Fail,
            Some(_) => OnInterrupt::Retry,
            None => standard.on_interrupt,
        },
        max_runs: merged.of("max_runs").integer("max_runs"),
        on_unknown: match word("on_unknown") {
            Some("resend") => OnUnknown::Resend,
            Some(_) => OnUnknown::Hold,
            None => standard.on_unknown,
        },
    }
}

/// A job that sets `backoff` alone keeps the `attempts` of the defaults, and the other way round.
fn retry(merged: Merged<'_>, standard: Retry) -> Retry {
    let tables = [merged.own.table("retry"), merged.defaults.table("retry")];
    let has = |key: &'static str| {
        tables
            .into_iter()
            .flatten()
            .find(move |table| table.has(key))
    };
    Retry {
        attempts: has("attempts")
            .and_then(|table| table.integer("attempts"))
            .unwrap_or(standard.attempts),
        backoff: has("backoff").map_or(standard.backoff, |table| {
            table
                .list("backoff")
                .iter()
                .filter_map(|item| item.value.duration())
                .collect()
        }),
    }
}
