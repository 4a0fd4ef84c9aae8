//! Where each turn came from: the readings of a gateway's queries over a database of real runs.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use chatcron::{
    clock::Clock,
    ids::SessionKey,
    policy::Grant,
    store::{ClaimRequest, Claimed, InboundMessage, TurnCount, TurnEnd, TurnResult},
    transcript::{Content, TriggerSource},
};
use sqlx::{AssertSqlSafe, ConnectOptions, Row, SqliteConnection, sqlite::SqliteConnectOptions};
use world::{TestAgent, TestChannel, World};

const JOBS: &str = r#"
timezone = "UTC"

[jobs.budget]
name    = "Budget report"
daily   = "08:00"
prompt  = "Summarise yesterday's spending."
deliver = "me"

[jobs.check-in]
daily  = "08:00"
chat   = "me"
prompt = "Ask how the day went."
"#;

const HEARTBEAT: &str = "telegram:direct:5550001:heartbeat";
const SUBAGENT: &str = "agent:main:subagent:f47ac10b-58cc-4372-a567-0e02b2c3d479";

/// A person's turn, an in-chat job, a background job, two heartbeats and a subagent.
async fn lived() -> World {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = World::in_my_chat(JOBS, "2026-12-01T07:59:00Z", agent, channel).await;
    let mut worker = world.start().await;
    world.say("me", "How much?").await;
    worker.until_quiet().await.unwrap();
    world.run_at(&mut worker, "2026-12-01T08:00:00Z").await;
    let id = world.begin_worker().await;
    for (key, words) in [
        (HEARTBEAT, "beat 1"),
        (HEARTBEAT, "beat 2"),
        (SUBAGENT, "dig"),
    ] {
        gateways_turn(&world, id, key, words).await;
    }
    world
}

/// A turn of a session that a gateway has beside its chats.
async fn gateways_turn(world: &World, worker: chatcron::store::WorkerId, key: &str, words: &str) {
    let now = world.clock.now();
    let session_key = SessionKey::from_stored(key);
    let inbound = InboundMessage {
        session_key: session_key.clone(),
        content: Content::Text(words.to_owned()),
        source: "api",
        trigger_source: None,
        raw_entry: None,
        raw_line: None,
        sender_display: None,
        sender_id_raw: None,
        channel_message_id: None,
    };
    let turn = world.store.request_turn(inbound, now).await.unwrap();
    let request = ClaimRequest {
        session_key,
        grant: Grant::Turn(turn),
    };
    let claimed = world
        .store
        .claim(worker.into(), vec![request], now)
        .await
        .unwrap();
    let Ok(Claimed::Turn(claimed)) = claimed.into_iter().next().unwrap() else {
        panic!("the lane is free");
    };
    assert!(claimed.trigger.is_automated(), "its key says so");
    let end = TurnEnd {
        turn_id: turn,
        epoch: claimed.epoch,
        result: TurnResult::Done,
        usage: None,
        entries: Vec::new(),
        message: None,
        diagnostics: Vec::new(),
        shown: Vec::new(),
    };
    let ended = world.store.finish_turns(vec![end], now).await.unwrap();
    assert_eq!(ended, [Ok(())]);
}

async fn raw(world: &World) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(world.folder.path().join("chatcron.db"));
    options.connect().await.unwrap()
}

async fn session_id(conn: &mut SqliteConnection, key: &str) -> String {
    let sql = "SELECT session_id FROM ctx_sessions WHERE session_key = ?";
    sqlx::query_scalar(sql)
        .bind(key)
        .fetch_one(conn)
        .await
        .unwrap()
}

const LAST_USER_MESSAGE: &str = "
SELECT *
FROM ctx_session_entries
WHERE session_id = ?
  AND role = 'user'
  AND entry_type = 'message'
  AND (trigger_source = 'user' OR trigger_source IS NULL)
ORDER BY seq DESC
LIMIT 1;";

const HEARTBEATS: &str = "
SELECT COUNT(*) AS heartbeat_count
FROM ctx_session_entries
WHERE session_id = ?
  AND trigger_source = 'heartbeat';";

const RECENTLY_AUTOMATED: &str = "
SELECT DISTINCT session_id, trigger_source, MAX(created_at) AS last_automated
FROM ctx_session_entries
WHERE is_automated = 1
  AND created_at >= datetime('now', '-1 day')
GROUP BY session_id, trigger_source;";

#[tokio::test]
async fn the_last_real_user_message_is_the_persons() {
    let world = lived().await;
    let mut conn = raw(&world).await;
    let chat = session_id(&mut conn, world.session("me").as_str()).await;
    let found = sqlx::query(LAST_USER_MESSAGE).bind(&chat);
    let row = found.fetch_one(&mut conn).await.unwrap();
    // The in-chat job's prompt came later, and is not a person's.
    assert_eq!(row.get::<String, _>("message"), "How much?");
    for key in [HEARTBEAT, SUBAGENT, "cron:budget"] {
        let session = session_id(&mut conn, key).await;
        let found = sqlx::query(LAST_USER_MESSAGE).bind(session);
        assert!(
            found.fetch_optional(&mut conn).await.unwrap().is_none(),
            "{key}"
        );
    }
}

#[tokio::test]
async fn heartbeats_of_a_session_are_counted() {
    let world = lived().await;
    let mut conn = raw(&world).await;
    for (key, expected) in [(HEARTBEAT, 2), (world.session("me").as_str(), 0)] {
        let session = session_id(&mut conn, key).await;
        let found = sqlx::query_scalar::<_, i64>(HEARTBEATS).bind(session);
        assert_eq!(found.fetch_one(&mut conn).await.unwrap(), expected, "{key}");
    }
}

#[tokio::test]
async fn sessions_with_automated_activity_of_the_last_day_are_found() {
    let world = lived().await;
    let mut conn = raw(&world).await;
    // SQLite's `now` is the machine's; the world's is the story's, so the rows are brought to it.
    let shift = "UPDATE ctx_session_entries SET created_at = \
                 strftime('%Y-%m-%d %H:%M:%f', created_at, ? || ' seconds')";
    let age = "SELECT CAST(strftime('%s', 'now') - strftime('%s', max(created_at)) AS TEXT) \
               FROM ctx_session_entries";
    let age: String = sqlx::query_scalar(age).fetch_one(&mut conn).await.unwrap();
    sqlx::query(shift)
        .bind(age)
        .execute(&mut conn)
        .await
        .unwrap();
    let rows = sqlx::query(RECENTLY_AUTOMATED)
        .fetch_all(&mut conn)
        .await
        .unwrap();
    let mut found: Vec<(String, String)> = rows
        .iter()
        .map(|row| (row.get("session_id"), row.get("trigger_source")))
        .collect();
    found.sort();
    let mut expected = Vec::new();
    for (key, trigger) in [
        (world.session("me").as_str(), "cron"),
        ("cron:budget", "cron"),
        (HEARTBEAT, "heartbeat"),
        (SUBAGENT, "subagent"),
    ] {
        expected.push((session_id(&mut conn, key).await, trigger.to_owned()));
    }
    expected.sort();
    assert_eq!(found, expected);
    // A day later there is none.
    let older = sqlx::query(shift).bind("-90000").execute(&mut conn).await;
    older.unwrap();
    let rows = sqlx::query(RECENTLY_AUTOMATED)
        .fetch_all(&mut conn)
        .await
        .unwrap();
    assert!(rows.is_empty());
}

#[tokio::test]
async fn a_trigger_is_looked_up_by_its_index() {
    let world = lived().await;
    let mut conn = raw(&world).await;
    let sql =
        "EXPLAIN QUERY PLAN SELECT count(*) FROM ctx_session_entries WHERE trigger_source = 'cron'";
    let row = sqlx::query(AssertSqlSafe(sql))
        .fetch_one(&mut conn)
        .await
        .unwrap();
    let plan: String = row.get("detail");
    assert!(
        plan.contains("idx_ctx_session_entries_trigger_source"),
        "{plan}"
    );
}

#[tokio::test]
async fn automated_turns_are_neither_recalled_nor_counted_as_a_persons() {
    let world = lived().await;
    for key in [HEARTBEAT, SUBAGENT, "cron:budget"] {
        let rows = world.store.recall(&SessionKey::from_stored(key), 9).await;
        assert!(rows.unwrap().is_empty(), "{key}");
    }
    let mut conn = raw(&world).await;
    let sql = "SELECT s.session_key, t.turn_idx FROM ctx_turns AS t JOIN ctx_sessions AS s USING (session_id)";
    let rows = sqlx::query(sql).fetch_all(&mut conn).await.unwrap();
    let turns: Vec<(String, i64)> = rows
        .iter()
        .map(|row| (row.get("session_key"), row.get("turn_idx")))
        .collect();
    assert_eq!(turns, [(world.session("me").as_str().to_owned(), 1)]);
}

#[tokio::test]
async fn turns_are_counted_by_who_triggered_them() {
    let world = lived().await;
    let counts = world.store.turn_counts().await.unwrap();
    let told: Vec<(&str, TriggerSource, u64)> = counts
        .iter()
        .map(
            |TurnCount {
                 session_key,
                 trigger,
                 turns,
                 ..
             }| (session_key.as_str(), *trigger, *turns),
        )
        .collect();
    let chat = world.session("me");
    assert_eq!(
        told,
        [
            (SUBAGENT, TriggerSource::Subagent, 1),
            ("cron:budget", TriggerSource::Cron, 1),
            (chat.as_str(), TriggerSource::Cron, 1),
            (chat.as_str(), TriggerSource::User, 1),
            (HEARTBEAT, TriggerSource::Heartbeat, 2),
        ]
    );
}
