//! The defences of Levee as pure state machines.
//!
//! A defence here takes the time and the randomness as arguments and returns its decisions as values, so the same code runs
//! in a live front, in a model and in a replay. [`StateMachine`] is the contract that they share.
//!
//! - [`selective`]: SeVen, the selective defence of a server that holds at most `k` calls.
//! - [`reroute`]: anycast playbooks, which routing change puts the load where it can be carried.
//! - [`thinner`]: speak-up, a thinner that lets clients pay for their place.
//!
//! What this crate leaves out: sockets, clocks, logs, and the protocol that carries a decision out.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod config_error;
mod identity;
mod index;
mod machine;
mod random;
pub mod reroute;
pub mod selective;
pub mod thinner;
mod time;

pub use config_error::ConfigError;
pub use identity::Identity;
pub use machine::StateMachine;
pub use time::{ParseSpanError, Span, Time};
