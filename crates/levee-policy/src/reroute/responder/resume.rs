//! Steps that are read back.

use alloc::{format, string::String, vec, vec::Vec};
use core::fmt;

use super::{Responder, Step};
use crate::{ConfigError, reroute::SiteId};

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
    /// Whether a step can be one of this playbook's.
    pub(super) fn fits(&self, number: usize, step: &Step) -> Result<(), ResumeError> {
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
}
