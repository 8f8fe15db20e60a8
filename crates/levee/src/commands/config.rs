//! `levee config check CONFIG`.

use std::path::PathBuf;

use anyhow::Result;
use levee_config::Problem;
use levee_proxy::config::LiveConfig;
use serde::Serialize;

use crate::cli::Global;
use crate::exit::Answer;
use crate::output;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Say what is wrong with a live configuration, with line and remedy
    Check(Check),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The configuration, such as levee.toml
    config: PathBuf,
    /// Print the effective configuration, with every default filled in
    #[arg(long)]
    print: bool,
}

#[derive(Serialize)]
struct Report<'c> {
    command: &'static str,
    ok: bool,
    warnings: &'c [Problem],
    effective: &'c LiveConfig,
}

pub(crate) fn run(command: &Command, global: Global) -> Result<Answer> {
    let Command::Check(args) = command;
    let config = LiveConfig::load(&args.config)?;
    if global.json {
        let warnings = config.warnings();
        output::json(&Report {
            command: "config check",
            ok: true,
            warnings,
            effective: &config,
        })?;
        return Ok(Answer::Yes);
    }
    if !global.quiet {
        for warning in config.warnings() {
            output::note(format_args!("warning: {warning}\n"));
        }
    }
    let file = args.config.display();
    // With `--print` the whole of standard output is a configuration, so the verdict is a comment in it.
    if args.print {
        output::text(&format!("# {file}: OK\n{}", config.effective()))?;
    } else {
        output::text(&format!("{file}: OK\n"))?;
    }
    Ok(Answer::Yes)
}
