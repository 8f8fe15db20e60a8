//! The coordinated call attack on a real server with real user agents, undefended.
//!
//! Half of the calls are attackers that never hang up. What counts is the second half of the run: the first half mostly
//! measures how long a server takes to fill.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use levee_lab::peers::{
    CallLog, Callee, Caller, KamailioConfig, KamailioMode, Sipp, StatRow, Talk,
};

/// `k`, the places of the server.
pub(crate) const CAPACITY: u32 = 24;
/// The mean call of an honest caller.
pub(crate) const MEAN_CALL: Duration = Duration::from_secs(3);
/// Honest calls and attackers together; on 24 places Erlang B refuses 1 % of so many honest calls.
const CALLS_PER_SECOND: f64 = 5.1;
/// The part of them that attacks.
const ATTACKERS: f64 = 0.5;
/// The calls that count arrive in the second half of this time.
const RUN: Duration = Duration::from_secs(90);
/// The load goes on for four mean calls more, so that only e^-4 of the last counted calls is still undecided.
const TAIL: Duration = Duration::from_secs(12);
/// Five intervals between the calls of one kind: enough to make arrivals irregular.
const SPREAD: Duration = Duration::from_secs(2);
/// When every peer ends, whatever happens to the test.
pub(crate) const LIFETIME: Duration = Duration::from_secs(200);

/// Callees for either kind of caller.
pub(crate) fn callee() -> Sipp {
    Callee {
        ring: Duration::ZERO,
        lifetime: LIFETIME,
    }
    .start()
    .expect("a callee starts")
}

/// Honest callers and attackers.
pub(crate) struct Load {
    honest: Sipp,
    attackers: Sipp,
    calls: [u64; 2],
}

/// What became of the load.
pub(crate) struct LoadResult {
    pub(crate) honest: CallLog,
    pub(crate) attackers: CallLog,
    pub(crate) honest_stats: StatRow,
    pub(crate) attacker_stats: StatRow,
}

impl Load {
    /// Starts to call `server` through `proxy`.
    pub(crate) fn start(server: SocketAddr, proxy: SocketAddr) -> Self {
        let callers = |user: &str, share: f64, talk, seed| {
            let calls_per_second = CALLS_PER_SECOND * share;
            let calls_max = (calls_per_second * (RUN + TAIL).as_secs_f64()).round() as u32;
            let callers = Caller {
                server,
                proxy,
                user: user.to_owned(),
                calls_per_second,
                spread: SPREAD,
                calls_max,
                talk,
                seed,
                lifetime: LIFETIME,
            };
            let sipp = callers.start().expect("callers start");
            (sipp, u64::from(calls_max))
        };
        let exponential = Talk::Exponential { mean: MEAN_CALL };
        // The names tell nothing: a defence must not know who is who.
        let (honest, honest_calls) = callers("1001", 1.0 - ATTACKERS, exponential, 1);
        let (attackers, attacker_calls) = callers("1002", ATTACKERS, Talk::ATTACK, 2);
        Self {
            honest,
            attackers,
            calls: [honest_calls, attacker_calls],
        }
    }

    /// Waits until every call of the load has been made and answered one way or the other.
    pub(crate) fn wait_for_arrivals(&self) {
        let deadline = Instant::now() + RUN + TAIL + SPREAD + Duration::from_secs(30);
        loop {
            let over =
                [&self.honest, &self.attackers]
                    .iter()
                    .zip(self.calls)
                    .all(|(sipp, calls)| {
                        let tally = sipp.log().expect("a log").tally();
                        tally.attempted == calls && tally.pending == 0
                    });
            if over {
                return;
            }
            assert!(Instant::now() < deadline, "the load did not end in time");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ends the callers.
    pub(crate) fn stop(mut self) -> LoadResult {
        LoadResult {
            honest_stats: settled_stats(&mut self.honest),
            attacker_stats: settled_stats(&mut self.attackers),
            honest: self.honest.stop().expect("a log"),
            attackers: self.attackers.stop().expect("a log"),
        }
    }
}

impl LoadResult {
    /// Lowest and highest share of honest calls of the second half that complete: those still open counted as cut, and
    /// as complete.
    pub(crate) fn honest_share(&self, lane: &str) -> (f64, f64) {
        let honest = self.honest.arrived(RUN / 2, RUN);
        let attackers = self.attackers.arrived(RUN / 2, RUN);
        println!("{lane}: second half: honest {honest:?}, attackers {attackers:?}");
        // 45 s at 2.55 calls/s are 115; what the spread moves over the two edges is far below 15.
        assert!(honest.attempted >= 100, "{lane}: only {}", honest.attempted);
        honest.complete_share()
    }
}

/// The totals of a SIPp process in a row that was begun after this call.
pub(crate) fn settled_stats(sipp: &mut Sipp) -> StatRow {
    // The next row may have been begun before; the one after it was not.
    let wanted = sipp.stats().expect("statistics").len() + 2;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        // Callers end by themselves after their last call, and write a last row then.
        let running = sipp.is_running().expect("a state");
        let mut rows = sipp.stats().expect("statistics");
        if rows.len() >= wanted || !running {
            return rows.pop().expect("a last row");
        }
        assert!(Instant::now() < deadline, "SIPp wrote no statistics");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "needs sipp and kamailio; ./test installs them"]
fn undefended_the_honest_starve() {
    let callee = callee();
    let server = KamailioConfig {
        mode: KamailioMode::Capacity(CAPACITY),
        callee: callee.addr(),
        proxy: None,
        lifetime: LIFETIME,
    }
    .start()
    .unwrap();
    let load = Load::start(server.addr(), server.addr());
    load.wait_for_arrivals();
    let result = load.stop();
    server.stop().unwrap();

    // Even with every call that is still open counted as complete.
    let (_, highest) = result.honest_share("undefended");
    assert!(highest < 0.05, "{highest}");
    // And it is the attackers who hold the places.
    assert_eq!(result.attackers.tally().open, u64::from(CAPACITY));
    assert_eq!(result.honest_stats.unexpected, 0);
    assert_eq!(result.attacker_stats.unexpected, 0);
}
