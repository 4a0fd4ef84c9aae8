//! Everything about one run.

use jiff::Timestamp;

use crate::{
    cli::{
        Exit,
        failure::Failure,
        json,
        names::unreadable,
        outcome, parts, plain,
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
    ids::RunId,
    store::{DiagnosticRow, Level, Store},
    view::{self, RunDetail, RunRows},
};

/// What is known of a run.
#[derive(Debug)]
pub(super) struct Detail {
    pub(super) rows: RunRows,
    pub(super) zone: String,
}

/// Everything about one run.
///
/// # Errors
/// Where there is no such run, or the store cannot be read.
pub(super) async fn load(store: &dyn Store, id: RunId) -> Result<Detail, Failure> {
    let Some(rows) = view::run(store, id).await.map_err(unreadable)? else {
        let message = format!("there is no run {id} in the database");
        return Err(Failure::new(Exit::CannotRead, message)
            .help("`chatcron runs` lists them; old ones are pruned as `[retention]` says"));
    };
    let jobs = store
        .jobs(std::slice::from_ref(&rows.run.job_id))
        .await
        .map_err(unreadable)?;
    Ok(Detail {
        zone: words::common_zone(jobs.iter().map(|stored| &stored.job)),
        rows,
    })
}

impl Detail {
    pub(super) fn json(&self) -> String {
        json::text(&RunDetail::from(&self.rows))
    }

    pub(super) fn render(&self, now: Timestamp, screen: Screen) -> String {
        let id = self
            .rows
            .run
            .run_id
            .map_or_else(String::new, |id| id.to_string());
        let title = format!("run {id} of {}", self.rows.run.job_id);
        let mut out = format!("{}\n", screen.toned(&title, Tone::Strong));
        out.push_str(&self.facts(now, screen));
        out.push_str(&self.attempts(now, screen));
        if !self.rows.diagnostics.is_empty() {
            out.push_str("worth knowing\n");
            out.push_str(&diagnostics(&self.rows.diagnostics, screen));
        }
        if !self.rows.parts.is_empty() {
            out.push_str("messages\n");
            out.push_str(&parts::table(&self.rows.parts, now, screen));
        }
        out
    }

    fn facts(&self, now: Timestamp, screen: Screen) -> String {
        let run = &self.rows.run;
        let zone = words::zone(&self.zone);
        let mut table = Table::new([Column::Left, Column::Breaks]).indent(2);
        let slot = run.slot.as_ref().map_or_else(
            || String::from("none: it was asked for"),
            |slot| plain::line(slot.as_str()),
        );
        let nominal = words::scheduled(run.nominal_at, now, &zone);
        table.row(["time".into(), format!("{nominal} ({})", self.zone).into()]);
        table.row(["slot".into(), slot.into()]);
        table.row(["cause".into(), run.cause.as_str().into()]);
        table.row(["outcome".into(), outcome::outcome(run, now)]);
        table.row(["delivered".into(), outcome::delivered(run)]);
        if let Some(error) = &run.error {
            table.row(["error".into(), Cell::toned(plain::lines(error), Tone::Bad)]);
        }
        if let Some(output) = &run.output {
            table.row(["agent said".into(), plain::lines(output).into()]);
        }
        if let Some(usage) = &run.usage {
            let counted = format!("{} in, {} out", usage.input_tokens, usage.output_tokens);
            table.row(["tokens".into(), counted.into()]);
        }
        table.render(screen)
    }

    fn attempts(&self, now: Timestamp, screen: Screen) -> String {
        if self.rows.attempts.is_empty() {
            return String::from("no attempt was made\n");
        }
        let zone = words::zone(&self.zone);
        let mut table = Table::new([
            Column::Right,
            Column::Left,
            Column::Left,
            Column::Left,
            Column::Breaks,
        ])
        .indent(2);
        for attempt in &self.rows.attempts {
            let took = match attempt.ended_at {
                Some(end) => words::exact(attempt.started_at.duration_until(end)),
                None => format!(
                    "for {}",
                    words::span(attempt.started_at.duration_until(now))
                ),
            };
            let result = attempt.result.as_deref().unwrap_or("under way");
            let effects = attempt.effects_at.map_or("", |_| ", with effects");
            table.row([
                attempt.attempt.to_string().into(),
                words::moment(attempt.started_at, now, &zone).into(),
                took.into(),
                plain::line(&format!("{result}{effects}")).into(),
                plain::lines(attempt.error.as_deref().unwrap_or_default()).into(),
            ]);
        }
        format!("attempts\n{}", table.render(screen))
    }
}

/// Diagnostics, as rows.
pub(in crate::cli) fn diagnostics(rows: &[DiagnosticRow], screen: Screen) -> String {
    let mut table = Table::new([Column::Left, Column::Left, Column::Breaks]).indent(2);
    for row in rows {
        let (level, tone) = match row.level {
            Level::Info => ("info", Tone::Usual),
            Level::Warn => ("warn", Tone::Warn),
        };
        table.row([
            Cell::toned(level, tone),
            plain::line(&row.code).into(),
            plain::lines(&row.message).into(),
        ]);
    }
    table.render(screen)
}
