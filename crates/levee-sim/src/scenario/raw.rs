//! The tables of a scenario as they are written, with types and defaults but no checks of their meaning.

use std::fmt;

use levee_config::Document;
use levee_config::Problems;
use levee_policy::Span;
use levee_policy::selective::Config;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::Query;
use super::lists::OneOrMany;
use crate::schedule::Arrivals;

/// All tables but `[defense]`, whose `strategy` may be a list.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) service: RawService,
    pub(super) honest: RawHonest,
    pub(super) attack: Option<RawAttack>,
    pub(super) run: RawRun,
    pub(super) lane: Vec<RawLane>,
    pub(super) query: Vec<Query>,
}

impl Raw {
    /// Reads table by table: one that is refused does not make another look as if it were missing.
    pub(super) fn read(document: &Document<'_>) -> Result<Self, Problems> {
        let _: Tables = document.read("")?;
        Ok(Self {
            service: document.read("service")?,
            honest: document.read("honest")?,
            attack: optional(document, "attack")?,
            run: document.read("run")?,
            lane: optional(document, "lane")?.unwrap_or_default(),
            query: optional(document, "query")?.unwrap_or_default(),
        })
    }
}

fn optional<T: de::DeserializeOwned>(
    document: &Document<'_>,
    key: &str,
) -> Result<Option<T>, Problems> {
    document.has(key).then(|| document.read(key)).transpose()
}

/// Which tables there are.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "only that they are there, and no others, is looked at"
)]
struct Tables {
    service: de::IgnoredAny,
    honest: de::IgnoredAny,
    attack: Option<de::IgnoredAny>,
    run: de::IgnoredAny,
    defense: Option<de::IgnoredAny>,
    lane: Option<de::IgnoredAny>,
    query: Option<de::IgnoredAny>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawService {
    #[serde(rename = "kind")]
    pub(super) _kind: ServiceKind,
    pub(super) capacity: u32,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ServiceKind {
    Sip,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLane {
    pub(super) name: Option<String>,
    pub(super) defense: Option<Config>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHonest {
    pub(super) rate: RawRate,
    pub(super) duration: OneOrMany<RawDuration>,
    #[serde(default = "many")]
    pub(super) callers: u32,
}

/// So many callers that hardly one calls twice.
fn many() -> u32 {
    100_000_000
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDuration {
    pub(super) kind: RawDurationKind,
    pub(super) mean: Option<Span>,
    pub(super) sigma: Option<f64>,
    pub(super) path: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawDurationKind {
    Exponential,
    Lognormal,
    Fixed,
    File,
}

impl RawDurationKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Lognormal => "lognormal",
            Self::Fixed => "fixed",
            Self::File => "file",
        }
    }
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAttack {
    #[serde(rename = "kind")]
    pub(super) _kind: AttackKind,
    pub(super) share: OneOrMany<f64>,
    #[serde(default = "many")]
    pub(super) attackers: u32,
    pub(super) redial: Option<Span>,
}

impl Default for RawAttack {
    /// No attack.
    fn default() -> Self {
        Self {
            _kind: AttackKind::CoordinatedCall,
            share: OneOrMany {
                values: vec![0.0],
                is_list: false,
            },
            attackers: many(),
            redial: None,
        }
    }
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AttackKind {
    CoordinatedCall,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRun {
    pub(super) time: Span,
    #[serde(default)]
    pub(super) warmup: Span,
    #[serde(default)]
    pub(super) delay: Span,
    #[serde(default = "ring")]
    pub(super) ring: Span,
    #[serde(default = "ring_timeout")]
    pub(super) ring_timeout: Span,
    #[serde(default)]
    pub(super) arrivals: Arrivals,
    #[serde(default = "one")]
    pub(super) seed: u64,
    #[serde(default = "one_run")]
    pub(super) repeat: u32,
    #[serde(default = "real_time")]
    pub(super) scale: f64,
}

/// The released model's 0.3 of a unit would be long for calls of 5 units; a machine answers sooner.
fn ring() -> Span {
    Span::from_millis(100)
}

fn ring_timeout() -> Span {
    Span::from_secs(30)
}

fn one() -> u64 {
    1
}

fn one_run() -> u32 {
    1
}

fn real_time() -> f64 {
    1.0
}

/// `"3.1/s"`, or `{ erlang = { blocking = 0.01 } }`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RawRate {
    PerSecond(f64),
    Erlang { blocking: f64 },
}

impl<'de> Deserialize<'de> for RawRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RateVisitor;

        impl<'de> Visitor<'de> for RateVisitor {
            type Value = RawRate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "calls for a time such as \"3.1/s\", or { erlang = { blocking = 0.01 } }",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RawRate, E> {
                let rate = text.split_once('/').and_then(|(calls, unit)| {
                    let seconds = match unit.trim() {
                        "s" => 1.0,
                        "m" => 60.0,
                        "h" => 3_600.0,
                        _ => return None,
                    };
                    Some(calls.trim().parse::<f64>().ok()? / seconds)
                });
                rate.map(RawRate::PerSecond)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawRate, A::Error> {
                #[derive(serde::Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Table {
                    erlang: Erlang,
                }
                #[derive(serde::Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Erlang {
                    blocking: f64,
                }
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RawRate::Erlang {
                    blocking: table.erlang.blocking,
                })
            }
        }

        deserializer.deserialize_any(RateVisitor)
    }
}
