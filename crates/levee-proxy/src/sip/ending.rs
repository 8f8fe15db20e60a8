//! What the defence decides, carried out; and how calls end.
//!
//! A refused call gets 503 with Retry-After. A dropped one that is WAITING gets the same, and its callee a CANCEL; one that
//! is INCALL gets a BYE in both directions. Its slot is reported free when the server's side has answered, or is given up;
//! the caller's side holds no slot, and an attacker that never answers its BYE gains nothing by that.
//!
//! A call is over when the server has said so, or had to hear it: what the two ends tell each other past it proves nothing.

use std::time::Duration;

use levee_policy::Span;
use levee_policy::selective::{self, CallKey, EvictCause, Output, RefuseCause};
use levee_sip::dialog::Side;
use levee_sip::edit;
use levee_sip::transaction::{ClientState, ClientTransaction, Kind, ServerTransaction};
use levee_sip::wire::Method;

use super::addresses::Flow;
use super::calls::Stage;
use super::front::Front;
use super::request::{CSEQ_MAX, retry_after_line};
use super::txn::{Role, Txn};

/// `Reason` values (RFC 3326) of what we end; 503 is what the caller would have got.
const DISPLACED: &str = "Reason: SIP;cause=503;text=\"Dropped for another call, server full\"\r\n";
const TOO_LONG: &str = "Reason: SIP;cause=503;text=\"Longest call duration reached\"\r\n";
const DEAD: &str = "Reason: SIP;cause=408;text=\"Call is dead\"\r\n";

/// What the BYE of one end came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByeEnd {
    /// Its dialog is over.
    Done,
    /// It is to come again with credentials.
    Challenged,
    /// It was refused, lost, or answered past the server: the dialog may live on there.
    Unsure,
}

fn refuse_name(cause: RefuseCause) -> &'static str {
    match cause {
        RefuseCause::Overload => "overload",
        RefuseCause::Full => "full",
        RefuseCause::NoVictim => "no_victim",
        RefuseCause::CallerLimit => "caller_limit",
        RefuseCause::SourceLimit => "source_limit",
    }
}

impl Front {
    /// Carries out one output of the defence.
    pub(crate) fn on_verdict(&mut self, output: Output) {
        match output {
            Output::Forward { call } => self.forward_call(call.0),
            Output::Refuse {
                call,
                cause,
                retry_after,
            } => {
                let name = refuse_name(cause);
                self.log_verdict(name, call, None);
                if self.settings.dry_run {
                    return self.spare(call.0);
                }
                *self.stats.refused.entry(name).or_default() += 1;
                let lines = retry_after_line(retry_after);
                self.refuse_call(call.0, &lines);
            }
            Output::Evict {
                call,
                state,
                age,
                forwarded,
                cause,
                ..
            } => {
                let (name, reason) = match cause {
                    EvictCause::Displaced { .. } => ("displaced", DISPLACED),
                    EvictCause::MaxDuration => ("max_duration", TOO_LONG),
                };
                self.log_verdict(name, call, Some((state, age)));
                if self.settings.dry_run {
                    self.spare(call.0);
                    if forwarded {
                        self.tell_policy(selective::Input::Ended { call });
                    }
                    return;
                }
                match state {
                    selective::CallState::Waiting => self.stats.evicted_waiting += 1,
                    selective::CallState::InCall => self.stats.evicted_in_call += 1,
                }
                self.end_by_us(call.0, reason);
            }
        }
    }

    /// Each decision is logged for those who ask for it, and now and then one of each cause for everybody.
    fn log_verdict(
        &mut self,
        cause: &'static str,
        call: CallKey,
        held: Option<(selective::CallState, Span)>,
    ) {
        let (state, age) = (held.map(|h| h.0), held.map(|h| h.1));
        let age = age.map(tracing::field::display);
        tracing::debug!(call = call.0, cause, ?state, age, "decided");
        if let Some(held_back) = self.may_log(cause) {
            let (front, dry_run) = (&self.settings.name, self.settings.dry_run);
            let caller = self
                .calls
                .get(call.0)
                .map(|c| tracing::field::display(c.source.peer));
            let what = if held.is_some() {
                "call dropped"
            } else {
                "call refused"
            };
            tracing::info!(
                front,
                cause,
                dry_run,
                caller,
                ?state,
                age,
                held_back,
                "{what}"
            );
        }
    }

    /// A dry run lets a call live that the defence has let go of.
    fn spare(&mut self, call: u64) {
        self.stats.spared += 1;
        if let Some(c) = self.calls.get_mut(call) {
            c.in_policy = false;
        }
        self.forward_call(call);
    }

    /// Answers a call that the defence never held, or holds no longer, and forgets it.
    ///
    /// One that has no 100 yet repeats its INVITE until it is answered, so the answer need not be repeated by a timer: a
    /// flood with forged sources must not get eleven messages for each of its own out of us.
    fn refuse_call(&mut self, call: u64, lines: &[u8]) {
        let Some(invite) = self.calls.get(call).map(|c| c.invite) else {
            return;
        };
        if let Some(server) = self.txns.get_mut(invite).and_then(|t| t.server.as_mut())
            && server.last().is_empty()
        {
            // Timer G is the only thing that a reliable transport does without.
            *server = ServerTransaction::new(Kind::Invite, true);
        }
        self.answer(invite, 503, "Service Unavailable", lines);
        self.calls.remove(call);
    }

    /// Ends a call.
    pub(crate) fn end_by_us(&mut self, call: u64, reason: &'static str) {
        let Some(c) = self.calls.get_mut(call) else {
            return;
        };
        let (stage, invite) = (c.stage, c.invite);
        if stage != Stage::Ending {
            c.reason = reason;
        }
        let mut lines = self.retry_after();
        lines.extend_from_slice(reason.as_bytes());
        match stage {
            Stage::Held => self.refuse_call(call, &lines),
            Stage::Waiting => {
                self.calls.set_stage(call, Stage::Ending);
                let txn = self.txns.get(invite);
                if txn.is_some_and(Txn::is_unanswered) {
                    let sent = txn.is_some_and(|t| t.client.is_some());
                    self.answer(invite, 503, "Service Unavailable", &lines);
                    if sent {
                        self.cancel_downstream(invite);
                    } else {
                        self.end_call(call);
                    }
                }
                // Else its 2xx has passed and the ACK has not: no BYE before that (section 15). The 2xx may be lost twice.
                let ack_by = self.at() + self.timers.t1 * 4;
                if let Some(c) = self.calls.get_mut(call) {
                    c.ack_by = c.ack_by.map(|at| at.min(ack_by));
                }
                self.rearm_call(call);
            }
            Stage::InCall => {
                self.calls.set_stage(call, Stage::Ending);
                self.send_byes(call);
            }
            Stage::Ending => {}
        }
    }

    /// Sends a CANCEL for an INVITE that we sent on, now or when its first provisional answer allows it (section 9.1).
    pub(crate) fn cancel_downstream(&mut self, id: u64) {
        let Some(txn) = self.txns.get_mut(id) else {
            return;
        };
        let (Some(client), Some(down)) = (&txn.client, txn.down) else {
            return;
        };
        if txn.cancel.is_some() {
            return;
        }
        match client.state() {
            ClientState::Calling => {
                txn.cancel_wanted = true;
                return;
            }
            ClientState::Proceeding => {}
            ClientState::Completed | ClientState::Accepted | ClientState::Terminated => return,
        }
        let invite = client.packet().to_vec();
        // Empty unless it is we who end the call.
        let reason = match txn.role {
            Role::Invite { call } => self.calls.get(call).map_or("", |c| c.reason),
            _ => "",
        };
        let cancel = self.scan_own(&invite, |_, invite| {
            let mut out = Vec::new();
            edit::hop_request(&mut out, "CANCEL", invite, None, reason.as_bytes());
            Some(out)
        });
        let Some(cancel) = cancel else { return };
        let (now, reliable) = (self.at(), self.is_reliable(down));
        if let Some(txn) = self.txns.get_mut(id) {
            txn.cancel_wanted = false;
            txn.cancel = Some(ClientTransaction::new(
                now,
                Kind::NonInvite,
                reliable,
                cancel.clone(),
                &self.timers,
            ));
            if let Some(client) = &mut txn.client {
                client.cancelled(now, &self.timers);
            }
        }
        self.send(down, cancel, 0);
        self.rearm(id);
    }

    /// Sends a BYE to both ends of every dialog of a call.
    pub(crate) fn send_byes(&mut self, call: u64) {
        let Some(c) = self.calls.get_mut(call) else {
            return;
        };
        c.ack_by = None;
        let live: Vec<usize> = (0..c.legs.len()).filter(|&i| c.legs[i].is_live()).collect();
        if live.is_empty() {
            return self.end_call(call);
        }
        // All are counted before the first is sent: an answer may come at once.
        c.byes_pending = u8::try_from(live.len()).unwrap_or(u8::MAX);
        for leg in live {
            self.send_bye(call, leg, Side::Callee);
            self.send_bye(call, leg, Side::Caller);
        }
    }

    pub(crate) fn send_bye(&mut self, call: u64, leg: usize, to: Side) {
        let Some(flow) = self.own_flow(call, leg, to) else {
            return self.on_own_bye_done(call, to);
        };
        let id = self.insert_own(Role::OwnBye { call, leg, to }, flow);
        let via = self.via(flow, id, 0);
        let Some(c) = self.calls.get_mut(call) else {
            return;
        };
        let reason = c.reason;
        let Some(leg) = c.legs.get_mut(leg) else {
            return;
        };
        let mut out = Vec::new();
        leg.dialog.bye(&mut out, to, &via, reason.as_bytes());
        self.stats.bye_sent += 1;
        self.start_own(id, flow, out);
    }

    /// A transaction for a request of our own, which [`Self::start_own`] sends.
    fn insert_own(&mut self, role: Role, flow: Flow) -> u64 {
        self.txns.insert(Txn {
            method: Method::Bye,
            role,
            server: None,
            key: None,
            up: None,
            client: None,
            down: Some(flow),
            cancel: None,
            cancel_wanted: false,
            request: Vec::new(),
            from: None,
            target: None,
            session: None,
            armed: Duration::MAX,
            bytes_noted: 0,
        })
    }

    fn start_own(&mut self, id: u64, flow: Flow, packet: Vec<u8>) {
        let (now, reliable) = (self.at(), self.is_reliable(flow));
        if let Some(txn) = self.txns.get_mut(id) {
            txn.client = Some(ClientTransaction::new(
                now,
                Kind::NonInvite,
                reliable,
                packet.clone(),
                &self.timers,
            ));
        }
        self.send(flow, packet, id);
        self.rearm(id);
    }

    /// The callee answered after its caller was told 503: acknowledges it and hangs up.
    pub(crate) fn hang_up_below(&mut self, call: u64, leg: usize, cseq: u32) {
        let Some(flow) = self.own_flow(call, leg, Side::Callee) else {
            return;
        };
        self.ack_serial += 1;
        let via = self.via(flow, 1 << 63 | self.ack_serial, 0);
        let Some(c) = self.calls.get_mut(call) else {
            return;
        };
        let Some(l) = c.legs.get_mut(leg) else { return };
        let mut ack = Vec::new();
        l.dialog.ack(&mut ack, &via, cseq);
        let first = !std::mem::replace(&mut l.answered, true);
        if first {
            c.byes_pending = c.byes_pending.saturating_add(1);
        }
        self.send(flow, ack, 0);
        if first {
            self.send_bye(call, leg, Side::Callee);
        }
    }

    /// A BYE of ours was answered. One that is refused as out of order (section 12.2.2) goes once more with the highest
    /// number there is: the server may have taken a request for one of this dialog that we have not.
    pub(crate) fn on_own_bye_answered(&mut self, call: u64, leg: usize, to: Side, code: u16) {
        let dialog = self
            .calls
            .get_mut(call)
            .and_then(|c| c.legs.get_mut(leg))
            .map(|l| &mut l.dialog);
        if let Some(dialog) = dialog
            && to == Side::Callee
            && code == 500
            && dialog.caller.cseq < CSEQ_MAX
        {
            dialog.caller.cseq = CSEQ_MAX - 1;
            return self.send_bye(call, leg, to);
        }
        self.on_own_bye_done(call, to);
    }

    /// A BYE of ours was answered or given up.
    pub(crate) fn on_own_bye_done(&mut self, call: u64, to: Side) {
        let Some(c) = self.calls.get_mut(call) else {
            return;
        };
        if to == Side::Caller {
            return;
        }
        c.byes_pending = c.byes_pending.saturating_sub(1);
        if c.byes_pending == 0 {
            self.end_call(call);
        }
    }

    /// A BYE of one end was answered.
    pub(crate) fn on_bye_answered(&mut self, call: u64, leg: usize, end: ByeEnd) {
        let Some(c) = self.calls.get_mut(call) else {
            return;
        };
        let Some(leg) = c.legs.get_mut(leg) else {
            return;
        };
        leg.byes = leg.byes.saturating_sub(1);
        // The end of an early dialog is not that of its INVITE, which has an answer of its own to come.
        if !leg.answered {
            return;
        }
        leg.ended |= end == ByeEnd::Done;
        let stage = c.stage;
        if !matches!(stage, Stage::Waiting | Stage::InCall) {
            return;
        }
        if !c.has_live_leg() {
            self.stats.completed += u64::from(stage == Stage::InCall);
            self.end_call(call);
        } else if end == ByeEnd::Unsure {
            self.stats.completed += u64::from(stage == Stage::InCall);
            self.end_by_us(call, DEAD);
        }
    }

    /// A request inside a call got no answer, or one that says that the dialog is gone (section 12.2.1.2).
    pub(crate) fn on_dialog_failed(&mut self, call: u64, leg: usize, method: Method, code: u16) {
        if method == Method::Bye {
            return self.on_bye_answered(call, leg, ByeEnd::Unsure);
        }
        // A NOTIFY or REFER that fails so has lost its own usage of the dialog, not the call (RFC 5057 section 5.1).
        let of_call = matches!(method, Method::Invite | Method::Update | Method::Options);
        if of_call
            && matches!(code, 408 | 481)
            && self
                .calls
                .get(call)
                .is_some_and(|c| c.stage == Stage::InCall)
        {
            self.note_dead("dialog_failed");
            self.end_by_us(call, DEAD);
        }
    }

    fn note_dead(&mut self, cause: &'static str) {
        *self.stats.died.entry(cause).or_default() += 1;
        if let Some(held_back) = self.may_log(cause) {
            let front = &self.settings.name;
            tracing::info!(front, cause, held_back, "call is dead");
        }
    }

    /// A time limit of a call has come.
    pub(crate) fn on_call_due(&mut self, id: u64) {
        let now = self.at();
        let Some(c) = self.calls.get(id) else { return };
        let due = |at: Option<Duration>| at.is_some_and(|at| at <= now);
        if c.stage == Stage::Ending {
            return self.send_byes(id);
        }
        let cause = if due(c.ack_by) {
            "no_ack"
        } else if due(c.session_at) {
            "session_expired"
        } else if due(c.max_at) {
            "call_max"
        } else {
            return;
        };
        let (stage, invite) = (c.stage, c.invite);
        self.note_dead(cause);
        if stage == Stage::Held {
            let lines = self.retry_after();
            self.answer(invite, 503, "Service Unavailable", &lines);
            return self.end_call(id);
        }
        if cause == "no_ack" {
            // There will be no ACK to wait for.
            if let Some(c) = self.calls.get_mut(id) {
                c.reason = DEAD;
            }
            self.calls.set_stage(id, Stage::Ending);
            return self.send_byes(id);
        }
        if let Some(c) = self.calls.get_mut(id) {
            (c.max_at, c.session_at) = (None, None);
        }
        self.end_by_us(id, DEAD);
    }

    /// A call is over, and its slot is free.
    pub(crate) fn end_call(&mut self, call: u64) {
        let Some(c) = self.calls.remove(call) else {
            return;
        };
        if c.in_policy {
            self.tell_policy(selective::Input::Ended {
                call: CallKey(call),
            });
        }
    }
}
