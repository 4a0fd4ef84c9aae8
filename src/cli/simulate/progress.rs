//! A window in pieces, with a bar for whoever waits. The pieces change nothing: split is whole.

use std::io::{self, Write};

use jiff::SignedDuration;

use crate::{
    clock::{Clock, SystemClock},
    simulate::{Simulation, Sink, Window},
};

use super::output;

/// How many pieces a window has.
const PIECES: i32 = 200;
/// How wide the bar is.
const WIDTH: usize = 30;
/// A bar that comes and goes at once says nothing.
const PATIENCE: SignedDuration = SignedDuration::from_millis(700);

/// Simulates the window.
pub(super) fn run(simulation: &mut Simulation, window: Window, sink: &mut impl Sink) {
    if !output::is_watched() {
        simulation.run_until(window.to, sink);
        return;
    }
    let began_at = SystemClock.now();
    let piece = window.from.duration_until(window.to) / PIECES;
    let mut shown = false;
    for number in 1..=PIECES {
        let to = window.from.saturating_add(piece * number);
        let to = if number == PIECES { Ok(window.to) } else { to };
        simulation.run_until(to.unwrap_or(window.to), sink);
        if began_at.duration_until(SystemClock.now()) > PATIENCE {
            shown = true;
            let done = usize::try_from(number * 100 / PIECES).unwrap_or(100);
            let full = "#".repeat(done * WIDTH / 100);
            // If the terminal is gone, nobody waits.
            let _ = write!(io::stderr(), "\r[{full:<WIDTH$}] {done:>3} %");
        }
    }
    if shown {
        let _ = write!(io::stderr(), "\r{:width$}\r", "", width = WIDTH + 10);
    }
}
