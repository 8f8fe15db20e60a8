#![no_main]

#[expect(dead_code, reason = "each fuzzer calls one of them")]
#[path = "../../crates/levee-anycast/tests/it/journal_targets.rs"]
mod journal_targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| journal_targets::journal(bytes));
