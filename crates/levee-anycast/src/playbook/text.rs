//! What people read of a playbook in a terminal.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use levee_policy::reroute::Playbook;

use super::judge::Judgement;
use super::tables::{BINS, Tables};
use crate::figures::thousands;

/// Configurations that are named in a cell of table 6; of the rest the number is told.
const NAMED: usize = 3;

/// All tables.
#[must_use]
pub fn text(playbook: &Playbook, tables: &Tables, judgements: &[Judgement]) -> String {
    let mut out = String::new();
    let plays = playbook.plays();
    writeln!(
        out,
        "{} configurations of {} sites, {}; the first is the baseline\n",
        plays.len(),
        playbook.sites().len(),
        tables.unit.by()
    )
    .ok();
    shares(&mut out, playbook, tables);
    bins(&mut out, playbook, tables);
    reach(&mut out, playbook, tables);
    poisons(&mut out, judgements);
    out
}

/// `37.4%`; a share of less than a twentieth of a percent that is not 0 is told as such.
pub(super) fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.0005 {
        return "<0.1%".to_owned();
    }
    format!("{:.1}%", share * 100.0)
}

/// `60-70%`.
pub(super) fn bin_name(bin: usize) -> String {
    format!("{}-{}%", bin * BINS, (bin + 1) * BINS)
}

fn table(title: &str, header: Vec<String>, rows: Vec<Vec<String>>, left: usize, out: &mut String) {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(header);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "{title}\n{table}\n").ok();
}

fn named(first: &str, playbook: &Playbook, last: &[&str]) -> Vec<String> {
    let sites = playbook.sites().names();
    [first]
        .into_iter()
        .chain(sites)
        .chain(last.iter().copied())
        .map(str::to_owned)
        .collect()
}

fn shares(out: &mut String, playbook: &Playbook, tables: &Tables) {
    let rows = playbook.plays().iter().zip(&tables.share).enumerate();
    let rows = rows.map(|(i, (play, share))| {
        let mark = match (i, play.partial) {
            (_, true) => " (partial)",
            (0, _) if !play.routing.name.eq_ignore_ascii_case("baseline") => " (baseline)",
            _ => "",
        };
        let mut row = vec![format!("{}{mark}", play.routing.name)];
        row.extend(share.iter().map(|share| percent(*share)));
        row.extend([thousands(play.known()), thousands(play.unknown)]);
        row
    });
    let header = named("configuration", playbook, &["blocks", "unknown"]);
    table("Share of each site", header, rows.collect(), 1, out);
    if playbook.plays().iter().any(|play| play.partial) {
        out.push_str(
            "(partial): so many replies are missing against the other configurations that the shares are not to be relied on;\n\
             it is left out of what follows. Measure it again.\n\n",
        );
    }
}

fn bins(out: &mut String, playbook: &Playbook, tables: &Tables) {
    let rows = (0..BINS).rev().map(|bin| {
        let cells = tables.bins.iter().map(|bins| list(playbook, &bins[bin]));
        [bin_name(bin)].into_iter().chain(cells).collect()
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    let options = tables.reach.iter().map(|reach| reach.options.to_string());
    rows.push(["options".to_owned()].into_iter().chain(options).collect());
    let title = "Configurations that bring a site into each bin, and in how many bins there is one";
    table(title, named("share", playbook, &[]), rows, usize::MAX, out);
}

/// The names one below the other; a site has its own column.
fn list(playbook: &Playbook, plays: &[usize]) -> String {
    if plays.is_empty() {
        return "-".to_owned();
    }
    let names = plays
        .iter()
        .take(NAMED)
        .map(|play| playbook.plays()[*play].routing.name.clone());
    let mut lines: Vec<String> = names.collect();
    if plays.len() > NAMED {
        lines.push(format!("+{}", plays.len() - NAMED));
    }
    lines.join("\n")
}

fn reach(out: &mut String, playbook: &Playbook, tables: &Tables) {
    let name = |play: usize| &playbook.plays()[play].routing.name;
    let rows = playbook.sites().ids().map(|site| {
        let reach = &tables.reach[site.index()];
        let stuck = tables.stuck.as_ref().map(|stuck| stuck[site.index()]);
        let share = |part: Option<f64>| part.map_or_else(|| "?".to_owned(), percent);
        vec![
            playbook.sites().name(site).to_owned(),
            percent(reach.baseline),
            format!(
                "{} by {}",
                percent(reach.floor.share),
                name(reach.floor.play)
            ),
            format!(
                "{} by {}",
                percent(reach.ceiling.share),
                name(reach.ceiling.play)
            ),
            if reach.empty.is_empty() {
                "-".to_owned()
            } else {
                runs(&reach.empty)
            },
            share(stuck.map(|stuck| stuck.stays)),
            share(stuck.map(|stuck| stuck.never)),
        ]
    });
    let header = [
        "site",
        "baseline",
        "floor",
        "ceiling",
        "no configuration for",
        "stays",
        "never",
    ];
    let header = header.map(str::to_owned).to_vec();
    table(
        "What can be reached, short of withdrawing the site",
        header,
        rows.collect(),
        usize::MAX,
        out,
    );
    out.push_str(if tables.stuck.is_some() {
        "stays: stuck at the site whatever is announced, short of its withdrawal; never: never there.\n"
    } else {
        "stays, never: not known, as single blocks are not; floor and ceiling are bounds for them.\n"
    });
}

/// `10-30%, 50-60%`: bins in a row as one.
pub(super) fn runs(bins: &[usize]) -> String {
    let runs = bins.chunk_by(|a, b| a + 1 == *b);
    let text: Vec<String> = runs
        .map(|run| format!("{}-{}%", run[0] * BINS, (run[run.len() - 1] + 1) * BINS))
        .collect();
    text.join(", ")
}

fn poisons(out: &mut String, judgements: &[Judgement]) {
    if judgements.is_empty() {
        return;
    }
    let rows = judgements.iter().map(|j| {
        let control = j.control.as_deref().unwrap_or("-");
        vec![
            j.configuration.clone(),
            j.site.clone(),
            percent(j.share),
            if j.control.is_some() {
                format!("{} by {control}", percent(j.control_share))
            } else {
                control.to_owned()
            },
            j.verdict.name().to_owned(),
            j.why.clone(),
        ]
    });
    let header = ["poison", "site", "share", "control", "verdict", "why"]
        .map(str::to_owned)
        .to_vec();
    out.push('\n');
    table(
        "Poisons against their controls",
        header,
        rows.collect(),
        usize::MAX,
        out,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_people() {
        for (share, expect) in [
            (0.0, "0.0%"),
            (0.0001, "<0.1%"),
            (0.3744, "37.4%"),
            (1.0, "100.0%"),
        ] {
            assert_eq!(percent(share), expect);
        }
        for (number, expect) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (3_404_667, "3,404,667"),
        ] {
            assert_eq!(thousands(number), expect);
        }
        assert_eq!(runs(&[1, 2, 5]), "10-30%, 50-60%");
        assert_eq!(runs(&[9]), "90-100%");
    }
}
