//! A model of your own: a help desk whose callers lose patience.
//!
//! Callers come at random to a desk with some agents. Who finds all of them busy waits in line, and hangs up when their
//! patience is over: the M/M/c+M queue, Erlang A to call centres (Palm, 1957). Its long-run values are known
//! ([`Desk::exact`]), so that what is simulated can be held against them.
//!
//! Three steps lead from an idea to an answer with an interval:
//!
//! 1. A [`Model`] on Levee's engine: state, messages, what happens when one comes. Here [`Floor`].
//! 2. A [`Trial`]: what of it can be observed by name, and how run `i` begins. Here [`Desk`] and [`Shift`].
//! 3. A check: what is asked of each run, how sure the answer is to be. Here `main.rs`.
//!
//! `cargo run --release -p levee-example-own-model` does it.
//!
//! Not modelled: a caller who calls again, agents who differ, a line that is full.

mod exact;

use std::borrow::Cow;
use std::collections::VecDeque;

use levee_policy::{Span, Time};
use levee_sim::engine::{ActorId, Model, Scheduler, Simulation, Streams, TieOrder};
use levee_smc::{Execution, Observable, Trial};
use rand_core::Rng;
use rand_pcg::Pcg64;

pub use exact::Exact;

/// A help desk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Desk {
    /// Who answer.
    pub agents: u32,
    /// Mean time between calls.
    pub gap: Span,
    /// Mean time that an agent takes.
    pub service: Span,
    /// Mean time that a caller waits.
    pub patience: Span,
    /// What happens before is not counted: the desk begins empty.
    pub warm_up: Span,
    /// How long is counted.
    pub counted: Span,
    /// Run `i` draws what run `0` of seed `seed + i` draws.
    pub seed: u64,
}

impl Desk {
    /// Five agents and more calls than they can take: who lose patience keep the line short.
    #[must_use]
    pub const fn busy() -> Self {
        Self {
            agents: 5,
            gap: Span::from_secs(60),
            service: Span::from_secs(360),
            patience: Span::from_secs(240),
            warm_up: Span::from_secs(2 * 3_600),
            counted: Span::from_secs(8 * 3_600),
            seed: 1,
        }
    }

    fn floor(&self, run: u64) -> Floor {
        let streams = Streams::new(self.seed, run);
        Floor {
            desk: *self,
            arrivals: streams.stream("arrivals"),
            services: streams.stream("services"),
            patiences: streams.stream("patiences"),
            busy: 0,
            line: VecDeque::new(),
            gone: 0,
            counts: Counts::default(),
        }
    }
}

/// What agents and callers are told. A plain [`Copy`] type: messages are copied, never allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// To the callers: one of them picks up the phone.
    Call,
    /// To the desk: an agent is done.
    Done,
    /// To the desk: the caller with this number has waited long enough. There is no way to take a message back: that caller
    /// may have been answered, and then it is void.
    LosePatience(u64),
}

const CALLERS: ActorId = ActorId(0);
const DESK: ActorId = ActorId(1);

/// What was counted after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls.
    pub calls: u64,
    /// Those that found every agent busy.
    pub delayed: u64,
    /// Those that hung up before they were answered.
    pub abandoned: u64,
}

/// The state of a run.
#[derive(Clone, Debug)]
pub struct Floor {
    desk: Desk,
    /// Each kind of draw has a stream of its own: a change of one leaves the others as they were.
    arrivals: Pcg64,
    services: Pcg64,
    patiences: Pcg64,
    busy: u32,
    /// The line, and who of it is there still. Their numbers follow from `gone`. It is as long as messages may be pending.
    line: VecDeque<bool>,
    /// The number of the first in line.
    gone: u64,
    counts: Counts,
}

impl Model for Floor {
    type Message = Message;

    fn start(&mut self, scheduler: &mut Scheduler<Message>) {
        let gap = exponential(self.desk.gap, &mut self.arrivals);
        scheduler.after(gap, CALLERS, Message::Call);
    }

    fn deliver(&mut self, _to: ActorId, message: Message, scheduler: &mut Scheduler<Message>) {
        let count = u64::from(scheduler.now() > Time::ZERO + self.desk.warm_up);
        match message {
            Message::Call => {
                self.start(scheduler);
                self.counts.calls += count;
                if self.busy < self.desk.agents {
                    self.answer(scheduler);
                } else {
                    self.counts.delayed += count;
                    self.wait(scheduler);
                }
            }
            Message::Done => {
                self.busy -= 1;
                if self.next_in_line() {
                    self.answer(scheduler);
                }
            }
            Message::LosePatience(caller) => {
                // Void if the caller was answered; nobody hangs up twice.
                let place = caller.checked_sub(self.gone);
                if let Some(there) = place.and_then(|place| self.line.get_mut(place as usize)) {
                    *there = false;
                    self.counts.abandoned += count;
                }
            }
        }
    }
}

impl Floor {
    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Who wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.line.iter().filter(|there| **there).count()
    }

    fn answer(&mut self, scheduler: &mut Scheduler<Message>) {
        self.busy += 1;
        let service = exponential(self.desk.service, &mut self.services);
        scheduler.after(service, DESK, Message::Done);
    }

    fn wait(&mut self, scheduler: &mut Scheduler<Message>) {
        let caller = self.gone + self.line.len() as u64;
        self.line.push_back(true);
        let patience = exponential(self.desk.patience, &mut self.patiences);
        scheduler.after(patience, DESK, Message::LosePatience(caller));
    }

    /// Takes the first who is still in line. False if there is nobody.
    fn next_in_line(&mut self) -> bool {
        while let Some(there) = self.line.pop_front() {
            self.gone += 1;
            if there {
                return true;
            }
        }
        false
    }
}

/// An exponential time with this mean. `libm` gives the same logarithm on every machine.
fn exponential(mean: Span, rng: &mut impl Rng) -> Span {
    let unit = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    Span::from_secs_f64(-mean.as_secs_f64() * libm::log(1.0 - unit)).unwrap_or(Span::MAX)
}

/// What a run can be asked, in the order of [`Shift::observe`].
static OBSERVABLES: [Observable; 4] = [
    observable("calls", "calls", "calls after the warm-up"),
    observable("delayed", "calls", "those that found every agent busy"),
    observable("abandoned", "calls", "those that hung up unanswered"),
    observable("waiting", "callers", "who wait now"),
];

const fn observable(name: &'static str, unit: &'static str, meaning: &'static str) -> Observable {
    Observable {
        name: Cow::Borrowed(name),
        unit: Cow::Borrowed(unit),
        meaning: Cow::Borrowed(meaning),
    }
}

impl Trial for Desk {
    type Execution = Shift;

    fn observables(&self) -> &[Observable] {
        &OBSERVABLES
    }

    fn execution(&self) -> Shift {
        let horizon = Time::ZERO + self.warm_up + self.counted;
        Shift(Simulation::new(self.floor(0), horizon, TieOrder::FirstSent))
    }
}

/// One thread's simulation.
#[derive(Clone, Debug)]
pub struct Shift(Simulation<Floor>);

impl Execution for Shift {
    fn start(&mut self, run: u64) {
        self.0.restart(|floor| {
            // The line's memory is used again.
            let mut line = std::mem::take(&mut floor.line);
            line.clear();
            *floor = Floor {
                line,
                ..floor.desk.floor(run)
            };
        });
    }

    fn step(&mut self) -> bool {
        self.0.step()
    }

    fn failure(&self) -> Option<String> {
        self.0.runaway().map(|runaway| runaway.to_string())
    }

    fn observe(&self, observable: usize) -> f64 {
        let floor = &self.0.model;
        match observable {
            0 => floor.counts.calls as f64,
            1 => floor.counts.delayed as f64,
            2 => floor.counts.abandoned as f64,
            _ => floor.waiting() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(shift: &mut Shift, run: u64) -> Vec<f64> {
        shift.start(run);
        shift.finish();
        assert_eq!(shift.failure(), None);
        (0..OBSERVABLES.len()).map(|o| shift.observe(o)).collect()
    }

    /// The ratio of two observables over all runs, and its standard error by the delta method.
    fn ratio(runs: &[Vec<f64>], numerator: usize, denominator: usize) -> (f64, f64) {
        let n = runs.len() as f64;
        let sum = |of: usize| runs.iter().map(|run| run[of]).sum::<f64>();
        let ratio = sum(numerator) / sum(denominator);
        let residual = |run: &Vec<f64>| (run[numerator] - ratio * run[denominator]).powi(2);
        let variance = runs.iter().map(residual).sum::<f64>() / (n - 1.0);
        (ratio, (variance / n).sqrt() / (sum(denominator) / n))
    }

    #[test]
    fn it_is_erlang_a() {
        let busy = Desk::busy();
        let quiet = Desk {
            gap: Span::from_secs(90),
            ..busy
        };
        let patient = Desk {
            patience: Span::from_secs(1_800),
            ..quiet
        };
        for desk in [busy, quiet, patient] {
            let mut shift = desk.execution();
            let runs: Vec<_> = (0..400).map(|run| finish(&mut shift, run)).collect();
            let exact = desk.exact();
            for (of, expect) in [(1, exact.delayed), (2, exact.abandoned)] {
                let (found, error) = ratio(&runs, of, 0);
                assert!(
                    (found - expect).abs() < 5.0 * error,
                    "{of}: {found} {expect} {error}"
                );
                assert!(error < 0.01, "{error}");
            }
            // At the end of independent runs: the line as it is at any time.
            let n = runs.len() as f64;
            let mean = runs.iter().map(|run| run[3]).sum::<f64>() / n;
            let square = runs.iter().map(|run| (run[3] - mean).powi(2)).sum::<f64>();
            let error = (square / (n - 1.0) / n).sqrt();
            assert!(
                (mean - exact.waiting).abs() < 5.0 * error,
                "{mean} {exact:?}"
            );
        }
    }

    #[test]
    fn a_run_depends_on_its_number_alone() {
        let desk = Desk::busy();
        let mut used = desk.execution();
        let first = finish(&mut used, 3);
        assert_ne!(finish(&mut used, 4), first);
        used.start(5);
        (0..100).for_each(|_| assert!(used.step()));
        assert_eq!(finish(&mut used, 3), first);
        assert_eq!(finish(&mut desk.execution(), 3), first);
        let next = Desk { seed: 2, ..desk };
        assert_eq!(finish(&mut next.execution(), 2), first);
    }
}
