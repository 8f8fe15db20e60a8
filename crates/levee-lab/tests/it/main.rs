//! Integration tests of the lab.

mod peers_smoke;
