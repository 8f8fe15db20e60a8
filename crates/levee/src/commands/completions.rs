//! `levee completions SHELL`.

use anyhow::Result;
use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::exit::Answer;
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> Result<Answer> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "levee", &mut script);
    output::bytes(&script)?;
    Ok(Answer::Yes)
}
