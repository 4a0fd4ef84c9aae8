use serde_json::Value;

use super::*;
use crate::{
    cli::samples::{at, chat, failed, incident, now, run, stored},
    occurrence::{OccurrenceRef, Slot},
    policy::{ActiveRun, Pause, Phase},
    store::{RunRow, StoredJob, WorkerId},
};

fn listed(stored: StoredJob, runs: Vec<RunRow>) -> Listed {
    Listed {
        standing: Standing::of(&stored, &runs, now()),
        last: runs.into_iter().find(|run| run.ended_at.is_some()),
        incidents: Vec::new(),
        stored,
    }
}

fn sample() -> Vec<Listed> {
    let plain = listed(
        stored("budget"),
        vec![run(40, "budget", "2026-11-30T07:00:00Z")],
    );
    let mut paused = stored("paused");
    paused.state.pause = Some(Pause {
        since: at("2026-11-30T07:00:00Z"),
        reason: "failed 3 times".to_owned(),
    });
    let mut retrying = stored("shaky");
    retrying.state.active.push(ActiveRun {
        occurrence: OccurrenceRef::Scheduled(Slot::from_text("x")),
        phase: Phase::Backoff {
            until: at("2026-11-30T11:02:00Z"),
        },
        from_queue: false,
    });
    let mut off = stored("off");
    off.job.enabled = false;
    let mut done = stored("twice");
    done.job.policies.max_runs = Some(2);
    done.state.started_runs = 2;
    let error = failed(39, "paused", "2026-11-30T06:00:00Z", "model overloaded");
    vec![
        plain,
        listed(paused, vec![error]),
        listed(retrying, Vec::new()),
        listed(off, Vec::new()),
        listed(done, Vec::new()),
    ]
}

#[test]
fn a_job_is_listed_with_its_state_what_comes_and_what_came() {
    insta::assert_snapshot!(
        render(&sample(), &[chat("me")], now(), Screen::wide(None)),
        @r"
     job     when                                where                                state                 next                     last
     budget  every day at 08:00 (Europe/Berlin)  background -> me (telegram 5550001)  ready                 tomorrow 08:00, in 20 h  done in 14 s
     paused  every day at 08:00 (Europe/Berlin)  background -> me (telegram 5550001)  paused                -                        failed: model overloaded
     shaky   every day at 08:00 (Europe/Berlin)  background -> me (telegram 5550001)  tries again in 2 min  tomorrow 08:00, in 20 h  never
     off     every day at 08:00 (Europe/Berlin)  background -> me (telegram 5550001)  disabled              -                        never
     twice   every day at 08:00 (Europe/Berlin)  background -> me (telegram 5550001)  finished              -                        never
    "
    );
    assert!(render(&[], &[], now(), Screen::wide(None)).contains("chatcron run"));
}

#[test]
fn json_names_states_with_one_word() {
    let json: Value = serde_json::from_str(&as_json(&sample(), now())).unwrap();
    let states: Vec<&str> = (0..5)
        .map(|index| json["jobs"][index]["state"].as_str().unwrap())
        .collect();
    assert_eq!(
        states,
        ["ready", "paused", "backoff", "disabled", "finished"]
    );
    assert_eq!(json["jobs"][0]["next_at"], "2026-12-01T07:00:00Z");
    assert_eq!(json["jobs"][0]["last"]["run_id"], 40);
    assert_eq!(json["jobs"][1]["paused"]["reason"], "failed 3 times");
    assert_eq!(json["jobs"][1]["next_at"], Value::Null);
}

#[test]
fn a_job_that_was_accounted_for_ahead_of_the_clock_is_told() {
    let mut jobs = sample();
    assert_eq!(ahead(&jobs, now()), "");
    jobs[0].stored.state.cursor = "2026-12-24T07:00:00Z".parse().unwrap();
    let told = ahead(&jobs, now());
    assert!(
        told.starts_with("budget: the clock was ahead; slots up to 2026-12-24 08:00"),
        "{told}"
    );
    let json: Value = serde_json::from_str(&as_json(&jobs, now())).unwrap();
    assert_eq!(json["jobs"][0]["accounted_until"], "2026-12-24T07:00:00Z");
    assert_eq!(json["jobs"][1]["accounted_until"], Value::Null);
}

#[test]
fn a_pause_is_told_beside_the_run_that_goes_on() {
    let mut busy = stored("busy");
    busy.state.pause = Some(Pause {
        since: at("2026-11-30T07:00:00Z"),
        reason: "enough".to_owned(),
    });
    busy.state.active.push(ActiveRun {
        occurrence: OccurrenceRef::Scheduled(Slot::from_text("x")),
        phase: Phase::Open,
        from_queue: false,
    });
    let jobs = [listed(busy, Vec::new())];
    let text = render(&jobs, &[chat("me")], now(), Screen::wide(None));
    assert!(
        text.contains("waits for its turn, paused after that"),
        "{text}"
    );
}

#[test]
fn a_job_that_fails_is_told_with_who_knows_of_it() {
    let mut jobs = sample();
    assert_eq!(failing(&jobs, &[chat("me")], now()), "");
    jobs[0].incidents = vec![
        incident("budget", Some(chat("me"))),
        incident("budget", None),
    ];
    assert_eq!(
        failing(&jobs, &[chat("me")], now()),
        "budget: 3 failures (timeout) since today 08:00, chat me is told: no answer within 10m\n\
         budget: 3 failures (timeout) since today 08:00, nobody could be told: no answer within 10m\n"
    );
    let json: Value = serde_json::from_str(&as_json(&jobs, now())).unwrap();
    let incident = &json["jobs"][0]["incidents"][0];
    assert_eq!(incident["cause"], "timeout");
    assert_eq!(incident["failures"], 3);
    assert_eq!(incident["told"], "me");
    assert_eq!(json["jobs"][1]["incidents"], serde_json::json!([]));
}

#[test]
fn the_workers_that_share_a_database_are_told_in_one_line() {
    let worker = |id, role, started_at| WorkerRow {
        id: WorkerId(id),
        role,
        started_at: at(started_at),
        version: "0.1.0".to_owned(),
        zone_data: String::new(),
        zone_release: None,
    };
    let first = worker(3, Role::Worker, "2026-11-30T09:00:00Z");
    let errand = worker(4, Role::Errand, "2026-11-30T10:59:00Z");
    let second = worker(5, Role::Worker, "2026-11-30T10:57:00Z");
    assert_eq!(at_work(std::slice::from_ref(&errand), now()), None);
    assert_eq!(
        at_work(&[first.clone(), errand], now()).unwrap(),
        "at work: worker 3 (for 2 h)\n"
    );
    assert_eq!(
        at_work(&[first, second], now()).unwrap(),
        "at work: workers 3 (for 2 h), 5 (for 3 min)\n"
    );
}
