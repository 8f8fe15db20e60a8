//! The client's side of one request in HTTP/1.1.

use std::task::{Context, Poll, ready};

use levee_http::edit::{self, ForwardResponse};
use levee_http::response::Response;
use levee_http::{Framing, Version};

use super::Next;
use super::answer::{Answer, Keep};
use crate::http::body::{Incoming, Outgoing, Ready};
use crate::http::buffer::{LARGE_BYTES, SMALL_BYTES};
use crate::http::connection::{Broken, Connection, Link};
use crate::http::exchange::{Client, Content, Failure};

/// Bytes of answers to requests that were sent ahead, which wait for each other.
const GATHER_BYTES_MAX: usize = 16 << 10;

/// A client's connection and the request that it is at.
#[derive(Debug)]
pub(crate) struct Http1 {
    pub(crate) connection: Connection,
    version: Version,
    /// Whether the connection stays open after this request.
    keep: bool,
    pub(super) body: Incoming,
    /// Content at the front of the connection's input.
    at_hand: usize,
    out: Outgoing,
    begun: bool,
    sent: u64,
}

impl Http1 {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            version: Version::Http11,
            keep: false,
            body: Incoming::default(),
            at_hand: 0,
            out: Outgoing::default(),
            begun: false,
            sent: 0,
        }
    }

    /// A request's head has been read; its body is next in the input.
    pub(crate) fn begin_request(&mut self, version: Version, keep: bool, body: Incoming) {
        self.version = version;
        self.keep = keep;
        self.body = body;
        self.at_hand = 0;
        // Answers to requests before it may still be here.
        if self.out.is_written() {
            self.out.begin(false);
        }
        self.begun = false;
        self.sent = 0;
    }

    /// Whether an answer may wait for the next one, so that both go in one piece: the client has sent a request ahead.
    pub(crate) fn may_gather(&self) -> bool {
        !self.connection.input.is_empty() && self.out.pending() < GATHER_BYTES_MAX
    }

    /// Whether answers wait here.
    pub(crate) fn has_gathered(&self) -> bool {
        !self.out.is_written()
    }

    /// Writes what waits here, and then reads more.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        size: usize,
    ) -> Poll<Result<usize, Broken>> {
        if self.has_gathered() {
            ready!(self.poll_flush(cx))?;
        }
        self.connection.poll_fill(cx, size)
    }

    /// Whether the answer's head has been made.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// The status that the client has seen, if any.
    pub(crate) fn status(&self, status: u16) -> u16 {
        if self.begun { status } else { 0 }
    }

    /// Whether the body has not come to its end.
    pub(crate) fn waits_for_body(&self) -> bool {
        !self.body.is_over()
    }

    /// Bytes of the request's body that have come.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body.total()
    }

    /// Bytes of the answer's body that were written.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent
    }

    /// Whether another request may follow on the connection.
    pub(crate) fn may_go_on(&self) -> bool {
        self.keep && self.body.is_over()
    }

    /// What comes after an answer that is complete.
    pub(crate) fn after(&self) -> Next {
        match (self.keep, self.body.is_over()) {
            (true, true) => Next::Request,
            (false, true) if self.connection.input.is_empty() => Next::Close,
            _ => Next::Linger,
        }
    }

    /// Makes an answer of our own.
    pub(crate) fn answer(&mut self, answer: &Answer, keep: bool, bodiless: bool, date: &[u8; 29]) {
        let keep = match (keep, self.version) {
            (true, Version::Http11) => Keep::Open,
            (true, Version::Http10) => Keep::OpenAloud,
            (false, _) => Keep::Close,
        };
        // An interim response may still be here.
        let out = if self.out.is_written() {
            self.out.begin(false)
        } else {
            self.out.begin_behind(false)
        };
        answer.write(out, keep, bodiless, date);
        if !bodiless {
            self.sent = answer.body.len() as u64;
        }
    }

    /// Writes the answer of our own.
    pub(crate) fn poll_answered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.poll_flush(cx)
    }

    /// What is said of the connection in the answer, and how its body is framed.
    fn framing(&mut self, framing: Framing) -> (Framing, edit::Connection) {
        let framing = match (framing, self.version) {
            (Framing::Chunked | Framing::UntilClose, Version::Http11) => Framing::Chunked,
            (Framing::Chunked | Framing::UntilClose, Version::Http10) => {
                self.keep = false;
                Framing::UntilClose
            }
            (other, _) => other,
        };
        // Who answers before it has read the request may not read the rest.
        self.keep &= self.body.is_over() && !self.connection.link.worker.is_draining();
        let connection = match (self.keep, self.version) {
            (true, Version::Http11) => edit::Connection::Persistent,
            (true, Version::Http10) => edit::Connection::KeepAlive,
            (false, _) => edit::Connection::Close,
        };
        (framing, connection)
    }
}

impl Client for Http1 {
    fn link(&self) -> &Link {
        &self.connection.link
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Content, Failure>> {
        loop {
            match self.body.look(&mut self.connection.input) {
                Ok(Ready::Data(n)) => {
                    self.at_hand = n;
                    return Poll::Ready(Ok(Content::Data));
                }
                Ok(Ready::End) => return Poll::Ready(Ok(Content::End)),
                Ok(Ready::More) => {
                    let read = ready!(self.connection.poll_fill(cx, LARGE_BYTES));
                    if let Err(broken) = read {
                        return Poll::Ready(Err(Failure::Client(broken)));
                    }
                }
                Err(bad) => return Poll::Ready(Err(Failure::Body(bad))),
            }
        }
    }

    fn data(&self) -> &[u8] {
        &self.connection.input.bytes()[..self.at_hand]
    }

    fn consume(&mut self, n: usize) {
        if n > 0 {
            self.body.consume(&mut self.connection.input, n);
            self.at_hand -= n;
        }
    }

    fn trailers(&self) -> &[u8] {
        self.body.trailers()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        loop {
            // Requests that it sent ahead wait for their turn, a buffer of them.
            if self.connection.input.len() >= SMALL_BYTES {
                if self.connection.stream.has_ended() {
                    return Poll::Ready(Broken::Closed);
                }
                return Poll::Pending;
            }
            if let Err(broken) = ready!(self.connection.poll_fill(cx, SMALL_BYTES)) {
                return Poll::Ready(broken);
            }
        }
    }

    fn interim(&mut self, response: Response<'_>) {
        // HTTP/1.0 has none (RFC 9110 section 15.2).
        if self.version == Version::Http10 {
            return;
        }
        let forward = forward(Framing::None, edit::Connection::Persistent);
        let out = if self.out.is_written() {
            self.out.begin(false)
        } else {
            self.out.begin_behind(false)
        };
        edit::response(out, response, &forward);
    }

    fn begin(&mut self, response: Response<'_>) {
        let (framing, connection) = if response.head.websocket() {
            self.keep = false;
            (Framing::None, edit::Connection::WebSocket)
        } else {
            self.framing(response.head.framing())
        };
        let chunked = framing == Framing::Chunked;
        let out = if self.out.is_written() {
            self.out.begin(chunked)
        } else {
            self.out.begin_behind(chunked)
        };
        let date = self.connection.link.worker.date();
        edit::response(
            out,
            response,
            &ForwardResponse {
                date: &date,
                ..forward(framing, connection)
            },
        );
        self.begun = true;
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, Broken>> {
        loop {
            let (out, connection) = (&mut self.out, &mut self.connection);
            let content = ready!(out.poll_write(data, |a, b| connection.poll_write(cx, a, b)))?;
            if content > 0 {
                self.sent += content as u64;
                return Poll::Ready(Ok(content));
            }
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        while !self.out.is_written() {
            let (out, connection) = (&mut self.out, &mut self.connection);
            ready!(out.poll_write(&[], |a, b| connection.poll_write(cx, a, b)))?;
        }
        let flushed = ready!(self.connection.stream.poll_flush(cx));
        Poll::Ready(flushed.map_err(|_| Broken::Closed))
    }

    fn end(&mut self, trailers: &[u8]) {
        self.out.end(trailers);
    }
}

fn forward(framing: Framing, connection: edit::Connection) -> ForwardResponse<'static> {
    ForwardResponse {
        framing,
        connection,
        date: b"",
        via: b"",
        drop: &[],
        lines: b"",
    }
}
