//! Rounds of misfortune, and a reckoning after every few.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};

use crate::{
    checker::{self, Call, JobRule, Line, Rules, Slots},
    fakes::Fakes,
};

#[path = "draw.rs"]
mod draw;
#[path = "place.rs"]
mod place;
#[path = "sometimes.rs"]
mod sometimes;

use draw::Draw;
use place::Place;
use sometimes::Sometimes;

/// After how many rounds everything is checked, and begins anew.
const ROUNDS_A_RECKONING: u64 = 20;
/// How long it may take until nothing is left to do, once nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Jobs and their periods in seconds.
const JOBS: [(&str, i64); 6] = [
    ("beat", 1),
    ("note", 3),
    ("long", 5),
    ("hook", 1),
    ("desk", 3),
    ("again", 4),
];

/// What to do.
pub(crate) struct Options {
    pub(crate) binary: PathBuf,
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    /// Where the evidence of a failure is kept.
    pub(crate) out: PathBuf,
}

/// What did not hold, and where the evidence is.
#[derive(Debug)]
pub(crate) struct Failed {
    what: Vec<String>,
    evidence: Option<PathBuf>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what.join("\n"))?;
        match &self.evidence {
            Some(folder) => write!(f, "\nthe evidence is in {}", folder.display()),
            None => Ok(()),
        }
    }
}

fn jobs(fakes: &Fakes) -> String {
    let (telegram, model) = (fakes.root("telegram"), fakes.root("openai"));
    let hook = format!("{}/hook", fakes.root("webhook"));
    let job = |id: &str, period: i64, place: &str, more: &str| {
        format!("[jobs.{id}]\nevery  = \"{period}s\"\nprompt = \"job:{id} {more}\"\n{place}\n\n")
    };
    let mut text = format!(
        r#"
timezone       = "UTC"
max_concurrent = 3

[defaults]
retry           = {{ attempts = 3, backoff = "1s" }}
catch_up_spread = "0s"
timeout         = "5s"

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

"#
    );
    for (id, period) in JOBS {
        text.push_str(&match id {
            "beat" => job(id, period, "deliver = \"history\"", ""),
            "note" => job(id, period, "chat = \"me\"", ""),
            // Three parts.
            "long" => job(id, period, "deliver = \"me\"", "[lines 500]"),
            "hook" => {
                let place = format!("deliver = {{ webhook = \"{hook}\", allow_private = true }}");
                job(id, period, &place, "")
            }
            "desk" => job(id, period, "deliver = \"desk\"", ""),
            _ => job(
                id,
                period,
                "deliver = \"family\"\non_unknown = \"resend\"",
                "",
            ),
        });
    }
    text
}

/// Runs all rounds.
pub(crate) fn run(options: &Options) -> Result<String, Failed> {
    let mut draw = Draw::new(options.seed);
    let mut sometimes = Sometimes::default();
    let mut left = options.rounds;
    if !place::has_faketime() {
        let what = "libfaketime is not installed, so the clock cannot be stepped".to_owned();
        return Err(Failed {
            what: vec![what],
            evidence: None,
        });
    }
    while left > 0 {
        let rounds = left.min(ROUNDS_A_RECKONING);
        let mut era = Era::begin(options, &mut draw);
        let ended = era.live(rounds, &mut draw, &mut sometimes);
        if let Err(what) = ended {
            return Err(era.failed(options, options.rounds - left, what));
        }
        left -= rounds;
    }
    let never = sometimes.never();
    if !never.is_empty() {
        return Err(Failed {
            what: vec![format!("this never happened: {}", never.join("; "))],
            evidence: None,
        });
    }
    Ok(format!(
        "{} rounds hold; what happened:\n{sometimes}",
        options.rounds
    ))
}

/// One database, from its making to its reckoning.
struct Era {
    fakes: Fakes,
    place: Place,
    /// A clock that was set back says nothing about what was at work at the same time.
    steps_back: bool,
}

type Broken = Result<(), Vec<String>>;

impl Era {
    fn begin(options: &Options, draw: &mut Draw) -> Self {
        let fakes = Fakes::start_with(&["--numbered"]);
        let place = Place::new(&options.binary, &jobs(&fakes));
        Self {
            fakes,
            place,
            steps_back: draw.percent(50),
        }
    }

    fn live(&mut self, rounds: u64, draw: &mut Draw, sometimes: &mut Sometimes) -> Broken {
        self.place.start();
        for _ in 0..rounds {
            self.round(draw, sometimes)?;
        }
        self.come_to_rest()?;
        self.reckon(sometimes)
    }

    /// A little time, with something that goes wrong outside, and something that befalls the
    /// process.
    fn round(&mut self, draw: &mut Draw, sometimes: &mut Sometimes) -> Broken {
        if let Some(ended) = self.place.has_ended() {
            return Err(vec![format!("the worker ended by itself: {ended}")]);
        }
        self.place.start();
        // What was not met in its round is not kept: every fault gets its turn.
        self.fakes.order(&json!({"clear": {}}));
        for _ in 0..draw.between(1, 3) {
            let fault = draw.deal(sometimes::faults);
            self.fakes.order(&json!({"fault": fault}));
        }
        self.wait(draw, 100, 500);
        if draw.percent(25) {
            self.place
                .run(&["say", "me", "job:none I say", "--wait", "0"]);
        }
        if draw.percent(10) {
            let asked = self.place.run(&["trigger", "desk"]);
            sometimes.add("a run was asked for", u64::from(asked.status.success()));
        }
        self.befall(draw, sometimes);
        Ok(())
    }

    fn wait(&self, draw: &mut Draw, low: u64, high: u64) {
        thread::sleep(Duration::from_millis(draw.between(low, high)));
    }

    fn befall(&mut self, draw: &mut Draw, sometimes: &mut Sometimes) {
        match draw.between(1, 100) {
            1..=40 => {
                self.place.kill();
                sometimes.count("killed");
                let (parts, runs) = self.under_way();
                sometimes.add("killed while a part was being sent", parts);
                sometimes.add("killed while a run was under way", runs);
            }
            41..=52 => {
                self.place.signal("STOP");
                self.wait(draw, 50, 600);
                self.place.signal("CONT");
                sometimes.count("frozen and thawed");
            }
            53..=57 => {
                // What hangs is waited for; a second signal leaves it for the next start.
                if self.place.stop(Duration::from_secs(2)).is_none() {
                    let _ = self.place.stop(Duration::from_secs(10));
                    self.place.kill();
                }
                sometimes.count("asked to stop");
            }
            58..=72 => {
                let back = self.steps_back && draw.percent(50);
                let by = i64::try_from(draw.between(200, 15_000)).unwrap();
                self.place.step_clock(if back { -by } else { by });
                sometimes.count(if back { "clock back" } else { "clock forward" });
            }
            73..=80 => {
                self.place.fill_disk();
                self.wait(draw, 300, 1500);
                self.place.free_disk();
                sometimes.count("disk full");
                // One that was about to start says so and ends; whoever supervises it starts it
                // again.
                if self.place.has_ended().as_deref() == Some("exit status: 3") {
                    self.place.kill();
                }
            }
            _ => {}
        }
    }

    /// How many parts and runs a dead worker left under way.
    fn under_way(&self) -> (u64, u64) {
        let one = |sql| u64::from(self.count(sql) > 0);
        (
            one("SELECT count(*) FROM outbox_parts WHERE state = 'sending' AND epoch IS NOT NULL"),
            one("SELECT count(*) FROM runs WHERE state = 'running'"),
        )
    }

    /// Zero where there is no database yet.
    fn count(&self, sql: &'static str) -> i64 {
        let options = SqliteConnectOptions::new().filename(self.database());
        runtime().block_on(async {
            let Ok(mut conn) = options.connect().await else {
                return 0;
            };
            let count = sqlx::query_scalar(sql).fetch_one(&mut conn).await;
            let _ = conn.close().await;
            count.unwrap_or(0)
        })
    }

    fn database(&self) -> PathBuf {
        self.place.path("chatcron.db")
    }

    /// Nothing goes wrong any more, and nothing new begins.
    fn come_to_rest(&mut self) -> Broken {
        self.place.kill();
        self.fakes.order(&json!({"clear": {}}));
        self.place.set_clock_right();
        self.place.start();
        for (job, _) in JOBS {
            let mut told = String::new();
            let paused = (0..50).any(|_| {
                let output = self.place.run(&["pause", job]);
                told = String::from_utf8_lossy(&output.stderr).into_owned();
                if !output.status.success() {
                    thread::sleep(LOOK_AGAIN);
                }
                output.status.success()
            });
            if !paused {
                return Err(vec![format!("{job} cannot be paused: {told}")]);
            }
        }
        let tries = PATIENCE.as_millis() / LOOK_AGAIN.as_millis();
        for _ in 0..tries {
            if self.open() == 0 {
                return self.stop_in_order();
            }
            thread::sleep(LOOK_AGAIN);
        }
        Err(vec![format!(
            "I7: {} things are still under way",
            self.open()
        )])
    }

    fn open(&self) -> i64 {
        self.count(
            "SELECT (SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'backoff'))
             + (SELECT count(*) FROM outbox_parts WHERE state IN ('pending', 'sending'))
             + (SELECT count(*) FROM turns WHERE state IN ('waiting', 'running'))
             + (SELECT count(*) FROM lanes WHERE holder IS NOT NULL)",
        )
    }

    fn stop_in_order(&mut self) -> Broken {
        match self.place.stop(Duration::from_secs(40)) {
            Some(status) if status == "exit status: 0" => Ok(()),
            other => Err(vec![format!(
                "asked to stop, the worker ended with {other:?}"
            )]),
        }
    }

    /// Checks everything that is left.
    fn reckon(&mut self, sometimes: &mut Sometimes) -> Broken {
        let database = self.database();
        let (lines, calls) = (self.lines(), self.calls(sometimes));
        let rules = self.rules();
        let found = runtime().block_on(checker::check(&database, &rules, &lines, &calls));
        let mut broken: Vec<_> = found.iter().map(ToString::to_string).collect();
        let log = format!("telegram={}", self.fakes.shown_log().display());
        for command in [&["verify", "--channel-log", &log] as &[&str], &["audit"]] {
            let told = self.place.run(command);
            if !told.status.success() {
                let words = String::from_utf8_lossy(&told.stdout);
                broken.push(format!("chatcron {}: {words}", command[0]));
            }
        }
        broken.extend(self.restart());
        self.look_back(sometimes);
        if broken.is_empty() {
            Ok(())
        } else {
            Err(broken)
        }
    }

    /// I9: a start and a stop change nothing.
    fn restart(&mut self) -> Option<String> {
        let before = runtime().block_on(checker::dump(&self.database()));
        let starts = |place: &Place| place.log().matches("chatcron is running").count();
        let earlier = starts(&self.place);
        self.place.start();
        for _ in 0..200 {
            if starts(&self.place) > earlier {
                break;
            }
            thread::sleep(LOOK_AGAIN);
        }
        if let Err(told) = self.stop_in_order() {
            return told.into_iter().next();
        }
        let after = runtime().block_on(checker::dump(&self.database()));
        let changed: Vec<_> = after
            .lines()
            .filter(|line| !before.contains(*line))
            .collect();
        (before != after).then(|| format!("I9: a restart changed {changed:#?}"))
    }

    fn look_back(&self, sometimes: &mut Sometimes) {
        let mut at_least_one = |what, sql| {
            let count = u64::try_from(self.count(sql)).unwrap();
            sometimes.add(what, count);
        };
        at_least_one(
            "a person spoke",
            "SELECT count(*) FROM turns WHERE state = 'done'",
        );
        at_least_one(
            "a part ended unknown",
            "SELECT count(*) FROM outbox_parts WHERE state = 'unknown'",
        );
        at_least_one(
            "a part was confirmed after several tries",
            "SELECT count(*) FROM outbox_parts WHERE state = 'confirmed' AND attempts > 1",
        );
        at_least_one(
            "an interrupted attempt was made again",
            "SELECT count(*) FROM attempts AS a JOIN attempts AS b
             ON b.run_id = a.run_id AND b.attempt = a.attempt + 1 WHERE a.result = 'interrupted'",
        );
        at_least_one(
            "an attempt failed and the next one did not",
            "SELECT count(*) FROM attempts AS a JOIN attempts AS b
             ON b.run_id = a.run_id AND b.attempt = a.attempt + 1
             WHERE a.result LIKE 'failed:%' AND b.result = 'done'",
        );
    }

    fn rules(&self) -> Rules {
        let rule = |period: i64| JobRule {
            slots: Slots::Every(period * 1_000_000),
            attempts: 3,
            window: 3600 * 1_000_000,
            goes_on: true,
            overlaps: self.steps_back,
        };
        let jobs = JOBS.map(|(id, period)| (id.to_owned(), rule(period)));
        Rules {
            jobs: BTreeMap::from(jobs),
            blind: vec!["telegram:".to_owned()],
            max_concurrent: if self.steps_back { 1000 } else { 3 },
        }
    }

    /// What was shown: by Telegram and the webhook's receiver, and by the terminal.
    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for line in json_lines(&self.fakes.shown_log()) {
            let word = |key: &str| line[key].as_str().map(str::to_owned);
            let chat = word("chat").unwrap();
            lines.push(Line {
                chat: match &word("key") {
                    Some(_) => self.webhook_lane(),
                    None => format!("telegram:direct:{chat}"),
                },
                message_id: word("message_id").unwrap(),
                key: word("key"),
                text: word("text").unwrap(),
            });
        }
        for line in json_lines(&self.place.path("terminal.jsonl")) {
            let word = |key: &str| line[key].as_str().map(str::to_owned);
            lines.push(Line {
                chat: word("chat").unwrap(),
                message_id: word("message_id").unwrap(),
                key: word("key"),
                text: word("text").unwrap(),
            });
        }
        lines
    }

    /// The only lane of a webhook that there is.
    fn webhook_lane(&self) -> String {
        let options = SqliteConnectOptions::new().filename(self.database());
        runtime().block_on(async {
            let mut conn = options.connect().await.unwrap();
            let lane = "SELECT session_key FROM outbox WHERE session_key LIKE 'webhook:%' LIMIT 1";
            sqlx::query_scalar(lane).fetch_one(&mut conn).await.unwrap()
        })
    }

    /// What the model was asked for jobs, and which faults were met on the way.
    fn calls(&self, sometimes: &mut Sometimes) -> Vec<Call> {
        let mut calls = Vec::new();
        for request in json_lines(&self.fakes.requests_log()) {
            if !request["fault"].is_null() {
                sometimes.count(&sometimes::name(&request["fault"]));
            }
            let asked = request["json"]["messages"].as_array();
            let last = asked.and_then(|messages| messages.last());
            let words = last.and_then(|last| last["content"].as_str()).unwrap_or("");
            let job = words
                .split_once("job:")
                .and_then(|(_, rest)| rest.split(' ').next());
            calls.extend(job.filter(|job| *job != "none").map(|job| Call {
                job: Some(job.to_owned()),
                key: None,
                at: None,
            }));
        }
        calls
    }

    fn failed(&mut self, options: &Options, round: u64, what: Vec<String>) -> Failed {
        self.place.signal("CONT");
        self.place.kill();
        let evidence = options.out.join(format!("chaos-{}-{round}", options.seed));
        fs::create_dir_all(&evidence).unwrap();
        self.place.keep(&evidence);
        for log in [self.fakes.shown_log(), self.fakes.requests_log()] {
            let _ = fs::copy(&log, evidence.join(log.file_name().unwrap()));
        }
        fs::write(evidence.join("violations.txt"), what.join("\n")).unwrap();
        Failed {
            what,
            evidence: Some(evidence),
        }
    }
}

/// The whole lines of a file; what a crash left of the last one was never confirmed.
fn json_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    whole
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}
