//! The values that a proxy reads, each parsed when it is asked for (RFC 3261 sections 20 and 25.1).

use core::fmt;

use crate::chars::{Cursor, is_lws, is_token, number, trim};
use crate::uri::{Host, Uri};
use crate::wire::{Message, Method, Name};

/// Why a value is not what its header wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bad {
    /// The header is missing.
    Missing,
    /// A header that stands once stands twice.
    Twice,
    /// Not a number, or one out of range.
    Number,
    /// A method name is wanted.
    Method,
    /// A quoted string does not end.
    Quote,
    /// A display name holds a character that must be quoted.
    DisplayName,
    /// `<` without `>`.
    Bracket,
    /// A URI with `,` or `?` or `;` that must stand in `<` `>` (RFC 3261 section 20.10).
    NeedsBrackets,
    /// A URI without a scheme.
    Scheme,
    /// A character that a URI cannot hold.
    UriChar,
    /// A host is wanted.
    Host,
    /// A port is a number below 65,536.
    Port,
    /// A parameter without a name, or an unreadable value.
    Param,
    /// A Via without protocol, version or transport.
    Via,
    /// A Call-ID that is empty, or holds white space or a control character.
    CallId,
    /// Something stands after the value.
    Trailing,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "missing",
            Self::Twice => "given twice",
            Self::Number => "number out of range",
            Self::Method => "no method",
            Self::Quote => "unterminated quoted string",
            Self::DisplayName => "display name must be quoted",
            Self::Bracket => "unbalanced angle bracket",
            Self::NeedsBrackets => "URI must be in angle brackets",
            Self::Scheme => "URI without scheme",
            Self::UriChar => "bad character in URI",
            Self::Host => "bad host",
            Self::Port => "bad port",
            Self::Param => "bad parameter",
            Self::Via => "bad Via",
            Self::CallId => "bad Call-ID",
            Self::Trailing => "trailing characters",
        })
    }
}

impl core::error::Error for Bad {}

/// `;name=value` parameters, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Params<'a> {
    bytes: &'a [u8],
}

impl<'a> Params<'a> {
    /// Parameters in `bytes`, which begins with `;` or is empty.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The text, each parameter with its `;`.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The value of a parameter: `None` if it is not there, `Some(None)` if it has no value.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        self.iter()
            .map_while(Result::ok)
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v)
    }

    /// Each parameter with its value; stops after the first that cannot be read.
    pub fn iter(
        &self,
    ) -> impl Iterator<Item = Result<(&'a [u8], Option<&'a [u8]>), Bad>> + use<'a> {
        let mut c = Cursor::new(self.bytes);
        let mut failed = false;
        core::iter::from_fn(move || {
            c.skip_lws();
            if failed || c.is_end() {
                return None;
            }
            let item = one_param(&mut c);
            failed = item.is_err();
            Some(item)
        })
    }
}

/// Reads parameters up to the first that cannot be read; the cursor stays behind the last good one.
fn params_far<'a>(c: &mut Cursor<'a>) -> (Params<'a>, Option<Bad>) {
    let from = c.at();
    let defect = loop {
        let before = c.at();
        c.skip_lws();
        if c.peek() != Some(b';') {
            c.seek(before);
            break None;
        }
        if let Err(e) = one_param(c) {
            c.seek(before);
            break Some(e);
        }
    };
    (Params::new(trim(c.since(from))), defect)
}

/// Reads `;name` or `;name=value`.
fn one_param<'a>(c: &mut Cursor<'a>) -> Result<(&'a [u8], Option<&'a [u8]>), Bad> {
    if !c.eat(b';') {
        return Err(Bad::Param);
    }
    c.skip_lws();
    let name = c.take_while(is_param);
    if name.is_empty() {
        return Err(Bad::Param);
    }
    let after_name = c.at();
    c.skip_lws();
    if !c.eat(b'=') {
        c.seek(after_name);
        return Ok((name, None));
    }
    c.skip_lws();
    if c.peek() == Some(b'"') {
        let quoted = c.quoted().ok_or(Bad::Quote)?;
        return Ok((
            name,
            Some(quoted.get(1..quoted.len() - 1).unwrap_or_default()),
        ));
    }
    let value = c.take_while(is_param_value);
    if value.is_empty() {
        return Err(Bad::Param);
    }
    Ok((name, Some(value)))
}

/// Token characters, and those that URI parameters add.
fn is_param(c: u8) -> bool {
    is_token(c) || matches!(c, b'[' | b']' | b'/' | b'$' | b'&' | b'(' | b')') || c >= 0x80
}

/// More than the token or host that RFC 3261 has here: tags and instance identifiers of real devices hold `#`, `|` or
/// `{`, and none of these can be taken for the end of the value.
fn is_param_value(c: u8) -> bool {
    c > b' ' && !matches!(c, b';' | b',' | b'"' | b'<' | b'>' | b'\\' | 0x7f)
}

/// `name-addr` or `addr-spec` with its parameters: a value of From, To, Contact, Route, Record-Route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameAddr<'a> {
    /// The display name as written, with quotes if it has them.
    pub display: &'a [u8],
    /// The URI as written.
    pub uri: &'a [u8],
    /// The header's parameters (not the URI's).
    pub params: Params<'a>,
}

impl<'a> NameAddr<'a> {
    /// Reads the one value that fills `bytes`.
    ///
    /// # Errors
    /// When it is malformed, or something follows it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Bad> {
        let mut c = Cursor::new(bytes);
        let it = Self::read(&mut c)?;
        c.skip_lws();
        if c.is_end() {
            Ok(it)
        } else {
            Err(Bad::Trailing)
        }
    }

    fn read(c: &mut Cursor<'a>) -> Result<Self, Bad> {
        c.skip_lws();
        let from = c.at();
        let mut display = &b""[..];
        if c.peek() == Some(b'"') {
            display = c.quoted().ok_or(Bad::Quote)?;
            c.skip_lws();
        } else {
            // Unquoted UTF-8 is not in the grammar, but devices send it and it cannot be read in two ways.
            let words = c.take_while(|b| is_token(b) || is_lws(b) || b >= 0x80);
            match c.peek() {
                Some(b'<') => display = trim(words),
                Some(b':') => c.seek(from),
                _ => return Err(Bad::DisplayName),
            }
        }
        let uri = if c.eat(b'<') {
            let uri_from = c.at();
            c.take_while(|b| b != b'>');
            let uri = c.since(uri_from);
            if !c.eat(b'>') {
                return Err(Bad::Bracket);
            }
            uri
        } else if display.is_empty() {
            let uri = c.take_while(|b| {
                !is_lws(b) && !matches!(b, b';' | b',' | b'?' | b'<' | b'>' | b'"')
            });
            if c.peek() == Some(b'?') {
                return Err(Bad::NeedsBrackets);
            }
            uri
        } else {
            return Err(Bad::DisplayName);
        };
        if uri.is_empty() || uri.iter().any(|&b| is_lws(b)) {
            return Err(Bad::UriChar);
        }
        let (params, defect) = params_far(c);
        let it = Self {
            display,
            uri,
            params,
        };
        defect.map_or(Ok(it), Err)
    }

    /// The `tag` parameter.
    #[must_use]
    pub fn tag(&self) -> Option<&'a [u8]> {
        self.params.get(b"tag").flatten()
    }

    /// The URI in its parts.
    ///
    /// # Errors
    /// As [`Uri::parse`].
    pub fn parse_uri(&self) -> Result<Uri<'a>, Bad> {
        Uri::parse(self.uri)
    }
}

/// One value of a comma-separated list, with its place in the header's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// The value.
    pub item: T,
    /// Where it begins in the header's value.
    pub from: usize,
    /// Where it ends, the comma excluded.
    pub to: usize,
}

/// The values of a Route, Record-Route or Contact header, in order; stops after the first that cannot be read.
pub fn name_addrs<'a>(
    value: &'a [u8],
) -> impl Iterator<Item = Result<Listed<NameAddr<'a>>, Bad>> + use<'a> {
    list(value, NameAddr::read)
}

fn list<'a, T>(
    value: &'a [u8],
    read: impl Fn(&mut Cursor<'a>) -> Result<T, Bad>,
) -> impl Iterator<Item = Result<Listed<T>, Bad>> {
    let mut c = Cursor::new(value);
    let mut done = false;
    core::iter::from_fn(move || {
        if done {
            return None;
        }
        c.skip_lws();
        let from = c.at();
        let out = read(&mut c).and_then(|item| {
            let to = c.at();
            c.skip_lws();
            if c.is_end() {
                done = true;
            } else if !c.eat(b',') {
                return Err(Bad::Trailing);
            }
            Ok(Listed { item, from, to })
        });
        done |= out.is_err();
        Some(out)
    })
}

/// One Via value (RFC 3261 section 20.42).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via<'a> {
    /// Whether the protocol is `SIP/2.0`. Others are read too, because a request of another version is answered 505,
    /// and because the Via of a far hop is nobody else's business.
    pub version_ok: bool,
    /// `UDP`, `TCP`, ... as written.
    pub transport: &'a [u8],
    /// The sent-by.
    pub sent_by: Host<'a>,
    /// branch, received, rport ...
    pub params: Params<'a>,
}

impl<'a> Via<'a> {
    fn read(c: &mut Cursor<'a>) -> Result<Self, Bad> {
        let (via, defect) = Self::read_far(c)?;
        defect.map_or(Ok(via), Err)
    }

    /// Reads as far as can be read: the parameters up to the first bad one, which is returned beside them.
    fn read_far(c: &mut Cursor<'a>) -> Result<(Self, Option<Bad>), Bad> {
        let mut part = |last: bool| {
            c.skip_lws();
            let t = c.take_while(is_token);
            let before = c.at();
            c.skip_lws();
            // White space must follow the transport, and a slash the other two.
            let ok = if last { c.at() > before } else { c.eat(b'/') };
            if t.is_empty() || !ok {
                Err(Bad::Via)
            } else {
                Ok(t)
            }
        };
        let (name, version, transport) = (part(false)?, part(false)?, part(true)?);
        let (sent_by, used) = Host::parse(c.rest())?;
        c.seek(c.at() + used);
        let (params, defect) = params_far(c);
        let via = Self {
            version_ok: name.eq_ignore_ascii_case(b"SIP") && version == b"2.0",
            transport,
            sent_by,
            params,
        };
        Ok((via, defect))
    }

    /// The branch parameter.
    #[must_use]
    pub fn branch(&self) -> Option<&'a [u8]> {
        self.params.get(b"branch").flatten()
    }

    /// Whether `rport` is there, with or without a value (RFC 3581).
    #[must_use]
    pub fn wants_rport(&self) -> bool {
        self.params.get(b"rport").is_some()
    }
}

/// The values of a Via header, topmost first; stops after the first that cannot be read.
pub fn vias<'a>(value: &'a [u8]) -> impl Iterator<Item = Result<Listed<Via<'a>>, Bad>> + use<'a> {
    list(value, Via::read)
}

/// The value of CSeq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// Below 2^31 (RFC 3261 section 8.1.1.5).
    pub number: u32,
    /// What the token means to a proxy.
    pub method: Method,
    /// The method as written.
    pub token: &'a [u8],
}

impl<'a> CSeq<'a> {
    /// Reads the value.
    ///
    /// # Errors
    /// When the number is 2^31 or more, or the method is missing.
    pub fn parse(value: &'a [u8]) -> Result<Self, Bad> {
        let mut c = Cursor::new(value);
        let n = number(c.take_while(|b| b.is_ascii_digit())).ok_or(Bad::Number)?;
        let n = u32::try_from(n)
            .ok()
            .filter(|n| *n < 1 << 31)
            .ok_or(Bad::Number)?;
        let before = c.at();
        c.skip_lws();
        let token = c.take_while(is_token);
        if token.is_empty() || c.at() - token.len() == before {
            return Err(Bad::Method);
        }
        if !c.is_end() {
            return Err(Bad::Trailing);
        }
        Ok(Self {
            number: n,
            method: Method::of(token),
            token,
        })
    }
}

/// Session-Expires (RFC 4028 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionExpires {
    /// The interval in seconds.
    pub seconds: u32,
    /// Who refreshes, if it says.
    pub refresher: Option<Refresher>,
}

/// Who sends the refresh of a session timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresher {
    /// The side that sent the request.
    Uac,
    /// The side that answered it.
    Uas,
}

impl SessionExpires {
    /// Reads the value.
    ///
    /// # Errors
    /// When it does not begin with a number that fits 32 bits, or a parameter is malformed.
    pub fn parse(value: &[u8]) -> Result<Self, Bad> {
        let mut c = Cursor::new(value);
        let seconds = seconds(c.take_while(|b| b.is_ascii_digit()))?;
        let params = Params::new(c.rest());
        if let Some(Err(e)) = params.iter().find(Result::is_err) {
            return Err(e);
        }
        let refresher = match params.get(b"refresher").flatten() {
            Some(v) if v.eq_ignore_ascii_case(b"uac") => Some(Refresher::Uac),
            Some(v) if v.eq_ignore_ascii_case(b"uas") => Some(Refresher::Uas),
            _ => None,
        };
        Ok(Self { seconds, refresher })
    }
}

/// Checks a Call-ID: some bytes, none of them white space or a control character.
///
/// # Errors
/// [`Bad::CallId`] when it is not so.
pub fn parse_call_id(value: &[u8]) -> Result<&[u8], Bad> {
    if value.is_empty() || value.iter().any(|&c| c <= b' ' || c == 0x7f) {
        Err(Bad::CallId)
    } else {
        Ok(value)
    }
}

/// Delta-seconds that fit 32 bits.
///
/// # Errors
/// [`Bad::Number`] when they do not.
pub fn seconds(value: &[u8]) -> Result<u32, Bad> {
    number(value)
        .and_then(|n| u32::try_from(n).ok())
        .ok_or(Bad::Number)
}

/// The typed values that a proxy asks a message for.
impl<'a> Message<'a> {
    /// The topmost Via.
    ///
    /// # Errors
    /// When it is missing or malformed.
    pub fn top_via(&self) -> Result<Via<'a>, Bad> {
        let value = self.value(Name::Via).ok_or(Bad::Missing)?;
        vias(value).next().ok_or(Bad::Missing)?.map(|l| l.item)
    }

    /// As much of the topmost Via as an answer needs: bad parameters are left out, and so is all that follows them.
    #[must_use]
    pub fn answer_via(&self) -> Option<Via<'a>> {
        let mut c = Cursor::new(self.value(Name::Via)?);
        Via::read_far(&mut c).ok().map(|(via, _)| via)
    }

    fn single(&self, name: Name) -> Result<&'a [u8], Bad> {
        let mut all = self.all(name);
        let value = all.next().ok_or(Bad::Missing)?.value;
        if all.next().is_some() {
            Err(Bad::Twice)
        } else {
            Ok(value)
        }
    }

    /// The CSeq.
    ///
    /// # Errors
    /// When it is missing, doubled or malformed.
    pub fn cseq(&self) -> Result<CSeq<'a>, Bad> {
        CSeq::parse(self.single(Name::CSeq)?)
    }

    /// The From.
    ///
    /// # Errors
    /// When it is missing, doubled or malformed.
    pub fn from(&self) -> Result<NameAddr<'a>, Bad> {
        NameAddr::parse(self.single(Name::From)?)
    }

    /// The To.
    ///
    /// # Errors
    /// When it is missing, doubled or malformed.
    pub fn to(&self) -> Result<NameAddr<'a>, Bad> {
        NameAddr::parse(self.single(Name::To)?)
    }

    /// The Call-ID.
    ///
    /// # Errors
    /// When it is missing, empty or doubled.
    pub fn call_id(&self) -> Result<&'a [u8], Bad> {
        let id = self.single(Name::CallId)?;
        parse_call_id(id)
    }

    /// Max-Forwards, if there is one.
    ///
    /// # Errors
    /// When it is doubled, or not a number from 0 to 255 (RFC 3261 section 20.22).
    pub fn max_forwards(&self) -> Result<Option<u8>, Bad> {
        match self.single(Name::MaxForwards) {
            Err(Bad::Missing) => Ok(None),
            Err(e) => Err(e),
            Ok(v) => number(v)
                .and_then(|n| u8::try_from(n).ok())
                .map(Some)
                .ok_or(Bad::Number),
        }
    }

    /// The first Contact that is not `*`.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn contact(&self) -> Result<Option<NameAddr<'a>>, Bad> {
        match self.value(Name::Contact) {
            None | Some(b"*") => Ok(None),
            Some(v) => name_addrs(v).next().transpose().map(|l| l.map(|l| l.item)),
        }
    }

    /// Whether an option tag stands in a Supported, Require or Proxy-Require header.
    #[must_use]
    pub fn has_option(&self, name: Name, tag: &[u8]) -> bool {
        self.all(name).any(|h| {
            h.value
                .split(|&c| c == b',')
                .any(|t| trim(t).eq_ignore_ascii_case(tag))
        })
    }
}

#[cfg(test)]
mod tests;
