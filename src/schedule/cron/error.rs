//! What is wrong with a cron expression, and where.

use std::ops::Range;

use crate::schedule::cron::Field;

/// What is wrong with a cron expression. Spans are bytes of the expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CronError {
    /// Too few fields or too many.
    #[error(
        "found {found} fields, accepted are 5 (minute hour day-of-month month day-of-week) or 6 (second first)"
    )]
    FieldCount {
        /// The fields that are too many, or the whole expression.
        span: Range<usize>,
        /// How many there are.
        found: usize,
        /// What to write instead.
        hint: Option<String>,
    },
    /// An `@name` that is not one.
    #[error(
        "`{found}` is unknown, accepted are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly"
    )]
    Nickname {
        /// The name.
        span: Range<usize>,
        /// The name as written.
        found: String,
        /// What to write instead.
        hint: Option<String>,
    },
    /// A part of a field that is not understood.
    #[error("`{found}` in the {field} field, accepted are {accepted}", accepted = .field.accepted())]
    Item {
        /// The part.
        span: Range<usize>,
        /// The field that it is in.
        field: Field,
        /// The part as written.
        found: String,
        /// What to write instead.
        hint: Option<String>,
    },
    /// A number outside the field.
    #[error("{found} in the {field} field, accepted are {accepted}", accepted = .field.accepted())]
    OutOfRange {
        /// The number.
        span: Range<usize>,
        /// The field that it is in.
        field: Field,
        /// The number as written.
        found: String,
    },
    /// A range whose end is before its start.
    #[error("range `{found}` in the {field} field ends before it starts")]
    WrapAround {
        /// The range.
        span: Range<usize>,
        /// The field that it is in.
        field: Field,
        /// The range as written.
        found: String,
        /// What to write instead.
        hint: Option<String>,
    },
    /// A step on a single value: `a/n`.
    #[error(
        "`{found}` in the {field} field steps from a single value, which programs read differently"
    )]
    StepFromValue {
        /// The part.
        span: Range<usize>,
        /// The field that it is in.
        field: Field,
        /// The part as written.
        found: String,
        /// The part that says it plainly.
        hint: Option<String>,
    },
    /// A step of zero, or one larger than the field.
    #[error("step {found} in the {field} field, accepted are 1 to {max}", max = .field.step_max())]
    Step {
        /// The step.
        span: Range<usize>,
        /// The field that it is in.
        field: Field,
        /// The step as written.
        found: String,
    },
    /// No date is ever named, such as 30 February.
    #[error("`{found}` names no date that ever comes")]
    NeverComes {
        /// The fields that name dates.
        span: Range<usize>,
        /// These fields as written.
        found: String,
    },
}

impl CronError {
    /// The bytes of the expression that are at fault.
    pub fn span(&self) -> Range<usize> {
        match self {
            Self::FieldCount { span, .. }
            | Self::Nickname { span, .. }
            | Self::Item { span, .. }
            | Self::OutOfRange { span, .. }
            | Self::WrapAround { span, .. }
            | Self::StepFromValue { span, .. }
            | Self::Step { span, .. }
            | Self::NeverComes { span, .. } => span.clone(),
        }
    }

    /// What to write instead, where that can be said.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::FieldCount { hint, .. }
            | Self::Nickname { hint, .. }
            | Self::Item { hint, .. }
            | Self::WrapAround { hint, .. }
            | Self::StepFromValue { hint, .. } => hint.as_deref(),
            Self::OutOfRange { .. } | Self::Step { .. } | Self::NeverComes { .. } => None,
        }
    }
}
