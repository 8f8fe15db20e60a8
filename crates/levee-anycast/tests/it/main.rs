//! Tests on real measurements, each in its own module.

mod generated;
mod predict_replay;
mod predict_targets;
