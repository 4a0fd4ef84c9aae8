//! A job's policies: its own, else the file's defaults, else those of this version.

use jiff::SignedDuration;

use super::{
    fields::{Entry, Fields},
    known::Left,
    problem::{Code, Problem},
    reader::Reader,
};
use crate::{
    ids::ChatName,
    job::{Alert, CatchUp, Late, Mode, OnInterrupt, OnUnknown, Overlap, Policies, Retry},
};

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

/// All policies, gaps filled in. `alert_to` names other things of the file, so it was looked up.
pub(super) fn build(merged: Merged<'_>, alert_to: Option<ChatName>) -> Policies {
    let standard = Policies::default();
    let duration = |key| merged.of(key).duration(key);
    let word = |key| merged.of(key).text(key);
    Policies {
        catch_up: match word("catch_up") {
            Some("none") => CatchUp::None,
            Some("all") => CatchUp::All,
            Some(_) => CatchUp::Latest,
            None => standard.catch_up,
        },
        catch_up_window: duration("catch_up_window").or(standard.catch_up_window),
        catch_up_spread: duration("catch_up_spread").unwrap_or(standard.catch_up_spread),
        overlap: match word("overlap") {
            Some("buffer-one") => Overlap::BufferOne,
            Some("buffer-all") => Overlap::BufferAll,
            Some("cancel-running") => Overlap::CancelRunning,
            Some("allow") => Overlap::Allow,
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
        pause_after_failures: merged
            .of("pause_after_failures")
            .integer("pause_after_failures"),
        retry_after_effects: merged
            .of("retry_after_effects")
            .flag("retry_after_effects")
            .unwrap_or(standard.retry_after_effects),
        alert: alert(merged),
        alert_to,
        late: match word("late") {
            Some("withhold") => Late::Withhold,
            Some(_) => Late::Label,
            None => standard.late,
        },
        late_after: duration("late_after").unwrap_or(standard.late_after),
    }
}

/// A job that sets `after` alone keeps the `cooldown` of the defaults, and the other way round.
fn alert(merged: Merged<'_>) -> Alert {
    if merged.of("alert").flag("alert") == Some(false) {
        return Alert::Never;
    }
    let tables = [merged.own.table("alert"), merged.defaults.table("alert")];
    let tables = || tables.into_iter().flatten();
    Alert::Once {
        after: tables()
            .find_map(|table| table.integer("after"))
            .unwrap_or(Alert::AFTER),
        cooldown: tables()
            .find_map(|table| table.duration("cooldown"))
            .unwrap_or(Alert::COOLDOWN),
    }
}

/// Refuses policies that contradict each other, or what the job is.
pub(super) fn check(
    reader: &mut Reader<'_>,
    entry: &Entry,
    merged: Merged<'_>,
    policies: &Policies,
    mode: &Mode,
) -> Result<(), Left> {
    let mut contradicts = |key: &str, message: String, label: &str, help: &str| {
        // Where a default contradicts the job, the job is what is shown: it can say otherwise.
        let span = entry.fields.key_span_or(key, &entry.name_span);
        let mut problem = Problem::error(Code::Contradiction, span, message).label(label);
        if !entry.fields.has(key) {
            let written = merged.defaults.key_span_or(key, &entry.name_span);
            problem = problem.also(written, "said for all jobs here");
        }
        reader.report(problem.help(help));
    };
    let mut contradicted = false;
    if policies.catch_up == CatchUp::All && policies.catch_up_window == Some(SignedDuration::ZERO) {
        contradicted = true;
        contradicts(
            "catch_up",
            "`catch_up = \"all\"` runs every missed slot, and `catch_up_window = \"0s\"` lets none of them start".to_owned(),
            "all missed slots",
            "leave `catch_up_window` out, set it to how late a slot may still start, or use `catch_up = \"none\"`",
        );
    }
    let why = match mode {
        Mode::InChat { chat, .. } => {
            Some(format!("two turns in chat `{chat}` cannot go on at once"))
        }
        Mode::Background { memory: true, .. } => Some(String::from(
            "two runs cannot both go on from the memory of the last one",
        )),
        Mode::Background { memory: false, .. } => None,
    };
    if let (Overlap::Allow, Some(why)) = (policies.overlap, why) {
        contradicted = true;
        contradicts(
            "overlap",
            format!("`overlap = \"allow\"` starts a run beside another, and {why}"),
            "starts beside a run",
            "use `skip`, `buffer-one`, `buffer-all` or `cancel-running`, or make it a background job without `memory`",
        );
    }
    if contradicted {
        Err(Left::Reported)
    } else {
        Ok(())
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
