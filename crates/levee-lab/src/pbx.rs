//! A small SIP server that can hold `k` calls: a back-to-back user agent and a registrar.
//!
//! A call takes a place from its INVITE to its end, as in real servers, so calls that never end starve it. When all
//! places are taken a caller gets 503. The leg to the callee goes through an outbound proxy if there is one.
//!
//! Not here: media, authentication, call forwarding, re-INVITE passed from leg to leg (each leg answers its own).

use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use levee_sip::header::name_addrs;
use levee_sip::wire::{Message, Method, Name, Scanner, StartLine};
use serde::Serialize;

use crate::driver::Role;
use crate::ua::{
    Core, Dialog, Expired, Incoming, Key, Outbox, Outgoing, Owner, Side, Slab, Timers, Traffic,
    TransactionTimers, no_body, send_ack, send_in_dialog, session_answer, silent_sdp, sip_addr,
};

/// What the server is.
#[derive(Clone, Debug)]
pub struct PbxConfig {
    /// `k`: calls that it can hold.
    pub capacity: usize,
    /// Where users are that have not registered; 404 for them if nowhere.
    pub default_route: Option<SocketAddr>,
    /// The proxy to which the legs to callees are sent.
    pub outbound_proxy: Option<SocketAddr>,
    /// Retry-After of a 503.
    pub retry_after: Duration,
    /// Between two samples of the calls held.
    pub sample_every: Duration,
    /// SIP's timers.
    pub timers: TransactionTimers,
}

impl PbxConfig {
    /// A server for `capacity` calls, all of them to `callee`.
    #[must_use]
    pub fn new(capacity: usize, callee: SocketAddr) -> Self {
        Self {
            capacity,
            default_route: Some(callee),
            outbound_proxy: None,
            retry_after: Duration::from_secs(5),
            sample_every: Duration::from_millis(100),
            timers: TransactionTimers::default(),
        }
    }
}

/// What the server saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PbxResult {
    /// INVITEs that asked for a call.
    pub invited: u64,
    /// Those refused with 503 because all places were taken.
    pub refused_full: u64,
    /// Calls answered.
    pub answered: u64,
    /// Calls given up by the caller before the answer.
    pub cancelled: u64,
    /// Calls that the callee's side refused, or did not answer.
    pub failed: u64,
    /// Calls ended by a BYE from the caller's side.
    pub ended_by_caller: u64,
    /// Calls ended by a BYE from the callee's side.
    pub ended_by_callee: u64,
    /// Calls ended because the ACK never came.
    pub ack_timeouts: u64,
    /// BYEs of the server's own that were not answered 200.
    pub bye_failed: u64,
    /// Most calls held at once.
    pub held_max: u64,
    /// Calls held now.
    pub held: u64,
    /// Contacts registered now.
    pub contacts: u64,
    /// Datagrams.
    pub traffic: Traffic,
}

impl PbxResult {
    /// Counts another run in; `held_max` is the larger of the two.
    pub(crate) fn add(&mut self, other: &Self) {
        self.invited += other.invited;
        self.refused_full += other.refused_full;
        self.answered += other.answered;
        self.cancelled += other.cancelled;
        self.failed += other.failed;
        self.ended_by_caller += other.ended_by_caller;
        self.ended_by_callee += other.ended_by_callee;
        self.ack_timeouts += other.ack_timeouts;
        self.bye_failed += other.bye_failed;
        self.held_max = self.held_max.max(other.held_max);
        self.held += other.held;
        self.contacts += other.contacts;
        self.traffic.add(&other.traffic);
    }
}

/// Calls held over time, readable while the server runs.
#[derive(Clone, Debug, Default)]
pub struct HeldSeries(Arc<Mutex<Vec<(f64, u32)>>>);

impl HeldSeries {
    /// (Seconds from the start, calls held) so far.
    #[must_use]
    pub fn samples(&self) -> Vec<(f64, u32)> {
        let series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        series.clone()
    }

    fn post(&self, at: Duration, held: usize) {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if series.len() < SAMPLES_MAX {
            series.push((at.as_secs_f64(), u32::try_from(held).unwrap_or(u32::MAX)));
        }
    }
}

/// Samples kept: a day at ten a second.
const SAMPLES_MAX: usize = 864_000;
/// Users that can register.
const CONTACTS_MAX: usize = 100_000;
/// Expires of a REGISTER that does not say (RFC 3261 section 10.2.1.1).
const REGISTER_EXPIRES_S: u32 = 3_600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Leg B has no final answer yet.
    Setup,
    /// Leg B was answered, and leg A's 200 is on its way.
    Answered,
    /// Leg A's ACK came.
    InCall,
    /// It holds no place any more, and waits for the end of its transactions.
    Over,
}

#[derive(Debug)]
struct Call {
    state: State,
    a: Leg,
    b: Leg,
    a_invite: Key,
    b_invite: Key,
    b_ack: Vec<u8>,
    /// Leg A was cancelled or hung up before leg B had an answer.
    cancelled: bool,
}

#[derive(Debug, Default)]
struct Leg {
    dialog: Option<Dialog>,
    reinvite: Option<Key>,
    bye_sent: bool,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    Sample,
    /// The end of a call that is over, whatever its peers answered.
    Gone(Key),
}

#[derive(Debug)]
struct Contact {
    uri: Vec<u8>,
    until: Duration,
}

/// The server of one run.
#[derive(Debug)]
pub(crate) struct Pbx {
    config: PbxConfig,
    core: Core,
    scanner: Scanner,
    calls: Slab<Call>,
    held: usize,
    contacts: HashMap<Vec<u8>, Contact>,
    timers: Timers<Due>,
    sdp: Vec<u8>,
    series: HeldSeries,
    result: PbxResult,
}

impl Pbx {
    pub(crate) fn new(local: SocketAddr, config: PbxConfig, series: HeldSeries) -> Self {
        let mut timers = Timers::new();
        timers.set(Duration::ZERO, Due::Sample);
        Self {
            core: Core::new(local, config.timers),
            config,
            scanner: Scanner::default(),
            calls: Slab::new(),
            held: 0,
            contacts: HashMap::new(),
            timers,
            sdp: silent_sdp(local),
            series,
            result: PbxResult::default(),
        }
    }

    pub(crate) fn result(&self) -> PbxResult {
        PbxResult {
            held: self.held as u64,
            contacts: self.contacts.len() as u64,
            traffic: self.core.traffic(),
            ..self.result
        }
    }

    fn invite(
        &mut self,
        now: Duration,
        from: SocketAddr,
        transaction: Key,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        self.result.invited += 1;
        if self.held >= self.config.capacity {
            self.result.refused_full += 1;
            let after = self.config.retry_after.as_secs().max(1);
            self.core.respond(now, transaction, 503, out, |bytes| {
                write!(bytes, "Retry-After: {after}\r\n").ok();
                no_body(bytes);
            });
            return;
        }
        let hops = message.max_forwards().ok().flatten().unwrap_or(70);
        let target = self.locate(now, message);
        let owner = Owner {
            call: self.calls.next_key(),
            side: Side::A,
        };
        let dialog = Dialog::of_callee(message, &owner.tag(), from);
        let (Some(target), Some(dialog), true) = (&target, dialog, hops > 0) else {
            let code = match (hops, &target) {
                (0, _) => 483,
                (_, None) => 404,
                _ => 400,
            };
            self.core.respond(now, transaction, code, out, no_body);
            return;
        };
        self.core.adopt(transaction, owner);
        self.core.respond(now, transaction, 100, out, no_body);
        let b = Owner {
            side: Side::B,
            ..owner
        };
        let b_invite = self.invite_callee(now, b, target, hops - 1, message, out);
        self.calls.insert(Call {
            state: State::Setup,
            a: Leg {
                dialog: Some(dialog),
                ..Leg::default()
            },
            b: Leg::default(),
            a_invite: transaction,
            b_invite,
            b_ack: Vec::new(),
            cancelled: false,
        });
        self.held += 1;
        self.result.held_max = self.result.held_max.max(self.held as u64);
    }

    /// The contact of the user that a request is for, and where it is.
    fn locate(&self, now: Duration, message: &Message<'_>) -> Option<(Vec<u8>, SocketAddr)> {
        let StartLine::Request { uri, .. } = message.start() else {
            return None;
        };
        let user = levee_sip::uri::Uri::parse(uri).ok()?.user;
        let contact = self.contacts.get(user).filter(|c| c.until > now);
        let uri = match contact {
            Some(contact) => contact.uri.clone(),
            None => {
                let user = String::from_utf8_lossy(user);
                format!("sip:{user}@{}", self.config.default_route?).into_bytes()
            }
        };
        let at = sip_addr(&uri)?;
        Some((uri, at))
    }

    fn invite_callee(
        &mut self,
        now: Duration,
        owner: Owner,
        (uri, at): &(Vec<u8>, SocketAddr),
        hops: u8,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> Key {
        let (local, proxy) = (self.core.local(), self.config.outbound_proxy);
        let what = Outgoing {
            owner,
            method: Method::Invite,
            name: "INVITE",
            uri,
            to: proxy.unwrap_or(*at),
        };
        let caller = message
            .from()
            .map_or(&b"sip:anonymous@invalid"[..], |f| f.uri);
        let tag = owner.tag();
        let sdp = if message.body().is_empty() {
            &self.sdp
        } else {
            message.body()
        };
        self.core.request(now, what, out, |bytes| {
            write!(bytes, "Max-Forwards: {hops}\r\n").ok();
            if let Some(proxy) = proxy {
                write!(bytes, "Route: <sip:{proxy};lr>\r\n").ok();
            }
            for part in [
                &b"From: <"[..],
                caller,
                b">;tag=",
                &tag,
                b"\r\nTo: <",
                uri,
                b">\r\nCall-ID: ",
                &tag,
            ] {
                bytes.extend_from_slice(part);
            }
            write!(bytes, "@{local}\r\nCSeq: 1 INVITE\r\n").ok();
            session_answer(bytes, local, "pbx", sdp);
        })
    }

    fn response(
        &mut self,
        now: Duration,
        owner: Owner,
        (method, code): (Method, u16),
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let Some(call) = self.calls.get_mut(owner.call) else {
            return;
        };
        match (method, code) {
            (Method::Invite, 100..200) if call.cancelled => {
                self.core.cancel(now, call.b_invite, out);
            }
            (Method::Invite, 101..200) => {
                self.core.respond(now, call.a_invite, code, out, no_body);
            }
            (Method::Invite, 200..300) => self.callee_answered(now, owner, message, out),
            (Method::Invite, 300..) => self.callee_refused(now, owner.call, code, out),
            (Method::Bye, 200..) => {
                self.result.bye_failed += u64::from(code >= 300);
                if call.state == State::Over {
                    self.calls.remove(owner.call);
                }
            }
            _ => {}
        }
    }

    fn callee_answered(
        &mut self,
        now: Duration,
        owner: Owner,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let Some(call) = self.calls.get_mut(owner.call) else {
            return;
        };
        if let Some(dialog) = &call.b.dialog {
            out.push(dialog.next_hop(), &call.b_ack);
            return;
        }
        let fallback = self.config.outbound_proxy.or(self.config.default_route);
        let fallback = fallback.unwrap_or(self.core.local());
        let Some(dialog) = Dialog::of_caller(message, fallback) else {
            self.callee_refused(now, owner.call, 500, out);
            return;
        };
        call.b_ack = send_ack(&mut self.core, &dialog, out);
        call.b.dialog = Some(dialog);
        if call.cancelled {
            self.bye(now, owner, out);
            return;
        }
        call.state = State::Answered;
        self.result.answered += 1;
        let local = self.core.local();
        let sdp = if message.body().is_empty() {
            &self.sdp
        } else {
            message.body()
        };
        self.core.respond(now, call.a_invite, 200, out, |bytes| {
            session_answer(bytes, local, "pbx", sdp);
        });
    }

    fn callee_refused(&mut self, now: Duration, key: Key, code: u16, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(key) else {
            return;
        };
        if call.state == State::Setup {
            self.core.respond(now, call.a_invite, code, out, no_body);
            self.result.failed += 1;
            self.release(now, key);
        }
        self.calls.remove(key);
    }

    /// The call gives its place back, once.
    fn release(&mut self, now: Duration, key: Key) {
        let Some(call) = self.calls.get_mut(key) else {
            return;
        };
        if call.state != State::Over {
            call.state = State::Over;
            self.held = self.held.saturating_sub(1);
            let gone = now + self.core.base().give_up() * 2;
            self.timers.set(gone, Due::Gone(key));
        }
    }

    /// Ends one leg.
    fn bye(&mut self, now: Duration, owner: Owner, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(owner.call) else {
            return;
        };
        let leg = match owner.side {
            Side::A => &mut call.a,
            Side::B => &mut call.b,
        };
        if leg.bye_sent {
            return;
        }
        if let Some(dialog) = &mut leg.dialog {
            leg.bye_sent = true;
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

    fn cancelled(&mut self, now: Duration, key: Key, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(key) else {
            return;
        };
        call.cancelled = true;
        self.core.respond(now, call.a_invite, 487, out, no_body);
        self.core.cancel(now, call.b_invite, out);
        self.result.cancelled += 1;
        self.release(now, key);
    }

    /// A BYE from one side ends the other.
    fn hung_up(&mut self, now: Duration, owner: Owner, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(owner.call) else {
            return;
        };
        if call.state == State::Over {
            return;
        }
        // A caller that hangs up before its ACK has seen our answer.
        self.core.acknowledged(call.a_invite);
        let other = match owner.side {
            Side::A => {
                self.result.ended_by_caller += 1;
                Side::B
            }
            Side::B => {
                self.result.ended_by_callee += 1;
                Side::A
            }
        };
        if call.state == State::Setup {
            call.cancelled = true;
            self.core.respond(now, call.a_invite, 487, out, no_body);
            self.core.cancel(now, call.b_invite, out);
        }
        let other = Owner {
            side: other,
            ..owner
        };
        self.bye(now, other, out);
        self.release(now, owner.call);
    }

    fn in_dialog(
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
            self.core.respond(now, transaction, 481, out, no_body);
            return;
        };
        let leg = match owner.side {
            Side::A => &mut call.a,
            Side::B => &mut call.b,
        };
        let Some(dialog) = &mut leg.dialog else {
            self.core.respond(now, transaction, 481, out, no_body);
            return;
        };
        self.core.adopt(transaction, owner);
        if !dialog.accepts(message) {
            self.core.respond(now, transaction, 500, out, no_body);
            return;
        }
        match method {
            Method::Bye => {
                self.core.respond(now, transaction, 200, out, no_body);
                self.hung_up(now, owner, out);
            }
            Method::Invite | Method::Update => {
                if method == Method::Invite {
                    leg.reinvite = Some(transaction);
                }
                let (local, sdp) = (self.core.local(), &self.sdp);
                self.core.respond(now, transaction, 200, out, |bytes| {
                    session_answer(bytes, local, "pbx", sdp);
                });
            }
            Method::Options => self.core.respond(now, transaction, 200, out, no_body),
            _ => self.core.respond(now, transaction, 501, out, no_body),
        }
    }

    fn acknowledged(&mut self, message: &Message<'_>) {
        let owner = Owner::of_request(message);
        let Some((owner, call)) = owner.and_then(|o| Some((o, self.calls.get_mut(o.call)?))) else {
            return;
        };
        let leg = match owner.side {
            Side::A => &mut call.a,
            Side::B => &mut call.b,
        };
        if let Some(reinvite) = leg.reinvite.take() {
            self.core.acknowledged(reinvite);
        } else if self.core.acknowledged(call.a_invite) && call.state == State::Answered {
            call.state = State::InCall;
        }
    }

    fn register(
        &mut self,
        now: Duration,
        transaction: Key,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let user = message.to().ok().and_then(|to| to.parse_uri().ok());
        let Some(user) = user.map(|u| u.user.to_vec()) else {
            self.core.respond(now, transaction, 400, out, no_body);
            return;
        };
        let header = message.value(Name::Expires).and_then(number);
        for contact in message.all(Name::Contact) {
            if contact.value == b"*" {
                self.contacts.remove(&user);
                continue;
            }
            for listed in name_addrs(contact.value).map_while(Result::ok) {
                let own = listed.item.params.get(b"expires").flatten();
                let expires = own
                    .and_then(number)
                    .or(header)
                    .unwrap_or(REGISTER_EXPIRES_S);
                if expires == 0 {
                    self.contacts.remove(&user);
                } else if self.contacts.len() < CONTACTS_MAX || self.contacts.contains_key(&user) {
                    let contact = Contact {
                        uri: listed.item.uri.to_vec(),
                        until: now + Duration::from_secs(expires.into()),
                    };
                    self.contacts.insert(user.clone(), contact);
                } else {
                    self.core.respond(now, transaction, 503, out, no_body);
                    return;
                }
            }
        }
        let contact = self.contacts.get(&user).filter(|c| c.until > now);
        self.core.respond(now, transaction, 200, out, |bytes| {
            if let Some(contact) = contact {
                bytes.extend_from_slice(b"Contact: <");
                bytes.extend_from_slice(&contact.uri);
                let left = contact.until.saturating_sub(now).as_secs();
                write!(bytes, ">;expires={left}\r\n").ok();
            }
            no_body(bytes);
        });
    }

    fn request(
        &mut self,
        now: Duration,
        from: SocketAddr,
        (transaction, method): (Key, Method),
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        if message.to().is_ok_and(|to| to.tag().is_some()) {
            self.in_dialog(now, transaction, method, message, out);
            return;
        }
        match method {
            Method::Invite => self.invite(now, from, transaction, message, out),
            Method::Register => self.register(now, transaction, message, out),
            Method::Options => self.core.respond(now, transaction, 200, out, no_body),
            Method::Bye | Method::Update | Method::Prack => {
                self.core.respond(now, transaction, 481, out, no_body);
            }
            _ => self.core.respond(now, transaction, 501, out, no_body),
        }
    }

    fn expired(&mut self, now: Duration, expired: Expired, out: &mut Outbox) {
        match expired {
            Expired::Request {
                owner,
                method: Method::Invite,
            } => self.callee_refused(now, owner.call, 408, out),
            Expired::Request {
                method: Method::Bye,
                ..
            } => self.result.bye_failed += 1,
            Expired::Request { .. } => {}
            Expired::Ack { owner } => {
                let call = self.calls.get(owner.call);
                if call.is_some_and(|c| c.state == State::Answered) {
                    self.result.ack_timeouts += 1;
                    for side in [Side::A, Side::B] {
                        self.bye(now, Owner { side, ..owner }, out);
                    }
                    self.release(now, owner.call);
                }
            }
        }
    }
}

impl Role for Pbx {
    fn receive(&mut self, now: Duration, from: SocketAddr, datagram: &[u8], out: &mut Outbox) {
        let mut scanner = std::mem::take(&mut self.scanner);
        if let Some(message) = self.core.scan(&mut scanner, datagram) {
            match self.core.receive(now, from, &message, out) {
                Incoming::Request {
                    transaction,
                    method,
                } => self.request(now, from, (transaction, method), &message, out),
                Incoming::Response {
                    owner,
                    method,
                    code,
                } => self.response(now, owner, (method, code), &message, out),
                Incoming::Ack => self.acknowledged(&message),
                Incoming::Cancelled { owner, .. } => self.cancelled(now, owner.call, out),
                Incoming::Absorbed => {}
            }
        }
        self.scanner = scanner;
    }

    fn tick(&mut self, now: Duration, out: &mut Outbox) {
        while let Some(expired) = self.core.tick(now, out) {
            self.expired(now, expired, out);
        }
        while let Some(due) = self.timers.due(now) {
            match due {
                Due::Sample => {
                    self.series.post(now, self.held);
                    self.timers.set(now + self.config.sample_every, Due::Sample);
                }
                Due::Gone(key) => {
                    self.calls.remove(key);
                }
            }
        }
    }

    fn deadline(&self) -> Option<Duration> {
        [self.core.deadline(), self.timers.next()]
            .into_iter()
            .flatten()
            .min()
    }
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
