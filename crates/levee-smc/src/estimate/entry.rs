//! One target, and what the runs have said of it so far.

use super::error::{CheckError, prefix};
use super::interval::{Interval, clopper_pearson, okamoto, okamoto_runs, wilson};
use super::moments::{Form, Moments, is_share, within_one};
use super::quantile::{Store, VALUES_MAX};
use super::result::{Method, Verdict};
use super::sprt::Sprt;
use super::steady::Batches;
use super::target::{
    Kind, Parameter, Precision, ProbabilityMethod, Runs, Settings, Side, Source, Target, Test,
    Tested,
};
use crate::measure::Row;

/// When all runs gave the same value, so many more are made that a different one with this probability a run would have shown, as surely
/// as the target's confidence.
const UNSEEN: f64 = 0.01;

/// An error probability below this is lost in the rounding of the distribution functions.
const ALPHA_MIN: f64 = 1e-12;

/// What the rows of a check look like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Columns, of each of the two if they are pairs.
    pub(crate) columns: usize,
    /// Lists.
    pub(crate) samples: usize,
    /// Each row is the same run of two points, one after the other, and their difference is asked for.
    pub(crate) pairs: bool,
}

/// One target, and what the runs have said of it so far.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    place: String,
    pub(crate) parameter: Option<Parameter>,
    /// As asked for.
    pub(crate) confidence: f64,
    /// Of this interval alone.
    own_confidence: f64,
    pub(crate) precision: Option<Precision>,
    estimator: Estimator,
    /// Of a hypothesis.
    claim: Option<(Side, f64)>,
    /// Runs without a value.
    missing: u64,
}

#[derive(Debug)]
enum Estimator {
    Means {
        form: Form,
        moments: Moments,
        /// All values so far are 0 or 1 (of a mean), or a part of a whole (of a ratio).
        bounded: bool,
    },
    Probability {
        column: usize,
        method: ProbabilityMethod,
        successes: u64,
        runs: u64,
        test: Option<Sprt>,
    },
    Quantile {
        /// Index of its store.
        store: usize,
        q: f64,
    },
    Steady {
        samples: usize,
        batches: Batches,
        runs: u64,
    },
}

/// What is known of a target.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) estimate: f64,
    pub(crate) interval: Interval,
    pub(crate) method: Method,
    pub(crate) runs: u64,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) decided_after: Option<u64>,
    /// Every run said the same, and the interval has no width for it.
    flat: bool,
    /// It cannot take on more runs.
    pub(crate) full: bool,
    pub(crate) warnings: Vec<String>,
}

/// How many runs a target takes in all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Need {
    /// No more.
    Done,
    /// About so many.
    Runs(f64),
    /// That cannot be told.
    Unknown,
}

impl Entry {
    /// Checks `target` and makes a place for it. `stores` gets a new one if it needs values that no other target does.
    pub(crate) fn new(
        target: &Target,
        settings: &Settings,
        shape: Shape,
        stores: &mut Vec<Store>,
    ) -> Result<Self, CheckError> {
        let refuse = |problem| CheckError::Target {
            name: target.name.clone(),
            place: target.place.clone(),
            problem,
        };
        let confidence = target.confidence.unwrap_or(settings.confidence);
        let alpha = 1.0 - confidence;
        let own_alpha = alpha / f64::from(settings.simultaneous);
        if !(confidence > 0.0 && confidence < 1.0 && own_alpha >= ALPHA_MIN) {
            return Err(refuse(format!(
                "a confidence of {confidence}: it must lie between 0 and 1, both left out; 0.95 is usual"
            )));
        }
        let precision = target.precision.or(settings.precision);
        if let Some(precision) = precision {
            check_precision(precision).map_err(refuse)?;
        }
        let family = f64::from(settings.simultaneous);
        let (estimator, claim) = plan(&target.kind, shape, family, stores).map_err(refuse)?;
        let entry = Self {
            name: target.name.clone(),
            place: target.place.clone(),
            parameter: target.parameter.clone(),
            confidence,
            own_confidence: 1.0 - own_alpha,
            precision,
            estimator,
            claim,
            missing: 0,
        };
        entry.check_method(settings).map_err(refuse)?;
        Ok(entry)
    }

    /// Okamoto's runs are known beforehand, and so is whether there may be so many.
    fn check_method(&self, settings: &Settings) -> Result<(), String> {
        let Estimator::Probability {
            method: ProbabilityMethod::Okamoto,
            ..
        } = self.estimator
        else {
            return Ok(());
        };
        match (self.precision, settings.runs) {
            (Some(Precision::Absolute(half)), Runs::Sequential { max, .. }) => {
                let need = okamoto_runs(half, self.own_confidence);
                if need > max {
                    return Err(format!(
                        "a precision of {half} by Okamoto's bound takes {need} runs, and there may be {max}: allow more, ask for less, or use clopper-pearson"
                    ));
                }
                Ok(())
            }
            (_, Runs::Fixed(_)) => Ok(()),
            (_, Runs::Sequential { .. }) => Err(
                "Okamoto's bound needs an absolute precision, or a fixed number of runs".to_owned(),
            ),
        }
    }

    /// Takes on the next run. Err says what is wrong with it.
    pub(crate) fn push(&mut self, row: &Row) -> Result<(), String> {
        let (name, place) = (&self.name, &self.place);
        let fault = |problem: String| format!("{}{problem}", prefix(place, name));
        let missing = match &mut self.estimator {
            Estimator::Means {
                form,
                moments,
                bounded,
            } => {
                let mut values = [0.0; 4];
                let columns = form.columns();
                for (value, &column) in values.iter_mut().zip(columns) {
                    *value = row.values[column];
                }
                let values = &values[..columns.len()];
                if values.iter().any(|v| v.is_nan()) {
                    true
                } else {
                    if let Some(value) = values.iter().find(|v| v.is_infinite()) {
                        return Err(fault(format!("is {value}: an infinite value has no mean")));
                    }
                    *bounded &= match form {
                        Form::Mean(_) => values[0] == 0.0 || values[0] == 1.0,
                        Form::Ratio(_) => is_share(values[0], values[1]),
                        Form::Difference(_) | Form::RatioDifference(_) => false,
                    };
                    moments.push(values);
                    false
                }
            }
            Estimator::Probability {
                column,
                successes,
                runs,
                test,
                ..
            } => {
                let value = row.values[*column];
                if value != 0.0 && value != 1.0 && !value.is_nan() {
                    return Err(fault(format!(
                        "is {value}: of a probability it must be 0 or 1 in every run; ask for a mean"
                    )));
                }
                if !value.is_nan() {
                    *runs += 1;
                    *successes += u64::from(value == 1.0);
                    if let Some(test) = test {
                        test.step(value == 1.0);
                    }
                }
                value.is_nan()
            }
            // The stores take on their values themselves.
            Estimator::Quantile { .. } => false,
            Estimator::Steady {
                samples,
                batches,
                runs,
            } => {
                let series = &row.samples[*samples];
                if series.iter().any(|v| !v.is_finite()) {
                    return Err(fault("a value of its series is no number".to_owned()));
                }
                batches.push(series).map_err(fault)?;
                *runs += 1;
                false
            }
        };
        self.missing += u64::from(missing);
        Ok(())
    }

    /// What is known by now.
    pub(crate) fn answer(&self, stores: &[Store]) -> Answer {
        let mut answer = self.estimator.answer(self.own_confidence, stores);
        if let Estimator::Probability {
            test: Some(test), ..
        } = &self.estimator
        {
            answer.verdict = Some(test.verdict().unwrap_or(Verdict::Undecided));
            answer.decided_after = test.verdict().map(|_| test.runs());
        } else if let Some((side, bound)) = self.claim {
            answer.verdict = Some(decide(answer.interval, side, bound));
        }
        if self.missing > 0 {
            answer.warnings.push(format!(
                "{} runs have no value here and are left out: the answer is about the others",
                self.missing
            ));
        }
        if answer.flat && answer.runs > 1 {
            answer.warnings.push(format!(
                "no variation seen in {} runs: what happens in fewer than {:.2}% of runs may not have shown, and the interval does not allow for it",
                answer.runs,
                100.0 * unseen(answer.runs, self.own_confidence)
            ));
        }
        answer
    }

    /// How many runs it takes, of which there have been `runs`.
    pub(crate) fn need(&self, answer: &Answer, runs: u64) -> Need {
        if let Estimator::Probability {
            test: Some(test), ..
        } = &self.estimator
        {
            return match (test.verdict(), test.forecast()) {
                (Some(_), _) => Need::Done,
                (None, Some(forecast)) => Need::Runs(forecast),
                (None, None) => Need::Unknown,
            };
        }
        let Some(precision) = self.precision else {
            return Need::Done;
        };
        if answer.full {
            return Need::Done;
        }
        let goal = precision.goal(answer.estimate);
        let half = answer.interval.half();
        if !(half.is_finite() && goal > 0.0) {
            return Need::Unknown;
        }
        let least = libm::log(1.0 - self.own_confidence) / libm::log(1.0 - UNSEEN);
        if answer.flat && (answer.runs as f64) < least {
            return Need::Runs(least);
        }
        if half <= goal {
            return Need::Done;
        }
        Need::Runs(runs as f64 * (half / goal) * (half / goal))
    }

    /// Has it a test that stops by itself?
    pub(crate) fn is_sequential_test(&self) -> bool {
        matches!(self.estimator, Estimator::Probability { test: Some(_), .. })
    }
}

impl Estimator {
    fn answer(&self, confidence: f64, stores: &[Store]) -> Answer {
        match self {
            Self::Means {
                form,
                moments,
                bounded,
            } => means(*form, moments, *bounded, confidence),
            Self::Probability {
                method,
                successes,
                runs,
                ..
            } => {
                let (interval, method) = match method {
                    ProbabilityMethod::ClopperPearson => (
                        clopper_pearson(*successes, *runs, confidence),
                        Method::ClopperPearson,
                    ),
                    ProbabilityMethod::Wilson => {
                        (wilson(*successes, *runs, confidence), Method::Wilson)
                    }
                    ProbabilityMethod::Okamoto => {
                        (okamoto(*successes, *runs, confidence), Method::Okamoto)
                    }
                };
                // 0 / 0 is no number, as it should be.
                let found = (*successes as f64 / *runs as f64, interval, false);
                Answer::of(Some(found), method, *runs)
            }
            Self::Quantile { store, q } => {
                let store = &stores[*store];
                let method = match store.source {
                    Source::Column(_) => Method::OrderStatistics,
                    Source::Samples(_) => Method::Woodruff,
                };
                let mut answer = Answer::of(store.estimate(*q, confidence), method, store.runs());
                answer.full = store.full();
                if answer.full {
                    answer.warnings.push(format!(
                        "{VALUES_MAX} values are kept, those of the first {} runs; later runs are left out",
                        answer.runs
                    ));
                }
                answer
            }
            Self::Steady { batches, runs, .. } => {
                let found = batches.estimate(confidence);
                let (found, a_run, warnings) = match found {
                    Some((estimate, interval, flat, a_run, warnings)) => {
                        (Some((estimate, interval, flat)), a_run, warnings)
                    }
                    None => (None, 1, Vec::new()),
                };
                let method = if a_run > 1 {
                    Method::BatchMeans
                } else {
                    Method::Replication
                };
                Answer {
                    warnings,
                    ..Answer::of(found, method, *runs)
                }
            }
        }
    }
}

impl Answer {
    fn of(found: Option<(f64, Interval, bool)>, method: Method, runs: u64) -> Self {
        let (estimate, interval, flat) = found.unwrap_or((f64::NAN, Interval::UNKNOWN, false));
        Self {
            estimate,
            interval,
            method,
            runs,
            verdict: None,
            decided_after: None,
            flat,
            full: false,
            warnings: Vec::new(),
        }
    }
}

/// A mean of values that are all 0, or all 1, is most likely a probability: it gets Clopper and Pearson's interval instead of one of no width.
fn means(form: Form, moments: &Moments, bounded: bool, confidence: f64) -> Answer {
    let method = match form {
        Form::Mean(_) | Form::Difference(_) => Method::Student,
        Form::Ratio(_) | Form::RatioDifference(_) => Method::Ratio,
    };
    let n = moments.n();
    let found = moments.estimate(form, confidence);
    let mut answer = Answer::of(found, method, n);
    match form {
        Form::Mean(_) if bounded && answer.flat => {
            let successes = if answer.estimate == 1.0 { n } else { 0 };
            answer.interval = clopper_pearson(successes, n, confidence);
            answer.method = Method::ClopperPearson;
            answer.flat = false;
            answer.warnings.push(format!(
                "all {n} values are {}: its interval is that of a probability",
                answer.estimate
            ));
        }
        Form::Ratio(_) if found.is_some() && bounded => {
            answer.interval = within_one(answer.interval);
        }
        Form::Ratio(_) | Form::RatioDifference(_) if found.is_none() && n > 0 => {
            answer
                .warnings
                .push("the whole is 0 in every run: there is no ratio".to_owned());
        }
        _ => {}
    }
    answer
}

/// Of what is as rare as this, `runs` runs would have shown something with `confidence`.
fn unseen(runs: u64, confidence: f64) -> f64 {
    -libm::expm1(libm::log(1.0 - confidence) / runs as f64)
}

fn decide(interval: Interval, side: Side, bound: f64) -> Verdict {
    let (holds, rejected) = match side {
        Side::AtLeast => (interval.low >= bound, interval.high < bound),
        Side::AtMost => (interval.high <= bound, interval.low > bound),
    };
    match (holds, rejected) {
        (true, _) => Verdict::Holds,
        (_, true) => Verdict::Rejected,
        _ => Verdict::Undecided,
    }
}

fn check_precision(precision: Precision) -> Result<(), String> {
    match precision {
        Precision::Absolute(half) if !(half > 0.0 && half.is_finite()) => Err(format!(
            "an absolute precision of {half}: half the width of an interval must be above 0"
        )),
        Precision::Relative(part) if !(part > 0.0 && part < 1.0) => Err(format!(
            "a relative precision of {part}: it is a part of the estimate, between 0 and 1, both left out; 0.05 is 5%"
        )),
        Precision::Absolute(_) | Precision::Relative(_) => Ok(()),
        Precision::Either { absolute, relative } => {
            check_precision(Precision::Absolute(absolute))?;
            check_precision(Precision::Relative(relative))
        }
    }
}

/// The estimator of a target, and the claim of a hypothesis.
fn plan(
    kind: &Kind,
    shape: Shape,
    family: f64,
    stores: &mut Vec<Store>,
) -> Result<(Estimator, Option<(Side, f64)>), String> {
    for column in columns(kind) {
        if column >= shape.columns {
            return Err(format!(
                "there is no column {column}: a run gives {}",
                shape.columns
            ));
        }
    }
    if shape.pairs {
        return Ok((difference(kind, shape.columns)?, None));
    }
    Ok(match *kind {
        Kind::Mean { column } => (means_of(Form::Mean([column])), None),
        Kind::Ratio {
            numerator,
            denominator,
        } => (means_of(Form::Ratio([numerator, denominator])), None),
        Kind::Probability { column, method } => (probability(column, method, None), None),
        Kind::Quantile { of, q } => {
            if !(q > 0.0 && q < 1.0) {
                return Err(format!(
                    "the {q} quantile: it must lie between 0 and 1, both left out; 0.5 is the median"
                ));
            }
            if let Source::Samples(list) = of {
                check_list(list, shape)?;
            }
            (
                Estimator::Quantile {
                    store: store_of(of, stores),
                    q,
                },
                None,
            )
        }
        Kind::Steady(steady) => {
            check_list(steady.samples, shape)?;
            let estimator = Estimator::Steady {
                samples: steady.samples,
                batches: Batches::new(steady),
                runs: 0,
            };
            (estimator, None)
        }
        Kind::Hypothesis { of, side, bound } => {
            if !bound.is_finite() {
                return Err(format!("a bound of {bound}: it must be a number"));
            }
            (tested(of, side, bound, family)?, Some((side, bound)))
        }
    })
}

fn tested(of: Tested, side: Side, bound: f64, family: f64) -> Result<Estimator, String> {
    Ok(match of {
        Tested::Mean { column } => means_of(Form::Mean([column])),
        Tested::Ratio {
            numerator,
            denominator,
        } => means_of(Form::Ratio([numerator, denominator])),
        Tested::Probability { column, test } => {
            if !(0.0..=1.0).contains(&bound) {
                return Err(format!("a probability of {bound}: it lies within 0 and 1"));
            }
            let test = match test {
                Test::Interval => None,
                Test::Sprt {
                    indifference,
                    alpha,
                    beta,
                } => Some(Sprt::new(
                    side,
                    bound,
                    indifference,
                    alpha / family,
                    beta / family,
                )?),
            };
            probability(column, ProbabilityMethod::ClopperPearson, test)
        }
    })
}

/// Of the same run of two points.
fn difference(kind: &Kind, columns: usize) -> Result<Estimator, String> {
    match *kind {
        Kind::Mean { column } | Kind::Probability { column, .. } => {
            Ok(means_of(Form::Difference([column, columns + column])))
        }
        Kind::Ratio {
            numerator,
            denominator,
        } => Ok(means_of(Form::RatioDifference([
            numerator,
            denominator,
            columns + numerator,
            columns + denominator,
        ]))),
        Kind::Quantile { .. } | Kind::Steady(_) | Kind::Hypothesis { .. } => Err(
            "two points are compared by means, probabilities and ratios; leave this one out"
                .to_owned(),
        ),
    }
}

fn means_of(form: Form) -> Estimator {
    Estimator::Means {
        form,
        moments: Moments::new(form.columns().len()),
        bounded: true,
    }
}

fn probability(column: usize, method: ProbabilityMethod, test: Option<Sprt>) -> Estimator {
    Estimator::Probability {
        column,
        method,
        successes: 0,
        runs: 0,
        test,
    }
}

fn store_of(source: Source, stores: &mut Vec<Store>) -> usize {
    let known = stores.iter().position(|store| store.source == source);
    known.unwrap_or_else(|| {
        stores.push(Store::new(source, VALUES_MAX));
        stores.len() - 1
    })
}

fn columns(kind: &Kind) -> Vec<usize> {
    match *kind {
        Kind::Mean { column }
        | Kind::Probability { column, .. }
        | Kind::Quantile {
            of: Source::Column(column),
            ..
        }
        | Kind::Hypothesis {
            of: Tested::Probability { column, .. } | Tested::Mean { column },
            ..
        } => vec![column],
        Kind::Ratio {
            numerator,
            denominator,
        }
        | Kind::Hypothesis {
            of:
                Tested::Ratio {
                    numerator,
                    denominator,
                },
            ..
        } => vec![numerator, denominator],
        Kind::Quantile { .. } | Kind::Steady(_) => Vec::new(),
    }
}

fn check_list(list: usize, shape: Shape) -> Result<(), String> {
    if list >= shape.samples {
        return Err(format!(
            "there is no list {list}: a run gives {}",
            shape.samples
        ));
    }
    Ok(())
}
