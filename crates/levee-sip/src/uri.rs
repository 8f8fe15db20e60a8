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

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Result<(&str, Option<u16>, usize), Bad> {
        Host::parse(text.as_bytes())
            .map(|(h, used)| (core::str::from_utf8(h.name).unwrap(), h.port, used))
    }

    #[test]
    fn hosts_and_ports() {
        let table = [
            ("a", Ok(("a", None, 1))),
            ("a.b-c_d.example", Ok(("a.b-c_d.example", None, 15))),
            ("a;b", Ok(("a", None, 1))),
            ("a:5060", Ok(("a", Some(5060), 6))),
            ("a:0", Ok(("a", Some(0), 3))),
            ("a:1;x", Ok(("a", Some(1), 3))),
            ("a:65535", Ok(("a", Some(65535), 7))),
            ("a:000065535", Ok(("a", Some(65535), 11))),
            ("a:65536", Err(Bad::Port)),
            ("a:18446744073709551617", Err(Bad::Port)),
            ("a:", Err(Bad::Port)),
            ("a:x", Err(Bad::Port)),
            ("a:-1", Err(Bad::Port)),
            ("a : 5060 ;x", Ok(("a", Some(5060), 8))),
            ("a ;x", Ok(("a", None, 1))),
            ("[::1]", Ok(("::1", None, 5))),
            ("[::1]:5060", Ok(("::1", Some(5060), 10))),
            (
                "[2001:db8::192.0.2.1]",
                Ok(("2001:db8::192.0.2.1", None, 21)),
            ),
            ("::1", Err(Bad::Host)),
            ("[::1", Err(Bad::Host)),
            ("[]", Err(Bad::Host)),
            ("[1.2.3.4]", Err(Bad::Host)),
            ("[::1%eth0]", Err(Bad::Host)),
            ("", Err(Bad::Host)),
            (":5060", Err(Bad::Host)),
            ("\u{fc}", Err(Bad::Host)),
        ];
        for (text, want) in table {
            assert_eq!(host(text), want, "{text:?}");
        }
    }

    #[test]
    fn hosts_are_compared_as_addresses_or_without_case() {
        let same = |a: &str, b: &str| Host::parse(a.as_bytes()).unwrap().0.same_name(b.as_bytes());
        assert!(same("Example.COM", "example.com"));
        assert!(same("[2001:DB8:0::1]", "2001:db8::1"));
        assert!(same("192.0.2.1", "192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.10"));
        assert!(!same("example.com", "example.org"));
        assert!(!same("example.com", "example.com."));
    }

    /// Scheme, user, host, port, parameters, headers.
    type Parts<'a> = (
        Scheme,
        &'a str,
        &'a str,
        Option<u16>,
        &'a str,
        Option<&'a str>,
    );

    fn parts(text: &str) -> Result<Parts<'_>, Bad> {
        let s = |b| core::str::from_utf8(b).unwrap();
        Uri::parse(text.as_bytes()).map(|u| {
            let host = u.host;
            let params = s(u.params.bytes());
            (
                u.scheme,
                s(u.user),
                s(host.name),
                host.port,
                params,
                u.headers.map(s),
            )
        })
    }

    #[test]
    fn uris() {
        use Scheme::{Other, Sip, Sips, Tel, Urn};
        let table = [
            ("sip:a", Ok((Sip, "", "a", None, "", None))),
            ("SIP:a", Ok((Sip, "", "a", None, "", None))),
            (
                "sips:u@a:1;p?h=v",
                Ok((Sips, "u", "a", Some(1), ";p", Some("h=v"))),
            ),
            ("sip:u:secret@a", Ok((Sip, "u", "a", None, "", None))),
            ("sip:@a", Ok((Sip, "", "a", None, "", None))),
            ("sip:u;x=1@a;y", Ok((Sip, "u;x=1", "a", None, ";y", None))),
            ("sip:u?/;x@a", Ok((Sip, "u?/;x", "a", None, "", None))),
            ("sip:u%40b@a", Ok((Sip, "u%40b", "a", None, "", None))),
            ("sip:u%00@a", Ok((Sip, "u%00", "a", None, "", None))),
            ("sip:\u{fc}@a", Ok((Sip, "\u{fc}", "a", None, "", None))),
            (
                "sip:u@[::1]:5060",
                Ok((Sip, "u", "::1", Some(5060), "", None)),
            ),
            ("sip:a;lr?", Ok((Sip, "", "a", None, ";lr", Some("")))),
            (
                "tel:+1-212;phone-context=x",
                Ok((Tel, "+1-212", "", None, ";phone-context=x", None)),
            ),
            (
                "urn:service:sos",
                Ok((Urn, "service:sos", "", None, "", None)),
            ),
            (
                "soap.beep://192.0.2.1",
                Ok((Other, "//192.0.2.1", "", None, "", None)),
            ),
            ("sip:", Err(Bad::Host)),
            ("sip:u@", Err(Bad::Host)),
            ("sip:u@a@b", Err(Bad::UriChar)),
            ("sip:a:65536", Err(Bad::Port)),
            ("sip:a/b", Err(Bad::UriChar)),
            ("sip:a b", Err(Bad::UriChar)),
            ("sip:a\0", Err(Bad::UriChar)),
            ("sip:a\u{7f}", Err(Bad::UriChar)),
            ("<sip:a>", Err(Bad::UriChar)),
            ("", Err(Bad::Scheme)),
            ("a", Err(Bad::Scheme)),
            (":a", Err(Bad::Scheme)),
            ("1sip:a", Err(Bad::Scheme)),
            ("s p:a", Err(Bad::UriChar)),
            ("s_p:a", Err(Bad::Scheme)),
        ];
        for (text, want) in table {
            assert_eq!(parts(text), want, "{text:?}");
        }
    }

    #[test]
    fn the_transport_parameter() {
        let transport = |t: &'static str| Uri::parse(t.as_bytes()).unwrap().transport();
        assert_eq!(transport("sip:a;lr;Transport=tcp"), Some(&b"tcp"[..]));
        assert_eq!(transport("sip:a;transport"), None);
        assert_eq!(transport("sip:u;transport=tcp@a"), None);
    }
}
