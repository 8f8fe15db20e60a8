//! The transactions of RFC 3261 section 17, with the Accepted states of RFC 6026.
//!
//! A proxied request is one server transaction towards its sender and one client transaction towards the next hop
//! ([`ServerTransaction`], [`ClientTransaction`]). Both are plain values: a message or a moment goes in, what is to be
//! done comes out. Finding the transaction of a message is the caller's work: [`crate::keys`] says how.

use alloc::vec::Vec;
use core::time::Duration;

use crate::wire::Method;

/// The base timers (RFC 3261 table 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerValues {
    /// Round-trip estimate.
    pub t1: Duration,
    /// Longest interval between retransmissions of a non-INVITE request or an INVITE's answer.
    pub t2: Duration,
    /// How long a message may stay in the network.
    pub t4: Duration,
    /// Timer C: how long an INVITE may ring; more than three minutes (section 16.6 step 11).
    pub c: Duration,
}

impl Default for TimerValues {
    fn default() -> Self {
        Self {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            c: Duration::from_secs(185),
        }
    }
}

impl TimerValues {
    /// 64 T1: timers B, D, F, H, J, L and M.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.t1 * 64
    }
}

/// Whether a transaction is one of INVITE or of another method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they are")]
pub enum Kind {
    Invite,
    NonInvite,
}

impl Kind {
    /// The kind of transaction that a method makes.
    #[must_use]
    pub fn of(method: Method) -> Self {
        if method == Method::Invite {
            Self::Invite
        } else {
            Self::NonInvite
        }
    }
}

/// States of a client transaction (figures 5 and 6, and RFC 6026 section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the RFC's names")]
pub enum ClientState {
    /// `Trying` for a method other than INVITE.
    Calling,
    Proceeding,
    Completed,
    Accepted,
    Terminated,
}

/// The client half of a proxied request, or of a request of our own.
#[derive(Clone, Debug)]
pub struct ClientTransaction {
    kind: Kind,
    state: ClientState,
    reliable: bool,
    interval: Duration,
    retransmit_at: Option<Duration>,
    ends_at: Duration,
    /// When timer C fires.
    rings_until: Duration,
    cancelled: bool,
    packet: Vec<u8>,
}

/// What to do with a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnResponse {
    /// Pass it to whoever sent the request.
    pub pass: bool,
    /// Send an ACK for it: made with [`crate::edit::hop_request`] and given to [`ClientTransaction::set_ack`] the first
    /// time, [`ClientTransaction::packet`] again after that.
    pub ack: Ack,
}

/// The ACK that a response wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "told at the field that holds it")]
pub enum Ack {
    No,
    Make,
    Again,
}

/// What a moment asks of a client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnClientTimer {
    /// Nothing.
    Nothing,
    /// Send [`ClientTransaction::packet`] again.
    Retransmit,
    /// Nobody answered (timer B or F), or it rang too long (timer C).
    TimedOut,
    /// The state is [`ClientState::Terminated`].
    Terminated,
}

impl ClientTransaction {
    /// A transaction whose request `packet` is being sent at `now`.
    #[must_use]
    pub fn new(
        now: Duration,
        kind: Kind,
        reliable: bool,
        packet: Vec<u8>,
        t: &TimerValues,
    ) -> Self {
        Self {
            kind,
            state: ClientState::Calling,
            reliable,
            interval: t.t1,
            retransmit_at: (!reliable).then(|| now + t.t1),
            ends_at: now + t.timeout(),
            rings_until: now + t.c,
            cancelled: false,
            packet,
        }
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> ClientState {
        self.state
    }

    /// What is sent again: the request, later the ACK of its non-2xx answer.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }

    /// Takes the ACK that [`Ack::Make`] asked for.
    pub fn set_ack(&mut self, ack: Vec<u8>) {
        self.packet = ack;
    }

    /// Whether a final answer is still to come.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self.state, ClientState::Calling | ClientState::Proceeding)
    }

    /// A response with this status code came.
    pub fn on_response(&mut self, now: Duration, code: u16, t: &TimerValues) -> OnResponse {
        const PASS: OnResponse = OnResponse {
            pass: true,
            ack: Ack::No,
        };
        const ABSORB: OnResponse = OnResponse {
            pass: false,
            ack: Ack::No,
        };
        match (self.kind, self.state, code) {
            (_, ClientState::Terminated, _) => ABSORB,
            (Kind::Invite, ClientState::Calling | ClientState::Proceeding, 100..200) => {
                self.state = ClientState::Proceeding;
                self.retransmit_at = None;
                // Only 101 to 199 start timer C anew (section 16.7 step 2); a 100 does no more than end timer B.
                if code > 100 {
                    self.rings_until = now + t.c;
                }
                // What was cancelled is given up in time, however often it says that it rings.
                if !self.cancelled {
                    self.ends_at = self.rings_until;
                }
                PASS
            }
            (Kind::NonInvite, ClientState::Calling | ClientState::Proceeding, 100..200) => {
                self.state = ClientState::Proceeding;
                self.interval = t.t2;
                PASS
            }
            (Kind::Invite, ClientState::Calling | ClientState::Proceeding, 200..300) => {
                self.end(ClientState::Accepted, now + t.timeout());
                self.packet = Vec::new();
                PASS
            }
            // Every 2xx of a fork is passed on, and so is each retransmission of it (RFC 6026 section 7.2).
            (Kind::Invite, ClientState::Accepted, 200..300) => PASS,
            (Kind::Invite, ClientState::Calling | ClientState::Proceeding, _) => {
                self.end(
                    ClientState::Completed,
                    if self.reliable {
                        now
                    } else {
                        now + t.timeout()
                    },
                );
                OnResponse {
                    pass: true,
                    ack: Ack::Make,
                }
            }
            (Kind::Invite, ClientState::Completed, 300..700) => OnResponse {
                pass: false,
                ack: Ack::Again,
            },
            (Kind::NonInvite, ClientState::Calling | ClientState::Proceeding, _) => {
                self.end(
                    ClientState::Completed,
                    if self.reliable { now } else { now + t.t4 },
                );
                self.packet = Vec::new();
                PASS
            }
            _ => ABSORB,
        }
    }

    fn end(&mut self, state: ClientState, at: Duration) {
        self.state = state;
        self.retransmit_at = None;
        self.ends_at = at;
    }

    /// A CANCEL of this INVITE is being sent: 64 T1 later it is given up, whatever comes but a final answer (section
    /// 9.1). Only the first CANCEL counts.
    pub fn cancelled(&mut self, now: Duration, t: &TimerValues) {
        if self.is_pending() && !self.cancelled {
            self.cancelled = true;
            self.ends_at = now + t.timeout();
        }
    }

    /// It is `now`.
    pub fn on_timer(&mut self, now: Duration, t: &TimerValues) -> OnClientTimer {
        if now >= self.ends_at {
            let pending = self.is_pending();
            self.end(ClientState::Terminated, Duration::MAX);
            return if pending {
                OnClientTimer::TimedOut
            } else {
                OnClientTimer::Terminated
            };
        }
        if self.retransmit_at.is_none_or(|at| now < at) {
            return OnClientTimer::Nothing;
        }
        // INVITE doubles for ever (timer A), others up to T2 (timer E).
        self.interval = match (self.kind, self.state) {
            (Kind::Invite, _) => self.interval * 2,
            (Kind::NonInvite, ClientState::Proceeding) => t.t2,
            (Kind::NonInvite, _) => (self.interval * 2).min(t.t2),
        };
        self.retransmit_at = Some(now + self.interval);
        OnClientTimer::Retransmit
    }

    /// When [`Self::on_timer`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.retransmit_at
            .map_or(self.ends_at, |at| at.min(self.ends_at))
    }

    /// The transport failed (section 17.1.4).
    pub fn fail(&mut self) {
        self.end(ClientState::Terminated, Duration::MAX);
    }
}

/// States of a server transaction (figures 7 and 8, and RFC 6026 section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the RFC's names")]
pub enum ServerState {
    /// `Trying` too, for a method other than INVITE.
    Proceeding,
    Completed,
    Confirmed,
    Accepted,
    Terminated,
}

/// The server half of a proxied request.
#[derive(Clone, Debug)]
pub struct ServerTransaction {
    kind: Kind,
    state: ServerState,
    reliable: bool,
    interval: Duration,
    retransmit_at: Option<Duration>,
    ends_at: Duration,
    last: Vec<u8>,
}

/// What a moment asks of a server transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnServerTimer {
    /// Nothing.
    Nothing,
    /// Send [`ServerTransaction::last`] again.
    Retransmit,
    /// The state is [`ServerState::Terminated`]; with `unacknowledged` if no ACK ever came (timer H).
    Terminated {
        /// The final answer was never acknowledged.
        unacknowledged: bool,
    },
}

impl ServerTransaction {
    /// A transaction whose request has just come.
    #[must_use]
    pub fn new(kind: Kind, reliable: bool) -> Self {
        Self {
            kind,
            state: ServerState::Proceeding,
            reliable,
            interval: Duration::ZERO,
            retransmit_at: None,
            ends_at: Duration::MAX,
            last: Vec::new(),
        }
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> ServerState {
        self.state
    }

    /// The last response, empty if there is none; what is sent again.
    #[must_use]
    pub fn last(&self) -> &[u8] {
        &self.last
    }

    /// Whether the final answer is still to be given.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.state == ServerState::Proceeding
    }

    /// The request came again: whether to send [`Self::last`] again. It never goes further.
    #[must_use]
    pub fn on_request_again(&self) -> bool {
        matches!(self.state, ServerState::Proceeding | ServerState::Completed)
            && !self.last.is_empty()
    }

    /// The ACK of a non-2xx answer came. Returns whether it was waited for.
    pub fn on_ack(&mut self, now: Duration, t: &TimerValues) -> bool {
        if self.kind != Kind::Invite || self.state != ServerState::Completed {
            return false;
        }
        self.state = ServerState::Confirmed;
        self.retransmit_at = None;
        self.ends_at = if self.reliable { now } else { now + t.t4 };
        self.last = Vec::new();
        true
    }

    /// A response is being sent. Returns whether it may be: nothing follows a final answer but a further 2xx of INVITE.
    pub fn on_send(&mut self, now: Duration, code: u16, packet: &[u8], t: &TimerValues) -> bool {
        match (self.kind, self.state, code) {
            (_, ServerState::Proceeding, ..200) => {
                self.last.clear();
                self.last.extend_from_slice(packet);
                true
            }
            (Kind::Invite, ServerState::Proceeding, 200..300) => {
                // The callee sends its 2xx again by itself until the ACK comes, so it is not kept here.
                self.state = ServerState::Accepted;
                self.ends_at = now + t.timeout();
                self.last = Vec::new();
                true
            }
            (Kind::Invite, ServerState::Accepted, 200..300) => true,
            (Kind::Invite, ServerState::Proceeding, _) => {
                self.state = ServerState::Completed;
                self.interval = t.t1;
                self.retransmit_at = (!self.reliable).then(|| now + t.t1);
                self.ends_at = now + t.timeout();
                self.last = packet.to_vec();
                true
            }
            (Kind::NonInvite, ServerState::Proceeding, _) => {
                self.state = ServerState::Completed;
                self.ends_at = if self.reliable {
                    now
                } else {
                    now + t.timeout()
                };
                self.last = packet.to_vec();
                true
            }
            _ => false,
        }
    }

    /// It is `now`.
    pub fn on_timer(&mut self, now: Duration, t: &TimerValues) -> OnServerTimer {
        if now >= self.ends_at {
            let unacknowledged = self.kind == Kind::Invite && self.state == ServerState::Completed;
            self.state = ServerState::Terminated;
            self.ends_at = Duration::MAX;
            self.retransmit_at = None;
            self.last = Vec::new();
            return OnServerTimer::Terminated { unacknowledged };
        }
        if self.retransmit_at.is_none_or(|at| now < at) {
            return OnServerTimer::Nothing;
        }
        self.interval = (self.interval * 2).min(t.t2);
        self.retransmit_at = Some(now + self.interval);
        OnServerTimer::Retransmit
    }

    /// When [`Self::on_timer`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.retransmit_at
            .map_or(self.ends_at, |at| at.min(self.ends_at))
    }
}

#[cfg(test)]
mod tests;
