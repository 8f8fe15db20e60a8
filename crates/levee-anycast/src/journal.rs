//! What the responder has done, on disk: append-only, and whole again after a crash.
//!
//! A text file of lines, each a JSON object that ends in a checksum of itself:
//!
//! ```text
//! {"journal":"levee anycast respond","version":1,"sites":["AMS","BOS"],"plays":4,"playbook":"9a0b1c2d","crc":"5e6f7081"}
//! {"n":1,"wall_ms":1764522000123,"at":1764522000000000000,"step":{"attack_began":{"sites":[0]}},"crc":"…"}
//! ```
//!
//! - `n` counts from 1, `wall_ms` is the wall clock in milliseconds since 1970, `at` the responder's time in nanoseconds, `step` a
//!   [`Step`], and `crc` the CRC-32 (that of gzip) of all bytes before `,"crc"`.
//! - `playbook` stands for the names of its configurations: steps name them by their numbers, so a journal goes with one playbook.
//!
//! A line is on the disk ([`File::sync_data`]) before [`Journal::append`] returns. A crash can thus leave at most the last line
//! half-written; it is cut off, and that is told ([`Note`]). A damaged line before it is an error, for a responder that goes on
//! from half of what happened might announce anything. The file is locked for as long as it is open.
//!
//! What this leaves out: shortening. A step takes some hundred bytes, and an attack some dozen steps.

use std::{
    fmt,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use levee_policy::{
    Span, Time,
    reroute::{Playbook, Step},
};
use serde::{Deserialize, Serialize};

/// The largest journal: at a kilobyte a step, a quarter of a million steps.
pub const JOURNAL_MAX: u64 = 256 << 20;
/// What the header calls the file.
const NAME: &str = "levee anycast respond";
/// The version of the format.
const VERSION: u32 = 1;
/// Before the checksum, and after it.
const CRC: (&str, &str) = (",\"crc\":\"", "\"}");
/// Hexadecimal digits of a checksum.
const CRC_DIGITS: usize = 8;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    journal: String,
    version: u32,
    sites: Vec<String>,
    plays: usize,
    playbook: String,
}

impl Header {
    /// That of a journal of this playbook.
    #[must_use]
    pub fn of(playbook: &Playbook) -> Self {
        let mut names = crc32fast::Hasher::new();
        for play in playbook.plays() {
            names.update(play.routing.name.as_bytes());
            names.update(b"\n");
        }
        Self {
            journal: NAME.to_owned(),
            version: VERSION,
            sites: playbook.sites().names().map(str::to_owned).collect(),
            plays: playbook.plays().len(),
            playbook: hex(names.finalize()),
        }
    }
}

/// A step and when it was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number, from 1.
    #[serde(rename = "n")]
    pub number: u64,
    /// The wall clock, in milliseconds since 1970.
    pub wall_ms: u64,
    /// The responder's time.
    pub at: Time,
    /// What was done.
    pub step: Step,
}

/// Something that is as it should not be, and does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The last line was half-written and is left out.
    CutOff {
        /// Its number in the file.
        line: u64,
        /// Its length.
        bytes: u64,
    },
    /// The wall clock went back before this line. The responder's time does not.
    ClockBack {
        /// Its number in the file.
        line: u64,
        /// By how much.
        by: Duration,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutOff { line, bytes } => write!(
                f,
                "line {line} was half-written ({bytes} bytes, as after a crash) and is cut off"
            ),
            Self::ClockBack { line, by } => write!(
                f,
                "the wall clock went back by {by:?} before line {line}; the responder's time did not"
            ),
        }
    }
}

/// What is in a journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// The header, unless there is nothing.
    pub header: Option<Header>,
    /// All steps, in their order.
    pub entries: Vec<Entry>,
    /// What was found by the way.
    pub notes: Vec<Note>,
    /// Bytes that are whole lines: the rest is cut off.
    pub whole: u64,
}

/// A line that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}, expected {expected}")]
pub struct Damage {
    /// Its number, from 1.
    pub line: u64,
    /// What it is.
    pub what: String,
    /// What it should be.
    pub expected: String,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("{} is in use by another responder: stop that one, or name another journal", path.display())]
    Locked {
        /// Which.
        path: PathBuf,
    },
    /// It is too large to be one.
    #[error("{} has more than {JOURNAL_MAX} bytes: move it away to begin anew, when the baseline is announced", path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
    },
    /// A line of it is damaged.
    #[error("{}, {damage}; restore the file from a copy, or announce the baseline and move the file away to begin anew", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where and how.
        damage: Damage,
    },
    /// It goes with another playbook.
    #[error("{}, line 1: the journal is of a playbook with sites {theirs}, and this one has {ours}; use the playbook with which it was begun, or announce the baseline and name another journal", path.display())]
    OtherPlaybook {
        /// Which.
        path: PathBuf,
        /// Sites and configurations of the journal's.
        theirs: String,
        /// Those of the one in use.
        ours: String,
    },
}

/// Reads a journal from memory.
///
/// # Errors
///
/// With a damaged line that is not the last.
pub fn read(bytes: &[u8]) -> Result<Contents, Damage> {
    let mut contents = Contents::default();
    let mut rest = bytes;
    let mut line = 0;
    while !rest.is_empty() {
        line += 1;
        let end = rest.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(rest.len(), |end| end + 1);
        let (this, after) = rest.split_at(length);
        let taken = match end {
            Some(_) => contents.take(line, &this[..length - 1]),
            None => Err(damage(line, "no end of line", "a line break")),
        };
        match taken {
            Ok(()) => contents.whole += length as u64,
            // A version that is not known is whole all the same.
            Err(damage) if !after.is_empty() || damage.what.starts_with("version") => {
                return Err(damage);
            }
            Err(_) => contents.notes.push(Note::CutOff {
                line,
                bytes: length as u64,
            }),
        }
        rest = after;
    }
    Ok(contents)
}

impl Contents {
    fn take(&mut self, line: u64, text: &[u8]) -> Result<(), Damage> {
        let body = checked(line, text)?;
        let bad = |error: serde_json::Error, expected: &str| {
            let what = format!("{error}");
            damage(line, &what, expected)
        };
        if self.header.is_none() {
            let header: Header =
                serde_json::from_slice(&body).map_err(|e| bad(e, "the header of a journal"))?;
            if header.journal != NAME {
                let what = format!("a file of {:?}", header.journal);
                return Err(damage(line, &what, NAME));
            }
            if header.version != VERSION {
                let what = format!("version {}", header.version);
                return Err(damage(line, &what, &format!("version {VERSION}")));
            }
            self.header = Some(header);
            return Ok(());
        }
        let entry: Entry = serde_json::from_slice(&body).map_err(|e| bad(e, "a step"))?;
        let number = self.entries.len() as u64 + 1;
        if entry.number != number {
            let what = format!("step {}", entry.number);
            return Err(damage(line, &what, &format!("step {number}")));
        }
        if let Some(before) = self.entries.last().map(|last| last.wall_ms)
            && entry.wall_ms < before
        {
            let by = Duration::from_millis(before - entry.wall_ms);
            self.notes.push(Note::ClockBack { line, by });
        }
        self.entries.push(entry);
        Ok(())
    }
}

fn damage(line: u64, what: &str, expected: &str) -> Damage {
    Damage {
        line,
        what: what.to_owned(),
        expected: expected.to_owned(),
    }
}

/// The line without its checksum, if that is right.
fn checked(line: u64, text: &[u8]) -> Result<Vec<u8>, Damage> {
    let suffix = CRC.0.len() + CRC_DIGITS + CRC.1.len();
    let Some(body) = text.len().checked_sub(suffix).map(|end| &text[..end]) else {
        return Err(damage(line, "too short", "a JSON object with a checksum"));
    };
    let expected = sealed_end(body);
    if text[body.len()..] != *expected.as_bytes() {
        return Err(damage(
            line,
            "the checksum does not fit the line",
            &format!("it to end in {expected}"),
        ));
    }
    let mut object = body.to_vec();
    object.push(b'}');
    Ok(object)
}

/// What comes after these bytes of a line.
fn sealed_end(body: &[u8]) -> String {
    format!("{}{}{}", CRC.0, hex(crc32fast::hash(body)), CRC.1)
}

fn hex(crc: u32) -> String {
    format!("{crc:0CRC_DIGITS$x}")
}

/// A line with its checksum.
fn sealed(object: &impl Serialize) -> io::Result<String> {
    let mut line = serde_json::to_string(object)?;
    line.pop();
    let end = sealed_end(line.as_bytes());
    line.push_str(&end);
    line.push('\n');
    Ok(line)
}

/// A journal that is open for writing, and locked.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Bytes that are known to be whole lines.
    length: u64,
    /// The number of the next step.
    next: u64,
}

impl Journal {
    /// Opens the journal at `path`, or begins one, for a responder with this playbook. Gives what it holds.
    ///
    /// # Errors
    ///
    /// When the file cannot be used, another responder has it, a line in its middle is damaged, or it is of another playbook.
    pub fn open(path: &Path, playbook: &Playbook) -> Result<(Self, Contents), JournalError> {
        let io = |doing| {
            move |source| JournalError::Io {
                path: path.to_owned(),
                doing,
                source,
            }
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(io("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::Locked {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(io("lock")(source)),
        }
        let mut bytes = Vec::new();
        (&file)
            .take(JOURNAL_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(io("read"))?;
        if bytes.len() as u64 > JOURNAL_MAX {
            return Err(JournalError::TooLarge {
                path: path.to_owned(),
            });
        }
        let contents = read(&bytes).map_err(|damage| JournalError::Damaged {
            path: path.to_owned(),
            damage,
        })?;
        let header = Header::of(playbook);
        let mut journal = Self {
            file,
            path: path.to_owned(),
            length: contents.whole,
            next: contents.entries.len() as u64 + 1,
        };
        match &contents.header {
            Some(theirs) if *theirs != header => {
                let name = |header: &Header| {
                    let sites = header.sites.join(", ");
                    format!(
                        "{sites} and {} configurations ({})",
                        header.plays, header.playbook
                    )
                };
                return Err(JournalError::OtherPlaybook {
                    path: path.to_owned(),
                    theirs: name(theirs),
                    ours: name(&header),
                });
            }
            Some(_) => journal.cut().map_err(io("cut off the last line of"))?,
            None => journal.begin(&header).map_err(io("write"))?,
        }
        Ok((journal, contents))
    }

    /// Writes a step. It is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// When it cannot be written; the file is then as it was before, as far as that can be done.
    pub fn append(&mut self, wall: SystemTime, at: Time, step: &Step) -> Result<(), JournalError> {
        let entry = Entry {
            number: self.next,
            wall_ms: millis(wall),
            at,
            step: step.clone(),
        };
        self.write(&entry).map_err(|source| JournalError::Io {
            path: self.path.clone(),
            doing: "write",
            source,
        })?;
        self.next += 1;
        Ok(())
    }

    fn begin(&mut self, header: &Header) -> io::Result<()> {
        self.cut()?;
        self.write(header)?;
        // The name of a new file is on the disk once its folder is.
        let folder = self
            .path
            .parent()
            .filter(|path| !path.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn write(&mut self, object: &impl Serialize) -> io::Result<()> {
        let line = sealed(object)?;
        // After a write that failed there may be half a line.
        self.file.seek(SeekFrom::Start(self.length))?;
        let written = self
            .file
            .write_all(line.as_bytes())
            .and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.length += line.len() as u64,
            Err(_) => self.cut()?,
        }
        written
    }

    /// Cuts off what is no whole line.
    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.sync_data()
    }
}

fn millis(wall: SystemTime) -> u64 {
    let since = wall.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// The responder's time: nanoseconds since 1970 by the wall clock when it begins, or the time of the last step if that is later;
/// from then on by a clock that is never set.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Time,
    start: Instant,
}

impl Clock {
    /// Goes on from the last step, if there is one.
    #[must_use]
    pub fn new(last: Option<&Entry>, wall: SystemTime, start: Instant) -> Self {
        let since = wall.duration_since(SystemTime::UNIX_EPOCH);
        let nanos = since.map_or(0, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        });
        let base = Time::from_nanos(nanos);
        Self {
            base: last.map_or(base, |last| base.max(last.at)),
            start,
        }
    }

    /// The time at `now`.
    #[must_use]
    pub fn time(&self, now: Instant) -> Time {
        let nanos = now.saturating_duration_since(self.start).as_nanos();
        self.base + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests;
