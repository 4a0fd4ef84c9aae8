//! What an answer of the Bot API says about a message.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    http_client::{BodyError, one_line},
    message::{Receipt, RefusalScope, SendAnswer, StopsAddress},
};

/// An answer, with its result in the form that its reader wants.
#[derive(Debug, Deserialize)]
pub(super) struct Answer<R> {
    pub(super) ok: bool,
    pub(super) result: Option<R>,
    pub(super) error_code: Option<u16>,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    parameters: Parameters,
}

impl<R> Answer<R> {
    /// How long it asks to wait.
    pub(super) fn wait(&self) -> Option<SignedDuration> {
        let seconds = self.parameters.retry_after?;
        Some(SignedDuration::from_secs(i64::from(seconds)))
    }
}

#[derive(Debug, Default, Deserialize)]
struct Parameters {
    retry_after: Option<u32>,
    migrate_to_chat_id: Option<i64>,
}

/// Reads an answer. `header_wait` is what a `Retry-After` header asked for.
///
/// A 429 binds the chat that was addressed: the API does not say whether a limit is the chat's or
/// the bot's, and a bot's limit is answered to every chat in turn.
pub(super) fn read(
    status: u16,
    header_wait: Option<SignedDuration>,
    body: Result<Vec<u8>, BodyError>,
) -> SendAnswer {
    let answer = body
        .map_err(|error| error.to_string())
        .and_then(|body| parsed::<Value>(&body));
    let answer = match answer {
        Ok(answer) => answer,
        Err(why) => return by_status(status, header_wait, &why),
    };
    if answer.ok {
        return shown(status, &answer.result.unwrap_or_default());
    }
    if let Some(to) = answer.parameters.migrate_to_chat_id {
        return SendAnswer::Moved { to: to.to_string() };
    }
    let code = answer.error_code.unwrap_or(status);
    let wait = answer.wait();
    let said = one_line(&answer.description);
    match code {
        403 => SendAnswer::Permanent {
            why: format!("{code} {said}"),
            stops_address: StopsAddress::Yes,
        },
        _ => by_status(code, wait.or(header_wait), &said),
    }
}

/// What proves that a message was shown: the message; several for a group of media, of which the
/// first is as good a proof.
fn shown(status: u16, result: &Value) -> SendAnswer {
    let message = result.get(0).unwrap_or(result);
    let id = message.get("message_id").and_then(Value::as_i64);
    match id {
        Some(id) if (200..300).contains(&status) => SendAnswer::Receipt(Receipt {
            message_id: id.to_string(),
            shown_at: message
                .get("date")
                .and_then(Value::as_i64)
                .and_then(|at| Timestamp::from_second(at).ok()),
        }),
        Some(_) | None => SendAnswer::Ambiguous {
            why: format!("{status} without a message id"),
        },
    }
}

/// The JSON of an answer.
pub(super) fn parsed<R: DeserializeOwned>(body: &[u8]) -> Result<Answer<R>, String> {
    // The error of the parser could quote the body; its place is enough.
    serde_json::from_slice(body).map_err(|error| {
        format!(
            "the answer is not the Bot API's JSON (line {}, column {})",
            error.line(),
            error.column()
        )
    })
}

fn by_status(status: u16, wait: Option<SignedDuration>, said: &str) -> SendAnswer {
    let why = format!("{status} {said}");
    match status {
        429 => SendAnswer::Refused {
            retry_after: wait,
            scope: RefusalScope::Chat,
            why,
        },
        408 => SendAnswer::Ambiguous { why },
        300..=499 => SendAnswer::Permanent {
            why,
            stops_address: StopsAddress::No,
        },
        _ => SendAnswer::Ambiguous { why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(status: u16, body: &str) -> String {
        match read(status, None, Ok(body.as_bytes().to_vec())) {
            SendAnswer::Receipt(receipt) => format!(
                "receipt {} {}",
                receipt.message_id,
                receipt.shown_at.map_or(0, |at| at.as_second())
            ),
            SendAnswer::Refused { retry_after, .. } => {
                format!("refused {}", retry_after.map_or(-1, |wait| wait.as_secs()))
            }
            SendAnswer::Permanent { stops_address, .. } => format!("permanent {stops_address:?}"),
            SendAnswer::Moved { to } => format!("moved {to}"),
            SendAnswer::Ambiguous { .. } => "ambiguous".to_owned(),
        }
    }

    #[test]
    fn every_answer_has_its_class() {
        let table = [
            (
                200,
                r#"{"ok":true,"result":{"message_id":7,"date":99,"chat":{}}}"#,
                "receipt 7 99",
            ),
            (
                200,
                r#"{"ok":true,"result":{"message_id":7}}"#,
                "receipt 7 0",
            ),
            (200, r#"{"ok":true,"result":{"date":99}}"#, "ambiguous"),
            (
                200,
                r#"{"ok":true,"result":[{"message_id":8},{"message_id":9}]}"#,
                "receipt 8 0",
            ),
            (200, r#"{"ok":true,"result":true}"#, "ambiguous"),
            (200, r#"{"ok":true}"#, "ambiguous"),
            (200, r#"{"ok":true,"result":{"message"#, "ambiguous"),
            (200, "<html>", "ambiguous"),
            (200, r#"{"ok":false,"description":"?"}"#, "ambiguous"),
            (
                500,
                r#"{"ok":false,"error_code":500,"description":"x"}"#,
                "ambiguous",
            ),
            (502, "bad gateway", "ambiguous"),
            (502, r#"{"ok":true,"result":{"message_id":7}}"#, "ambiguous"),
            (408, "", "ambiguous"),
            (302, "", "permanent No"),
            (404, "not here", "permanent No"),
            (403, "some proxy", "permanent No"),
            (429, "slow down", "refused -1"),
            (
                429,
                r#"{"ok":false,"error_code":429,"description":"Too Many","parameters":{"retry_after":3}}"#,
                "refused 3",
            ),
            (
                400,
                r#"{"ok":false,"error_code":400,"description":"up","parameters":{"migrate_to_chat_id":-100200}}"#,
                "moved -100200",
            ),
            (
                400,
                r#"{"ok":false,"error_code":400,"description":"chat not found"}"#,
                "permanent No",
            ),
            (
                401,
                r#"{"ok":false,"error_code":401,"description":"Unauthorized"}"#,
                "permanent No",
            ),
            (
                404,
                r#"{"ok":false,"error_code":404,"description":"Not Found"}"#,
                "permanent No",
            ),
            (
                403,
                r#"{"ok":false,"error_code":403,"description":"bot was blocked by the user"}"#,
                "permanent Yes",
            ),
        ];
        for (status, body, expected) in table {
            assert_eq!(class(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_body_that_broke_off_is_in_doubt_only_where_the_status_is() {
        let broken = || Err(BodyError::BrokeOff("reset".to_owned()));
        assert!(matches!(
            read(200, None, broken()),
            SendAnswer::Ambiguous { .. }
        ));
        assert!(matches!(
            read(400, None, broken()),
            SendAnswer::Permanent { .. }
        ));
        let wait = Some(SignedDuration::from_secs(9));
        assert!(matches!(
            read(429, wait, Err(BodyError::TooLong)),
            SendAnswer::Refused { retry_after, .. } if retry_after == wait
        ));
    }
}
