//! What the actors send each other.

use super::calls::CallId;
use crate::engine::ActorId;

/// The actors. Each is one, as in the lab: all callers, the front, the server, all callees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// All callers, honest and attackers.
    Callers,
    /// SeVen or its rivals, before the server.
    Front,
    /// The protected server: registrar and back-to-back user agent of `k` lines.
    Server,
    /// All callees, those of the attackers included.
    Callees,
}

impl Role {
    /// Its number in the engine.
    #[must_use]
    pub fn actor(self) -> ActorId {
        ActorId(self as u32)
    }

    /// Its bit in a set of roles.
    pub(super) fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A SIP message, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// INVITE.
    Invite,
    /// ACK of a 2xx; of another final answer it changes nothing and is left out.
    Ack,
    /// CANCEL; its 200 changes nothing and is left out.
    Cancel,
    /// BYE.
    Bye,
    /// BYE of the front itself, in place of an end.
    FrontBye,
    /// 100 Trying.
    Trying,
    /// 180 Ringing.
    Ringing,
    /// 200 OK to the INVITE.
    Ok,
    /// 503 Service Unavailable.
    Unavailable,
    /// 487 Request Terminated.
    Terminated,
    /// 200 OK to [`Signal::Bye`].
    ByeOk,
    /// 200 OK to [`Signal::FrontBye`].
    FrontByeOk,
}

/// A message or a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A SIP message of a call.
    Sip {
        /// Of which call.
        call: CallId,
        /// Who sent it.
        from: Role,
        /// What it is.
        signal: Signal,
    },
    /// To the callers: the next call of the schedule is due.
    Arrive,
    /// To the callers: an attacker calls again.
    Again {
        /// Who calls.
        caller: u32,
    },
    /// To the callers: this call has lasted as long as wanted.
    HangUp {
        /// Which.
        call: CallId,
    },
    /// To the callers: some call may have rung for too long.
    RingTimeout,
    /// To the callers: the run is over but for calls that ring.
    Horizon,
    /// To the front: the deadline of the defence.
    PolicyDue,
    /// To the callees: this call has rung long enough.
    Answer {
        /// Which.
        call: CallId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_small() {
        assert!(size_of::<Message>() <= 16);
    }
}
