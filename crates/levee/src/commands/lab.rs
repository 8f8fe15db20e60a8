//! `levee lab SCENARIO`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use levee_lab::runner::{self, Options};

use crate::cli::Global;
use crate::exit::Answer;
use crate::view::LabView;
use crate::{output, scenarios, signals};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario, such as scenarios/sip-small.toml
    scenario: PathBuf,
    #[command(flatten)]
    pace: Pace,
}

/// How much is run at the same time.
#[derive(Debug, clap::Args)]
pub(crate) struct Pace {
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

impl Pace {
    pub(crate) fn options(&self) -> Options {
        let defaults = Options::default();
        Options {
            parallel: self.parallel.map_or(defaults.parallel, NonZeroUsize::get),
            rate_max: self.rate_max.unwrap_or(defaults.rate_max),
        }
    }
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    let scenario = scenarios::read(&args.scenario)?;
    let stop = signals::stop_flag()?;
    let mut view = LabView::new(global);
    let runs = runner::run(&scenario, &args.pace.options(), &stop, &mut |progress| {
        view.show(progress);
    })?;
    view.finish();
    let result = runner::report("lab", &scenario, &runs);
    if global.json {
        output::text(&result.to_json())?;
    } else {
        output::text(&result.to_table())?;
    }
    Ok(Answer::Yes)
}
