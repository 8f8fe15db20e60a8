//! HTTP/1.1 with a client: heads are read one after the other, and answered in this order.
//!
//! A head is read as strictly as `levee-http` does. What cannot be read is answered and the connection closed, because nobody
//! knows where the next request would begin.

pub(super) mod answer;
mod client;
mod payment;
pub(super) mod story;
mod tunnel;

use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;

use levee_http::edit::{self, ForwardRequest, Hop, Told};
use levee_http::forwarded::{self, Origin, Source};
use levee_http::request::{Head, Method, Request};
use levee_http::{Bad, Framing, Version};

use self::answer::Answer;
use self::client::Http1;
use self::story::{Ending, Story};
use super::body::Incoming;
use super::buffer::SMALL_BYTES;
use super::connection::{Broken, Connection};
use super::exchange::{self, Done, Exchange, Facts, Failure, framing_to_server};
use super::gate::{Asked, Permit, RequestFacts};
use super::pages::Refusal;
use super::snapshot::Phase;
use super::ticket;
use super::worker::{Active, Worker};

/// What comes after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Another one.
    Request,
    /// The end, at once.
    Close,
    /// The end, but the client still sends: what it sends is read and dropped for a while, for a reset would take the answer
    /// from it.
    Linger,
}

/// Serves a connection to its end.
pub(crate) async fn serve(connection: Connection) {
    let worker = Rc::clone(&connection.link.worker);
    let active = worker.active();
    let peer = connection.link.peer.ip();
    let trusted = active.settings.forwarded.trusts(peer);
    let source = trusted.then_some(Source::XForwarded);
    let hop = Hop::new(peer, connection.link.tls, source, Told::default());
    drop(active);
    let mut own = Loop {
        client: Http1::new(connection),
        head: Head::default(),
        exchange: Exchange::default(),
        hop,
        requests: 0,
        story: Story::default(),
    };
    let next = loop {
        match own.request(&worker).await {
            Next::Request => {}
            other => break other,
        }
    };
    if next == Next::Linger {
        own.linger(&worker).await;
    } else {
        own.client.connection.stream.say_bye().await;
    }
    own.exchange.input.release(&worker.buffers);
    own.client.connection.input.release(&worker.buffers);
}

/// The loop of one connection, with the memory that its requests use in turn.
struct Loop {
    client: Http1,
    head: Head,
    exchange: Exchange,
    hop: Hop,
    requests: u32,
    story: Story,
}

impl Loop {
    /// Reads one request and answers it.
    async fn request(&mut self, worker: &Worker) -> Next {
        let active = worker.active();
        let len = match self.read_head(worker, &active).await {
            Ok(len) => len,
            Err(next) => return next,
        };
        // It may have been awaited for long, and a reload have come meanwhile.
        let active = worker.active();
        self.requests += 1;
        worker.count(|t| t.requests_h1 += 1);
        let next = self.take(worker, &active, len).await;
        self.client
            .connection
            .input
            .release_if_empty(&worker.buffers);
        self.log(worker);
        next
    }

    /// Waits for the next head and reads it: its length.
    async fn read_head(&mut self, worker: &Worker, active: &Active) -> Result<usize, Next> {
        self.head.clear();
        let timeouts = &active.settings.timeouts;
        // The first head counts from when the connection was made.
        let mut begun = self.requests == 0 || !self.client.connection.input.is_empty();
        if self.requests > 0 {
            let connection = &self.client.connection;
            connection.link.timer.set(if begun {
                timeouts.headers
            } else {
                timeouts.idle
            });
            connection
                .link
                .enter(if begun { Phase::Headers } else { Phase::Idle });
        }
        loop {
            let connection = &mut self.client.connection;
            if !connection.input.is_empty() {
                match self
                    .head
                    .read(connection.input.bytes(), &active.request_limits)
                {
                    Ok(Some(len)) => return Ok(len),
                    Ok(None) => {}
                    Err(bad) => return Err(self.bad_head(worker, active, bad).await),
                }
                if !begun {
                    begun = true;
                    connection.link.timer.set(timeouts.headers);
                    connection.link.enter(Phase::Headers);
                }
            }
            let waits = connection.input.is_empty();
            // A head that is longer than usual may grow up to the limit.
            let size = if connection.input.is_full() {
                (connection.input.len() * 2).min(active.request_limits.head_bytes_max + 1)
            } else {
                SMALL_BYTES
            };
            let client = &mut self.client;
            let read = poll_fn(|cx| {
                if waits && worker.is_draining() && !client.has_gathered() {
                    return Poll::Ready(Err(Broken::Closed));
                }
                client.poll_next(cx, size)
            });
            if let Err(broken) = read.await {
                return Err(self.no_head(worker, active, broken).await);
            }
        }
    }

    /// The connection ended, or has to, before there was a whole head.
    async fn no_head(&mut self, worker: &Worker, active: &Active, broken: Broken) -> Next {
        let link = &self.client.connection.link;
        let silent = self.client.connection.input.is_empty();
        match broken {
            Broken::Closed => return Next::Close,
            Broken::Late => worker.late(link.phase()),
            Broken::Evicted => {}
        }
        if silent {
            // Nothing was asked, so nothing is answered.
            return Next::Close;
        }
        let reason = match broken {
            Broken::Evicted => "the head came too slowly, and the connection is needed for another",
            _ => "the head took too long",
        };
        let bad = Bad {
            status: 408,
            reason,
        };
        self.bad_head(worker, active, bad).await
    }

    async fn bad_head(&mut self, worker: &Worker, active: &Active, bad: Bad) -> Next {
        self.story.begin(worker, None);
        self.client
            .begin_request(self.head.version(), false, Incoming::default());
        let next = self.refuse_bad(worker, active, bad).await;
        self.log(worker);
        // Whatever follows belongs to nobody.
        if next == Next::Close {
            next
        } else {
            Next::Linger
        }
    }

    /// A head of `len` bytes has been read: the request is decided upon, and goes to the server or is answered here.
    async fn take(&mut self, worker: &Worker, active: &Active, len: usize) -> Next {
        let head = &self.head;
        let framing = head.framing();
        let max = active.settings.limits.body_bytes_max.unwrap_or(u64::MAX);
        let last = self.requests >= active.settings.limits.keep_alive_requests;
        let keep = head.keep_alive() && !last && !worker.is_draining();
        self.client
            .begin_request(head.version(), keep, Incoming::new(framing, max));
        let origin = self.origin(len, active);
        self.story.begin(
            worker,
            Some((
                head.on(&self.client.connection.input.bytes()[..len]),
                origin.client,
            )),
        );
        let asks = worker.shared.gate.asks();
        let permit = if asks {
            match self.ask(worker, active, len, origin.client).await {
                Ok(permit) => permit,
                Err(next) => return next,
            }
        } else {
            Permit::free()
        };
        let facts = self.write_head(asks, origin, len);
        self.consume_head(worker, len);
        if matches!(framing, Framing::Length(n) if n > max) {
            let bad = Bad {
                status: 413,
                reason: "the body is too long",
            };
            return self.refuse_bad(worker, active, bad).await;
        }
        if self.head.max_forwards() == Some(0) {
            let answer = Answer::new(200, "as far as it may go");
            return self.refuse(worker, active, &answer).await;
        }
        if self.flush(active).await.is_err() {
            return Next::Close;
        }
        let ended = self.exchange.run(&mut self.client, facts, active, permit);
        match ended.await {
            Ok(Done::Answered) => {
                self.story.end(self.exchange.status, Ending::Complete);
                self.client.after()
            }
            Ok(Done::Tunnel(upstream)) => {
                self.story.end(self.exchange.status, Ending::Complete);
                let connection = &mut self.client.connection;
                tunnel::run(connection, upstream, &mut self.exchange.input, active).await;
                Next::Close
            }
            Err(failure) => self.failed(worker, active, failure).await,
        }
    }

    /// The head is no longer needed.
    fn consume_head(&mut self, worker: &Worker, len: usize) {
        let input = &mut self.client.connection.input;
        input.consume(len);
        input.release_if_empty(&worker.buffers);
    }

    /// Asks the thinner. `Err`: it was not admitted, or no request for the server, and is answered.
    async fn ask(
        &mut self,
        worker: &Worker,
        active: &Active,
        len: usize,
        client: IpAddr,
    ) -> Result<Permit, Next> {
        let gate = &worker.shared.gate;
        let facts = self.facts(len);
        if facts.is_pay() {
            if self.flush(active).await.is_err() {
                return Err(Next::Close);
            }
            return Err(self.payment(worker, active, len).await);
        }
        let refused = match gate.ask(&facts, Some(client)) {
            Asked::Admit(permit) => Ok(permit),
            Asked::Refuse(refusal) => Err(refusal),
            Asked::Wait(_) if self.flush(active).await.is_err() => return Err(Next::Close),
            Asked::Wait(waiting) => match exchange::admitted(&mut self.client, waiting).await {
                Ok(decided) => decided,
                Err(broken) => {
                    let failed = self.failed(worker, active, Failure::Client(broken)).await;
                    return Err(failed);
                }
            },
        };
        let facts = self.facts(len);
        let answer = match refused {
            // The page's script only waits; it is the reload that goes to the server.
            Ok(permit) if facts.is_wait() => gate.park(&facts, permit),
            Ok(permit) => {
                self.story.admitted(&permit);
                return Ok(permit);
            }
            Err(refusal) => {
                self.story.refused(&refusal);
                self.refusal(worker, len, &refusal)
            }
        };
        self.consume_head(worker, len);
        Err(self.refuse(worker, active, &answer.into()).await)
    }

    fn refusal(&self, worker: &Worker, len: usize, refusal: &Refusal) -> super::pages::Answer {
        worker.shared.gate.answer(&self.facts(len), refusal)
    }

    /// What the gate wants to know of a request whose head is the first `len` bytes.
    fn facts(&self, len: usize) -> RequestFacts<'_> {
        RequestFacts::from_head(self.request_on(len), len)
    }

    fn request_on(&self, len: usize) -> Request<'_> {
        self.head.on(&self.client.connection.input.bytes()[..len])
    }

    /// Writes the head that is sent on. What is meant for the gate (`asks`) ends here.
    fn write_head(&mut self, asks: bool, origin: Origin, len: usize) -> Facts {
        let head = &self.head;
        let request = head.on(&self.client.connection.input.bytes()[..len]);
        let (method, websocket) = (head.method(), head.websocket());
        let framing = framing_to_server(head.framing(), method);
        let target = if asks {
            ticket::without_ticket(request.origin_form().path)
        } else {
            None
        };
        let forward = ForwardRequest {
            hop: &self.hop,
            origin,
            target: target.as_deref(),
            host: None,
            framing,
            connection: if websocket {
                edit::Connection::WebSocket
            } else {
                edit::Connection::Persistent
            },
            expect_continue: head.expect_continue(),
            via: b"",
            drop: if asks { GATE_FIELDS } else { &[] },
            lines: b"",
        };
        let out = self.exchange.request.begin(framing == Framing::Chunked);
        edit::request(out, request, &forward);
        Facts {
            method,
            body: !head.framing().is_empty(),
            expect_continue: head.expect_continue(),
            websocket,
        }
    }

    /// Who made the request.
    fn origin(&self, len: usize, active: &Active) -> Origin {
        let Some(source) = self.hop.trusted() else {
            return Origin {
                client: self.hop.peer(),
                https: None,
            };
        };
        let forwarded = &active.settings.forwarded;
        let trusts = |ip: IpAddr| forwarded.trusts(ip);
        let fields = self.request_on(len).fields();
        forwarded::origin(fields, self.hop.peer(), source, trusts)
    }

    /// The exchange did not come to its end: says so, if that can still be done.
    async fn failed(&mut self, worker: &Worker, active: &Active, failure: Failure) -> Next {
        let answer = match failure {
            Failure::Client(Broken::Closed) => {
                worker.count(|t| t.client_gone += 1);
                self.story
                    .end(self.client.status(self.exchange.status), Ending::Gone);
                return Next::Close;
            }
            Failure::Client(Broken::Late) => Answer::new(408, "the body took too long"),
            Failure::Client(Broken::Evicted) if self.client.waits_for_body() => {
                let reason = "the body came too slowly, and the connection is needed for another";
                Answer::new(408, reason)
            }
            Failure::Client(Broken::Evicted) => {
                Answer::new(503, "the connection is needed for another")
            }
            Failure::Body(bad) if !self.client.has_begun() => {
                return self.refuse_bad(worker, active, bad).await;
            }
            Failure::Body(bad) => Answer::of(bad),
            Failure::Server(status) => Answer::new(status, answer::phrase(status)),
        };
        if self.client.has_begun() {
            // Half an answer must not look like a whole one.
            self.story.end(self.exchange.status, Ending::Cut);
            self.client.connection.stream.reset_on_drop();
            return Next::Close;
        }
        self.refuse(worker, active, &answer).await
    }

    /// Answers what cannot be read, or asks for too much.
    async fn refuse_bad(&mut self, worker: &Worker, active: &Active, bad: Bad) -> Next {
        let cause = answer::cause(bad.status);
        worker.count(|t| *t.bad_requests.entry(cause).or_default() += 1);
        self.refuse(worker, active, &Answer::of(bad)).await
    }

    /// Answers by ourselves. The connection goes on only if the request was read to its end.
    async fn refuse(&mut self, worker: &Worker, active: &Active, answer: &Answer) -> Next {
        worker.count(|t| t.note_reply(answer.status));
        self.story.end(answer.status, Ending::Complete);
        let keep = self.client.may_go_on();
        let bodiless = self.head.method() == Method::Head;
        self.client.answer(answer, keep, bodiless, &worker.date());
        if keep && self.client.may_gather() {
            return Next::Request;
        }
        match self.flush(active).await {
            Err(_) => Next::Close,
            Ok(()) if keep => Next::Request,
            Ok(()) => Next::Linger,
        }
    }

    /// Writes what waits for the client.
    async fn flush(&mut self, active: &Active) -> Result<(), Broken> {
        if !self.client.has_gathered() {
            return Ok(());
        }
        let link = &self.client.connection.link;
        link.timer.set(active.settings.timeouts.send);
        let client = &mut self.client;
        let written = poll_fn(|cx| {
            let polled = client.poll_answered(cx);
            if polled.is_pending() {
                client.connection.link.be(Phase::Sending);
            }
            polled
        });
        written.await
    }

    /// Reads and drops what still comes, until the client closes or its time is up.
    async fn linger(&mut self, worker: &Worker) {
        let connection = &mut self.client.connection;
        let linger = worker.active().settings.timeouts.linger;
        connection.input.release(&worker.buffers);
        connection.link.timer.set(linger);
        connection.link.be(Phase::Idle);
        let finished = poll_fn(|cx| match connection.stream.poll_finish(cx) {
            Poll::Pending if connection.link.poll_stop(cx).is_err() => Poll::Ready(false),
            polled => polled.map(|finished| finished.is_ok()),
        });
        if !finished.await {
            return;
        }
        // What comes is worth nothing here; at the deadline the socket is closed whatever is under way.
        while let Ok(1..) = poll_fn(|cx| connection.poll_sink(cx, u64::MAX)).await {}
    }

    fn log(&mut self, worker: &Worker) {
        let sent = self.client.sent_bytes();
        let read = self.client.body_bytes();
        let version = match self.head.version() {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        };
        self.story
            .tell(worker, &self.client.connection.link, version, read, sent);
    }
}

/// Fields that are meant for the gate.
pub(super) const GATE_FIELDS: &[&str] = &["levee-ticket", "levee-pay"];
