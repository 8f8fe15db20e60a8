//! The `[defense]` table of a thinner.

use serde::{Deserialize, Serialize};

use crate::Span;

/// Requests that may wait at once, unless the file says otherwise (our choice: a thousand windows of the papers' clients).
pub const CONTENDERS: u32 = 10_000;
/// How long a request may wait to be admitted: the papers' experiments count a request that waited 10 s as denied.
pub const PATIENCE: Span = Span::from_secs(10);
/// When a refused request that is not told to retry at once may come again (our choice).
pub const RETRY_AFTER: Span = Span::from_secs(1);

/// The `[defense]` table with `kind = "thinner"`. Every key but `kind` and `capacity` may be left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Always `thinner`: tells this table from that of another defence.
    pub kind: Kind,
    /// What the server can take (`C`).
    pub capacity: Capacity,
    /// What a client does for its place when demand exceeds capacity.
    #[serde(default)]
    pub mode: Mode,
    /// The most requests that wait at once; a further one is refused.
    #[serde(default = "contenders")]
    pub contenders: u32,
    /// How long a request waits at most to be admitted.
    #[serde(default = "patience")]
    pub patience: Span,
    /// When a refused request may come again where it is not told to do so at once.
    #[serde(default = "retry_after")]
    pub retry_after: Span,
    /// The papers' `tau`: long requests are charged anew for each quantum, and lose the server to who pays more. Needs a server
    /// that can abort or suspend a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Span>,
}

fn contenders() -> u32 {
    CONTENDERS
}

fn patience() -> Span {
    PATIENCE
}

fn retry_after() -> Span {
    RETRY_AFTER
}

/// The name of this defence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A thinner.
    #[default]
    Thinner,
}

/// What the server can take (`C`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Capacity {
    /// `{ rate = 100.0 }`: so many requests a second.
    Rate(f64),
    /// `{ concurrency = 64 }`: so many requests at once.
    Concurrency(u32),
    /// `{ adaptive = { least = 4, most = 1000 } }`: so many requests at once as are found to be good for the server.
    Adaptive {
        /// Never fewer.
        least: u32,
        /// Never more.
        most: u32,
    },
}

/// What a client does for its place when demand exceeds capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing: the excess is dropped at random.
    Random,
    /// The HotNets paper's: the excess is dropped at random and told to retry at once.
    Retry,
    /// The HotNets paper's extension: the thinner tells the price, so many retries.
    Priced,
    /// The SIGCOMM paper's: bytes on a payment channel, the highest bid is admitted.
    #[default]
    Auction,
    /// Hashes: the highest bid is admitted.
    ProofOfWork,
    /// Waiting time: first come, first served.
    Queue,
}
