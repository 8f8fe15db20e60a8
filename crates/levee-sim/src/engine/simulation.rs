//! A model that runs.

use levee_policy::Time;

use super::scheduler::{ActorId, Scheduler, TieOrder};

/// A set of actors, and what each does with a message.
pub trait Model {
    /// What actors send each other. A small one is quicker: it is copied some times on its way.
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

/// What a run may have. A model that needs more is taken to be one that never ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages handed over at one and the same time.
    pub at_one_instant: u64,
    /// Messages under way.
    pub pending: u64,
    /// Messages handed over in all.
    pub delivered: u64,
}

impl Limits {
    /// A hundred times the largest system that is foreseen (100,000 calls) may act at once.
    pub const AT_ONE_INSTANT: u64 = 10_000_000;
    /// Some 700 MB.
    pub const PENDING: u64 = 1 << 24;
    /// Some twenty minutes of computing.
    pub const DELIVERED: u64 = 10_000_000_000;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            at_one_instant: Self::AT_ONE_INSTANT,
            pending: Self::PENDING,
            delivered: Self::DELIVERED,
        }
    }
}

/// A run that went beyond its [`Limits`]. The message that was too many is not handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Runaway {
    /// Time stands still.
    #[error(
        "the model sends without end: more than {limit} messages at the one time {at}. \
         Look for actors that answer each other without delay"
    )]
    Instant {
        /// When.
        at: Time,
        /// How many were allowed.
        limit: u64,
    },
    /// More and more is under way.
    #[error(
        "the model sends more than it receives: more than {limit} messages are under way at {at}. \
         Look for a message that is answered by several"
    )]
    Pending {
        /// When.
        at: Time,
        /// How many were allowed.
        limit: u64,
    },
    /// The run is too long.
    #[error(
        "the run is too long: more than {limit} messages by {at}. Shorten its time, or raise the limit"
    )]
    Delivered {
        /// When.
        at: Time,
        /// How many were allowed.
        limit: u64,
    },
}

/// A model that runs.
#[derive(Clone, Debug)]
pub struct Simulation<M: Model> {
    /// The model, to be looked at between steps.
    pub model: M,
    scheduler: Scheduler<M::Message>,
}

impl<M: Model> Simulation<M> {
    /// A model before its first step, which runs up to and including `horizon`.
    #[must_use]
    pub fn new(mut model: M, horizon: Time, ties: TieOrder) -> Self {
        let mut scheduler = Scheduler::new(ties);
        scheduler.set_horizon(horizon);
        model.start(&mut scheduler);
        Self { model, scheduler }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.scheduler.set_limits(limits);
        self
    }

    /// Starts again with what `reset` makes of the model; the memory is used again.
    pub fn restart(&mut self, reset: impl FnOnce(&mut M)) {
        self.scheduler.clear();
        reset(&mut self.model);
        self.model.start(&mut self.scheduler);
    }

    /// Hands over the next message. False when there is none, and the time is the horizon; or when the run went beyond its
    /// limits, which [`Simulation::runaway`] tells.
    #[inline]
    pub fn step(&mut self) -> bool {
        match self.scheduler.take() {
            Some((to, message)) => {
                self.model.deliver(to, message, &mut self.scheduler);
                true
            }
            None => {
                self.scheduler.finish();
                false
            }
        }
    }

    /// Runs to the horizon.
    ///
    /// # Errors
    /// When the model went beyond its [`Limits`] before.
    pub fn run(&mut self) -> Result<(), Runaway> {
        while self.step() {}
        self.runaway().map_or(Ok(()), Err)
    }

    /// Why the run ended before the horizon, if it did.
    #[must_use]
    pub fn runaway(&self) -> Option<Runaway> {
        self.scheduler.runaway()
    }

    /// Virtual time, links and messages under way.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler<M::Message> {
        &self.scheduler
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.scheduler.now()
    }

    /// Messages handed over so far.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.scheduler.delivered()
    }
}
