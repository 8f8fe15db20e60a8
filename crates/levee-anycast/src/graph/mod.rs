//! ASes and who buys from whom (CAIDA AS relationships), and a generator of graphs like the real one.
//!
//! An [`AsGraph`] is read from a file ([`AsGraph::read`]) or built link by link ([`Builder`]). ASes are numbered in the order of
//! their ASNs, and each has its providers, peers and customers as a slice, sorted. What is odd about the input is not hidden:
//! [`AsGraph::findings`].

mod as_rel;
mod check;
pub mod generate;
#[cfg(test)]
pub(crate) mod tests;

use levee_policy::reroute::Asn;

pub use self::{
    as_rel::{BYTES_MAX, LINE_MAX, ReadError},
    check::{Contradiction, FINDINGS_MAX, Findings},
};

/// The most links of a graph. CAIDA's largest files have under a million.
pub const LINKS_MAX: usize = 1 << 23;

/// What the first AS of a link is to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relationship {
    /// It sells transit to it: `a|b|-1`.
    Provider,
    /// It buys transit from it.
    Customer,
    /// They exchange the traffic of their customers: `a|b|0`.
    Peer,
}

impl Relationship {
    /// As seen from the other end.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Provider => Self::Customer,
            Self::Customer => Self::Provider,
            Self::Peer => Self::Peer,
        }
    }
}

/// Numbers of ASes, two and two.
type Pairs = Vec<(u32, u32)>;

/// For each AS a sorted list of ASes, all in one piece of memory (compressed sparse rows).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rows {
    /// Where each row begins in `of`, and where the last one ends.
    starts: Box<[u32]>,
    of: Box<[u32]>,
}

impl Rows {
    /// Rows out of pairs (row, entry), in any order.
    fn new(rows: usize, mut pairs: Pairs) -> Self {
        pairs.sort_unstable();
        let mut starts = vec![0; rows + 1];
        for &(row, _) in &pairs {
            starts[row as usize + 1] += 1;
        }
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        Self {
            starts: starts.into_boxed_slice(),
            of: pairs.into_iter().map(|(_, entry)| entry).collect(),
        }
    }

    fn get(&self, row: u32) -> &[u32] {
        let [start, end] = [0, 1].map(|n| self.starts[row as usize + n] as usize);
        &self.of[start..end]
    }
}

/// ASes and their links. The number of an AS is its place in the order of ASNs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsGraph {
    asns: Box<[Asn]>,
    providers: Rows,
    peers: Rows,
    customers: Rows,
    tier1: Box<[u32]>,
    findings: Findings,
}

impl AsGraph {
    /// How many ASes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.asns.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.asns.is_empty()
    }

    /// How many links between a provider and a customer.
    #[must_use]
    pub fn transit_links(&self) -> usize {
        self.providers.of.len()
    }

    /// How many links between peers.
    #[must_use]
    pub fn peer_links(&self) -> usize {
        self.peers.of.len() / 2
    }

    /// All ASNs, ascending: the AS of number `i` at place `i`.
    #[must_use]
    pub fn asns(&self) -> &[Asn] {
        &self.asns
    }

    /// The ASN of an AS.
    #[must_use]
    pub fn asn(&self, index: u32) -> Asn {
        self.asns[index as usize]
    }

    /// The number of an AS.
    #[must_use]
    pub fn find(&self, asn: Asn) -> Option<u32> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "there are at most 2 x LINKS_MAX ASes"
        )]
        self.asns.binary_search(&asn).ok().map(|index| index as u32)
    }

    /// From whom an AS buys transit, ascending.
    #[must_use]
    pub fn providers(&self, index: u32) -> &[u32] {
        self.providers.get(index)
    }

    /// With whom an AS peers, ascending.
    #[must_use]
    pub fn peers(&self, index: u32) -> &[u32] {
        self.peers.get(index)
    }

    /// To whom an AS sells transit, ascending.
    #[must_use]
    pub fn customers(&self, index: u32) -> &[u32] {
        self.customers.get(index)
    }

    /// The Tier-1 ASes, which buy transit from nobody and peer with each other: as the file's header says, else inferred.
    /// Ascending.
    #[must_use]
    pub fn tier1(&self) -> &[u32] {
        &self.tier1
    }

    /// What is odd about the links: duplicates, contradictions, circles of customers and providers.
    #[must_use]
    pub fn findings(&self) -> &Findings {
        &self.findings
    }
}

/// A link and where it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LinkAt {
    low: Asn,
    high: Asn,
    at: u32,
    /// What `low` is to `high`.
    is: Relationship,
}

/// Why a link or a graph is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Both ends are one AS.
    #[error("AS{0} has a link to itself; expected two ASes that differ")]
    Loop(Asn),
    /// No AS has this number (RFC 7607).
    #[error("AS0, which no network has (RFC 7607); expected a number from 1 up")]
    Zero,
    /// Beyond [`LINKS_MAX`].
    #[error(
        "more than {LINKS_MAX} links; expected an AS-level graph of the Internet, which has under a million"
    )]
    TooMany,
    /// A graph without links.
    #[error(
        "no link; expected lines such as `701|64500|-1` (provider and customer) or `701|1299|0` (peers)"
    )]
    Empty,
}

/// Makes an [`AsGraph`], link by link.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    links: Vec<LinkAt>,
    tier1: Vec<Asn>,
}

impl Builder {
    /// With no link.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a link: `a` is this to `b`. Of links between the same two, the first counts.
    ///
    /// # Errors
    ///
    /// From an AS to itself, with AS 0, or beyond [`LINKS_MAX`].
    pub fn link(&mut self, a: Asn, b: Asn, a_is: Relationship) -> Result<(), BuildError> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "there are at most LINKS_MAX links"
        )]
        let at = self.links.len() as u32 + 1;
        self.link_at(a, b, a_is, at)
    }

    /// The same, read at this line.
    fn link_at(&mut self, a: Asn, b: Asn, a_is: Relationship, at: u32) -> Result<(), BuildError> {
        if a == b {
            return Err(BuildError::Loop(a));
        }
        if a.0 == 0 || b.0 == 0 {
            return Err(BuildError::Zero);
        }
        if self.links.len() == LINKS_MAX {
            return Err(BuildError::TooMany);
        }
        let (low, high, is) = if a < b {
            (a, b, a_is)
        } else {
            (b, a, a_is.reversed())
        };
        self.links.push(LinkAt { low, high, at, is });
        Ok(())
    }

    /// Says which ASes are Tier-1; otherwise [`Builder::build`] infers them.
    pub fn tier1(&mut self, asns: impl IntoIterator<Item = Asn>) {
        self.tier1.extend(asns);
    }

    /// The graph of these links.
    ///
    /// # Errors
    ///
    /// Without any link.
    pub fn build(mut self) -> Result<AsGraph, BuildError> {
        if self.links.is_empty() {
            return Err(BuildError::Empty);
        }
        self.links.sort_unstable();
        let mut findings = Findings::default();
        check::one_link_each(&mut self.links, &mut findings);
        let mut asns: Vec<Asn> = self.links.iter().flat_map(|l| [l.low, l.high]).collect();
        asns.sort_unstable();
        asns.dedup();
        let (providers, peers) = rows(&asns, &self.links);
        let reversed = |(a, b): &(u32, u32)| (*b, *a);
        let customers = Rows::new(asns.len(), providers.iter().map(reversed).collect());
        let mut graph = AsGraph {
            providers: Rows::new(asns.len(), providers),
            peers: Rows::new(asns.len(), peers),
            customers,
            asns: asns.into_boxed_slice(),
            tier1: Box::default(),
            findings,
        };
        let mut tier1: Vec<u32> = self.tier1.iter().filter_map(|a| graph.find(*a)).collect();
        if tier1.is_empty() {
            tier1 = check::infer_tier1(&graph);
        }
        tier1.sort_unstable();
        tier1.dedup();
        graph.tier1 = tier1.into_boxed_slice();
        check::find_circles(&mut graph);
        Ok(graph)
    }
}

/// Pairs (customer, provider), and pairs of peers both ways round, by number.
fn rows(asns: &[Asn], links: &[LinkAt]) -> (Pairs, Pairs) {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are at most 2 x LINKS_MAX ASes"
    )]
    let number = |asn: Asn| asns.partition_point(|a| *a < asn) as u32;
    let (mut providers, mut peers) = (Vec::new(), Vec::new());
    for link in links {
        let (low, high) = (number(link.low), number(link.high));
        match link.is {
            Relationship::Provider => providers.push((high, low)),
            Relationship::Customer => providers.push((low, high)),
            Relationship::Peer => peers.extend([(low, high), (high, low)]),
        }
    }
    (providers, peers)
}
