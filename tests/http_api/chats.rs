//! People's messages and histories over the API.

use serde_json::{Value, json};

use crate::{
    client::{JOBS, Served},
    process::Place,
};

#[test]
fn a_persons_message_gets_its_reply() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let message = json!({
        "text": "hello there",
        "raw_entry": { "message": "[framed] hello there", "id": 7 },
        "sender_display": "Ada",
        "sender_id": "4711",
        "message_id": "m-1",
    });
    let turn = served.post("/v1/chats/me/messages", &message).ok(200);
    assert_eq!(turn["reply"], "hello there");
    assert_eq!(turn["state"], "done");
    assert_eq!(turn["parts"][0]["state"], "confirmed");
    served.worker.until_printed("[me] main: hello there");
    let history = served.get("/v1/chats/me/transcript").ok(200);
    let entries = history["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "{history}");
    let said = &entries[0];
    assert_eq!(said["role"], "user");
    assert_eq!(said["sender_display"], "Ada");
    assert_eq!(said["sender_id_raw"], "4711");
    assert_eq!(said["channel_message_id"], "m-1");
    assert_eq!(said["framed"]["text"], "[framed] hello there");
    assert_eq!(entries[1]["text"], "hello there");
    assert_eq!(
        history["entries"],
        place.json(&["transcript", "me"])["entries"]
    );
    // The same message of the chat is the same turn, and is answered once.
    let again = served.post("/v1/chats/me/messages", &message).ok(200);
    assert_eq!(again["turn_id"], turn["turn_id"]);
    let path = format!("/v1/turns/{}", turn["turn_id"]);
    assert_eq!(served.get(&path).ok(200), turn);
    assert_eq!(
        place.json(&["transcript", "me"])["entries"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    place.ok(&["verify"]);
    assert_eq!(served.worker.stop(), Some(0));
}

#[test]
fn a_turn_that_takes_longer_goes_on_and_is_looked_at_again() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let slow = json!({ "text": "!sleep 1s\nat last", "wait_ms": 0 });
    let asked = served.post("/v1/chats/me/messages", &slow);
    let location = asked.header("location").unwrap();
    let turn = asked.ok(202);
    assert_eq!(location, format!("/v1/turns/{}", turn["turn_id"]));
    assert_eq!(turn["reply"], Value::Null);
    let over = served.until(&location, |turn| turn["parts"][0]["state"] == "confirmed");
    assert!(
        over["reply"].as_str().unwrap().contains("at last"),
        "{over}"
    );

    let failing = json!({ "text": "!fail" });
    let failed = served.post("/v1/chats/me/messages", &failing).ok(200);
    assert_eq!(failed["state"], "failed");
    assert_ne!(failed["error"], Value::Null);
    served.get("/v1/turns/99").problem(404, "unknown-turn");
    served.get("/v1/turns/x").problem(404, "unknown-turn");
}

#[tokio::test]
async fn the_connectors_own_form_is_kept_byte_for_byte() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let raw = format!(
        r#"{{ "message":"hi", "z":1.10, "id":12345678901234567890123, "a":1, "a":2, "far":1e400, "deep":{}{} }}"#,
        "[".repeat(300),
        "]".repeat(300)
    );
    let body = format!(r#"{{"text":"hi","raw_entry":{raw}}}"#);
    let headers = [("content-type", "application/json")];
    let answer = served.ask("POST", "/v1/chats/me/messages", &headers, body.as_bytes());
    assert_eq!(answer.ok(200)["reply"], "hi");
    let database = place.path("chatcron.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(database);
    let mut conn = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let kept: String =
        sqlx::query_scalar("SELECT raw_entry FROM ctx_session_entries WHERE role = 'user'")
            .fetch_one(&mut conn)
            .await
            .unwrap();
    assert_eq!(kept, raw);
}

#[test]
fn words_in_the_connectors_own_form_are_enough() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let message = json!({ "raw_entry": { "message": { "content": "from inside" } } });
    let turn = served.post("/v1/chats/me/messages", &message).ok(200);
    assert_eq!(turn["reply"], "from inside");
    for nothing in [
        json!({}),
        json!({ "text": " \n" }),
        json!({ "raw_entry": { "id": 1 } }),
        json!({ "raw_entry": { "message": [] } }),
    ] {
        let answer = served.post("/v1/chats/me/messages", &nothing);
        let words = answer.problem(422, "unprocessable");
        assert!(words.contains("says nothing"), "{words}");
    }
    for id in [String::new(), "m".repeat(257)] {
        let answer = served.post(
            "/v1/chats/me/messages",
            &json!({ "text": "x", "message_id": id }),
        );
        let words = answer.problem(422, "unprocessable");
        assert!(words.contains("bytes"), "{words}");
    }
    let long = json!({ "text": "x", "wait_ms": 120_001 });
    let answer = served.post("/v1/chats/me/messages", &long);
    answer.problem(422, "unprocessable");
}

#[test]
fn a_history_is_read_in_pages_from_its_end() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    for n in 0..3 {
        served.say("me", &format!("word {n}"));
    }
    let whole = served.get("/v1/chats/me/transcript").ok(200);
    let whole = whole["entries"].as_array().unwrap();
    assert_eq!(whole.len(), 6);
    let mut found: Vec<Value> = Vec::new();
    let mut path = String::from("/v1/chats/me/transcript?limit=4");
    loop {
        let page = served.get(&path).ok(200);
        let mut older = page["entries"].as_array().unwrap().clone();
        older.append(&mut found);
        found = older;
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/v1/chats/me/transcript?limit=4&cursor={next}");
    }
    assert_eq!(&found, whole);
    let by_key = served
        .get("/v1/chats/terminal:direct:me/transcript")
        .ok(200);
    assert_eq!(by_key["chat"], "me");
    let chats = served.get("/v1/chats").ok(200);
    assert_eq!(chats["chats"][0]["session_key"], "terminal:direct:me");
    let unknown = served.get("/v1/chats/mee/transcript");
    let words = unknown.problem(404, "unknown-chat");
    assert!(words.contains("did you mean `me`?"), "{words}");
    let unknown = served.post("/v1/chats/nobody/messages", &json!({ "text": "x" }));
    let words = unknown.problem(404, "unknown-chat");
    assert!(words.contains("the chats are me, ops"), "{words}");
}

#[test]
fn chats_that_a_reload_brings_are_known_at_once() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    served
        .get("/v1/chats/new/transcript")
        .problem(404, "unknown-chat");
    let more = format!("{JOBS}\n[chats.new]\nchannel = \"terminal\"\nagent = \"main\"\n");
    place.write("jobs.toml", &more);
    served.until("/v1/chats", |found| {
        found["chats"].as_array().unwrap().len() == 3
    });
    assert_eq!(served.say("new", "hello")["reply"], "hello");
}
