//! Header fields: where they stand in the bytes, and the names that somebody here reads.

use alloc::vec::Vec;

/// Field names that are read or owned here; all others are [`Name::Other`] and pass through as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is the header field of that name")]
pub enum Name {
    Accept,
    Connection,
    ContentLength,
    Date,
    Expect,
    Forwarded,
    Host,
    Http2Settings,
    KeepAlive,
    MaxForwards,
    ProxyAuthenticate,
    ProxyAuthorization,
    ProxyConnection,
    SecFetchDest,
    SecFetchMode,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    Via,
    XForwardedFor,
    XForwardedHost,
    XForwardedPort,
    XForwardedProto,
    XRealIp,
    /// One of the above with an underscore for a hyphen: programs behind CGI-like interfaces cannot tell it from the
    /// real one, so it is never sent on.
    Alias,
    Other,
}

impl Name {
    /// The name of these bytes, in any case.
    pub(crate) fn of(name: &[u8]) -> Self {
        let Some(first) = name.first() else {
            return Self::Other;
        };
        let (candidate, text): (Self, &[u8]) = match (name.len(), first | 0x20) {
            (2, b't') => (Self::Te, b"te"),
            (3, b'v') => (Self::Via, b"via"),
            (4, b'h') => (Self::Host, b"host"),
            (4, b'd') => (Self::Date, b"date"),
            (6, b'a') => (Self::Accept, b"accept"),
            (6, b'e') => (Self::Expect, b"expect"),
            (7, b'u') => (Self::Upgrade, b"upgrade"),
            (7, b't') => (Self::Trailer, b"trailer"),
            (9, b'f') => (Self::Forwarded, b"forwarded"),
            (9, b'x') => (Self::XRealIp, b"x-real-ip"),
            (10, b'c') => (Self::Connection, b"connection"),
            (10, b'k') => (Self::KeepAlive, b"keep-alive"),
            (12, b'm') => (Self::MaxForwards, b"max-forwards"),
            (14, b'c') => (Self::ContentLength, b"content-length"),
            (14, b'h') => (Self::Http2Settings, b"http2-settings"),
            (14, b's') if name.ends_with(b"t") || name.ends_with(b"T") => {
                (Self::SecFetchDest, b"sec-fetch-dest")
            }
            (14, b's') => (Self::SecFetchMode, b"sec-fetch-mode"),
            (15, b'x') => (Self::XForwardedFor, b"x-forwarded-for"),
            (16, b'p') => (Self::ProxyConnection, b"proxy-connection"),
            (16, b'x') if name.get(12).is_some_and(|c| c | 0x20 == b'h') => {
                (Self::XForwardedHost, b"x-forwarded-host")
            }
            (16, b'x') => (Self::XForwardedPort, b"x-forwarded-port"),
            (17, b't') => (Self::TransferEncoding, b"transfer-encoding"),
            (17, b'x') => (Self::XForwardedProto, b"x-forwarded-proto"),
            (18, b'p') => (Self::ProxyAuthenticate, b"proxy-authenticate"),
            (19, b'p') => (Self::ProxyAuthorization, b"proxy-authorization"),
            _ => return Self::Other,
        };
        let mut alias = false;
        for (c, want) in name.iter().zip(text) {
            if c.to_ascii_lowercase() != *want {
                if *c != b'_' || *want != b'-' {
                    return Self::Other;
                }
                alias = true;
            }
        }
        if alias { Self::Alias } else { candidate }
    }

    /// Whether the field concerns one connection only, or is written anew by whoever sends a message on.
    pub(crate) fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::ContentLength
                | Self::Http2Settings
                | Self::KeepAlive
                | Self::ProxyAuthenticate
                | Self::ProxyAuthorization
                | Self::ProxyConnection
                | Self::Te
                | Self::TransferEncoding
                | Self::Upgrade
                | Self::Alias
        )
    }
}

/// A range of the head's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    from: u32,
    to: u32,
}

impl Span {
    /// The range, which lies below [`Limits::CEILING`](crate::Limits::CEILING).
    pub(crate) fn new(from: usize, to: usize) -> Self {
        Self {
            from: from as u32,
            to: to as u32,
        }
    }

    pub(crate) fn ends(self) -> (usize, usize) {
        (self.from as usize, self.to as usize)
    }

    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        bytes
            .get(self.from as usize..self.to as usize)
            .unwrap_or_default()
    }
}

/// Where one field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: Name,
    /// Whether the Connection field names it.
    pub(crate) dropped: bool,
    pub(crate) name_len: u16,
    pub(crate) at: u32,
    pub(crate) value: Span,
    /// Where the next line begins.
    pub(crate) end: u32,
}

impl Field {
    pub(crate) fn name_of<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let at = self.at as usize;
        bytes
            .get(at..at + usize::from(self.name_len))
            .unwrap_or_default()
    }

    /// Whether its white space is the usual: spaces alone, and none after the value. Parsers differ on all other.
    pub(crate) fn is_plain_enough(&self, bytes: &[u8]) -> bool {
        let from = self.at as usize + usize::from(self.name_len) + 1;
        let before = bytes.get(from..self.value.from as usize);
        before.is_some_and(|w| w.iter().all(|c| *c == b' ')) && self.value.to + 2 == self.end
    }
}

/// One header field of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRef<'a> {
    /// Which one it is, if somebody here knows it.
    pub name: Name,
    /// Its name as it came.
    pub text: &'a [u8],
    /// Its value without the white space around it.
    pub value: &'a [u8],
}

/// The fields of a head.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    pub(crate) fields: &'a [Field],
    pub(crate) bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// All of them, in their order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = FieldRef<'a>> + ExactSizeIterator {
        let bytes = self.bytes;
        self.fields.iter().map(move |f| FieldRef {
            name: f.name,
            text: f.name_of(bytes),
            value: f.value.of(bytes),
        })
    }

    /// The values of all fields of the name.
    pub fn all(self, name: Name) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let bytes = self.bytes;
        self.fields
            .iter()
            .filter(move |f| f.name == name)
            .map(move |f| f.value.of(bytes))
    }

    /// The value of the first field of the name.
    #[must_use]
    pub fn first(self, name: Name) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// The value of the first field of the name, in any case, for names that [`Name`] does not have.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.fields
            .iter()
            .filter(|f| usize::from(f.name_len) == name.len())
            .find(|f| f.name_of(self.bytes).eq_ignore_ascii_case(name.as_bytes()))
            .map(|f| f.value.of(self.bytes))
    }
}

/// Marks the fields that `option`, a connection option, names.
pub(crate) fn drop_named(fields: &mut Vec<Field>, bytes: &[u8], option: &[u8]) {
    for f in fields {
        if usize::from(f.name_len) == option.len() && f.name_of(bytes).eq_ignore_ascii_case(option)
        {
            f.dropped = true;
        }
    }
}
