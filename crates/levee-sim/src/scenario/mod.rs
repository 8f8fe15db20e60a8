//! A scenario: the TOML file that says what is attacked how, and defended how.
//!
//! Pure: text in, a [`Scenario`] or every problem of the text out. docs/scenario.md describes each key. A list in a place
//! that takes a list is swept: [`Scenario::points`] gives each combination.

mod lists;
mod raw;
#[cfg(test)]
mod tests;

use std::time::Duration;

use levee_config::Document;
use levee_config::{Problem, Problems};
use levee_policy::Span;
use levee_policy::selective::{Config, Kind as DefenseKind, MaxDuration};
use serde::Serialize;

use crate::schedule::{Arrivals, Durations, Plan, Stream};
use raw::{Raw, RawDuration, RawDurationKind, RawRate};

/// A checked scenario. Times are those of the scenario; [`Run::scale`] is applied by [`Scenario::plan`] and its kin.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// `k`.
    pub capacity: u32,
    /// The defences that are compared.
    pub lanes: Vec<Lane>,
    /// Durations of honest calls.
    pub durations: Vec<NamedDurations>,
    /// The rate of all calls.
    pub rate: Rate,
    /// Number of honest callers.
    pub honest_callers: u32,
    /// Whether there are attackers, and which share of the calls is theirs.
    pub shares: Vec<f64>,
    /// Number of attackers.
    pub attackers: u32,
    /// An attacker that is refused or dropped calls again after this time.
    pub redial: Option<Duration>,
    /// How long it runs.
    pub run: Run,
    /// For the checker; a real run has its own figures.
    pub queries: Vec<Query>,
    /// Which keys were lists: they go into each point's `at`.
    swept: Swept,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Swept {
    share: bool,
    duration: bool,
    strategy: bool,
}

/// One defence, by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// `undefended`, `seven-roulette`, or as the file says.
    pub name: String,
    /// `None` leaves the server alone with its callers.
    pub defense: Option<Config>,
}

/// Durations with the name of their kind.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedDurations {
    /// `exponential`, `lognormal`, `fixed` or `file`.
    pub name: &'static str,
    /// What is drawn.
    pub durations: Durations,
}

/// The rate of all calls, honest and attackers'.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Calls a second.
    PerSecond(f64),
    /// As many as would, without attackers, leave this share without a line (Erlang B).
    Blocking(f64),
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
    /// The first seed.
    pub seed: u64,
    /// Runs of each point, with seeds one after the other, counted together.
    pub repeat: u32,
    /// Wall-clock seconds that one second of the scenario takes.
    pub scale: f64,
}

/// A `[[query]]` table.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// Its name in reports.
    pub name: String,
    /// What is estimated.
    pub formula: String,
}

/// One combination of what is swept.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Index into [`Scenario::lanes`].
    pub lane: usize,
    /// Index into [`Scenario::durations`].
    pub duration: usize,
    /// The attackers' share of the calls.
    pub share: f64,
    /// What tells this point from the others of its lane: `attack.share` and the like.
    pub at: Vec<(&'static str, AtValue)>,
}

/// A value of a swept key.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum AtValue {
    /// A number.
    Number(f64),
    /// A name.
    Name(String),
}

/// Most calls that one run plans.
const CALLS_MAX: f64 = 5e6;
/// Most combinations of a scenario.
const POINTS_MAX: usize = 10_000;

impl Scenario {
    /// Reads a scenario. `file` is how errors name it; `read` gets the text of a file that it names.
    ///
    /// # Errors
    /// Every problem of the text, with line and column, what was expected and what to do.
    pub fn parse(
        file: &str,
        text: &str,
        read: &dyn Fn(&str) -> std::io::Result<String>,
    ) -> Result<Self, Problems> {
        let document = Document::parse(file, text)?;
        let raw = Raw::read(&document)?;
        let mut reader = Reader {
            document: &document,
            problems: Vec::new(),
        };
        let lanes = reader.lanes(&raw)?;
        let scenario = reader.scenario(raw, lanes, read);
        match reader.problems.into_iter().next() {
            None => Ok(scenario),
            // One at a time: later ones are often a consequence of the first.
            Some(first) => Err(first.into()),
        }
    }

    /// All combinations, lanes innermost.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for &share in &self.shares {
            for (duration, named) in self.durations.iter().enumerate() {
                for (lane, defended) in self.lanes.iter().enumerate() {
                    let mut at = Vec::new();
                    if self.swept.share {
                        at.push(("attack.share", AtValue::Number(share)));
                    }
                    if self.swept.duration {
                        at.push(("honest.duration", AtValue::Name(named.name.into())));
                    }
                    if let (true, Some(defense)) = (self.swept.strategy, &defended.defense) {
                        let name = defense.strategy.name().to_owned();
                        at.push(("defense.strategy", AtValue::Name(name)));
                    }
                    points.push(Point {
                        lane,
                        duration,
                        share,
                        at,
                    });
                }
            }
        }
        points
    }

    /// All calls a second, of the scenario's seconds.
    #[must_use]
    pub fn rate_for(&self, duration: &Durations) -> f64 {
        match self.rate {
            Rate::PerSecond(rate) => rate,
            Rate::Blocking(target) => {
                crate::erlang::load_for(self.capacity, target) / duration.mean().as_secs_f64()
            }
        }
    }

    /// The calls of one run of a point, in wall-clock time. The same for each lane.
    #[must_use]
    pub fn plan(&self, point: &Point, repetition: u32) -> Plan {
        let scale = self.run.scale;
        let all = &self.durations[point.duration].durations;
        let rate = self.rate_for(all) / scale;
        Plan {
            honest: Stream {
                rate: rate * (1.0 - point.share),
                durations: Some(all.scaled(scale)),
                callers: self.honest_callers,
            },
            attacker: Stream {
                rate: rate * point.share,
                durations: None,
                callers: self.attackers,
            },
            arrivals: self.run.arrivals,
            until: (self.run.warmup + self.run.time).mul_f64(scale),
            seed: self.run.seed.wrapping_add(repetition.into()),
        }
    }

    /// The defence of a lane in wall-clock time.
    #[must_use]
    pub fn defense(&self, lane: usize) -> Option<Config> {
        let mut defense = self.lanes.get(lane)?.defense.clone()?;
        let scale = |s: Span| Span::from_secs_f64(s.as_secs_f64() * self.run.scale).unwrap_or(s);
        defense.round = scale(defense.round);
        defense.retry_after = scale(defense.retry_after);
        defense.drop_factor.mean_call = scale(defense.drop_factor.mean_call);
        if let Some(MaxDuration::Fixed(cap)) = &mut defense.max_duration {
            *cap = scale(*cap);
        }
        Some(defense)
    }
}

/// Turns what was read into a scenario, and collects what is wrong with it.
struct Reader<'d> {
    document: &'d Document<'d>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn refuse(&mut self, key: &str, found: impl Into<String>, expected: &str, remedy: &str) {
        let problem = self.document.problem(key, found, expected, remedy);
        self.problems.push(problem);
    }

    /// Refuses a number outside `low..=high`.
    fn range(&mut self, key: &str, value: f64, low: f64, high: f64, remedy: &str) {
        if !(low..=high).contains(&value) {
            let expected = format!("a number from {low} to {high}");
            self.refuse(key, value.to_string(), &expected, remedy);
        }
    }

    fn lanes(&mut self, raw: &Raw) -> Result<(Vec<Lane>, bool), Problems> {
        let mut strategies_swept = false;
        let mut lanes = Vec::new();
        if self.document.has("defense") {
            if !raw.lane.is_empty() {
                self.refuse(
                    "defense",
                    "both [defense] and [[lane]]",
                    "one of the two",
                    "write this table as [lane.defense] of a [[lane]]",
                );
            }
            let (configs, swept) = lists::defenses(self.document)?;
            strategies_swept = swept;
            for config in configs {
                self.check_defense("defense", &config, raw.service.capacity);
                lanes.push(Lane::of(None, Some(config)));
            }
        }
        for (i, lane) in raw.lane.iter().enumerate() {
            if let Some(defense) = &lane.defense {
                let key = format!("lane[{i}].defense");
                self.check_defense(&key, defense, raw.service.capacity);
            }
            lanes.push(Lane::of(lane.name.clone(), lane.defense.clone()));
            let earlier = lanes.iter().take(i);
            if let Some(name) = lanes.last().map(|l| l.name.clone())
                && earlier.clone().any(|l| l.name == name)
            {
                self.refuse(
                    &format!("lane[{i}].name"),
                    format!("a second lane `{name}`"),
                    "a name for each lane",
                    "give this lane a `name` of its own",
                );
            }
        }
        if lanes.is_empty() {
            lanes.push(Lane::of(None, None));
        }
        Ok((lanes, strategies_swept))
    }

    fn check_defense(&mut self, table: &str, config: &Config, capacity: u32) {
        if let Err(error) = config.validate_for(capacity.clamp(1, u32::MAX)) {
            self.refuse(
                &format!("{table}.{}", error.key),
                error.value,
                &error.expected,
                "docs/scenario.md lists the keys of a defence with their ranges",
            );
        }
    }

    fn scenario(
        &mut self,
        raw: Raw,
        (lanes, strategy): (Vec<Lane>, bool),
        read: &dyn Fn(&str) -> std::io::Result<String>,
    ) -> Scenario {
        let swept = Swept {
            share: raw.attack.as_ref().is_some_and(|a| a.share.is_list),
            duration: raw.honest.duration.is_list,
            strategy,
        };
        self.range(
            "service.capacity",
            raw.service.capacity.into(),
            1.0,
            1e6,
            "give the number of calls that the server can hold",
        );
        let durations = self.durations(&raw.honest.duration, read);
        let rate = self.rate(&raw.honest.rate);
        let attack = raw.attack.unwrap_or_default();
        for (i, &share) in attack.share.values.iter().enumerate() {
            let key = if swept.share {
                format!("attack.share[{i}]")
            } else {
                "attack.share".into()
            };
            let remedy = "write the share of calls that are attackers', 0.5 for every other call";
            self.range(&key, share, 0.0, 1.0, remedy);
        }
        if attack.share.values.is_empty() {
            self.refuse(
                "attack.share",
                "an empty list",
                "at least one share",
                "write share = 0.5, or a list to sweep",
            );
        }
        let people = "leave the key out for callers that are all different";
        for (key, n) in [
            ("honest.callers", raw.honest.callers),
            ("attack.attackers", attack.attackers),
        ] {
            self.range(key, n.into(), 1.0, f64::from(u32::MAX), people);
        }
        let run = self.run(&raw.run);
        let scenario = Scenario {
            capacity: raw.service.capacity,
            lanes,
            durations,
            rate,
            honest_callers: raw.honest.callers,
            shares: attack.share.values,
            attackers: attack.attackers,
            redial: attack.redial.map(std),
            run,
            queries: raw.query,
            swept,
        };
        if self.problems.is_empty() {
            self.check_size(&scenario);
        }
        scenario
    }

    fn check_size(&mut self, scenario: &Scenario) {
        let points = scenario.shares.len() * scenario.durations.len() * scenario.lanes.len();
        if points > POINTS_MAX {
            self.refuse(
                "",
                format!("{points} combinations"),
                &format!("at most {POINTS_MAX}"),
                "shorten the lists, or split the scenario",
            );
        }
        let whole = scenario.run.warmup + scenario.run.time;
        for named in &scenario.durations {
            let calls = scenario.rate_for(&named.durations) * whole.as_secs_f64();
            if calls > CALLS_MAX {
                self.refuse(
                    "honest.rate",
                    format!("{calls:.0} calls in one run"),
                    &format!("at most {CALLS_MAX:.0}"),
                    "lower the rate or run.time",
                );
            }
        }
    }

    fn rate(&mut self, rate: &RawRate) -> Rate {
        match *rate {
            RawRate::PerSecond(rate) => {
                let remedy = "write it as \"3.1/s\", or \"40/m\" for a slower one";
                self.range("honest.rate", rate, 1e-6, 1e5, remedy);
                Rate::PerSecond(rate)
            }
            RawRate::Erlang { blocking } => {
                let remedy = "write 0.01 for one call in a hundred that finds all lines busy";
                self.range("honest.rate.erlang.blocking", blocking, 1e-9, 0.999, remedy);
                Rate::Blocking(blocking)
            }
        }
    }

    fn durations(
        &mut self,
        list: &lists::OneOrMany<RawDuration>,
        read: &dyn Fn(&str) -> std::io::Result<String>,
    ) -> Vec<NamedDurations> {
        let mut all: Vec<NamedDurations> = Vec::new();
        for (i, raw) in list.values.iter().enumerate() {
            let key = if list.is_list {
                format!("honest.duration[{i}]")
            } else {
                "honest.duration".into()
            };
            let Some(named) = self.duration(&key, raw, read) else {
                continue;
            };
            if all.iter().any(|d| d.name == named.name) {
                self.refuse(
                    &key,
                    format!("durations of kind {} again", named.name),
                    "one of each kind",
                    "put it into a scenario of its own",
                );
            }
            all.push(named);
        }
        if list.values.is_empty() {
            self.refuse(
                "honest.duration",
                "an empty list",
                "at least one kind of duration",
                "write duration = { kind = \"exponential\", mean = \"5s\" }",
            );
        }
        all
    }

    fn duration(
        &mut self,
        key: &str,
        raw: &RawDuration,
        read: &dyn Fn(&str) -> std::io::Result<String>,
    ) -> Option<NamedDurations> {
        let kind = raw.kind;
        let name = kind.name();
        let wants_mean = kind != RawDurationKind::File;
        for (field, given, wanted) in [
            ("mean", raw.mean.is_some(), wants_mean),
            (
                "sigma",
                raw.sigma.is_some(),
                kind == RawDurationKind::Lognormal,
            ),
            ("path", raw.path.is_some(), kind == RawDurationKind::File),
        ] {
            if given && !wanted {
                self.refuse(
                    &format!("{key}.{field}"),
                    format!("`{field}` for durations of kind {name}"),
                    "only keys that this kind has",
                    "take it out, or change `kind`",
                );
                return None;
            }
            if wanted && !given {
                self.refuse(
                    key,
                    format!("durations of kind {name} without `{field}`"),
                    &format!("`{field}`"),
                    "add it: mean = \"5s\", sigma = 1.0, path = \"seconds.txt\"",
                );
                return None;
            }
        }
        let mean = raw.mean.map(std).unwrap_or_default();
        if wants_mean {
            let mean_key = format!("{key}.mean");
            let remedy = "write a mean such as \"5s\"";
            self.range(&mean_key, mean.as_secs_f64(), 0.001, 86_400.0, remedy);
        }
        let durations = match kind {
            RawDurationKind::Exponential => Durations::Exponential(mean),
            RawDurationKind::Fixed => Durations::Fixed(mean),
            RawDurationKind::Lognormal => {
                let sigma = raw.sigma.unwrap_or_default();
                let remedy = "telephone calls have about 1";
                self.range(&format!("{key}.sigma"), sigma, 0.0, 5.0, remedy);
                Durations::Lognormal { mean, sigma }
            }
            RawDurationKind::File => self.durations_of_file(key, raw, read)?,
        };
        Some(NamedDurations { name, durations })
    }

    fn durations_of_file(
        &mut self,
        key: &str,
        raw: &RawDuration,
        read: &dyn Fn(&str) -> std::io::Result<String>,
    ) -> Option<Durations> {
        let path = raw.path.as_deref().unwrap_or_default();
        let key = format!("{key}.path");
        let remedy = "one duration in seconds on each line; an empty line and what follows # are passed over";
        let text = match read(path) {
            Ok(text) => text,
            Err(error) => {
                self.refuse(&key, format!("{path}: {error}"), "a file", remedy);
                return None;
            }
        };
        let mut all = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let value = line.split('#').next().unwrap_or_default().trim();
            if value.is_empty() {
                continue;
            }
            match value.parse::<f64>() {
                Ok(s) if (0.0..=86_400.0).contains(&s) => all.push(Duration::from_secs_f64(s)),
                _ => {
                    let found = format!("{path}:{}: `{value}`", i + 1);
                    self.refuse(&key, found, "seconds from 0 to 86400", remedy);
                    return None;
                }
            }
        }
        if !all.iter().any(|d| !d.is_zero()) {
            self.refuse(&key, format!("{path}: no duration"), "some", remedy);
            return None;
        }
        Some(Durations::Empirical(all.into()))
    }

    fn run(&mut self, raw: &raw::RawRun) -> Run {
        let run = Run {
            time: std(raw.time),
            warmup: std(raw.warmup),
            delay: std(raw.delay),
            ring: std(raw.ring),
            ring_timeout: std(raw.ring_timeout),
            arrivals: raw.arrivals,
            seed: raw.seed,
            repeat: raw.repeat,
            scale: raw.scale,
        };
        let day = 86_400.0;
        let remedy = "give a time such as \"40s\"";
        for (key, value, low) in [
            ("run.time", run.time, 0.1),
            ("run.warmup", run.warmup, 0.0),
            ("run.delay", run.delay, 0.0),
            ("run.ring", run.ring, 0.0),
            ("run.ring_timeout", run.ring_timeout, 0.001),
        ] {
            self.range(key, value.as_secs_f64(), low, day, remedy);
        }
        let remedy = "1 runs in the scenario's own time, 0.1 ten times as fast";
        self.range("run.scale", run.scale, 0.001, 1_000.0, remedy);
        let remedy = "1 for a single run of each point";
        self.range("run.repeat", run.repeat.into(), 1.0, 10_000.0, remedy);
        run
    }
}

impl Lane {
    fn of(name: Option<String>, defense: Option<Config>) -> Self {
        let name = name.unwrap_or_else(|| {
            defense
                .as_ref()
                .map_or_else(|| "undefended".to_owned(), defense_name)
        });
        Self { name, defense }
    }
}

/// `seven-roulette`, `refuse`, `max-duration-2x`.
fn defense_name(config: &Config) -> String {
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

fn std(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
