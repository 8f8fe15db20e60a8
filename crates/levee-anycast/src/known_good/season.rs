//! The day and the week of traffic, and what they give for an hour to come.
//!
//! The paper models heavy hitters by TBATS. Here it is MSTL (Bandara, Hyndman and Bergmeir, 2021) with ETS on what is left without
//! season, both of the library `augurs`, on the logarithm of hourly rates: a night is a share of a day, not so many queries less.
//! A step is an hour, whatever the interval of the counts: finer steps of a week would each be known from two or three values.
//! Each season is the same in all its cycles, since a history has few.
//!
//! # What it leaves out
//!
//! Holidays. What happens within an hour at fixed minutes (jobs of `cron`), beyond the spread that it adds to an interval.

use augurs::ets::{AutoETS, trend::AutoETSTrendModel};
use augurs::mstl::{
    MSTLModel,
    stlrs::{MstlParams, MstlResult},
};
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
            // Errors of neighbouring hours are nearly the same error.
            sd += events * self.at(at.div_euclid(HOUR_S)).1;
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
        let trend = AutoETSTrendModel::from(AutoETS::new(1, "AZN").ok()?);
        let model = MSTLModel::new(seasons.periods().to_vec(), trend).mstl_params(params);
        let fitted = model.fit(&clean).ok()?;
        let ahead = fitted.predict(horizon.max(1), 0.95).ok()?;
        let intervals = ahead.intervals?;
        let past = fitted.predict_in_sample(None).ok()?;
        // In the history each season was fitted to what it is compared with; ahead it was not.
        let cycles = (logs.len() / seasons.longest()) as f64;
        let unseen = ((cycles + 1.0) / (cycles - 1.0)).sqrt();
        let ahead: Vec<(f64, f64)> = ahead
            .point
            .iter()
            .zip(intervals.lower.iter().zip(&intervals.upper))
            .map(|(log, (low, high))| (*log, (high - low) / (2.0 * Z_95) * unseen))
            .collect();
        let last = past.point.last().copied()?;
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

/// The series without holes and outliers, both replaced by what the others give; and how many outliers there were.
fn cleaned(
    seasons: Seasons,
    logs: &[Option<f64>],
    params: &MstlParams,
) -> Option<(Vec<f64>, usize)> {
    let mut clean = filled(seasons, logs)?;
    let mut outliers = vec![false; logs.len()];
    for _ in 0..PASSES {
        let fit: MstlResult<f64> = params.fit(&clean, seasons.periods()).ok()?;
        let model =
            |i: usize| fit.trend()[i] + fit.seasonal().iter().map(|season| season[i]).sum::<f64>();
        let deviation = |i: usize| logs[i].map(|log| (log - model(i)).abs());
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
                _ => model(i),
            };
        }
    }
    Some((clean, outliers.iter().filter(|outlier| **outlier).count()))
}

/// Holes take the median of the same hour of the week, or of the day.
fn filled(seasons: Seasons, logs: &[Option<f64>]) -> Option<Vec<f64>> {
    let by_hour = |period: usize| -> Vec<Option<f64>> {
        (0..period)
            .map(|phase| {
                let mut values: Vec<f64> = logs
                    .iter()
                    .skip(phase)
                    .step_by(period)
                    .copied()
                    .flatten()
                    .collect();
                median(&mut values)
            })
            .collect()
    };
    let day = by_hour(DAY);
    let longest = by_hour(seasons.longest());
    let all = median(&mut logs.iter().copied().flatten().collect::<Vec<f64>>())?;
    Some(
        logs.iter()
            .enumerate()
            .map(|(i, log)| {
                log.or(longest[i % longest.len()])
                    .or(day[i % DAY])
                    .unwrap_or(all)
            })
            .collect(),
    )
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
