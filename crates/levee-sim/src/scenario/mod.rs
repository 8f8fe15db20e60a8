//! A scenario: the TOML file that says what is attacked how, and defended how.
//!
//! Pure: text in, a [`Scenario`] or every problem of the text out. docs/scenario.md describes each key. A list in a place
//! that takes one value is swept, whatever the key: a [`Point`] is one combination, and its [`Setup`] holds single values.

mod anycast;
#[cfg(test)]
mod edits;
mod http;
mod measured;
mod questions;
mod raw;
mod read;
#[cfg(test)]
mod tests;
mod thinner;

use std::time::Duration;

use levee_config::Problems;
use levee_policy::Span;
use levee_policy::selective::{Config, Kind as DefenseKind, MaxDuration};
use serde::{Deserialize, Serialize};

use crate::schedule::{Arrivals, Calls, Durations, Plan, Stream};

pub use http::Http;
pub use levee_config::{AtValue, Text};
pub use questions::{
    Asked, BATCHES, CONFIDENCE, Check, INDIFFERENCE, Method, NextStep, Precision, Query, Runs,
    Sprt, Steady,
};
pub use thinner::Thinner;

/// A checked scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Each combination of what is swept; the lanes change fastest. Never empty.
    pub points: Vec<Point>,
    /// How many points after one another differ by their defence alone.
    pub lanes: usize,
    /// The first seed; run `i` of each point takes `seed + i`.
    pub seed: u64,
    /// How well the model is to be known.
    pub check: Check,
    /// What is asked of the model; a real run has its own figures.
    pub queries: Vec<Query>,
}

/// One combination of what is swept.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The defence by name: `undefended`, `seven-roulette`, or as the file says.
    pub lane: String,
    /// What tells this point from the others of its lane: each swept key as a dotted path, and what it is here. A list in
    /// `[defense]` or in the defence of a lane is a `defense.` key.
    pub at: Vec<(String, AtValue)>,
    /// What is run.
    pub setup: Setup,
}

/// What one point runs: no lists. Times are those of the scenario; [`Setup::on_the_wall_clock`] makes them those of a real run.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The protected server.
    pub service: Service,
    /// `None` leaves the server alone with its callers. That of a thinner is in `thinner`.
    pub defense: Option<Config>,
    /// The honest callers.
    pub honest: Honest,
    /// The attackers; `None` for no attack.
    pub attack: Option<Attack>,
    /// How long it runs.
    pub run: Run,
    /// What the model alone is told.
    pub model: ModelSettings,
    /// What only a service of [`ServiceKind::Http`] with places has.
    pub http: Option<Http>,
    /// What only a service of [`ServiceKind::Http`] with a rate has: the thinner's. Then `http` and `defense` are `None`, and
    /// `service`, `honest` and `attack` say the same in the words of other services.
    pub thinner: Option<Thinner>,
    /// What only a service of [`ServiceKind::Anycast`] has: all that its model takes. Then the rest but `run` says nothing of it.
    pub anycast: Option<Box<crate::model::anycast::Setup>>,
}

/// The `[service]` table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// What it serves.
    pub kind: ServiceKind,
    /// `k`.
    pub capacity: u32,
}

/// What a server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceKind {
    /// Calls.
    Sip,
    /// Requests, one a connection. For the model only: there is no live front for it yet.
    Http,
    /// A prefix that is announced from several sites. For the model only.
    Anycast,
}

/// The `[honest]` table.
#[derive(Clone, Debug, PartialEq)]
pub struct Honest {
    /// Their calls a second; the attackers' part of `honest.rate` is taken off already.
    pub rate: f64,
    /// How long they want to last.
    pub durations: Durations,
    /// From how many callers they come.
    pub callers: u32,
}

/// The `[attack]` table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attack {
    /// What an attacker does.
    pub kind: AttackKind,
    /// How many there are.
    pub attackers: Attackers,
}

/// What an attacker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttackKind {
    /// SIP: pairs that call each other and stay as long as they can.
    CoordinatedCall,
    /// HTTP: connects and is silent.
    Connect,
    /// HTTP: headers without end.
    Slowloris,
    /// HTTP: a body without end.
    SlowPost,
    /// HTTP: reads the response through a tiny window.
    SlowRead,
    /// HTTP: requests as honest clients send them.
    GetFlood,
    /// HTTP: more requests than the server can take, from clients that pay as honest ones do.
    Flood,
}

impl AttackKind {
    /// Of which service it is an attack.
    #[must_use]
    pub fn service(self) -> ServiceKind {
        match self {
            Self::CoordinatedCall => ServiceKind::Sip,
            Self::Connect
            | Self::Slowloris
            | Self::SlowPost
            | Self::SlowRead
            | Self::GetFlood
            | Self::Flood => ServiceKind::Http,
        }
    }
}

/// How many attackers there are, and how they call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Attackers {
    /// A stream of calls beside the honest ones.
    Share {
        /// Which share of all calls is theirs, redialled ones left out.
        share: f64,
        /// Their calls a second.
        rate: f64,
        /// From how many callers they come.
        callers: u32,
        /// One that is refused or dropped calls again after this time.
        redial: Option<Duration>,
    },
    /// So many, each of which is calling, connected, or waiting to call again.
    Fixed {
        /// How many.
        count: u32,
        /// They call for the first time within this time.
        ramp: Duration,
        /// One that is refused or dropped calls again after this time.
        redial: Duration,
    },
}

/// The `[run]` table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// How long it is measured.
    pub time: Duration,
    /// How long it runs before that; calls that begin then are not counted.
    pub warmup: Duration,
    /// One-way delay of the network: for the model only, loopback has none.
    pub delay: Duration,
    /// How long the callee lets it ring.
    pub ring: Duration,
    /// How long a caller lets it ring.
    pub ring_timeout: Duration,
    /// How calls follow each other.
    pub arrivals: Arrivals,
    /// [`Scenario::seed`].
    pub seed: u64,
    /// Real runs of each point, with seeds one after the other, counted together.
    pub repeat: u32,
    /// Wall-clock seconds that one second of the scenario takes in a real run.
    pub scale: f64,
}

/// The `[model]` table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelSettings {
    /// Which reading of the paper.
    pub preset: Preset,
    /// Departures of the released model that are switched on beside the preset's, by the model's names for them.
    pub quirks: Vec<String>,
}

/// A reading of the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The scenario as it is: random arrivals, and each draw made once.
    #[default]
    Corrected,
    /// The paper's text to the letter. It differs from [`Preset::Corrected`] in this:
    ///
    /// 1. An admitted call is passed on at the end of its round if it was not dropped before, not at once.
    /// 2. `T_S` is 100 ms, whatever the scenario says.
    /// 3. `PMod` is 0 at the start of a round, whatever the scenario says.
    ///
    /// Arrivals stay random: the text takes its rate from Erlang's formula, which presumes a Poisson process.
    Paper,
    /// The model that was released with the paper, with its [`Quirks`](crate::model::sip::Quirks).
    AsReleased,
}

impl Scenario {
    /// Reads a scenario. `file` is how errors name it; `read` gets the text of a file that it names.
    ///
    /// # Errors
    /// What is wrong with the text, with line and column, what was expected and what to do.
    pub fn parse(
        file: &str,
        text: &str,
        read: &dyn Fn(&str) -> std::io::Result<String>,
    ) -> Result<Self, Problems> {
        read::scenario(file, text, read)
    }

    /// Takes another first seed.
    pub fn reseed(&mut self, seed: u64) {
        self.seed = seed;
        for point in &mut self.points {
            point.setup.run.seed = seed;
        }
    }
}

impl Setup {
    /// The calls of one run. The same for all setups that differ by their defence alone.
    #[must_use]
    pub fn plan(&self, seed: u64) -> Plan {
        let (calls, callers) = match self.attack.map(|a| a.attackers) {
            None => (Calls::Rate(0.0), 1),
            Some(Attackers::Share { rate, callers, .. }) => (Calls::Rate(rate), callers),
            Some(Attackers::Fixed { count, ramp, .. }) => (Calls::OnceEach { within: ramp }, count),
        };
        Plan {
            honest: Stream {
                calls: Calls::Rate(self.honest.rate),
                durations: Some(self.honest.durations.clone()),
                callers: self.honest.callers,
            },
            attacker: Stream {
                calls,
                durations: None,
                callers,
            },
            arrivals: self.run.arrivals,
            until: self.run.warmup + self.run.time,
            seed,
        }
    }

    /// Calls a second that callers make at most, as long as each attacker of a fixed number is refused at once; what
    /// attackers of a share redial is not in it.
    #[must_use]
    pub fn calls_per_second(&self) -> f64 {
        let attackers = match self.attack.map(|a| a.attackers) {
            None => 0.0,
            Some(Attackers::Share { rate, .. }) => rate,
            Some(Attackers::Fixed { count, redial, .. }) => f64::from(count) / redial.as_secs_f64(),
        };
        self.honest.rate + attackers
    }

    /// After which time an attacker that was refused or dropped calls again.
    #[must_use]
    pub fn redial(&self) -> Option<Duration> {
        match self.attack?.attackers {
            Attackers::Share { redial, .. } => redial,
            Attackers::Fixed { redial, .. } => Some(redial),
        }
    }

    /// The same with [`Run::scale`] in all its times and rates but those of [`Http`].
    #[must_use]
    pub fn on_the_wall_clock(&self) -> Self {
        let scale = self.run.scale;
        let mut setup = self.clone();
        setup.run.scale = 1.0;
        // What is at scale 1 stays to the nanosecond.
        if scale == 1.0 {
            return setup;
        }
        setup.honest.rate /= scale;
        setup.honest.durations = setup.honest.durations.scaled(scale);
        let run = &mut setup.run;
        let mut times = vec![
            &mut run.time,
            &mut run.warmup,
            &mut run.delay,
            &mut run.ring,
            &mut run.ring_timeout,
        ];
        match setup.attack.as_mut().map(|a| &mut a.attackers) {
            Some(Attackers::Share { rate, redial, .. }) => {
                *rate /= scale;
                times.extend(redial);
            }
            Some(Attackers::Fixed { ramp, redial, .. }) => times.extend([ramp, redial]),
            None => {}
        }
        for time in times {
            *time = time.mul_f64(scale);
        }
        if let Some(defense) = &mut setup.defense {
            scale_defense(defense, scale);
        }
        if let Some(own) = &mut setup.thinner {
            own.scale(scale);
        }
        setup
    }
}

fn scale_defense(defense: &mut Config, by: f64) {
    let mut times = vec![
        &mut defense.round,
        &mut defense.retry_after,
        &mut defense.drop_factor.mean_call,
    ];
    if let Some(MaxDuration::Fixed(cap)) = &mut defense.max_duration {
        times.push(cap);
    }
    for time in times {
        *time = Span::from_secs_f64(time.as_secs_f64() * by).unwrap_or(*time);
    }
}

/// The name of a lane that has none in the file: `undefended`, `seven-roulette`, `refuse-max-duration-2x`.
#[must_use]
pub fn lane_name(defense: Option<&Config>) -> String {
    let Some(config) = defense else {
        return "undefended".to_owned();
    };
    let mut parts = match config.kind {
        DefenseKind::Seven => vec![format!("seven-{}", config.strategy.name())],
        DefenseKind::Refuse => vec!["refuse".to_owned()],
        DefenseKind::None => Vec::new(),
    };
    match config.max_duration {
        Some(MaxDuration::TimesMean(times)) => parts.push(format!("max-duration-{times}x")),
        Some(MaxDuration::Fixed(cap)) => parts.push(format!("max-duration-{cap}")),
        None => {}
    }
    for (name, limit) in [
        ("caller", config.calls_per_caller),
        ("source", config.calls_per_source),
    ] {
        parts.extend(limit.map(|n| format!("{n}-per-{name}")));
    }
    if parts.is_empty() {
        return "none".to_owned();
    }
    parts.join("-")
}
