use jiff::civil::{self, Weekday};

use super::*;
use crate::job::{ScheduleSpec, WebhookTarget, Weekdays, When};

fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn spec(when: When) -> ScheduleSpec {
    ScheduleSpec {
        when,
        zone: "Europe/Berlin".to_owned(),
        from: None,
        until: None,
        exclude: Vec::new(),
        jitter: SignedDuration::ZERO,
    }
}

#[test]
fn spans_have_at_most_two_units() {
    for (length, words) in [
        (0, "0 s"),
        (59, "59 s"),
        (61, "1 min"),
        (2 * HOUR, "2 h"),
        (2 * HOUR + 5 * MINUTE + 3, "2 h 5 min"),
        (36 * HOUR, "1 d 12 h"),
        (118 * DAY + HOUR, "118 d"),
    ] {
        assert_eq!(span(seconds(length)), words);
        assert_eq!(span(seconds(-length)), words);
    }
    assert_eq!(exact(SignedDuration::from_millis(9_130)), "9.1 s");
    assert_eq!(exact(seconds(14)), "14 s");
    assert_eq!(exact(seconds(90)), "1 min 30 s");
    assert_eq!(exact(seconds(2 * HOUR)), "2 h");
}

#[test]
fn moments_are_told_from_the_day_of_the_zone() {
    let zone = zone("Europe/Berlin");
    // Tuesday, 00:30 in Berlin.
    let now = at("2026-12-01T23:30:00Z");
    for (text, words) in [
        ("2026-12-01T23:00:00Z", "today 00:00"),
        ("2026-12-01T22:59:00Z", "yesterday 23:59"),
        ("2026-12-03T07:00:00Z", "tomorrow 08:00"),
        ("2026-11-28T06:00:00Z", "Sat 07:00"),
        ("2026-11-20T06:00:00Z", "2026-11-20 07:00"),
    ] {
        assert_eq!(moment(at(text), now, &zone), words);
    }
    let early = at("2026-12-01T23:00:20Z");
    assert_eq!(moment(early, now, &zone), "today 00:00");
    assert_eq!(scheduled(early, now, &zone), "today 00:00:20");
    assert_eq!(from_now(at("2026-12-02T11:30:00Z"), now), "in 12 h");
    assert_eq!(from_now(at("2026-12-01T23:27:00Z"), now), "3 min ago");
    assert_eq!(from_now(now, now), "now");
    assert_eq!(
        with_offset(at("2026-07-01T06:00:00Z"), &zone),
        "2026-07-01T08:00:00+02:00"
    );
}

#[test]
fn schedules_read_as_sentences() {
    let daily = |days| {
        spec(When::Daily {
            times: vec![civil::time(8, 0, 0, 0), civil::time(20, 30, 0, 0)],
            days,
        })
    };
    let workdays = Weekdays::NONE
        .with(Weekday::Monday)
        .with(Weekday::Tuesday)
        .with(Weekday::Wednesday)
        .with(Weekday::Sunday);
    assert_eq!(
        schedule(&daily(Weekdays::ALL)),
        "every day at 08:00, 20:30 (Europe/Berlin)"
    );
    assert_eq!(
        schedule(&daily(workdays)),
        "mon-wed, sun at 08:00, 20:30 (Europe/Berlin)"
    );
    let every = |anchor| {
        spec(When::Every {
            period: seconds(2 * HOUR),
            anchor,
        })
    };
    assert_eq!(schedule(&every(None)), "every 2 h");
    assert_eq!(
        schedule(&every(Some(at("2026-01-01T00:30:00Z")))),
        "every 2 h, counted from 2026-01-01 01:30 (Europe/Berlin)"
    );
    let bounded = ScheduleSpec {
        from: Some(civil::date(2026, 6, 1).at(0, 0, 0, 0)),
        until: Some(civil::date(2026, 9, 1).at(12, 0, 0, 0)),
        exclude: vec![civil::date(2026, 7, 1)],
        jitter: seconds(90),
        ..spec(When::Cron("0 7 1 * *".to_owned()))
    };
    assert_eq!(
        schedule(&bounded),
        "cron 0 7 1 * * (Europe/Berlin), from 2026-06-01, until 2026-09-01 12:00, \
         not on 2026-07-01, up to 1 min 30 s later"
    );
    let once = spec(When::At(civil::date(2099, 12, 31).at(23, 59, 0, 0)));
    assert_eq!(schedule(&once), "once, 2099-12-31 23:59 (Europe/Berlin)");
}

#[test]
fn a_webhook_is_told_without_what_may_be_secret() {
    for (url, words) in [
        (
            "https://example.org/hooks/T0/B0/s3cret",
            "https://example.org/…",
        ),
        ("https://user:pass@example.org", "https://example.org"),
        ("https://example.org/", "https://example.org"),
        ("https://example.org?key=x", "https://example.org/…"),
    ] {
        let target = WebhookTarget {
            url: url.to_owned(),
            secret_env: None,
            allow_private: false,
        };
        assert_eq!(place(&Destination::Webhook(target)), words);
    }
}
