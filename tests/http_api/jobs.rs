//! Jobs over the API: their whole life, and what is refused.

use serde_json::{Value, json};

use crate::{
    client::{JOBS, Served},
    process::Place,
};

fn definition() -> Value {
    json!({ "cron": "0 8 * * 1", "deliver": "ops", "prompt": "How much is left?" })
}

#[test]
fn a_job_is_created_changed_paused_run_and_deleted() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let new = json!({ "id": "budget", "definition": definition(), "creator": "a test" });
    let created = served.post("/v1/jobs", &new);
    assert_eq!(
        created.header("location").as_deref(),
        Some("/v1/jobs/budget")
    );
    let created = created.ok(201);
    assert_eq!(created["source"], "runtime:a test");
    assert_eq!(created["target"], json!({ "kind": "chat", "chat": "ops" }));
    let rule = json!({ "after": 2, "cooldown_ms": 3_600_000 });
    assert_eq!(created["policies"]["alert"], rule);
    let shaky = served.get("/v1/jobs/shaky").ok(200);
    assert_eq!(shaky["policies"]["alert"], Value::Null);
    // The command and the API say the same of it.
    let shown = place.json(&["show", "budget"]);
    assert_eq!(served.get("/v1/jobs/budget").ok(200), shown);

    let mut other = definition();
    other["name"] = json!("Budget");
    let change = json!({ "definition": other, "revision": created["revision"] });
    let changed = served.send("PUT", "/v1/jobs/budget", &change).ok(200);
    assert_eq!(changed["name"], "Budget");
    assert_eq!(
        changed["revision"],
        created["revision"].as_i64().unwrap() + 1
    );
    let stale = served.send("PUT", "/v1/jobs/budget", &change);
    let words = stale.problem(409, "stale-revision");
    assert!(words.contains("has revision 2, and 1 was given"), "{words}");

    let paused = served.post("/v1/jobs/budget/pause", &json!({ "reason": "holiday" }));
    assert_eq!(paused.ok(200)["paused"]["reason"], "holiday");
    let again = served.post("/v1/jobs/budget/pause", &json!({})).ok(200);
    assert_eq!(again["paused"]["reason"], "holiday");
    let resumed = served.post("/v1/jobs/budget/resume", &json!({})).ok(200);
    assert_eq!(resumed["state"], "ready");

    let triggered = served.post("/v1/jobs/budget/trigger", &json!({}));
    let location = triggered.header("location").unwrap();
    let run = triggered.ok(202)["run_id"].as_i64().unwrap();
    assert_eq!(location, format!("/v1/runs/{run}"));
    let done = served.until(&location, |found| found["parts"][0]["state"] == "confirmed");
    assert_eq!(done["run"]["state"], "done");
    assert_eq!(done["run"]["output"], "How much is left?");
    served
        .worker
        .until_printed("[ops] Budget: How much is left?");

    let stale = served.ask("DELETE", "/v1/jobs/budget?revision=1", &[], b"");
    stale.problem(409, "stale-revision");
    let deleted = served.ask("DELETE", "/v1/jobs/budget?revision=2", &[], b"");
    assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
    // Its history is kept.
    assert_eq!(served.get("/v1/jobs/budget").ok(200)["state"], "removed");
    let runs = served.get("/v1/runs?job=budget").ok(200);
    assert_eq!(runs["runs"][0]["run_id"], run);
    let again = served.post("/v1/jobs/budget/trigger", &json!({}));
    again.problem(404, "unknown-job");
    assert_eq!(served.worker.stop(), Some(0));
}

#[test]
fn jobs_are_listed_in_pages_as_the_command_lists_them() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let whole = served.get("/v1/jobs").ok(200);
    assert_eq!(whole["jobs"], place.json(&["list"])["jobs"]);
    assert_eq!(whole["next"], Value::Null);
    let first = served.get("/v1/jobs?limit=1").ok(200);
    let cursor = first["next"].as_str().unwrap();
    let second = served
        .get(&format!("/v1/jobs?limit=1&cursor={cursor}"))
        .ok(200);
    assert_eq!(second["next"], Value::Null);
    let both = [&first["jobs"][0], &second["jobs"][0]];
    assert_eq!(json!(both), whole["jobs"]);
}

#[test]
fn a_wrong_definition_is_told_with_every_mistake_and_what_is_accepted() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let create = |id: &str, change: &Value| {
        let mut definition = definition();
        for (key, value) in change.as_object().unwrap() {
            definition[key] = value.clone();
        }
        served.post("/v1/jobs", &json!({ "id": id, "definition": definition }))
    };
    let wrong = create("x", &json!({ "cron": "61 8 * * *", "overlap": "maybe" }));
    let problems = wrong.json()["problems"].clone();
    wrong.problem(422, "wrong-definition");
    assert_eq!(problems.as_array().unwrap().len(), 2, "{problems}");
    assert!(problems.to_string().contains("0-59"), "{problems}");
    for (id, change, says) in [
        ("x", json!({ "deliver": "opps" }), "`me` and `ops`"),
        (
            "x",
            json!({ "chat": "me" }),
            "has both `chat` and `deliver`",
        ),
        ("x", json!({ "prompt_file": "/etc/passwd" }), "prompt"),
        ("x", json!({ "colour": "red" }), "colour"),
        ("x", json!({ "prompt": 7 }), "prompt"),
        ("x", json!({ "prompt": { "deep": [1.5e300] } }), "prompt"),
        (
            "x",
            json!({ "cron": null, "at": "2001-01-01T00:00" }),
            "never run",
        ),
        ("x y", json!({}), "letters, digits"),
    ] {
        let words = create(id, &change);
        let text = words.body.clone();
        words.problem(422, "wrong-definition");
        assert!(text.contains(says), "{change}: {text}");
    }
    let taken = create("report", &json!({}));
    taken.problem(409, "job-exists");
    assert_eq!(place.json(&["list"])["jobs"].as_array().unwrap().len(), 2);
}

#[test]
fn what_a_file_defines_is_changed_only_there_and_can_be_paused_and_run() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let change = json!({ "definition": definition() });
    let refused = served.send("PUT", "/v1/jobs/report", &change);
    let words = refused.problem(409, "file-job");
    assert!(words.contains("jobs.toml"), "{words}");
    let refused = served.ask("DELETE", "/v1/jobs/report", &[], b"");
    refused.problem(409, "file-job");
    served.post("/v1/jobs/report/pause", &json!({})).ok(200);
    served.post("/v1/jobs/report/resume", &json!({})).ok(200);
    served.post("/v1/jobs/report/trigger", &json!({})).ok(202);
}

#[test]
fn an_unknown_job_is_404_wherever_it_is_named() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let stretch = json!({ "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z" });
    let change = json!({ "definition": definition() });
    let asks = [
        ("GET", "", None),
        ("PUT", "", Some(&change)),
        ("DELETE", "", None),
        ("POST", "/pause", Some(&json!({}))),
        ("POST", "/resume", Some(&json!({}))),
        ("POST", "/trigger", Some(&json!({}))),
        ("POST", "/backfill", Some(&stretch)),
    ];
    for (method, action, body) in asks {
        for name in ["reprot", "no%20name", "%00", "..", &"x".repeat(300)] {
            let path = format!("/v1/jobs/{name}{action}");
            let answer = match body {
                Some(body) => served.send(method, &path, body),
                None => served.ask(method, &path, &[], b""),
            };
            let words = answer.problem(404, "unknown-job");
            if name == "reprot" {
                assert!(words.contains("did you mean `report`?"), "{words}");
            }
        }
    }
    served
        .get("/v1/runs?job=nothing")
        .problem(404, "unknown-job");
}

#[test]
fn slots_of_the_past_run_again_once() {
    let jobs = JOBS.replace(
        "[jobs.report]\nat     = \"2099-01-01T00:00\"",
        "[jobs.report]\nevery = \"1s\"",
    );
    let place = Place::new(&jobs);
    let worker = place.start();
    worker.until_printed("[me] report: The report.");
    place.ok(&["pause", "report"]);
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(worker.stop(), Some(0));
    let served = Served::new(&place);
    served.post("/v1/jobs/report/resume", &json!({})).ok(200);
    served.post("/v1/jobs/report/pause", &json!({})).ok(200);
    let skipped = served.get("/v1/skipped?job=report").ok(200);
    let stretch = &skipped["skipped"][0];
    assert_eq!(stretch["reason"], "paused", "{skipped}");
    let (from, last) = (&stretch["first_nominal_at"], &stretch["last_nominal_at"]);
    let mut asked = json!({ "from": from, "to": last, "dry_run": true });
    let preview = served.post("/v1/jobs/report/backfill", &asked).ok(200);
    let again = |slots: &Value| {
        let slots = slots["slots"].as_array().unwrap();
        slots.iter().filter(|slot| slot["runs"] == true).count()
    };
    assert!(again(&preview) >= 1, "{preview}");
    asked["dry_run"] = json!(false);
    let first = served.post("/v1/jobs/report/backfill", &asked).ok(200);
    assert_eq!(again(&first), again(&preview));
    let second = served.post("/v1/jobs/report/backfill", &asked).ok(200);
    assert_eq!(again(&second), 0, "{second}");
    let empty = json!({ "from": last, "to": from });
    let refused = served.post("/v1/jobs/report/backfill", &empty);
    refused.problem(422, "unprocessable");
}
