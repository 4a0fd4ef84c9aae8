//! Chats, channels and agents from their tables.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
    path::PathBuf,
};

use super::{
    fields::{Entry, Fields},
    keys::EntryKind,
    known::{Known, Left},
    problem::{Code, Problem},
    reader::Reader,
};
use crate::{
    directory::{
        AgentConfig, AgentKind, ChannelConfig, Chat, ChatDialect, CommandAgent, Directory,
        HttpAgent, ModelEndpoint, Permission, ReceiptProof, ReplayMode, SecretSource,
    },
    ids::{AgentName, ChannelName, ChatKind, ChatName, SessionKey},
};

const TELEGRAM_API: &str = "https://api.telegram.org";
const OPENAI_API: &str = "https://api.openai.com/v1";
const GEMINI_API: &str = "https://generativelanguage.googleapis.com/v1beta";
const ANTHROPIC_API: &str = "https://api.anthropic.com/v1";

/// Everything that jobs refer to by name: what is registered, and over it what the file has.
pub(super) fn build(
    reader: &mut Reader<'_>,
    file: &Fields,
    defaults: &Fields,
    registered: &Directory,
) -> Known {
    let mut known = Known {
        directory: registered.clone(),
        ..Known::default()
    };
    for entry in file.entries("channels") {
        let name = ChannelName::new(entry.name.clone());
        match (entry.wrong, name, channel(entry)) {
            (false, Ok(name), Some(channel)) => {
                known.directory.channels.insert(name, channel);
            }
            _ => {
                let itself = format!("channel `{}`", entry.name);
                known.wrong_channels.insert(entry.name.clone(), itself);
                if entry.kind == Some("telegram") {
                    known.wrong_telegrams.insert(entry.name.clone());
                }
            }
        }
    }
    for entry in file.entries("agents") {
        let name = AgentName::new(entry.name.clone());
        let (agent, wrong) = reader.within(
            EntryKind::Agent,
            (&entry.name, &entry.name_span),
            |reader| reader.watching(|reader| agent(reader, entry)),
        );
        match (entry.wrong || wrong, name, agent) {
            (false, Ok(name), Some(agent)) => {
                known.directory.agents.insert(name, agent);
            }
            _ => {
                let itself = format!("agent `{}`", entry.name);
                known.wrong_agents.insert(entry.name.clone(), itself);
            }
        }
    }
    if let Some(found) = defaults.spanned_text("agent") {
        // Whoever relies on it learns the consequence; here only the name is checked.
        let _ = known.agent(reader, found);
    }
    let mut seen = Seen::default();
    for entry in file.entries("chats") {
        let made = reader.within(EntryKind::Chat, (&entry.name, &entry.name_span), |reader| {
            chat(reader, entry, &known, defaults)
                .and_then(|chat| once(reader, entry, chat, &mut seen))
                .and_then(|chat| told_apart(reader, entry, chat, &known, &mut seen))
        });
        match made {
            Ok(chat) if !entry.wrong => {
                known.directory.chats.insert(chat.name.clone(), chat);
            }
            Err(Left::Because(because)) if !entry.wrong => {
                known.wrong_chats.insert(entry.name.clone(), because);
            }
            Ok(_) | Err(_) => {
                let itself = format!("chat `{}`", entry.name);
                known.wrong_chats.insert(entry.name.clone(), itself);
            }
        }
    }
    if let Some(zone) = file.owned_text("timezone") {
        known.directory.timezone = Some(zone);
    }
    if let Some(found) = defaults.spanned_text("alert_to") {
        let _ = known.chat(reader, found);
    }
    known
}

fn secret(fields: &Fields, env: &str, file: &str) -> Option<SecretSource> {
    fields
        .owned_text(env)
        .map(SecretSource::Env)
        .or_else(|| path(fields, file).map(SecretSource::File))
}

fn path(fields: &Fields, key: &str) -> Option<PathBuf> {
    fields.text(key).map(PathBuf::from)
}

/// The URL without a slash at its end, so that paths can be put behind it.
fn root(fields: &Fields, key: &str, default: &str) -> String {
    let url = fields.text(key).unwrap_or(default);
    url.trim_end_matches('/').to_owned()
}

fn channel(entry: &Entry) -> Option<ChannelConfig> {
    let fields = &entry.fields;
    Some(match entry.kind? {
        "console" => ChannelConfig::Console {
            log: path(fields, "log"),
        },
        "telegram" => ChannelConfig::Telegram {
            token: secret(fields, "token_env", "token_file")?,
            api_root: root(fields, "api_root", TELEGRAM_API),
            inbound: fields.flag("inbound").unwrap_or(false),
        },
        "webhook" => ChannelConfig::Webhook {
            url: fields.owned_text("url")?,
            secret: fields.owned_text("secret_env").map(SecretSource::Env),
            allow_private: fields.flag("allow_private").unwrap_or(false),
            receipt: match fields.text("receipt") {
                Some("status") => ReceiptProof::Status,
                Some(_) | None => ReceiptProof::MessageId,
            },
        },
        _ => return None,
    })
}

fn agent(reader: &mut Reader<'_>, entry: &Entry) -> Option<AgentConfig> {
    let fields = &entry.fields;
    let kind = match entry.kind? {
        "echo" => AgentKind::Echo,
        "command" => AgentKind::Command(CommandAgent {
            argv: fields.texts("argv"),
            env: fields.text_map("env"),
            env_pass: fields.texts("env_pass"),
            cwd: path(fields, "cwd"),
            has_effects: fields.flag("has_effects").unwrap_or(false),
        }),
        "http" => AgentKind::Http(HttpAgent {
            url: fields.owned_text("url")?,
            token: secret(fields, "token_env", "token_file"),
            has_effects: fields.flag("has_effects").unwrap_or(false),
        }),
        "openai" => AgentKind::OpenAi(endpoint(reader, entry, OPENAI_API)?, dialect(fields)),
        "openai-responses" => AgentKind::OpenAiResponses(endpoint(reader, entry, OPENAI_API)?),
        "gemini" => AgentKind::Gemini(endpoint(reader, entry, GEMINI_API)?),
        "anthropic" => AgentKind::Anthropic(endpoint(reader, entry, ANTHROPIC_API)?),
        _ => return None,
    };
    Some(AgentConfig {
        kind,
        system: fields.owned_text("system"),
        replay: match fields.text("replay") {
            Some("framed") => ReplayMode::Framed,
            Some(_) | None => ReplayMode::Clean,
        },
        tools: tools(entry.kind, fields),
    })
}

/// A server of strict chat templates need not know of tools, and is offered none unless the file
/// says so.
fn tools(kind: Option<&str>, fields: &Fields) -> BTreeSet<Permission> {
    if fields.has("tools") {
        let words = fields.texts("tools");
        let known = words.iter().filter_map(|word| Permission::of_word(word));
        return known.collect();
    }
    match kind {
        Some("openai") if dialect(fields) == ChatDialect::Strict => BTreeSet::new(),
        Some("openai" | "openai-responses" | "anthropic" | "gemini") => Permission::standard(),
        Some(_) | None => BTreeSet::new(),
    }
}

fn dialect(fields: &Fields) -> ChatDialect {
    match fields.text("dialect") {
        Some("mistral") => ChatDialect::Mistral,
        Some("strict") => ChatDialect::Strict,
        Some(_) | None => ChatDialect::OpenAi,
    }
}

fn endpoint(reader: &mut Reader<'_>, entry: &Entry, default_url: &str) -> Option<ModelEndpoint> {
    let fields = &entry.fields;
    let api_key = secret(fields, "api_key_env", "api_key_file");
    let names_key = fields.has("api_key_env") || fields.has("api_key_file");
    if !names_key && !fields.has("base_url") {
        reader.report(
            Problem::error(
                Code::NoSecret,
                entry.name_span.clone(),
                format!("agent `{}` has no API key", entry.name),
            )
            .label(format!("{default_url} asks for one"))
            .help("say where it is: `api_key_env = \"MY_API_KEY\"` or `api_key_file = \"key.txt\"`; a server of your own that asks for none is named by `base_url`"),
        );
        return None;
    }
    Some(ModelEndpoint {
        model: fields.owned_text("model")?,
        base_url: root(fields, "base_url", default_url),
        api_key,
        max_tokens: fields.integer("max_tokens"),
        temperature: fields.number("temperature"),
    })
}

fn chat(
    reader: &mut Reader<'_>,
    entry: &Entry,
    known: &Known,
    defaults: &Fields,
) -> Result<Chat, Left> {
    let fields = &entry.fields;
    // Both are looked at before either stops it, so that both mistakes are told.
    let channel = match fields.spanned_text("channel") {
        Some(found) => known.channel(reader, found),
        None => Err(Left::Reported),
    };
    let agent = match fields.spanned_text("agent") {
        Some(found) => known.agent(reader, found),
        None if fields.has("agent") => Err(Left::Reported),
        None => known.default_agent(
            reader,
            defaults,
            &format!("chat `{}`", entry.name),
            entry.name_span.clone(),
        ),
    };
    let named = fields.text("channel");
    let form = match &channel {
        Ok((_, ChannelConfig::Telegram { .. })) => AddressForm::Telegram,
        Err(_) if named.is_some_and(|name| known.wrong_telegrams.contains(name)) => {
            AddressForm::Telegram
        }
        Ok((_, ChannelConfig::Console { .. } | ChannelConfig::Webhook { .. })) | Err(_) => {
            AddressForm::Free
        }
    };
    // The address too is looked at beside a channel that is wrong.
    let address = address(reader, entry, form);
    let (channel, config) = channel?;
    let address = address?;
    let kind = match fields.text("kind") {
        Some("group") => ChatKind::Group,
        Some("channel") => ChatKind::Channel,
        Some(_) => ChatKind::Direct,
        None => guessed_kind(config, &address),
    };
    Ok(Chat {
        name: ChatName::new(entry.name.clone()).map_err(|_| Left::Reported)?,
        channel,
        account: fields.owned_text("account"),
        kind,
        address,
        thread: fields.owned_text("thread"),
        agent: agent?,
    })
}

fn guessed_kind(channel: &ChannelConfig, address: &str) -> ChatKind {
    match channel {
        ChannelConfig::Telegram { .. } if address.starts_with('-') => ChatKind::Group,
        ChannelConfig::Telegram { .. } if address.starts_with('@') => ChatKind::Channel,
        ChannelConfig::Telegram { .. }
        | ChannelConfig::Console { .. }
        | ChannelConfig::Webhook { .. } => ChatKind::Direct,
    }
}

/// What an address is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressForm {
    /// A number or `@name`; there must be one.
    Telegram,
    /// Any text; the chat's name where there is none.
    Free,
}

fn address(reader: &mut Reader<'_>, entry: &Entry, form: AddressForm) -> Result<String, Left> {
    let fields = &entry.fields;
    let is_telegram = form == AddressForm::Telegram;
    let Some((address, span)) = fields.spanned_text("to") else {
        if fields.has("to") {
            return Err(Left::Reported);
        }
        if !is_telegram {
            return Ok(entry.name.clone());
        }
        reader.report(
            Problem::error(
                Code::BadAddress,
                entry.name_span.clone(),
                format!("chat `{}` has no `to`", entry.name),
            )
            .label("`to` is missing")
            .help("on telegram `to` is the chat's number in quotes, such as `to = \"5550001\"`, or `\"@name\"` of a public channel"),
        );
        return Err(Left::Reported);
    };
    let number = address.strip_prefix('-').unwrap_or(address);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = address
        .strip_prefix('@')
        .is_some_and(|name| !name.is_empty() && !name.contains(char::is_whitespace));
    if is_telegram && !is_number && !is_name {
        reader.report(
            Problem::error(
                Code::BadAddress,
                span,
                format!("`{}` is not a telegram address", super::values::quoted(address)),
            )
            .label("neither a number nor `@name`")
            .help("the number of a person (`\"5550001\"`) or of a group (`\"-100123\"`), or `\"@name\"` of a public channel"),
        );
        return Err(Left::Reported);
    }
    if let (true, Some((thread, span))) = (is_telegram, fields.spanned_text("thread"))
        && thread.parse::<i64>().is_err()
    {
        reader.report(
            Problem::error(
                Code::BadAddress,
                span,
                format!(
                    "`{}` is not a telegram topic",
                    super::values::quoted(thread)
                ),
            )
            .label("not a number")
            .help("on telegram `thread` is the topic's number in quotes, such as `thread = \"7\"`"),
        );
        return Err(Left::Reported);
    }
    Ok(address.to_owned())
}

/// The chats so far, by what tells them apart.
#[derive(Default)]
struct Seen {
    sessions: HashMap<SessionKey, Named>,
    /// Those of channels that are read, by what a message says of where it comes from.
    places: HashMap<(ChannelName, String, Option<String>), Named>,
}

/// A name and where it stands.
type Named = (String, Range<usize>);

/// A message says from which address and thread it comes, and no more.
fn told_apart(
    reader: &mut Reader<'_>,
    entry: &Entry,
    chat: Chat,
    known: &Known,
    seen: &mut Seen,
) -> Result<Chat, Left> {
    let is_read = matches!(
        known.directory.channels.get(&chat.channel),
        Some(ChannelConfig::Telegram { inbound: true, .. })
    );
    if !is_read {
        return Ok(chat);
    }
    let place = (
        chat.channel.clone(),
        chat.address.to_ascii_lowercase(),
        chat.thread.clone(),
    );
    let Some((other, span)) = seen.places.get(&place) else {
        let named = (entry.name.clone(), entry.name_span.clone());
        seen.places.insert(place, named);
        return Ok(chat);
    };
    reader.report(
        Problem::error(
            Code::SameChat,
            entry.name_span.clone(),
            format!(
                "a message cannot be told to come from `{other}` or from `{}`",
                entry.name
            ),
        )
        .label(format!("also {} on `{}`", chat.address, chat.channel))
        .also(span.clone(), "the first one")
        .help(format!(
            "`{}` has `inbound = true`: its chats differ in `to` or `thread`, not only in `kind` or `account`",
            chat.channel
        )),
    );
    Err(Left::Reported)
}

/// Two names for one conversation would give it two agents and two lanes of thought.
fn once(reader: &mut Reader<'_>, entry: &Entry, chat: Chat, seen: &mut Seen) -> Result<Chat, Left> {
    let key = chat.session_key();
    let Some((other, span)) = seen.sessions.get(&key) else {
        let named = (entry.name.clone(), entry.name_span.clone());
        seen.sessions.insert(key, named);
        return Ok(chat);
    };
    reader.report(
        Problem::error(
            Code::SameChat,
            entry.name_span.clone(),
            format!("chats `{other}` and `{}` are the same chat", entry.name),
        )
        .label(format!(
            "also {} {} on `{}`",
            chat.kind.as_str(),
            chat.address,
            chat.channel
        ))
        .also(span.clone(), "the first one")
        .help(format!(
            "keep one, and use its name in jobs; both would be session `{key}`"
        )),
    );
    Err(Left::Reported)
}
