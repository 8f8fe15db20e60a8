//! A predicted playbook from nothing: the graph is generated, simulated, weighed and grouped.
//!
//! - `generate`: graphs of up to 75,000 ASes.
//! - `predict/ases`: 8 sites and 60 configurations on graphs of up to 75,000 ASes.
//! - `predict/configurations`: 15 to 120 of them on 10,000 ASes.
//! - `predict/ordered`: the same 60, and which blocks hang on the order of announcements: 18 simulations each instead of one.
//!
//! The last line is the most memory that the process ever had, where the system tells (Linux).

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use levee_anycast::graph::generate::Generated;
use levee_anycast::predict::{Options, Prediction, predict};
use levee_anycast::simulate::{Deployment, Internet, Link, LinkKind, Policies, Site};
use levee_policy::reroute::candidates::{Menu, candidates};
use levee_policy::reroute::{Asn, Routing, Sites};

const ASES: [usize; 3] = [1_000, 10_000, 75_000];
const CONFIGURATIONS: [usize; 4] = [15, 30, 60, 120];
/// Region of each site, and the rank of its upstream there by customers.
const SITES: [(&str, usize); 8] = [
    ("europe", 1),
    ("europe", 4),
    ("north-america", 1),
    ("north-america", 4),
    ("asia", 0),
    ("south-america", 0),
    ("africa", 0),
    ("oceania", 0),
];

fn deployment(generated: &Generated) -> Deployment {
    let site = |(i, (region, rank)): (usize, &(&str, usize))| {
        let upstreams = generated.transit_of(region);
        let upstream = upstreams.get(*rank).or(upstreams.first());
        Site {
            name: format!("S{i}"),
            asn: None,
            links: vec![Link {
                neighbour: upstream.map_or(Asn(1), |(asn, _)| *asn),
                kind: LinkKind::Transit,
            }],
        }
    };
    Deployment {
        origin: Asn(4_200_000_000),
        sites: SITES.iter().enumerate().map(site).collect(),
    }
}

fn routings(deployment: &Deployment, count: usize) -> Vec<Routing> {
    let names = deployment.sites.iter().map(|site| site.name.as_str());
    let sites = Sites::new(names).expect("names that differ");
    let menu = Menu {
        pairs: true,
        ..Menu::default()
    };
    let mut routings = candidates(&sites, &menu).expect("a menu of prepends");
    routings.truncate(count);
    routings
}

fn whole(ases: usize, configurations: usize, ordered_plays: usize) -> Prediction {
    let generated = Generated::new(ases, 1);
    let graph = generated.graph();
    let deployment = deployment(&generated);
    let internet = Internet::new(&graph, &deployment, &Policies::default()).expect("upstreams");
    let options = Options {
        threads: NonZeroUsize::new(2).expect("two"),
        ordered_plays,
    };
    let routings = routings(&deployment, configurations);
    predict(&internet, &routings, &generated.laid_out(), None, &options).expect("a playbook")
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("generate");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500));
    for ases in ASES {
        group.bench_function(BenchmarkId::from_parameter(ases), |b| {
            b.iter(|| black_box(Generated::new(ases, 1)));
        });
    }
    group.finish();
    let mut group = c.benchmark_group("predict");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500));
    for ases in ASES {
        group.bench_function(BenchmarkId::new("ases", ases), |b| {
            b.iter(|| black_box(whole(ases, 60, 0)));
        });
    }
    for configurations in CONFIGURATIONS {
        group.bench_function(BenchmarkId::new("configurations", configurations), |b| {
            b.iter(|| black_box(whole(10_000, configurations, 0)));
        });
    }
    group.bench_function(BenchmarkId::new("ordered", 10_000), |b| {
        b.iter(|| black_box(whole(10_000, 60, 60)));
    });
    group.finish();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(line) = status.lines().find(|line| line.starts_with("VmHWM")) {
        println!("{line}");
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
