//! A report as an Apache Parquet file: the columns of the CSV, with types.

use std::sync::Arc;

use anyhow::Result;
use levee_smc::report::{Column, Fields, Report, columns};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

/// The whole file. Every column may hold nulls.
pub(crate) fn bytes(report: &Report) -> Result<Vec<u8>> {
    let columns = columns(report);
    let fields = columns.iter().map(|column| Ok(Arc::new(field(column)?)));
    let schema = Type::group_type_builder("answers")
        .with_fields(fields.collect::<Result<_>>()?)
        .build()?;
    let properties = WriterProperties::builder()
        .set_created_by(concat!("levee ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for column in &columns {
        if let Some(mut writer) = group.next_column()? {
            write(&mut writer, &column.fields)?;
            writer.close()?;
        }
    }
    group.close()?;
    Ok(file.into_inner()?)
}

fn field(column: &Column) -> Result<Type> {
    let (physical, logical) = match column.fields {
        Fields::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Fields::Number(_) => (Physical::DOUBLE, None),
        Fields::Count(_) => (Physical::INT64, None),
    };
    let field = Type::primitive_type_builder(&column.name, physical)
        .with_logical_type(logical)
        .with_repetition(Repetition::OPTIONAL)
        .build()?;
    Ok(field)
}

fn write(writer: &mut SerializedColumnWriter<'_>, fields: &Fields) -> Result<()> {
    fn levels<T>(all: &[Option<T>]) -> Vec<i16> {
        all.iter().map(|value| i16::from(value.is_some())).collect()
    }
    match fields {
        Fields::Text(all) => {
            let values = all.iter().flatten();
            let values: Vec<ByteArray> = values.map(|v| v.as_str().into()).collect();
            let writer = writer.typed::<ByteArrayType>();
            writer.write_batch(&values, Some(&levels(all)), None)?;
        }
        Fields::Number(all) => {
            let values: Vec<f64> = all.iter().flatten().copied().collect();
            let writer = writer.typed::<DoubleType>();
            writer.write_batch(&values, Some(&levels(all)), None)?;
        }
        Fields::Count(all) => {
            let values = all.iter().flatten();
            let values: Vec<i64> = values
                .map(|v| i64::try_from(*v).unwrap_or(i64::MAX))
                .collect();
            let writer = writer.typed::<Int64Type>();
            writer.write_batch(&values, Some(&levels(all)), None)?;
        }
    }
    Ok(())
}
