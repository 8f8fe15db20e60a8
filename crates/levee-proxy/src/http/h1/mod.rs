//! HTTP/1.1 with a client: heads are read one after the other, and answered in this order.
//!
//! A head is read as strictly as `levee-http` does. What cannot be read is answered and the connection closed, because nobody
//! knows where the next request would begin.

mod answer;
mod client;
mod tunnel;

use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use levee_http::edit::{self, ForwardRequest, Hop, Told};
use levee_http::forwarded::{self, Origin, Source};
use levee_http::request::{Head, Method};
use levee_http::{Bad, Framing, Version};

use self::answer::Answer;
use self::client::Http1;
use super::body::Incoming;
use super::buffer::SMALL_BYTES;
use super::connection::{Broken, Connection};
use super::exchange::{Done, Exchange, Facts, Failure, framing_to_server};
use super::record::{Ending, Record};
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
    let link = &connection.link;
    let active = link.worker.active();
    let peer = link.peer.ip();
    let trusted = active.settings.forwarded.trusts(peer);
    let source = trusted.then_some(Source::XForwarded);
    let hop = Hop::new(peer, link.tls, source, Told::default());
    drop(active);
    let mut loops = Loop {
        client: Http1::new(connection),
        head: Head::default(),
        exchange: Exchange::default(),
        hop,
        requests: 0,
        story: Story::default(),
    };
    let next = loop {
        match loops.request().await {
            Next::Request => {}
            other => break other,
        }
    };
    if next == Next::Linger {
        loops.linger().await;
    }
    let worker = Rc::clone(&loops.client.connection.link.worker);
    loops.exchange.input.release(&worker.buffers);
    loops.client.connection.input.release(&worker.buffers);
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
    async fn request(&mut self) -> Next {
        let worker = Rc::clone(&self.client.connection.link.worker);
        let active = worker.active();
        let len = match self.read_head(&worker, &active).await {
            Ok(len) => len,
            Err(next) => return next,
        };
        self.requests += 1;
        worker.counters.requests.one();
        worker.counters.requests_open.one();
        let begun = worker.shared.log.is_some().then(Instant::now);
        let next = self.exchange(&worker, &active, len).await;
        worker.counters.requests_open.less();
        self.client
            .connection
            .input
            .release_if_empty(&worker.buffers);
        if let Some(begun) = begun {
            self.log(&worker, begun.elapsed());
        }
        next
    }

    /// Waits for the next head and reads it: its length.
    async fn read_head(&mut self, worker: &Worker, active: &Active) -> Result<usize, Next> {
        self.head.clear();
        let timeouts = &active.settings.timeouts;
        let connection = &mut self.client.connection;
        // The first head counts from when the connection was made.
        if self.requests > 0 {
            let begun = !connection.input.is_empty();
            connection.link.timer.set(if begun {
                timeouts.headers
            } else {
                timeouts.idle
            });
        }
        loop {
            if !connection.input.is_empty() {
                match self
                    .head
                    .read(connection.input.bytes(), &active.request_limits)
                {
                    Ok(Some(len)) => return Ok(len),
                    Ok(None) => {}
                    Err(bad) => return Err(self.bad_head(worker, active, bad).await),
                }
            }
            let waits = connection.input.is_empty();
            let size = if connection.input.is_full() {
                // Only a head that is longer than usual comes here, and it may not be longer than allowed.
                (connection.input.len() * 2)
                    .min(active.request_limits.head_bytes_max.max(SMALL_BYTES) + 1)
            } else {
                SMALL_BYTES
            };
            let read = poll_fn(|cx| {
                if waits && worker.is_draining() {
                    return std::task::Poll::Ready(Err(Broken::Closed));
                }
                connection.poll_fill(cx, size)
            });
            match read.await {
                Ok(_) if waits && self.requests > 0 => connection.link.timer.set(timeouts.headers),
                Ok(_) => {}
                Err(broken) => return Err(self.no_head(worker, active, &broken).await),
            }
        }
    }

    /// The connection ended, or has to, before there was a whole head.
    async fn no_head(&mut self, worker: &Worker, active: &Active, broken: &Broken) -> Next {
        let silent = self.client.connection.input.is_empty();
        if silent && self.requests == 0 {
            worker.counters.connections_silent.one();
        }
        match broken {
            Broken::Closed | Broken::Io(_) => Next::Close,
            // Nothing was asked, so nothing is answered.
            Broken::Late | Broken::Evicted if silent => Next::Close,
            Broken::Late | Broken::Evicted => {
                worker.counters.client_late.one();
                let late = Bad {
                    status: 408,
                    reason: "the head took too long",
                };
                self.bad_head(worker, active, late).await
            }
        }
    }

    async fn bad_head(&mut self, worker: &Worker, active: &Active, bad: Bad) -> Next {
        worker.counters.requests_bad.one();
        if worker.shared.log.is_some() {
            self.story = Story::default();
            self.story.ending = Some(Ending::Bad);
            self.log(worker, Duration::ZERO);
        }
        self.refuse(worker, active, &Answer::of(bad), false).await
    }

    /// A head of `len` bytes has been read: the request goes to the server, or is answered here.
    async fn exchange(&mut self, worker: &Worker, active: &Active, len: usize) -> Next {
        let facts = self.write_head(worker, active, len);
        let head = &self.head;
        let framing = head.framing();
        let max = active.settings.limits.body_bytes_max.unwrap_or(u64::MAX);
        let last = self.requests >= active.settings.limits.keep_alive_requests;
        let keep = head.keep_alive() && !last && !worker.is_draining();
        self.client
            .begin_request(head.version(), keep, Incoming::new(framing, max));
        let input = &mut self.client.connection.input;
        input.consume(len);
        input.release_if_empty(&worker.buffers);
        if matches!(framing, Framing::Length(n) if n > max) {
            worker.counters.requests_bad.one();
            self.story.ending = Some(Ending::Bad);
            let answer = Answer::new(413, "the body is too long");
            return self.refuse(worker, active, &answer, true).await;
        }
        if head.max_forwards() == Some(0) {
            let answer = Answer::new(200, "as far as it may go");
            return self.refuse(worker, active, &answer, true).await;
        }
        match self.exchange.run(&mut self.client, facts, active).await {
            Ok(Done::Answered) => {
                self.story.ending = Some(Ending::Complete);
                self.client.after()
            }
            Ok(Done::Tunnel(upstream)) => {
                self.story.ending = Some(Ending::Tunnel);
                let connection = &mut self.client.connection;
                tunnel::run(connection, upstream, &mut self.exchange.input, active).await;
                Next::Close
            }
            Err(failure) => self.failed(worker, active, failure).await,
        }
    }

    /// Writes the head that is sent on.
    fn write_head(&mut self, worker: &Worker, active: &Active, len: usize) -> Facts {
        let head = &self.head;
        let request = head.on(&self.client.connection.input.bytes()[..len]);
        let origin = self.origin(request, active);
        if worker.shared.log.is_some() {
            self.story.tell(request, origin.client);
        }
        let (method, websocket) = (head.method(), head.websocket());
        let framing = framing_to_server(head.framing(), method);
        let forward = ForwardRequest {
            hop: &self.hop,
            origin,
            host: None,
            framing,
            connection: if websocket {
                edit::Connection::WebSocket
            } else {
                edit::Connection::Persistent
            },
            expect_continue: head.expect_continue(),
            via: b"",
            drop: &[],
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
    fn origin(&self, request: levee_http::request::Request<'_>, active: &Active) -> Origin {
        let Some(source) = self.hop.trusted() else {
            return Origin {
                client: self.hop.peer(),
                https: None,
            };
        };
        let forwarded = &active.settings.forwarded;
        let trusts = |ip: IpAddr| forwarded.trusts(ip);
        forwarded::origin(request.fields(), self.hop.peer(), source, trusts)
    }

    /// The exchange did not come to its end: says so, if that can still be done.
    async fn failed(&mut self, worker: &Worker, active: &Active, failure: Failure) -> Next {
        let begun = self.client.has_begun();
        let (answer, ending) = match failure {
            Failure::Client(Broken::Closed | Broken::Io(_)) => {
                worker.counters.requests_abandoned.one();
                self.story.ending = Some(Ending::Client("client_closed"));
                return Next::Close;
            }
            Failure::Client(Broken::Late) => {
                let reason = "the body took too long";
                (Answer::new(408, reason), Ending::Client("client_late"))
            }
            Failure::Client(Broken::Evicted) => {
                let reason = "the connection was needed for another client";
                (Answer::new(503, reason), Ending::Client("evicted"))
            }
            Failure::Body(bad) => (Answer::of(bad), Ending::Bad),
            Failure::Server(status, what) => (
                Answer::new(status, answer::phrase(status)),
                Ending::Server(what),
            ),
        };
        self.story.ending = Some(ending);
        if begun {
            // Half an answer must not look like a whole one.
            self.client.connection.stream.reset_on_drop();
            return Next::Close;
        }
        self.refuse(worker, active, &answer, true).await
    }

    /// Answers by ourselves. Whether the connection can go on: only if the request was read to its end (`framed`).
    async fn refuse(
        &mut self,
        worker: &Worker,
        active: &Active,
        answer: &Answer,
        framed: bool,
    ) -> Next {
        worker.counters.answer(answer.status);
        self.story.status = answer.status;
        let keep = framed && self.client.may_go_on();
        let bodiless = self.head.method() == Method::Head;
        let date = worker.date();
        self.client.answer(answer, keep, bodiless, &date);
        self.client
            .connection
            .link
            .timer
            .set(active.settings.timeouts.send);
        let client = &mut self.client;
        match poll_fn(|cx| client.poll_answered(cx)).await {
            Err(_) => Next::Close,
            Ok(()) if keep => Next::Request,
            Ok(()) => Next::Linger,
        }
    }

    /// Reads and drops what still comes, until the client closes or its time is up.
    async fn linger(&mut self) {
        let connection = &mut self.client.connection;
        let worker = Rc::clone(&connection.link.worker);
        let linger = worker.active().settings.timeouts.linger;
        connection.input.release(&worker.buffers);
        connection.link.timer.set(linger);
        if poll_fn(|cx| connection.stream.poll_finish(cx))
            .await
            .is_err()
        {
            return;
        }
        // What comes is worth nothing here; at the deadline the socket is closed whatever is under way.
        while let Ok(n) = poll_fn(|cx| connection.poll_sink(cx, u64::MAX)).await {
            if n == 0 {
                return;
            }
        }
    }

    fn log(&mut self, worker: &Worker, total: Duration) {
        let Some(log) = &worker.shared.log else {
            return;
        };
        let link = &self.client.connection.link;
        let story = &self.story;
        let (version, head_read) = (self.head.version(), !self.head.is_empty());
        log.log(&Record {
            time: SystemTime::now()
                .checked_sub(total)
                .unwrap_or_else(SystemTime::now),
            client: story.client.unwrap_or(link.peer.ip()),
            peer: link.peer,
            tls: link.tls,
            protocol: match version {
                Version::Http10 if head_read => "HTTP/1.0",
                _ => "HTTP/1.1",
            },
            method: story.part(0),
            target: story.part(1),
            host: story.part(2),
            referer: story.part(3),
            user_agent: story.part(4),
            status: if self.client.has_begun() {
                self.exchange.status
            } else {
                story.status
            },
            bytes_in: self.client.body_bytes(),
            bytes_out: self.client.sent_bytes(),
            total,
            waited: Duration::ZERO,
            upstream: None,
            upstream_reused: self.exchange.reused,
            decision: "pass",
            paid: 0,
            ending: story.ending.unwrap_or(Ending::Complete),
        });
        self.story.status = 0;
        self.story.ending = None;
    }
}

/// What the access log wants to know of a request when its bytes are gone.
#[derive(Debug, Default)]
struct Story {
    text: Vec<u8>,
    ends: [usize; 5],
    client: Option<IpAddr>,
    status: u16,
    ending: Option<Ending>,
}

impl Story {
    fn tell(&mut self, request: levee_http::request::Request<'_>, client: IpAddr) {
        let fields = request.fields();
        let parts = [
            request.method(),
            request.target(),
            request.host(),
            fields.get("referer").unwrap_or_default(),
            fields.get("user-agent").unwrap_or_default(),
        ];
        self.text.clear();
        for (part, end) in parts.iter().zip(&mut self.ends) {
            self.text.extend_from_slice(part);
            *end = self.text.len();
        }
        self.client = Some(client);
    }

    fn part(&self, i: usize) -> &[u8] {
        let from = if i == 0 { 0 } else { self.ends[i - 1] };
        self.text.get(from..self.ends[i]).unwrap_or_default()
    }
}
