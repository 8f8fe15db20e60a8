//! What is wrong with a file.

use std::fmt;
use std::path::PathBuf;

use levee_policy::ConfigError;

use super::summary::SummaryError;

/// A place in a text that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// From 1.
    pub line: usize,
    /// The field, or the byte where there are no fields, from 1; 0 where the whole line is meant.
    pub column: usize,
    /// What is there.
    pub found: String,
    /// What should be.
    pub expected: String,
}

impl Malformed {
    pub(super) fn new(
        line: usize,
        column: usize,
        found: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            line,
            column,
            found: shorten(&found.to_string()),
            expected: expected.into(),
        }
    }
}

/// Long lines are not for a message.
fn shorten(text: &str) -> String {
    const CHARACTERS: usize = 60;
    match text.char_indices().nth(CHARACTERS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if self.column > 0 {
            write!(f, ", column {}", self.column)?;
        }
        write!(f, ": found {}, expected {}", self.found, self.expected)
    }
}

impl std::error::Error for Malformed {}

/// Why a playbook cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file or folder cannot be opened or read.
    #[error("{path}: cannot be read; check the path")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Text that is no playbook.
    #[error("{path}: {malformed}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        malformed: Malformed,
    },
    /// A file that is larger than any playbook.
    #[error("{path}: longer than {limit} bytes, which no playbook is; is it the right file?")]
    TooLong {
        /// Which.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// Text of none of the forms.
    #[error(
        "{path}: not a playbook: expected Levee's JSON, a CSV that begins with bgp or policy, or a list for playbook_tuner that begins with the number of sites; for measurements, name their folder"
    )]
    Unknown {
        /// Which file.
        path: PathBuf,
    },
    /// JSON that is no playbook.
    #[error("{path}: {problem}")]
    Json {
        /// Which file.
        path: PathBuf,
        /// Where, what and why.
        problem: serde_json::Error,
    },
    /// Rows that are read, but make no playbook.
    #[error("{path}: {problem}")]
    Playbook {
        /// Which file.
        path: PathBuf,
        /// Why.
        problem: ConfigError,
    },
    /// No play is the baseline.
    #[error("{path}: no baseline among {names}; say which it is")]
    NoBaseline {
        /// Which file.
        path: PathBuf,
        /// The plays that there are.
        names: String,
    },
    /// A folder without measurements.
    #[error(
        "{path}: no measurement in this folder: expected catchment maps (.csv.gz, .csv, .parquet) or .stats, with a .routing of the same name"
    )]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// More files than a playbook may have plays.
    #[error("{path}: {found} measurements, expected {limit} at most")]
    TooMany {
        /// Which folder.
        path: PathBuf,
        /// How many there are.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A map that cannot be read.
    #[error("{0}")]
    Map(crate::map::ReadError),
    /// Maps that do not go together.
    #[error("{path}: {problem}")]
    Summary {
        /// Which folder or file.
        path: PathBuf,
        /// Why.
        problem: SummaryError,
    },
}

/// Why a playbook cannot be written in a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The form has no way to write this name.
    #[error("{name:?} cannot be written as {form}: it has a {what}; write JSON instead")]
    Name {
        /// Which.
        name: String,
        /// In which form.
        form: &'static str,
        /// What is in it.
        what: &'static str,
    },
    /// The form needs a capacity for each site.
    #[error("{found} capacities for {sites} sites: playbook_tuner needs one for each")]
    Capacities {
        /// Capacities given.
        found: usize,
        /// Sites.
        sites: usize,
    },
    /// An announcement that this file has no session for, or cannot say.
    #[error("{0}")]
    Routing(String),
}
