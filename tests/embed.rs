//! The library's own interface, as a gateway uses it: real SQLite, agents and channels of its own.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use chatcron::{
    config::JobDraft,
    embed::{BuildError, Chatcron, Ended, StartError},
    worker::JobError,
};

#[path = "embed/place.rs"]
mod place;

use place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_triggered_job_shows_its_result_in_its_chat() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let worker = chatcron.start().await.unwrap();
    let job = daily("budget").set("deliver", "me").set("agent", "main");
    let created = chatcron.jobs().create(job, "alice").await.unwrap();
    assert_eq!(created.creator(), Some("alice"));
    assert!(created.next_at().is_some());
    chatcron.jobs().trigger("budget").await.unwrap();
    place.until_shown("me", &["How much is left?"]).await;
    assert!(matches!(worker.shutdown().await, Ended::Stopped));
    place.assert_verified(&chatcron).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_job_is_told_with_its_nearest() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let jobs = chatcron.jobs();
    jobs.create(in_background("budget"), "alice").await.unwrap();
    for refused in [
        jobs.get("bugdet").await.map(drop),
        jobs.pause("bugdet", "why").await.map(drop),
        jobs.resume("bugdet").await.map(drop),
        jobs.trigger("bugdet").await.map(drop),
        jobs.delete("bugdet", None).await,
    ] {
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, JobError::UnknownJob { found, nearest: Some(near) }
                if found == "bugdet" && near == "budget"),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_revision_changes_nothing_and_says_which_is_right() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let jobs = chatcron.jobs();
    let job = in_background("budget");
    let first = jobs.create(job.clone(), "alice").await.unwrap();
    let changed = job.clone().set("prompt", "Is anything left?");
    let second = jobs.update(changed, Some(first.revision())).await.unwrap();
    assert!(second.revision() > first.revision());
    for stale in [
        jobs.update(job.clone(), Some(first.revision()))
            .await
            .map(drop),
        jobs.delete("budget", Some(first.revision())).await,
    ] {
        let error = stale.unwrap_err();
        assert!(
            matches!(&error, JobError::StaleRevision { given, found, .. }
                if *given == first.revision() && *found == second.revision()),
            "{error}"
        );
    }
    assert_eq!(
        jobs.get("budget").await.unwrap().job().prompt,
        "Is anything left?"
    );
    // Decisions about the job are no change of its definition.
    jobs.pause("budget", "quiet").await.unwrap();
    jobs.delete("budget", Some(second.revision()))
        .await
        .unwrap();
    assert!(jobs.get("budget").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_job_says_what_was_found_and_what_is_accepted() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let jobs = chatcron.jobs();
    let cron = |text: &str| {
        in_background("budget")
            .set("daily", serde_json::Value::Null)
            .set("cron", text)
    };
    for (draft, found) in [
        (cron("61 * * * *"), "61"),
        (cron("every day"), "found 2 fields"),
        (in_background("budget").set("deliver", "nobody"), "nobody"),
        (in_background("budget").set("agent", "nobody"), "nobody"),
        (in_background("no name"), "no name"),
    ] {
        let error = jobs.create(draft, "alice").await.unwrap_err();
        assert!(matches!(error, JobError::Invalid(_)), "{error}");
        assert!(error.to_string().contains(found), "{error}");
    }
    jobs.create(in_background("budget"), "alice").await.unwrap();
    let again = jobs
        .create(in_background("budget"), "bob")
        .await
        .unwrap_err();
    assert!(matches!(again, JobError::Exists { .. }), "{again}");
    // The same as data: a cron expression of a program.
    let mut job = jobs.get("budget").await.unwrap().job().clone();
    job.id = "other".parse().unwrap();
    job.schedule.when = chatcron::job::When::Cron("* * 32 * *".to_owned());
    let error = jobs.create(job, "alice").await.unwrap_err();
    assert!(matches!(error, JobError::Schedule { .. }), "{error}");
    assert!(error.to_string().contains("32"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_the_file_is_changed_only_there() {
    let place = Place::new().await.with_file(
        "[jobs.report]\ndaily = \"08:00\"\ndeliver = \"me\"\nagent = \"main\"\nprompt = \"Report.\"\n",
    );
    let chatcron = place.build().await;
    let worker = chatcron.start().await.unwrap();
    let jobs = chatcron.jobs();
    let report = jobs.get("report").await.unwrap();
    assert_eq!((report.creator(), report.file()), (None, Some("jobs.toml")));
    let error = jobs.delete("report", None).await.unwrap_err();
    assert!(matches!(error, JobError::DefinedInFile { .. }), "{error}");
    place.write_file("[jobs.other]\ndaily = \"09:00\"\ndeliver = \"me\"\nagent = \"main\"\nprompt = \"Other.\"\n");
    let change = worker.reload().await.unwrap();
    assert_eq!((change.added.len(), change.removed.len()), (1, 1));
    assert!(jobs.get("report").await.is_err());
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_database_has_one_worker_and_another_can_follow_it() {
    if place::IS_ON_SERVER {
        // There workers share the work.
        return;
    }
    let place = Place::new().await;
    let chatcron = place.build().await;
    let worker = chatcron.start().await.unwrap();
    let second = chatcron.start().await;
    assert!(matches!(second, Err(StartError::AlreadyRunning { .. })));
    drop(worker);
    let again = chatcron.start().await.unwrap();
    assert!(matches!(again.shutdown().await, Ended::Stopped));
}

#[tokio::test]
async fn what_is_missing_is_told_before_anything_runs() {
    let nothing = Chatcron::builder().build().await.err().unwrap();
    assert!(matches!(nothing, BuildError::NoDatabase), "{nothing}");
    let other = Chatcron::builder().database("mysql://host/db");
    let other = other.build().await.err().unwrap();
    assert!(other.to_string().contains("`mysql`"), "{other}");
    assert!(other.to_string().contains("sqlite:PATH"), "{other}");
    let place = Place::new().await;
    let lonely = Chatcron::builder()
        .database(place.database())
        .chat(place::chat("me", "1"));
    let lonely = lonely.build().await.err().unwrap();
    assert!(
        matches!(lonely, BuildError::Unregistered { .. }),
        "{lonely}"
    );
    let twice = place.builder().chat(place::chat("me", "2"));
    let twice = twice.build().await.err().unwrap();
    let words = "the chat `me` is given twice; give each a name of its own";
    assert_eq!(twice.to_string(), words);
    let nowhere = place.builder().timezone("Europe/Pariss");
    let nowhere = nowhere.build().await.err().unwrap();
    assert!(matches!(nowhere, BuildError::TimeZone { .. }), "{nowhere}");
    assert!(nowhere.to_string().contains("Europe/Paris"), "{nowhere}");
}

fn daily(id: &str) -> JobDraft {
    JobDraft::new(id)
        .set("daily", "08:00")
        .set("prompt", "How much is left?")
}

fn in_background(id: &str) -> JobDraft {
    daily(id).set("deliver", "me").set("agent", "main")
}
