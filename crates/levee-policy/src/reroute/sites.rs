//! The sites of a service, by name and by number.

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{ConfigError, config_error::fail};

/// The most sites: a catchment map has a byte for each block, with a few values to spare.
pub const SITES_MAX: usize = 250;

/// The number of a site: its place in [`Sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SiteId(pub u8);

impl SiteId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The names of all sites, in the order of their numbers; no two alike, at most [`SITES_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Sites(Vec<String>);

impl Sites {
    /// Sites with these names.
    ///
    /// # Errors
    ///
    /// With no name, an empty one, two alike or too many.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, ConfigError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.is_empty() || names.len() > SITES_MAX {
            fail("sites", &names.len(), &format!("1 to {SITES_MAX} names"))?;
        }
        for (i, name) in names.iter().enumerate() {
            if name.is_empty() || name.chars().any(|c| c.is_control() || c == ',') {
                fail(
                    "sites",
                    &format!("{name:?}"),
                    "a name without commas and control characters",
                )?;
            }
            if names[..i].contains(name) {
                fail("sites", &format!("{name:?} twice"), "names that differ")?;
            }
        }
        Ok(Self(names))
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none, which only [`Sites::default`] gives.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of a site. `?` for a number that no site has.
    #[must_use]
    pub fn name(&self, site: SiteId) -> &str {
        self.0.get(site.index()).map_or("?", String::as_str)
    }

    /// The site of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<SiteId> {
        self.ids().find(|site| self.name(*site) == name)
    }

    /// All numbers, in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = SiteId> + use<> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "there are at most SITES_MAX"
        )]
        (0..self.0.len() as u8).map(SiteId)
    }

    /// All names, in the order of their numbers.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<'de> Deserialize<'de> for Sites {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Vec::<String>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
