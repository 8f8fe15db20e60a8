//! Tests on real measurements, each in its own module.

mod graph;
mod graph_targets;
