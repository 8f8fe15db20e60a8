//! Estimates with their intervals, tests, and when to stop.
//!
//! Runs are independent; what happens within one is not. So every interval here comes from how *runs* differ, and never takes the calls
//! of a run as independent of each other.
//!
//! | [`Kind`] | interval | small print |
//! |---|---|---|
//! | `Mean` | Student's t | right for many runs; values all 0 or all 1 get that of a probability |
//! | `Probability` | [Clopper and Pearson's](clopper_pearson), [Wilson's](wilson), or [Okamoto's](okamoto) | each run is 0 or 1 |
//! | `Ratio` | [delta method](ratio), Student's t | for shares of random counts; a little narrow below 30 runs |
//! | `Quantile` of a column | order statistics | exact for continuous values; an end may be unknown |
//! | `Quantile` of samples | Woodruff's, over runs | calls of a run may depend on each other |
//! | `Steady` | batch means, or replication and deletion | batches that are correlated are joined, or it is told |
//! | `Hypothesis` | Wald's [`Sprt`], or by the interval | |
//!
//! # When it is enough
//!
//! With [`Runs::Sequential`], the runs so far are looked at after the least number, and then each time when they may be enough: at the number
//! that their spread foretells, but at least an eighth and at most once as many again. A [`Precision`] is half the
//! width of the interval: PVeStA's and umaudemc's *delta*, with *alpha* as one minus the confidence. Stopping by what was seen makes intervals a
//! little too narrow (Chow and Robbins, Annals of Mathematical Statistics 36, 1965, have it vanish with growing precision); the least number of
//! runs and the few looks keep that within half a point. All targets go on until the last has what it asked for.
//!
//! When every run gave the same value, no spread can be known. The check goes on until what happens in 1% of the runs would have shown, and the answer
//! carries a warning.
//!
//! A test by the interval does not stop as soon as the interval leaves the bound: looking again and again until it does would
//! reject, in the end, every true claim at its bound. It stops by precision or number of runs. To stop early, use the SPRT, which is made for it. The estimate
//! that comes with an SPRT's verdict stopped at a lucky moment: take it as an illustration.
//!
//! # Many at once
//!
//! [`Settings::simultaneous`] divides the error probabilities by the number of intervals that are to hold together (Bonferroni), whatever they have in common.

mod distribution;
mod entry;
mod error;
mod interval;
mod least;
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
pub use least::Least;
pub use moments::ratio;
pub use quantile::{VALUES_MAX, quantile};
pub use result::{Estimate, Method, Stopped, Verdict};
pub use sprt::Sprt;
pub use target::{
    Kind, Parameter, Precision, ProbabilityMethod, Runs, Settings, Side, Source, Steady, Target,
    Test, Tested,
};

pub(crate) use entry::Shape;
pub(crate) use tally::{Next, Tally};
