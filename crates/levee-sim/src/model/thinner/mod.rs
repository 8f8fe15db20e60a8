//! Speak-up: clients that pay for a server of fixed capacity.

mod setup;

pub use self::setup::{Group, Server, Setup};
