//! The calls under way: one record each, in which every actor has its part.

use levee_policy::selective::CallKey;
use levee_policy::{Span, Time};

use super::message::Role;
use crate::schedule::Kind;

/// Names a call: a place in the table, and which of its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallId {
    index: u32,
    generation: u32,
}

impl CallId {
    /// Its name towards the defence.
    pub(super) fn key(self) -> CallKey {
        CallKey(u64::from(self.generation) << 32 | u64::from(self.index))
    }

    /// The call of this name.
    pub(super) fn of_key(key: CallKey) -> Self {
        Self {
            index: key.0 as u32,
            generation: (key.0 >> 32) as u32,
        }
    }
}

/// Where a call stands for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerState {
    /// No final answer yet.
    Inviting,
    /// Given up, no final answer yet.
    Cancelling,
    InCall,
    /// Hung up, the BYE is not answered yet.
    Ending,
    Gone,
}

/// Where a call stands for the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The defence holds its INVITE back.
    Held,
    /// The INVITE was passed on; no ACK yet.
    Waiting,
    /// The ACK has passed.
    InCall,
    /// The front is ending it; its slot is free when the server has answered.
    Ending,
    Gone,
}

/// Where a call stands for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerState {
    /// Holds a line; the callee has not answered.
    Setup,
    /// Holds a line; the callee has answered.
    Answered,
    /// Holds no line; the callee's side is not done.
    Over,
    Gone,
}

/// Where a call stands for its callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalleeState {
    Ringing,
    InCall,
    Gone,
}

/// A call: one cache line, so that one which has long been quiet costs one miss.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Call {
    generation: u32,
    /// The roles that have something to do with it still, or wait for something.
    pub(super) present: u8,

    pub(super) caller: CallerState,
    /// The caller has a provisional answer, so that it may send a CANCEL.
    pub(super) caller_proceeding: bool,

    pub(super) stage: Stage,
    /// The server has sent a provisional answer.
    pub(super) front_proceeding: bool,
    /// A CANCEL is to be sent, or was.
    pub(super) front_cancels: bool,
    /// The 200 was passed on.
    pub(super) front_answered: bool,

    pub(super) server: ServerState,
    /// The callee has sent a provisional answer.
    pub(super) server_proceeding: bool,
    /// A CANCEL came.
    pub(super) server_cancels: bool,

    pub(super) callee: CalleeState,

    account: Account,
}

/// What the outcome of a call is reckoned from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) kind: Kind,
    /// It began after the warm-up.
    pub(super) counted: bool,
    /// It began in the second half.
    pub(super) late: bool,
    /// It has no outcome yet.
    pub(super) open: bool,
    pub(super) caller_number: u32,
    /// When its INVITE was sent.
    pub(super) start: Time,
    /// When its caller had the 200; its start before that.
    pub(super) answered: Time,
    /// From the 200 on; [`Span::MAX`] for as long as it can.
    pub(super) wanted: Span,
}

/// All calls under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    records: Vec<Call>,
    free: Vec<u32>,
}

impl Calls {
    /// Forgets all calls, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.free.clear();
    }

    pub(super) fn insert(&mut self, account: Account) -> CallId {
        let reused = self.free.pop();
        let generation = reused.map_or(0, |index| self.records[index as usize].generation);
        let call = Call {
            generation,
            present: Role::Callers.bit(),
            caller: CallerState::Inviting,
            caller_proceeding: false,
            stage: Stage::Gone,
            front_proceeding: false,
            front_cancels: false,
            front_answered: false,
            server: ServerState::Gone,
            server_proceeding: false,
            server_cancels: false,
            callee: CalleeState::Gone,
            account,
        };
        let index = match reused {
            Some(index) => {
                self.records[index as usize] = call;
                index
            }
            None => {
                self.records.push(call);
                (self.records.len() - 1) as u32
            }
        };
        CallId { index, generation }
    }

    /// The account of a call that is still under way.
    pub(super) fn account(&mut self, id: CallId) -> &mut Account {
        debug_assert!(self.get(id).is_some());
        &mut self.records[id.index as usize].account
    }

    /// A call, if it is still under way.
    pub(super) fn get_mut(&mut self, id: CallId) -> Option<&mut Call> {
        let call = self.records.get_mut(id.index as usize)?;
        (call.generation == id.generation).then_some(call)
    }

    /// As [`Self::get_mut`].
    pub(super) fn get(&self, id: CallId) -> Option<&Call> {
        let call = self.records.get(id.index as usize)?;
        (call.generation == id.generation).then_some(call)
    }

    /// A role is done with a call. The last one frees its place: nobody waits for an answer any more.
    pub(super) fn leave(&mut self, id: CallId, role: Role) {
        let Some(call) = self.get_mut(id) else { return };
        call.present &= !role.bit();
        if call.present == 0 {
            call.generation = call.generation.wrapping_add(1);
            self.free.push(id.index);
        }
    }

    /// Places in use or used before, for a walk with [`Self::at`].
    pub(super) fn places(&self) -> u32 {
        self.records.len() as u32
    }

    /// The call at a place, if there is one.
    pub(super) fn at(&self, index: u32) -> Option<CallId> {
        let call = &self.records[index as usize];
        (call.present != 0).then_some(CallId {
            index,
            generation: call.generation,
        })
    }

    /// Calls under way.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_cache_line() {
        assert_eq!(size_of::<Call>(), 64);
    }

    #[test]
    fn a_freed_place_has_another_name() {
        let mut calls = Calls::default();
        let account = Account {
            kind: Kind::Honest,
            counted: true,
            late: false,
            open: true,
            caller_number: 1,
            start: Time::ZERO,
            answered: Time::ZERO,
            wanted: Span::MAX,
        };
        let first = calls.insert(account);
        assert_eq!(CallId::of_key(first.key()), first);
        calls.leave(first, Role::Callers);
        assert!(calls.get(first).is_none());
        let second = calls.insert(account);
        assert_ne!(first, second);
        assert_eq!(calls.places(), 1);
        assert_eq!(calls.len(), 1);
        // A stale name has no hold on the new user of its place.
        calls.leave(first, Role::Callers);
        assert!(calls.get(second).is_some());
    }
}
