//! The machine itself.

use alloc::collections::VecDeque;

use rand_core::Rng;

use super::{
    Arrival, Config, Input, Mode, Outcome, Output, RefuseCause, RequestKey, Stats,
    capacity::Server,
    contenders::Contenders,
    fairness::{Fairness, Meter},
    meters::Meters,
    requests::{List, Requests, State},
};
use crate::{ConfigError, Identity, Span, StateMachine, Time, index::Slot, random};

/// How many requests are tracked at most beyond the contenders: with a rate nothing else bounds those in service. Any further
/// one is passed on and counted, but not followed. About 100 MB (our choice).
pub const TRACKED_BEYOND: u32 = 1 << 20;
/// An overload is over when no one waits and demand is below this part of the capacity (our choice).
const CALM: f64 = 0.9;
/// A server that is used less than this tells nothing about its capacity.
const BUSY_LEAST: f64 = 0.05;

/// The thinner of one server. Its contract is [`StateMachine`]'s.
#[derive(Clone, Debug)]
pub struct Thinner {
    config: Config,
    now: Time,
    server: Server,
    in_service: u32,
    requests: Requests,
    contenders: Contenders,
    /// In service, by the start of the quantum.
    running: List,
    overloaded: bool,
    meters: Meters,
    fairness: Meter,
    outputs: VecDeque<Output>,
    stats: Stats,
}

/// What time alone brings.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// The server can take the best contender.
    Room,
    /// A quantum is over.
    Quantum(Slot),
    /// A contender has waited too long, or was suspended too long.
    Expiry(Slot),
}

impl Thinner {
    /// A thinner before an idle server.
    ///
    /// # Errors
    ///
    /// What [`check`](Self::check) finds.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Self::check(&config)?;
        let server = Server::new(&config, 0, Time::ZERO);
        Ok(Self {
            now: Time::ZERO,
            in_service: 0,
            requests: Requests::default(),
            contenders: Contenders::new(config.mode == Mode::Queue),
            running: List::EMPTY,
            overloaded: false,
            meters: Meters::new(server.rate(), Time::ZERO),
            fairness: Meter::new(),
            outputs: VecDeque::new(),
            stats: Stats::default(),
            server,
            config,
        })
    }

    /// Forgets all requests, counts and times, and keeps the memory: as good as a new one of this configuration.
    pub fn restart(&mut self) {
        self.now = Time::ZERO;
        self.server = Server::new(&self.config, 0, Time::ZERO);
        self.in_service = 0;
        self.requests.clear();
        self.contenders.clear();
        self.running = List::EMPTY;
        self.overloaded = false;
        self.meters = Meters::new(self.server.rate(), Time::ZERO);
        self.fairness = Meter::new();
        self.outputs.clear();
        self.stats = Stats::default();
    }

    /// Whether a thinner can run with this.
    ///
    /// # Errors
    ///
    /// The first key that is out of its range.
    pub fn check(config: &Config) -> Result<(), ConfigError> {
        config.validate()
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What a newcomer would have to pay now, in the units of the mode: [`Mode::Priced`] and [`Mode::Retry`] the number of
    /// requests that it takes (at least 1; what the latter needs in the mean), in an auction one more than the highest bid, or 0
    /// if nobody waits; otherwise 0.
    #[must_use]
    pub fn price(&self) -> u64 {
        match self.config.mode {
            Mode::Random | Mode::Queue => 0,
            Mode::Retry | Mode::Priced => libm::ceil(self.requests_per_place()) as u64,
            Mode::Auction | Mode::ProofOfWork => self
                .contenders
                .best()
                .map_or(0, |slot| self.requests.get(slot).bid.saturating_add(1)),
        }
    }

    /// Requests a second that ask, retries and [`Mode::Priced`] payments included, in the mean of the last second or so.
    #[must_use]
    pub fn inbound_rate(&self) -> f64 {
        self.meters.inbound()
    }

    /// Units a second that contenders pay, in the mean of the last second or so.
    #[must_use]
    pub fn payment_rate(&self) -> f64 {
        self.meters.units()
    }

    /// Requests a second that are admitted, in the mean of the last second or so.
    #[must_use]
    pub fn admission_rate(&self) -> f64 {
        self.meters.admitted()
    }

    /// Requests that have a place at the server.
    #[must_use]
    pub fn in_service(&self) -> u32 {
        self.in_service
    }

    /// Requests that wait to be admitted, or suspended to be resumed.
    #[must_use]
    pub fn contenders(&self) -> u32 {
        self.contenders.len()
    }

    /// Whether demand exceeds capacity. From when a request cannot be admitted at once until no one waits and the demand is
    /// below nine tenths of the capacity.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        self.overloaded
    }

    /// The most requests at once, where the capacity is one of concurrent requests.
    #[must_use]
    pub fn limit(&self) -> Option<u32> {
        self.server.limit()
    }

    /// How evenly groups of clients have shared the server, as far as [`Arrival::group`] was told.
    #[must_use]
    pub fn fairness(&self) -> Fairness {
        self.fairness.fairness(self.now)
    }

    /// What a contender, or with a quantum one in service, has paid and not been charged; `None` if the request is unknown.
    #[must_use]
    pub fn bid(&self, request: RequestKey) -> Option<u64> {
        Some(self.requests.get(self.requests.find(request)?).bid)
    }

    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        if self.now >= self.meters.end() {
            self.tick();
        }
        while let Some((_, due)) = self.next_due().filter(|(time, _)| *time <= self.now) {
            match due {
                Due::Room => self.dispatch(),
                Due::Quantum(slot) => self.quantum_over(slot),
                Due::Expiry(slot) => self.expel(slot, RefuseCause::Outbid),
            }
        }
    }

    /// The means have changed, and what follows from them.
    fn tick(&mut self) {
        self.meters.roll(self.now, self.in_service);
        if !self.contenders.is_empty() {
            self.dispatch();
        } else if self.overloaded && self.demand() < CALM {
            self.overloaded = false;
        }
    }

    /// What comes first by time alone.
    fn next_due(&self) -> Option<(Time, Due)> {
        if self.contenders.is_empty() {
            return None;
        }
        let room = self.eligible().and_then(|_| {
            let due = self.server.due(self.strict())?;
            Some((due, Due::Room))
        });
        let quantum = self.config.quantum.and_then(|quantum| {
            let slot = self.running.first()?;
            Some((self.requests.get(slot).since + quantum, Due::Quantum(slot)))
        });
        let waiting = self.contenders.oldest_waiting().map(|slot| {
            let due = self.requests.get(slot).arrived + self.config.patience;
            (due, Due::Expiry(slot))
        });
        let suspended = self.contenders.oldest_suspended().map(|slot| {
            let due = self.requests.get(slot).since + self.config.suspended;
            (due, Due::Expiry(slot))
        });
        [room, quantum, waiting, suspended]
            .into_iter()
            .flatten()
            // What saturates there never comes.
            .filter(|(time, _)| *time < Time::MAX)
            .min_by_key(|(time, _)| *time)
    }

    /// Whether requests go strictly at regular intervals: what goes ahead of them would stand before the server as long as the
    /// overload lasts. Not where nobody can wait for the next one.
    fn strict(&self) -> bool {
        self.overloaded && self.config.mode.holds()
    }

    fn has_room(&self) -> bool {
        self.server
            .has_room(self.now, self.in_service, self.strict())
    }

    /// The best contender, if the server's next place may be its.
    fn eligible(&self) -> Option<Slot> {
        let best = self.contenders.best()?;
        let may = self.config.mode != Mode::Priced || self.requests.get(best).bid >= self.price();
        may.then_some(best)
    }

    /// The part of the capacity that is asked for; at least 1 may mean any overload.
    fn demand(&self) -> f64 {
        match (self.server.rate(), self.server.limit()) {
            (Some(rate), _) => self.meters.inbound() / rate,
            (None, Some(limit)) => self.meters.busy() / f64::from(limit),
            (None, None) => 0.0,
        }
    }

    /// How many requests come for each that the server takes: the papers' `r`, at least 1.
    ///
    /// It is the inbound rate over the capacity, which is known or measured as what the server does per part of its places
    /// that is busy. What is paid but buys nothing, by clients that leave or pay too much, would leave the server idle: in
    /// [`Mode::Priced`] the price is lower as the server is less busy.
    fn requests_per_place(&self) -> f64 {
        let (capacity, busy) = match (self.server.rate(), self.server.limit()) {
            (Some(rate), _) => (rate, self.meters.admitted() / rate),
            (None, Some(limit)) => {
                let busy = self.meters.busy() / f64::from(limit);
                (self.meters.done() / busy.max(BUSY_LEAST), busy)
            }
            (None, None) => return 1.0,
        };
        if capacity <= 0.0 {
            return 1.0;
        }
        let scale = if self.config.mode == Mode::Priced {
            busy.min(1.0)
        } else {
            1.0
        };
        (self.meters.inbound() / capacity * scale).max(1.0)
    }

    /// The draw of [`Mode::Random`] and [`Mode::Retry`] where the server has room.
    ///
    /// With a rate it is won with `C / inbound`, times twice the part of the burst that is left: around one half of it that
    /// factor is 1, and it corrects what the measured rate is off, so that what is admitted is `C`. With concurrent requests
    /// the server itself is the measure: whoever comes next takes a place that is free.
    fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> bool {
        let Server::Rate(bucket) = &self.server else {
            return true;
        };
        let headroom = 2.0 * bucket.headroom(self.now);
        random::unit(rng) * self.meters.inbound() < headroom * bucket.rate()
    }

    fn arrive<R: Rng + ?Sized>(&mut self, arrival: &Arrival, rng: &mut R) {
        if self.requests.find(arrival.request).is_some() {
            self.stats.ignored.duplicate_arrivals += 1;
            return;
        }
        self.stats.arrivals += 1;
        self.meters.note_inbound(1);
        let bid = match self.config.mode {
            Mode::Random | Mode::Queue => 0,
            // The request itself is one of those that it takes.
            Mode::Retry | Mode::Priced => arrival.paid.saturating_add(1),
            Mode::Auction | Mode::ProofOfWork => arrival.paid,
        };
        self.stats.brought = self.stats.brought.saturating_add(bid);
        let mut room = self.has_room();
        if !self.overloaded {
            if room {
                self.admit(arrival, bid);
                return;
            }
            self.overloaded = true;
            self.stats.overloads += 1;
            room = self.has_room();
        }
        let admitted = room
            && match self.config.mode {
                Mode::Random | Mode::Retry => self.contenders.is_empty() && self.draw(rng),
                Mode::Priced => self.eligible().is_none() && bid >= self.price(),
                Mode::Auction | Mode::ProofOfWork | Mode::Queue => self.contenders.is_empty(),
            };
        if admitted {
            self.admit(arrival, bid);
        } else if arrival.can_wait && self.config.mode.holds() {
            self.hold(arrival, bid);
        } else {
            let cause = match self.config.mode {
                Mode::Random | Mode::Retry => RefuseCause::Drawn,
                Mode::Priced if bid < self.price() => RefuseCause::Unpaid,
                Mode::Priced | Mode::Queue => RefuseCause::Crowded,
                Mode::Auction | Mode::ProofOfWork => RefuseCause::Outbid,
            };
            self.refuse(arrival.request, bid, cause);
        }
    }

    fn tracks_no_more(&self) -> bool {
        self.requests.len() >= self.config.contenders as usize + TRACKED_BEYOND as usize
    }

    /// Passes a newcomer on.
    fn admit(&mut self, arrival: &Arrival, bid: u64) {
        if self.tracks_no_more() {
            if self.server.rate().is_none() {
                self.refuse(arrival.request, bid, RefuseCause::Crowded);
                return;
            }
            self.stats.untracked += 1;
            self.server.start(self.now, false);
        } else {
            let slot = self.requests.insert(arrival, 0, State::Serving, self.now);
            self.serve(slot, false);
        }
        self.note_admitted(arrival.group, bid);
        self.outputs.push_back(Output::Admit {
            request: arrival.request,
            price: bid,
            waited: Span::ZERO,
        });
    }

    fn note_admitted(&mut self, group: Option<Identity>, price: u64) {
        if let Some(group) = group {
            self.fairness.note(self.now, group, price);
        }
        self.stats.admitted += 1;
        self.stats.spent = self.stats.spent.saturating_add(price);
        self.meters.note_admitted();
    }

    /// A request takes a place at the server.
    fn serve(&mut self, slot: Slot, waited: bool) {
        self.meters.note_service(self.now, self.in_service);
        self.in_service += 1;
        self.server.start(self.now, waited);
        self.running.push_back(&mut self.requests, slot);
    }

    /// A request gives its place at the server back.
    fn vacate(&mut self, latency: Span, outcome: Outcome) {
        self.meters.note_service(self.now, self.in_service);
        self.in_service -= 1;
        self.server.end(self.now, latency, outcome);
    }

    /// Lets a newcomer wait.
    fn hold(&mut self, arrival: &Arrival, bid: u64) {
        let queue = self.config.mode == Mode::Queue;
        let came = if queue {
            self.now.saturating_sub(Span::from_nanos(arrival.paid))
        } else {
            self.now
        };
        if self.contenders.len() >= self.config.contenders {
            let worst = self.contenders.worst().filter(|worst| {
                // In the queue all others keep their turn.
                !queue || self.requests.get(*worst).since > came
            });
            let Some(worst) = worst else {
                self.refuse(arrival.request, bid, RefuseCause::Crowded);
                return;
            };
            self.expel(worst, RefuseCause::Crowded);
        }
        if self.tracks_no_more() {
            self.refuse(arrival.request, bid, RefuseCause::Crowded);
            return;
        }
        self.stats.held += 1;
        let slot = self.requests.insert(arrival, bid, State::Waiting, self.now);
        self.requests.get_mut(slot).since = came;
        self.contenders
            .enter(&mut self.requests, slot, self.config.contenders);
        self.outputs.push_back(Output::Hold {
            request: arrival.request,
        });
    }

    fn refuse(&mut self, request: RequestKey, bid: u64, cause: RefuseCause) {
        self.stats.refused.note(cause);
        self.forfeit(bid);
        let at_once = matches!(self.config.mode, Mode::Retry | Mode::Priced);
        self.outputs.push_back(Output::Refuse {
            request,
            cause,
            retry_after: if at_once {
                Span::ZERO
            } else {
                self.config.retry_after
            },
            price: self.price(),
        });
    }

    fn forfeit(&mut self, units: u64) {
        self.stats.forfeited = self.stats.forfeited.saturating_add(units);
    }

    /// Turns a contender away, or takes a suspended one from the server.
    fn expel(&mut self, slot: Slot, cause: RefuseCause) {
        self.contenders.leave(&mut self.requests, slot);
        let request = self.requests.get_mut(slot);
        let (key, bid) = (request.key, request.bid);
        if request.state == State::Suspended {
            request.state = State::Discarded;
            self.abort(slot);
        } else {
            self.requests.remove(slot);
            self.refuse(key, bid, cause);
        }
    }

    fn abort(&mut self, slot: Slot) {
        let request = self.requests.get_mut(slot);
        let bid = core::mem::take(&mut request.bid);
        self.outputs.push_back(Output::Abort {
            request: request.key,
        });
        self.stats.aborted += 1;
        self.forfeit(bid);
    }

    /// Gives the server's free places to the best contenders.
    fn dispatch(&mut self) {
        while let Some(slot) = self.eligible().filter(|_| self.has_room()) {
            self.win(slot);
        }
    }

    /// A contender gets a place, and pays its bid.
    fn win(&mut self, slot: Slot) {
        self.contenders.leave(&mut self.requests, slot);
        let request = self.requests.get_mut(slot);
        let (key, group) = (request.key, request.group());
        let price = core::mem::take(&mut request.bid);
        let resumed = request.state == State::Suspended;
        let waited = self.now - request.arrived;
        request.state = State::Serving;
        request.since = self.now;
        self.serve(slot, true);
        if resumed {
            self.stats.resumed += 1;
            self.stats.spent = self.stats.spent.saturating_add(price);
            self.outputs.push_back(Output::Resume {
                request: key,
                price,
            });
        } else {
            self.note_admitted(group, price);
            self.outputs.push_back(Output::Admit {
                request: key,
                price,
                waited,
            });
        }
    }

    /// The SIGCOMM paper's rule for heterogeneous requests: who has paid more gets the next quantum.
    fn quantum_over(&mut self, active: Slot) {
        let best = self.contenders.best();
        let paid = self.requests.get(active).bid;
        self.running.remove(&mut self.requests, active);
        let Some(best) = best.filter(|best| self.requests.get(*best).bid > paid) else {
            self.stats.renewed += 1;
            self.stats.spent = self.stats.spent.saturating_add(paid);
            let request = self.requests.get_mut(active);
            request.bid = 0;
            request.since = self.now;
            self.running.push_back(&mut self.requests, active);
            return;
        };
        let request = self.requests.get_mut(active);
        if self.config.suspended.is_zero() {
            // Its place is free when the server has let go of it.
            request.state = State::Aborting;
            self.abort(active);
            return;
        }
        request.state = State::Suspended;
        request.since = self.now;
        let key = request.key;
        self.stats.suspended += 1;
        self.outputs.push_back(Output::Suspend { request: key });
        self.vacate(Span::ZERO, Outcome::Broken);
        if self.has_room() {
            self.win(best);
        }
        self.contenders
            .enter(&mut self.requests, active, self.config.contenders);
        // None has won if the capacity was lowered and others are in service still.
        if self.contenders.len() > self.config.contenders
            && let Some(worst) = self.contenders.worst()
        {
            self.expel(worst, RefuseCause::Crowded);
        }
    }

    fn pay(&mut self, key: RequestKey, units: u64) {
        let slot = self.requests.find(key).filter(|slot| {
            let state = self.requests.get(*slot).state;
            match state {
                State::Waiting | State::Suspended => self.config.mode.takes_payment(),
                State::Serving => self.config.quantum.is_some(),
                State::Aborting | State::Discarded => false,
            }
        });
        let Some(slot) = slot else {
            self.stats.ignored.late_payments += 1;
            return;
        };
        self.stats.paid = self.stats.paid.saturating_add(units);
        self.meters.note_units(units);
        let request = self.requests.get_mut(slot);
        request.bid = request.bid.saturating_add(units);
        if request.is_contender() {
            self.contenders.bid_changed(request, slot);
        }
        if self.config.mode == Mode::Priced {
            self.meters.note_inbound(units);
            self.dispatch();
        }
    }

    fn leave(&mut self, key: RequestKey) {
        let slot = self.requests.find(key);
        let Some(slot) = slot.filter(|slot| self.requests.get(*slot).state == State::Waiting)
        else {
            self.stats.ignored.late_leaves += 1;
            return;
        };
        self.contenders.leave(&mut self.requests, slot);
        self.stats.left += 1;
        self.forfeit(self.requests.get(slot).bid);
        self.requests.remove(slot);
    }

    fn done(&mut self, key: RequestKey, outcome: Outcome) {
        let slot = self.requests.find(key);
        let Some(slot) = slot.filter(|slot| self.requests.get(*slot).state != State::Waiting)
        else {
            self.stats.ignored.unknown_ends += 1;
            return;
        };
        self.stats.done.note(outcome);
        let request = self.requests.get(slot);
        let latency = self.now - request.since;
        match request.state {
            State::Serving => {
                self.running.remove(&mut self.requests, slot);
                self.vacate(latency, outcome);
                self.meters.note_done();
            }
            State::Aborting => self.vacate(latency, Outcome::Broken),
            State::Suspended => self.contenders.leave(&mut self.requests, slot),
            State::Discarded | State::Waiting => {}
        }
        self.forfeit(self.requests.get(slot).bid);
        self.requests.remove(slot);
        self.dispatch();
    }

    fn reconfigure(&mut self, config: Config) {
        if Self::check(&config).is_err() {
            self.stats.reconfigure_rejected += 1;
            return;
        }
        self.stats.reconfigured += 1;
        let old = core::mem::replace(&mut self.config, config);
        if self.config.capacity != old.capacity || self.config.burst != old.burst {
            self.server
                .reconfigure(&self.config, self.in_service, self.now);
            self.meters = Meters::new(self.server.rate(), self.now);
        }
        if self.config.mode != old.mode {
            self.contenders.rank_by_age(self.config.mode == Mode::Queue);
            self.drop_bids();
        }
        self.dispatch();
        self.advance(self.now);
    }

    /// What was paid in another currency buys nothing; contenders rank anew.
    fn drop_bids(&mut self) {
        let mut forfeited = 0_u64;
        let contenders: alloc::vec::Vec<Slot> = self.contenders.iter(&self.requests).collect();
        for slot in contenders {
            let request = self.requests.get_mut(slot);
            forfeited = forfeited.saturating_add(core::mem::take(&mut request.bid));
            self.contenders.bid_changed(request, slot);
        }
        self.forfeit(forfeited);
    }
}

impl StateMachine for Thinner {
    type Input = Input;
    type Output = Output;

    fn handle<R: Rng + ?Sized>(&mut self, now: Time, input: Input, rng: &mut R) {
        self.advance(now);
        match input {
            Input::Arrive(arrival) => self.arrive(&arrival, rng),
            Input::Pay { request, units } => self.pay(request, units),
            Input::Leave { request } => self.leave(request),
            Input::Done { request, outcome } => self.done(request, outcome),
            Input::Reconfigure(config) => self.reconfigure(*config),
        }
    }

    fn handle_deadline<R: Rng + ?Sized>(&mut self, now: Time, _rng: &mut R) {
        self.advance(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let tick = self.overloaded.then(|| self.meters.end());
        let due = self.next_due().map(|(time, _)| time);
        tick.into_iter().chain(due).min()
    }
}
