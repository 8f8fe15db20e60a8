//! `levee replay RECORDING CONFIG`: what another defence would have done.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use levee_config::{Document, Problems};
use levee_policy::selective::{Config, Selective};
use levee_proxy::config::{LiveConfig, read_text};
use levee_proxy::recorder::{FATES, Group, History, Outcome, WhatIf};
use levee_sim::scenario::lane_name;
use serde::Serialize;

use super::{Args, opened};
use crate::cli::Global;
use crate::exit::Answer;
use crate::output;

/// Longest configuration.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// A defence to be asked.
struct Asked {
    /// What it is called.
    name: String,
    capacity: u32,
    config: Config,
}

pub(super) fn run(args: &Args, config: &Path, global: Global) -> Result<Answer> {
    let file = args.recording.display().to_string();
    let (reader, bar) = opened(args, global)?;
    let history = History::read(reader).with_context(|| file.clone())?;
    bar.finish_and_clear();
    let header = &history.header;
    let own = Asked {
        name: lane_name(Some(&header.config)),
        capacity: header.capacity,
        config: header.config.clone(),
    };
    let other = asked(config, args.front.as_deref(), &own)?;
    let ask = |asked: &Asked| {
        history
            .what_if(asked.capacity, &asked.config, args.seed, args.runs)
            .with_context(|| format!("{}: [defense]", config.display()))
    };
    let answers = [ask(&own)?, ask(&other)?];
    let report = Report::of(&history, [&own, &other], &answers, args);
    if global.json {
        output::json(&report)?;
    } else {
        output::text(&text(&file, &history, &report))?;
    }
    Ok(Answer::Yes)
}

/// The defence that a file names: a live configuration, a scenario, or a bare `[defense]`.
fn asked(path: &Path, front: Option<&str>, own: &Asked) -> Result<Asked> {
    let file = path.display().to_string();
    let text = read_text(path, CONFIG_BYTES_MAX)
        .with_context(|| format!("{file}: cannot be read: check the path and the file"))?;
    let document = Document::parse(&file, &text)?;
    if document.has("sip") {
        return live(path, front);
    }
    if !document.has("defense") {
        bail!(
            "{file}: it has neither [[sip]] nor [defense], expected a live configuration, a scenario, or a file with a [defense] table: \
             write [defense] and kind = \"seven\""
        );
    }
    let config: Config = document.read("defense")?;
    let capacity = if document.has("service.capacity") {
        document.read("service.capacity")?
    } else {
        own.capacity
    };
    if let Err(error) = Selective::check(capacity, &config) {
        let problem = document.problem(
            &format!("defense.{}", error.key),
            error.value,
            &error.expected,
            "docs/configuration.md lists the keys of a defence with their ranges",
        );
        return Err(Problems::from(problem).into());
    }
    Ok(Asked {
        name: lane_name(Some(&config)),
        capacity,
        config,
    })
}

fn live(path: &Path, front: Option<&str>) -> Result<Asked> {
    let file = path.display();
    let live = LiveConfig::load(path)?;
    let names: Vec<&str> = live.sip.iter().map(|sip| sip.name.as_str()).collect();
    let names = names.join(", ");
    let found = match (front, live.sip.as_slice()) {
        (Some(name), all) => match all.iter().find(|sip| sip.name == name) {
            Some(sip) => sip,
            None => bail!("{file}: no front `{name}`, expected one of {names}: change --front"),
        },
        (None, [only]) => only,
        (None, _) => bail!("{file}: it has the fronts {names}: say which with --front NAME"),
    };
    Ok(Asked {
        name: lane_name(Some(&found.defense)),
        capacity: found.capacity,
        config: found.defense.clone(),
    })
}

#[derive(Serialize)]
struct Report {
    command: &'static str,
    calls: u64,
    seconds: f64,
    seed: u64,
    runs: u32,
    missing: Missing,
    reconfigured: u64,
    recorded: Column,
    again: Column,
    other: Column,
}

/// What the recording does not tell, since the recorded defence stepped in or the recording ended.
#[derive(Clone, Copy, Serialize)]
struct Missing {
    whole: u64,
    rest_of_setup: u64,
    rest_of_call: u64,
    not_seen_to_end_share: f64,
}

#[derive(Serialize)]
struct Column {
    name: String,
    capacity: u32,
    figures: BTreeMap<&'static str, Figure>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    moved: BTreeMap<&'static str, BTreeMap<&'static str, f64>>,
    classes: Vec<Named>,
    sources: Vec<Named>,
}

/// A count over the runs.
#[derive(Clone, Copy, Serialize)]
struct Figure {
    mean: f64,
    low: f64,
    high: f64,
}

#[derive(Serialize)]
struct Named {
    name: String,
    arrivals: f64,
    refused: f64,
    evicted: f64,
    complete: f64,
}

/// Figures in the order of the table, with what people read.
const FIGURES: [(&str, &str); 16] = [
    ("arrivals", "calls"),
    ("taken", "taken"),
    ("refused_overload", "refused: overload"),
    ("refused_full", "refused: full"),
    ("refused_no_victim", "refused: no victim"),
    ("refused_caller_limit", "refused: limit of the caller"),
    ("refused_source_limit", "refused: limit of the source"),
    ("evicted_waiting", "dropped while waiting"),
    ("evicted_in_call", "dropped in call"),
    ("evicted_max_duration", "dropped at the cap"),
    ("age_at_eviction_p50_s", "age when dropped, median, s"),
    ("age_at_eviction_p90_s", "age when dropped, 90%, s"),
    ("complete", "answered, ended by itself"),
    ("not_answered", "ended before the answer"),
    ("held", "held at the end"),
    ("assumed", "taken, length partly drawn"),
];

fn figure(outcome: &Outcome, key: &str) -> Option<f64> {
    let count = match key {
        "arrivals" => outcome.arrivals,
        "taken" => outcome.taken,
        "refused_overload" => outcome.refused.overload,
        "refused_full" => outcome.refused.full,
        "refused_no_victim" => outcome.refused.no_victim,
        "refused_caller_limit" => outcome.refused.caller_limit,
        "refused_source_limit" => outcome.refused.source_limit,
        "evicted_waiting" => outcome.evicted_waiting,
        "evicted_in_call" => outcome.evicted_in_call,
        "evicted_max_duration" => outcome.evicted_max_duration,
        "age_at_eviction_p50_s" => return outcome.age_at_eviction_p50_s,
        "age_at_eviction_p90_s" => return outcome.age_at_eviction_p90_s,
        "complete" => outcome.complete,
        "not_answered" => outcome.not_answered,
        "held" => outcome.held,
        "assumed" => outcome.assumed,
        "exact_verdicts" => outcome.exact_verdicts,
        _ => return None,
    };
    Some(count as f64)
}

fn figures(outcomes: &[Outcome]) -> BTreeMap<&'static str, Figure> {
    let keys = FIGURES
        .iter()
        .map(|(key, _)| *key)
        .chain(["exact_verdicts"]);
    keys.filter_map(|key| {
        let values: Vec<f64> = outcomes.iter().filter_map(|o| figure(o, key)).collect();
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some((key, Figure { mean, low, high }))
    })
    .collect()
}

impl Report {
    fn of(history: &History, asked: [&Asked; 2], answers: &[WhatIf; 2], args: &Args) -> Self {
        let [whole, rest_of_setup, rest_of_call] = history.missing();
        let (classes, sources) = history.groups();
        let [own, other] = asked;
        let [again, answer] = answers;
        Self {
            command: "replay",
            calls: history.calls() as u64,
            seconds: history.last.as_secs_f64(),
            seed: args.seed,
            runs: args.runs,
            missing: Missing {
                whole,
                rest_of_setup,
                rest_of_call,
                not_seen_to_end_share: history.unending(),
            },
            reconfigured: history.reconfigured,
            recorded: Column {
                name: own.name.clone(),
                capacity: own.capacity,
                figures: figures(&[history.recorded()]),
                moved: BTreeMap::new(),
                classes: by_class(history, &classes, 1.0),
                sources: by_source(history, &sources, 1.0),
            },
            again: Column::of(history, own, again),
            other: Column::of(history, other, answer),
        }
    }
}

impl Column {
    fn of(history: &History, asked: &Asked, answer: &WhatIf) -> Self {
        let runs = answer.outcomes.len().max(1) as f64;
        let moved = FATES.iter().zip(&answer.moved).map(|(from, row)| {
            let to = FATES.iter().zip(row);
            (*from, to.map(|(to, n)| (*to, *n as f64 / runs)).collect())
        });
        Self {
            name: asked.name.clone(),
            capacity: asked.capacity,
            figures: figures(&answer.outcomes),
            moved: moved.collect(),
            classes: by_class(history, &answer.classes, runs),
            sources: by_source(history, &answer.sources, runs),
        }
    }
}

fn by_class(history: &History, groups: &[Group], runs: f64) -> Vec<Named> {
    let name = |id: usize| {
        let id = u16::try_from(id).map(levee_policy::selective::ClassId);
        let name = id.ok().and_then(|id| history.header.config.class_name(id));
        name.unwrap_or("unknown").to_owned()
    };
    let all = groups
        .iter()
        .enumerate()
        .filter(|(_, group)| group.arrivals > 0);
    all.map(|(id, group)| Named::of(name(id), group, runs))
        .collect()
}

fn by_source(history: &History, groups: &[Group], runs: f64) -> Vec<Named> {
    let sources = history.sources();
    let all = sources.iter().zip(groups);
    all.map(|((source, _), group)| Named::of(format!("{source:016x}"), group, runs))
        .collect()
}

impl Named {
    fn of(name: String, group: &Group, runs: f64) -> Self {
        let per_run = |n: u64| n as f64 / runs;
        Self {
            name,
            arrivals: per_run(group.arrivals),
            refused: per_run(group.refused),
            evicted: per_run(group.evicted),
            complete: per_run(group.complete),
        }
    }
}

fn text(file: &str, history: &History, report: &Report) -> String {
    let mut out = String::new();
    writeln!(
        out,
        "{file}: {} calls in {}; asked {} times with seeds from {}",
        report.calls, history.last, report.runs, report.seed
    )
    .ok();
    let columns = [&report.recorded, &report.again, &report.other];
    let head = |column: &Column| format!("{}, k = {}", column.name, column.capacity);
    let mut rows = vec![
        [
            "".to_owned(),
            "recorded".to_owned(),
            "asked again".to_owned(),
            "the other".to_owned(),
        ],
        [
            "".to_owned(),
            head(columns[0]),
            head(columns[1]),
            head(columns[2]),
        ],
    ];
    for (key, label) in FIGURES {
        let cells = columns.map(|column| column.figures.get(key).copied());
        if cells.iter().flatten().any(|figure| figure.high > 0.0) {
            let [a, b, c] = cells.map(cell);
            rows.push([label.to_owned(), a, b, c]);
        }
    }
    aligned(&mut out, &rows);
    if report.runs > 1 {
        out.push_str("means over the runs; in brackets the smallest and the largest\n");
    }
    groups(
        &mut out,
        "class",
        columns.map(|column| column.classes.as_slice()),
    );
    groups(
        &mut out,
        "source",
        columns.map(|column| column.sources.as_slice()),
    );
    moved(&mut out, &report.other);
    notes(&mut out, report);
    out
}

fn cell(figure: Option<Figure>) -> String {
    match figure {
        None => "-".to_owned(),
        Some(Figure { mean, low, high }) if low == high => short(mean),
        Some(Figure { mean, low, high }) => {
            format!("{} ({}-{})", short(mean), short(low), short(high))
        }
    }
}

fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn aligned<const N: usize>(out: &mut String, rows: &[[String; N]]) {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(widths).enumerate() {
            let fill = " ".repeat(width - cell.chars().count());
            match i {
                0 => write!(line, "{cell}{fill}").ok(),
                _ => write!(line, "  {fill}{cell}").ok(),
            };
        }
        writeln!(out, "{}", line.trim_end()).ok();
    }
}

/// One group alone is the whole, and is left out.
fn groups(out: &mut String, what: &str, columns: [&[Named]; 3]) {
    let [recorded, _, other] = columns;
    if recorded.len() < 2 {
        return;
    }
    let head = [
        what,
        "calls",
        "complete",
        "dropped",
        "refused",
        "-> complete",
        "dropped",
        "refused",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for (before, after) in recorded.iter().zip(other) {
        rows.push([
            before.name.clone(),
            short(before.arrivals),
            short(before.complete),
            short(before.evicted),
            short(before.refused),
            short(after.complete),
            short(after.evicted),
            short(after.refused),
        ]);
    }
    out.push('\n');
    aligned(out, &rows);
}

/// Calls that would have fared otherwise.
fn moved(out: &mut String, other: &Column) {
    let mut lines = Vec::new();
    for (from, row) in &other.moved {
        for (to, calls) in row
            .iter()
            .filter(|(to, calls)| *to != from && **calls > 0.0)
        {
            lines.push(format!("  {} calls: {from} -> {to}", short(*calls)));
        }
    }
    if lines.is_empty() {
        out.push_str("\nno call would have fared otherwise\n");
    } else {
        writeln!(
            out,
            "\nwould have fared otherwise, on average:\n{}",
            lines.join("\n")
        )
        .ok();
    }
}

fn notes(out: &mut String, report: &Report) {
    let Missing {
        whole,
        rest_of_setup,
        rest_of_call,
        not_seen_to_end_share,
    } = report.missing;
    if whole + rest_of_setup + rest_of_call == 0 {
        out.push_str(
            "\nEvery recorded call was seen to its end: nothing here rests on an assumption.\n",
        );
    } else {
        let exact = report
            .other
            .figures
            .get("exact_verdicts")
            .map_or(0.0, |f| f.low);
        writeln!(
            out,
            "\nThe recording does not tell: all of {whole} calls, the rest of the set-up of {rest_of_setup}, how long {rest_of_call} would have lasted.\n\
             That is drawn from the recording's other calls (Kaplan-Meier): a call is taken to be as any other of its age. Of the answered\n\
             calls {:.0}% are not seen to end; one that is drawn from them stays. The first {exact:.0} verdicts do not rest on this. \"asked again\" is the\n\
             recorded defence under the same assumption: as far as it lies from \"recorded\", so far trust \"the other\".\n\
             A recording of kind = \"none\" has every call to its end, and needs no assumption.",
            not_seen_to_end_share * 100.0
        )
        .ok();
    }
    if report.reconfigured > 0 {
        writeln!(
            out,
            "The recording has {} reloads: \"asked again\" and \"the other\" keep their first configuration.",
            report.reconfigured
        )
        .ok();
    }
}
