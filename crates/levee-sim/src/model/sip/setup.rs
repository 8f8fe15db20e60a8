//! What is simulated, and which reading of the paper.

use levee_policy::Span;
use levee_policy::selective::{Config, ConfigError, Forward, PMOD_START, ROUND, Selective};

use super::quirks::Quirks;
use crate::engine::TieOrder;
use crate::scenario::{self, Preset};
use crate::schedule::{Arrivals, Durations, Plan};

/// The seconds of the lab's callers, beyond the ringing time, in which a call that rings at the end may still be answered.
const GRACE: Span = Span::from_secs(1);
/// One-way trips from an INVITE to the answer at its caller.
const TRIPS: u64 = 4;

/// One point of a scenario, as the model takes it. Times are those of the scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// `k`: calls that the server can hold.
    pub capacity: u32,
    /// The defence; `None` leaves the server alone with its callers.
    pub defense: Option<Config>,
    /// Who calls when; no call begins at or after `until`, the horizon. Run `i` takes `seed + i`.
    pub plan: Plan,
    /// Calls that begin before it are not counted.
    pub warmup: Span,
    /// One-way delay between a caller or a callee and the site of the server.
    pub delay: Span,
    /// How long the callee lets it ring.
    pub ring: Span,
    /// How long a caller lets it ring.
    pub ring_timeout: Span,
    /// An attacker that is refused or dropped calls again after this time.
    pub redial: Option<Span>,
    /// Which of two messages of the same instant is served first.
    pub ties: TieOrder,
}

/// Variance of the released model's lognormal durations, of mean 5.
const RELEASED_VARIANCE: f64 = 131_301.0;

impl Setup {
    /// A point of a scenario under its own reading of the paper. [`Run::scale`](scenario::Run::scale) is for the wall clock of a
    /// real run only.
    #[must_use]
    pub fn new(point: &scenario::Setup) -> Self {
        let run = &point.run;
        let setup = Self {
            capacity: point.service.capacity,
            defense: point.defense.clone(),
            plan: point.plan(run.seed),
            warmup: span(run.warmup),
            delay: span(run.delay),
            ring: span(run.ring),
            ring_timeout: span(run.ring_timeout),
            redial: point.redial().map(span),
            ties: TieOrder::default(),
        };
        setup.with_preset(point.model.preset)
    }

    /// The same under another reading of the paper. For [`Preset::AsReleased`] these are the quirks that are settings.
    #[must_use]
    pub fn with_preset(self, preset: Preset) -> Self {
        match preset {
            Preset::Corrected => self,
            Preset::Paper => self.literal(),
            Preset::AsReleased => self.literal().with_settings_of(&Quirks::RELEASED),
        }
    }

    fn literal(mut self) -> Self {
        if let Some(defense) = &mut self.defense {
            defense.forward = Forward::RoundEnd;
            defense.round = ROUND;
            defense.pmod_start = PMOD_START;
        }
        self
    }

    /// With the quirks (c), (f), (g), (h) and (i), which are settings; the others are in [`Released`](super::released::Released).
    #[must_use]
    pub fn with_settings_of(mut self, quirks: &Quirks) -> Self {
        if let Some(defense) = &mut self.defense {
            if quirks.pmod_starts_at_one {
                defense.pmod_start = 1;
            }
            if quirks.round_doubled {
                defense.round = Span::from_millis(200);
            }
        }
        if quirks.even_arrivals {
            self.plan.arrivals = Arrivals::Even;
        }
        if quirks.last_in_first_out {
            self.ties = TieOrder::LastSent;
        }
        if quirks.lognormal_units_mixed
            && let Some(Durations::Lognormal { mean, sigma }) = &mut self.plan.honest.durations
        {
            // Of a lognormal: variance = mean^2 (exp(sigma^2) - 1).
            let square = mean.as_secs_f64() * mean.as_secs_f64();
            *sigma = libm::sqrt(libm::log1p(RELEASED_VARIANCE / square));
        }
        self
    }

    /// Whether it can be run.
    ///
    /// # Errors
    ///
    /// The first key of the defence that is out of its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        match &self.defense {
            Some(defense) => Selective::check(self.capacity, defense),
            None => Ok(()),
        }
    }

    /// The horizon: no call begins then or later, and what is connected then counts as complete.
    #[must_use]
    pub fn until(&self) -> Span {
        span(self.plan.until)
    }

    /// When a run is over: after the horizon, calls that ring may still be answered, as in the lab.
    #[must_use]
    pub fn end(&self) -> Span {
        let trips = Span::from_nanos(self.delay.as_nanos().saturating_mul(TRIPS));
        let grace = self.ring.saturating_add(GRACE).saturating_add(trips);
        self.until().saturating_add(grace)
    }
}

/// Over 500 years is [`Span::MAX`].
pub(super) fn span(duration: std::time::Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
