//! Prefix-to-AS files and counts, line by line.

use std::io::BufRead;

use ipnet::IpNet;
use levee_policy::reroute::Asn;

use super::{
    read::{BlocksError, Cut, PREFIXES_MAX, Unit},
    table::Table,
};

/// The longest line, in bytes. The longest of CAIDA's have some ten origins, under 200 bytes.
pub const LINE_MAX: usize = 4096;

/// What a file of lines gave.
pub(super) enum Read {
    /// Prefixes, in the table.
    Prefixes(Option<Cut>),
    /// Counts in blocks.
    Counts {
        counts: Vec<(Asn, u64)>,
        lines: u64,
        cut: Option<Cut>,
    },
}

/// What the lines of a file are; the first of them tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `prefix asn`
    Pyasn,
    /// `address length asn`
    Caida,
    /// `asn,count`
    Counts(Unit),
}

impl Kind {
    const fn expected(self) -> &'static str {
        match self {
            Self::Pyasn => {
                "a prefix and its origin, as in `192.0.2.0/24 64500`, like the lines before"
            }
            Self::Caida => {
                "an address, a prefix length and origins, as in `192.0.2.0 24 64500` or `.. 64500_64501`, like the lines before"
            }
            Self::Counts(_) => "an AS and its count, as in `64500,256`, like the lines before",
        }
    }
}

pub(super) fn read(
    file: &str,
    input: &mut impl BufRead,
    unit: Unit,
    table: &mut Table,
) -> Result<Read, BlocksError> {
    let mut reader = Reader {
        file,
        line: 0,
        kind: None,
        unit,
        counts: Vec::new(),
    };
    let mut bytes = Vec::new();
    let cut = loop {
        bytes.clear();
        let limited = &mut std::io::Read::take(&mut *input, LINE_MAX as u64 + 1);
        match limited.read_until(b'\n', &mut bytes) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(source) if reader.line == 0 => {
                let file = file.to_owned();
                return Err(BlocksError::Input { file, source });
            }
            Err(error) => {
                break Some(Cut {
                    after: format!("line {}", reader.line),
                    reason: error.to_string(),
                });
            }
        }
        reader.line += 1;
        reader.line(&bytes, table)?;
    };
    Ok(match reader.kind {
        Some(Kind::Counts(_)) => Read::Counts {
            counts: reader.counts,
            lines: reader.line,
            cut,
        },
        _ => Read::Prefixes(cut),
    })
}

struct Reader<'f> {
    file: &'f str,
    line: u64,
    kind: Option<Kind>,
    unit: Unit,
    counts: Vec<(Asn, u64)>,
}

impl Reader<'_> {
    fn line(&mut self, bytes: &[u8], table: &mut Table) -> Result<(), BlocksError> {
        if bytes.len() > LINE_MAX {
            return Err(self.wrong("a line of more than 4,096 bytes", "lines of text"));
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Err(self.wrong(
                "bytes that are no text",
                "lines of text, or a routing table in MRT",
            ));
        };
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || text.starts_with([';', '#']) {
            return Ok(());
        }
        let kind = match self.kind {
            Some(kind) => kind,
            None => {
                let (kind, header) = self.kind_of(text)?;
                self.kind = Some(kind);
                if header {
                    return Ok(());
                }
                kind
            }
        };
        let read = match kind {
            Kind::Pyasn => self.prefix(text, table)?,
            Kind::Caida => self.caida(text, table)?,
            Kind::Counts(unit) => self.count(text, unit)?,
        };
        read.ok_or_else(|| self.wrong(&shown(text), kind.expected()))
    }

    /// What the first line tells of all, and whether it is a header.
    fn kind_of(&self, text: &str) -> Result<(Kind, bool), BlocksError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let kind = match *fields {
            [prefix, _] if prefix.contains('/') => Kind::Pyasn,
            [_, _, _] => Kind::Caida,
            [_] if text.contains(',') => match text.to_ascii_lowercase().as_str() {
                "asn,blocks" | "asn,count" => return Ok((Kind::Counts(Unit::Blocks), true)),
                "asn,addresses" => return Ok((Kind::Counts(Unit::Addresses), true)),
                _ => Kind::Counts(self.unit),
            },
            _ => {
                return Err(self.wrong(
                    &shown(text),
                    "`prefix asn` as in pyasn's files, `address length asn` as in CAIDA's, `asn,count`, or a routing table in MRT",
                ));
            }
        };
        Ok((kind, false))
    }

    fn prefix(&self, text: &str, table: &mut Table) -> Result<Option<()>, BlocksError> {
        let mut fields = text.split_whitespace();
        let (Some(prefix), Some(asn), None) = (fields.next(), fields.next(), fields.next()) else {
            return Ok(None);
        };
        let (Ok(prefix), Some(asn)) = (prefix.parse::<IpNet>(), asn_of(asn)) else {
            return Ok(None);
        };
        self.add(table, prefix, [asn]).map(Some)
    }

    fn caida(&self, text: &str, table: &mut Table) -> Result<Option<()>, BlocksError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [address, length, origins] = *fields else {
            return Ok(None);
        };
        let (Ok(address), Ok(length)) = (address.parse(), length.parse()) else {
            return Ok(None);
        };
        let Ok(prefix) = IpNet::new(address, length) else {
            return Ok(None);
        };
        // `_` parts origins that were each seen, the most frequent first; `,` those of a set, of which each may be.
        let origins: Option<Vec<Asn>> = origins.split(['_', ',']).map(asn_of).collect();
        match origins {
            Some(origins) => self.add(table, prefix, origins).map(Some),
            None => Ok(None),
        }
    }

    fn count(&mut self, text: &str, unit: Unit) -> Result<Option<()>, BlocksError> {
        let fields = text.split_once(',');
        let parsed = fields.and_then(|(asn, count)| {
            let count: u64 = count.trim().parse().ok()?;
            Some((asn_of(asn.trim())?, count))
        });
        let Some((asn, count)) = parsed else {
            return Ok(None);
        };
        if self.counts.len() == PREFIXES_MAX {
            return Err(self.too_many());
        }
        let blocks = match unit {
            Unit::Blocks => count,
            Unit::Addresses => count.div_ceil(256),
        };
        self.counts.push((asn, blocks));
        Ok(Some(()))
    }

    fn add(
        &self,
        table: &mut Table,
        prefix: IpNet,
        origins: impl IntoIterator<Item = Asn>,
    ) -> Result<(), BlocksError> {
        table.add(prefix, origins).map_err(|_| self.too_many())
    }

    fn too_many(&self) -> BlocksError {
        BlocksError::TooMany {
            file: self.file.to_owned(),
            at: format!("line {}", self.line),
        }
    }

    fn wrong(&self, found: &str, expected: &'static str) -> BlocksError {
        BlocksError::Line {
            file: self.file.to_owned(),
            line: self.line,
            found: found.to_owned(),
            expected,
        }
    }
}

/// A number without sign, with or without `AS`.
fn asn_of(text: &str) -> Option<Asn> {
    let digits = text.strip_prefix("AS").unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok().map(Asn)).flatten()
}

/// What stands there, not longer than a person reads.
fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let mut short: String = text.chars().take(SHOWN_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}
