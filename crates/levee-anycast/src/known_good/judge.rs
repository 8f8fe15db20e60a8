//! An interval of an attack against the forecast: who is lost, who only moved, and who is faked.

use levee_policy::reroute::{SiteId, Sites, estimate::KnownGood};
use statrs::function::gamma::gamma_ur;

use super::{HeavyHitters, Now};

/// A source is at a site that it was not at before from so many events on. Below, it may be a stray.
const MOVED_EVENTS_MIN: f64 = 3.0;
/// A source has left a site if its silence there is less likely than this, under the loss of the others.
const SILENCE_MAX: f64 = 0.01;
/// Of a source that is at a site anyway, so much of it was there before.
const HOME_SHARE_MIN: f64 = 0.1;
/// A source that is farther above the others than so many robust standard deviations is not counted: it is faked, or at least
/// does not tell of the loss.
const FAKED_Z: f64 = 5.0;
/// With this share of what is expected faked, the rest is not to be trusted either.
const FAKED_SHARE_MAX: f64 = 0.25;
/// Robust estimates of fewer sources are worth nothing.
const ROBUST_MIN: usize = 5;
/// Halvings of an interval, to the precision of a double.
const HALVINGS: usize = 60;
/// The median of the absolute deviations of a normal variable, times this, is its standard deviation.
const MAD_TO_SD: f64 = 1.4826;

/// The heavy hitters at a site in the intervals that were judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JudgedSite {
    /// What of them can be used; `None`: nothing is expected here, or the site does not report.
    pub known_good: Option<KnownGood>,
    /// How many are expected here, with those that moved here.
    pub sources: usize,
    /// Of these, how many are silent.
    pub silent: usize,
    /// How many were left out because they are far above the others.
    pub faked: usize,
    /// Their share of what was expected.
    pub faked_share: f64,
    /// How many moved here from other sites.
    pub moved_in: usize,
    /// How many moved from here to other sites.
    pub moved_out: usize,
    /// How many were seen here although they are still where they were: faked, and not counted.
    pub astray: usize,
}

impl JudgedSite {
    /// Whether so many are faked that the others may be too: the offered load is then at least what is estimated.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.faked_share > FAKED_SHARE_MAX
    }

    /// What a person should know, of which site is said elsewhere.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut out = Vec::new();
        let mut say = |count: usize, what: &str| {
            if count > 0 {
                out.push(format!("{count} heavy hitters {what}"));
            }
        };
        say(self.moved_in, "moved here from other sites and count here");
        say(
            self.moved_out,
            "moved from here to other sites and are not counted as lost",
        );
        say(
            self.faked,
            "send far more than the others under the same loss, and were left out as faked",
        );
        say(
            self.astray,
            "are seen here and where they always were: what came here was left out as faked",
        );
        if self.sources > 0 && self.silent == self.sources {
            out.push(format!(
                "all {} heavy hitters are silent: only a lower bound can be given",
                self.sources
            ));
        }
        if self.is_suspect() {
            out.push(format!(
                "{:.0}% of the heavy hitters are faked, so others may be: the offered load is at least what is said",
                self.faked_share * 100.0
            ));
        }
        out
    }
}

/// What became of the heavy hitters.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The sites of the history, and then those that are new.
    pub sites: Sites,
    /// By site.
    pub by_site: Vec<JudgedSite>,
}

/// One source at one site.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    observed: f64,
    expected: f64,
    /// Relative deviation of its own rate.
    variation: f64,
}

impl Cell {
    /// The count and its mean under `alpha`, both over the variance of the count over its mean.
    fn scaled(&self, alpha: f64) -> (f64, f64) {
        let mean = alpha * self.expected;
        let over = 1.0 + self.variation * self.variation * mean;
        (self.observed / over, mean / over)
    }

    /// The probability of fewer events, and half that of so many, under `alpha`.
    fn middle_p(&self, alpha: f64) -> f64 {
        let (count, mean) = self.scaled(alpha);
        if mean <= 0.0 {
            return if count > 0.0 { 1.0 } else { 0.5 };
        }
        let below = if count > 0.0 {
            gamma_ur(count, mean)
        } else {
            0.0
        };
        f64::midpoint(below, gamma_ur(count + 1.0, mean))
    }

    /// How many standard deviations it is above `alpha`.
    fn deviate(&self, alpha: f64) -> f64 {
        let mean = alpha * self.expected;
        let variance = mean + (self.variation * mean).powi(2);
        // A single event at a site where nearly all is lost is no proof of anything.
        (self.observed - mean) / variance.max(1.0).sqrt()
    }
}

impl HeavyHitters {
    /// Compares what arrived with the forecast. `now` must have been read for [`HeavyHitters::names`] and
    /// [`HeavyHitters::sites`].
    #[must_use]
    pub fn judge(&self, now: &Now) -> Judged {
        let mut table = Table::of(self, now);
        table.move_sources();
        Judged {
            sites: now.sites.clone(),
            by_site: now
                .sites
                .ids()
                .map(|site| table.site(site, self.options.dispersion))
                .collect(),
        }
    }
}

/// All sources at all sites.
struct Table {
    /// By site, by source.
    cells: Vec<Vec<Cell>>,
    /// By site: relative deviation of the forecast; `None` if it does not report.
    deviations: Vec<Option<f64>>,
    judged: Vec<JudgedSite>,
}

impl Table {
    fn of(hitters: &HeavyHitters, now: &Now) -> Self {
        let sites = now.sites.len();
        let mut table = Self {
            cells: vec![vec![Cell::default(); hitters.members.len()]; sites],
            deviations: vec![None; sites],
            judged: vec![JudgedSite::default(); sites],
        };
        for site in now.sites.ids() {
            let cells = &mut table.cells[site.index()];
            for (cell, (member, counts)) in cells
                .iter_mut()
                .zip(hitters.members.iter().zip(&now.counts))
            {
                cell.variation = member.profile.variation;
                cell.observed = counts.get(&site.0).copied().unwrap_or(0.0);
            }
            let reported = &now.reported[site.index()];
            if reported.is_empty() {
                continue;
            }
            let (mut events, mut errors) = (0.0, 0.0);
            for &from_s in reported {
                let to_s = from_s + now.interval_s;
                let Some((expected, sd)) = hitters.expected(site, from_s, to_s) else {
                    break;
                };
                events += expected;
                errors += sd;
                let weights = hitters.weights(site, i64::midpoint(from_s, to_s));
                for (cell, weight) in cells.iter_mut().zip(weights) {
                    cell.expected += weight * expected;
                }
            }
            let within = hitters.by_site.get(site.index()).and_then(Option::as_ref);
            let within = within.map_or(0.0, |site| site.within_hour);
            let forecast = if events > 0.0 { errors / events } else { 0.0 };
            table.deviations[site.index()] =
                Some((forecast.powi(2) + within.powi(2) / reported.len() as f64).sqrt());
        }
        table
    }

    /// Moves what is expected of each source that is elsewhere now.
    fn move_sources(&mut self) {
        let alphas: Vec<f64> = self.cells.iter().map(|cells| robust_alpha(cells)).collect();
        for source in 0..self.cells.first().map_or(0, Vec::len) {
            let whole: f64 = self.cells.iter().map(|cells| cells[source].expected).sum();
            let home = (0..self.cells.len()).max_by(|a, b| {
                self.cells[*a][source]
                    .expected
                    .total_cmp(&self.cells[*b][source].expected)
            });
            let Some(home) = home else { continue };
            let strange = |site: &usize| {
                let cell = &self.cells[*site][source];
                *site != home
                    && cell.expected < HOME_SHARE_MIN * whole
                    && cell.observed >= MOVED_EVENTS_MIN.max(3.0 * cell.expected)
            };
            let new = (0..self.cells.len()).filter(strange).max_by(|a, b| {
                self.cells[*a][source]
                    .observed
                    .total_cmp(&self.cells[*b][source].observed)
            });
            let Some(new) = new else { continue };
            let at_home = self.cells[home][source];
            // Who moved is lost there as all others are. Where nobody was before, that is not known.
            let there = Cell {
                observed: self.cells[new][source].observed,
                ..at_home
            };
            let known_there = self.cells[new].iter().any(|cell| cell.expected > 0.0);
            let plausible = !known_there || there.deviate(alphas[new]) <= FAKED_Z;
            let silent = at_home.middle_p(alphas[home]) < SILENCE_MAX
                || alphas[home] * at_home.expected < MOVED_EVENTS_MIN
                    && at_home.observed < MOVED_EVENTS_MIN;
            if silent && plausible {
                self.cells[new][source].expected += at_home.expected;
                self.cells[home][source] = Cell::default();
                self.judged[home].moved_out += 1;
                self.judged[new].moved_in += 1;
                if self.deviations[new].is_some_and(|deviation| deviation == 0.0) {
                    // A site without a forecast takes that of where its sources came from.
                    self.deviations[new] = self.deviations[home];
                }
            } else {
                self.cells[new][source].observed = 0.0;
                self.judged[new].astray += 1;
            }
        }
    }

    fn site(&self, site: SiteId, dispersion: f64) -> JudgedSite {
        let mut judged = self.judged[site.index()].clone();
        let Some(deviation) = self.deviations[site.index()] else {
            return judged;
        };
        let cells: Vec<Cell> = self.cells[site.index()]
            .iter()
            .copied()
            .filter(|cell| cell.expected > 0.0)
            .collect();
        judged.sources = cells.len();
        judged.silent = cells.iter().filter(|cell| cell.observed == 0.0).count();
        let whole: f64 = cells.iter().map(|cell| cell.expected).sum();
        if whole <= 0.0 {
            return judged;
        }
        let (honest, faked) = without_faked(&cells);
        judged.faked = faked.len();
        judged.faked_share = faked.iter().map(|cell| cell.expected).sum::<f64>() / whole;
        let expected: f64 = honest.iter().map(|cell| cell.expected).sum();
        let observed: f64 = honest.iter().map(|cell| cell.observed).sum();
        let between = between_sources(
            honest.iter().map(|cell| (cell.observed, cell.expected)),
            dispersion,
        );
        judged.known_good = (expected > 0.0).then(|| KnownGood {
            observed,
            expected,
            expected_sd: expected * (deviation.powi(2) + between).sqrt(),
        });
        judged
    }
}

/// The share that arrives of most sources: the one under which as many are above their median as below.
///
/// Half of the sources would have to be faked to bring it far off; and it is right down to counts of 0 and 1, where a median of
/// ratios is 0.
fn robust_alpha(cells: &[Cell]) -> f64 {
    let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.expected > 0.0).collect();
    let balance = |alpha: f64| {
        cells
            .iter()
            .map(|cell| cell.middle_p(alpha) - 0.5)
            .sum::<f64>()
    };
    let mut low = 0.0;
    let mut high = cells
        .iter()
        .map(|cell| (cell.observed + 1.0) / cell.expected)
        .fold(0.0, f64::max);
    if cells.iter().all(|cell| cell.observed == 0.0) {
        return 0.0;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if balance(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Those that tell of the loss, and those that are far above them.
fn without_faked(cells: &[Cell]) -> (Vec<Cell>, Vec<Cell>) {
    let mut honest = cells.to_vec();
    let mut faked = Vec::new();
    loop {
        if honest.len() < ROBUST_MIN {
            return (honest, faked);
        }
        let alpha = robust_alpha(&honest);
        let mut off: Vec<f64> = honest
            .iter()
            .map(|cell| cell.deviate(alpha).abs())
            .collect();
        let scale = super::profile::median(&mut off).map_or(1.0, |mad| (MAD_TO_SD * mad).max(1.0));
        let (keep, out): (Vec<Cell>, Vec<Cell>) = honest
            .iter()
            .partition(|cell| cell.deviate(alpha) <= FAKED_Z * scale);
        if out.is_empty() {
            return (honest, faked);
        }
        faked.extend(out);
        honest = keep;
    }
}

/// The relative variance of a sum of counts (observed, expected) that is due to sources losing unlike shares, beyond `dispersion`
/// times what counting gives.
pub(super) fn between_sources(
    cells: impl Iterator<Item = (f64, f64)> + Clone,
    dispersion: f64,
) -> f64 {
    let (observed, expected, n) = cells
        .clone()
        .fold((0.0, 0.0, 0.0), |(o, e, n), (observed, expected)| {
            (o + observed, e + expected, n + 1.0)
        });
    if n < 2.0 || observed <= 0.0 || expected <= 0.0 {
        return 0.0;
    }
    let alpha = observed / expected;
    let squares: f64 = cells
        .map(|(observed, expected)| (observed - alpha * expected).powi(2))
        .sum();
    ((squares * n / (n - 1.0) - dispersion * observed) / (observed * observed)).max(0.0)
}
