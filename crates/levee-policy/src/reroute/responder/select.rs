//! What the plays would do to the load, by the planner.

use alloc::{collections::BTreeSet, vec::Vec};

use super::{
    super::{
        Range, SiteId,
        planner::{Choice, Over, Plan, Situation, rank},
    },
    state::State,
    step::Second,
};

/// A play and what it would do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) play: usize,
    /// Load of each site.
    pub(super) load: Vec<Range>,
    /// Sites that are likely to be over what they can carry.
    pub(super) over: Vec<SiteId>,
    /// Who came after it, and why.
    pub(super) second: Option<Second>,
}

impl From<&Choice> for Outcome {
    fn from(choice: &Choice) -> Self {
        Self {
            play: choice.play,
            load: choice.sites.iter().map(|site| site.load).collect(),
            over: choice.sites_over(Over::Likely).collect(),
            second: None,
        }
    }
}

impl State {
    /// All plays that may be chosen, and what is announced, best first.
    pub(super) fn ranked(&self, figures: Figures) -> Vec<Choice> {
        let out = self.ruled_out.union(&self.failed);
        let forbidden = out.copied().filter(|play| *play != self.deployed);
        self.plan(figures, forbidden.collect())
            .map_or_else(Vec::new, |plan| plan.choices)
    }

    /// What a single play would do.
    pub(super) fn outcome(&self, figures: Figures, play: usize) -> Outcome {
        let others = (0..self.playbook.plays().len()).filter(|other| *other != play);
        let plan = self.plan(figures, others.collect());
        let nothing = Outcome {
            play,
            load: Vec::new(),
            over: Vec::new(),
            second: None,
        };
        plan.map_or(nothing, |plan| plan.best().into())
    }

    fn plan(&self, figures: Figures, forbidden: BTreeSet<usize>) -> Option<Plan> {
        let situation = Situation {
            normal: figures.normal.map(super::super::planner::Figures::Sites),
            absorbers: self.absorbers.clone(),
            breakwaters: self.breakwaters.clone(),
            forbidden,
            ..Situation::new(self.deployed, figures.limits, figures.offered)
        };
        let plan = rank(&self.playbook, &situation, &self.config.planner);
        debug_assert!(plan.is_ok(), "the responder gives what fits: {plan:?}");
        plan.ok()
    }

    /// A ranked play with the one after it.
    pub(super) fn with_second(&self, ranked: &[Choice], place: usize) -> Outcome {
        let second = ranked.get(place + 1).and_then(|next| {
            Some(Second {
                play: next.play,
                why: next.lost?.text(self.playbook.sites()),
            })
        });
        Outcome {
            second,
            ..Outcome::from(&ranked[place])
        }
    }

    /// Whether a play is worth a change: it likely carries the load where what is announced does not, or it saves at least
    /// [`gain`](super::Config::gain) of the normal load that is lost.
    pub(super) fn is_worth_it(&self, play: &Choice, here: &Choice) -> bool {
        let carries = |of: Over| of < Over::Likely;
        let lost = 1.0 - here.kept.likely;
        (carries(play.over) && !carries(here.over))
            || (carries(play.over_besides) && !carries(here.over_besides))
            || (lost > 0.0 && play.kept.likely - here.kept.likely >= self.config.gain * lost)
    }
}

/// What is known of the sites, in the order of their numbers.
pub(super) struct Figures {
    pub(super) offered: Vec<Range>,
    /// What may be put on each.
    pub(super) limits: Vec<f64>,
    pub(super) normal: Option<Vec<f64>>,
}
