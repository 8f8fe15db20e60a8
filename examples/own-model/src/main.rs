//! Checks the help desk: what share of its callers hang up, with the interval of that and what theory says.

use std::error::Error;
use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use levee_example_own_model::Desk;
use levee_smc::estimate::Precision;
use levee_smc::query::{Offer, Outside, Questions};
use levee_smc::{Control, Estimate, Point, Settings, Target, Trial as _, check};

/// What is asked, as a scenario's `formula`, and what it is in the long run.
fn questions_of(desk: &Desk) -> [(&'static str, &'static str, f64); 3] {
    let exact = desk.exact();
    [
        ("hang up", "abandoned / calls", exact.abandoned),
        ("must wait", "delayed / calls", exact.delayed),
        ("in line at the end", "waiting", exact.waiting),
    ]
}

/// Answers them from as many runs as they need.
fn answers(desk: &Desk, settings: &Settings) -> Result<Vec<Estimate>, Box<dyn Error>> {
    let mut questions = Questions::new(Offer {
        observables: desk.observables(),
        samples: desk.samples(),
    });
    for (name, formula, _) in questions_of(desk) {
        questions.formula(name, formula, Outside::default())?;
    }
    let targets: Vec<Target> = questions.asked().iter().map(|a| a.target.clone()).collect();
    let point = Point {
        trial: desk,
        measure: &questions,
        targets: &targets,
    };
    Ok(check(&point, settings, Control::NONE)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let desk = Desk::busy();
    let settings = Settings {
        confidence: 0.99,
        precision: Some(Precision::Relative(0.05)),
        threads: available_parallelism().unwrap_or(NonZeroUsize::MIN),
        ..Settings::default()
    };
    println!("                    estimate     99% interval      exact    runs");
    for (answer, (.., exact)) in answers(&desk, &settings)?.iter().zip(questions_of(&desk)) {
        println!(
            "{:<19} {:>8.4}  {:.4} to {:.4}  {exact:>8.4}  {:>6}",
            answer.name, answer.estimate, answer.low, answer.high, answer.runs
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use levee_smc::estimate::Runs;

    use super::*;

    #[test]
    fn the_answers_are_erlang_a_and_do_not_depend_on_threads() {
        let desk = Desk::busy();
        let with = |threads| Settings {
            runs: Runs::Fixed(1_000),
            confidence: 0.99,
            threads: NonZeroUsize::new(threads).unwrap(),
            ..Settings::default()
        };
        let one = answers(&desk, &with(1)).unwrap();
        assert_eq!(one, answers(&desk, &with(2)).unwrap());
        for (answer, (name, _, exact)) in one.iter().zip(questions_of(&desk)) {
            assert_eq!((&*answer.name, answer.runs), (name, 1_000));
            // Half of a 99% interval is 2.58 standard errors; 5 are allowed.
            let error = (answer.high - answer.low) / 2.0 / 2.58;
            assert!((answer.estimate - exact).abs() < 5.0 * error, "{answer:?}");
            assert!(error < 0.06 * exact, "{answer:?}");
        }
    }
}
