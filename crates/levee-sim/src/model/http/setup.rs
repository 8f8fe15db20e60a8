//! What a run of the model needs to know, and the bounds of it.

use std::time::Duration;

use levee_policy::Span;
use levee_policy::selective::{self, ConfigError, Phase, PhaseId, Selective};
use thiserror::Error;

use crate::schedule::Plan;

/// The shortest [`Drip::every`] and [`Attack::redial`]: a shorter one only makes events, and none at all would never let time pass.
pub const PAUSE_MIN: Span = Span::from_millis(1);
/// The most attackers of a fixed population: 100 MB of records (our choice).
pub const ATTACKERS_MAX: u32 = 1 << 20;

/// A server, its defence, its clients and its attackers.
///
/// The keys of a scenario file are in brackets.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// `k`, the connections that the server holds at once: workers, threads or connection slots. Key `service.capacity`.
    pub capacity: u32,
    /// Further connections that the kernel keeps until a place is free; 0 refuses them. Key `service.backlog`.
    pub backlog: u32,
    /// Bytes of a response that the kernel takes off the server's hands: the rest of it keeps the place. Key `service.send_buffer`.
    pub send_buffer: u32,
    /// The most bytes that one read or write moves; not 0. Key `service.segment`.
    pub segment: u32,
    /// Timeouts of whoever holds the clients' connections, server or front. Key `lane.timeouts`.
    pub timeouts: Timeouts,
    /// The selective policy in front; without one clients reach the server directly. Key `lane.defense` or table `defense`.
    pub defense: Option<selective::Config>,
    /// When a connection counts as INCALL; of no matter to a policy with phases. Key `lane.in_call`.
    pub in_call: InCall,
    /// One way through the network. Key `run.delay`.
    pub delay: Span,
    /// Clients that begin before it are not counted. Key `run.warmup`.
    pub warmup: Span,
    /// Who comes when. Durations of honest arrivals are the times that the server works on their requests (key `honest.duration`);
    /// rates come from `honest.rate` and `attack.share`, or attackers are a number, `attack.attackers`; callers are source
    /// addresses. A run ends at `until`; run `i` takes the seed plus `i`.
    pub plan: Plan,
    /// What honest clients send and ask for.
    pub clients: Clients,
    /// What attackers do.
    pub attack: Attack,
}

/// Honest clients: one request on a connection each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clients {
    /// Bytes of the request line and headers; not 0. Key `honest.headers`.
    pub headers: u32,
    /// In how many pieces they come; at least 1. Key `honest.header_pieces`.
    pub header_pieces: u32,
    /// Bytes of the request's body; 0 for none. Key `honest.body`.
    pub body: u32,
    /// Bytes of the response. Key `honest.response`.
    pub response: u32,
    /// Bandwidth. Key `honest.bandwidth`.
    pub bandwidth: Bandwidth,
    /// Some that have another. Key `honest.slow`.
    pub slow: Option<Slow>,
    /// Closes the connection when it has no complete response after this time. Key `honest.patience`.
    pub patience: Option<Span>,
    /// Tries again how often, when a try fails. Key `honest.retry.most`.
    pub retries: u16,
    /// And how long after that. Key `honest.retry.wait`.
    pub retry_wait: Span,
}

/// Bytes a second; infinite for no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// To the server; more than 0.
    pub up: f64,
    /// From the server; more than 0.
    pub down: f64,
}

impl Bandwidth {
    /// No limit.
    pub const UNLIMITED: Self = Self {
        up: f64::INFINITY,
        down: f64::INFINITY,
    };
}

/// Honest clients on a bad line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slow {
    /// Which share of the honest clients, 0 to 1.
    pub share: f64,
    /// Their bandwidth.
    pub bandwidth: Bandwidth,
}

/// What an attacker does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttackKind {
    /// Opens it and is silent. `attack.kind = "connect"`.
    Connect,
    /// Sends headers without end. `attack.kind = "slowloris"`.
    Slowloris(Drip),
    /// Sends headers at once, then a body without end (R.U.D.Y.). `attack.kind = "slow-post"`.
    SlowPost(Drip),
    /// Sends a request and reads the response through a tiny window. `attack.kind = "slow-read"`.
    SlowRead(Drip),
    /// Sends requests and reads responses as an honest client does. `attack.kind = "get-flood"`.
    GetFlood,
}

/// So many bytes in such a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drip {
    /// The time; at least [`PAUSE_MIN`]. Key `attack.every`.
    pub every: Span,
    /// The bytes; not 0. Key `attack.bytes`.
    pub bytes: u32,
}

/// The attack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attack {
    /// What an attacker does. Key `attack.kind`.
    pub kind: AttackKind,
    /// A fixed number of attackers beside those of the plan. Of the plan's
    /// [`Calls::OnceEach`](crate::schedule::Calls::OnceEach) (key `attack.attackers`) each has an address of its own; these
    /// share the addresses of the plan's attackers.
    pub fixed: Option<Fixed>,
    /// An attacker whose connection is over connects again after this time; never without it. At least [`PAUSE_MIN`]. Key `attack.redial`.
    pub redial: Option<Span>,
    /// Bytes of the response that it asks for, where it sends a whole request. Key `attack.response`.
    pub response: u32,
    /// How long the server works on such a request. Key `attack.service`.
    pub service: Span,
}

/// A fixed number of attackers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// How many; at most [`ATTACKERS_MAX`].
    pub attackers: u32,
    /// They first connect at times uniform in this.
    pub ramp: Span,
}

/// When a connection becomes INCALL for the policy; before that it is WAITING.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InCall {
    /// When its request is complete. A request that never gets complete keeps the factor `waiting`, however old it is. `in_call = "request"`.
    #[default]
    Request,
    /// When it is passed on: its age counts from the start, whatever it is doing. `in_call = "accept"`.
    Accept,
}

/// Timeouts of a web server. Without any, a connection is never cut. The keys of a `timeouts` table have the names of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timeouts {
    /// Until the headers are complete, from the accept.
    pub header: Option<Deadline>,
    /// Until the body is complete, from the end of the headers.
    pub body: Option<Deadline>,
    /// Until the response is in the kernel's hands, from its first byte.
    pub send: Option<Deadline>,
    /// Between two reads of a request.
    pub between_reads: Option<Span>,
    /// Between two writes of a response.
    pub between_writes: Option<Span>,
}

/// A time for a whole phase, which may grow with what comes (Apache's `mod_reqtimeout`). In a file
/// `{ initial = "20s", min_rate = 500, most = "40s" }`; only `initial` is needed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deadline {
    /// The time.
    pub initial: Span,
    /// Each byte adds one over this to it: the least bytes a second; more than 0.
    pub min_rate: Option<f64>,
    /// But not beyond this.
    pub most: Option<Span>,
}

impl Deadline {
    /// A time that does not grow.
    #[must_use]
    pub const fn fixed(initial: Span) -> Self {
        Self {
            initial,
            min_rate: None,
            most: None,
        }
    }

    /// How long a phase may last in which this many bytes have come.
    #[must_use]
    pub fn allows(&self, bytes: u64) -> Span {
        let Some(rate) = self.min_rate else {
            return self.initial;
        };
        let grown = self.initial + transfer(bytes, rate);
        self.most.map_or(grown, |most| grown.min(most))
    }
}

impl Timeouts {
    /// Those of nginx by default: `client_header_timeout`, `client_body_timeout` and `send_timeout` of 60 s.
    #[must_use]
    pub const fn nginx() -> Self {
        Self {
            header: Some(Deadline::fixed(Span::from_secs(60))),
            body: None,
            send: None,
            between_reads: Some(Span::from_secs(60)),
            between_writes: Some(Span::from_secs(60)),
        }
    }

    /// Those of Apache httpd by default: `RequestReadTimeout header=20-40,MinRate=500 body=20,MinRate=500`, `TimeOut 60`.
    #[must_use]
    pub const fn apache() -> Self {
        let header = Deadline {
            initial: Span::from_secs(20),
            min_rate: Some(500.0),
            most: Some(Span::from_secs(40)),
        };
        Self {
            header: Some(header),
            body: Some(Deadline {
                most: None,
                ..header
            }),
            send: None,
            between_reads: Some(Span::from_secs(60)),
            between_writes: Some(Span::from_secs(60)),
        }
    }

    /// Those of HAProxy's example against slow clients (`examples/antidos.cfg`): `timeout http-request 5s`, which ends with the
    /// headers, and `timeout client 60s`.
    #[must_use]
    pub const fn haproxy() -> Self {
        Self {
            header: Some(Deadline::fixed(Span::from_secs(5))),
            body: None,
            send: None,
            between_reads: Some(Span::from_secs(60)),
            between_writes: Some(Span::from_secs(60)),
        }
    }
}

/// The phases that the model reports to a policy which has phases, by the names of
/// [`phases_of_http`](selective::phases_of_http). No connection is ever `idle` here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// `headers`: from the accept until they are complete.
    pub headers: PhaseId,
    /// `body`: until it is complete.
    pub body: PhaseId,
    /// `waiting`: until the server has the response.
    pub waiting: PhaseId,
    /// `sending`: until the rest of it fits into the kernel's send buffer.
    pub sending: PhaseId,
}

/// A setup that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A value that is out of its range.
    #[error("`{key}` is out of range, expected {expected}")]
    Value {
        /// The key in a scenario.
        key: &'static str,
        /// What it may be.
        expected: &'static str,
    },
    /// The `[defense]` table.
    #[error("the defence cannot run")]
    Defense(#[from] ConfigError),
}

impl Setup {
    /// Whether a model can run with this.
    ///
    /// # Errors
    ///
    /// The first value that is out of its range.
    pub fn check(&self) -> Result<(), SetupError> {
        let need = |holds: bool, key, expected| {
            holds
                .then_some(())
                .ok_or(SetupError::Value { key, expected })
        };
        let positive = |x: f64| x > 0.0;
        let both = |b: &Bandwidth| positive(b.up) && positive(b.down);
        let clients = &self.clients;
        need(self.capacity > 0, "service.capacity", "at least 1")?;
        need(self.segment > 0, "service.segment", "at least 1 byte")?;
        need(clients.headers > 0, "honest.headers", "at least 1 byte")?;
        need(
            (1..=clients.headers).contains(&clients.header_pieces),
            "honest.header_pieces",
            "from 1 to the bytes of the headers",
        )?;
        need(
            both(&clients.bandwidth),
            "honest.bandwidth",
            "more than 0 bytes a second",
        )?;
        need(
            clients
                .patience
                .is_none_or(|p| p.as_nanos() / 2 >= self.delay.as_nanos()),
            "honest.patience",
            "at least two of `run.delay`: no connection is there before that",
        )?;
        if let Some(slow) = &clients.slow {
            need(
                (0.0..=1.0).contains(&slow.share),
                "honest.slow.share",
                "a share from 0 to 1",
            )?;
            need(
                both(&slow.bandwidth),
                "honest.slow.bandwidth",
                "more than 0 bytes a second",
            )?;
        }
        need(
            self.attack.redial.is_none_or(|pause| pause >= PAUSE_MIN),
            "attack.redial",
            "at least 1ms",
        )?;
        if let Some(drip) = self.attack.kind.drip() {
            need(drip.every >= PAUSE_MIN, "attack.every", "at least 1ms")?;
            need(drip.bytes > 0, "attack.bytes", "at least 1 byte")?;
        }
        need(
            self.attack
                .fixed
                .is_none_or(|fixed| fixed.attackers <= ATTACKERS_MAX),
            "attack.attackers",
            "at most 1048576",
        )?;
        let times = &self.timeouts;
        for deadline in [times.header, times.body, times.send].into_iter().flatten() {
            need(
                deadline.min_rate.is_none_or(positive),
                "timeouts.min_rate",
                "more than 0 bytes a second",
            )?;
        }
        if let Some(defense) = &self.defense {
            Selective::check(self.capacity, defense)?;
            let known = selective::phases_of_http();
            let is_known = |phase: &Phase| known.iter().any(|known| known.name == phase.name);
            need(
                defense.phases.is_empty()
                    || (self.phases().is_some() && defense.phases.iter().all(is_known)),
                "defense.phase",
                "phases of the names `idle`, `headers`, `body`, `waiting` and `sending`, all but the first needed",
            )?;
        }
        Ok(())
    }

    /// The phases of the policy by name; `None` if it has no phases, or not these.
    pub(super) fn phases(&self) -> Option<Phases> {
        let defense = self.defense.as_ref()?;
        Some(Phases {
            headers: defense.phase_id("headers")?,
            body: defense.phase_id("body")?,
            waiting: defense.phase_id("waiting")?,
            sending: defense.phase_id("sending")?,
        })
    }

    /// How long an honest connection holds its place on average when nobody disturbs it: what `drop_factor.mean_call` should be.
    #[must_use]
    pub fn mean_connection(&self) -> Span {
        let c = &self.clients;
        let on = |bandwidth: &Bandwidth| {
            let request = u64::from(c.headers) + u64::from(c.body);
            let held = u64::from(c.response.saturating_sub(self.send_buffer));
            let way = if held > 0 { 2 } else { 0 };
            let network = Span::from_nanos(way * self.delay.as_nanos());
            transfer(request, bandwidth.up) + transfer(held, bandwidth.down) + network
        };
        let usual = on(&c.bandwidth).as_secs_f64();
        let mean = c.slow.map_or(usual, |slow| {
            slow.share * on(&slow.bandwidth).as_secs_f64() + (1.0 - slow.share) * usual
        });
        let service = self.plan.honest.durations.as_ref();
        let service = service.map_or(0.0, |d| d.mean().as_secs_f64());
        Span::from_secs_f64(service + mean).unwrap_or(Span::MAX)
    }
}

impl AttackKind {
    /// Its drip, if it drips.
    #[must_use]
    pub fn drip(&self) -> Option<&Drip> {
        match self {
            Self::Slowloris(drip) | Self::SlowPost(drip) | Self::SlowRead(drip) => Some(drip),
            Self::Connect | Self::GetFlood => None,
        }
    }
}

/// How long so many bytes take at so many bytes a second; no time at all without a limit.
pub(super) fn transfer(bytes: u64, rate: f64) -> Span {
    Span::from_secs_f64(bytes as f64 / rate).unwrap_or(Span::MAX)
}

/// A duration of the schedule in the engine's time.
pub(super) fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
