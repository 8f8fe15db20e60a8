//! Live configuration.
pub mod document;
pub mod problem;
