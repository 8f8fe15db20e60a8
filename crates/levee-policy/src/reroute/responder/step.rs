//! What goes into the responder, what comes out, and what the journal keeps.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::super::{Range, SiteId, budget::Until, estimate::KnownGood};

/// What was counted in one interval, at all sites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// One for each site, in the order of their numbers.
    pub sites: Vec<SiteMeasure>,
}

/// What was counted at a site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteMeasure {
    /// Load that arrived at the servers, in the unit of the capacities (packets, queries or bytes per second); `None`: the site
    /// does not report.
    pub observed: Option<f64>,
    /// Of the load, what normally arrives here under the play that is deployed; `None`: not known, all of it may be attack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normal: Option<f64>,
    /// By source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_good: Vec<KnownGood>,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Input {
    /// An interval is over.
    Measure(Measure),
    /// A play was announced as [`Output::Deploy`] asked.
    Deployed {
        /// Its number in the playbook.
        play: usize,
    },
    /// It could not be; what was announced before still is.
    DeployFailed {
        /// Its number in the playbook.
        play: usize,
        /// What went wrong, for a person.
        reason: String,
    },
    /// The operator decides.
    Operator(Operator),
}

/// What an operator may decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Operator {
    /// Begin no change until released.
    Hold,
    /// Announce this play, whatever the planner and the budget say, and then hold.
    Force {
        /// Its number in the playbook.
        play: usize,
    },
    /// Go on by itself.
    Release,
}

/// What is to be done. Outputs are carried out in their order, each once it is done with the one before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Output {
    /// Write this to the journal, durably and with the time of the call, before the next output is carried out.
    Record(Step),
    /// Announce this play in place of the one before, and say how it went. Announcing what is announced already is no change:
    /// after a restart the last order may be given again.
    Deploy {
        /// Its number in the playbook.
        play: usize,
    },
    /// No play puts the load where it can be carried: these sites need their next line of defence, the thinner or SeVen. Takes
    /// the place of the list before; after a restart the last list may be given again.
    NextLine {
        /// Sites that stay over capacity.
        sites: Vec<SiteId>,
    },
    /// The load is carried again, or the attack is over: what [`Output::NextLine`] switched on may be switched off.
    NextLineOver,
}

/// Why a play is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It is the best for the load.
    Mitigate,
    /// The attack is over.
    RollBack,
    /// The operator says so.
    Forced,
}

/// The play that lost to the best one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Second {
    /// Its number in the playbook.
    pub play: usize,
    /// Why it lost.
    pub why: String,
}

/// A step of the loop, as the journal keeps it: enough to go on from after a crash, and to tell a person what was done and why.
///
/// The responder's own state that must survive is what its steps make of it, and nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Step {
    /// A site went to another level.
    Level {
        /// The site.
        site: SiteId,
        /// The name of the level; `None`: at none.
        level: Option<String>,
    },
    /// A site has not reported for too long: nothing more is moved to it, and nothing waits for it.
    Silent {
        /// The site.
        site: SiteId,
    },
    /// A silent site reports again.
    Heard {
        /// The site.
        site: SiteId,
    },
    /// These sites are at a level that asks for a response.
    AttackBegan {
        /// The sites.
        sites: Vec<SiteId>,
    },
    /// Offered loads were estimated; recorded with the decisions that rest on them.
    Estimated {
        /// Of each site.
        offered: Vec<Range>,
        /// Access fraction of each site, where it is known.
        alpha: Vec<Option<Range>>,
        /// What each site can carry: its capacity, or less where known-good traffic is lost below that.
        carries: Vec<f64>,
    },
    /// The best play cannot be deployed yet.
    Waiting {
        /// Its number in the playbook.
        play: usize,
        /// When it can, and what it waits for.
        until: Until,
    },
    /// A play is about to be deployed.
    Deploying {
        /// Its number in the playbook.
        play: usize,
        /// Why.
        why: Why,
        /// The load that each site is then expected to have.
        predicted: Vec<Range>,
        /// Sites that even so stay over what they can carry.
        over: Vec<SiteId>,
        /// The next best play and why it lost, for a person; only where the planner chose.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        second: Option<Second>,
    },
    /// It is announced.
    Deployed {
        /// Its number in the playbook.
        play: usize,
    },
    /// It could not be announced.
    DeployFailed {
        /// Its number in the playbook.
        play: usize,
        /// What went wrong, for a person.
        reason: String,
        /// Whether it may be announced nevertheless: no answer came, or the order was given before a restart too.
        unclear: bool,
    },
    /// Several plays in a row could not be announced: a person has to look.
    GaveUp {
        /// How many.
        failures: u32,
        /// When it is tried again.
        until: crate::Time,
    },
    /// Routes have settled, and the play that is deployed was looked at.
    Judged {
        /// Its number in the playbook.
        play: usize,
        /// Whether no site is over what it can carry any more.
        mitigated: bool,
        /// Whether the playbook was wrong about it; it is then not chosen again in this attack.
        wrong: bool,
        /// Sites over what they can carry.
        over: Vec<SiteId>,
    },
    /// No play does better: these sites need their next line of defence.
    NextLine {
        /// Sites that stay over capacity.
        sites: Vec<SiteId>,
    },
    /// The next line of defence is not needed any more.
    NextLineOver,
    /// The attack is over.
    AttackOver,
    /// The operator: begin no change.
    Held,
    /// The operator: announce this play.
    Forced {
        /// Its number in the playbook.
        play: usize,
    },
    /// The operator: go on by itself.
    Released,
    /// The operator asked for a play that the playbook does not have; nothing is done.
    Refused {
        /// The number that was given.
        play: usize,
    },
}
