//! Real software as peers of a run: SIPp as callers and callees, Kamailio as the server; nginx and HAProxy as web servers and
//! proxies, `slowhttptest` and `wrk` as their attackers.
//!
//! Each peer runs in a temporary folder with a configuration of its own, on free ports of 127.0.0.1, and is stopped by its
//! process id when its handle is dropped. A peer whose starter died stops by itself: each has a lifetime, which
//! `timeout` of GNU coreutils enforces.
//!
//! What SIPp cannot do: it starts calls evenly spaced, not as a Poisson process ([`Caller::spread`] mends most of it), and
//! its clock has steps of some milliseconds. A run with these peers shows that real user agents and a real server live
//! with the defence; figures to compare with a model come from the lab's own load generator.

mod events;
mod kamailio;
mod process;
mod sipp;
mod stats;
mod web;

pub use events::{CallLog, CallRecord, EventError, Outcome, Tally};
pub use kamailio::{Kamailio, KamailioConfig, KamailioMode};
pub use process::PeerError;
pub use sipp::{Callee, Caller, Sipp, Talk};
pub use stats::{StatError, StatRow, parse_stats};
pub use web::{SlowHttpTest, SlowMode, WebServer, Wrk, WrkResult};
