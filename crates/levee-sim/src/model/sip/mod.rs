//! The SIP model.

pub mod released;
mod setup;

pub use setup::{Preset, Quirks, Setup};
