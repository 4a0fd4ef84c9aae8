use super::*;

fn raw(update: &Value) -> Box<RawValue> {
    RawValue::from_string(update.to_string()).unwrap()
}

fn event_of(update: &Value) -> Option<InboundEvent> {
    event(&Update::read(&raw(update)).unwrap())
}

fn arrived_of(updates: &[Value]) -> Arrived {
    let raw: Vec<_> = updates.iter().map(raw).collect();
    let read = raw.iter().map(|raw| Update::read(raw).unwrap());
    arrived(&read.collect::<Vec<_>>())
}

fn said(message: Value) -> Option<Said> {
    let mut whole = json!({
        "message_id": 12,
        "from": {"id": 5, "is_bot": false, "first_name": "Ada", "last_name": "L", "username": "ada"},
        "chat": {"id": 5_550_001, "type": "private"},
        "date": 1_796_000_000,
    });
    if let (Value::Object(fields), Some(whole)) = (message, whole.as_object_mut()) {
        whole.extend(fields);
    }
    match event_of(&json!({"update_id": 1, "message": whole}))? {
        InboundEvent::Said(said) => Some(*said),
        InboundEvent::Moved { from, to } => panic!("moved from {from} to {to}"),
    }
}

fn told(message: Value) -> String {
    said(message).map_or_else(String::new, |said| said.content.text())
}

#[test]
fn an_update_is_kept_byte_for_byte() {
    let update = r#"{"update_id":7,"message":{"message_id":3,"chat":{"id":5},"text":"é","z":1.10,"a":12345678901234567890123}}"#;
    let body = format!(r#"{{"ok":true,"result":[{update}]}}"#).into_bytes();
    let arrived = read(200, None, Ok(body)).unwrap();
    let InboundEvent::Said(said) = &arrived.events[0] else {
        panic!("{arrived:?}");
    };
    let kept = said.raw_entry.as_deref().unwrap();
    assert_eq!(kept, format!(r#"{{"message":"é","update":{update}}}"#));
}

#[test]
fn a_message_is_who_wrote_what_and_where() {
    let came = said(json!({"text": "hi\nthere"})).unwrap();
    assert_eq!(came.place.address, "5550001");
    assert_eq!((came.place.public_name, came.place.thread), (None, None));
    assert_eq!(came.message_id, "12");
    assert_eq!(came.content, Content::Text("hi\nthere".to_owned()));
    assert_eq!(came.sender_display.as_deref(), Some("Ada L"));
    assert_eq!(came.sender_id.as_deref(), Some("5"));
    let raw: Value = serde_json::from_str(&came.raw_entry.unwrap()).unwrap();
    assert_eq!(raw["message"], "hi\nthere");
    assert_eq!(raw["update"]["message"]["from"]["username"], "ada");

    let public = said(json!({"text": "x", "chat": {"id": -1001, "username": "News"}})).unwrap();
    assert_eq!(public.place.address, "-1001");
    assert_eq!(public.place.public_name.as_deref(), Some("@News"));
    let topic = json!({"text": "x", "message_thread_id": 7, "is_topic_message": true});
    assert_eq!(said(topic).unwrap().place.thread.as_deref(), Some("7"));
    // A reply in a group has a thread as well.
    let reply = json!({"text": "x", "message_thread_id": 7});
    assert_eq!(said(reply).unwrap().place.thread, None);
    let nameless = json!({"text": "x", "from": {"id": 5, "username": "ada"}});
    assert_eq!(
        said(nameless).unwrap().sender_display.as_deref(),
        Some("ada")
    );
    let hidden = json!({"text": "x", "from": {"id": 1_087_968_824, "is_bot": true, "first_name": "Group"},
        "sender_chat": {"id": -1001, "title": "Family"}});
    let hidden = said(hidden).unwrap();
    assert_eq!(hidden.sender_display.as_deref(), Some("Family"));
    assert_eq!(hidden.sender_id.as_deref(), Some("-1001"));
}

#[test]
fn what_is_no_text_is_told_in_brackets_with_its_caption() {
    let table = [
        (
            json!({"photo": [{}], "caption": "My cat"}),
            "[photo]\nMy cat",
        ),
        (json!({"photo": [{}]}), "[photo]"),
        (json!({"voice": {"duration": 3}}), "[voice message]"),
        (
            json!({"sticker": {"emoji": "\u{1F600}"}}),
            "[sticker: \u{1F600}]",
        ),
        (
            json!({"document": {"file_name": "tax\n.pdf"}}),
            "[document: tax .pdf]",
        ),
        (
            json!({"animation": {}, "document": {"file_name": "a.gif"}}),
            "[animation]",
        ),
        (
            json!({"venue": {"title": "Caf\u{e9}"}, "location": {}}),
            "[venue: Caf\u{e9}]",
        ),
        (json!({"location": {"latitude": 1.0}}), "[location]"),
        (json!({"poll": {"question": "When?"}}), "[poll: When?]"),
        (json!({"text": " "}), ""),
        (json!({"new_chat_title": "Family"}), ""),
        (json!({"pinned_message": {"text": "old"}}), ""),
    ];
    for (message, words) in table {
        assert_eq!(told(message.clone()), words, "{message}");
    }
}

#[test]
fn bots_and_automatic_posts_are_nobodys_words() {
    let bot = json!({"text": "x", "from": {"id": 9, "is_bot": true, "first_name": "Bot"}});
    assert!(said(bot).is_none());
    let forwarded = json!({"text": "x", "is_automatic_forward": true, "sender_chat": {"id": -1}});
    assert!(said(forwarded).is_none());
    for other in [
        json!({"update_id": 1, "edited_message": {"text": "x"}}),
        json!({"update_id": 1, "channel_post": {"text": "x"}}),
        json!({"update_id": 1, "message": {"text": "x"}}),
        json!({"update_id": 1, "message": "x"}),
        json!("x"),
    ] {
        assert_eq!(event_of(&other), None, "{other}");
    }
}

#[test]
fn a_group_that_became_a_supergroup_has_moved() {
    let update = json!({"update_id": 1, "message":
        {"message_id": 3, "chat": {"id": -5}, "migrate_to_chat_id": -1005}});
    let (from, to) = ("-5".to_owned(), "-1005".to_owned());
    assert_eq!(event_of(&update), Some(InboundEvent::Moved { from, to }));
}

#[test]
fn the_position_is_behind_everything_and_not_named_for_ever() {
    let updates = [
        json!({"update_id": 41, "message": {}}),
        json!({"update_id": 43, "edited_message": {}}),
        json!({"update_id": 42, "message": {}}),
    ];
    assert_eq!(arrived_of(&updates).position.as_deref(), Some("44"));
    assert_eq!(arrived_of(&[]).position, None);

    let moved_at: Timestamp = "2026-11-30T08:00:00Z".parse().unwrap();
    let at = "44".to_owned();
    let position = Position { at, moved_at };
    let soon = moved_at + SignedDuration::from_hours(119);
    let late = moved_at + SignedDuration::from_hours(120);
    assert_eq!(request(Some(&position), soon)["offset"], 44);
    assert!(request(Some(&position), late).get("offset").is_none());
    let first = request(None, soon);
    assert!(first.get("offset").is_none());
    assert_eq!(first["allowed_updates"], json!(["message"]));
}

#[test]
fn every_failure_says_what_can_be_done() {
    let answer = |status: u16, body: &str| read(status, None, Ok(body.as_bytes().to_vec()));
    let class = |status: u16, body: &str| match answer(status, body) {
        Ok(arrived) => format!("{} events", arrived.events.len()),
        Err(PollError::Later {
            retry_after: Some(wait),
            ..
        }) => format!("later {}", wait.as_secs()),
        Err(PollError::Later {
            retry_after: None, ..
        }) => "later".to_owned(),
        Err(PollError::Competing { .. }) => "competing".to_owned(),
        Err(PollError::Refused { .. }) => "refused".to_owned(),
    };
    let table = [
        (200, r#"{"ok":true,"result":[]}"#, "0 events"),
        (200, r#"{"ok":true,"result":{}}"#, "later"),
        (200, r#"{"ok":true,"result":[{"message":{}}]}"#, "later"),
        (200, r#"{"ok":true,"resu"#, "later"),
        (502, "<html>", "later"),
        (
            409,
            r#"{"ok":false,"error_code":409,"description":"Conflict: terminated by other getUpdates request"}"#,
            "competing",
        ),
        (
            409,
            r#"{"ok":false,"error_code":409,"description":"Conflict: can't use getUpdates method while webhook is active"}"#,
            "competing",
        ),
        (
            401,
            r#"{"ok":false,"error_code":401,"description":"Unauthorized"}"#,
            "refused",
        ),
        (
            404,
            r#"{"ok":false,"error_code":404,"description":"Not Found"}"#,
            "refused",
        ),
        (
            429,
            r#"{"ok":false,"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":7}}"#,
            "later 7",
        ),
    ];
    for (status, body, expected) in table {
        assert_eq!(class(status, body), expected, "{status} {body}");
    }
    let webhook = answer(409, table[6].1).unwrap_err().to_string();
    assert!(webhook.contains("deleteWebhook"), "{webhook}");
    let other = answer(409, table[5].1).unwrap_err().to_string();
    assert!(other.starts_with("another program reads"), "{other}");
}
