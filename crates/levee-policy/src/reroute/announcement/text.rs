//! Names of routing configurations, read and written: see [`Routing::parse`].

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use core::fmt;

use super::{Announcement, Asn, Community, Path, Routing, digits};
use crate::reroute::{SiteId, Sites};

/// The longest name that is read, in bytes: a few parts for each of some dozen sites.
pub const ROUTING_NAME_MAX: usize = 4096;

/// The name of the routing configuration in which all sites announce plainly.
const BASELINE: &str = "baseline";

/// A text that names no routing configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotARouting {
    /// The part that is wrong.
    pub part: String,
    /// Where it begins, in characters from 1.
    pub column: usize,
    /// What it may be.
    pub expected: String,
}

impl fmt::Display for NotARouting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            part,
            column,
            expected,
        } = self;
        write!(f, "{part:?} at column {column}: expected {expected}")
    }
}

impl core::error::Error for NotARouting {}

/// What a part says.
#[derive(Clone, Debug)]
enum What {
    Prepend(u8),
    OthersPrepend(u8),
    Withdraw,
    Plain,
    Poison(Vec<Asn>),
    Community(Community),
}

impl Routing {
    /// The routing configuration of this name; it keeps the name as it is given.
    ///
    /// ```text
    /// name    = "baseline" | part *("," part)
    /// part    = what ["@" neighbour] "x" site
    /// what    = ["+"] n         the site prepends n, 1 or more
    ///         | "-" n           all other sites that announce prepend n; without a neighbour
    ///         | "0"             withdrawn
    ///         | "plain"         announced as it is; only with a neighbour
    ///         | "poison-" asn *("-" asn)
    ///         | community       such as 20473:6001
    /// ```
    ///
    /// Parts of one site add up. With a neighbour, a part holds for that neighbour alone, who then gets what its own parts say and
    /// nothing of the rest: `0xLHR,plain@174xLHR` announces at LHR to AS174 only. `1xAMS`, `-2xIAD` and `0xLHR` are as the authors of
    /// the paper write them in their data.
    ///
    /// # Errors
    ///
    /// When the name does not follow the grammar, names a site that is not there, or says two things of one site that do not go
    /// together.
    pub fn parse(name: &str, sites: &Sites) -> Result<Self, NotARouting> {
        Ok(Self {
            name: name.to_string(),
            announcements: Some(parse(name, sites)?),
        })
    }

    /// A routing configuration with the name that [`Routing::parse`] reads back.
    #[must_use]
    pub fn of(announcements: Vec<Announcement>, sites: &Sites) -> Self {
        debug_assert_eq!(announcements.len(), sites.len());
        Self {
            name: name_of(&announcements, sites),
            announcements: Some(announcements),
        }
    }
}

fn parse(name: &str, sites: &Sites) -> Result<Vec<Announcement>, NotARouting> {
    if name == BASELINE {
        return Ok(vec![Announcement::default(); sites.len()]);
    }
    if name.len() > ROUTING_NAME_MAX {
        return Err(NotARouting {
            part: name.chars().take(20).collect(),
            column: 1,
            expected: format!("a name of at most {ROUTING_NAME_MAX} bytes"),
        });
    }
    let mut draft = Draft::default();
    let mut column = 1;
    for part in name.split(',') {
        let wrong = |expected: String| NotARouting {
            part: part.to_string(),
            column,
            expected,
        };
        let (what, neighbour, site) = read_part(part.trim_start(), sites).map_err(wrong)?;
        draft.add(what, neighbour, site).map_err(wrong)?;
        column += part.chars().count() + 1;
    }
    Ok(draft.finish(sites))
}

fn read_part(part: &str, sites: &Sites) -> Result<(What, Option<Asn>, SiteId), String> {
    let Some((head, site)) = part.split_once('x') else {
        return Err(String::from(
            "baseline alone, or an action, x and a site, such as +1xAMS, -2xIAD, 0xLHR, poison-174xMIA or 20473:6001xLHR",
        ));
    };
    let site = sites.find(site).ok_or_else(|| {
        let known: Vec<&str> = sites.names().collect();
        format!("one of the sites after the x: {}", known.join(", "))
    })?;
    let (what, neighbour) = match head.split_once('@') {
        Some((what, asn)) => {
            let asn = asn.parse().map_err(|_| {
                String::from("the ASN of a neighbour after the @, such as +1@174xAMS")
            })?;
            (what, Some(asn))
        }
        None => (head, None),
    };
    let what = read_what(what)?;
    match (&what, neighbour) {
        (What::OthersPrepend(_), Some(_)) => Err(String::from(
            "no neighbour, since all other sites prepend to all of theirs",
        )),
        (What::Plain, None) => Err(String::from(
            "a neighbour that gets it plainly, such as plain@174xLHR",
        )),
        _ => Ok((what, neighbour, site)),
    }
}

fn read_what(text: &str) -> Result<What, String> {
    let at_least_one = |text: &str| digits::<u8>(text).filter(|n| *n > 0);
    let what = if text == "plain" {
        Some(What::Plain)
    } else if text == "0" {
        Some(What::Withdraw)
    } else if let Some(list) = text.strip_prefix("poison-") {
        let asns: Option<Vec<Asn>> = list.split('-').map(|asn| digits(asn).map(Asn)).collect();
        asns.map(What::Poison)
    } else if text.contains(':') {
        text.parse().ok().map(What::Community)
    } else if let Some(n) = text.strip_prefix('-') {
        at_least_one(n).map(What::OthersPrepend)
    } else {
        at_least_one(text.strip_prefix('+').unwrap_or(text)).map(What::Prepend)
    };
    what.ok_or_else(|| {
        String::from(
            "before the x: +1 to +255 (prepend), -1 to -255 (all others prepend), 0 (withdrawn), plain, poison-174 or \
             poison-174-701, or a community such as 20473:6001",
        )
    })
}

/// What was said so far.
#[derive(Default)]
struct Draft {
    /// Of each site, to everyone or to a neighbour.
    said: BTreeMap<(SiteId, Option<Asn>), Option<Path>>,
    /// `-NxSITE`.
    others: Option<(u8, SiteId)>,
}

impl Draft {
    fn add(&mut self, what: What, neighbour: Option<Asn>, site: SiteId) -> Result<(), String> {
        let alone = || {
            Err(String::from(
                "nothing else of a site that is withdrawn or plain there",
            ))
        };
        let twice = || Err(String::from("no second action of this kind at this site"));
        let key = (site, neighbour);
        let new = !self.said.contains_key(&key);
        match what {
            What::OthersPrepend(_) if self.others.is_some() => return twice(),
            What::OthersPrepend(n) => {
                self.others = Some((n, site));
                return self.check_others();
            }
            What::Withdraw | What::Plain if !new => return alone(),
            What::Withdraw => {
                self.said.insert(key, None);
                return Ok(());
            }
            What::Plain => {
                self.said.insert(key, Some(Path::default()));
                return Ok(());
            }
            What::Prepend(_) | What::Poison(_) | What::Community(_) => {}
        }
        let Some(path) = self
            .said
            .entry(key)
            .or_insert_with(|| Some(Path::default()))
        else {
            return alone();
        };
        if !new && *path == Path::default() {
            return alone();
        }
        match what {
            What::Prepend(n) if path.prepend == 0 => path.prepend = n,
            What::Poison(asns) if path.poison.is_empty() => path.poison = asns,
            What::Community(community) if !path.communities.contains(&community) => {
                path.communities.push(community);
            }
            _ => return twice(),
        }
        self.check_others()
    }

    /// That no site prepends both by itself and as one of the others.
    fn check_others(&self) -> Result<(), String> {
        let Some((_, exempt)) = self.others else {
            return Ok(());
        };
        let clash = self.said.iter().any(|((site, neighbour), path)| {
            neighbour.is_none()
                && *site != exempt
                && path.as_ref().is_some_and(|path| path.prepend > 0)
        });
        if clash {
            return Err(String::from(
                "no site that prepends by itself where all others prepend: name each with a +",
            ));
        }
        Ok(())
    }

    fn finish(self, sites: &Sites) -> Vec<Announcement> {
        let mut all = vec![Announcement::default(); sites.len()];
        for ((site, neighbour), path) in self.said {
            let announcement = &mut all[site.index()];
            match neighbour {
                Some(asn) => {
                    announcement.neighbours.insert(asn, path);
                }
                None => announcement.everyone = path,
            }
        }
        if let Some((n, exempt)) = self.others {
            for site in sites.ids().filter(|site| *site != exempt) {
                if let Some(path) = &mut all[site.index()].everyone {
                    path.prepend = n;
                }
            }
        }
        all
    }
}

fn name_of(announcements: &[Announcement], sites: &Sites) -> String {
    let others = others_prepend(announcements);
    let mut parts = Vec::new();
    if let Some((n, site)) = others {
        #[expect(clippy::cast_possible_truncation, reason = "at most SITES_MAX sites")]
        let site = SiteId(site as u8);
        parts.push(format!("-{n}x{}", sites.name(site)));
    }
    for (site, announcement) in sites.ids().zip(announcements) {
        let name = sites.name(site);
        let mut everyone = announcement.everyone.clone();
        if let (Some(path), Some(_)) = (&mut everyone, others) {
            path.prepend = 0;
        }
        if everyone.as_ref() != Some(&Path::default()) {
            write_path(&mut parts, everyone.as_ref(), "", name);
        }
        for (asn, path) in &announcement.neighbours {
            write_path(&mut parts, path.as_ref(), &format!("@{asn}"), name);
        }
    }
    if parts.is_empty() {
        return String::from(BASELINE);
    }
    parts.join(",")
}

/// `(n, site)` where all sites but this one prepend `n`, of those that announce, and these are two or more.
fn others_prepend(announcements: &[Announcement]) -> Option<(u8, usize)> {
    let prepends = || {
        let numbered = announcements.iter().enumerate();
        numbered.filter_map(|(i, a)| a.everyone.as_ref().map(|path| (i, path.prepend)))
    };
    let (exempt, _) = prepends().find(|(_, prepend)| *prepend == 0)?;
    let mut others = prepends()
        .filter(|(i, _)| *i != exempt)
        .map(|(_, prepend)| prepend);
    let n = others.next()?;
    let mut rest = others.peekable();
    (n > 0 && rest.peek().is_some() && rest.all(|prepend| prepend == n)).then_some((n, exempt))
}

fn write_path(parts: &mut Vec<String>, path: Option<&Path>, neighbour: &str, site: &str) {
    let Some(path) = path else {
        parts.push(format!("0{neighbour}x{site}"));
        return;
    };
    if *path == Path::default() {
        parts.push(format!("plain{neighbour}x{site}"));
    }
    if path.prepend > 0 {
        parts.push(format!("+{}{neighbour}x{site}", path.prepend));
    }
    if !path.poison.is_empty() {
        let asns: Vec<String> = path.poison.iter().map(ToString::to_string).collect();
        parts.push(format!("poison-{}{neighbour}x{site}", asns.join("-")));
    }
    for community in &path.communities {
        parts.push(format!("{community}{neighbour}x{site}"));
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};
    use std::{format, string::ToString, vec::Vec};

    use super::*;

    fn sites() -> Sites {
        // Names that try the grammar: with an x, with what a head may have.
        Sites::new(["AMS", "BOS", "xCNF", "br-poa", "1x@2:3"]).unwrap()
    }

    #[test]
    fn a_name_says_what_each_site_announces() {
        let plain = "plain";
        for (name, expect) in [
            ("baseline", [plain; 5]),
            ("+1xAMS", ["1", plain, plain, plain, plain]),
            ("1xAMS", ["1", plain, plain, plain, plain]),
            ("-2xBOS", ["2", plain, "2", "2", "2"]),
            ("0xxCNF", [plain, plain, "-", plain, plain]),
            ("-3xAMS, 0xBOS", [plain, "-", "3", "3", "3"]),
            ("+1xAMS,0xBOS", ["1", "-", plain, plain, plain]),
            ("poison-174xbr-poa", [plain, plain, plain, "0!174", plain]),
            (
                "poison-63221-24115xAMS,+2xAMS",
                ["2!63221!24115", plain, plain, plain, plain],
            ),
            (
                "20473:6001x1x@2:3",
                [plain, plain, plain, plain, "0 20473:6001"],
            ),
            (
                "20473:6001xAMS,1:2:3xAMS",
                ["0 20473:6001 1:2:3", plain, plain, plain, plain],
            ),
            (
                "0xAMS,plain@174xAMS",
                ["- [174 plain]", plain, plain, plain, plain],
            ),
            (
                "+2@174xAMS,0@AS3356xAMS",
                ["plain [174 2] [3356 -]", plain, plain, plain, plain],
            ),
        ] {
            let routing = Routing::parse(name, &sites()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(routing.name, name);
            let got: Vec<String> = routing.announcements.unwrap().iter().map(show).collect();
            assert_eq!(got, expect, "{name}");
        }
    }

    fn show(announcement: &Announcement) -> String {
        let path = |path: &Option<Path>| match path {
            None => String::from("-"),
            Some(path) if *path == Path::default() => String::from("plain"),
            Some(path) => {
                let poison = path.poison.iter().map(|asn| format!("!{asn}"));
                let communities = path.communities.iter().map(|c| format!(" {c}"));
                let rest: String = poison.chain(communities).collect();
                format!("{}{rest}", path.prepend)
            }
        };
        let neighbours = announcement.neighbours.iter();
        let neighbours: String = neighbours
            .map(|(asn, to)| format!(" [{asn} {}]", path(to)))
            .collect();
        path(&announcement.everyone) + &neighbours
    }

    #[test]
    fn what_is_no_name_is_refused_with_its_place() {
        for (name, column, says) in [
            ("", 1, "such as +1xAMS"),
            ("Baseline", 1, "baseline alone"),
            ("baseline,0xAMS", 1, "baseline alone"),
            ("+1xAMS,", 8, "such as +1xAMS"),
            ("+1xLAX", 1, "AMS, BOS"),
            ("+1xams", 1, "AMS, BOS"),
            ("+1xAMS ", 1, "AMS, BOS"),
            ("+0xAMS", 1, "before the x"),
            ("-0xAMS", 1, "before the x"),
            ("+256xAMS", 1, "before the x"),
            ("++1xAMS", 1, "before the x"),
            ("1.5xAMS", 1, "before the x"),
            ("xAMS", 1, "before the x"),
            ("poison-xAMS", 1, "before the x"),
            ("poison-4294967296xAMS", 1, "before the x"),
            ("poison-1--2xAMS", 1, "before the x"),
            ("20473:65536xAMS", 1, "before the x"),
            ("+1@xAMS", 1, "ASN of a neighbour"),
            ("-1@174xAMS", 1, "no neighbour"),
            ("plainxAMS", 1, "a neighbour that gets it plainly"),
            ("+1xAMS,+2xAMS", 8, "no second"),
            ("-1xAMS,-1xBOS", 8, "no second"),
            ("-1xAMS,+2xBOS", 8, "name each"),
            ("+2xBOS,-1xAMS", 8, "name each"),
            ("0xAMS,+1xAMS", 7, "nothing else"),
            ("+1xAMS,0xAMS", 8, "nothing else"),
            ("plain@174xAMS,+1@174xAMS", 15, "nothing else"),
            ("1:2xAMS,1:2xAMS", 9, "no second"),
            ("poison-1xAMS,poison-2xAMS", 14, "no second"),
        ] {
            let error = Routing::parse(name, &sites()).unwrap_err();
            assert_eq!(error.column, column, "{name}: {error}");
            assert!(error.expected.contains(says), "{name}: {error}");
        }
        let long = "+1xAMS,".repeat(ROUTING_NAME_MAX);
        let error = Routing::parse(&long, &sites()).unwrap_err().to_string();
        assert!(error.contains("4096 bytes"), "{error}");
    }

    fn path() -> impl Strategy<Value = Option<Path>> {
        let community = prop_oneof![
            (any::<u16>(), any::<u16>()).prop_map(|(a, b)| Community::Standard(a, b)),
            (any::<u32>(), any::<u32>(), any::<u32>())
                .prop_map(|(a, b, c)| Community::Large(a, b, c)),
        ];
        let communities = proptest::collection::btree_set(community, 0..3);
        let poison = proptest::collection::vec(any::<u32>().prop_map(Asn), 0..3);
        let path = (0u8..4, poison, communities).prop_map(|(prepend, poison, communities)| Path {
            prepend,
            poison,
            communities: communities.into_iter().collect(),
        });
        prop_oneof![
            2 => Just(Some(Path::default())),
            1 => (1u8..4).prop_map(|prepend| Some(Path { prepend, ..Path::default() })),
            1 => Just(None),
            1 => path.prop_map(Some),
        ]
    }

    fn announcements() -> impl Strategy<Value = Vec<Announcement>> {
        let neighbours = proptest::collection::btree_map((1u32..9).prop_map(Asn), path(), 0..2);
        let one = (path(), neighbours).prop_map(|(everyone, neighbours)| Announcement {
            everyone,
            neighbours,
        });
        // Prepending the same at most sites is rare by chance.
        let others = (0usize..5, 1u8..4, proptest::collection::vec(one, 5)).prop_map(
            |(exempt, n, mut all)| {
                for (i, announcement) in all.iter_mut().enumerate() {
                    if let Some(path) = &mut announcement.everyone {
                        path.prepend = if i == exempt { 0 } else { n };
                    }
                }
                all
            },
        );
        let one = (path(), Just(BTreeMap::new())).prop_map(|(everyone, neighbours)| Announcement {
            everyone,
            neighbours,
        });
        prop_oneof![others, proptest::collection::vec(one, 5)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, rng_seed: RngSeed::Fixed(2), ..ProptestConfig::default() })]

        #[test]
        fn every_routing_has_a_name_that_reads_back(announcements in announcements()) {
            let routing = Routing::of(announcements, &sites());
            prop_assert_eq!(Routing::parse(&routing.name, &sites()), Ok(routing));
        }

        #[test]
        fn any_text_is_read_or_refused(name in "(baseline|[-+0-9x@:,A-Sz]|poison-|plain|AMS|BOS|x){0,12}") {
            if let Ok(routing) = Routing::parse(&name, &sites()) {
                let again = Routing::of(routing.announcements.unwrap(), &sites());
                prop_assert_eq!(Routing::parse(&again.name, &sites()).unwrap().announcements, again.announcements);
            }
        }
    }
}
