//! Connections in the table of SeVen: who may come in, who is closed for it, and how far each one is.
//!
//! While the table has room, nothing is asked of the machine but who comes and who goes: a connection notes its phase and its
//! bytes in its own cell, which costs no lock. When the table is about to be full ([`PRESSED`]), the machine is told what the cells
//! hold, and from then on everything as it happens.

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use levee_policy::selective::{
    Admit, Arrival, CLASSES_MAX, CallKey, Class, Config, Input, Output, PhaseId, RefuseCause,
    Selective, Stats,
};
use levee_policy::{ConfigError, Identity, Span, Time};
use serde::Serialize;

use super::Gate;
use super::driven::Driven;
use super::signal::Signal;
use crate::recorder::Recorder;

/// The table counts as about to be full at 7/8 of its capacity, and no longer so below 3/4: what is usual there is then known
/// before it matters.
const PRESSED: (u64, u64) = (7, 8);
const RELIEVED: (u64, u64) = (3, 4);
/// Progress is reported this often within a phase's usual time: the lag is then known to one part in eight.
const REPORTS: u64 = 8;
/// The same where a phase has no usual time.
const REPORT_EVERY: Span = Span::from_millis(125);

/// The class of connections that became tunnels. It is added to a configuration that has none of this name.
const TUNNEL: &str = "tunnel";

/// Held, but a victim has not left yet.
const HELD: u8 = 0;
const SERVED: u8 = 1;
const EVICTED: u8 = 2;

/// A connection that may not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedConnection {
    /// Why.
    pub cause: RefuseCause,
    /// When it may try again.
    pub retry_after: Span,
}

/// What the owner of a connection and the machine tell each other.
#[derive(Debug, Default)]
pub(super) struct Cell {
    standing: Signal,
    phase: AtomicU8,
    /// The machine does not know yet that the phase was entered.
    is_unreported: AtomicBool,
    /// Since they were last reported.
    units: AtomicU64,
}

/// The table, under its lock.
pub(super) struct Connections {
    pub(super) driven: Driven<Selective>,
    cells: HashMap<u64, Arc<Cell>, foldhash::fast::RandomState>,
    is_dry_run: bool,
    would_refuse: u64,
    would_evict: u64,
}

impl Connections {
    pub(super) fn new(
        capacity: u32,
        config: &Config,
        seed: u64,
        is_dry_run: bool,
        recorder: Option<Recorder<Selective>>,
    ) -> Result<Self, ConfigError> {
        Ok(Connections {
            driven: Driven::new(
                Selective::new(capacity, with_tunnels(config))?,
                seed,
                recorder,
            ),
            cells: HashMap::default(),
            is_dry_run,
            would_refuse: 0,
            would_evict: 0,
        })
    }

    pub(super) fn reconfigure(
        &mut self,
        now: Time,
        capacity: u32,
        config: &Config,
        is_dry_run: bool,
    ) {
        self.is_dry_run = is_dry_run;
        let config = Box::new(with_tunnels(config));
        self.handle(now, Input::Reconfigure { capacity, config }, None);
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        use levee_policy::StateMachine as _;
        self.driven.machine.deadline()
    }

    pub(super) fn due(&mut self, now: Time) {
        if self.driven.due(now) {
            self.carry_out(None);
        }
    }

    /// Gives the machine an input; the refusal of `newcomer`, if that is what comes of it.
    fn handle(
        &mut self,
        now: Time,
        input: Input,
        newcomer: Option<u64>,
    ) -> Option<RefusedConnection> {
        self.driven.handle(now, input);
        self.carry_out(newcomer)
    }

    fn carry_out(&mut self, newcomer: Option<u64>) -> Option<RefusedConnection> {
        let mut refused = None;
        while let Some(output) = self.driven.next() {
            match output {
                Output::Forward { call } => {
                    if let Some(cell) = self.cells.get(&call.0) {
                        cell.standing.set(SERVED);
                    }
                }
                Output::Refuse {
                    call,
                    cause,
                    retry_after,
                } => {
                    debug_assert_eq!(Some(call.0), newcomer);
                    refused = Some(RefusedConnection { cause, retry_after });
                }
                Output::Evict { call, .. } if !self.is_dry_run => {
                    if let Some(cell) = self.cells.get(&call.0) {
                        cell.standing.set(EVICTED);
                    }
                }
                Output::Evict { .. } => self.would_evict += 1,
            }
        }
        refused
    }

    fn is_at_least(&self, (part, whole): (u64, u64)) -> bool {
        let held = u64::from(self.driven.machine.calls_held());
        held * whole >= u64::from(self.driven.machine.capacity()) * part
    }

    /// Tells the machine what it was spared while the table had room.
    fn catch_up(&mut self, now: Time) {
        let mut keys: Vec<u64> = self.cells.keys().copied().collect();
        // The order of a hash map must not decide anything.
        keys.sort_unstable();
        for key in keys {
            let Some(cell) = self.cells.get(&key) else {
                continue;
            };
            for input in cell.news(CallKey(key)) {
                self.handle(now, input, None);
            }
        }
    }

    /// How often progress in each phase is reported.
    pub(super) fn intervals(&self) -> impl Iterator<Item = Span> {
        let phases = self.driven.machine.config().phases.iter();
        phases.map(|phase| {
            phase.usual.map_or(REPORT_EVERY, |usual| {
                Span::from_nanos(usual.as_nanos() / REPORTS)
            })
        })
    }

    pub(super) fn finish_recording(&mut self) {
        self.driven.finish_recording();
    }

    pub(super) fn recording_lost(&self) -> u64 {
        self.driven.recording_lost()
    }

    pub(super) fn snapshot(&self) -> ConnectionsSnapshot {
        let machine = &self.driven.machine;
        ConnectionsSnapshot {
            capacity: machine.capacity(),
            held: machine.calls_held(),
            evicting: machine.calls_evicting(),
            queued: machine.calls_queued(),
            pmod: machine.pmod(),
            would_refuse: self.would_refuse,
            would_evict: self.would_evict,
            stats: *machine.stats(),
        }
    }
}

/// Nobody can say of a tunnel whether it is slow, so none is given up for a newcomer.
fn with_tunnels(config: &Config) -> Config {
    let mut config = config.clone();
    if config.class_id(TUNNEL).is_none() && config.classes.len() < CLASSES_MAX {
        config.classes.push(Class {
            exempt: true,
            admit: Admit::Always,
            ..Class::named(TUNNEL)
        });
    }
    config
}

impl Cell {
    /// What the machine does not know yet, in the order in which it is to know it.
    fn news(&self, call: CallKey) -> impl Iterator<Item = Input> + use<> {
        let entered = self.is_unreported.swap(false, Ordering::SeqCst);
        let phase = PhaseId(self.phase.load(Ordering::SeqCst));
        let units = self.units.swap(0, Ordering::Relaxed);
        let enter = entered.then_some(Input::Enter { call, phase });
        let progress = (units > 0).then_some(Input::Progress { call, units });
        enter.into_iter().chain(progress)
    }
}

/// How the table of connections is doing.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ConnectionsSnapshot {
    /// `k`.
    pub capacity: u32,
    /// Connections in the table.
    pub held: u32,
    /// Dropped, but not closed yet.
    pub evicting: u32,
    /// Held, but waiting for a victim to be closed.
    pub queued: u32,
    /// Arrivals at a full table in this round.
    pub pmod: u64,
    /// Refusals that a dry run did not carry out.
    pub would_refuse: u64,
    /// Evictions that a dry run did not carry out.
    pub would_evict: u64,
    /// The machine's counts.
    pub stats: Stats,
}

impl Gate {
    /// A new connection asks for its place.
    ///
    /// # Errors
    ///
    /// The table is full and nobody is dropped for it: close it.
    pub fn connect(self: &Arc<Self>, peer: IpAddr) -> Result<Place, RefusedConnection> {
        if !self.has_connections.load(Ordering::Relaxed) {
            return Ok(Place::free());
        }
        let now = self.now();
        let mut table = self.connections();
        let Some(connections) = table.as_mut() else {
            return Ok(Place::free());
        };
        connections.due(now);
        let key = self.next_key();
        let cell = Arc::new(Cell::default());
        cell.phase.store(PhaseId::HEADERS.0, Ordering::Relaxed);
        connections.cells.insert(key, Arc::clone(&cell));
        let arrival = Arrival {
            call: CallKey(key),
            phase: PhaseId::HEADERS,
            class: Default::default(),
            caller: None,
            source: Some(self.identity(peer)),
        };
        if !self.is_pressed.load(Ordering::Relaxed) && connections.is_at_least(PRESSED) {
            // First the flag, then the cells: who enters a phase meanwhile sees the one or is seen in the other.
            self.is_pressed.store(true, Ordering::SeqCst);
            connections.catch_up(now);
        }
        let refused = connections.handle(now, Input::Arrive(arrival), Some(key));
        if refused.is_some() {
            connections.cells.remove(&key);
        }
        if let (Some(_), true) = (refused, connections.is_dry_run) {
            connections.would_refuse += 1;
            return Ok(Place::free());
        }
        if connections.is_dry_run {
            cell.standing.set(SERVED);
        }
        self.arm(connections.deadline());
        match refused {
            Some(refused) => Err(refused),
            None => Ok(Place {
                table: Some((Arc::clone(self), key, cell)),
                reported: now,
            }),
        }
    }

    /// Who somebody is for limits and for the measure of fairness: nobody can choose whom to collide with. An IPv6 address counts
    /// by its /64, which one client has for itself.
    pub fn identity(&self, ip: IpAddr) -> Identity {
        use std::hash::Hasher as _;
        let mut hasher = siphasher::sip::SipHasher13::new_with_key(&self.identity_key);
        match ip.to_canonical() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()[..8]),
        }
        Identity(hasher.finish())
    }

    fn report(&self, key: u64, cell: &Cell) {
        let now = self.now();
        let mut table = self.connections();
        if let Some(connections) = table.as_mut() {
            for input in cell.news(CallKey(key)) {
                connections.handle(now, input, None);
            }
            self.arm(connections.deadline());
        }
    }
}

/// A connection's place in the table. Dropped when the connection is closed.
#[derive(Debug)]
pub struct Place {
    /// `None`: there is no table.
    pub(super) table: Option<(Arc<Gate>, u64, Arc<Cell>)>,
    pub(super) reported: Time,
}

impl Place {
    /// A place where there is no table.
    pub fn free() -> Self {
        Place {
            table: None,
            reported: Time::ZERO,
        }
    }

    /// Waits until the connection may be served: at once, unless a victim has still to leave.
    pub async fn ready(&self) {
        poll_fn(|cx| self.poll_ready(cx)).await;
    }

    /// Polls [`Self::ready`].
    pub fn poll_ready(&self, cx: &std::task::Context<'_>) -> std::task::Poll<()> {
        match &self.table {
            Some((_, _, cell)) => cell
                .standing
                .poll(cx, |standing| standing != HELD)
                .map(drop),
            None => std::task::Poll::Ready(()),
        }
    }

    /// Waits until the connection is to be closed for another.
    pub async fn evicted(&self) {
        poll_fn(|cx| self.poll_evicted(cx)).await;
    }

    /// Whether the connection is to be closed for another.
    pub fn is_evicted(&self) -> bool {
        self.table
            .as_ref()
            .is_some_and(|(_, _, cell)| cell.standing.get() == EVICTED)
    }

    /// Polls [`Self::evicted`].
    pub fn poll_evicted(&self, cx: &std::task::Context<'_>) -> std::task::Poll<()> {
        match &self.table {
            Some((_, _, cell)) => cell
                .standing
                .poll(cx, |standing| standing == EVICTED)
                .map(drop),
            None => std::task::Poll::Pending,
        }
    }

    /// The connection has become a tunnel, to its end.
    pub fn become_tunnel(&mut self) {
        let Some((gate, key, cell)) = &mut self.table else {
            return;
        };
        let now = gate.now();
        let mut table = gate.connections();
        let Some(connections) = table.as_mut() else {
            return;
        };
        let Some(class) = connections.driven.machine.config().class_id(TUNNEL) else {
            return;
        };
        // For the machine it is another connection, in the place of the old one.
        connections.cells.remove(key);
        let call = CallKey(*key);
        connections.handle(now, Input::Ended { call }, None);
        *key = gate.next_key();
        connections.cells.insert(*key, Arc::clone(cell));
        let arrival = Arrival {
            call: CallKey(*key),
            phase: PhaseId::WAITING,
            class,
            caller: None,
            source: None,
        };
        connections.handle(now, Input::Arrive(arrival), Some(*key));
        gate.arm(connections.deadline());
    }

    /// The connection enters a phase; its progress starts anew.
    pub fn enter(&mut self, phase: PhaseId) {
        self.enter_with(phase, 0);
    }

    /// The connection enters a phase, of which so many bytes have come through already.
    pub fn enter_with(&mut self, phase: PhaseId, bytes: u64) {
        let Some((gate, key, cell)) = &self.table else {
            return;
        };
        cell.units.store(bytes, Ordering::Relaxed);
        cell.phase.store(phase.0, Ordering::SeqCst);
        cell.is_unreported.store(true, Ordering::SeqCst);
        if gate.is_pressed.load(Ordering::SeqCst) {
            // A phase may begin behind, until something comes through: the first of it is reported at once.
            self.reported = if bytes > 0 { gate.now() } else { Time::ZERO };
            gate.report(*key, cell);
        }
    }

    /// So many bytes came, or were taken by the client.
    pub fn progress(&mut self, bytes: u64) {
        let Some((gate, key, cell)) = &self.table else {
            return;
        };
        cell.units.fetch_add(bytes, Ordering::Relaxed);
        if gate.is_pressed.load(Ordering::Relaxed) {
            let now = gate.now();
            let phase = usize::from(cell.phase.load(Ordering::Relaxed));
            let interval = gate
                .intervals
                .get(phase)
                .map_or(0, |interval| interval.load(Ordering::Relaxed));
            if now.since(self.reported).as_nanos() >= interval {
                self.reported = now;
                gate.report(*key, cell);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((gate, key, _)) = self.table.take() else {
            return;
        };
        let now = gate.now();
        let mut table = gate.connections();
        let Some(connections) = table.as_mut() else {
            return;
        };
        connections.cells.remove(&key);
        connections.handle(now, Input::Ended { call: CallKey(key) }, None);
        if !connections.is_at_least(RELIEVED) {
            gate.is_pressed.store(false, Ordering::SeqCst);
        }
        gate.arm(connections.deadline());
    }
}
