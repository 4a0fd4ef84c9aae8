//! What the parser refuses, where, and with which advice.

use crate::schedule::cron::{CronError, parse};

fn refusal(expr: &str) -> (String, String, Option<String>) {
    let error = parse(expr).expect_err(expr);
    let at_fault = expr[error.span()].to_owned();
    (at_fault, error.to_string(), error.hint().map(str::to_owned))
}

#[test]
fn a_refusal_underlines_what_is_at_fault_and_says_what_to_write() {
    for (expr, at_fault, hint) in [
        ("5/15 * * * *", "5/15", Some("5-59/15")),
        ("0 0 * * mon/2", "mon/2", Some("1-6/2")),
        ("0 22-6 * * *", "22-6", Some("22-23,0-6")),
        ("0 0 * * fri-mon", "fri-mon", Some("fri-7,mon")),
        ("0 0 * * tue-0", "tue-0", Some("tue-7")),
        ("0 0 * * 7-tue", "7-tue", Some("7,1-tue")),
        ("0 0 1 nov-mar *", "nov-mar", Some("nov-12,1-mar")),
        (
            "0 0 * * mon-fril",
            "fril",
            Some("a range has plain values at both ends"),
        ),
        (
            "0 0 * * * * 2027",
            "2027",
            Some("a year field is not supported: use `from` and `until`"),
        ),
        (
            "TZ=Europe/Berlin 0 0 * * * *",
            "TZ=Europe/Berlin 0 0 * * * *",
            Some("name the zone with `timezone`"),
        ),
        (
            "@every 2h",
            "@every",
            Some("use `every = \"2h\"` instead of `cron`"),
        ),
        ("*/60 * * * *", "60", None),
        ("  0   24 * * *", "24", None),
        ("0 0 ä * *", "ä", None),
        ("0 0 30 2 *", "30 2 *", None),
        ("0 0 31 * +mon#1", "31 * +mon#1", None),
        (
            "0 0 * * L",
            "L",
            Some("say which weekday: `FRIL` is the month's last Friday"),
        ),
    ] {
        let (found, message, advice) = refusal(expr);
        assert_eq!(
            (found.as_str(), advice.as_deref()),
            (at_fault, hint),
            "{expr}"
        );
        assert!(!message.is_empty());
    }
}

#[test]
fn the_advice_for_a_range_that_wraps_is_itself_accepted() {
    for expr in [
        "0 22-6 * * *",
        "0 0 * * fri-mon",
        "0 0 1 nov-mar *",
        "0 0 * * sat-0",
        "0 0 * * 7-2",
    ] {
        let error = parse(expr).unwrap_err();
        let mut corrected = expr.to_owned();
        corrected.replace_range(error.span(), error.hint().unwrap());
        parse(&corrected).unwrap_or_else(|error| panic!("{corrected}: {error}"));
    }
}

#[test]
fn one_meaning_has_one_set_of_masks_however_it_is_written() {
    for (written, plain) in [
        ("@hourly", "0 * * * *"),
        ("@YEARLY", "0 0 1 1 *"),
        ("0 0 * * SUN", "0 0 * * 0"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * sat-sun", "0 0 * * 6,0"),
        ("0 0 * * 5-7", "0 0 * * fri,sat,sun"),
        ("0 0 * JANUARY-mar Tuesday", "0 0 * 1-3 2"),
        ("0 0 ? * ?", "0 0 * * *"),
        ("0 0 0 * * *", "0 0 * * *"),
        ("0 0 l * 5l", "0 0 L * FRI#L"),
    ] {
        assert_eq!(parse(written), parse(plain), "{written}");
    }
}

#[test]
fn a_job_is_frequent_where_its_minute_or_hour_starts_with_a_star() {
    for (expr, frequent) in [
        ("*/5 3 * * *", true),
        ("0 * * * *", true),
        ("0 */2 * * *", true),
        ("0 0-23 * * *", false),
        ("* 30 2 * * *", false),
        ("30 2 * * *", false),
    ] {
        assert_eq!(parse(expr).unwrap().is_frequent(), frequent, "{expr}");
    }
}

#[test]
fn two_set_day_fields_take_either_day_unless_a_plus_says_both() {
    for (expr, either) in [
        ("0 0 1 * mon", true),
        ("0 0 1 * +mon", false),
        ("0 0 1 * *", false),
        ("0 0 ? * mon", false),
        ("0 0 */2 * mon", true),
    ] {
        assert_eq!(parse(expr).unwrap().takes_either_day(), either, "{expr}");
    }
}

#[test]
fn a_message_says_what_was_found_and_what_is_accepted() {
    let (_, message, _) = refusal("0 25 * * *");
    assert_eq!(
        message,
        "25 in the hour field, accepted are 0-23 with `*`, `,`, `-` and `/`"
    );
    let error = parse("0 0 30 2 *").unwrap_err();
    assert!(matches!(error, CronError::NeverComes { .. }));
    assert_eq!(error.to_string(), "`30 2 *` names no date that ever comes");
}
