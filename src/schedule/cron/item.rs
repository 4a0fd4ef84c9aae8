//! One item of a field's comma-separated list.

use std::{cmp::Ordering, ops::Range};

use crate::schedule::cron::{CronError, Field};

/// What one item names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    /// Bit `v` for each value `v`; a Sunday written as 7 is bit 0.
    Values(u64),
    /// `L` in the day-of-month field.
    LastDay,
    /// `LW`.
    LastWorkday,
    /// `15W`.
    Nearest(u32),
    /// `MON#2`: the weekday and which of the month, from 1.
    Nth(u32, u32),
    /// `FRIL`.
    LastOf(u32),
}

/// A piece of the expression with its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'t> {
    pub(crate) text: &'t str,
    pub(crate) start: usize,
}

impl<'t> Piece<'t> {
    pub(crate) fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }

    /// The pieces before and after the first `mark`.
    fn split_at_mark(&self, mark: char) -> Option<(Self, Self)> {
        let at = self.text.find(mark)?;
        Some((
            self.part(0..at),
            self.part(at + mark.len_utf8()..self.text.len()),
        ))
    }

    fn part(&self, range: Range<usize>) -> Self {
        Self {
            start: self.start + range.start,
            text: &self.text[range],
        }
    }

    /// The pieces of a comma-separated list.
    pub(crate) fn list(self) -> impl Iterator<Item = Piece<'t>> {
        let mut start = self.start;
        self.text.split(',').map(move |text| {
            let piece = Piece { text, start };
            start += text.len() + 1;
            piece
        })
    }
}

/// Reads one item.
pub(crate) fn item(field: Field, piece: Piece<'_>) -> Result<Item, CronError> {
    if let Some((base, step)) = piece.split_at_mark('/') {
        return stepped(field, piece, base, step);
    }
    if piece.text == "*" {
        return Ok(Item::Values(values(
            field,
            field.min(),
            field.star_max(),
            1,
        )));
    }
    if let Some((low, high)) = piece.split_at_mark('-') {
        let (low, high) = range(field, piece, low, high)?;
        return Ok(Item::Values(values(field, low, high, 1)));
    }
    if let Some(special) = special(field, piece)? {
        return Ok(special);
    }
    let value = value(field, piece)?;
    Ok(Item::Values(values(field, value, value, 1)))
}

fn stepped(
    field: Field,
    whole: Piece<'_>,
    base: Piece<'_>,
    step: Piece<'_>,
) -> Result<Item, CronError> {
    let every = number(step).ok_or_else(|| unreadable(field, whole, None))?;
    if every == 0 || every > field.step_max() {
        return Err(CronError::Step {
            span: step.span(),
            field,
            found: step.text.to_owned(),
        });
    }
    let (low, high) = if base.text == "*" {
        (field.min(), field.star_max())
    } else if let Some((low, high)) = base.split_at_mark('-') {
        range(field, whole, low, high)?
    } else {
        let from = value(field, base)?;
        return Err(CronError::StepFromValue {
            span: whole.span(),
            field,
            found: whole.text.to_owned(),
            hint: Some(format!("{from}-{}/{every}", field.star_max())),
        });
    };
    Ok(Item::Values(values(field, low, high, every)))
}

/// The ends of a range, ascending. Sunday at the end of a range of weekdays is the seventh day.
fn range(
    field: Field,
    whole: Piece<'_>,
    low: Piece<'_>,
    high: Piece<'_>,
) -> Result<(u32, u32), CronError> {
    if low.text.is_empty() || high.text.is_empty() || high.text.contains('-') {
        return Err(unreadable(field, whole, None));
    }
    if let Some(bad) = [low, high].into_iter().find(|end| is_special(field, *end)) {
        let hint = "a range has plain values at both ends";
        return Err(unreadable(field, bad, Some(hint)));
    }
    let from = value(field, low)?;
    let written = value(field, high)?;
    let by_name = number(high).is_none();
    let to = if field == Field::DayOfWeek && written == 0 && by_name && from > 0 {
        7
    } else {
        written
    };
    if to < from {
        return Err(wrap_around(field, low, high, from, to));
    }
    Ok((from, to))
}

fn wrap_around(field: Field, low: Piece<'_>, high: Piece<'_>, from: u32, to: u32) -> CronError {
    // Weeks are cut before Monday, since Sunday can end a range and 7 says so.
    let (first, last) = match field {
        Field::DayOfWeek => (1, 7),
        Field::Second | Field::Minute | Field::Hour | Field::DayOfMonth | Field::Month => {
            (field.min(), field.max())
        }
    };
    let tail = if from == last {
        low.text.to_owned()
    } else {
        format!("{}-{last}", low.text)
    };
    let hint = match to.cmp(&first) {
        Ordering::Less => tail,
        Ordering::Equal => format!("{tail},{}", high.text),
        Ordering::Greater => format!("{tail},{first}-{}", high.text),
    };
    CronError::WrapAround {
        span: low.start..high.span().end,
        field,
        found: format!("{}-{}", low.text, high.text),
        hint: Some(hint),
    }
}

/// `L`, `LW`, `15W`, `MON#2` and `FRIL`, in the fields that have them.
fn special(field: Field, piece: Piece<'_>) -> Result<Option<Item>, CronError> {
    let upper = piece.text.to_ascii_uppercase();
    match field {
        Field::DayOfMonth => match upper.as_str() {
            "L" => Ok(Some(Item::LastDay)),
            "LW" => Ok(Some(Item::LastWorkday)),
            _ if upper.ends_with('W') => {
                let day = value(field, piece.part(0..piece.text.len() - 1))?;
                Ok(Some(Item::Nearest(day)))
            }
            _ => Ok(None),
        },
        Field::DayOfWeek => weekday_special(piece, &upper),
        Field::Second | Field::Minute | Field::Hour | Field::Month => Ok(None),
    }
}

fn weekday_special(piece: Piece<'_>, upper: &str) -> Result<Option<Item>, CronError> {
    let field = Field::DayOfWeek;
    if let Some((day, which)) = piece.split_at_mark('#') {
        let day = value(field, day)? % 7;
        if which.text.eq_ignore_ascii_case("L") {
            return Ok(Some(Item::LastOf(day)));
        }
        return match number(which) {
            Some(nth @ 1..=5) => Ok(Some(Item::Nth(day, nth))),
            Some(_) | None => Err(unreadable(
                field,
                piece,
                Some("a month has a first to a fifth of each weekday: `#1` to `#5`, or `#L`"),
            )),
        };
    }
    if upper == "L" {
        let hint = "say which weekday: `FRIL` is the month's last Friday";
        return Err(unreadable(field, piece, Some(hint)));
    }
    if upper.ends_with('L') {
        let day = piece.part(0..piece.text.len() - 1);
        if number(day).is_some() || field.named(day.text).is_some() {
            return Ok(Some(Item::LastOf(value(field, day)? % 7)));
        }
    }
    Ok(None)
}

/// Whether the end of a range is one of the forms that name a single day.
fn is_special(field: Field, end: Piece<'_>) -> bool {
    field.is_day() && !matches!(special(field, end), Ok(None))
}

fn value(field: Field, piece: Piece<'_>) -> Result<u32, CronError> {
    if let Some(value) = field.named(piece.text) {
        return Ok(value);
    }
    let all_digits = !piece.text.is_empty() && piece.text.bytes().all(|byte| byte.is_ascii_digit());
    match number(piece) {
        Some(value) if (field.min()..=field.max()).contains(&value) => Ok(value),
        Some(_) => Err(out_of_range(field, piece)),
        None if all_digits => Err(out_of_range(field, piece)),
        None => Err(unreadable(field, piece, None)),
    }
}

/// Plain decimal digits: no sign, no other script, no other base.
fn number(piece: Piece<'_>) -> Option<u32> {
    let digits = !piece.text.is_empty() && piece.text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| piece.text.parse().ok()).flatten()
}

fn values(field: Field, low: u32, high: u32, step: u32) -> u64 {
    (low..=high)
        .step_by(step as usize)
        .map(|value| match field {
            Field::DayOfWeek => value % 7,
            Field::Second | Field::Minute | Field::Hour | Field::DayOfMonth | Field::Month => value,
        })
        .fold(0, |mask, value| mask | 1 << value)
}

fn out_of_range(field: Field, piece: Piece<'_>) -> CronError {
    CronError::OutOfRange {
        span: piece.span(),
        field,
        found: piece.text.to_owned(),
    }
}

pub(crate) fn unreadable(field: Field, piece: Piece<'_>, hint: Option<&str>) -> CronError {
    CronError::Item {
        span: piece.span(),
        field,
        found: piece.text.to_owned(),
        hint: hint.map(str::to_owned),
    }
}
