//! What request and response heads have in common: limits, versions, and the lines of fields.

use alloc::vec::Vec;

use memchr::memchr;

use crate::Bad;
use crate::chars::{is_ows, is_token, skip, skip_text};
use crate::field::{Field, Name, Span};

/// Limits of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a whole head, its empty line included; more is 431. At most [`Limits::CEILING`].
    pub head_bytes_max: usize,
    /// Bytes of a request's target; more is 414.
    pub target_bytes_max: usize,
    /// Fields of a head; more is 431.
    pub headers_max: usize,
}

impl Limits {
    /// The most that any limit of bytes may be: spans are kept in 32 bits, and a head is kept whole in memory.
    pub const CEILING: usize = 1 << 20;
}

impl Default for Limits {
    /// 32 KiB a head and 8 KiB a target, as nginx has (4 buffers of 8 KiB), and 100 fields, as hyper and HAProxy have.
    fn default() -> Self {
        Self {
            head_bytes_max: 32 << 10,
            target_bytes_max: 8 << 10,
            headers_max: 100,
        }
    }
}

/// What became of the bytes that have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    /// A whole head, which is the first `len` bytes.
    Complete {
        /// What they say.
        head: T,
        /// How many bytes they are; the body begins there.
        len: usize,
    },
    /// The head goes on: more bytes have to come.
    Partial,
}

/// The versions that are spoken here; a later minor version of 1 is read as 1.1 (RFC 9110 section 2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
}

impl Version {
    /// The version that `text` names; `Err` says whether it names one at all.
    pub(crate) fn of(text: &[u8]) -> Result<Self, bool> {
        match text {
            b"HTTP/1.1" => Ok(Self::Http11),
            b"HTTP/1.0" => Ok(Self::Http10),
            [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
                if major.is_ascii_digit() && minor.is_ascii_digit() =>
            {
                if *major == b'1' {
                    Ok(Self::Http11)
                } else {
                    Err(true)
                }
            }
            _ => Err(false),
        }
    }
}

/// Why a line was not read.
pub(crate) enum Stop {
    /// Its end has not come.
    Partial,
    /// It is bad.
    Bad(Bad),
}

impl From<Bad> for Stop {
    fn from(bad: Bad) -> Self {
        Self::Bad(bad)
    }
}

/// How far a head has been read, and its fields so far.
///
/// What is bad in a line is told when the line is whole, so that the answer does not hang on how the bytes were cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) fields: Vec<Field>,
    /// Where the first line begins that has not been read.
    pub(crate) line: usize,
    /// No line feed stands between `line` and here: a head that comes byte by byte is looked through once.
    seen: usize,
    /// Whether the start line has been read.
    pub(crate) started: bool,
}

pub(crate) const TOO_LONG: Bad = Bad::new(431, "the head is too long");
pub(crate) const BARE_LF: Bad = Bad::new(400, "a line ends with a bare line feed");
pub(crate) const BARE_CR: Bad = Bad::new(400, "a carriage return without its line feed");

impl Reading {
    pub(crate) fn clear(&mut self) {
        self.fields.clear();
        self.line = 0;
        self.seen = 0;
        self.started = false;
    }

    /// Whether a whole line may be there; else how far one has looked is noted.
    pub(crate) fn may_go_on(&mut self, bytes: &[u8]) -> bool {
        if self.seen <= self.line {
            return true;
        }
        let news = bytes.get(self.seen..).unwrap_or_default();
        if memchr(b'\n', news).is_some() {
            return true;
        }
        self.seen = bytes.len();
        false
    }

    /// A line did not end within `bytes`: waits for more, or it is too long.
    pub(crate) fn wait(&mut self, bytes: &[u8], limits: &Limits) -> Result<(), Bad> {
        self.seen = bytes.len();
        if bytes.len() >= limits.head_bytes_max.min(Limits::CEILING) {
            return Err(TOO_LONG);
        }
        Ok(())
    }

    /// Reads field lines; the length of the head once its empty line is there.
    pub(crate) fn fields(&mut self, bytes: &[u8], limits: &Limits) -> Result<usize, Stop> {
        let max = limits.head_bytes_max.min(Limits::CEILING);
        loop {
            let read = field_line(bytes, self.line)
                .map_err(|stop| in_whole(stop, bytes, self.line, max))?;
            match read {
                Line::Empty { end } if end <= max => return Ok(end),
                Line::Field { field, end } if end <= max => {
                    if self.fields.len() >= limits.headers_max {
                        return Err(Bad::new(431, "too many header fields").into());
                    }
                    self.fields.push(field);
                    self.line = end;
                }
                _ => return Err(TOO_LONG.into()),
            }
        }
    }
}

/// What is wrong with the line at `at`, or that its end has not come, or comes too late.
#[cold]
pub(crate) fn in_whole(stop: Stop, bytes: &[u8], at: usize, max: usize) -> Stop {
    let within = bytes.get(at..bytes.len().min(max)).unwrap_or_default();
    match (memchr(b'\n', within), bytes.len() >= max) {
        (Some(_), _) => stop,
        (None, true) => TOO_LONG.into(),
        (None, false) => Stop::Partial,
    }
}

/// A line after the start line.
pub(crate) enum Line {
    /// The empty line at the end.
    Empty {
        /// Where the next line begins.
        end: usize,
    },
    /// A field.
    Field {
        /// Where it stands.
        field: Field,
        /// Where the next line begins.
        end: usize,
    },
}

/// Reads the field line at `at`.
pub(crate) fn field_line(bytes: &[u8], at: usize) -> Result<Line, Stop> {
    let colon = skip(bytes, at, is_token);
    if bytes.get(colon) != Some(&b':') || colon == at {
        return match bytes.get(at..at + 2) {
            Some(b"\r\n") => Ok(Line::Empty { end: at + 2 }),
            _ => Err(bad_name(bytes, at, colon)),
        };
    }
    let name = bytes.get(at..colon).unwrap_or_default();
    let value_at = skip(bytes, colon + 1, is_ows);
    let cr = skip_text(bytes, value_at);
    match bytes.get(cr..cr + 2) {
        Some(b"\r\n") => {}
        _ => return Err(bad_value(bytes, cr)),
    }
    let mut value_end = cr;
    while value_end > value_at && bytes.get(value_end - 1).copied().is_some_and(is_ows) {
        value_end -= 1;
    }
    let Ok(name_len) = u16::try_from(name.len()) else {
        return Err(Bad::new(431, "a field name is too long").into());
    };
    let field = Field {
        name: Name::of(name),
        dropped: false,
        name_len,
        at: at as u32,
        value: Span::new(value_at, value_end),
        end: (cr + 2) as u32,
    };
    Ok(Line::Field { field, end: cr + 2 })
}

#[cold]
fn bad_name(bytes: &[u8], at: usize, stop: usize) -> Stop {
    let reason = match bytes.get(stop) {
        None => return Stop::Partial,
        Some(b' ' | b'\t') if stop == at => "a folded line, or white space before the first field",
        Some(b' ' | b'\t') => "white space before the colon of a field",
        Some(b':') => "a field without a name",
        Some(b'\r') if stop == at => match bytes.get(stop + 1) {
            None => return Stop::Partial,
            Some(_) => return BARE_CR.into(),
        },
        Some(b'\n') if stop == at => return BARE_LF.into(),
        Some(b'\r' | b'\n') => "a line without a colon",
        Some(_) => "a character that no field name may have",
    };
    Bad::new(400, reason).into()
}

#[cold]
fn bad_value(bytes: &[u8], stop: usize) -> Stop {
    match (bytes.get(stop), bytes.get(stop + 1)) {
        (None, _) | (Some(b'\r'), None) => Stop::Partial,
        (Some(b'\r'), _) => BARE_CR.into(),
        (Some(b'\n'), _) => BARE_LF.into(),
        _ => Bad::new(400, "a control character in a field value").into(),
    }
}
