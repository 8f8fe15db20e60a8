//! A plan as people and machines read it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use levee_policy::reroute::{
    Playbook, Range, SiteId,
    planner::{Amount, Choice, Forecast, Over, Plan, Role, Situation},
};
use serde::Serialize;
use serde_json::Value;

/// Characters in a line of a terminal that is not narrow.
const WIDTH: u16 = 120;

pub(super) struct Shown<'a> {
    pub(super) playbook: &'a Playbook,
    pub(super) situation: &'a Situation,
    pub(super) plan: &'a Plan,
    /// How many plays.
    pub(super) top: usize,
}

#[derive(Serialize)]
pub(super) struct Document<'a> {
    command: &'static str,
    current: &'a str,
    carries: bool,
    offered: Range,
    capacity: f64,
    shortfall: Option<f64>,
    next_line: Vec<&'a str>,
    plays: usize,
    choices: Vec<ChoiceOut<'a>>,
}

#[derive(Serialize)]
struct ChoiceOut<'a> {
    name: &'a str,
    over: Over,
    over_besides: Over,
    kept: Range,
    changes: usize,
    headroom: f64,
    flaws: Value,
    sites: BTreeMap<&'a str, SiteOut>,
    lost: Value,
    why: Option<String>,
}

#[derive(Serialize)]
struct SiteOut {
    capacity: f64,
    #[serde(flatten)]
    forecast: Forecast,
}

impl Shown<'_> {
    pub(super) fn document(&self) -> Result<Document<'_>> {
        let choices = self.plan.choices.iter().take(self.top);
        let choices: Result<Vec<ChoiceOut<'_>>> =
            choices.map(|choice| self.choice(choice)).collect();
        Ok(Document {
            command: "anycast plan",
            current: self.name(self.situation.current),
            carries: self.plan.carries(),
            offered: self.plan.offered,
            capacity: self.plan.capacity,
            shortfall: self.plan.shortfall(),
            next_line: self
                .plan
                .next_line
                .iter()
                .map(|site| self.site(*site))
                .collect(),
            plays: self.plan.choices.len(),
            choices: choices?,
        })
    }

    fn choice(&self, choice: &Choice) -> Result<ChoiceOut<'_>> {
        let sites = self.playbook.sites();
        let site_out = |site: SiteId| SiteOut {
            capacity: self.situation.capacity[site.index()],
            forecast: choice.sites[site.index()],
        };
        Ok(ChoiceOut {
            name: self.name(choice.play),
            over: choice.over,
            over_besides: choice.over_besides,
            kept: choice.kept,
            changes: choice.changes,
            headroom: choice.headroom,
            flaws: self.named(serde_json::to_value(&choice.flaws)?),
            sites: sites
                .ids()
                .map(|site| (sites.name(site), site_out(site)))
                .collect(),
            lost: self.named(serde_json::to_value(choice.lost)?),
            why: choice.lost.map(|lost| lost.text(sites)),
        })
    }

    /// With the names of sites instead of their numbers.
    fn named(&self, value: Value) -> Value {
        match value {
            Value::Array(all) => all.into_iter().map(|value| self.named(value)).collect(),
            Value::Object(map) => {
                let entry = |(key, value): (String, Value)| {
                    let number = value.as_u64().and_then(|number| u8::try_from(number).ok());
                    let value = match number {
                        Some(number) if key == "site" => self.site(SiteId(number)).into(),
                        _ => self.named(value),
                    };
                    (key, value)
                };
                map.into_iter().map(entry).collect()
            }
            other => other,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let Plan {
            offered, capacity, ..
        } = self.plan;
        let current = self.name(self.situation.current);
        writeln!(
            out,
            "{} is offered under {current}; all sites together carry {}",
            told(*offered),
            Amount(*capacity)
        )
        .ok();
        writeln!(out, "{}\n", self.verdict()).ok();
        writeln!(out, "{}\n", self.sites()).ok();
        writeln!(out, "{}", self.plays()).ok();
        let more = self.plan.choices.len().saturating_sub(self.top);
        if more > 0 {
            let top = self.plan.choices.len();
            writeln!(out, "and {more} more: --top {top} shows all").ok();
        }
        out
    }

    fn verdict(&self) -> String {
        let best = self.plan.best();
        let name = self.name(best.play);
        let doing = if best.play == self.situation.current {
            "stay with"
        } else {
            "deploy"
        };
        let mut text = match best.over {
            Over::Never => format!(
                "{doing} {name}: no site is over its capacity, even if the attack is concentrated"
            ),
            Over::Concentrated => {
                format!(
                    "{doing} {name}: no site is over its capacity, unless the attack is concentrated where {name} moves it"
                )
            }
            Over::Worst => format!(
                "{doing} {name}: no site is likely over its capacity; at the upper end of the load some are"
            ),
            Over::Likely => {
                let kept = percent(best.kept.likely);
                let sites: Vec<&str> = self
                    .plan
                    .next_line
                    .iter()
                    .map(|site| self.site(*site))
                    .collect();
                format!(
                    "no play keeps every site within its capacity; {name} keeps {kept} of the normal load alive\n\
                     these sites need their next line of defence, the thinner or SeVen: {}",
                    sites.join(", ")
                )
            }
        };
        if let Some(short) = self.plan.shortfall() {
            write!(
                text,
                "\nthe load is {} more than all sites can carry: no routing helps against that",
                Amount(short)
            )
            .ok();
        }
        if let Some(flaw) = best.flaws.first() {
            write!(
                text,
                "\nnot to be relied on: {name} {}",
                flaw.text(self.playbook.sites())
            )
            .ok();
        }
        text
    }

    fn sites(&self) -> Table {
        let best = self.plan.best();
        let now = self
            .plan
            .choices
            .iter()
            .find(|choice| choice.play == self.situation.current);
        let mut table = table([
            "site",
            "can carry",
            "now",
            self.name(best.play),
            "if concentrated",
            "",
        ]);
        for site in self.playbook.sites().ids() {
            let forecast = &best.sites[site.index()];
            table.add_row([
                self.site(site).to_owned(),
                Amount(self.situation.capacity[site.index()]).to_string(),
                now.map_or_else(String::new, |now| told(now.sites[site.index()].load)),
                told(forecast.load),
                format!("up to {}", Amount(forecast.concentrated.high)),
                role(forecast).to_owned(),
            ]);
        }
        for column in 1..=4 {
            right(&mut table, column);
        }
        table
    }

    fn plays(&self) -> Table {
        let mut table = table([
            "",
            "play",
            "over capacity",
            "keeps",
            "changes",
            "why not before",
        ]);
        for (i, choice) in self.plan.choices.iter().take(self.top).enumerate() {
            let over: Vec<&str> = choice
                .sites_over(choice.over)
                .map(|site| self.site(site))
                .collect();
            let over = match choice.over {
                Over::Never => "none".to_owned(),
                Over::Likely => over.join(" "),
                Over::Worst => format!("{} at worst", over.join(" ")),
                Over::Concentrated => format!("{} if concentrated", over.join(" ")),
            };
            let why = choice
                .lost
                .map_or_else(String::new, |lost| lost.text(self.playbook.sites()));
            table.add_row([
                (i + 1).to_string(),
                self.name(choice.play).to_owned(),
                over,
                percent(choice.kept.likely),
                choice.changes.to_string(),
                why,
            ]);
        }
        for column in [0, 3, 4] {
            right(&mut table, column);
        }
        table
    }

    fn name(&self, play: usize) -> &str {
        &self.playbook.plays()[play].routing.name
    }

    fn site(&self, site: SiteId) -> &str {
        self.playbook.sites().name(site)
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(WIDTH);
    table.set_header(header);
    table
}

fn right(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn role(forecast: &Forecast) -> &'static str {
    match forecast.role {
        Role::Carries => "",
        Role::Super => "carries most",
        Role::Shut => "shut",
        Role::Absorbs => "absorbs",
        Role::Over => "over",
        Role::Down => "down",
    }
}

/// `85,000` or `85,000 (80,000 to 95,000)`.
fn told(range: Range) -> String {
    let likely = Amount(range.likely);
    if range.low == range.high {
        likely.to_string()
    } else if range.high.is_finite() {
        format!("{likely} ({} to {})", Amount(range.low), Amount(range.high))
    } else {
        format!("{likely} ({} or more)", Amount(range.low))
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
