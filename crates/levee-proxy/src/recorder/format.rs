//! The lines of a recording.

use std::io;

use levee_policy::Time;
use serde::{Deserialize, Serialize};

use super::Entry;
use super::machine::Recorded;

/// Version of the format; a change that an older reader would misread takes the next number.
pub const VERSION: u32 = 1;
/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The front stopped, or a new recording began.
    Stopped,
    /// The file has reached its bound.
    Bound,
    /// Entries came faster than the disk took them.
    QueueFull,
    /// The file could not be written.
    Failed,
}

/// A line after the first.
pub(super) enum Line<M: Recorded> {
    Input(Time, M::Input),
    Deadline(Time),
    Output(Time, M::Output),
    End(EndReason),
}

/// A line as it is written; exactly one of the options besides `t` is there.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<I, O> {
    #[serde(skip_serializing_if = "Option::is_none")]
    t: Option<Time>,
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    input: Option<I>,
    #[serde(rename = "out", skip_serializing_if = "Option::is_none")]
    output: Option<O>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<EndReason>,
}

// Not derived: that would ask a default of the words.
impl<I, O> Default for Fields<I, O> {
    fn default() -> Self {
        Fields {
            t: None,
            input: None,
            output: None,
            deadline: None,
            end: None,
        }
    }
}

/// Reads one line.
pub(super) fn parse<M: Recorded>(line: &[u8]) -> Result<Line<M>, String> {
    let fields: Fields<M::Input, M::Output> =
        serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match fields {
        Fields {
            t: Some(t),
            input: Some(input),
            output: None,
            deadline: None,
            end: None,
        } => Ok(Line::Input(t, input)),
        Fields {
            t: Some(t),
            input: None,
            output: Some(output),
            deadline: None,
            end: None,
        } => Ok(Line::Output(t, output)),
        Fields {
            t: Some(t),
            input: None,
            output: None,
            deadline: Some(true),
            end: None,
        } => Ok(Line::Deadline(t)),
        Fields {
            t: None,
            input: None,
            output: None,
            deadline: None,
            end: Some(reason),
        } => Ok(Line::End(reason)),
        _ => Err("neither an input, an output, a deadline nor an end".to_owned()),
    }
}

/// Whether it is the last line of a recording, of any machine.
pub(super) fn is_end(line: &[u8]) -> bool {
    let fields = serde_json::from_slice::<Fields<serde_json::Value, serde_json::Value>>(line);
    fields.is_ok_and(|fields| fields.end.is_some())
}

pub(super) fn header_line(line: &mut Vec<u8>, header: &impl Serialize) -> io::Result<()> {
    json_line(line, header)
}

pub(super) fn entry_line<M: Recorded>(line: &mut Vec<u8>, entry: &Entry<M>) -> io::Result<()> {
    let fields = match entry {
        Entry::Input(t, input) => Fields {
            t: Some(*t),
            input: Some(input),
            ..Fields::default()
        },
        Entry::Deadline(t) => Fields {
            t: Some(*t),
            deadline: Some(true),
            ..Fields::default()
        },
        Entry::Output(t, output) => Fields {
            t: Some(*t),
            output: Some(output),
            ..Fields::default()
        },
    };
    json_line(line, &fields)
}

pub(super) fn end_line(line: &mut Vec<u8>, reason: EndReason) -> io::Result<()> {
    json_line(
        line,
        &Fields::<(), ()> {
            end: Some(reason),
            ..Fields::default()
        },
    )
}

fn json_line(line: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    line.clear();
    serde_json::to_writer(&mut *line, value)?;
    line.push(b'\n');
    Ok(())
}
