//! The live fronts of Levee.

pub mod admin;
pub mod config;
mod driver;
pub mod front;
pub mod histogram;
pub mod http;
pub mod log;
pub mod metrics;
pub mod recorder;
pub mod sip;
