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

mod client;
pub mod demand;
mod front;
mod observe;
mod pipe;
mod setup;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use levee_policy::thinner::{Input, Mode, RequestKey, Thinner};
use levee_policy::{Span, Time};
use rand_pcg::Pcg64;

pub use self::demand::{Arrivals, Demand, Work};
use self::observe::Counts;
use self::pipe::{Pipe, Told};
pub use self::setup::{CLIENTS_MAX, Group, Server, Setup, SetupError, Split, WINDOW_MAX};
use crate::engine::{ActorId, Link, LinkId, Model, Scheduler, Streams};
use crate::schedule::Kind;

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
