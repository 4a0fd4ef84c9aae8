//! The values of one table, read and checked one by one.

use std::{collections::BTreeMap, ops::Range};

use jiff::{SignedDuration, Timestamp, civil};

use crate::job::Weekdays;

/// A value that its shape accepts.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Duration(SignedDuration),
    Time(civil::Time),
    Date(civil::Date),
    DateTime(civil::DateTime),
    Instant(Timestamp),
    Days(Weekdays),
    Integer(i64),
    Number(f64),
    Flag(bool),
    List(Vec<Item>),
    Table(Fields),
    TextMap(BTreeMap<String, String>),
    Entries(Vec<Entry>),
}

impl Value {
    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    pub(super) fn duration(&self) -> Option<SignedDuration> {
        if let Self::Duration(duration) = self {
            Some(*duration)
        } else {
            None
        }
    }

    pub(super) fn time(&self) -> Option<civil::Time> {
        if let Self::Time(time) = self {
            Some(*time)
        } else {
            None
        }
    }

    pub(super) fn date(&self) -> Option<civil::Date> {
        if let Self::Date(date) = self {
            Some(*date)
        } else {
            None
        }
    }
}

/// One item of a list.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

/// A key that is there, with its value unless that is wrong.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) key_span: Range<usize>,
    pub(super) span: Range<usize>,
    pub(super) value: Option<Value>,
}

/// One named table: `[jobs.ID]`.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) name_span: Range<usize>,
    /// The word under `kind`, where the keys depend on it.
    pub(super) kind: Option<&'static str>,
    pub(super) fields: Fields,
    /// Whether anything in it is an error.
    pub(super) wrong: bool,
}

/// The known keys of one table.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    fields: BTreeMap<&'static str, Field>,
    /// Whether there was a key that this version does not have, so that one may be missing.
    pub(super) has_stray: bool,
}

impl Fields {
    /// A table of which only that is known that it is there.
    pub(super) fn unreadable() -> Self {
        Self {
            has_stray: true,
            ..Self::default()
        }
    }

    pub(super) fn insert(&mut self, key: &'static str, field: Field) {
        self.fields.insert(key, field);
    }

    /// Whether the key is there, with a right value or a wrong one.
    pub(super) fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    pub(super) fn field(&self, key: &str) -> Option<&Field> {
        self.fields.get(key)
    }

    /// The span of the key, or this one where it is not there.
    pub(super) fn key_span_or(&self, key: &str, other: &Range<usize>) -> Range<usize> {
        self.field(key)
            .map_or_else(|| other.clone(), |field| field.key_span.clone())
    }

    /// The keys that are there with a wrong value.
    pub(super) fn wrong_keys(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.fields
            .iter()
            .filter(|(_, field)| field.value.is_none())
            .map(|(key, _)| *key)
    }

    /// Whether the key is there and its value is wrong.
    pub(super) fn is_wrong(&self, key: &str) -> bool {
        self.field(key).is_some_and(|field| field.value.is_none())
    }

    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.field(key)?.value.as_ref()
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.value(key)?.text()
    }

    /// The text with its span.
    pub(super) fn spanned_text(&self, key: &str) -> Option<(&str, Range<usize>)> {
        Some((self.text(key)?, self.field(key)?.span.clone()))
    }

    pub(super) fn owned_text(&self, key: &str) -> Option<String> {
        self.text(key).map(str::to_owned)
    }

    pub(super) fn duration(&self, key: &str) -> Option<SignedDuration> {
        self.value(key)?.duration()
    }

    pub(super) fn date_time(&self, key: &str) -> Option<civil::DateTime> {
        match self.value(key) {
            Some(Value::DateTime(moment)) => Some(*moment),
            _ => None,
        }
    }

    pub(super) fn days(&self, key: &str) -> Option<Weekdays> {
        match self.value(key) {
            Some(Value::Days(days)) => Some(*days),
            _ => None,
        }
    }

    pub(super) fn integer(&self, key: &str) -> Option<u32> {
        match self.value(key) {
            Some(Value::Integer(number)) => u32::try_from(*number).ok(),
            _ => None,
        }
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        match self.value(key) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.value(key) {
            Some(Value::Flag(flag)) => Some(*flag),
            _ => None,
        }
    }

    pub(super) fn table(&self, key: &str) -> Option<&Fields> {
        match self.value(key) {
            Some(Value::Table(fields)) => Some(fields),
            _ => None,
        }
    }

    pub(super) fn list(&self, key: &str) -> &[Item] {
        match self.value(key) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        let text = |item: &Item| item.value.text().map(str::to_owned);
        self.list(key).iter().filter_map(text).collect()
    }

    pub(super) fn text_map(&self, key: &str) -> BTreeMap<String, String> {
        match self.value(key) {
            Some(Value::TextMap(map)) => map.clone(),
            _ => BTreeMap::new(),
        }
    }

    pub(super) fn entries(&self, key: &str) -> &[Entry] {
        match self.value(key) {
            Some(Value::Entries(entries)) => entries,
            _ => &[],
        }
    }
}
