//! The metrics of a SIP front.

use super::{Family, Read, admission_probability, causes, labelled, rounds};
use crate::sip::Snapshot;

/// Every family, without the `levee_sip_` before its name and the `_total` behind a counter's.
pub(super) const FAMILIES: &[Family<Snapshot>] = &[
    Family {
        name: "capacity",
        help: "Calls that the server can hold at once (k)",
        read: Read::Gauge(|s| f64::from(s.capacity)),
    },
    Family {
        name: "calls",
        help: "Calls in hand by state",
        read: Read::Gauges("state", |s| {
            labelled([
                ("waiting", s.held_waiting.into()),
                ("in_call", s.held_in_call.into()),
                ("evicting", s.evicting.into()),
            ])
        }),
    },
    Family {
        name: "slots_taken",
        help: "Slots of the server that are taken, as the defence counts them",
        read: Read::Gauge(|s| f64::from(s.in_service)),
    },
    Family {
        name: "pmod",
        help: "Arrivals at a full table in this round (PMod)",
        read: Read::Gauge(|s| s.pmod as f64),
    },
    Family {
        name: "round_seconds",
        help: "Length of a round (T_S)",
        read: Read::Gauge(|s| s.round_seconds),
    },
    Family {
        name: "admission_probability",
        help: "Probability with which an arrival at a full table is taken (P1 = k / (k + PMod))",
        read: Read::Gauge(|s| admission_probability(s.capacity, s.pmod)),
    },
    Family {
        name: "rounds",
        help: "Rounds that had an arrival, by whether one met a full table",
        read: Read::Counters("overloaded", |s| rounds(&s.policy)),
    },
    Family {
        name: "draws",
        help: "Random draws at a full table: p1 whether to take the newcomer, p2 which call to drop for it",
        read: Read::Counters("draw", |s| {
            labelled([("p1", s.policy.p1_used), ("p2", s.policy.p2_used)])
        }),
    },
    Family {
        name: "arrivals",
        help: "New calls that asked to come in",
        read: Read::Counter(|s| s.arrivals),
    },
    Family {
        name: "admitted",
        help: "New calls that the defence took into its table",
        read: Read::Counter(|s| s.policy.admitted),
    },
    Family {
        name: "forwarded",
        help: "New calls passed on to the server",
        read: Read::Counter(|s| s.forwarded),
    },
    Family {
        name: "answered",
        help: "Calls that were answered and acknowledged",
        read: Read::Counter(|s| s.answered),
    },
    Family {
        name: "completed",
        help: "Answered calls that ended by a BYE of one of their ends",
        read: Read::Counter(|s| s.completed),
    },
    Family {
        name: "failed",
        help: "Calls that the server answered with an error, or not at all",
        read: Read::Counter(|s| s.failed),
    },
    Family {
        name: "cancelled",
        help: "Calls whose caller gave up before an answer",
        read: Read::Counter(|s| s.cancelled),
    },
    Family {
        name: "refused",
        help: "New calls that were refused, by cause",
        read: Read::Counters("cause", |s| causes(&s.refused)),
    },
    Family {
        name: "evicted",
        help: "Held calls that the defence dropped, by state",
        read: Read::Counters("state", |s| {
            labelled([
                ("waiting", s.evicted_waiting),
                ("in_call", s.evicted_in_call),
            ])
        }),
    },
    Family {
        name: "spared",
        help: "Calls that a dry run would have refused or dropped",
        read: Read::Counter(|s| s.spared),
    },
    Family {
        name: "over_capacity",
        help: "Calls of an always-admitted class passed on beyond the capacity",
        read: Read::Counter(|s| s.policy.over_capacity),
    },
    Family {
        name: "untracked",
        help: "Calls passed on without being followed, since too many were known",
        read: Read::Counter(|s| s.policy.untracked),
    },
    Family {
        name: "died",
        help: "Calls that were ended because they were dead, by cause",
        read: Read::Counters("cause", |s| causes(&s.died)),
    },
    Family {
        name: "byes_sent",
        help: "BYEs of Levee's own",
        read: Read::Counter(|s| s.bye_sent),
    },
    Family {
        name: "byes_done",
        help: "BYEs of Levee's own by outcome: answered, or timeout when no answer came",
        read: Read::Counters("outcome", |s| {
            labelled([("answered", s.bye_answered), ("timeout", s.bye_timeout)])
        }),
    },
    Family {
        name: "dropped",
        help: "Messages dropped without an answer, by cause",
        read: Read::Counters("cause", |s| causes(&s.dropped)),
    },
    Family {
        name: "replies",
        help: "Answers of Levee's own, by status code",
        read: Read::Counters("status", |s| causes(&s.replied)),
    },
    Family {
        name: "transactions",
        help: "Transactions alive",
        read: Read::Gauge(|s| f64::from(s.transactions)),
    },
    Family {
        name: "transaction_bytes",
        help: "Bytes of messages that transactions keep",
        read: Read::Gauge(|s| s.transaction_bytes as f64),
    },
    Family {
        name: "connections",
        help: "TCP connections open",
        read: Read::Gauge(|s| f64::from(s.connections)),
    },
    Family {
        name: "messages",
        help: "SIP messages by direction",
        read: Read::Counters("direction", |s| {
            labelled([("in", s.messages_in), ("out", s.messages_out)])
        }),
    },
    Family {
        name: "retransmitted",
        help: "Messages sent again by a timer",
        read: Read::Counter(|s| s.retransmitted),
    },
    Family {
        name: "absorbed",
        help: "Requests that came again and went no further",
        read: Read::Counter(|s| s.absorbed),
    },
    Family {
        name: "latency_seconds",
        help: "From the reading of a message to the sending of all that it caused",
        read: Read::Seconds(|s| &s.latency),
    },
    Family {
        name: "reconfigured",
        help: "Configurations that the defence took while it ran",
        read: Read::Counter(|s| s.policy.reconfigured),
    },
    Family {
        name: "recording_lost",
        help: "Inputs and outputs of the defence that no recording holds",
        read: Read::Counter(|s| s.recording_lost),
    },
    Family {
        name: "draining",
        help: "1 while the front takes no new call because it is stopping",
        read: Read::Gauge(|s| f64::from(u8::from(s.draining))),
    },
];
