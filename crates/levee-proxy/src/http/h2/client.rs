//! The client's side of one request in HTTP/2: a stream.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use levee_http::Bad;
use levee_http::response::Response;

use super::streams::Streams;
use super::translate;
use crate::http::connection::{Broken, Link};
use crate::http::exchange::{Client, Content, Failure};
use crate::http::h1::answer::Answer;

/// A stream.
pub(super) struct Http2 {
    link: Link,
    recv: RecvStream,
    respond: SendResponse<Bytes>,
    send: Option<SendStream<Bytes>>,
    /// Content that came and was not sent on.
    data: Bytes,
    ended: bool,
    trailers: Vec<u8>,
    read: u64,
    read_max: u64,
    /// What Content-Length says.
    declared: Option<u64>,
    sent: u64,
    /// Whether the answer has been sent to its end.
    done: bool,
}

impl Http2 {
    pub(super) fn new(
        streams: &Rc<Streams>,
        recv: RecvStream,
        respond: SendResponse<Bytes>,
    ) -> Self {
        let ended = recv.is_end_stream();
        Self {
            link: Link::of_stream(streams),
            recv,
            respond,
            send: None,
            data: Bytes::new(),
            ended,
            trailers: Vec::new(),
            read: 0,
            read_max: u64::MAX,
            declared: None,
            sent: 0,
            done: false,
        }
    }

    /// The body may have so many bytes, and says that it has `declared`.
    pub(super) fn begin_body(&mut self, max: u64, declared: Option<u64>) {
        self.read_max = max;
        self.declared = declared;
    }

    /// Whether the answer's head has been sent.
    pub(super) fn has_begun(&self) -> bool {
        self.send.is_some() || self.done
    }

    /// Whether the body has not come to its end.
    pub(super) fn waits_for_body(&self) -> bool {
        !self.ended
    }

    /// Bytes of the request's body that have come.
    pub(super) fn body_bytes(&self) -> u64 {
        self.read
    }

    /// Bytes of the answer's body that were handed over.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent
    }

    /// Cuts the stream.
    pub(super) fn reset(&mut self, reason: Reason) {
        match &mut self.send {
            Some(send) => send.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
        self.done = true;
    }

    /// Begins an answer of our own; its body is sent by [`Client::poll_send`] and [`Client::end`]. Whether it has one.
    pub(super) fn begin_answer(&mut self, answer: &Answer, bodiless: bool) -> bool {
        let mut response = http::Response::new(());
        *response.status_mut() = http::StatusCode::from_u16(answer.status)
            .unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let fields = response.headers_mut();
        for (name, value) in answer.fields() {
            if let (Ok(name), Ok(value)) = (
                http::HeaderName::from_bytes(name.as_bytes()),
                http::HeaderValue::from_str(value),
            ) {
                fields.append(name, value);
            }
        }
        fields.insert(http::header::CONTENT_LENGTH, answer.body.len().into());
        translate::dated(fields, &self.link.worker.date());
        let bodiless = bodiless || answer.body.is_empty();
        self.send_head(response, bodiless);
        !bodiless
    }

    fn send_head(&mut self, response: http::Response<()>, ends: bool) {
        // It fails when the stream is gone, which whoever waits for it is told.
        match self.respond.send_response(response, ends) {
            Ok(send) => self.send = Some(send),
            Err(_) => self.done = true,
        }
        self.done |= ends;
    }

    /// Drops content of the body as it comes: how much, or `None` when it has ended.
    pub(super) fn poll_payment(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<u64>, Failure>> {
        match ready!(self.poll_body(cx))? {
            Content::End => Poll::Ready(Ok(None)),
            Content::Data => {
                let n = self.data.len();
                self.consume(n);
                Poll::Ready(Ok(Some(n as u64)))
            }
        }
    }

    fn poll_trailers(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match ready!(self.recv.poll_trailers(cx)) {
            Ok(Some(fields)) => self.trailers = translate::trailer_lines(&fields),
            Ok(None) => {}
            Err(_) => return Poll::Ready(Err(Failure::Client(Broken::Closed))),
        }
        if self.declared.is_some_and(|n| n != self.read) {
            return Poll::Ready(Err(Failure::Body(Bad {
                status: 400,
                reason: "the body has not the length that it says",
            })));
        }
        self.ended = true;
        Poll::Ready(Ok(()))
    }
}

impl Client for Http2 {
    fn link(&self) -> &Link {
        &self.link
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Content, Failure>> {
        loop {
            if !self.data.is_empty() {
                return Poll::Ready(Ok(Content::Data));
            }
            if self.ended {
                return Poll::Ready(Ok(Content::End));
            }
            match ready!(self.recv.poll_data(cx)) {
                Some(Ok(data)) => {
                    self.read += data.len() as u64;
                    if self.read > self.read_max {
                        return Poll::Ready(Err(Failure::Body(Bad {
                            status: 413,
                            reason: "the body is too long",
                        })));
                    }
                    self.data = data;
                }
                None => ready!(self.poll_trailers(cx))?,
                Some(Err(_)) => return Poll::Ready(Err(Failure::Client(Broken::Closed))),
            }
        }
    }

    fn data(&self) -> &[u8] {
        &self.data
    }

    fn consume(&mut self, n: usize) {
        if n > 0 {
            self.data.advance(n);
            // It fails when more is released than has come, and never is.
            drop(self.recv.flow_control().release_capacity(n));
        }
    }

    fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        let reset = match &mut self.send {
            _ if self.done => return Poll::Pending,
            Some(send) => send.poll_reset(cx),
            None => self.respond.poll_reset(cx),
        };
        reset.map(|_| Broken::Closed)
    }

    fn interim(&mut self, response: Response<'_>) {
        let head = translate::response(response, &self.link.worker.date());
        // A client that is gone needs none.
        drop(self.respond.send_informational(head));
    }

    fn begin(&mut self, response: Response<'_>) {
        let head = translate::response(response, &self.link.worker.date());
        self.send_head(head, translate::ends(response));
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, Broken>> {
        let Some(send) = &mut self.send else {
            return Poll::Ready(Err(Broken::Closed));
        };
        send.reserve_capacity(data.len());
        let n = loop {
            match send.capacity() {
                0 => match ready!(send.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Poll::Ready(Err(Broken::Closed)),
                },
                n => break n.min(data.len()),
            }
        };
        // The buffer that it is in is used again.
        match send.send_data(Bytes::copy_from_slice(&data[..n]), false) {
            Ok(()) => {
                self.sent += n as u64;
                Poll::Ready(Ok(n))
            }
            Err(_) => Poll::Ready(Err(Broken::Closed)),
        }
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        // The connection's task writes.
        Poll::Ready(Ok(()))
    }

    fn end(&mut self, trailers: &[u8]) {
        let Some(send) = self.send.as_mut().filter(|_| !self.done) else {
            return;
        };
        // It fails when the stream is gone, and then nothing is left to do.
        drop(if trailers.is_empty() {
            send.send_data(Bytes::new(), true)
        } else {
            send.send_trailers(translate::trailers(trailers))
        });
        self.done = true;
    }
}
