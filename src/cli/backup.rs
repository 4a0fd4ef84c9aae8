//! `chatcron backup`: a copy of the database, made while it is in use.

use std::path::PathBuf;

use crate::cli::{
    Exit, database,
    failure::Failure,
    print,
    reading::{self, Place},
};

/// Copy the database into a new file, as it is at one moment.
///
/// It may be in use meanwhile. The copy is one file, and only its owner may read it.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The new file.
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let database = arguments.place.database()?;
    reading::must_exist(&database)?;
    database::back_up(&database, &arguments.to).await?;
    print(&format!(
        "{database} is copied to {}\n",
        arguments.to.display()
    ))?;
    Ok(Exit::Fine)
}
