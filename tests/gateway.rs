//! The example of a gateway, as a person runs it: its exit code says whether the histories are what
//! its own log has.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

#[test]
fn the_example_gateway_proves_its_histories_against_its_own_log() {
    let folder = tempfile::tempdir().unwrap();
    let ran = Command::new(program()).arg(folder.path()).output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}\n{errors}");
    assert!(told.contains("messages agree, 1 alert"), "{told}");
    let log = std::fs::read_to_string(folder.path().join("board.jsonl")).unwrap();
    let announced = log.matches("The research that you asked for is done.");
    assert_eq!(announced.count(), 1, "{log}");
    assert_eq!(log.matches("Answer 2").count(), 1, "{log}");
}

/// `target/PROFILE/examples/gateway`. A plain `cargo test` builds it with the tests; a run of this
/// file alone does not, so it is built here where it is missing.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let name = format!("gateway{}", std::env::consts::EXE_SUFFIX);
    let program = profile.join("examples").join(name);
    if !program.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--example", "gateway"]);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(
            build.status().unwrap().success(),
            "the example does not build"
        );
    }
    program
}
