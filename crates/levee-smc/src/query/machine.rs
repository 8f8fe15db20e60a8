//! Runs the code of queries along a run.
//!
//! What waits for the next state is a *watcher*: a routine, its arguments, and whose value it gives. Each state takes every
//! watcher that is awake one step on; a watcher that only waits for a moment sleeps until then and costs nothing. A value made
//! of others is a *join* that waits for them. Nothing here recurses: a run of a million states needs no more stack than one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::compile::{Clock, Code, Join, Moment, Op, Series};
use super::error::{Place, QueryError};
use crate::measure::Row;
use crate::trial::Execution;

/// Most operators that one query applies within one state: a count to a million is done in one; what goes on is taken for endless.
pub const CALLS_MAX: u32 = 1_000_000;

/// Deepest recursion within one state.
pub const FRAMES_MAX: usize = 10_000;

/// Most values that wait for others: one a state for `s.rval("x") + # f()`, for runs of as many states. Some 50 bytes each.
pub const JOINS_MAX: usize = 4_000_000;

/// Most steps at the last state of a run, where nothing changes but a query's own arguments.
pub const LAST_STEPS_MAX: u64 = 1_000_000;

/// Whose value it is.
#[derive(Clone, Copy, Debug)]
enum Parent {
    Root,
    Join { join: u32, side: u8 },
    Series(u32),
}

#[derive(Clone, Copy, Debug)]
struct Owner {
    parent: Parent,
    /// Which root it is for in the end.
    root: u32,
}

#[derive(Clone, Copy, Debug)]
struct Watcher {
    routine: u32,
    owner: Owner,
}

/// A block to run in this state.
#[derive(Clone, Copy, Debug)]
struct Item {
    block: u32,
    arguments: u32,
    owner: Owner,
}

#[derive(Clone, Copy, Debug)]
struct Joining {
    join: Join,
    values: [f64; 2],
    missing: u8,
    owner: Owner,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sampled {
    /// The value since the last state.
    value: f64,
    since: f64,
    sum: f64,
    done: usize,
}

/// The memory of one thread.
#[derive(Debug, Default)]
pub struct Scratch {
    stack: Vec<f64>,
    frames: Vec<(u32, u32)>,
    items: Vec<Item>,
    item_arguments: Vec<f64>,
    watchers: Vec<Watcher>,
    /// Each watcher's arguments, as many for each as the longest list has.
    arguments: Vec<f64>,
    free: Vec<u32>,
    /// Watchers for this state and for the next.
    awake: Vec<u32>,
    fresh: Vec<u32>,
    /// Watchers that wait for a moment of time, and of steps; the earliest first.
    sleeping: [BinaryHeap<Reverse<(u64, u32)>>; 2],
    until_end: Vec<u32>,
    joins: Vec<Joining>,
    free_joins: Vec<u32>,
    /// Roots that have a value or never will.
    closed: Vec<bool>,
    series: Vec<Sampled>,
    /// At the last state: what each watcher was once; if it comes to be that again, it always will.
    marks: Vec<u32>,
    mark_arguments: Vec<f64>,
}

/// Why a run has no answer.
#[derive(Debug)]
enum Failure {
    /// Of a routine, by its number.
    Endless(u32),
    TooManyCalls(u32),
    TooDeep(u32),
    TooManyJoins(u32),
    NoSuchObservable {
        number: f64,
        place: u32,
    },
    NoValue(u32),
}

/// No routine.
const NONE: u32 = u32::MAX;

/// Takes a run through all its queries.
pub(super) fn measure<E: Execution>(
    code: &Code,
    execution: &mut E,
    run: u64,
    scratch: &mut Scratch,
    row: &mut Row,
) -> Result<(), QueryError> {
    execution.start(run);
    scratch.restart(code);
    let mut machine = Machine {
        code,
        execution,
        scratch,
        row,
        steps: 0,
        ended: false,
        calls: 0,
        mark: NONE,
    };
    machine.run().map_err(|failure| machine.explain(&failure))
}

impl Scratch {
    fn restart(&mut self, code: &Code) {
        self.items.clear();
        self.item_arguments.clear();
        self.watchers.clear();
        self.arguments.clear();
        self.free.clear();
        self.awake.clear();
        self.fresh.clear();
        self.sleeping.iter_mut().for_each(BinaryHeap::clear);
        self.until_end.clear();
        self.joins.clear();
        self.free_joins.clear();
        self.marks.clear();
        self.mark_arguments.clear();
        self.closed.clear();
        self.closed.resize(code.roots.len(), false);
        self.series.clear();
        self.series.extend(code.series.iter().map(|series| Sampled {
            since: series.from,
            ..Sampled::default()
        }));
    }
}

struct Machine<'a, E> {
    code: &'a Code,
    execution: &'a mut E,
    scratch: &'a mut Scratch,
    row: &'a mut Row,
    steps: u64,
    ended: bool,
    /// Operators applied in this state for one query.
    calls: u32,
    /// At the last state: the mark of the watcher that is taken on.
    mark: u32,
}

impl<E: Execution> Machine<'_, E> {
    fn run(&mut self) -> Result<(), Failure> {
        self.ask(false)?;
        self.sample()?;
        while self.waits_for_states() {
            if !self.execution.step() {
                self.ended = true;
                break;
            }
            self.steps += 1;
            self.advance()?;
            self.sample()?;
        }
        if !self.ended && self.wants_the_end() {
            if self.code.counts_steps {
                while self.execution.step() {
                    self.steps += 1;
                }
            } else {
                self.execution.finish();
            }
            self.ended = true;
        }
        if self.ended {
            self.sample_to_end();
            self.ask(true)?;
            self.at_last_state()?;
        }
        for (list, samples) in &self.code.samples {
            self.row.samples[*list].extend_from_slice(self.execution.sample(*samples));
        }
        Ok(())
    }

    fn waits_for_states(&self) -> bool {
        let mut series = self.code.series.iter().zip(&self.scratch.series);
        !self.scratch.awake.is_empty()
            || self.scratch.sleeping.iter().any(|heap| !heap.is_empty())
            || series.any(|(series, sampled)| sampled.done < series.count)
    }

    fn wants_the_end(&self) -> bool {
        !self.scratch.until_end.is_empty()
            || !self.code.samples.is_empty()
            || self.code.roots.iter().any(|root| root.at_end)
    }

    /// Starts the queries of the first or of the last state.
    fn ask(&mut self, at_end: bool) -> Result<(), Failure> {
        let code = self.code;
        self.mark = NONE;
        for (index, root) in code.roots.iter().enumerate() {
            if root.at_end == at_end {
                let owner = Owner {
                    parent: Parent::Root,
                    root: index as u32,
                };
                self.scratch.stack.clear();
                self.scratch.stack.extend_from_slice(&root.arguments);
                self.calls = 0;
                self.evaluate(root.block, root.arguments.len(), owner)?;
                self.work()?;
            }
        }
        let scratch = &mut *self.scratch;
        scratch.awake.append(&mut scratch.fresh);
        Ok(())
    }

    /// Takes every watcher on by one state.
    fn advance(&mut self) -> Result<(), Failure> {
        self.wake();
        let mut awake = std::mem::take(&mut self.scratch.awake);
        for slot in awake.drain(..) {
            self.take_on(slot)?;
        }
        self.scratch.awake = awake;
        std::mem::swap(&mut self.scratch.awake, &mut self.scratch.fresh);
        Ok(())
    }

    fn wake(&mut self) {
        let scratch = &mut *self.scratch;
        let clocks = [
            self.code
                .time
                .filter(|_| !scratch.sleeping[0].is_empty())
                .map(|time| self.execution.observe(time as usize)),
            Some(self.steps as f64),
        ];
        for (heap, now) in scratch.sleeping.iter_mut().zip(clocks) {
            let Some(now) = now else { continue };
            let now = order(now);
            while let Some(Reverse((moment, slot))) = heap.peek().copied()
                && moment <= now
            {
                heap.pop();
                scratch.awake.push(slot);
            }
        }
    }

    fn take_on(&mut self, slot: u32) -> Result<(), Failure> {
        let scratch = &mut *self.scratch;
        let Watcher { routine, owner } = scratch.watchers[slot as usize];
        scratch.free.push(slot);
        if scratch.closed[owner.root as usize] {
            return Ok(());
        }
        let routine = &self.code.routines[routine as usize];
        let from = slot as usize * self.code.arguments_max;
        scratch.stack.clear();
        scratch
            .stack
            .extend_from_slice(&scratch.arguments[from..from + routine.arity as usize]);
        self.calls = 0;
        self.mark = slot;
        self.evaluate(routine.block, routine.arity as usize, owner)?;
        self.work()
    }

    /// Runs the blocks that forks left.
    fn work(&mut self) -> Result<(), Failure> {
        while let Some(item) = self.scratch.items.pop() {
            let from = self.scratch.item_arguments.len() - item.arguments as usize;
            self.scratch.stack.clear();
            self.scratch
                .stack
                .extend(self.scratch.item_arguments.drain(from..));
            if !matches!(item.owner.parent, Parent::Series(_))
                && self.scratch.closed[item.owner.root as usize]
            {
                continue;
            }
            self.evaluate(item.block, item.arguments as usize, item.owner)?;
        }
        Ok(())
    }

    /// Runs a block, with its arguments on the stack, to what becomes of its value.
    fn evaluate(&mut self, block: u32, mut arity: usize, owner: Owner) -> Result<(), Failure> {
        let code = self.code;
        let (mut pc, mut base) = (block as usize, 0);
        self.scratch.frames.clear();
        loop {
            let stack = &mut self.scratch.stack;
            let op = code.ops[pc];
            pc += 1;
            match op {
                Op::Push(number) => stack.push(number),
                Op::Argument(argument) => stack.push(stack[base + argument as usize]),
                Op::Observe(observable) => {
                    let value = self.execution.observe(observable as usize);
                    // The model has no value there, such as a mean of nothing.
                    if value.is_nan() {
                        return self.discard(owner);
                    }
                    stack.push(value);
                }
                Op::Steps => stack.push(self.steps as f64),
                Op::Ended => stack.push(f64::from(self.ended)),
                Op::Unary(op) => {
                    let value = pop(stack);
                    stack.push(op.apply(value));
                }
                Op::Binary(op) => {
                    let b = pop(stack);
                    let a = pop(stack);
                    match op.apply(a, b) {
                        Some(value) => stack.push(value),
                        None => return self.discard(owner),
                    }
                }
                Op::Jump(to) => pc = to as usize,
                Op::JumpIfFalse(to) => {
                    if pop(stack) == 0.0 {
                        pc = to as usize;
                    }
                }
                Op::ObserveNumbered(place) => {
                    let number = pop(stack);
                    let Some(value) = self.observe_numbered(number) else {
                        return Err(Failure::NoSuchObservable { number, place });
                    };
                    if value.is_nan() {
                        return self.discard(owner);
                    }
                    self.scratch.stack.push(value);
                }
                Op::Enter(routine) => {
                    let frames = &mut self.scratch.frames;
                    if frames.len() == FRAMES_MAX {
                        return Err(Failure::TooDeep(routine));
                    }
                    frames.push((pc as u32, base as u32));
                    base = stack.len() - code.routines[routine as usize].arity as usize;
                    pc = code.now_of(routine) as usize;
                    self.count_call(routine)?;
                }
                Op::Return => {
                    let value = pop(stack);
                    stack.truncate(base);
                    stack.push(value);
                    let (back, caller) = self.scratch.frames.pop().expect("entered before");
                    (pc, base) = (back as usize, caller as usize);
                }
                Op::Done => {
                    let value = pop(stack);
                    self.deliver(owner, value);
                    return Ok(());
                }
                Op::Tail(routine) => {
                    let to = &code.routines[routine as usize];
                    arity = to.arity as usize;
                    let from = stack.len() - arity;
                    stack.drain(..from);
                    pc = to.block as usize;
                    self.count_call(routine)?;
                }
                Op::Next(routine) => return self.watch(routine, owner),
                Op::Fork(fork) => return self.fork(fork, arity, owner),
                Op::Discard => return self.discard(owner),
            }
        }
    }

    fn count_call(&mut self, routine: u32) -> Result<(), Failure> {
        self.calls += 1;
        if self.calls > CALLS_MAX {
            return Err(Failure::TooManyCalls(routine));
        }
        Ok(())
    }

    fn observe_numbered(&self, number: f64) -> Option<f64> {
        use super::analysis::Observed;
        if number == Observed::Steps.number() {
            return Some(self.steps as f64);
        }
        if number == Observed::Ended.number() {
            return Some(f64::from(self.ended));
        }
        let whole = number as u32;
        let index = match whole {
            _ if f64::from(whole) != number => None,
            0 => self.code.time,
            _ => (whole <= self.code.observables).then(|| whole - 1),
        };
        index.map(|index| self.execution.observe(index as usize))
    }

    /// The value goes to whose it is, and on if that completes another.
    fn deliver(&mut self, mut owner: Owner, mut value: f64) {
        loop {
            match owner.parent {
                Parent::Root => {
                    self.row.values[owner.root as usize] = value;
                    self.scratch.closed[owner.root as usize] = true;
                    return;
                }
                Parent::Series(series) => {
                    self.scratch.series[series as usize].value = value;
                    return;
                }
                Parent::Join { join, side } => {
                    let joining = &mut self.scratch.joins[join as usize];
                    joining.values[side as usize] = value;
                    joining.missing -= 1;
                    if joining.missing > 0 {
                        return;
                    }
                    let [a, b] = joining.values;
                    owner = joining.owner;
                    let made = match joining.join {
                        Join::Unary(op) => Some(op.apply(a)),
                        Join::Binary(op) => op.apply(a, b),
                    };
                    self.scratch.free_joins.push(join);
                    match made {
                        Some(made) => value = made,
                        None => return self.close(owner.root),
                    }
                }
            }
        }
    }

    fn close(&mut self, root: u32) {
        self.scratch.closed[root as usize] = true;
    }

    /// The run has no value here.
    fn discard(&mut self, owner: Owner) -> Result<(), Failure> {
        if let Parent::Series(series) = owner.parent {
            return Err(Failure::NoValue(self.code.series[series as usize].place));
        }
        self.close(owner.root);
        Ok(())
    }

    /// A value that needs others: theirs are started.
    fn fork(&mut self, fork: u32, arity: usize, owner: Owner) -> Result<(), Failure> {
        let fork = self.code.forks[fork as usize];
        let scratch = &mut *self.scratch;
        let mut joining = Joining {
            join: fork.join,
            values: [0.0; 2],
            missing: fork.blocks.iter().flatten().count() as u8,
            owner,
        };
        if matches!(fork.join, Join::Binary(_)) {
            for (value, block) in joining.values.iter_mut().zip(fork.blocks).rev() {
                if block.is_none() {
                    *value = pop(&mut scratch.stack);
                }
            }
        }
        let join = match scratch.free_joins.pop() {
            Some(join) => {
                scratch.joins[join as usize] = joining;
                join
            }
            None if scratch.joins.len() == JOINS_MAX => {
                return Err(Failure::TooManyJoins(
                    self.code.roots[owner.root as usize].place,
                ));
            }
            None => {
                scratch.joins.push(joining);
                (scratch.joins.len() - 1) as u32
            }
        };
        for (side, block) in (0..).zip(fork.blocks) {
            let Some(block) = block else { continue };
            scratch
                .item_arguments
                .extend_from_slice(&scratch.stack[..arity]);
            scratch.items.push(Item {
                block,
                arguments: arity as u32,
                owner: Owner {
                    parent: Parent::Join { join, side },
                    root: owner.root,
                },
            });
        }
        Ok(())
    }

    /// Waits for the next state, or sleeps until the moment that the routine waits for.
    fn watch(&mut self, routine: u32, owner: Owner) -> Result<(), Failure> {
        let (code, scratch) = (self.code, &mut *self.scratch);
        let to = &code.routines[routine as usize];
        let stride = code.arguments_max;
        let given = scratch.stack.len() - to.arity as usize;
        let slot = scratch.free.pop().unwrap_or_else(|| {
            scratch.watchers.push(Watcher { routine, owner });
            scratch
                .arguments
                .resize(scratch.watchers.len() * stride, 0.0);
            (scratch.watchers.len() - 1) as u32
        });
        scratch.watchers[slot as usize] = Watcher { routine, owner };
        let from = slot as usize * stride;
        scratch.arguments[from..from + to.arity as usize].copy_from_slice(&scratch.stack[given..]);
        if self.ended {
            self.scratch.fresh.push(slot);
            return self.compare_with_mark(slot);
        }
        let moment = to.wait.map(|wait| match wait.moment {
            Moment::At(moment) => (wait.clock, moment),
            Moment::Argument(argument) => (wait.clock, scratch.stack[given + argument as usize]),
        });
        match moment {
            Some((Clock::End, _)) => scratch.until_end.push(slot),
            Some((clock, moment)) if !moment.is_nan() => {
                let heap = usize::from(clock == Clock::Steps);
                scratch.sleeping[heap].push(Reverse((order(moment), slot)));
            }
            _ => scratch.fresh.push(slot),
        }
        Ok(())
    }

    /// Goes on at the last state until every watcher has its value. Nothing changes there but arguments: what comes back never ends.
    fn at_last_state(&mut self) -> Result<(), Failure> {
        let scratch = &mut *self.scratch;
        for heap in &mut scratch.sleeping {
            // In the order of the slots, so that the first error is always the same.
            let mut slots: Vec<u32> = heap.drain().map(|Reverse((_, slot))| slot).collect();
            slots.sort_unstable();
            scratch.awake.append(&mut slots);
        }
        scratch.awake.append(&mut scratch.until_end);
        for round in 1..=LAST_STEPS_MAX {
            if self.scratch.awake.is_empty() {
                return Ok(());
            }
            if round.is_power_of_two() {
                self.mark_all();
            }
            self.advance()?;
        }
        let slot = self.scratch.awake[0];
        Err(Failure::Endless(
            self.scratch.watchers[slot as usize].routine,
        ))
    }

    fn mark_all(&mut self) {
        let scratch = &mut *self.scratch;
        scratch.marks.clear();
        scratch
            .marks
            .extend(scratch.watchers.iter().map(|watcher| watcher.routine));
        scratch.mark_arguments.clone_from(&scratch.arguments);
    }

    /// The watcher in a slot comes from the one that is taken on, whose mark it inherits.
    fn compare_with_mark(&mut self, slot: u32) -> Result<(), Failure> {
        let (scratch, stride) = (&mut *self.scratch, self.code.arguments_max);
        let (own, old) = (slot as usize, self.mark as usize);
        if scratch.marks.len() <= own {
            scratch.marks.resize(own + 1, NONE);
            scratch.mark_arguments.resize((own + 1) * stride, 0.0);
        }
        let Some(&mark) = scratch.marks.get(old) else {
            scratch.marks[own] = NONE;
            return Ok(());
        };
        let routine = scratch.watchers[own].routine;
        let arity = self.code.routines[routine as usize].arity as usize;
        let now = &scratch.arguments[own * stride..][..arity];
        let then = &scratch.mark_arguments[old * stride..][..arity];
        let same = now
            .iter()
            .zip(then)
            .all(|(a, b)| a.to_bits() == b.to_bits());
        if routine == mark && same {
            return Err(Failure::Endless(routine));
        }
        scratch.marks[own] = mark;
        scratch
            .mark_arguments
            .copy_within(old * stride..(old + 1) * stride, own * stride);
        Ok(())
    }

    /// Takes the series on to this state.
    fn sample(&mut self) -> Result<(), Failure> {
        let code = self.code;
        for (index, series) in code.series.iter().enumerate() {
            if self.scratch.series[index].done == series.count {
                continue;
            }
            let now = code
                .time
                .map_or(0.0, |time| self.execution.observe(time as usize));
            self.spread(index, series, now);
            self.scratch.stack.clear();
            self.calls = 0;
            let owner = Owner {
                parent: Parent::Series(index as u32),
                root: NONE,
            };
            self.evaluate(series.block, 0, owner)?;
        }
        Ok(())
    }

    fn sample_to_end(&mut self) {
        for (index, series) in self.code.series.iter().enumerate() {
            self.spread(index, series, f64::INFINITY);
        }
    }

    /// The value held until now: each step that is over gives its mean.
    fn spread(&mut self, index: usize, series: &Series, now: f64) {
        let sampled = &mut self.scratch.series[index];
        let list = &mut self.row.samples[series.list];
        while sampled.done < series.count && sampled.since < now {
            let end = series.from + (sampled.done + 1) as f64 * series.step;
            let until = now.min(end);
            sampled.sum += sampled.value * (until - sampled.since);
            sampled.since = until;
            if until >= end {
                list.push(sampled.sum / series.step);
                sampled.sum = 0.0;
                sampled.done += 1;
            }
        }
    }

    #[cold]
    fn explain(&self, failure: &Failure) -> QueryError {
        let of = |routine: &u32| {
            let routine = &self.code.routines[*routine as usize];
            (&routine.name, &self.code.places[routine.place as usize])
        };
        let time = self.code.time.map_or(String::new(), |time| {
            format!(" (time {})", self.execution.observe(time as usize))
        });
        let (place, found, expected, remedy): (&Place, String, &str, String) = match failure {
            Failure::Endless(routine) => {
                let (name, place) = of(routine);
                let found = format!(
                    "`{name}` never ends: at the run's last state{time} it still asks for the next one"
                );
                (
                    place,
                    found,
                    "",
                    format!(
                        "let it end within the run, or at its end: `if s.rval(\"ended\") then … else # {name}(…) fi`"
                    ),
                )
            }
            Failure::TooManyCalls(routine) => {
                let (name, place) = of(routine);
                let found = format!(
                    "`{name}` does not end: over {CALLS_MAX} operators within one state{time}"
                );
                (
                    place,
                    found,
                    "",
                    format!("`# {name}(…)` goes on in the next state"),
                )
            }
            Failure::TooDeep(routine) => {
                let (name, place) = of(routine);
                let found = format!(
                    "`{name}` calls itself more than {FRAMES_MAX} deep within one state{time}"
                );
                (
                    place,
                    found,
                    "",
                    "let it end, or carry the result along in a parameter".into(),
                )
            }
            Failure::TooManyJoins(place) => {
                let found = format!("more than {JOINS_MAX} values that wait for later states");
                (&self.code.places[*place as usize], found, "", "carry the sum along in a parameter: `f(sum) = if … then sum else # f(sum + …) fi`".into())
            }
            Failure::NoSuchObservable { number, place } => {
                let found = format!("observable number {number}");
                (
                    &self.code.places[*place as usize],
                    found,
                    "a number that the model lists, or 0 for `time`",
                    "`--observables` lists them in their order, from 1".into(),
                )
            }
            Failure::NoValue(place) => {
                let found = format!(
                    "no value in one of the states{time}: a division by zero, or an observable without value"
                );
                (
                    &self.code.places[*place as usize],
                    found,
                    "",
                    "guard it: `if attempted > 0 then complete / attempted else 1 fi`".into(),
                )
            }
        };
        QueryError {
            place: Box::new(place.clone()),
            found,
            expected: expected.into(),
            remedy,
        }
    }
}

fn pop(stack: &mut Vec<f64>) -> f64 {
    stack.pop().expect("the compiler pushed it")
}

/// A key that sorts as the number does.
fn order(number: f64) -> u64 {
    // The zeros are equal.
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}
