//! `levee run CONFIG`: the live fronts and the admin page, until a signal.
//!
//! Each front has a thread and a runtime of its own, so that a scrape, a reload or another front never delays a message.
//! This thread has the admin page and the signals.

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use levee_proxy::admin::{self, Admin};
use levee_proxy::config::LiveConfig;
use levee_proxy::front::Numbers;
use levee_proxy::sip::settings::SipSettings;
use levee_proxy::sip::{self, Running, Snapshot, Watch};
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

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
                Ok(()) => tracing::info!(config = %args.config.display(), "reloaded; every call goes on"),
                Err(error) => tracing::error!("the old configuration goes on: {error:#}"),
            },
        }
    }
    let drain = live.config.drain;
    tracing::info!(
        ?drain,
        "stopping: new calls get 503, held calls go on; a second signal stops at once"
    );
    tokio::select! {
        snapshots = live.stop(drain) => Ok(snapshots),
        () = stop.asked() => {
            tracing::warn!("stopped at once: held calls go on without Levee");
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
        let mut fronts: Vec<Front> = Vec::new();
        for settings in &mut config.sip {
            if settings.seed == 0 {
                settings.seed =
                    getrandom::u64().map_err(|error| anyhow!("no random seed: {error}"))?;
            }
            // The fronts that run already stop with their threads when an error leaves this function.
            fronts.push(Front::start(settings.clone()).await?);
        }
        let watches: Vec<Watch> = fronts.iter().map(|front| front.running.watch()).collect();
        let admin = match &config.admin {
            None => None,
            Some(settings) => {
                let admin = admin::start(settings, move || snapshots(watches.clone())).await?;
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
        let names = |config: &LiveConfig| {
            config
                .sip
                .iter()
                .map(|front| front.name.clone())
                .collect::<Vec<_>>()
        };
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
        for (new, old) in new.sip.iter_mut().zip(&self.config.sip) {
            if new.seed == 0 {
                new.seed = old.seed;
            }
        }
        for (at, front) in self.fronts.iter().enumerate() {
            let Some(settings) = new.sip.get(at) else {
                continue;
            };
            if let Err(error) = front.running.reload(settings.clone()).await {
                self.take_back(at).await;
                return Err(error).with_context(|| format!("front `{}`", settings.name));
            }
        }
        level.change(new.log)?;
        self.config = new;
        Ok(())
    }

    /// Gives the fronts before `at` their old settings again.
    async fn take_back(&self, at: usize) {
        for (front, old) in self.fronts.iter().zip(&self.config.sip).take(at) {
            if let Err(error) = front.running.reload(old.clone()).await {
                tracing::error!(front = old.name, %error, "the old settings cannot be taken back");
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
        let mut snapshots = Vec::new();
        for stop in stops {
            // A front that panicked has no numbers left to give.
            if let Ok(snapshot) = stop.await {
                tracing::info!(
                    front = snapshot.name,
                    calls_left = snapshot.held(),
                    "stopped"
                );
                snapshots.push(snapshot.into());
            }
        }
        snapshots
    }
}

/// Of the fronts that run.
async fn snapshots(watches: Vec<Watch>) -> Vec<Numbers> {
    let mut snapshots = Vec::new();
    for watch in watches {
        snapshots.extend(watch.snapshot().await.map(Numbers::from));
    }
    snapshots
}

/// A front on a thread of its own.
struct Front {
    running: Running,
    /// The thread's runtime runs until this is dropped.
    quit: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Front {
    async fn start(settings: SipSettings) -> Result<Self> {
        let name = settings.name.clone();
        let (quit, quitted) = oneshot::channel::<()>();
        let (started, start) = oneshot::channel();
        let own = runtime()?;
        let work = move || {
            own.block_on(async move {
                let running = sip::start(settings).await;
                let runs = running.is_ok();
                if started.send(running).is_ok() && runs {
                    // Nothing is ever sent: it ends when the other side is dropped.
                    let _ = quitted.await;
                }
            });
        };
        let thread = std::thread::Builder::new()
            .name(format!("levee-{name}"))
            .spawn(work)
            .context("cannot start a thread")?;
        let running = start
            .await
            .context("the front's thread ended")?
            .with_context(|| format!("front `{name}`"))?;
        for listen in running.addrs() {
            tracing::info!(front = name, %listen, "listens");
        }
        for listen in running.inside_addrs() {
            tracing::info!(front = name, inside = %listen, "listens");
        }
        Ok(Front {
            running,
            quit,
            thread,
        })
    }

    async fn stop(self, drain: Duration) -> Snapshot {
        let snapshot = self.running.stop(drain).await;
        drop(self.quit);
        // It only has to drop its runtime.
        let _ = self.thread.join();
        snapshot
    }
}
