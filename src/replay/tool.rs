//! What a model is offered to call.

use serde_json::Value;

/// A tool as a request declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Letters, digits and `_`.
    pub name: &'static str,
    /// What it does, for the model.
    pub description: &'static str,
    /// The JSON Schema of its arguments, an object.
    pub parameters: Value,
}

/// Whether an answer may call the tools that are declared. They are declared all the same, so that
/// the beginning of the request stays what it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolCalls {
    /// It may.
    #[default]
    Allowed,
    /// It has to be words.
    Forbidden,
}
