//! The live configuration: the file that `levee run` takes.
//!
//! Three steps, each with its module. [`levee_config`] parses TOML and keeps the place of each key. `raw` gives every key its
//! type and default. `check` turns that into [`SipSettings`] and [`HttpSettings`] and refuses what cannot work, before a socket is opened. All
//! of a file's problems are reported together, each with line, column, what was expected and what to do.
//!
//! docs/configuration.md describes every key.

mod check;
mod raw;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use levee_config::{Document, Place, Problem, Problems};
use serde::{Deserialize, Serialize};

use crate::http::settings::HttpSettings;
use crate::sip::settings::SipSettings;

/// Longest configuration file. A real one has a few kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What `levee run` runs.
#[derive(Clone, Debug)]
pub struct LiveConfig {
    /// The SIP fronts.
    pub sip: Vec<SipSettings>,
    /// The HTTP fronts.
    pub http: Vec<HttpSettings>,
    /// The admin page, if there is one.
    pub admin: Option<AdminSettings>,
    /// What is logged, and how.
    pub log: LogSettings,
    /// How long a stop waits for held calls.
    pub drain: Duration,
    warnings: Vec<Problem>,
    raw: raw::Raw,
    /// What host names stood for when the file was read.
    resolved: BTreeMap<(String, u16), Vec<SocketAddr>>,
}

/// The admin page: metrics, health, status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Most connections at once; a further one waits in the kernel.
    pub connections_max: usize,
    /// How long a client may take for the head of a request.
    pub header_timeout: Duration,
}

impl AdminSettings {
    /// Default of [`AdminSettings::connections_max`]: a few scrapers and a few people.
    pub const CONNECTIONS_MAX_DEFAULT: usize = 32;
    /// Default of [`AdminSettings::header_timeout`]: a scraper sends its request in one segment.
    pub const HEADER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

    /// Settings with every default.
    pub fn new(listen: SocketAddr) -> Self {
        AdminSettings {
            listen,
            connections_max: Self::CONNECTIONS_MAX_DEFAULT,
            header_timeout: Self::HEADER_TIMEOUT_DEFAULT,
        }
    }
}

/// What is logged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// The least severe line that is written.
    pub level: LogLevel,
    /// How a line is written.
    pub format: LogFormat,
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Something that a person must mend.
    Error,
    /// Something that a person should know.
    Warn,
    /// Starts, stops, reloads, the state of a defence.
    Info,
    /// Each decision.
    Debug,
    /// Each message.
    Trace,
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Finds the addresses of a host name.
pub type Resolve<'r> = &'r dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// Asks the operating system.
///
/// # Errors
///
/// What the resolver says.
pub fn resolve_by_system(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

impl LiveConfig {
    /// Reads and checks the file at `path`. A host name of a server is resolved now.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, Problems> {
        Self::load_with(path, &resolve_by_system)
    }

    /// Reads the file again for a reload. A host name that was resolved before stands for the same address: a server that
    /// moves needs a restart, and an answer in another order must not look like a move.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn load_again(&self, path: &Path) -> Result<Self, Problems> {
        Self::load_with(
            path,
            &|host, port| match self.resolved.get(&(host.to_owned(), port)) {
                Some(addresses) => Ok(addresses.clone()),
                None => resolve_by_system(host, port),
            },
        )
    }

    fn load_with(path: &Path, resolve: Resolve<'_>) -> Result<Self, Problems> {
        let file = path.display().to_string();
        let text = read_text(path, FILE_BYTES_MAX).map_err(|error| Problem {
            place: Place {
                file: file.clone(),
                ..Place::default()
            },
            found: format!("cannot be read: {error}"),
            expected: String::new(),
            remedy: "check the path and the permissions of the file".to_owned(),
        })?;
        Self::parse(&file, &text, resolve)
    }

    /// Checks `text`; `file` is the name that problems give.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn parse(file: &str, text: &str, resolve: Resolve<'_>) -> Result<Self, Problems> {
        let document = Document::parse(file, text)?;
        let raw: raw::Raw = document.read("")?;
        let resolved: RefCell<BTreeMap<_, _>> = RefCell::default();
        let remember = |host: &str, port: u16| {
            let addresses = resolve(host, port)?;
            resolved
                .borrow_mut()
                .insert((host.to_owned(), port), addresses.clone());
            Ok(addresses)
        };
        let mut config = check::check(&document, raw, &remember)?;
        config.resolved = resolved.take();
        Ok(config)
    }

    /// What works, but probably not as meant.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// The configuration with every default filled in, as a file that reads back as itself.
    pub fn effective(&self) -> String {
        // Every type of `raw` has a TOML form, so the error has no cause; said rather than hidden all the same.
        toml::to_string(&self.raw).unwrap_or_else(|error| format!("# cannot be printed: {error}\n"))
    }
}

/// As its effective form.
impl Serialize for LiveConfig {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

/// As its effective form.
impl fmt::Display for LiveConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.effective())
    }
}

/// Reads a text of a bounded length.
///
/// # Errors
///
/// What the system says; or it is too long, or no text.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let read = std::fs::File::open(path)?
        .take(bytes_max + 1)
        .read_to_string(&mut text)
        .map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => io::Error::new(error.kind(), "it is no text in UTF-8"),
            _ => error,
        })?;
    if read as u64 > bytes_max {
        return Err(io::Error::other(format!(
            "it is longer than {bytes_max} bytes"
        )));
    }
    Ok(text)
}
