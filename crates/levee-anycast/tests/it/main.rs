//! Tests on real measurements, each in its own module.

mod generated;
mod map_targets;
mod playbook;
