//! The contract of every defence.

use crate::Time;

/// A defence that is driven from outside: by a socket loop, a model or a replay.
///
/// # The contract
///
/// 1. The driver calls [`handle`](Self::handle) when something happens and [`handle_deadline`](Self::handle_deadline) when
///    the time that [`deadline`](Self::deadline) gave has come. Calling the latter early or late is allowed: it does what is due.
/// 2. After each of the two it takes outputs with [`poll_output`](Self::poll_output) until that returns `None`, and carries
///    them out in that order.
/// 3. Only then may it rely on `deadline`.
/// 4. Time never goes back: a `now` before the last one is treated as the last one.
/// 5. Same inputs, same times and same random numbers give the same outputs, on every machine.
pub trait StateMachine {
    /// What may happen.
    type Input;
    /// What is to be done.
    type Output;

    /// Takes note of something that happened at `now`.
    fn handle<R: rand_core::Rng + ?Sized>(&mut self, now: Time, input: Self::Input, rng: &mut R);

    /// Does what was due by `now`.
    fn handle_deadline<R: rand_core::Rng + ?Sized>(&mut self, now: Time, rng: &mut R);

    /// The next thing to do, until there is none.
    fn poll_output(&mut self) -> Option<Self::Output>;

    /// When to call [`handle_deadline`](Self::handle_deadline) next, if nothing happens before.
    fn deadline(&self) -> Option<Time>;
}
