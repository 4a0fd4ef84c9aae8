use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn lane(name: &str) -> LaneQueue {
    LaneQueue {
        session_key: SessionKey::from_stored(name),
        delivery: None,
        turn: None,
        run: None,
    }
}

/// Whether a delivery goes before everything else of its lane.
#[derive(Clone, Copy, PartialEq)]
enum Goes {
    First,
    InTurn,
}
const FIRST: Goes = Goes::First;
const WAITS: Goes = Goes::InTurn;

fn delivery(enqueued: i64, next: i64, goes: Goes) -> Option<DeliveryHead> {
    Some(DeliveryHead {
        message_id: MessageId(1),
        part_id: PartId(1),
        next_attempt_at: at(next),
        enqueued_at: at(enqueued),
        first: goes == FIRST,
    })
}

fn turn(id: i64, requested: i64) -> Option<TurnHead> {
    Some(TurnHead {
        turn_id: TurnId(id),
        requested_at: at(requested),
    })
}

fn run(id: i64, job: &str, due: i64, cause: Cause) -> Option<RunHead> {
    Some(RunHead {
        run_id: RunId(id),
        job_id: JobId::new(job).unwrap(),
        due_at: at(due),
        cause,
    })
}

/// delivery, turn, run -> what the lane does at second 100, with a slot free and without.
#[test]
fn one_lane_follows_its_table() {
    let deliver = Some(Grant::Deliver(PartId(1)));
    let begin = Some(Grant::Turn(TurnId(2)));
    let start = Some(Grant::Run(RunId(3)));
    let scheduled = |due| run(3, "j", due, Cause::Scheduled);
    #[rustfmt::skip]
    let table = [
        ("nothing waits", None, None, None, None, None),
        ("a delivery", delivery(50, 50, WAITS), None, None, deliver, deliver),
        ("a turn", None, turn(2, 50), None, begin, begin),
        ("a run", None, None, scheduled(50), start, None),
        ("a run that is not due", None, None, scheduled(101), None, None),
        ("the older of delivery and turn", delivery(40, 40, WAITS), turn(2, 50), None, deliver, deliver),
        ("the older of turn and delivery", delivery(60, 60, WAITS), turn(2, 50), None, begin, begin),
        ("a begun message before an older turn", delivery(60, 60, FIRST), turn(2, 50), None, deliver, deliver),
        ("a short backoff keeps the lane", delivery(40, 110, FIRST), turn(2, 50), None, None, None),
        ("a long backoff yields to a turn", delivery(40, 111, FIRST), turn(2, 50), None, begin, begin),
        ("a long backoff does not yield to a run", delivery(40, 500, FIRST), None, scheduled(50), None, None),
        ("a run before a younger turn", None, turn(2, 60), scheduled(50), start, begin),
        ("a run before a younger delivery", delivery(60, 60, WAITS), None, scheduled(50), start, deliver),
        ("a run behind a begun message", delivery(60, 60, FIRST), None, scheduled(50), deliver, deliver),
        ("a run behind an older turn", None, turn(2, 50), scheduled(50), begin, begin),
    ];
    for (name, delivery, turn, run, with_slot, without_slot) in table {
        let queue = LaneQueue {
            delivery,
            turn,
            run,
            ..lane("a")
        };
        let grants = |slots| {
            admit(std::slice::from_ref(&queue), slots, at(100))
                .first()
                .map(|(_, grant)| *grant)
        };
        assert_eq!(grants(1), with_slot, "{name}, with a slot");
        assert_eq!(grants(0), without_slot, "{name}, without a slot");
    }
}

#[test]
fn slots_go_to_current_runs_first_then_by_instant_then_by_id() {
    let queues: Vec<_> = [
        ("a", run(1, "late", 10, Cause::CatchUp)),
        ("b", run(2, "zeta", 20, Cause::Scheduled)),
        ("c", run(3, "beta", 20, Cause::Scheduled)),
        ("d", run(4, "alpha", 30, Cause::Manual)),
    ]
    .into_iter()
    .map(|(name, run)| LaneQueue { run, ..lane(name) })
    .collect();
    assert_eq!(
        admit(&queues, 3, at(100))
            .into_iter()
            .map(|(_, grant)| grant)
            .collect::<Vec<_>>(),
        [RunId(3), RunId(2), RunId(4)].map(Grant::Run)
    );
}
