//! Tests on real measurements, each in its own module.

mod generated;
mod playbook;
mod graph;
mod graph_targets;

mod journal;
mod journal_targets;
