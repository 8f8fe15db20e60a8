//! A set of sites.

use levee_policy::reroute::{SITES_MAX, SiteId};

/// A set of sites, and of "no route".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteSet([u64; 4]);

/// The bit for "no route"; no site has this number.
const NO_ROUTE: u8 = 255;
const _: () = assert!(SITES_MAX <= NO_ROUTE as usize);

impl SiteSet {
    /// With no site.
    pub const EMPTY: Self = Self([0; 4]);

    /// With one site, or with "no route".
    #[must_use]
    pub fn one(site: Option<SiteId>) -> Self {
        let mut set = Self::EMPTY;
        set.insert(site);
        set
    }

    /// Adds a site, or "no route".
    pub fn insert(&mut self, site: Option<SiteId>) {
        let bit = site.map_or(NO_ROUTE, |site| site.0);
        self.0[usize::from(bit >> 6)] |= 1 << (bit & 63);
    }

    /// Adds all of another set.
    pub fn add(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }

    /// Whether a site, or "no route", is in it.
    #[must_use]
    pub fn contains(&self, site: Option<SiteId>) -> bool {
        let bit = site.map_or(NO_ROUTE, |site| site.0);
        self.0[usize::from(bit >> 6)] >> (bit & 63) & 1 == 1
    }

    /// How many sites, "no route" counted as one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// The sites, ascending, without "no route".
    pub fn sites(&self) -> impl Iterator<Item = SiteId> + use<> {
        let set = *self;
        (0..NO_ROUTE)
            .map(SiteId)
            .filter(move |site| set.contains(Some(*site)))
    }

    /// The bits, the first sites lowest.
    pub(super) fn from_words(words: &[u64]) -> Self {
        let mut set = Self::EMPTY;
        for (to, from) in set.0.iter_mut().zip(words) {
            *to = *from;
        }
        set
    }
}

impl FromIterator<SiteId> for SiteSet {
    fn from_iter<I: IntoIterator<Item = SiteId>>(sites: I) -> Self {
        let mut set = Self::EMPTY;
        for site in sites {
            set.insert(Some(site));
        }
        set
    }
}
