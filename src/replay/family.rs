//! The families of requests, and the few rules in which they differ.

use serde_json::Value;

use crate::transcript::Role;

/// The families of requests, by what they demand of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// OpenAI's chat completions: two messages of one role may stand together.
    OpenAiChat,
    /// OpenAI's Responses: a list of items.
    OpenAiResponses,
    /// Anthropic's Messages: roles alternate, and a message is a list of blocks.
    AnthropicMessages,
    /// Gemini's generateContent: roles alternate, and a message is a list of parts.
    Gemini,
    /// Bedrock's Converse: roles alternate and begin with the user.
    BedrockConverse,
    /// Mistral's chat completions: roles alternate, ids of calls have nine characters, and a message
    /// has either words or calls.
    Mistral,
    /// Chat completions of servers that apply a model's strict chat template, such as llama.cpp and
    /// Ollama: roles alternate, and words beside a tool call would be dropped.
    StrictChat,
}

/// What happens to two messages of the user's role that stand together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserMessages {
    Separate,
    Joined,
}

/// What happens to words in the message that calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordsBesideCalls {
    Kept,
    /// They are a message of their own, before the one that calls.
    Apart,
}

/// How the id of a tool call may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdForm {
    /// Letters, digits, `_` and `-`.
    Plain,
    /// Letters and digits.
    Alphanumeric,
    /// Nine letters and digits.
    Nine,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 7] = [
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::AnthropicMessages,
        Self::Gemini,
        Self::BedrockConverse,
        Self::Mistral,
        Self::StrictChat,
    ];

    /// Its name for people and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::AnthropicMessages => "anthropic",
            Self::Gemini => "gemini",
            Self::BedrockConverse => "bedrock",
            Self::Mistral => "mistral",
            Self::StrictChat => "strict",
        }
    }

    pub(super) fn user_messages(self) -> UserMessages {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => UserMessages::Separate,
            Self::AnthropicMessages
            | Self::Gemini
            | Self::BedrockConverse
            | Self::Mistral
            | Self::StrictChat => UserMessages::Joined,
        }
    }

    pub(super) fn words_beside_calls(self) -> WordsBesideCalls {
        match self {
            Self::Mistral | Self::StrictChat => WordsBesideCalls::Apart,
            Self::OpenAiChat
            | Self::OpenAiResponses
            | Self::AnthropicMessages
            | Self::Gemini
            | Self::BedrockConverse => WordsBesideCalls::Kept,
        }
    }

    pub(super) fn id_form(self) -> IdForm {
        match self {
            Self::Mistral => IdForm::Nine,
            Self::Gemini => IdForm::Alphanumeric,
            Self::OpenAiChat
            | Self::OpenAiResponses
            | Self::AnthropicMessages
            | Self::BedrockConverse
            | Self::StrictChat => IdForm::Plain,
        }
    }

    /// Whether a provider's own block, kept as it came, can be given to this family.
    pub(super) fn carries(self, role: Role, block: &Value) -> bool {
        let kind = block.get("type").and_then(Value::as_str).unwrap_or("");
        let has = |key: &str| block.get(key).is_some();
        match (self, role) {
            (Self::OpenAiChat, Role::User) => kind == "image_url",
            (Self::OpenAiResponses, Role::User) => matches!(kind, "input_image" | "input_file"),
            // Without it the server looks for an item that it was asked not to keep.
            (Self::OpenAiResponses, Role::Assistant) => {
                kind == "reasoning" && has("encrypted_content")
            }
            (Self::AnthropicMessages, Role::User) => matches!(kind, "image" | "document"),
            (Self::AnthropicMessages, Role::Assistant) => {
                matches!(kind, "thinking" | "redacted_thinking")
            }
            (Self::Gemini, Role::User) => has("inlineData") || has("fileData"),
            (Self::Gemini, Role::Assistant) => kind == "thought_signature",
            (Self::BedrockConverse, Role::User) => has("image"),
            (Self::BedrockConverse, Role::Assistant) => has("reasoningContent"),
            (Self::OpenAiChat, Role::Assistant)
            | (Self::Mistral | Self::StrictChat, _)
            | (_, Role::Tool) => false,
        }
    }
}
