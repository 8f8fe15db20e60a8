//! The bandwidth of a client: a token bucket over all its connections.
//!
//! Kept as the time at which all that was granted has gone. Grants are given in the order in which they are asked for, so
//! connections that each ask for one piece at a time share the bandwidth evenly, as flows of one sender do.

use std::time::Duration;

/// A token bucket. Times are since an epoch of the caller's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// Bytes a second; infinite for no limit.
    rate: f64,
    /// Seconds of the rate that may go at once after a pause.
    burst_s: f64,
    /// When all that was granted has gone, in seconds.
    gone_s: f64,
}

impl Bucket {
    /// A full bucket of `burst` bytes, refilled with `rate` bytes a second.
    pub(crate) fn new(rate: f64, burst: f64) -> Self {
        let burst_s = burst / rate;
        Self {
            rate,
            burst_s,
            gone_s: -burst_s,
        }
    }

    /// When the next `bytes` may go: now, or later than now.
    pub(crate) fn grant(&mut self, now: Duration, bytes: usize) -> Duration {
        if !self.rate.is_finite() {
            return now;
        }
        let full = now.as_secs_f64() - self.burst_s;
        let from = self.gone_s.max(full);
        self.gone_s = from + bytes as f64 / self.rate;
        // What the burst covers goes at once.
        let at = Duration::from_secs_f64(from.max(0.0));
        at.max(now)
    }

    /// Gives back a grant that was not used. Grants made after it keep their times; later ones are earlier for it.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        if self.rate.is_finite() {
            self.gone_s -= bytes as f64 / self.rate;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_full_bucket_gives_its_burst_at_once_and_then_the_rate() {
        let mut bucket = Bucket::new(1_000.0, 200.0);
        let at = [100, 100, 100, 100].map(|n| bucket.grant(Duration::ZERO, n));
        assert_eq!(at, [ms(0), ms(0), ms(0), ms(100)]);
        // A pause refills no more than the burst.
        let at = [200, 100, 100].map(|n| bucket.grant(ms(60_000), n));
        assert_eq!(at, [ms(60_000), ms(60_000), ms(60_100)]);
    }

    #[test]
    fn what_is_given_back_can_be_had_again() {
        let mut bucket = Bucket::new(1_000.0, 0.0);
        assert_eq!(bucket.grant(Duration::ZERO, 500), ms(0));
        assert_eq!(bucket.grant(Duration::ZERO, 500), ms(500));
        bucket.give_back(500);
        assert_eq!(bucket.grant(Duration::ZERO, 500), ms(500));
        assert_eq!(bucket.grant(Duration::ZERO, 500), ms(1_000));
    }

    #[test]
    fn no_limit_never_waits() {
        let mut bucket = Bucket::new(f64::INFINITY, 0.0);
        for n in 0..3 {
            assert_eq!(bucket.grant(ms(n), usize::MAX), ms(n));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, rng_seed: RngSeed::Fixed(3), ..ProptestConfig::default() })]

        /// Of all grants that were used, those of the first `t` seconds are never more than burst + rate * t, and one piece.
        /// A client that asks all the time gets no less than the rate either.
        #[test]
        fn no_more_than_the_rate_goes_and_no_less_if_it_is_wanted(
            rate in 100.0..100_000.0f64,
            burst in 0.0..10_000.0f64,
            asked in prop::collection::vec((0u64..200, 1usize..3_000, any::<u8>()), 1..60),
        ) {
            let mut bucket = Bucket::new(rate, burst);
            let (mut now, mut used) = (Duration::ZERO, Vec::new());
            for (pause, bytes, chance) in asked {
                now += ms(pause);
                let at = bucket.grant(now, bytes);
                prop_assert!(at >= now);
                // A tenth of the grants that are not due yet is given back.
                if at > now && chance < 26 {
                    bucket.give_back(bytes);
                } else {
                    used.push((at, bytes));
                }
            }
            for (t, _) in &used {
                let sent: usize = used.iter().filter(|(at, _)| at <= t).map(|(_, n)| n).sum();
                let most = burst + rate * t.as_secs_f64() + 3_000.0;
                prop_assert!(sent as f64 <= most, "{sent} bytes by {t:?}, at most {most}");
            }
            // From now on it asks for a piece whenever the last one has gone.
            let (begun, mut at, mut sent) = (now, now, 0usize);
            while at < begun + ms(2_000) {
                at = bucket.grant(at, 500);
                sent += 500;
            }
            let backlog: usize = used.iter().filter(|(at, _)| *at > begun).map(|(_, n)| n).sum();
            let passed = (at - begun).as_secs_f64();
            // It may owe what of its last piece has not gone yet.
            prop_assert!((sent + backlog + 3_500) as f64 >= rate * passed * 0.999, "{sent} bytes in {passed} s");
        }
    }
}
