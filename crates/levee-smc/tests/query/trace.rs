//! A run that is written down: what the tests and the benches ask queries of.

use levee_smc::query::Offer;
use levee_smc::{Execution, Observable};

/// A run with its states in order, each a value for each observable.
pub(crate) struct Trace {
    pub(crate) states: Vec<Vec<f64>>,
    pub(crate) samples: Vec<Vec<f64>>,
    pub(crate) at: usize,
}

impl Trace {
    pub(crate) fn new(states: Vec<Vec<f64>>) -> Self {
        Self {
            states,
            samples: Vec::new(),
            at: 0,
        }
    }
}

impl Execution for Trace {
    fn start(&mut self, _run: u64) {
        self.at = 0;
    }

    fn step(&mut self) -> bool {
        let more = self.at + 1 < self.states.len();
        self.at += usize::from(more);
        more
    }

    fn finish(&mut self) {
        self.at = self.states.len() - 1;
    }

    fn observe(&self, observable: usize) -> f64 {
        self.states[self.at][observable]
    }

    fn sample(&self, samples: usize) -> &[f64] {
        &self.samples[samples]
    }
}

/// Observables by name and unit.
pub(crate) fn observables(names: &[(&'static str, &'static str)]) -> Vec<Observable> {
    let each = names.iter().map(|(name, unit)| Observable {
        name: (*name).into(),
        unit: (*unit).into(),
        meaning: "of a test".into(),
    });
    each.collect()
}

/// An offer of these observables alone.
pub(crate) fn offer(observables: &[Observable]) -> Offer<'_> {
    Offer {
        observables,
        samples: &[],
    }
}
