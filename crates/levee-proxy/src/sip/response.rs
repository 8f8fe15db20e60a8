//! The way of a response back, and what it tells of a call.

use std::time::Duration;

use levee_sip::check::{self, ResponseParts};
use levee_sip::dialog::{self, Side};
use levee_sip::edit::{self, put};
use levee_sip::header::SessionExpires;
use levee_sip::transaction::Ack;
use levee_sip::wire::{Message, Method, Name};

use super::addresses::Zone;
use super::calls::Stage;
use super::ending::ByeEnd;
use super::front::Front;
use super::txn::Role;

impl Front {
    pub(crate) fn on_response(&mut self, msg: &Message<'_>) {
        let parts = match check::response(msg) {
            Ok(parts) => parts,
            Err(cause) => return self.drop_message(cause),
        };
        let Some(branch) = parts.via.branch().and_then(|b| self.keys.read_branch(b)) else {
            return self.drop_message("stray_response");
        };
        let (id, now) = (branch.id, self.at());
        let Some(txn) = self.txns.get_mut(id) else {
            return self.drop_message("late_response");
        };
        if parts.cseq.method == Method::Cancel && txn.method == Method::Invite {
            if let Some(cancel) = &mut txn.cancel {
                cancel.on_response(now, parts.code, &self.timers);
            }
            return self.rearm(id);
        }
        let Some(client) = &mut txn.client else {
            return self.drop_message("stray_response");
        };
        if parts.cseq.method != txn.method {
            return self.drop_message("cseq_mismatch");
        }
        let todo = client.on_response(now, parts.code, &self.timers);
        match todo.ack {
            Ack::No => {}
            Ack::Make => self.acknowledge(id, msg),
            Ack::Again => {
                let (bytes, down) = (client.packet().to_vec(), txn.down);
                if let Some(down) = down {
                    self.send(down, bytes, 0);
                }
            }
        }
        if todo.pass {
            self.on_passed_response(id, msg, &parts);
        }
        self.rearm(id);
    }

    /// Sends the ACK of an answer other than 2xx: hop by hop, so it is ours (section 17.1.1.3).
    fn acknowledge(&mut self, id: u64, response: &Message<'_>) {
        let Some(txn) = self.txns.get(id) else { return };
        let (Some(client), Some(down)) = (&txn.client, txn.down) else {
            return;
        };
        let invite = client.packet().to_vec();
        let ack = self.scan_own(&invite, |_, invite| {
            let mut out = Vec::new();
            edit::hop_request(&mut out, "ACK", invite, response.value(Name::To), b"");
            Some(out)
        });
        let Some(ack) = ack else { return };
        if let Some(client) = self.txns.get_mut(id).and_then(|t| t.client.as_mut()) {
            client.set_ack(ack.clone());
        }
        self.send(down, ack, 0);
    }

    fn on_passed_response(&mut self, id: u64, msg: &Message<'_>, parts: &ResponseParts<'_>) {
        let Some(txn) = self.txns.get(id) else { return };
        let (role, cancel_wanted) = (txn.role, txn.cancel_wanted);
        if cancel_wanted && parts.code < 200 {
            self.cancel_downstream(id);
        }
        match role {
            Role::OwnBye { call, leg, to } => {
                if parts.code >= 200 {
                    self.stats.bye_answered += 1;
                    self.on_own_bye_answered(call, leg, to, parts.code);
                }
                return;
            }
            Role::Invite { call } => {
                if !self.note_invite_answer(call, msg, parts) {
                    return;
                }
            }
            Role::InDialog { .. } | Role::Plain => {}
        }
        // 100 is hop by hop.
        if parts.code > 100 {
            self.pass_up(id, msg, parts);
        }
        if parts.code >= 200 {
            match role {
                Role::Invite { call } if parts.code >= 300 => {
                    let ours = self
                        .calls
                        .get(call)
                        .is_none_or(|c| c.stage == Stage::Ending);
                    // 487 is what a CANCEL wants; those are counted as cancelled.
                    self.stats.failed += u64::from(!ours && parts.code != 487);
                    self.end_call(call);
                }
                Role::InDialog { call, leg, from } => {
                    self.note_in_dialog_answer(id, (call, leg, from), msg, parts);
                }
                _ => {}
            }
        }
    }

    fn pass_up(&mut self, id: u64, msg: &Message<'_>, parts: &ResponseParts<'_>) {
        if !parts.via_count_at_least_2 {
            return self.drop_message("no_via_below");
        }
        let mut lines = Vec::new();
        let session = self.txns.get(id).and_then(|t| t.session);
        // The callee keeps no session timers but the caller can: then the caller refreshes (RFC 4028 section 8.2).
        if let Some(seconds) = session
            && (200..300).contains(&parts.code)
            && msg.first(Name::SessionExpires).is_none()
        {
            put(
                &mut lines,
                format_args!("Session-Expires: {seconds};refresher=uac\r\n"),
            );
            if !msg.has_option(Name::Require, b"timer") {
                put(&mut lines, format_args!("Require: timer\r\n"));
            }
        }
        let mut out = Vec::new();
        edit::forward_response(&mut out, msg, &lines);
        self.send_up(id, parts.code, out);
    }

    /// Takes note of an answer to the INVITE of a call. `false` if the caller is not to have it.
    fn note_invite_answer(
        &mut self,
        call: u64,
        msg: &Message<'_>,
        parts: &ResponseParts<'_>,
    ) -> bool {
        let leg = self.note_leg(call, msg, parts);
        let success = (200..300).contains(&parts.code);
        let Some(c) = self.calls.get(call) else {
            // A fork's answer after the call has ended: nobody would count what it begins. Its sender gives it up.
            if success {
                self.drop_message("late_answer");
            }
            return !success;
        };
        if success && leg.is_none() {
            self.drop_message("untracked_dialog");
            return false;
        }
        if c.stage == Stage::Ending && c.ack_by.is_none() {
            // The caller has its 503 already. What is up below has to come down again.
            if success && let Some(leg) = leg {
                self.hang_up_below(call, leg, parts.cseq.number);
                return false;
            }
            return true;
        }
        if !success {
            return true;
        }
        let seconds = msg
            .value(Name::SessionExpires)
            .and_then(|v| SessionExpires::parse(v).ok())
            .map(|s| s.seconds)
            .or_else(|| self.txns.get(c.invite).and_then(|t| t.session));
        let (now, timeout) = (self.at(), self.timers.timeout());
        let Some(c) = self.calls.get_mut(call) else {
            return true;
        };
        if let Some(leg) = leg {
            c.legs[leg].answered = true;
        }
        c.session_at = seconds.map(|s| now + Duration::from_secs(s.into()));
        if c.stage == Stage::Waiting && c.ack_by.is_none() {
            // Nobody may hold a slot with an answer that is never acknowledged (section 13.3.1.4).
            c.ack_by = Some(now + timeout);
        }
        self.rearm_call(call);
        true
    }

    /// The dialog of a response to a call's INVITE, if it makes one.
    fn note_leg(
        &mut self,
        call: u64,
        msg: &Message<'_>,
        parts: &ResponseParts<'_>,
    ) -> Option<usize> {
        if !(101..300).contains(&parts.code) {
            return None;
        }
        let (from, to) = (parts.from.tag().unwrap_or_default(), parts.to.tag()?);
        let key = self.keys.dialog(parts.call_id, from, to);
        let below = self.calls.get(call)?.routes_below;
        let party = || dialog::callee(msg, parts, below);
        let leg = self.calls.leg(call, key, parts.code >= 200, party)?;
        // The first 2xx has the last word on Contact and route set (section 13.2.2.4); when it comes again, a refresh may have
        // moved them since.
        if parts.code >= 200
            && let Some(mut fresh) = party()
            && let Some(l) = self.calls.get_mut(call).and_then(|c| c.legs.get_mut(leg))
            && !l.answered
        {
            fresh.cseq = l.dialog.callee.cseq;
            l.dialog.callee = fresh;
        }
        Some(leg)
    }

    fn note_in_dialog_answer(
        &mut self,
        id: u64,
        (call, leg, from): (u64, usize, Side),
        msg: &Message<'_>,
        parts: &ResponseParts<'_>,
    ) {
        let method = parts.cseq.method;
        let success = (200..300).contains(&parts.code);
        if method == Method::Bye {
            let end = match parts.code {
                401 | 407 => ByeEnd::Challenged,
                _ if success && self.server_heard(id, from) => ByeEnd::Done,
                _ => ByeEnd::Unsure,
            };
            return self.on_bye_answered(call, leg, end);
        }
        if success && matches!(method, Method::Invite | Method::Update) {
            return self.note_refresh(id, (call, leg, from), msg);
        }
        self.on_dialog_failed(call, leg, method, parts.code);
    }

    /// An INVITE or UPDATE inside a call succeeded: session timer and remote targets are new.
    fn note_refresh(&mut self, id: u64, (call, leg, from): (u64, usize, Side), msg: &Message<'_>) {
        let now = self.at();
        let heard = self.server_heard(id, from);
        let Some(txn) = self.txns.get_mut(id) else {
            return;
        };
        let target = txn.target.take().filter(|_| heard);
        let (source, asked) = (txn.from, txn.session);
        let moved = source.filter(|f| from == Side::Caller && self.zone(*f) == Zone::Outside);
        let session = msg
            .value(Name::SessionExpires)
            .and_then(|v| SessionExpires::parse(v).ok())
            .map(|s| s.seconds)
            .or(asked);
        let Some(c) = self.calls.get_mut(call) else {
            return;
        };
        // An answer that names none ends the timer (RFC 4028 section 7.2): nobody would refresh any more.
        c.session_at = session.map(|s| now + Duration::from_secs(s.into()));
        if let Some(flow) = moved {
            c.source = flow;
        }
        if let Some(l) = c.legs.get_mut(leg) {
            l.dialog.on_request(from, 0, target.as_deref());
            l.dialog
                .on_request(from.other(), 0, dialog::contact_uri(msg));
        }
        self.rearm_call(call);
    }
}
