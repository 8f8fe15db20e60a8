//! A model of `levee-sim` as a trial of `levee-smc`.

use std::borrow::Cow;

use levee_sim::engine::Simulation;
use levee_sim::model::{self, Observed, Rerun};
use levee_smc::{Execution, Observable, Trial};

/// A model, ready to be run from any run's number.
pub(crate) struct Modelled<M> {
    model: M,
    observables: Vec<Observable>,
    samples: Vec<Observable>,
}

impl<M: Rerun> Modelled<M> {
    pub(crate) fn new(model: M) -> Self {
        Self {
            model,
            observables: observables::<M>(),
            samples: samples::<M>(),
        }
    }
}

/// What queries on a model may name.
pub(crate) fn observables<M: Observed>() -> Vec<Observable> {
    M::observables().iter().map(observable).collect()
}

/// What its runs collect.
pub(crate) fn samples<M: Observed>() -> Vec<Observable> {
    M::samples().iter().map(observable).collect()
}

fn observable(of: &model::Observable) -> Observable {
    Observable {
        name: Cow::Borrowed(of.name),
        unit: Cow::Borrowed(of.unit),
        meaning: Cow::Borrowed(of.meaning),
    }
}

impl<M: Rerun + Sync> Trial for Modelled<M> {
    type Execution = Running<M>;

    fn observables(&self) -> &[Observable] {
        &self.observables
    }

    fn samples(&self) -> &[Observable] {
        &self.samples
    }

    fn execution(&self) -> Running<M> {
        let model = self.model.clone();
        let (end, ties) = (model.end(), model.ties());
        Running(Simulation::new(model, end, ties))
    }
}

/// One thread's simulation.
pub(crate) struct Running<M: Rerun>(Simulation<M>);

impl<M: Rerun> Execution for Running<M> {
    fn start(&mut self, run: u64) {
        self.0.restart(|model| model.restart(run));
    }

    fn step(&mut self) -> bool {
        self.0.step()
    }

    fn failure(&self) -> Option<String> {
        self.0.runaway().map(|runaway| runaway.to_string())
    }

    fn observe(&self, observable: usize) -> f64 {
        self.0.model.observe(self.0.now(), observable)
    }

    fn sample(&self, samples: usize) -> &[f64] {
        self.0.model.sample(samples)
    }
}
