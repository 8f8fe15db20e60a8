//! What is told of a finished request.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

/// Takes the records of a front. It is called on the worker's thread, between two requests, and must not block: what is slow
/// goes to a thread of its own.
pub trait AccessLog: fmt::Debug + Send + Sync {
    /// A request has ended.
    fn log(&self, record: &Record<'_>);
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// The server answered, and all of it went to the client.
    Complete,
    /// The defence refused it.
    Refused,
    /// It could not be read, or asked for more than the limits allow.
    Bad,
    /// The client went, or was too slow, or lost its place.
    Client(&'static str),
    /// The server could not be reached, was too slow, or broke off.
    Server(&'static str),
    /// It became a tunnel, which has ended.
    Tunnel,
}

impl Ending {
    /// One word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Refused => "refused",
            Self::Bad => "bad",
            Self::Tunnel => "tunnel",
            Self::Client(what) | Self::Server(what) => what,
        }
    }
}

/// One finished request. Bytes are as they came, unchecked: whoever prints them escapes them.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// When its head was complete.
    pub time: SystemTime,
    /// Who asked: behind trusted proxies the one that they name.
    pub client: IpAddr,
    /// Who is connected.
    pub peer: SocketAddr,
    /// Whether TLS was spoken.
    pub tls: bool,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2.0`.
    pub protocol: &'static str,
    /// The method; empty if the head could not be read.
    pub method: &'a [u8],
    /// The target.
    pub target: &'a [u8],
    /// The Host.
    pub host: &'a [u8],
    /// The Referer.
    pub referer: &'a [u8],
    /// The User-Agent.
    pub user_agent: &'a [u8],
    /// The status that was sent; 0 if none was.
    pub status: u16,
    /// Bytes of its body.
    pub bytes_in: u64,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
    /// From the end of its head to the end of the answer.
    pub total: Duration,
    /// Of that, how long it waited to be admitted.
    pub waited: Duration,
    /// Of that, from its sending to the server to the head of the answer.
    pub upstream: Option<Duration>,
    /// Whether it went on a connection that had been used before.
    pub upstream_reused: bool,
    /// What the defence decided: `pass` where none was asked.
    pub decision: &'static str,
    /// Bytes that it paid.
    pub paid: u64,
    /// How it ended.
    pub ending: Ending,
}
