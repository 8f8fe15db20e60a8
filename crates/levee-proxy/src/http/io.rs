//! A client's socket. It counts what passes, and takes and gives storage as bytes come and go.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::buffer::{Buf, Buffers, LARGE_BYTES};

/// A read that is thrown away may take so much at once: eight times what a loopback socket holds by default.
const SINK_BYTES: usize = 1 << 20;
/// `MSG_TRUNC` of Linux: on a TCP socket a read drops the bytes in the kernel (tcp(7)).
const MSG_TRUNC: i32 = 0x20;

/// A connection with its bytes on the wire.
#[derive(Debug)]
pub(crate) enum Stream {
    /// As they are.
    Plain(TcpStream),
    /// In TLS.
    Tls(Box<TlsStream<Early<TcpStream>>>),
}

impl Stream {
    /// The socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &stream.get_ref().0.stream,
        }
    }

    /// Reads into `buf`, which takes storage for it when there is something to read. 0 is the end, or a full buffer.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Buf,
        buffers: &Buffers,
        size: usize,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => poll_fill(stream, cx, buf, buffers, size),
            Self::Tls(stream) => poll_fill(&mut **stream, cx, buf, buffers, size),
        }
    }

    /// Writes from two pieces, in one call.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => poll_write(stream, cx, first, second),
            Self::Tls(stream) => poll_write(&mut **stream, cx, first, second),
        }
    }

    /// Whether all that was written has left for the kernel.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            // Nothing is held back.
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Says that nothing more will be written.
    pub(crate) fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    /// Drops up to `max` bytes that have come. Where the socket is plain they are never copied. 0 is the end.
    ///
    /// # Panics
    /// If `max` is 0: that could not be told from the end.
    pub(crate) fn poll_sink(
        &mut self,
        cx: &mut Context<'_>,
        sink: &mut Sink,
        max: u64,
    ) -> Poll<io::Result<usize>> {
        assert!(max > 0);
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        match self {
            Self::Plain(stream) => loop {
                ready!(stream.poll_read_ready(cx))?;
                let room = &mut sink.unread.spare_capacity_mut()[..max.min(SINK_BYTES)];
                let dropped = stream.try_io(Interest::READABLE, || {
                    SockRef::from(&*stream).recv_with_flags(room, MSG_TRUNC)
                });
                match dropped {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => return Poll::Ready(other),
                }
            },
            Self::Tls(stream) => {
                let mut read = ReadBuf::new(&mut sink.read[..max.min(LARGE_BYTES)]);
                ready!(Pin::new(stream).poll_read(cx, &mut read))?;
                Poll::Ready(Ok(read.filled().len()))
            }
        }
    }

    /// Whether the client has said that it will send no more, as far as the driver has seen: known without reading what came
    /// before that.
    pub(crate) fn has_ended(&self) -> bool {
        let ready = pin!(self.socket().ready(Interest::READABLE));
        match ready.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(ready)) => ready.is_read_closed(),
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }

    /// In TLS, says that this is the end and no loss, as far as the kernel takes it at once. A plain socket says it by closing.
    pub(crate) async fn say_bye(&mut self) {
        if let Self::Tls(stream) = self {
            poll_fn(|cx| {
                let _ = Pin::new(&mut *stream).poll_shutdown(cx);
                Poll::Ready(())
            })
            .await;
        }
    }

    /// When it is dropped, what the kernel still holds for the client is dropped too, with a reset.
    pub(crate) fn reset_on_drop(&self) {
        // A peer that is gone needs none.
        drop(SockRef::from(self.socket()).set_linger(Some(std::time::Duration::ZERO)));
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write(self.get_mut(), cx, buf, &[])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_flush(self.get_mut(), cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_finish(self.get_mut(), cx)
    }
}

/// A stream of which the first bytes were read before it was known whose they are.
#[derive(Debug)]
pub(crate) struct Early<S> {
    early: Vec<u8>,
    at: usize,
    pub(crate) stream: S,
}

impl<S> Early<S> {
    pub(crate) fn new(early: &[u8], stream: S) -> Self {
        Self {
            early: early.to_vec(),
            at: 0,
            stream,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Early<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.at == self.early.len() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let rest = &self.early[self.at..];
        let n = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..n]);
        self.at += n;
        if self.at == self.early.len() {
            self.early = Vec::new();
            self.at = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Early<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Reads into `buf`, which takes storage, at least `size` large, when there is something to read. 0 is the end, or a full
/// buffer.
pub(crate) fn poll_fill(
    stream: &mut (impl AsyncRead + Unpin),
    cx: &mut Context<'_>,
    buf: &mut Buf,
    buffers: &Buffers,
    size: usize,
) -> Poll<io::Result<usize>> {
    buf.hold(buffers, size);
    let mut read = ReadBuf::new(buf.room());
    // A read that does not fill the room tells the driver that nothing is left, so that the next one waits without a call.
    let polled = Pin::new(stream).poll_read(cx, &mut read);
    let n = read.filled().len();
    buf.filled(n);
    buf.release_if_empty(buffers);
    polled.map_ok(|()| n)
}

/// Writes from two pieces, in one call.
pub(crate) fn poll_write(
    stream: &mut (impl AsyncWrite + Unpin),
    cx: &mut Context<'_>,
    first: &[u8],
    second: &[u8],
) -> Poll<io::Result<usize>> {
    let stream = Pin::new(stream);
    let written = ready!(match (first.is_empty(), second.is_empty()) {
        (_, true) => stream.poll_write(cx, first),
        (true, false) => stream.poll_write(cx, second),
        (false, false) => {
            stream.poll_write_vectored(cx, &[IoSlice::new(first), IoSlice::new(second)])
        }
    });
    match written {
        Ok(0) if !(first.is_empty() && second.is_empty()) => {
            Poll::Ready(Err(io::ErrorKind::WriteZero.into()))
        }
        other => Poll::Ready(other),
    }
}

/// Where bytes go that nobody wants; one a worker.
pub(crate) struct Sink {
    /// The kernel does not write to it (`MSG_TRUNC`), so that it takes no memory.
    unread: Vec<u8>,
    /// What was in TLS has to be read.
    read: Vec<u8>,
}

impl Default for Sink {
    fn default() -> Self {
        Self {
            unread: Vec::with_capacity(SINK_BYTES),
            read: vec![0; LARGE_BYTES],
        }
    }
}

impl Sink {
    /// Drops what has come, without waiting and without a copy.
    pub(crate) fn drop_at_hand(&mut self, socket: &SockRef<'_>) -> io::Result<usize> {
        socket.recv_with_flags(self.unread.spare_capacity_mut(), MSG_TRUNC)
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}
