//! The lines of a recording.

use std::io;

use levee_policy::Time;
use levee_policy::selective::{Config, Input, Output};
use serde::{Deserialize, Serialize};

use super::Entry;

/// Version of the format; a change that an older reader would misread takes the next number.
pub const VERSION: u32 = 1;
/// [`Header::machine`] of this defence.
pub(super) const MACHINE: &str = "selective";

/// The first line: what a fresh machine is made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`] of the writer.
    pub levee_events: u32,
    /// Which defence: `selective`.
    pub machine: String,
    /// Seed of [`policy_rng`](super::policy_rng).
    pub seed: u64,
    /// `k`.
    pub capacity: u32,
    /// The `[defense]` table.
    pub config: Config,
}

impl Header {
    /// The header of a recording that starts now.
    pub fn new(seed: u64, capacity: u32, config: Config) -> Self {
        Header {
            levee_events: VERSION,
            machine: MACHINE.to_owned(),
            seed,
            capacity,
            config,
        }
    }
}

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
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Input(Time, Input),
    Deadline(Time),
    Output(Time, Output),
    End(EndReason),
}

/// A line as it is written; exactly one of the options besides `t` is there.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    t: Option<Time>,
    #[serde(default, rename = "in", skip_serializing_if = "Option::is_none")]
    input: Option<Input>,
    #[serde(default, rename = "out", skip_serializing_if = "Option::is_none")]
    output: Option<Output>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<EndReason>,
}

#[derive(Serialize)]
struct InputLine<'e> {
    t: Time,
    #[serde(rename = "in")]
    input: &'e Input,
}

/// Reads one line.
pub(super) fn parse(line: &[u8]) -> Result<Line, String> {
    let fields: Fields = serde_json::from_slice(line).map_err(|error| error.to_string())?;
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

pub(super) fn header_line(line: &mut Vec<u8>, header: &Header) -> io::Result<()> {
    json_line(line, header)
}

pub(super) fn entry_line(line: &mut Vec<u8>, entry: &Entry) -> io::Result<()> {
    match entry {
        Entry::Input(t, input) => json_line(line, &InputLine { t: *t, input }),
        Entry::Deadline(t) => json_line(
            line,
            &Fields {
                t: Some(*t),
                deadline: Some(true),
                ..Fields::default()
            },
        ),
        Entry::Output(t, output) => json_line(
            line,
            &Fields {
                t: Some(*t),
                output: Some(*output),
                ..Fields::default()
            },
        ),
    }
}

pub(super) fn end_line(line: &mut Vec<u8>, reason: EndReason) -> io::Result<()> {
    json_line(
        line,
        &Fields {
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
