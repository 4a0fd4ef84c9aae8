//! What a service manager such as systemd hears of the real binary.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/process.rs"]
mod process;

use std::{os::unix::net::UnixDatagram, time::Duration};

use process::{Place, TICKING};

/// Stands in for the service manager: it wants to hear of life three times a second.
struct Manager {
    socket: UnixDatagram,
    heard: String,
}

impl Manager {
    fn of(name: &str) -> (Self, Place) {
        let place = Place::new(TICKING);
        let path = place.path(name);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let place = place
            .with_env("NOTIFY_SOCKET", path.to_str().unwrap())
            .with_env("WATCHDOG_USEC", "1000000");
        let heard = String::new();
        (Self { socket, heard }, place)
    }

    /// Listens until these words come.
    fn until(&mut self, words: &str) {
        let mut buffer = [0; 4096];
        loop {
            let length = self.socket.recv(&mut buffer);
            let length = length
                .unwrap_or_else(|error| panic!("{words:?} never came ({error}): {}", self.heard));
            let text = std::str::from_utf8(&buffer[..length]).unwrap();
            self.heard.push_str(text);
            if text.contains(words) {
                return;
            }
        }
    }
}

#[test]
fn it_says_that_it_is_ready_that_it_lives_and_that_it_stops() {
    let (mut manager, place) = Manager::of("manager");
    let worker = place.start_unready();
    manager.until("READY=1\nSTATUS=running\n");
    for _ in 0..3 {
        manager.until("WATCHDOG=1");
    }
    assert_eq!(worker.stop(), Some(0));
    manager.until("STOPPING=1");
}

#[test]
fn a_standby_is_ready_and_lives_too() {
    let (mut manager, place) = Manager::of("manager");
    let first = place.start_unready();
    manager.until("STATUS=running\n");
    let second = place.start_with(&["run", "--standby"]);
    manager.until("READY=1\nSTATUS=standing by\n");
    first.kill();
    manager.until("WATCHDOG=1");
    manager.until("READY=1\nSTATUS=running\n");
    assert_eq!(second.stop(), Some(0));
}
