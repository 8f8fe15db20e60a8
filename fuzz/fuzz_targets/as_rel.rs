#![no_main]

#[path = "../../crates/levee-anycast/tests/it/graph_targets.rs"]
mod graph_targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| graph_targets::as_rel(bytes));
