//! Load by AS.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use levee_policy::reroute::Asn;

use crate::blocks::Blocks;
use crate::map::Block;

/// The longest line, in bytes.
const LINE_MAX: usize = 256;
/// The most ASes: there cannot be more in use than the registries gave out, some 120,000 in 2026.
const ASES_MAX: usize = 1 << 20;

/// The load that each AS sends in normal times, in one unit, such as queries a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loads(BTreeMap<Asn, f64>);

/// Why a file gives no loads.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadsError {
    /// It cannot be read.
    #[error("{file}: cannot be read after line {line}")]
    Input {
        /// The file's name as given.
        file: String,
        /// The last line that was read.
        line: u64,
        /// What the system says.
        source: io::Error,
    },
    /// A line that is none of its kind.
    #[error("{file}:{line}: {found}; expected {expected}")]
    Line {
        /// The file's name as given.
        file: String,
        /// From 1.
        line: u64,
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
}

impl Loads {
    /// The load of an AS; 0 where none is known.
    #[must_use]
    pub fn of(&self, asn: Asn) -> f64 {
        self.0.get(&asn).copied().unwrap_or(0.0)
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.0.values().sum()
    }

    /// Adds load to an AS: finite and not negative, as the caller knows.
    pub fn add(&mut self, asn: Asn, load: f64) {
        *self.0.entry(asn).or_default() += load;
    }

    /// The loads of blocks, added up by the AS that each block belongs to, and the load of those that belong to none.
    #[must_use]
    pub fn of_blocks(
        loads: impl IntoIterator<Item = (Block, f64)>,
        blocks: &Blocks,
    ) -> (Self, f64) {
        let (mut by_as, mut nobodys) = (Self::default(), 0.0);
        for (block, load) in loads {
            match blocks.origin(block) {
                Some(asn) => by_as.add(asn, load),
                None => nobodys += load,
            }
        }
        (by_as, nobodys)
    }

    /// Reads lines `asn,load`, with or without that header.
    ///
    /// # Errors
    ///
    /// With file and line, where a line is something else.
    pub fn open(path: &Path) -> Result<Self, LoadsError> {
        let file = path.display().to_string();
        match File::open(path) {
            Ok(input) => Self::read(&file, input),
            Err(source) => Err(LoadsError::Input {
                file,
                line: 0,
                source,
            }),
        }
    }

    /// The same from an open file of this name.
    ///
    /// # Errors
    ///
    /// As [`Loads::open`].
    pub fn read(file: &str, input: impl Read) -> Result<Self, LoadsError> {
        let mut input = BufReader::new(input);
        let mut loads = Self::default();
        let mut bytes = Vec::new();
        for line in 1.. {
            bytes.clear();
            let wrong = |found: String, expected| LoadsError::Line {
                file: file.to_owned(),
                line,
                found,
                expected,
            };
            let read = (&mut input)
                .take(LINE_MAX as u64 + 1)
                .read_until(b'\n', &mut bytes)
                .map_err(|source| LoadsError::Input {
                    file: file.to_owned(),
                    line: line - 1,
                    source,
                })?;
            if read == 0 {
                break;
            }
            let expected = "an AS and its load, as in `64500,12.5`";
            let text = std::str::from_utf8(&bytes)
                .ok()
                .filter(|text| text.len() <= LINE_MAX)
                .ok_or_else(|| wrong("a line that is no short text".to_owned(), expected))?
                .trim();
            if text.is_empty() || text.starts_with('#') || (line == 1 && text == "asn,load") {
                continue;
            }
            let (asn, load) = pair(text).ok_or_else(|| wrong(format!("{text:?}"), expected))?;
            loads.add(asn, load);
            if loads.0.len() > ASES_MAX {
                let found = format!("more than {ASES_MAX} ASes");
                return Err(wrong(found, "the ASes of the Internet, some 120,000"));
            }
        }
        Ok(loads)
    }
}

fn pair(text: &str) -> Option<(Asn, f64)> {
    let (asn, load) = text.split_once(',')?;
    let asn = asn.trim();
    let asn = asn.strip_prefix("AS").unwrap_or(asn);
    if !asn.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let load: f64 = load.trim().parse().ok()?;
    let fine = load.is_finite() && load >= 0.0;
    fine.then_some((Asn(asn.parse().ok()?), load))
}
