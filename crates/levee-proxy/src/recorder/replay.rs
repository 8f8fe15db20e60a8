//! Asks the same defence again.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use levee_policy::selective::Selective;
use levee_policy::thinner::Thinner;
use levee_policy::{ConfigError, Time};
use serde::Serialize;

use super::format::{EndReason, Line, VERSION, parse};
use super::machine::Recorded;
use super::{PolicyRng, policy_rng};

/// Longest line that is read; the longest that is written carries a whole configuration.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// What a replay found.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// Which defence: [`Recorded::NAME`].
    pub machine: &'static str,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Inputs and deadlines that the machine was given.
    pub inputs: u64,
    /// Outputs that were compared and are the same.
    pub outputs: u64,
    /// Time of the last entry.
    pub last: Time,
    /// How the recording ends.
    pub end: End,
    /// The first output that is not the recorded one; the replay stops there.
    pub first_difference: Option<Difference>,
}

/// How a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// With its last line.
    Marked(EndReason),
    /// After a whole line: the process died.
    Unmarked,
    /// Inside a line, which was left out: the process died.
    Cut {
        /// The line, from 1.
        line: u64,
    },
    /// Not reached, since a difference was found.
    NotReached,
}

/// A verdict that is not the recorded one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Line of the recording, from 1, at which it shows.
    pub line: u64,
    /// Time of the entry.
    pub at: Time,
    /// What the recording has next, as it has it; `None` if it has no further output here.
    pub recorded: Option<serde_json::Value>,
    /// What the machine did; `None` if it did nothing further.
    pub replayed: Option<serde_json::Value>,
}

/// A recording that cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It cannot be read.
    #[error("the recording cannot be read")]
    Io(#[from] io::Error),
    /// It has no line.
    #[error(
        "line 1: the recording is empty, expected a header such as {{\"levee_events\":{VERSION},…}}"
    )]
    Empty,
    /// The first line is no header.
    #[error(
        "line 1: not the header of a recording: {message}; expected {{\"levee_events\":{VERSION},\"machine\":…}}"
    )]
    Header {
        /// What is wrong.
        message: String,
    },
    /// Another version wrote it.
    #[error(
        "line 1: a recording of format {found}, and this version reads format {VERSION}: use the version that wrote it"
    )]
    Version {
        /// Its version.
        found: u64,
    },
    /// Another defence wrote it.
    #[error("line 1: a recording of the defence `{found}`, expected {expected}")]
    Machine {
        /// Its machine.
        found: String,
        /// Those that can be replayed here.
        expected: String,
    },
    /// No machine can be made from the header.
    #[error("line 1: the recorded configuration cannot run")]
    Config(#[source] ConfigError),
    /// A line in the middle is damaged.
    #[error("line {line}: {message}; a recording is replayed whole or not at all")]
    Line {
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        message: String,
    },
}

/// Replays the file at `path`.
///
/// # Errors
///
/// It cannot be read, or is no recording.
pub fn replay_file(path: &Path) -> Result<Replayed, ReplayError> {
    replay(BufReader::new(File::open(path)?))
}

/// Replays a recording through the defence and configuration that it names, and compares the verdicts.
///
/// # Errors
///
/// It cannot be read, or is no recording.
pub fn replay(reader: impl BufRead) -> Result<Replayed, ReplayError> {
    let entries = Entries::open(reader)?;
    match machine(&entries.line)?.as_str() {
        Selective::NAME => replay_of::<Selective>(entries),
        Thinner::NAME => replay_of::<Thinner>(entries),
        other => Err(ReplayError::Machine {
            found: other.to_owned(),
            expected: format!("`{}` or `{}`", Selective::NAME, Thinner::NAME),
        }),
    }
}

fn replay_of<M: Recorded>(mut entries: Entries<impl BufRead>) -> Result<Replayed, ReplayError> {
    let header: M::Header = entries.header::<M>()?;
    let machine = M::fresh(&header).map_err(ReplayError::Config)?;
    let mut replay = Replay::new(machine, M::seed(&header));
    while let Some(line) = entries.next::<M>()? {
        if replay.line(entries.number, line) {
            if matches!(replay.result.end, End::Marked(_)) {
                entries.expect_end()?;
            }
            return Ok(replay.result);
        }
    }
    replay.result.end = entries.end;
    Ok(replay.result)
}

/// The lines of a recording, one after the other.
pub(super) struct Entries<R> {
    reader: R,
    line: Vec<u8>,
    /// Of the line that was given last, from 1.
    pub(super) number: u64,
    /// How the lines ended, once there are no more.
    pub(super) end: End,
}

impl<R: BufRead> Entries<R> {
    /// Reads the first line.
    pub(super) fn open(mut reader: R) -> Result<Self, ReplayError> {
        let mut line = Vec::new();
        read_line(&mut reader, &mut line, 1)?;
        Ok(Self {
            reader,
            line,
            number: 1,
            end: End::NotReached,
        })
    }

    /// The first line, before any other is taken.
    pub(super) fn header<M: Recorded>(&self) -> Result<M::Header, ReplayError> {
        let found = machine(&self.line)?;
        if found != M::NAME {
            return Err(ReplayError::Machine {
                found,
                expected: format!("`{}`", M::NAME),
            });
        }
        // From the text, not from a value: the order of keys and every digit stay as written.
        serde_json::from_slice(&self.line).map_err(bad_header)
    }

    /// The next line; `None` where the process died.
    pub(super) fn next<M: Recorded>(&mut self) -> Result<Option<Line<M>>, ReplayError> {
        self.number += 1;
        read_line(&mut self.reader, &mut self.line, self.number)?;
        if self.line.is_empty() {
            self.end = End::Unmarked;
            return Ok(None);
        }
        match parse::<M>(&self.line) {
            Ok(parsed) => Ok(Some(parsed)),
            // No proper prefix of a JSON object is one, so a line without its end that cannot be read was cut.
            Err(_) if !self.line.ends_with(b"\n") => {
                self.end = End::Cut { line: self.number };
                Ok(None)
            }
            Err(message) => Err(self.damaged(message)),
        }
    }

    /// After the last line there is none.
    pub(super) fn expect_end(&mut self) -> Result<(), ReplayError> {
        self.number += 1;
        read_line(&mut self.reader, &mut self.line, self.number)?;
        if self.line.is_empty() {
            return Ok(());
        }
        Err(self.damaged("a line after the end of the recording".to_owned()))
    }

    fn damaged(&self, message: String) -> ReplayError {
        ReplayError::Line {
            line: self.number,
            message,
        }
    }
}

struct Replay<M: Recorded> {
    machine: M,
    rng: PolicyRng,
    /// Outputs of the machine that no line was compared with yet.
    pending: VecDeque<M::Output>,
    number: u64,
    result: Replayed,
}

impl<M: Recorded> Replay<M> {
    fn new(machine: M, seed: u64) -> Self {
        Replay {
            machine,
            rng: policy_rng(seed),
            pending: VecDeque::new(),
            number: 1,
            result: Replayed {
                machine: M::NAME,
                seed,
                inputs: 0,
                outputs: 0,
                last: Time::ZERO,
                end: End::NotReached,
                first_difference: None,
            },
        }
    }

    /// Takes one line; says whether it was the last to take.
    fn line(&mut self, number: u64, line: Line<M>) -> bool {
        self.number = number;
        match line {
            Line::Output(at, recorded) => {
                self.result.last = at;
                let replayed = self.pending.pop_front();
                if replayed.as_ref() == Some(&recorded) {
                    self.result.outputs += 1;
                } else {
                    self.differ(at, Some(recorded), replayed);
                }
            }
            Line::Input(at, input) => {
                if self.expect_none_pending() {
                    self.result.last = at;
                    self.machine.handle(at, input, &mut self.rng);
                    self.drain();
                }
            }
            Line::Deadline(at) => {
                if self.expect_none_pending() {
                    self.result.last = at;
                    self.machine.handle_deadline(at, &mut self.rng);
                    self.drain();
                }
            }
            Line::End(reason) => {
                // A recording that ended at a limit may lack the outputs of its last input.
                if reason != EndReason::Stopped || self.expect_none_pending() {
                    self.result.end = End::Marked(reason);
                }
                return true;
            }
        }
        self.result.first_difference.is_some()
    }

    fn expect_none_pending(&mut self) -> bool {
        match self.pending.pop_front() {
            None => true,
            Some(extra) => {
                self.differ(self.result.last, None, Some(extra));
                false
            }
        }
    }

    fn differ(&mut self, at: Time, recorded: Option<M::Output>, replayed: Option<M::Output>) {
        // Every output has a form in JSON, since a recording has it.
        let value = |output: Option<M::Output>| serde_json::to_value(output?).ok();
        self.result.first_difference = Some(Difference {
            line: self.number,
            at,
            recorded: value(recorded),
            replayed: value(replayed),
        });
    }

    fn drain(&mut self) {
        self.result.inputs += 1;
        while let Some(output) = self.machine.poll_output() {
            self.pending.push_back(output);
        }
    }
}

/// Reads the next line with its end, if it has one; empty at the end of the file.
fn read_line(
    reader: &mut impl BufRead,
    line: &mut Vec<u8>,
    number: u64,
) -> Result<(), ReplayError> {
    line.clear();
    reader
        .by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', line)?;
    if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
        let message = format!("longer than {LINE_BYTES_MAX} bytes");
        return Err(ReplayError::Line {
            line: number,
            message,
        });
    }
    Ok(())
}

/// Which machine a first line names.
pub(super) fn machine(line: &[u8]) -> Result<String, ReplayError> {
    if line.is_empty() {
        return Err(ReplayError::Empty);
    }
    // The version first: a header of another version need not look like ours.
    let value: serde_json::Value = serde_json::from_slice(line).map_err(bad_header)?;
    let missing = |key: &str| ReplayError::Header {
        message: format!("it has no `{key}`"),
    };
    let version = value.get("levee_events");
    match version.and_then(serde_json::Value::as_u64) {
        None => return Err(missing("levee_events")),
        Some(found) if found != u64::from(VERSION) => return Err(ReplayError::Version { found }),
        Some(_) => {}
    }
    let machine = value.get("machine").and_then(serde_json::Value::as_str);
    Ok(machine.ok_or_else(|| missing("machine"))?.to_owned())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn bad_header(error: serde_json::Error) -> ReplayError {
    ReplayError::Header {
        message: error.to_string(),
    }
}
