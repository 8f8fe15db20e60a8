//! The file in which a person says what is deployed: sites, links, what upstreams offer, filters, what is to be tried.
//!
//! `docs/anycast-predict.md` has every key. Unknown ones are refused, and every problem has file, line, column and remedy.

mod raw;

use std::collections::BTreeMap;

use levee_config::{Document, Problem, Problems};
use levee_policy::reroute::candidates::{self, CommunityTable, Menu};
use levee_policy::reroute::{Asn, Limits, PATH_LENGTH_MAX, Routing, Sites};

use self::raw::{RawBlocks, RawFile, RawFilters, RawGraph, RawSite};
use crate::blocks::{Family, Unit};
use crate::graph::AsGraph;
use crate::graph::generate::{ASES_MAX, ASES_MIN};
use crate::simulate::{Deployment, Link, LinkKind, Policies, Site};

/// A deployment file, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct DeploymentFile {
    file: String,
    text: String,
    origin: Asn,
    sites: Vec<FileSite>,
    menu: Menu,
    /// Where the graph is from; `None`: the file does not say.
    pub graph: Option<GraphSource>,
    /// Where the blocks are from; `None`: those of the generated graph, or one block for each AS.
    pub blocks: Option<BlocksSource>,
    /// The name of a file of loads by AS.
    pub load: Option<String>,
    /// Filters, ties, and what the upstreams offer.
    pub policies: Policies,
}

/// A site of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSite {
    /// Its name and links.
    pub site: Site,
    /// The load that it carries, in the unit of the loads.
    pub capacity: Option<f64>,
    /// Not built: only in the playbook after.
    pub candidate: bool,
}

/// Where a graph is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphSource {
    /// A file of AS relationships.
    File(String),
    /// [Generated](crate::graph::generate).
    Generate {
        /// How many ASes.
        ases: usize,
        /// Of the generator.
        seed: u64,
    },
}

/// Where blocks are from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlocksSource {
    /// The file's name.
    pub file: String,
    /// What a CSV without a header counts.
    pub unit: Unit,
    /// Which blocks.
    pub family: Family,
}

impl DeploymentFile {
    /// Reads a file of this name and text.
    ///
    /// # Errors
    ///
    /// All that is wrong with it, as far as it can be told without the graph.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problems> {
        let document = Document::parse(file, text)?;
        let raw: RawFile = document.read("")?;
        let mut problems = Vec::new();
        check_sites(&document, &raw.site, &mut problems);
        check_numbers(&document, &raw, &mut problems);
        Problems::check(problems)?;
        let RawFilters { seed, .. } = raw.filters;
        let policies = Policies {
            tie: raw.filters.tie.tie(),
            loops_taken: raw.filters.loops_taken.set(seed),
            tier1_filter: raw.filters.tier1.set(seed),
            path_max_transit: raw.filters.path_max_transit,
            path_max_edge: raw.filters.path_max_edge,
            communities: raw.communities.clone(),
            communities_stripped: raw.filters.communities_stripped.set(seed),
        };
        let menu = Menu {
            prepend_max: raw.candidates.prepend_max,
            negative: raw.candidates.negative,
            withdraw: raw.candidates.withdraw,
            pairs: raw.candidates.pairs,
            selective: raw.candidates.selective,
            poison: raw.candidates.poison,
            communities: if raw.candidates.communities {
                raw.communities
            } else {
                CommunityTable::default()
            },
            neighbours: BTreeMap::new(),
            limits: Limits::default(),
        };
        let read = Self {
            file: file.to_owned(),
            text: text.to_owned(),
            origin: raw.origin,
            sites: raw.site.into_iter().map(FileSite::from).collect(),
            menu,
            graph: raw.graph.map(GraphSource::from),
            blocks: raw.blocks.map(BlocksSource::from),
            load: raw.load,
            policies,
        };
        read.routings(true).map_err(|error| {
            let place = document.problem("candidates", error.to_string(), "", "try less at once");
            Problems::from(place)
        })?;
        Ok(read)
    }

    /// The sites: those that are built and, if they are wanted, the candidates.
    pub fn sites(&self, candidates: bool) -> impl Iterator<Item = &FileSite> {
        self.sites
            .iter()
            .filter(move |site| candidates || !site.candidate)
    }

    /// Whether there is a site that is not built.
    #[must_use]
    pub fn has_candidates(&self) -> bool {
        self.sites.iter().any(|site| site.candidate)
    }

    /// Adds a candidate, which the file does not name.
    ///
    /// # Errors
    ///
    /// With a name that a site has, or that no site may have.
    pub fn add_candidate(&mut self, site: Site) -> Result<(), levee_policy::ConfigError> {
        let names = self.sites.iter().map(|known| known.site.name.as_str());
        Sites::new(names.chain([site.name.as_str()]))?;
        self.sites.push(FileSite {
            site,
            capacity: None,
            candidate: true,
        });
        Ok(())
    }

    /// What is simulated.
    #[must_use]
    pub fn deployment(&self, candidates: bool) -> Deployment {
        Deployment {
            origin: self.origin,
            sites: self
                .sites(candidates)
                .map(|site| site.site.clone())
                .collect(),
        }
    }

    /// What is to be tried, the baseline first.
    ///
    /// # Errors
    ///
    /// As [`candidates::candidates`].
    pub fn routings(&self, candidates: bool) -> Result<Vec<Routing>, levee_policy::ConfigError> {
        let sites = Sites::new(self.sites(candidates).map(|site| site.site.name.as_str()))?;
        let neighbours = self.sites(candidates).map(|site| {
            let links = site.site.links.iter().map(|link| link.neighbour);
            (site.site.name.clone(), links.collect())
        });
        let menu = Menu {
            neighbours: neighbours.collect(),
            ..self.menu.clone()
        };
        candidates::candidates(&sites, &menu)
    }

    /// Whether the graph has all ASes that the file names as neighbours, upstreams and poisons.
    ///
    /// # Errors
    ///
    /// All that it lacks, each with its line.
    pub fn check(&self, graph: &AsGraph) -> Result<(), Problems> {
        let document = Document::parse(&self.file, &self.text)?;
        let mut problems = Vec::new();
        let mut look = |key: String, asn: Asn| {
            if graph.find(asn).is_none() {
                problems.push(document.problem(
                    &key,
                    format!("AS{asn}, which is not in the graph"),
                    format!("one of its {} ASes", graph.len()),
                    "name another, or take a graph that has it, such as a newer one",
                ));
            }
        };
        for (s, site) in self.sites.iter().enumerate() {
            for (l, link) in site.site.links.iter().enumerate() {
                look(format!("site[{s}].links[{l}].as"), link.neighbour);
            }
        }
        for (p, asn) in self.menu.poison.iter().enumerate() {
            look(format!("candidates.poison[{p}]"), *asn);
        }
        Problems::check(problems)
    }
}

impl From<RawSite> for FileSite {
    fn from(raw: RawSite) -> Self {
        let links = raw.links.into_iter().map(|link| Link {
            neighbour: link.neighbour,
            kind: link.kind,
        });
        Self {
            site: Site {
                name: raw.name,
                asn: raw.asn,
                links: links.collect(),
            },
            capacity: raw.capacity,
            candidate: raw.candidate,
        }
    }
}

impl From<RawGraph> for GraphSource {
    fn from(raw: RawGraph) -> Self {
        match raw {
            RawGraph::File(file) => Self::File(file),
            RawGraph::Generate { ases, seed } => Self::Generate { ases, seed },
        }
    }
}

impl From<RawBlocks> for BlocksSource {
    fn from(raw: RawBlocks) -> Self {
        let RawBlocks { file, unit, family } = raw;
        Self { file, unit, family }
    }
}

fn check_sites(document: &Document<'_>, sites: &[RawSite], problems: &mut Vec<Problem>) {
    if sites.iter().all(|site| site.candidate) {
        problems.push(document.problem(
            "site",
            "no site that is built",
            "at least one `[[site]]` without `candidate = true`",
            "say which sites there are today",
        ));
    }
    for (s, site) in sites.iter().enumerate() {
        let key = format!("site[{s}]");
        let name = &site.name;
        let same = |other: &RawSite| other.name == *name;
        if sites[..s].iter().any(same) {
            problems.push(document.problem(
                &format!("{key}.name"),
                format!("{name:?}, which another site has"),
                "names that differ",
                "give one of them another name",
            ));
        } else if let Err(error) = Sites::new([name.as_str()]) {
            problems.push(document.problem(
                &format!("{key}.name"),
                format!("{name:?}"),
                error.expected,
                "give it a short name, such as AMS",
            ));
        }
        if site
            .capacity
            .is_some_and(|load| !(load.is_finite() && load > 0.0))
        {
            problems.push(document.problem(
                &format!("{key}.capacity"),
                "no load",
                "a number above 0, in the unit of the loads",
                "write what the site carries, or leave the key out",
            ));
        }
        if site.links.is_empty() {
            problems.push(document.problem(
                &format!("{key}.links"),
                "no neighbour",
                "at least one",
                "write its upstream, as in `links = [{ as = 64500 }]`",
            ));
        }
        for (l, link) in site.links.iter().enumerate() {
            let earlier = &site.links[..l];
            if earlier
                .iter()
                .any(|other| other.neighbour == link.neighbour)
            {
                problems.push(document.problem(
                    &format!("{key}.links[{l}].as"),
                    format!("AS{} a second time", link.neighbour),
                    "each neighbour of a site once",
                    "take one of the two out",
                ));
            }
        }
    }
}

fn check_numbers(document: &Document<'_>, raw: &RawFile, problems: &mut Vec<Problem>) {
    if let Some(RawGraph::Generate { ases, .. }) = raw.graph
        && !(ASES_MIN..=ASES_MAX).contains(&ases)
    {
        problems.push(document.problem(
            "graph.generate.ases",
            ases.to_string(),
            format!("{ASES_MIN} to {ASES_MAX}"),
            "5,000 is enough for most questions; the Internet of 2026 has some 75,000",
        ));
    }
    let prepend_max = raw.candidates.prepend_max;
    if usize::from(prepend_max) >= PATH_LENGTH_MAX {
        problems.push(document.problem(
            "candidates.prepend_max",
            prepend_max.to_string(),
            format!("less than {PATH_LENGTH_MAX}, the longest path that neighbours let through"),
            "past 3 to 5 prepends hardly anything moves",
        ));
    }
    for (key, longest) in [
        ("filters.path_max_transit", raw.filters.path_max_transit),
        ("filters.path_max_edge", raw.filters.path_max_edge),
    ] {
        if longest == 0 {
            problems.push(document.problem(
                key,
                "0",
                "1 or more ASes",
                "leave the key out for what the paper says: 50, and 10 at the edge",
            ));
        }
    }
    for upstream in raw.communities.upstreams() {
        let sold = |site: &RawSite| {
            let of =
                |link: &raw::RawLink| link.neighbour == upstream && link.kind == LinkKind::Transit;
            site.links.iter().any(of)
        };
        if !raw.site.iter().any(sold) {
            problems.push(document.problem(
                &format!("communities.{upstream}"),
                format!("AS{upstream}, of which no site buys transit"),
                "an upstream of a site",
                "take the table out, or add the link",
            ));
        }
    }
}

#[cfg(test)]
mod tests;
