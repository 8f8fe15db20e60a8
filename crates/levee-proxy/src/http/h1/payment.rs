//! A payment channel: the bytes of a POST are counted as they come, and dropped without being copied.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::answer::Answer;
use super::{Loop, Next};
use crate::http::body::Ready;
use crate::http::buffer::LARGE_BYTES;
use crate::http::connection::Broken;
use crate::http::exchange::Failure;
use crate::http::gate::PayMeter;
use crate::http::snapshot::Phase;
use crate::http::worker::{Active, Worker};

impl Loop {
    /// Takes the payment whose head is the first `len` bytes, and answers it.
    pub(super) async fn payment(&mut self, worker: &Worker, active: &Active, len: usize) -> Next {
        let begins = worker.shared.gate.pay(&self.facts(len));
        let mut begins = pin!(begins);
        let link = &self.client.connection.link;
        link.timer.set(active.settings.timeouts.body);
        // Its request may be on its way, on another connection.
        let begun = poll_fn(|cx| match begins.as_mut().poll(cx) {
            Poll::Ready(begun) => Poll::Ready(Ok(begun)),
            Poll::Pending => match link.poll_stop(cx) {
                Ok(()) => Poll::Pending,
                Err(broken) => Poll::Ready(Err(broken)),
            },
        });
        let begun = begun.await;
        self.consume_head(worker, len);
        let answer = match begun {
            Ok(Ok(meter)) => match self.sink(active, meter).await {
                Ok(meter) => meter.finish(),
                Err(failure) => return self.failed(worker, active, failure).await,
            },
            Ok(Err(answer)) => answer,
            Err(broken) => return self.failed(worker, active, Failure::Client(broken)).await,
        };
        self.refuse(worker, active, &Answer::from(answer)).await
    }

    /// Reads the body until it ends, or buys nothing any more.
    async fn sink(&mut self, active: &Active, mut meter: PayMeter) -> Result<PayMeter, Failure> {
        let timeout = active.settings.timeouts.body;
        loop {
            let link = &self.client.connection.link;
            link.timer.set(timeout);
            link.be(Phase::Body);
            let client = &mut self.client;
            let took = poll_fn(|cx| {
                if meter.poll_closed(cx).is_ready() {
                    return Poll::Ready(Ok(None));
                }
                client.poll_payment(cx)
            });
            let Some(n) = took.await? else {
                return Ok(meter);
            };
            if let Some(pause) = meter.paid(n) {
                self.rest(&meter, pause).await.map_err(Failure::Client)?;
            }
        }
    }

    /// Reads nothing for a while: payment comes faster than it may.
    async fn rest(&mut self, meter: &PayMeter, pause: Duration) -> Result<(), Broken> {
        let link = &self.client.connection.link;
        link.timer.set(pause);
        link.be(Phase::Waiting);
        poll_fn(|cx| {
            if meter.poll_closed(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            match link.poll_stop(cx) {
                Ok(()) => Poll::Pending,
                Err(Broken::Late) => Poll::Ready(Ok(())),
                Err(broken) => Poll::Ready(Err(broken)),
            }
        })
        .await
    }
}

impl super::client::Http1 {
    /// Drops content of the body as it comes: how much, or `None` when it has ended.
    fn poll_payment(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Result<Option<u64>, Failure>> {
        let body = &mut self.body;
        loop {
            match body.look(&mut self.connection.input) {
                Ok(Ready::End) => return Poll::Ready(Ok(None)),
                Ok(Ready::Data(n)) => {
                    body.consume(&mut self.connection.input, n);
                    return Poll::Ready(Ok(Some(n as u64)));
                }
                Ok(Ready::More) => {}
                Err(bad) => return Poll::Ready(Err(Failure::Body(bad))),
            }
            // Of a body of known length nothing has to be looked at.
            let read = match body.left() {
                Some(left) => self.connection.poll_sink(cx, left),
                None => self.connection.poll_fill(cx, LARGE_BYTES),
            };
            match read {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(Failure::Client(Broken::Closed)));
                }
                Poll::Ready(Ok(n)) if body.left().is_some() => {
                    body.sunk(n as u64);
                    return Poll::Ready(Ok(Some(n as u64)));
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(broken)) => return Poll::Ready(Err(Failure::Client(broken))),
            }
        }
    }
}
