//! The responder in the model.

use std::sync::Arc;

use levee_policy::reroute::{Config, Input, Output, Range, Responder, Step};
use levee_policy::{ConfigError, StateMachine as _, Time};
use rand_pcg::Pcg64;

use super::setup::{Setup, Site};
use super::{ALL, Anycast, Message};
use crate::engine::{Scheduler, Streams};

/// The responder, and what it draws from.
#[derive(Clone, Debug)]
pub(super) struct Front {
    /// As it is at the beginning of a run.
    fresh: Responder,
    responder: Responder,
    rng: Pcg64,
}

impl Front {
    pub(super) fn new(config: &Config, setup: &Setup) -> Result<Self, ConfigError> {
        let capacities = setup.sites.iter().map(Site::carries).collect();
        let playbook = Arc::clone(&setup.playbook);
        let fresh = Responder::new(config.clone(), playbook, capacities)?;
        Ok(Self {
            responder: fresh.clone(),
            fresh,
            rng: Streams::new(setup.seed, 0).stream("policy"),
        })
    }

    /// What the responder takes for the load of each site.
    pub(super) fn offered(&self) -> Vec<Range> {
        self.responder.offered()
    }

    pub(super) fn restart(&mut self, streams: &Streams) {
        self.responder.clone_from(&self.fresh);
        self.rng = streams.stream("policy");
    }
}

impl Anycast {
    /// The responder hears what was measured. In an attack its estimates are held against the truth, of sites that have reported while
    /// routes were settled.
    pub(super) fn measured(&mut self, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        let Some(front) = &mut self.front else {
            return;
        };
        let settled = !front.responder.is_settling(now);
        let input = Input::Measure(self.measure.clone());
        front.responder.handle(now, input, &mut front.rng);
        let attack = self.setup.attack.as_ref();
        let attacked = self.meter.attacked && attack.is_some_and(|attack| now <= attack.over());
        if settled && attacked {
            let estimates = front.responder.offered();
            for (site, (estimate, report)) in
                estimates.into_iter().zip(&self.measure.sites).enumerate()
            {
                if report.observed.is_some() {
                    let truth = self.meter.mean(self.meter.arrived[site].offered);
                    self.meter.estimated(estimate, truth);
                }
            }
        }
        self.carry_out(scheduler);
    }

    pub(super) fn deployed(&mut self, play: usize, scheduler: &mut Scheduler<Message>) {
        self.tell(Input::Deployed { play }, scheduler);
    }

    pub(super) fn failed(&mut self, play: usize, scheduler: &mut Scheduler<Message>) {
        let reason = String::from("the scenario says that some fail");
        self.tell(Input::DeployFailed { play, reason }, scheduler);
    }

    pub(super) fn deadline(&mut self, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        if self.deadline_at != now {
            return;
        }
        self.deadline_at = Time::MAX;
        if let Some(front) = &mut self.front {
            front.responder.handle_deadline(now, &mut front.rng);
            self.carry_out(scheduler);
        }
    }

    /// Sees to it that the responder is called when it asked for it.
    pub(super) fn watch(&mut self, scheduler: &mut Scheduler<Message>) {
        let front = self.front.as_ref();
        let deadline = front.and_then(|front| front.responder.deadline());
        if let Some(at) = deadline.filter(|at| *at < self.deadline_at) {
            self.deadline_at = at.max(scheduler.now());
            scheduler.at(self.deadline_at, ALL, Message::Deadline);
        }
    }

    fn tell(&mut self, input: Input, scheduler: &mut Scheduler<Message>) {
        if let Some(front) = &mut self.front {
            front
                .responder
                .handle(scheduler.now(), input, &mut front.rng);
            self.carry_out(scheduler);
        }
    }

    fn carry_out(&mut self, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        let poll = |front: &mut Front| front.responder.poll_output();
        while let Some(output) = self.front.as_mut().and_then(poll) {
            if let (Some(steps), Output::Record(step)) = (&mut self.steps, &output) {
                steps.push((now, step.clone()));
            }
            match output {
                Output::Record(Step::AttackBegan { .. }) => {
                    self.meter.detect(now, self.under_attack(now));
                }
                // There is no journal to write to: a run does not crash.
                Output::Record(_) => {}
                Output::Deploy { play } => self.deploy(play, scheduler),
                Output::NextLine { .. } => self.meter.next_line(now, true),
                Output::NextLineOver => self.meter.next_line(now, false),
            }
        }
    }
}
