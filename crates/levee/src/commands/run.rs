//! `levee run CONFIG`: the live fronts and the admin page, until a signal.
//!
//! Each SIP front has a thread and a runtime of its own, and each HTTP front has several, so that a scrape, a reload or another
//! front never delays a message. This thread has the admin page and the signals.

mod front;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use levee_proxy::admin::{self, Admin};
use levee_proxy::config::LiveConfig;
use levee_proxy::front::Numbers;
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use self::front::{Front, Settings, Watch};
use crate::cli::Global;
use crate::exit::Answer;
use crate::logging::{self, Level};
use crate::output;
use crate::signals::Stop;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration, such as levee.toml
    config: PathBuf,
}

#[derive(Serialize)]
struct Report {
    command: &'static str,
    fronts: Vec<Numbers>,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<Answer> {
    let config = LiveConfig::load(&args.config)?;
    let level = logging::start(global, config.log)?;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let served = runtime()?.block_on(serve(args, config, &level));
    level.flush();
    let fronts = served?;
    if global.json {
        output::json(&Report {
            command: "run",
            fronts,
        })?;
    }
    Ok(Answer::Yes)
}

fn runtime() -> Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")
}

async fn serve(args: &Args, config: LiveConfig, level: &Level) -> Result<Vec<Numbers>> {
    // Before anything listens, so that an early signal drains as a late one does.
    let mut stop = Stop::new()?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for signals")?;
    let mut live = Live::start(config).await?;
    loop {
        tokio::select! {
            () = stop.asked() => break,
            _ = hangup.recv() => match live.reload(args, level).await {
                Ok(()) => tracing::info!(config = %args.config.display(), "reloaded; what is held goes on"),
                Err(error) => tracing::error!("the old configuration goes on: {error:#}"),
            },
        }
    }
    let drain = live.config.drain;
    tracing::info!(
        ?drain,
        "stopping: new calls and requests get 503, what is held goes on; a second signal stops at once"
    );
    tokio::select! {
        snapshots = live.stop(drain) => Ok(snapshots),
        () = stop.asked() => {
            tracing::warn!("stopped at once: held calls go on without Levee, requests in hand are cut off");
            Ok(Vec::new())
        }
    }
}

/// What runs.
struct Live {
    config: LiveConfig,
    fronts: Vec<Front>,
    // Stops when it is dropped, so after the fronts have drained.
    _admin: Option<Admin>,
}

impl Live {
    async fn start(mut config: LiveConfig) -> Result<Self> {
        let seeds = config.sip.iter_mut().map(|front| &mut front.seed);
        for seed in seeds.chain(config.http.iter_mut().map(|front| &mut front.seed)) {
            if *seed == 0 {
                *seed = getrandom::u64().map_err(|error| anyhow!("no random seed: {error}"))?;
            }
        }
        let mut fronts: Vec<Front> = Vec::new();
        for settings in Settings::of(&config) {
            // The fronts that run already stop with their threads when an error leaves this function.
            fronts.push(Front::start(settings).await?);
        }
        let watches: Vec<Watch> = fronts.iter().map(Front::watch).collect();
        let admin = match &config.admin {
            None => None,
            Some(settings) => {
                let admin = admin::start(settings, move || numbers(watches.clone())).await?;
                tracing::info!(listen = %admin.addr(), "the admin page listens");
                Some(admin)
            }
        };
        Ok(Live {
            config,
            fronts,
            _admin: admin,
        })
    }

    /// Takes the file again, whole or not at all.
    async fn reload(&mut self, args: &Args, level: &Level) -> Result<()> {
        let mut new = self
            .config
            .load_again(&args.config)
            .map_err(|problems| anyhow!("\n{problems}"))?;
        for warning in new.warnings() {
            tracing::warn!("{warning}");
        }
        if names(&new) != names(&self.config) {
            return Err(anyhow!(
                "a front cannot be added, taken out or renamed while Levee runs: restart it"
            ));
        }
        if new.admin != self.config.admin || new.log.format != self.config.log.format {
            return Err(anyhow!(
                "`admin` and `log.format` cannot change while Levee runs: restart it"
            ));
        }
        keep_seeds(&mut new, &self.config);
        for (at, (front, settings)) in self.fronts.iter().zip(Settings::of(&new)).enumerate() {
            let name = settings.name().to_owned();
            if let Err(error) = front.reload(settings).await {
                self.take_back(at).await;
                return Err(error).with_context(|| format!("front `{name}`"));
            }
        }
        level.change(new.log)?;
        self.config = new;
        Ok(())
    }

    /// Gives the fronts before `at` their old settings again.
    async fn take_back(&self, at: usize) {
        let old = self.fronts.iter().zip(Settings::of(&self.config));
        for (front, old) in old.take(at) {
            let name = old.name().to_owned();
            if let Err(error) = front.reload(old).await {
                tracing::error!(front = name, %error, "the old settings cannot be taken back");
            }
        }
    }

    /// Drains all fronts at the same time.
    async fn stop(self, drain: Duration) -> Vec<Numbers> {
        let stops: Vec<_> = self
            .fronts
            .into_iter()
            .map(|front| tokio::spawn(front.stop(drain)))
            .collect();
        let mut all = Vec::new();
        for stop in stops {
            // A front that panicked has no numbers left to give.
            if let Ok(numbers) = stop.await {
                match &numbers {
                    Numbers::Sip(sip) => {
                        tracing::info!(front = sip.name, calls_left = sip.held(), "stopped");
                    }
                    Numbers::Http(http) => tracing::info!(
                        front = http.name,
                        connections_left = http.traffic.connections.sum(),
                        "stopped"
                    ),
                }
                all.push(numbers);
            }
        }
        all
    }
}

/// Kind and name of each front.
fn names(config: &LiveConfig) -> Vec<(&'static str, String)> {
    let names = |settings: Settings| (settings.kind(), settings.name().to_owned());
    Settings::of(config).map(names).collect()
}

/// A front that leaves its seed to the system goes on with the one that was drawn.
fn keep_seeds(new: &mut LiveConfig, old: &LiveConfig) {
    let sip = new.sip.iter_mut().map(|front| &mut front.seed);
    let sip = sip.zip(old.sip.iter().map(|front| front.seed));
    let http = new.http.iter_mut().map(|front| &mut front.seed);
    let http = http.zip(old.http.iter().map(|front| front.seed));
    for (new, old) in sip.chain(http) {
        if *new == 0 {
            *new = old;
        }
    }
}

/// Of the fronts that run.
async fn numbers(watches: Vec<Watch>) -> Vec<Numbers> {
    let mut all = Vec::new();
    for watch in watches {
        all.extend(watch.numbers().await);
    }
    all
}
