//! The live fronts of Levee.

pub mod config;
mod driver;
pub mod recorder;
pub mod sip;
