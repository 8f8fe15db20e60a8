//! The HTTP front: a reverse proxy that admits by what clients pay, and gives up the slowest connections when it is full.

pub mod access_log;
pub mod settings;
pub mod snapshot;
pub mod tls;
