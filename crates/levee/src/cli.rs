//! The arguments. Nothing is read or opened while they are parsed.

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::commands::{
    anycast, check, compare, completions, config, demo, fit, lab, man, replay, run, tune,
};

/// Keeps a service available to its honest users while it is under a denial-of-service attack.
#[derive(Debug, Parser)]
#[command(name = "levee", version, propagate_version = true, after_help = EXIT_STATUS)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_STATUS: &str = "Exit status:\n  \
    0  done, and what was checked holds\n  \
    1  what was checked does not hold\n  \
    2  bad input; standard error says what, where, and what to do\n\n\
    Environment:\n  \
    LEVEE_LOG  which logs are written, instead of the configuration's level: info, levee_proxy=debug";

/// Options of every command.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Global {
    /// Print one JSON document on standard output, and nothing else there
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Write more logs to standard error; twice for still more
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Write no progress, and only errors, to standard error
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show an attack on a bare server and on one behind Levee; needs no other software
    Demo(demo::Args),
    /// Run the live fronts that a configuration names, and the admin page
    Run(run::Args),
    /// Run a scenario for real on loopback, with the live front in the middle
    Lab(lab::Args),
    /// Predict by statistical model checking what a scenario would give
    Check(check::Args),
    /// Check a scenario and run it for real, and hold the prediction against what was measured
    Compare(compare::Args),
    /// Replay a live recording and compare the verdicts, with its own defence or with another
    Replay(replay::Args),
    /// Fit call records to a law of durations, and give the settings that follow
    Fit(fit::Args),
    /// Search the settings of a defence for the best worst case of a scenario
    Tune(tune::Args),
    /// Catchments, playbooks and the response of a service on several sites
    #[command(subcommand)]
    Anycast(anycast::Command),
    /// Work on configuration files
    #[command(subcommand)]
    Config(config::Command),
    /// Print completions for a shell
    Completions(completions::Args),
    /// Print the manual page
    Man(man::Args),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
