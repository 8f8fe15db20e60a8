//! A client's socket. It counts what passes, and takes and gives storage as bytes come and go.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::buffer::{Buf, Buffers};

/// A read that is thrown away may take so much at once: eight times what a loopback socket holds by default.
const SINK_BYTES: usize = 1 << 20;
/// `MSG_TRUNC` of Linux: on a TCP socket a read drops the bytes in the kernel (tcp(7)).
const MSG_TRUNC: i32 = 0x20;

/// A connection with its bytes on the wire.
#[derive(Debug)]
pub(crate) enum Stream {
    /// As they are.
    Plain(TcpStream),
}

impl Stream {
    /// The socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
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
        }
    }

    /// Whether all that was written has left for the kernel.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Says that nothing more will be written.
    pub(crate) fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    /// Drops up to `max` bytes that have come, without a copy of them where the socket is plain. 0 is the end.
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
        let max = usize::try_from(max).unwrap_or(SINK_BYTES).min(SINK_BYTES);
        match self {
            Self::Plain(stream) => loop {
                ready!(stream.poll_read_ready(cx))?;
                let dropped = stream.try_io(tokio::io::Interest::READABLE, || {
                    SockRef::from(&*stream).recv_with_flags(&mut sink.0[..max], MSG_TRUNC)
                });
                match dropped {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => return Poll::Ready(other),
                }
            },
        }
    }

    /// When it is dropped, what the kernel still holds for the client is dropped too, with a reset.
    pub(crate) fn reset_on_drop(&self) {
        // A peer that is gone needs none.
        drop(SockRef::from(self.socket()).set_linger(Some(std::time::Duration::ZERO)));
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

/// Where bytes go that nobody wants. The kernel does not write to it (`MSG_TRUNC`), so that it takes no memory; one a worker.
pub(crate) struct Sink(Vec<std::mem::MaybeUninit<u8>>);

impl Default for Sink {
    fn default() -> Self {
        Self(vec![std::mem::MaybeUninit::uninit(); SINK_BYTES])
    }
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sink")
    }
}
