//! The callers: calls opened at random times, honest ones that hang up when they are done and attackers that stay.
//!
//! Honest calls and attackers' send the same messages; only the record of a call knows which is which.

use std::collections::VecDeque;

use levee_policy::{Span, Time};

use super::Sip;
use super::calls::{Account, CallId, CallerState};
use super::message::{Message, Role, Signal};
use super::observables::Frozen;
use super::setup::{Setup, span};
use super::tally::Outcome;
use crate::engine::Scheduler;
use crate::schedule::{Arrival, Kind, Schedule};

/// Their schedule, and who waits for an answer.
#[derive(Clone, Debug)]
pub(super) struct Callers {
    schedule: Schedule,
    next: Option<Arrival>,
    /// Calls in order of their beginning, for the ringing timeout. Those that do not ring any more go when they come to its head.
    ringing: VecDeque<(CallId, Time)>,
    /// Whether a timer is set for its head.
    timeout_set: bool,
    begin: Time,
    middle: Time,
}

impl Callers {
    pub(super) fn new(setup: &Setup) -> Self {
        let begin = Time::ZERO + setup.warmup;
        let half = Span::from_nanos(setup.until().saturating_sub(setup.warmup).as_nanos() / 2);
        Self {
            schedule: setup.plan.schedule(),
            next: None,
            ringing: VecDeque::new(),
            timeout_set: false,
            begin,
            middle: begin + half,
        }
    }

    pub(super) fn restart(&mut self, setup: &Setup, run: u64) {
        self.schedule = setup.plan.schedule_of(run);
        self.next = None;
        self.ringing.clear();
        self.timeout_set = false;
    }
}

impl Sip {
    /// Sets the timer for the next call of the schedule.
    pub(super) fn next_arrival(&mut self, scheduler: &mut Scheduler<Message>) {
        self.callers.next = self.callers.schedule.next();
        if let Some(next) = &self.callers.next {
            let at = Time::ZERO + span(next.at);
            scheduler.after(
                at.since(scheduler.now()),
                Role::Callers.actor(),
                Message::Arrive,
            );
        }
    }

    pub(super) fn arrive(&mut self, scheduler: &mut Scheduler<Message>) {
        if let Some(arrival) = self.callers.next.take() {
            let wanted = arrival.wanted.map_or(Span::MAX, span);
            self.call(scheduler, arrival.kind, arrival.caller, wanted);
            self.next_arrival(scheduler);
        }
    }

    pub(super) fn call_again(&mut self, scheduler: &mut Scheduler<Message>, caller: u32) {
        if !self.is_over() {
            self.call(scheduler, Kind::Attacker, caller, Span::MAX);
        }
    }

    fn call(
        &mut self,
        scheduler: &mut Scheduler<Message>,
        kind: Kind,
        caller_number: u32,
        wanted: Span,
    ) {
        let now = scheduler.now();
        let account = Account {
            kind,
            counted: now >= self.callers.begin,
            late: now >= self.callers.middle,
            open: true,
            caller_number,
            start: now,
            answered: now,
            wanted,
        };
        self.tallies.begun(&account);
        let call = self.calls.insert(account);
        self.send_to_server(scheduler, call, Signal::Invite);
        self.watch_ringing(scheduler, call);
    }

    fn send_to_server(&self, scheduler: &mut Scheduler<Message>, call: CallId, signal: Signal) {
        let entry = if self.front.is_some() {
            Role::Front
        } else {
            Role::Server
        };
        self.send(scheduler, (Role::Callers, entry), call, signal);
    }

    fn watch_ringing(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) {
        self.forget_answered();
        let callers = &mut self.callers;
        callers.ringing.push_back((call, scheduler.now()));
        if !callers.timeout_set {
            callers.timeout_set = true;
            scheduler.after(
                self.setup.ring_timeout,
                Role::Callers.actor(),
                Message::RingTimeout,
            );
        }
    }

    fn forget_answered(&mut self) {
        let Self { callers, calls, .. } = self;
        let rings = |call| {
            let record = calls.get(call);
            record.is_some_and(|call| call.caller == CallerState::Inviting)
        };
        while callers
            .ringing
            .front()
            .is_some_and(|(call, _)| !rings(*call))
        {
            callers.ringing.pop_front();
        }
    }

    pub(super) fn ring_timeout(&mut self, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        self.callers.timeout_set = false;
        loop {
            self.forget_answered();
            let Some((call, start)) = self.callers.ringing.front().copied() else {
                return;
            };
            let due = start + self.setup.ring_timeout;
            if due > now {
                self.callers.timeout_set = true;
                scheduler.after(due - now, Role::Callers.actor(), Message::RingTimeout);
                return;
            }
            self.give_up(scheduler, call);
        }
    }

    fn give_up(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) {
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        record.caller = CallerState::Cancelling;
        // Without a provisional answer yet, the CANCEL waits for one (RFC 3261 section 9.1).
        if record.caller_proceeding {
            self.send_to_server(scheduler, call, Signal::Cancel);
        }
    }

    pub(super) fn caller_receives(
        &mut self,
        scheduler: &mut Scheduler<Message>,
        call: CallId,
        signal: Signal,
    ) {
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        let state = record.caller;
        match signal {
            Signal::Trying | Signal::Ringing => {
                let first = !std::mem::replace(&mut record.caller_proceeding, true);
                if first && state == CallerState::Cancelling {
                    self.send_to_server(scheduler, call, Signal::Cancel);
                }
            }
            Signal::Ok => self.answered(scheduler, call),
            Signal::Unavailable | Signal::Terminated => {
                if matches!(state, CallerState::Inviting | CallerState::Cancelling) {
                    self.close(scheduler, call, Outcome::Unsuccessful);
                    self.caller_leaves(call);
                }
            }
            Signal::Bye | Signal::FrontBye => {
                self.send_to_server(scheduler, call, Signal::FrontByeOk);
                if state != CallerState::Gone {
                    self.close(scheduler, call, Outcome::Incomplete);
                    self.caller_leaves(call);
                }
            }
            Signal::ByeOk if state == CallerState::Ending => self.caller_leaves(call),
            _ => {}
        }
    }

    fn answered(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) {
        let now = scheduler.now();
        let until = self.until();
        let over = self.is_over();
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        match record.caller {
            CallerState::Inviting => {
                record.caller = CallerState::InCall;
                let account = self.calls.account(call);
                account.answered = now;
                let wanted = account.wanted;
                self.tallies.set_up(account);
                self.send_to_server(scheduler, call, Signal::Ack);
                if over {
                    self.close(scheduler, call, Outcome::Complete);
                } else if now + wanted < until {
                    // Nobody hangs up after the horizon.
                    scheduler.after(wanted, Role::Callers.actor(), Message::HangUp { call });
                }
            }
            CallerState::Cancelling => {
                // The answer crossed the CANCEL: RFC 3261 section 9.1 wants a BYE.
                record.caller = CallerState::Ending;
                self.send_to_server(scheduler, call, Signal::Ack);
                self.close(scheduler, call, Outcome::Unsuccessful);
                self.send_to_server(scheduler, call, Signal::Bye);
            }
            CallerState::InCall | CallerState::Ending | CallerState::Gone => {}
        }
    }

    pub(super) fn hang_up(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) {
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        if record.caller == CallerState::InCall {
            record.caller = CallerState::Ending;
            self.close(scheduler, call, Outcome::Complete);
            self.send_to_server(scheduler, call, Signal::Bye);
        }
    }

    /// The caller is done with a call.
    fn caller_leaves(&mut self, call: CallId) {
        if let Some(record) = self.calls.get_mut(call) {
            record.caller = CallerState::Gone;
            self.calls.leave(call, Role::Callers);
        }
    }

    /// Notes the outcome of a call, once. An attacker that was refused or dropped calls again.
    fn close(&mut self, scheduler: &mut Scheduler<Message>, call: CallId, outcome: Outcome) {
        let (until, over) = (self.until(), self.is_over());
        let account = self.calls.account(call);
        let first = self.tallies.close(account, outcome, scheduler.now(), until);
        if let Some(wait) = self.setup.redial
            && first
            && !over
            && account.kind == Kind::Attacker
        {
            let caller = account.caller_number;
            scheduler.after(wait, Role::Callers.actor(), Message::Again { caller });
        }
    }

    /// The run is over: what is connected counts as complete, and what rings may still be answered.
    pub(super) fn horizon(&mut self, scheduler: &mut Scheduler<Message>) {
        self.frozen = Some(Frozen::of(self, scheduler.now()));
        self.callers.next = None;
        for place in 0..self.calls.places() {
            let Some(call) = self.calls.at(place) else {
                continue;
            };
            let record = self.calls.get(call);
            if record.is_some_and(|record| record.caller == CallerState::InCall) {
                self.close(scheduler, call, Outcome::Complete);
            }
        }
    }
}
