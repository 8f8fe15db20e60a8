//! Where communities make an AS prefer other routes to a customer's (RFC 1998).
//!
//! Then the order of the sweeps is no longer that of preference, and more than one state may be stable: "BGP wedgies" (RFC 4264).
//! The sweeps leave such routes out. From there each AS in turn looks at what its neighbours send, until none changes its mind: the
//! state that is reached when the other sites had announced before.

use std::collections::{BTreeMap, VecDeque};

use levee_policy::reroute::candidates::Preference;

use super::{
    Learned, LinkKind,
    plan::RoutingError,
    propagate::{Route, Sweep},
};

/// How often ASes choose anew before the routes are said not to settle, for each AS of the graph.
const CHOICES_MAX: usize = 64;

impl<const W: usize> Sweep<'_, W> {
    pub(super) fn relax(&mut self) -> Result<(), RoutingError> {
        let graph = self.internet.graph;
        let mut links: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        for (number, link) in (0_u16..).zip(&self.internet.placed.links) {
            links.entry(link.neighbour).or_default().push(number);
        }
        let mut paths: Vec<u64> = (0_u32..)
            .zip(self.routes.iter())
            .map(|(index, route)| self.path_hash(index, route))
            .collect();
        let mut queue: VecDeque<u32> = self.demoting.iter().copied().collect();
        let mut queued = vec![false; graph.len()];
        for index in &queue {
            queued[*index as usize] = true;
        }
        let mut choices = CHOICES_MAX * graph.len();
        while let Some(index) = queue.pop_front() {
            queued[index as usize] = false;
            let best = self.best(index, links.get(&index).map_or(&[], Vec::as_slice));
            let path = self.path_hash(index, &best);
            let is_same = best.is_same_as(&self.routes[index as usize]);
            if is_same && path == paths[index as usize] {
                continue;
            }
            choices = choices
                .checked_sub(1)
                .ok_or_else(|| RoutingError::Unsettled {
                    name: self.plan.name.clone(),
                })?;
            self.routes[index as usize] = best;
            paths[index as usize] = path;
            self.settle(index);
            let neighbours = [
                graph.providers(index),
                graph.peers(index),
                graph.customers(index),
            ];
            for &neighbour in neighbours.into_iter().flatten() {
                if !core::mem::replace(&mut queued[neighbour as usize], true) {
                    queue.push_back(neighbour);
                }
            }
        }
        Ok(())
    }

    /// The best of what is sent to an AS now.
    fn best(&self, index: u32, links: &[u16]) -> Route {
        let graph = self.internet.graph;
        let mut best = Route::NONE;
        let mut consider = |offered: Option<Route>| {
            let Some(offered) = offered.filter(|route| self.accepts(index, route)) else {
                return;
            };
            let key = |route: &Route| (self.rank(index, route), route.length, self.tie_key(route));
            if best.learned.is_none() || key(&offered) < key(&best) {
                best = offered;
            }
        };
        for &number in links {
            let learned = match self.internet.placed.links[usize::from(number)].kind {
                LinkKind::Transit => Learned::Customer,
                LinkKind::Peer => Learned::Peer,
                LinkKind::Customer => Learned::Provider,
            };
            consider(self.announcement(number, learned));
        }
        let sides = [
            (graph.customers(index), Learned::Customer),
            (graph.peers(index), Learned::Peer),
            (graph.providers(index), Learned::Provider),
        ];
        for (neighbours, learned) in sides {
            for &from in neighbours {
                let has = self.routes[from as usize].learned;
                let sends = has == Some(Learned::Customer)
                    || (has.is_some() && learned == Learned::Provider);
                if sends && !self.is_on_path(index, from) {
                    consider(self.passed_on(from, index, learned));
                }
            }
        }
        best
    }

    fn rank(&self, index: u32, route: &Route) -> Preference {
        match route.learned {
            Some(Learned::Customer) => self
                .preference(index, route)
                .unwrap_or(Preference::Customer),
            Some(Learned::Peer) => Preference::Peer,
            Some(Learned::Provider) => Preference::Provider,
            None => Preference::Last,
        }
    }

    /// Whether an AS is on the path of another, or is it.
    fn is_on_path(&self, index: u32, mut at: u32) -> bool {
        while at != index {
            // A route is taken only where this finds no loop, so that the walk ends.
            let Some(from) = self.routes[at as usize].sender() else {
                return false;
            };
            at = from;
        }
        true
    }

    /// A number for the ASes on the way of a route.
    fn path_hash(&self, index: u32, route: &Route) -> u64 {
        let mut hash = u64::from(index);
        let mut next = route.sender();
        while let Some(from) = next {
            hash = (hash ^ u64::from(from))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29);
            next = self.routes[from as usize].sender();
        }
        hash
    }
}
