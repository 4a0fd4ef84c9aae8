//! Runs over the API.

use serde_json::{Value, json};

use crate::{
    client::{JOBS, Served},
    process::{Place, until},
};

fn run_ids(page: &Value) -> Vec<i64> {
    let runs = page["runs"].as_array().unwrap();
    runs.iter()
        .map(|run| run["run_id"].as_i64().unwrap())
        .collect()
}

#[test]
fn runs_are_filtered_and_paged_as_the_command_shows_them() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    for job in ["report", "shaky", "report", "shaky", "report"] {
        let run = served
            .post(&format!("/v1/jobs/{job}/trigger"), &json!({}))
            .ok(202);
        let path = format!("/v1/runs/{}", run["run_id"]);
        served.until(&path, |found| {
            found["run"]["ended_at"] != Value::Null && found["run"]["delivery"]["open"] == 0
        });
    }
    let whole = served.get("/v1/runs").ok(200);
    assert_eq!(run_ids(&whole), [5, 4, 3, 2, 1]);
    assert_eq!(whole["runs"], place.json(&["runs"])["runs"]);
    for path in ["/v1/runs?limit=2", "/v1/runs?limit=2&job=report"] {
        let mut found = Vec::new();
        let mut page = served.get(path).ok(200);
        loop {
            found.extend(run_ids(&page));
            let Some(next) = page["next"].as_str() else {
                break;
            };
            page = served.get(&format!("{path}&cursor={next}")).ok(200);
        }
        let expected: &[i64] = if path.contains("job") {
            &[5, 3, 1]
        } else {
            &[5, 4, 3, 2, 1]
        };
        assert_eq!(found, expected, "{path}");
    }
    let failed = served.get("/v1/runs?state=failed,cancelled").ok(200);
    assert_eq!(run_ids(&failed), [4, 2]);
    let none = served.get("/v1/runs?since=2099-01-01T00:00:00Z").ok(200);
    assert_eq!(run_ids(&none), [0; 0]);
    let missed = served.get("/v1/runs?missed=true").ok(200);
    assert_eq!(run_ids(&missed), [0; 0]);

    let detail = served.get("/v1/runs/2").ok(200);
    assert_eq!(detail, place.json(&["runs", "--run", "2"]));
    assert_eq!(detail["attempts"][0]["result"], "failed:permanent");
    let figures = served.get("/metrics").body;
    let failed = "chatcron_occurrences_total{outcome=\"failed\",reason=\"permanent\"} 2";
    assert!(figures.contains(failed), "{figures}");
    let started = "chatcron_runs_started_total{cause=\"manual\"} 5";
    assert!(figures.contains(started), "{figures}");
}

#[test]
fn wrong_questions_are_told_with_what_is_accepted() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    for (path, says) in [
        ("/v1/runs?state=lost", "the states are waiting, queued"),
        ("/v1/runs?limit=0", "`limit` is 1 to 500"),
        ("/v1/runs?limit=501", "`limit` is 1 to 500"),
        ("/v1/runs?limit=-1", "not accepted"),
        ("/v1/runs?limit=99999999999999999999", "not accepted"),
        ("/v1/runs?limit=x", "not accepted"),
        ("/v1/runs?since=yesterday", "not accepted"),
        ("/v1/runs?missed=perhaps", "not accepted"),
        ("/v1/runs?colour=red", "unknown field `colour`"),
        ("/v1/runs?cursor=x", "the `next` of the page before"),
        (
            "/v1/runs?cursor=999999999999999999.1",
            "the `next` of the page before",
        ),
        (
            "/v1/skipped?cursor=1.x%20y",
            "the `next` of the page before",
        ),
        ("/v1/jobs?cursor=%00", "the `next` of the page before"),
        (
            "/v1/chats/me/transcript?cursor=1",
            "the `next` of the page before",
        ),
    ] {
        let words = served.get(path).problem(422, "unprocessable");
        assert!(words.contains(says), "{path}: {words}");
    }
    for path in [
        "/v1/runs/99",
        "/v1/runs/x",
        "/v1/runs/99999999999999999999",
        "/v1/runs/-1",
    ] {
        served.get(path).problem(404, "unknown-run");
    }
}

#[test]
fn the_worker_is_alive_ready_and_stops_with_its_api() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    assert_eq!(served.get("/healthz").ok(200)["status"], "ok");
    assert_eq!(served.get("/readyz").ok(200)["status"], "ok");
    let slow = json!({ "text": "!sleep 2s\nlate", "wait_ms": 20_000 });
    let address = served.address;
    let asking = std::thread::spawn(move || {
        let headers = [("content-type", "application/json")];
        let path = "/v1/chats/me/messages";
        crate::client::ask(address, "POST", path, &headers, slow.to_string().as_bytes())
    });
    served.worker.until_logged("turn started");
    served.worker.signal("TERM");
    served.worker.until_logged("stopping");
    served.get("/readyz").problem(503, "unavailable");
    assert_eq!(served.get("/healthz").ok(200)["status"], "ok");
    // Nothing new is taken.
    let more = served.post("/v1/chats/me/messages", &json!({ "text": "more" }));
    more.problem(503, "unavailable");
    assert_eq!(served.get("/v1/jobs").status, 200);
    // Whoever waits is told that the turn goes on.
    let told = asking.join().unwrap().ok(202);
    assert_eq!(told["state"], "running");
    until("it ends", || {
        served.worker.exit_code().ok_or(served.worker.log())
    });
    assert_eq!(served.worker.exit_code(), Some(0));
    assert!(
        std::net::TcpStream::connect(address).is_err(),
        "nobody listens any more"
    );
}
