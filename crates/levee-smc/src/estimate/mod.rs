//! Estimates with their intervals, tests, and when to stop.

mod distribution;
mod entry;
mod error;
mod interval;
mod moments;
mod quantile;
mod result;
mod sprt;
mod steady;
mod tally;
mod target;

pub use distribution::{normal, student};
pub use error::CheckError;
pub use interval::{
    Gap, Interval, clopper_pearson, gap, okamoto, okamoto_runs, student_half, wilson,
};
pub use moments::ratio;
pub use quantile::{VALUES_MAX, quantile};
pub use result::{Estimate, Method, Stopped, Verdict};
pub use sprt::Sprt;
pub use target::{
    Kind, Precision, ProbabilityMethod, Runs, Settings, Side, Source, Steady, Target, Test, Tested,
};

pub(crate) use entry::Shape;
pub(crate) use tally::{Next, Tally};
