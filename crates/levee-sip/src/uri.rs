//! SIP URIs (RFC 3261 section 19.1), borrowed.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::chars::{is_host, is_lws, number};
use crate::header::{Bad, Params};

/// The scheme of a URI, as far as a SIP proxy tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `sip:`
    Sip,
    /// `sips:`
    Sips,
    /// `tel:` (RFC 3966)
    Tel,
    /// `urn:`, of which `urn:service:sos` is an emergency call (RFC 5031)
    Urn,
    /// Anything else.
    Other,
}

/// A URI in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uri<'a> {
    /// The whole, as written.
    pub bytes: &'a [u8],
    /// The scheme.
    pub scheme: Scheme,
    /// The user part, still escaped, without a password; empty if there is none. For `tel:` the number.
    pub user: &'a [u8],
    /// Host and port; empty when the scheme has none.
    pub host: Host<'a>,
    /// The parameters, each with its `;`.
    pub params: Params<'a>,
    /// What follows a `?`.
    pub headers: Option<&'a [u8]>,
}

/// A host with its port: the `hostport` and `sent-by` of RFC 3261.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Host<'a> {
    /// The name or address as written; an IPv6 address without its brackets.
    pub name: &'a [u8],
    /// The port, if written.
    pub port: Option<u16>,
}

impl Host<'_> {
    /// The address, when the host is one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        let text = core::str::from_utf8(self.name).ok()?;
        text.parse::<Ipv4Addr>()
            .map(IpAddr::V4)
            .or_else(|_| text.parse::<Ipv6Addr>().map(IpAddr::V6))
            .ok()
    }

    /// Whether both name the same host; case does not count, and neither does how an IPv6 address is written.
    #[must_use]
    pub fn same_name(&self, other: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(other)
            || matches!((self.ip(), Host { name: other, port: None }.ip()), (Some(a), Some(b)) if a == b)
    }
}

impl<'a> Host<'a> {
    /// Reads a host from the start of `bytes`, and returns it with the number of bytes it took.
    ///
    /// # Errors
    /// When there is no host, an IPv6 bracket stays open, or the port is not a number below 65,536.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, usize), Bad> {
        let (name, mut at) = if bytes.first() == Some(&b'[') {
            let end = memchr::memchr(b']', bytes).ok_or(Bad::Host)?;
            let name = bytes.get(1..end).ok_or(Bad::Host)?;
            let text = core::str::from_utf8(name).map_err(|_| Bad::Host)?;
            text.parse::<Ipv6Addr>().map_err(|_| Bad::Host)?;
            (name, end + 1)
        } else {
            let end = bytes
                .iter()
                .position(|&c| !is_host(c))
                .unwrap_or(bytes.len());
            (bytes.get(..end).unwrap_or_default(), end)
        };
        if name.is_empty() {
            return Err(Bad::Host);
        }
        // White space may stand around the colon of a Via's sent-by; a URI has none, and its caller has looked.
        let skip = |from: usize| {
            let rest = bytes.get(from..).unwrap_or_default();
            from + rest.iter().position(|&c| !is_lws(c)).unwrap_or(rest.len())
        };
        let colon = skip(at);
        let mut port = None;
        if bytes.get(colon) == Some(&b':') {
            let from = skip(colon + 1);
            let rest = bytes.get(from..).unwrap_or_default();
            let digits = rest
                .iter()
                .position(|c| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            let n = number(rest.get(..digits).unwrap_or_default()).ok_or(Bad::Port)?;
            port = Some(u16::try_from(n).map_err(|_| Bad::Port)?);
            at = from + digits;
        }
        Ok((Self { name, port }, at))
    }
}

impl<'a> Uri<'a> {
    /// Reads a URI that fills `bytes`.
    ///
    /// # Errors
    /// When there is no scheme, white space, a control character or an angle bracket inside, or a `sip:` URI without a good host.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Bad> {
        if bytes
            .iter()
            .any(|&c| c <= b' ' || matches!(c, b'<' | b'>' | b'"' | 0x7f))
        {
            return Err(Bad::UriChar);
        }
        let colon = memchr::memchr(b':', bytes).ok_or(Bad::Scheme)?;
        let (scheme, rest) = bytes.split_at(colon);
        let rest = rest.get(1..).unwrap_or_default();
        if !scheme.first().is_some_and(u8::is_ascii_alphabetic)
            || !scheme
                .iter()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'-' | b'.'))
        {
            return Err(Bad::Scheme);
        }
        let is = |s: &[u8]| scheme.eq_ignore_ascii_case(s);
        let scheme = if is(b"sip") {
            Scheme::Sip
        } else if is(b"sips") {
            Scheme::Sips
        } else if is(b"tel") {
            Scheme::Tel
        } else if is(b"urn") {
            Scheme::Urn
        } else {
            Scheme::Other
        };
        match scheme {
            Scheme::Sip | Scheme::Sips => Self::parse_sip(bytes, scheme, rest),
            Scheme::Tel => {
                let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
                let (user, params) = rest.split_at(end);
                Ok(Self {
                    bytes,
                    scheme,
                    user,
                    host: Host::default(),
                    params: Params::new(params),
                    headers: None,
                })
            }
            Scheme::Urn | Scheme::Other => Ok(Self {
                bytes,
                scheme,
                user: rest,
                host: Host::default(),
                params: Params::new(b""),
                headers: None,
            }),
        }
    }

    fn parse_sip(bytes: &'a [u8], scheme: Scheme, rest: &'a [u8]) -> Result<Self, Bad> {
        // A user part may hold `;`, `?` and `/`, so the `@` decides (RFC 4475 section 3.1.1.9).
        let (user, hostpart) = match memchr::memchr(b'@', rest) {
            Some(at) => (
                rest.get(..at).unwrap_or_default(),
                rest.get(at + 1..).unwrap_or_default(),
            ),
            None => (&b""[..], rest),
        };
        let user = memchr::memchr(b':', user).map_or(user, |c| user.get(..c).unwrap_or_default());
        if memchr::memchr(b'@', hostpart).is_some() {
            return Err(Bad::UriChar);
        }
        let (host, used) = Host::parse(hostpart)?;
        let tail = hostpart.get(used..).unwrap_or_default();
        let split = memchr::memchr(b'?', tail).unwrap_or(tail.len());
        let (params, headers) = tail.split_at(split);
        if !params.is_empty() && params.first() != Some(&b';') {
            return Err(Bad::UriChar);
        }
        Ok(Self {
            bytes,
            scheme,
            user,
            host,
            params: Params::new(params),
            headers: headers.get(1..),
        })
    }

    /// The value of the `transport` parameter.
    #[must_use]
    pub fn transport(&self) -> Option<&'a [u8]> {
        self.params.get(b"transport").flatten()
    }

    /// Whether this is a `sip:` or `sips:` URI.
    #[must_use]
    pub fn is_sip(&self) -> bool {
        matches!(self.scheme, Scheme::Sip | Scheme::Sips)
    }
}
