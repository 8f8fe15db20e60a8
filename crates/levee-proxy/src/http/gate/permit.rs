//! What a request holds while it waits, and while it is served.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use levee_policy::Span;
use levee_policy::thinner::Outcome;
use tokio::sync::oneshot;

use super::Gate;
use super::requests::{ABORTED, Admitted, RESUMED, SUSPENDED, Verdict};
use crate::http::pages::Refusal;

/// A request that waits to be admitted. Dropped when its client is gone: it then leaves at once.
#[derive(Debug)]
pub struct Waiting {
    gate: Arc<Gate>,
    key: u64,
    generation: u32,
    /// `None` once it is decided.
    verdict: Option<oneshot::Receiver<Verdict>>,
}

impl Waiting {
    pub(super) fn new(
        gate: &Arc<Gate>,
        key: u64,
        generation: u32,
        verdict: oneshot::Receiver<Verdict>,
    ) -> Self {
        Waiting {
            gate: Arc::clone(gate),
            key,
            generation,
            verdict: Some(verdict),
        }
    }
}

impl Future for Waiting {
    type Output = Result<Permit, Refusal>;

    /// # Panics
    ///
    /// After it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(receiver) = &mut self.verdict else {
            panic!("a request is decided once");
        };
        let verdict = ready!(Pin::new(receiver).poll(cx));
        self.verdict = None;
        Poll::Ready(match verdict {
            Ok(Verdict::Admit(admitted)) => Ok(Permit::new(&self.gate, admitted, false)),
            Ok(Verdict::Refuse(refusal)) => Err(refusal),
            // The thinner was taken away.
            Err(_) => Ok(Permit::free()),
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(mut verdict) = self.verdict.take() else {
            return;
        };
        self.gate.leave(self.key, self.generation);
        // It may have been admitted at this moment.
        if let Ok(Verdict::Admit(admitted)) = verdict.try_recv() {
            self.gate.done(admitted.key, false, Outcome::Broken);
        }
    }
}

/// What the thinner wants of a request in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Let the server stop its work on it; another has paid more.
    Suspend,
    /// Let the server go on with it.
    Resume,
    /// Take it from the server for good, and answer 503.
    Abort,
}

/// A request that may pass, until [`Self::done`]. Dropped before that, it counts as [`Outcome::Broken`].
#[derive(Debug)]
pub struct Permit {
    /// `None`: the thinner was not asked, or is told.
    gate: Option<Arc<Gate>>,
    admitted: Admitted,
    is_shadow: bool,
    ordered: u8,
}

impl Permit {
    pub(super) fn new(gate: &Arc<Gate>, admitted: Admitted, is_shadow: bool) -> Self {
        Permit {
            gate: Some(Arc::clone(gate)),
            admitted,
            is_shadow,
            ordered: 0,
        }
    }

    /// Of a dry run: it passes, and the thinner believes that it waits.
    pub(super) fn shadow(gate: &Arc<Gate>, key: u64) -> Self {
        let admitted = Admitted {
            key,
            ..Admitted::default()
        };
        Permit::new(gate, admitted, true)
    }

    /// For a request that the thinner is not asked about.
    pub fn free() -> Self {
        Permit {
            gate: None,
            admitted: Admitted::default(),
            is_shadow: false,
            ordered: 0,
        }
    }

    /// What it paid, in the units of the mode.
    pub fn price(&self) -> u64 {
        self.admitted.price
    }

    /// How long it waited.
    pub fn waited(&self) -> Span {
        self.admitted.waited
    }

    /// The next order. Without a quantum there is none.
    pub async fn order(&mut self) -> Order {
        let Some(orders) = &self.admitted.orders else {
            return std::future::pending().await;
        };
        let last = self.ordered;
        // Suspended and resumed before anyone looked is as if nothing had been.
        let is_new = |value| value != last && !(last == 0 && value == RESUMED);
        let value = poll_fn(|cx| orders.poll(cx, is_new)).await;
        self.ordered = value;
        match value {
            SUSPENDED => Order::Suspend,
            ABORTED => Order::Abort,
            _ => Order::Resume,
        }
    }

    /// The request has left the server.
    pub fn done(mut self, outcome: Outcome) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(gate) = self.gate.take() {
            gate.done(self.admitted.key, self.is_shadow, outcome);
        }
    }

    /// Gives it up without telling the thinner.
    pub(super) fn into_admitted(mut self) -> Option<Admitted> {
        self.gate.take()?;
        (!self.is_shadow).then(|| std::mem::take(&mut self.admitted))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end(Outcome::Broken);
    }
}
