//! Known-good traffic of RIPE Atlas: thousands of probes that ask the service which site answers, on a schedule.
//!
//! What is expected is not what the schedule says but what the probes report: a probe that reports a lost query was there to send
//! it. The probes themselves are less sure than traffic, so
//!
//! - a probe that did not answer lately, or is new, is not expected;
//! - a probe that reports nothing, or could not send, or reaches nothing else either ([`Probes::control`]), is off-line, which is
//!   no loss of the service;
//! - a probe that is answered by another site than before has moved: it counts at its new site.
//!
//! Where a probe is that gets no answer at all is not known. But what all probes that were at a site expect together is spread over
//! the sites that answer some of them, so that each site loses the same share of whoever is there: with `a(A, B)` answers by `B` to
//! probes from `A`, of whom `e(A)` are expected, the unknown `1 / alpha(B)` solve `sum over B of a(A, B) / alpha(B) = e(A)`. They
//! are found by the multiplicative iteration of Richardson (1972) and Lucy (1974), which keeps them positive.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use levee_policy::reroute::{
    SiteId, Sites,
    estimate::{DISPERSION, KnownGood},
};

use super::judge::between_sources;
use crate::map::{ProbeQuery, ProbeReply, ReadError, read_queries};

/// The most probes: RIPE Atlas had some 13,000 connected in 2025.
pub const PROBES_MAX: usize = 100_000;
/// The most results of a probe that are looked at for one estimate; the rest is a mistake in the file.
const RESULTS_MAX: usize = 1_024;
/// A probe that is answered less often than this on quiet days tells nothing.
const ANSWERED_MIN: f64 = 0.5;
/// How many results of the average probe a probe's own share of answers is mixed with.
const PRIOR_RESULTS: f64 = 2.0;
/// Relative deviation of what all probes together get on quiet days (a guess; their number shows it to be small).
const COMMON_SD: f64 = 0.01;
/// Rounds of the iteration. Without moves the first is exact; with a fifth of all probes moved, the error after n is 0.2^n or so.
const ITERATIONS: usize = 60;
/// Fewer results than this share of the schedule means that some are missing from the file.
const COMPLETE_MIN: f64 = 0.8;

/// A query of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtlasResult {
    /// The probe.
    pub probe: u32,
    /// When it was sent, in seconds of Unix.
    pub time_s: i64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This site answered.
    Site(SiteId),
    /// Something answered that does not say which site it is.
    Unnamed,
    /// No answer.
    Lost,
    /// The probe could not even send.
    NotSent,
}

/// How probes are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtlasOptions {
    /// Seconds between two queries of a probe: 240, as of RIPE's own measurements of the root servers (section 4.1 of the paper).
    pub schedule_s: i64,
    /// How long before the estimate a probe must have been answered: 6 hours.
    pub lately_s: i64,
}

impl Default for AtlasOptions {
    fn default() -> Self {
        Self {
            schedule_s: 240,
            lately_s: 6 * 3_600,
        }
    }
}

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AtlasError {
    /// The file is bad.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Too many probes.
    #[error(transparent)]
    TooMany(#[from] TooManyProbes),
}

/// Too many probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {PROBES_MAX} probes: are these results of RIPE Atlas?")]
pub struct TooManyProbes;

#[derive(Clone, Debug, Default)]
struct Probe {
    answered: u32,
    lost: u32,
    /// The last site before, and when.
    home: Option<(i64, SiteId)>,
    /// In the intervals that are judged: by time, so that a result that is there twice counts once.
    now: BTreeMap<i64, Outcome>,
    /// Of the control, in the same time.
    control_answered: u32,
    control_lost: u32,
}

/// The probes and what they got.
#[derive(Clone, Debug)]
pub struct Probes {
    options: AtlasOptions,
    from_s: i64,
    to_s: i64,
    probes: BTreeMap<u32, Probe>,
}

/// What the probes say of a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AtlasSite {
    /// `None`: no probe is expected here.
    pub known_good: Option<KnownGood>,
    /// How many probes are expected here.
    pub probes: usize,
    /// Of these, how many came from other sites.
    pub moved_in: usize,
    /// How many left for other sites.
    pub moved_out: usize,
}

/// What the probes say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AtlasJudged {
    /// By site.
    pub by_site: Vec<AtlasSite>,
    /// Probes that were answered lately and now report nothing, cannot send, or reach nothing.
    pub off_line: usize,
    /// Probes that were not answered lately, or less than half the time.
    pub unexpected: usize,
    /// Results over what the schedule says for the probes that are not off-line.
    pub complete: f64,
    /// No result is a failure, before or now: the file has only answers, so that what is missing was taken as lost.
    pub only_answers: bool,
}

impl AtlasJudged {
    /// What a person should know.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.off_line > 0 {
            out.push(format!(
                "{} Atlas probes are off-line and not counted as lost",
                self.off_line
            ));
        }
        if self.only_answers {
            out.push("the Atlas results hold no failures, only answers: a probe that is off-line looks like loss".to_owned());
        } else if self.complete < COMPLETE_MIN {
            out.push(format!(
                "only {:.0}% of the scheduled Atlas results are there: later ones may still come",
                self.complete * 100.0
            ));
        }
        out
    }
}

impl Probes {
    /// To be judged are the results from one time to another.
    #[must_use]
    pub fn new(from_s: i64, to_s: i64, options: AtlasOptions) -> Self {
        Self {
            options,
            from_s,
            to_s,
            probes: BTreeMap::new(),
        }
    }

    /// Takes a result; in any order. Those that are too old or too new have no effect.
    ///
    /// # Errors
    ///
    /// With too many probes.
    pub fn add(&mut self, result: AtlasResult) -> Result<(), TooManyProbes> {
        let (from_s, to_s, lately_s) = (self.from_s, self.to_s, self.options.lately_s);
        if !(from_s - lately_s..to_s).contains(&result.time_s) {
            return Ok(());
        }
        let probe = self.probe(result.probe)?;
        if result.time_s >= from_s {
            if probe.now.len() < RESULTS_MAX {
                probe.now.insert(result.time_s, result.outcome);
            }
            return Ok(());
        }
        match result.outcome {
            Outcome::Site(site) => {
                probe.answered += 1;
                if probe.home.is_none_or(|(time_s, _)| time_s <= result.time_s) {
                    probe.home = Some((result.time_s, site));
                }
            }
            Outcome::Lost => probe.lost += 1,
            Outcome::Unnamed | Outcome::NotSent => {}
        }
        Ok(())
    }

    /// Takes a result of another service, which is not attacked: a probe that reaches nothing is off-line.
    ///
    /// # Errors
    ///
    /// With too many probes.
    pub fn control(&mut self, result: AtlasResult) -> Result<(), TooManyProbes> {
        if (self.from_s..self.to_s).contains(&result.time_s) {
            let probe = self.probe(result.probe)?;
            match result.outcome {
                Outcome::Site(_) | Outcome::Unnamed => probe.control_answered += 1,
                Outcome::Lost | Outcome::NotSent => probe.control_lost += 1,
            }
        }
        Ok(())
    }

    /// Reads a file of results; `site` tells the site of a server by its name. Returns how many there were.
    ///
    /// # Errors
    ///
    /// If it cannot be read, something in it is malformed, or there are too many probes.
    pub fn read(
        &mut self,
        file: &Path,
        reader: impl Read,
        mut site: impl FnMut(&str) -> Option<SiteId>,
    ) -> Result<u64, AtlasError> {
        let mut fault = None;
        let count = read_queries(file, reader, |query| {
            if fault.is_none() {
                fault = self.add(outcome(query, &mut site)).err();
            }
        })?;
        fault.map_or(Ok(count), |fault| Err(fault.into()))
    }

    /// Reads a file of results of another service, as [`Probes::control`] takes them. Returns how many there were.
    ///
    /// # Errors
    ///
    /// As [`Probes::read`].
    pub fn read_control(&mut self, file: &Path, reader: impl Read) -> Result<u64, AtlasError> {
        let mut fault = None;
        let count = read_queries(file, reader, |query| {
            if fault.is_none() {
                fault = self.control(outcome(query, &mut |_| None)).err();
            }
        })?;
        fault.map_or(Ok(count), |fault| Err(fault.into()))
    }

    fn probe(&mut self, number: u32) -> Result<&mut Probe, TooManyProbes> {
        if self.probes.len() >= PROBES_MAX && !self.probes.contains_key(&number) {
            return Err(TooManyProbes);
        }
        Ok(self.probes.entry(number).or_default())
    }

    /// What they say, for these sites.
    #[must_use]
    pub fn judge(&self, sites: &Sites) -> AtlasJudged {
        let sum = |of: fn(&Probe) -> u32| {
            self.probes
                .values()
                .map(|probe| f64::from(of(probe)))
                .sum::<f64>()
        };
        let (answered, lost) = (sum(|probe| probe.answered), sum(|probe| probe.lost));
        let lost_now = self
            .probes
            .values()
            .flat_map(|probe| probe.now.values())
            .any(|outcome| *outcome == Outcome::Lost);
        let mut judging = Judging {
            average: if answered > 0.0 {
                answered / (answered + lost)
            } else {
                0.0
            },
            scheduled: (self.to_s - self.from_s) as f64 / self.options.schedule_s.max(1) as f64,
            homes: vec![Home::default(); sites.len()],
            results: 0.0,
            on_line: 0.0,
            out: AtlasJudged {
                by_site: vec![AtlasSite::default(); sites.len()],
                only_answers: lost == 0.0 && !lost_now,
                ..AtlasJudged::default()
            },
        };
        for probe in self.probes.values() {
            judging.probe(probe);
        }
        judging.finish()
    }
}

fn outcome(query: ProbeQuery, site: &mut impl FnMut(&str) -> Option<SiteId>) -> AtlasResult {
    AtlasResult {
        probe: query.probe,
        time_s: query.time_s,
        outcome: match query.reply {
            ProbeReply::Identity(name) => site(&name).map_or(Outcome::Unnamed, Outcome::Site),
            ProbeReply::Unnamed => Outcome::Unnamed,
            ProbeReply::Lost => Outcome::Lost,
            ProbeReply::NotSent => Outcome::NotSent,
        },
    }
}

/// The probes that were at one site.
#[derive(Clone, Debug, Default)]
struct Home {
    /// Answers that they would get without loss.
    expected: f64,
    /// The variance of that.
    variance: f64,
    /// By site: answers that they got.
    answered: BTreeMap<SiteId, f64>,
    /// By probe: answers that it got, and would have got.
    probes: Vec<(f64, f64)>,
}

struct Judging {
    /// Share of answers of all probes before.
    average: f64,
    /// Queries of a probe in the intervals that are judged.
    scheduled: f64,
    homes: Vec<Home>,
    results: f64,
    on_line: f64,
    out: AtlasJudged,
}

impl Judging {
    fn probe(&mut self, probe: &Probe) {
        let before = f64::from(probe.answered + probe.lost);
        let share =
            (f64::from(probe.answered) + PRIOR_RESULTS * self.average) / (before + PRIOR_RESULTS);
        let Some((_, home)) = probe
            .home
            .filter(|(_, home)| share >= ANSWERED_MIN && home.index() < self.homes.len())
        else {
            self.out.unexpected += 1;
            return;
        };
        let mut by_site: BTreeMap<SiteId, f64> = BTreeMap::new();
        let (mut lost, mut here) = (0.0, home);
        for outcome in probe.now.values() {
            match outcome {
                Outcome::Site(site) if site.index() < self.homes.len() => {
                    *by_site.entry(*site).or_default() += 1.0;
                    here = *site;
                }
                Outcome::Lost => lost += 1.0,
                Outcome::Site(_) | Outcome::Unnamed | Outcome::NotSent => {}
            }
        }
        let answered: f64 = by_site.values().sum();
        if self.out.only_answers {
            lost = (self.scheduled - answered).max(0.0);
        }
        let reaches_nothing =
            answered == 0.0 && probe.control_answered == 0 && probe.control_lost > 0;
        if answered + lost == 0.0 || reaches_nothing {
            self.out.off_line += 1;
            return;
        }
        let sent = answered + lost;
        self.results += sent;
        self.on_line += 1.0;
        let row = &mut self.homes[home.index()];
        row.expected += sent * share;
        row.variance += sent * sent * share * (1.0 - share) / (before + PRIOR_RESULTS);
        row.probes.push((answered, sent * share));
        for (site, answers) in by_site {
            *row.answered.entry(site).or_default() += answers;
        }
        self.out.by_site[here.index()].probes += 1;
        if here != home {
            self.out.by_site[here.index()].moved_in += 1;
            self.out.by_site[home.index()].moved_out += 1;
        }
    }

    fn finish(mut self) -> AtlasJudged {
        self.out.complete = if self.on_line > 0.0 {
            self.results / (self.on_line * self.scheduled)
        } else {
            0.0
        };
        let spread = spread(&self.homes);
        for (b, site) in self.out.by_site.iter_mut().enumerate() {
            let (mut observed, mut expected, mut variance) = (0.0, 0.0, 0.0);
            for (a, (home, shares)) in self.homes.iter().zip(&spread).enumerate() {
                for (&(to, share), &answers) in
                    shares.iter().zip(home.answered.values().chain([&0.0]))
                {
                    let moved = if a == b {
                        to.index() != b
                    } else {
                        to.index() == b
                    };
                    if moved && answers > 0.0 {
                        // The split between sites is no surer than the answers it is made of.
                        variance += (share * home.expected).powi(2) / answers;
                    }
                    if to.index() == b {
                        observed += answers;
                        expected += share * home.expected;
                        variance += share * share * home.variance;
                    }
                }
            }
            // A probe sends several queries, which are often lost together; and probes lose unlike shares.
            let probes = self.homes[b].probes.iter().copied();
            let between = between_sources(probes, DISPERSION) + COMMON_SD.powi(2);
            site.known_good = (expected > 0.0).then(|| KnownGood {
                observed,
                expected,
                expected_sd: (variance + expected * expected * between).sqrt(),
            });
        }
        self.out
    }
}

/// By home: which share of what is expected of its probes is at which site; in the order of the answers, or all at home if there
/// are none.
fn spread(homes: &[Home]) -> Vec<Vec<(SiteId, f64)>> {
    let mut inverse = vec![1.0; homes.len()];
    let split = |home: &Home, inverse: &[f64]| -> f64 {
        home.answered
            .iter()
            .map(|(site, answers)| answers * inverse[site.index()])
            .sum()
    };
    for _ in 0..ITERATIONS {
        let (mut wanted, mut answers) = (vec![0.0; homes.len()], vec![0.0; homes.len()]);
        for home in homes {
            let sum = split(home, &inverse);
            for (site, count) in &home.answered {
                wanted[site.index()] += count * home.expected / sum;
                answers[site.index()] += count;
            }
        }
        for ((inverse, wanted), answers) in inverse.iter_mut().zip(wanted).zip(answers) {
            if answers > 0.0 {
                *inverse *= wanted / answers;
            }
        }
    }
    homes
        .iter()
        .zip((0u8..).map(SiteId))
        .map(|(home, site)| {
            let sum = split(home, &inverse);
            if sum <= 0.0 {
                return vec![(site, 1.0)];
            }
            home.answered
                .iter()
                .map(|(site, answers)| (*site, answers * inverse[site.index()] / sum))
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM_S: i64 = 1_764_547_200;

    fn sites() -> Sites {
        Sites::new(["AMS", "BOS"]).unwrap()
    }

    /// Six hundred probes, two thirds at AMS, that were answered an hour long; then ten minutes that `now` says of probe and query.
    fn judged(now: impl Fn(u32, usize) -> Option<Outcome>) -> AtlasJudged {
        probes(now).judge(&sites())
    }

    fn probes(now: impl Fn(u32, usize) -> Option<Outcome>) -> Probes {
        let mut probes = Probes::new(FROM_S, FROM_S + 720, AtlasOptions::default());
        for probe in 0..600 {
            for query in 0..18 {
                let time_s = FROM_S - 3_600 + query as i64 * 240 + 10;
                let outcome = if query < 15 {
                    Some(Outcome::Site(home(probe)))
                } else {
                    now(probe, query - 15)
                };
                if let Some(outcome) = outcome {
                    let result = AtlasResult {
                        probe,
                        time_s,
                        outcome,
                    };
                    probes.add(result).unwrap();
                    // Twice the same counts once.
                    if query >= 15 {
                        probes.add(result).unwrap();
                    }
                }
            }
        }
        probes
    }

    fn home(probe: u32) -> SiteId {
        SiteId(u8::from(probe % 3 == 2))
    }

    #[track_caller]
    fn alpha(site: &AtlasSite, expect: f64, tolerance: f64) {
        let known_good = site.known_good.unwrap();
        let alpha = known_good.observed / known_good.expected;
        assert!(
            (alpha - expect).abs() <= tolerance,
            "{alpha} {expect}: {site:?}"
        );
    }

    /// A third of the queries of each probe is answered, by `site`.
    fn third(site: SiteId, query: usize) -> Option<Outcome> {
        Some(if query == 1 {
            Outcome::Site(site)
        } else {
            Outcome::Lost
        })
    }

    #[test]
    fn what_is_lost_was_reported_as_lost() {
        let judged = judged(|probe, query| third(home(probe), query));
        for (site, probes) in judged.by_site.iter().zip([400, 200]) {
            alpha(site, 1.0 / 3.0, 0.01);
            assert_eq!((site.probes, site.moved_in, site.moved_out), (probes, 0, 0));
            let known_good = site.known_good.unwrap();
            assert!((known_good.expected / (3.0 * probes as f64) - 1.0).abs() < 0.01);
        }
        assert_eq!(
            (judged.off_line, judged.unexpected, judged.only_answers),
            (0, 0, false)
        );
        assert!((judged.complete - 1.0).abs() < 1e-9);
        assert_eq!(judged.remarks(), Vec::<String>::new());
    }

    #[test]
    fn off_line_and_new_probes_are_not_expected() {
        // A tenth reports nothing, a tenth cannot send; and then there are new ones.
        let mut probes = probes(|probe, query| match probe % 10 {
            0 => None,
            1 => Some(Outcome::NotSent),
            _ => third(home(probe), query),
        });
        for probe in 1_000..1_050 {
            probes
                .add(AtlasResult {
                    probe,
                    time_s: FROM_S + 5,
                    outcome: Outcome::Lost,
                })
                .unwrap();
        }
        let judged = probes.judge(&sites());
        assert_eq!((judged.off_line, judged.unexpected), (120, 50));
        for site in &judged.by_site {
            alpha(site, 1.0 / 3.0, 0.01);
        }
        assert!(judged.remarks()[0].contains("120 Atlas probes are off-line"));
    }

    #[test]
    fn the_control_tells_off_line_from_lost() {
        // All are lost at AMS; half of those reach nothing else either.
        let mut probes = probes(|probe, _| {
            Some(if home(probe).0 == 0 {
                Outcome::Lost
            } else {
                Outcome::Site(home(probe))
            })
        });
        for probe in 0..600 {
            let outcome = if probe % 2 == 0 {
                Outcome::Unnamed
            } else {
                Outcome::Lost
            };
            probes
                .control(AtlasResult {
                    probe,
                    time_s: FROM_S + 100,
                    outcome,
                })
                .unwrap();
        }
        let judged = probes.judge(&sites());
        assert_eq!(judged.off_line, 200);
        let ams = judged.by_site[0].known_good.unwrap();
        assert!(ams.observed == 0.0 && (ams.expected / 600.0 - 1.0).abs() < 0.01);
        alpha(&judged.by_site[1], 1.0, 0.01);
    }

    #[test]
    fn who_moved_counts_where_it_is_though_most_of_it_is_lost() {
        // A quarter of AMS moved to BOS. A tenth of queries is answered at AMS, a fifth at BOS.
        let judged = judged(|probe, query| {
            let moved = home(probe).0 == 0 && probe % 4 == 0;
            let site = if moved { SiteId(1) } else { home(probe) };
            let every = if site.0 == 0 { 10 } else { 5 };
            // Which query of which probe is answered has nothing to do with where it is.
            let chance = (probe / 12) as usize + query * 7;
            Some(if chance.is_multiple_of(every) {
                Outcome::Site(site)
            } else {
                Outcome::Lost
            })
        });
        alpha(&judged.by_site[0], 0.1, 0.012);
        alpha(&judged.by_site[1], 0.2, 0.024);
        assert!(judged.by_site[1].moved_in > 20);
        assert_eq!(judged.by_site[1].moved_in, judged.by_site[0].moved_out);
    }

    #[test]
    fn answers_alone_are_held_against_the_schedule() {
        let judged = judged(|probe, query| {
            third(home(probe), query).filter(|outcome| *outcome != Outcome::Lost)
        });
        assert!(judged.only_answers);
        for site in &judged.by_site {
            alpha(site, 1.0 / 3.0, 0.01);
        }
    }

    #[test]
    fn results_that_are_missing_are_told() {
        let judged = judged(|probe, query| {
            (query == 1).then(|| {
                if probe % 2 == 0 {
                    Outcome::Lost
                } else {
                    Outcome::Site(home(probe))
                }
            })
        });
        assert!(
            judged
                .remarks()
                .iter()
                .any(|remark| remark.contains("only 33% of the scheduled"))
        );
        alpha(&judged.by_site[0], 0.5, 0.01);
    }

    #[test]
    fn files_in_the_forms_of_the_firmware() {
        let text = r#"
{"type":"dns","prb_id":1,"timestamp":1764547000,"result":{"answers":[{"TYPE":"TXT","NAME":"hostname.bind","RDATA":"ns1.ams.example"}]}}
{"type":"dns","prb_id":1,"timestamp":1764547300,"error":{"timeout":5000}}
{"type":"dns","prb_id":2,"timestamp":1764547000,"result":{"answers":[{"TYPE":"TXT","NAME":"id.server","RDATA":["ns1.bos.example"]}]}}
{"type":"dns","prb_id":2,"timestamp":1764547300,"error":{"getaddrinfo":"no address"}}
{"type":"dns","prb_id":3,"timestamp":1764547000,"resultset":[{"time":1764547001,"result":{"ANCOUNT":0}},{"time":1764547302,"error":{"timeout":1}}]}
{"type":"ping","prb_id":"x"}
"#;
        let site = |name: &str| match name {
            "ns1.ams.example" => Some(SiteId(0)),
            "ns1.bos.example" => Some(SiteId(1)),
            _ => None,
        };
        let mut probes = Probes::new(FROM_S, FROM_S + 720, AtlasOptions::default());
        let count = probes
            .read(Path::new("atlas.json"), text.as_bytes(), site)
            .unwrap();
        assert_eq!(count, 6);
        let judged = probes.judge(&sites());
        assert_eq!((judged.by_site[0].probes, judged.by_site[1].probes), (1, 0));
        assert_eq!((judged.off_line, judged.unexpected), (1, 1));
        let check = |text: &str, expect: &str| {
            let error = probes
                .clone()
                .read(Path::new("a.json"), text.as_bytes(), site)
                .unwrap_err();
            assert!(error.to_string().contains(expect), "{error}");
        };
        check("{\"type\":\"dns\"}", "a.json:1: prb_id");
        check(
            "\n{\"type\":\"dns\",\"prb_id\":-1,\"timestamp\":1}",
            "a.json:2: prb_id",
        );
        check(
            "{\"type\":\"dns\",\"prb_id\":1,\"timestamp\":\"noon\"}",
            "seconds of Unix",
        );
        check("{\"type\":", "a.json:1");
        let real = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared/data/atlas-dns-samples.jsonl");
        match std::fs::File::open(&real) {
            Ok(file) => assert!(probes.read(&real, file, site).unwrap() >= 45),
            Err(_) => eprintln!("skipped: {} is not here", real.display()),
        }
    }
}
