//! `chatcron-chaos [--rounds N] [--seed S] [--binary FILE] [--out FOLDER]`: the real binary, killed,
//! frozen, starved of disk and lied to about the time, while its services misbehave; and after every
//! few rounds a check of everything it has left.
//!
//! The fakes of `examples/fake_services` are the truth of what was shown and asked. All choices
//! follow from the seed; what the machine's scheduler does with them does not. A failure leaves the
//! database, the logs and the seed in a folder, and ends with 1.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{path::PathBuf, process::ExitCode};

#[path = "rounds.rs"]
mod rounds;

#[path = "../../tests/support/checker.rs"]
mod checker;
#[path = "../../tests/support/fakes.rs"]
mod fakes;

fn main() -> ExitCode {
    let mut options = rounds::Options {
        binary: beside_this(),
        rounds: 200,
        seed: 1,
        out: std::env::temp_dir(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        match name.as_str() {
            "--rounds" => options.rounds = value.parse().unwrap(),
            "--seed" => options.seed = value.parse().unwrap(),
            "--binary" => options.binary = value.into(),
            "--out" => options.out = value.into(),
            other => {
                eprintln!("chatcron-chaos: unknown argument {other}");
                return ExitCode::from(2);
            }
        }
    }
    match rounds::run(&options) {
        Ok(told) => {
            println!("{told}");
            ExitCode::SUCCESS
        }
        Err(failed) => {
            eprintln!("chatcron-chaos --seed {}: {failed}", options.seed);
            ExitCode::FAILURE
        }
    }
}

/// `target/PROFILE/chatcron`, two folders up from this program.
fn beside_this() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let profile = own.parent().and_then(|folder| folder.parent()).unwrap();
    profile.join("chatcron")
}
