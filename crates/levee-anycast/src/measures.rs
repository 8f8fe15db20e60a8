//! Measured loads for the responder, as recorded or as they come through a pipe.
//!
//! Either JSON lines, one for each interval:
//!
//! ```text
//! {"time":1764522060,"sites":{"AMS":{"observed":85000,"known_good":[{"observed":950,"expected":2500,"expected_sd":50}]},"BOS":{"observed":16000}}}
//! {"time":1764522075,"operator":"hold"}
//! {"time":1764522075,"operator":{"force":"+1xAMS"}}
//! ```
//!
//! or CSV with a header, one row for each site and source; rows of the same time are one interval:
//!
//! ```text
//! time,site,observed,known_good,expected,expected_sd
//! 1764522060,AMS,85000,950,2500,50
//! 1764522060,BOS,16000,,,
//! ```
//!
//! `time` is in seconds since 1970, when the interval ended. `observed` is in the unit of the capacities; empty, or a site that is
//! left out: it did not report. `normal` may be given besides, in both. The columns may come in any order. Of `expected_sd`, 0
//! is assumed where it is missing.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, Read as _},
};

use levee_policy::{
    Span, Time,
    reroute::{Measure, Operator, Playbook, SiteId, SiteMeasure, estimate::KnownGood},
};
use serde::Deserialize;

/// The longest line: 250 sites with ten sources each.
pub const LINE_MAX: usize = 1 << 20;
/// The most sources of a site in an interval; the estimator takes no more.
pub const SOURCES_MAX: usize = levee_policy::reroute::estimate::SOURCES_MAX;

/// Something for the responder.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The line that it ends on, from 1.
    pub line: u64,
    /// When.
    pub at: Time,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// An interval is over.
    Measure(Measure),
    /// The operator decided.
    Operator(Operator),
}

/// Why measures cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasuresError {
    /// The file.
    #[error("line {line}: cannot be read")]
    Io {
        /// From 1.
        line: u64,
        /// Why not.
        source: io::Error,
    },
    /// A line of it.
    #[error("line {line}: {what}, expected {expected}")]
    Line {
        /// From 1.
        line: u64,
        /// What there is.
        what: String,
        /// What there should be.
        expected: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLine {
    time: f64,
    sites: Option<BTreeMap<String, SiteMeasure>>,
    operator: Option<RawOperator>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawOperator {
    Hold,
    Release,
    Force(String),
}

/// The columns of a CSV file.
const COLUMNS: [&str; 7] = [
    "time",
    "site",
    "observed",
    "known_good",
    "expected",
    "expected_sd",
    "normal",
];

enum Form {
    /// Nothing was read yet.
    Unknown,
    Json,
    /// Where each of [`COLUMNS`] is.
    Csv([Option<usize>; COLUMNS.len()]),
}

/// Reads events one by one.
pub struct Reader<'p, R> {
    source: R,
    playbook: &'p Playbook,
    form: Form,
    line: u64,
    /// Rows of CSV that have the same time.
    open: Option<(Time, Measure)>,
    done: bool,
}

impl<'p, R: BufRead> Reader<'p, R> {
    /// Measures of the sites of this playbook.
    pub fn new(source: R, playbook: &'p Playbook) -> Self {
        Self {
            source,
            playbook,
            form: Form::Unknown,
            line: 0,
            open: None,
            done: false,
        }
    }

    /// The next line that is not empty, without its end.
    fn next_line(&mut self) -> Result<Option<String>, MeasuresError> {
        loop {
            self.line += 1;
            let mut bytes = Vec::new();
            let mut limited = self.source.by_ref().take(LINE_MAX as u64 + 1);
            let read = limited.read_until(b'\n', &mut bytes);
            read.map_err(|source| MeasuresError::Io {
                line: self.line,
                source,
            })?;
            if bytes.is_empty() {
                return Ok(None);
            }
            if bytes.len() > LINE_MAX {
                return Err(self.bad("a longer line", &format!("at most {LINE_MAX} bytes")));
            }
            let text = String::from_utf8(bytes)
                .map_err(|_| self.bad("bytes that are no UTF-8", "text"))?;
            // A spreadsheet's byte order mark.
            let text = text.trim_start_matches('\u{feff}').trim();
            if !text.is_empty() {
                return Ok(Some(text.to_owned()));
            }
        }
    }

    fn bad(&self, what: &str, expected: &str) -> MeasuresError {
        MeasuresError::Line {
            line: self.line,
            what: what.to_owned(),
            expected: expected.to_owned(),
        }
    }

    fn advance(&mut self) -> Result<Option<Event>, MeasuresError> {
        loop {
            let Some(text) = self.next_line()? else {
                self.done = true;
                return Ok(self.close());
            };
            if matches!(self.form, Form::Unknown) {
                self.form = if text.starts_with('{') {
                    Form::Json
                } else {
                    Form::Csv(self.header(&text)?)
                };
                if matches!(self.form, Form::Csv(_)) {
                    continue;
                }
            }
            let event = match &self.form {
                Form::Csv(columns) => {
                    let columns = *columns;
                    self.row(&text, &columns)?
                }
                Form::Json | Form::Unknown => Some(self.object(&text)?),
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    fn event(&self, at: Time, what: What) -> Event {
        Event {
            line: self.line,
            at,
            what,
        }
    }

    fn close(&mut self) -> Option<Event> {
        let (at, measure) = self.open.take()?;
        let mut event = self.event(at, What::Measure(measure));
        event.line -= 1;
        Some(event)
    }

    fn time(&self, seconds: f64) -> Result<Time, MeasuresError> {
        let span = Span::from_secs_f64(seconds);
        let span = span.ok_or_else(|| {
            self.bad(
                &format!("the time {seconds}"),
                "seconds since 1970, such as 1764522060",
            )
        })?;
        Ok(Time::ZERO + span)
    }

    fn site(&self, name: &str) -> Result<SiteId, MeasuresError> {
        let sites = self.playbook.sites();
        sites.find(name).ok_or_else(|| {
            let names: Vec<&str> = sites.names().collect();
            let expected = format!("a site of the playbook: {}", names.join(", "));
            self.bad(&format!("the site {name:?}"), &expected)
        })
    }

    fn empty(&self) -> Measure {
        Measure {
            sites: vec![SiteMeasure::default(); self.playbook.sites().len()],
        }
    }

    fn object(&self, text: &str) -> Result<Event, MeasuresError> {
        let raw: RawLine = serde_json::from_str(text).map_err(|error| {
            let expected = r#"{"time":SECONDS,"sites":{"NAME":{"observed":LOAD}}}"#;
            self.bad(&error.to_string(), expected)
        })?;
        let at = self.time(raw.time)?;
        let what = match (raw.sites, raw.operator) {
            (Some(sites), None) => {
                let mut measure = self.empty();
                for (name, of_site) in sites {
                    let site = self.site(&name)?;
                    self.check(&name, &of_site)?;
                    measure.sites[site.index()] = of_site;
                }
                What::Measure(measure)
            }
            (None, Some(RawOperator::Hold)) => What::Operator(Operator::Hold),
            (None, Some(RawOperator::Release)) => What::Operator(Operator::Release),
            (None, Some(RawOperator::Force(name))) => {
                let play = self.playbook.find(&name).ok_or_else(|| {
                    let expected = format!("one of {}", self.playbook.names());
                    self.bad(&format!("the configuration {name:?}"), &expected)
                })?;
                What::Operator(Operator::Force { play })
            }
            _ => return Err(self.bad("a line", "either \"sites\" or \"operator\"")),
        };
        Ok(self.event(at, what))
    }

    fn check(&self, name: &str, of_site: &SiteMeasure) -> Result<(), MeasuresError> {
        let loads = of_site.observed.iter().chain(&of_site.normal).copied();
        let counts = of_site.known_good.iter();
        let counts = counts.flat_map(|k| [k.observed, k.expected, k.expected_sd]);
        if let Some(bad) = loads.chain(counts).find(|x| !(x.is_finite() && *x >= 0.0)) {
            return Err(self.bad(&format!("{bad} at {name}"), "a number of 0 or more"));
        }
        if of_site.known_good.len() > SOURCES_MAX {
            let what = format!("{} sources at {name}", of_site.known_good.len());
            return Err(self.bad(&what, &format!("at most {SOURCES_MAX}")));
        }
        Ok(())
    }

    fn fields(&self, text: &str) -> Result<csv::StringRecord, MeasuresError> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let record = reader.records().next();
        let record = record.unwrap_or_else(|| Ok(csv::StringRecord::new()));
        record.map_err(|error| self.bad(&error.to_string(), "a row of CSV"))
    }

    fn header(&self, text: &str) -> Result<[Option<usize>; COLUMNS.len()], MeasuresError> {
        let mut places = [None; COLUMNS.len()];
        for (place, name) in self.fields(text)?.iter().enumerate() {
            let column = COLUMNS.iter().position(|column| *column == name);
            match column {
                Some(column) if places[column].is_none() => places[column] = Some(place),
                _ => {
                    let expected = format!("columns out of {}, each once", COLUMNS.join(", "));
                    return Err(self.bad(&format!("the column {name:?}"), &expected));
                }
            }
        }
        for (name, place) in COLUMNS.iter().zip(&places).take(3) {
            if place.is_none() {
                return Err(self.bad(&format!("no column {name:?}"), "time, site and observed"));
            }
        }
        Ok(places)
    }

    /// Takes a row; gives the interval before it once that is complete.
    fn row(
        &mut self,
        text: &str,
        columns: &[Option<usize>; COLUMNS.len()],
    ) -> Result<Option<Event>, MeasuresError> {
        let fields = self.fields(text)?;
        let field = |column: usize| {
            let field = columns[column].and_then(|place| fields.get(place));
            field.filter(|field| !field.is_empty())
        };
        let number = |column: usize| -> Result<Option<f64>, MeasuresError> {
            let Some(text) = field(column) else {
                return Ok(None);
            };
            let number: Option<f64> = text.parse().ok();
            let number = number.filter(|number| number.is_finite() && *number >= 0.0);
            number.map(Some).ok_or_else(|| {
                let what = format!("{text:?} in column {}", COLUMNS[column]);
                self.bad(&what, "a number of 0 or more")
            })
        };
        let seconds = number(0)?.ok_or_else(|| self.bad("no time", "seconds since 1970"))?;
        let at = self.time(seconds)?;
        let name = field(1).ok_or_else(|| self.bad("no site", "its name"))?;
        let site = self.site(name)?;
        let (observed, normal) = (number(2)?, number(6)?);
        let known_good = match (number(3)?, number(4)?) {
            (Some(observed), Some(expected)) => Some(KnownGood {
                observed,
                expected,
                expected_sd: number(5)?.unwrap_or(0.0),
            }),
            (None, None) => None,
            _ => return Err(self.bad("half of known_good and expected", "both or none")),
        };
        let before = match &self.open {
            Some((time, _)) if *time == at => None,
            _ => self.close(),
        };
        let empty = self.empty();
        let (_, measure) = self.open.get_or_insert((at, empty));
        let of_site = &mut measure.sites[site.index()];
        if of_site.observed.is_some() && of_site.observed != observed {
            let what = format!("another load of {name} at the same time");
            return Err(self.bad(
                &what,
                "the same in each row, which may differ in known_good",
            ));
        }
        of_site.observed = observed;
        of_site.normal = normal.or(of_site.normal);
        of_site.known_good.extend(known_good);
        if of_site.known_good.len() > SOURCES_MAX {
            let what = format!("more sources of {name}");
            return Err(self.bad(&what, &format!("at most {SOURCES_MAX}")));
        }
        Ok(before)
    }
}

impl<R: BufRead> Iterator for Reader<'_, R> {
    type Item = Result<Event, MeasuresError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let event = self.advance();
        // What comes after a mistake may be anything.
        self.done |= event.is_err();
        event.transpose()
    }
}

#[cfg(test)]
mod tests {
    use levee_policy::reroute::{Play, Routing, Sites};

    use super::*;

    fn playbook() -> Playbook {
        let play = |name: &str| Play {
            routing: Routing {
                name: name.to_owned(),
                announcements: None,
            },
            blocks: vec![60, 40],
            unknown: 0,
            load: None,
            partial: false,
            ineffective: false,
        };
        let sites = Sites::new(["AMS", "BOS"]).unwrap();
        Playbook::new(sites, vec![play("baseline"), play("+1xAMS")], None).unwrap()
    }

    fn read(text: &str) -> Result<Vec<Event>, String> {
        let playbook = playbook();
        let events = Reader::new(text.as_bytes(), &playbook);
        events
            .map(|event| event.map_err(|error| error.to_string()))
            .collect()
    }

    fn site(observed: f64, known_good: &[(f64, f64, f64)]) -> SiteMeasure {
        SiteMeasure {
            observed: Some(observed),
            normal: None,
            known_good: known_good
                .iter()
                .map(|(observed, expected, expected_sd)| KnownGood {
                    observed: *observed,
                    expected: *expected,
                    expected_sd: *expected_sd,
                })
                .collect(),
        }
    }

    fn measure(line: u64, seconds: u64, sites: [SiteMeasure; 2]) -> Event {
        Event {
            line,
            at: Time::ZERO + Span::from_secs(seconds),
            what: What::Measure(Measure {
                sites: sites.into(),
            }),
        }
    }

    #[test]
    fn both_forms_say_the_same() {
        let ams = site(85.0, &[(9.0, 25.0, 5.0), (1.0, 2.0, 0.0)]);
        let none = SiteMeasure::default;
        let json = r#"{"time":60,"sites":{"AMS":{"observed":85,"known_good":[
            {"observed":9,"expected":25,"expected_sd":5},{"observed":1,"expected":2,"expected_sd":0}]},"BOS":{"observed":16.5}}}"#
            .replace('\n', "");
        let json =
            format!("{json}\n\n{{\"time\":120,\"sites\":{{\"BOS\":{{\"observed\":null}}}}}}\n");
        let csv = "\u{feff}time,site,known_good,observed,expected,expected_sd\r\n\
            60,AMS,9,85,25,5\n60,BOS,,16.5\n60,\"AMS\",1,85,2,\n120,BOS,,,,";
        let read_json = read(&json).unwrap();
        assert_eq!(
            read_json,
            [
                measure(1, 60, [ams.clone(), site(16.5, &[])]),
                measure(3, 120, [none(), none()])
            ]
        );
        let read_csv = read(csv).unwrap();
        assert_eq!(
            read_csv,
            [
                measure(4, 60, [ams, site(16.5, &[])]),
                measure(5, 120, [none(), none()])
            ]
        );
    }

    #[test]
    fn operators_are_read() {
        let text = "{\"time\":1.5,\"operator\":\"hold\"}\n{\"time\":2,\"operator\":{\"force\":\"+1xAMS\"}}\n{\"time\":3,\"operator\":\"release\"}";
        let operators: Vec<What> = read(text).unwrap().into_iter().map(|e| e.what).collect();
        let expect = [
            Operator::Hold,
            Operator::Force { play: 1 },
            Operator::Release,
        ];
        assert_eq!(operators, expect.map(What::Operator));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let csv =
            |row: &str| format!("time,site,observed,known_good,expected\n60,AMS,1,,\n{row}\n");
        let long = format!("{{\"x\":\"{}\"}}", "x".repeat(LINE_MAX));
        let many = csv(&"60,AMS,1,2,3\n".repeat(SOURCES_MAX + 1));
        for (text, says) in [
            (
                "site,observed\n".to_owned(),
                "line 1: no column \"time\", expected time, site and observed",
            ),
            (
                "time,site,observed,time\n".to_owned(),
                "line 1: the column \"time\", expected columns out of",
            ),
            ("time,site,load\n".to_owned(), "line 1: the column \"load\""),
            (
                csv("60,LHR,1,,"),
                "line 3: the site \"LHR\", expected a site of the playbook: AMS, BOS",
            ),
            (csv("60,,1,,"), "line 3: no site"),
            (csv(",AMS,1,,"), "line 3: no time"),
            (
                csv("60,BOS,-1,,"),
                "line 3: \"-1\" in column observed, expected a number of 0 or more",
            ),
            (csv("60,BOS,nan,,"), "line 3: \"nan\" in column observed"),
            (
                csv("60,BOS,1,5,"),
                "line 3: half of known_good and expected, expected both or none",
            ),
            (
                csv("60,AMS,2,,"),
                "line 3: another load of AMS at the same time",
            ),
            (
                csv("1e30,AMS,2,,"),
                "line 3: the time 1000000000000000000000000000000, expected seconds",
            ),
            (
                many,
                &format!("line {}: more sources of AMS", SOURCES_MAX + 3),
            ),
            (
                "{\"time\":1}".to_owned(),
                "line 1: a line, expected either \"sites\" or \"operator\"",
            ),
            (
                "{\"time\":-1,\"operator\":\"hold\"}".to_owned(),
                "line 1: the time -1",
            ),
            (
                "{\"time\":1,\"operator\":{\"force\":\"x\"}}".to_owned(),
                "line 1: the configuration \"x\", expected one of baseline, +1xAMS",
            ),
            (
                "{\"time\":1,\"sites\":{\"LHR\":{}}}".to_owned(),
                "line 1: the site \"LHR\"",
            ),
            (
                "{\"time\":1,\"sites\":{\"AMS\":{\"observed\":-1}}}".to_owned(),
                "line 1: -1 at AMS",
            ),
            (
                "{\"time\":1,\"sites\":{\"AMS\":{\"seen\":1}}}".to_owned(),
                "unknown field `seen`",
            ),
            ("{".to_owned(), "line 1: EOF while parsing"),
            (long, "line 1: a longer line, expected at most"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let playbook = playbook();
        let error = Reader::new(&b"\xff\xfe\n"[..], &playbook)
            .next()
            .unwrap()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1: bytes that are no UTF-8, expected text"
        );
        assert_eq!(read("").unwrap(), []);
    }
}
