//! On CAIDA's graph of 2015, where it lies.

use std::{collections::BTreeMap, fs, num::NonZeroUsize, path::PathBuf};

use levee_policy::reroute::{
    Announcement, Asn, Community, Path, Routing,
    candidates::{Effect, Preference},
};

use crate::{
    graph::tests::caida,
    simulate::{Catchments, Deployment, Internet, Learned, Link, LinkKind, Policies, Site},
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
    let counts = |_: &Routing, catchments: Catchments| {
        let mut counts = [1.0; 3];
        for site in catchments.sites().flatten() {
            counts[site.index()] += 1.0;
        }
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

/// What the authors measured in 2022 at one AS: the site of most of its targets, and how many there are.
type Measured = BTreeMap<Asn, (String, usize)>;

/// A raw run of the authors, by AS of the target; `None` where it is not.
fn measured(run: &str) -> Option<Measured> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/tangled-2022-03/poison");
    let starts = format!("poison-{run}#");
    let file = fs::read_dir(folder).ok()?.flatten().find(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with(&starts) && name.ends_with(".csv.gz")
    })?;
    let reader = flate2::read::MultiGzDecoder::new(fs::File::open(file.path()).unwrap());
    let mut counts: BTreeMap<Asn, BTreeMap<String, usize>> = BTreeMap::new();
    for row in csv::Reader::from_reader(reader).records().flatten() {
        if let (Some(site), Some(Ok(asn))) = (row.get(1), row.get(11).map(str::parse)) {
            *counts
                .entry(Asn(asn))
                .or_default()
                .entry(site[3..6].to_owned())
                .or_default() += 1;
        }
    }
    let most = counts.into_iter().map(|(asn, sites)| {
        let all = sites.values().sum();
        let (site, _) = sites.into_iter().max_by_key(|(_, count)| *count).unwrap();
        (asn, (site, all))
    });
    Some(most.collect())
}

/// How the authors' runs compare with the simulation: ASes that both know, at how many both have the same site, and how many
/// ASes reach Miami in either.
#[derive(Debug, Default)]
struct Compared {
    both: usize,
    same: usize,
    miami_measured: usize,
    miami_simulated: usize,
}

fn compared(internet: &Internet<'_>, run: &str, path: Path) -> Option<Compared> {
    let mut routing = Routing::baseline(3);
    routing.announcements.as_mut().unwrap()[1].everyone = Some(path);
    let catchments = internet.catchments(&routing).unwrap();
    let mut compared = Compared::default();
    for (asn, (site, _)) in measured(run)? {
        compared.miami_measured += usize::from(site == "mia");
        if let Some(index) = internet.graph().find(asn) {
            let ours = catchments.site(index);
            let ours = ours.map(|site| internet.sites().name(site));
            compared.both += 1;
            compared.same += usize::from(ours == Some(&site));
        }
    }
    let at_miami = catchments.sites().flatten();
    compared.miami_simulated = at_miami.filter(|site| site.0 == 1).count();
    println!("{run}: {compared:?}");
    Some(compared)
}

#[test]
fn poisons_do_to_the_authors_site_in_miami_what_they_do_here() {
    // Their sites of 2022 on the graph of 2015, as far as it has the neighbours. One of those in Porto Alegre is younger.
    let Some(graph) = caida() else { return };
    let site = |name: &str, neighbour| Site {
        name: name.to_owned(),
        asn: None,
        links: vec![Link {
            neighbour: Asn(neighbour),
            kind: LinkKind::Transit,
        }],
    };
    let deployment = Deployment {
        origin: Asn(1149),
        sites: vec![
            site("ams", 20_473),
            site("mia", 20_080),
            site("poa", 262_605),
        ],
    };
    let internet = Internet::new(&graph, &deployment, &Policies::default()).unwrap();
    let prepends = |prepend| Path {
        prepend,
        ..Path::default()
    };
    let poisons = |asn| Path {
        poison: vec![Asn(asn)],
        ..Path::default()
    };
    let Some(baseline) = compared(&internet, "baseline", prepends(0)) else {
        eprintln!("skipped: the authors' runs may not be passed on, and are not here");
        return;
    };
    let compared = |run, path| compared(&internet, run, path).unwrap();
    let [one, two] = [("1xMIA", 1), ("2xMIA", 2)].map(|(run, n)| compared(run, prepends(n)));
    assert!(baseline.miami_measured > one.miami_measured);
    assert!(baseline.miami_simulated > one.miami_simulated);
    // A small network's number in the path does what as many prepends do.
    let small = compared("1916", poisons(1916));
    assert!(small.miami_measured.abs_diff(two.miami_measured) <= 1);
    assert!(small.miami_simulated.abs_diff(two.miami_simulated) <= two.miami_simulated / 20);
    // A Tier-1's: the upstream filters it as a leak, and nobody reaches Miami.
    for (run, asn) in [("174", 174), ("3356", 3356), ("1299", 1299), ("701", 701)] {
        let tier1 = compared(run, poisons(asn));
        assert_eq!(
            (tier1.miami_measured, tier1.miami_simulated),
            (0, 0),
            "{run}"
        );
    }
}

#[test]
fn a_backup_over_a_tier_1_takes_no_traffic_of_others() {
    // AMS asks 3356 to use it last of all. What is left of its catchment comes over its other upstream.
    let Some(graph) = caida() else { return };
    let mut policies = Policies::plain();
    let community: Community = "3356:70".parse().unwrap();
    let last = Effect::PreferAs(Preference::Last);
    policies.communities.insert(Asn(3356), community, last);
    let internet = Internet::new(&graph, &deployment(), &policies).unwrap();
    let mut routing = prepending(&[0, 0, 0]);
    let tagged = Path {
        communities: vec![community],
        ..Path::default()
    };
    let ams = &mut routing.announcements.as_mut().unwrap()[0];
    ams.neighbours.insert(Asn(3356), Some(tagged));
    let backup = internet.catchments(&routing).unwrap();
    ams_only(&mut routing);
    let alone = internet.catchments(&routing).unwrap();
    let level3 = graph.find(Asn(3356)).unwrap();
    // It has a customer's route without it: that of another site, or of AMS by the other upstream.
    assert_eq!(backup.learned(level3), Some(Learned::Customer));
    assert!(backup.next(level3).is_some());
    let share = |catchments: &Catchments| {
        let at_ams = catchments.sites().flatten().filter(|site| site.0 == 0);
        at_ams.count() as f64 / graph.len() as f64
    };
    let plain = internet.catchments(&prepending(&[0, 0, 0])).unwrap();
    assert!(share(&backup) < share(&plain));
    assert!(share(&alone) > 0.99);
}

/// Leaves the first site's announcement.
fn ams_only(routing: &mut Routing) {
    let announcements = routing.announcements.as_mut().unwrap();
    announcements[1..].fill(Announcement::withdrawn());
}
