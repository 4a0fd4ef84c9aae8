//! A program of one's own as an agent: the conversation as JSON on stdin, the reply on stdout.
//!
//! ```json
//! {"agent":"helper","session":"cron:budget","job":"budget","trigger":"cron","key":"MFRGG...",
//!  "system":"...","messages":[{"role":"user","content":"What is due?"}]}
//! ```
//!
//! `messages` has the form of OpenAI's chat completions and ends in what is asked now. `job` is null
//! where no job asks, and `key` is the same on every attempt of one turn.
//!
//! The program is started without a shell, in a process group of its own, with `PATH`, `HOME`,
//! `LANG`, `TZ` and the variables that the jobs file names, and nothing else. Its reply is stdout
//! without the white space around it, up to 1 MiB. Exit code 0 is an answer; 75 (`EX_TEMPFAIL`) and
//! death by a signal mean that another try may help; any other code means that it cannot. When the
//! turn is cancelled, and when the program has ended, what is left of its group is ended too; a
//! descendant that has left the group is on its own. What it wrote to stderr may hold secrets: its
//! last line is logged at `debug` and goes nowhere else.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, process::Stdio};

use async_trait::async_trait;
use tokio::process::Command as Process;
use tokio_util::sync::CancellationToken;

use super::{Agent, AgentError, AgentReply, AgentTurn, plain};
use crate::directory::{CommandAgent, ReplayMode};

mod child;

use child::{Ended, Output, run};

/// What is passed on from the worker's own environment.
const PASSED: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];
/// "Temporary failure", by the convention of `sysexits.h`.
const EX_TEMPFAIL: i32 = 75;

/// Runs a program for every turn.
#[derive(Debug, Clone)]
pub struct Command {
    settings: CommandAgent,
    system: Option<String>,
    folder: PathBuf,
    mode: ReplayMode,
}

impl Command {
    /// An agent that runs this program. `folder` is where it runs if the settings name no `cwd`:
    /// the jobs file's.
    pub fn new(settings: CommandAgent, system: Option<String>, folder: PathBuf) -> Self {
        Self {
            settings,
            system,
            folder,
            mode: ReplayMode::default(),
        }
    }

    /// How a person's messages are replayed.
    #[must_use]
    pub fn with_replay(mut self, mode: ReplayMode) -> Self {
        self.mode = mode;
        self
    }

    fn process(&self) -> Result<Process, AgentError> {
        let Some((program, arguments)) = self.settings.argv.split_first() else {
            return Err(permanent("the agent's `argv` is empty"));
        };
        let folder = match &self.settings.cwd {
            Some(cwd) => self.folder.join(cwd),
            None => self.folder.clone(),
        };
        // A relative path to the program is read from the folder in which it runs.
        let program = if program.contains('/') {
            folder.join(program)
        } else {
            PathBuf::from(program)
        };
        let mut process = Process::new(program);
        process
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .envs(self.environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        process.process_group(0);
        Ok(process)
    }

    fn environment(&self) -> BTreeMap<String, OsString> {
        let passed = self.settings.env_pass.iter().map(String::as_str);
        let mut variables: BTreeMap<String, OsString> = PASSED
            .into_iter()
            .chain(passed)
            .filter_map(|name| Some((name.to_owned(), std::env::var_os(name)?)))
            .collect();
        for (name, value) in &self.settings.env {
            variables.insert(name.clone(), value.into());
        }
        variables
    }

    fn input(&self, turn: &AgentTurn) -> Vec<u8> {
        let input = plain::conversation(turn, self.system.as_deref(), self.mode);
        let mut bytes = input.to_string().into_bytes();
        bytes.push(b'\n');
        bytes
    }
}

#[async_trait]
impl Agent for Command {
    async fn reply(
        &self,
        turn: &AgentTurn,
        cancel: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        let process = self.process()?;
        if self.settings.has_effects {
            plain::report_effects(turn).await?;
        }
        let ended = run(process, self.input(turn), cancel).await?;
        match ended {
            Ended::Cancelled => Err(AgentError::Cancelled),
            Ended::TooMuch => Err(permanent(format!(
                "the program wrote more than {} bytes to stdout",
                child::STDOUT_MAX
            ))),
            Ended::Exited(output) => read(output),
        }
    }
}

fn read(output: Output) -> Result<AgentReply, AgentError> {
    if !output.last_error_line.is_empty() {
        tracing::debug!(stderr = %output.last_error_line, "last line of the agent's stderr");
    }
    match output.status.code() {
        Some(0) => {
            let text = String::from_utf8(output.stdout)
                .map_err(|_| permanent("the program's stdout is not UTF-8"))?;
            Ok(AgentReply {
                text: text.trim().to_owned(),
                ..AgentReply::default()
            })
        }
        Some(EX_TEMPFAIL) => Err(transient(format!(
            "the program ended with exit code {EX_TEMPFAIL} (temporary failure)"
        ))),
        Some(code) => Err(permanent(format!(
            "the program ended with exit code {code}"
        ))),
        None => Err(transient(format!(
            "the program was ended: {}",
            output.status
        ))),
    }
}

fn permanent(why: impl Into<String>) -> AgentError {
    AgentError::Permanent { why: why.into() }
}

fn transient(why: impl Into<String>) -> AgentError {
    AgentError::Transient { why: why.into() }
}

#[cfg(test)]
mod tests;
