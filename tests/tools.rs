//! Tools of built-in agents: a real worker and store, and models that are asked over HTTP.
#![cfg(all(feature = "sqlite", feature = "http-client"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/fakes.rs"]
mod fakes;
#[path = "support/validators.rs"]
mod validators;
#[path = "support/world.rs"]
mod world;

use chatcron::{
    agent::{
        anthropic::Anthropic, gemini::Gemini, openai::OpenAi, openai_responses::OpenAiResponses,
    },
    directory::ModelEndpoint,
    ids::JobId,
    replay::Family,
    store::{JobSource, StoredJob, WindowOf},
    transcript::{Block, Content, Visibility},
    worker::Worker,
};
use fakes::Fakes;
use serde_json::{Value, json};
use world::{Does, TestChannel, World};

/// A chat with a job that posts there, and a job that posts elsewhere.
fn jobs(kind: &str, tools: &str) -> String {
    format!(
        r#"
timezone = "Europe/Berlin"

[jobs.budget]
name    = "Budget"
daily   = "08:00"
prompt  = "Summarise yesterday's spending."
deliver = "me"

[jobs.secret]
daily   = "09:00"
prompt  = "Look after the others."
deliver = "others"

[chats.me]
channel = "phone"
agent   = "main"

[chats.others]
channel = "phone"
agent   = "main"

[channels.phone]
kind = "console"

[agents.main]
kind     = "{kind}"
model    = "m1"
base_url = "http://127.0.0.1:1/v1"
{tools}
"#
    )
}

const BEFORE: &str = "2026-11-30T06:59:00Z";
const EIGHT: &str = "2026-11-30T07:00:00Z";

struct Scene {
    fakes: Fakes,
    world: World,
    channel: TestChannel,
    kind: String,
    service: &'static str,
}

impl Scene {
    async fn of(kind: &str, tools: &str) -> Self {
        let fakes = Fakes::start();
        let service = if kind == "openai-responses" {
            "openai"
        } else {
            kind
        };
        let service = ["openai", "anthropic", "gemini"]
            .into_iter()
            .find(|known| *known == service)
            .unwrap();
        let endpoint = ModelEndpoint {
            model: "m1".to_owned(),
            base_url: format!("{}/v1", fakes.root(service)),
            api_key: None,
            max_tokens: None,
            temperature: None,
        };
        let channel = TestChannel::keyed();
        let world = World::new(&jobs(kind, tools), BEFORE).await;
        let world = match kind {
            "openai" => world.with_agent("main", OpenAi::new(endpoint, None, None).unwrap()),
            "openai-responses" => {
                world.with_agent("main", OpenAiResponses::new(endpoint, None, None).unwrap())
            }
            "anthropic" => world.with_agent("main", Anthropic::new(endpoint, None, None).unwrap()),
            _ => world.with_agent("main", Gemini::new(endpoint, None, None).unwrap()),
        };
        Self {
            world: world.with_channel("phone", channel.clone()),
            fakes,
            channel,
            kind: kind.to_owned(),
            service,
        }
    }

    fn family(&self) -> Family {
        let named = |family: &Family| family.as_str() == self.kind;
        Family::ALL.into_iter().find(named).unwrap()
    }

    async fn openai(tools: &str) -> Self {
        Self::of("openai", tools).await
    }

    /// What the model says next.
    fn says(&self, text: &str) {
        let service = self.service;
        self.fakes
            .order(&json!({"reply": {"service": service, "text": text}}));
    }

    /// What the model calls next.
    fn calls(&self, name: &str, arguments: Value) {
        self.calls_all(&[json!({"name": name, "arguments": arguments})]);
    }

    fn calls_all(&self, calls: &[Value]) {
        let service = self.service;
        self.fakes
            .order(&json!({"reply": {"service": service, "calls": calls}}));
    }

    async fn say(&self, worker: &mut Worker, text: &str) {
        self.world.say("me", text).await;
        worker.until_quiet().await.unwrap();
    }

    async fn job(&self, id: &str) -> Option<StoredJob> {
        let found = self.world.store.jobs(&[JobId::new(id).unwrap()]).await;
        let mut found = found.unwrap().into_iter();
        found.find(|stored| stored.removed_at.is_none())
    }

    async fn pause_of(&self, id: &str) -> Option<String> {
        self.job(id)
            .await
            .unwrap()
            .state
            .pause
            .map(|pause| pause.reason)
    }

    /// The results of all calls in a chat, in order, each with whether it is an error.
    async fn results(&self, chat: &str) -> Vec<(String, bool)> {
        results(&self.world.entries(chat, WindowOf::All).await)
    }

    async fn last_result(&self) -> (String, bool) {
        self.results("me").await.pop().unwrap()
    }
}

fn results(entries: &[chatcron::transcript::Entry]) -> Vec<(String, bool)> {
    let mut results = Vec::new();
    for entry in entries {
        let Content::Blocks(blocks) = &entry.content else {
            continue;
        };
        for block in blocks {
            if let Block::ToolResult {
                content, is_error, ..
            } = block
            {
                results.push((content.clone(), *is_error));
            }
        }
    }
    results
}

/// The names of the tools that a request declares, whatever its family.
fn declared(request: &Value) -> Vec<&str> {
    let tools = &request["json"]["tools"];
    let list = match tools.pointer("/0/functionDeclarations") {
        Some(declarations) => declarations,
        None => tools,
    };
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|tool| {
            let named = tool.get("name").or_else(|| tool.pointer("/function/name"));
            named.and_then(Value::as_str)
        })
        .collect()
}

#[tokio::test]
async fn stop_this_pauses_the_job_that_the_note_names() {
    for kind in ["openai", "openai-responses", "anthropic", "gemini"] {
        let scene = Scene::of(kind, "").await;
        let mut worker = scene.world.start().await;
        scene.says("Yesterday: 41.20 EUR on groceries.");
        scene.world.run_at(&mut worker, EIGHT).await;
        assert_eq!(scene.pause_of("budget").await, None);

        scene.calls("pause_job", json!({"job": "$posted-by"}));
        scene.says("It is stopped.");
        scene.say(&mut worker, "stop this").await;

        let pause = scene.pause_of("budget").await;
        assert_eq!(pause.as_deref(), Some("paused by agent main"), "{kind}");
        assert_eq!(scene.pause_of("secret").await, None, "{kind}");
        assert_eq!(
            scene.world.transcript("me").await,
            [
                "Yesterday: 41.20 EUR on groceries.",
                "stop this",
                "It is stopped."
            ],
            "{kind}"
        );
        scene.world.assert_verified(&scene.channel, &["me"]).await;

        let requests = scene.fakes.requests(scene.service);
        let [_, asked, with_result] = &requests[..] else {
            panic!("{kind}: {} requests", requests.len());
        };
        let standard = ["list_jobs", "pause_job", "resume_job"];
        assert_eq!(declared(asked), standard, "{kind}");
        assert_eq!(
            with_result["json"]["tools"], asked["json"]["tools"],
            "{kind}"
        );
        assert!(
            with_result["json"]
                .to_string()
                .contains("job `budget` is paused")
        );

        for request in &requests {
            let checked = validators::check(scene.family(), &request["json"]);
            assert_eq!(checked, Ok(()), "{kind}: {:#}", request["json"]);
        }

        // The next turn sees what was done, and the beginning of its request is as it was.
        scene.says("Yes.");
        scene.say(&mut worker, "is it?").await;
        let next = scene.fakes.requests(scene.service).pop().unwrap();
        let list = ["messages", "input", "contents"]
            .into_iter()
            .find(|list| next["json"][list].is_array())
            .unwrap();
        let (earlier, later) = (&with_result["json"][list], &next["json"][list]);
        let earlier = earlier.as_array().unwrap();
        assert_eq!(
            earlier[..],
            later.as_array().unwrap()[..earlier.len()],
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_job_that_posts_elsewhere_is_out_of_reach_unless_every_job_is_in_it() {
    let scene = Scene::openai("").await;
    let mut worker = scene.world.start().await;
    scene.calls("pause_job", json!({"job": "secret"}));
    scene.says("I cannot.");
    scene.say(&mut worker, "stop the other one").await;
    assert_eq!(scene.pause_of("secret").await, None);
    let (words, is_error) = scene.last_result().await;
    assert!(is_error);
    assert_eq!(
        words,
        "no job `secret` can be reached from here; the jobs are `budget`"
    );
    scene.calls("list_jobs", json!({}));
    scene.says("One.");
    scene.say(&mut worker, "which are there?").await;
    let (words, _) = scene.last_result().await;
    assert!(
        words.contains(r#""id":"budget""#) && !words.contains("secret"),
        "{words}"
    );
    assert!(words.contains("Mon 2026-11-30 08:00 +01:00"), "{words}");

    let scene = Scene::openai(r#"tools = ["pause_job", "resume_job", "any_job"]"#).await;
    let mut worker = scene.world.start().await;
    scene.calls("pause_job", json!({"job": "secret", "reason": "asked for"}));
    scene.says("Done.");
    scene.say(&mut worker, "stop the other one").await;
    let pause = scene.pause_of("secret").await;
    assert_eq!(pause.as_deref(), Some("paused by agent main: asked for"));
    scene.calls("resume_job", json!({"job": "secret"}));
    scene.says("Done.");
    scene.say(&mut worker, "go on").await;
    assert_eq!(scene.pause_of("secret").await, None);
}

#[tokio::test]
async fn whatever_a_model_calls_the_turn_goes_on_and_it_is_told_what_is_accepted() {
    let scene = Scene::openai(r#"tools = ["pause_job", "create_job"]"#).await;
    let mut worker = scene.world.start().await;
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let create = |fields: Value| {
        let mut arguments = json!({"id": "new", "prompt": "Look."});
        for (key, value) in fields.as_object().unwrap() {
            arguments[key] = value.clone();
        }
        call("create_job", arguments)
    };
    let table = [
        (call("rm", json!({})), "there are `pause_job`, `create_job`"),
        (
            call("pause_job", json!("{broken")),
            "not JSON; pause_job takes `job`",
        ),
        (call("pause_job", json!({})), "`job` is missing"),
        (call("pause_job", json!({"job": 7})), "`job` is not a text"),
        (
            call("pause_job", json!({"job": "a/../b"})),
            "the jobs are `budget`",
        ),
        (
            call("delete_job", json!({"job": "budget"})),
            "there is no such tool",
        ),
        (create(json!({})), "`daily`, `cron`, `every`"),
        (create(json!({"daily": "25:00"})), "such as `\"08:00\"`"),
        (create(json!({"daily": "08:00", "every": "2h"})), "daily"),
        (create(json!({"cron": "every day"})), "0 8 * * mon-fri"),
        (create(json!({"at": "2020-01-01T08:00"})), "never run"),
        (
            create(json!({"every": "2h", "mode": "everywhere"})),
            "`background` or `in-chat`",
        ),
        (
            create(json!({"every": "2h", "timezone": "Mars/Base"})),
            "zone",
        ),
        (create(json!({"every": "2h", "id": "a b"})), "not a name"),
        (
            create(json!({"every": "2h", "id": "budget"})),
            "give the new one another id",
        ),
    ];
    for (call, accepted) in table {
        scene.calls_all(std::slice::from_ref(&call));
        scene.says("It did not work.");
        scene.say(&mut worker, "do it").await;
        let (words, is_error) = scene.last_result().await;
        assert!(is_error && words.contains(accepted), "{call}: {words}");
    }
    assert_eq!(scene.world.store.all_jobs().await.unwrap().len(), 2);
    scene.world.assert_verified(&scene.channel, &["me"]).await;
}

#[tokio::test]
async fn a_job_that_a_person_asks_for_runs_and_can_be_deleted() {
    let scene = Scene::openai(r#"tools = ["create_job", "delete_job"]"#).await;
    let mut worker = scene.world.start().await;
    let new = json!({"id": "tea", "name": "Tea \"time\"\n", "prompt": "Say: \u{7f}\"tea\".",
        "at": "2026-11-30T08:30", "daily": null});
    scene.calls("create_job", new);
    scene.says("I will.");
    scene.say(&mut worker, "remind me of the tea").await;
    assert_eq!(
        scene.last_result().await.0,
        "job `tea` is created; it runs next at Mon 2026-11-30 08:30 +01:00"
    );
    let job = scene.job("tea").await.unwrap();
    assert_eq!(job.source, JobSource::Runtime("agent main".to_owned()));
    assert_eq!(job.job.prompt, "Say: \u{7f}\"tea\".");
    scene.says("The budget.");
    scene.world.run_at(&mut worker, EIGHT).await;
    scene.says("Tea!");
    scene
        .world
        .run_at(&mut worker, "2026-11-30T07:30:00Z")
        .await;
    let shown = scene.world.transcript("me").await;
    assert_eq!(shown.last().unwrap(), "Tea!");
    // A jobs file that is applied again leaves it alone.
    assert!(scene.world.apply().await.removed.is_empty());

    scene.calls_all(&[
        json!({"name": "delete_job", "arguments": {"job": "tea"}}),
        json!({"name": "delete_job", "arguments": {"job": "budget"}}),
    ]);
    scene.says("Deleted.");
    scene.say(&mut worker, "delete both").await;
    assert!(scene.job("tea").await.is_none());
    assert!(scene.job("budget").await.is_some());
    let (words, is_error) = scene.last_result().await;
    assert!(
        is_error && words.contains("defined in jobs.toml"),
        "{words}"
    );
    scene.world.assert_verified(&scene.channel, &["me"]).await;
}

#[tokio::test]
async fn a_background_run_creates_no_job_unless_it_may() {
    for (tools, may) in [
        (r#"tools = ["pause_job", "create_job"]"#, false),
        (r#"tools = ["create_job", "create_in_background"]"#, true),
    ] {
        let scene = Scene::openai(tools).await;
        let mut worker = scene.world.start().await;
        let new = json!({"id": "more", "prompt": "Look.", "every": "2h"});
        scene.calls("create_job", new);
        scene.says("The budget.");
        scene.world.run_at(&mut worker, EIGHT).await;
        let request = scene.fakes.requests("openai").remove(0);
        assert_eq!(declared(&request).contains(&"create_job"), may);
        assert_eq!(scene.job("more").await.is_some(), may);
        assert_eq!(scene.world.transcript("me").await, ["The budget."]);
        assert_eq!(scene.results("me").await, [], "a run is in no chat");
    }
}

#[tokio::test]
async fn a_job_can_have_itself_looked_after_sooner_and_rest_at_last() {
    let tools = r#"tools = ["next_check", "delete_job", "pause_job"]"#;
    let scene = Scene::openai(tools).await;
    let mut worker = scene.world.start().await;
    scene.calls_all(&[
        json!({"name": "next_check", "arguments": {"in": "5 minutes"}}),
        json!({"name": "next_check", "arguments": {"in": "30m"}}),
    ]);
    scene.says("Not there yet.");
    scene.world.run_at(&mut worker, EIGHT).await;
    let check = scene.job("budget-next").await.unwrap();
    assert_eq!(check.source, JobSource::Runtime("job budget".to_owned()));

    // The check asks for another one, of itself; that one ends it.
    scene.calls("next_check", json!({"in": "10m"}));
    scene.says("Still not.");
    scene
        .world
        .run_at(&mut worker, "2026-11-30T07:30:00Z")
        .await;
    scene.calls_all(&[
        json!({"name": "delete_job", "arguments": {"job": "budget-next"}}),
        json!({"name": "pause_job", "arguments": {"job": "budget-next"}}),
    ]);
    scene.says("There.");
    scene
        .world
        .run_at(&mut worker, "2026-11-30T07:40:00Z")
        .await;
    assert_eq!(
        scene.world.transcript("me").await,
        ["Not there yet.", "Still not.", "There."]
    );
    assert!(scene.pause_of("budget-next").await.is_some());
    let runs = scene.world.runs().await;
    let states: Vec<_> = runs.iter().map(|run| run.state.as_str()).collect();
    assert_eq!(states, ["done", "done", "done"]);
    let offered = scene.fakes.requests("openai").remove(0);
    assert_eq!(
        declared(&offered),
        ["pause_job", "delete_job", "next_check"]
    );
    scene.world.assert_verified(&scene.channel, &["me"]).await;
}

#[tokio::test]
async fn a_model_that_only_calls_tools_is_stopped_and_its_calls_are_kept() {
    let scene = Scene::openai("").await;
    let mut worker = scene.world.start().await;
    for _ in 0..9 {
        scene.calls("list_jobs", json!({}));
    }
    let turn = scene.world.say("me", "go").await;
    worker.until_quiet().await.unwrap();
    let stored = scene.world.store.turn(turn).await.unwrap().unwrap();
    assert_eq!(stored.state, "failed");
    let why = stored.error.unwrap();
    assert!(why.contains("called tools 8 times"), "{why}");
    let requests = scene.fakes.requests("openai");
    assert_eq!(requests.len(), 9);
    assert_eq!(requests[8]["json"]["tool_choice"], "none");
    assert_eq!(requests[8]["json"]["tools"], requests[0]["json"]["tools"]);
    assert_eq!(scene.results("me").await.len(), 8);
    let entries = scene.world.entries("me", WindowOf::All).await;
    let kept = entries
        .iter()
        .filter(|entry| entry.visibility == Visibility::Internal);
    assert_eq!(
        kept.count(),
        16,
        "a turn without an answer is in nobody's recall"
    );
}

#[tokio::test]
async fn a_model_that_has_done_something_may_say_nothing() {
    let scene = Scene::openai("").await;
    let mut worker = scene.world.start().await;
    scene.calls("pause_job", json!({"job": "budget"}));
    scene.says(" ");
    scene.say(&mut worker, "stop the budget, quietly").await;
    assert!(scene.pause_of("budget").await.is_some());
    assert_eq!(
        scene.world.transcript("me").await,
        ["stop the budget, quietly"]
    );
    assert_eq!(scene.channel.lines(&scene.world.session("me")).len(), 0);
}

#[tokio::test]
async fn no_tool_is_offered_where_the_file_says_so() {
    let scene = Scene::openai("tools = []").await;
    let mut worker = scene.world.start().await;
    scene.says("Hello.");
    scene.say(&mut worker, "hello").await;
    let request = scene.fakes.requests("openai").remove(0);
    assert!(request["json"].get("tools").is_none());
    assert!(request["json"].get("tool_choice").is_none());
}

/// Everything that a job's tools and its answer send, with the states of the parts.
async fn sent_by_a_run(
    answer: &str,
    does: Option<Does>,
) -> (Vec<&'static str>, Vec<String>, String) {
    let scene = Scene::openai(r#"tools = ["send_message"]"#).await;
    let mut worker = scene.world.start().await;
    if let Some(does) = does {
        scene.channel.will([does]);
    }
    scene.calls("send_message", json!({"chat": "me", "text": "The budget."}));
    scene.says(answer);
    scene.world.run_at(&mut worker, EIGHT).await;
    scene
        .world
        .assert_verified(&scene.channel, &["me", "others"])
        .await;
    let run = scene.world.runs().await.remove(0);
    (
        scene.world.parts().await,
        scene.world.transcript("me").await,
        run.state,
    )
}

#[tokio::test]
async fn the_words_that_a_tool_has_sent_are_not_announced_again_unless_they_failed() {
    let once = vec!["The budget.".to_owned()];
    let shown = sent_by_a_run("The budget.\n", None).await;
    assert_eq!(
        shown,
        (
            vec!["confirmed", "cancelled"],
            once.clone(),
            "done".to_owned()
        )
    );
    let failed = sent_by_a_run("The budget.\n", Some(Does::Permanent)).await;
    assert_eq!(
        failed,
        (vec!["failed", "confirmed"], once, "done".to_owned())
    );
    let two = sent_by_a_run("All told.", None).await;
    let both = vec!["The budget.".to_owned(), "All told.".to_owned()];
    assert_eq!(
        two,
        (vec!["confirmed", "confirmed"], both, "done".to_owned())
    );
}

#[tokio::test]
async fn a_send_into_the_turns_own_chat_comes_before_its_answer_and_after_its_calls() {
    let scene = Scene::openai(r#"tools = ["send_message"]"#).await;
    let mut worker = scene.world.start().await;
    scene.calls_all(&[
        json!({"name": "send_message", "arguments": {"chat": "me", "text": "First."}}),
        json!({"name": "send_message", "arguments": {"chat": "others", "text": "To others."}}),
        json!({"name": "send_message", "arguments": {"chat": "nobody", "text": "x"}}),
    ]);
    scene.says("Second.");
    scene.say(&mut worker, "say it").await;
    assert_eq!(
        scene.world.transcript("me").await,
        ["say it", "First.", "Second."]
    );
    assert_eq!(scene.world.transcript("others").await, ["To others."]);
    let (words, is_error) = scene.last_result().await;
    assert!(is_error && words.contains("`me`, `others`"), "{words}");
    let roles: Vec<_> = scene.world.entries("me", WindowOf::All).await;
    let roles: Vec<_> = roles.iter().map(|entry| entry.role.as_str()).collect();
    assert_eq!(
        roles,
        ["user", "assistant", "tool", "assistant", "assistant"]
    );

    // The same words as the answer's are shown once.
    scene.calls("send_message", json!({"chat": "me", "text": "Done."}));
    scene.says("Done.");
    scene.say(&mut worker, "and?").await;
    assert_eq!(
        scene.world.transcript("me").await,
        ["say it", "First.", "Second.", "and?", "Done."]
    );
    let request = scene.fakes.requests("openai").pop().unwrap();
    assert_eq!(validators::check(scene.family(), &request["json"]), Ok(()));
    scene
        .world
        .assert_verified(&scene.channel, &["me", "others"])
        .await;
}
