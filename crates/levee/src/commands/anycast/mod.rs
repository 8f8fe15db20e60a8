//! `levee anycast`: one module a subcommand.

mod diff;
mod estimate;
mod map;
mod plan;
mod playbook;
mod respond;
mod simulate;

use anyhow::Result;

use crate::cli::Global;
use crate::exit::Answer;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Read a measurement and write it as a catchment map
    Map(map::Args),
    /// Say which blocks moved from one map to another, and which never do
    Diff(diff::Args),
    /// Show and make playbooks
    #[command(subcommand)]
    Playbook(playbook::Command),
    /// Estimate the offered load from known-good traffic
    Estimate(estimate::Args),
    /// Rank the plays of a playbook for a load
    Plan(plan::Args),
    /// Run the responder over measured loads, as a dry run
    Respond(respond::Args),
    /// Predict a playbook on a graph of ASes
    Simulate(simulate::Args),
}

pub(crate) fn run(command: &Command, global: Global) -> Result<Answer> {
    match command {
        Command::Map(args) => map::run(args, global),
        Command::Diff(args) => diff::run(args, global),
        Command::Playbook(command) => playbook::run(command, global),
        Command::Estimate(args) => estimate::run(args, global),
        Command::Plan(args) => plan::run(args, global),
        Command::Respond(args) => respond::run(args, global),
        Command::Simulate(args) => simulate::run(args, global),
    }
}
