//! What a plan says, told by small cases that can be worked out by hand.

use std::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use super::*;
use crate::reroute::{Classes, Play, Routing, Sites};

/// Lines of `name blocks-of-each-site`; `!` after a name: partial, `?`: an ineffective poison.
fn playbook(sites: &str, plays: &str) -> Playbook {
    let sites = Sites::new(sites.split(' ')).unwrap();
    let plays = plays.trim().lines().map(|line| {
        let mut words = line.split_whitespace();
        let marked = words.next().unwrap();
        let name = marked.trim_end_matches(['!', '?']);
        let announcements = Routing::parse(name, &sites)
            .ok()
            .and_then(|routing| routing.announcements);
        Play {
            routing: Routing {
                name: name.to_string(),
                announcements,
            },
            blocks: words.map(|word| word.parse().unwrap()).collect(),
            unknown: 0,
            load: None,
            partial: marked.ends_with('!'),
            ineffective: marked.ends_with('?'),
        }
    });
    let plays = plays.collect();
    Playbook::new(sites, plays, None).unwrap()
}

/// Classes of one block each, a line a play: `name` and the site of each class, by its number, `-` for none.
fn classes(sites: &str, plays: &str) -> Playbook {
    let n = sites.split(' ').count();
    let lines: Vec<(&str, Vec<u8>)> = plays
        .trim()
        .lines()
        .map(|line| {
            let (name, row) = line.trim().split_once(' ').unwrap();
            let row = row.chars().filter(|c| *c != ' ');
            (
                name,
                row.map(|c| c.to_digit(10).map_or(Classes::NOWHERE, |d| d as u8))
                    .collect(),
            )
        })
        .collect();
    let count = |row: &[u8], site: usize| {
        row.iter()
            .filter(|s| usize::from(**s) == site)
            .count()
            .to_string()
    };
    let totals: Vec<String> = lines
        .iter()
        .map(|(name, row)| {
            let counts: Vec<String> = (0..n).map(|site| count(row, site)).collect();
            format!("{name} {}", counts.join(" "))
        })
        .collect();
    let totals = playbook(sites, &totals.join("\n"));
    let classes = Classes {
        blocks: vec![1; lines[0].1.len()],
        load: Vec::new(),
        site: lines.into_iter().flat_map(|(_, row)| row).collect(),
    };
    Playbook::new(
        totals.sites().clone(),
        totals.plays().to_vec(),
        Some(classes),
    )
    .unwrap()
}

fn situation<const N: usize>(capacity: [f64; N], load: [f64; N]) -> Situation {
    Situation::new(0, capacity.to_vec(), load.map(Range::exactly).to_vec())
}

fn plan(playbook: &Playbook, situation: &Situation) -> Plan {
    rank(playbook, situation, &PlannerConfig::default()).unwrap()
}

/// The names in their order, with why each lost.
fn told(playbook: &Playbook, plan: &Plan) -> Vec<String> {
    let tell = |choice: &Choice| {
        let name = &playbook.plays()[choice.play].routing.name;
        match &choice.lost {
            Some(lost) => format!("{name}: {}", lost.text(playbook.sites())),
            None => name.clone(),
        }
    };
    plan.choices.iter().map(tell).collect()
}

fn loads(choice: &Choice) -> Vec<f64> {
    choice
        .sites
        .iter()
        .map(|site| (site.load.likely * 10.0).round() / 10.0)
        .collect()
}

/// The load that the authors plan with, at three sites that carry 50,000 each.
#[test]
fn the_attack_of_the_authors_is_spread_over_their_sites() {
    let playbook = playbook(
        "AMS BOS CNF",
        "baseline 65 14 21
         +1xAMS 37 29 34
         +2xAMS 20 33 47
         0xAMS 0 45 55
         -1xAMS 84 6 10",
    );
    let situation = situation([50_000.0; 3], [85_000.3, 16_000.2, 16_978.5]);
    let plan = plan(&playbook, &situation);
    assert_eq!(
        told(&playbook, &plan),
        [
            "+1xAMS",
            "+2xAMS: CNF would get 50,979 of 50,000",
            "0xAMS: keeps 84.6% of the normal load, not 99.1%",
            "baseline: keeps 73.2% of the normal load, not 84.6%",
            "-1xAMS: keeps 56.8% of the normal load, not 73.2%",
        ]
    );
    // AMS keeps 37 of its 65 parts; the 28 that it loses go to BOS and CNF as 15 to 13.
    let best = plan.best();
    assert_eq!(loads(best), [48_384.8, 35_615.7, 33_978.6]);
    assert_eq!((best.changes, plan.next_line.as_slice()), (1, &[][..]));
    assert!(plan.carries() && plan.shortfall().is_none());
}

#[test]
fn what_is_deployed_stays_if_it_carries_the_load() {
    let playbook = playbook("A B", "baseline 50 50\n+1xA 40 60");
    let plan = plan(&playbook, &situation([100.0, 100.0], [99.9, 60.0]));
    assert_eq!(
        told(&playbook, &plan),
        ["baseline", "+1xA: changes 1 site, not 0"],
        "the other one has more headroom, and changes something"
    );
    assert_eq!(loads(plan.best()), [99.9, 60.0]);
}

#[test]
fn ties_go_by_changes_then_by_headroom_then_by_name() {
    let playbook = playbook(
        "A B C",
        "baseline 80 10 10
         +1xA 40 30 30
         1xA 40 30 30
         +2xA 36 32 32
         -1xB 40 30 30",
    );
    let plan = plan(&playbook, &situation([70.0; 3], [80.0, 10.0, 10.0]));
    assert_eq!(
        told(&playbook, &plan),
        [
            "+2xA",
            "+1xA: leaves 42.9% of the fullest site free, not 48.6%",
            "1xA: does the same, and is later by name",
            "-1xB: changes 2 sites, not 1",
            "baseline: A would get 80 of 70",
        ],
        "headroom in the worst case: A could be over where the attack is concentrated, in all of them"
    );
}

#[test]
fn the_worst_case_counts_before_the_likely_one() {
    let playbook = playbook(
        "A B",
        "baseline 100 0
         +1xA 60 40
         +2xA 50 50",
    );
    let config = PlannerConfig {
        concentration: 1.0,
        ..PlannerConfig::default()
    };
    let mut situation = situation([70.0, 70.0], [0.0, 0.0]);
    let mut told_of = |high: f64| {
        let load = Range {
            low: 80.0,
            likely: 100.0,
            high,
        };
        situation.offered = Figures::Sites(vec![load, Range::default()]);
        let plan = rank(&playbook, &situation, &config).unwrap();
        let best = plan.best().over;
        (told(&playbook, &plan).join("; "), best)
    };
    let (told, best) = told_of(140.0);
    assert_eq!(best, Over::Never);
    assert_eq!(
        told,
        "+2xA; +1xA: A would get 84 of 70 at the upper end of the estimate; baseline: A would get 100 of 70"
    );
    // Neither carries the worst case: then the likely one counts.
    let (told, best) = told_of(150.0);
    assert_eq!(best, Over::Worst);
    assert_eq!(
        told,
        "+2xA; +1xA: leaves 14.3% of the fullest site free, not 28.6%; baseline: A would get 100 of 70"
    );
    let (told, best) = told_of(f64::INFINITY);
    assert_eq!(best, Over::Worst);
    assert!(told.starts_with("+2xA; +1xA: leaves 14.3%"), "{told}");
}

#[test]
fn an_attack_may_be_denser_where_it_moves() {
    // Of the ten classes of A, three move to B.
    let playbook = classes("A B", "baseline 0000000000\n+1xA 0000000111");
    let mut situation = situation([100.0, 100.0], [90.0, 0.0]);
    let both = |situation: &Situation, concentration: f64| {
        let config = PlannerConfig {
            concentration,
            ..PlannerConfig::default()
        };
        let plan = rank(&playbook, situation, &config).unwrap();
        let moved = plan.choices.iter().find(|choice| choice.play == 1).unwrap();
        let sites = moved.sites.iter();
        sites
            .map(|s| [s.concentrated.low, s.load.likely, s.concentrated.high].map(f64::round))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        both(&situation, 1.0),
        [[63.0, 63.0, 63.0], [27.0, 27.0, 27.0]]
    );
    assert_eq!(
        both(&situation, 2.0),
        [[36.0, 63.0, 90.0], [0.0, 27.0, 54.0]]
    );
    assert_eq!(
        both(&situation, f64::INFINITY),
        [[0.0, 63.0, 90.0], [0.0, 27.0, 90.0]]
    );
    // Normal load is as the playbook says, however the attack is.
    situation.normal = Some(Figures::Sites(vec![40.0, 0.0]));
    assert_eq!(
        both(&situation, 2.0),
        [[48.0, 63.0, 78.0], [12.0, 27.0, 42.0]]
    );
    assert_eq!(
        both(&situation, f64::INFINITY),
        [[28.0, 63.0, 78.0], [12.0, 27.0, 62.0]]
    );
}

#[test]
fn load_that_is_known_by_class_goes_with_its_class() {
    let playbook = classes(
        "A B",
        "baseline 0000000000\n+1xA 0000000111\n+2xA 1110000000",
    );
    let mut situation = situation([60.0, 60.0], [0.0, 0.0]);
    // The attack comes from the last classes.
    let by_class = |i: usize| Range::exactly(if i >= 8 { 45.0 } else { 1.0 });
    situation.offered = Figures::Classes((0..10).map(by_class).collect());
    let config = PlannerConfig {
        concentration: 9.0,
        ..PlannerConfig::default()
    };
    let plan = rank(&playbook, &situation, &config).unwrap();
    let loads: Vec<Vec<f64>> = plan.choices.iter().map(loads).collect();
    assert_eq!(
        loads,
        [[7.0, 91.0], [95.0, 3.0], [98.0, 0.0]],
        "nothing is spread that is known"
    );
    assert!(
        plan.choices
            .iter()
            .all(|choice| choice.sites.iter().all(|s| s.load == s.concentrated))
    );
}

#[test]
fn blocks_without_a_site_say_nothing_of_the_way() {
    // Of the classes of A that are known in both plays, one of two moves.
    let playbook = classes("A B", "baseline 0 0 0 - 1\n+1xA 0 1 - 1 1");
    let mut situation = situation([50.0, 50.0], [60.0, 10.0]);
    let moved = |plan: &Plan| loads(plan.choices.iter().find(|choice| choice.play == 1).unwrap());
    assert_eq!(moved(&plan(&playbook, &situation)), [30.0, 40.0]);
    // Known by class, what goes nowhere goes by the shares, 1 to 3.
    situation.offered =
        Figures::Classes([10.0, 10.0, 40.0, 0.0, 10.0].map(Range::exactly).to_vec());
    assert_eq!(moved(&plan(&playbook, &situation)), [20.0, 50.0]);
}

#[test]
fn when_nothing_carries_it_the_most_normal_load_is_kept_and_the_rest_is_named() {
    let playbook = playbook(
        "BIG MID SMALL",
        "baseline 50 30 20
         0xSMALL 60 40 0
         -1xBIG 80 10 10
         -2xBIG 100 0 0",
    );
    let mut attack = situation([200.0, 40.0, 10.0], [500.0, 300.0, 200.0]);
    let plan_of = |situation: &Situation| told(&playbook, &plan(&playbook, situation));
    // 0.5 * 200/500 + 0.3 * 40/300 + 0.2 * 10/200 = 0.25: each site serves what it can. A site that gets nothing serves nothing.
    assert_eq!(
        plan_of(&attack),
        [
            "baseline",
            "-1xBIG: changes 2 sites, not 0",
            "0xSMALL: keeps 24.0% of the normal load, not 25.0%",
            "-2xBIG: keeps 20.0% of the normal load, not 24.0%",
        ],
        "-1xBIG: 0.8 * 200/800 + 0.1 * 40/100 + 0.1 * 10/100 = 0.25, too"
    );
    let plan_ = plan(&playbook, &attack);
    assert_eq!(plan_.shortfall(), Some(750.0));
    assert_eq!(plan_.next_line, [0, 1, 2].map(SiteId));
    assert_eq!(
        plan_
            .best()
            .sites
            .iter()
            .map(|s| s.role)
            .collect::<Vec<_>>(),
        [Role::Over; 3]
    );

    // An attack at the small sites: all is moved to the super-site and they are shut.
    attack.offered = Figures::Sites([10.0, 90.0, 60.0].map(Range::exactly).to_vec());
    attack.normal = Some(Figures::Sites(vec![10.0, 6.0, 4.0]));
    let plan_ = plan(&playbook, &attack);
    assert_eq!(playbook.plays()[plan_.best().play].routing.name, "-2xBIG");
    let roles: Vec<Role> = plan_.best().sites.iter().map(|s| s.role).collect();
    assert_eq!(roles, [Role::Super, Role::Shut, Role::Shut]);
    assert_eq!(plan_.best().sites[0].normal, 20.0);
    assert_eq!(
        plan_.best().over,
        Over::Never,
        "160 of 200, wherever it comes from"
    );
}

#[test]
fn an_absorber_is_let_be_overloaded_for_the_others() {
    let playbook = playbook(
        "A B C",
        "baseline 60 20 20
         +1xA 40 30 30
         -1xA 90 5 5",
    );
    let mut situation = situation([50.0; 3], [240.0, 40.0, 60.0]);
    let first = |situation: &Situation| told(&playbook, &plan(&playbook, situation));
    // 0.6 * 50/240 + 0.2 + 0.2 * 50/60 = 0.49; spread: 0.4 * 50/160 + 0.3 * (50/80 + 50/100) = 0.46.
    assert_eq!(first(&situation)[0], "baseline");
    situation.absorbers.insert(SiteId(0));
    let told_ = first(&situation);
    assert_eq!(told_[0], "-1xA");
    assert_eq!(told_[1], "baseline: C would get 60 of 50");
    let plan_ = plan(&playbook, &situation);
    let best = plan_.best();
    assert_eq!((best.over, best.over_besides), (Over::Likely, Over::Never));
    let roles: Vec<Role> = best.sites.iter().map(|s| s.role).collect();
    assert_eq!(roles, [Role::Absorbs, Role::Carries, Role::Carries]);
    assert_eq!(
        plan_.next_line,
        [SiteId(0)],
        "it needs its next line all the same"
    );
}

#[test]
fn a_breakwater_keeps_its_catchment() {
    let playbook = playbook(
        "A B C",
        "baseline 60 20 20
         +1xA 40 30 30
         -1xA 90 5 5
         +1xC 62 22 16
         +1xB 58 16 26",
    );
    let mut situation = situation([50.0; 3], [240.0, 40.0, 60.0]);
    situation.breakwaters.insert(SiteId(0));
    assert_eq!(
        told(&playbook, &plan(&playbook, &situation)),
        [
            "-1xA",
            "+1xC: C would get 60 of 50 if the attack is concentrated",
            "baseline: C would get 60 of 50",
            "+1xB: keeps 45.6% of the normal load, not 49.2%",
            "+1xA: moves 33.3% of what reaches the breakwater A",
        ]
    );
}

#[test]
fn a_closed_site_is_over_with_any_load_but_noise() {
    let playbook = playbook(
        "A B C",
        "baseline 700 300 1
         +1xA 300 600 100
         -1xA 999 0 1",
    );
    let mut situation = situation([2000.0, 0.0, 0.0], [700.0, 300.0, 1.0]);
    let told_ = told(&playbook, &plan(&playbook, &situation));
    assert_eq!(told_[0], "-1xA");
    assert_eq!(told_[1], "baseline: B would get 300 of 0");
    assert_eq!(told_[2], "+1xA: keeps 30.0% of the normal load, not 69.9%");
    // The single block of C is under a thousandth of all.
    situation.capacity = vec![2000.0, 2000.0, 0.0];
    assert_eq!(told(&playbook, &plan(&playbook, &situation))[0], "baseline");
    let config = PlannerConfig {
        negligible: 0.0,
        ..PlannerConfig::default()
    };
    assert!(!rank(&playbook, &situation, &config).unwrap().carries());
}

#[test]
fn flawed_plays_come_last() {
    let playbook = playbook(
        "A B C",
        "baseline 80 10 10
         +1xA! 40 30 30
         poison-174xA? 40 30 30
         +2xA 0 0 0
         odd 70 15 15
         0xB 85 0 15",
    );
    let mut situation = situation([60.0; 3], [80.0, 10.0, 10.0]);
    situation.down.insert(SiteId(1));
    assert_eq!(
        told(&playbook, &plan(&playbook, &situation)),
        [
            "baseline",
            "0xB: keeps 75.0% of the normal load, not 80.0%",
            "+1xA: was measured with replies missing",
            "poison-174xA: does the same, and is later by name",
            "odd: A would get 82.35 of 60",
            "+2xA: no block is known to reach a site",
        ]
    );
    // What is deployed is seen: its flaws do not matter.
    situation.current = 1;
    assert_eq!(
        plan(&playbook, &situation)
            .choices
            .iter()
            .find(|c| c.play == 1)
            .unwrap()
            .flaws,
        []
    );
}

#[test]
fn what_a_play_sends_to_a_site_that_is_down_goes_to_the_others() {
    let playbook = playbook("A B C", "baseline 60 0 40\n+1xA 20 20 60\n0xB 50 0 50");
    let mut situation = situation([100.0; 3], [60.0, 0.0, 40.0]);
    situation.down.insert(SiteId(1));
    situation.normal = Some(Figures::Sites(vec![30.0, 0.0, 10.0]));
    let plan = plan(&playbook, &situation);
    assert_eq!(plan.capacity, 200.0);
    let choice = |play: usize| {
        plan.choices
            .iter()
            .find(|choice| choice.play == play)
            .unwrap()
    };
    // A would keep 20, B get 20 and C 60: the 20 of B go 1 to 3, or all to either.
    assert_eq!(loads(choice(1)), [25.0, 0.0, 75.0]);
    let normal = choice(1).sites.iter().map(|site| site.normal);
    let normal: Vec<f64> = normal
        .map(|normal| (normal * 10.0).round() / 10.0)
        .collect();
    assert_eq!(
        normal,
        [12.5, 0.0, 27.5],
        "of 30, A keeps 10, C gets 10 and 3/4 of 10"
    );
    let most: Vec<f64> = choice(1)
        .sites
        .iter()
        .map(|site| site.concentrated.high.round())
        .collect();
    // Of the attack of 30 at A, no more than two thirds stay there, twice a third; two thirds go to B and C each.
    assert_eq!(most, [10.0 + 20.0 + 30.0, 0.0, 10.0 + 20.0 + 40.0 + 30.0]);
    let share = 0.2;
    assert_eq!(
        choice(1).flaws,
        [Flaw::NeedsDown {
            site: SiteId(1),
            share
        }]
    );
    assert_eq!(choice(2).flaws, []);
    assert_eq!(choice(1).sites[1].role, Role::Down);
}

#[test]
fn classes_weigh_by_their_normal_load_where_it_is_known() {
    let by_blocks = classes("A B", "baseline 0000\n+1xA 0001");
    let mut classes = by_blocks.classes().unwrap().clone();
    classes.load = vec![1.0, 1.0, 0.0, 6.0];
    let by_load = Playbook::new(
        by_blocks.sites().clone(),
        by_blocks.plays().to_vec(),
        Some(classes),
    )
    .unwrap();
    let situation = situation([50.0; 2], [80.0, 0.0]);
    let moved = |playbook: &Playbook| {
        loads(
            plan(playbook, &situation)
                .choices
                .iter()
                .find(|c| c.play == 1)
                .unwrap(),
        )
    };
    assert_eq!(moved(&by_blocks), [60.0, 20.0]);
    assert_eq!(moved(&by_load), [20.0, 60.0]);
}

#[test]
fn forbidden_plays_are_left_out() {
    let playbook = playbook("A B", "baseline 90 10\n+1xA 50 50\n+2xA 40 60");
    let mut situation = situation([60.0, 60.0], [90.0, 10.0]);
    situation.forbidden = [1].into();
    let plan = plan(&playbook, &situation);
    assert_eq!(
        plan.choices
            .iter()
            .map(|choice| choice.play)
            .collect::<Vec<_>>(),
        [2, 0]
    );
}

#[test]
fn changes_are_counted_from_what_is_deployed() {
    let playbook = playbook(
        "A B C",
        "baseline 80 10 10\n+1xA 60 20 20\n+2xA 40 30 30\n-1xB 30 60 10\ngroup 40 30 30",
    );
    let mut situation = situation([70.0; 3], [60.0, 20.0, 20.0]);
    situation.current = 1;
    let plan = plan(&playbook, &situation);
    let changes = |play: usize| {
        plan.choices
            .iter()
            .find(|choice| choice.play == play)
            .unwrap()
            .changes
    };
    assert_eq!(
        [0, 1, 2, 3, 4].map(changes),
        [1, 0, 1, 1, 3],
        "all sites where it is not known"
    );
}

#[test]
fn what_does_not_fit_the_playbook_is_refused() {
    let playbook = classes("A B", "baseline 00\n+1xA 01");
    let good = situation([1.0, 1.0], [1.0, 1.0]);
    assert!(rank(&playbook, &good, &PlannerConfig::default()).is_ok());
    let range = |low, likely, high| Range { low, likely, high };
    type Spoil<'a> = &'a dyn Fn(&mut Situation);
    let wrongs: [(Spoil<'_>, &str); 14] = [
        (
            &|s| s.current = 2,
            "`current` is 2, expected the number of a play below 2",
        ),
        (&|s| s.forbidden = [2].into(), "`forbidden` is 2"),
        (
            &|s| s.forbidden = [0, 1].into(),
            "`forbidden` is every play",
        ),
        (
            &|s| s.absorbers = [SiteId(2)].into(),
            "`absorbers` is 2, expected the number of a site below 2",
        ),
        (
            &|s| s.down = [SiteId(0), SiteId(1)].into(),
            "`down` is every site",
        ),
        (
            &|s| s.capacity = vec![1.0],
            "`capacity` is of 1 sites, expected of the 2",
        ),
        (
            &|s| s.capacity[1] = -1.0,
            "`capacity[1]` is -1.0, expected 0 or more",
        ),
        (&|s| s.capacity[0] = f64::NAN, "`capacity[0]` is NaN"),
        (
            &|s| s.offered = Figures::Sites(vec![range(0.0, 2.0, 1.0); 2]),
            "`offered[0]`",
        ),
        (
            &|s| s.offered = Figures::Sites(vec![range(0.0, f64::INFINITY, f64::INFINITY); 2]),
            "finite up to the likely one",
        ),
        (
            &|s| s.offered = Figures::Sites(vec![range(f64::NAN, 1.0, 1.0); 2]),
            "`offered[0]`",
        ),
        (
            &|s| s.offered = Figures::Classes(vec![range(0.0, 1.0, 1.0); 3]),
            "`offered` is of 3 classes, expected of the 2",
        ),
        (
            &|s| s.normal = Some(Figures::Classes(vec![1.0])),
            "`normal` is of 1 classes",
        ),
        (
            &|s| s.normal = Some(Figures::Sites(vec![1.0, f64::INFINITY])),
            "`normal[1]` is inf",
        ),
    ];
    for (wrong, says) in wrongs {
        let mut situation = good.clone();
        wrong(&mut situation);
        let error = rank(&playbook, &situation, &PlannerConfig::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
    for (config, says) in [
        (
            PlannerConfig {
                concentration: 0.9,
                ..PlannerConfig::default()
            },
            "`concentration` is 0.9, expected 1 or more",
        ),
        (
            PlannerConfig {
                concentration: f64::NAN,
                ..PlannerConfig::default()
            },
            "`concentration` is NaN",
        ),
        (
            PlannerConfig {
                negligible: 1.1,
                ..PlannerConfig::default()
            },
            "`negligible` is 1.1",
        ),
        (
            PlannerConfig {
                kept_step: 0.0,
                ..PlannerConfig::default()
            },
            "`kept_step` is 0",
        ),
        (
            PlannerConfig {
                breakwater_loss: -0.1,
                ..PlannerConfig::default()
            },
            "`breakwater_loss` is -0.1",
        ),
    ] {
        let error = rank(&playbook, &good, &config).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}
