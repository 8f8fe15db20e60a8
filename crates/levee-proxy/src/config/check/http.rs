//! One `[[http]]` table.

use levee_policy::{Span, selective, thinner};

use super::super::raw::{
    Bytes, RawAccessLog, RawConnections, RawForwarded, RawH2, RawHttp, RawHttpLimits, RawPayment,
    RawTimeouts, RawTls,
};
use super::Checker;
use crate::http::settings::{
    AccessLogSettings, CertificateFiles, ConnectionSettings, ForwardedSettings, H2Limits,
    HttpLimits, HttpSettings, HttpTimeouts, Listen, PaymentSettings, ProxyProtocol, TlsSettings,
};
use crate::http::tls;
use crate::recorder::RecordSettings;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// Most beginnings of paths: each request is held against all of them.
const PROTECT_MAX: usize = 256;
/// Most address blocks of trusted proxies, for the same reason.
const TRUSTED_MAX: usize = 1_024;
/// Most worker threads: more than any machine has cores for.
const WORKERS_MAX: usize = 1_024;
/// The shortest block of addresses that can be a network of one's own.
const PREFIX_LEAST: u8 = 4;

impl Checker<'_> {
    pub(super) fn http(&mut self, index: usize, raw: &RawHttp) -> Option<HttpSettings> {
        let front = format!("http[{index}]");
        let key = |name: &str| format!("{front}.{name}");
        if raw.listen.is_empty() {
            self.problem(
                &key("listen"),
                "no address",
                "at least one",
                "add one such as \"0.0.0.0:80\" or \"tls:0.0.0.0:443\"",
            );
        }
        let listens = raw.listen.iter().enumerate();
        let listen: Vec<_> = listens
            .map(|(at, text)| self.http_listen(&key(&format!("listen[{at}]")), text))
            .collect();
        let server = self.http_server(&key("server"), &raw.server);
        self.number(&key("workers"), raw.workers, 0..=WORKERS_MAX);
        let tls = self.tls(&front, raw, &listen);
        self.thinner(&front, raw);
        let (record, connections) = (self.http_records(&front, raw), raw.connections.as_ref());
        let connections = connections.map(|connections| self.connections(&front, connections, raw));
        let settings = HttpSettings {
            name: raw.name.clone(),
            listen: Vec::new(),
            server: server.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0))),
            workers: raw.workers,
            tls,
            defense: raw.defense.clone(),
            protect: raw.protect.clone(),
            payment: self.payment(&key("payment"), raw.payment),
            connections,
            forwarded: self.forwarded(&key("forwarded"), &raw.forwarded),
            timeouts: self.timeouts(&key("timeouts"), &raw.timeouts),
            limits: self.http_limits(&key("limits"), &raw.limits),
            access_log: self.access_log(&key("access_log"), raw.access_log.as_ref()),
            bypass: raw.bypass,
            dry_run: raw.dry_run,
            seed: raw.seed,
            record,
        };
        self.undefended(&front, raw);
        server?;
        Some(HttpSettings {
            listen: listen.into_iter().collect::<Option<_>>()?,
            ..settings
        })
    }

    fn http_listen(&mut self, key: &str, text: &str) -> Option<Listen> {
        let (tls, address) = match text.strip_prefix("tls:") {
            Some(address) => (true, address),
            None => (false, text),
        };
        if let Ok(addr) = address.parse() {
            return Some(Listen { tls, addr });
        }
        let remedy = match text.split_once("://") {
            Some(("https", _)) => "leave the scheme out and put tls: in front: tls:0.0.0.0:443",
            Some(_) => "leave the scheme out: 0.0.0.0:80",
            None => {
                "a listener binds an address of this machine: 0.0.0.0 and [::] stand for all of them"
            }
        };
        self.problem(
            key,
            format!("`{text}`"),
            "an IP address and a port, such as 0.0.0.0:80, [::]:80 or tls:0.0.0.0:443",
            remedy,
        );
        None
    }

    fn http_server(&mut self, key: &str, text: &str) -> Option<SocketAddr> {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        if let Some(scheme) = scheme.or(text.strip_prefix("tls:").map(|_| "tls")) {
            let remedy = match scheme {
                "http" => "leave the scheme out: 127.0.0.1:8080",
                _ => {
                    "Levee speaks plain HTTP/1.1 to the server: name that port, on this machine or a network of your own"
                }
            };
            let expected = "a host and a port, without a scheme";
            self.problem(key, format!("`{text}`"), expected, remedy);
            return None;
        }
        self.server_address(key, text, |_| true)
    }

    fn tls(
        &mut self,
        front: &str,
        raw: &RawHttp,
        listen: &[Option<Listen>],
    ) -> Option<TlsSettings> {
        let listens = listen.iter().flatten().any(|listen| listen.tls);
        let key = format!("{front}.tls");
        match &raw.tls {
            None if listens => {
                self.problem(
                    &format!("{front}.listen"),
                    "a tls: listener without a certificate",
                    "a table `[http.tls]`",
                    "write [http.tls] with `certificate` and `key`, the two PEM files",
                );
                None
            }
            None => None,
            Some(tls) => {
                if !listens {
                    self.warn(
                        &key,
                        "a certificate that nobody is shown",
                        "a listener that begins with tls:",
                        "write \"tls:0.0.0.0:443\" into `listen`, or take the table out",
                    );
                }
                Some(self.certificates(&key, tls, raw.limits.h2.enabled))
            }
        }
    }

    fn certificates(&mut self, key: &str, raw: &RawTls, h2: bool) -> TlsSettings {
        let first = (&raw.certificate, &raw.key);
        let extra = raw.extra.iter().map(|raw| (&raw.certificate, &raw.key));
        let certificates = [first].into_iter().chain(extra);
        let settings = TlsSettings {
            certificates: certificates
                .map(|(certificate, key)| CertificateFiles {
                    certificate: certificate.into(),
                    key: key.into(),
                })
                .collect(),
        };
        self.number(
            &format!("{key}.extra"),
            raw.extra.len(),
            0..=tls::CERTIFICATES_MAX - 1,
        );
        if let Err(error) = tls::load(&settings, h2) {
            let of = if error.of_key { "key" } else { "certificate" };
            let at = match error.index.checked_sub(1) {
                None => format!("{key}.{of}"),
                Some(at) => format!("{key}.extra[{at}].{of}"),
            };
            self.problem(
                &at,
                error.to_string(),
                "a PEM file of a certificate, with the chain behind it, and one of its key",
                "check the path, the permissions and that the two belong together",
            );
        }
        settings
    }

    fn thinner(&mut self, front: &str, raw: &RawHttp) {
        let key = |name: &str| format!("{front}.{name}");
        for (at, prefix) in raw.protect.iter().enumerate() {
            if !prefix.starts_with('/') {
                self.problem(
                    &key(&format!("protect[{at}]")),
                    format!("`{prefix}`"),
                    "the beginning of a path, with its slash",
                    "write for example \"/search\"; \"/\" is every path",
                );
            }
        }
        self.number(&key("protect"), raw.protect.len(), 0..=PROTECT_MAX);
        let Some(defense) = &raw.defense else {
            for name in ["protect", "payment"] {
                if self.document.has(&key(name)) {
                    self.warn(
                        &key(name),
                        "it says nothing without a thinner",
                        "a table `[http.defense]`",
                        "write `kind = \"thinner\"` and the `capacity` there, or take it out",
                    );
                }
            }
            return;
        };
        if raw.protect.is_empty() {
            self.problem(
                &key("protect"),
                "a thinner that no request asks",
                "the beginning of at least one path",
                "write [\"/\"] for all of them, or take `[http.defense]` out",
            );
        }
        if let Err(error) = defense.validate() {
            self.problem(
                &key(&format!("defense.{}", error.key)),
                error.value,
                error.expected,
                "choose a value in this range",
            );
        }
        let most = match defense.capacity {
            thinner::Capacity::Rate(_) => 0,
            thinner::Capacity::Concurrency(most) | thinner::Capacity::Adaptive { most, .. } => most,
        };
        if raw.limits.upstream_connections_max < most as usize {
            self.problem(
                &key("limits.upstream_connections_max"),
                raw.limits.upstream_connections_max.to_string(),
                format!("at least what the thinner admits at once, {most}"),
                "raise it: a request that was admitted would find no connection to the server",
            );
        }
    }

    /// The thinner's recording; that of the connections is checked with them.
    fn http_records(&mut self, front: &str, raw: &RawHttp) -> Option<RecordSettings> {
        let key = |name: &str| format!("{front}.{name}");
        let of_connections = raw.connections.as_ref().and_then(|raw| raw.record.as_ref());
        let records = [
            raw.record.as_ref().map(|_| key("record")),
            of_connections.map(|_| key("connections.record")),
        ];
        let records: Vec<_> = records.into_iter().flatten().collect();
        self.modes(front, raw.bypass, raw.dry_run, &records);
        if raw.record.is_some() && raw.defense.is_none() {
            self.problem(
                &key("record"),
                "a recording of a thinner that is not there",
                "a table `[http.defense]`",
                "write it, or record the connections: `connections.record`",
            );
        }
        let record = raw.record.as_ref();
        record.map(|record| self.record(&key("record"), record))
    }

    /// The phases of the file, by name, in the place of the defaults: the front names them by their order.
    pub(super) fn phases(&mut self, index: usize, raw: &mut RawConnections) {
        let known = selective::phases_of_http();
        let names = known.iter().map(|phase| format!("`{}`", phase.name));
        let names = names.collect::<Vec<_>>().join(", ");
        let written = std::mem::replace(&mut raw.defense.phases, known);
        let mut seen: Vec<String> = Vec::new();
        for (at, phase) in written.into_iter().enumerate() {
            let known = &mut raw.defense.phases;
            let known = known.iter_mut().find(|known| known.name == phase.name);
            if known.is_none() || seen.contains(&phase.name) {
                self.problem(
                    &format!("http[{index}].connections.defense.phase[{at}].name"),
                    format!("`{}`", phase.name),
                    format!("one of {names}, each at most once"),
                    "write one table for each phase that is to differ from its defaults",
                );
            }
            seen.push(phase.name.clone());
            if let Some(known) = known {
                *known = phase;
            }
        }
    }

    fn connections(
        &mut self,
        front: &str,
        raw: &RawConnections,
        http: &RawHttp,
    ) -> ConnectionSettings {
        let key = |name: &str| format!("{front}.connections.{name}");
        let capacity = (key("capacity"), raw.capacity);
        self.selective((&capacity.0, capacity.1), &key("defense"), &raw.defense);
        if raw.capacity as usize >= http.limits.connections_max {
            self.problem(
                &capacity.0,
                raw.capacity.to_string(),
                format!(
                    "below limits.connections_max, {}",
                    http.limits.connections_max
                ),
                "leave room for newcomers: one must be accepted before the defence can judge it",
            );
        }
        if raw.defense.forward == selective::Forward::RoundEnd {
            self.problem(
                &key("defense.forward"),
                "`round-end`",
                "`immediate`",
                "a connection cannot be held back: take the key out",
            );
        }
        ConnectionSettings {
            capacity: raw.capacity,
            defense: raw.defense.clone(),
            record: raw
                .record
                .as_ref()
                .map(|record| self.record(&key("record"), record)),
        }
    }

    fn payment(&mut self, key: &str, raw: RawPayment) -> PaymentSettings {
        let post = Bytes(1 << 10)..=Bytes(1 << 30);
        let rate = Bytes(1 << 10)..=Bytes(1 << 40);
        PaymentSettings {
            post_bytes: self.bytes(&format!("{key}.post_bytes"), raw.post_bytes, post),
            bytes_per_second_max: raw
                .bytes_per_second_max
                .0
                .map(|bytes| self.bytes(&format!("{key}.bytes_per_second_max"), bytes, rate)),
        }
    }

    fn forwarded(&mut self, key: &str, raw: &RawForwarded) -> ForwardedSettings {
        let at = |at: usize| format!("{key}.trusted[{at}]");
        self.number(
            &format!("{key}.trusted"),
            raw.trusted.len(),
            0..=TRUSTED_MAX,
        );
        if raw.proxy_protocol != ProxyProtocol::Off && raw.trusted.is_empty() {
            self.problem(
                &format!("{key}.proxy_protocol"),
                "a PROXY header that is believed from nobody",
                "`trusted` beside it",
                "list the addresses of your load balancers in `trusted`",
            );
        }
        let mut trusted = Vec::new();
        for (index, text) in raw.trusted.iter().enumerate() {
            let Some(network) = self.network(&at(index), text) else {
                continue;
            };
            if network.prefix_len() < PREFIX_LEAST {
                self.warn(
                    &at(index),
                    format!("`{network}` believes nearly everybody"),
                    "the addresses of proxies of your own",
                    "anybody in it may say who the client is: list your load balancers alone",
                );
            }
            trusted.push(network);
        }
        ForwardedSettings {
            trusted,
            proxy_protocol: raw.proxy_protocol,
        }
    }

    fn access_log(&mut self, key: &str, raw: Option<&RawAccessLog>) -> Option<AccessLogSettings> {
        let raw = raw?;
        if raw.path.is_empty() {
            self.problem(
                &format!("{key}.path"),
                "an empty path",
                "a file",
                "write for example \"access.log\"",
            );
        }
        Some(AccessLogSettings {
            path: raw.path.clone().into(),
            format: raw.format,
        })
    }

    fn timeouts(&mut self, key: &str, raw: &RawTimeouts) -> HttpTimeouts {
        // Whoever needs more than the third has a case of its own; most who write it have mistaken the unit.
        let mut read = |name: &str, value: Span, sensible: Span| {
            let key = format!("{key}.{name}");
            if value > sensible {
                self.warn(
                    &key,
                    value.to_string(),
                    format!("at most {sensible}"),
                    "a client that does nothing holds its connection for so long: check the unit",
                );
            }
            self.span(&key, value, Span::from_millis(1)..=Span::from_secs(86_400))
        };
        let seconds = Span::from_secs;
        let (minute, hour) = (seconds(60), seconds(3_600));
        HttpTimeouts {
            tls_handshake: read("tls_handshake", raw.tls_handshake, minute),
            headers: read("headers", raw.headers, minute),
            body: read("body", raw.body, seconds(300)),
            upstream_connect: read("upstream_connect", raw.upstream_connect, minute),
            upstream_send: read("upstream_send", raw.upstream_send, seconds(600)),
            upstream_first_byte: read("upstream_first_byte", raw.upstream_first_byte, hour),
            upstream_between_reads: read(
                "upstream_between_reads",
                raw.upstream_between_reads,
                hour,
            ),
            upstream_idle: read("upstream_idle", raw.upstream_idle, hour),
            send: read("send", raw.send, seconds(300)),
            idle: read("idle", raw.idle, seconds(600)),
            tunnel: read("tunnel", raw.tunnel, seconds(86_400)),
            linger: read("linger", raw.linger, minute),
        }
    }

    fn http_limits(&mut self, key: &str, raw: &RawHttpLimits) -> HttpLimits {
        let key = |name: &str| format!("{key}.{name}");
        let head = Bytes(1 << 10)..=Bytes(1 << 20);
        let connections = 1..=1 << 20;
        let limits = HttpLimits {
            head_bytes_max: self.size(&key("head_bytes_max"), raw.head_bytes_max, head.clone()),
            target_bytes_max: self.size(
                &key("target_bytes_max"),
                raw.target_bytes_max,
                Bytes(128)..=Bytes(1 << 20),
            ),
            headers_max: self.number(&key("headers_max"), raw.headers_max, 8..=4_096),
            body_bytes_max: raw
                .body_bytes_max
                .0
                .map(|bytes| self.bytes(&key("body_bytes_max"), bytes, Bytes(0)..=Bytes(1 << 50))),
            response_head_bytes_max: self.size(
                &key("response_head_bytes_max"),
                raw.response_head_bytes_max,
                head,
            ),
            keep_alive_requests: self.number(
                &key("keep_alive_requests"),
                raw.keep_alive_requests,
                1..=u32::MAX,
            ),
            connections_max: self.number(
                &key("connections_max"),
                raw.connections_max,
                connections.clone(),
            ),
            upstream_connections_max: self.number(
                &key("upstream_connections_max"),
                raw.upstream_connections_max,
                connections,
            ),
            upstream_idle_max: self.number(
                &key("upstream_idle_max"),
                raw.upstream_idle_max,
                0..=1 << 20,
            ),
            h2: self.h2(&key("h2"), &raw.h2),
        };
        for (name, value, other, most) in [
            (
                "target_bytes_max",
                limits.target_bytes_max,
                "head_bytes_max",
                limits.head_bytes_max,
            ),
            (
                "upstream_idle_max",
                limits.upstream_idle_max,
                "upstream_connections_max",
                limits.upstream_connections_max,
            ),
        ] {
            if value > most {
                self.problem(
                    &key(name),
                    value.to_string(),
                    format!("at most {other}, {most}"),
                    "lower it, or raise the other",
                );
            }
        }
        limits
    }

    fn h2(&mut self, key: &str, raw: &RawH2) -> H2Limits {
        let key = |name: &str| format!("{key}.{name}");
        // RFC 9113 section 6.9.1: a window is at most 2^31 - 1, and begins with 65,535.
        let window = Bytes(65_535)..=Bytes((1 << 31) - 1);
        let mut count = |name: &str, value: u32, range: RangeInclusive<u32>| {
            self.number(&key(name), value, range)
        };
        let limits = H2Limits {
            enabled: raw.enabled,
            streams_max: count("streams_max", raw.streams_max, 1..=65_536),
            continuations_max: count("continuations_max", raw.continuations_max, 0..=1_024),
            resets_burst: count("resets_burst", raw.resets_burst, 1..=1 << 20),
            resets_per_second: count("resets_per_second", raw.resets_per_second, 0..=1 << 20),
            control_frames_burst: count(
                "control_frames_burst",
                raw.control_frames_burst,
                16..=1 << 20,
            ),
            control_frames_per_second: count(
                "control_frames_per_second",
                raw.control_frames_per_second,
                1..=1 << 20,
            ),
            stream_window_bytes: self.size(
                &key("stream_window_bytes"),
                raw.stream_window_bytes,
                window.clone(),
            ),
            connection_window_bytes: self.size(
                &key("connection_window_bytes"),
                raw.connection_window_bytes,
                window,
            ),
            send_buffer_bytes: self.size(
                &key("send_buffer_bytes"),
                raw.send_buffer_bytes,
                Bytes(4 << 10)..=Bytes(1 << 26),
            ),
        };
        if raw.stream_window_bytes > raw.connection_window_bytes {
            self.problem(
                &key("stream_window_bytes"),
                raw.stream_window_bytes.to_string(),
                format!(
                    "at most connection_window_bytes, {}",
                    raw.connection_window_bytes
                ),
                "lower it, or raise the other: a stream cannot use more than its connection has",
            );
        }
        limits
    }

    /// What a web site's operator would miss first.
    fn undefended(&mut self, front: &str, raw: &RawHttp) {
        if raw.bypass {
            return;
        }
        match (&raw.defense, &raw.connections) {
            (None, None) => self.warn(
                front,
                "a front that defends nothing",
                "`[http.defense]`, `[http.connections]` or both",
                "docs/http.md says which to set first",
            ),
            (Some(_), None) => self.warn(
                front,
                format!(
                    "slow clients can hold all {} connections until a timeout",
                    raw.limits.connections_max
                ),
                "a table `[http.connections]`",
                "write it with a `capacity` below limits.connections_max: the slowest then give way",
            ),
            (_, Some(_)) => {}
        }
    }

    /// A number of bytes as this machine counts its memory; what does not fit is out of every range here.
    fn size<T: TryFrom<u64> + Default>(
        &mut self,
        key: &str,
        value: Bytes,
        range: RangeInclusive<Bytes>,
    ) -> T {
        T::try_from(self.bytes(key, value, range)).unwrap_or_default()
    }
}
