//! A playbook before anything is announced: the catchments of the [simulation](crate::simulate), weighed by blocks.
//!
//! [`predict`] gives a [`Playbook`] of the form that measurements give, with classes: ASes that reach the same sites in all plays.
//! Beside it stands how certain each figure is ([`Certainty`]).
//!
//! What it leaves out is what the simulation and the blocks leave out: an AS is one point that reaches one site with all of its
//! blocks, and nobody knows which of them answer, or attack. `docs/anycast-predict.md` says what a prediction is worth.

mod classes;
mod file;
mod loads;

use std::num::NonZeroUsize;

use levee_policy::ConfigError;
use levee_policy::reroute::candidates::control_of;
use levee_policy::reroute::{Asn, Classes, Play, Playbook, Routing, SiteId};

pub use self::file::{BlocksSource, DeploymentFile, FileSite, GraphSource};
pub use self::loads::{Loads, LoadsError};
use crate::blocks::Blocks;
use crate::map::CatchmentMap;
use crate::simulate::{Catchments, Internet, RoutingError, Tie};

/// The most ASes times configurations: 3,500 configurations of the Internet of 2026, for which 600 MB are used.
pub const CELLS_MAX: usize = 1 << 28;

/// How a prediction is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The result does not depend on it.
    pub threads: NonZeroUsize,
    /// In how many plays, from the first on, to look for ASes that hang on the order of announcements. Each costs two
    /// simulations a site.
    pub ordered_plays: usize,
}

/// A predicted playbook.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// What would be measured, if the simulation were the Internet. Blocks of ASes without a route, and of ASes that the graph
    /// lacks, are unknown.
    pub playbook: Playbook,
    /// How certain each play is, in their order.
    pub certainty: Vec<Certainty>,
    /// The class of each AS that has blocks or load and is in the graph, ascending by AS.
    pub members: Vec<(Asn, u32)>,
    /// Blocks of ASes that the graph lacks.
    pub outside: u64,
}

/// How many blocks of each site stay there however ties are broken; in the order of the sites.
///
/// `certain + on_tie + on_order` are the blocks of the playbook: `certain` is the least that a site gets, `possible` the most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certainty {
    /// Of ASes all of whose best routes, and those of all ASes on the way, lead here.
    pub certain: Vec<u64>,
    /// Of ASes that hang on a tie, their own or of an AS on the way, and were not seen to hang on the order.
    pub on_tie: Vec<u64>,
    /// Of ASes that reach one site when the sites announce in their order, and another when in the opposite one, where every
    /// tie goes to the oldest route. (Of each two sites one is first in one of the two.)
    pub on_order: Vec<u64>,
    /// Of ASes that may reach this site in some way, whichever they reach here.
    pub possible: Vec<u64>,
    /// Whether the order was looked at; otherwise `on_order` is 0 and part of `on_tie`.
    pub ordered: bool,
}

impl Prediction {
    /// The site of an AS in a play; `None` where it has no route, no blocks and no load, or the graph lacks it.
    #[must_use]
    pub fn site(&self, play: usize, asn: Asn) -> Option<SiteId> {
        let found = self.members.binary_search_by_key(&asn, |(asn, _)| *asn);
        let class = self.members.get(found.ok()?)?.1;
        self.playbook.classes()?.site(play, class as usize)
    }

    /// The catchment map of a play, as a measurement gives it; `None` as [`Blocks::map`].
    #[must_use]
    pub fn map(&self, play: usize, blocks: &Blocks) -> Option<CatchmentMap> {
        blocks.map(self.playbook.sites(), |asn| self.site(play, asn))
    }
}

impl Certainty {
    /// The share of all blocks that reach a site which is certain; 1 where there is none.
    #[must_use]
    pub fn share(&self) -> f64 {
        let sum = |blocks: &[u64]| blocks.iter().sum::<u64>();
        let certain = sum(&self.certain);
        let all = certain + sum(&self.on_tie) + sum(&self.on_order);
        if all == 0 {
            1.0
        } else {
            certain as f64 / all as f64
        }
    }
}

/// Why nothing is predicted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredictError {
    /// A configuration that cannot be simulated.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// Configurations that make no playbook.
    #[error("the configurations make no playbook")]
    Playbook(#[source] ConfigError),
    /// Beyond [`CELLS_MAX`].
    #[error(
        "{plays} configurations of {ases} ASes; expected at most {CELLS_MAX} in all: ask for fewer, such as without pairs"
    )]
    TooMany {
        /// Configurations.
        plays: usize,
        /// ASes that have blocks or load.
        ases: usize,
    },
    /// Blocks and graph do not go together.
    #[error(
        "none of the {blocks} ASes with blocks is among the {graph} of the graph; expected files of the same Internet, about the same year"
    )]
    NothingInCommon {
        /// ASes with blocks.
        blocks: usize,
        /// ASes of the graph.
        graph: usize,
    },
}

/// The playbook of these configurations, the first of them the baseline.
///
/// # Errors
///
/// Where a configuration cannot be simulated, they make no playbook (none, two of one name), or no AS with blocks is in the graph.
pub fn predict(
    internet: &Internet<'_>,
    routings: &[Routing],
    blocks: &Blocks,
    loads: Option<&Loads>,
    options: &Options,
) -> Result<Prediction, PredictError> {
    let world = World::new(internet, blocks, loads)?;
    if routings.len().saturating_mul(world.ases.len()) > CELLS_MAX {
        return Err(PredictError::TooMany {
            plays: routings.len(),
            ases: world.ases.len(),
        });
    }
    let oldest = internet.with_tie(Tie::Oldest);
    let (first, rest) = routings.split_at(options.ordered_plays.min(routings.len()));
    let made = internet.each(first, options.threads, |routing, catchments| {
        let opposite = World::opposite(&oldest, routing)?;
        Ok(world.column(&catchments, Some(&opposite)))
    })?;
    let mut made = made
        .into_iter()
        .collect::<Result<Vec<Column>, RoutingError>>()?;
    made.extend(internet.each(rest, options.threads, |_, catchments| {
        world.column(&catchments, None)
    })?);
    let mut plays = Vec::with_capacity(made.len());
    let mut sites = Vec::with_capacity(made.len());
    let mut certainty = Vec::with_capacity(made.len());
    for (routing, column) in routings.iter().zip(made) {
        plays.push(world.play(routing, &column.sites));
        sites.push(column.sites);
        certainty.push(column.certainty);
    }
    mark_ineffective(internet, &mut plays, &sites);
    let (classes, members) = classes::classes(&world.ases, &sites, loads.is_some());
    let playbook = Playbook::new(internet.sites().clone(), plays, Some(classes))
        .map_err(PredictError::Playbook)?;
    Ok(Prediction {
        playbook,
        certainty,
        members,
        outside: world.outside,
    })
}

/// Marks each poison that reaches no other sites than its control, the prepend of the same length.
fn mark_ineffective(internet: &Internet<'_>, plays: &mut [Play], sites: &[Vec<u8>]) {
    for play in 0..plays.len() {
        let Some(control) = control_of(&plays[play].routing, internet.sites()) else {
            continue;
        };
        let same = |other: &Play| other.routing.announcements == control.announcements;
        let control = plays.iter().position(same);
        plays[play].ineffective = control.is_some_and(|control| sites[control] == sites[play]);
    }
}

/// An AS that counts: it is in the graph, and has blocks or load.
#[derive(Clone, Copy, Debug)]
struct Member {
    asn: Asn,
    index: u32,
    blocks: u64,
    load: f64,
}

struct World {
    ases: Vec<Member>,
    sites: usize,
    outside: u64,
    loaded: bool,
}

/// What a configuration does to the ASes that count, in their order.
struct Column {
    /// [`Classes::NOWHERE`] without a route.
    sites: Vec<u8>,
    certainty: Certainty,
}

impl World {
    fn new(
        internet: &Internet<'_>,
        blocks: &Blocks,
        loads: Option<&Loads>,
    ) -> Result<Self, PredictError> {
        let graph = internet.graph();
        let ases = (0_u32..).zip(graph.asns()).map(|(index, asn)| Member {
            asn: *asn,
            index,
            blocks: blocks.count(*asn),
            load: loads.map_or(0.0, |loads| loads.of(*asn)),
        });
        let ases: Vec<Member> = ases.filter(|m| m.blocks > 0 || m.load > 0.0).collect();
        if ases.is_empty() {
            return Err(PredictError::NothingInCommon {
                blocks: blocks.counts().len(),
                graph: graph.len(),
            });
        }
        let inside: u64 = ases.iter().map(|member| member.blocks).sum();
        Ok(Self {
            sites: internet.sites().len(),
            outside: blocks.total().saturating_sub(inside),
            loaded: loads.is_some(),
            ases,
        })
    }

    /// The catchments when the sites announce in their order and in the opposite one, and ties go to the oldest route.
    fn opposite(oldest: &Internet<'_>, routing: &Routing) -> Result<[Catchments; 2], RoutingError> {
        let mut order: Vec<SiteId> = oldest.sites().ids().collect();
        let forth = oldest.in_order(routing, &order)?;
        order.reverse();
        Ok([forth, oldest.in_order(routing, &order)?])
    }

    fn column(&self, catchments: &Catchments, opposite: Option<&[Catchments; 2]>) -> Column {
        let none = || vec![0; self.sites];
        let mut certainty = Certainty {
            certain: none(),
            on_tie: none(),
            on_order: none(),
            possible: none(),
            ordered: opposite.is_some(),
        };
        let mut sites = Vec::with_capacity(self.ases.len());
        for member in &self.ases {
            let Member { index, blocks, .. } = *member;
            let site = catchments.site(index);
            sites.push(site.map_or(Classes::NOWHERE, |site| site.0));
            let Some(site) = site else { continue };
            if catchments.is_certain(index) {
                certainty.certain[site.index()] += blocks;
                certainty.possible[site.index()] += blocks;
                continue;
            }
            for possible in catchments.possible(index).sites() {
                certainty.possible[possible.index()] += blocks;
            }
            let differs = opposite.is_some_and(|[a, b]| a.site(index) != b.site(index));
            let of = if differs {
                &mut certainty.on_order
            } else {
                &mut certainty.on_tie
            };
            of[site.index()] += blocks;
        }
        Column { sites, certainty }
    }

    fn play(&self, routing: &Routing, sites: &[u8]) -> Play {
        let mut blocks = vec![0; self.sites];
        let mut load = vec![0.0; self.sites];
        let mut unknown = self.outside;
        for (member, site) in self.ases.iter().zip(sites) {
            match blocks.get_mut(usize::from(*site)) {
                Some(sum) => {
                    *sum += member.blocks;
                    load[usize::from(*site)] += member.load;
                }
                None => unknown += member.blocks,
            }
        }
        Play {
            routing: routing.clone(),
            blocks,
            unknown,
            load: self.loaded.then_some(load),
            partial: false,
            ineffective: false,
        }
    }
}

#[cfg(test)]
mod tests;
