//! The keys of chats, channels, agents and retention.

use super::{key, required};
use crate::{
    config::{
        keys::{Key, Rule, Shape, Shortest, Table},
        problem::Code,
    },
    directory::Permission,
};

pub(super) static CHAT: Table = Table {
    what: "a chat",
    doc: "A chat: an address on a channel, with the agent that answers there.",
    groups: &[&[
        required("channel", Shape::ChannelName, "The channel it is on."),
        key(
            "to",
            Shape::Prompt,
            "Its address on the channel. On console and webhook channels the default is its name.",
        ),
        key(
            "kind",
            Shape::Word {
                accepted: &["direct", "group", "channel"],
            },
            "What sort of chat it is. Default: guessed from the address.",
        ),
        key(
            "thread",
            Shape::Prompt,
            "The thread or topic inside the chat.",
        ),
        key(
            "account",
            Shape::Prompt,
            "The account on the channel, where it has several.",
        ),
        key(
            "agent",
            Shape::AgentName,
            "The agent that answers there. Default: `defaults.agent`, else the only one.",
        ),
    ]],
    rules: &[],
};

pub(super) const CHANNEL_KINDS: &[(&str, &Table)] = &[
    ("console", &CONSOLE),
    ("telegram", &TELEGRAM),
    ("webhook", &WEBHOOK),
];

static CONSOLE: Table = Table {
    what: "a console channel",
    doc: "Shows messages in the terminal, and keeps them in a log file.",
    groups: &[&[
        required("kind", Shape::Text, "The kind of channel."),
        key(
            "log",
            Shape::Path,
            "The log file. Default: beside the database.",
        ),
    ]],
    rules: &[],
};

const TOKEN: &[(&str, &str)] = &[
    ("token_env", "the token from the environment"),
    ("token_file", "the token from a file"),
];

static TELEGRAM: Table = Table {
    what: "a telegram channel",
    doc: "The Telegram Bot API.",
    groups: &[&[
        required("kind", Shape::Text, "The kind of channel."),
        key(
            "token_env",
            Shape::EnvName,
            "The environment variable that holds the bot's token.",
        ),
        key(
            "token_file",
            Shape::Path,
            "A file that holds the bot's token.",
        ),
        key(
            "api_root",
            Shape::Url,
            "The API's root. Default: https://api.telegram.org.",
        ),
        key(
            "inbound",
            Shape::Flag,
            "Whether what people write to the bot is read, and answered in the chats of this file. Default: false.",
        ),
    ]],
    rules: &[Rule::ExactlyOne {
        keys: TOKEN,
        many: (Code::TwoSecrets, "keep one of the two"),
        none: (
            Code::NoSecret,
            "say where the bot's token is: `token_env = \"TELEGRAM_BOT_TOKEN\"` or `token_file = \"telegram.token\"`",
        ),
    }],
};

/// How a URL is posted to, by a channel or by one job.
pub(super) const WEBHOOK_POST: &[Key] = &[
    key(
        "secret_env",
        Shape::EnvName,
        "The environment variable with the secret that signs each post. Default: unsigned.",
    ),
    key(
        "allow_private",
        Shape::Flag,
        "Whether the URL may be on a private network or on this machine. Default: false.",
    ),
];

static WEBHOOK: Table = Table {
    what: "a webhook channel",
    doc: "Messages are posted to a URL.",
    groups: &[
        &[
            required("kind", Shape::Text, "The kind of channel."),
            required("url", Shape::Url, "The URL."),
        ],
        WEBHOOK_POST,
        &[key(
            "receipt",
            Shape::Word {
                accepted: &["message-id", "status"],
            },
            "What proves that a chat showed a message: `message_id` in the JSON of a 2xx answer, or the status alone. Default: message-id.",
        )],
    ],
    rules: &[],
};

pub(super) const AGENT_KINDS: &[(&str, &Table)] = &[
    ("echo", &ECHO),
    ("command", &COMMAND),
    ("http", &HTTP),
    ("openai", &OPENAI),
    ("openai-responses", &OPENAI_RESPONSES),
    ("anthropic", &ANTHROPIC),
    ("gemini", &GEMINI),
];

const ANY_AGENT: &[Key] = &[
    required("kind", Shape::Text, "The kind of agent."),
    key("system", Shape::Text, "The system prompt."),
    key(
        "replay",
        Shape::Word {
            accepted: &["clean", "framed"],
        },
        "Whether a person's earlier messages are given as words alone, or with a connector's framing. Default: clean.",
    ),
];

/// What may stand in `tools`, in the order in which it is documented.
const TOOLS: &[&str] = &[
    Permission::ListJobs.as_str(),
    Permission::PauseJob.as_str(),
    Permission::ResumeJob.as_str(),
    Permission::CreateJob.as_str(),
    Permission::DeleteJob.as_str(),
    Permission::NextCheck.as_str(),
    Permission::SendMessage.as_str(),
    Permission::AnyJob.as_str(),
    Permission::AnyChat.as_str(),
    Permission::CreateInBackground.as_str(),
];

static ECHO: Table = Table {
    what: "an echo agent",
    doc: "Answers with the prompt itself.",
    groups: &[ANY_AGENT],
    rules: &[],
};

static COMMAND: Table = Table {
    what: "a command agent",
    doc: "Runs a program without a shell: the conversation as JSON on stdin, the answer on stdout.",
    groups: &[
        ANY_AGENT,
        &[
            required("argv", Shape::Argv, "The program and its arguments."),
            key(
                "env",
                Shape::TextMap,
                "Variables that are set; never secrets.",
            ),
            key(
                "env_pass",
                Shape::ListOrEmpty(&Shape::EnvName),
                "Variables that are passed on, besides PATH, HOME, LANG and TZ.",
            ),
            key(
                "cwd",
                Shape::Path,
                "The working directory. Default: the jobs file's.",
            ),
        ],
        OWN_EFFECTS,
    ],
    rules: &[],
};

/// What an agent of one's own cannot say by itself before it acts.
const OWN_EFFECTS: &[Key] = &[key(
    "has_effects",
    Shape::Flag,
    "Whether what it does must not be done twice: an attempt that failed is not repeated by itself. Default: false.",
)];

static HTTP: Table = Table {
    what: "an http agent",
    doc: "Asks a server of one's own: the conversation is posted as JSON, the answer has the reply.",
    groups: &[
        ANY_AGENT,
        &[
            required("url", Shape::Url, "Where the conversation is posted."),
            key(
                "token_env",
                Shape::EnvName,
                "The environment variable that holds the bearer token. Default: none is sent.",
            ),
            key(
                "token_file",
                Shape::Path,
                "A file that holds the bearer token.",
            ),
        ],
        OWN_EFFECTS,
    ],
    rules: &[Rule::AtMostOne {
        keys: TOKEN,
        many: (Code::TwoSecrets, "keep one of the two"),
    }],
};

const API_KEY: &[(&str, &str)] = &[
    ("api_key_env", "the key from the environment"),
    ("api_key_file", "the key from a file"),
];

const MODEL: &[Key] = &[
    required("model", Shape::Prompt, "The model's name."),
    key(
        "api_key_env",
        Shape::EnvName,
        "The environment variable that holds the API key.",
    ),
    key(
        "api_key_file",
        Shape::Path,
        "A file that holds the API key.",
    ),
    key(
        "max_tokens",
        Shape::Integer {
            min: 1,
            max: 10_000_000,
        },
        "The most tokens of one reply.",
    ),
    key(
        "temperature",
        Shape::Number { min: 0.0, max: 2.0 },
        "The sampling temperature.",
    ),
    key(
        "tools",
        Shape::ListOrEmpty(&Shape::Word { accepted: TOOLS }),
        "What the agent may do besides answering. Default: list_jobs, pause_job, resume_job; nothing with the dialect `strict`.",
    ),
];

const ONE_API_KEY: &[Rule] = &[Rule::AtMostOne {
    keys: API_KEY,
    many: (Code::TwoSecrets, "keep one of the two"),
}];

static OPENAI: Table = Table {
    what: "an openai agent",
    doc: "Any server of OpenAI's chat completions.",
    groups: &[
        ANY_AGENT,
        MODEL,
        &[
            key(
                "base_url",
                Shape::Url,
                "The API's root with its version. Default: https://api.openai.com/v1.",
            ),
            key(
                "dialect",
                Shape::Word {
                    accepted: &["openai", "mistral", "strict"],
                },
                "What the server demands of a conversation; `strict` for a model's own chat template. Default: openai.",
            ),
        ],
    ],
    rules: ONE_API_KEY,
};

static OPENAI_RESPONSES: Table = Table {
    what: "an openai-responses agent",
    doc: "OpenAI's Responses.",
    groups: &[
        ANY_AGENT,
        MODEL,
        &[key(
            "base_url",
            Shape::Url,
            "The API's root with its version. Default: https://api.openai.com/v1.",
        )],
    ],
    rules: ONE_API_KEY,
};

static GEMINI: Table = Table {
    what: "a gemini agent",
    doc: "Gemini's generateContent.",
    groups: &[
        ANY_AGENT,
        MODEL,
        &[key(
            "base_url",
            Shape::Url,
            "The API's root with its version. Default: https://generativelanguage.googleapis.com/v1beta.",
        )],
    ],
    rules: ONE_API_KEY,
};

static ANTHROPIC: Table = Table {
    what: "an anthropic agent",
    doc: "Anthropic's Messages.",
    groups: &[
        ANY_AGENT,
        MODEL,
        &[key(
            "base_url",
            Shape::Url,
            "The API's root with its version. Default: https://api.anthropic.com/v1.",
        )],
    ],
    rules: ONE_API_KEY,
};

pub(super) static RETENTION: Table = Table {
    what: "`[retention]`",
    doc: "How long rows are kept. What a chat showed is never pruned.",
    groups: &[&[
        key(
            "runs",
            Shape::Duration(Shortest::OneSecond),
            "Finished runs and their outcomes. Default: 90d.",
        ),
        key(
            "job_sessions",
            Shape::Duration(Shortest::OneSecond),
            "Entries of jobs' own sessions. Default: 90d.",
        ),
        key(
            "one_shots",
            Shape::Duration(Shortest::OneSecond),
            "`at` jobs that have run. Default: 7d.",
        ),
    ]],
    rules: &[],
};
