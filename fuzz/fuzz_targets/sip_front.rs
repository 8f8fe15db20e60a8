#![no_main]

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../../crates/levee-proxy/tests/it/world.rs"]
mod world;

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../../crates/levee-proxy/tests/it/wild.rs"]
mod wild;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wild::sip_front(bytes));
