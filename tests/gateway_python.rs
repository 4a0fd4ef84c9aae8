//! The gateway in another language, run to its end: what its chats showed is what the transcripts
//! say.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::Command;

#[test]
fn a_gateway_in_python_is_verified_against_its_own_log() {
    if Command::new("python3").arg("--version").output().is_err() {
        let must = std::env::var_os("CHATCRON_REQUIRE_PYTHON").is_some();
        assert!(!must, "there is no python3");
        eprintln!("SKIPPED: there is no python3, and the gateway in it is not run");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/gateway.py");
    let ended = Command::new("python3")
        .args([script, env!("CARGO_BIN_EXE_chatcron")])
        .env_remove("CHATCRON_TOKEN")
        .env_remove("CHATCRON_DB")
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    let told = format!(
        "{}{}",
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    );
    assert!(ended.status.success(), "{told}");
    assert!(told.contains("verified: 2 chats, 12 messages"), "{told}");
    assert!(!told.contains("receipts only"), "{told}");
}
