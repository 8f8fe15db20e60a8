//! Runs, spread over threads, until they are enough.
//!
//! Runs are numbered. How many there will be before the next look is settled by the runs before, threads take them by number, and their
//! values are added up in the order of their numbers: whoever made them, the sums have the same bits. All targets are answered from all
//! runs of their point, also those that had their precision before others.
//!
//! A thread that finds no run to make at its point, because the last ones before a look are being made, goes on with the next point. So a
//! sweep of many small points keeps all threads busy.
//!
//! No clock is read here: whoever calls says, through [`Control`], when time is up, and draws the progress.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::estimate::{CheckError, Estimate, Next, Settings, Shape, Stopped, Tally, Target};
use crate::measure::{Measure, MeasureError, Row};
use crate::trial::Trial;

/// Into so many parts the runs before a look are dealt: so few that taking one costs nothing, so many that no thread waits long for the last.
const PARTS: u64 = 64;

/// Most runs in a part: their rows are in memory until they are added up.
const PART_MAX: u64 = 64;

/// No thread goes further ahead of the runs that are added up than so many parts for each thread: what waits is in memory, and lost when
/// the check is stopped.
const AHEAD_MAX: u64 = 4;

/// Each thread keeps the places of so many points: it goes to the next one now and then, and back.
const PLACES_MAX: usize = 2;

/// A point of a sweep: what is run, what is written down, what is asked.
#[derive(Debug)]
pub struct Point<'a, T, M> {
    /// What is run.
    pub trial: &'a T,
    /// What is written down of each run.
    pub measure: &'a M,
    /// What is asked.
    pub targets: &'a [Target],
}

/// Two points that are compared: run `i` of the one with run `i` of the other.
#[derive(Debug)]
pub struct Pair<'a, T, M> {
    /// The one.
    pub one: &'a T,
    /// The other, which is subtracted.
    pub other: &'a T,
    /// What is written down of each run of either.
    pub measure: &'a M,
    /// What is asked: means, probabilities and ratios.
    pub targets: &'a [Target],
}

/// Why a check ends before it is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The time is spent.
    Budget,
    /// Someone stopped it.
    Interrupted,
}

/// How a check is stopped, and watched.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Asked before each run, by any thread, with the index of its point. Once it says to halt, that point gets no more runs, and is
    /// answered from those that are complete without a gap. It must go on saying so.
    pub stop: &'a (dyn Fn(usize) -> Option<Halt> + Sync),
    /// Told how far it is, by any thread, one at a time. Nothing goes on meanwhile: be quick.
    pub progress: &'a (dyn Fn(&Progress) + Sync),
}

impl Control<'_> {
    /// Goes on until it is enough, and tells nobody.
    pub const NONE: Control<'static> = Control {
        stop: &|_| None,
        progress: &|_| {},
    };
}

impl std::fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Points in all.
    pub points: usize,
    /// Points that are answered.
    pub points_done: usize,
    /// Runs that are made.
    pub runs_done: u64,
    /// How many it will be in all, as far as the runs so far can tell.
    pub runs_expected: u64,
}

/// Checks one point.
///
/// # Errors
///
/// Settings or a target that cannot be, or a run that has no answer.
pub fn check<T: Trial, M: Measure>(
    point: &Point<'_, T, M>,
    settings: &Settings,
    control: Control<'_>,
) -> Result<Vec<Estimate>, CheckError> {
    Ok(check_points(std::slice::from_ref(point), settings, control)?.remove(0))
}

/// Checks each point. The answers are in the order of the points and their targets.
///
/// # Errors
///
/// Settings or a target that cannot be, or a run that has no answer: of the first such point, whatever the number of threads.
pub fn check_points<T: Trial, M: Measure>(
    points: &[Point<'_, T, M>],
    settings: &Settings,
    control: Control<'_>,
) -> Result<Vec<Vec<Estimate>>, CheckError> {
    let points: Vec<_> = points.iter().map(Single).collect();
    run(&points, settings, control)
}

/// Estimates, for each pair and target, how much the one exceeds the other, with common random numbers: what run `i` of both has in
/// common, such as who calls when, is not in the difference, so that few runs tell small ones.
///
/// # Errors
///
/// As [`check_points`], and for targets that have no difference.
pub fn compare<T: Trial, M: Measure>(
    pairs: &[Pair<'_, T, M>],
    settings: &Settings,
    control: Control<'_>,
) -> Result<Vec<Vec<Estimate>>, CheckError> {
    let pairs: Vec<_> = pairs.iter().map(Double).collect();
    run(&pairs, settings, control)
}

/// What a thread does for a run.
trait Work: Sync {
    /// Where it does it.
    type Place;

    fn place(&self) -> Self::Place;

    fn work(&self, run: u64, place: &mut Self::Place, row: &mut Row) -> Result<(), MeasureError>;

    fn shape(&self) -> Shape;

    /// A row of the right length.
    fn row(&self) -> Row;

    fn targets(&self) -> &[Target];
}

struct Single<'a, T, M>(&'a Point<'a, T, M>);

impl<T: Trial, M: Measure> Work for Single<'_, T, M> {
    type Place = (T::Execution, M::Scratch);

    fn place(&self) -> Self::Place {
        (self.0.trial.execution(), self.0.measure.scratch())
    }

    fn work(&self, run: u64, place: &mut Self::Place, row: &mut Row) -> Result<(), MeasureError> {
        row.clear();
        self.0.measure.measure(&mut place.0, run, &mut place.1, row)
    }

    fn shape(&self) -> Shape {
        Shape {
            columns: self.0.measure.columns(),
            samples: self.0.measure.samples(),
            pairs: false,
        }
    }

    fn row(&self) -> Row {
        Row::new(self.0.measure.columns(), self.0.measure.samples())
    }

    fn targets(&self) -> &[Target] {
        self.0.targets
    }
}

struct Double<'a, T, M>(&'a Pair<'a, T, M>);

struct DoublePlace<E, S> {
    one: E,
    other: E,
    scratch: S,
    row: Row,
}

impl<T: Trial, M: Measure> Work for Double<'_, T, M> {
    type Place = DoublePlace<T::Execution, M::Scratch>;

    fn place(&self) -> Self::Place {
        let measure = self.0.measure;
        DoublePlace {
            one: self.0.one.execution(),
            other: self.0.other.execution(),
            scratch: measure.scratch(),
            row: Row::new(measure.columns(), measure.samples()),
        }
    }

    fn work(&self, run: u64, place: &mut Self::Place, row: &mut Row) -> Result<(), MeasureError> {
        let columns = self.0.measure.columns();
        let mut half = |execution: &mut T::Execution, to: &mut [f64]| {
            place.row.clear();
            let measure = self.0.measure;
            measure.measure(execution, run, &mut place.scratch, &mut place.row)?;
            to.copy_from_slice(&place.row.values);
            Ok(())
        };
        half(&mut place.one, &mut row.values[..columns])?;
        half(&mut place.other, &mut row.values[columns..])
    }

    fn shape(&self) -> Shape {
        Shape {
            columns: self.0.measure.columns(),
            samples: self.0.measure.samples(),
            pairs: true,
        }
    }

    fn row(&self) -> Row {
        Row::new(2 * self.0.measure.columns(), 0)
    }

    fn targets(&self) -> &[Target] {
        self.0.targets
    }
}

fn run<W: Work>(
    works: &[W],
    settings: &Settings,
    control: Control<'_>,
) -> Result<Vec<Vec<Estimate>>, CheckError> {
    settings.check()?;
    let tallies = works
        .iter()
        .map(|work| Tally::new(work.targets(), settings, work.shape()))
        .collect::<Result<Vec<_>, _>>()?;
    let crew = Crew {
        works,
        control,
        board: Mutex::new(Board::new(tallies, settings.threads.get() as u64)),
        news: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 1..settings.threads.get() {
            scope.spawn(|| crew.toil());
        }
        crew.toil();
    });
    let board = crew.board.into_inner();
    board.unwrap_or_else(PoisonError::into_inner).answers()
}

/// The threads, and what they share.
struct Crew<'a, W> {
    works: &'a [W],
    control: Control<'a>,
    board: Mutex<Board>,
    /// There may be something to do, or nothing any more.
    news: Condvar,
}

/// Who does what, and what is known.
struct Board {
    points: Vec<State>,
    /// Points from here on are given up, because one before has no answer.
    given_up: usize,
    /// A thread panicked.
    broken: bool,
}

/// Where a point is.
struct State {
    /// Away while it is looked at.
    tally: Option<Tally>,
    /// Runs are made up to here, and then looked at.
    until: u64,
    /// How long a part is, before that look.
    part: u64,
    /// So many parts may be dealt out from the first run that is not added up.
    ahead: u64,
    /// The next run to be made.
    next: u64,
    /// Runs that are added up.
    added: u64,
    forecast: u64,
    /// Parts that threads are at.
    out: usize,
    /// Parts that wait for one before them, by their first run.
    waiting: BTreeMap<u64, Part>,
    /// Rows to be used again.
    spare: Vec<Row>,
    halted: Option<Halt>,
    /// The first run that has no answer, and why.
    failure: Option<(u64, String)>,
    answer: Option<Vec<Estimate>>,
}

/// A part of the runs before a look.
struct Part {
    runs: Range<u64>,
    /// Those that are made, in order.
    rows: Vec<Row>,
}

/// What a thread is to do.
enum Job {
    Make(usize, Part),
    Look(usize, Tally, Option<Halt>),
    Wait,
    Leave,
}

impl<W: Work> Crew<'_, W> {
    /// What each thread does.
    fn toil(&self) {
        let _alarm = Alarm(self);
        let mut places: Vec<(usize, W::Place)> = Vec::new();
        let mut board = self.board();
        loop {
            match board.job() {
                Job::Make(point, part) => {
                    drop(board);
                    let made = self.make(point, part, &mut places);
                    board = self.board();
                    board.points[point].add(made);
                    (self.control.progress)(&board.progress());
                    self.news.notify_all();
                }
                Job::Look(point, tally, halted) => {
                    drop(board);
                    let halted = halted.map(|halt| match halt {
                        Halt::Budget => Stopped::Budget,
                        Halt::Interrupted => Stopped::Interrupted,
                    });
                    let next = tally.next();
                    let answer =
                        (next.until.is_none() || halted.is_some()).then(|| tally.estimates(halted));
                    board = self.board();
                    board.points[point].looked(tally, next, answer);
                    (self.control.progress)(&board.progress());
                    self.news.notify_all();
                }
                Job::Wait => {
                    board = self
                        .news
                        .wait(board)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                Job::Leave => {
                    self.news.notify_all();
                    return;
                }
            }
        }
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, point: usize, mut part: Part, places: &mut Vec<(usize, W::Place)>) -> Made {
        let work = &self.works[point];
        let at = places.iter().position(|(of, _)| *of == point);
        let mut place = match at {
            Some(at) => places.remove(at),
            None => (point, work.place()),
        };
        let (mut halted, mut failure) = (None, None);
        let mut spare = std::mem::take(&mut part.rows);
        for run in part.runs.clone() {
            halted = (self.control.stop)(point);
            if halted.is_some() {
                break;
            }
            let mut row = spare.pop().unwrap_or_else(|| work.row());
            if let Err(error) = work.work(run, &mut place.1, &mut row) {
                failure = Some((run, error.message));
                break;
            }
            part.rows.push(row);
        }
        places.truncate(PLACES_MAX - 1);
        places.insert(0, place);
        Made {
            part,
            halted,
            failure,
        }
    }
}

/// What came of a part.
struct Made {
    part: Part,
    halted: Option<Halt>,
    failure: Option<(u64, String)>,
}

/// When its thread panics, the others leave too; the panic is passed on when all have.
struct Alarm<'a, 'b, W: Work>(&'a Crew<'b, W>);

impl<W: Work> Drop for Alarm<'_, '_, W> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.board().broken = true;
            self.0.news.notify_all();
        }
    }
}

impl Board {
    fn new(tallies: Vec<Tally>, threads: u64) -> Self {
        Self {
            given_up: tallies.len(),
            points: tallies
                .into_iter()
                .map(|t| State::new(t, threads))
                .collect(),
            broken: false,
        }
    }

    /// The first thing to do.
    fn job(&mut self) -> Job {
        if self.broken {
            return Job::Leave;
        }
        let mut open = false;
        for index in 0..self.given_up {
            let point = &mut self.points[index];
            if point.answer.is_some() {
                continue;
            }
            if let Some(part) = point.deal() {
                return Job::Make(index, part);
            }
            if point.settled() {
                if point.failure.is_some() {
                    self.given_up = index;
                    break;
                }
                if let Some(tally) = point.tally.take() {
                    return Job::Look(index, tally, point.halted);
                }
            }
            open = true;
        }
        if open { Job::Wait } else { Job::Leave }
    }

    fn progress(&self) -> Progress {
        let begun = self.points.iter().filter(|p| p.forecast > 0);
        let (count, expected) = begun.fold((0_u64, 0_u64), |(count, sum), p| {
            (count + 1, sum.saturating_add(p.forecast))
        });
        let others = self.points.len() as u64 - count;
        Progress {
            points: self.points.len(),
            points_done: self.points.iter().filter(|p| p.answer.is_some()).count(),
            runs_done: self.points.iter().map(|p| p.added).sum(),
            runs_expected: expected.saturating_add(others * (expected / count.max(1))),
        }
    }

    fn answers(self) -> Result<Vec<Vec<Estimate>>, CheckError> {
        let mut answers = Vec::with_capacity(self.points.len());
        for (point, state) in self.points.into_iter().enumerate() {
            if let Some((run, problem)) = state.failure {
                return Err(CheckError::Run {
                    point,
                    run,
                    problem,
                });
            }
            answers.extend(state.answer);
        }
        Ok(answers)
    }
}

impl State {
    fn new(tally: Tally, threads: u64) -> Self {
        let next = tally.next();
        let mut state = Self {
            tally: None,
            until: 0,
            part: 1,
            ahead: threads.saturating_mul(AHEAD_MAX),
            next: 0,
            added: 0,
            forecast: 0,
            out: 0,
            waiting: BTreeMap::new(),
            spare: Vec::new(),
            halted: None,
            failure: None,
            answer: None,
        };
        state.looked(tally, next, None);
        // Not before it has begun.
        state.forecast = 0;
        state
    }

    /// The next part, if there is one before the next look, not too far ahead.
    fn deal(&mut self) -> Option<Part> {
        let far = self.next - self.added >= self.part.saturating_mul(self.ahead);
        let no_more = self.next >= self.until || self.halted.is_some() || self.failure.is_some();
        if far || no_more {
            return None;
        }
        let runs = self.next..self.until.min(self.next + self.part);
        self.next = runs.end;
        self.out += 1;
        let kept = self.spare.len().saturating_sub(self.part as usize);
        Some(Part {
            runs,
            rows: self.spare.split_off(kept),
        })
    }

    /// Is no thread at it, and no run left before the next look?
    fn settled(&self) -> bool {
        let no_more = self.next == self.until || self.halted.is_some() || self.failure.is_some();
        self.out == 0 && no_more
    }

    fn add(&mut self, made: Made) {
        self.out -= 1;
        self.halted = self.halted.or(made.halted);
        if let Some((run, problem)) = made.failure {
            self.fail(run, problem);
        }
        self.waiting.insert(made.part.runs.start, made.part);
        let Some(tally) = &mut self.tally else {
            debug_assert!(false, "it is looked at when all parts are in");
            return;
        };
        let mut fault = None;
        // After a gap, which a halt or a failure leaves, no part begins where the sums end.
        'parts: while let Some(part) = self.waiting.remove(&self.added) {
            for row in &part.rows {
                if let Err(problem) = tally.push(row) {
                    fault = Some(problem);
                    break 'parts;
                }
                self.added += 1;
            }
            self.spare.extend(part.rows);
        }
        debug_assert_eq!(tally.done(), self.added);
        if let Some(problem) = fault {
            self.fail(self.added, problem);
        }
    }

    /// The first run without an answer is the one that is told, whichever was found first.
    fn fail(&mut self, run: u64, problem: String) {
        if self.failure.as_ref().is_none_or(|(first, _)| run < *first) {
            self.failure = Some((run, problem));
        }
    }

    fn looked(&mut self, tally: Tally, next: Next, answer: Option<Vec<Estimate>>) {
        self.forecast = next.forecast;
        self.answer = answer;
        if self.answer.is_some() {
            self.forecast = self.added;
            self.spare = Vec::new();
            self.waiting.clear();
            return;
        }
        self.tally = Some(tally);
        if let Some(until) = next.until {
            self.until = until;
            self.part = ((until - self.next) / PARTS).clamp(1, PART_MAX);
        }
    }
}
