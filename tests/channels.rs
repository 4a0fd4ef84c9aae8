//! The HTTP channels against real connections: every way a send can end has its class.

use std::time::Duration;

use chatcron::{
    channel::{
        Ability, Channel, OutgoingBody, OutgoingPart,
        telegram::Telegram,
        webhook::{Webhook, WebhookSettings},
    },
    directory::ReceiptProof,
    ids::{ChannelName, ChatKind, ChatName, IdempotencyKey},
    job::WebhookTarget,
    message::{ChatAddress, Destination, SendAnswer, StopsAddress},
    secret::SecretString,
};
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::Sha256;

#[path = "support/fakes.rs"]
mod fakes;

use fakes::{Fakes, TOKEN};

fn now() -> Timestamp {
    Timestamp::from_second(1_796_000_000).expect("an instant")
}

fn chat(address: &str, thread: Option<&str>) -> Destination {
    Destination::Chat(ChatAddress {
        chat: ChatName::new("me").expect("a name"),
        channel: ChannelName::new("telegram").expect("a name"),
        account: None,
        kind: ChatKind::Direct,
        address: address.to_owned(),
        thread: thread.map(str::to_owned),
    })
}

fn part(destination: Destination, key: &str, text: &str) -> OutgoingPart {
    OutgoingPart {
        destination,
        key: IdempotencyKey::from_stored(key),
        body: OutgoingBody::Text(text.to_owned()),
        part: 1,
        parts: 1,
        enqueued_at: Timestamp::UNIX_EPOCH,
        speaker: "budget".to_owned(),
    }
}

fn telegram(root: &str, token: &str) -> Telegram {
    Telegram::new(SecretString::from(token), root)
        .expect("a bot")
        .with_timeout(Duration::from_millis(500))
}

fn class(answer: &SendAnswer) -> String {
    match answer {
        SendAnswer::Receipt(receipt) => format!("receipt {}", receipt.message_id),
        SendAnswer::Refused { retry_after, .. } => match retry_after {
            Some(wait) => format!("refused {}", wait.as_secs()),
            None => "refused".to_owned(),
        },
        SendAnswer::Permanent { stops_address, .. } => match stops_address {
            StopsAddress::Yes => "permanent, stops".to_owned(),
            StopsAddress::No => "permanent".to_owned(),
        },
        SendAnswer::Moved { to } => format!("moved {to}"),
        SendAnswer::Ambiguous { .. } => "ambiguous".to_owned(),
    }
}

/// What is said about a failure.
fn why(answer: &SendAnswer) -> &str {
    match answer {
        SendAnswer::Refused { why, .. }
        | SendAnswer::Permanent { why, .. }
        | SendAnswer::Ambiguous { why } => why,
        SendAnswer::Receipt(_) | SendAnswer::Moved { .. } => "",
    }
}

#[tokio::test]
async fn telegram_shows_a_message_where_it_was_addressed() {
    let fakes = Fakes::start();
    let bot = telegram(&fakes.root("telegram"), TOKEN);
    assert_eq!(bot.ability(), Ability::Blind);
    let first = bot
        .send(&part(chat("5550001", None), "A", "Hello <b>*_"), now())
        .await;
    let SendAnswer::Receipt(receipt) = &first else {
        panic!("{first:?}");
    };
    assert_eq!(receipt.message_id, "1");
    assert!(receipt.shown_at.is_some());
    let second = bot
        .send(&part(chat("-1001", Some("7")), "B", "there"), now())
        .await;
    assert_eq!(class(&second), "receipt 2");
    let shown = [("5550001", "Hello <b>*_"), ("-1001", "there")];
    let shown = shown.map(|(chat, text)| (chat.to_owned(), text.to_owned()));
    assert_eq!(fakes.shown(), shown);
    let requests = fakes.requests("telegram");
    assert_eq!(
        requests[0]["json"],
        json!({"chat_id": 5_550_001, "text": "Hello <b>*_"})
    );
    assert_eq!(
        requests[1]["json"],
        json!({"chat_id": -1001, "message_thread_id": 7, "text": "there"})
    );
}

#[tokio::test]
async fn every_end_of_a_telegram_send_has_its_class() {
    let fakes = Fakes::start();
    let bot = telegram(&fakes.root("telegram"), TOKEN);
    let table = [
        (json!({"kind": "hang", "show": true}), "ambiguous"),
        (json!({"kind": "hang"}), "ambiguous"),
        (json!({"kind": "reset", "show": true}), "ambiguous"),
        (
            json!({"kind": "status", "status": 500, "show": true}),
            "ambiguous",
        ),
        (json!({"kind": "status", "status": 408}), "ambiguous"),
        (json!({"kind": "broken-json", "show": true}), "ambiguous"),
        (
            json!({"kind": "status", "status": 200, "body": {"ok": true, "result": {}}}),
            "ambiguous",
        ),
        (
            json!({"kind": "status", "status": 429, "retry_after": 3}),
            "refused 3",
        ),
        (json!({"kind": "status", "status": 400}), "permanent"),
        (json!({"kind": "status", "status": 401}), "permanent"),
        (json!({"kind": "status", "status": 404}), "permanent"),
        (json!({"kind": "status", "status": 302}), "permanent"),
        (json!({"kind": "status", "status": 403}), "permanent, stops"),
        (json!({"kind": "migrate", "to": -100_200}), "moved -100200"),
    ];
    let mut shown = 0;
    for (fault, expected) in table {
        let mut order = fault.clone();
        order["service"] = json!("telegram");
        fakes.order(&json!({"fault": order}));
        let answer = bot.send(&part(chat("1", None), "K", "x"), now()).await;
        assert_eq!(class(&answer), expected, "{fault}: {answer:?}");
        assert!(!why(&answer).contains("fake-token"), "{answer:?}");
        shown += usize::from(fault["show"] == true);
    }
    assert_eq!(fakes.shown().len(), shown);
    // The service itself refuses what no channel could show.
    let long = "x".repeat(4097);
    for text in [" ", long.as_str()] {
        let answer = bot.send(&part(chat("1", None), "K", text), now()).await;
        assert_eq!(class(&answer), "permanent");
    }
    let slow = json!({"fault": {"service": "telegram", "kind": "slow", "ms": 100}});
    fakes.order(&slow);
    let answer = bot.send(&part(chat("1", None), "K", "late"), now()).await;
    assert!(class(&answer).starts_with("receipt"), "{answer:?}");
}

#[tokio::test]
async fn a_wrong_token_and_a_dead_server_leave_no_trace_of_the_token() {
    let fakes = Fakes::start();
    let stranger = telegram(&fakes.root("telegram"), "99:s3cret");
    let answer = stranger.send(&part(chat("1", None), "K", "x"), now()).await;
    assert_eq!(class(&answer), "permanent");
    assert!(why(&answer).contains("Unauthorized"));

    // A server that quotes what it was asked for.
    let quoting = json!({"ok": false, "error_code": 400, "description": "no /bot99:s3cret/x here"});
    let fault = json!({"service": "telegram", "kind": "status", "status": 400, "body": quoting});
    fakes.order(&json!({"fault": fault}));
    let quoted = stranger.send(&part(chat("1", None), "K", "x"), now()).await;
    assert!(why(&quoted).contains("no /bot[token]/x here"), "{quoted:?}");

    let dead = telegram("http://127.0.0.1:1", "99:s3cret");
    let refused = dead.send(&part(chat("1", None), "K", "x"), now()).await;
    let nowhere = telegram("http://no-such-host.invalid", "99:s3cret");
    let unknown = nowhere.send(&part(chat("1", None), "K", "x"), now()).await;
    let tls = telegram(
        &fakes.root("telegram").replace("http:", "https:"),
        "99:s3cret",
    );
    let handshake = tls.send(&part(chat("1", None), "K", "x"), now()).await;
    for answer in [refused, unknown, handshake] {
        assert_eq!(class(&answer), "refused", "{answer:?}");
        assert!(!format!("{answer:?}").contains("s3cret"), "{answer:?}");
    }
    assert_eq!(fakes.shown(), []);
}

fn to_url(url: String, secret_env: Option<&str>) -> Destination {
    Destination::Webhook(WebhookTarget {
        url,
        secret_env: secret_env.map(str::to_owned),
        allow_private: true,
    })
}

fn webhook() -> Webhook {
    Webhook::for_jobs()
        .expect("a client")
        .with_timeout(Duration::from_millis(500))
}

#[tokio::test]
async fn a_webhook_is_signed_and_the_same_on_every_attempt() {
    let fakes = Fakes::start();
    let url = format!("{}/hook?x=1", fakes.root("webhook"));
    let part = part(to_url(url, Some("PATH")), "KEY", "Hello");
    let lost = json!({"service": "webhook", "kind": "reset", "show": true});
    fakes.order(&json!({"fault": lost}));
    let later = now() + Duration::from_secs(60);
    let first = webhook().send(&part, now()).await;
    let second = webhook().send(&part, later).await;
    assert_eq!(class(&first), "ambiguous");
    assert_eq!(class(&second), "receipt KEY");
    assert_eq!(fakes.shown(), [("/hook".to_owned(), "Hello".to_owned())]);

    let requests = fakes.requests("webhook");
    assert_eq!(requests[0]["body"], requests[1]["body"]);
    assert_eq!(
        requests[0]["body"],
        "{\"type\":\"chatcron.message\",\"id\":\"KEY\",\"timestamp\":\"1970-01-01T00:00:00Z\",\
         \"data\":{\"speaker\":\"budget\",\"text\":\"Hello\",\"part\":1,\"parts\":1}}"
    );
    for (request, at) in requests.iter().zip([now(), later]) {
        let headers = &request["headers"];
        assert_eq!(headers["webhook-id"], "KEY");
        assert_eq!(headers["webhook-timestamp"], at.as_second().to_string());
        let secret = std::env::var("PATH").expect("PATH is set");
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.trim().as_bytes()).expect("a key");
        let body = request["body"].as_str().unwrap_or("");
        mac.update(format!("KEY.{}.{body}", at.as_second()).as_bytes());
        let signature = format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()));
        assert_eq!(headers["webhook-signature"], Value::String(signature));
    }
}

#[tokio::test]
async fn every_end_of_a_webhook_has_its_class() {
    let fakes = Fakes::start();
    let part = part(to_url(fakes.root("webhook"), None), "KEY", "x");
    let status = |status: u16| json!({"kind": "status", "status": status});
    let table = [
        (status(200), "receipt KEY"),
        (status(204), "receipt KEY"),
        (status(409), "receipt KEY"),
        (
            json!({"kind": "status", "status": 429, "retry_after": 9}),
            "refused 9",
        ),
        (status(503), "ambiguous"),
        (status(500), "ambiguous"),
        (status(408), "ambiguous"),
        (json!({"kind": "hang"}), "ambiguous"),
        (json!({"kind": "reset"}), "ambiguous"),
        (status(301), "permanent"),
        (status(400), "permanent"),
        (status(404), "permanent"),
        (status(403), "permanent, stops"),
        (status(410), "permanent, stops"),
    ];
    for (fault, expected) in table {
        let mut order = fault.clone();
        order["service"] = json!("webhook");
        fakes.order(&json!({"fault": order}));
        let answer = webhook().send(&part, now()).await;
        assert_eq!(class(&answer), expected, "{fault}: {answer:?}");
    }
    let unset = Destination::Webhook(WebhookTarget {
        url: fakes.root("webhook"),
        secret_env: Some("CHATCRON_NO_SUCH_SECRET".to_owned()),
        allow_private: true,
    });
    let answer = webhook().send(&self::part(unset, "K", "x"), now()).await;
    assert_eq!(class(&answer), "refused");
    assert!(why(&answer).contains("CHATCRON_NO_SUCH_SECRET"));
    assert_eq!(fakes.shown(), []);
}

#[tokio::test]
async fn a_private_address_is_never_connected_to_unless_allowed() {
    let fakes = Fakes::start();
    let port = fakes.port("webhook");
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0",
    ] {
        let target = WebhookTarget {
            url: format!("http://{host}:{port}/"),
            secret_env: None,
            allow_private: false,
        };
        let part = part(Destination::Webhook(target), "KEY", "x");
        let answer = webhook().send(&part, now()).await;
        assert_eq!(class(&answer), "permanent", "{host}: {answer:?}");
        assert!(why(&answer).contains("allow_private"), "{answer:?}");
    }
    assert!(fakes.requests("webhook").is_empty());
}

#[tokio::test]
async fn a_webhook_channel_names_its_chats_and_takes_the_receivers_ids() {
    let fakes = Fakes::start();
    let settings = WebhookSettings {
        url: fakes.root("webhook"),
        secret: Some(SecretString::from("whsec_c2VjcmV0")),
        allow_private: true,
        receipt: ReceiptProof::MessageId,
    };
    let channel = Webhook::for_chats(&settings).expect("a channel");
    assert_eq!(channel.ability(), Ability::Keyed { window: None });
    let plain = channel
        .send(&part(chat("Room", Some("7")), "K1", "a"), now())
        .await;
    assert_eq!(class(&plain), "receipt m1");
    let own =
        json!({"service": "webhook", "kind": "status", "status": 200, "body": {"message_id": 42}});
    fakes.order(&json!({"fault": own}));
    let answer = channel
        .send(&part(chat("Room", None), "K2", "b"), now())
        .await;
    assert_eq!(class(&answer), "receipt 42");
    let requests = fakes.requests("webhook");
    assert_eq!(requests[0]["json"]["data"]["address"], "Room");
    assert_eq!(requests[0]["json"]["data"]["chat"], "me");
    assert_eq!(requests[0]["json"]["data"]["thread"], "7");
    assert!(requests[0]["headers"]["webhook-signature"].is_string());
    let foreign = part(to_url(fakes.root("webhook"), None), "K3", "c");
    assert_eq!(class(&channel.send(&foreign, now()).await), "permanent");
}

#[tokio::test]
async fn a_chat_of_a_webhook_channel_has_shown_what_its_receiver_gives_an_id() {
    let fakes = Fakes::start();
    let channel = |receipt: ReceiptProof| {
        let settings = WebhookSettings {
            url: fakes.root("webhook"),
            secret: None,
            allow_private: true,
            receipt,
        };
        Webhook::for_chats(&settings).expect("a channel")
    };
    let strict = channel(ReceiptProof::MessageId);
    let lax = channel(ReceiptProof::Status);
    let table = [
        (200, json!({"message_id": "a7"}), "receipt a7", "receipt a7"),
        (201, json!({"message_id": 42}), "receipt 42", "receipt 42"),
        (200, json!({"received": true}), "ambiguous", "receipt K"),
        (200, json!({"message_id": ""}), "ambiguous", "receipt K"),
        (200, json!({"message_id": null}), "ambiguous", "receipt K"),
        (
            200,
            json!({"message_id": "x".repeat(257)}),
            "ambiguous",
            "receipt K",
        ),
        (200, json!("ok"), "ambiguous", "receipt K"),
        // The receiver knows the key, so it has shown the message.
        (409, json!({"message_id": "a7"}), "receipt a7", "receipt a7"),
        (409, json!({}), "receipt K", "receipt K"),
        (404, json!({"message_id": "a7"}), "permanent", "permanent"),
    ];
    for (status, body, expected, without_ids) in table {
        for (channel, expected) in [(&strict, expected), (&lax, without_ids)] {
            fakes.order(&json!({"fault":
                {"service": "webhook", "kind": "status", "status": status, "body": body}}));
            let part = part(chat("Room", None), "K", "x");
            let answer = channel.send(&part, now()).await;
            assert_eq!(class(&answer), expected, "{status} {body}");
        }
    }
    let half = json!({"service": "webhook", "kind": "broken-json", "times": 2});
    fakes.order(&json!({"fault": half}));
    let part = part(chat("Room", None), "K", "x");
    let broken = strict.send(&part, now()).await;
    assert_eq!(class(&broken), "ambiguous");
    assert!(why(&broken).contains("receipt = \"status\""), "{broken:?}");
    assert_eq!(class(&lax.send(&part, now()).await), "receipt K");
}
