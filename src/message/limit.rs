//! How long one message of a channel may be, and in which unit that is counted.

/// How long one message of a channel may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimit {
    /// The most units of one message; `None` where the channel sets no limit.
    pub max: Option<usize>,
    /// What is counted.
    pub unit: TextUnit,
}

/// What a channel counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextUnit {
    /// UTF-16 code units.
    Utf16,
    /// Unicode scalar values.
    Chars,
    /// Bytes of UTF-8.
    Bytes,
}

impl TextUnit {
    /// The length of a text in this unit.
    pub fn len_of(self, text: &str) -> usize {
        match self {
            Self::Utf16 => text.encode_utf16().count(),
            Self::Chars => text.chars().count(),
            Self::Bytes => text.len(),
        }
    }
}
