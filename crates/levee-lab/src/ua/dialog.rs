//! Dialogs (RFC 3261 section 12): what later requests of a call are made from.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use levee_sip::header::name_addrs;
use levee_sip::uri::Uri;
use levee_sip::wire::{Message, Method, Name};

use super::key::Key;
use super::outbox::Outbox;
use super::transaction::{Core, Outgoing, Owner};
use super::write::no_body;

/// One side's view of a dialog.
#[derive(Debug, Clone)]
pub(crate) struct Dialog {
    call_id: Vec<u8>,
    /// Our URI and tag: From in requests that we make.
    local: Vec<u8>,
    /// The peer's URI and tag: To in requests that we make.
    remote: Vec<u8>,
    target: Vec<u8>,
    /// Whole Route lines.
    routes: Vec<u8>,
    next_hop: SocketAddr,
    /// The highest CSeq that we have used.
    cseq: u32,
    /// The highest CSeq that the peer has used.
    remote_cseq: Option<u32>,
}

impl Dialog {
    /// The caller's dialog, from the 2xx to its INVITE. `fallback` is where the INVITE went: the next hop when neither
    /// Record-Route nor Contact gives an address.
    pub(crate) fn of_caller(response: &Message<'_>, fallback: SocketAddr) -> Option<Self> {
        let mut routes: Vec<&[u8]> = record_routes(response);
        routes.reverse();
        Self::new(
            response,
            response.value(Name::From)?.to_vec(),
            response.value(Name::To)?.to_vec(),
            &routes,
            fallback,
        )
        .map(|d| Self {
            cseq: response.cseq().map_or(1, |c| c.number),
            ..d
        })
    }

    /// The callee's dialog, from an INVITE that `tag` answers.
    pub(crate) fn of_callee(request: &Message<'_>, tag: &[u8], source: SocketAddr) -> Option<Self> {
        let local = [request.value(Name::To)?, b";tag=", tag].concat();
        let remote = request.value(Name::From)?.to_vec();
        let d = Self::new(request, local, remote, &record_routes(request), source)?;
        Some(Self {
            remote_cseq: request.cseq().ok().map(|c| c.number),
            ..d
        })
    }

    fn new(
        message: &Message<'_>,
        local: Vec<u8>,
        remote: Vec<u8>,
        routes: &[&[u8]],
        fallback: SocketAddr,
    ) -> Option<Self> {
        let target = message.contact().ok().flatten().map(|c| c.uri.to_vec())?;
        let next = match routes.first() {
            Some(first) => name_addrs(first).next()?.ok()?.item.uri,
            None => &target,
        };
        let next_hop = sip_addr(next).unwrap_or(fallback);
        let mut lines = Vec::new();
        for route in routes {
            lines.extend_from_slice(b"Route: ");
            lines.extend_from_slice(route);
            lines.extend_from_slice(b"\r\n");
        }
        Some(Self {
            call_id: message.call_id().ok()?.to_vec(),
            local,
            remote,
            target,
            routes: lines,
            next_hop,
            cseq: 0,
            remote_cseq: None,
        })
    }

    /// Where requests go.
    pub(crate) fn next_hop(&self) -> SocketAddr {
        self.next_hop
    }

    /// The CSeq of a new request.
    fn advance(&mut self) -> u32 {
        self.cseq += 1;
        self.cseq
    }

    /// Takes note of a request from the peer; false when its CSeq is older than one that came before
    /// (RFC 3261 section 12.2.2 wants 500 then).
    pub(crate) fn accepts(&mut self, request: &Message<'_>) -> bool {
        let Ok(cseq) = request.cseq() else {
            return false;
        };
        if self.remote_cseq.is_some_and(|seen| cseq.number <= seen) {
            return false;
        }
        self.remote_cseq = Some(cseq.number);
        // A target refresh: RFC 3261 section 12.2.2, RFC 3311.
        if matches!(cseq.method, Method::Invite | Method::Update)
            && let Ok(Some(contact)) = request.contact()
        {
            self.target = contact.uri.to_vec();
        }
        true
    }

    /// Writes the headers of a request inside the dialog, from Max-Forwards to CSeq.
    fn write_headers(&self, out: &mut Vec<u8>, cseq: u32, method: &str) {
        out.extend_from_slice(b"Max-Forwards: 70\r\n");
        out.extend_from_slice(&self.routes);
        for (name, value) in [
            (&b"From: "[..], &self.local),
            (b"\r\nTo: ", &self.remote),
            (b"\r\nCall-ID: ", &self.call_id),
        ] {
            out.extend_from_slice(name);
            out.extend_from_slice(value);
        }
        write!(out, "\r\nCSeq: {cseq} {method}\r\n").ok();
    }
}

/// Sends a request without a body inside a dialog.
pub(crate) fn send_in_dialog(
    core: &mut Core,
    now: Duration,
    owner: Owner,
    dialog: &mut Dialog,
    (method, name): (Method, &str),
    out: &mut Outbox,
) -> Key {
    let cseq = dialog.advance();
    let what = Outgoing {
        owner,
        method,
        name,
        uri: &dialog.target,
        to: dialog.next_hop,
    };
    core.request(now, what, out, |bytes| {
        dialog.write_headers(bytes, cseq, name);
        no_body(bytes);
    })
}

/// Acknowledges a 2xx, and returns the ACK for the case that the 2xx comes again (RFC 3261 section 13.2.2.4).
pub(crate) fn send_ack(core: &mut Core, dialog: &Dialog, out: &mut Outbox) -> Vec<u8> {
    let bytes = core.write_ack(&dialog.target, |bytes| {
        dialog.write_headers(bytes, dialog.cseq, "ACK");
        no_body(bytes);
    });
    out.push(dialog.next_hop, &bytes);
    bytes
}

/// Ends a message with a session description.
fn sdp_body(out: &mut Vec<u8>, sdp: &[u8]) {
    write!(
        out,
        "Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n",
        sdp.len()
    )
    .ok();
    out.extend_from_slice(sdp);
}

/// Ends a 2xx to an INVITE or UPDATE.
pub(crate) fn session_answer(out: &mut Vec<u8>, local: SocketAddr, user: &str, sdp: &[u8]) {
    write!(out, "Contact: <sip:{user}@{local}>\r\n").ok();
    out.extend_from_slice(b"Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, UPDATE\r\n");
    sdp_body(out, sdp);
}

fn record_routes<'a>(message: &Message<'a>) -> Vec<&'a [u8]> {
    let mut found = Vec::new();
    for header in message.all(Name::RecordRoute) {
        for listed in name_addrs(header.value).map_while(Result::ok) {
            found.extend(header.value.get(listed.from..listed.to));
        }
    }
    found
}

/// The address in a SIP URI whose host is one; 5060 when no port is given.
pub(crate) fn sip_addr(uri: &[u8]) -> Option<SocketAddr> {
    let uri = Uri::parse(uri).ok()?;
    Some(SocketAddr::new(
        uri.host.ip()?,
        uri.host.port.unwrap_or(5060),
    ))
}

/// A session description that offers one audio stream, which nobody sends.
pub(crate) fn silent_sdp(local: SocketAddr) -> Vec<u8> {
    let (family, ip) = (if local.is_ipv4() { "IP4" } else { "IP6" }, local.ip());
    format!(
        "v=0\r\no=lab 1 1 IN {family} {ip}\r\ns=-\r\nc=IN {family} {ip}\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\na=inactive\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use levee_sip::wire::Scanner;

    const OK: &str = "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 127.0.0.1:1;branch=z9hG4bKx\r\n\
        Record-Route: <sip:127.0.0.1:7;lr>, <sip:127.0.0.1:8;lr>\r\nRecord-Route: <sip:127.0.0.1:9;lr>\r\n\
        From: <sip:a@h>;tag=1\r\nTo: <sip:b@h>;tag=2\r\nCall-ID: c\r\nCSeq: 5 INVITE\r\n\
        Contact: <sip:b@127.0.0.1:4>\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn a_caller_reverses_the_record_routes() {
        let mut scanner = Scanner::default();
        let message = scanner.scan(OK.as_bytes()).unwrap();
        let mut d = Dialog::of_caller(&message, "127.0.0.1:1".parse().unwrap()).unwrap();
        assert_eq!(d.next_hop().port(), 9);
        assert_eq!(d.target, b"sip:b@127.0.0.1:4");
        let cseq = d.advance();
        let mut text = Vec::new();
        d.write_headers(&mut text, cseq, "BYE");
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "Max-Forwards: 70\r\nRoute: <sip:127.0.0.1:9;lr>\r\nRoute: <sip:127.0.0.1:8;lr>\r\n\
             Route: <sip:127.0.0.1:7;lr>\r\nFrom: <sip:a@h>;tag=1\r\nTo: <sip:b@h>;tag=2\r\nCall-ID: c\r\nCSeq: 6 BYE\r\n"
        );
    }

    #[test]
    fn a_callee_keeps_the_order_and_refuses_an_old_cseq() {
        let invite = OK.replace("SIP/2.0 200 OK", "INVITE sip:b@h SIP/2.0");
        let invite = invite.replace(";tag=2", "");
        let bye = |n: u32| invite.replace("5 INVITE", &format!("{n} BYE"));
        let mut scanner = Scanner::default();
        let source = "127.0.0.1:1".parse().unwrap();
        let message = scanner.scan(invite.as_bytes()).unwrap();
        let mut d = Dialog::of_callee(&message, b"me", source).unwrap();
        assert_eq!(d.next_hop().port(), 7);
        assert!(d.local.ends_with(b"<sip:b@h>;tag=me"));
        assert!(!d.accepts(&scanner.scan(bye(4).as_bytes()).unwrap()));
        assert!(d.accepts(&scanner.scan(bye(6).as_bytes()).unwrap()));
    }
}
