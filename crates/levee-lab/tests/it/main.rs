//! Integration tests of the lab.

mod peers_attack;
mod peers_defended;
mod peers_http;
mod peers_smoke;
