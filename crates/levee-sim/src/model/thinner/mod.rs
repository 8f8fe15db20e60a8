//! Speak-up: clients that pay for a server of fixed capacity.

pub mod demand;
mod setup;
#[cfg(test)]
mod tests;

pub use self::demand::{Arrivals, Demand, Work};
pub use self::setup::{CLIENTS_MAX, Group, Server, Setup, SetupError, Split, WINDOW_MAX};
