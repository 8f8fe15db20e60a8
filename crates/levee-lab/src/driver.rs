//! The one loop of the lab that drives a role against the clock and a socket.
//!
//! Each role has a thread and a runtime of its own, so that a slow one delays nobody else.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::Notify;

use crate::ua::Outbox;

/// A caller, a callee or a server: datagrams and the time in, datagrams out.
pub(crate) trait Role: Send {
    /// Takes a datagram.
    fn receive(&mut self, now: Duration, from: SocketAddr, datagram: &[u8], out: &mut Outbox);
    /// Does what is due.
    fn tick(&mut self, now: Duration, out: &mut Outbox);
    /// When [`Role::tick`] has to be called at the latest.
    fn deadline(&self) -> Option<Duration>;
    /// Whether all work is done.
    fn is_done(&self) -> bool {
        false
    }
}

/// Asked of the kernel for both directions: some thousands of messages, the burst of a second of heavy load.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Datagrams read before timers and sending get their turn.
const READ_BURST: usize = 64;
/// The largest datagram of UDP.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// A UDP socket for a role. Port 0 takes a free one.
pub(crate) fn bind(addr: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    // The kernel grants what its limit allows; less is no error.
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES).ok();
    socket.set_send_buffer_size(SOCKET_BUFFER_BYTES).ok();
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

/// A role at work in its thread.
#[derive(Debug)]
pub(crate) struct Running<R> {
    stop: Arc<Stop>,
    thread: JoinHandle<io::Result<R>>,
}

#[derive(Debug, Default)]
struct Stop {
    asked: AtomicBool,
    wake: Notify,
}

impl<R: Role + 'static> Running<R> {
    /// Starts `role`; its times count from `epoch`.
    pub(crate) fn start(
        name: &str,
        socket: std::net::UdpSocket,
        epoch: Instant,
        mut role: R,
    ) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let asked = Arc::clone(&stop);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let work = move || {
            runtime.block_on(async {
                drive(UdpSocket::from_std(socket)?, epoch, &mut role, &asked).await?;
                Ok(role)
            })
        };
        let thread = std::thread::Builder::new()
            .name(format!("lab-{name}"))
            .spawn(work)?;
        Ok(Self { stop, thread })
    }

    /// Whether the role has ended by itself.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the role, and gives it back with what it has counted.
    pub(crate) fn stop(self) -> io::Result<R> {
        self.stop.asked.store(true, Ordering::Release);
        self.stop.wake.notify_one();
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("a thread of the lab panicked")))
    }
}

async fn drive(
    socket: UdpSocket,
    epoch: Instant,
    role: &mut impl Role,
    stop: &Stop,
) -> io::Result<()> {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let mut out = Outbox::default();
    loop {
        let stopping = stop.asked.load(Ordering::Acquire);
        let mut idle = true;
        for _ in 0..READ_BURST {
            match socket.try_recv_from(&mut buffer) {
                Ok((n, from)) => {
                    let datagram = buffer.get(..n).unwrap_or_default();
                    role.receive(epoch.elapsed(), from, datagram, &mut out);
                    idle = false;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // A peer that has gone: Linux tells of it on the next read.
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => idle = false,
                Err(e) => return Err(e),
            }
        }
        role.tick(epoch.elapsed(), &mut out);
        idle &= out.is_empty();
        for (to, datagram) in out.iter() {
            send(&socket, to, datagram).await?;
        }
        out.clear();
        // What had come before the stop is still taken.
        if role.is_done() || (stopping && idle) {
            return Ok(());
        }
        if idle {
            let until = epoch + role.deadline().unwrap_or(Duration::from_secs(3_600));
            tokio::select! {
                ready = socket.readable() => ready?,
                () = tokio::time::sleep_until(until.into()) => {}
                () = stop.wake.notified() => {}
            }
        }
    }
}

async fn send(socket: &UdpSocket, to: SocketAddr, datagram: &[u8]) -> io::Result<()> {
    match socket.try_send_to(datagram, to) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
            socket.send_to(datagram, to).await.map(drop)
        }
        // The peer has gone: what is lost is sent again or given up by the timers.
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        other => other.map(drop),
    }
}
