//! Three real workers on one server, killed, frozen and replaced at random while they work off five
//! thousand slots; then the checker, `verify` and `audit` look at what came of it.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    thread,
    time::{Duration, SystemTime},
};

use chatcron::{
    ids::JobId,
    policy::OwnedEvent,
    store::{
        Store,
        postgres::PostgresStore,
        sqlite::{OpenMode, SqliteStore},
    },
    worker::{Change, Decider},
};
use serde_json::Value;
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, PgConnection, Row, SqliteConnection,
    sqlite::SqliteConnectOptions,
};

use crate::{
    checker::{self, Call, JobRule, Line, Rules, Slots},
    fakes::{Fakes, TOKEN},
    process::{Place, Worker, until},
    world::cluster::Cluster,
};

/// How many jobs fire each second beside those that are shown somewhere.
const BEATS: usize = 120;
/// Jobs that are shown, and their periods in seconds.
const SHOWN: [(&str, i64); 5] = [
    ("note", 3),
    ("long", 4),
    ("hook", 1),
    ("desk", 1),
    ("again", 5),
];
/// How long everything goes wrong.
const CHAOS: Duration = Duration::from_secs(42);
const MAX_CONCURRENT: usize = 24;
const RUN: [&str; 3] = ["run", "--lease", "3"];

fn jobs(fakes: &Fakes) -> String {
    let (telegram, model) = (fakes.root("telegram"), fakes.root("openai"));
    let hook = format!("{}/hook", fakes.root("webhook"));
    let mut text = format!(
        r#"
timezone       = "UTC"
max_concurrent = {MAX_CONCURRENT}

[defaults]
retry           = {{ attempts = 3, backoff = "1s" }}
catch_up_spread = "0s"
timeout         = "5s"
agent           = "echo"

[chats.me]
channel = "telegram"
to      = "5550001"
agent   = "main"

[chats.family]
channel = "telegram"
to      = "5550002"
agent   = "main"

[chats.desk]
channel = "terminal"
agent   = "main"

[channels.telegram]
kind      = "telegram"
token_env = "TOKEN"
api_root  = "{telegram}"

[channels.terminal]
kind = "console"
log  = "terminal.jsonl"

[agents.main]
kind     = "openai"
model    = "fake"
base_url = "{model}/v1"

[agents.echo]
kind = "echo"
"#
    );
    for n in 0..BEATS {
        // Some are nearly always under way, so that a death meets them.
        let prompt = if n < 4 { "!sleep 700ms\\nbeat" } else { "beat" };
        text.push_str(&format!(
            "[jobs.beat{n}]\nevery = \"1s\"\nprompt = \"{prompt}\"\ndeliver = \"history\"\n"
        ));
    }
    for (id, period) in SHOWN {
        let place = match id {
            "note" => "chat = \"me\"".to_owned(),
            "long" => "deliver = \"me\"\nagent = \"main\"".to_owned(),
            "hook" => format!("deliver = {{ webhook = \"{hook}\", allow_private = true }}"),
            "desk" => "deliver = \"desk\"\nagent = \"main\"".to_owned(),
            _ => "deliver = \"family\"\nagent = \"main\"\non_unknown = \"resend\"".to_owned(),
        };
        // Three parts.
        let more = if id == "long" { "[lines 500]" } else { "" };
        text.push_str(&format!(
            "[jobs.{id}]\nevery = \"{period}s\"\nprompt = \"job:{id} {more}\"\n{place}\n"
        ));
    }
    text
}

/// Choices that follow from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    /// From `low` to `high`, both included.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        low + (mixed ^ (mixed >> 31)) % (high - low + 1)
    }
}

/// One of the three, and until when it is frozen.
struct Slot {
    worker: Worker,
    frozen_until: Option<SystemTime>,
}

#[derive(Debug, Default)]
struct Befallen {
    killed: u32,
    frozen: u32,
    replaced: u32,
    began_anew: usize,
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// `look` is asked again and again what is under way.
fn chaos(place: &Place, slots: &mut [Slot], draw: &mut Draw, look: impl Fn()) -> Befallen {
    let mut befallen = Befallen::default();
    let end = now() + CHAOS;
    while now() < end {
        thread::sleep(Duration::from_millis(draw.between(100, 900)));
        for slot in &mut *slots {
            if slot.frozen_until.is_some_and(|until| until <= now()) {
                slot.worker.signal("CONT");
                slot.frozen_until = None;
            }
        }
        supervise(place, slots);
        look();
        let frozen = slots.iter().filter(|slot| slot.frozen_until.is_some());
        let may_freeze = frozen.count() < slots.len() - 1;
        let chosen = usize::try_from(draw.between(0, 2)).unwrap();
        let slot = &mut slots[chosen];
        match draw.between(1, 100) {
            1..=40 => {
                befallen.began_anew += begun_anew(&slot.worker);
                let dead = std::mem::replace(&mut slot.worker, place.start_with(&RUN));
                dead.kill();
                slot.frozen_until = None;
                befallen.killed += 1;
            }
            41..=75 if may_freeze && slot.frozen_until.is_none() => {
                slot.worker.signal("STOP");
                let long = Duration::from_millis(draw.between(300, 6000));
                slot.frozen_until = Some(now() + long);
                befallen.frozen += 1;
            }
            76..=85 if slot.frozen_until.is_none() => {
                befallen.began_anew += begun_anew(&slot.worker);
                let old = std::mem::replace(&mut slot.worker, place.start_with(&RUN));
                ends_in_order(old);
                befallen.replaced += 1;
            }
            86..=100 => {
                let said = place.run(&["say", "me", "job:none I say", "--wait", "0"]);
                assert!(
                    matches!(said.status.code(), Some(0 | 1)),
                    "{}",
                    crate::process::told(&said)
                );
            }
            _ => {}
        }
    }
    for slot in &mut *slots {
        if slot.frozen_until.take().is_some() {
            slot.worker.signal("CONT");
        }
        befallen.began_anew += begun_anew(&slot.worker);
    }
    // Whoever was frozen on its way to work may have to be started again.
    thread::sleep(Duration::from_secs(2));
    supervise(place, slots);
    befallen
}

/// Starts those again that ended while they started: a transaction that froze is lost.
fn supervise(place: &Place, slots: &mut [Slot]) {
    for slot in slots.iter_mut().filter(|slot| !slot.worker.is_alive()) {
        assert!(has_not_begun(&slot.worker), "{}", slot.worker.log());
        slot.worker = place.start_with(&RUN);
        slot.frozen_until = None;
    }
}

fn has_not_begun(worker: &Worker) -> bool {
    worker.exit_code() == Some(3) && !worker.log().contains("chatcron is running version")
}

fn ends_in_order(worker: Worker) {
    let log = worker.log();
    if !has_not_begun(&worker) {
        assert!(matches!(worker.stop(), Some(0 | 3)), "{log}");
    }
}

fn begun_anew(worker: &Worker) -> usize {
    worker.log().matches("it begins anew").count()
}

#[test]
fn three_workers_that_are_killed_and_frozen_work_off_five_thousand_slots() {
    let Some(server) = Cluster::shared() else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = runtime.block_on(server.new_database());
    let fakes = Fakes::start_with(&["--numbered"]);
    let place = Place::new(&jobs(&fakes))
        .with_env("TOKEN", TOKEN)
        .with_env("CHATCRON_DB", &url);
    let start = || Slot {
        worker: place.start_with(&RUN),
        frozen_until: None,
    };
    let mut slots = [start(), start(), start()];
    slots[0].worker.until_logged("chatcron is running");
    let look = || {
        let under_way = runtime.block_on(number(&url, UNDER_WAY));
        assert!(
            under_way <= i64::try_from(MAX_CONCURRENT).unwrap(),
            "{under_way} runs are under way"
        );
        let overlapping = runtime.block_on(number(&url, OVERLAPPING));
        assert_eq!(overlapping, 0, "jobs have two runs under way");
    };
    let befallen = chaos(&place, &mut slots, &mut Draw(20_261_130), look);
    runtime.block_on(pause_everything(&url));
    until("nothing is left to do", || {
        match runtime.block_on(number(&url, OPEN)) {
            0 => Ok(()),
            open => Err(format!(
                "{open} things are under way: {}",
                slots[0].worker.log()
            )),
        }
    });
    let told_plans = slots
        .iter()
        .filter(|slot| slot.worker.log().contains("added job=beat0"));
    assert!(told_plans.count() <= 1, "the plan is told once");
    for slot in slots {
        assert_eq!(slot.worker.stop(), Some(0));
    }
    let log = format!("telegram={}", fakes.shown_log().display());
    place.ok(&["verify", "--channel-log", &log]);
    place.ok(&["audit"]);
    let copy = place.path("copy.db");
    runtime.block_on(copied(&url, &copy));
    let lane = runtime.block_on(text(&url, WEBHOOK_LANE));
    let lines = lines(&fakes, &place, &lane);
    let found = runtime.block_on(checker::check(&copy, &rules(), &lines, &calls(&fakes)));
    let words: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{befallen:?}\n{}", words.join("\n"));
    // What should have happened has.
    let slots = runtime.block_on(number(&url, ACCOUNTED));
    let done = runtime.block_on(number(
        &url,
        "SELECT count(*) FROM runs WHERE state = 'done'",
    ));
    let again = runtime.block_on(number(&url, TRIED_AGAIN));
    let told = format!("{slots} slots, {done} runs done, {again} tried again, {befallen:?}");
    println!("{told}");
    assert!(slots >= 5000 && done >= 500 && again > 0, "{told}");
    assert!(befallen.killed >= 5 && befallen.frozen >= 5, "{told}");
    assert!(befallen.began_anew > 0, "{told}");
}

const OPEN: &str = "\
SELECT (SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'backoff'))
  + (SELECT count(*) FROM outbox_parts WHERE state IN ('pending', 'sending'))
  + (SELECT count(*) FROM turns WHERE state IN ('waiting', 'running'))
  + (SELECT count(*) FROM lanes WHERE holder IS NOT NULL)";
const UNDER_WAY: &str = "SELECT count(*) FROM runs WHERE state = 'running'";
const OVERLAPPING: &str = "\
SELECT count(*) FROM (SELECT job_id FROM runs WHERE state = 'running'
  GROUP BY job_id HAVING count(*) > 1) AS jobs";
const ACCOUNTED: &str = "\
SELECT (SELECT count(*) FROM occurrences)
  + (SELECT coalesce(sum(slots), 0) FROM occurrence_ranges)::bigint";
const TRIED_AGAIN: &str = "\
SELECT count(*) FROM attempts AS a JOIN attempts AS b
ON b.run_id = a.run_id AND b.attempt = a.attempt + 1 WHERE a.result = 'interrupted'";
const WEBHOOK_LANE: &str =
    "SELECT session_key FROM outbox WHERE session_key LIKE 'webhook:%' LIMIT 1";

async fn number(url: &str, sql: &'static str) -> i64 {
    let mut conn = PgConnection::connect(url).await.unwrap();
    sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap()
}

async fn text(url: &str, sql: &'static str) -> String {
    let mut conn = PgConnection::connect(url).await.unwrap();
    sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap()
}

/// Nothing new begins.
async fn pause_everything(url: &str) {
    let store = PostgresStore::open(&url.parse().unwrap(), OpenMode::MustExist)
        .await
        .unwrap();
    let chats = BTreeMap::new();
    let decider = Decider::new(&store, &chats, None);
    let jobs = store.all_jobs().await.unwrap();
    assert_eq!(jobs.len(), BEATS + SHOWN.len());
    let mut left: Vec<JobId> = jobs.into_iter().map(|job| job.job.id).collect();
    // Others may be faster.
    for _ in 0..50 {
        let pause = || OwnedEvent::Paused {
            reason: "the end".to_owned(),
        };
        let changes: Vec<_> = left
            .iter()
            .map(|id| Change::new(id.clone(), pause()))
            .collect();
        let answers = decider.apply(&changes, jiff_now()).await.unwrap();
        let answered = left.drain(..).zip(answers);
        let again = answered.filter(|(_, answer)| answer.is_err());
        left = again.map(|(id, _)| id).collect();
        if left.is_empty() {
            return store.close().await;
        }
    }
    panic!("these cannot be paused: {left:?}");
}

fn jiff_now() -> jiff::Timestamp {
    now().try_into().unwrap()
}

fn rules() -> Rules {
    let rule = |period: i64| JobRule {
        slots: Slots::Every(period * 1_000_000),
        attempts: 3,
        window: 3600 * 1_000_000,
        goes_on: true,
        // One that froze between its look at the clock and its claim begins a run at that instant, by
        // what it records. What is under way at once is looked at while it is.
        overlaps: true,
    };
    let beats = (0..BEATS).map(|n| (format!("beat{n}"), rule(1)));
    let shown = SHOWN.map(|(id, period)| (id.to_owned(), rule(period)));
    Rules {
        jobs: beats.chain(shown).collect(),
        blind: vec!["telegram:".to_owned()],
        max_concurrent: 1000,
    }
}

/// What was shown: by Telegram and the webhook's receiver, and by the terminal.
fn lines(fakes: &Fakes, place: &Place, webhook_lane: &str) -> Vec<Line> {
    let word = |line: &Value, key: &str| line[key].as_str().map(str::to_owned);
    let mut lines = Vec::new();
    for line in json_lines(&fakes.shown_log()) {
        let key = word(&line, "key");
        lines.push(Line {
            chat: match &key {
                Some(_) => webhook_lane.to_owned(),
                None => format!("telegram:direct:{}", word(&line, "chat").unwrap()),
            },
            message_id: word(&line, "message_id").unwrap(),
            key,
            text: word(&line, "text").unwrap(),
        });
    }
    for line in json_lines(&place.path("terminal.jsonl")) {
        lines.push(Line {
            chat: word(&line, "chat").unwrap(),
            message_id: word(&line, "message_id").unwrap(),
            key: word(&line, "key"),
            text: word(&line, "text").unwrap(),
        });
    }
    lines
}

/// What the model was asked for jobs.
fn calls(fakes: &Fakes) -> Vec<Call> {
    let requests = json_lines(&fakes.requests_log());
    let jobs = requests.iter().filter_map(|request| {
        let last = request["json"]["messages"].as_array()?.last()?;
        let (_, rest) = last["content"].as_str()?.split_once("job:")?;
        rest.split(' ').next().map(str::to_owned)
    });
    jobs.filter(|job| job != "none")
        .map(|job| Call {
            job: Some(job),
            key: None,
            at: None,
        })
        .collect()
}

fn json_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    whole
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// The server's tables as a file, row by row: the checker reads files, and both have the same
/// columns.
async fn copied(url: &str, to: &Path) {
    let empty = SqliteStore::open(to, OpenMode::CreateIfMissing)
        .await
        .unwrap();
    empty.close().await;
    let mut from = PgConnection::connect(url).await.unwrap();
    let options = SqliteConnectOptions::new().filename(to).foreign_keys(false);
    let mut to = options.connect().await.unwrap();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table'
                  AND name NOT LIKE '\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite_%'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut to).await.unwrap();
    sqlx::query("BEGIN").execute(&mut to).await.unwrap();
    for table in tables {
        copy_table(&mut from, &mut to, &table).await;
    }
    sqlx::query("COMMIT").execute(&mut to).await.unwrap();
}

async fn copy_table(from: &mut PgConnection, to: &mut SqliteConnection, table: &str) {
    let delete = AssertSqlSafe(format!("DELETE FROM {table}"));
    sqlx::query(delete).execute(&mut *to).await.unwrap();
    let select = AssertSqlSafe(format!("SELECT row_to_json(t)::text FROM {table} AS t"));
    for row in sqlx::query(select).fetch_all(&mut *from).await.unwrap() {
        let row: BTreeMap<String, Value> = serde_json::from_str(row.get(0)).unwrap();
        let columns: Vec<&str> = row.keys().map(String::as_str).collect();
        let marks = vec!["?"; columns.len()].join(", ");
        let columns = columns.join(", ");
        let insert = AssertSqlSafe(format!("INSERT INTO {table} ({columns}) VALUES ({marks})"));
        let mut insert = sqlx::query(insert);
        for (column, value) in &row {
            insert = match value {
                // The line as it came is nothing that the checker looks at.
                _ if column == "raw_line" => insert.bind(None::<Vec<u8>>),
                Value::Null => insert.bind(None::<i64>),
                Value::Bool(flag) => insert.bind(*flag),
                Value::Number(number) => insert.bind(number.as_i64().unwrap()),
                Value::String(text) => insert.bind(text.clone()),
                Value::Array(_) | Value::Object(_) => insert.bind(value.to_string()),
            };
        }
        insert.execute(&mut *to).await.unwrap();
    }
}
