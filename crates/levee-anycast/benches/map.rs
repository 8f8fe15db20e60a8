//! Replies into a map, beside the plain way: a hash table of blocks.

use std::collections::HashMap;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use levee_anycast::map::{Block, Builder, Reply, Rtt, diff};
use levee_policy::reroute::{SiteId, Sites};

/// Replies of a shuffled hitlist: one of each block, and a twentieth again, some of those at another site.
fn replies(count: u32) -> Vec<Reply> {
    let blocks = u64::from(count) * 20 / 21;
    (0..u64::from(count))
        .map(|i| {
            // Steps that are odd go through all of 2^24 blocks, in no order.
            let i = if i < blocks { i } else { i - blocks };
            let bits = (i * 0x9E_3779 + 12_345) & 0xff_ffff;
            let again = u64::from(i * 20 > blocks * 19);
            Reply {
                block: Block::V4(bits as u32),
                site: SiteId(((bits >> 7) + again) as u8 % 7),
                rtt: Rtt::from_ms((bits % 300) as f64),
            }
        })
        .collect()
}

fn sites() -> Sites {
    Sites::new(["CDG", "IAD", "LHR", "MIA", "POA", "SYD", "AMS"]).expect("names")
}

fn build(replies: &[Reply]) -> Builder {
    let mut builder = Builder::new(&sites());
    for reply in replies {
        builder.add(*reply);
    }
    builder
}

fn into_a_map(c: &mut Criterion) {
    let mut group = c.benchmark_group("replies into a map");
    group.sample_size(10);
    for count in [600_000u32, 6_000_000] {
        let replies = replies(count);
        group.throughput(Throughput::Elements(u64::from(count)));
        group.bench_with_input(BenchmarkId::new("levee", count), &replies, |b, replies| {
            b.iter(|| black_box(build(replies).finish().expect("sites")));
        });
        group.bench_with_input(
            BenchmarkId::new("hash table", count),
            &replies,
            |b, replies| {
                b.iter(|| {
                    let mut map: HashMap<Block, (SiteId, Option<Rtt>, u64)> = HashMap::new();
                    for reply in replies {
                        map.entry(reply.block)
                            .and_modify(|known| known.2 += 1)
                            .or_insert((reply.site, reply.rtt, 1));
                    }
                    black_box(map)
                });
            },
        );
    }
    group.finish();
    let a = build(&replies(6_000_000)).finish().expect("sites");
    let b = build(&replies(5_900_000)).finish().expect("sites");
    let mut group = c.benchmark_group("maps of 6 million blocks");
    group.sample_size(10);
    group.bench_function("diff", |bench| bench.iter(|| black_box(diff(&a, &b, None))));
    group.finish();
}

criterion_group!(benches, into_a_map);
criterion_main!(benches);
