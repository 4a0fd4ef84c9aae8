//! Errors as problem details (RFC 9457): what was found, and what is accepted.

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::store::StoreError;

/// The media type of a problem.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// Why a request was not followed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Problem {
    kind: Kind,
    detail: String,
    help: Option<String>,
    problems: Vec<Wrong>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Why a request was not followed.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct Details<'a> {
    /// What kind of problem it is: `urn:chatcron:problem:` and the code.
    #[serde(rename = "type")]
    kind: String,
    /// A stable word for the kind.
    code: &'static str,
    /// The kind in words, the same for every problem of it.
    title: &'static str,
    status: u16,
    /// What was found.
    detail: &'a str,
    /// What is accepted, or what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
    /// Everything that is wrong with a job's definition.
    #[serde(skip_serializing_if = "<[Wrong]>::is_empty")]
    problems: &'a [Wrong],
}

/// One mistake in a job's definition.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct Wrong {
    /// A stable word; docs/commands.md lists them with `check`.
    pub(super) code: &'static str,
    /// What was found.
    pub(super) message: String,
    /// What is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) help: Option<String>,
}

/// The kinds of problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    BadRequest,
    NotJson,
    Unprocessable,
    Unauthorized,
    ForeignOrigin,
    NoSuchPath,
    MethodNotAllowed,
    UnknownJob,
    UnknownRun,
    UnknownChat,
    UnknownTurn,
    UnknownPart,
    JobExists,
    StaleRevision,
    FileJob,
    Refused,
    PartState,
    KeyReused,
    TooOld,
    WrongDefinition,
    TooLarge,
    PathTooLong,
    HeadTooLarge,
    TooSlow,
    Busy,
    Unavailable,
}

impl Kind {
    /// Its status, its word and its title.
    #[expect(clippy::too_many_lines, reason = "one table of all kinds")]
    fn spelled(self) -> (StatusCode, &'static str, &'static str) {
        use StatusCode as S;
        match self {
            Self::BadRequest => (S::BAD_REQUEST, "bad-request", "The request cannot be read"),
            Self::NotJson => (
                S::UNSUPPORTED_MEDIA_TYPE,
                "not-json",
                "The body is not said to be JSON",
            ),
            Self::Unprocessable => (
                S::UNPROCESSABLE_ENTITY,
                "unprocessable",
                "The request says something that is not accepted",
            ),
            Self::Unauthorized => (S::UNAUTHORIZED, "unauthorized", "A token is required"),
            Self::ForeignOrigin => (
                S::FORBIDDEN,
                "foreign-origin",
                "The request comes by way of a web page",
            ),
            Self::NoSuchPath => (S::NOT_FOUND, "no-such-path", "Nothing is here"),
            Self::MethodNotAllowed => (
                S::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "The method is not one of this path",
            ),
            Self::UnknownJob => (S::NOT_FOUND, "unknown-job", "There is no such job"),
            Self::UnknownRun => (S::NOT_FOUND, "unknown-run", "There is no such run"),
            Self::UnknownChat => (S::NOT_FOUND, "unknown-chat", "There is no such chat"),
            Self::UnknownTurn => (S::NOT_FOUND, "unknown-turn", "There is no such turn"),
            Self::UnknownPart => (S::NOT_FOUND, "unknown-part", "There is no such part"),
            Self::JobExists => (S::CONFLICT, "job-exists", "The job exists already"),
            Self::StaleRevision => (
                S::CONFLICT,
                "stale-revision",
                "The job was changed meanwhile",
            ),
            Self::FileJob => (S::CONFLICT, "file-job", "A jobs file defines the job"),
            Self::Refused => (S::CONFLICT, "refused", "The job does not allow it now"),
            Self::PartState => (
                S::CONFLICT,
                "part-state",
                "The state of the part does not allow it",
            ),
            Self::KeyReused => (
                S::UNPROCESSABLE_ENTITY,
                "key-reused",
                "The idempotency key stands for another message",
            ),
            Self::TooOld => (
                S::UNPROCESSABLE_ENTITY,
                "too-old",
                "The request is older than what is remembered",
            ),
            Self::WrongDefinition => (
                S::UNPROCESSABLE_ENTITY,
                "wrong-definition",
                "The definition of the job is wrong",
            ),
            Self::TooLarge => (S::PAYLOAD_TOO_LARGE, "too-large", "The body is too large"),
            Self::PathTooLong => (S::URI_TOO_LONG, "path-too-long", "The path is too long"),
            Self::HeadTooLarge => (
                S::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "head-too-large",
                "The head of the request is too large",
            ),
            Self::TooSlow => (S::REQUEST_TIMEOUT, "too-slow", "The request took too long"),
            Self::Busy => (
                S::SERVICE_UNAVAILABLE,
                "busy",
                "Too much is asked for at once",
            ),
            Self::Unavailable => (
                S::SERVICE_UNAVAILABLE,
                "unavailable",
                "It cannot be done at the moment",
            ),
        }
    }

    /// A problem of this kind; `detail` is what was found.
    pub(super) fn because(self, detail: impl Into<String>) -> Problem {
        Problem {
            kind: self,
            detail: detail.into(),
            help: None,
            problems: Vec::new(),
            headers: Vec::new(),
        }
    }
}

impl Problem {
    /// The same, with what is accepted.
    pub(super) fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// The same, with everything that is wrong.
    pub(super) fn problems(mut self, problems: Vec<Wrong>) -> Self {
        self.problems = problems;
        self
    }

    /// The same, with a header.
    pub(super) fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.push((name, HeaderValue::from_static(value)));
        self
    }
}

impl Problem {
    /// What the body says.
    pub(super) fn details(&self) -> Details<'_> {
        let (status, code, title) = self.kind.spelled();
        Details {
            kind: format!("urn:chatcron:problem:{code}"),
            code,
            title,
            status: status.as_u16(),
            detail: &self.detail,
            help: self.help.as_deref(),
            problems: &self.problems,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, ..) = self.kind.spelled();
        let body = serde_json::to_string(&self.details()).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
        response.headers_mut().extend(self.headers);
        response
    }
}

/// The store's own words may name files and servers: they go to the log.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::WrongPartState { part, .. } => Kind::PartState
                .because(error.to_string())
                .help(format!("`GET /v1/outbox/{part}` says how it stands")),
            StoreError::PartUnderWay { part } => Kind::PartState
                .because(error.to_string())
                .help(format!("`GET /v1/outbox/{part}` says what comes of it")),
            StoreError::NoMessageId { .. } => Kind::Unprocessable
                .because(error.to_string())
                .help("leave `message_id` out where the id is not known"),
            StoreError::NoSuchPart { .. } => Kind::UnknownPart
                .because(error.to_string())
                .help("`GET /v1/outbox` lists the parts"),
            StoreError::Unavailable { .. }
            | StoreError::Busy { .. }
            | StoreError::Full { .. }
            | StoreError::Held { .. }
            | StoreError::Newer { .. }
            | StoreError::Unapplied { .. }
            | StoreError::Older { .. }
            | StoreError::Corrupt { .. } => {
                tracing::warn!(%error, "a request could not read or write the store");
                Kind::Unavailable
                    .because("the store cannot be read or written at the moment; the log says why")
                    .help("try again later")
                    .header(header::RETRY_AFTER, "5")
            }
        }
    }
}
