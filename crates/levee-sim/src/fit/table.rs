//! Rows of a table: of Asterisk, of FreeSWITCH, of Kamailio, or with named columns.

use std::collections::BTreeMap;
use std::io::Read;

use csv::ByteRecord;

use super::FitError;
use super::bounded::Bounded;
use super::layout::{Columns, Layout};
use super::number;
use super::stamp::{self, SECOND, Stamp};
use super::tally::{Call, Cause, Tally};

/// INVITEs without their BYE that are remembered; the calls of a large provider at one time.
const OPEN_MAX: usize = 1 << 20;

/// Reads all rows.
pub(super) fn read(reader: impl Read, layout: &Layout, tally: &mut Tally) -> Result<(), FitError> {
    let (bounded, budget) = Bounded::new(reader);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(layout.delimiter)
        .has_headers(false)
        .flexible(true)
        .buffer_capacity(1 << 16)
        .from_reader(bounded);
    let needed = layout.columns.needed();
    let mut rows = Rows {
        layout,
        tally,
        open: BTreeMap::new(),
    };
    let mut record = ByteRecord::new();
    let mut is_header = layout.header;
    loop {
        budget.renew();
        let line = reader.position().line();
        let more = reader.read_byte_record(&mut record);
        if !more.map_err(|error| FitError::reading(error, line))? {
            break;
        }
        if std::mem::take(&mut is_header) {
            continue;
        }
        rows.tally.rows += 1;
        let line = record.position().map_or(line, csv::Position::line);
        if record.len() < needed {
            rows.tally.bad(Cause::TooFewColumns, line);
        } else if let Some(acc) = layout.columns.acc {
            rows.transaction(acc, &record, line);
        } else {
            match call(layout, &record) {
                Ok(call) => rows.tally.call(line, call),
                Err(cause) => rows.tally.bad(cause, line),
            }
        }
    }
    rows.close();
    Ok(())
}

struct Rows<'r> {
    layout: &'r Layout,
    tally: &'r mut Tally,
    /// By Call-ID: when it was answered, and in which line.
    open: BTreeMap<Vec<u8>, (Stamp, u64)>,
}

impl Rows<'_> {
    /// A row of Kamailio's `acc`: an INVITE or BYE with its final response.
    fn transaction(&mut self, acc: [usize; 4], record: &ByteRecord, line: u64) {
        let [method, id, code, time] = acc.map(|at| cell(record, Some(at)).unwrap_or_default());
        let Some(at) = stamp::parse(time) else {
            return self.tally.bad(Cause::BadTime, line);
        };
        match method {
            b"INVITE" if !code.starts_with(b"2") => {
                let call = Call {
                    start: Some(at),
                    ..Call::default()
                };
                self.tally.call(line, call);
            }
            // An INVITE inside the dialog changes nothing.
            b"INVITE" if self.open.contains_key(id) => {}
            b"INVITE" if self.open.len() >= OPEN_MAX => {
                self.tally.bad(Cause::InviteWithoutBye, line);
            }
            b"INVITE" => _ = self.open.insert(id.to_vec(), (at, line)),
            b"BYE" => match self.open.remove(id) {
                None => self.tally.bad(Cause::ByeWithoutInvite, line),
                Some((answer, _)) => {
                    let call = Call {
                        start: Some(answer),
                        talk: Some(seconds(answer, at)),
                        ..Call::default()
                    };
                    self.tally.call(line, call);
                }
            },
            // ACK, CANCEL and the like tell nothing more.
            _ => {}
        }
    }

    fn close(&mut self) {
        let mut lines: Vec<u64> = self.open.values().map(|(_, line)| *line).collect();
        lines.sort_unstable();
        for line in lines {
            self.tally.bad(Cause::InviteWithoutBye, line);
        }
        if self.layout.zeros_are_unanswered() {
            self.tally.sample.leave_out_zeros();
        }
    }
}

impl Layout {
    /// Whether only the duration says if a call was answered.
    pub(super) fn zeros_are_unanswered(&self) -> bool {
        let Columns {
            answer,
            disposition,
            acc,
            talk,
            ..
        } = self.columns;
        talk.is_some() && answer.is_none() && disposition.is_none() && acc.is_none()
    }
}

/// The call of a row.
fn call(layout: &Layout, record: &ByteRecord) -> Result<Call, Cause> {
    let Columns {
        start,
        answer,
        end,
        whole,
        talk,
        disposition,
        ..
    } = layout.columns;
    let start = instant(record, start)?;
    let answer_written = instant(record, answer)?;
    let talk = match talk {
        Some(_) => number(record, talk)? * layout.unit,
        None => match (answer_written, instant(record, end)?) {
            (Some(answer), Some(end)) => seconds(answer, end),
            // Not answered, so it has no talk time.
            (None, _) => 0.0,
            (Some(_), None) => return Err(Cause::NoDuration),
        },
    };
    let answered = match cell(record, disposition) {
        Some(word) => word.eq_ignore_ascii_case(b"ANSWERED"),
        None if answer.is_some() => answer_written.is_some(),
        None => talk != 0.0,
    };
    let whole = match (whole, start) {
        (Some(_), _) => Some(number(record, whole)?),
        (None, Some(start)) => instant(record, end)?.map(|end| seconds(start, end)),
        (None, None) => None,
    };
    let ring = match (whole, start, answer_written) {
        (Some(whole), ..) => Some(whole - talk),
        (None, Some(start), Some(answer)) => Some(seconds(start, answer)),
        _ => None,
    };
    Ok(Call {
        start: start.or(answer_written),
        talk: answered.then_some(talk),
        whole,
        ring,
    })
}

fn cell(record: &ByteRecord, at: Option<usize>) -> Option<&[u8]> {
    record.get(at?).map(<[u8]>::trim_ascii)
}

fn number(record: &ByteRecord, at: Option<usize>) -> Result<f64, Cause> {
    let cell = cell(record, at).unwrap_or_default();
    number::parse(cell).ok_or(Cause::NoDuration)
}

/// An instant; `None` where nothing happened, as `""`, `0` or a date of zeros say.
fn instant(record: &ByteRecord, at: Option<usize>) -> Result<Option<Stamp>, Cause> {
    match cell(record, at) {
        None | Some(b"" | b"0" | b"NULL" | b"\\N") => Ok(None),
        Some(text) if text.starts_with(b"0000-00-00") => Ok(None),
        Some(text) => stamp::parse(text).map(Some).ok_or(Cause::BadTime),
    }
}

fn seconds(from: Stamp, to: Stamp) -> f64 {
    (to - from) as f64 / SECOND as f64
}
