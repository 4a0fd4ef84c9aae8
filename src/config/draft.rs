//! A job as a program writes it: an id, and the keys of its table in a jobs file.

use std::{fmt, io, path::Path};

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::{directory::Directory, job::Job};

use super::{Level, Problem, parse_beside};

/// A job by the keys that its table in a jobs file would have. It is read, checked and refused as
/// such a file is.
///
/// ```
/// use chatcron::{JobDraft, directory::Directory};
///
/// let draft = JobDraft::new("budget")
///     .set("cron", "0 8 * * 1")
///     .set("deliver", "history")
///     .set("prompt", "How much is left?");
/// let nobody = Directory::default();
/// let refused = draft.read(&nobody, "2026-12-01T00:00:00Z".parse()?).unwrap_err();
/// assert!(refused.to_string().contains("agent"), "{refused}");
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct JobDraft {
    id: String,
    keys: Map<String, Value>,
}

/// What is wrong with a draft: every error, with what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", in_words(.problems))]
#[non_exhaustive]
pub struct InvalidJob {
    /// The id that was given.
    pub id: String,
    /// The problems; places in them are in no text that anybody has written.
    pub problems: Vec<Problem>,
}

impl JobDraft {
    /// A draft without keys.
    pub fn new(id: impl Into<String>) -> Self {
        Self::of_keys(id, Map::new())
    }

    /// A draft with these keys. A key that is `null` is one that is not there.
    pub fn of_keys(id: impl Into<String>, keys: Map<String, Value>) -> Self {
        Self {
            id: id.into(),
            keys,
        }
    }

    /// The same with this key of a job's table, as `docs/jobs.md` has them.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.keys.insert(key.into(), value.into());
        self
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The job, if it is one. It may name what the directory has.
    ///
    /// # Errors
    /// [`InvalidJob`] has every mistake.
    pub fn read(&self, directory: &Directory, now: Timestamp) -> Result<Job, InvalidJob> {
        let no_files = |_: &Path| Err(io::ErrorKind::NotFound.into());
        let loaded = parse_beside(directory, &self.as_file(), &no_files, now);
        let has_errors = loaded.has_errors();
        let job = loaded.file.and_then(|file| file.jobs.into_iter().next());
        match job {
            Some(job) if !has_errors => Ok(job),
            Some(_) | None => Err(InvalidJob {
                id: self.id.clone(),
                problems: loaded
                    .problems
                    .into_iter()
                    .filter(|problem| problem.level == Level::Error)
                    .collect(),
            }),
        }
    }

    /// The draft as a jobs file.
    fn as_file(&self) -> String {
        let mut job = toml::Table::new();
        for (key, value) in &self.keys {
            if let Some(value) = as_toml(value) {
                job.insert(key.clone(), value);
            }
        }
        let mut jobs = toml::Table::new();
        jobs.insert(self.id.clone(), job.into());
        let mut file = toml::Table::new();
        file.insert("jobs".to_owned(), jobs.into());
        file.to_string()
    }
}

/// The value as TOML, which has no `null` and no integer beyond 64 bits: that becomes a number with a
/// fraction, which no key takes.
fn as_toml(value: &Value) -> Option<toml::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => {
            let items = items.iter().filter_map(as_toml);
            toml::Value::Array(items.collect())
        }
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), as_toml(value)?)));
            toml::Value::Table(fields.collect())
        }
    })
}

fn in_words(problems: &[Problem]) -> String {
    let words = problems.iter().map(|problem| match &problem.help {
        Some(help) => format!("{} ({help})", problem.message),
        None if problem.label.is_empty() => problem.message.clone(),
        None => format!("{}: {}", problem.message, problem.label),
    });
    words.collect::<Vec<_>>().join("; ")
}

impl fmt::Display for JobDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        directory::{AgentConfig, AgentKind, ReplayMode},
        ids::AgentName,
    };

    fn read(draft: &JobDraft) -> Result<Job, InvalidJob> {
        let mut directory = Directory::default();
        let agent = AgentConfig {
            kind: AgentKind::Echo,
            system: None,
            replay: ReplayMode::Clean,
            tools: Default::default(),
        };
        directory
            .agents
            .insert(AgentName::new("main").unwrap(), agent);
        draft.read(&directory, "2026-12-01T00:00:00Z".parse().unwrap())
    }

    fn good() -> JobDraft {
        JobDraft::new("budget")
            .set("deliver", "history")
            .set("alert", false)
            .set("prompt", "How \"much\"\nis left?\u{7f}")
            .set("timezone", "UTC")
            .set("daily", "08:00")
    }

    #[test]
    fn a_draft_is_read_as_a_jobs_file_is() {
        let job = read(&good()).unwrap();
        assert_eq!(job.id.as_str(), "budget");
        assert_eq!(job.prompt, "How \"much\"\nis left?\u{7f}");
        assert_eq!(read(&good().set("name", Value::Null)).unwrap(), job);
    }

    #[test]
    fn what_is_wrong_with_a_draft_says_what_was_found_and_what_is_accepted() {
        let table = [
            (
                good().set("daily", Value::Null).set("cron", "61 * * * *"),
                "61",
            ),
            (good().set("surprise", 1), "surprise"),
            (good().set("daily", "25:00"), "25:00"),
            (good().set("prompt", u64::MAX), "prompt"),
            (good().set("prompt", vec!["a"]), "prompt"),
            (good().set("max_runs", 1.5), "max_runs"),
            (JobDraft::of_keys("no name", good().keys), "no name"),
            (JobDraft::new("empty"), "deliver"),
        ];
        for (draft, found) in table {
            let refused = read(&draft).unwrap_err();
            assert!(refused.to_string().contains(found), "{refused}");
        }
    }
}
