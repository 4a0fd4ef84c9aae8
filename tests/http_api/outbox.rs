//! The outbox over the API.

use serde_json::{Value, json};

use crate::{
    client::{JOBS, Served},
    fakes::{Fakes, TOKEN},
    process::Place,
};

/// The jobs, and a chat on the fake Telegram.
fn place(fakes: &Fakes) -> Place {
    let jobs = format!(
        "{JOBS}\n[channels.telegram]\nkind = \"telegram\"\ntoken_env = \"BOT_TOKEN\"\n\
         api_root = \"{}\"\n\n[chats.away]\nchannel = \"telegram\"\nto = \"77\"\n\
         agent = \"main\"\n\n[jobs.letter]\nat = \"2099-01-01T00:00\"\ndeliver = \"away\"\n\
         prompt = \"A letter.\"\nalert = false\n",
        fakes.root("telegram")
    );
    Place::new(&jobs).with_env("BOT_TOKEN", TOKEN)
}

/// The one open part, once it is in this state.
fn open_part(served: &Served, state: &str) -> Value {
    let open = served.until("/v1/outbox", |open| open["parts"][0]["state"] == state);
    open["parts"][0].clone()
}

#[test]
fn a_part_in_doubt_is_settled_by_a_persons_word() {
    let fakes = Fakes::start();
    let place = place(&fakes);
    let served = Served::new(&place);
    let fault = json!({ "service": "telegram", "kind": "reset", "show": true, "times": 2 });
    fakes.order(&json!({ "fault": fault }));
    for word in [
        json!({ "shown": true, "message_id": "5" }),
        json!({ "shown": false }),
    ] {
        served.post("/v1/jobs/letter/trigger", &json!({})).ok(202);
        let part = open_part(&served, "unknown");
        let path = format!("/v1/outbox/{}", part["part_id"]);
        assert_eq!(served.get(&path).ok(200), part);
        let wrong = json!({ "shown": false, "message_id": "5" });
        served
            .post(&format!("{path}/resolve"), &wrong)
            .problem(422, "unprocessable");
        let early = served.post(&format!("{path}/retry"), &json!({}));
        let words = early.problem(409, "part-state");
        assert!(words.contains("unknown"), "{words}");
        served.post(&format!("{path}/resolve"), &word).ok(200);
        let settled = if word["shown"] == true {
            "confirmed"
        } else {
            "failed"
        };
        served.until(&path, |part| part["state"] == settled);
    }
    let failed = open_part(&served, "failed");
    let path = format!("/v1/outbox/{}", failed["part_id"]);
    served.post(&format!("{path}/retry"), &json!({})).ok(200);
    served.until(&path, |part| part["state"] == "confirmed");
    let open = served.get("/v1/outbox").ok(200);
    assert_eq!(open["parts"], json!([]));
    let history = served.get("/v1/chats/away/transcript").ok(200);
    assert_eq!(history["entries"].as_array().unwrap().len(), 2, "{history}");
    assert_eq!(served.worker.stop(), Some(0));
}

#[test]
fn a_part_that_waits_can_be_cancelled_and_all_are_listed_newest_first() {
    let fakes = Fakes::start();
    let place = place(&fakes);
    let served = Served::new(&place);
    served.say("me", "one");
    let fault = json!({ "service": "telegram", "kind": "status", "status": 429, "retry_after": 60, "times": 9 });
    fakes.order(&json!({ "fault": fault }));
    served.post("/v1/jobs/letter/trigger", &json!({})).ok(202);
    let waiting = served.until("/v1/outbox", |open| {
        let part = &open["parts"][0];
        part["attempts"] == 1 && part["state"] == "pending"
    });
    let part = waiting["parts"][0]["part_id"].as_i64().unwrap();
    assert_eq!(waiting["parts"], place.json(&["outbox"])["parts"]);
    let path = format!("/v1/outbox/{part}");
    let cancelled = served.post(&format!("{path}/cancel"), &json!({})).ok(200);
    assert_eq!(cancelled["state"], "cancelled");
    assert_eq!(cancelled["reason"], "by-hand");
    let again = served.post(&format!("{path}/cancel"), &json!({}));
    again.problem(409, "part-state");
    let resolve = served.post(&format!("{path}/resolve"), &json!({ "shown": true }));
    resolve.problem(409, "part-state");

    let newest = served.get("/v1/outbox?all=true&limit=1").ok(200);
    assert_eq!(newest["parts"][0]["part_id"], part);
    let next = newest["next"].as_str().unwrap();
    let older = served
        .get(&format!("/v1/outbox?all=true&limit=1&cursor={next}"))
        .ok(200);
    assert_eq!(older["parts"][0]["text"], "one");
    assert_eq!(older["next"], Value::Null);
    for path in [
        "/v1/outbox/99",
        "/v1/outbox/x",
        "/v1/outbox/99999999999999999999",
    ] {
        served.get(path).problem(404, "unknown-part");
        for action in ["retry", "cancel"] {
            let answer = served.post(&format!("{path}/{action}"), &json!({}));
            answer.problem(404, "unknown-part");
        }
        let answer = served.post(&format!("{path}/resolve"), &json!({ "shown": true }));
        answer.problem(404, "unknown-part");
    }
}

#[test]
fn all_failed_parts_of_a_chat_are_sent_again_by_one_command() {
    let fakes = Fakes::start();
    let place = place(&fakes);
    let served = Served::new(&place);
    let fault = json!({ "service": "telegram", "kind": "status", "status": 400, "times": 2 });
    fakes.order(&json!({ "fault": fault }));
    for failed in 1..=2 {
        served.post("/v1/jobs/letter/trigger", &json!({})).ok(202);
        served.until("/v1/outbox", |open| {
            let parts = open["parts"].as_array().unwrap();
            parts.len() == failed && parts.iter().all(|part| part["state"] == "failed")
        });
    }
    let elsewhere = place.ok(&["outbox", "retry", "--all", "--chat", "me"]);
    assert_eq!(elsewhere, "no part has failed; nothing was changed\n");
    let looked = place.ok(&["outbox", "retry", "--all", "--dry-run"]);
    assert!(
        looked.ends_with("2 parts would be sent again; nothing was changed\n"),
        "{looked}"
    );
    let open = served.get("/v1/outbox").ok(200);
    assert_eq!(open["parts"].as_array().unwrap().len(), 2);
    let sent = place.ok(&["outbox", "retry", "--all", "--chat", "away"]);
    assert!(sent.contains("2 parts"), "{sent}");
    served.until("/v1/outbox", |open| open["parts"] == json!([]));
    let wrong = place.run(&["outbox", "retry", "1", "--all"]);
    assert_eq!(wrong.status.code(), Some(2));
    let settled = place.run(&["outbox", "cancel", "1"]);
    assert_eq!(settled.status.code(), Some(1));
    let words = String::from_utf8(settled.stderr).unwrap();
    assert!(words.contains("help: `chatcron outbox show 1`"), "{words}");
    assert_eq!(served.worker.stop(), Some(0));
}
