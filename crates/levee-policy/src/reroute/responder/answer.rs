//! Answers to orders, the operator, and what is due.

use alloc::{format, string::String};

use super::{Operator, Responder, Step};
use crate::Time;

impl Responder {
    pub(super) fn answered(&mut self, now: Time, play: usize) {
        if play >= self.state.playbook.plays().len() {
            return;
        }
        // A late answer while another is awaited: that one will tell what is announced.
        if self
            .state
            .pending
            .is_some_and(|pending| pending.play != play)
        {
            return;
        }
        let clear = self.state.pending.is_none() && self.state.unclear.is_none();
        if clear && self.state.deployed == play {
            return;
        }
        self.reordered = false;
        self.record(now, Step::Deployed { play });
        self.take_over();
        self.decide(now);
    }

    /// The order was not carried out. A forced play and the way back are tried again, since nothing else will do, and so is an order
    /// to which no answer came.
    pub(super) fn failed(&mut self, now: Time, play: usize, reason: String, unclear: bool) {
        if self
            .state
            .pending
            .is_none_or(|pending| pending.play != play)
        {
            return;
        }
        let unclear = unclear || self.reordered;
        self.reordered = false;
        self.record(
            now,
            Step::DeployFailed {
                play,
                reason,
                unclear,
            },
        );
        if self.state.failures >= self.state.config.deploy_tries {
            self.give_up(now);
            let responding = self.responding();
            if !responding.is_empty() {
                self.next_line(now, &responding);
            }
            return;
        }
        self.decide(now);
    }

    /// Tries nothing for a while.
    pub(super) fn give_up(&mut self, now: Time) {
        let failures = self.state.failures;
        let until = now + self.state.config.retry;
        self.record(now, Step::GaveUp { failures, until });
    }

    pub(super) fn operator(&mut self, now: Time, operator: Operator) {
        match operator {
            Operator::Hold => self.record(now, Step::Held),
            Operator::Release => self.record(now, Step::Released),
            Operator::Force { play } if play < self.state.playbook.plays().len() => {
                self.record(now, Step::Forced { play });
            }
            Operator::Force { play } => self.record(now, Step::Refused { play }),
        }
        self.decide(now);
    }

    /// Does what was due by `now`, or by the latest time that was told if that is later; gives the later of the two.
    pub(super) fn due(&mut self, now: Time) -> Time {
        let before = self.last;
        let now = now.max(before);
        self.last = now;
        self.told = false;
        if self.resumed {
            self.resumed = false;
            if let Some(pending) = &mut self.state.pending {
                pending.since = now;
            }
        }
        let timeout = self.state.config.deploy_timeout;
        if let Some(pending) = self.state.pending.filter(|p| now - p.since >= timeout) {
            let reason = format!("no answer within {timeout}");
            self.failed(now, pending.play, reason, true);
        }
        let waited = self.waiting.is_some_and(|(_, until)| now >= until.at);
        if waited {
            self.waiting = None;
        }
        if waited || (before < self.state.retry && now >= self.state.retry) {
            self.decide(now);
        }
        now
    }
}
