//! The callee: answers every call after a while, and stays until it is told to go.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use levee_sip::wire::{Message, Method, Scanner};
use serde::Serialize;

use crate::driver::Role;
use crate::ua::{
    Core, Dialog, Expired, Incoming, Key, Outbox, Outgoing, Owner, Side, Slab, Timers, Traffic,
    TransactionTimers, no_body, send_in_dialog, session_answer, silent_sdp,
};

/// What the callee does.
#[derive(Clone, Debug, Default)]
pub struct CalleeConfig {
    /// How long it rings. Zero answers at once, without a 180.
    pub ring: Duration,
    /// Hangs up this long after the ACK; `None` leaves it to the caller.
    pub hang_up_after: Option<Duration>,
    /// Refuses each call with this status.
    pub refuse: Option<u16>,
    /// Registers these users first.
    pub register: Option<Register>,
    /// SIP's timers.
    pub timers: TransactionTimers,
}

/// How the callee registers.
#[derive(Clone, Debug)]
pub struct Register {
    /// The registrar.
    pub server: SocketAddr,
    /// Where REGISTER is sent: the front, or the registrar.
    pub next_hop: SocketAddr,
    /// Users `t0` to `t{users-1}`.
    pub users: u32,
}

/// What the callee saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CalleeResult {
    /// INVITEs that opened a call.
    pub invited: u64,
    /// Calls answered 200 whose ACK came.
    pub confirmed: u64,
    /// Calls cancelled while ringing.
    pub cancelled: u64,
    /// BYEs that came and were answered 200.
    pub bye_answered: u64,
    /// Calls whose ACK never came.
    pub ack_timeouts: u64,
    /// Users registered.
    pub registered: u64,
    /// Calls held at the end.
    pub held: u64,
    /// Datagrams.
    pub traffic: Traffic,
}

impl CalleeResult {
    /// Counts another run in.
    pub(crate) fn add(&mut self, other: &Self) {
        self.invited += other.invited;
        self.confirmed += other.confirmed;
        self.cancelled += other.cancelled;
        self.bye_answered += other.bye_answered;
        self.ack_timeouts += other.ack_timeouts;
        self.registered += other.registered;
        self.held += other.held;
        self.traffic.add(&other.traffic);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ringing,
    Answered,
    InCall,
    Ending,
}

#[derive(Debug)]
struct Call {
    state: State,
    invite: Key,
    reinvite: Option<Key>,
    dialog: Dialog,
    user: String,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    Register(u32),
    Answer(Key),
    HangUp(Key),
}

/// Calls held at once; the next is refused with 486.
const CALLS_MAX: usize = 500_000;
/// Between two REGISTERs, so that many users do not come in one burst.
const REGISTER_GAP: Duration = Duration::from_millis(1);

/// The callee of one run.
#[derive(Debug)]
pub(crate) struct Callee {
    config: CalleeConfig,
    core: Core,
    scanner: Scanner,
    calls: Slab<Call>,
    timers: Timers<Due>,
    sdp: Vec<u8>,
    held: Arc<AtomicUsize>,
    result: CalleeResult,
}

impl Callee {
    pub(crate) fn new(local: SocketAddr, config: CalleeConfig) -> Self {
        let mut timers = Timers::new();
        if config.register.is_some() {
            timers.set(Duration::ZERO, Due::Register(0));
        }
        Self {
            core: Core::new(local, config.timers),
            config,
            scanner: Scanner::default(),
            calls: Slab::new(),
            timers,
            sdp: silent_sdp(local),
            held: Arc::default(),
            result: CalleeResult::default(),
        }
    }

    /// Calls held, readable while it works.
    pub(crate) fn held(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.held)
    }

    pub(crate) fn result(&self) -> CalleeResult {
        CalleeResult {
            held: self.calls.len() as u64,
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
        let full = (self.calls.len() >= CALLS_MAX).then_some(486);
        if let Some(code) = self.config.refuse.or(full) {
            self.core.respond(now, transaction, code, out, no_body);
            return;
        }
        let user = message
            .to()
            .ok()
            .and_then(|to| Some(String::from_utf8_lossy(to.parse_uri().ok()?.user).into_owned()))
            .unwrap_or_default();
        let owner = Owner {
            call: self.calls.next_key(),
            side: Side::A,
        };
        let Some(dialog) = Dialog::of_callee(message, &owner.tag(), from) else {
            self.core.respond(now, transaction, 400, out, no_body);
            return;
        };
        let key = self.calls.insert(Call {
            state: State::Ringing,
            invite: transaction,
            reinvite: None,
            dialog,
            user,
        });
        self.core.adopt(transaction, owner);
        self.result.invited += 1;
        if self.config.ring > Duration::ZERO {
            self.core.respond(now, transaction, 180, out, no_body);
        }
        self.timers.set(now + self.config.ring, Due::Answer(key));
    }

    fn answer(&mut self, now: Duration, key: Key, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(key) else {
            return;
        };
        call.state = State::Answered;
        let (local, sdp) = (self.core.local(), &self.sdp);
        self.core.respond(now, call.invite, 200, out, |bytes| {
            session_answer(bytes, local, &call.user, sdp);
        });
    }

    fn acknowledged(&mut self, now: Duration, message: &Message<'_>) {
        let Some(owner) = Owner::of_request(message) else {
            return;
        };
        let Some(call) = self.calls.get_mut(owner.call) else {
            return;
        };
        if let Some(reinvite) = call.reinvite.take() {
            self.core.acknowledged(reinvite);
        } else if self.core.acknowledged(call.invite) {
            call.state = State::InCall;
            self.result.confirmed += 1;
            if let Some(after) = self.config.hang_up_after {
                self.timers.set(now + after, Due::HangUp(owner.call));
            }
        }
    }

    fn hang_up(&mut self, now: Duration, key: Key, out: &mut Outbox) {
        let Some(call) = self.calls.get_mut(key) else {
            return;
        };
        if call.state == State::Ending {
            return;
        }
        call.state = State::Ending;
        let owner = Owner {
            call: key,
            side: Side::A,
        };
        let bye = (Method::Bye, "BYE");
        send_in_dialog(&mut self.core, now, owner, &mut call.dialog, bye, out);
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
            let code = if method == Method::Options { 200 } else { 481 };
            self.core.respond(now, transaction, code, out, no_body);
            return;
        };
        self.core.adopt(transaction, owner);
        if !call.dialog.accepts(message) {
            self.core.respond(now, transaction, 500, out, no_body);
            return;
        }
        match method {
            Method::Bye => {
                self.core.respond(now, transaction, 200, out, no_body);
                self.result.bye_answered += 1;
                if let Some(call) = self.calls.remove(owner.call) {
                    // A BYE tells as well as an ACK that our answer arrived; one that still rings is over.
                    self.core.acknowledged(call.invite);
                    self.core.respond(now, call.invite, 487, out, no_body);
                }
            }
            Method::Invite | Method::Update => {
                if method == Method::Invite {
                    call.reinvite = Some(transaction);
                }
                let (local, sdp) = (self.core.local(), &self.sdp);
                self.core.respond(now, transaction, 200, out, |bytes| {
                    session_answer(bytes, local, &call.user, sdp);
                });
            }
            Method::Options => self.core.respond(now, transaction, 200, out, no_body),
            _ => self.core.respond(now, transaction, 501, out, no_body),
        }
    }

    fn register(&mut self, now: Duration, user: u32, out: &mut Outbox) {
        let Some(to) = self.config.register.clone().filter(|r| user < r.users) else {
            return;
        };
        self.timers.set(now + REGISTER_GAP, Due::Register(user + 1));
        let (local, server) = (self.core.local(), to.server);
        // No call has this key: the answer is told by its method.
        let owner = Owner {
            call: Key::of_no_place(user),
            side: Side::A,
        };
        let uri = format!("sip:{server}");
        let what = Outgoing {
            owner,
            method: Method::Register,
            name: "REGISTER",
            uri: uri.as_bytes(),
            to: to.next_hop,
        };
        self.core.request(now, what, out, |bytes| {
            bytes.extend_from_slice(b"Max-Forwards: 70\r\n");
            if to.next_hop != server {
                write!(bytes, "Route: <sip:{};lr>\r\n", to.next_hop).ok();
            }
            write!(
                bytes,
                "From: <sip:t{user}@{server}>;tag=r{user}\r\nTo: <sip:t{user}@{server}>\r\nCall-ID: r{user}@{local}\r\n\
                 CSeq: 1 REGISTER\r\nContact: <sip:t{user}@{local}>\r\nExpires: 3600\r\n"
            )
            .ok();
            no_body(bytes);
        });
    }
}

impl Role for Callee {
    fn receive(&mut self, now: Duration, from: SocketAddr, datagram: &[u8], out: &mut Outbox) {
        let mut scanner = std::mem::take(&mut self.scanner);
        if let Some(message) = self.core.scan(&mut scanner, datagram) {
            match self.core.receive(now, from, &message, out) {
                Incoming::Request {
                    transaction,
                    method,
                } => {
                    let outside = message.to().is_ok_and(|to| to.tag().is_none());
                    if method == Method::Invite && outside {
                        self.invite(now, from, transaction, &message, out);
                    } else {
                        self.request(now, transaction, method, &message, out);
                    }
                }
                Incoming::Ack => self.acknowledged(now, &message),
                Incoming::Cancelled { owner, transaction } => {
                    self.core.respond(now, transaction, 487, out, no_body);
                    self.result.cancelled += 1;
                    self.calls.remove(owner.call);
                }
                Incoming::Response {
                    owner,
                    method: Method::Bye,
                    code: 200..,
                } => {
                    self.calls.remove(owner.call);
                }
                Incoming::Response {
                    method: Method::Register,
                    code: 200..300,
                    ..
                } => self.result.registered += 1,
                Incoming::Absorbed | Incoming::Response { .. } => {}
            }
        }
        self.scanner = scanner;
    }

    fn tick(&mut self, now: Duration, out: &mut Outbox) {
        while let Some(expired) = self.core.tick(now, out) {
            match expired {
                Expired::Ack { owner } => {
                    let reinvite = self.calls.get_mut(owner.call).map(|c| c.reinvite.take());
                    if !matches!(reinvite, Some(Some(_))) {
                        self.result.ack_timeouts += 1;
                    }
                    self.hang_up(now, owner.call, out);
                }
                Expired::Request {
                    owner,
                    method: Method::Bye,
                } => {
                    self.calls.remove(owner.call);
                }
                Expired::Request { .. } => {}
            }
        }
        while let Some(due) = self.timers.due(now) {
            match due {
                Due::Register(user) => self.register(now, user, out),
                Due::Answer(key) => self.answer(now, key, out),
                Due::HangUp(key) => self.hang_up(now, key, out),
            }
        }
        self.held.store(self.calls.len(), Ordering::Release);
    }

    fn deadline(&self) -> Option<Duration> {
        [self.core.deadline(), self.timers.next()]
            .into_iter()
            .flatten()
            .min()
    }
}
