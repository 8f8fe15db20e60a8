//! `levee anycast playbook`.

use anyhow::{Result, bail};

use crate::cli::Global;
use crate::exit::Answer;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show the tables of a playbook
    Show(Show),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {}

pub(crate) fn run(command: &Command, _global: Global) -> Result<Answer> {
    let Command::Show(_) = command;
    bail!("not in this version")
}
