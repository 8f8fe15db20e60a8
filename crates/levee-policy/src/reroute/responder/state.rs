//! What of the responder survives a crash: what its steps make of it.

use alloc::{collections::BTreeSet, string::String, sync::Arc, vec, vec::Vec};

use super::{
    super::{Playbook, Range, SiteId, budget::Budget, detect::Detector},
    config::Config,
    step::{Step, Why},
};
use crate::{Span, Time};

/// A play that was ordered and not yet answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pending {
    pub(super) play: usize,
    pub(super) since: Time,
    pub(super) why: Why,
}

/// What was expected of the play that was chosen last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Expected {
    /// Load of each site; empty where nothing was chosen yet.
    pub(super) load: Vec<Range>,
    pub(super) over: Vec<SiteId>,
    /// The load of all sites when it was chosen.
    pub(super) total: Range,
}

/// Changed by [`State::apply`] only, so that steps read back make the same of it.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) config: Config,
    pub(super) playbook: Arc<Playbook>,
    pub(super) capacities: Vec<f64>,
    pub(super) absorbers: BTreeSet<SiteId>,
    pub(super) breakwaters: BTreeSet<SiteId>,
    pub(super) detector: Detector,
    pub(super) budget: Budget,
    /// What is announced, as far as is known.
    pub(super) deployed: usize,
    pub(super) pending: Option<Pending>,
    /// A play that was ordered and may be announced, but no answer came.
    pub(super) unclear: Option<Pending>,
    /// Why what is announced was deployed.
    pub(super) why: Why,
    /// From when on measures are those of what is announced.
    pub(super) settled: Time,
    /// The verdict on what is announced.
    pub(super) mitigated: Option<bool>,
    pub(super) expected: Expected,
    /// The last estimate that was recorded.
    pub(super) offered: Vec<Range>,
    pub(super) carries: Vec<f64>,
    pub(super) silent: Vec<bool>,
    pub(super) attack: bool,
    /// When the last attack was over.
    pub(super) over: Option<Time>,
    /// How often it came back.
    pub(super) relapses: u32,
    /// Plays about which the playbook was wrong in this attack.
    pub(super) ruled_out: BTreeSet<usize>,
    /// Plays that could not be deployed, since the last one that could.
    pub(super) failed: BTreeSet<usize>,
    pub(super) failures: u32,
    /// Nothing is tried before.
    pub(super) retry: Time,
    pub(super) held: bool,
    pub(super) forced: Option<usize>,
    /// Sites of which the next line of defence is on.
    pub(super) next_line: Vec<SiteId>,
    /// Whether it was ever asked for.
    pub(super) next_line_used: bool,
}

impl State {
    pub(super) fn new(config: Config, playbook: Arc<Playbook>, capacities: Vec<f64>) -> Self {
        let sites = playbook.sites().len();
        Self {
            detector: Detector::new(config.levels.clone(), sites),
            budget: Budget::new(config.budget),
            config,
            playbook,
            carries: capacities.clone(),
            capacities,
            absorbers: BTreeSet::new(),
            breakwaters: BTreeSet::new(),
            deployed: 0,
            pending: None,
            unclear: None,
            why: Why::Forced,
            settled: Time::ZERO,
            mitigated: None,
            expected: Expected::default(),
            offered: Vec::new(),
            silent: vec![false; sites],
            attack: false,
            over: None,
            relapses: 0,
            ruled_out: BTreeSet::new(),
            failed: BTreeSet::new(),
            failures: 0,
            retry: Time::ZERO,
            held: false,
            forced: None,
            next_line: Vec::new(),
            next_line_used: false,
        }
    }

    /// How long the baseline has to be able to carry the load: doubled for each relapse.
    pub(super) fn calm(&self) -> Span {
        let mut calm = self.config.calm;
        for _ in 0..self.relapses.min(64) {
            if calm >= self.config.calm_max {
                break;
            }
            calm = (calm + calm).min(self.config.calm_max);
        }
        calm
    }

    /// What a change to this play costs of the budget.
    pub(super) fn penalty(&self, play: usize) -> f64 {
        let plays = self.playbook.plays();
        let (from, to) = (&plays[self.deployed].routing, &plays[play].routing);
        self.config.budget.penalty(from, to)
    }

    pub(super) fn apply(&mut self, at: Time, step: &Step) {
        match step {
            Step::Level { site, level } => self.level(*site, level.as_ref()),
            Step::Silent { site } => self.silent[site.index()] = true,
            Step::Heard { site } => self.silent[site.index()] = false,
            Step::AttackBegan { .. } => self.attack_began(at),
            Step::Estimated {
                offered, carries, ..
            } => {
                self.offered.clone_from(offered);
                self.carries.clone_from(carries);
            }
            Step::Deploying {
                play,
                why,
                predicted,
                over,
                ..
            } => {
                self.pending = Some(Pending {
                    play: *play,
                    since: at,
                    why: *why,
                });
                self.expected = Expected {
                    load: predicted.clone(),
                    over: over.clone(),
                    total: super::super::estimate::total(&self.offered),
                };
            }
            Step::Deployed { play } => self.deployed(at, *play),
            Step::DeployFailed { play, unclear, .. } => self.deploy_failed(at, *play, *unclear),
            Step::GaveUp { until, .. } => {
                self.retry = *until;
                self.failures = 0;
                self.failed.clear();
                self.forced = None;
            }
            Step::Judged {
                play,
                mitigated,
                wrong,
                ..
            } => self.judged(*play, *mitigated, *wrong),
            Step::NextLine { sites } => {
                self.next_line.clone_from(sites);
                self.next_line_used = true;
            }
            Step::NextLineOver => self.next_line.clear(),
            Step::AttackOver => {
                self.attack = false;
                self.over = Some(at);
                self.carries.clone_from(&self.capacities);
            }
            Step::Held => self.held = true,
            Step::Forced { play } => {
                self.held = true;
                self.forced = Some(*play);
            }
            Step::Released => {
                self.held = false;
                self.forced = None;
            }
            Step::Waiting { .. } | Step::Refused { .. } => {}
        }
        let clear = self.pending.is_none() && self.unclear.is_none();
        if clear && self.forced == Some(self.deployed) {
            self.forced = None;
        }
    }

    fn level(&mut self, site: SiteId, name: Option<&String>) {
        // A level that is not configured any more was not in force either.
        let level = name.and_then(|name| {
            let mut levels = self.detector.levels().iter();
            levels.position(|level| level.name == *name)
        });
        self.detector.set(site, level);
    }

    fn attack_began(&mut self, at: Time) {
        let relapse = self
            .over
            .is_some_and(|over| at - over <= self.config.relapse);
        if relapse {
            self.relapses += 1;
        } else {
            self.relapses = 0;
            self.ruled_out.clear();
        }
        self.failed.clear();
        self.failures = 0;
        self.attack = true;
        self.mitigated = Some(false);
    }

    fn deployed(&mut self, at: Time, play: usize) {
        self.budget.change(at, self.penalty(play));
        self.why = match self.pending.take().or(self.unclear) {
            Some(pending) if pending.play == play => pending.why,
            // Nobody ordered it, or it was given up: the sites have it all the same.
            _ => {
                self.expected = Expected::default();
                Why::Forced
            }
        };
        self.deployed = play;
        self.unclear = None;
        self.settled = at + self.config.settle;
        self.mitigated = None;
        self.failed.clear();
        self.failures = 0;
        self.offered.clone_from(&self.expected.load);
        for site in self.playbook.sites().ids() {
            self.detector.reset(site);
        }
    }

    fn deploy_failed(&mut self, at: Time, play: usize, unclear: bool) {
        self.failures += 1;
        if unclear {
            self.budget.change(at, self.penalty(play));
            self.unclear = self.pending.take();
        } else {
            // The answer is about the last order: what was announced before it still is, whatever that is.
            self.pending = None;
            self.failed.insert(play);
        }
    }

    fn judged(&mut self, play: usize, mitigated: bool, wrong: bool) {
        self.mitigated = Some(mitigated);
        if wrong {
            self.ruled_out.insert(play);
        }
        if !mitigated && self.why == Why::RollBack && self.attack {
            self.relapses += 1;
            // It counts once.
            self.why = Why::Mitigate;
        }
    }
}
