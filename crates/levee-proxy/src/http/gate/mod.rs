//! The gate: the one owner of a front's decisions, the thinner's about requests and SeVen's about connections.
//!
//! A front has one gate and all its workers ask it. Each machine stands behind a lock that is held for plain function calls and
//! never across an `await`; below capacity a request takes it twice, allocates nothing, and is neither changed nor delayed.
//! What a machine orders for the request of another worker goes into that one's own cell, and wakes its task.
//!
//! ```text
//! connection ── connect ──> Place ── enter, progress, evicted ── drop
//! request ───── ask ──────> Admit(Permit) ── done
//!                     ├───> Refuse(Refusal) ── pages::refusal
//!                     └───> Wait(Waiting) ── await ──> Permit or Refusal; drop: its client has left
//! payment ───── pay ──────> PayMeter ── paid, closed ── finish
//! ```
//!
//! Nothing is keyed by a client's address but the measure of fairness, so many clients behind one address are many clients.
//!
//! # What it leaves out
//!
//! Reading and writing, which are the front's, and what a refused client is shown ([`pages`]).

mod connections;
mod driven;
mod facts;
mod payment;
mod permit;
mod requests;
mod signal;

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use levee_policy::selective::{PHASES_MAX, Selective};
use levee_policy::thinner::{Mode, Outcome, Thinner};
use levee_policy::{ConfigError, Span, Time};
use serde::Serialize;
use tokio::sync::Notify;

pub use self::connections::{ConnectionsSnapshot, Place, RefusedConnection};
pub use self::driven::Recordings;
pub use self::facts::{Client, RequestFacts};
pub use self::payment::PayMeter;
pub use self::permit::{Order, Permit, Waiting};
pub use self::requests::{CLAIM_HOLD, PaymentCounts, RequestsSnapshot, TicketCounts};

use self::connections::Connections;
use self::requests::{Asking, Reply, Requests, Verdict};
use super::pages::{self, Answer, Cause, Look, PAY_PATH, Refusal, WAIT_PATH};
use super::settings::HttpSettings;
use super::ticket::{BadTicket, Ticket, Tickets};
use crate::recorder::Recorder;

/// Why there is no gate, or it does not go on with new settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The thinner does not take its configuration.
    #[error("`defense` cannot be run")]
    Defense(#[source] ConfigError),
    /// The table of connections does not take its configuration.
    #[error("`connections.defense` cannot be run")]
    Connections(#[source] ConfigError),
    /// Tickets could be guessed.
    #[error("the system gives no random numbers for the key of the tickets")]
    Random(#[source] getrandom::Error),
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Asked {
    /// It may pass.
    Admit(Permit),
    /// It is turned away.
    Refuse(Refusal),
    /// It is to wait. What it has sent of a body stays unread until then.
    Wait(Waiting),
}

/// The owner of a front's decisions.
pub struct Gate {
    start: Instant,
    tickets: Tickets,
    identity_key: [u8; 16],
    seed: u64,
    next_key: AtomicU64,
    is_bypass: bool,
    /// Whether there is a thinner: to be seen without the lock.
    has_requests: AtomicBool,
    requests: Mutex<Option<Requests>>,
    has_connections: AtomicBool,
    connections: Mutex<Option<Connections>>,
    /// Whether the table of connections is about to be full.
    is_pressed: AtomicBool,
    /// How often progress in each phase is reported, in nanoseconds.
    intervals: [AtomicU64; PHASES_MAX],
    /// Payment channels that are open, and how many may be.
    channels: AtomicUsize,
    channels_max: AtomicUsize,
    post_bytes: AtomicU64,
    /// When the timer will look again, in nanoseconds; the largest number for never.
    armed: AtomicU64,
    rearm: Notify,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate with these settings; `seed` is that of the machines' draws, [`HttpSettings::seed`] once it is drawn.
    ///
    /// # Errors
    ///
    /// A defence does not take its configuration.
    pub fn new(
        settings: &HttpSettings,
        seed: u64,
        recordings: Recordings,
    ) -> Result<Arc<Self>, GateError> {
        let mut keys = [0; 32];
        getrandom::fill(&mut keys).map_err(GateError::Random)?;
        let (mut ticket_key, mut identity_key) = ([0; 16], [0; 16]);
        ticket_key.copy_from_slice(&keys[..16]);
        identity_key.copy_from_slice(&keys[16..]);
        let gate = Gate {
            start: Instant::now(),
            tickets: Tickets::new(ticket_key),
            identity_key,
            seed,
            next_key: AtomicU64::new(1),
            is_bypass: settings.bypass,
            has_requests: AtomicBool::new(false),
            requests: Mutex::new(None),
            has_connections: AtomicBool::new(false),
            connections: Mutex::new(None),
            is_pressed: AtomicBool::new(false),
            intervals: Default::default(),
            channels: AtomicUsize::new(0),
            channels_max: AtomicUsize::new(0),
            post_bytes: AtomicU64::new(0),
            armed: AtomicU64::new(u64::MAX),
            rearm: Notify::new(),
        };
        gate.set(settings, recordings)?;
        Ok(Arc::new(gate))
    }

    /// Goes on with these settings. Who waits and who is in service stays so; where there is no thinner any more, who waited passes.
    ///
    /// # Errors
    ///
    /// A defence does not take its configuration: nothing has changed.
    pub fn reload(&self, settings: &HttpSettings) -> Result<(), GateError> {
        self.set(settings, Recordings::default())
    }

    /// Whether a gate can run with these settings.
    ///
    /// # Errors
    ///
    /// A defence does not take its configuration.
    pub fn check(settings: &HttpSettings) -> Result<(), GateError> {
        if let Some(config) = &settings.defense {
            Thinner::check(config).map_err(GateError::Defense)?;
        }
        if let Some(table) = &settings.connections {
            Selective::check(table.capacity, &table.defense).map_err(GateError::Connections)?;
        }
        Ok(())
    }

    fn set(&self, settings: &HttpSettings, recordings: Recordings) -> Result<(), GateError> {
        Self::check(settings)?;
        let payment = &settings.payment;
        // Payment holds no more than half of the connections, so that requests always find one.
        let channels_max = (settings.limits.connections_max / 2).max(1);
        self.channels_max.store(channels_max, Ordering::Relaxed);
        self.post_bytes.store(payment.post_bytes, Ordering::Relaxed);
        if self.is_bypass {
            return Ok(());
        }
        let now = self.now();
        let mut requests = self.requests();
        match (requests.as_mut(), &settings.defense) {
            (Some(requests), Some(config)) => requests.reconfigure(now, config),
            (None, Some(config)) => {
                let new =
                    Requests::new(config, self.tickets.clone(), self.seed, recordings.requests);
                *requests = Some(new.map_err(GateError::Defense)?);
            }
            (Some(old), None) => {
                old.close();
                *requests = None;
            }
            (None, None) => {}
        }
        if let Some(requests) = requests.as_mut() {
            requests.set(
                &settings.protect,
                settings.dry_run,
                payment.bytes_per_second_max,
            );
            self.arm(requests.deadline());
        }
        self.has_requests
            .store(requests.is_some(), Ordering::Relaxed);
        drop(requests);
        self.set_connections(settings, recordings.connections)
    }

    fn set_connections(
        &self,
        settings: &HttpSettings,
        recording: Option<Recorder<Selective>>,
    ) -> Result<(), GateError> {
        let now = self.now();
        let mut connections = self.connections();
        match (connections.as_mut(), &settings.connections) {
            (Some(table), Some(new)) => {
                table.reconfigure(now, new.capacity, &new.defense, settings.dry_run);
            }
            (None, Some(new)) => {
                let table = Connections::new(
                    new.capacity,
                    &new.defense,
                    self.seed,
                    settings.dry_run,
                    recording,
                );
                *connections = Some(table.map_err(GateError::Connections)?);
            }
            // Who is in it stays open; nobody is asked any more.
            (Some(_), None) => *connections = None,
            (None, None) => {}
        }
        if let Some(table) = connections.as_ref() {
            for (slot, interval) in self.intervals.iter().zip(table.intervals()) {
                slot.store(interval.as_nanos(), Ordering::Relaxed);
            }
            self.arm(table.deadline());
        } else {
            self.is_pressed.store(false, Ordering::SeqCst);
        }
        self.has_connections
            .store(connections.is_some(), Ordering::Relaxed);
        Ok(())
    }

    /// Whether there is a thinner to be asked; if not, its paths and fields are the server's as all others.
    pub fn asks(&self) -> bool {
        self.has_requests.load(Ordering::Relaxed)
    }

    /// A request asks to pass. `client` is whom it is counted to where fairness is measured.
    pub fn ask(self: &Arc<Self>, facts: &RequestFacts<'_>, client: Option<IpAddr>) -> Asked {
        if !self.has_requests.load(Ordering::Relaxed) {
            return Asked::Admit(Permit::free());
        }
        let now = self.now();
        let opened = facts.ticket().map(|text| self.tickets.open(text, now));
        let proved = match (facts.proof(), facts.ticket()) {
            (Some(nonce), Some(ticket)) => pages::hashes_of(ticket, nonce),
            _ => 0,
        };
        let group = client.map(|ip| self.identity(ip));
        let mut guard = self.requests();
        let Some(requests) = guard.as_mut() else {
            return Asked::Admit(Permit::free());
        };
        if !facts.is_wait() && !requests.protects(facts.path()) {
            return Asked::Admit(Permit::free());
        }
        note_ticket(&mut requests.ticket_counts, opened);
        let ticket = opened.and_then(Result::ok);
        if facts.is_wait() {
            let is_won = ticket.is_some_and(|ticket| requests.is_parked(ticket.id));
            let is_spent = ticket.is_none_or(|ticket| requests.is_spent(ticket.id));
            if is_won || is_spent {
                return self.not_waiting(facts, requests.mode, ticket.filter(|_| is_won), now);
            }
        } else if let Some(admitted) =
            requests.claim(now, facts.ticket().into_iter().chain(facts.claims()))
        {
            return Asked::Admit(Permit::new(self, admitted, false));
        }
        let asking = Asking {
            fresh: self.next_key(),
            ticket,
            is_exhausted: opened == Some(Err(BadTicket::Exhausted)),
            proved,
            can_wait: can_wait(facts, requests.mode),
            group,
            bytes: facts.bytes,
        };
        let reply = requests.ask(now, asking);
        self.arm(requests.deadline());
        drop(guard);
        match reply {
            Reply::Now(Verdict::Admit(admitted)) => {
                Asked::Admit(Permit::new(self, admitted, false))
            }
            Reply::Now(Verdict::Refuse(refusal)) => Asked::Refuse(refusal),
            Reply::Later(key, generation, verdict) => {
                Asked::Wait(Waiting::new(self, key, generation, verdict))
            }
            Reply::Shadow(key) => Asked::Admit(Permit::shadow(self, key)),
            Reply::Pass => Asked::Admit(Permit::free()),
        }
    }

    /// Who waits for a ticket's place that is won already is told so again; who has no good ticket has no place.
    fn not_waiting(
        &self,
        facts: &RequestFacts<'_>,
        mode: Mode,
        won: Option<Ticket>,
        now: Time,
    ) -> Asked {
        if won.is_some() {
            return Asked::Admit(Permit::free());
        }
        let ticket = Ticket {
            id: self.next_key(),
            born: now,
            mode,
            tries: 0,
            paid: 0,
        };
        debug_assert!(facts.is_wait());
        Asked::Refuse(Refusal {
            cause: Cause::NoTicket,
            mode,
            retry_after: Span::ZERO,
            price: 0,
            paid: 0,
            tries: 0,
            place: 0,
            ticket: self.tickets.seal(&ticket),
        })
    }

    /// The answer to a request that [`RequestFacts::is_wait`] and was admitted: its place is kept for the page's reload, for
    /// [`CLAIM_HOLD`].
    pub fn park(&self, facts: &RequestFacts<'_>, permit: Permit) -> Answer {
        let now = self.now();
        let ticket = facts
            .ticket()
            .and_then(|text| self.tickets.open(text, now).ok());
        let Some(ticket) = ticket else {
            // Without a thinner everybody passes.
            return pages::claimed(0, &self.tickets.seal(&self.blank(now)), CLAIM_HOLD);
        };
        if let Some(admitted) = permit.into_admitted() {
            let mut requests = self.requests();
            if let Some(requests) = requests.as_mut() {
                requests.park(now, admitted);
                self.arm(requests.deadline());
            }
        }
        pages::claimed(ticket.id, &self.tickets.seal(&ticket), CLAIM_HOLD)
    }

    fn blank(&self, now: Time) -> Ticket {
        Ticket {
            id: 0,
            born: now,
            mode: Mode::Random,
            tries: 0,
            paid: 0,
        }
    }

    /// The answer to a request that was turned away.
    pub fn answer(&self, facts: &RequestFacts<'_>, refusal: &Refusal) -> Answer {
        let post_bytes = self.post_bytes.load(Ordering::Relaxed);
        pages::refusal(facts, refusal, Look { post_bytes })
    }

    /// Does what comes due by time alone, until the gate is gone. One worker runs it.
    pub async fn run(gate: Weak<Self>) {
        loop {
            let Some(this) = gate.upgrade() else {
                return;
            };
            this.due();
            let at = this.armed.load(Ordering::SeqCst);
            let until = this.start + Duration::from_nanos(at.min(u64::MAX / 2));
            let rearm = this.rearm.notified();
            // Once an hour, to see that the gate is gone.
            let until = until.min(Instant::now() + Duration::from_secs(3_600));
            tokio::select! {
                () = tokio::time::sleep_until(until.into()) => {}
                () = rearm => {}
            }
        }
    }

    /// Lets [`Self::run`] end, and writes the recordings to their end.
    pub fn stop(&self) {
        self.rearm.notify_one();
        if let Some(requests) = self.requests().as_mut() {
            requests.finish_recording();
        }
        if let Some(connections) = self.connections().as_mut() {
            connections.finish_recording();
        }
    }

    fn due(&self) {
        let now = self.now();
        self.armed.store(u64::MAX, Ordering::SeqCst);
        if let Some(requests) = self.requests().as_mut() {
            requests.due(now);
            self.arm_now(requests.deadline());
        }
        if let Some(connections) = self.connections().as_mut() {
            connections.due(now);
            self.arm_now(connections.deadline());
        }
    }

    fn arm_now(&self, deadline: Option<Time>) -> bool {
        let at = deadline.map_or(u64::MAX, Time::as_nanos);
        self.armed.fetch_min(at, Ordering::SeqCst) > at
    }

    /// The timer must look at this time, if it does not before.
    fn arm(&self, deadline: Option<Time>) {
        if self.arm_now(deadline) {
            self.rearm.notify_one();
        }
    }

    /// How it is doing.
    pub fn snapshot(&self) -> GateSnapshot {
        let mut snapshot = GateSnapshot {
            channels: self.channels.load(Ordering::Relaxed),
            is_pressed: self.is_pressed.load(Ordering::Relaxed),
            ..GateSnapshot::default()
        };
        if let Some(requests) = self.requests().as_ref() {
            snapshot.requests = Some(requests.snapshot());
            snapshot.recording_lost += requests.recording_lost();
        }
        if let Some(connections) = self.connections().as_ref() {
            snapshot.connections = Some(connections.snapshot());
            snapshot.recording_lost += connections.recording_lost();
        }
        snapshot
    }

    fn done(&self, key: u64, is_shadow: bool, outcome: Outcome) {
        let now = self.now();
        if let Some(requests) = self.requests().as_mut() {
            if is_shadow {
                requests.shadow_done(now, key, outcome);
            } else {
                requests.done(now, key, outcome);
            }
            self.arm(requests.deadline());
        }
    }

    fn leave(&self, key: u64, generation: u32) {
        let now = self.now();
        if let Some(requests) = self.requests().as_mut() {
            requests.leave(now, key, generation);
            self.arm(requests.deadline());
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn next_key(&self) -> u64 {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    fn requests(&self) -> MutexGuard<'_, Option<Requests>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> MutexGuard<'_, Option<Connections>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn note_ticket(counts: &mut TicketCounts, opened: Option<Result<Ticket, BadTicket>>) {
    match opened {
        None | Some(Ok(_)) => {}
        Some(Err(BadTicket::Forged)) => counts.forged += 1,
        Some(Err(BadTicket::Exhausted)) => counts.exhausted += 1,
        Some(Err(BadTicket::Stale)) => counts.stale += 1,
    }
}

/// Whether a request without a ticket may wait. One that can come again is told the price at once, where there is something
/// to pay; a part of a page cannot pay, and what is not safe to repeat is better held than sent back.
fn can_wait(facts: &RequestFacts<'_>, mode: Mode) -> bool {
    mode == Mode::Queue || !facts.is_safe() || facts.client() == Client::Part
}

impl RequestFacts<'_> {
    /// Whether it waits for the place of its ticket: a page's script does.
    pub fn is_wait(&self) -> bool {
        self.path() == WAIT_PATH.as_bytes()
    }

    /// Whether it brings payment: for [`Gate::pay`].
    pub fn is_pay(&self) -> bool {
        self.path() == PAY_PATH.as_bytes()
    }
}

/// How a gate is doing.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GateSnapshot {
    /// The thinner; `None` if there is none.
    pub requests: Option<RequestsSnapshot>,
    /// Payment channels that are open, or wait for their request.
    pub channels: usize,
    /// The table of connections; `None` if there is none.
    pub connections: Option<ConnectionsSnapshot>,
    /// Whether that table is about to be full, so that its connections report all they do.
    pub is_pressed: bool,
    /// Inputs and outputs of the two that no recording holds.
    pub recording_lost: u64,
}

#[cfg(test)]
mod tests;
