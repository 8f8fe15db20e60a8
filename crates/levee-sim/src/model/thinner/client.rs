//! A client's side: what it wants, sends, pays, and gives up.

use levee_policy::Time;
use levee_policy::thinner::Mode;

use super::{
    ALL, Group, Message, PROCESSOR, Pipe, Place, Request, SpeakUp, Stage, Told, Try, UPLINK,
    announce,
};
use crate::engine::Scheduler;
use crate::schedule::Kind;

impl SpeakUp {
    pub(super) fn want(&mut self, index: u32, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        let client = &mut self.clients[index as usize];
        if let Some(next) = client.arrivals.next() {
            scheduler.at(next, ALL, Message::Want(index));
        }
        let kind = client.kind;
        if now >= self.counted() {
            self.counts.of[kind.index()].attempted += 1;
        }
        let Group {
            window, patience, ..
        } = *self.group(kind);
        let client = &mut self.clients[index as usize];
        if client.open < window {
            self.issue(index, now, scheduler);
            return;
        }
        client.waiting.push_back(now);
        if !std::mem::replace(&mut client.expiring, true) {
            scheduler.after(patience, ALL, Message::Expire(index));
        }
    }

    /// Requests that have waited too long at their client are denied.
    pub(super) fn expire(&mut self, index: u32, scheduler: &mut Scheduler<Message>) {
        let (now, counted) = (scheduler.now(), self.counted());
        let kind = self.clients[index as usize].kind;
        let patience = self.group(kind).patience;
        let client = &mut self.clients[index as usize];
        while let Some(oldest) = client.waiting.front() {
            if *oldest + patience > now {
                scheduler.at(*oldest + patience, ALL, Message::Expire(index));
                return;
            }
            self.counts.of[kind.index()].expired += u64::from(*oldest >= counted);
            client.waiting.pop_front();
        }
        client.expiring = false;
    }

    /// A request goes on its way for the first time.
    pub(super) fn issue(&mut self, index: u32, wanted: Time, scheduler: &mut Scheduler<Message>) {
        let client = &mut self.clients[index as usize];
        client.open += 1;
        let request = Request {
            number: 0,
            client: index,
            kind: client.kind,
            stage: Stage::Sending,
            place: Place::Outside,
            counted: wanted >= self.counted(),
            wanted,
            retries: 0,
            to_pay: 0,
            paying: false,
        };
        let of = self.enlist(request);
        let patience = self.group(request.kind).patience;
        scheduler.after(patience, ALL, Message::GiveUp(of));
        self.send(of, scheduler);
    }

    pub(super) fn enlist(&mut self, request: Request) -> Try {
        if let Some(record) = self.free.pop() {
            let old = &mut self.requests[record as usize];
            let number = old.number;
            *old = Request { number, ..request };
            Try { record, number }
        } else {
            self.requests.push(request);
            Try {
                record: (self.requests.len() - 1) as u32,
                number: 0,
            }
        }
    }

    /// The record is free for another request.
    pub(super) fn release(&mut self, of: Try) {
        let request = self.request(of);
        request.number = request.number.wrapping_add(1);
        self.free.push(of.record);
    }

    /// Sends a request, or sends it again.
    pub(super) fn send(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        self.request(of).stage = Stage::Sending;
        let bytes = self.group(self.requests[of.record as usize].kind).request;
        self.change(of, UPLINK, scheduler, |pipe| pipe.send(of, bytes));
    }

    /// Changes what goes through a pipe of a request's client.
    pub(super) fn change(
        &mut self,
        of: Try,
        which: usize,
        scheduler: &mut Scheduler<Message>,
        change: impl FnOnce(&mut Pipe),
    ) {
        let counted = self.counted();
        let client = self.requests[of.record as usize].client;
        let pipe = &mut self.clients[client as usize].pipes[which];
        pipe.advance(scheduler.now(), counted);
        change(pipe);
        announce(pipe, client, which, scheduler);
    }

    pub(super) fn through(&mut self, index: u32, number: u32, scheduler: &mut Scheduler<Message>) {
        let counted = self.counted();
        let (client, which) = (index / 2, index as usize % 2);
        let pipe = &mut self.clients[client as usize].pipes[which];
        if pipe.number != number {
            return;
        }
        pipe.arrive(scheduler.now(), counted);
        while let Some(told) = pipe.poll() {
            match told {
                Told::Sent(of) => {
                    self.requests[of.record as usize].stage = Stage::Asked;
                    scheduler.send(self.way, ALL, Message::Reach(of));
                }
                Told::Paid { of, units, last } => {
                    scheduler.send(self.way, ALL, Message::Pay { of, units, last });
                }
            }
        }
        announce(pipe, client, which, scheduler);
    }

    /// A client is told to wait, and pays if that helps.
    pub(super) fn held(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let Some(&Request { kind, to_pay, .. }) = self.wanted(of) else {
            return;
        };
        self.request(of).stage = Stage::Held;
        let group = *self.group(kind);
        let Some(mode) = self
            .mode()
            .filter(|mode| group.pays && mode.takes_payment())
        else {
            return;
        };
        let chunk = self.chunk(mode);
        let (which, unit, left) = match mode {
            Mode::Priced => (UPLINK, f64::from(group.request), to_pay),
            Mode::ProofOfWork => (PROCESSOR, 1.0, u64::MAX),
            _ => (UPLINK, 1.0, u64::MAX),
        };
        self.request(of).paying = true;
        self.change(of, which, scheduler, |pipe| {
            pipe.pay(of, unit, chunk, left);
        });
    }

    /// Bytes, or hashes, that are told of at once: a part of what a place costs, or a quantum if that is less.
    pub(super) fn chunk(&self, mode: Mode) -> f64 {
        let all = self.setup.honest.means(mode) + self.setup.attack.means(mode);
        let defense = self.setup.defense.as_ref();
        let quantum = defense.and_then(|defense| defense.quantum);
        let place = 1.0 / self.setup.server.rate;
        let bought = quantum.map_or(place, |quantum| quantum.as_secs_f64().min(place));
        all * bought / f64::from(self.chunks)
    }

    /// A client sends no more for a request.
    pub(super) fn stop(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let request = self.request(of);
        let paying = std::mem::take(&mut request.paying);
        let which = match (paying, request.stage) {
            (true, _) if self.mode() == Some(Mode::ProofOfWork) => PROCESSOR,
            (true, _) | (false, Stage::Sending) => UPLINK,
            (false, _) => return,
        };
        self.change(of, which, scheduler, |pipe| pipe.stop(of));
    }

    pub(super) fn admitted(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        if self.wanted(of).is_none() {
            return;
        }
        // With quanta the next one is paid for while the server works.
        if !self.has_quanta() {
            self.stop(of, scheduler);
        }
        self.request(of).stage = Stage::Admitted;
    }

    pub(super) fn has_quanta(&self) -> bool {
        let defense = self.setup.defense.as_ref();
        defense.is_some_and(|defense| defense.quantum.is_some())
    }

    pub(super) fn refused(&mut self, of: Try, again: bool, scheduler: &mut Scheduler<Message>) {
        let Some(&Request { kind, counted, .. }) = self.wanted(of) else {
            return;
        };
        self.stop(of, scheduler);
        if again && self.group(kind).pays {
            self.request(of).retries += 1;
            self.send(of, scheduler);
            return;
        }
        self.counts.of[kind.index()].refused += u64::from(counted);
        self.close(of, scheduler);
        self.release(of);
    }

    pub(super) fn answered(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let Some(request) = self.wanted(of) else {
            return;
        };
        let Request {
            kind,
            counted,
            wanted,
            client,
            ..
        } = *request;
        if counted {
            let waited = (scheduler.now() - wanted).as_secs_f64();
            let counts = &mut self.counts.of[kind.index()];
            counts.served += 1;
            counts.waited_s += waited;
            if kind == Kind::Honest {
                self.waited_s.push(waited);
            }
        }
        self.stop(of, scheduler);
        let client = &mut self.clients[client as usize];
        client.served += u32::from(scheduler.now() >= Time::ZERO + self.setup.warmup);
        self.close(of, scheduler);
        self.release(of);
    }

    pub(super) fn give_up(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let Some(&Request {
            kind,
            counted,
            stage,
            ..
        }) = self.wanted(of)
        else {
            return;
        };
        // Who is being served waits for it.
        if stage == Stage::Admitted {
            return;
        }
        self.stop(of, scheduler);
        self.counts.of[kind.index()].gave_up += u64::from(counted);
        self.request(of).stage = Stage::Over;
        self.close(of, scheduler);
        // What was sent before comes before.
        scheduler.send(self.way, ALL, Message::Gone(of));
    }

    /// A client is through with a request: its window takes the next.
    pub(super) fn close(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let index = self.requests[of.record as usize].client;
        let client = &mut self.clients[index as usize];
        client.open -= 1;
        // Those that have waited too long are taken out by their own message.
        let patience = self.group(self.clients[index as usize].kind).patience;
        let client = &mut self.clients[index as usize];
        let next = client.waiting.front().copied();
        if let Some(wanted) = next.filter(|wanted| *wanted + patience > scheduler.now()) {
            client.waiting.pop_front();
            self.issue(index, wanted, scheduler);
        }
    }
}
