//! `mod_json_cdr` of FreeSWITCH: an object for each call, on a line of its own or over many.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Read};
use std::rc::Rc;

use serde::Deserialize;
use serde_json::Value;

use super::FitError;
use super::bounded::Bounded;
use super::layout::Layout;
use super::number;
use super::sample::Rounding;
use super::stamp::{SECOND, Stamp};
use super::tally::{Call, Cause, Tally};

#[derive(Deserialize)]
struct Cdr {
    variables: Variables,
}

/// Texts or numbers, as the module's settings have it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Variables {
    duration: Option<Value>,
    uduration: Option<Value>,
    billsec: Option<Value>,
    billmsec: Option<Value>,
    billusec: Option<Value>,
    start_epoch: Option<Value>,
    start_uepoch: Option<Value>,
    answer_epoch: Option<Value>,
    answer_uepoch: Option<Value>,
}

/// Which of the talk times the objects have, the finest first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Talk {
    Micros,
    Millis,
    Seconds,
}

/// Reads all objects.
pub(super) fn read(reader: impl Read, layout: &mut Layout) -> Result<Tally, FitError> {
    let mut calls = Calls {
        talk: None,
        tally: Tally::new(layout.grain, layout.rounding),
        layout,
    };
    let (bounded, budget) = Bounded::new(reader);
    let mut reader = BufReader::with_capacity(1 << 16, bounded);
    let mut line = Vec::new();
    let mut number = 0;
    let mut one_a_line = false;
    let mut broken = false;
    loop {
        budget.renew();
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        if read.map_err(|error| FitError::io(error, number + 1))? == 0 {
            return Ok(calls.finish());
        }
        number += 1;
        // An object that broke off is passed over up to the next that begins a line.
        if line.trim_ascii().is_empty() || (broken && !line.starts_with(b"{")) {
            continue;
        }
        broken = false;
        match serde_json::from_slice::<Cdr>(&line) {
            Ok(cdr) => {
                one_a_line = true;
                calls.object(&cdr, number);
            }
            // An object that goes on on the next line.
            Err(error) if error.is_eof() && !one_a_line => {
                let rest = line.as_slice().chain(&mut reader);
                number = calls.spread(rest, number, &|| budget.renew())?;
                broken = true;
            }
            Err(_) => calls.no_object(number),
        }
    }
}

struct Calls<'c> {
    talk: Option<Talk>,
    tally: Tally,
    layout: &'c mut Layout,
}

impl Calls<'_> {
    /// Objects over many lines, up to the end of the file or to one that is broken. Returns how many lines were read.
    fn spread(&mut self, rest: impl Read, first: u64, renew: &dyn Fn()) -> Result<u64, FitError> {
        let lines = Rc::new(Cell::new(first - 1));
        let counted = Counted {
            reader: rest,
            lines: Rc::clone(&lines),
        };
        let mut objects = serde_json::Deserializer::from_reader(counted).into_iter::<Cdr>();
        loop {
            renew();
            match objects.next() {
                None => return Ok(lines.get()),
                Some(Ok(cdr)) => self.object(&cdr, lines.get() + 1),
                Some(Err(error)) if error.is_io() => {
                    return Err(FitError::io(error.into(), lines.get() + 1));
                }
                Some(Err(_)) => {
                    self.no_object(lines.get() + 1);
                    return Ok(lines.get());
                }
            }
        }
    }

    fn no_object(&mut self, line: u64) {
        self.tally.rows += 1;
        self.tally.bad(Cause::NotJson, line);
    }

    fn object(&mut self, cdr: &Cdr, line: u64) {
        self.tally.rows += 1;
        match self.call(&cdr.variables) {
            Some(call) => self.tally.call(line, call),
            None => self.tally.bad(Cause::NoDuration, line),
        }
    }

    fn call(&mut self, v: &Variables) -> Option<Call> {
        let finest = [
            (Talk::Micros, &v.billusec),
            (Talk::Millis, &v.billmsec),
            (Talk::Seconds, &v.billsec),
        ];
        let found = finest.iter().find(|(_, value)| value.is_some())?.0;
        let talk = *self.talk.get_or_insert_with(|| {
            self.tally.sample = sample(found, self.layout);
            found
        });
        let seconds = match talk {
            Talk::Micros => value(&v.billusec)? / 1e6,
            Talk::Millis => value(&v.billmsec)? / 1e3,
            Talk::Seconds => value(&v.billsec)?,
        };
        let whole = value(&v.uduration)
            .map(|micros| micros / 1e6)
            .filter(|_| talk != Talk::Seconds)
            .or_else(|| value(&v.duration));
        let answer = value(&v.answer_uepoch).or_else(|| value(&v.answer_epoch));
        let answered = answer.map_or(seconds > 0.0, |answer| answer > 0.0);
        let start = value(&v.start_uepoch)
            .map(|micros| micros as Stamp)
            .or_else(|| value(&v.start_epoch).map(|s| (s * SECOND as f64) as Stamp));
        Some(Call {
            start: start.filter(|start| *start > 0),
            talk: answered.then_some(seconds),
            whole,
            ring: whole.map(|whole| whole - seconds),
        })
    }

    fn finish(self) -> Tally {
        let from = match self.talk {
            Some(Talk::Micros) | None => "billusec",
            Some(Talk::Millis) => "billmsec",
            Some(Talk::Seconds) => "billsec",
        };
        self.layout.said = format!("{}; talk time from {from}", self.layout.said);
        self.tally
    }
}

fn sample(talk: Talk, layout: &mut Layout) -> super::Sample {
    (layout.grain, layout.rounding) = match talk {
        Talk::Micros => (1e-6, layout.rounding),
        Talk::Millis => (1e-3, layout.rounding),
        // The difference of two epochs that were cut to seconds.
        Talk::Seconds if layout.rounding == Rounding::Nearest => (1.0, Rounding::Difference),
        Talk::Seconds => (1.0, layout.rounding),
    };
    super::Sample::new(layout.grain, layout.rounding)
}

fn value(value: &Option<Value>) -> Option<f64> {
    match value.as_ref()? {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => number::parse(text.as_bytes()),
        _ => None,
    }
}

/// Counts the lines that are taken from a reader.
struct Counted<R> {
    reader: R,
    lines: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.reader.read(buffer)?;
        let read = buffer.get(..n).unwrap_or_default();
        let lines = read.iter().filter(|b| **b == b'\n').count();
        self.lines.set(self.lines.get() + lines as u64);
        Ok(n)
    }
}
