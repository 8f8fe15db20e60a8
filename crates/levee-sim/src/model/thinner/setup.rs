//! What a run of the thinner is made of; the live lab runs the same.

use levee_policy::thinner::{Mode, Thinner};
use levee_policy::{Span, thinner};
use thiserror::Error;

/// Most clients of a group: 100 MB of records (our choice).
pub const CLIENTS_MAX: u32 = 100_000;
/// Most requests of one client under way at once: all of them are looked at when one has been sent (our choice).
pub const WINDOW_MAX: u32 = 10_000;

/// Clients that pay, or do not, for a server of fixed capacity: the papers' experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The server.
    pub server: Server,
    /// What stands before it; `None` leaves the server alone with its clients.
    pub defense: Option<thinner::Config>,
    /// The good clients.
    pub honest: Group,
    /// The bad clients.
    pub attack: Group,
    /// One way through the network.
    pub delay: Span,
    /// Not counted.
    pub warmup: Span,
    /// Counted, after the warm-up.
    pub time: Span,
    /// The first seed; run `i` takes `seed + i`.
    pub seed: u64,
}

/// A server that works on one request at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    /// Requests a second (`C`). Key `service.rate`.
    pub rate: f64,
    /// The time of a request is uniform within this part of `1/rate`: 0.1 is the papers' `[0.9/c, 1.1/c]`. Key `service.jitter`.
    pub jitter: f64,
    /// Requests that wait at the server itself; a further one is refused (503). The next one served is drawn at random among
    /// them, as in the papers' server without a thinner. Key `service.backlog`.
    pub backlog: u32,
}

/// Clients of one kind, each alike and independent. The keys are those of `[honest]` and `[attack]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// How many. Key `clients`, and `attack.share`.
    pub clients: u32,
    /// New requests a second of each (Poisson), the papers' `lambda`. Key `rate`.
    pub rate: f64,
    /// Requests of one client under way at once, the papers' `w`; a further one waits at the client. Key `window`.
    pub window: u32,
    /// Bytes a second that a client can send, over all its connections. Key `bandwidth.up`.
    pub up: f64,
    /// Hashes a second that a client can make, for all its requests: what it pays with where the mode is proof of work. Key `hashes`.
    pub hashes: f64,
    /// A request that waits longer at the client is given up, and so is one that waits longer at the thinner: denied. Key `patience`.
    pub patience: Span,
    /// Bytes of a request. Key `request`.
    pub request: u32,
    /// The server's time for one of their requests, where 1 is `1/rate` of the server. Key `work`.
    pub work: f64,
    /// Whether it pays. One that does not is refused, and comes again only as its own demand does. Key `pays`.
    pub pays: bool,
    /// How a client that pays for several requests splits what it has. Key `split`.
    pub split: Split,
}

/// How a client that pays for several requests at once splits its bandwidth over their payment channels, or its hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// The same for each, as congestion control does: the papers' clients.
    #[default]
    Equal,
    /// All to the one that waits longest, the others wait their turn.
    Oldest,
    /// All to the one that came last; what was paid for the others stays there, to be used when that one is through.
    Newest,
}

/// A setup that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A value that is out of its range.
    #[error("`{key}` is out of range, expected {expected}")]
    Value {
        /// The key in a scenario.
        key: &'static str,
        /// What it may be.
        expected: &'static str,
    },
    /// The `[defense]` table.
    #[error("the defence cannot run")]
    Defense(#[from] levee_policy::ConfigError),
}

impl Group {
    /// Bytes a second of all of them: the papers' `G` or `B`.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        f64::from(self.clients) * self.up
    }

    /// Requests a second that all of them want: the papers' `g`.
    #[must_use]
    pub fn demand(&self) -> f64 {
        f64::from(self.clients) * self.rate
    }

    /// What all of them can pay a second in the currency of a mode: bytes, or hashes.
    #[must_use]
    pub fn means(&self, mode: Mode) -> f64 {
        match (self.pays, mode) {
            (false, _) => 0.0,
            (true, Mode::ProofOfWork) => f64::from(self.clients) * self.hashes,
            (true, _) => self.bandwidth(),
        }
    }
}

impl Setup {
    /// The share `G/(G+B)` of the server that good clients get when bandwidth is the currency, or all that they want if that is
    /// less: the papers' ideal. Bad clients that do not pay leave them all.
    #[must_use]
    pub fn ideal_share(&self) -> f64 {
        let (good, bad) = (self.honest.bandwidth(), self.attack.means(Mode::Auction));
        let fair = if bad > 0.0 { good / (good + bad) } else { 1.0 };
        fair.min(self.honest.demand() * self.honest.work / self.server.rate)
    }

    /// When a run is over.
    #[must_use]
    pub fn end(&self) -> Span {
        self.warmup + self.time
    }

    /// Whether it can be run.
    ///
    /// # Errors
    ///
    /// The first value that is out of its range.
    pub fn check(&self) -> Result<(), SetupError> {
        let need = |holds: bool, key, expected| {
            holds
                .then_some(())
                .ok_or(SetupError::Value { key, expected })
        };
        let within = |value: f64, low: f64, high: f64| (low..=high).contains(&value);
        let server = &self.server;
        need(
            within(server.rate, 0.001, 1e6),
            "service.rate",
            "requests a second from 0.001 to 1000000",
        )?;
        need(
            within(server.jitter, 0.0, 1.0),
            "service.jitter",
            "a part of the mean from 0 to 1",
        )?;
        need(
            server.backlog <= 1_000_000,
            "service.backlog",
            "at most 1000000 requests",
        )?;
        for (group, keys) in [(&self.honest, &HONEST), (&self.attack, &ATTACK)] {
            let mut keys = keys.iter();
            let mut need = |holds, expected| need(holds, keys.next().unwrap_or(&""), expected);
            need(group.clients <= CLIENTS_MAX, "at most 100000 clients")?;
            need(
                within(group.rate, 0.0, 1e5),
                "requests a second from 0 to 100000",
            )?;
            need(
                (1..=WINDOW_MAX).contains(&group.window),
                "from 1 to 10000 requests",
            )?;
            need(
                within(group.up, 1.0, 1e12),
                "bytes a second from 1 to 1000000000000",
            )?;
            need(
                within(group.hashes, 1.0, 1e15),
                "hashes a second from 1 to 1000000000000000",
            )?;
            need(
                within(group.patience.as_secs_f64(), 0.001, 86_400.0),
                "a time from 1ms to 1d",
            )?;
            need(group.request > 0, "at least 1 byte")?;
            need(
                within(group.work, 0.001, 1_000.0),
                "a multiple of the mean from 0.001 to 1000",
            )?;
        }
        if let Some(defense) = &self.defense {
            Thinner::check(defense)?;
        }
        Ok(())
    }
}

/// The keys of a [`Group`] in the order in which they are checked.
const HONEST: [&str; 8] = [
    "honest.clients",
    "honest.rate",
    "honest.window",
    "honest.bandwidth.up",
    "honest.hashes",
    "honest.patience",
    "honest.request",
    "honest.work",
];
const ATTACK: [&str; 8] = [
    "attack.clients",
    "attack.rate",
    "attack.window",
    "attack.bandwidth.up",
    "attack.hashes",
    "attack.patience",
    "attack.request",
    "attack.work",
];
