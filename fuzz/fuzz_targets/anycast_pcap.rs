#![no_main]

#[expect(dead_code, reason = "each fuzzer calls one of them")]
#[path = "../../crates/levee-anycast/tests/it/map_targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::pcap(bytes));
