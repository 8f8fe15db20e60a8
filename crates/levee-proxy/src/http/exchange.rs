//! One request, from whichever protocol, to the server and back.
//!
//! [`run`](Exchange::run) has the head of the request as it is sent on, and a [`Client`] where the body comes from and the
//! answer goes. Both directions run at once, each with one buffer: what cannot be written is not read.
//!
//! The task of the client's connection does it all, so a step is a plain function that says where it stopped and since when
//! ([`Wait`]), and the deadline of the task is the earlier of the two directions'.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use levee_http::request::Method;
use levee_http::response::{self, Response};
use levee_http::{Bad, Framing};
use levee_policy::thinner::Outcome;

use super::body::{Incoming, Outgoing, Ready};
use super::buffer::{Buf, LARGE_BYTES};
use super::connection::{Broken, Link};
use super::gate::{Order, Permit, Waiting};
use super::io::{poll_fill, poll_write};
use super::pages::Refusal;
use super::snapshot::Phase;
use super::upstream::pool::{Lease, Upstream};
use super::worker::{Active, Worker};

/// Interim responses to one request that are passed on. A guess: 100, 102 now and then, and some 103.
const INTERIM_MAX: u32 = 32;

/// The client's side of one request.
pub(crate) trait Client {
    /// Its connection, or in HTTP/2 its stream.
    fn link(&self) -> &Link;

    /// Waits until [`Client::data`] has some content of the body, or it has ended.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Content, Failure>>;

    /// The content at hand.
    fn data(&self) -> &[u8];

    /// The first `n` bytes of [`Client::data`] have been sent on.
    fn consume(&mut self, n: usize);

    /// Lines of the trailers that came after the body.
    fn trailers(&self) -> &[u8];

    /// Waits for the client to go, while nothing of its request is read.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Broken>;

    /// Begins an interim response.
    fn interim(&mut self, response: Response<'_>);

    /// Begins the response.
    fn begin(&mut self, response: Response<'_>);

    /// Sends content of the response, with its head if that is still here. Returns how much was taken.
    fn poll_send(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, Broken>>;

    /// Sends what is still here.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>>;

    /// The response's body has ended: called once, before the last [`Client::poll_flush`].
    fn end(&mut self, trailers: &[u8]);
}

/// What [`Client::poll_body`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// [`Client::data`] is not empty.
    Data,
    /// There is no more.
    End,
}

/// Why a request was not answered, or not to its end.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The client went, was too slow, or lost its place.
    Client(Broken),
    /// Its body cannot be read, or is too long.
    Body(Bad),
    /// The server: the status that says so.
    Server(u16),
}

/// How an exchange ended.
#[derive(Debug)]
pub(crate) enum Done {
    /// The answer has been sent.
    Answered,
    /// The connection is a tunnel now; what the server has said in it already is in [`Exchange::input`].
    Tunnel(Upstream),
}

/// What the exchange has to know of a request beside its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) method: Method,
    /// Whether a body comes.
    pub(crate) body: bool,
    /// Whether the client waits for 100 before it sends it.
    pub(crate) expect_continue: bool,
    /// Whether it asks for a WebSocket.
    pub(crate) websocket: bool,
}

/// The memory of an exchange; used again for the next request.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// To the server. Its head is there before [`Exchange::run`].
    pub(crate) request: Outgoing,
    /// From the server.
    pub(crate) input: Buf,
    response: response::Head,
    answer: Incoming,
    /// Status of the response that was begun; 0 before.
    pub(crate) status: u16,
    /// Whether it went on a connection that had been used before.
    pub(crate) reused: bool,
}

impl Exchange {
    /// Sends the request on and the answer back, and tells the thinner how that went.
    pub(crate) async fn run<C: Client>(
        &mut self,
        client: &mut C,
        facts: Facts,
        active: &Active,
        mut permit: Permit,
    ) -> Result<Done, Failure> {
        self.status = 0;
        let ended = self.relay(client, facts, active, &mut permit).await;
        permit.done(match (&ended, self.status) {
            (Ok(_), 502..=504) | (Err(Failure::Server(..)), _) => Outcome::Failed,
            (Ok(_), _) => Outcome::Answered,
            (Err(_), _) => Outcome::Broken,
        });
        ended
    }

    async fn relay<C: Client>(
        &mut self,
        client: &mut C,
        facts: Facts,
        active: &Active,
        permit: &mut Permit,
    ) -> Result<Done, Failure> {
        let worker = Rc::clone(&client.link().worker);
        let mut fresh = false;
        loop {
            let upstream = match self.kept(&worker, facts, active, fresh) {
                Some(upstream) => upstream,
                None => connect(&worker, client, active).await?,
            };
            self.reused = upstream.reused;
            self.response.clear();
            let mut relay = Relay {
                worker: &worker,
                active,
                facts,
                exchange: self,
                sending: if facts.body {
                    Sending::Body
                } else {
                    Sending::Rest
                },
                receiving: Receiving::Head,
                up: Wait::NONE,
                down: Wait::NONE,
                held: facts.expect_continue,
                came: 0,
                interim: 0,
                timeouts_between: active.settings.timeouts.upstream_between_reads,
                begun: Instant::now(),
                permit: &mut *permit,
                suspended: false,
                upstream,
            };
            let ended = poll_fn(|cx| relay.poll(cx, client)).await;
            let upstream = match ended {
                Ok(()) => relay.upstream_after(),
                Err(Ended::Failed(failure)) => {
                    self.input.release(&worker.buffers);
                    return Err(failure);
                }
                Err(Ended::Dead) => {
                    // RFC 9112 section 9.3.1: a request that may have done something is not sent twice.
                    if self.reused && facts.method.is_idempotent() && !self.request.has_begun() {
                        worker.server_failed("retried");
                        self.request.again();
                        fresh = true;
                        continue;
                    }
                    worker.server_failed("server_closed");
                    return Err(Failure::Server(502));
                }
            };
            if !matches!(upstream, After::Tunnel(_)) {
                // The client's connection may be idle from here on, and holds no buffer then.
                self.input.release(&worker.buffers);
            }
            return Ok(match upstream {
                After::Tunnel(upstream) => Done::Tunnel(upstream),
                After::Keep(upstream) => {
                    let until_ms = worker.timers.after(active.settings.timeouts.upstream_idle);
                    worker.pool.put(upstream, until_ms);
                    Done::Answered
                }
                After::Close => Done::Answered,
            });
        }
    }

    /// A connection that was kept.
    fn kept(
        &self,
        worker: &Worker,
        facts: Facts,
        active: &Active,
        fresh: bool,
    ) -> Option<Upstream> {
        if fresh {
            return None;
        }
        let server = active.settings.server;
        while let Some(upstream) = worker.pool.take(server) {
            // What cannot be sent again is not risked on what the driver has seen last.
            if facts.method.is_idempotent() && !facts.body || upstream.is_quiet_now() {
                worker.count(|t| t.upstream_reused += 1);
                return Some(upstream);
            }
        }
        None
    }
}

/// How often a client that waits is looked at, where what it has sent ahead hides whether it is still there.
const GONE_EVERY: Duration = Duration::from_secs(1);

/// Waits for the thinner, while the client stays; if it goes, its place in the auction goes with it.
pub(crate) async fn admitted<C: Client>(
    client: &mut C,
    waiting: Waiting,
) -> Result<Result<Permit, Refusal>, Broken> {
    let mut waiting = pin!(waiting);
    client.link().enter(Phase::Waiting);
    client.link().timer.set(GONE_EVERY);
    poll_fn(|cx| {
        if let Poll::Ready(decided) = waiting.as_mut().poll(cx) {
            return Poll::Ready(Ok(decided));
        }
        match client.link().poll_stop(cx) {
            Ok(()) => {}
            Err(Broken::Late) => client.link().timer.set(GONE_EVERY),
            Err(broken) => return Poll::Ready(Err(broken)),
        }
        match client.poll_gone(cx) {
            Poll::Ready(Broken::Late) | Poll::Pending => Poll::Pending,
            Poll::Ready(broken) => Poll::Ready(Err(broken)),
        }
    })
    .await
}

/// Connects, while the client stays.
async fn connect<C: Client>(
    worker: &Rc<Worker>,
    client: &mut C,
    active: &Active,
) -> Result<Upstream, Failure> {
    let max = active.settings.limits.upstream_connections_max;
    let Some(lease) = Lease::take(&worker.shared.upstream_open, &worker.upstream_own, max) else {
        worker.server_failed("no_server_connection");
        return Err(Failure::Server(503));
    };
    let mut connecting = pin!(Upstream::connect(active.settings.server, lease));
    let timeout = active.settings.timeouts.upstream_connect;
    client.link().timer.set(timeout);
    client.link().be(Phase::Waiting);
    let connected = poll_fn(|cx| {
        if let Poll::Ready(connected) = connecting.as_mut().poll(cx) {
            return Poll::Ready(Ok(connected));
        }
        match client.link().poll_stop(cx) {
            Ok(()) => {}
            Err(Broken::Late) => {
                worker.server_failed("connect_late");
                return Poll::Ready(Err(Failure::Server(504)));
            }
            Err(broken) => return Poll::Ready(Err(Failure::Client(broken))),
        }
        client
            .poll_gone(cx)
            .map(|broken| Err(Failure::Client(broken)))
    })
    .await?;
    match connected {
        Ok(upstream) => {
            worker.count(|t| t.upstream_connects += 1);
            Ok(upstream)
        }
        Err(_) => {
            worker.server_failed("connect_failed");
            Err(Failure::Server(502))
        }
    }
}

/// How far the request has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    /// Its body comes.
    Body,
    /// All of it is here; what is left has to be written.
    Rest,
    Done,
    /// The server takes no more. It may still have said something.
    Broken,
}

/// How far the answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    Head,
    Body,
    /// All of it is here; what is left has to be written.
    Rest,
    Done,
}

/// What a direction waits for, and until when.
#[derive(Clone, Copy, Debug)]
struct Wait {
    what: What,
    until_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Nothing,
    /// The client's body.
    Body,
    /// The server, to take the request.
    ServerSend,
    /// The server, to answer.
    FirstByte,
    /// The server, to go on.
    Between,
    /// The client, to take the answer.
    Send,
}

impl Wait {
    const NONE: Self = Self {
        what: What::Nothing,
        until_ms: u64::MAX,
    };

    /// Goes on waiting, or begins to.
    fn on(&mut self, what: What, worker: &Worker, span: Duration) {
        if self.what != what {
            *self = Self {
                what,
                until_ms: worker.timers.after(span),
            };
        }
    }
}

/// How a relay ended without an answer.
#[derive(Debug)]
enum Ended {
    Failed(Failure),
    /// The server closed before it said anything.
    Dead,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Broken> for Ended {
    fn from(broken: Broken) -> Self {
        Self::Failed(Failure::Client(broken))
    }
}

/// What becomes of the connection to the server.
enum After {
    Keep(Upstream),
    Tunnel(Upstream),
    Close,
}

/// One try of a request on one connection.
struct Relay<'a> {
    worker: &'a Worker,
    active: &'a Active,
    facts: Facts,
    exchange: &'a mut Exchange,
    upstream: Upstream,
    sending: Sending,
    receiving: Receiving,
    up: Wait,
    down: Wait,
    /// The client waits for 100 before it sends its body.
    held: bool,
    /// Bytes of the body since the phase was last told.
    came: u64,
    interim: u32,
    timeouts_between: Duration,
    begun: Instant,
    permit: &'a mut Permit,
    /// The thinner has taken the server from it for a while.
    suspended: bool,
}

impl Relay<'_> {
    fn poll<C: Client>(&mut self, cx: &mut Context<'_>, client: &mut C) -> Poll<Result<(), Ended>> {
        if let Poll::Ready(ended) = self.poll_orders(cx) {
            return Poll::Ready(Err(ended));
        }
        let polled = if self.suspended {
            // What is not read is not written: the server stops by itself when its buffers are full.
            client.poll_gone(cx).map(|broken| Err(broken.into()))
        } else {
            self.step(cx, client)
        };
        match polled {
            Poll::Pending => {
                self.tell_phase(client.link());
                let until_ms = self.up.until_ms.min(self.down.until_ms);
                client.link().timer.set_at(until_ms);
                match client.link().poll_stop(cx) {
                    Ok(()) => Poll::Pending,
                    Err(broken) => Poll::Ready(Err(self.stopped(broken, client.link()).into())),
                }
            }
            Poll::Ready(Err(Ended::Failed(Failure::Client(broken)))) => {
                Poll::Ready(Err(self.stopped(broken, client.link()).into()))
            }
            ready => ready,
        }
    }

    fn step<C: Client>(&mut self, cx: &mut Context<'_>, client: &mut C) -> Poll<Result<(), Ended>> {
        if matches!(self.sending, Sending::Body | Sending::Rest) {
            // Pending or not, the server may have something to say.
            if let Poll::Ready(Err(ended)) = self.poll_up(cx, client) {
                return Poll::Ready(Err(ended));
            }
        }
        self.poll_down(cx, client)
    }

    /// What the thinner wants of it.
    fn poll_orders(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        loop {
            match ready!(pin!(self.permit.order()).poll(cx)) {
                Order::Suspend => {
                    self.suspended = true;
                    // It is nobody's fault that nothing moves.
                    (self.up, self.down) = (Wait::NONE, Wait::NONE);
                }
                Order::Resume => self.suspended = false,
                Order::Abort => return Poll::Ready(Ended::Failed(Failure::Server(503))),
            }
        }
    }

    /// The phase by what is waited for.
    fn tell_phase(&mut self, link: &Link) {
        let came = std::mem::take(&mut self.came);
        match (self.up.what, self.down.what) {
            // What went before filled the kernel's buffers, and says nothing of the client.
            (_, What::Send) => link.be(Phase::Sending),
            (What::Body, _) => link.be_with(Phase::Body, came),
            _ => link.be(Phase::Waiting),
        }
    }

    /// Who was too slow, when somebody was.
    fn stopped(&self, broken: Broken, link: &Link) -> Failure {
        if broken != Broken::Late {
            return Failure::Client(broken);
        }
        let late = if self.up.until_ms <= self.down.until_ms {
            self.up.what
        } else {
            self.down.what
        };
        let what = match late {
            What::Nothing | What::Body | What::Send => {
                self.worker.late(link.phase());
                return Failure::Client(Broken::Late);
            }
            What::ServerSend => "server_reads_late",
            What::FirstByte => "server_late",
            What::Between => "server_stalled",
        };
        self.worker.server_failed(what);
        Failure::Server(504)
    }

    /// Client to server, until it stops.
    fn poll_up<C: Client>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut C,
    ) -> Poll<Result<(), Ended>> {
        let timeouts = &self.active.settings.timeouts;
        loop {
            let mut content = false;
            if self.sending == Sending::Body {
                match client.poll_body(cx) {
                    Poll::Ready(Ok(Content::Data)) => {
                        content = true;
                        self.held = false;
                    }
                    Poll::Ready(Ok(Content::End)) => {
                        self.exchange.request.end(client.trailers());
                        self.sending = Sending::Rest;
                    }
                    Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure.into())),
                    Poll::Pending => {}
                }
            }
            if !content && self.exchange.request.is_written() {
                if self.sending == Sending::Rest {
                    self.sending = Sending::Done;
                    self.up = Wait::NONE;
                    return Poll::Ready(Ok(()));
                }
                // A client that was told to wait for 100 is not slow.
                if self.held {
                    let span = timeouts.upstream_first_byte;
                    self.up.on(What::FirstByte, self.worker, span);
                } else {
                    self.up.on(What::Body, self.worker, timeouts.body);
                }
                return Poll::Pending;
            }
            let data = if content { client.data() } else { &[] };
            let stream = &mut self.upstream.stream;
            let request = &mut self.exchange.request;
            match request.poll_write(data, |a, b| poll_write(stream, cx, a, b)) {
                Poll::Ready(Ok(n)) => {
                    client.consume(n);
                    self.came += n as u64;
                    self.up = Wait::NONE;
                }
                // It may have answered before it closed.
                Poll::Ready(Err(_)) => {
                    self.sending = Sending::Broken;
                    self.up = Wait::NONE;
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending => {
                    self.up
                        .on(What::ServerSend, self.worker, timeouts.upstream_send);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Server to client, until it stops.
    fn poll_down<C: Client>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut C,
    ) -> Poll<Result<(), Ended>> {
        loop {
            match self.receiving {
                Receiving::Head => ready!(self.poll_head(cx, client))?,
                Receiving::Body => ready!(self.poll_body(cx, client))?,
                Receiving::Rest => {
                    if client.poll_flush(cx)?.is_pending() {
                        let span = self.active.settings.timeouts.send;
                        self.down.on(What::Send, self.worker, span);
                        return Poll::Pending;
                    }
                    self.receiving = Receiving::Done;
                }
                Receiving::Done => return Poll::Ready(Ok(())),
            }
        }
    }

    fn poll_head<C: Client>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut C,
    ) -> Poll<Result<(), Ended>> {
        loop {
            let exchange = &mut *self.exchange;
            if !exchange.input.is_empty() {
                let limits = &self.active.response_limits;
                let read =
                    exchange
                        .response
                        .read(exchange.input.bytes(), self.facts.method, limits);
                match read {
                    Ok(Some(len)) => return Poll::Ready(self.head(len, client)),
                    Ok(None) => {}
                    Err(_) => return Poll::Ready(Err(self.server_failed("bad_answer"))),
                }
            }
            let size = exchange.input.len() + LARGE_BYTES;
            let size = if exchange.input.is_full() {
                size
            } else {
                LARGE_BYTES
            };
            let read = poll_fill(
                &mut self.upstream.stream,
                cx,
                &mut exchange.input,
                &self.worker.buffers,
                size,
            );
            match read {
                Poll::Ready(Ok(n)) if n > 0 => {}
                Poll::Ready(_) if exchange.input.is_empty() && self.interim == 0 => {
                    return Poll::Ready(Err(Ended::Dead));
                }
                Poll::Ready(_) => return Poll::Ready(Err(self.server_failed("server_cut"))),
                Poll::Pending => return self.poll_waiting(cx, client),
            }
        }
    }

    /// The head of the answer has not come.
    fn poll_waiting<C: Client>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut C,
    ) -> Poll<Result<(), Ended>> {
        if self.interim > 0 && client.poll_flush(cx)?.is_pending() {
            let span = self.active.settings.timeouts.send;
            self.down.on(What::Send, self.worker, span);
            return Poll::Pending;
        }
        match self.sending {
            // The other direction waits, or is not done.
            Sending::Body | Sending::Rest => self.down = Wait::NONE,
            Sending::Done | Sending::Broken => {
                let span = self.active.settings.timeouts.upstream_first_byte;
                self.down.on(What::FirstByte, self.worker, span);
                if let Poll::Ready(broken) = client.poll_gone(cx) {
                    return Poll::Ready(Err(broken.into()));
                }
            }
        }
        Poll::Pending
    }

    /// A head of `len` bytes has come.
    fn head<C: Client>(&mut self, len: usize, client: &mut C) -> Result<(), Ended> {
        let exchange = &mut *self.exchange;
        let head = &exchange.response;
        let response = head.on(exchange.input.bytes());
        if head.is_interim() {
            self.interim += 1;
            if self.interim > INTERIM_MAX {
                return Err(self.server_failed("too_many_interim"));
            }
            if head.status() == 100 && std::mem::take(&mut self.held) {
                // From now on the client is waited for, whether it sends or not.
                let timeouts = &self.active.settings.timeouts;
                self.up.on(What::Body, self.worker, timeouts.body);
            }
            client.interim(response);
            exchange.input.consume(len);
            exchange.response.clear();
            return Ok(());
        }
        if head.websocket() && !self.facts.websocket {
            return Err(self.server_failed("unasked_upgrade"));
        }
        exchange.status = head.status();
        exchange.answer = Incoming::new(head.framing(), u64::MAX);
        // An event stream is silent while nothing happens.
        let kind = response.fields().get("content-type").unwrap_or_default();
        if kind.starts_with(b"text/event-stream") {
            self.timeouts_between = self.active.settings.timeouts.tunnel;
        }
        client.begin(response);
        let us = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let status = exchange.status;
        self.worker.count(|t| {
            t.note_response(status);
            t.upstream_latency.note(us);
        });
        exchange.input.consume(len);
        self.down = Wait::NONE;
        self.receiving = if exchange.answer.is_over() {
            client.end(&[]);
            Receiving::Rest
        } else {
            Receiving::Body
        };
        Ok(())
    }

    fn poll_body<C: Client>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut C,
    ) -> Poll<Result<(), Ended>> {
        loop {
            let exchange = &mut *self.exchange;
            match exchange.answer.look(&mut exchange.input) {
                Ok(Ready::Data(n)) => match client.poll_send(cx, &exchange.input.bytes()[..n])? {
                    Poll::Ready(n) => {
                        exchange.answer.consume(&mut exchange.input, n);
                        self.down = Wait::NONE;
                        if exchange.answer.is_over() {
                            client.end(exchange.answer.trailers());
                            self.receiving = Receiving::Rest;
                            return Poll::Ready(Ok(()));
                        }
                    }
                    Poll::Pending => {
                        let span = self.active.settings.timeouts.send;
                        self.down.on(What::Send, self.worker, span);
                        return Poll::Pending;
                    }
                },
                Ok(Ready::End) => {
                    client.end(exchange.answer.trailers());
                    self.receiving = Receiving::Rest;
                    return Poll::Ready(Ok(()));
                }
                Ok(Ready::More) => ready!(self.poll_more(cx, client))?,
                Err(_) => return Poll::Ready(Err(self.server_failed("bad_answer"))),
            }
        }
    }

    /// Reads more of the answer's body.
    fn poll_more<C: Client>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut C,
    ) -> Poll<Result<(), Ended>> {
        let exchange = &mut *self.exchange;
        let buffers = &self.worker.buffers;
        let stream = &mut self.upstream.stream;
        match poll_fill(stream, cx, &mut exchange.input, buffers, LARGE_BYTES) {
            Poll::Ready(Ok(n)) if n > 0 => {
                self.down = Wait::NONE;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Ok(_)) if exchange.answer.close() => Poll::Ready(Ok(())),
            Poll::Ready(_) => Poll::Ready(Err(self.server_failed("server_cut"))),
            Poll::Pending => {
                // What there is goes out, and a client that went is noticed before the server speaks again.
                if client.poll_flush(cx)?.is_pending() {
                    let span = self.active.settings.timeouts.send;
                    self.down.on(What::Send, self.worker, span);
                    return Poll::Pending;
                }
                self.down
                    .on(What::Between, self.worker, self.timeouts_between);
                if matches!(self.sending, Sending::Done | Sending::Broken)
                    && let Poll::Ready(broken) = client.poll_gone(cx)
                {
                    return Poll::Ready(Err(broken.into()));
                }
                Poll::Pending
            }
        }
    }

    fn server_failed(&self, what: &'static str) -> Ended {
        self.worker.server_failed(what);
        Ended::Failed(Failure::Server(502))
    }

    fn upstream_after(self) -> After {
        let exchange = self.exchange;
        if exchange.response.websocket() {
            return After::Tunnel(self.upstream);
        }
        let clean = self.sending == Sending::Done && exchange.input.is_empty();
        if clean && exchange.response.keep_alive() {
            After::Keep(self.upstream)
        } else {
            After::Close
        }
    }
}

/// How a body that came framed like this goes to a server.
pub(crate) fn framing_to_server(framing: Framing, method: Method) -> Framing {
    match framing {
        // What has no body by itself says so, lest a server wait for one (RFC 9110 section 8.6).
        Framing::None if matches!(method, Method::Post | Method::Put | Method::Patch) => {
            Framing::Length(0)
        }
        other => other,
    }
}
