//! Reads measurements and traffic of any form that it knows, and finds out which form it is.

mod atlas;
mod csv;
mod error;
mod parquet;
mod pattern;
mod pcap;
mod record;
mod sink;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;
use ipnet::IpNet;
use levee_policy::reroute::Sites;
use serde::Serialize;

pub use self::atlas::{ProbeQuery, ProbeReply, read_queries};
pub use self::error::{At, Problem, ReadError};
pub use self::pattern::{BadPattern, SitePattern};
use self::sink::Sink;
use super::{Builder, CatchmentMap, LoadMap, SiteError};

/// A reply that came this long after its probe is not taken, as it tells of routes that may be gone. Verfploeter's authors
/// drop what comes 15 minutes after the start of the measurement ("Broad and Load-Aware Anycast Mapping with Verfploeter", IMC
/// 2017, section 4).
pub const LATE: Duration = Duration::from_secs(15 * 60);

/// Places of bad records that a report keeps.
const BAD_SHOWN: usize = 5;
/// Enough bytes to tell every form from the others.
const MAGIC: usize = 8;

/// What was counted as load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadUnit {
    /// Packets.
    #[default]
    Packets,
    /// Bytes of packets, with their link headers.
    Bytes,
    /// DNS queries: UDP to port 53 with QR = 0, and all TCP segments with data to port 53.
    Queries,
}

/// How files are read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The sites, if there may be no others.
    pub sites: Option<Sites>,
    /// Other names for sites than those in the files.
    pub rename: BTreeMap<String, String>,
    /// The site of everything in files that do not say it: captures, and CSV without such a column.
    pub site: Option<String>,
    /// The addresses of the service. Packets to others are left out, as are replies to others where the form tells.
    pub service: Vec<IpNet>,
    /// Which site a DNS server's identity stands for. The first that fits counts; with none at all the identity is the name.
    pub patterns: Vec<SitePattern>,
    /// Which of several announcements in one file.
    pub origin: Option<u32>,
    /// How long a reply may take.
    pub late: Duration,
    /// What load is, in captures.
    pub unit: LoadUnit,
    /// Leave out what is malformed, and count it, instead of stopping there.
    pub skip_bad: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            sites: None,
            rename: BTreeMap::new(),
            site: None,
            service: Vec::new(),
            patterns: Vec::new(),
            origin: None,
            late: LATE,
            unit: LoadUnit::default(),
            skip_bad: false,
        }
    }
}

/// The forms of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Levee's map, as CSV or Parquet.
    Map,
    /// Verfploeter's CSV.
    Verfploeter,
    /// MAnycastR's CSV or Parquet.
    Manycastr,
    /// RIPE Atlas DNS results.
    Atlas,
    /// A capture.
    Pcap,
    /// CSV of blocks or addresses with sites, loads or both.
    Plain,
}

impl Form {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Map => "catchment map",
            Self::Verfploeter => "Verfploeter",
            Self::Manycastr => "MAnycastR",
            Self::Atlas => "RIPE Atlas DNS results",
            Self::Pcap => "capture",
            Self::Plain => "CSV",
        }
    }
}

/// What became of a file. A count is `None` where the form does not tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadReport {
    /// What it was.
    pub form: Form,
    /// Rows, results or packets.
    pub records: u64,
    /// Those that are in the map, duplicates too.
    pub replies: u64,
    /// Replies from blocks of which one was there by then, also out of files read before.
    pub duplicates: u64,
    /// Left out, as they took longer than [`ReadOptions::late`].
    pub late: Option<u64>,
    /// Left out, as they are from another address than was probed, or to another than the service's.
    pub off_address: Option<u64>,
    /// Probes without an answer.
    pub unanswered: Option<u64>,
    /// Left out, as they say nothing of catchments: other measurements, other announcements, other protocols.
    pub other: u64,
    /// Left out, as no site was found for what the server calls itself.
    pub no_site: u64,
    /// What such servers call themselves, the first few.
    pub no_site_names: Vec<String>,
    /// Left out, as they are malformed.
    pub bad: u64,
    /// The first few of those.
    pub bad_shown: Vec<String>,
    /// When the first and the last probe or packet was sent, in seconds since 1970.
    pub measured: Option<(u64, u64)>,
}

impl ReadReport {
    fn new(form: Form) -> Self {
        Self {
            form,
            records: 0,
            replies: 0,
            duplicates: 0,
            late: None,
            off_address: None,
            unanswered: None,
            other: 0,
            no_site: 0,
            no_site_names: Vec::new(),
            bad: 0,
            bad_shown: Vec::new(),
            measured: None,
        }
    }
}

/// Reads files, one after the other, into one map and one load.
pub struct Importer {
    options: ReadOptions,
    builder: Builder,
    load: LoadMap,
    /// Whether a file had a load.
    loaded: bool,
}

impl Importer {
    /// Nothing read yet.
    #[must_use]
    pub fn new(options: ReadOptions) -> Self {
        let builder = Builder::new(&options.sites.clone().unwrap_or_default());
        Self {
            options,
            builder,
            load: LoadMap::new(),
            loaded: false,
        }
    }

    /// Reads a file. What was read before an error stays.
    ///
    /// # Errors
    ///
    /// If it cannot be read, its form is not known, or something in it is malformed.
    pub fn read(&mut self, path: &Path) -> Result<ReadReport, ReadError> {
        let file = File::open(path).map_err(|error| at(path, At::File, Problem::Io(error)))?;
        self.read_from(path, Source::File(file))
    }

    /// Reads bytes as a file of this name.
    ///
    /// # Errors
    ///
    /// As [`Importer::read`].
    pub fn read_bytes(&mut self, name: &Path, bytes: &[u8]) -> Result<ReadReport, ReadError> {
        self.read_from(name, Source::Bytes(bytes.to_vec()))
    }

    fn read_from(&mut self, path: &Path, source: Source) -> Result<ReadReport, ReadError> {
        let mut sink = Sink::new(path, &self.options, Some(&mut self.builder), &mut self.load);
        open(source, &mut sink)?;
        let (report, loaded) = sink.finish();
        self.loaded |= loaded;
        Ok(report)
    }

    /// The map, and the load if some file had one.
    ///
    /// # Errors
    ///
    /// If there is no site: nothing was read, or there was no reply.
    pub fn finish(self) -> Result<(CatchmentMap, Option<LoadMap>), SiteError> {
        let load = self.loaded.then_some(self.load);
        Ok((self.builder.finish()?, load))
    }
}

/// Reads a file as a map.
///
/// # Errors
///
/// If it cannot be read, its form is not known, something in it is malformed, or there is no site in it.
pub fn read(path: &Path, options: &ReadOptions) -> Result<(CatchmentMap, ReadReport), ReadError> {
    let mut importer = Importer::new(options.clone());
    let report = importer.read(path)?;
    let (map, _) = importer
        .finish()
        .map_err(|error| at(path, At::File, Problem::Site(error)))?;
    Ok((map, report))
}

/// Reads a file as the load of blocks: any form with a load, or CSV of blocks and numbers, where sites do not matter.
///
/// # Errors
///
/// If it cannot be read, its form is not known, or something in it is malformed.
pub fn read_load(path: &Path, options: &ReadOptions) -> Result<(LoadMap, ReadReport), ReadError> {
    let mut load = LoadMap::new();
    let file = File::open(path).map_err(|error| at(path, At::File, Problem::Io(error)))?;
    let mut sink = Sink::new(path, options, None, &mut load);
    open(Source::File(file), &mut sink)?;
    let (report, loaded) = sink.finish();
    if !loaded {
        return Err(at(path, At::File, Problem::NoLoad));
    }
    Ok((load, report))
}

fn at(path: &Path, at: At, problem: Problem) -> ReadError {
    ReadError {
        file: path.to_owned(),
        at,
        problem,
    }
}

enum Source {
    File(File),
    Bytes(Vec<u8>),
}

/// Finds out the form and reads it.
fn open(source: Source, sink: &mut Sink<'_>) -> Result<(), ReadError> {
    let mut source = source;
    let head = match &mut source {
        Source::File(file) => {
            head(file).map_err(|error| sink.error(At::File, Problem::Io(error)))?
        }
        Source::Bytes(bytes) => bytes[..bytes.len().min(MAGIC)].to_vec(),
    };
    if head.starts_with(b"PAR1") {
        return match source {
            Source::File(file) => parquet::read(file, sink),
            Source::Bytes(bytes) => parquet::read(bytes::Bytes::from(bytes), sink),
        };
    }
    let reader: Box<dyn Read + Send> = match source {
        Source::File(file) => Box::new(file),
        Source::Bytes(bytes) => Box::new(io::Cursor::new(bytes)),
    };
    let reader = BufReader::with_capacity(1 << 16, reader);
    // Streamed: what a small file unpacks to is never in memory at once.
    let reader: Box<dyn Read + Send> = if head.starts_with(&[0x1f, 0x8b]) {
        Box::new(MultiGzDecoder::new(reader))
    } else if head.starts_with(b"BZh") {
        Box::new(bzip2::bufread::MultiBzDecoder::new(reader))
    } else {
        Box::new(reader)
    };
    let mut reader = BufReader::with_capacity(1 << 16, reader);
    let head = reader
        .fill_buf()
        .map_err(|error| sink.error(At::File, Problem::Damaged(error.to_string())))?;
    let head = head[..head.len().min(MAGIC)].to_vec();
    stream(&head, reader, sink)
}

/// Reads a stream that begins with `head`.
fn stream(
    head: &[u8],
    reader: BufReader<Box<dyn Read + Send>>,
    sink: &mut Sink<'_>,
) -> Result<(), ReadError> {
    const PCAP: [[u8; 4]; 5] = [
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    let unknown = |found: &str| Problem::Form {
        found: found.to_owned(),
    };
    if head.starts_with(b"PAR1") {
        let problem = unknown("Parquet inside a compressed file, which has to be unpacked first");
        return Err(sink.error(At::File, problem));
    }
    if PCAP.iter().any(|magic| head.starts_with(magic)) {
        return pcap::read(reader, sink);
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => Err(sink.error(At::File, unknown("an empty file"))),
        Some(b'{' | b'[') => atlas::read(reader, sink),
        Some(byte) if byte.is_ascii_control() => {
            Err(sink.error(At::File, unknown("bytes of no known form")))
        }
        Some(_) => csv::read(reader, sink),
    }
}

fn head(file: &mut File) -> io::Result<Vec<u8>> {
    use std::io::{Seek as _, SeekFrom};
    let mut head = Vec::new();
    file.by_ref().take(MAGIC as u64).read_to_end(&mut head)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(head)
}

#[cfg(test)]
mod tests;
