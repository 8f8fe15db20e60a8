//! Short live runs.

use levee_policy::Span;
use levee_sim::model::thinner::{Group, Server, Setup, Split};
use levee_sim::schedule::Kind;

use super::lane::{LaneResult, RunningLane};
use super::record::Outcome;

/// The papers' experiment at a fifth of its length, with a tenth of its bandwidth: 5 good and 5 bad clients before a server of
/// 40 requests a second, which is asked for 210.
fn papers() -> Setup {
    let group = Group {
        clients: 5,
        rate: 2.0,
        window: 1,
        up: 20_000.0,
        patience: Span::from_secs(10),
        request: 200,
        work: 1.0,
        hashes: 1_000.0,
        split: Split::Equal,
        pays: true,
    };
    Setup {
        server: Server {
            rate: 40.0,
            jitter: 0.1,
            backlog: 20,
        },
        defense: None,
        honest: group,
        attack: Group {
            rate: 40.0,
            window: 20,
            ..group
        },
        delay: Span::ZERO,
        warmup: Span::ZERO,
        time: Span::from_secs(2),
        seed: 1,
    }
}

fn run(setup: &Setup) -> LaneResult {
    RunningLane::start(setup).unwrap().wait().unwrap()
}

fn served(result: &LaneResult, kind: Kind) -> usize {
    let all = result.clients.requests.iter();
    all.filter(|r| r.kind == kind && r.outcome == Outcome::Served)
        .count()
}

#[test]
fn a_bare_server_serves_at_its_capacity_whoever_asks_most() {
    let result = run(&papers());
    // 40 a second for 2 s: the sum of 80 uniform times of 25 ms +- 10% is 2 s +- 5 * 25 ms * 0.1 / sqrt(3) * sqrt(80) = 65 ms.
    let total = result.origin.served.len();
    assert!((76..=84).contains(&total), "{total}");
    let [good, bad] = Kind::ALL.map(|kind| served(&result, kind));
    eprintln!("{good} {bad} {} {:?}", result.origin.refused, result.clients.health);
    assert!(total.abs_diff(good + bad) <= 3, "{good} + {bad} of {total}");
}
