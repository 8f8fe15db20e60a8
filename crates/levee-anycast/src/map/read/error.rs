//! What is wrong with a file.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::map::SiteError;

/// A file that cannot be read as a map, and where.
#[derive(Debug, thiserror::Error)]
#[error("{}{at}: {problem}", file.display())]
pub struct ReadError {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    pub at: At,
    /// What is wrong, what was expected, and what to do. Part of the text, so that it is no source of its own.
    pub problem: Problem,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// All of it.
    File,
    /// A line, from 1.
    Line(u64),
    /// A record (row, result or packet), from 1.
    Record(u64),
}

/// After the name of the file: `:12`, `, record 12`, or nothing.
impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Line(line) => write!(f, ":{line}"),
            Self::Record(record) => write!(f, ", record {record}"),
        }
    }
}

/// What is wrong, what was expected, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system says no.
    #[error("cannot be read; check the name and the permissions ({0})")]
    Io(io::Error),
    /// The bytes end before the data do, or a checksum is wrong.
    #[error(
        "the data are cut off or damaged here ({0}); copy or measure again, or take what is whole with --skip-bad"
    )]
    Damaged(String),
    /// A form that is not known.
    #[error(
        "{found}; expected a catchment map (CSV or Parquet of Levee), CSV of Verfploeter, CSV or Parquet of MAnycastR, DNS results of RIPE Atlas as JSON, a capture (pcap, pcapng), or CSV with the columns block and site"
    )]
    Form {
        /// What it is instead.
        found: String,
    },
    /// A field that does not say what it should.
    #[error(
        "{column} is {found:?}; expected {expected}; mend the line, or leave such lines out with --skip-bad"
    )]
    Field {
        /// The column, key or field.
        column: String,
        /// What is there, cut to a readable length.
        found: String,
        /// What may be there.
        expected: String,
    },
    /// A map of another version.
    #[error(
        "a catchment map of version {found}; this program reads version {}; read it with the program that wrote it and write it as CSV, or measure again",
        super::super::VERSION
    )]
    Version {
        /// Its version.
        found: String,
    },
    /// A site that is not among those that were named.
    #[error(
        "there is no site {name:?}; expected one of {known}; add it to --sites, or give its name here with --rename"
    )]
    UnknownSite {
        /// What the file calls it.
        name: String,
        /// The sites.
        known: String,
    },
    /// Too many sites, or a name that a site cannot have.
    #[error("{0}; bring names together with --rename, or for Atlas results with --site-pattern")]
    Site(SiteError),
    /// The file does not say at which site it was taken.
    #[error("{what} does not say at which site it was taken; name the site with --site")]
    NoSite {
        /// What kind of file.
        what: &'static str,
    },
    /// A capture has both directions.
    #[error(
        "a capture holds packets of both directions; name the addresses of the service with --service, such as --service 192.0.2.0/24"
    )]
    NoService,
    /// Measurements of several prefixes in one file.
    #[error(
        "origin_id {second} after {first}: replies to several announcements; choose one of them with --origin"
    )]
    Origins {
        /// The first.
        first: u32,
        /// Another.
        second: u32,
    },
    /// A file of no loads where loads are wanted.
    #[error(
        "there is no load in it; expected a capture, a map with loads, or CSV with the columns block and load"
    )]
    NoLoad,
    /// A record that does not end.
    #[error(
        "a record of more than {limit} bytes; a quote or a bracket may be left open before this place"
    )]
    TooLong {
        /// The most bytes.
        limit: usize,
    },
    /// What the Parquet library says.
    #[error("no readable Parquet ({0}); write it again, or use CSV")]
    Parquet(String),
    /// A capture of a link that is not known.
    #[error(
        "packets of link type {0}; expected Ethernet, raw IP, Linux cooked (SLL, SLL2) or loopback; capture with tcpdump -y EN10MB, or convert with editcap -T ether"
    )]
    Link(i32),
}

impl Problem {
    /// Whether the file as a whole is to blame or how it is read, so that it does not help to leave a record out.
    pub(super) fn is_of_file(&self) -> bool {
        matches!(
            self,
            Self::UnknownSite { .. } | Self::Site(_) | Self::NoSite { .. } | Self::Origins { .. }
        )
    }
}

/// A text as an error may show it: one line, not too long.
pub(super) fn shown(text: &[u8]) -> String {
    /// Characters at most.
    const SHOWN_MAX: usize = 60;
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * SHOWN_MAX)]);
    let mut out: String = text.chars().take(SHOWN_MAX).collect();
    if text.chars().count() > SHOWN_MAX {
        out.push('…');
    }
    out
}
