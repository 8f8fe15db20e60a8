#![no_main]

#[path = "../../crates/levee-sim/tests/it/cdr.rs"]
mod cdr;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cdr::cdr(bytes));
