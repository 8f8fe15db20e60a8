//! What the callers, the callee and the small SIP server share: transactions and dialogs of a user agent over UDP.
//!
//! Everything here is without sockets and clocks: a role takes datagrams and the time, and leaves datagrams in an
//! [`Outbox`]. It is written apart from Levee's own transaction layer on purpose: the two ends of a test should not
//! share a mistake.
//!
//! Not here: TCP, DNS (hosts are addresses), forking (a B2BUA answers once), strict routers, authentication.

mod dialog;
mod key;
mod outbox;
mod timers;
mod transaction;
mod write;

pub(crate) use dialog::{Dialog, send_ack, send_in_dialog, session_answer, silent_sdp, sip_addr};
pub(crate) use key::{Key, Slab};
pub(crate) use outbox::Outbox;
pub(crate) use timers::Timers;
pub(crate) use transaction::{Core, Expired, Incoming, Outgoing, Owner, Side};
pub use transaction::{Traffic, TransactionTimers};
pub(crate) use write::no_body;
