//! The planner against one that is written as its rules read.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

#[path = "planner_reference/naive.rs"]
#[expect(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::float_cmp,
    clippy::needless_range_loop,
    reason = "a reference is short"
)]
mod naive;

use levee_policy::reroute::{
    Classes, Play, Playbook, Range, Routing, SiteId, Sites,
    planner::{Figures, Plan, PlannerConfig, Situation, rank},
};
use proptest::{prelude::*, test_runner::RngSeed};

const NAMES: [&str; 8] = [
    "baseline",
    "+1xS0",
    "+2xS0",
    "+1xS1",
    "-1xS0",
    "0xS1",
    "+1xS0,0xS1",
    "-2xS1",
];

/// Whole numbers, so that sums are exact in any order; few of them, so that there are ties.
fn playbooks() -> impl Strategy<Value = Playbook> {
    (2usize..5, 1usize..=NAMES.len(), 1usize..12, any::<bool>()).prop_flat_map(
        |(sites, plays, classes, known)| {
            let n = u8::try_from(sites).unwrap();
            let site = prop_oneof![8 => 0..n, 1 => Just(Classes::NOWHERE)];
            let site = proptest::collection::vec(site, classes * plays);
            let blocks = proptest::collection::vec(0u64..5, classes);
            let flaws =
                proptest::collection::vec(proptest::option::weighted(0.2, any::<bool>()), plays);
            (site, blocks, flaws).prop_map(move |(site, blocks, flaws)| {
                let names = Sites::new((0..sites).map(|i| format!("S{i}"))).unwrap();
                let play = |i: usize| {
                    let mut counts = vec![0; sites];
                    for (site, blocks) in site[i * classes..][..classes].iter().zip(&blocks) {
                        if let Some(count) = counts.get_mut(usize::from(*site)) {
                            *count += blocks;
                        }
                    }
                    // A play that nobody reaches is flawed, which is told in a test of its own.
                    counts[0] += 1;
                    Play {
                        routing: Routing::parse(NAMES[i], &names).unwrap(),
                        blocks: counts,
                        unknown: 0,
                        load: None,
                        partial: flaws[i] == Some(true),
                        ineffective: flaws[i] == Some(false),
                    }
                };
                let plays: Vec<Play> = (0..plays).map(play).collect();
                let classes = known.then_some(Classes {
                    blocks,
                    load: Vec::new(),
                    site,
                });
                Playbook::new(names, plays, classes).unwrap()
            })
        },
    )
}

fn situations() -> impl Strategy<Value = (Playbook, Situation, PlannerConfig)> {
    let concentration = prop_oneof![Just(1.0), Just(2.0), Just(5.0), Just(f64::INFINITY)];
    let config = (
        concentration,
        prop_oneof![Just(0.0), Just(0.05)],
        prop_oneof![Just(0.01), Just(0.1)],
    );
    let config = config.prop_map(|(concentration, negligible, kept_step)| PlannerConfig {
        concentration,
        negligible,
        kept_step,
        ..PlannerConfig::default()
    });
    (playbooks(), config).prop_flat_map(|(playbook, config)| {
        let (sites, plays) = (playbook.sites().len(), playbook.plays().len());
        let load = (
            1u32..50,
            0u32..50,
            prop_oneof![6 => (0u32..50).prop_map(f64::from), 1 => Just(f64::INFINITY)],
        );
        let load = load.prop_map(|(low, more, most)| {
            let (low, likely) = (f64::from(low), f64::from(low + more));
            Range {
                low,
                likely,
                high: likely + most,
            }
        });
        let capacity = prop_oneof![6 => 1u32..150, 1 => Just(0)].prop_map(f64::from);
        let normal = proptest::collection::vec((0u32..40).prop_map(f64::from), sites);
        let some = || {
            proptest::collection::btree_set(
                (0..u8::try_from(sites).unwrap()).prop_map(SiteId),
                0..2,
            )
        };
        let figures = (
            proptest::collection::vec(load, sites),
            proptest::collection::vec(capacity, sites),
            proptest::option::of(normal),
        );
        let forbidden = proptest::collection::btree_set(1..plays.max(2), 0..2);
        let forbidden =
            forbidden.prop_map(move |set| set.into_iter().filter(|play| *play < plays).collect());
        (
            figures,
            0..plays,
            some(),
            some(),
            forbidden,
            Just(playbook),
            Just(config),
        )
            .prop_map(
                |(
                    (load, capacity, normal),
                    current,
                    absorbers,
                    breakwaters,
                    forbidden,
                    playbook,
                    config,
                )| {
                    let mut situation = Situation::new(current, capacity, load);
                    situation.normal = normal.map(Figures::Sites);
                    (
                        situation.absorbers,
                        situation.breakwaters,
                        situation.forbidden,
                    ) = (absorbers, breakwaters, forbidden);
                    (playbook, situation, config)
                },
            )
    })
}

fn near(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

fn same(a: Range, b: Range) -> bool {
    near(a.low, b.low) && near(a.likely, b.likely) && near(a.high, b.high)
}

fn check_against_naive(
    playbook: &Playbook,
    situation: &Situation,
    config: &PlannerConfig,
    plan: &Plan,
) {
    let naive = naive::rank(playbook, situation, config);
    let order = |plays: Vec<usize>| -> Vec<&str> {
        plays
            .iter()
            .map(|play| playbook.plays()[*play].routing.name.as_str())
            .collect()
    };
    let expect = order(naive.iter().map(|outcome| outcome.play).collect());
    assert_eq!(
        order(plan.choices.iter().map(|choice| choice.play).collect()),
        expect
    );
    for (choice, outcome) in plan.choices.iter().zip(&naive) {
        assert_eq!(
            (choice.over, choice.over_besides, choice.changes),
            (outcome.over, outcome.over_besides, outcome.changes)
        );
        assert!(
            near(choice.kept.likely, outcome.kept),
            "{} {}",
            choice.kept.likely,
            outcome.kept
        );
        for (site, forecast) in choice.sites.iter().enumerate() {
            assert!(
                same(forecast.load, outcome.load[site]),
                "{forecast:?} {:?}",
                outcome.load[site]
            );
            let naive = outcome.concentrated[site];
            assert!(same(forecast.concentrated, naive), "{forecast:?} {naive:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() })]

    #[test]
    fn plays_are_ranked_as_the_rules_read((playbook, situation, config) in situations()) {
        let plan = rank(&playbook, &situation, &config).unwrap();
        check_against_naive(&playbook, &situation, &config, &plan);
    }

    #[test]
    fn no_load_is_made_or_lost((playbook, situation, config) in situations()) {
        let Figures::Sites(offered) = &situation.offered else { unreachable!() };
        let offered = offered.iter().fold(Range::default(), |sum, load| sum + *load);
        let plan = rank(&playbook, &situation, &config).unwrap();
        for choice in &plan.choices {
            let sum = choice.sites.iter().fold(Range::default(), |sum, site| sum + site.load);
            prop_assert!(same(sum, offered), "{:?} {:?}", sum, offered);
            for site in &choice.sites {
                let slack = 1e-9 * site.load.likely.max(1.0);
                prop_assert!(site.load.low <= site.load.likely + slack && site.load.likely <= site.load.high + slack);
                prop_assert!(site.concentrated.low <= site.load.low + slack && site.load.high <= site.concentrated.high + slack);
                prop_assert!(site.concentrated.high <= offered.high + slack);
            }
            prop_assert!((0.0..=1.0).contains(&choice.kept.low) && choice.kept.low <= choice.kept.likely);
            prop_assert!(choice.kept.likely <= choice.kept.high && choice.kept.high <= 1.0);
        }
    }

    /// Whatever one play does to loads, the load by class tells the same as the load by site where it is spread by weight.
    #[test]
    fn load_by_class_and_by_site_agree((playbook, situation, config) in situations()) {
        let Some(classes) = playbook.classes().filter(|classes| !classes.site.contains(&Classes::NOWHERE)) else {
            return Ok(());
        };
        let weights = (0..classes.len()).map(|class| Range::exactly(classes.weight(class)));
        let mut by_class = situation.clone();
        by_class.offered = Figures::Classes(weights.collect());
        by_class.normal = None;
        let mut by_site = by_class.clone();
        let here = (0..classes.len()).map(|class| (classes.site(situation.current, class).unwrap(), classes.weight(class)));
        let mut sums = vec![0.0; playbook.sites().len()];
        here.for_each(|(site, weight)| sums[site.index()] += weight);
        by_site.offered = Figures::Sites(sums.into_iter().map(Range::exactly).collect());
        let loads = |situation: &Situation| {
            let mut choices = rank(&playbook, situation, &config).unwrap().choices;
            choices.sort_by_key(|choice| choice.play);
            choices.into_iter().flat_map(|choice| choice.sites).map(|site| site.load).collect::<Vec<Range>>()
        };
        for (a, b) in loads(&by_class).into_iter().zip(loads(&by_site)) {
            prop_assert!(same(a, b), "{:?} {:?}", a, b);
        }
    }
}
