//! A proxied request: its server transaction, its client transaction, and the CANCEL that may follow.

use std::time::Duration;

use levee_sip::dialog::Side;
use levee_sip::keys::ServerKey;
use levee_sip::transaction::{ClientState, ClientTransaction, ServerState, ServerTransaction};
use levee_sip::wire::Method;

use super::addresses::Flow;

/// What a request is to the calls that we count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing: it is passed on, and that is all.
    Plain,
    /// The INVITE that began a call.
    Invite {
        /// The call.
        call: u64,
    },
    /// A request inside a call.
    InDialog {
        /// The call.
        call: u64,
        /// Which of its dialogs.
        leg: usize,
        /// Who sent it.
        from: Side,
    },
    /// A BYE of our own.
    OwnBye {
        /// The call.
        call: u64,
        /// Which of its dialogs.
        leg: usize,
        /// Whom it goes to.
        to: Side,
    },
}

/// A proxied request, or (without server half) one of our own.
#[derive(Debug)]
pub(crate) struct Txn {
    pub(crate) method: Method,
    pub(crate) role: Role,
    pub(crate) server: Option<ServerTransaction>,
    pub(crate) key: Option<ServerKey>,
    /// Where answers go.
    pub(crate) up: Option<Flow>,
    pub(crate) client: Option<ClientTransaction>,
    /// Where the request went.
    pub(crate) down: Option<Flow>,
    pub(crate) cancel: Option<ClientTransaction>,
    /// A CANCEL is to be sent as soon as a provisional answer allows it (RFC 3261 section 9.1).
    pub(crate) cancel_wanted: bool,
    /// The request as it came, while it is held back or its next hop's name is being resolved.
    pub(crate) request: Vec<u8>,
    /// Where the request came from.
    pub(crate) from: Option<Flow>,
    /// The Contact of a request that moves its sender's remote target if it succeeds (section 12.2.1.1).
    pub(crate) target: Option<Box<[u8]>>,
    /// The Session-Expires that went down, if the caller can keep session timers (RFC 4028 section 8.2).
    pub(crate) session: Option<u32>,
    /// The deadline for which the heap has an entry.
    pub(crate) armed: Duration,
    /// What it adds to the sum of [`Self::bytes`] over all.
    pub(crate) bytes_noted: usize,
}

impl Txn {
    /// When the first of its timers is due.
    pub(crate) fn deadline(&self) -> Duration {
        let clients = [&self.client, &self.cancel]
            .into_iter()
            .flatten()
            .map(ClientTransaction::deadline);
        let server = self.server.as_ref().map(ServerTransaction::deadline);
        clients.chain(server).min().unwrap_or(Duration::MAX)
    }

    /// Bytes of messages that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        let clients = [&self.client, &self.cancel];
        let sent = clients.into_iter().flatten().map(|c| c.packet().len());
        self.request.len()
            + sent.sum::<usize>()
            + self.server.as_ref().map_or(0, |s| s.last().len())
    }

    /// Whether all halves have come to their end.
    pub(crate) fn is_over(&self) -> bool {
        let done = |c: &Option<ClientTransaction>| {
            c.as_ref()
                .is_none_or(|c| c.state() == ClientState::Terminated)
        };
        done(&self.client)
            && done(&self.cancel)
            && self
                .server
                .as_ref()
                .is_none_or(|s| s.state() == ServerState::Terminated)
    }

    /// Whether its sender still waits for a final answer.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.server
            .as_ref()
            .is_some_and(ServerTransaction::is_pending)
    }
}
