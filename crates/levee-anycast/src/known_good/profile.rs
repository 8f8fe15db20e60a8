//! How much one source sends at which hour.

use super::{History, SourceHistory, season::HOUR_S};

/// Hours of a day.
const DAY: usize = 24;
/// Hours of a week.
const WEEK: usize = 168;
/// A bin of a profile has at least this many hours, else there is no spread to see.
const PER_BIN_MIN: usize = 2;

/// The median rate of a source by hour of the week, of the day, or at all, as far as the history reaches.
///
/// Cruder than [`season`](super::season), which models the sum; but a source's own counts are few, and there are hundreds.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// Events per second by hour, from the hour of the epoch on.
    bins: Vec<f64>,
    /// The standard deviation of an hour's rate around its bin, over the mean rate; without what counting alone gives.
    pub(super) variation: f64,
    /// Events per second, over the whole history.
    pub(super) mean: f64,
}

impl Profile {
    /// Of the rates of the hours from hour `first` (of the epoch) on. `None` without a single one that is above 0.
    pub(super) fn of(first: i64, hours: &[Option<f64>]) -> Option<Self> {
        let known: Vec<f64> = hours.iter().copied().flatten().collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        if known.is_empty() || mean <= 0.0 {
            return None;
        }
        let size = [WEEK, DAY]
            .into_iter()
            .find(|size| hours.len() >= PER_BIN_MIN * size)
            .unwrap_or(1);
        let bins = medians(first, hours, size, mean);
        let variation = variation(first, hours, &bins, mean);
        Some(Self {
            bins,
            variation,
            mean,
        })
    }

    /// Events per second at an hour.
    pub(super) fn rate(&self, hour: i64) -> f64 {
        self.bins[hour.rem_euclid(self.bins.len() as i64) as usize]
    }
}

fn medians(first: i64, hours: &[Option<f64>], size: usize, mean: f64) -> Vec<f64> {
    let mut by_bin = vec![Vec::new(); size];
    for (hour, rate) in (first..).zip(hours) {
        by_bin[hour.rem_euclid(size as i64) as usize].extend(*rate);
    }
    // A bin that was always missing: as at that hour of other days, or as always.
    let coarser = if size == WEEK && by_bin.iter().any(Vec::is_empty) {
        medians(first, hours, DAY, mean)
    } else {
        vec![mean]
    };
    by_bin
        .iter_mut()
        .enumerate()
        .map(|(bin, rates)| median(rates).unwrap_or(coarser[bin % coarser.len()]))
        .collect()
}

fn variation(first: i64, hours: &[Option<f64>], bins: &[f64], mean: f64) -> f64 {
    let (mut squares, mut count) = (0.0, 0.0);
    for (hour, rate) in (first..).zip(hours) {
        if let Some(rate) = rate {
            squares += (rate - bins[hour.rem_euclid(bins.len() as i64) as usize]).powi(2);
            count += 1.0;
        }
    }
    // Each bin took one degree of freedom.
    let free = (count - bins.len() as f64).max(1.0);
    let counting = mean / HOUR_S as f64;
    (squares / free - counting).max(0.0).sqrt() / mean
}

/// The median; sorts. `None` of nothing.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values {
        [] => None,
        _ if values.len() % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

impl History {
    /// The first hour of the epoch that it has a part of.
    pub(super) fn first_hour(&self) -> i64 {
        self.start_s.div_euclid(HOUR_S)
    }

    /// Events per second by hour, of a series by interval; hours of which less than half was reported are not known.
    pub(super) fn hourly(&self, by_slot: impl Fn(usize) -> Option<f64>) -> Vec<Option<f64>> {
        let first = self.first_hour();
        let hours = ((self.end_s() - 1).div_euclid(HOUR_S) - first + 1) as usize;
        let mut sums = vec![(0.0, 0i64); hours];
        for slot in 0..self.slots {
            let begin = self.start_s + slot as i64 * self.interval_s;
            if let Some(count) = by_slot(slot) {
                let hour = &mut sums[(begin.div_euclid(HOUR_S) - first) as usize];
                *hour = (hour.0 + count, hour.1 + self.interval_s);
            }
        }
        sums.into_iter()
            .map(|(sum, known_s)| (known_s * 2 >= HOUR_S).then_some(sum / known_s as f64))
            .collect()
    }

    /// What a source sent to all sites, by hour.
    pub(super) fn hourly_of(&self, source: &SourceHistory) -> Vec<Option<f64>> {
        self.hourly(|slot| self.sent(source, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_follows_the_week_and_says_what_is_left() {
        // Two levels a day, weekends off, counts that only repeat: nothing is left but what counting would give.
        let rate = |hour: i64| {
            if hour % 168 >= 120 {
                1.0
            } else if hour % 24 < 12 {
                4.0
            } else {
                2.0
            }
        };
        let hours: Vec<Option<f64>> = (1000..1000 + 3 * 168)
            .map(|hour| (hour % 50 != 0).then(|| rate(hour)))
            .collect();
        let profile = Profile::of(1000, &hours).unwrap();
        for hour in 5000..5168 {
            assert_eq!(profile.rate(hour), rate(hour));
        }
        assert_eq!(profile.variation, 0.0);
        // Of one week, only the day: the weekend is what is left.
        let day = Profile::of(1000, &hours[..168]).unwrap();
        assert_eq!((day.rate(0), day.rate(12)), (4.0, 2.0));
        assert!(day.variation > 0.2);
        // Of a few hours, the level.
        assert_eq!(
            Profile::of(0, &[Some(1.0), None, Some(5.0)])
                .unwrap()
                .rate(7),
            3.0
        );
        assert!(Profile::of(0, &[None, Some(0.0)]).is_none());
        assert!(Profile::of(0, &[]).is_none());
    }

    #[test]
    fn variation_is_what_counting_does_not_explain() {
        // Alternating by 10% around 1 a second, by day pairs so that the bins' medians are in the middle.
        let hours: Vec<Option<f64>> = (0..14 * 24)
            .map(|hour| Some(if hour / 24 % 2 == 0 { 0.9 } else { 1.1 }))
            .collect();
        let profile = Profile::of(0, &hours[..10 * 24]).unwrap();
        let expect = (0.01f64 * 240.0 / 216.0 - 1.0 / 3600.0).sqrt();
        assert!(
            (profile.variation - expect).abs() < 1e-12,
            "{}",
            profile.variation
        );
    }
}
