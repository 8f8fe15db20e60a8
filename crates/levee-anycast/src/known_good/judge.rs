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
                out.push(format!("heavy hitters {what}: {count}"));
            }
        };
        say(
            self.moved_in,
            "that moved here from other sites, and count here",
        );
        say(
            self.moved_out,
            "that moved from here to other sites, and are not counted as lost",
        );
        say(
            self.faked,
            "left out as faked, as they send far more than the others under the same loss",
        );
        say(
            self.astray,
            "seen here and where they always were, of which what came here was left out as faked",
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
        // Where nobody was before, it is not known.
        let alphas: Vec<Option<f64>> = self
            .cells
            .iter()
            .map(|cells| {
                let anybody = cells.iter().any(|cell| cell.expected > 0.0);
                anybody.then(|| robust_alpha(cells))
            })
            .collect();
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
            // Who moved is lost there as all others are.
            let there = Cell {
                observed: self.cells[new][source].observed,
                ..at_home
            };
            let plausible = alphas[new].is_none_or(|alpha| there.deviate(alpha) <= FAKED_Z);
            let alpha = alphas[home].unwrap_or(0.0);
            let silent = at_home.middle_p(alpha) < SILENCE_MAX
                || alpha * at_home.expected < MOVED_EVENTS_MIN
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

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::{HeavyOptions, History, HistoryOptions};
    use super::*;

    const START_S: i64 = 1_764_547_200;
    const END_S: i64 = START_S + 14 * 86_400;
    /// Of each source, in a second; so that 600 are expected in ten minutes.
    const PER_S: u32 = 1;

    fn name(i: usize) -> String {
        format!("{}.0.0.1", 20 + i)
    }

    /// Forty sources, of which the even ones are at AMS and the odd ones at BOS, for two weeks.
    fn hitters() -> HeavyHitters {
        let mut text = String::new();
        for hour in 0..14 * 24 {
            for i in 0..40 {
                let count = 3_600 * PER_S + ((hour * 31 + i * 17) % 121) as u32 - 60;
                let site = ["AMS", "BOS"][i % 2];
                writeln!(
                    text,
                    "{},{},{site},{count}",
                    START_S + hour as i64 * 3_600,
                    name(i)
                )
                .unwrap();
            }
        }
        let history = History::read(text.as_bytes(), HistoryOptions::default()).unwrap();
        let hitters = HeavyHitters::fit(&history, END_S + 7_200, &HeavyOptions::default()).unwrap();
        assert_eq!(hitters.names().len(), 40);
        hitters
    }

    /// Judges ten minutes in which each source sends as `sent` says: site and count, any number of times.
    fn judge(hitters: &HeavyHitters, sent: impl Fn(usize) -> Vec<(&'static str, u32)>) -> Judged {
        let mut text = format!("{END_S},*,AMS,1000000\n{END_S},*,BOS,1000000\n");
        for i in 0..40 {
            for (site, count) in sent(i) {
                writeln!(text, "{END_S},{},{site},{count}", name(i)).unwrap();
            }
        }
        let now = Now::read(text.as_bytes(), 600, hitters.sites(), &hitters.names()).unwrap();
        hitters.judge(&now)
    }

    fn home(i: usize) -> &'static str {
        ["AMS", "BOS"][i % 2]
    }

    #[track_caller]
    fn alpha(site: &JudgedSite, expect: f64, tolerance: f64) {
        let known_good = site.known_good.unwrap();
        let alpha = known_good.observed / known_good.expected;
        assert!(
            (alpha - expect).abs() <= tolerance,
            "{alpha} {expect}: {site:?}"
        );
    }

    #[test]
    fn loss_is_seen_by_site() {
        let hitters = hitters();
        for (ams, bos) in [(600, 600), (60, 600), (6, 300), (1, 0)] {
            let judged = judge(&hitters, |i| {
                vec![(home(i), if i % 2 == 0 { ams } else { bos })]
            });
            let [a, b] = &judged.by_site[..] else {
                panic!()
            };
            alpha(a, f64::from(ams) / 600.0, 0.01);
            alpha(b, f64::from(bos) / 600.0, 0.01);
            assert_eq!((a.sources, b.sources, a.faked, b.faked), (20, 20, 0, 0));
            assert_eq!(b.silent, if bos == 0 { 20 } else { 0 });
            assert_eq!(
                b.remarks().iter().any(|remark| remark.contains("silent")),
                bos == 0
            );
        }
    }

    #[test]
    fn who_moved_is_not_lost() {
        let hitters = hitters();
        // A tenth arrives at AMS and all at BOS; four of AMS reach BOS now.
        let moved = |i: usize| i.is_multiple_of(2) && i < 8;
        let judged = judge(&hitters, |i| match (moved(i), i % 2) {
            (true, _) => vec![("BOS", 600)],
            (_, 0) => vec![("AMS", 60)],
            _ => vec![("BOS", 600)],
        });
        let [a, b] = &judged.by_site[..] else {
            panic!()
        };
        assert_eq!(
            (a.moved_out, a.moved_in, b.moved_out, b.moved_in),
            (4, 0, 0, 4)
        );
        assert_eq!((a.sources, b.sources), (16, 24));
        alpha(a, 0.1, 0.005);
        alpha(b, 1.0, 0.01);
        // To a site that the history does not have.
        let judged = judge(&hitters, |i| {
            vec![(if moved(i) { "CNF" } else { home(i) }, 600)]
        });
        assert_eq!(
            judged.sites.names().collect::<Vec<_>>(),
            ["AMS", "BOS", "CNF"]
        );
        assert_eq!(judged.by_site[2].moved_in, 4);
        alpha(&judged.by_site[2], 1.0, 0.01);
        assert!(judged.by_site[2].known_good.unwrap().expected_sd > 0.0);
        // A stray packet is no move.
        let judged = judge(&hitters, |i| {
            vec![(home(i), 600), ("CNF", u32::from(moved(i)) * 2)]
        });
        assert_eq!(judged.by_site[2], JudgedSite::default());
    }

    #[test]
    fn who_is_faked_is_left_out() {
        let hitters = hitters();
        // A tenth arrives; of five sources of AMS somebody sends ten times as much under the same loss.
        let faked = |i: usize| i.is_multiple_of(2) && i < 10;
        let judged = judge(&hitters, |i| {
            vec![(home(i), if faked(i) { 660 } else { 60 })]
        });
        let [a, b] = &judged.by_site[..] else {
            panic!()
        };
        assert_eq!((a.faked, b.faked, a.is_suspect()), (5, 0, false));
        alpha(a, 0.1, 0.005);
        // From elsewhere: what is still at its site has not moved.
        let judged = judge(&hitters, |i| {
            let mut sent = vec![(home(i), 60)];
            if faked(i) {
                sent.push(("BOS", 600));
            }
            sent
        });
        let [a, b] = &judged.by_site[..] else {
            panic!()
        };
        assert_eq!((a.moved_out, b.astray, b.faked), (0, 5, 0));
        alpha(a, 0.1, 0.005);
        alpha(b, 0.1, 0.005);
        // A third: the others are not to be trusted either.
        let many = |i: usize| i.is_multiple_of(2) && i < 14;
        let judged = judge(&hitters, |i| {
            vec![(home(i), if many(i) { 6_000 } else { 60 })]
        });
        assert!(judged.by_site[0].is_suspect());
        assert!(
            judged.by_site[0]
                .remarks()
                .iter()
                .any(|remark| remark.contains("at least"))
        );
        alpha(&judged.by_site[0], 0.1, 0.005);
    }

    #[test]
    fn unlike_losses_make_the_estimate_less_sure() {
        let hitters = hitters();
        let sd = |uneven: bool| {
            let judged = judge(&hitters, |i| {
                vec![(home(i), if uneven { 30 + 3 * i as u32 } else { 90 })]
            });
            let known_good = judged.by_site[0].known_good.unwrap();
            known_good.expected_sd / known_good.expected
        };
        // Twenty sources at 30 to 144: the standard error of their mean is 35 / sqrt(20), of 87.
        let expect = ((35.5f64 / 20f64.sqrt() / 87.0).powi(2) - 2.0 / (20.0 * 87.0)).sqrt();
        assert!(
            (sd(true) / expect - 1.0).abs() < 0.1,
            "{} {expect}",
            sd(true)
        );
        assert!(sd(false) < 0.03, "{}", sd(false));
    }

    #[test]
    fn a_site_that_does_not_report_has_nothing_to_say() {
        let hitters = hitters();
        let text = format!("{END_S},{},AMS,600\n", name(0));
        let now = Now::read(text.as_bytes(), 600, hitters.sites(), &hitters.names()).unwrap();
        let judged = hitters.judge(&now);
        assert_eq!(judged.by_site[1].known_good, None);
        assert_eq!(judged.by_site[0].silent, 19);
    }

    #[test]
    fn the_robust_share_is_right_for_few_events_and_many_fakes() {
        let cells = |counts: &[f64], expected: f64| -> Vec<Cell> {
            counts
                .iter()
                .map(|count| Cell {
                    observed: *count,
                    expected,
                    variation: 0.0,
                })
                .collect()
        };
        let check = |counts: &[f64], expected: f64, low: f64, high: f64| {
            let alpha = robust_alpha(&cells(counts, expected));
            assert!(low <= alpha && alpha <= high, "{alpha}");
        };
        check(&[50.0; 9], 100.0, 0.495, 0.51);
        // One in ten sees one event: a tenth of an event each.
        let mut few = [0.0; 100];
        few[..10].fill(1.0);
        check(&few, 1.0, 0.09, 0.12);
        check(&[0.0; 5], 10.0, 0.0, 0.0);
        // Two of five a thousand times too high: still within the others' own spread.
        check(&[50.0, 52.0, 48.0, 5e4, 5e4], 100.0, 0.48, 0.60);
    }
}
