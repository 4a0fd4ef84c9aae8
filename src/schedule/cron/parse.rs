//! From text to masks.

use crate::schedule::{
    cron::{
        CronError, CronExpr, Field,
        item::{Item, Piece, item, unreadable},
    },
    day_rule::{Combine, DayRule},
};

const FIELDS: [Field; 6] = [
    Field::Second,
    Field::Minute,
    Field::Hour,
    Field::DayOfMonth,
    Field::Month,
    Field::DayOfWeek,
];

/// Reads a cron expression.
///
/// # Errors
/// [`CronError`] says what was found, where, and what is accepted.
///
/// ```
/// use chatcron::schedule::cron;
///
/// assert!(cron::parse("*/5 9-17 * * mon-fri")?.is_frequent());
/// let error = cron::parse("5/15 * * * *").unwrap_err();
/// assert_eq!((error.span(), error.hint()), (0..4, Some("5-59/15")));
/// # Ok::<(), cron::CronError>(())
/// ```
pub fn parse(expr: &str) -> Result<CronExpr, CronError> {
    let pieces = pieces(expr);
    if let [first, ..] = pieces.as_slice()
        && let Some(expanded) = nickname(*first, pieces.len())?
    {
        return parse(expanded);
    }
    let fields = match pieces.len() {
        5 => &FIELDS[1..],
        6 => &FIELDS[..],
        found => return Err(field_count(expr, &pieces, found)),
    };
    let mut reader = Reader::default();
    for (field, piece) in fields.iter().zip(&pieces) {
        reader.field(*field, *piece)?;
    }
    let expression = reader.finish();
    let (Some(first), Some(last)) = (pieces.get(pieces.len() - 3), pieces.last()) else {
        return Err(field_count(expr, &pieces, pieces.len()));
    };
    if !expression.days.ever_comes() {
        let span = first.start..last.span().end;
        return Err(CronError::NeverComes {
            found: expr[span.clone()].to_owned(),
            span,
        });
    }
    Ok(expression)
}

fn pieces(expr: &str) -> Vec<Piece<'_>> {
    let base = expr.as_ptr() as usize;
    expr.split_ascii_whitespace()
        .map(|text| Piece {
            text,
            start: text.as_ptr() as usize - base,
        })
        .collect()
}

/// What an `@name` stands for; `None` where the expression does not begin with one.
fn nickname(first: Piece<'_>, count: usize) -> Result<Option<&'static str>, CronError> {
    if !first.text.starts_with('@') {
        return Ok(None);
    }
    let expanded = match (first.text.to_ascii_lowercase().as_str(), count) {
        ("@yearly" | "@annually", 1) => "0 0 1 1 *",
        ("@monthly", 1) => "0 0 1 * *",
        ("@weekly", 1) => "0 0 * * 0",
        ("@daily" | "@midnight", 1) => "0 0 * * *",
        ("@hourly", 1) => "0 * * * *",
        (name, _) => {
            let hint = match name {
                "@every" => Some("use `every = \"2h\"` instead of `cron`"),
                "@reboot" => Some("a job cannot wait for a start of the machine"),
                _ => None,
            };
            return Err(CronError::Nickname {
                span: first.span(),
                found: first.text.to_owned(),
                hint: hint.map(str::to_owned),
            });
        }
    };
    Ok(Some(expanded))
}

fn field_count(expr: &str, pieces: &[Piece<'_>], found: usize) -> CronError {
    let zone_prefix = pieces
        .first()
        .is_some_and(|piece| piece.text.contains("TZ="));
    let surplus = match (pieces.get(6), pieces.last()) {
        (Some(first), Some(last)) if !zone_prefix => first.start..last.span().end,
        _ => 0..expr.len(),
    };
    let hint = match found {
        _ if zone_prefix => Some("name the zone with `timezone`"),
        7 => Some("a year field is not supported: use `from` and `until`"),
        _ => None,
    };
    CronError::FieldCount {
        span: surplus,
        found,
        hint: hint.map(str::to_owned),
    }
}

/// The masks read so far.
struct Reader {
    seconds: u64,
    minutes: u64,
    hours: u32,
    days: DayRule,
    frequent: bool,
    any_month_day: bool,
    any_weekday: bool,
    both: bool,
}

impl Default for Reader {
    fn default() -> Self {
        let mut days = DayRule::weekdays(0);
        days.months = 0;
        Self {
            seconds: 1,
            minutes: 0,
            hours: 0,
            days,
            frequent: false,
            any_month_day: false,
            any_weekday: false,
            both: false,
        }
    }
}

impl Reader {
    fn field(&mut self, field: Field, piece: Piece<'_>) -> Result<(), CronError> {
        let mut list = piece;
        if field == Field::DayOfWeek
            && let Some(rest) = piece.text.strip_prefix('+')
        {
            self.both = true;
            list = Piece {
                text: rest,
                start: piece.start + 1,
            };
        }
        let unrestricted = list.text == "*" || (list.text == "?" && field.is_day());
        match field {
            Field::Minute | Field::Hour => self.frequent |= list.text.starts_with('*'),
            Field::DayOfMonth => self.any_month_day = unrestricted,
            Field::DayOfWeek => self.any_weekday = unrestricted,
            Field::Second | Field::Month => {}
        }
        if unrestricted && field.is_day() {
            return Ok(());
        }
        if field == Field::Second {
            self.seconds = 0;
        }
        for part in list.list() {
            if part.text == "?" {
                let hint = "`?` stands alone, in a day field";
                return Err(unreadable(field, part, Some(hint)));
            }
            self.add(field, item(field, part)?);
        }
        Ok(())
    }

    fn add(&mut self, field: Field, item: Item) {
        match item {
            Item::Values(mask) => match field {
                Field::Second => self.seconds |= mask,
                Field::Minute => self.minutes |= mask,
                Field::Hour => self.hours |= mask as u32,
                Field::DayOfMonth => self.days.month_days |= mask as u32,
                Field::Month => self.days.months |= mask as u16,
                Field::DayOfWeek => self.days.weekdays |= mask as u8,
            },
            Item::LastDay => self.days.last_day = true,
            Item::LastWorkday => self.days.last_workday = true,
            Item::Nearest(day) => self.days.nearest |= 1 << day,
            Item::Nth(day, nth) => self.days.nth[nth as usize - 1] |= 1 << day,
            Item::LastOf(day) => self.days.last |= 1 << day,
        }
    }

    fn finish(mut self) -> CronExpr {
        let either_day = !self.any_month_day && !self.any_weekday && !self.both;
        if self.both && !self.any_month_day && !self.any_weekday {
            self.days.combine = Combine::And;
        } else if self.any_month_day && self.any_weekday {
            self.days.weekdays = 0x7f;
        }
        CronExpr {
            seconds: self.seconds,
            minutes: self.minutes,
            hours: self.hours,
            days: self.days,
            frequent: self.frequent,
            either_day,
        }
    }
}
