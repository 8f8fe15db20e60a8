use levee_policy::selective::{Kind, Strategy};

use super::lives::{ProductLimit, Seen};
use super::*;

const SECOND: u64 = 1_000_000_000;

/// A recording from lines of `seconds event call`.
fn history(capacity: u32, kind: &str, lines: &[(f64, &str, u64)], end_s: f64) -> History {
    let mut text = format!(
        "{{\"levee_events\":1,\"machine\":\"selective\",\"seed\":1,\"capacity\":{capacity},\"config\":{{\"kind\":\"{kind}\"}}}}\n"
    );
    for (at, what, call) in lines {
        let t = (at * SECOND as f64) as u64;
        let line = match *what {
            "arrive" => format!("\"in\":{{\"arrive\":{{\"call\":{call}}}}}"),
            "answered" => format!("\"in\":{{\"answered\":{{\"call\":{call}}}}}"),
            "ended" => format!("\"in\":{{\"ended\":{{\"call\":{call}}}}}"),
            "forward" => format!("\"out\":{{\"forward\":{{\"call\":{call}}}}}"),
            "refuse" => format!(
                "\"out\":{{\"refuse\":{{\"call\":{call},\"cause\":\"full\",\"retry_after\":\"5s\"}}}}"
            ),
            "evict" => format!(
                "\"out\":{{\"evict\":{{\"call\":{call},\"state\":\"in_call\",\"age\":\"1s\",\"forwarded\":true,\"cause\":\"max_duration\"}}}}"
            ),
            other => panic!("{other}"),
        };
        text.push_str(&format!("{{\"t\":{t},{line}}}\n"));
    }
    let last = (end_s * SECOND as f64) as u64;
    text.push_str(&format!(
        "{{\"t\":{last},\"deadline\":true}}\n{{\"end\":\"stopped\"}}\n"
    ));
    History::read(text.as_bytes()).unwrap()
}

/// Comes, is passed on, answered after a second, and ends.
fn whole(lines: &mut Vec<(f64, &'static str, u64)>, call: u64, from: f64, to: f64) {
    lines.extend([
        (from, "arrive", call),
        (from, "forward", call),
        (from + 1.0, "answered", call),
        (to, "ended", call),
    ]);
}

fn sorted(mut lines: Vec<(f64, &'static str, u64)>) -> Vec<(f64, &'static str, u64)> {
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    lines
}

fn config(kind: Kind) -> Config {
    Config::of_kind(kind)
}

/// Three calls that overlap, all seen to their end under no defence. With one place the second is refused, and the third
/// comes when the first has gone.
#[test]
fn without_anything_missing_the_answer_is_certain() {
    let mut lines = Vec::new();
    whole(&mut lines, 1, 0.0, 10.0);
    whole(&mut lines, 2, 5.0, 20.0);
    whole(&mut lines, 3, 11.0, 15.0);
    let history = history(1, "none", &sorted(lines), 30.0);
    assert_eq!(history.missing(), [0; 3]);
    let recorded = history.recorded();
    assert_eq!((recorded.complete, recorded.taken), (3, 3));
    let refuse = history.what_if(1, &config(Kind::Refuse), 1, 3).unwrap();
    for outcome in &refuse.outcomes {
        assert_eq!(
            (outcome.complete, outcome.refused.full, outcome.held),
            (2, 1, 0)
        );
        assert_eq!((outcome.assumed, outcome.exact_verdicts), (0, 3));
    }
    // Recorded complete: in each run two stay so and one is refused.
    assert_eq!(refuse.moved[0], [6, 0, 0, 0, 3]);
    // With two places all three fit; undefended it is what was recorded.
    for (capacity, kind) in [(2, Kind::Refuse), (1, Kind::None)] {
        let same = history.what_if(capacity, &config(kind), 1, 1).unwrap();
        assert_eq!((same.outcomes[0].complete, same.outcomes[0].taken), (3, 3));
    }
}

/// The other defence drops the first call for the second: the recorded end of the first must not free a place again.
#[test]
fn what_a_dropped_call_did_later_is_passed_over() {
    let mut lines = Vec::new();
    whole(&mut lines, 1, 0.0, 10.0);
    whole(&mut lines, 2, 5.0, 20.0);
    whole(&mut lines, 3, 12.0, 18.0);
    let history = history(1, "none", &sorted(lines), 30.0);
    let mut seven = config(Kind::Seven);
    seven.strategy = Strategy::Uniform;
    seven.pmod_start = 1;
    let runs = 400;
    let result = history.what_if(1, &seven, 7, runs).unwrap();
    let mut firsts = 0;
    for outcome in &result.outcomes {
        // Each newcomer either takes the place or is refused; nobody is counted twice, and at most one ends.
        let refused = outcome.refused.overload;
        let evicted = outcome.evicted_in_call;
        assert_eq!(outcome.complete + refused + evicted, 3, "{outcome:?}");
        assert_eq!((outcome.held, outcome.evicted_waiting), (0, 0));
        assert_eq!(outcome.assumed, 0);
        firsts += u64::from(refused + evicted == 1);
    }
    // The first meets the second and is taken with k/(k + PMod) = 1/2. If the second is refused (1/2), the third finds
    // the place free: one call lost. If it is taken, the third displaces or is refused: two lost.
    let share = firsts as f64 / f64::from(runs);
    assert!(
        (share - 0.5).abs() < 5.0 * (0.25 / f64::from(runs)).sqrt(),
        "{share}"
    );
}

/// Two calls end at 10 s of talk, one was cut after 4 s. Nothing else can be drawn for the cut one: it ends at 10 s too.
#[test]
fn a_cut_call_goes_on_as_those_of_its_age_did() {
    let mut lines = Vec::new();
    whole(&mut lines, 1, 0.0, 11.0);
    whole(&mut lines, 2, 20.0, 31.0);
    lines.extend([
        (40.0, "arrive", 3),
        (40.0, "forward", 3),
        (41.0, "answered", 3),
        (45.0, "evict", 3),
        (46.0, "ended", 3),
        // Comes while the third would still be up, and is served.
        (50.0, "arrive", 4),
        (50.0, "forward", 4),
        (51.0, "answered", 4),
        (61.0, "ended", 4),
    ]);
    let history = history(1, "refuse", &lines, 100.0);
    assert_eq!(history.missing(), [0, 0, 1]);
    assert_eq!(history.unending(), 0.0);
    let recorded = history.recorded();
    assert_eq!((recorded.complete, recorded.evicted_max_duration), (3, 1));
    let result = history.what_if(1, &config(Kind::Refuse), 1, 5).unwrap();
    for outcome in &result.outcomes {
        // Up until 51 s, so the fourth is refused.
        assert_eq!(
            (outcome.complete, outcome.refused.full),
            (3, 1),
            "{outcome:?}"
        );
        // The three before 45 s are certain; the fourth rests on the drawn length.
        assert_eq!((outcome.assumed, outcome.exact_verdicts), (1, 3));
    }
}

/// A refused call has the set-up and length of the others; all others are alike here, so it is certain again.
#[test]
fn a_refused_call_is_as_the_others_are() {
    let mut lines = Vec::new();
    whole(&mut lines, 1, 0.0, 11.0);
    whole(&mut lines, 2, 12.0, 23.0);
    lines.extend([(13.0, "arrive", 3), (13.0, "refuse", 3)]);
    let history = history(1, "refuse", &sorted(lines), 100.0);
    assert_eq!(history.missing(), [1, 0, 0]);
    let more = history.what_if(2, &config(Kind::Refuse), 1, 2).unwrap();
    for outcome in &more.outcomes {
        assert_eq!((outcome.complete, outcome.assumed), (3, 1));
    }
    assert_eq!(more.moved[4], [2, 0, 0, 0, 0]);
    // The recorded defence itself, asked again, refuses it again.
    let same = history.what_if(1, &history.header.config, 1, 1).unwrap();
    assert_eq!(same.outcomes[0].refused.full, 1);
}

/// Where all long calls were cut, a drawn call need not end: attackers do not.
#[test]
fn an_estimate_that_ends_above_zero_says_so() {
    let mut lines = Vec::new();
    whole(&mut lines, 1, 0.0, 3.0);
    for call in [2, 3, 4] {
        let at = call as f64 * 10.0;
        lines.extend([
            (at, "arrive", call),
            (at, "forward", call),
            (at + 1.0, "answered", call),
            (at + 6.0, "evict", call),
            (at + 6.0, "ended", call),
        ]);
    }
    let history = history(5, "refuse", &sorted(lines), 1_000.0);
    // One of four is seen to end, after 2 s.
    assert_eq!(history.unending(), 0.75);
    let result = history.what_if(5, &config(Kind::Refuse), 1, 1).unwrap();
    assert_eq!(
        (result.outcomes[0].complete, result.outcomes[0].held),
        (1, 3)
    );
}

/// The textbook example: 6 MP patients of Freireich et al. (1963), with the survival that Kaplan and Meier's method gives.
#[test]
fn the_product_limit_is_that_of_the_textbook() {
    let ends = [6, 6, 6, 7, 10, 13, 16, 22, 23];
    let cut = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35];
    let seen = ends
        .map(|s| Seen::event(Span::from_secs(s), true))
        .into_iter()
        .chain(cut.map(|s| Seen::cut(Span::from_secs(s))));
    let estimate = ProductLimit::of(seen.collect());
    for (at, survival) in [
        (6, 0.857),
        (7, 0.807),
        (10, 0.753),
        (13, 0.690),
        (16, 0.627),
        (22, 0.538),
        (23, 0.448),
    ] {
        let passed = estimate
            .steps
            .partition_point(|s| s.length <= Span::from_secs(at));
        let found = estimate.steps[passed - 1].after;
        assert!((found - survival).abs() < 6e-4, "{at}: {found}");
    }
    // Given 15, the next is 16 with 1 - 0.627/0.690 of the chance; the rest is not seen to end with 0.448/0.690.
    let known = Span::from_secs(15);
    assert_eq!(
        estimate.draw(known, 0.95).map(|s| s.length),
        Some(Span::from_secs(16))
    );
    assert_eq!(
        estimate.draw(known, 0.90).map(|s| s.length),
        Some(Span::from_secs(22))
    );
    assert!(estimate.draw(known, 0.60).is_none());
    assert!(estimate.draw(Span::from_secs(40), 0.99).is_none());
}
