//! What is to be estimated, and how well.

use std::fmt;
use std::num::NonZeroUsize;

use serde::Serialize;

use super::error::CheckError;

/// A question that has one answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its name in reports.
    pub name: String,
    /// Where it was asked, for messages: `scenario.toml:31:11`. May be empty.
    pub place: String,
    /// Of one of the points of a parametric question: its parameter here. `name` ends in it.
    pub parameter: Option<Parameter>,
    /// What is estimated, from which columns, by which method.
    pub kind: Kind,
    /// Confidence of its interval, within 0 and 1; [`Settings::confidence`] if `None`.
    pub confidence: Option<f64>,
    /// How narrow the interval must get; [`Settings::precision`] if `None`.
    pub precision: Option<Precision>,
}

impl Target {
    /// A target with the settings' confidence and precision.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self {
            name: name.into(),
            place: String::new(),
            parameter: None,
            kind,
            confidence: None,
            precision: None,
        }
    }
}

/// The parameter of a parametric question, and its value at one of its points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
}

impl fmt::Display for Parameter {
    /// ` x=0.5`, as it ends the name of a target.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}={}", self.name, self.value)
    }
}

/// What is estimated. Columns and lists are indices into [`Row`](crate::Row).
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// The expected value of a column, by Student's t.
    Mean {
        /// The column.
        column: usize,
    },
    /// The probability that a column is 1. It must be 0 or 1 in every run.
    Probability {
        /// The column.
        column: usize,
        /// How its interval is made.
        method: ProbabilityMethod,
    },
    /// The ratio of two expected values: the share of a random count. The sum of the one over the sum of the other, by the delta
    /// method and Student's t.
    Ratio {
        /// Column of the part.
        numerator: usize,
        /// Column of the whole.
        denominator: usize,
    },
    /// The value that a share `q` of all are not above.
    Quantile {
        /// Of which values.
        of: Source,
        /// Which one: 0.5 is the median. Within 0 and 1.
        q: f64,
    },
    /// The long-run mean of a series that each run observes at equal distances in time.
    Steady(Steady),
    /// Whether something is at least, or at most, a bound.
    Hypothesis {
        /// Of what.
        of: Tested,
        /// Which side is claimed.
        side: Side,
        /// The bound.
        bound: f64,
    },
}

/// The values of a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// One value a run: runs are independent, and so are these.
    Column(usize),
    /// All values of a list over all runs, pooled: those of one run may depend on each other.
    Samples(usize),
}

/// How the interval of a probability is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbabilityMethod {
    /// Clopper and Pearson's: exact, never less sure than it says, a little wide.
    #[default]
    ClopperPearson,
    /// Wilson's score interval: narrower, right on average.
    Wilson,
    /// Okamoto's bound, known to some as Chernoff's or Hoeffding's: the number of runs is known beforehand. Needs an absolute precision.
    Okamoto,
}

/// A series in its long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steady {
    /// The list that holds each run's series, of the same length in every run.
    pub samples: usize,
    /// How many values at its beginning are left out.
    pub warm_up: usize,
    /// How many batches the rest of a run is cut into. 1: replication and deletion, each run one value.
    pub batches: NonZeroUsize,
}

/// What a hypothesis is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tested {
    /// A probability: the column is 0 or 1 in every run.
    Probability {
        /// The column.
        column: usize,
        /// By which test.
        test: Test,
    },
    /// An expected value, decided by its interval.
    Mean {
        /// The column.
        column: usize,
    },
    /// A ratio of two expected values, decided by its interval.
    Ratio {
        /// Column of the part.
        numerator: usize,
        /// Column of the whole.
        denominator: usize,
    },
}

/// How a hypothesis on a probability is decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test {
    /// Wald's sequential probability ratio test: as few runs as it takes.
    Sprt {
        /// Half the width of the region around the bound where either answer will do.
        indifference: f64,
        /// Greatest probability of rejecting what holds.
        alpha: f64,
        /// Greatest probability of accepting what does not.
        beta: f64,
    },
    /// By the exact interval of all runs: holds or is rejected when the bound lies outside, else undecided.
    Interval,
}

/// Which side of the bound is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `>=`. With a continuous law `>` is the same.
    AtLeast,
    /// `<=`.
    AtMost,
}

/// How narrow an interval must get.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Half its width is at most this.
    Absolute(f64),
    /// Half its width is at most this part of the estimate.
    Relative(f64),
    /// Half its width is at most the one or the other, whichever is more: absolute where the estimate is small, relative where it is large.
    Either {
        /// As [`Precision::Absolute`].
        absolute: f64,
        /// As [`Precision::Relative`].
        relative: f64,
    },
}

impl Precision {
    /// What half the width may be, with such an estimate.
    pub(crate) fn goal(self, estimate: f64) -> f64 {
        match self {
            Self::Absolute(half) => half,
            Self::Relative(part) => part * estimate.abs(),
            Self::Either { absolute, relative } => absolute.max(relative * estimate.abs()),
        }
    }
}

/// How many runs are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// So many.
    Fixed(u64),
    /// Until every target has its precision or its verdict.
    Sequential {
        /// At least so many: a variance from few runs may be far too small, and a check that stops on it is surer than it should be. From 128 runs
        /// on, 95% intervals hold the mean of exponentials 94.6% of the time or more; from 16 on 93.4%.
        min: u64,
        /// At most so many.
        max: u64,
    },
}

impl Default for Runs {
    fn default() -> Self {
        Self::Sequential {
            min: 128,
            max: 1_000_000,
        }
    }
}

/// How a check is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How many runs.
    pub runs: Runs,
    /// Confidence of targets that state none, within 0 and 1.
    pub confidence: f64,
    /// Precision of targets that state none. `None`: they take what runs the others need.
    pub precision: Option<Precision>,
    /// How many intervals are to hold at once (Bonferroni): each gets its error probability divided by this. 1: each on its own.
    pub simultaneous: u32,
    /// Threads. The results do not depend on it.
    pub threads: NonZeroUsize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            runs: Runs::default(),
            confidence: 0.95,
            precision: None,
            simultaneous: 1,
            threads: NonZeroUsize::MIN,
        }
    }
}

impl Settings {
    /// Can they be?
    ///
    /// # Errors
    ///
    /// [`CheckError::Settings`] says which cannot, and what to do.
    pub fn check(&self) -> Result<(), CheckError> {
        let refuse = |problem: String| Err(CheckError::Settings(problem));
        match self.runs {
            Runs::Fixed(0) => {
                return refuse("0 runs say nothing: give a number of runs above 0".to_owned());
            }
            Runs::Sequential { min, .. } if min < 2 => {
                return refuse(format!(
                    "at least {min} runs: how they vary is not seen from fewer than 2"
                ));
            }
            Runs::Sequential { min, max } if max < min => {
                return refuse(format!(
                    "at least {min} runs and at most {max}: the most must not be below the least"
                ));
            }
            Runs::Fixed(_) | Runs::Sequential { .. } => {}
        }
        if self.simultaneous == 0 {
            return refuse("0 simultaneous intervals: 1 takes each on its own".to_owned());
        }
        Ok(())
    }
}
