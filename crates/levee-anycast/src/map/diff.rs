//! What moved from one map to another, and what never does.

use levee_policy::reroute::{SiteId, Sites};

use super::catchment::UNKNOWN;
use super::{Block, CatchmentMap, LoadMap, SiteError};

/// A square table of what moved: from a site (or from unknown, the last row) to a site (or to unknown, the last column).
#[derive(Clone, Debug, PartialEq)]
pub struct Flips<T> {
    places: usize,
    cells: Vec<T>,
}

impl<T: Copy + Default + std::ops::AddAssign + std::iter::Sum> Flips<T> {
    fn new(sites: usize) -> Self {
        let places = sites + 1;
        Self {
            places,
            cells: vec![T::default(); places * places],
        }
    }

    /// Of a site, or of unknown.
    fn place(&self, site: Option<SiteId>) -> usize {
        site.map_or(self.places - 1, SiteId::index)
    }

    fn add(&mut self, from: Option<SiteId>, to: Option<SiteId>, amount: T) {
        let cell = self.place(from) * self.places + self.place(to);
        self.cells[cell] += amount;
    }

    /// What went from one to the other; `None` is unknown.
    #[must_use]
    pub fn get(&self, from: Option<SiteId>, to: Option<SiteId>) -> T {
        self.cells[self.place(from) * self.places + self.place(to)]
    }

    /// All pairs, unknown last.
    pub fn iter(&self) -> impl Iterator<Item = (Option<SiteId>, Option<SiteId>, T)> {
        let places = self.places;
        let site = move |place| (place + 1 < places).then_some(SiteId(place as u8));
        let cells = self.cells.iter().enumerate();
        cells.map(move |(i, amount)| (site(i / places), site(i % places), *amount))
    }

    fn sum(&self, wanted: impl Fn(Option<SiteId>, Option<SiteId>) -> bool) -> T {
        let all = self.iter().filter(|(from, to, _)| wanted(*from, *to));
        all.map(|(_, _, amount)| amount).sum()
    }

    /// At a site in both.
    #[must_use]
    pub fn common(&self) -> T {
        self.sum(|from, to| from.is_some() && to.is_some())
    }

    /// At a site in both, and not at the same.
    #[must_use]
    pub fn moved(&self) -> T {
        self.sum(|from, to| from.is_some() && to.is_some() && from != to)
    }

    /// Only in the second.
    #[must_use]
    pub fn appeared(&self) -> T {
        self.sum(|from, to| from.is_none() && to.is_some())
    }

    /// Only in the first.
    #[must_use]
    pub fn vanished(&self) -> T {
        self.sum(|from, to| from.is_some() && to.is_none())
    }
}

/// What moved from one map to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// The sites of both.
    pub sites: Sites,
    /// Blocks.
    pub blocks: Flips<u64>,
    /// Load, if it is known. Load of blocks that are in neither map is from unknown to unknown.
    pub load: Option<Flips<f64>>,
}

impl Diff {
    /// Which share of the blocks that are in both moved: the paper finds some 5% from one measurement to the next with the same
    /// announcement (its table 7), and 0.35% at B-root in two weeks. `None` without a block in both.
    #[must_use]
    pub fn moved(&self) -> Option<f64> {
        let common = self.blocks.common();
        (common > 0).then(|| self.blocks.moved() as f64 / common as f64)
    }

    /// The same by load.
    #[must_use]
    pub fn load_moved(&self) -> Option<f64> {
        let load = self.load.as_ref()?;
        let common = load.common();
        (common > 0.0).then(|| load.moved() / common)
    }
}

/// Compares two maps. Sites come together by their names.
///
/// # Errors
///
/// If there are too many sites in both together.
pub fn diff(a: &CatchmentMap, b: &CatchmentMap, load: Option<&LoadMap>) -> Result<Diff, SiteError> {
    let all = together(&[a, b])?;
    let (a, b) = (&all[0], &all[1]);
    let sites = a.sites().clone();
    let mut blocks = Flips::new(sites.len());
    let mut flips = load.map(|_| Flips::new(sites.len()));
    for block in blocks_of(&[a, b]) {
        let (from, to) = (a.site(block), b.site(block));
        blocks.add(from, to, 1);
        if let (Some(load), Some(flips)) = (load, &mut flips) {
            flips.add(from, to, load.load(block));
        }
    }
    if let (Some(load), Some(flips)) = (load, &mut flips) {
        for (block, load) in load.iter() {
            if a.site(block).is_none() && b.site(block).is_none() {
                flips.add(None, None, load);
            }
        }
    }
    Ok(Diff {
        sites,
        blocks,
        load: flips,
    })
}

/// What never moves over a list of maps.
#[derive(Clone, Debug, PartialEq)]
pub struct Stuck {
    /// The sites of all maps.
    pub sites: Sites,
    /// Blocks that are in every map.
    pub common: u64,
    /// Of them, those that go to the same site in every map, by site.
    pub stuck: Vec<u64>,
    /// Blocks that are in some maps, but not in all: nothing is said of them.
    pub partly: u64,
    /// Load of the blocks that are in every map, if it is known.
    pub load_common: Option<f64>,
    /// Load of those that never move, by site.
    pub load_stuck: Option<Vec<f64>>,
}

/// Finds the blocks that go to the same site in every one of these maps.
///
/// # Errors
///
/// If there are too many sites in all together, or no map.
pub fn stuck(maps: &[&CatchmentMap], load: Option<&LoadMap>) -> Result<Stuck, SiteError> {
    let maps = together(maps)?;
    let maps: Vec<&CatchmentMap> = maps.iter().collect();
    let Some((first, rest)) = maps.split_first() else {
        return Err(SiteError::NoMap);
    };
    let sites = first.sites().clone();
    let n = sites.len();
    let mut found = Stuck {
        sites,
        common: 0,
        stuck: vec![0; n],
        partly: 0,
        load_common: load.map(|_| 0.0),
        load_stuck: load.map(|_| vec![0.0; n]),
    };
    for block in blocks_of(&maps) {
        let site = first.site(block);
        let everywhere = site.is_some() && rest.iter().all(|map| map.site(block).is_some());
        let Some(site) = site.filter(|_| everywhere) else {
            found.partly += 1;
            continue;
        };
        let load = load.map_or(0.0, |load| load.load(block));
        found.common += 1;
        if let Some(sum) = &mut found.load_common {
            *sum += load;
        }
        if rest.iter().all(|map| map.site(block) == Some(site)) {
            found.stuck[site.index()] += 1;
            if let Some(all) = &mut found.load_stuck {
                all[site.index()] += load;
            }
        }
    }
    Ok(found)
}

/// Blocks that stay at a site although it prepends: there in the first map, and in all others of this list. Gives how many are
/// there in the first map and in sight in all others, and how many of them stay.
///
/// # Errors
///
/// If there is no such site in the first map.
pub fn stuck_despite(
    site: &str,
    baseline: &CatchmentMap,
    prepended: &[&CatchmentMap],
) -> Result<(u64, u64), SiteError> {
    let unknown = || SiteError::Unknown {
        name: site.to_owned(),
        known: baseline.sites().names().collect::<Vec<_>>().join(", "),
    };
    let home = baseline.sites().find(site).ok_or_else(unknown)?;
    let there: Vec<_> = prepended
        .iter()
        .map(|map| (*map, map.sites().find(site)))
        .collect();
    let (mut common, mut stay) = (0, 0);
    for (block, _) in baseline.iter().filter(|(_, at)| *at == home) {
        if there.iter().any(|(map, _)| map.site(block).is_none()) {
            continue;
        }
        common += 1;
        stay += u64::from(there.iter().all(|(map, id)| map.site(block) == *id));
    }
    Ok((common, stay))
}

/// The maps with the same numbers of sites.
fn together(maps: &[&CatchmentMap]) -> Result<Vec<CatchmentMap>, SiteError> {
    let mut names: Vec<&str> = Vec::new();
    for name in maps.iter().flat_map(|map| map.sites().names()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if maps.is_empty() {
        return Err(SiteError::NoMap);
    }
    let sites = Sites::new(names)?;
    maps.iter().map(|map| map.remap(&sites)).collect()
}

/// The blocks that are in one of these maps at least.
fn blocks_of<'a>(maps: &'a [&'a CatchmentMap]) -> impl Iterator<Item = Block> + 'a {
    let v4 = (0..maps[0].v4().len()).filter(|i| maps.iter().any(|map| map.v4()[*i] != UNKNOWN));
    let mut v6: Vec<u64> = maps
        .iter()
        .flat_map(|map| map.v6().map(|(bits, _)| bits))
        .collect();
    v6.sort_unstable();
    v6.dedup();
    v4.map(|i| Block::V4(i as u32))
        .chain(v6.into_iter().map(Block::V6))
}

/// A map that has this share of blocks less than its peers is partial. As the missing ones may all be of one site, shares may
/// be wrong by as much: by one of the playbook's bins of 10%, so that a play may stand in the wrong one.
pub const PARTIAL_SHARE: f64 = 0.10;
/// Nor is a map partial by chance: replies that miss independently vary by the root of their number. 5 times that is one
/// false alarm in some million maps.
const PARTIAL_SIGMAS: f64 = 5.0;

/// Which of several maps of the same targets have so many blocks less than their peers that their shares are not to be relied
/// on: more than [`PARTIAL_SHARE`] less than the median of the others, and more than chance explains.
#[must_use]
pub fn partial(known: &[u64]) -> Vec<bool> {
    let mut sorted = known.to_vec();
    sorted.sort_unstable();
    known
        .iter()
        .map(|own| {
            let Some(median) = median_without(&sorted, *own) else {
                return false;
            };
            let missing = median - *own as f64;
            missing > PARTIAL_SHARE * median && missing > PARTIAL_SIGMAS * libm::sqrt(median)
        })
        .collect()
}

/// The median of a sorted list without one of its values.
fn median_without(sorted: &[u64], own: u64) -> Option<f64> {
    let out = sorted.partition_point(|n| *n < own);
    let peers = sorted.len().checked_sub(1)?;
    let at = |i: usize| sorted[if i < out { i } else { i + 1 }] as f64;
    match peers {
        0 => None,
        n if n % 2 == 1 => Some(at(n / 2)),
        n => Some(f64::midpoint(at(n / 2 - 1), at(n / 2))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks 0, 1, ... at the sites that the letters name; `.` is unknown.
    fn map(names: &[&str], blocks: &str) -> CatchmentMap {
        let mut map = CatchmentMap::new(Sites::new(names.iter().copied()).unwrap());
        for (i, letter) in blocks.chars().enumerate().filter(|(_, c)| *c != '.') {
            let site = map.sites().find(&letter.to_string()).unwrap();
            let block = if i % 2 == 0 {
                Block::V4(i as u32)
            } else {
                Block::V6(i as u64)
            };
            map.set(block, site);
        }
        map
    }

    fn load(map: &CatchmentMap) -> LoadMap {
        let mut load = LoadMap::new();
        for (i, (block, _)) in map.iter().enumerate() {
            load.add(block, (1 << i) as f64);
        }
        load
    }

    #[test]
    fn what_moved() {
        let a = map(&["A", "B", "C"], "AAAABBBBC...");
        let b = map(&["C", "B", "A"], "AABCBBB.CC..");
        let diff = diff(&a, &b, None).unwrap();
        let id = |name| diff.sites.find(name);
        for (from, to, expect) in [
            (id("A"), id("A"), 2),
            (id("A"), id("B"), 1),
            (id("A"), id("C"), 1),
            (id("B"), id("B"), 3),
            (id("B"), None, 1),
            (id("C"), id("C"), 1),
            (None, id("C"), 1),
            (id("B"), id("A"), 0),
            (None, None, 0),
        ] {
            assert_eq!(diff.blocks.get(from, to), expect, "{from:?} {to:?}");
        }
        let flips = &diff.blocks;
        let all = [
            flips.common(),
            flips.moved(),
            flips.appeared(),
            flips.vanished(),
        ];
        assert_eq!(all, [8, 2, 1, 1]);
        assert_eq!(diff.moved(), Some(0.25));
        assert_eq!(diff.load_moved(), None);
        let same = super::diff(&a, &a, None).unwrap();
        assert_eq!(same.moved(), Some(0.0));
        let none = super::diff(&map(&["A"], ""), &a, None).unwrap();
        assert_eq!(none.moved(), None);
        assert_eq!(none.blocks.appeared(), 9);
    }

    #[test]
    fn what_moved_by_load() {
        let a = map(&["A", "B"], "A.A.B.");
        let b = map(&["A", "B"], "B.A...");
        let mut load = load(&a);
        load.add(Block::V4(77), 100.0);
        let diff = diff(&a, &b, Some(&load)).unwrap();
        let flips = diff.load.as_ref().unwrap();
        let (a, b) = (diff.sites.find("A"), diff.sites.find("B"));
        assert_eq!(flips.get(a, b), 1.0);
        assert_eq!(flips.get(a, a), 2.0);
        assert_eq!(flips.get(b, None), 4.0);
        assert_eq!(flips.get(None, None), 100.0);
        assert_eq!(diff.load_moved(), Some(1.0 / 3.0));
    }

    #[test]
    fn what_never_moves() {
        let maps = [
            map(&["A", "B"], "AAAABB.BA"),
            map(&["B", "A"], "AABABBAB."),
            map(&["A", "B"], "ABAABBABA"),
        ];
        let maps: Vec<&CatchmentMap> = maps.iter().collect();
        let load = load(maps[0]);
        let found = stuck(&maps, Some(&load)).unwrap();
        // Blocks 0 and 3 at A, 4, 5 and 7 at B.
        assert_eq!((found.common, found.partly), (7, 2));
        assert_eq!(found.stuck, [2, 3]);
        let of = |blocks: &[usize]| -> f64 {
            let block = |i: &usize| {
                if i.is_multiple_of(2) {
                    Block::V4(*i as u32)
                } else {
                    Block::V6(*i as u64)
                }
            };
            blocks.iter().map(|i| load.load(block(i))).sum()
        };
        assert_eq!(found.load_stuck, Some(vec![of(&[0, 3]), of(&[4, 5, 7])]));
        assert_eq!(found.load_common, Some(of(&[0, 1, 2, 3, 4, 5, 7])));
        assert!(stuck(&[], None).is_err());
        assert_eq!(stuck(&maps[..1], None).unwrap().stuck, [5, 3]);
    }

    #[test]
    fn what_stays_although_its_site_prepends() {
        let base = map(&["A", "B"], "AAAAAB");
        let once = map(&["B", "A"], "ABA.AA");
        let twice = map(&["A", "B"], "AAABAB");
        // Of blocks 0, 1, 2 and 4 the third map says nothing new of 1, and 3 is not in sight in the second.
        assert_eq!(stuck_despite("A", &base, &[&once, &twice]), Ok((4, 3)));
        assert_eq!(stuck_despite("A", &base, &[]), Ok((5, 5)));
        assert!(stuck_despite("C", &base, &[]).is_err());
        // A site that is gone keeps nothing.
        assert_eq!(
            stuck_despite("A", &base, &[&map(&["B"], "BBBBBB")]),
            Ok((5, 0))
        );
    }

    #[test]
    fn maps_with_replies_missing() {
        for (known, expect) in [
            (vec![], vec![]),
            (vec![8_900], vec![]),
            (vec![8_900, 8_900], vec![]),
            // The authors' community run of 5,065 replies among others of about 8,900.
            (vec![8_916, 5_065, 8_923, 8_907, 8_159, 8_989], vec![1]),
            (vec![8_900, 5_065], vec![1]),
            // On the border of a tenth.
            (vec![10_000, 9_000, 10_000], vec![]),
            (vec![10_000, 8_999, 10_000], vec![1]),
            // 12 of 100 less may be chance: 5 * 10 would not be.
            (vec![100, 88, 100], vec![]),
            (vec![100, 50, 100], vec![]),
            (vec![100, 49, 100], vec![1]),
            (vec![0, 0, 0], vec![]),
            (vec![9_000, 0, 9_000, 9_100], vec![1]),
            // Half of them: the other half are no majority to tell.
            (vec![9_000, 9_000, 5_000, 5_000, 9_000], vec![2, 3]),
        ] {
            let found = partial(&known);
            let found: Vec<usize> = (0..known.len()).filter(|i| found[*i]).collect();
            assert_eq!(found, expect, "{known:?}");
        }
    }
}
