//! HTTP/1.1 without sockets: strict heads, chunked bodies, and what a gateway changes in a head that it sends on.
//!
//! [`request`] and [`response`] read a head without copying it and say how long the body is ([`Framing`]), [`chunked`]
//! finds the content of a chunked body in the buffers it came in, [`edit`] writes the head that is sent on,
//! [`forwarded`] says who the client behind trusted hops is, [`proxy_protocol`] reads what a load balancer puts before
//! the first byte, and [`date`] writes dates.
//!
//! The decision: whatever two servers could read in two ways is refused, not repaired (RFC 9112 section 11.2). That is
//! stricter than RFC 9112 asks for: a line ends with CR LF and nothing else, Content-Length stands once and is digits,
//! Transfer-Encoding is `chunked` or the request is refused.
//!
//! Nothing here owns a clock, a socket or a thread. HTTP/2 is not here.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod chars;
pub mod chunked;
pub mod date;
pub mod edit;
pub mod field;
pub mod forwarded;
mod framing;
mod head;
pub mod proxy_protocol;
pub mod request;
pub mod response;
mod target;

pub use framing::Framing;
pub use head::{Limits, Parsed, Version};

use core::fmt;

/// Why a message is refused, and the status that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad {
    /// The status of the answer: 4xx, 501 or 505 for a request, 502 for a response.
    pub status: u16,
    /// What is wrong, for the log and for the sender.
    pub reason: &'static str,
}

impl Bad {
    pub(crate) const fn new(status: u16, reason: &'static str) -> Self {
        Self { status, reason }
    }

    /// The same defect of a message from the server behind us.
    pub(crate) const fn of_server(self) -> Self {
        Self {
            status: 502,
            reason: self.reason,
        }
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.status)
    }
}

impl core::error::Error for Bad {}
