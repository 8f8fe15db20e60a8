//! The way to the server: connections that are kept ([`pool`]), and one request on one of them ([`call`]).

pub(crate) mod pool;
