//! `levee man`.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::exit::Answer;
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write a page for each command into this folder instead
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Answer> {
    if let Some(folder) = &args.folder {
        clap_mangen::generate_to(Cli::command(), folder).with_context(|| {
            format!(
                "cannot write manual pages into {}: does the folder exist?",
                folder.display()
            )
        })?;
        return Ok(Answer::Yes);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    output::bytes(&page)?;
    Ok(Answer::Yes)
}
