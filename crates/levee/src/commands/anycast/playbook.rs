//! `levee anycast playbook`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use levee_anycast::map::{self, ReadOptions};
use levee_anycast::playbook::judge::{self, Control, judge};
use levee_anycast::playbook::{Document, Options, Read, Tables, Unit, fsdb, page, read, table, tables, text};
use levee_policy::reroute::Playbook;

use crate::cli::Global;
use crate::exit::Answer;
use crate::output;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show what a playbook can do: shares, options, limits, what is stuck, and which poisons have an effect
    Show(Show),
}

#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Show {
    /// A playbook (JSON of Levee, CSV that begins with bgp or policy, list for playbook_tuner), or folders with maps (.csv.gz,
    /// .csv, .parquet) or .stats and with the .routing of each
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// The baseline [default: the configuration called so, or that in which all sites announce plainly]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// What a share is a share of [default: load where it is known, else blocks]
    #[arg(long)]
    by: Option<By>,
    /// The load of each block in normal times, for folders with maps
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// What a poison is compared with
    #[arg(long, value_name = "CONTROL", default_value = "prepend")]
    poison_control: PoisonControl,
    /// Write a page with a heat map
    #[arg(long, value_name = "FILE.html")]
    page: Option<PathBuf>,
    /// Write the playbook: as .json for Levee, as .csv with numbers of blocks, or as .fsdb for playbook_tuner
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Capacity of each site, in the order of the sites, for .fsdb: 50000,50000,20000
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    capacities: Vec<f64>,
}

const EXAMPLES: &str = "Examples:\n  \
    levee anycast playbook show playbook.csv --page playbook.html\n  \
    levee anycast playbook show measured/ --weights queries.csv --by load --out playbook.json";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    Blocks,
    Load,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PoisonControl {
    /// The prepend of the same length
    Prepend,
    /// The baseline, where the other sites' paths were made longer by as much
    Baseline,
}

pub(crate) fn run(command: &Command, global: Global) -> Result<Answer> {
    let Command::Show(args) = command;
    show(args, global)
}

fn show(args: &Show, global: Global) -> Result<Answer> {
    let file = args.out.as_deref().map(Form::of).transpose()?;
    let Read { playbook, capacities, notes } = open(args)?;
    let playbook = by(args, playbook)?;
    let control = match args.poison_control {
        PoisonControl::Prepend => Control::Prepend,
        PoisonControl::Baseline => Control::Baseline,
    };
    let judgements = judge(&playbook, control);
    let playbook = judge::mark(&playbook, &judgements)?;
    let tables = Tables::of(&playbook);
    if let Some(path) = &args.page {
        let title = format!("Playbook {}", args.paths[0].display());
        let style = include_str!("../../../../../assets/report.css");
        write(path, &page(&title, &playbook, &tables, &judgements, style))?;
    }
    if let (Some(path), Some(form)) = (&args.out, file) {
        let given = if args.capacities.is_empty() { capacities.unwrap_or_default() } else { args.capacities.clone() };
        write(path, &form.write(&playbook, &given)?)?;
    }
    if global.json {
        output::json(&Document::new(&playbook, &tables, &judgements))?;
    } else {
        output::text(&text(&playbook, &tables, &judgements))?;
    }
    if !global.quiet {
        for note in notes {
            output::note(format_args!("note: {note}"));
        }
        for path in args.page.iter().chain(&args.out) {
            output::note(format_args!("written: {}", path.display()));
        }
    }
    Ok(Answer::Yes)
}

fn open(args: &Show) -> Result<Read> {
    let load = match &args.weights {
        Some(path) => {
            let read = map::read_load(path, &ReadOptions::default());
            // It tells its causes itself.
            let (load, _) = read.map_err(|error| anyhow::Error::msg(error.to_string()))?;
            Some(load)
        }
        None => None,
    };
    let options = Options {
        baseline: args.baseline.as_deref(),
        load: load.as_ref(),
        ..Options::default()
    };
    Ok(read(&args.paths, options)?)
}

/// The playbook with shares as they were asked for.
fn by(args: &Show, playbook: Playbook) -> Result<Playbook> {
    let loaded = Unit::of(&playbook) == Unit::Load;
    match args.by {
        Some(By::Load) if !loaded => bail!(
            "--by load: {} tells no load; give --weights with its maps, or a playbook that was made so",
            args.paths[0].display()
        ),
        Some(By::Blocks) if loaded => Ok(tables::by_blocks(&playbook)?),
        _ => Ok(playbook),
    }
}

/// Forms in which a playbook is written.
#[derive(Clone, Copy, Debug)]
enum Form {
    Json,
    Csv,
    Fsdb,
}

impl Form {
    fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Ok(Self::Json),
            Some("csv") => Ok(Self::Csv),
            Some("fsdb") => Ok(Self::Fsdb),
            _ => bail!("--out {}: expected a name that ends in .json, .csv or .fsdb", path.display()),
        }
    }

    fn write(self, playbook: &Playbook, capacities: &[f64]) -> Result<String> {
        Ok(match self {
            Self::Json => format!("{}\n", serde_json::to_string(playbook)?),
            Self::Csv => table::write(playbook)?,
            Self::Fsdb => {
                let well = capacities.iter().all(|capacity| capacity.is_finite() && *capacity >= 0.0);
                ensure!(well, "--capacities: expected numbers, 0 or more");
                fsdb::write(playbook, capacities).context("give them with --capacities, in the order of the sites")?
            }
        })
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}: choose another file", path.display()))
}
