//! A copy of the database as it is at one moment, made while others read and write.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};

use crate::store::{StoreError, sql::failure::Failure};

use super::{OpenMode, migrate, open::BUSY_TIMEOUT};

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
    /// Another backup writes there.
    #[error("another backup is writing {}", path.display())]
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
/// one file without a log beside it. It is there whole and on the disk, or not at all. What a backup
/// that was killed has left beside it is written anew.
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
    // The lock ends with the process, so that a copy without one is nobody's.
    let held = match hold(&unfinished).map_err(cannot)? {
        Some(held) => held,
        None => return Err(BackupError::Unfinished { path: unfinished }),
    };
    let copied = copy(from, &unfinished).await;
    let outcome = match copied {
        Ok(()) => publish(&unfinished, to).map_err(cannot),
        Err(error) => Err(error.into()),
    };
    if outcome.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    drop(held);
    outcome
}

/// Takes the unfinished copy for this process, and empties it; `None` where another one has it.
fn hold(path: &Path) -> io::Result<Option<File>> {
    // Only its owner reads it, as histories are private.
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("what is there is no file"));
    }
    let file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Whoever had it may have finished, and given it its name, since it was opened.
    if !is_still_at(&file, path)? {
        return Ok(None);
    }
    file.set_len(0)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(Some(file))
}

#[cfg(unix)]
fn is_still_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let own = file.metadata()?;
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    Ok((own.dev(), own.ino()) == (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn is_still_at(_: &File, path: &Path) -> io::Result<bool> {
    path.try_exists()
}

async fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let name = from.display().to_string();
    let copied = async {
        let reading = SqliteConnectOptions::new()
            .filename(from)
            .read_only(true)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging();
        let mut conn = reading.connect().await?;
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
