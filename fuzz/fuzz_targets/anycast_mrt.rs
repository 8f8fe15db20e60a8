#![no_main]

#[path = "../../crates/levee-anycast/tests/it/predict_targets.rs"]
#[expect(dead_code, reason = "each target takes its own of them")]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::blocks(bytes));
