//! The bandwidth of a client: a token bucket over all its connections.
//!
//! Kept as the time at which all that was granted has gone. A piece may be written when a line of that rate would have carried it
//! whole, so a request takes its time after a pause too, as it does in the model. Grants are given in the order in which they are
//! asked for: connections that each ask for one piece at a time share the bandwidth evenly, as flows of one sender do.

use std::time::Duration;

/// Who asks so soon after its last piece has never stopped: a timer's step.
const GOES_ON_S: f64 = 0.002;

/// A token bucket. Times are since an epoch of the caller's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// Bytes a second; infinite for no limit.
    rate: f64,
    /// Seconds by which a sender that goes on may catch up with what its timers were late.
    slack_s: f64,
    /// When all that was granted has gone, in seconds.
    gone_s: f64,
    /// When a grant was last used.
    used_s: f64,
}

impl Bucket {
    /// So many bytes a second, of which those of `slack` may be caught up with.
    pub(crate) fn new(rate: f64, slack: Duration) -> Self {
        Self {
            rate,
            slack_s: slack.as_secs_f64(),
            gone_s: 0.0,
            used_s: f64::NEG_INFINITY,
        }
    }

    /// When the next `bytes` have gone, and may be written: now, or later than now.
    pub(crate) fn grant(&mut self, now: Duration, bytes: usize) -> Duration {
        if !self.rate.is_finite() {
            return now;
        }
        let now_s = now.as_secs_f64();
        let goes_on = now_s - self.used_s <= GOES_ON_S;
        let slack = if goes_on { self.slack_s } else { 0.0 };
        self.gone_s = self.gone_s.max(now_s - slack) + bytes as f64 / self.rate;
        Duration::from_secs_f64(self.gone_s).max(now)
    }

    /// A grant is used.
    pub(crate) fn used(&mut self, now: Duration) {
        self.used_s = now.as_secs_f64();
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

    const NONE: Duration = Duration::ZERO;

    #[test]
    fn a_piece_takes_its_time_even_after_a_pause() {
        let mut bucket = Bucket::new(1_000.0, ms(100));
        let at = [100, 100, 200].map(|n| bucket.grant(NONE, n));
        assert_eq!(at, [ms(100), ms(200), ms(400)]);
        assert_eq!(bucket.grant(ms(60_000), 100), ms(60_100));
    }

    #[test]
    fn a_sender_that_goes_on_catches_up_with_its_timers() {
        let mut bucket = Bucket::new(1_000.0, ms(100));
        assert_eq!(bucket.grant(NONE, 100), ms(100));
        // The timer was 30 ms late: the next piece goes when it should.
        bucket.used(ms(130));
        assert_eq!(bucket.grant(ms(130), 100), ms(200));
        // It was 400 ms late, of which 100 are caught up with.
        bucket.used(ms(600));
        assert_eq!(bucket.grant(ms(600), 100), ms(600));
        // It had nothing to send for a while.
        bucket.used(ms(600));
        assert_eq!(bucket.grant(ms(610), 100), ms(710));
    }

    #[test]
    fn what_is_given_back_can_be_had_again() {
        let mut bucket = Bucket::new(1_000.0, NONE);
        assert_eq!(bucket.grant(NONE, 500), ms(500));
        assert_eq!(bucket.grant(NONE, 500), ms(1_000));
        bucket.give_back(500);
        assert_eq!(bucket.grant(NONE, 500), ms(1_000));
        assert_eq!(bucket.grant(NONE, 500), ms(1_500));
    }

    #[test]
    fn no_limit_never_waits() {
        let mut bucket = Bucket::new(f64::INFINITY, NONE);
        for n in 0..3 {
            assert_eq!(bucket.grant(ms(n), usize::MAX), ms(n));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, rng_seed: RngSeed::Fixed(3), ..ProptestConfig::default() })]

        /// Of all grants that were used, those of the first `t` seconds are never more than rate * t, but for one piece that came
        /// earlier because another was given back. A client that asks all the time gets no less than the rate either, however late
        /// its timers are within the slack.
        #[test]
        fn no_more_than_the_rate_goes_and_no_less_if_it_is_wanted(
            rate in 100.0..100_000.0f64,
            asked in prop::collection::vec((0u64..200, 1usize..3_000, any::<u8>()), 1..60),
            late in prop::collection::vec(0.0..1.0f64, 40),
        ) {
            let mut bucket = Bucket::new(rate, ms(50));
            let (mut now, mut used) = (NONE, Vec::new());
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
                let most = rate * t.as_secs_f64() + 3_000.0;
                prop_assert!(sent as f64 <= most, "{sent} bytes by {t:?}, at most {most}");
            }
            // From now on it asks for a piece as soon as the last one has gone, and its timers are late by less than a piece takes.
            let piece_s = (500.0 / rate).min(0.05);
            let begun = now.max(used.iter().map(|(at, _)| *at).max().unwrap_or(now));
            let (mut at, mut sent) = (begun, 0usize);
            bucket.used(begun);
            for late in &late {
                at = bucket.grant(at, 500) + Duration::from_secs_f64(late * piece_s);
                bucket.used(at);
                sent += 500;
            }
            // What it is late at the end is still to come.
            let passed = (at - begun).as_secs_f64() - 0.1;
            prop_assert!((sent + 500) as f64 >= rate * passed * 0.999, "{sent} bytes in {passed} s at {rate}");
        }
    }
}
