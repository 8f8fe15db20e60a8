//! Maps as Parquet: Levee's and MAnycastR's, and any with columns of the same names.
//!
//! MAnycastR (version 1.3) writes optional columns: texts `rx`, `addr`, `tx`, `chaos_data`; unsigned 64 bits `rx_time`,
//! `tx_time`; unsigned 8 bits `ttl`, `origin_id`; doubles `rtt`; compressed by Snappy, with the workers in the metadata.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::FileMetaData;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};

use super::Form;
use super::error::{At, Problem, ReadError, shown};
use super::record::{Record, take, traceroute, unknown_columns};
use super::sink::Sink;
use crate::map::VERSION;
use crate::map::write::{KEY_MEASURED, KEY_SITES, KEY_VERSION};

/// Rows that are read at once.
const BATCH: usize = 8_192;
/// Unpacked bytes of a row group at most: ours have some 10 MB, MAnycastR's up to 256 MiB.
const GROUP_MAX: i64 = 1 << 30;

/// What a column is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Key,
    Site,
    Sender,
    Rtt,
    Load,
    Seen,
    Origin,
    Sent,
    Got,
}

pub(super) fn read<R: ChunkReader + 'static>(
    reader: R,
    sink: &mut Sink<'_>,
) -> Result<(), ReadError> {
    let file =
        SerializedFileReader::new(reader).map_err(|error| sink.error(At::File, damaged(&error)))?;
    let meta = file.metadata().file_metadata();
    let roles = begin(meta, sink).map_err(|problem| sink.error(At::File, problem))?;
    for index in 0..file.num_row_groups() {
        if let Err(problem) = group(&file, index, &roles, sink) {
            let place = At::Record(sink.report.records + 1);
            match problem {
                GroupError::Read(error) => return Err(error),
                // The next group may be whole.
                GroupError::Damaged(problem) => sink.bad(place, problem)?,
            }
        }
    }
    Ok(())
}

/// The library's errors are for programmers; their first line is enough to search for.
fn damaged(error: &ParquetError) -> Problem {
    Problem::Parquet(shown(error.to_string().as_bytes()))
}

/// Finds out the form, and which columns to read.
fn begin(meta: &FileMetaData, sink: &mut Sink<'_>) -> Result<Vec<(usize, Role)>, Problem> {
    let schema = meta.schema_descr();
    let names: Vec<String> = schema.columns().iter().map(|c| c.path().string()).collect();
    if let Some(problem) = traceroute(&names) {
        return Err(problem);
    }
    let value = |key: &str| {
        let all = meta.key_value_metadata()?;
        all.iter().find(|pair| pair.key == key)?.value.as_deref()
    };
    let wanted: &[(&str, Role)] = if let Some(version) = value(KEY_VERSION) {
        if version != VERSION {
            let found = shown(version.as_bytes());
            return Err(Problem::Version { found });
        }
        sink.report.form = Form::Map;
        list(value(KEY_SITES), sink)?;
        if let Some(seconds) = value(KEY_MEASURED).and_then(|text| text.parse().ok()) {
            sink.time(seconds);
        }
        &MAP
    } else if names.iter().any(|name| name == "rx") {
        sink.report.form = Form::Manycastr;
        list(value("connected_workers"), sink)?;
        &MANYCASTR
    } else {
        sink.report.form = Form::Plain;
        &MAP
    };
    let mut roles = Vec::new();
    for (name, role) in wanted {
        let Some(index) = names.iter().position(|known| known == name) else {
            continue;
        };
        if schema.column(index).max_rep_level() > 0 {
            return Err(Sink::field(name, b"a list", "one value a row"));
        }
        roles.push((index, *role));
    }
    let has = |role| roles.iter().any(|(_, known)| *known == role);
    if !has(Role::Key) || !(has(Role::Site) || has(Role::Load)) {
        return Err(unknown_columns(&names));
    }
    let timed = has(Role::Rtt) || has(Role::Sent) && has(Role::Got);
    sink.report.late = timed.then_some(0);
    Ok(roles)
}

const MAP: [(&str, Role); 5] = [
    ("block", Role::Key),
    ("site", Role::Site),
    ("rtt_ms", Role::Rtt),
    ("load", Role::Load),
    ("seen", Role::Seen),
];

const MANYCASTR: [(&str, Role); 7] = [
    ("addr", Role::Key),
    ("rx", Role::Site),
    ("tx", Role::Sender),
    ("rtt", Role::Rtt),
    ("origin_id", Role::Origin),
    ("tx_time", Role::Sent),
    ("rx_time", Role::Got),
];

/// Takes in a list of sites as JSON, which may have sites without a block.
fn list(json: Option<&str>, sink: &mut Sink<'_>) -> Result<(), Problem> {
    let Some(json) = json else { return Ok(()) };
    let sites = serde_json::from_str::<Vec<String>>(json);
    let sites = sites
        .map_err(|_| Sink::field("the list of sites", json.as_bytes(), "a JSON list of names"))?;
    sites.iter().try_for_each(|site| sink.list_site(site))
}

enum GroupError {
    Read(ReadError),
    Damaged(Problem),
}

impl From<ParquetError> for GroupError {
    fn from(error: ParquetError) -> Self {
        Self::Damaged(damaged(&error))
    }
}

fn group<R: ChunkReader + 'static>(
    file: &SerializedFileReader<R>,
    index: usize,
    roles: &[(usize, Role)],
    sink: &mut Sink<'_>,
) -> Result<(), GroupError> {
    let group = file.get_row_group(index)?;
    let mut columns = Vec::new();
    for (column, role) in roles {
        let size = group.metadata().column(*column).uncompressed_size();
        if !(0..=GROUP_MAX).contains(&size) {
            let problem = Problem::Parquet(format!("a column of {size} bytes"));
            return Err(GroupError::Damaged(problem));
        }
        let nullable = group
            .metadata()
            .schema_descr()
            .column(*column)
            .max_def_level();
        columns.push(Column {
            role: *role,
            reader: group.get_column_reader(*column)?,
            full: nullable,
            values: Vec::new(),
        });
    }
    loop {
        let mut rows = None;
        for column in &mut columns {
            let read = column.fill()?;
            if rows.is_some_and(|rows| rows != read) {
                let problem = Problem::Parquet("columns of different lengths".to_owned());
                return Err(GroupError::Damaged(problem));
            }
            rows = Some(read);
        }
        let rows = rows.unwrap_or(0);
        if rows == 0 {
            return Ok(());
        }
        for row in 0..rows {
            sink.report.records += 1;
            let place = At::Record(sink.report.records);
            if let Err(problem) = record(&columns, row).and_then(|record| take(&record, sink)) {
                if problem.is_of_file() {
                    return Err(GroupError::Read(sink.error(place, problem)));
                }
                sink.bad(place, problem).map_err(GroupError::Read)?;
            }
        }
    }
}

/// A value of a column.
enum Value {
    Null,
    Text(ByteArray),
    Number(f64),
    Whole(i64),
}

struct Column {
    role: Role,
    reader: ColumnReader,
    /// The definition level of a value that is there.
    full: i16,
    values: Vec<Value>,
}

impl Column {
    /// Reads the next rows; how many.
    fn fill(&mut self) -> Result<usize, ParquetError> {
        self.values.clear();
        let (full, out) = (self.full, &mut self.values);
        match &mut self.reader {
            ColumnReader::ByteArrayColumnReader(reader) => {
                batch::<ByteArrayType>(reader, full, out, Value::Text)
            }
            ColumnReader::DoubleColumnReader(reader) => batch(reader, full, out, Value::Number),
            ColumnReader::FloatColumnReader(reader) => {
                batch(reader, full, out, |value| Value::Number(f64::from(value)))
            }
            ColumnReader::Int32ColumnReader(reader) => {
                batch(reader, full, out, |value| Value::Whole(i64::from(value)))
            }
            ColumnReader::Int64ColumnReader(reader) => batch(reader, full, out, Value::Whole),
            _ => Err(ParquetError::General("a column of another type".to_owned())),
        }
    }
}

fn batch<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    full: i16,
    out: &mut Vec<Value>,
    value: impl Fn(T::T) -> Value,
) -> Result<usize, ParquetError> {
    let mut values = Vec::new();
    let mut levels = Vec::new();
    let defined = (full > 0).then_some(&mut levels);
    reader.read_records(BATCH, defined, None, &mut values)?;
    if full == 0 {
        out.extend(values.into_iter().map(value));
        return Ok(out.len());
    }
    let mut values = values.into_iter();
    for level in levels {
        let there = (level == full).then(|| values.next()).flatten();
        out.push(there.map_or(Value::Null, &value));
    }
    Ok(out.len())
}

fn record(columns: &[Column], row: usize) -> Result<Record<'_>, Problem> {
    let mut record = Record::default();
    let mut sent = None;
    let mut got = None;
    for column in columns {
        let value = &column.values[row];
        let wrong = |expected| Err(Sink::field("a column", b"of another type", expected));
        match (column.role, value) {
            (Role::Site, Value::Null) => record.site = Some(b""),
            (_, Value::Null) => {}
            (Role::Key, Value::Text(text)) => record.key = text.data(),
            (Role::Site, Value::Text(text)) => record.site = Some(text.data()),
            (Role::Sender, Value::Text(text)) => record.sender = Some(text.data()),
            (Role::Seen, Value::Text(text)) => record.seen = Some(text.data()),
            (Role::Key | Role::Site | Role::Sender | Role::Seen, _) => return wrong("text"),
            (Role::Rtt, Value::Number(ms)) => record.rtt_ms = Some(*ms),
            (Role::Load, Value::Number(load)) => record.load = Some(*load),
            (Role::Load, Value::Whole(load)) => record.load = Some(*load as f64),
            (Role::Rtt | Role::Load, _) => return wrong("a number"),
            (Role::Origin, Value::Whole(origin)) => record.origin = u32::try_from(*origin).ok(),
            (Role::Sent, Value::Whole(time)) => sent = u64::try_from(*time).ok(),
            (Role::Got, Value::Whole(time)) => got = u64::try_from(*time).ok(),
            (Role::Origin | Role::Sent | Role::Got, _) => return wrong("a whole number"),
        }
    }
    record.times = sent.zip(got);
    Ok(record)
}
