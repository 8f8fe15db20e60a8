//! Request targets and hosts (RFC 9112 section 3.2).

use crate::Bad;
use crate::chars::{is_host, number};
use crate::request::{Form, Method};

/// The parts of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) form: Form,
    /// The authority of an absolute form.
    pub(crate) authority: Option<Authority<'a>>,
    /// How many bytes come before the path and query.
    pub(crate) path_at: usize,
}

/// An authority and the port that its scheme implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Authority<'a> {
    pub(crate) text: &'a [u8],
    port: u16,
}

/// The target in one of its forms.
pub(crate) fn target(text: &[u8], method: Method) -> Result<Target<'_>, Bad> {
    match text {
        [b'/', ..] => Ok(Target {
            form: Form::Origin,
            authority: None,
            path_at: 0,
        }),
        b"*" if method == Method::Options => Ok(Target {
            form: Form::Asterisk,
            authority: None,
            path_at: 0,
        }),
        b"*" => Err(Bad::new(400, "the target * belongs to OPTIONS alone")),
        _ => absolute(text),
    }
}

fn absolute(text: &[u8]) -> Result<Target<'_>, Bad> {
    const UNREADABLE: Bad = Bad::new(400, "the target is neither a path nor an http URL");
    let scheme = text
        .windows(3)
        .take(6)
        .position(|w| w == b"://")
        .ok_or(UNREADABLE)?;
    let port = match text.get(..scheme) {
        Some(s) if s.eq_ignore_ascii_case(b"http") => 80,
        Some(s) if s.eq_ignore_ascii_case(b"https") => 443,
        _ => return Err(UNREADABLE),
    };
    let from = scheme + 3;
    let rest = text.get(from..).unwrap_or_default();
    let len = rest
        .iter()
        .position(|c| matches!(c, b'/' | b'?'))
        .unwrap_or(rest.len());
    let authority = rest.get(..len).unwrap_or_default();
    if !is_authority(authority) {
        return Err(Bad::new(400, "the host of the target is not a host"));
    }
    Ok(Target {
        form: Form::Absolute,
        authority: Some(Authority {
            text: authority,
            port,
        }),
        path_at: from + len,
    })
}

/// Whether `text` is a host with or without a port; user information is neither.
pub(crate) fn is_authority(text: &[u8]) -> bool {
    let (host, port) = split(text);
    let host_ok = match host {
        [b'[', inner @ .., b']'] => {
            core::str::from_utf8(inner).is_ok_and(|s| s.parse::<core::net::Ipv6Addr>().is_ok())
        }
        _ => !host.is_empty() && host.iter().all(|c| is_host(*c)),
    };
    host_ok && port.is_none_or(is_port)
}

/// An empty port is allowed by RFC 3986 section 3.2.3.
fn is_port(port: &[u8]) -> bool {
    port.is_empty() || (port.len() <= 5 && number(port).is_some_and(|n| n <= 65_535))
}

/// Host, and what stands behind its colon.
fn split(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    // A colon inside of brackets belongs to an IPv6 address.
    let digits = text.iter().rev().take_while(|c| c.is_ascii_digit()).count();
    let colon = text.len() - digits;
    match colon.checked_sub(1).and_then(|at| text.get(at)) {
        Some(b':') => (text.get(..colon - 1).unwrap_or_default(), text.get(colon..)),
        _ => (text, None),
    }
}

impl Authority<'_> {
    /// Whether `host`, a Host field's value, names the same host and port.
    pub(crate) fn is_same_as(self, host: &[u8]) -> bool {
        let port = |p: Option<&[u8]>| {
            p.filter(|p| !p.is_empty())
                .and_then(number)
                .unwrap_or(u64::from(self.port))
        };
        let (mine, my_port) = split(self.text);
        let (other, other_port) = split(host);
        mine.eq_ignore_ascii_case(other) && port(my_port) == port(other_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for good in [
            "example.com",
            "example.com:80",
            "example.com:",
            "127.0.0.1:65535",
            "[::1]",
            "[2001:db8::7]:8443",
            "under_score",
            "xn--bcher-kva.example",
        ] {
            assert!(is_authority(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ":80",
            "a b",
            "a,b",
            "user@host",
            "a/b",
            "a:65536",
            "a:123456",
            "a:-1",
            "a:8x",
            "[::1",
            "[::1]x",
            "[zz]",
            "::1",
            "a:1:2",
            "a\\b",
            "b\u{fc}cher",
        ] {
            assert!(!is_authority(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn authorities_are_the_same_up_to_case_and_default_port() {
        let check = |target: &str, host: &str, same: bool| {
            let authority = absolute(target.as_bytes()).unwrap().authority.unwrap();
            assert_eq!(
                authority.is_same_as(host.as_bytes()),
                same,
                "{target} {host}"
            );
        };
        check("http://a.example/", "A.example", true);
        check("http://a.example", "a.example:80", true);
        check("https://a.example:443?q", "a.example", true);
        check("https://a.example/", "a.example:80", false);
        check("http://a.example:8080/", "a.example", false);
        check("http://[::1]:80/", "[::1]", true);
        check("http://a.example/", "b.example", false);
    }
}
