//! Phases with progress: what the drop factor of a connection looks at where a protocol has more to say than WAITING and INCALL.
//!
//! Each phase is weighed as SIP weighs INCALL, but by *lag* in the place of age:
//!
//! ```text
//! d = weight                                                     while lag <= usual
//!     max(weight, waiting) + scale * exp(alpha lag / usual)      while lag >  usual
//! ```
//!
//! times the factor of the class; `waiting`, `scale` and `alpha` are those of `drop_factor`. The lag is `behind` and the time since the
//! phase was entered, less what came through in it at `rate`. What comes faster than that keeps the lag at 0 and is not saved up: who
//! stops after a burst is behind as soon as anyone.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::CallState;
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
    /// How far behind a call may usually be. Without it, none is ever too far behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<Span>,
    /// Units a second that keep a call from falling behind; 0, the default, lets time pass whatever comes.
    #[serde(default)]
    pub rate: f64,
    /// How far behind a call begins, until something comes through; 0 by default, and never longer than the time since the start
    /// of the clock. With more than `usual` a newcomer is not trusted before it has made progress.
    #[serde(default)]
    pub behind: Span,
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

    /// The reference time of a call that enters now: its lag is the time since then.
    pub(super) fn entered(&self, now: Time) -> Time {
        now.saturating_sub(self.behind)
    }

    /// The reference time of a call that had this one, when so many units more have come through.
    pub(super) fn progressed(&self, reference: Time, units: u64, now: Time) -> Time {
        if self.rate == 0.0 {
            return reference;
        }
        let earned = Span::from_secs_f64(units as f64 / self.rate).unwrap_or(Span::MAX);
        reference.saturating_add(earned).min(now)
    }
}

/// The weight of a newcomer in [`phases_of_http`]: `p_WAIT` of the paper, for headers as for an INVITE.
const NEWCOMER: f64 = super::WAITING;
/// How much more or less than a newcomer those weigh who have nothing to lose, and those who are served: so much that even
/// roulette among a table full of newcomers hardly ever meets one who is served (our choice, from the experiments with the model).
const STEP: f64 = 32.0;
/// The first retransmission time-out of TCP (RFC 6298, section 2): a lost packet makes any client silent for so long.
const RETRANSMISSION: Span = Span::from_secs(1);
/// `MinRate` of Apache's `mod_reqtimeout` by default, bytes a second.
const RATE: f64 = 500.0;
/// `KeepAliveTimeout` of Apache by default.
const KEEP_ALIVE: Span = Span::from_secs(5);
/// Who has yet to show that it sends or reads is as far behind, and falls back from there: one second too far, which 500 bytes
/// make good (our choice, from the same experiments). The same for all, so that those who began last are the last to go.
const UNPROVEN: Span = Span::from_secs(2);

/// Phases for the connections of an HTTP server; units are bytes. [`PhaseId`] has a constant for each, in this order:
///
/// - `idle`: between two requests. Nothing is lost with such a connection, so it goes first.
/// - `headers`: of a new connection, and until request line and headers are complete. Nothing but that counts: Slowloris sends all
///   but the last line at once, and drips the rest.
/// - `body`: who sends as it should is as safe as can be, once it has begun to.
/// - `waiting`: the client waits for the server, for however long, and is as safe as can be. So is a stream of events.
/// - `sending`: more of a response is there than the kernel takes, so the server waits for the client. Bytes count when the
///   kernel takes them. Safe is who reads, once it has begun to.
#[must_use]
pub fn phases_of_http() -> Vec<Phase> {
    let phase = |name: &str, weight, usual| Phase {
        name: name.to_string(),
        weight,
        usual,
        rate: 0.0,
        behind: Span::ZERO,
    };
    let transfer = |name| Phase {
        rate: RATE,
        behind: UNPROVEN,
        ..phase(name, NEWCOMER / STEP, Some(RETRANSMISSION))
    };
    Vec::from([
        phase("idle", NEWCOMER * STEP, Some(KEEP_ALIVE)),
        Phase {
            behind: UNPROVEN,
            ..phase("headers", NEWCOMER, Some(RETRANSMISSION))
        },
        transfer("body"),
        phase("waiting", NEWCOMER / STEP, None),
        transfer("sending"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(phase: &Phase, lag_ms: u64) -> f64 {
        let d = phase.drop_factor(&DropFactor::default());
        d.of(CallState::InCall, Span::from_millis(lag_ms))
    }

    /// The order in which connections are given up, from the safest on; all by their drop factors.
    #[test]
    fn the_order_of_http() {
        let [idle, headers, body, waiting, sending] = &phases_of_http()[..] else {
            panic!("five phases");
        };
        let day = 86_400_000;
        let order = [
            d(waiting, 0),
            d(headers, 2_000),
            d(body, 2_001),
            d(sending, 2_002),
            d(idle, 0),
            d(headers, 3_500),
            d(body, 5_000),
            d(idle, 30_000),
        ];
        assert!(order.is_sorted_by(|one, other| one < other), "{order:?}");
        for safe in [d(waiting, day), d(body, 1_000), d(sending, 1_000)] {
            assert_eq!(safe, d(waiting, 0));
        }
    }

    #[test]
    fn progress_earns_time_and_nothing_is_saved_up() {
        let body = &phases_of_http()[2];
        let at = |secs: u64| Time::from_nanos(secs * 1_000_000_000);
        let entered = body.entered(at(100));
        assert_eq!(entered, at(98));
        assert_eq!(body.entered(at(1)), Time::ZERO);
        for (units, now, expected) in [
            (0, 100, at(98)),
            (500, 100, at(99)),
            (500 * 60, 100, at(100)),
            (u64::MAX, 200, at(200)),
        ] {
            assert_eq!(body.progressed(entered, units, at(now)), expected);
        }
        let idle = &phases_of_http()[0];
        assert_eq!(idle.progressed(at(7), u64::MAX, at(9)), at(7));
    }
}
