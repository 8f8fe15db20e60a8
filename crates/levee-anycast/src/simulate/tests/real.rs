//! On CAIDA's graph of 2015, where it lies.

use std::num::NonZeroUsize;

use levee_policy::reroute::{Announcement, Asn, Path, Routing};

use crate::{
    graph::tests::caida,
    simulate::{Deployment, Internet, Link, LinkKind, Policies, Site},
};

/// Three universities' sites, as in BGPy's benchmark: each a fresh AS.
pub(super) fn deployment() -> Deployment {
    let site = |name: &str, asn, neighbours: &[u32]| Site {
        name: name.to_owned(),
        asn: Some(Asn(asn)),
        links: neighbours
            .iter()
            .map(|asn| Link {
                neighbour: Asn(*asn),
                kind: LinkKind::Transit,
            })
            .collect(),
    };
    Deployment {
        origin: Asn(4_200_000_000),
        sites: vec![
            site("AMS", 4_200_000_001, &[1103, 3356]),
            site("BOS", 4_200_000_002, &[10578]),
            site("CNF", 4_200_000_003, &[1916]),
        ],
    }
}

pub(super) fn prepending(prepends: &[u8]) -> Routing {
    let announcement = |prepend: &u8| Announcement {
        everyone: Some(Path {
            prepend: *prepend,
            ..Path::default()
        }),
        ..Announcement::default()
    };
    Routing {
        name: format!("{prepends:?}"),
        announcements: Some(prepends.iter().map(announcement).collect()),
    }
}

#[test]
fn the_shares_are_those_of_bgpy() {
    let Some(graph) = caida() else { return };
    let internet = Internet::new(&graph, &deployment(), &Policies::plain()).unwrap();
    // BGPy's shares of ASes in percent: AMS, BOS, CNF. It counts the three sites as ASes.
    let expect: [([u8; 3], [Option<f64>; 3]); 4] = [
        ([0, 0, 0], [Some(50.3), Some(15.4), Some(33.8)]),
        ([1, 0, 0], [Some(22.5), Some(30.6), Some(46.4)]),
        ([2, 0, 0], [Some(2.7), None, None]),
        ([3, 0, 0], [Some(1.0), None, None]),
    ];
    let routings: Vec<Routing> = expect
        .iter()
        .map(|(prepends, _)| prepending(prepends))
        .collect();
    let counts = |_: &Routing, catchments: crate::simulate::Catchments| {
        let mut counts = [1.0; 3];
        for site in catchments.sites().flatten() {
            counts[site.index()] += 1.0;
        }
        println!(
            "{} uncertain of {}",
            catchments.uncertain().len(),
            catchments.len()
        );
        counts.map(|count| 100.0 * count / (catchments.len() + 3) as f64)
    };
    let shares = internet
        .each(&routings, NonZeroUsize::new(2).unwrap(), counts)
        .unwrap();
    for (shares, (prepends, expect)) in shares.iter().zip(&expect) {
        for (share, expect) in shares.iter().zip(expect) {
            if let Some(expect) = expect {
                assert!(
                    (share - expect).abs() <= 0.05 + 1e-9,
                    "{prepends:?}: {shares:?}"
                );
            }
        }
    }
}
