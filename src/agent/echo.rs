//! An agent without a model: it answers with the words it was asked.
//!
//! For trying a jobs file out and for tests. A prompt whose first line begins with `!` steers it;
//! the lines after it are the answer:
//!
//! | first line | what happens |
//! |---|---|
//! | `!sleep DURATION` | waits that long first, as in `!sleep 2s` |
//! | `!fail` | fails, as if another try could not help |
//! | `!fail transient` | fails, as if another try could help |
//!
//! Any other first line is part of the answer.

use std::time::Duration;

use async_trait::async_trait;
use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use super::{Agent, AgentError, AgentReply, AgentTurn};
use crate::transcript::Role;

/// Answers with the prompt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Echo;

#[async_trait]
impl Agent for Echo {
    async fn reply(
        &self,
        turn: &AgentTurn,
        cancel: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        let asked = turn
            .prompt
            .iter()
            .rev()
            .find(|row| row.role == Role::User)
            .map(|row| row.content.text())
            .unwrap_or_default();
        let (order, words) = read(&asked);
        match order {
            Order::Answer => {}
            Order::Sleep(time) => tokio::select! {
                () = cancel.cancelled() => {}
                () = tokio::time::sleep(time) => {}
            },
            Order::Fail(error) => return Err(error),
        }
        if cancel.is_cancelled() {
            return Err(AgentError::Cancelled);
        }
        Ok(AgentReply {
            text: words.to_owned(),
            ..AgentReply::default()
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Order {
    Answer,
    Sleep(Duration),
    Fail(AgentError),
}

fn read(asked: &str) -> (Order, &str) {
    let (first, rest) = asked.split_once('\n').unwrap_or((asked, ""));
    let order = match first.trim() {
        "!fail" => Some(Order::Fail(AgentError::Permanent {
            why: "the prompt asked for a failure".to_owned(),
        })),
        "!fail transient" => Some(Order::Fail(AgentError::Transient {
            why: "the prompt asked for a failure that passes".to_owned(),
        })),
        other => other
            .strip_prefix("!sleep ")
            .and_then(|time| time.trim().parse::<SignedDuration>().ok())
            .and_then(|time| Duration::try_from(time).ok())
            .map(Order::Sleep),
    };
    match order {
        Some(order) => (order, rest),
        None => (Order::Answer, asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_documented_first_lines_steer() {
        let table = [
            ("hello\n!fail", "hello\n!fail"),
            ("!sleep soon\nhi", "!sleep soon\nhi"),
            ("!failure", "!failure"),
            ("", ""),
        ];
        for (asked, answer) in table {
            assert_eq!(read(asked), (Order::Answer, answer));
        }
        let two = Duration::from_secs(2);
        assert_eq!(read("!sleep 2s\nhi\nyou"), (Order::Sleep(two), "hi\nyou"));
        assert!(matches!(
            read("!fail").0,
            Order::Fail(AgentError::Permanent { .. })
        ));
        assert!(matches!(
            read("!fail transient\n").0,
            Order::Fail(AgentError::Transient { .. })
        ));
    }
}
