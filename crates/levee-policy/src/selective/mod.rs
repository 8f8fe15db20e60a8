//! SeVen: a selective defence of a server that can hold at most `k` calls.
//!
//! While there is room, calls pass. When the table is full, SeVen does not simply turn newcomers away, for then whoever holds calls the
//! longest, an attacker, owns the server. It counts the arrivals at a full table in rounds of `T_S` (`PMod`), takes a newcomer
//! with `P1 = k / (k + PMod)`, and drops a held call for it, chosen by a [`Strategy`] among the calls weighted by their [`DropFactor`].
//! The paper is "On the Accuracy of Formal Verification of Selective Defenses for TDoS Attacks".
//!
//! Where a protocol says more than WAITING and INCALL, a configuration has [phases](Config::phases): a connection is then weighed by its
//! phase and its progress there ([`Input::Enter`], [`Input::Progress`]), and all else is the same. [`phases_of_http`] are those of HTTP,
//! against Slowloris, slow POST and slow read.
//!
//! # Words
//!
//! - *held*, *in the table*: admitted and neither ended nor dropped; WAITING, then INCALL. *Full*: `k` calls are held.
//! - *slot*: what a call takes up at the server, from [`Output::Forward`] to [`Input::Ended`].
//! - *evicting*: dropped from the table, but its slot is not free yet.
//!
//! # From the table to the server
//!
//! A victim leaves the table at once, but its slot is free only when the server has let go of it, which the front reports
//! by [`Input::Ended`]. Until then the newcomer is held without a slot. Slots are alike: whichever frees first goes to the
//! call that waits longest, calls of an always-admitted class before others. So never more than `k` slots are taken, but
//! for [`Stats::over_capacity`] calls, for [`Kind::None`], and while the calls of a larger capacity or another kind drain
//! after a reconfiguration.
//!
//! A victim that was not passed on yet ([`Output::Evict`] with `forwarded: false`) holds no slot. The front answers it 503
//! and reports nothing; an [`Input::Ended`] of it is ignored.
//!
//! # Order of the checks
//!
//! An arrival is first held against the limits of calls per caller and source; one that they refuse does not count in `PMod`. At
//! a full table every other arrival counts in `PMod`; then `P1` is drawn, then the victim. Always-admitted classes skip
//! limits and `P1`, not the victim.
//!
//! # What it leaves out
//!
//! What a call is, how it is told apart from a retransmission, and how it is ended: the front's business. Who is honest:
//! nobody's.

mod band;
mod calls;
mod config;
mod drop_factor;
mod limits;
mod phase;
mod rank_tree;
mod ranked_set;
mod round;
mod stats;
mod strategy;
mod table;

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

use rand_core::Rng;
use serde::{Deserialize, Serialize};

use self::{
    calls::{Calls, List, Slot, Stage},
    limits::Limits,
    round::Round,
    table::Table,
};
pub use self::{
    config::{
        ALPHA_MAX, Admit, BANDS_MAX, CAPACITY_MAX, CLASSES_MAX, Class, Config, Forward, Kind,
        MaxDuration, PMOD_START, RETRY_AFTER, ROUND, Strategy, WEIGHT_MAX, WEIGHT_MIN,
    },
    drop_factor::{ALPHA, DropFactor, IN_CALL, MEAN_CALL, SCALE, WAITING},
    phase::{PHASES_MAX, Phase, PhaseId, RATE_MAX, RATE_MIN, phases_of_http},
    stats::{Evicted, Ignored, Refused, Stats},
};
pub use crate::{ConfigError, Identity};
use crate::{Span, StateMachine, Time};

/// How many calls are tracked at most beyond twice the capacity (those held and those being evicted): with [`Kind::None`], or
/// of always-admitted classes. Any further one is passed on and counted, but not followed. About 100 MB (our choice).
pub const TRACKED_BEYOND: u32 = 1 << 20;

/// Names a call between the front and the defence. The front chooses it, unique among the calls that it has not reported
/// ended and was not told to refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallKey(pub u64);

/// A class of calls: 0 is the built-in one, `i` is entry `i - 1` of [`Config::classes`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ClassId(pub u16);

impl ClassId {
    /// The built-in class: factor 1, not exempt, may be refused.
    pub const DEFAULT: Self = Self(0);
}

/// A new call that asks to come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrival {
    /// Its name from now on.
    pub call: CallKey,
    /// Its class.
    #[serde(default)]
    pub class: ClassId,
    /// The phase that it begins with.
    #[serde(default, skip_serializing_if = "PhaseId::is_first")]
    pub phase: PhaseId,
    /// Who calls, if that is known: an authenticated user or a trunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Identity>,
    /// Where it comes from, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Identity>,
}

/// What the front reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Input {
    /// A new call asks to come in.
    Arrive(Arrival),
    /// A call was connected (its 2xx was ACKed): WAITING becomes INCALL. The drop factor of a call in a phase does not look at that.
    Answered {
        /// Which.
        call: CallKey,
    },
    /// A call begins a phase, from now and with no progress; it may be the one that it is in.
    Enter {
        /// Which.
        call: CallKey,
        /// The phase.
        phase: PhaseId,
    },
    /// Something came through in the phase of a call.
    Progress {
        /// Which.
        call: CallKey,
        /// How much since the last report: bytes, for [`phases_of_http`].
        units: u64,
    },
    /// A call is over and its slot at the server is free: it ended, failed, or its eviction is done.
    Ended {
        /// Which.
        call: CallKey,
    },
    /// From now on with this capacity and configuration. All calls are kept; a table that holds more than the new capacity just stays
    /// full until it has drained. Held calls keep their class by its name, or fall to the built-in one. `PMod` starts anew. One that
    /// [`Selective::check`] refuses is counted and has no effect.
    Reconfigure {
        /// `k`.
        capacity: u32,
        /// The `[defense]` table.
        config: Box<Config>,
    },
}

/// State of a held call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// From INVITE to the ACK of its 2xx.
    Waiting,
    /// After that.
    InCall,
}

/// What the front must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Output {
    /// Pass a call on to the server.
    Forward {
        /// Which.
        call: CallKey,
    },
    /// Turn a newcomer away; it was never held.
    Refuse {
        /// Which.
        call: CallKey,
        /// Why.
        cause: RefuseCause,
        /// When it may try again.
        retry_after: Span,
    },
    /// Drop a held call. If it was forwarded, report [`Input::Ended`] once its slot is free.
    Evict {
        /// Which.
        call: CallKey,
        /// Its state, which says how to end it.
        state: CallState,
        /// Its phase; 0 if there are none.
        #[serde(default, skip_serializing_if = "PhaseId::is_first")]
        phase: PhaseId,
        /// Since its arrival.
        age: Span,
        /// Whether it was passed on, and so holds a slot.
        forwarded: bool,
        /// Why.
        cause: EvictCause,
    },
}

/// Why a newcomer was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefuseCause {
    /// The table is full and it lost the draw for `P1`.
    Overload,
    /// The table is full and the kind is [`Kind::Refuse`].
    Full,
    /// The table is full of exempt calls.
    NoVictim,
    /// Its caller holds `calls_per_caller` calls.
    CallerLimit,
    /// Its source holds `calls_per_source` calls.
    SourceLimit,
}

/// Why a held call was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EvictCause {
    /// For a newcomer.
    Displaced {
        /// The newcomer.
        by: CallKey,
    },
    /// It was INCALL for `max_duration`.
    MaxDuration,
}

/// The selective defence of one server. Its contract is [`StateMachine`]'s.
#[derive(Clone, Debug)]
pub struct Selective {
    capacity: u32,
    config: Config,
    now: Time,
    round: Round,
    calls: Calls,
    table: Table,
    limits: Limits,
    max_duration: limits::MaxDuration,
    /// Held for the end of the round.
    pending: List,
    /// Held for a slot, always-admitted classes.
    queue_first: List,
    /// Held for a slot, all others.
    queue: List,
    in_service: u32,
    evicting: u32,
    outputs: VecDeque<Output>,
    stats: Stats,
}

/// What becomes of a newcomer that the table cannot simply take in.
enum AtFull {
    Refuse(RefuseCause),
    Replace(Slot),
    OverCapacity,
}

impl Selective {
    /// An empty table of this capacity `k`.
    ///
    /// # Errors
    ///
    /// What [`check`](Self::check) finds.
    pub fn new(capacity: u32, config: Config) -> Result<Self, ConfigError> {
        Self::check(capacity, &config)?;
        Ok(Self {
            capacity,
            now: Time::ZERO,
            round: Round::new(config.round, config.pmod_start, Time::ZERO),
            calls: Calls::default(),
            table: Table::new(&config),
            limits: Limits::new(&config),
            max_duration: limits::MaxDuration::new(&config),
            pending: List::EMPTY,
            queue_first: List::EMPTY,
            queue: List::EMPTY,
            in_service: 0,
            evicting: 0,
            outputs: VecDeque::new(),
            stats: Stats::default(),
            config,
        })
    }

    /// Forgets all calls, counts and times, and keeps the memory: as good as a new one of this capacity and configuration.
    pub fn restart(&mut self) {
        self.now = Time::ZERO;
        self.round = Round::new(self.config.round, self.config.pmod_start, Time::ZERO);
        self.calls.clear();
        self.table.clear();
        self.limits.clear();
        self.max_duration = limits::MaxDuration::new(&self.config);
        (self.pending, self.queue_first, self.queue) = (List::EMPTY, List::EMPTY, List::EMPTY);
        self.in_service = 0;
        self.evicting = 0;
        self.outputs.clear();
        self.stats = Stats::default();
    }

    /// Whether a defence can run with this.
    ///
    /// # Errors
    ///
    /// The first key that is out of its range.
    pub fn check(capacity: u32, config: &Config) -> Result<(), ConfigError> {
        config.validate_for(capacity)
    }

    /// Held calls that are WAITING.
    #[must_use]
    pub fn calls_waiting(&self) -> u32 {
        self.table.waiting()
    }

    /// Held calls that are INCALL.
    #[must_use]
    pub fn calls_in_call(&self) -> u32 {
        self.table.in_call()
    }

    /// Calls in the table, WAITING or INCALL.
    #[must_use]
    pub fn calls_held(&self) -> u32 {
        self.table.held()
    }

    /// Calls in the table that are in this phase.
    #[must_use]
    pub fn calls_in_phase(&self, phase: PhaseId) -> u32 {
        self.table.in_phase(phase)
    }

    /// Dropped calls whose slot is not free yet.
    #[must_use]
    pub fn calls_evicting(&self) -> u32 {
        self.evicting
    }

    /// Held calls that are not passed on yet: they wait for the end of the round or for a slot.
    #[must_use]
    pub fn calls_queued(&self) -> u32 {
        self.pending.len() + self.queue_first.len() + self.queue.len()
    }

    /// Slots taken at the server.
    #[must_use]
    pub fn in_service(&self) -> u32 {
        self.in_service
    }

    /// `PMod` of the round of the last input.
    #[must_use]
    pub fn pmod(&self) -> u64 {
        self.round.pmod()
    }

    /// `k`.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
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

    /// State and age of a held call at the time of the last input; `None` if it is not held.
    #[must_use]
    pub fn held(&self, call: CallKey) -> Option<(CallState, Span)> {
        let call = self.calls.get(self.calls.find(call)?);
        call.is_held()
            .then(|| (call.state, self.now - call.arrived))
    }

    /// The phase of a held call, and how far behind it is at the time of the last input: no time for an exempt one, or without
    /// phases.
    #[must_use]
    pub fn phase(&self, call: CallKey) -> Option<(PhaseId, Option<Span>)> {
        let call = self.calls.get(self.calls.find(call)?);
        let reference = || {
            self.table
                .reference(call)
                .filter(|_| !self.config.phases.is_empty())
        };
        call.is_held()
            .then(|| (call.phase, reference().map(|since| self.now - since)))
    }

    /// Whether a call was passed on and its slot is not free yet; `None` if it is unknown.
    #[must_use]
    pub fn holds_slot(&self, call: CallKey) -> Option<bool> {
        Some(self.calls.get(self.calls.find(call)?).in_service())
    }

    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        if let Some(ended) = self.round.advance(self.now) {
            self.stats.rounds += u64::from(ended.busy);
            self.stats.rounds_overloaded += u64::from(ended.overloaded);
            self.release_pending();
        }
        while let Some(slot) = self.max_duration.due(&self.calls, self.now) {
            self.evict(slot, EvictCause::MaxDuration);
        }
    }

    /// The round is over: its survivors may go.
    fn release_pending(&mut self) {
        while let Some(slot) = self.pending.pop_front(&mut self.calls) {
            self.calls.get_mut(slot).stage = Stage::Queued;
            self.queue.push_back(&mut self.calls, slot);
        }
        self.dispatch();
    }

    /// Passes queued calls on while there are slots.
    fn dispatch(&mut self) {
        while self.config.kind == Kind::None || self.in_service < self.capacity {
            let first = self.queue_first.pop_front(&mut self.calls);
            let Some(slot) = first.or_else(|| self.queue.pop_front(&mut self.calls)) else {
                return;
            };
            self.forward(slot);
        }
    }

    fn forward(&mut self, slot: Slot) {
        let call = self.calls.get_mut(slot);
        call.stage = Stage::Forwarded;
        self.in_service += 1;
        self.stats.forwarded += 1;
        self.outputs.push_back(Output::Forward { call: call.key });
    }

    fn arrive<R: Rng + ?Sized>(&mut self, mut arrival: Arrival, rng: &mut R) {
        if self.calls.find(arrival.call).is_some() {
            self.stats.ignored.duplicate_arrivals += 1;
            return;
        }
        self.stats.arrivals += 1;
        self.round.note_arrival();
        if usize::from(arrival.class.0) > self.config.classes.len() {
            self.stats.ignored.unknown_classes += 1;
            arrival.class = ClassId::DEFAULT;
        }
        if usize::from(arrival.phase.0) >= self.phases() {
            self.stats.ignored.unknown_phases += 1;
            arrival.phase = PhaseId::default();
        }
        let always = self.is_always(arrival.class);
        if !always && let Some(cause) = self.limits.check(&arrival) {
            self.refuse(arrival.call, cause);
            return;
        }
        if self.config.kind == Kind::None || self.table.held() < self.capacity {
            self.admit(&arrival);
            return;
        }
        match self.at_full(always, rng) {
            AtFull::Refuse(cause) => self.refuse(arrival.call, cause),
            AtFull::Replace(victim) => {
                self.evict(victim, EvictCause::Displaced { by: arrival.call });
                self.admit(&arrival);
            }
            AtFull::OverCapacity => {
                self.stats.over_capacity += 1;
                if let Some(slot) = self.hold(&arrival) {
                    self.forward(slot);
                }
            }
        }
    }

    fn at_full<R: Rng + ?Sized>(&mut self, always: bool, rng: &mut R) -> AtFull {
        let taken = match self.config.kind {
            Kind::Seven if !always => {
                self.stats.p1_used += 1;
                self.round.draw_p1(self.capacity, rng)
            }
            _ => true,
        };
        self.round.note_overload();
        if !taken {
            return AtFull::Refuse(RefuseCause::Overload);
        }
        let victim = if self.config.kind == Kind::Seven {
            self.draw_victim(rng)
        } else {
            None
        };
        match victim {
            Some(victim) => AtFull::Replace(victim),
            None if always => AtFull::OverCapacity,
            None if self.config.kind == Kind::Seven => AtFull::Refuse(RefuseCause::NoVictim),
            None => AtFull::Refuse(RefuseCause::Full),
        }
    }

    fn draw_victim<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Option<Slot> {
        self.table.promote(self.now);
        let victim = strategy::victim(
            self.config.strategy,
            self.capacity,
            &self.table,
            self.now,
            rng,
        );
        self.stats.p2_used += u64::from(victim.is_some());
        victim
    }

    fn refuse(&mut self, call: CallKey, cause: RefuseCause) {
        self.stats.refused.note(cause);
        self.outputs.push_back(Output::Refuse {
            call,
            cause,
            retry_after: self.config.retry_after,
        });
    }

    /// Takes a newcomer in, and passes it on when its turn comes.
    fn admit(&mut self, arrival: &Arrival) {
        let always = self.is_always(arrival.class);
        let Some(slot) = self.hold(arrival) else {
            return;
        };
        let (stage, list) = match self.config.forward {
            _ if always => (Stage::Queued, &mut self.queue_first),
            Forward::Immediate => (Stage::Queued, &mut self.queue),
            Forward::RoundEnd => (Stage::Pending, &mut self.pending),
        };
        self.calls.get_mut(slot).stage = stage;
        list.push_back(&mut self.calls, slot);
        self.dispatch();
    }

    /// Puts a newcomer in the table. One call too many to be tracked is passed on there and then.
    fn hold(&mut self, arrival: &Arrival) -> Option<Slot> {
        let most = u64::from(self.capacity) * 2 + u64::from(TRACKED_BEYOND);
        self.stats.admitted += 1;
        if self.calls.len() as u64 >= most {
            self.stats.untracked += 1;
            self.stats.forwarded += 1;
            self.outputs
                .push_back(Output::Forward { call: arrival.call });
            return None;
        }
        let slot = self.calls.insert(arrival, self.now);
        self.limits.enter(self.calls.get(slot));
        let reference = self.entered(arrival.phase);
        self.table.push(&mut self.calls, slot, reference);
        Some(slot)
    }

    fn answered(&mut self, key: CallKey) {
        let Some(slot) = self
            .calls
            .find(key)
            .filter(|slot| self.calls.get(*slot).is_held())
        else {
            self.stats.ignored.late_answers += 1;
            return;
        };
        let call = self.calls.get_mut(slot);
        if call.stage != Stage::Forwarded || call.state == CallState::InCall {
            self.stats.ignored.untimely_answers += 1;
            return;
        }
        let class = call.class;
        call.answered = self.now;
        self.table.answer(call, self.now);
        self.stats.answered += 1;
        if !self.is_exempt(class) {
            self.max_duration.enter(&mut self.calls, slot);
        }
    }

    /// The call that a report on phases is about.
    fn in_phase(&mut self, key: CallKey, phase: PhaseId) -> Option<Slot> {
        if usize::from(phase.0) >= self.config.phases.len() {
            self.stats.ignored.unknown_phases += 1;
            return None;
        }
        let held = |slot: &Slot| self.calls.get(*slot).is_held();
        let slot = self.calls.find(key).filter(held);
        self.stats.ignored.late_phases += u64::from(slot.is_none());
        slot
    }

    fn enter(&mut self, key: CallKey, phase: PhaseId) {
        if let Some(slot) = self.in_phase(key, phase) {
            let reference = self.entered(phase);
            self.table.enter(&mut self.calls, slot, phase, reference);
        }
    }

    fn progress(&mut self, key: CallKey, units: u64) {
        let Some(slot) = self.in_phase(key, PhaseId::default()) else {
            return;
        };
        let call = self.calls.get(slot);
        let Some(reference) = self.table.reference(call) else {
            return;
        };
        let phase = &self.config.phases[usize::from(call.phase.0)];
        let moved = phase.progressed(reference, units, self.now);
        if moved != reference {
            self.table.set_reference(&mut self.calls, slot, moved);
        }
    }

    /// The reference time of a call that enters this phase now.
    fn entered(&self, phase: PhaseId) -> Time {
        let phase = self.config.phases.get(usize::from(phase.0));
        phase.map_or(self.now, |phase| phase.entered(self.now))
    }

    /// How many phases there are to be in.
    fn phases(&self) -> usize {
        self.config.phases.len().max(1)
    }

    fn ended(&mut self, key: CallKey) {
        let Some(slot) = self.calls.find(key) else {
            self.stats.ignored.unknown_ends += 1;
            return;
        };
        let call = self.calls.get(slot);
        if call.in_service() {
            self.in_service -= 1;
        }
        if call.is_held() {
            self.stats.ended += 1;
            self.leave(slot);
        } else {
            self.stats.evictions_done += 1;
            self.evicting -= 1;
        }
        self.calls.remove(slot);
        self.dispatch();
    }

    /// Drops a held call. Its record stays while it holds a slot.
    fn evict(&mut self, slot: Slot, cause: EvictCause) {
        self.leave(slot);
        let call = self.calls.get_mut(slot);
        let (state, phase) = (call.state, call.phase);
        let forwarded = call.stage == Stage::Forwarded;
        self.stats.evicted.note(state, phase, cause);
        let age = self.now - call.arrived;
        self.outputs.push_back(Output::Evict {
            call: call.key,
            state,
            phase,
            age,
            forwarded,
            cause,
        });
        if forwarded {
            call.stage = Stage::Evicting;
            self.evicting += 1;
        } else {
            self.stats.evicted_unforwarded += 1;
            self.calls.remove(slot);
        }
    }

    /// Takes a held call out of the table and out of all counts and lists.
    fn leave(&mut self, slot: Slot) {
        let call = self.calls.get(slot);
        self.table.remove(call);
        if self.limits.any() {
            self.limits.leave(self.calls.get(slot));
        }
        let (class, stage, state) = (call.class, call.stage, call.state);
        match stage {
            Stage::Pending => self.pending.remove(&mut self.calls, slot),
            Stage::Queued if self.is_always(class) => {
                self.queue_first.remove(&mut self.calls, slot);
            }
            Stage::Queued => self.queue.remove(&mut self.calls, slot),
            Stage::Forwarded if state == CallState::InCall && !self.is_exempt(class) => {
                self.max_duration.leave(&mut self.calls, slot);
            }
            Stage::Forwarded | Stage::Evicting => {}
        }
    }

    fn reconfigure(&mut self, capacity: u32, config: Config) {
        if Self::check(capacity, &config).is_err() {
            self.stats.reconfigure_rejected += 1;
            return;
        }
        self.stats.reconfigured += 1;
        // Queued calls in their order, before the classes change.
        let mut queued = Vec::new();
        for list in [&mut self.queue_first, &mut self.queue, &mut self.pending] {
            while let Some(slot) = list.pop_front(&mut self.calls) {
                queued.push(slot);
            }
        }
        let classes: Vec<ClassId> = (0..=self.config.classes.len() as u16)
            .map(|id| {
                self.config
                    .class_name(ClassId(id))
                    .and_then(|name| config.class_id(name))
                    .unwrap_or_default()
            })
            .collect();
        let phases: Vec<Option<PhaseId>> = self
            .config
            .phases
            .iter()
            .map(|phase| config.phase_id(&phase.name))
            .collect();
        self.capacity = capacity;
        self.config = config;
        self.round = Round::new(self.config.round, self.config.pmod_start, self.now);
        self.rebuild(&classes, &phases);
        for slot in queued {
            self.requeue(slot);
        }
        self.dispatch();
        self.advance(self.now);
    }

    /// Sets up table, limits and cap anew from the records, with classes and phases by their old ids.
    fn rebuild(&mut self, classes: &[ClassId], phases: &[Option<PhaseId>]) {
        let old = core::mem::replace(&mut self.table, Table::new(&self.config));
        self.limits = Limits::new(&self.config);
        self.max_duration = limits::MaxDuration::new(&self.config);
        let mut held = self.calls.held_by_arrival();
        for slot in held.iter().copied() {
            let call = self.calls.get_mut(slot);
            let phase = phases.get(usize::from(call.phase.0)).copied().flatten();
            // What is new to its phase begins it now.
            let reference = phase.and_then(|_| old.reference(call));
            let phase = phase.unwrap_or_default();
            call.phase = phase;
            call.class = classes
                .get(usize::from(call.class.0))
                .copied()
                .unwrap_or_default();
            self.limits.enter(self.calls.get(slot));
            let reference = reference.unwrap_or_else(|| self.entered(phase));
            self.table.push(&mut self.calls, slot, reference);
        }
        held.sort_by_key(|slot| self.calls.get(*slot).answered);
        for slot in held {
            let call = self.calls.get(slot);
            if call.state == CallState::InCall && !self.is_exempt(call.class) {
                self.max_duration.enter(&mut self.calls, slot);
            }
        }
    }

    fn requeue(&mut self, slot: Slot) {
        let call = self.calls.get_mut(slot);
        let wait = call.stage == Stage::Pending && self.config.forward == Forward::RoundEnd;
        let class = call.class;
        let (stage, list) = if self.is_always(class) {
            (Stage::Queued, &mut self.queue_first)
        } else if wait {
            (Stage::Pending, &mut self.pending)
        } else {
            (Stage::Queued, &mut self.queue)
        };
        self.calls.get_mut(slot).stage = stage;
        list.push_back(&mut self.calls, slot);
    }

    fn class(&self, class: ClassId) -> Option<&Class> {
        self.config
            .classes
            .get(usize::from(class.0).checked_sub(1)?)
    }

    fn is_always(&self, class: ClassId) -> bool {
        self.class(class)
            .is_some_and(|class| class.admit == Admit::Always)
    }

    fn is_exempt(&self, class: ClassId) -> bool {
        self.class(class).is_some_and(|class| class.exempt)
    }
}

impl StateMachine for Selective {
    type Input = Input;
    type Output = Output;

    fn handle<R: Rng + ?Sized>(&mut self, now: Time, input: Input, rng: &mut R) {
        self.advance(now);
        match input {
            Input::Arrive(arrival) => self.arrive(arrival, rng),
            Input::Answered { call } => self.answered(call),
            Input::Enter { call, phase } => self.enter(call, phase),
            Input::Progress { call, units } => self.progress(call, units),
            Input::Ended { call } => self.ended(call),
            Input::Reconfigure { capacity, config } => self.reconfigure(capacity, *config),
        }
    }

    fn handle_deadline<R: Rng + ?Sized>(&mut self, now: Time, _rng: &mut R) {
        self.advance(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let round = (!self.pending.is_empty()).then(|| self.round.end());
        let cap = self.max_duration.deadline(&self.calls);
        round.into_iter().chain(cap).min()
    }
}
