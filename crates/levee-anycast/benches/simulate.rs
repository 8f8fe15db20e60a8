//! Route selection: 8 sites on generated graphs.
//!
//! - `ases`: one call of [`Internet::catchments`] as the graph grows. `plain`: prepends only. `poisoned`: each site poisons another
//!   AS, so that what is possible is found route by route. `naive`: the same routes as `plain`, by ASes that look at all their
//!   neighbours again and again until none changes its mind, shortest paths only: what a simulator without sweeps does at least.
//! - `configurations`: so many of them on 75,000 ASes with two threads.

use std::hint::black_box;
use std::num::NonZeroUsize;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use levee_anycast::graph::{AsGraph, generate::Generated};
use levee_anycast::simulate::{Catchments, Deployment, Internet, Link, LinkKind, Policies, Site};
use levee_policy::reroute::{Announcement, Asn, Path, Routing};

const ASES: [usize; 4] = [1_000, 5_000, 25_000, 75_000];
const CONFIGURATIONS: [usize; 3] = [15, 30, 60];
const SITES: usize = 8;

/// Each site buys from the same place in the order of its region's upstreams.
fn deployment(generated: &Generated) -> Deployment {
    let regions = ["europe", "north-america", "asia", "south-america"];
    let site = |number: usize| {
        let upstreams = generated.transit_of(regions[number % regions.len()]);
        let (neighbour, _) = upstreams[(number / regions.len()).min(upstreams.len() - 1)];
        Site {
            name: format!("S{number}"),
            asn: None,
            links: vec![Link {
                neighbour,
                kind: LinkKind::Transit,
            }],
        }
    };
    Deployment {
        origin: Asn(4_200_000_000),
        sites: (0..SITES).map(site).collect(),
    }
}

/// Site `n` prepends as the digits of `number` say, so that all differ.
fn routing(number: usize, poison: bool) -> Routing {
    let announcement = |site: usize| Announcement {
        everyone: Some(Path {
            prepend: u8::from(number >> site & 1 == 1),
            poison: poison
                .then_some(Asn(20 + site as u32))
                .into_iter()
                .collect(),
            communities: Vec::new(),
        }),
        ..Announcement::default()
    };
    Routing {
        name: number.to_string(),
        announcements: Some((0..SITES).map(announcement).collect()),
    }
}

/// By AS: class (0 customer, 1 peer, 2 provider), path length and site of the best route; lowest neighbour on a tie.
fn naive(graph: &AsGraph, at: &[(u32, u16)]) -> Vec<Option<(u8, u16, u8)>> {
    let mut routes = vec![None; graph.len()];
    loop {
        let mut changed = false;
        for index in 0..graph.len() as u32 {
            let sites = at.iter().zip(0_u8..).filter(|((to, _), _)| *to == index);
            let mut best = sites.map(|((_, length), site)| (0, *length, site)).min();
            let sides = [
                graph.customers(index),
                graph.peers(index),
                graph.providers(index),
            ];
            for (class, neighbours) in (0_u8..).zip(sides) {
                for neighbour in neighbours {
                    if let Some((theirs, length, site)) = routes[*neighbour as usize]
                        && (theirs == 0 || class == 2)
                        && best
                            .is_none_or(|(has, shortest, _)| (class, length + 1) < (has, shortest))
                    {
                        best = Some((class, length + 1, site));
                    }
                }
            }
            changed |= best != routes[index as usize];
            routes[index as usize] = best;
        }
        if !changed {
            return routes;
        }
    }
}

fn reached(catchments: &Catchments) -> usize {
    catchments.sites().flatten().count()
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("ases");
    group.sample_size(10);
    for ases in ASES {
        let generated = Generated::new(ases, 1);
        let graph = generated.graph();
        let deployment = deployment(&generated);
        let internet = Internet::new(&graph, &deployment, &Policies::plain()).expect("upstreams");
        group.throughput(Throughput::Elements(ases as u64));
        for (name, poison) in [("plain", false), ("poisoned", true)] {
            let routing = routing(5, poison);
            group.bench_function(BenchmarkId::new(name, ases), |bench| {
                bench.iter(|| reached(&internet.catchments(black_box(&routing)).expect("plays")));
            });
        }
        let links = deployment.sites.iter().zip(0..);
        let at: Vec<(u32, u16)> = links
            .filter_map(|(site, n)| Some((graph.find(site.links[0].neighbour)?, 1 + (5 >> n & 1))))
            .collect();
        group.bench_function(BenchmarkId::new("naive", ases), |bench| {
            bench.iter(|| naive(&graph, black_box(&at)).iter().flatten().count());
        });
    }
    group.finish();

    let mut group = c.benchmark_group("configurations");
    group.sample_size(10);
    let generated = Generated::new(75_000, 1);
    let graph = generated.graph();
    let policies = Policies::plain();
    let internet = Internet::new(&graph, &deployment(&generated), &policies).expect("upstreams");
    let threads = NonZeroUsize::new(2).expect("two");
    for count in CONFIGURATIONS {
        let routings: Vec<Routing> = (0..count).map(|number| routing(number, false)).collect();
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::from_parameter(count), |bench| {
            bench.iter(|| {
                internet
                    .each(&routings, threads, |_, catchments| reached(&catchments))
                    .expect("plays")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
