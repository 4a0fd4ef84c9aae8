//! What must have happened at least once in a run of the whole: chaos that never comes proves
//! nothing.

use std::{collections::BTreeMap, fmt};

use serde_json::{Value, json};

/// What befalls the process.
pub(crate) const BEFALLS: &[&str] = &[
    "killed",
    "killed while a part was being sent",
    "killed while a run was under way",
    "frozen and thawed",
    "asked to stop",
    "clock forward",
    "clock back",
    "disk full",
    "a person spoke",
    "a run was asked for",
    "a part ended unknown",
    "a part was confirmed after several tries",
    "an interrupted attempt was made again",
    "an attempt failed and the next one did not",
];

/// Everything that services do wrong, as orders for the fakes.
pub(crate) fn faults() -> Vec<Value> {
    vec![
        json!({"service": "telegram", "kind": "status", "status": 429, "retry_after": 1, "chat": "5550001"}),
        json!({"service": "telegram", "kind": "status", "status": 429, "retry_after": 1, "times": 3}),
        json!({"service": "telegram", "kind": "status", "status": 500, "show": true}),
        json!({"service": "telegram", "kind": "status", "status": 502}),
        json!({"service": "telegram", "kind": "reset", "show": true}),
        json!({"service": "telegram", "kind": "reset"}),
        json!({"service": "telegram", "kind": "broken-json", "show": true}),
        json!({"service": "telegram", "kind": "slow", "ms": 400}),
        json!({"service": "telegram", "kind": "hang", "show": true}),
        json!({"service": "webhook", "kind": "status", "status": 500, "show": true}),
        json!({"service": "webhook", "kind": "status", "status": 429, "retry_after": 1}),
        json!({"service": "webhook", "kind": "reset", "show": true}),
        json!({"service": "webhook", "kind": "slow", "ms": 400}),
        json!({"service": "webhook", "kind": "hang", "show": true}),
        json!({"service": "openai", "kind": "status", "status": 503}),
        json!({"service": "openai", "kind": "reset"}),
        json!({"service": "openai", "kind": "broken-json"}),
        json!({"service": "openai", "kind": "slow", "ms": 700}),
    ]
}

/// What a fault is called.
pub(crate) fn name(fault: &Value) -> String {
    let word = |key: &str| fault[key].as_str().unwrap_or_default().to_owned();
    let mut name = format!("{} {}", word("service"), word("kind"));
    if let Some(status) = fault["status"].as_u64() {
        name.push_str(&format!(" {status}"));
    }
    if fault["show"] == true {
        name.push_str(" after acceptance");
    }
    if fault["chat"].is_string() {
        name.push_str(" to one chat");
    }
    name
}

/// How often what happened.
#[derive(Debug, Default)]
pub(crate) struct Sometimes(BTreeMap<String, u64>);

impl Sometimes {
    pub(crate) fn count(&mut self, what: &str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: &str, times: u64) {
        if times > 0 {
            *self.0.entry(what.to_owned()).or_default() += times;
        }
    }

    /// What should have happened and did not.
    pub(crate) fn never(&self) -> Vec<String> {
        let befalls = BEFALLS.iter().map(|what| (*what).to_owned());
        let all = befalls.chain(faults().into_iter().map(|fault| name(&fault)));
        all.filter(|what| !self.0.contains_key(what)).collect()
    }
}

impl fmt::Display for Sometimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, times) in &self.0 {
            writeln!(f, "{times:>6}  {what}")?;
        }
        Ok(())
    }
}
