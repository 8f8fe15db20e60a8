//! A front's [`Snapshot`] as metrics in Prometheus' text format 0.0.4.
//!
//! One list, `FAMILIES`, says everything: name, kind, help and where the number comes from. docs/metrics.md has an
//! entry for each, which a test holds.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::histogram::Histogram;
use crate::sip::Snapshot;

/// Media type of what [`render`] returns.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// The metrics of these fronts, and of the program itself.
pub fn render(fronts: Vec<Snapshot>, process_start_seconds: f64) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Fronts {
        fronts,
        process_start_seconds,
    }));
    let mut text = String::new();
    // Writing to a String cannot fail, and the collector has no error of its own.
    if prometheus_text::encode(&mut text, &registry).is_err() {
        text.clear();
    }
    text
}

/// A family of metrics.
struct Family {
    name: &'static str,
    help: &'static str,
    read: Read,
}

/// Where the numbers come from.
enum Read {
    Gauge(fn(&Snapshot) -> f64),
    Counter(fn(&Snapshot) -> u64),
    /// One gauge for each value of a label.
    Gauges(&'static str, fn(&Snapshot) -> Vec<(String, u64)>),
    /// One counter for each value of a label.
    Counters(&'static str, fn(&Snapshot) -> Vec<(String, u64)>),
    Seconds(fn(&Snapshot) -> &Histogram),
}

/// Every family of a SIP front, without the `levee_sip_` before its name and the `_total` behind a counter's.
const FAMILIES: &[Family] = &[
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
        read: Read::Gauge(|s| match s.capacity {
            0 => 0.0,
            k => f64::from(k) / (f64::from(k) + s.pmod as f64),
        }),
    },
    Family {
        name: "rounds",
        help: "Rounds that had an arrival, by whether one met a full table",
        read: Read::Counters("overloaded", |s| {
            let overloaded = s.policy.rounds_overloaded;
            labelled([
                ("true", overloaded),
                ("false", s.policy.rounds.saturating_sub(overloaded)),
            ])
        }),
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
        read: Read::Counters("cause", |s| {
            s.refused
                .iter()
                .map(|(cause, n)| ((*cause).to_owned(), *n))
                .collect()
        }),
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
        read: Read::Counters("cause", |s| {
            s.died
                .iter()
                .map(|(cause, n)| ((*cause).to_owned(), *n))
                .collect()
        }),
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
        read: Read::Counters("cause", |s| {
            s.dropped
                .iter()
                .map(|(cause, n)| ((*cause).to_owned(), *n))
                .collect()
        }),
    },
    Family {
        name: "replies",
        help: "Answers of Levee's own, by status code",
        read: Read::Counters("status", |s| {
            s.replied
                .iter()
                .map(|(status, n)| (status.to_string(), *n))
                .collect()
        }),
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

fn labelled<const N: usize>(values: [(&str, u64); N]) -> Vec<(String, u64)> {
    values
        .into_iter()
        .map(|(label, value)| (label.to_owned(), value))
        .collect()
}

#[derive(Debug)]
struct Fronts {
    fronts: Vec<Snapshot>,
    process_start_seconds: f64,
}

impl Collector for Fronts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut build = encoder.encode_descriptor(
            "levee_build",
            "The version that runs",
            None,
            MetricType::Info,
        )?;
        build.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        let help = "When the program started, in seconds since 1970";
        let mut start = encoder.encode_descriptor(
            "process_start_time_seconds",
            help,
            None,
            MetricType::Gauge,
        )?;
        start.encode_gauge(&self.process_start_seconds)?;
        for family in FAMILIES {
            family.encode(&self.fronts, &mut encoder)?;
        }
        Ok(())
    }
}

impl Family {
    fn encode(
        &self,
        fronts: &[Snapshot],
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), fmt::Error> {
        let name = format!("levee_sip_{}", self.name);
        let kind = match self.read {
            Read::Gauge(_) | Read::Gauges(..) => MetricType::Gauge,
            Read::Counter(_) | Read::Counters(..) => MetricType::Counter,
            Read::Seconds(_) => MetricType::Histogram,
        };
        let mut metric = encoder.encode_descriptor(&name, self.help, None, kind)?;
        for front in fronts {
            let only = [("front", front.name.as_str())];
            match self.read {
                Read::Gauge(read) => metric.encode_family(&only)?.encode_gauge(&read(front))?,
                Read::Counter(read) => {
                    metric
                        .encode_family(&only)?
                        .encode_counter::<[(&str, &str); 1], _, u64>(&read(front), None)?;
                }
                Read::Gauges(label, read) => {
                    for (value, number) in read(front) {
                        let labels = [("front", front.name.as_str()), (label, value.as_str())];
                        metric
                            .encode_family(&labels)?
                            .encode_gauge(&(number as f64))?;
                    }
                }
                Read::Counters(label, read) => {
                    for (value, number) in read(front) {
                        let labels = [("front", front.name.as_str()), (label, value.as_str())];
                        metric
                            .encode_family(&labels)?
                            .encode_counter::<[(&str, &str); 2], _, u64>(&number, None)?;
                    }
                }
                Read::Seconds(read) => {
                    let histogram = read(front);
                    let seconds = |us: u64| us as f64 / 1e6;
                    let bounds = histogram
                        .bounds_us
                        .iter()
                        .map(|us| seconds(*us))
                        .chain([f64::INFINITY]);
                    let buckets: Vec<_> = bounds.zip(histogram.counts.iter().copied()).collect();
                    let (sum, count) = (seconds(histogram.sum_us), histogram.counts.iter().sum());
                    let mut metric = metric.encode_family(&only)?;
                    metric.encode_histogram::<[(&str, &str); 1]>(sum, count, &buckets, None)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn snapshot(name: &str) -> Snapshot {
        let mut snapshot = Snapshot {
            name: name.to_owned(),
            capacity: 24,
            held_waiting: 2,
            held_in_call: 20,
            evicting: 1,
            in_service: 23,
            pmod: 8,
            arrivals: 100,
            refused: BTreeMap::from([("full", 7), ("source_rate", 1)]),
            died: BTreeMap::from([("call_max", 1)]),
            dropped: BTreeMap::from([("malformed", 3)]),
            replied: BTreeMap::from([(503, 8), (400, 2)]),
            ..Snapshot::default()
        };
        for us in [3, 5, 6, 40, 1_000_000] {
            snapshot.latency.note(us);
        }
        snapshot
    }

    /// Checks the grammar of the text format 0.0.4 and returns each sample.
    fn samples(text: &str) -> BTreeMap<String, f64> {
        let mut samples = BTreeMap::new();
        let mut family = String::new();
        let mut seen = BTreeSet::new();
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                family = rest.split_once(' ').unwrap().0.to_owned();
                assert!(seen.insert(family.clone()), "{family} twice");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(name, family);
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            } else {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let name = series.split('{').next().unwrap();
                let base = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| name.strip_suffix(end));
                assert!(
                    name == family || base == Some(&family),
                    "{line} under {family}"
                );
                assert!(
                    name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
                    "{line}"
                );
                assert!(
                    samples
                        .insert(series.to_owned(), value.parse().unwrap())
                        .is_none(),
                    "{series} twice"
                );
            }
        }
        samples
    }

    #[test]
    fn the_text_is_well_formed_and_carries_the_numbers() {
        let samples = samples(&render(vec![snapshot("a"), snapshot("b\"\\\n")], 1.7e9));
        let check = |series: &str, expect: f64| {
            assert_eq!(samples.get(series), Some(&expect), "{series}: {samples:#?}");
        };
        check("levee_sip_calls{front=\"a\",state=\"in_call\"}", 20.0);
        check(
            "levee_sip_calls{front=\"b\\\"\\\\\\n\",state=\"evicting\"}",
            1.0,
        );
        check("levee_sip_admission_probability{front=\"a\"}", 0.75);
        check("levee_sip_arrivals_total{front=\"a\"}", 100.0);
        check(
            "levee_sip_refused_total{front=\"a\",cause=\"source_rate\"}",
            1.0,
        );
        check("levee_sip_replies_total{front=\"a\",status=\"503\"}", 8.0);
        check(
            "levee_sip_latency_seconds_bucket{front=\"a\",le=\"5e-06\"}",
            2.0,
        );
        check(
            "levee_sip_latency_seconds_bucket{front=\"a\",le=\"1e-05\"}",
            3.0,
        );
        check(
            "levee_sip_latency_seconds_bucket{front=\"a\",le=\"0.1\"}",
            4.0,
        );
        check(
            "levee_sip_latency_seconds_bucket{front=\"a\",le=\"+Inf\"}",
            5.0,
        );
        check("levee_sip_latency_seconds_count{front=\"a\"}", 5.0);
        check("levee_sip_latency_seconds_sum{front=\"a\"}", 1.000_054);
        check("process_start_time_seconds", 1.7e9);
        check(
            concat!(
                "levee_build_info{version=\"",
                env!("CARGO_PKG_VERSION"),
                "\"}"
            ),
            1.0,
        );
    }

    #[test]
    fn the_document_names_each_family_and_no_other() {
        let text = render(vec![snapshot("a")], 0.0);
        let rendered: BTreeSet<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        let document = include_str!("../../../docs/metrics.md");
        let written: BTreeSet<_> = document
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next())
            .filter(|name| name.starts_with("levee_") || name.starts_with("process_"))
            .collect();
        assert_eq!(rendered, written);
    }
}
