//! A reader that ends a record without end: one quote left open would take in the whole file.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// Longest record, and what a buffer may have read ahead. A call of FreeSWITCH in JSON has some 50 kB.
const RECORD_BYTES_MAX: u64 = 4 << 20;

/// Passes on at most so much between two renewals.
pub(super) struct Bounded<R> {
    reader: R,
    budget: Budget,
}

/// What is left.
#[derive(Clone)]
pub(super) struct Budget(Rc<Cell<u64>>);

impl<R: Read> Bounded<R> {
    pub(super) fn new(reader: R) -> (Self, Budget) {
        let budget = Budget(Rc::new(Cell::new(RECORD_BYTES_MAX)));
        let bounded = Self {
            reader,
            budget: budget.clone(),
        };
        (bounded, budget)
    }
}

impl Budget {
    /// A new record begins.
    pub(super) fn renew(&self) {
        self.0.set(RECORD_BYTES_MAX);
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buffer)?;
        match self.budget.0.get().checked_sub(n as u64) {
            Some(left) => self.budget.0.set(left),
            None => return Err(io::Error::new(io::ErrorKind::FileTooLarge, TooLong)),
        }
        Ok(n)
    }
}

/// The budget is used up.
#[derive(Debug, thiserror::Error)]
#[error("a record longer than {} MiB", RECORD_BYTES_MAX >> 20)]
struct TooLong;

/// Whether this is the end of the budget, and no failure of the reader.
pub(super) fn is_too_long(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<TooLong>)
}
