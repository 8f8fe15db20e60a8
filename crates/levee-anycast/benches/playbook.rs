//! A playbook out of maps: with more blocks, more configurations, more replies lost; beside the plain way.
//!
//! `LEVEE_BENCH_FULL=1` adds the size of an Internet, 100 configurations of 6 million blocks, with the memory that it takes.

use std::collections::{BTreeSet, HashMap};
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use levee_anycast::map::{Block, CatchmentMap};
use levee_anycast::playbook::summary::Options;
use levee_anycast::playbook::{Summary, summarise};
use levee_policy::reroute::{Routing, SiteId, Sites};
use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64;

const SITES: u32 = 8;
/// Blocks of an "AS" go together.
const TOGETHER: u32 = 1_000;

fn sites() -> Sites {
    Sites::new((0..SITES).map(|i| format!("S{i}"))).expect("names differ")
}

/// Every play moves a quarter of the ASes and loses `lost` of a thousand replies. A third of all blocks answer.
fn map(play: u64, blocks: u32, lost: u32) -> (Routing, CatchmentMap) {
    let mut map = CatchmentMap::new(sites());
    let mut base = Pcg64::seed_from_u64(0);
    let mut moved = Pcg64::seed_from_u64(play + 1);
    let mut loss = Pcg64::seed_from_u64(!play);
    let step = if blocks > 5_000_000 { 2 } else { 3 };
    let mut site = SiteId(0);
    for i in 0..blocks {
        if i.is_multiple_of(TOGETHER) {
            let home = base.next_u32() % SITES;
            let (draw, away) = (moved.next_u32(), moved.next_u32() % SITES);
            site = SiteId(if play > 0 && draw.is_multiple_of(4) {
                away
            } else {
                home
            } as u8);
        }
        if lost == 0 || loss.next_u32() % 1_000 >= lost {
            map.set(Block::V4(i * step), site);
        }
    }
    let name = if play == 0 {
        "baseline".to_owned()
    } else {
        format!("play {play}")
    };
    (
        Routing {
            name,
            announcements: None,
        },
        map,
    )
}

fn maps(plays: u64, blocks: u32, lost: u32) -> Vec<(Routing, CatchmentMap)> {
    (0..plays).map(|play| map(play, blocks, lost)).collect()
}

fn naive(maps: &[(Routing, CatchmentMap)]) -> HashMap<Vec<Option<SiteId>>, u64> {
    let blocks: BTreeSet<Block> = maps
        .iter()
        .flat_map(|(_, map)| map.iter().map(|(block, _)| block))
        .collect();
    let mut classes = HashMap::new();
    for block in blocks {
        let vector: Vec<Option<SiteId>> = maps.iter().map(|(_, map)| map.site(block)).collect();
        *classes.entry(vector).or_default() += 1;
    }
    classes
}

fn summaries(c: &mut Criterion) {
    let mut group = c.benchmark_group("summarise");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1));
    for (plays, blocks, lost) in [
        (8, 100_000, 0),
        (8, 400_000, 0),
        (8, 1_600_000, 0),
        (32, 400_000, 0),
        (8, 400_000, 20),
    ] {
        let maps = maps(plays, blocks, lost);
        let size = format!("{plays} x {blocks}, {lost} of 1000 lost");
        group.throughput(Throughput::Elements(plays * u64::from(blocks)));
        group.bench_with_input(BenchmarkId::new("ours", &size), &maps, |b, maps| {
            b.iter(|| {
                black_box(summarise(maps, None, Options::default()).expect("maps of one service"))
            });
        });
        if blocks <= 400_000 && plays == 8 {
            group.bench_with_input(BenchmarkId::new("naive", &size), &maps, |b, maps| {
                b.iter(|| black_box(naive(maps)));
            });
        }
    }
    group.finish();
}

/// Once each, as it takes gigabytes.
fn full(_: &mut Criterion) {
    if std::env::var_os("LEVEE_BENCH_FULL").is_none() {
        return;
    }
    for (lost, name) in [(0, "none lost"), (20, "2% lost in each")] {
        let mut summary = Summary::new(sites());
        let mut busy = Duration::ZERO;
        for play in 0..100 {
            let (routing, map) = map(play, 6_000_000, lost);
            let begun = Instant::now();
            summary.push(routing, &map).expect("of one service");
            busy += begun.elapsed();
        }
        let begun = Instant::now();
        let made = summary
            .finish(None, Options::default())
            .expect("maps of one service");
        println!(
            "one after the other, {name}: {:.2} s taking 100 maps, {:.2} s after them; {} classes, {} kept, error {:.4}; peak {} MiB so far",
            busy.as_secs_f64(),
            begun.elapsed().as_secs_f64(),
            made.classes_exact,
            made.playbook
                .classes()
                .map_or(0, levee_policy::reroute::Classes::len),
            made.error_max,
            peak_mib(),
        );
        drop(made);
    }
    for (lost, name) in [(0, "none lost"), (20, "2% lost in each")] {
        let maps = maps(100, 6_000_000, lost);
        let before = peak_mib();
        let begun = Instant::now();
        let made = summarise(&maps, None, Options::default()).expect("maps of one service");
        println!(
            "all in memory, {name}: {:.2} s; {} classes; maps {before} MiB, peak {} MiB",
            begun.elapsed().as_secs_f64(),
            made.classes_exact,
            peak_mib(),
        );
    }
}

/// The most memory that the process had, where the system tells.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| {
        line.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<u64>()
            .ok()
    });
    kib.unwrap_or(0) / 1024
}

criterion_group!(benches, summaries, full);
criterion_main!(benches);
