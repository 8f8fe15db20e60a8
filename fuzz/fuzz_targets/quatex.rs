#![no_main]

#[path = "../../crates/levee-smc/tests/query/targets.rs"]
mod targets;
#[path = "../../crates/levee-smc/tests/query/trace.rs"]
mod trace;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::quatex(bytes));
