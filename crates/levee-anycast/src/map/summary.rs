//! What a map and a comparison say, for people and for machines.

use crate::figures::thousands;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use levee_policy::reroute::{SiteId, Sites};
use serde::Serialize;

use super::{CatchmentMap, Diff, LoadMap, ReadReport, Rtt, Stuck};

/// Flips that are listed for people.
const FLIPS_SHOWN: usize = 20;

/// Round-trip times to the blocks of a site, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// A tenth takes no longer.
    pub p10: f64,
    /// Half take no longer.
    pub p50: f64,
    /// Nine tenths take no longer.
    pub p90: f64,
}

/// A map in figures. By site where a map of names says so.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// What it is called.
    pub name: String,
    /// Share of the load where that is known, of the blocks otherwise.
    pub share: BTreeMap<String, f64>,
    /// Blocks.
    pub count: BTreeMap<String, u64>,
    /// Blocks of all sites.
    pub blocks: u64,
    /// Blocks with a load of which no site is known; 0 where no load is.
    pub unknown: u64,
    /// Whether so many replies are missing against other maps that the figures are not to be relied on.
    pub partial: bool,
    /// Load, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<BTreeMap<String, f64>>,
    /// Load of the blocks of which no site is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_unknown: Option<f64>,
    /// Round-trip times, of sites that have some.
    pub rtt_ms: BTreeMap<String, Times>,
    /// Blocks that were seen at several sites.
    pub conflicts: u64,
}

impl Summary {
    /// Sums a map up.
    #[must_use]
    pub fn new(name: &str, map: &CatchmentMap, load: Option<&LoadMap>) -> Self {
        let sites = map.sites();
        let counts = map.counts();
        let blocks: u64 = counts.iter().sum();
        let loads = load.map(|load| by_site(map, load));
        let share = |site: SiteId| match &loads {
            Some((all, _)) => part(all[site.index()], all.iter().sum()),
            None => part(counts[site.index()] as f64, blocks as f64),
        };
        let unknown = load.map_or(0, |load| {
            load.iter()
                .filter(|(block, _)| map.site(*block).is_none())
                .count() as u64
        });
        Self {
            name: name.to_owned(),
            share: named(sites, share),
            count: named(sites, |site| counts[site.index()]),
            blocks,
            unknown,
            partial: false,
            load: loads
                .as_ref()
                .map(|(all, _)| named(sites, |site| all[site.index()])),
            load_unknown: loads.map(|(_, unknown)| unknown),
            rtt_ms: times(map),
            conflicts: map.conflicts().blocks(),
        }
    }
}

fn named<T>(sites: &Sites, of: impl Fn(SiteId) -> T) -> BTreeMap<String, T> {
    let all = sites.ids();
    all.map(|site| (sites.name(site).to_owned(), of(site)))
        .collect()
}

fn part(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Load of each site, and of blocks of which no site is known.
fn by_site(map: &CatchmentMap, load: &LoadMap) -> (Vec<f64>, f64) {
    let mut all = vec![0.0; map.sites().len()];
    let mut unknown = 0.0;
    for (block, load) in load.iter() {
        match map.site(block) {
            Some(site) => all[site.index()] += load,
            None => unknown += load,
        }
    }
    (all, unknown)
}

fn times(map: &CatchmentMap) -> BTreeMap<String, Times> {
    let mut all: Vec<Vec<Rtt>> = vec![Vec::new(); map.sites().len()];
    for (block, site) in map.iter() {
        all[site.index()].extend(map.rtt(block));
    }
    let mut out = BTreeMap::new();
    for (site, mut rtts) in map.sites().ids().zip(all) {
        rtts.sort_unstable();
        // The nearest rank.
        let at = |tenths: usize| rtts.get((rtts.len() * tenths).div_ceil(10).saturating_sub(1));
        if let (Some(p10), Some(p50), Some(p90)) = (at(1), at(5), at(9)) {
            let [p10, p50, p90] = [p10, p50, p90].map(|rtt| rtt.ms());
            out.insert(map.sites().name(site).to_owned(), Times { p10, p50, p90 });
        }
    }
    out
}

/// A summary as a table.
#[must_use]
pub fn summary_text(summary: &Summary) -> String {
    let loads = summary.load.is_some();
    let mut header = vec!["site", "blocks", "of blocks"];
    if loads {
        header.extend(["load", "of load"]);
    }
    header.extend(["RTT p10", "p50", "p90 (ms)"]);
    let mut table = table(&header);
    for (site, count) in &summary.count {
        let share = part(*count as f64, summary.blocks as f64);
        let mut row = vec![site.clone(), thousands(*count), percent(share)];
        if let Some(load) = &summary.load {
            row.extend([figure(load[site]), percent(summary.share[site])]);
        }
        let times = summary.rtt_ms.get(site);
        let time =
            |of: fn(&Times) -> f64| times.map_or("-".to_owned(), |t| format!("{:.1}", of(t)));
        row.extend([time(|t| t.p10), time(|t| t.p50), time(|t| t.p90)]);
        table.add_row(row);
    }
    let mut out = String::new();
    let flag = if summary.partial { ", PARTIAL" } else { "" };
    writeln!(
        out,
        "{}: {} blocks{flag}\n{table}",
        summary.name,
        thousands(summary.blocks)
    )
    .ok();
    if summary.conflicts > 0 {
        let share = part(summary.conflicts as f64, summary.blocks as f64);
        writeln!(
            out,
            "{} blocks ({}) were seen at several sites; each is counted where most of its replies came in",
            thousands(summary.conflicts),
            percent(share)
        )
        .ok();
    }
    if let Some(load) = summary.load_unknown.filter(|load| *load > 0.0) {
        writeln!(
            out,
            "{} blocks with a load of {} are in no catchment that is known",
            thousands(summary.unknown),
            figure(load)
        )
        .ok();
    }
    if summary.partial {
        out.push_str("Replies are missing: it has over a tenth fewer blocks than the other maps. Measure it again before it is used.\n");
    }
    out
}

/// What became of a file, in a line.
#[must_use]
pub fn report_text(file: &str, report: &ReadReport) -> String {
    let mut out = format!(
        "{file}: {}, {} records, {} replies",
        report.form.name(),
        thousands(report.records),
        thousands(report.replies)
    );
    let mut count = |count: u64, what: &str| {
        if count > 0 {
            write!(out, ", {} {what}", thousands(count)).ok();
        }
    };
    count(report.duplicates, "duplicates");
    count(report.late.unwrap_or(0), "late");
    count(
        report.off_address.unwrap_or(0),
        "from or to other addresses",
    );
    count(report.unanswered.unwrap_or(0), "without an answer");
    count(report.other, "of other kinds");
    count(report.no_site, "of servers without a site");
    count(report.bad, "malformed");
    if !report.no_site_names.is_empty() {
        write!(
            out,
            "\n  no --site-pattern fits {}",
            report.no_site_names.join(", ")
        )
        .ok();
    }
    for bad in &report.bad_shown {
        write!(out, "\n  left out: {bad}").ok();
    }
    out
}

/// Of one site to another; `None` is unknown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flip {
    /// Where it was.
    pub from: Option<String>,
    /// Where it is.
    pub to: Option<String>,
    /// Blocks.
    pub blocks: u64,
    /// Load, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
}

/// A comparison in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffSummary {
    /// The first map.
    pub from: String,
    /// The second.
    pub to: String,
    /// Blocks in both.
    pub common: u64,
    /// Of them, those at another site.
    pub moved: u64,
    /// Their share; `None` without a block in both.
    pub moved_share: Option<f64>,
    /// Blocks in the second only.
    pub appeared: u64,
    /// Blocks in the first only.
    pub vanished: u64,
    /// Of the load of blocks in both, the share that moved.
    pub load_moved_share: Option<f64>,
    /// All that was not nothing, those that stay too; the largest first.
    pub flips: Vec<Flip>,
}

impl DiffSummary {
    /// Sums a comparison up.
    #[must_use]
    pub fn new(from: &str, to: &str, diff: &Diff) -> Self {
        let name = |site: Option<SiteId>| site.map(|site| diff.sites.name(site).to_owned());
        let mut flips: Vec<Flip> = Vec::new();
        for (a, b, blocks) in diff.blocks.iter() {
            let load = diff.load.as_ref().map(|load| load.get(a, b));
            if blocks > 0 || load.is_some_and(|load| load > 0.0) {
                flips.push(Flip {
                    from: name(a),
                    to: name(b),
                    blocks,
                    load,
                });
            }
        }
        flips.sort_by(|a, b| {
            let load = |flip: &Flip| flip.load.unwrap_or(0.0);
            load(b).total_cmp(&load(a)).then(b.blocks.cmp(&a.blocks))
        });
        Self {
            from: from.to_owned(),
            to: to.to_owned(),
            common: diff.blocks.common(),
            moved: diff.blocks.moved(),
            moved_share: diff.moved(),
            appeared: diff.blocks.appeared(),
            vanished: diff.blocks.vanished(),
            load_moved_share: diff.load_moved(),
            flips,
        }
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!(
            "{} -> {}: {} of {} blocks moved ({})",
            self.from,
            self.to,
            thousands(self.moved),
            thousands(self.common),
            self.moved_share
                .map_or_else(|| "none in both".to_owned(), percent)
        );
        if let Some(share) = self.load_moved_share {
            write!(out, ", {} of their load", percent(share)).ok();
        }
        writeln!(
            out,
            "; {} appeared, {} vanished",
            thousands(self.appeared),
            thousands(self.vanished)
        )
        .ok();
        let moves: Vec<&Flip> = self
            .flips
            .iter()
            .filter(|flip| flip.from != flip.to)
            .collect();
        if moves.is_empty() {
            return out;
        }
        let loads = self.load_moved_share.is_some();
        let header = ["from", "to", "blocks", "of its blocks", "load"];
        let mut table = table(&header[..if loads { 5 } else { 4 }]);
        for flip in moves.iter().take(FLIPS_SHOWN) {
            let site = |site: &Option<String>| site.clone().unwrap_or_else(|| "unknown".to_owned());
            let home = self.flips.iter().filter(|other| other.from == flip.from);
            let home: u64 = home.map(|other| other.blocks).sum();
            let share = match flip.from {
                Some(_) => percent(part(flip.blocks as f64, home as f64)),
                None => "-".to_owned(),
            };
            let mut row = vec![
                site(&flip.from),
                site(&flip.to),
                thousands(flip.blocks),
                share,
            ];
            row.extend(flip.load.map(figure).filter(|_| loads));
            table.add_row(row);
        }
        writeln!(out, "{table}").ok();
        if moves.len() > FLIPS_SHOWN {
            writeln!(
                out,
                "and {} more pairs, in --json",
                moves.len() - FLIPS_SHOWN
            )
            .ok();
        }
        out
    }
}

/// What never moves, in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StuckSummary {
    /// Blocks in every map.
    pub common: u64,
    /// Blocks in some of them.
    pub partly: u64,
    /// Of those in every map, the share that is always at the same site.
    pub share: Option<f64>,
    /// Blocks that never move.
    pub blocks: BTreeMap<String, u64>,
    /// Their load, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<BTreeMap<String, f64>>,
    /// Their share of the load of blocks in every map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_share: Option<f64>,
}

impl StuckSummary {
    /// Sums up.
    #[must_use]
    pub fn new(stuck: &Stuck) -> Self {
        let total: u64 = stuck.stuck.iter().sum();
        let loads = stuck.load_stuck.as_ref();
        Self {
            common: stuck.common,
            partly: stuck.partly,
            share: (stuck.common > 0).then(|| total as f64 / stuck.common as f64),
            blocks: named(&stuck.sites, |site| stuck.stuck[site.index()]),
            load: loads.map(|all| named(&stuck.sites, |site| all[site.index()])),
            load_share: loads
                .zip(stuck.load_common)
                .map(|(all, common)| part(all.iter().sum(), common)),
        }
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let total: u64 = self.blocks.values().sum();
        let mut out = format!(
            "never move: {} of the {} blocks that are in every map ({})",
            thousands(total),
            thousands(self.common),
            self.share.map_or_else(|| "no block is".to_owned(), percent)
        );
        if let Some(share) = self.load_share {
            write!(out, ", {} of their load", percent(share)).ok();
        }
        let sites = self.blocks.iter().filter(|(_, blocks)| **blocks > 0);
        let sites: Vec<String> = sites
            .map(|(site, n)| format!("{site} {}", thousands(*n)))
            .collect();
        if !sites.is_empty() {
            write!(out, ": {}", sites.join(", ")).ok();
        }
        writeln!(
            out,
            "; {} more are in some maps only",
            thousands(self.partly)
        )
        .ok();
        out
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(header.to_vec());
    for column in table
        .column_iter_mut()
        .filter(|column| !matches!(header[column.index], "site" | "from" | "to"))
    {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// `37.4%`; what is little is told in more digits.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 {
        format!("{percent:.2}%")
    } else {
        format!("{percent:.1}%")
    }
}

/// A load, with as many digits as tell something.
fn figure(number: f64) -> String {
    if number >= 1_000.0 {
        thousands(number.round() as u64)
    } else {
        let text = format!("{number:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Block;

    fn map() -> CatchmentMap {
        let mut map = CatchmentMap::new(Sites::new(["AMS", "BOS", "CNF"]).unwrap());
        for i in 0..10u32 {
            map.set_with(Block::V4(i), SiteId(0), Rtt::from_ms(f64::from(i + 1)));
        }
        map.set(Block::V4(10), SiteId(1));
        map
    }

    #[test]
    fn figures_of_a_map() {
        let map = map();
        let summary = Summary::new("x", &map, None);
        assert_eq!(summary.blocks, 11);
        assert_eq!(
            summary.count.values().copied().collect::<Vec<_>>(),
            [10, 1, 0]
        );
        assert_eq!(summary.share["AMS"], 10.0 / 11.0);
        let times = summary.rtt_ms["AMS"];
        assert_eq!((times.p10, times.p50, times.p90), (1.0, 5.0, 9.0));
        assert_eq!(summary.rtt_ms.len(), 1);
        let mut load = LoadMap::new();
        for (block, amount) in [(0, 30.0), (10, 10.0), (11, 60.0)] {
            load.add(Block::V4(block), amount);
        }
        let summary = Summary::new("x", &map, Some(&load));
        assert_eq!((summary.share["AMS"], summary.share["BOS"]), (0.75, 0.25));
        assert_eq!((summary.unknown, summary.load_unknown), (1, Some(60.0)));
        let text = summary_text(&summary);
        for part in [
            "x: 11 blocks\n",
            "90.9%",
            "75.0%",
            "1 blocks with a load of 60 are in no catchment",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn numbers_for_people() {
        for (share, expect) in [
            (0.0, "0.0%"),
            (0.0035, "0.35%"),
            (0.01, "1.0%"),
            (1.0, "100.0%"),
        ] {
            assert_eq!(percent(share), expect);
        }
        for (number, expect) in [
            (0.0, "0"),
            (2.5, "2.5"),
            (100.0, "100"),
            (1_234_567.4, "1,234,567"),
        ] {
            assert_eq!(figure(number), expect);
        }
        assert_eq!(thousands(1_000), "1,000");
    }
}
