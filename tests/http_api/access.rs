//! Who may ask.

use serde_json::{Value, json};

use crate::{
    client::{JOBS, Served},
    process::{Place, told},
};

const TOKEN: &str = "a-token-that-nobody-guesses";

fn served() -> (Place, Served) {
    let place = Place::new(JOBS).with_env("CHATCRON_TOKEN", TOKEN);
    let bearer = format!("Bearer {TOKEN}");
    let served = Served::with(&place, &[("authorization", &bearer)]);
    (place, served)
}

#[test]
fn an_address_of_other_machines_is_refused_without_a_token() {
    let place = Place::new(JOBS);
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = place.run(&["run", "--listen", address]);
        assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
        let words = told(&refused);
        assert!(words.contains("there is no token"), "{words}");
        assert!(words.contains("help: set CHATCRON_TOKEN"), "{words}");
    }
    assert!(!place.path("chatcron.db").exists(), "nothing was begun");
    let empty = Place::new(JOBS).with_env("CHATCRON_TOKEN", " ");
    for address in ["0.0.0.0:0", "127.0.0.1:0"] {
        let refused = empty.run(&["run", "--listen", address]);
        assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
    }
    let short = Place::new(JOBS).with_env("CHATCRON_TOKEN", "a");
    let refused = short.run(&["run", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
    assert!(
        told(&refused).contains("16 bytes or more"),
        "{}",
        told(&refused)
    );
    let own = short.start_with(&["run", "--listen", "127.0.0.1:0"]);
    own.until_logged("can guess it");
    assert_eq!(own.stop(), Some(0));
    let wrong = place.run(&["run", "--listen", "nowhere"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", told(&wrong));
}

#[test]
fn an_address_that_is_taken_is_told() {
    let place = Place::new(JOBS);
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let refused = place.run(&["run", "--listen", &address]);
    assert_eq!(refused.status.code(), Some(3), "{}", told(&refused));
    let words = told(&refused);
    assert!(
        words.contains(&format!("cannot listen on {address}")),
        "{words}"
    );
}

#[test]
fn a_token_opens_all_addresses_and_is_asked_for_on_every_path() {
    let place = Place::new(JOBS).with_env("CHATCRON_TOKEN", TOKEN);
    let worker = place.start_with(&["run", "--listen", "0.0.0.0:0"]);
    worker.until_logged("the HTTP API is there");
    assert_eq!(worker.stop(), Some(0));

    let (_place, served) = served();
    let document = served.get("/openapi.json").ok(200);
    let wrong: [&[(&str, &str)]; 4] = [
        &[],
        &[("authorization", "Bearer a-token-that-nobody-guesse")],
        &[("authorization", "Basic YTpi")],
        &[("x-token", TOKEN)],
    ];
    let mut asked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let is_open = ["/healthz", "/readyz"].contains(&path.as_str());
            let path = path.replace(['{', '}'], "");
            for headers in wrong {
                let answer =
                    crate::client::ask(served.address, &method.to_uppercase(), &path, headers, b"");
                if is_open {
                    assert_eq!(answer.status, 200, "{method} {path}: {answer:?}");
                } else {
                    answer.problem(401, "unauthorized");
                    let asks = answer.header("www-authenticate").unwrap();
                    assert!(asks.starts_with("Bearer"), "{asks}");
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 60, "{asked}");
    let unknown = crate::client::ask(served.address, "GET", "/nothing", &[], b"");
    unknown.problem(401, "unauthorized");
    assert_eq!(served.worker.stop(), Some(0));
}

#[test]
fn a_web_page_cannot_ask_without_a_token() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let trigger = "/v1/jobs/report/trigger";
    let json = ("content-type", "application/json");
    for headers in [
        &[json, ("host", "rebound.example")][..],
        &[json, ("origin", "https://evil.example")],
        &[json, ("origin", "null")],
        &[json, ("sec-fetch-site", "cross-site")],
    ] {
        let answer = served.ask("POST", trigger, headers, b"{}");
        answer.problem(403, "foreign-origin");
        let answer = served.ask("GET", "/v1/jobs", headers, b"");
        answer.problem(403, "foreign-origin");
    }
    // What a form or a script may send without asking first.
    for form in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        let answer = served.ask("POST", trigger, &[("content-type", form)], b"{}");
        let words = answer.problem(415, "not-json");
        assert!(words.contains(form), "{words}");
    }
    served
        .ask("POST", trigger, &[], b"")
        .problem(415, "not-json");
    let asked_first = served.ask("OPTIONS", trigger, &[], b"");
    assert_eq!(asked_first.status, 405, "{asked_first:?}");
    assert_eq!(asked_first.header("access-control-allow-origin"), None);
    let runs = served.get("/v1/runs").ok(200);
    assert_eq!(runs["runs"], json!([]), "nothing was triggered");
    let own = format!("http://{}", served.address);
    let answer = served.ask("POST", trigger, &[json, ("origin", &own)], b"{}");
    answer.ok(202);
}

#[test]
fn secrets_are_in_no_log_error_page_or_figure() {
    let jobs = format!(
        "{JOBS}\n[channels.telegram]\nkind = \"telegram\"\ntoken_env = \"BOT_TOKEN\"\n\
         api_root = \"http://127.0.0.1:9\"\n\n[chats.away]\nchannel = \"telegram\"\n\
         to = \"77\"\nagent = \"main\"\n\n[jobs.hook]\nat = \"2099-01-01T00:00\"\n\
         prompt = \"x\"\nalert = false\n\
         deliver = {{ webhook = \"http://127.0.0.1:9/\", secret_env = \"HOOK_SECRET\", \
         allow_private = true }}\n"
    );
    let secrets = [
        ("CHATCRON_TOKEN", TOKEN),
        ("BOT_TOKEN", "123456:telegram-bot-secret"),
        ("HOOK_SECRET", "whsec-of-the-hook"),
    ];
    let mut place = Place::new(&jobs);
    for (name, value) in secrets {
        place = place.with_env(name, value);
    }
    let place = place.with_env("RUST_LOG", "debug");
    let bearer = format!("Bearer {TOKEN}");
    let served = Served::with(&place, &[("authorization", &bearer)]);
    let mut seen = String::new();
    served.post("/v1/jobs/hook/trigger", &json!({})).ok(202);
    let away = json!({ "text": "hello", "wait_ms": 500 });
    seen.push_str(&served.post("/v1/chats/away/messages", &away).body);
    served.until("/v1/outbox", |open| {
        let parts = open["parts"].as_array().unwrap();
        parts.len() == 2 && parts.iter().all(|part| part["why"] != Value::Null)
    });
    let document = served.get("/openapi.json").ok(200);
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (name, value) in [
            ("job", "hook"),
            ("chat", "away"),
            ("run", "1"),
            ("part", "1"),
        ] {
            let path = path.replace(&format!("{{{name}}}"), value);
            let path = path.replace("{turn}", "1");
            if operations.get("get").is_some() && path != "/v1/events" {
                seen.push_str(&served.get(&path).body);
            }
        }
    }
    let wrong = [("authorization", "Bearer wrong")];
    seen.push_str(&crate::client::ask(served.address, "GET", "/v1/jobs", &wrong, b"").body);
    let broken = served.ask(
        "POST",
        "/v1/jobs",
        &[("content-type", "application/json")],
        b"{",
    );
    seen.push_str(&broken.body);
    assert!(
        seen.contains("chatcron_outbox_parts"),
        "the figures are in it"
    );
    seen.push_str(&served.worker.log());
    seen.push_str(&served.worker.out());
    for (name, value) in secrets {
        assert!(!seen.contains(value), "{name} is told");
    }
    assert_eq!(served.worker.stop(), Some(0));
}
