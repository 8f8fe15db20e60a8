//! What a scenario says of clients that pay for a server of fixed rate: keys, defaults, and the model's setup from them.
//!
//! `service.rate` in the place of `service.capacity` makes a scenario the thinner's. Its clients are so many, each with a rate, a
//! window and a bandwidth, as in the papers' experiments.

use std::time::Duration;

use levee_config::{Problems, Variant};
use levee_policy::Span;
use levee_policy::thinner::{self, Capacity, Config, Kind, Mode};
use serde::Deserialize;

use super::raw::{RawModel, RawRate, RawRun};
use super::read::{
    CALLS_MAX, Choice, Defense, LISTS_OF_RUN, LISTS_OF_SERVICE, LaneChoice, Reader, digits,
    in_order,
};
use super::{
    Attack, AttackKind, Attackers, Honest, ModelSettings, Point, Run, Scenario, Service,
    ServiceKind, Setup,
};
use crate::model::thinner::{self as model, Group, Server, Split};
use crate::schedule::Durations;

/// The papers' `[0.9/c, 1.1/c]`.
const JITTER: f64 = 0.1;
/// Requests that wait at the server (our choice: half a second of the papers' server).
const BACKLOG: u32 = 50;
/// The papers count what waited longer as denied.
const PATIENCE: Span = Span::from_secs(10);
/// Bytes of a browser's request without cookies, about.
const REQUEST: u32 = 500;
/// The papers' windows of good and bad clients.
const WINDOW: u32 = 1;
const WINDOW_OF_ATTACKERS: u32 = 20;
/// SHA-256 of short texts that a browser makes in a second, about (our guess; the ratio of good to bad is what counts).
const HASHES: f64 = 1e6;
/// Most tries that all clients make in one run: a minute of computing or so.
const TRIES_MAX: f64 = 1e9;

/// The thinner's part of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Thinner {
    /// The server.
    pub server: Server,
    /// What stands before it; `None` leaves the server alone with its clients.
    pub defense: Option<Config>,
    /// The good clients.
    pub honest: Group,
    /// The bad clients; none where there is no attack.
    pub attack: Group,
}

impl Setup {
    /// What the thinner's model takes; `None` for another service.
    #[must_use]
    pub fn thinner_model(&self) -> Option<model::Setup> {
        let own = self.thinner.as_ref()?;
        let span =
            |time: Duration| Span::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        Some(model::Setup {
            server: own.server,
            defense: own.defense.clone(),
            honest: own.honest,
            attack: own.attack,
            delay: span(self.run.delay),
            warmup: span(self.run.warmup),
            time: span(self.run.time),
            seed: self.run.seed,
        })
    }
}

impl Thinner {
    /// Takes times that are longer by this factor, and rates that are as much lower.
    pub(super) fn scale(&mut self, by: f64) {
        let longer = |time: &mut Span| {
            *time = Span::from_secs_f64(time.as_secs_f64() * by).unwrap_or(*time);
        };
        self.server.rate /= by;
        for group in [&mut self.honest, &mut self.attack] {
            group.rate /= by;
            group.up /= by;
            group.hashes /= by;
            longer(&mut group.patience);
        }
        let Some(defense) = &mut self.defense else {
            return;
        };
        if let Capacity::Rate(rate) = &mut defense.capacity {
            *rate /= by;
        }
        longer(&mut defense.patience);
        longer(&mut defense.retry_after);
        longer(&mut defense.suspended);
        if let Some(quantum) = &mut defense.quantum {
            longer(quantum);
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawServer {
    kind: ServiceKind,
    rate: RawRate,
    jitter: Option<f64>,
    backlog: Option<u32>,
}

/// `[defense]` as in a live configuration, but for the capacity: that of the service unless it is given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDefense {
    kind: Kind,
    capacity: Option<Capacity>,
    #[serde(default)]
    mode: Mode,
    burst: Option<u32>,
    contenders: Option<u32>,
    patience: Option<Span>,
    retry_after: Option<Span>,
    quantum: Option<Span>,
    suspended: Option<Span>,
}

impl RawDefense {
    fn config(&self, rate: f64) -> Config {
        Config {
            kind: self.kind,
            capacity: self.capacity.unwrap_or(Capacity::Rate(rate)),
            mode: self.mode,
            burst: self.burst,
            contenders: self.contenders.unwrap_or(thinner::CONTENDERS),
            patience: self.patience.unwrap_or(thinner::PATIENCE),
            retry_after: self.retry_after.unwrap_or(thinner::RETRY_AFTER),
            quantum: self.quantum,
            suspended: self.suspended.unwrap_or(thinner::SUSPENDED),
        }
    }
}

impl Defense for RawDefense {
    fn lane_name(defense: Option<&Self>) -> String {
        let thinner = |defense: &Self| format!("thinner-{}", defense.mode.name());
        defense.map_or_else(|| "undefended".to_owned(), thinner)
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGood {
    clients: u32,
    rate: RawRate,
    bandwidth: RawUp,
    window: Option<u32>,
    hashes: Option<f64>,
    patience: Option<Span>,
    request: Option<u32>,
    work: Option<f64>,
    #[serde(default)]
    split: Split,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBad {
    kind: AttackKind,
    clients: Option<u32>,
    share: Option<f64>,
    rate: RawRate,
    bandwidth: RawUp,
    window: Option<u32>,
    hashes: Option<f64>,
    patience: Option<Span>,
    request: Option<u32>,
    work: Option<f64>,
    #[serde(default = "yes")]
    pays: bool,
    #[serde(default)]
    split: Split,
}

fn yes() -> bool {
    true
}

/// Bytes a second to the server; what comes from it is not modelled.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUp {
    up: f64,
}

/// The bad clients of one reading.
#[derive(Clone, Copy, Debug)]
struct Bad {
    group: Group,
    /// Which share of all clients; their number is that of `group` otherwise.
    share: Option<f64>,
}

pub(super) fn scenario(mut reader: Reader<'_, '_>) -> Result<Scenario, Problems> {
    let tables = Swept {
        service: reader.table("service", LISTS_OF_SERVICE, server)?,
        honest: reader.table("honest", &[], good)?,
        attack: reader.table_if_any("attack", &[], bad)?,
        run: reader.table("run", LISTS_OF_RUN, |reader, at, raw: &RawRun| {
            reader.run(at, raw)
        })?,
        lanes: reader.lanes()?,
    };
    if reader.document.has("model") {
        // Its presets and quirks are those of a model of calls.
        let _: RawModel = reader.document.read("model")?;
        let problem = reader.document.problem(
            "model",
            "a [model] for a server that has a `rate`",
            "no such table: this model has no other reading",
            "take it out",
        );
        return Err(problem.into());
    }
    reader.finish(|reader| points(reader, &tables))
}

/// All readings of all tables.
struct Swept<'d, 't> {
    service: Vec<Choice<'d, 't, Server>>,
    honest: Vec<Choice<'d, 't, Group>>,
    attack: Vec<Choice<'d, 't, Option<Bad>>>,
    run: Vec<Choice<'d, 't, Run>>,
    lanes: Vec<LaneChoice<'d, 't, RawDefense>>,
}

/// A rate that is no load of Erlang's.
fn per_second<'d, 't>(
    reader: &mut Reader<'d, 't>,
    at: &Variant<'d, 't>,
    rate: RawRate,
) -> Option<f64> {
    match rate {
        RawRate::PerSecond(rate) => Some(rate),
        RawRate::Erlang { .. } => {
            let remedy = "write it as \"100/s\"";
            reader.refuse(
                at,
                "rate",
                "a load by Erlang B",
                "requests for a time",
                remedy,
            );
            None
        }
    }
}

fn server<'d, 't>(
    reader: &mut Reader<'d, 't>,
    at: &Variant<'d, 't>,
    raw: &RawServer,
) -> Option<Server> {
    if raw.kind != ServiceKind::Http {
        let remedy = "write service.kind = \"http\", or service.capacity for a server of calls";
        reader.refuse(
            at,
            "rate",
            "`rate` for a service of kind sip",
            "it with kind http",
            remedy,
        );
        return None;
    }
    Some(Server {
        rate: per_second(reader, at, raw.rate)?,
        jitter: raw.jitter.unwrap_or(JITTER),
        backlog: raw.backlog.unwrap_or(BACKLOG),
    })
}

fn good<'d, 't>(reader: &mut Reader<'d, 't>, at: &Variant<'d, 't>, raw: &RawGood) -> Option<Group> {
    Some(Group {
        clients: raw.clients,
        rate: per_second(reader, at, raw.rate)?,
        window: raw.window.unwrap_or(WINDOW),
        up: raw.bandwidth.up,
        hashes: raw.hashes.unwrap_or(HASHES),
        patience: raw.patience.unwrap_or(PATIENCE),
        request: raw.request.unwrap_or(REQUEST),
        work: raw.work.unwrap_or(1.0),
        pays: true,
        split: raw.split,
    })
}

fn bad<'d, 't>(reader: &mut Reader<'d, 't>, at: &Variant<'d, 't>, raw: &RawBad) -> Option<Bad> {
    if raw.kind != AttackKind::Flood {
        let remedy = "write kind = \"flood\", or give the server places: service.capacity in the place of service.rate";
        reader.refuse(
            at,
            "kind",
            "an attack on places before a server that has a `rate`",
            "flood",
            remedy,
        );
    }
    if let Some(share) = raw.share {
        let remedy = "write the share of all clients that are bad, 0.5 for every other one";
        reader.range(at, "share", share, (0.0, 1.0), remedy);
    }
    if raw.share.is_some() == raw.clients.is_some() {
        let (key, found) = match raw.share {
            Some(_) => ("share", "both `share` and `clients`"),
            None => ("", "an attack without `clients`"),
        };
        let remedy = "write clients = 25; or share = 0.5 for half of honest.clients, which then is the number of all clients";
        reader.refuse(
            at,
            key,
            found,
            "`clients` or `share`, one of the two",
            remedy,
        );
    }
    Some(Bad {
        group: Group {
            clients: raw.clients.unwrap_or_default(),
            rate: per_second(reader, at, raw.rate)?,
            window: raw.window.unwrap_or(WINDOW_OF_ATTACKERS),
            up: raw.bandwidth.up,
            hashes: raw.hashes.unwrap_or(HASHES),
            patience: raw.patience.unwrap_or(PATIENCE),
            request: raw.request.unwrap_or(REQUEST),
            work: raw.work.unwrap_or(1.0),
            pays: raw.pays,
            split: raw.split,
        },
        share: raw.share,
    })
}

/// All combinations, and how many lanes each has.
fn points<'d, 't>(
    reader: &mut Reader<'d, 't>,
    tables: &Swept<'d, 't>,
) -> Result<(Vec<Point>, usize), Problems> {
    let Swept {
        service,
        honest,
        attack,
        run,
        lanes,
    } = tables;
    let mut counts = [
        ("service", service.len()),
        ("honest", honest.len()),
        ("attack", attack.len()),
        ("run", run.len()),
    ];
    let total = reader.combinations(&mut counts, lanes.len())?;
    let mut points = Vec::with_capacity(total * lanes.len());
    for n in 0..total {
        let digits = digits(n, &counts);
        let of = |key| digits.get(key).copied().unwrap_or_default();
        let (Some(service), Some(honest), Some(attack), Some(run)) = (
            service.get(of("service")),
            honest.get(of("honest")),
            attack.get(of("attack")),
            run.get(of("run")),
        ) else {
            continue;
        };
        let parts = [
            ("service", &service.at),
            ("honest", &honest.at),
            ("attack", &attack.at),
            ("run", &run.at),
        ];
        let at = in_order(&counts, &parts);
        let (good, bad) = split(honest.value, attack.value);
        for lane in lanes {
            let rate = service.value.rate;
            let defense = lane.raw.defense.as_ref().map(|raw| raw.config(rate));
            let own = Thinner {
                server: service.value,
                defense,
                honest: good,
                attack: bad,
            };
            let setup = setup(own, attack.value.is_some(), run.value);
            check(
                reader,
                &setup,
                [&service.variant, &honest.variant, &attack.variant],
                lane,
            );
            points.push(Point {
                lane: lane.name.clone(),
                at: [&at[..], &lane.at].concat(),
                setup,
            });
        }
    }
    Ok((points, lanes.len()))
}

/// The good and the bad clients: a share of the bad is taken off the number of the good.
fn split(mut good: Group, bad: Option<Bad>) -> (Group, Group) {
    let Some(Bad { mut group, share }) = bad else {
        return (good, Group { clients: 0, ..good });
    };
    if let Some(share) = share {
        group.clients = (f64::from(good.clients) * share).round() as u32;
        good.clients -= group.clients.min(good.clients);
    }
    (good, group)
}

/// A point's setup, with what reports of any service ask for.
fn setup(own: Thinner, attacked: bool, run: Run) -> Setup {
    let (good, bad) = (own.honest.demand(), own.attack.demand());
    let work = Duration::try_from_secs_f64(own.honest.work / own.server.rate);
    Setup {
        service: Service {
            kind: ServiceKind::Http,
            capacity: 1,
        },
        defense: None,
        honest: Honest {
            rate: good,
            durations: Durations::Fixed(work.unwrap_or_default()),
            callers: own.honest.clients,
        },
        attack: attacked.then_some(Attack {
            kind: AttackKind::Flood,
            attackers: Attackers::Share {
                share: if bad > 0.0 { bad / (good + bad) } else { 0.0 },
                rate: bad,
                callers: own.attack.clients,
                redial: None,
            },
        }),
        run,
        model: ModelSettings::default(),
        http: None,
        thinner: Some(own),
        anycast: None,
    }
}

/// Refuses what the model cannot run.
fn check<'d, 't>(
    reader: &mut Reader<'d, 't>,
    setup: &Setup,
    [service, honest, attack]: [&Variant<'d, 't>; 3],
    lane: &LaneChoice<'d, 't, RawDefense>,
) {
    let Some(model) = setup.thinner_model() else {
        return;
    };
    let docs = "docs/scenario.md lists the keys of a server with a rate, with their ranges";
    match model.check() {
        Ok(()) => {}
        Err(model::SetupError::Value { key, expected }) => {
            let (table, rest) = key.split_once('.').unwrap_or(("", key));
            let at = match table {
                "service" => service,
                "honest" => honest,
                _ => attack,
            };
            reader.refuse(at, rest, "out of range", expected, docs);
        }
        Err(model::SetupError::Defense(error)) => {
            let at = lane.variant.as_ref().unwrap_or(service);
            let key = format!("{}{}", lane.prefix, error.key);
            reader.refuse(at, &key, error.value, &error.expected, docs);
        }
    }
    let whole = model.end().as_secs_f64();
    let calls = setup.calls_per_second() * whole;
    if calls > CALLS_MAX {
        let (found, expected) = (
            format!("{calls:.0} requests in one run"),
            format!("at most {CALLS_MAX:.0}"),
        );
        let remedy = "lower the rates, the clients or run.time";
        reader.refuse(attack, "rate", found, &expected, remedy);
    }
    let mode = model.defense.as_ref().map(|defense| defense.mode);
    let tries = |group: &Group| group.bandwidth() / f64::from(group.request.max(1));
    let tries = whole * (tries(&model.honest) + tries(&model.attack));
    if mode == Some(Mode::Retry) && tries > TRIES_MAX {
        let (found, expected) = (
            format!("bandwidth for {tries:.0} tries in one run"),
            format!("at most {TRIES_MAX:.0}"),
        );
        let remedy = "give requests more bytes, or clients less bandwidth, or lower run.time";
        reader.refuse(honest, "bandwidth.up", found, &expected, remedy);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::{at, parse};
    use super::*;

    const SPEAK_UP: &str = r#"[service]
kind = "http"
rate = "100/s"

[[lane]]
name = "bare"

[[lane]]
defense = { kind = "thinner", mode = "auction" }

[honest]
clients = 50
rate = "2/s"
bandwidth = { up = 250_000 }

[attack]
kind = "flood"
share = 0.4
rate = "40/s"
bandwidth = { up = 500_000 }
split = "newest"

[run]
time = "60s"
delay = "1ms"
"#;

    fn speak_up(from: &str, to: &str) -> String {
        assert!(SPEAK_UP.contains(from), "{from}");
        SPEAK_UP.replacen(from, to, 1)
    }

    #[test]
    fn a_server_with_a_rate_is_the_thinners() {
        let points = parse(SPEAK_UP).unwrap().points;
        let lanes: Vec<&str> = points.iter().map(|point| point.lane.as_str()).collect();
        assert_eq!(lanes, ["bare", "thinner-auction"]);
        let models = points.iter().map(|point| point.setup.thinner_model());
        let [bare, auction] = models
            .map(Option::unwrap)
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        assert_eq!(bare.check(), Ok(()));
        assert_eq!(bare.defense, None);
        let server = Server {
            rate: 100.0,
            jitter: 0.1,
            backlog: 50,
        };
        assert_eq!(auction.server, server);
        let defense = auction.defense.as_ref().unwrap();
        // The thinner knows what the server can take unless it is told otherwise.
        let known = (Capacity::Rate(100.0), Mode::Auction);
        assert_eq!((defense.capacity, defense.mode), known);
        // A share is one of all clients.
        assert_eq!((auction.honest.clients, auction.attack.clients), (30, 20));
        assert_eq!((auction.honest.window, auction.attack.window), (1, 20));
        assert_eq!(
            (auction.honest.split, auction.attack.split),
            (Split::Equal, Split::Newest)
        );
        assert!((auction.ideal_share() - 7.5 / 17.5).abs() < 1e-12);
        let setup = &points[0].setup;
        assert_eq!((setup.http_model(), setup.defense.as_ref()), (None, None));
        assert_eq!((setup.honest.rate, setup.calls_per_second()), (60.0, 860.0));
        // Without an attack there is no bad client.
        let quiet = SPEAK_UP.split("[attack]").next().unwrap().to_owned() + "[run]\ntime = \"60s\"";
        let model = parse(&quiet).unwrap().points[0]
            .setup
            .thinner_model()
            .unwrap();
        assert_eq!((model.honest.clients, model.attack.clients), (50, 0));
    }

    #[test]
    fn all_of_a_thinners_scenario_is_swept() {
        let text = speak_up("0.4", "[0.0, 0.5]")
            .replace("\"auction\"", "[\"retry\", \"auction\"]")
            .replace("100/s", "50/s\", \"100/s")
            .replace("rate = \"50/s\", \"100/s\"", "rate = [\"50/s\", \"100/s\"]");
        assert_eq!(
            at(&text)[..4],
            [
                "bare: service.rate=50/s attack.share=0",
                "thinner-retry: service.rate=50/s attack.share=0 defense.mode=retry",
                "thinner-auction: service.rate=50/s attack.share=0 defense.mode=auction",
                "bare: service.rate=50/s attack.share=0.5",
            ]
        );
    }

    #[test]
    fn a_real_run_of_a_thinner_has_its_own_scale() {
        let text = speak_up("time = \"60s\"", "time = \"60s\"\nscale = 0.5");
        let setup = parse(&text).unwrap().points[1].setup.on_the_wall_clock();
        let model = setup.thinner_model().unwrap();
        let defense = model.defense.unwrap();
        assert_eq!(
            (model.server.rate, defense.capacity),
            (200.0, Capacity::Rate(200.0))
        );
        assert_eq!(
            (model.honest.rate, model.honest.up, model.attack.up),
            (4.0, 500_000.0, 1e6)
        );
        assert_eq!(
            (model.honest.patience, defense.patience),
            (Span::from_secs(5), Span::from_secs(5))
        );
        assert_eq!(
            (model.time, model.delay),
            (Span::from_secs(30), Span::from_nanos(500_000))
        );
    }

    /// Scenarios that are refused, with what is wrong.
    pub(crate) fn bad() -> Vec<(&'static str, String)> {
        let auction = "kind = \"thinner\", mode = \"auction\"";
        let defense = |more: &str| speak_up(auction, &format!("{auction}, {more}"));
        vec![
            (
                "a rate and places",
                speak_up("rate = \"100/s\"", "rate = \"100/s\"\ncapacity = 5"),
            ),
            ("a rate of calls", speak_up("\"http\"", "\"sip\"")),
            (
                "a rate by Erlang",
                speak_up("\"100/s\"", "{ erlang = { blocking = 0.1 } }"),
            ),
            ("a server of no rate", speak_up("\"100/s\"", "\"0/s\"")),
            (
                "too much jitter",
                speak_up("rate = \"100/s\"", "rate = \"100/s\"\njitter = 1.5"),
            ),
            ("seven before a rate", speak_up(auction, "kind = \"seven\"")),
            ("an unknown mode", speak_up("\"auction\"", "\"auctoin\"")),
            ("no room for contenders", defense("contenders = 0")),
            ("a quantum of a rate", defense("quantum = \"10ms\"")),
            (
                "timeouts before a rate",
                speak_up("name = \"bare\"", "name = \"bare\"\ntimeouts = \"nginx\""),
            ),
            (
                "clients without bandwidth",
                speak_up("bandwidth = { up = 250_000 }", ""),
            ),
            (
                "clients with too little bandwidth",
                speak_up("250_000", "0.5"),
            ),
            (
                "a bandwidth down",
                speak_up("up = 250_000", "up = 250_000, down = 5"),
            ),
            (
                "no window",
                speak_up("clients = 50", "clients = 50\nwindow = 0"),
            ),
            (
                "an attack on places before a rate",
                speak_up("\"flood\"", "\"slowloris\""),
            ),
            ("a share beyond all", speak_up("share = 0.4", "share = 1.5")),
            (
                "a share and a number",
                speak_up("share = 0.4", "share = 0.4\nclients = 5"),
            ),
            ("neither a share nor a number", speak_up("share = 0.4", "")),
            ("an unknown split", speak_up("\"newest\"", "\"latest\"")),
            (
                "a model before a rate",
                speak_up("[run]", "[model]\npreset = \"paper\"\n[run]"),
            ),
            ("too many requests", speak_up("\"40/s\"", "\"90000/s\"")),
            (
                "too many tries",
                speak_up("\"auction\"", "\"retry\"")
                    .replace("up = 250_000", "up = 250_000_000")
                    .replace("clients = 50", "clients = 50\nrequest = 1"),
            ),
        ]
    }
}
