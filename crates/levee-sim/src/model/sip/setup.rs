//! What is simulated, and which reading of the paper.

use levee_policy::Span;
use levee_policy::selective::{Config, ConfigError, Forward, PMOD_START, ROUND, Selective};

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

/// Where the released model departs from the paper's text, one switch each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// (a) The victim is drawn twice: the call that is removed and the one that is told are independent draws.
    pub victim_drawn_twice: bool,
    /// (b) The duration that is noted and the one that is lived are independent draws.
    pub duration_drawn_twice: bool,
    /// (c) Lognormal durations of mean 5 and variance 131301: units are mixed up, the median is 0.07.
    pub lognormal_units_mixed: bool,
    /// (d) Roulette: a call longer than usual has `d + 1` slots, and the last call one less.
    pub roulette_slots_shifted: bool,
    /// (e) Tournament: entrants are drawn with replacement.
    pub entrants_repeat: bool,
    /// (f) `P1 = k / (k + 1 + n)` for the `n`-th overload of a round: `PMod` starts at 1.
    pub pmod_starts_at_one: bool,
    /// (g) A round is 200 ms.
    pub round_doubled: bool,
    /// (h) Arrivals at fixed intervals.
    pub even_arrivals: bool,
    /// (i) Of the messages of one instant the last is served first.
    pub last_in_first_out: bool,
    /// (j) All WAITING calls ring from the end of the round, and the server has them INCALL before their callers do.
    pub rings_from_round_end: bool,
    /// (k) The drop factor past the mean is `floor(waiting + exp(..))`: its scale is 1, not 0.453.
    pub drop_factor_truncated: bool,
    /// (l) A caller that is told of its drop before it is connected takes no notice; if RINGING is under way it is connected all
    /// the same, to nobody, and counts as complete.
    pub setup_drop_unheard: bool,
}

impl Quirks {
    /// None of them: the paper's text.
    pub const NONE: Self = Self {
        victim_drawn_twice: false,
        duration_drawn_twice: false,
        lognormal_units_mixed: false,
        roulette_slots_shifted: false,
        entrants_repeat: false,
        pmod_starts_at_one: false,
        round_doubled: false,
        even_arrivals: false,
        last_in_first_out: false,
        rings_from_round_end: false,
        drop_factor_truncated: false,
        setup_drop_unheard: false,
    };

    /// All of them: the released model.
    pub const RELEASED: Self = Self {
        victim_drawn_twice: true,
        duration_drawn_twice: true,
        lognormal_units_mixed: true,
        roulette_slots_shifted: true,
        entrants_repeat: true,
        pmod_starts_at_one: true,
        round_doubled: true,
        even_arrivals: true,
        last_in_first_out: true,
        rings_from_round_end: true,
        drop_factor_truncated: true,
        setup_drop_unheard: true,
    };
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

    /// With the quirks (c), (f), (g), (h) and (i), which are settings; the others are of another machine.
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
