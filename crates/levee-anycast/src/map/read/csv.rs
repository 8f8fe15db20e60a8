//! Maps, replies and loads as CSV: Levee's, Verfploeter's, MAnycastR's, and any with a block or address in a column.
//!
//! MAnycastR (`rhendriks/MAnycastR`, version 1.3) writes comments with `#` first, among them the workers, then a header with
//! `rx` (worker that got the reply), `addr`, `ttl`, and by the kind of measurement `rtt` (ms), or `rx_time`, `tx_time`, `tx`,
//! and if asked for `chaos_data`, `origin_id`, `record_route`. Verfploeter (`Woutifier/verfploeter`) has one fixed header.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use csv::{ByteRecord, ReaderBuilder};

use super::Form;
use super::error::{At, Problem, ReadError, shown};
use super::record::{Record, block, take, traceroute, unknown_columns};
use super::sink::Sink;
use crate::map::VERSION;

/// Comments before the header at most, and bytes of one: MAnycastR lists each worker and configuration.
const COMMENTS_MAX: u64 = 100_000;
/// Bytes of a record at most; real ones have some 200.
const RECORD_MAX: usize = 1 << 16;
/// What the CSV library reads ahead.
const AHEAD: usize = 1 << 16;

const KEYS: [&str; 9] = [
    "block", "prefix", "netblock", "src_net", "address", "addr", "source", "src", "client",
];
const SITES: [&str; 3] = ["site", "catchment", "rx"];
const RTTS: [&str; 2] = ["rtt_ms", "rtt"];
const LOADS: [&str; 5] = ["load", "weight", "packets", "bytes", "queries"];

/// Which column has what.
#[derive(Clone, Debug, Default)]
struct Columns {
    form: Option<Form>,
    key: usize,
    site: Option<usize>,
    rtt: Option<usize>,
    load: Option<usize>,
    seen: Option<usize>,
    origin: Option<usize>,
    /// Transmit and receive time.
    times: Option<(usize, usize)>,
    /// Pairs of columns that have to be equal, if the reply is from who was asked.
    pairs: Vec<(usize, usize)>,
    /// Who sent the probe, if that may be another than who got the reply.
    sender: Option<usize>,
    /// The first record is no header.
    headerless: bool,
}

pub(super) fn read(mut reader: impl BufRead + Send, sink: &mut Sink<'_>) -> Result<(), ReadError> {
    let lines = comments(&mut reader, sink)?;
    let budget = Rc::new(Cell::new(RECORD_MAX + AHEAD));
    let bounded = Bounded {
        inner: reader,
        budget: Rc::clone(&budget),
    };
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .buffer_capacity(AHEAD)
        .comment(Some(b'#'))
        .delimiter(lines.delimiter)
        .from_reader(io::Cursor::new(lines.header).chain(bounded));
    let mut record = ByteRecord::new();
    let mut columns: Option<Columns> = None;
    loop {
        budget.set(RECORD_MAX + AHEAD);
        let line =
            |record: &ByteRecord| lines.before + record.position().map_or(1, csv::Position::line);
        let next = lines.before + reader.position().line();
        match reader.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                let problem = match error.kind() {
                    csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                        Problem::TooLong { limit: RECORD_MAX }
                    }
                    _ => Problem::Damaged(error.to_string()),
                };
                // What follows cannot be read, but what was before may be kept.
                return sink.bad(At::Line(next), problem);
            }
        }
        let columns = match &columns {
            Some(columns) => columns,
            None => {
                let found = header(&record, lines.map, sink)
                    .map_err(|problem| sink.error(At::Line(line(&record)), problem))?;
                begin(&found, sink);
                let skip = !found.headerless;
                let found = columns.insert(found);
                if skip {
                    continue;
                }
                found
            }
        };
        sink.report.records += 1;
        if let Err(problem) = row(&record, columns, sink) {
            let place = At::Line(line(&record));
            if problem.is_of_file() {
                return Err(sink.error(place, problem));
            }
            sink.bad(place, problem)?;
        }
    }
    if columns.is_none() {
        let found = "a text without a header".to_owned();
        return Err(sink.error(At::File, Problem::Form { found }));
    }
    Ok(())
}

/// What stands before the first row.
struct Lines {
    /// Lines that were read.
    before: u64,
    /// The line after the comments.
    header: Vec<u8>,
    delimiter: u8,
    /// Whether a comment says that it is a map of ours.
    map: bool,
}

/// Reads the comments, which name the version of a map of ours, sites and workers.
fn comments(reader: &mut impl BufRead, sink: &mut Sink<'_>) -> Result<Lines, ReadError> {
    let mut lines = Lines {
        before: 0,
        header: Vec::new(),
        delimiter: b',',
        map: false,
    };
    let mut workers = false;
    loop {
        let mut line = Vec::new();
        let place = At::Line(lines.before + 1);
        reader
            .take(RECORD_MAX as u64 + 1)
            .read_until(b'\n', &mut line)
            .map_err(|error| sink.error(place, Problem::Damaged(error.to_string())))?;
        if line.len() > RECORD_MAX || lines.before > COMMENTS_MAX {
            return Err(sink.error(place, Problem::TooLong { limit: RECORD_MAX }));
        }
        let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
        let Some(comment) = text.strip_prefix(b"#") else {
            if !line.is_empty() && text.trim_ascii().is_empty() {
                lines.before += 1;
                continue;
            }
            let other = |byte: u8| text.contains(&byte) && !text.contains(&b',');
            lines.delimiter = *[b';', b'\t'].iter().find(|b| other(**b)).unwrap_or(&b',');
            lines.header = text.to_vec();
            return Ok(lines);
        };
        lines.before += 1;
        let comment = String::from_utf8_lossy(comment);
        let comment = comment.trim();
        if let Some(version) = comment.strip_prefix("levee map, version ") {
            if version != VERSION {
                let found = shown(version.as_bytes());
                return Err(sink.error(place, Problem::Version { found }));
            }
            lines.map = true;
        } else if comment.ends_with("connected workers:") {
            workers = true;
        } else if let Some(worker) = comment.strip_prefix("* ").filter(|_| workers) {
            sink.list_site(worker)
                .map_err(|problem| sink.error(place, problem))?;
        } else if let Some(list) = comment.strip_prefix("sites: ").filter(|_| lines.map) {
            for site in list.split(',') {
                sink.list_site(site)
                    .map_err(|problem| sink.error(place, problem))?;
            }
        } else if let Some(at) = comment.strip_prefix("measured: ").filter(|_| lines.map) {
            if let Ok(seconds) = at.parse() {
                sink.time(seconds);
            }
        } else {
            workers = false;
        }
    }
}

/// Takes in a header, or the first record of a table without one.
fn header(record: &ByteRecord, map: bool, sink: &Sink<'_>) -> Result<Columns, Problem> {
    let names: Vec<String> = record
        .iter()
        .map(|name| String::from_utf8_lossy(name).trim().to_lowercase())
        .collect();
    let find = |name: &str| names.iter().position(|known| known == name);
    let any = |all: &[&str]| all.iter().find_map(|name| find(name));
    let both = |a: &str, b: &str| Some((find(a)?, find(b)?));
    let missing = || unknown_columns(&names);
    if let Some(problem) = traceroute(&names) {
        return Err(problem);
    }
    if let Some((site, key)) = both("client_id", "source_address") {
        let pairs = [
            both("destination_address", "meta_source_address"),
            both("source_address", "meta_destination_address"),
        ];
        return Ok(Columns {
            form: Some(Form::Verfploeter),
            key,
            site: Some(site),
            rtt: find("send_receive_time_diff"),
            times: both("transmit_time", "receive_time"),
            pairs: pairs.into_iter().flatten().collect(),
            ..Columns::default()
        });
    }
    if let Some((site, key)) = both("rx", "addr") {
        return Ok(Columns {
            form: Some(Form::Manycastr),
            key,
            site: Some(site),
            rtt: find("rtt"),
            origin: find("origin_id"),
            times: both("tx_time", "rx_time"),
            sender: find("tx"),
            ..Columns::default()
        });
    }
    if let Some(key) = any(&KEYS) {
        let columns = Columns {
            form: Some(if map { Form::Map } else { Form::Plain }),
            key,
            site: any(&SITES),
            rtt: any(&RTTS),
            load: any(&LOADS),
            seen: find("seen").filter(|_| map),
            ..Columns::default()
        };
        // Without either there is nothing to learn.
        let useful =
            columns.site.is_some() || columns.load.is_some() || sink.options.site.is_some();
        return if useful { Ok(columns) } else { Err(missing()) };
    }
    headerless(record).ok_or_else(missing)
}

/// A table without a header: a block or address, and a site or a load.
fn headerless(record: &ByteRecord) -> Option<Columns> {
    block(record.get(0)?)?;
    let second = std::str::from_utf8(record.get(1)?).ok()?.trim();
    let number = second.parse::<f64>().is_ok();
    Some(Columns {
        form: Some(Form::Plain),
        site: (!number).then_some(1),
        load: number.then_some(1),
        headerless: true,
        ..Columns::default()
    })
}

/// Fits the report to what the columns can tell.
fn begin(columns: &Columns, sink: &mut Sink<'_>) {
    sink.report.form = columns.form.unwrap_or(Form::Plain);
    sink.report.late = columns.times.or(columns.rtt.map(|c| (c, c))).map(|_| 0);
    sink.report.off_address = (!columns.pairs.is_empty()).then_some(0);
}

fn row(record: &ByteRecord, columns: &Columns, sink: &mut Sink<'_>) -> Result<(), Problem> {
    let field = |column: usize| record.get(column).unwrap_or_default();
    let some = |column: Option<usize>| column.map(field).filter(|text| !text.is_empty());
    let whole = |name: &str, text: &[u8]| {
        number(text).ok_or_else(|| Sink::field(name, text, "a whole number"))
    };
    let real = |name: &str, text: &[u8]| {
        let number = number::<f64>(text).filter(|number| number.is_finite());
        number.ok_or_else(|| Sink::field(name, text, "a number"))
    };
    let times = match columns.times {
        Some((sent, got)) => Some((
            whole("the transmit time", field(sent))?,
            whole("the receive time", field(got))?,
        )),
        None => None,
    };
    let origin = match some(columns.origin) {
        Some(text) => {
            let number = number::<u32>(text);
            Some(number.ok_or_else(|| Sink::field("origin_id", text, "a whole number"))?)
        }
        None => None,
    };
    let load = match some(columns.load) {
        Some(text) => Some(real("the load", text)?),
        // Each line of a log of traffic counts.
        None if columns.load.is_none() && columns.form == Some(Form::Plain) => Some(1.0),
        None => None,
    };
    let record = Record {
        key: field(columns.key),
        site: columns.site.map(field),
        sender: columns.sender.map(field),
        rtt_ms: some(columns.rtt)
            .map(|text| real("the round-trip time", text))
            .transpose()?,
        times,
        load,
        seen: some(columns.seen),
        origin,
        off_address: columns.pairs.iter().any(|(a, b)| field(*a) != field(*b)),
    };
    take(&record, sink)
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// A reader that ends a record without end: one quote left open would take in the whole file.
struct Bounded<R> {
    inner: R,
    /// Bytes that the record may still take.
    budget: Rc<Cell<usize>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.budget.get();
        if left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let most = buffer.len().min(left);
        let read = self.inner.read(&mut buffer[..most])?;
        self.budget.set(left - read);
        Ok(read)
    }
}
