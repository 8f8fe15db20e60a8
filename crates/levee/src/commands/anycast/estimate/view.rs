//! The estimate for people.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use levee_anycast::known_good::Origin;
use levee_anycast::known_good::season::Seasons;
use levee_policy::reroute::{Range, estimate::Use};

use super::{Document, SiteDocument};

pub(super) fn text(document: &Document<'_>) -> String {
    let mut out = sites(document);
    let total = &document.estimate;
    let high = total.high.map_or("no upper bound".to_owned(), |high| {
        format!("to {}", load(high))
    });
    writeln!(
        out,
        "\nOffered in all: {} a second (from {} {high}).",
        load(total.offered),
        load(total.low)
    )
    .ok();
    let mut remarks: Vec<String> = document.remarks.clone();
    for site in &document.sites {
        let named = |remark: &String| format!("{}: {remark}", site.estimate.name);
        remarks.extend(site.estimate.remarks.iter().map(named));
        remarks.extend(forecast(site));
    }
    for remark in remarks {
        writeln!(out, "- {remark}").ok();
    }
    if let Some(candidates) = document.candidates {
        out.push('\n');
        let mut table = Table::new();
        table.load_style(UTF8_BORDERS_ONLY).set_header([
            "candidate",
            "per second",
            "there",
            "varies",
            "verdict",
        ]);
        for candidate in candidates {
            table.add_row([
                candidate.source.clone(),
                format!("{:.2}", candidate.rate),
                percent(candidate.presence),
                if candidate.variation.is_finite() {
                    percent(candidate.variation)
                } else {
                    "-".to_owned()
                },
                candidate.verdict.to_string(),
            ]);
        }
        right(&mut table, 1..=3);
        writeln!(out, "{table}").ok();
    }
    out
}

fn sites(document: &Document<'_>) -> String {
    let capacities = document.sites.iter().any(|site| site.capacity.is_some());
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    let mut header = vec![
        "site",
        "by",
        "known-good",
        "expected",
        "arrives",
        "observed/s",
        "offered/s",
        "from",
        "to",
    ];
    if capacities {
        header.extend(["capacity/s", ""]);
    }
    table.set_header(header);
    for site in &document.sites {
        let estimate = site.estimate;
        let alpha = estimate.alpha.as_ref();
        let mut row = vec![
            estimate.name.clone(),
            if estimate.sources.len() > 1 {
                "all"
            } else {
                estimate
                    .sources
                    .first()
                    .map_or("-", |source| origin(source.origin))
            }
            .to_owned(),
        ];
        let one = estimate
            .sources
            .first()
            .filter(|_| estimate.sources.len() == 1);
        row.extend(one.map_or(["".to_owned(), "".to_owned()], |source| {
            [
                format!("{:.0}", source.known_good.observed),
                format!("{:.0}", source.known_good.expected),
            ]
        }));
        row.push(alpha.map_or("?".to_owned(), |alpha| percent(alpha.range.likely)));
        row.push(estimate.observed.map_or("?".to_owned(), load));
        row.extend(range(estimate.offered));
        if capacities {
            row.push(site.capacity.map_or(String::new(), load));
            row.push(if site.over == Some(true) { "over" } else { "" }.to_owned());
        }
        table.add_row(row);
        if estimate.sources.len() > 1 {
            for source in &estimate.sources {
                let mut row = vec![
                    String::new(),
                    format!(
                        "{}{}",
                        origin(source.origin),
                        if source.used == Use::LeftOut {
                            " (left out)"
                        } else {
                            ""
                        }
                    ),
                    format!("{:.0}", source.known_good.observed),
                    format!("{:.0}", source.known_good.expected),
                    percent(source.known_good.observed / source.known_good.expected),
                    String::new(),
                ];
                row.extend(range(source.offered));
                table.add_row(row);
            }
        }
    }
    right(&mut table, 2..=9);
    format!("{table}\n")
}

fn right(table: &mut Table, columns: std::ops::RangeInclusive<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn range(offered: Option<Range>) -> [String; 3] {
    let bound = |value: f64| {
        if value.is_finite() {
            load(value)
        } else {
            "no bound".to_owned()
        }
    };
    match offered {
        None => ["?", "?", "?"].map(str::to_owned),
        Some(range) if range.likely == range.low && range.high.is_infinite() => [
            format!("at least {}", load(range.low)),
            load(range.low),
            bound(range.high),
        ],
        Some(range) => [load(range.likely), load(range.low), bound(range.high)],
    }
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Atlas => "Atlas",
        Origin::HeavyHitters => "heavy hitters",
    }
}

/// What the forecast lacks, if anything.
fn forecast(site: &SiteDocument<'_>) -> Option<String> {
    let quality = site.forecast?;
    let name = &site.estimate.name;
    let error = quality.backtest.map_or(String::new(), |error| {
        format!(
            "; of the last day it would have been {} off",
            percent(error)
        )
    });
    Some(match quality.seasons {
        Seasons::Weekly => format!("{name}: forecast with day and week{error}"),
        Seasons::Daily => format!(
            "{name}: forecast with the day alone, as the history has less than two weeks{error}"
        ),
        Seasons::Level => format!(
            "{name}: forecast without season, as the history has less than two days: it may be far off"
        ),
    })
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 10.0 || percent == 0.0 {
        format!("{percent:.0}%")
    } else {
        format!("{percent:.1}%")
    }
}

/// Whole numbers, with spaces between thousands.
fn load(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}
