//! What the file's names stand for, and what follows where a name stands for something wrong.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{
    fields::Fields,
    nearest::{listed, nearest},
    problem::{Code, Problem},
    reader::Reader,
};
use crate::{
    directory::{AgentConfig, ChannelConfig, Chat, Directory},
    ids::{AgentName, ChannelName},
};

/// Why something cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Left {
    /// An error of its own, which has been reported.
    Reported,
    /// Something else that it needs is wrong: "channel `telegram`".
    Because(String),
}

/// Everything that has a name, right or wrong.
#[derive(Default)]
pub(super) struct Known {
    pub(super) directory: Directory,
    /// Chats that are left out, each with what is wrong: itself, or what it needs.
    pub(super) wrong_chats: BTreeMap<String, String>,
    pub(super) wrong_channels: BTreeMap<String, String>,
    /// Of channels that are left out, those of kind telegram: what is wrong with an address there can
    /// be told all the same.
    pub(super) wrong_telegrams: BTreeSet<String>,
    pub(super) wrong_agents: BTreeMap<String, String>,
}

impl Known {
    pub(super) fn chat(
        &self,
        reader: &mut Reader<'_>,
        (name, span): (&str, Range<usize>),
    ) -> Result<&Chat, Left> {
        if let Some(chat) = self.directory.chats.get(name) {
            return Ok(chat);
        }
        let mut problem = unknown(
            Code::UnknownChat,
            "chat",
            name,
            span,
            names(&self.directory.chats, &self.wrong_chats),
        );
        if self.directory.channels.contains_key(name) || self.wrong_channels.contains_key(name) {
            problem.label = format!("`{name}` is a channel; a chat is an address on one");
        }
        if name == "webhook" {
            problem.label = String::from("a webhook is a table");
            problem.help = Some(String::from(
                "write `deliver = { webhook = \"https://example.org/hook\" }`",
            ));
        }
        Err(left(reader, self.wrong_chats.get(name), problem))
    }

    pub(super) fn channel(
        &self,
        reader: &mut Reader<'_>,
        (name, span): (&str, Range<usize>),
    ) -> Result<(ChannelName, &ChannelConfig), Left> {
        if let Some((name, channel)) = self.directory.channels.get_key_value(name) {
            return Ok((name.clone(), channel));
        }
        let all = names(&self.directory.channels, &self.wrong_channels);
        let problem = unknown(Code::UnknownChannel, "channel", name, span, all);
        Err(left(reader, self.wrong_channels.get(name), problem))
    }

    pub(super) fn agent(
        &self,
        reader: &mut Reader<'_>,
        (name, span): (&str, Range<usize>),
    ) -> Result<AgentName, Left> {
        if let Some((name, _)) = self.directory.agents.get_key_value(name) {
            return Ok(name.clone());
        }
        let all = names(&self.directory.agents, &self.wrong_agents);
        let problem = unknown(Code::UnknownAgent, "agent", name, span, all);
        Err(left(reader, self.wrong_agents.get(name), problem))
    }

    /// The agent where nothing of its own names one: `defaults.agent`, else the only one.
    pub(super) fn default_agent(
        &self,
        reader: &mut Reader<'_>,
        defaults: &Fields,
        who: &str,
        span: Range<usize>,
    ) -> Result<AgentName, Left> {
        if let Some(field) = defaults.field("agent") {
            // Its own mistakes are reported once, where it stands.
            return defaults
                .text("agent")
                .and_then(|name| self.directory.agents.get_key_value(name))
                .map(|(name, _)| name.clone())
                .ok_or_else(|| {
                    let wrong = defaults
                        .text("agent")
                        .and_then(|name| self.wrong_agents.get(name));
                    let because = match (&field.value, wrong) {
                        (Some(_), Some(agent)) => agent.clone(),
                        _ => String::from("`defaults.agent`"),
                    };
                    Left::Because(because)
                });
        }
        let good: &BTreeMap<AgentName, AgentConfig> = &self.directory.agents;
        let mut good_names = good.keys();
        match (
            good_names.next(),
            good_names.next(),
            self.wrong_agents.len(),
        ) {
            (Some(only), None, 0) => Ok(only.clone()),
            (None, None, 1) => Err(Left::Because(
                self.wrong_agents
                    .values()
                    .next()
                    .cloned()
                    .unwrap_or_default(),
            )),
            (first, ..) => {
                let help = if first.is_none() && self.wrong_agents.is_empty() {
                    String::from("the file has no agent: add `[agents.NAME]`")
                } else {
                    let all = names(good, &self.wrong_agents);
                    format!(
                        "name one with `agent = \"NAME\"` here or in `[defaults]`: {}",
                        listed(all, "or")
                    )
                };
                reader.report(
                    Problem::error(Code::NoAgent, span, format!("{who} has no agent"))
                        .label("nothing says which agent this is for")
                        .help(help),
                );
                Err(Left::Reported)
            }
        }
    }
}

fn names<'a, K: AsStr, V>(
    good: &'a BTreeMap<K, V>,
    wrong: &'a BTreeMap<String, String>,
) -> Vec<&'a str> {
    let mut names: Vec<&str> = good
        .keys()
        .map(AsStr::text)
        .chain(wrong.keys().map(String::as_str))
        .collect();
    names.sort_unstable();
    names
}

/// Names of all kinds, for lists.
trait AsStr {
    fn text(&self) -> &str;
}

impl AsStr for crate::ids::ChatName {
    fn text(&self) -> &str {
        self.as_str()
    }
}

impl AsStr for ChannelName {
    fn text(&self) -> &str {
        self.as_str()
    }
}

impl AsStr for AgentName {
    fn text(&self) -> &str {
        self.as_str()
    }
}

fn unknown(code: Code, kind: &str, name: &str, span: Range<usize>, all: Vec<&str>) -> Problem {
    let problem = Problem::error(
        code,
        span,
        format!("no {kind} is named `{}`", super::values::quoted(name)),
    );
    let problem = match nearest(name, all.iter().copied()) {
        Some(near) => problem.label(format!("did you mean `{near}`?")),
        None => problem.label(format!("not a {kind} of this file").replace("a agent", "an agent")),
    };
    if all.is_empty() {
        problem.help(format!("the file has no {kind}: add `[{kind}s.NAME]`"))
    } else {
        problem.help(format!("{kind}s of this file: {}", listed(all, "and")))
    }
}

fn left(reader: &mut Reader<'_>, wrong: Option<&String>, problem: Problem) -> Left {
    match wrong {
        Some(because) => Left::Because(because.clone()),
        None => {
            reader.report(problem);
            Left::Reported
        }
    }
}
