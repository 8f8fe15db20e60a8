//! The discrete-event engine: actors that send each other typed messages through a scheduler.
//!
//! A [`Model`] owns its actors. The [`Scheduler`] holds the messages under way and hands them over one by one in order
//! of time; messages of one time in the order in which they were sent, or the reverse ([`TieOrder`]). A message goes over
//! a [`Link`], which has a delay, or is due at a time of its own ([`Scheduler::after`]): a timer.
//!
//! There is no way to take a message back. An actor whose timer is void when it comes passes it over; its message names
//! the incarnation that it is meant for.

mod simulation;
mod streams;

pub use simulation::{ActorId, Link, LinkId, Model, Scheduler, Simulation, TieOrder};
pub use streams::Streams;
