//! Request heads (RFC 9112 sections 2 and 3).

use memchr::memchr;

use crate::Bad;
use crate::chars::{is_target, is_token, members, number, skip};
use crate::field::{Field, Fields, Name, Span, drop_named};
use crate::framing::{Framing, declared};
use crate::head::{BARE_CR, BARE_LF, Limits, Parsed, Reading, Stop, Version, in_whole};
use crate::target::{is_authority, target};

/// Methods that a gateway treats in a way of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Patch,
    Other,
}

impl Method {
    fn of(token: &[u8]) -> Self {
        match token {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"OPTIONS" => Self::Options,
            b"PATCH" => Self::Patch,
            _ => Self::Other,
        }
    }

    /// Whether a request may be repeated without harm (RFC 9110 section 9.2.1).
    #[must_use]
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options)
    }

    /// Whether a request may be sent once more when the first answer was lost (RFC 9110 section 9.2.2).
    #[must_use]
    pub fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Self::Put | Self::Delete)
    }
}

/// The forms of a target (RFC 9112 section 3.2). The authority form belongs to CONNECT, which is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A path, perhaps with a query.
    #[default]
    Origin,
    /// A whole URL.
    Absolute,
    /// `*`, of OPTIONS.
    Asterisk,
}

/// Connection options that one head may have: 431 beyond it. Real ones have one or two.
pub const CONNECTION_OPTIONS_MAX: usize = 16;

/// What a request head says, with the places of its parts in the bytes that it was read from.
///
/// It owns no bytes: [`Head::on`] puts it and them together.
#[derive(Clone, Debug, Default)]
pub struct Head {
    reading: Reading,
    len: usize,
    method: Method,
    method_text: Span,
    target: Span,
    form: Form,
    path: Span,
    host: Span,
    version: Version,
    framing: Framing,
    keep_alive: bool,
    expect_continue: bool,
    websocket: bool,
    wants_trailers: bool,
    max_forwards: Option<u64>,
}

impl Head {
    /// Reads the head at the beginning of `bytes`.
    ///
    /// # Errors
    /// What is wrong with it, and the status to answer with: 400, 414, 417, 431, 501 or 505. The connection has to be
    /// closed after the answer, because nobody knows where the next request begins.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Parsed<Self>, Bad> {
        let mut head = Self::default();
        Ok(match head.read(bytes, limits)? {
            Some(len) => Parsed::Complete { head, len },
            None => Parsed::Partial,
        })
    }

    /// Reads on: `bytes` are those of the last call and those that came since. Returns the length of the head, or `None`
    /// when more has to come. A head that comes byte by byte is looked through once, and memory is used again.
    ///
    /// Call [`Head::clear`] before the next head; bytes must not be moved or changed in between.
    ///
    /// # Errors
    /// As [`Head::parse`].
    pub fn read(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, Bad> {
        if !self.reading.may_go_on(bytes) {
            self.reading.wait(bytes, limits)?;
            return Ok(None);
        }
        match self.read_lines(bytes, limits) {
            Ok(len) => {
                self.len = len;
                self.conclude(bytes)?;
                Ok(Some(len))
            }
            Err(Stop::Bad(bad)) => Err(bad),
            Err(Stop::Partial) => {
                self.reading.wait(bytes, limits)?;
                Ok(None)
            }
        }
    }

    /// Forgets all but its memory.
    pub fn clear(&mut self) {
        let mut reading = core::mem::take(&mut self.reading);
        reading.clear();
        *self = Self {
            reading,
            ..Self::default()
        };
    }

    /// The head together with the bytes that it was read from.
    #[must_use]
    pub fn on<'a>(&'a self, bytes: &'a [u8]) -> Request<'a> {
        Request { head: self, bytes }
    }

    /// Bytes of the head, its empty line included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no head has been read to its end.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// The form of the target.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// The version that the client speaks.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// How long the body is; never [`Framing::UntilClose`].
    #[must_use]
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Whether the client keeps the connection open after the response.
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the client waits for 100 before it sends the body. Answer before that if the request is refused.
    #[must_use]
    pub fn expect_continue(&self) -> bool {
        self.expect_continue
    }

    /// Whether the client asks to go on as a WebSocket. All other upgrades are passed over, as RFC 9110 section 7.8
    /// allows: `h2c` would carry requests past whoever only reads HTTP/1.
    #[must_use]
    pub fn websocket(&self) -> bool {
        self.websocket
    }

    /// Whether the client reads trailers (`TE: trailers`).
    #[must_use]
    pub fn wants_trailers(&self) -> bool {
        self.wants_trailers
    }

    /// How often an OPTIONS request may be sent on (RFC 9110 section 7.6.2); at 0 it is answered here.
    #[must_use]
    pub fn max_forwards(&self) -> Option<u64> {
        self.max_forwards
    }

    fn read_lines(&mut self, bytes: &[u8], limits: &Limits) -> Result<usize, Stop> {
        if !self.reading.started {
            self.start_line(bytes, limits)?;
        }
        self.reading.fields(bytes, limits)
    }

    fn start_line(&mut self, bytes: &[u8], limits: &Limits) -> Result<(), Stop> {
        let reading = &mut self.reading;
        // One empty line before a request is passed over (RFC 9112 section 2.2).
        if bytes.starts_with(b"\r\n") {
            reading.line = 2;
        }
        let at = reading.line;
        let max = limits.head_bytes_max.min(Limits::CEILING);
        // What can be no request is refused at its first byte: it may never send a line's end.
        match bytes.get(at) {
            None => return Err(Stop::Partial),
            Some(0x16) => return Err(Bad::new(400, "TLS where plain HTTP is spoken").into()),
            Some(b'\r') => {
                let bad = Bad::new(400, "no request line").into();
                return Err(in_whole(bad, bytes, at, max));
            }
            Some(b'\n') => return Err(BARE_LF.into()),
            Some(c) if !is_token(*c) => return Err(Bad::new(400, "not an HTTP request").into()),
            Some(_) => {}
        }
        let target_max = limits.target_bytes_max;
        let line =
            request_line(bytes, at, target_max).map_err(|stop| in_whole(stop, bytes, at, max));
        match line {
            Ok(line) if line.end <= max => {
                self.method = Method::of(line.method.of(bytes));
                self.method_text = line.method;
                self.target = line.target;
                self.version = line.version;
                self.reading.line = line.end;
                self.reading.started = true;
                Ok(())
            }
            // A line that fills the whole head is a target that does.
            Ok(_) => Err(Bad::new(414, "the target is too long").into()),
            Err(Stop::Bad(Bad { status: 431, .. })) => {
                Err(Bad::new(414, "the request line is too long").into())
            }
            Err(stop) => Err(stop),
        }
    }

    /// What the fields say all together.
    fn conclude(&mut self, bytes: &[u8]) -> Result<(), Bad> {
        let method = self.method_text.of(bytes);
        if matches!(method, b"CONNECT" | b"TRACE") {
            return Err(Bad::new(501, "CONNECT and TRACE are not served"));
        }
        let declared = declared(&self.reading.fields, bytes, self.version)?;
        self.framing = match (declared.chunked, declared.length) {
            (true, _) => Framing::Chunked,
            (false, Some(n)) => Framing::Length(n),
            (false, None) => Framing::None,
        };
        self.host(bytes)?;
        self.connection(bytes)
    }

    fn host(&mut self, bytes: &[u8]) -> Result<(), Bad> {
        let text = self.target.of(bytes);
        let target = target(text, self.method)?;
        self.form = target.form;
        let (from, to) = self.target.ends();
        self.path = Span::new(from + target.path_at, to);
        let mut hosts = self.reading.fields.iter().filter(|f| f.name == Name::Host);
        match (hosts.next(), hosts.next()) {
            (Some(_), Some(_)) => return Err(Bad::new(400, "more than one Host")),
            (None, _) if self.version == Version::Http11 => return Err(Bad::new(400, "no Host")),
            (None, _) => {}
            (Some(f), None) => self.host = f.value,
        }
        let host = self.host.of(bytes);
        if self.host != Span::default() && !is_authority(host) {
            return Err(Bad::new(400, "the Host is not a host"));
        }
        if let Some(authority) = target.authority {
            if self.host != Span::default() && !authority.is_same_as(host) {
                return Err(Bad::new(400, "the target names another host than Host"));
            }
            let at = from + target.path_at;
            self.host = Span::new(at - authority.text.len(), at);
        }
        Ok(())
    }

    fn connection(&mut self, bytes: &[u8]) -> Result<(), Bad> {
        let (mut close, mut keep, mut upgrade, mut options) = (false, false, false, 0);
        let (mut websocket, mut upgrades) = (false, 0);
        for i in 0..self.reading.fields.len() {
            let Some(field) = self.reading.fields.get(i).copied() else {
                break;
            };
            let value = field.value.of(bytes);
            match field.name {
                Name::Connection => {
                    for option in members(value) {
                        options += 1;
                        if options > CONNECTION_OPTIONS_MAX {
                            return Err(Bad::new(431, "too many connection options"));
                        }
                        match option {
                            o if o.eq_ignore_ascii_case(b"close") => close = true,
                            o if o.eq_ignore_ascii_case(b"keep-alive") => keep = true,
                            o if o.eq_ignore_ascii_case(b"upgrade") => upgrade = true,
                            o => drop_named(&mut self.reading.fields, bytes, o),
                        }
                    }
                }
                Name::Expect if value.eq_ignore_ascii_case(b"100-continue") => {
                    self.expect_continue = true;
                }
                Name::Expect => {
                    return Err(Bad::new(417, "an expectation other than 100-continue"));
                }
                Name::Te => {
                    self.wants_trailers |=
                        members(value).any(|m| m.eq_ignore_ascii_case(b"trailers"));
                }
                Name::Upgrade => {
                    upgrades += 1;
                    websocket = value.eq_ignore_ascii_case(b"websocket");
                }
                Name::MaxForwards if self.method == Method::Options => {
                    let n =
                        number(value).ok_or(Bad::new(400, "the Max-Forwards is not a number"))?;
                    if self.max_forwards.replace(n).is_some() {
                        return Err(Bad::new(400, "more than one Max-Forwards"));
                    }
                }
                _ => {}
            }
        }
        let modern = self.version == Version::Http11;
        self.keep_alive = !close && (modern || keep);
        self.expect_continue &= modern && !self.framing.is_empty();
        self.websocket = websocket
            && upgrades == 1
            && upgrade
            && modern
            && self.method == Method::Get
            && self.framing.is_empty();
        Ok(())
    }
}

/// A request head and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What was read.
    pub head: &'a Head,
    bytes: &'a [u8],
}

impl<'a> Request<'a> {
    /// The method as it came.
    #[must_use]
    pub fn method(self) -> &'a [u8] {
        self.head.method_text.of(self.bytes)
    }

    /// The target as it came.
    #[must_use]
    pub fn target(self) -> &'a [u8] {
        self.head.target.of(self.bytes)
    }

    /// The target in the form that an origin server is sent: a path with its query, or `*`.
    #[must_use]
    pub fn origin_form(self) -> OriginForm<'a> {
        let path = self.head.path.of(self.bytes);
        let root = match path.first() {
            Some(b'/' | b'*') => "",
            // OPTIONS for a whole server (RFC 9112 section 3.2.4).
            None if self.head.method == Method::Options => "*",
            _ => "/",
        };
        OriginForm { root, path }
    }

    /// The path: `/` when an absolute form has none.
    #[must_use]
    pub fn path(self) -> &'a [u8] {
        let OriginForm { root, path } = self.origin_form();
        let end = memchr(b'?', path).unwrap_or(path.len());
        match path.get(..end) {
            Some(path) if !path.is_empty() => path,
            _ => root.as_bytes(),
        }
    }

    /// What follows the question mark.
    #[must_use]
    pub fn query(self) -> Option<&'a [u8]> {
        let path = self.head.path.of(self.bytes);
        let at = memchr(b'?', path)?;
        path.get(at + 1..)
    }

    /// Host and port that the request is for; empty if an HTTP/1.0 client names none.
    #[must_use]
    pub fn host(self) -> &'a [u8] {
        self.head.host.of(self.bytes)
    }

    /// The header fields.
    #[must_use]
    pub fn fields(self) -> Fields<'a> {
        Fields {
            fields: &self.head.reading.fields,
            bytes: self.bytes,
        }
    }

    pub(crate) fn raw_fields(self) -> (&'a [Field], &'a [u8]) {
        (&self.head.reading.fields, self.bytes)
    }
}

/// A target as it is sent to an origin server: `root` and then `path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginForm<'a> {
    /// What an absolute form without a path lacks.
    pub root: &'static str,
    /// Path and query as they came.
    pub path: &'a [u8],
}

/// Whether `bytes` begin with HTTP/2's preface (RFC 9113 section 3.4); `None` when more has to come.
#[must_use]
pub fn is_h2_preface(bytes: &[u8]) -> Option<bool> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    if bytes.starts_with(PREFACE) {
        return Some(true);
    }
    if PREFACE.starts_with(bytes) {
        None
    } else {
        Some(false)
    }
}

struct StartLine {
    method: Span,
    target: Span,
    version: Version,
    end: usize,
}

/// The longest method that is read; the registry's longest has 17 letters.
const METHOD_BYTES_MAX: usize = 32;

fn request_line(bytes: &[u8], at: usize, target_max: usize) -> Result<StartLine, Stop> {
    const MALFORMED: Bad = Bad::new(
        400,
        "not a request line: method, target, version, one space between them",
    );
    let method_end = skip(bytes, at, is_token);
    match bytes.get(method_end) {
        None => return Err(Stop::Partial),
        Some(b' ') if method_end - at <= METHOD_BYTES_MAX => {}
        Some(b' ') => return Err(Bad::new(501, "the method is too long").into()),
        Some(b'\n') => return Err(BARE_LF.into()),
        Some(_) => return Err(MALFORMED.into()),
    }
    let target_at = method_end + 1;
    let target_end = skip(bytes, target_at, is_target);
    match bytes.get(target_end) {
        None => return Err(Stop::Partial),
        Some(b' ') if target_end > target_at => {}
        Some(b' ') => return Err(MALFORMED.into()),
        Some(b'\n') => return Err(BARE_LF.into()),
        // HTTP/0.9 had no version.
        Some(b'\r') => return Err(MALFORMED.into()),
        Some(b'#') => return Err(Bad::new(400, "a fragment in the target").into()),
        Some(_) => return Err(Bad::new(400, "a control character in the request line").into()),
    }
    if target_end - target_at > target_max {
        return Err(Bad::new(414, "the target is too long").into());
    }
    let version_at = target_end + 1;
    let Some(version) = bytes.get(version_at..version_at + 8) else {
        return Err(
            if bytes.get(version_at..).is_some_and(|b| b.contains(&b'\n')) {
                MALFORMED.into()
            } else {
                Stop::Partial
            },
        );
    };
    let version = Version::of(version).map_err(|known| {
        if known {
            Bad::new(505, "a version other than HTTP/1")
        } else {
            MALFORMED
        }
    })?;
    let end = version_at + 8;
    match bytes.get(end..end + 2) {
        Some(b"\r\n") => {}
        Some([b'\n', _]) => return Err(BARE_LF.into()),
        Some([b'\r', _]) => return Err(BARE_CR.into()),
        Some(_) => return Err(MALFORMED.into()),
        None if bytes.get(end) == Some(&b'\n') => return Err(BARE_LF.into()),
        None => return Err(Stop::Partial),
    }
    Ok(StartLine {
        method: Span::new(at, method_end),
        target: Span::new(target_at, target_end),
        version,
        end: end + 2,
    })
}
