//! A value that one thread sets and the task of another waits for.

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
