//! What the responder does, for people and for machines.

use std::fmt::Write as _;

use anyhow::Result;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use levee_policy::Time;
use levee_policy::reroute::planner::Amount;
use levee_policy::reroute::{Playbook, Range, Responder, SiteId, Step, Why};
use serde::Serialize;

use crate::output;

pub(super) struct View<'a> {
    playbook: &'a Playbook,
    capacities: &'a [f64],
    json: bool,
    /// The time of the first line: others are told from there.
    start: Option<Time>,
    /// What was estimated last.
    offered: Vec<Range>,
    carries: Vec<f64>,
}

/// One line for machines.
#[derive(Serialize)]
struct Line<'a> {
    command: &'static str,
    /// In seconds since 1970.
    time: f64,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    play: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sites: Vec<Site<'a>>,
    step: &'a Step,
}

/// What a play does to a site.
#[derive(Serialize)]
struct Site<'a> {
    name: &'a str,
    capacity: f64,
    carries: f64,
    offered: Range,
    predicted: Range,
    over: bool,
}

impl<'a> View<'a> {
    pub(super) fn new(playbook: &'a Playbook, capacities: &'a [f64], json: bool) -> Self {
        Self {
            playbook,
            capacities,
            json,
            start: None,
            offered: Vec::new(),
            carries: capacities.to_vec(),
        }
    }

    pub(super) fn resumed(&mut self, at: Time, responder: &Responder) -> Result<()> {
        let deployed = self.name(responder.deployed());
        let text = match responder.pending() {
            Some(play) => format!(
                "goes on from the journal; {} is ordered again",
                self.name(play)
            ),
            None => format!("goes on from the journal; {deployed} is announced"),
        };
        if self.json {
            output::note(text);
            return Ok(());
        }
        let line = format!("{}  {text}\n", self.clock(at));
        output::text(&line)
    }

    pub(super) fn step(&mut self, at: Time, step: &Step) -> Result<()> {
        if let Step::Estimated {
            offered, carries, ..
        } = step
        {
            self.offered.clone_from(offered);
            self.carries.clone_from(carries);
        }
        let sites = self.sites(step);
        let text = self.text(step);
        if self.json {
            return output::json(&Line {
                command: "anycast respond",
                time: at.as_secs_f64(),
                text,
                play: play_of(step).map(|play| self.name(play)),
                sites,
                step,
            });
        }
        // A person reads the estimate in the tables of the decisions that rest on it.
        if matches!(step, Step::Estimated { .. }) {
            return Ok(());
        }
        let mut out = format!("{}  {text}\n", self.clock(at));
        if !sites.is_empty() {
            writeln!(out, "{}", table(&sites))?;
        }
        output::text(&out)
    }

    pub(super) fn end(&self, responder: &Responder) -> Result<()> {
        if self.json {
            return Ok(());
        }
        let attacked = if responder.is_attacked() {
            "an attack is on"
        } else {
            "no attack"
        };
        let deployed = self.name(responder.deployed());
        let next = responder.next_line_sites();
        let next = if next.is_empty() {
            String::new()
        } else {
            format!(
                "; the next line of defence is needed at {}",
                self.names(next)
            )
        };
        output::text(&format!(
            "End: {attacked}, {deployed} is announced{next}.\n"
        ))
    }

    fn name(&self, play: usize) -> &'a str {
        let play = self.playbook.plays().get(play);
        play.map_or("?", |play| play.routing.name.as_str())
    }

    fn names(&self, sites: &[SiteId]) -> String {
        let names = sites.iter().map(|site| self.playbook.sites().name(*site));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Hours, minutes and seconds since the first line.
    fn clock(&mut self, at: Time) -> String {
        let start = *self.start.get_or_insert(at);
        let seconds = (at - start).as_millis() / 1_000;
        format!(
            "{:02}:{:02}:{:02}",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60
        )
    }

    fn sites(&self, step: &Step) -> Vec<Site<'a>> {
        let Step::Deploying {
            predicted, over, ..
        } = step
        else {
            return Vec::new();
        };
        let sites = self.playbook.sites().ids().zip(predicted);
        sites
            .map(|(site, predicted)| Site {
                name: self.playbook.sites().name(site),
                capacity: self.capacities[site.index()],
                carries: self.carries[site.index()],
                offered: self.offered.get(site.index()).copied().unwrap_or_default(),
                predicted: *predicted,
                over: over.contains(&site),
            })
            .collect()
    }

    fn text(&self, step: &Step) -> String {
        match step {
            Step::Level { site, level } => format!(
                "{} is at level {}",
                self.names(&[*site]),
                level.as_deref().unwrap_or("none")
            ),
            Step::Silent { site } => format!(
                "{} does not report any more: nothing more is moved there",
                self.names(&[*site])
            ),
            Step::Heard { site } => format!("{} reports again", self.names(&[*site])),
            Step::AttackBegan { sites } => format!("attack at {}", self.names(sites)),
            Step::Estimated { offered, .. } => format!("offered: {}", self.loads(offered)),
            Step::Waiting { play, until } => format!(
                "{} is best, and has to wait: {}",
                self.name(*play),
                until.reason
            ),
            Step::Deploying {
                play, why, second, ..
            } => {
                let why = match why {
                    Why::Mitigate => "the best for this load",
                    Why::RollBack => "the attack is over",
                    Why::Forced => "the operator's will",
                };
                let second = second.as_ref().map_or_else(String::new, |second| {
                    format!("; second is {}: {}", self.name(second.play), second.why)
                });
                format!("deploy {}: {why}{second}", self.name(*play))
            }
            Step::Deployed { play } => format!("{} is announced; routes settle", self.name(*play)),
            Step::DeployFailed { play, reason, .. } => {
                format!("{} could not be deployed: {reason}", self.name(*play))
            }
            Step::GaveUp { failures, .. } => {
                format!("{failures} deployments failed: have a look; it is tried again later")
            }
            Step::Judged {
                play,
                mitigated: true,
                ..
            } => format!("{} works: no site is over", self.name(*play)),
            Step::Judged {
                play, wrong, over, ..
            } => {
                let wrong = if *wrong {
                    "; the playbook was wrong about it, it is not used again in this attack"
                } else {
                    ""
                };
                format!(
                    "{} does not do: {} over{wrong}",
                    self.name(*play),
                    self.names(over)
                )
            }
            Step::NextLine { sites } => format!(
                "no play carries it: the next line of defence (thinner or SeVen) is needed at {}",
                self.names(sites)
            ),
            Step::NextLineOver => "the next line of defence is not needed any more".to_owned(),
            Step::AttackOver => "the attack is over".to_owned(),
            Step::Held => "held by the operator".to_owned(),
            Step::Forced { play } => format!("the operator wants {}", self.name(*play)),
            Step::Released => "released by the operator".to_owned(),
            Step::Refused { play } => format!("there is no configuration {play}"),
            _ => format!("{step:?}"),
        }
    }

    fn loads(&self, loads: &[Range]) -> String {
        let sites = self.playbook.sites().names().zip(loads);
        let each = sites.map(|(name, load)| format!("{name} {}", range(*load)));
        each.collect::<Vec<_>>().join(", ")
    }
}

fn play_of(step: &Step) -> Option<usize> {
    match step {
        Step::Waiting { play, .. }
        | Step::Deploying { play, .. }
        | Step::Deployed { play }
        | Step::DeployFailed { play, .. }
        | Step::Judged { play, .. }
        | Step::Forced { play } => Some(*play),
        _ => None,
    }
}

fn range(range: Range) -> String {
    if range.high.is_finite() {
        format!(
            "{} ({} to {})",
            Amount(range.likely),
            Amount(range.low),
            Amount(range.high)
        )
    } else {
        format!("at least {}", Amount(range.low))
    }
}

fn table(sites: &[Site<'_>]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(["site", "capacity", "offered now", "then", ""]);
    for site in sites {
        let capacity = if site.carries < site.capacity {
            format!(
                "{} (carries {})",
                Amount(site.capacity),
                Amount(site.carries)
            )
        } else {
            Amount(site.capacity).to_string()
        };
        table.add_row([
            site.name.to_owned(),
            capacity,
            range(site.offered),
            range(site.predicted),
            if site.over { "over" } else { "" }.to_owned(),
        ]);
    }
    for column in 1..4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
