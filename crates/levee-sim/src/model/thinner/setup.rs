//! What a run of the thinner is made of; the live lab runs the same.

use levee_policy::{Span, thinner};

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
    /// Requests a second (`C`).
    pub rate: f64,
    /// The time of a request is uniform within this part of `1/rate`: 0.1 is the papers' `[0.9/c, 1.1/c]`.
    pub jitter: f64,
    /// Requests that wait at the server itself; a further one is refused (503). The next one served is drawn at random among
    /// them, as in the papers' server without a thinner.
    pub backlog: u32,
}

/// Clients of one kind, each alike and independent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// How many.
    pub clients: u32,
    /// New requests a second of each (Poisson), the papers' `lambda`.
    pub rate: f64,
    /// Requests of one client under way at once, the papers' `w`; a further one waits at the client.
    pub window: u32,
    /// Bytes a second that a client can send, over all its connections.
    pub up: f64,
    /// A request that waits longer at the client or at the thinner is given up: denied.
    pub patience: Span,
    /// Bytes of a request.
    pub request: u32,
    /// Whether it pays. One that does not is refused, and comes again only as its own demand does.
    pub pays: bool,
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
}

impl Setup {
    /// The share `G/(G+B)` of the server that good clients get when bandwidth is the currency, or all that they want if that is
    /// less: the papers' ideal. Of the served requests that are good, not of the good demand.
    #[must_use]
    pub fn ideal_share(&self) -> f64 {
        let (good, bad) = (self.honest.bandwidth(), self.attack.bandwidth());
        let fair = if bad > 0.0 { good / (good + bad) } else { 1.0 };
        fair.min(self.honest.demand() / self.server.rate)
    }
}
