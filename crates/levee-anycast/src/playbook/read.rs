//! Reads playbooks: files of all forms, and folders of measurements.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use levee_policy::reroute::{Announcement, PLAYS_MAX, Play, Playbook, Routing, Sites};

use super::error::{Malformed, ReadError};
use super::mark_partial;
use super::routing::RoutingFile;
use super::stats::Stats;
use super::summary::{self, Summary};
use super::{fsdb, table};
use crate::map::{self, CatchmentMap, LoadMap, ReadOptions};

/// The longest text of a playbook. Ours with all its classes is some tens of megabytes.
pub const TEXT_MAX: u64 = 1 << 28;

/// How to read.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// The baseline, by name; otherwise the play called so, or that in which all sites announce plainly.
    pub baseline: Option<&'a str>,
    /// The load of each block, for measurements.
    pub load: Option<&'a LoadMap>,
    /// How measurements are summarised.
    pub summary: summary::Options,
}

/// A playbook, and what stands beside it.
#[derive(Clone, Debug)]
pub struct Read {
    /// The plays.
    pub playbook: Playbook,
    /// Capacities of the sites, from a list for `playbook_tuner`.
    pub capacities: Option<Vec<f64>>,
    /// For a person: what was left out and why.
    pub notes: Vec<String>,
}

/// Reads a playbook from a file of any form, or from folders of measurements.
///
/// # Errors
///
/// With a file that cannot be read, or is no playbook.
pub fn read(paths: &[impl AsRef<Path>], options: Options<'_>) -> Result<Read, ReadError> {
    let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
    match *paths.as_slice() {
        // In a folder a .csv is a map; alone it is a playbook.
        [path] if path.is_file() && kind_of(path).is_none_or(|_| ends(path, ".csv")) => {
            read_file(path, options.baseline)
        }
        _ => read_measurements(&paths, options),
    }
}

fn read_file(path: &Path, baseline: Option<&str>) -> Result<Read, ReadError> {
    let text = text_of(path)?;
    let malformed = |malformed| ReadError::Malformed {
        path: path.to_owned(),
        malformed,
    };
    let begin = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let (rows, capacities) = if begin.starts_with('{') {
        let read: Result<Playbook, _> = serde_json::from_str(begin);
        let playbook = read.map_err(|problem| ReadError::Json {
            path: path.to_owned(),
            problem,
        })?;
        let playbook = match baseline {
            None => playbook,
            Some(name) => in_order(path, &playbook, name)?,
        };
        return Ok(Read {
            playbook,
            capacities: None,
            notes: Vec::new(),
        });
    } else if begin.starts_with("bgp") || begin.starts_with("policy") {
        (table::parse(begin).map_err(malformed)?, None)
    } else if begin.starts_with(|c: char| c.is_ascii_digit() || c == '#')
        && !begin.starts_with("#policy")
    {
        let tuner = fsdb::parse(&text).map_err(malformed)?;
        (tuner.rows, Some(tuner.capacities))
    } else {
        return Err(ReadError::Unknown {
            path: path.to_owned(),
        });
    };
    let bad = |problem| ReadError::Playbook {
        path: path.to_owned(),
        problem,
    };
    let sites = Sites::new(rows.sites).map_err(bad)?;
    let mut plays = rows.plays;
    for play in &mut plays {
        if let Ok(routing) = Routing::parse(&play.routing.name, &sites) {
            play.routing = routing;
        }
    }
    mark_partial(&mut plays);
    let first = baseline_of(path, &routings_of(&plays), baseline)?;
    plays[..=first].rotate_right(1);
    let playbook = Playbook::new(sites, plays, None).map_err(bad)?;
    Ok(Read {
        playbook,
        capacities,
        notes: Vec::new(),
    })
}

/// The text of a file, of at most [`TEXT_MAX`] bytes.
pub(super) fn text_of(path: &Path) -> Result<String, ReadError> {
    let io = |source| ReadError::Io {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(io)?;
    file.take(TEXT_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    if bytes.len() as u64 > TEXT_MAX {
        return Err(ReadError::TooLong {
            path: path.to_owned(),
            limit: TEXT_MAX,
        });
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let malformed = Malformed::new(line, 0, "bytes that are no text", "UTF-8");
        ReadError::Malformed {
            path: path.to_owned(),
            malformed,
        }
    })
}

fn routings_of(plays: &[Play]) -> Vec<&Routing> {
    plays.iter().map(|play| &play.routing).collect()
}

/// The number of the play that is the baseline.
fn baseline_of(
    path: &Path,
    routings: &[&Routing],
    given: Option<&str>,
) -> Result<usize, ReadError> {
    let find = |fits: &dyn Fn(&Routing) -> bool| routings.iter().position(|routing| fits(routing));
    let named = |routing: &Routing| routing.name.eq_ignore_ascii_case("baseline");
    let ends = |routing: &Routing| {
        let name = routing.name.to_ascii_lowercase();
        name.ends_with("-baseline") || name.ends_with("_baseline")
    };
    let plain = |routing: &Routing| {
        let all = routing.announcements.as_deref();
        all.is_some_and(|all| all.iter().all(|one| *one == Announcement::default()))
    };
    let found = match given {
        Some(name) => find(&|routing| routing.name == name),
        None => find(&named)
            .or_else(|| find(&ends))
            .or_else(|| find(&plain)),
    };
    found.ok_or_else(|| {
        const NAMED: usize = 8;
        let mut names: Vec<String> = routings
            .iter()
            .take(NAMED)
            .map(|r| r.name.clone())
            .collect();
        let more = routings.len() - names.len();
        if more > 0 {
            names.push(format!("{more} more"));
        }
        ReadError::NoBaseline {
            path: path.to_owned(),
            names: names.join(", "),
        }
    })
}

/// The same playbook with this play first.
fn in_order(path: &Path, playbook: &Playbook, baseline: &str) -> Result<Playbook, ReadError> {
    let first = baseline_of(path, &routings_of(playbook.plays()), Some(baseline))?;
    let mut plays = playbook.plays().to_vec();
    plays[..=first].rotate_right(1);
    let classes = playbook.classes().cloned().map(|mut classes| {
        let n = classes.len();
        classes.site[..(first + 1) * n].rotate_right(n);
        classes
    });
    let bad = |problem| ReadError::Playbook {
        path: path.to_owned(),
        problem,
    };
    Playbook::new(playbook.sites().clone(), plays, classes).map_err(bad)
}

/// What a file of a measurement is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Map,
    Routing,
    Stats,
}

/// The longest ending first.
const ENDINGS: [(&str, Kind); 6] = [
    (".csv.gz", Kind::Map),
    (".csv.bz2", Kind::Map),
    (".csv", Kind::Map),
    (".parquet", Kind::Map),
    (".routing", Kind::Routing),
    (".stats", Kind::Stats),
];

fn kind_of(path: &Path) -> Option<Kind> {
    split(path).map(|(_, kind)| kind)
}

fn ends(path: &Path, ending: &str) -> bool {
    path.to_str().is_some_and(|path| path.ends_with(ending))
}

/// The name without its ending, and what the ending says.
fn split(path: &Path) -> Option<(String, Kind)> {
    let name = path.file_name()?.to_str()?;
    let (ending, kind) = ENDINGS.iter().find(|(ending, _)| name.ends_with(ending))?;
    Some((name[..name.len() - ending.len()].to_owned(), *kind))
}

/// The files of one measurement.
#[derive(Debug, Default)]
struct Run {
    map: Option<PathBuf>,
    routing: Option<(PathBuf, RoutingFile)>,
    stats: Option<(PathBuf, Stats)>,
}

impl Run {
    fn name(&self, stem: &str) -> String {
        let by_routing = self.routing.as_ref().map(|(_, file)| file.policy.clone());
        let by_stats = || self.stats.as_ref().map(|(_, stats)| stats.policy.clone());
        // `baseline#ipv4,uk-lnd#2022-03-02-22h35m`
        let by_file = || stem.split('#').next().unwrap_or(stem).to_owned();
        by_routing.or_else(by_stats).unwrap_or_else(by_file)
    }

    fn routing(&self, stem: &str, sites: &Sites) -> Result<Routing, ReadError> {
        if let Some((path, file)) = &self.routing {
            let malformed = |malformed| ReadError::Malformed {
                path: path.clone(),
                malformed,
            };
            return file.routing(sites).map_err(malformed);
        }
        let name = self.name(stem);
        Ok(Routing::parse(&name, sites).unwrap_or(Routing {
            name,
            announcements: None,
        }))
    }
}

fn read_measurements(paths: &[&Path], options: Options<'_>) -> Result<Read, ReadError> {
    let runs = runs(paths)?;
    let at = paths
        .first()
        .map(|path| (*path).to_owned())
        .unwrap_or_default();
    if runs.is_empty() {
        return Err(ReadError::Empty { path: at });
    }
    if runs.len() > PLAYS_MAX {
        return Err(ReadError::TooMany {
            path: at,
            found: runs.len(),
            limit: PLAYS_MAX,
        });
    }
    let sites = Sites::new(site_names(&runs)?).map_err(|problem| ReadError::Playbook {
        path: at.clone(),
        problem,
    })?;
    let mut routings = Vec::with_capacity(runs.len());
    for (stem, run) in &runs {
        routings.push(run.routing(stem, &sites)?);
    }
    let all: Vec<&Routing> = routings.iter().collect();
    let first = baseline_of(&at, &all, options.baseline)?;
    let mut order: Vec<(Run, Routing)> = runs.into_values().zip(routings).collect();
    order[..=first].rotate_right(1);
    if order.iter().any(|(run, _)| run.map.is_some()) {
        of_maps(&at, &sites, order, options)
    } else {
        of_stats(&at, sites, &order)
    }
}

/// All measurements by the names of their files, which is the order of the plays.
fn runs(paths: &[&Path]) -> Result<BTreeMap<String, Run>, ReadError> {
    let mut files = Vec::new();
    for path in paths {
        let io = |source| ReadError::Io {
            path: path.to_path_buf(),
            source,
        };
        if path.is_file() {
            files.push(path.to_path_buf());
            continue;
        }
        for entry in fs::read_dir(path).map_err(io)? {
            files.push(entry.map_err(io)?.path());
        }
    }
    let mut runs: BTreeMap<String, Run> = BTreeMap::new();
    for path in files {
        let Some((stem, kind)) = split(&path) else {
            continue;
        };
        let run = runs.entry(stem).or_default();
        let malformed = |malformed| ReadError::Malformed {
            path: path.clone(),
            malformed,
        };
        match kind {
            Kind::Map => run.map = Some(path),
            Kind::Routing => {
                let file = RoutingFile::parse(&text_of(&path)?).map_err(malformed)?;
                run.routing = Some((path, file));
            }
            Kind::Stats => {
                let stats = Stats::parse(&text_of(&path)?).map_err(malformed)?;
                run.stats = Some((path, stats));
            }
        }
    }
    runs.retain(|_, run| run.map.is_some() || run.stats.is_some());
    Ok(runs)
}

/// The sites of all measurements, by name. A map that has neither is read for its sites alone.
fn site_names(runs: &BTreeMap<String, Run>) -> Result<Vec<String>, ReadError> {
    let mut names = std::collections::BTreeSet::new();
    for run in runs.values() {
        if let Some((_, file)) = &run.routing {
            names.extend(file.sites().into_iter().map(str::to_owned));
        }
        if let Some((_, stats)) = &run.stats {
            names.extend(stats.counts.iter().map(|(site, _)| site.clone()));
        }
        if let (None, None, Some(path)) = (&run.routing, &run.stats, &run.map) {
            names.extend(read_map(path, None)?.sites().names().map(str::to_owned));
        }
    }
    Ok(names.into_iter().collect())
}

fn of_maps(
    at: &Path,
    sites: &Sites,
    runs: Vec<(Run, Routing)>,
    options: Options<'_>,
) -> Result<Read, ReadError> {
    let failed = |problem| ReadError::Summary {
        path: at.to_owned(),
        problem,
    };
    let mut summary = Summary::new(sites.clone());
    let mut notes = Vec::new();
    for (run, routing) in runs {
        let Some(path) = run.map else {
            notes.push(format!("{} is left out: it has no map", routing.name));
            continue;
        };
        let map = read_map(&path, Some(sites.clone()))?;
        summary.push(routing, &map).map_err(failed)?;
    }
    let made = summary
        .finish(options.load, options.summary)
        .map_err(failed)?;
    if made.error_max > 0.0 {
        notes.push(format!(
            "{} classes of blocks are thinned to {}: shares counted from them are off by {:.2}% of all blocks at most",
            made.classes_exact,
            made.playbook.classes().map_or(0, levee_policy::reroute::Classes::len),
            made.error_max * 100.0
        ));
    }
    Ok(Read {
        playbook: made.playbook,
        capacities: None,
        notes,
    })
}

/// Without maps there are the counts alone.
fn of_stats(at: &Path, sites: Sites, runs: &[(Run, Routing)]) -> Result<Read, ReadError> {
    let mut plays = Vec::with_capacity(runs.len());
    for (run, routing) in runs {
        let mut blocks = vec![0; sites.len()];
        for (site, count) in run.stats.iter().flat_map(|(_, stats)| &stats.counts) {
            if let Some(site) = sites.find(site) {
                blocks[site.index()] = *count;
            }
        }
        plays.push(Play {
            routing: routing.clone(),
            blocks,
            unknown: 0,
            load: None,
            partial: false,
            ineffective: false,
        });
    }
    mark_partial(&mut plays);
    let bad = |problem| ReadError::Playbook {
        path: at.to_owned(),
        problem,
    };
    let playbook = Playbook::new(sites, plays, None).map_err(bad)?;
    Ok(Read {
        playbook,
        capacities: None,
        notes: Vec::new(),
    })
}

fn read_map(path: &Path, sites: Option<Sites>) -> Result<CatchmentMap, ReadError> {
    let options = ReadOptions {
        sites,
        ..ReadOptions::default()
    };
    let (map, _) = map::read(path, &options).map_err(ReadError::Map)?;
    Ok(map)
}
