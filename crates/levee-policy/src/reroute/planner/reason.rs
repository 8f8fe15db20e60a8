//! Why a play lost to another.

use alloc::{
    format,
    string::{String, ToString},
};
use core::fmt;

use serde::Serialize;

use super::{Choice, Flaw, Over, PlannerConfig, Situation};
use crate::reroute::{SiteId, Sites};

/// Why a play lost to the one before it: the first point of the ranking in which they differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Lost {
    /// It is flawed, the other one is less so.
    Flaw(Flaw),
    /// It overloads a site in a case in which the other one overloads none.
    Over {
        /// The most overloaded one.
        site: SiteId,
        /// In this case.
        case: Over,
        /// The load there.
        load: f64,
        /// What it can carry.
        capacity: f64,
    },
    /// It keeps less of the normal load alive.
    Kept {
        /// Its share.
        kept: f64,
        /// That of the other one.
        before: f64,
    },
    /// It changes more sites.
    Changes {
        /// How many.
        changes: usize,
        /// The other one.
        before: usize,
    },
    /// Its fullest site is fuller.
    Headroom {
        /// What is left there, as a share of its capacity.
        headroom: f64,
        /// The other one's.
        before: f64,
    },
    /// By its name only: they do the same.
    Name,
}

impl Lost {
    /// Why `choice` comes after `before`.
    pub(super) fn why(
        choice: &Choice,
        before: &Choice,
        situation: &Situation,
        config: &PlannerConfig,
    ) -> Self {
        let flaw = choice
            .flaws
            .iter()
            .find(|flaw| flaw.grade() == choice.grade());
        if let Some(flaw) = flaw.filter(|_| choice.grade() != before.grade()) {
            return Self::Flaw(*flaw);
        }
        let all = |_: SiteId| true;
        let besides = |site: SiteId| !situation.is_absorber(site);
        let over = if choice.over != before.over {
            worst_site(choice, situation, choice.over, all)
        } else if choice.over_besides != before.over_besides {
            worst_site(choice, situation, choice.over_besides, besides)
        } else {
            None
        };
        if let Some(over) = over {
            return over;
        }
        if choice.steps_lost(config) != before.steps_lost(config) {
            return Self::Kept {
                kept: choice.kept.likely,
                before: before.kept.likely,
            };
        }
        if choice.changes != before.changes {
            return Self::Changes {
                changes: choice.changes,
                before: before.changes,
            };
        }
        if choice.headroom != before.headroom {
            return Self::Headroom {
                headroom: choice.headroom,
                before: before.headroom,
            };
        }
        Self::Name
    }

    /// For a person.
    #[must_use]
    pub fn text(&self, sites: &Sites) -> String {
        match *self {
            Self::Flaw(flaw) => flaw.text(sites),
            Self::Over {
                site,
                case,
                load,
                capacity,
            } => {
                let when = match case {
                    Over::Likely | Over::Never => "",
                    Over::Worst => " at the upper end of the estimate",
                    Over::Concentrated => " if the attack is concentrated",
                };
                let name = sites.name(site);
                format!(
                    "{name} would get {} of {}{when}",
                    Amount(load),
                    Amount(capacity)
                )
            }
            Self::Kept { kept, before } => {
                format!(
                    "keeps {} of the normal load, not {}",
                    percent(kept),
                    percent(before)
                )
            }
            Self::Changes { changes, before } => {
                format!(
                    "changes {changes} {}, not {before}",
                    if changes == 1 { "site" } else { "sites" }
                )
            }
            Self::Headroom { headroom, .. } if headroom == f64::NEG_INFINITY => {
                "sends load to a site that is closed".to_string()
            }
            Self::Headroom { headroom, before } if before < 0.0 => {
                format!(
                    "overfills its fullest site by {}, not {}",
                    percent(-headroom),
                    percent(-before)
                )
            }
            Self::Headroom { headroom, before } => {
                format!(
                    "leaves {} of the fullest site free, not {}",
                    percent(headroom),
                    percent(before)
                )
            }
            Self::Name => "does the same, and is later by name".to_string(),
        }
    }
}

impl Flaw {
    /// For a person.
    #[must_use]
    pub fn text(&self, sites: &Sites) -> String {
        match *self {
            Self::MovesBreakwater { site, moved } => {
                format!(
                    "moves {} of what reaches the breakwater {}",
                    percent(moved),
                    sites.name(site)
                )
            }
            Self::Partial => "was measured with replies missing".to_string(),
            Self::Ineffective => "poisons without effect".to_string(),
            Self::NeedsDown { site, share } => {
                format!(
                    "sends {} of the blocks to {}, which is down",
                    percent(share),
                    sites.name(site)
                )
            }
            Self::ReachesNobody => "no block is known to reach a site".to_string(),
        }
    }
}

/// The site that is over its capacity the most, of those that are in this case.
fn worst_site(
    choice: &Choice,
    situation: &Situation,
    case: Over,
    counts: impl Fn(SiteId) -> bool,
) -> Option<Lost> {
    let load = |site: SiteId| choice.sites[site.index()].load_in(case);
    let excess = |site: SiteId| load(site) / situation.capacity[site.index()];
    let over = choice.sites_over(case).filter(|site| counts(*site));
    // The first of equals.
    let site = over.reduce(|a, b| if excess(b) > excess(a) { b } else { a })?;
    Some(Lost::Over {
        site,
        case,
        load: load(site),
        capacity: situation.capacity[site.index()],
    })
}

/// A load or capacity as a person would say it: `61,234`, `0.25`, `any load`.
#[derive(Clone, Copy, Debug)]
pub struct Amount(pub f64);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value) = *self;
        if !value.is_finite() {
            return f.pad("any load");
        }
        if value < 100.0 {
            // Two digits after the point at most.
            return f.pad(&(libm::round(value * 100.0) / 100.0).to_string());
        }
        let digits = format!("{value:.0}");
        let mut text = String::new();
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_with_their_figures() {
        let sites = Sites::new(["AMS", "BOS"]).unwrap();
        let site = SiteId(1);
        let over = |case, load| Lost::Over {
            site,
            case,
            load,
            capacity: 50_000.0,
        };
        for (lost, expect) in [
            (
                over(Over::Likely, 1_234_567.4),
                "BOS would get 1,234,567 of 50,000",
            ),
            (
                over(Over::Worst, 61_234.0),
                "BOS would get 61,234 of 50,000 at the upper end of the estimate",
            ),
            (
                over(Over::Worst, f64::INFINITY),
                "BOS would get any load of 50,000 at the upper end of the estimate",
            ),
            (
                over(Over::Concentrated, 0.254),
                "BOS would get 0.25 of 50,000 if the attack is concentrated",
            ),
            (
                Lost::Kept {
                    kept: 0.8,
                    before: 0.925,
                },
                "keeps 80.0% of the normal load, not 92.5%",
            ),
            (
                Lost::Changes {
                    changes: 1,
                    before: 0,
                },
                "changes 1 site, not 0",
            ),
            (
                Lost::Changes {
                    changes: 6,
                    before: 1,
                },
                "changes 6 sites, not 1",
            ),
            (
                Lost::Headroom {
                    headroom: 0.1,
                    before: 0.2,
                },
                "leaves 10.0% of the fullest site free, not 20.0%",
            ),
            (
                Lost::Headroom {
                    headroom: -0.055,
                    before: -0.03,
                },
                "overfills its fullest site by 5.5%, not 3.0%",
            ),
            (
                Lost::Headroom {
                    headroom: f64::NEG_INFINITY,
                    before: -0.03,
                },
                "sends load to a site that is closed",
            ),
            (Lost::Name, "does the same, and is later by name"),
            (
                Lost::Flaw(Flaw::MovesBreakwater { site, moved: 0.3 }),
                "moves 30.0% of what reaches the breakwater BOS",
            ),
            (
                Lost::Flaw(Flaw::Partial),
                "was measured with replies missing",
            ),
            (Lost::Flaw(Flaw::Ineffective), "poisons without effect"),
            (
                Lost::Flaw(Flaw::NeedsDown { site, share: 0.5 }),
                "sends 50.0% of the blocks to BOS, which is down",
            ),
            (
                Lost::Flaw(Flaw::ReachesNobody),
                "no block is known to reach a site",
            ),
        ] {
            assert_eq!(lost.text(&sites), expect);
        }
    }
}
