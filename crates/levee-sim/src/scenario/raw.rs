//! The tables of a scenario as they are written, with types and defaults but no checks of their meaning.
//!
//! A list that is swept is one value here: each combination is read by itself.

use std::fmt;

use levee_policy::Span;
use levee_policy::selective::Config;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::http::{RawBandwidth, RawInCall, RawRetry, RawSlow, RawTimeouts};
use super::{AttackKind, Method, NextStep, Preset, ServiceKind};
use crate::schedule::Arrivals;

/// Which tables there are.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "only that they are there, and no others, is looked at"
)]
pub(super) struct Tables {
    service: de::IgnoredAny,
    honest: de::IgnoredAny,
    attack: Option<de::IgnoredAny>,
    run: de::IgnoredAny,
    defense: Option<de::IgnoredAny>,
    lane: Option<de::IgnoredAny>,
    model: Option<de::IgnoredAny>,
    check: Option<de::IgnoredAny>,
    query: Option<de::IgnoredAny>,
}

#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawService {
    pub(super) kind: ServiceKind,
    pub(super) capacity: u32,
    pub(super) backlog: Option<u32>,
    pub(super) send_buffer: Option<u32>,
    pub(super) segment: Option<u32>,
}

/// A `[[lane]]`, whose defence is a `D`.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLane<D = Config> {
    pub(super) name: Option<String>,
    pub(super) defense: Option<D>,
    pub(super) timeouts: Option<RawTimeouts>,
    pub(super) in_call: Option<RawInCall>,
    pub(super) play: Option<String>,
}

impl<D> RawLane<D> {
    pub(super) fn undefended() -> Self {
        Self {
            name: None,
            defense: None,
            timeouts: None,
            in_call: None,
            play: None,
        }
    }
}

#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHonest {
    pub(super) rate: RawRate,
    pub(super) duration: RawDuration,
    #[serde(default = "many")]
    pub(super) callers: u32,
    pub(super) headers: Option<u32>,
    pub(super) header_pieces: Option<u32>,
    pub(super) body: Option<u32>,
    pub(super) response: Option<u32>,
    pub(super) bandwidth: Option<RawBandwidth>,
    pub(super) slow: Option<RawSlow>,
    pub(super) patience: Option<Span>,
    pub(super) retry: Option<RawRetry>,
}

/// So many callers that hardly one calls twice.
pub(super) fn many() -> u32 {
    100_000_000
}

#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDuration {
    pub(super) kind: RawDurationKind,
    pub(super) mean: Option<Span>,
    pub(super) sigma: Option<f64>,
    pub(super) shape: Option<f64>,
    pub(super) path: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawDurationKind {
    Exponential,
    Lognormal,
    Gamma,
    Weibull,
    Fixed,
    File,
}

impl RawDurationKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Lognormal => "lognormal",
            Self::Gamma => "gamma",
            Self::Weibull => "weibull",
            Self::Fixed => "fixed",
            Self::File => "file",
        }
    }
}

#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAttack {
    pub(super) kind: AttackKind,
    pub(super) share: Option<f64>,
    pub(super) attackers: Option<u32>,
    pub(super) redial: Option<Span>,
    pub(super) ramp: Option<Span>,
    pub(super) every: Option<Span>,
    pub(super) bytes: Option<u32>,
    pub(super) response: Option<u32>,
    pub(super) service: Option<Span>,
}

#[derive(Clone, Debug, serde::Deserialize)]
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

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawModel {
    pub(super) preset: Preset,
    pub(super) quirks: Vec<String>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawCheck {
    pub(super) confidence: Option<f64>,
    pub(super) precision: Option<f64>,
    pub(super) relative_precision: Option<f64>,
    pub(super) method: Option<Method>,
    pub(super) runs: Option<u64>,
    pub(super) min_runs: Option<u64>,
    pub(super) max_runs: Option<u64>,
    pub(super) time_budget: Option<Span>,
    pub(super) simultaneous: bool,
    pub(super) sprt: RawSprt,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSprt {
    pub(super) indifference: Option<f64>,
    pub(super) alpha: Option<f64>,
    pub(super) beta: Option<f64>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawQuery {
    pub(super) name: String,
    pub(super) formula: Option<String>,
    pub(super) quatex: Option<String>,
    pub(super) quatex_file: Option<String>,
    pub(super) step: Option<NextStep>,
    pub(super) hypothesis: Option<String>,
    pub(super) of: Option<String>,
    pub(super) quantile: Option<f64>,
    #[serde(default)]
    pub(super) steady: bool,
    pub(super) batches: Option<u32>,
    pub(super) warmup: Option<Span>,
    pub(super) every: Option<Span>,
    pub(super) confidence: Option<f64>,
    pub(super) precision: Option<f64>,
    pub(super) relative_precision: Option<f64>,
    pub(super) method: Option<Method>,
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
