//! The PROXY protocol, versions 1 and 2: who the client is, told by a load balancer before the first byte.
//!
//! After HAProxy's `proxy-protocol.txt`. A listener either has it or has it not: guessing would let a client forge it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use memchr::memchr;

use crate::Parsed;

/// Which versions a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// The text line.
    V1,
    /// The binary header.
    V2,
    /// Both.
    Any,
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// A connection of a client.
    Proxied {
        /// The client.
        source: SocketAddr,
        /// What it connected to.
        destination: SocketAddr,
    },
    /// The balancer's own connection, a health check, or a client of no address: the socket's address counts.
    Local,
}

/// Why a header is refused; the connection is closed without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHeader(pub &'static str);

impl core::fmt::Display for BadHeader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for BadHeader {}

/// The longest line of version 1, its end included (section 2.1).
pub const V1_BYTES_MAX: usize = 107;
/// The longest header of version 2 that is read: 16 bytes, addresses, and what balancers add (certificates' names).
pub const V2_BYTES_MAX: usize = 16 + 4096;

const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Reads the header at the beginning of `bytes`. [`Parsed::Partial`] while more has to come; it never waits for more
/// than [`V2_BYTES_MAX`] bytes.
///
/// # Errors
/// The bytes are not a header of these versions.
pub fn parse(bytes: &[u8], versions: Versions) -> Result<Parsed<Header>, BadHeader> {
    match (bytes.first(), versions) {
        (None, _) => Ok(Parsed::Partial),
        (Some(b'P'), Versions::V1 | Versions::Any) => v1(bytes),
        (Some(b'\r'), Versions::V2 | Versions::Any) => v2(bytes),
        _ => Err(BadHeader(match versions {
            Versions::V1 => "no PROXY protocol header of version 1",
            Versions::V2 => "no PROXY protocol header of version 2",
            Versions::Any => "no PROXY protocol header",
        })),
    }
}

fn v1(bytes: &[u8]) -> Result<Parsed<Header>, BadHeader> {
    const PREFIX: &[u8] = b"PROXY ";
    let n = bytes.len().min(PREFIX.len());
    if bytes.get(..n) != PREFIX.get(..n) {
        return Err(BadHeader("no PROXY protocol header"));
    }
    let within = bytes
        .get(..bytes.len().min(V1_BYTES_MAX))
        .unwrap_or_default();
    let Some(lf) = memchr(b'\n', within) else {
        if within.len() == V1_BYTES_MAX {
            return Err(BadHeader("a PROXY line longer than 107 bytes"));
        }
        return Ok(Parsed::Partial);
    };
    let line = within.get(PREFIX.len()..lf).unwrap_or_default();
    let Some(line) = line.strip_suffix(b"\r") else {
        return Err(BadHeader("a PROXY line that ends with a bare line feed"));
    };
    let head = line_v1(line).ok_or(BadHeader(
        "a PROXY line without protocol, two addresses and two ports",
    ))?;
    Ok(Parsed::Complete { head, len: lf + 1 })
}

fn line_v1(line: &[u8]) -> Option<Header> {
    let line = core::str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let protocol = words.next()?;
    // What follows UNKNOWN is to be ignored.
    if protocol == "UNKNOWN" {
        return Some(Header::Local);
    }
    let (source, destination) = (words.next()?, words.next()?);
    let (source, destination): (IpAddr, IpAddr) = match protocol {
        "TCP4" => (
            source.parse::<Ipv4Addr>().ok()?.into(),
            destination.parse::<Ipv4Addr>().ok()?.into(),
        ),
        "TCP6" => (
            source.parse::<Ipv6Addr>().ok()?.into(),
            destination.parse::<Ipv6Addr>().ok()?.into(),
        ),
        _ => return None,
    };
    let (source_port, destination_port) = (port(words.next()?)?, port(words.next()?)?);
    if words.next().is_some() {
        return None;
    }
    Some(Header::Proxied {
        source: SocketAddr::new(source.to_canonical(), source_port),
        destination: SocketAddr::new(destination.to_canonical(), destination_port),
    })
}

/// Digits without leading zeros.
fn port(text: &str) -> Option<u16> {
    let plain =
        text.bytes().all(|c| c.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

fn v2(bytes: &[u8]) -> Result<Parsed<Header>, BadHeader> {
    let n = bytes.len().min(V2_SIGNATURE.len());
    if bytes.get(..n) != V2_SIGNATURE.get(..n) {
        return Err(BadHeader("no PROXY protocol header"));
    }
    let Some(&[version_command, family, hi, lo]) =
        bytes.get(12..16).and_then(|b| b.first_chunk::<4>())
    else {
        return Ok(Parsed::Partial);
    };
    let body_len = usize::from(u16::from_be_bytes([hi, lo]));
    let len = 16 + body_len;
    if version_command >> 4 != 2 {
        return Err(BadHeader("a PROXY header of another version than 2"));
    }
    if len > V2_BYTES_MAX {
        return Err(BadHeader("a PROXY header longer than is read"));
    }
    let address_len = match (version_command & 0xf, family) {
        (0, _) => 0,
        (1, 0x11) => 12,
        (1, 0x21) => 36,
        // No address, datagrams and UNIX sockets: nothing that a TCP listener could use.
        (1, _) if matches!(family >> 4, 0..=3) && matches!(family & 0xf, 0..=2) => 0,
        _ => {
            return Err(BadHeader(
                "a PROXY header with an unknown command or family",
            ));
        }
    };
    if body_len < address_len {
        return Err(BadHeader("a PROXY header shorter than its addresses"));
    }
    let Some(body) = bytes.get(16..len) else {
        return Ok(Parsed::Partial);
    };
    let head = match address_len {
        12 => addresses::<4>(body),
        36 => addresses::<16>(body),
        _ => Some(Header::Local),
    };
    let head = head.ok_or(BadHeader("a PROXY header shorter than its addresses"))?;
    Ok(Parsed::Complete { head, len })
}

/// Two addresses of `N` bytes and two ports.
fn addresses<const N: usize>(body: &[u8]) -> Option<Header>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = body.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (source_port, rest) = rest.split_first_chunk::<2>()?;
    let (destination_port, _) = rest.split_first_chunk::<2>()?;
    let pair = |ip: &[u8; N], port: &[u8; 2]| {
        SocketAddr::new(IpAddr::from(*ip).to_canonical(), u16::from_be_bytes(*port))
    };
    Some(Header::Proxied {
        source: pair(source, source_port),
        destination: pair(destination, destination_port),
    })
}
