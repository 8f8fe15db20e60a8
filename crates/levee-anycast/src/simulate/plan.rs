//! A routing configuration, made ready for a graph: what each link carries, and how the ASes on the way treat it.

use std::collections::BTreeMap;

use levee_policy::reroute::{
    Asn, Path, Routing, SiteId,
    candidates::{Effect, Preference, Target},
};

use super::{
    Internet, Learned,
    policies::{TAKES_LOOPS, TIER1},
};

/// The longest AS path that any AS takes. Routers refuse far shorter ones.
pub const PATH_LENGTH_MAX: u16 = 1000;

/// Why a routing configuration cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutingError {
    /// Only its name is known.
    #[error(
        "configuration {name}: what the sites announce is not known; expected one with its announcements"
    )]
    NoAnnouncements {
        /// Its name.
        name: String,
    },
    /// For other sites.
    #[error(
        "configuration {name}: {found} announcements for {sites} sites; expected one for each site"
    )]
    Sites {
        /// Its name.
        name: String,
        /// How many announcements.
        found: usize,
        /// How many sites.
        sites: usize,
    },
    /// For a neighbour that the site does not have.
    #[error(
        "configuration {name}: site {site} has no neighbour AS{neighbour}; expected one of its links"
    )]
    Neighbour {
        /// Its name.
        name: String,
        /// The site's name.
        site: String,
        /// Which.
        neighbour: Asn,
    },
    /// Beyond [`PATH_LENGTH_MAX`].
    #[error(
        "configuration {name}: site {site} announces a path of {length} ASes; expected at most {PATH_LENGTH_MAX}"
    )]
    TooLong {
        /// Its name.
        name: String,
        /// The site's name.
        site: String,
        /// Of the path.
        length: usize,
    },
    /// Routes go round for ever, which communities that change preferences can do.
    #[error(
        "configuration {name}: the routes do not settle; expected communities that make no AS prefer a route over another that depends on it"
    )]
    Unsettled {
        /// Its name.
        name: String,
    },
}

/// What an upstream does with a route that carries one of its communities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Act {
    upstream: u32,
    effect: Effect,
}

/// How the ASes on the way treat a route, beyond its length.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Treatment {
    /// ASes that drop it as a loop, ascending.
    dropped_by: Vec<u32>,
    /// Has a Tier-1 in its path by poisoning.
    pub(super) tier1: bool,
    /// By upstream.
    acts: Vec<Act>,
}

impl Treatment {
    fn new(internet: &Internet<'_>, path: &Path) -> Self {
        let flags = &internet.policies.flags;
        let poisoned = path.poison.iter();
        let mut treatment = Self::default();
        for index in poisoned.filter_map(|asn| internet.graph.find(*asn)) {
            let flags = flags[index as usize];
            treatment.tier1 |= flags & TIER1 != 0;
            if flags & TAKES_LOOPS == 0 {
                treatment.dropped_by.push(index);
            }
        }
        treatment.dropped_by.sort_unstable();
        treatment.dropped_by.dedup();
        for &(upstream, community, effect) in &internet.policies.communities {
            if path.communities.contains(&community) {
                treatment.acts.push(Act { upstream, effect });
            }
        }
        treatment.acts.sort_unstable();
        treatment.acts.dedup();
        treatment
    }

    pub(super) fn is_dropped_by(&self, index: u32) -> bool {
        self.dropped_by.binary_search(&index).is_ok()
    }

    fn effects(&self, upstream: u32) -> impl Iterator<Item = Effect> + '_ {
        let first = self.acts.partition_point(|act| act.upstream < upstream);
        let acts = self.acts[first..].iter();
        acts.take_while(move |act| act.upstream == upstream)
            .map(|act| act.effect)
    }

    /// How an upstream ranks it, if not as a customer's.
    pub(super) fn preference(&self, upstream: u32) -> Option<Preference> {
        let preferences = self.effects(upstream).filter_map(|effect| match effect {
            Effect::PreferAs(preference) => Some(preference),
            Effect::NoExportTo(_) | Effect::ExportOnlyTo(_) | Effect::PrependTo { .. } => None,
        });
        preferences
            .max()
            .filter(|preference| *preference > Preference::Customer)
    }

    /// How often an upstream repeats itself towards this neighbour, which learns it so; `None`: it does not send it there.
    fn copies(&self, upstream: u32, (to, learned): (Asn, Learned)) -> Option<u16> {
        let is = |target: Target| match target {
            Target::Everyone => true,
            Target::Providers => learned == Learned::Customer,
            Target::Peers => learned == Learned::Peer,
            Target::Customers => learned == Learned::Provider,
            Target::As(asn) => asn == to,
        };
        let (mut copies, mut only, mut chosen) = (0, false, false);
        for effect in self.effects(upstream) {
            match effect {
                Effect::NoExportTo(target) if is(target) => return None,
                Effect::ExportOnlyTo(target) => {
                    only = true;
                    chosen |= is(target);
                }
                Effect::PrependTo { target, times } if is(target) => {
                    copies = copies.max(u16::from(times));
                }
                Effect::NoExportTo(_) | Effect::PrependTo { .. } | Effect::PreferAs(_) => {}
            }
        }
        (!only || chosen).then_some(copies)
    }
}

/// What a link carries.
#[derive(Clone, Debug)]
pub(super) struct Seed {
    pub(super) path: Path,
    pub(super) length: u16,
    pub(super) treatment: u16,
}

/// A routing configuration, made ready for a graph.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: String,
    /// By link of the deployment.
    pub(super) seeds: Vec<Option<Seed>>,
    /// The first is that of a plain announcement.
    pub(super) treatments: Vec<Treatment>,
    /// By treatment: that which is left of it without communities.
    stripped: Vec<u16>,
    sites: Vec<SiteId>,
}

impl Plan {
    pub(super) fn new(internet: &Internet<'_>, routing: &Routing) -> Result<Self, RoutingError> {
        let name = || routing.name.clone();
        let Some(announcements) = &routing.announcements else {
            return Err(RoutingError::NoAnnouncements { name: name() });
        };
        let sites = internet.sites.len();
        if announcements.len() != sites {
            return Err(RoutingError::Sites {
                name: name(),
                found: announcements.len(),
                sites,
            });
        }
        let links = &internet.placed.links;
        for (site, announcement) in internet.sites.ids().zip(announcements) {
            let known = |asn: &Asn| {
                links
                    .iter()
                    .any(|link| (link.site, link.asn) == (site, *asn))
            };
            if let Some(neighbour) = announcement.neighbours.keys().find(|asn| !known(asn)) {
                return Err(RoutingError::Neighbour {
                    name: name(),
                    site: internet.sites.name(site).to_owned(),
                    neighbour: *neighbour,
                });
            }
        }
        let mut treatments = Treatments::default();
        let mut seeds = Vec::with_capacity(links.len());
        for link in links {
            let Some(path) = announcements[link.site.index()].to(link.asn) else {
                seeds.push(None);
                continue;
            };
            let length = path.length();
            let short = u16::try_from(length)
                .ok()
                .filter(|length| *length <= PATH_LENGTH_MAX);
            seeds.push(Some(Seed {
                path: path.clone(),
                length: short.ok_or_else(|| RoutingError::TooLong {
                    name: name(),
                    site: internet.sites.name(link.site).to_owned(),
                    length,
                })?,
                treatment: treatments.number(Treatment::new(internet, path)),
            }));
        }
        let mut plan = Self {
            name: name(),
            seeds,
            stripped: Vec::new(),
            treatments: Vec::new(),
            sites: links.iter().map(|link| link.site).collect(),
        };
        (plan.treatments, plan.stripped) = treatments.with_stripped();
        Ok(plan)
    }

    /// Of these sites only.
    pub(super) fn only(&self, sites: &[SiteId]) -> Self {
        let mut plan = self.clone();
        for (seed, site) in plan.seeds.iter_mut().zip(&plan.sites) {
            if !sites.contains(site) {
                *seed = None;
            }
        }
        plan
    }

    /// Whether no AS on the way looks at anything but the length.
    pub(super) fn is_plain(&self) -> bool {
        self.treatments.len() == 1
    }

    /// ASes that some community makes prefer others to a customer's route.
    pub(super) fn demoting(&self) -> impl Iterator<Item = u32> + '_ {
        self.treatments.iter().flat_map(|treatment| {
            let upstreams = treatment.acts.iter().map(|act| act.upstream);
            upstreams.filter(|upstream| treatment.preference(*upstream).is_some())
        })
    }

    /// What an AS does with the communities on a route that it passes on: how often it repeats itself, `None` if it does not
    /// pass it on, and the treatment that goes with it.
    pub(super) fn passed_on(
        &self,
        treatment: u16,
        (from, acts, strips): (u32, bool, bool),
        to: (Asn, Learned),
    ) -> Option<(u16, u16)> {
        let is = &self.treatments[usize::from(treatment)];
        if is.acts.is_empty() {
            return Some((0, treatment));
        }
        let copies = if acts { is.copies(from, to)? } else { 0 };
        let left = if strips {
            self.stripped[usize::from(treatment)]
        } else {
            treatment
        };
        Some((copies, left))
    }
}

/// Treatments that differ, and their numbers.
#[derive(Debug)]
struct Treatments {
    numbers: BTreeMap<Treatment, u16>,
    list: Vec<Treatment>,
}

impl Default for Treatments {
    fn default() -> Self {
        Self {
            numbers: BTreeMap::from([(Treatment::default(), 0)]),
            list: vec![Treatment::default()],
        }
    }
}

impl Treatments {
    fn number(&mut self, treatment: Treatment) -> u16 {
        *self
            .numbers
            .entry(treatment)
            .or_insert_with_key(|treatment| {
                self.list.push(treatment.clone());
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "there are at most two for each of LINKS_MAX links"
                )]
                let number = (self.list.len() - 1) as u16;
                number
            })
    }

    /// All, and for each the number of what is left without communities.
    fn with_stripped(mut self) -> (Vec<Treatment>, Vec<u16>) {
        let mut stripped = Vec::with_capacity(self.list.len());
        let mut at = 0;
        while at < self.list.len() {
            let left = Treatment {
                acts: Vec::new(),
                ..self.list[at].clone()
            };
            stripped.push(self.number(left));
            at += 1;
        }
        (self.list, stripped)
    }
}
