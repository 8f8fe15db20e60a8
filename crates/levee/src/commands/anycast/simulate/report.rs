//! What is printed of a prediction.

use levee_anycast::figures::thousands;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use levee_anycast::blocks::Blocks;
use levee_anycast::graph::AsGraph;
use levee_anycast::predict::{Certainty, DeploymentFile, Prediction};
use levee_policy::reroute::{Play, Playbook, SiteId, Sites};
use serde::Serialize;
use serde_json::Value;

/// The document of `--json`: the playbook (with candidate sites, the one that they are in), and what belongs to it.
#[derive(Serialize)]
pub(crate) struct Document {
    command: &'static str,
    graph: Graph,
    blocks: Origins,
    /// In the unit of the loads, where the file says it.
    capacity: BTreeMap<String, f64>,
    #[serde(flatten)]
    playbook: Shown,
    /// Without the candidate sites, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Shown>,
    seconds: f64,
}

#[derive(Serialize)]
struct Graph {
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    ases: usize,
    transit_links: usize,
    peer_links: usize,
}

#[derive(Serialize)]
struct Origins {
    source: String,
    total: u64,
    ases: usize,
    /// Of ASes that the graph lacks.
    outside: u64,
}

/// A playbook as its own JSON, with a `certainty` in each configuration.
struct Shown {
    playbook: Playbook,
    certainty: Vec<Certainty>,
}

#[derive(Serialize)]
struct CertaintyOut {
    /// Of the blocks that reach a site.
    share: f64,
    certain: BTreeMap<String, u64>,
    on_tie: BTreeMap<String, u64>,
    on_order: BTreeMap<String, u64>,
    possible: BTreeMap<String, u64>,
    /// Whether the order was looked at.
    ordered: bool,
}

impl Document {
    pub(crate) fn new(
        file: &DeploymentFile,
        (graph_source, seed): (String, Option<u64>),
        graph: &AsGraph,
        (blocks_source, blocks): (String, &Blocks),
        before: Prediction,
        after: Option<Prediction>,
        seconds: f64,
    ) -> Self {
        let outside = before.outside;
        let (last, first) = match after {
            Some(after) => (after, Some(before)),
            None => (before, None),
        };
        let capacity = file.sites(true).filter_map(|site| {
            let name = site.site.name.clone();
            Some((name, site.capacity?))
        });
        Self {
            command: "anycast simulate",
            graph: Graph {
                source: graph_source,
                seed,
                ases: graph.len(),
                transit_links: graph.transit_links(),
                peer_links: graph.peer_links(),
            },
            blocks: Origins {
                source: blocks_source,
                total: blocks.total(),
                ases: blocks.counts().len(),
                outside,
            },
            capacity: capacity.collect(),
            playbook: Shown::from(last),
            before: first.map(Shown::from),
            seconds,
        }
    }

    /// A table of all configurations; with candidate sites, before and after.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let Self { graph, blocks, .. } = self;
        let seed = graph
            .seed
            .map_or(String::new(), |seed| format!(", seed {seed}"));
        writeln!(
            text,
            "graph   {} ASes, {} transit links, {} peerings ({}{seed})",
            thousands(graph.ases as u64),
            thousands(graph.transit_links as u64),
            thousands(graph.peer_links as u64),
            graph.source
        )
        .ok();
        writeln!(
            text,
            "blocks  {} of {} ASes ({}); {} of them of ASes that the graph lacks",
            thousands(blocks.total),
            thousands(blocks.ases as u64),
            blocks.source,
            thousands(blocks.outside)
        )
        .ok();
        match &self.before {
            None => writeln!(text, "\n{}", self.playbook.table()).ok(),
            Some(before) => writeln!(text, "\n{}", self.playbook.beside(before)).ok(),
        };
        text.push_str(LEGEND);
        if self.before.is_some() {
            text.push_str(LEGEND_BEFORE);
        }
        let ineffective = self.playbook.ineffective();
        if !ineffective.is_empty() {
            writeln!(
                text,
                "no effect beyond the length of the path: {}",
                ineffective.join(", ")
            )
            .ok();
        }
        let plays = self.playbook.playbook.plays().len();
        writeln!(text, "{plays} configurations in {:.2} s", self.seconds).ok();
        text
    }
}

const LEGEND: &str = "\
sites    % of the blocks (with --load: of the load) that reach a site
none     % of all blocks without a route, or of ASes that the graph lacks
certain  % of the blocks that reach their site however ASes break ties     order  % seen to hang on the order of announcements
";

const LEGEND_BEFORE: &str = "\
a > b    without and with the sites that are not built, while the others announce the same; - where that was not asked for
";

impl From<Prediction> for Shown {
    fn from(prediction: Prediction) -> Self {
        Self {
            playbook: prediction.playbook,
            certainty: prediction.certainty,
        }
    }
}

impl Shown {
    fn table(&self) -> Table {
        let sites = self.playbook.sites();
        let mut table = empty(sites);
        for (play, row) in self.playbook.plays().iter().enumerate() {
            let shares = sites.ids().map(|site| percent(row.share(site)));
            table.add_row(self.row(play, shares.collect()));
        }
        right(table)
    }

    /// Each configuration with that of `before` in which the sites that are built announce the same.
    fn beside(&self, before: &Self) -> Table {
        let sites = self.playbook.sites();
        let mut table = empty(sites);
        for (play, row) in self.playbook.plays().iter().enumerate() {
            let old = before.same(sites, row);
            let cell = |site: SiteId| {
                let new = percent(row.share(site));
                let known = before.playbook.sites().find(sites.name(site));
                match old.zip(known) {
                    Some((old, known)) => format!("{} > {new}", percent(old.share(known))),
                    None => format!("- > {new}"),
                }
            };
            table.add_row(self.row(play, sites.ids().map(cell).collect()));
        }
        right(table)
    }

    /// The play in which the sites of this playbook announce what they do in a play of other `sites`, these among them.
    fn same(&self, sites: &Sites, play: &Play) -> Option<&Play> {
        let all = play.routing.announcements.as_ref()?;
        let names = self.playbook.sites().names();
        let ours = names.map(|name| Some(all[sites.find(name)?.index()].clone()));
        let ours: Option<Vec<_>> = ours.collect();
        let mut plays = self.playbook.plays().iter();
        plays.find(|known| known.routing.announcements == ours)
    }

    fn row(&self, play: usize, shares: Vec<String>) -> Vec<String> {
        let of = &self.playbook.plays()[play];
        let certainty = &self.certainty[play];
        let known = of.known();
        let part = |blocks: u64, all: u64| {
            if all == 0 {
                0.0
            } else {
                blocks as f64 / all as f64
            }
        };
        let order = if certainty.ordered {
            percent(part(certainty.on_order.iter().sum(), known))
        } else {
            String::new()
        };
        let mut row = vec![of.routing.name.clone()];
        row.extend(shares);
        row.push(percent(part(of.unknown, of.unknown + known)));
        row.push(percent(certainty.share()));
        row.push(order);
        row
    }

    fn ineffective(&self) -> Vec<&str> {
        let plays = self.playbook.plays().iter();
        let ineffective = plays.filter(|play| play.ineffective);
        ineffective.map(|play| play.routing.name.as_str()).collect()
    }
}

fn empty(sites: &Sites) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    let header = ["configuration"].into_iter().chain(sites.names());
    table.set_header(header.chain(["none", "certain", "order"]));
    table
}

fn right(mut table: Table) -> Table {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

impl Serialize for Shown {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error as _;
        let mut value = serde_json::to_value(&self.playbook).map_err(S::Error::custom)?;
        let configurations = value["configurations"].as_array_mut();
        let sites = self.playbook.sites();
        let by_site = |blocks: &[u64]| -> BTreeMap<String, u64> {
            let names = sites.names().map(str::to_owned);
            names.zip(blocks.iter().copied()).collect()
        };
        for (configuration, certainty) in configurations.into_iter().flatten().zip(&self.certainty)
        {
            let out = CertaintyOut {
                share: certainty.share(),
                certain: by_site(&certainty.certain),
                on_tie: by_site(&certainty.on_tie),
                on_order: by_site(&certainty.on_order),
                possible: by_site(&certainty.possible),
                ordered: certainty.ordered,
            };
            configuration["certainty"] = serde_json::to_value(out).map_err(S::Error::custom)?;
        }
        Value::serialize(&value, serializer)
    }
}
