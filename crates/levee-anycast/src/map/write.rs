//! Maps on disk: Parquet and CSV, of the same columns.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};

use super::{Block, CatchmentMap, LoadMap, Rtt, VERSION};

/// Metadata of the Parquet file: the version of this form.
pub(super) const KEY_VERSION: &str = "levee.map.version";
/// Metadata: all sites in their order, those without a block too, as a JSON list.
pub(super) const KEY_SITES: &str = "levee.map.sites";
/// Metadata: when the first probe was sent, in seconds since 1970.
pub(super) const KEY_MEASURED: &str = "levee.map.measured";
/// Metadata: where the map is from, for people.
pub(super) const KEY_SOURCE: &str = "levee.map.source";

/// Rows of a group. DuckDB reads groups in parallel and likes 122,880 of them or more.
const GROUP_ROWS: usize = 1 << 17;

/// What is written of a map besides its blocks.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// When the first probe was sent, in seconds since 1970.
    pub measured: Option<u64>,
    /// Where the map is from, for people.
    pub source: String,
}

/// A row of both forms.
struct Row {
    block: Block,
    site: String,
    rtt_ms: Option<f64>,
    load: Option<f64>,
    seen: Option<String>,
}

fn rows<'a>(map: &'a CatchmentMap, load: Option<&'a LoadMap>) -> impl Iterator<Item = Row> + 'a {
    let seen = |block| {
        let seen = map.conflicts().seen(block)?.iter();
        let seen = seen.map(|seen| format!("{}={}", map.sites().name(seen.site), seen.replies));
        Some(seen.collect::<Vec<_>>().join(","))
    };
    map.iter().map(move |(block, site)| Row {
        block,
        site: map.sites().name(site).to_owned(),
        rtt_ms: map.rtt(block).map(Rtt::ms),
        load: load.map(|load| load.load(block)),
        seen: seen(block),
    })
}

/// Writes a map as Parquet: `block` (text, such as `192.0.2.0/24`), `site` (text), `rtt_ms` (double), `load` (double) and `seen`
/// (text), the last three optional; rows in the order of the blocks.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn write_parquet(
    map: &CatchmentMap,
    load: Option<&LoadMap>,
    about: &About,
    out: impl Write + Send,
) -> Result<(), ParquetError> {
    let text = |name: &str, repetition| {
        Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_logical_type(Some(LogicalType::String))
            .with_repetition(repetition)
            .build()
    };
    let double = |name: &str| {
        Type::primitive_type_builder(name, Physical::DOUBLE)
            .with_repetition(Repetition::OPTIONAL)
            .build()
    };
    let fields = [
        text("block", Repetition::REQUIRED)?,
        text("site", Repetition::REQUIRED)?,
        double("rtt_ms")?,
        double("load")?,
        text("seen", Repetition::OPTIONAL)?,
    ];
    let schema = Type::group_type_builder("map")
        .with_fields(fields.map(Arc::new).to_vec())
        .build()?;
    let names: Vec<&str> = map.sites().names().collect();
    let sites = serde_json::to_string(&names).map_err(|e| ParquetError::External(Box::new(e)))?;
    let mut pairs = vec![
        KeyValue::new(KEY_VERSION.to_owned(), VERSION.to_owned()),
        KeyValue::new(KEY_SITES.to_owned(), sites),
        KeyValue::new(KEY_SOURCE.to_owned(), about.source.clone()),
    ];
    if let Some(seconds) = about.measured {
        pairs.push(KeyValue::new(KEY_MEASURED.to_owned(), seconds.to_string()));
    }
    // Neighbours in a sorted list of prefixes begin alike: they are written as what differs.
    let block = ColumnPath::from("block");
    let properties = WriterProperties::builder()
        .set_created_by(concat!("levee ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_column_dictionary_enabled(block.clone(), false)
        .set_column_encoding(block, Encoding::DELTA_BYTE_ARRAY)
        .set_key_value_metadata(Some(pairs))
        .build();
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    let mut rows = rows(map, load).peekable();
    while rows.peek().is_some() {
        let some: Vec<Row> = rows.by_ref().take(GROUP_ROWS).collect();
        write_group(file.next_row_group()?, &some)?;
    }
    file.close()?;
    Ok(())
}

fn write_group<W: Write + Send>(
    mut group: SerializedRowGroupWriter<'_, W>,
    rows: &[Row],
) -> Result<(), ParquetError> {
    type Text = fn(&Row) -> Option<String>;
    type Number = fn(&Row) -> Option<f64>;
    let texts: [Option<Text>; 5] = [
        Some(|row| Some(row.block.to_string())),
        Some(|row| Some(row.site.clone())),
        None,
        None,
        Some(|row| row.seen.clone()),
    ];
    let numbers: [Number; 5] = [
        |_| None,
        |_| None,
        |row| row.rtt_ms,
        |row| row.load,
        |_| None,
    ];
    for (text, number) in texts.iter().zip(numbers) {
        let Some(mut column) = group.next_column()? else {
            break;
        };
        let mut levels: Vec<i16> = Vec::with_capacity(rows.len());
        if let Some(text) = text {
            let all = rows.iter().map(text);
            let all = all.inspect(|value| levels.push(i16::from(value.is_some())));
            let values: Vec<ByteArray> = all.flatten().map(|v| v.into_bytes().into()).collect();
            column
                .typed::<ByteArrayType>()
                .write_batch(&values, Some(&levels), None)?;
        } else {
            let all = rows.iter().map(number);
            let all = all.inspect(|value| levels.push(i16::from(value.is_some())));
            let values: Vec<f64> = all.flatten().collect();
            column
                .typed::<DoubleType>()
                .write_batch(&values, Some(&levels), None)?;
        }
        column.close()?;
    }
    group.close()?;
    Ok(())
}

/// Writes a map as CSV: comments with the version, the sites and the time, then the columns of [`write_parquet`].
///
/// # Errors
///
/// If `out` cannot be written.
pub fn write_csv(
    map: &CatchmentMap,
    load: Option<&LoadMap>,
    about: &About,
    out: impl Write,
) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    writeln!(out, "# levee map, version {VERSION}")?;
    let names: Vec<&str> = map.sites().names().collect();
    writeln!(out, "# sites: {}", names.join(","))?;
    if let Some(seconds) = about.measured {
        writeln!(out, "# measured: {seconds}")?;
    }
    if !about.source.is_empty() {
        let line = about.source.replace(char::is_control, " ");
        writeln!(out, "# source: {line}")?;
    }
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(["block", "site", "rtt_ms", "load", "seen"])?;
    let number = |number: Option<f64>| number.map_or_else(String::new, |n| n.to_string());
    for row in rows(map, load) {
        let seen = row.seen.unwrap_or_default();
        csv.write_record([
            &row.block.to_string(),
            &row.site,
            &number(row.rtt_ms),
            &number(row.load),
            &seen,
        ])?;
    }
    csv.flush()
}
