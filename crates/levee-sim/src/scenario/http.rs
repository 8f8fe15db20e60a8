//! What a scenario says of an HTTP service beyond what it says of any: keys, defaults, and the model's setup from them.

use levee_config::Variant;
use levee_policy::Span;
use levee_policy::selective::{Config, Kind, Phase, phases_of_http};
use serde::Deserialize;

use super::raw::{RawAttack, RawHonest, RawLane, RawService};
use super::{AttackKind, Setup};
use crate::model::http::{
    self, Bandwidth, Clients, Deadline, Drip, InCall, SetupError, Slow, Timeouts,
};

/// Connections that wait in the kernel: the default of nginx and of Apache httpd.
const BACKLOG: u32 = 511;
/// Bytes that a kernel takes off the server's hands: what Linux gives a fresh connection (`net.ipv4.tcp_wmem`).
const SEND_BUFFER: u32 = 16_384;
/// Bytes of one read or write (our choice: a record of TLS, a page of most servers' buffers).
const SEGMENT: u32 = 16_384;
/// Bytes of a browser's request without cookies, about.
const HEADERS: u32 = 500;
/// Bytes of a small page (our choice).
const RESPONSE: u32 = 10_000;
/// What Slowloris sends by default, and how often: a header of some bytes every 15 s.
const DRIP: Drip = Drip {
    every: Span::from_secs(15),
    bytes: 10,
};

/// Keys of each table that belong to HTTP alone, and those that belong to SIP alone.
pub(super) const OF_SERVICE: &[&str] = &["backlog", "send_buffer", "segment"];
pub(super) const OF_HONEST: &[&str] = &[
    "headers",
    "header_pieces",
    "body",
    "response",
    "bandwidth",
    "slow",
    "patience",
    "retry",
];
pub(super) const OF_ATTACK: &[&str] = &["every", "bytes", "response", "service"];
pub(super) const OF_LANE: &[&str] = &["timeouts", "in_call"];
pub(super) const RUN_OF_SIP: &[&str] = &["ring", "ring_timeout"];

/// The HTTP part of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Http {
    /// Connections that the kernel keeps until a place is free.
    pub backlog: u32,
    /// Bytes of a response that the kernel takes off the server's hands.
    pub send_buffer: u32,
    /// The most bytes that one read or write moves.
    pub segment: u32,
    /// Of whoever holds the clients' connections.
    pub timeouts: Timeouts,
    /// When a connection counts as INCALL.
    pub in_call: InCall,
    /// What honest clients send and ask for.
    pub clients: Clients,
    /// What an attacker does with a connection.
    pub attack: http::AttackKind,
    /// Bytes of the response that an attacker asks for.
    pub attack_response: u32,
    /// How long the server works on an attacker's request.
    pub attack_service: Span,
}

impl Setup {
    /// What the HTTP model takes; `None` for another service. Attackers of a fixed number come by the plan.
    #[must_use]
    pub fn http_model(&self) -> Option<http::Setup> {
        let own = self.http?;
        let span = |time: std::time::Duration| {
            Span::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        Some(http::Setup {
            capacity: self.service.capacity,
            backlog: own.backlog,
            send_buffer: own.send_buffer,
            segment: own.segment,
            timeouts: own.timeouts,
            defense: self.defense.clone(),
            in_call: own.in_call,
            delay: span(self.run.delay),
            warmup: span(self.run.warmup),
            plan: self.plan(self.run.seed),
            clients: own.clients,
            attack: http::Attack {
                kind: own.attack,
                fixed: None,
                redial: self.redial().map(span),
                response: own.attack_response,
                service: own.attack_service,
            },
        })
    }
}

/// The HTTP parts of the tables of one point, without the lane's.
pub(super) fn of_tables(
    service: &RawService,
    honest: &RawHonest,
    attack: Option<&RawAttack>,
) -> Http {
    let retry = honest.retry.unwrap_or_default();
    let drip = Drip {
        every: attack.and_then(|a| a.every).unwrap_or(DRIP.every),
        bytes: attack.and_then(|a| a.bytes).unwrap_or(DRIP.bytes),
    };
    let kind = match attack.map(|a| a.kind) {
        // No attacker comes: any kind will do.
        None | Some(AttackKind::CoordinatedCall | AttackKind::Flood | AttackKind::Connect) => {
            http::AttackKind::Connect
        }
        Some(AttackKind::Slowloris) => http::AttackKind::Slowloris(drip),
        Some(AttackKind::SlowPost) => http::AttackKind::SlowPost(drip),
        Some(AttackKind::SlowRead) => http::AttackKind::SlowRead(drip),
        Some(AttackKind::GetFlood) => http::AttackKind::GetFlood,
    };
    let response = honest.response.unwrap_or(RESPONSE);
    Http {
        backlog: service.backlog.unwrap_or(BACKLOG),
        send_buffer: service.send_buffer.unwrap_or(SEND_BUFFER),
        segment: service.segment.unwrap_or(SEGMENT),
        timeouts: Timeouts::default(),
        in_call: InCall::default(),
        clients: Clients {
            headers: honest.headers.unwrap_or(HEADERS),
            header_pieces: honest.header_pieces.unwrap_or(1),
            body: honest.body.unwrap_or(0),
            response,
            bandwidth: honest
                .bandwidth
                .map_or(Bandwidth::UNLIMITED, RawBandwidth::checked),
            slow: honest.slow.map(|slow| Slow {
                share: slow.share,
                bandwidth: RawBandwidth {
                    up: slow.up,
                    down: slow.down,
                }
                .checked(),
            }),
            patience: honest.patience,
            retries: retry.most,
            retry_wait: retry.wait,
        },
        attack: kind,
        attack_response: attack.and_then(|a| a.response).unwrap_or(response),
        attack_service: attack.and_then(|a| a.service).unwrap_or_default(),
    }
}

/// The defence of a lane. SeVen weighs connections by phase and progress, unless the lane says when one is INCALL or has a cap
/// on that time; phases that it writes stand for those of their names.
pub(super) fn defense(lane: &RawLane) -> Option<Config> {
    let mut defense = lane.defense.clone()?;
    let by_state = lane.in_call.is_some() || defense.max_duration.is_some();
    if defense.phases.is_empty() && (by_state || defense.kind != Kind::Seven) {
        return Some(defense);
    }
    let written = std::mem::replace(&mut defense.phases, phases_of_http());
    for phase in written {
        let same = |known: &&mut Phase| known.name == phase.name;
        match defense.phases.iter_mut().find(same) {
            Some(known) => *known = phase,
            // Whoever checks the setup says that it has no use for this one.
            None => defense.phases.push(phase),
        }
    }
    Some(defense)
}

impl Http {
    /// The same with what a lane says.
    pub(super) fn in_lane(mut self, lane: &RawLane) -> Self {
        self.timeouts = lane
            .timeouts
            .as_ref()
            .map_or_else(Timeouts::default, RawTimeouts::timeouts);
        self.in_call = lane
            .in_call
            .map_or_else(InCall::default, RawInCall::in_call);
        self
    }
}

/// The first thing that the model refuses: the key in the scenario, and what it expects.
pub(super) fn refused(setup: &Setup) -> Option<(&'static str, &'static str)> {
    match setup.http_model()?.check() {
        Ok(()) => None,
        // As it was written it has been checked by then: only the phases are new.
        Err(SetupError::Defense(_)) => Some((
            "defense.class",
            "fewer factors of classes: each goes with each phase",
        )),
        Err(SetupError::Value { key, expected }) => Some((key, expected)),
    }
}

/// The keys of a table that it has and should not have.
pub(super) fn misplaced<'k>(at: &Variant<'_, '_>, keys: &[&'k str]) -> Option<&'k str> {
    keys.iter().copied().find(|key| at.has(key))
}

/// Bytes a second; left out for no limit.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBandwidth {
    up: Option<f64>,
    down: Option<f64>,
}

impl RawBandwidth {
    fn checked(self) -> Bandwidth {
        Bandwidth {
            up: self.up.unwrap_or(f64::INFINITY),
            down: self.down.unwrap_or(f64::INFINITY),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSlow {
    share: f64,
    up: Option<f64>,
    down: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRetry {
    most: u16,
    wait: Span,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawInCall {
    Request,
    Accept,
}

impl RawInCall {
    fn in_call(self) -> InCall {
        match self {
            Self::Request => InCall::Request,
            Self::Accept => InCall::Accept,
        }
    }
}

/// `"nginx"`, `"apache"`, `"haproxy"`, or each by itself.
#[derive(Clone, Debug)]
pub(super) enum RawTimeouts {
    Of(Timeouts),
    Each(Box<EachTimeout>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EachTimeout {
    header: Option<RawDeadline>,
    body: Option<RawDeadline>,
    send: Option<RawDeadline>,
    between_reads: Option<Span>,
    between_writes: Option<Span>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDeadline {
    initial: Span,
    min_rate: Option<f64>,
    most: Option<Span>,
}

impl RawTimeouts {
    fn timeouts(&self) -> Timeouts {
        let deadline = |raw: RawDeadline| Deadline {
            initial: raw.initial,
            min_rate: raw.min_rate,
            most: raw.most,
        };
        match self {
            Self::Of(timeouts) => *timeouts,
            Self::Each(each) => Timeouts {
                header: each.header.map(deadline),
                body: each.body.map(deadline),
                send: each.send.map(deadline),
                between_reads: each.between_reads,
                between_writes: each.between_writes,
            },
        }
    }
}

impl<'de> Deserialize<'de> for RawTimeouts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = RawTimeouts;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(
                    "the timeouts of \"nginx\", \"apache\" or \"haproxy\", or a table such as { header = { initial = \"10s\" } }",
                )
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<RawTimeouts, E> {
                match name {
                    "nginx" => Ok(RawTimeouts::Of(Timeouts::nginx())),
                    "apache" => Ok(RawTimeouts::Of(Timeouts::apache())),
                    "haproxy" => Ok(RawTimeouts::Of(Timeouts::haproxy())),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(name), &self)),
                }
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<RawTimeouts, A::Error> {
                let map = serde::de::value::MapAccessDeserializer::new(map);
                EachTimeout::deserialize(map).map(|each| RawTimeouts::Each(Box::new(each)))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}
