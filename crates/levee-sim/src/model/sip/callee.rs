//! The callees: answer every call after a while, and stay until they are told to go.

use super::Sip;
use super::calls::{CallId, CalleeState};
use super::message::{Message, Role, Signal};
use crate::engine::Scheduler;

const TO_SERVER: (Role, Role) = (Role::Callees, Role::Server);

impl Sip {
    pub(super) fn callee_receives(
        &mut self,
        scheduler: &mut Scheduler<Message>,
        call: CallId,
        signal: Signal,
    ) {
        let ring = self.setup.ring;
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        match signal {
            Signal::Invite => {
                record.callee = CalleeState::Ringing;
                record.present |= Role::Callees.bit();
                if ring.is_zero() {
                    self.answer(scheduler, call);
                } else {
                    self.send(scheduler, TO_SERVER, call, Signal::Ringing);
                    scheduler.after(ring, Role::Callees.actor(), Message::Answer { call });
                }
            }
            Signal::Cancel if record.callee == CalleeState::Ringing => {
                self.send(scheduler, TO_SERVER, call, Signal::Terminated);
                self.callee_leaves(call);
            }
            Signal::Bye => {
                self.send(scheduler, TO_SERVER, call, Signal::ByeOk);
                self.callee_leaves(call);
            }
            _ => {}
        }
    }

    pub(super) fn answer(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) {
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        if record.callee == CalleeState::Ringing {
            record.callee = CalleeState::InCall;
            self.send(scheduler, TO_SERVER, call, Signal::Ok);
        }
    }

    fn callee_leaves(&mut self, call: CallId) {
        if let Some(record) = self.calls.get_mut(call) {
            record.callee = CalleeState::Gone;
            self.calls.leave(call, Role::Callees);
        }
    }
}
