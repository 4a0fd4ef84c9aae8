//! The JSON Schema of the jobs file, made from the same declarations that the file is read by.

use serde_json::{Map, Value, json};

use super::{
    durations,
    keys::{EntryKind, EntryTable, HISTORY, Need, Rule, Shape, Table},
    tables, texts,
};
use crate::ids::NAME_MAX;

/// The JSON Schema of the jobs file, for editors (draft 2020-12).
///
/// It sees the structure. What takes more than one value to see, such as a chat that no table
/// names, is left to [`parse`](super::parse).
pub fn schema() -> Value {
    let mut schema = table(&tables::FILE);
    let file = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "chatcron jobs file",
    });
    if let (Some(all), Value::Object(file)) = (schema.as_object_mut(), file) {
        all.extend(file);
    }
    schema
}

fn table(table: &Table) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in table.keys() {
        let mut property = shape(&key.shape);
        if let Some(property) = property.as_object_mut() {
            property.insert(
                "description".into(),
                format!("{} (since {})", key.doc, key.since).into(),
            );
        }
        properties.insert(key.name.into(), property);
        if key.need == Need::Required {
            required.push(Value::from(key.name));
        }
    }
    let mut schema = json!({
        "type": "object",
        "description": table.doc,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = Value::Array(required);
    }
    let rules: Vec<Value> = table.rules.iter().map(rule).collect();
    if !rules.is_empty() {
        schema["allOf"] = Value::Array(rules);
    }
    schema
}

fn rule(rule: &Rule) -> Value {
    let each = |keys: &[(&str, &str)]| -> Vec<Value> {
        keys.iter()
            .map(|(key, _)| json!({ "required": [key] }))
            .collect()
    };
    match rule {
        Rule::ExactlyOne { keys, .. } => json!({ "oneOf": each(keys) }),
        Rule::AtMostOne { keys, .. } => {
            let keys: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
            json!({ "not": { "required": keys } })
        }
        Rule::Needs { key, other, .. } => json!({ "dependentRequired": { *key: [other] } }),
        Rule::Excludes { key, other, .. } => json!({ "not": { "required": [key, other] } }),
    }
}

fn text(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

fn shape(shape: &Shape) -> Value {
    match shape {
        Shape::Text
        | Shape::ChatName
        | Shape::AgentName
        | Shape::ChannelName
        | Shape::Zone
        | Shape::Cron => json!({ "type": "string" }),
        Shape::Prompt | Shape::Path => text(r"\S"),
        Shape::EnvName => text(texts::ENV_NAME),
        Shape::Url => text(texts::URL),
        Shape::Duration(_) => text(durations::PATTERN),
        Shape::Time => text(texts::TIME),
        Shape::Date => text(texts::DATE),
        Shape::DateTime => text(texts::DATE_TIME),
        Shape::Moment => text(texts::MOMENT),
        Shape::Instant => text(texts::INSTANT),
        Shape::Days => json!({
            "oneOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            ],
        }),
        Shape::Integer { min, max } => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        Shape::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Word { accepted, .. } => json!({ "enum": accepted }),
        Shape::Argv => {
            json!({
                "type": "array",
                "prefixItems": [text(r"\S")],
                "items": { "type": "string" },
                "minItems": 1,
            })
        }
        Shape::ListOrEmpty(item) => json!({ "type": "array", "items": self::shape(item) }),
        Shape::OneOrList(item) => json!({
            "oneOf": [
                self::shape(item),
                { "type": "array", "items": self::shape(item), "minItems": 1 },
            ],
        }),
        Shape::Table(inner) => table(inner),
        Shape::TextOrTable(text, inner) => json!({ "oneOf": [self::shape(text), table(inner)] }),
        Shape::FalseOrTable(inner) => json!({ "oneOf": [{ "const": false }, table(inner)] }),
        Shape::TextMap => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
        Shape::Entries { kind, table } => {
            let mut names = json!({
                "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$",
                "maxLength": NAME_MAX,
            });
            if *kind == EntryKind::Chat {
                names["not"] = json!({ "const": HISTORY });
            }
            json!({
                "type": "object",
                "propertyNames": names,
                "additionalProperties": entry(table),
            })
        }
    }
}

fn entry(entry: &EntryTable) -> Value {
    match entry {
        EntryTable::Plain(plain) => table(plain),
        EntryTable::ByKind { kinds, .. } => {
            let kinds: Vec<Value> = kinds
                .iter()
                .map(|(word, of_kind)| {
                    let mut schema = table(of_kind);
                    schema["properties"]["kind"] = json!({
                        "const": word,
                        "description": of_kind.doc,
                    });
                    schema
                })
                .collect();
            json!({ "oneOf": kinds })
        }
    }
}
