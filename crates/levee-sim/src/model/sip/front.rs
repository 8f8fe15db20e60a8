//! The front: drives the defence as the live front does, and carries out what it says.
//!
//! See `levee-proxy`, `sip/front.rs` and `sip/ending.rs`: a refused call gets 503; a dropped one that is WAITING gets the same, and
//! the server a CANCEL; one that is INCALL gets a BYE in both directions. The slot is reported free when the server has answered.

use levee_policy::selective::{
    Arrival, CallState, ClassId, Config, ConfigError, Identity, Input, Output, PhaseId, Selective,
};
use levee_policy::{StateMachine as _, Time};
use rand_pcg::Pcg64;

use super::Sip;
use super::calls::{CallId, Stage};
use super::message::{Message, Role, Signal};
use crate::engine::{Scheduler, Streams};

/// The address that all calls come from, as in the lab.
const SOURCE: Identity = Identity(0);

const TO_SERVER: (Role, Role) = (Role::Front, Role::Server);
const TO_CALLER: (Role, Role) = (Role::Front, Role::Callers);

/// The defence, and what drives it.
#[derive(Clone, Debug)]
pub(super) struct Front {
    pub(super) policy: Selective,
    pub(super) rng: Pcg64,
    /// When the next timer for its deadline is due; [`Time::MAX`] for none.
    timer: Time,
    /// BYEs sent to callers of dropped calls.
    pub(super) byes_to_callers: u64,
    /// BYEs sent to the server.
    pub(super) byes_to_server: u64,
}

impl Front {
    pub(super) fn new(capacity: u32, defense: &Config) -> Result<Self, ConfigError> {
        Ok(Self {
            policy: Selective::new(capacity, defense.clone())?,
            rng: Streams::new(0, 0).stream("policy"),
            timer: Time::MAX,
            byes_to_callers: 0,
            byes_to_server: 0,
        })
    }

    pub(super) fn restart(&mut self, seed: u64, run: u64) {
        self.policy.restart();
        self.rng = Streams::new(seed, run).stream("policy");
        self.timer = Time::MAX;
        self.byes_to_callers = 0;
        self.byes_to_server = 0;
    }
}

impl Sip {
    pub(super) fn front_receives(
        &mut self,
        scheduler: &mut Scheduler<Message>,
        call: CallId,
        from: Role,
        signal: Signal,
    ) {
        if from == Role::Callers {
            self.front_hears_caller(scheduler, call, signal);
        } else {
            self.front_hears_server(scheduler, call, signal);
        }
    }

    fn front_hears_caller(
        &mut self,
        scheduler: &mut Scheduler<Message>,
        call: CallId,
        signal: Signal,
    ) {
        match signal {
            Signal::Invite => self.front_invited(scheduler, call),
            Signal::Ack => {
                self.send(scheduler, TO_SERVER, call, Signal::Ack);
                self.front_acknowledged(scheduler, call);
            }
            Signal::Cancel => self.front_cancelled(scheduler, call),
            Signal::Bye => self.send(scheduler, TO_SERVER, call, Signal::Bye),
            _ => {}
        }
    }

    fn front_invited(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) {
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        record.stage = Stage::Held;
        record.present |= Role::Front.bit();
        let caller = self.calls.account(call).caller_number;
        let arrival = Arrival {
            call: call.key(),
            class: ClassId::DEFAULT,
            phase: PhaseId::default(),
            caller: Some(Identity(caller.into())),
            source: Some(SOURCE),
        };
        self.tell_policy(scheduler, Input::Arrive(arrival));
        let record = self.calls.get(call);
        if record.is_some_and(|record| record.stage != Stage::Gone) {
            self.send(scheduler, TO_CALLER, call, Signal::Trying);
        }
    }

    fn front_acknowledged(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) {
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        match record.stage {
            Stage::Waiting if record.front_answered => {
                record.stage = Stage::InCall;
                self.tell_policy(scheduler, Input::Answered { call: call.key() });
            }
            // It was dropped between its 200 and its ACK: no BYE before that (RFC 3261 section 15).
            Stage::Ending if record.front_answered => self.front_sends_byes(scheduler, call),
            _ => {}
        }
    }

    fn front_cancelled(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) {
        let Some(record) = self.calls.get(call) else {
            return;
        };
        match record.stage {
            Stage::Held => {
                self.send(scheduler, TO_CALLER, call, Signal::Terminated);
                self.front_ends(scheduler, call);
            }
            Stage::Waiting if !record.front_answered => self.front_cancels(scheduler, call),
            _ => {}
        }
    }

    fn front_hears_server(
        &mut self,
        scheduler: &mut Scheduler<Message>,
        call: CallId,
        signal: Signal,
    ) {
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        let waiting = record.stage == Stage::Waiting;
        match signal {
            Signal::Trying | Signal::Ringing => {
                let first = !std::mem::replace(&mut record.front_proceeding, true);
                if first && record.front_cancels {
                    self.send(scheduler, TO_SERVER, call, Signal::Cancel);
                }
                // 100 is hop by hop.
                if waiting && signal == Signal::Ringing {
                    self.send(scheduler, TO_CALLER, call, Signal::Ringing);
                }
            }
            Signal::Ok if waiting => {
                record.front_answered = true;
                self.send(scheduler, TO_CALLER, call, Signal::Ok);
            }
            // Its caller has a 503 already. What is up below has to come down again.
            Signal::Ok => {
                self.send(scheduler, TO_SERVER, call, Signal::Ack);
                self.front_byes_server(scheduler, call);
            }
            Signal::Unavailable | Signal::Terminated => {
                if waiting {
                    self.send(scheduler, TO_CALLER, call, signal);
                }
                self.front_ends(scheduler, call);
            }
            Signal::ByeOk => {
                let up = matches!(record.stage, Stage::Waiting | Stage::InCall);
                self.send(scheduler, TO_CALLER, call, Signal::ByeOk);
                if up {
                    self.front_ends(scheduler, call);
                }
            }
            Signal::FrontByeOk => self.front_ends(scheduler, call),
            _ => {}
        }
    }

    /// A call is over, and its slot is free.
    fn front_ends(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) {
        if self.front_leaves(call) {
            self.tell_policy(scheduler, Input::Ended { call: call.key() });
        }
    }

    /// The front is done with a call; whether it was not before.
    fn front_leaves(&mut self, call: CallId) -> bool {
        let Some(record) = self.calls.get_mut(call) else {
            return false;
        };
        let before = std::mem::replace(&mut record.stage, Stage::Gone);
        self.calls.leave(call, Role::Front);
        before != Stage::Gone
    }

    /// Sends a CANCEL to the server, now or when its first provisional answer allows it (RFC 3261 section 9.1).
    fn front_cancels(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) {
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        let first = !std::mem::replace(&mut record.front_cancels, true);
        if first && record.front_proceeding {
            self.send(scheduler, TO_SERVER, call, Signal::Cancel);
        }
    }

    fn front_byes_server(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) {
        if let Some(front) = &mut self.front {
            front.byes_to_server += 1;
        }
        self.send(scheduler, TO_SERVER, call, Signal::FrontBye);
    }

    fn front_sends_byes(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) {
        self.front_byes_server(scheduler, call);
        if let Some(front) = &mut self.front {
            front.byes_to_callers += 1;
        }
        self.send(scheduler, TO_CALLER, call, Signal::FrontBye);
    }

    /// Reports to the defence, and carries out what it says.
    fn tell_policy(&mut self, scheduler: &mut Scheduler<Message>, input: Input) {
        if let Some(front) = &mut self.front {
            front.policy.handle(scheduler.now(), input, &mut front.rng);
            self.carry_out(scheduler);
        }
    }

    pub(super) fn policy_due(&mut self, scheduler: &mut Scheduler<Message>) {
        // A timer that is not the one set last is void.
        if let Some(front) = &mut self.front
            && front.timer <= scheduler.now()
        {
            front.timer = Time::MAX;
            front
                .policy
                .handle_deadline(scheduler.now(), &mut front.rng);
            self.carry_out(scheduler);
        }
    }

    /// Nothing that it does is an input of the defence at once, so the contract is kept: all outputs of an input are taken
    /// before the next.
    fn carry_out(&mut self, scheduler: &mut Scheduler<Message>) {
        while let Some(output) = self.front.as_mut().and_then(|f| f.policy.poll_output()) {
            match output {
                Output::Forward { call } => {
                    let call = CallId::of_key(call);
                    if let Some(record) = self.calls.get_mut(call) {
                        record.stage = Stage::Waiting;
                        self.send(scheduler, TO_SERVER, call, Signal::Invite);
                    }
                }
                Output::Refuse { call, .. } => {
                    let call = CallId::of_key(call);
                    self.send(scheduler, TO_CALLER, call, Signal::Unavailable);
                    self.front_leaves(call);
                }
                Output::Evict { call, state, .. } => {
                    self.front_drops(scheduler, CallId::of_key(call), state);
                }
            }
        }
        self.keep_deadline(scheduler);
    }

    fn front_drops(&mut self, scheduler: &mut Scheduler<Message>, call: CallId, state: CallState) {
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        debug_assert_eq!(record.stage == Stage::InCall, state == CallState::InCall);
        match record.stage {
            Stage::Held => {
                self.send(scheduler, TO_CALLER, call, Signal::Unavailable);
                self.front_leaves(call);
            }
            Stage::Waiting => {
                record.stage = Stage::Ending;
                // Else its 200 has passed and the ACK has not, and the BYEs wait for that.
                if !record.front_answered {
                    self.send(scheduler, TO_CALLER, call, Signal::Unavailable);
                    self.front_cancels(scheduler, call);
                }
            }
            Stage::InCall => {
                record.stage = Stage::Ending;
                self.front_sends_byes(scheduler, call);
            }
            Stage::Ending | Stage::Gone => {}
        }
    }

    /// Sets a timer for the deadline of the defence, unless one comes before it: that one will set the next.
    fn keep_deadline(&mut self, scheduler: &mut Scheduler<Message>) {
        let Some(front) = &mut self.front else { return };
        if let Some(due) = front.policy.deadline()
            && due < front.timer
        {
            front.timer = due;
            let wait = due.since(scheduler.now());
            scheduler.after(wait, Role::Front.actor(), Message::PolicyDue);
        }
    }
}
