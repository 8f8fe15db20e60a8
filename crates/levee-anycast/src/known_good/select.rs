//! Which sources are heavy hitters: steady, many, and hard to fake all at once.
//!
//! The paper takes the 100 that send most. Here a source must besides have been there all the time, at a level that follows its
//! own day and week, and no prefix, AS, country or single source may be much of the whole: who controls one of them would
//! control the estimate. What remains is taken by how much it tells: with `m` events expected in an interval and a relative
//! deviation `v` beside counting, the relative variance of its count is `1/m + v^2`, and the score is its inverse.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use super::profile::Profile;
use super::{History, SourceHistory, season::HOUR_S};

/// Hours of a day.
const DAY_HOURS: usize = 24;
/// A share is of the whole only if there are so many candidates.
const SHARE_OF_MIN: usize = 10;

/// What a heavy hitter must be. [`Default`] gives the values that the fields say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectOptions {
    /// How many are taken: 100 (section 4.1 of the paper).
    pub count: usize,
    /// The least share of the hours in which it sent something: 0.95, a guess.
    pub presence_min: f64,
    /// The most relative deviation of an hour beside season and counting: 0.5, a guess; a source above it says nearly nothing.
    pub variation_max: f64,
    /// How long before the end it must have been there already: 7 days, so that an attacker must plan, and pay, a week ahead.
    pub age_min_s: i64,
    /// The most that it may have grown, or shrunk, in the last day, or in the last week of two or more: 3-fold, a guess.
    pub change_max: f64,
    /// The most of one /16, or of one IPv6 /32: 5 of 100.
    pub per_prefix: usize,
    /// The most of one AS, if the file names them: 10 of 100.
    pub per_as: usize,
    /// The most of one country, if the file names them: 50 of 100.
    pub per_country: usize,
    /// The most that one source may be of all that are taken: 0.2.
    pub share_max: f64,
}

impl Default for SelectOptions {
    fn default() -> Self {
        Self {
            count: 100,
            presence_min: 0.95,
            variation_max: 0.5,
            age_min_s: 7 * 86_400,
            change_max: 3.0,
            per_prefix: 5,
            per_as: 10,
            per_country: 50,
            share_max: 0.2,
        }
    }
}

/// Why a candidate was taken or left.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// It is a heavy hitter.
    Taken,
    /// It was there in too few hours.
    Absent {
        /// The share in which it was.
        presence: f64,
    },
    /// It was first seen too late: it may have been planted.
    Young {
        /// Days before the end of the history.
        days: f64,
    },
    /// It grew or shrank too much lately: it may have been planted, or is about to go.
    Changed {
        /// Its last rate, over what its own history gives for then.
        ratio: f64,
    },
    /// It goes up and down too much.
    Unsteady {
        /// Relative deviation of an hour.
        variation: f64,
    },
    /// It would be too much of the whole.
    TooBig {
        /// Its share.
        share: f64,
    },
    /// Its prefix has enough already.
    PrefixFull {
        /// The /16 or /32.
        prefix: String,
    },
    /// Its AS has enough already.
    AsFull {
        /// The AS.
        asn: u32,
    },
    /// Its country has enough already.
    CountryFull {
        /// Two letters.
        country: String,
    },
    /// There are enough that tell more.
    Enough,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str("taken"),
            Self::Absent { presence } => {
                write!(f, "there in only {:.0}% of the hours", presence * 100.0)
            }
            Self::Young { days } => write!(f, "first seen only {days:.1} days before the end"),
            Self::Changed { ratio } => write!(f, "lately {ratio:.1} times its own history"),
            Self::Unsteady { variation } => write!(f, "varies by {:.0}%", variation * 100.0),
            Self::TooBig { share } => write!(f, "alone {:.0}% of the whole", share * 100.0),
            Self::PrefixFull { prefix } => write!(f, "enough of {prefix}"),
            Self::AsFull { asn } => write!(f, "enough of AS{asn}"),
            Self::CountryFull { country } => write!(f, "enough of {country}"),
            Self::Enough => f.write_str("enough that tell more"),
        }
    }
}

/// A candidate and what was decided of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// As the file names it.
    pub source: String,
    /// Events per second, over the history.
    pub rate: f64,
    /// Share of the hours in which it was there.
    pub presence: f64,
    /// Relative deviation of an hour, beside season and counting.
    pub variation: f64,
    /// How much it tells of one interval.
    pub score: f64,
    /// Why it was taken or left.
    pub verdict: Verdict,
}

/// Decides of all candidates of a history, in its order (heaviest first).
///
/// If the history is shorter than the least age, nobody can be too young; [`too_short_for_age`] says so.
#[must_use]
pub fn select(history: &History, options: &SelectOptions) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = history
        .sources
        .iter()
        .map(|source| candidate(history, source, options))
        .collect();
    let mut order: Vec<usize> = (0..candidates.len())
        .filter(|i| candidates[*i].verdict == Verdict::Taken)
        .collect();
    order.sort_by(|a, b| {
        candidates[*b]
            .score
            .total_cmp(&candidates[*a].score)
            .then_with(|| candidates[*a].source.cmp(&candidates[*b].source))
    });
    let whole: f64 = order
        .iter()
        .take(options.count)
        .map(|i| candidates[*i].rate)
        .sum();
    let mut spread = Spread::default();
    for &i in &order {
        let share = candidates[i].rate / whole;
        candidates[i].verdict = if order.len() >= SHARE_OF_MIN && share > options.share_max {
            Verdict::TooBig { share }
        } else if spread.taken == options.count {
            Verdict::Enough
        } else {
            spread.take(&history.sources[i], options)
        };
    }
    candidates
}

/// Whether the age of sources cannot be told.
#[must_use]
pub fn too_short_for_age(history: &History, options: &SelectOptions) -> bool {
    history.end_s() - history.start_s <= options.age_min_s
}

fn candidate(history: &History, source: &SourceHistory, options: &SelectOptions) -> Candidate {
    let hours = history.hourly_of(source);
    let first = history.first_hour();
    let known = hours.iter().flatten().count();
    let there = hours.iter().flatten().filter(|rate| **rate > 0.0).count();
    let presence = there as f64 / known.max(1) as f64;
    let mut candidate = Candidate {
        source: source.name.clone(),
        rate: 0.0,
        presence,
        variation: f64::INFINITY,
        score: 0.0,
        verdict: Verdict::Absent { presence },
    };
    let Some(profile) = Profile::of(first, &hours) else {
        return candidate;
    };
    candidate.rate = profile.mean;
    candidate.variation = profile.variation;
    let expected = profile.mean * history.interval_s as f64;
    candidate.score = presence / (1.0 / expected + profile.variation.powi(2));
    candidate.verdict = verdict(history, &hours, &candidate, options);
    candidate
}

fn verdict(
    history: &History,
    hours: &[Option<f64>],
    candidate: &Candidate,
    options: &SelectOptions,
) -> Verdict {
    let appeared = hours
        .iter()
        .position(|rate| rate.is_some_and(|rate| rate > 0.0));
    let age_s = (hours.len() - appeared.unwrap_or(hours.len())) as i64 * HOUR_S;
    if !too_short_for_age(history, options) && age_s < options.age_min_s {
        return Verdict::Young {
            days: age_s as f64 / 86_400.0,
        };
    }
    if candidate.presence < options.presence_min {
        return Verdict::Absent {
            presence: candidate.presence,
        };
    }
    let ratio = change(history.first_hour(), hours);
    if ratio > options.change_max || ratio < 1.0 / options.change_max {
        return Verdict::Changed { ratio };
    }
    if candidate.variation > options.variation_max {
        return Verdict::Unsteady {
            variation: candidate.variation,
        };
    }
    Verdict::Taken
}

/// The last day, and the last week, over what the hours before them give for then: whichever is farther from 1.
fn change(first: i64, hours: &[Option<f64>]) -> f64 {
    let mut farthest = 1.0f64;
    for last in [DAY_HOURS, 7 * DAY_HOURS] {
        if hours.len() < 2 * last {
            continue;
        }
        let split = hours.len() - last;
        let Some(before) = Profile::of(first, &hours[..split]) else {
            return f64::INFINITY;
        };
        let (mut sum, mut expected) = (0.0, 0.0);
        for (hour, rate) in (first + split as i64..).zip(&hours[split..]) {
            if let Some(rate) = rate {
                sum += rate;
                expected += before.rate(hour);
            }
        }
        let ratio = if expected > 0.0 { sum / expected } else { 1.0 };
        if ratio.max(1.0 / ratio) > farthest.max(1.0 / farthest) {
            farthest = ratio;
        }
    }
    farthest
}

/// How many were taken of each part of the Internet.
#[derive(Debug, Default)]
struct Spread {
    taken: usize,
    prefixes: BTreeMap<String, usize>,
    ases: BTreeMap<u32, usize>,
    countries: BTreeMap<[u8; 2], usize>,
}

impl Spread {
    fn take(&mut self, source: &SourceHistory, options: &SelectOptions) -> Verdict {
        let prefix = prefix(&source.name);
        let full = |count: Option<&usize>, most: usize| count.is_some_and(|count| *count >= most);
        if let Some(prefix) = &prefix
            && full(self.prefixes.get(prefix), options.per_prefix)
        {
            return Verdict::PrefixFull {
                prefix: prefix.clone(),
            };
        }
        if let Some(asn) = source.asn
            && full(self.ases.get(&asn), options.per_as)
        {
            return Verdict::AsFull { asn };
        }
        if let Some(country) = source.country
            && full(self.countries.get(&country), options.per_country)
        {
            return Verdict::CountryFull {
                country: country.iter().map(|byte| char::from(*byte)).collect(),
            };
        }
        self.taken += 1;
        if let Some(prefix) = prefix {
            *self.prefixes.entry(prefix).or_default() += 1;
        }
        if let Some(asn) = source.asn {
            *self.ases.entry(asn).or_default() += 1;
        }
        if let Some(country) = source.country {
            *self.countries.entry(country).or_default() += 1;
        }
        Verdict::Taken
    }
}

/// The /16 or /32 of an address or prefix; `None` of any other name.
fn prefix(name: &str) -> Option<String> {
    let address = name.split_once('/').map_or(name, |(address, _)| address);
    Some(match address.parse::<IpAddr>().ok()?.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, ..] = address.octets();
            format!("{a}.{b}.0.0/16")
        }
        IpAddr::V6(address) => {
            let [a, b, ..] = address.segments();
            format!("{a:x}:{b:x}::/32")
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::HistoryOptions;
    use super::*;

    const START_S: i64 = 1_764_547_200;
    const DAYS: i64 = 21;

    /// What a source sends in an hour, by its number.
    type Rate = fn(i64) -> i64;

    /// A history by hour of steady sources in prefixes of their own, and of one that is looked at.
    fn verdict_of(name: &str, rate: Rate, options: &SelectOptions) -> Verdict {
        verdicts(&[(name, rate)], options).remove(0)
    }

    fn verdicts(sources: &[(&str, Rate)], options: &SelectOptions) -> Vec<Verdict> {
        let mut text = String::from("time,source,site,count,asn,country\n");
        for hour in 0..DAYS * 24 {
            let time_s = START_S + hour * 3_600;
            for i in 0..30 {
                // A little up and down, so that nothing is exact.
                let count = 400 + i * 4 + (hour * 7 + i * 13) % 21 - 10;
                writeln!(
                    text,
                    "{time_s},{}.0.0.1,AMS,{count},{},NL",
                    20 + i,
                    64_500 + i
                )
                .unwrap();
            }
            for (name, rate) in sources {
                if rate(hour) > 0 {
                    writeln!(text, "{time_s},{name},AMS,{},7,SE", rate(hour)).unwrap();
                }
            }
        }
        let history = History::read(text.as_bytes(), HistoryOptions::default()).unwrap();
        let candidates = select(&history, options);
        assert_eq!(history.interval_s, 3_600);
        sources
            .iter()
            .map(|(name, _)| {
                let candidate = candidates
                    .iter()
                    .find(|candidate| candidate.source == *name);
                candidate.unwrap().verdict.clone()
            })
            .collect()
    }

    #[test]
    fn each_verdict_has_its_cause() {
        let check = |rate: Rate, expect: &str| {
            let verdict = verdict_of("192.0.2.1", rate, &SelectOptions::default());
            assert!(verdict.to_string().contains(expect), "{verdict} / {expect}");
        };
        check(|hour| 500 + hour % 7, "taken");
        // A day and a weekend of its own are no fault.
        check(
            |hour| {
                if hour % 168 >= 120 {
                    200
                } else if hour % 24 < 12 {
                    900
                } else {
                    300
                }
            },
            "taken",
        );
        check(
            |hour| if hour % 12 == 0 { 0 } else { 500 },
            "there in only 92%",
        );
        check(|hour| if hour < 20 { 0 } else { 500 }, "taken");
        check(
            |hour| if hour < (DAYS - 6) * 24 { 0 } else { 500 },
            "only 6.0 days before the end",
        );
        check(
            |hour| if hour < (DAYS - 8) * 24 { 0 } else { 500 },
            "there in only 38%",
        );
        // There all the time, but planted to be heavy in the last two days.
        check(
            |hour| if hour < (DAYS - 2) * 24 { 20 } else { 2_000 },
            "lately 100.0 times",
        );
        check(
            |hour| if hour < (DAYS - 7) * 24 { 100 } else { 400 },
            "lately 4.0 times",
        );
        check(
            |hour| if hour < (DAYS - 7) * 24 { 200 } else { 250 },
            "taken",
        );
        check(
            |hour| if hour < (DAYS - 1) * 24 { 500 } else { 1 },
            "lately 0.0 times",
        );
        check(
            |hour| if hour * 7 % 13 < 6 { 10 } else { 1_500 },
            "varies by",
        );
        check(|_| 40_000, "alone 7");
    }

    #[test]
    fn no_part_of_the_internet_is_much_of_all() {
        let steady: Rate = |hour| 450 + hour % 5;
        let same = ["198.51.100.1", "198.51.7.1", "198.51.8.0/24", "198.51.9.9"]
            .map(|name| (name, steady));
        let count = |options: &SelectOptions, expect: &str| {
            let verdicts = verdicts(&same, options);
            verdicts
                .iter()
                .filter(|verdict| verdict.to_string().contains(expect))
                .count()
        };
        let options = SelectOptions::default();
        assert_eq!(
            count(
                &SelectOptions {
                    per_prefix: 3,
                    ..options
                },
                "enough of 198.51.0.0/16"
            ),
            1
        );
        assert_eq!(
            count(
                &SelectOptions {
                    per_prefix: 4,
                    ..options
                },
                "taken"
            ),
            4
        );
        assert_eq!(
            count(
                &SelectOptions {
                    per_as: 2,
                    ..options
                },
                "enough of AS7"
            ),
            2
        );
        assert_eq!(
            count(
                &SelectOptions {
                    per_country: 1,
                    ..options
                },
                "enough of SE"
            ),
            3
        );
        assert_eq!(prefix("2001:db8:1::1").unwrap(), "2001:db8::/32");
        assert_eq!(prefix("::ffff:192.0.2.1").unwrap(), "192.0.0.0/16");
        assert_eq!(prefix("AS64500"), None);
    }

    #[test]
    fn those_that_tell_most_are_taken_first() {
        // Twice as much, but half of it noise: it tells less.
        let check = |count: usize| {
            let noisy: Rate = |hour| if hour * 11 % 17 < 8 { 800 } else { 1_200 };
            let weak: Rate = |_| 30;
            let options = SelectOptions {
                count,
                ..SelectOptions::default()
            };
            verdicts(&[("192.0.2.1", noisy), ("192.1.2.1", weak)], &options)
        };
        assert_eq!(check(30), [Verdict::Enough, Verdict::Enough]);
        assert_eq!(check(31), [Verdict::Enough, Verdict::Taken]);
        assert_eq!(check(32), [Verdict::Taken, Verdict::Taken]);
    }
}
