//! Whether the server can take one more.

use super::{AdaptiveLimit, Capacity, Config, Outcome, bucket::Bucket};
use crate::{Span, Time};

/// What the server can take, and what it has taken.
#[derive(Clone, Debug)]
pub(super) enum Server {
    /// So many a second.
    Rate(Bucket),
    /// So many at once.
    Places(u32),
    /// So many at once as are found to be good.
    Adaptive(AdaptiveLimit),
}

impl Server {
    /// A server that has so many requests already.
    pub(super) fn new(config: &Config, in_service: u32, now: Time) -> Self {
        match config.capacity {
            Capacity::Rate(rate) => {
                let burst = config.burst.unwrap_or_else(|| Config::burst_of(rate));
                Self::Rate(Bucket::new(rate, burst, now))
            }
            Capacity::Concurrency(limit) => Self::Places(limit),
            Capacity::Adaptive { least, most } => {
                Self::Adaptive(AdaptiveLimit::with(least, most, in_service, now))
            }
        }
    }

    /// Another capacity; what an adaptive limit has learnt is kept.
    pub(super) fn reconfigure(&mut self, config: &Config, in_service: u32, now: Time) {
        match (self, config.capacity) {
            (Self::Adaptive(adaptive), Capacity::Adaptive { least, most }) => {
                adaptive.set_bounds(least, most);
            }
            (server, _) => *server = Self::new(config, in_service, now),
        }
    }

    /// `C`, if that is what limits.
    pub(super) fn rate(&self) -> Option<f64> {
        match self {
            Self::Rate(bucket) => Some(bucket.rate()),
            Self::Places(_) | Self::Adaptive(_) => None,
        }
    }

    /// The most requests at once, if that is what limits.
    pub(super) fn limit(&self) -> Option<u32> {
        match self {
            Self::Rate(_) => None,
            Self::Places(limit) => Some(*limit),
            Self::Adaptive(adaptive) => Some(adaptive.limit()),
        }
    }

    /// Whether it can take one more now; `strict`ly at regular intervals, or within the burst.
    pub(super) fn has_room(&self, now: Time, in_service: u32, strict: bool) -> bool {
        match self {
            Self::Rate(bucket) => bucket.has(now, strict),
            Self::Places(limit) => in_service < *limit,
            Self::Adaptive(adaptive) => in_service < adaptive.limit(),
        }
    }

    /// When time alone makes room.
    pub(super) fn due(&self, strict: bool) -> Option<Time> {
        match self {
            Self::Rate(bucket) => Some(bucket.due(strict)),
            Self::Places(_) | Self::Adaptive(_) => None,
        }
    }

    /// One more goes to it, that `waited` or came just now.
    pub(super) fn start(&mut self, now: Time, waited: bool) {
        match self {
            Self::Rate(bucket) if waited => bucket.take_overdue(now),
            Self::Rate(bucket) => bucket.take(now),
            Self::Places(_) => {}
            Self::Adaptive(adaptive) => adaptive.started(now),
        }
    }

    /// One has left it.
    pub(super) fn end(&mut self, now: Time, latency: Span, outcome: Outcome) {
        if let Self::Adaptive(adaptive) = self {
            adaptive.ended(now, latency, outcome);
        }
    }
}
