//! Generated graphs against the measured one: CAIDA's of 2015-02-01, and the prefixes of 2014-05-13.

use std::path::PathBuf;

use levee_anycast::blocks::{Blocks, Family, Unit};
use levee_anycast::graph::AsGraph;
use levee_anycast::graph::generate::Generated;
use levee_anycast::simulate::{Deployment, Internet, Link, LinkKind, Policies, Site};
use levee_policy::reroute::{Asn, Routing};

fn data(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(name);
    let there = path.exists();
    if !there {
        eprintln!("skipped: {} is not here", path.display());
    }
    there.then_some(path)
}

/// The shape of a graph.
struct Shape {
    ases: usize,
    degrees: Vec<usize>,
    customers: Vec<usize>,
    cones: Vec<usize>,
    stubs: f64,
    /// Share of stubs with 1, 2, ... providers.
    homes: Vec<f64>,
    peering: f64,
    path_length: f64,
    by_depth: Vec<f64>,
}

impl Shape {
    fn of(graph: &AsGraph) -> Self {
        let all = || 0..graph.len() as u32;
        let stub = |index: &u32| graph.customers(*index).is_empty();
        let degree = |index: u32| {
            graph.customers(index).len() + graph.peers(index).len() + graph.providers(index).len()
        };
        let transit: Vec<u32> = all().filter(|index| !stub(index)).collect();
        let stubs = graph.len() - transit.len();
        let mut homes = vec![0.0; 12];
        for index in all()
            .filter(stub)
            .filter(|i| !graph.providers(*i).is_empty())
        {
            homes[graph.providers(index).len().min(12) - 1] += 1.0 / stubs as f64;
        }
        let links = graph.peer_links() + graph.transit_links();
        Self {
            ases: graph.len(),
            degrees: all().map(degree).collect(),
            customers: transit.iter().map(|i| graph.customers(*i).len()).collect(),
            cones: cones(graph, &transit),
            stubs: stubs as f64 / graph.len() as f64,
            homes,
            peering: graph.peer_links() as f64 / links as f64,
            path_length: path_length(graph),
            by_depth: by_depth(graph),
        }
    }
}

/// Customer cones: the AS, its customers, theirs, and so on.
fn cones(graph: &AsGraph, transit: &[u32]) -> Vec<usize> {
    let mut seen = vec![u32::MAX; graph.len()];
    let cone = |of: &u32| {
        let mut waiting = vec![*of];
        seen[*of as usize] = *of;
        let mut size = 0;
        while let Some(index) = waiting.pop() {
            size += 1;
            for customer in graph.customers(index) {
                if seen[*customer as usize] != *of {
                    seen[*customer as usize] = *of;
                    waiting.push(*customer);
                }
            }
        }
        size
    };
    transit.iter().map(cone).collect()
}

/// The share of ASes next to a Tier-1, two steps below one, and so on.
fn by_depth(graph: &AsGraph) -> Vec<f64> {
    let mut depth = vec![usize::MAX; graph.len()];
    let mut level: Vec<u32> = graph.tier1().to_vec();
    let mut shares = Vec::new();
    for steps in 0..6 {
        shares.push(level.len() as f64 / graph.len() as f64);
        let mut next = Vec::new();
        for index in &level {
            depth[*index as usize] = steps;
        }
        for customer in level.iter().flat_map(|index| graph.customers(*index)) {
            if depth[*customer as usize] == usize::MAX {
                depth[*customer as usize] = steps + 1;
                next.push(*customer);
            }
        }
        level = next;
    }
    shares
}

/// The mean AS path length to a customer of each of these many stubs, evenly spread.
fn path_length(graph: &AsGraph) -> f64 {
    const ORIGINS: usize = 40;
    let stubs: Vec<u32> = (0..graph.len() as u32)
        .filter(|i| graph.customers(*i).is_empty() && !graph.providers(*i).is_empty())
        .collect();
    let (mut sum, mut count) = (0.0, 0.0);
    for stub in stubs.iter().step_by(stubs.len() / ORIGINS) {
        let link = Link {
            neighbour: graph.asn(*stub),
            kind: LinkKind::Transit,
        };
        let site = Site {
            name: "A".to_owned(),
            asn: None,
            links: vec![link],
        };
        let deployment = Deployment {
            origin: Asn(4_200_000_000),
            sites: vec![site],
        };
        let internet =
            Internet::new(graph, &deployment, &Policies::plain()).expect("a site on a stub");
        let catchments = internet
            .catchments(&Routing::baseline(1))
            .expect("one site");
        for index in 0..graph.len() as u32 {
            if let Some(length) = catchments.path_length(index) {
                // To the stub itself, not its customer.
                sum += f64::from(length) - 1.0;
                count += 1.0;
            }
        }
    }
    sum / count
}

/// The share of figures that are at least this.
fn reach(sorted: &[usize], at: usize) -> f64 {
    let below = sorted.partition_point(|figure| *figure < at);
    (sorted.len() - below) as f64 / sorted.len() as f64
}

/// How many times more, or fewer, ASes reach a figure in one graph than in the other, at the worst figure that at least `few`
/// reach in both; and the largest difference of shares (Kolmogorov and Smirnov).
fn apart(a: &[usize], b: &[usize], few: usize) -> (f64, f64) {
    let sorted = |figures: &[usize]| {
        let mut sorted = figures.to_vec();
        sorted.sort_unstable();
        sorted
    };
    let (a, b) = (sorted(a), sorted(b));
    let mut at = 1.0_f64;
    let (mut ratio, mut difference) = (1.0_f64, 0.0_f64);
    loop {
        let figure = at.ceil() as usize;
        let (x, y) = (reach(&a, figure), reach(&b, figure));
        if x * (a.len() as f64) < few as f64 || y * (b.len() as f64) < few as f64 {
            return (ratio, difference);
        }
        ratio = ratio.max(x / y).max(y / x);
        difference = difference.max((x - y).abs());
        at = (at * 1.05).max(at + 1.0);
    }
}

#[test]
fn a_generated_graph_has_the_shape_of_the_measured_one() {
    let Some(path) = data("as-rel-2015-02-01.txt.gz") else {
        return;
    };
    let file = std::fs::File::open(path).unwrap();
    let measured = AsGraph::read("as-rel", file).unwrap();
    let real = Shape::of(&measured);
    for seed in 1..=3 {
        let generated = Generated::new(measured.len(), seed).graph();
        let ours = Shape::of(&generated);
        let near = |name: &str, ours: f64, real: f64, bound: f64| {
            println!("seed {seed} {name}: {ours:.4} real {real:.4}");
            assert!(
                (ours - real).abs() <= bound,
                "{name}: {ours} against {real}"
            );
        };
        near("ASes", ours.ases as f64, real.ases as f64, 0.0);
        near("stubs", ours.stubs, real.stubs, 0.002);
        near("peering share of links", ours.peering, real.peering, 0.02);
        near("mean path length", ours.path_length, real.path_length, 0.3);
        let links = |degrees: &[usize]| degrees.iter().sum::<usize>() as f64 / 2.0;
        near(
            "links",
            links(&ours.degrees) / links(&real.degrees),
            1.0,
            0.03,
        );
        for (steps, (ours, real)) in ours.by_depth.iter().zip(&real.by_depth).enumerate() {
            near(
                &format!("ASes {steps} below the clique"),
                *ours,
                *real,
                0.03,
            );
        }
        for (n, (ours, real)) in ours.homes.iter().zip(&real.homes).enumerate() {
            near(
                &format!("stubs with {} providers", n + 1),
                *ours,
                *real,
                0.01,
            );
        }
        // No figure is reached by 1.5 times as many ASes, or as few, while 20 reach it; cones of two are fewer.
        for (name, a, b) in [
            ("degrees", &ours.degrees, &real.degrees),
            ("customers", &ours.customers, &real.customers),
            ("cones", &ours.cones, &real.cones),
        ] {
            let (ratio, difference) = apart(a, b, 20);
            println!("seed {seed} {name}: ratio {ratio:.3} difference {difference:.4}");
            assert!(
                ratio < 1.5 && difference < 0.08,
                "{name}: {ratio} {difference}"
            );
        }
    }
}

#[test]
fn generated_blocks_are_spread_as_the_measured_ones() {
    let Some(path) = data("ipasn-2014-05-13.dat.gz") else {
        return;
    };
    let real = Blocks::open(&path, Family::Ipv4, Unit::Blocks)
        .unwrap()
        .blocks;
    let per_as = |blocks: &Blocks| -> Vec<usize> {
        blocks.counts().iter().map(|(_, n)| *n as usize).collect()
    };
    let generated = Generated::new(49_755, 1);
    let ours = generated.laid_out();
    let (ratio, difference) = apart(&per_as(&ours), &per_as(&real), 20);
    let total = ours.total() as f64 / real.total() as f64;
    println!("blocks: ratio {ratio:.3} difference {difference:.4} total {total:.3}");
    assert!(ratio < 1.5 && difference < 0.06, "{ratio} {difference}");
    assert!((total - 1.0).abs() < 0.1, "{total}");
    // Large ASes have more of them: of the ASes with customers, 15%, most blocks are.
    let transit = ours
        .counts()
        .iter()
        .filter(|(asn, _)| asn.0 as usize <= generated.transit);
    let share = transit.map(|(_, n)| n).sum::<u64>() as f64 / ours.total() as f64;
    println!("of ASes with customers: {share:.3}");
    assert!((share - 0.76).abs() < 0.08, "{share}");
}

/// Each block painted by hand, the longest prefixes last.
#[test]
fn blocks_of_the_measured_prefixes_are_those_of_the_longest_match() {
    use std::io::{BufRead as _, BufReader};
    let Some(path) = data("ipasn-2014-05-13.dat.gz") else {
        return;
    };
    let reading = Blocks::open(&path, Family::Ipv4, Unit::Blocks).unwrap();
    let packed = std::fs::File::open(path).unwrap();
    let mut prefixes = Vec::new();
    for line in BufReader::new(flate2::read::GzDecoder::new(packed)).lines() {
        let line = line.unwrap();
        let Some((prefix, asn)) = line.split_once('\t') else {
            continue;
        };
        let (address, length) = prefix.split_once('/').unwrap();
        let address: std::net::Ipv4Addr = address.parse().unwrap();
        let length: u32 = length.parse().unwrap();
        prefixes.push((length, u32::from(address) >> 8, asn.parse::<u32>().unwrap()));
    }
    assert_eq!(reading.prefixes, 512_490);
    prefixes.sort_unstable();
    let mut owner = vec![0_u32; 1 << 24];
    let mut longer = 0;
    for (length, first, asn) in prefixes {
        if length > 24 {
            longer += 1;
            continue;
        }
        let first = first as usize;
        owner[first..first + (1 << (24 - length))].fill(asn);
    }
    assert_eq!(reading.longer, longer);
    let mut at = 0_usize;
    for run in reading.blocks.runs().unwrap() {
        assert!(owner[at..run.first as usize].iter().all(|asn| *asn == 0));
        let end = (run.first + run.len) as usize;
        assert!(
            owner[run.first as usize..end]
                .iter()
                .all(|asn| *asn == run.asn.0)
        );
        at = end;
    }
    assert!(owner[at..].iter().all(|asn| *asn == 0));
}
