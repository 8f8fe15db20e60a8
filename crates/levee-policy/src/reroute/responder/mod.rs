//! The loop: detect, estimate, select, deploy, wait, look again.
//!
//! ```text
//!            a site is at a level that responds
//!   watching ----------------------------------> attacked
//!      ^                                            | the best play, if the budget allows
//!      | routes have settled, baseline carries it   v
//!      |                                        deploying --(failed)--> the next play; after some, a person
//!   rolled back                                     | announced
//!      ^                                            v
//!      | the baseline could carry it            settling   (5 min; what is measured now is not used)
//!      | for long enough                            |
//!      +---------------- looking <------------------+
//!                         |    ^  not mitigated: the next play; a wrong one is not chosen again
//!                         +----+  no play does better: the next line of defence
//! ```
//!
//! # What it holds to
//!
//! 1. A play is ordered only when the last order has been answered, or has not been for [`Config::deploy_timeout`].
//! 2. Each order is recorded before it is given. All state that must survive is what the records make of it, so
//!    [`Responder::resume`] goes on where the last record left off.
//! 3. A change is begun only within the [`budget`](super::budget), unless the operator forces it.
//! 4. While an operator holds, no change is begun.
//! 5. Who is silent neither begins nor ends an attack.
//!
//! # After a crash
//!
//! What was last ordered is ordered again: a deployment that was not answered, and the state of the next line of defence. Both
//! orders are such that giving them twice changes nothing. What is not recorded is lost: for how long a site had been at a
//! threshold, and for how long the baseline could have carried the load. Both begin anew, so a responder that was restarted may
//! act later than one that was not, and then by newer figures; it does nothing sooner, and nothing that the other could not.
//!
//! The driver's time has to go on from where it was, also over restarts: nanoseconds since 1970, say.

mod answer;
mod config;
mod decide;
mod measure;
mod resume;
mod select;
mod state;
mod step;

use alloc::{
    collections::{BTreeSet, VecDeque},
    format,
    string::String,
    sync::Arc,
    vec::Vec,
};

use self::state::State;
pub use self::{
    config::{
        CALM, CALM_MAX, Config, DEPLOY_TIMEOUT, DEPLOY_TRIES, GAIN, Kind, LOOK, RELAPSE, RETRY,
        SETTLE, SILENT, WRONG,
    },
    resume::ResumeError,
    step::{Input, Measure, Operator, Output, Second, SiteMeasure, Step, Why},
};
use super::{Playbook, Range, SiteId, Sites, budget::Until, detect::Level, estimate::Estimator};
use crate::{
    ConfigError, StateMachine, Time,
    config_error::{fail, number},
};

/// The loop as a state machine.
#[derive(Clone, Debug)]
pub struct Responder {
    state: State,
    estimator: Estimator,
    /// The latest time that was told.
    last: Time,
    /// By site.
    seen: Vec<Seen>,
    /// Whether anything was measured of what is announced.
    measured: bool,
    /// Since when the baseline could have carried the load.
    calm: Option<Time>,
    /// What a change waits for, as last recorded.
    waiting: Option<(usize, Until)>,
    /// Whether this call has recorded its estimate.
    told: bool,
    /// After a restart: the order that is given again has all its time.
    resumed: bool,
    /// The order was given before a restart too, and may have been carried out then.
    reordered: bool,
    outputs: VecDeque<Output>,
}

/// What is known of a site at present.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    /// When it reported last; before it ever did, when the responder began.
    at: Option<Time>,
    offered: Range,
    alpha: Option<Range>,
    /// The normal load in it.
    normal: Option<f64>,
    /// What it can carry, as far as this attack has shown.
    carries: f64,
}

impl Responder {
    /// Nothing has happened, and the baseline is announced.
    ///
    /// # Errors
    ///
    /// With a configuration that does not [check](Config::check), or capacities that are not one positive number for each site.
    pub fn new(
        config: Config,
        playbook: impl Into<Arc<Playbook>>,
        capacities: Vec<f64>,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let estimator = Estimator::new(config.confidence, config.dispersion)?;
        let playbook = playbook.into();
        let sites = playbook.sites().len();
        let absorbers = named("absorbers", &config.absorbers, playbook.sites())?;
        let breakwaters = named("breakwaters", &config.breakwaters, playbook.sites())?;
        if capacities.len() != sites {
            fail(
                "capacities",
                &format!("{} numbers", capacities.len()),
                &format!("{sites}, one for each site"),
            )?;
        }
        for (name, capacity) in playbook.sites().names().zip(&capacities) {
            number(&format!("capacity of {name}"), *capacity, 1e-9, 1e18)?;
        }
        let seen = capacities
            .iter()
            .map(|capacity| Seen {
                at: None,
                offered: Range::default(),
                alpha: None,
                normal: None,
                carries: *capacity,
            })
            .collect();
        Ok(Self {
            state: State {
                absorbers,
                breakwaters,
                ..State::new(config, playbook, capacities)
            },
            estimator,
            last: Time::ZERO,
            seen,
            measured: false,
            calm: None,
            waiting: None,
            told: false,
            resumed: false,
            reordered: false,
            outputs: VecDeque::new(),
        })
    }

    /// Goes on from what was recorded, each step with the time of the call that gave it.
    ///
    /// # Errors
    ///
    /// As [`Responder::new`], and with a step that the playbook does not fit.
    pub fn resume(
        config: Config,
        playbook: impl Into<Arc<Playbook>>,
        capacities: Vec<f64>,
        steps: impl IntoIterator<Item = (Time, Step)>,
    ) -> Result<Self, ResumeError> {
        let mut responder = Self::new(config, playbook, capacities)?;
        for (number, (at, step)) in steps.into_iter().enumerate() {
            responder.fits(number, &step)?;
            responder.last = responder.last.max(at);
            let at = responder.last;
            responder.state.apply(at, &step);
        }
        responder.go_on();
        Ok(responder)
    }

    /// What is announced, as far as is known.
    #[must_use]
    pub fn deployed(&self) -> usize {
        self.state.deployed
    }

    /// What was ordered and not yet answered.
    #[must_use]
    pub fn pending(&self) -> Option<usize> {
        self.state.pending.map(|pending| pending.play)
    }

    /// Whether an attack is on.
    #[must_use]
    pub fn is_attacked(&self) -> bool {
        self.state.attack
    }

    /// Whether the operator holds.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.state.held
    }

    /// Whether routes settle, so that measures are not used.
    #[must_use]
    pub fn is_settling(&self, now: Time) -> bool {
        self.state.pending.is_some() || now < self.state.settled
    }

    /// The worst level of all sites.
    #[must_use]
    pub fn level(&self) -> Option<&Level> {
        let worst = self.state.detector.worst()?;
        self.state.detector.levels().get(worst)
    }

    /// The offered load of each site as last estimated, or as predicted where nothing was measured since a change.
    #[must_use]
    pub fn offered(&self) -> Vec<Range> {
        self.seen.iter().map(|site| site.offered).collect()
    }

    /// Sites of which the next line of defence is asked for.
    #[must_use]
    pub fn next_line_sites(&self) -> &[SiteId] {
        &self.state.next_line
    }

    /// The figure of merit that routers which damp may have of the prefix.
    #[must_use]
    pub fn damping(&self, now: Time) -> f64 {
        self.state.budget.figure(now)
    }

    /// The playbook.
    #[must_use]
    pub fn playbook(&self) -> &Playbook {
        &self.state.playbook
    }

    /// Gives the last orders again.
    fn go_on(&mut self) {
        self.take_over();
        self.resumed = true;
        self.reordered = self.state.pending.is_some();
        if let Some(pending) = self.state.pending {
            self.outputs
                .push_back(Output::Deploy { play: pending.play });
        }
        if !self.state.next_line.is_empty() {
            let sites = self.state.next_line.clone();
            self.outputs.push_back(Output::NextLine { sites });
        } else if self.state.next_line_used {
            self.outputs.push_back(Output::NextLineOver);
        }
    }

    /// What is known of the sites is what the state has of them.
    fn take_over(&mut self) {
        self.measured = false;
        self.waiting = None;
        let offered = self.state.offered.iter().copied();
        for (seen, offered) in self
            .seen
            .iter_mut()
            .zip(offered.chain(core::iter::repeat(Range::default())))
        {
            seen.offered = offered;
            seen.alpha = None;
            seen.normal = None;
        }
        for (seen, carries) in self.seen.iter_mut().zip(&self.state.carries) {
            seen.carries = *carries;
        }
    }

    fn record(&mut self, now: Time, step: Step) {
        self.state.apply(now, &step);
        self.outputs.push_back(Output::Record(step));
    }

    fn sites(&self) -> impl ExactSizeIterator<Item = SiteId> + use<> {
        self.state.playbook.sites().ids()
    }

    /// Sites at a level that asks for a response.
    fn responding(&self) -> Vec<SiteId> {
        self.sites()
            .filter(|site| self.state.detector.responds(*site))
            .collect()
    }
}

/// The sites of these names.
fn named(key: &str, names: &[String], sites: &Sites) -> Result<BTreeSet<SiteId>, ConfigError> {
    let mut found = BTreeSet::new();
    for name in names {
        match sites.find(name) {
            Some(site) => {
                found.insert(site);
            }
            None => {
                let all: Vec<&str> = sites.names().collect();
                fail(
                    key,
                    &format!("{name:?}"),
                    &format!("one of {}", all.join(", ")),
                )?;
            }
        }
    }
    Ok(found)
}

impl StateMachine for Responder {
    type Input = Input;
    type Output = Output;

    fn handle<R: rand_core::Rng + ?Sized>(&mut self, now: Time, input: Input, _rng: &mut R) {
        let now = self.due(now);
        match input {
            Input::Measure(measure) => self.measure(now, &measure),
            Input::Deployed { play } => self.answered(now, play),
            Input::DeployFailed { play, reason } => self.failed(now, play, reason, false),
            Input::Operator(operator) => self.operator(now, operator),
        }
    }

    fn handle_deadline<R: rand_core::Rng + ?Sized>(&mut self, now: Time, _rng: &mut R) {
        self.due(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        if self.resumed && self.state.pending.is_some() {
            return Some(self.last);
        }
        let timeout = self.state.config.deploy_timeout;
        let pending = self.state.pending.map(|pending| pending.since + timeout);
        let waiting = self.waiting.map(|(_, until)| until.at);
        let retry = (self.state.retry > self.last).then_some(self.state.retry);
        [pending, waiting, retry].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
