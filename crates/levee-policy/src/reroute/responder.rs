//! The loop: detect, estimate, select, deploy, wait, look again.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::{Range, SiteId, estimate::KnownGood};

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
    /// Of the load, what normally arrives here under the play that is deployed; `None`: the playbook says.
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
    /// Change nothing until released.
    Hold,
    /// Announce this play, whatever the planner says, and then hold.
    Force {
        /// Its number in the playbook.
        play: usize,
    },
    /// Go on by itself.
    Release,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Output {
    /// Write this to the journal, durably, before the next output is carried out.
    Record(Step),
    /// Announce this play.
    Deploy {
        /// Its number in the playbook.
        play: usize,
    },
    /// No play puts the load where it can be carried: these sites need their next line of defence, the thinner or SeVen.
    NextLine {
        /// Sites that stay over capacity.
        sites: Vec<SiteId>,
    },
    /// The load is carried again, or the attack is over: what [`Output::NextLine`] switched on may be switched off.
    NextLineOver,
}

/// A step of the loop, as the journal keeps it: enough to go on from after a crash, and to tell a person what was done and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Step {
    /// Offered loads were estimated.
    Estimated {
        /// Of each site.
        offered: Vec<Range>,
    },
}

/// The loop as a state machine.
#[derive(Clone, Debug)]
pub struct Responder;
