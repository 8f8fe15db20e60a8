//! Speak-up: good and bad clients that pay for a server of fixed capacity, as in the papers' experiments.
//!
//! "Fighting Fire with Fire" (HotNets 2005) and "DDoS Defense by Offense" (SIGCOMM 2006). The thinner in the middle is
//! [`levee_policy::thinner::Thinner`], the code of the live front; nothing of its rules is written twice.
//!
//! # The actors
//!
//! - A *client* wants requests at random times ([`Demand`]). It has at most `w` of them under way; a further one waits in the client's
//!   own queue, for `patience`. All that it sends shares its bandwidth equally (a fluid, as of connections under congestion control).
//! - A request that is told to retry at once is sent again, as fast as the bandwidth lets it: one outstanding retry a request (packet
//!   conservation). One that is held opens a payment channel. Who is refused otherwise, or has waited for `patience` since it was
//!   first sent, is denied.
//! - The *server* works on one request at a time, for a time uniform about `1/C`. Up to a backlog of them wait; the next is drawn at
//!   random. Beyond that it refuses.
//! - The *thinner*, if there is a defence, stands before it.
//!
//! # Payments
//!
//! A payment channel is a fluid too. What came through it is told to the thinner in pieces of [`CHUNKS`] to the price at which all that
//! clients can pay buys all places (with a quantum, all quanta), as a live front tells what one read gave. So a bid is behind by less than one piece, and who
//! wins loses at most one of 64 parts of the usual price. That is the same for good and bad; [`SpeakUp::with_chunks`] takes finer
//! pieces, and a test holds the two together.
//!
//! # What it does not model
//!
//! - TCP: slow start, loss, acknowledgements, the handshake of a new connection. A client's bandwidth is there at once. With a `delay` a
//!   retry takes a round trip on top of its bytes, so that the window limits retries and not bandwidth alone: the
//!   thing that the price told and the payment channel were made for.
//! - The pause between two POSTs of a payment channel; the bytes of headers around a payment.
//! - Links that clients share, the thinner's own uplink, and its processor.
//! - Responses: they take no time but the delay.
//! - Pages that a browser fetches together, users that reload by themselves, a `Retry-After` (a refused request is denied; the
//!   client's next is its next demand).

pub mod demand;
mod observe;
mod pipe;
mod setup;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use levee_policy::thinner::{Arrival, Input, Mode, Outcome, Output, RequestKey, Thinner};
use levee_policy::{Identity, Span, StateMachine as _, Time};
use rand_pcg::Pcg64;

pub use self::demand::{Arrivals, Demand, Work};
use self::observe::Counts;
use self::pipe::{Pipe, Told};
pub use self::setup::{CLIENTS_MAX, Group, Server, Setup, SetupError, Split, WINDOW_MAX};
use crate::engine::{ActorId, Link, LinkId, Model, Scheduler, Streams};
use crate::schedule::{Kind, unit};

/// Pieces in which the usual price of a place is told to the thinner.
pub const CHUNKS: u32 = 64;

/// Clients, thinner and server share one mailbox: who is meant follows from the message.
const ALL: ActorId = ActorId(0);
/// A client's pipes: its uplink, and its processor.
const UPLINK: usize = 0;
const PROCESSOR: usize = 1;

/// A request by its record; void when the record is another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    record: u32,
    number: u32,
}

impl Try {
    fn key(self) -> RequestKey {
        RequestKey(u64::from(self.number) << 32 | u64::from(self.record))
    }

    fn of(key: RequestKey) -> Self {
        Self {
            record: key.0 as u32,
            number: (key.0 >> 32) as u32,
        }
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Message {
    /// A client wants a request.
    Want(u32),
    /// The oldest request of a client's queue may have waited too long.
    Expire(u32),
    /// Something that a client sends may be through: pipe 2 `client` or the one after it.
    Through {
        /// Which pipe.
        pipe: u32,
        /// Which of its announcements.
        number: u32,
    },
    /// A request reaches the front.
    Reach(Try),
    /// A payment reaches the front.
    Pay {
        /// For which request.
        of: Try,
        /// How much.
        units: u64,
        /// The client waits to be told what more it takes.
        last: bool,
    },
    /// The front learns that a client has given up.
    Gone(Try),
    /// A client learns that its request is held, and what it takes.
    Held(Try),
    /// A client learns that its request is admitted.
    Admitted(Try),
    /// A client learns that its request is refused.
    Refused {
        /// Which.
        of: Try,
        /// It may come again at once.
        again: bool,
    },
    /// A client has its response.
    Answered(Try),
    /// A client's patience for a request is over.
    GiveUp(Try),
    /// The server is done.
    Worked(u32),
    /// The thinner's deadline.
    Deadline,
}

/// Where a client is with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sending,
    Asked,
    Held,
    Admitted,
    /// Given up; the front has not heard of it yet, or the server is at work on it.
    Over,
}

/// Where the front is with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Outside,
    Waiting,
    Server,
    /// At the server, and its client is gone.
    Abandoned,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// Counts up over all that use this record in a run.
    number: u32,
    client: u32,
    kind: Kind,
    stage: Stage,
    place: Place,
    counted: bool,
    wanted: Time,
    /// Tries before this one.
    retries: u64,
    /// Units that the client was told to pay yet.
    to_pay: u64,
    /// The client pays for it.
    paying: bool,
}

#[derive(Clone, Debug)]
struct Client {
    kind: Kind,
    arrivals: Arrivals,
    /// Requests under way.
    open: u32,
    /// When those were wanted that wait for a window.
    waiting: VecDeque<Time>,
    /// An [`Message::Expire`] is under way.
    expiring: bool,
    pipes: [Pipe; 2],
    /// Requests answered in the time that is counted.
    served: u32,
}

/// Work at the server.
#[derive(Clone, Copy, Debug)]
struct Job {
    of: Try,
    left: Span,
}

/// The model.
#[derive(Clone, Debug)]
pub struct SpeakUp {
    setup: Setup,
    chunks: u32,
    front: Option<Thinner>,
    /// What it is to be told, in order.
    inputs: VecDeque<Input>,
    /// When a [`Message::Deadline`] is under way for; the last instant if none is.
    deadline_at: Time,
    policy_rng: Pcg64,
    choice_rng: Pcg64,
    work: Work,
    way: LinkId,
    clients: Vec<Client>,
    requests: Vec<Request>,
    free: Vec<u32>,
    serving: Option<Job>,
    /// When it was begun, and which of the announced ends counts.
    began: Time,
    job_number: u32,
    backlog: Vec<Job>,
    suspended: Vec<Job>,
    counts: Counts,
    waited_s: Vec<f64>,
}

impl SpeakUp {
    /// The model before run 0.
    ///
    /// # Errors
    ///
    /// What [`Setup::check`] finds.
    pub fn new(setup: Setup) -> Result<Self, SetupError> {
        setup.check()?;
        let streams = Streams::new(setup.seed, 0);
        let front = setup.defense.clone().map(Thinner::new).transpose()?;
        let demand = Demand::new(&setup, 0);
        let clients = members(&setup).map(|(kind, number, group)| Client {
            kind,
            arrivals: demand.client(kind, number),
            open: 0,
            waiting: VecDeque::new(),
            expiring: false,
            pipes: [
                Pipe::new(group.up, group.split),
                Pipe::new(group.hashes, group.split),
            ],
            served: 0,
        });
        Ok(Self {
            chunks: CHUNKS,
            front,
            inputs: VecDeque::new(),
            deadline_at: Time::MAX,
            policy_rng: streams.stream("policy"),
            choice_rng: streams.stream("choice"),
            work: Work::new(&setup, 0),
            way: LinkId::default(),
            clients: clients.collect(),
            requests: Vec::new(),
            free: Vec::new(),
            serving: None,
            began: Time::ZERO,
            job_number: 0,
            backlog: Vec::new(),
            suspended: Vec::new(),
            counts: Counts::default(),
            waited_s: Vec::new(),
            setup,
        })
    }

    /// The same with so many pieces to the usual price, [`CHUNKS`] unless given; at least 1.
    #[must_use]
    pub fn with_chunks(mut self, chunks: u32) -> Self {
        self.chunks = chunks.max(1);
        self
    }

    /// Goes back to the start, for run `run`. Nothing is allocated but what a larger run needs.
    pub fn restart(&mut self, run: u64) {
        let streams = Streams::new(self.setup.seed, run);
        self.policy_rng = streams.stream("policy");
        self.choice_rng = streams.stream("choice");
        self.work = Work::new(&self.setup, run);
        if let Some(front) = &mut self.front {
            front.restart();
        }
        self.inputs.clear();
        self.deadline_at = Time::MAX;
        let demand = Demand::new(&self.setup, run);
        for (client, (kind, number, _)) in self.clients.iter_mut().zip(members(&self.setup)) {
            client.arrivals = demand.client(kind, number);
            client.open = 0;
            client.waiting.clear();
            client.expiring = false;
            client.pipes.iter_mut().for_each(Pipe::clear);
            client.served = 0;
        }
        self.requests.clear();
        self.free.clear();
        self.serving = None;
        self.began = Time::ZERO;
        self.job_number = 0;
        self.backlog.clear();
        self.suspended.clear();
        self.counts = Counts::default();
        self.waited_s.clear();
    }

    /// What is simulated.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// When its runs are over: the horizon of the [`Simulation`](crate::engine::Simulation).
    #[must_use]
    pub fn end(&self) -> Time {
        Time::ZERO + self.setup.end()
    }

    /// Requests of each client of a kind that were answered in the time that is counted, in the order of their numbers.
    pub fn served_of(&self, kind: Kind) -> impl Iterator<Item = u32> {
        let own = self.clients.iter().filter(move |c| c.kind == kind);
        own.map(|client| client.served)
    }

    fn group(&self, kind: Kind) -> &Group {
        match kind {
            Kind::Honest => &self.setup.honest,
            Kind::Attacker => &self.setup.attack,
        }
    }

    /// When counting begins.
    fn counted(&self) -> Time {
        Time::ZERO + self.setup.warmup
    }

    fn request(&mut self, of: Try) -> &mut Request {
        &mut self.requests[of.record as usize]
    }

    /// The request of a message, if it is still the one that is meant.
    fn known(&self, of: Try) -> Option<&Request> {
        self.requests
            .get(of.record as usize)
            .filter(|request| request.number == of.number)
    }

    /// The same, if its client still cares.
    fn wanted(&self, of: Try) -> Option<&Request> {
        self.known(of)
            .filter(|request| request.stage != Stage::Over)
    }

    fn mode(&self) -> Option<Mode> {
        self.setup.defense.as_ref().map(|defense| defense.mode)
    }
}

/// A client's side.
impl SpeakUp {
    fn want(&mut self, index: u32, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        let client = &mut self.clients[index as usize];
        if let Some(next) = client.arrivals.next() {
            scheduler.at(next, ALL, Message::Want(index));
        }
        let kind = client.kind;
        if now >= self.counted() {
            self.counts.of[kind.index()].attempted += 1;
        }
        let Group {
            window, patience, ..
        } = *self.group(kind);
        let client = &mut self.clients[index as usize];
        if client.open < window {
            self.issue(index, now, scheduler);
            return;
        }
        client.waiting.push_back(now);
        if !std::mem::replace(&mut client.expiring, true) {
            scheduler.after(patience, ALL, Message::Expire(index));
        }
    }

    /// Requests that have waited too long at their client are denied.
    fn expire(&mut self, index: u32, scheduler: &mut Scheduler<Message>) {
        let (now, counted) = (scheduler.now(), self.counted());
        let kind = self.clients[index as usize].kind;
        let patience = self.group(kind).patience;
        let client = &mut self.clients[index as usize];
        while let Some(oldest) = client.waiting.front() {
            if *oldest + patience > now {
                scheduler.at(*oldest + patience, ALL, Message::Expire(index));
                return;
            }
            self.counts.of[kind.index()].expired += u64::from(*oldest >= counted);
            client.waiting.pop_front();
        }
        client.expiring = false;
    }

    /// A request goes on its way for the first time.
    fn issue(&mut self, index: u32, wanted: Time, scheduler: &mut Scheduler<Message>) {
        let client = &mut self.clients[index as usize];
        client.open += 1;
        let request = Request {
            number: 0,
            client: index,
            kind: client.kind,
            stage: Stage::Sending,
            place: Place::Outside,
            counted: wanted >= self.counted(),
            wanted,
            retries: 0,
            to_pay: 0,
            paying: false,
        };
        let of = self.enlist(request);
        let patience = self.group(request.kind).patience;
        scheduler.after(patience, ALL, Message::GiveUp(of));
        self.send(of, scheduler);
    }

    fn enlist(&mut self, request: Request) -> Try {
        if let Some(record) = self.free.pop() {
            let old = &mut self.requests[record as usize];
            let number = old.number;
            *old = Request { number, ..request };
            Try { record, number }
        } else {
            self.requests.push(request);
            Try {
                record: (self.requests.len() - 1) as u32,
                number: 0,
            }
        }
    }

    /// The record is free for another request.
    fn release(&mut self, of: Try) {
        let request = self.request(of);
        request.number = request.number.wrapping_add(1);
        self.free.push(of.record);
    }

    /// Sends a request, or sends it again.
    fn send(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        self.request(of).stage = Stage::Sending;
        let bytes = self.group(self.requests[of.record as usize].kind).request;
        self.change(of, UPLINK, scheduler, |pipe| pipe.send(of, bytes));
    }

    /// Changes what goes through a pipe of a request's client.
    fn change(
        &mut self,
        of: Try,
        which: usize,
        scheduler: &mut Scheduler<Message>,
        change: impl FnOnce(&mut Pipe),
    ) {
        let counted = self.counted();
        let client = self.requests[of.record as usize].client;
        let pipe = &mut self.clients[client as usize].pipes[which];
        pipe.advance(scheduler.now(), counted);
        change(pipe);
        announce(pipe, client, which, scheduler);
    }

    fn through(&mut self, index: u32, number: u32, scheduler: &mut Scheduler<Message>) {
        let counted = self.counted();
        let (client, which) = (index / 2, index as usize % 2);
        let pipe = &mut self.clients[client as usize].pipes[which];
        if pipe.number != number {
            return;
        }
        pipe.arrive(scheduler.now(), counted);
        while let Some(told) = pipe.poll() {
            match told {
                Told::Sent(of) => {
                    self.requests[of.record as usize].stage = Stage::Asked;
                    scheduler.send(self.way, ALL, Message::Reach(of));
                }
                Told::Paid { of, units, last } => {
                    scheduler.send(self.way, ALL, Message::Pay { of, units, last });
                }
            }
        }
        announce(pipe, client, which, scheduler);
    }

    /// A client is told to wait, and pays if that helps.
    fn held(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let Some(&Request { kind, to_pay, .. }) = self.wanted(of) else {
            return;
        };
        self.request(of).stage = Stage::Held;
        let group = *self.group(kind);
        let Some(mode) = self
            .mode()
            .filter(|mode| group.pays && mode.takes_payment())
        else {
            return;
        };
        let chunk = self.chunk(mode);
        let (which, unit, left) = match mode {
            Mode::Priced => (UPLINK, f64::from(group.request), to_pay),
            Mode::ProofOfWork => (PROCESSOR, 1.0, u64::MAX),
            _ => (UPLINK, 1.0, u64::MAX),
        };
        self.request(of).paying = true;
        self.change(of, which, scheduler, |pipe| {
            pipe.pay(of, unit, chunk, left);
        });
    }

    /// Bytes, or hashes, that are told of at once: a part of what a place costs, or a quantum if that is less.
    fn chunk(&self, mode: Mode) -> f64 {
        let all = self.setup.honest.means(mode) + self.setup.attack.means(mode);
        let defense = self.setup.defense.as_ref();
        let quantum = defense.and_then(|defense| defense.quantum);
        let place = 1.0 / self.setup.server.rate;
        let bought = quantum.map_or(place, |quantum| quantum.as_secs_f64().min(place));
        all * bought / f64::from(self.chunks)
    }

    /// A client sends no more for a request.
    fn stop(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let request = self.request(of);
        let paying = std::mem::take(&mut request.paying);
        let which = match (paying, request.stage) {
            (true, _) if self.mode() == Some(Mode::ProofOfWork) => PROCESSOR,
            (true, _) | (false, Stage::Sending) => UPLINK,
            (false, _) => return,
        };
        self.change(of, which, scheduler, |pipe| pipe.stop(of));
    }

    fn admitted(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        if self.wanted(of).is_none() {
            return;
        }
        // With quanta the next one is paid for while the server works.
        if !self.has_quanta() {
            self.stop(of, scheduler);
        }
        self.request(of).stage = Stage::Admitted;
    }

    fn has_quanta(&self) -> bool {
        let defense = self.setup.defense.as_ref();
        defense.is_some_and(|defense| defense.quantum.is_some())
    }

    fn refused(&mut self, of: Try, again: bool, scheduler: &mut Scheduler<Message>) {
        let Some(&Request { kind, counted, .. }) = self.wanted(of) else {
            return;
        };
        self.stop(of, scheduler);
        if again && self.group(kind).pays {
            self.request(of).retries += 1;
            self.send(of, scheduler);
            return;
        }
        self.counts.of[kind.index()].refused += u64::from(counted);
        self.close(of, scheduler);
        self.release(of);
    }

    fn answered(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let Some(request) = self.wanted(of) else {
            return;
        };
        let Request {
            kind,
            counted,
            wanted,
            client,
            ..
        } = *request;
        if counted {
            let waited = (scheduler.now() - wanted).as_secs_f64();
            let counts = &mut self.counts.of[kind.index()];
            counts.served += 1;
            counts.waited_s += waited;
            if kind == Kind::Honest {
                self.waited_s.push(waited);
            }
        }
        self.stop(of, scheduler);
        let client = &mut self.clients[client as usize];
        client.served += u32::from(scheduler.now() >= Time::ZERO + self.setup.warmup);
        self.close(of, scheduler);
        self.release(of);
    }

    fn give_up(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let Some(&Request {
            kind,
            counted,
            stage,
            ..
        }) = self.wanted(of)
        else {
            return;
        };
        // Who is being served waits for it.
        if stage == Stage::Admitted {
            return;
        }
        self.stop(of, scheduler);
        self.counts.of[kind.index()].gave_up += u64::from(counted);
        self.request(of).stage = Stage::Over;
        self.close(of, scheduler);
        // What was sent before comes before.
        scheduler.send(self.way, ALL, Message::Gone(of));
    }

    /// A client is through with a request: its window takes the next.
    fn close(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let index = self.requests[of.record as usize].client;
        let client = &mut self.clients[index as usize];
        client.open -= 1;
        // Those that have waited too long are taken out by their own message.
        let patience = self.group(self.clients[index as usize].kind).patience;
        let client = &mut self.clients[index as usize];
        let next = client.waiting.front().copied();
        if let Some(wanted) = next.filter(|wanted| *wanted + patience > scheduler.now()) {
            client.waiting.pop_front();
            self.issue(index, wanted, scheduler);
        }
    }
}

/// The front's side, and the server.
impl SpeakUp {
    fn reach(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let Some(request) = self.known(of) else {
            return;
        };
        let Request {
            kind,
            client,
            retries,
            ..
        } = *request;
        self.counts.of[kind.index()].tries += u64::from(scheduler.now() >= self.counted());
        let Some(mode) = self.mode() else {
            self.offer(of, scheduler);
            return;
        };
        let can_wait = self.group(kind).pays || !mode.takes_payment();
        self.request(of).place = Place::Waiting;
        let arrival = Input::Arrive(Arrival {
            request: of.key(),
            paid: retries,
            can_wait,
            group: Some(Identity(client.into())),
        });
        self.tell(arrival);
    }

    fn pay(&mut self, of: Try, units: u64, last: bool, scheduler: &mut Scheduler<Message>) {
        let Some(&Request { kind, place, .. }) = self.known(of) else {
            return;
        };
        if scheduler.now() >= self.counted() {
            self.counts.of[kind.index()].paid += units;
        }
        if place == Place::Outside {
            return;
        }
        let request = of.key();
        self.tell(Input::Pay { request, units });
        self.drive(scheduler);
        if last
            && self
                .known(of)
                .is_some_and(|request| request.place == Place::Waiting)
        {
            self.hold(of, scheduler);
        }
    }

    /// The client has given up.
    fn gone(&mut self, of: Try) {
        let Some(request) = self.known(of) else {
            return;
        };
        match request.place {
            Place::Server => self.request(of).place = Place::Abandoned,
            Place::Outside | Place::Abandoned => self.release(of),
            Place::Waiting => {
                self.tell(Input::Leave { request: of.key() });
                self.release(of);
            }
        }
    }

    /// What the thinner is to hear, if there is one.
    fn tell(&mut self, input: Input) {
        if self.front.is_some() {
            self.inputs.push_back(input);
        }
    }

    /// Tells it, and does what it says.
    fn drive(&mut self, scheduler: &mut Scheduler<Message>) {
        while let Some(input) = self.inputs.pop_front() {
            if let Some(front) = &mut self.front {
                front.handle(scheduler.now(), input, &mut self.policy_rng);
            }
            self.carry_out(scheduler);
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
            self.carry_out(scheduler);
        }
    }

    /// Sees to it that the thinner is called when it asked for it.
    fn watch(&mut self, scheduler: &mut Scheduler<Message>) {
        let deadline = self.front.as_ref().and_then(Thinner::deadline);
        if let Some(at) = deadline.filter(|at| *at < self.deadline_at) {
            self.deadline_at = at.max(scheduler.now());
            scheduler.at(at, ALL, Message::Deadline);
        }
    }

    fn carry_out(&mut self, scheduler: &mut Scheduler<Message>) {
        while let Some(output) = self.front.as_mut().and_then(Thinner::poll_output) {
            match output {
                Output::Admit { request, price, .. } => {
                    let of = Try::of(request);
                    let kind = self.request(of).kind;
                    if scheduler.now() >= self.counted() {
                        let counts = &mut self.counts.of[kind.index()];
                        counts.admitted += 1;
                        counts.price += price as f64;
                    }
                    scheduler.send(self.way, ALL, Message::Admitted(of));
                    self.offer(of, scheduler);
                }
                Output::Hold { request } => self.hold(Try::of(request), scheduler),
                Output::Refuse {
                    request,
                    retry_after,
                    ..
                } => self.turn_away(Try::of(request), retry_after.is_zero(), scheduler),
                Output::Suspend { request } => {
                    self.suspend(Try::of(request), scheduler);
                    self.hold(Try::of(request), scheduler);
                }
                Output::Resume { request, price } => {
                    let of = Try::of(request);
                    let kind = self.request(of).kind;
                    if scheduler.now() >= self.counted() {
                        self.counts.of[kind.index()].price += price as f64;
                    }
                    self.resume(of, scheduler);
                }
                Output::Abort { request } => self.abort(Try::of(request), scheduler),
            }
        }
        self.watch(scheduler);
    }

    /// Tells a client to wait, and what it takes.
    fn hold(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let Some(front) = &self.front else {
            return;
        };
        let missing = front
            .price()
            .saturating_sub(front.bid(of.key()).unwrap_or(0));
        self.request(of).to_pay = missing.max(1);
        scheduler.send(self.way, ALL, Message::Held(of));
    }

    /// Tells a client that its request is refused.
    fn turn_away(&mut self, of: Try, again: bool, scheduler: &mut Scheduler<Message>) {
        let request = self.request(of);
        if std::mem::replace(&mut request.place, Place::Outside) == Place::Abandoned {
            self.release(of);
        } else {
            scheduler.send(self.way, ALL, Message::Refused { of, again });
        }
    }

    /// A request comes to the server.
    fn offer(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let kind = self.request(of).kind;
        let left = self.work.draw(self.group(kind).work);
        self.counts.offered += 1;
        if self.serving.is_some() && self.backlog.len() >= self.setup.server.backlog as usize {
            self.counts.refused_by_server += 1;
            self.turn_away(of, false, scheduler);
            let done = Input::Done {
                request: of.key(),
                outcome: Outcome::Failed,
            };
            self.tell(done);
            return;
        }
        self.request(of).place = Place::Server;
        self.queue(Job { of, left }, scheduler);
    }

    /// Work begins, or waits its turn.
    fn queue(&mut self, job: Job, scheduler: &mut Scheduler<Message>) {
        if self.serving.is_some() {
            self.backlog.push(job);
        } else {
            self.serve(job, scheduler);
        }
    }

    fn serve(&mut self, job: Job, scheduler: &mut Scheduler<Message>) {
        self.serving = Some(job);
        self.began = scheduler.now();
        self.job_number = self.job_number.wrapping_add(1);
        scheduler.after(job.left, ALL, Message::Worked(self.job_number));
    }

    /// The server leaves what it is at.
    fn vacate(&mut self, now: Time) -> Option<Job> {
        let job = self.serving.take()?;
        self.job_number = self.job_number.wrapping_add(1);
        let kind = self.request(job.of).kind;
        self.counts.of[kind.index()].worked_s += self.worked_s(now, self.began);
        let left = job.left.saturating_sub(now - self.began);
        Some(Job { left, ..job })
    }

    /// Seconds of the time that is counted since the server began.
    fn worked_s(&self, now: Time, began: Time) -> f64 {
        (now - began.max(self.counted())).as_secs_f64()
    }

    /// The server takes one of those that wait, drawn at random.
    fn serve_next(&mut self, scheduler: &mut Scheduler<Message>) {
        if self.serving.is_none() && !self.backlog.is_empty() {
            let drawn = (unit(&mut self.choice_rng) * self.backlog.len() as f64) as usize;
            let job = self.backlog.swap_remove(drawn);
            self.serve(job, scheduler);
        }
    }

    fn worked(&mut self, number: u32, scheduler: &mut Scheduler<Message>) {
        if number != self.job_number {
            return;
        }
        let now = scheduler.now();
        let Some(Job { of, .. }) = self.vacate(now) else {
            return;
        };
        let request = self.request(of);
        let kind = request.kind;
        if std::mem::replace(&mut request.place, Place::Outside) == Place::Abandoned {
            self.release(of);
        } else {
            scheduler.send(self.way, ALL, Message::Answered(of));
        }
        self.counts.of[kind.index()].done += u64::from(now >= self.counted());
        self.serve_next(scheduler);
        let done = Input::Done {
            request: of.key(),
            outcome: Outcome::Answered,
        };
        self.tell(done);
    }

    /// Takes work from the server, wherever it is.
    fn withdraw(&mut self, of: Try, scheduler: &mut Scheduler<Message>) -> Option<Job> {
        if self.serving.is_some_and(|job| job.of == of) {
            return self.vacate(scheduler.now());
        }
        for jobs in [&mut self.backlog, &mut self.suspended] {
            if let Some(index) = jobs.iter().position(|job| job.of == of) {
                return Some(jobs.swap_remove(index));
            }
        }
        None
    }

    fn suspend(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let job = self.withdraw(of, scheduler);
        self.suspended.extend(job);
    }

    fn resume(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        if let Some(job) = self.withdraw(of, scheduler) {
            self.queue(job, scheduler);
        }
    }

    fn abort(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        self.withdraw(of, scheduler);
        self.turn_away(of, false, scheduler);
        let done = Input::Done {
            request: of.key(),
            outcome: Outcome::Broken,
        };
        self.tell(done);
    }
}

impl Model for SpeakUp {
    type Message = Message;

    fn start(&mut self, scheduler: &mut Scheduler<Message>) {
        self.way = scheduler.link(Link {
            delay: self.setup.delay,
        });
        for (index, client) in self.clients.iter_mut().enumerate() {
            if let Some(first) = client.arrivals.next() {
                scheduler.at(first, ALL, Message::Want(index as u32));
            }
        }
    }

    fn deliver(&mut self, _to: ActorId, message: Message, scheduler: &mut Scheduler<Message>) {
        match message {
            Message::Want(client) => self.want(client, scheduler),
            Message::Expire(client) => self.expire(client, scheduler),
            Message::Through { pipe, number } => self.through(pipe, number, scheduler),
            Message::Reach(of) => self.reach(of, scheduler),
            Message::Pay { of, units, last } => self.pay(of, units, last, scheduler),
            Message::Gone(of) => self.gone(of),
            Message::Held(of) => self.held(of, scheduler),
            Message::Admitted(of) => self.admitted(of, scheduler),
            Message::Refused { of, again } => self.refused(of, again, scheduler),
            Message::Answered(of) => self.answered(of, scheduler),
            Message::GiveUp(of) => self.give_up(of, scheduler),
            Message::Worked(number) => self.worked(number, scheduler),
            Message::Deadline => self.deadline(scheduler),
        }
        self.drive(scheduler);
    }
}

/// All clients, the good ones first.
fn members(setup: &Setup) -> impl Iterator<Item = (Kind, u32, Group)> {
    let of = |kind, group: Group| (0..group.clients).map(move |number| (kind, number, group));
    of(Kind::Honest, setup.honest).chain(of(Kind::Attacker, setup.attack))
}

/// Says when a pipe has something to tell next.
fn announce(pipe: &mut Pipe, client: u32, which: usize, scheduler: &mut Scheduler<Message>) {
    if let Some(after) = pipe.announce() {
        let message = Message::Through {
            pipe: 2 * client + which as u32,
            number: pipe.number,
        };
        scheduler.after(after, ALL, message);
    }
}
