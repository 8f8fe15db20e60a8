//! Transactions of a user agent over UDP (RFC 3261 section 17, RFC 6026), for all calls of one socket.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use levee_sip::wire::{Limits, Message, Method, Name, Scanner, StartLine};

use super::key::{Key, Slab};
use super::outbox::Outbox;
use super::timers::Timers;
use super::write::{BRANCH, echo, hop_by_hop, no_body, reason, write_head};

/// The base timers of RFC 3261 section 17.1.1.1 and appendix A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionTimers {
    /// T1: the first wait before a request is sent again.
    pub t1: Duration,
    /// T2: the longest wait between two sendings.
    pub t2: Duration,
    /// T4: how long a message may stay in the network.
    pub t4: Duration,
}

impl Default for TransactionTimers {
    /// 500 ms, 4 s and 5 s, as RFC 3261 says.
    fn default() -> Self {
        Self {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
        }
    }
}

impl TransactionTimers {
    /// 64 x T1: timers B, D, F, H, J, L and M.
    #[must_use]
    pub fn give_up(&self) -> Duration {
        self.t1 * 64
    }
}

/// What one socket's transactions have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Traffic {
    /// Datagrams that came.
    pub received: u64,
    /// Datagrams that are not a SIP message, or miss what every message needs.
    pub malformed: u64,
    /// Messages sent again by a timer.
    pub retransmitted: u64,
    /// Messages that had come before.
    pub repeats: u64,
    /// Responses that fit no request of ours.
    pub stray: u64,
    /// Requests that got no final answer.
    pub timeouts: u64,
}

impl Traffic {
    /// Counts another socket's in.
    pub(crate) fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.malformed += other.malformed;
        self.retransmitted += other.retransmitted;
        self.repeats += other.repeats;
        self.stray += other.stray;
        self.timeouts += other.timeouts;
    }
}

/// Which leg of a B2BUA's call; callers and callees have one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Towards the caller.
    A,
    /// Towards the callee.
    B,
}

/// Whose transaction it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) call: Key,
    pub(crate) side: Side,
}

impl Owner {
    /// The tag by which messages inside the dialog find the call.
    pub(crate) fn tag(self) -> [u8; 17] {
        let mut tag = [match self.side {
            Side::A => b'a',
            Side::B => b'b',
        }; 17];
        tag[..16].copy_from_slice(&self.call.hex());
        tag
    }

    /// The owner that a tag of ours names.
    pub(crate) fn of_tag(tag: &[u8]) -> Option<Self> {
        let (call, rest) = Key::read(tag)?;
        let side = match rest {
            b"a" => Side::A,
            b"b" => Side::B,
            _ => return None,
        };
        Some(Self { call, side })
    }

    /// The owner that the To tag of a request inside a dialog names.
    pub(crate) fn of_request(message: &Message<'_>) -> Option<Self> {
        Self::of_tag(message.to().ok()?.tag()?)
    }
}

/// What a datagram means to the user of the transactions.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// Nothing: a repeat, or noise.
    Absorbed,
    /// A new request, to be answered through [`Core::respond`].
    Request { transaction: Key, method: Method },
    /// The ACK of a 2xx.
    Ack,
    /// A CANCEL, already answered, of an INVITE that has no final answer yet.
    Cancelled { owner: Owner, transaction: Key },
    /// A response to a request of ours; each 2xx to an INVITE comes, repeats too.
    Response {
        owner: Owner,
        method: Method,
        code: u16,
    },
}

/// A timer that ran out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expired {
    /// A request got no final answer: as good as 408.
    Request { owner: Owner, method: Method },
    /// A 2xx was never acknowledged (RFC 3261 section 13.3.1.4 wants a BYE).
    Ack { owner: Owner },
}

/// The head of a request to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) owner: Owner,
    pub(crate) method: Method,
    pub(crate) name: &'a str,
    pub(crate) uri: &'a [u8],
    pub(crate) to: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientState {
    Calling,
    Proceeding,
    /// An INVITE after its 2xx.
    Accepted,
    Completed,
}

#[derive(Debug)]
struct Client {
    owner: Owner,
    method: Method,
    /// The request; in [`ClientState::Completed`] of an INVITE, its ACK.
    bytes: Vec<u8>,
    to: SocketAddr,
    state: ClientState,
    wait: Duration,
    expires: Duration,
    timer: u32,
    /// The transaction of the CANCEL of this INVITE, which shares its branch.
    cancel: Option<Key>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    Proceeding,
    /// An INVITE after our 2xx, not yet acknowledged.
    Accepted,
    /// An INVITE whose ACK came.
    Confirmed,
    Completed,
}

#[derive(Debug)]
struct Server {
    name: Arc<[u8]>,
    owner: Option<Owner>,
    method: Method,
    to: SocketAddr,
    /// Via, From, Call-ID and CSeq lines of the request.
    echo: Vec<u8>,
    to_value: Vec<u8>,
    tagged: bool,
    record_routes: Vec<u8>,
    response: Vec<u8>,
    state: ServerState,
    wait: Duration,
    expires: Duration,
    timer: u32,
}

#[derive(Debug)]
enum Due {
    Client(Key, u32),
    Server(Key, u32),
}

/// All transactions of one socket.
#[derive(Debug)]
pub(crate) struct Core {
    local: SocketAddr,
    base: TransactionTimers,
    clients: Slab<Client>,
    servers: Slab<Server>,
    by_name: HashMap<Arc<[u8]>, Key>,
    timers: Timers<Due>,
    traffic: Traffic,
    scratch: Vec<u8>,
    acks: u32,
}

/// Server transactions held at once; beyond it a request is not answered and its sender tries again.
const SERVERS_MAX: usize = 1_000_000;

impl Core {
    pub(crate) fn new(local: SocketAddr, base: TransactionTimers) -> Self {
        Self {
            local,
            base,
            clients: Slab::new(),
            servers: Slab::new(),
            by_name: HashMap::new(),
            timers: Timers::new(),
            traffic: Traffic::default(),
            scratch: Vec::new(),
            acks: 0,
        }
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn base(&self) -> TransactionTimers {
        self.base
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.timers.next()
    }

    /// Reads a datagram; `None` when it is no SIP message. `scanner` is apart so that the message may outlive the call.
    pub(crate) fn scan<'a>(
        &mut self,
        scanner: &'a mut Scanner,
        bytes: &'a [u8],
    ) -> Option<Message<'a>> {
        self.traffic.received += 1;
        let message = scanner.scan(bytes).ok();
        let message = message.filter(|m| m.defect().is_none() && m.top_via().is_ok());
        if message.is_none() {
            self.traffic.malformed += 1;
        }
        message
    }

    /// Gives a message to its transaction.
    pub(crate) fn receive(
        &mut self,
        now: Duration,
        from: SocketAddr,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> Incoming {
        match message.start() {
            StartLine::Response { code, .. } => self.response(now, message, code, out),
            StartLine::Request { method, .. } => self.request_in(now, from, message, method, out),
        }
    }

    /// Sends a request in a transaction of its own. `rest` writes what follows the Via.
    pub(crate) fn request(
        &mut self,
        now: Duration,
        what: Outgoing<'_>,
        out: &mut Outbox,
        rest: impl FnOnce(&mut Vec<u8>),
    ) -> Key {
        let mut bytes = Vec::with_capacity(640);
        write_head(
            &mut bytes,
            self.local,
            what.name,
            what.uri,
            self.clients.next_key(),
        );
        rest(&mut bytes);
        out.push(what.to, &bytes);
        let key = self.clients.insert(Client {
            owner: what.owner,
            method: what.method,
            bytes,
            to: what.to,
            state: ClientState::Calling,
            wait: self.base.t1,
            expires: now + self.base.give_up(),
            timer: 0,
            cancel: None,
        });
        self.timers.set(now + self.base.t1, Due::Client(key, 0));
        key
    }

    /// Writes an ACK for a 2xx: outside of any transaction, with a branch of its own.
    pub(crate) fn write_ack(&mut self, uri: &[u8], rest: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(400);
        self.acks = self.acks.wrapping_add(1);
        write_head(
            &mut bytes,
            self.local,
            "ACK",
            uri,
            Key::of_no_place(self.acks),
        );
        rest(&mut bytes);
        bytes
    }

    /// Cancels an INVITE of ours that a provisional response has answered (RFC 3261 section 9.1); false when it has a final
    /// answer already, or none at all yet.
    pub(crate) fn cancel(&mut self, now: Duration, invite: Key, out: &mut Outbox) -> bool {
        let Some(client) = self.clients.get(invite) else {
            return false;
        };
        if client.state != ClientState::Proceeding || client.cancel.is_some() {
            return client.cancel.is_some();
        }
        let mut scanner = Scanner::new(Limits::default());
        let Some(bytes) = scanner
            .scan(&client.bytes)
            .ok()
            .and_then(|m| hop_by_hop(&m, "CANCEL", None))
        else {
            return false;
        };
        let (owner, to) = (client.owner, client.to);
        out.push(to, &bytes);
        let cancel = self.clients.insert(Client {
            owner,
            method: Method::Cancel,
            bytes,
            to,
            state: ClientState::Calling,
            wait: self.base.t1,
            expires: now + self.base.give_up(),
            timer: 0,
            cancel: None,
        });
        self.timers.set(now + self.base.t1, Due::Client(cancel, 0));
        if let Some(client) = self.clients.get_mut(invite) {
            client.cancel = Some(cancel);
        }
        true
    }

    /// Ends a client transaction without a word.
    pub(crate) fn forget(&mut self, client: Key) {
        self.clients.remove(client);
    }

    /// Notes whose transaction a request opened.
    pub(crate) fn adopt(&mut self, transaction: Key, owner: Owner) {
        if let Some(server) = self.servers.get_mut(transaction) {
            server.owner = Some(owner);
        }
    }

    /// Answers a request. `rest` writes what follows To and Record-Route, and ends the message ([`no_body`] at least).
    pub(crate) fn respond(
        &mut self,
        now: Duration,
        transaction: Key,
        code: u16,
        out: &mut Outbox,
        rest: impl FnOnce(&mut Vec<u8>),
    ) {
        let (base, local_tag) = (self.base, transaction.hex());
        let Some(server) = self.servers.get_mut(transaction) else {
            return;
        };
        if server.state != ServerState::Proceeding {
            return;
        }
        let tag = server.owner.map(Owner::tag);
        server.write(code, tag.as_ref().map_or(&local_tag[..], |t| &t[..]), rest);
        out.push(server.to, &server.response);
        if code < 200 {
            return;
        }
        server.echo = Vec::new();
        let (state, wait) = match (server.method, code) {
            (Method::Invite, 200..300) => (ServerState::Accepted, base.t1),
            (Method::Invite, _) => (ServerState::Completed, base.t1),
            _ => (ServerState::Completed, base.give_up()),
        };
        server.state = state;
        server.wait = wait;
        server.expires = now + base.give_up();
        server.timer += 1;
        self.timers
            .set(now + wait, Due::Server(transaction, server.timer));
    }

    /// The ACK of a 2xx came: the 2xx is not sent again. True the first time.
    pub(crate) fn acknowledged(&mut self, transaction: Key) -> bool {
        let Some(server) = self.servers.get_mut(transaction) else {
            return false;
        };
        if server.state != ServerState::Accepted {
            return false;
        }
        server.state = ServerState::Confirmed;
        server.timer += 1;
        self.timers
            .set(server.expires, Due::Server(transaction, server.timer));
        true
    }

    /// Does the work of one timer after the other, until one needs its user or none is due.
    pub(crate) fn tick(&mut self, now: Duration, out: &mut Outbox) -> Option<Expired> {
        while let Some(due) = self.timers.due(now) {
            let expired = match due {
                Due::Client(key, timer) => self.client_due(now, key, timer, out),
                Due::Server(key, timer) => self.server_due(now, key, timer, out),
            };
            if expired.is_some() {
                return expired;
            }
        }
        None
    }

    fn client_due(
        &mut self,
        now: Duration,
        key: Key,
        timer: u32,
        out: &mut Outbox,
    ) -> Option<Expired> {
        let client = self.clients.get_mut(key).filter(|c| c.timer == timer)?;
        let answered = matches!(client.state, ClientState::Accepted | ClientState::Completed);
        if answered || now >= client.expires {
            let client = self.clients.remove(key)?;
            self.traffic.timeouts += u64::from(!answered);
            return (!answered).then_some(Expired::Request {
                owner: client.owner,
                method: client.method,
            });
        }
        out.push(client.to, &client.bytes);
        self.traffic.retransmitted += 1;
        client.wait *= 2;
        if client.method != Method::Invite {
            client.wait = client.wait.min(self.base.t2);
        }
        let at = (now + client.wait).min(client.expires);
        self.timers.set(at, Due::Client(key, timer));
        None
    }

    fn server_due(
        &mut self,
        now: Duration,
        key: Key,
        timer: u32,
        out: &mut Outbox,
    ) -> Option<Expired> {
        let server = self.servers.get_mut(key).filter(|s| s.timer == timer)?;
        if now >= server.expires {
            let server = self.servers.remove(key)?;
            self.by_name.remove(&server.name);
            let owner = server
                .owner
                .filter(|_| server.state == ServerState::Accepted)?;
            return Some(Expired::Ack { owner });
        }
        out.push(server.to, &server.response);
        self.traffic.retransmitted += 1;
        server.wait = (server.wait * 2).min(self.base.t2);
        let at = (now + server.wait).min(server.expires);
        self.timers.set(at, Due::Server(key, timer));
        None
    }

    fn response(
        &mut self,
        now: Duration,
        message: &Message<'_>,
        code: u16,
        out: &mut Outbox,
    ) -> Incoming {
        let found = self.client_of(message);
        let Some((key, client)) = found.and_then(|k| Some((k, self.clients.get_mut(k)?))) else {
            self.traffic.stray += 1;
            return Incoming::Absorbed;
        };
        let base = self.base;
        let (owner, method) = (client.owner, client.method);
        let mut wait = None;
        match (client.state, code) {
            (ClientState::Calling, 100..200) => {
                client.state = ClientState::Proceeding;
                if method == Method::Invite {
                    // Timers A and B stop; what comes next decides.
                    client.timer += 1;
                } else {
                    client.wait = base.t2;
                }
            }
            (ClientState::Proceeding, 100..200) => {}
            (ClientState::Calling | ClientState::Proceeding, 200..300)
                if method == Method::Invite =>
            {
                client.state = ClientState::Accepted;
                wait = Some(base.give_up());
            }
            (ClientState::Accepted, 200..300) => self.traffic.repeats += 1,
            (ClientState::Calling | ClientState::Proceeding, _) => {
                client.state = ClientState::Completed;
                wait = Some(base.t4);
                if method == Method::Invite {
                    wait = Some(base.give_up());
                    let mut scanner = Scanner::new(Limits::default());
                    let invite = scanner.scan(&client.bytes).ok();
                    let to = message.value(Name::To);
                    client.bytes = invite
                        .and_then(|m| hop_by_hop(&m, "ACK", to))
                        .unwrap_or_default();
                    out.push(client.to, &client.bytes);
                }
            }
            (ClientState::Completed, 200..) => {
                self.traffic.repeats += 1;
                if method == Method::Invite {
                    out.push(client.to, &client.bytes);
                }
                return Incoming::Absorbed;
            }
            _ => return Incoming::Absorbed,
        }
        if let Some(wait) = wait {
            client.timer += 1;
            let timer = client.timer;
            self.timers.set(now + wait, Due::Client(key, timer));
        }
        Incoming::Response {
            owner,
            method,
            code,
        }
    }

    /// The transaction that a response names by branch and CSeq method (RFC 3261 section 17.1.3).
    fn client_of(&self, message: &Message<'_>) -> Option<Key> {
        let branch = message.top_via().ok()?.branch()?;
        let (key, _) = Key::read(branch.strip_prefix(BRANCH)?)?;
        let method = message.cseq().ok()?.method;
        let client = self.clients.get(key)?;
        let (key, client) = match method {
            Method::Cancel => (client.cancel?, self.clients.get(client.cancel?)?),
            _ => (key, client),
        };
        (client.method == method).then_some(key)
    }

    fn request_in(
        &mut self,
        now: Duration,
        from: SocketAddr,
        message: &Message<'_>,
        method: Method,
        out: &mut Outbox,
    ) -> Incoming {
        let invite_too = matches!(method, Method::Ack | Method::Cancel);
        if invite_too {
            self.server_name(message, Method::Invite);
            let invite = self.by_name.get(&self.scratch[..]).copied();
            if method == Method::Ack {
                return self.ack(now, invite);
            }
            return self.cancel_in(now, from, message, invite, out);
        }
        self.server_name(message, method);
        if let Some(key) = self.by_name.get(&self.scratch[..]).copied() {
            self.traffic.repeats += 1;
            if let Some(server) = self.servers.get(key)
                && server.state != ServerState::Confirmed
                && !server.response.is_empty()
            {
                out.push(server.to, &server.response);
            }
            return Incoming::Absorbed;
        }
        match self.open(from, message, method) {
            Some(transaction) => Incoming::Request {
                transaction,
                method,
            },
            None => Incoming::Absorbed,
        }
    }

    fn ack(&mut self, now: Duration, invite: Option<Key>) -> Incoming {
        let found = invite.and_then(|k| Some((k, self.servers.get_mut(k)?)));
        let Some((key, server)) = found else {
            return Incoming::Ack;
        };
        if server.state == ServerState::Completed {
            server.state = ServerState::Confirmed;
            server.expires = now + self.base.t4;
            server.timer += 1;
            self.timers
                .set(server.expires, Due::Server(key, server.timer));
        }
        Incoming::Absorbed
    }

    fn cancel_in(
        &mut self,
        now: Duration,
        from: SocketAddr,
        message: &Message<'_>,
        invite: Option<Key>,
        out: &mut Outbox,
    ) -> Incoming {
        self.server_name(message, Method::Cancel);
        if let Some(key) = self.by_name.get(&self.scratch[..]).copied() {
            self.traffic.repeats += 1;
            if let Some(server) = self.servers.get(key) {
                out.push(server.to, &server.response);
            }
            return Incoming::Absorbed;
        }
        let Some(own) = self.open(from, message, Method::Cancel) else {
            return Incoming::Absorbed;
        };
        let found = invite.and_then(|k| Some((k, self.servers.get(k)?)));
        let code = if found.is_some() { 200 } else { 481 };
        let pending = found.and_then(|(transaction, server)| {
            let owner = server.owner?;
            (server.state == ServerState::Proceeding).then_some((owner, transaction))
        });
        if let Some(owner) = found.and_then(|(_, s)| s.owner) {
            // RFC 3261 section 9.2: the To tag of the CANCEL's answer should be that of the INVITE's.
            self.adopt(own, owner);
        }
        self.respond(now, own, code, out, no_body);
        match pending {
            Some((owner, transaction)) => Incoming::Cancelled { owner, transaction },
            None => Incoming::Absorbed,
        }
    }

    /// Writes into `scratch` what a repeat of this request would have in common with it (RFC 3261 section 17.2.3).
    fn server_name(&mut self, message: &Message<'_>, method: Method) {
        self.scratch.clear();
        let Ok(via) = message.top_via() else {
            return;
        };
        self.scratch
            .extend_from_slice(via.branch().unwrap_or_default());
        self.scratch.push(b'|');
        self.scratch.extend_from_slice(via.sent_by.name);
        let port = via.sent_by.port.unwrap_or(5060);
        self.scratch.extend_from_slice(&port.to_be_bytes());
        self.scratch.push(method as u8);
        if method == Method::Other || via.branch().is_none() {
            let rest = [message.value(Name::CallId), message.value(Name::CSeq)];
            for value in rest.into_iter().flatten() {
                self.scratch.extend_from_slice(value);
            }
        }
    }

    /// Opens a server transaction under the name in `scratch`; `None` when the request cannot be answered at all.
    fn open(&mut self, from: SocketAddr, message: &Message<'_>, method: Method) -> Option<Key> {
        let whole = message.cseq().is_ok() && message.call_id().is_ok() && message.from().is_ok();
        let to = message.to().ok().filter(|_| whole);
        let (Some(to), true) = (to, self.servers.len() < SERVERS_MAX) else {
            self.traffic.malformed += 1;
            return None;
        };
        let via = message.top_via().ok()?;
        let reply_to = if via.wants_rport() {
            from
        } else {
            SocketAddr::new(from.ip(), via.sent_by.port.unwrap_or(5060))
        };
        let name: Arc<[u8]> = Arc::from(&self.scratch[..]);
        let key = self.servers.insert(Server {
            name: Arc::clone(&name),
            owner: None,
            method,
            to: reply_to,
            echo: echo(message, from),
            to_value: message.value(Name::To)?.to_vec(),
            tagged: to.tag().is_some(),
            record_routes: message
                .all(Name::RecordRoute)
                .flat_map(|h| h.line)
                .copied()
                .collect(),
            response: Vec::new(),
            state: ServerState::Proceeding,
            wait: Duration::ZERO,
            expires: Duration::MAX,
            timer: 0,
        });
        self.by_name.insert(name, key);
        Some(key)
    }
}

impl Server {
    fn write(&mut self, code: u16, tag: &[u8], rest: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::mem::take(&mut self.response);
        bytes.clear();
        write!(bytes, "SIP/2.0 {code} {}\r\n", reason(code)).ok();
        bytes.extend_from_slice(&self.echo);
        bytes.extend_from_slice(b"To: ");
        bytes.extend_from_slice(&self.to_value);
        if code > 100 && !self.tagged {
            bytes.extend_from_slice(b";tag=");
            bytes.extend_from_slice(tag);
        }
        bytes.extend_from_slice(b"\r\n");
        if self.method == Method::Invite && (101..300).contains(&code) {
            bytes.extend_from_slice(&self.record_routes);
        }
        rest(&mut bytes);
        self.response = bytes;
    }
}
