//! Logs: to standard error, as text or JSON.

use anyhow::{Context as _, Result, anyhow};
use levee_proxy::config::{LogFormat, LogLevel, LogSettings};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::cli::Global;

/// Overrides the level, with the directives of `tracing`.
const VARIABLE: &str = "LEVEE_LOG";

/// Changes the level of a program that runs.
pub(crate) struct Level {
    global: Global,
    handle: reload::Handle<EnvFilter, Registry>,
}

impl Level {
    /// Logs at the level of a new configuration from now on.
    pub(crate) fn change(&self, settings: LogSettings) -> Result<()> {
        let filter = filter(self.global, settings.level)?;
        self.handle
            .reload(filter)
            .context("the log level cannot be changed")
    }
}

/// Logs of a tool: warnings, unless more was asked for.
pub(crate) fn for_tools(global: Global) -> Result<()> {
    start(
        global,
        LogSettings {
            level: LogLevel::Warn,
            format: LogFormat::Text,
        },
    )
    .map(drop)
}

/// Starts to log.
pub(crate) fn start(global: Global, settings: LogSettings) -> Result<Level> {
    use std::io::IsTerminal as _;

    let (filter, handle) = reload::Layer::new(filter(global, settings.level)?);
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let lines = tracing_subscriber::registry().with(filter);
    let started = match settings.format {
        LogFormat::Text => lines.with(layer).try_init(),
        LogFormat::Json => lines.with(layer.json().flatten_event(true)).try_init(),
    };
    started.map_err(|error| anyhow!("logs cannot start: {error}"))?;
    Ok(Level { global, handle })
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
