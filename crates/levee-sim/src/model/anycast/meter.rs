//! Sums over the time of a run.

use std::collections::VecDeque;

use levee_policy::reroute::Range;
use levee_policy::{Span, Time};

use super::flow::Flow;
use super::setup::{Attack, Setup};

/// Within which the most changes are counted.
const HOUR: Span = Span::from_secs(3_600);

/// Normal load and what is answered of it, in queries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    pub(super) offered: f64,
    pub(super) answered: f64,
}

/// Of one site, in the interval at hand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrived {
    /// Queries sent to it.
    pub(super) offered: f64,
    /// Of them, those that came in.
    pub(super) observed: f64,
    /// Known-good queries of the sources that reach it.
    pub(super) known: f64,
    /// Of them, those that are seen in the mean.
    pub(super) known_seen: f64,
}

/// How the estimates of the responder compare with the truth, over sites and intervals of the attack.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Estimates {
    pub(super) count: u64,
    pub(super) held: u64,
    /// Of those with a number: how many, the sum of the absolute relative errors, and of the errors with their signs.
    pub(super) finite: u64,
    pub(super) error: f64,
    pub(super) bias: f64,
}

/// All sums.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    until: Time,
    pub(super) all: Served,
    /// While the attack goes on.
    pub(super) attack: Served,
    /// Since nobody is over capacity, while the attack goes on.
    pub(super) after: Served,
    pub(super) attackers: f64,
    /// Seconds in which some site is over capacity; and of each site.
    pub(super) over_s: f64,
    pub(super) over_site_s: Vec<f64>,
    pub(super) excess: f64,
    /// Since when nobody is over capacity under attack; whether that counts as mitigation.
    pub(super) calm_since: Option<Time>,
    pub(super) mitigated: bool,
    /// Whether the attack has overloaded a site.
    overloaded: bool,
    pub(super) arrived: Vec<Arrived>,
    interval_s: f64,
    /// Whether the attack was going on when the interval began.
    pub(super) attacked: bool,
    pub(super) changes: u64,
    pub(super) failed: u64,
    pub(super) flaps: u64,
    pub(super) hour_max: u64,
    pub(super) first_change: Option<Time>,
    recent: VecDeque<Time>,
    /// When each play was left last.
    left: Vec<Option<Time>>,
    pub(super) lost: u64,
    pub(super) estimates: Estimates,
    /// The estimate by the truth, of each that has a number.
    pub(super) ratios: Vec<f64>,
    /// When the responder first said that there is an attack, of the one that there is; and how often it said so without one.
    pub(super) detected: Option<Time>,
    pub(super) false_alarms: u64,
    pub(super) next_lines: u64,
    pub(super) next_line_since: Option<Time>,
    pub(super) next_line_s: f64,
}

impl Meter {
    pub(super) fn restart(&mut self, setup: &Setup) {
        let cleared = |mut old: Vec<f64>| {
            old.clear();
            old
        };
        let mut over_site_s = cleared(std::mem::take(&mut self.over_site_s));
        over_site_s.resize(setup.sites.len(), 0.0);
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.clear();
        arrived.resize(setup.sites.len(), Arrived::default());
        let mut left = std::mem::take(&mut self.left);
        left.clear();
        left.resize(setup.playbook.plays().len(), None);
        let ratios = cleared(std::mem::take(&mut self.ratios));
        *self = Self {
            over_site_s,
            arrived,
            left,
            ratios,
            ..Self::default()
        };
    }

    /// Up to when it has counted.
    pub(super) fn until(&self) -> Time {
        self.until
    }

    /// Mean over the interval so far of a sum of queries.
    pub(super) fn mean(&self, sum: f64) -> f64 {
        if self.interval_s > 0.0 {
            sum / self.interval_s
        } else {
            0.0
        }
    }

    pub(super) fn begin_interval(&mut self, attacked: bool) {
        self.interval_s = 0.0;
        self.attacked = attacked;
        self.arrived.fill(Arrived::default());
    }

    /// Counts the time until `now`, in which nothing has changed.
    pub(super) fn pass(&mut self, setup: &Setup, flow: &Flow, attack: (bool, f64), now: Time) {
        let (under_attack, attacked) = attack;
        let dt = (now - self.until).as_secs_f64();
        self.until = now;
        self.interval_s += dt;
        let add = |to: &mut Served| {
            to.offered += flow.honest * dt;
            to.answered += flow.answered * dt;
        };
        add(&mut self.all);
        if under_attack {
            add(&mut self.attack);
            self.attackers += attacked * dt;
            if self.calm_since.is_some() {
                add(&mut self.after);
            }
        }
        if flow.over > 0 {
            self.over_s += dt;
            self.excess += flow.excess * dt;
        }
        let all = flow.sites.iter().zip(&setup.sites);
        for ((flow, site), (over, arrived)) in
            all.zip(self.over_site_s.iter_mut().zip(&mut self.arrived))
        {
            let access = site.access(flow.offered);
            if site.is_over(flow.offered) {
                *over += dt;
            }
            arrived.offered += flow.offered * dt;
            arrived.observed += flow.offered * access * dt;
            arrived.known += flow.known * dt;
            arrived.known_seen += flow.known_sent * access * dt;
        }
        if let Some(since) = self.calm_since.filter(|_| under_attack) {
            self.mitigated |= now - since >= setup.calm;
        }
    }

    /// Looks at the loads after a change. An attack that grows is not called mitigated before it has overloaded a site, or is at its height.
    pub(super) fn look(&mut self, flow: &Flow, now: Time, attack: Option<&Attack>) {
        let Some(attack) = attack.filter(|_| !self.mitigated) else {
            return;
        };
        let under_attack = attack.goes_on(now);
        if flow.over > 0 {
            self.overloaded |= under_attack;
            self.calm_since = None;
            self.after = Served::default();
        } else if under_attack && self.calm_since.is_none() {
            if self.overloaded {
                self.calm_since = Some(now);
            } else if attack.level(now) >= 1.0 {
                self.calm_since = Some(attack.begin());
            }
        }
    }

    /// The responder says that an attack has begun.
    pub(super) fn detect(&mut self, now: Time, under_attack: bool) {
        if under_attack {
            self.detected.get_or_insert(now);
        } else {
            self.false_alarms += 1;
        }
    }

    /// The responder estimates the offered load of a site, whose true mean over the interval this is.
    pub(super) fn estimated(&mut self, estimate: Range, truth: f64) {
        let sums = &mut self.estimates;
        sums.count += 1;
        sums.held += u64::from(estimate.contains(truth));
        if estimate.likely.is_finite() && truth > 0.0 {
            let error = (estimate.likely - truth) / truth;
            sums.finite += 1;
            sums.error += error.abs();
            sums.bias += error;
            self.ratios.push(estimate.likely / truth);
        }
    }

    /// A play is announced in the place of another.
    pub(super) fn change(&mut self, setup: &Setup, now: Time, from: usize, to: usize) {
        self.changes += 1;
        self.first_change.get_or_insert(now);
        while self.recent.front().is_some_and(|at| now - *at >= HOUR) {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        self.hour_max = self.hour_max.max(self.recent.len() as u64);
        let left = self.left.get(to).copied().flatten();
        self.flaps += u64::from(left.is_some_and(|left| now - left <= setup.flap));
        if let Some(left) = self.left.get_mut(from) {
            *left = Some(now);
        }
    }

    /// The next line of defence is called or let go. The list of its sites may change while it is called.
    pub(super) fn next_line(&mut self, now: Time, called: bool) {
        if called {
            self.next_lines += u64::from(self.next_line_since.is_none());
            self.next_line_since.get_or_insert(now);
        } else if let Some(since) = self.next_line_since.take() {
            self.next_line_s += (now - since).as_secs_f64();
        }
    }
}
