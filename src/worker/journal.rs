//! The journal of decisions: one line each, with everything it depended on.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Mutex, PoisonError},
};

use crate::policy::{Decided, JournalEntry};

/// A file to which decisions are appended. It holds definitions, prompts included, and no reply.
pub struct Journal {
    file: Mutex<File>,
}

impl Journal {
    /// Appends to this file, which is made if there is none.
    ///
    /// # Errors
    /// Where the file cannot be opened for appending.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self {
            file: Mutex::new(file),
        })
    }

    /// Appends one decision. The decision is committed already, so a journal that cannot be written
    /// is reported and stops nobody.
    pub fn write(&self, decided: Decided) {
        let written = serde_json::to_vec(&JournalEntry::of(decided))
            .map_err(io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
                file.write_all(&line)
            });
        if let Err(error) = written {
            tracing::error!(%error, "a decision is missing from the journal");
        }
    }
}
