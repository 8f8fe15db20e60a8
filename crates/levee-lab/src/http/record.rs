//! What became of each request, and how it goes while the run goes on.

use std::time::Duration;

use levee_sim::schedule::Kind;
use serde::Serialize;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The server's answer came.
    Served,
    /// It was turned away, and its client did not come again.
    Refused,
    /// It waited too long at its client for the window.
    Expired,
    /// Its client's patience was over after it had been sent: at the thinner or at the server.
    GaveUp,
    /// The connection was lost.
    Failed,
    /// The run ended first.
    Open,
}

/// One request as its client saw it. Times count from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RequestRecord {
    /// What its path says.
    pub id: u64,
    /// Honest or attacker.
    pub kind: Kind,
    /// Whose it is; clients of both kinds count on.
    pub client: u32,
    /// When it was wanted.
    pub due: Duration,
    /// When it was sent first: the window had room.
    pub begun: Option<Duration>,
    /// When it was over.
    pub ended: Option<Duration>,
    /// How.
    pub outcome: Outcome,
    /// Status of the last answer; 0 for none.
    pub status: u16,
    /// How often it was sent again.
    pub retries: u32,
    /// Bytes that its client sent for it beyond the request itself: further tries, and payments.
    pub paid: u64,
    /// Of them, those on the payment channel.
    pub channel: u64,
}

impl RequestRecord {
    /// From when it was wanted to its answer, if it was served.
    #[must_use]
    pub fn waited(&self) -> Option<Duration> {
        let served = self.outcome == Outcome::Served;
        self.ended
            .filter(|_| served)
            .map(|at| at.saturating_sub(self.due))
    }
}

/// Requests of one kind so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Wanted.
    pub attempted: u64,
    /// Served.
    pub served: u64,
    /// Refused, given up or failed.
    pub denied: u64,
    /// Bytes sent.
    pub sent: u64,
}

impl Tally {
    pub(crate) fn ended(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Served => self.served += 1,
            Outcome::Refused | Outcome::Expired | Outcome::GaveUp | Outcome::Failed => {
                self.denied += 1;
            }
            Outcome::Open => {}
        }
    }
}

/// The clients' view at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the start of the run.
    pub at_s: f64,
    /// Honest requests.
    pub honest: Tally,
    /// Attackers' requests.
    pub attacker: Tally,
}

impl Sample {
    /// The good clients' share of what was served so far.
    #[must_use]
    pub fn good_share(&self) -> Option<f64> {
        let all = self.honest.served + self.attacker.served;
        (all > 0).then(|| self.honest.served as f64 / all as f64)
    }
}

/// The samples of a run, readable while it goes on.
pub type Board = crate::outcome::Board<Sample>;

/// The load generator's own health: a run whose clients were late measures the machine, not the defence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Health {
    /// How far the clients were behind their demand at worst, in milliseconds.
    pub late_max_ms: f64,
    /// Processor time of the clients' thread as a part of the run: 1 is a core that has no more to give.
    pub cpu: f64,
}

impl Health {
    /// The worse of both in each.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        Self {
            late_max_ms: self.late_max_ms.max(other.late_max_ms),
            cpu: self.cpu.max(other.cpu),
        }
    }
}

/// Processor time of the calling thread.
pub(crate) fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(now.tv_nsec).unwrap_or(0))
}
