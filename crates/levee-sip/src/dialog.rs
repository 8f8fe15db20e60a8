//! A dialog as a proxy in its middle sees it (RFC 3261 section 12), kept so that the proxy can end it.
//!
//! A proxy has no part in a dialog, and a BYE from it is not in RFC 3261. To both sides it must look as if the other side
//! had hung up: the other side's tag in From, a CSeq above all that side has used, the route set as the receiver's own
//! record of it has it, and the Contact that it gave last as Request-URI. Later requests of the side in whose name the
//! BYE went would be refused for their lower CSeq; that does no harm, since the dialog is over.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::check::{RequestParts, ResponseParts};
use crate::edit::{line, put};
use crate::header::{NameAddr, name_addrs};
use crate::uri::Uri;
use crate::wire::{Message, Name};

/// Which end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that sent the INVITE.
    Caller,
    /// The end that answered it.
    Callee,
}

impl Side {
    /// The other end.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee => Self::Caller,
        }
    }
}

/// Route values that are kept for one end; a request through more proxies than that would not have come here.
const ROUTES_MAX: usize = 16;

/// The highest CSeq number (RFC 3261 section 8.1.1.5).
const CSEQ_MAX: u32 = (1 << 31) - 1;

/// What is known of one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// Its From or To value, tag included.
    pub name_addr: Box<[u8]>,
    /// Its tag.
    pub tag: Box<[u8]>,
    /// The URI of its Contact: where requests to it go.
    pub target: Box<[u8]>,
    /// The proxies between us and it, nearest first, each a Route value.
    pub routes: Vec<Box<[u8]>>,
    /// The highest CSeq number that it has sent; 0 if none was seen.
    pub cseq: u32,
}

/// Both ends of a dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialog {
    /// The Call-ID.
    pub call_id: Box<[u8]>,
    /// The end that sent the INVITE.
    pub caller: Party,
    /// The end that answered.
    pub callee: Party,
}

/// The calling end of an INVITE that came to us. Its Record-Route values stand in the order in which requests to the
/// caller pass them. A caller without Contact (RFC 2543) is reached at its From.
#[must_use]
pub fn caller(msg: &Message<'_>, parts: &RequestParts<'_>) -> Party {
    Party {
        name_addr: msg.value(Name::From).unwrap_or_default().into(),
        tag: parts.from.tag().unwrap_or_default().into(),
        target: contact_uri(msg).unwrap_or(parts.from.uri).into(),
        routes: record_routes(msg).take(ROUTES_MAX).map(Box::from).collect(),
        cseq: parts.cseq.number,
    }
}

/// How many Record-Route values a message has.
#[must_use]
pub fn record_route_count(msg: &Message<'_>) -> usize {
    record_routes(msg).count()
}

/// The answering end of a response that makes a dialog; `None` if its To has no tag.
///
/// Its Record-Route values end with the `below` ones that the INVITE had when it left us, ours among them. Those above were
/// put on behind us, the farthest last, so the farthest stands first. Counting tells them apart where looking for our own
/// name would not: a request that the server sends back through us carries it twice.
#[must_use]
pub fn callee(msg: &Message<'_>, parts: &ResponseParts<'_>, below: usize) -> Option<Party> {
    let above = record_route_count(msg).saturating_sub(below);
    let mut routes: Vec<Box<[u8]>> = record_routes(msg)
        .take(above)
        .skip(above.saturating_sub(ROUTES_MAX))
        .map(Box::from)
        .collect();
    routes.reverse();
    Some(Party {
        name_addr: msg.value(Name::To)?.into(),
        tag: parts.to.tag()?.into(),
        target: contact_uri(msg).unwrap_or(parts.to.uri).into(),
        routes,
        cseq: 0,
    })
}

/// The URI of the Contact as a Request-URI has it, if there is a readable one: without headers, which a Request-URI must not
/// have (RFC 3261 section 19.1.1).
#[must_use]
pub fn contact_uri<'a>(msg: &Message<'a>) -> Option<&'a [u8]> {
    Uri::parse(msg.contact().ok()??.uri)
        .ok()
        .map(|u| without_headers(&u))
}

fn without_headers<'a>(uri: &Uri<'a>) -> &'a [u8] {
    let cut = uri.headers.map_or(0, |h| h.len() + 1);
    uri.bytes
        .get(..uri.bytes.len().saturating_sub(cut))
        .unwrap_or_default()
}

fn record_routes<'a>(msg: &Message<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    msg.all(Name::RecordRoute).flat_map(|h| {
        name_addrs(h.value)
            .flatten()
            .map(move |l| h.value.get(l.from..l.to).unwrap_or_default())
    })
}

impl Dialog {
    /// One end.
    #[must_use]
    pub fn party(&self, side: Side) -> &Party {
        match side {
            Side::Caller => &self.caller,
            Side::Callee => &self.callee,
        }
    }

    /// One end.
    pub fn party_mut(&mut self, side: Side) -> &mut Party {
        match side {
            Side::Caller => &mut self.caller,
            Side::Callee => &mut self.callee,
        }
    }

    /// Which end sent a request with this From tag.
    #[must_use]
    pub fn sender(&self, from_tag: &[u8]) -> Side {
        if *self.caller.tag == *from_tag {
            Side::Caller
        } else {
            Side::Callee
        }
    }

    /// Notes a request of one end: its CSeq, and its Contact when the request may move it (section 12.2.1.1).
    pub fn on_request(&mut self, from: Side, cseq: u32, new_target: Option<&[u8]>) {
        let party = self.party_mut(from);
        party.cseq = party.cseq.max(cseq);
        if let Some(target) = new_target
            && *party.target != *target
        {
            party.target = target.into();
        }
    }

    /// The URI of the next hop towards one end: its first route, or its Contact.
    #[must_use]
    pub fn next_hop(&self, to: Side) -> &[u8] {
        let party = self.party(to);
        match party.routes.first() {
            Some(r) => NameAddr::parse(r).map_or(&party.target, |n| n.uri),
            None => &party.target,
        }
    }

    /// Appends a BYE to one end in the other's name, with `via` as its Via value and whole header `lines` added. It takes
    /// the next CSeq number of the end in whose name it goes.
    pub fn bye(&mut self, out: &mut Vec<u8>, to: Side, via: &[u8], lines: &[u8]) {
        let sender = self.party_mut(to.other());
        // At the top there is no next number (section 8.1.1.5), but one that is not lower is taken as well (section 12.2.2).
        // An end that has used it up on purpose must not be safe from the BYE.
        sender.cseq = sender.cseq.saturating_add(1).min(CSEQ_MAX);
        let cseq = sender.cseq;
        self.request(out, "BYE", to, via, cseq, lines);
    }

    /// Appends the ACK of a 2xx to the callee in the caller's name, for an answer that the caller is not to have. `cseq` is
    /// the INVITE's.
    pub fn ack(&self, out: &mut Vec<u8>, via: &[u8], cseq: u32) {
        self.request(out, "ACK", Side::Callee, via, cseq, b"");
    }

    fn request(
        &self,
        out: &mut Vec<u8>,
        method: &str,
        to: Side,
        via: &[u8],
        cseq: u32,
        lines: &[u8],
    ) {
        let (receiver, sender) = (self.party(to), self.party(to.other()));
        let first = receiver
            .routes
            .first()
            .and_then(|r| NameAddr::parse(r).ok());
        // A strict router (RFC 2543) wants itself as the Request-URI and the target as last route (section 12.2.1.1).
        let strict = first
            .and_then(|n| n.parse_uri().ok())
            .filter(|u| u.is_sip() && u.params.get(b"lr").is_none())
            .map(|u| without_headers(&u));
        put(out, format_args!("{method} "));
        out.extend_from_slice(strict.unwrap_or(&receiver.target));
        out.extend_from_slice(b" SIP/2.0\r\n");
        line(out, "Via", via);
        for r in receiver.routes.iter().skip(usize::from(strict.is_some())) {
            line(out, "Route", r);
        }
        if strict.is_some() {
            out.extend_from_slice(b"Route: <");
            out.extend_from_slice(&receiver.target);
            out.extend_from_slice(b">\r\n");
        }
        out.extend_from_slice(b"Max-Forwards: 70\r\n");
        line(out, "From", &sender.name_addr);
        line(out, "To", &receiver.name_addr);
        line(out, "Call-ID", &self.call_id);
        put(out, format_args!("CSeq: {cseq} {method}\r\n"));
        out.extend_from_slice(lines);
        out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    }
}

#[cfg(test)]
mod tests;
