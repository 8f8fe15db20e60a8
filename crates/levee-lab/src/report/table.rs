//! The table that people read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};

use super::{KindReport, LaneReport, Report};
use crate::stats::Share;
use levee_sim::scenario::AtValue;

/// A table for each point with a line for each lane, and what the columns mean.
#[must_use]
pub fn to_table(report: &Report) -> String {
    tables(report, |lane| &lane.at, HEADER, row, LEGEND)
}

/// The lanes of each point, with its title.
fn by_point<L>(
    lanes: &[L],
    at: impl Fn(&L) -> &BTreeMap<String, AtValue>,
) -> Vec<(String, Vec<&L>)> {
    let mut groups: Vec<(String, Vec<&L>)> = Vec::new();
    for lane in lanes {
        let title = title(at(lane));
        match groups.last_mut().filter(|(t, _)| *t == title) {
            Some((_, lanes)) => lanes.push(lane),
            None => groups.push((title, vec![lane])),
        }
    }
    groups
}

/// What [`to_table`] writes, for lanes of any kind.
pub(crate) fn tables<L, const COLUMNS: usize>(
    report: &Report<L>,
    at: impl Fn(&L) -> &BTreeMap<String, AtValue>,
    header: [&str; COLUMNS],
    row: impl Fn(&L) -> [String; COLUMNS],
    legend: &str,
) -> String {
    let mut text = String::new();
    for (title, lanes) in by_point(&report.lanes, at) {
        if !title.is_empty() {
            writeln!(text, "{title}").ok();
        }
        let mut table = Table::new();
        table.load_style(UTF8_BORDERS_ONLY);
        table.set_header(header);
        for lane in lanes {
            table.add_row(row(lane));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(text, "{table}\n").ok();
    }
    text.push_str(legend);
    for warning in &report.warnings {
        writeln!(text, "warning: {warning}").ok();
    }
    if report.interrupted {
        text.push_str("interrupted: only what was finished is shown\n");
    }
    text
}

const LEGEND: &str = "\
calls     begun by honest callers, in the whole run
complete  % of honest calls that lasted as long as the caller wanted, or to the end of the run
cut       % set up, then ended by the other side      refused  % never set up
2nd half  complete, of the calls that began in the second half of the run
setup     milliseconds from INVITE to 200: median / 99th percentile
attacks   calls begun by attackers      stay  mean seconds from INVITE to the end of those set up      dropped  % cut short
(a-b)     95% interval: of one run Wilson's, which takes its calls as independent, so it is rather too narrow;
          of several (run.repeat) by how they differ
";

/// Keys of what is swept in a defence begin with it.
const DEFENSE: &str = "defense.";

const HEADER: [&str; 10] = [
    "lane", "calls", "complete", "cut", "refused", "2nd half", "setup", "attacks", "stay",
    "dropped",
];

fn row(lane: &LaneReport) -> [String; HEADER.len()] {
    let (honest, attacker) = (&lane.honest, &lane.attacker);
    [
        name(&lane.name, &lane.at),
        honest.attempted.to_string(),
        interval(honest),
        percent(honest.incomplete_share),
        percent(honest.unsuccessful_share),
        interval(&lane.second_half.honest),
        setup(honest),
        attacker.attempted.to_string(),
        attacker
            .in_server_mean_s
            .map_or_else(none, |s| format!("{s:.1}")),
        percent(attacker.incomplete_share),
    ]
}

/// What is swept beside the defence: its points have tables of their own.
fn title(at: &BTreeMap<String, AtValue>) -> String {
    let parts = at.iter().filter(|(key, _)| !key.starts_with(DEFENSE));
    let parts: Vec<String> = parts
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    parts.join(", ")
}

/// A lane's name, and what of its defence is swept and not in the name already.
pub(crate) fn name(lane: &str, at: &BTreeMap<String, AtValue>) -> String {
    let mut name = lane.to_owned();
    for (key, value) in at {
        if let Some(key) = key.strip_prefix(DEFENSE)
            && !lane.contains(&value.to_string())
        {
            write!(name, " {key}={value}").ok();
        }
    }
    name
}

fn none() -> String {
    "-".to_owned()
}

fn percent(share: Option<Share>) -> String {
    share.map_or_else(none, |s| format!("{:.1}", s.estimate * 100.0))
}

/// Of several runs the interval that does not take their calls as independent.
fn interval(calls: &KindReport) -> String {
    let share = calls.complete_share_over_runs.or(calls.complete_share);
    share.map_or_else(none, |s| {
        format!(
            "{:.1} ({:.0}-{:.0})",
            s.estimate * 100.0,
            s.low * 100.0,
            s.high * 100.0
        )
    })
}

fn setup(calls: &KindReport) -> String {
    calls
        .setup_ms
        .map_or_else(none, |l| format!("{:.0} / {:.0}", l.p50, l.p99))
}
