//! The lines of one SIP message, found without copying.
//!
//! [`Scanner::scan`] makes one pass over the bytes and notes where each header begins and ends and which one it is.
//! Values are read later, by [`crate::header`], and only those that somebody asks for: a proxy passes most of a message
//! on unread.
//!
//! The scanner is strict where a lax one would let two servers read one message in two ways: a line ends with CR LF
//! (RFC 3261 section 7), a bare CR or LF is a defect, and so is a line that is not a header. A defect does not hide the
//! rest of the message, so that it can still be answered with 400.

use alloc::vec::Vec;
use core::fmt;

use crate::chars::{is_lws, is_token, number, trim};

/// Header fields that somebody here reads; all others are [`Name::Other`] and pass through as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is the header field of that name")]
pub enum Name {
    Via,
    From,
    To,
    CallId,
    CSeq,
    Contact,
    MaxForwards,
    Route,
    RecordRoute,
    ContentLength,
    ContentType,
    Require,
    ProxyRequire,
    Supported,
    Expires,
    SessionExpires,
    MinSe,
    RetryAfter,
    Reason,
    Timestamp,
    ResourcePriority,
    PAssertedIdentity,
    Authorization,
    ProxyAuthorization,
    ReferTo,
    Other,
}

impl Name {
    /// The name's usual spelling; empty for [`Name::Other`].
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Via => "Via",
            Self::From => "From",
            Self::To => "To",
            Self::CallId => "Call-ID",
            Self::CSeq => "CSeq",
            Self::Contact => "Contact",
            Self::MaxForwards => "Max-Forwards",
            Self::Route => "Route",
            Self::RecordRoute => "Record-Route",
            Self::ContentLength => "Content-Length",
            Self::ContentType => "Content-Type",
            Self::Require => "Require",
            Self::ProxyRequire => "Proxy-Require",
            Self::Supported => "Supported",
            Self::Expires => "Expires",
            Self::SessionExpires => "Session-Expires",
            Self::MinSe => "Min-SE",
            Self::RetryAfter => "Retry-After",
            Self::Reason => "Reason",
            Self::Timestamp => "Timestamp",
            Self::ResourcePriority => "Resource-Priority",
            Self::PAssertedIdentity => "P-Asserted-Identity",
            Self::Authorization => "Authorization",
            Self::ProxyAuthorization => "Proxy-Authorization",
            Self::ReferTo => "Refer-To",
            Self::Other => "",
        }
    }

    /// The header of this name or compact form (RFC 3261 section 7.3.3), in any case.
    fn of(name: &[u8]) -> Self {
        if let [c] = name {
            return match c.to_ascii_lowercase() {
                b'v' => Self::Via,
                b'f' => Self::From,
                b't' => Self::To,
                b'i' => Self::CallId,
                b'm' => Self::Contact,
                b'l' => Self::ContentLength,
                b'c' => Self::ContentType,
                b'k' => Self::Supported,
                b'x' => Self::SessionExpires,
                b'r' => Self::ReferTo,
                _ => Self::Other,
            };
        }
        let candidates: &[Self] = match name.len() {
            2 => &[Self::To],
            3 => &[Self::Via],
            4 => &[Self::From, Self::CSeq],
            5 => &[Self::Route],
            6 => &[Self::Reason, Self::MinSe],
            7 => &[Self::CallId, Self::Contact, Self::Require, Self::Expires],
            8 => &[Self::ReferTo],
            9 => &[Self::Supported, Self::Timestamp],
            11 => &[Self::RetryAfter],
            12 => &[Self::MaxForwards, Self::RecordRoute, Self::ContentType],
            13 => &[Self::ProxyRequire, Self::Authorization],
            14 => &[Self::ContentLength],
            15 => &[Self::SessionExpires],
            17 => &[Self::ResourcePriority],
            19 => &[Self::PAssertedIdentity, Self::ProxyAuthorization],
            _ => &[],
        };
        candidates
            .iter()
            .copied()
            .find(|n| n.as_str().as_bytes().eq_ignore_ascii_case(name))
            .unwrap_or(Self::Other)
    }
}

/// Request methods that a proxy treats in a way of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Method {
    Invite,
    Ack,
    Bye,
    Cancel,
    Options,
    Register,
    Update,
    Prack,
    Other,
}

impl Method {
    /// Methods are case-sensitive (RFC 3261 section 7.1).
    #[must_use]
    pub fn of(token: &[u8]) -> Self {
        match token {
            b"INVITE" => Self::Invite,
            b"ACK" => Self::Ack,
            b"BYE" => Self::Bye,
            b"CANCEL" => Self::Cancel,
            b"OPTIONS" => Self::Options,
            b"REGISTER" => Self::Register,
            b"UPDATE" => Self::Update,
            b"PRACK" => Self::Prack,
            _ => Self::Other,
        }
    }
}

/// The first line of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartLine<'a> {
    /// `METHOD request-uri SIP/2.0`
    Request {
        /// What the token means to a proxy.
        method: Method,
        /// The method as written.
        token: &'a [u8],
        /// The Request-URI as written.
        uri: &'a [u8],
        /// Whether the version is `SIP/2.0`; if not, the answer is 505.
        version_ok: bool,
    },
    /// `SIP/2.0 code reason`
    Response {
        /// 100 to 699.
        code: u16,
        /// The reason phrase, which may be empty.
        reason: &'a [u8],
    },
}

/// What is wrong with a message, with the offset of the first byte of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Bytes from the start of the message.
    pub at: usize,
    /// What was found there.
    pub kind: DefectKind,
}

/// The kinds of [`Defect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DefectKind {
    /// The first line is neither a request line nor a status line.
    StartLine,
    /// The request line holds more spaces than it should (RFC 4475 sections 3.1.2.8 to 3.1.2.10).
    StartLineSpaces,
    /// A status code outside 100 to 699.
    StatusCode,
    /// No empty line ends the headers.
    Truncated,
    /// CR without LF, or LF without CR.
    BareLineEnd,
    /// A header line without a name and a colon.
    HeaderLine,
    /// More headers than the limit.
    TooManyHeaders,
    /// More bytes than the limit.
    TooLarge,
    /// Content-Length is not a number, is given twice with two values, or promises more bytes than came.
    ContentLength,
}

impl fmt::Display for DefectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StartLine => "the first line is neither a request nor a status line",
            Self::StartLineSpaces => "extra space in the request line",
            Self::StatusCode => "status code outside 100-699",
            Self::Truncated => "no empty line after the headers",
            Self::BareLineEnd => "CR or LF alone",
            Self::HeaderLine => "a header line without name and colon",
            Self::TooManyHeaders => "too many headers",
            Self::TooLarge => "message too large",
            Self::ContentLength => "bad Content-Length",
        })
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.kind, self.at)
    }
}

impl core::error::Error for Defect {}

#[derive(Clone, Copy, Debug)]
struct Span {
    name: Name,
    line: u32,
    name_end: u32,
    value: u32,
    value_end: u32,
    line_end: u32,
}

/// One header line of a message.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// Which one it is.
    pub name: Name,
    /// The name as written.
    pub token: &'a [u8],
    /// The value without white space around it; folds inside are kept.
    pub value: &'a [u8],
    /// The whole line or folded lines, with the final CR LF.
    pub line: &'a [u8],
    /// Where `line` begins in the message.
    pub at: usize,
    /// Where `value` begins in the message.
    pub value_at: usize,
}

/// Limits on one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in all. A UDP datagram holds at most 65,507.
    pub message_bytes_max: usize,
    /// Header lines.
    pub headers_max: usize,
}

impl Default for Limits {
    /// 64 KiB, and 128 headers: the longest message of RFC 4475 has 3.5 kB and 34 headers.
    fn default() -> Self {
        Self {
            message_bytes_max: 65_535,
            headers_max: 128,
        }
    }
}

/// Finds the lines of messages; keeps its index between calls, so that a scan allocates nothing.
#[derive(Debug, Default)]
pub struct Scanner {
    limits: Limits,
    spans: Vec<Span>,
}

impl Scanner {
    /// A scanner that refuses what passes `limits`.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            spans: Vec::with_capacity(limits.headers_max.min(64)),
        }
    }

    /// Finds the lines of the one message in `bytes` (a datagram, or what [`crate::stream`] cut).
    ///
    /// # Errors
    /// When the first line cannot be read or `bytes` is larger than the limit: nothing can be answered then. Any other
    /// fault is kept in [`Message::defect`], and the message can be answered.
    pub fn scan<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Message<'a>, Defect> {
        if bytes.len() > self.limits.message_bytes_max {
            return Err(Defect {
                at: self.limits.message_bytes_max,
                kind: DefectKind::TooLarge,
            });
        }
        let first_end = memchr::memchr(b'\n', bytes).ok_or(Defect {
            at: bytes.len(),
            kind: DefectKind::Truncated,
        })?;
        let mut defect = None;
        let first = bytes.get(..first_end).unwrap_or_default();
        let first = first.strip_suffix(b"\r").unwrap_or_else(|| {
            note(&mut defect, first_end, DefectKind::BareLineEnd);
            first
        });
        let start = start_line(first, &mut defect)?;
        self.spans.clear();
        let body_at = index_headers(
            bytes,
            first_end + 1,
            self.limits.headers_max,
            &mut self.spans,
            &mut defect,
        );
        let after = bytes.get(body_at..).unwrap_or_default();
        let mut message = Message {
            bytes,
            start,
            start_end: first_end + 1,
            spans: &self.spans,
            body_at,
            body: after,
            defect,
        };
        match message.content_length() {
            Ok(Some(n)) if n <= after.len() => message.body = after.get(..n).unwrap_or_default(),
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => note(&mut message.defect, body_at, DefectKind::ContentLength),
        }
        Ok(message)
    }
}

fn note(defect: &mut Option<Defect>, at: usize, kind: DefectKind) {
    defect.get_or_insert(Defect { at, kind });
}

fn start_line<'a>(line: &'a [u8], defect: &mut Option<Defect>) -> Result<StartLine<'a>, Defect> {
    const BAD: Defect = Defect {
        at: 0,
        kind: DefectKind::StartLine,
    };
    if let Some((version, rest)) = line.split_at_checked(8)
        && version.eq_ignore_ascii_case(b"SIP/2.0 ")
    {
        let split = memchr::memchr(b' ', rest).unwrap_or(rest.len());
        let (code, reason) = rest.split_at(split);
        let code = number(code)
            .filter(|c| split == 3 && (100..700).contains(c))
            .ok_or(Defect {
                at: 8,
                kind: DefectKind::StatusCode,
            })?;
        return Ok(StartLine::Response {
            code: u16::try_from(code).unwrap_or(u16::MAX),
            reason: reason.strip_prefix(b" ").unwrap_or(reason),
        });
    }
    let token_end = memchr::memchr(b' ', line).ok_or(BAD)?;
    let version_at = memchr::memrchr(b' ', trim(line)).ok_or(BAD)?;
    let token = line.get(..token_end).unwrap_or_default();
    if token.is_empty() || !token.iter().copied().all(is_token) {
        return Err(BAD);
    }
    let version = line.get(version_at + 1..).unwrap_or_default();
    let uri = line.get(token_end + 1..version_at).unwrap_or_default();
    if version.last().copied().is_some_and(is_lws) || uri.iter().copied().any(is_lws) {
        note(defect, token_end, DefectKind::StartLineSpaces);
    }
    let version = trim(version);
    if !version
        .get(..4)
        .is_some_and(|v| v.eq_ignore_ascii_case(b"SIP/"))
    {
        return Err(BAD);
    }
    Ok(StartLine::Request {
        method: Method::of(token),
        token,
        uri: trim(uri),
        version_ok: version.eq_ignore_ascii_case(b"SIP/2.0"),
    })
}

/// Notes each header line from `at` on, and returns where the body begins.
fn index_headers(
    bytes: &[u8],
    mut at: usize,
    headers_max: usize,
    spans: &mut Vec<Span>,
    defect: &mut Option<Defect>,
) -> usize {
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.starts_with(b"\r\n") {
            return at + 2;
        }
        if rest.is_empty() {
            note(defect, at, DefectKind::Truncated);
            return at;
        }
        let Some(end) = logical_line_end(bytes, at, defect) else {
            note(defect, at, DefectKind::Truncated);
            return bytes.len();
        };
        if end == at + 1 {
            // A lone LF where the empty line should be: taken as the end, as its sender meant it, but refused.
            return end;
        }
        if spans.len() >= headers_max {
            note(defect, at, DefectKind::TooManyHeaders);
        } else if let Some(span) = header_span(bytes, at, end) {
            spans.push(span);
        } else {
            note(defect, at, DefectKind::HeaderLine);
        }
        at = end;
    }
}

/// Where the line that begins at `from` ends, its folds (RFC 3261 section 7.3.1) and line end included.
fn logical_line_end(bytes: &[u8], from: usize, defect: &mut Option<Defect>) -> Option<usize> {
    let mut at = from;
    loop {
        let end = at + memchr::memchr2(b'\r', b'\n', bytes.get(at..)?)?;
        let lf = if bytes.get(end..end + 2) == Some(b"\r\n") {
            end + 1
        } else {
            let lf = end + memchr::memchr(b'\n', bytes.get(end..)?)?;
            note(defect, at, DefectKind::BareLineEnd);
            lf
        };
        at = lf + 1;
        if !matches!(bytes.get(at), Some(b' ' | b'\t')) {
            return Some(at);
        }
    }
}

fn header_span(bytes: &[u8], at: usize, end: usize) -> Option<Span> {
    let line = bytes.get(at..end)?;
    let colon = memchr::memchr(b':', line)?;
    let name = line.get(..colon)?;
    let name_len = name.iter().rposition(|c| !matches!(c, b' ' | b'\t'))? + 1;
    let name = name.get(..name_len)?;
    if !name.iter().copied().all(is_token) {
        return None;
    }
    let after = line.get(colon + 1..)?;
    let lead = after
        .iter()
        .position(|&c| !is_lws(c))
        .unwrap_or(after.len());
    let value = trim(after);
    let value_at = if value.is_empty() {
        at + colon + 1
    } else {
        at + colon + 1 + lead
    };
    let small = |n: usize| u32::try_from(n).ok();
    Some(Span {
        name: Name::of(name),
        line: small(at)?,
        name_end: small(at + name_len)?,
        value: small(value_at)?,
        value_end: small(value_at + value.len())?,
        line_end: small(end)?,
    })
}

/// A message whose lines were found. Borrows the bytes; copies nothing.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    start: StartLine<'a>,
    start_end: usize,
    spans: &'a [Span],
    body_at: usize,
    body: &'a [u8],
    defect: Option<Defect>,
}

impl<'a> Message<'a> {
    /// The bytes that were scanned.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The first line.
    #[must_use]
    pub fn start(&self) -> StartLine<'a> {
        self.start
    }

    /// Where the headers begin.
    #[must_use]
    pub fn headers_at(&self) -> usize {
        self.start_end
    }

    /// Where the body begins.
    #[must_use]
    pub fn body_at(&self) -> usize {
        self.body_at
    }

    /// The body: as many bytes as Content-Length says, or all that follow the headers.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The first fault that the scan met. Such a message must not be passed on.
    #[must_use]
    pub fn defect(&self) -> Option<Defect> {
        self.defect
    }

    /// The method of a request.
    #[must_use]
    pub fn method(&self) -> Option<Method> {
        match self.start {
            StartLine::Request { method, .. } => Some(method),
            StartLine::Response { .. } => None,
        }
    }

    /// The status code of a response.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self.start {
            StartLine::Response { code, .. } => Some(code),
            StartLine::Request { .. } => None,
        }
    }

    /// All headers in their order.
    pub fn headers(&self) -> impl Iterator<Item = Header<'a>> + Clone + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |s| header(bytes, s))
    }

    /// The headers of one name in their order.
    pub fn all(&self, name: Name) -> impl Iterator<Item = Header<'a>> + Clone + use<'a> {
        let bytes = self.bytes;
        self.spans
            .iter()
            .filter(move |s| s.name == name)
            .map(move |s| header(bytes, s))
    }

    /// The first header of one name.
    #[must_use]
    pub fn first(&self, name: Name) -> Option<Header<'a>> {
        self.spans
            .iter()
            .find(|s| s.name == name)
            .map(|s| header(self.bytes, s))
    }

    /// The value of the first header of one name.
    #[must_use]
    pub fn value(&self, name: Name) -> Option<&'a [u8]> {
        self.first(name).map(|h| h.value)
    }

    /// The first header with this name, for those that [`Name`] does not list.
    #[must_use]
    pub fn other(&self, name: &[u8]) -> Option<Header<'a>> {
        self.headers().find(|h| h.token.eq_ignore_ascii_case(name))
    }

    /// Content-Length, if there is one.
    ///
    /// # Errors
    /// When it is not a number, or stands twice with two values (RFC 4475 section 3.3.9).
    pub fn content_length(&self) -> Result<Option<usize>, Defect> {
        let mut found = None;
        for h in self.all(Name::ContentLength) {
            let bad = Defect {
                at: h.value_at,
                kind: DefectKind::ContentLength,
            };
            let n = number(h.value)
                .and_then(|n| usize::try_from(n).ok())
                .ok_or(bad)?;
            if found.is_some_and(|f| f != n) {
                return Err(bad);
            }
            found = Some(n);
        }
        Ok(found)
    }
}

fn header<'a>(bytes: &'a [u8], s: &Span) -> Header<'a> {
    let part = |from: u32, to: u32| bytes.get(from as usize..to as usize).unwrap_or_default();
    Header {
        name: s.name,
        token: part(s.line, s.name_end),
        value: part(s.value, s.value_end),
        line: part(s.line, s.line_end),
        at: s.line as usize,
        value_at: s.value as usize,
    }
}

#[cfg(test)]
mod tests;
