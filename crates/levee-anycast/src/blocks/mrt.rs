//! Routing tables in MRT (RFC 6396), record by record through `bgpkit-parser`, which takes no record of more than 16 MiB.

use std::io::Read;

use bgpkit_parser::models::{
    AsPath, Attributes, EntryType, MrtMessage, TableDumpMessage, TableDumpV2Message,
};
use bgpkit_parser::{ParserError, chunk_mrt_record};
use levee_policy::reroute::Asn;

use super::{
    read::{BlocksError, Cut},
    table::{Full, Table},
};

/// Bytes of a record's header.
const HEADER: u64 = 12;
/// The highest type that MRT has; text has letters in its place.
const TYPE_MAX: u16 = 64;

/// What a routing table gave besides prefixes.
pub(super) struct Tables {
    pub(super) bad_records: u64,
    pub(super) cut: Option<Cut>,
}

/// Whether a file begins like MRT: a time, and a type.
pub(super) fn begins(start: &[u8]) -> bool {
    matches!(*start, [_, _, _, _, high, low] if u16::from_be_bytes([high, low]) <= TYPE_MAX)
}

/// Adds each prefix with the origins that its paths end in, one source for each entry.
pub(super) fn read(
    file: &str,
    input: &mut impl Read,
    table: &mut Table,
) -> Result<Tables, BlocksError> {
    let (mut record, mut offset) = (0_u64, 0_u64);
    let mut read = Tables {
        bad_records: 0,
        cut: None,
    };
    let mut others = 0_u64;
    loop {
        let raw = match chunk_mrt_record(&mut *input) {
            Ok(raw) => raw,
            Err(error) if matches!(error.error, ParserError::EofExpected) => break,
            Err(error) => {
                read.cut = Some(Cut {
                    after: format!("record {record}, byte {offset} (unpacked)"),
                    reason: error.error.to_string(),
                });
                break;
            }
        };
        record += 1;
        let begin = offset;
        offset += HEADER + raw.message_bytes.len() as u64;
        let wanted = [EntryType::TABLE_DUMP, EntryType::TABLE_DUMP_V2];
        if !wanted.contains(&raw.common_header.entry_type) {
            others += 1;
            continue;
        }
        let Ok(parsed) = raw.parse() else {
            read.bad_records += 1;
            continue;
        };
        add(table, parsed.message).map_err(|_| BlocksError::TooMany {
            file: file.to_owned(),
            at: format!("record {record}, byte {begin} (unpacked)"),
        })?;
    }
    if table.is_empty() && others > 0 {
        return Err(BlocksError::Record {
            file: file.to_owned(),
            record: 1,
            offset: 0,
            problem: format!(
                "{others} of {record} records are BGP messages and states; expected a routing table (a `rib` or `bview` file), not updates"
            ),
        });
    }
    Ok(read)
}

fn add(table: &mut Table, message: MrtMessage) -> Result<(), Full> {
    match message {
        MrtMessage::TableDumpMessage(entry) => add_one(table, &entry),
        MrtMessage::TableDumpMessageBatch(entries) => {
            entries.iter().try_for_each(|entry| add_one(table, entry))
        }
        MrtMessage::TableDumpV2Message(TableDumpV2Message::RibAfi(rib)) => {
            let prefix = rib.prefix.prefix;
            rib.rib_entries
                .iter()
                .try_for_each(|entry| table.add(prefix, origins(&entry.attributes)))
        }
        _ => Ok(()),
    }
}

fn add_one(table: &mut Table, entry: &TableDumpMessage) -> Result<(), Full> {
    table.add(entry.prefix.prefix, origins(&entry.attributes))
}

/// The last AS of the path; of a path that ends in a set, each of the set (RFC 4271, section 5.1.2).
fn origins(attributes: &Attributes) -> Vec<Asn> {
    // A speaker of 16-bit ASNs puts the longer ones into another attribute (RFC 6793).
    let path: Option<AsPath> = attributes.effective_as_path();
    let path = path.unwrap_or_default();
    path.iter_origins().map(|asn| Asn(asn.to_u32())).collect()
}
