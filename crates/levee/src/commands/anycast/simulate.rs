//! `levee anycast simulate`.

use anyhow::{Result, bail};

use crate::cli::Global;
use crate::exit::Answer;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, _global: Global) -> Result<Answer> {
    bail!("not in this version")
}
