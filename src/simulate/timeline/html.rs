//! The timeline in a page of its own.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::simulate::{JobTotals, Report, escaped};

use super::Timeline;

const HEAD: &str = "\
<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>chatcron simulate</title>
<style>
body{font:14px/1.4 Helvetica,Arial,sans-serif;color:#222;margin:1em;max-width:1200px}
svg{width:100%;height:auto}
table{border-collapse:collapse;margin-top:1em}
th,td{padding:.2em .7em;border-bottom:1px solid #ccc;text-align:left;vertical-align:top}
td.n,th.n{text-align:right}
@media print{body{margin:0}tr{break-inside:avoid}}
</style>
</head>
<body>
";

pub(super) fn page(timeline: &Timeline, report: &Report) -> String {
    let mut out = String::from(HEAD);
    out.push_str(&timeline.svg());
    out.push_str(
        "<table>\n<tr><th>job</th><th class=\"n\">starts</th><th>skipped</th><th>given up</th>\
         <th class=\"n\">retries</th><th class=\"n\">latest start</th></tr>\n",
    );
    for job in &report.jobs {
        row(&mut out, job);
    }
    out.push_str("</table>\n</body>\n</html>\n");
    out
}

fn row(out: &mut String, job: &JobTotals) {
    let counts = |counts: &BTreeMap<&str, u64>| {
        let words = counts.iter().map(|(why, count)| format!("{count} {why}"));
        words.collect::<Vec<_>>().join(", ")
    };
    let _ = writeln!(
        out,
        "<tr><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{:#}</td></tr>",
        escaped(job.job_id.as_str()),
        job.starts,
        counts(&job.skipped),
        counts(&job.failed),
        job.retries,
        jiff::SignedDuration::from_secs(job.lateness.longest().as_secs()),
    );
}
