//! SeVen written down from the paper's definitions, with a plain list of calls and no care for speed: what the fast one is held to.
//!
//! Chance is left to an [`Oracle`], so that a test can let this machine follow the choices of the fast one and check all else.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

pub mod law;

use levee_policy::{
    Span, Time,
    selective::{
        Admit, Arrival, CallKey, CallState, Class, ClassId, Config, DropFactor, EvictCause,
        Forward, Input, Kind, Output, Phase, PhaseId, RefuseCause, Strategy,
    },
};
use rand_core::Rng;

/// A call that may become a victim.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub key: CallKey,
    pub factor: f64,
    pub state: CallState,
    /// Or the lag in its phase.
    pub age: Span,
    /// Weight and usual lag of its phase.
    pub phase: Option<(f64, Option<Span>)>,
}

impl Candidate {
    /// The paper's equation 1, times the class factor; in a phase the same with lag for age.
    pub fn drop_factor(&self, p: &DropFactor) -> f64 {
        let (usual, least, late) = match (self.phase, self.state) {
            (Some((weight, usual)), _) => (usual, weight, weight.max(p.waiting)),
            (None, CallState::InCall) => (Some(p.mean_call), p.in_call, p.waiting),
            (None, CallState::Waiting) => (None, p.waiting, p.waiting),
        };
        self.factor
            * match usual {
                Some(usual) if self.age > usual && p.scale == 0.0 => late,
                Some(usual) if self.age > usual => late + p.scale * self.growth(p).exp(),
                _ => least,
            }
    }

    fn growth(&self, p: &DropFactor) -> f64 {
        let usual = self.phase.map_or(p.mean_call, |(_, usual)| usual.unwrap());
        p.alpha * (self.age.as_secs_f64() / usual.as_secs_f64())
    }

    /// Its logarithm, for ages at which the float overflows.
    pub fn ln_drop_factor(&self, p: &DropFactor) -> f64 {
        let d = self.drop_factor(p);
        if d.is_finite() {
            return d.ln();
        }
        self.factor.ln() + p.scale.ln() + self.growth(p)
    }
}

/// All drop factors, as multiples of a common unit.
pub fn weights(calls: &[Candidate], p: &DropFactor) -> Vec<f64> {
    let plain: Vec<f64> = calls.iter().map(|call| call.drop_factor(p)).collect();
    if plain.iter().all(|d| *d < 1e250) {
        return plain;
    }
    let ln: Vec<f64> = calls.iter().map(|call| call.ln_drop_factor(p)).collect();
    let most = ln.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    ln.iter().map(|ln| (ln - most).exp()).collect()
}

/// The probability of each call to be the victim, from the definition of the strategy.
pub fn probabilities(
    strategy: Strategy,
    capacity: u32,
    calls: &[Candidate],
    p: &DropFactor,
) -> Vec<f64> {
    let m = calls.len();
    match strategy {
        Strategy::Uniform => vec![1.0 / m as f64; m],
        Strategy::Roulette => {
            let weights = weights(calls, p);
            let sum: f64 = weights.iter().sum();
            weights.iter().map(|weight| weight / sum).collect()
        }
        Strategy::Tournament { size } => {
            let n = (size.unwrap_or(capacity / 2).max(1) as usize).min(m);
            // A call loses if no entrant has more, and then with equal chance among the entrants that have the same.
            let ln: Vec<f64> = calls.iter().map(|call| call.ln_drop_factor(p)).collect();
            ln.iter()
                .map(|own| {
                    let above = ln.iter().filter(|other| *other > own).count();
                    let same = ln.iter().filter(|other| *other == own).count();
                    (none_of(m, n, above) - none_of(m, n, above + same)) / same as f64
                })
                .collect()
        }
    }
}

/// The probability that no entrant is among `above` given calls: `C(m - above, n) / C(m, n)`.
pub fn none_of(m: usize, n: usize, above: usize) -> f64 {
    if m - above < n {
        return 0.0;
    }
    (0..n)
        .map(|i| (m - above - i) as f64 / (m - i) as f64)
        .product()
}

/// Draws a victim as the strategy is defined, in `O(k)`.
pub fn draw<R: Rng>(
    strategy: Strategy,
    capacity: u32,
    calls: &[Candidate],
    p: &DropFactor,
    rng: &mut R,
) -> Option<usize> {
    if calls.is_empty() {
        return None;
    }
    match strategy {
        Strategy::Uniform => Some(below(rng, calls.len())),
        Strategy::Roulette => {
            let weights = weights(calls, p);
            let mut at = unit(rng) * weights.iter().sum::<f64>();
            for (index, weight) in weights.iter().enumerate() {
                at -= weight;
                if at < 0.0 {
                    return Some(index);
                }
            }
            Some(calls.len() - 1)
        }
        Strategy::Tournament { size } => {
            let n = (size.unwrap_or(capacity / 2).max(1) as usize).min(calls.len());
            let mut order: Vec<u32> = (0..calls.len() as u32).collect();
            for i in 0..n {
                let j = i + below(rng, order.len() - i);
                order.swap(i, j);
            }
            // The entrants stand in random order, so the first of the largest is any of them.
            let weights = weights(calls, p);
            let mut loser = order[0] as usize;
            for entrant in &order[..n] {
                if weights[*entrant as usize] > weights[loser] {
                    loser = *entrant as usize;
                }
            }
            Some(loser)
        }
    }
}

fn unit<R: Rng>(rng: &mut R) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn below<R: Rng>(rng: &mut R, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}

/// Who decides what the paper leaves to chance.
pub trait Oracle {
    /// Whether a newcomer with this `P1 = k / (k + PMod)` goes on.
    fn takes(&mut self, capacity: u32, pmod: u64) -> bool;
    /// Which of the calls is dropped, if there is one.
    fn victim(&mut self, calls: &[Candidate]) -> Option<usize>;
}

#[derive(Clone, Debug)]
struct Call {
    key: CallKey,
    class: ClassId,
    caller: Option<u64>,
    source: Option<u64>,
    arrived: Time,
    answered: Option<Time>,
    forwarded: bool,
    phase: PhaseId,
    /// Its lag is the time since then.
    reference: Time,
}

impl Call {
    fn state(&self) -> CallState {
        if self.answered.is_some() {
            CallState::InCall
        } else {
            CallState::Waiting
        }
    }
}

/// SeVen with its rivals, plainly.
pub struct Naive {
    pub capacity: u32,
    pub config: Config,
    now: Time,
    round: u64,
    pub pmod: u64,
    held: Vec<Call>,
    pub evicting: Vec<CallKey>,
    pending: Vec<CallKey>,
    queue_first: Vec<CallKey>,
    queue: Vec<CallKey>,
    pub outputs: Vec<Output>,
}

impl Naive {
    pub fn new(capacity: u32, config: Config) -> Self {
        Self {
            capacity,
            now: Time::ZERO,
            round: 0,
            pmod: config.pmod_start.into(),
            config,
            held: Vec::new(),
            evicting: Vec::new(),
            pending: Vec::new(),
            queue_first: Vec::new(),
            queue: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Key, state and age of all held calls.
    pub fn held(&self) -> Vec<(CallKey, CallState, Span)> {
        self.held
            .iter()
            .map(|call| (call.key, call.state(), self.now - call.arrived))
            .collect()
    }

    pub fn in_service(&self) -> usize {
        self.held.iter().filter(|call| call.forwarded).count() + self.evicting.len()
    }

    pub fn candidates(&self) -> Vec<Candidate> {
        let candidate = |call: &Call| {
            let class = self.class(call.class);
            (!class.is_some_and(|class| class.exempt)).then(|| Candidate {
                key: call.key,
                factor: class.map_or(1.0, |class| class.factor),
                state: call.state(),
                age: self.now
                    - if self.config.phases.is_empty() {
                        call.arrived
                    } else {
                        call.reference
                    },
                phase: self.phase(call.phase).map(|p| (p.weight, p.usual)),
            })
        };
        self.held.iter().filter_map(candidate).collect()
    }

    pub fn deadline(&self) -> Option<Time> {
        let round_end = Time::from_nanos((self.round + 1) * self.config.round.as_nanos());
        let cap = self
            .cap()
            .and_then(|cap| self.capped().map(|call| call.answered.unwrap() + cap).min());
        (!self.pending.is_empty())
            .then_some(round_end)
            .into_iter()
            .chain(cap)
            .min()
    }

    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        let round = self.now.as_nanos() / self.config.round.as_nanos();
        if round != self.round {
            self.round = round;
            self.pmod = self.config.pmod_start.into();
            let survivors = std::mem::take(&mut self.pending);
            self.queue.extend(survivors);
            self.dispatch();
        }
        let Some(cap) = self.cap() else { return };
        let mut due: Vec<(Time, CallKey)> = self
            .capped()
            .map(|call| (call.answered.unwrap() + cap, call.key))
            .collect();
        due.retain(|(time, _)| *time <= self.now);
        // Stable: equal times stay in the order of the list, which the caller does not rely on.
        due.sort_by_key(|(time, _)| *time);
        for (_, key) in due {
            self.evict(key, EvictCause::MaxDuration);
        }
    }

    pub fn handle(&mut self, now: Time, input: &Input, oracle: &mut impl Oracle) {
        self.advance(now);
        match input {
            Input::Arrive(arrival) => self.arrive(arrival, oracle),
            Input::Answered { call } => {
                let now = self.now;
                if let Some(call) = self.held.iter_mut().find(|held| held.key == *call)
                    && call.forwarded
                    && call.answered.is_none()
                {
                    call.answered = Some(now);
                }
            }
            Input::Enter { call, phase } => {
                let Some(reference) = self.phase(*phase).map(|p| self.entered(p)) else {
                    return;
                };
                if let Some(call) = self.held.iter_mut().find(|held| held.key == *call) {
                    (call.phase, call.reference) = (*phase, reference);
                }
            }
            Input::Progress { call, units } => {
                let Some(index) = self.held.iter().position(|held| held.key == *call) else {
                    return;
                };
                let rate = self.phase(self.held[index].phase).map_or(0.0, |p| p.rate);
                if rate > 0.0 {
                    let earned = Span::from_secs_f64(*units as f64 / rate).unwrap_or(Span::MAX);
                    let reference = &mut self.held[index].reference;
                    *reference = reference.saturating_add(earned).min(self.now);
                }
            }
            Input::Ended { call } => {
                self.forget(*call);
                self.held.retain(|held| held.key != *call);
                self.evicting.retain(|key| key != call);
                self.dispatch();
            }
            Input::Reconfigure { capacity, config } => self.reconfigure(*capacity, config),
        }
    }

    fn arrive(&mut self, arrival: &Arrival, oracle: &mut impl Oracle) {
        if self.held.iter().any(|call| call.key == arrival.call)
            || self.evicting.contains(&arrival.call)
        {
            return;
        }
        let class = if usize::from(arrival.class.0) > self.config.classes.len() {
            ClassId::DEFAULT
        } else {
            arrival.class
        };
        let phase = self
            .phase(arrival.phase)
            .map_or(PhaseId(0), |_| arrival.phase);
        let call = Call {
            phase,
            reference: self.phase(phase).map_or(self.now, |p| self.entered(p)),
            key: arrival.call,
            class,
            caller: arrival.caller.map(|id| id.0),
            source: arrival.source.map(|id| id.0),
            arrived: self.now,
            answered: None,
            forwarded: false,
        };
        let always = self.always(class);
        if let Some(cause) = self.over_limit(&call).filter(|_| !always) {
            return self.refuse(call.key, cause);
        }
        if self.config.kind == Kind::None || self.held.len() < self.capacity as usize {
            return self.admit(call);
        }
        let pmod = self.pmod;
        self.pmod += 1;
        let seven = self.config.kind == Kind::Seven;
        if seven && !always && !oracle.takes(self.capacity, pmod) {
            return self.refuse(call.key, RefuseCause::Overload);
        }
        let candidates = if seven { self.candidates() } else { Vec::new() };
        if let Some(victim) = oracle.victim(&candidates) {
            self.evict(
                candidates[victim].key,
                EvictCause::Displaced { by: call.key },
            );
            self.admit(call);
        } else if always {
            self.outputs.push(Output::Forward { call: call.key });
            self.held.push(Call {
                forwarded: true,
                ..call
            });
        } else {
            self.refuse(
                call.key,
                if seven {
                    RefuseCause::NoVictim
                } else {
                    RefuseCause::Full
                },
            );
        }
    }

    fn admit(&mut self, call: Call) {
        let list = match self.config.forward {
            _ if self.always(call.class) => &mut self.queue_first,
            Forward::Immediate => &mut self.queue,
            Forward::RoundEnd => &mut self.pending,
        };
        list.push(call.key);
        self.held.push(call);
        self.dispatch();
    }

    fn dispatch(&mut self) {
        while self.config.kind == Kind::None || self.in_service() < self.capacity as usize {
            let list = if self.queue_first.is_empty() {
                &mut self.queue
            } else {
                &mut self.queue_first
            };
            if list.is_empty() {
                return;
            }
            let key = list.remove(0);
            self.held
                .iter_mut()
                .find(|call| call.key == key)
                .unwrap()
                .forwarded = true;
            self.outputs.push(Output::Forward { call: key });
        }
    }

    fn evict(&mut self, key: CallKey, cause: EvictCause) {
        let index = self.held.iter().position(|call| call.key == key).unwrap();
        let call = self.held.remove(index);
        self.forget(key);
        let (state, age, forwarded) = (call.state(), self.now - call.arrived, call.forwarded);
        let phase = call.phase;
        self.outputs.push(Output::Evict {
            call: key,
            state,
            phase,
            age,
            forwarded,
            cause,
        });
        if forwarded {
            self.evicting.push(key);
        }
    }

    fn forget(&mut self, key: CallKey) {
        for list in [&mut self.pending, &mut self.queue_first, &mut self.queue] {
            list.retain(|other| *other != key);
        }
    }

    fn refuse(&mut self, call: CallKey, cause: RefuseCause) {
        self.outputs.push(Output::Refuse {
            call,
            cause,
            retry_after: self.config.retry_after,
        });
    }

    fn reconfigure(&mut self, capacity: u32, config: &Config) {
        if config.validate_for(capacity).is_err() {
            return;
        }
        let old = std::mem::replace(&mut self.config, config.clone());
        self.capacity = capacity;
        for index in 0..self.held.len() {
            let call = &self.held[index];
            let class = usize::from(call.class.0).checked_sub(1);
            let exempt = class.is_some_and(|class| old.classes[class].exempt);
            let name = old.phases.get(usize::from(call.phase.0)).map(|p| &p.name);
            let kept = name.and_then(|name| config.phase_id(name));
            let phase = kept.unwrap_or(PhaseId(0));
            // The progress of an exempt call is not followed.
            let reference = if kept.is_some() && !exempt {
                call.reference
            } else {
                self.phase(phase).map_or(self.now, |p| self.entered(p))
            };
            let call = &mut self.held[index];
            (call.phase, call.reference) = (phase, reference);
        }
        for call in &mut self.held {
            let name = old.class_name(call.class).unwrap();
            call.class = config.class_id(name).unwrap_or_default();
        }
        let queued: Vec<CallKey> = [&mut self.queue_first, &mut self.queue]
            .into_iter()
            .flat_map(std::mem::take)
            .collect();
        let pending = std::mem::take(&mut self.pending);
        for (key, was_pending) in queued
            .into_iter()
            .map(|key| (key, false))
            .chain(pending.into_iter().map(|key| (key, true)))
        {
            let class = self.held.iter().find(|call| call.key == key).unwrap().class;
            let list = match config.forward {
                _ if self.always(class) => &mut self.queue_first,
                Forward::RoundEnd if was_pending => &mut self.pending,
                _ => &mut self.queue,
            };
            list.push(key);
        }
        self.round = self.now.as_nanos() / config.round.as_nanos();
        self.pmod = config.pmod_start.into();
        self.dispatch();
        self.advance(self.now);
    }

    fn over_limit(&self, call: &Call) -> Option<RefuseCause> {
        let reached = |limit: Option<u32>, id: Option<u64>, of: fn(&Call) -> Option<u64>| {
            limit.is_some_and(|limit| {
                id.is_some()
                    && self.held.iter().filter(|held| of(held) == id).count() >= limit as usize
            })
        };
        if reached(self.config.calls_per_caller, call.caller, |call| {
            call.caller
        }) {
            Some(RefuseCause::CallerLimit)
        } else if reached(self.config.calls_per_source, call.source, |call| {
            call.source
        }) {
            Some(RefuseCause::SourceLimit)
        } else {
            None
        }
    }

    fn cap(&self) -> Option<Span> {
        self.config
            .max_duration
            .and_then(|cap| cap.span(self.config.drop_factor.mean_call))
    }

    fn capped(&self) -> impl Iterator<Item = &Call> {
        let exempt = |call: &Call| self.class(call.class).is_some_and(|class| class.exempt);
        self.held
            .iter()
            .filter(move |call| call.answered.is_some() && !exempt(call))
    }

    fn class(&self, class: ClassId) -> Option<&Class> {
        self.config
            .classes
            .get(usize::from(class.0).checked_sub(1)?)
    }

    fn phase(&self, phase: PhaseId) -> Option<&Phase> {
        self.config.phases.get(usize::from(phase.0))
    }

    fn entered(&self, phase: &Phase) -> Time {
        self.now.saturating_sub(phase.behind)
    }

    /// Key, phase and lag of all held calls that are not exempt.
    pub fn lags(&self) -> Vec<(CallKey, PhaseId, Span)> {
        let exempt = |call: &&Call| !self.class(call.class).is_some_and(|class| class.exempt);
        let lag = |call: &Call| (call.key, call.phase, self.now - call.reference);
        self.held.iter().filter(exempt).map(lag).collect()
    }

    fn always(&self, class: ClassId) -> bool {
        self.class(class)
            .is_some_and(|class| class.admit == Admit::Always)
    }
}
