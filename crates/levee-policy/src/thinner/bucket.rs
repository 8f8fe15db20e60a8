//! A server that takes so many requests a second: when the next one may go.

use crate::Time;

/// Bits below a nanosecond, so that rounding makes no rate drift.
const FRACTION: u32 = 32;

/// Regular intervals of `1/C`, and how far the requests may run ahead of them: the generic cell rate algorithm (ITU-T I.371).
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: f64,
    /// In 2^-32 ns, as all times here.
    interval: u128,
    burst: u32,
    /// When the next request is due.
    next: u128,
}

impl Bucket {
    pub(super) fn new(rate: f64, burst: u32, now: Time) -> Self {
        let nanos = 1e9 / rate * (1_u64 << FRACTION) as f64;
        Self {
            rate,
            interval: nanos as u128,
            burst,
            next: fixed(now),
        }
    }

    /// `C`.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Requests that may go ahead of the intervals.
    fn ahead(&self, strict: bool) -> u128 {
        let requests = if strict { 0 } else { self.burst - 1 };
        u128::from(requests) * self.interval
    }

    /// When the next request may go: `strict`ly at its interval, or ahead of it within the burst.
    pub(super) fn due(&self, strict: bool) -> Time {
        let due = self.next.saturating_sub(self.ahead(strict));
        let nanos = due.div_ceil(1 << FRACTION);
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Whether a request may go now.
    pub(super) fn has(&self, now: Time, strict: bool) -> bool {
        self.next <= fixed(now) + self.ahead(strict)
    }

    /// A request goes that came just now.
    pub(super) fn take(&mut self, now: Time) {
        self.next = self.next.max(fixed(now)) + self.interval;
    }

    /// A request goes that was waiting: if the driver is late, the intervals that it missed are made good, up to a burst of them.
    pub(super) fn take_overdue(&mut self, now: Time) {
        let late = u128::from(self.burst) * self.interval;
        self.next = self.next.max(fixed(now).saturating_sub(late)) + self.interval;
    }

    /// The part of the burst that is left, from 0 to 1.
    pub(super) fn headroom(&self, now: Time) -> f64 {
        let ahead = self.next.saturating_sub(fixed(now)) as f64 / self.interval as f64;
        (1.0 - ahead / f64::from(self.burst)).max(0.0)
    }
}

fn fixed(time: Time) -> u128 {
    u128::from(time.as_nanos()) << FRACTION
}
