//! The oracle: ASes that in turn look at what their neighbours send, with whole paths, until none changes its mind.

use std::collections::BTreeMap;

use levee_policy::reroute::{
    Asn, Community, Routing, SiteId,
    candidates::{Effect, Preference, Target},
};
use rand_core::Rng;
use rand_pcg::Pcg64;

use crate::{
    graph::{AsGraph, Relationship},
    simulate::{Catchments, Deployment, Internet, Learned, LinkKind, Policies},
};

/// Where a route comes in: a neighbour, or a link of the deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Session {
    Neighbour(Asn),
    Link(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The ASes on the way, the neighbour first, repeated where they prepend.
    pub(super) way: Vec<Asn>,
    /// What the site announced.
    pub(super) announced: Vec<Asn>,
    pub(super) site: usize,
    pub(super) session: Session,
    pub(super) learned: Learned,
    communities: Vec<Community>,
}

impl Route {
    pub(super) fn path(&self) -> Vec<Asn> {
        [self.way.clone(), self.announced.clone()].concat()
    }
}

/// Where routes are looked up by AS.
pub(super) type Routes = BTreeMap<Asn, Route>;

/// A graph, a deployment and what is announced.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// What the first is to the second, both ways round.
    pub(super) is: BTreeMap<(Asn, Asn), Relationship>,
    pub(super) tier1: Vec<Asn>,
    pub(super) deployment: Deployment,
    pub(super) policies: Policies,
    pub(super) routing: Routing,
}

impl World {
    pub(super) fn ases(&self) -> Vec<Asn> {
        let mut ases: Vec<Asn> = self.is.keys().map(|(a, _)| *a).collect();
        ases.dedup();
        ases
    }

    pub(super) fn graph(&self) -> AsGraph {
        let mut builder = crate::graph::Builder::new();
        for ((a, b), is) in self.is.iter().filter(|((a, b), _)| a < b) {
            builder.link(*a, *b, *is).unwrap();
        }
        builder.tier1(self.tier1.iter().copied());
        builder.build().unwrap()
    }

    /// The sites' links: site, AS, and the link.
    fn links(&self) -> Vec<(usize, Asn, crate::simulate::Link)> {
        let sites = self.deployment.sites.iter().enumerate();
        let links = sites.flat_map(|(number, site)| {
            let asn = site.asn.unwrap_or(self.deployment.origin);
            site.links.iter().map(move |link| (number, asn, *link))
        });
        links.collect()
    }

    /// All that is sent to an AS and taken, and on which session.
    pub(super) fn offers(&self, to: Asn, routes: &Routes) -> Vec<Route> {
        let mut offers = Vec::new();
        for (number, (site, origin, link)) in self.links().into_iter().enumerate() {
            let announcement = &self.routing.announcements.as_ref().unwrap()[site];
            if link.neighbour == to
                && let Some(path) = announcement.to(to)
            {
                offers.push(Route {
                    way: vec![],
                    announced: path.as_path(origin),
                    site,
                    session: Session::Link(number),
                    learned: match link.kind {
                        LinkKind::Transit => Learned::Customer,
                        LinkKind::Peer => Learned::Peer,
                        LinkKind::Customer => Learned::Provider,
                    },
                    communities: path.communities.clone(),
                });
            }
        }
        for ((from, _), is) in self.is.iter().filter(|((_, b), _)| *b == to) {
            offers.extend(
                routes
                    .get(from)
                    .and_then(|route| self.sent(*from, *is, to, route)),
            );
        }
        offers.retain(|offer| self.takes(to, offer));
        offers
    }

    /// What `from`, which is this to `to`, sends of its route.
    fn sent(&self, from: Asn, is: Relationship, to: Asn, route: &Route) -> Option<Route> {
        let learned = match is {
            Relationship::Customer => Learned::Customer,
            Relationship::Peer => Learned::Peer,
            Relationship::Provider => Learned::Provider,
        };
        if route.learned != Learned::Customer && learned != Learned::Provider {
            return None;
        }
        let mut copies = 0;
        if self.acts(from, route) {
            let hits = |target: Target| match target {
                Target::Everyone => true,
                Target::Providers => is == Relationship::Customer,
                Target::Peers => is == Relationship::Peer,
                Target::Customers => is == Relationship::Provider,
                Target::As(asn) => asn == to,
            };
            let effects = self.effects(from, route);
            let only = |effect: &&Effect| matches!(effect, Effect::ExportOnlyTo(_));
            if effects
                .iter()
                .any(|e| matches!(e, Effect::NoExportTo(t) if hits(*t)))
                || effects.iter().any(|e| only(&e))
                    && !effects
                        .iter()
                        .any(|e| matches!(e, Effect::ExportOnlyTo(t) if hits(*t)))
            {
                return None;
            }
            for effect in effects {
                if let Effect::PrependTo { target, times } = effect
                    && hits(target)
                {
                    copies = copies.max(usize::from(times));
                }
            }
        }
        let mut communities = route.communities.clone();
        if self.policies.communities_stripped.contains(from) {
            communities.clear();
        }
        Some(Route {
            way: [vec![from; 1 + copies], route.way.clone()].concat(),
            session: Session::Neighbour(from),
            learned,
            communities,
            ..route.clone()
        })
    }

    fn acts(&self, at: Asn, route: &Route) -> bool {
        let direct = matches!(route.session, Session::Link(_));
        let offers = self.policies.communities.upstreams().any(|asn| asn == at);
        offers && (direct || route.learned == Learned::Customer)
    }

    fn effects(&self, at: Asn, route: &Route) -> Vec<Effect> {
        let table = &self.policies.communities;
        let effects = route
            .communities
            .iter()
            .filter_map(|community| table.effect(at, *community));
        effects.collect()
    }

    fn takes(&self, to: Asn, offer: &Route) -> bool {
        let length = offer.way.len() + offer.announced.len();
        let transits = |other: &Asn| self.is.get(&(to, *other)) == Some(&Relationship::Provider);
        let has_customers = self.ases().iter().any(transits)
            || self
                .links()
                .iter()
                .any(|(_, _, link)| link.neighbour == to && link.kind == LinkKind::Transit);
        let longest = if has_customers {
            self.policies.path_max_transit
        } else {
            self.policies.path_max_edge
        };
        let origin = self.links().iter().any(|(_, origin, _)| *origin == to);
        let looped = offer.way.contains(&to)
            || offer.announced.contains(&to) && !self.policies.loops_taken.contains(to);
        let leaked = offer.learned != Learned::Provider
            && self.policies.tier1_filter.contains(to)
            && offer.announced.iter().any(|asn| self.tier1.contains(asn));
        length <= usize::from(longest) && !origin && !looped && !leaked
    }

    fn rank(&self, at: Asn, route: &Route) -> Preference {
        match route.learned {
            Learned::Customer => {
                let effects = self.effects(at, route).into_iter();
                let lower = effects.filter_map(|effect| match effect {
                    Effect::PreferAs(preference) => Some(preference),
                    _ => None,
                });
                lower.max().unwrap_or(Preference::Customer)
            }
            Learned::Peer => Preference::Peer,
            Learned::Provider => Preference::Provider,
        }
    }

    /// What an AS takes of what it is sent now.
    pub(super) fn best<K: Ord>(
        &self,
        at: Asn,
        routes: &Routes,
        tie: &impl Fn(Asn, &Route) -> K,
    ) -> Option<Route> {
        let offers = self.offers(at, routes).into_iter();
        offers.min_by_key(|offer| (self.rank(at, offer), offer.path().len(), tie(at, offer)))
    }

    /// The lowest ASN, then the first link.
    pub(super) fn lowest(&self) -> impl Fn(Asn, &Route) -> (Asn, usize) + use<> {
        let origins: Vec<Asn> = self.links().iter().map(|(_, origin, _)| *origin).collect();
        move |_, route| match route.session {
            Session::Neighbour(asn) => (asn, 0),
            Session::Link(link) => (origins[link], link),
        }
    }

    /// The routes once no AS changes its mind; `None` if some do for very long. ASes have their turn in random order.
    pub(super) fn settle<K: Ord>(
        &self,
        rng: &mut Pcg64,
        tie: &impl Fn(Asn, &Route) -> K,
    ) -> Option<Routes> {
        let mut ases = self.ases();
        let mut routes = Routes::new();
        for _ in 0..10 * ases.len() {
            for i in (1..ases.len()).rev() {
                ases.swap(i, rng.next_u32() as usize % (i + 1));
            }
            let mut changed = false;
            for at in &ases {
                let best = self.best(*at, &routes, tie);
                changed |= routes.get(at) != best.as_ref();
                match best {
                    Some(best) => routes.insert(*at, best),
                    None => routes.remove(at),
                };
            }
            if !changed {
                return Some(routes);
            }
        }
        None
    }

    /// What the simulation found, as the oracle has it.
    pub(super) fn routes(&self, internet: &Internet<'_>, catchments: &Catchments) -> Routes {
        let mut routes = Routes::new();
        // From the sites outwards, as each route is made of the next.
        let graph = internet.graph();
        let mut left: Vec<u32> = (0..graph.len() as u32).collect();
        left.retain(|index| catchments.site(*index).is_some());
        while !left.is_empty() {
            let before = left.len();
            left.retain(|&index| {
                let at = graph.asn(index);
                let path = internet.path(catchments, index);
                let via = catchments.next(index).map(|next| graph.asn(next));
                let found = self.offers(at, &routes).into_iter().find(|offer| {
                    let session = match offer.session {
                        Session::Neighbour(asn) => Some(asn),
                        Session::Link(_) => None,
                    };
                    let site = catchments.site(index).map(SiteId::index);
                    session == via
                        && offer.path() == path
                        && Some(offer.site) == site
                        && Some(offer.learned) == catchments.learned(index)
                });
                found.map(|route| routes.insert(at, route)).is_none() && !routes.contains_key(&at)
            });
            assert!(
                left.len() < before,
                "a route that nobody sends: {left:?} of {self:#?}"
            );
        }
        routes
    }
}
