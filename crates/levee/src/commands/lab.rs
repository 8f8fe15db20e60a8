//! `levee lab SCENARIO`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use levee_lab::report;
use levee_lab::runner::{self, Options};
use levee_proxy::config::read_text;
use levee_sim::scenario::Scenario;

use crate::cli::Global;
use crate::exit::Answer;
use crate::view::LabView;
use crate::{output, signals};

/// Longest scenario, and longest file that it names: a year of call records of a busy office.
const FILE_BYTES_MAX: u64 = 256 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario, such as scenarios/sip-small.toml
    scenario: PathBuf,
    /// Run at most so many lanes at the same time
    #[arg(long, value_name = "LANES")]
    parallel: Option<NonZeroUsize>,
    /// Run at most so many calls a second in all lanes together
    #[arg(long, value_name = "CALLS", value_parser = rate)]
    rate_max: Option<f64>,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("expected a number of calls a second above 0, such as 200".to_owned()),
    }
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    let file = args.scenario.display();
    let text = read_text(&args.scenario, FILE_BYTES_MAX)
        .with_context(|| format!("{file}: cannot be read: check the path and the file"))?;
    // A scenario names its files from where it stands.
    let folder = args.scenario.parent().unwrap_or(Path::new("")).to_owned();
    let scenario = Scenario::parse(&file.to_string(), &text, &|name| {
        read_text(&folder.join(name), FILE_BYTES_MAX)
    })?;
    let defaults = Options::default();
    let options = Options {
        parallel: args.parallel.map_or(defaults.parallel, NonZeroUsize::get),
        rate_max: args.rate_max.unwrap_or(defaults.rate_max),
    };
    let stop = signals::stop_flag()?;
    let mut view = LabView::new(global);
    let result = runner::run(&scenario, &options, &stop, &mut |progress| {
        view.show(progress);
    })?;
    view.finish();
    if global.json {
        output::text(&report::to_json(&result))?;
    } else {
        output::text(&report::to_table(&result))?;
    }
    Ok(Answer::Yes)
}
