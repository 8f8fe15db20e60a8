//! Response heads (RFC 9112 sections 4 and 6.3), as they come from the server behind us.

use crate::Bad;
use crate::chars::{members, skip_text};
use crate::field::{Field, FieldRef, Fields, Name, Span, drop_named};
use crate::framing::{Framing, declared};
use crate::head::{BARE_CR, BARE_LF, Limits, Parsed, Reading, Stop, Version, in_whole};
use crate::request::{CONNECTION_OPTIONS_MAX, Method};

/// What a response head says, with the places of its parts in the bytes that it was read from.
#[derive(Clone, Debug, Default)]
pub struct Head {
    reading: Reading,
    len: usize,
    status: u16,
    version: Version,
    reason: Span,
    framing: Framing,
    length: Option<u64>,
    keep_alive: bool,
    websocket: bool,
}

impl Head {
    /// Reads the head at the beginning of `bytes`, the answer to a request of this method.
    ///
    /// # Errors
    /// What is wrong with it; the status to tell the client is always 502, and the connection to the server is closed.
    pub fn parse(bytes: &[u8], method: Method, limits: &Limits) -> Result<Parsed<Self>, Bad> {
        let mut head = Self::default();
        Ok(match head.read(bytes, method, limits)? {
            Some(len) => Parsed::Complete { head, len },
            None => Parsed::Partial,
        })
    }

    /// Reads on, as [`request::Head::read`](crate::request::Head::read) does.
    ///
    /// # Errors
    /// As [`Head::parse`].
    pub fn read(
        &mut self,
        bytes: &[u8],
        method: Method,
        limits: &Limits,
    ) -> Result<Option<usize>, Bad> {
        let waits = |reading: &mut Reading| reading.wait(bytes, limits).map_err(Bad::of_server);
        if !self.reading.may_go_on(bytes) {
            waits(&mut self.reading)?;
            return Ok(None);
        }
        match self.read_lines(bytes, limits) {
            Ok(len) => {
                self.len = len;
                self.conclude(bytes, method).map_err(Bad::of_server)?;
                Ok(Some(len))
            }
            Err(Stop::Bad(bad)) => Err(bad.of_server()),
            Err(Stop::Partial) => {
                waits(&mut self.reading)?;
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
    pub fn on<'a>(&'a self, bytes: &'a [u8]) -> Response<'a> {
        Response { head: self, bytes }
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

    /// The status code, 100 to 999.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether another head follows: 1xx, but not 101, which is the last.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        matches!(self.status, 100..=199) && self.status != 101
    }

    /// The version that the server speaks.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// How long the body is.
    #[must_use]
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// What Content-Length says, also where no body follows (HEAD, 304).
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        self.length
    }

    /// Whether the connection can be used again after the body.
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the connection is a WebSocket from here on. Only the answer to a request that asked for one may be this.
    #[must_use]
    pub fn websocket(&self) -> bool {
        self.websocket
    }

    fn read_lines(&mut self, bytes: &[u8], limits: &Limits) -> Result<usize, Stop> {
        if !self.reading.started {
            let max = limits.head_bytes_max.min(Limits::CEILING);
            let line = status_line(bytes).map_err(|stop| in_whole(stop, bytes, 0, max))?;
            self.version = line.version;
            self.status = line.status;
            self.reason = line.reason;
            self.reading.line = line.end;
            self.reading.started = true;
        }
        self.reading.fields(bytes, limits)
    }

    fn conclude(&mut self, bytes: &[u8], method: Method) -> Result<(), Bad> {
        let declared = declared(&self.reading.fields, bytes, self.version)?;
        self.length = declared.length;
        let bodiless = method == Method::Head || matches!(self.status, 100..=199 | 204 | 304);
        self.framing = match (declared.chunked, declared.length) {
            _ if bodiless => Framing::None,
            (true, _) => Framing::Chunked,
            (false, Some(n)) => Framing::Length(n),
            (false, None) => Framing::UntilClose,
        };
        self.connection(bytes)
    }

    fn connection(&mut self, bytes: &[u8]) -> Result<(), Bad> {
        let (mut close, mut keep, mut upgrade, mut options) = (false, false, false, 0);
        let mut websocket = None;
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
                            return Err(Bad::new(502, "too many connection options"));
                        }
                        match option {
                            o if o.eq_ignore_ascii_case(b"close") => close = true,
                            o if o.eq_ignore_ascii_case(b"keep-alive") => keep = true,
                            o if o.eq_ignore_ascii_case(b"upgrade") => upgrade = true,
                            o => drop_named(&mut self.reading.fields, bytes, o),
                        }
                    }
                }
                Name::Upgrade => {
                    websocket =
                        Some(websocket.is_none() && value.eq_ignore_ascii_case(b"websocket"));
                }
                _ => {}
            }
        }
        let modern = self.version == Version::Http11;
        self.keep_alive =
            !close && (modern || keep) && self.framing != Framing::UntilClose && self.status != 101;
        if self.status == 101 {
            self.websocket = modern && upgrade && websocket == Some(true);
            if !self.websocket {
                return Err(Bad::new(502, "101 to something other than a WebSocket"));
            }
        }
        Ok(())
    }
}

/// A response head and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// What was read.
    pub head: &'a Head,
    bytes: &'a [u8],
}

impl<'a> Response<'a> {
    /// The reason phrase; often empty.
    #[must_use]
    pub fn reason(self) -> &'a [u8] {
        self.head.reason.of(self.bytes)
    }

    /// The header fields.
    #[must_use]
    pub fn fields(self) -> Fields<'a> {
        Fields {
            fields: &self.head.reading.fields,
            bytes: self.bytes,
        }
    }

    /// The fields that concern more than one connection: those of [`edit::response`](crate::edit::response), for writers
    /// of other protocols. Content-Length is not among them.
    pub fn sent_on(self) -> impl Iterator<Item = FieldRef<'a>> {
        let kept = |f: &&Field| !f.dropped && !f.name.is_hop_by_hop() && f.name != Name::Trailer;
        let bytes = self.bytes;
        let fields = self.head.reading.fields.iter().filter(kept);
        fields.map(move |f| FieldRef {
            name: f.name,
            text: f.name_of(bytes),
            value: f.value.of(bytes),
        })
    }

    pub(crate) fn raw_fields(self) -> (&'a [Field], &'a [u8]) {
        (&self.head.reading.fields, self.bytes)
    }
}

struct StatusLine {
    version: Version,
    status: u16,
    reason: Span,
    end: usize,
}

fn status_line(bytes: &[u8]) -> Result<StatusLine, Stop> {
    const MALFORMED: Bad = Bad::new(502, "not a status line: version, three digits, reason");
    // `HTTP/1.1 200` and what follows; the space before an empty reason is often left out.
    if bytes.iter().take(12).any(|c| *c == b'\n') {
        return Err(MALFORMED.into());
    }
    let (start, rest) = bytes.split_at_checked(12).ok_or(Stop::Partial)?;
    let (version, code) = start.split_at_checked(8).ok_or(Stop::Partial)?;
    let version = Version::of(version).map_err(|known| {
        if known {
            Bad::new(502, "a version other than HTTP/1")
        } else {
            MALFORMED
        }
    })?;
    let [b' ', h @ b'1'..=b'9', t @ b'0'..=b'9', o @ b'0'..=b'9'] = code else {
        return Err(MALFORMED.into());
    };
    let digit = |c: &u8| u16::from(c - b'0');
    let reason_at = match rest.first() {
        None => return Err(Stop::Partial),
        Some(b' ') => 13,
        Some(b'\r') => 12,
        Some(b'\n') => return Err(BARE_LF.into()),
        Some(_) => return Err(MALFORMED.into()),
    };
    let cr = skip_text(bytes, reason_at);
    match (bytes.get(cr), bytes.get(cr + 1)) {
        (Some(b'\r'), Some(b'\n')) => Ok(StatusLine {
            version,
            status: digit(h) * 100 + digit(t) * 10 + digit(o),
            reason: Span::new(reason_at, cr),
            end: cr + 2,
        }),
        (None, _) | (Some(b'\r'), None) => Err(Stop::Partial),
        (Some(b'\r'), _) => Err(BARE_CR.into()),
        (Some(b'\n'), _) => Err(BARE_LF.into()),
        _ => Err(Bad::new(502, "a control character in the reason").into()),
    }
}
