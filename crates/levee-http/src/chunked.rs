//! Chunked bodies (RFC 9112 section 7.1): their content is found where it lies in the buffers that it came in.

use alloc::vec::Vec;
use core::ops::Range;

use crate::Bad;
use crate::chars::is_text;
use crate::field::Name;
use crate::head::{Line, Stop, field_line};

/// Limits of what a chunked body may have beside its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of chunk extensions in a whole body. Nobody uses them; without a limit they are work for nothing.
    pub extension_bytes_max: u64,
    /// Bytes of the trailer section.
    pub trailer_bytes_max: usize,
    /// Fields of the trailer section.
    pub trailers_max: usize,
}

impl Default for Limits {
    /// 4 KiB of extensions, 8 KiB and 32 fields of trailers: some dozens of times what gRPC and signing services send.
    fn default() -> Self {
        Self {
            extension_bytes_max: 4 << 10,
            trailer_bytes_max: 8 << 10,
            trailers_max: 32,
        }
    }
}

/// What a look at a buffer found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// These bytes of the buffer are content. Go on with those behind them.
    Data(Range<usize>),
    /// All of the buffer is used: more has to come.
    More,
    /// The body has ended with the first `used` bytes of the buffer; [`Decoder::trailers`] has its trailers.
    End {
        /// How many bytes belong to the body.
        used: usize,
    },
}

/// Digits of a chunk's size; 16 fill 64 bits.
const SIZE_DIGITS_MAX: u8 = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// The size, of which so many digits have come.
    #[default]
    Size,
    /// A chunk extension.
    Extension,
    /// The line feed after the size.
    SizeLf,
    /// Content.
    Data,
    /// The line end after content.
    DataCr,
    DataLf,
    /// The trailer section.
    Trailer,
    End,
}

/// Finds the content of one chunked body in successive buffers.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    at: At,
    digits: u8,
    /// Of the chunk at hand.
    left: u64,
    extension_bytes: u64,
    limits: Limits,
    /// The line of the trailer section at hand.
    line: Vec<u8>,
    /// The trailer fields that are sent on.
    trailers: Vec<u8>,
    trailer_bytes: usize,
    trailer_fields: usize,
}

impl Decoder {
    /// A decoder at the beginning of a body.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Looks at the next bytes of the body.
    ///
    /// Call it again with what lies behind a [`Step::Data`], and with the next buffer after [`Step::More`]. After
    /// [`Step::End`] it uses nothing.
    ///
    /// # Errors
    /// 400 for a chunk that is not as RFC 9112 writes it, 413 for a size above 64 bits, 431 for too much beside the
    /// content. The body is lost then, and so is the connection.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Step, Bad> {
        let mut i = 0;
        while let Some(c) = bytes.get(i).copied() {
            match self.at {
                At::Data => {
                    let here = (bytes.len() - i) as u64;
                    let n = here.min(self.left);
                    self.left -= n;
                    if self.left == 0 {
                        self.at = At::DataCr;
                    }
                    return Ok(Step::Data(i..i + n as usize));
                }
                At::Size => self.size(c)?,
                At::Extension => self.extension(c)?,
                At::SizeLf => {
                    expect(c, b'\n', "a chunk size without its line end")?;
                    self.digits = 0;
                    self.at = if self.left == 0 {
                        At::Trailer
                    } else {
                        At::Data
                    };
                }
                At::DataCr => {
                    expect(c, b'\r', "a chunk longer than its size")?;
                    self.at = At::DataLf;
                }
                At::DataLf => {
                    expect(c, b'\n', "a chunk without its line end")?;
                    self.at = At::Size;
                }
                At::Trailer => self.trailer(c)?,
                At::End => return Ok(Step::End { used: i }),
            }
            i += 1;
        }
        Ok(if self.at == At::End {
            Step::End { used: i }
        } else {
            Step::More
        })
    }

    /// Whether the body has ended.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.at == At::End
    }

    /// The trailer fields as whole lines, those left out that may not stand there (RFC 9110 section 6.5.1).
    #[must_use]
    pub fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    fn size(&mut self, c: u8) -> Result<(), Bad> {
        let digit = match c {
            b'0'..=b'9' => c - b'0',
            b'a'..=b'f' => c - b'a' + 10,
            b'A'..=b'F' => c - b'A' + 10,
            _ if self.digits == 0 => return Err(Bad::new(400, "a chunk without a size")),
            b'\r' => {
                self.at = At::SizeLf;
                return Ok(());
            }
            b';' => {
                self.at = At::Extension;
                return self.extended();
            }
            b'\n' => return Err(Bad::new(400, "a chunk size ends with a bare line feed")),
            _ => return Err(Bad::new(400, "a chunk size that is not hexadecimal digits")),
        };
        self.digits += 1;
        if self.digits > SIZE_DIGITS_MAX {
            return Err(Bad::new(413, "a chunk size of more than 16 digits"));
        }
        self.left = (self.left << 4) | u64::from(digit);
        Ok(())
    }

    fn extension(&mut self, c: u8) -> Result<(), Bad> {
        match c {
            b'\r' => {
                self.at = At::SizeLf;
                Ok(())
            }
            b'\n' => Err(Bad::new(
                400,
                "a chunk extension ends with a bare line feed",
            )),
            c if is_text(c) => self.extended(),
            _ => Err(Bad::new(400, "a control character in a chunk extension")),
        }
    }

    fn extended(&mut self) -> Result<(), Bad> {
        self.extension_bytes += 1;
        if self.extension_bytes > self.limits.extension_bytes_max {
            return Err(Bad::new(431, "too many chunk extensions"));
        }
        Ok(())
    }

    fn trailer(&mut self, c: u8) -> Result<(), Bad> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > self.limits.trailer_bytes_max {
            return Err(Bad::new(431, "the trailers are too long"));
        }
        self.line.push(c);
        if c != b'\n' {
            return Ok(());
        }
        match field_line(&self.line, 0) {
            Ok(Line::Empty { .. }) => self.at = At::End,
            Ok(Line::Field { field, .. }) => {
                self.trailer_fields += 1;
                if self.trailer_fields > self.limits.trailers_max {
                    return Err(Bad::new(431, "too many trailer fields"));
                }
                if may_trail(field.name_of(&self.line)) {
                    self.trailers.extend_from_slice(&self.line);
                }
            }
            Err(Stop::Bad(bad)) => return Err(bad),
            Err(Stop::Partial) => return Err(Bad::new(400, "a trailer line ends too early")),
        }
        self.line.clear();
        Ok(())
    }
}

fn expect(c: u8, want: u8, reason: &'static str) -> Result<(), Bad> {
    if c == want {
        Ok(())
    } else {
        Err(Bad::new(400, reason))
    }
}

/// Whether a field may stand in a trailer section: nothing that frames, routes, authenticates or says how to read
/// the content (RFC 9110 section 6.5.1).
#[must_use]
pub fn may_trail(name: &[u8]) -> bool {
    const REFUSED: &[&str] = &[
        "age",
        "authorization",
        "cache-control",
        "content-encoding",
        "content-range",
        "content-type",
        "cookie",
        "expires",
        "location",
        "pragma",
        "range",
        "retry-after",
        "set-cookie",
        "vary",
        "www-authenticate",
    ];
    Name::of(name) == Name::Other
        && !REFUSED
            .iter()
            .any(|n| name.eq_ignore_ascii_case(n.as_bytes()))
}

/// The size line of a chunk of `len` bytes; CR LF follows the chunk.
#[must_use]
pub fn size_line(len: usize) -> SizeLine {
    let mut line = SizeLine {
        text: [0; SizeLine::LEN_MAX],
        from: SizeLine::LEN_MAX as u8 - 2,
    };
    line.text[SizeLine::LEN_MAX - 2] = b'\r';
    line.text[SizeLine::LEN_MAX - 1] = b'\n';
    let mut n = len;
    loop {
        line.from -= 1;
        line.text[usize::from(line.from)] = b"0123456789abcdef"[n & 15];
        n >>= 4;
        if n == 0 {
            return line;
        }
    }
}

/// The last chunk, after which trailers and an empty line come.
pub const LAST: &[u8] = b"0\r\n";

/// A size line.
#[derive(Clone, Copy, Debug)]
pub struct SizeLine {
    text: [u8; Self::LEN_MAX],
    from: u8,
}

impl SizeLine {
    /// 16 digits and the line end.
    const LEN_MAX: usize = 18;

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.text.get(usize::from(self.from)..).unwrap_or_default()
    }
}
