#![no_main]

#[path = "../../crates/levee-smc/tests/query/targets.rs"]
mod targets;
#[expect(dead_code, reason = "the tests use all of it")]
#[path = "../../crates/levee-smc/tests/query/trace.rs"]
mod trace;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::quatex(bytes));
