//! Requests before the thinner: who passes, who waits, who is turned away, and the tickets by which they are known again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use levee_policy::thinner::{
    Arrival, Config, Fairness, Input, Mode, Outcome, Output, RequestKey, Stats, Thinner,
};
use levee_policy::{ConfigError, Identity, Span, StateMachine as _, Time};
use serde::Serialize;
use tokio::sync::{Notify, oneshot};

use super::driven::Driven;
use super::signal::{Ending, Signal};
use crate::histogram::Histogram;
use crate::http::pages::{Cause, RETRY_BYTES, Refusal};
use crate::http::ticket::{Spent, Ticket, Tickets};
use crate::recorder::Recorder;

/// How long a place that a page's script won is kept for the reload: a round trip and a browser that is busy (our choice).
pub const CLAIM_HOLD: Span = Span::from_secs(3);
/// Bytes of payment that may come at once above the rate: what a tenth of a second brings.
const PAYMENT_BURST: Span = Span::from_millis(100);

/// Orders to the owner of an admitted request, as [`Signal`] values. 0: nothing was ordered.
pub(super) const RESUMED: u8 = 1;
pub(super) const SUSPENDED: u8 = 2;
pub(super) const ABORTED: u8 = 3;

type Table<V> = HashMap<u64, V, foldhash::fast::RandomState>;

/// How a payment channel ends, as an [`Ending`]'s value: its request was admitted, or turned away or left.
pub(super) const WON: u8 = 1;
pub(super) const GONE: u8 = 2;

/// A decision.
#[derive(Debug)]
pub(super) enum Verdict {
    Admit(Admitted),
    Refuse(Refusal),
}

/// An admitted request.
#[derive(Clone, Debug, Default)]
pub(super) struct Admitted {
    pub(super) key: u64,
    pub(super) price: u64,
    pub(super) waited: Span,
    /// With a quantum only.
    pub(super) orders: Option<Arc<Signal>>,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    /// The name of a newcomer; one with a ticket has that one's.
    pub(super) fresh: u64,
    pub(super) ticket: Option<Ticket>,
    pub(super) is_exhausted: bool,
    /// Hashes of a proof.
    pub(super) proved: u64,
    pub(super) can_wait: bool,
    pub(super) group: Option<Identity>,
    /// Bytes of the head.
    pub(super) bytes: u64,
}

/// What is answered.
#[derive(Debug)]
pub(super) enum Reply {
    Now(Verdict),
    /// The key and the generation of the wait.
    Later(u64, u32, oneshot::Receiver<Verdict>),
    /// A dry run lets it pass; the thinner believes that it waits.
    Shadow(u64),
    /// A dry run lets it pass; the thinner turned it away.
    Pass,
}

/// A contender.
#[derive(Debug)]
struct Contender {
    /// `None` in a dry run.
    verdict: Option<oneshot::Sender<Verdict>>,
    generation: u32,
    payment: Payment,
    /// As it came or was given.
    ticket: Ticket,
    has_ticket: bool,
    bytes: u64,
}

/// What is paid on the channels of one request.
#[derive(Debug)]
struct Payment {
    channel: Arc<Ending>,
    /// In the units of the mode, since it waits.
    units: u64,
    /// Bytes that make no whole unit yet.
    rest: u64,
}

impl Payment {
    fn new() -> Self {
        Payment {
            channel: Arc::default(),
            units: 0,
            rest: 0,
        }
    }

    /// Units that these bytes complete.
    fn add(&mut self, bytes: u64, unit_bytes: u64) -> u64 {
        let bytes = self.rest.saturating_add(bytes);
        self.rest = bytes % unit_bytes;
        let units = bytes / unit_bytes;
        self.units = self.units.saturating_add(units);
        units
    }
}

impl Drop for Payment {
    fn drop(&mut self) {
        self.channel.set(GONE);
    }
}

/// A request in service that can lose the server: with a quantum only.
#[derive(Debug)]
struct Working {
    orders: Arc<Signal>,
    /// It goes on to pay.
    payment: Payment,
}

/// A request of a dry run, which passed while the thinner believed that it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shadow {
    Admitted,
    Refused,
}

/// What the gate counts beside the thinner.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct TicketCounts {
    /// Tickets that were brought and counted.
    pub good: u64,
    /// Tickets that are not ours, or have been changed.
    pub forged: u64,
    /// Tickets that were turned away for as long as they may.
    pub exhausted: u64,
    /// Tickets of which nothing is known any more.
    pub stale: u64,
    /// Tickets whose contender had been admitted.
    pub spent: u64,
    /// Requests that took over the place of another with the same ticket.
    pub taken_over: u64,
    /// Places that a script won, and the reload took.
    pub claimed: u64,
    /// Places that a script won, and nobody took.
    pub unclaimed: u64,
    /// Refusals that a dry run did not carry out.
    pub would_refuse: u64,
    /// Waits that a dry run did not carry out.
    pub would_hold: u64,
}

/// What the gate counts of payments.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct PaymentCounts {
    /// Channels that were opened.
    pub opened: u64,
    /// Bytes that came on them.
    pub bytes: u64,
    /// Channels that were turned away, since so many were open.
    pub shed_channels: u64,
    /// Times that a channel had to pause, since the rate of payment bytes was reached.
    pub shed_pauses: u64,
    /// Payments without a ticket that counts.
    pub unknown: u64,
    /// Payments whose request did not come.
    pub unasked: u64,
    /// Payments whose request was decided before.
    pub late: u64,
}

/// All requests, under their lock.
pub(super) struct Requests {
    driven: Driven<Thinner>,
    pub(super) mode: Mode,
    has_quantum: bool,
    pub(super) protect: Vec<String>,
    is_dry_run: bool,
    contenders: Table<Contender>,
    shadows: Table<Shadow>,
    /// Owners of admitted requests, with a quantum only.
    working: Table<Working>,
    parked: Table<Admitted>,
    /// When each is given up, in this order; those that were taken meanwhile are still in it.
    parked_until: VecDeque<(Time, u64)>,
    /// Payers that came before their request.
    early: Table<Arc<Notify>>,
    spent: Spent,
    tickets: Tickets,
    pub(super) ticket_counts: TicketCounts,
    pub(super) payment_counts: PaymentCounts,
    bytes_per_second_max: Option<u64>,
    /// When the payment bytes so far would have come at that rate.
    paid_until: Time,
    /// From arrival to admission, of those that waited.
    wait: Histogram,
}

impl Requests {
    pub(super) fn new(
        config: &Config,
        tickets: Tickets,
        seed: u64,
        recorder: Option<Recorder<Thinner>>,
    ) -> Result<Self, ConfigError> {
        Ok(Requests {
            driven: Driven::new(Thinner::new(config.clone())?, seed, recorder),
            mode: config.mode,
            has_quantum: config.quantum.is_some(),
            protect: Vec::new(),
            is_dry_run: false,
            contenders: Table::default(),
            shadows: Table::default(),
            working: Table::default(),
            parked: Table::default(),
            parked_until: VecDeque::new(),
            early: Table::default(),
            spent: Spent::default(),
            tickets,
            ticket_counts: TicketCounts::default(),
            payment_counts: PaymentCounts::default(),
            bytes_per_second_max: None,
            paid_until: Time::ZERO,
            wait: Histogram::of_waits(),
        })
    }

    /// What is no affair of the thinner's.
    pub(super) fn set(
        &mut self,
        protect: &[String],
        is_dry_run: bool,
        bytes_per_second_max: Option<u64>,
    ) {
        self.protect = protect.to_vec();
        self.is_dry_run = is_dry_run;
        self.bytes_per_second_max = bytes_per_second_max;
    }

    pub(super) fn reconfigure(&mut self, now: Time, config: &Config) {
        self.mode = config.mode;
        self.has_quantum = config.quantum.is_some();
        self.handle(now, Input::Reconfigure(Box::new(config.clone())), None);
    }

    pub(super) fn protects(&self, path: &[u8]) -> bool {
        self.protect
            .iter()
            .any(|prefix| path.starts_with(prefix.as_bytes()))
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let parked = self.parked_until.front().map(|(until, _)| *until);
        [self.driven.machine.deadline(), parked]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn due(&mut self, now: Time) {
        if self.driven.due(now) {
            self.carry_out(now, None);
        }
        while let Some((until, id)) = self.parked_until.front().copied()
            && until <= now
        {
            self.parked_until.pop_front();
            if self.parked.remove(&id).is_some() {
                self.ticket_counts.unclaimed += 1;
                self.done(now, id, Outcome::Broken);
            }
        }
    }

    // Requests.

    pub(super) fn ask(&mut self, now: Time, asking: Asking) -> Reply {
        self.due(now);
        let ticket = asking.ticket.filter(|ticket| {
            let is_spent = self.spent.contains(ticket.id);
            self.ticket_counts.spent += u64::from(is_spent);
            !is_spent
        });
        self.ticket_counts.good += u64::from(ticket.is_some());
        let has_ticket = ticket.is_some();
        let mut ticket = ticket.unwrap_or(Ticket {
            id: asking.fresh,
            born: now,
            mode: self.mode,
            tries: 0,
            paid: 0,
        });
        if ticket.mode != self.mode {
            // Another currency since a reload: it buys nothing here.
            (ticket.mode, ticket.paid) = (self.mode, 0);
        }
        if self.mode == Mode::ProofOfWork {
            ticket.paid = ticket.paid.saturating_add(asking.proved);
        }
        if self.contenders.contains_key(&ticket.id) {
            return self.take_over(now, ticket);
        }
        let asking = Asking {
            ticket: Some(ticket),
            can_wait: asking.can_wait || has_ticket,
            ..asking
        };
        self.arrive(now, asking, ticket, has_ticket)
    }

    fn arrive(&mut self, now: Time, asking: Asking, ticket: Ticket, has_ticket: bool) -> Reply {
        let arrival = Arrival {
            request: RequestKey(ticket.id),
            paid: self.credit(&ticket, now),
            can_wait: asking.can_wait && !asking.is_exhausted,
            group: asking.group,
        };
        let mut newcomer = Newcomer {
            ticket,
            has_ticket,
            bytes: asking.bytes,
            verdict: None,
            wait: None,
        };
        self.handle(now, Input::Arrive(arrival), Some(&mut newcomer));
        match (newcomer.verdict, newcomer.wait) {
            (Some(Verdict::Refuse(_)), _) if self.is_dry_run => {
                self.ticket_counts.would_refuse += 1;
                Reply::Pass
            }
            (Some(Verdict::Refuse(refusal)), _) if asking.is_exhausted => {
                Reply::Now(Verdict::Refuse(Refusal {
                    cause: Cause::Exhausted,
                    ..refusal
                }))
            }
            (Some(verdict), _) => Reply::Now(verdict),
            (None, Some(wait)) => Reply::Later(ticket.id, 0, wait),
            (None, None) => {
                self.ticket_counts.would_hold += 1;
                Reply::Shadow(ticket.id)
            }
        }
    }

    /// What a newcomer has paid already, in the units of the mode.
    fn credit(&self, ticket: &Ticket, now: Time) -> u64 {
        match self.mode {
            Mode::Random => 0,
            Mode::Queue => now.since(ticket.born).as_nanos(),
            Mode::Retry | Mode::Priced | Mode::Auction | Mode::ProofOfWork => ticket.paid,
        }
    }

    /// The same ticket with another request: the newer one has the place, for the older may be a connection whose end was not
    /// seen yet.
    fn take_over(&mut self, now: Time, ticket: Ticket) -> Reply {
        let refusal = self.refusal(now, &ticket, 0, Cause::Duplicate, Span::ZERO, 0);
        let Some(contender) = self.contenders.get_mut(&ticket.id) else {
            return Reply::Now(Verdict::Refuse(refusal));
        };
        let more = ticket.paid.saturating_sub(contender.ticket.paid);
        contender.ticket = Ticket {
            paid: ticket.paid.max(contender.ticket.paid),
            ..ticket
        };
        let Some(older) = contender.verdict.take() else {
            // In a dry run everything passes.
            return Reply::Pass;
        };
        let (sender, receiver) = oneshot::channel();
        contender.verdict = Some(sender);
        contender.generation = contender.generation.wrapping_add(1);
        let generation = contender.generation;
        // The older one may have left at this moment.
        let _ = older.send(Verdict::Refuse(refusal));
        self.ticket_counts.taken_over += 1;
        if more > 0 {
            let request = RequestKey(ticket.id);
            self.handle(
                now,
                Input::Pay {
                    request,
                    units: more,
                },
                None,
            );
        }
        Reply::Later(ticket.id, generation, receiver)
    }

    /// The client of a contender is gone.
    pub(super) fn leave(&mut self, now: Time, key: u64, generation: u32) {
        // It may have won at this very moment: the machine does what is due before it hears of the leaving.
        self.due(now);
        let is_it = |contender: &Contender| contender.generation == generation;
        if !self.contenders.get(&key).is_some_and(is_it) {
            return;
        }
        if let Some(contender) = self.contenders.remove(&key) {
            contender.payment.channel.set(GONE);
            self.handle(
                now,
                Input::Leave {
                    request: RequestKey(key),
                },
                None,
            );
        }
    }

    /// An admitted request is over.
    pub(super) fn done(&mut self, now: Time, key: u64, outcome: Outcome) {
        if let Some(working) = self.working.remove(&key) {
            working.payment.channel.set(WON);
        }
        let request = RequestKey(key);
        self.handle(now, Input::Done { request, outcome }, None);
    }

    /// A request of a dry run is over that the thinner had let wait.
    pub(super) fn shadow_done(&mut self, now: Time, key: u64, outcome: Outcome) {
        match self.shadows.remove(&key) {
            Some(Shadow::Admitted) => self.done(now, key, outcome),
            Some(Shadow::Refused) => {}
            None => self.leave(now, key, 0),
        }
    }

    // Places that are won.

    pub(super) fn park(&mut self, now: Time, admitted: Admitted) {
        self.parked_until
            .push_back((now + CLAIM_HOLD, admitted.key));
        self.parked.insert(admitted.key, admitted);
    }

    /// The place that one of these tickets has won, for the request that takes it.
    pub(super) fn claim<'t>(
        &mut self,
        now: Time,
        mut tickets: impl Iterator<Item = &'t [u8]>,
    ) -> Option<Admitted> {
        if self.parked.is_empty() {
            return None;
        }
        let admitted = tickets.find_map(|text| {
            let ticket = self.tickets.open(text, now).ok()?;
            self.parked.remove(&ticket.id)
        })?;
        self.ticket_counts.claimed += 1;
        Some(admitted)
    }

    pub(super) fn is_parked(&self, id: u64) -> bool {
        self.parked.contains_key(&id)
    }

    // Payment.

    /// The channel of a request that can be paid for.
    pub(super) fn channel(&mut self, id: u64) -> Option<Arc<Ending>> {
        Some(Arc::clone(&self.payment(id)?.channel))
    }

    fn payment(&mut self, id: u64) -> Option<&mut Payment> {
        let working = self
            .working
            .get_mut(&id)
            .map(|working| &mut working.payment);
        working.or_else(|| Some(&mut self.contenders.get_mut(&id)?.payment))
    }

    /// How many bytes a unit of payment has; `None` where bytes buy nothing.
    pub(super) fn unit_bytes(&self) -> Option<u64> {
        match self.mode {
            Mode::Auction => Some(1),
            Mode::Priced => Some(RETRY_BYTES),
            Mode::Random | Mode::Retry | Mode::ProofOfWork | Mode::Queue => None,
        }
    }

    pub(super) fn is_spent(&self, id: u64) -> bool {
        self.spent.contains(id)
    }

    /// Tells when this contender is there.
    pub(super) fn expect(&mut self, id: u64) -> Arc<Notify> {
        Arc::clone(self.early.entry(id).or_default())
    }

    pub(super) fn expect_no_more(&mut self, id: u64) {
        // The table's and the caller's own: nobody else waits.
        if self
            .early
            .get(&id)
            .is_some_and(|notify| Arc::strong_count(notify) <= 2)
        {
            self.early.remove(&id);
        }
    }

    /// Bytes came for a request. How long its channel must not be read, if payment comes too fast.
    pub(super) fn paid(&mut self, now: Time, id: u64, bytes: u64) -> Option<Span> {
        self.payment_counts.bytes += bytes;
        if let Some(unit_bytes) = self.unit_bytes()
            && let Some(payment) = self.payment(id)
        {
            let units = payment.add(bytes, unit_bytes);
            let request = RequestKey(id);
            if units > 0 {
                self.handle(now, Input::Pay { request, units }, None);
            }
        }
        let rate = self.bytes_per_second_max?;
        let takes = Span::from_secs_f64(bytes as f64 / rate as f64).unwrap_or(Span::MAX);
        self.paid_until = self.paid_until.max(now) + takes;
        let ahead = self.paid_until.since(now);
        if ahead <= PAYMENT_BURST {
            return None;
        }
        self.payment_counts.shed_pauses += 1;
        Some(ahead.saturating_sub(PAYMENT_BURST))
    }

    /// What a contender has paid in all, and the price.
    pub(super) fn standing(&self, id: u64) -> (u64, u64) {
        let paid = self.contenders.get(&id);
        let paid = paid.map_or(0, |contender| {
            contender
                .payment
                .units
                .saturating_add(contender.ticket.paid)
        });
        (paid, self.driven.machine.price())
    }

    #[cfg(test)]
    pub(super) fn is_expecting_nobody(&self) -> bool {
        self.early.is_empty()
    }

    // The machine.

    fn handle(&mut self, now: Time, input: Input, newcomer: Option<&mut Newcomer>) {
        self.driven.handle(now, input);
        self.carry_out(now, newcomer);
    }

    fn carry_out(&mut self, now: Time, mut newcomer: Option<&mut Newcomer>) {
        while let Some(output) = self.driven.next() {
            match output {
                Output::Hold { request } => {
                    if let Some(newcomer) = newcomer.as_deref_mut() {
                        debug_assert_eq!(newcomer.ticket.id, request.0);
                        newcomer.wait = self.hold(newcomer);
                    }
                }
                Output::Admit {
                    request,
                    price,
                    waited,
                } => {
                    if waited > Span::ZERO {
                        self.wait.note(waited.as_nanos() / 1_000);
                    }
                    self.admit(request.0, price, waited, newcomer.as_deref_mut());
                }
                Output::Refuse {
                    request,
                    cause,
                    retry_after,
                    price,
                } => {
                    let cause = Cause::Thinner(cause);
                    self.refuse(
                        now,
                        request.0,
                        (cause, retry_after, price),
                        newcomer.as_deref_mut(),
                    );
                }
                Output::Suspend { request } => self.order(request.0, SUSPENDED),
                Output::Resume { request, .. } => self.order(request.0, RESUMED),
                Output::Abort { request } => self.order(request.0, ABORTED),
            }
        }
    }

    fn hold(&mut self, newcomer: &Newcomer) -> Option<oneshot::Receiver<Verdict>> {
        let (sender, receiver) = oneshot::channel();
        let contender = Contender {
            verdict: (!self.is_dry_run).then_some(sender),
            generation: 0,
            payment: Payment::new(),
            ticket: newcomer.ticket,
            has_ticket: newcomer.has_ticket,
            bytes: newcomer.bytes,
        };
        self.contenders.insert(newcomer.ticket.id, contender);
        if let Some(early) = self.early.remove(&newcomer.ticket.id) {
            early.notify_waiters();
        }
        (!self.is_dry_run).then_some(receiver)
    }

    fn admit(&mut self, key: u64, price: u64, waited: Span, newcomer: Option<&mut Newcomer>) {
        let contender = self.contenders.remove(&key);
        let is_ticketed = match (&contender, &newcomer) {
            (Some(contender), _) => contender.has_ticket,
            (None, newcomer) => newcomer
                .as_ref()
                .is_some_and(|newcomer| newcomer.has_ticket),
        };
        if is_ticketed {
            self.spent.insert(key);
        }
        let (verdict, payment) = contender.map_or((None, Payment::new()), |contender| {
            (Some(contender.verdict), contender.payment)
        });
        let orders = self.has_quantum.then(|| Arc::new(Signal::default()));
        let admitted = Admitted {
            key,
            price,
            waited,
            orders: orders.clone(),
        };
        match orders {
            Some(orders) => drop(self.working.insert(key, Working { orders, payment })),
            None => payment.channel.set(WON),
        }
        match (verdict, newcomer) {
            // Whoever waits reports its end, even if it has just left.
            (Some(Some(verdict)), _) => drop(verdict.send(Verdict::Admit(admitted))),
            (Some(None), _) => drop(self.shadows.insert(key, Shadow::Admitted)),
            (None, Some(newcomer)) => newcomer.verdict = Some(Verdict::Admit(admitted)),
            (None, None) => debug_assert!(false, "a request that nobody asked for is admitted"),
        }
    }

    fn refuse(
        &mut self,
        now: Time,
        key: u64,
        why: (Cause, Span, u64),
        newcomer: Option<&mut Newcomer>,
    ) {
        let (cause, retry_after, price) = why;
        let Some(contender) = self.contenders.remove(&key) else {
            if let Some(newcomer) = newcomer {
                let refusal = self.refusal(
                    now,
                    &newcomer.ticket,
                    newcomer.bytes,
                    cause,
                    retry_after,
                    price,
                );
                newcomer.verdict = Some(Verdict::Refuse(refusal));
            }
            return;
        };
        contender.payment.channel.set(GONE);
        let paid = contender
            .ticket
            .paid
            .saturating_add(contender.payment.units);
        let ticket = Ticket {
            paid,
            ..contender.ticket
        };
        let refusal = self.refusal(now, &ticket, contender.bytes, cause, retry_after, price);
        match contender.verdict {
            Some(verdict) => drop(verdict.send(Verdict::Refuse(refusal))),
            None => drop(self.shadows.insert(key, Shadow::Refused)),
        }
    }

    /// The next ticket is worth what this one was, and this try: the HotNets paper's retries, or their bytes.
    fn refusal(
        &self,
        now: Time,
        ticket: &Ticket,
        bytes: u64,
        cause: Cause,
        retry_after: Span,
        price: u64,
    ) -> Refusal {
        let tried = match self.mode {
            Mode::Retry | Mode::Priced => 1,
            Mode::Auction => bytes,
            Mode::Random | Mode::ProofOfWork | Mode::Queue => 0,
        };
        let next = Ticket {
            tries: ticket.tries.saturating_add(1),
            paid: ticket.paid.saturating_add(tried),
            ..*ticket
        };
        let paid = match self.mode {
            Mode::Queue => now.since(ticket.born).as_nanos(),
            _ => next.paid,
        };
        Refusal {
            cause,
            mode: self.mode,
            retry_after,
            price,
            paid,
            tries: next.tries,
            place: u64::from(self.driven.machine.contenders()),
            ticket: self.tickets.seal(&next),
        }
    }

    fn order(&self, key: u64, order: u8) {
        if let Some(working) = self.working.get(&key) {
            working.orders.set(order);
        }
    }

    /// The thinner is taken away: whoever waits passes, when its sender is dropped.
    pub(super) fn close(&mut self) {
        for contender in self.contenders.values() {
            contender.payment.channel.set(GONE);
        }
        self.contenders.clear();
        for early in self.early.values() {
            early.notify_waiters();
        }
    }

    pub(super) fn finish_recording(&mut self) {
        self.driven.finish_recording();
    }

    pub(super) fn recording_lost(&self) -> u64 {
        self.driven.recording_lost()
    }

    pub(super) fn snapshot(&self) -> RequestsSnapshot {
        let machine = &self.driven.machine;
        RequestsSnapshot {
            mode: self.mode,
            is_overloaded: machine.is_overloaded(),
            contenders: machine.contenders(),
            in_service: machine.in_service(),
            parked: self.parked.len(),
            price: machine.price(),
            inbound_rate: machine.inbound_rate(),
            payment_rate: machine.payment_rate(),
            admission_rate: machine.admission_rate(),
            limit: machine.limit(),
            wait: self.wait.clone(),
            fairness: Some(machine.fairness()),
            stats: *machine.stats(),
            tickets: self.ticket_counts,
            payment: self.payment_counts,
        }
    }
}

/// How the thinner is doing.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RequestsSnapshot {
    /// What decides who gets in.
    pub mode: Mode,
    /// Whether demand exceeds capacity.
    pub is_overloaded: bool,
    /// Requests that wait.
    pub contenders: u32,
    /// Requests that have a place at the server.
    pub in_service: u32,
    /// Places that were won by a page's script and not taken yet.
    pub parked: usize,
    /// What a newcomer would have to pay, in the units of the mode.
    pub price: u64,
    /// Requests that ask a second.
    pub inbound_rate: f64,
    /// Units that are paid a second.
    pub payment_rate: f64,
    /// Requests that are admitted a second.
    pub admission_rate: f64,
    /// The most requests at once, where the capacity is one of concurrent requests.
    pub limit: Option<u32>,
    /// From arrival to admission, of the requests that waited.
    pub wait: Histogram,
    /// How the server was shared among groups of clients lately.
    pub fairness: Option<Fairness>,
    /// The machine's counts.
    pub stats: Stats,
    /// What the gate counts of tickets.
    pub tickets: TicketCounts,
    /// What the gate counts of payments.
    pub payment: PaymentCounts,
}

/// A request that asks just now, and what becomes of it.
struct Newcomer {
    ticket: Ticket,
    has_ticket: bool,
    bytes: u64,
    verdict: Option<Verdict>,
    wait: Option<oneshot::Receiver<Verdict>>,
}
