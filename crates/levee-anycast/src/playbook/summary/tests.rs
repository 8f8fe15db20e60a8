use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64;

use super::*;
use crate::map::Block;
use levee_policy::reroute::SiteId;

const N: usize = 4;

fn sites() -> Sites {
    Sites::new((0..N).map(|i| format!("S{i}"))).unwrap()
}

fn options(threads: usize, classes_max: usize) -> Options {
    Options {
        threads: NonZeroUsize::new(threads).unwrap(),
        classes_max,
    }
}

fn routing(play: usize) -> Routing {
    Routing {
        name: if play == 0 {
            "baseline".to_owned()
        } else {
            format!("play {play}")
        },
        announcements: None,
    }
}

/// Maps in which the blocks of an "AS" of 64 go together, `lost` of a thousand replies are lost, and some blocks are IPv6.
fn maps(plays: usize, blocks: u32, lost: u32, seed: u64) -> Vec<(Routing, CatchmentMap)> {
    let mut rng = Pcg64::seed_from_u64(seed);
    let one = |play| {
        let mut map = CatchmentMap::new(sites());
        for number in 0..blocks / 64 {
            let site = SiteId((rng.next_u32() % N as u32) as u8);
            for i in 0..64 {
                if rng.next_u32() % 1_000 >= lost {
                    let block = match number % 10 {
                        0 => Block::V6(u64::from(number) << 20 | i),
                        _ => Block::V4(number * 77 + i as u32),
                    };
                    map.set(block, site);
                }
            }
        }
        (routing(play), map)
    };
    (0..plays).map(one).collect()
}

/// The same as a person would write it: a table by the whole vector.
fn naive(maps: &[(Routing, CatchmentMap)], load: &LoadMap) -> Vec<(Vec<u8>, u64, f64)> {
    let blocks: std::collections::BTreeSet<Block> = maps
        .iter()
        .flat_map(|(_, map)| map.iter().map(|(block, _)| block))
        .collect();
    let mut classes = std::collections::BTreeMap::new();
    for block in blocks {
        let site = |(_, map): &(Routing, CatchmentMap)| map.site(block).map_or(255, |site| site.0);
        let vector: Vec<u8> = maps.iter().map(site).collect();
        let class = classes.entry(vector).or_insert((0, 0.0));
        class.0 += 1;
        class.1 += load.load(block);
    }
    classes
        .into_iter()
        .map(|(vector, (blocks, load))| (vector, blocks, load))
        .collect()
}

/// The classes of a playbook in the same form.
fn sorted(playbook: &Playbook) -> Vec<(Vec<u8>, u64, f64)> {
    let classes = playbook.classes().unwrap();
    let plays = playbook.plays().len();
    let vector = |class| {
        (0..plays)
            .map(|play| classes.site[play * classes.len() + class])
            .collect()
    };
    let class = |class| (vector(class), classes.blocks[class], classes.load[class]);
    let mut all: Vec<(Vec<u8>, u64, f64)> = (0..classes.len()).map(class).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// Whole numbers, so that sums are exact in whatever order.
fn load_of(maps: &[(Routing, CatchmentMap)]) -> LoadMap {
    let mut all = LoadMap::new();
    let blocks: std::collections::BTreeSet<Block> = maps
        .iter()
        .flat_map(|(_, map)| map.iter().map(|(block, _)| block))
        .collect();
    for block in blocks {
        let load = match block {
            Block::V4(bits) => f64::from(bits % 7),
            Block::V6(bits) => (bits % 5) as f64,
        };
        assert!(all.add(block, load));
    }
    all
}

#[test]
fn classes_and_counts_are_those_of_the_plain_way() {
    for (plays, blocks, lost) in [
        (1, 640, 0),
        (2, 6_400, 10),
        (12, 64_000, 0),
        (7, 32_000, 30),
    ] {
        let maps = maps(plays, blocks, lost, 1);
        let loads = load_of(&maps);
        let expect = naive(&maps, &loads);
        let made = summarise(&maps, Some(&loads), options(2, usize::MAX)).unwrap();
        assert_eq!(made.classes_exact, expect.len());
        assert!(made.error_max == 0.0);
        assert_eq!(sorted(&made.playbook), expect, "{plays} {blocks} {lost}");
        let rows: u64 = expect.iter().map(|class| class.1).sum();
        for (play, (_, map)) in made.playbook.plays().iter().zip(&maps) {
            let mut count = [0u64; N];
            let mut load = [0.0; N];
            for (block, site) in map.iter() {
                count[site.index()] += 1;
                load[site.index()] += loads.load(block);
            }
            assert_eq!(play.blocks, count);
            assert_eq!(play.load.as_deref(), Some(load.as_slice()));
            assert_eq!(play.unknown, rows - play.known());
        }
    }
}

#[test]
fn one_after_the_other_and_any_number_of_threads_give_the_same() {
    let maps = maps(9, 200_000, 20, 2);
    let loads = load_of(&maps);
    let expect = summarise(&maps, Some(&loads), options(1, 500)).unwrap();
    assert!(expect.classes_exact > 10_000);
    for threads in [2, 3, 8] {
        let made = summarise(&maps, Some(&loads), options(threads, 500)).unwrap();
        assert_eq!(made.playbook, expect.playbook, "{threads} threads");
    }
    let mut summary = Summary::new(sites());
    for (routing, map) in &maps {
        summary.push(routing.clone(), map).unwrap();
    }
    let made = summary.finish(Some(&loads), options(2, 500)).unwrap();
    assert_eq!(made.playbook, expect.playbook);
    assert_eq!(
        (made.classes_exact, made.error_max),
        (expect.classes_exact, expect.error_max)
    );
}

#[test]
fn thinned_classes_keep_the_baseline_and_come_near_the_rest() {
    let maps = maps(12, 200_000, 20, 3);
    let loads = load_of(&maps);
    for (weight, limit) in [(None, 400), (None, 4_000), (Some(&loads), 1_000)] {
        let made = summarise(&maps, weight, options(2, limit)).unwrap();
        let classes = made.playbook.classes().unwrap();
        let plays = made.playbook.plays();
        assert!(
            classes.len() <= limit && classes.len() > limit / 2,
            "{}",
            classes.len()
        );
        let rows = plays[0].known() + plays[0].unknown;
        assert_eq!(classes.blocks.iter().sum::<u64>(), rows);
        let mut worst = 0u64;
        for (p, play) in plays.iter().enumerate() {
            let mut count = [0u64; 256];
            for class in 0..classes.len() {
                count[classes.site(p, class).map_or(255, SiteId::index)] += classes.blocks[class];
            }
            if p == 0 {
                assert_eq!(count[..N], play.blocks, "the baseline is exact");
            }
            for (site, blocks) in play.blocks.iter().enumerate() {
                worst = worst.max(count[site].abs_diff(*blocks));
            }
            worst = worst.max(count[255].abs_diff(play.unknown));
        }
        let error = worst as f64 / rows as f64;
        assert!(
            (error - made.error_max).abs() < 1e-12,
            "{error} {}",
            made.error_max
        );
        if weight.is_none() {
            // Each cell is a draw of one class: five standard errors of a share of the tail, which is not more than all.
            let bound = 5.0 * 0.5 / (limit as f64 / 2.0).sqrt();
            assert!(error < bound, "{error} {bound}");
        }
    }
}

#[test]
fn a_limit_of_one_class_is_one_for_each_site_of_the_baseline() {
    let maps = maps(3, 6_400, 0, 4);
    let made = summarise(&maps, None, options(1, 1)).unwrap();
    assert!(made.playbook.classes().unwrap().len() <= N);
}

#[test]
fn maps_that_do_not_go_together_are_refused() {
    let mut two = maps(2, 640, 0, 5);
    two[1].1 = CatchmentMap::new(Sites::new(["S0", "S2"]).unwrap());
    let error = summarise(&two, None, Options::default())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "the map of play 1 has the sites S0, S2, expected S0, S1, S2, S3 in this order; read it with these sites"
    );
    let error = Summary::new(sites())
        .push(routing(3), &two[1].1)
        .unwrap_err();
    assert!(matches!(error, SummaryError::OtherSites { .. }));
    assert!(matches!(
        summarise(&[], None, Options::default()),
        Err(SummaryError::Playbook(_))
    ));
    let mut twice = maps(2, 640, 0, 6);
    twice[1].0 = routing(0);
    let error = summarise(&twice, None, Options::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("names that differ"), "{error}");
}

#[test]
fn a_play_that_lost_its_replies_is_partial() {
    let mut maps = maps(5, 64_000, 0, 7);
    let mut half = CatchmentMap::new(sites());
    for (block, site) in maps[3].1.iter().step_by(2) {
        half.set(block, site);
    }
    maps[3].1 = half;
    let made = summarise(&maps, None, Options::default()).unwrap();
    let partial: Vec<bool> = made
        .playbook
        .plays()
        .iter()
        .map(|play| play.partial)
        .collect();
    assert_eq!(partial, [false, false, false, true, false]);
}

#[test]
fn the_numbers_of_plays_sites_and_draws_differ() {
    let mut all: Vec<u64> = (0..3)
        .flat_map(|draw| (0..50).flat_map(move |play| numbers(draw, play)))
        .collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 3 * 50 * 256);
}

/// Two vectors of one sum, made on purpose, are told apart.
#[test]
fn rows_of_one_sum_but_other_sites_are_seen() {
    struct Two;
    impl Columns for Two {
        fn plays(&self) -> usize {
            1
        }
        fn rows(&self) -> usize {
            2
        }
        fn block(&self, row: u32) -> Block {
            Block::V4(row)
        }
        fn site(&self, _: usize, row: u32) -> u8 {
            row as u8
        }
        fn fill(&self, _: usize, from: usize, sites: &mut [u8]) {
            for (i, site) in sites.iter_mut().enumerate() {
                *site = (from + i) as u8;
            }
        }
    }
    let threads = NonZeroUsize::MIN;
    let groups = Groups::new(&[7, 7], &Two, None);
    assert!(count(&Two, &groups, threads).is_none());
    let groups = Groups::new(&sums(&Two, 0, threads), &Two, None);
    assert!(count(&Two, &groups, threads).is_some());
}
