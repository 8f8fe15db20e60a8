//! What is to be done about it.

use alloc::vec::Vec;

use super::{
    Kind, Output, Responder, Seen, Step, Why,
    select::{Figures, Outcome},
};
use crate::{
    Time,
    reroute::{Range, SiteId, budget::Until, estimate::total},
};

impl Responder {
    /// Does what is to be done, if anything. At most one play is ordered.
    pub(super) fn decide(&mut self, now: Time) {
        if self.state.pending.is_some() {
            return;
        }
        if let Some(play) = self.state.forced {
            let outcome = self.outcome_of(play);
            return self.deploy(now, outcome, Why::Forced);
        }
        if let Some(unclear) = self.state.unclear {
            // Nothing can be told from measures until it is known what is announced. The same order again is no new change.
            if !self.state.held && now >= self.state.retry {
                let outcome = self.outcome_of(unclear.play);
                self.deploy(now, outcome, unclear.why);
            }
            return;
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
            self.next_line(now, &responding);
        } else if now >= self.state.retry {
            self.select(now, &responding);
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
        self.state.outcome(self.figures(), play)
    }

    fn figures(&self) -> Figures {
        Figures {
            offered: self.offered(),
            limits: self.limits(),
            normal: self.seen.iter().map(|site| site.normal).collect(),
        }
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
    fn select(&mut self, now: Time, responding: &[SiteId]) {
        let state = &self.state;
        let ranked = state.ranked(self.figures());
        let Some(here) = ranked
            .iter()
            .position(|choice| choice.play == state.deployed)
        else {
            return self.next_line(now, responding);
        };
        // Plays behind what is announced are no better.
        let is_better = |place: &usize| state.is_worth_it(&ranked[*place], &ranked[here]);
        let better: Vec<usize> = (0..here).filter(is_better).collect();
        let Some(best) = better.first().map(|place| &ranked[*place]) else {
            self.next_line(now, responding);
            if !self.state.failed.is_empty() {
                // The better ones could not be deployed.
                self.give_up(now);
            }
            return;
        };
        // As good, and possible at once: a withdrawal may have to wait where a prepend has not.
        let step = state.config.planner.kept_step;
        let chosen = better.iter().find(|place| {
            let choice = &ranked[**place];
            choice.over == best.over
                && choice.over_besides == best.over_besides
                && choice.kept.likely >= best.kept.likely - step
                && self.may_deploy(now, choice.play).is_ok()
        });
        let best = best.play;
        match chosen.map(|place| state.with_second(&ranked, *place)) {
            Some(outcome) => self.deploy(now, outcome, Why::Mitigate),
            None => self.wait(now, best),
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
            play,
            load,
            over,
            second,
        } = outcome;
        if why == Why::Mitigate && !over.is_empty() {
            self.next_line(now, &over);
        }
        let step = Step::Deploying {
            play,
            why,
            predicted: load,
            over,
            second,
        };
        self.record(now, step);
        self.outputs.push_back(Output::Deploy { play });
    }

    /// Asks for the next line of defence at these sites too, unless it is on there.
    pub(super) fn next_line(&mut self, now: Time, sites: &[SiteId]) {
        let on = &self.state.next_line;
        if sites.iter().all(|site| on.contains(site)) {
            return;
        }
        let is_on = |site: &SiteId| on.contains(site) || sites.contains(site);
        let sites: Vec<SiteId> = self.sites().filter(is_on).collect();
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
