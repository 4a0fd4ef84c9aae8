//! What handlers are given: bodies, queries and paths, or the problem with them.

use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, header, request::Parts},
};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, IgnoredAny},
};

use super::{
    limits::{BODY_MAX, BODY_TIME},
    problem::{Kind, Problem},
};

/// How much of somebody else's words is repeated.
const REPEATED_MAX: usize = 300;

/// A body that is JSON.
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        must_be_json(request.headers())?;
        let bytes = read(request.into_body()).await?;
        parse(&bytes).map(Self)
    }
}

/// A web page cannot send this without asking first, and is not answered when it asks.
fn must_be_json(headers: &HeaderMap) -> Result<(), Problem> {
    let named = headers.get(header::CONTENT_TYPE);
    let named = named.and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = named.split(';').next().unwrap_or("").trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let found = if named.is_empty() {
        "there is no `Content-Type`".to_owned()
    } else {
        format!("`Content-Type` is `{}`", brief(named))
    };
    Err(Kind::NotJson
        .because(found)
        .help("send `Content-Type: application/json`, and `{}` where there is nothing to say"))
}

/// The whole body, within its limits of size and time.
async fn read(body: Body) -> Result<Bytes, Problem> {
    if let Some(length) = http_body::Body::size_hint(&body).exact()
        && length > BODY_MAX
    {
        return Err(too_large());
    }
    let limit = usize::try_from(BODY_MAX).unwrap_or(usize::MAX);
    let reading = Limited::new(body, limit).collect();
    match tokio::time::timeout(BODY_TIME, reading).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_broken)) => Err(Kind::BadRequest.because("the body broke off")),
        Err(_elapsed) => Err(Kind::TooSlow.because(format!(
            "the body did not come within {} s",
            BODY_TIME.as_secs()
        ))),
    }
}

fn too_large() -> Problem {
    Kind::TooLarge
        .because(format!("the body has more than {BODY_MAX} bytes"))
        .help(format!("a body has at most {BODY_MAX} bytes"))
        .header(header::CONNECTION, "close")
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let is_object = bytes.trim_ascii_start().starts_with(b"{");
    // Lists would be taken for the fields of an object in their order.
    let read = if is_object {
        serde_json::from_slice(bytes)
    } else {
        serde_json::from_slice(bytes).and_then(|other: IgnoredAny| Err(not_an_object(other)))
    };
    read.map_err(|error| {
        let kind = match error.classify() {
            serde_json::error::Category::Data => Kind::Unprocessable,
            serde_json::error::Category::Io
            | serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof => Kind::BadRequest,
        };
        let what = if kind == Kind::BadRequest {
            "the body is not JSON: "
        } else {
            ""
        };
        kind.because(brief(&format!("{what}{error}")))
            .help("`GET /openapi.json` says what the body is")
    })
}

fn not_an_object(_: IgnoredAny) -> serde_json::Error {
    serde::de::Error::custom("the body is not an object")
}

/// An instant, as a request has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instant(pub(super) Timestamp);

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(given: D) -> Result<Self, D::Error> {
        let text = String::deserialize(given)?;
        text.parse().map(Self).map_err(|_| {
            D::Error::custom(format!(
                "`{}` is no instant; accepted: RFC 3339, such as `2026-12-01T07:00:00Z`",
                brief(&text)
            ))
        })
    }
}

/// The query of a request.
pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let read = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        match read {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(error) => {
                let source = std::error::Error::source(&error);
                let words = source.map_or_else(|| error.to_string(), ToString::to_string);
                Err(Kind::Unprocessable
                    .because(format!("the query is not accepted: {}", brief(&words)))
                    .help("`GET /openapi.json` says what the query may have"))
            }
        }
    }
}

/// The name, or the number, that a path has in its place for one.
pub(super) struct Named(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let named = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        match named {
            Ok(axum::extract::Path(name)) => Ok(Self(name)),
            Err(error) => Err(Kind::BadRequest.because(format!("the path: {}", error.body_text()))),
        }
    }
}

impl Named {
    /// The number that it is; what is none names nothing.
    pub(super) fn number(&self, kind: Kind, what: &str) -> Result<i64, Problem> {
        self.0.parse().map_err(|_| {
            kind.because(format!("there is no {what} `{}`", brief(&self.0)))
                .help(format!("a {what} has a number"))
        })
    }
}

/// Somebody else's words, as much of them as is worth repeating, on one line.
pub(super) fn brief(text: &str) -> String {
    let is_plain = |c: char| !c.is_control();
    let plain: String = text.chars().filter(|c| is_plain(*c)).collect();
    match plain.char_indices().nth(REPEATED_MAX) {
        Some((at, _)) => format!("{}…", &plain[..at]),
        None => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_json_is_refused_with_its_place() {
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        for (text, says) in [
            (deep.as_bytes(), "recursion limit"),
            (b"{\"a\": \xff}".as_slice(), "the body is not JSON"),
            (b"{\"a\": 1e999}".as_slice(), "number out of range"),
            (b"".as_slice(), "EOF"),
            (b"{} {}".as_slice(), "trailing characters"),
            (b"[".as_slice(), "EOF"),
        ] {
            let problem = parse::<serde_json::Value>(text).unwrap_err();
            let problem = serde_json::to_value(problem.details()).unwrap();
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains(says), "{detail}");
            assert_eq!(problem["status"], 400);
        }
    }

    #[test]
    fn a_list_is_no_object() {
        #[derive(Debug, serde::Deserialize)]
        struct Said {
            #[expect(dead_code, reason = "it is never read")]
            word: Option<u8>,
        }
        assert!(parse::<Said>(b" {}").is_ok());
        for text in ["[]", "[1]", "null", "7", "\"x\""] {
            let problem = parse::<Said>(text.as_bytes()).unwrap_err();
            let problem = serde_json::to_value(problem.details()).unwrap();
            assert_eq!(problem["status"], 422, "{text}");
        }
    }

    #[test]
    fn repeated_words_are_short_and_plain() {
        assert_eq!(brief("a\u{1b}[31m\nb\0"), "a[31mb");
        assert_eq!(brief(&"ü".repeat(1000)).chars().count(), 301);
    }
}
