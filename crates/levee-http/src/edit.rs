//! The head that a gateway sends on: fields of one connection go out, what we know of the client goes in.
//!
//! Lines that stay are copied as they came, in runs; framing, connection and forwarding fields are written anew from
//! what was read, never passed through. All functions append to a buffer that the caller may use again.

use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::net::IpAddr;

use crate::chars::put_number;
use crate::field::{Field, Name};
use crate::forwarded::{Origin, Source};
use crate::framing::Framing;
use crate::request::{Method, Request};
use crate::response::Response;

/// What the message says of its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connection {
    /// It stays open, as HTTP/1.1 has it when nothing is said.
    #[default]
    Persistent,
    /// It stays open, said aloud for HTTP/1.0.
    KeepAlive,
    /// It is closed after this message.
    Close,
    /// It goes on as a WebSocket.
    WebSocket,
}

/// Which fields tell the server about the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host.
    pub x_forwarded: bool,
    /// Forwarded (RFC 7239).
    pub forwarded: bool,
    /// X-Real-IP.
    pub x_real_ip: bool,
}

impl Default for Told {
    /// The X-Forwarded fields, which most servers read.
    fn default() -> Self {
        Self {
            x_forwarded: true,
            forwarded: false,
            x_real_ip: false,
        }
    }
}

/// Who sends the requests of one connection: made once, used for each of them.
#[derive(Clone, Debug)]
pub struct Hop {
    peer: IpAddr,
    peer_text: Vec<u8>,
    https: bool,
    trusted: Option<Source>,
    told: Told,
}

impl Hop {
    /// The peer of a connection, as the socket or the PROXY protocol names it; `https` if it came over TLS. What a peer
    /// says of forwarding is believed and added to if it is trusted, as far as it says it with the fields of `trusted`;
    /// else it is replaced.
    #[must_use]
    pub fn new(peer: IpAddr, https: bool, trusted: Option<Source>, told: Told) -> Self {
        let peer = peer.to_canonical();
        let mut peer_text = Vec::with_capacity(40);
        put(&mut peer_text, format_args!("{peer}"));
        Self {
            peer,
            peer_text,
            https,
            trusted,
            told,
        }
    }

    /// Its address.
    #[must_use]
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Which fields it is believed with, if it is trusted.
    #[must_use]
    pub fn trusted(&self) -> Option<Source> {
        self.trusted
    }
}

/// The changes to a request.
#[derive(Clone, Copy, Debug)]
pub struct ForwardRequest<'a> {
    /// Who sent it to us.
    pub hop: &'a Hop,
    /// Who made it, from [`forwarded::origin`](crate::forwarded::origin).
    pub origin: Origin,
    /// A target to name in place of the one that came.
    pub target: Option<&'a [u8]>,
    /// A host to name in place of the one that came.
    pub host: Option<&'a [u8]>,
    /// How its body is sent on.
    pub framing: Framing,
    /// What is said of the connection to the server.
    pub connection: Connection,
    /// Whether the server is asked for 100 before the body.
    pub expect_continue: bool,
    /// Our name for Via (RFC 9110 section 7.6.3); empty: no Via.
    pub via: &'a [u8],
    /// Names of fields that are meant for us and end here, in any case.
    pub drop: &'a [&'a str],
    /// Whole lines to add.
    pub lines: &'a [u8],
}

/// The changes to a response.
#[derive(Clone, Copy, Debug)]
pub struct ForwardResponse<'a> {
    /// How its body is sent on.
    pub framing: Framing,
    /// What is said of the connection to the client.
    pub connection: Connection,
    /// A value for Date if the server sent none (RFC 9110 section 6.6.1); empty: none.
    pub date: &'a [u8],
    /// Our name for Via; empty: no Via, which a gateway may leave out.
    pub via: &'a [u8],
    /// Names of fields that are left out, in any case.
    pub drop: &'a [&'a str],
    /// Whole lines to add.
    pub lines: &'a [u8],
}

/// Appends the head of `request` with the changes of `f`.
pub fn request(out: &mut Vec<u8>, request: Request<'_>, f: &ForwardRequest<'_>) {
    let (fields, bytes) = request.raw_fields();
    out.reserve(request.head.len() + f.lines.len() + 256);
    out.extend_from_slice(request.method());
    out.push(b' ');
    if let Some(target) = f.target {
        out.extend_from_slice(target);
    } else {
        let target = request.origin_form();
        out.extend_from_slice(target.root.as_bytes());
        out.extend_from_slice(target.path);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let host = f.host.unwrap_or(request.host());
    line(out, "Host", host);
    let options = request.head.method() == Method::Options;
    let kept = f.hop.trusted == Some(Source::XForwarded);
    copy(out, fields, bytes, |field| match field.name {
        Name::Other => is_kept(field, bytes, f.drop),
        Name::Host | Name::Expect | Name::XForwardedFor | Name::XRealIp | Name::Forwarded => false,
        Name::XForwardedProto | Name::XForwardedHost | Name::XForwardedPort => {
            kept && !field.dropped
        }
        Name::MaxForwards if options => false,
        Name::Trailer => f.framing == Framing::Chunked && !field.dropped,
        name => !name.is_hop_by_hop() && is_kept(field, bytes, f.drop),
    });
    framing(out, f.framing);
    connection(out, f.connection, request.head.wants_trailers());
    if f.expect_continue {
        out.extend_from_slice(b"Expect: 100-continue\r\n");
    }
    if let Some(n) = request.head.max_forwards() {
        put(
            out,
            format_args!("Max-Forwards: {}\r\n", n.saturating_sub(1)),
        );
    }
    tell(out, request, f);
    via(out, f.via, request.head.version());
    out.extend_from_slice(f.lines);
    out.extend_from_slice(b"\r\n");
}

/// Appends the head of `response` with the changes of `f`.
pub fn response(out: &mut Vec<u8>, response: Response<'_>, f: &ForwardResponse<'_>) {
    let (fields, bytes) = response.raw_fields();
    let head = response.head;
    out.reserve(head.len() + f.lines.len() + 128);
    out.extend_from_slice(b"HTTP/1.1 ");
    put_number(out, u64::from(head.status()));
    out.push(b' ');
    out.extend_from_slice(response.reason());
    out.extend_from_slice(b"\r\n");
    let mut dated = f.date.is_empty();
    copy(out, fields, bytes, |field| match field.name {
        Name::Other => is_kept(field, bytes, f.drop),
        Name::Date => {
            dated = true;
            true
        }
        Name::Trailer => f.framing == Framing::Chunked && !field.dropped,
        name => !name.is_hop_by_hop() && is_kept(field, bytes, f.drop),
    });
    match (f.framing, head.content_length()) {
        // HEAD and 304 say how long the body would be; 1xx and 204 have none (RFC 9110 section 8.6).
        (Framing::None, Some(n)) if !matches!(head.status(), 100..=199 | 204) => {
            framing(out, Framing::Length(n));
        }
        (other, _) => framing(out, other),
    }
    connection(out, f.connection, false);
    if !dated && !matches!(head.status(), 100..=199) {
        line(out, "Date", f.date);
    }
    via(out, f.via, head.version());
    out.extend_from_slice(f.lines);
    out.extend_from_slice(b"\r\n");
}

fn is_kept(field: &Field, bytes: &[u8], drop: &[&str]) -> bool {
    !field.dropped
        && !drop.iter().any(|name| {
            name.len() == usize::from(field.name_len)
                && field.name_of(bytes).eq_ignore_ascii_case(name.as_bytes())
        })
}

/// Copies the lines that `keep` wants, neighbours together.
fn copy(out: &mut Vec<u8>, fields: &[Field], bytes: &[u8], mut keep: impl FnMut(&Field) -> bool) {
    let mut run = 0..0;
    for field in fields {
        if !keep(field) {
            continue;
        }
        if run.end != field.at as usize {
            out.extend_from_slice(bytes.get(run.clone()).unwrap_or_default());
            run.start = field.at as usize;
        }
        run.end = field.end as usize;
    }
    out.extend_from_slice(bytes.get(run).unwrap_or_default());
}

fn framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::Length(n) => {
            out.extend_from_slice(b"Content-Length: ");
            put_number(out, n);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::None | Framing::UntilClose => {}
    }
}

fn connection(out: &mut Vec<u8>, connection: Connection, trailers: bool) {
    out.extend_from_slice(match (connection, trailers) {
        (Connection::Persistent, false) => b"",
        // TE is a connection option (RFC 9110 section 10.1.4).
        (Connection::Persistent, true) => b"TE: trailers\r\nConnection: TE\r\n".as_slice(),
        (Connection::KeepAlive, _) => b"Connection: keep-alive\r\n",
        (Connection::Close, false) => b"Connection: close\r\n",
        (Connection::Close, true) => b"TE: trailers\r\nConnection: close, TE\r\n",
        (Connection::WebSocket, _) => b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
    });
}

fn via(out: &mut Vec<u8>, name: &[u8], version: crate::Version) {
    if name.is_empty() {
        return;
    }
    out.extend_from_slice(match version {
        crate::Version::Http10 => b"Via: 1.0 ",
        crate::Version::Http11 => b"Via: 1.1 ",
    });
    out.extend_from_slice(name);
    out.extend_from_slice(b"\r\n");
}

/// The fields that tell the server about the client.
fn tell(out: &mut Vec<u8>, request: Request<'_>, f: &ForwardRequest<'_>) {
    let (hop, told) = (f.hop, f.hop.told);
    let https = f.origin.https.unwrap_or(hop.https);
    let scheme: &[u8] = if https { b"https" } else { b"http" };
    let fields = request.fields();
    if told.x_forwarded {
        out.extend_from_slice(b"X-Forwarded-For: ");
        if hop.trusted == Some(Source::XForwarded) {
            for value in fields.all(Name::XForwardedFor).filter(|v| !v.is_empty()) {
                out.extend_from_slice(value);
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(&hop.peer_text);
        } else {
            client(out, f);
        }
        out.extend_from_slice(b"\r\n");
        let said = |name| hop.trusted == Some(Source::XForwarded) && fields.first(name).is_some();
        if !said(Name::XForwardedProto) {
            line(out, "X-Forwarded-Proto", scheme);
        }
        if !said(Name::XForwardedHost) && !request.host().is_empty() {
            line(out, "X-Forwarded-Host", request.host());
        }
    }
    if told.forwarded {
        out.extend_from_slice(b"Forwarded: ");
        if hop.trusted == Some(Source::Forwarded) {
            for value in fields.all(Name::Forwarded).filter(|v| !v.is_empty()) {
                out.extend_from_slice(value);
                out.extend_from_slice(b", ");
            }
            node(out, hop.peer);
            element(
                out,
                if hop.https { b"https" } else { b"http" },
                request.host(),
            );
        } else {
            node(out, f.origin.client);
            element(out, scheme, request.host());
        }
    }
    if told.x_real_ip {
        out.extend_from_slice(b"X-Real-IP: ");
        client(out, f);
        out.extend_from_slice(b"\r\n");
    }
}

fn client(out: &mut Vec<u8>, f: &ForwardRequest<'_>) {
    if f.origin.client == f.hop.peer {
        out.extend_from_slice(&f.hop.peer_text);
    } else {
        put(out, format_args!("{}", f.origin.client));
    }
}

/// An IPv6 address has to be quoted (RFC 7239 section 6).
fn node(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(a) => put(out, format_args!("for={a}")),
        IpAddr::V6(a) => put(out, format_args!("for=\"[{a}]\"")),
    }
}

fn element(out: &mut Vec<u8>, scheme: &[u8], host: &[u8]) {
    out.extend_from_slice(b";proto=");
    out.extend_from_slice(scheme);
    if !host.is_empty() {
        // Of the characters of a host neither has to be escaped in a quoted string.
        out.extend_from_slice(b";host=\"");
        out.extend_from_slice(host);
        out.push(b'"');
    }
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn put(out: &mut Vec<u8>, args: fmt::Arguments<'_>) {
    struct To<'a>(&'a mut Vec<u8>);
    impl fmt::Write for To<'_> {
        fn write_str(&mut self, s: &str) -> fmt::Result {
            self.0.extend_from_slice(s.as_bytes());
            Ok(())
        }
    }
    // Writing to memory does not fail.
    let _ = To(out).write_fmt(args);
}
