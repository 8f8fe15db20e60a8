//! One worker: a thread with its own runtime, listeners, connections, buffers, timers and pool. Nothing on the way of a
//! request is shared with another worker but the defence.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use levee_http::date::Date;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::access_log::Lane;
use super::buffer::Buffers;
use super::connection;
use super::gate::Gate;
use super::io::Sink;
use super::settings::{HttpSettings, Listen};
use super::snapshot::{Phase, Traffic};
use super::timers::{TICK, Timers};
use super::upstream::pool::{Open, Pool};

/// How long accepting rests after an error such as too many open files.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// Ticks between two looks at the connections that are kept to the server: a second.
const SWEEP_TICKS: u32 = 40;

/// What a front is told while it runs.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    /// What it runs with.
    pub(crate) active: Arc<Active>,
    /// Take no new connection, and end at this time, whatever is under way.
    pub(crate) stop_at: Option<Instant>,
}

/// Settings with what follows from them. A connection looks at them anew for each request.
#[derive(Clone, Debug)]
pub(crate) struct Active {
    pub(crate) settings: HttpSettings,
    /// Connections that one worker accepts.
    pub(crate) connections_max: usize,
    /// Connections to the server that one worker keeps.
    pub(crate) idle_max: usize,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) request_limits: levee_http::Limits,
    pub(crate) response_limits: levee_http::Limits,
}

impl Active {
    pub(crate) fn new(
        settings: HttpSettings,
        workers: usize,
        tls: Option<Arc<ServerConfig>>,
    ) -> Self {
        let share = |all: usize| all.div_ceil(workers).max(1);
        let limits = &settings.limits;
        Self {
            request_limits: levee_http::Limits {
                head_bytes_max: limits.head_bytes_max,
                target_bytes_max: limits.target_bytes_max,
                headers_max: limits.headers_max,
            },
            response_limits: levee_http::Limits {
                head_bytes_max: limits.response_head_bytes_max,
                // A server is believed to have its reasons, within the length of its head.
                headers_max: limits.response_head_bytes_max,
                ..levee_http::Limits::default()
            },
            connections_max: share(settings.limits.connections_max),
            idle_max: share(settings.limits.upstream_idle_max),
            tls,
            settings,
        }
    }
}

/// What the workers of a front share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) gate: Arc<Gate>,
    /// Of all workers, against their limit.
    pub(crate) upstream_open: Arc<Open>,
}

/// A worker, as its connections see it.
#[derive(Debug)]
pub(crate) struct Worker {
    active: RefCell<Rc<Active>>,
    pub(crate) shared: Arc<Shared>,
    traffic: RefCell<Traffic>,
    /// Where its requests are logged.
    pub(crate) lane: RefCell<Option<Lane>>,
    /// Its connections to the server.
    pub(crate) upstream_own: Rc<Cell<usize>>,
    pub(crate) timers: Rc<Timers>,
    pub(crate) buffers: Buffers,
    pub(crate) pool: Rc<Pool>,
    pub(crate) sink: RefCell<Sink>,
    /// The time as a Date field says it; a second old at most.
    date: Cell<[u8; 29]>,
    draining: Cell<bool>,
    connections: Cell<usize>,
    /// A connection has ended.
    ended: Notify,
}

impl Worker {
    fn new(first: &Control, shared: Arc<Shared>, lane: Option<Lane>) -> Self {
        Self {
            pool: Pool::new(first.active.idle_max),
            active: RefCell::new(Rc::new(Active::clone(&first.active))),
            shared,
            traffic: RefCell::default(),
            lane: RefCell::new(lane),
            upstream_own: Rc::default(),
            timers: Timers::new(),
            buffers: Buffers::default(),
            sink: RefCell::default(),
            date: Cell::new(date_now()),
            draining: Cell::new(false),
            connections: Cell::new(0),
            ended: Notify::new(),
        }
    }

    /// What it runs with now.
    pub(crate) fn active(&self) -> Rc<Active> {
        Rc::clone(&self.active.borrow())
    }

    /// Counts something.
    pub(crate) fn count(&self, count: impl FnOnce(&mut Traffic)) {
        count(&mut self.traffic.borrow_mut());
    }

    /// Counts a connection that was cut before it came to a request.
    pub(crate) fn cut(&self, cause: &'static str) {
        self.count(|t| *t.cut.entry(cause).or_default() += 1);
    }

    /// Counts a connection that was closed by a deadline.
    pub(crate) fn late(&self, phase: Phase) {
        self.count(|t| t.timed_out[phase] += 1);
    }

    /// Counts a request that the server did not answer as it should.
    pub(crate) fn server_failed(&self, cause: &'static str) {
        self.count(|t| *t.upstream_errors.entry(cause).or_default() += 1);
    }

    fn numbers(&self) -> Traffic {
        let idle = self.pool.len();
        let mut traffic = self.traffic.borrow().clone();
        traffic.upstream_idle = idle as u64;
        traffic.upstream_busy = self.upstream_own.get().saturating_sub(idle) as u64;
        traffic
    }

    /// The time as a Date field says it.
    pub(crate) fn date(&self) -> [u8; 29] {
        self.date.get()
    }

    /// Whether the front is stopping: a connection ends with the request that is under way.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    fn apply(&self, control: &Control) {
        self.pool.set_max(control.active.idle_max);
        // A copy of its own: a counter that all workers change would go from core to core with each request.
        *self.active.borrow_mut() = Rc::new(Active::clone(&control.active));
        if control.stop_at.is_some() && !self.draining.replace(true) {
            self.timers.wake_all();
        }
    }
}

/// A connection that is counted as open; dropped, it is not.
#[derive(Debug)]
pub(crate) struct OpenConnection(Rc<Worker>);

impl OpenConnection {
    fn new(worker: &Rc<Worker>) -> Self {
        worker.connections.set(worker.connections.get() + 1);
        worker.count(|t| t.accepted += 1);
        Self(Rc::clone(worker))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let worker = &self.0;
        worker.connections.set(worker.connections.get() - 1);
        worker.ended.notify_waiters();
    }
}

/// What a worker's thread is begun with.
pub(crate) struct Start {
    pub(crate) index: usize,
    pub(crate) listeners: Vec<(std::net::TcpListener, Listen)>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) lane: Option<Lane>,
    pub(crate) control: watch::Receiver<Control>,
    /// Who wants to know its numbers.
    pub(crate) asks: mpsc::Receiver<oneshot::Sender<Traffic>>,
}

/// What a worker tells of its beginning and of its end.
pub(crate) struct Begun {
    pub(crate) ready: oneshot::Receiver<io::Result<()>>,
    pub(crate) ended: oneshot::Receiver<Traffic>,
}

/// Begins a worker's thread.
pub(crate) fn spawn(start: Start) -> io::Result<Begun> {
    let (ready_tx, ready) = oneshot::channel();
    let (ended_tx, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name(format!("levee-http-{}", start.index))
        .spawn(move || {
            let built = Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default());
            match built {
                Ok(runtime) => {
                    let last = runtime.block_on(run(start, ready_tx));
                    // Its connections are closed before anybody hears that it has ended.
                    drop(runtime);
                    if let Some(traffic) = last {
                        drop(ended_tx.send(traffic));
                    }
                }
                // Nobody listens when the start was given up.
                Err(error) => drop(ready_tx.send(Err(error))),
            }
        })?;
    Ok(Begun { ready, ended })
}

/// Runs a worker to its end; what it counted. `None` if it could not begin.
async fn run(start: Start, ready: oneshot::Sender<io::Result<()>>) -> Option<Traffic> {
    let Start {
        index,
        listeners,
        shared,
        lane,
        mut control,
        mut asks,
    } = start;
    let first = control.borrow_and_update().clone();
    let worker = Rc::new(Worker::new(&first, shared, lane));
    let mut accepting = Vec::new();
    for (listener, listen) in listeners {
        match TcpListener::from_std(listener) {
            Ok(listener) => {
                let accept = accept(Rc::clone(&worker), listener, listen);
                accepting.push(tokio::task::spawn_local(accept));
            }
            Err(error) => {
                drop(ready.send(Err(error)));
                return None;
            }
        }
    }
    drop(ready.send(Ok(())));
    tokio::task::spawn_local(tick(Rc::clone(&worker)));
    if index == 0 {
        tokio::task::spawn_local(Gate::run(Arc::downgrade(&worker.shared.gate)));
    }
    let mut stop_at = None;
    while stop_at.is_none() {
        tokio::select! {
            changed = control.changed() => {
                // The front was dropped without a stop.
                changed.ok()?;
                let control = control.borrow_and_update().clone();
                worker.apply(&control);
                stop_at = control.stop_at;
            }
            Some(ask) = asks.recv() => drop(ask.send(worker.numbers())),
        }
    }
    // What waits in the kernel is refused; who asks again finds the next front, or nobody.
    for task in accepting {
        task.abort();
    }
    let drained = async {
        while worker.connections.get() > 0 {
            tokio::select! {
                () = worker.ended.notified() => {}
                Some(ask) = asks.recv() => drop(ask.send(worker.numbers())),
            }
        }
    };
    // Whoever is left is cut off with the runtime.
    let stop_at = stop_at.unwrap_or_else(Instant::now);
    drop(tokio::time::timeout_at(stop_at.into(), drained).await);
    worker.pool.clear();
    Some(worker.numbers())
}

async fn tick(worker: Rc<Worker>) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ticks = 0_u32;
    loop {
        interval.tick().await;
        worker.timers.tick();
        ticks = ticks.wrapping_add(1);
        if ticks.is_multiple_of(SWEEP_TICKS) {
            worker.date.set(date_now());
            worker.pool.sweep(worker.timers.now_ms());
        }
    }
}

async fn accept(worker: Rc<Worker>, listener: TcpListener, listen: Listen) {
    loop {
        while worker.connections.get() >= worker.active.borrow().connections_max {
            worker.ended.notified().await;
        }
        match listener.accept().await {
            Ok((stream, peer)) => {
                let open = OpenConnection::new(&worker);
                let serve = connection::serve(Rc::clone(&worker), stream, peer, listen, open);
                tokio::task::spawn_local(serve);
            }
            Err(_) => {
                worker.cut("accept_failed");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

fn date_now() -> [u8; 29] {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Date::from_unix(since.map_or(0, |d| d.as_secs())).imf_fixdate()
}
