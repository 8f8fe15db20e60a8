//! What the fuzzer calls, and what the replay of its corpus calls: any bytes as a playbook.

use levee_policy::reroute::{
    Playbook, Range, Routing,
    planner::{PlannerConfig, Situation, rank},
};

/// Ranking takes plays times sites squared: a few digits more are no other case.
const WORK_MAX: usize = 100_000;

/// What is read is written so that it reads the same, its names too, and it can be ranked.
pub(crate) fn playbook(bytes: &[u8]) {
    let Ok(playbook) = serde_json::from_slice::<Playbook>(bytes) else {
        return;
    };
    let text = serde_json::to_string(&playbook).expect("what was read can be written");
    let again: Playbook = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(again, playbook);
    for play in playbook.plays() {
        if let Ok(routing) = Routing::parse(&play.routing.name, playbook.sites()) {
            let announced = routing
                .announcements
                .expect("a name says what is announced");
            let named = Routing::of(announced, playbook.sites());
            let read = Routing::parse(&named.name, playbook.sites());
            // The canonical form may be longer than what was given.
            assert!(
                read.is_ok_and(|read| read == named) || named.name.len() > play.routing.name.len()
            );
        }
    }
    ranked(&playbook);
}

fn ranked(playbook: &Playbook) {
    let (sites, plays) = (playbook.sites().len(), playbook.plays().len());
    if plays * sites * sites > WORK_MAX {
        return;
    }
    let offered = |i: usize| Range {
        low: i as f64,
        likely: 2.0 * i as f64,
        high: if i.is_multiple_of(3) {
            f64::INFINITY
        } else {
            3.0 * i as f64
        },
    };
    let situation = Situation::new(
        plays / 2,
        vec![sites as f64; sites],
        (0..sites).map(offered).collect(),
    );
    let plan = rank(playbook, &situation, &PlannerConfig::default()).expect("it fits the playbook");
    assert_eq!(plan.choices.len(), plays);
    for choice in &plan.choices {
        for load in choice
            .sites
            .iter()
            .flat_map(|site| [site.load, site.concentrated])
        {
            assert!(
                load.low >= 0.0 && load.likely.is_finite() && !load.high.is_nan(),
                "{load:?}"
            );
        }
        assert!(
            (0.0..=1.0).contains(&choice.kept.low) && choice.kept.high <= 1.0,
            "{:?}",
            choice.kept
        );
        assert_eq!(choice.lost.is_none(), choice.play == plan.best().play);
    }
}
