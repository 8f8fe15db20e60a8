//! Where blocks go: classes of blocks that are never told apart.

use levee_policy::reroute::{Classes, Play, Playbook};

/// Most classes of a playbook: all of them are summed up after each event (our choice).
pub const CLASSES_MAX: usize = 65_536;
/// Parts into which a playbook without classes is cut: a tenth of a percent each (our choice).
const PARTS: usize = 1_000;

/// Classes of blocks with the site of each in each play. Blocks of one class go together.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The part of the normal load that comes from each class; their sum is 1.
    weight: Vec<f64>,
    /// The site of class `c` in play `p` at `p * classes + c`.
    site: Vec<u8>,
}

impl World {
    /// The world in which a playbook is right. Where a playbook says of some blocks in some play that they reach nothing, or that it does
    /// not know, they stay where the first play has them; those of which it knows nothing in the first play go where the first play that knows says.
    ///
    /// A playbook that has shares only does not say who moves. Then the least that must moves, the same first in each play:
    /// what a site loses against the first play goes to the sites that win, to each in proportion to what it wins.
    #[must_use]
    pub fn of(playbook: &Playbook) -> Self {
        match playbook.classes() {
            Some(classes) => Self::of_classes(classes, playbook.plays().len()),
            None => Self::of_shares(playbook),
        }
    }

    /// How many classes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.weight.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.weight.is_empty()
    }

    /// The part of the normal load that comes from each class.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weight
    }

    /// The site of each class in a play.
    #[must_use]
    pub fn sites(&self, play: usize) -> &[u8] {
        let n = self.len();
        self.site.get(play * n..(play + 1) * n).unwrap_or_default()
    }

    /// The share of each of so many sites in a play, of the normal load.
    #[must_use]
    pub fn shares(&self, play: usize, sites: usize) -> Vec<f64> {
        let mut shares = vec![0.0; sites];
        for (site, weight) in self.sites(play).iter().zip(&self.weight) {
            if let Some(share) = shares.get_mut(usize::from(*site)) {
                *share += weight;
            }
        }
        shares
    }

    /// All of its tables, one play after the other.
    pub(super) fn table(&self) -> &[u8] {
        &self.site
    }

    pub(super) fn fits(&self, sites: usize, plays: usize) -> bool {
        (1..=CLASSES_MAX).contains(&self.len())
            && self.site.len() == self.len() * plays
            && self.site.iter().all(|site| usize::from(*site) < sites)
    }

    fn of_classes(classes: &Classes, plays: usize) -> Self {
        let known = |class: usize| {
            let mut sites = (0..plays).map(move |play| classes.site(play, class));
            sites.find_map(|site| site)
        };
        let kept: Vec<(usize, u8)> = (0..classes.len())
            .filter(|class| classes.weight(*class) > 0.0)
            .filter_map(|class| Some((class, known(class)?.0)))
            .collect();
        let total: f64 = kept.iter().map(|(class, _)| classes.weight(*class)).sum();
        let weight = kept.iter().map(|(class, _)| classes.weight(*class) / total);
        let site = (0..plays).flat_map(|play| {
            let site = move |(class, first): &(usize, u8)| {
                classes.site(play, *class).map_or(*first, |site| site.0)
            };
            kept.iter().map(site)
        });
        Self {
            weight: weight.collect(),
            site: site.collect(),
        }
    }

    fn of_shares(playbook: &Playbook) -> Self {
        let sites = playbook.sites().len();
        let parts = |play: &Play| {
            let shares = playbook.sites().ids().map(|site| play.share(site));
            apportioned(&shares.collect::<Vec<f64>>())
        };
        let Some(first) = playbook.plays().first().map(parts) else {
            return Self::empty();
        };
        let home: Vec<u8> = (0..sites)
            .flat_map(|site| std::iter::repeat_n(site as u8, first[site]))
            .collect();
        if home.len() != PARTS {
            return Self::empty();
        }
        let plays = playbook.plays().iter().map(|play| {
            let wanted = parts(play);
            let all: usize = wanted.iter().sum();
            // A play of which nothing is known leaves all where they are.
            if all == PARTS {
                moved(&home, &first, &wanted)
            } else {
                home.clone()
            }
        });
        Self::merged(&plays.collect::<Vec<_>>())
    }

    fn empty() -> Self {
        Self {
            weight: Vec::new(),
            site: Vec::new(),
        }
    }

    /// Parts that go together everywhere are one class.
    fn merged(plays: &[Vec<u8>]) -> Self {
        let mut columns = std::collections::BTreeMap::new();
        for part in 0..PARTS {
            let column: Vec<u8> = plays.iter().map(|play| play[part]).collect();
            *columns.entry(column).or_insert(0_u32) += 1;
        }
        let weight = columns.values();
        let weight = weight.map(|parts| f64::from(*parts) / PARTS as f64);
        let site = (0..plays.len()).flat_map(|play| columns.keys().map(move |at| at[play]));
        Self {
            weight: weight.collect(),
            site: site.collect(),
        }
    }
}

/// So many of [`PARTS`] for each share, by largest remainders; none at all where the shares are.
fn apportioned(shares: &[f64]) -> Vec<usize> {
    let total: f64 = shares.iter().sum();
    if total <= 0.0 {
        return vec![0; shares.len()];
    }
    let exact = shares.iter().map(|share| share / total * PARTS as f64);
    let exact: Vec<f64> = exact.collect();
    let mut parts: Vec<usize> = exact.iter().map(|share| share.floor() as usize).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    let rest = |site: &usize| exact[*site] - exact[*site].floor();
    order.sort_by(|a, b| rest(b).total_cmp(&rest(a)));
    let left = PARTS.saturating_sub(parts.iter().sum());
    for site in order.into_iter().cycle().take(left) {
        parts[site] += 1;
    }
    parts
}

/// The site of each part in a play that gives each site so many: the last parts of a site leave first.
fn moved(home: &[u8], first: &[usize], wanted: &[usize]) -> Vec<u8> {
    let gain = |site: usize| wanted[site].saturating_sub(first[site]);
    let mut left: Vec<usize> = (0..first.len()).map(gain).collect();
    let mut leaving: Vec<usize> = (0..first.len())
        .map(|site| first[site].saturating_sub(wanted[site]))
        .collect();
    let mut at = home.to_vec();
    for part in (0..home.len()).rev() {
        let from = usize::from(home[part]);
        if leaving[from] == 0 {
            continue;
        }
        leaving[from] -= 1;
        // Whoever has most of its gain still to come.
        let open = |site: &usize| left[*site] as f64 / gain(*site) as f64;
        let to = (0..left.len())
            .filter(|site| left[*site] > 0)
            .max_by(|a, b| open(a).total_cmp(&open(b)).then(b.cmp(a)));
        if let Some(to) = to {
            left[to] -= 1;
            at[part] = to as u8;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use levee_policy::reroute::{Routing, SiteId, Sites};

    use super::*;

    fn playbook(plays: &[(&str, &[u64])], classes: Option<Classes>) -> Playbook {
        let names = ["A", "B", "C"].iter().take(plays[0].1.len()).copied();
        let plays = plays.iter().map(|(name, blocks)| Play {
            routing: Routing {
                name: (*name).into(),
                announcements: None,
            },
            blocks: blocks.to_vec(),
            unknown: 0,
            load: None,
            partial: false,
            ineffective: false,
        });
        Playbook::new(Sites::new(names).unwrap(), plays.collect(), classes).unwrap()
    }

    #[test]
    fn shares_are_met_to_a_part_and_no_more_move_than_must() {
        // The paper's Table 5 for its three sites, and a play that closes one.
        let plays: &[(&str, &[u64])] = &[
            ("baseline", &[653, 152, 195]),
            ("+1xA", &[373, 301, 326]),
            ("+3xA", &[27, 480, 493]),
            ("-1xA", &[807, 78, 115]),
            ("0xA", &[0, 600, 400]),
        ];
        let book = playbook(plays, None);
        let world = World::of(&book);
        assert!(world.fits(3, plays.len()));
        for (play, (name, blocks)) in plays.iter().enumerate() {
            for (site, share) in world.shares(play, 3).into_iter().enumerate() {
                let want = book.plays()[play].share(SiteId(site as u8));
                assert!(
                    (share - want).abs() <= 1e-3 + 1e-9,
                    "{name} {site}: {share}"
                );
            }
            let moved: f64 = (world.weights().iter().zip(world.sites(0)))
                .zip(world.sites(play))
                .filter(|((_, before), after)| before != after)
                .map(|((weight, _), _)| weight)
                .sum();
            let least: u64 = (0..3)
                .map(|s| plays[0].1[s].saturating_sub(blocks[s]))
                .sum();
            assert!((moved - least as f64 / 1e3).abs() < 1e-9, "{name}: {moved}");
        }
        // Who leaves with one prepend leaves with three.
        let (one, three) = (world.sites(1), world.sites(2));
        for ((first, one), three) in world.sites(0).iter().zip(one).zip(three) {
            assert!(!(*first == 0 && *one != 0 && *three == 0));
        }
    }

    #[test]
    fn what_is_not_known_stays() {
        let n = Classes::NOWHERE;
        let classes = Classes {
            blocks: vec![10, 20, 30, 40],
            load: vec![1.0, 0.0, 2.0, 1.0],
            site: vec![0, 1, n, n, n, 0, 1, n, 1, 1, 0, n],
        };
        let plays: &[(&str, &[u64])] = &[("b", &[5, 5]), ("x", &[5, 5]), ("y", &[5, 5])];
        let world = World::of(&playbook(plays, Some(classes)));
        // The second has no load, and of the last nothing is known.
        assert_eq!(world.weights(), [1.0 / 3.0, 2.0 / 3.0]);
        assert_eq!(
            [world.sites(0), world.sites(1), world.sites(2)],
            [[0, 1], [0, 1], [1, 0]]
        );
    }
}
