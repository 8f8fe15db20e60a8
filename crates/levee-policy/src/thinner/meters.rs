//! Rates as they are measured: how much is asked, paid and done a second, and how busy the server is.
//!
//! Counts are gathered over a tick and go into exponentially weighted means at its end, so that an event costs an addition.

use crate::{Span, Time};

/// Ticks in the time constant of the means.
const TICKS: f64 = 16.0;
/// The least tick: the means then have a time constant of one second (our choice).
const TICK: Span = Span::from_nanos(1_000_000_000 / 16);
/// The longest tick, for a server of very low rate.
const TICK_MAX: Span = Span::from_secs(60);
/// Requests of the server's rate in a tick at least: the means then rest on twice sixteen of them (our choice).
const REQUESTS_OF_A_TICK: f64 = 2.0;

/// All that is measured.
#[derive(Clone, Debug)]
pub(super) struct Meters {
    tick: Span,
    end: Time,
    /// What a mean keeps of itself over a tick.
    kept: f64,
    inbound: Mean,
    units: Mean,
    admitted: Mean,
    done: Mean,
    /// Requests at the server, over time.
    busy: f64,
    /// Since the start of the tick, in requests times nanoseconds.
    busy_sum: u128,
    busy_since: Time,
}

/// A count, and the mean of its rate.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    count: u64,
    per_second: f64,
}

impl Mean {
    fn roll(&mut self, kept: f64, tick: f64) {
        self.per_second += (self.count as f64 / tick - self.per_second) * (1.0 - kept);
        self.count = 0;
    }
}

impl Meters {
    /// Nothing seen; `rate` is that of the server, if it is known.
    pub(super) fn new(rate: Option<f64>, now: Time) -> Self {
        let tick = rate
            .and_then(|rate| Span::from_secs_f64(REQUESTS_OF_A_TICK / rate))
            .map_or(TICK, |tick| tick.clamp(TICK, TICK_MAX));
        Self {
            tick,
            end: end_of_tick(now, tick),
            kept: libm::exp(-1.0 / TICKS),
            inbound: Mean::default(),
            units: Mean::default(),
            admitted: Mean::default(),
            done: Mean::default(),
            busy: 0.0,
            busy_sum: 0,
            busy_since: now,
        }
    }

    /// When the tick ends, and with it the means change.
    pub(super) fn end(&self) -> Time {
        self.end
    }

    /// Goes on to the tick of `now`, which is not before the end of the last one; `in_service` are at the server since the last change.
    pub(super) fn roll(&mut self, now: Time, in_service: u32) {
        let seconds = self.tick.as_secs_f64();
        self.note_service(self.end, in_service);
        let mean = self.busy_sum as f64 / self.tick.as_nanos() as f64;
        self.busy_sum = 0;
        self.busy += (mean - self.busy) * (1.0 - self.kept);
        let means = [
            &mut self.inbound,
            &mut self.units,
            &mut self.admitted,
            &mut self.done,
        ];
        let whole = (now - self.end).as_nanos() / self.tick.as_nanos();
        let quiet = if whole == 0 {
            1.0
        } else {
            libm::pow(self.kept, whole as f64)
        };
        for mean in means {
            mean.roll(self.kept, seconds);
            mean.per_second *= quiet;
        }
        let in_service_f = f64::from(in_service);
        self.busy = in_service_f + (self.busy - in_service_f) * quiet;
        self.end = end_of_tick(now, self.tick);
        self.busy_since = Time::from_nanos(self.end.as_nanos() - self.tick.as_nanos());
        self.note_service(now, in_service);
    }

    /// So many were at the server until now.
    pub(super) fn note_service(&mut self, now: Time, in_service: u32) {
        self.busy_sum += u128::from(in_service) * u128::from((now - self.busy_since).as_nanos());
        self.busy_since = now;
    }

    pub(super) fn note_inbound(&mut self, requests: u64) {
        self.inbound.count += requests;
    }

    pub(super) fn note_units(&mut self, units: u64) {
        self.units.count = self.units.count.saturating_add(units);
    }

    pub(super) fn note_admitted(&mut self) {
        self.admitted.count += 1;
    }

    pub(super) fn note_done(&mut self) {
        self.done.count += 1;
    }

    /// Requests a second that ask, retries and paid ones included.
    pub(super) fn inbound(&self) -> f64 {
        self.inbound.per_second
    }

    /// Units a second that are paid.
    pub(super) fn units(&self) -> f64 {
        self.units.per_second
    }

    /// Requests a second that are admitted.
    pub(super) fn admitted(&self) -> f64 {
        self.admitted.per_second
    }

    /// Requests a second that leave the server.
    pub(super) fn done(&self) -> f64 {
        self.done.per_second
    }

    /// Requests at the server in the mean.
    pub(super) fn busy(&self) -> f64 {
        self.busy
    }
}

fn end_of_tick(now: Time, tick: Span) -> Time {
    let index = now.as_nanos() / tick.as_nanos();
    Time::from_nanos((index + 1).saturating_mul(tick.as_nanos()))
}
