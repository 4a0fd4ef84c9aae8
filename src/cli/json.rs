//! JSON answers of commands.

use serde::Serialize;

/// A whole answer.
pub(super) fn text(value: &impl Serialize) -> String {
    // What commands print has string keys only, so that nothing of it can fail.
    let value = serde_json::to_value(value).unwrap_or_default();
    format!("{value:#}\n")
}
