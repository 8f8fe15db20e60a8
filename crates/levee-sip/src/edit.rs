//! What a proxy writes: a request or response passed on with its few changes, and the short messages of its own.
//!
//! A message is passed on line by line as it came (RFC 3261 section 16.6: what is not understood is kept); only the
//! lines that the proxy owns are written anew. All functions append to a buffer that the caller may use again.

use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::net::{IpAddr, SocketAddr};

use crate::header::{name_addrs, vias};
use crate::wire::{Header, Message, Name, StartLine};

/// Where a request came from, to be noted in its topmost Via (RFC 3261 section 18.2.1, RFC 3581 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The source address of the packet.
    pub source: SocketAddr,
}

/// The changes that a proxy makes to a request (RFC 3261 section 16.6).
#[derive(Clone, Copy, Debug)]
pub struct Forward<'a> {
    /// A Request-URI to put in place of the one that came.
    pub uri: Option<&'a [u8]>,
    /// The value of our Via.
    pub via: &'a [u8],
    /// Where the request came from.
    pub stamp: Stamp,
    /// The Max-Forwards to send.
    pub max_forwards: u8,
    /// How many Route values to take from the top.
    pub routes_popped: usize,
    /// Whether the last Route value goes too (it became the Request-URI, section 16.4).
    pub last_route_popped: bool,
    /// Whole header lines to put before the others, such as Record-Route.
    pub lines: &'a [u8],
}

/// Appends `msg`, a request, with the changes of `f`.
pub fn forward_request(out: &mut Vec<u8>, msg: &Message<'_>, f: &Forward<'_>) {
    let StartLine::Request { token, uri, .. } = msg.start() else {
        debug_assert!(false, "a response is not forwarded as a request");
        return;
    };
    out.reserve(msg.bytes().len() + 256);
    out.extend_from_slice(token);
    out.push(b' ');
    out.extend_from_slice(f.uri.unwrap_or(uri));
    out.extend_from_slice(b" SIP/2.0\r\nVia: ");
    out.extend_from_slice(f.via);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(f.lines);
    let routes = msg
        .all(Name::Route)
        .map(|h| name_addrs(h.value).count())
        .sum::<usize>();
    let keep =
        f.routes_popped..routes - usize::from(f.last_route_popped && routes > f.routes_popped);
    let (mut via_seen, mut forwards_seen, mut route_at) = (false, false, 0);
    for h in msg.headers() {
        match h.name {
            Name::Via if !via_seen => {
                via_seen = true;
                stamped_via(out, &h, f.stamp);
            }
            Name::MaxForwards => {
                forwards_seen = true;
                put(out, format_args!("Max-Forwards: {}\r\n", f.max_forwards));
            }
            Name::Route => {
                for l in name_addrs(h.value).flatten() {
                    if keep.contains(&route_at) {
                        out.extend_from_slice(b"Route: ");
                        out.extend_from_slice(h.value.get(l.from..l.to).unwrap_or_default());
                        out.extend_from_slice(b"\r\n");
                    }
                    route_at += 1;
                }
            }
            _ => out.extend_from_slice(h.line),
        }
    }
    if !forwards_seen {
        put(out, format_args!("Max-Forwards: {}\r\n", f.max_forwards));
    }
    finish(out, msg);
}

/// The Content-Length if it was missing, the empty line, and the body.
fn finish(out: &mut Vec<u8>, msg: &Message<'_>) {
    if msg.first(Name::ContentLength).is_none() {
        put(
            out,
            format_args!("Content-Length: {}\r\n", msg.body().len()),
        );
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(msg.body());
}

/// Appends `msg`, a response, without its topmost Via (RFC 3261 section 16.7), with whole header `lines` added.
pub fn forward_response(out: &mut Vec<u8>, msg: &Message<'_>, lines: &[u8]) {
    out.reserve(msg.bytes().len() + lines.len());
    out.extend_from_slice(msg.bytes().get(..msg.headers_at()).unwrap_or_default());
    let mut stripped = false;
    for h in msg.headers() {
        if h.name == Name::Via && !stripped {
            stripped = true;
            let first = vias(h.value)
                .next()
                .and_then(Result::ok)
                .map_or(h.value.len(), |l| l.to);
            let rest = h.value.get(first..).unwrap_or_default();
            if let Some(comma) = memchr::memchr(b',', rest) {
                out.extend_from_slice(b"Via: ");
                out.extend_from_slice(crate::chars::trim(
                    rest.get(comma + 1..).unwrap_or_default(),
                ));
                out.extend_from_slice(b"\r\n");
            }
        } else {
            out.extend_from_slice(h.line);
        }
    }
    out.extend_from_slice(lines);
    finish(out, msg);
}

/// An answer of our own to a request.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The status code.
    pub code: u16,
    /// The reason phrase.
    pub reason: &'a str,
    /// Where the request came from; `None` for a request as we sent it on, whose topmost Via is ours and is left out.
    pub stamp: Option<Stamp>,
    /// The tag for a To that has none; not put on a 100 (RFC 3261 section 8.2.6.2).
    pub to_tag: &'a [u8],
    /// Whole header lines to add.
    pub lines: &'a [u8],
}

/// Appends our answer to the request `msg` (RFC 3261 section 8.2.6.2). The headers that an answer repeats are copied as
/// they stand, so that a malformed request can be answered as well.
pub fn reply(out: &mut Vec<u8>, msg: &Message<'_>, r: &Reply<'_>) {
    out.reserve(512);
    put(out, format_args!("SIP/2.0 {} {}\r\n", r.code, r.reason));
    let mut via_seen = false;
    for h in msg.headers() {
        match h.name {
            Name::Via if !via_seen => {
                via_seen = true;
                if let Some(stamp) = r.stamp {
                    stamped_via(out, &h, stamp);
                }
            }
            Name::To if r.code > 100 && !has_tag(&h) => {
                out.extend_from_slice(b"To: ");
                out.extend_from_slice(h.value);
                out.extend_from_slice(b";tag=");
                out.extend_from_slice(r.to_tag);
                out.extend_from_slice(b"\r\n");
            }
            Name::Via | Name::From | Name::To | Name::CallId | Name::CSeq => {
                out.extend_from_slice(h.line);
            }
            Name::Timestamp if r.code == 100 => out.extend_from_slice(h.line),
            _ => {}
        }
    }
    out.extend_from_slice(r.lines);
    out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
}

/// A To whose tag cannot be read is taken to have one: a second would make it worse.
fn has_tag(h: &Header<'_>) -> bool {
    crate::header::NameAddr::parse(h.value).map_or(true, |n| n.tag().is_some())
}

/// The CANCEL of an INVITE that we sent, or the ACK of a non-2xx answer to it: the same Request-URI, topmost Via, Route,
/// From, Call-ID and CSeq number (RFC 3261 sections 9.1 and 17.1.1.3). The To is `to` if given (the answer's), else the
/// INVITE's.
pub fn hop_request(
    out: &mut Vec<u8>,
    method: &str,
    invite: &Message<'_>,
    to: Option<&[u8]>,
    lines: &[u8],
) {
    let StartLine::Request { uri, .. } = invite.start() else {
        debug_assert!(false, "made from a request only");
        return;
    };
    out.reserve(512);
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(uri);
    out.extend_from_slice(b" SIP/2.0\r\n");
    let mut via_seen = false;
    for h in invite.headers() {
        match h.name {
            Name::Via if !via_seen => {
                via_seen = true;
                let first = vias(h.value)
                    .next()
                    .and_then(Result::ok)
                    .map_or(h.value.len(), |l| l.to);
                line(out, "Via", h.value.get(..first).unwrap_or_default());
            }
            Name::To => line(out, "To", to.unwrap_or(h.value)),
            Name::CSeq => {
                let number = invite.cseq().map_or(0, |c| c.number);
                put(out, format_args!("CSeq: {number} {method}\r\n"));
            }
            Name::From | Name::CallId | Name::Route => out.extend_from_slice(h.line),
            _ => {}
        }
    }
    out.extend_from_slice(b"Max-Forwards: 70\r\n");
    out.extend_from_slice(lines);
    out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
}

/// Appends one header line.
pub fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The Via line `h` with `received` (when the packet came from elsewhere than the sent-by says) and the value of `rport`
/// (when asked for) in its topmost value.
fn stamped_via(out: &mut Vec<u8>, h: &Header<'_>, stamp: Stamp) {
    let Some(Ok(top)) = vias(h.value).next() else {
        out.extend_from_slice(h.line);
        return;
    };
    let wants_rport = top.item.wants_rport();
    let same_host = top.item.sent_by.ip() == Some(stamp.source.ip());
    if same_host && !wants_rport {
        out.extend_from_slice(h.line);
        return;
    }
    let value = h.value.get(..top.to).unwrap_or_default();
    out.extend_from_slice(b"Via: ");
    // What the client wrote as `received` or as the value of `rport` is not its to write.
    let params = top.item.params.bytes();
    let params_at = value.len().saturating_sub(params.len());
    out.extend_from_slice(crate::chars::trim(
        value.get(..params_at).unwrap_or_default(),
    ));
    for (name, value) in top.item.params.iter().flatten() {
        if name.eq_ignore_ascii_case(b"received") || name.eq_ignore_ascii_case(b"rport") {
            continue;
        }
        out.push(b';');
        out.extend_from_slice(name);
        if let Some(v) = value {
            out.push(b'=');
            let quote = !v
                .iter()
                .all(|&c| crate::chars::is_token(c) || matches!(c, b'[' | b']' | b':'));
            out.extend(quote.then_some(b'"'));
            out.extend_from_slice(v);
            out.extend(quote.then_some(b'"'));
        }
    }
    // RFC 3581 section 4: `received` goes with `rport` even when it is the same address.
    put(out, format_args!(";received={}", stamp.source.ip()));
    if wants_rport {
        put(out, format_args!(";rport={}", stamp.source.port()));
    }
    out.extend_from_slice(h.value.get(top.to..).unwrap_or_default());
    out.extend_from_slice(b"\r\n");
}

/// An address as a URI or a Via writes it: IPv6 in brackets.
#[derive(Clone, Copy, Debug)]
pub struct HostPort(pub SocketAddr);

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.ip() {
            IpAddr::V4(ip) => write!(f, "{ip}:{}", self.0.port()),
            IpAddr::V6(ip) => write!(f, "[{ip}]:{}", self.0.port()),
        }
    }
}

/// Appends formatted text.
pub fn put(out: &mut Vec<u8>, args: fmt::Arguments<'_>) {
    struct Bytes<'a>(&'a mut Vec<u8>);
    impl fmt::Write for Bytes<'_> {
        fn write_str(&mut self, s: &str) -> fmt::Result {
            self.0.extend_from_slice(s.as_bytes());
            Ok(())
        }
    }
    // Writing to a vector does not fail.
    let _ = Bytes(out).write_fmt(args);
}
