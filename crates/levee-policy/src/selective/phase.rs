//! Phases with progress: what the drop factor of a connection looks at where a protocol has more to say than WAITING and INCALL.
//!
//! Each phase is weighed as SIP weighs INCALL, but by *lag* in the place of age:
//!
//! ```text
//! d = weight                                                     while lag <= usual
//!     max(weight, waiting) + scale * exp(alpha lag / usual)      while lag >  usual
//! ```
//!
//! times the factor of the class; `waiting`, `scale` and `alpha` are those of `drop_factor`. The lag is the time since the
//! phase was entered, less what came through in it at `rate`. What comes faster than that keeps the lag at 0 and is not saved up: who
//! stops after a burst is behind as soon as anyone.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use super::DropFactor;
use crate::{Span, Time};

/// The most phases: an eviction is counted for each, and each costs every decision a little (our choice).
pub const PHASES_MAX: usize = 8;
/// The largest `rate`: one unit then earns less than the clock's nanosecond (our choice).
pub const RATE_MAX: f64 = 1e12;
/// The smallest `rate` above 0: one unit then earns eleven days (our choice).
pub const RATE_MIN: f64 = 1e-6;

/// A phase: entry `i` of [`Config::phases`](super::Config::phases). Without phases all calls are in phase 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct PhaseId(pub u8);

impl PhaseId {
    /// Of a connection between two requests, in [`phases_of_http`].
    pub const IDLE: Self = Self(0);
    /// Of a connection whose request line and headers are not complete, in [`phases_of_http`]. New connections begin here.
    pub const HEADERS: Self = Self(1);
    /// Of a connection whose request body is not complete, in [`phases_of_http`].
    pub const BODY: Self = Self(2);
    /// Of a connection that waits for the server, in [`phases_of_http`].
    pub const WAITING: Self = Self(3);
    /// Of a connection whose client has not taken what is there for it, in [`phases_of_http`].
    pub const SENDING: Self = Self(4);

    pub(super) fn is_first(&self) -> bool {
        self.0 == 0
    }
}

/// A phase of a connection, and what is expected of it there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// By which a reload finds it; not empty.
    pub name: String,
    /// The drop factor while the lag is usual; more than 0.
    pub weight: f64,
    /// How far behind a call may usually be; one that has no such time is never too far behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<Span>,
    /// Units a second that keep a call from falling behind; 0, the default, lets time pass whatever comes.
    #[serde(default)]
    pub rate: f64,
}

impl Phase {
    /// What its calls are weighed by, with lag for age.
    pub(super) fn drop_factor(&self, d: &DropFactor) -> DropFactor {
        DropFactor {
            waiting: d.waiting.max(self.weight),
            in_call: self.weight,
            mean_call: self.usual.unwrap_or(Span::MAX),
            ..*d
        }
    }

    /// The reference time of a call that had this one and has sent or taken so many units since.
    pub(super) fn progressed(&self, reference: Time, units: u64, now: Time) -> Time {
        if self.rate == 0.0 {
            return reference;
        }
        let earned = Span::from_secs_f64(units as f64 / self.rate).unwrap_or(Span::MAX);
        reference.saturating_add(earned).min(now)
    }
}

/// Phases for the connections of an HTTP server: idle, headers, body, waiting, sending, in the order of the constants of [`PhaseId`]. Units are bytes.
#[must_use]
pub fn phases_of_http() -> Vec<Phase> {
    let phase = |name: &str, weight, usual, rate| Phase {
        name: name.to_string(),
        weight,
        usual,
        rate,
    };
    Vec::from([
        phase("idle", 64.0, Some(Span::from_secs(5)), 0.0),
        phase("headers", 8.0, Some(Span::from_secs(1)), 500.0),
        phase("body", 8.0, Some(Span::from_secs(1)), 500.0),
        phase("waiting", 2.0, None, 0.0),
        phase("sending", 2.0, Some(Span::from_secs(1)), 500.0),
    ])
}
