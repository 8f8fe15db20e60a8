//! Snapshots of fronts as metrics in Prometheus' text format 0.0.4.
//!
//! Lists of families say everything: name, kind, help and where the number comes from. docs/metrics.md has an entry for
//! each, which a test holds.

mod http;
mod sip;

use std::collections::BTreeMap;
use std::fmt;

use levee_policy::selective;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::front::Numbers;
use crate::histogram::Histogram;

/// Media type of what [`render`] returns.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// The metrics of these fronts, and of the program itself.
pub fn render(fronts: Vec<Numbers>, process_start_seconds: f64) -> String {
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

/// A family of metrics of what has the numbers `N`.
struct Family<N: 'static> {
    name: &'static str,
    help: &'static str,
    read: Read<N>,
}

/// Where the numbers come from.
enum Read<N: 'static> {
    Gauge(fn(&N) -> f64),
    Counter(fn(&N) -> u64),
    /// One gauge for each value of a label.
    Gauges(&'static str, fn(&N) -> Vec<(String, u64)>),
    /// One counter for each value of a label.
    Counters(&'static str, fn(&N) -> Vec<(String, u64)>),
    Seconds(fn(&N) -> &Histogram),
}

fn labelled<const N: usize>(values: [(&str, u64); N]) -> Vec<(String, u64)> {
    values
        .into_iter()
        .map(|(label, value)| (label.to_owned(), value))
        .collect()
}

/// Counts by what they are counted by.
fn causes<K: ToString>(counts: &BTreeMap<K, u64>) -> Vec<(String, u64)> {
    let counts = counts.iter();
    counts.map(|(cause, n)| (cause.to_string(), *n)).collect()
}

/// `P1 = k / (k + PMod)`.
fn admission_probability(capacity: u32, pmod: u64) -> f64 {
    match f64::from(capacity) {
        0.0 => 0.0,
        k => k / (k + pmod as f64),
    }
}

/// By whether one of their arrivals met a full table.
fn rounds(stats: &selective::Stats) -> Vec<(String, u64)> {
    let overloaded = stats.rounds_overloaded;
    labelled([
        ("true", overloaded),
        ("false", stats.rounds.saturating_sub(overloaded)),
    ])
}

#[derive(Debug)]
struct Fronts {
    fronts: Vec<Numbers>,
    process_start_seconds: f64,
}

/// A front's name with numbers of it.
type Named<'f, N> = (&'f str, &'f N);

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
        let (mut of_sip, mut of_http) = (Vec::new(), Vec::new());
        for front in &self.fronts {
            match front {
                Numbers::Sip(numbers) => of_sip.push((front.name(), &**numbers)),
                Numbers::Http(numbers) => of_http.push((front.name(), &**numbers)),
            }
        }
        encode("levee_sip_", sip::FAMILIES, &of_sip, &mut encoder)?;
        http::encode(&of_http, &mut encoder)
    }
}

/// Nothing is said of a kind of which there is none.
fn encode<N>(
    prefix: &str,
    families: &[Family<N>],
    fronts: &[Named<'_, N>],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    if fronts.is_empty() {
        return Ok(());
    }
    let mut families = families.iter();
    families.try_for_each(|family| family.encode(prefix, fronts, encoder))
}

impl<N> Family<N> {
    fn encode(
        &self,
        prefix: &str,
        fronts: &[Named<'_, N>],
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), fmt::Error> {
        let name = format!("{prefix}{}", self.name);
        let kind = match self.read {
            Read::Gauge(_) | Read::Gauges(..) => MetricType::Gauge,
            Read::Counter(_) | Read::Counters(..) => MetricType::Counter,
            Read::Seconds(_) => MetricType::Histogram,
        };
        let mut metric = encoder.encode_descriptor(&name, self.help, None, kind)?;
        for (front, numbers) in fronts {
            let only = [("front", *front)];
            match self.read {
                Read::Gauge(read) => metric.encode_family(&only)?.encode_gauge(&read(numbers))?,
                Read::Counter(read) => {
                    metric
                        .encode_family(&only)?
                        .encode_counter::<[(&str, &str); 1], _, u64>(&read(numbers), None)?;
                }
                Read::Gauges(label, read) => {
                    for (value, number) in read(numbers) {
                        let labels = [("front", *front), (label, value.as_str())];
                        metric
                            .encode_family(&labels)?
                            .encode_gauge(&(number as f64))?;
                    }
                }
                Read::Counters(label, read) => {
                    for (value, number) in read(numbers) {
                        let labels = [("front", *front), (label, value.as_str())];
                        metric
                            .encode_family(&labels)?
                            .encode_counter::<[(&str, &str); 2], _, u64>(&number, None)?;
                    }
                }
                Read::Seconds(read) => {
                    let histogram = read(numbers);
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
    use crate::http::gate::{ConnectionsSnapshot, RequestsSnapshot};
    use crate::http::snapshot::{Phase, Snapshot as Http};
    use crate::sip::Snapshot;

    fn http(name: &str) -> Numbers {
        let mut front = Http {
            name: name.to_owned(),
            workers: 2,
            ..Http::default()
        };
        front.traffic.connections[Phase::Body] = 3;
        front.traffic.note_response(204);
        front.traffic.note_reply(503);
        front.traffic.bad_requests.insert("two_lengths", 4);
        front.traffic.upstream_latency.note(2_000);
        let mut thinner = RequestsSnapshot {
            price: 62_500,
            ..RequestsSnapshot::default()
        };
        thinner.stats.refused.outbid = 9;
        front.gate.requests = Some(thinner);
        let mut table = ConnectionsSnapshot {
            capacity: 24,
            pmod: 8,
            ..ConnectionsSnapshot::default()
        };
        table.stats.evicted.by_phase[1] = 5;
        front.gate.connections = Some(table);
        front.into()
    }

    fn sip(name: &str) -> Numbers {
        snapshot(name).into()
    }

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
        let samples = samples(&render(vec![sip("a"), http("web"), sip("b\"\\\n")], 1.7e9));
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
        check("levee_http_workers{front=\"web\"}", 2.0);
        check("levee_http_connections{front=\"web\",phase=\"body\"}", 3.0);
        check("levee_http_connections{front=\"web\",phase=\"idle\"}", 0.0);
        check(
            "levee_http_responses_total{front=\"web\",class=\"2xx\"}",
            1.0,
        );
        check(
            "levee_http_replies_total{front=\"web\",status=\"503\"}",
            1.0,
        );
        check(
            "levee_http_bad_requests_total{front=\"web\",cause=\"two_lengths\"}",
            4.0,
        );
        check(
            "levee_http_upstream_seconds_bucket{front=\"web\",le=\"0.005\"}",
            1.0,
        );
        check("levee_http_thinner_price{front=\"web\"}", 62_500.0);
        check(
            "levee_http_thinner_mode{front=\"web\",mode=\"auction\"}",
            1.0,
        );
        check(
            "levee_http_thinner_refused_total{front=\"web\",cause=\"outbid\"}",
            9.0,
        );
        check(
            "levee_http_table_admission_probability{front=\"web\"}",
            0.75,
        );
        check(
            "levee_http_table_evicted_total{front=\"web\",phase=\"headers\"}",
            5.0,
        );
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
    fn nothing_is_said_of_what_is_not_there() {
        let text = render(vec![sip("a")], 0.0);
        assert!(!text.contains("levee_http_"), "{text}");
        let bare = Http {
            name: "web".to_owned(),
            ..Http::default()
        };
        let text = render(vec![bare.into()], 0.0);
        for absent in ["levee_sip_", "levee_http_thinner_", "levee_http_table_"] {
            assert!(!text.contains(absent), "{text}");
        }
        assert!(text.contains("levee_http_accepted_total{front=\"web\"} 0"));
    }

    #[test]
    fn the_document_names_each_family_and_no_other() {
        let text = render(vec![sip("a"), http("b")], 0.0);
        let rendered: BTreeSet<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        let document = include_str!("../../../../docs/metrics.md");
        let written: BTreeSet<_> = document
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next())
            .filter(|name| name.starts_with("levee_") || name.starts_with("process_"))
            .collect();
        assert_eq!(rendered, written);
    }
}
