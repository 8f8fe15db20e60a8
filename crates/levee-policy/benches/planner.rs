//! The cost of ranking a playbook, over the number of classes, and against a planner that is written as its rules read.
#![expect(
    clippy::unwrap_used,
    reason = "a bench stops at what it did not expect"
)]

#[path = "../tests/planner_reference/naive.rs"]
#[expect(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::float_cmp,
    clippy::needless_range_loop,
    dead_code,
    reason = "a reference is short, and a bench looks at its order only"
)]
mod naive;

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use levee_policy::reroute::{
    Classes, Play, Playbook, Range, Routing, Sites,
    planner::{PlannerConfig, Situation, rank},
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const SITES: usize = 8;
const PLAYS: usize = 100;

/// Each class goes to one site in most plays and to any of them in one play of eight.
fn playbook(classes: usize, plays: usize) -> Playbook {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut below = |n: u64| rng.next_u64() % n;
    let home: Vec<u8> = (0..classes).map(|_| below(SITES as u64) as u8).collect();
    let blocks: Vec<u64> = (0..classes).map(|_| 1 + below(100)).collect();
    let mut site = Vec::with_capacity(classes * plays);
    for _ in 0..plays {
        site.extend(home.iter().map(|home| {
            if below(8) == 0 {
                below(SITES as u64) as u8
            } else {
                *home
            }
        }));
    }
    let sites = Sites::new((0..SITES).map(|i| format!("S{i}"))).unwrap();
    let play = |i: usize| {
        let mut counts = vec![0; SITES];
        let there = &site[i * classes..][..classes];
        there
            .iter()
            .zip(&blocks)
            .for_each(|(site, blocks)| counts[usize::from(*site)] += blocks);
        let mut routing = Routing::baseline(SITES);
        routing.name = format!("play {i}");
        Play {
            routing,
            blocks: counts,
            unknown: 0,
            load: None,
            partial: false,
            ineffective: false,
        }
    };
    let all = (0..plays).map(play).collect();
    let classes = Classes {
        blocks,
        load: Vec::new(),
        site,
    };
    Playbook::new(sites, all, Some(classes)).unwrap()
}

fn situation() -> Situation {
    let attack = Range {
        low: 400.0,
        likely: 500.0,
        high: 600.0,
    };
    let load = (0..SITES).map(|i| if i == 0 { attack } else { Range::exactly(50.0) });
    Situation::new(0, vec![150.0; SITES], load.collect())
}

fn planner(c: &mut Criterion) {
    let mut group = c.benchmark_group("planner");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1));
    let (situation, config) = (situation(), PlannerConfig::default());
    for classes in [1_000, 10_000, 100_000] {
        let playbook = playbook(classes, PLAYS);
        let id = BenchmarkId::new("rank 100 plays at 8 sites, by classes", classes);
        group.bench_function(id, |b| {
            b.iter(|| rank(black_box(&playbook), &situation, &config).unwrap());
        });
    }
    let playbook = playbook(1_000, PLAYS);
    group.bench_function("naive, 1000 classes", |b| {
        b.iter(|| naive::rank(black_box(&playbook), &situation, &config).len());
    });
    group.finish();
}

criterion_group!(benches, planner);
criterion_main!(benches);
