//! `levee anycast simulate DEPLOYMENT`.

mod report;

use std::fs::File;
use std::io::BufWriter;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use levee_anycast::blocks::{Blocks, Family, MAP_V6_MAX, Reading, Unit};
use levee_anycast::graph::AsGraph;
use levee_anycast::graph::generate::Generated;
use levee_anycast::map::{About, write_parquet};
use levee_anycast::predict::{DeploymentFile, GraphSource, Loads, Options, Prediction, predict};
use levee_anycast::simulate::{Internet, Link, LinkKind, Site};
use levee_policy::reroute::Asn;
use levee_proxy::config::read_text;

use self::report::Document;
use crate::cli::Global;
use crate::commands::check::processors;
use crate::exit::Answer;
use crate::output;

/// Longest deployment file: some ten thousand links.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most characters of a configuration's name in that of its map; its number tells maps apart.
const NAME_MAX: usize = 60;

#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The deployment file, such as scenarios/anycast/internet.toml
    deployment: PathBuf,
    /// A file of AS relationships (CAIDA's serial-1 or serial-2, plain, gzip or bzip2) instead of the file's graph
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    /// Blocks of each AS: a prefix-to-AS file, a routing table (MRT) or lines asn,count
    #[arg(long, value_name = "FILE")]
    blocks: Option<PathBuf>,
    /// What a CSV of counts without a header counts
    #[arg(
        long,
        value_name = "UNIT",
        requires = "blocks",
        default_value = "blocks"
    )]
    blocks_unit: CountUnit,
    /// Load of each AS in normal times, lines asn,load: shares are of the load then
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
    /// A site that might be built, at these upstreams (AS:peer for a peer); may be given again
    #[arg(long, value_name = "NAME=AS,...", value_parser = with_site)]
    with_site: Vec<Site>,
    /// Look in every configuration, not in the baseline only, for blocks that hang on the order of announcements
    #[arg(long)]
    order: bool,
    /// Write the playbook (with candidate sites: the one with them), for plan, check and respond
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the catchment map of each configuration into this folder, as Parquet
    #[arg(long, value_name = "FOLDER")]
    maps: Option<PathBuf>,
    /// Threads; the results do not depend on it [default: one for each processor]
    #[arg(long)]
    threads: Option<NonZeroUsize>,
}

const EXAMPLES: &str = "\
Each configuration that the deployment file asks for is simulated on an AS-level graph, and the blocks of each AS are counted at the
site that it reaches. `certain` is the share that stays there however ASes break their ties. docs/anycast-predict.md has the file's
keys, and what a prediction is worth.

Examples:
  levee anycast simulate scenarios/anycast/internet.toml
  levee anycast simulate deployment.toml --graph as-rel2.txt.bz2 --blocks rib.20260101.0000.bz2 --out playbook.json
  levee anycast simulate deployment.toml --with-site SYD=4826,7545";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum CountUnit {
    /// /24s or /48s
    Blocks,
    /// IPv4 addresses
    Addresses,
}

/// `NAME=AS,AS:peer`.
fn with_site(text: &str) -> Result<Site, String> {
    let expected =
        "expected a name and the ASes of its upstreams, as in SYD=4826,7545 or SYD=4826:peer";
    let (name, upstreams) = text.split_once('=').ok_or(expected)?;
    let link = |text: &str| {
        let (asn, kind) = match text.split_once(':') {
            None => (text, LinkKind::Transit),
            Some((asn, "transit")) => (asn, LinkKind::Transit),
            Some((asn, "peer")) => (asn, LinkKind::Peer),
            Some((asn, "customer")) => (asn, LinkKind::Customer),
            Some((_, kind)) => {
                return Err(format!(
                    "{kind:?} is no kind of link, expected transit, peer or customer"
                ));
            }
        };
        let neighbour: Asn = asn
            .trim()
            .parse()
            .map_err(|_| format!("{asn:?} is no AS, {expected}"))?;
        Ok(Link { neighbour, kind })
    };
    Ok(Site {
        name: name.trim().to_owned(),
        asn: None,
        links: upstreams.split(',').map(link).collect::<Result<_, _>>()?,
    })
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    let begun = Instant::now();
    let mut file = args.file()?;
    let world = World::new(args, &file)?;
    file.check(&world.graph)?;
    for site in &args.with_site {
        for link in &site.links {
            if world.graph.find(link.neighbour).is_none() {
                bail!(
                    "--with-site {}: AS{} is not in the graph of {} ASes: name another, or take a newer graph",
                    site.name,
                    link.neighbour,
                    world.graph.len()
                );
            }
        }
        file.add_candidate(site.clone())
            .with_context(|| format!("--with-site {}", site.name))?;
    }
    let before = args.predict(&file, &world, false)?;
    let after = file
        .has_candidates()
        .then(|| args.predict(&file, &world, true))
        .transpose()?;
    let seconds = begun.elapsed().as_secs_f64();
    let last = after.as_ref().unwrap_or(&before);
    if let Some(path) = &args.out {
        let json = serde_json::to_vec(&last.playbook)?;
        std::fs::write(path, json)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    if let Some(folder) = &args.maps {
        write_maps(folder, last, &world.blocks)?;
    }
    let graph_source = (world.graph_source, world.graph_seed);
    let blocks = (world.blocks_source, &world.blocks);
    let document = Document::new(
        &file,
        graph_source,
        &world.graph,
        blocks,
        before,
        after,
        seconds,
    );
    if global.json {
        output::json(&document)?;
    } else {
        output::text(&document.text())?;
    }
    for note in &world.notes {
        if !global.quiet {
            output::note(note);
        }
    }
    Ok(Answer::Yes)
}

/// What the deployment is on.
struct World {
    graph: AsGraph,
    graph_source: String,
    /// Of a generated one.
    graph_seed: Option<u64>,
    blocks: Blocks,
    blocks_source: String,
    loads: Option<Loads>,
    /// What is odd about the files, for standard error.
    notes: Vec<String>,
}

impl World {
    fn new(args: &Args, file: &DeploymentFile) -> Result<Self> {
        let beside = |name: &str| {
            let folder = args.deployment.parent().unwrap_or(Path::new(""));
            folder.join(name)
        };
        let mut notes = Vec::new();
        let (graph, graph_source, own_blocks) = match (&args.graph, &file.graph) {
            (Some(path), _) => read_graph(path)?,
            (None, Some(GraphSource::File(name))) => read_graph(&beside(name))?,
            (None, Some(GraphSource::Generate { ases, seed })) => {
                let generated = Generated::new(*ases, *seed);
                let blocks = generated.laid_out();
                (generated.graph(), "generated".to_owned(), Some(blocks))
            }
            (None, None) => bail!(
                "{}: `graph`: no graph, expected a file or {{ generate = {{ ases = 5000, seed = 1 }} }}: add the key, or give --graph FILE",
                args.deployment.display()
            ),
        };
        let findings = graph.findings();
        if findings.contradictions + findings.circles > 0 {
            notes.push(format!(
                "{}: {} links contradict others (the first counts), {} circles of providers",
                graph_source, findings.contradictions, findings.circles
            ));
        }
        let unit = match args.blocks_unit {
            CountUnit::Blocks => Unit::Blocks,
            CountUnit::Addresses => Unit::Addresses,
        };
        let reading = match (&args.blocks, &file.blocks) {
            (Some(path), of) => {
                let family = of.as_ref().map_or(Family::Ipv4, |of| of.family);
                Some((path.clone(), Blocks::open(path, family, unit)?))
            }
            (None, Some(of)) => {
                let path = beside(&of.file);
                Some((path.clone(), Blocks::open(&path, of.family, of.unit)?))
            }
            (None, None) => None,
        };
        let (blocks, blocks_source) = match (reading, own_blocks) {
            (Some((path, reading)), _) => {
                let source = path.display().to_string();
                notes.extend(odd(&source, &reading));
                (reading.blocks, source)
            }
            (None, Some(blocks)) => (blocks, "generated".to_owned()),
            (None, None) => {
                let one = graph.asns().iter().map(|asn| (*asn, 1));
                let blocks = Blocks::of_counts(Family::Ipv4, one);
                (blocks, "no file: one for each AS".to_owned())
            }
        };
        let graph_seed = match (&args.graph, &file.graph) {
            (None, Some(GraphSource::Generate { seed, .. })) => Some(*seed),
            _ => None,
        };
        let load = args
            .load
            .clone()
            .or_else(|| file.load.as_deref().map(beside));
        let loads = load.map(|path| Loads::open(&path)).transpose()?;
        Ok(Self {
            graph,
            graph_source,
            graph_seed,
            blocks,
            blocks_source,
            loads,
            notes,
        })
    }
}

fn read_graph(path: &Path) -> Result<(AsGraph, String, Option<Blocks>)> {
    let source = path.display().to_string();
    let input = File::open(path).with_context(|| {
        format!("{source}: cannot be read: check the path, and give a file of AS relationships")
    })?;
    Ok((AsGraph::read(&source, input)?, source, None))
}

/// What a file of blocks left out, if a person should know.
fn odd(file: &str, reading: &Reading) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(cut) = &reading.cut {
        notes.push(format!(
            "{file}: breaks off after {}: {}; what came before was used, so blocks are missing",
            cut.after, cut.reason
        ));
    }
    if reading.bad_records > 0 {
        notes.push(format!(
            "{file}: {} records could not be read and were passed over",
            reading.bad_records
        ));
    }
    notes
}

/// A map for each play, named by its number and its name.
fn write_maps(folder: &Path, prediction: &Prediction, blocks: &Blocks) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{}: cannot be made", folder.display()))?;
    for (place, play) in prediction.playbook.plays().iter().enumerate() {
        let name = &play.routing.name;
        let Some(map) = prediction.map(place, blocks) else {
            bail!(
                "--maps: the blocks are counts, or IPv6 blocks beyond {MAP_V6_MAX}: give a prefix-to-AS file or a routing table with --blocks"
            );
        };
        let fit = |c: char| {
            if c.is_ascii_alphanumeric() || "+-_.".contains(c) {
                c
            } else {
                '_'
            }
        };
        let file: String = name.chars().take(NAME_MAX).map(fit).collect();
        let path = folder.join(format!("{place:04}-{file}.parquet"));
        let about = About {
            measured: None,
            source: format!("predicted: {name}"),
        };
        let written = File::create(&path)
            .map_err(anyhow::Error::from)
            .and_then(|out| Ok(write_parquet(&map, None, &about, BufWriter::new(out))?));
        written.with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    Ok(())
}

impl Args {
    fn file(&self) -> Result<DeploymentFile> {
        let name = self.deployment.display().to_string();
        let text = read_text(&self.deployment, FILE_BYTES_MAX)
            .with_context(|| format!("{name}: cannot be read: check the path and the file"))?;
        Ok(DeploymentFile::parse(&name, &text)?)
    }

    fn predict(
        &self,
        file: &DeploymentFile,
        world: &World,
        candidates: bool,
    ) -> Result<Prediction> {
        let deployment = file.deployment(candidates);
        let internet = Internet::new(&world.graph, &deployment, &file.policies)
            .with_context(|| self.deployment.display().to_string())?;
        let routings = file.routings(candidates)?;
        let options = Options {
            threads: self.threads.unwrap_or_else(processors),
            ordered_plays: if self.order { routings.len() } else { 1 },
        };
        let loads = world.loads.as_ref();
        Ok(predict(
            &internet,
            &routings,
            &world.blocks,
            loads,
            &options,
        )?)
    }
}
