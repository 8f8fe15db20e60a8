//! The live fronts of Levee.

pub mod config;
pub mod sip;
