//! Lines of `time,source,site,count`.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::time::{TimeError, parse_time};

/// The longest line. A row is a time, an address, a name and a number; without a limit a file with no line end fills the memory.
const LINE_BYTES_MAX: u64 = 1024;
/// The longest name of a source: a full IPv6 prefix is 43.
const SOURCE_BYTES_MAX: usize = 128;
/// How much of a field an error shows.
const SHOWN_CHARS: usize = 40;

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// Too few or too many columns.
    #[error("{found} columns, expected {expected}")]
    Columns {
        /// In the line.
        found: usize,
        /// In the first line.
        expected: usize,
    },
    /// Of the first line, a column that is needed is not there.
    #[error(
        "the header has no column {0:?}: expected time, source, site and count, and if known asn and country"
    )]
    Header(&'static str),
    /// Not a time.
    #[error("time {0:?}: {1}")]
    Time(String, #[source] TimeError),
    /// No source, or a name that is too long.
    #[error(
        "source {0:?}: expected an address, a prefix or a name of at most {SOURCE_BYTES_MAX} bytes"
    )]
    Source(String),
    /// No site, or a name that no site can have.
    #[error("site {0:?}: expected a name of at most {SOURCE_BYTES_MAX} bytes")]
    Site(String),
    /// Not a count.
    #[error("count {0:?}: expected a whole number below 2^32")]
    Count(String),
    /// Not a number of an AS.
    #[error("asn {0:?}: expected a number such as 64500 or AS64500, or nothing")]
    Asn(String),
    /// Not a name of a country.
    #[error("country {0:?}: expected two letters, or nothing")]
    Country(String),
    /// No end in sight.
    #[error("longer than {LINE_BYTES_MAX} bytes: is this a file of lines?")]
    Long,
    /// Bytes that are no text.
    #[error("not UTF-8: is this a text file, or one packed by gzip?")]
    Text,
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row<'l> {
    pub(super) time_s: i64,
    pub(super) source: &'l str,
    pub(super) site: &'l str,
    pub(super) count: u32,
    pub(super) asn: Option<u32>,
    pub(super) country: Option<[u8; 2]>,
}

/// Where the columns are.
#[derive(Clone, Debug)]
struct Columns {
    time: usize,
    source: usize,
    site: usize,
    count: usize,
    asn: Option<usize>,
    country: Option<usize>,
    all: usize,
}

/// What ended the reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct End {
    /// Lines read.
    pub(super) lines: u64,
    /// Rows among them.
    pub(super) rows: u64,
    /// The last line, or the packed stream, ends in the middle: it is still being written, or was cut off.
    pub(super) cut_off: bool,
}

/// Why the reading ended early.
#[derive(Debug)]
pub(super) enum RowsError {
    Read(u64, io::Error),
    Line(u64, LineError),
}

/// Reads all rows, packed by gzip or not, and gives each to `take`. Lines that begin with `#` and empty ones are passed over.
pub(super) fn read_rows(
    input: impl Read,
    mut take: impl FnMut(Row<'_>) -> Result<(), LineError>,
) -> Result<End, RowsError> {
    let mut input = unpacked(input).map_err(|error| RowsError::Read(0, error))?;
    let mut columns: Option<Columns> = None;
    let mut line = Vec::new();
    let mut end = End::default();
    loop {
        line.clear();
        match input
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)
        {
            Ok(0) => return Ok(end),
            Ok(_) => {}
            // A collector that still writes has not ended its gzip stream.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && end.rows > 0 => {
                end.cut_off = true;
                return Ok(end);
            }
            Err(error) => return Err(RowsError::Read(end.lines, error)),
        }
        end.lines += 1;
        let whole = line.last() == Some(&b'\n');
        if !whole && line.len() as u64 == LINE_BYTES_MAX {
            return Err(RowsError::Line(end.lines, LineError::Long));
        }
        match one(&line, &mut columns, &mut take) {
            Ok(rows) => end.rows += rows,
            Err(_) if !whole && end.rows > 0 => end.cut_off = true,
            Err(error) => return Err(RowsError::Line(end.lines, error)),
        }
    }
}

fn unpacked<'r>(input: impl Read + 'r) -> io::Result<Box<dyn BufRead + 'r>> {
    let mut input = BufReader::new(input);
    Ok(if input.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        Box::new(BufReader::new(MultiGzDecoder::new(input)))
    } else {
        Box::new(input)
    })
}

/// How many rows the line has: 0 or 1.
fn one(
    line: &[u8],
    columns: &mut Option<Columns>,
    take: &mut impl FnMut(Row<'_>) -> Result<(), LineError>,
) -> Result<u64, LineError> {
    let text = std::str::from_utf8(line).map_err(|_| LineError::Text)?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(0);
    }
    let mut fields = [""; FIELDS_MAX];
    let count = split(text, &mut fields);
    let columns = match columns {
        Some(columns) => columns,
        None => {
            let (found, header) = Columns::of(&fields[..count.min(FIELDS_MAX)])?;
            let columns = columns.insert(found);
            if header {
                return Ok(0);
            }
            columns
        }
    };
    if count != columns.all {
        return Err(LineError::Columns {
            found: count,
            expected: columns.all,
        });
    }
    take(columns.row(&fields)?)?;
    Ok(1)
}

/// More columns than anybody needs.
const FIELDS_MAX: usize = 32;

/// Splits at commas, and takes off spaces and quotes; no name here has a comma. Returns how many there are, of which the first
/// [`FIELDS_MAX`] are kept.
fn split<'t>(text: &'t str, fields: &mut [&'t str; FIELDS_MAX]) -> usize {
    let mut count = 0;
    for field in text.split(',') {
        if let Some(place) = fields.get_mut(count) {
            let field = field.trim();
            *place = field
                .strip_prefix('"')
                .and_then(|field| field.strip_suffix('"'))
                .unwrap_or(field);
        }
        count += 1;
    }
    count
}

impl Columns {
    /// Of the first line; and whether that is a header.
    fn of(fields: &[&str]) -> Result<(Self, bool), LineError> {
        let find = |name: &str| {
            fields
                .iter()
                .position(|field| field.eq_ignore_ascii_case(name))
        };
        let Some(time) = find("time") else {
            if fields.len() != 4 {
                return Err(LineError::Columns {
                    found: fields.len(),
                    expected: 4,
                });
            }
            let plain = Self {
                time: 0,
                source: 1,
                site: 2,
                count: 3,
                asn: None,
                country: None,
                all: 4,
            };
            return Ok((plain, false));
        };
        let needed = |name: &'static str| find(name).ok_or(LineError::Header(name));
        let named = Self {
            time,
            source: needed("source")?,
            site: needed("site")?,
            count: needed("count")?,
            asn: find("asn"),
            country: find("country"),
            all: fields.len(),
        };
        Ok((named, true))
    }

    fn row<'l>(&self, fields: &[&'l str; FIELDS_MAX]) -> Result<Row<'l>, LineError> {
        let named = |text: &str| {
            !text.is_empty()
                && text.len() <= SOURCE_BYTES_MAX
                && !text.chars().any(char::is_control)
        };
        let (time, source, site) = (fields[self.time], fields[self.source], fields[self.site]);
        let time_s = parse_time(time).map_err(|error| LineError::Time(shown(time), error))?;
        if !named(source) {
            return Err(LineError::Source(shown(source)));
        }
        if !named(site) {
            return Err(LineError::Site(shown(site)));
        }
        let count = fields[self.count];
        Ok(Row {
            time_s,
            source,
            site,
            count: count.parse().map_err(|_| LineError::Count(shown(count)))?,
            asn: self.asn.map_or(Ok(None), |at| asn(fields[at]))?,
            country: self.country.map_or(Ok(None), |at| country(fields[at]))?,
        })
    }
}

fn asn(text: &str) -> Result<Option<u32>, LineError> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text
        .strip_prefix("AS")
        .or_else(|| text.strip_prefix("as"))
        .unwrap_or(text);
    match digits.parse() {
        Ok(asn) => Ok(Some(asn)),
        Err(_) => Err(LineError::Asn(shown(text))),
    }
}

fn country(text: &str) -> Result<Option<[u8; 2]>, LineError> {
    match text.as_bytes() {
        [] => Ok(None),
        [a, b] if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
            Ok(Some([a.to_ascii_uppercase(), b.to_ascii_uppercase()]))
        }
        _ => Err(LineError::Country(shown(text))),
    }
}

fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

impl fmt::Display for RowsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(line, error) => write!(f, "after line {line}: {error}"),
            Self::Line(line, error) => write!(f, "line {line}: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn read(bytes: &[u8]) -> Result<(Vec<String>, End), String> {
        let mut rows = Vec::new();
        let end = read_rows(bytes, |row| {
            rows.push(format!(
                "{} {} {} {} {:?} {:?}",
                row.time_s,
                row.source,
                row.site,
                row.count,
                row.asn,
                row.country.map(|c| c[0])
            ));
            Ok(())
        })
        .map_err(|error| error.to_string())?;
        Ok((rows, end))
    }

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut out = GzEncoder::new(Vec::new(), Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn rows_with_and_without_header_in_any_order_packed_or_not() {
        let check = |text: &str, expect: &[&str]| {
            assert_eq!(read(text.as_bytes()).unwrap().0, expect, "{text:?}");
            assert_eq!(
                read(&gz(text.as_bytes())).unwrap().0,
                expect,
                "{text:?} packed"
            );
        };
        check("", &[]);
        check("time,source,site,count\n", &[]);
        check(
            "1764460800,192.0.2.1,AMS,5\n\n# a remark\n1764460800, \"192.0.2.1\" ,AMS, 0\r\n",
            &[
                "1764460800 192.0.2.1 AMS 5 None None",
                "1764460800 192.0.2.1 AMS 0 None None",
            ],
        );
        check(
            "\u{feff}count,Site,asn,SOURCE,extra,time,country\n5,AMS,AS64500,s,x,2025-11-30T00:00:00Z,nl\n6,AMS,,t,,1764460800,",
            &[
                "1764460800 s AMS 5 Some(64500) Some(78)",
                "1764460800 t AMS 6 None None",
            ],
        );
    }

    #[test]
    fn a_bad_line_is_named_with_its_number_and_what_was_expected() {
        let good = "1764460800,192.0.2.1,AMS,5\n";
        let check = |bad: &str, expect: &str| {
            let text = format!("{good}{bad}\n{good}");
            let error = read(text.as_bytes()).unwrap_err();
            assert!(
                error.starts_with("line 2: ") && error.contains(expect),
                "{bad:?}: {error}"
            );
        };
        check("1764460800,a,AMS", "3 columns, expected 4");
        check("1764460800,a,AMS,1,2", "5 columns, expected 4");
        check("2025-11-30 00:00:00,a,AMS,1", "no time zone");
        check("1764460800000,a,AMS,1", "not milliseconds");
        check("yesterday,a,AMS,1", "expected seconds of Unix");
        check("1764460800,,AMS,1", "source \"\"");
        check("1764460800,a,,1", "site \"\"");
        check("1764460800,a,AMS,-1", "count \"-1\"");
        check("1764460800,a,AMS,1.5", "whole number");
        check("1764460800,a,AMS,4294967296", "below 2^32");
        check(
            &format!("1764460800,{},AMS,1", "a".repeat(129)),
            "at most 128 bytes",
        );
        check(&"x".repeat(5000), "longer than 1024");
        check("1764460800,a\u{1},AMS,1", "source");
        for (header, expect) in [
            ("time,source,site", "no column \"count\""),
            ("time,src,site,count", "no column \"source\""),
            ("a,b", "2 columns, expected 4"),
        ] {
            let error = read(format!("{header}\n").as_bytes()).unwrap_err();
            assert!(error.contains(expect), "{header}: {error}");
        }
        let head = "time,source,site,count,asn,country\n";
        for (row, expect) in [
            ("1764460800,a,AMS,1,x,NL", "asn \"x\""),
            ("1764460800,a,AMS,1,1,Holland", "two letters"),
        ] {
            let error = read(format!("{head}{row}\n").as_bytes()).unwrap_err();
            assert!(error.contains(expect), "{error}");
        }
        assert!(
            read(b"1764460800,\xff,AMS,1\n")
                .unwrap_err()
                .contains("UTF-8")
        );
    }

    #[test]
    fn what_is_still_being_written_is_read_as_far_as_it_is_whole() {
        let (rows, end) = read(b"1764460800,a,AMS,1\n17644611").unwrap();
        assert_eq!((rows.len(), end.cut_off, end.rows), (1, true, 1));
        // A last line without its end that is whole counts.
        assert!(
            !read(b"1764460800,a,AMS,1\n1764461100,a,AMS,2")
                .unwrap()
                .1
                .cut_off
        );
        // Rows of different lengths, so that cutting the stream leaves some.
        let text: String = (0..20_000)
            .map(|i| format!("1764460800,s{},AMS,{i}\n", i * i % 7919))
            .collect();
        let packed = gz(text.as_bytes());
        let (rows, end) = read(&packed[..packed.len() / 2]).unwrap();
        assert!(end.cut_off && rows.len() > 1_000 && rows.len() < 20_000);
        // With nothing read, it is an error.
        assert!(read(&packed[..12]).unwrap_err().contains("after line 0"));
        let mut broken = packed;
        let middle = broken.len() / 2;
        broken[middle..middle + 8].fill(0xff);
        assert!(read(&broken).unwrap_err().contains("line"));
    }
}
