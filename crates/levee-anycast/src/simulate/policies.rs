//! What the ASes of the Internet do with routes.

use levee_policy::reroute::{
    Asn, Community,
    candidates::{CommunityTable, Effect},
};

use super::{LinkKind, deployment::Placed};
use crate::graph::AsGraph;

/// Which of routes an AS takes that are equally preferred and equally long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tie {
    /// That of the neighbour with the lowest ASN; at the same neighbour, that of the first site.
    #[default]
    LowestNeighbour,
    /// The oldest, as many routers do to avoid flaps; of the same age, as above.
    Oldest,
}

/// Some ASes.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AsSet {
    /// None.
    #[default]
    Nobody,
    /// All.
    Everyone,
    /// This share of them, drawn by ASN and seed.
    Share {
        /// 0 to 1.
        share: f64,
        /// Another seed draws others.
        seed: u64,
    },
    /// These. ASNs that the graph lacks are no error.
    These(Vec<Asn>),
}

/// What the ASes do with routes, beyond preference and length.
#[derive(Clone, Debug, PartialEq)]
pub struct Policies {
    /// How ties are broken.
    pub tie: Tie,
    /// Who takes a route with its own ASN in the path (loop detection is off, or allows one).
    pub loops_taken: AsSet,
    /// Who refuses from a customer, or from a peer that is no Tier-1 itself, a path with a Tier-1 in it: a filter against route
    /// leaks. A path here has one only where it is poisoned with it.
    pub tier1_filter: AsSet,
    /// The longest path that an AS with customers takes.
    pub path_max_transit: u16,
    /// The longest path that an AS without customers takes.
    pub path_max_edge: u16,
    /// What upstreams do with communities on routes that they have from customers, or straight from a site. All others pass
    /// communities on.
    pub communities: CommunityTable,
    /// Who takes communities off what it passes on, after acting on its own.
    pub communities_stripped: AsSet,
}

impl Policies {
    /// Route selection alone: no filter but loop detection.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            tie: Tie::LowestNeighbour,
            loops_taken: AsSet::Nobody,
            tier1_filter: AsSet::Nobody,
            path_max_transit: super::PATH_LENGTH_MAX,
            path_max_edge: super::PATH_LENGTH_MAX,
            communities: CommunityTable::default(),
            communities_stripped: AsSet::Nobody,
        }
    }
}

impl Default for Policies {
    /// As far as the Anycast Agility paper tells: paths with a Tier-1 from below are filtered, paths of more than 50 ASes by
    /// transit ASes and of more than 10 at the edge.
    fn default() -> Self {
        Self {
            tier1_filter: AsSet::Everyone,
            path_max_transit: 50,
            path_max_edge: 10,
            ..Self::plain()
        }
    }
}

impl AsSet {
    /// Whether an AS is one of them.
    #[must_use]
    pub fn contains(&self, asn: Asn) -> bool {
        match self {
            Self::Nobody => false,
            Self::Everyone => true,
            Self::Share { share, seed } => unit(mixed(u64::from(asn.0) ^ mixed(*seed))) < *share,
            Self::These(asns) => asns.contains(&asn),
        }
    }

    /// Sets a flag for each of them.
    fn mark(&self, graph: &AsGraph, flags: &mut [u8], flag: u8) {
        if let Self::These(asns) = self {
            for index in asns.iter().filter_map(|asn| graph.find(*asn)) {
                flags[index as usize] |= flag;
            }
            return;
        }
        for (flags, asn) in flags.iter_mut().zip(graph.asns()) {
            if self.contains(*asn) {
                *flags |= flag;
            }
        }
    }
}

/// SplitMix64's output function (Steele, Lea and Flood 2014).
const fn mixed(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// From 0 to below 1, by the upper 53 bits.
fn unit(bits: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let unit = (bits >> 11) as f64 / (1_u64 << 53) as f64;
    unit
}

/// Has no customers.
pub(super) const EDGE: u8 = 1;
/// Announces the prefix itself, and takes no route to it.
pub(super) const ORIGIN: u8 = 2;
/// Takes paths with itself in them.
pub(super) const TAKES_LOOPS: u8 = 4;
/// Refuses Tier-1s in paths from below.
pub(super) const TIER1_FILTER: u8 = 8;
/// Is Tier-1.
pub(super) const TIER1: u8 = 16;
/// Takes communities off.
pub(super) const STRIPS: u8 = 32;

/// Policies on a graph.
#[derive(Clone, Debug)]
pub(super) struct Resolved {
    pub(super) tie: Tie,
    /// By AS.
    pub(super) flags: Box<[u8]>,
    pub(super) path_max_transit: u16,
    pub(super) path_max_edge: u16,
    /// By upstream, as far as the graph has it.
    pub(super) communities: Vec<(u32, Community, Effect)>,
}

pub(super) fn resolve(policies: &Policies, graph: &AsGraph, placed: &Placed) -> Resolved {
    let mut flags = vec![0_u8; graph.len()].into_boxed_slice();
    for (index, flags) in (0_u32..).zip(flags.iter_mut()) {
        if graph.customers(index).is_empty() {
            *flags |= EDGE;
        }
    }
    for link in placed
        .links
        .iter()
        .filter(|link| link.kind == LinkKind::Transit)
    {
        flags[link.neighbour as usize] &= !EDGE;
    }
    for index in graph.tier1() {
        flags[*index as usize] |= TIER1;
    }
    for index in placed.origins.iter().filter_map(|asn| graph.find(*asn)) {
        flags[index as usize] |= ORIGIN;
    }
    policies.loops_taken.mark(graph, &mut flags, TAKES_LOOPS);
    policies.tier1_filter.mark(graph, &mut flags, TIER1_FILTER);
    policies
        .communities_stripped
        .mark(graph, &mut flags, STRIPS);
    let offered = policies.communities.upstreams().filter_map(|asn| {
        let index = graph.find(asn)?;
        let offered = policies.communities.offered_by(asn);
        Some(offered.map(move |(community, effect)| (index, community, effect)))
    });
    Resolved {
        communities: offered.flatten().collect(),
        tie: policies.tie,
        flags,
        path_max_transit: policies.path_max_transit.min(super::PATH_LENGTH_MAX),
        path_max_edge: policies.path_max_edge.min(super::PATH_LENGTH_MAX),
    }
}
