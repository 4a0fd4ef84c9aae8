//! `chatcron chat`: a chat in the terminal, beside a worker and without one.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/process.rs"]
mod process;

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use process::{Place, told, until};

const JOBS: &str = r#"
timezone = "UTC"

[jobs.report]
at      = "2099-01-01T00:00"
prompt  = "The report.\nAll is well."
deliver = "me"

[chats.me]
channel = "terminal"
agent   = "main"

[channels.terminal]
kind = "console"

[agents.main]
kind = "echo"
"#;

/// Says these lines, and waits for the end.
fn say_all(place: &Place, lines: &str) -> Output {
    let mut command = place.command(&["chat", "me"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut chat = command.spawn().unwrap();
    let mut stdin = chat.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    drop(stdin);
    chat.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A chat that is open.
struct Open {
    chat: Child,
    stdin: Option<ChildStdin>,
    out: Arc<Mutex<String>>,
}

impl Open {
    fn in_my_chat(place: &Place) -> Self {
        let mut command = place.command(&["chat", "me", "--last", "1"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut chat = command.spawn().unwrap();
        let stdin = chat.stdin.take();
        let lines = BufReader::new(chat.stdout.take().unwrap()).lines();
        let out: Arc<Mutex<String>> = Arc::default();
        let kept = out.clone();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut out = kept.lock().unwrap();
                out.push_str(&line);
                out.push('\n');
            }
        });
        Self { chat, stdin, out }
    }

    fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
    }

    fn out(&self) -> String {
        self.out.lock().unwrap().clone()
    }

    fn until_printed(&self, words: &str) {
        until(&format!("{words:?} is printed"), || {
            let out = self.out();
            out.contains(words).then_some(()).ok_or(out)
        });
    }

    /// Ctrl-D.
    fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.chat.wait().unwrap().code()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.chat.kill();
        let _ = self.chat.wait();
    }
}

#[test]
fn each_line_is_answered_in_turn_where_no_worker_runs() {
    let place = Place::new(JOBS);
    let talk = say_all(&place, "one\n\ntwo\n");
    assert!(talk.status.success(), "{}", told(&talk));
    assert_eq!(out(&talk), "main: one\nmain: two\n");
    assert_eq!(String::from_utf8_lossy(&talk.stderr), "");
    place.ok(&["verify"]);
    // Whoever comes later sees what was said last.
    let later = say_all(&place, "three");
    let shown = "you: one\nmain: one\nyou: two\nmain: two\nmain: three\n";
    assert_eq!(out(&later), shown);
    assert_eq!(out(&place.run(&["chat", "me", "--last", "0"])), "");
}

#[test]
fn what_is_shown_meanwhile_is_printed_once_and_a_worker_may_come_and_go() {
    let place = Place::new(JOBS);
    let mut chat = Open::in_my_chat(&place);
    chat.say("anybody there?");
    chat.until_printed("main: anybody there?\n");
    // The chat holds the database only while it works for itself.
    let worker = place.start();
    place.ok(&["trigger", "report", "--wait"]);
    chat.until_printed("report: The report.\n  All is well.\n");
    chat.say("thanks");
    chat.until_printed("main: thanks\n");
    place.ok(&["say", "me", "from elsewhere"]);
    chat.until_printed("you: from elsewhere\nmain: from elsewhere\n");
    assert_eq!(worker.stop(), Some(0));
    chat.say("still there?");
    chat.until_printed("main: still there?\n");
    let printed = chat.out();
    assert_eq!(printed.lines().count(), 7, "{printed}");
    assert_eq!(chat.end(), Some(0));
    place.ok(&["verify"]);
}

#[test]
fn a_line_without_a_reply_is_told_and_the_next_one_is_said() {
    let place = Place::new(JOBS);
    let talk = say_all(&place, "!fail\nand now?\n");
    assert_eq!(talk.status.code(), Some(1), "{}", told(&talk));
    assert_eq!(out(&talk), "main: and now?\n");
    let errors = String::from_utf8_lossy(&talk.stderr).into_owned();
    assert!(errors.contains("no reply"), "{errors}");
}

#[test]
fn only_a_chat_can_be_talked_in() {
    let place = Place::new(JOBS);
    for (name, words) in [("mee", "did you mean `me`?"), ("cron:report", "is no chat")] {
        let refused = place.run(&["chat", name]);
        assert_eq!(refused.status.code(), Some(3), "{}", told(&refused));
        let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(errors.contains(words), "{errors}");
    }
}
