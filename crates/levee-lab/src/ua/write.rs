//! Parts of messages that transactions write.

use std::io::Write as _;
use std::net::SocketAddr;

use levee_sip::header::vias;
use levee_sip::wire::{Message, Name, StartLine};

use super::key::Key;

/// What begins each branch (RFC 3261 section 8.1.1.7).
pub(super) const BRANCH: &[u8] = b"z9hG4bK";

/// Request line and Via.
pub(super) fn write_head(
    out: &mut Vec<u8>,
    local: SocketAddr,
    method: &str,
    uri: &[u8],
    branch: Key,
) {
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(uri);
    write!(out, " SIP/2.0\r\nVia: SIP/2.0/UDP {local};rport;branch=").ok();
    out.extend_from_slice(BRANCH);
    out.extend_from_slice(&branch.hex());
    out.extend_from_slice(b"\r\n");
}

/// Ends a message that has no body.
pub(crate) fn no_body(out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
}

/// The CANCEL of an INVITE (RFC 3261 section 9.1), or the ACK of its refusal (section 17.1.1.3): both repeat its head.
pub(super) fn hop_by_hop(invite: &Message<'_>, method: &str, to: Option<&[u8]>) -> Option<Vec<u8>> {
    let StartLine::Request { uri, .. } = invite.start() else {
        return None;
    };
    let mut out = Vec::with_capacity(400);
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(uri);
    out.extend_from_slice(b" SIP/2.0\r\n");
    let lines = [Name::Via, Name::MaxForwards, Name::Route];
    for line in lines.into_iter().flat_map(|n| invite.all(n)) {
        out.extend_from_slice(line.line);
    }
    for (name, value) in [
        (&b"From: "[..], invite.value(Name::From)?),
        (b"\r\nTo: ", to.or_else(|| invite.value(Name::To))?),
        (b"\r\nCall-ID: ", invite.value(Name::CallId)?),
    ] {
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
    let number = invite.cseq().ok()?.number;
    write!(out, "\r\nCSeq: {number} {method}\r\n").ok()?;
    no_body(&mut out);
    Some(out)
}

/// The lines that a response repeats, with where the request came from in its top Via (RFC 3581 section 4).
pub(super) fn echo(message: &Message<'_>, from: SocketAddr) -> Vec<u8> {
    let mut out = Vec::with_capacity(320);
    for (i, header) in message.all(Name::Via).enumerate() {
        let top = (i == 0).then(|| vias(header.value).next()?.ok()).flatten();
        let Some(top) = top else {
            out.extend_from_slice(header.line);
            continue;
        };
        out.extend_from_slice(b"Via: SIP/2.0/");
        out.extend_from_slice(top.item.transport);
        out.push(b' ');
        let host = top.item.sent_by;
        match host.ip() {
            Some(ip) if ip.is_ipv6() => write!(out, "[{ip}]").ok(),
            _ => out.write_all(host.name).ok(),
        };
        if let Some(port) = host.port {
            write!(out, ":{port}").ok();
        }
        for (name, value) in top.item.params.iter().map_while(Result::ok) {
            if name.eq_ignore_ascii_case(b"received") {
                continue;
            }
            out.push(b';');
            out.extend_from_slice(name);
            if name.eq_ignore_ascii_case(b"rport") {
                write!(out, "={};received={}", from.port(), from.ip()).ok();
            } else if let Some(value) = value {
                out.push(b'=');
                out.extend_from_slice(value);
            }
        }
        out.extend_from_slice(header.value.get(top.to..).unwrap_or_default());
        out.extend_from_slice(b"\r\n");
    }
    for header in [Name::From, Name::CallId, Name::CSeq]
        .into_iter()
        .filter_map(|n| message.first(n))
    {
        out.extend_from_slice(header.line);
    }
    out
}

/// The usual phrase for a status.
pub(super) fn reason(code: u16) -> &'static str {
    match code {
        100 => "Trying",
        180 => "Ringing",
        183 => "Session Progress",
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        483 => "Too Many Hops",
        486 => "Busy Here",
        487 => "Request Terminated",
        500 => "Server Internal Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Other",
    }
}
