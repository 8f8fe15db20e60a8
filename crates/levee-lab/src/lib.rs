//! Real runs of a scenario on one machine.
pub mod callee;
mod defended;
mod driver;
pub mod lane;
pub mod load;
pub mod outcome;
pub mod pbx;
pub mod schedule;
mod ua;
pub use ua::{Traffic, TransactionTimers};
