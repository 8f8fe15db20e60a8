//! `levee replay RECORDING [CONFIG]`.

mod what_if;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use indicatif::ProgressBar;
use levee_proxy::recorder::{Difference, End, EndReason, Replayed, replay};
use serde::Serialize;

use crate::cli::Global;
use crate::exit::Answer;
use crate::{output, view};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording, such as events.jsonl
    recording: PathBuf,
    /// Another defence, to see what it would have done: a live configuration, a scenario, or a file with a `[defense]` table
    config: Option<PathBuf>,
    /// Which front of a live configuration
    #[arg(long, value_name = "NAME", requires = "config")]
    front: Option<String>,
    /// How often another defence is asked, each time with other random numbers
    #[arg(long, default_value_t = 20, requires = "config", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Seed of the first time
    #[arg(long, default_value_t = 1, requires = "config")]
    seed: u64,
}

#[derive(Serialize)]
struct Report<'r> {
    command: &'static str,
    same: bool,
    inputs: u64,
    outputs: u64,
    seconds: f64,
    end: End,
    first_difference: Option<&'r Difference>,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    if let Some(config) = &args.config {
        return what_if::run(args, config, global);
    }
    let file = args.recording.display();
    let (reader, progress) = opened(args, global)?;
    let replayed = replay(reader).with_context(|| file.to_string())?;
    progress.finish_and_clear();
    let same = replayed.first_difference.is_none();
    if global.json {
        output::json(&Report {
            command: "replay",
            same,
            inputs: replayed.inputs,
            outputs: replayed.outputs,
            seconds: replayed.last.as_secs_f64(),
            end: replayed.end,
            first_difference: replayed.first_difference.as_ref(),
        })?;
    } else {
        output::text(&format!("{file}: {}\n", sentence(&replayed)))?;
    }
    Ok(if same { Answer::Yes } else { Answer::No })
}

/// The recording, with its progress bar.
fn opened(args: &Args, global: Global) -> Result<(impl BufRead, ProgressBar)> {
    let file = args.recording.display();
    let opened = File::open(&args.recording)
        .with_context(|| format!("{file}: cannot be opened; check the path"))?;
    let bytes = opened.metadata().map_or(0, |metadata| metadata.len());
    let progress = view::bytes_bar(global, bytes);
    Ok((BufReader::new(progress.wrap_read(opened)), progress))
}

fn sentence(replayed: &Replayed) -> String {
    let Replayed {
        inputs,
        outputs,
        last,
        ..
    } = replayed;
    if let Some(difference) = &replayed.first_difference {
        let show = |output: &Option<_>| match output {
            Some(output) => serde_json::to_string(output).unwrap_or_else(|error| error.to_string()),
            None => "nothing".to_owned(),
        };
        return format!(
            "another verdict at line {}, {} after the start\n  recorded: {}\n  replayed: {}",
            difference.line,
            difference.at,
            show(&difference.recorded),
            show(&difference.replayed)
        );
    }
    let end = match replayed.end {
        End::Marked(EndReason::Stopped) | End::NotReached => String::new(),
        End::Marked(EndReason::Bound) => "; the recording ended at its bound".to_owned(),
        End::Marked(EndReason::QueueFull) => {
            "; the recording ended because the disk was too slow".to_owned()
        }
        End::Marked(EndReason::Failed) => {
            "; the recording ended because it could not be written".to_owned()
        }
        End::Unmarked => "; the recording has no last line: the program was killed".to_owned(),
        End::Cut { line } => {
            format!("; line {line} is cut and was left out: the program was killed")
        }
    };
    format!("same verdicts: {inputs} inputs, {outputs} outputs, {last}{end}")
}
