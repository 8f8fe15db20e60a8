//! The defences that are searched.

use levee_policy::Span;
use levee_policy::selective::{Config, DropFactor, Strategy, WAITING, WEIGHT_MIN};

/// `T_S` in mean calls. The paper's 100 ms are 0.02 of its mean call; at the upper end nearly every newcomer to a full server is refused.
const ROUND: (f64, f64) = (0.002, 8.0);
/// `in_call / waiting`; the paper's is 0.25.
const IN_CALL: (f64, f64) = (0.01, 4.0);
/// `alpha`; the paper's is 1.89.
const ALPHA: (f64, f64) = (0.2, 8.0);
/// Age, in mean calls, at which the exponential is as large as `waiting` (roulette; the paper's is 1.52), or at which a long call is given up
/// before a short one (tournament).
const TURN: (f64, f64) = (0.5, 8.0);
/// What a round and a mean call may be in a configuration.
const SPAN: (f64, f64) = (0.001, 3_600.0);
/// Digits of what is tried, and so of what is printed: runs do not tell finer ones apart.
const DIGITS: i32 = 3;

/// How a victim is chosen; each has its own coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// At random. The drop factor plays no part: the round alone.
    Uniform,
    /// In proportion to the drop factor, of which a common factor of `waiting`, `in_call` and `scale` cancels: `waiting` stays at
    /// [`WAITING`]. The round, `in_call`, `alpha`, and the age at which the exponential is as large as `waiting`, which gives `scale`.
    Roulette,
    /// The largest among some. Nothing but the order of drop factors plays a part, and there are two kinds of orders: calls in set-up go before short
    /// ones, whatever the numbers are (the default ones stand for all), or short ones before those in set-up, and then the
    /// age counts at which a long call goes before a short one. The round, the size, and the order.
    Tournament,
}

impl Family {
    /// All.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Roulette, Self::Tournament];

    /// Its coordinates.
    #[must_use]
    pub fn dimensions(self) -> usize {
        match self {
            Self::Uniform => 1,
            Self::Roulette => 4,
            Self::Tournament => 3,
        }
    }
}

/// Defences of kind seven that differ in what they do: those that differ in their numbers alone stand in it once.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    base: Config,
    capacity: u32,
}

impl Space {
    /// `base` says what is not searched, `mean_call` among it; a tournament has at most `capacity` entrants.
    #[must_use]
    pub fn new(base: Config, capacity: u32) -> Self {
        Self { base, capacity }
    }

    /// The defence at a place: coordinates from 0 to 1, missing ones are 0.5.
    #[must_use]
    pub fn at(&self, family: Family, place: &[f64]) -> Config {
        let x = |i: usize| place.get(i).copied().unwrap_or(0.5);
        let mean = self.mean();
        let round = (mean * log_scale(ROUND, x(0))).clamp(SPAN.0, SPAN.1);
        let round = Span::from_secs_f64(rounded(round)).unwrap_or(self.base.round);
        let usual = DropFactor {
            mean_call: self.base.drop_factor.mean_call,
            ..DropFactor::default()
        };
        let (strategy, drop_factor) = match family {
            Family::Uniform => (Strategy::Uniform, usual),
            Family::Roulette => {
                let alpha = rounded(log_scale(ALPHA, x(2)));
                let scale = WAITING * libm::exp(-alpha * log_scale(TURN, x(3)));
                let factor = DropFactor {
                    in_call: rounded(WAITING * log_scale(IN_CALL, x(1))),
                    alpha,
                    scale: rounded(scale.max(WEIGHT_MIN)),
                    ..usual
                };
                (Strategy::Roulette, factor)
            }
            Family::Tournament => {
                let size = log_scale((2.0, f64::from(self.capacity).max(2.0)), x(1));
                let size = (libm::round(size) as u32).clamp(1, self.capacity);
                let factor = if x(2) < 0.5 {
                    usual
                } else {
                    let turn = log_scale((1.0, TURN.1), 2.0 * (x(2) - 0.5));
                    let in_call = usual.waiting + usual.scale * libm::exp(usual.alpha * turn);
                    DropFactor {
                        in_call: rounded(in_call),
                        ..usual
                    }
                };
                (Strategy::Tournament { size: Some(size) }, factor)
            }
        };
        Config {
            round,
            strategy,
            drop_factor,
            ..self.base.clone()
        }
    }

    /// The place that comes closest to a defence.
    #[must_use]
    pub fn place(&self, config: &Config) -> (Family, Vec<f64>) {
        let d = &config.drop_factor;
        let round = share_of(ROUND, config.round.as_secs_f64() / self.mean());
        match config.strategy {
            Strategy::Uniform => (Family::Uniform, vec![round]),
            Strategy::Roulette => {
                // A factor that does not grow never gets there.
                let turn = libm::log(d.waiting / d.scale) / d.alpha;
                let turn = if turn.is_nan() { TURN.1 } else { turn };
                let place = vec![
                    round,
                    share_of(IN_CALL, d.in_call / d.waiting),
                    share_of(ALPHA, d.alpha),
                    share_of(TURN, turn),
                ];
                (Family::Roulette, place)
            }
            Strategy::Tournament { size } => {
                let size = f64::from(size.unwrap_or(self.capacity / 2));
                let turn = libm::log((d.in_call - d.waiting) / d.scale) / d.alpha;
                let order = if d.in_call <= d.waiting || turn.is_nan() {
                    0.25
                } else {
                    0.5 + 0.5 * share_of((1.0, TURN.1), turn)
                };
                let sizes = (2.0, f64::from(self.capacity).max(2.0));
                let place = vec![round, share_of(sizes, size), order];
                (Family::Tournament, place)
            }
        }
    }

    fn mean(&self) -> f64 {
        self.base.drop_factor.mean_call.as_secs_f64()
    }
}

/// From 0..1 to a range, evenly in the logarithm.
fn log_scale((low, high): (f64, f64), x: f64) -> f64 {
    low * libm::pow(high / low, x)
}

/// The way back; outside of the range its nearest end.
fn share_of((low, high): (f64, f64), value: f64) -> f64 {
    let inside = value.clamp(low, high);
    if high > low {
        libm::log(inside / low) / libm::log(high / low)
    } else {
        0.0
    }
}

/// To [`DIGITS`] digits, as short in decimal as it can be.
fn rounded(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = DIGITS - 1 - libm::floor(libm::log10(value)) as i32;
    let power = libm::pow(10.0, f64::from(exponent.abs()));
    if exponent >= 0 {
        libm::round(value * power) / power
    } else {
        libm::round(value / power) * power
    }
}
