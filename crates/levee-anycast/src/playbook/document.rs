//! What machines read of a playbook: the playbook itself, which other commands read again, with its tables beside it.

use std::collections::BTreeMap;

use levee_policy::reroute::{Playbook, SiteId};
use serde::Serialize;

use super::judge::Judgement;
use super::tables::{BINS, Extreme, Stuck, Tables, Unit};

/// One JSON document.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    command: &'static str,
    unit: Unit,
    baseline: &'a str,
    #[serde(flatten)]
    playbook: &'a Playbook,
    bins: BTreeMap<&'a str, [Vec<&'a str>; BINS]>,
    reach: BTreeMap<&'a str, Reach<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stuck: Option<BTreeMap<&'a str, Stuck>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    judgement: &'a [Judgement],
}

#[derive(Debug, Serialize)]
struct Reach<'a> {
    baseline: f64,
    floor: At<'a>,
    ceiling: At<'a>,
    options: usize,
    /// `[low, high]` in percent.
    empty: Vec<[usize; 2]>,
}

#[derive(Debug, Serialize)]
struct At<'a> {
    share: f64,
    configuration: &'a str,
}

impl<'a> Document<'a> {
    /// Of a playbook, its tables and the judgements of its poisons.
    #[must_use]
    pub fn new(playbook: &'a Playbook, tables: &Tables, judgement: &'a [Judgement]) -> Self {
        let name = |play: usize| playbook.plays()[play].routing.name.as_str();
        let at = |extreme: Extreme| At {
            share: extreme.share,
            configuration: name(extreme.play),
        };
        let sites = || {
            playbook
                .sites()
                .ids()
                .map(|site| (playbook.sites().name(site), site))
        };
        let bins = |site: SiteId| {
            let bins = &tables.bins[site.index()];
            std::array::from_fn(|bin| bins[bin].iter().map(|play| name(*play)).collect())
        };
        let reach = |site: SiteId| {
            let reach = &tables.reach[site.index()];
            Reach {
                baseline: reach.baseline,
                floor: at(reach.floor),
                ceiling: at(reach.ceiling),
                options: reach.options,
                empty: reach
                    .empty
                    .iter()
                    .map(|bin| [bin * BINS, (bin + 1) * BINS])
                    .collect(),
            }
        };
        Self {
            command: "anycast playbook show",
            unit: tables.unit,
            baseline: name(0),
            playbook,
            bins: sites().map(|(name, site)| (name, bins(site))).collect(),
            reach: sites().map(|(name, site)| (name, reach(site))).collect(),
            stuck: tables.stuck.as_ref().map(|stuck| {
                sites()
                    .map(|(name, site)| (name, stuck[site.index()]))
                    .collect()
            }),
            judgement,
        }
    }
}
