//! Two hundred rounds of chaos on the real binary; `cargo run --example chatcron-chaos -- --rounds
//! 10000 --seed 7` is the same for longer.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/checker.rs"]
mod checker;
#[path = "support/fakes.rs"]
mod fakes;
#[path = "../examples/chaos/rounds.rs"]
mod rounds;

use std::path::Path;

#[test]
fn two_hundred_rounds_of_chaos_lose_nothing_and_repeat_nothing() {
    let options = rounds::Options {
        binary: env!("CARGO_BIN_EXE_chatcron").into(),
        rounds: 200,
        seed: 1,
        out: Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned(),
    };
    match rounds::run(&options) {
        Ok(told) => println!("{told}"),
        Err(failed) => panic!("seed {}: {failed}", options.seed),
    }
}
