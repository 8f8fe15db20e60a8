//! Values that one thread sets and tasks of others wait for.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// One byte with one waiter, the task that owns the other end. Looking at it is one load.
#[derive(Debug, Default)]
pub(super) struct Signal {
    value: AtomicU8,
    waiter: Mutex<Option<Waker>>,
}

impl Signal {
    pub(super) fn get(&self) -> u8 {
        self.value.load(Ordering::Acquire)
    }

    /// Sets the value and wakes who waits.
    pub(super) fn set(&self, value: u8) {
        self.value.store(value, Ordering::Release);
        let waiter = self
            .waiter
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    /// Ready once `is_it` holds of the value.
    pub(super) fn poll(&self, cx: &Context<'_>, is_it: impl Fn(u8) -> bool) -> Poll<u8> {
        let value = self.get();
        if is_it(value) {
            return Poll::Ready(value);
        }
        let mut waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiter
            .as_ref()
            .is_some_and(|waiter| waiter.will_wake(cx.waker()))
        {
            *waiter = Some(cx.waker().clone());
        }
        // It may have been set before the waiter was there.
        let value = self.get();
        if is_it(value) {
            Poll::Ready(value)
        } else {
            Poll::Pending
        }
    }
}

/// A byte that is set once, with any number of waiters.
#[derive(Debug, Default)]
pub(super) struct Ending {
    value: AtomicU8,
    waiters: Mutex<Vec<(u64, Waker)>>,
}

impl Ending {
    /// 0 until it is set.
    pub(super) fn get(&self) -> u8 {
        self.value.load(Ordering::Acquire)
    }

    /// Sets it, if it is not set yet, and wakes all who wait.
    pub(super) fn set(&self, value: u8) {
        let set = self
            .value
            .compare_exchange(0, value, Ordering::AcqRel, Ordering::Acquire);
        if set.is_ok() {
            let waiters = std::mem::take(&mut *self.waiters());
            for (_, waiter) in waiters {
                waiter.wake();
            }
        }
    }

    /// Ready once it is set. `who` has one place among the waiters, until [`Self::forget`].
    pub(super) fn poll(&self, cx: &Context<'_>, who: u64) -> Poll<u8> {
        if self.get() == 0 {
            let mut waiters = self.waiters();
            match waiters.iter_mut().find(|(other, _)| *other == who) {
                Some((_, waiter)) => waiter.clone_from(cx.waker()),
                None => waiters.push((who, cx.waker().clone())),
            }
        }
        // It may have been set before the waiter was there.
        match self.get() {
            0 => Poll::Pending,
            value => Poll::Ready(value),
        }
    }

    pub(super) fn forget(&self, who: u64) {
        self.waiters().retain(|(other, _)| *other != who);
    }

    fn waiters(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Waker)>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
