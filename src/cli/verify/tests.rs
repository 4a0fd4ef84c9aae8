use std::path::Path;

use serde_json::Value;

use super::{
    logs::{LogFile, Logs},
    *,
};
use crate::{
    cli::samples::{HOSTILE, assert_harmless, at, chat, entry},
    directory::{ChannelConfig, Chat},
    transcript::{Entry, Role},
};

fn line(chat: &str, thread: Option<&str>, id: &str, text: &str) -> log::ShownLine {
    log::ShownLine {
        chat: chat.to_owned(),
        thread: thread.map(str::to_owned),
        message_id: id.to_owned(),
        key: None,
        text: text.to_owned(),
        at: at("2026-11-30T07:00:00Z"),
    }
}

fn logs(lines: Vec<log::ShownLine>) -> Logs {
    let mut logs = Logs::default();
    let channel = ChannelName::new("telegram").unwrap();
    logs.add(
        &channel,
        PathBuf::from("telegram.jsonl"),
        lines,
        LogFile::Read,
    );
    logs
}

fn evidence(session: &Session, rows: Vec<Entry>, logs: &Logs) -> Evidence {
    Evidence {
        session_key: session.key.clone(),
        rows,
        parts: Vec::new(),
        log: logs.of(session),
    }
}

fn shown(seq: i64, text: &str) -> Entry {
    entry(seq, Role::Assistant, text, "2026-11-30T07:00:00Z")
}

#[test]
fn a_line_belongs_to_the_chat_of_its_key_or_of_its_address_and_thread() {
    let topic = Session::of_chat(Chat {
        thread: Some("7".to_owned()),
        ..chat("topic")
    });
    let me = Session::of_chat(chat("me"));
    let logs = logs(vec![
        line("5550001", None, "1", "a"),
        line("telegram:direct:5550001", None, "2", "b"),
        line("5550001", Some("7"), "3", "c"),
        line("telegram:direct:gone", None, "4", "d"),
        line("999", None, "5", "e"),
    ]);
    let ids = |session: &Session| -> Vec<String> {
        let lines = logs.of(session).unwrap();
        lines.into_iter().map(|line| line.message_id).collect()
    };
    assert_eq!(ids(&me), ["1", "2"]);
    assert_eq!(ids(&topic), ["3"]);
    let keys: Vec<&str> = logs.session_keys().into_iter().collect();
    assert_eq!(keys, ["telegram:direct:5550001", "telegram:direct:gone"]);
    let known = [me, topic, Session::of_key("telegram:direct:gone")];
    assert_eq!(logs.of_others(&known), 1);
}

#[test]
fn agreement_is_told_by_chat_with_what_it_was_compared_with() {
    let me = Session::of_chat(chat("me"));
    let logs = logs(vec![line("5550001", None, "8801", "Hello")]);
    let evidence = [evidence(&me, vec![shown(1, "Hello")], &logs)];
    let compared = Compared::new(&[me], &evidence, &logs, &[]);
    assert!(compared.holds());
    insta::assert_snapshot!(compared.render(Screen::wide(None)), @r"
     chat  messages  compared with
     me    1 agree   telegram.jsonl
    verified: 1 chat, 1 message, no difference
    ");
}

#[test]
fn every_difference_is_told_and_none_of_it_steers_the_terminal() {
    let me = Session::of_chat(chat("me"));
    let logs = logs(vec![
        line("5550001", None, "8801", HOSTILE),
        line("5550001", None, HOSTILE, "unheard of"),
    ]);
    let rows = vec![shown(1, "Hello"), shown(2, "nobody saw this")];
    let evidence = [evidence(&me, rows, &logs)];
    let compared = Compared::new(&[me], &evidence, &logs, &[]);
    assert!(!compared.holds());
    let text = compared.render(Screen::wide(None));
    assert_harmless(&text);
    for piece in [
        "1 missing, 1 extra, 1 altered",
        "NOT verified: 3 differences in 1 chat\n",
    ] {
        assert!(text.contains(piece), "{piece}\n{text}");
    }
    let json: Value = serde_json::from_str(&compared.json()).unwrap();
    assert_eq!(json["holds"], false);
    assert_eq!(json["chats"][0]["compared_with"], "log");
    assert_eq!(json["chats"][0]["findings"][0]["kind"], "altered");
}

#[test]
fn a_chat_without_a_log_says_that_only_receipts_were_compared() {
    let me = Session::of_chat(chat("me"));
    let evidence = [evidence(&me, Vec::new(), &Logs::default())];
    let compared = Compared::new(&[me], &evidence, &Logs::default(), &[]);
    let text = compared.render(Screen::wide(None));
    assert!(text.contains("receipts only"), "{text}");
    let json: Value = serde_json::from_str(&compared.json()).unwrap();
    assert_eq!(json["chats"][0]["compared_with"], "receipts");
}

#[test]
fn a_console_without_a_log_has_shown_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::default();
    let channel = ChannelName::new("telegram").unwrap();
    let console = ChannelConfig::Console { log: None };
    directory.channels.insert(channel, console);
    let usual = folder.path().join("chatcron.telegram.log.jsonl");
    let me = Session::of_chat(chat("me"));
    let sessions = [me.clone()];
    let kept = |_: &ChannelName| (folder.path().to_path_buf(), usual.clone());
    let logs = Logs::read(&[], &sessions, &directory, &kept).unwrap();
    assert_eq!(logs.of(&me), Some(Vec::new()));
    let evidence = [evidence(&me, vec![shown(1, "Hello")], &logs)];
    let compared = Compared::new(&sessions, &evidence, &logs, &[]);
    assert!(!compared.holds());
    assert!(
        compared
            .render(Screen::wide(None))
            .contains("(not there yet)")
    );
}

#[test]
fn a_channel_log_is_named_by_channel_and_file() {
    let (channel, file) = channel_log("telegram=a=b.jsonl").unwrap();
    assert_eq!(
        (channel.as_str(), file.as_path()),
        ("telegram", Path::new("a=b.jsonl"))
    );
    for text in ["telegram", "telegram=", "=x", "a b=x"] {
        assert!(
            channel_log(text).unwrap_err().contains("accepted: "),
            "{text}"
        );
    }
}
