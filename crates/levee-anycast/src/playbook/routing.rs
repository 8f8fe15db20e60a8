//! `.routing` files: what each site announced to each of its neighbours, in the words of ExaBGP.
//!
//! ```text
//! #policy,poison-63221-24115
//! #ipv4,us-mia,br-poa
//! site,prefix,peer_as,neighbor,attributes
//! br-poa-anycast02,192.0.2.0/24,64510,198.51.100.1,
//! us-mia-anycast01,192.0.2.0/24,64511,198.51.100.2,as-path [ 64500 63221 24115 64500 ] community [ 64511:666 ]
//! ```
//!
//! A site that does not announce has no line. The AS of the origin stands nowhere but in the paths.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::net::IpAddr;

use ipnet::IpNet;
use levee_policy::reroute::{
    Announcement, Asn, Community, Path, Routing, SITES_MAX, SiteId, Sites,
};

use super::error::{Malformed, WriteError};

/// The longest AS path: longer ones are filtered even in the middle of the Internet (the paper counts about 50).
pub const PATH_MAX: usize = 50;
/// The most communities of an announcement (our choice; PEERING allows 5, a message of 4 KiB some 900).
pub const COMMUNITIES_MAX: usize = 64;
/// The most lines (our choice: a hundred neighbours of each site).
pub const SESSIONS_MAX: usize = 100 * SITES_MAX;

const HEADER: &str = "site,prefix,peer_as,neighbor,attributes";

/// An address family, as the second line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `ipv4`
    V4,
    /// `ipv6`
    V6,
}

/// An announcement of a site to a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The site.
    pub site: String,
    /// What is announced.
    pub prefix: IpNet,
    /// The neighbour's AS.
    pub peer_as: Asn,
    /// The neighbour's address.
    pub neighbour: IpAddr,
    /// The AS that announces, where a path names it.
    pub origin: Option<Asn>,
    /// How it is announced.
    pub path: Path,
}

/// A `.routing` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingFile {
    /// The name of the configuration.
    pub policy: String,
    /// Of which family the prefixes are.
    pub family: Family,
    /// Short names of the sites that announce, as the file lists them.
    pub active: Vec<String>,
    /// Who announces what to whom.
    pub sessions: Vec<Session>,
}

impl RoutingFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Where a line is not as it should be.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.trim()));
        let mut next = |expected: &str| match lines.next() {
            Some((number, line)) => Ok((number, line)),
            None => Err(Malformed::new(
                text.lines().count() + 1,
                0,
                "the end",
                expected,
            )),
        };
        let expected = "#policy, and the name of the configuration";
        let (number, line) = next(expected)?;
        let policy = line.strip_prefix("#policy,").map(str::trim);
        let policy = policy.filter(|name| !name.is_empty() && !name.contains(char::is_control));
        let policy =
            policy.ok_or_else(|| Malformed::new(number, 0, format!("{line:?}"), expected))?;
        let expected = "#ipv4 or #ipv6, and the sites that announce";
        let (number, line) = next(expected)?;
        let (family, active) = match line.split_once(',').unwrap_or((line, "")) {
            ("#ipv4", sites) => (Family::V4, sites),
            ("#ipv6", sites) => (Family::V6, sites),
            _ => return Err(Malformed::new(number, 0, format!("{line:?}"), expected)),
        };
        let active = active
            .split(',')
            .filter(|site| !site.is_empty())
            .map(str::to_owned);
        let (number, line) = next(HEADER)?;
        if line != HEADER {
            return Err(Malformed::new(number, 0, format!("{line:?}"), HEADER));
        }
        let mut sessions = Vec::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            if sessions.len() == SESSIONS_MAX {
                let expected = format!("{SESSIONS_MAX} lines at most");
                return Err(Malformed::new(number, 0, "one more", expected));
            }
            sessions.push(session(line, number, family)?);
        }
        Ok(Self {
            policy: policy.to_owned(),
            family,
            active: active.collect(),
            sessions,
        })
    }

    /// The names of the sites that announce, in order.
    #[must_use]
    pub fn sites(&self) -> Vec<&str> {
        let mut sites: Vec<&str> = self.sessions.iter().map(|s| s.site.as_str()).collect();
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    /// As a routing configuration of these sites. What most neighbours of a site get is what it announces to everyone.
    ///
    /// # Errors
    ///
    /// With a site that is not among them, and where two sessions with one AS at one site differ, which a configuration cannot say.
    pub fn routing(&self, sites: &Sites) -> Result<Routing, Malformed> {
        let mut to: Vec<BTreeMap<Asn, &Path>> = vec![BTreeMap::new(); sites.len()];
        for (i, session) in self.sessions.iter().enumerate() {
            let line = i + 4;
            let Some(site) = sites.find(&session.site) else {
                let known: Vec<&str> = sites.names().collect();
                return Err(Malformed::new(line, 1, &session.site, known.join(", ")));
            };
            let before = to[site.index()].insert(session.peer_as, &session.path);
            if before.is_some_and(|path| *path != session.path) {
                let found = format!(
                    "another announcement of {} to AS {}",
                    session.site, session.peer_as
                );
                return Err(Malformed::new(
                    line,
                    0,
                    found,
                    "the same for all sessions with an AS",
                ));
            }
        }
        let announcements = to.iter().map(announcement).collect();
        Ok(Routing {
            name: self.policy.clone(),
            announcements: Some(announcements),
        })
    }

    /// The file of another configuration with the sessions of this one, which are all that there are.
    ///
    /// # Errors
    ///
    /// If a site or a neighbour that is to get an announcement has no session here, if the configuration does not tell its
    /// announcements, and if a path is needed and no path here tells the origin.
    pub fn with(&self, sites: &Sites, routing: &Routing) -> Result<Self, WriteError> {
        let bad = |text: String| Err(WriteError::Routing(text));
        let name = &routing.name;
        let Some(announcements) = &routing.announcements else {
            return bad(format!(
                "{name} tells no announcements, only its name; read it with its .routing file"
            ));
        };
        let mut sessions = Vec::new();
        let mut active = Vec::new();
        for (site, announcement) in sites.ids().zip(announcements) {
            let site = sites.name(site);
            let mine = || self.sessions.iter().filter(|session| session.site == site);
            for (neighbour, _) in announcement
                .neighbours
                .iter()
                .filter(|(_, path)| path.is_some())
            {
                if !mine().any(|session| session.peer_as == *neighbour) {
                    return bad(format!("{name}: {site} has no session with AS {neighbour}"));
                }
            }
            if announcement.everyone.is_some() && mine().next().is_none() {
                return bad(format!("{name}: {site} has no session"));
            }
            let before = sessions.len();
            for session in mine() {
                if let Some(path) = announcement.to(session.peer_as) {
                    sessions.push(Session {
                        path: path.clone(),
                        ..session.clone()
                    });
                }
            }
            if sessions.len() > before {
                let short = self
                    .active
                    .iter()
                    .find(|short| site.starts_with(short.as_str()));
                active.push(short.map_or_else(|| site.to_owned(), Clone::clone));
            }
        }
        let origin = self.sessions.iter().find_map(|session| session.origin);
        for session in &mut sessions {
            let plain = session.path.prepend == 0 && session.path.poison.is_empty();
            session.origin = if plain {
                None
            } else {
                session.origin.or(origin)
            };
            if !plain && session.origin.is_none() {
                return bad(format!(
                    "{name}: no file tells the AS of the origin; give it to the sessions"
                ));
            }
        }
        Ok(Self {
            policy: name.clone(),
            family: self.family,
            active,
            sessions,
        })
    }
}

/// As it is read.
impl fmt::Display for RoutingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "#policy,{}", self.policy)?;
        f.write_str(match self.family {
            Family::V4 => "#ipv4",
            Family::V6 => "#ipv6",
        })?;
        for site in &self.active {
            write!(f, ",{site}")?;
        }
        writeln!(f, "\n{HEADER}")?;
        for session in &self.sessions {
            writeln!(
                f,
                "{},{},{},{},{}",
                session.site,
                session.prefix,
                session.peer_as,
                session.neighbour,
                attributes_of(session)
            )?;
        }
        Ok(())
    }
}

fn attributes_of(session: &Session) -> String {
    let mut parts = Vec::new();
    if let Some(origin) = session.origin {
        let path: Vec<String> = session
            .path
            .as_path(origin)
            .iter()
            .map(Asn::to_string)
            .collect();
        parts.push(format!("as-path [ {} ]", path.join(" ")));
    }
    for (word, large) in [("community", false), ("large-community", true)] {
        let of_this = |c: &&Community| matches!(c, Community::Large(..)) == large;
        let list: Vec<String> = session
            .path
            .communities
            .iter()
            .filter(of_this)
            .map(Community::to_string)
            .collect();
        match list.as_slice() {
            [] => {}
            [one] => parts.push(format!("{word} {one}")),
            _ => parts.push(format!("{word} [ {} ]", list.join(" "))),
        }
    }
    parts.join(" ")
}

/// What a site announces, out of what each neighbour gets: nothing without a neighbour.
fn announcement(to: &BTreeMap<Asn, &Path>) -> Announcement {
    let mut times: BTreeMap<&Path, usize> = BTreeMap::new();
    for path in to.values() {
        *times.entry(path).or_default() += 1;
    }
    // Of those that are equally many the least, which is the plainest.
    let most = times.iter().max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)));
    let Some((everyone, _)) = most else {
        return Announcement::withdrawn();
    };
    let others = to.iter().filter(|(_, path)| path != &everyone);
    Announcement {
        everyone: Some((*everyone).clone()),
        neighbours: others
            .map(|(asn, path)| (*asn, Some((*path).clone())))
            .collect(),
    }
}

fn session(line: &str, number: usize, family: Family) -> Result<Session, Malformed> {
    let fields: Vec<&str> = line.splitn(5, ',').map(str::trim).collect();
    let &[site, prefix, peer_as, neighbour, attributes] = fields.as_slice() else {
        let found = format!("{} fields", fields.len());
        return Err(Malformed::new(number, 0, found, format!("five: {HEADER}")));
    };
    let bad = |column, found: &str, expected: &str| {
        Malformed::new(number, column, format!("{found:?}"), expected)
    };
    if site.is_empty() || site.contains(char::is_control) {
        return Err(bad(1, site, "the name of a site"));
    }
    let (kind, example) = match family {
        Family::V4 => ("an IPv4 prefix", "192.0.2.0/24"),
        Family::V6 => ("an IPv6 prefix", "2001:db8::/48"),
    };
    let prefix: Option<IpNet> = prefix.parse().ok();
    let prefix = prefix.filter(|prefix| matches!(prefix, IpNet::V4(_)) == (family == Family::V4));
    let prefix = prefix.ok_or_else(|| bad(2, fields[1], &format!("{kind}, such as {example}")))?;
    let peer_as = asn(peer_as).ok_or_else(|| bad(3, peer_as, "the number of an AS"))?;
    let neighbour = neighbour
        .parse()
        .map_err(|_| bad(4, neighbour, "an IP address"))?;
    let attributes = attributes.trim_matches('"');
    let (origin, path) =
        attributes_from(attributes).map_err(|(found, expected)| bad(5, &found, &expected))?;
    Ok(Session {
        site: site.to_owned(),
        prefix,
        peer_as,
        neighbour,
        origin,
        path,
    })
}

fn asn(text: &str) -> Option<Asn> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok().map(Asn)).flatten()
}

/// What is found, and what was expected.
type Odd = (String, String);

fn odd<T>(found: &str, expected: impl Into<String>) -> Result<T, Odd> {
    Err((found.to_owned(), expected.into()))
}

/// ExaBGP's text of a path and communities; anything else would be lost, so it is refused.
fn attributes_from(text: &str) -> Result<(Option<Asn>, Path), Odd> {
    let spaced = text.replace('[', " [ ").replace(']', " ] ");
    let mut words = spaced.split_whitespace();
    let mut origin = None;
    let mut path = Path::default();
    while let Some(word) = words.next() {
        let values = values(word, &mut words)?;
        match word {
            "as-path" if origin.is_none() => {
                let (asn, seen) = as_path(&values)?;
                origin = Some(asn);
                (path.prepend, path.poison) = (seen.prepend, seen.poison);
            }
            "as-path" => return odd("a second as-path", "one"),
            "community" | "large-community" => {
                for value in values {
                    let community: Community = match value.parse() {
                        Ok(community) => community,
                        Err(error) => {
                            let text = error.to_string();
                            return odd(value, text.trim_start_matches("expected "));
                        }
                    };
                    let large = matches!(community, Community::Large(..));
                    if large != (word == "large-community") {
                        return odd(value, format!("a {word}"));
                    }
                    path.communities.push(community);
                }
            }
            _ => return odd(word, "as-path, community or large-community"),
        }
        if path.communities.len() > COMMUNITIES_MAX {
            return odd("more communities", format!("{COMMUNITIES_MAX} at most"));
        }
    }
    Ok((origin, path))
}

/// One value, or a list in brackets.
fn values<'t>(word: &str, words: &mut impl Iterator<Item = &'t str>) -> Result<Vec<&'t str>, Odd> {
    let mut values = Vec::new();
    match words.next() {
        Some("[") => loop {
            match words.next() {
                Some("]") => break,
                Some("[") | None => {
                    return odd(
                        "a list without end",
                        format!("] after the values of {word}"),
                    );
                }
                Some(_) if values.len() > PATH_MAX.max(COMMUNITIES_MAX) => {
                    return odd(
                        "a longer list",
                        format!("{PATH_MAX} ASes or {COMMUNITIES_MAX} communities at most"),
                    );
                }
                Some(value) => values.push(value),
            }
        },
        Some(value) if value != "]" => values.push(value),
        _ => {
            return odd(
                "nothing",
                format!("a value of {word}, or a list in brackets"),
            );
        }
    }
    Ok(values)
}

/// `origin..., poison..., origin`.
fn as_path(values: &[&str]) -> Result<(Asn, Path), Odd> {
    let mut path = Vec::with_capacity(values.len());
    for value in values {
        match asn(value) {
            Some(asn) => path.push(asn),
            None => return odd(value, "the number of an AS"),
        }
    }
    let Some((&origin, &last)) = path.first().zip(path.last()) else {
        return odd("an empty path", "the origin at least");
    };
    if path.len() > PATH_MAX {
        return odd(
            &format!("a path of {} ASes", path.len()),
            format!("{PATH_MAX} at most"),
        );
    }
    if last != origin {
        return odd(
            &format!("a path from {origin} to {last}"),
            "one that begins and ends with the origin",
        );
    }
    let times = path.iter().take_while(|asn| **asn == origin).count();
    let poison = path.get(times..path.len() - 1).unwrap_or_default().to_vec();
    let path = Path {
        prepend: (times - 1) as u8,
        poison,
        communities: Vec::new(),
    };
    Ok((origin, path))
}

/// The same as text, for a page: `64500 64500 701 64500, 20473:6001`; empty for a plain one.
#[must_use]
pub fn path_text(path: &Path) -> String {
    let mut text = String::new();
    if path.prepend > 0 {
        write!(text, "prepend {}", path.prepend).ok();
    }
    if !path.poison.is_empty() {
        let list: Vec<String> = path.poison.iter().map(Asn::to_string).collect();
        let gap = if text.is_empty() { "" } else { ", " };
        write!(text, "{gap}poison {}", list.join(" ")).ok();
    }
    for community in &path.communities {
        let gap = if text.is_empty() { "" } else { ", " };
        write!(text, "{gap}{community}").ok();
    }
    text
}

/// Whether a site announces nothing to anyone.
#[must_use]
pub fn is_withdrawn(announcement: &Announcement) -> bool {
    announcement.everyone.is_none() && announcement.neighbours.values().all(Option::is_none)
}

/// Whether this site announces nothing in a play: by its announcements, or else by its name, `0xSITE`.
#[must_use]
pub fn withdraws(routing: &Routing, sites: &Sites, site: SiteId) -> bool {
    match &routing.announcements {
        Some(announcements) => announcements.get(site.index()).is_some_and(is_withdrawn),
        None => routing.name.strip_prefix("0x") == Some(sites.name(site)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "#policy,poison-63221-24115
#ipv4,br-poa,us-mia
site,prefix,peer_as,neighbor,attributes
br-poa-anycast02,192.0.2.0/24,64510,198.51.100.1,
br-poa-anycast02,192.0.2.0/24,64512,198.51.100.3,community 20473:6001
br-poa-anycast02,192.0.2.0/24,64513,198.51.100.4,
us-mia-anycast01,192.0.2.0/24,64511,198.51.100.2,as-path [ 64500 63221 24115 64500 ] community [ 64511:1 64511:2 ] large-community 64511:1:2
";

    fn sites() -> Sites {
        Sites::new(["br-poa-anycast02", "nl-ams-anycast01", "us-mia-anycast01"]).unwrap()
    }

    #[test]
    fn a_file_is_read_and_written() {
        let file = RoutingFile::parse(TEXT).unwrap();
        assert_eq!(file.to_string(), TEXT);
        assert_eq!(file.sites(), ["br-poa-anycast02", "us-mia-anycast01"]);
        let routing = file.routing(&sites()).unwrap();
        assert_eq!(routing.name, "poison-63221-24115");
        let [poa, ams, mia] = routing.announcements.as_deref().unwrap() else {
            panic!()
        };
        assert_eq!(poa.everyone, Some(Path::default()));
        let signal = Path {
            communities: vec![Community::Standard(20473, 6001)],
            ..Path::default()
        };
        assert_eq!(poa.neighbours, BTreeMap::from([(Asn(64512), Some(signal))]));
        assert!(is_withdrawn(ams) && withdraws(&routing, &sites(), SiteId(1)));
        let path = mia.everyone.as_ref().unwrap();
        assert_eq!(
            (path.prepend, path.poison.as_slice()),
            (0, [Asn(63221), Asn(24115)].as_slice())
        );
        assert_eq!(path.communities.len(), 3);
        assert_eq!(
            path_text(path),
            "poison 63221 24115, 64511:1, 64511:2, 64511:1:2"
        );
        assert_eq!(file.with(&sites(), &routing).unwrap(), file);
    }

    #[test]
    fn another_configuration_goes_to_the_same_sessions() {
        let file = RoutingFile::parse(TEXT).unwrap();
        let mut routing = file.routing(&sites()).unwrap();
        routing.name = "2xPOA".to_owned();
        let all = routing.announcements.as_mut().unwrap();
        all[0] = Announcement {
            everyone: Some(Path {
                prepend: 2,
                ..Path::default()
            }),
            ..Announcement::default()
        };
        all[2] = Announcement::withdrawn();
        let text = file.with(&sites(), &routing).unwrap().to_string();
        assert_eq!(
            text,
            "#policy,2xPOA\n#ipv4,br-poa\nsite,prefix,peer_as,neighbor,attributes\n\
             br-poa-anycast02,192.0.2.0/24,64510,198.51.100.1,as-path [ 64500 64500 64500 ]\n\
             br-poa-anycast02,192.0.2.0/24,64512,198.51.100.3,as-path [ 64500 64500 64500 ]\n\
             br-poa-anycast02,192.0.2.0/24,64513,198.51.100.4,as-path [ 64500 64500 64500 ]\n"
        );
        all_of(&mut routing)[1] = Announcement::default();
        let error = file.with(&sites(), &routing).unwrap_err().to_string();
        assert_eq!(error, "2xPOA: nl-ams-anycast01 has no session");
        all_of(&mut routing)[1] = Announcement::withdrawn();
        all_of(&mut routing)[0]
            .neighbours
            .insert(Asn(1), Some(Path::default()));
        let error = file.with(&sites(), &routing).unwrap_err().to_string();
        assert_eq!(error, "2xPOA: br-poa-anycast02 has no session with AS 1");
        routing.announcements = None;
        assert!(
            file.with(&sites(), &routing)
                .unwrap_err()
                .to_string()
                .contains("only its name")
        );
    }

    fn all_of(routing: &mut Routing) -> &mut Vec<Announcement> {
        routing.announcements.as_mut().unwrap()
    }

    #[test]
    fn paths_are_read() {
        let path = |prepend, poison: &[u32]| Path {
            prepend,
            poison: poison.iter().copied().map(Asn).collect(),
            communities: Vec::new(),
        };
        for (text, expect) in [
            ("1149", path(0, &[])),
            ("1149 1149", path(1, &[])),
            ("1149 1149 1149 1149", path(3, &[])),
            ("1149 701 1149", path(0, &[701])),
            ("1149 1149 701 1149", path(1, &[701])),
            ("1149 701 3356 1149", path(0, &[701, 3356])),
            ("1149 701 1149 1149", path(0, &[701, 1149])),
        ] {
            let values: Vec<&str> = text.split(' ').collect();
            let (origin, read) = as_path(&values).unwrap();
            assert_eq!((origin, &read), (Asn(1149), &expect), "{text}");
            let again: Vec<String> = read.as_path(origin).iter().map(Asn::to_string).collect();
            assert_eq!(again.join(" "), text);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let head = "#policy,p\n#ipv4,a\nsite,prefix,peer_as,neighbor,attributes\n";
        for (text, expect) in [
            (
                "",
                "line 1: found the end, expected #policy, and the name of the configuration",
            ),
            (
                "policy,x",
                "line 1: found \"policy,x\", expected #policy, and the name of the configuration",
            ),
            (
                "#policy,\n",
                "line 1: found \"#policy,\", expected #policy, and the name of the configuration",
            ),
            (
                "#policy,x\n#ipv5,a",
                "line 2: found \"#ipv5,a\", expected #ipv4 or #ipv6, and the sites that announce",
            ),
            (
                "#policy,x\n#ipv4,a\nsite\n",
                "line 3: found \"site\", expected site,prefix,peer_as,neighbor,attributes",
            ),
            (
                "a,192.0.2.0/24,1",
                "line 4: found 3 fields, expected five: site,prefix,peer_as,neighbor,attributes",
            ),
            (
                ",192.0.2.0/24,1,192.0.2.1,",
                "line 4, column 1: found \"\", expected the name of a site",
            ),
            (
                "a,192.0.2.0,1,192.0.2.1,",
                "line 4, column 2: found \"192.0.2.0\", expected an IPv4 prefix, such as 192.0.2.0/24",
            ),
            (
                "a,2001:db8::/48,1,192.0.2.1,",
                "line 4, column 2: found \"2001:db8::/48\", expected an IPv4 prefix, such as 192.0.2.0/24",
            ),
            (
                "a,192.0.2.0/24,+1,192.0.2.1,",
                "line 4, column 3: found \"+1\", expected the number of an AS",
            ),
            (
                "a,192.0.2.0/24,1,host,",
                "line 4, column 4: found \"host\", expected an IP address",
            ),
            (
                "a,192.0.2.0/24,1,192.0.2.1,med 3",
                "line 4, column 5: found \"med\", expected as-path, community or large-community",
            ),
            (
                "a,192.0.2.0/24,1,192.0.2.1,as-path [ 1 2",
                "line 4, column 5: found \"a list without end\", expected ] after the values of as-path",
            ),
            (
                "a,192.0.2.0/24,1,192.0.2.1,as-path [ 1 2 ]",
                "line 4, column 5: found \"a path from 1 to 2\", expected one that begins and ends with the origin",
            ),
            (
                "a,192.0.2.0/24,1,192.0.2.1,as-path [ ]",
                "line 4, column 5: found \"an empty path\", expected the origin at least",
            ),
            (
                "a,192.0.2.0/24,1,192.0.2.1,as-path",
                "line 4, column 5: found \"nothing\", expected a value of as-path, or a list in brackets",
            ),
            (
                "a,192.0.2.0/24,1,192.0.2.1,as-path 1 as-path 1",
                "line 4, column 5: found \"a second as-path\", expected one",
            ),
            (
                "a,192.0.2.0/24,1,192.0.2.1,community 1:2:3",
                "line 4, column 5: found \"1:2:3\", expected a community",
            ),
            (
                "a,192.0.2.0/24,1,192.0.2.1,community 1:70000",
                "line 4, column 5: found \"1:70000\", expected two numbers below 65536, as in 20473:6001, or three, as in 64500:1:2",
            ),
        ] {
            let text = if text.contains("192.0.2.1") || text.starts_with("a,") {
                format!("{head}{text}")
            } else {
                text.to_owned()
            };
            assert_eq!(
                RoutingFile::parse(&text).unwrap_err().to_string(),
                expect,
                "{text:?}"
            );
        }
        let long = format!(
            "{head}a,192.0.2.0/24,1,192.0.2.1,as-path [ {} ]",
            "1 ".repeat(PATH_MAX + 1)
        );
        assert!(
            RoutingFile::parse(&long)
                .unwrap_err()
                .to_string()
                .contains("50 at most")
        );
        let longest = format!(
            "{head}a,192.0.2.0/24,1,192.0.2.1,as-path [ {} ]",
            "1 ".repeat(PATH_MAX)
        );
        assert!(RoutingFile::parse(&longest).is_ok());
    }

    #[test]
    fn a_site_or_a_session_too_many_is_told() {
        let file = RoutingFile::parse(TEXT).unwrap();
        let error = file
            .routing(&Sites::new(["br-poa-anycast02"]).unwrap())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 7, column 1: found us-mia-anycast01, expected br-poa-anycast02"
        );
        let twice = TEXT.replace("64512", "64510");
        let error = RoutingFile::parse(&twice)
            .unwrap()
            .routing(&sites())
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("another announcement of br-poa-anycast02 to AS 64510"),
            "{error}"
        );
    }
}
