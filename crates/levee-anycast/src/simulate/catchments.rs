//! Which site each AS reaches.

use levee_policy::reroute::{Asn, Path, SiteId};

use super::{SiteSet, propagate::Route};
use crate::graph::AsGraph;

/// From whom an AS has its route; preferred in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Learned {
    /// From a customer, which pays for it.
    Customer,
    /// From a peer.
    Peer,
    /// From a provider.
    Provider,
}

/// What a link carries, and since which change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) path: Path,
    pub(super) since: u32,
}

/// Which site each AS reaches, by the number of the AS in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catchments {
    pub(super) routes: Box<[Route]>,
    /// By link: the site and its AS.
    pub(super) links: Vec<(SiteId, Asn)>,
    /// By link.
    pub(super) announced: Vec<Option<Announced>>,
    /// How many changes there were.
    pub(super) step: u32,
    /// Of ASes that may reach more than one site, ascending.
    pub(super) ties: Vec<(u32, SiteSet)>,
}

impl Catchments {
    /// How many ASes the graph has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether the graph has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Which site an AS reaches; `None` without a route, and for an AS that announces the prefix itself.
    #[must_use]
    pub fn site(&self, index: u32) -> Option<SiteId> {
        let route = &self.routes[index as usize];
        route.learned.map(|_| self.links[usize::from(route.link)].0)
    }

    /// The sites of all ASes, in their order.
    pub fn sites(&self) -> impl ExactSizeIterator<Item = Option<SiteId>> {
        self.routes.iter().map(|route| {
            let site = self.links.get(usize::from(route.link));
            route.learned.and(site).map(|(site, _)| *site)
        })
    }

    /// How many ASes there are in the path that an AS has received, prepends and poisons counted.
    #[must_use]
    pub fn path_length(&self, index: u32) -> Option<u16> {
        let route = &self.routes[index as usize];
        route.learned.map(|_| route.length)
    }

    /// From whom an AS has its route.
    #[must_use]
    pub fn learned(&self, index: u32) -> Option<Learned> {
        self.routes[index as usize].learned
    }

    /// The neighbour from which an AS has its route; `None` also where that is a site.
    #[must_use]
    pub fn next(&self, index: u32) -> Option<u32> {
        let route = &self.routes[index as usize];
        route.learned.and(route.sender())
    }

    /// All sites that an AS may reach if any AS breaks its ties in another way, "no route" included. Empty if no site can be
    /// reached in any way.
    #[must_use]
    pub fn possible(&self, index: u32) -> SiteSet {
        match self.ties.binary_search_by_key(&index, |(index, _)| *index) {
            Ok(place) => self.ties[place].1,
            Err(_) => self
                .site(index)
                .map_or(SiteSet::EMPTY, |site| SiteSet::one(Some(site))),
        }
    }

    /// Whether an AS reaches the same site however ties are broken anywhere, and so in whatever order the sites announced.
    #[must_use]
    pub fn is_certain(&self, index: u32) -> bool {
        self.ties
            .binary_search_by_key(&index, |(index, _)| *index)
            .is_err()
    }

    /// The ASes that may reach more than one site, ascending, and which.
    #[must_use]
    pub fn uncertain(&self) -> &[(u32, SiteSet)] {
        &self.ties
    }

    pub(super) fn path(&self, graph: &AsGraph, index: u32) -> Vec<Asn> {
        let mut path = Vec::new();
        let mut route = &self.routes[index as usize];
        if route.learned.is_none() {
            return path;
        }
        while let Some(from) = route.sender() {
            let next = &self.routes[from as usize];
            let copies = usize::from(route.length - next.length);
            path.extend(core::iter::repeat_n(graph.asn(from), copies));
            route = next;
        }
        let link = usize::from(route.link);
        if let Some(announced) = &self.announced[link] {
            path.extend(announced.path.as_path(self.links[link].1));
        }
        path
    }
}
