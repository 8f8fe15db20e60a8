//! Routing configurations that are worth a play: prepending both ways, withdrawal, communities, poisoning with its controls.
//!
//! A playbook costs a measurement of some 15 minutes a play, so a [`Menu`] names what is tried, and what can make no difference is
//! left out: the same announcements under a second name, and those that are longer at every site alike.

mod communities;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

pub use self::communities::{CommunityTable, Effect, Preference, Target};
use super::{Announcement, Asn, Community, Limits, PLAYS_MAX, Path, Routing, SiteId, Sites};
use crate::{ConfigError, config_error::ensure};

/// How far the paper prepends.
pub const PREPEND_MAX: u8 = 3;

/// What is tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Menu {
    /// Each site prepends 1 to this; 0: none does. [`PREPEND_MAX`] by default.
    pub prepend_max: u8,
    /// All sites but one prepend 1 to `prepend_max` ("negative prepending" at the one). True by default.
    pub negative: bool,
    /// Each site is withdrawn. True by default.
    pub withdraw: bool,
    /// Two sites at once prepend or are withdrawn, each in every way that it does alone. False by default: with eight sites and
    /// three prepends these are 448.
    pub pairs: bool,
    /// The neighbours of each site, by its name.
    pub neighbours: BTreeMap<String, Vec<Asn>>,
    /// Each site announces to one neighbour only, to all but one, and prepends 1 to `prepend_max` to one. False by default.
    pub selective: bool,
    /// What upstreams offer: each site tries, one at a time, what those of its neighbours offer.
    pub communities: CommunityTable,
    /// Each site poisons each of these, one at a time, and prepends as much for control.
    pub poison: Vec<Asn>,
    /// What neighbours let through.
    pub limits: Limits,
}

impl Default for Menu {
    fn default() -> Self {
        Self {
            prepend_max: PREPEND_MAX,
            negative: true,
            withdraw: true,
            pairs: false,
            neighbours: BTreeMap::new(),
            selective: false,
            communities: CommunityTable::default(),
            poison: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// All that the menu offers for these sites: the baseline first, then what changes one site, then pairs. No two announce the same.
///
/// # Errors
///
/// With neighbours of a site that is not there, a prepend or poison that is longer than the limits allow, a community where none
/// is allowed, or more than [`PLAYS_MAX`] routing configurations.
pub fn candidates(sites: &Sites, menu: &Menu) -> Result<Vec<Routing>, ConfigError> {
    menu.validate(sites)?;
    let mut list = List {
        sites,
        seen: BTreeSet::new(),
        routings: Vec::new(),
    };
    list.add(&[])?;
    for site in sites.ids() {
        for n in 1..=menu.prepend_max {
            list.add(&[(site, prepend(n))])?;
        }
    }
    for site in sites.ids().filter(|_| menu.negative) {
        for n in 1..=menu.prepend_max {
            let others = sites.ids().filter(|other| *other != site);
            let others: Vec<_> = others.map(|other| (other, prepend(n))).collect();
            list.add(&others)?;
        }
    }
    for site in sites.ids().filter(|_| menu.withdraw) {
        list.add(&[(site, Announcement::withdrawn())])?;
    }
    for site in sites.ids() {
        let neighbours = menu
            .neighbours
            .get(sites.name(site))
            .map_or(&[][..], Vec::as_slice);
        list.communities(site, neighbours, &menu.communities)?;
        list.poisons(site, &menu.poison)?;
        if menu.selective {
            list.selective(site, neighbours, menu.prepend_max)?;
        }
    }
    if menu.pairs {
        list.pairs(menu)?;
    }
    debug_assert!(
        list.routings
            .iter()
            .all(|r| r.validate(sites, &menu.limits).is_ok())
    );
    Ok(list.routings)
}

/// The control of a poison: prepends that make a path of the same length, to the same neighbours. A poison that moves no more
/// than its control works by its length, or not at all. `None` where nothing is poisoned, or it is not known what is announced.
#[must_use]
pub fn control_of(routing: &Routing, sites: &Sites) -> Option<Routing> {
    let mut announcements = routing.announcements.clone()?;
    let mut poisoned = false;
    for announcement in &mut announcements {
        let named = announcement.neighbours.values_mut();
        for path in named.chain([&mut announcement.everyone]).flatten() {
            if !path.poison.is_empty() {
                poisoned = true;
                path.prepend = u8::try_from(path.length() - 1).ok()?;
                path.poison.clear();
            }
        }
    }
    poisoned.then(|| Routing::of(announcements, sites))
}

impl Menu {
    fn validate(&self, sites: &Sites) -> Result<(), ConfigError> {
        let Limits {
            path_length,
            communities,
        } = self.limits;
        for name in self.neighbours.keys() {
            let key = format!("neighbours.{name}");
            let known: Vec<&str> = sites.names().collect();
            let expected = format!("one of {}", known.join(", "));
            ensure(&key, sites.find(name).is_some(), &"no site", &expected)?;
        }
        ensure(
            "prepend_max",
            usize::from(self.prepend_max) < path_length,
            &self.prepend_max,
            &format!("less than the longest path, {path_length} ASes"),
        )?;
        ensure(
            "poison",
            self.poison.is_empty() || path_length >= poison(Asn(0)).length(),
            &format!("a path of {} ASes", poison(Asn(0)).length()),
            &format!("at most {path_length}"),
        )?;
        ensure(
            "communities",
            communities > 0 || self.communities.upstreams().next().is_none(),
            &"given",
            "none, since none may be announced",
        )
    }
}

fn prepend(n: u8) -> Announcement {
    to_everyone(path_of(n))
}

fn path_of(prepend: u8) -> Path {
    Path {
        prepend,
        ..Path::default()
    }
}

fn poison(asn: Asn) -> Path {
    Path {
        poison: [asn].into(),
        ..Path::default()
    }
}

fn to_everyone(path: Path) -> Announcement {
    Announcement {
        everyone: Some(path),
        neighbours: BTreeMap::new(),
    }
}

/// What was found worth a play so far.
struct List<'a> {
    sites: &'a Sites,
    seen: BTreeSet<Vec<Announcement>>,
    routings: Vec<Routing>,
}

impl List<'_> {
    /// The sites announce so, and all others plainly.
    fn add(&mut self, changed: &[(SiteId, Announcement)]) -> Result<(), ConfigError> {
        let mut all: Vec<Announcement> =
            self.sites.ids().map(|_| Announcement::default()).collect();
        for (site, announcement) in changed {
            all[site.index()].clone_from(announcement);
        }
        let prepends = || {
            let paths = all.iter().flat_map(Announcement::paths);
            paths.map(|(_, path)| path.prepend)
        };
        let useful = prepends().any(|prepend| prepend == 0);
        if useful && self.seen.insert(all.clone()) {
            self.routings.push(Routing::of(all, self.sites));
        }
        let n = self.routings.len();
        ensure(
            "candidates",
            n <= PLAYS_MAX,
            &format!("more than {PLAYS_MAX}"),
            "a shorter menu",
        )
    }

    fn communities(
        &mut self,
        site: SiteId,
        neighbours: &[Asn],
        table: &CommunityTable,
    ) -> Result<(), ConfigError> {
        let offered = neighbours.iter().flat_map(|asn| table.offered_by(*asn));
        // Two upstreams may offer the same, such as the well-known ones.
        let offered: BTreeSet<Community> = offered.map(|(community, _)| community).collect();
        for community in offered {
            let path = Path {
                communities: [community].into(),
                ..Path::default()
            };
            self.add(&[(site, to_everyone(path))])?;
        }
        Ok(())
    }

    fn poisons(&mut self, site: SiteId, asns: &[Asn]) -> Result<(), ConfigError> {
        for asn in asns {
            let poisoned = [(site, to_everyone(poison(*asn)))];
            self.add(&poisoned)?;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a poison of one AS is as long as two prepends"
            )]
            let control = prepend(poison(*asn).length() as u8 - 1);
            self.add(&[(site, control)])?;
        }
        Ok(())
    }

    fn selective(
        &mut self,
        site: SiteId,
        neighbours: &[Asn],
        prepend_max: u8,
    ) -> Result<(), ConfigError> {
        if neighbours.len() < 2 {
            return Ok(());
        }
        for asn in neighbours {
            let mut only = Announcement::withdrawn();
            only.neighbours.insert(*asn, Some(Path::default()));
            // Of two neighbours, only this one is all but the other one.
            if neighbours.len() > 2 {
                self.add(&[(site, only)])?;
            }
            for path in (1..=prepend_max).map(|n| Some(path_of(n))).chain([None]) {
                let mut announcement = Announcement::default();
                announcement.neighbours.insert(*asn, path);
                self.add(&[(site, announcement)])?;
            }
        }
        Ok(())
    }

    fn pairs(&mut self, menu: &Menu) -> Result<(), ConfigError> {
        let mut ways: Vec<Announcement> = (1..=menu.prepend_max).map(prepend).collect();
        if menu.withdraw {
            ways.push(Announcement::withdrawn());
        }
        for first in self.sites.ids() {
            for second in self.sites.ids().filter(|second| *second > first) {
                for a in &ways {
                    for b in &ways {
                        self.add(&[(first, a.clone()), (second, b.clone())])?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{string::ToString, vec::Vec};

    use super::*;

    fn sites(names: &[&str]) -> Sites {
        Sites::new(names.iter().copied()).unwrap()
    }

    fn check(names: &[&str], menu: &Menu, expect: &str) {
        let routings = candidates(&sites(names), menu).unwrap();
        let got: Vec<&str> = routings
            .iter()
            .map(|routing| routing.name.as_str())
            .collect();
        let expect: Vec<&str> = expect.split_whitespace().collect();
        assert_eq!(got, expect);
    }

    #[test]
    fn the_menu_of_the_paper_is_the_default() {
        check(
            &["AMS", "BOS", "CNF"],
            &Menu::default(),
            "baseline +1xAMS +2xAMS +3xAMS +1xBOS +2xBOS +3xBOS +1xCNF +2xCNF +3xCNF
             -1xAMS -2xAMS -3xAMS -1xBOS -2xBOS -3xBOS -1xCNF -2xCNF -3xCNF 0xAMS 0xBOS 0xCNF",
        );
        // Of two sites, that the others prepend is that the other one does; of one site, nothing can be gained.
        check(
            &["AMS", "BOS"],
            &Menu {
                prepend_max: 1,
                ..Menu::default()
            },
            "baseline +1xAMS +1xBOS 0xAMS 0xBOS",
        );
        check(&["AMS"], &Menu::default(), "baseline");
    }

    #[test]
    fn pairs_go_every_way_that_the_sites_go_alone() {
        let menu = Menu {
            prepend_max: 1,
            negative: false,
            pairs: true,
            ..Menu::default()
        };
        check(
            &["A", "B", "C"],
            &menu,
            "baseline +1xA +1xB +1xC 0xA 0xB 0xC
             -1xC +1xA,0xB 0xA,+1xB 0xA,0xB -1xB +1xA,0xC 0xA,+1xC 0xA,0xC -1xA +1xB,0xC 0xB,+1xC 0xB,0xC",
        );
    }

    #[test]
    fn communities_poisons_and_neighbours_are_tried_where_they_are() {
        let mut communities = CommunityTable::default();
        for upstream in [174, 3356] {
            let effect = Effect::NoExportTo(Target::Peers);
            communities.insert(Asn(upstream), "65535:65281".parse().unwrap(), effect);
        }
        communities.insert(
            Asn(174),
            "174:970".parse().unwrap(),
            Effect::PreferAs(Preference::Last),
        );
        communities.insert(
            Asn(9),
            "9:9".parse().unwrap(),
            Effect::PreferAs(Preference::Last),
        );
        let two = [
            ("AMS", [174, 3356].map(Asn).to_vec()),
            ("CNF", [1916].map(Asn).to_vec()),
        ];
        let menu = Menu {
            prepend_max: 1,
            negative: false,
            withdraw: false,
            neighbours: two.map(|(site, asns)| (site.to_string(), asns)).into(),
            selective: true,
            communities,
            poison: [701, 1299].map(Asn).to_vec(),
            ..Menu::default()
        };
        check(
            &["AMS", "CNF"],
            &menu,
            "baseline +1xAMS +1xCNF 174:970xAMS 65535:65281xAMS poison-701xAMS +2xAMS poison-1299xAMS
             +1@174xAMS 0@174xAMS +1@3356xAMS 0@3356xAMS poison-701xCNF +2xCNF poison-1299xCNF",
        );
        let three = [("AMS", [1, 2, 3].map(Asn).to_vec())];
        let neighbours = three.map(|(site, asns)| (site.to_string(), asns)).into();
        let menu = Menu {
            prepend_max: 0,
            withdraw: false,
            neighbours,
            selective: true,
            ..Menu::default()
        };
        check(
            &["AMS", "BOS"],
            &menu,
            "baseline 0xAMS,plain@1xAMS 0@1xAMS 0xAMS,plain@2xAMS 0@2xAMS 0xAMS,plain@3xAMS 0@3xAMS",
        );
    }

    #[test]
    fn each_poison_has_its_control_in_the_list() {
        let sites = sites(&["AMS", "MIA", "POA"]);
        let menu = Menu {
            prepend_max: 0,
            poison: [Asn(174)].to_vec(),
            ..Menu::default()
        };
        let routings = candidates(&sites, &menu).unwrap();
        let controls: Vec<Routing> = routings
            .iter()
            .filter_map(|routing| control_of(routing, &sites))
            .collect();
        assert_eq!(controls.len(), 3);
        assert!(controls.iter().all(|control| routings.contains(control)));
    }

    #[test]
    fn a_control_is_as_long_and_goes_to_the_same_neighbours() {
        let sites = sites(&["AMS", "MIA", "POA"]);
        for (name, expect) in [
            ("baseline", None),
            ("+2xMIA", None),
            ("poison-174xMIA", Some("+2xMIA")),
            ("poison-63221-24115xMIA", Some("+3xMIA")),
            ("+1xMIA,poison-174xMIA,0xPOA", Some("+3xMIA,0xPOA")),
            ("0xMIA,poison-174@20080xMIA", Some("0xMIA,+2@20080xMIA")),
            ("poison-174xMIA,1:2xMIA", Some("+2xMIA,1:2xMIA")),
            ("+254xMIA,poison-1xMIA", None),
        ] {
            let routing = Routing::parse(name, &sites).unwrap();
            let control = control_of(&routing, &sites);
            assert_eq!(
                control.map(|control| control.name).as_deref(),
                expect,
                "{name}"
            );
        }
        let unknown = Routing {
            name: String::from("?"),
            announcements: None,
        };
        assert_eq!(control_of(&unknown, &sites), None);
    }

    #[test]
    fn a_menu_that_neighbours_would_filter_is_refused() {
        let names = ["AMS", "BOS"];
        let tight = |path_length, communities| Limits {
            path_length,
            communities,
        };
        let mut communities = CommunityTable::default();
        communities.insert(
            Asn(1),
            "1:2".parse().unwrap(),
            Effect::ExportOnlyTo(Target::Peers),
        );
        let poison = [Asn(1)].to_vec();
        let elsewhere = [("LAX".to_string(), Vec::new())].into();
        for (menu, says) in [
            (
                Menu {
                    prepend_max: 10,
                    ..Menu::default()
                },
                "`prepend_max` is 10, expected less than the longest path, 10",
            ),
            (
                Menu {
                    prepend_max: 1,
                    limits: tight(2, 5),
                    poison,
                    ..Menu::default()
                },
                "`poison` is a path of 3 ASes, expected at most 2",
            ),
            (
                Menu {
                    limits: tight(10, 0),
                    communities,
                    ..Menu::default()
                },
                "`communities` is given",
            ),
            (
                Menu {
                    neighbours: elsewhere,
                    ..Menu::default()
                },
                "`neighbours.LAX` is no site, expected one of AMS, BOS",
            ),
        ] {
            let error = candidates(&sites(&names), &menu).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(
            candidates(
                &sites(&names),
                &Menu {
                    prepend_max: 9,
                    ..Menu::default()
                }
            )
            .is_ok()
        );

        let many: Vec<String> = (0..60).map(|i| format!("S{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let error = candidates(
            &sites(&many),
            &Menu {
                pairs: true,
                ..Menu::default()
            },
        )
        .unwrap_err();
        assert!(error.to_string().contains("more than 10000"), "{error}");
    }
}
