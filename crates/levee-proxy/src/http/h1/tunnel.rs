//! A connection that is no longer HTTP: bytes go both ways as they come, until both sides have ended.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use crate::http::buffer::{Buf, LARGE_BYTES};
use crate::http::connection::Connection;
use crate::http::io::{poll_fill, poll_write};
use crate::http::snapshot::Phase;
use crate::http::upstream::pool::Upstream;
use crate::http::worker::Active;

/// One direction of a tunnel.
#[derive(Debug, Default)]
struct Way {
    /// Its source has ended.
    ended: bool,
    /// Its target was told so.
    closed: bool,
    moved: u64,
}

/// Runs a tunnel to its end. `input` is what the server has said in it already.
pub(crate) async fn run(
    connection: &mut Connection,
    mut upstream: Upstream,
    input: &mut Buf,
    active: &Active,
) {
    let worker = std::rc::Rc::clone(&connection.link.worker);
    worker.count(|t| t.tunnels += 1);
    connection.link.enter(Phase::Tunnel);
    let silence = active.settings.timeouts.tunnel;
    connection.link.timer.set(silence);
    let (mut up, mut down) = (Way::default(), Way::default());
    // Whatever ends it, both sides are closed.
    let _ = poll_fn(|cx| {
        loop {
            let before = up.moved + down.moved;
            let over = poll_both(cx, connection, &mut upstream, input, &mut up, &mut down)?;
            if over {
                return Poll::Ready(Ok(()));
            }
            if up.moved + down.moved == before {
                if connection.link.poll_stop(cx).is_err() {
                    worker.late(Phase::Tunnel);
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut)));
                }
                return Poll::Pending;
            }
            connection.link.timer.set(silence);
        }
    })
    .await;
}

/// Moves what can be moved; whether both directions have ended.
fn poll_both(
    cx: &mut Context<'_>,
    connection: &mut Connection,
    upstream: &mut Upstream,
    input: &mut Buf,
    up: &mut Way,
    down: &mut Way,
) -> io::Result<bool> {
    let worker = &connection.link.worker;
    let buffers = &worker.buffers;
    while !up.closed {
        if !connection.input.is_empty() {
            let bytes = connection.input.bytes();
            let Poll::Ready(n) = poll_write(&mut upstream.stream, cx, bytes, &[])? else {
                break;
            };
            connection.input.consume(n);
            connection.input.release_if_empty(buffers);
            up.moved += n as u64;
        } else if up.ended {
            let finished = Pin::new(&mut upstream.stream).poll_shutdown(cx)?;
            up.closed = finished.is_ready();
            break;
        } else {
            let stream = &mut connection.stream;
            let Poll::Ready(n) =
                stream.poll_fill(cx, &mut connection.input, buffers, LARGE_BYTES)?
            else {
                break;
            };
            worker.count(|t| t.bytes_in += n as u64);
            up.ended = n == 0;
        }
    }
    while !down.closed {
        if !input.is_empty() {
            let Poll::Ready(n) = connection.stream.poll_write(cx, input.bytes(), &[])? else {
                break;
            };
            input.consume(n);
            input.release_if_empty(buffers);
            worker.count(|t| t.bytes_out += n as u64);
            down.moved += n as u64;
        } else if connection.stream.poll_flush(cx)?.is_pending() {
            break;
        } else if down.ended {
            down.closed = connection.stream.poll_finish(cx)?.is_ready();
            break;
        } else {
            let Poll::Ready(n) = poll_fill(&mut upstream.stream, cx, input, buffers, LARGE_BYTES)?
            else {
                break;
            };
            down.ended = n == 0;
        }
    }
    Ok(up.closed && down.closed)
}
