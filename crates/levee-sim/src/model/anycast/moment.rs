//! The model as an onlooker sees it: everything at one moment, and the responder's steps. For plots and stories; queries have
//! observables.

use levee_policy::Time;
use levee_policy::reroute::{Range, Step};

use super::{Anycast, attacked};

/// All sites at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// When.
    pub at: Time,
    /// The play that is announced.
    pub play: usize,
    /// Queries a second that attackers send.
    pub attack: f64,
    /// Queries a second that honest clients send.
    pub honest: f64,
    /// Of them, those that are answered.
    pub answered: f64,
    /// One for each site of the playbook, in its order.
    pub sites: Vec<SiteMoment>,
}

/// One site at one moment, in queries a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SiteMoment {
    /// Sent to it.
    pub offered: f64,
    /// Of that, by honest clients.
    pub honest: f64,
    /// What comes in through its links.
    pub observed: f64,
    /// Of what honest clients sent, answered.
    pub answered: f64,
    /// What the responder takes for offered; `None` without one, and before its first measure.
    pub estimate: Option<Range>,
}

impl Anycast {
    /// What there is now.
    #[must_use]
    pub fn moment(&self, now: Time) -> Moment {
        let estimates = self.front.as_ref().map(super::front::Front::offered);
        let estimate = |site: usize| estimates.as_ref()?.get(site).copied();
        let sites = self.flow.sites.iter().zip(&self.setup.sites).enumerate();
        let sites = sites.map(|(i, (flow, site))| SiteMoment {
            offered: flow.offered,
            honest: flow.honest,
            observed: flow.offered * site.access(flow.offered),
            answered: flow.honest * site.answered(flow.offered),
            estimate: estimate(i),
        });
        Moment {
            at: now,
            play: self.play,
            attack: attacked(&self.setup, self.level),
            honest: self.flow.honest,
            answered: self.flow.answered,
            sites: sites.collect(),
        }
    }

    /// Keeps the responder's steps from now on.
    pub fn keep_steps(&mut self) {
        self.steps.get_or_insert_default();
    }

    /// The responder's steps of this run with their times, if they are kept.
    #[must_use]
    pub fn steps(&self) -> &[(Time, Step)] {
        self.steps.as_deref().unwrap_or_default()
    }
}
