//! Scenarios: what `[simulate]` or a file of its own says.

use std::{io, ops::Range, path::Path};

use jiff::Timestamp;
use toml::de::DeTable;

use super::{
    fields::{Fields, Value},
    nearest::nearest,
    problem::{Code, Level, Problem},
    reader::Reader,
    secrets, syntax, tables, walk,
};
use crate::{
    ids::{ChatName, JobId},
    occurrence::SkipReason,
    simulate::{Expect, Written, parse},
};

/// What reading a scenario file came to.
#[derive(Debug, Clone)]
pub struct LoadedScenario {
    /// What it says; `None` where anything in it is wrong.
    pub scenario: Option<Written>,
    /// Everything that is wrong, from top to bottom.
    pub problems: Vec<Problem>,
    /// The source with secrets starred out, byte for byte as long: the one to show.
    pub source: String,
}

/// Reads a scenario file for a jobs file with these names: the keys of `[simulate]`, at its top.
pub fn parse_scenario(source: &str, names: Names<'_>) -> LoadedScenario {
    let no_files = |_: &Path| Err(io::ErrorKind::NotFound.into());
    // Nothing in it depends on the moment.
    let mut reader = Reader::new(source, &no_files, Timestamp::UNIX_EPOCH);
    reader.hidden.extend(secrets::shapes(source));
    let (table, errors) = DeTable::parse_recoverable(source);
    let place = walk::Place {
        table: &tables::SIMULATE,
        name: String::from("the scenario"),
        span: 0..0,
        siblings: &[],
    };
    let fields = walk::table(&mut reader, &place, table.get_ref());
    let scenario = build(&mut reader, &fields, names);
    if !errors.is_empty() {
        reader.hidden.extend(secrets::in_lines(source));
        syntax::report(&mut reader, &errors);
    }
    let (mut problems, hidden) = reader.into_problems();
    for problem in &mut problems {
        secrets::censor(problem);
    }
    let is_good = problems.iter().all(|problem| problem.level != Level::Error);
    LoadedScenario {
        scenario: scenario.filter(|_| is_good),
        problems,
        source: secrets::mask(source, &hidden),
    }
}

/// The names that there are.
#[derive(Debug, Clone, Copy)]
pub struct Names<'n> {
    /// Of jobs, those that are left out too.
    pub jobs: &'n [&'n str],
    /// Of chats.
    pub chats: &'n [&'n str],
}

/// A scenario from its table.
pub(super) fn build(reader: &mut Reader<'_>, fields: &Fields, names: Names<'_>) -> Option<Written> {
    let (written, wrong) = reader.watching(|reader| assemble(reader, fields, names));
    (!wrong).then_some(written)
}

fn assemble(reader: &mut Reader<'_>, fields: &Fields, names: Names<'_>) -> Written {
    let mut writing = Writing { reader, names };
    let moment = |writing: &mut Writing<'_, '_>, key| {
        let (text, span) = fields.spanned_text(key)?;
        writing.read(&span, parse::moment(text))
    };
    let number = |key| match fields.value(key) {
        Some(Value::Integer(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    let mut written = Written {
        from: moment(&mut writing, "from"),
        to: moment(&mut writing, "to"),
        length: fields.duration("for"),
        seed: number("seed"),
        outages: writing.list(fields, "outage", parse::stretch),
        clock_steps: writing.list(fields, "clock_step", parse::clock_step),
        run_time: fields
            .spanned_text("run_time")
            .and_then(|(text, span)| writing.read(&span, parse::run_time(text))),
        max_concurrent: fields.integer("max_concurrent"),
        ..Written::default()
    };
    for (name, text, span) in entries(fields, "run_times") {
        if let Some(job) = writing.job(&name, &span)
            && let Some(time) = writing.read(&span, parse::run_time(&text))
        {
            written.run_times.push((job, time));
        }
    }
    for (name, text, span) in entries(fields, "fail") {
        let Some(job) = writing.job(&name, &span) else {
            continue;
        };
        for text in text.split(',') {
            let given = writing.read(&span, parse::given(text));
            written
                .failures
                .extend(given.map(|given| (job.clone(), given)));
        }
    }
    for (name, text, span) in entries(fields, "channel_fail") {
        if let Some(chat) = writing.chat(&name, &span)
            && let Some(rate) = writing.read(&span, parse::rate(&text))
        {
            written.channel_failures.push((chat, rate));
        }
    }
    for item in fields.list("expect") {
        if let Value::Table(fields) = &item.value {
            written.expects.extend(writing.expect(fields, &item.span));
        }
    }
    written
}

/// The entries of a table of texts, each with the span of the whole.
fn entries<'f>(
    fields: &'f Fields,
    key: &str,
) -> impl Iterator<Item = (String, String, Range<usize>)> + 'f {
    let span = fields.field(key).map_or(0..0, |field| field.span.clone());
    let map = fields.text_map(key);
    map.into_iter()
        .map(move |(name, text)| (name, text, span.clone()))
}

struct Writing<'r, 'a> {
    reader: &'r mut Reader<'a>,
    names: Names<'r>,
}

impl Writing<'_, '_> {
    /// The value, or a problem at the span.
    fn read<T>(&mut self, span: &Range<usize>, read: Result<T, String>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(why) => {
                self.reader.report(
                    Problem::error(Code::BadScenario, span.clone(), why).label("not understood"),
                );
                None
            }
        }
    }

    fn list<T>(
        &mut self,
        fields: &Fields,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let items = fields.list(key).iter();
        let texts = items.filter_map(|item| Some((item.value.text()?, &item.span)));
        let mut all = Vec::new();
        for (text, span) in texts {
            all.extend(self.read(span, parse(text)));
        }
        all
    }

    fn job(&mut self, name: &str, span: &Range<usize>) -> Option<JobId> {
        let id = JobId::new(name).map_err(|error| error.to_string());
        let id = self.read(span, id)?;
        let known = self.names.jobs;
        self.known(Code::UnknownJob, "job", (name, span), known)
            .then_some(id)
    }

    fn chat(&mut self, name: &str, span: &Range<usize>) -> Option<ChatName> {
        let chat = ChatName::new(name).map_err(|error| error.to_string());
        let chat = self.read(span, chat)?;
        let known = self.names.chats;
        self.known(Code::UnknownChat, "chat", (name, span), known)
            .then_some(chat)
    }

    /// Whether there is such a thing.
    fn known(
        &mut self,
        code: Code,
        kind: &str,
        (name, span): (&str, &Range<usize>),
        known: &[&str],
    ) -> bool {
        if known.contains(&name) {
            return true;
        }
        let message = format!("there is no {kind} `{name}`");
        let problem = Problem::error(code, span.clone(), message);
        self.reader
            .report(match nearest(name, known.iter().copied()) {
                Some(near) => problem.label(format!("did you mean `{near}`?")),
                None => problem.label(format!("not a {kind} of the jobs file")),
            });
        false
    }

    fn expect(&mut self, fields: &Fields, span: &Range<usize>) -> Option<Expect> {
        let job = match fields.spanned_text("job") {
            Some((name, span)) => Some(self.job(name, &span)?),
            None => None,
        };
        let number = |key| match fields.value(key) {
            Some(Value::Integer(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let never_between = match fields.spanned_text("never_between") {
            Some((text, span)) => Some(self.read(&span, parse::hours(text))?),
            None => None,
        };
        let reasons = fields.texts("no_skips");
        let reason = |word: &String| SkipReason::from_stored(word);
        let slots = fields.list("slots").iter();
        let slots = slots.filter_map(|item| {
            if let Value::DateTime(moment) = &item.value {
                Some(*moment)
            } else {
                None
            }
        });
        let expect = Expect {
            job,
            starts: number("starts"),
            starts_min: number("starts_min"),
            starts_max: number("starts_max"),
            failed: number("failed"),
            skipped: number("skipped"),
            max_lateness: fields.duration("max_lateness"),
            never_between,
            peak_concurrency_max: number("peak_concurrency_max"),
            no_skips: reasons.iter().filter_map(reason).collect(),
            slots: fields.has("slots").then(|| slots.collect()),
        };
        if expect.conditions().is_empty() {
            let message = "this expectation says nothing that must hold";
            self.reader.report(
                Problem::error(Code::BadScenario, span.clone(), message)
                    .label("says nothing")
                    .help(
                        "add `starts = 7`, `max_lateness = \"5m\"` or another key, or take it out",
                    ),
            );
            return None;
        }
        if let Some(why) = expect.impossible() {
            self.reader.report(
                Problem::error(
                    Code::ImpossibleExpectation,
                    span.clone(),
                    format!("this expectation can never hold: {why}"),
                )
                .label("impossible"),
            );
            return None;
        }
        Some(expect)
    }
}
