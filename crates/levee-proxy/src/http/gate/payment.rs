//! Payment: bytes that come for a ticket and are counted as they come.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use levee_policy::thinner::Mode;
use tokio::time::timeout;

use super::requests::WON;
use super::signal::Ending;
use super::{Gate, RequestFacts};
use crate::http::pages::{self, Answer};
use crate::http::ticket::{BadTicket, Ticket};

/// How long a payment whose request is not there yet is kept, unread: they come on two connections, in any order.
const EARLY: Duration = Duration::from_secs(2);

/// A payment channel that is open. Its owner reads the body, and tells of every byte that came, as it came: compressed or not is
/// all the same. Dropped when it ends.
#[derive(Debug)]
pub struct PayMeter {
    slot: Slot,
    ticket: Ticket,
    channel: Arc<Ending>,
    /// Among those that wait for the channel's end.
    who: u64,
}

impl Gate {
    /// A payment wants to begin: [`RequestFacts::is_pay`]. Its body is not to be read before this is ready.
    ///
    /// # Errors
    ///
    /// The answer to a payment that is not taken; the connection is best closed then.
    pub fn pay(
        self: &Arc<Self>,
        facts: &RequestFacts<'_>,
    ) -> impl Future<Output = Result<PayMeter, Answer>> + Send + use<> {
        let gate = Arc::clone(self);
        let is_post = facts.method == b"POST";
        let opened = facts
            .ticket()
            .map(|text| gate.tickets.open(text, gate.now()));
        async move {
            if !is_post {
                return Err(pages::unpayable(405, "payment is sent by POST"));
            }
            gate.open(opened).await
        }
    }

    async fn open(
        self: Arc<Self>,
        opened: Option<Result<Ticket, BadTicket>>,
    ) -> Result<PayMeter, Answer> {
        let ticket = match opened {
            Some(Ok(ticket)) => ticket,
            None => return Err(self.unpaid(400, "no ticket: bring one in Levee-Ticket")),
            Some(Err(BadTicket::Forged)) => {
                return Err(self.unpaid(400, "this is no ticket of ours"));
            }
            Some(Err(BadTicket::Exhausted | BadTicket::Stale)) => {
                return Err(self.unpaid(410, "this ticket is too old"));
            }
        };
        // Counted from here on, so that those who wait for their request are bounded too.
        let slot = Slot::take(&self)?;
        let expected = {
            let mut requests = self.requests();
            let Some(requests) = requests.as_mut() else {
                return Err(pages::unpayable(410, "nothing has to be paid"));
            };
            if requests.unit_bytes().is_none() {
                return Err(pages::unpayable(409, "nothing is paid in bytes here"));
            }
            match requests.channel(ticket.id) {
                Some(channel) => return Ok(slot.opened(requests, ticket, channel)),
                None if requests.is_spent(ticket.id) => {
                    requests.payment_counts.late += 1;
                    return Err(pages::unpayable(
                        410,
                        "the request of this ticket was admitted",
                    ));
                }
                None => requests.expect(ticket.id),
            }
        };
        let come = expected.notified();
        tokio::pin!(come);
        // Enabled before the table is looked at again, for the request may have come meanwhile.
        come.as_mut().enable();
        if self
            .requests()
            .as_mut()
            .and_then(|requests| requests.channel(ticket.id))
            .is_none()
        {
            // Whether it came is seen below.
            let _ = timeout(EARLY, come).await;
        }
        let mut requests = self.requests();
        let Some(requests) = requests.as_mut() else {
            return Err(pages::unpayable(410, "nothing has to be paid"));
        };
        match requests.channel(ticket.id) {
            Some(channel) => Ok(slot.opened(requests, ticket, channel)),
            None => {
                requests.expect_no_more(ticket.id);
                requests.payment_counts.unasked += 1;
                Err(pages::unpayable(
                    409,
                    "the request of this ticket did not come",
                ))
            }
        }
    }

    fn unpaid(&self, status: u16, error: &str) -> Answer {
        if let Some(requests) = self.requests().as_mut() {
            requests.payment_counts.unknown += 1;
        }
        pages::unpayable(status, error)
    }
}

/// One of the channels that may be open.
#[derive(Debug)]
struct Slot(Arc<Gate>);

impl Slot {
    fn take(gate: &Arc<Gate>) -> Result<Self, Answer> {
        let most = gate.channels_max.load(Ordering::Relaxed);
        let open = gate.channels.fetch_add(1, Ordering::Relaxed);
        let slot = Slot(Arc::clone(gate));
        if open < most {
            return Ok(slot);
        }
        if let Some(requests) = gate.requests().as_mut() {
            requests.payment_counts.shed_channels += 1;
        }
        Err(pages::unpayable(503, "too many payments at once"))
    }

    fn opened(
        self,
        requests: &mut super::Requests,
        ticket: Ticket,
        channel: Arc<Ending>,
    ) -> PayMeter {
        requests.payment_counts.opened += 1;
        PayMeter {
            who: self.0.next_key(),
            slot: self,
            ticket,
            channel,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.channels.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PayMeter {
    /// So many bytes came. If it says how long, the channel is not to be read for so long: payment comes too fast.
    #[must_use]
    pub fn paid(&mut self, bytes: u64) -> Option<Duration> {
        let gate = &self.slot.0;
        let now = gate.now();
        let mut requests = gate.requests();
        let requests = requests.as_mut()?;
        let pause = requests.paid(now, self.ticket.id, bytes);
        gate.arm(requests.deadline());
        pause.map(|pause| Duration::from_nanos(pause.as_nanos()))
    }

    /// Whether its request waits no more.
    pub fn is_closed(&self) -> bool {
        self.channel.get() != 0
    }

    /// Ready when its request waits no more: admitted, turned away or gone. What is still to come buys nothing.
    pub fn poll_closed(&self, cx: &Context<'_>) -> Poll<()> {
        self.channel.poll(cx, self.who).map(drop)
    }

    /// Waits for [`Self::poll_closed`].
    pub async fn closed(&self) {
        poll_fn(|cx| self.poll_closed(cx)).await;
    }

    /// The answer to the payment, whether it is all there or the request waits no more.
    pub fn finish(self) -> Answer {
        let state = match self.channel.get() {
            0 => "waiting",
            WON => "admitted",
            _ => "gone",
        };
        let ((paid, price), mode) = match self.slot.0.requests().as_ref() {
            Some(requests) => (requests.standing(self.ticket.id), requests.mode),
            None => ((0, 0), Mode::Random),
        };
        pages::payment(
            state,
            paid,
            price,
            &self.slot.0.tickets.seal(&self.ticket),
            mode,
        )
    }
}

impl Drop for PayMeter {
    fn drop(&mut self) {
        self.channel.forget(self.who);
    }
}
