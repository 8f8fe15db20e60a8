//! How well the offered load is estimated when nearly everything is lost: the table of `docs/anycast-estimate.md`.
//!
//! `cargo run --release -p levee-anycast --example known_good_replay [HISTORIES [INTERVALS]]`

use std::env;

use world::{Score, Size, Trouble, World};

mod world;

const LOSSES: [f64; 7] = [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];
const TROUBLES: [(&str, Trouble); 7] = [
    ("none", Trouble::Nothing),
    ("20% moved to another site", Trouble::Moved(0.2)),
    ("10% of the history missing", Trouble::Missing(0.1)),
    ("10% of the sources faked", Trouble::Faked(0.1)),
    ("40% of the sources faked", Trouble::Faked(0.4)),
    ("uneven loss", Trouble::Uneven),
    ("5% gone or off-line", Trouble::Gone(0.05)),
];

fn main() {
    let mut arguments = env::args()
        .skip(1)
        .map(|argument| argument.parse().expect("a number"));
    let histories: u64 = arguments.next().unwrap_or(8);
    let intervals: i64 = arguments.next().unwrap_or(20) as i64;
    for now_interval_s in [600, 60] {
        let size = Size {
            weeks: 3,
            history_interval_s: 600,
            now_interval_s,
            per_minute: 2_500.0,
            probes_before_s: 3_600,
        };
        println!("\n{} s judged at once\n", size.now_interval_s);
        println!(
            "| trouble | loss | heavy hitters: error 50% / 95% | interval holds | Atlas: error | holds | both: error | holds | no upper bound |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        for (name, trouble) in TROUBLES {
            let mut scores =
                vec![[Score::default(), Score::default(), Score::default()]; LOSSES.len()];
            for seed in 0..histories {
                let mut world = World::new(size, seed);
                let hitters = world.learn(trouble);
                for (loss, scores) in LOSSES.iter().zip(&mut scores) {
                    for interval in 0..intervals {
                        let estimates = world.estimates(&hitters, interval, *loss, trouble);
                        for (score, estimate) in scores.iter_mut().zip(&estimates) {
                            score.add(estimate);
                        }
                    }
                }
            }
            for (loss, scores) in LOSSES.iter().zip(&scores) {
                let error = |score: &Score| match (score.quantile(0.5), score.quantile(0.95)) {
                    (Some(half), Some(most)) => {
                        format!("{:.1}% / {:.1}%", half * 100.0, most * 100.0)
                    }
                    _ => "only a bound".to_owned(),
                };
                let [heavy, atlas, both] = scores;
                println!(
                    "| {name} | {:.0}% | {} | {:.1}% | {} | {:.1}% | {} | {:.1}% | {} of {} |",
                    loss * 100.0,
                    error(heavy),
                    heavy.coverage() * 100.0,
                    error(atlas),
                    atlas.coverage() * 100.0,
                    error(both),
                    both.coverage() * 100.0,
                    both.open,
                    both.sites,
                );
            }
        }
    }
}
