//! Real runs of a scenario on one machine.

pub mod peers;
