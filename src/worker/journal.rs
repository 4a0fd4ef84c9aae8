//! The journal of decisions: one line each, with everything it depended on.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
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
    /// A process that died may have left a last line without its end: it gets one, so that nothing
    /// is written into it.
    ///
    /// # Errors
    /// Where the file cannot be opened for appending.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(path)?;
        end_last_line(&mut file)?;
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

fn end_last_line(file: &mut File) -> io::Result<()> {
    if file.metadata()?.len() == 0 {
        return Ok(());
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last != *b"\n" {
        file.write_all(b"\n")?;
    }
    Ok(())
}
