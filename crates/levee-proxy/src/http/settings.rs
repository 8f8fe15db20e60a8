//! What an HTTP front runs with: checked settings, no file, no text.
//!
//! A person writes TOML; [`crate::config`] reads it, says what is wrong and builds these types. A program (the lab, a
//! test) builds them directly with [`HttpSettings::new`]. Each default is a constant or a field of an `impl Default`,
//! with its reason. Where nginx and HAProxy agree on a value, it is theirs; where they leave a phase without a deadline, it
//! has one here.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use levee_policy::{selective, thinner};
use serde::{Deserialize, Serialize};

use crate::recorder::RecordSettings;

/// An address to listen on, with or without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Listen {
    /// Whether a connection begins with a TLS handshake.
    pub tls: bool,
    /// Address and port; port 0 lets the system choose.
    pub addr: SocketAddr,
}

impl Listen {
    /// Without TLS.
    pub fn plain(addr: SocketAddr) -> Self {
        Listen { tls: false, addr }
    }

    /// With TLS.
    pub fn tls(addr: SocketAddr) -> Self {
        Listen { tls: true, addr }
    }
}

/// As in a configuration file: `0.0.0.0:80`, `tls:[::]:443`.
impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "tls:" } else { "" };
        write!(f, "{scheme}{}", self.addr)
    }
}

/// What an HTTP front runs with.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// The front's name, for logs and for the `front` label of metrics.
    pub name: String,
    /// Where clients connect.
    pub listen: Vec<Listen>,
    /// The HTTP/1.1 server that is protected.
    pub server: SocketAddr,
    /// Worker threads, each with its own listeners, connections and upstream pool; 0 is one for each core.
    pub workers: usize,
    /// Certificates. Without, no listener may have [`Listen::tls`].
    pub tls: Option<TlsSettings>,
    /// The thinner, from the `[http.defense]` table. `None`: every request passes.
    pub defense: Option<thinner::Config>,
    /// Beginnings of the paths whose requests ask the thinner; the others pass.
    pub protect: Vec<String>,
    /// What clients pay with, where [`HttpSettings::defense`] has a mode with payment.
    pub payment: PaymentSettings,
    /// The table of connections and its defence, from `[http.connections]`. `None`: only
    /// [`HttpLimits::connections_max`] bounds them, and slow clients can hold all of them.
    pub connections: Option<ConnectionSettings>,
    /// Whom the client's address is believed from.
    pub forwarded: ForwardedSettings,
    /// A deadline for every phase of a connection.
    pub timeouts: HttpTimeouts,
    /// Sizes of every table and buffer.
    pub limits: HttpLimits,
    /// One line for each request.
    pub access_log: Option<AccessLogSettings>,
    /// Forward everything and only count.
    pub bypass: bool,
    /// Decide and log, but refuse, hold and close nothing.
    pub dry_run: bool,
    /// Seed of the defences' random draws; 0 takes one from the operating system.
    pub seed: u64,
    /// Record what the thinner saw and decided.
    pub record: Option<RecordSettings>,
}

impl HttpSettings {
    /// Settings with every default: no TLS, no defence, nothing logged or recorded.
    pub fn new(name: impl Into<String>, listen: Vec<Listen>, server: SocketAddr) -> Self {
        HttpSettings {
            name: name.into(),
            listen,
            server,
            workers: 0,
            tls: None,
            defense: None,
            protect: Self::protect_default(),
            payment: PaymentSettings::default(),
            connections: None,
            forwarded: ForwardedSettings::default(),
            timeouts: HttpTimeouts::default(),
            limits: HttpLimits::default(),
            access_log: None,
            bypass: false,
            dry_run: false,
            seed: 0,
            record: None,
        }
    }

    /// Default of [`HttpSettings::protect`]: everything.
    pub fn protect_default() -> Vec<String> {
        vec!["/".to_owned()]
    }

    /// Whether a request for `path` asks the thinner.
    pub fn protects(&self, path: &[u8]) -> bool {
        let begins = |prefix: &String| path.starts_with(prefix.as_bytes());
        self.protect.iter().any(begins)
    }
}

/// What a TLS listener shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The first is shown to a client that names no host, or one that no certificate is for. Read again at each reload.
    pub certificates: Vec<CertificateFiles>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM: the certificate, then those between it and the root.
    pub certificate: PathBuf,
    /// PEM: its private key (PKCS #8, PKCS #1 or SEC 1).
    pub key: PathBuf,
}

/// The payment channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentSettings {
    /// Bytes that a browser's script puts into one POST; it begins the next when one ends.
    pub post_bytes: u64,
    /// Most payment bytes that the front reads in a second, all clients together; beyond it channels are read more slowly,
    /// so that payment does not crowd requests out of the machine's own uplink. `None`: no bound.
    pub bytes_per_second_max: Option<u64>,
}

impl Default for PaymentSettings {
    fn default() -> Self {
        PaymentSettings {
            // Long enough to leave slow start, short enough to be begun again where a middlebox cuts it; the order that the
            // SIGCOMM paper's script has.
            post_bytes: 1 << 20,
            // Only the operator knows the uplink.
            bytes_per_second_max: None,
        }
    }
}

/// The table of connections.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// Connections held at once: `k`. Below [`HttpLimits::connections_max`], so that a newcomer at a full table can still be
    /// accepted and judged.
    pub capacity: u32,
    /// Which connection is closed for a newcomer at a full table.
    pub defense: selective::Config,
    /// Record what this defence saw and decided.
    pub record: Option<RecordSettings>,
}

/// Whom the client's address is believed from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardedSettings {
    /// Proxies of ours: `X-Forwarded-For` and `Forwarded` are believed from them, and only they may send a PROXY header.
    /// Empty: nobody, and what a stranger sent in these fields is taken out.
    pub trusted: Vec<IpNet>,
    /// Whether a connection from [`ForwardedSettings::trusted`] begins with a PROXY header.
    pub proxy_protocol: ProxyProtocol,
}

impl ForwardedSettings {
    /// Whether `peer` is a proxy of ours.
    pub fn trusts(&self, peer: std::net::IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted.iter().any(|net| net.contains(&peer))
    }
}

/// Whether a trusted connection begins with a PROXY header. If so it must: without one the connection is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyProtocol {
    /// It does not.
    #[default]
    Off,
    /// With version 1, a line of text.
    V1,
    /// With version 2, binary.
    V2,
    /// With either.
    Any,
}

/// A deadline for every phase of a connection. Each ends the connection, with an answer where one can still be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpTimeouts {
    /// From accepting a connection to the end of its PROXY header and its TLS handshake.
    pub tls_handshake: Duration,
    /// From the first moment in which a request is awaited on a new connection, or the first byte of a later one, to the end
    /// of its head; in HTTP/2 also for a header block that CONTINUATION goes on with. 408.
    pub headers: Duration,
    /// Between two reads of a request's body. 408. What drips faster than this is the connection defence's affair.
    pub body: Duration,
    /// To connect to the server. 504.
    pub upstream_connect: Duration,
    /// Between two writes to the server. 504.
    pub upstream_send: Duration,
    /// From the end of a request to the end of the head of its response. 504.
    pub upstream_first_byte: Duration,
    /// Between two reads of a response's body. The response is cut short.
    pub upstream_between_reads: Duration,
    /// How long a connection to the server is kept without a request.
    pub upstream_idle: Duration,
    /// Between two writes of a response that the client takes something of; in HTTP/2 also for a stream whose window stays
    /// shut.
    pub send: Duration,
    /// How long a connection is kept without a request, after the first; in HTTP/2 without a stream.
    pub idle: Duration,
    /// How long a tunnel (WebSocket) or an event stream may be silent in both directions.
    pub tunnel: Duration,
    /// After an answer to a request whose body was not read: how long the rest is read and dropped, so that the answer is not
    /// lost by a reset.
    pub linger: Duration,
}

impl Default for HttpTimeouts {
    fn default() -> Self {
        HttpTimeouts {
            // Two round trips and a retransmission or two take below 5 s on the worst link.
            tls_handshake: Duration::from_secs(10),
            // HAProxy's recommended `timeout http-request`. nginx allows 60 s.
            headers: Duration::from_secs(10),
            // nginx `client_body_timeout`.
            body: Duration::from_secs(60),
            // HAProxy's recommended `timeout connect`: a retransmitted SYN or two.
            upstream_connect: Duration::from_secs(5),
            // nginx `proxy_send_timeout`.
            upstream_send: Duration::from_secs(60),
            // nginx `proxy_read_timeout`.
            upstream_first_byte: Duration::from_secs(60),
            // nginx `proxy_read_timeout`.
            upstream_between_reads: Duration::from_secs(60),
            // Below the 5 s after which Apache and Node close, so that they do not close one that is about to be used. A busy
            // pool has none that is idle for so long.
            upstream_idle: Duration::from_secs(4),
            // nginx `send_timeout`.
            send: Duration::from_secs(60),
            // nginx `keepalive_timeout` is 75 s, Apache's 5 s.
            idle: Duration::from_secs(60),
            // HAProxy's usual `timeout tunnel`. Most WebSocket libraries ping every 20 to 60 s.
            tunnel: Duration::from_secs(3_600),
            // nginx `lingering_timeout`.
            linger: Duration::from_secs(5),
        }
    }
}

/// What one front may hold. What is beyond a limit is refused or closed, and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Longest head of a request, in bytes; in HTTP/2 the size of its field list (RFC 9113 section 6.5.2). 431.
    pub head_bytes_max: usize,
    /// Longest request target, in bytes. 414.
    pub target_bytes_max: usize,
    /// Most fields in a request's head. 431.
    pub headers_max: usize,
    /// Longest request body, in bytes. 413. `None`: no bound.
    pub body_bytes_max: Option<u64>,
    /// Longest head of a response, in bytes. 502.
    pub response_head_bytes_max: usize,
    /// Requests on one connection, after which it is closed.
    pub keep_alive_requests: u32,
    /// Most connections of clients. A further one waits in the kernel; where there is a [`ConnectionSettings`], that decides
    /// before.
    pub connections_max: usize,
    /// Most connections to the server, of all workers, tunnels included. A request that finds none is answered 503.
    pub upstream_connections_max: usize,
    /// Most of them that are kept without a request.
    pub upstream_idle_max: usize,
    /// What HTTP/2 may do.
    pub h2: H2Limits,
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            // nginx `large_client_header_buffers 4 8k`. HAProxy has 16 KiB, Node too.
            head_bytes_max: 32 << 10,
            // nginx's longest line; RFC 9110 section 4.1 asks for at least 8,000.
            target_bytes_max: 8 << 10,
            // Apache's and hyper's; HAProxy has 101. A browser sends some 20.
            headers_max: 100,
            // Nothing is buffered, so a long body costs no memory here. A guess at what is an upload and not a mistake; nginx's
            // 1 MiB is raised by everybody.
            body_bytes_max: Some(1 << 30),
            // Above nginx's `proxy_buffer_size`, which is known for "upstream sent too big header".
            response_head_bytes_max: 64 << 10,
            // nginx `keepalive_requests`: what a connection holds of memory is given back now and then.
            keep_alive_requests: 1_000,
            // With as many to the server, below the usual limit of 65,536 descriptors of a service, with room for more fronts.
            connections_max: 16_384,
            // Below the 28,232 ports that Linux has for connections to one address.
            upstream_connections_max: 4_096,
            // What a server with few threads may well keep open.
            upstream_idle_max: 256,
            h2: H2Limits::default(),
        }
    }
}

/// What HTTP/2 may do. Beyond it the connection ends with GOAWAY and ENHANCE_YOUR_CALM, and is counted by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct H2Limits {
    /// Whether HTTP/2 is offered.
    pub enabled: bool,
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    pub streams_max: u32,
    /// CONTINUATION frames after one HEADERS (CVE-2024-27919 and its kin).
    pub continuations_max: u32,
    /// Streams that the client resets, or has us reset, at once (CVE-2023-44487; MadeYouReset, CVE-2025-8671).
    pub resets_burst: u32,
    /// And so many more a second.
    pub resets_per_second: u32,
    /// Frames that carry nothing for a request, at once: PING, SETTINGS, PRIORITY, empty DATA, WINDOW_UPDATE beyond one for
    /// each frame that we sent.
    pub control_frames_burst: u32,
    /// And so many more a second.
    pub control_frames_per_second: u32,
    /// What a client may send on one stream before we read it, in bytes. It bounds how fast a payment channel can pay: the
    /// window in one round trip.
    pub stream_window_bytes: u32,
    /// The same for all streams of a connection.
    pub connection_window_bytes: u32,
    /// Most bytes of a response that wait on one stream for the client.
    pub send_buffer_bytes: usize,
}

impl Default for H2Limits {
    fn default() -> Self {
        H2Limits {
            enabled: true,
            // RFC 9113 section 6.5.2: not below 100. HAProxy's default.
            streams_max: 100,
            // Twice what the longest head needs in frames of the default size.
            continuations_max: 8,
            // nghttp2's limit of stream resets: a browser that leaves a page of images resets 100 at once.
            resets_burst: 1_000,
            resets_per_second: 33,
            // nghttp2's limit of glitches.
            control_frames_burst: 1_000,
            control_frames_per_second: 33,
            // At 100 ms of round trip 2.6 MB/s, more than the papers' clients have. RFC 9113's 64 KiB would cap them.
            stream_window_bytes: 256 << 10,
            connection_window_bytes: 1 << 20,
            // As the stream's window the other way.
            send_buffer_bytes: 256 << 10,
        }
    }
}

/// One line for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogSettings {
    /// The file; opened again at each reload, for logrotate.
    pub path: PathBuf,
    /// How a line is written.
    pub format: AccessLogFormat,
}

/// How a line of the access log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessLogFormat {
    /// One JSON object a line, with the decision, the wait and the price.
    #[default]
    Json,
    /// Apache's and nginx's `combined`.
    Combined,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_prints_as_it_is_written() {
        let plain = Listen::plain("0.0.0.0:80".parse().unwrap());
        assert_eq!(plain.to_string(), "0.0.0.0:80");
        let tls = Listen::tls("[::]:443".parse().unwrap());
        assert_eq!(tls.to_string(), "tls:[::]:443");
    }

    #[test]
    fn a_path_is_protected_by_its_beginning() {
        let mut settings = HttpSettings::new("a", Vec::new(), "127.0.0.1:1".parse().unwrap());
        assert!(settings.protects(b"/anything"));
        settings.protect = vec!["/search".to_owned(), "/api/".to_owned()];
        for (path, protected) in [
            (&b"/search"[..], true),
            (b"/search?q=1", true),
            (b"/api/v1", true),
            (b"/api", false),
            (b"/", false),
            (b"*", false),
        ] {
            assert_eq!(settings.protects(path), protected, "{path:?}");
        }
    }

    #[test]
    fn a_mapped_address_is_trusted_as_the_one_it_maps() {
        let forwarded = ForwardedSettings {
            trusted: vec!["10.0.0.0/8".parse().unwrap()],
            ..ForwardedSettings::default()
        };
        for (peer, trusted) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("11.0.0.1", false),
            ("::1", false),
        ] {
            assert_eq!(forwarded.trusts(peer.parse().unwrap()), trusted, "{peer}");
        }
    }

    /// A connection that waits for a response must outlive what it waits for, and a table its defence.
    #[test]
    fn the_defaults_go_together() {
        let (limits, timeouts) = (HttpLimits::default(), HttpTimeouts::default());
        assert!(limits.target_bytes_max < limits.head_bytes_max);
        assert!(limits.upstream_idle_max <= limits.upstream_connections_max);
        assert!(limits.h2.stream_window_bytes <= limits.h2.connection_window_bytes);
        assert!(timeouts.headers < timeouts.idle);
        assert!(timeouts.upstream_idle < Duration::from_secs(5));
    }
}
