//! The command line of Levee. It wires, it does not decide: each subcommand is one module of [`commands`].

mod cli;
mod commands;
mod exit;
mod logging;
mod modelled;
mod models;
mod output;
mod parquet;
mod questions;
mod scenarios;
mod signals;
mod view;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::Cli;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come here too; a reader that is gone needs neither.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::BAD_INPUT));
        }
    };
    match commands::run(&cli) {
        Ok(answer) => answer.into(),
        Err(error) => {
            output::error(&error);
            ExitCode::from(exit::BAD_INPUT)
        }
    }
}
