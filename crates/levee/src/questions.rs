//! The queries of a scenario as targets of a check.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use levee_config::{Problem, Problems, Text};
use levee_sim::scenario::{self, Asked, Check, Method, NextStep, Query, Scenario};
use levee_smc::estimate::{Kind, Precision, ProbabilityMethod, Runs, Source, Target, Test, Tested};
use levee_smc::query::{Offer, Outside, QueryError, Questions, Step};

/// Compiled queries, and what each asks.
pub(crate) struct Asking<'a> {
    /// What is written down of each run.
    pub(crate) measure: Questions<'a>,
    /// What is asked.
    pub(crate) targets: Vec<Target>,
    /// What an author may not have meant.
    pub(crate) remarks: Vec<String>,
}

/// Compiles the queries of a scenario for a model that offers these observables.
///
/// # Errors
///
/// Everything that is wrong with them, with line and column in the file.
pub(crate) fn of_scenario<'a>(scenario: &Scenario, offer: Offer<'a>) -> Result<Asking<'a>> {
    if scenario.queries.is_empty() {
        bail!(
            "the scenario asks nothing: add a [[query]] with `name = \"complete\"` and `formula = \"honest.complete / honest.attempted\"`; \
             `levee check --observables` lists what there is"
        );
    }
    compile(&scenario.queries, scenario, offer)
}

/// Compiles some of them.
///
/// # Errors
///
/// As [`of_scenario`].
pub(crate) fn compile<'a>(
    queries: &[Query],
    scenario: &Scenario,
    offer: Offer<'a>,
) -> Result<Asking<'a>> {
    let mut asking = Asking {
        measure: Questions::new(offer),
        targets: Vec::new(),
        remarks: Vec::new(),
    };
    // The series of a steady state is as long as the shortest run.
    let ends = scenario.points.iter().map(|point| &point.setup.run);
    let end = ends.map(|run| run.warmup + run.time).min();
    let end = end.unwrap_or_default();
    let mut problems = Vec::new();
    for query in queries {
        let before = asking.measure.asked().len();
        if let Err(problem) = ask(&mut asking.measure, query, end) {
            problems.push(*problem);
            continue;
        }
        let added: Vec<_> = asking
            .measure
            .asked()
            .iter()
            .skip(before)
            .cloned()
            .collect();
        let alone = added.len() == 1;
        for asked in added {
            let mut target = asked.target;
            let at = &query.place;
            target.place = format!("{}:{}:{}", at.file, at.line, at.column);
            target.name = match &asked.parameter {
                Some((name, value)) if alone => format!("{} {name}={value}", query.name),
                _ if alone => query.name.clone(),
                _ => format!("{}: {}", query.name, target.name),
            };
            if let Err(problem) = adjust(&mut target, query, &scenario.check) {
                problems.push(*problem);
                break;
            }
            if !asked.remark.is_empty() {
                asking
                    .remarks
                    .push(format!("{}: {}", query.name, asked.remark));
            }
            asking.targets.push(target);
        }
    }
    Problems::check(problems)?;
    Ok(asking)
}

fn ask(questions: &mut Questions<'_>, query: &Query, end: Duration) -> Result<(), Box<Problem>> {
    let constants = BTreeMap::new();
    let outside = Outside {
        constants: &constants,
        import: None,
    };
    let name = query.name.as_str();
    let (text, asked) = match &query.asked {
        Asked::Formula(text) | Asked::Hypothesis(text) => {
            (text, questions.formula(name, &text.text, outside))
        }
        Asked::QuantileOfFormula { formula, .. } => {
            (formula, questions.formula(name, &formula.text, outside))
        }
        Asked::Quatex { text, step } => {
            let step = match step {
                NextStep::Event => Step::Event,
                NextStep::Run => Step::Run,
            };
            (text, questions.quatex(name, &text.text, step, outside))
        }
        Asked::QuantileOfSamples { samples, q } => {
            let formula = format!("quantile({q}, {})", samples.text);
            // Its own words are the sample's name alone.
            return questions.formula(name, &formula, outside).map_err(|error| {
                Box::new(samples.problem(0, error.found, error.expected, error.remedy))
            });
        }
        Asked::Steady { formula, steady } => {
            let text = steady_form(&formula.text, steady, end);
            let asked = questions.formula(name, &text, outside);
            (formula, asked.map_err(without_opening))
        }
    };
    asked.map_err(|error| Box::new(problem(text, error)))
}

/// What the checker calls it; see docs/queries.md.
const STEADY: &str = "steady(";
/// Observations of a batch where the scenario does not say how far apart they are (our choice).
const OBSERVATIONS: f64 = 10.0;

/// A steady state as the query language has it: after the warm-up, a mean for each step.
fn steady_form(formula: &str, steady: &scenario::Steady, end: Duration) -> String {
    let (from, to) = (steady.warmup.as_secs_f64(), end.as_secs_f64());
    let batches = steady.batches;
    let every = steady.every.map_or_else(
        || (to - from) / (f64::from(batches) * OBSERVATIONS),
        |every| every.as_secs_f64(),
    );
    format!("{STEADY}{formula}, {from}, {every}, {to}, {batches})")
}

/// Columns of the first line are those of the formula itself.
fn without_opening(mut error: QueryError) -> QueryError {
    if error.place.line == 1 {
        error.place.column = error.place.column.saturating_sub(STEADY.len()).max(1);
    }
    error
}

/// The error of a query's text, at its place in the file.
fn problem(text: &Text, error: QueryError) -> Problem {
    let place = &error.place;
    let line_start = match place.line.checked_sub(2) {
        None => Some(0),
        Some(breaks) => text
            .text
            .match_indices('\n')
            .nth(breaks)
            .map(|(at, _)| at + 1),
    };
    let start = line_start.unwrap_or(text.text.len());
    let line = text.text.get(start..).unwrap_or_default();
    let column = line.char_indices().nth(place.column.saturating_sub(1));
    let offset = column.map_or(text.text.len(), |(at, _)| start + at);
    text.problem(offset, error.found, error.expected, error.remedy)
}

/// What the tables of the scenario say about how it is answered.
fn adjust(target: &mut Target, query: &Query, check: &Check) -> Result<(), Box<Problem>> {
    target.confidence = query.confidence;
    if let Some(precision) = query.precision {
        target.precision = Some(self::precision(precision));
    }
    let method = query.method.or(check.method);
    let refused = |found: &str, expected: &str| {
        Box::new(Problem {
            place: query.place.clone(),
            found: format!("{found} by the method {}", method_name(method)),
            expected: expected.to_owned(),
            remedy: "take `method` out, or put it into the [[query]] that it suits".to_owned(),
        })
    };
    match (&mut target.kind, &query.asked) {
        (Kind::Hypothesis { .. }, Asked::QuantileOfFormula { .. }) => {
            return Err(Box::new(Problem {
                place: query.place.clone(),
                found: "a quantile of a hypothesis".to_owned(),
                expected: "a formula with one value for each run".to_owned(),
                remedy: "take `quantile` out, or the bound".to_owned(),
            }));
        }
        // Without brackets a comparison is made in each run, and has a probability instead of a verdict.
        (kind, Asked::Hypothesis(text)) if !matches!(kind, Kind::Hypothesis { .. }) => {
            return Err(Box::new(text.problem(
                0,
                "no bound on a probability or a mean: this is compared run by run".to_owned(),
                "`P[ … ] >= 0.9`, `E[ … ] <= 20` or `E[a] / E[b] >= 0.9`".to_owned(),
                "put what is averaged into E[ … ], or call it `formula` for the probability that it is so in a run".to_owned(),
            )));
        }
        (
            Kind::Mean { column } | Kind::Probability { column, .. },
            Asked::QuantileOfFormula { q, .. },
        ) => {
            target.kind = Kind::Quantile {
                of: Source::Column(*column),
                q: *q,
            };
        }
        (Kind::Ratio { .. }, Asked::QuantileOfFormula { .. }) => {
            return Err(Box::new(Problem {
                place: query.place.clone(),
                found: "a quantile of a ratio of means".to_owned(),
                expected: "a formula with one value for each run".to_owned(),
                remedy: "write `(a) / (b) + 0` for the ratio of each run".to_owned(),
            }));
        }
        (
            Kind::Hypothesis {
                of: Tested::Probability { test, .. },
                ..
            },
            Asked::Hypothesis(_),
        ) => {
            *test = Test::Sprt {
                indifference: check.sprt.indifference,
                alpha: check.sprt.alpha,
                beta: check.sprt.beta,
            };
        }
        (Kind::Probability { column, method: by }, _) => match method {
            None | Some(Method::ClopperPearson) => {}
            Some(Method::Wilson) => *by = ProbabilityMethod::Wilson,
            Some(Method::Okamoto) => *by = ProbabilityMethod::Okamoto,
            Some(Method::Student) => target.kind = Kind::Mean { column: *column },
        },
        // What the whole check says need not suit each query; what the query says must.
        (Kind::Mean { .. } | Kind::Ratio { .. }, _)
            if query.method.is_some_and(|m| m != Method::Student) =>
        {
            return Err(refused(
                "a mean",
                "a probability, such as `server.busy == 24`",
            ));
        }
        _ => {}
    }
    Ok(())
}

fn method_name(method: Option<Method>) -> &'static str {
    match method {
        None | Some(Method::Student) => "student",
        Some(Method::ClopperPearson) => "clopper-pearson",
        Some(Method::Wilson) => "wilson",
        Some(Method::Okamoto) => "okamoto",
    }
}

/// The scenario's word for it in the checker's.
pub(crate) fn precision(precision: scenario::Precision) -> Precision {
    match precision {
        scenario::Precision::Absolute(half) => Precision::Absolute(half),
        scenario::Precision::Relative(part) => Precision::Relative(part),
    }
}

/// Likewise; bounds that the scenario leaves open are the checker's own.
pub(crate) fn runs(runs: scenario::Runs) -> Runs {
    let Runs::Sequential {
        min: own_min,
        max: own_max,
    } = Runs::default()
    else {
        return Runs::default();
    };
    match runs {
        scenario::Runs::Fixed(runs) => Runs::Fixed(runs),
        scenario::Runs::Sequential { min, max } => {
            let max = max.unwrap_or(own_max);
            Runs::Sequential {
                // A maximum below our own minimum is meant.
                min: min.unwrap_or(own_min.min(max)),
                max,
            }
        }
    }
}
