use levee_policy::reroute::{Announcement, Path};

use super::*;
use crate::blocks::Family;
use crate::graph::{AsGraph, Builder, Relationship};
use crate::map::Block;
use crate::simulate::{Deployment, Link, LinkKind, Policies, Site};

/// Two transit ASes, 1 and 2, which peer; AS 10 buys of 1, AS 20 of 2, AS 30 of both, and AS 40 of 30.
fn graph() -> AsGraph {
    let mut builder = Builder::new();
    builder.link(Asn(1), Asn(2), Relationship::Peer).unwrap();
    for (provider, customer) in [(1, 10), (2, 20), (1, 30), (2, 30), (30, 40)] {
        let link = builder.link(Asn(provider), Asn(customer), Relationship::Provider);
        link.unwrap();
    }
    builder.build().unwrap()
}

/// AMS at AS 1, BOS at AS 2.
fn sites() -> Deployment {
    let site = |name: &str, neighbour| Site {
        name: name.to_owned(),
        asn: None,
        links: vec![Link {
            neighbour: Asn(neighbour),
            kind: LinkKind::Transit,
        }],
    };
    Deployment {
        origin: Asn(64500),
        sites: vec![site("AMS", 1), site("BOS", 2)],
    }
}

fn routings() -> Vec<Routing> {
    let mut prepended = Routing::baseline(2);
    prepended.name = "+1xAMS".to_owned();
    let path = Path {
        prepend: 1,
        ..Path::default()
    };
    prepended.announcements.as_mut().unwrap()[0].everyone = Some(path);
    let mut withdrawn = Routing::baseline(2);
    withdrawn.name = "0xBOS".to_owned();
    withdrawn.announcements.as_mut().unwrap()[1] = Announcement::withdrawn();
    vec![Routing::baseline(2), prepended, withdrawn]
}

fn options(ordered_plays: usize) -> Options {
    Options {
        threads: NonZeroUsize::new(2).unwrap(),
        ordered_plays,
    }
}

/// AS 99 is not in the graph.
fn blocks() -> Blocks {
    let counts = [
        (1, 1),
        (2, 2),
        (10, 10),
        (20, 20),
        (30, 30),
        (40, 40),
        (99, 7),
    ];
    Blocks::of_counts(Family::Ipv4, counts.map(|(asn, n)| (Asn(asn), n)))
}

#[test]
fn a_play_counts_the_blocks_of_the_ases_that_reach_each_site() {
    let (graph, deployment) = (graph(), sites());
    let internet = Internet::new(&graph, &deployment, &Policies::plain()).unwrap();
    let of = |ordered| predict(&internet, &routings(), &blocks(), None, &options(ordered)).unwrap();
    let prediction = of(3);
    let counts: Vec<(&str, &[u64], u64)> = prediction
        .playbook
        .plays()
        .iter()
        .map(|play| (play.routing.name.as_str(), &play.blocks[..], play.unknown))
        .collect();
    // AS 30 and AS 40 behind it: two routes of equal length, and the tie goes to AS 1.
    let expect: [(&str, &[u64], u64); 3] = [
        ("baseline", &[81, 22], 7),
        ("+1xAMS", &[11, 92], 7),
        ("0xBOS", &[103, 0], 7),
    ];
    assert_eq!(counts, expect);
    assert_eq!(prediction.outside, 7);

    let [base, prepended, withdrawn] = &prediction.certainty[..] else {
        panic!("{:?}", prediction.certainty)
    };
    assert_eq!(
        (&base.certain[..], &base.on_order[..]),
        (&[11, 22][..], &[70, 0][..])
    );
    assert_eq!(base.possible, [81, 92]);
    assert!((base.share() - 33.0 / 103.0).abs() < 1e-12);
    assert_eq!((prepended.share(), withdrawn.share()), (1.0, 1.0));
    // Not looked at: it is a tie, and more is not known.
    let baseline_only = of(0);
    assert_eq!(baseline_only.certainty[0].on_tie, [70, 0]);
    assert!(!baseline_only.certainty[0].ordered);
    assert_eq!(baseline_only.playbook, prediction.playbook);
}

#[test]
fn ases_with_the_same_sites_in_all_plays_are_one_class() {
    let (graph, deployment) = (graph(), sites());
    let internet = Internet::new(&graph, &deployment, &Policies::plain()).unwrap();
    let mut loads = Loads::default();
    for (asn, load) in [(10, 5.0), (30, 1.0), (40, 0.5), (99, 100.0)] {
        loads.add(Asn(asn), load);
    }
    let prediction = predict(&internet, &routings(), &blocks(), Some(&loads), &options(1)).unwrap();
    let classes = prediction.playbook.classes().unwrap();
    assert_eq!(classes.blocks, [70, 22, 11]);
    assert_eq!(classes.load, [1.5, 0.0, 5.0]);
    let site = |class| {
        (0..3)
            .map(|play| classes.site(play, class).unwrap().0)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        [site(0), site(1), site(2)],
        [[0, 1, 0], [1, 1, 0], [0, 0, 0]]
    );
    let members: Vec<(u32, u32)> = prediction.members.iter().map(|(a, c)| (a.0, *c)).collect();
    assert_eq!(
        members,
        [(1, 2), (2, 1), (10, 2), (20, 1), (30, 0), (40, 0)]
    );
    assert_eq!(prediction.playbook.plays()[0].load, Some(vec![6.5, 0.0]));
    // What the classes tell is what the plays tell.
    for (p, play) in prediction.playbook.plays().iter().enumerate() {
        let mut blocks = vec![0; 2];
        for class in 0..classes.len() {
            blocks[classes.site(p, class).unwrap().index()] += classes.blocks[class];
        }
        assert_eq!(blocks, play.blocks);
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let (graph, deployment) = (graph(), sites());
    let internet = Internet::new(&graph, &deployment, &Policies::plain()).unwrap();
    let of = |routings: &[Routing], blocks: &Blocks| {
        let error = predict(&internet, routings, blocks, None, &options(1)).unwrap_err();
        error.to_string()
    };
    let elsewhere = Blocks::of_counts(Family::Ipv4, [(Asn(7), 1)]);
    assert!(
        of(&routings(), &elsewhere).starts_with("none of the 1 ASes with blocks is among the 6")
    );
    assert!(of(&[], &blocks()).contains("no playbook"));
    let three = [Routing::baseline(3)];
    assert!(of(&three, &blocks()).contains("3 announcements for 2 sites"));
    let twice = [Routing::baseline(2), Routing::baseline(2)];
    assert!(of(&twice, &blocks()).contains("no playbook"));
}

#[test]
fn loads_are_read_line_by_line() {
    let read = |text: &str| Loads::read("f", text.as_bytes());
    let loads = read("asn,load\n# all of it\n3,1.5\nAS7, 2\n3,1\n\n").unwrap();
    assert_eq!(
        (loads.of(Asn(3)), loads.of(Asn(7)), loads.of(Asn(8))),
        (2.5, 2.0, 0.0)
    );
    assert_eq!(loads.total(), 4.5);
    for bad in [
        "3", "3,", "3,-1", "3,inf", "3,nan", "-3,1", "x,1", "3;1", "3,1,1", "asn,load",
    ] {
        let error = read(&format!("3,1\n{bad}\n")).unwrap_err().to_string();
        assert!(error.starts_with("f:2: "), "{bad}: {error}");
    }
    let long = format!("3,1{}", "0".repeat(300));
    assert!(
        read(&long)
            .unwrap_err()
            .to_string()
            .contains("no short text")
    );
    let blocks = Blocks::laid_out([(Asn(5), 2)]);
    let at = |address: &str| Block::of(address.parse().unwrap());
    let of = [
        (at("1.0.0.9"), 1.0),
        (at("1.0.1.9"), 2.0),
        (at("9.9.9.9"), 4.0),
    ];
    let (loads, nobodys) = Loads::of_blocks(of, &blocks);
    assert_eq!((loads.of(Asn(5)), nobodys), (3.0, 4.0));
}

#[test]
fn a_poison_that_does_no_more_than_its_control_is_marked() {
    let (graph, deployment) = (graph(), sites());
    let internet = Internet::new(&graph, &deployment, &Policies::plain()).unwrap();
    let with = |name: &str, prepend: u8, poison: &[u32]| {
        let mut routing = Routing::baseline(2);
        routing.name = name.to_owned();
        routing.announcements.as_mut().unwrap()[0].everyone = Some(Path {
            prepend,
            poison: poison.iter().copied().map(Asn).collect(),
            communities: Vec::new(),
        });
        routing
    };
    // AS 10 buys of AS 1 only, and loses its route; AS 30 is gone to BOS by the length alone.
    let routings = [
        Routing::baseline(2),
        with("2xAMS", 2, &[]),
        with("poison 30", 0, &[30]),
        with("poison 10", 0, &[10]),
    ];
    let prediction = predict(&internet, &routings, &blocks(), None, &options(0)).unwrap();
    let marked = prediction
        .playbook
        .plays()
        .iter()
        .map(|play| play.ineffective);
    assert_eq!(marked.collect::<Vec<_>>(), [false, false, true, false]);
    assert_eq!(prediction.playbook.plays()[3].unknown, 7 + 10);
    assert_eq!(prediction.site(3, Asn(10)), None);
    assert_eq!(prediction.site(2, Asn(10)), Some(SiteId(0)));
    assert_eq!(prediction.site(2, Asn(99)), None);
}

#[test]
fn a_play_gives_the_map_that_would_be_measured() {
    let (graph, deployment) = (graph(), sites());
    let internet = Internet::new(&graph, &deployment, &Policies::plain()).unwrap();
    let blocks = Blocks::laid_out(blocks().counts().iter().copied());
    let prediction = predict(&internet, &routings(), &blocks, None, &options(0)).unwrap();
    for play in 0..3 {
        let map = prediction.map(play, &blocks).unwrap();
        let mut counts = [0_u64; 2];
        for (block, site) in map.iter() {
            counts[site.index()] += 1;
            assert_eq!(
                prediction.site(play, blocks.origin(block).unwrap()),
                Some(site)
            );
        }
        assert_eq!(prediction.playbook.plays()[play].blocks, counts);
    }
    assert!(prediction.map(0, &self::blocks()).is_none());
}
