//! How many calls a second the lab's own callers, server and callee carry without a front: `lab_direct [RATE] [SECONDS]`.

use std::time::Duration;

use levee_lab::lane::{LaneConfig, RunningLane};
use levee_lab::outcome::Outcome;
use levee_sim::schedule::{Arrivals, Calls, Durations, Plan, Stream};

fn main() -> std::io::Result<()> {
    let mut args = std::env::args()
        .skip(1)
        .map_while(|a| a.parse::<f64>().ok());
    let rate = args.next().unwrap_or(1_000.0);
    let seconds = args.next().unwrap_or(5.0);
    let stream = |rate| Stream {
        calls: Calls::Rate(rate),
        durations: Some(Durations::Fixed(Duration::from_millis(5))),
        callers: 1_000_000,
    };
    let mut config = LaneConfig::new(
        100_000,
        Plan {
            honest: stream(rate),
            attacker: stream(0.0),
            arrivals: Arrivals::Poisson,
            until: Duration::from_secs_f64(seconds),
            seed: 1,
        },
    );
    config.ring = Duration::ZERO;
    let result = RunningLane::start(&config)?.wait()?;
    let calls = &result.load.calls;
    let complete = calls
        .iter()
        .filter(|c| c.outcome == Outcome::Complete)
        .count();
    let mut setup: Vec<_> = calls.iter().filter_map(|c| c.setup).collect();
    setup.sort();
    println!(
        "{rate} calls/s for {seconds} s: {} calls, {complete} complete, setup p50 {:?} p99 {:?}, {} sent again, at most {:?} behind",
        calls.len(),
        setup.get(setup.len() / 2),
        setup.get(setup.len() * 99 / 100),
        result.load.traffic.retransmitted
            + result.pbx.traffic.retransmitted
            + result.callee.traffic.retransmitted,
        result.load.late_max,
    );
    println!("{:?}\n{:?}", result.pbx, result.callee);
    Ok(())
}
