//! The `[defense]` table.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess},
    ser::SerializeMap,
};

use super::{ClassId, DropFactor, PHASES_MAX, Phase, PhaseId, RATE_MAX, RATE_MIN};
use crate::{
    ConfigError, Span,
    config_error::{ensure, fail, number, span},
};

/// `T_S`: 100 ms in the paper's text.
pub const ROUND: Span = Span::from_millis(100);
/// `PMod` at the start of a round: 0 in the paper's text. The released model amounts to 1.
pub const PMOD_START: u32 = 0;
/// Retry-After of a refusal: one mean call of the paper, by when a slot has very likely turned over (our choice).
pub const RETRY_AFTER: Span = Span::from_secs(5);

/// The largest capacity: memory grows by about 140 bytes a call, so this is some 600 MB.
pub const CAPACITY_MAX: u32 = 1 << 22;
/// The most classes: each distinct factor costs every decision a little (our choice).
pub const CLASSES_MAX: usize = 64;
/// The most factors of a class times those of a phase: for each, every decision looks at a list of its own (our choice).
pub const BANDS_MAX: usize = CLASSES_MAX + 1;
/// The largest `waiting`, `in_call`, `scale` and class factor: sums over all calls stay far inside a float's range.
pub const WEIGHT_MAX: f64 = 1e12;
/// The smallest weight above zero: products of two of them still are normal numbers.
pub const WEIGHT_MIN: f64 = 1e-12;
/// The largest `alpha`: `d` then grows by e^100 in one mean call, a wall for every purpose.
pub const ALPHA_MAX: f64 = 100.0;

/// The longest `mean_call`, `usual` and `behind`.
const YEAR: Span = Span::from_secs(366 * 86_400);

/// The `[defense]` table of a scenario and of a live configuration. Every key but `kind` may be left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What happens at a full table.
    pub kind: Kind,
    /// `T_S`, over which arrivals at a full table are counted; [`ROUND`].
    #[serde(default = "default_round")]
    pub round: Span,
    /// When an admitted call is passed on.
    #[serde(default)]
    pub forward: Forward,
    /// How a victim is chosen.
    #[serde(default)]
    pub strategy: Strategy,
    /// How readily a held call is given up.
    #[serde(default)]
    pub drop_factor: DropFactor,
    /// `PMod` at the start of a round; [`PMOD_START`].
    #[serde(default = "default_pmod_start")]
    pub pmod_start: u32,
    /// When a refused caller may try again; [`RETRY_AFTER`].
    #[serde(default = "default_retry_after")]
    pub retry_after: Span,
    /// Cap on the time in call, if any (a rival of SeVen; goes with every kind).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<MaxDuration>,
    /// Most calls held at once for one caller, if limited (a rival of SeVen; goes with every kind).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_caller: Option<u32>,
    /// Most calls held at once for one source, if limited (a rival of SeVen; goes with every kind).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_source: Option<u32>,
    /// Classes beside the built-in one; [`ClassId`] `i` is entry `i - 1`.
    #[serde(default, rename = "class", skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
    /// Phases of a connection; [`PhaseId`] `i` is entry `i`. Without any (SIP) a call is WAITING or INCALL, and its age counts.
    #[serde(default, rename = "phase", skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
}

fn default_round() -> Span {
    ROUND
}

fn default_pmod_start() -> u32 {
    PMOD_START
}

fn default_retry_after() -> Span {
    RETRY_AFTER
}

impl Default for Config {
    /// SeVen with roulette and the paper's parameters.
    fn default() -> Self {
        Self::of_kind(Kind::Seven)
    }
}

/// What happens at a full table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// No defence: everything is forwarded and counted, beyond the capacity too.
    None,
    /// Newcomers are refused.
    Refuse,
    /// SeVen: with `P1` a newcomer takes the place of a victim.
    Seven,
}

/// When an admitted call is passed on to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forward {
    /// At once, if the server has a slot.
    #[default]
    Immediate,
    /// When the round ends, if it is still in the table (the paper's way).
    RoundEnd,
}

/// How the victim is chosen among the held calls.
///
/// In a file: `"uniform"`, `"roulette"`, `"tournament"`, or a table with `kind` and, for the tournament, `size`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Each with the same probability.
    Uniform,
    /// Each with probability `d / sum of d`.
    #[default]
    Roulette,
    /// The largest `d` among `size` distinct calls drawn uniformly; ties at random.
    Tournament {
        /// Entrants; `None` is half of the capacity, at least one.
        size: Option<u32>,
    },
}

impl Strategy {
    /// Its name in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Roulette => "roulette",
            Self::Tournament { .. } => "tournament",
        }
    }

    /// Entrants of a tournament at this capacity: half of it by default (the paper's 12 of 24).
    pub(super) fn entrants(size: Option<u32>, capacity: u32) -> u32 {
        size.unwrap_or(capacity / 2).max(1)
    }

    fn build<E: de::Error>(kind: &str, size: Option<u32>) -> Result<Self, E> {
        let strategy = match kind {
            "uniform" => Self::Uniform,
            "roulette" => Self::Roulette,
            "tournament" => Self::Tournament { size },
            other => {
                return Err(E::custom(format_args!(
                    "unknown strategy `{other}`, expected uniform, roulette or tournament"
                )));
            }
        };
        match size {
            Some(_) if strategy != (Self::Tournament { size }) => Err(E::custom(format_args!(
                "`size` belongs to the tournament, not to {kind}: leave it out"
            ))),
            _ => Ok(strategy),
        }
    }
}

impl Serialize for Strategy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self::Tournament { size: Some(size) } = self else {
            return serializer.serialize_str(self.name());
        };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("kind", self.name())?;
        map.serialize_entry("size", size)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Strategy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Strategy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a strategy: uniform, roulette, tournament, or { kind = \"tournament\", size = 12 }")
            }

            fn visit_str<E: de::Error>(self, kind: &str) -> Result<Strategy, E> {
                Strategy::build(kind, None)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strategy, A::Error> {
                let (mut kind, mut size) = (None::<String>, None::<u32>);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "kind" if kind.is_none() => kind = Some(map.next_value()?),
                        "size" if size.is_none() => size = Some(map.next_value()?),
                        "kind" | "size" => {
                            return Err(de::Error::custom(format_args!("`{key}` is given twice")));
                        }
                        other => return Err(de::Error::unknown_field(other, &["kind", "size"])),
                    }
                }
                let kind = kind.ok_or_else(|| de::Error::missing_field("kind"))?;
                Strategy::build(&kind, size)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Cap on the time in call.
///
/// In a file: a duration, or `{ times_mean = 2.0 }` for that many times `drop_factor.mean_call`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxDuration {
    /// This long.
    Fixed(Span),
    /// This many times the mean call.
    TimesMean(f64),
}

impl MaxDuration {
    /// The cap with this mean call; `None` if it passes [`Span::MAX`] or is not a length.
    #[must_use]
    pub fn span(self, mean_call: Span) -> Option<Span> {
        match self {
            Self::Fixed(span) => Some(span),
            Self::TimesMean(times) => Span::from_secs_f64(times * mean_call.as_secs_f64()),
        }
    }
}

impl Serialize for MaxDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(span) => span.serialize(serializer),
            Self::TimesMean(times) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("times_mean", times)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for MaxDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = MaxDuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"12s\", or { times_mean = 2.0 }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<MaxDuration, E> {
                text.parse().map(MaxDuration::Fixed).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MaxDuration, A::Error> {
                let mut times = None;
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "times_mean" if times.is_none() => times = Some(map.next_value()?),
                        "times_mean" => {
                            return Err(de::Error::custom("`times_mean` is given twice"));
                        }
                        other => return Err(de::Error::unknown_field(other, &["times_mean"])),
                    }
                }
                times
                    .map(MaxDuration::TimesMean)
                    .ok_or_else(|| de::Error::missing_field("times_mean"))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A class of calls that the front tells apart: emergency numbers, a trusted trunk, a tariff.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// By which the front and a reload find it; not empty, not `default`.
    pub name: String,
    /// Multiplies the drop factor; more than 0, 1 unless given.
    #[serde(default = "default_factor")]
    pub factor: f64,
    /// Never a victim, never cut by `max_duration`.
    #[serde(default)]
    pub exempt: bool,
    /// Whether the defence may refuse it.
    #[serde(default)]
    pub admit: Admit,
}

fn default_factor() -> f64 {
    1.0
}

impl Class {
    /// A class as good as the built-in one.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_string(),
            factor: default_factor(),
            exempt: false,
            admit: Admit::Normal,
        }
    }
}

/// Whether a class may be refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Admit {
    /// As any other.
    #[default]
    Normal,
    /// Never: neither `P1` nor the limits apply, it does not wait for the end of the round, it goes first when a slot frees,
    /// and where no held call may be dropped for it, it goes beyond the capacity.
    Always,
}

impl Config {
    /// All defaults, for this kind.
    #[must_use]
    pub fn of_kind(kind: Kind) -> Self {
        Self {
            kind,
            round: ROUND,
            forward: Forward::default(),
            strategy: Strategy::default(),
            drop_factor: DropFactor::default(),
            pmod_start: PMOD_START,
            retry_after: RETRY_AFTER,
            max_duration: None,
            calls_per_caller: None,
            calls_per_source: None,
            classes: Vec::new(),
            phases: Vec::new(),
        }
    }

    /// The phase of this name.
    #[must_use]
    pub fn phase_id(&self, name: &str) -> Option<PhaseId> {
        let index = self.phases.iter().position(|phase| phase.name == name)?;
        u8::try_from(index).ok().map(PhaseId)
    }

    /// The class of this name, `default` for the built-in one.
    #[must_use]
    pub fn class_id(&self, name: &str) -> Option<ClassId> {
        if name == "default" {
            return Some(ClassId::DEFAULT);
        }
        let index = self.classes.iter().position(|class| class.name == name)?;
        u16::try_from(index + 1).ok().map(ClassId)
    }

    /// The name of a class; `None` for one that this configuration does not have.
    #[must_use]
    pub fn class_name(&self, class: ClassId) -> Option<&str> {
        match class {
            ClassId::DEFAULT => Some("default"),
            ClassId(id) => self
                .classes
                .get(usize::from(id) - 1)
                .map(|class| class.name.as_str()),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    ///
    /// The first key that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let d = &self.drop_factor;
        span(
            "round",
            self.round,
            Span::from_millis(1),
            Span::from_secs(3_600),
        )?;
        span(
            "retry_after",
            self.retry_after,
            Span::from_nanos(1),
            Span::from_secs(86_400),
        )?;
        span(
            "drop_factor.mean_call",
            d.mean_call,
            Span::from_millis(1),
            YEAR,
        )?;
        number("drop_factor.waiting", d.waiting, WEIGHT_MIN, WEIGHT_MAX)?;
        number("drop_factor.in_call", d.in_call, WEIGHT_MIN, WEIGHT_MAX)?;
        number("drop_factor.alpha", d.alpha, 0.0, ALPHA_MAX)?;
        if d.scale != 0.0 {
            let expected = format!("0, or a number from {WEIGHT_MIN:e} to {WEIGHT_MAX:e}");
            ensure(
                "drop_factor.scale",
                (WEIGHT_MIN..=WEIGHT_MAX).contains(&d.scale),
                &d.scale,
                &expected,
            )?;
        }
        if let Strategy::Tournament { size: Some(0) } = self.strategy {
            return fail("strategy.size", &0, "at least 1 entrant");
        }
        match self.max_duration {
            Some(MaxDuration::Fixed(cap)) => {
                span("max_duration", cap, Span::from_millis(1), Span::MAX)?;
            }
            Some(MaxDuration::TimesMean(times)) => {
                number("max_duration.times_mean", times, 1e-3, 1e6)?;
            }
            None => {}
        }
        for (key, limit) in [
            ("calls_per_caller", self.calls_per_caller),
            ("calls_per_source", self.calls_per_source),
        ] {
            if limit == Some(0) {
                return fail(key, &0, "at least 1, or no such key for no limit");
            }
        }
        self.validate_classes()?;
        self.validate_phases()
    }

    fn validate_classes(&self) -> Result<(), ConfigError> {
        if self.classes.len() > CLASSES_MAX {
            return fail(
                "class",
                &format_args!("{} tables", self.classes.len()),
                &format!("at most {CLASSES_MAX}"),
            );
        }
        for (index, class) in self.classes.iter().enumerate() {
            let key = format!("class[{index}].name");
            let quoted = format!("`{}`", class.name);
            ensure(
                &key,
                !class.name.is_empty(),
                &"empty",
                "a name that the front can refer to",
            )?;
            ensure(
                &key,
                class.name != "default",
                &quoted,
                "another name: `default` is the built-in class",
            )?;
            let earlier = self
                .classes
                .iter()
                .take(index)
                .any(|other| other.name == class.name);
            ensure(&key, !earlier, &quoted, "a name that no earlier class has")?;
            number(
                &format!("class[{index}].factor"),
                class.factor,
                WEIGHT_MIN,
                WEIGHT_MAX,
            )?;
        }
        Ok(())
    }

    fn validate_phases(&self) -> Result<(), ConfigError> {
        if self.phases.is_empty() {
            return Ok(());
        }
        if self.phases.len() > PHASES_MAX {
            let value = format!("{} tables", self.phases.len());
            return fail("phase", &value, &format!("at most {PHASES_MAX}"));
        }
        for (index, phase) in self.phases.iter().enumerate() {
            let key = |field: &str| format!("phase[{index}].{field}");
            let earlier = &self.phases[..index];
            let taken = earlier.iter().any(|other| other.name == phase.name);
            ensure(
                &key("name"),
                !phase.name.is_empty() && !taken,
                &format_args!("`{}`", phase.name),
                "a name that no earlier phase has",
            )?;
            number(&key("weight"), phase.weight, WEIGHT_MIN, WEIGHT_MAX)?;
            if phase.rate != 0.0 {
                let expected = format!("0, or units a second from {RATE_MIN:e} to {RATE_MAX:e}");
                let holds = (RATE_MIN..=RATE_MAX).contains(&phase.rate);
                ensure(&key("rate"), holds, &phase.rate, &expected)?;
            }
            if let Some(usual) = phase.usual {
                span(&key("usual"), usual, Span::from_millis(1), YEAR)?;
            }
            span(&key("behind"), phase.behind, Span::ZERO, YEAR)?;
        }
        let mut factors: Vec<f64> = self.classes.iter().map(|class| class.factor).collect();
        factors.push(default_factor());
        factors.sort_by(f64::total_cmp);
        factors.dedup();
        let bands = factors.len() * self.phases.len();
        ensure(
            "phase",
            bands <= BANDS_MAX,
            &format_args!(
                "{} tables beside {} factors of classes",
                self.phases.len(),
                factors.len()
            ),
            &format!("at most {BANDS_MAX} for both multiplied: give some classes the same factor"),
        )?;
        ensure(
            "max_duration",
            self.max_duration.is_none(),
            &"given beside phases",
            "no such key: a phase's `usual` says how long is too long, and timeouts cap it",
        )
    }

    /// [`validate`](Self::validate), and what depends on the capacity `k`.
    ///
    /// # Errors
    ///
    /// The first key that is out of its range.
    pub fn validate_for(&self, capacity: u32) -> Result<(), ConfigError> {
        if !(1..=CAPACITY_MAX).contains(&capacity) {
            return fail(
                "capacity",
                &capacity,
                &format!("a number of calls from 1 to {CAPACITY_MAX}"),
            );
        }
        self.validate()?;
        match self.strategy {
            Strategy::Tournament { size: Some(size) } if size > capacity => fail(
                "strategy.size",
                &size,
                &format!(
                    "at most the capacity, {capacity}: a tournament cannot have more entrants than calls"
                ),
            ),
            _ => Ok(()),
        }
    }
}
