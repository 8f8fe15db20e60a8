//! `levee anycast plan`.

mod asked;
pub(super) mod figures;
mod view;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use levee_anycast::playbook;
use levee_policy::reroute::{Range, planner::rank};

use self::figures::{amount, of_site, range};
use crate::cli::Global;
use crate::exit::Answer;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The playbook: what `levee anycast playbook show --json` or `simulate --json` print, the authors' CSV or list, or a folder of measurements
    playbook: PathBuf,
    /// A TOML file with what is asked; options here go before it
    #[arg(long, value_name = "FILE")]
    situation: Option<PathBuf>,
    /// What a site can carry, such as AMS=50k; 0: it is closed. Several with commas, or again
    #[arg(long, value_name = "SITE=N", value_delimiter = ',', value_parser = of_site(amount))]
    capacity: Vec<(String, f64)>,
    /// The load that is offered at a site now, normal load and attack: AMS=85k, AMS=80k..95k or AMS=80k..85k..95k with the likely
    /// one in the middle; without an upper end, AMS=80k.., it may be any
    #[arg(long, value_name = "SITE=LOAD", value_delimiter = ',', value_parser = of_site(range))]
    load: Vec<(String, Range)>,
    /// The normal load in it; for all sites or none
    #[arg(long, value_name = "SITE=N", value_delimiter = ',', value_parser = of_site(amount))]
    normal: Vec<(String, f64)>,
    /// The play that is deployed [default: the first, the baseline]
    #[arg(long, value_name = "PLAY", allow_hyphen_values = true)]
    current: Option<String>,
    /// A site that may be over its capacity so that others are not
    #[arg(long, value_name = "SITE", value_delimiter = ',')]
    absorb: Vec<String>,
    /// A site that may be, and whose catchment is to stay as it is
    #[arg(long, value_name = "SITE", value_delimiter = ',')]
    breakwater: Vec<String>,
    /// A site that announces nothing now
    #[arg(long, value_name = "SITE", value_delimiter = ',')]
    down: Vec<String>,
    /// A play that is not to be used; may be given again
    #[arg(long, value_name = "PLAY", allow_hyphen_values = true)]
    forbid: Vec<String>,
    /// How many plays are shown
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// How much denser than normal load an attack may be where a play moves it [default: 2]
    #[arg(long, value_name = "FACTOR")]
    concentration: Option<f64>,
}

const EXAMPLE: &str = "Example:\n  \
    levee anycast plan playbook.json --capacity AMS=50k,BOS=50k,CNF=50k --load AMS=80k..85k..95k,BOS=16k,CNF=17k\n\n\
    The same as a file for --situation:\n  \
    current = \"baseline\"\n  \
    capacity = { AMS = 50_000, BOS = \"50k\", CNF = \"50k\" }\n  \
    load = { AMS = \"80k..85k..95k\", BOS = \"16k\", CNF = 17_000 }\n  \
    absorb = []            # and normal = {...}, breakwater = [], down = [], forbid = [\"0xAMS\"]\n  \
    [planner]\n  \
    concentration = 2.0    # and negligible, kept_step, breakwater_loss\n\n\
    Exit status 1: no play keeps every site within its capacity. docs/anycast-plan.md says how plays are ranked.";

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    let read = playbook::read(&[&args.playbook], playbook::Options::default())?;
    if !global.quiet {
        read.notes.iter().for_each(output::note);
    }
    let playbook = read.playbook;
    let (situation, config) = asked::asked(args, &playbook, read.capacities)?;
    let plan = rank(&playbook, &situation, &config).context("the situation")?;
    let shown = view::Shown {
        playbook: &playbook,
        situation: &situation,
        plan: &plan,
        top: args.top.max(1),
    };
    if global.json {
        output::json(&shown.document()?)?;
    } else {
        output::text(&shown.text())?;
    }
    Ok(if plan.carries() {
        Answer::Yes
    } else {
        Answer::No
    })
}
