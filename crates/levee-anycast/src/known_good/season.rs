//! The day and the week of traffic, and what they give for an hour to come.
//!
//! The paper models heavy hitters by TBATS. Here it is MSTL (Bandara, Hyndman and Bergmeir, 2021) with ETS on what is left without
//! season, both of the library `augurs`, on the logarithm of hourly rates: a night is a share of a day, not so many queries less.
//! A step is an hour, whatever the interval of the counts: finer steps of a week would each be known from two or three values.
//! Each season is the same in all its cycles, since a history has few, and of its harmonics only those stay that stand out of
//! the noise; which makes it as smooth as TBATS's trigonometric seasons where the traffic is, and lets it keep edges.
//!
//! # What it leaves out
//!
//! Holidays. What happens within an hour at fixed minutes (jobs of `cron`), beyond the spread that it adds to an interval.

use augurs::ets::AutoETS;
use augurs::mstl::stlrs::{MstlParams, MstlResult};
use augurs::{Fit as _, Predict as _};
use serde::Serialize;

use super::profile::median;

/// Seconds of a step.
pub const HOUR_S: i64 = 3_600;
/// How far a forecast goes: 30 days, then the history is no history of now.
pub const HORIZON_HOURS_MAX: usize = 30 * 24;
/// The most hours that are modelled: 12 weeks.
const HOURS_MAX: usize = 12 * WEEK;
const DAY: usize = 24;
const WEEK: usize = 168;
/// Cycles of a season without which it cannot be told from noise.
const CYCLES_MIN: usize = 2;
/// The share of hours that must be known for a season.
const KNOWN_MIN: f64 = 0.5;
/// From so many robust standard deviations on, an hour is an outlier, and does not teach the model: 1 in 16,000 by chance.
const OUTLIER_Z: f64 = 4.0;
/// So many outliers at the end of a history are no outliers (a guess: an incident is shorter, or ends the history).
const NEW_LEVEL_HOURS: usize = 6;
/// The median of the absolute deviations of a normal variable, times this, is its standard deviation.
const MAD_TO_SD: f64 = 1.4826;
/// In place of no event in an hour, whose logarithm does not exist.
const EVENTS_MIN: f64 = 0.5;
/// No forecast is better than this, whatever the fit says (a guess; it matters only for very large counts).
const SD_MIN: f64 = 0.005;
/// The relative deviation of a level that is known from a single hour (a guess: a day's swing).
const LEVEL_SD: f64 = 0.5;
/// How many of the last hours a level is the mean of.
const LEVEL_HOURS: usize = 3;
/// A harmonic counts as far as its power is above so many times that of noise. Of pure noise, 2% of the power is left.
const HARMONIC_OVER_NOISE: f64 = 3.0;
/// The deviation at the full hour, of the second difference of the hours around.
const BEND_SD: f64 = 0.25;
/// Passes of cleaning before the fit.
const PASSES: usize = 2;
/// The two-sided normal deviate of the level at which intervals are asked for.
const Z_95: f64 = 1.959_963_984_540_054;

/// Which seasons a forecast has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Seasons {
    /// Day and week: two weeks of history, or more.
    Weekly,
    /// The day alone: two days, or more.
    Daily,
    /// None: the level of the last hours.
    Level,
}

impl Seasons {
    /// In steps.
    fn periods(self) -> &'static [usize] {
        match self {
            Self::Weekly => &[DAY, WEEK],
            Self::Daily => &[DAY],
            Self::Level => &[],
        }
    }

    fn longest(self) -> usize {
        self.periods().last().copied().unwrap_or(1)
    }
}

/// Why there is no forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeasonError {
    /// Nothing is known.
    #[error("no hour of the history is known")]
    Nothing,
    /// The hour that is asked for is too far away.
    #[error(
        "the history ends {hours} hours before: a forecast goes {HORIZON_HOURS_MAX} hours at most; give a newer history"
    )]
    Far {
        /// From its end.
        hours: i64,
    },
}

/// What is to be expected after a history.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Which seasons it has.
    pub seasons: Seasons,
    /// Hours of the history that were not known.
    pub missing: usize,
    /// Hours that were outliers.
    pub outliers: usize,
    /// The relative error of a forecast of the last day from what was before it, without what counting gives; `None`: the history
    /// is too short to try.
    pub backtest: Option<f64>,
    /// The hour (of the epoch) of the first entry, which is the last of the history.
    first: i64,
    /// By hour: logarithm of the rate in events per second, and the relative standard deviation of the forecast.
    hours: Vec<(f64, f64)>,
}

impl Forecast {
    /// Models the rates (events per second; `None`: not known) of the hours from `first` (of the epoch) on, and forecasts so many
    /// hours after the last that is known.
    ///
    /// # Errors
    ///
    /// If no hour is known, or the horizon is more than [`HORIZON_HOURS_MAX`].
    pub fn fit(first: i64, rates: &[Option<f64>], horizon: usize) -> Result<Self, SeasonError> {
        let known = |rate: &Option<f64>| rate.is_some();
        let begin = rates.iter().position(known).ok_or(SeasonError::Nothing)?;
        let end = rates
            .iter()
            .rposition(known)
            .map_or(rates.len(), |last| last + 1);
        let begin = begin.max(end.saturating_sub(HOURS_MAX));
        if horizon > HORIZON_HOURS_MAX {
            return Err(SeasonError::Far {
                hours: horizon as i64,
            });
        }
        let logs: Vec<Option<f64>> = rates[begin..end]
            .iter()
            .map(|rate| rate.map(|rate| (rate * HOUR_S as f64).max(EVENTS_MIN).ln()))
            .collect();
        let last = first + end as i64 - 1;
        let missing = logs.iter().filter(|log| log.is_none()).count();
        for seasons in [Seasons::Weekly, Seasons::Daily] {
            // A library that finds no model leaves the next simpler one.
            if let Some(fitted) = Fitted::of(seasons, &logs, horizon) {
                return Ok(fitted.forecast(seasons, &logs, last, missing));
            }
        }
        Ok(level(&logs, last, missing, horizon))
    }

    /// The hour (of the epoch) after its last.
    #[must_use]
    pub fn end_hour(&self) -> i64 {
        self.first + self.hours.len() as i64
    }

    /// Events per second in an hour of the epoch, and the standard deviation of that. Outside the forecast: its nearest hour.
    #[must_use]
    pub fn hour(&self, hour: i64) -> (f64, f64) {
        let (log, sd) = self.at(hour);
        (log.exp(), log.exp() * sd)
    }

    /// Events from one time to another, and the standard deviation of that forecast.
    ///
    /// Between the middles of the hours the logarithm goes along a cubic (Catmull and Rom).
    #[must_use]
    pub fn events(&self, from_s: i64, to_s: i64) -> (f64, f64) {
        /// Short against an hour, so that the middle stands for the whole.
        const PIECE_S: i64 = 300;
        let (mut sum, mut sd) = (0.0, 0.0);
        let mut at = from_s;
        while at < to_s {
            let end = (at + PIECE_S).min(to_s);
            let hours = f64::midpoint(at as f64, end as f64) / HOUR_S as f64 - 0.5;
            let hour = hours.floor() as i64;
            let x = hours - hours.floor();
            let [a, b, c, d] = [-1, 0, 1, 2].map(|step| self.at(hour + step).0);
            let log = b + 0.5
                * x
                * (c - a + x * (2.0 * a - 5.0 * b + 4.0 * c - d + x * (3.0 * (b - c) + d - a)));
            let events = log.exp() * (end - at) as f64;
            sum += events;
            // Where the curve bends, it is less sure between the middles: there may be an edge. Of an edge at the full hour,
            // the curve is half off, which is two of these deviations.
            let bend = (a - 2.0 * b + c).abs().max((b - 2.0 * c + d).abs());
            let between = bend * BEND_SD * (1.0 - (2.0 * x - 1.0).abs());
            // Errors of neighbouring hours are nearly the same error.
            sd += events * self.at(at.div_euclid(HOUR_S)).1.hypot(between);
            at = end;
        }
        (sum, sd)
    }

    fn at(&self, hour: i64) -> (f64, f64) {
        let place = (hour - self.first).clamp(0, self.hours.len() as i64 - 1);
        self.hours[place as usize]
    }
}

/// A model with seasons: logarithms of events an hour.
struct Fitted {
    /// The last hour of the history, as the model has it.
    last: f64,
    /// Hours to come, with standard deviations.
    ahead: Vec<(f64, f64)>,
    outliers: usize,
}

impl Fitted {
    fn of(seasons: Seasons, logs: &[Option<f64>], horizon: usize) -> Option<Self> {
        let known = logs.iter().flatten().count();
        if logs.len() < CYCLES_MIN * seasons.longest()
            || (known as f64) < KNOWN_MIN * logs.len() as f64
        {
            return None;
        }
        let params = periodic(seasons, logs.len());
        let (clean, outliers) = cleaned(seasons, logs, &params)?;
        let shapes = shapes(seasons, &clean, &params)?;
        let season = |hour: usize| {
            shapes
                .iter()
                .map(|shape| shape[hour % shape.len()])
                .sum::<f64>()
        };
        let rest: Vec<f64> = clean
            .iter()
            .enumerate()
            .map(|(i, log)| log - season(i))
            .collect();
        let fitted = AutoETS::new(1, "AZN").ok()?.fit(&rest).ok()?;
        let ahead = fitted.predict(horizon.max(1), 0.95).ok()?;
        let intervals = ahead.intervals?;
        let past = fitted.predict_in_sample(None).ok()?;
        // In the history each season was fitted to what it is compared with; ahead it was not.
        let cycles = (logs.len() / seasons.longest()) as f64;
        let unseen = ((cycles + 1.0) / cycles).sqrt();
        let ahead: Vec<(f64, f64)> = ahead
            .point
            .iter()
            .zip(intervals.lower.iter().zip(&intervals.upper))
            .zip(logs.len()..)
            .map(|((log, (low, high)), hour)| {
                (log + season(hour), (high - low) / (2.0 * Z_95) * unseen)
            })
            .collect();
        let last = past.point.last().copied()? + season(logs.len() - 1);
        (last.is_finite()
            && ahead
                .iter()
                .all(|(log, sd)| log.is_finite() && sd.is_finite()))
        .then_some(Self {
            last,
            ahead,
            outliers,
        })
    }

    fn forecast(
        self,
        seasons: Seasons,
        logs: &[Option<f64>],
        last: i64,
        missing: usize,
    ) -> Forecast {
        let backtest = backtest(seasons, logs);
        let hours = std::iter::once((self.last, self.ahead[0].1))
            .chain(self.ahead)
            .map(|(log, sd)| {
                // What counting gives is not an error of the forecast.
                let own = (sd * sd - (-log).exp()).max(0.0).sqrt();
                let sd = own.max(backtest.unwrap_or(0.0)).max(SD_MIN);
                (log - (HOUR_S as f64).ln(), sd)
            })
            .collect();
        Forecast {
            seasons,
            missing,
            outliers: self.outliers,
            backtest,
            first: last,
            hours,
        }
    }
}

/// Each season is one shape for all cycles: a window far longer than there are cycles ("periodic" in R's `stl`).
fn periodic(seasons: Seasons, hours: usize) -> MstlParams {
    let windows: Vec<usize> = seasons.periods().iter().map(|_| 10 * hours + 1).collect();
    let mut params = MstlParams::new();
    params.seasonal_lengths(&windows);
    params
}

/// One cycle of each season, without what is only noise.
fn shapes(seasons: Seasons, clean: &[f64], params: &MstlParams) -> Option<Vec<Vec<f64>>> {
    let fit: MstlResult<f64> = params.fit(clean, seasons.periods()).ok()?;
    let mut left: Vec<f64> = fit.remainder().iter().map(|left| left.abs()).collect();
    let sd = MAD_TO_SD * median(&mut left)?;
    let shape = |(period, season): (&usize, &Vec<f64>)| {
        let cycles = (clean.len() / period) as f64;
        // The remainder is around the mean of all cycles, which took its part of the noise.
        let variance = sd * sd * cycles / (cycles - 1.0) / cycles;
        denoised(&season[..*period], variance)
    };
    Some(
        seasons
            .periods()
            .iter()
            .zip(fit.seasonal())
            .map(shape)
            .collect(),
    )
}

/// A shape out of its harmonics, each as far as it stands out of noise that has this variance at each step (an empirical Wiener
/// filter). Smooth days have few harmonics, and those with edges have many strong ones; the rest is chance.
fn denoised(shape: &[f64], variance: f64) -> Vec<f64> {
    let n = shape.len();
    let angle = |k: usize, i: usize| std::f64::consts::TAU * (k * i % n) as f64 / n as f64;
    let mean = shape.iter().sum::<f64>() / n as f64;
    let mut out = vec![mean; n];
    for k in 1..=n / 2 {
        // The highest harmonic of an even number of steps has only a cosine.
        let (scale, parts) = if 2 * k == n { (1.0, 1.0) } else { (2.0, 2.0) };
        let (mut cosine, mut sine) = (0.0, 0.0);
        for (i, value) in shape.iter().enumerate() {
            cosine += value * angle(k, i).cos() * scale / n as f64;
            sine += value * angle(k, i).sin() * scale / n as f64;
        }
        let noise = parts * scale * variance / n as f64;
        let power = cosine * cosine + sine * sine;
        let keep = 1.0 - HARMONIC_OVER_NOISE * noise / power;
        if keep > 0.0 {
            for (i, out) in out.iter_mut().enumerate() {
                *out += keep * (cosine * angle(k, i).cos() + sine * angle(k, i).sin());
            }
        }
    }
    out
}

/// The series without holes and outliers, both replaced by what the others give; and how many outliers there were.
fn cleaned(
    seasons: Seasons,
    logs: &[Option<f64>],
    params: &MstlParams,
) -> Option<(Vec<f64>, usize)> {
    let mut model = medians(seasons, logs)?;
    let mut clean = vec![0.0; logs.len()];
    let mut outliers = vec![false; logs.len()];
    for pass in 0..PASSES {
        if pass > 0 {
            let fit: MstlResult<f64> = params.fit(&clean, seasons.periods()).ok()?;
            for (i, model) in model.iter_mut().enumerate() {
                let season: f64 = fit.seasonal().iter().map(|season| season[i]).sum();
                *model = fit.trend()[i] + season;
            }
        }
        let deviation = |i: usize| logs[i].map(|log| (log - model[i]).abs());
        let mut deviations: Vec<f64> = (0..logs.len()).filter_map(deviation).collect();
        let limit = OUTLIER_Z * MAD_TO_SD * median(&mut deviations)?;
        for (i, outlier) in outliers.iter_mut().enumerate() {
            *outlier = deviation(i).is_some_and(|deviation| deviation > limit.max(SD_MIN));
        }
        // The last hours together are a new level, which the forecast begins from.
        let before = outliers
            .iter()
            .rposition(|outlier| !outlier)
            .map_or(0, |last| last + 1);
        if logs.len() - before >= NEW_LEVEL_HOURS {
            outliers[before..].fill(false);
        }
        for i in 0..logs.len() {
            clean[i] = match logs[i] {
                Some(log) if !outliers[i] => log,
                _ => model[i],
            };
        }
    }
    Some((clean, outliers.iter().filter(|outlier| **outlier).count()))
}

/// The median of the same hour of all weeks or days, and the median of what is left over a day around it: a model that outliers
/// and holes do not spoil.
fn medians(seasons: Seasons, logs: &[Option<f64>]) -> Option<Vec<f64>> {
    let all = median(&mut logs.iter().copied().flatten().collect::<Vec<f64>>())?;
    let by_hour = |period: usize| -> Vec<Option<f64>> {
        (0..period)
            .map(|phase| {
                let values = logs.iter().skip(phase).step_by(period);
                median(&mut values.copied().flatten().collect::<Vec<f64>>())
            })
            .collect()
    };
    let (day, longest) = (by_hour(DAY), by_hour(seasons.longest()));
    let season: Vec<f64> = (0..logs.len())
        .map(|i| longest[i % longest.len()].or(day[i % DAY]).unwrap_or(all))
        .collect();
    let level = |i: usize| {
        let around = i.saturating_sub(DAY / 2)..(i + DAY / 2 + 1).min(logs.len());
        let mut left: Vec<f64> = around
            .filter_map(|i| logs[i].map(|log| log - season[i]))
            .collect();
        median(&mut left).unwrap_or(0.0)
    };
    Some((0..logs.len()).map(|i| season[i] + level(i)).collect())
}

/// The root of the mean square error of the last day, forecast from what was before it, without what counting gives.
fn backtest(seasons: Seasons, logs: &[Option<f64>]) -> Option<f64> {
    let split = logs.len().checked_sub(DAY)?;
    let fitted = Fitted::of(seasons, &logs[..split], DAY)?;
    let (mut squares, mut known) = (0.0, 0.0);
    for (log, (forecast, _)) in logs[split..].iter().zip(&fitted.ahead) {
        if let Some(log) = log {
            squares += (log - forecast).powi(2) - (-forecast).exp();
            known += 1.0;
        }
    }
    (known > 0.0).then(|| (squares / known).max(0.0).sqrt())
}

/// No season: the mean of the last hours, as uncertain as such means were so many hours later.
fn level(logs: &[Option<f64>], last: i64, missing: usize, horizon: usize) -> Forecast {
    let known: Vec<(usize, f64)> = logs
        .iter()
        .enumerate()
        .filter_map(|(i, log)| log.map(|log| (i, log)))
        .collect();
    let mean = |until: usize| {
        let from = until.saturating_sub(LEVEL_HOURS);
        let sum: f64 = known[from..until].iter().map(|(_, log)| log).sum();
        sum / (until - from) as f64
    };
    let level = mean(known.len());
    let mut sd = 0.0f64;
    let hours = (0..=horizon.max(1))
        .map(|ahead| {
            let mut squares = Vec::new();
            for until in 1..known.len() {
                let at = known[until - 1].0 + ahead.max(1);
                if let Some(Some(later)) = logs.get(at) {
                    squares.push((later - mean(until)).powi(2));
                }
            }
            // One difference tells nothing; farther ahead it is not better known.
            sd = if squares.len() >= 3 {
                sd.max((squares.iter().sum::<f64>() / squares.len() as f64).sqrt())
            } else {
                sd.max(LEVEL_SD)
            };
            (level - (HOUR_S as f64).ln(), sd.max(SD_MIN))
        })
        .collect();
    Forecast {
        seasons: Seasons::Level,
        missing,
        outliers: 0,
        backtest: None,
        first: last,
        hours,
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use rand_core::{Rng as _, SeedableRng as _};
    use rand_pcg::Pcg64;

    use super::*;

    /// A day and a week, in events per second.
    fn mean(hour: i64) -> f64 {
        let day = 1.0 + 0.4 * (TAU * hour as f64 / 24.0).sin();
        let week = if hour.rem_euclid(168) >= 120 {
            0.7
        } else {
            1.0
        };
        40.0 * day * week
    }

    /// With noise of a relative deviation, uniform.
    fn rates(hours: usize, noise: f64, seed: u64) -> Vec<Option<f64>> {
        let mut rng = Pcg64::seed_from_u64(seed);
        (0..hours as i64)
            .map(|hour| {
                let u = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                Some(mean(hour) * (1.0 + noise * 12f64.sqrt() * (u - 0.5)))
            })
            .collect()
    }

    /// Root mean square of the relative errors of a day ahead.
    fn error(forecast: &Forecast, from: i64) -> f64 {
        let squares: f64 = (from..from + 24)
            .map(|hour| (forecast.hour(hour).0 / mean(hour) - 1.0).powi(2))
            .sum();
        (squares / 24.0).sqrt()
    }

    #[test]
    fn as_much_season_as_the_history_shows() {
        let check = |hours: usize, seasons: Seasons| {
            let forecast = Forecast::fit(0, &rates(hours, 0.02, 1), 30).unwrap();
            assert_eq!(forecast.seasons, seasons, "{hours} hours");
            assert_eq!(forecast.end_hour(), hours as i64 + 30);
        };
        check(3 * 168, Seasons::Weekly);
        check(2 * 168, Seasons::Weekly);
        check(2 * 168 - 1, Seasons::Daily);
        check(48, Seasons::Daily);
        check(47, Seasons::Level);
        check(1, Seasons::Level);
        assert_eq!(
            Forecast::fit(0, &[None; 50], 1).unwrap_err(),
            SeasonError::Nothing
        );
        let far = Forecast::fit(0, &rates(400, 0.0, 1), HORIZON_HOURS_MAX + 1).unwrap_err();
        assert!(far.to_string().contains("give a newer history"), "{far}");
    }

    #[test]
    fn forecasts_follow_day_and_week_through_holes_and_outliers() {
        // The noise of an hour is 3%, of which the season takes part of a third (three cycles) and of the level less.
        let check = |name: &str, spoil: fn(usize, &mut Option<f64>), limit: f64| {
            let mut history = rates(3 * 168, 0.03, 2);
            history
                .iter_mut()
                .enumerate()
                .for_each(|(hour, rate)| spoil(hour, rate));
            let forecast = Forecast::fit(0, &history, 48).unwrap();
            let error = error(&forecast, 3 * 168);
            assert!(error < limit, "{name}: {error}");
            error
        };
        check("clean", |_, _| {}, 0.03);
        check(
            "holes",
            |hour, rate| {
                if hour % 7 == 3 || (200..230).contains(&hour) {
                    *rate = None;
                }
            },
            0.03,
        );
        check(
            "outliers",
            |hour, rate| {
                if hour % 41 == 7 {
                    *rate = rate.map(|rate| rate * if hour % 2 == 0 { 8.0 } else { 0.05 });
                }
            },
            0.03,
        );
        // A flood of a whole night is no season either.
        check(
            "flood",
            |hour, rate| {
                if (300..308).contains(&hour) {
                    *rate = rate.map(|rate| rate * 30.0);
                }
            },
            0.04,
        );
    }

    #[test]
    fn a_forecast_says_how_sure_it_is() {
        // Of 20 histories, the error of the mean of a day is within two deviations in nearly all.
        let mut within = 0;
        let mut all = 0;
        for seed in 0..10 {
            let forecast = Forecast::fit(0, &rates(3 * 168, 0.05, seed), 26).unwrap();
            for hour in (504..528).step_by(3) {
                let (rate, sd) = forecast.hour(hour);
                all += 1;
                within += usize::from((rate - mean(hour)).abs() <= 2.0 * sd);
                assert!(sd < 0.15 * rate, "{sd} of {rate}");
            }
        }
        assert!(within * 100 >= all * 90, "{within} of {all}");
        // Less history, less sure.
        let sd = |hours: usize| {
            let forecast = Forecast::fit(0, &rates(hours, 0.05, 1), 12).unwrap();
            let (rate, sd) = forecast.hour(hours as i64 + 6);
            sd / rate
        };
        assert!(sd(40) > 3.0 * sd(504), "{} {}", sd(40), sd(504));
        assert_eq!(sd(1), LEVEL_SD);
    }

    #[test]
    fn events_of_an_interval_follow_the_curve_between_hours() {
        let forecast = Forecast::fit(0, &rates(3 * 168, 0.0, 1), 30).unwrap();
        let at = |hours: f64| (hours * HOUR_S as f64) as i64;
        for quarter in 0..80 {
            let from = 506.0 + f64::from(quarter) * 0.25;
            let (events, _) = forecast.events(at(from), at(from + 0.25));
            let day = 1.0 + 0.4 * (TAU * (from + 0.125 - 0.5) / 24.0).sin();
            let truth = 40.0 * day * 900.0;
            assert!(
                (events / truth - 1.0).abs() < 0.01,
                "{from}: {events} {truth}"
            );
        }
        // Hours add up.
        let whole = forecast.events(at(510.0), at(512.0)).0;
        let parts: f64 = (0..24)
            .map(|i| {
                forecast
                    .events(at(510.0) + i * 300, at(510.0) + i * 300 + 300)
                    .0
            })
            .sum();
        assert!((whole / parts - 1.0).abs() < 1e-9);
        assert_eq!(forecast.events(5, 5), (0.0, 0.0));
    }

    #[test]
    fn an_edge_at_the_full_hour_is_within_the_interval() {
        // Twelve hours at 3, twelve at 2: just after an edge the curve is still on its way.
        let history: Vec<Option<f64>> = (0..14 * 24)
            .map(|hour| Some(if hour % 24 < 12 { 3.0 } else { 2.0 }))
            .collect();
        let forecast = Forecast::fit(0, &history, 30).unwrap();
        let edge = (14 * 24 + 12) * HOUR_S;
        let (events, sd) = forecast.events(edge, edge + 600);
        assert!(
            (events - 1_200.0).abs() < 2.0 * sd && sd < 0.15 * events,
            "{events} {sd}"
        );
        let (events, sd) = forecast.events(edge + 1_500, edge + 2_100);
        assert!(
            (events / 1_200.0 - 1.0).abs() < 0.02 && sd < 0.02 * events,
            "{events} {sd}"
        );
    }

    #[test]
    fn flat_silent_and_wild_series_have_a_forecast_too() {
        for value in [0.0, 1e-9, 1.0, 1e9] {
            for hours in [1, 5, 60, 400] {
                let forecast = Forecast::fit(0, &vec![Some(value); hours], 3).unwrap();
                let (rate, sd) = forecast.hour(hours as i64 + 1);
                assert!(
                    rate.is_finite() && sd.is_finite() && sd > 0.0,
                    "{value} {hours}"
                );
                if value >= 1.0 {
                    assert!((rate / value - 1.0).abs() < 1e-3, "{value} {hours}: {rate}");
                }
            }
        }
        let mut one = vec![None; 700];
        one[650] = Some(3.0);
        assert_eq!(Forecast::fit(0, &one, 3).unwrap().seasons, Seasons::Level);
    }

    /// Series and TBATS's forecasts of their last two days, as `bench/tbats/compare.py` wrote them.
    fn peers() -> Vec<(String, Vec<Peer>)> {
        let file = include_bytes!("../../tests/data/tbats.csv.gz");
        let mut reader = csv::Reader::from_reader(flate2::read::GzDecoder::new(&file[..]));
        let mut out: Vec<(String, Vec<Peer>)> = Vec::new();
        for row in reader.deserialize() {
            let (name, _, truth, count, tbats): (String, u64, f64, f64, Option<f64>) = row.unwrap();
            if out.last().is_none_or(|(last, _)| *last != name) {
                out.push((name, Vec::new()));
            }
            out.last_mut().unwrap().1.push(Peer {
                truth,
                count,
                tbats,
            });
        }
        out
    }

    struct Peer {
        truth: f64,
        count: f64,
        tbats: Option<f64>,
    }

    /// Root mean square and mean absolute error, relative to the truth.
    fn errors(pairs: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
        let errors: Vec<f64> = pairs
            .map(|(forecast, truth)| forecast / truth - 1.0)
            .collect();
        let n = errors.len() as f64;
        let squares: f64 = errors.iter().map(|error| error * error).sum();
        let sizes: f64 = errors.iter().map(|error| error.abs()).sum();
        ((squares / n).sqrt(), sizes / n)
    }

    #[test]
    fn forecasts_are_as_good_as_those_of_tbats() {
        // On the whole far better; where its few harmonics are the very truth under much noise, not more than so much worse.
        const MEAN_RATIO_MAX: f64 = 0.6;
        const RATIO_MAX: f64 = 2.2;
        let peers = peers();
        assert_eq!(peers.len(), 8);
        let mut logs = 0.0;
        for (name, hours) in &peers {
            let split = hours.iter().position(|hour| hour.tbats.is_some()).unwrap();
            assert_eq!(hours.len() - split, 48);
            let history: Vec<Option<f64>> = hours[..split]
                .iter()
                .map(|hour| Some(hour.count / HOUR_S as f64))
                .collect();
            let began = std::time::Instant::now();
            let forecast = Forecast::fit(0, &history, 48).unwrap();
            let took = began.elapsed();
            let ours = (split..)
                .zip(&hours[split..])
                .map(|(hour, peer)| (forecast.hour(hour as i64).0 * HOUR_S as f64, peer.truth));
            let theirs = hours[split..]
                .iter()
                .map(|peer| (peer.tbats.unwrap(), peer.truth));
            let (ours, theirs) = (errors(ours), errors(theirs));
            println!(
                "{name:9} RMSE {:.4} TBATS {:.4}   MAPE {:.4} TBATS {:.4}   ratio {:.2}   {took:?}",
                ours.0,
                theirs.0,
                ours.1,
                theirs.1,
                ours.0 / theirs.0
            );
            assert!(
                ours.0 / theirs.0 < RATIO_MAX && ours.1 / theirs.1 < RATIO_MAX * 1.1,
                "{name}"
            );
            logs += (ours.0 / theirs.0).ln();
        }
        let ratio = (logs / peers.len() as f64).exp();
        println!("geometric mean of the ratios: {ratio:.3}");
        assert!(ratio < MEAN_RATIO_MAX);
    }
}
