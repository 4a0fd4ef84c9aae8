use super::*;
use crate::cli::samples::now;

fn count(session: &str, trigger: TriggerSource, turns: u64, last_at: &str) -> TurnCount {
    TurnCount {
        session_key: SessionKey::from_stored(session),
        trigger,
        turns,
        last_at: last_at.parse().unwrap(),
    }
}

fn sample() -> Stats {
    let counts = [
        count(
            "cron:budget",
            TriggerSource::Cron,
            250,
            "2026-11-30T07:00:00Z",
        ),
        count(
            "telegram:direct:1",
            TriggerSource::Cron,
            1,
            "2026-11-29T20:00:00Z",
        ),
        count(
            "telegram:direct:1",
            TriggerSource::User,
            2,
            "2026-11-29T20:05:00Z",
        ),
    ];
    let name = |key: &SessionKey| {
        key.as_str()
            .starts_with("telegram")
            .then(|| "me".to_owned())
    };
    Stats::new(&counts, name, "Europe/Berlin".to_owned())
}

#[test]
fn each_conversation_tells_whose_turns_it_has() {
    insta::assert_snapshot!(render(&sample(), now(), Screen::wide(None)), @r"
     conversation  turns  automated  by whom         a person last
     cron:budget     250      100 %  cron 250        never
     me                3       33 %  user 2, cron 1  yesterday 21:05
    253 turns, 99 % automated; times in Europe/Berlin
    ");
    let nothing = Stats::new(&[], |_| None, "UTC".to_owned());
    assert_eq!(
        render(&nothing, now(), Screen::wide(None)),
        "there has been no turn yet\n"
    );
}

#[test]
fn json_counts_every_trigger() {
    let json: Value = serde_json::from_str(&as_json(&sample())).unwrap();
    let me = &json["sessions"][1];
    assert_eq!(me["chat"], "me");
    assert_eq!((&me["turns"], &me["automated"]), (&json!(3), &json!(1)));
    assert_eq!(
        me["by_trigger"],
        json!({"user": 2, "heartbeat": 0, "cron": 1, "subagent": 0, "acp": 0})
    );
    assert_eq!(me["last_human_turn_at"], "2026-11-29T20:05:00Z");
    assert_eq!(json["sessions"][0]["chat"], json!(null));
    assert_eq!(json["sessions"][0]["last_human_turn_at"], json!(null));
    assert_eq!(json["automated"], 251);
    let nothing = Stats::new(&[], |_| None, "UTC".to_owned());
    let json: Value = serde_json::from_str(&as_json(&nothing)).unwrap();
    assert_eq!(json["automated_share"], json!(null));
}

#[test]
fn a_share_is_all_or_nothing_only_if_it_is() {
    for (automated, total, told) in [
        (0, 9, "0 %"),
        (1, 900, "1 %"),
        (899, 900, "99 %"),
        (9, 9, "100 %"),
    ] {
        let turns = Turns {
            automated,
            total,
            ..Turns::default()
        };
        assert_eq!(share(&turns), told);
    }
}
