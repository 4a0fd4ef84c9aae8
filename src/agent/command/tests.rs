//! Real programs: what they are given, how they end, and that nothing of them is left.
#![cfg(unix)]

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::{
    agent::EffectReporter,
    ids::{AgentName, IdempotencyKey, JobId, SessionKey},
    transcript::{NewEntry, Role, TriggerSource},
};

fn turn(words: &str) -> AgentTurn {
    AgentTurn {
        agent: AgentName::new("helper").unwrap(),
        session_key: SessionKey::from_stored("cron:budget"),
        trigger: TriggerSource::Cron,
        job: Some(JobId::new("budget").unwrap()),
        key: IdempotencyKey::from_stored("KEY"),
        history: Vec::new(),
        prompt: vec![NewEntry::text(Role::User, words)],
        effects: EffectReporter::detached(),
        tools: crate::agent::Toolbox::default(),
    }
}

fn shell(script: &str) -> Command {
    let settings = CommandAgent {
        argv: vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()],
        env: BTreeMap::from([("GIVEN".to_owned(), "yes".to_owned())]),
        env_pass: Vec::new(),
        cwd: None,
        has_effects: false,
    };
    Command::new(settings, Some("Be brief.".to_owned()), std::env::temp_dir())
}

async fn ask(script: &str, words: &str) -> Result<AgentReply, AgentError> {
    let never = CancellationToken::new();
    shell(script).reply(&turn(words), &never).await
}

fn is_alive(pid: i32) -> bool {
    // A zombie that nobody has collected counts as ended.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn is_gone_soon(pid: i32) -> bool {
    for _ in 0..100 {
        if !is_alive(pid) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test]
async fn the_conversation_is_given_as_documented() {
    let given = ask("cat", "What is due?").await.unwrap().text;
    let given: Value = serde_json::from_str(&given).unwrap();
    assert_eq!(given["agent"], "helper");
    assert_eq!(given["session"], "cron:budget");
    assert_eq!(given["job"], "budget");
    assert_eq!(given["trigger"], "cron");
    assert_eq!(given["key"], "KEY");
    assert!(given["system"].as_str().unwrap().starts_with("Be brief."));
    assert_eq!(
        given["messages"],
        json!([{"role": "user", "content": "What is due?"}])
    );
}

#[tokio::test]
async fn the_environment_is_only_what_was_named() {
    let text = ask("env | cut -d= -f1 | sort", "").await.unwrap().text;
    for name in text.lines() {
        let expected = [
            "PATH", "HOME", "LANG", "TZ", "GIVEN", "PWD", "SHLVL", "_", "OLDPWD",
        ];
        assert!(expected.contains(&name), "{name}");
    }
    assert!(text.contains("GIVEN") && text.contains("PATH"));
}

#[tokio::test]
async fn an_exit_code_says_whether_another_try_helps() {
    assert_eq!(ask("echo '  hi '", "").await.unwrap().text, "hi");
    let secret = ask("echo token=s3cret >&2; exit 3", "").await.unwrap_err();
    assert_eq!(secret.to_string(), "the program ended with exit code 3");
    assert!(matches!(secret, AgentError::Permanent { .. }));
    for script in ["exit 75", "kill -9 $$"] {
        let error = ask(script, "").await.unwrap_err();
        assert!(matches!(error, AgentError::Transient { .. }), "{error}");
    }
    let mut missing = shell("");
    missing.settings.argv = vec!["./no-such-program".to_owned()];
    let error = missing
        .reply(&turn(""), &CancellationToken::new())
        .await
        .unwrap_err();
    assert!(matches!(error, AgentError::Permanent { .. }), "{error}");
}

#[tokio::test]
async fn full_and_closed_pipes_do_not_stop_anything() {
    let long = "x".repeat(3_000_000);
    assert_eq!(ask("echo done", &long).await.unwrap().text, "done");
    assert_eq!(
        ask("exec <&-; echo closed", &long).await.unwrap().text,
        "closed"
    );
    let error = ask("cat", &long).await.unwrap_err();
    assert!(error.to_string().contains("1048576 bytes"), "{error}");
    let noisy = "yes error | head -c 3000000 >&2; head -c 1000000 /dev/zero | tr '\\0' a";
    assert_eq!(ask(noisy, &long).await.unwrap().text.len(), 1_000_000);
    let endless = ask("yes", "").await.unwrap_err();
    assert!(matches!(endless, AgentError::Permanent { .. }));
    let binary = ask("printf '\\377'", "").await.unwrap_err();
    assert!(binary.to_string().contains("UTF-8"));
}

#[tokio::test]
async fn a_child_that_outlives_the_program_is_ended_with_it() {
    let pid = ask("sleep 300 & echo $!", "").await.unwrap().text;
    assert!(is_gone_soon(pid.parse().unwrap()).await);
}

/// Starts a program that notes its own and its child's process id, and waits for both.
async fn started(
    script: &str,
) -> (
    tokio::task::JoinHandle<Result<AgentReply, AgentError>>,
    CancellationToken,
    Vec<i32>,
) {
    let dir = tempfile::tempdir().unwrap();
    let note = dir.path().join("pids");
    let script = format!(
        "{script}; sleep 300 & echo $$ $! > {0}.new; mv {0}.new {0}; wait",
        note.display()
    );
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let task = tokio::spawn(async move { shell(&script).reply(&turn(""), &token).await });
    for _ in 0..250 {
        if let Ok(text) = std::fs::read_to_string(&note) {
            let pids = text
                .split_whitespace()
                .map(|pid| pid.parse().unwrap())
                .collect();
            return (task, cancel, pids);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the program did not start");
}

#[tokio::test]
async fn cancelling_ends_the_whole_group() {
    for script in ["true", "trap '' TERM"] {
        let (task, cancel, pids) = started(script).await;
        cancel.cancel();
        assert_eq!(task.await.unwrap(), Err(AgentError::Cancelled));
        for pid in pids {
            assert!(is_gone_soon(pid).await, "{script}");
        }
    }
}

#[tokio::test]
async fn an_abandoned_turn_leaves_no_process_behind() {
    let (task, _cancel, pids) = started("trap '' TERM").await;
    task.abort();
    for pid in pids {
        assert!(is_gone_soon(pid).await);
    }
}
