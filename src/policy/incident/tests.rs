use jiff::SignedDuration;

use super::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn ago(minutes: i64) -> Timestamp {
    now() - SignedDuration::from_mins(minutes)
}

fn incident(stage: Stage, failures: u32) -> Option<Incident> {
    Some(Incident {
        since: ago(90),
        failures,
        stage,
    })
}

fn twice_an_hour() -> Alert {
    Alert::Once {
        after: 2,
        cooldown: SignedDuration::from_hours(1),
    }
}

const TIMEOUT: IncidentCause = IncidentCause::Runs(FailReason::Timeout);

#[test]
fn an_incident_follows_its_table() {
    use Signal::{Fails, Works};
    use Stage::{Alerted, Silent, Watched};
    let once = twice_an_hour();
    let recent = Some(ago(59));
    let cooled = Some(ago(60));
    let ahead = Some(ago(-5));
    #[rustfmt::skip]
    let table = [
        ("none, works", None, None, Works, once, (None, Say::Nothing)),
        ("none, fails", None, None, Fails, once, (Some((Watched, 1)), Say::Nothing)),
        ("none, fails inside the cooldown", None, recent, Fails, once, (Some((Watched, 1)), Say::Nothing)),
        ("watched, fails", incident(Watched, 1), None, Fails, once, (Some((Alerted, 2)), Say::Alert)),
        ("watched, fails inside the cooldown", incident(Watched, 1), recent, Fails, once, (Some((Silent, 2)), Say::Hush)),
        ("watched, fails as the cooldown ends", incident(Watched, 1), cooled, Fails, once, (Some((Alerted, 2)), Say::Alert)),
        ("watched, fails after a step back", incident(Watched, 1), ahead, Fails, once, (Some((Alerted, 2)), Say::Alert)),
        ("watched, works", incident(Watched, 1), None, Works, once, (None, Say::Nothing)),
        ("alerted, fails", incident(Alerted, 2), recent, Fails, once, (Some((Alerted, 3)), Say::Nothing)),
        ("alerted, fails after the cooldown", incident(Alerted, 7), cooled, Fails, once, (Some((Alerted, 8)), Say::Nothing)),
        ("alerted, works", incident(Alerted, 2), recent, Works, once, (None, Say::Recovery)),
        ("silent, fails", incident(Silent, 2), recent, Fails, once, (Some((Silent, 3)), Say::Nothing)),
        ("silent, fails after the cooldown", incident(Silent, 2), cooled, Fails, once, (Some((Alerted, 3)), Say::Alert)),
        ("silent, works", incident(Silent, 2), recent, Works, once, (None, Say::Nothing)),
        ("never, fails", None, None, Fails, Alert::Never, (None, Say::Nothing)),
        ("never, alerted before, works", incident(Alerted, 2), recent, Works, Alert::Never, (None, Say::Nothing)),
        ("never, alerted before, fails", incident(Alerted, 2), recent, Fails, Alert::Never, (None, Say::Nothing)),
    ];
    for (name, before, last_alert_at, signal, alert, expected) in table {
        let follow = follow(TIMEOUT, before, last_alert_at, signal, alert, now());
        let found = follow.incident.map(|after| (after.stage, after.failures));
        assert_eq!((found, follow.say), expected, "{name}");
        if let (Some(before), Some(after)) = (before, follow.incident) {
            assert_eq!(after.since, before.since, "{name}");
        }
    }
}

#[test]
fn a_failed_delivery_is_enough_by_itself() {
    let first = follow(
        IncidentCause::Delivery,
        None,
        None,
        Signal::Fails,
        twice_an_hour(),
        now(),
    );
    assert_eq!(first.say, Say::Alert);
}

#[test]
fn a_hundred_failures_are_one_alert_and_one_recovery() {
    let (mut incident, mut last, mut said) = (None, None, Vec::new());
    for minute in 0..100 {
        let at = now() + SignedDuration::from_secs(minute * 36);
        let step = follow(TIMEOUT, incident, last, Signal::Fails, twice_an_hour(), at);
        incident = step.incident;
        if step.say != Say::Nothing {
            said.push(step.say);
            last = Some(at);
        }
    }
    let end = now() + SignedDuration::from_hours(2);
    said.push(follow(TIMEOUT, incident, last, Signal::Works, twice_an_hour(), end).say);
    assert_eq!(said, [Say::Alert, Say::Recovery]);
}

#[test]
fn the_words_of_causes_and_stages_are_read_back() {
    let causes = FailReason::ALL
        .into_iter()
        .filter_map(IncidentCause::of)
        .chain([IncidentCause::Delivery]);
    for cause in causes {
        assert_eq!(IncidentCause::from_stored(cause.as_str()), Some(cause));
    }
    for stage in [Stage::Watched, Stage::Silent, Stage::Alerted] {
        assert_eq!(Stage::from_stored(stage.as_str()), Some(stage));
    }
}
