//! HTTP/2 with a client: the `h2` crate's frames and flow control, our limits and deadlines.
//!
//! One task owns the connection: it drives `h2`, begins a task for each stream, and ends the connection when a deadline has
//! passed, when the client does too much of what carries nothing (`guard`), when the defence wants its place, or when the
//! front stops. A stream goes the same way as a request of HTTP/1.1 (`stream`).

mod client;
mod guard;
mod stream;
pub(crate) mod streams;
mod translate;

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use levee_http::edit::{Hop, Told};
use levee_http::forwarded::Source;

use self::guard::{Guard, Watch};
use self::streams::Streams;
use super::connection::{Broken, Connection, Link};
use super::io::Early;
use super::snapshot::Phase;
use super::timers::TICK;
use super::worker::{Active, Worker};

/// Streams that were reset before we looked at them, at once. Far above what one read of the socket brings of honest ones, as
/// each reset is counted beside (`guard`).
const PENDING_RESETS_MAX: usize = 200;
/// Largest frame that is taken: RFC 9113's least, and what everybody uses.
const FRAME_BYTES_MAX: u32 = 16 << 10;
/// Dynamic table of the field compression that a client may use: RFC 9113's initial value.
const HEADER_TABLE_BYTES: u32 = 4 << 10;

type Frames = server::Connection<Guard, Bytes>;

/// Serves a connection to its end.
pub(crate) async fn serve(connection: Connection) {
    let Connection {
        link,
        stream,
        mut input,
    } = connection;
    let link = Rc::new(link);
    let worker = Rc::clone(&link.worker);
    let active = worker.active();
    let early = Early::new(input.bytes(), stream);
    input.release(&worker.buffers);
    let watch = Rc::new(Watch::new(
        &active.settings.limits.h2,
        worker.timers.now_ms(),
    ));
    let guard = Guard::new(early, &watch, &link);
    let Some(frames) = begin(guard, &link, &active).await else {
        return;
    };
    let peer = link.peer.ip();
    let trusted = active.settings.forwarded.trusts(peer);
    let source = trusted.then_some(Source::XForwarded);
    let hop = Hop::new(peer, link.tls, source, Told::default());
    drop(active);
    let mut own = Loop {
        streams: Streams::new(link, hop),
        worker,
        frames,
        watch,
        requests: 0,
        told: false,
    };
    let end = loop {
        match poll_fn(|cx| own.poll_event(cx)).await {
            Ok((request, respond)) => own.stream(request, respond),
            Err(end) => break end,
        }
    };
    own.end(end).await;
}

/// The preface and our SETTINGS.
async fn begin(guard: Guard, link: &Link, active: &Active) -> Option<Frames> {
    let limits = &active.settings.limits.h2;
    let head_max = u32::try_from(active.settings.limits.head_bytes_max).unwrap_or(u32::MAX);
    let mut handshake = pin!(
        server::Builder::new()
            .max_concurrent_streams(limits.streams_max)
            .max_header_list_size(head_max)
            .max_frame_size(FRAME_BYTES_MAX)
            .header_table_size(HEADER_TABLE_BYTES)
            .initial_window_size(limits.stream_window_bytes)
            .initial_connection_window_size(limits.connection_window_bytes)
            .max_send_buffer_size(limits.send_buffer_bytes)
            .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
            .handshake::<_, Bytes>(guard)
    );
    link.timer.set(active.settings.timeouts.headers);
    let shaken = poll_fn(|cx| match handshake.as_mut().poll(cx) {
        Poll::Ready(Ok(frames)) => Poll::Ready(Ok(frames)),
        Poll::Ready(Err(_)) => Poll::Ready(Err(Broken::Closed)),
        Poll::Pending => match link.poll_stop(cx) {
            Ok(()) => Poll::Pending,
            Err(broken) => Poll::Ready(Err(broken)),
        },
    });
    match shaken.await {
        Ok(frames) => Some(frames),
        Err(Broken::Late) => {
            link.worker.late(Phase::Headers);
            None
        }
        Err(Broken::Evicted) => None,
        Err(Broken::Closed) => {
            link.worker.cut("h2_preface");
            None
        }
    }
}

/// The loop of one connection.
struct Loop {
    worker: Rc<Worker>,
    frames: Frames,
    watch: Rc<Watch>,
    streams: Rc<Streams>,
    requests: u32,
    /// Whether the client knows that no further stream is taken.
    told: bool,
}

/// A stream has come, or the connection has to end.
type Event = Result<(Request<RecvStream>, SendResponse<Bytes>), End>;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client has closed it, or all streams have ended after we told it.
    Closed,
    /// A deadline has passed in this phase.
    Late(Phase),
    /// Nothing was asked for long enough.
    Idle,
    /// The client does too much of this.
    Abuse(&'static str),
    Evicted,
}

impl Loop {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let polled = self.frames.poll_accept(cx);
        // Before any stream: a flood is cut with what it has begun.
        if let Some(kind) = self.watch.abuse() {
            return Poll::Ready(Err(End::Abuse(kind)));
        }
        match polled {
            Poll::Ready(Some(Ok((request, respond)))) => {
                return Poll::Ready(Ok((request, respond)));
            }
            Poll::Ready(Some(Err(error))) => {
                let calm = error.reason() == Some(Reason::ENHANCE_YOUR_CALM);
                let end = if calm {
                    End::Abuse("h2_limits")
                } else {
                    End::Closed
                };
                return Poll::Ready(Err(end));
            }
            Poll::Ready(None) => return Poll::Ready(Err(End::Closed)),
            Poll::Pending => {}
        }
        if self.worker.is_draining() && !self.told {
            self.tell();
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.poll_deadlines(cx)
    }

    /// Says that no further stream is taken: those that are under way end in peace.
    fn tell(&mut self) {
        self.told = true;
        self.frames.graceful_shutdown();
    }

    fn poll_deadlines(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let active = self.worker.active();
        let timeouts = &active.settings.timeouts;
        let after = |since_ms: u64, span: Duration| {
            // What was noted then may be a tick younger.
            let ms = u64::try_from((span + TICK).as_millis()).unwrap_or(u64::MAX);
            since_ms.saturating_add(ms)
        };
        let quiet = match self.streams.quiet_ms() {
            // The first request has as long as one of HTTP/1.1.
            Some(since_ms) if self.requests == 0 && !self.told => {
                (after(since_ms, timeouts.headers), End::Late(Phase::Headers))
            }
            // Who was told to go has no reason to stay.
            Some(since_ms) if self.told => (after(since_ms, timeouts.linger), End::Idle),
            Some(since_ms) => (after(since_ms, timeouts.idle), End::Idle),
            None => (u64::MAX, End::Idle),
        };
        let within = (
            after(self.watch.within_ms(), timeouts.headers),
            End::Late(Phase::Headers),
        );
        let stalled = (
            after(self.watch.stalled_ms(), timeouts.send),
            End::Late(Phase::Sending),
        );
        let mut first = quiet;
        for other in [within, stalled] {
            if other.0 < first.0 {
                first = other;
            }
        }
        let link = &self.streams.link;
        link.timer.set_at(first.0);
        match link.poll_stop(cx) {
            Ok(()) => Poll::Pending,
            Err(Broken::Late) => Poll::Ready(Err(first.1)),
            Err(_) => Poll::Ready(Err(End::Evicted)),
        }
    }

    fn stream(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        self.requests += 1;
        self.worker.count(|t| t.requests_h2 += 1);
        let active = self.worker.active();
        if self.requests >= active.settings.limits.keep_alive_requests && !self.told {
            self.tell();
        }
        let task = stream::serve(Rc::clone(&self.streams), active, request, respond);
        tokio::task::spawn_local(task);
    }

    /// Says goodbye, as far as the client listens.
    async fn end(mut self, end: End) {
        let reason = match end {
            End::Closed => return,
            End::Idle => Reason::NO_ERROR,
            End::Late(phase) => {
                self.worker.late(phase);
                Reason::ENHANCE_YOUR_CALM
            }
            End::Abuse(kind) => {
                self.worker
                    .count(|t| *t.h2_abuse.entry(kind).or_default() += 1);
                Reason::ENHANCE_YOUR_CALM
            }
            End::Evicted => Reason::ENHANCE_YOUR_CALM,
        };
        self.frames.abrupt_shutdown(reason);
        // Half a second is three round trips: who has not taken it by then does not want it.
        self.streams.link.timer.set(GOODBYE);
        let link = &self.streams.link;
        poll_fn(|cx| match self.frames.poll_closed(cx) {
            Poll::Pending if link.poll_stop(cx).is_err() => Poll::Ready(()),
            polled => polled.map(drop),
        })
        .await;
    }
}

/// How long a GOAWAY may take to leave.
const GOODBYE: Duration = Duration::from_millis(500);
