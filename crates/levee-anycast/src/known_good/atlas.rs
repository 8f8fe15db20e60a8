//! Known-good traffic of RIPE Atlas: thousands of probes that ask the service which site answers, on a schedule.
//!
//! What is expected is not what the schedule says but what the probes report: a probe that reports a lost query was there to send
//! it. The probes themselves are less sure than traffic, so
//!
//! - a probe that did not answer lately, or is new, is not expected;
//! - a probe that reports nothing, or could not send, or reaches nothing else either ([`Probes::control`]), is off-line, which is
//!   no loss of the service;
//! - a probe that is answered by another site than before has moved: it counts at its new site.

use std::collections::BTreeMap;

use levee_policy::reroute::{SiteId, Sites, estimate::KnownGood};

use super::judge::between_sources;

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
            cells: vec![Vec::new(); sites.len()],
            errors: vec![0.0; sites.len()],
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

/// What is expected of one probe at one site, and what came.
#[derive(Clone, Copy, Debug)]
struct Cell {
    observed: f64,
    expected: f64,
}

struct Judging {
    /// Share of answers of all probes before.
    average: f64,
    /// Queries of a probe in the intervals that are judged.
    scheduled: f64,
    cells: Vec<Vec<Cell>>,
    /// By site: variance of what is expected.
    errors: Vec<f64>,
    results: f64,
    on_line: f64,
    out: AtlasJudged,
}

impl Judging {
    fn probe(&mut self, probe: &Probe) {
        let results = f64::from(probe.answered + probe.lost);
        let share =
            (f64::from(probe.answered) + PRIOR_RESULTS * self.average) / (results + PRIOR_RESULTS);
        let Some((_, home)) = probe.home.filter(|_| share >= ANSWERED_MIN) else {
            self.out.unexpected += 1;
            return;
        };
        let mut by_site: BTreeMap<SiteId, f64> = BTreeMap::new();
        let (mut lost, mut last) = (0.0, None);
        for outcome in probe.now.values() {
            match outcome {
                Outcome::Site(site) => {
                    *by_site.entry(*site).or_default() += 1.0;
                    last = Some(*site);
                }
                Outcome::Lost => lost += 1.0,
                Outcome::Unnamed | Outcome::NotSent => {}
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
        self.results += answered + lost;
        self.on_line += 1.0;
        // What was lost was lost where the probe is now.
        let here = last.unwrap_or(home);
        *by_site.entry(here).or_default() += 0.0;
        for (site, observed) in by_site {
            let Some(cells) = self.cells.get_mut(site.index()) else {
                continue;
            };
            let sent = observed + if site == here { lost } else { 0.0 };
            cells.push(Cell {
                observed,
                expected: sent * share,
            });
            self.errors[site.index()] +=
                sent * sent * share * (1.0 - share) / (results + PRIOR_RESULTS);
        }
        if here != home {
            let mut moved = |site: SiteId, count: fn(&mut AtlasSite) -> &mut usize| {
                if let Some(site) = self.out.by_site.get_mut(site.index()) {
                    *count(site) += 1;
                }
            };
            moved(here, |site| &mut site.moved_in);
            moved(home, |site| &mut site.moved_out);
        }
    }

    fn finish(mut self) -> AtlasJudged {
        self.out.complete = if self.on_line > 0.0 {
            self.results / (self.on_line * self.scheduled)
        } else {
            0.0
        };
        for ((site, cells), error) in self
            .out
            .by_site
            .iter_mut()
            .zip(&self.cells)
            .zip(&self.errors)
        {
            let expected: f64 = cells.iter().map(|cell| cell.expected).sum();
            let observed: f64 = cells.iter().map(|cell| cell.observed).sum();
            site.probes = cells.len();
            // A probe sends several queries, which are often lost together.
            let between = between_sources(
                cells.iter().map(|cell| (cell.observed, cell.expected)),
                super::heavy::DISPERSION,
            );
            site.known_good = (expected > 0.0).then(|| KnownGood {
                observed,
                expected,
                expected_sd: (error + expected * expected * (COMMON_SD.powi(2) + between)).sqrt(),
            });
        }
        self.out
    }
}
