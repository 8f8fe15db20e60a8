//! Which site the identity of a DNS server stands for.

/// A pattern for names of servers. `*` stands for any text, `{site}` for text without a dot that is the name of the site; all
/// else for itself, whatever the case.
///
/// `*.fi-hel.k.ripe.net=HEL` names a site; `ns*.{site}.k.ripe.net` takes its name from the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitePattern {
    /// In lower case, cut into what has to match, in order.
    parts: Vec<Part>,
    /// The site; `None` if the pattern finds it.
    site: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Any,
    Site,
}

/// Parts of a pattern at most: it is tried in ways that grow with them.
const PARTS_MAX: usize = 16;
/// Names longer than this are cut: a character string of DNS has at most 255 bytes, and a name is one or two of them.
const NAME_MAX: usize = 512;

/// A text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no pattern; expected NAME=SITE, such as *.ams.example.net=AMS, or a name with {{site}} in it, such as ns*.{{site}}.example.net"
)]
pub struct BadPattern(String);

impl std::str::FromStr for SitePattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let bad = || BadPattern(text.to_owned());
        let (pattern, site) = match text.rsplit_once('=') {
            Some((pattern, site)) => (pattern.trim(), Some(site.trim())),
            None => (text.trim(), None),
        };
        let mut parts = Vec::new();
        let mut rest = pattern;
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("{site}") {
                parts.push(Part::Site);
                rest = after;
            } else {
                rest = &rest[c.len_utf8()..];
                match (c, parts.last_mut()) {
                    ('*', Some(Part::Any)) => {}
                    ('*', _) => parts.push(Part::Any),
                    (c, Some(Part::Text(text))) => {
                        text.extend(c.to_lowercase().to_string().bytes());
                    }
                    (c, _) => parts.push(Part::Text(c.to_lowercase().to_string().into_bytes())),
                }
            }
        }
        let finds = parts.iter().filter(|part| **part == Part::Site).count();
        let names = usize::from(site.is_some());
        if parts.is_empty() || parts.len() > PARTS_MAX || finds + names != 1 || site == Some("") {
            return Err(bad());
        }
        Ok(Self {
            parts,
            site: site.map(str::to_owned),
        })
    }
}

impl SitePattern {
    /// The site of the server that calls itself so, if the pattern fits.
    #[must_use]
    pub fn site(&self, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        let name = &name.as_bytes()[..name.len().min(NAME_MAX)];
        let found = fit(&self.parts, name)?;
        match &self.site {
            Some(site) => Some(site.clone()),
            None => Some(String::from_utf8_lossy(&name[found.0..found.1]).into_owned()),
        }
    }
}

/// Where `{site}` is in a name that fits: a table over parts and places, so that no pattern takes longer than both together.
fn fit(parts: &[Part], name: &[u8]) -> Option<(usize, usize)> {
    // What is reached at each place: where `{site}` began and ended, as far as it was passed.
    let mut reached: Vec<Option<(usize, usize)>> = vec![None; name.len() + 1];
    reached[0] = Some((0, 0));
    for part in parts {
        let mut next = vec![None; name.len() + 1];
        match part {
            Part::Text(text) => {
                for at in 0..=name.len() {
                    if reached[at].is_some() && name[at..].starts_with(text) {
                        next[at + text.len()] = reached[at];
                    }
                }
            }
            Part::Any => {
                let mut from = None;
                for at in 0..=name.len() {
                    from = from.or(reached[at]);
                    next[at] = from;
                }
            }
            Part::Site => {
                for at in 0..name.len() {
                    if reached[at].is_none() {
                        continue;
                    }
                    let text = name[at..].iter().take_while(|byte| **byte != b'.').count();
                    for (end, ends) in next.iter_mut().enumerate().skip(at + 1).take(text) {
                        *ends = ends.or(Some((at, end)));
                    }
                }
            }
        }
        reached = next;
    }
    reached[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sites() {
        for (pattern, name, expect) in [
            (
                "*.fi-hel.k.ripe.net=HEL",
                "ns1.fi-hel.k.ripe.net",
                Some("HEL"),
            ),
            (
                "*.FI-HEL.k.ripe.net=HEL",
                "NS1.fi-hel.K.ripe.net",
                Some("HEL"),
            ),
            ("*.fi-hel.k.ripe.net=HEL", "ns1.de-fra.k.ripe.net", None),
            ("*.fi-hel.k.ripe.net=HEL", "ns1.fi-hel.k.ripe.net.", None),
            (
                "ns*.{site}.k.ripe.net",
                "ns1.fi-hel.k.ripe.net",
                Some("fi-hel"),
            ),
            (
                "*.{site}.k.ripe.net",
                "a.b.fi-hel.k.ripe.net",
                Some("fi-hel"),
            ),
            ("{site}*", "ams1", Some("a")),
            ("rootns-{site}?", "rootns-ams1", None),
            ("b*-{site}", "b4-lax", Some("lax")),
            ("b*-{site}", "b4-", None),
            ("*=ALL", "", Some("ALL")),
            ("a*a=X", "a", None),
            ("a*a=X", "aa", Some("X")),
        ] {
            let parsed: SitePattern = pattern.parse().unwrap();
            assert_eq!(parsed.site(name).as_deref(), expect, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_no_pattern() {
        let many = "a*".repeat(9) + "=X";
        for text in ["", "=X", "a=", "abc", "{site}.{site}", "{site}=X", &many] {
            assert!(text.parse::<SitePattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn no_name_takes_long() {
        let pattern: SitePattern = "*a*a*a*a*a*a*a=X".parse().unwrap();
        assert_eq!(pattern.site(&"a".repeat(10_000)).as_deref(), Some("X"));
        assert_eq!(pattern.site(&"b".repeat(10_000)), None);
    }
}
