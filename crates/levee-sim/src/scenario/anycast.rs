//! What a scenario says of a service at several sites: keys, defaults, and the model's setup from them.
//!
//! `service.kind = "anycast"`. The playbook is a file, or stands in the scenario. All of its tables but `[check]`, `[[lane]]` and
//! `[[query]]` are its own.

mod places;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use levee_config::{Problems, Variant};
use levee_policy::Span;
use levee_policy::reroute::{Config, Kind, Playbook, SiteId};
use serde::{Deserialize, de};

use self::places::Places;
use super::raw::{RawDuration, RawDurationKind};
use super::read::{
    Choice, Defense, LISTS_OF_RUN, LaneChoice, Reader, digits, in_order, std as duration,
};
use super::{Honest, ModelSettings, Point, Run, Scenario, Service, ServiceKind, Setup};
use crate::model::anycast as model;
use crate::schedule::{Arrivals, Durations};

/// RIPE Atlas asks a root server some 2,500 times a minute (section 4.1 of the paper).
const KNOWN_GOOD: f64 = 2_500.0 / 60.0;
/// The error of a forecast (our choice; `levee anycast estimate` measures it).
const ERROR: f64 = 0.05;
/// For how long a forecast errs the same way (our choice: seasons are wrong by hours).
const LASTS: Span = Span::from_secs(3_600);
/// The middle of a site's day (our choice).
const PEAK: Span = Span::from_secs(14 * 3_600);
/// When the mean class has come to its new site (our choice: the timer between updates of one neighbour, RFC 4271, section 10).
const CONVERGENCE: Durations = Durations::Exponential(Duration::from_secs(30));
/// How long it takes to change the routers' configuration (our choice).
const DEPLOY: Span = Span::from_secs(5);
const INTERVAL: Span = Span::from_secs(60);
/// As long as the paper waits before it goes on to another approach.
const CALM: Span = Span::from_secs(300);
/// After this an update's penalty has decayed to a quarter (RFC 2439, with the usual half-life of 15 minutes).
const FLAP: Span = Span::from_secs(1_800);
/// An attack that has no `length` lasts to the end.
const ENDLESS: Span = model::TIME_MAX;

/// Keys of a lane that no other service has.
pub(super) const OF_LANE: &[&str] = &["play"];
/// Keys that hold a list by themselves.
const LISTS_OF_SERVICE: &[&str] = &["kind", "site", "class", "play"];

impl Setup {
    /// What the model of the loop takes; `None` for another service.
    #[must_use]
    pub fn anycast_model(&self) -> Option<model::Setup> {
        let mut setup = model::Setup::clone(self.anycast.as_deref()?);
        setup.seed = self.run.seed;
        Some(setup)
    }
}

impl Defense for Config {
    fn lane_name(defense: Option<&Self>) -> String {
        let name = match defense.map(|config| config.kind) {
            None => "undefended",
            Some(Kind::Observe) => "observe",
            Some(Kind::Reroute) => "reroute",
        };
        name.to_owned()
    }
}

/// Which tables there are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "only that they are there, and no others, is looked at"
)]
struct Tables {
    service: de::IgnoredAny,
    honest: de::IgnoredAny,
    attack: Option<de::IgnoredAny>,
    network: Option<de::IgnoredAny>,
    measure: Option<de::IgnoredAny>,
    run: de::IgnoredAny,
    defense: Option<de::IgnoredAny>,
    lane: Option<de::IgnoredAny>,
    check: Option<de::IgnoredAny>,
    query: Option<de::IgnoredAny>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNormal {
    load: f64,
    #[serde(default)]
    daily: f64,
    #[serde(default = "peak")]
    peak: Span,
    clock: Option<Span>,
    #[serde(default)]
    noise: f64,
    #[serde(default = "error")]
    forecast_error: f64,
    #[serde(default)]
    known_good: RawKnownGood,
}

fn peak() -> Span {
    PEAK
}

fn error() -> f64 {
    ERROR
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawKnownGood {
    rate: f64,
    error: f64,
    claims: Option<f64>,
    lasts: Span,
    located: bool,
}

impl Default for RawKnownGood {
    fn default() -> Self {
        Self {
            rate: KNOWN_GOOD,
            error: ERROR,
            claims: None,
            lasts: LASTS,
            located: true,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAttack {
    #[expect(dead_code, reason = "there is one kind")]
    kind: AttackKind,
    load: f64,
    #[serde(default)]
    from: RawSources,
    #[serde(default)]
    shape: RawShape,
    #[serde(default)]
    start: Span,
    length: Option<Span>,
    moves: Option<Span>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AttackKind {
    Flood,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSources {
    kind: SourcesKind,
    classes: Option<u32>,
    site: Option<String>,
    of: Option<BTreeMap<String, f64>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SourcesKind {
    #[default]
    Spread,
    Concentrated,
    Site,
    Sites,
    Classes,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawShape {
    kind: ShapeKind,
    on: Option<Span>,
    off: Option<Span>,
    over: Option<Span>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ShapeKind {
    #[default]
    Constant,
    Pulse,
    Ramp,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNetwork {
    convergence: Option<RawDuration>,
    #[serde(default)]
    transient_loss: f64,
    deploy: Option<Span>,
    #[serde(default)]
    deploy_failure: f64,
    #[serde(default)]
    wrong: f64,
    #[serde(default)]
    drift: f64,
    #[serde(default)]
    churn: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMeasure {
    interval: Option<Span>,
    #[serde(default)]
    lost: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRun {
    time: Span,
    #[serde(default = "first_seed")]
    seed: u64,
    calm: Option<Span>,
    flap: Option<Span>,
}

fn first_seed() -> u64 {
    1
}

/// An attack whose sites and classes are still names.
#[derive(Clone, Debug)]
struct Attacked {
    raw: RawAttack,
    shape: model::Shape,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    time: Span,
    seed: u64,
    calm: Span,
    flap: Span,
}

/// All readings of all tables.
struct Swept<'d, 't> {
    service: Vec<Choice<'d, 't, Places>>,
    honest: Vec<Choice<'d, 't, model::Honest>>,
    attack: Vec<Choice<'d, 't, Option<Attacked>>>,
    network: Vec<Choice<'d, 't, model::Network>>,
    measure: Vec<Choice<'d, 't, model::Measuring>>,
    run: Vec<Choice<'d, 't, Times>>,
    lanes: Vec<LaneChoice<'d, 't, Config>>,
}

pub(super) fn scenario(mut reader: Reader<'_, '_>) -> Result<Scenario, Problems> {
    let _: Tables = reader.document.read("")?;
    let tables = Swept {
        service: reader.table("service", LISTS_OF_SERVICE, places::places)?,
        honest: reader.table("honest", &[], |_, _, raw: &RawNormal| Some(raw.checked()))?,
        attack: reader.table_if_any("attack", &[], attacked)?,
        network: reader.table("network", &[], network)?,
        measure: reader.table("measure", &[], |_, _, raw: &RawMeasure| {
            Some(model::Measuring {
                interval: raw.interval.unwrap_or(INTERVAL),
                lost: raw.lost,
            })
        })?,
        run: reader.table("run", LISTS_OF_RUN, |_, _, raw: &RawRun| {
            Some(Times {
                time: raw.time,
                seed: raw.seed,
                calm: raw.calm.unwrap_or(CALM),
                flap: raw.flap.unwrap_or(FLAP),
            })
        })?,
        lanes: reader.lanes()?,
    };
    reader.finish(|reader| points(reader, &tables))
}

impl RawNormal {
    fn checked(&self) -> model::Honest {
        let known = &self.known_good;
        model::Honest {
            load: self.load,
            daily: self.daily,
            peak: self.peak,
            clock: self.clock.unwrap_or(self.peak),
            noise: self.noise,
            error: self.forecast_error,
            known_good: model::KnownGood {
                rate: known.rate,
                error: known.error,
                claims: known.claims.unwrap_or(known.error),
                lasts: known.lasts,
                located: known.located,
            },
        }
    }
}

fn attacked<'d, 't>(
    reader: &mut Reader<'d, 't>,
    at: &Variant<'d, 't>,
    raw: &RawAttack,
) -> Option<Attacked> {
    use ShapeKind::{Pulse, Ramp};
    use SourcesKind::{Classes, Concentrated, Site, Sites};
    let (from, shape) = (&raw.from, &raw.shape);
    for (key, given, wanted) in [
        (
            "from.classes",
            from.classes.is_some(),
            from.kind == Concentrated,
        ),
        ("from.site", from.site.is_some(), from.kind == Site),
        (
            "from.of",
            from.of.is_some(),
            matches!(from.kind, Sites | Classes),
        ),
        ("shape.on", shape.on.is_some(), shape.kind == Pulse),
        ("shape.off", shape.off.is_some(), shape.kind == Pulse),
        ("shape.over", shape.over.is_some(), shape.kind == Ramp),
    ] {
        let (table, field) = key.split_once('.').unwrap_or(("", key));
        if given && !wanted {
            let remedy = "take it out, or change `kind`";
            let found = format!("`{field}` for a `{table}` of this kind");
            reader.refuse(at, key, found, "only keys that this kind has", remedy);
            return None;
        }
        if wanted && !given {
            let remedy = "add it: classes = 3, site = \"AMS\", of = { AMS = 0.7, BOS = 0.3 }; on = \"5m\", off = \"2m\", over = \"30m\"";
            let found = format!("a `{table}` of this kind without `{field}`");
            reader.refuse(at, table, found, &format!("`{field}`"), remedy);
            return None;
        }
    }
    let shape = match shape.kind {
        ShapeKind::Constant => model::Shape::Constant,
        Pulse => model::Shape::Pulse {
            on: shape.on.unwrap_or_default(),
            off: shape.off.unwrap_or_default(),
        },
        Ramp => model::Shape::Ramp {
            over: shape.over.unwrap_or_default(),
        },
    };
    let raw = raw.clone();
    Some(Attacked { raw, shape })
}

impl Attacked {
    /// With the numbers of the sites and classes of these places; the key of a name that is none of theirs, and what there is.
    fn of(&self, places: &Places) -> Result<model::Attack, (&'static str, String, String)> {
        let raw = &self.raw;
        let sites = places.playbook.sites();
        let names: Vec<&str> = sites.names().collect();
        let shares = |names: &[&str], of: &BTreeMap<String, f64>| {
            let mut shares = vec![0.0; names.len()];
            for (name, share) in of {
                let Some(at) = names.iter().position(|known| known == name) else {
                    let expected = match names {
                        [] => "sites: the classes of a playbook in a file have no names".to_owned(),
                        _ => format!("one of {}", names.join(", ")),
                    };
                    return Err(("from.of", format!("`{name}`"), expected));
                };
                shares[at] = *share;
            }
            Ok(shares)
        };
        let of = raw.from.of.clone().unwrap_or_default();
        let from = match raw.from.kind {
            SourcesKind::Spread => model::Sources::Spread,
            SourcesKind::Concentrated => model::Sources::Concentrated {
                classes: raw.from.classes.unwrap_or_default(),
            },
            SourcesKind::Site => {
                let name = raw.from.site.clone().unwrap_or_default();
                let shares = shares(&names, &BTreeMap::from([(name, 1.0)]));
                let shares =
                    shares.map_err(|(_, found, expected)| ("from.site", found, expected))?;
                let at = shares.iter().position(|share| *share > 0.0);
                model::Sources::Site(SiteId(at.unwrap_or_default() as u8))
            }
            SourcesKind::Sites => model::Sources::Shares(shares(&names, &of)?),
            SourcesKind::Classes => {
                let names: Vec<&str> = places.classes.iter().map(String::as_str).collect();
                model::Sources::Classes(shares(&names, &of)?)
            }
        };
        Ok(model::Attack {
            load: raw.load,
            from,
            shape: self.shape,
            start: raw.start,
            length: raw.length.unwrap_or(ENDLESS),
            moves: raw.moves,
        })
    }
}

fn network<'d, 't>(
    reader: &mut Reader<'d, 't>,
    at: &Variant<'d, 't>,
    raw: &RawNetwork,
) -> Option<model::Network> {
    let convergence = match &raw.convergence {
        None => CONVERGENCE,
        Some(RawDuration {
            kind: RawDurationKind::File,
            ..
        }) => {
            let remedy = "write { kind = \"lognormal\", mean = \"30s\", sigma = 1.0 }";
            let found = "times of a file";
            reader.refuse(at, "convergence.kind", found, "a law", remedy);
            return None;
        }
        Some(raw) => reader.durations(at, "convergence", raw)?,
    };
    Some(model::Network {
        convergence,
        transient_loss: raw.transient_loss,
        deploy: raw.deploy.unwrap_or(DEPLOY),
        deploy_failure: raw.deploy_failure,
        wrong: raw.wrong,
        drift: raw.drift,
        // A day.
        churn: raw.churn / 86_400.0,
    })
}

/// All combinations, and how many lanes each has.
fn points<'d, 't>(
    reader: &mut Reader<'d, 't>,
    tables: &Swept<'d, 't>,
) -> Result<(Vec<Point>, usize), Problems> {
    let mut counts = [
        ("service", tables.service.len()),
        ("honest", tables.honest.len()),
        ("attack", tables.attack.len()),
        ("network", tables.network.len()),
        ("measure", tables.measure.len()),
        ("run", tables.run.len()),
    ];
    let total = reader.combinations(&mut counts, tables.lanes.len())?;
    let mut points = Vec::with_capacity(total * tables.lanes.len());
    for n in 0..total {
        let digits = digits(n, &counts);
        let of = |key| digits.get(key).copied().unwrap_or_default();
        let (Some(service), Some(honest), Some(attack), Some(network), Some(measure), Some(run)) = (
            tables.service.get(of("service")),
            tables.honest.get(of("honest")),
            tables.attack.get(of("attack")),
            tables.network.get(of("network")),
            tables.measure.get(of("measure")),
            tables.run.get(of("run")),
        ) else {
            continue;
        };
        let parts = [
            ("service", &service.at),
            ("honest", &honest.at),
            ("attack", &attack.at),
            ("network", &network.at),
            ("measure", &measure.at),
            ("run", &run.at),
        ];
        let at = in_order(&counts, &parts);
        let sources = attack
            .value
            .as_ref()
            .map(|attack| attack.of(&service.value));
        let own = match sources.transpose() {
            Ok(own) => own,
            Err((key, found, expected)) => {
                let remedy =
                    "write the name as it is written in [[service.site]] or [[service.class]]";
                reader.refuse(&attack.variant, key, found, &expected, remedy);
                continue;
            }
        };
        for lane in &tables.lanes {
            let places = &service.value;
            let Some(play) = announced(reader, &places.playbook, lane) else {
                continue;
            };
            let model = model::Setup {
                playbook: Arc::clone(&places.playbook),
                world: Arc::clone(&places.world),
                sites: places.sites.clone(),
                honest: honest.value,
                attack: own.clone(),
                network: network.value.clone(),
                measure: measure.value,
                defense: lane.raw.defense.clone(),
                play,
                calm: run.value.calm,
                flap: run.value.flap,
                time: run.value.time,
                seed: run.value.seed,
            };
            let variants = [
                ("honest", &honest.variant),
                ("attack", &attack.variant),
                ("network", &network.variant),
                ("measure", &measure.variant),
                ("run", &run.variant),
            ];
            check(reader, &model, (&service.variant, &variants), lane);
            points.push(Point {
                lane: lane.name.clone(),
                at: [&at[..], &lane.at].concat(),
                setup: setup(model),
            });
        }
    }
    Ok((points, tables.lanes.len()))
}

/// The play that a lane has from the start on.
fn announced<'d, 't>(
    reader: &mut Reader<'d, 't>,
    playbook: &Playbook,
    lane: &LaneChoice<'d, 't, Config>,
) -> Option<usize> {
    let (Some(name), Some(at)) = (&lane.raw.play, &lane.variant) else {
        return Some(0);
    };
    if lane.raw.defense.is_some() {
        let remedy = "take one of the two out: a responder begins with the first play";
        reader.refuse(
            at,
            "play",
            "both `play` and `defense`",
            "one of the two",
            remedy,
        );
        return None;
    }
    let play = playbook.find(name);
    if play.is_none() {
        // All names of a playbook of thousands are no help.
        let names = playbook
            .plays()
            .iter()
            .map(|play| play.routing.name.as_str());
        let names: Vec<&str> = names.take(20).collect();
        let expected = format!("a play of the playbook: {}", names.join(", "));
        let remedy = "write the name as the playbook does";
        reader.refuse(at, "play", format!("`{name}`"), &expected, remedy);
    }
    play
}

/// A point's setup, with what reports of any service ask for.
fn setup(model: model::Setup) -> Setup {
    Setup {
        service: Service {
            kind: ServiceKind::Anycast,
            capacity: 1,
        },
        defense: None,
        honest: Honest {
            rate: model.honest.load,
            durations: Durations::Fixed(Duration::ZERO),
            callers: 1,
        },
        attack: None,
        run: Run {
            time: duration(model.time),
            warmup: Duration::ZERO,
            delay: Duration::ZERO,
            ring: Duration::ZERO,
            ring_timeout: Duration::ZERO,
            arrivals: Arrivals::default(),
            seed: model.seed,
            repeat: 1,
            scale: 1.0,
        },
        model: ModelSettings::default(),
        http: None,
        thinner: None,
        anycast: Some(Box::new(model)),
    }
}

/// Refuses what the model cannot run.
fn check<'d, 't>(
    reader: &mut Reader<'d, 't>,
    setup: &model::Setup,
    (service, others): (&Variant<'d, 't>, &[(&str, &Variant<'d, 't>)]),
    lane: &LaneChoice<'d, 't, Config>,
) {
    let docs = "docs/model-anycast.md lists the keys of an anycast service, with their ranges";
    match setup.check() {
        Ok(()) => {}
        Err(model::SetupError::Value { key, expected }) => {
            let (table, rest) = key.split_once('.').unwrap_or(("", key));
            let own = others.iter().find(|(name, _)| *name == table);
            let at = own.map_or(service, |(_, variant)| variant);
            reader.refuse(at, rest, "out of range", expected, docs);
        }
        Err(model::SetupError::Defense(error)) => {
            let at = lane.variant.as_ref().unwrap_or(service);
            let key = format!("{}{}", lane.prefix, error.key);
            reader.refuse(at, &key, error.value, &error.expected, docs);
        }
    }
}
