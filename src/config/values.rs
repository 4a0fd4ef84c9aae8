//! Reads one value by its shape.

use std::{collections::BTreeMap, ops::Range};

use jiff::SignedDuration;
use toml::{Spanned, de::DeValue};

use super::{
    fields::{Item, Value},
    keys::{Shape, Shortest, Table},
    nearest::{listed, nearest},
    problem::{Code, Problem},
    reader::Reader,
    secrets, texts, walk,
};

/// The longest piece of a value that a message quotes, in characters.
const QUOTED_MAX: usize = 60;

/// The value, or nothing where it is wrong and that has been reported.
pub(super) fn read(
    reader: &mut Reader<'_>,
    key: &'static str,
    shape: &'static Shape,
    found: &Spanned<DeValue<'_>>,
) -> Option<Value> {
    match (shape, found.get_ref()) {
        (Shape::Integer { min, max }, DeValue::Integer(_)) => {
            integer(reader, key, (*min, *max), found).map(Value::Integer)
        }
        (Shape::Number { min, max }, DeValue::Integer(_) | DeValue::Float(_)) => {
            number(reader, key, (*min, *max), found).map(Value::Number)
        }
        (Shape::Flag, DeValue::Boolean(flag)) => Some(Value::Flag(*flag)),
        (Shape::FalseOrTable(_), DeValue::Boolean(false)) => Some(Value::Flag(false)),
        (Shape::Duration(_), DeValue::Integer(number)) => {
            reader.report(unitless(key, &number.to_string(), found.span()));
            None
        }
        (Shape::Argv, DeValue::Array(_)) => argv(reader, key, found),
        (Shape::Days, DeValue::Array(_)) => texts::days_of_list(reader, key, found),
        (Shape::ListOrEmpty(item), DeValue::Array(_)) => {
            list(reader, key, item, found).map(Value::List)
        }
        (Shape::OneOrList(item), DeValue::Array(_)) => {
            let items = list(reader, key, item, found)?;
            if items.is_empty() {
                reader.report(
                    Problem::error(
                        Code::BadValue,
                        found.span(),
                        format!("`{key}` is an empty list"),
                    )
                    .label("nothing in it")
                    .help(format!("accepted: {}", shape.accepted())),
                );
                return None;
            }
            Some(Value::List(items))
        }
        (Shape::OneOrList(item), _) => {
            let value = read(reader, key, item, found)?;
            Some(Value::List(vec![Item {
                span: found.span(),
                value,
            }]))
        }
        (
            Shape::Table(table) | Shape::TextOrTable(_, table) | Shape::FalseOrTable(table),
            DeValue::Table(_),
        ) => sub_table(reader, key, table, found),
        (Shape::TextOrTable(text, _), DeValue::String(_)) => read(reader, key, text, found),
        (Shape::TextMap, DeValue::Table(_)) => text_map(reader, key, found),
        (Shape::Entries { kind, table }, DeValue::Table(entries)) => {
            Some(walk::entries(reader, *kind, table, entries))
        }
        (_, DeValue::String(text)) => match texts::read(reader, key, shape, text, found.span()) {
            texts::Read::Value(value) => Some(value),
            texts::Read::Reported => None,
            texts::Read::NotText => {
                wrong_type(reader, key, shape, found);
                None
            }
        },
        (
            Shape::Time | Shape::Date | Shape::DateTime | Shape::Moment | Shape::Instant,
            DeValue::Datetime(moment),
        ) => match texts::read(reader, key, shape, &moment.to_string(), found.span()) {
            texts::Read::Value(value) => Some(value),
            texts::Read::Reported | texts::Read::NotText => None,
        },
        _ => {
            wrong_type(reader, key, shape, found);
            None
        }
    }
}

/// What a TOML value is, with its article.
pub(super) fn found(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a flag (`true` or `false`)",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

pub(super) fn wrong_type(
    reader: &mut Reader<'_>,
    key: &str,
    shape: &Shape,
    value: &Spanned<DeValue<'_>>,
) {
    let what = found(value.get_ref());
    let label = match (shape, value.get_ref()) {
        (Shape::Text | Shape::Prompt, DeValue::Integer(number)) => {
            format!("text stands in quotes: `\"{number}\"`")
        }
        (Shape::Integer { .. } | Shape::Number { .. } | Shape::Flag, DeValue::String(_)) => {
            String::from("no quotes here")
        }
        (_, DeValue::Boolean(flag)) => format!("found `{flag}`"),
        _ => format!("found {what}"),
    };
    reader.report(
        Problem::error(
            Code::WrongType,
            value.span(),
            format!("`{key}` cannot be {what}"),
        )
        .label(label)
        .help(format!("accepted: {}", shape.accepted())),
    );
}

/// A word that is none of the accepted ones.
pub(super) fn bad_word(
    key: &str,
    text: &str,
    span: Range<usize>,
    accepted: &[&'static str],
) -> Problem {
    let help = format!("accepted: {}", listed(accepted.iter().copied(), "or"));
    let problem = Problem::error(
        Code::BadValue,
        span,
        format!("`{key}` cannot be `{}`", quoted(text)),
    )
    .help(help);
    match nearest(text, accepted.iter().copied()) {
        Some(near) => problem.label(format!("did you mean `{near}`?")),
        None => problem.label("not an accepted word"),
    }
}

/// As much of a text as a message shows.
pub(super) fn quoted(text: &str) -> String {
    // Before it is cut: what is left of a secret would no longer look like one.
    let text = secrets::mask(text, &secrets::shapes(text));
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() > QUOTED_MAX || line.len() < text.trim_end().len() {
        let start: String = line.chars().take(QUOTED_MAX).collect();
        format!("{start}...")
    } else {
        line.to_owned()
    }
}

/// A duration that is too short, or the duration.
pub(super) fn long_enough(
    key: &str,
    duration: SignedDuration,
    shortest: Shortest,
    span: Range<usize>,
) -> Result<Value, Box<Problem>> {
    if shortest == Shortest::OneSecond && duration < SignedDuration::from_secs(1) {
        let message = format!("`{key}` cannot be zero");
        let problem = Problem::error(Code::BadDuration, span, message);
        return Err(Box::new(problem.label("the shortest is `1s`")));
    }
    Ok(Value::Duration(duration))
}

fn unitless(key: &str, number: &str, span: Range<usize>) -> Problem {
    Problem::error(
        Code::BadDuration,
        span,
        format!("`{key} = {number}` has no unit"),
    )
    .label(format!(
        "is it `\"{number}s\"`, `\"{number}m\"` or `\"{number}h\"`?"
    ))
    .help("a duration is a number with `s`, `m`, `h` or `d`, in quotes, such as `\"1h30m\"`")
}

fn out_of_range(key: &str, text: &str, shape_text: String, span: Range<usize>) -> Problem {
    Problem::error(
        Code::BadValue,
        span,
        format!("`{key}` cannot be {}", quoted(text)),
    )
    .label("out of range")
    .help(format!("accepted: {shape_text}"))
}

fn integer(
    reader: &mut Reader<'_>,
    key: &str,
    (min, max): (i64, i64),
    found: &Spanned<DeValue<'_>>,
) -> Option<i64> {
    let number = found.get_ref().as_integer()?;
    let value = i64::from_str_radix(number.as_str(), number.radix())
        .ok()
        .filter(|value| (min..=max).contains(value));
    if value.is_none() {
        let accepted = Shape::Integer { min, max }.accepted();
        reader.report(out_of_range(
            key,
            &number.to_string(),
            accepted,
            found.span(),
        ));
    }
    value
}

fn number(
    reader: &mut Reader<'_>,
    key: &str,
    (min, max): (f64, f64),
    found: &Spanned<DeValue<'_>>,
) -> Option<f64> {
    let text = match found.get_ref() {
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::String(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => return None,
    };
    let value = text
        .parse::<f64>()
        .ok()
        .filter(|value| (min..=max).contains(value));
    if value.is_none() {
        let accepted = Shape::Number { min, max }.accepted();
        reader.report(out_of_range(key, &text, accepted, found.span()));
    }
    value
}

fn list(
    reader: &mut Reader<'_>,
    key: &'static str,
    item: &'static Shape,
    found: &Spanned<DeValue<'_>>,
) -> Option<Vec<Item>> {
    let array = found.get_ref().as_array()?;
    let read_all: Vec<Option<Item>> = array
        .iter()
        .map(|value| {
            Some(Item {
                span: value.span(),
                value: read(reader, key, item, value)?,
            })
        })
        .collect();
    read_all.into_iter().collect()
}

fn argv(reader: &mut Reader<'_>, key: &'static str, found: &Spanned<DeValue<'_>>) -> Option<Value> {
    let items = list(reader, key, &Shape::Text, found)?;
    let has_program = items.first().is_some_and(
        |item| matches!(&item.value, Value::Text(program) if !program.trim().is_empty()),
    );
    if !has_program {
        reader.report(
            Problem::error(Code::EmptyArgv, found.span(), "`argv` names no program")
                .label("the first item is the program")
                .help("a program and its arguments, without a shell: `argv = [\"date\", \"-u\"]`"),
        );
        return None;
    }
    Some(Value::List(items))
}

fn sub_table(
    reader: &mut Reader<'_>,
    key: &'static str,
    table: &'static Table,
    found: &Spanned<DeValue<'_>>,
) -> Option<Value> {
    let place = walk::Place {
        table,
        name: format!("`{key}`"),
        span: found.span(),
        siblings: &[],
    };
    let inner = found.get_ref().as_table()?;
    let (fields, wrong) = reader.watching(|reader| walk::table(reader, &place, inner));
    // A wrong `[defaults]` still has right keys, and it is known which; elsewhere the whole is wrong.
    (!wrong || key == "defaults").then_some(Value::Table(fields))
}

fn text_map(
    reader: &mut Reader<'_>,
    key: &'static str,
    found: &Spanned<DeValue<'_>>,
) -> Option<Value> {
    let mut map = Some(BTreeMap::new());
    for (name, value) in walk::in_file_order(found.get_ref().as_table()?) {
        match value.get_ref() {
            DeValue::String(text) => {
                if let Some(map) = &mut map {
                    map.insert(name.get_ref().to_string(), text.to_string());
                }
            }
            DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => {
                wrong_type(reader, key, &Shape::Text, value);
                map = None;
            }
        }
    }
    map.map(Value::TextMap)
}
