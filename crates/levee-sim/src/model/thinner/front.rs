//! The front's side, with the thinner, and the server behind it.

use levee_policy::thinner::{Arrival, Input, Outcome, Output, Thinner};
use levee_policy::{Identity, StateMachine as _, Time};

use super::{ALL, Job, Message, Place, Request, SpeakUp, Try};
use crate::engine::Scheduler;
use crate::schedule::unit;

impl SpeakUp {
    pub(super) fn reach(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let Some(request) = self.known(of) else {
            return;
        };
        let Request {
            kind,
            client,
            retries,
            ..
        } = *request;
        self.counts.of[kind.index()].tries += u64::from(scheduler.now() >= self.counted());
        let Some(mode) = self.mode() else {
            self.offer(of, scheduler);
            return;
        };
        let can_wait = self.group(kind).pays || !mode.takes_payment();
        self.request(of).place = Place::Waiting;
        let arrival = Input::Arrive(Arrival {
            request: of.key(),
            paid: retries,
            can_wait,
            group: Some(Identity(client.into())),
        });
        self.tell(arrival);
    }

    pub(super) fn pay(
        &mut self,
        of: Try,
        units: u64,
        last: bool,
        scheduler: &mut Scheduler<Message>,
    ) {
        let Some(&Request { kind, place, .. }) = self.known(of) else {
            return;
        };
        if scheduler.now() >= self.counted() {
            self.counts.of[kind.index()].paid += units;
        }
        if place == Place::Outside {
            return;
        }
        let request = of.key();
        self.tell(Input::Pay { request, units });
        self.drive(scheduler);
        if last
            && self
                .known(of)
                .is_some_and(|request| request.place == Place::Waiting)
        {
            self.hold(of, scheduler);
        }
    }

    /// The client has given up.
    pub(super) fn gone(&mut self, of: Try) {
        let Some(request) = self.known(of) else {
            return;
        };
        match request.place {
            Place::Server => self.request(of).place = Place::Abandoned,
            Place::Outside | Place::Abandoned => self.release(of),
            Place::Waiting => {
                self.tell(Input::Leave { request: of.key() });
                self.release(of);
            }
        }
    }

    /// What the thinner is to hear, if there is one.
    pub(super) fn tell(&mut self, input: Input) {
        if self.front.is_some() {
            self.inputs.push_back(input);
        }
    }

    /// Tells it, and does what it says.
    pub(super) fn drive(&mut self, scheduler: &mut Scheduler<Message>) {
        while let Some(input) = self.inputs.pop_front() {
            if let Some(front) = &mut self.front {
                front.handle(scheduler.now(), input, &mut self.policy_rng);
            }
            self.carry_out(scheduler);
        }
    }

    pub(super) fn deadline(&mut self, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        if self.deadline_at != now {
            return;
        }
        self.deadline_at = Time::MAX;
        if let Some(front) = &mut self.front {
            front.handle_deadline(now, &mut self.policy_rng);
            self.carry_out(scheduler);
        }
    }

    /// Sees to it that the thinner is called when it asked for it.
    pub(super) fn watch(&mut self, scheduler: &mut Scheduler<Message>) {
        let deadline = self.front.as_ref().and_then(Thinner::deadline);
        if let Some(at) = deadline.filter(|at| *at < self.deadline_at) {
            self.deadline_at = at.max(scheduler.now());
            scheduler.at(at, ALL, Message::Deadline);
        }
    }

    pub(super) fn carry_out(&mut self, scheduler: &mut Scheduler<Message>) {
        while let Some(output) = self.front.as_mut().and_then(Thinner::poll_output) {
            match output {
                Output::Admit { request, price, .. } => {
                    let of = Try::of(request);
                    let kind = self.request(of).kind;
                    if scheduler.now() >= self.counted() {
                        let counts = &mut self.counts.of[kind.index()];
                        counts.admitted += 1;
                        counts.price += price as f64;
                    }
                    scheduler.send(self.way, ALL, Message::Admitted(of));
                    self.offer(of, scheduler);
                }
                Output::Hold { request } => self.hold(Try::of(request), scheduler),
                Output::Refuse {
                    request,
                    retry_after,
                    ..
                } => self.turn_away(Try::of(request), retry_after.is_zero(), scheduler),
                Output::Suspend { request } => {
                    self.suspend(Try::of(request), scheduler);
                    self.hold(Try::of(request), scheduler);
                }
                Output::Resume { request, price } => {
                    let of = Try::of(request);
                    let kind = self.request(of).kind;
                    if scheduler.now() >= self.counted() {
                        self.counts.of[kind.index()].price += price as f64;
                    }
                    self.resume(of, scheduler);
                }
                Output::Abort { request } => self.abort(Try::of(request), scheduler),
            }
        }
        self.watch(scheduler);
    }

    /// Tells a client to wait, and what it takes.
    pub(super) fn hold(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let Some(front) = &self.front else {
            return;
        };
        let missing = front
            .price()
            .saturating_sub(front.bid(of.key()).unwrap_or(0));
        self.request(of).to_pay = missing.max(1);
        scheduler.send(self.way, ALL, Message::Held(of));
    }

    /// Tells a client that its request is refused.
    pub(super) fn turn_away(&mut self, of: Try, again: bool, scheduler: &mut Scheduler<Message>) {
        let request = self.request(of);
        if std::mem::replace(&mut request.place, Place::Outside) == Place::Abandoned {
            self.release(of);
        } else {
            scheduler.send(self.way, ALL, Message::Refused { of, again });
        }
    }

    /// A request comes to the server.
    pub(super) fn offer(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let kind = self.request(of).kind;
        let left = self.work.draw(self.group(kind).work);
        self.counts.offered += 1;
        if self.serving.is_some() && self.backlog.len() >= self.setup.server.backlog as usize {
            self.counts.refused_by_server += 1;
            self.turn_away(of, false, scheduler);
            let done = Input::Done {
                request: of.key(),
                outcome: Outcome::Failed,
            };
            self.tell(done);
            return;
        }
        self.request(of).place = Place::Server;
        self.queue(Job { of, left }, scheduler);
    }

    /// Work begins, or waits its turn.
    pub(super) fn queue(&mut self, job: Job, scheduler: &mut Scheduler<Message>) {
        if self.serving.is_some() {
            self.backlog.push(job);
        } else {
            self.serve(job, scheduler);
        }
    }

    pub(super) fn serve(&mut self, job: Job, scheduler: &mut Scheduler<Message>) {
        self.serving = Some(job);
        self.began = scheduler.now();
        self.job_number = self.job_number.wrapping_add(1);
        scheduler.after(job.left, ALL, Message::Worked(self.job_number));
    }

    /// The server leaves what it is at.
    pub(super) fn vacate(&mut self, now: Time) -> Option<Job> {
        let job = self.serving.take()?;
        self.job_number = self.job_number.wrapping_add(1);
        let kind = self.request(job.of).kind;
        self.counts.of[kind.index()].worked_s += self.worked_s(now, self.began);
        let left = job.left.saturating_sub(now - self.began);
        Some(Job { left, ..job })
    }

    /// Seconds of the time that is counted since the server began.
    pub(super) fn worked_s(&self, now: Time, began: Time) -> f64 {
        (now - began.max(self.counted())).as_secs_f64()
    }

    /// The server takes one of those that wait, drawn at random.
    pub(super) fn serve_next(&mut self, scheduler: &mut Scheduler<Message>) {
        if self.serving.is_none() && !self.backlog.is_empty() {
            let drawn = (unit(&mut self.choice_rng) * self.backlog.len() as f64) as usize;
            let job = self.backlog.swap_remove(drawn);
            self.serve(job, scheduler);
        }
    }

    pub(super) fn worked(&mut self, number: u32, scheduler: &mut Scheduler<Message>) {
        if number != self.job_number {
            return;
        }
        let now = scheduler.now();
        let Some(Job { of, .. }) = self.vacate(now) else {
            return;
        };
        let request = self.request(of);
        let kind = request.kind;
        if std::mem::replace(&mut request.place, Place::Outside) == Place::Abandoned {
            self.release(of);
        } else {
            scheduler.send(self.way, ALL, Message::Answered(of));
        }
        self.counts.of[kind.index()].done += u64::from(now >= self.counted());
        self.serve_next(scheduler);
        let done = Input::Done {
            request: of.key(),
            outcome: Outcome::Answered,
        };
        self.tell(done);
    }

    /// Takes work from the server, wherever it is.
    pub(super) fn withdraw(&mut self, of: Try, scheduler: &mut Scheduler<Message>) -> Option<Job> {
        if self.serving.is_some_and(|job| job.of == of) {
            return self.vacate(scheduler.now());
        }
        for jobs in [&mut self.backlog, &mut self.suspended] {
            if let Some(index) = jobs.iter().position(|job| job.of == of) {
                return Some(jobs.swap_remove(index));
            }
        }
        None
    }

    pub(super) fn suspend(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        let job = self.withdraw(of, scheduler);
        self.suspended.extend(job);
    }

    pub(super) fn resume(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        if let Some(job) = self.withdraw(of, scheduler) {
            self.queue(job, scheduler);
        }
    }

    pub(super) fn abort(&mut self, of: Try, scheduler: &mut Scheduler<Message>) {
        self.withdraw(of, scheduler);
        self.turn_away(of, false, scheduler);
        let done = Input::Done {
            request: of.key(),
            outcome: Outcome::Broken,
        };
        self.tell(done);
    }
}
