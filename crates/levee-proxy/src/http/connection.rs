//! One connection of a client: from accepting it to the protocol that it speaks.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use levee_http::Parsed;
use levee_http::proxy_protocol::{self, Header, Versions};
use levee_http::request::is_h2_preface;
use levee_policy::selective::PhaseId;
use socket2::SockRef;
use tokio::net::TcpStream;

use super::buffer::{Buf, SMALL_BYTES};
use super::gate::{Place, RefusedConnection};
use super::h1;
use super::h2::{self, streams::Streams};
use super::io::{Early, Stream};
use super::settings::{Listen, ProxyProtocol};
use super::snapshot::Phase;
use super::timers::Timer;
use super::tls::{self, HandshakeError, Protocol};
use super::worker::{Active, OpenConnection, Worker};

/// Why code on a connection must stop what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A deadline has passed.
    Late,
    /// The defence wants its place for another.
    Evicted,
    /// The client closed, or its socket failed.
    Closed,
}

/// What is known of a connection, and whether it must end. In HTTP/2 each stream has one too, with a timer of its own and no
/// place in the table.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) worker: Rc<Worker>,
    /// Who is connected: the peer of the socket, or whom a PROXY header of a trusted one names.
    pub(crate) peer: SocketAddr,
    /// Whether it speaks TLS.
    pub(crate) tls: bool,
    pub(crate) timer: Timer,
    phase: Cell<Phase>,
    place: RefCell<Place>,
    /// Of a stream: those of its connection.
    streams: Option<Rc<Streams>>,
}

impl Link {
    /// A link of which no deadline is set.
    pub(crate) fn new(worker: &Rc<Worker>, peer: SocketAddr, tls: bool, place: Place) -> Self {
        worker.count(|t| t.connections[Phase::Handshake] += 1);
        Self {
            worker: Rc::clone(worker),
            peer,
            tls,
            timer: worker.timers.timer(),
            phase: Cell::new(Phase::Handshake),
            place: RefCell::new(place),
            streams: None,
        }
    }

    /// The link of a stream: with a timer of its own, and without a place.
    pub(crate) fn of_stream(streams: &Rc<Streams>) -> Self {
        let of = &streams.link;
        let phase = Phase::Headers;
        streams.came(phase);
        Self {
            worker: Rc::clone(&of.worker),
            peer: of.peer,
            tls: of.tls,
            timer: of.worker.timers.timer(),
            phase: Cell::new(phase),
            place: RefCell::new(Place::free()),
            streams: Some(Rc::clone(streams)),
        }
    }

    /// Asked before each wait: whether the task has to stop. If not, it is woken when it has.
    pub(crate) fn poll_stop(&self, cx: &Context<'_>) -> Result<(), Broken> {
        if self.timer.is_late(cx) {
            return Err(Broken::Late);
        }
        match self.place.borrow().poll_evicted(cx) {
            Poll::Ready(()) => Err(Broken::Evicted),
            Poll::Pending => Ok(()),
        }
    }

    /// What the connection is at now.
    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// The connection is at something else from now on, or begins it anew.
    pub(crate) fn enter(&self, phase: Phase) {
        self.enter_with(phase, 0);
    }

    fn enter_with(&self, phase: Phase, bytes: u64) {
        let old = self.phase.replace(phase);
        if let Some(streams) = &self.streams {
            return streams.moved(old, phase);
        }
        self.worker.count(|t| {
            t.connections[old] -= 1;
            t.connections[phase] += 1;
        });
        let mut place = self.place.borrow_mut();
        let id = match phase {
            Phase::Tunnel => return place.become_tunnel(),
            Phase::Handshake | Phase::Headers => PhaseId::HEADERS,
            Phase::Idle => PhaseId::IDLE,
            Phase::Body => PhaseId::BODY,
            Phase::Waiting => PhaseId::WAITING,
            Phase::Sending => PhaseId::SENDING,
        };
        place.enter_with(id, bytes);
    }

    /// The connection is at this, if it was not before.
    pub(crate) fn be(&self, phase: Phase) {
        self.be_with(phase, 0);
    }

    /// The connection is at this; if it was not before, so many bytes of it have come through already.
    pub(crate) fn be_with(&self, phase: Phase, bytes: u64) {
        if self.phase.get() != phase {
            self.enter_with(phase, bytes);
        }
    }

    pub(crate) fn came(&self, n: usize) {
        self.worker.count(|t| t.bytes_in += n as u64);
        self.place.borrow_mut().progress(n as u64);
    }

    pub(crate) fn went(&self, n: usize) {
        self.worker.count(|t| t.bytes_out += n as u64);
        self.place.borrow_mut().progress(n as u64);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let phase = self.phase.get();
        if let Some(streams) = &self.streams {
            return streams.went(phase);
        }
        self.worker.count(|t| t.connections[phase] -= 1);
    }
}

/// A client's connection: what is known of it, its socket, and what has been read and not used.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) link: Link,
    pub(crate) stream: Stream,
    pub(crate) input: Buf,
}

impl Connection {
    /// Reads more into [`Connection::input`], which is at least `size` large then. Never 0 bytes: the end is
    /// [`Broken::Closed`].
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        size: usize,
    ) -> Poll<Result<usize, Broken>> {
        let Self {
            link,
            stream,
            input,
        } = self;
        match stream.poll_fill(cx, input, &link.worker.buffers, size) {
            Poll::Pending => stopped_or_pending(link, cx),
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Err(Broken::Closed)),
            Poll::Ready(Ok(n)) => {
                link.came(n);
                Poll::Ready(Ok(n))
            }
        }
    }

    /// Drops what comes, up to `max` bytes. 0 is the end.
    pub(crate) fn poll_sink(
        &mut self,
        cx: &mut Context<'_>,
        max: u64,
    ) -> Poll<Result<usize, Broken>> {
        // What never ends is late at its deadline, however fast it comes.
        self.link.poll_stop(cx)?;
        let sunk = {
            let mut sink = self.link.worker.sink.borrow_mut();
            self.stream.poll_sink(cx, &mut sink, max)
        };
        match sunk {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(n)) => {
                self.link.came(n);
                Poll::Ready(Ok(n))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(Broken::Closed)),
        }
    }

    /// Writes from two pieces.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<Result<usize, Broken>> {
        match self.stream.poll_write(cx, first, second) {
            Poll::Pending => stopped_or_pending(&self.link, cx),
            Poll::Ready(Ok(n)) => {
                self.link.went(n);
                Poll::Ready(Ok(n))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(Broken::Closed)),
        }
    }
}

fn stopped_or_pending<T>(link: &Link, cx: &Context<'_>) -> Poll<Result<T, Broken>> {
    match link.poll_stop(cx) {
        Ok(()) => Poll::Pending,
        Err(broken) => Poll::Ready(Err(broken)),
    }
}

/// Serves one connection to its end.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    stream: TcpStream,
    peer: SocketAddr,
    listen: Listen,
    open: OpenConnection,
) {
    let active = worker.active();
    let place = match worker.shared.gate.connect(peer.ip()) {
        Ok(place) => place,
        Err(refused) => {
            worker.cut("refused");
            if !listen.tls {
                turn_away(&worker, &stream, refused);
            }
            return;
        }
    };
    let link = Link::new(&worker, peer, listen.tls, place);
    drop(worker);
    if let Some((connection, protocol)) = begin(link, stream, &active).await {
        drop(active);
        match protocol {
            Protocol::Http1 => h1::serve(connection).await,
            Protocol::Http2 => h2::serve(connection).await,
        }
    }
    drop(open);
}

/// Says 503 to a connection that may not come in, as far as that can be done at once.
fn turn_away(worker: &Worker, stream: &TcpStream, refused: RefusedConnection) {
    let seconds = refused.retry_after.as_millis().div_ceil(1_000).max(1);
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: {seconds}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let socket = SockRef::from(stream);
    // Who is gone needs none. What was sent is taken, lest it turn the closing into a reset that outruns the answer.
    if socket.send(answer.as_bytes()).is_ok() {
        worker.count(|t| t.note_reply(503));
        let _ = worker.sink.borrow_mut().drop_at_hand(&socket);
    }
}

/// PROXY header, TLS, and which protocol comes then. `None`: the connection has ended.
async fn begin(
    mut link: Link,
    mut stream: TcpStream,
    active: &Active,
) -> Option<(Connection, Protocol)> {
    let timeouts = &active.settings.timeouts;
    let mut input = Buf::default();
    link.timer.set(timeouts.tls_handshake);
    // Another has to leave first.
    let ready = poll_fn(|cx| {
        let place = link.place.borrow();
        match pin!(place.ready()).poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => stopped_or_pending(&link, cx),
        }
    });
    ready.await.ok()?;
    let forwarded = &active.settings.forwarded;
    let versions = match forwarded.proxy_protocol {
        ProxyProtocol::Off => None,
        ProxyProtocol::V1 => Some(Versions::V1),
        ProxyProtocol::V2 => Some(Versions::V2),
        ProxyProtocol::Any => Some(Versions::Any),
    };
    if let Some(versions) = versions.filter(|_| forwarded.trusts(link.peer.ip())) {
        match proxied(&link, &mut stream, &mut input, versions).await {
            Ok(Some(source)) => link.peer = source,
            Ok(None) => {}
            Err(Broken::Late) => {
                link.worker.late(Phase::Handshake);
                return None;
            }
            Err(_) => {
                link.worker.cut("proxy_header");
                return None;
            }
        }
    }
    let (stream, protocol) = if link.tls {
        shake_hands(&link, stream, &mut input, active).await?
    } else {
        (Stream::Plain(stream), None)
    };
    let mut connection = Connection {
        link,
        stream,
        input,
    };
    // A client that says nothing is as slow as one that drips: its first head counts from here.
    connection.link.enter(Phase::Headers);
    connection.link.timer.set(timeouts.headers);
    let protocol = match protocol {
        Some(protocol) => protocol,
        None if !active.settings.limits.h2.enabled => Protocol::Http1,
        None => speaks(&mut connection).await?,
    };
    Some((connection, protocol))
}

/// Reads the PROXY header: whom it names. What follows it stays in `input`.
async fn proxied(
    link: &Link,
    stream: &mut TcpStream,
    input: &mut Buf,
    versions: Versions,
) -> Result<Option<SocketAddr>, Broken> {
    let buffers = &link.worker.buffers;
    loop {
        let read =
            poll_fn(
                |cx| match super::io::poll_fill(stream, cx, input, buffers, SMALL_BYTES) {
                    Poll::Pending => stopped_or_pending(link, cx),
                    Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Err(Broken::Closed)),
                    Poll::Ready(Ok(n)) => Poll::Ready(Ok(n)),
                },
            );
        link.came(read.await?);
        match proxy_protocol::parse(input.bytes(), versions) {
            Ok(Parsed::Partial) => {}
            Ok(Parsed::Complete { head, len }) => {
                input.consume(len);
                input.release_if_empty(buffers);
                return Ok(match head {
                    Header::Proxied { source, .. } => Some(source),
                    Header::Local => None,
                });
            }
            Err(_) => return Err(Broken::Closed),
        }
    }
}

async fn shake_hands(
    link: &Link,
    stream: TcpStream,
    input: &mut Buf,
    active: &Active,
) -> Option<(Stream, Option<Protocol>)> {
    let Some(config) = &active.tls else {
        // The settings are checked for this.
        link.worker.cut("tls_failed");
        return None;
    };
    let early = Early::new(input.bytes(), stream);
    input.release(&link.worker.buffers);
    let deadline = active.settings.timeouts.tls_handshake;
    let mut handshake = pin!(tls::handshake(config, early, deadline));
    let shaken = poll_fn(|cx| match handshake.as_mut().poll(cx) {
        Poll::Ready(shaken) => Poll::Ready(shaken),
        Poll::Pending => match link.poll_stop(cx) {
            Ok(()) => Poll::Pending,
            Err(_) => Poll::Ready(Err(HandshakeError::TimedOut)),
        },
    });
    match shaken.await {
        Ok((stream, protocol)) => {
            link.worker.count(|t| t.handshakes += 1);
            Some((Stream::Tls(Box::new(stream)), Some(protocol)))
        }
        Err(HandshakeError::TimedOut) => {
            link.worker.late(Phase::Handshake);
            None
        }
        Err(error) => {
            link.worker.cut(error.cause());
            None
        }
    }
}

/// What the first bytes say. `None` if there were none.
async fn speaks(connection: &mut Connection) -> Option<Protocol> {
    loop {
        if !connection.input.is_empty()
            && let Some(h2) = is_h2_preface(connection.input.bytes())
        {
            return Some(if h2 { Protocol::Http2 } else { Protocol::Http1 });
        }
        let read = poll_fn(|cx| {
            if connection.link.worker.is_draining() {
                return Poll::Ready(Err(Broken::Closed));
            }
            connection.poll_fill(cx, SMALL_BYTES)
        });
        match read.await {
            Ok(_) => {}
            // Nobody knows what it speaks: the beginning of the preface is one of a request as well.
            Err(_) if !connection.input.is_empty() => return Some(Protocol::Http1),
            Err(Broken::Late) => {
                connection.link.worker.late(Phase::Headers);
                return None;
            }
            Err(_) => {
                connection.link.worker.cut("silent");
                return None;
            }
        }
    }
}
