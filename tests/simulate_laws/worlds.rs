//! Made-up jobs and worlds, and a sink that keeps everything.

use std::collections::BTreeMap;

use chatcron::{
    directory::Chat,
    ids::{AgentName, ChannelName, ChatKind, ChatName, JobId},
    job::{
        CatchUp, Deliver, Job, Mode, OnInterrupt, Overlap, Policies, Retry, ScheduleSpec, Weekdays,
        When,
    },
    simulate::{
        ClockStep, Event, Failing, Happening, Outage, Rate, RunTime, Scenario, Simulation, Sink,
        Window,
    },
};
use jiff::{SignedDuration, Timestamp, civil::time};
use proptest::prelude::*;

pub(crate) const ZONES: [&str; 5] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
];

/// Everything that was told, for looking at it afterwards.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Told {
    pub(crate) lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) at: Timestamp,
    pub(crate) job: Option<String>,
    pub(crate) word: &'static str,
    pub(crate) slot: String,
    pub(crate) text: String,
    pub(crate) nominal: Option<Timestamp>,
    pub(crate) fire_at: Option<Timestamp>,
    pub(crate) slots: u64,
}

impl Sink for Told {
    fn take(&mut self, event: &Event<'_>) {
        let mut line = Line {
            at: event.at,
            job: event.job.map(|(_, id)| id.to_string()),
            word: event.what.word(),
            slot: String::new(),
            text: format!("{:?}", event.what),
            nominal: None,
            fire_at: None,
            slots: 1,
        };
        match &event.what {
            Happening::Wait {
                slot,
                nominal,
                fire_at,
                ..
            }
            | Happening::Start {
                slot,
                nominal,
                fire_at,
                ..
            } => {
                line.slot = slot.to_string();
                line.nominal = Some(*nominal);
                line.fire_at = Some(*fire_at);
            }
            Happening::Attempt { slot, nominal, .. } => {
                line.slot = slot.to_string();
                line.nominal = Some(*nominal);
            }
            Happening::AttemptEnd { slot, .. }
            | Happening::Backoff { slot, .. }
            | Happening::Requeue { slot }
            | Happening::End { slot, .. }
            | Happening::Send { slot, .. }
            | Happening::Open { slot, .. } => line.slot = slot.to_string(),
            Happening::Skip(range) => {
                line.slot = range.first.to_string();
                line.slots = range.count;
            }
            Happening::Down | Happening::Up | Happening::ClockStep(_) => {}
        }
        self.lines.push(line);
    }
}

pub(crate) fn schedules() -> impl Strategy<Value = When> {
    prop_oneof![
        (0..24i8, 0..60i8).prop_map(|(hour, minute)| When::Daily {
            times: vec![time(hour, minute, 0, 0)],
            days: Weekdays::ALL,
        }),
        proptest::sample::select(vec![
            "*/20 * * * *",
            "30 2 * * *",
            "15,45 1-3 * * *",
            "0 */3 * * *",
            "0 9 15 * 1",
            "30 1 * * sun",
        ])
        .prop_map(|text| When::Cron(text.to_owned())),
        (5..400i64).prop_map(|minutes| When::Every {
            period: SignedDuration::from_mins(minutes),
            anchor: None,
        }),
    ]
}

fn policies() -> impl Strategy<Value = Policies> {
    let catch_ups = vec![CatchUp::Latest, CatchUp::None, CatchUp::All];
    let overlaps = vec![
        Overlap::Skip,
        Overlap::BufferOne,
        Overlap::BufferAll,
        Overlap::CancelRunning,
        Overlap::Allow,
    ];
    let interrupts = vec![OnInterrupt::Retry, OnInterrupt::Fail];
    (
        proptest::sample::select(catch_ups),
        proptest::option::of(0..7_200i64),
        proptest::sample::select(overlaps),
        proptest::sample::select(interrupts),
        1..4u32,
        proptest::option::of(1..20u32),
        proptest::option::of(1..4u32),
    )
        .prop_map(
            |(catch_up, window, overlap, on_interrupt, attempts, max_runs, pause)| Policies {
                catch_up,
                catch_up_window: window.map(SignedDuration::from_secs),
                overlap,
                on_interrupt,
                max_runs,
                pause_after_failures: pause,
                retry: Retry {
                    attempts,
                    ..Retry::default()
                },
                ..Policies::default()
            },
        )
}

fn one_job() -> impl Strategy<Value = Job> {
    (
        schedules(),
        proptest::sample::select(ZONES.to_vec()),
        prop_oneof![Just(0i64), 1..120i64],
        any::<bool>(),
        policies(),
    )
        .prop_map(|(when, zone, jitter, in_chat, mut policies)| {
            let mut job = plain((0, when));
            zone.clone_into(&mut job.schedule.zone);
            job.schedule.jitter = SignedDuration::from_secs(jitter);
            if in_chat {
                let chat = ChatName::new("me").unwrap();
                job.mode = Mode::InChat { chat, agent: None };
                // Two turns of a chat cannot go on at once.
                if policies.overlap == Overlap::Allow {
                    policies.overlap = Overlap::Skip;
                }
            }
            job.policies = policies;
            job
        })
}

pub(crate) fn jobs() -> impl Strategy<Value = Vec<Job>> {
    proptest::collection::vec(one_job(), 1..5).prop_map(|mut jobs| {
        for (index, job) in jobs.iter_mut().enumerate() {
            job.id = JobId::new(format!("job-{index}")).unwrap();
        }
        jobs
    })
}

/// A background job with the usual policies.
pub(crate) fn plain((index, when): (usize, When)) -> Job {
    Job {
        id: JobId::new(format!("job-{index}")).unwrap(),
        name: None,
        enabled: true,
        schedule: ScheduleSpec {
            when,
            zone: "Europe/Berlin".to_owned(),
            from: None,
            until: None,
            exclude: Vec::new(),
            jitter: SignedDuration::ZERO,
        },
        prompt: "x".to_owned(),
        mode: Mode::Background {
            deliver: Deliver::Chat(ChatName::new("me").unwrap()),
            agent: AgentName::new("main").unwrap(),
            memory: false,
            context: None,
        },
        policies: Policies::default(),
    }
}

fn from() -> impl Strategy<Value = Timestamp> {
    // Around clock changes of all the zones, and anywhere.
    prop_oneof![
        Just("2027-03-13T00:00:00Z"),
        Just("2027-03-27T00:00:00Z"),
        Just("2027-04-03T00:00:00Z"),
        Just("2027-10-30T00:00:00Z"),
        Just("2011-12-29T00:00:00Z"),
        Just("2026-11-30T14:07:00Z"),
    ]
    .prop_map(|text| text.parse().unwrap())
}

pub(crate) fn scenarios(from: Timestamp) -> impl Strategy<Value = Scenario> {
    let minute = move |minutes: i64| from + SignedDuration::from_mins(minutes);
    let outages = proptest::collection::vec((0..3_000i64, 1..900i64), 0..3);
    let steps = proptest::collection::vec((0..4_000i64, -90..200i64), 0..2);
    (
        any::<u64>(),
        outages,
        steps,
        (0..1_800i64, 0..1_800i64),
        prop_oneof![Just(0u32), 0..=1_000_000u32],
        prop_oneof![Just(0u32), 0..900_000u32],
    )
        .prop_map(move |(seed, outages, steps, run_time, fails, refuses)| {
            let outages = outages.into_iter().map(|(at, length)| Outage {
                from: minute(at),
                to: minute(at + length),
            });
            let steps = steps.into_iter().map(|(at, by)| ClockStep {
                at: minute(at),
                by: SignedDuration::from_mins(by),
            });
            let failing = |index| {
                let job = JobId::new(format!("job-{index}")).unwrap();
                (job, vec![Failing::Rate(Rate(fails))])
            };
            Scenario {
                seed,
                outages: outages.collect(),
                clock_steps: steps.collect(),
                run_time: RunTime {
                    shortest: SignedDuration::from_secs(run_time.0.min(run_time.1)),
                    longest: SignedDuration::from_secs(run_time.0.max(run_time.1)),
                },
                failures: (0..5).map(failing).collect(),
                channel_failures: BTreeMap::from([(ChatName::new("me").unwrap(), Rate(refuses))]),
                ..Scenario::default()
            }
        })
}

pub(crate) fn chats() -> BTreeMap<ChatName, Chat> {
    let name = ChatName::new("me").unwrap();
    let chat = Chat {
        name: name.clone(),
        channel: ChannelName::new("terminal").unwrap(),
        account: None,
        kind: ChatKind::Direct,
        address: "me".to_owned(),
        thread: None,
        agent: AgentName::new("main").unwrap(),
    };
    BTreeMap::from([(name, chat)])
}

/// A world and three days in it.
pub(crate) fn worlds() -> impl Strategy<Value = (Vec<Job>, Scenario, usize, Window)> {
    from().prop_flat_map(|from| {
        let to = from + SignedDuration::from_hours(72);
        (
            jobs(),
            scenarios(from),
            1..5usize,
            Just(Window { from, to }),
        )
    })
}

pub(crate) fn simulation(
    jobs: &[Job],
    scenario: &Scenario,
    cap: usize,
    from: Timestamp,
) -> Simulation {
    Simulation::new(jobs.to_vec(), &chats(), cap, scenario, from).unwrap()
}

pub(crate) fn whole(jobs: &[Job], scenario: &Scenario, cap: usize, window: Window) -> Told {
    let mut told = Told::default();
    let mut simulation = simulation(jobs, scenario, cap, window.from);
    simulation.run_until(window.to, &mut told);
    simulation.close(&mut told);
    told
}

/// Whether the process is up at the end, and its clock shows what it should.
pub(crate) fn ends_well(scenario: &Scenario, window: Window) -> bool {
    let down = |outage: &Outage| outage.from < window.to && outage.to >= window.to;
    !scenario.outages.iter().any(down) && scenario.clock_steps.is_empty()
}
