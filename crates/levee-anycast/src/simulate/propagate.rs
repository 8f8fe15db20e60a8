//! From announcements to routes: three sweeps by path length.

use std::collections::BTreeMap;

use levee_policy::reroute::{Asn, Path, Routing, SiteId};

use super::{
    Catchments, Internet, Learned, LinkKind, SiteSet, Tie,
    catchments::Announced,
    policies::{EDGE, ORIGIN, TAKES_LOOPS, TIER1, TIER1_FILTER},
};

/// The longest AS path that any AS takes. Routers refuse far shorter ones.
pub const PATH_LENGTH_MAX: u16 = 1000;

/// Instead of the number of an AS: the route is from a site.
const SITE: u32 = u32::MAX;

/// Why a routing configuration cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutingError {
    /// Only its name is known.
    #[error(
        "configuration {name}: what the sites announce is not known; expected one with its announcements"
    )]
    NoAnnouncements {
        /// Its name.
        name: String,
    },
    /// For other sites.
    #[error(
        "configuration {name}: {found} announcements for {sites} sites; expected one for each site"
    )]
    Sites {
        /// Its name.
        name: String,
        /// How many announcements.
        found: usize,
        /// How many sites.
        sites: usize,
    },
    /// For a neighbour that the site does not have.
    #[error(
        "configuration {name}: site {site} has no neighbour AS{neighbour}; expected one of its links"
    )]
    Neighbour {
        /// Its name.
        name: String,
        /// The site's name.
        site: String,
        /// Which.
        neighbour: Asn,
    },
    /// Beyond [`PATH_LENGTH_MAX`].
    #[error(
        "configuration {name}: site {site} announces a path of {length} ASes; expected at most {PATH_LENGTH_MAX}"
    )]
    TooLong {
        /// Its name.
        name: String,
        /// The site's name.
        site: String,
        /// Of the path.
        length: usize,
    },
}

/// The route of an AS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    from: u32,
    /// The change by which it became what it is.
    since: u32,
    /// The link by which it left its site.
    pub(super) link: u16,
    pub(super) length: u16,
    /// How ASes treat it: a number in the plan.
    treatment: u16,
    pub(super) learned: Option<Learned>,
}

impl Route {
    const NONE: Self = Self {
        from: SITE,
        since: 0,
        link: 0,
        length: 0,
        treatment: 0,
        learned: None,
    };

    /// The neighbour that sent it, unless that is a site.
    pub(super) fn sender(&self) -> Option<u32> {
        (self.from != SITE).then_some(self.from)
    }
}

/// How the ASes on the way treat a route, beyond its length.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Treatment {
    /// ASes that drop it as a loop, ascending.
    dropped_by: Vec<u32>,
    /// Has a Tier-1 in its path by poisoning.
    tier1: bool,
}

/// What a link carries.
#[derive(Clone, Debug)]
struct Seed {
    path: Path,
    length: u16,
    treatment: u16,
}

/// A routing configuration, made ready for a graph.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// By link of the deployment.
    seeds: Vec<Option<Seed>>,
    /// The first is that of a plain announcement.
    treatments: Vec<Treatment>,
    sites: Vec<SiteId>,
}

impl Plan {
    pub(super) fn new(internet: &Internet<'_>, routing: &Routing) -> Result<Self, RoutingError> {
        let name = || routing.name.clone();
        let Some(announcements) = &routing.announcements else {
            return Err(RoutingError::NoAnnouncements { name: name() });
        };
        let sites = internet.sites.len();
        if announcements.len() != sites {
            return Err(RoutingError::Sites {
                name: name(),
                found: announcements.len(),
                sites,
            });
        }
        let links = &internet.placed.links;
        for (site, announcement) in internet.sites.ids().zip(announcements) {
            for neighbour in announcement.neighbours.keys() {
                if !links.iter().any(|l| (l.site, l.asn) == (site, *neighbour)) {
                    return Err(RoutingError::Neighbour {
                        name: name(),
                        site: internet.sites.name(site).to_owned(),
                        neighbour: *neighbour,
                    });
                }
            }
        }
        let mut numbers = BTreeMap::from([(Treatment::default(), 0)]);
        let mut treatments = vec![Treatment::default()];
        let mut seeds = Vec::with_capacity(links.len());
        for link in links {
            let Some(path) = announcements[link.site.index()].to(link.asn) else {
                seeds.push(None);
                continue;
            };
            let length = path.length();
            let short = u16::try_from(length).ok().filter(|n| *n <= PATH_LENGTH_MAX);
            let length = short.ok_or_else(|| RoutingError::TooLong {
                name: name(),
                site: internet.sites.name(link.site).to_owned(),
                length,
            })?;
            let treatment = treatment(internet, path);
            let number = *numbers.entry(treatment).or_insert_with_key(|treatment| {
                treatments.push(treatment.clone());
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "there are at most LINKS_MAX"
                )]
                let number = (treatments.len() - 1) as u16;
                number
            });
            seeds.push(Some(Seed {
                path: path.clone(),
                length,
                treatment: number,
            }));
        }
        Ok(Self {
            seeds,
            treatments,
            sites: links.iter().map(|link| link.site).collect(),
        })
    }

    /// Of these sites only.
    pub(super) fn only(&self, sites: &[SiteId]) -> Self {
        let mut plan = self.clone();
        for (seed, site) in plan.seeds.iter_mut().zip(&plan.sites) {
            if !sites.contains(site) {
                *seed = None;
            }
        }
        plan
    }
}

fn treatment(internet: &Internet<'_>, path: &Path) -> Treatment {
    let flags = &internet.policies.flags;
    let poisoned = path
        .poison
        .iter()
        .filter_map(|asn| internet.graph.find(*asn));
    let mut treatment = Treatment::default();
    for index in poisoned {
        let flags = flags[index as usize];
        treatment.tier1 |= flags & TIER1 != 0;
        if flags & TAKES_LOOPS == 0 {
            treatment.dropped_by.push(index);
        }
    }
    treatment.dropped_by.sort_unstable();
    treatment.dropped_by.dedup();
    treatment
}

pub(super) fn propagate(
    internet: &Internet<'_>,
    plan: &Plan,
    before: Option<&Catchments>,
) -> Catchments {
    if internet.sites.len() <= 64 {
        Sweep::<1>::new(internet, plan, before).run()
    } else {
        Sweep::<4>::new(internet, plan, before).run()
    }
}

/// The state of the sweeps. Sets of sites have `64 * W` bits.
struct Sweep<'a, const W: usize> {
    internet: &'a Internet<'a>,
    plan: &'a Plan,
    before: Option<&'a Catchments>,
    step: u32,
    announced: Vec<Option<Announced>>,
    routes: Box<[Route]>,
    /// By AS: the sites of all routes as good as its own.
    sets: Box<[[u64; W]]>,
    /// By path length: ASes that have, or had, a route of that length.
    waiting: Vec<Vec<u32>>,
}

impl<'a, const W: usize> Sweep<'a, W> {
    fn new(internet: &'a Internet<'a>, plan: &'a Plan, before: Option<&'a Catchments>) -> Self {
        let step = before.map_or(0, |before| before.step.saturating_add(1));
        let announced = plan.seeds.iter().enumerate().map(|(link, seed)| {
            let path = &seed.as_ref()?.path;
            let old = before.and_then(|before| before.announced[link].as_ref());
            Some(Announced {
                path: path.clone(),
                since: old
                    .filter(|old| old.path == *path)
                    .map_or(step, |old| old.since),
            })
        });
        Self {
            internet,
            plan,
            before,
            step,
            announced: announced.collect(),
            routes: vec![Route::NONE; internet.graph.len()].into_boxed_slice(),
            sets: vec![[0; W]; internet.graph.len()].into_boxed_slice(),
            waiting: Vec::new(),
        }
    }

    fn run(mut self) -> Catchments {
        self.up();
        self.across();
        self.down();
        self.finish()
    }

    /// The sites' own announcements over links of a kind.
    fn sites_announce(&mut self, kind: LinkKind, learned: Learned) {
        let internet = self.internet;
        for (number, (link, seed)) in
            (0_u16..).zip(internet.placed.links.iter().zip(&self.plan.seeds))
        {
            let Some(seed) = seed.as_ref().filter(|_| link.kind == kind) else {
                continue;
            };
            let mut set = [0; W];
            set[link.site.index() >> 6] |= 1 << (link.site.0 & 63);
            let route = Route {
                from: SITE,
                since: 0,
                link: number,
                length: seed.length,
                treatment: seed.treatment,
                learned: Some(learned),
            };
            self.offer(link.neighbour, route, set);
        }
    }

    /// Up: from customers to providers, the shortest paths first.
    fn up(&mut self) {
        let graph = self.internet.graph;
        self.sites_announce(LinkKind::Transit, Learned::Customer);
        let mut length = 0;
        while let Some(index) = self.shortest(&mut length) {
            self.settle(index);
            for &provider in graph.providers(index) {
                self.send(index, provider, Learned::Customer);
            }
        }
    }

    /// Across: what came from customers goes to peers, once.
    fn across(&mut self) {
        let graph = self.internet.graph;
        self.sites_announce(LinkKind::Peer, Learned::Peer);
        for index in self.all() {
            if self.learned(index) == Some(Learned::Customer) {
                for &peer in graph.peers(index) {
                    self.send(index, peer, Learned::Peer);
                }
            }
        }
        for index in self.all() {
            if self.learned(index) == Some(Learned::Peer) {
                self.settle(index);
            }
        }
    }

    /// Down: from providers to customers, the shortest paths first.
    fn down(&mut self) {
        let graph = self.internet.graph;
        self.waiting.iter_mut().for_each(Vec::clear);
        for index in self.all() {
            if self.learned(index).is_some() {
                self.wait(index);
            }
        }
        self.sites_announce(LinkKind::Customer, Learned::Provider);
        let mut length = 0;
        while let Some(index) = self.shortest(&mut length) {
            if self.learned(index) == Some(Learned::Provider) {
                self.settle(index);
            }
            for &customer in graph.customers(index) {
                self.send(index, customer, Learned::Provider);
            }
        }
    }

    fn all(&self) -> core::ops::Range<u32> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a graph numbers its ASes by u32"
        )]
        let all = 0..self.routes.len() as u32;
        all
    }

    fn learned(&self, index: u32) -> Option<Learned> {
        self.routes[index as usize].learned
    }

    /// Takes an AS that waits with a route of this length, or the next.
    fn shortest(&mut self, length: &mut usize) -> Option<u32> {
        loop {
            let waiting = self.waiting.get_mut(*length)?;
            match waiting.pop() {
                // It may have found a shorter one since.
                Some(index) if usize::from(self.routes[index as usize].length) == *length => {
                    return Some(index);
                }
                Some(_) => {}
                None => *length += 1,
            }
        }
    }

    fn wait(&mut self, index: u32) {
        let length = usize::from(self.routes[index as usize].length);
        if self.waiting.len() <= length {
            self.waiting.resize(length + 1, Vec::new());
        }
        self.waiting[length].push(index);
    }

    /// The route of an AS is final: since when does it have it?
    fn settle(&mut self, index: u32) {
        let route = self.routes[index as usize];
        let same = self
            .before
            .map(|before| before.routes[index as usize])
            .filter(|old| {
                let key = |r: &Route| (r.from, r.link, r.length, r.learned);
                key(old) == key(&route) && self.sent(&route) < self.step
            });
        self.routes[index as usize].since = same.map_or(self.step, |old| old.since);
    }

    /// Since when the sender of a route has sent it.
    fn sent(&self, route: &Route) -> u32 {
        match route.sender() {
            Some(from) => self.routes[from as usize].since,
            None => self.announced[usize::from(route.link)]
                .as_ref()
                .map_or(self.step, |a| a.since),
        }
    }

    fn send(&mut self, from: u32, to: u32, learned: Learned) {
        // What came from a better side stays.
        if self.learned(to).is_some_and(|has| has < learned) {
            return;
        }
        let route = self.routes[from as usize];
        let offered = Route {
            from,
            since: 0,
            length: route.length + 1,
            learned: Some(learned),
            ..route
        };
        self.offer(to, offered, self.sets[from as usize]);
    }

    fn offer(&mut self, to: u32, offered: Route, set: [u64; W]) {
        if !self.accepts(to, &offered) {
            return;
        }
        let has = self.routes[to as usize];
        if has.learned != offered.learned || offered.length < has.length {
            self.routes[to as usize] = offered;
            self.sets[to as usize] = set;
            if offered.learned != Some(Learned::Peer) {
                self.wait(to);
            }
        } else if offered.length == has.length {
            for (word, other) in self.sets[to as usize].iter_mut().zip(set) {
                *word |= other;
            }
            if self.tie_key(&offered) < self.tie_key(&has) {
                self.routes[to as usize] = offered;
            }
        }
    }

    fn accepts(&self, to: u32, offered: &Route) -> bool {
        let policies = &self.internet.policies;
        let flags = policies.flags[to as usize];
        let longest = if flags & EDGE != 0 {
            policies.path_max_edge
        } else {
            policies.path_max_transit
        };
        if flags & ORIGIN != 0 || offered.length > longest {
            return false;
        }
        let treatment = &self.plan.treatments[usize::from(offered.treatment)];
        let leaked = treatment.tier1
            && flags & TIER1_FILTER != 0
            && offered.learned != Some(Learned::Provider);
        !leaked && treatment.dropped_by.binary_search(&to).is_err()
    }

    /// Of routes equally preferred and equally long, that with the least key is taken.
    fn tie_key(&self, route: &Route) -> (u32, Asn, u16) {
        let age = match self.internet.policies.tie {
            Tie::LowestNeighbour => 0,
            Tie::Oldest => self.sent(route),
        };
        let neighbour = match route.sender() {
            Some(from) => self.internet.graph.asn(from),
            None => self.internet.origin(route.link),
        };
        (age, neighbour, route.link)
    }

    fn finish(self) -> Catchments {
        let links = &self.internet.placed.links;
        let ties = (0_u32..)
            .zip(self.sets.iter())
            .filter(|(_, set)| set.iter().map(|word| word.count_ones()).sum::<u32>() > 1);
        Catchments {
            ties: ties
                .map(|(index, set)| (index, SiteSet::from_words(set)))
                .collect(),
            routes: self.routes,
            links: (0_u16..)
                .zip(links)
                .map(|(number, link)| (link.site, self.internet.origin(number)))
                .collect(),
            announced: self.announced,
            step: self.step,
        }
    }
}
