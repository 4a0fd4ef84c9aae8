//! The agents that ask a model, against real connections.

use std::time::Duration;

use chatcron::{
    agent::{
        Agent, AgentError, AgentTurn, EffectReporter, Toolbox, anthropic::Anthropic,
        gemini::Gemini, http::Http, openai::OpenAi, openai_responses::OpenAiResponses,
    },
    directory::{ChatDialect, HttpAgent, ModelEndpoint},
    ids::{AgentName, IdempotencyKey, JobId, RunId, SessionKey},
    message::Origin,
    replay,
    secret::SecretString,
    transcript::{Block, Content, Entry, NewEntry, Provenance, Role, TriggerSource, Visibility},
};
use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[path = "support/fakes.rs"]
mod fakes;

use fakes::Fakes;

const KEY: &str = "sk-s3cret";
const NOTE: &str = r#"<posted-by job="budget" name="Budget" at="2026-11-30T08:00:00+01:00"/>"#;

fn entry(role: Role, content: Content, provenance: Provenance) -> Entry {
    Entry {
        session_key: SessionKey::from_stored("console:direct:me"),
        generation: 0,
        seq: 0,
        role,
        content,
        framed: None,
        visibility: Visibility::Visible,
        provenance,
        created_at: Timestamp::UNIX_EPOCH,
        shown_at: None,
        channel_message_id: None,
    }
}

/// A question, a tool call of its turn, the answer, and then a job's result.
fn history() -> Vec<Entry> {
    let text = |words: &str| Content::Text(words.to_owned());
    let call = Block::ToolUse {
        id: "c1".to_owned(),
        name: "look_up".to_owned(),
        input: json!({"q": "rent"}),
    };
    let result = Block::ToolResult {
        tool_use_id: "c1".to_owned(),
        content: "900".to_owned(),
        is_error: false,
    };
    let posted = Provenance {
        origin: Some(Origin::JobResult),
        run_id: Some(RunId(1)),
        posting_note: Some(NOTE.to_owned()),
        ..Provenance::default()
    };
    let own = Provenance::default;
    vec![
        entry(Role::User, text("What is the rent?"), own()),
        entry(Role::Assistant, Content::Blocks(vec![call]), own()),
        entry(Role::Tool, Content::Blocks(vec![result]), own()),
        entry(Role::Assistant, text("900"), own()),
        entry(Role::Assistant, text("All is paid."), posted),
    ]
}

fn turn(words: &str) -> AgentTurn {
    AgentTurn {
        agent: AgentName::new("helper").expect("a name"),
        session_key: SessionKey::from_stored("console:direct:me"),
        trigger: TriggerSource::Cron,
        job: JobId::new("budget").ok(),
        key: IdempotencyKey::from_stored("KEY"),
        history: history(),
        prompt: vec![NewEntry::text(Role::User, words)],
        effects: EffectReporter::detached(),
        tools: Toolbox::default(),
    }
}

fn endpoint(base_url: String) -> ModelEndpoint {
    ModelEndpoint {
        model: "m1".to_owned(),
        base_url,
        api_key: None,
        max_tokens: None,
        temperature: Some(0.5),
    }
}

fn openai(base_url: String) -> OpenAi {
    OpenAi::new(
        endpoint(base_url),
        Some(SecretString::from(KEY)),
        Some("Be brief."),
    )
    .expect("an agent")
}

fn anthropic(base_url: String) -> Anthropic {
    Anthropic::new(
        endpoint(base_url),
        Some(SecretString::from(KEY)),
        Some("Be brief."),
    )
    .expect("an agent")
}

fn responses(base_url: String) -> OpenAiResponses {
    OpenAiResponses::new(
        endpoint(base_url),
        Some(SecretString::from(KEY)),
        Some("Be brief."),
    )
    .expect("an agent")
}

fn gemini(base_url: String) -> Gemini {
    Gemini::new(
        endpoint(base_url),
        Some(SecretString::from(KEY)),
        Some("Be brief."),
    )
    .expect("an agent")
}

fn own_server(url: String) -> Http {
    let settings = HttpAgent {
        url,
        token: None,
        has_effects: false,
    };
    let (token, system) = (SecretString::from(KEY), "Be brief.".to_owned());
    Http::new(&settings, Some(token), Some(system)).expect("an agent")
}

/// Every API at these roots: of OpenAI, Anthropic and Gemini, and of a server of one's own.
fn agents_at(root: impl Fn(&str) -> String) -> [(&'static str, Box<dyn Agent>); 5] {
    [
        ("openai", Box::new(openai(root("openai")))),
        ("openai", Box::new(responses(root("openai")))),
        ("anthropic", Box::new(anthropic(root("anthropic")))),
        ("gemini", Box::new(gemini(root("gemini")))),
        ("agent", Box::new(own_server(root("agent")))),
    ]
}

fn agents(fakes: &Fakes) -> [(&'static str, Box<dyn Agent>); 5] {
    agents_at(|service| format!("{}/v1/", fakes.root(service)))
}

#[tokio::test]
async fn a_model_is_given_the_whole_conversation_and_its_answer_is_the_reply() {
    let fakes = Fakes::start();
    let never = CancellationToken::new();
    for (service, agent) in agents(&fakes) {
        fakes.order(&json!({"reply": {"service": service, "text": "Stopped."}}));
        let reply = agent
            .reply(&turn("Stop this."), &never)
            .await
            .expect("an answer");
        assert_eq!(reply.text, "Stopped.", "{service}");
        let usage = reply.usage.expect("counts");
        assert_eq!((usage.input_tokens, usage.output_tokens), (10, 5));
        // Without orders the fake says back what it was asked.
        let echo = agent
            .reply(&turn("Stop this."), &never)
            .await
            .expect("an answer");
        assert_eq!(echo.text, "Stop this.");
    }

    let asked = &fakes.requests("openai")[0];
    assert_eq!(asked["headers"]["authorization"], format!("Bearer {KEY}"));
    let body = &asked["json"];
    assert_eq!(
        (&body["model"], &body["temperature"]),
        (&json!("m1"), &json!(0.5))
    );
    assert!(body.get("max_tokens").is_none() && body.get("tools").is_none());
    let system = replay::system_prompt(Some("Be brief."));
    assert_eq!(
        body["messages"][0],
        json!({"role": "system", "content": system})
    );
    let roles: Vec<&str> = body["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|message| message["role"].as_str())
        .collect();
    let expected = [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "user",
    ];
    assert_eq!(roles, expected);
    assert_eq!(body["messages"][5]["content"], NOTE);

    let asked = &fakes.requests("anthropic")[0];
    assert_eq!(asked["headers"]["x-api-key"], KEY);
    assert_eq!(asked["headers"]["anthropic-version"], "2023-06-01");
    let body = &asked["json"];
    assert_eq!(
        (&body["max_tokens"], &body["system"]),
        (&json!(4096), &json!(system))
    );
    assert_eq!(body["tools"][0]["name"], "look_up");
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    assert_eq!(body["messages"][2]["content"][0]["type"], "tool_result");
    assert_eq!(body["messages"][4]["content"][0]["text"], NOTE);
}

#[tokio::test]
async fn responses_and_generate_content_are_asked_in_their_own_form() {
    let fakes = Fakes::start();
    let never = CancellationToken::new();
    let root = |service: &str| format!("{}/v1/", fakes.root(service));
    let agents: [Box<dyn Agent>; 2] = [
        Box::new(responses(root("openai"))),
        Box::new(gemini(root("gemini"))),
    ];
    for agent in agents {
        let reply = agent.reply(&turn("Stop this."), &never).await;
        assert_eq!(reply.expect("an answer").text, "Stop this.");
    }
    let system = replay::system_prompt(Some("Be brief."));

    let asked = &fakes.requests("openai")[0];
    assert_eq!(asked["path"], "/v1/responses");
    assert_eq!(asked["headers"]["authorization"], format!("Bearer {KEY}"));
    let body = &asked["json"];
    assert_eq!(body["instructions"], system);
    assert_eq!(body["store"], false);
    assert_eq!(body["input"][1]["type"], "function_call");
    assert_eq!(body["input"][4]["content"][0]["text"], NOTE);

    let asked = &fakes.requests("gemini")[0];
    assert_eq!(asked["path"], "/v1/models/m1:generateContent");
    assert_eq!(asked["headers"]["x-goog-api-key"], KEY);
    let body = &asked["json"];
    assert_eq!(body["systemInstruction"]["parts"][0]["text"], system);
    assert_eq!(body["generationConfig"], json!({"temperature": 0.5}));
    let response = &body["contents"][2]["parts"][0]["functionResponse"];
    assert_eq!(response["name"], "look_up");
    assert_eq!(body["contents"][4]["parts"][0]["text"], NOTE);
}

#[tokio::test]
async fn what_goes_wrong_has_a_class_and_gives_nothing_away() {
    let fakes = Fakes::start();
    let never = CancellationToken::new();
    let status = |status: u16| json!({"kind": "status", "status": status});
    let no_choices = json!({"kind": "status", "status": 200, "body": {"object": "list"}});
    let quoting = json!({"kind": "status", "status": 400,
        "body": {"error": {"message": "PROMPT sk-s3cret", "type": "PROMPT sk-s3cret"}}});
    let table = [
        (status(429), "transient", "429 ("),
        (status(500), "transient", "500"),
        (status(503), "transient", "503"),
        (status(408), "transient", "408"),
        (status(401), "permanent", "401 ("),
        (status(404), "permanent", "404 ("),
        (status(302), "permanent", "302"),
        (quoting, "permanent", "400"),
        (json!({"kind": "reset"}), "transient", ""),
        (json!({"kind": "broken-json"}), "transient", "JSON"),
        (no_choices, "permanent", "no `"),
    ];
    for (service, agent) in agents(&fakes) {
        for (fault, class, part) in &table {
            let mut order = fault.clone();
            order["service"] = json!(service);
            fakes.order(&json!({"fault": order}));
            let error = agent
                .reply(&turn("PROMPT"), &never)
                .await
                .expect_err("the fault");
            let found = if matches!(error, AgentError::Transient { .. }) {
                "transient"
            } else {
                assert!(matches!(error, AgentError::Permanent { .. }), "{error:?}");
                "permanent"
            };
            assert_eq!(found, *class, "{service} {fault}: {error}");
            let text = error.to_string();
            assert!(text.contains(part), "{service} {fault}: {text}");
            assert!(
                !text.contains("PROMPT") && !text.contains("s3cret"),
                "{text}"
            );
        }
    }
    for (_, agent) in agents_at(|_| "http://127.0.0.1:1/v1".to_owned()) {
        let error = agent
            .reply(&turn("x"), &never)
            .await
            .expect_err("nobody there");
        assert!(matches!(error, AgentError::Transient { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_cancelled_turn_does_not_wait_for_the_model() {
    let fakes = Fakes::start();
    for (service, agent) in agents(&fakes) {
        fakes.order(&json!({"fault": {"service": service, "kind": "hang"}}));
        let cancel = CancellationToken::new();
        let stop = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            cancel.cancel();
        };
        let turn = turn("x");
        let (answer, ()) = tokio::join!(agent.reply(&turn, &cancel), stop);
        assert_eq!(answer, Err(AgentError::Cancelled), "{service}");
    }
}

#[tokio::test]
async fn a_server_of_strict_roles_gets_strict_roles() {
    let fakes = Fakes::start();
    let agent = openai(format!("{}/v1", fakes.root("openai"))).with_dialect(ChatDialect::Strict);
    let mut turn = turn("And now?");
    turn.history.push(entry(
        Role::User,
        Content::Text("unanswered".to_owned()),
        Provenance::default(),
    ));
    let answer = agent.reply(&turn, &CancellationToken::new()).await;
    answer.expect("an answer");
    let messages = &fakes.requests("openai")[0]["json"]["messages"];
    let last = messages.as_array().and_then(|all| all.last());
    assert_eq!(
        last,
        Some(&json!({"role": "user", "content": "unanswered\n\nAnd now?"}))
    );
    assert!(!format!("{agent:?}").contains("s3cret"));
}
