//! Small worlds to be checked.

use std::borrow::Cow;
use std::num::NonZeroUsize;

use levee_smc::estimate::Runs;
use levee_smc::{
    Control, Estimate, Execution, Measure, MeasureError, Observable, Point, Row, Settings, Target,
    Trial, check,
};
use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64;

/// A run draws its numbers and its lists at once.
pub(crate) struct World<F> {
    pub(crate) seed: u64,
    pub(crate) columns: usize,
    pub(crate) samples: usize,
    /// Fills the row of a run from its own randomness.
    pub(crate) draw: F,
    observables: Vec<Observable>,
}

impl<F: Fn(&mut Pcg64, &mut Row) + Sync + Clone> World<F> {
    pub(crate) fn new(seed: u64, columns: usize, samples: usize, draw: F) -> Self {
        let name = |i| Observable {
            name: Cow::Owned(format!("x{i}")),
            unit: Cow::Borrowed(""),
            meaning: Cow::Borrowed(""),
        };
        Self {
            seed,
            columns,
            samples,
            draw,
            observables: (0..columns).map(name).collect(),
        }
    }
}

pub(crate) struct Run<F> {
    seed: u64,
    draw: F,
    row: Row,
}

impl<F: Fn(&mut Pcg64, &mut Row) + Sync + Clone> Trial for World<F> {
    type Execution = Run<F>;

    fn observables(&self) -> &[Observable] {
        &self.observables
    }

    fn execution(&self) -> Run<F> {
        Run {
            seed: self.seed,
            draw: self.draw.clone(),
            row: Row::new(self.columns, self.samples),
        }
    }
}

impl<F: Fn(&mut Pcg64, &mut Row)> Execution for Run<F> {
    fn start(&mut self, run: u64) {
        // Two streams that share no run.
        let mut rng = Pcg64::seed_from_u64(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ run);
        self.row.clear();
        (self.draw)(&mut rng, &mut self.row);
    }

    fn step(&mut self) -> bool {
        false
    }

    fn observe(&self, observable: usize) -> f64 {
        self.row.values[observable]
    }

    fn sample(&self, samples: usize) -> &[f64] {
        &self.row.samples[samples]
    }
}

/// Writes down all that a run drew. A run whose first number is infinite has no answer.
pub(crate) struct All {
    pub(crate) columns: usize,
    pub(crate) samples: usize,
}

impl Measure for All {
    type Scratch = ();

    fn scratch(&self) {}

    fn columns(&self) -> usize {
        self.columns
    }

    fn samples(&self) -> usize {
        self.samples
    }

    fn measure<E: Execution>(
        &self,
        execution: &mut E,
        run: u64,
        (): &mut (),
        row: &mut Row,
    ) -> Result<(), MeasureError> {
        execution.start(run);
        execution.finish();
        for (i, value) in row.values.iter_mut().enumerate() {
            *value = execution.observe(i);
        }
        for (i, list) in row.samples.iter_mut().enumerate() {
            list.extend_from_slice(execution.sample(i));
        }
        if row.values.first().is_some_and(|v| *v == f64::INFINITY) {
            return Err(MeasureError::new("it never ends"));
        }
        Ok(())
    }
}

pub(crate) fn uniform(rng: &mut Pcg64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

pub(crate) fn exponential(rng: &mut Pcg64, mean: f64) -> f64 {
    -mean * (1.0 - uniform(rng)).ln()
}

/// How long a call of the loss system lasts; its mean is 1.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holding {
    Exponential,
    Deterministic,
    /// 0.5 or 5.5, nine times of ten the former.
    Mixed,
}

impl Holding {
    fn draw(self, rng: &mut Pcg64) -> f64 {
        match self {
            Self::Exponential => exponential(rng, 1.0),
            Self::Deterministic => 1.0,
            Self::Mixed => {
                if uniform(rng) < 0.9 {
                    0.5
                } else {
                    5.5
                }
            }
        }
    }

    /// What is left of a call that is found going on.
    fn rest(self, rng: &mut Pcg64) -> f64 {
        match self {
            Self::Exponential => exponential(rng, 1.0),
            Self::Deterministic => uniform(rng),
            // A moment falls into a short one with probability 0.9 * 0.5 / 1.
            Self::Mixed => uniform(rng) * if uniform(rng) < 0.45 { 0.5 } else { 5.5 },
        }
    }
}

/// An M/G/k/k loss system in its steady state: the number of calls is a Poisson one of mean `load`, cut off at `k`, whatever the
/// holding times (Sevast'yanov 1957), and the rest of each is independent.
pub(crate) struct Loss {
    pub(crate) k: usize,
    pub(crate) load: f64,
    pub(crate) holding: Holding,
}

impl Loss {
    /// Erlang's B formula, and the mean number of calls.
    pub(crate) fn exact(&self) -> (f64, f64) {
        let blocked = (1..=self.k).fold(1.0, |b, k| self.load * b / (k as f64 + self.load * b));
        (blocked, self.load * (1.0 - blocked))
    }

    /// Runs it until `end`: calls offered, calls blocked, and the number of calls at each `tick`, pushed to `busy`. Begins in the steady
    /// state, or empty.
    pub(crate) fn run(
        &self,
        rng: &mut Pcg64,
        (end, tick): (f64, f64),
        empty: bool,
        busy: &mut Vec<f64>,
    ) -> (f64, f64) {
        let mut ends: Vec<f64> = Vec::with_capacity(self.k);
        let mut begun = empty;
        while !begun {
            // Poisson by the exponential gaps, again if above k.
            let (mut n, mut at) = (0, exponential(rng, 1.0));
            while at < self.load {
                n += 1;
                at += exponential(rng, 1.0);
            }
            if n <= self.k {
                ends.extend((0..n).map(|_| self.holding.rest(rng)));
                begun = true;
            }
        }
        let (mut offered, mut blocked, mut ticks) = (0.0, 0.0, 1.0);
        let mut arrival = exponential(rng, 1.0 / self.load);
        loop {
            let now = arrival.min(ticks * tick);
            if now > end {
                return (offered, blocked);
            }
            ends.retain(|e| *e > now);
            if now < arrival {
                busy.push(ends.len() as f64);
                ticks += 1.0;
                continue;
            }
            offered += 1.0;
            if ends.len() < self.k {
                ends.push(now + self.holding.draw(rng));
            } else {
                blocked += 1.0;
            }
            arrival += exponential(rng, 1.0 / self.load);
        }
    }
}

pub(crate) fn settings(runs: Runs) -> Settings {
    Settings {
        runs,
        ..Settings::default()
    }
}

pub(crate) fn threads(settings: &Settings, threads: usize) -> Settings {
    Settings {
        threads: NonZeroUsize::new(threads).expect("some threads"),
        ..settings.clone()
    }
}

/// Checks one world.
pub(crate) fn ask<F: Fn(&mut Pcg64, &mut Row) + Sync + Clone>(
    world: &World<F>,
    targets: &[Target],
    settings: &Settings,
) -> Vec<Estimate> {
    let measure = All {
        columns: world.columns,
        samples: world.samples,
    };
    let point = Point {
        trial: world,
        measure: &measure,
        targets,
    };
    check(&point, settings, Control::NONE).expect("an answer")
}
