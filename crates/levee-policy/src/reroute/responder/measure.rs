//! What a measure tells of each site.

use super::{Measure, Responder, SiteMeasure, Step};
use crate::{
    Time,
    reroute::{
        SiteId,
        detect::{Level, Reading},
    },
};

impl Responder {
    pub(super) fn measure(&mut self, now: Time, measure: &Measure) {
        for site in self.sites() {
            let of_site = measure.sites.get(site.index());
            let report = of_site.and_then(|of_site| of_site.observed.map(|load| (of_site, load)));
            // A load that is no number is no report.
            match report.filter(|(_, load)| load.is_finite() && *load >= 0.0) {
                Some((of_site, load)) => self.report(now, site, of_site, load),
                None => self.no_report(now, site),
            }
        }
        if !self.is_settling(now) {
            self.measured = true;
            self.decide(now);
        }
    }

    fn report(&mut self, now: Time, site: SiteId, of_site: &SiteMeasure, observed: f64) {
        self.seen[site.index()].at = Some(now);
        if self.state.silent[site.index()] {
            self.record(now, Step::Heard { site });
        }
        // Routes are on their way: who reaches which site is not known, nor what is to be expected there.
        if self.is_settling(now) {
            return;
        }
        let alpha = self.estimator.alpha(&of_site.known_good);
        let offered = self.estimator.offered(observed, alpha.as_ref());
        let alpha = alpha.map(|alpha| alpha.range);
        let capacity = self.state.capacities[site.index()];
        let reading = Reading {
            load: offered.scale(1.0 / capacity),
            alpha,
        };
        let losing = self.first_response().alpha.enter;
        let seen = &mut self.seen[site.index()];
        seen.offered = offered;
        seen.alpha = alpha;
        seen.normal = of_site
            .normal
            .filter(|normal| normal.is_finite() && *normal >= 0.0);
        if alpha.is_some_and(|alpha| alpha.high <= losing) {
            // It loses known-good traffic: more than what arrives does not get through, whatever its capacity is said to be.
            seen.carries = seen.carries.min(observed);
        }
        if self.state.detector.observe(now, site, &reading) {
            let levels = self.state.detector.levels();
            let level = self.state.detector.level(site);
            let level = level.map(|level| levels[level].name.clone());
            self.record(now, Step::Level { site, level });
        }
    }

    fn no_report(&mut self, now: Time, site: SiteId) {
        self.state.detector.unknown(site);
        let since = *self.seen[site.index()].at.get_or_insert(now);
        if !self.state.silent[site.index()] && now - since >= self.state.config.silent {
            self.record(now, Step::Silent { site });
        }
    }

    /// The mildest level that asks for a response.
    pub(super) fn first_response(&self) -> &Level {
        let levels = self.state.detector.levels();
        levels
            .iter()
            .find(|level| level.respond)
            .unwrap_or(&levels[0])
    }

    /// Records what is known of the sites, unless this call has done so.
    pub(super) fn estimated(&mut self, now: Time) {
        if self.told {
            return;
        }
        self.told = true;
        let step = Step::Estimated {
            offered: self.offered(),
            alpha: self.seen.iter().map(|site| site.alpha).collect(),
            carries: self.seen.iter().map(|site| site.carries).collect(),
        };
        self.record(now, step);
    }
}
