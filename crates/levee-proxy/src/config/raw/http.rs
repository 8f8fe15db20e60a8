//! One `[[http]]` table as it is written.

use levee_policy::{Span, selective, thinner};
use serde::{Deserialize, Serialize};

use super::{Bytes, BytesOrOff, OrOff, RawRecord, span};
use crate::http::settings::{
    AccessLogFormat, H2Limits, HttpLimits, HttpSettings, HttpTimeouts, PaymentSettings,
    ProxyProtocol,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawHttp {
    #[serde(default = "name")]
    pub(in crate::config) name: String,
    pub(in crate::config) listen: Vec<String>,
    pub(in crate::config) server: String,
    #[serde(default)]
    pub(in crate::config) workers: usize,
    #[serde(default = "HttpSettings::protect_default")]
    pub(in crate::config) protect: Vec<String>,
    #[serde(default)]
    pub(in crate::config) bypass: bool,
    #[serde(default)]
    pub(in crate::config) dry_run: bool,
    #[serde(default)]
    pub(in crate::config) seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::config) record: Option<RawRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::config) tls: Option<RawTls>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::config) defense: Option<thinner::Config>,
    #[serde(default)]
    pub(in crate::config) payment: RawPayment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::config) connections: Option<RawConnections>,
    #[serde(default)]
    pub(in crate::config) forwarded: RawForwarded,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::config) access_log: Option<RawAccessLog>,
    #[serde(default)]
    pub(in crate::config) timeouts: RawTimeouts,
    #[serde(default)]
    pub(in crate::config) limits: RawHttpLimits,
}

fn name() -> String {
    "http".to_owned()
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawTls {
    pub(in crate::config) certificate: String,
    pub(in crate::config) key: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::config) extra: Vec<RawCertificate>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawCertificate {
    pub(in crate::config) certificate: String,
    pub(in crate::config) key: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct RawPayment {
    pub(in crate::config) post_bytes: Bytes,
    pub(in crate::config) bytes_per_second_max: BytesOrOff,
}

impl Default for RawPayment {
    fn default() -> Self {
        let PaymentSettings {
            post_bytes,
            bytes_per_second_max,
        } = PaymentSettings::default();
        RawPayment {
            post_bytes: Bytes(post_bytes),
            bytes_per_second_max: OrOff(bytes_per_second_max.map(Bytes)),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawConnections {
    pub(in crate::config) capacity: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::config) record: Option<RawRecord>,
    pub(in crate::config) defense: selective::Config,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct RawForwarded {
    pub(in crate::config) trusted: Vec<String>,
    pub(in crate::config) proxy_protocol: ProxyProtocol,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawAccessLog {
    pub(in crate::config) path: String,
    #[serde(default)]
    pub(in crate::config) format: AccessLogFormat,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct RawTimeouts {
    pub(in crate::config) tls_handshake: Span,
    pub(in crate::config) headers: Span,
    pub(in crate::config) body: Span,
    pub(in crate::config) upstream_connect: Span,
    pub(in crate::config) upstream_send: Span,
    pub(in crate::config) upstream_first_byte: Span,
    pub(in crate::config) upstream_between_reads: Span,
    pub(in crate::config) upstream_idle: Span,
    pub(in crate::config) send: Span,
    pub(in crate::config) idle: Span,
    pub(in crate::config) tunnel: Span,
    pub(in crate::config) linger: Span,
}

impl Default for RawTimeouts {
    fn default() -> Self {
        let timeouts = HttpTimeouts::default();
        RawTimeouts {
            tls_handshake: span(timeouts.tls_handshake),
            headers: span(timeouts.headers),
            body: span(timeouts.body),
            upstream_connect: span(timeouts.upstream_connect),
            upstream_send: span(timeouts.upstream_send),
            upstream_first_byte: span(timeouts.upstream_first_byte),
            upstream_between_reads: span(timeouts.upstream_between_reads),
            upstream_idle: span(timeouts.upstream_idle),
            send: span(timeouts.send),
            idle: span(timeouts.idle),
            tunnel: span(timeouts.tunnel),
            linger: span(timeouts.linger),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct RawHttpLimits {
    pub(in crate::config) head_bytes_max: Bytes,
    pub(in crate::config) target_bytes_max: Bytes,
    pub(in crate::config) headers_max: usize,
    pub(in crate::config) body_bytes_max: BytesOrOff,
    pub(in crate::config) response_head_bytes_max: Bytes,
    pub(in crate::config) keep_alive_requests: u32,
    pub(in crate::config) connections_max: usize,
    pub(in crate::config) upstream_connections_max: usize,
    pub(in crate::config) upstream_idle_max: usize,
    pub(in crate::config) h2: RawH2,
}

impl Default for RawHttpLimits {
    fn default() -> Self {
        let limits = HttpLimits::default();
        RawHttpLimits {
            head_bytes_max: Bytes(limits.head_bytes_max as u64),
            target_bytes_max: Bytes(limits.target_bytes_max as u64),
            headers_max: limits.headers_max,
            body_bytes_max: OrOff(limits.body_bytes_max.map(Bytes)),
            response_head_bytes_max: Bytes(limits.response_head_bytes_max as u64),
            keep_alive_requests: limits.keep_alive_requests,
            connections_max: limits.connections_max,
            upstream_connections_max: limits.upstream_connections_max,
            upstream_idle_max: limits.upstream_idle_max,
            h2: RawH2::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct RawH2 {
    pub(in crate::config) enabled: bool,
    pub(in crate::config) streams_max: u32,
    pub(in crate::config) continuations_max: u32,
    pub(in crate::config) resets_burst: u32,
    pub(in crate::config) resets_per_second: u32,
    pub(in crate::config) control_frames_burst: u32,
    pub(in crate::config) control_frames_per_second: u32,
    pub(in crate::config) stream_window_bytes: Bytes,
    pub(in crate::config) connection_window_bytes: Bytes,
    pub(in crate::config) send_buffer_bytes: Bytes,
}

impl Default for RawH2 {
    fn default() -> Self {
        let h2 = H2Limits::default();
        RawH2 {
            enabled: h2.enabled,
            streams_max: h2.streams_max,
            continuations_max: h2.continuations_max,
            resets_burst: h2.resets_burst,
            resets_per_second: h2.resets_per_second,
            control_frames_burst: h2.control_frames_burst,
            control_frames_per_second: h2.control_frames_per_second,
            stream_window_bytes: Bytes(h2.stream_window_bytes.into()),
            connection_window_bytes: Bytes(h2.connection_window_bytes.into()),
            send_buffer_bytes: Bytes(h2.send_buffer_bytes as u64),
        }
    }
}
