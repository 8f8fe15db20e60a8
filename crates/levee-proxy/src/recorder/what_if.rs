//! Asks another defence: what would have become of the recorded calls?
//!
//! A [`History`] is what a recording tells of each call: when it came, how long its set-up took, how long it lasted. Where the recorded
//! defence stepped in, part of that is missing:
//!
//! - refused, or dropped before it was passed on: nothing is known but the arrival;
//! - dropped while WAITING: the set-up would have taken longer than it was given;
//! - dropped while INCALL, or up at the end of the recording: the call would have lasted longer.
//!
//! This is censoring, and the missing parts are drawn from the product-limit estimate (Kaplan and Meier 1958) of the recording's own calls, given
//! what is known of the call. Its one assumption is that a censored call is as any other of its age: the defence picks its victims by
//! state, age and chance, so by nothing that tells how long a call still wants to last. If the longest calls were all cut,
//! the estimate ends above zero, and a call that is drawn from beyond does not end. A recording of `kind = "none"` has nothing missing.
//!
//! A call that the other defence drops or refuses is gone, whatever the recording has of it later. One that it passes on later than
//! the recorded one is set up and ends so much later.
//!
//! What it leaves out: callers that try again. Who redialled because of a recorded refusal redials here too, and nobody
//! else does. And the server: what it refused by itself counts as a call that was not answered.

mod lives;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io::BufRead;

use levee_policy::selective::{
    Arrival, CallKey, CallState, Config, ConfigError, EvictCause, Input, Output, RefuseCause,
    Selective,
};
use levee_policy::{Span, StateMachine as _, Time};
use rand_core::Rng as _;
use serde::Serialize;

use self::lives::Lives;
use super::format::Line;
use super::machine::Header;
use super::policy_rng;
use super::replay::{End, Entries, ReplayError};

/// Most calls of a history: some 1.5 GB, more than a recording of the default bound holds.
const CALLS_MAX: usize = 10_000_000;

/// What a recording tells of its calls.
#[derive(Clone, Debug)]
pub struct History {
    /// The first line.
    pub header: Header,
    /// Time of the last entry.
    pub last: Time,
    /// How the recording ends.
    pub end: End,
    /// Reloads that it has; another defence stays as it is.
    pub reconfigured: u64,
    calls: Vec<Call>,
    lives: Lives,
}

/// One recorded call.
#[derive(Clone, Copy, Debug)]
struct Call {
    at: Time,
    arrival: Arrival,
    forwarded: Option<Time>,
    answered: Option<Time>,
    /// When its slot became free.
    ended: Option<Time>,
    refused: Option<RefuseCause>,
    evicted: Option<Eviction>,
}

#[derive(Clone, Copy, Debug)]
struct Eviction {
    at: Time,
    state: CallState,
    age: Span,
    cause: EvictCause,
}

impl Call {
    /// When it ended by itself.
    fn own_end(&self) -> Option<Time> {
        self.ended.filter(|_| self.evicted.is_none())
    }

    fn fate(&self) -> Fate {
        match (self.refused, self.evicted, self.ended) {
            (Some(cause), ..) => Fate::Refused(cause),
            (_, Some(e), _) => Fate::Evicted {
                state: e.state,
                age: e.age,
                cause: e.cause,
            },
            (.., Some(_)) if self.answered.is_some() => Fate::Complete,
            (.., Some(_)) => Fate::NotAnswered,
            _ => Fate::Held,
        }
    }
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Still held at the end.
    Held,
    /// Answered, and ended by itself.
    Complete,
    /// Ended by itself before the answer.
    NotAnswered,
    Refused(RefuseCause),
    Evicted {
        state: CallState,
        age: Span,
        cause: EvictCause,
    },
}

impl Fate {
    /// Row or column of [`WhatIf::moved`].
    fn index(self) -> usize {
        match self {
            Self::Complete => 0,
            Self::NotAnswered => 1,
            Self::Held => 2,
            Self::Evicted { .. } => 3,
            Self::Refused(_) => 4,
        }
    }
}

/// The names of the fates in [`WhatIf::moved`].
pub const FATES: [&str; 5] = ["complete", "not_answered", "held", "evicted", "refused"];

/// What became of all calls under one defence.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Calls that asked to come in.
    pub arrivals: u64,
    /// Taken into the table.
    pub taken: u64,
    /// Turned away, by cause.
    pub refused: RefusedBy,
    /// Dropped before the answer.
    pub evicted_waiting: u64,
    /// Dropped after it, for a newcomer.
    pub evicted_in_call: u64,
    /// Dropped after it, at the cap on the time in call.
    pub evicted_max_duration: u64,
    /// Answered, and ended by themselves.
    pub complete: u64,
    /// Ended by themselves before the answer.
    pub not_answered: u64,
    /// Still held at the end.
    pub held: u64,
    /// Median age of the dropped calls in seconds; `None` without any.
    pub age_at_eviction_p50_s: Option<f64>,
    /// The age that nine of ten did not reach.
    pub age_at_eviction_p90_s: Option<f64>,
    /// Taken calls whose set-up or length is at least in part drawn.
    pub assumed: u64,
    /// Arrivals that were decided before any drawn length could matter.
    pub exact_verdicts: u64,
}

/// Refusals by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RefusedBy {
    /// [`RefuseCause::Overload`].
    pub overload: u64,
    /// [`RefuseCause::Full`].
    pub full: u64,
    /// [`RefuseCause::NoVictim`].
    pub no_victim: u64,
    /// [`RefuseCause::CallerLimit`].
    pub caller_limit: u64,
    /// [`RefuseCause::SourceLimit`].
    pub source_limit: u64,
}

impl RefusedBy {
    fn note(&mut self, cause: RefuseCause) {
        *match cause {
            RefuseCause::Overload => &mut self.overload,
            RefuseCause::Full => &mut self.full,
            RefuseCause::NoVictim => &mut self.no_victim,
            RefuseCause::CallerLimit => &mut self.caller_limit,
            RefuseCause::SourceLimit => &mut self.source_limit,
        } += 1;
    }
}

/// Calls of one class or source under one defence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Calls that asked to come in.
    pub arrivals: u64,
    /// Turned away.
    pub refused: u64,
    /// Dropped.
    pub evicted: u64,
    /// Answered, and ended by themselves.
    pub complete: u64,
}

/// What another defence would have done.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// One a run.
    pub outcomes: Vec<Outcome>,
    /// Calls by recorded fate and by fate here, of all runs together; [`FATES`] names the rows and columns.
    pub moved: [[u64; 5]; 5],
    /// By recorded class id, of all runs together.
    pub classes: Vec<Group>,
    /// Of the sources in [`History::sources`], of all runs together.
    pub sources: Vec<Group>,
}

/// Sources that are told apart: those with the most calls.
const SOURCES_SHOWN: usize = 5;

impl History {
    /// Reads a recording.
    ///
    /// # Errors
    ///
    /// It cannot be read, is no recording, or has more calls than are held in memory.
    pub fn read(reader: impl BufRead) -> Result<Self, ReplayError> {
        let mut entries = Entries::open(reader)?;
        let header = entries.header::<Selective>()?;
        let mut history = Self {
            header,
            last: Time::ZERO,
            end: End::NotReached,
            reconfigured: 0,
            calls: Vec::new(),
            lives: Lives::default(),
        };
        let mut live: BTreeMap<CallKey, usize> = BTreeMap::new();
        while let Some(line) = entries.next::<Selective>()? {
            match line {
                Line::Input(at, input) => {
                    history.last = at;
                    if history.calls.len() >= CALLS_MAX {
                        return Err(ReplayError::Line {
                            line: entries.number,
                            message: format!("more than {CALLS_MAX} calls"),
                        });
                    }
                    if matches!(input, Input::Enter { .. } | Input::Progress { .. }) {
                        return Err(ReplayError::Line {
                            line: entries.number,
                            message: "phases of a connection, whose course under another defence \
                                      is not known: replay it through its own"
                                .to_owned(),
                        });
                    }
                    history.input(at, &input, &mut live);
                }
                Line::Output(at, output) => {
                    history.last = at;
                    history.output(at, output, &live);
                }
                Line::Deadline(at) => history.last = at,
                Line::End(reason) => {
                    entries.expect_end()?;
                    entries.end = End::Marked(reason);
                    break;
                }
            }
        }
        history.end = entries.end;
        history.lives = Lives::of(&history.calls, history.last);
        Ok(history)
    }

    fn input(&mut self, at: Time, input: &Input, live: &mut BTreeMap<CallKey, usize>) {
        match input {
            Input::Arrive(arrival) => {
                live.insert(arrival.call, self.calls.len());
                self.calls.push(Call {
                    at,
                    arrival: *arrival,
                    forwarded: None,
                    answered: None,
                    ended: None,
                    refused: None,
                    evicted: None,
                });
            }
            Input::Answered { call } => {
                let call = live.get(call).and_then(|i| self.calls.get_mut(*i));
                if let Some(call) = call.filter(|call| call.evicted.is_none()) {
                    call.answered.get_or_insert(at);
                }
            }
            Input::Ended { call } => {
                let index = live.remove(call);
                if let Some(call) = index.and_then(|i| self.calls.get_mut(i)) {
                    call.ended = Some(at);
                }
            }
            Input::Reconfigure { .. } => self.reconfigured += 1,
            // Refused above.
            Input::Enter { .. } | Input::Progress { .. } => {}
        }
    }

    fn output(&mut self, at: Time, output: Output, live: &BTreeMap<CallKey, usize>) {
        let (Output::Forward { call } | Output::Refuse { call, .. } | Output::Evict { call, .. }) =
            output;
        let Some(call) = live.get(&call).and_then(|i| self.calls.get_mut(*i)) else {
            return;
        };
        match output {
            Output::Forward { .. } => call.forwarded = Some(at),
            Output::Refuse { cause, .. } => call.refused = Some(cause),
            Output::Evict {
                state, age, cause, ..
            } => {
                call.evicted = Some(Eviction {
                    at,
                    state,
                    age,
                    cause,
                });
            }
        }
    }

    /// Number of calls.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// What the recorded defence did.
    #[must_use]
    pub fn recorded(&self) -> Outcome {
        let fates = self.calls.iter().map(Call::fate);
        let mut outcome = outcome(fates);
        outcome.exact_verdicts = outcome.arrivals;
        outcome
    }

    /// Calls of which something is missing, by what is: the whole, the rest of the set-up, the rest of the call.
    #[must_use]
    pub fn missing(&self) -> [u64; 3] {
        let mut missing = [0; 3];
        for call in &self.calls {
            let what = match (call.forwarded, call.answered, call.own_end()) {
                (.., Some(_)) => continue,
                (None, ..) => 0,
                (Some(_), None, _) => 1,
                (_, Some(_), _) => 2,
            };
            missing[what] += 1;
        }
        missing
    }

    /// Which share of the answered calls is not seen to end, by the estimate that missing lengths are drawn from.
    #[must_use]
    pub fn unending(&self) -> f64 {
        self.lives.talk.steps.last().map_or(1.0, |step| step.after)
    }

    /// The sources with the most calls, and how many each has; the most first.
    #[must_use]
    pub fn sources(&self) -> Vec<(u64, u64)> {
        let mut counts = BTreeMap::new();
        for source in self.calls.iter().filter_map(|call| call.arrival.source) {
            *counts.entry(source.0).or_insert(0) += 1;
        }
        let mut all: Vec<(u64, u64)> = counts.into_iter().collect();
        all.sort_by_key(|(source, calls)| (Reverse(*calls), *source));
        all.truncate(SOURCES_SHOWN);
        all
    }

    /// Groups of the recorded fates, as [`WhatIf`] has them: by class, and by source.
    #[must_use]
    pub fn groups(&self) -> (Vec<Group>, Vec<Group>) {
        let fates: Vec<Fate> = self.calls.iter().map(Call::fate).collect();
        let mut classes = Vec::new();
        let mut sources = vec![Group::default(); self.sources().len()];
        self.group(&fates, &self.sources(), &mut classes, &mut sources);
        (classes, sources)
    }

    fn group(
        &self,
        fates: &[Fate],
        shown: &[(u64, u64)],
        classes: &mut Vec<Group>,
        sources: &mut [Group],
    ) {
        for (call, fate) in self.calls.iter().zip(fates) {
            let class = usize::from(call.arrival.class.0);
            if classes.len() <= class {
                classes.resize(class + 1, Group::default());
            }
            let source = call
                .arrival
                .source
                .and_then(|source| shown.iter().position(|(shown, _)| *shown == source.0));
            let source = source.and_then(|at| sources.get_mut(at));
            for group in classes.get_mut(class).into_iter().chain(source) {
                group.arrivals += 1;
                match fate {
                    Fate::Refused(_) => group.refused += 1,
                    Fate::Evicted { .. } => group.evicted += 1,
                    Fate::Complete => group.complete += 1,
                    Fate::NotAnswered | Fate::Held => {}
                }
            }
        }
    }

    /// What this defence would have done with these calls. Run `i` draws from `seed + i`: the missing lengths, the same for each
    /// defence, and the draws of the defence.
    ///
    /// # Errors
    ///
    /// The configuration cannot run.
    pub fn what_if(
        &self,
        capacity: u32,
        config: &Config,
        seed: u64,
        runs: u32,
    ) -> Result<WhatIf, ConfigError> {
        Selective::check(capacity, config)?;
        let shown = self.sources();
        let mut result = WhatIf {
            outcomes: Vec::new(),
            moved: [[0; 5]; 5],
            classes: Vec::new(),
            sources: vec![Group::default(); shown.len()],
        };
        for run in 0..runs {
            let machine = Selective::new(capacity, config.clone())?;
            let world = World::new(self, machine, seed.wrapping_add(run.into()));
            let (fates, assumed, exact) = world.run();
            let mut outcome = outcome(fates.iter().copied());
            (outcome.assumed, outcome.exact_verdicts) = (assumed, exact);
            result.outcomes.push(outcome);
            for (call, fate) in self.calls.iter().zip(&fates) {
                let row = result.moved.get_mut(call.fate().index());
                if let Some(cell) = row.and_then(|row| row.get_mut(fate.index())) {
                    *cell += 1;
                }
            }
            self.group(&fates, &shown, &mut result.classes, &mut result.sources);
        }
        Ok(result)
    }
}

fn outcome(fates: impl Iterator<Item = Fate>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut ages = Vec::new();
    for fate in fates {
        outcome.arrivals += 1;
        outcome.taken += u64::from(!matches!(fate, Fate::Refused(_)));
        match fate {
            Fate::Held => outcome.held += 1,
            Fate::Complete => outcome.complete += 1,
            Fate::NotAnswered => outcome.not_answered += 1,
            Fate::Refused(cause) => outcome.refused.note(cause),
            Fate::Evicted { state, age, cause } => {
                ages.push(age);
                match (state, cause) {
                    (_, EvictCause::MaxDuration) => outcome.evicted_max_duration += 1,
                    (CallState::Waiting, _) => outcome.evicted_waiting += 1,
                    (CallState::InCall, _) => outcome.evicted_in_call += 1,
                }
            }
        }
    }
    ages.sort_unstable();
    let quantile = |p: f64| {
        let last = ages.len().checked_sub(1)?;
        ages.get((last as f64 * p) as usize)
            .map(|age| age.as_secs_f64())
    };
    outcome.age_at_eviction_p50_s = quantile(0.5);
    outcome.age_at_eviction_p90_s = quantile(0.9);
    outcome
}

/// What happens by itself in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Answer(usize),
    End(usize),
    Release(usize),
}

/// One run of another defence over the recorded calls.
struct World<'h> {
    history: &'h History,
    machine: Selective,
    rng: super::PolicyRng,
    seed: u64,
    events: BinaryHeap<Reverse<(Time, usize, Event)>>,
    scheduled: usize,
    fates: Vec<Fate>,
    /// Answered here, by call.
    answered: Vec<bool>,
    assumed: u64,
    /// From when on something drawn may matter.
    assumed_from: Time,
    exact_verdicts: u64,
    outputs: VecDeque<Output>,
}

impl<'h> World<'h> {
    fn new(history: &'h History, machine: Selective, seed: u64) -> Self {
        Self {
            history,
            machine,
            rng: policy_rng(seed),
            seed,
            events: BinaryHeap::new(),
            scheduled: 0,
            fates: vec![Fate::Held; history.calls.len()],
            answered: vec![false; history.calls.len()],
            assumed: 0,
            assumed_from: Time::MAX,
            exact_verdicts: 0,
            outputs: VecDeque::new(),
        }
    }

    /// The fate of each call, how many lives are in part drawn, and how many verdicts came before that could matter.
    fn run(mut self) -> (Vec<Fate>, u64, u64) {
        let history = self.history;
        let mut arrivals = history.calls.iter().enumerate().peekable();
        loop {
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let arrival = arrivals.peek().map(|(_, call)| call.at);
            let deadline = self.machine.deadline();
            let Some(next) = [event, arrival, deadline].into_iter().flatten().min() else {
                break;
            };
            if next > history.last {
                break;
            }
            if deadline == Some(next) {
                self.machine.handle_deadline(next, &mut self.rng);
                self.outputs(next);
            } else if event == Some(next) {
                if let Some(Reverse((_, _, event))) = self.events.pop() {
                    self.happen(next, event);
                }
            } else if let Some((index, call)) = arrivals.next() {
                self.exact_verdicts += u64::from(next < self.assumed_from);
                self.arrive(index, call);
            }
        }
        (self.fates, self.assumed, self.exact_verdicts)
    }

    fn arrive(&mut self, index: usize, call: &Call) {
        let config = self.machine.config();
        let name = self.history.header.config.class_name(call.arrival.class);
        let arrival = Arrival {
            // Recorded keys may come twice.
            call: CallKey(index as u64),
            class: name
                .and_then(|name| config.class_id(name))
                .unwrap_or_default(),
            ..call.arrival
        };
        self.handle(call.at, Input::Arrive(arrival));
    }

    fn happen(&mut self, now: Time, event: Event) {
        let (Event::Answer(index) | Event::End(index) | Event::Release(index)) = event;
        let call = CallKey(index as u64);
        let is_held = self.fates.get(index) == Some(&Fate::Held);
        match event {
            Event::Release(_) => self.handle(now, Input::Ended { call }),
            // Dropped meanwhile.
            _ if !is_held => {}
            Event::Answer(_) => {
                if let Some(answered) = self.answered.get_mut(index) {
                    *answered = true;
                }
                self.handle(now, Input::Answered { call });
            }
            Event::End(_) => {
                let answered = self.answered.get(index) == Some(&true);
                let fate = if answered {
                    Fate::Complete
                } else {
                    Fate::NotAnswered
                };
                self.decide(index, fate);
                self.handle(now, Input::Ended { call });
            }
        }
    }

    fn handle(&mut self, now: Time, input: Input) {
        self.machine.handle(now, input, &mut self.rng);
        self.outputs(now);
    }

    fn outputs(&mut self, now: Time) {
        while let Some(output) = self.machine.poll_output() {
            self.outputs.push_back(output);
        }
        while let Some(output) = self.outputs.pop_front() {
            match output {
                Output::Forward { call } => self.live(call.0 as usize, now),
                Output::Refuse { call, cause, .. } => {
                    self.decide(call.0 as usize, Fate::Refused(cause));
                }
                Output::Evict {
                    call,
                    state,
                    age,
                    forwarded,
                    cause,
                    ..
                } => {
                    let index = call.0 as usize;
                    self.decide(index, Fate::Evicted { state, age, cause });
                    if forwarded {
                        let at = now.saturating_add(self.history.lives.release);
                        self.schedule(at, Event::Release(index));
                    }
                }
            }
        }
    }

    fn decide(&mut self, index: usize, fate: Fate) {
        if let Some(slot) = self.fates.get_mut(index) {
            *slot = fate;
        }
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, event)));
    }

    /// A call is passed on: what it will do if it is left alone.
    fn live(&mut self, index: usize, now: Time) {
        let history = self.history;
        let Some(call) = history.calls.get(index) else {
            return;
        };
        // A stream for each call: the same under every defence.
        let mut rng =
            policy_rng(self.seed ^ (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut unit = || ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let (setup_u, talk_u) = (unit(), unit());
        let seen = call.evicted.map_or(history.last, |e| e.at);
        let own_end = call.own_end();
        let mut drawn_from = None;
        let setup = match (call.forwarded, call.answered, own_end) {
            (Some(forwarded), Some(answered), _) => Some((answered - forwarded, true)),
            (Some(forwarded), None, Some(end)) => Some((end - forwarded, false)),
            (forwarded, ..) => {
                let known = forwarded.map_or(Span::ZERO, |forwarded| seen - forwarded);
                drawn_from = Some(known);
                let step = history.lives.setup.draw(known, setup_u);
                step.map(|step| (step.length, step.answered))
            }
        };
        let Some((setup, is_answered)) = setup else {
            self.note_drawn(drawn_from, now);
            return;
        };
        let ready = now.saturating_add(setup);
        if !is_answered {
            self.schedule(ready, Event::End(index));
            self.note_drawn(drawn_from, now);
            return;
        }
        self.schedule(ready, Event::Answer(index));
        let talk = match (call.answered, own_end) {
            (Some(answered), Some(end)) => Some(end - answered),
            (answered, _) => {
                let known = answered.map_or(Span::ZERO, |answered| seen - answered);
                drawn_from.get_or_insert(setup + known);
                history
                    .lives
                    .talk
                    .draw(known, talk_u)
                    .map(|step| step.length)
            }
        };
        self.note_drawn(drawn_from, now);
        if let Some(talk) = talk {
            self.schedule(ready.saturating_add(talk), Event::End(index));
        }
    }

    /// From `known` after `now` on, this call goes by what was drawn. Beyond the end of the recording nothing matters.
    fn note_drawn(&mut self, known: Option<Span>, now: Time) {
        let from = known.map(|known| now.saturating_add(known));
        if let Some(from) = from.filter(|from| *from < self.history.last) {
            self.assumed += 1;
            self.assumed_from = self.assumed_from.min(from);
        }
    }
}

#[cfg(test)]
mod tests;
