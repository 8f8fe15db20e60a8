//! From the text to a checked scenario.
//!
//! Each table is read in each of its variants first, and checked by itself. Then the combinations are made, and what depends on
//! two tables is checked for each.

use std::collections::BTreeMap;
use std::time::Duration;

use levee_config::{Document, Problem, Problems, Variant};
use levee_policy::Span;
use levee_policy::selective::Config;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::measured::FileError;
use super::raw::{
    RawAttack, RawHonest, RawLane, RawModel, RawRate, RawRun, RawService, Tables, many,
};
use super::{
    AtValue, Attack, Attackers, Honest, ModelSettings, Point, Run, Scenario, Service, ServiceKind,
    Setup, anycast, http, lane_name, questions, thinner,
};
use crate::model::sip::Quirks;
use crate::schedule::Durations;

/// Most calls that one run plans.
pub(super) const CALLS_MAX: f64 = 5e6;
/// Most combinations of a scenario.
const POINTS_MAX: usize = 10_000;
/// Most attackers of a fixed number, so that a real run has room for all of their calls at once.
const ATTACKERS_MAX: f64 = 100_000.0;
/// A day: longest of most times.
pub(super) const DAY: f64 = 86_400.0;

/// Gets the text of a file that a scenario names.
pub(super) type ReadFile<'r> = &'r dyn Fn(&str) -> std::io::Result<String>;

/// Keys that hold a list by themselves, and so are not swept.
const LISTS_OF_DEFENSE: &[&str] = &["class", "phase", "level"];
const LISTS_OF_LANE: &[&str] = &["name", "defense.class", "defense.phase", "defense.level"];
/// All points are run by one model.
pub(super) const LISTS_OF_SERVICE: &[&str] = &["kind"];
const LISTS_OF_MODEL: &[&str] = &["quirks"];
/// One seed makes all points comparable: `repeat` and a check take those after it.
pub(super) const LISTS_OF_RUN: &[&str] = &["seed"];

pub(super) fn scenario(file: &str, text: &str, read: ReadFile<'_>) -> Result<Scenario, Problems> {
    let document = Document::parse(file, text)?;
    let kind = document.text("service.kind");
    let is_anycast = kind.is_some_and(|kind| kind.text == "anycast");
    if !is_anycast {
        let _: Tables = document.read("")?;
    }
    let mut reader = Reader {
        document: &document,
        read,
        kind: ServiceKind::Sip,
        thins: document.has("service.rate"),
        files: BTreeMap::new(),
        loads: BTreeMap::new(),
        problems: Vec::new(),
    };
    if is_anycast {
        reader.kind = ServiceKind::Anycast;
        reader.thins = false;
        return anycast::scenario(reader);
    }
    // A server whose capacity is a rate is the thinner's; all of its tables are others.
    if reader.thins {
        return thinner::scenario(reader);
    }
    // Table by table: one that is refused does not make another look as if it were missing.
    let service = reader.table("service", LISTS_OF_SERVICE, Reader::service)?;
    if let Some(first) = service.first() {
        reader.kind = first.value.kind;
    }
    let tables = Swept {
        service,
        honest: reader.table("honest", &[], Reader::honest)?,
        attack: reader.table_if_any("attack", &[], Reader::attack)?,
        run: reader.table("run", LISTS_OF_RUN, Reader::run)?,
        model: reader.table("model", LISTS_OF_MODEL, Reader::model)?,
        lanes: reader.lanes()?,
    };
    reader.finish(|reader| reader.points(&tables))
}

/// One reading of a table.
pub(super) struct Choice<'d, 't, T> {
    pub(super) value: T,
    pub(super) at: Vec<(String, AtValue)>,
    pub(super) variant: Variant<'d, 't>,
}

/// All readings of a table.
pub(super) type Choices<'d, 't, T> = Vec<Choice<'d, 't, T>>;

/// All readings of all tables.
struct Swept<'d, 't> {
    service: Choices<'d, 't, RawService>,
    honest: Choices<'d, 't, RawCallers>,
    attack: Choices<'d, 't, Option<RawAttackers>>,
    run: Choices<'d, 't, Run>,
    model: Choices<'d, 't, ModelSettings>,
    lanes: Vec<LaneChoice<'d, 't, Config>>,
}

/// One reading of one lane, whose defence is a `D`.
pub(super) struct LaneChoice<'d, 't, D> {
    pub(super) name: String,
    pub(super) raw: RawLane<D>,
    pub(super) at: Vec<(String, AtValue)>,
    /// `None` for the lane of a scenario without any.
    pub(super) variant: Option<Variant<'d, 't>>,
    /// Where in the variant the defence is: `defense.`, or nothing for the table `[defense]`.
    pub(super) prefix: &'static str,
}

/// What stands in a `[defense]` table.
pub(super) trait Defense: DeserializeOwned + Clone + 'static {
    /// How a lane is called that has no name in the file.
    fn lane_name(defense: Option<&Self>) -> String;
}

impl Defense for Config {
    fn lane_name(defense: Option<&Self>) -> String {
        lane_name(defense)
    }
}

/// `[honest]`, before the rate is known.
struct RawCallers {
    raw: RawHonest,
    durations: Durations,
}

/// `[attack]`, before the rate is known.
struct RawAttackers {
    raw: RawAttack,
    /// Of a share the rate is still 0.
    attackers: Attackers,
}

/// Turns what was read into a scenario, and collects what is wrong with it.
pub(super) struct Reader<'d, 't> {
    pub(super) document: &'d Document<'t>,
    pub(super) read: ReadFile<'d>,
    /// What is served, once that is read.
    pub(super) kind: ServiceKind,
    /// Whether it is the thinner's server, which has a rate.
    pub(super) thins: bool,
    /// Files of durations that have been read: each once, however many variants name it.
    pub(super) files: BTreeMap<String, Result<Durations, FileError>>,
    /// Loads by Erlang's formula, of a capacity and the bits of a blocking: not searched for again at each point.
    loads: BTreeMap<(u32, u64), f64>,
    pub(super) problems: Vec<Problem>,
}

impl<'d, 't> Reader<'d, 't> {
    /// The whole scenario, once its tables are read: `points` makes all combinations, and says how many lanes each has.
    pub(super) fn finish(
        mut self,
        points: impl FnOnce(&mut Self) -> Result<(Vec<Point>, usize), Problems>,
    ) -> Result<Scenario, Problems> {
        let (check, queries) = questions::read(self.document, self.read)?;
        self.first_problem()?;
        let (points, lanes) = points(&mut self)?;
        self.first_problem()?;
        let seed = points.first().map_or(1, |point| point.setup.run.seed);
        Ok(Scenario {
            points,
            lanes,
            seed,
            check,
            queries,
        })
    }

    /// One at a time: later ones are often a consequence of the first.
    pub(super) fn first_problem(&mut self) -> Result<(), Problems> {
        match std::mem::take(&mut self.problems).into_iter().next() {
            None => Ok(()),
            Some(first) => Err(first.into()),
        }
    }

    /// Reads and checks each variant of the table `key`.
    pub(super) fn table<R: DeserializeOwned, T>(
        &mut self,
        key: &str,
        lists: &[&str],
        check: impl Fn(&mut Self, &Variant<'d, 't>, &R) -> Option<T>,
    ) -> Result<Choices<'d, 't, T>, Problems> {
        let mut choices = Vec::new();
        let mut problems: Vec<Problem> = Vec::new();
        for variant in self.document.variants(key, lists, POINTS_MAX)? {
            match variant.read::<R>() {
                Ok(raw) => choices.extend(check(self, &variant, &raw).map(|value| Choice {
                    value,
                    at: at(key, &variant),
                    variant,
                })),
                // What is wrong outside of a list is wrong in each variant.
                Err(found) => {
                    let new = |problem: &&Problem| !problems.contains(problem);
                    let new: Vec<_> = found.list().iter().filter(new).cloned().collect();
                    problems.extend(new);
                }
            }
        }
        Problems::check(problems)?;
        Ok(choices)
    }

    /// As [`Self::table`]; a single `None` if there is no such table.
    pub(super) fn table_if_any<R: DeserializeOwned, T>(
        &mut self,
        key: &str,
        lists: &[&str],
        check: impl Fn(&mut Self, &Variant<'d, 't>, &R) -> Option<T>,
    ) -> Result<Choices<'d, 't, Option<T>>, Problems> {
        if self.document.has(key) {
            return self.table(key, lists, |reader, variant, raw| {
                check(reader, variant, raw).map(Some)
            });
        }
        let variants = self.document.variants(key, lists, POINTS_MAX)?;
        let none = |variant| Choice {
            value: None,
            at: Vec::new(),
            variant,
        };
        Ok(variants.into_iter().map(none).collect())
    }

    pub(super) fn refuse(
        &mut self,
        at: &Variant<'d, 't>,
        key: &str,
        found: impl Into<String>,
        expected: &str,
        remedy: &str,
    ) {
        self.problems.push(at.problem(key, found, expected, remedy));
    }

    /// Refuses a number outside `low..=high`.
    pub(super) fn range(
        &mut self,
        at: &Variant<'d, 't>,
        key: &str,
        value: f64,
        (low, high): (f64, f64),
        remedy: &str,
    ) {
        if !(low..=high).contains(&value) {
            let expected = format!("a number from {low} to {high}");
            self.refuse(at, key, value.to_string(), &expected, remedy);
        }
    }

    /// Refuses keys that belong to the other kind of service.
    fn keys_of(&mut self, kind: ServiceKind, at: &Variant<'d, 't>, keys: &[&str]) {
        if self.kind != kind
            && let Some(key) = http::misplaced(at, keys)
        {
            let name = |kind| match kind {
                ServiceKind::Sip => "sip",
                ServiceKind::Http => "http",
                ServiceKind::Anycast => "anycast",
            };
            let (own, other) = (name(self.kind), name(kind));
            self.refuse(
                at,
                key,
                format!("`{key}` for a service of kind {own}"),
                "only keys that this kind has",
                &format!("take it out, or write service.kind = \"{other}\""),
            );
        }
    }

    /// Refuses keys of a lane that its model has no use for.
    fn lane_keys(&mut self, at: &Variant<'d, 't>) {
        if self.kind != ServiceKind::Anycast {
            self.keys_of(ServiceKind::Anycast, at, anycast::OF_LANE);
        }
        if !self.thins {
            self.keys_of(ServiceKind::Http, at, http::OF_LANE);
        } else if let Some(key) = http::misplaced(at, http::OF_LANE) {
            self.refuse(
                at,
                key,
                format!("`{key}` before a server that has a `rate`"),
                "`name` and `defense`",
                "take it out, or give the server places: service.capacity in the place of service.rate",
            );
        }
    }

    fn service(&mut self, at: &Variant<'d, 't>, raw: &RawService) -> Option<RawService> {
        self.kind = raw.kind;
        self.keys_of(ServiceKind::Http, at, http::OF_SERVICE);
        let remedy = "give the number of calls that the server can hold";
        self.range(at, "capacity", raw.capacity.into(), (1.0, 1e6), remedy);
        Some(raw.clone())
    }

    fn honest(&mut self, at: &Variant<'d, 't>, raw: &RawHonest) -> Option<RawCallers> {
        match raw.rate {
            RawRate::PerSecond(rate) => {
                let remedy = "write it as \"3.1/s\", or \"40/m\" for a slower one";
                self.range(at, "rate", rate, (1e-6, 1e5), remedy);
            }
            RawRate::Erlang { blocking } => {
                let remedy = "write 0.01 for one call in a hundred that finds all lines busy";
                self.range(at, "rate.erlang.blocking", blocking, (1e-9, 0.999), remedy);
            }
        }
        self.callers(at, "callers", raw.callers);
        self.keys_of(ServiceKind::Http, at, http::OF_HONEST);
        Some(RawCallers {
            durations: self.durations(at, "duration", &raw.duration)?,
            raw: raw.clone(),
        })
    }

    fn callers(&mut self, at: &Variant<'d, 't>, key: &str, callers: u32) {
        let remedy = "leave the key out for callers that are all different";
        self.range(at, key, callers.into(), (1.0, f64::from(u32::MAX)), remedy);
    }

    fn attack(&mut self, at: &Variant<'d, 't>, raw: &RawAttack) -> Option<RawAttackers> {
        self.keys_of(ServiceKind::Http, at, http::OF_ATTACK);
        if raw.kind.service() != self.kind {
            self.refuse(
                at,
                "kind",
                "an attack on another kind of service",
                "coordinated-call for sip; connect, slowloris, slow-post, slow-read or get-flood for http",
                "change it, or service.kind",
            );
        }
        let redial = raw.redial.map(std);
        if let Some(redial) = redial {
            let remedy = "give a time such as \"200ms\", or leave it out: attackers then call once";
            self.range(at, "redial", redial.as_secs_f64(), (0.001, DAY), remedy);
        }
        if let Some(share) = raw.share {
            let remedy = "write the share of calls that are attackers', 0.5 for every other call";
            self.range(at, "share", share, (0.0, 1.0), remedy);
            let callers = raw.attackers.unwrap_or_else(many);
            self.callers(at, "attackers", callers);
            if raw.ramp.is_some() {
                self.refuse(
                    at,
                    "ramp",
                    "`ramp` with `share`",
                    "`ramp` only for a fixed number of attackers",
                    "take it out, or take `share` out and write `attackers` and `redial`",
                );
            }
            return Some(RawAttackers {
                raw: raw.clone(),
                attackers: Attackers::Share {
                    share,
                    rate: 0.0,
                    callers,
                    redial,
                },
            });
        }
        let (Some(count), Some(redial)) = (raw.attackers, redial) else {
            self.refuse(
                at,
                "",
                "an attack without `share`",
                "`share`, or `attackers` and `redial`",
                "write share = 0.5 for half of the calls, or attackers = 50 and redial = \"200ms\" for so many that call again and again",
            );
            return None;
        };
        let remedy = "write how many attackers there are";
        self.range(at, "attackers", count.into(), (1.0, ATTACKERS_MAX), remedy);
        let ramp = raw.ramp.map_or(redial, std);
        let remedy = "give the time in which all attackers have called once, such as \"1s\"";
        self.range(at, "ramp", ramp.as_secs_f64(), (0.0, DAY), remedy);
        Some(RawAttackers {
            raw: raw.clone(),
            attackers: Attackers::Fixed {
                count,
                ramp,
                redial,
            },
        })
    }

    pub(super) fn run(&mut self, at: &Variant<'d, 't>, raw: &RawRun) -> Option<Run> {
        self.keys_of(ServiceKind::Sip, at, http::RUN_OF_SIP);
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
        let remedy = "give a time such as \"40s\"";
        for (key, value, low) in [
            ("time", run.time, 0.1),
            ("warmup", run.warmup, 0.0),
            ("delay", run.delay, 0.0),
            ("ring", run.ring, 0.0),
            ("ring_timeout", run.ring_timeout, 0.001),
        ] {
            self.range(at, key, value.as_secs_f64(), (low, DAY), remedy);
        }
        let remedy = "1 runs in the scenario's own time, 0.1 ten times as fast";
        self.range(at, "scale", run.scale, (0.001, 1_000.0), remedy);
        let remedy = "1 for a single run of each point";
        self.range(at, "repeat", run.repeat.into(), (1.0, 10_000.0), remedy);
        Some(run)
    }

    fn model(&mut self, at: &Variant<'d, 't>, raw: &RawModel) -> Option<ModelSettings> {
        for (i, name) in raw.quirks.iter().enumerate() {
            if !Quirks::names().any(|known| known == name) {
                let names: Vec<_> = Quirks::names().collect();
                self.refuse(
                    at,
                    &format!("quirks[{i}]"),
                    format!("no quirk is named `{name}`"),
                    &format!("one of {}", names.join(", ")),
                    "docs/presets.md says what each does",
                );
            }
        }
        Some(ModelSettings {
            preset: raw.preset,
            quirks: raw.quirks.clone(),
        })
    }

    /// Each defence: those of `[defense]`, or of each `[[lane]]`.
    pub(super) fn lanes<D: Defense>(&mut self) -> Result<Vec<LaneChoice<'d, 't, D>>, Problems> {
        let mut lanes = Vec::new();
        if self.document.has("defense") {
            if self.document.has("lane") {
                self.problems.push(self.document.problem(
                    "defense",
                    "both [defense] and [[lane]]",
                    "one of the two",
                    "write this table as [lane.defense] of a [[lane]]",
                ));
            }
            let same = |_: &mut Self, _: &Variant<'d, 't>, defense: &D| Some(defense.clone());
            let choices = self.table("defense", LISTS_OF_DEFENSE, same)?;
            lanes.extend(choices.into_iter().map(|choice| LaneChoice {
                name: D::lane_name(Some(&choice.value)),
                raw: RawLane {
                    defense: Some(choice.value),
                    ..RawLane::undefended()
                },
                at: choice.at,
                variant: Some(choice.variant),
                prefix: "",
            }));
        }
        if self.document.has("lane") {
            let _: Vec<IgnoredAny> = self.document.read("lane")?;
        }
        for i in 0..self.document.len("lane") {
            let more = self.lane(i)?;
            let taken = |lane: &LaneChoice<'_, '_, D>| lanes.iter().any(|l| l.name == lane.name);
            if let Some(second) = more.iter().find(|lane| taken(lane)) {
                self.problems.push(self.document.problem(
                    &format!("lane[{i}].name"),
                    format!("a second lane `{}`", second.name),
                    "a name for each lane",
                    "give this lane a `name` of its own",
                ));
            }
            lanes.extend(more);
        }
        if lanes.is_empty() {
            lanes.push(LaneChoice {
                name: D::lane_name(None),
                raw: RawLane::undefended(),
                at: Vec::new(),
                variant: None,
                prefix: "",
            });
        }
        Ok(lanes)
    }

    /// Each reading of one `[[lane]]`.
    fn lane<D: Defense>(&mut self, index: usize) -> Result<Vec<LaneChoice<'d, 't, D>>, Problems> {
        let same = |reader: &mut Self, at: &Variant<'d, 't>, lane: &RawLane<D>| {
            reader.lane_keys(at);
            Some(lane.clone())
        };
        let choices = self.table(&format!("lane[{index}]"), LISTS_OF_LANE, same)?;
        let lane = |choice: Choice<'d, 't, RawLane<D>>| {
            // What is swept in the defence has the name that it has in a table of its own.
            let at = choice.variant.at().map(|(key, value)| {
                let of_defense = key.split('.').next() == Some("defense");
                let table = if of_defense { "" } else { "lane." };
                (format!("{table}{key}"), value.clone())
            });
            let (at, raw) = (at.collect(), choice.value);
            LaneChoice {
                name: (raw.name.clone()).unwrap_or_else(|| match &raw.play {
                    Some(play) => format!("static-{play}"),
                    None => D::lane_name(raw.defense.as_ref()),
                }),
                raw,
                at,
                variant: Some(choice.variant),
                prefix: "defense.",
            }
        };
        Ok(choices.into_iter().map(lane).collect())
    }

    /// All calls a second.
    fn rate(&mut self, honest: &RawCallers, capacity: u32) -> f64 {
        let blocking = match honest.raw.rate {
            RawRate::PerSecond(rate) => return rate,
            RawRate::Erlang { blocking } => blocking,
        };
        let load = self
            .loads
            .entry((capacity, blocking.to_bits()))
            .or_insert_with(|| crate::erlang::load_for(capacity, blocking));
        *load / honest.durations.mean().as_secs_f64()
    }

    /// All combinations, and how many lanes each has.
    fn points(&mut self, tables: &Swept<'d, 't>) -> Result<(Vec<Point>, usize), Problems> {
        let Swept {
            service,
            honest,
            attack,
            run,
            model,
            lanes,
        } = tables;
        self.check_defenses(lanes, service);
        let mut counts = [
            ("service", service.len()),
            ("honest", honest.len()),
            ("attack", attack.len()),
            ("run", run.len()),
            ("model", model.len()),
        ];
        let total = self.combinations(&mut counts, lanes.len())?;
        let mut points = Vec::with_capacity(total * lanes.len());
        for n in 0..total {
            let digits = digits(n, &counts);
            let of = |key| digits.get(key).copied().unwrap_or_default();
            let (Some(service), Some(honest), Some(attack), Some(run), Some(model)) = (
                service.get(of("service")),
                honest.get(of("honest")),
                attack.get(of("attack")),
                run.get(of("run")),
                model.get(of("model")),
            ) else {
                continue;
            };
            let parts = [
                ("service", &service.at),
                ("honest", &honest.at),
                ("attack", &attack.at),
                ("run", &run.at),
                ("model", &model.at),
            ];
            let at = in_order(&counts, &parts);
            let RawService { kind, capacity, .. } = service.value;
            let rate = self.rate(&honest.value, capacity);
            let callers = callers(rate, &honest.value, attack.value.as_ref());
            let raw_attack = attack.value.as_ref().map(|attack| &attack.raw);
            let http = || http::of_tables(&service.value, &honest.value.raw, raw_attack);
            let setup = Setup {
                service: Service { kind, capacity },
                defense: None,
                honest: callers.0,
                attack: callers.1,
                run: run.value,
                model: model.value.clone(),
                http: (kind == ServiceKind::Http).then(http),
                thinner: None,
                anycast: None,
            };
            self.check_size(&setup, honest, attack);
            for lane in lanes {
                let point = Point {
                    lane: lane.name.clone(),
                    at: [&at[..], &lane.at].concat(),
                    setup: Setup {
                        defense: match kind {
                            ServiceKind::Http => http::defense(&lane.raw),
                            _ => lane.raw.defense.clone(),
                        },
                        http: setup.http.map(|http| http.in_lane(&lane.raw)),
                        ..setup.clone()
                    },
                };
                if let Some((key, expected)) = http::refused(&point.setup) {
                    let (table, rest) = key.split_once('.').unwrap_or(("", key));
                    let at = match table {
                        "service" => &service.variant,
                        "honest" => &honest.variant,
                        "attack" => &attack.variant,
                        "run" => &run.variant,
                        _ => lane.variant.as_ref().unwrap_or(&service.variant),
                    };
                    let remedy =
                        "docs/scenario.md lists the keys of an http service with their ranges";
                    let prefix = if table == "defense" { lane.prefix } else { "" };
                    let key = format!("{prefix}{rest}");
                    self.refuse(at, &key, "out of range", expected, remedy);
                }
                points.push(point);
            }
        }
        Ok((points, lanes.len()))
    }

    /// Brings tables into the order in which they change, the first of the file slowest. Returns the number of combinations
    /// without the lanes.
    pub(super) fn combinations(
        &self,
        counts: &mut [(&str, usize)],
        lanes: usize,
    ) -> Result<usize, Problems> {
        let place = |key: &str| {
            let place = self.document.place(key);
            (place.line, place.column)
        };
        counts.sort_by_key(|(key, _)| place(key));
        let product = |total: usize, (_, count): &(&str, usize)| total.saturating_mul(*count);
        let total = counts.iter().fold(1, product);
        if total.saturating_mul(lanes) > POINTS_MAX {
            let problem = self.document.problem(
                "",
                format!("{} combinations", total.saturating_mul(lanes)),
                format!("at most {POINTS_MAX}"),
                "shorten the lists, or split the scenario",
            );
            return Err(problem.into());
        }
        Ok(total)
    }

    fn check_defenses(
        &mut self,
        lanes: &[LaneChoice<'d, 't, Config>],
        services: &Choices<'d, 't, RawService>,
    ) {
        for lane in lanes {
            let (Some(defense), Some(variant)) = (&lane.raw.defense, &lane.variant) else {
                continue;
            };
            for service in services {
                let capacity = service.value.capacity;
                if let Err(error) = defense.validate_for(capacity) {
                    self.refuse(
                        variant,
                        &format!("{}{}", lane.prefix, error.key),
                        error.value,
                        &error.expected,
                        "docs/scenario.md lists the keys of a defence with their ranges",
                    );
                }
            }
        }
    }

    fn check_size<A>(
        &mut self,
        setup: &Setup,
        honest: &Choice<'d, 't, RawCallers>,
        attack: &Choice<'d, 't, A>,
    ) {
        let whole = (setup.run.warmup + setup.run.time).as_secs_f64();
        let calls = setup.calls_per_second() * whole;
        if calls > CALLS_MAX {
            let found = format!("{calls:.0} calls in one run");
            let expected = format!("at most {CALLS_MAX:.0}");
            if setup.honest.rate * whole > CALLS_MAX / 2.0 {
                let remedy = "lower the rate or run.time";
                self.refuse(&honest.variant, "rate", found, &expected, remedy);
            } else {
                let remedy = "make it longer, or lower `attackers` or run.time";
                self.refuse(&attack.variant, "redial", found, &expected, remedy);
            }
        }
    }
}

/// What is swept in all tables, in their order.
pub(super) fn in_order(
    counts: &[(&str, usize)],
    parts: &[(&str, &Vec<(String, AtValue)>)],
) -> Vec<(String, AtValue)> {
    let of = |(key, _): &(&str, usize)| parts.iter().find(|(part, _)| part == key);
    let in_order = counts.iter().filter_map(of);
    in_order.flat_map(|(_, at)| at.iter().cloned()).collect()
}

/// The index of each table in the `n`-th combination; the last table changes fastest.
pub(super) fn digits<'k>(mut n: usize, counts: &[(&'k str, usize)]) -> BTreeMap<&'k str, usize> {
    let mut digits = BTreeMap::new();
    for &(key, count) in counts.iter().rev() {
        digits.insert(key, n % count.max(1));
        n /= count.max(1);
    }
    digits
}

/// Callers that make so many calls a second together.
fn callers(
    rate: f64,
    honest: &RawCallers,
    attack: Option<&RawAttackers>,
) -> (Honest, Option<Attack>) {
    let mut share_of_attackers = 0.0;
    let attack = attack.map(|attack| {
        let mut attackers = attack.attackers;
        if let Attackers::Share {
            share, rate: own, ..
        } = &mut attackers
        {
            share_of_attackers = *share;
            *own = rate * *share;
        }
        Attack {
            kind: attack.raw.kind,
            attackers,
        }
    });
    let honest = Honest {
        rate: rate * (1.0 - share_of_attackers),
        durations: honest.durations.clone(),
        callers: honest.raw.callers,
    };
    (honest, attack)
}

/// The swept keys of a table as dotted paths.
fn at(table: &str, variant: &Variant<'_, '_>) -> Vec<(String, AtValue)> {
    let dotted = |(key, value): (String, &AtValue)| (format!("{table}.{key}"), value.clone());
    variant.at().map(dotted).collect()
}

pub(super) fn std(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
