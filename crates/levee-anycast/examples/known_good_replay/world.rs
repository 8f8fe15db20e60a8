//! Traffic that is made up but has what real traffic has: heavy hitters of unlike size, with days and weeks of their own, noise that
//! lasts for hours, and sources that are nothing of the kind. It is written as files, and goes in through the readers.
#![expect(
    clippy::unwrap_used,
    reason = "an experiment stops at what it did not expect"
)]

use std::fmt::Write as _;

use levee_anycast::known_good::atlas::{AtlasOptions, AtlasResult, Outcome, Probes};
use levee_anycast::known_good::{
    Estimate, HeavyHitters, HeavyOptions, History, HistoryOptions, Now, estimate,
};
use levee_policy::reroute::{SiteId, estimate::Estimator};
use rand_core::{Rng as _, SeedableRng as _};
use rand_distr::{Distribution as _, Gamma, Poisson, StandardNormal};
use rand_pcg::Pcg64;

/// A Monday.
pub(crate) const START_S: i64 = 1_764_547_200;
pub(crate) const SITES: [&str; 3] = ["AMS", "BOS", "CNF"];
/// What is sent to each site during the attack, in queries per second.
pub(crate) const OFFERED: [f64; 3] = [900_000.0, 150_000.0, 400_000.0];
/// Sources like heavy hitters, of which 100 are taken.
const STEADY: usize = 120;
/// Sources that send as much but are not there for long.
const FLEETING: usize = 30;
const PROBES: u32 = 10_000;

/// What goes wrong besides the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Trouble {
    /// Nothing.
    Nothing,
    /// This share of heavy hitters and probes reaches another site than before.
    Moved(f64),
    /// This share of the intervals of the history is missing, and two whole days.
    Missing(f64),
    /// This share of the heavy hitters is faked at ten times its rate, from somewhere.
    Faked(f64),
    /// Each source and probe loses its own share, from half to one and a half of the mean.
    Uneven,
    /// This share of the probes is off-line, and of the heavy hitters is gone for good.
    Gone(f64),
}

/// How large the world is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) weeks: i64,
    pub(crate) history_interval_s: i64,
    pub(crate) now_interval_s: i64,
    /// Known-good queries a minute, of the heavy hitters that are taken, and as many of the probes.
    pub(crate) per_minute: f64,
    /// How long the probes were asked before.
    pub(crate) probes_before_s: i64,
}

struct Source {
    name: String,
    /// Events per second.
    rate: f64,
    site: usize,
    /// Hours.
    phase: f64,
    day: f64,
    weekend: f64,
    /// Deviation that lasts for hours, as it stands.
    drift: f64,
}

impl Source {
    fn mean(&self, time_s: i64) -> f64 {
        let hour = (time_s - START_S) as f64 / 3600.0;
        let x = std::f64::consts::TAU * (hour + self.phase) / 24.0;
        let day = 1.0 + self.day * (x.sin() + 0.25 * (2.0 * x).sin());
        // Six hours from the week to the weekend, and back.
        let into = hour.rem_euclid(168.0) - 120.0;
        let weekend = (into / 6.0).clamp(0.0, 1.0) * ((48.0 - into) / 6.0).clamp(0.0, 1.0);
        self.rate * day.max(0.05) * (1.0 - weekend * (1.0 - self.weekend))
    }
}

/// A history and who made it.
pub(crate) struct World {
    sources: Vec<Source>,
    size: Size,
    rng: Pcg64,
    end_s: i64,
}

impl World {
    pub(crate) fn new(size: Size, seed: u64) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut uniform = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut sources: Vec<Source> = (0..STEADY)
            .map(|i| Source {
                name: format!("{}.{}.0.{}", 11 + i % 100, i / 100, 1 + i % 200),
                // Sizes by a power law, whose largest is 12 times the smallest.
                rate: 1.0 / (1.0 + i as f64 / 10.0),
                site: [0, 0, 0, 1, 2, 2][i % 6],
                phase: 4.0 * uniform() + [0.0, 6.0, 10.0][i % 3],
                day: 0.2 + 0.4 * uniform(),
                weekend: 0.6 + 0.4 * uniform(),
                drift: 0.0,
            })
            .collect();
        let heaviest: f64 = sources.iter().take(100).map(|source| source.rate).sum();
        for source in &mut sources {
            source.rate *= size.per_minute / 60.0 / heaviest;
        }
        Self {
            sources,
            size,
            rng,
            end_s: START_S + size.weeks * 7 * 86_400,
        }
    }

    fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn poisson(&mut self, mean: f64) -> u32 {
        if mean <= 0.0 {
            return 0;
        }
        Poisson::new(mean).unwrap().sample(&mut self.rng) as u32
    }

    /// An interval's events of a source: its mean, a deviation of hours (5%), one of the interval (10%), and counting.
    fn count(&mut self, source: usize, from_s: i64, interval_s: i64, arrives: f64) -> u32 {
        let mean = self.sources[source].mean(from_s + interval_s / 2) * interval_s as f64;
        let burst: f64 = Gamma::new(100.0, 0.01).unwrap().sample(&mut self.rng);
        let drift = self.sources[source].drift;
        self.poisson(mean * drift.exp() * burst * arrives)
    }

    /// One step of the deviations that last for hours.
    fn drift(&mut self) {
        let keep = (-self.size.history_interval_s as f64 / 7_200.0).exp();
        for i in 0..self.sources.len() {
            let z: f64 = StandardNormal.sample(&mut self.rng);
            let source = &mut self.sources[i];
            source.drift = keep * source.drift + 0.05 * (1.0 - keep * keep).sqrt() * z;
        }
    }

    /// The history as a file.
    pub(crate) fn history(&mut self, trouble: Trouble) -> String {
        let mut out = String::from("time,source,site,count\n");
        let interval_s = self.size.history_interval_s;
        let mut time_s = START_S;
        while time_s < self.end_s {
            self.drift();
            let day = (time_s - START_S) / 86_400;
            let missing = matches!(trouble, Trouble::Missing(share)
                if self.uniform() < share || day == 4 || day == 9);
            for i in 0..self.sources.len() {
                let count = self.count(i, time_s, interval_s, 1.0);
                if !missing && count > 0 {
                    let source = &self.sources[i];
                    writeln!(
                        out,
                        "{time_s},{},{},{count}",
                        source.name, SITES[source.site]
                    )
                    .unwrap();
                }
            }
            for i in 0..FLEETING {
                // There for a day in five.
                if !missing && (day as usize + i).is_multiple_of(5) {
                    let count =
                        self.poisson(self.size.per_minute / 60.0 / 100.0 * interval_s as f64);
                    writeln!(out, "{time_s},203.{i}.0.9,AMS,{count}").unwrap();
                }
            }
            time_s += interval_s;
        }
        out
    }

    /// One interval some hours later, as a file.
    pub(crate) fn now(&mut self, hours: i64, loss: f64, trouble: Trouble) -> String {
        let from_s = self.end_s + hours * 3_600;
        let mut out = String::new();
        let arrives = 1.0 - loss;
        self.drift();
        for i in 0..self.sources.len() {
            let home = self.sources[i].site;
            let mut site = home;
            let mut own = arrives;
            match trouble {
                Trouble::Moved(share) if self.uniform() < share => site = (home + 1) % SITES.len(),
                Trouble::Uneven => own = uneven(own, self.uniform()),
                Trouble::Gone(share) if self.uniform() < share => own = 0.0,
                _ => {}
            }
            let count = self.count(i, from_s, self.size.now_interval_s, own);
            let name = self.sources[i].name.clone();
            writeln!(out, "{from_s},{name},{},{count}", SITES[site]).unwrap();
            if let Trouble::Faked(share) = trouble
                && self.uniform() < share
            {
                // From wherever the attacker is, which may be the right site.
                let site = (self.rng.next_u32() % 3) as usize;
                let mean = 10.0 * self.sources[i].mean(from_s) * self.size.now_interval_s as f64;
                let count = self.poisson(mean * arrives);
                writeln!(out, "{},{name},{},{count}", from_s + 1, SITES[site]).unwrap();
            }
        }
        for (site, offered) in SITES.iter().zip(OFFERED) {
            let count = offered * arrives * self.size.now_interval_s as f64;
            writeln!(out, "{from_s},*,{site},{count:.0}").unwrap();
        }
        out
    }

    /// The probes before and in that interval.
    pub(crate) fn probes(&mut self, hours: i64, loss: f64, trouble: Trouble) -> Probes {
        let from_s = self.end_s + hours * 3_600;
        let to_s = from_s + self.size.now_interval_s;
        let options = AtlasOptions {
            lately_s: self.size.probes_before_s,
            ..AtlasOptions::default()
        };
        let mut out = Probes::new(from_s, to_s, options);
        let count = (PROBES as f64 * self.size.per_minute / 2_500.0) as u32;
        for probe in 0..count {
            let home = [0, 0, 0, 1, 2, 2][probe as usize % 6];
            let answered = if self.uniform() < 0.05 { 0.7 } else { 0.99 };
            let (mut site, mut own) = (home, 1.0 - loss);
            let mut gone = false;
            match trouble {
                Trouble::Moved(share) if self.uniform() < share => site = (home + 1) % 3,
                Trouble::Uneven => own = uneven(own, self.uniform()),
                Trouble::Gone(share) => gone = self.uniform() < share,
                _ => {}
            }
            let mut time_s = from_s - options.lately_s + (self.uniform() * 240.0) as i64;
            while time_s < to_s {
                let before = time_s < from_s;
                let (site, arrives) = if before {
                    (home, answered)
                } else {
                    (site, answered * own)
                };
                let outcome = if self.uniform() < arrives {
                    Outcome::Site(SiteId(site as u8))
                } else {
                    Outcome::Lost
                };
                if before || !gone {
                    out.add(AtlasResult {
                        probe,
                        time_s,
                        outcome,
                    })
                    .unwrap();
                }
                time_s += 240;
            }
        }
        out
    }

    /// Reads a history and takes its heavy hitters.
    pub(crate) fn learn(&mut self, trouble: Trouble) -> HeavyHitters {
        let history = self.history(trouble);
        let options = HistoryOptions {
            interval_s: Some(self.size.history_interval_s as u32),
            until_s: None,
        };
        let history = History::read(history.as_bytes(), options).unwrap();
        HeavyHitters::fit(&history, self.end_s + 86_400, &HeavyOptions::default()).unwrap()
    }

    /// Estimates by heavy hitters, by Atlas, and by both.
    pub(crate) fn estimates(
        &mut self,
        hitters: &HeavyHitters,
        hours: i64,
        loss: f64,
        trouble: Trouble,
    ) -> [Estimate; 3] {
        let file = self.now(hours, loss, trouble);
        let now = Now::read(
            file.as_bytes(),
            self.size.now_interval_s,
            hitters.sites(),
            &hitters.names(),
        )
        .unwrap();
        let heavy = hitters.judge(&now);
        let atlas = self.probes(hours, loss, trouble).judge(&now.sites);
        let estimator = Estimator::default();
        [
            estimate(&now, Some(&heavy), None, &estimator),
            estimate(&now, None, Some(&atlas), &estimator),
            estimate(&now, Some(&heavy), Some(&atlas), &estimator),
        ]
    }
}

/// The share that arrives of one source, of which the mean over uniform `u` is `arrives`.
fn uneven(arrives: f64, u: f64) -> f64 {
    if arrives < 0.5 {
        arrives * (0.5 + u)
    } else {
        1.0 - (1.0 - arrives) * (0.5 + u)
    }
}

/// How far off the estimates of many intervals were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Score {
    /// Of all sites together: relative errors of the likely value, unless there is only a bound.
    pub(crate) errors: Vec<f64>,
    /// By site and interval: how many intervals held the truth, and how many there were.
    pub(crate) held: usize,
    pub(crate) sites: usize,
    /// How many had no upper bound.
    pub(crate) open: usize,
}

impl Score {
    pub(crate) fn add(&mut self, estimate: &Estimate) {
        let truth: f64 = OFFERED.iter().sum();
        for (site, truth) in estimate.sites.iter().zip(OFFERED) {
            let offered = site.offered.unwrap();
            self.sites += 1;
            // Counts are whole, so the observed load is rounded.
            self.held +=
                usize::from(offered.low <= truth * 1.000_001 && truth <= offered.high * 1.000_001);
            self.open += usize::from(offered.high.is_infinite());
        }
        if estimate.offered.high.is_finite() {
            self.errors.push(estimate.offered.likely / truth - 1.0);
        }
    }

    /// The error that a share of the estimates stays below.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let mut errors: Vec<f64> = self.errors.iter().map(|error| error.abs()).collect();
        errors.sort_unstable_by(f64::total_cmp);
        let last = errors.len().checked_sub(1)?;
        Some(errors[(last as f64 * share).round() as usize])
    }

    pub(crate) fn coverage(&self) -> f64 {
        self.held as f64 / self.sites as f64
    }
}
