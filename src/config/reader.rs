//! What the whole reading of one file shares: the source, the moment, and the problems so far.

use std::{io, ops::Range, path::Path};

use jiff::Timestamp;

use super::{
    keys::EntryKind,
    problem::{Code, Level, Problem},
    secrets::{Found, Why},
};

pub(super) struct Reader<'a> {
    pub(super) source: &'a str,
    pub(super) now: Timestamp,
    pub(super) read_file: &'a dyn Fn(&Path) -> io::Result<String>,
    /// What must not be shown, as spans of the source.
    pub(super) hidden: Vec<Range<usize>>,
    problems: Vec<Problem>,
    job: Option<String>,
    header: Option<Range<usize>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        source: &'a str,
        read_file: &'a dyn Fn(&Path) -> io::Result<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            source,
            now,
            read_file,
            hidden: Vec::new(),
            problems: Vec::new(),
            job: None,
            header: None,
        }
    }

    pub(super) fn report(&mut self, mut problem: Problem) {
        problem.job.clone_from(&self.job);
        problem.header.clone_from(&self.header);
        self.problems.push(problem);
    }

    /// Does some work whose problems belong to the table with this name.
    pub(super) fn within<T>(
        &mut self,
        kind: EntryKind,
        (name, header): (&str, &Range<usize>),
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let job = (kind == EntryKind::Job).then(|| name.to_owned());
        let outer_job = std::mem::replace(&mut self.job, job);
        let outer_header = self.header.replace(header.clone());
        let result = work(self);
        self.job = outer_job;
        self.header = outer_header;
        result
    }

    /// Does some work, and says whether it came upon an error.
    pub(super) fn watching<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> (T, bool) {
        let before = self.problems.len();
        let result = work(self);
        let wrong = self.problems[before..]
            .iter()
            .any(|problem| problem.level == Level::Error);
        (result, wrong)
    }

    /// Reports a secret in clear, and hides it.
    pub(super) fn report_secret(&mut self, found: Found) {
        let Found {
            key,
            key_span,
            span,
            why,
        } = found;
        let problem = match why {
            Why::KeyName => {
                self.hidden.push(span);
                Problem::error(
                    Code::SecretInFile,
                    key_span,
                    format!("`{key}` holds a secret in clear"),
                )
            }
            Why::Shape => Problem::error(
                Code::SecretInFile,
                span,
                format!("the value of `{key}` looks like a secret"),
            ),
        };
        self.report(
            problem.label("secrets never stand in this file").help(
                "put it into an environment variable or a file, and name that: `token_env = \"TELEGRAM_BOT_TOKEN\"`, `api_key_file = \"key.txt\"`; a command's variable goes into `env_pass`. Then replace the secret: whoever saw this file has it",
            ),
        );
    }

    /// Forgets the problems of which this does not hold.
    pub(super) fn retain(&mut self, keep: impl Fn(&Problem) -> bool) {
        self.problems.retain(keep);
    }

    /// The problems from top to bottom.
    pub(super) fn into_problems(self) -> (Vec<Problem>, Vec<Range<usize>>) {
        let mut problems = self.problems;
        problems.sort_by_key(|problem| (problem.span.start, problem.level, problem.code));
        problems.dedup();
        (problems, self.hidden)
    }
}
