//! One child process: fed, read, and ended with its whole group.

use std::{io, process::ExitStatus, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, Command as Process},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{permanent, transient};
use crate::agent::AgentError;

/// The longest reply.
pub(super) const STDOUT_MAX: usize = 1024 * 1024;
/// How much of the end of stderr is kept.
const STDERR_TAIL: usize = 4096;
/// How long a cancelled program may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// How long pipes are read after the program has ended, if someone else holds them open.
const PIPES: Duration = Duration::from_secs(2);

/// How a program ended.
pub(super) enum Ended {
    Exited(Output),
    Cancelled,
    /// It wrote more than [`STDOUT_MAX`], and was killed.
    TooMuch,
}

/// What a program left.
pub(super) struct Output {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) last_error_line: String,
}

/// Runs a program to its end.
///
/// Writing, reading and waiting go on side by side: a program may answer before it has read, read
/// nothing at all, or fill any pipe.
pub(super) async fn run(
    mut process: Process,
    input: Vec<u8>,
    cancel: &CancellationToken,
) -> Result<Ended, AgentError> {
    if cancel.is_cancelled() {
        return Ok(Ended::Cancelled);
    }
    let mut child = process.spawn().map_err(|error| not_started(&error))?;
    // Ends the group also when this future is dropped.
    let mut group = Group::of(&child);
    let feed = feed(child.stdin.take(), input);
    let mut stdout = Vec::new();
    let mut stderr = Vec::new();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let mut talk = Box::pin(async {
        let ((), within, ()) = tokio::join!(
            feed,
            keep_start(out, &mut stdout),
            keep_end(err, &mut stderr)
        );
        within
    });
    let mut all_read = false;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            within = &mut talk, if !all_read => match within {
                Within::Limit => all_read = true,
                Within::Exceeded => {
                    group.kill();
                    let _ = child.wait().await;
                    group.forget();
                    return Ok(Ended::TooMuch);
                }
            },
            () = cancel.cancelled() => {
                end_softly(&mut child, &mut group).await;
                return Ok(Ended::Cancelled);
            }
        }
    };
    group.kill();
    group.forget();
    if !all_read && matches!(timeout(PIPES, &mut talk).await, Ok(Within::Exceeded)) {
        return Ok(Ended::TooMuch);
    }
    drop(talk);
    let status =
        status.map_err(|error| transient(format!("cannot wait for the program: {error}")))?;
    Ok(Ended::Exited(Output {
        status,
        stdout,
        last_error_line: last_line(&stderr),
    }))
}

/// Errors that pass are those of a machine short of memory, processes or file handles.
fn not_started(error: &io::Error) -> AgentError {
    let why = format!("cannot start the program: {error}");
    let lasting = matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::ExecutableFileBusy
    );
    if lasting {
        permanent(why)
    } else {
        transient(why)
    }
}

async fn feed(stdin: Option<ChildStdin>, input: Vec<u8>) {
    if let Some(mut stdin) = stdin {
        // A program need not read what it is told; dropping the pipe says that this was all.
        let _ = stdin.write_all(&input).await;
        let _ = stdin.shutdown().await;
    }
}

/// Whether a program kept to [`STDOUT_MAX`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Limit,
    Exceeded,
}

async fn keep_start(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) -> Within {
    let Some(pipe) = pipe else {
        return Within::Limit;
    };
    // What cannot be read any more ends the output, as its end does.
    let _ = pipe.take(STDOUT_MAX as u64 + 1).read_to_end(kept).await;
    if kept.len() > STDOUT_MAX {
        Within::Exceeded
    } else {
        Within::Limit
    }
}

async fn keep_end(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; STDERR_TAIL];
    while let Ok(count) = pipe.read(&mut buffer).await {
        if count == 0 {
            return;
        }
        kept.extend_from_slice(&buffer[..count]);
        let surplus = kept.len().saturating_sub(STDERR_TAIL);
        kept.drain(..surplus);
    }
}

fn last_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("")
        .to_owned()
}

async fn end_softly(child: &mut Child, group: &mut Group) {
    group.terminate();
    let _ = timeout(GRACE, child.wait()).await;
    group.kill();
    let _ = child.wait().await;
    group.forget();
}

/// The process group of a child, which is ended with it.
struct Group {
    #[cfg(unix)]
    leader: Option<libc::pid_t>,
}

#[cfg(unix)]
impl Group {
    fn of(child: &Child) -> Self {
        // A child of ours is never process 0 or 1, of which a signal would reach far more.
        let leader = child.id().and_then(|id| libc::pid_t::try_from(id).ok());
        Self {
            leader: leader.filter(|id| *id > 1),
        }
    }

    fn terminate(&self) {
        self.signal(libc::SIGTERM);
    }

    fn kill(&self) {
        self.signal(libc::SIGKILL);
    }

    /// Once the leader is gone its number may become another's.
    fn forget(&mut self) {
        self.leader = None;
    }

    fn signal(&self, signal: libc::c_int) {
        if let Some(leader) = self.leader {
            // SAFETY: `kill` takes two numbers and touches no memory of ours. The group was made for
            // this child; that it is gone already is an error we do not need to know.
            unsafe { libc::kill(-leader, signal) };
        }
    }
}

#[cfg(not(unix))]
impl Group {
    fn of(_child: &Child) -> Self {
        Self {}
    }
    fn terminate(&self) {}
    fn kill(&self) {}
    fn forget(&mut self) {}
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
