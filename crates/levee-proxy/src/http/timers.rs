//! Deadlines of one worker.
//!
//! A phase of a request has a deadline, and a request has half a dozen phases; nearly all of them end in time. So setting one
//! must cost next to nothing: it writes one number. A tick that comes every [`TICK`] reads all of them, eight bytes a
//! connection, and wakes whoever is late. A deadline is never early and at most two ticks late.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// How often deadlines are looked at.
pub(crate) const TICK: Duration = Duration::from_millis(25);
const TICK_MS: u64 = 25;
const NEVER: u64 = u64::MAX;

/// All deadlines of a worker, in milliseconds since its start.
#[derive(Debug)]
pub(crate) struct Timers {
    start: Instant,
    now_ms: Cell<u64>,
    /// By [`Timer::index`]; side by side, so that a tick reads little memory.
    deadlines: RefCell<Vec<u64>>,
    wakers: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
}

impl Timers {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            start: Instant::now(),
            now_ms: Cell::new(0),
            deadlines: RefCell::default(),
            wakers: RefCell::default(),
            free: RefCell::default(),
        })
    }

    /// The time of the last tick.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    /// When something that starts now and may take `span` is late.
    pub(crate) fn after(&self, span: Duration) -> u64 {
        let ms = u64::try_from(span.as_millis()).unwrap_or(NEVER);
        // The last tick may be one tick ago.
        self.now_ms.get().saturating_add(ms).saturating_add(TICK_MS)
    }

    /// A timer that is not set.
    pub(crate) fn timer(self: &Rc<Self>) -> Timer {
        let free = self.free.borrow_mut().pop();
        let index = free.unwrap_or_else(|| {
            self.deadlines.borrow_mut().push(NEVER);
            let mut wakers = self.wakers.borrow_mut();
            wakers.push(None);
            wakers.len() - 1
        });
        Timer {
            timers: Rc::clone(self),
            index,
        }
    }

    /// Reads the clock and wakes whoever is late.
    pub(crate) fn tick(&self) {
        let ms = self.start.elapsed().as_millis();
        self.tick_at(u64::try_from(ms).unwrap_or(NEVER - 1));
    }

    fn tick_at(&self, now_ms: u64) {
        self.now_ms.set(now_ms);
        let wakers = self.wakers.borrow();
        for (deadline, waker) in self.deadlines.borrow().iter().zip(wakers.iter()) {
            if let (true, Some(waker)) = (*deadline <= now_ms, waker) {
                waker.wake_by_ref();
            }
        }
    }

    /// Wakes all, to look at something else than their deadlines.
    pub(crate) fn wake_all(&self) {
        for waker in self.wakers.borrow().iter().flatten() {
            waker.wake_by_ref();
        }
    }
}

/// The deadline of one task.
#[derive(Debug)]
pub(crate) struct Timer {
    timers: Rc<Timers>,
    index: usize,
}

impl Timer {
    /// The task is late when `span` from now has passed.
    pub(crate) fn set(&self, span: Duration) {
        self.set_at(self.timers.after(span));
    }

    /// The task is late at a time of [`Timers::after`].
    pub(crate) fn set_at(&self, deadline_ms: u64) {
        self.timers.deadlines.borrow_mut()[self.index] = deadline_ms;
    }

    /// The task is never late.
    pub(crate) fn clear(&self) {
        self.set_at(NEVER);
    }

    /// Whether the task is late; if not, it is woken when it is.
    pub(crate) fn is_late(&self, cx: &Context<'_>) -> bool {
        let mut wakers = self.timers.wakers.borrow_mut();
        let waker = &mut wakers[self.index];
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.timers.deadlines.borrow()[self.index] <= self.timers.now_ms.get()
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.clear();
        self.timers.wakers.borrow_mut()[self.index] = None;
        self.timers.free.borrow_mut().push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_deadline_is_never_early_and_wakes_its_task_alone() {
        let timers = Timers::new();
        let (late, calm) = (timers.timer(), timers.timer());
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let cx = Context::from_waker(&waker);
        late.set(Duration::from_millis(100));
        calm.set(Duration::from_secs(100));
        for (now_ms, is_late) in [(99, false), (124, false), (125, true)] {
            timers.tick_at(now_ms);
            assert_eq!(late.is_late(&cx), is_late, "at {now_ms} ms");
            assert!(!calm.is_late(&cx));
        }
        timers.tick_at(125);
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
        late.clear();
        timers.tick_at(1_000);
        assert!(!late.is_late(&cx));
        timers.wake_all();
        assert_eq!(count.0.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_place_is_used_again_without_what_was_there() {
        let timers = Timers::new();
        let timer = timers.timer();
        timer.set(Duration::ZERO);
        drop(timer);
        timers.tick_at(1_000);
        let next = timers.timer();
        assert_eq!(next.index, 0);
        assert!(!next.is_late(&Context::from_waker(Waker::noop())));
    }
}
