//! Instants.

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// An instant: RFC 3339, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = DateTime)]
pub(crate) struct At(pub(crate) Timestamp);
