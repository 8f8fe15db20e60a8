//! The metrics of an HTTP front: of the front itself, of its thinner, and of its table of connections.

use std::fmt;

use levee_policy::selective::phases_of_http;
use prometheus_client::encoding::DescriptorEncoder;

use super::{Family, Named, Read, causes, labelled};
use crate::http::gate::{ConnectionsSnapshot, RequestsSnapshot};
use crate::http::snapshot::{ByPhase, Snapshot};

pub(super) fn encode(
    fronts: &[Named<'_, Snapshot>],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let thinners: Vec<_> = fronts
        .iter()
        .filter_map(|(name, front)| Some((*name, front.gate.requests.as_ref()?)))
        .collect();
    let tables: Vec<_> = fronts
        .iter()
        .filter_map(|(name, front)| Some((*name, front.gate.connections.as_ref()?)))
        .collect();
    super::encode("levee_http_", FRONT, fronts, encoder)?;
    super::encode("levee_http_thinner_", THINNER, &thinners, encoder)?;
    super::encode("levee_http_table_", TABLE, &tables, encoder)
}

/// Every family of a front, without the `levee_http_` before its name and the `_total` behind a counter's.
const FRONT: &[Family<Snapshot>] = &[
    Family {
        name: "workers",
        help: "Worker threads",
        read: Read::Gauge(|s| f64::from(s.workers)),
    },
    Family {
        name: "connections",
        help: "Connections of clients that are open, by phase",
        read: Read::Gauges("phase", |s| by_phase(&s.traffic.connections)),
    },
    Family {
        name: "accepted",
        help: "Connections taken from the kernel",
        read: Read::Counter(|s| s.traffic.accepted),
    },
    Family {
        name: "cut",
        help: "Connections cut before their first request, by cause",
        read: Read::Counters("cause", |s| causes(&s.traffic.cut)),
    },
    Family {
        name: "timeouts",
        help: "Connections closed by a deadline, by the phase that they were in",
        read: Read::Counters("phase", |s| by_phase(&s.traffic.timed_out)),
    },
    Family {
        name: "tls_handshakes",
        help: "TLS handshakes that came to their end",
        read: Read::Counter(|s| s.traffic.handshakes),
    },
    Family {
        name: "requests",
        help: "Requests whose head was read, by version of HTTP",
        read: Read::Counters("version", |s| {
            labelled([("1", s.traffic.requests_h1), ("2", s.traffic.requests_h2)])
        }),
    },
    Family {
        name: "responses",
        help: "Responses of the server passed on, by class of their status",
        read: Read::Counters("class", |s| {
            let classes = s.traffic.responses.iter().enumerate().skip(1);
            classes
                .map(|(digit, n)| (format!("{digit}xx"), *n))
                .collect()
        }),
    },
    Family {
        name: "replies",
        help: "Answers of Levee's own, by status",
        read: Read::Counters("status", |s| causes(&s.traffic.replied)),
    },
    Family {
        name: "bad_requests",
        help: "Requests that are no HTTP or beyond a limit, by cause",
        read: Read::Counters("cause", |s| causes(&s.traffic.bad_requests)),
    },
    Family {
        name: "client_gone",
        help: "Requests whose client was gone before the answer was sent",
        read: Read::Counter(|s| s.traffic.client_gone),
    },
    Family {
        name: "tunnels",
        help: "WebSockets and event streams begun",
        read: Read::Counter(|s| s.traffic.tunnels),
    },
    Family {
        name: "h2_abuse",
        help: "HTTP/2 connections closed for what they did, by kind",
        read: Read::Counters("kind", |s| causes(&s.traffic.h2_abuse)),
    },
    Family {
        name: "bytes",
        help: "Bytes read from clients (in, payment included) and sent to them (out)",
        read: Read::Counters("direction", |s| {
            labelled([("in", s.traffic.bytes_in), ("out", s.traffic.bytes_out)])
        }),
    },
    Family {
        name: "upstream_connections",
        help: "Connections to the server, by whether they carry a request",
        read: Read::Gauges("state", |s| {
            labelled([
                ("busy", s.traffic.upstream_busy),
                ("idle", s.traffic.upstream_idle),
            ])
        }),
    },
    Family {
        name: "upstream_connects",
        help: "Connections to the server that were made",
        read: Read::Counter(|s| s.traffic.upstream_connects),
    },
    Family {
        name: "upstream_reused",
        help: "Requests sent on a connection that an earlier one had left",
        read: Read::Counter(|s| s.traffic.upstream_reused),
    },
    Family {
        name: "upstream_errors",
        help: "Requests that the server did not answer as it should, by cause",
        read: Read::Counters("cause", |s| causes(&s.traffic.upstream_errors)),
    },
    Family {
        name: "upstream_seconds",
        help: "From the sending of a request's head to the server to the head of its response",
        read: Read::Seconds(|s| &s.traffic.upstream_latency),
    },
    Family {
        name: "payment_channels",
        help: "Payment channels that are open",
        read: Read::Gauge(|s| s.gate.channels as f64),
    },
    Family {
        name: "access_log_lines",
        help: "Lines written to the access log",
        read: Read::Counter(|s| s.access_log_lines),
    },
    Family {
        name: "access_log_lost",
        help: "Lines that the access log lost, since the disk was too slow or full",
        read: Read::Counter(|s| s.access_log_lost),
    },
    Family {
        name: "recording_lost",
        help: "Inputs and outputs of the defences that no recording holds",
        read: Read::Counter(|s| s.gate.recording_lost),
    },
    Family {
        name: "draining",
        help: "1 while the front takes no new request because it is stopping",
        read: Read::Gauge(|s| f64::from(u8::from(s.draining))),
    },
];

/// Every family of a thinner, without the `levee_http_thinner_` before its name.
const THINNER: &[Family<RequestsSnapshot>] = &[
    Family {
        name: "mode",
        help: "What decides who gets in: the one that is 1",
        read: Read::Gauges("mode", |s| vec![(s.mode.name().to_owned(), 1)]),
    },
    Family {
        name: "overloaded",
        help: "1 while demand exceeds capacity",
        read: Read::Gauge(|s| f64::from(u8::from(s.is_overloaded))),
    },
    Family {
        name: "overloads",
        help: "Times that demand came to exceed capacity",
        read: Read::Counter(|s| s.stats.overloads),
    },
    Family {
        name: "contenders",
        help: "Requests that wait to be admitted",
        read: Read::Gauge(|s| f64::from(s.contenders)),
    },
    Family {
        name: "in_service",
        help: "Requests that the server has",
        read: Read::Gauge(|s| f64::from(s.in_service)),
    },
    Family {
        name: "limit",
        help: "Requests that the server may have at once; 0 where the capacity is a rate",
        read: Read::Gauge(|s| s.limit.map_or(0.0, f64::from)),
    },
    Family {
        name: "price",
        help: "What a newcomer would have to pay, in the units of the mode",
        read: Read::Gauge(|s| s.price as f64),
    },
    Family {
        name: "inbound_rate",
        help: "Requests that ask in a second, retries included",
        read: Read::Gauge(|s| s.inbound_rate),
    },
    Family {
        name: "admission_rate",
        help: "Requests that are admitted in a second",
        read: Read::Gauge(|s| s.admission_rate),
    },
    Family {
        name: "payment_rate",
        help: "Units that are paid in a second",
        read: Read::Gauge(|s| s.payment_rate),
    },
    Family {
        name: "wait_seconds",
        help: "From a request's arrival to its admission, of those that waited",
        read: Read::Seconds(|s| &s.wait),
    },
    Family {
        name: "fairness",
        help: "Jain's index of the admitted requests of client groups lately: 1 all got the same, 1 / groups one got all",
        read: Read::Gauge(|s| s.fairness.as_ref().map_or(1.0, |all| all.admitted.jain)),
    },
    Family {
        name: "groups",
        help: "Client groups that were admitted lately, estimated",
        read: Read::Gauge(|s| s.fairness.as_ref().map_or(0.0, |all| all.admitted.groups)),
    },
    Family {
        name: "arrivals",
        help: "Requests that asked",
        read: Read::Counter(|s| s.stats.arrivals),
    },
    Family {
        name: "held",
        help: "Requests that had to wait",
        read: Read::Counter(|s| s.stats.held),
    },
    Family {
        name: "admitted",
        help: "Requests passed on to the server, at once or after waiting",
        read: Read::Counter(|s| s.stats.admitted),
    },
    Family {
        name: "refused",
        help: "Requests turned away, by cause",
        read: Read::Counters("cause", |s| {
            let refused = &s.stats.refused;
            labelled([
                ("drawn", refused.drawn),
                ("unpaid", refused.unpaid),
                ("outbid", refused.outbid),
                ("crowded", refused.crowded),
            ])
        }),
    },
    Family {
        name: "left",
        help: "Waiting requests whose client left",
        read: Read::Counter(|s| s.stats.left),
    },
    Family {
        name: "done",
        help: "Requests that left the server, by outcome",
        read: Read::Counters("outcome", |s| {
            let done = &s.stats.done;
            labelled([
                ("answered", done.answered),
                ("failed", done.failed),
                ("broken", done.broken),
            ])
        }),
    },
    Family {
        name: "spared",
        help: "What a dry run would have done to a request and did not",
        read: Read::Counters("verdict", |s| {
            labelled([
                ("refuse", s.tickets.would_refuse),
                ("hold", s.tickets.would_hold),
            ])
        }),
    },
    Family {
        name: "units",
        help: "What was paid, in the units of the mode: of all of it, what bought a place (spent) and what did not (forfeited)",
        read: Read::Counters("use", |s| {
            labelled([
                ("paid", s.stats.paid),
                ("brought", s.stats.brought),
                ("spent", s.stats.spent),
                ("forfeited", s.stats.forfeited),
            ])
        }),
    },
    Family {
        name: "payments",
        help: "Payment channels that were opened",
        read: Read::Counter(|s| s.payment.opened),
    },
    Family {
        name: "payment_bytes",
        help: "Bytes that came on payment channels",
        read: Read::Counter(|s| s.payment.bytes),
    },
    Family {
        name: "payment_shed",
        help: "Payment channels turned away for their number, and pauses for their rate",
        read: Read::Counters("what", |s| {
            labelled([
                ("channel", s.payment.shed_channels),
                ("pause", s.payment.shed_pauses),
            ])
        }),
    },
    Family {
        name: "tickets",
        help: "Tickets that were brought, by what they were",
        read: Read::Counters("kind", |s| {
            let tickets = &s.tickets;
            labelled([
                ("good", tickets.good),
                ("forged", tickets.forged),
                ("exhausted", tickets.exhausted),
                ("stale", tickets.stale),
                ("spent", tickets.spent),
            ])
        }),
    },
    Family {
        name: "reconfigured",
        help: "Configurations that the thinner took while it ran",
        read: Read::Counter(|s| s.stats.reconfigured),
    },
];

/// Every family of a table of connections, without the `levee_http_table_` before its name.
const TABLE: &[Family<ConnectionsSnapshot>] = &[
    Family {
        name: "capacity",
        help: "Connections that the table holds at once (k)",
        read: Read::Gauge(|s| f64::from(s.capacity)),
    },
    Family {
        name: "held",
        help: "Connections in the table",
        read: Read::Gauge(|s| f64::from(s.held)),
    },
    Family {
        name: "pmod",
        help: "Arrivals at a full table in this round (PMod)",
        read: Read::Gauge(|s| s.pmod as f64),
    },
    Family {
        name: "admission_probability",
        help: "Probability with which an arrival at a full table is taken (P1 = k / (k + PMod))",
        read: Read::Gauge(|s| super::admission_probability(s.capacity, s.pmod)),
    },
    Family {
        name: "rounds",
        help: "Rounds that had an arrival, by whether one met a full table",
        read: Read::Counters("overloaded", |s| super::rounds(&s.stats)),
    },
    Family {
        name: "admitted",
        help: "Connections taken into the table",
        read: Read::Counter(|s| s.stats.admitted),
    },
    Family {
        name: "refused",
        help: "Connections turned away, by cause",
        read: Read::Counters("cause", |s| {
            let refused = &s.stats.refused;
            labelled([
                ("overload", refused.overload),
                ("full", refused.full),
                ("no_victim", refused.no_victim),
                ("caller_limit", refused.caller_limit),
                ("source_limit", refused.source_limit),
            ])
        }),
    },
    Family {
        name: "evicted",
        help: "Connections closed for another, by the phase that they were in",
        read: Read::Counters("phase", |s| {
            let counts = s.stats.evicted.by_phase.iter();
            let names = phases_of_http().into_iter().map(|phase| phase.name);
            names.zip(counts.copied()).collect()
        }),
    },
    Family {
        name: "spared",
        help: "What a dry run would have done to a connection and did not",
        read: Read::Counters("verdict", |s| {
            labelled([("refuse", s.would_refuse), ("evict", s.would_evict)])
        }),
    },
    Family {
        name: "reconfigured",
        help: "Configurations that the table took while it ran",
        read: Read::Counter(|s| s.stats.reconfigured),
    },
];

fn by_phase(numbers: &ByPhase) -> Vec<(String, u64)> {
    let numbers = numbers.iter();
    numbers.map(|(phase, n)| (phase.to_owned(), n)).collect()
}
