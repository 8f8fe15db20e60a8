//! The protected server of the papers' experiments: it works on one request at a time, and a further one waits or is refused.
//!
//! The next one served is drawn at random among those that wait. A request whose connection is closed leaves the backlog, and
//! is aborted if the server works on it: the papers' ABORT is a closed connection.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use levee_sim::model::thinner::{Setup, Work};
use levee_sim::schedule::Kind;
use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64;
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, oneshot};

use super::clients::span;
use super::wire::{self, Request};
use super::worker::Worker;

/// Connections at once; further ones wait in the kernel. The clients of the papers hold some hundred.
const CONNECTIONS_MAX: usize = 8_192;
/// Bytes that may come while a request is answered.
const AHEAD_MAX: usize = 64 << 10;
/// Bytes of the answer's body (our choice: the smallest that still looks like a page).
const BODY: &[u8] =
    b"<!DOCTYPE html><title>served</title><p>This is the page that the client asked for.</p>\n";

/// Who asks, by the name of the request: what the lab knows, and nobody can read from the request.
pub(crate) type Kinds = HashMap<u64, Kind>;

/// A request that the server has worked on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Served {
    /// Which: what its path said.
    pub id: u64,
    /// Whose; none if it is no request of the lab's clients.
    pub kind: Option<Kind>,
    /// When the server began, since the start of the run.
    pub begun: Duration,
    /// How long it worked.
    pub work: Duration,
    /// Whether it was cut off.
    pub aborted: bool,
}

/// What the server saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OriginResult {
    /// What it worked on, in order.
    pub served: Vec<Served>,
    /// Refused at a full backlog.
    pub refused: u64,
    /// Left the backlog before their turn.
    pub left: u64,
    /// The most requests that waited at once.
    pub waiting_max: usize,
    /// What was no request.
    pub bad: u64,
}

/// The server at work in a thread of its own.
#[derive(Debug)]
pub(crate) struct Origin {
    addr: SocketAddr,
    worker: Worker<OriginResult>,
}

impl Origin {
    /// Starts it on a free port of loopback; its times count from `epoch`.
    pub(crate) fn start(setup: &Setup, kinds: Kinds, epoch: Instant) -> io::Result<Self> {
        let listener = wire::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 4_096)?;
        let addr = listener.local_addr()?;
        let state = State::new(setup, kinds);
        let worker = Worker::start("origin", move |stopped| async move {
            let desk = Rc::new(Desk {
                state: RefCell::new(state),
                come: Notify::new(),
                epoch,
            });
            let listener = TcpListener::from_std(listener)?;
            let serving = tokio::task::spawn_local(serve(Rc::clone(&desk)));
            tokio::select! {
                failed = accept(&listener, &desk) => failed?,
                () = stopped => {}
            }
            serving.abort();
            Ok(std::mem::take(&mut desk.state.borrow_mut().result))
        })?;
        Ok(Self { addr, worker })
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Ends it.
    pub(crate) fn stop(self) -> io::Result<OriginResult> {
        self.worker.stop()
    }
}

struct Desk {
    state: RefCell<State>,
    come: Notify,
    epoch: Instant,
}

struct State {
    /// Requests that may wait.
    backlog_max: usize,
    work: Work,
    /// What a request of each kind takes, as a multiple.
    multiples: [f64; 2],
    kinds: Kinds,
    /// Who is next.
    rng: Pcg64,
    /// Whether it works on a request now.
    busy: bool,
    backlog: Vec<Job>,
    result: OriginResult,
}

struct Job {
    id: u64,
    come: Duration,
    answer: oneshot::Sender<()>,
}

impl State {
    fn new(setup: &Setup, kinds: Kinds) -> Self {
        Self {
            backlog_max: setup.server.backlog as usize,
            work: Work::new(setup, 0),
            multiples: [setup.honest.work, setup.attack.work],
            kinds,
            rng: Pcg64::seed_from_u64(setup.seed),
            busy: false,
            backlog: Vec::new(),
            result: OriginResult::default(),
        }
    }

    /// Whether there is room for one more; those that left make some.
    fn arrive(&mut self, job: Job) -> bool {
        self.forget_those_that_left();
        let room = self.backlog_max + usize::from(!self.busy);
        if self.backlog.len() >= room {
            self.result.refused += 1;
            return false;
        }
        self.backlog.push(job);
        let waiting = self.backlog.len() - usize::from(!self.busy);
        self.result.waiting_max = self.result.waiting_max.max(waiting);
        true
    }

    fn forget_those_that_left(&mut self) {
        let before = self.backlog.len();
        self.backlog.retain(|job| !job.answer.is_closed());
        self.result.left += (before - self.backlog.len()) as u64;
    }

    /// The next request, drawn at random, and the work that it makes.
    fn next(&mut self) -> Option<(Job, Option<Kind>, Duration)> {
        self.forget_those_that_left();
        self.busy = !self.backlog.is_empty();
        if !self.busy {
            return None;
        }
        let at = (unit(&mut self.rng) * self.backlog.len() as f64) as usize;
        let job = self.backlog.swap_remove(at.min(self.backlog.len() - 1));
        let kind = self.kinds.get(&job.id).copied();
        let multiple = kind.map_or(1.0, |kind| self.multiples[kind.index()]);
        Some((job, kind, span(self.work.draw(multiple))))
    }
}

/// Uniform in [0, 1).
fn unit(rng: &mut Pcg64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Works on one request after the other, for as long as it lasts.
async fn serve(desk: Rc<Desk>) {
    let mut free = Duration::ZERO;
    loop {
        let next = desk.state.borrow_mut().next();
        let Some((mut job, kind, work)) = next else {
            desk.come.notified().await;
            continue;
        };
        // A timer wakes late by up to a millisecond. Work begins when the server was free, not when it was told so: the
        // capacity is what it should be.
        let begun = free.max(job.come);
        free = begun + work;
        let done = tokio::time::sleep_until((desk.epoch + free).into());
        let aborted = tokio::select! {
            () = done => false,
            () = job.answer.closed() => true,
        };
        if aborted {
            free = desk.epoch.elapsed().clamp(begun, free);
        }
        desk.state.borrow_mut().result.served.push(Served {
            id: job.id,
            kind,
            begun,
            work: free - begun,
            aborted,
        });
        job.answer.send(()).ok();
    }
}

async fn accept(listener: &TcpListener, desk: &Rc<Desk>) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let (stream, _) = listener.accept().await?;
        let desk = Rc::clone(desk);
        tokio::task::spawn_local(async move {
            // A connection that fails is its client's to tell of.
            connection(stream, &desk).await.ok();
            drop(place);
        });
    }
}

async fn connection(mut stream: TcpStream, desk: &Desk) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(2_048);
    loop {
        let request = match wire::read_request(&mut stream, &mut buffer).await {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) => {
                desk.state.borrow_mut().result.bad += 1;
                return Err(error);
            }
        };
        wire::skip_body(&mut stream, &mut buffer, request.body).await?;
        let answer = match request.id {
            None => "404 Not Found",
            Some(id) => match answer(&mut stream, &mut buffer, desk, id).await? {
                true => "200 OK",
                false => "503 Service Unavailable",
            },
        };
        respond(&mut stream, &request, answer).await?;
        if request.close {
            return stream.shutdown().await;
        }
    }
}

/// Waits for the server's work on a request; false if it was refused. An error if its client leaves.
async fn answer(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    desk: &Desk,
    id: u64,
) -> io::Result<bool> {
    let (answer, mut answered) = oneshot::channel();
    let come = desk.epoch.elapsed();
    if !desk.state.borrow_mut().arrive(Job { id, come, answer }) {
        return Ok(false);
    }
    desk.come.notify_one();
    loop {
        tokio::select! {
            biased;
            done = &mut answered => return done.map(|()| true).map_err(io::Error::other),
            read = stream.read_buf(buffer), if buffer.len() < AHEAD_MAX => {
                if read? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
}

async fn respond(stream: &mut TcpStream, request: &Request, status: &str) -> io::Result<()> {
    let served = status.starts_with('2');
    let (body, length) = if served {
        (BODY, BODY.len())
    } else {
        (&[][..], 0)
    };
    let connection = if request.close { "close" } else { "keep-alive" };
    let mut out = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n"
    )
    .into_bytes();
    if !request.head {
        out.extend_from_slice(body);
    }
    stream.write_all(&out).await
}
