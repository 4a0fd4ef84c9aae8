//! What the commands share that read a database, or change one row of it by a person's word.

use std::{path::PathBuf, sync::Arc};

use crate::{
    cli::{
        Exit,
        database::{self, Database},
        failure::Failure,
    },
    store::{Store, sqlite::OpenMode},
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
    /// The database.
    ///
    /// # Errors
    /// Where its URL is none.
    pub(super) fn database(&self) -> Result<Database, Failure> {
        self.database.database(&self.file)
    }

    /// Opens the database to read it.
    ///
    /// # Errors
    /// Where there is none, or it cannot be read.
    pub(super) async fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        open(&self.database()?).await
    }

    /// Opens the database to change it; it is never made by that.
    ///
    /// # Errors
    /// Where there is none, or it cannot be written.
    pub(super) async fn open_to_write(&self) -> Result<Arc<dyn Store>, Failure> {
        let database = self.database()?;
        must_exist(&database)?;
        Ok(database::open(&database, OpenMode::MustExist)
            .await?
            .store())
    }
}

/// Opens a database to read it; a reader never makes one.
///
/// # Errors
/// Where there is none, or it cannot be read.
pub(super) async fn open(database: &Database) -> Result<Arc<dyn Store>, Failure> {
    must_exist(database)?;
    Ok(database::open(database, OpenMode::ReadOnly).await?.store())
}

pub(super) fn must_exist(database: &Database) -> Result<(), Failure> {
    if !database.is_missing() {
        return Ok(());
    }
    let message = format!("there is no database at {database}");
    Err(Failure::new(Exit::CannotRead, message).help(
        "`chatcron run` makes it when it starts the jobs of a file; \
         another one is named with --db",
    ))
}
