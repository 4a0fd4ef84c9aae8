//! What the commands share that read a database, or change one row of it by a person's word.

use std::path::{Path, PathBuf};

use crate::{
    cli::{Exit, database, failure::Failure},
    store::Store,
};

/// Where the database is, for commands that are not given the jobs file as an argument.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Place {
    /// The jobs file beside which the database is.
    #[arg(long, value_name = "FILE", default_value = "jobs.toml")]
    pub(super) file: PathBuf,
    #[command(flatten)]
    database: database::Arguments,
}

impl Place {
    /// The database's file.
    ///
    /// # Errors
    /// Where its URL is not one of SQLite.
    pub(super) fn database(&self) -> Result<PathBuf, Failure> {
        self.database.path(&self.file)
    }

    /// Opens the database to read it.
    ///
    /// # Errors
    /// Where there is none, or it cannot be read.
    pub(super) async fn open(&self) -> Result<Box<dyn Store>, Failure> {
        open(&self.database()?).await
    }

    /// Opens the database to change it; it is never made by that.
    ///
    /// # Errors
    /// Where there is none, or it cannot be written.
    pub(super) async fn open_to_write(&self) -> Result<Box<dyn Store>, Failure> {
        let path = self.database()?;
        must_exist(&path)?;
        database::open_existing(&path).await
    }
}

/// Opens a database to read it; a reader never makes one.
///
/// # Errors
/// Where there is none, or it cannot be read.
pub(super) async fn open(path: &Path) -> Result<Box<dyn Store>, Failure> {
    must_exist(path)?;
    database::open_to_read(path).await
}

pub(super) fn must_exist(path: &Path) -> Result<(), Failure> {
    if path.exists() {
        return Ok(());
    }
    let message = format!("there is no database at {}", path.display());
    Err(Failure::new(Exit::CannotRead, message).help(
        "`chatcron run` makes it when it starts the jobs for the first time; \
         another one is named with --db",
    ))
}
