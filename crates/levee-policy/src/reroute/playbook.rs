//! Routing configurations with the catchments that they give.

mod json;

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};

use super::{Routing, SiteId, Sites};
use crate::{
    ConfigError,
    config_error::{ensure, fail},
};

/// A routing configuration and its catchments.
#[derive(Clone, Debug, PartialEq)]
pub struct Play {
    /// What is announced.
    pub routing: Routing,
    /// Blocks that reach each site, in the order of the sites.
    pub blocks: Vec<u64>,
    /// Blocks that reach none, or of which nothing is known.
    pub unknown: u64,
    /// Load that reaches each site in normal times, in the units of the weights; where it is not known, blocks stand for it.
    pub load: Option<Vec<f64>>,
    /// Whether so many replies are missing against the other plays that the figures are not to be relied on.
    pub partial: bool,
    /// Whether it poisons and does no more than its control, prepends of the same length, does.
    pub ineffective: bool,
}

impl Play {
    /// All blocks that reach a site.
    #[must_use]
    pub fn known(&self) -> u64 {
        self.blocks.iter().sum()
    }

    /// The share of this site: of the load where that is known, of the blocks otherwise; 0 where nothing is.
    #[must_use]
    pub fn share(&self, site: SiteId) -> f64 {
        let of = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        match &self.load {
            Some(load) => of(load[site.index()], load.iter().sum()),
            None => of(self.blocks[site.index()] as f64, self.known() as f64),
        }
    }
}

/// Blocks that go together in every play: the same site as each other, whatever is announced. There are few of them where there
/// are millions of blocks, and they tell all that the whole maps tell: who moves where.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classes {
    /// Blocks of each class.
    pub blocks: Vec<u64>,
    /// Load of each class in normal times. Of the same length, or empty where it is not known.
    pub load: Vec<f64>,
    /// The site of class `c` in play `p` at `p * classes + c`; [`Classes::NOWHERE`] where it reaches none or is not known.
    pub site: Vec<u8>,
}

impl Classes {
    /// No site.
    pub const NOWHERE: u8 = u8::MAX;

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Where a class goes in a play.
    #[must_use]
    pub fn site(&self, play: usize, class: usize) -> Option<SiteId> {
        let site = self.site[play * self.len() + class];
        (site != Self::NOWHERE).then_some(SiteId(site))
    }

    /// The site of each class in a play, or [`Classes::NOWHERE`].
    #[must_use]
    pub fn play(&self, play: usize) -> &[u8] {
        &self.site[play * self.len()..][..self.len()]
    }

    /// The load of a class in normal times; its blocks where that is not known.
    #[must_use]
    pub fn weight(&self, class: usize) -> f64 {
        self.load
            .get(class)
            .copied()
            .unwrap_or(self.blocks[class] as f64)
    }
}

/// Plays of one service, the first of them the baseline.
///
/// # As text
///
/// JSON, what `levee anycast playbook show --json` and `simulate --json` print and other commands read:
///
/// ```text
/// {"sites": ["AMS", "BOS"],
///  "configurations": [
///    {"name": "+1xAMS", "share": {"AMS": 0.37, "BOS": 0.63}, "count": {"AMS": 37, "BOS": 63}, "blocks": 100, "unknown": 5,
///     "partial": false, "load": {...}, "ineffective": true, "announcements": {"AMS": {"everyone": {"prepend": 1}}, "BOS": {}}}],
///  "classes": {"blocks": [60, 40], "load": [...], "site": [[0, 1], [[0, 2]], ...]}}
/// ```
///
/// - `count`: blocks of each site; where it is left out, `share` of `blocks`. A site that is left out has 0.
/// - `share`: of the load where `load` is given, of the blocks otherwise. Not read where `count` is given.
/// - `unknown`, `partial`, `load`, `ineffective`: may be left out.
/// - `announcements`: a site that is left out announces plainly. `null`: not known. Left out altogether: what the name says, where
///   it is written as [`Routing::parse`] reads it; else not known.
/// - `classes`: for each configuration a list that names the site of each class by its number, or `null`; `[site, n]` stands for
///   `n` classes in a row.
///
/// Other keys are not read, so that a command may print more beside.
#[derive(Clone, Debug, PartialEq)]
pub struct Playbook {
    sites: Sites,
    plays: Vec<Play>,
    classes: Option<Classes>,
}

/// The most blocks of a site or a class: all /48 of IPv6.
pub const BLOCKS_MAX: u64 = 1 << 48;

/// The highest load of a site or a class, in any unit: so high that no sum loses its way.
pub const LOAD_MAX: f64 = 1e18;

/// The most plays (our choice: a thousand measurements of 15 minutes take ten days).
pub const PLAYS_MAX: usize = 10_000;

impl Playbook {
    /// Plays, the first of them the baseline.
    ///
    /// # Errors
    ///
    /// Without a play, with two of one name, with a play or classes that do not fit the sites.
    pub fn new(
        sites: Sites,
        plays: Vec<Play>,
        classes: Option<Classes>,
    ) -> Result<Self, ConfigError> {
        if plays.is_empty() || plays.len() > PLAYS_MAX {
            fail("configurations", &plays.len(), &format!("1 to {PLAYS_MAX}"))?;
        }
        let n = sites.len();
        let mut names = BTreeSet::new();
        for (i, play) in plays.iter().enumerate() {
            let name = &play.routing.name;
            let key = format!("configurations[{i}] ({name})");
            ensure(&key, names.insert(name), name, "names that differ")?;
            let fits = play.blocks.len() == n
                && are_blocks(&play.blocks)
                && play.unknown <= BLOCKS_MAX
                && play
                    .load
                    .as_ref()
                    .is_none_or(|load| load.len() == n && are_loads(load))
                && play
                    .routing
                    .announcements
                    .as_ref()
                    .is_none_or(|a| a.len() == n);
            ensure(
                &key,
                fits,
                &"of another shape",
                &format!("a figure of 0 or more for each of the {n} sites"),
            )?;
        }
        if let Some(classes) = &classes {
            let fits = classes.site.len() == classes.len() * plays.len()
                && (classes.load.is_empty() || classes.load.len() == classes.len())
                && are_blocks(&classes.blocks)
                && are_loads(&classes.load)
                && classes
                    .site
                    .iter()
                    .all(|site| usize::from(*site) < n || *site == Classes::NOWHERE);
            ensure(
                "classes",
                fits,
                &"of another shape",
                "a site for each class in each configuration, and figures of 0 or more",
            )?;
        }
        Ok(Self {
            sites,
            plays,
            classes,
        })
    }

    /// The sites.
    #[must_use]
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// The plays, the first of them the baseline.
    #[must_use]
    pub fn plays(&self) -> &[Play] {
        &self.plays
    }

    /// Who goes together, where single blocks are known.
    #[must_use]
    pub fn classes(&self) -> Option<&Classes> {
        self.classes.as_ref()
    }

    /// The play of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.plays.iter().position(|play| play.routing.name == name)
    }

    /// The names of all plays, for a message.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<String> = self
            .plays
            .iter()
            .map(|play| play.routing.name.to_string())
            .collect();
        names.join(", ")
    }
}

fn are_blocks(figures: &[u64]) -> bool {
    figures.iter().all(|blocks| *blocks <= BLOCKS_MAX)
}

fn are_loads(figures: &[f64]) -> bool {
    figures.iter().all(|load| (0.0..=LOAD_MAX).contains(load))
}

#[cfg(test)]
mod tests;
