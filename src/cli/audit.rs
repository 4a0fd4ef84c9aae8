//! `chatcron audit`: the ledger against the plan.

use serde_json::json;

use crate::{
    audit::{AuditReport, Finding},
    cli::{
        Exit,
        failure::Failure,
        json,
        names::{self, unreadable},
        plain, print,
        reading::Place,
        runtime,
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
};

/// Prove that every slot has exactly one record.
///
/// Holds the ledger against the definitions that planned it: no hole, no double, no orphan, and no
/// rows that contradict each other. Works beside a running worker. Ends with 1 where anything is
/// found.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// This job only, also a removed one.
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let report = runtime::block_on(async {
        let store = arguments.place.open().await?;
        let job = match &arguments.job {
            Some(id) => Some(names::job(&*store, id).await?.job.id),
            None => None,
        };
        store.audit(job.as_ref()).await.map_err(unreadable)
    })?;
    print(&if arguments.json {
        as_json(&report)
    } else {
        render(&report, Screen::of_stdout())
    })?;
    Ok(if report.holds() {
        Exit::Fine
    } else {
        Exit::DoesNotHold
    })
}

fn as_json(report: &AuditReport) -> String {
    json::text(&json!({
        "holds": report.holds(),
        "jobs": report.jobs,
        "slots": report.slots,
        "pruned": report.pruned,
        "unproved": report.unproved,
        "findings": report.findings,
    }))
}

fn render(report: &AuditReport, screen: Screen) -> String {
    let mut out = String::new();
    let mut table = Table::new([Column::Left, Column::Left, Column::Breaks]);
    for finding in &report.findings {
        table.row(row(finding));
    }
    if !report.holds() {
        out.push_str(&table.render(screen));
    }
    if report.pruned > 0 {
        out.push_str(&format!(
            "not looked at: {} whose records were pruned\n",
            words::counted(report.pruned, "slot")
        ));
    }
    if report.unproved > 0 {
        out.push_str(&format!(
            "not proved: {} with a record of which today's plan can say nothing\n",
            words::counted(report.unproved, "slot")
        ));
    }
    let jobs = words::counted(report.jobs, "job");
    if report.holds() {
        let slots = words::counted(report.slots, "slot");
        out.push_str(&format!("audited: {jobs}, {slots}, one record each\n"));
    } else {
        let found = u64::try_from(report.findings.len()).unwrap_or(u64::MAX);
        let found = words::counted(found, "finding");
        let verdict = format!("NOT in order: {found} in {jobs}");
        out.push_str(&format!("{}\n", screen.toned(&verdict, Tone::Bad)));
    }
    out
}

fn row(finding: &Finding) -> [Cell; 3] {
    let job = finding.job.as_ref().map_or("", |job| job.as_str());
    [
        Cell::toned(job, Tone::Strong),
        Cell::toned(finding.kind.as_str(), Tone::Bad),
        plain::line(&finding.what).into(),
    ]
}
