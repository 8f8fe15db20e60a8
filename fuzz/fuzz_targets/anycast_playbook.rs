#![no_main]

#[path = "../../crates/levee-policy/tests/playbook/target.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::playbook(bytes));
