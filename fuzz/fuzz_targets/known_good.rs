#![no_main]

#[path = "../../crates/levee-anycast/tests/it/known_good_targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::history(bytes));
