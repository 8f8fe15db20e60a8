//! One request of HTTP/2, to its answer.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::Request;
use levee_http::edit::{self, ForwardRequest};
use levee_http::forwarded::{self, Origin};
use levee_http::request::{Head, Method};
use levee_http::{Bad, Framing};

use super::client::Http2;
use super::streams::Streams;
use super::translate;
use crate::http::connection::Broken;
use crate::http::exchange::{self, Client, Exchange, Facts, Failure, framing_to_server};
use crate::http::gate::{Asked, PayMeter, Permit, RequestFacts};
use crate::http::h1::GATE_FIELDS;
use crate::http::h1::answer::{self, Answer};
use crate::http::h1::story::{Ending, Story};
use crate::http::snapshot::Phase;
use crate::http::ticket;
use crate::http::worker::{Active, Worker};

/// Answers one request.
pub(super) async fn serve(
    streams: Rc<Streams>,
    active: Rc<Active>,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
) {
    let (parts, recv) = request.into_parts();
    let ends = recv.is_end_stream();
    let worker = Rc::clone(&streams.link.worker);
    let mut own = Own {
        client: Http2::new(&streams, recv, respond),
        worker,
        active,
        text: Vec::new(),
        head: Head::default(),
        exchange: Exchange::default(),
        streams,
        story: Story::default(),
    };
    match own.read(&parts, ends) {
        Ok(()) => {
            drop(parts);
            own.take().await;
        }
        Err(bad) => {
            own.story.begin(&own.worker, None);
            own.refuse_bad(bad).await;
        }
    }
    own.exchange.input.release(&own.worker.buffers);
    let (read, sent) = (own.client.body_bytes(), own.client.sent_bytes());
    let link = own.client.link();
    own.story.tell(&own.worker, link, "HTTP/2.0", read, sent);
}

/// A request and what is needed for it.
struct Own {
    client: Http2,
    worker: Rc<Worker>,
    active: Rc<Active>,
    /// The head as HTTP/1.1 has it.
    text: Vec<u8>,
    head: Head,
    exchange: Exchange,
    streams: Rc<Streams>,
    story: Story,
}

impl Own {
    /// Reads the head as strictly as one of HTTP/1.1.
    fn read(&mut self, parts: &http::request::Parts, ends: bool) -> Result<(), Bad> {
        translate::request(&mut self.text, parts, ends)?;
        let len = self.head.read(&self.text, &self.active.request_limits)?;
        if len != Some(self.text.len()) {
            return Err(Bad {
                status: 400,
                reason: "not a request",
            });
        }
        if ends && !self.head.framing().is_empty() {
            return Err(Bad {
                status: 400,
                reason: "a length without a body",
            });
        }
        Ok(())
    }

    async fn take(&mut self) {
        let max = self
            .active
            .settings
            .limits
            .body_bytes_max
            .unwrap_or(u64::MAX);
        let declared = match self.head.framing() {
            Framing::Length(n) => Some(n),
            _ => None,
        };
        self.client.begin_body(max, declared);
        let origin = self.origin();
        self.story.begin(
            &self.worker,
            Some((self.head.on(&self.text), origin.client)),
        );
        let asks = self.worker.shared.gate.asks();
        let permit = if asks {
            match self.ask(origin.client).await {
                Some(permit) => permit,
                None => return,
            }
        } else {
            Permit::free()
        };
        if declared.is_some_and(|n| n > max) {
            let bad = Bad {
                status: 413,
                reason: "the body is too long",
            };
            return self.refuse_bad(bad).await;
        }
        if self.head.max_forwards() == Some(0) {
            return self.refuse(&Answer::new(200, "as far as it may go")).await;
        }
        let facts = self.write_head(asks, origin);
        let ended = self
            .exchange
            .run(&mut self.client, facts, &self.active, permit);
        match ended.await {
            Ok(_) => self.story.end(self.exchange.status, Ending::Complete),
            Err(failure) => self.failed(failure).await,
        }
    }

    /// Asks the thinner. `None`: it was not admitted, or no request for the server, and is answered.
    async fn ask(&mut self, client: IpAddr) -> Option<Permit> {
        let worker = Rc::clone(&self.worker);
        let gate = &worker.shared.gate;
        let facts = facts(&self.head, &self.text);
        if facts.is_pay() {
            self.payment().await;
            return None;
        }
        let decided = match gate.ask(&facts, Some(client)) {
            Asked::Admit(permit) => Ok(permit),
            Asked::Refuse(refusal) => Err(refusal),
            Asked::Wait(waiting) => match exchange::admitted(&mut self.client, waiting).await {
                Ok(decided) => decided,
                Err(broken) => {
                    self.failed(Failure::Client(broken)).await;
                    return None;
                }
            },
        };
        let answer = match decided {
            // The page's script only waits; it is the reload that goes to the server.
            Ok(permit) if facts.is_wait() => gate.park(&facts, permit),
            Ok(permit) => {
                self.story.admitted(&permit);
                return Some(permit);
            }
            Err(refusal) => {
                self.story.refused(&refusal);
                gate.answer(&facts, &refusal)
            }
        };
        self.refuse(&answer.into()).await;
        None
    }

    /// Counts the body as payment, and drops it. What is read opens the windows at once.
    async fn payment(&mut self) {
        let worker = Rc::clone(&self.worker);
        let timeout = self.active.settings.timeouts.body;
        let facts = facts(&self.head, &self.text);
        let mut begins = pin!(worker.shared.gate.pay(&facts));
        let link = self.client.link();
        link.timer.set(timeout);
        // Its request may be on its way, on another stream.
        let begun = poll_fn(|cx| match begins.as_mut().poll(cx) {
            Poll::Ready(begun) => Poll::Ready(Ok(begun)),
            Poll::Pending => match link.poll_stop(cx) {
                Ok(()) => Poll::Pending,
                Err(broken) => Poll::Ready(Err(Failure::Client(broken))),
            },
        });
        let answer = match begun.await {
            Ok(Ok(meter)) => match self.sink(meter).await {
                Ok(meter) => meter.finish(),
                Err(failure) => return self.failed(failure).await,
            },
            Ok(Err(answer)) => answer,
            Err(failure) => return self.failed(failure).await,
        };
        self.refuse(&answer.into()).await;
    }

    /// Reads the body until it ends, or buys nothing any more.
    async fn sink(&mut self, mut meter: PayMeter) -> Result<PayMeter, Failure> {
        let timeout = self.active.settings.timeouts.body;
        let client = &mut self.client;
        loop {
            client.link().timer.set(timeout);
            client.link().be(Phase::Body);
            let took = poll_fn(|cx| {
                if meter.is_closed() || meter.poll_closed(cx).is_ready() {
                    return Poll::Ready(Ok(None));
                }
                if let Err(broken) = client.link().poll_stop(cx) {
                    return Poll::Ready(Err(Failure::Client(broken)));
                }
                client.poll_payment(cx)
            });
            let Some(n) = took.await? else {
                return Ok(meter);
            };
            let Some(pause) = meter.paid(n) else { continue };
            // Payment comes faster than it may.
            let link = client.link();
            link.timer.set(pause);
            link.be(Phase::Waiting);
            poll_fn(|cx| match (meter.poll_closed(cx), link.poll_stop(cx)) {
                (Poll::Pending, Ok(())) => Poll::Pending,
                _ => Poll::Ready(()),
            })
            .await;
        }
    }

    /// Writes the head that is sent on. What is meant for the gate (`asks`) ends here.
    fn write_head(&mut self, asks: bool, origin: Origin) -> Facts {
        let head = &self.head;
        let request = head.on(&self.text);
        let framing = framing_to_server(head.framing(), head.method());
        let target = if asks {
            ticket::without_ticket(request.origin_form().path)
        } else {
            None
        };
        let forward = ForwardRequest {
            hop: &self.streams.hop,
            origin,
            target: target.as_deref(),
            host: None,
            framing,
            connection: edit::Connection::Persistent,
            expect_continue: head.expect_continue(),
            via: b"",
            drop: if asks { GATE_FIELDS } else { &[] },
            lines: b"",
        };
        let out = self.exchange.request.begin(framing == Framing::Chunked);
        edit::request(out, request, &forward);
        Facts {
            method: head.method(),
            body: !head.framing().is_empty(),
            expect_continue: head.expect_continue(),
            websocket: false,
        }
    }

    /// Who made the request.
    fn origin(&self) -> Origin {
        let hop = &self.streams.hop;
        let Some(source) = hop.trusted() else {
            return Origin {
                client: hop.peer(),
                https: None,
            };
        };
        let trusts = |ip: IpAddr| self.active.settings.forwarded.trusts(ip);
        let fields = self.head.on(&self.text).fields();
        forwarded::origin(fields, hop.peer(), source, trusts)
    }

    /// The exchange did not come to its end: says so, if that can still be done.
    async fn failed(&mut self, failure: Failure) {
        let (answer, reason) = match failure {
            Failure::Client(Broken::Closed) => {
                self.worker.count(|t| t.client_gone += 1);
                let status = if self.client.has_begun() {
                    self.exchange.status
                } else {
                    0
                };
                self.story.end(status, Ending::Gone);
                return;
            }
            Failure::Client(_) if self.client.waits_for_body() => (
                Answer::new(408, "the body took too long"),
                Reason::ENHANCE_YOUR_CALM,
            ),
            Failure::Client(_) => (
                Answer::new(503, "the answer was not taken"),
                Reason::ENHANCE_YOUR_CALM,
            ),
            Failure::Body(bad) if !self.client.has_begun() => return self.refuse_bad(bad).await,
            Failure::Body(bad) => (Answer::of(bad), Reason::PROTOCOL_ERROR),
            Failure::Server(status) => (
                Answer::new(status, answer::phrase(status)),
                Reason::INTERNAL_ERROR,
            ),
        };
        if self.client.has_begun() {
            // Half an answer must not look like a whole one.
            self.story.end(self.exchange.status, Ending::Cut);
            return self.client.reset(reason);
        }
        self.refuse(&answer).await;
    }

    /// Answers what cannot be read, or asks for too much.
    async fn refuse_bad(&mut self, bad: Bad) {
        let cause = answer::cause(bad.status);
        self.worker
            .count(|t| *t.bad_requests.entry(cause).or_default() += 1);
        self.refuse(&Answer::of(bad)).await;
    }

    /// Answers by ourselves. A body that was not read is no longer wanted, which `h2` tells the client when the stream is
    /// dropped.
    async fn refuse(&mut self, answer: &Answer) {
        self.worker.count(|t| t.note_reply(answer.status));
        self.story.end(answer.status, Ending::Complete);
        let bodiless = self.head.method() == Method::Head;
        if !self.client.begin_answer(answer, bodiless) {
            return;
        }
        let mut rest: &[u8] = &answer.body;
        let client = &mut self.client;
        client.link().timer.set(self.active.settings.timeouts.send);
        client.link().be(Phase::Sending);
        while !rest.is_empty() {
            let sent = poll_fn(|cx| match client.poll_send(cx, rest) {
                Poll::Pending => match client.link().poll_stop(cx) {
                    Ok(()) => Poll::Pending,
                    Err(broken) => Poll::Ready(Err(broken)),
                },
                sent => sent,
            });
            match sent.await {
                Ok(n) => rest = &rest[n..],
                Err(_) => return client.reset(Reason::ENHANCE_YOUR_CALM),
            }
        }
        client.end(&[]);
    }
}

/// What the gate wants to know of a request.
fn facts<'a>(head: &'a Head, text: &'a [u8]) -> RequestFacts<'a> {
    RequestFacts::from_head(head.on(text), text.len())
}
