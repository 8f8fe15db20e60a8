//! `.stats` files: how many replies each site got in a run.
//!
//! ```text
//! #policy,baseline
//! #timestamp,1646261285
//! #hitlist,not_provided
//! site,counts,percent
//! au-syd-anycast01,8010,89
//! ```

use levee_policy::reroute::SITES_MAX;

use super::error::Malformed;
use super::table::figure;

/// A `.stats` file.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// The name of the configuration.
    pub policy: String,
    /// When it was measured, in seconds since 1970.
    pub timestamp: Option<u64>,
    /// Replies of each site, in the order of the file. A site without one has no line.
    pub counts: Vec<(String, u64)>,
}

impl Stats {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Where a line is not as it should be.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let mut stats = Self {
            policy: String::new(),
            timestamp: None,
            counts: Vec::new(),
        };
        let mut header = false;
        for (i, line) in text.lines().enumerate() {
            let (number, line) = (i + 1, line.trim());
            if line.is_empty() {
                continue;
            }
            if let Some(comment) = line.strip_prefix('#') {
                match comment.split_once(',') {
                    Some(("policy", name)) => name.trim().clone_into(&mut stats.policy),
                    Some(("timestamp", time)) => {
                        let time = time.trim();
                        let bad =
                            || Malformed::new(number, 2, format!("{time:?}"), "seconds since 1970");
                        stats.timestamp = Some(time.parse().map_err(|_| bad())?);
                    }
                    _ => {}
                }
            } else if header {
                stats.counts.push(count(line, number, &stats.counts)?);
            } else if line.starts_with("site,counts") {
                header = true;
            } else {
                return Err(Malformed::new(
                    number,
                    0,
                    format!("{line:?}"),
                    "site,counts,percent",
                ));
            }
        }
        if stats.policy.is_empty() || stats.policy.contains(char::is_control) {
            return Err(Malformed::new(
                1,
                0,
                "no configuration",
                "#policy, and its name",
            ));
        }
        if stats.counts.is_empty() {
            let end = text.lines().count() + 1;
            return Err(Malformed::new(
                end,
                0,
                "no site",
                "a line for each site that got replies",
            ));
        }
        Ok(stats)
    }
}

fn count(line: &str, number: usize, before: &[(String, u64)]) -> Result<(String, u64), Malformed> {
    if before.len() == SITES_MAX {
        return Err(Malformed::new(
            number,
            0,
            "one more",
            format!("{SITES_MAX} sites at most"),
        ));
    }
    let mut fields = line.split(',').map(str::trim);
    let (site, counts) = (
        fields.next().unwrap_or_default(),
        fields.next().unwrap_or_default(),
    );
    let new = !site.is_empty() && before.iter().all(|(other, _)| other != site);
    if !new || site.contains(char::is_control) {
        return Err(Malformed::new(
            number,
            1,
            format!("{site:?}"),
            "the name of a further site",
        ));
    }
    let counts = figure(counts, number, 2)?;
    if counts.fract() != 0.0 {
        return Err(Malformed::new(number, 2, counts, "a whole number"));
    }
    Ok((site.to_owned(), counts as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let text = "#policy,baseline\n#timestamp,1646261285\n#hitlist,not_provided\nsite,counts,percent\na,8010,89\nb,457,5\n";
        let stats = Stats::parse(text).unwrap();
        assert_eq!(stats.policy, "baseline");
        assert_eq!(stats.timestamp, Some(1_646_261_285));
        assert_eq!(
            stats.counts,
            [("a".to_owned(), 8010), ("b".to_owned(), 457)]
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, expect) in [
            (
                "",
                "line 1: found no configuration, expected #policy, and its name",
            ),
            (
                "#policy,p\n",
                "line 2: found no site, expected a line for each site that got replies",
            ),
            (
                "#policy,p\na,1\n",
                "line 2: found \"a,1\", expected site,counts,percent",
            ),
            (
                "#policy,p\n#timestamp,x\n",
                "line 2, column 2: found \"x\", expected seconds since 1970",
            ),
            (
                "#policy,p\nsite,counts,percent\na,x,3\n",
                "line 3, column 2: found \"x\", expected a number, 0 or more",
            ),
            (
                "#policy,p\nsite,counts,percent\na,1.5,3\n",
                "line 3, column 2: found 1.5, expected a whole number",
            ),
            (
                "#policy,p\nsite,counts,percent\na,1,3\na,1,3\n",
                "line 4, column 1: found \"a\", expected the name of a further site",
            ),
        ] {
            assert_eq!(
                Stats::parse(text).unwrap_err().to_string(),
                expect,
                "{text:?}"
            );
        }
    }
}
