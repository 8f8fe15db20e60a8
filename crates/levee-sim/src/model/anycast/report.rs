//! What the sites report of an interval.

use levee_policy::reroute::estimate::KnownGood;
use levee_policy::reroute::{Measure, SiteMeasure};
use levee_policy::{Span, Time};

use super::draw::{binomial, factor};
use super::meter::Meter;
use super::setup::Setup;
use crate::engine::Streams;
use crate::schedule::unit;

/// Makes the reports, with the errors of the forecasts.
#[derive(Clone, Debug, Default)]
pub(super) struct Reporter {
    /// For which period of `known_good.lasts` the errors are drawn.
    period: Option<u64>,
    errors: Vec<Errors>,
    /// Reports that were lost this time.
    pub(super) lost: u64,
}

/// What the forecasts of one site are multiplied with.
#[derive(Clone, Copy, Debug)]
struct Errors {
    normal: f64,
    known: f64,
}

impl Reporter {
    pub(super) fn restart(&mut self, setup: &Setup) {
        self.period = None;
        self.errors.clear();
        self.errors.reserve(setup.sites.len());
        self.lost = 0;
    }

    /// The reports of the interval that ends now, in which `play` was the last that was announced.
    pub(super) fn report(
        &mut self,
        setup: &Setup,
        meter: &Meter,
        play: usize,
        (streams, now): (&Streams, Time),
        measure: &mut Measure,
    ) {
        let interval = setup.measure.interval;
        // At most INTERVALS_MAX.
        let number = (now.as_nanos() / interval.as_nanos()) as u32;
        self.forecast(setup, streams, now.saturating_sub(interval));
        let mut lost = streams.stream_of("reports", number);
        let middle = now.saturating_sub(Span::from_nanos(interval.as_nanos() / 2));
        let normal = setup.honest.load * setup.honest.season(middle);
        let known = setup.honest.known_good;
        let shares = setup.world.shares(play, setup.sites.len());
        self.lost = 0;
        measure.sites.clear();
        for (site, (share, errors)) in shares.iter().zip(&self.errors).enumerate() {
            if unit(&mut lost) < setup.measure.lost {
                self.lost += 1;
                measure.sites.push(SiteMeasure::default());
                continue;
            }
            let arrived = meter.arrived[site];
            let mut own = SiteMeasure {
                observed: Some(meter.mean(arrived.observed)),
                normal: Some(normal * share * errors.normal),
                known_good: Vec::new(),
            };
            if known.rate > 0.0 {
                let sent = arrived.known;
                let seen = if sent > 0.0 {
                    arrived.known_seen / sent
                } else {
                    0.0
                };
                let site = u32::try_from(site).unwrap_or(u32::MAX);
                let mut rng = streams.stream_of("known-good", number ^ site.rotate_right(8));
                let expected = if known.located {
                    sent
                } else {
                    known.rate * share * interval.as_secs_f64()
                };
                let expected = expected * errors.known;
                own.known_good.push(KnownGood {
                    observed: binomial(sent.round() as u64, seen, &mut rng) as f64,
                    expected,
                    expected_sd: known.claims * expected,
                });
            }
            measure.sites.push(own);
        }
    }

    /// Draws the errors of the period that `at` lies in.
    fn forecast(&mut self, setup: &Setup, streams: &Streams, at: Time) {
        let honest = &setup.honest;
        let period = at.as_nanos() / honest.known_good.lasts.as_nanos();
        if self.period == Some(period) {
            return;
        }
        self.period = Some(period);
        self.errors.clear();
        let name = u32::try_from(period).unwrap_or(u32::MAX);
        let mut rng = streams.stream_of("forecast", name);
        self.errors.extend(setup.sites.iter().map(|_| Errors {
            normal: factor(honest.error, &mut rng),
            known: factor(honest.known_good.error, &mut rng),
        }));
    }
}
