//! Standard output for results, standard error for everything else.

use std::fmt::Display;
use std::io::{self, Write as _};

use anyhow::{Context as _, Result};
use levee_config::Problems;
use serde::Serialize;

/// Prints a text on standard output.
pub(crate) fn text(text: &str) -> Result<()> {
    bytes(text.as_bytes())
}

/// Prints one JSON document on standard output.
pub(crate) fn json(document: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(document)?;
    line.push(b'\n');
    bytes(&line)
}

/// Prints on standard output. A reader that has seen enough (`| head`) is no error.
pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Prints a line on standard error. A reader that is gone does not stop the work, as `eprintln!` would.
pub(crate) fn note(line: impl Display) {
    writeln!(io::stderr(), "{line}").ok();
}

/// Says on standard error what is wrong, with its causes.
pub(crate) fn error(error: &anyhow::Error) {
    // Problems name their file and line first, as editors want it.
    if let Some(problems) = error.downcast_ref::<Problems>() {
        note(problems);
    } else {
        note(format_args!("levee: {error:#}"));
    }
}
