//! `levee anycast diff A B`.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use levee_anycast::map::{
    CatchmentMap, DiffSummary, StuckSummary, diff, partial, report_text, stuck, stuck_despite,
};
use serde::Serialize;

use super::map::{Imported, Reading, name};
use crate::cli::Global;
use crate::exit::Answer;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The first map; forms as of levee anycast map
    #[arg(value_name = "A")]
    first: PathBuf,
    /// The maps that it is compared with
    #[arg(required = true, value_name = "B")]
    others: Vec<PathBuf>,
    /// A site and a map in which it prepends: which of its blocks in A stay nevertheless
    #[arg(long, value_name = "SITE=FILE", value_parser = prepended)]
    prepended: Vec<(String, PathBuf)>,
    #[command(flatten)]
    reading: Reading,
}

const EXAMPLES: &str = "Examples:\n  \
    levee anycast diff monday.parquet tuesday.parquet --weights queries.csv\n  \
    levee anycast diff baseline.csv.gz 1xSYD.csv.gz 2xSYD.csv.gz --prepended SYD=1xSYD.csv.gz --prepended SYD=2xSYD.csv.gz";

fn prepended(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((site, file)) if !site.is_empty() && !file.is_empty() => {
            Ok((site.to_owned(), file.into()))
        }
        _ => Err("expected SITE=FILE, such as SYD=1xSYD.csv.gz".to_owned()),
    }
}

#[derive(Serialize)]
struct Document {
    command: &'static str,
    sites: Vec<String>,
    maps: Vec<MapLine>,
    diffs: Vec<DiffSummary>,
    stuck: StuckSummary,
    prepended: Vec<Despite>,
}

#[derive(Serialize)]
struct MapLine {
    name: String,
    blocks: u64,
    partial: bool,
}

/// What stays at a site although it prepends.
#[derive(Serialize)]
struct Despite {
    site: String,
    common: u64,
    stuck: u64,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    let weights = args.reading.weights()?;
    let mut paths = vec![args.first.clone()];
    paths.extend(args.others.iter().cloned());
    let read = |path: &PathBuf| args.reading.read(std::slice::from_ref(path), global);
    let all: Vec<Imported> = paths.iter().map(read).collect::<Result<_>>()?;
    let maps: Vec<&CatchmentMap> = all.iter().map(|imported| &imported.map).collect();
    // Without weights of their own, the first map's.
    let load = weights.as_ref().or(all[0].load.as_ref());
    let known: Vec<u64> = maps.iter().map(|map| map.known()).collect();
    let names: Vec<String> = paths.iter().map(|path| name(path)).collect();
    let mut diffs = Vec::new();
    for (map, to) in maps.iter().zip(&names).skip(1) {
        diffs.push(DiffSummary::new(&names[0], to, &diff(maps[0], map, load)?));
    }
    let found = stuck(&maps, load)?;
    let document = Document {
        command: "anycast diff",
        sites: found.sites.names().map(str::to_owned).collect(),
        maps: names
            .into_iter()
            .zip(&known)
            .zip(partial(&known))
            .map(|((name, blocks), partial)| MapLine {
                name,
                blocks: *blocks,
                partial,
            })
            .collect(),
        diffs,
        stuck: StuckSummary::new(&found),
        prepended: despite(args, &all[0].map, global)?,
    };
    if global.json {
        output::json(&document)?;
    } else {
        output::text(&text(&document))?;
    }
    if !global.quiet {
        for (file, report) in all.iter().flat_map(|imported| &imported.reports) {
            output::note(report_text(file, report));
        }
    }
    Ok(Answer::Yes)
}

/// For each site that prepends somewhere, what stays there in all those maps.
fn despite(args: &Args, baseline: &CatchmentMap, global: Global) -> Result<Vec<Despite>> {
    let mut sites: Vec<&str> = Vec::new();
    for (site, _) in &args.prepended {
        if !sites.contains(&site.as_str()) {
            sites.push(site);
        }
    }
    let mut out = Vec::new();
    for site in sites {
        let files = args.prepended.iter().filter(|(other, _)| other == site);
        let maps: Vec<Imported> = files
            .map(|(_, path)| args.reading.read(std::slice::from_ref(path), global))
            .collect::<Result<_>>()?;
        let maps: Vec<&CatchmentMap> = maps.iter().map(|imported| &imported.map).collect();
        let (common, stuck) = stuck_despite(site, baseline, &maps).context("--prepended")?;
        ensure!(stuck <= common, "{stuck} of {common} blocks");
        let site = site.to_owned();
        out.push(Despite {
            site,
            common,
            stuck,
        });
    }
    Ok(out)
}

fn text(document: &Document) -> String {
    let mut out = String::new();
    for diff in &document.diffs {
        out.push_str(&diff.text());
        out.push('\n');
    }
    out.push_str(&document.stuck.text());
    for line in &document.prepended {
        let share = if line.common > 0 {
            line.stuck as f64 / line.common as f64
        } else {
            0.0
        };
        out.push_str(&format!(
            "{}: {} of {} blocks ({:.1}%) stay although it prepends\n",
            line.site,
            line.stuck,
            line.common,
            share * 100.0
        ));
    }
    for map in document.maps.iter().filter(|map| map.partial) {
        out.push_str(&format!(
            "{} is PARTIAL: its {} blocks are over a tenth fewer than those of the others; measure it again before it is used\n",
            map.name, map.blocks
        ));
    }
    out
}
