//! From a file to blocks: which kind of file it is, limits, and what is said of it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::{Blocks, Family, mrt, table::Table, text};

/// The most prefixes with their origins: six times the IPv4 and IPv6 tables of 2026 together; 200 MB while they are read.
pub const PREFIXES_MAX: usize = 1 << 23;
/// The most bytes of a file once unpacked. A full table of a large collector has some 4 GB; an archive that unpacks without end
/// stops here, and needs no more memory than any other.
pub const BYTES_MAX: u64 = 1 << 34;

/// What the counts of a CSV are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Blocks.
    #[default]
    Blocks,
    /// IPv4 addresses, of which 256 or a part of them are a block.
    Addresses,
}

/// Blocks as read, and what was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What was read.
    pub blocks: Blocks,
    /// Lines or table entries that name a prefix, or an AS of a CSV.
    pub prefixes: u64,
    /// Of these, longer than a block: not routed between ASes.
    pub longer: u64,
    /// Of these, so short that they are default routes.
    pub shorter: u64,
    /// Of these, of the other family.
    pub other_family: u64,
    /// Of these, without an origin: an empty AS path, or AS 0.
    pub without_origin: u64,
    /// Prefixes with several origins, of which one was taken.
    pub several_origins: u64,
    /// Records of a routing table that could not be read, and were passed over.
    pub bad_records: u64,
    /// Where the file breaks off, if it does. What came before is in `blocks`.
    pub cut: Option<Cut>,
}

/// Where a file breaks off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The last line or record that was read, as in `record 17`.
    pub after: String,
    /// Why it goes no further.
    pub reason: String,
}

/// Why a file gives no blocks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlocksError {
    /// It cannot be opened, or nothing of it can be read.
    #[error("{file}: cannot be read")]
    Input {
        /// The file's name as given.
        file: String,
        /// What the system or the archive says.
        source: io::Error,
    },
    /// A line that is none of its kind.
    #[error("{file}:{line}: {found}; expected {expected}")]
    Line {
        /// The file's name as given.
        file: String,
        /// From 1.
        line: u64,
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// A routing table that is none.
    #[error("{file}: record {record} at byte {offset} (unpacked): {problem}")]
    Record {
        /// The file's name as given.
        file: String,
        /// From 1.
        record: u64,
        /// Where it begins.
        offset: u64,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
    /// A file that breaks off before anything that can be used.
    #[error("{file}: breaks off after {after}: {reason}; nothing before it can be used")]
    Cut {
        /// The file's name as given.
        file: String,
        /// The last line or record that was read.
        after: String,
        /// Why it goes no further.
        reason: String,
    },
    /// More than [`PREFIXES_MAX`].
    #[error(
        "{file}: {at}: more than {PREFIXES_MAX} prefixes; expected a table of the Internet, which has about a million"
    )]
    TooMany {
        /// The file's name as given.
        file: String,
        /// Line or record.
        at: String,
    },
    /// Nothing in it that can be used.
    #[error("{file}: no {family} prefix with an origin among its {prefixes} entries; {remedy}")]
    Empty {
        /// The file's name as given.
        file: String,
        /// `IPv4` or `IPv6`.
        family: &'static str,
        /// Lines or records.
        prefixes: u64,
        /// What to do.
        remedy: &'static str,
    },
}

impl Blocks {
    /// Reads a file; its kind is seen by its contents.
    ///
    /// # Errors
    ///
    /// As [`Blocks::read`], and where it cannot be opened.
    pub fn open(path: &Path, family: Family, unit: Unit) -> Result<Reading, BlocksError> {
        let file = path.display().to_string();
        match File::open(path) {
            Ok(input) => Self::read(&file, input, family, unit),
            Err(source) => Err(BlocksError::Input { file, source }),
        }
    }

    /// Reads `prefix TAB asn` (pyasn), `prefix TAB length TAB asn` (CAIDA's prefix-to-AS), `asn,count`, or a routing table in MRT
    /// (RFC 6396: `TABLE_DUMP` and `TABLE_DUMP_V2`), plain, gzip or bzip2. `file` is its name, for errors; `unit` is what a CSV
    /// without a header counts.
    ///
    /// A file that breaks off gives what came before, and says so in [`Reading::cut`].
    ///
    /// # Errors
    ///
    /// With file and line, or record and byte, where it is none of these, or has nothing of this family.
    pub fn read(
        file: &str,
        input: impl Read,
        family: Family,
        unit: Unit,
    ) -> Result<Reading, BlocksError> {
        let mut packed = BufReader::with_capacity(1 << 16, input);
        let start = packed.fill_buf().map_err(|source| BlocksError::Input {
            file: file.to_owned(),
            source,
        })?;
        if start.starts_with(&[0x1f, 0x8b]) {
            unpacked(
                file,
                flate2::bufread::MultiGzDecoder::new(packed),
                family,
                unit,
            )
        } else if start.starts_with(b"BZh") {
            unpacked(
                file,
                bzip2::bufread::MultiBzDecoder::new(packed),
                family,
                unit,
            )
        } else {
            unpacked(file, packed, family, unit)
        }
    }
}

fn unpacked(
    file: &str,
    input: impl Read,
    family: Family,
    unit: Unit,
) -> Result<Reading, BlocksError> {
    let mut input = BufReader::with_capacity(1 << 16, input.take(BYTES_MAX));
    let mut start = [0; 6];
    let known = peek(&mut input, &mut start).map_err(|source| BlocksError::Input {
        file: file.to_owned(),
        source,
    })?;
    let mut table = Table::new(family);
    if mrt::begins(&start[..known]) {
        let read = mrt::read(file, &mut input, &mut table)?;
        return finish(file, family, table, read.bad_records, read.cut);
    }
    match text::read(file, &mut input, unit, &mut table)? {
        text::Read::Prefixes(cut) => finish(file, family, table, 0, cut),
        text::Read::Counts { counts, lines, cut } => {
            let blocks = Blocks::of_counts(family, counts);
            if blocks.counts().is_empty() {
                return Err(empty(file, family, lines));
            }
            Ok(Reading {
                prefixes: lines,
                cut,
                ..reading(blocks)
            })
        }
    }
}

/// The first bytes, left to be read.
fn peek(input: &mut impl BufRead, start: &mut [u8; 6]) -> io::Result<usize> {
    let buffer = input.fill_buf()?;
    let known = buffer.len().min(start.len());
    start[..known].copy_from_slice(&buffer[..known]);
    Ok(known)
}

fn reading(blocks: Blocks) -> Reading {
    Reading {
        blocks,
        prefixes: 0,
        longer: 0,
        shorter: 0,
        other_family: 0,
        without_origin: 0,
        several_origins: 0,
        bad_records: 0,
        cut: None,
    }
}

fn finish(
    file: &str,
    family: Family,
    table: Table,
    bad_records: u64,
    cut: Option<Cut>,
) -> Result<Reading, BlocksError> {
    if table.is_empty() {
        return match cut {
            Some(Cut { after, reason }) => Err(BlocksError::Cut {
                file: file.to_owned(),
                after,
                reason,
            }),
            None => Err(empty(file, family, table.prefixes)),
        };
    }
    let counted = Reading {
        prefixes: table.prefixes,
        longer: table.longer,
        shorter: table.shorter,
        other_family: table.other_family,
        without_origin: table.without_origin,
        bad_records,
        cut,
        ..reading(Blocks::of_counts(family, []))
    };
    let (blocks, several_origins) = table.finish();
    Ok(Reading {
        blocks,
        several_origins,
        ..counted
    })
}

fn empty(file: &str, family: Family, prefixes: u64) -> BlocksError {
    BlocksError::Empty {
        file: file.to_owned(),
        family: match family {
            Family::Ipv4 => "IPv4",
            Family::Ipv6 => "IPv6",
        },
        prefixes,
        remedy: "give a prefix-to-AS file, a routing table (MRT), or lines `asn,count`",
    }
}
