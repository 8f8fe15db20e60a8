//! What is written down of a run.

use crate::trial::Execution;

/// Turns a run into numbers.
pub trait Measure: Sync {
    /// Memory that is used again for every run of a thread.
    type Scratch;

    /// Such a memory. Each thread has its own.
    fn scratch(&self) -> Self::Scratch;

    /// How many numbers each run gives: the length of [`Row::values`].
    fn columns(&self) -> usize;

    /// How many lists of numbers each run gives: the length of [`Row::samples`].
    fn samples(&self) -> usize {
        0
    }

    /// Starts `execution` at `run`, takes it as far as need be, and writes what was asked for into `row`: every column, and
    /// what is pushed to its lists.
    ///
    /// # Errors
    ///
    /// A run that has no answer, such as a query that never ends. It ends the check.
    fn measure<E: Execution>(
        &self,
        execution: &mut E,
        run: u64,
        scratch: &mut Self::Scratch,
        row: &mut Row,
    ) -> Result<(), MeasureError>;
}

/// What one run gave.
///
/// A value that is not a number (NaN) says that the run has none there: it was discarded, or is 0/0. Targets of it leave the run
/// out and say how many they left out. An infinite value ends the check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// One value for each column; all NaN when a run begins.
    pub values: Vec<f64>,
    /// For pooled quantiles and steady states, many values; all empty when a run begins.
    pub samples: Vec<Vec<f64>>,
}

impl Row {
    /// A row of `columns` values and `samples` lists.
    #[must_use]
    pub fn new(columns: usize, samples: usize) -> Self {
        Self {
            values: vec![f64::NAN; columns],
            samples: vec![Vec::new(); samples],
        }
    }

    /// Makes it as new. Keeps its memory.
    pub fn clear(&mut self) {
        self.values.fill(f64::NAN);
        for list in &mut self.samples {
            list.clear();
        }
    }
}

/// Why a run has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct MeasureError {
    /// What is wrong, where in the query, and what to do.
    pub message: String,
}

impl MeasureError {
    /// With a message that names the place in the query.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}
