//! A scenario that was edited at random is read or refused, and never a panic.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

/// The committed scenarios, and one with a key of nearly every kind.
const GOOD: [&str; 8] = [
    include_str!("../../../../scenarios/sip-paper.toml"),
    include_str!("../../../../scenarios/mmkk.toml"),
    include_str!("../../../../scenarios/demo-sip.toml"),
    include_str!("../../../../scenarios/http-slowloris.toml"),
    include_str!("../../../../scenarios/http-auction.toml"),
    include_str!("../../../../scenarios/anycast-loop.toml"),
    include_str!("../../../../scenarios/anycast-pulse.toml"),
    r#"
[service]
kind = "sip"
capacity = [12, 24]
[defense]
kind = ["seven", "refuse"]
round = "100ms"
strategy = ["uniform", { kind = "tournament", size = [2, 6] }]
max_duration = [{ times_mean = 2.0 }, "9s"]
class = [{ name = "a", factor = 2.0 }]
[honest]
rate = ["3/s", { erlang = { blocking = [0.01, 0.02] } }]
duration = [{ kind = "gamma", mean = "5s", shape = 2 }, { kind = "file", path = "seconds.txt" }]
[attack]
kind = "coordinated-call"
attackers = [5, 50]
redial = "200ms"
ramp = "1s"
[run]
time = "40s"
[model]
preset = "as-released"
quirks = [[], ["even_arrivals"]]
[check]
relative_precision = 0.05
sprt = { alpha = 0.01 }
[[query]]
name = "setup"
of = "honest.setup_s"
quantile = 0.95
[[query]]
name = "text"
quatex = """
eval E[ s.rval("x\u0041") ] ;
"""
"#,
];

/// Pieces that an edit puts in: what TOML and the scenario's own values are made of.
const PIECES: [&str; 40] = [
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ",",
    ".",
    "\n",
    "\"",
    "'",
    "\"\"\"",
    "\\",
    "\\u",
    "#",
    "\u{e9}",
    "\u{1f600}",
    "\0",
    "-1",
    "0",
    "1e308",
    "1e-320",
    "inf",
    "nan",
    "true",
    "0x7f",
    "9223372036854775807",
    "99999999999999999999",
    "1979-05-27",
    "\"5s\"",
    "[1, 2]",
    "[[1], [2]]",
    "[]",
    "{ kind = \"file\" }",
    "kind = \"fixed\"\n",
    "[attack]\n",
    "[[query]]\n",
    "class",
    "lane",
];

/// Where, how much goes, and what comes: shares of the text, and a piece.
type Edit = (f64, u8, usize);

fn edited(text: &str, edits: &[Edit]) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for &(place, gone, piece) in edits {
        let from = (place * characters.len() as f64) as usize;
        let to = (from + usize::from(gone)).min(characters.len());
        let piece = PIECES.get(piece).copied().unwrap_or_default();
        characters.splice(from..to, piece.chars());
    }
    characters.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, rng_seed: RngSeed::Fixed(11), ..ProptestConfig::default() })]

    #[test]
    fn a_random_edit_is_read_or_refused(
        which in 0..GOOD.len(),
        // Most edits are small; past the last piece nothing comes in.
        edits in prop::collection::vec((0.0..1.0f64, 0u8..12, 0..PIECES.len() + 8), 1..4),
    ) {
        let text = edited(GOOD[which], &edits);
        let read = Scenario::parse("s.toml", &text, &|_| Ok("1\n2.5\n".into()));
        match read {
            Ok(scenario) => {
                prop_assert!(!scenario.points.is_empty());
                prop_assert_eq!(scenario.points.len() % scenario.lanes, 0);
                for point in &scenario.points {
                    let plan = point.setup.on_the_wall_clock().plan(scenario.seed);
                    prop_assert!(plan.schedule().take(3).all(|call| call.at < plan.until));
                }
            }
            Err(problems) => {
                prop_assert!(!problems.to_string().is_empty());
                for problem in problems.list() {
                    prop_assert!(!problem.remedy.is_empty(), "{}", problem);
                }
            }
        }
    }
}

#[test]
fn the_scenario_that_is_edited_is_good() {
    for text in GOOD {
        let read = Scenario::parse("s.toml", text, &|_| Ok("1\n2.5\n".into()));
        assert!(read.is_ok(), "{}", read.unwrap_err());
    }
}
