//! A small Internet, where the answer can be told by hand.
//!
//! ```text
//!      10 ------- 20        Tier-1s, peers
//!     /  \       /  \
//!   30    40   50    60
//!   | \   |     |   / |
//!   70 80-+     +--90 100
//! ```

use std::num::NonZeroUsize;

use levee_policy::reroute::{
    Announcement, Asn, Path, Routing, SiteId,
    candidates::{CommunityTable, Effect, Preference, Target},
};

use crate::{
    graph::AsGraph,
    simulate::{
        AsSet, Catchments, Deployment, Internet, Learned, Link, LinkKind, PATH_LENGTH_MAX,
        Policies, RoutingError, Site, Tie,
    },
};

const GRAPH: &str = "# inferred clique: 10 20\n10|20|0\n10|30|-1\n10|40|-1\n20|50|-1\n20|60|-1\n\
    30|70|-1\n30|80|-1\n40|80|-1\n50|90|-1\n60|90|-1\n60|100|-1\n";

fn graph() -> AsGraph {
    AsGraph::read("small", GRAPH.as_bytes()).unwrap()
}

fn site(name: &str, links: &[(u32, LinkKind)]) -> Site {
    Site {
        name: name.to_owned(),
        asn: None,
        links: links
            .iter()
            .map(|(neighbour, kind)| Link {
                neighbour: Asn(*neighbour),
                kind: *kind,
            })
            .collect(),
    }
}

use LinkKind::{Customer, Peer, Transit};

/// West buys from 30, east from 60.
fn two_sites() -> Deployment {
    Deployment {
        origin: Asn(1),
        sites: vec![site("W", &[(30, Transit)]), site("E", &[(60, Transit)])],
    }
}

fn announce(west: Path, east: Option<Path>) -> Routing {
    let announcement = |everyone| Announcement {
        everyone,
        ..Announcement::default()
    };
    Routing {
        name: "test".to_owned(),
        announcements: Some(vec![announcement(Some(west)), announcement(east)]),
    }
}

fn prepend(prepend: u8) -> Path {
    Path {
        prepend,
        ..Path::default()
    }
}

fn poison(asns: &[u32]) -> Path {
    Path {
        poison: asns.iter().map(|asn| Asn(*asn)).collect(),
        ..Path::default()
    }
}

fn tagged(community: &str) -> Path {
    Path {
        communities: vec![community.parse().unwrap()],
        ..Path::default()
    }
}

/// Sites by ASN; a small letter where it is not certain.
fn sites(internet: &Internet<'_>, catchments: &Catchments) -> String {
    let ases = (0_u32..).zip(internet.graph().asns());
    let shown = ases.map(|(index, asn)| {
        let name = catchments
            .site(index)
            .map_or("-", |site| internet.sites().name(site));
        let name = if catchments.is_certain(index) {
            name.to_owned()
        } else {
            name.to_lowercase()
        };
        format!("{asn}{name}")
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn check(deployment: &Deployment, policies: &Policies, routing: &Routing, expect: &str) {
    let graph = graph();
    let internet = Internet::new(&graph, deployment, policies).unwrap();
    let catchments = internet.catchments(routing).unwrap();
    assert_eq!(sites(&internet, &catchments), expect, "{routing:?}");
}

#[test]
fn routing_changes_move_catchments() {
    let plain = Policies::plain();
    let check = |routing, expect| check(&two_sites(), &plain, &routing, expect);
    let base = Some(Path::default());
    check(
        announce(Path::default(), base.clone()),
        "10W 20E 30W 40W 50E 60E 70W 80W 90E 100E",
    );
    // A customer's route is kept however long it is.
    check(
        announce(prepend(9), base.clone()),
        "10W 20E 30W 40W 50E 60E 70W 80W 90E 100E",
    );
    check(
        announce(Path::default(), None),
        "10W 20W 30W 40W 50W 60W 70W 80W 90W 100W",
    );
    // Without 10 the west has no way out but its own customers.
    check(
        announce(poison(&[10]), base.clone()),
        "10E 20E 30W 40E 50E 60E 70W 80W 90E 100E",
    );
    check(
        announce(poison(&[10]), None),
        "10- 20- 30W 40- 50- 60- 70W 80W 90- 100-",
    );
    // 80 drops it, and has the other site over 40.
    check(
        announce(poison(&[10, 80]), base.clone()),
        "10E 20E 30W 40E 50E 60E 70W 80E 90E 100E",
    );
}

#[test]
fn filters_of_the_real_internet() {
    let routing = |path| announce(path, Some(Path::default()));
    let policies = |change: &dyn Fn(&mut Policies)| {
        let mut policies = Policies::plain();
        change(&mut policies);
        policies
    };
    let filter = policies(&|p| p.tier1_filter = AsSet::Everyone);
    // 30 itself refuses its customer's path with a Tier-1 in it; a poison of any other AS passes.
    let lost = "10E 20E 30E 40E 50E 60E 70E 80E 90E 100E";
    check(&two_sites(), &filter, &routing(poison(&[20])), lost);
    let kept = "10W 20E 30W 40W 50E 60E 70W 80W 90E 100E";
    check(&two_sites(), &filter, &routing(poison(&[50])), kept);
    let some = policies(&|p| p.tier1_filter = AsSet::These(vec![Asn(40), Asn(7)]));
    let only_poisoned = "10W 20E 30W 40W 50E 60E 70W 80W 90E 100E";
    check(&two_sites(), &some, &routing(poison(&[20])), only_poisoned);
    let loops = policies(&|p| p.loops_taken = AsSet::These(vec![Asn(10)]));
    check(&two_sites(), &loops, &routing(poison(&[10])), kept);
    // What 30 gets has 3 ASes, what 70 and 80 get 4.
    let short = policies(&|p| p.path_max_edge = 3);
    let edge = "10W 20E 30W 40W 50E 60E 70- 80- 90E 100E";
    check(&two_sites(), &short, &routing(prepend(2)), edge);
    let middle = policies(&|p| p.path_max_transit = 2);
    let none = "10- 20E 30- 40- 50- 60E 70- 80- 90E 100E";
    check(&two_sites(), &middle, &routing(prepend(2)), none);
    assert!(
        AsSet::Share {
            share: 1.0,
            seed: 3
        }
        .contains(Asn(5))
    );
    assert!(
        !AsSet::Share {
            share: 0.0,
            seed: 3
        }
        .contains(Asn(5))
    );
    let share = AsSet::Share {
        share: 0.3,
        seed: 9,
    };
    let count = (0..100_000).filter(|asn| share.contains(Asn(*asn))).count();
    // Five standard errors of a binomial count.
    assert!(count.abs_diff(30_000) < 725, "{count}");
}

#[test]
fn communities_act_where_they_are_offered() {
    let mut policies = Policies::plain();
    let mut offer = |asn, community: &str, effect| {
        policies
            .communities
            .insert(Asn(asn), community.parse().unwrap(), effect);
    };
    offer(30, "30:1", Effect::NoExportTo(Target::Providers));
    offer(30, "30:2", Effect::ExportOnlyTo(Target::As(Asn(70))));
    offer(10, "10:1", Effect::NoExportTo(Target::Peers));
    offer(
        60,
        "60:3",
        Effect::PrependTo {
            target: Target::Everyone,
            times: 3,
        },
    );
    offer(30, "30:70", Effect::PreferAs(Preference::Last));
    let none = CommunityTable::default();
    let cases = [
        ("30:1", None, "10- 20- 30W 40- 50- 60- 70W 80W 90- 100-"),
        ("30:2", None, "10- 20- 30W 40- 50- 60- 70W 80- 90- 100-"),
        // Two steps away: 10 has the route from its customer 30.
        ("10:1", None, "10W 20- 30W 40W 50- 60- 70W 80W 90- 100-"),
        // Nobody's.
        ("30:9", None, "10W 20W 30W 40W 50W 60W 70W 80W 90W 100W"),
        // 30 takes what comes from the east over 10, and so does not send its customer's route up.
        (
            "30:70",
            Some(Path::default()),
            "10E 20E 30E 40E 50E 60E 70E 80E 90E 100E",
        ),
        ("30:70", None, "10W 20W 30W 40W 50W 60W 70W 80W 90W 100W"),
    ];
    for (community, east, expect) in cases {
        let graph = graph();
        let internet = Internet::new(&graph, &two_sites(), &policies).unwrap();
        let catchments = internet
            .catchments(&announce(tagged(community), east))
            .unwrap();
        let shown = sites(&internet, &catchments);
        // Where a preference counts, what is possible is an estimate from above.
        let loose = community == "30:70";
        let shown = if loose { shown.to_uppercase() } else { shown };
        assert_eq!(shown, expect, "{community}");
    }
    // Who strips communities passes on none.
    let stripped = Policies {
        communities_stripped: AsSet::These(vec![Asn(30)]),
        ..policies.clone()
    };
    let everywhere = "10W 20W 30W 40W 50W 60W 70W 80W 90W 100W";
    check(
        &two_sites(),
        &stripped,
        &announce(tagged("10:1"), None),
        everywhere,
    );
    let without = Policies {
        communities: none,
        ..policies.clone()
    };
    check(
        &two_sites(),
        &without,
        &announce(tagged("30:1"), None),
        everywhere,
    );
}

#[test]
fn prepends_by_a_community_are_in_the_path() {
    let mut policies = Policies::plain();
    let effect = Effect::PrependTo {
        target: Target::As(Asn(90)),
        times: 2,
    };
    policies
        .communities
        .insert(Asn(60), "60:2".parse().unwrap(), effect);
    let graph = graph();
    let internet = Internet::new(&graph, &two_sites(), &policies).unwrap();
    let routing = announce(Path::default(), Some(tagged("60:2")));
    let catchments = internet.catchments(&routing).unwrap();
    let path = |asn| {
        let path = internet.path(&catchments, graph.find(Asn(asn)).unwrap());
        path.iter().map(|asn| asn.0).collect::<Vec<_>>()
    };
    assert_eq!(path(100), [60, 1]);
    // Over 60 it is [60, 60, 60, 1].
    assert_eq!(path(90), [50, 20, 60, 1]);
    assert_eq!(path(80), [30, 1]);
    assert_eq!(path(40), [10, 30, 1]);
}

#[test]
fn kinds_of_links_and_several_sites_at_one_neighbour() {
    let plain = Policies::plain();
    let deployment = |west: &[(u32, LinkKind)], east: &[(u32, LinkKind)]| Deployment {
        origin: Asn(1),
        sites: vec![site("W", west), site("E", east)],
    };
    let base = announce(Path::default(), Some(Path::default()));
    // To a peer: it and its customers. From a customer of ours: it and its customers.
    let only = deployment(&[(30, Peer)], &[(60, Customer)]);
    check(
        &only,
        &plain,
        &base,
        "10- 20- 30W 40- 50- 60E 70W 80W 90E 100E",
    );
    // At one neighbour nobody outside can tell which it takes.
    let same = deployment(&[(30, Transit)], &[(30, Transit), (60, Transit)]);
    check(
        &same,
        &plain,
        &base,
        "10w 20E 30w 40w 50E 60E 70w 80w 90E 100E",
    );
    // 30 has a customer's route, of two ASes, before the peer's of one. 60 has a provider's of one, the site itself; 100 a peer's.
    let ranked = deployment(&[(30, Peer), (60, Customer)], &[(70, Transit), (100, Peer)]);
    check(
        &ranked,
        &plain,
        &base,
        "10E 20E 30E 40E 50E 60W 70E 80E 90W 100E",
    );
    // The origin's own links in the graph count for nothing.
    let inside = Deployment {
        origin: Asn(30),
        sites: vec![site("W", &[(70, Transit)]), site("E", &[(60, Transit)])],
    };
    check(
        &inside,
        &plain,
        &base,
        "10E 20E 30- 40E 50E 60E 70W 80E 90E 100E",
    );
}

#[test]
fn the_order_of_announcements_counts_where_the_oldest_route_stays() {
    // 80 hears of the west over 30 and of the north over 40, both two steps long.
    let deployment = Deployment {
        origin: Asn(1),
        sites: vec![site("W", &[(30, Transit)]), site("N", &[(40, Transit)])],
    };
    let base = Routing::baseline(2);
    let graph = graph();
    let eighty = graph.find(Asn(80)).unwrap();
    let oldest = Policies {
        tie: Tie::Oldest,
        ..Policies::plain()
    };
    let [west, north] = [SiteId(0), SiteId(1)];
    for (policies, order, expect) in [
        (Policies::plain(), [north, west], west),
        (oldest.clone(), [west, north], west),
        (oldest.clone(), [north, west], north),
    ] {
        let internet = Internet::new(&graph, &deployment, &policies).unwrap();
        let catchments = internet.in_order(&base, &order).unwrap();
        assert_eq!(catchments.site(eighty), Some(expect));
        assert!(!catchments.is_certain(eighty));
    }
    let internet = Internet::new(&graph, &deployment, &oldest).unwrap();
    let first = internet.in_order(&base, &[north, west]).unwrap();
    // A change elsewhere and back loses the age, and the tie goes to the lowest neighbour.
    let mut away = base.clone();
    away.announcements.as_mut().unwrap()[1] = Announcement::withdrawn();
    let changed = internet.change(&first, &away).unwrap();
    assert_eq!(changed.site(eighty), Some(west));
    let back = internet.change(&changed, &base).unwrap();
    assert_eq!(back.site(eighty), Some(west));
    let again = internet.change(&first, &base).unwrap();
    assert_eq!(again.site(eighty), Some(north));
    // Another path of the same length is another route, also two steps away.
    let poisoned = |asn| announce(poison(&[asn]), Some(poison(&[7])));
    let before = internet.catchments(&poisoned(8)).unwrap();
    assert_eq!(before.site(eighty), Some(west));
    let after = internet.change(&before, &poisoned(9)).unwrap();
    assert_eq!(after.site(eighty), Some(north));
}

#[test]
fn a_backup_can_stick() {
    // RFC 4264, section 3.1: the backup over 30 is asked to come last. Once the primary was away, 30 keeps the backup's side
    // only if nobody sends it the primary again; here its provider does, so that it goes back.
    let mut policies = Policies::plain();
    let last = Effect::PreferAs(Preference::Last);
    policies
        .communities
        .insert(Asn(30), "30:70".parse().unwrap(), last);
    let graph = graph();
    let internet = Internet::new(&graph, &two_sites(), &policies).unwrap();
    let both = announce(tagged("30:70"), Some(Path::default()));
    let backup = announce(tagged("30:70"), None);
    let thirty = graph.find(Asn(30)).unwrap();
    let normal = internet.catchments(&both).unwrap();
    assert_eq!(
        (normal.site(thirty), normal.learned(thirty)),
        (Some(SiteId(1)), Some(Learned::Provider))
    );
    let failed = internet.change(&normal, &backup).unwrap();
    assert_eq!(
        (failed.site(thirty), failed.learned(thirty)),
        (Some(SiteId(0)), Some(Learned::Customer))
    );
    // Both states are stable, so that 30 and those behind it are not certain.
    assert!(!normal.is_certain(thirty));
}

#[test]
fn more_sites_than_bits_in_a_word() {
    let graph = graph();
    let at = [70, 80, 90, 100, 30, 40, 50, 60];
    let names = (0..100).map(|n| site(&format!("S{n}"), &[(at[n % 8], Transit)]));
    let deployment = Deployment {
        origin: Asn(1),
        sites: names.collect(),
    };
    let internet = Internet::new(&graph, &deployment, &Policies::plain()).unwrap();
    let catchments = internet.catchments(&Routing::baseline(100)).unwrap();
    let possible = |asn| {
        let possible = catchments.possible(graph.find(Asn(asn)).unwrap());
        possible.sites().map(|site| site.0).collect::<Vec<_>>()
    };
    let every_eighth = |from: u8| (from..100).step_by(8).collect::<Vec<_>>();
    assert_eq!(possible(70), every_eighth(0));
    assert_eq!(possible(100), every_eighth(3));
    // Its own customers' sites are a step further than those at its own links.
    assert_eq!(possible(60), every_eighth(7));
}

#[test]
fn threads_do_not_change_results() {
    let graph = graph();
    let internet = Internet::new(&graph, &two_sites(), &Policies::default()).unwrap();
    let routings: Vec<Routing> = (0..20)
        .map(|n| announce(prepend(n), Some(prepend(20 - n))))
        .collect();
    let run = |threads| {
        let threads = NonZeroUsize::new(threads).unwrap();
        internet
            .each(&routings, threads, |routing, catchments| {
                (routing.clone(), catchments)
            })
            .unwrap()
    };
    let one = run(1);
    for threads in [2, 3, 50] {
        assert!(one == run(threads));
    }
    assert!(
        one.iter()
            .zip(&routings)
            .all(|((routing, _), given)| routing == given)
    );
    let bad = [
        routings[0].clone(),
        announce(prepend(1), None),
        Routing::baseline(3),
        Routing::baseline(4),
    ];
    let error = internet
        .each(&bad, NonZeroUsize::new(2).unwrap(), |_, _| ())
        .unwrap_err();
    assert!(
        matches!(error, RoutingError::Sites { found: 3, .. }),
        "{error}"
    );
    assert_eq!(
        internet
            .each(&[], NonZeroUsize::new(2).unwrap(), |_, _| ())
            .unwrap(),
        []
    );
}

#[test]
fn deployments_that_cannot_be() {
    let graph = graph();
    let check = |sites: Vec<Site>, expect: &str| {
        let deployment = Deployment {
            origin: Asn(1),
            sites,
        };
        let error = Internet::new(&graph, &deployment, &Policies::plain()).unwrap_err();
        assert!(error.to_string().starts_with(expect), "{error}");
    };
    check(vec![], "the names of the sites");
    check(
        vec![site("W", &[(30, Transit)]), site("W", &[(40, Transit)])],
        "the names of the sites",
    );
    check(vec![site("W", &[])], "site W has no link");
    check(
        vec![site("W", &[(31, Transit)])],
        "site W: its neighbour AS31 is not in the graph of 10 ASes",
    );
    check(
        vec![site("W", &[(30, Transit), (30, Peer)])],
        "site W: AS30 is named twice",
    );
    check(
        vec![site("W", &[(1, Transit)])],
        "site W: AS1 is the site's own AS",
    );
}

#[test]
fn configurations_that_cannot_be() {
    let graph = graph();
    let internet = Internet::new(&graph, &two_sites(), &Policies::plain()).unwrap();
    let check = |routing: &Routing, expect: &str| {
        let error = internet.catchments(routing).unwrap_err();
        assert!(error.to_string().starts_with(expect), "{error}");
    };
    let name_only = Routing {
        name: "0xW".to_owned(),
        announcements: None,
    };
    check(
        &name_only,
        "configuration 0xW: what the sites announce is not known",
    );
    check(
        &Routing::baseline(1),
        "configuration baseline: 1 announcements for 2 sites",
    );
    let mut routing = Routing::baseline(2);
    let west = &mut routing.announcements.as_mut().unwrap()[0];
    west.neighbours.insert(Asn(60), None);
    check(
        &routing,
        "configuration baseline: site W has no neighbour AS60",
    );
    let longest = usize::from(PATH_LENGTH_MAX);
    internet
        .catchments(&announce(poison(&vec![9; longest - 2]), None))
        .unwrap();
    let over = announce(poison(&vec![9; longest - 1]), None);
    check(
        &over,
        "configuration test: site W announces a path of 1001 ASes",
    );
}
