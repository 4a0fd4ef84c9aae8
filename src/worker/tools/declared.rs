//! The tools as a model is told of them. Their words are part of every request: a change of them
//! makes providers forget what they have cached.

use serde_json::{Value, json};

use crate::{directory::Permission, replay::Tool};

/// The tool that a permission offers, if it offers one. Every argument is a text.
pub(super) fn tool(permission: Permission) -> Option<Tool> {
    let (description, required, optional): (_, &[_], &[_]) = match permission {
        Permission::ListJobs => (
            "Lists the scheduled jobs that can be reached from here: id, name, when each runs next, \
             whether it is paused, and what it is asked.",
            &[],
            &[],
        ),
        Permission::PauseJob => (
            "Pauses a scheduled job: nothing of it starts until it is resumed. Use it when the user \
             asks to stop messages of a job.",
            &[JOB],
            &[("reason", "Why, in a few words.")],
        ),
        Permission::ResumeJob => (
            "Lets a paused job run again, from its next slot on.",
            &[JOB],
            &[],
        ),
        Permission::DeleteJob => (
            "Deletes a job that was created with create_job. Jobs of the jobs file can be paused.",
            &[JOB],
            &[],
        ),
        Permission::CreateJob => (
            "Creates a scheduled job that posts to this chat. Give exactly one of daily, cron, every \
             and at.",
            &[
                ("id", "A new id: letters, digits, `-` and `_`."),
                ("prompt", "What the agent is asked each time."),
            ],
            &CREATE_OPTIONS,
        ),
        Permission::NextCheck => (
            "Has the present job run once more after a while, besides its schedule.",
            &[("in", "How long from now: `30m`, `2h`, `1d`.")],
            &[],
        ),
        Permission::SendMessage => (
            "Sends a message to a chat now, apart from the answer of this turn.",
            &[
                ("chat", "The name of the chat."),
                ("text", "What the chat shows."),
            ],
            &[],
        ),
        Permission::AnyJob | Permission::AnyChat | Permission::CreateInBackground => return None,
    };
    Some(Tool {
        name: permission.as_str(),
        description,
        parameters: schema(required, optional),
    })
}

type Argument = (&'static str, &'static str);

const JOB: Argument = (
    "job",
    "The id of the job, as its posting note or list_jobs gives it.",
);

const CREATE_OPTIONS: [Argument; 8] = [
    ("name", "What people call it."),
    ("daily", "A time of day, such as `08:00`."),
    ("days", "With daily: days such as `mon-fri` or `sat,sun`."),
    ("cron", "A cron expression, such as `0 8 * * mon-fri`."),
    ("every", "An interval, such as `2h`."),
    (
        "at",
        "Once, at a date and time, such as `2026-12-24T18:00`.",
    ),
    ("timezone", "An IANA zone, such as `Europe/Berlin`."),
    (
        "mode",
        "`background`, the default: the result is posted here; `in-chat`: a turn of this conversation.",
    ),
];

fn schema(required: &[Argument], optional: &[Argument]) -> Value {
    let mut properties = serde_json::Map::new();
    for (name, description) in required.iter().chain(optional) {
        let property = json!({"type": "string", "description": description});
        properties.insert((*name).to_owned(), property);
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = required.iter().map(|(name, _)| *name).collect();
    }
    schema
}
