//! Logs that an attacker cannot fill the disk with.

use std::collections::BTreeMap;
use std::time::Duration;

/// Lets through a few log lines a second for each cause, and counts the rest.
///
/// A line is let through with the number of lines of its cause that were held back since the last one; [`Self::held_back`]
/// says the rest once it is quiet again. Time is a length since any fixed start, so that a test needs no clock.
///
/// ```
/// use std::time::Duration;
/// use levee_proxy::log::RateLimited;
///
/// let mut gate = RateLimited::new(2);
/// let now = Duration::from_secs(5);
/// assert_eq!(gate.allow(now, "malformed"), Some(0));
/// assert_eq!(gate.allow(now, "malformed"), Some(0));
/// assert_eq!(gate.allow(now, "malformed"), None);
/// assert_eq!(gate.allow(now, "too long"), Some(0));
/// assert_eq!(gate.allow(now + Duration::from_secs(1), "malformed"), Some(1));
/// ```
#[derive(Clone, Debug)]
pub struct RateLimited {
    lines_per_second: u32,
    /// Causes are texts of the program, so there are few.
    causes: BTreeMap<&'static str, Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    start: Duration,
    lines: u32,
    held_back: u64,
}

const SECOND: Duration = Duration::from_secs(1);

impl RateLimited {
    /// At most so many lines a second for each cause.
    pub fn new(lines_per_second: u32) -> Self {
        RateLimited {
            lines_per_second,
            causes: BTreeMap::new(),
        }
    }

    /// Whether a line of this cause may be written at `now`, and if so, how many were held back before it.
    pub fn allow(&mut self, now: Duration, cause: &'static str) -> Option<u64> {
        let window = self.causes.entry(cause).or_insert(Window {
            start: now,
            lines: 0,
            held_back: 0,
        });
        if now.saturating_sub(window.start) >= SECOND {
            window.start = now;
            window.lines = 0;
        }
        if window.lines >= self.lines_per_second {
            window.held_back += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.held_back))
    }

    /// The causes with lines that were held back in a second that is over, each with their number; they count as told.
    pub fn held_back(&mut self, now: Duration) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let over = move |window: &Window| {
            now.saturating_sub(window.start) >= SECOND && window.held_back > 0
        };
        self.causes.iter_mut().filter_map(move |(cause, window)| {
            over(window).then(|| (*cause, std::mem::take(&mut window.held_back)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_lost_from_the_count() {
        let mut gate = RateLimited::new(3);
        let (mut written, mut told) = (0, 0);
        for at in 0..10_000 {
            let now = Duration::from_millis(at);
            if let Some(held_back) = gate.allow(now, "a") {
                written += 1;
                told += held_back;
            }
        }
        let late = Duration::from_secs(20);
        told += gate
            .held_back(late)
            .map(|(_, held_back)| held_back)
            .sum::<u64>();
        assert_eq!(written, 3 * 10);
        assert_eq!(written + told, 10_000);
        assert_eq!(gate.held_back(late).count(), 0);
    }

    #[test]
    fn a_second_that_is_not_over_is_not_told_yet() {
        let mut gate = RateLimited::new(0);
        assert_eq!(gate.allow(SECOND, "a"), None);
        assert_eq!(
            gate.held_back(SECOND + Duration::from_millis(999)).count(),
            0
        );
        assert_eq!(gate.held_back(2 * SECOND).collect::<Vec<_>>(), [("a", 1)]);
    }

    #[test]
    fn a_clock_that_goes_back_holds_lines_back_and_does_no_harm() {
        let mut gate = RateLimited::new(1);
        assert_eq!(gate.allow(2 * SECOND, "a"), Some(0));
        assert_eq!(gate.allow(SECOND, "a"), None);
        assert_eq!(gate.allow(3 * SECOND, "a"), Some(1));
    }
}
