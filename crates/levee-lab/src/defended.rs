//! The front in the middle of a defended lane: the one place of the lab that starts Levee.

use std::io;
use std::net::SocketAddr;

use levee_policy::selective::Config;

/// A front at work in a thread of its own.
#[derive(Debug)]
pub(crate) struct Front {
    outside: SocketAddr,
    inside: SocketAddr,
}

impl Front {
    /// Puts a front before `server`, which holds `capacity` calls.
    pub(crate) fn start(
        _server: SocketAddr,
        _capacity: u32,
        _defense: &Config,
        _seed: u64,
    ) -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the SIP front is not part of this build",
        ))
    }

    /// Where callers and callees send.
    pub(crate) fn outside(&self) -> SocketAddr {
        self.outside
    }

    /// Where the server sends.
    pub(crate) fn inside(&self) -> SocketAddr {
        self.inside
    }

    /// Ends the front; its counters as they were at the end.
    pub(crate) fn stop(self) -> io::Result<serde_json::Value> {
        Ok(serde_json::Value::Null)
    }
}
