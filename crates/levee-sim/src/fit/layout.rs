//! Which format a file of call records has, and where its columns are.

use serde::Serialize;

use super::number;
use super::sample::Rounding;
use super::stamp;
use super::{FitError, Options};

/// Rows that are looked at.
const ROWS_MAX: usize = 200;
/// Delimiters that are tried; of two that fit as well, the first.
const DELIMITERS: [(u8, &str); 4] = [
    (b',', "comma"),
    (b';', "semicolon"),
    (b'\t', "tab"),
    (b'|', "bar"),
];
/// Lines that an error shows, and characters of each.
const SHOWN_LINES: usize = 3;
const SHOWN_CHARS: usize = 100;

/// A format of call records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `Master.csv` of Asterisk's `cdr_csv` or `cdr_custom`, or its table with a header.
    Asterisk,
    /// `mod_cdr_csv` of FreeSWITCH, its templates `example`, `asterisk` and the like.
    Freeswitch,
    /// `mod_json_cdr` of FreeSWITCH.
    FreeswitchJson,
    /// `acc` of Kamailio with rows of INVITE and BYE, or its `cdrs`, with a header.
    Kamailio,
    /// Any other, by named columns.
    Csv,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] = [
        Self::Asterisk,
        Self::Freeswitch,
        Self::FreeswitchJson,
        Self::Kamailio,
        Self::Csv,
    ];

    /// As an option names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Asterisk => "asterisk",
            Self::Freeswitch => "freeswitch",
            Self::FreeswitchJson => "freeswitch-json",
            Self::Kamailio => "kamailio",
            Self::Csv => "csv",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Asterisk => "Asterisk CSV",
            Self::Freeswitch => "FreeSWITCH CSV",
            Self::FreeswitchJson => "FreeSWITCH JSON",
            Self::Kamailio => "Kamailio",
            Self::Csv => "CSV",
        }
    }
}

/// Where what stands, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) start: Option<usize>,
    pub(super) answer: Option<usize>,
    pub(super) end: Option<usize>,
    /// From the beginning to the end.
    pub(super) whole: Option<usize>,
    /// From the answer to the end.
    pub(super) talk: Option<usize>,
    pub(super) disposition: Option<usize>,
    /// Of `acc`: `method`, `callid`, `sip_code`, `time`.
    pub(super) acc: Option<[usize; 4]>,
}

impl Columns {
    /// How many columns a row must have.
    pub(super) fn needed(&self) -> usize {
        [
            self.start,
            self.answer,
            self.end,
            self.whole,
            self.talk,
            self.disposition,
        ]
        .into_iter()
        .flatten()
        .chain(self.acc.into_iter().flatten())
        .max()
        .map_or(0, |last| last + 1)
    }
}

/// How a file is to be read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) format: Format,
    pub(super) delimiter: u8,
    pub(super) header: bool,
    pub(super) columns: Columns,
    /// Seconds of the unit of the talk time.
    pub(super) unit: f64,
    /// Seconds of its last digit.
    pub(super) grain: f64,
    pub(super) rounding: Rounding,
    /// What was found, in a sentence.
    pub(super) said: String,
}

/// Finds out what `head`, the beginning of a file without byte order mark, is. `whole` says that it is all of the file.
pub(super) fn of(head: &[u8], whole: bool, options: &Options) -> Result<Layout, FitError> {
    if matches!(head, [0xfe, 0xff, ..] | [0xff, 0xfe, ..]) {
        return Err(FitError::Utf16);
    }
    let first = head.iter().find(|b| !b.is_ascii_whitespace());
    let Some(first) = first else {
        return Err(FitError::Empty);
    };
    let json = match options.format {
        Some(format) => format == Format::FreeswitchJson,
        None => *first == b'{' && options.columns.is_empty(),
    };
    if json {
        return Ok(json_layout(options));
    }
    let (delimiter, rows) = split(head, whole, options.delimiter);
    let table = Table {
        head,
        delimiter,
        rows: &rows,
        options,
    };
    table.layout()
}

fn json_layout(options: &Options) -> Layout {
    Layout {
        format: Format::FreeswitchJson,
        delimiter: b',',
        header: false,
        columns: Columns::default(),
        unit: 1e-6,
        grain: 1e-6,
        rounding: options.rounding.unwrap_or(Rounding::Nearest),
        said: "FreeSWITCH JSON (mod_json_cdr)".to_owned(),
    }
}

type Row = Vec<Vec<u8>>;

/// The rows by the delimiter that gives the most columns.
fn split(head: &[u8], whole: bool, delimiter: Option<u8>) -> (u8, Vec<Row>) {
    let tried = DELIMITERS.iter().map(|(d, _)| *d);
    let tried: Vec<u8> = delimiter.map_or_else(|| tried.collect(), |d| vec![d]);
    let mut best: Option<(usize, u8, Vec<Row>)> = None;
    for delimiter in tried {
        let rows = rows(head, whole, delimiter);
        let columns = usual_columns(&rows);
        if best.as_ref().is_none_or(|(most, ..)| columns > *most) {
            best = Some((columns, delimiter, rows));
        }
    }
    best.map_or((b',', Vec::new()), |(_, delimiter, rows)| (delimiter, rows))
}

fn rows(head: &[u8], whole: bool, delimiter: u8) -> Vec<Row> {
    let mut rows: Vec<Row> = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .from_reader(head)
        .byte_records()
        .map_while(Result::ok)
        .take(ROWS_MAX)
        .map(|record| {
            record
                .iter()
                .map(|cell| cell.trim_ascii().to_vec())
                .collect()
        })
        .collect();
    if !whole && rows.len() > 1 && rows.len() < ROWS_MAX {
        // Cut by the end of the head.
        rows.pop();
    }
    rows
}

/// The number of columns that the most rows have.
fn usual_columns(rows: &[Row]) -> usize {
    let count = |n: usize| rows.iter().filter(|row| row.len() == n).count();
    rows.iter()
        .map(Vec::len)
        .max_by_key(|n| (count(*n), *n))
        .unwrap_or(0)
}

struct Table<'t> {
    head: &'t [u8],
    delimiter: u8,
    rows: &'t [Row],
    options: &'t Options,
}

impl Table<'_> {
    fn layout(&self) -> Result<Layout, FitError> {
        let names = self.names();
        let found = match self.options.format {
            _ if !self.options.columns.is_empty() => {
                let base = names
                    .as_deref()
                    .and_then(by_header)
                    .map(|(_, columns)| columns);
                Some((
                    self.options.format.unwrap_or(Format::Csv),
                    base.unwrap_or_default(),
                ))
            }
            format => names
                .as_deref()
                .map_or_else(|| self.by_position(), by_header)
                .filter(|(found, _)| {
                    format.is_none_or(|format| format == *found || format == Format::Csv)
                })
                .map(|(found, columns)| (format.unwrap_or(found), columns)),
        };
        let (format, mut columns) = found.ok_or_else(|| self.unknown())?;
        self.named(&mut columns, names.as_deref())?;
        let timed = columns.answer.is_some() && columns.end.is_some();
        if columns.talk.is_none() && columns.acc.is_none() && !timed {
            return Err(self.unknown());
        }
        // Columns by number: a first row without a number there is a header.
        let header = names.is_some() || self.first_is_no_call(&columns);
        Ok(self.finish(format, columns, header))
    }

    /// The first row in lower case, if it is a header.
    fn names(&self) -> Option<Vec<String>> {
        let names: Vec<String> = self
            .rows
            .first()?
            .iter()
            .map(|cell| String::from_utf8_lossy(cell).to_lowercase())
            .collect();
        let known = names.iter().any(|name| {
            HEADER_WORDS.contains(&name.as_str()) || self.options.columns.is_name(name)
        });
        known.then_some(names)
    }

    /// Asterisk and FreeSWITCH write beginning, answer, end, duration, billsec and outcome side by side.
    fn by_position(&self) -> Option<(Format, Columns)> {
        self.rows.iter().find_map(|row| {
            row.windows(6).enumerate().find_map(|(at, cells)| {
                let [start, answer, end, whole, talk, outcome] = cells else {
                    return None;
                };
                let stamp = |cell: &[u8]| stamp::parse(cell).is_some();
                let stamp_or_none = |cell: &[u8]| cell.is_empty() || stamp(cell);
                let fits = stamp(start)
                    && stamp_or_none(answer)
                    && stamp_or_none(end)
                    && number::parse(whole).is_some()
                    && number::parse(talk).is_some();
                let format = fits.then(|| outcome_of(outcome)).flatten()?;
                let columns = Columns {
                    start: Some(at),
                    answer: Some(at + 1),
                    end: Some(at + 2),
                    whole: Some(at + 3),
                    talk: Some(at + 4),
                    disposition: (format == Format::Asterisk).then_some(at + 5),
                    acc: None,
                };
                Some((format, columns))
            })
        })
    }

    /// Puts in the columns that the caller has named.
    fn named(&self, columns: &mut Columns, names: Option<&[String]>) -> Result<(), FitError> {
        let given = &self.options.columns;
        let width = usual_columns(self.rows);
        let find = |column: &Option<String>| {
            let Some(column) = column else {
                return Ok(None);
            };
            let lower = column.to_lowercase();
            let by_name = names.and_then(|names| names.iter().position(|name| *name == lower));
            let by_number = column
                .parse::<usize>()
                .ok()
                .filter(|n| (1..=width).contains(n));
            by_name
                .or_else(|| by_number.map(|n| n - 1))
                .map(Some)
                .ok_or_else(|| FitError::NoColumn {
                    column: column.clone(),
                    columns: self.first_cells(),
                    width,
                })
        };
        let (talk, answer, end) = (
            find(&given.duration)?,
            find(&given.answer)?,
            find(&given.end)?,
        );
        if talk.is_some() || end.is_some() {
            columns.acc = None;
        }
        if talk.is_none() && end.is_some() {
            columns.talk = None;
        }
        if talk.is_some() {
            // A whole duration that was guessed does not go with one that was named.
            columns.whole = columns.whole.filter(|_| columns.talk == talk);
        }
        columns.talk = talk.or(columns.talk);
        columns.answer = answer.or(columns.answer);
        columns.end = end.or(columns.end);
        columns.start = find(&given.start)?.or(columns.start);
        Ok(())
    }

    fn first_cells(&self) -> Vec<String> {
        let cells = self.rows.first().into_iter().flatten();
        cells
            .map(|cell| String::from_utf8_lossy(cell).into_owned())
            .collect()
    }

    fn first_is_no_call(&self, columns: &Columns) -> bool {
        let cell = |at: Option<usize>| self.rows.first().and_then(|row| row.get(at?));
        match (cell(columns.talk), cell(columns.end)) {
            (Some(talk), _) => number::parse(talk).is_none(),
            (None, Some(end)) => !end.is_empty() && stamp::parse(end).is_none(),
            (None, None) => false,
        }
    }

    fn finish(&self, format: Format, columns: Columns, header: bool) -> Layout {
        let name = |at: Option<usize>| {
            let first = self.rows.first().filter(|_| header);
            let name = first.and_then(|row| row.get(at?));
            name.map(|name| String::from_utf8_lossy(name).to_lowercase())
        };
        let unit = self
            .options
            .unit
            .unwrap_or(match name(columns.talk).as_deref() {
                Some("billmsec") => 1e-3,
                Some("billusec") => 1e-6,
                _ => 1.0,
            });
        let decimals = self.decimals(&columns, header);
        let grain = (0..decimals).fold(unit, |grain, _| grain / 10.0).max(1e-6);
        let rounding = self.options.rounding.unwrap_or_else(|| {
            let from_instants = columns.talk.is_none();
            match format {
                _ if grain < 1.0 => Rounding::Nearest,
                Format::Freeswitch | Format::Kamailio => Rounding::Difference,
                _ if from_instants => Rounding::Difference,
                _ => Rounding::Down,
            }
        });
        let mut layout = Layout {
            format,
            delimiter: self.delimiter,
            header,
            columns,
            unit,
            grain,
            rounding,
            said: String::new(),
        };
        layout.said = self.sentence(&layout, name(columns.talk));
        layout
    }

    /// Most digits behind the point of the talk time, or of the instants that it is counted from.
    fn decimals(&self, columns: &Columns, header: bool) -> usize {
        let body = self.rows.iter().skip(usize::from(header));
        let most = |at: Option<usize>, of: fn(&[u8]) -> usize| {
            let cells = body.clone().filter_map(|row| row.get(at?));
            cells.map(|cell| of(cell)).max().unwrap_or(0)
        };
        let most = match (columns.talk, columns.acc) {
            (Some(talk), _) => most(Some(talk), number::decimals),
            (None, Some([.., time])) => most(Some(time), stamp::decimals),
            (None, None) => {
                most(columns.answer, stamp::decimals).max(most(columns.end, stamp::decimals))
            }
        };
        most.min(6)
    }

    fn sentence(&self, layout: &Layout, talk: Option<String>) -> String {
        let Layout {
            format, columns, ..
        } = layout;
        let delimiter = DELIMITERS.iter().find(|(d, _)| *d == layout.delimiter);
        let delimiter = delimiter.map_or("given delimiter", |(_, name)| name);
        let header = if layout.header {
            "a header"
        } else {
            "no header"
        };
        let at = |at: Option<usize>| at.map_or(0, |at| at + 1);
        let from = match (columns.talk, columns.acc) {
            (Some(_), _) => format!(
                "talk time from column {}{}",
                at(columns.talk),
                talk.map(|name| format!(" ({name})")).unwrap_or_default()
            ),
            (None, Some([.., time])) => {
                format!("talk time from INVITE to BYE, column {}", time + 1)
            }
            (None, None) => format!(
                "talk time from column {} to column {}",
                at(columns.answer),
                at(columns.end)
            ),
        };
        format!(
            "{}: {} columns by {delimiter}, {header}; {from}",
            format.title(),
            usual_columns(self.rows)
        )
    }

    fn unknown(&self) -> FitError {
        FitError::Unknown {
            asked: self.options.format,
            lines: first_lines(self.head),
        }
    }
}

/// The beginning of a file, to be shown.
fn first_lines(head: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(head);
    let show = |line: &str| {
        let shown: String = line.chars().take(SHOWN_CHARS).collect();
        let dots = if line.chars().nth(SHOWN_CHARS).is_some() {
            "…"
        } else {
            ""
        };
        format!(
            "{}{dots}",
            shown.replace(|c: char| c.is_control() && c != '\t', "?")
        )
    };
    text.lines().take(SHOWN_LINES).map(show).collect()
}

/// The format that writes such an outcome.
fn outcome_of(cell: &[u8]) -> Option<Format> {
    const DISPOSITIONS: [&[u8]; 6] = [
        b"ANSWERED",
        b"NO ANSWER",
        b"BUSY",
        b"FAILED",
        b"CONGESTION",
        b"UNKNOWN",
    ];
    let cause = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_';
    if DISPOSITIONS.contains(&cell) {
        Some(Format::Asterisk)
    } else if !cell.is_empty() && cell.iter().all(cause) && cell.iter().any(u8::is_ascii_uppercase)
    {
        Some(Format::Freeswitch)
    } else {
        None
    }
}

const STARTS: &[&str] = &[
    "calldate",
    "start",
    "start_stamp",
    "start_time",
    "call_start_time",
    "starttime",
    "start_epoch",
];
const ANSWERS: &[&str] = &[
    "answer",
    "answer_stamp",
    "answer_time",
    "answertime",
    "answer_epoch",
];
const ENDS: &[&str] = &["end", "end_stamp", "end_time", "endtime", "end_epoch"];
const TALKS: &[&str] = &["billusec", "billmsec", "billsec", "talk_time"];
/// Words that make a first row a header.
const HEADER_WORDS: &[&str] = &[
    "calldate",
    "start",
    "start_stamp",
    "start_time",
    "call_start_time",
    "starttime",
    "start_epoch",
    "answer",
    "answer_stamp",
    "answer_time",
    "answertime",
    "answer_epoch",
    "end",
    "end_stamp",
    "end_time",
    "endtime",
    "end_epoch",
    "billusec",
    "billmsec",
    "billsec",
    "talk_time",
    "duration",
    "disposition",
    "hangup_cause",
    "callid",
    "sip_call_id",
];

/// Format and columns by the names in a header.
fn by_header(names: &[String]) -> Option<(Format, Columns)> {
    let find = |known: &[&str]| {
        known
            .iter()
            .find_map(|word| names.iter().position(|name| name == word))
    };
    let acc = [
        find(&["method"]),
        find(&["callid"]),
        find(&["sip_code"]),
        find(&["time"]),
    ];
    if let [Some(method), Some(callid), Some(code), Some(time)] = acc {
        let columns = Columns {
            acc: Some([method, callid, code, time]),
            ..Columns::default()
        };
        return Some((Format::Kamailio, columns));
    }
    let (talk, duration) = (find(TALKS), find(&["duration"]));
    let mut columns = Columns {
        start: find(STARTS),
        answer: find(ANSWERS),
        end: find(ENDS),
        whole: duration.filter(|_| talk.is_some()),
        talk: talk.or(duration),
        disposition: find(&["disposition"]),
        acc: None,
    };
    let timed = columns.answer.is_some() && columns.end.is_some();
    let format = if talk.is_some() && columns.disposition.is_some() {
        Format::Asterisk
    } else if talk.is_some() && find(&["hangup_cause"]).is_some() {
        Format::Freeswitch
    } else if duration.is_some()
        && (find(&["call_start_time", "sip_call_id"]).is_some()
            || find(&["start_time"]).is_some() && find(&["end_time"]).is_some())
    {
        // The duration stands for itself: its end is in it.
        columns.end = None;
        Format::Kamailio
    } else if columns.talk.is_some() || timed {
        Format::Csv
    } else {
        return None;
    };
    Some((format, columns))
}
