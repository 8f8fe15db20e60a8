//! The SIP model.

mod setup;

pub use setup::{Preset, Quirks, Setup};
