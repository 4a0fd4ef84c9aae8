//! Walks the file's tables by their declarations: unknown keys, missing keys, rules between keys.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    fields::{Entry, Field, Fields, Value},
    keys::{EntryKind, EntryTable, HISTORY, Key, Need, Rule, Shape, Table},
    nearest::{listed, nearest},
    problem::{Code, Problem},
    reader::Reader,
    secrets, values,
};
use crate::ids::JobId;

/// A table that is read: its declaration, and how problems name and point at it.
pub(super) struct Place<'a> {
    pub(super) table: &'static Table,
    /// "job `budget`".
    pub(super) name: String,
    pub(super) span: Range<usize>,
    /// Other tables that the same name could have had, by kind.
    pub(super) siblings: &'a [(&'static str, &'static Table)],
}

/// Reads a table: every key that is known, with its value.
pub(super) fn table(reader: &mut Reader<'_>, place: &Place<'_>, found: &DeTable<'_>) -> Fields {
    let mut fields = Fields::default();
    for (key, value) in in_file_order(found) {
        let name: &str = key.get_ref();
        match place.table.key(name) {
            Some(declared) => {
                let read = values::read(reader, declared.name, &declared.shape, value);
                fields.insert(
                    declared.name,
                    Field {
                        key_span: key.span(),
                        span: value.span(),
                        value: read,
                    },
                );
            }
            None => {
                fields.has_stray = true;
                // A secret has its own message, and no key would make it right.
                if !secrets::is_secret_key(name) {
                    reader.report(unknown_key(place, name, key.span()));
                }
            }
        }
    }
    for key in place.table.keys() {
        missing_key(reader, place, key, &fields);
    }
    rules(reader, place, &fields);
    fields
}

/// A table's entries from top to bottom; the parser sorts them by key.
pub(super) fn in_file_order<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(
    &'t Spanned<std::borrow::Cow<'i, str>>,
    &'t Spanned<DeValue<'i>>,
)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn unknown_key(place: &Place<'_>, name: &str, span: Range<usize>) -> Problem {
    let of_kinds: Vec<&str> = place
        .siblings
        .iter()
        .filter(|(_, table)| table.key(name).is_some())
        .map(|(kind, _)| *kind)
        .collect();
    if !of_kinds.is_empty() {
        return Problem::error(
            Code::OtherKindKey,
            span,
            format!("`{name}` is not a key of {}", place.table.what),
        )
        .label(format!("belongs to kind {}", listed(of_kinds, "or")))
        .help(format!("accepted here: {}", place.table.accepted()));
    }
    let problem = Problem::error(
        Code::UnknownKey,
        span,
        format!("unknown key `{name}` in {}", place.name),
    )
    .help(format!("accepted here: {}", place.table.accepted()));
    match nearest(name, place.table.keys().map(|key| key.name)) {
        Some(near) => problem.label(format!("did you mean `{near}`?")),
        None => problem.label(format!("not a key of {}", place.table.what)),
    }
}

fn missing_key(reader: &mut Reader<'_>, place: &Place<'_>, key: &Key, fields: &Fields) {
    if key.need == Need::Required && !fields.has(key.name) {
        reader.report(
            Problem::error(
                Code::MissingKey,
                place.span.clone(),
                format!("{} has no `{}`", place.name, key.name),
            )
            .label(format!("`{}` is missing", key.name))
            .help(format!("`{}` is {}", key.name, key.shape.accepted())),
        );
    }
}

fn rules(reader: &mut Reader<'_>, place: &Place<'_>, fields: &Fields) {
    let mut missing: Vec<&str> = Vec::new();
    for rule in place.table.rules {
        match rule {
            Rule::ExactlyOne { keys, many, none } => {
                if keys.iter().any(|(key, _)| fields.has(key)) {
                    at_most_one(reader, place, fields, keys, *many);
                } else {
                    missing.extend(keys.iter().map(|(key, _)| *key));
                    reader.report(none_of(place, keys, *none));
                }
            }
            Rule::AtMostOne { keys, many } => at_most_one(reader, place, fields, keys, *many),
            Rule::Needs {
                key,
                other,
                code,
                help,
            } => {
                // Where nothing of the kind is there, that has been said.
                let told = missing.contains(other);
                if let Some(field) = fields.field(key)
                    && !fields.has(other)
                    && !told
                {
                    reader.report(
                        Problem::error(
                            *code,
                            field.key_span.clone(),
                            format!("{} has `{key}` without `{other}`", place.name),
                        )
                        .label(format!("means nothing without `{other}`"))
                        .help(*help),
                    );
                }
            }
            Rule::Excludes {
                key,
                other,
                code,
                help,
            } => {
                if let (Some(field), Some(beside)) = (fields.field(key), fields.field(other)) {
                    reader.report(
                        Problem::error(
                            *code,
                            field.key_span.clone(),
                            format!("{} has both `{other}` and `{key}`", place.name),
                        )
                        .label(format!("has no place beside `{other}`"))
                        .also(beside.key_span.clone(), "this makes it an in-chat job")
                        .help(*help),
                    );
                }
            }
        }
    }
}

fn none_of(
    place: &Place<'_>,
    keys: &[(&'static str, &'static str)],
    (code, help): (Code, &'static str),
) -> Problem {
    let names = keys.iter().map(|(key, _)| *key);
    let message = match keys {
        [(one, _), (other, _)] => format!("{} has neither `{one}` nor `{other}`", place.name),
        _ => format!(
            "{} has none of {}",
            place.name,
            listed(names.clone(), "and")
        ),
    };
    Problem::error(code, place.span.clone(), message)
        .label(format!("needs {}", listed(names, "or")))
        .help(help)
}

fn at_most_one(
    reader: &mut Reader<'_>,
    place: &Place<'_>,
    fields: &Fields,
    keys: &[(&'static str, &'static str)],
    (code, help): (Code, &'static str),
) {
    let mut present: Vec<_> = keys
        .iter()
        .filter_map(|(key, label)| Some((fields.field(key)?.key_span.clone(), *key, *label)))
        .collect();
    present.sort_by_key(|(span, ..)| span.start);
    let Some(((span, _, label), others)) = present.split_last() else {
        return;
    };
    if others.is_empty() {
        return;
    }
    let names = listed(present.iter().map(|(_, key, _)| *key), "and");
    let both = if present.len() == 2 { "both " } else { "" };
    let mut problem = Problem::error(
        code,
        span.clone(),
        format!("{} has {both}{names}", place.name),
    )
    .label(*label)
    .help(help);
    for (span, _, label) in others {
        problem = problem.also(span.clone(), *label);
    }
    reader.report(problem);
}

/// Reads tables under names of one's own: `[jobs.ID]`.
pub(super) fn entries(
    reader: &mut Reader<'_>,
    kind: EntryKind,
    table: &'static EntryTable,
    found: &DeTable<'_>,
) -> Value {
    let mut entries = Vec::new();
    for (key, value) in in_file_order(found) {
        let name: &str = key.get_ref();
        let ((kind_word, fields), wrong) = reader.within(kind, (name, &key.span()), |reader| {
            reader.watching(|reader| {
                for secret in secrets::in_value(name, &key.span(), value) {
                    reader.report_secret(secret);
                }
                check_name(reader, kind, name, key.span());
                entry(reader, kind, table, key, value)
            })
        });
        entries.push(Entry {
            name: name.to_owned(),
            name_span: key.span(),
            kind: kind_word,
            fields,
            wrong,
        });
    }
    Value::Entries(entries)
}

fn entry(
    reader: &mut Reader<'_>,
    kind: EntryKind,
    table: &'static EntryTable,
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
) -> (Option<&'static str>, Fields) {
    let word = kind.word();
    let name: &str = key.get_ref();
    let DeValue::Table(found) = value.get_ref() else {
        let what = values::found(value.get_ref());
        reader.report(
            Problem::error(
                Code::WrongType,
                value.span(),
                format!("{word} `{name}` must be a table, found {what}"),
            )
            .label(what)
            .help(format!("write `[{word}s.{name}]`, and its keys below")),
        );
        return (None, Fields::default());
    };
    let place = |table, siblings| Place {
        table,
        name: format!("{word} `{name}`"),
        span: key.span(),
        siblings,
    };
    match table {
        EntryTable::Plain(table_of_all) => {
            let fields = self::table(reader, &place(table_of_all, &[]), found);
            (None, fields)
        }
        EntryTable::ByKind { kinds } => {
            let Some((kind_word, table_of_kind)) = kind_of(reader, word, key, found, kinds) else {
                return (None, Fields::default());
            };
            let fields = self::table(reader, &place(table_of_kind, kinds), found);
            (Some(kind_word), fields)
        }
    }
}

fn kind_of(
    reader: &mut Reader<'_>,
    word: &str,
    key: &Spanned<std::borrow::Cow<'_, str>>,
    found: &DeTable<'_>,
    kinds: &'static [(&'static str, &'static Table)],
) -> Option<(&'static str, &'static Table)> {
    let accepted = kinds.iter().map(|(kind, _)| *kind);
    let Some(value) = found.get("kind") else {
        reader.report(
            Problem::error(
                Code::MissingKey,
                key.span(),
                format!("{word} `{}` has no `kind`", key.get_ref()),
            )
            .label("`kind` is missing")
            .help(format!("accepted: {}", listed(accepted, "or"))),
        );
        return None;
    };
    let Some(text) = value.get_ref().as_str() else {
        values::wrong_type(reader, "kind", &Shape::Text, value);
        return None;
    };
    let known = kinds.iter().find(|(kind, _)| *kind == text);
    if known.is_none() {
        let accepted: Vec<&str> = accepted.collect();
        reader.report(values::bad_word("kind", text, value.span(), &accepted));
    }
    known.copied()
}

fn check_name(reader: &mut Reader<'_>, kind: EntryKind, name: &str, span: Range<usize>) {
    // All names have one alphabet; a job's id stands for them.
    if let Err(error) = JobId::new(name) {
        reader.report(
            Problem::error(Code::BadName, span.clone(), error.to_string())
                .label(format!("names a {}", kind.word())),
        );
    }
    if kind == EntryKind::Chat && name == HISTORY {
        reader.report(
            Problem::error(Code::ReservedName, span, "a chat cannot be named `history`")
                .label("`deliver = \"history\"` means run history only")
                .help("give the chat another name"),
        );
    }
}
