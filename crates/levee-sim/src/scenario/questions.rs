//! What is asked of the model, and how surely it is to answer: `[check]` and `[[query]]`.
//!
//! Plain data. The language of queries is the checker's, not ours: each text keeps its place in the file, so that who parses
//! it can name line and column.

use std::time::Duration;

use levee_config::{Document, Place, Problem, Problems, Text};
use serde::{Deserialize, Serialize};

use super::raw::{RawCheck, RawQuery};
use super::read::{ReadFile, std};

/// Confidence of intervals; that of the paper.
pub const CONFIDENCE: f64 = 0.99;
/// Half the width of a hypothesis test's indifference region (our choice: a point in a hundred).
pub const INDIFFERENCE: f64 = 0.01;
/// Batches of a steady-state estimate: 10 to 30 are usual (B. W. Schmeiser, Operations Research 30(3), 1982).
pub const BATCHES: u32 = 20;
/// Most queries of a scenario: more would make a table that nobody reads.
const QUERIES_MAX: usize = 1_000;
/// Most runs of one point.
const RUNS_MAX: u64 = 1_000_000_000;

/// The `[check]` table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// Confidence of intervals; [`CONFIDENCE`].
    pub confidence: f64,
    /// How narrow intervals must get; `None` for as narrow as the runs make them.
    pub precision: Option<Precision>,
    /// How intervals are made; `None` for what suits the query.
    pub method: Option<Method>,
    /// How many runs.
    pub runs: Runs,
    /// No run begins later.
    pub time_budget: Option<Duration>,
    /// Whether the confidence is that of all intervals of a point at once (Bonferroni).
    pub simultaneous: bool,
    /// How hypotheses are tested.
    pub sprt: Sprt,
}

impl Default for Check {
    /// What a scenario without `[check]` has.
    fn default() -> Self {
        Self {
            confidence: CONFIDENCE,
            precision: None,
            method: None,
            runs: Runs::Sequential {
                min: None,
                max: None,
            },
            time_budget: None,
            simultaneous: false,
            sprt: Sprt::of_confidence(CONFIDENCE),
        }
    }
}

/// How narrow an interval must get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Precision {
    /// Half its width is at most this.
    Absolute(f64),
    /// Half its width is at most this part of the estimate.
    Relative(f64),
}

/// How an interval is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Student's t, for means and ratios.
    Student,
    /// Clopper and Pearson's exact one, for probabilities.
    ClopperPearson,
    /// Wilson's score, for probabilities.
    Wilson,
    /// Okamoto's bound, for probabilities: the number of runs follows from precision and confidence.
    Okamoto,
}

/// How many runs a point gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// So many.
    Fixed(u64),
    /// Until each query has its precision; `None` for the checker's own bounds.
    Sequential {
        /// At least so many.
        min: Option<u64>,
        /// At most so many.
        max: Option<u64>,
    },
}

/// Wald's sequential probability ratio test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sprt {
    /// Half the width of the region around the bound where either answer will do; [`INDIFFERENCE`].
    pub indifference: f64,
    /// Probability of rejecting what holds; what the confidence leaves.
    pub alpha: f64,
    /// Probability of accepting what does not hold; what the confidence leaves.
    pub beta: f64,
}

impl Sprt {
    fn of_confidence(confidence: f64) -> Self {
        Self {
            indifference: INDIFFERENCE,
            alpha: 1.0 - confidence,
            beta: 1.0 - confidence,
        }
    }
}

/// A `[[query]]` table.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Its name in reports; no two have one name.
    pub name: String,
    /// What is asked.
    pub asked: Asked,
    /// Confidence; that of [`Check`] if `None`.
    pub confidence: Option<f64>,
    /// Precision; that of [`Check`] if `None`.
    pub precision: Option<Precision>,
    /// Method; that of [`Check`] if `None`.
    pub method: Option<Method>,
    /// Where its table stands.
    pub place: Place,
}

/// What a query asks. The texts are not parsed yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// The expected value of a formula at the end of a run.
    Formula(Text),
    /// What QuaTEx expressions say.
    Quatex {
        /// The expressions. A file's text names the file as its place.
        text: Text,
        /// What `#` goes on to.
        step: NextStep,
    },
    /// Whether a hypothesis holds: `P[ … ] >= 0.9`.
    Hypothesis(Text),
    /// A quantile of a formula's values over the runs.
    QuantileOfFormula {
        /// The formula.
        formula: Text,
        /// Which: 0.5 is the median.
        q: f64,
    },
    /// A quantile of what all runs collect under a name.
    QuantileOfSamples {
        /// The name.
        samples: Text,
        /// Which: 0.5 is the median.
        q: f64,
    },
    /// The long-run mean of a formula within a run.
    Steady {
        /// The formula.
        formula: Text,
        /// By which batches.
        steady: Steady,
    },
}

/// What `#` of QuaTEx goes on to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NextStep {
    /// The next event.
    #[default]
    Event,
    /// The end of the run: where one step of the model was its whole run, as in the files released with SeVen.
    Run,
}

/// A steady-state estimate by batch means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steady {
    /// Batches of a run; [`BATCHES`].
    pub batches: u32,
    /// What is left out at the beginning of a run.
    pub warmup: Duration,
    /// Time between two observations; `None` for the checker's own.
    pub every: Option<Duration>,
}

/// Reads `[check]` and all `[[query]]`.
pub(super) fn read(
    document: &Document<'_>,
    read: ReadFile<'_>,
) -> Result<(Check, Vec<Query>), Problems> {
    let raw: RawCheck = document.read("check")?;
    let queries: Vec<RawQuery> = if document.has("query") {
        document.read("query")?
    } else {
        Vec::new()
    };
    let mut reader = Reader {
        document,
        read,
        problems: Vec::new(),
    };
    let check = reader.check(&raw);
    let queries = reader.queries(&queries, &check);
    match reader.problems.into_iter().next() {
        None => Ok((check, queries)),
        // One at a time, as for the other tables.
        Some(first) => Err(first.into()),
    }
}

struct Reader<'d> {
    document: &'d Document<'d>,
    read: ReadFile<'d>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn refuse(&mut self, key: &str, found: impl Into<String>, expected: &str, remedy: &str) {
        let problem = self.document.problem(key, found, expected, remedy);
        self.problems.push(problem);
    }

    /// Refuses a number outside `low..=high`.
    fn range(&mut self, key: &str, value: Option<f64>, low: f64, high: f64, remedy: &str) {
        if let Some(value) = value
            && !(low..=high).contains(&value)
        {
            let expected = format!("a number from {low} to {high}");
            self.refuse(key, value.to_string(), &expected, remedy);
        }
    }

    fn check(&mut self, raw: &RawCheck) -> Check {
        self.confidence("check", raw.confidence);
        let precision = self.precision("check", raw.precision, raw.relative_precision);
        let runs = self.runs(raw);
        let budget = raw.time_budget.map(std);
        self.range(
            "check.time_budget",
            budget.map(|d| d.as_secs_f64()),
            0.001,
            7.0 * 86_400.0,
            "give a time such as \"30s\"",
        );
        let confidence = raw.confidence.unwrap_or(CONFIDENCE);
        let usual = Sprt::of_confidence(confidence);
        let remedy = "write 0.01: within a point of the bound either answer will do";
        let indifference = raw.sprt.indifference;
        self.range("check.sprt.indifference", indifference, 1e-6, 0.5, remedy);
        let remedy = "write 0.01 for one wrong answer in a hundred";
        self.range("check.sprt.alpha", raw.sprt.alpha, 1e-12, 0.49, remedy);
        self.range("check.sprt.beta", raw.sprt.beta, 1e-12, 0.49, remedy);
        self.method("check", raw.method, precision);
        Check {
            confidence,
            precision,
            method: raw.method,
            runs,
            time_budget: budget,
            simultaneous: raw.simultaneous,
            sprt: Sprt {
                indifference: indifference.unwrap_or(usual.indifference),
                alpha: raw.sprt.alpha.unwrap_or(usual.alpha),
                beta: raw.sprt.beta.unwrap_or(usual.beta),
            },
        }
    }

    fn runs(&mut self, raw: &RawCheck) -> Runs {
        let remedy = "leave it out for the checker's own, or write such as 10000";
        for (key, n) in [
            ("check.runs", raw.runs),
            ("check.min_runs", raw.min_runs),
            ("check.max_runs", raw.max_runs),
        ] {
            // A variance takes two.
            self.range(key, n.map(|n| n as f64), 2.0, RUNS_MAX as f64, remedy);
        }
        let Some(runs) = raw.runs else {
            let (min, max) = (raw.min_runs, raw.max_runs);
            if let (Some(min), Some(max)) = (min, max)
                && min > max
            {
                let expected = format!("at most max_runs, {max}");
                let remedy = "exchange the two";
                self.refuse("check.min_runs", min.to_string(), &expected, remedy);
            }
            return Runs::Sequential { min, max };
        };
        for (key, given) in [
            ("min_runs", raw.min_runs.is_some()),
            ("max_runs", raw.max_runs.is_some()),
        ] {
            if given {
                self.refuse(
                    &format!("check.{key}"),
                    format!("both `runs` and `{key}`"),
                    "one of the two",
                    "`runs` is a fixed number; take it out to stop when the precision is reached",
                );
            }
        }
        Runs::Fixed(runs)
    }

    fn confidence(&mut self, table: &str, confidence: Option<f64>) {
        let key = format!("{table}.confidence");
        let remedy = "write 0.99 for intervals that hold the truth 99 times in a hundred";
        self.range(&key, confidence, 0.5, 0.999_999, remedy);
    }

    fn precision(
        &mut self,
        table: &str,
        absolute: Option<f64>,
        relative: Option<f64>,
    ) -> Option<Precision> {
        let key = format!("{table}.precision");
        let remedy = "write 0.01 for a point in a hundred to each side";
        self.range(&key, absolute, 1e-9, 1e9, remedy);
        let key = format!("{table}.relative_precision");
        let remedy = "write 0.01 for a hundredth of the estimate to each side";
        self.range(&key, relative, 1e-6, 1.0, remedy);
        if absolute.is_some() && relative.is_some() {
            self.refuse(
                &key,
                "both `precision` and `relative_precision`",
                "one of the two",
                "take out the one that you do not mean",
            );
        }
        absolute
            .map(Precision::Absolute)
            .or(relative.map(Precision::Relative))
    }

    fn method(&mut self, table: &str, method: Option<Method>, precision: Option<Precision>) {
        let absolute = matches!(precision, Some(Precision::Absolute(_)));
        if method == Some(Method::Okamoto) && !absolute {
            self.refuse(
                &format!("{table}.method"),
                "okamoto without an absolute precision",
                "`precision` with it: the number of runs follows from the two",
                "add precision = 0.01, or take another method",
            );
        }
    }

    fn queries(&mut self, raw: &[RawQuery], check: &Check) -> Vec<Query> {
        if raw.len() > QUERIES_MAX {
            let (found, expected) = (raw.len(), format!("at most {QUERIES_MAX}"));
            let remedy = "split the scenario";
            self.refuse("query", format!("{found} queries"), &expected, remedy);
        }
        let mut queries: Vec<Query> = Vec::new();
        for (i, raw) in raw.iter().take(QUERIES_MAX).enumerate() {
            let key = format!("query[{i}]");
            let name = format!("{key}.name");
            if raw.name.trim().is_empty() {
                self.refuse(&name, "an empty name", "a name", "say what is asked");
            }
            if queries.iter().any(|query| query.name == raw.name) {
                let found = format!("a second query `{}`", raw.name);
                let remedy = "give this query a name of its own";
                self.refuse(&name, found, "a name for each query", remedy);
            }
            queries.extend(self.query(&key, raw, check));
        }
        queries
    }

    fn query(&mut self, key: &str, raw: &RawQuery, check: &Check) -> Option<Query> {
        self.confidence(key, raw.confidence);
        let precision = self.precision(key, raw.precision, raw.relative_precision);
        self.method(key, raw.method, precision.or(check.precision));
        let asked = self.asked(key, raw)?;
        Some(Query {
            name: raw.name.clone(),
            asked,
            confidence: raw.confidence,
            precision,
            method: raw.method,
            place: self.document.place(key),
        })
    }

    fn asked(&mut self, key: &str, raw: &RawQuery) -> Option<Asked> {
        const ONE_OF: &str = "`formula`, `quatex`, `quatex_file`, `hypothesis` or `of`";
        let given: Vec<&str> = [
            ("formula", raw.formula.is_some()),
            ("quatex", raw.quatex.is_some()),
            ("quatex_file", raw.quatex_file.is_some()),
            ("hypothesis", raw.hypothesis.is_some()),
            ("of", raw.of.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        .collect();
        let [what] = given[..] else {
            let found = match given[..] {
                [first, second, ..] => format!("both `{first}` and `{second}`"),
                _ => "a query that asks nothing".to_owned(),
            };
            let remedy = "write formula = \"honest.complete / honest.attempted\"";
            self.refuse(key, found, &format!("one of {ONE_OF}"), remedy);
            return None;
        };
        let quantile = format!("{key}.quantile");
        let remedy = "write 0.95 for the value that 19 of 20 are not above";
        self.range(&quantile, raw.quantile, 1e-6, 0.999_999, remedy);
        if raw.quantile.is_some() && !matches!(what, "formula" | "of") {
            let found = format!("`quantile` with `{what}`");
            let remedy = "ask for it with a formula, or of samples";
            self.refuse(&quantile, found, "it with `formula` or `of`", remedy);
        }
        if raw.step.is_some() && !what.starts_with("quatex") {
            let found = format!("`step` with `{what}`");
            let remedy = "take it out: only QuaTEx has `#`";
            self.refuse(
                &format!("{key}.step"),
                found,
                "it with `quatex` or `quatex_file`",
                remedy,
            );
        }
        let steady = self.steady(key, raw, what);
        let text = self.document.text(&format!("{key}.{what}"))?;
        Some(match (what, raw.quantile, steady) {
            ("quatex", ..) => Asked::Quatex {
                text,
                step: raw.step.unwrap_or_default(),
            },
            ("quatex_file", ..) => Asked::Quatex {
                text: self.quatex_file(key, &text.text)?,
                step: raw.step.unwrap_or_default(),
            },
            ("hypothesis", ..) => Asked::Hypothesis(text),
            ("of", Some(q), _) => Asked::QuantileOfSamples { samples: text, q },
            ("of", None, _) => {
                let remedy = "add quantile = 0.95";
                self.refuse(key, "`of` without `quantile`", "`quantile`", remedy);
                return None;
            }
            (_, Some(q), None) => Asked::QuantileOfFormula { formula: text, q },
            (_, None, Some(steady)) => Asked::Steady {
                formula: text,
                steady,
            },
            (_, Some(_), Some(_)) => {
                let remedy = "make two queries of it";
                self.refuse(
                    key,
                    "both `quantile` and `steady`",
                    "one of the two",
                    remedy,
                );
                return None;
            }
            (_, None, None) => Asked::Formula(text),
        })
    }

    fn steady(&mut self, key: &str, raw: &RawQuery, what: &str) -> Option<Steady> {
        for (name, given) in [
            ("batches", raw.batches.is_some()),
            ("warmup", raw.warmup.is_some()),
            ("every", raw.every.is_some()),
        ] {
            if given && !raw.steady {
                let found = format!("`{name}` without `steady`");
                let remedy = "add steady = true, or take it out";
                self.refuse(&format!("{key}.{name}"), found, "steady = true", remedy);
            }
        }
        if !raw.steady {
            return None;
        }
        if what != "formula" {
            let found = format!("`steady` with `{what}`");
            let remedy = "ask for the long-run mean of a formula";
            self.refuse(&format!("{key}.steady"), found, "`formula`", remedy);
        }
        let batches = raw.batches.unwrap_or(BATCHES);
        let remedy = "10 to 30 are usual";
        let batches_key = format!("{key}.batches");
        self.range(&batches_key, Some(batches.into()), 1.0, 10_000.0, remedy);
        let warmup = raw.warmup.map(std).unwrap_or_default();
        let every = raw.every.map(std);
        let remedy = "give a time such as \"1s\"";
        for (name, time, low) in [("warmup", Some(warmup), 0.0), ("every", every, 1e-6)] {
            let seconds = time.map(|time| time.as_secs_f64());
            self.range(&format!("{key}.{name}"), seconds, low, 86_400.0, remedy);
        }
        Some(Steady {
            batches,
            warmup,
            every,
        })
    }

    fn quatex_file(&mut self, key: &str, path: &str) -> Option<Text> {
        match (self.read)(path) {
            Ok(text) => Some(Text::of_file(path, &text)),
            Err(error) => {
                self.refuse(
                    &format!("{key}.quatex_file"),
                    format!("{path}: {error}"),
                    "a file",
                    "give the path from the folder of the scenario",
                );
                None
            }
        }
    }
}
