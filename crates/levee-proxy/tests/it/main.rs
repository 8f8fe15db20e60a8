//! The fronts, driven from outside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browser;
mod calls;
mod eviction;
mod hostile;
mod http2;
mod http2_wire;
mod http_exchange;
mod http_gate;
mod http_gate_browser;
mod http_gate_seven;
mod http_heads;
mod http_operated;
mod http_slow;
mod http_world;
mod live;
mod torture;
mod transactions;
mod wild;
mod world;
