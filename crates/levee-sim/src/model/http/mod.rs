//! Slow HTTP attacks on a server of `k` connections: Slowloris, slow POST, slow read, and floods; SeVen over connections or
//! the timeouts of web servers against them.
//!
//! After the authors' earlier models of HTTP (get-flood, get-pragma and post). Those have a buffer of `k` connections that
//! is swapped at random and answered at the end of each round; here [`Selective`] stands in front, the code of the live
//! front, and the server works as long on a request as it takes.
//!
//! # The actors
//!
//! - A *client* connects (three ways through the network: SYN, SYN-ACK, ACK), sends headers and body at its bandwidth, waits
//!   for the server, reads the response at its bandwidth, and leaves. One request a connection.
//! - An *attacker* does as its [`AttackKind`] says, as long as it is let.
//! - The *server* has `k` places. A connection takes one from the accept until the rest of its response fits into the
//!   kernel's send buffer. At a full server connections wait in the kernel's backlog, or are refused. It cuts connections by
//!   its [`Timeouts`].
//! - The *front*, if there is a defence, holds the clients' connections in the server's stead: it asks the policy about each new
//!   one, passes it on, refuses it, or drops one for it. A dropped connection's place is free at once.
//!
//! # The policy's words
//!
//! A connection is a call: `Arrive` when it is accepted, `Answered` when its request is complete (or at once: [`InCall`]),
//! `Ended` when it leaves its place. So WAITING is reading headers or body, INCALL is working and sending. `t` of the drop factor
//! runs from the accept; `mean_call` is the mean of an honest connection ([`Setup::mean_connection`]).
//!
//! A policy with phases ([`phases_of_http`](selective::phases_of_http)) hears `Enter` besides: headers from the accept, body, waiting when the
//! request is complete, sending when more of the response is there than the kernel takes. And it hears `Progress`: of each piece
//! of the request that comes, and of the response that the client takes beyond the first buffer.
//!
//! # What it does not model
//!
//! - Packets, loss, slow start, windows: a piece of [`Setup::segment`] bytes takes its time at the client's bandwidth. Clients do
//!   not share a bottleneck. Bytes on their way to a connection that has just been closed are not counted.
//! - Processors: the server works on all its `k` connections at once, and as fast on each as on one.
//! - Keep-alive, pipelining, HTTP/2, TLS; what a response says; a `Retry-After` (clients wait their own time).
//! - The way from the front to the server: a place at the front is one at the server.
//! - A lingering close: the place is free when the kernel has the rest of the response.
//! - A client that gives up in the backlog keeps its position there until it gets to the front, as in a kernel.

mod client;
mod observe;
mod setup;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use levee_policy::selective::{
    self, Arrival, CallKey, Identity, Input, Output, PhaseId, Selective,
};
use levee_policy::{Span, StateMachine as _, Time};
use rand_core::Rng as _;
use rand_pcg::Pcg64;

use self::client::{Client, Stage};
use self::observe::Counts;
pub use self::setup::{
    ATTACKERS_MAX, Attack, AttackKind, Bandwidth, Clients, Deadline, Drip, Fixed, InCall,
    PAUSE_MIN, Phases, Setup, SetupError, Slow, Timeouts,
};
use self::setup::{span, transfer};
use crate::engine::{ActorId, Model, Scheduler, Streams};
use crate::schedule::{self, Kind, Schedule};

/// Clients, attackers, front and server share one mailbox: who is meant follows from the message.
const ALL: ActorId = ActorId(0);

/// One try of one client or attacker; void when the client has gone on to another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    client: u32,
    number: u32,
}

impl Try {
    fn key(self) -> CallKey {
        CallKey(u64::from(self.number) << 32 | u64::from(self.client))
    }

    fn of(key: CallKey) -> Self {
        Self {
            client: key.0 as u32,
            number: (key.0 >> 32) as u32,
        }
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The next client or attacker of the plan begins.
    Begin,
    /// It begins once more.
    Again(Try),
    /// A connection reaches front or server.
    Connect(Try),
    /// The next piece of a request arrives.
    Piece(Try),
    /// The server has a response.
    Worked(Try),
    /// The client has taken the next piece of its response.
    Taken(Try),
    /// The client has all of it.
    Complete(Try),
    /// A timeout may be due.
    Check(Try),
    /// The client's patience is over.
    GiveUp(Try),
    /// The policy's deadline.
    Deadline,
}

/// How a try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Refused,
    Dropped,
    TimedOut,
    GaveUp,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Http {
    setup: Setup,
    front: Option<Selective>,
    /// Those of the policy, if it weighs connections by phase.
    phases: Option<Phases>,
    /// What the policy is to be told, in order.
    inputs: VecDeque<Input>,
    /// When a [`Message::Deadline`] is under way for; the last instant if none is.
    deadline_at: Time,
    policy_rng: Pcg64,
    clients_rng: Pcg64,
    attackers_rng: Pcg64,
    schedule: Schedule,
    next: Option<schedule::Arrival>,
    clients: Vec<Client>,
    free: Vec<u32>,
    backlog: VecDeque<Try>,
    busy: u32,
    busy_by: [u32; 2],
    counts: Counts,
    served_s: Vec<f64>,
}

impl Http {
    /// The model before run 0.
    ///
    /// # Errors
    ///
    /// What [`Setup::check`] finds.
    pub fn new(setup: Setup) -> Result<Self, SetupError> {
        setup.check()?;
        let streams = Streams::new(setup.plan.seed, 0);
        let front = setup.defense.clone();
        let front = front.map(|config| Selective::new(setup.capacity, config));
        Ok(Self {
            phases: setup.phases(),
            front: front.transpose()?,
            inputs: VecDeque::new(),
            deadline_at: Time::MAX,
            policy_rng: streams.stream("policy"),
            clients_rng: streams.stream("clients"),
            attackers_rng: streams.stream("attackers"),
            schedule: setup.plan.schedule(),
            next: None,
            clients: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            busy: 0,
            busy_by: [0; 2],
            counts: Counts::default(),
            served_s: Vec::new(),
            setup,
        })
    }

    /// Goes back to the start, for run `run`. Nothing is allocated but what a larger run needs.
    pub fn restart(&mut self, run: u64) {
        let streams = Streams::new(self.setup.plan.seed, run);
        self.policy_rng = streams.stream("policy");
        self.clients_rng = streams.stream("clients");
        self.attackers_rng = streams.stream("attackers");
        self.schedule = self.setup.plan.schedule_of(run);
        self.next = None;
        if let Some(front) = &mut self.front {
            front.restart();
        }
        self.inputs.clear();
        self.deadline_at = Time::MAX;
        self.clients.clear();
        self.free.clear();
        self.backlog.clear();
        self.busy = 0;
        self.busy_by = [0; 2];
        self.counts = Counts::default();
        self.served_s.clear();
    }

    /// What is simulated.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// When its runs are over: the horizon of the [`Simulation`](crate::engine::Simulation).
    #[must_use]
    pub fn end(&self) -> Time {
        Time::ZERO + span(self.setup.plan.until)
    }

    /// The client of a try that is still on.
    fn on(&self, this: Try) -> Option<&Client> {
        Some(&self.clients[this.client as usize])
            .filter(|client| client.number == this.number && client.stage != Stage::Away)
    }

    fn client(&mut self, this: Try) -> &mut Client {
        &mut self.clients[this.client as usize]
    }

    fn enlist(&mut self, client: Client) -> Try {
        if let Some(index) = self.free.pop() {
            let record = &mut self.clients[index as usize];
            let number = record.number;
            *record = Client { number, ..client };
            Try {
                client: index,
                number,
            }
        } else {
            self.clients.push(client);
            Try {
                client: (self.clients.len() - 1) as u32,
                number: 0,
            }
        }
    }

    /// The tries before this one are void.
    fn next_try(&mut self, of: Try) -> Try {
        let client = self.client(of);
        client.number = client.number.wrapping_add(1);
        client.stage = Stage::Away;
        client.check_at = Time::MAX;
        Try {
            number: client.number,
            ..of
        }
    }

    fn begin_next(&mut self, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        if let Some(arrival) = self.next.take() {
            let slow = match (arrival.kind, self.setup.clients.slow) {
                (Kind::Honest, Some(slow)) => unit(&mut self.clients_rng) < slow.share,
                _ => false,
            };
            let work = match arrival.kind {
                Kind::Honest => arrival.wanted.map_or(Span::ZERO, span),
                Kind::Attacker => self.setup.attack.service,
            };
            let client = Client {
                slow,
                work,
                source: arrival.caller,
                counted: now >= Time::ZERO + self.setup.warmup,
                retries: self.setup.clients.retries,
                ..Client::new(arrival.kind, now)
            };
            let this = self.enlist(client);
            if arrival.kind == Kind::Honest {
                let counted = self.client(this).counted;
                self.counts.attempted += u64::from(counted);
            }
            self.connect(this, scheduler);
        }
        self.next = self.schedule.next();
        if let Some(arrival) = &self.next {
            let at = Time::ZERO + span(arrival.at);
            scheduler.after(at - now, ALL, Message::Begin);
        }
    }

    /// Sends a SYN.
    fn connect(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        let delay = self.setup.delay.as_nanos();
        scheduler.after(
            Span::from_nanos(delay.saturating_mul(3)),
            ALL,
            Message::Connect(this),
        );
        let client = self.client(this);
        if client.kind == Kind::Attacker {
            self.counts.attackers.attempted += 1;
            return;
        }
        self.counts.tries += u64::from(client.counted);
        if let Some(patience) = self.setup.clients.patience {
            scheduler.after(patience + self.setup.delay, ALL, Message::GiveUp(this));
        }
    }

    fn connected(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        let client = self.client(this);
        if client.number != this.number {
            return;
        }
        client.stage = Stage::Headers;
        client.bytes = 0;
        // Attackers have addresses of their own.
        let source = u64::from(client.source) << 1 | client.kind.index() as u64;
        if self.front.is_some() {
            self.client(this).known = true;
            self.inputs.push_back(Input::Arrive(Arrival {
                call: this.key(),
                class: selective::ClassId::DEFAULT,
                phase: self
                    .phases
                    .map_or_else(Default::default, |phases| phases.headers),
                caller: None,
                source: Some(Identity(source)),
            }));
            self.drive(scheduler);
        } else {
            self.offer(this, scheduler);
        }
        if self.on(this).is_some() {
            self.await_piece(this, scheduler);
        }
    }

    /// A connection asks the server for a place.
    fn offer(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        if self.busy < self.setup.capacity {
            self.place(this, scheduler);
        } else if self.backlog.len() < self.setup.backlog as usize {
            self.backlog.push_back(this);
        } else {
            self.fail(this, Failure::Refused, scheduler);
        }
    }

    /// The server accepts a connection.
    fn place(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        self.counts
            .account(now, self.busy, self.busy_by, self.setup.warmup);
        self.busy += 1;
        if self.busy == self.setup.capacity {
            self.counts.filled.get_or_insert(now);
        }
        let client = &mut self.clients[this.client as usize];
        client.placed = true;
        client.since = now;
        client.progress = now;
        let ready = client.stage == Stage::Ready;
        self.busy_by[client.kind.index()] += 1;
        if self.setup.in_call == InCall::Accept {
            self.tell(Input::Answered { call: this.key() });
        }
        if ready {
            self.work(this, scheduler);
        } else {
            self.watch(this, scheduler);
        }
    }

    fn work(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        if self.setup.in_call == InCall::Request {
            self.tell(Input::Answered { call: this.key() });
        }
        let client = self.client(this);
        client.stage = Stage::Working;
        scheduler.after(client.work, ALL, Message::Worked(this));
    }

    /// Leaves its place, the backlog or the front's table.
    fn leave(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        let client = &mut self.clients[this.client as usize];
        let kind = client.kind;
        let placed = std::mem::take(&mut client.placed);
        if std::mem::take(&mut client.known) {
            self.tell(Input::Ended { call: this.key() });
        }
        if !placed {
            return;
        }
        self.counts
            .account(scheduler.now(), self.busy, self.busy_by, self.setup.warmup);
        self.busy -= 1;
        self.busy_by[kind.index()] -= 1;
        while self.busy < self.setup.capacity
            && let Some(first) = self.backlog.pop_front()
        {
            if self.on(first).is_some() {
                self.place(first, scheduler);
            }
        }
    }

    /// A try is over without a response.
    fn fail(&mut self, this: Try, how: Failure, scheduler: &mut Scheduler<Message>) {
        let next = self.next_try(this);
        self.leave(this, scheduler);
        let setup = &self.setup;
        let client = &mut self.clients[this.client as usize];
        let counts = match client.kind {
            Kind::Attacker => &mut self.counts.attackers.failed,
            Kind::Honest => &mut self.counts.clients_failed,
        };
        match client.kind {
            Kind::Attacker => counts.note(how),
            Kind::Honest if client.retries > 0 => {
                client.retries -= 1;
                scheduler.after(setup.retry_after(how), ALL, Message::Again(next));
                return;
            }
            Kind::Honest if client.counted => counts.note(how),
            Kind::Honest => {}
        }
        self.redial_or_go(next, scheduler);
    }

    /// An attacker whose connection is over comes again; anyone else is gone.
    fn redial_or_go(&mut self, next: Try, scheduler: &mut Scheduler<Message>) {
        let kind = self.client(next).kind;
        match self.setup.attack.redial {
            Some(pause) if kind == Kind::Attacker => {
                scheduler.after(self.setup.delay + pause, ALL, Message::Again(next));
            }
            _ => self.free.push(next.client),
        }
    }

    fn again(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        if self.client(this).number == this.number {
            self.connect(this, scheduler);
        }
    }

    /// The next piece of the request comes when its client has sent it.
    fn await_piece(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        let client = &self.clients[this.client as usize];
        if let Some((_, after)) = self.setup.piece_up(client) {
            scheduler.after(after, ALL, Message::Piece(this));
        }
    }

    fn piece(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        let Some(client) = self.on(this) else { return };
        let Some((bytes, _)) = self.setup.piece_up(client) else {
            return;
        };
        let whole = self.setup.stage_bytes(client);
        let body = self.setup.body_bytes(client);
        let now = scheduler.now();
        let client = &mut self.clients[this.client as usize];
        self.counts.up(client.kind, bytes);
        client.bytes += bytes;
        client.progress = now;
        self.report_progress(this, bytes);
        let client = &mut self.clients[this.client as usize];
        if client.bytes < whole {
            self.await_piece(this, scheduler);
        } else if client.stage == Stage::Headers && body > 0 {
            client.stage = Stage::Body;
            client.bytes = 0;
            client.since = now;
            self.enter(this, |phases| phases.body);
            self.watch(this, scheduler);
            self.await_piece(this, scheduler);
        } else {
            client.stage = Stage::Ready;
            let placed = client.placed;
            self.enter(this, |phases| phases.waiting);
            if placed {
                self.work(this, scheduler);
            }
        }
    }

    /// The response is there: it goes to the kernel as far as that takes it.
    fn worked(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        if self.on(this).is_none() {
            return;
        }
        let now = scheduler.now();
        let client = self.client(this);
        client.stage = Stage::Sending;
        client.bytes = 0;
        client.since = now;
        client.progress = now;
        // The first piece is known to be taken when the word of it has come back.
        let way = Span::from_nanos(self.setup.delay.as_nanos().saturating_mul(2));
        if !self.hand_over(this, scheduler) {
            self.enter(this, |phases| phases.sending);
            self.watch(this, scheduler);
            self.await_taken(this, way, scheduler);
        }
    }

    fn await_taken(&mut self, this: Try, way: Span, scheduler: &mut Scheduler<Message>) {
        let client = &self.clients[this.client as usize];
        let (_, after) = self.setup.piece_down(client);
        scheduler.after(way + after, ALL, Message::Taken(this));
    }

    fn taken(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        let Some(client) = self.on(this) else { return };
        let (bytes, _) = self.setup.piece_down(client);
        self.counts.down(client.kind, bytes);
        let now = scheduler.now();
        let client = self.client(this);
        client.bytes += bytes;
        client.progress = now;
        self.report_progress(this, bytes);
        if !self.hand_over(this, scheduler) {
            self.await_taken(this, Span::ZERO, scheduler);
        }
    }

    /// When the kernel has the rest of a response, the place is free. False if it cannot take it yet.
    fn hand_over(&mut self, this: Try, scheduler: &mut Scheduler<Message>) -> bool {
        let client = &self.clients[this.client as usize];
        let rest = self.setup.response_bytes(client) - client.bytes;
        if rest > u64::from(self.setup.send_buffer) {
            return false;
        }
        self.counts.down(client.kind, rest);
        let flowing = client.bytes > 0;
        let reading = transfer(rest, self.setup.bandwidth(client).down);
        self.client(this).stage = Stage::Tail;
        self.leave(this, scheduler);
        // A piece that was reported taken was taken one way earlier, and the rest has been flowing since.
        let delay = self.setup.delay;
        let left = if flowing {
            reading.saturating_sub(delay)
        } else {
            reading + delay
        };
        scheduler.after(left, ALL, Message::Complete(this));
        true
    }

    fn complete(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        let Some(client) = self.on(this) else { return };
        let (kind, counted, began) = (client.kind, client.counted, client.began);
        match kind {
            Kind::Attacker => self.counts.attackers.served += 1,
            Kind::Honest if counted => {
                let took = (scheduler.now() - began).as_secs_f64();
                self.counts.served += 1;
                self.counts.served_s += took;
                self.served_s.push(took);
            }
            Kind::Honest => {}
        }
        let next = self.next_try(this);
        self.redial_or_go(next, scheduler);
    }

    /// Sees to it that a timeout that begins to run is looked at when it is due.
    fn watch(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        let client = &mut self.clients[this.client as usize];
        let Some(due) = self.setup.timeouts.due(client) else {
            return;
        };
        // One that was due later needs no word of its own: it is found again from this one.
        if due < client.check_at {
            client.check_at = due;
            scheduler.after(due - scheduler.now(), ALL, Message::Check(this));
        }
    }

    fn check(&mut self, this: Try, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        let Some(client) = self.on(this).filter(|client| client.check_at == now) else {
            return;
        };
        let due = self.setup.timeouts.due(client);
        self.client(this).check_at = Time::MAX;
        match due {
            Some(due) if due <= now => self.fail(this, Failure::TimedOut, scheduler),
            _ => self.watch(this, scheduler),
        }
    }

    /// A connection begins a phase.
    fn enter(&mut self, this: Try, phase: impl Fn(Phases) -> PhaseId) {
        if let Some(phases) = self.phases {
            let (call, phase) = (this.key(), phase(phases));
            self.inputs.push_back(Input::Enter { call, phase });
        }
    }

    /// Bytes of a request came, or the client took bytes of a response.
    fn report_progress(&mut self, this: Try, units: u64) {
        if self.phases.is_some() {
            let call = this.key();
            self.inputs.push_back(Input::Progress { call, units });
        }
    }

    /// What the policy is to hear, if there is one.
    fn tell(&mut self, input: Input) {
        if self.front.is_some() {
            self.inputs.push_back(input);
        }
    }

    /// Tells the policy what it is to hear, and does what it says.
    fn drive(&mut self, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        while let Some(input) = self.inputs.pop_front() {
            if let Some(front) = &mut self.front {
                front.handle(now, input, &mut self.policy_rng);
            }
            self.carry_out(scheduler);
        }
        let deadline = self.front.as_ref().and_then(Selective::deadline);
        if let Some(at) = deadline.filter(|at| *at < self.deadline_at) {
            self.deadline_at = at;
            scheduler.after(at - now, ALL, Message::Deadline);
        }
    }

    fn carry_out(&mut self, scheduler: &mut Scheduler<Message>) {
        while let Some(output) = self.front.as_mut().and_then(Selective::poll_output) {
            let (Output::Forward { call }
            | Output::Refuse { call, .. }
            | Output::Evict { call, .. }) = output;
            let this = Try::of(call);
            // What has just ended by itself may still be told off by a policy that has not heard of it yet.
            if !self.on(this).is_some_and(|client| client.known) {
                continue;
            }
            match output {
                Output::Forward { .. } => self.offer(this, scheduler),
                Output::Refuse { .. } => {
                    self.client(this).known = false;
                    self.fail(this, Failure::Refused, scheduler);
                }
                Output::Evict { forwarded, .. } => {
                    self.client(this).known = forwarded;
                    self.fail(this, Failure::Dropped, scheduler);
                }
            }
        }
    }

    fn deadline(&mut self, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        if self.deadline_at != now {
            return;
        }
        self.deadline_at = Time::MAX;
        if let Some(front) = &mut self.front {
            front.handle_deadline(now, &mut self.policy_rng);
        }
        self.carry_out(scheduler);
    }
}

impl Model for Http {
    type Message = Message;

    fn start(&mut self, scheduler: &mut Scheduler<Message>) {
        if let Some(fixed) = self.setup.attack.fixed {
            let sources = self.setup.plan.attacker.callers;
            for _ in 0..fixed.attackers {
                let at =
                    Span::from_secs_f64(fixed.ramp.as_secs_f64() * unit(&mut self.attackers_rng));
                let source = (unit(&mut self.attackers_rng) * f64::from(sources)) as u32;
                let this = self.enlist(Client {
                    source,
                    work: self.setup.attack.service,
                    ..Client::new(Kind::Attacker, scheduler.now())
                });
                scheduler.after(at.unwrap_or_default(), ALL, Message::Again(this));
            }
        }
        self.begin_next(scheduler);
    }

    fn deliver(&mut self, _to: ActorId, message: Message, scheduler: &mut Scheduler<Message>) {
        match message {
            Message::Begin => self.begin_next(scheduler),
            Message::Again(this) => self.again(this, scheduler),
            Message::Connect(this) => self.connected(this, scheduler),
            Message::Piece(this) => self.piece(this, scheduler),
            Message::Worked(this) => self.worked(this, scheduler),
            Message::Taken(this) => self.taken(this, scheduler),
            Message::Complete(this) => self.complete(this, scheduler),
            Message::Check(this) => self.check(this, scheduler),
            Message::GiveUp(this) => {
                if self.on(this).is_some() {
                    self.fail(this, Failure::GaveUp, scheduler);
                }
            }
            Message::Deadline => self.deadline(scheduler),
        }
        self.drive(scheduler);
    }
}

/// Uniform in [0, 1).
fn unit(rng: &mut Pcg64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}
