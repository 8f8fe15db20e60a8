//! The heavy hitters of a history, and what is to be expected of them.

use levee_policy::reroute::{SiteId, Sites, estimate::DISPERSION};
use serde::Serialize;

use super::profile::Profile;
use super::season::{Forecast, HOUR_S, Seasons};
use super::select::{Candidate, SelectOptions, Verdict, select, too_short_for_age};
use super::{History, SourceHistory};

/// Days at the end of the history that say which site a source is at, and how much intervals vary within an hour.
const LATELY_S: i64 = 86_400;
/// A site's sum is known in an interval if sources with this share of it are.
const KNOWN_MIN: f64 = 0.5;

/// How heavy hitters are taken and judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeavyOptions {
    /// Which sources are taken.
    pub select: SelectOptions,
    /// Variance of a count over its mean that the estimate will add by itself:
    /// [`DISPERSION`].
    pub dispersion: f64,
}

impl Default for HeavyOptions {
    fn default() -> Self {
        Self {
            select: SelectOptions::default(),
            dispersion: DISPERSION,
        }
    }
}

/// A heavy hitter.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) profile: Profile,
    /// By site: the share of its events, of the last day. They sum to 1.
    pub(super) shares: Vec<(u8, f64)>,
}

impl Member {
    /// Events per second at a site at an hour, by its own profile.
    fn rate(&self, site: u8, hour: i64) -> f64 {
        let share = self.shares.iter().find(|(at, _)| *at == site);
        share.map_or(0.0, |(_, share)| share * self.profile.rate(hour))
    }
}

/// What is to be expected at a site.
#[derive(Clone, Debug)]
pub(super) struct SiteForecast {
    pub(super) forecast: Forecast,
    /// Relative deviation of an interval from its hour, without what counting gives.
    pub(super) within_hour: f64,
}

/// Heavy hitters with their forecast by site.
#[derive(Clone, Debug)]
pub struct HeavyHitters {
    pub(super) members: Vec<Member>,
    pub(super) sites: Sites,
    pub(super) by_site: Vec<Option<SiteForecast>>,
    pub(super) options: HeavyOptions,
    candidates: Vec<Candidate>,
    age_unknown: bool,
}

/// A site's forecast, for people.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Which seasons are modelled.
    pub seasons: Seasons,
    /// Hours of the history that were not known.
    pub missing_hours: usize,
    /// Hours that were outliers.
    pub outlier_hours: usize,
    /// Relative error of a forecast of the last day of the history.
    pub backtest: Option<f64>,
}

impl HeavyHitters {
    /// Takes the heavy hitters of a history and forecasts each site until `until_s`.
    ///
    /// A site at which none of them is has no forecast.
    ///
    /// # Errors
    ///
    /// If `until_s` is more than 30 days after the history.
    pub fn fit(
        history: &History,
        until_s: i64,
        options: &HeavyOptions,
    ) -> Result<Self, super::season::SeasonError> {
        let candidates = select(history, &options.select);
        let taken: Vec<&SourceHistory> = history
            .sources
            .iter()
            .zip(&candidates)
            .filter(|(_, candidate)| candidate.verdict == Verdict::Taken)
            .map(|(source, _)| source)
            .collect();
        let members: Vec<Member> = taken
            .iter()
            .filter_map(|source| {
                let profile = Profile::of(history.first_hour(), &history.hourly_of(source))?;
                Some(Member {
                    name: source.name.clone(),
                    profile,
                    shares: shares(history, source),
                })
            })
            .collect();
        let mut hitters = Self {
            members,
            sites: history.sites.clone(),
            by_site: Vec::new(),
            options: *options,
            candidates,
            age_unknown: too_short_for_age(history, &options.select),
        };
        for site in history.sites.ids() {
            let forecast = hitters.site(history, &taken, site, until_s)?;
            hitters.by_site.push(forecast);
        }
        Ok(hitters)
    }

    /// What was decided of each candidate, heaviest first.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// The names of the heavy hitters.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.members
            .iter()
            .map(|member| member.name.as_str())
            .collect()
    }

    /// The sites of the history.
    #[must_use]
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Whether the history is too short to tell who was planted lately.
    #[must_use]
    pub fn age_unknown(&self) -> bool {
        self.age_unknown
    }

    /// How good the forecast of a site is; `None` where there is none.
    #[must_use]
    pub fn quality(&self, site: SiteId) -> Option<Quality> {
        let forecast = &self.by_site.get(site.index())?.as_ref()?.forecast;
        Some(Quality {
            seasons: forecast.seasons,
            missing_hours: forecast.missing,
            outlier_hours: forecast.outliers,
            backtest: forecast.backtest,
        })
    }

    /// Events of all heavy hitters that are to be expected at a site from one time to another, and the standard deviation of that.
    #[must_use]
    pub fn expected(&self, site: SiteId, from_s: i64, to_s: i64) -> Option<(f64, f64)> {
        let site = self.by_site.get(site.index())?.as_ref()?;
        Some(site.forecast.events(from_s, to_s))
    }

    /// Events of each heavy hitter at a site, in shares of what is expected of all at that time.
    pub(super) fn weights(&self, site: SiteId, at_s: i64) -> Vec<f64> {
        let hour = at_s.div_euclid(HOUR_S);
        let mut weights: Vec<f64> = self
            .members
            .iter()
            .map(|member| member.rate(site.0, hour))
            .collect();
        let whole: f64 = weights.iter().sum();
        if whole > 0.0 {
            weights.iter_mut().for_each(|weight| *weight /= whole);
        }
        weights
    }

    fn site(
        &self,
        history: &History,
        taken: &[&SourceHistory],
        site: SiteId,
        until_s: i64,
    ) -> Result<Option<SiteForecast>, super::season::SeasonError> {
        // Each source counts here by its share of now, wherever it was then: its moves of the past are no season.
        let here: Vec<(&SourceHistory, f64, f64)> = self
            .members
            .iter()
            .zip(taken)
            .filter_map(|(member, source)| {
                let (_, share) = member.shares.iter().find(|(at, _)| *at == site.0)?;
                Some((*source, *share, share * member.profile.mean))
            })
            .collect();
        let whole: f64 = here.iter().map(|(_, _, mean)| mean).sum();
        if whole <= 0.0 {
            return Ok(None);
        }
        let sum = |slot: usize| {
            let (mut events, mut known) = (0.0, 0.0);
            for (source, share, mean) in &here {
                if let Some(sent) = history.sent(source, slot) {
                    events += share * sent;
                    known += mean;
                }
            }
            (known >= KNOWN_MIN * whole).then_some(events * whole / known)
        };
        let by_slot: Vec<Option<f64>> = (0..history.slots).map(sum).collect();
        let hourly = history.hourly(|slot| by_slot[slot]);
        // The last hour may have only begun.
        let whole_hours = (history.end_s().div_euclid(HOUR_S) - history.first_hour()) as usize;
        let hourly = if whole_hours > 0 {
            &hourly[..whole_hours]
        } else {
            &hourly[..]
        };
        let Some(last) = hourly.iter().rposition(Option::is_some) else {
            return Ok(None);
        };
        let end_hour = history.first_hour() + last as i64 + 1;
        let horizon = until_s.div_euclid(HOUR_S) + 2 - end_hour;
        let forecast = Forecast::fit(
            history.first_hour(),
            hourly,
            usize::try_from(horizon.max(1)).unwrap_or(usize::MAX),
        )?;
        Ok(Some(SiteForecast {
            within_hour: within_hour(history, &by_slot),
            forecast,
        }))
    }
}

/// By site: the share of a source's events, of the last day; of all its events, if it was not there in that.
fn shares(history: &History, source: &SourceHistory) -> Vec<(u8, f64)> {
    let last = (LATELY_S / history.interval_s) as usize;
    for from in [history.slots.saturating_sub(last), 0] {
        let sums: Vec<(u8, f64)> = source
            .counts
            .iter()
            .map(|(site, counts)| {
                (
                    *site,
                    counts[from..].iter().map(|count| f64::from(*count)).sum(),
                )
            })
            .filter(|(_, sum)| *sum > 0.0)
            .collect();
        let whole: f64 = sums.iter().map(|(_, sum)| sum).sum();
        if whole > 0.0 {
            return sums
                .into_iter()
                .map(|(site, sum)| (site, sum / whole))
                .collect();
        }
    }
    Vec::new()
}

/// The relative deviation of intervals from the mean of their hour, without what counting gives, over the last week.
fn within_hour(history: &History, by_slot: &[Option<f64>]) -> f64 {
    let per_hour = (HOUR_S / history.interval_s) as usize;
    if per_hour < 2 {
        return 0.0;
    }
    let from = by_slot.len().saturating_sub(7 * 24 * per_hour);
    let (mut squares, mut hours) = (0.0, 0.0);
    for hour in by_slot[from..].chunks_exact(per_hour) {
        let known: Option<Vec<f64>> = hour.iter().copied().collect();
        let Some(known) = known else { continue };
        let mean = known.iter().sum::<f64>() / per_hour as f64;
        if mean > 0.0 {
            let variance = known
                .iter()
                .map(|count| (count - mean).powi(2))
                .sum::<f64>()
                / (per_hour as f64 - 1.0);
            squares += variance / (mean * mean) - 1.0 / mean;
            hours += 1.0;
        }
    }
    if hours > 0.0 {
        (squares / hours).max(0.0).sqrt()
    } else {
        0.0
    }
}
