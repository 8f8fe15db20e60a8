//! What is answered.

use serde::Serialize;

use super::target::Parameter;

/// The answer to a [`Target`](crate::Target).
///
/// A number that is not known, such as the estimate after no runs or the end of an interval that has none, is NaN or infinite: `null` in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The target's name.
    pub name: String,
    /// Of one of the points of a parametric question: its parameter here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<Parameter>,
    /// Of a hypothesis: does it hold?
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What was found.
    pub estimate: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence of the interval; of all `simultaneous` ones together.
    pub confidence: f64,
    /// How many intervals hold together with that confidence, if more than this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simultaneous: Option<u32>,
    /// How the interval was made.
    pub method: Method,
    /// Runs that it comes from.
    pub runs: u64,
    /// Of a sequential test: the run after which it was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_after: Option<u64>,
    /// Why there are no more.
    pub stopped: Stopped,
    /// What a reader has to know before trusting it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Estimate {
    /// The target's name, without its parameter: the points of a parametric question have one.
    #[must_use]
    pub fn question(&self) -> &str {
        let end = self.parameter.as_ref().map(Parameter::to_string);
        let question = end.and_then(|end| self.name.strip_suffix(&end));
        question.unwrap_or(&self.name)
    }
}

/// How an interval was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Student's t around the mean of the runs.
    Student,
    /// Student's t around a ratio of sums, its variance by the delta method.
    Ratio,
    /// Clopper and Pearson's.
    ClopperPearson,
    /// Wilson's.
    Wilson,
    /// Okamoto's bound.
    Okamoto,
    /// Order statistics of independent values, their ranks binomial.
    OrderStatistics,
    /// Woodruff's: the interval of the distribution function over the runs, mapped back to values.
    Woodruff,
    /// Student's t around the mean of batches within runs.
    BatchMeans,
    /// Student's t around the mean of runs, their beginnings left out.
    Replication,
}

/// Does a hypothesis hold?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Yes, but for the error probability that was asked for.
    Holds,
    /// No, likewise.
    Rejected,
    /// The runs do not say.
    Undecided,
}

/// Why a target got no more runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// Its interval is as narrow as asked.
    Precision,
    /// Its test has its verdict.
    Decided,
    /// The number of runs was fixed, or the target asked for no precision and the others had theirs.
    Runs,
    /// There may be no more runs.
    MaxRuns,
    /// There is no room for more values; see its warnings.
    Memory,
    /// The time is spent.
    Budget,
    /// Someone stopped the check.
    Interrupted,
}
