//! From announcements to routes: three sweeps by path length.

use levee_policy::reroute::{Asn, candidates::Preference};

use super::{
    Catchments, Internet, Learned, LinkKind, SiteSet, Tie,
    catchments::Announced,
    plan::{Plan, RoutingError, Treatment},
    policies::{EDGE, ORIGIN, STRIPS, TIER1_FILTER},
    possible::Possible,
};

/// Instead of the number of an AS: the route is from a site.
const SITE: u32 = u32::MAX;

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
    pub(super) const NONE: Self = Self {
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

    /// Whether it is the same, whenever it came.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let since = self.since;
        *self == Self { since, ..*other }
    }
}

pub(super) fn propagate(
    internet: &Internet<'_>,
    plan: &Plan,
    before: Option<&Catchments>,
) -> Result<Catchments, RoutingError> {
    if internet.sites.len() <= 64 {
        Sweep::<1>::new(internet, plan, before).run()
    } else {
        Sweep::<4>::new(internet, plan, before).run()
    }
}

impl Internet<'_> {
    /// Whether an AS takes such a route.
    pub(super) fn accepts(
        &self,
        to: u32,
        treatment: &Treatment,
        length: u16,
        learned: Learned,
    ) -> bool {
        let flags = self.policies.flags[to as usize];
        let longest = if flags & EDGE != 0 {
            self.policies.path_max_edge
        } else {
            self.policies.path_max_transit
        };
        let leaked = treatment.tier1 && flags & TIER1_FILTER != 0 && learned != Learned::Provider;
        flags & ORIGIN == 0 && length <= longest && !leaked && !treatment.is_dropped_by(to)
    }
}

/// The state of the sweeps. Sets of sites have `64 * W` bits.
pub(super) struct Sweep<'a, const W: usize> {
    pub(super) internet: &'a Internet<'a>,
    pub(super) plan: &'a Plan,
    before: Option<&'a Catchments>,
    step: u32,
    announced: Vec<Option<Announced>>,
    pub(super) routes: Box<[Route]>,
    /// By AS: the sites of all routes as good as its own.
    sets: Box<[[u64; W]]>,
    /// By path length: ASes that have, or had, a route of that length.
    waiting: Vec<Vec<u32>>,
    /// ASes that a community makes prefer others to a customer's route.
    pub(super) demoting: Vec<u32>,
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
            demoting: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Catchments, RoutingError> {
        self.up();
        self.across();
        self.down();
        if !self.demoting.is_empty() {
            self.demoting.sort_unstable();
            self.demoting.dedup();
            self.relax()?;
        }
        Ok(self.finish())
    }

    /// The sites' own announcements over links of a kind.
    fn sites_announce(&mut self, kind: LinkKind, learned: Learned) {
        let internet = self.internet;
        for (number, link) in (0_u16..).zip(&internet.placed.links) {
            if link.kind != kind {
                continue;
            }
            if let Some(route) = self.announcement(number, learned) {
                let mut set = [0; W];
                set[link.site.index() >> 6] |= 1 << (link.site.0 & 63);
                self.offer(link.neighbour, route, set);
            }
        }
    }

    /// What is announced on a link.
    pub(super) fn announcement(&self, number: u16, learned: Learned) -> Option<Route> {
        let seed = self.plan.seeds[usize::from(number)].as_ref()?;
        Some(Route {
            from: SITE,
            since: 0,
            link: number,
            length: seed.length,
            treatment: seed.treatment,
            learned: Some(learned),
        })
    }

    /// From customers to providers, the shortest paths first.
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

    /// What came from customers goes to peers, once.
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

    /// From providers to customers, the shortest paths first.
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
    pub(super) fn settle(&mut self, index: u32) {
        let route = self.routes[index as usize];
        let old = self.before.map(|before| before.routes[index as usize]);
        let same = old.filter(|old| {
            // Treatments of another plan have other numbers; they follow from the announcement and the way.
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
                .map_or(self.step, |announced| announced.since),
        }
    }

    fn send(&mut self, from: u32, to: u32, learned: Learned) {
        if let Some(offered) = self.passed_on(from, to, learned) {
            self.offer(to, offered, self.sets[from as usize]);
        }
    }

    /// The route of an AS as a neighbour gets it.
    pub(super) fn passed_on(&self, from: u32, to: u32, learned: Learned) -> Option<Route> {
        let route = self.routes[from as usize];
        let (mut copies, mut treatment) = (0, route.treatment);
        if treatment != 0 {
            let acts = route.learned == Some(Learned::Customer) || route.from == SITE;
            let strips = self.internet.policies.flags[from as usize] & STRIPS != 0;
            let receiver = (self.internet.graph.asn(to), learned);
            (copies, treatment) = self
                .plan
                .passed_on(treatment, (from, acts, strips), receiver)?;
        }
        Some(Route {
            from,
            since: 0,
            link: route.link,
            length: route.length.saturating_add(1 + copies),
            treatment,
            learned: Some(learned),
        })
    }

    fn offer(&mut self, to: u32, offered: Route, set: [u64; W]) {
        // What came from a better side stays.
        if self
            .learned(to)
            .is_some_and(|has| Some(has) < offered.learned)
            || !self.accepts(to, &offered)
        {
            return;
        }
        if offered.learned == Some(Learned::Customer) && self.preference(to, &offered).is_some() {
            self.demoting.push(to);
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

    fn treatment(&self, route: &Route) -> &Treatment {
        &self.plan.treatments[usize::from(route.treatment)]
    }

    pub(super) fn accepts(&self, to: u32, offered: &Route) -> bool {
        let learned = offered.learned.unwrap_or(Learned::Provider);
        self.internet
            .accepts(to, self.treatment(offered), offered.length, learned)
    }

    /// How an AS ranks a customer's route, if a community makes it rank it lower.
    pub(super) fn preference(&self, to: u32, route: &Route) -> Option<Preference> {
        self.treatment(route).preference(to)
    }

    /// Of routes equally preferred and equally long, that with the least key is taken.
    pub(super) fn tie_key(&self, route: &Route) -> (u32, Asn, u16) {
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
        let internet = self.internet;
        let ties = if self.plan.is_plain() {
            let more = |set: &[u64; W]| set.iter().map(|word| word.count_ones()).sum::<u32>() > 1;
            let ties = (0_u32..).zip(self.sets.iter()).filter(|(_, set)| more(set));
            ties.map(|(index, set)| (index, SiteSet::from_words(set)))
                .collect()
        } else {
            Possible::ties(internet, self.plan)
        };
        let links = (0_u16..).zip(&internet.placed.links);
        Catchments {
            ties,
            routes: self.routes,
            links: links
                .map(|(number, link)| (link.site, internet.origin(number)))
                .collect(),
            announced: self.announced,
            step: self.step,
        }
    }
}
