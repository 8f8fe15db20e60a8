//! `levee anycast respond`.

mod view;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use levee_anycast::journal::Journal;
use levee_anycast::measures::{Reader, What};
use levee_policy::reroute::{Config, Input, Output, Playbook, Responder, Step};
use levee_policy::{StateMachine as _, Time};
use serde::Deserialize;

use self::view::View;
use super::plan::figures::{amount, of_site};
use crate::cli::Global;
use crate::exit::Answer;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// A TOML file whose `[anycast]` table names the playbook, the capacities and how to respond
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The playbook: what `levee anycast playbook show --json` or `simulate --json` print
    #[arg(long, value_name = "FILE", required_unless_present = "config")]
    playbook: Option<PathBuf>,
    /// What a site can carry, such as AMS=50k. Several with commas, or again
    #[arg(long, value_name = "SITE=N", value_delimiter = ',', value_parser = of_site(amount))]
    capacity: Vec<(String, f64)>,
    /// Measured loads, JSON lines or CSV; `-` for standard input
    #[arg(long, value_name = "FILE")]
    measures: PathBuf,
    /// Where each step is kept, so that a run that was stopped goes on
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

const EXAMPLE: &str = "Example:\n  \
    levee anycast respond --playbook playbook.json --capacity AMS=50k,BOS=50k,CNF=50k --measures loads.csv\n\n\
    loads.csv, a row for each site and interval (time in seconds since 1970; an empty load: no report):\n  \
    time,site,observed,known_good,expected,expected_sd\n  \
    1764522060,AMS,48000,950,2500,50\n  \
    1764522060,BOS,16000,,,\n\n\
    The same as a configuration:\n  \
    [anycast]\n  \
    playbook = \"playbook.json\"\n  \
    capacity = { AMS = 50_000, BOS = 50_000, CNF = 50_000 }\n  \
    [anycast.response]          # all keys may be left out\n  \
    settle = \"5m\"\n  \
    budget = { dwell = \"10m\" }\n\n\
    It is a dry run: every deployment is taken to succeed at once, and nothing is announced.\n\
    Exit status 1: at the end sites need their next line of defence. docs/anycast-response.md tells how it decides.";

/// The `[anycast]` table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Anycast {
    playbook: Option<PathBuf>,
    #[serde(default)]
    capacity: BTreeMap<String, f64>,
    #[serde(default)]
    response: Config,
}

#[derive(Debug, Deserialize)]
struct Configured {
    anycast: Anycast,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    let anycast = configured(args)?;
    let path = anycast
        .playbook
        .as_deref()
        .context("no playbook: name it by --playbook, or by `playbook` in the [anycast] table")?;
    let playbook = read_playbook(path)?;
    let capacities = capacities(&anycast, &playbook)?;
    let mut run = Run::begin(args, anycast.response, &playbook, &capacities, global)?;
    let name = args.measures.display().to_string();
    let source: Box<dyn BufRead> = if name == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.measures)
            .with_context(|| format!("{name}: cannot be read; check the path"))?;
        Box::new(BufReader::new(file))
    };
    let mut skipped = 0;
    for event in Reader::new(source, &playbook) {
        let event = event.with_context(|| name.clone())?;
        if run.after.is_some_and(|after| event.at <= after) {
            skipped += 1;
            continue;
        }
        let input = match event.what {
            What::Measure(measure) => Input::Measure(measure),
            What::Operator(operator) => Input::Operator(operator),
        };
        run.tell(event.at, input)?;
    }
    if skipped > 0 {
        output::note(format_args!(
            "{name}: {skipped} intervals are not after the journal's last step and were left out"
        ));
    }
    run.view.end(&run.responder)?;
    Ok(if run.responder.next_line_sites().is_empty() {
        Answer::Yes
    } else {
        Answer::No
    })
}

/// The `[anycast]` table with what the options say over it.
fn configured(args: &Args) -> Result<Anycast> {
    let mut anycast = match &args.config {
        None => Anycast::default(),
        Some(path) => {
            let file = path.display();
            let text = fs::read_to_string(path)
                .with_context(|| format!("{file}: cannot be read; check the path"))?;
            let Configured { mut anycast } =
                toml::from_str(&text).with_context(|| file.to_string())?;
            // A playbook is named from where the configuration lies.
            anycast.playbook = anycast
                .playbook
                .map(|playbook| path.parent().unwrap_or(Path::new("")).join(playbook));
            if let Err(error) = anycast.response.check() {
                bail!("{file}: in [anycast.response], {error}");
            }
            anycast
        }
    };
    if args.playbook.is_some() {
        anycast.playbook.clone_from(&args.playbook);
    }
    anycast.capacity.extend(args.capacity.iter().cloned());
    Ok(anycast)
}

fn read_playbook(path: &Path) -> Result<Playbook> {
    let file = path.display();
    let text = fs::read_to_string(path)
        .with_context(|| format!("{file}: cannot be read; check the path"))?;
    serde_json::from_str(&text).with_context(|| format!("{file}: not a playbook"))
}

fn capacities(anycast: &Anycast, playbook: &Playbook) -> Result<Vec<f64>> {
    let names: Vec<&str> = playbook.sites().names().collect();
    if let Some(name) = anycast
        .capacity
        .keys()
        .find(|name| !names.contains(&name.as_str()))
    {
        bail!(
            "capacity of {name:?}: no such site, expected one of {}",
            names.join(", ")
        );
    }
    let of = |name: &&str| {
        let capacity = anycast.capacity.get(*name).copied();
        capacity.with_context(|| format!("no capacity of {name}: give it by --capacity {name}=N"))
    };
    names.iter().map(of).collect()
}

/// A responder with its journal and what is shown of it.
struct Run<'a> {
    responder: Responder,
    journal: Option<Journal>,
    /// The time of the journal's last step.
    after: Option<Time>,
    view: View<'a>,
}

impl<'a> Run<'a> {
    fn begin(
        args: &Args,
        config: Config,
        playbook: &'a Playbook,
        capacities: &'a [f64],
        global: Global,
    ) -> Result<Self> {
        let view = View::new(playbook, capacities, global.json);
        let own = playbook.clone();
        let Some(path) = &args.journal else {
            return Ok(Self {
                responder: Responder::new(config, own, capacities.to_vec())?,
                journal: None,
                after: None,
                view,
            });
        };
        let (journal, contents) = Journal::open(path, playbook)?;
        let file = path.display();
        for note in &contents.notes {
            output::note(format_args!("{file}: {note}"));
        }
        let after = contents.entries.iter().map(|entry| entry.at).max();
        let steps = contents
            .entries
            .into_iter()
            .map(|entry| (entry.at, entry.step));
        let responder = Responder::resume(config, own, capacities.to_vec(), steps)
            .with_context(|| file.to_string())?;
        let mut run = Self {
            responder,
            journal: Some(journal),
            after,
            view,
        };
        if let Some(after) = after {
            run.view.resumed(after, &run.responder)?;
            run.carry_out(after)?;
        }
        Ok(run)
    }

    fn tell(&mut self, at: Time, input: Input) -> Result<()> {
        // What was due before comes first.
        let mut before = None;
        while let Some(due) = self.responder.deadline().filter(|due| *due <= at) {
            if before.replace(due) == Some(due) {
                break;
            }
            self.responder.handle_deadline(due, &mut NoDice);
            self.carry_out(due)?;
        }
        self.responder.handle(at, input, &mut NoDice);
        self.carry_out(at)
    }

    fn carry_out(&mut self, at: Time) -> Result<()> {
        while let Some(output) = self.responder.poll_output() {
            match output {
                Output::Record(step) => self.record(at, &step)?,
                Output::Deploy { play } => {
                    // A dry run: it is as if it were announced.
                    self.responder
                        .handle(at, Input::Deployed { play }, &mut NoDice);
                }
                // Told with their steps.
                Output::NextLine { .. } | Output::NextLineOver => {}
            }
        }
        Ok(())
    }

    fn record(&mut self, at: Time, step: &Step) -> Result<()> {
        if let Some(journal) = &mut self.journal {
            journal.append(SystemTime::now(), at, step)?;
        }
        self.view.step(at, step)
    }
}

/// The responder draws no random numbers.
struct NoDice;

impl rand_core::TryRng for NoDice {
    type Error = core::convert::Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(0)
    }
    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(0)
    }
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        bytes.fill(0);
        Ok(())
    }
}
