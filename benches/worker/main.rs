//! The running worker over a real SQLite file with `synchronous = FULL`: how late runs begin, how
//! many lifecycles go through in a second, and what many jobs cost while nothing happens.
//!
//! Run with `cargo bench --bench worker`, or one figure with `cargo bench --bench worker -- NAME`.
//! Each figure is measured in a process of its own, and a baseline of what the disk and SQLite can
//! do without us is measured in the same run. `docs/performance.md` says what limits each.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::{env, process::Command};

mod baseline;
mod figures;
mod machine;
mod service;

/// As the binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The figures, by name, with how often each is measured.
const FIGURES: &[(&str, usize, fn())] = &[
    ("baseline", 3, baseline::measure),
    ("lateness-spread", 3, figures::lateness_spread),
    ("lateness-burst", 3, figures::lateness_burst),
    ("lifecycles", 3, figures::lifecycles),
    ("history", 3, figures::history),
    ("start", 3, figures::start),
    ("memory", 1, figures::memory),
    ("idle", 1, figures::idle),
    ("boot", 5, figures::boot),
];

fn main() {
    // Cargo adds `--bench`.
    let asked: Vec<String> = env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    if let Ok(name) = env::var("CHATCRON_FIGURE") {
        if name == "prepare" {
            return figures::prepare();
        }
        let figure = FIGURES.iter().find(|(known, ..)| *known == name);
        figure.expect("a figure of this name").2();
        return;
    }
    let program = env::current_exe().expect("the path of this program");
    for (name, times, _) in FIGURES {
        if asked.is_empty() || asked.iter().any(|word| name.starts_with(word.as_str())) {
            for _ in 0..*times {
                let status = Command::new(&program)
                    .env("CHATCRON_FIGURE", name)
                    .status()
                    .expect("this program runs");
                assert!(status.success(), "{name} failed");
            }
        }
    }
}
