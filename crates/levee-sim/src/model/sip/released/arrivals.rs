//! Who calls when.

use levee_policy::Time;

use super::super::setup::{Setup, span};
use crate::schedule::{Arrivals as Spacing, Calls, Kind, Schedule};

/// Both kinds begin with a call at this time.
const FIRST_CALL_S: f64 = 0.05;

/// The calls of a run, in the order in which their INVITEs reach the server.
#[derive(Clone, Debug)]
pub(super) enum Arrivals {
    /// Each kind at fixed intervals.
    Even(Even),
    /// As planned for the other models too.
    Planned(Schedule),
}

impl Arrivals {
    pub(super) fn new(setup: &Setup, last_in_first_out: bool, run: u64) -> Self {
        let plan = &setup.plan;
        match plan.arrivals {
            Spacing::Even => Self::Even(Even::new(setup, last_in_first_out)),
            Spacing::Poisson => Self::Planned(plan.schedule_of(run)),
        }
    }
}

impl Iterator for Arrivals {
    type Item = (Time, Kind);

    fn next(&mut self) -> Option<(Time, Kind)> {
        match self {
            Self::Even(even) => even.next(),
            Self::Planned(schedule) => schedule
                .next()
                .map(|arrival| (Time::ZERO + span(arrival.at), arrival.kind)),
        }
    }
}

/// Two generators at fixed intervals.
///
/// With shares like 1/3 every second honest call coincides with an attacker's, and when a line has become free since the last
/// calls, whoever is served first gets it. In the released model that is decided by the rounding of sums of floats, and where
/// they are equal by [`Quirks::last_in_first_out`](super::Quirks::last_in_first_out). So the times here are the same sums, and
/// become nanoseconds only after the order is settled.
#[derive(Clone, Debug)]
pub(super) struct Even {
    /// By [`Kind::index`]: the next call.
    next_s: [f64; 2],
    gap_s: [f64; 2],
    /// How many timers were set before that of the next call.
    set: [u64; 2],
    timers: u64,
    /// A call that was looked at already.
    ahead: Option<(f64, Kind)>,
    last_in_first_out: bool,
    delay_s: f64,
    until_s: f64,
}

impl Even {
    fn new(setup: &Setup, last_in_first_out: bool) -> Self {
        let plan = &setup.plan;
        let gap_s = [&plan.honest, &plan.attacker].map(|stream| match stream.calls {
            Calls::Rate(rate) => 1.0 / rate,
            Calls::OnceEach { .. } => f64::INFINITY,
        });
        Self {
            next_s: gap_s.map(|gap| if gap.is_finite() { FIRST_CALL_S } else { gap }),
            gap_s,
            // Its timer for the first attacker is set first.
            set: [1, 0],
            timers: 2,
            ahead: None,
            last_in_first_out,
            delay_s: span_s(setup),
            until_s: plan.until.as_secs_f64(),
        }
    }

    /// The next call in order of its beginning.
    fn begin(&mut self) -> Option<(f64, Kind)> {
        let [honest, attacker] = self.next_s;
        let honest_first = if honest == attacker {
            (self.set[0] > self.set[1]) == self.last_in_first_out
        } else {
            honest < attacker
        };
        let kind = if honest_first {
            Kind::Honest
        } else {
            Kind::Attacker
        };
        let i = kind.index();
        let at = self.next_s[i];
        // The horizon itself belongs to the run. Infinite without calls.
        if at > self.until_s {
            return None;
        }
        self.next_s[i] = self.gap_s[i] + at;
        self.set[i] = self.timers;
        self.timers += 1;
        Some((at, kind))
    }

    /// The next call in order of its INVITE.
    fn next(&mut self) -> Option<(Time, Kind)> {
        let first = self.ahead.take().or_else(|| self.begin())?;
        let second = self.begin();
        let (now, later) = match second {
            Some(second) if self.last_in_first_out && self.coincide(first.0, second.0) => {
                (second, Some(first))
            }
            _ => (first, second),
        };
        self.ahead = later;
        let nanos = libm::round(now.0 * 1e9);
        Some((Time::from_nanos(nanos as u64), now.1))
    }

    /// Whether INVITEs that are sent at these times arrive at one and the same.
    fn coincide(&self, a: f64, b: f64) -> bool {
        a + self.delay_s == b + self.delay_s
    }
}

fn span_s(setup: &Setup) -> f64 {
    setup.delay.as_nanos() as f64 / 1e9
}
