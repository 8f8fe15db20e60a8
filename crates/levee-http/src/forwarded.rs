//! Who the client is when requests come through hops that we trust (RFC 7239, and X-Forwarded-For before it).
//!
//! The list is walked from its right end, where the nearest hop wrote: each address is believed only because a trusted
//! hop told it, so the first that is not a trusted hop is the client. What stands left of it anyone may have written.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::chars::{is_token, members, trim};
use crate::field::{Fields, Name};

/// Which fields trusted hops write. One of the two: the other passes through such a hop as the client forged it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// X-Forwarded-For, -Proto and -Host.
    #[default]
    XForwarded,
    /// Forwarded (RFC 7239).
    Forwarded,
}

/// Who made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The nearest address that is not a trusted hop's, or the farthest one if all are.
    pub client: IpAddr,
    /// Whether it was made over TLS, if a trusted hop says so.
    pub https: Option<bool>,
}

/// Hops that are walked; a longer chain is a loop, or made up.
pub const HOPS_MAX: usize = 32;

/// Who made the request with these fields that `peer` sent us. `source` tells which fields the trusted hops write, and
/// `is_trusted` whether an address is such a hop.
#[must_use]
pub fn origin(
    fields: Fields<'_>,
    peer: IpAddr,
    source: Source,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Origin {
    let peer = peer.to_canonical();
    let mut found = Origin {
        client: peer,
        https: None,
    };
    if !is_trusted(peer) {
        return found;
    }
    match source {
        Source::XForwarded => {
            let hops = fields
                .all(Name::XForwardedFor)
                .rev()
                .flat_map(|value| members(value).rev());
            for hop in hops.take(HOPS_MAX) {
                let Some(address) = address(hop) else { break };
                found.client = address;
                if !is_trusted(address) {
                    break;
                }
            }
            // Each hop that adds to the list writes one of these, or passes on what it was told.
            let proto = fields.all(Name::XForwardedProto).next_back();
            found.https = proto
                .and_then(|v| members(v).next_back())
                .and_then(is_https);
        }
        Source::Forwarded => {
            let hops = fields
                .all(Name::Forwarded)
                .rev()
                .flat_map(elements_from_right);
            for element in hops.take(HOPS_MAX) {
                let Some(element) = element else { break };
                found.https = element.proto.and_then(is_https).or(found.https);
                let Some(address) = element.node.and_then(address) else {
                    break;
                };
                found.client = address;
                if !is_trusted(address) {
                    break;
                }
            }
        }
    }
    found
}

fn is_https(proto: &[u8]) -> Option<bool> {
    if proto.eq_ignore_ascii_case(b"https") || proto.eq_ignore_ascii_case(b"wss") {
        Some(true)
    } else if proto.eq_ignore_ascii_case(b"http") || proto.eq_ignore_ascii_case(b"ws") {
        Some(false)
    } else {
        None
    }
}

/// An address with or without a port; IPv6 with or without brackets. `unknown` and `_hidden` are none.
#[must_use]
pub fn address(text: &[u8]) -> Option<IpAddr> {
    let text = core::str::from_utf8(trim(text)).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address.ip().to_canonical());
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner
        .parse::<Ipv6Addr>()
        .ok()
        .map(|a| IpAddr::V6(a).to_canonical())
}

/// What one hop wrote into Forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Element<'a> {
    node: Option<&'a [u8]>,
    proto: Option<&'a [u8]>,
}

/// The elements of a value from its right end; `None` for one that cannot be read, behind which nothing is believed.
fn elements_from_right(value: &[u8]) -> impl Iterator<Item = Option<Element<'_>>> {
    let mut rest = Some(value);
    core::iter::from_fn(move || {
        let (left, last) = split_last(rest?);
        rest = left;
        Some(element(trim(last)))
    })
}

/// What stands before and after the last comma that is not in a quoted string.
///
/// Quotes are counted from the right, so that one which the client left open on the left hides no hop's element.
fn split_last(text: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let mut quoted = false;
    let mut before = text;
    while let [left @ .., c] = before {
        match c {
            b'"' if !left.ends_with(b"\\") => quoted = !quoted,
            b',' if !quoted => return (Some(left), text.get(left.len() + 1..).unwrap_or_default()),
            _ => {}
        }
        before = left;
    }
    (None, text)
}

/// `for=…;proto=…` and other pairs, each once.
fn element(mut text: &[u8]) -> Option<Element<'_>> {
    let mut found = Element::default();
    loop {
        let name_len = text.iter().position(|c| !is_token(*c))?;
        let (name, rest) = text.split_at_checked(name_len)?;
        let rest = rest.strip_prefix(b"=")?;
        let (value, rest) = if let Some(quoted) = rest.strip_prefix(b"\"") {
            // An address needs no escape, and what has one is not read.
            let end = quoted.iter().position(|c| matches!(c, b'"' | b'\\'))?;
            let (value, rest) = quoted.split_at_checked(end)?;
            (value, rest.strip_prefix(b"\"")?)
        } else {
            // A port or an IPv6 address has to be quoted, and some hops do not.
            let end = rest
                .iter()
                .position(|c| !is_token(*c) && !matches!(c, b':' | b'[' | b']'))
                .unwrap_or(rest.len());
            rest.split_at_checked(end)?
        };
        let place = match name {
            n if n.eq_ignore_ascii_case(b"for") => Some(&mut found.node),
            n if n.eq_ignore_ascii_case(b"proto") => Some(&mut found.proto),
            _ => None,
        };
        if let Some(place) = place
            && place.replace(value).is_some()
        {
            return None;
        }
        let rest = trim(rest);
        if rest.is_empty() {
            return Some(found);
        }
        text = trim(rest.strip_prefix(b";")?);
    }
}
