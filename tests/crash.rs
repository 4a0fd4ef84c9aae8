//! Proof by crash: a process dies before every effect, and before every pair of effects, and what
//! the next one makes of it is checked from outside.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/checker.rs"]
mod checker;
#[path = "support/failpoints.rs"]
mod failpoints;
#[path = "crash/scenario.rs"]
mod scenario;

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use jiff::SignedDuration;
use scenario::{Case, Ended, Template};

/// Runs cases on both cores, each in a runtime of its own, and returns what did not hold.
fn sweep(cases: &[Case]) -> Vec<(Case, Ended)> {
    let template = Template::make();
    let next = AtomicUsize::new(0);
    let work = || {
        let runtime = scenario::runtime();
        let mut done = Vec::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((case.clone(), runtime.block_on(case.run(&template))));
        }
        done
    };
    std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        let done = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap());
        let mut done: Vec<_> = done.collect();
        done.sort_by(|(one, _), (other, _)| one.deaths.cmp(&other.deaths));
        done
    })
}

fn assert_all_hold(done: &[(Case, Ended)]) {
    let broken: Vec<_> = done
        .iter()
        .filter(|(_, ended)| !ended.violations.is_empty())
        .collect();
    if let Some((case, ended)) = broken.first() {
        let names: Vec<_> = case
            .deaths
            .iter()
            .map(|k| ended.points.get(k - 1))
            .collect();
        panic!(
            "{} of {} cases do not hold; the first: {case:?}, which died before {names:?}:\n{}",
            broken.len(),
            done.len(),
            ended.in_words()
        );
    }
}

/// One death at each effect.
fn singles(downtime: SignedDuration) -> Vec<Case> {
    let whole = sweep(&[Case::default()]);
    (1..=whole[0].1.points.len())
        .map(|k| Case::dying_at(&[k]).down_for(downtime))
        .collect()
}

#[test]
fn nobody_dies_and_everything_holds_and_every_kind_of_effect_is_there() {
    let whole = sweep(&[Case::default(), Case::default()]);
    assert_all_hold(&whole);
    assert_eq!(
        whole[0].1.points, whole[1].1.points,
        "effects are numbered alike"
    );
    let kinds: BTreeSet<_> = whole[0].1.points.iter().copied().collect();
    let expected = [
        "agent",
        "begin_worker",
        "claim",
        "commit",
        "finish_turns",
        "keep_context",
        "send",
        "set_chats",
        "settle_parts",
    ];
    assert_eq!(kinds, BTreeSet::from(expected));
    // The scenario has what it is said to have.
    let states = &whole[0].1.part_states;
    assert_eq!(states, &scenario::PART_STATES, "{states:?}");
}

#[test]
fn a_death_before_any_effect_loses_nothing_and_repeats_nothing() {
    assert_all_hold(&sweep(&singles(SignedDuration::ZERO)));
}

#[test]
fn a_death_with_a_minute_or_a_day_of_downtime_loses_nothing_and_repeats_nothing() {
    assert_all_hold(&sweep(&singles(SignedDuration::from_secs(70))));
    assert_all_hold(&sweep(&singles(SignedDuration::from_hours(26))));
}

#[test]
fn two_deaths_before_any_pair_of_effects_lose_nothing_and_repeat_nothing() {
    let first = sweep(&singles(SignedDuration::ZERO));
    let pairs: Vec<_> = first
        .iter()
        .flat_map(|(case, ended)| {
            let k1 = case.deaths[0];
            (k1 + 1..=ended.points.len()).map(move |k2| Case::dying_at(&[k1, k2]))
        })
        .collect();
    assert!(pairs.len() > 1000, "{} pairs", pairs.len());
    assert_all_hold(&sweep(&pairs));
}

#[test]
fn ten_restarts_with_no_time_passing_change_nothing() {
    let done = sweep(&[Case::default().restarted(10)]);
    assert_all_hold(&done);
}
