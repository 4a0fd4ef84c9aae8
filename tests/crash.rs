//! Proof by crash: a process dies before every effect, and before every pair of effects, and what
//! the next one makes of it is checked from outside.
//!
//! A process lives its whole life once, and before each effect the world that it would leave is put
//! aside: the database's files as they stand, and what was seen outside. In each of these worlds
//! the next process lives. So no life is lived twice, and all pairs fit into a minute or two.
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
    sync::{Mutex, PoisonError},
};

use jiff::SignedDuration;
use scenario::{Keep, Lived, World};

fn live(world: World, keeping: Keep) -> Lived {
    scenario::runtime().block_on(world.live(keeping))
}

/// A life in which nobody dies, with the worlds it would have left.
fn whole() -> Lived {
    let lived = live(World::new(), Keep::Worlds);
    assert!(lived.violations.is_empty(), "{:#?}", lived.violations);
    lived
}

/// What does not hold in a world, with the effects before which its processes died.
type Broken = (Vec<(usize, &'static str)>, Lived);

/// Visits worlds on both cores. Each visit says how many lives it saw, and what does not hold.
fn visit(
    worlds: Vec<World>,
    visit: impl Fn(World) -> (usize, Vec<Broken>) + Sync,
) -> (usize, Vec<Broken>) {
    let worlds = Mutex::new(worlds);
    let work = || {
        let mut lives = 0;
        let mut broken = Vec::new();
        loop {
            let next = worlds.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(world) = next else {
                return (lives, broken);
            };
            let (more, found) = visit(world);
            lives += more;
            broken.extend(found);
        }
    };
    std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        let [one, other] = workers.map(|worker| worker.join().unwrap());
        let mut broken = one.1;
        broken.extend(other.1);
        broken.sort_by(|(one, _), (other, _)| one.cmp(other));
        (one.0 + other.0, broken)
    })
}

/// One more life in a world.
fn last_life(world: World) -> (usize, Vec<Broken>) {
    let deaths = world.deaths.clone();
    let lived = live(world, Keep::Nothing);
    let holds = lived.violations.is_empty();
    (1, (!holds).then_some((deaths, lived)).into_iter().collect())
}

/// One more life in a world, and another one in every world that it could leave.
fn last_two_lives(world: World) -> (usize, Vec<Broken>) {
    let lived = live(world, Keep::Worlds);
    let mut lives = 0;
    let mut broken = Vec::new();
    for world in lived.had_it_died {
        let (more, found) = last_life(world);
        lives += more;
        broken.extend(found);
    }
    (lives, broken)
}

fn assert_all_hold((lives, broken): (usize, Vec<Broken>)) {
    if let Some((deaths, lived)) = broken.first() {
        let words: Vec<_> = lived.violations.iter().map(ToString::to_string).collect();
        panic!(
            "{} of {lives} histories do not hold; the first, whose processes died before the \
             effects {deaths:?}:\n{}",
            broken.len(),
            words.join("\n")
        );
    }
}

#[test]
fn nobody_dies_and_everything_holds_and_every_kind_of_effect_is_there() {
    let (one, other) = (whole(), whole());
    assert_eq!(one.points, other.points, "effects are numbered alike");
    let kinds: BTreeSet<_> = one.points.iter().copied().collect();
    let expected = [
        "agent",
        "begin_worker",
        "claim",
        "commit",
        "commit_incidents",
        "commit_of_file",
        "finish_turns",
        "keep_context",
        "send",
        "settle_parts",
        "stamp_file",
    ];
    assert_eq!(kinds, BTreeSet::from(expected));
    // The scenario has what it is said to have.
    assert_eq!(one.part_states, scenario::PART_STATES);
}

#[test]
fn a_death_before_any_effect_loses_nothing_and_repeats_nothing() {
    assert_all_hold(visit(whole().had_it_died, last_life));
}

#[test]
fn a_death_with_a_minute_or_a_day_of_downtime_loses_nothing_and_repeats_nothing() {
    for downtime in [
        SignedDuration::from_secs(70),
        SignedDuration::from_hours(26),
    ] {
        let after = |world: World| last_life(world.down_for(downtime));
        assert_all_hold(visit(whole().had_it_died, after));
    }
}

#[test]
fn two_deaths_before_any_pair_of_effects_lose_nothing_and_repeat_nothing() {
    let all = visit(whole().had_it_died, last_two_lives);
    assert!(all.0 > 2000, "only {} pairs", all.0);
    assert_all_hold(all);
}

#[test]
fn ten_restarts_with_no_time_passing_change_nothing() {
    let (before, after) = scenario::runtime().block_on(World::new().restart(10));
    assert!(before == after, "from\n{before}\nto\n{after}");
}
