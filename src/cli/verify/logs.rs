//! The logs of channels, and which of their lines belong to which chat.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use crate::{
    channel::log::{self, LogError},
    cli::{failure::Failure, names::Session},
    directory::{ChannelConfig, Chat, Directory},
    ids::ChannelName,
    outbound::verify::ShownLine,
};

/// What channels say they showed.
#[derive(Debug, Default)]
pub(super) struct Logs {
    pub(super) channels: BTreeMap<ChannelName, ChannelLog>,
}

/// What one channel says it showed.
#[derive(Debug)]
pub(super) struct ChannelLog {
    pub(super) path: PathBuf,
    pub(super) lines: Vec<log::ShownLine>,
    /// Whether the file is there at all.
    pub(super) state: LogFile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogFile {
    Read,
    /// A console makes its log when it first shows something.
    Absent,
}

impl Logs {
    /// Reads the logs that are given, and those that console channels keep themselves. `kept`
    /// names, for a console channel, the folder of the jobs file and the log's usual place.
    pub(super) fn read(
        given: &[(ChannelName, PathBuf)],
        sessions: &[Session],
        directory: &Directory,
        kept: &dyn Fn(&ChannelName) -> (PathBuf, PathBuf),
    ) -> Result<Self, Failure> {
        let mut logs = Self::default();
        for (channel, path) in given {
            let lines = log::read(path).map_err(|error| super::unreadable_log(path, &error))?;
            logs.add(channel, path.clone(), lines, LogFile::Read);
        }
        let chats = sessions.iter().filter_map(|session| session.chat.as_ref());
        let channels: BTreeSet<&ChannelName> = chats
            .map(|chat| &chat.channel)
            .chain(directory.channels.keys())
            .collect();
        for channel in channels {
            if logs.channels.contains_key(channel) {
                continue;
            }
            let (folder, usual) = kept(channel);
            match directory.channels.get(channel) {
                Some(ChannelConfig::Console { log: Some(path) }) => {
                    logs.read_own(channel, &folder.join(path))?;
                }
                Some(ChannelConfig::Console { log: None }) => logs.read_own(channel, &usual)?,
                // Without the jobs file a log at the usual place tells that it is a console.
                None if usual.exists() => logs.read_own(channel, &usual)?,
                Some(ChannelConfig::Telegram { .. } | ChannelConfig::Webhook { .. }) | None => {}
            }
        }
        Ok(logs)
    }

    /// Reads the log that a console keeps itself. Where there is none, it has shown nothing.
    fn read_own(&mut self, channel: &ChannelName, path: &Path) -> Result<(), Failure> {
        let (lines, state) = match log::read(path) {
            Ok(lines) => (lines, LogFile::Read),
            Err(LogError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                (Vec::new(), LogFile::Absent)
            }
            Err(error) => return Err(super::unreadable_log(path, &error)),
        };
        self.add(channel, path.to_path_buf(), lines, state);
        Ok(())
    }

    /// Several logs of one channel are read as one, in the order given.
    pub(super) fn add(
        &mut self,
        channel: &ChannelName,
        path: PathBuf,
        lines: Vec<log::ShownLine>,
        state: LogFile,
    ) {
        match self.channels.get_mut(channel) {
            Some(log) => log.lines.extend(lines),
            None => {
                let log = ChannelLog { path, lines, state };
                self.channels.insert(channel.clone(), log);
            }
        }
    }

    /// Whole session keys that lines carry.
    pub(super) fn session_keys(&self) -> BTreeSet<&str> {
        self.channels
            .iter()
            .flat_map(|(channel, log)| {
                let own = format!("{channel}:");
                let keys = log.lines.iter().map(|line| line.chat.as_str());
                keys.filter(move |chat| chat.starts_with(&own))
            })
            .collect()
    }

    /// The lines of a chat, in the channel's order; `None` where its channel has no log.
    pub(super) fn of(&self, session: &Session) -> Option<Vec<ShownLine>> {
        let log = self.channel_of(session)?;
        let lines = log.lines.iter().filter(|line| is_of(line, session));
        Some(
            lines
                .map(|line| ShownLine {
                    message_id: line.message_id.clone(),
                    key: line.key.as_ref().map(|key| key.as_str().to_owned()),
                    text: line.text.clone(),
                })
                .collect(),
        )
    }

    /// The log of a chat's channel.
    pub(super) fn channel_of(&self, session: &Session) -> Option<&ChannelLog> {
        let channel = match &session.chat {
            Some(chat) => chat.channel.as_str(),
            None => session.key.as_str().split(':').next().unwrap_or_default(),
        };
        self.channels.get(channel)
    }

    /// How many lines of all logs belong to none of these chats.
    pub(super) fn of_others(&self, sessions: &[Session]) -> usize {
        let foreign = |line: &&log::ShownLine| !sessions.iter().any(|chat| is_of(line, chat));
        let lines = self.channels.values().flat_map(|log| &log.lines);
        lines.filter(foreign).count()
    }
}

fn is_of(line: &log::ShownLine, session: &Session) -> bool {
    let by_address = |chat: &Chat| chat.address == line.chat && chat.thread == line.thread;
    line.chat == session.key.as_str() || session.chat.as_ref().is_some_and(by_address)
}
