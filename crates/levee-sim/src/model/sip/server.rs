//! The server: a back-to-back user agent of `k` lines that knows where everybody is.
//!
//! A call takes a line from its INVITE to its end, as in real servers, so calls that never end starve it. When all lines are
//! taken a caller gets 503.

use levee_policy::Time;

use super::Sip;
use super::calls::{CallId, ServerState};
use super::message::{Message, Role, Signal};
use crate::engine::Scheduler;

/// Its lines, and what it counted.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) capacity: u32,
    pub(super) busy: u32,
    pub(super) busy_max: u32,
    /// INVITEs that asked for a line.
    pub(super) offered: u64,
    /// Those refused since all lines were taken.
    pub(super) refused: u64,
    /// BYEs that cut a call short at the front's word.
    pub(super) cut: u64,
    changed: Time,
    /// Line-seconds up to `changed`.
    busy_s: f64,
    /// Seconds up to `changed` in which all lines were taken.
    full_s: f64,
}

impl Server {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            capacity,
            busy: 0,
            busy_max: 0,
            offered: 0,
            refused: 0,
            cut: 0,
            changed: Time::ZERO,
            busy_s: 0.0,
            full_s: 0.0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.busy >= self.capacity
    }

    /// Line-seconds so far.
    pub(super) fn busy_s(&self, now: Time) -> f64 {
        self.busy_s + f64::from(self.busy) * now.since(self.changed).as_secs_f64()
    }

    /// Seconds so far in which all lines were taken.
    pub(super) fn full_s(&self, now: Time) -> f64 {
        let since = now.since(self.changed).as_secs_f64();
        self.full_s + if self.is_full() { since } else { 0.0 }
    }

    fn note_time(&mut self, now: Time) {
        self.busy_s = self.busy_s(now);
        self.full_s = self.full_s(now);
        self.changed = now;
    }

    fn take_line(&mut self, now: Time) {
        self.note_time(now);
        self.busy += 1;
        self.busy_max = self.busy_max.max(self.busy);
    }

    fn free_line(&mut self, now: Time) {
        debug_assert!(self.busy > 0, "a line is freed that nobody held");
        self.note_time(now);
        self.busy -= 1;
    }
}

impl Sip {
    pub(super) fn server_receives(
        &mut self,
        scheduler: &mut Scheduler<Message>,
        call: CallId,
        from: Role,
        signal: Signal,
    ) {
        if from == Role::Callees {
            self.server_hears_callee(scheduler, call, signal);
            return;
        }
        let back = (Role::Server, from);
        match signal {
            Signal::Invite => self.server_invited(scheduler, call, from),
            Signal::Cancel => {
                let Some(record) = self.calls.get_mut(call) else {
                    return;
                };
                if record.server != ServerState::Setup {
                    return;
                }
                record.server_cancels = true;
                // Without a provisional answer yet, the CANCEL waits for one.
                let proceeding = record.server_proceeding;
                self.send(scheduler, back, call, Signal::Terminated);
                if proceeding {
                    self.send(
                        scheduler,
                        (Role::Server, Role::Callees),
                        call,
                        Signal::Cancel,
                    );
                }
                self.server_releases(scheduler, call);
            }
            Signal::Bye => {
                self.send(scheduler, back, call, Signal::ByeOk);
                self.server_hangs_up(scheduler, call);
            }
            Signal::FrontBye => {
                self.send(scheduler, back, call, Signal::FrontByeOk);
                if self.server_hangs_up(scheduler, call) {
                    self.server.cut += 1;
                }
            }
            _ => {}
        }
    }

    fn server_invited(&mut self, scheduler: &mut Scheduler<Message>, call: CallId, from: Role) {
        self.server.offered += 1;
        if self.server.is_full() {
            self.server.refused += 1;
            self.send(scheduler, (Role::Server, from), call, Signal::Unavailable);
            return;
        }
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        record.server = ServerState::Setup;
        record.present |= Role::Server.bit();
        self.server.take_line(scheduler.now());
        self.send(scheduler, (Role::Server, from), call, Signal::Trying);
        self.send(
            scheduler,
            (Role::Server, Role::Callees),
            call,
            Signal::Invite,
        );
    }

    fn server_hears_callee(
        &mut self,
        scheduler: &mut Scheduler<Message>,
        call: CallId,
        signal: Signal,
    ) {
        let to_caller = (Role::Server, self.caller_side_of_server());
        let to_callee = (Role::Server, Role::Callees);
        let Some(record) = self.calls.get_mut(call) else {
            return;
        };
        match signal {
            Signal::Ringing => {
                record.server_proceeding = true;
                if record.server_cancels {
                    self.send(scheduler, to_callee, call, Signal::Cancel);
                } else {
                    self.send(scheduler, to_caller, call, Signal::Ringing);
                }
            }
            Signal::Ok => {
                let cancelled = record.server_cancels;
                if !cancelled {
                    record.server = ServerState::Answered;
                }
                self.send(scheduler, to_callee, call, Signal::Ack);
                if cancelled {
                    self.send(scheduler, to_callee, call, Signal::Bye);
                } else {
                    self.send(scheduler, to_caller, call, Signal::Ok);
                }
            }
            Signal::Terminated | Signal::ByeOk => {
                record.server = ServerState::Gone;
                self.calls.leave(call, Role::Server);
            }
            _ => {}
        }
    }

    /// A BYE on the caller's leg ends the callee's. Whether it was the first.
    fn server_hangs_up(&mut self, scheduler: &mut Scheduler<Message>, call: CallId) -> bool {
        let up = |state| matches!(state, ServerState::Setup | ServerState::Answered);
        if !self.calls.get(call).is_some_and(|record| up(record.server)) {
            return false;
        }
        self.send(scheduler, (Role::Server, Role::Callees), call, Signal::Bye);
        self.server_releases(scheduler, call);
        true
    }

    /// A call gives its line back.
    fn server_releases(&mut self, scheduler: &Scheduler<Message>, call: CallId) {
        if let Some(record) = self.calls.get_mut(call) {
            record.server = ServerState::Over;
            self.server.free_line(scheduler.now());
        }
    }
}
