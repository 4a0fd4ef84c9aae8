//! The arguments of a call, held against what the tool takes.

use serde_json::{Map, Value};

use crate::{agent::ToolOutput, replay::Tool};

use super::list;

/// The arguments of one call: texts that the tool takes.
pub(super) struct Arguments<'c>(Vec<(&'c str, &'c str)>);

impl<'c> Arguments<'c> {
    /// Reads what a model wrote.
    pub(super) fn read(tool: &Tool, input: &'c Value) -> Result<Self, ToolOutput> {
        let accepted = || {
            let taken = list(properties(tool).map(String::as_str));
            let required = list(required(tool));
            format!(
                "{} takes {taken}, each a text; required: {required}",
                tool.name
            )
        };
        let refused = |what: String| ToolOutput::refused(format!("{what}; {}", accepted()));
        let object = match input {
            Value::Object(object) => Some(object),
            Value::Null => None,
            Value::String(_) => return Err(refused("the arguments are not JSON".to_owned())),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                return Err(refused("the arguments are not a JSON object".to_owned()));
            }
        };
        let mut texts = Vec::new();
        for (name, value) in object.into_iter().flatten() {
            if !properties(tool).any(|known| known == name) {
                return Err(refused(format!("there is no argument `{}`", brief(name))));
            }
            match value {
                Value::String(text) if !text.trim().is_empty() => {
                    texts.push((name.as_str(), text.trim()));
                }
                // Many models fill in every argument.
                Value::String(_) | Value::Null => {}
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    return Err(refused(format!("`{name}` is not a text")));
                }
            }
        }
        let given = Self(texts);
        if let Some(missing) = required(tool).find(|name| given.get(name).is_none()) {
            return Err(refused(format!("`{missing}` is missing")));
        }
        Ok(given)
    }

    /// An argument that may be left out.
    pub(super) fn get(&self, name: &str) -> Option<&'c str> {
        let found = self.0.iter().find(|(given, _)| *given == name);
        found.map(|(_, text)| *text)
    }

    /// An argument that is required.
    pub(super) fn text(&self, name: &str) -> Result<&'c str, ToolOutput> {
        self.get(name)
            .ok_or_else(|| ToolOutput::refused(format!("`{name}` is missing")))
    }
}

fn properties(tool: &Tool) -> impl Iterator<Item = &String> {
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(Map::keys)
}

fn required(tool: &Tool) -> impl Iterator<Item = &str> {
    let required = tool.parameters.get("required").and_then(Value::as_array);
    required.into_iter().flatten().filter_map(Value::as_str)
}

/// What a model wrote, quoted back as far as it is worth it.
pub(super) fn brief(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_tool_does_not_take_is_refused_with_what_it_takes() {
        let tool = Tool {
            name: "pause_job",
            description: "",
            parameters: json!({"type": "object", "properties": {"job": {}, "reason": {}},
                "required": ["job"]}),
        };
        let read = |input: &Value| {
            Arguments::read(&tool, input)
                .map(|_| ())
                .map_err(|output| output.content)
        };
        assert_eq!(read(&json!({"job": "budget", "reason": null})), Ok(()));
        let takes = "; pause_job takes `job`, `reason`, each a text; required: `job`";
        let table = [
            (json!("{broken"), "the arguments are not JSON"),
            (json!([1]), "the arguments are not a JSON object"),
            (json!(null), "`job` is missing"),
            (json!({"job": " "}), "`job` is missing"),
            (json!({"job": 5}), "`job` is not a text"),
            (
                json!({"job": "a", "why": "b"}),
                "there is no argument `why`",
            ),
        ];
        for (input, what) in table {
            assert_eq!(read(&input), Err(format!("{what}{takes}")), "{input}");
        }
    }
}
