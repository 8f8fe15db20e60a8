//! Tests on real measurements, each in its own module.

mod generated;
mod graph;
mod graph_targets;
mod known_good;
mod known_good_targets;
mod map_targets;
mod playbook;
mod predict_replay;
mod predict_targets;

mod journal;
mod journal_targets;
