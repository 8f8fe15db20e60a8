//! A playbook as text: see [`Playbook`].

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Error as _},
    ser::{SerializeMap, SerializeSeq},
};

use super::{Classes, Play, Playbook};
use crate::reroute::{Announcement, Routing, SiteId, Sites};

/// The most classes times configurations in a text, where a few digits can stand for any number of them: a gigabyte in memory,
/// which is a map of all IPv4 blocks for 64 configurations.
const CELLS_MAX: u64 = 1 << 30;

/// A run of classes that go to the same site is written as one from this length on.
const RUN_MIN: usize = 3;

impl Serialize for Playbook {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plays: Vec<PlayOut<'_>> = self
            .plays
            .iter()
            .map(|play| PlayOut(&self.sites, play))
            .collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("sites", &self.sites)?;
        map.serialize_entry("configurations", &plays)?;
        if let Some(classes) = &self.classes {
            map.serialize_entry("classes", &ClassesOut(classes, self.plays.len()))?;
        }
        map.end()
    }
}

struct PlayOut<'a>(&'a Sites, &'a Play);

impl Serialize for PlayOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(sites, play) = *self;
        let share = BySite(sites, |site: SiteId| play.share(site));
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &play.routing.name)?;
        map.serialize_entry("share", &share)?;
        map.serialize_entry(
            "count",
            &BySite(sites, |site: SiteId| play.blocks[site.index()]),
        )?;
        map.serialize_entry("blocks", &play.known())?;
        map.serialize_entry("unknown", &play.unknown)?;
        map.serialize_entry("partial", &play.partial)?;
        if let Some(load) = &play.load {
            map.serialize_entry("load", &BySite(sites, |site: SiteId| load[site.index()]))?;
        }
        if play.ineffective {
            map.serialize_entry("ineffective", &true)?;
        }
        let announcements = play.routing.announcements.as_ref();
        let announcements =
            announcements.map(|all| BySite(sites, |site: SiteId| &all[site.index()]));
        map.serialize_entry("announcements", &announcements)?;
        map.end()
    }
}

/// A figure for each site under its name, in the order of the sites.
struct BySite<'a, F>(&'a Sites, F);

impl<T: Serialize, F: Fn(SiteId) -> T> Serialize for BySite<'_, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(sites, figure) = self;
        serializer.collect_map(sites.ids().map(|site| (sites.name(site), figure(site))))
    }
}

struct ClassesOut<'a>(&'a Classes, usize);

impl Serialize for ClassesOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(classes, plays) = *self;
        let rows: Vec<Runs<'_>> = (0..plays).map(|play| Runs(classes.play(play))).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("blocks", &classes.blocks)?;
        if !classes.load.is_empty() {
            map.serialize_entry("load", &classes.load)?;
        }
        map.serialize_entry("site", &rows)?;
        map.end()
    }
}

struct Runs<'a>(&'a [u8]);

impl Serialize for Runs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for run in self.0.chunk_by(|a, b| a == b) {
            let site = (run[0] != Classes::NOWHERE).then_some(run[0]);
            if run.len() < RUN_MIN {
                run.iter().try_for_each(|_| seq.serialize_element(&site))?;
            } else {
                seq.serialize_element(&(site, run.len()))?;
            }
        }
        seq.end()
    }
}

#[derive(Deserialize)]
struct FileIn {
    sites: Sites,
    configurations: Vec<PlayIn>,
    #[serde(default)]
    classes: Option<ClassesIn>,
}

#[derive(Deserialize)]
struct PlayIn {
    name: String,
    #[serde(default)]
    share: Option<BTreeMap<String, f64>>,
    #[serde(default)]
    count: Option<BTreeMap<String, u64>>,
    #[serde(default)]
    blocks: Option<u64>,
    #[serde(default)]
    unknown: u64,
    #[serde(default)]
    partial: bool,
    #[serde(default)]
    load: Option<BTreeMap<String, f64>>,
    #[serde(default)]
    ineffective: bool,
    /// The outer one: whether it was given; the inner one: whether as `null`.
    #[serde(default, deserialize_with = "given")]
    announcements: Option<Option<BTreeMap<String, Announcement>>>,
}

fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassesIn {
    blocks: Vec<u64>,
    #[serde(default)]
    load: Vec<f64>,
    site: Vec<Vec<Run>>,
}

/// Classes in a row that go to one site.
struct Run {
    site: u8,
    length: u64,
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RunVisitor)
    }
}

struct RunVisitor;

impl<'de> de::Visitor<'de> for RunVisitor {
    type Value = Run;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a site, null, or [site, n] for n classes in a row")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Run, E> {
        let site = site_number(number, &self)?;
        Ok(Run { site, length: 1 })
    }

    fn visit_unit<E: de::Error>(self) -> Result<Run, E> {
        let site = Classes::NOWHERE;
        Ok(Run { site, length: 1 })
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Run, A::Error> {
        let site: Option<u64> = seq
            .next_element()?
            .ok_or_else(|| A::Error::invalid_length(0, &self))?;
        let site = site.map_or(Ok(Classes::NOWHERE), |number| site_number(number, &self))?;
        let length = seq
            .next_element()?
            .ok_or_else(|| A::Error::invalid_length(1, &self))?;
        if seq.next_element::<de::IgnoredAny>()?.is_some() {
            return Err(A::Error::invalid_length(3, &self));
        }
        Ok(Run { site, length })
    }
}

fn site_number<E: de::Error>(number: u64, visitor: &RunVisitor) -> Result<u8, E> {
    match u8::try_from(number) {
        Ok(site) if site != Classes::NOWHERE => Ok(site),
        _ => Err(E::invalid_value(de::Unexpected::Unsigned(number), visitor)),
    }
}

impl<'de> Deserialize<'de> for Playbook {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let FileIn {
            sites,
            configurations,
            classes,
        } = FileIn::deserialize(deserializer)?;
        let mut plays = Vec::with_capacity(configurations.len());
        for (i, raw) in configurations.into_iter().enumerate() {
            let key = format!("configurations[{i}] ({})", raw.name);
            let play = raw.validate(&sites);
            plays.push(
                play.map_err(|problem| D::Error::custom(format_args!("`{key}`: {problem}")))?,
            );
        }
        let classes = classes.map(|raw| raw.validate(plays.len())).transpose();
        let classes =
            classes.map_err(|problem| D::Error::custom(format_args!("`classes`: {problem}")))?;
        Self::new(sites, plays, classes).map_err(D::Error::custom)
    }
}

impl PlayIn {
    fn validate(self, sites: &Sites) -> Result<Play, String> {
        let blocks = match (self.count, self.share, self.blocks) {
            (Some(count), _, _) => by_site(sites, count)?,
            (None, Some(share), Some(blocks)) if self.load.is_none() => {
                counts(&by_site(sites, share)?, blocks)?
            }
            _ => {
                let problem = "needs `count`, the blocks of each site; without `load`, `share` and `blocks` will do";
                return Err(problem.to_string());
            }
        };
        let announcements = match self.announcements {
            Some(all) => all.map(|all| by_site(sites, all)).transpose()?,
            None => Routing::parse(&self.name, sites)
                .ok()
                .and_then(|routing| routing.announcements),
        };
        Ok(Play {
            routing: Routing {
                name: self.name,
                announcements,
            },
            blocks,
            unknown: self.unknown,
            load: self.load.map(|load| by_site(sites, load)).transpose()?,
            partial: self.partial,
            ineffective: self.ineffective,
        })
    }
}

/// The values in the order of the sites, with the default for those that are not named.
fn by_site<T: Default>(sites: &Sites, values: BTreeMap<String, T>) -> Result<Vec<T>, String> {
    let mut all: Vec<T> = sites.ids().map(|_| T::default()).collect();
    for (name, value) in values {
        let Some(site) = sites.find(&name) else {
            let known: Vec<&str> = sites.names().collect();
            return Err(format!(
                "there is no site {name:?}, expected one of {}",
                known.join(", ")
            ));
        };
        all[site.index()] = value;
    }
    Ok(all)
}

/// Blocks of each site, from its share of all.
fn counts(share: &[f64], blocks: u64) -> Result<Vec<u64>, String> {
    let total: f64 = share.iter().sum();
    // Shares are often rounded to percents: a site may be off by half of one.
    let slack = 0.005 * share.len() as f64 + 1e-9;
    if !share.iter().all(|share| *share >= 0.0) || total > 1.0 + slack || total < 1.0 - slack {
        return Err(format!("the shares are {total} together, expected 1"));
    }
    let count = |share: &f64| libm::round(share / total * blocks as f64);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to `blocks`"
    )]
    Ok(share.iter().map(|share| count(share) as u64).collect())
}

impl ClassesIn {
    fn validate(self, plays: usize) -> Result<Classes, String> {
        let Self { blocks, load, site } = self;
        if site.len() != plays {
            let rows = site.len();
            return Err(format!(
                "`site` has {rows} lists, expected one for each of the {plays} configurations"
            ));
        }
        let n = blocks.len() as u64;
        if n.saturating_mul(plays as u64) > CELLS_MAX {
            return Err(format!(
                "{n} classes in {plays} configurations, expected at most {CELLS_MAX} sites in all"
            ));
        }
        let mut cells = Vec::new();
        for (i, runs) in site.iter().enumerate() {
            let length = runs
                .iter()
                .fold(0u64, |sum, run| sum.saturating_add(run.length));
            if length != n {
                return Err(format!(
                    "list {i} of `site` is of {length} classes, expected {n} as in `blocks`"
                ));
            }
            for run in runs {
                let end = cells.len() + usize::try_from(run.length).unwrap_or(usize::MAX);
                cells.resize(end, run.site);
            }
        }
        Ok(Classes {
            blocks,
            load,
            site: cells,
        })
    }
}
