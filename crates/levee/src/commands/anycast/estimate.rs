//! `levee anycast estimate --now FILE`.

mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use levee_anycast::known_good::atlas::{AtlasJudged, AtlasOptions, Probes};
use levee_anycast::known_good::select::Candidate;
use levee_anycast::known_good::{
    Estimate, HeavyHitters, HeavyOptions, History, HistoryOptions, Notes, Now, Quality,
    SiteEstimate, estimate, parse_time,
};
use levee_anycast::map::SitePattern;
use levee_policy::reroute::{Range, Sites, estimate::Estimator};
use serde::Serialize;

use crate::cli::Global;
use crate::exit::Answer;
use crate::output;

/// Where nothing says how long an interval is, in seconds.
const INTERVAL_S: i64 = 300;
/// Names of servers that are shown of those that are of no site.
const STRANGERS_SHOWN: usize = 5;

#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The intervals to be judged, together: CSV of time, source, site and count, gzipped or not; the source * is all that arrives
    #[arg(long, value_name = "FILE")]
    now: PathBuf,
    /// Traffic of the weeks before, in the same form: its heavy hitters are the known-good traffic
    #[arg(long, value_name = "FILE", required_unless_present = "atlas")]
    history: Option<PathBuf>,
    /// DNS results of RIPE Atlas (JSON) of the hours before and of now: its probes are known-good traffic
    #[arg(long, value_name = "FILE")]
    atlas: Vec<PathBuf>,
    /// Results of the same probes for a service that is not attacked: who does not reach that either is off-line
    #[arg(long, value_name = "FILE", requires = "atlas")]
    atlas_control: Vec<PathBuf>,
    /// Which site the name of a DNS server stands for: * is any text, {site} the name of the site
    #[arg(long, value_name = "PATTERN[=SITE]")]
    site_pattern: Vec<SitePattern>,
    /// Seconds between two queries of a probe
    #[arg(long, value_name = "SECONDS", default_value_t = 240, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    schedule: u32,
    /// What a site can carry, in counts per second; the answer is no if more is offered somewhere
    #[arg(long, value_name = "SITE=LOAD", value_parser = capacity)]
    capacity: Vec<(String, f64)>,
    /// The length of an interval of --now, in seconds [default: as in the history, else 300]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3_600))]
    interval: Option<u32>,
    /// The length of an interval of the history, in seconds [default: found out]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(60..=3_600))]
    history_interval: Option<u32>,
    /// The history ends here, if the attack began before --now: seconds of Unix, or as 2025-11-30T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<i64>,
    /// How many heavy hitters are taken at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=400))]
    heavy_hitters: u32,
    /// Show each candidate, and why it was taken or left
    #[arg(long)]
    candidates: bool,
}

const EXAMPLES: &str = "Examples:\n  \
    levee anycast estimate --now now.csv --history weeks.csv.gz --capacity AMS=50000 --capacity BOS=20000\n  \
    levee anycast estimate --now now.csv --atlas atlas.json --site-pattern 'ns*.{site}.k.example.net'\n\n\
    A row of now.csv is 1764460800,192.0.2.1,AMS,1234: the begin of the interval (seconds of Unix, or RFC 3339), who sent, to\n\
    which site, how many. Sources that are no heavy hitters may be summed up as *. See docs/anycast-estimate.md.";

fn capacity(text: &str) -> Result<(String, f64), String> {
    let (site, load) = text
        .rsplit_once('=')
        .ok_or("expected SITE=LOAD, such as AMS=50000")?;
    match load.parse::<f64>() {
        Ok(load) if load.is_finite() && load > 0.0 && !site.is_empty() => {
            Ok((site.to_owned(), load))
        }
        _ => Err("expected SITE=LOAD with a load above 0, such as AMS=50000".to_owned()),
    }
}

fn time(text: &str) -> Result<i64, String> {
    parse_time(text).map_err(|error| error.to_string())
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    let heavy = args
        .history
        .as_ref()
        .map(|path| learn(args, path))
        .transpose()?;
    let (sites, names, interval) = match &heavy {
        Some((hitters, history)) => (hitters.sites().clone(), hitters.names(), history.interval_s),
        None => (Sites::default(), Vec::new(), INTERVAL_S),
    };
    let interval = args.interval.map_or(interval, i64::from);
    let now = now(&args.now, interval, &sites, &names)?;
    let judged = heavy.as_ref().map(|(hitters, _)| hitters.judge(&now));
    let mut remarks = heavy.as_ref().map_or_else(Vec::new, |(hitters, history)| {
        about_history(hitters, history, &now)
    });
    remarks.extend(about_now(&now));
    let atlas = (!args.atlas.is_empty())
        .then(|| atlas(args, &now, &mut remarks))
        .transpose()?;
    let estimate = estimate(&now, judged.as_ref(), atlas.as_ref(), &Estimator::default());
    let capacities = capacities(args, &now.sites)?;
    let hitters = heavy.as_ref().map(|(hitters, _)| hitters);
    let document = Document::new(
        &now,
        hitters,
        &estimate,
        &capacities,
        remarks,
        args.candidates,
    );
    if global.json {
        output::json(&document)?;
    } else {
        output::text(&view::text(&document))?;
    }
    let over = document.sites.iter().any(|site| site.over == Some(true));
    Ok(if over { Answer::No } else { Answer::Yes })
}

fn open(path: &Path) -> Result<File> {
    File::open(path)
        .with_context(|| format!("{}: cannot be opened; check the path", path.display()))
}

fn now(path: &Path, interval_s: i64, sites: &Sites, names: &[&str]) -> Result<Now> {
    Now::read(open(path)?, interval_s, sites, names).with_context(|| path.display().to_string())
}

/// The heavy hitters of a history, and what was noticed of it.
fn learn(args: &Args, path: &Path) -> Result<(HeavyHitters, About)> {
    // Only for its times: the heavy hitters are not known yet.
    let first = now(
        &args.now,
        args.interval.map_or(INTERVAL_S, i64::from),
        &Sites::default(),
        &[],
    )?;
    let until_s = args.until.unwrap_or(i64::MAX).min(first.from_s());
    let options = HistoryOptions {
        interval_s: args.history_interval,
        until_s: Some(until_s),
    };
    let named = || path.display().to_string();
    let history = History::read(path, options).with_context(named)?;
    let mut heavy = HeavyOptions::default();
    heavy.select.count = args.heavy_hitters as usize;
    // An interval of an hour may end an hour after the last begin that was seen.
    let hitters = HeavyHitters::fit(&history, first.to_s() + 3_600, &heavy).with_context(named)?;
    let about = About {
        interval_s: history.interval_s,
        start_s: history.start_s,
        end_s: history.end_s(),
        notes: history.notes,
    };
    Ok((hitters, about))
}

struct About {
    interval_s: i64,
    start_s: i64,
    end_s: i64,
    notes: Notes,
}

fn about_history(hitters: &HeavyHitters, about: &About, now: &Now) -> Vec<String> {
    let notes = about.notes;
    let mut out = Vec::new();
    let mut say = |count: u64, what: &str| {
        if count > 0 {
            out.push(format!("history: {count} {what}"));
        }
    };
    say(
        notes.repeated,
        "rows repeat a time, source and site: the larger count was taken",
    );
    say(
        notes.back_in_time,
        "rows go back in time (a clock was set back, or the file is not sorted): the larger count was taken",
    );
    say(
        notes.far_off,
        "rows are too old, or two weeks and more apart from the others: they were left out",
    );
    say(
        notes.after_end,
        "rows are of the time that is judged, or later: they were left out",
    );
    say(
        notes.at_many_sites,
        "sources are seen at more than 8 sites: they were left out",
    );
    say(
        notes.sketch_error,
        "events, at most, may be missing from the sum by which a candidate was found",
    );
    if notes.cut_off {
        out.push(
            "history: the file ends in the middle of a row; what is whole was read".to_owned(),
        );
    }
    if hitters.names().is_empty() {
        out.push(
            "history: no source is steady enough to be a heavy hitter; --candidates says why"
                .to_owned(),
        );
    } else if hitters.age_unknown() {
        let days = (about.end_s - about.start_s) as f64 / 86_400.0;
        out.push(format!(
            "history: {days:.1} days are too few to tell who was planted lately; give more than 7"
        ));
    }
    let gap_hours = (now.from_s() - about.end_s) / 3_600;
    if gap_hours >= 24 {
        out.push(format!(
            "history: it ends {gap_hours} hours before what is judged; a newer one is surer"
        ));
    }
    out
}

fn about_now(now: &Now) -> Vec<String> {
    let mut out = Vec::new();
    if now.repeated > 0 {
        out.push(format!(
            "now: {} rows repeat a time, source and site: the larger count was taken",
            now.repeated
        ));
    }
    if now.cut_off {
        out.push("now: the file ends in the middle of a row; what is whole was read".to_owned());
    }
    out
}

fn atlas(args: &Args, now: &Now, remarks: &mut Vec<String>) -> Result<AtlasJudged> {
    let options = AtlasOptions {
        schedule_s: i64::from(args.schedule),
        ..AtlasOptions::default()
    };
    let mut probes = Probes::new(now.from_s(), now.to_s(), options);
    let mut strangers = BTreeSet::new();
    for path in &args.atlas {
        probes.read(path, open(path)?, |name| {
            let site = if args.site_pattern.is_empty() {
                Some(name.to_owned())
            } else {
                args.site_pattern
                    .iter()
                    .find_map(|pattern| pattern.site(name))
            };
            let site = site.and_then(|site| {
                let same = |known: &&str| known.eq_ignore_ascii_case(&site);
                now.sites.find(now.sites.names().find(same)?)
            });
            if site.is_none() && strangers.len() < STRANGERS_SHOWN {
                strangers.insert(name.to_owned());
            }
            site
        })?;
    }
    for path in &args.atlas_control {
        probes.read_control(path, open(path)?)?;
    }
    let judged = probes.judge(&now.sites);
    if judged.by_site.iter().all(|site| site.known_good.is_none()) && !strangers.is_empty() {
        bail!(
            "no server in the Atlas results is one of the sites {}: they are called {}; say what they stand for with --site-pattern",
            list(now.sites.names()),
            list(strangers.iter().map(String::as_str))
        );
    }
    if !strangers.is_empty() {
        remarks.push(format!(
            "Atlas: servers that are at no known site were left out, such as {}",
            list(strangers.iter().map(String::as_str))
        ));
    }
    remarks.extend(judged.remarks());
    Ok(judged)
}

fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn capacities(args: &Args, sites: &Sites) -> Result<BTreeMap<String, f64>> {
    for (name, _) in &args.capacity {
        ensure!(
            sites.find(name).is_some(),
            "--capacity {name}: there is no such site; expected one of {}",
            list(sites.names())
        );
    }
    Ok(args.capacity.iter().cloned().collect())
}

/// What machines read.
#[derive(Serialize)]
struct Document<'e> {
    command: &'static str,
    from: i64,
    to: i64,
    /// Of all sites together.
    estimate: Offered,
    sites: Vec<SiteDocument<'e>>,
    heavy_hitters: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<&'e [Candidate]>,
    remarks: Vec<String>,
}

#[derive(Serialize)]
struct SiteDocument<'e> {
    #[serde(flatten)]
    estimate: &'e SiteEstimate,
    capacity: Option<f64>,
    /// Whether more is offered than it can carry.
    over: Option<bool>,
    forecast: Option<Quality>,
}

/// A bound that is not known is `null`.
#[derive(Clone, Copy, Serialize)]
struct Offered {
    offered: f64,
    low: f64,
    high: Option<f64>,
}

impl From<Range> for Offered {
    fn from(range: Range) -> Self {
        Self {
            offered: range.likely,
            low: range.low,
            high: range.high.is_finite().then_some(range.high),
        }
    }
}

impl<'e> Document<'e> {
    fn new(
        now: &Now,
        hitters: Option<&'e HeavyHitters>,
        estimate: &'e Estimate,
        capacities: &BTreeMap<String, f64>,
        remarks: Vec<String>,
        candidates: bool,
    ) -> Self {
        let sites = now
            .sites
            .ids()
            .zip(&estimate.sites)
            .map(|(site, estimate)| {
                let capacity = capacities.get(&estimate.name).copied();
                SiteDocument {
                    estimate,
                    capacity,
                    over: capacity
                        .zip(estimate.offered)
                        .map(|(capacity, offered)| offered.likely > capacity),
                    forecast: hitters.and_then(|hitters| hitters.quality(site)),
                }
            });
        Self {
            command: "anycast estimate",
            from: now.from_s(),
            to: now.to_s(),
            estimate: estimate.offered.into(),
            sites: sites.collect(),
            heavy_hitters: hitters.map(|hitters| hitters.names().len()),
            candidates: hitters.filter(|_| candidates).map(HeavyHitters::candidates),
            remarks,
        }
    }
}
