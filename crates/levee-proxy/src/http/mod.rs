//! The HTTP front: a reverse proxy that admits by what clients pay, and gives up the slowest connections when it is full.
//!
//! [`start`] binds the listeners and runs the workers until [`Running::stop`].
//!
//! # How a request goes
//!
//! ```text
//! worker      a thread: runtime, listeners (SO_REUSEPORT), timers, buffers, pool. Shares nothing with another but the gate.
//!  connection   accepts: PROXY header, TLS, then by ALPN or the first bytes to
//!   h1            its loop: reads a head, strict (levee-http), and writes answers in order
//!   h2            its streams
//!    exchange       one request of either: gate, then upstream and back; streams both ways at the pace of the slower side
//!     upstream/call   the request on a connection of the pool
//! ```
//!
//! A request that needs no more than a usual buffer costs four system calls: it is read, written to the server, its answer is
//! read and written to the client. The task of the client's connection does all four.
//!
//! # Seams
//!
//! - [`exchange::Client`] is the side of one request that differs between HTTP/1.1 and HTTP/2: where its body comes from and
//!   where its answer goes. [`exchange::run`] is generic over it.
//! - [`connection::Link`] is what any code on a connection asks whether it must stop ([`connection::Link::poll_stop`]): a
//!   deadline, an eviction, the end of the front. It is asked before each wait.
//! - [`record::Record`] is what is told of a finished request, to a [`record::AccessLog`].
//! - [`counters::Totals`] are the numbers of all workers.

pub mod access_log;
mod body;
mod buffer;
mod connection;
pub mod counters;
mod exchange;
pub mod gate;
mod h1;
mod io;
pub mod pages;
pub mod record;
pub mod settings;
pub mod snapshot;
pub mod ticket;
mod timers;
pub mod tls;
mod upstream;
mod worker;

use std::io as std_io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::{oneshot, watch};

use self::counters::{Counters, Totals};
use self::settings::{HttpSettings, Listen};
use self::worker::{Active, Control, Shared, Start};

/// Connections that the kernel holds until they are accepted, for each worker.
const BACKLOG: i32 = 4096;
/// Most workers: one a core is enough, and no machine that we know of has more.
const WORKERS_MAX: usize = 1024;

/// Why a front did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A socket could not be had.
    #[error(
        "cannot listen on {listen} (is another program there, or is it an address of another machine?)"
    )]
    Bind {
        /// Where.
        listen: Listen,
        /// Why.
        source: std_io::Error,
    },
    /// A worker's thread or its runtime could not be had.
    #[error("cannot run a worker")]
    Worker(#[source] std_io::Error),
}

/// Why new settings were not taken. The old ones go on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// A key that only a restart can change.
    #[error("`{0}` cannot change while the front runs: restart it")]
    Fixed(&'static str),
    /// The front has stopped.
    #[error("the front has stopped")]
    Stopped,
}

impl ReloadError {
    /// Whether a front that runs with `old` can go on with `new`.
    fn check(old: &HttpSettings, new: &HttpSettings) -> Result<(), Self> {
        let fixed = [
            ("name", old.name == new.name),
            ("listen", old.listen == new.listen),
            ("workers", new.workers == 0 || old.workers == new.workers),
            // 0 leaves the seed to the system, which has drawn one.
            ("seed", new.seed == 0 || old.seed == new.seed),
            ("record", old.record == new.record),
            // In bypass the defence does not know what is held.
            ("bypass", old.bypass == new.bypass),
        ];
        match fixed.into_iter().find(|(_, same)| !same) {
            Some((key, _)) => Err(Self::Fixed(key)),
            None => Ok(()),
        }
    }
}

/// A front that runs.
#[derive(Debug)]
pub struct Running {
    listen: Vec<Listen>,
    workers: usize,
    control: watch::Sender<Control>,
    watch: Watch,
    ended: Vec<oneshot::Receiver<()>>,
}

/// A way to ask a running front for its numbers.
#[derive(Clone, Debug)]
pub struct Watch {
    counters: Arc<[Arc<Counters>]>,
}

impl Watch {
    /// The numbers as of now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for counters in self.counters.iter() {
            totals.add(counters);
        }
        totals
    }
}

/// Binds the listeners and runs a front on threads of its own.
///
/// # Errors
/// When a listener or a thread cannot be had, or the settings do not go together.
pub async fn start(mut settings: HttpSettings) -> Result<Running, StartError> {
    if settings.seed == 0 {
        settings.seed = crate::sip::random_u64();
    }
    if settings.workers == 0 {
        settings.workers = std::thread::available_parallelism().map_or(1, usize::from);
    }
    let workers = settings.workers.clamp(1, WORKERS_MAX);
    let (listen, sockets) = bind_all(&settings.listen, workers)?;
    let active = Arc::new(Active::new(settings, workers));
    let shared = Arc::new(Shared {
        log: None,
        upstream_open: Arc::default(),
    });
    let (control, receiver) = watch::channel(Control {
        active,
        stop_at: None,
    });
    let (mut counters, mut ended) = (Vec::new(), Vec::new());
    for (index, listeners) in sockets.into_iter().enumerate() {
        let own = Arc::new(Counters::default());
        counters.push(Arc::clone(&own));
        let (ready, end) = worker::spawn(Start {
            index,
            listeners,
            shared: Arc::clone(&shared),
            counters: own,
            control: receiver.clone(),
        })
        .map_err(StartError::Worker)?;
        let died = || Err(std_io::Error::other("its thread ended at once"));
        ready
            .await
            .unwrap_or_else(|_| died())
            .map_err(StartError::Worker)?;
        ended.push(end);
    }
    Ok(Running {
        listen,
        workers,
        control,
        watch: Watch {
            counters: counters.into(),
        },
        ended,
    })
}

impl Running {
    /// Where it listens, with real port numbers.
    #[must_use]
    pub fn addrs(&self) -> &[Listen] {
        &self.listen
    }

    /// A way to its numbers that can be handed on.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Takes new limits, deadlines, another server and a new defence. Connections stay, and what is under way goes on as
    /// it began.
    ///
    /// # Errors
    /// When they cannot be taken; the old ones go on.
    pub fn reload(&self, mut settings: HttpSettings) -> Result<(), ReloadError> {
        let old = Arc::clone(&self.control.borrow().active);
        ReloadError::check(&old.settings, &settings)?;
        settings.workers = self.workers;
        settings.seed = old.settings.seed;
        let active = Arc::new(Active::new(settings, self.workers));
        if self.control.is_closed() {
            return Err(ReloadError::Stopped);
        }
        self.control.send_modify(|control| control.active = active);
        Ok(())
    }

    /// Takes no new connection, lets what is under way end for up to `drain`, and ends.
    pub async fn stop(self, drain: Duration) -> Totals {
        let at = Instant::now() + drain;
        self.control
            .send_modify(|control| control.stop_at = Some(at));
        for ended in self.ended {
            // Its thread is gone either way.
            drop(ended.await);
        }
        self.watch.totals()
    }
}

type Sockets = Vec<(std::net::TcpListener, Listen)>;

/// For each worker a socket of each listener; the kernel spreads connections over them.
fn bind_all(listen: &[Listen], workers: usize) -> Result<(Vec<Listen>, Vec<Sockets>), StartError> {
    let mut bound = Vec::new();
    let mut sockets: Vec<Sockets> = (0..workers).map(|_| Vec::new()).collect();
    for &wanted in listen {
        let failed = |source| StartError::Bind {
            listen: wanted,
            source,
        };
        let mut at = wanted;
        for own in &mut sockets {
            let socket = bind(at.addr).map_err(failed)?;
            // The first chooses the port where it is 0.
            at.addr = socket.local_addr().map_err(failed)?;
            own.push((socket, at));
        }
        bound.push(at);
    }
    Ok((bound, sockets))
}

fn bind(addr: SocketAddr) -> std_io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    // A restart must not wait for the last connections' TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    // Accepted sockets have it from here, without a call each: an answer's end must not wait for its beginning's
    // acknowledgement.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
