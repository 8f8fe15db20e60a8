//! What a playbook can do: the paper's tables 5 and 6, the range of each site, what nothing reaches, and what is stuck.

use levee_policy::reroute::{Classes, Playbook, SiteId};
use serde::Serialize;

use super::routing::withdraws;

/// Bins of a site's share, each of a tenth: `[0, 0.1)`, ..., `[0.9, 1]`.
pub const BINS: usize = 10;

/// In what a share is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Blocks.
    Blocks,
    /// Whole percents of blocks, which is all that some files tell.
    Percent,
    /// Load in normal times.
    Load,
}

impl Unit {
    /// Of a playbook: load if a play tells it; percents where each play sums to about a hundred, since no measurement of an
    /// Internet has so few blocks; blocks otherwise.
    #[must_use]
    pub fn of(playbook: &Playbook) -> Self {
        let plays = playbook.plays();
        // Rounding may take or add half a percent at each site.
        let slack = playbook.sites().len() as u64 / 2 + 1;
        let percents = plays
            .iter()
            .all(|play| play.known().abs_diff(100) <= slack && play.unknown == 0);
        match (plays.iter().any(|play| play.load.is_some()), percents) {
            (true, _) => Self::Load,
            (false, true) => Self::Percent,
            (false, false) => Self::Blocks,
        }
    }

    /// For a caption: `by blocks`.
    #[must_use]
    pub fn by(self) -> &'static str {
        match self {
            Self::Blocks => "by blocks",
            Self::Percent => "by blocks, in whole percents",
            Self::Load => "by load",
        }
    }
}

/// All tables of a playbook. Plays and sites are by their numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// In what shares are counted.
    pub unit: Unit,
    /// Table 5: of each play, the share of each site.
    pub share: Vec<Vec<f64>>,
    /// Table 6: of each site and bin, the plays that bring the site's share into the bin. Partial plays are left out of this and
    /// of all that follows.
    pub bins: Vec<[Vec<usize>; BINS]>,
    /// Of each site.
    pub reach: Vec<Reach>,
    /// Of each site, what stays there; `None` where single blocks are not known.
    pub stuck: Option<Vec<Stuck>>,
}

/// A play and the share of a site in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extreme {
    /// The play.
    pub play: usize,
    /// The share.
    pub share: f64,
}

/// How far a site's share can be moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach {
    /// The share in the baseline.
    pub baseline: f64,
    /// The least, short of the site's withdrawal, and the play that gives it.
    pub floor: Extreme,
    /// The most.
    pub ceiling: Extreme,
    /// In how many bins some play brings it: the operator's options, as the paper counts them.
    pub options: usize,
    /// Bins that nothing reaches.
    pub empty: Vec<usize>,
}

/// What stays at a site, as shares of all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stuck {
    /// Is there in every play in which the site announces, and was seen in two of them at least.
    pub stays: f64,
    /// Is never there, whatever is announced, and was seen in two plays at least.
    pub never: f64,
}

impl Tables {
    /// Of a playbook, by load where that is known ([`by_blocks`] takes it away).
    #[must_use]
    pub fn of(playbook: &Playbook) -> Self {
        let (sites, plays) = (playbook.sites(), playbook.plays());
        let share: Vec<Vec<f64>> = plays
            .iter()
            .map(|play| sites.ids().map(|site| play.share(site)).collect())
            .collect();
        let bins: Vec<[Vec<usize>; BINS]> = sites
            .ids()
            .map(|site| bins(playbook, &share, site))
            .collect();
        let reach = sites
            .ids()
            .map(|site| reach(playbook, &share, &bins[site.index()], site));
        Self {
            unit: Unit::of(playbook),
            reach: reach.collect(),
            stuck: playbook.classes().map(|classes| {
                sites
                    .ids()
                    .map(|site| stuck(playbook, classes, site))
                    .collect()
            }),
            share,
            bins,
        }
    }
}

/// The same playbook without loads.
///
/// # Errors
///
/// None in practice: what was a playbook still is one.
pub fn by_blocks(playbook: &Playbook) -> Result<Playbook, levee_policy::ConfigError> {
    let mut plays = playbook.plays().to_vec();
    for play in &mut plays {
        play.load = None;
    }
    let classes = playbook.classes().cloned().map(|classes| Classes {
        load: Vec::new(),
        ..classes
    });
    Playbook::new(playbook.sites().clone(), plays, classes)
}

/// The bin of a share.
#[must_use]
pub fn bin(share: f64) -> usize {
    ((share * BINS as f64) as usize).min(BINS - 1)
}

fn whole_plays(playbook: &Playbook) -> impl Iterator<Item = usize> + '_ {
    let plays = playbook.plays().iter().enumerate();
    // A partial baseline is still what all is compared with.
    plays
        .filter(|(i, play)| *i == 0 || !play.partial)
        .map(|(i, _)| i)
}

fn bins(playbook: &Playbook, share: &[Vec<f64>], site: SiteId) -> [Vec<usize>; BINS] {
    let mut bins = [const { Vec::new() }; BINS];
    for play in whole_plays(playbook) {
        bins[bin(share[play][site.index()])].push(play);
    }
    bins
}

fn reach(
    playbook: &Playbook,
    share: &[Vec<f64>],
    bins: &[Vec<usize>; BINS],
    site: SiteId,
) -> Reach {
    let of = |play: usize| Extreme {
        play,
        share: share[play][site.index()],
    };
    let mut floor = of(0);
    let mut ceiling = of(0);
    for play in whole_plays(playbook) {
        let here = of(play);
        if here.share > ceiling.share {
            ceiling = here;
        }
        let announces = !withdraws(&playbook.plays()[play].routing, playbook.sites(), site);
        if here.share < floor.share && announces {
            floor = here;
        }
    }
    let empty: Vec<usize> = (0..BINS).filter(|bin| bins[*bin].is_empty()).collect();
    Reach {
        baseline: of(0).share,
        floor,
        ceiling,
        options: BINS - empty.len(),
        empty,
    }
}

/// A block that was seen in one play only says nothing of what moves it.
fn stuck(playbook: &Playbook, classes: &Classes, site: SiteId) -> Stuck {
    let all: f64 = (0..classes.len()).map(|class| classes.weight(class)).sum();
    let announces: Vec<usize> = whole_plays(playbook)
        .filter(|play| !withdraws(&playbook.plays()[*play].routing, playbook.sites(), site))
        .collect();
    let (mut stays, mut never) = (0.0, 0.0);
    for class in 0..classes.len() {
        let (mut here, mut elsewhere) = (0usize, 0usize);
        for play in &announces {
            match classes.site(*play, class) {
                Some(other) if other == site => here += 1,
                Some(_) => elsewhere += 1,
                None => {}
            }
        }
        match (here, elsewhere) {
            (2.., 0) => stays += classes.weight(class),
            (0, 2..) => never += classes.weight(class),
            _ => {}
        }
    }
    let of_all = |part: f64| if all > 0.0 { part / all } else { 0.0 };
    Stuck {
        stays: of_all(stays),
        never: of_all(never),
    }
}

#[cfg(test)]
mod tests {
    use levee_policy::reroute::{Play, Routing, Sites};

    use super::*;

    fn play(name: &str, blocks: &[u64]) -> Play {
        Play {
            routing: Routing {
                name: name.to_owned(),
                announcements: None,
            },
            blocks: blocks.to_vec(),
            unknown: 0,
            load: None,
            partial: false,
            ineffective: false,
        }
    }

    fn playbook(plays: Vec<Play>, classes: Option<Classes>) -> Playbook {
        Playbook::new(Sites::new(["A", "B"]).unwrap(), plays, classes).unwrap()
    }

    #[test]
    fn a_share_on_an_edge_is_in_the_bin_above() {
        for (share, expect) in [
            (0.0, 0),
            (0.0999, 0),
            (0.1, 1),
            (0.65, 6),
            (0.9, 9),
            (0.999, 9),
            (1.0, 9),
        ] {
            assert_eq!(bin(share), expect, "{share}");
        }
    }

    #[test]
    fn a_site_ranges_from_floor_to_ceiling() {
        let mut broken = play("broken", &[500, 0]);
        broken.partial = true;
        let plays = vec![
            play("baseline", &[500, 500]),
            play("1xA", &[200, 800]),
            play("0xA", &[0, 1000]),
            play("0xB", &[1000, 0]),
            play("-1xA", &[790, 210]),
            broken,
        ];
        let tables = Tables::of(&playbook(plays, None));
        let [a, b] = tables.reach.as_slice() else {
            panic!()
        };
        assert_eq!(a.baseline, 0.5);
        assert_eq!(
            a.floor,
            Extreme {
                play: 1,
                share: 0.2
            }
        );
        assert_eq!(
            a.ceiling,
            Extreme {
                play: 3,
                share: 1.0
            }
        );
        assert_eq!(
            b.floor,
            Extreme {
                play: 4,
                share: 0.21
            }
        );
        assert_eq!(
            b.ceiling,
            Extreme {
                play: 2,
                share: 1.0
            }
        );
        assert_eq!(a.options, 5);
        assert_eq!(a.empty, [1, 3, 4, 6, 8]);
        assert_eq!(tables.bins[0][9], [3], "a partial play reaches nothing");
        assert_eq!(tables.stuck, None);
        assert_eq!(tables.unit, Unit::Blocks);
    }

    #[test]
    fn stuck_is_what_stays_short_of_withdrawal() {
        const X: u8 = Classes::NOWHERE;
        let classes = |load| Classes {
            blocks: vec![40, 30, 20, 6, 4],
            load,
            // baseline, 1xA, 1xB, 0xA
            site: [
                [0, 1, 0, 1, 0],
                [0, 1, 1, X, X],
                [0, 1, 0, 1, X],
                [1, 1, 1, 1, X],
            ]
            .concat(),
        };
        let plays = || {
            vec![
                play("baseline", &[64, 36]),
                play("1xA", &[40, 50]),
                play("1xB", &[60, 36]),
                play("0xA", &[0, 96]),
            ]
        };
        let stuck = Tables::of(&playbook(plays(), Some(classes(Vec::new()))))
            .stuck
            .unwrap();
        // Class 0 leaves A only when A is gone; class 3 is always at B as far as was seen; class 4 was seen once.
        assert_eq!(
            stuck[0],
            Stuck {
                stays: 0.4,
                never: 0.36
            }
        );
        assert_eq!(
            stuck[1],
            Stuck {
                stays: 0.36,
                never: 0.0
            }
        );
        let loads = vec![1.0, 1.0, 1.0, 1.0, 4.0];
        let stuck = Tables::of(&playbook(plays(), Some(classes(loads))))
            .stuck
            .unwrap();
        assert_eq!(stuck[0].stays, 0.125);
    }

    #[test]
    fn units_are_told_apart() {
        for (blocks, unknown, expect) in [
            ([57, 43], 0, Unit::Percent),
            ([57, 42], 0, Unit::Percent),
            ([57, 43], 1, Unit::Blocks),
            ([570, 430], 0, Unit::Blocks),
        ] {
            let mut one = play("baseline", &blocks);
            one.unknown = unknown;
            assert_eq!(Unit::of(&playbook(vec![one], None)), expect, "{blocks:?}");
        }
        let mut loaded = play("baseline", &[500, 500]);
        loaded.load = Some(vec![1.0, 3.0]);
        let book = playbook(vec![loaded], None);
        assert_eq!(Unit::of(&book), Unit::Load);
        assert_eq!(Tables::of(&book).share, [[0.25, 0.75]]);
        let blocks = by_blocks(&book).unwrap();
        assert_eq!(Tables::of(&blocks).share, [[0.5, 0.5]]);
    }
}
