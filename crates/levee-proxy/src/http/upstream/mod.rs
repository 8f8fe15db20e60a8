//! The way to the server: connections that are kept ([`pool`]), bounded, and looked at before they are used again.

pub(crate) mod pool;
