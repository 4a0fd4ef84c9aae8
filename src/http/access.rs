//! Who may ask: a token, and no web page.
//!
//! Without a token the API is on a loopback address only, where any program of this machine may use
//! it. A browser is such a program and does what web pages say, so a request is refused that a page
//! of another origin can have caused: by its `Origin`, by `Sec-Fetch-Site`, and by a `Host` that is
//! not this machine's (a name that was rebound to it). With a token none of these matters, because
//! no page has it.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::secret::SecretString;

use super::{
    extract::brief,
    problem::{Kind, Problem},
};

/// The environment variable that holds the token.
pub const TOKEN_VARIABLE: &str = "CHATCRON_TOKEN";

/// The least bytes of a token where other machines can try to guess it.
pub const TOKEN_MIN: usize = 16;

/// Why the API cannot be where it was asked to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(
    clippy::enum_variant_names,
    reason = "each says what is wrong with the token"
)]
pub enum AccessError {
    /// Other machines could reach it, and anybody could use it.
    #[error("{address} is not a loopback address, and there is no token: other machines need one")]
    NoToken {
        /// Where it was asked to be.
        address: SocketAddr,
    },
    /// Other machines could reach it, and guess the token.
    #[error(
        "{address} is not a loopback address, and the token has {found} bytes: it needs {TOKEN_MIN} \
         or more"
    )]
    ShortToken {
        /// Where it was asked to be.
        address: SocketAddr,
        /// How many bytes the token has.
        found: usize,
    },
    /// The token is there and says nothing.
    #[error("the token is empty")]
    EmptyToken,
    /// No request could carry the token.
    #[error("the token has {found:?}: a header carries letters, digits and signs of ASCII alone")]
    UnsendableToken {
        /// The first character that no header carries.
        found: char,
    },
}

/// Who may ask.
#[derive(Clone)]
pub struct Access {
    /// The digest of the token, if there is one: digests are of one length, so that comparing them
    /// tells nothing of the token's.
    token: Option<Arc<[u8; 32]>>,
    is_guessable: bool,
}

impl Access {
    /// The rule for an address.
    ///
    /// # Errors
    /// [`AccessError`] where anybody could use it from elsewhere.
    pub fn new(address: SocketAddr, token: Option<&SecretString>) -> Result<Self, AccessError> {
        let is_loopback = address.ip().to_canonical().is_loopback();
        let token = token.map(|token| token.expose_secret().trim());
        match token {
            Some("") => Err(AccessError::EmptyToken),
            Some(token) if let Some(found) = token.chars().find(is_unsendable) => {
                Err(AccessError::UnsendableToken { found })
            }
            Some(token) if is_short(token) && !is_loopback => Err(AccessError::ShortToken {
                address,
                found: token.len(),
            }),
            None if !is_loopback => Err(AccessError::NoToken { address }),
            token => Ok(Self {
                is_guessable: token.is_some_and(is_short),
                token: token.map(|token| Arc::new(digest(token))),
            }),
        }
    }

    /// Whether the token is so short that it can be guessed.
    pub fn is_guessable(&self) -> bool {
        self.is_guessable
    }

    fn allows(&self, headers: &HeaderMap, target: Option<&Authority>) -> Result<(), Problem> {
        match &self.token {
            Some(token) => has_token(token, headers),
            None => comes_from_no_page(headers, target),
        }
    }
}

/// Whether no header carries the character as it is.
fn is_unsendable(character: &char) -> bool {
    !character.is_ascii_graphic() && *character != ' '
}

fn is_short(token: &str) -> bool {
    token.len() < TOKEN_MIN
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// Lets a request through that may ask.
pub(super) async fn guard(State(access): State<Access>, request: Request, next: Next) -> Response {
    match access.allows(request.headers(), request.uri().authority()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn has_token(token: &[u8; 32], headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.to_str().ok());
    let bearer = given.and_then(|value| {
        let (scheme, rest) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| rest.trim())
    });
    let detail = match (given, bearer) {
        (_, Some(bearer)) if bool::from(digest(bearer).ct_eq(token)) => return Ok(()),
        (_, Some(_)) => "the token is not the one that is accepted",
        (Some(_), None) => "`Authorization` names no bearer token",
        (None, None) => "there is no `Authorization`",
    };
    Err(Kind::Unauthorized
        .because(detail)
        .help(format!(
            "send `Authorization: Bearer` and the token; `chatcron run` has it in {TOKEN_VARIABLE}"
        ))
        .header(header::WWW_AUTHENTICATE, "Bearer realm=\"chatcron\""))
}

fn comes_from_no_page(headers: &HeaderMap, target: Option<&Authority>) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = match (target, text("host")) {
        (Some(target), _) => target.as_str().to_owned(),
        (None, Some(host)) => host.to_owned(),
        (None, None) => String::new(),
    };
    if !is_this_machine(&host) {
        return Err(Kind::ForeignOrigin
            .because(format!("`Host` is `{}`", brief(&host)))
            .help("without a token the API is used by a loopback address or as `localhost`"));
    }
    let is_own = |origin: &str| origin.eq_ignore_ascii_case(&format!("http://{host}"));
    if let Some(origin) = text("origin").filter(|origin| !is_own(origin)) {
        return Err(foreign(&format!("`Origin` is `{}`", brief(origin))));
    }
    let is_foreign = |site: &&str| ["cross-site", "same-site"].contains(site);
    if let Some(site) = text("sec-fetch-site").filter(is_foreign) {
        return Err(foreign(&format!("`Sec-Fetch-Site` is `{site}`")));
    }
    Ok(())
}

fn foreign(detail: &str) -> Problem {
    Kind::ForeignOrigin.because(detail).help(format!(
        "web pages may not use the API without a token; `chatcron run` takes one from {TOKEN_VARIABLE}"
    ))
}

/// Whether a `Host` is an address or the name of this machine's loopback, with or without a port.
fn is_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host();
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    name.eq_ignore_ascii_case("localhost") || bare.unwrap_or(name).parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap()))
            .collect::<HeaderMap>()
    }

    fn access(token: Option<&str>) -> Access {
        let token = token.map(SecretString::from);
        Access::new("127.0.0.1:80".parse().unwrap(), token.as_ref()).unwrap()
    }

    #[test]
    fn other_machines_need_a_token() {
        for (address, is_open) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("192.168.1.4:1", false),
        ] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(Access::new(address, None).is_ok(), is_open, "{address}");
            let token = SecretString::from("a-token-of-sixteen-bytes");
            assert!(Access::new(address, Some(&token)).is_ok());
            let short = Access::new(address, Some(&SecretString::from("a")));
            assert_eq!(short.is_ok(), is_open, "{address}");
            assert!(short.map_or(true, |access| access.is_guessable()));
            let empty = SecretString::from(" ");
            assert!(Access::new(address, Some(&empty)).is_err());
        }
    }

    #[test]
    fn a_token_is_asked_for_on_loopback_too() {
        let access = access(Some("s3cret"));
        let allowed = |value: &str| {
            let headers = headers(&[("host", "example.org"), ("authorization", value)]);
            access.allows(&headers, None).is_ok()
        };
        assert!(allowed("Bearer s3cret"));
        assert!(allowed("bearer  s3cret"));
        for wrong in [
            "Bearer s3cre",
            "Bearer s3crets",
            "Bearer ",
            "Basic s3cret",
            "s3cret",
        ] {
            assert!(!allowed(wrong), "{wrong}");
        }
        assert!(
            access
                .allows(&headers(&[("host", "localhost")]), None)
                .is_err()
        );
    }

    #[test]
    fn without_a_token_no_page_can_ask() {
        let access = access(None);
        let allowed = |pairs: &[(&'static str, &str)]| access.allows(&headers(pairs), None).is_ok();
        assert!(allowed(&[("host", "127.0.0.1:8080")]));
        assert!(allowed(&[("host", "localhost")]));
        assert!(allowed(&[("host", "[::1]:8080")]));
        assert!(allowed(&[
            ("host", "127.0.0.1:80"),
            ("origin", "http://127.0.0.1:80")
        ]));
        assert!(allowed(&[
            ("host", "localhost"),
            ("sec-fetch-site", "same-origin")
        ]));
        for wrong in [
            &[][..],
            &[("host", "rebound.example")],
            &[("host", "localhost.example")],
            &[("host", "10.0.0.1")],
            &[("host", "localhost"), ("origin", "https://evil.example")],
            &[("host", "localhost"), ("origin", "null")],
            &[
                ("host", "localhost:80"),
                ("origin", "http://localhost:3000"),
            ],
            &[("host", "localhost"), ("sec-fetch-site", "cross-site")],
            &[("host", "localhost"), ("sec-fetch-site", "same-site")],
        ] {
            assert!(!allowed(wrong), "{wrong:?}");
        }
    }
}
