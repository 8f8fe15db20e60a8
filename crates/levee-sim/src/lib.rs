//! Discrete-event simulation of the defences of Levee, their clients and their attackers.
//!
//! - [`engine`]: virtual time, the queue of messages under way, links with delay.
//! - [`scenario`]: the file that says what is attacked how, and defended how.
//! - [`model`]: the actors around a defence.
//! - [`schedule`]: who calls when, for how long; the same for a model and for a real run.
//! - [`fit`]: from call records to a law of durations and to settings.
//! - [`tune`]: what there is to tune in a scenario.
//!
//! Pure: no clock, no socket, no thread. A run is a function of its scenario and seed.

pub mod engine;
pub mod erlang;
pub mod fit;
pub mod model;
pub mod scenario;
pub mod schedule;
pub mod tune;
