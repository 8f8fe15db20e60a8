//! The SIP front: a transaction-stateful proxy that stands between user agents and the server that it protects.
//!
//! [`start`] binds the sockets and runs [`front::Front`] on them until [`Running::stop`].
//!
//! # What it leaves out
//! TLS and WebSocket (a further [`settings::Transport`] and a stream of its own), NAPTR and SRV records (a name is
//! resolved to its addresses), Outbound and Path (RFC 5626, 3327), `maddr`, and forking, which is the server's. There is
//! one server, so its 503 is passed on (RFC 3261 section 16.7 step 6 forbids that to a proxy that has another).
//!
//! # What it believes of the server
//! It says where its requests go, and when a call is over. An INVITE from outside with a To tag is taken for one inside a
//! dialog of the server's, and passes uncounted: the server has to refuse one that it does not know with 481 (section
//! 12.2.2).

mod addresses;
mod calls;
mod classify;
mod ending;
pub mod front;
mod names;
mod request;
mod response;
mod route;
pub mod settings;
mod snapshot;
mod sources;
pub(crate) mod stream;
mod table;
mod timers;
mod txn;

use std::io;
use std::time::Duration;

use levee_policy::selective::{ConfigError, Selective};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub(crate) use addresses::source_of;
pub use addresses::{ConnId, Flow, PortId, Zone};
pub use snapshot::Snapshot;

use self::front::Front;
use self::settings::{Listen, SipSettings};
use crate::driver::{Command, Driver, Parts, is_stream};
use crate::recorder::{Header, RecordError, Recorder};

/// Kernel buffer asked for each UDP socket: some 3,000 messages, a second and a half at 2,000 a second.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Events of all streams that wait for the loop; the streams wait when it is full.
const STREAM_EVENTS_MAX: usize = 1024;
/// TCP connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;

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
        source: io::Error,
    },
    /// A listener on all addresses has no name that others could send to.
    #[error("{listen} is on all addresses: give the one that others reach it by in `advertise`")]
    NoName {
        /// Which.
        listen: Listen,
    },
    /// There is no listener that can reach the server.
    #[error(
        "no listener can send to the server {server}: add one of its transport and address family"
    )]
    ServerOutOfReach {
        /// The server.
        server: Listen,
    },
    /// The defence does not take its configuration.
    #[error("the defence's configuration cannot be run")]
    Defense(#[source] ConfigError),
    /// The recording could not be begun.
    #[error("cannot record")]
    Record(#[from] RecordError),
}

/// Why new settings were not taken. The old ones go on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// A key that only a restart can change.
    #[error("`{0}` cannot change while the front runs: restart it")]
    Fixed(&'static str),
    /// The defence does not take its configuration.
    #[error("the defence's configuration cannot be run: {0}")]
    Defense(ConfigError),
    /// The front has stopped.
    #[error("the front has stopped")]
    Stopped,
}

impl ReloadError {
    /// Whether a front that runs with `old` can go on with `new`.
    pub(crate) fn check(old: &SipSettings, new: &SipSettings) -> Result<(), Self> {
        let fixed = [
            ("name", old.name == new.name),
            ("listen", old.listen == new.listen),
            ("inside", old.inside == new.inside),
            ("advertise", old.advertise == new.advertise),
            ("server", old.server == new.server),
            // 0 leaves the seed to the system, which has drawn one.
            ("seed", new.seed == 0 || old.seed == new.seed),
            ("record", old.record == new.record),
            // In bypass the defence does not know the calls that are held.
            ("bypass", old.bypass == new.bypass),
        ];
        if let Some((key, _)) = fixed.into_iter().find(|(_, same)| !same) {
            return Err(Self::Fixed(key));
        }
        Selective::check(new.capacity, &new.defense).map_err(Self::Defense)
    }
}

/// A front that runs.
#[derive(Debug)]
pub struct Running {
    listen: Vec<Listen>,
    inside: Vec<Listen>,
    commands: mpsc::Sender<Command>,
    task: JoinHandle<Snapshot>,
}

/// A way to ask a running front for its numbers.
#[derive(Clone, Debug)]
pub struct Watch {
    commands: mpsc::Sender<Command>,
}

impl Watch {
    /// The numbers as of now; `None` when the front has stopped.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        let (tx, rx) = oneshot::channel();
        self.commands.send(Command::Snapshot(tx)).await.ok()?;
        rx.await.ok()
    }
}

/// Binds the listeners and runs a front on the current tokio runtime.
///
/// # Errors
/// When a listener cannot be had, or the settings do not go together.
pub async fn start(mut settings: SipSettings) -> Result<Running, StartError> {
    if settings.seed == 0 {
        settings.seed = random_u64();
    }
    let all = || settings.listen.iter().chain(&settings.inside).copied();
    if let Some(listen) =
        all().find(|l| l.addr.ip().is_unspecified() && settings.advertise.is_empty())
    {
        return Err(StartError::NoName { listen });
    }
    let server = settings.server;
    if !all().any(|l| l.transport == server.transport && l.addr.is_ipv4() == server.addr.is_ipv4())
    {
        return Err(StartError::ServerOutOfReach { server });
    }
    let (streams_tx, streams) = mpsc::channel(STREAM_EVENTS_MAX);
    let (mut sockets, mut bound, mut listeners) = (Vec::new(), Vec::new(), Vec::new());
    for listen in all() {
        let (socket, listener, at) =
            bind(listen).map_err(|source| StartError::Bind { listen, source })?;
        if let Some(listener) = listener {
            let port = PortId(u16::try_from(bound.len()).unwrap_or(u16::MAX));
            listeners.push((listener, port));
        }
        sockets.push(socket);
        bound.push(at);
    }
    let secret = u128::from(random_u64()) << 64 | u128::from(random_u64());
    let front = Front::new(
        settings.clone(),
        &bound,
        secret.to_be_bytes(),
        settings.seed,
    )
    .map_err(StartError::Defense)?;
    let header = Header::new(settings.seed, settings.capacity, settings.defense.clone());
    let recorder = settings
        .record
        .as_ref()
        .map(|r| Recorder::start(r, header))
        .transpose()?;
    for (listener, port) in listeners {
        tokio::spawn(stream::accept(listener, port, streams_tx.clone()));
    }
    let (commands_tx, commands) = mpsc::channel(16);
    let inside = bound.split_off(settings.listen.len());
    let listen = bound.clone();
    bound.extend(&inside);
    let parts = Parts {
        front,
        settings,
        sockets,
        bound,
        streams_tx,
        streams,
        commands,
        recorder,
    };
    let task = tokio::spawn(Driver::new(parts).run());
    Ok(Running {
        listen,
        inside,
        commands: commands_tx,
        task,
    })
}

impl Running {
    /// Where it listens, with real port numbers.
    #[must_use]
    pub fn addrs(&self) -> &[Listen] {
        &self.listen
    }

    /// Where it listens for the server alone.
    #[must_use]
    pub fn inside_addrs(&self) -> &[Listen] {
        &self.inside
    }

    /// A way to its numbers that can be handed on.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch {
            commands: self.commands.clone(),
        }
    }

    /// Its numbers; those of an empty front if it has stopped.
    pub async fn snapshot(&self) -> Snapshot {
        self.watch().snapshot().await.unwrap_or_default()
    }

    /// Takes new limits, timers, classes and a new defence, and keeps every call.
    ///
    /// # Errors
    /// When they cannot be taken; the old ones go on.
    pub async fn reload(&self, settings: SipSettings) -> Result<(), ReloadError> {
        let (tx, rx) = oneshot::channel();
        let command = Command::Reload(Box::new(settings), tx);
        self.commands
            .send(command)
            .await
            .map_err(|_| ReloadError::Stopped)?;
        rx.await.map_err(|_| ReloadError::Stopped)?
    }

    /// Takes no new call, waits up to `drain` for those in hand, and ends. Calls that are left go on without it: media
    /// never runs through it.
    pub async fn stop(self, drain: Duration) -> Snapshot {
        // It has stopped already if nobody takes this.
        drop(self.commands.send(Command::Stop(drain)).await);
        self.task.await.unwrap_or_default()
    }
}

type Bound = (Option<UdpSocket>, Option<TcpListener>, Listen);

fn bind(listen: Listen) -> io::Result<Bound> {
    let stream = is_stream(listen.transport);
    let (kind, protocol) = if stream {
        (Type::STREAM, Protocol::TCP)
    } else {
        (Type::DGRAM, Protocol::UDP)
    };
    let socket = Socket::new(Domain::for_address(listen.addr), kind, Some(protocol))?;
    if listen.addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    if stream {
        // A restart must not wait for the last connections' TIME_WAIT.
        socket.set_reuse_address(true)?;
    } else {
        // The kernel may grant less.
        drop(socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES));
        drop(socket.set_send_buffer_size(SOCKET_BUFFER_BYTES));
    }
    socket.bind(&listen.addr.into())?;
    if stream {
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from_std(socket.into())?;
        let addr = listener.local_addr()?;
        Ok((None, Some(listener), Listen { addr, ..listen }))
    } else {
        let socket = UdpSocket::from_std(socket.into())?;
        let addr = socket.local_addr()?;
        Ok((Some(socket), None, Listen { addr, ..listen }))
    }
}

/// A random number from the operating system.
///
/// # Panics
/// When the system has none to give: nothing here would be safe then.
pub(crate) fn random_u64() -> u64 {
    getrandom::u64().expect("the operating system gives random numbers")
}
