//! Estimates with their intervals, tests, and when to stop.

mod result;
mod target;

pub use result::{Estimate, Method, Stopped, Verdict};
pub use target::{
    Kind, Precision, ProbabilityMethod, Runs, Settings, Side, Source, Steady, Target, Test, Tested,
};
