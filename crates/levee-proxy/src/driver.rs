//! The loop that drives a front against clock and sockets. It waits for one thing at a time; what that thing means is the
//! front's business, in plain functions.
//!
//! One task owns the front, so there is no lock on the way of a message. Datagrams are read in bursts; streams have a task
//! each ([`crate::sip::stream`]) that cuts them into messages and waits when the loop is busy, so that one fast sender
//! fills its own buffers and nobody else's.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;
use std::time::{Duration, Instant};

use levee_policy::Time;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use crate::recorder::{Recorded as _, Recorder};
use crate::sip::front::{Event, Front, Input, Output};
use crate::sip::settings::{Listen, SipSettings, Transport};
use crate::sip::stream::{self, StreamEvent, StreamLimits};
use crate::sip::{ConnId, Flow, PortId, ReloadError, Snapshot, source_of};

/// Datagrams read from one socket before the others have their turn.
const BURST: usize = 64;
/// Largest UDP payload.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Messages that wait to be written to one connection; a peer that reads slower loses it.
const STREAM_QUEUE_MAX: usize = 256;

/// What is asked of a running front from beside.
#[derive(Debug)]
pub(crate) enum Command {
    Snapshot(oneshot::Sender<Snapshot>),
    Reload(Box<SipSettings>, oneshot::Sender<Result<(), ReloadError>>),
    Stop(Duration),
}

/// What the loop may wake up for.
enum Wake {
    Datagrams(usize),
    Stream(StreamEvent),
    Resolved(String, Option<IpAddr>),
    Command(Option<Command>),
    Deadline,
}

/// A connection, as the loop knows it.
struct Conn {
    port: PortId,
    peer: SocketAddr,
    queue: mpsc::Sender<(Vec<u8>, u64)>,
    accepted: bool,
}

/// A front with its sockets.
pub(crate) struct Driver {
    front: Front,
    settings: SipSettings,
    start: Instant,
    /// By [`PortId`]; `None` for TCP.
    sockets: Vec<Option<UdpSocket>>,
    /// Which of them is looked at first.
    turn: usize,
    bound: Vec<Listen>,
    conns: HashMap<ConnId, Conn>,
    by_peer: HashMap<(PortId, SocketAddr), ConnId>,
    by_source: HashMap<IpAddr, usize>,
    accepted: usize,
    next_conn: u64,
    streams_tx: mpsc::Sender<StreamEvent>,
    streams: mpsc::Receiver<StreamEvent>,
    resolved_tx: mpsc::UnboundedSender<(String, Option<IpAddr>)>,
    resolved: mpsc::UnboundedReceiver<(String, Option<IpAddr>)>,
    commands: mpsc::Receiver<Command>,
    recorder: Option<Recorder>,
    stop_at: Option<Instant>,
    buffer: Vec<u8>,
}

/// What [`Driver::new`] needs.
pub(crate) struct Parts {
    pub(crate) front: Front,
    pub(crate) settings: SipSettings,
    pub(crate) sockets: Vec<Option<UdpSocket>>,
    pub(crate) bound: Vec<Listen>,
    pub(crate) streams_tx: mpsc::Sender<StreamEvent>,
    pub(crate) streams: mpsc::Receiver<StreamEvent>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) recorder: Option<Recorder>,
}

impl Driver {
    pub(crate) fn new(parts: Parts) -> Self {
        let (resolved_tx, resolved) = mpsc::unbounded_channel();
        Self {
            front: parts.front,
            settings: parts.settings,
            start: Instant::now(),
            sockets: parts.sockets,
            turn: 0,
            bound: parts.bound,
            conns: HashMap::new(),
            by_peer: HashMap::new(),
            by_source: HashMap::new(),
            accepted: 0,
            next_conn: 0,
            streams_tx: parts.streams_tx,
            streams: parts.streams,
            resolved_tx,
            resolved,
            commands: parts.commands,
            recorder: parts.recorder,
            stop_at: None,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        }
    }

    /// Runs until it was told to stop and the calls have ended, or their time is up.
    pub(crate) async fn run(mut self) -> Snapshot {
        let sleep = tokio::time::sleep(Duration::ZERO);
        let mut sleep = std::pin::pin!(sleep);
        let mut armed = None;
        loop {
            if self
                .stop_at
                .is_some_and(|at| self.front.calls() == 0 || Instant::now() >= at)
            {
                break;
            }
            let deadline = self.next_deadline();
            if deadline != armed {
                armed = deadline;
                if let Some(at) = deadline {
                    sleep.as_mut().reset(at.into());
                }
            }
            let wake = self.wait(armed.map(|_| sleep.as_mut())).await;
            if matches!(wake, Wake::Deadline) {
                armed = None;
            }
            self.apply(wake);
        }
        let snapshot = self.snapshot();
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
        snapshot
    }

    fn next_deadline(&self) -> Option<Instant> {
        let front = self
            .front
            .deadline()
            .map(|t| self.start + Duration::from_nanos(t.as_nanos()));
        [front, self.stop_at].into_iter().flatten().min()
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Timers come first: they are few, and each is done at once. Among the rest chance decides, and each socket has its
    /// turn, so that a flood of one kind leaves half of the loop to the others.
    async fn wait(&mut self, sleep: Option<std::pin::Pin<&mut Sleep>>) -> Wake {
        let (sockets, turn) = (&self.sockets, self.turn);
        let datagrams = poll_fn(|cx| {
            for i in (turn..sockets.len()).chain(0..turn) {
                let Some(socket) = &sockets[i] else { continue };
                if socket.poll_recv_ready(cx).is_ready() {
                    return Poll::Ready(i);
                }
            }
            Poll::Pending
        });
        let timer = async {
            match sleep {
                Some(sleep) => sleep.await,
                None => std::future::pending().await,
            }
        };
        let (commands, streams, resolved) =
            (&mut self.commands, &mut self.streams, &mut self.resolved);
        let arrived = async {
            tokio::select! {
                command = commands.recv() => Wake::Command(command),
                Some(event) = streams.recv() => Wake::Stream(event),
                i = datagrams => Wake::Datagrams(i),
                Some((host, ip)) = resolved.recv() => Wake::Resolved(host, ip),
            }
        };
        tokio::select! {
            biased;
            () = timer => Wake::Deadline,
            wake = arrived => wake,
        }
    }

    fn apply(&mut self, wake: Wake) {
        match wake {
            Wake::Datagrams(i) => self.read_burst(i),
            Wake::Stream(event) => self.on_stream(event),
            Wake::Resolved(host, ip) => self.tell(Input::Resolved { host, ip }),
            Wake::Deadline => {
                let now = self.now();
                self.front.handle_deadline(now);
                self.carry_out();
            }
            // The handle is gone: nobody could stop us any more.
            Wake::Command(None) => self.stop_at = Some(Instant::now()),
            Wake::Command(Some(Command::Snapshot(reply))) => drop(reply.send(self.snapshot())),
            Wake::Command(Some(Command::Reload(settings, reply))) => {
                drop(reply.send(self.reload(*settings)));
            }
            Wake::Command(Some(Command::Stop(drain))) => {
                let at = Instant::now() + drain;
                self.stop_at = Some(self.stop_at.map_or(at, |old| old.min(at)));
                self.tell(Input::Drain);
            }
        }
    }

    fn tell(&mut self, input: Input<'_>) {
        let now = self.now();
        self.front.handle(now, input);
        self.carry_out();
    }

    fn read_burst(&mut self, i: usize) {
        self.turn = i + 1;
        let port = PortId(u16::try_from(i).unwrap_or(u16::MAX));
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..BURST {
            let Some(socket) = &self.sockets[i] else {
                break;
            };
            match socket.try_recv_from(&mut buffer) {
                Ok((n, peer)) => {
                    let flow = Flow {
                        port,
                        peer,
                        conn: None,
                    };
                    self.on_message(flow, &buffer[..n]);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // An ICMP error of an earlier send; the transaction's timer deals with that.
                Err(_) => self.front.stats_mut().note_dropped("udp_receive_error"),
            }
        }
        self.buffer = buffer;
    }

    fn on_message(&mut self, flow: Flow, bytes: &[u8]) {
        let began = Instant::now();
        let now = began.duration_since(self.start);
        let now = Time::from_nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        self.front.handle(now, Input::Message { flow, bytes });
        self.carry_out();
        let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.front.stats_mut().latency.note(us);
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.front.poll_output() {
            match output {
                Output::Send { flow, bytes, txn } => self.send(flow, bytes, txn),
                Output::Resolve { host } => self.resolve(host),
            }
        }
        self.record();
    }

    fn send(&mut self, flow: Flow, bytes: Vec<u8>, txn: u64) {
        let Some(Some(socket)) = self.sockets.get(usize::from(flow.port.0)) else {
            return self.send_stream(flow, bytes, txn);
        };
        match socket.try_send_to(&bytes, flow.peer) {
            Ok(_) => {}
            // As if the network had lost it: the sender's timer repeats it.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.front.stats_mut().note_dropped("udp_send_full");
            }
            Err(_) if txn == 0 => self.front.stats_mut().note_dropped("udp_send_error"),
            Err(_) => {
                let now = self.now();
                self.front.handle(now, Input::Unreachable { txn });
            }
        }
    }

    // Streams.

    fn send_stream(&mut self, flow: Flow, bytes: Vec<u8>, txn: u64) {
        let id = flow
            .conn
            .filter(|c| self.conns.contains_key(c))
            .or_else(|| self.by_peer.get(&(flow.port, flow.peer)).copied());
        let id = match id.map_or_else(|| self.connect(flow), Ok) {
            Ok(id) => id,
            Err(cause) => return self.not_sent(cause, txn),
        };
        let Some(conn) = self.conns.get(&id) else {
            return;
        };
        if conn.queue.try_send((bytes, txn)).is_err() {
            self.forget(id);
            self.not_sent("stream_queue_full", txn);
        }
    }

    fn not_sent(&mut self, cause: &'static str, txn: u64) {
        self.front.stats_mut().note_dropped(cause);
        if txn != 0 {
            let now = self.now();
            self.front.handle(now, Input::Unreachable { txn });
        }
    }

    /// A new connection. None back to the port that a client connected from, where nobody listens; and of those that
    /// strangers may have us make not more than we accept, since each may hang for half a minute.
    fn connect(&mut self, flow: Flow) -> Result<ConnId, &'static str> {
        if flow.peer != self.settings.server.addr {
            if flow.conn.is_some() {
                return Err("connection_gone");
            }
            let made = self.conns.len() - self.accepted;
            if made >= self.settings.limits.connections_max {
                return Err("connections_full");
            }
        }
        Ok(self.open(flow.port, flow.peer, None))
    }

    fn open(&mut self, port: PortId, peer: SocketAddr, accepted: Option<TcpStream>) -> ConnId {
        self.next_conn += 1;
        let id = ConnId(self.next_conn);
        let (queue, messages) = mpsc::channel(STREAM_QUEUE_MAX);
        self.by_peer.insert((port, peer), id);
        self.conns.insert(
            id,
            Conn {
                port,
                peer,
                queue,
                accepted: accepted.is_some(),
            },
        );
        let limits = StreamLimits {
            message_bytes_max: self.settings.limits.message_bytes_max,
            idle: self.settings.limits.idle_connection,
            connect: self.settings.timers.t1 * 64,
            message: self.settings.timers.t1 * 64,
        };
        // From the address that we name in Via, so that the peer sees the same one.
        let local = self.bound[usize::from(port.0)].addr.ip();
        let flow = Flow {
            port,
            peer,
            conn: Some(id),
        };
        let events = self.streams_tx.clone();
        tokio::spawn(stream::serve(
            flow, local, accepted, messages, events, limits,
        ));
        id
    }

    fn on_stream(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Accepted { port, peer, stream } => self.on_accepted(port, peer, stream),
            StreamEvent::Message { flow, bytes } => self.on_message(flow, &bytes),
            StreamEvent::Closed {
                conn,
                cause,
                unsent,
            } => {
                self.forget(conn);
                if let Some(cause) = cause {
                    self.front.stats_mut().note_dropped(cause);
                }
                for txn in unsent {
                    self.tell(Input::Unreachable { txn });
                }
            }
        }
    }

    fn on_accepted(&mut self, port: PortId, peer: SocketAddr, stream: TcpStream) {
        let limits = &self.settings.limits;
        let source = source_of(peer.ip());
        let of_source = self.by_source.get(&source).copied().unwrap_or(0);
        let cause = if self.accepted >= limits.connections_max {
            "connections_full"
        } else if of_source >= limits.connections_per_source_max {
            "connections_of_source_full"
        } else {
            self.accepted += 1;
            *self.by_source.entry(source).or_default() += 1;
            self.open(port, peer, Some(stream));
            return;
        };
        self.front.stats_mut().note_dropped(cause);
    }

    fn forget(&mut self, id: ConnId) {
        let Some(conn) = self.conns.remove(&id) else {
            return;
        };
        if self.by_peer.get(&(conn.port, conn.peer)) == Some(&id) {
            self.by_peer.remove(&(conn.port, conn.peer));
        }
        if conn.accepted {
            self.accepted -= 1;
            let source = source_of(conn.peer.ip());
            if let Some(n) = self.by_source.get_mut(&source) {
                *n -= 1;
                if *n == 0 {
                    self.by_source.remove(&source);
                }
            }
        }
    }

    // The rest.

    fn resolve(&mut self, host: String) {
        let tx = self.resolved_tx.clone();
        let v4 = self.bound.iter().any(|l| l.addr.is_ipv4());
        let v6 = self.bound.iter().any(|l| l.addr.is_ipv6());
        tokio::spawn(async move {
            let found = tokio::net::lookup_host((host.as_str(), 5060)).await;
            let ip = found.ok().and_then(|mut all| {
                all.find(|a| if a.is_ipv4() { v4 } else { v6 })
                    .map(|a| a.ip())
            });
            // The loop is gone when nobody listens.
            drop(tx.send((host, ip)));
        });
    }

    fn snapshot(&self) -> Snapshot {
        let mut s = self.front.snapshot();
        s.connections = u32::try_from(self.conns.len()).unwrap_or(u32::MAX);
        if let Some(recorder) = &self.recorder {
            s.recording_lost = recorder.status().missed;
        }
        s
    }

    fn reload(&mut self, mut settings: SipSettings) -> Result<(), ReloadError> {
        ReloadError::check(&self.settings, &settings)?;
        settings.seed = self.settings.seed;
        self.settings = settings.clone();
        self.tell(Input::Reload(Box::new(settings)));
        Ok(())
    }

    fn record(&mut self) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        for event in self.front.take_events() {
            match event {
                Event::Input(at, input) => recorder.input(at, &input),
                Event::Deadline(at) => recorder.deadline(at),
                Event::Output(at, output) => recorder.output(at, &output),
            }
        }
        if recorder.wants_restart() && self.front.policy().is_idle() {
            let seed = crate::sip::random_u64();
            self.front.restart_policy(seed);
            recorder.restart(self.front.policy().header(seed));
        }
    }
}

/// The transports that have a socket here.
pub(crate) fn is_stream(transport: Transport) -> bool {
    transport != Transport::Udp
}

#[cfg(test)]
mod tests {
    use levee_policy::selective::Config;

    use super::*;

    /// A driver with these UDP ports and one TCP port, and the sender of its streams' events.
    async fn driver(udp: usize) -> (Driver, mpsc::Sender<StreamEvent>, mpsc::Sender<Command>) {
        let (mut sockets, mut bound) = (Vec::new(), Vec::new());
        for _ in 0..udp {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            bound.push(Listen::udp(socket.local_addr().unwrap()));
            sockets.push(Some(socket));
        }
        sockets.push(None);
        bound.push(Listen::tcp("127.0.0.1:9".parse().unwrap()));
        let server = Listen::tcp("127.0.0.2:9".parse().unwrap());
        let mut settings = SipSettings::new("t", bound.clone(), server, 1, Config::default());
        settings.limits.connections_max = 2;
        settings.limits.connections_per_source_max = 1;
        let front = Front::new(settings.clone(), &bound, [1; 16], 1).unwrap();
        let (streams_tx, streams) = mpsc::channel(1000);
        let (commands_tx, commands) = mpsc::channel(1);
        let driver = Driver::new(Parts {
            front,
            settings,
            sockets,
            bound,
            streams_tx: streams_tx.clone(),
            streams,
            commands,
            recorder: None,
        });
        (driver, streams_tx, commands_tx)
    }

    async fn fill(driver: &Driver, i: usize) {
        let socket = driver.sockets[i].as_ref().unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let to = socket.local_addr().unwrap();
        for _ in 0..100 {
            from.send_to(b"x", to).await.unwrap();
        }
        socket.readable().await.unwrap();
    }

    #[tokio::test]
    async fn a_flood_of_streams_leaves_a_turn_to_datagrams_and_names() {
        let (mut driver, streams, _commands) = driver(1).await;
        let conn = ConnId(1);
        for _ in 0..1000 {
            let event = StreamEvent::Closed {
                conn,
                cause: None,
                unsent: Vec::new(),
            };
            streams.send(event).await.unwrap();
        }
        fill(&driver, 0).await;
        driver.resolved_tx.send(("a".into(), None)).unwrap();
        let (mut datagrams, mut names) = (0, 0);
        // Each has a chance of 1/4 or more in each turn: all 100 miss it once in 10^12 runs.
        for _ in 0..100 {
            match driver.wait(None).await {
                Wake::Datagrams(_) => datagrams += 1,
                Wake::Resolved(..) => names += 1,
                Wake::Stream(_) | Wake::Command(_) | Wake::Deadline => {}
            }
        }
        assert!(datagrams > 0 && names == 1, "{datagrams} {names}");
    }

    #[tokio::test]
    async fn a_flood_on_one_socket_leaves_a_turn_to_the_other() {
        let (mut driver, _streams, _commands) = driver(2).await;
        fill(&driver, 0).await;
        fill(&driver, 1).await;
        let mut read = [0, 0];
        for _ in 0..2 {
            let wake = driver.wait(None).await;
            if let Wake::Datagrams(i) = wake {
                read[i] += 1;
            }
            driver.apply(wake);
        }
        assert_eq!(read, [1, 1]);
    }

    #[tokio::test]
    async fn connections_to_strangers_are_limited_and_those_to_the_server_not() {
        let (mut driver, _streams, _commands) = driver(0).await;
        let to = |peer: &str, conn| Flow {
            port: PortId(0),
            peer: peer.parse().unwrap(),
            conn,
        };
        let gone = to("127.0.0.3:4000", Some(ConnId(77)));
        assert_eq!(driver.connect(gone), Err("connection_gone"));
        for i in 0..2 {
            assert!(driver.connect(to(&format!("127.0.0.3:{i}"), None)).is_ok());
        }
        let third = to("127.0.0.3:2", None);
        assert_eq!(driver.connect(third), Err("connections_full"));
        let server = to("127.0.0.2:9", Some(ConnId(78)));
        assert!(driver.connect(server).is_ok());
    }

    #[tokio::test]
    async fn a_source_is_a_64_for_connections_too() {
        let (mut driver, _streams, _commands) = driver(0).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        for (peer, accepted) in [
            ("[2001:db8::1]:1", 1),
            ("[2001:db8::2]:1", 1),
            ("[2001:db8:0:1::1]:1", 2),
            ("[2001:db8:0:2::1]:1", 2),
        ] {
            let stream = TcpStream::connect(at).await.unwrap();
            driver.on_accepted(PortId(0), peer.parse().unwrap(), stream);
            assert_eq!(driver.accepted, accepted, "{peer}");
        }
        let dropped = driver.snapshot().dropped;
        assert_eq!(dropped["connections_of_source_full"], 1);
        assert_eq!(dropped["connections_full"], 1);
        for id in [1, 2, 1] {
            driver.forget(ConnId(id));
        }
        assert_eq!((driver.accepted, driver.by_source.len()), (0, 0));
    }
}
