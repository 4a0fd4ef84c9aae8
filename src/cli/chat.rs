//! `chatcron chat`: a chat in the terminal. What is shown there is printed, what is typed is said.

use std::{
    io::{self, BufRead, BufReader, IsTerminal, Read},
    sync::Mutex,
    thread,
    time::Duration,
};

use tokio::sync::mpsc;

use crate::{
    cli::{
        Exit, database,
        errand::{self, Errand},
        failure::Failure,
        names, plain, print,
        reading::Place,
        say,
    },
    clock::{Clock, SystemClock},
    directory::Chat,
    ids::{SessionKey, TurnId},
    message::PartState,
    store::{Store, StoreError, sqlite::OpenMode},
    transcript::{Entry, Role},
    wiring::Terminal,
    worker::Scope,
};

/// How often it looks whether something was shown, while nothing is said.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// The longest message, in bytes.
const LINE_MAX: usize = 1024 * 1024;
/// How many new rows are read at first; more, where there are more.
const ROWS: usize = 32;

/// Talk in a chat: prints what is shown there, and says each line that is typed.
///
/// The next line is read once the reply has been shown. Ctrl-D, or the end of what is piped in, ends
/// it. Works beside a running worker, and without one.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The chat, by its name in the jobs file.
    chat: String,
    /// How many of the last messages are printed first.
    #[arg(long, default_value_t = 10)]
    last: usize,
    /// How long to wait for each reply, in seconds; the turn goes on without us.
    #[arg(long, default_value_t = 900)]
    wait: u64,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let (database, store) = errand::open(&arguments.place, OpenMode::CreateIfMissing).await?;
    let found = names::session(store.as_ref(), &arguments.place.file, &arguments.chat).await?;
    let Some(chat) = found.chat else {
        let message = format!("`{}` is no chat, so nobody answers there", found.name);
        return Err(Failure::new(Exit::CannotRead, message).help(
            "name a chat of the jobs file; `chatcron transcript` shows other conversations",
        ));
    };
    if io::stdin().is_terminal() {
        let to = format!("{} {}", chat.channel, plain::line(&chat.address));
        eprintln!(
            "{} ({to}), answered by {}; Ctrl-D ends it",
            chat.name, chat.agent
        );
    }
    let screen = Screen::begin(store.as_ref(), &chat, arguments.last).await?;
    let mut lines = typed();
    let mut is_answered = true;
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = tokio::time::sleep(LOOK_AGAIN) => {
                screen.look().await.map_err(|error| database::failure(&error))?;
                continue;
            }
        };
        let Some(line) = line else { break };
        let text = line?;
        if text.trim().is_empty() {
            continue;
        }
        let work = Errand::begin_in(
            &arguments.place,
            &database,
            store.clone(),
            Scope::Session(chat.session_key()),
            Terminal::Nowhere,
        );
        let limit = Duration::from_secs(arguments.wait);
        let answered = say_line(work.await?, &screen, text, limit).await;
        if let Err(failure) = answered {
            eprintln!("{failure}");
            is_answered = false;
        }
    }
    let last = screen.read().await;
    last.map_err(|error| database::failure(&error))?;
    Ok(if is_answered {
        Exit::Fine
    } else {
        Exit::DoesNotHold
    })
}

/// Says one message, and prints what is shown until it is answered.
async fn say_line(
    mut work: Errand<'_>,
    screen: &Screen<'_>,
    text: String,
    limit: Duration,
) -> Result<(), Failure> {
    let failed = |error: StoreError| database::failure(&error);
    let inbound = say::inbound(screen.session_key.clone(), text);
    let asked = screen.store.request_turn(inbound, SystemClock.now()).await;
    let turn = asked.map_err(failed)?;
    screen.is_own(turn);
    let waiting = work.until(async || {
        screen.look().await?;
        say::answered(screen.store, turn).await
    });
    let waited = tokio::time::timeout(limit, waiting).await;
    work.end().await;
    let Ok(answered) = waited else {
        let message = format!("no reply within {} s", limit.as_secs());
        return Err(Failure::new(Exit::DoesNotHold, message)
            .help("it is printed when it comes, as long as this goes on"));
    };
    let answered = answered?;
    // What was confirmed last was confirmed after the last look.
    screen.read().await.map_err(failed)?;
    for part in &answered.parts {
        if let (Some(text), false) = (&part.text, part.state == PartState::Confirmed) {
            print(&line_of(
                &format!("{} (not shown)", screen.chat.agent),
                text,
            ))?;
        }
    }
    say::is_shown(&answered)
}

/// What the chat has shown so far, as it is printed.
struct Screen<'s> {
    store: &'s dyn Store,
    chat: &'s Chat,
    session_key: SessionKey,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// What tells whether something was written since.
    token: Option<i64>,
    /// The last row that was printed: its generation and place.
    last: Option<(i64, i64)>,
    /// The turn that was said here, and needs no echo.
    own: Option<TurnId>,
}

impl<'s> Screen<'s> {
    /// Prints the last messages.
    async fn begin(store: &'s dyn Store, chat: &'s Chat, last: usize) -> Result<Self, Failure> {
        let failed = |error: StoreError| database::failure(&error);
        let session_key = chat.session_key();
        let token = store.change_token().await.map_err(failed)?;
        // One row more than is printed says where the chat stands, where nothing is printed.
        let rows = store.visible_texts(&session_key, last.max(1)).await;
        let rows = rows.map_err(failed)?;
        let seen = Seen {
            token: Some(token),
            last: rows.last().map(place_of),
            own: None,
        };
        let screen = Self {
            store,
            chat,
            session_key,
            seen: Mutex::new(seen),
        };
        if last > 0 {
            for row in &rows {
                print(&screen.line(row))?;
            }
        }
        Ok(screen)
    }

    fn is_own(&self, turn: TurnId) {
        self.seen().own = Some(turn);
    }

    /// Prints what was shown since, if something was written.
    async fn look(&self) -> Result<(), StoreError> {
        let token = self.store.change_token().await?;
        if self.seen().token.replace(token) == Some(token) {
            return Ok(());
        }
        self.read().await
    }

    /// Prints what was shown since.
    async fn read(&self) -> Result<(), StoreError> {
        let after = self.seen().last;
        let mut most = ROWS;
        let rows = loop {
            let rows = self.store.visible_texts(&self.session_key, most).await?;
            let reaches_back = rows.first().is_none_or(|row| Some(place_of(row)) <= after);
            if rows.len() < most || reaches_back {
                break rows;
            }
            most = most.saturating_mul(2);
        };
        let own = self.seen().own;
        for row in rows.iter().filter(|row| Some(place_of(row)) > after) {
            self.seen().last = Some(place_of(row));
            let is_echo = row.role == Role::User && own.is_some() && row.provenance.turn_id == own;
            if !is_echo {
                // There is nowhere else to tell that the output cannot be written.
                let _ = print(&self.line(row));
            }
        }
        Ok(())
    }

    fn line(&self, row: &Entry) -> String {
        let from = &row.provenance;
        let speaker = match (row.role, &from.posted_by_job, &from.sender_display) {
            (Role::User, _, Some(name)) => plain::beginning(name, 40),
            (Role::User, _, None) => String::from("you"),
            (Role::Assistant | Role::Tool, Some(job), _) => job.to_string(),
            (Role::Assistant | Role::Tool, None, _) => self.chat.agent.to_string(),
        };
        line_of(&speaker, &row.content.text())
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn place_of(row: &Entry) -> (i64, i64) {
    (row.generation, row.seq)
}

/// `budget: text`, further lines set in, so that no message can look like two.
fn line_of(speaker: &str, text: &str) -> String {
    let text = plain::lines(text).replace('\n', "\n  ");
    format!("{speaker}: {text}\n")
}

/// The lines of stdin, one at a time. They are read on a thread of their own, which ends with the
/// process: nothing can call a read of a terminal off.
fn typed() -> mpsc::Receiver<Result<String, Failure>> {
    let (sender, lines) = mpsc::channel(1);
    thread::spawn(move || {
        let mut stdin = BufReader::new(io::stdin());
        while let Some(line) = next_line(&mut stdin) {
            let is_last = line.is_err();
            if sender.blocking_send(line).is_err() || is_last {
                break;
            }
        }
    });
    lines
}

fn next_line(stdin: &mut impl BufRead) -> Option<Result<String, Failure>> {
    let mut line = Vec::new();
    let limit = LINE_MAX as u64 + 1;
    if let Err(error) = stdin.take(limit).read_until(b'\n', &mut line) {
        let message = format!("cannot read what is said: {error}");
        return Some(Err(Failure::new(Exit::CannotRead, message)
            .help("say it on the terminal, or pipe in a text in UTF-8")));
    }
    if line.is_empty() {
        return None;
    }
    if line.len() > LINE_MAX {
        let message = format!("a line is longer than {LINE_MAX} bytes");
        return Some(Err(
            Failure::new(Exit::Usage, message).help("say it in several lines")
        ));
    }
    let text = String::from_utf8(line).map_err(|_| {
        Failure::new(Exit::Usage, "what is said is not UTF-8").help("each line is a message")
    });
    Some(text.map(|text| text.trim_end_matches(['\r', '\n']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_and_what_is_none_is_an_error() {
        let mut typed = &b"one\r\n\ntwo words"[..];
        let mut next = || next_line(&mut typed).map(|line| line.unwrap());
        assert_eq!(next().as_deref(), Some("one"));
        assert_eq!(next().as_deref(), Some(""));
        assert_eq!(next().as_deref(), Some("two words"));
        assert_eq!(next(), None);
        let long = vec![b'x'; LINE_MAX + 1];
        let failure = next_line(&mut &long[..]).unwrap().unwrap_err();
        assert!(failure.to_string().contains("longer than"), "{failure}");
        let failure = next_line(&mut &b"\xff\n"[..]).unwrap().unwrap_err();
        assert!(failure.to_string().contains("UTF-8"), "{failure}");
    }

    #[test]
    fn no_message_looks_like_two_or_steers_the_terminal() {
        assert_eq!(
            line_of("main", "a\nyou: b\u{1b}[2J"),
            "main: a\n  you: b\u{fffd}[2J\n"
        );
    }
}
