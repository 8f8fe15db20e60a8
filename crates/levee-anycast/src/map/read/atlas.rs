//! RIPE Atlas DNS results: which server answered which probe.
//!
//! Each result is a JSON object; a file has one a line, one after the other, or all in an array. Firmware has written them in
//! several forms: the answer in `result`, or several in `resultset` (a probe that asks its own resolvers), or `error`; decoded
//! `answers` with `RDATA` as a text or as a list of texts, or nothing but the message in `abuf` (base64).
//! What counts is a TXT record of `hostname.bind` or `id.server` (RFC 4892).

use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::bufread::MultiGzDecoder;
use serde_json::Value;
use simple_dns::Packet;
use simple_dns::rdata::RData;

use super::Form;
use super::error::{At, Problem, ReadError, shown};
use super::sink::Sink;
use crate::map::{Block, Rtt};

/// Bytes of a result at most. A DNS message has 64 KiB, which is 88 KiB in base64, and a `resultset` some of them.
const RESULT_MAX: usize = 1 << 20;
/// Resolvers of a probe that are looked at.
const RESULTSET_MAX: usize = 64;

pub(super) fn read(reader: impl BufRead, sink: &mut Sink<'_>) -> Result<(), ReadError> {
    sink.report.form = Form::Atlas;
    sink.report.unanswered = Some(0);
    sink.report.off_address = (!sink.options.service.is_empty()).then_some(0);
    let mut values = Values {
        reader,
        line: 1,
        array: false,
        ended: false,
    };
    let mut text = Vec::new();
    loop {
        let line = match values.next(&mut text) {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(()),
            // There is no telling where the next one begins.
            Err((line, problem)) => return sink.bad(At::Line(line), problem),
        };
        sink.report.records += 1;
        let place = At::Line(line);
        match serde_json::from_slice::<Value>(&text) {
            Ok(value) => match result(&value, sink) {
                Ok(()) => {}
                Err(problem) if problem.is_of_file() => return Err(sink.error(place, problem)),
                Err(problem) => sink.bad(place, problem)?,
            },
            Err(error) => {
                // The library counts lines from the beginning of the value.
                let place = At::Line(line + (error.line() as u64).saturating_sub(1));
                let problem = Sink::field("a result", &text, &format!("JSON ({error})"));
                sink.bad(place, problem)?;
            }
        }
    }
}

fn result(value: &Value, sink: &mut Sink<'_>) -> Result<(), Problem> {
    let kind = value.get("type").and_then(Value::as_str);
    if !value.is_object() || kind.is_some_and(|kind| kind != "dns") {
        sink.report.other += 1;
        return Ok(());
    }
    let block = source(value)?;
    if let Some(seconds) = value.get("timestamp").and_then(Value::as_u64) {
        sink.time(seconds);
    }
    let set = value.get("resultset").and_then(Value::as_array);
    let several = set.map(|set| set.iter().take(RESULTSET_MAX));
    let mut one = false;
    for entry in several.into_iter().flatten() {
        one = true;
        answer(entry, block, sink)?;
    }
    if !one {
        answer(value, block, sink)?;
    }
    Ok(())
}

/// A query of a probe, and what came of it: for those who count what is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeQuery {
    /// The probe.
    pub probe: u32,
    /// When it was sent, in seconds of Unix.
    pub time_s: i64,
    /// What came of it.
    pub reply: ProbeReply,
}

/// What came of a query of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeReply {
    /// A server answered and said what it is called.
    Identity(String),
    /// A server answered and did not say it.
    Unnamed,
    /// No answer.
    Lost,
    /// The probe could not send: it had no name server, no socket, no address.
    NotSent,
}

/// Reads all queries of a file of DNS results, gzipped or not, and returns how many there were.
///
/// # Errors
///
/// If it cannot be read, or something in it is malformed.
pub fn read_queries(
    file: &Path,
    reader: impl Read,
    mut take: impl FnMut(ProbeQuery),
) -> Result<u64, ReadError> {
    let error = |at, problem| ReadError {
        file: file.to_owned(),
        at,
        problem,
    };
    let mut reader = BufReader::new(reader);
    let begin = reader.fill_buf();
    let begin = begin.map_err(|problem| error(At::File, Problem::Io(problem)))?;
    let reader: Box<dyn BufRead + '_> = if begin.starts_with(&[0x1f, 0x8b]) {
        Box::new(BufReader::new(MultiGzDecoder::new(reader)))
    } else {
        Box::new(reader)
    };
    let mut values = Values {
        reader,
        line: 1,
        array: false,
        ended: false,
    };
    let (mut text, mut count) = (Vec::new(), 0);
    loop {
        let line = match values.next(&mut text) {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(count),
            Err((line, problem)) => return Err(error(At::Line(line), problem)),
        };
        let value = serde_json::from_slice::<Value>(&text).map_err(|problem| {
            let place = At::Line(line + (problem.line() as u64).saturating_sub(1));
            error(
                place,
                Sink::field("a result", &text, &format!("JSON ({problem})")),
            )
        })?;
        count += queries(&value, &mut take).map_err(|problem| error(At::Line(line), problem))?;
    }
}

fn queries(value: &Value, take: &mut impl FnMut(ProbeQuery)) -> Result<u64, Problem> {
    let kind = value.get("type").and_then(Value::as_str);
    if !value.is_object() || kind.is_some_and(|kind| kind != "dns") {
        return Ok(0);
    }
    let field = |column: &str, expected: &str| {
        let found = value
            .get(column)
            .map_or("missing".to_owned(), Value::to_string);
        Sink::field(column, found.as_bytes(), expected)
    };
    let probe = value.get("prb_id").and_then(Value::as_u64);
    let probe = probe
        .and_then(|probe| u32::try_from(probe).ok())
        .ok_or_else(|| field("prb_id", "the number of a probe"))?;
    let set = value.get("resultset").and_then(Value::as_array);
    let entries = match set {
        Some(set) => &set[..set.len().min(RESULTSET_MAX)],
        None => std::slice::from_ref(value),
    };
    for entry in entries {
        let time = |entry: &Value, key| entry.get(key).and_then(Value::as_i64);
        let time_s = time(entry, "time")
            .or(time(value, "timestamp"))
            .ok_or_else(|| field("timestamp", "seconds of Unix"))?;
        take(ProbeQuery {
            probe,
            time_s,
            reply: reply(entry),
        });
    }
    Ok(entries.len() as u64)
}

/// Errors of the probe itself, by the keys of `error`; a timeout is none.
const NOT_SENT: [&str; 4] = ["getaddrinfo", "nameserver", "socket", "sendto"];

fn reply(entry: &Value) -> ProbeReply {
    match entry.get("result") {
        Some(result) => identity(result).map_or(ProbeReply::Unnamed, ProbeReply::Identity),
        None => match entry.get("error").and_then(Value::as_object) {
            Some(error)
                if !error.contains_key("timeout")
                    && NOT_SENT.iter().any(|key| error.contains_key(*key)) =>
            {
                ProbeReply::NotSent
            }
            _ => ProbeReply::Lost,
        },
    }
}

/// The block of the probe: the address that the Internet sees, or in its absence the probe's own.
fn source(value: &Value) -> Result<Option<Block>, Problem> {
    let text = |key| value.get(key).and_then(Value::as_str);
    let Some(from) = text("from")
        .filter(|from| !from.is_empty())
        .or(text("src_addr"))
    else {
        return Ok(None);
    };
    let address = from.parse::<IpAddr>().map_err(|_| Problem::Field {
        column: "from".to_owned(),
        found: shown(from.as_bytes()),
        expected: "an address".to_owned(),
    })?;
    Ok(Some(Block::of(address)))
}

fn answer(entry: &Value, block: Option<Block>, sink: &mut Sink<'_>) -> Result<(), Problem> {
    let Some(result) = entry.get("result") else {
        // With `error`, or without anything: a timeout, mostly.
        *sink.report.unanswered.get_or_insert(0) += 1;
        return Ok(());
    };
    let to = entry.get("dst_addr").and_then(Value::as_str);
    let to = to.and_then(|to| to.parse::<IpAddr>().ok());
    if to.is_some_and(|to| !sink.is_service(to)) {
        *sink.report.off_address.get_or_insert(0) += 1;
        return Ok(());
    }
    let (Some(block), Some(identity)) = (block, identity(result)) else {
        sink.report.other += 1;
        return Ok(());
    };
    let patterns = &sink.options.patterns;
    let site = if patterns.is_empty() {
        Some(identity.clone())
    } else {
        patterns.iter().find_map(|pattern| pattern.site(&identity))
    };
    let Some(site) = site else {
        sink.no_site(&identity);
        return Ok(());
    };
    let rtt = result.get("rt").and_then(Value::as_f64);
    let site = sink.site(site.as_bytes())?;
    sink.reply(block, site, rtt.and_then(Rtt::from_ms));
    Ok(())
}

/// What the server calls itself.
fn identity(result: &Value) -> Option<String> {
    let answers = result.get("answers").and_then(Value::as_array);
    let mut answers = answers.map(Vec::as_slice).unwrap_or_default().iter();
    let decoded = answers.find_map(|answer| {
        let name = answer.get("NAME").and_then(Value::as_str)?;
        let kind = answer.get("TYPE")?;
        let txt = kind.as_str() == Some("TXT") || kind.as_u64() == Some(16);
        if !txt || !asks_identity(name) {
            return None;
        }
        match answer.get("RDATA")? {
            Value::String(text) => Some(text.clone()),
            Value::Array(texts) => Some(texts.iter().filter_map(Value::as_str).collect()),
            _ => None,
        }
    });
    decoded
        .or_else(|| message(result.get("abuf")?.as_str()?))
        .filter(|identity| !identity.is_empty())
}

fn asks_identity(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    ["hostname.bind", "id.server"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// The identity in a DNS message.
fn message(base64: &str) -> Option<String> {
    let bytes = STANDARD.decode(base64).ok()?;
    let packet = Packet::parse(&bytes).ok()?;
    packet
        .answers
        .iter()
        .find_map(|answer| match &answer.rdata {
            RData::TXT(text) if asks_identity(&answer.name.to_string()) => {
                String::try_from(text.clone()).ok()
            }
            _ => None,
        })
}

/// Cuts a file into JSON values: one after the other, or those of an array. No value is held but the present one.
struct Values<R> {
    reader: R,
    line: u64,
    array: bool,
    /// The array has ended.
    ended: bool,
}

impl<R: BufRead> Values<R> {
    /// Puts the next value into `text`, and gives the line on which it begins.
    fn next(&mut self, text: &mut Vec<u8>) -> Result<Option<u64>, (u64, Problem)> {
        text.clear();
        let Some(first) = self.begin()? else {
            return Ok(None);
        };
        let begin = self.line;
        let mut scan = Scan::default();
        let mut byte = first;
        loop {
            text.push(byte);
            if text.len() > RESULT_MAX {
                return Err((begin, Problem::TooLong { limit: RESULT_MAX }));
            }
            if scan.ends(byte) {
                return Ok(Some(begin));
            }
            byte = match self.byte(true)? {
                // A number or word ends before what comes next.
                Some(next) if scan.depth == 0 && !scan.text && b",]\n\r\t {[".contains(&next) => {
                    return Ok(Some(begin));
                }
                Some(next) => next,
                None if scan.depth == 0 && !scan.text => return Ok(Some(begin)),
                None => {
                    let problem = Problem::Damaged("it ends inside a result".to_owned());
                    return Err((begin, problem));
                }
            };
            self.byte(false)?;
        }
    }

    /// The first byte of the next value. Passes over space and commas, and over the brackets of the array around all.
    fn begin(&mut self) -> Result<Option<u8>, (u64, Problem)> {
        loop {
            let Some(byte) = self.byte(false)? else {
                return if self.array && !self.ended {
                    let problem = Problem::Damaged("the list of results does not end".to_owned());
                    Err((self.line, problem))
                } else {
                    Ok(None)
                };
            };
            match byte {
                b'[' if !self.array => self.array = true,
                b']' if self.array => self.ended = true,
                b',' | 0xef | 0xbb | 0xbf => {}
                byte if byte.is_ascii_whitespace() => {}
                byte => return Ok(Some(byte)),
            }
        }
    }

    /// The next byte, which stays if it is only looked at.
    fn byte(&mut self, look: bool) -> Result<Option<u8>, (u64, Problem)> {
        let buffer = self.reader.fill_buf();
        let buffer = buffer.map_err(|error| (self.line, Problem::Damaged(error.to_string())))?;
        let Some(byte) = buffer.first().copied() else {
            return Ok(None);
        };
        if !look {
            self.reader.consume(1);
            self.line += u64::from(byte == b'\n');
        }
        Ok(Some(byte))
    }
}

/// Where inside a JSON value a byte is, as far as its end depends on it.
#[derive(Default)]
struct Scan {
    depth: u32,
    /// Inside a text.
    text: bool,
    escaped: bool,
}

impl Scan {
    /// Whether the value ends with this byte.
    fn ends(&mut self, byte: u8) -> bool {
        if self.text {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.text = false;
                    return self.depth == 0;
                }
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}
