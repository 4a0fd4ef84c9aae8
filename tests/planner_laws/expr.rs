//! Random cron expressions with an independent, naive reading of what they name.

use jiff::civil::{Date, DateTime};
use proptest::{collection::vec, prelude::*};

/// One field: its text and the values that it names.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    pub(crate) text: String,
    pub(crate) named: Vec<i8>,
}

/// A day field.
#[derive(Debug, Clone)]
pub(crate) enum Days {
    Any,
    Dates(Values),
    Weekdays(Values),
    Last,
    LastWorkday,
    Nearest(i8),
    Nth(i8, i8),
    LastOf(i8),
}

/// An expression of five fields.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) minute: Values,
    pub(crate) hour: Values,
    pub(crate) month_day: Days,
    pub(crate) month: Values,
    pub(crate) weekday: Days,
    pub(crate) both: bool,
}

fn field(min: i8, max: i8) -> impl Strategy<Value = Values> {
    let star = Just(Values {
        text: "*".into(),
        named: (min..=max).collect(),
    });
    let stepped = (2..=max.max(2)).prop_map(move |step| Values {
        text: format!("*/{step}"),
        named: (min..=max).step_by(step as usize).collect(),
    });
    let list = vec(min..=max, 1..4).prop_map(|named| Values {
        text: named
            .iter()
            .map(i8::to_string)
            .collect::<Vec<_>>()
            .join(","),
        named,
    });
    let range = (min..=max, min..=max, 1..4i8).prop_map(|(a, b, step)| {
        let (low, high) = (a.min(b), a.max(b));
        Values {
            text: format!("{low}-{high}/{step}"),
            named: (low..=high).step_by(step as usize).collect(),
        }
    });
    prop_oneof![2 => star, 2 => stepped, 4 => list, 2 => range]
}

/// Expressions whose dates come often enough to be met in a few days.
pub(crate) fn frequent_dates() -> impl Strategy<Value = Expr> {
    (field(0, 59), field(0, 23)).prop_map(|(minute, hour)| Expr {
        minute,
        hour,
        month_day: Days::Any,
        month: all_months(),
        weekday: Days::Any,
        both: false,
    })
}

/// Expressions with all that the day fields can say.
pub(crate) fn any_dates() -> impl Strategy<Value = Expr> {
    let month_day = prop_oneof![
        3 => Just(Days::Any),
        3 => field(1, 31).prop_map(Days::Dates),
        1 => Just(Days::Last),
        1 => Just(Days::LastWorkday),
        1 => (1..=31i8).prop_map(Days::Nearest),
    ];
    let weekday = prop_oneof![
        3 => Just(Days::Any),
        3 => field(0, 6).prop_map(Days::Weekdays),
        1 => (0..=6i8, 1..=5i8).prop_map(|(day, nth)| Days::Nth(day, nth)),
        1 => (0..=6i8).prop_map(Days::LastOf),
    ];
    let times = (field(0, 59), field(0, 23));
    (times, month_day, field(1, 12), weekday, any::<bool>()).prop_map(
        |((minute, hour), month_day, month, weekday, both)| Expr {
            minute,
            hour,
            month_day: unless_star(month_day),
            month,
            weekday: unless_star(weekday),
            both,
        },
    )
}

/// A day field whose random text is `*` is no restriction.
fn unless_star(days: Days) -> Days {
    if days.text() == "*" { Days::Any } else { days }
}

fn all_months() -> Values {
    Values {
        text: "*".into(),
        named: (1..=12).collect(),
    }
}

impl Expr {
    /// The expression as a person writes it.
    pub(crate) fn text(&self) -> String {
        let plus = if self.both { "+" } else { "" };
        format!(
            "{} {} {} {} {plus}{}",
            self.minute.text,
            self.hour.text,
            self.month_day.text(),
            self.month.text,
            self.weekday.text()
        )
    }

    /// Whether it runs once for what is written, by our rule.
    pub(crate) fn is_fixed(&self) -> bool {
        !self.minute.text.starts_with('*') && !self.hour.text.starts_with('*')
    }

    /// Whether one minute and one hour are named: what croner takes for a fixed-time job.
    pub(crate) fn is_single_time(&self) -> bool {
        let single = |values: &Values| values.named.iter().all(|value| *value == values.named[0]);
        single(&self.minute) && single(&self.hour)
    }

    /// Whether the wall time is named.
    pub(crate) fn names(&self, at: DateTime) -> bool {
        at.second() == 0
            && self.minute.named.contains(&at.minute())
            && self.hour.named.contains(&at.hour())
            && self.names_date(at.date())
    }

    fn names_date(&self, date: Date) -> bool {
        let by_month = self.month_day.names(date);
        let by_week = self.weekday.names(date);
        let day = match (&self.month_day, &self.weekday) {
            (Days::Any, _) | (_, Days::Any) => by_month && by_week,
            _ if self.both => by_month && by_week,
            _ => by_month || by_week,
        };
        self.month.named.contains(&date.month()) && day
    }
}

impl Days {
    fn text(&self) -> String {
        match self {
            Self::Any => "*".into(),
            Self::Dates(values) | Self::Weekdays(values) => values.text.clone(),
            Self::Last => "L".into(),
            Self::LastWorkday => "LW".into(),
            Self::Nearest(day) => format!("{day}W"),
            Self::Nth(day, nth) => format!("{day}#{nth}"),
            Self::LastOf(day) => format!("{day}L"),
        }
    }

    fn names(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset();
        let length = date.days_in_month();
        match self {
            Self::Any => true,
            Self::Dates(values) => values.named.contains(&date.day()),
            Self::Weekdays(values) => values.named.contains(&weekday),
            Self::Last => date.day() == length,
            Self::LastWorkday => workdays(date).last() == Some(&date.day()),
            Self::Nearest(day) if *day > length => false,
            Self::Nearest(day) => {
                let nearest = workdays(date)
                    .into_iter()
                    .min_by_key(|candidate| (candidate - day).abs());
                nearest == Some(date.day())
            }
            Self::Nth(day, nth) => weekday == *day && (date.day() + 6) / 7 == *nth,
            Self::LastOf(day) => weekday == *day && date.day() + 7 > length,
        }
    }
}

/// The days from Monday to Friday of the date's month, ascending.
fn workdays(date: Date) -> Vec<i8> {
    (1..=date.days_in_month())
        .filter(|day| {
            let at = Date::new(date.year(), date.month(), *day).unwrap();
            at.weekday().to_monday_one_offset() <= 5
        })
        .collect()
}
