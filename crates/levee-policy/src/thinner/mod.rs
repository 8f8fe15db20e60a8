//! The thinner: when more is asked of a server than it can take, clients pay for their place.
//!
//! "Fighting Fire with Fire" (HotNets 2005) and "DDoS Defense by Offense" (SIGCOMM 2006). While the server has room, requests
//! pass and nothing changes for anyone. When it has not, the [`Mode`] says what decides who gets in; in the papers' modes it is
//! bandwidth, so that good clients, who have some to spare, get their share `G/(G+B)` of the server.
//!
//! # Words
//!
//! - *contender*: a request that waits to be admitted, after [`Output::Hold`].
//! - *bid*: what a contender has paid so far, in the units of the mode; *price*: what an admitted one paid.
//! - *in service*: from [`Output::Admit`] to [`Input::Done`]. After [`Output::Abort`] too the front reports the latter.
//! - *overload*: from when a request cannot be admitted at once until nobody waits and demand is below nine tenths of the
//!   capacity. Outside of it no request waits, pays or is refused.
//!
//! # Who gets in during an overload
//!
//! | mode | unit | admitted is |
//! |---|---|---|
//! | [`Mode::Random`] | - | each with probability `C / inbound`; the rest may come again later |
//! | [`Mode::Retry`] | retries | as before; the rest may come again at once |
//! | [`Mode::Priced`] | retries | who has paid `r = inbound / C`, the request itself included |
//! | [`Mode::Auction`] | bytes | the highest bid, whenever the server can take one; it pays its bid, the others keep theirs |
//! | [`Mode::ProofOfWork`] | hashes | as in the auction |
//! | [`Mode::Queue`] | ns | who first came first |
//!
//! Of equal bids the oldest wins, so that an auction without bids is a queue. In the last four a request that the front cannot let
//! wait is admitted only if nobody does. With auctions at regular intervals, a client that sends the part `e` of all bytes that
//! come in gets at least `e / (2 - e)` of the server, whatever the others do and when they do it.
//!
//! # What the server can take
//!
//! - A *rate*: regular intervals of `1/C`. Requests may run ahead of them by a small burst, in the auctions only until an
//!   overload begins, and a late driver may make good as many.
//! - *Concurrent requests*: a place is free when its request is [`Input::Done`]. Where `C` is needed for a price or a
//!   probability, it is measured.
//! - An [`AdaptiveLimit`] on these.
//!
//! # Quanta
//!
//! With [`Config::quantum`] requests of different cost pay for the time that they take, by the SIGCOMM paper's rule: contenders and
//! those in service pay on. At the end of its quantum a request in service is suspended if a contender has paid more, which then
//! is admitted or resumed and has its balance charged; else it goes on, and its own balance is charged. One that stays suspended
//! for too long is aborted. Where the server cannot suspend, the loser is aborted at once.
//!
//! # A full house
//!
//! Nothing that a stranger sends makes more state than a contender, and there are at most [`Config::contenders`] of them. When so
//! many wait and another comes, the lowest bid makes room, the oldest of equals, but none of the newest quarter. So a newcomer
//! has the time of as many further arrivals to make its first payment, and one that has paid `b` loses its place only if three
//! quarters of all places are held by contenders that have paid at least `b` each. In [`Mode::Queue`] it is who
//! came last.
//!
//! # What it leaves out
//!
//! Tickets, pages and proofs, how a payment is made and counted, how a server suspends: the front's business. Who is good:
//! nobody's.

mod adaptive;
mod bucket;
mod capacity;
mod config;
mod contenders;
mod fairness;
mod heap;
mod machine;
mod meters;
mod requests;
mod stats;

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

pub use self::{
    adaptive::AdaptiveLimit,
    config::{
        CONCURRENCY_MAX, CONTENDERS, CONTENDERS_MAX, Capacity, Config, Kind, Mode, PATIENCE,
        RATE_MAX, RATE_MIN, RETRY_AFTER, SUSPENDED,
    },
    fairness::{Fairness, Shares, TopShare},
    machine::{TRACKED_BEYOND, Thinner},
    stats::{Done, Ignored, Refused, Stats},
};
use crate::{Identity, Span};

/// Names a request between the front and the thinner. The front chooses it, unique among the requests that are neither refused
/// nor done nor gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestKey(pub u64);

/// A new request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrival {
    /// Its name from now on.
    pub request: RequestKey,
    /// What it has paid already, in the units of the mode: earlier tries under its ticket, bytes, hashes of a proof; in the queue
    /// the nanoseconds since it first came.
    #[serde(default)]
    pub paid: u64,
    /// Whether the front can let it wait. One that cannot is admitted now or refused.
    pub can_wait: bool,
    /// To whom it is counted where fairness is measured, if that is known. No decision looks at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Identity>,
}

/// What the front reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Input {
    /// A new request.
    Arrive(Arrival),
    /// A contender paid.
    Pay {
        /// Which.
        request: RequestKey,
        /// How much more, in the units of the mode: bytes, hashes, retries.
        units: u64,
    },
    /// The client of a contender is gone. For one that was admitted, be it suspended, report [`Self::Done`].
    Leave {
        /// Which.
        request: RequestKey,
    },
    /// An admitted request has left the server, or will never reach it.
    Done {
        /// Which.
        request: RequestKey,
        /// How it went.
        outcome: Outcome,
    },
    /// From now on with this configuration. Contenders and requests in service are kept.
    Reconfigure(Box<Config>),
}

/// How a request went at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was answered.
    Answered,
    /// The server did not answer, or said that it is overloaded (502, 503, 504, a timeout, a lost connection).
    Failed,
    /// It ended for no reason of the server's: the client left, or it was aborted.
    Broken,
}

/// What the front must do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Output {
    /// Pass a request on to the server.
    Admit {
        /// Which.
        request: RequestKey,
        /// What it paid, in the units of the mode.
        price: u64,
        /// Since its arrival.
        waited: Span,
    },
    /// Let a newcomer wait, and tell its client how to pay.
    Hold {
        /// Which.
        request: RequestKey,
    },
    /// Turn a request away; nothing of it was passed on.
    Refuse {
        /// Which.
        request: RequestKey,
        /// Why.
        cause: RefuseCause,
        /// When it may come again: zero for at once.
        retry_after: Span,
        /// What would be enough now, in the units of the mode.
        price: u64,
    },
    /// Let the server stop its work on a request (the papers' SUSPEND); it keeps its place among the contenders.
    Suspend {
        /// Which.
        request: RequestKey,
    },
    /// Let the server go on with a suspended request.
    Resume {
        /// Which.
        request: RequestKey,
        /// What it paid for it.
        price: u64,
    },
    /// Take a request from the server for good, and report [`Input::Done`] once the server has let go of it.
    Abort {
        /// Which.
        request: RequestKey,
    },
}

/// Why a request was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefuseCause {
    /// It lost the draw.
    Drawn,
    /// It has paid less than the price.
    Unpaid,
    /// It has waited as long as it may, or cannot wait, and others paid more or came before it.
    Outbid,
    /// So many contenders are waiting that there is no room for one more, or for it.
    Crowded,
}
