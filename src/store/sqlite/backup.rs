//! A copy of the database as it is at one moment, made while others read and write.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use sqlx::ConnectOptions;

use crate::store::{StoreError, sql::failure::Failure};

use super::{OpenMode, migrate, open};

const COPY: &str = "VACUUM INTO $1";

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The database cannot be read, or the copy cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something is there already, and nothing is written over it.
    #[error("there is something at {} already", path.display())]
    Occupied {
        /// Where.
        path: PathBuf,
    },
    /// Another backup writes there, or one was killed.
    #[error("{} is there: another backup is at work, or one was killed", path.display())]
    Unfinished {
        /// The unfinished copy.
        path: PathBuf,
    },
    /// The place cannot be written.
    #[error("{} cannot be written", path.display())]
    Place {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Copies the database at `from` into a new file at `to`: all that was committed at one moment, in
/// one file without a log beside it. It is there whole and on the disk, or not at all.
///
/// # Errors
/// [`BackupError`]; nothing is left at `to` then.
pub async fn back_up(from: &Path, to: &Path) -> Result<(), BackupError> {
    if to.symlink_metadata().is_ok() {
        return Err(BackupError::Occupied {
            path: to.to_owned(),
        });
    }
    migrate::prepare(from, OpenMode::ReadOnly).await?;
    let unfinished = beside(to);
    let cannot = |source| BackupError::Place {
        path: to.to_owned(),
        source,
    };
    if unfinished.symlink_metadata().is_ok() {
        return Err(BackupError::Unfinished { path: unfinished });
    }
    // Only its owner reads it, as histories are private.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&unfinished).map_err(cannot)?;
    let copied = copy(from, &unfinished).await;
    let outcome = match copied {
        Ok(()) => publish(&unfinished, to).map_err(cannot),
        Err(error) => Err(error.into()),
    };
    if outcome.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    outcome
}

async fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let name = from.display().to_string();
    let copied = async {
        let mut conn = open::reading(from, OpenMode::ReadOnly)
            .pragma("query_only", "OFF")
            .connect()
            .await?;
        sqlx::query(COPY)
            .bind(to.to_string_lossy().into_owned())
            .execute(&mut conn)
            .await?;
        sqlx::Connection::close(conn).await
    };
    copied
        .await
        .map_err(|error: sqlx::Error| Failure::from(error).into_error(&name))
}

/// Gives the finished copy its name, once it is on the disk.
fn publish(unfinished: &Path, to: &Path) -> io::Result<()> {
    File::open(unfinished)?.sync_all()?;
    fs::rename(unfinished, to)?;
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

fn beside(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}
