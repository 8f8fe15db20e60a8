//! What a proxy writes: a request or response passed on with its few changes, and the short messages of its own.
//!
//! A message is passed on line by line as it came (RFC 3261 section 16.6: what is not understood is kept); only the
//! lines that the proxy owns are written anew. All functions append to a buffer that the caller may use again.

use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use crate::chars::{Cursor, trim};
use crate::header::{NameAddr, Via, name_addrs, vias};
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
        .map(|h| name_addrs(h.value).flatten().count())
        .sum::<usize>();
    let last = usize::from(f.last_route_popped && routes > f.routes_popped);
    let keep = f.routes_popped..routes - last;
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
            Name::Route => route_at = kept_routes(out, &h, &keep, route_at),
            _ => out.extend_from_slice(h.line),
        }
    }
    if !forwards_seen {
        put(out, format_args!("Max-Forwards: {}\r\n", f.max_forwards));
    }
    finish(out, msg);
}

/// What is kept of the Route line `h`, whose first value is number `at`; returns the number of the next line's first.
fn kept_routes(out: &mut Vec<u8>, h: &Header<'_>, keep: &Range<usize>, at: usize) -> usize {
    let mut next = at;
    let mut kept: Option<Range<usize>> = None;
    for l in name_addrs(h.value).flatten() {
        if keep.contains(&next) {
            kept.get_or_insert(l.from..l.to).end = l.to;
        }
        next += 1;
    }
    // A line of which all is kept stays as it came. The values of another stay on one line: on lines of their own they
    // could make the message too long for a datagram.
    if keep.contains(&at) && keep.end >= next {
        out.extend_from_slice(h.line);
    } else if let Some(kept) = kept {
        line(out, "Route", h.value.get(kept).unwrap_or_default());
    }
    next
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
            let below = memchr::memchr(b',', rest)
                .map(|comma| trim(rest.get(comma + 1..).unwrap_or_default()))
                .unwrap_or_default();
            if !below.is_empty() {
                line(out, "Via", below);
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
    let from = out.len();
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
    // The first defect is told; there may be others behind it.
    if msg.defect().is_some() {
        mend_line_ends(out, from);
    }
    out.extend_from_slice(r.lines);
    out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
}

/// Makes CR LF of each LF alone, and a space of each CR alone, from `from` on: the answer to a message that is malformed in
/// this way must not be so as well.
fn mend_line_ends(out: &mut Vec<u8>, from: usize) {
    let copied = out.split_off(from);
    let mut rest = copied.as_slice();
    while let Some(at) = memchr::memchr2(b'\r', b'\n', rest) {
        let (before, end) = rest.split_at(at);
        out.extend_from_slice(before);
        let (written, taken): (&[u8], _) = match end {
            [b'\r', b'\n', ..] => (b"\r\n", 2),
            [b'\n', ..] => (b"\r\n", 1),
            _ => (b" ", 1),
        };
        out.extend_from_slice(written);
        rest = end.get(taken..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// A To whose tag cannot be read, or has no value, is taken to have one: a second would make it worse.
fn has_tag(h: &Header<'_>) -> bool {
    NameAddr::parse(h.value).map_or(true, |n| n.params.get(b"tag").is_some())
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
/// (when asked for) in its topmost value. All else in it stays byte for byte: its sender compares the branch.
fn stamped_via(out: &mut Vec<u8>, h: &Header<'_>, stamp: Stamp) {
    let Some(Ok(top)) = vias(h.value).next() else {
        out.extend_from_slice(h.line);
        return;
    };
    let Via {
        sent_by, params, ..
    } = top.item;
    let source = stamp.source.ip().to_canonical();
    let wants_rport = top.item.wants_rport();
    // RFC 3581 section 4: `received` goes with `rport` even when it is the same address.
    let received = wants_rport || sent_by.ip().map(|ip| ip.to_canonical()) != Some(source);
    if !received && params.get(b"received").is_none() {
        out.extend_from_slice(h.line);
        return;
    }
    // What the client wrote as `received` or as the value of `rport` is not its to write.
    let params_at = (h.value_at - h.at) + top.to - params.bytes().len();
    out.extend_from_slice(h.line.get(..params_at).unwrap_or_default());
    for param in params_as_written(params.bytes()) {
        let name = param.strip_prefix(b";").unwrap_or(param);
        let name = trim(name.split(|&c| c == b'=').next().unwrap_or_default());
        if !name.eq_ignore_ascii_case(b"received") && !name.eq_ignore_ascii_case(b"rport") {
            out.extend_from_slice(param);
        }
    }
    if received {
        put(out, format_args!(";received={source}"));
    }
    if wants_rport {
        put(out, format_args!(";rport={}", stamp.source.port()));
    }
    out.extend_from_slice(h.value.get(top.to..).unwrap_or_default());
    out.extend_from_slice(b"\r\n");
}

/// Each of some readable parameters with its `;`, quotes and white space.
fn params_as_written(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut c = Cursor::new(bytes);
    core::iter::from_fn(move || {
        let from = c.at();
        if !c.eat(b';') {
            return None;
        }
        while let Some(b) = c.peek().filter(|&b| b != b';') {
            // A `;` in a quoted string does not end it.
            if b != b'"' || c.quoted().is_none() {
                c.seek(c.at() + 1);
            }
        }
        Some(c.since(from))
    })
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

#[cfg(test)]
mod tests;
