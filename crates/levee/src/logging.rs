//! Logs: to standard error, as text or JSON.
//!
//! The fronts never wait for who reads them: a terminal that was stopped, or a log daemon that hangs, must not hold up calls.
//! A thread writes what is queued; what does not fit is lost and counted in the log itself.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use levee_proxy::config::{LogFormat, LogLevel, LogSettings};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::cli::Global;

/// Overrides the level, with the directives of `tracing`.
const VARIABLE: &str = "LEVEE_LOG";

/// Lines between the fronts and the writer: some seconds of `debug` under load, about 1 MB.
const QUEUE_LINES_MAX: usize = 4_096;
/// How long the end of the program waits for a slow reader of the logs.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// Changes the level of a program that runs.
pub(crate) struct Level {
    global: Global,
    lines: Lines,
    handle: reload::Handle<EnvFilter, Registry>,
}

impl Level {
    /// Waits until what was logged is written, but not for ever.
    pub(crate) fn flush(&self) {
        let (written, done) = sync_channel(1);
        if self.lines.queue.try_send(Entry::Flush(written)).is_ok() {
            done.recv_timeout(FLUSH_TIME_MAX).ok();
        }
    }

    /// Logs at the level of a new configuration from now on.
    pub(crate) fn change(&self, settings: LogSettings) -> Result<()> {
        let filter = filter(self.global, settings.level)?;
        self.handle
            .reload(filter)
            .context("the log level cannot be changed")
    }
}

/// Logs of a tool: warnings, unless more was asked for.
pub(crate) fn for_tools(global: Global) -> Result<Level> {
    start(
        global,
        LogSettings {
            level: LogLevel::Warn,
            format: LogFormat::Text,
        },
    )
}

/// Starts to log.
pub(crate) fn start(global: Global, settings: LogSettings) -> Result<Level> {
    use std::io::IsTerminal as _;

    let (filter, handle) = reload::Layer::new(filter(global, settings.level)?);
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = Lines::start()?;
    let writer = lines.clone();
    let layer = fmt::layer()
        .with_writer(move || writer.clone())
        .with_ansi(colours);
    let registry = tracing_subscriber::registry().with(filter);
    let started = match settings.format {
        LogFormat::Text => registry.with(layer).try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    };
    started.map_err(|error| anyhow!("logs cannot start: {error}"))?;
    Ok(Level {
        global,
        lines,
        handle,
    })
}

/// Where log lines go; each event is one write.
#[derive(Clone)]
struct Lines {
    queue: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
}

enum Entry {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

impl Lines {
    fn start() -> Result<Self> {
        let (queue, entries) = sync_channel(QUEUE_LINES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        std::thread::Builder::new()
            .name("levee-log".to_owned())
            .spawn(move || write_lines(&entries, &counted))
            .context("cannot start a thread")?;
        Ok(Self { queue, lost })
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Entry::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Until the program ends. A reader that is gone stops nothing.
fn write_lines(entries: &Receiver<Entry>, lost: &AtomicU64) {
    let mut out = io::stderr();
    for entry in entries {
        match entry {
            Entry::Line(line) => out.write_all(&line).ok(),
            Entry::Flush(written) => written.try_send(()).ok(),
        };
        let missing = lost.swap(0, Ordering::Relaxed);
        if missing > 0 {
            tracing::warn!(
                lines = missing,
                "log lines are lost: they are read too slowly"
            );
        }
    }
}

fn filter(global: Global, level: LogLevel) -> Result<EnvFilter> {
    if let Ok(directives) = std::env::var(VARIABLE) {
        return EnvFilter::try_new(&directives).with_context(|| {
            format!("{VARIABLE}=\"{directives}\", expected for example info or levee_proxy=debug")
        });
    }
    let level = match (global.quiet, global.verbose) {
        (true, _) => LogLevel::Error,
        (false, 0) => level,
        (false, 1) => level.max(LogLevel::Debug),
        (false, _) => LogLevel::Trace,
    };
    let name = match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    // Ours at this level; of the libraries only what is wrong.
    let own = ["levee", "levee_proxy", "levee_lab"].map(|target| format!("{target}={name}"));
    Ok(EnvFilter::new(format!("warn,{}", own.join(","))))
}
