//! Random hierarchies: the simulation and the naive oracle say the same.

use std::collections::BTreeMap;

use levee_policy::reroute::{
    Announcement, Asn, Community, Path, Routing, SiteId,
    candidates::{CommunityTable, Effect, Preference, Target},
};
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::reference::{Route, Session, World};
use crate::{
    graph::Relationship,
    simulate::{
        AsSet, Deployment, Internet, Link, LinkKind, Policies, Site, SiteSet, Tie, plan::Plan,
        possible::Possible,
    },
};

/// What a random world has, besides prepends and selective announcements.
#[derive(Clone, Copy, Debug, Default)]
struct With {
    poisons: bool,
    communities: bool,
    preferences: bool,
    /// Customers may be providers of their providers.
    circles: bool,
}

const PLAIN: With = With {
    poisons: false,
    communities: false,
    preferences: false,
    circles: false,
};

struct Draw(Pcg64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0.next_u32() as usize % n
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

fn world(ases: usize, sites: usize, seed: u64, with: With) -> World {
    let mut draw = Draw(Pcg64::seed_from_u64(seed));
    let mut asns: Vec<Asn> = Vec::new();
    while asns.len() < ases {
        let asn = Asn(draw.below(5 * ases) as u32 + 1);
        if !asns.contains(&asn) {
            asns.push(asn);
        }
    }
    let mut is = BTreeMap::new();
    let mut link = |a: Asn, b: Asn, a_is: Relationship| {
        if a != b && !is.contains_key(&(a, b)) {
            is.insert((a, b), a_is);
            is.insert((b, a), a_is.reversed());
        }
    };
    for i in 1..ases {
        for _ in 0..1 + draw.below(3) {
            let upto = if with.circles { ases } else { i };
            let provider = asns[draw.below(upto)];
            match draw.below(4) {
                0 => link(provider, asns[i], Relationship::Peer),
                _ => link(provider, asns[i], Relationship::Provider),
            }
        }
    }
    link(asns[0], asns[1], Relationship::Peer);
    let linked: Vec<Asn> = is.keys().map(|(a, _)| *a).collect();
    let deployment = deployment(&mut draw, sites, &linked);
    let policies = policies(&mut draw, &linked, with);
    let routing = routing(&mut draw, &deployment, &linked, &policies, with);
    World {
        is,
        tier1: asns[..2].to_vec(),
        deployment,
        policies,
        routing,
    }
}

fn deployment(draw: &mut Draw, sites: usize, ases: &[Asn]) -> Deployment {
    let mut site = |number: usize| {
        let mut links: BTreeMap<Asn, LinkKind> = BTreeMap::new();
        for _ in 0..1 + draw.below(3) {
            let kinds = [
                LinkKind::Transit,
                LinkKind::Transit,
                LinkKind::Peer,
                LinkKind::Customer,
            ];
            links.insert(draw.one(ases), draw.one(&kinds));
        }
        let link = |(neighbour, kind)| Link { neighbour, kind };
        Site {
            name: format!("S{number}"),
            asn: draw.chance(30).then_some(Asn(1_000 + number as u32)),
            links: links.into_iter().map(link).collect(),
        }
    };
    Deployment {
        // Some graphs have it as an AS, whose links then count for nothing.
        origin: Asn(999),
        sites: (0..sites).map(&mut site).collect(),
    }
}

fn policies(draw: &mut Draw, ases: &[Asn], with: With) -> Policies {
    let mut policies = Policies::plain();
    if draw.chance(30) {
        policies.path_max_transit = 3 + draw.below(5) as u16;
        policies.path_max_edge = 2 + draw.below(5) as u16;
    }
    if with.poisons {
        let sets = [
            AsSet::Nobody,
            AsSet::Everyone,
            AsSet::These(vec![draw.one(ases)]),
        ];
        policies.tier1_filter = sets[draw.below(3)].clone();
        policies.loops_taken = AsSet::Share {
            share: 0.2,
            seed: 5,
        };
    }
    if with.communities || with.preferences {
        policies.communities = communities(draw, ases, with);
        policies.communities_stripped = AsSet::Share {
            share: 0.2,
            seed: 6,
        };
    }
    policies
}

fn communities(draw: &mut Draw, ases: &[Asn], with: With) -> CommunityTable {
    let mut table = CommunityTable::default();
    for number in 0..6 {
        let target = match draw.below(5) {
            0 => Target::Everyone,
            1 => Target::Providers,
            2 => Target::Peers,
            3 => Target::Customers,
            _ => Target::As(draw.one(ases)),
        };
        let prefer = [Preference::Peer, Preference::Provider, Preference::Last];
        let effect = match draw.below(if with.preferences { 5 } else { 3 }) {
            0 => Effect::NoExportTo(target),
            1 => Effect::ExportOnlyTo(target),
            2 => Effect::PrependTo {
                target,
                times: 1 + draw.below(3) as u8,
            },
            _ => Effect::PreferAs(draw.one(&prefer)),
        };
        table.insert(draw.one(ases), Community::Standard(1, number), effect);
    }
    table
}

fn routing(
    draw: &mut Draw,
    deployment: &Deployment,
    ases: &[Asn],
    policies: &Policies,
    with: With,
) -> Routing {
    let path = |draw: &mut Draw| {
        let mut path = Path::default();
        if draw.chance(40) {
            path.prepend = draw.below(4) as u8;
        }
        if with.poisons && draw.chance(60) {
            path.poison = (0..1 + draw.below(2)).map(|_| draw.one(ases)).collect();
        }
        if policies.communities.upstreams().next().is_some() && draw.chance(70) {
            path.communities = (0..3)
                .map(|_| Community::Standard(1, draw.below(6) as u16))
                .collect();
        }
        (!draw.chance(10)).then_some(path)
    };
    let mut announcement = |site: &Site| {
        let mut announcement = Announcement {
            everyone: path(draw),
            neighbours: BTreeMap::new(),
        };
        if draw.chance(30) {
            let neighbour = site.links[draw.below(site.links.len())].neighbour;
            announcement.neighbours.insert(neighbour, path(draw));
        }
        announcement
    };
    Routing {
        name: "random".to_owned(),
        announcements: Some(deployment.sites.iter().map(&mut announcement).collect()),
    }
}

/// For each AS that reaches a site: which, and the path.
type Found = BTreeMap<Asn, (usize, Vec<Asn>)>;

fn found(routes: &super::reference::Routes) -> Found {
    let routes = routes.iter();
    routes
        .map(|(asn, route)| (*asn, (route.site, route.path())))
        .collect()
}

/// Some worlds of a kind: ASes, sites, seed.
fn worlds(ases_max: usize) -> impl Strategy<Value = (usize, usize, u64)> {
    (3..=ases_max, 1..=4_usize, any::<u64>())
}

fn settings(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(settings(400))]

    #[test]
    fn routes_are_those_of_the_oracle((ases, sites, seed) in worlds(14)) {
        for with in [PLAIN, With { poisons: true, ..PLAIN }, With { poisons: true, communities: true, ..PLAIN }] {
            let world = world(ases, sites, seed, with);
            let graph = world.graph();
            let internet = Internet::new(&graph, &world.deployment, &world.policies).unwrap();
            let catchments = internet.catchments(&world.routing).unwrap();
            let oracle = world.settle(&mut Pcg64::seed_from_u64(seed), &world.lowest()).unwrap();
            let ours = world.routes(&internet, &catchments);
            prop_assert_eq!(found(&ours), found(&oracle), "{:#?}", world);
            for index in 0..graph.len() as u32 {
                let site = catchments.site(index);
                prop_assert!(catchments.possible(index).contains(site) || site.is_none());
                let length = internet.path(&catchments, index).len();
                prop_assert_eq!(usize::from(catchments.path_length(index).unwrap_or(0)), length);
            }
        }
    }

    #[test]
    fn no_as_has_a_reason_to_change((ases, sites, seed) in worlds(14)) {
        // Also where more than one state is stable.
        let all = With { poisons: true, communities: true, preferences: true, circles: false };
        for with in [all, With { circles: true, preferences: false, ..all }, With { circles: true, ..PLAIN }] {
            let world = world(ases, sites, seed, with);
            let graph = world.graph();
            let internet = Internet::new(&graph, &world.deployment, &world.policies).unwrap();
            let catchments = internet.catchments(&world.routing).unwrap();
            let ours = world.routes(&internet, &catchments);
            for at in world.ases() {
                let best = world.best(at, &ours, &world.lowest());
                prop_assert_eq!(best.as_ref(), ours.get(&at), "{} in {:#?}", at, world);
            }
        }
    }

    #[test]
    fn whatever_the_ties_an_as_reaches_what_is_possible((ases, sites, seed) in worlds(10)) {
        let all = With { poisons: true, communities: true, preferences: true, circles: false };
        for with in [PLAIN, With { poisons: true, ..PLAIN }, With { preferences: false, ..all }, all] {
            let world = world(ases, sites, seed, with);
            let graph = world.graph();
            let internet = Internet::new(&graph, &world.deployment, &world.policies).unwrap();
            let catchments = internet.catchments(&world.routing).unwrap();
            let mut rng = Pcg64::seed_from_u64(seed);
            for _ in 0..8 {
                let salt = rng.next_u64();
                let tie = |at: Asn, route: &Route| random_rank(salt, at, route.session);
                // Preferences can make routes go round, and then there is nothing to compare with.
                let Some(oracle) = world.settle(&mut rng, &tie) else { continue };
                for (index, asn) in (0..).zip(graph.asns()) {
                    let site = oracle.get(asn).map(|route| SiteId(route.site as u8));
                    let possible = catchments.possible(index);
                    let nothing = site.is_none() && possible.is_empty();
                    prop_assert!(possible.contains(site) || nothing, "{} {:?} {:?} in {:#?}", asn, site, possible, world);
                }
            }
        }
    }

    #[test]
    fn both_ways_to_find_what_is_possible_agree_where_both_hold((ases, sites, seed) in worlds(14)) {
        let world = world(ases, sites, seed, PLAIN);
        let graph = world.graph();
        let internet = Internet::new(&graph, &world.deployment, &world.policies).unwrap();
        let catchments = internet.catchments(&world.routing).unwrap();
        let plan = Plan::new(&internet, &world.routing).unwrap();
        prop_assert_eq!(Possible::ties(&internet, &plan), catchments.uncertain());
    }

    #[test]
    fn one_change_after_another((ases, sites, seed) in worlds(12)) {
        let with = With { poisons: true, ..PLAIN };
        let mut world = world(ases, sites, seed, with);
        world.policies.tie = Tie::Oldest;
        let graph = world.graph();
        let internet = Internet::new(&graph, &world.deployment, &world.policies).unwrap();
        let mut draw = Draw(Pcg64::seed_from_u64(seed));
        let linked = world.ases();
        let mut routings = vec![world.routing.clone()];
        for _ in 0..5 {
            let other = routing(&mut draw, &world.deployment, &linked, &world.policies, with);
            let mut next = routings.last().unwrap().clone();
            let site = draw.below(sites);
            let announcement = &mut next.announcements.as_mut().unwrap()[site];
            match &mut announcement.everyone {
                // As long as before, and yet another route.
                Some(path) if !path.poison.is_empty() && draw.chance(60) => {
                    path.poison[0] = draw.one(&linked);
                }
                _ => *announcement = other.announcements.unwrap()[site].clone(),
            }
            routings.push(next);
        }
        let mut catchments = internet.catchments(&routings[0]).unwrap();
        for next in &routings[1..] {
            catchments = internet.change(&catchments, next).unwrap();
        }
        world.routing = routings[5].clone();
        let ours = world.routes(&internet, &catchments);
        prop_assert_eq!(found(&ours), found(&after(&world, &routings, seed)), "{:#?}", world);
    }

    #[test]
    fn sites_that_announce_in_turn((ases, sites, seed) in worlds(12)) {
        let mut world = world(ases, sites, seed, With { poisons: true, ..PLAIN });
        world.policies.tie = Tie::Oldest;
        let graph = world.graph();
        let internet = Internet::new(&graph, &world.deployment, &world.policies).unwrap();
        let order: Vec<SiteId> = (0..sites as u8).rev().map(SiteId).collect();
        let catchments = internet.in_order(&world.routing, &order).unwrap();
        let ours = world.routes(&internet, &catchments);
        prop_assert_eq!(found(&ours), found(&after(&world, &in_turn(&world), seed)), "{:#?}", world);
        let at_once = internet.catchments(&world.routing).unwrap();
        for index in 0..graph.len() as u32 {
            let possible = at_once.possible(index);
            let site = catchments.site(index);
            prop_assert!(possible.contains(site) || site.is_none() && possible.is_empty());
        }
    }
}

#[test]
fn larger_worlds() {
    let all = With {
        poisons: true,
        communities: true,
        preferences: true,
        circles: false,
    };
    let none = With {
        preferences: false,
        ..all
    };
    for seed in 0..4 {
        for with in [none, all] {
            let world = world(120, 4, seed, with);
            let graph = world.graph();
            let internet = Internet::new(&graph, &world.deployment, &world.policies).unwrap();
            let catchments = internet.catchments(&world.routing).unwrap();
            let ours = world.routes(&internet, &catchments);
            for at in world.ases() {
                let best = world.best(at, &ours, &world.lowest());
                assert_eq!(best.as_ref(), ours.get(&at), "AS{at}, {seed}, {with:?}");
            }
            if !with.preferences {
                let oracle = world.settle(&mut Pcg64::seed_from_u64(seed), &world.lowest());
                assert_eq!(found(&ours), found(&oracle.unwrap()), "{seed}, {with:?}");
            }
        }
    }
}

/// The same world with one site after another, the last first, and then all once more.
fn in_turn(world: &World) -> Vec<Routing> {
    let all = world.routing.announcements.as_ref().unwrap();
    let upto = (0..=all.len()).map(|step| {
        let from = all.len() - (step + 1).min(all.len());
        let mut some = all.clone();
        some[..from].fill(Announcement::withdrawn());
        Routing {
            name: step.to_string(),
            announcements: Some(some),
        }
    });
    upto.collect()
}

/// The routes after these configurations, each once those before it have settled, by the oracle: an AS stays with what it has had
/// for longest.
fn after(world: &World, routings: &[Routing], seed: u64) -> super::reference::Routes {
    let mut now = world.clone();
    let mut since: BTreeMap<(Asn, Session), (Route, usize)> = BTreeMap::new();
    let mut routes = super::reference::Routes::new();
    for (step, routing) in routings.iter().enumerate() {
        now.routing = routing.clone();
        let lowest = now.lowest();
        let tie = |at: Asn, route: &Route| {
            let old = since.get(&(at, route.session));
            let old = old.filter(|(old, _)| old == route);
            (old.map_or(step, |(_, since)| *since), lowest(at, route))
        };
        let mut rng = Pcg64::seed_from_u64(seed);
        routes = now.settle(&mut rng, &tie).unwrap();
        let mut next = BTreeMap::new();
        for at in now.ases() {
            for offer in now.offers(at, &routes) {
                let age = tie(at, &offer).0;
                next.insert((at, offer.session), (offer, age));
            }
        }
        since = next;
    }
    routes
}

/// For each AS another order of its sessions.
fn random_rank(salt: u64, at: Asn, session: Session) -> u64 {
    let session = match session {
        Session::Neighbour(asn) => u64::from(asn.0),
        Session::Link(link) => 1 << 32 | link as u64,
    };
    Pcg64::seed_from_u64(salt ^ u64::from(at.0).rotate_left(20) ^ session.rotate_left(40))
        .next_u64()
}

/// For each AS the sites that it reaches under some way to break the ties, and those said to be possible. Each AS has a favourite
/// among its neighbours; all combinations are tried. `None` where these are too many, or all is certain.
fn every_way(world: &World) -> Option<Vec<(Asn, SiteSet, SiteSet)>> {
    const WAYS_MAX: usize = 300;
    let graph = world.graph();
    let internet = Internet::new(&graph, &world.deployment, &world.policies).unwrap();
    let catchments = internet.catchments(&world.routing).unwrap();
    if catchments.uncertain().is_empty() {
        return None;
    }
    let mut sessions: BTreeMap<Asn, Vec<Session>> = BTreeMap::new();
    for (a, b) in world.is.keys() {
        sessions.entry(*b).or_default().push(Session::Neighbour(*a));
    }
    let links = world.deployment.sites.iter().flat_map(|site| &site.links);
    for (number, link) in links.enumerate() {
        let at = sessions.entry(link.neighbour).or_default();
        at.push(Session::Link(number));
    }
    // Favourites of ASes that never choose between equals make no difference.
    let lowest = world.settle(&mut Pcg64::seed_from_u64(1), &world.lowest())?;
    let is_plain = internet_is_plain(&internet, world);
    for (at, sessions) in &mut sessions {
        if is_plain {
            let offers = world.offers(*at, &lowest);
            sessions.retain(|session| offers.iter().any(|offer| offer.session == *session));
        }
    }
    sessions.retain(|_, sessions| sessions.len() > 1);
    let ways = sessions.values().try_fold(1, |ways: usize, s| {
        Some(ways * s.len()).filter(|ways| *ways <= WAYS_MAX)
    })?;
    let mut reached: BTreeMap<Asn, SiteSet> = BTreeMap::new();
    for way in 0..ways {
        let mut left = way;
        let mut favourite = BTreeMap::new();
        for (at, sessions) in &sessions {
            favourite.insert(*at, sessions[left % sessions.len()]);
            left /= sessions.len();
        }
        let tie = |at: Asn, route: &Route| favourite.get(&at) != Some(&route.session);
        let settled = world.settle(&mut Pcg64::seed_from_u64(way as u64), &tie)?;
        for at in graph.asns() {
            let site = settled.get(at).map(|route| SiteId(route.site as u8));
            reached.entry(*at).or_default().insert(site);
        }
    }
    let found = (0_u32..).zip(graph.asns()).map(|(index, at)| {
        let mut possible = catchments.possible(index);
        if possible.is_empty() {
            possible.insert(None);
        }
        (*at, reached[at], possible)
    });
    Some(found.collect())
}

fn internet_is_plain(internet: &Internet<'_>, world: &World) -> bool {
    Plan::new(internet, &world.routing).unwrap().is_plain()
}

#[test]
fn every_possible_site_is_reached_under_some_way_to_break_the_ties() {
    let (mut several, mut worlds) = (0, 0);
    for seed in 0..400 {
        let world = world(3 + seed as usize % 5, 2 + seed as usize % 2, seed, PLAIN);
        let Some(ways) = every_way(&world) else {
            continue;
        };
        worlds += 1;
        for (at, reached, possible) in ways {
            several += usize::from(possible.len() > 1);
            assert_eq!(reached, possible, "AS{at} of {world:#?}");
        }
    }
    assert!(worlds >= 50 && several >= 100, "{several} in {worlds}");
}

#[test]
fn little_is_said_to_be_possible_that_is_not_where_poisons_count() {
    let (mut more, mut several, mut worlds) = (0, 0, 0);
    let with = With {
        poisons: true,
        ..PLAIN
    };
    for seed in 0..1500 {
        let world = world(3 + seed as usize % 4, 2 + seed as usize % 2, seed, with);
        let Some(ways) = every_way(&world) else {
            continue;
        };
        worlds += 1;
        for (at, mut reached, possible) in ways {
            several += usize::from(reached.len() > 1);
            more += usize::from(possible != reached);
            reached.add(&possible);
            assert_eq!(reached, possible, "AS{at} of {world:#?}");
        }
    }
    assert!(
        worlds >= 50 && more * 10 <= several,
        "{more} of {several} in {worlds}"
    );
}
