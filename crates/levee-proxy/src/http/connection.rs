//! One connection of a client: from accepting it to the protocol that it speaks.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use levee_http::request::is_h2_preface;
use tokio::net::TcpStream;

use super::buffer::{Buf, SMALL_BYTES};
use super::h1;
use super::io::Stream;
use super::settings::Listen;
use super::timers::Timer;
use super::worker::{OpenConnection, Worker};

/// Why code on a connection must stop what it does.
#[derive(Debug)]
pub(crate) enum Broken {
    /// A deadline has passed.
    Late,
    /// The defence wants its place for another.
    Evicted,
    /// The client closed.
    Closed,
    /// The socket failed.
    Io(io::Error),
}

/// What is known of a connection, and whether it must end. In HTTP/2 each stream has one too, with a timer of its own.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) worker: Rc<Worker>,
    /// Who is connected: the peer of the socket, or whom a PROXY header of a trusted one names.
    pub(crate) peer: SocketAddr,
    /// The address that it connected to.
    pub(crate) local: SocketAddr,
    /// Whether it speaks TLS.
    pub(crate) tls: bool,
    pub(crate) timer: Timer,
}

impl Link {
    /// Asked before each wait: whether the task has to stop. If not, it is woken when it has.
    pub(crate) fn poll_stop(&self, cx: &mut Context<'_>) -> Result<(), Broken> {
        if self.timer.is_late(cx) {
            return Err(Broken::Late);
        }
        Ok(())
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
        self.link.poll_stop(cx)?;
        let worker = &self.link.worker;
        match self
            .stream
            .poll_fill(cx, &mut self.input, &worker.buffers, size)
        {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(0)) => Poll::Ready(Err(Broken::Closed)),
            Poll::Ready(Ok(n)) => {
                worker.counters.bytes_in.add(n as u64);
                Poll::Ready(Ok(n))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Broken::Io(error))),
        }
    }

    /// Drops what comes, up to `max` bytes. 0 is the end.
    pub(crate) fn poll_sink(
        &mut self,
        cx: &mut Context<'_>,
        max: u64,
    ) -> Poll<Result<usize, Broken>> {
        self.link.poll_stop(cx)?;
        let worker = &self.link.worker;
        let mut sink = worker.sink.borrow_mut();
        match self.stream.poll_sink(cx, &mut sink, max) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(n)) => {
                worker.counters.bytes_in.add(n as u64);
                Poll::Ready(Ok(n))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Broken::Io(error))),
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
            Poll::Pending => match self.link.poll_stop(cx) {
                Ok(()) => Poll::Pending,
                Err(broken) => Poll::Ready(Err(broken)),
            },
            Poll::Ready(Ok(n)) => {
                self.link.worker.counters.bytes_out.add(n as u64);
                Poll::Ready(Ok(n))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Broken::Io(error))),
        }
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
    let local = stream.local_addr().unwrap_or(listen.addr);
    let timer = worker.timers.timer();
    let mut connection = Connection {
        link: Link {
            worker,
            peer,
            local,
            tls: listen.tls,
            timer,
        },
        stream: Stream::Plain(stream),
        input: Buf::default(),
    };
    let active = connection.link.worker.active();
    // The first head counts from here: a client that says nothing is as slow as one that drips.
    connection.link.timer.set(active.settings.timeouts.headers);
    drop(active);
    match speaks_h2(&mut connection).await {
        Ok(false) => h1::serve(connection).await,
        Ok(true) => connection.link.worker.counters.h2_connections.one(),
        Err(_) => connection.link.worker.counters.connections_silent.one(),
    }
    drop(open);
}

/// Whether the first bytes are HTTP/2's preface.
async fn speaks_h2(connection: &mut Connection) -> Result<bool, Broken> {
    loop {
        if !connection.input.is_empty()
            && let Some(known) = is_h2_preface(connection.input.bytes())
        {
            return Ok(known);
        }
        poll_fn(|cx| connection.poll_fill(cx, SMALL_BYTES)).await?;
    }
}
