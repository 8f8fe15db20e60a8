//! A server with a bounded table of workers, as Apache's prefork: each connection holds one from the accept until the kernel has
//! its answer, and further ones wait in the kernel.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use levee_sim::model::http::{Deadline, Setup, Timeouts};
use levee_sim::schedule::Kind;
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use super::Asked;
use crate::http::clients::span;
use crate::http::wire;
use crate::http::worker::Worker;

/// The kernel keeps no more, whatever is asked (`net.core.somaxconn` of most systems).
const BACKLOG_MAX: u32 = 4_096;
/// A connection that nothing times out is looked at this often at least: a day is as good as never.
const NEVER: Duration = Duration::from_secs(86_400);

/// What the server saw. Means are over the time after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ServerResult {
    /// Connections that it took.
    pub accepted: u64,
    /// Requests that it answered.
    pub answered: u64,
    /// Connections that it cut.
    pub timed_out: u64,
    /// Places taken on average.
    pub busy_mean: f64,
    /// Of them, by attackers; without a front only, for a front's connections are its own.
    pub attackers_mean: f64,
    /// The most places that were taken.
    pub busy_max: u32,
    /// When all places were taken for the first time, in seconds.
    pub filled_at_s: Option<f64>,
}

/// The server at work in a thread of its own.
#[derive(Debug)]
pub(super) struct Server {
    addr: SocketAddr,
    worker: Worker<ServerResult>,
}

impl Server {
    pub(super) fn start(setup: &Setup, asked: &Arc<Asked>, epoch: Instant) -> io::Result<Self> {
        // The kernel takes one more than it is told.
        let backlog = setup.backlog.clamp(1, BACKLOG_MAX) as i32;
        let listener = wire::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), backlog)?;
        let addr = listener.local_addr()?;
        let desk = Desk::new(setup, Arc::clone(asked), epoch);
        let places = setup.capacity as usize;
        let worker = Worker::start("server", move |stopped| async move {
            let desk = Rc::new(desk);
            let listener = TcpListener::from_std(listener)?;
            tokio::select! {
                failed = accept(&listener, places, &desk) => failed?,
                () = stopped => {}
            }
            Ok(desk.result())
        })?;
        Ok(Self { addr, worker })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) fn stop(self) -> io::Result<ServerResult> {
        self.worker.stop()
    }
}

struct Desk {
    state: RefCell<State>,
    asked: Arc<Asked>,
    timeouts: Timeouts,
    send_buffer: u32,
    segment: usize,
    capacity: u32,
    epoch: Instant,
    /// What is counted, from the start of the run.
    counted: (Duration, Duration),
}

#[derive(Default)]
struct State {
    busy: u32,
    attackers: u32,
    until: Duration,
    busy_area: f64,
    attackers_area: f64,
    result: ServerResult,
}

impl Desk {
    fn new(setup: &Setup, asked: Arc<Asked>, epoch: Instant) -> Self {
        Self {
            state: RefCell::default(),
            asked,
            timeouts: setup.timeouts,
            send_buffer: setup.send_buffer,
            segment: setup.segment as usize,
            capacity: setup.capacity,
            epoch,
            counted: (span(setup.warmup), setup.plan.until),
        }
    }

    /// Brings the areas up to now, within the time that is counted, and then changes what is held.
    fn change(&self, how: impl FnOnce(&mut State)) {
        let (from, to) = self.counted;
        let now = self.epoch.elapsed();
        let mut state = self.state.borrow_mut();
        let passed = now.min(to).saturating_sub(state.until.max(from));
        state.busy_area += f64::from(state.busy) * passed.as_secs_f64();
        state.attackers_area += f64::from(state.attackers) * passed.as_secs_f64();
        state.until = now;
        how(&mut state);
        let busy = state.busy;
        state.result.busy_max = state.result.busy_max.max(busy);
        if busy >= self.capacity && state.result.filled_at_s.is_none() {
            state.result.filled_at_s = Some(now.as_secs_f64());
        }
    }

    fn result(&self) -> ServerResult {
        self.change(|_| {});
        let (from, to) = self.counted;
        let time = self.epoch.elapsed().min(to).saturating_sub(from);
        let time = time.as_secs_f64().max(1e-9);
        let state = self.state.borrow();
        ServerResult {
            busy_mean: state.busy_area / time,
            attackers_mean: state.attackers_area / time,
            ..state.result
        }
    }
}

/// A worker: it is free again when this is dropped.
struct Place {
    desk: Rc<Desk>,
    attacker: bool,
}

impl Place {
    fn take(desk: &Rc<Desk>, peer: IpAddr) -> Self {
        let attacker = desk.asked.kind_of(peer) == Some(Kind::Attacker);
        desk.change(|state| {
            state.result.accepted += 1;
            state.busy += 1;
            state.attackers += u32::from(attacker);
        });
        Self {
            desk: Rc::clone(desk),
            attacker,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let attacker = self.attacker;
        self.desk.change(|state| {
            state.busy -= 1;
            state.attackers -= u32::from(attacker);
        });
    }
}

async fn accept(listener: &TcpListener, places: usize, desk: &Rc<Desk>) -> io::Result<()> {
    let workers = Arc::new(Semaphore::new(places));
    loop {
        let worker = Arc::clone(&workers).acquire_owned().await;
        let (stream, peer) = listener.accept().await?;
        let place = Place::take(desk, peer.ip());
        tokio::task::spawn_local(async move {
            let end = connection(stream, &place.desk).await;
            if matches!(&end, Err(e) if e.kind() == io::ErrorKind::TimedOut) {
                place.desk.change(|state| state.result.timed_out += 1);
            }
            drop((place, worker));
        });
    }
}

/// One request, then the end: no keep-alive, as in the model.
async fn connection(mut stream: TcpStream, desk: &Desk) -> io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(&stream).set_send_buffer_size(desk.send_buffer as usize)?;
    let mut buffer = Vec::new();
    let begun = desk.epoch.elapsed();
    let request = loop {
        if let Some((request, length)) = wire::parse_request(&buffer)? {
            buffer.drain(..length);
            break request;
        }
        let so_far = buffer.len() as u64;
        read(
            &mut stream,
            &mut buffer,
            desk,
            desk.timeouts.header,
            begun,
            so_far,
        )
        .await?;
    };
    let begun = desk.epoch.elapsed();
    let mut came = buffer.len() as u64;
    while came < request.body {
        buffer.clear();
        read(
            &mut stream,
            &mut buffer,
            desk,
            desk.timeouts.body,
            begun,
            came,
        )
        .await?;
        came += buffer.len() as u64;
    }
    let (work, response) = request
        .id
        .and_then(|id| desk.asked.of(id))
        .unwrap_or_default();
    tokio::time::sleep(work).await;
    let mut out = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {response}\r\nConnection: close\r\n\r\n"
    )
    .into_bytes();
    out.resize(out.len() + response as usize, b'x');
    desk.change(|state| state.result.answered += 1);
    let begun = desk.epoch.elapsed();
    for piece in out.chunks(desk.segment) {
        let due = due(
            desk,
            desk.timeouts.send,
            begun,
            0,
            desk.timeouts.between_writes,
        );
        timeout_at(due, stream.write_all(piece))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    }
    stream.shutdown().await
}

async fn read(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    desk: &Desk,
    deadline: Option<Deadline>,
    begun: Duration,
    came: u64,
) -> io::Result<()> {
    let due = due(desk, deadline, begun, came, desk.timeouts.between_reads);
    match timeout_at(due, stream.read_buf(buffer)).await {
        Ok(Ok(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(read) => read.map(drop),
        Err(_) => {
            let answer =
                "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.try_write(answer.as_bytes()).ok();
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

/// When a connection is cut, if nothing comes before.
fn due(
    desk: &Desk,
    deadline: Option<Deadline>,
    begun: Duration,
    came: u64,
    pause: Option<levee_policy::Span>,
) -> tokio::time::Instant {
    let whole = deadline.map(|deadline| begun + span(deadline.allows(came)));
    let pause = pause.map(|pause| desk.epoch.elapsed() + span(pause));
    let due = whole.into_iter().chain(pause).min();
    (desk.epoch + due.unwrap_or(NEVER)).into()
}
