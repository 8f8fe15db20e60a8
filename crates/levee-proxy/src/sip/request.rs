//! The way of a request: checks, transaction, dialog, and on.

use std::time::Duration;

use levee_policy::selective::{self, Arrival, CallKey};
use levee_sip::check::{self, RequestParts};
use levee_sip::dialog::{self, Side};
use levee_sip::edit::{self, put};
use levee_sip::header::{SessionExpires, vias};
use levee_sip::keys::ServerKey;
use levee_sip::wire::{Message, Method, Name};

use super::addresses::{Flow, Zone};
use super::calls::{Call, Stage};
use super::front::Front;
use super::txn::{Role, Txn};

/// The highest CSeq number (RFC 3261 section 8.1.1.5).
pub(crate) const CSEQ_MAX: u32 = (1 << 31) - 1;

impl Front {
    pub(crate) fn on_request(&mut self, flow: Flow, msg: &Message<'_>) {
        let parts = match check::request(msg) {
            Ok(parts) => parts,
            Err(reject) => return self.reject(flow, msg, &reject),
        };
        let zone = self.zone(flow);
        let now_ns = self.now.as_nanos();
        if zone == Zone::Outside
            && parts.method != Method::Ack
            && !self
                .sources
                .take(now_ns, super::addresses::source_of(flow.peer.ip()))
        {
            return self.drop_message("source_rate");
        }
        // A BYE of ours has to be able to top it.
        if zone == Zone::Outside && parts.cseq.number >= CSEQ_MAX {
            self.drop_message("bad_cseq");
            if parts.method != Method::Ack {
                self.answer_stateless(flow, msg, &parts.via, (400, "CSeq Too High"), b"");
            }
            return;
        }
        match parts.method {
            Method::Ack => self.on_ack(flow, msg, &parts),
            Method::Cancel => self.on_cancel(flow, msg, &parts),
            _ => {
                let key = self.keys.server(&parts, parts.method);
                match self.by_key.get(&key) {
                    Some(&id) => self.on_request_again(id),
                    None => self.on_new_request(flow, zone, msg, &parts, key),
                }
            }
        }
    }

    fn on_request_again(&mut self, id: u64) {
        self.stats.absorbed += 1;
        let Some(txn) = self.txns.get(id) else { return };
        let (Some(server), Some(up)) = (&txn.server, txn.up) else {
            return;
        };
        if server.on_request_again() {
            let bytes = server.last().to_vec();
            self.send(up, bytes, 0);
        }
    }

    fn on_new_request(
        &mut self,
        flow: Flow,
        zone: Zone,
        msg: &Message<'_>,
        parts: &RequestParts<'_>,
        key: ServerKey,
    ) {
        if self.has_looped(msg, parts, zone) {
            return self.answer_stateless(flow, msg, &parts.via, (482, "Loop Detected"), b"");
        }
        let role = self.dialog_role(parts);
        if !self.has_room(role) {
            self.drop_message("transactions_full");
            let lines = self.retry_after();
            return self.answer_stateless(
                flow,
                msg,
                &parts.via,
                (503, "Service Unavailable"),
                &lines,
            );
        }
        if zone == Zone::Server && self.is_for_us(msg, parts) {
            let (code, reason) = if parts.method == Method::Options {
                (200, "OK")
            } else {
                (404, "Not Found")
            };
            return self.answer_stateless(flow, msg, &parts.via, (code, reason), b"");
        }
        let begins_call = parts.method == Method::Invite
            && parts.to.tag().is_none()
            && zone == Zone::Outside
            && !self.passes_uncounted();
        if begins_call && !self.may_begin_call(flow, msg, parts) {
            return;
        }
        let id = self.insert_txn(Txn {
            method: parts.method,
            role,
            server: Some(self.new_server(parts.method, flow)),
            key: Some(key),
            up: Some(self.answer_flow(flow, &parts.via)),
            client: None,
            down: None,
            cancel: None,
            cancel_wanted: false,
            request: Vec::new(),
            from: Some(flow),
            target: None,
            session: None,
            armed: Duration::MAX,
            bytes_noted: 0,
        });
        // A new call gets it when the defence has not refused it: see `refuse_call`.
        if parts.method == Method::Invite && !begins_call {
            self.answer_trying(id, flow, msg);
        }
        if let Role::InDialog { call, leg, from } = role {
            self.note_in_dialog(id, (call, leg, from), msg, parts);
        }
        if begins_call {
            self.begin_call(id, flow, msg, parts);
            if self.txns.get(id).is_some_and(Txn::is_unanswered) {
                self.answer_trying(id, flow, msg);
            }
        } else {
            self.pass_on(id, msg, parts);
        }
    }

    /// Whether there is room for a transaction. A flood must not keep those who have a call from hanging up: an eighth of
    /// the table is theirs.
    fn has_room(&self, role: Role) -> bool {
        let inside = matches!(role, Role::InDialog { .. });
        let most = |limit: usize| limit - if inside { 0 } else { limit / 8 };
        let limits = &self.settings.limits;
        self.txns.len() < most(limits.transactions_max)
            && self.txn_bytes < most(limits.transaction_bytes_max)
    }

    /// 100 at once: the server, or the wait for a slot, may take its time (section 16.2).
    fn answer_trying(&mut self, id: u64, flow: Flow, msg: &Message<'_>) {
        let mut out = Vec::new();
        let stamp = Some(edit::Stamp { source: flow.peer });
        let reply = edit::Reply {
            code: 100,
            reason: "Trying",
            stamp,
            to_tag: b"",
            lines: b"",
        };
        edit::reply(&mut out, msg, &reply);
        self.send_up(id, 100, out);
    }

    /// Whether a request has been here before and nothing changed since that decides its way (RFC 5393).
    fn has_looped(&self, msg: &Message<'_>, parts: &RequestParts<'_>, zone: Zone) -> bool {
        let mut hash = None;
        msg.all(Name::Via)
            .flat_map(|h| vias(h.value).flatten())
            .filter_map(|l| self.keys.read_branch(l.item.branch()?))
            .any(|b| {
                b.loop_hash
                    == *hash.get_or_insert_with(|| self.keys.loop_hash(msg, parts, zone as u8))
            })
    }

    /// Whether the server means ourselves, and not somebody behind us.
    fn is_for_us(&self, msg: &Message<'_>, parts: &RequestParts<'_>) -> bool {
        parts.to.tag().is_none()
            && msg.first(Name::Route).is_none()
            && self.addresses.is_us_uri(&parts.uri)
    }

    /// The call that a request is inside of, if we know it.
    fn dialog_role(&self, parts: &RequestParts<'_>) -> Role {
        // RFC 2543 knows a caller without a tag.
        let from = parts.from.tag().unwrap_or_default();
        let Some(to) = parts.to.tag() else {
            return Role::Plain;
        };
        let Some((call, leg)) = self
            .calls
            .by_dialog(self.keys.dialog(parts.call_id, from, to))
        else {
            return Role::Plain;
        };
        match self.calls.get(call).and_then(|c| c.legs.get(leg)) {
            Some(l) => Role::InDialog {
                call,
                leg,
                from: l.dialog.sender(from),
            },
            None => Role::Plain,
        }
    }

    fn note_in_dialog(
        &mut self,
        id: u64,
        (call, leg, from): (u64, usize, Side),
        msg: &Message<'_>,
        parts: &RequestParts<'_>,
    ) {
        // Only these move a remote target (RFC 3261 section 12.2, RFC 3311 section 5), and not before they succeed.
        if matches!(parts.method, Method::Invite | Method::Update)
            && let Some(txn) = self.txns.get_mut(id)
        {
            txn.target = dialog::contact_uri(msg).map(Box::from);
        }
        let Some(leg) = self.calls.get_mut(call).and_then(|c| c.legs.get_mut(leg)) else {
            return;
        };
        leg.dialog.on_request(from, parts.cseq.number, None);
        if parts.method == Method::Bye {
            leg.byes = leg.byes.saturating_add(1);
        }
    }

    // A new call.

    /// Whether a further call is passed on without being tracked: bypass and a dry run refuse nobody.
    fn passes_uncounted(&mut self) -> bool {
        let lenient = self.settings.bypass || self.settings.dry_run;
        let full = self.calls.len() >= self.settings.limits.calls_max;
        if lenient && full && !self.stats.draining {
            self.stats.arrivals += 1;
            self.stats.spared += 1;
            return true;
        }
        false
    }

    /// Answers a new call that cannot be taken whatever the defence says.
    fn may_begin_call(&mut self, flow: Flow, msg: &Message<'_>, parts: &RequestParts<'_>) -> bool {
        let cause = if self.stats.draining {
            "draining"
        } else if self.calls.len() >= self.settings.limits.calls_max {
            "calls_full"
        } else if self.asks_too_short_a_session(msg) {
            let mut lines = Vec::new();
            put(
                &mut lines,
                format_args!("Min-SE: {}\r\n", self.settings.session.min_se.as_secs()),
            );
            self.answer_stateless(
                flow,
                msg,
                &parts.via,
                (422, "Session Interval Too Small"),
                &lines,
            );
            return false;
        } else {
            return true;
        };
        self.stats.arrivals += 1;
        *self.stats.refused.entry(cause).or_default() += 1;
        let lines = self.retry_after();
        self.answer_stateless(flow, msg, &parts.via, (503, "Service Unavailable"), &lines);
        false
    }

    /// RFC 4028 section 8.1: 422 is for a caller that can do something about it.
    fn asks_too_short_a_session(&self, msg: &Message<'_>) -> bool {
        let asked = msg
            .value(Name::SessionExpires)
            .and_then(|v| SessionExpires::parse(v).ok());
        let min = self.settings.session.min_se.as_secs();
        asked.is_some_and(|s| u64::from(s.seconds) < min)
            && msg.has_option(Name::Supported, b"timer")
    }

    /// Puts a Session-Expires into an INVITE that has none, if we are to (RFC 4028 section 8.1). Each refresh negotiates
    /// anew, so one inside a call is treated as the first was.
    pub(crate) fn ask_for_session_timer(
        &mut self,
        id: u64,
        msg: &Message<'_>,
        method: Method,
        lines: &mut Vec<u8>,
    ) {
        if !matches!(method, Method::Invite | Method::Update) {
            return;
        }
        let ours = self.settings.session.expires;
        let there = msg
            .value(Name::SessionExpires)
            .and_then(|v| SessionExpires::parse(v).ok());
        let seconds = match there {
            Some(s) => Some(s.seconds),
            None => ours.filter(|_| method == Method::Invite).map(|e| {
                let seconds = u32::try_from(e.as_secs()).unwrap_or(u32::MAX);
                put(lines, format_args!("Session-Expires: {seconds}\r\n"));
                seconds
            }),
        };
        if let Some(txn) = self.txns.get_mut(id) {
            txn.session = seconds.filter(|_| msg.has_option(Name::Supported, b"timer"));
        }
    }

    fn begin_call(&mut self, id: u64, flow: Flow, msg: &Message<'_>, parts: &RequestParts<'_>) {
        self.stats.arrivals += 1;
        let neighbour = msg
            .all(Name::Via)
            .flat_map(|h| vias(h.value))
            .nth(1)
            .is_none();
        let sticky = neighbour && (parts.via.wants_rport() || self.is_reliable(flow));
        let call = self.calls.insert(Call {
            stage: Stage::Held,
            invite: id,
            call_id: parts.call_id.into(),
            caller: dialog::caller(msg, parts),
            source: flow,
            sticky,
            routes_below: dialog::record_route_count(msg),
            down: None,
            legs: Vec::new(),
            in_policy: !self.settings.bypass,
            max_at: self.settings.session.call_max.map(|max| self.at() + max),
            session_at: None,
            ack_by: None,
            byes_pending: 0,
            reason: "",
            armed: Duration::MAX,
        });
        let Some(txn) = self.txns.get_mut(id) else {
            return;
        };
        txn.role = Role::Invite { call };
        txn.request = msg.bytes().to_vec();
        self.rearm(id);
        self.rearm_call(call);
        if self.settings.bypass {
            return self.forward_call(call);
        }
        let source = flow.peer.ip();
        let arrival = Arrival {
            call: CallKey(call),
            class: self.classes.class(msg, &parts.uri, source),
            phase: selective::PhaseId::default(),
            caller: self.classes.caller(msg, parts),
            source: Some(self.classes.source(source)),
        };
        self.tell_policy(selective::Input::Arrive(arrival));
    }

    /// Passes a call's INVITE on to the server.
    pub(crate) fn forward_call(&mut self, call: u64) {
        let Some(c) = self.calls.get(call) else {
            return;
        };
        if c.stage != Stage::Held {
            return;
        }
        let invite = c.invite;
        self.calls.set_stage(call, Stage::Waiting);
        self.stats.forwarded += 1;
        self.pass_on_kept(invite);
    }

    // ACK and CANCEL.

    fn on_ack(&mut self, flow: Flow, msg: &Message<'_>, parts: &RequestParts<'_>) {
        let now = self.at();
        let key = self.keys.server(parts, Method::Invite);
        if let Some(&id) = self.by_key.get(&key)
            && let Some(txn) = self.txns.get_mut(id)
            && let Some(server) = &mut txn.server
        {
            use levee_sip::transaction::ServerState;
            // One that has the branch of an accepted INVITE is of RFC 2543, and goes to the callee.
            if server.state() != ServerState::Accepted {
                server.on_ack(now, &self.timers);
                self.rearm(id);
                return;
            }
        }
        let mut ours = Vec::new();
        self.keys
            .to_tag(&mut ours, parts.call_id, Some(&parts.from));
        if parts.to.tag() == Some(&ours) {
            // It acknowledges an answer of ours for which nothing was kept.
            return;
        }
        let role = self.dialog_role(parts);
        self.pass_ack(flow, msg, parts, role);
        // An early dialog has nothing to acknowledge: its ACK would make a ringing call look like one in progress.
        if let Role::InDialog {
            call,
            leg,
            from: Side::Caller,
        } = role
            && self
                .calls
                .get(call)
                .and_then(|c| c.legs.get(leg))
                .is_some_and(|l| l.answered)
        {
            self.on_call_acked(call);
        }
    }

    fn on_call_acked(&mut self, call: u64) {
        let Some(c) = self.calls.get(call) else {
            return;
        };
        match c.stage {
            Stage::Waiting => {
                let in_policy = c.in_policy;
                self.calls.set_stage(call, Stage::InCall);
                if let Some(c) = self.calls.get_mut(call) {
                    c.ack_by = None;
                }
                self.stats.answered += 1;
                if in_policy {
                    self.tell_policy(selective::Input::Answered {
                        call: CallKey(call),
                    });
                }
            }
            Stage::Ending if c.ack_by.is_some() => self.send_byes(call),
            Stage::Held | Stage::InCall | Stage::Ending => {}
        }
    }

    fn on_cancel(&mut self, flow: Flow, msg: &Message<'_>, parts: &RequestParts<'_>) {
        let key = self.keys.server(parts, Method::Invite);
        let Some(&id) = self.by_key.get(&key) else {
            return self.answer_stateless(
                flow,
                msg,
                &parts.via,
                (481, "Call/Transaction Does Not Exist"),
                b"",
            );
        };
        // Each copy of a CANCEL gets its 200; what it asks for is done once.
        self.answer_stateless(flow, msg, &parts.via, (200, "OK"), b"");
        let Some(txn) = self.txns.get(id) else { return };
        if !txn.is_unanswered() {
            return;
        }
        let (role, unsent) = (txn.role, txn.client.is_none());
        if let Role::Invite { .. } = role {
            self.stats.cancelled += u64::from(!txn.cancel_wanted && txn.cancel.is_none());
        }
        if unsent {
            self.fail_unsent(id, 487, "Request Terminated");
        } else {
            self.cancel_downstream(id);
        }
    }

    /// Answers a request that was never sent on; a call that it began is over.
    pub(crate) fn fail_unsent(&mut self, id: u64, code: u16, reason: &'static str) {
        let Some(role) = self.txns.get(id).map(|t| t.role) else {
            return;
        };
        self.answer(id, code, reason, b"");
        match role {
            Role::Invite { call } => {
                self.stats.failed += u64::from(code != 487);
                self.end_call(call);
            }
            Role::InDialog { call, leg, .. } => {
                let method = self.txns.get(id).map_or(Method::Other, |t| t.method);
                self.on_dialog_failed(call, leg, method, code);
            }
            Role::Plain | Role::OwnBye { .. } => {}
        }
    }

    /// `Retry-After` of our refusals.
    pub(crate) fn retry_after(&self) -> Vec<u8> {
        retry_after_line(self.settings.defense.retry_after)
    }
}

/// `Retry-After` in whole seconds, at least 1: an end that reads 0 comes back at once.
pub(crate) fn retry_after_line(span: levee_policy::Span) -> Vec<u8> {
    let mut line = Vec::new();
    put(
        &mut line,
        format_args!(
            "Retry-After: {}\r\n",
            span.as_millis().div_ceil(1000).max(1)
        ),
    );
    line
}
