//! Scheduler and simulation.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use levee_policy::{Span, Time};

/// An actor of a model. The model chooses the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(pub u32);

/// A link of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkId(u32);

/// What a message meets on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Link {
    /// One way.
    pub delay: Span,
}

/// Which of two messages that are due at the same time comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TieOrder {
    /// The one sent first.
    #[default]
    FirstSent,
    /// The one sent last.
    LastSent,
}

/// A set of actors, and what each does with a message.
pub trait Model {
    /// What actors send each other.
    type Message: Copy;

    /// Sends the first messages.
    fn start(&mut self, scheduler: &mut Scheduler<Self::Message>);

    /// An actor receives a message, at [`Scheduler::now`].
    fn deliver(
        &mut self,
        to: ActorId,
        message: Self::Message,
        scheduler: &mut Scheduler<Self::Message>,
    );
}

/// Virtual time, and the messages under way.
#[derive(Clone, Debug)]
pub struct Scheduler<M> {
    now: Time,
    sent: u64,
    delivered: u64,
    ties: TieOrder,
    links: Vec<Link>,
    queue: BinaryHeap<Entry<M>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry<M> {
    at: Time,
    tie: u64,
    to: ActorId,
    message: M,
}

impl<M> PartialEq for Entry<M> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<M> Eq for Entry<M> {}

impl<M> PartialOrd for Entry<M> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for Entry<M> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.tie).cmp(&(self.at, self.tie))
    }
}

impl<M: Copy> Scheduler<M> {
    /// No message, at time zero.
    #[must_use]
    pub fn new(ties: TieOrder) -> Self {
        Self {
            now: Time::ZERO,
            sent: 0,
            delivered: 0,
            ties,
            links: Vec::new(),
            queue: BinaryHeap::new(),
        }
    }

    /// Forgets messages and links, and keeps the memory.
    pub fn clear(&mut self) {
        self.now = Time::ZERO;
        self.sent = 0;
        self.delivered = 0;
        self.links.clear();
        self.queue.clear();
    }

    /// When the message that is being handled was due.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Messages handed over so far.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Adds a link.
    pub fn link(&mut self, link: Link) -> LinkId {
        self.links.push(link);
        LinkId((self.links.len() - 1) as u32)
    }

    /// Sends a message over a link.
    pub fn send(&mut self, over: LinkId, to: ActorId, message: M) {
        let link = self.links[over.0 as usize];
        self.after(link.delay, to, message);
    }

    /// Sends a message that is due after this time: a timer.
    pub fn after(&mut self, delay: Span, to: ActorId, message: M) {
        self.sent += 1;
        let tie = match self.ties {
            TieOrder::FirstSent => self.sent,
            TieOrder::LastSent => u64::MAX - self.sent,
        };
        self.queue.push(Entry {
            at: self.now + delay,
            tie,
            to,
            message,
        });
    }

    fn take(&mut self, until: Time) -> Option<(ActorId, M)> {
        if self.queue.peek()?.at > until {
            return None;
        }
        let entry = self.queue.pop()?;
        self.now = entry.at;
        self.delivered += 1;
        Some((entry.to, entry.message))
    }
}

/// A model that runs.
#[derive(Clone, Debug)]
pub struct Simulation<M: Model> {
    /// The model, to be looked at between steps.
    pub model: M,
    scheduler: Scheduler<M::Message>,
    horizon: Time,
}

impl<M: Model> Simulation<M> {
    /// A model before its first step, which runs up to and including `horizon`.
    #[must_use]
    pub fn new(mut model: M, horizon: Time, ties: TieOrder) -> Self {
        let mut scheduler = Scheduler::new(ties);
        model.start(&mut scheduler);
        Self {
            model,
            scheduler,
            horizon,
        }
    }

    /// Starts again with what `reset` makes of the model; the memory is used again.
    pub fn restart(&mut self, reset: impl FnOnce(&mut M)) {
        self.scheduler.clear();
        reset(&mut self.model);
        self.model.start(&mut self.scheduler);
    }

    /// Hands over the next message. False, and the time is the horizon, when there is none.
    pub fn step(&mut self) -> bool {
        match self.scheduler.take(self.horizon) {
            Some((to, message)) => {
                self.model.deliver(to, message, &mut self.scheduler);
                true
            }
            None => {
                self.scheduler.now = self.horizon;
                false
            }
        }
    }

    /// Runs to the horizon.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.scheduler.now
    }

    /// Messages handed over so far.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.scheduler.delivered
    }
}
