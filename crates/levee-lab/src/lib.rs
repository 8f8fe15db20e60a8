//! Real runs of a scenario on one machine.
//!
//! A lane is a set of callers, a small SIP server of `k` calls and a callee, each in a thread with a UDP socket on
//! loopback; a defended lane has Levee's front between them, the same that `levee run` starts. [`levee_sim::scenario`] says what is
//! run, [`runner`] runs it, [`report`] writes what came out, [`demo`] shows two lanes side by side.
//! [`peers`] starts software of others in place of ours.
//!
//! Who is honest and who attacks is known to the callers' records only: their messages look the same.

pub mod anycast;
pub mod callee;
mod defended;
pub mod demo;
mod driver;
pub mod html;
pub mod http;
pub mod lane;
pub mod load;
pub mod outcome;
pub mod pbx;
pub mod peers;
pub mod real;
pub mod report;
pub mod runner;
pub mod stats;
#[cfg(test)]
mod tests;
mod ua;

pub use ua::{Traffic, TransactionTimers};
