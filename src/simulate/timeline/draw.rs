//! The drawing. What a mark means shows in its place and form, and its colour says it again; the
//! colours are told apart by colour-blind people and in grey.

use std::fmt::Write as _;

use jiff::{Timestamp, tz::TimeZone};

use super::{COLUMNS, Lane, Timeline, axis};
use crate::simulate::escaped;

const LEFT: f64 = 170.0;
const PLOT: f64 = 960.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 92.0;
const CHART: f64 = 90.0;
const COLUMN: f64 = PLOT / COLUMNS as f64;
/// How many characters of a job's name fit.
const NAME_MAX: usize = 24;

const STYLE: &str = "\
text{font-family:Helvetica,Arial,sans-serif;fill:#222}\
.n{text-anchor:end}.a{text-anchor:middle;fill:#444}\
.s{fill:#0072b2}.l{fill:#fff;stroke:#0072b2;stroke-width:.8}\
.k{fill:#e69f00;stroke:#7a5400;stroke-width:.3}.f{fill:#000}\
.z{fill:#f4f4f4}.g{stroke:#ccc;stroke-width:.6}.c{stroke:#7b3294;stroke-width:1.2;stroke-dasharray:5 3}\
.p{fill:#56b4e9;stroke:#0072b2;stroke-width:.8}.m{stroke:#000;stroke-width:1;stroke-dasharray:2 2}";

/// Sizes that depend on how many lanes there are.
struct Sizes {
    lane: f64,
    font: f64,
}

impl Sizes {
    fn of(lanes: usize) -> Self {
        let (lane, font) = match lanes {
            0..=15 => (24.0, 12.0),
            16..=60 => (14.0, 10.0),
            61..=150 => (10.0, 8.0),
            _ => (7.0, 6.0),
        };
        Self { lane, font }
    }
}

pub(super) fn svg(timeline: &Timeline) -> String {
    let sizes = Sizes::of(timeline.lanes.len());
    let lanes_end = TOP + sizes.lane * timeline.lanes.len() as f64;
    let note = if timeline.left_out > 0 { 16.0 } else { 0.0 };
    let chart_top = lanes_end + 34.0 + note;
    let height = chart_top + CHART + 34.0;
    let width = LEFT + PLOT + RIGHT;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-labelledby=\"t\">\n\
         <title id=\"t\">{}</title>\n<style>{STYLE}</style>\n\
         <defs><pattern id=\"d\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#eee\"/>\
         <line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"#999\" stroke-width=\"2\"/></pattern></defs>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n",
        title(timeline),
    );
    head(&mut out, timeline);
    stripes(&mut out, timeline, &sizes);
    across(&mut out, timeline, lanes_end, chart_top);
    for (index, lane) in timeline.lanes.iter().enumerate() {
        draw_lane(&mut out, lane, TOP + sizes.lane * index as f64, &sizes);
    }
    if timeline.left_out > 0 {
        let y = lanes_end + 13.0;
        let more = timeline.left_out;
        text(
            &mut out,
            "n",
            (LEFT - 8.0, y),
            10.0,
            &format!("and {more} jobs more"),
        );
    }
    marks(&mut out, timeline, lanes_end + note);
    chart(&mut out, timeline, chart_top);
    out.push_str("</svg>\n");
    out
}

fn title(timeline: &Timeline) -> String {
    let local = |at: Timestamp| spelled(at, &timeline.zone);
    let jobs = timeline.lanes.len() + timeline.left_out;
    format!(
        "{jobs} {} from {} to {} ({})",
        if jobs == 1 { "job" } else { "jobs" },
        local(timeline.window.from),
        local(timeline.window.to),
        timeline.zone_name,
    )
}

fn spelled(at: Timestamp, zone: &TimeZone) -> String {
    let wall = at.to_zoned_datetime(zone.clone()).datetime();
    wall.strftime("%a %F %H:%M").to_string()
}

fn head(out: &mut String, timeline: &Timeline) {
    text(out, "", (12.0, 24.0), 16.0, &title(timeline));
    let mut x = 12.0;
    for (class, name, width) in [
        ("s", "start (mid lane)", 128.0),
        ("l", "caught-up start (mid lane, hollow)", 226.0),
        ("k", "skipped slot (foot of the lane)", 208.0),
        ("f", "given up (head of the lane)", 188.0),
    ] {
        let (y, height) = match class {
            "k" => (48.0, 4.0),
            "f" => (38.0, 4.0),
            _ => (41.0, 8.0),
        };
        let _ = write!(
            out,
            "<path class=\"{class}\" d=\"M{x} {y}h6v{height}h-6z\"/>"
        );
        text(out, "", (x + 11.0, 49.0), 11.0, name);
        x += width;
    }
    let _ = write!(
        out,
        "<rect x=\"{x}\" y=\"38\" width=\"14\" height=\"14\" fill=\"url(#d)\"/>"
    );
    text(out, "", (x + 19.0, 49.0), 11.0, "process down");
    x += 106.0;
    let _ = writeln!(
        out,
        "<line class=\"c\" x1=\"{x}\" y1=\"38\" x2=\"{x}\" y2=\"52\"/>"
    );
    text(out, "", (x + 7.0, 49.0), 11.0, "clock change");
}

/// Every other lane is shaded, so that a name leads to its marks.
fn stripes(out: &mut String, timeline: &Timeline, sizes: &Sizes) {
    for index in (0..timeline.lanes.len()).step_by(2) {
        let y = TOP + sizes.lane * index as f64;
        let _ = writeln!(
            out,
            "<rect class=\"z\" x=\"{LEFT}\" y=\"{y}\" width=\"{PLOT}\" height=\"{}\"/>",
            sizes.lane
        );
    }
}

/// What goes across all lanes: outages and clock changes.
fn across(out: &mut String, timeline: &Timeline, lanes_end: f64, chart_top: f64) {
    // The words of the axis stay free.
    let parts = [(TOP, lanes_end), (chart_top, chart_top + CHART)];
    let still_down = timeline.down_since.map(|since| (since, timeline.window.to));
    for (from, to) in timeline.outages.iter().copied().chain(still_down) {
        let (from, to) = (place(timeline, from), place(timeline, to));
        let width = (to - from).max(1.5);
        for (top, end) in parts {
            let height = end - top;
            let _ = writeln!(
                out,
                "<rect x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\" fill=\"url(#d)\"/>",
            );
        }
    }
    let mut free_from = 0.0;
    for (at, words) in &timeline.changes {
        let x = place(timeline, *at);
        for (top, end) in [(TOP - 6.0, lanes_end), parts[1]] {
            let _ = writeln!(
                out,
                "<line class=\"c\" x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{end}\"/>"
            );
        }
        let width = words.chars().count() as f64 * 5.2;
        let begin = (x - width / 2.0).clamp(LEFT, (LEFT + PLOT + RIGHT - width).max(LEFT));
        if begin >= free_from {
            text(out, "", (begin, TOP - 9.0), 10.0, words);
            free_from = begin + width + 8.0;
        }
    }
    let _ = writeln!(
        out,
        "<path fill=\"none\" class=\"g\" d=\"M{LEFT} {TOP}h{PLOT}V{lanes_end}h-{PLOT}z\"/>"
    );
}

fn draw_lane(out: &mut String, lane: &Lane, top: f64, sizes: &Sizes) {
    let name: String = if lane.name.chars().count() > NAME_MAX {
        let start: String = lane.name.chars().take(NAME_MAX - 1).collect();
        format!("{start}…")
    } else {
        lane.name.clone()
    };
    let baseline = top + sizes.lane / 2.0 + sizes.font * 0.35;
    text(out, "n", (LEFT - 8.0, baseline), sizes.font, &name);
    // Head, middle and foot of the lane, with a hair between lanes.
    let unit = sizes.lane / 8.0;
    strip(out, ("s", &lane.starts), top + unit * 2.0, unit * 4.0);
    strip(out, ("l", &lane.late), top + unit * 2.0, unit * 4.0);
    strip(out, ("k", &lane.skips), top + unit * 6.2, unit * 1.6);
    strip(out, ("f", &lane.failures), top + unit * 0.2, unit * 1.6);
}

/// Columns with anything in them; more of it is darker. Neighbours with as much are one mark.
fn strip(out: &mut String, (class, counts): (&str, &[u32]), top: f64, height: f64) {
    let most = counts.iter().max().copied().unwrap_or(0);
    if most == 0 {
        return;
    }
    // Where there are few, each is seen at a glance; where there are many, none hides its neighbour.
    let used = counts.iter().filter(|count| **count > 0).count();
    let narrowest = if used * 5 < counts.len() { 4.0 } else { COLUMN };
    let shade = |count: u32| match count {
        0 => 0,
        _ if count * 3 > most * 2 || most == 1 => 3,
        _ if count * 3 > most => 2,
        _ => 1,
    };
    for (level, opacity) in [(3, ""), (2, " opacity=\".7\""), (1, " opacity=\".45\"")] {
        let mut path = String::new();
        let mut column = 0;
        while column < counts.len() {
            let from = column;
            while column < counts.len() && shade(counts[column]) == level {
                column += 1;
            }
            if column > from {
                let x = LEFT + from as f64 * COLUMN;
                let width = ((column - from) as f64 * COLUMN).max(narrowest);
                let _ = write!(path, "M{x:.0} {top:.1}h{width:.0}v{height:.1}h-{width:.0}z");
            } else {
                column += 1;
            }
        }
        if !path.is_empty() {
            let _ = writeln!(out, "<path class=\"{class}\"{opacity} d=\"{path}\"/>");
        }
    }
}

fn marks(out: &mut String, timeline: &Timeline, lanes_end: f64) {
    for mark in axis::marks(timeline.window, &timeline.zone) {
        let x = place(timeline, mark.at);
        let _ = writeln!(
            out,
            "<line class=\"g\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{}\"/>",
            lanes_end + 5.0
        );
        text(out, "a", (x, lanes_end + 17.0), 10.0, &mark.text);
    }
}

/// Attempts under way: the most of each column.
fn chart(out: &mut String, timeline: &Timeline, top: f64) {
    let most = timeline.concurrency.iter().max().copied().unwrap_or(0);
    let bottom = top + CHART;
    let scale = CHART / f64::from(most.max(1));
    let mut path = format!("M{LEFT} {bottom}");
    let mut level = 0;
    for (column, count) in timeline.concurrency.iter().enumerate() {
        if *count != level {
            let x = LEFT + column as f64 * COLUMN;
            let y = bottom - f64::from(*count) * scale;
            let _ = write!(path, "H{x:.0}V{y:.1}");
            level = *count;
        }
    }
    let _ = write!(path, "H{}V{bottom}z", LEFT + PLOT);
    let _ = writeln!(out, "<path class=\"p\" d=\"{path}\"/>");
    let _ = writeln!(
        out,
        "<path fill=\"none\" class=\"g\" d=\"M{LEFT} {top}h{PLOT}V{bottom}h-{PLOT}z\"/>"
    );
    let cap = timeline.max_concurrent;
    if let Ok(cap) = u32::try_from(cap)
        && cap <= most
    {
        let y = bottom - f64::from(cap) * scale;
        let end = LEFT + PLOT;
        let _ = writeln!(
            out,
            "<line class=\"m\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{end}\" y2=\"{y:.1}\"/>"
        );
    }
    text(out, "n", (LEFT - 8.0, top + 10.0), 10.0, &most.to_string());
    text(out, "n", (LEFT - 8.0, bottom), 10.0, "0");
    text(
        out,
        "n",
        (LEFT - 8.0, top + CHART / 2.0 + 4.0),
        10.0,
        "runs at once",
    );
    let note = format!("at most {cap} may be under way at once");
    text(out, "", (LEFT, bottom + 16.0), 10.0, &note);
}

fn place(timeline: &Timeline, at: Timestamp) -> f64 {
    let window = timeline.window;
    let whole = window.from.duration_until(window.to).as_secs_f64();
    let part = window.from.duration_until(at).as_secs_f64();
    LEFT + (part / whole).clamp(0.0, 1.0) * PLOT
}

fn text(out: &mut String, class: &str, (x, y): (f64, f64), size: f64, words: &str) {
    let class = if class.is_empty() {
        String::new()
    } else {
        format!(" class=\"{class}\"")
    };
    let words = escaped(words);
    let _ = writeln!(
        out,
        "<text{class} x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\">{words}</text>"
    );
}
