//! Virtual time and the messages under way.

use std::collections::VecDeque;

use levee_policy::{Span, Time};
use rand_pcg::Pcg64;

use super::link::{Impaired, ImpairedLink, Link, LinkError, Traffic};
use super::queue::{Entry, Key, TimerQueue};
use super::simulation::{Limits, Runaway};

/// An actor of a model. The model chooses the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(pub u32);

/// A link of a scheduler. Good until [`Scheduler::clear`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkId(u32);

/// Which of two messages that are due at the same time comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TieOrder {
    /// The one sent first.
    #[default]
    FirstSent,
    /// The one sent last. Slower: no message is known to come after another before their times are compared.
    LastSent,
}

/// Delays that have a lane. Each lane is looked at for each message; a model with more delays has timers for the others.
const LANES_MAX: usize = 8;

/// An empty lane comes after all else.
const NO_KEY: Key = Key::MAX;

type Lane<M> = VecDeque<Entry<(ActorId, M)>>;

/// Virtual time, and the messages under way.
///
/// Messages with the same delay are due in the order in which they are sent, so each delay of a plain link has a first-in
/// first-out *lane*, and so have messages without delay. All others are timers.
#[derive(Clone, Debug)]
pub struct Scheduler<M> {
    now: Time,
    /// Messages taken in. A message's number among them is its tie.
    accepted: u64,
    delivered: u64,
    /// Of those, how many at this very time.
    at_now: u64,
    ties: TieOrder,
    /// A message due later is forgotten at once.
    horizon: Time,
    limits: Limits,
    runaway: Option<Runaway>,
    routes: Vec<Route>,
    impaired: Vec<Impaired>,
    /// Keys of the first of each lane. The first lane has no delay.
    heads: [Key; LANES_MAX],
    delays: [Span; LANES_MAX],
    lanes: [Lane<M>; LANES_MAX],
    lanes_used: usize,
    timers: TimerQueue<(ActorId, M)>,
}

/// How a link's messages are kept.
#[derive(Clone, Copy, Debug)]
enum Route {
    Lane(u32),
    Timer(Span),
    Impaired(u32),
}

impl<M: Copy> Scheduler<M> {
    /// No message, at time zero, without a horizon.
    #[must_use]
    pub fn new(ties: TieOrder) -> Self {
        Self {
            now: Time::ZERO,
            accepted: 0,
            delivered: 0,
            at_now: 0,
            ties,
            horizon: latest(),
            limits: Limits::default(),
            runaway: None,
            routes: Vec::new(),
            impaired: Vec::new(),
            heads: [NO_KEY; LANES_MAX],
            delays: [Span::ZERO; LANES_MAX],
            lanes: std::array::from_fn(|_| VecDeque::new()),
            lanes_used: 1,
            timers: TimerQueue::new(),
        }
    }

    /// Forgets messages and links, and keeps the memory.
    pub fn clear(&mut self) {
        self.now = Time::ZERO;
        self.accepted = 0;
        self.delivered = 0;
        self.at_now = 0;
        self.runaway = None;
        self.routes.clear();
        self.impaired.clear();
        self.heads = [NO_KEY; LANES_MAX];
        for lane in &mut self.lanes {
            lane.clear();
        }
        self.lanes_used = 1;
        self.timers.clear();
    }

    /// When the message that is being handled was due.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Messages handed over so far.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Messages under way. One that is due after the horizon is not.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.accepted - self.delivered
    }

    /// Adds a link.
    pub fn link(&mut self, link: Link) -> LinkId {
        let route = match self.lane(link.delay) {
            Some(lane) => Route::Lane(lane as u32),
            None => Route::Timer(link.delay),
        };
        self.add(route)
    }

    /// Adds a link with jitter, loss or a rate, which draws from this stream: see [`Streams`](super::Streams).
    ///
    /// # Errors
    /// A loss that is no probability, a rate of zero.
    pub fn impaired_link(
        &mut self,
        link: ImpairedLink,
        stream: Pcg64,
    ) -> Result<LinkId, LinkError> {
        let impaired = Impaired::new(link, stream)?;
        self.impaired.push(impaired);
        Ok(self.add(Route::Impaired((self.impaired.len() - 1) as u32)))
    }

    fn add(&mut self, route: Route) -> LinkId {
        self.routes.push(route);
        LinkId((self.routes.len() - 1) as u32)
    }

    /// The lane of this delay, if there is one or may be another.
    fn lane(&mut self, delay: Span) -> Option<usize> {
        if self.ties == TieOrder::LastSent {
            return None;
        }
        let known = self.delays[..self.lanes_used]
            .iter()
            .position(|d| *d == delay);
        if known.is_none() && self.lanes_used < LANES_MAX {
            self.delays[self.lanes_used] = delay;
            self.lanes_used += 1;
            return Some(self.lanes_used - 1);
        }
        known
    }

    /// What an impaired link did so far; nothing for a plain link, which does not count.
    #[must_use]
    pub fn traffic(&self, link: LinkId) -> Traffic {
        match self.routes[link.0 as usize] {
            Route::Impaired(index) => self.impaired[index as usize].traffic(),
            Route::Lane(_) | Route::Timer(_) => Traffic::default(),
        }
    }

    /// Sends a message over a link.
    ///
    /// On a link with a rate it has no size: it waits for those before it, and adds nothing.
    #[inline]
    pub fn send(&mut self, over: LinkId, to: ActorId, message: M) {
        self.send_sized(over, to, message, 0);
    }

    /// Sends a message of this size over a link. The size counts on a link with a rate.
    #[inline]
    pub fn send_sized(&mut self, over: LinkId, to: ActorId, message: M, bytes: u32) {
        match self.routes[over.0 as usize] {
            Route::Lane(lane) => self.push_lane(lane as usize, to, message),
            Route::Timer(delay) => self.after(delay, to, message),
            Route::Impaired(index) => {
                if let Some(at) = self.impaired[index as usize].arrival(self.now, bytes) {
                    self.at(at, to, message);
                }
            }
        }
    }

    /// Sends a message that is due after this time: a timer. [`Span::MAX`] is never.
    #[inline]
    pub fn after(&mut self, delay: Span, to: ActorId, message: M) {
        self.at(self.now + delay, to, message);
    }

    /// Sends a message that is due at this time, or now if that is over. [`Time::MAX`] is never.
    #[inline]
    pub fn at(&mut self, at: Time, to: ActorId, message: M) {
        if at <= self.now && self.ties == TieOrder::FirstSent {
            self.push_lane(0, to, message);
        } else if let Some(entry) = self.accept(at.max(self.now), to, message) {
            self.timers.push(self.now.as_nanos(), entry);
        }
    }

    #[inline]
    fn push_lane(&mut self, lane: usize, to: ActorId, message: M) {
        if let Some(entry) = self.accept(self.now + self.delays[lane], to, message) {
            if self.heads[lane] == NO_KEY {
                self.heads[lane] = entry.key();
            }
            self.lanes[lane].push_back(entry);
        }
    }

    #[inline]
    fn accept(&mut self, at: Time, to: ActorId, message: M) -> Option<Entry<(ActorId, M)>> {
        if at > self.horizon {
            return None;
        }
        if self.pending() >= self.limits.pending {
            self.stop(Runaway::Pending {
                at: self.now,
                limit: self.limits.pending,
            });
            return None;
        }
        self.accepted += 1;
        Some(Entry {
            at: at.as_nanos(),
            tie: match self.ties {
                TieOrder::FirstSent => self.accepted,
                TieOrder::LastSent => !self.accepted,
            },
            what: (to, message),
        })
    }

    /// Takes the next message, and goes to its time. `None` when no message is under way, or none may be any more.
    #[inline]
    pub fn take(&mut self) -> Option<(ActorId, M)> {
        let mut lane = 0;
        let mut first = self.heads[0];
        for (index, head) in self.heads[..self.lanes_used].iter().enumerate().skip(1) {
            if *head < first {
                (lane, first) = (index, *head);
            }
        }
        // A timer due after the first of the lanes is of no interest.
        let entry = match self.timers.peek((first >> 64) as u64) {
            Some(timer) if timer < first => self.timers.pop()?,
            _ => self.pop_lane(lane)?,
        };
        self.arrive(Time::from_nanos(entry.at))?;
        Some(entry.what)
    }

    #[inline]
    fn pop_lane(&mut self, lane: usize) -> Option<Entry<(ActorId, M)>> {
        let queue = &mut self.lanes[lane];
        let entry = queue.pop_front();
        self.heads[lane] = queue.front().map_or(NO_KEY, Entry::key);
        entry
    }

    /// Goes to the time of a message, unless the model has had all that it may.
    #[inline]
    fn arrive(&mut self, at: Time) -> Option<()> {
        self.at_now = if at == self.now { self.at_now + 1 } else { 1 };
        self.now = at;
        self.delivered += 1;
        let Limits {
            at_one_instant,
            delivered,
            ..
        } = self.limits;
        if self.at_now > at_one_instant {
            self.stop(Runaway::Instant {
                at,
                limit: at_one_instant,
            });
        } else if self.delivered > delivered {
            self.stop(Runaway::Delivered {
                at,
                limit: delivered,
            });
        }
        if self.runaway.is_some() {
            self.delivered -= 1;
            return None;
        }
        Some(())
    }

    #[cold]
    fn stop(&mut self, runaway: Runaway) {
        self.runaway.get_or_insert(runaway);
    }

    /// Why no more messages are handed over, if that is not because there are none.
    #[must_use]
    pub fn runaway(&self) -> Option<Runaway> {
        self.runaway
    }

    pub(super) fn set_horizon(&mut self, horizon: Time) {
        self.horizon = horizon.min(latest());
    }

    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Nothing is left: the time is the horizon.
    pub(super) fn finish(&mut self) {
        if self.runaway.is_none() {
            self.now = self.horizon;
        }
    }
}

/// [`Time::MAX`] is never.
fn latest() -> Time {
    Time::from_nanos(u64::MAX - 1)
}
