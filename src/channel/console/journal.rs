//! The console's log file: appended under a lock, searched by key.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use crate::{
    channel::log::{ShownLine, whole_lines},
    message::Receipt,
};

/// The log, and what is known of it.
pub(super) struct Journal {
    path: PathBuf,
    /// Receipts by key, as far as the file has been read.
    shown: HashMap<String, Receipt>,
    read_to: u64,
    /// Which file that was, so that one put in its place is read from its beginning.
    identity: Option<(u64, u64)>,
}

/// Whether a message is new.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Appended {
    New(Receipt),
    Already(Receipt),
}

/// Why there is no receipt.
#[derive(Debug)]
pub(super) enum JournalError {
    /// The log does not have the line.
    NotWritten(io::Error),
    /// It may have it, now or after a crash of the machine.
    InDoubt(io::Error),
}

impl Journal {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            shown: HashMap::new(),
            read_to: 0,
            identity: None,
        }
    }

    /// Writes and syncs the line, unless the log has its key.
    pub(super) fn append(&mut self, line: &ShownLine) -> Result<Appended, JournalError> {
        let key = line.key.as_ref().map_or("", |key| key.as_str());
        let mut file = open(&self.path).map_err(JournalError::NotWritten)?;
        // Released when the file is closed. Whoever holds it is the only writer, so a last line
        // without an end is what a crash left.
        file.lock().map_err(JournalError::NotWritten)?;
        self.catch_up(&mut file).map_err(JournalError::NotWritten)?;
        if let Some(receipt) = self.shown.get(key) {
            return Ok(Appended::Already(receipt.clone()));
        }
        let mut bytes =
            serde_json::to_vec(line).map_err(|error| JournalError::NotWritten(error.into()))?;
        bytes.push(b'\n');
        if let Err(error) = file.write_all(&bytes) {
            return Err(match file.set_len(self.read_to) {
                Ok(()) => JournalError::NotWritten(error),
                Err(_) => JournalError::InDoubt(error),
            });
        }
        file.sync_data().map_err(JournalError::InDoubt)?;
        self.read_to += bytes.len() as u64;
        self.remember(line);
        Ok(Appended::New(receipt_of(line)))
    }

    /// The first line with a key is the one that was shown.
    fn remember(&mut self, line: &ShownLine) {
        if let Some(key) = &line.key {
            self.shown
                .entry(key.as_str().to_owned())
                .or_insert_with(|| receipt_of(line));
        }
    }

    /// Reads what was appended since the last time, cuts off a torn last line, and leaves the file
    /// at its end.
    fn catch_up(&mut self, file: &mut File) -> io::Result<()> {
        let metadata = file.metadata()?;
        let identity = identity_of(&metadata);
        if self.identity != Some(identity) || metadata.len() < self.read_to {
            self.shown.clear();
            self.read_to = 0;
            self.identity = Some(identity);
        }
        if metadata.len() == self.read_to {
            file.seek(SeekFrom::End(0))?;
            return Ok(());
        }
        file.seek(SeekFrom::Start(self.read_to))?;
        let mut read_to = self.read_to;
        for line in whole_lines(BufReader::new(&*file)) {
            let line = line?;
            read_to += line.len() as u64;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice::<ShownLine>(&line) {
                Ok(shown) => self.remember(&shown),
                Err(error) => {
                    tracing::warn!(at = read_to, %error, "the console's log has a foreign line");
                }
            }
        }
        if metadata.len() > read_to {
            tracing::warn!("the console's log ended in half a line; it was never confirmed");
            file.set_len(read_to)?;
        }
        // Whoever wrote these lines may have died before syncing them.
        file.sync_data()?;
        self.read_to = read_to;
        file.seek(SeekFrom::End(0))?;
        Ok(())
    }
}

fn receipt_of(line: &ShownLine) -> Receipt {
    Receipt {
        message_id: line.message_id.clone(),
        shown_at: Some(line.at),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = create(path)?;
            sync_folder_of(path)?;
            Ok(file)
        }
        opened => opened,
    }
}

/// Messages are private: only the owner may read them.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(unix)]
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder_of(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn identity_of(metadata: &std::fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity_of(_metadata: &std::fs::Metadata) -> (u64, u64) {
    (0, 0)
}
