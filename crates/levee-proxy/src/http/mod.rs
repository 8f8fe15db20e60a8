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
//!     upstream        connections to the server that are kept
//! ```
//!
//! A request that needs no more than a usual buffer costs four system calls: it is read, written to the server, its answer is
//! read and written to the client. The task of the client's connection does all four.
//!
//! # Seams
//!
//! - `exchange::Client` is the side of one request that differs between HTTP/1.1 and HTTP/2: where its body comes from and
//!   where its answer goes. `exchange::run` is generic over it.
//! - `connection::Link` is what any code on a connection asks whether it must stop (`connection::Link::poll_stop`): a
//!   deadline, an eviction, the end of the front. It is asked before each wait.
//! - [`gate::Gate`] decides: [`Gate::connect`] when a connection is accepted, [`Gate::ask`] when a head has been read and
//!   before any byte of a body is, [`Gate::pay`] for a payment.
//! - [`snapshot::Traffic`] is what a worker counts; [`Watch::snapshot`] asks all of them.
//! - [`access_log::Lane`] takes a line when a request has ended.

pub mod access_log;
mod body;
mod buffer;
mod connection;
mod exchange;
pub mod gate;
mod h1;
mod h2;
mod io;
pub mod pages;
pub mod settings;
pub mod snapshot;
pub mod ticket;
mod timers;
pub mod tls;
mod upstream;
mod worker;

use std::io as std_io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::{mpsc, oneshot, watch};

use self::access_log::{AccessLog, AccessLogError};
use self::gate::{Gate, GateError, GateSnapshot, Recordings};
use self::settings::{HttpSettings, Listen};
use self::snapshot::{Snapshot, Traffic};
use self::tls::TlsError;
use self::worker::{Active, Control, Shared, Start};
use crate::recorder::{RecordError, RecordSettings};

/// Connections that the kernel holds until they are accepted, for each worker.
const BACKLOG: i32 = 4096;
/// Most workers: one a core is enough, and no machine that we know of has more.
const WORKERS_MAX: usize = 1024;
/// Questions for numbers that wait for one worker.
const ASKS_MAX: usize = 16;

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
    /// A certificate cannot be shown.
    #[error("a certificate cannot be used")]
    Tls(#[from] TlsError),
    /// A defence does not take its configuration.
    #[error("a defence's configuration cannot be run")]
    Gate(#[from] GateError),
    /// The access log cannot be written.
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
    /// A recording could not be begun.
    #[error("cannot record")]
    Record(#[from] RecordError),
}

/// Why new settings were not taken. The old ones go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// A key that only a restart can change.
    #[error("`{0}` cannot change while the front runs: restart it")]
    Fixed(&'static str),
    /// A certificate cannot be shown.
    #[error("a certificate cannot be used")]
    Tls(#[from] TlsError),
    /// A defence does not take its configuration.
    #[error("a defence's configuration cannot be run")]
    Gate(#[from] GateError),
    /// The access log cannot be written.
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
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
            ("connections.record", table_record(old) == table_record(new)),
            (
                "access_log",
                old.access_log.is_some() == new.access_log.is_some(),
            ),
            // In bypass the defence does not know what is held.
            ("bypass", old.bypass == new.bypass),
        ];
        match fixed.into_iter().find(|(_, same)| !same) {
            Some((key, _)) => Err(Self::Fixed(key)),
            None => Ok(()),
        }
    }
}

fn table_record(settings: &HttpSettings) -> Option<&RecordSettings> {
    settings.connections.as_ref()?.record.as_ref()
}

/// A front that runs.
#[derive(Debug)]
pub struct Running {
    listen: Vec<Listen>,
    workers: usize,
    control: watch::Sender<Control>,
    watch: Watch,
    gate: Arc<Gate>,
    log: Option<Arc<AccessLog>>,
    ended: Vec<oneshot::Receiver<Traffic>>,
}

/// A way to one worker's numbers.
#[derive(Debug)]
struct Ask {
    worker: mpsc::Sender<oneshot::Sender<Traffic>>,
    /// Its last, once it has ended.
    last: Arc<OnceLock<Traffic>>,
}

impl Ask {
    /// As of now, or of its end.
    async fn numbers(&self) -> Option<Traffic> {
        let (tx, rx) = oneshot::channel();
        if self.worker.send(tx).await.is_ok()
            && let Ok(now) = rx.await
        {
            return Some(now);
        }
        self.last.get().cloned()
    }
}

/// A way to ask a running front for its numbers.
#[derive(Clone, Debug)]
pub struct Watch {
    name: Arc<str>,
    asks: Arc<[Ask]>,
    control: watch::Receiver<Control>,
    gate: Weak<Gate>,
    log: Option<Weak<AccessLog>>,
}

impl Watch {
    /// The numbers as of now; `None` when the front has stopped. While it drains, workers that have nothing left count with
    /// their last numbers.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        if self.asks.iter().all(|ask| ask.worker.is_closed()) {
            return None;
        }
        let mut traffic = Traffic::default();
        for ask in self.asks.iter() {
            traffic.add(&ask.numbers().await?);
        }
        Some(self.with(traffic))
    }

    /// What the gate and the log have to say beside the workers' numbers.
    fn with(&self, traffic: Traffic) -> Snapshot {
        let log = self.log.as_ref().and_then(Weak::upgrade);
        let gate = self.gate.upgrade();
        Snapshot {
            name: self.name.to_string(),
            workers: u32::try_from(self.asks.len()).unwrap_or(u32::MAX),
            traffic,
            gate: gate.map_or_else(GateSnapshot::default, |gate| gate.snapshot()),
            access_log_lines: log.as_ref().map_or(0, |log| log.lines()),
            access_log_lost: log.as_ref().map_or(0, |log| log.lost()),
            draining: self.control.borrow().stop_at.is_some(),
        }
    }
}

/// Binds the listeners and runs a front on threads of its own.
///
/// # Errors
/// When a listener, a certificate or a thread cannot be had, or the settings do not go together.
pub async fn start(mut settings: HttpSettings) -> Result<Running, StartError> {
    if settings.seed == 0 {
        settings.seed = crate::sip::random_u64();
    }
    if settings.workers == 0 {
        settings.workers = std::thread::available_parallelism().map_or(1, usize::from);
    }
    let workers = settings.workers.clamp(1, WORKERS_MAX);
    let tls = load_tls(&settings)?;
    let recordings = Recordings::start(&settings, settings.seed)?;
    let gate = Gate::new(&settings, settings.seed, recordings)?;
    let log = settings.access_log.as_ref().map(AccessLog::start);
    let log = log.transpose()?.map(Arc::new);
    let (listen, sockets) = bind_all(&settings.listen, workers)?;
    let name: Arc<str> = settings.name.as_str().into();
    let (control, receiver) = watch::channel(Control {
        active: Arc::new(Active::new(settings, workers, tls)),
        stop_at: None,
    });
    let shared = Arc::new(Shared {
        gate: Arc::clone(&gate),
        upstream_open: Arc::default(),
    });
    let (mut asks, mut ended) = (Vec::new(), Vec::new());
    for (index, listeners) in sockets.into_iter().enumerate() {
        let (ask, asked) = mpsc::channel(ASKS_MAX);
        let last = Arc::default();
        asks.push(Ask {
            worker: ask,
            last: Arc::clone(&last),
        });
        let begun = worker::spawn(Start {
            index,
            listeners,
            shared: Arc::clone(&shared),
            lane: log.as_ref().map(|log| log.lane(&name)),
            control: receiver.clone(),
            asks: asked,
            last,
        })
        .map_err(StartError::Worker)?;
        let died = |_| Err(std_io::Error::other("its thread ended at once"));
        let ready = begun.ready.await.unwrap_or_else(died);
        ready.map_err(StartError::Worker)?;
        ended.push(begun.ended);
    }
    let watch = Watch {
        name,
        asks: asks.into(),
        control: receiver,
        gate: Arc::downgrade(&gate),
        log: log.as_ref().map(Arc::downgrade),
    };
    Ok(Running {
        listen,
        workers,
        control,
        watch,
        gate,
        log,
        ended,
    })
}

fn load_tls(settings: &HttpSettings) -> Result<Option<Arc<ServerConfig>>, TlsError> {
    let h2 = settings.limits.h2.enabled;
    let load = |tls| tls::load(tls, h2);
    settings.tls.as_ref().map(load).transpose()
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

    /// Its numbers; those of an empty front if it has stopped.
    pub async fn snapshot(&self) -> Snapshot {
        self.watch.snapshot().await.unwrap_or_default()
    }

    /// Takes new limits, deadlines, certificates, another server and a new defence. Connections stay, and what is under way
    /// goes on as it began.
    ///
    /// # Errors
    /// When they cannot be taken; the old ones go on.
    pub fn reload(&self, mut settings: HttpSettings) -> Result<(), ReloadError> {
        let old = Arc::clone(&self.control.borrow().active);
        ReloadError::check(&old.settings, &settings)?;
        if self.control.is_closed() {
            return Err(ReloadError::Stopped);
        }
        settings.workers = self.workers;
        settings.seed = old.settings.seed;
        // All that can fail comes before the first change.
        Gate::check(&settings)?;
        let tls = load_tls(&settings)?;
        if let (Some(log), Some(access_log)) = (&self.log, &settings.access_log) {
            log.reload(access_log)?;
        }
        self.gate.reload(&settings)?;
        let active = Arc::new(Active::new(settings, self.workers, tls));
        self.control.send_modify(|control| control.active = active);
        Ok(())
    }

    /// Takes no new connection, lets what is under way end for up to `drain`, and ends.
    pub async fn stop(self, drain: Duration) -> Snapshot {
        let at = Instant::now() + drain;
        self.control
            .send_modify(|control| control.stop_at = Some(at));
        let mut traffic = Traffic::default();
        for ended in self.ended {
            // A worker that panicked has nothing to tell.
            traffic.add(&ended.await.unwrap_or_default());
        }
        let snapshot = self.watch.with(traffic);
        self.gate.stop();
        snapshot
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
