//! What people write on Telegram: read, answered once, and by nobody else, with the real binary.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/fakes.rs"]
mod fakes;
#[path = "support/process.rs"]
mod process;

use std::{thread, time::Duration};

use cluster::Cluster;
use fakes::{Fakes, TOKEN};
use process::{Place, Worker, until};
use serde_json::{Value, json};

const ME: i64 = 5_550_001;

fn jobs(fakes: &Fakes) -> String {
    format!(
        r#"
timezone = "UTC"

[jobs.report]
at      = "2099-01-01T00:00"
prompt  = "The report."
deliver = "me"

[chats.me]
channel = "phone"
to      = "5550001"
agent   = "main"

[chats.family]
channel = "phone"
to      = "-100"
agent   = "main"

[chats.kitchen]
channel = "phone"
to      = "-200"
thread  = "7"
agent   = "main"

[channels.phone]
kind      = "telegram"
token_env = "TOKEN"
api_root  = "{}"
inbound   = true

[agents.main]
kind = "echo"
"#,
        fakes.root("telegram")
    )
}

fn place(fakes: &Fakes) -> Place {
    Place::new(&jobs(fakes)).with_env("TOKEN", TOKEN)
}

/// How often the bot's messages were asked for.
fn polls(fakes: &Fakes) -> usize {
    let requests = fakes.requests("telegram");
    let is_poll = |request: &&Value| request["path"].as_str().unwrap().ends_with("/getUpdates");
    requests.iter().filter(is_poll).count()
}

/// The offset that was asked for last.
fn last_offset(fakes: &Fakes) -> Value {
    let requests = fakes.requests("telegram");
    let is_poll = |request: &&Value| request["path"].as_str().unwrap().ends_with("/getUpdates");
    requests.iter().rfind(is_poll).unwrap()["json"]["offset"].clone()
}

fn until_polled(fakes: &Fakes, worker: &Worker, times: usize) {
    until("the bot's messages are asked for", || {
        (polls(fakes) >= times).then_some(()).ok_or(worker.log())
    });
}

fn until_shown(fakes: &Fakes, worker: &Worker, count: usize) {
    until(&format!("{count} messages are shown"), || {
        let shown = fakes.shown();
        let told = || format!("{shown:?}\n{}", worker.log());
        (shown.len() >= count).then_some(()).ok_or_else(told)
    });
}

fn verify(place: &Place, fakes: &Fakes) {
    let log = format!("phone={}", fakes.shown_log().display());
    place.ok(&["verify", "--channel-log", &log]);
}

/// Who said what in a chat, as history has it.
fn history(place: &Place, chat: &str) -> Vec<(String, String)> {
    let entries = place.json(&["transcript", chat])["entries"].clone();
    let said = entries.as_array().unwrap().iter().map(|entry| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        (text("role"), text("text"))
    });
    said.collect()
}

/// Waits until a chat's history is this: what was shown is confirmed a moment later.
fn until_history(place: &Place, chat: &str, said: &[(&str, &str)]) {
    until("the history is as expected", || {
        let found = history(place, chat);
        (found == pairs(said))
            .then_some(())
            .ok_or(format!("{found:?}"))
    });
}

fn pairs(said: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(role, text): &(&str, &str)| ((*role).to_owned(), (*text).to_owned());
    said.iter().map(owned).collect()
}

#[test]
fn what_is_written_in_a_chat_of_the_file_is_answered_there_and_nothing_else_is() {
    let fakes = Fakes::start();
    let place = place(&fakes);
    let worker = place.start();
    fakes.said(ME, "Good morning");
    fakes.said(666, "s3cret plans");
    fakes.said(666, "more s3cret plans");
    let topic = json!({"message_thread_id": 7, "is_topic_message": true});
    fakes.order(&json!({"said": {"chat": -200, "text": "Salt?", "message": topic}}));
    fakes.said(-200, "not in the topic");
    fakes.order(&json!({"said": {"chat": -100, "message": {"photo": [{}], "caption": "Look"}}}));
    until_shown(&fakes, &worker, 3);
    assert_eq!(worker.log().matches("it gets no answer").count(), 2);
    assert!(!worker.log().contains("s3cret"), "{}", worker.log());
    assert!(!worker.log().contains("Good morning"), "{}", worker.log());

    let mut shown = fakes.shown();
    shown.sort();
    let photo = "[photo]\nLook";
    let expected = [
        ("-100", photo),
        ("-200", "Salt?"),
        ("5550001", "Good morning"),
    ];
    assert_eq!(shown, pairs(&expected));
    let said = ["user", "assistant"].map(|role| (role, "Good morning"));
    until_history(&place, "me", &said);
    let first = &place.json(&["transcript", "me"])["entries"][0];
    assert_eq!(first["sender_display"], "Ada Lovelace");
    assert_eq!(first["channel_message_id"], "1");
    let photos = ["user", "assistant"].map(|role| (role, photo));
    until_history(&place, "family", &photos);
    let salt = ["user", "assistant"].map(|role| (role, "Salt?"));
    until_history(&place, "kitchen", &salt);
    let replied = fakes.requests("telegram");
    let to_topic = replied.iter().find(|sent| sent["json"]["text"] == "Salt?");
    assert_eq!(to_topic.unwrap()["json"]["message_thread_id"], 7);
    verify(&place, &fakes);
    assert_eq!(worker.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_before_it_stored_a_message_is_given_it_again() {
    use sqlx::Connection;
    let fakes = Fakes::start();
    let place = place(&fakes);
    let worker = place.start();
    until_polled(&fakes, &worker, 1);
    // What comes cannot be committed: the database is being written by somebody else.
    let url = format!("sqlite:{}", place.path("chatcron.db").display());
    let mut writing = sqlx::SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut writing)
        .await
        .unwrap();
    fakes.said(ME, "one");
    thread::sleep(Duration::from_millis(500));
    worker.kill();
    sqlx::query("ROLLBACK").execute(&mut writing).await.unwrap();
    assert_eq!(history(&place, "me"), []);

    let worker = place.start();
    until_shown(&fakes, &worker, 1);
    fakes.said(ME, "two");
    until_shown(&fakes, &worker, 2);
    let said = [
        ("user", "one"),
        ("assistant", "one"),
        ("user", "two"),
        ("assistant", "two"),
    ];
    until_history(&place, "me", &said);
    assert_eq!(fakes.shown().len(), 2);
    verify(&place, &fakes);
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn a_worker_killed_after_it_stored_a_message_answers_it_once() {
    let fakes = Fakes::start();
    let slow = jobs(&fakes).replace(
        "kind = \"echo\"",
        "kind = \"command\"\nargv = [\"sh\", \"-c\", \"sleep 3; echo answered\"]",
    );
    let place = Place::new(&slow).with_env("TOKEN", TOKEN);
    let worker = place.start();
    until_polled(&fakes, &worker, 1);
    // The next request, which would confirm what came, is never answered.
    fakes.order(&json!({"fault":
        {"service": "telegram", "kind": "hang", "method": "getUpdates"}}));
    fakes.said(ME, "one");
    worker.until_logged("a message came in");
    until_polled(&fakes, &worker, 2);
    worker.kill();
    assert_eq!(fakes.shown(), []);

    let worker = place.start();
    until_polled(&fakes, &worker, 3);
    assert_eq!(last_offset(&fakes), 9002);
    until_shown(&fakes, &worker, 1);
    // A service that has lost what was confirmed gives it out again.
    fakes.order(&json!({"redelivered": {}}));
    until("it was taken", || {
        (last_offset(&fakes) == 9003)
            .then_some(())
            .ok_or(worker.log())
    });
    fakes.said(ME, "two");
    until_shown(&fakes, &worker, 2);
    let answered = ("assistant", "answered");
    let said = [("user", "one"), answered, ("user", "two"), answered];
    until_history(&place, "me", &said);
    assert_eq!(fakes.shown().len(), 2);
    verify(&place, &fakes);
    assert_eq!(worker.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_workers_one_reads_and_the_other_goes_on_when_it_is_killed() {
    let Some(server) = Cluster::shared() else {
        return;
    };
    let fakes = Fakes::start();
    let url = server.new_database().await;
    let place = place(&fakes).with_env("CHATCRON_DB", &url);
    let start = || {
        let worker = place.start_with(&["run", "--lease", "3"]);
        worker.until_logged("chatcron is running");
        worker
    };
    let first = start();
    until_polled(&fakes, &first, 1);
    let second = start();
    let words: Vec<String> = (1..=6).map(|number| format!("message {number}")).collect();
    for text in &words[..3] {
        fakes.said(ME, text);
    }
    // What was shown and not confirmed would be in doubt.
    until("all of it is confirmed", || {
        let said = history(&place, "me");
        (said.len() == 6).then_some(()).ok_or(format!("{said:?}"))
    });
    assert!(
        !second.log().contains("messages are not read"),
        "{}",
        second.log()
    );
    first.kill();
    for text in &words[3..] {
        fakes.said(ME, text);
    }
    until_shown(&fakes, &second, 6);
    let both = words
        .iter()
        .flat_map(|text| ["user", "assistant"].map(|role| (role, &**text)));
    let mut said = pairs(&both.collect::<Vec<_>>());
    let mut found = until("all of it is confirmed", || {
        let found = history(&place, "me");
        let is_all = found.len() == 12;
        is_all.then(|| found.clone()).ok_or(format!("{found:?}"))
    });
    // A message that comes while another is answered stands before the answer.
    said.sort();
    found.sort();
    assert_eq!(found, said);
    assert_eq!(fakes.shown().len(), 6);
    verify(&place, &fakes);
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn a_group_that_moves_keeps_its_history_and_is_answered_at_its_new_address() {
    let fakes = Fakes::start();
    let place = place(&fakes);
    let worker = place.start();
    fakes.said(-100, "before");
    until_shown(&fakes, &worker, 1);
    fakes.order(&json!({"said": {"chat": -100, "message": {"migrate_to_chat_id": -100_900}}}));
    // The new group counts its messages anew.
    let first = json!({"message_id": 1});
    fakes.order(&json!({"said": {"chat": -100_900, "text": "after", "message": first}}));
    until_shown(&fakes, &worker, 2);
    let said = [
        ("user", "before"),
        ("assistant", "before"),
        ("user", "after"),
        ("assistant", "after"),
    ];
    until_history(&place, "family", &said);
    let shown = fakes.shown();
    assert_eq!(shown, pairs(&[("-100", "before"), ("-100900", "after")]));
    assert_eq!(worker.stop(), Some(0));

    // A later worker finds in the database where the chat is.
    let worker = place.start();
    fakes.said(-100_900, "much later");
    until_shown(&fakes, &worker, 3);
    until("the history has it", || {
        let said = history(&place, "family");
        (said.len() == 6).then_some(()).ok_or(format!("{said:?}"))
    });
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn another_reader_and_a_wrong_token_are_told_once_without_the_token() {
    let fakes = Fakes::start();
    let place = place(&fakes);
    fakes.order(&json!({"fault": {"service": "telegram", "kind": "status", "status": 409}}));
    let worker = place.start();
    worker.until_logged("a webhook gets this bot's messages");
    assert!(worker.log().contains("deleteWebhook"), "{}", worker.log());
    assert!(!worker.log().contains("fake-token"), "{}", worker.log());
    // Other work goes on meanwhile.
    place.ok(&["trigger", "report", "--wait"]);
    assert_eq!(worker.stop(), Some(0));

    let place = Place::new(&jobs(&fakes)).with_env("TOKEN", "99:s3cret");
    let worker = place.start();
    worker.until_logged("the bot's token is not accepted");
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(worker.log().matches("messages are not read").count(), 1);
    assert!(!worker.log().contains("s3cret"), "{}", worker.log());
    assert_eq!(worker.stop(), Some(0));

    // A token that is put right works as soon as the file is saved.
    let in_file = jobs(&fakes).replace("token_env = \"TOKEN\"", "token_file = \"bot.token\"");
    let place = Place::new(&in_file);
    place.write("bot.token", "99:s3cret");
    let worker = place.start();
    worker.until_logged("the bot's token is not accepted");
    place.write("bot.token", TOKEN);
    place.write("jobs.toml", &format!("{in_file}\n"));
    fakes.said(ME, "hello");
    until_shown(&fakes, &worker, 2);
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn a_failure_that_passes_is_told_once_and_its_end_too() {
    let fakes = Fakes::start();
    let place = place(&fakes);
    fakes.order(&json!({"fault": {"service": "telegram", "kind": "reset", "times": 2}}));
    let worker = place.start();
    fakes.said(ME, "hello");
    until_shown(&fakes, &worker, 1);
    worker.until_logged("messages are read again");
    assert_eq!(worker.log().matches("messages are not read").count(), 1);
    assert!(!worker.log().contains("fake-token"), "{}", worker.log());
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn saving_the_file_begins_and_ends_the_reading() {
    let fakes = Fakes::start();
    let place = place(&fakes);
    let silent = jobs(&fakes).replace("inbound   = true\n", "");
    place.write("jobs.toml", &silent);
    let worker = place.start();
    fakes.said(ME, "too early");
    thread::sleep(Duration::from_millis(500));
    assert_eq!(polls(&fakes), 0);

    // A chat that is added is answered as well.
    let more = "\n[chats.new]\nchannel = \"phone\"\nto = \"42\"\nagent = \"main\"\n";
    place.write("jobs.toml", &format!("{}{more}", jobs(&fakes)));
    until_shown(&fakes, &worker, 1);
    fakes.said(42, "and me?");
    until_shown(&fakes, &worker, 2);

    place.write("jobs.toml", &silent);
    until("the reading has ended", || {
        let before = polls(&fakes);
        fakes.said(ME, "too late");
        thread::sleep(Duration::from_millis(300));
        (polls(&fakes) == before).then_some(()).ok_or(worker.log())
    });
    let shown = fakes.shown();
    assert_eq!(
        shown[..2],
        pairs(&[("5550001", "too early"), ("42", "and me?")])
    );
    assert_eq!(worker.stop(), Some(0));
}
