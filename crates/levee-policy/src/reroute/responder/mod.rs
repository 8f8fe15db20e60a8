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

mod config;
mod select;
mod state;
mod step;

use alloc::{collections::VecDeque, format, string::String, sync::Arc, vec, vec::Vec};
use core::fmt;

pub use self::{
    config::{
        CALM, CALM_MAX, Config, DEPLOY_TIMEOUT, DEPLOY_TRIES, GAIN, Kind, LOOK, RELAPSE, RETRY,
        SETTLE, SILENT, WRONG,
    },
    step::{Input, Measure, Operator, Output, SiteMeasure, Step, Why},
};
use self::{
    select::{Outcome, outcome, rank},
    state::State,
};
use super::{
    Playbook, Range, SiteId,
    budget::Until,
    detect::{Level, Reading},
    estimate::{Estimator, total},
};
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
    outputs: VecDeque<Output>,
}

/// What is known of a site at present.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    /// When it reported last; before it ever did, when the responder began.
    at: Option<Time>,
    offered: Range,
    alpha: Option<Range>,
    /// What it can carry, as far as this attack has shown.
    carries: f64,
}

/// Why a responder cannot go on from these steps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeError {
    /// The configuration, or the capacities.
    Config(ConfigError),
    /// A step names what the playbook does not have.
    Step {
        /// Which, counted from 0.
        number: usize,
        /// What it names.
        what: String,
        /// What there is.
        expected: String,
    },
}

impl fmt::Display for ResumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Step {
                number,
                what,
                expected,
            } => write!(
                f,
                "step {} names {what}, but there are {expected}: these steps belong to another playbook",
                number + 1
            ),
        }
    }
}

impl core::error::Error for ResumeError {}

impl From<ConfigError> for ResumeError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
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
                carries: *capacity,
            })
            .collect();
        Ok(Self {
            state: State::new(config, playbook, capacities),
            estimator,
            last: Time::ZERO,
            seen,
            measured: false,
            calm: None,
            waiting: None,
            told: false,
            resumed: false,
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

    /// Whether a step can be one of this playbook's.
    fn fits(&self, number: usize, step: &Step) -> Result<(), ResumeError> {
        let plays = self.state.playbook.plays().len();
        let sites = self.seen.len();
        let mut lengths = Vec::new();
        let mut named: &[SiteId] = &[];
        let single;
        let play = match step {
            Step::Level { site, .. } | Step::Silent { site } | Step::Heard { site } => {
                single = [*site];
                named = &single;
                None
            }
            Step::AttackBegan { sites } | Step::NextLine { sites } => {
                named = sites;
                None
            }
            Step::Estimated {
                offered,
                alpha,
                carries,
            } => {
                lengths = vec![offered.len(), alpha.len(), carries.len()];
                None
            }
            Step::Deploying {
                play,
                predicted,
                over,
                ..
            } => {
                named = over;
                lengths = vec![predicted.len()];
                Some(*play)
            }
            Step::Judged { play, over, .. } => {
                named = over;
                Some(*play)
            }
            Step::Waiting { play, .. }
            | Step::Deployed { play }
            | Step::DeployFailed { play, .. }
            | Step::Forced { play } => Some(*play),
            Step::GaveUp { .. }
            | Step::NextLineOver
            | Step::AttackOver
            | Step::Held
            | Step::Released
            | Step::Refused { .. } => None,
        };
        let error = |what: String, expected: String| {
            Err(ResumeError::Step {
                number,
                what,
                expected,
            })
        };
        if let Some(play) = play.filter(|play| *play >= plays) {
            return error(
                format!("configuration {play}"),
                format!("{plays} configurations"),
            );
        }
        if let Some(site) = named.iter().find(|site| site.index() >= sites) {
            return error(format!("site {site}"), format!("{sites} sites"));
        }
        if let Some(length) = lengths.iter().find(|length| **length != sites) {
            return error(format!("{length} sites"), format!("{sites} sites"));
        }
        Ok(())
    }

    /// Gives the last orders again.
    fn go_on(&mut self) {
        self.take_over();
        self.resumed = true;
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

/// Measures.
impl Responder {
    fn measure(&mut self, now: Time, measure: &Measure) {
        for site in self.sites() {
            let of_site = measure.sites.get(site.index());
            let report = of_site.and_then(|of_site| of_site.observed.map(|load| (of_site, load)));
            // A load that is no number is no report.
            match report.filter(|(_, load)| load.is_finite() && *load >= 0.0) {
                Some((of_site, load)) => self.report(now, site, of_site, load),
                None => self.no_report(now, site),
            }
        }
        if !self.is_settling(now) {
            self.measured = true;
            self.decide(now);
        }
    }

    fn report(&mut self, now: Time, site: SiteId, of_site: &SiteMeasure, observed: f64) {
        self.seen[site.index()].at = Some(now);
        if self.state.silent[site.index()] {
            self.record(now, Step::Heard { site });
        }
        // Routes are on their way: who reaches which site is not known, nor what is to be expected there.
        if self.is_settling(now) {
            return;
        }
        let alpha = self.estimator.alpha(&of_site.known_good);
        let offered = self.estimator.offered(observed, alpha.as_ref());
        let alpha = alpha.map(|alpha| alpha.range);
        let capacity = self.state.capacities[site.index()];
        let reading = Reading {
            load: offered.scale(1.0 / capacity),
            alpha,
        };
        let losing = self.first_response().alpha.enter;
        let seen = &mut self.seen[site.index()];
        seen.offered = offered;
        seen.alpha = alpha;
        if alpha.is_some_and(|alpha| alpha.high <= losing) {
            // It loses known-good traffic: more than what arrives does not get through, whatever its capacity is said to be.
            seen.carries = seen.carries.min(observed);
        }
        if self.state.detector.observe(now, site, &reading) {
            let levels = self.state.detector.levels();
            let level = self.state.detector.level(site);
            let level = level.map(|level| levels[level].name.clone());
            self.record(now, Step::Level { site, level });
        }
    }

    fn no_report(&mut self, now: Time, site: SiteId) {
        self.state.detector.unknown(site);
        let since = *self.seen[site.index()].at.get_or_insert(now);
        if !self.state.silent[site.index()] && now - since >= self.state.config.silent {
            self.record(now, Step::Silent { site });
        }
    }

    /// The mildest level that asks for a response.
    fn first_response(&self) -> &Level {
        let levels = self.state.detector.levels();
        levels
            .iter()
            .find(|level| level.respond)
            .unwrap_or(&levels[0])
    }

    /// Records what is known of the sites, unless this call has done so.
    fn estimated(&mut self, now: Time) {
        if self.told {
            return;
        }
        self.told = true;
        let step = Step::Estimated {
            offered: self.offered(),
            alpha: self.seen.iter().map(|site| site.alpha).collect(),
            carries: self.seen.iter().map(|site| site.carries).collect(),
        };
        self.record(now, step);
    }
}

/// Decisions.
impl Responder {
    /// Does what is to be done, if anything. At most one play is ordered.
    fn decide(&mut self, now: Time) {
        if self.state.pending.is_some() {
            return;
        }
        if let Some(play) = self.state.forced {
            let outcome = self.outcome_of(play);
            return self.deploy(now, outcome, Why::Forced);
        }
        if now < self.state.settled || !self.measured {
            return;
        }
        let responding = self.responding();
        if !self.state.attack && !responding.is_empty() {
            self.estimated(now);
            let sites = responding.clone();
            self.record(now, Step::AttackBegan { sites });
        }
        self.judge(now, &responding);
        if responding.is_empty() {
            self.recede(now);
            return;
        }
        self.calm = None;
        if self.state.held || self.state.config.kind == Kind::Observe {
            self.next_line(now, responding);
        } else if now >= self.state.retry {
            self.select(now, responding);
        }
    }

    /// Says whether what is announced works, once that can be said.
    fn judge(&mut self, now: Time, responding: &[SiteId]) {
        if self.state.mitigated.is_some() || !self.state.attack {
            return;
        }
        let looked = now - self.state.settled >= self.state.config.look;
        if responding.is_empty() && (!looked || self.missing()) {
            return;
        }
        let wrong = !responding.is_empty() && self.is_wrong(responding);
        self.estimated(now);
        let step = Step::Judged {
            play: self.state.deployed,
            mitigated: responding.is_empty(),
            wrong,
            over: responding.to_vec(),
        };
        self.record(now, step);
    }

    /// Whether a site has not reported since routes have settled, and is not yet known to be silent.
    fn missing(&self) -> bool {
        self.sites().any(|site| {
            let at = self.seen[site.index()].at;
            !self.state.silent[site.index()] && at.is_none_or(|at| at < self.state.settled)
        })
    }

    /// Whether the playbook was wrong about what is announced: the load went elsewhere than it says, or sites are over that were
    /// not to be although no more came than did.
    fn is_wrong(&self, over: &[SiteId]) -> bool {
        let expected = &self.state.expected;
        let whole = total(&expected.load).likely;
        if whole <= 0.0 || self.state.deployed == 0 {
            return false;
        }
        let measured = self.offered();
        let sum = total(&measured);
        let margin = self.state.config.wrong;
        let elsewhere = measured.iter().zip(&expected.load).any(|(now, then)| {
            let share = then.likely / whole;
            now.low / sum.likely > share + margin || now.high / sum.likely < share - margin
        });
        let unexpected = over.iter().any(|site| !expected.over.contains(site));
        let grown = sum.low > expected.total.likely * (1.0 + margin);
        elsewhere || (unexpected && !grown)
    }

    /// What a play would do to the load as it is now.
    fn outcome_of(&self, play: usize) -> Outcome {
        let state = &self.state;
        let carries = self.limits();
        outcome(
            &state.playbook,
            &carries,
            state.deployed,
            &self.offered(),
            play,
        )
    }

    /// What may be put on each site: no more than it has on a silent one.
    fn limits(&self) -> Vec<f64> {
        let sites = self.seen.iter().zip(&self.state.silent);
        sites
            .map(|(seen, silent)| {
                if *silent {
                    seen.carries.min(seen.offered.likely)
                } else {
                    seen.carries
                }
            })
            .collect()
    }

    /// Orders the best play, if there is a better one than what is announced.
    fn select(&mut self, now: Time, responding: Vec<SiteId>) {
        let state = &self.state;
        let offered = self.offered();
        let ranked = rank(&state.playbook, &self.limits(), state.deployed, &offered);
        let here = ranked
            .iter()
            .find(|outcome| outcome.play == state.deployed)
            .map_or(f64::INFINITY, |outcome| outcome.overload);
        let enough = here * (1.0 - state.config.gain);
        let candidates: Vec<&Outcome> = ranked
            .iter()
            .filter(|outcome| outcome.play != state.deployed)
            .filter(|outcome| !state.ruled_out.contains(&outcome.play))
            .filter(|outcome| !state.failed.contains(&outcome.play))
            .filter(|outcome| outcome.overload <= enough && outcome.overload < here)
            .collect();
        let Some(best) = candidates.first() else {
            return self.next_line(now, responding);
        };
        // As good, and possible at once: a withdrawal may have to wait where a prepend has not.
        let at_once = candidates
            .iter()
            .take_while(|outcome| outcome.overload <= best.overload)
            .find(|outcome| self.may_deploy(now, outcome.play).is_ok());
        if let Some(chosen) = at_once {
            let chosen = (*chosen).clone();
            self.deploy(now, chosen, Why::Mitigate);
        } else {
            let play = best.play;
            self.wait(now, play);
        }
    }

    fn may_deploy(&self, now: Time, play: usize) -> Result<(), Until> {
        self.state.budget.may_change(now, self.state.penalty(play))
    }

    fn wait(&mut self, now: Time, play: usize) {
        let Err(until) = self.may_deploy(now, play) else {
            return;
        };
        let told = self
            .waiting
            .is_some_and(|(other, before)| other == play && before.reason == until.reason);
        self.waiting = Some((play, until));
        if !told {
            self.record(now, Step::Waiting { play, until });
        }
    }

    fn deploy(&mut self, now: Time, outcome: Outcome, why: Why) {
        self.estimated(now);
        self.waiting = None;
        let Outcome {
            play, load, over, ..
        } = outcome;
        if why == Why::Mitigate && !over.is_empty() {
            self.next_line(now, over.clone());
        }
        let step = Step::Deploying {
            play,
            why,
            predicted: load,
            over,
        };
        self.record(now, step);
        self.outputs.push_back(Output::Deploy { play });
    }

    /// Asks for the next line of defence at these sites, unless it is on there.
    fn next_line(&mut self, now: Time, sites: Vec<SiteId>) {
        if sites.iter().all(|site| self.state.next_line.contains(site)) {
            return;
        }
        self.estimated(now);
        let step = Step::NextLine {
            sites: sites.clone(),
        };
        self.record(now, step);
        self.outputs.push_back(Output::NextLine { sites });
    }

    /// No site asks for a response: goes back to the baseline once that can carry the load for long enough.
    fn recede(&mut self, now: Time) {
        let looked = self.state.mitigated.is_some() || !self.state.attack;
        if looked && !self.state.next_line.is_empty() {
            self.record(now, Step::NextLineOver);
            self.outputs.push_back(Output::NextLineOver);
        }
        if self.state.deployed == 0 {
            self.calm = None;
            if self.state.attack && looked {
                self.record(now, Step::AttackOver);
                self.take_over_capacities();
            }
            return;
        }
        let baseline = self.outcome_of(0);
        if !self.carries_easily(&baseline) {
            self.calm = None;
            return;
        }
        let since = *self.calm.get_or_insert(now);
        let ready = now - since >= self.state.calm() && now >= self.state.retry;
        if !ready || self.state.held || self.state.config.kind == Kind::Observe {
            return;
        }
        if self.may_deploy(now, 0).is_ok() {
            self.deploy(now, baseline, Why::RollBack);
        } else {
            self.wait(now, 0);
        }
    }

    fn take_over_capacities(&mut self) {
        for (seen, carries) in self.seen.iter_mut().zip(&self.state.carries) {
            seen.carries = *carries;
        }
    }

    /// Whether each site could carry this without being at a level that responds.
    fn carries_easily(&self, outcome: &Outcome) -> bool {
        let level = self.first_response();
        let loads = outcome.load.iter().zip(&self.state.capacities);
        let easy = |(load, capacity): (&Range, &f64)| {
            let worst = if load.high.is_finite() {
                load.high
            } else {
                load.likely
            };
            worst <= level.load.leave * capacity
        };
        let lossless = |seen: &Seen| {
            seen.alpha
                .is_none_or(|alpha| alpha.likely >= level.alpha.leave)
        };
        loads.into_iter().all(easy) && self.seen.iter().all(lossless)
    }
}

/// Answers, and the operator.
impl Responder {
    fn answered(&mut self, now: Time, play: usize) {
        if play >= self.state.playbook.plays().len() {
            return;
        }
        // A late answer while another is awaited: that one will tell what is announced.
        if self
            .state
            .pending
            .is_some_and(|pending| pending.play != play)
        {
            return;
        }
        if self.state.pending.is_none() && self.state.deployed == play {
            return;
        }
        self.record(now, Step::Deployed { play });
        self.take_over();
        self.decide(now);
    }

    /// The order was not carried out. A forced play and the way back are tried again, since nothing else will do.
    fn failed(&mut self, now: Time, play: usize, reason: String, unclear: bool) {
        if self
            .state
            .pending
            .is_none_or(|pending| pending.play != play)
        {
            return;
        }
        self.record(
            now,
            Step::DeployFailed {
                play,
                reason,
                unclear,
            },
        );
        let failures = self.state.failures;
        if failures >= self.state.config.deploy_tries {
            let until = now + self.state.config.retry;
            self.record(now, Step::GaveUp { failures, until });
            let responding = self.responding();
            if !responding.is_empty() {
                self.next_line(now, responding);
            }
            return;
        }
        self.decide(now);
    }

    fn operator(&mut self, now: Time, operator: Operator) {
        match operator {
            Operator::Hold => self.record(now, Step::Held),
            Operator::Release => self.record(now, Step::Released),
            Operator::Force { play } if play < self.state.playbook.plays().len() => {
                self.record(now, Step::Forced { play });
            }
            Operator::Force { play } => self.record(now, Step::Refused { play }),
        }
        self.decide(now);
    }

    /// Does what was due by `now`, or by the latest time that was told if that is later; gives the later of the two.
    fn due(&mut self, now: Time) -> Time {
        let before = self.last;
        let now = now.max(before);
        self.last = now;
        self.told = false;
        if self.resumed {
            self.resumed = false;
            if let Some(pending) = &mut self.state.pending {
                pending.since = now;
            }
        }
        let timeout = self.state.config.deploy_timeout;
        if let Some(pending) = self.state.pending.filter(|p| now - p.since >= timeout) {
            let reason = format!("no answer within {timeout}");
            self.failed(now, pending.play, reason, true);
        }
        let waited = self.waiting.is_some_and(|(_, until)| now >= until.at);
        if waited {
            self.waiting = None;
        }
        if waited || (before < self.state.retry && now >= self.state.retry) {
            self.decide(now);
        }
        now
    }
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
