//! What a turn lets an agent do: tools, as a trait that the shell implements.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use crate::replay::Tool;

/// One call of a tool, as a model made it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The id that its result repeats.
    pub id: String,
    /// The tool; whatever the model wrote.
    pub name: String,
    /// Its arguments; whatever the model wrote.
    pub input: Value,
}

/// What a call came to, for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// In words or JSON.
    pub content: String,
    /// Whether nothing was done.
    pub is_error: bool,
}

impl ToolOutput {
    /// Something was done or found.
    pub fn done(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            is_error: false,
        }
    }

    /// Nothing was done, and why, with what would be accepted.
    pub fn refused(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            is_error: true,
        }
    }
}

/// What can be done during one turn.
#[async_trait]
pub trait Tools: Send + Sync {
    /// What is offered, always in one order.
    fn offered(&self) -> &[Tool];

    /// Makes one call. Calls of a turn are made one after the other, in their order. A call that
    /// cannot be made, whatever is wrong with it, is an output that says so.
    async fn call(&self, call: &ToolCall) -> ToolOutput;
}

/// The tools of one turn, or none.
#[derive(Clone, Default)]
pub struct Toolbox(Option<Arc<dyn Tools>>);

impl Toolbox {
    /// A box with these tools.
    pub fn new(tools: Arc<dyn Tools>) -> Self {
        Self(Some(tools))
    }

    /// What is offered.
    pub fn offered(&self) -> &[Tool] {
        self.0.as_ref().map_or(&[], |tools| tools.offered())
    }

    /// Makes one call.
    pub async fn call(&self, call: &ToolCall) -> ToolOutput {
        match &self.0 {
            Some(tools) => tools.call(call).await,
            None => ToolOutput::refused("there are no tools"),
        }
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.offered().iter().map(|tool| tool.name);
        f.debug_list().entries(names).finish()
    }
}
