//! The callers: calls opened at random times, honest ones that hang up when they are done and attackers that stay.
//!
//! An open loop: nobody waits for anybody, so a server that is slow meets the same calls as one that is fast.
//! Honest calls and attackers' send the same messages; only the record of the call knows which is which.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use levee_sip::wire::{Message, Method, Scanner};

use crate::driver::Role;
use crate::outcome::{Board, CallRecord, Outcome, Sample, Tally};
use crate::ua::{
    Core, Dialog, Expired, Incoming, Key, Outbox, Outgoing, Owner, Side, Slab, Timers, Traffic,
    TransactionTimers, no_body, send_ack, send_in_dialog, session_answer, silent_sdp,
};
use levee_sim::schedule::{Arrival, Kind, Schedule};

/// What the callers do.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// Where calls are sent: the front, or the server itself.
    pub next_hop: SocketAddr,
    /// The server that they are for: the host of the Request-URI.
    pub server: SocketAddr,
    /// The end of the run: no call begins, and what is connected counts as complete.
    pub horizon: Duration,
    /// How long calls still being set up at the horizon may take.
    pub grace: Duration,
    /// How long a caller lets it ring.
    pub ring_timeout: Duration,
    /// An attacker that is refused or dropped calls again after this time.
    pub redial: Option<Duration>,
    /// Between two samples of the board.
    pub sample_every: Duration,
    /// Calls open at once; one more is not made and counts as unsuccessful.
    pub calls_max: usize,
    /// SIP's timers.
    pub timers: TransactionTimers,
}

impl LoadConfig {
    /// Usual values, for calls to `server` through `next_hop`.
    #[must_use]
    pub fn new(next_hop: SocketAddr, server: SocketAddr, horizon: Duration) -> Self {
        Self {
            next_hop,
            server,
            horizon,
            grace: Duration::from_secs(2),
            ring_timeout: Duration::from_secs(30),
            redial: None,
            sample_every: (horizon / 600).max(Duration::from_millis(50)),
            calls_max: 200_000,
            timers: TransactionTimers::default(),
        }
    }
}

/// What the callers saw.
#[derive(Clone, Debug, Default)]
pub struct LoadResult {
    /// Each call, in order of its beginning.
    pub calls: Vec<CallRecord>,
    /// Calls not made because of [`LoadConfig::calls_max`].
    pub not_made: u64,
    /// BYEs of ours that were not answered 200.
    pub bye_failed: u64,
    /// BYEs that came and were answered 200.
    pub bye_answered: u64,
    /// BYEs that cut nothing any more: the caller had hung up itself, or the run had ended.
    pub bye_crossed: u64,
    /// How far the callers were behind their plan at worst: more than some milliseconds means an overloaded machine.
    pub late_max: Duration,
    /// Datagrams.
    pub traffic: Traffic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Inviting,
    /// The caller has given up, and waits for the end of its INVITE.
    Cancelling,
    InCall,
    /// The caller has hung up, and waits for the answer to its BYE.
    Ending,
}

#[derive(Debug)]
struct Call {
    record: usize,
    kind: Kind,
    state: State,
    invite: Key,
    /// A re-INVITE from the other side that we have answered.
    reinvite: Option<Key>,
    dialog: Option<Dialog>,
    ack: Vec<u8>,
    arrival: Arrival,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    Arrival,
    Again(Arrival),
    HangUp(Key),
    RingTimeout(Key),
    /// No answer to a cancelled INVITE: RFC 3261 section 9.1.
    Abandon(Key),
    Sample,
    Horizon,
    GraceOver,
    Close,
}

/// The callers of one run.
#[derive(Debug)]
pub(crate) struct Load {
    config: LoadConfig,
    core: Core,
    scanner: Scanner,
    schedule: Schedule,
    next: Option<Arrival>,
    calls: Slab<Call>,
    timers: Timers<Due>,
    /// A record whose `open` flag is set has not got its outcome yet.
    records: Vec<(CallRecord, bool)>,
    tallies: [Tally; 2],
    board: Board,
    sdp: Vec<u8>,
    /// The newest time that we were told.
    now: Duration,
    over: bool,
    closed: bool,
    result: LoadResult,
}

/// After the last BYE, for their answers.
const CLOSING: Duration = Duration::from_secs(2);

impl Load {
    pub(crate) fn new(
        local: SocketAddr,
        config: LoadConfig,
        mut schedule: Schedule,
        board: Board,
    ) -> Self {
        let mut timers = Timers::new();
        let next = schedule.next();
        if let Some(first) = next {
            timers.set(first.at, Due::Arrival);
        }
        timers.set(Duration::ZERO, Due::Sample);
        timers.set(config.horizon, Due::Horizon);
        Self {
            core: Core::new(local, config.timers),
            config,
            scanner: Scanner::default(),
            schedule,
            next,
            calls: Slab::new(),
            timers,
            records: Vec::new(),
            tallies: [Tally::default(); 2],
            board,
            sdp: silent_sdp(local),
            now: Duration::ZERO,
            over: false,
            closed: false,
            result: LoadResult::default(),
        }
    }

    /// What was seen.
    pub(crate) fn into_result(mut self) -> LoadResult {
        if !self.over {
            // Stopped early: that is the end of the run.
            self.config.horizon = self.now;
            self.horizon(self.now);
        }
        self.result.calls = self.records.into_iter().map(|(r, _)| r).collect();
        self.result.traffic = self.core.traffic();
        self.result
    }

    fn arrival(&mut self, now: Duration, out: &mut Outbox) {
        while let Some(arrival) = self.next.filter(|a| a.at <= now) {
            self.result.late_max = self.result.late_max.max(now - arrival.at);
            self.call(now, arrival, out);
            self.next = self.schedule.next();
        }
        if let Some(next) = self.next.filter(|_| !self.over) {
            self.timers.set(next.at, Due::Arrival);
        }
    }

    fn call(&mut self, now: Duration, arrival: Arrival, out: &mut Outbox) {
        let record = self.records.len();
        let kind = arrival.kind;
        self.tallies[kind.index()].attempted += 1;
        self.tallies[kind.index()].waiting += 1;
        let blank = CallRecord {
            kind,
            due: arrival.at,
            start: now,
            setup: None,
            wanted: arrival.wanted,
            got: Duration::ZERO,
            outcome: Outcome::Unsuccessful,
            status: 0,
            still_connected: false,
        };
        self.records.push((blank, true));
        if self.calls.len() >= self.config.calls_max {
            self.result.not_made += 1;
            self.close_record(record, Outcome::Unsuccessful, now, 0);
            self.redial(now, &arrival);
            return;
        }
        let owner = Owner {
            call: self.calls.next_key(),
            side: Side::A,
        };
        let (core, config) = (&mut self.core, &self.config);
        let invite = send_invite(core, config, &self.sdp, now, owner, &arrival, out);
        let key = self.calls.insert(Call {
            record,
            kind,
            state: State::Inviting,
            invite,
            reinvite: None,
            dialog: None,
            ack: Vec::new(),
            arrival,
        });
        self.timers
            .set(now + self.config.ring_timeout, Due::RingTimeout(key));
    }

    fn response(
        &mut self,
        now: Duration,
        owner: Owner,
        method: Method,
        code: u16,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let Some(call) = self.calls.get_mut(owner.call) else {
            return;
        };
        match (method, code) {
            (Method::Invite, 100..200) if call.state == State::Cancelling => {
                self.core.cancel(now, call.invite, out);
            }
            (Method::Invite, 200..300) => self.answered(now, owner, message, out),
            (Method::Invite, 300..) => self.refused(now, owner.call, code),
            (Method::Bye, 200..) => {
                self.result.bye_failed += u64::from(code >= 300);
                self.calls.remove(owner.call);
            }
            _ => {}
        }
    }

    fn answered(&mut self, now: Duration, owner: Owner, message: &Message<'_>, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(owner.call) else {
            return;
        };
        if call.dialog.is_some() {
            out.push(
                call.dialog
                    .as_ref()
                    .map_or(self.config.next_hop, Dialog::next_hop),
                &call.ack,
            );
            return;
        }
        let Some(dialog) = Dialog::of_caller(message, self.config.next_hop) else {
            // A 200 without Contact cannot be acknowledged nor ended.
            self.refused(now, owner.call, 200);
            return;
        };
        call.ack = send_ack(&mut self.core, &dialog, out);
        call.dialog = Some(dialog);
        if call.state == State::Cancelling {
            // The answer crossed the CANCEL: RFC 3261 section 9.1 wants a BYE.
            let (record, arrival) = (call.record, call.arrival);
            self.close_record(record, Outcome::Unsuccessful, now, 487);
            self.send_bye(now, owner.call, out);
            self.redial(now, &arrival);
            return;
        }
        call.state = State::InCall;
        let Some((record, true)) = self.records.get_mut(call.record) else {
            return;
        };
        record.setup = Some(now - record.start);
        record.status = 200;
        let tally = &mut self.tallies[call.kind.index()];
        tally.waiting -= 1;
        tally.in_call += 1;
        if self.over {
            let (record, start) = (call.record, now);
            self.close_record(record, Outcome::Complete, start, 200);
            return;
        }
        if let Some(wanted) = call.arrival.wanted {
            self.timers
                .set(now.saturating_add(wanted), Due::HangUp(owner.call));
        }
    }

    fn refused(&mut self, now: Duration, key: Key, code: u16) {
        let Some(call) = self.calls.remove(key) else {
            return;
        };
        self.close_record(call.record, Outcome::Unsuccessful, now, code);
        self.redial(now, &call.arrival);
    }

    /// An attacker whose call was refused, dropped, or not answered in time calls again.
    fn redial(&mut self, now: Duration, last: &Arrival) {
        let wait = self.config.redial.filter(|_| last.kind == Kind::Attacker);
        if let Some(wait) = wait.filter(|_| !self.over) {
            let again = Arrival {
                at: now + wait,
                ..*last
            };
            self.timers.set(again.at, Due::Again(again));
        }
    }

    /// Writes the outcome of a call, once; whether this was the time.
    fn close_record(&mut self, index: usize, outcome: Outcome, now: Duration, status: u16) -> bool {
        let Some((record, open)) = self.records.get_mut(index) else {
            return false;
        };
        if !std::mem::replace(open, false) {
            return false;
        }
        let tally = &mut self.tallies[record.kind.index()];
        record.outcome = outcome;
        match record.setup {
            Some(setup) => {
                // Only what lies inside the run counts.
                let end = now.min(self.config.horizon);
                record.got = end.saturating_sub(record.start + setup);
                record.still_connected = outcome == Outcome::Complete && self.over;
                tally.in_call -= 1;
            }
            None => {
                record.status = status;
                tally.waiting -= 1;
            }
        }
        tally.ended(outcome);
        true
    }

    fn hang_up(&mut self, now: Duration, key: Key, out: &mut Outbox) {
        if let Some(call) = self.calls.get(key).filter(|c| c.state == State::InCall) {
            let record = call.record;
            self.close_record(record, Outcome::Complete, now, 200);
            self.send_bye(now, key, out);
        }
    }

    fn send_bye(&mut self, now: Duration, key: Key, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(key) else {
            return;
        };
        call.state = State::Ending;
        if let Some(dialog) = &mut call.dialog {
            let owner = Owner {
                call: key,
                side: Side::A,
            };
            send_in_dialog(
                &mut self.core,
                now,
                owner,
                dialog,
                (Method::Bye, "BYE"),
                out,
            );
        }
    }

    fn give_up(&mut self, now: Duration, key: Key, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(key) else {
            return;
        };
        if call.state != State::Inviting {
            return;
        }
        call.state = State::Cancelling;
        // Without a provisional answer yet, the CANCEL waits for one.
        self.core.cancel(now, call.invite, out);
        self.timers
            .set(now + self.core.base().give_up(), Due::Abandon(key));
    }

    fn request(
        &mut self,
        now: Duration,
        transaction: Key,
        method: Method,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let owner = Owner::of_request(message);
        let found = owner.and_then(|o| Some((o, self.calls.get_mut(o.call)?)));
        let Some((owner, call)) = found else {
            self.result.bye_crossed += u64::from(method == Method::Bye);
            let code = match method {
                Method::Options => 200,
                Method::Invite | Method::Register => 405,
                _ => 481,
            };
            self.core.respond(now, transaction, code, out, no_body);
            return;
        };
        self.core.adopt(transaction, owner);
        if !call.dialog.as_mut().is_some_and(|d| d.accepts(message)) {
            self.core.respond(now, transaction, 500, out, no_body);
            return;
        }
        match method {
            Method::Bye => {
                self.core.respond(now, transaction, 200, out, no_body);
                self.result.bye_answered += 1;
                let Some(call) = self.calls.remove(owner.call) else {
                    return;
                };
                let cut = self.close_record(call.record, Outcome::Incomplete, now, 200);
                self.result.bye_crossed += u64::from(!cut);
                // A call that its caller had given up has had its redial.
                if cut {
                    self.redial(now, &call.arrival);
                }
            }
            Method::Invite | Method::Update => {
                if method == Method::Invite {
                    call.reinvite = Some(transaction);
                }
                let (local, sdp) = (self.core.local(), &self.sdp);
                let user = user_of(call.arrival.caller);
                self.core.respond(now, transaction, 200, out, |bytes| {
                    session_answer(bytes, local, &user, sdp);
                });
            }
            Method::Options => self.core.respond(now, transaction, 200, out, no_body),
            _ => self.core.respond(now, transaction, 501, out, no_body),
        }
    }

    fn sample(&mut self, now: Duration) {
        self.board.post(Sample {
            at_s: now.as_secs_f64(),
            honest: self.tallies[0],
            attacker: self.tallies[1],
        });
    }

    /// The run is over: what is connected stays counted as it is.
    fn horizon(&mut self, now: Duration) {
        self.sample(now);
        self.over = true;
        self.next = None;
        for key in self.calls.keys() {
            let Some(call) = self.calls.get(key) else {
                continue;
            };
            if call.state == State::InCall {
                let record = call.record;
                self.close_record(record, Outcome::Complete, now, 200);
            }
        }
        self.timers.set(now + self.config.grace, Due::GraceOver);
    }

    fn grace_over(&mut self, now: Duration, out: &mut Outbox) {
        for key in self.calls.keys() {
            match self.calls.get(key).map(|c| (c.state, c.record)) {
                Some((State::InCall, _)) => self.send_bye(now, key, out),
                Some((State::Inviting, record)) => {
                    self.close_record(record, Outcome::Unsuccessful, now, 0);
                    self.give_up(now, key, out);
                }
                _ => {}
            }
        }
        self.timers.set(now + CLOSING, Due::Close);
    }

    fn due(&mut self, now: Duration, due: Due, out: &mut Outbox) {
        match due {
            Due::Arrival => self.arrival(now, out),
            Due::Again(arrival) if !self.over => self.call(now, arrival, out),
            Due::Again(_) => {}
            Due::HangUp(key) if !self.over => self.hang_up(now, key, out),
            Due::HangUp(_) => {}
            Due::RingTimeout(key) => self.give_up(now, key, out),
            Due::Abandon(key) => {
                if let Some(call) = self.calls.get(key).filter(|c| c.state == State::Cancelling) {
                    self.core.forget(call.invite);
                    self.refused(now, key, 408);
                }
            }
            Due::Sample if !self.over => {
                self.sample(now);
                self.timers.set(now + self.config.sample_every, Due::Sample);
            }
            Due::Sample => {}
            Due::Horizon => self.horizon(now),
            Due::GraceOver => self.grace_over(now, out),
            Due::Close => self.closed = true,
        }
    }

    fn expired(&mut self, now: Duration, expired: Expired) {
        match expired {
            Expired::Request {
                owner,
                method: Method::Invite,
            } => self.refused(now, owner.call, 408),
            Expired::Request {
                owner,
                method: Method::Bye,
            } => {
                self.result.bye_failed += 1;
                self.calls.remove(owner.call);
            }
            // A re-INVITE of the other side that is never acknowledged is the other side's to mend.
            Expired::Request { .. } | Expired::Ack { .. } => {}
        }
    }
}

impl Role for Load {
    fn receive(&mut self, now: Duration, from: SocketAddr, datagram: &[u8], out: &mut Outbox) {
        let mut scanner = std::mem::take(&mut self.scanner);
        if let Some(message) = self.core.scan(&mut scanner, datagram) {
            match self.core.receive(now, from, &message, out) {
                Incoming::Response {
                    owner,
                    method,
                    code,
                } => self.response(now, owner, method, code, &message, out),
                Incoming::Request {
                    transaction,
                    method,
                } => self.request(now, transaction, method, &message, out),
                Incoming::Ack => {
                    let call = Owner::of_request(&message).and_then(|o| self.calls.get_mut(o.call));
                    if let Some(reinvite) = call.and_then(|c| c.reinvite.take()) {
                        self.core.acknowledged(reinvite);
                    }
                }
                Incoming::Absorbed | Incoming::Cancelled { .. } => {}
            }
        }
        self.scanner = scanner;
    }

    fn tick(&mut self, now: Duration, out: &mut Outbox) {
        self.now = now;
        while let Some(expired) = self.core.tick(now, out) {
            self.expired(now, expired);
        }
        while let Some(due) = self.timers.due(now) {
            self.due(now, due, out);
        }
    }

    fn deadline(&self) -> Option<Duration> {
        [self.core.deadline(), self.timers.next()]
            .into_iter()
            .flatten()
            .min()
    }

    fn is_done(&self) -> bool {
        self.closed || (self.over && self.calls.len() == 0)
    }
}

fn user_of(caller: u32) -> String {
    format!("u{caller}")
}

fn send_invite(
    core: &mut Core,
    config: &LoadConfig,
    sdp: &[u8],
    now: Duration,
    owner: Owner,
    arrival: &Arrival,
    out: &mut Outbox,
) -> Key {
    let (local, server) = (core.local(), config.server);
    let uri = format!("sip:t{}@{server}", arrival.callee);
    let user = user_of(arrival.caller);
    let what = Outgoing {
        owner,
        method: Method::Invite,
        name: "INVITE",
        uri: uri.as_bytes(),
        to: config.next_hop,
    };
    let tag = owner.tag();
    core.request(now, what, out, |bytes| {
        bytes.extend_from_slice(b"Max-Forwards: 70\r\n");
        if config.next_hop != config.server {
            // An outbound proxy by a preloaded route: RFC 3261 section 8.1.2.
            write!(bytes, "Route: <sip:{};lr>\r\n", config.next_hop).ok();
        }
        write!(bytes, "From: <sip:{user}@{server}>;tag=").ok();
        bytes.extend_from_slice(&tag);
        write!(bytes, "\r\nTo: <{uri}>\r\nCall-ID: ").ok();
        bytes.extend_from_slice(&tag);
        write!(bytes, "@{local}\r\nCSeq: 1 INVITE\r\n").ok();
        session_answer(bytes, local, &user, sdp);
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use levee_sim::schedule::{Arrivals, Calls, Plan, Stream};

    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// The datagrams of an outbox, which is empty then.
    fn texts(out: &mut Outbox) -> Vec<String> {
        let all = out.iter();
        let all = all.map(|(_, text)| String::from_utf8(text.to_vec()).unwrap());
        let all = all.collect();
        out.clear();
        all
    }

    fn line<'a>(message: &'a str, name: &str) -> &'a str {
        let found = message
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("no {name} in {message}"))
    }

    /// A callee's side of one call.
    struct Peer(SocketAddr, String);

    impl Peer {
        fn answer(&self, status: &str) -> String {
            let Self(at, invite) = self;
            let [via, from, to, id] = ["Via", "From", "To", "Call-ID"].map(|n| line(invite, n));
            format!(
                "SIP/2.0 {status}\r\nVia: {via}\r\nFrom: {from}\r\nTo: {to};tag=peer\r\nCall-ID: {id}\r\n\
                 CSeq: 1 INVITE\r\nContact: <sip:{at}>\r\nContent-Length: 0\r\n\r\n"
            )
        }

        fn bye(&self) -> String {
            let Self(at, invite) = self;
            let [from, to, id] = ["From", "To", "Call-ID"].map(|n| line(invite, n));
            format!(
                "BYE sip:caller SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bKpeer\r\nFrom: {to};tag=peer\r\nTo: {from}\r\n\
                 Call-ID: {id}\r\nCSeq: 1 BYE\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
            )
        }
    }

    type Said = fn(&Peer) -> String;

    /// INVITEs by 4 s of an attacker that redials after 2 s, with what comes to its first call at which time.
    #[track_caller]
    fn check_invites(from_peer: &[(u64, Said)], expected: usize) {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let none = Stream {
            calls: Calls::Rate(0.0),
            durations: None,
            callers: 1,
        };
        let plan = Plan {
            attacker: Stream {
                calls: Calls::OnceEach { within: ms(1) },
                ..none.clone()
            },
            honest: none,
            arrivals: Arrivals::Even,
            until: ms(4_000),
            seed: 1,
        };
        let mut config = LoadConfig::new(at(2), at(2), plan.until);
        config.ring_timeout = ms(1_000);
        config.redial = Some(ms(2_000));
        let mut load = Load::new(at(1), config, plan.schedule(), Board::default());
        let mut out = Outbox::default();
        load.tick(ms(1), &mut out);
        let first = texts(&mut out).pop().unwrap();
        let call_id = line(&first, "Call-ID").to_owned();
        let peer = Peer(at(2), first);
        for (when, message) in from_peer {
            load.tick(ms(*when), &mut out);
            load.receive(ms(*when), at(2), message(&peer).as_bytes(), &mut out);
        }
        load.tick(ms(3_999), &mut out);
        let sent = texts(&mut out);
        let again = |text: &&String| text.starts_with("INVITE") && line(text, "Call-ID") != call_id;
        let invites: std::collections::BTreeSet<_> = sent
            .iter()
            .filter(again)
            .map(|text| line(text, "Call-ID"))
            .collect();
        assert_eq!(1 + invites.len(), expected, "{sent:#?}");
    }

    #[test]
    fn an_attacker_redials_once_for_each_call_that_is_over() {
        let ringing: Said = |peer| peer.answer("180 Ringing");
        let ok: Said = |peer| peer.answer("200 OK");
        let bye: Said = Peer::bye;
        check_invites(&[(100, ringing), (200, ok)], 1);
        check_invites(&[(100, ringing), (200, |p| p.answer("503 Full"))], 2);
        check_invites(&[(100, ringing), (200, ok), (300, bye)], 2);
        // The 200 crosses the CANCEL of 1 s, and the BYE of the other side the caller's own.
        check_invites(&[(100, ringing), (1_100, ok)], 2);
        check_invites(&[(100, ringing), (1_100, ok), (1_200, bye)], 2);
    }
}
