//! One TCP connection: bytes in, whole messages out, and the other way round.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use levee_sip::stream::{Next, Progress, next};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::addresses::{ConnId, Flow, PortId};

/// Bytes asked of the socket at a time.
const READ_BYTES: usize = 16 * 1024;
/// How long accepting rests after an error such as too many open files.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// How long a peer may take to read what is written to it.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);

/// What a stream tells the loop.
#[derive(Debug)]
pub(crate) enum StreamEvent {
    /// Somebody connected.
    Accepted {
        port: PortId,
        peer: SocketAddr,
        stream: TcpStream,
    },
    /// A message came.
    Message { flow: Flow, bytes: Vec<u8> },
    /// The connection is gone.
    Closed {
        conn: ConnId,
        /// What for, if not for its age: a label for a counter.
        cause: Option<&'static str>,
        /// Transactions whose messages were not written.
        unsent: Vec<u64>,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLimits {
    pub(crate) message_bytes_max: usize,
    pub(crate) idle: Duration,
    /// From a message's first byte to its last.
    pub(crate) message: Duration,
    pub(crate) connect: Duration,
}

/// Accepts until the loop is gone.
pub(crate) async fn accept(listener: TcpListener, port: PortId, events: mpsc::Sender<StreamEvent>) {
    loop {
        // Else the port would stay taken until somebody connects.
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = events.closed() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                if events
                    .send(StreamEvent::Accepted { port, peer, stream })
                    .await
                    .is_err()
                {
                    return;
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_REST).await,
        }
    }
}

/// Serves one connection, accepted or still to be made, to its end.
pub(crate) async fn serve(
    flow: Flow,
    local: IpAddr,
    accepted: Option<TcpStream>,
    mut messages: mpsc::Receiver<(Vec<u8>, u64)>,
    events: mpsc::Sender<StreamEvent>,
    limits: StreamLimits,
) {
    let Some(conn) = flow.conn else { return };
    let opened = match accepted {
        Some(stream) => Ok(stream),
        None => timeout(limits.connect, connect(local, flow.peer))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
    };
    let mut failed = None;
    let cause = match opened {
        Ok(stream) => run(flow, stream, &mut messages, &mut failed, &events, limits).await,
        Err(_) => Some("connect_failed"),
    };
    messages.close();
    let mut unsent: Vec<u64> = failed.into_iter().filter(|t| *t != 0).collect();
    while let Ok((_, txn)) = messages.try_recv() {
        unsent.extend((txn != 0).then_some(txn));
    }
    // The loop is gone when nobody listens.
    drop(
        events
            .send(StreamEvent::Closed {
                conn,
                cause,
                unsent,
            })
            .await,
    );
}

async fn connect(local: IpAddr, peer: SocketAddr) -> io::Result<TcpStream> {
    let socket = if peer.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    if !local.is_unspecified() {
        socket.bind(SocketAddr::new(local, 0))?;
    }
    socket.connect(peer).await
}

async fn run(
    flow: Flow,
    stream: TcpStream,
    messages: &mut mpsc::Receiver<(Vec<u8>, u64)>,
    failed: &mut Option<u64>,
    events: &mpsc::Sender<StreamEvent>,
    limits: StreamLimits,
) -> Option<&'static str> {
    // Small messages must not wait for each other; without it they are only later.
    drop(stream.set_nodelay(true));
    let (mut reader, mut writer) = stream.into_split();
    let mut buffer = Vec::new();
    let mut progress = Progress::default();
    let mut idle_at = Instant::now() + limits.idle;
    let mut begun = false;
    loop {
        buffer.reserve(READ_BYTES);
        tokio::select! {
            message = messages.recv() => {
                let (bytes, txn) = message?;
                if write(&mut writer, &bytes).await.is_err() {
                    *failed = Some(txn);
                    return Some("stream_write_failed");
                }
            }
            read = timeout_at(idle_at, reader.read_buf(&mut buffer)) => match read {
                Err(_) => return Some(if begun { "stream_too_slow" } else { "connection_idle" }),
                Ok(Err(_)) => return Some("stream_read_failed"),
                Ok(Ok(0)) => return (!buffer.is_empty()).then_some("stream_cut_off"),
                Ok(Ok(_)) => {
                    let before = begun;
                    let (used, pings) = match cut(flow, &mut buffer, &mut progress, events, limits).await {
                        Ok(cut) => cut,
                        Err(cause) => return Some(cause),
                    };
                    begun = !buffer.is_empty();
                    if !begun {
                        idle_at = Instant::now() + limits.idle;
                    } else if used > 0 || !before {
                        // A message that drips in must not hold a connection for ever.
                        idle_at = Instant::now() + limits.message;
                    }
                    // RFC 5626 section 4.4.1.
                    if pings && write(&mut writer, b"\r\n").await.is_err() {
                        return Some("stream_write_failed");
                    }
                }
            }
        }
    }
}

async fn write(writer: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8]) -> io::Result<()> {
    timeout(WRITE_TIME_MAX, writer.write_all(bytes))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Hands on all whole messages in the buffer. Returns how many bytes that took, and whether a ping wants its pong.
async fn cut(
    flow: Flow,
    buffer: &mut Vec<u8>,
    progress: &mut Progress,
    events: &mpsc::Sender<StreamEvent>,
    limits: StreamLimits,
) -> Result<(usize, bool), &'static str> {
    let (mut used, mut pings) = (0, false);
    while used < buffer.len() {
        let rest = buffer.get(used..).unwrap_or_default();
        match next(rest, progress, limits.message_bytes_max).map_err(|_| "stream_unreadable")? {
            Next::More => break,
            Next::KeepAlive { bytes, ping } => {
                used += bytes;
                pings |= ping;
            }
            Next::Message { bytes } => {
                let message = rest.get(..bytes).unwrap_or_default().to_vec();
                used += bytes;
                if events
                    .send(StreamEvent::Message {
                        flow,
                        bytes: message,
                    })
                    .await
                    .is_err()
                {
                    return Err("stopped");
                }
            }
        }
    }
    buffer.drain(..used);
    Ok((used, pings))
}
