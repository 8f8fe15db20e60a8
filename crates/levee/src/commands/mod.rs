//! One module a subcommand.

pub(crate) mod anycast;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod fit;
pub(crate) mod lab;
pub(crate) mod man;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod tune;

use anyhow::Result;

use crate::cli::{Cli, Command};
use crate::exit::Answer;
use crate::logging;

/// Runs the command that was asked for.
pub(crate) fn run(cli: &Cli) -> Result<Answer> {
    // `run` takes its level and format from the configuration.
    let tool = !matches!(cli.command, Command::Run(_));
    let level = tool.then(|| logging::for_tools(cli.global)).transpose()?;
    let answer = command(cli);
    if let Some(level) = level {
        level.flush();
    }
    answer
}

fn command(cli: &Cli) -> Result<Answer> {
    match &cli.command {
        Command::Demo(args) => demo::run(args, cli.global),
        Command::Run(args) => run::run(args, cli.global),
        Command::Check(args) => check::run(args, cli.global),
        Command::Compare(args) => compare::run(args, cli.global),
        Command::Lab(args) => lab::run(args, cli.global),
        Command::Replay(args) => replay::run(args, cli.global),
        Command::Fit(args) => fit::run(args, cli.global),
        Command::Tune(args) => tune::run(args, cli.global),
        Command::Anycast(command) => anycast::run(command, cli.global),
        Command::Config(command) => config::run(command, cli.global),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}
