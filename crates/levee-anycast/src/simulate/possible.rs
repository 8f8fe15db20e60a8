//! Which sites an AS may reach, however ties are broken, when a route's poisons and communities count.
//!
//! Without them all routes of an AS that can win a tie have the same length and class, whoever wins elsewhere, and the sweeps give
//! the sites exactly. With them a tie upstream decides whether a neighbour takes the route at all, and so what an AS has to
//! choose from. Here each AS has the set of routes that it may use, and a bound that holds in any case: a neighbour whose every
//! possible route is sent and taken offers at least its worst. What is worse than the bound is never used. The set holds all
//! that can be, and may hold what cannot: who takes part in two ties is not remembered.

use std::collections::BTreeMap;

use levee_policy::reroute::Asn;

use super::{Internet, Learned, LinkKind, SiteSet, plan::Plan, policies::STRIPS};

/// The most routes that differ, of one AS. Only customers and providers in circles have more than some dozens.
const STATES_MAX: usize = 1024;

/// No bound.
const NEVER: u16 = u16::MAX;

/// A route that an AS may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    learned: Learned,
    length: u16,
    treatment: u16,
    /// The AS acts on its communities.
    acts: bool,
    sites: SiteSet,
}

pub(super) struct Possible<'a> {
    internet: &'a Internet<'a>,
    plan: &'a Plan,
    states: Vec<Vec<State>>,
    /// By AS: it surely has a route from a customer, or a peer.
    sure: Vec<bool>,
    /// By AS: of the class that is looked at, it surely has a route no longer than this.
    bound: Vec<u16>,
    /// By AS: a community makes it prefer others to a customer's route.
    demotes: Vec<bool>,
    /// By AS: it is never without a route.
    some: Vec<bool>,
    /// By length and AS: routes that may come.
    offers: BTreeMap<u16, Vec<(u32, State)>>,
    full: bool,
}

impl<'a> Possible<'a> {
    /// The ASes that may reach more than one site, ascending, and which.
    pub(super) fn ties(internet: &'a Internet<'a>, plan: &'a Plan) -> Vec<(u32, SiteSet)> {
        let ases = internet.graph.len();
        let mut possible = Self {
            internet,
            plan,
            states: vec![Vec::new(); ases],
            sure: vec![false; ases],
            bound: vec![NEVER; ases],
            demotes: vec![false; ases],
            some: vec![false; ases],
            offers: BTreeMap::new(),
            full: false,
        };
        for index in plan.demoting() {
            possible.demotes[index as usize] = true;
        }
        possible.up();
        possible.across();
        possible.down();
        possible.finish()
    }

    fn up(&mut self) {
        self.sites_announce(LinkKind::Transit, Learned::Customer);
        self.spread(Learned::Customer);
        self.closed();
    }

    fn across(&mut self) {
        self.sites_announce(LinkKind::Peer, Learned::Peer);
        // Only routes from customers are sent: what is found here goes no further before `down`.
        for index in self.all() {
            self.send_all(index, Learned::Peer);
        }
        for (length, offers) in core::mem::take(&mut self.offers) {
            self.take(length, offers);
        }
        self.closed();
    }

    fn down(&mut self) {
        self.sites_announce(LinkKind::Customer, Learned::Provider);
        for index in self.all() {
            self.send_all(index, Learned::Provider);
        }
        self.spread(Learned::Provider);
    }

    fn finish(self) -> Vec<(u32, SiteSet)> {
        if self.full {
            // Too many to tell: anything may be, wherever anything is.
            let seeds = self.plan.seeds.iter().zip(&self.internet.placed.links);
            let mut any: SiteSet = seeds
                .filter(|(seed, _)| seed.is_some())
                .map(|(_, link)| link.site)
                .collect();
            any.insert(None);
            return self.all().map(|index| (index, any)).collect();
        }
        let mut ties = Vec::new();
        for (index, states) in (0_u32..).zip(&self.states) {
            let mut sites = SiteSet::EMPTY;
            states.iter().for_each(|state| sites.add(&state.sites));
            let at = index as usize;
            let always = self.sure[at] || self.some[at] || self.bound[at] != NEVER;
            if !always && !sites.is_empty() {
                sites.insert(None);
            }
            if sites.len() > 1 {
                ties.push((index, sites));
            }
        }
        ties
    }

    fn all(&self) -> core::ops::Range<u32> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a graph numbers its ASes by u32"
        )]
        let all = 0..self.states.len() as u32;
        all
    }

    /// A class is done: who surely has a route of it takes none of the classes below.
    fn closed(&mut self) {
        for (sure, bound) in self.sure.iter_mut().zip(&mut self.bound) {
            *sure |= *bound != NEVER;
            *bound = NEVER;
        }
    }

    fn sites_announce(&mut self, kind: LinkKind, learned: Learned) {
        let internet = self.internet;
        for (link, seed) in internet.placed.links.iter().zip(&self.plan.seeds) {
            let Some(seed) = seed.as_ref().filter(|_| link.kind == kind) else {
                continue;
            };
            let state = State {
                learned,
                length: seed.length,
                treatment: seed.treatment,
                acts: true,
                sites: SiteSet::one(Some(link.site)),
            };
            if self.may_take(link.neighbour, &state) {
                if self.is_demoted(link.neighbour, &state) {
                    self.some[link.neighbour as usize] = true;
                } else {
                    let bound = &mut self.bound[link.neighbour as usize];
                    *bound = seed.length.min(*bound);
                }
                self.offers
                    .entry(seed.length)
                    .or_default()
                    .push((link.neighbour, state));
            }
        }
    }

    /// Takes offers, shortest first, and sends on what comes of them.
    fn spread(&mut self, learned: Learned) {
        while let Some((length, offers)) = self.offers.pop_first() {
            for index in self.take(length, offers) {
                let new = self.states[index as usize]
                    .iter()
                    .filter(|state| (state.learned, state.length) == (learned, length));
                for state in new.copied().collect::<Vec<_>>() {
                    for &to in self.receivers(index, learned) {
                        self.send(index, to, &state, learned);
                    }
                }
                if self.bound[index as usize] == length {
                    self.promise(index, learned);
                }
            }
        }
    }

    /// Offers of one length become states. Gives back whose they are, each once.
    fn take(&mut self, length: u16, mut offers: Vec<(u32, State)>) -> Vec<u32> {
        offers.sort_unstable();
        let mut taken = Vec::new();
        for (index, state) in offers {
            let at = index as usize;
            if self.sure[at] || length > self.bound[at] {
                continue;
            }
            let key = |state: &State| (state.learned, state.length, state.treatment, state.acts);
            let states = &mut self.states[at];
            if let Some(last) = states.last_mut().filter(|last| key(last) == key(&state)) {
                last.sites.add(&state.sites);
            } else if states.len() < STATES_MAX {
                states.push(state);
            } else {
                self.full = true;
            }
            if taken.last() != Some(&index) {
                taken.push(index);
            }
        }
        taken
    }

    /// Sends all that an AS may use, and what it surely has.
    fn send_all(&mut self, index: u32, learned: Learned) {
        for at in 0..self.states[index as usize].len() {
            let state = self.states[index as usize][at];
            for &to in self.receivers(index, learned) {
                self.send(index, to, &state, learned);
            }
        }
        if self.sure[index as usize] {
            self.promise(index, learned);
        }
    }

    fn receivers(&self, index: u32, learned: Learned) -> &'a [u32] {
        let graph = self.internet.graph;
        match learned {
            Learned::Customer => graph.providers(index),
            Learned::Peer => graph.peers(index),
            Learned::Provider => graph.customers(index),
        }
    }

    fn send(&mut self, from: u32, to: u32, state: &State, learned: Learned) {
        let at = to as usize;
        if self.sure[at] {
            return;
        }
        if let Some(offer) = self.offer(from, to, state, learned)
            && offer.length <= self.bound[at]
        {
            self.offers
                .entry(offer.length)
                .or_default()
                .push((to, offer));
        }
    }

    /// An AS surely has one of its routes: whom it sends all of them, and who takes all, has no worse than the worst.
    fn promise(&mut self, from: u32, learned: Learned) {
        for &to in self.receivers(from, learned) {
            let at = to as usize;
            // Where others are preferred to a customer's route, a promise may depend on what the AS itself chooses.
            if self.sure[at] || self.demotes[at] {
                continue;
            }
            let states = self.states[from as usize].iter();
            let worst = states
                .map(|state| Some(self.offer(from, to, state, learned)?.length))
                .try_fold(0, |worst: u16, length| Some(worst.max(length?)));
            if let Some(worst) = worst.filter(|worst| *worst > 0) {
                self.bound[at] = self.bound[at].min(worst);
            }
        }
    }

    /// What an AS gets, and may use, of this route of a neighbour.
    fn offer(&self, from: u32, to: u32, state: &State, learned: Learned) -> Option<State> {
        if learned != Learned::Provider && state.learned != Learned::Customer {
            return None;
        }
        let strips = self.internet.policies.flags[from as usize] & STRIPS != 0;
        let receiver: (Asn, Learned) = (self.internet.graph.asn(to), learned);
        let (copies, treatment) =
            self.plan
                .passed_on(state.treatment, (from, state.acts, strips), receiver)?;
        let offer = State {
            learned,
            length: state.length.saturating_add(1 + copies),
            treatment,
            acts: learned == Learned::Customer,
            sites: state.sites,
        };
        self.may_take(to, &offer).then_some(offer)
    }

    fn may_take(&self, to: u32, state: &State) -> bool {
        let treatment = &self.plan.treatments[usize::from(state.treatment)];
        self.internet
            .accepts(to, treatment, state.length, state.learned)
    }

    fn is_demoted(&self, to: u32, state: &State) -> bool {
        let treatment = &self.plan.treatments[usize::from(state.treatment)];
        state.learned == Learned::Customer && treatment.preference(to).is_some()
    }
}
