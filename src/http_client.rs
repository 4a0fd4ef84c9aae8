//! What all adapters that speak HTTP share: one client builder, bounded bodies, and the reading of
//! what went wrong, without URLs, which may hold secrets.

use std::{error::Error, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use reqwest::{Client, Response, header::HeaderMap, redirect::Policy};
use url::Url;

use crate::message::{RefusalScope, SendAnswer, StopsAddress};

mod guard;

pub(crate) use guard::check_literal;
use guard::{ForbiddenAddress, PublicOnly};

/// The most that is read of an answer.
pub(crate) const BODY_MAX: usize = 4 * 1024 * 1024;

/// How long the connection itself may take, look-up and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why an adapter cannot be set up. The texts hold no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpSetupError {
    /// The address of the service cannot be used.
    #[error("{what} is not an absolute `http` or `https` URL: {why}")]
    Url {
        /// Which address it is.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A secret is not of the form the service uses.
    #[error("{what}")]
    Credential {
        /// Which secret it is, and what is accepted.
        what: &'static str,
    },
    /// The HTTP client could not be made.
    #[error("cannot set up the HTTP client: {why}")]
    Client {
        /// What the client said.
        why: String,
    },
}

/// Which addresses may be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Any, by way of the environment's proxy if it names one.
    Anywhere,
    /// Any, but only directly.
    Direct,
    /// Only public ones, checked when connecting, and only directly.
    PublicOnly,
}

/// Makes a client. It follows no redirects, repeats nothing and keeps no connection: a request on
/// a kept connection that the server has just closed is in doubt, and on a channel without keys
/// that is a message nobody can account for. A fresh connection costs one handshake.
pub(crate) fn client(reach: Reach, timeout: Duration) -> Result<Client, HttpSetupError> {
    // The one place that chooses the TLS provider; an embedder's own choice, made earlier, stands.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(concat!("chatcron/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .pool_max_idle_per_host(0)
        .http1_only()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(timeout);
    let builder = match reach {
        Reach::Anywhere => builder,
        Reach::Direct => builder.no_proxy(),
        Reach::PublicOnly => builder.no_proxy().dns_resolver(Arc::new(PublicOnly)),
    };
    builder.build().map_err(|error| HttpSetupError::Client {
        why: describe(error),
    })
}

/// Reads the address of a service from the jobs file.
pub(crate) fn service_url(what: &'static str, text: &str) -> Result<Url, HttpSetupError> {
    let refused = |why: String| HttpSetupError::Url { what, why };
    let url = Url::parse(text.trim()).map_err(|error| refused(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused(format!("its scheme is `{}`", url.scheme())));
    }
    Ok(url)
}

/// How a service is reached: one on this machine never by way of a proxy.
pub(crate) fn reach_of(url: &Url) -> Reach {
    let is_here = match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    };
    if is_here {
        Reach::Direct
    } else {
        Reach::Anywhere
    }
}

/// What is known about a request that got no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection came about, so nothing was said.
    NotConnected(String),
    /// The address is one that may not be connected to, or the request cannot be made.
    Impossible(String),
    /// Bytes may have left.
    InDoubt(String),
}

impl Failure {
    /// What this means for a message.
    pub(crate) fn into_answer(self, scope: RefusalScope) -> SendAnswer {
        match self {
            Self::NotConnected(why) => SendAnswer::Refused {
                retry_after: None,
                scope,
                why,
            },
            Self::Impossible(why) => SendAnswer::Permanent {
                why,
                stops_address: StopsAddress::No,
            },
            Self::InDoubt(why) => SendAnswer::Ambiguous { why },
        }
    }
}

/// Tells a request that was certainly not made from one that may have been.
pub(crate) fn classify(error: reqwest::Error) -> Failure {
    if let Some(forbidden) = forbidden_in(&error) {
        return Failure::Impossible(forbidden.to_string());
    }
    if error.is_builder() {
        Failure::Impossible(describe(error))
    } else if error.is_connect() {
        Failure::NotConnected(describe(error))
    } else {
        Failure::InDoubt(describe(error))
    }
}

fn forbidden_in(error: &reqwest::Error) -> Option<&ForbiddenAddress> {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(forbidden) = inner.downcast_ref::<ForbiddenAddress>() {
            return Some(forbidden);
        }
        cause = inner.source();
    }
    None
}

/// The error and its causes on one line, without the URL.
pub(crate) fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = inner.source();
    }
    one_line(&text)
}

/// What a server said, short, and safe to print and to store.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(300)
        .collect()
}

/// Why a body was not read to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the answer is longer than {BODY_MAX} bytes")]
    TooLong,
    #[error("the answer broke off: {0}")]
    BrokeOff(String),
}

/// Reads a body, up to [`BODY_MAX`].
pub(crate) async fn body_of(mut response: Response) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > BODY_MAX => {
                return Err(BodyError::TooLong);
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) => return Err(BodyError::BrokeOff(describe(error))),
        }
    }
}

/// The wait that a `Retry-After` header asks for: seconds, or a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<SignedDuration> {
    let value = headers.get(reqwest::header::RETRY_AFTER)?.to_str().ok()?;
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(SignedDuration::from_secs(i64::from(seconds)));
    }
    let until = rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(until.duration_since(now).max(SignedDuration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_as_seconds_or_as_a_date() {
        let now: Timestamp = "2026-11-30T08:00:00Z".parse().unwrap();
        let table = [
            ("3", Some(3)),
            (" 120 ", Some(120)),
            ("Mon, 30 Nov 2026 08:01:00 GMT", Some(60)),
            ("Mon, 30 Nov 2026 07:00:00 GMT", Some(0)),
            ("soon", None),
            ("-5", None),
        ];
        for (value, seconds) in table {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", value.parse().unwrap());
            let wait = retry_after(&headers, now).map(|wait| wait.as_secs());
            assert_eq!(wait, seconds, "{value:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn an_address_that_is_no_http_url_is_refused_without_quoting_it() {
        for bad in ["", "ftp://h/", "api.example.org", "file:///etc/passwd"] {
            assert!(service_url("`api_root`", bad).is_err(), "{bad:?}");
        }
        let error = service_url("`url`", "gopher://secret@h/").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(service_url("`url`", "https://api.example.org/v1").is_ok());
    }

    #[tokio::test]
    async fn a_refused_connection_is_not_in_doubt_and_names_no_url() {
        let client = client(Reach::Direct, Duration::from_secs(5)).unwrap();
        // Port 1 of this machine: nothing listens there.
        let error = client
            .get("http://127.0.0.1:1/bot123:secret/x")
            .send()
            .await
            .unwrap_err();
        match classify(error) {
            Failure::NotConnected(why) => {
                assert!(
                    !why.contains("secret") && !why.contains("127.0.0.1:1/"),
                    "{why}"
                );
            }
            other @ (Failure::Impossible(_) | Failure::InDoubt(_)) => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_name_of_this_machine_is_refused_when_connecting() {
        let client = client(Reach::PublicOnly, Duration::from_secs(5)).unwrap();
        let error = client.get("http://localhost:1/").send().await.unwrap_err();
        assert!(matches!(classify(error), Failure::Impossible(why) if why.contains("private")));
    }
}
