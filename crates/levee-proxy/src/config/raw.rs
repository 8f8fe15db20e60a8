//! The file as it is written: one field a key, every default filled in, nothing checked beyond its type.
//!
//! The same types print the effective configuration, which reads back as itself.

mod http;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use levee_policy::{Span, selective};
use serde::{Deserialize, Serialize};

pub(super) use self::http::{
    RawAccessLog, RawConnections, RawForwarded, RawH2, RawHttp, RawHttpLimits, RawPayment,
    RawTimeouts, RawTls,
};
use super::{AdminSettings, LogFormat, LogLevel, LogSettings};
use crate::recorder::RecordSettings;
use crate::sip::settings::{SessionSettings, SipLimits, Timers};

/// How long a stop waits for held calls, unless the file says otherwise. Below the 90 s after which systemd kills.
const DRAIN: Span = Span::from_secs(60);

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    #[serde(default = "drain")]
    pub(super) drain: Span,
    #[serde(default)]
    pub(super) log: LogSettings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) admin: Option<RawAdmin>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sip: Vec<RawSip>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) http: Vec<RawHttp>,
}

fn drain() -> Span {
    DRAIN
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAdmin {
    pub(super) listen: String,
    #[serde(default = "connections_max")]
    pub(super) connections_max: usize,
    #[serde(default = "header_timeout")]
    pub(super) header_timeout: Span,
}

fn connections_max() -> usize {
    AdminSettings::CONNECTIONS_MAX_DEFAULT
}

fn header_timeout() -> Span {
    span(AdminSettings::HEADER_TIMEOUT_DEFAULT)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSip {
    #[serde(default = "sip_name")]
    pub(super) name: String,
    pub(super) listen: Vec<String>,
    #[serde(default)]
    pub(super) inside: Vec<String>,
    #[serde(default)]
    pub(super) advertise: Vec<String>,
    pub(super) server: String,
    pub(super) capacity: u32,
    #[serde(default)]
    pub(super) bypass: bool,
    #[serde(default)]
    pub(super) dry_run: bool,
    #[serde(default)]
    pub(super) seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) record: Option<RawRecord>,
    pub(super) defense: selective::Config,
    #[serde(default, rename = "class", skip_serializing_if = "Vec::is_empty")]
    pub(super) classes: Vec<RawClass>,
    #[serde(default)]
    pub(super) limits: RawLimits,
    #[serde(default)]
    pub(super) timers: RawTimers,
    #[serde(default)]
    pub(super) session: RawSession,
}

fn sip_name() -> String {
    "sip".to_owned()
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRecord {
    pub(super) path: String,
    #[serde(default = "record_bytes_max")]
    pub(super) bytes_max: Bytes,
    #[serde(default = "record_files")]
    pub(super) files: u32,
}

fn record_bytes_max() -> Bytes {
    Bytes(RecordSettings::BYTES_MAX_DEFAULT)
}

fn record_files() -> u32 {
    RecordSettings::FILES_DEFAULT
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawClass {
    pub(super) class: String,
    #[serde(default)]
    pub(super) to_user: Vec<String>,
    #[serde(default)]
    pub(super) to_uri_prefix: Vec<String>,
    #[serde(default)]
    pub(super) source: Vec<String>,
    #[serde(default)]
    pub(super) priority: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawLimits {
    pub(super) message_bytes_max: Bytes,
    pub(super) headers_max: usize,
    pub(super) transactions_max: usize,
    pub(super) transaction_bytes_max: Bytes,
    pub(super) calls_max: usize,
    pub(super) connections_max: usize,
    pub(super) connections_per_source_max: usize,
    pub(super) requests_per_source_per_second: u32,
    pub(super) sources_tracked_max: usize,
    pub(super) dns_pending_max: usize,
    pub(super) idle_connection: Span,
}

impl Default for RawLimits {
    fn default() -> Self {
        let limits = SipLimits::default();
        RawLimits {
            message_bytes_max: Bytes(limits.message_bytes_max as u64),
            headers_max: limits.headers_max,
            transactions_max: limits.transactions_max,
            transaction_bytes_max: Bytes(limits.transaction_bytes_max as u64),
            calls_max: limits.calls_max,
            connections_max: limits.connections_max,
            connections_per_source_max: limits.connections_per_source_max,
            requests_per_source_per_second: limits.requests_per_source_per_second,
            sources_tracked_max: limits.sources_tracked_max,
            dns_pending_max: limits.dns_pending_max,
            idle_connection: span(limits.idle_connection),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawTimers {
    pub(super) t1: Span,
    pub(super) t2: Span,
    pub(super) t4: Span,
    pub(super) timer_c: Span,
}

impl Default for RawTimers {
    fn default() -> Self {
        let Timers {
            t1,
            t2,
            t4,
            timer_c,
        } = Timers::default();
        RawTimers {
            t1: span(t1),
            t2: span(t2),
            t4: span(t4),
            timer_c: span(timer_c),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSession {
    pub(super) expires: SpanOrOff,
    pub(super) min_se: Span,
    pub(super) call_max: SpanOrOff,
}

impl Default for RawSession {
    fn default() -> Self {
        let session = SessionSettings::default();
        RawSession {
            expires: OrOff(session.expires.map(span)),
            min_se: span(session.min_se),
            call_max: OrOff(session.call_max.map(span)),
        }
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings {
            level: LogLevel::Info,
            format: LogFormat::Text,
        }
    }
}

/// As the policies count time; what no `u64` of nanoseconds holds is 584 years.
fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

pub(super) fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

/// A value, or `"off"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrOff<T>(pub(super) Option<T>);

/// A duration, or `"off"`.
pub(super) type SpanOrOff = OrOff<Span>;
/// A number of bytes, or `"off"`.
pub(super) type BytesOrOff = OrOff<Bytes>;

impl<T: Serialize> Serialize for OrOff<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(value) => value.serialize(serializer),
            None => serializer.serialize_str("off"),
        }
    }
}

impl<'de> Deserialize<'de> for SpanOrOff {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "off" {
            return Ok(OrOff(None));
        }
        text.parse()
            .map(|span| OrOff(Some(span)))
            .map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for BytesOrOff {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor { off: true })
    }
}

/// A number of bytes: `65535`, `"64KiB"`, `"64MiB"`, `"1GB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bytes(pub(super) u64);

/// Longest first, so that "MiB" is not read as "B".
const BYTE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = BYTE_UNITS
            .iter()
            .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
        let (number, unit) = found.unwrap_or((text, 1));
        let number: Option<u64> = number.trim().parse().ok();
        number
            .and_then(|number| number.checked_mul(unit))
            .map(Bytes)
            .ok_or_else(|| format!("`{text}`, expected a whole number of bytes with a unit, such as 64KiB, 64MiB or 1GB"))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, unit): &&(&str, u64)| self.0 > 0 && self.0.is_multiple_of(*unit);
        let (name, unit) = BYTE_UNITS.iter().take(3).find(whole).unwrap_or(&("B", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.is_multiple_of(1 << 10) && self.0 > 0 {
            true => serializer.collect_str(self),
            false => serializer.serialize_u64(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read: BytesOrOff = deserializer.deserialize_any(BytesVisitor { off: false })?;
        read.0
            .ok_or_else(|| serde::de::Error::custom("`off` is no number of bytes"))
    }
}

struct BytesVisitor {
    /// Whether it may be `"off"`.
    off: bool,
}

impl serde::de::Visitor<'_> for BytesVisitor {
    type Value = BytesOrOff;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let off = if self.off { ", or \"off\"" } else { "" };
        write!(f, "a number of bytes, such as 65535 or \"64MiB\"{off}")
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<BytesOrOff, E> {
        let unexpected = serde::de::Unexpected::Signed(number);
        u64::try_from(number)
            .map(|bytes| OrOff(Some(Bytes(bytes))))
            .map_err(|_| E::invalid_value(unexpected, &self))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<BytesOrOff, E> {
        if self.off && text == "off" {
            return Ok(OrOff(None));
        }
        text.parse()
            .map(|bytes| OrOff(Some(bytes)))
            .map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_and_print() {
        for (text, bytes, prints) in [
            ("64MiB", 64 << 20, "64MiB"),
            ("1GB", 1_000_000_000, "1000000000B"),
            ("1024", 1024, "1KiB"),
            ("0B", 0, "0B"),
            ("65535B", 65_535, "65535B"),
        ] {
            let read: Bytes = text.parse().unwrap();
            assert_eq!(
                (read.0, read.to_string().as_str()),
                (bytes, prints),
                "{text}"
            );
            assert_eq!(prints.parse(), Ok(read));
        }
        for text in [
            "",
            "MiB",
            "1.5MiB",
            "-1B",
            "18446744073709551615KiB",
            "64 mib",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
