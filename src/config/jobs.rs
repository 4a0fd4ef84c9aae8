//! Jobs from their tables.

use std::path::Path;

use super::{
    FileZone,
    fields::{Entry, Fields},
    keys::{EntryKind, HISTORY},
    known::{Known, Left},
    policies::{self, Merged},
    problem::{Code, Problem},
    reader::Reader,
    schedules,
};
use crate::{
    ids::{AgentName, ChatName, JobId},
    job::{ChatContext, Deliver, Job, Mode, WebhookTarget},
};

/// How many texts of a quoted chat are taken where nothing is said.
const CONTEXT_LAST: u32 = 20;

/// What is the same for all jobs of a file.
pub(super) struct Shared<'a> {
    pub(super) known: &'a Known,
    pub(super) defaults: &'a Fields,
    pub(super) zone: &'a FileZone,
}

/// One job, or why it is left out.
pub(super) fn build(
    reader: &mut Reader<'_>,
    entry: &Entry,
    shared: &Shared<'_>,
) -> Result<Job, Left> {
    let (made, wrong) = reader.within(EntryKind::Job, (&entry.name, &entry.name_span), |reader| {
        reader.watching(|reader| assemble(reader, entry, shared))
    });
    // What is wrong with the job itself comes before what is wrong with something it needs.
    if entry.wrong || wrong {
        return Err(Left::Reported);
    }
    made
}

fn assemble(reader: &mut Reader<'_>, entry: &Entry, shared: &Shared<'_>) -> Result<Job, Left> {
    let fields = &entry.fields;
    let merged = Merged {
        own: fields,
        defaults: shared.defaults,
    };
    // Every part is looked at before the first wrong one stops it, so that all mistakes are told.
    let prompt = prompt(reader, fields);
    let mode = mode(reader, entry, shared);
    let schedule = schedules::build(reader, entry, merged, shared.zone);
    let alert_to = alert_to(reader, merged, shared.known);
    let (prompt, mode, schedule, alert_to) = (prompt?, mode?, schedule?, alert_to?);
    if let Some(because) = merged.wrong_default() {
        return Err(Left::Because(because));
    }
    let policies = policies::build(merged, alert_to);
    policies::check(reader, entry, merged, &policies, &mode)?;
    Ok(Job {
        id: JobId::new(entry.name.clone()).map_err(|_| Left::Reported)?,
        name: fields.owned_text("name"),
        enabled: fields.flag("enabled").unwrap_or(true),
        schedule,
        prompt,
        mode,
        policies,
    })
}

fn prompt(reader: &mut Reader<'_>, fields: &Fields) -> Result<String, Left> {
    if let Some(prompt) = fields.owned_text("prompt") {
        return Ok(prompt);
    }
    let (path, span) = fields.spanned_text("prompt_file").ok_or(Left::Reported)?;
    let problem = match (reader.read_file)(Path::new(path)) {
        Ok(prompt) if !prompt.trim().is_empty() => return Ok(prompt),
        Ok(_) => Problem::error(
            Code::EmptyPrompt,
            span,
            format!("the prompt file `{path}` is empty"),
        )
        .label("nothing to ask the agent"),
        Err(error) => Problem::error(
            Code::PromptFile,
            span,
            format!("cannot read the prompt file `{path}`: {error}"),
        )
        .label("not readable")
        .help("a text file in UTF-8; its path is relative to this file"),
    };
    reader.report(problem);
    Err(Left::Reported)
}

fn mode(reader: &mut Reader<'_>, entry: &Entry, shared: &Shared<'_>) -> Result<Mode, Left> {
    let fields = &entry.fields;
    match (fields.has("chat"), fields.has("deliver")) {
        (true, false) => in_chat(reader, fields, shared),
        (false, true) => background(reader, entry, shared),
        // Reported by the rule between the two.
        (true, true) | (false, false) => Err(Left::Reported),
    }
}

fn own_agent(
    reader: &mut Reader<'_>,
    fields: &Fields,
    known: &Known,
) -> Result<Option<AgentName>, Left> {
    match fields.spanned_text("agent") {
        Some(found) => known.agent(reader, found).map(Some),
        None if fields.has("agent") => Err(Left::Reported),
        None => Ok(None),
    }
}

fn in_chat(reader: &mut Reader<'_>, fields: &Fields, shared: &Shared<'_>) -> Result<Mode, Left> {
    let own = own_agent(reader, fields, shared.known);
    let found = fields.spanned_text("chat").ok_or(Left::Reported)?;
    let chat = shared.known.chat(reader, found)?;
    let own = own?.filter(|agent| *agent != chat.agent);
    if let Some(agent) = &own {
        let help = format!(
            "the turn runs in the history of `{}` and is answered as `{agent}`; remove `agent` to let the chat's own agent answer",
            chat.name
        );
        reader.report(agent_differs(fields, agent, &chat.agent, chat.name.as_str()).help(help));
    }
    Ok(Mode::InChat {
        chat: chat.name.clone(),
        agent: own,
    })
}

fn agent_differs(fields: &Fields, agent: &AgentName, of_chat: &AgentName, chat: &str) -> Problem {
    Problem::warning(
        Code::AgentDiffers,
        fields
            .field("agent")
            .map_or(0..0, |field| field.span.clone()),
        format!("the job's agent is `{agent}`, and chat `{chat}` is bound to `{of_chat}`"),
    )
    .label(format!("not the agent of `{chat}`"))
}

fn background(reader: &mut Reader<'_>, entry: &Entry, shared: &Shared<'_>) -> Result<Mode, Left> {
    let fields = &entry.fields;
    let known = shared.known;
    let own = own_agent(reader, fields, known);
    let deliver = deliver(reader, fields, known);
    let context = context(reader, fields, known, deliver.as_ref().ok());
    let deliver = deliver?;
    let agent = match (own?, &deliver) {
        (Some(agent), Deliver::Chat(name)) => {
            if let Some(chat) = known.directory.chats.get(name)
                && chat.agent != agent
            {
                let help = format!(
                    "the result is sent, but stands in no history of `{name}`, so `{}` will not know of it; use `agent = \"{}\"` to keep it there",
                    chat.agent, chat.agent
                );
                reader.report(agent_differs(fields, &agent, &chat.agent, name.as_str()).help(help));
            }
            agent
        }
        (Some(agent), Deliver::Webhook(_) | Deliver::History) => agent,
        (None, Deliver::Chat(name)) => known
            .directory
            .chats
            .get(name)
            .map(|chat| chat.agent.clone())
            .ok_or(Left::Reported)?,
        (None, Deliver::Webhook(_) | Deliver::History) => known.default_agent(
            reader,
            shared.defaults,
            &format!("job `{}`", entry.name),
            entry.name_span.clone(),
        )?,
    };
    Ok(Mode::Background {
        deliver,
        agent,
        memory: fields.flag("memory").unwrap_or(false),
        context: context?,
    })
}

fn deliver(reader: &mut Reader<'_>, fields: &Fields, known: &Known) -> Result<Deliver, Left> {
    if let Some(table) = fields.table("deliver") {
        return Ok(Deliver::Webhook(WebhookTarget {
            url: table.owned_text("webhook").ok_or(Left::Reported)?,
            secret_env: table.owned_text("secret_env"),
            allow_private: table.flag("allow_private").unwrap_or(false),
        }));
    }
    match fields.spanned_text("deliver").ok_or(Left::Reported)? {
        (HISTORY, _) => Ok(Deliver::History),
        found => {
            let chat = known.chat(reader, found)?;
            Ok(Deliver::Chat(chat.name.clone()))
        }
    }
}

/// The chat that is told of failures. A wrong default is reported once, where it stands.
fn alert_to(
    reader: &mut Reader<'_>,
    merged: Merged<'_>,
    known: &Known,
) -> Result<Option<ChatName>, Left> {
    let Some(found) = merged.of("alert_to").spanned_text("alert_to") else {
        return Ok(None);
    };
    if !merged.own.has("alert_to") && !known.directory.chats.contains_key(found.0) {
        return Err(Left::Because(String::from("`defaults.alert_to`")));
    }
    let chat = known.chat(reader, found)?;
    Ok(Some(chat.name.clone()))
}

fn context(
    reader: &mut Reader<'_>,
    fields: &Fields,
    known: &Known,
    deliver: Option<&Deliver>,
) -> Result<Option<ChatContext>, Left> {
    let Some(table) = fields.table("context") else {
        return Ok(None);
    };
    let (name, span) = table.spanned_text("chat").ok_or(Left::Reported)?;
    let chat = known.chat(reader, (name, span.clone()))?;
    let elsewhere = match deliver {
        Some(Deliver::Chat(destination)) if *destination != chat.name => {
            Some(format!("chat `{destination}`"))
        }
        Some(Deliver::Webhook(_)) => Some(String::from("a webhook")),
        Some(Deliver::Chat(_) | Deliver::History) | None => None,
    };
    if let Some(elsewhere) = elsewhere {
        reader.report(
            Problem::warning(
                Code::ContextElsewhere,
                span,
                format!("the job reads chat `{name}` and its result goes to {elsewhere}"),
            )
            .label("what is said here may be told there")
            .help("fine if that is meant; else quote the chat that gets the result"),
        );
    }
    Ok(Some(ChatContext {
        chat: chat.name.clone(),
        last: table.integer("last").unwrap_or(CONTEXT_LAST),
    }))
}
