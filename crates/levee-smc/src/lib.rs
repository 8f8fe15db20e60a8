//! Statistical model checking of anything that can be run from a seed.
//!
//! A [`Trial`] says what can be observed and gives [`Execution`]s; run `i` of a trial is a function of `i`. What is asked
//! of it, how many runs that takes and how sure the answer is, is this crate's business.
//!
//! It knows no model: use it on your own.

pub mod estimate;
pub mod measure;
pub mod query;
pub mod report;
pub mod runner;
pub mod search;
pub mod trial;

pub use estimate::{CheckError, Estimate, Settings, Target};
pub use measure::{Measure, MeasureError, Row};
pub use runner::{Control, Halt, Pair, Point, Progress, check, check_points, compare};
pub use trial::{Execution, Observable, Trial};
