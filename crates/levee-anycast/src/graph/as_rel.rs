//! CAIDA's AS relationship files: serial-1 (`a|b|-1`, `a|b|0`) and serial-2 (`a|b|-1|bgp`), plain, gzip or bzip2.
//!
//! <https://publicdata.caida.org/datasets/as-relationships/README.txt>. Read line by line: a file of any size needs no more
//! memory than its links, and an archive that grows without end stops at [`BYTES_MAX`].

use std::io::{self, BufRead, BufReader, Read};

use levee_policy::reroute::Asn;

use super::{AsGraph, BuildError, Builder, Relationship};

/// The longest line, in bytes. The longest of CAIDA's are lists of ASes in the header, under 1 KiB.
pub const LINE_MAX: usize = 1 << 16;

/// The most bytes, unpacked. [`super::LINKS_MAX`] links of serial-2 have about 300 MB.
pub const BYTES_MAX: u64 = 1 << 30;

/// Why a file is no graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A line that is no link.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The file's name as given.
        file: String,
        /// From 1.
        line: u32,
        /// What was found and what was expected.
        problem: String,
    },
    /// A link that cannot be.
    #[error("{file}:{line}")]
    Link {
        /// The file's name as given.
        file: String,
        /// From 1.
        line: u32,
        /// Why.
        source: BuildError,
    },
    /// The links make no graph.
    #[error("{file}")]
    Graph {
        /// The file's name as given.
        file: String,
        /// Why.
        source: BuildError,
    },
    /// Reading or unpacking failed.
    #[error("{file}: cannot be read after line {line}")]
    Input {
        /// The file's name as given.
        file: String,
        /// The last line that was read.
        line: u32,
        /// What the system or the archive says.
        source: io::Error,
    },
}

impl AsGraph {
    /// Reads a file of AS relationships; whether it is packed is seen by its first bytes. `file` is its name, for errors.
    ///
    /// # Errors
    ///
    /// With file and line, where a line is no link, is longer than [`LINE_MAX`], or the file has more than [`BYTES_MAX`] bytes
    /// or [`super::LINKS_MAX`] links.
    pub fn read(file: &str, input: impl Read) -> Result<Self, ReadError> {
        let mut lines = Lines {
            file,
            line: 0,
            text: Vec::new(),
        };
        let mut packed = BufReader::new(input);
        let start = packed.fill_buf().map_err(|source| lines.input(source))?;
        let builder = if start.starts_with(&[0x1f, 0x8b]) {
            lines.read(flate2::bufread::MultiGzDecoder::new(packed))
        } else if start.starts_with(b"BZh") {
            lines.read(bzip2::bufread::MultiBzDecoder::new(packed))
        } else {
            lines.read(packed)
        }?;
        builder.build().map_err(|source| ReadError::Graph {
            file: file.to_owned(),
            source,
        })
    }
}

/// Where we are in a file.
struct Lines<'a> {
    file: &'a str,
    line: u32,
    text: Vec<u8>,
}

impl Lines<'_> {
    fn read(&mut self, input: impl Read) -> Result<Builder, ReadError> {
        let mut input = BufReader::with_capacity(1 << 16, input.take(BYTES_MAX));
        let mut builder = Builder::new();
        while self.next(&mut input)? {
            self.line(&mut builder)?;
        }
        if input.get_ref().limit() == 0 {
            return Err(self.problem(format!(
                "more than {BYTES_MAX} bytes; expected a file of AS relationships, which has some tens of megabytes"
            )));
        }
        Ok(builder)
    }

    /// The next line into `text`, without its end. False at the end of the file.
    fn next(&mut self, input: &mut impl BufRead) -> Result<bool, ReadError> {
        self.text.clear();
        let mut limited = input.by_ref().take(LINE_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.text);
        if read.map_err(|source| self.input(source))? == 0 {
            return Ok(false);
        }
        self.line = self.line.saturating_add(1);
        if self.text.len() > LINE_MAX {
            return Err(self.problem(format!(
                "a line longer than {LINE_MAX} bytes; expected `provider|customer|-1` or `peer|peer|0`"
            )));
        }
        let end = self.text.trim_ascii_end().len();
        self.text.truncate(end);
        Ok(true)
    }

    fn line(&self, builder: &mut Builder) -> Result<(), ReadError> {
        let line = self.text.as_slice();
        if line.is_empty() {
            return Ok(());
        }
        if let Some(comment) = line.strip_prefix(b"#") {
            header(comment, builder);
            return Ok(());
        }
        let mut fields = line.split(|byte| *byte == b'|');
        let mut field = || fields.next().unwrap_or_default();
        let (a, b, relationship) = (field(), field(), field());
        let a = self.asn("first", a)?;
        let b = self.asn("second", b)?;
        let relationship = match relationship {
            b"-1" => Relationship::Provider,
            b"0" => Relationship::Peer,
            other => {
                return Err(self.problem(format!(
                    "the third field is `{}`; expected -1 (the first AS is the provider of the second) or 0 (peers)",
                    shown(other)
                )));
            }
        };
        builder
            .link_at(a, b, relationship, self.line)
            .map_err(|source| ReadError::Link {
                file: self.file.to_owned(),
                line: self.line,
                source,
            })
    }

    fn asn(&self, which: &str, text: &[u8]) -> Result<Asn, ReadError> {
        let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        let number = core::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok());
        number.filter(|_| digits).map(Asn).ok_or_else(|| {
            self.problem(format!(
                "the {which} field is `{}`; expected the number of an AS, as in `701|64500|-1`",
                shown(text)
            ))
        })
    }

    fn problem(&self, problem: String) -> ReadError {
        ReadError::Line {
            file: self.file.to_owned(),
            line: self.line,
            problem,
        }
    }

    fn input(&self, source: io::Error) -> ReadError {
        ReadError::Input {
            file: self.file.to_owned(),
            line: self.line,
            source,
        }
    }
}

/// `# inferred clique: 174 209 ...`, or `# input clique: ...`. Other comments say nothing for us.
fn header(comment: &[u8], builder: &mut Builder) {
    let text = String::from_utf8_lossy(comment);
    if let Some((key, list)) = text.split_once(':')
        && matches!(key.trim(), "inferred clique" | "input clique")
    {
        let asns = list.split_ascii_whitespace();
        builder.tier1(asns.filter_map(|asn| asn.parse().ok()).map(Asn));
    }
}

/// The start of what was found, fit for a terminal.
fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 40;
    let start = &bytes[..bytes.len().min(SHOWN_MAX)];
    let dots = if start.len() < bytes.len() { "..." } else { "" };
    format!("{}{dots}", start.escape_ascii())
}
