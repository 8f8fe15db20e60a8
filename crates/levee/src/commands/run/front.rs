//! A front that runs, of either kind.

use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use levee_proxy::config::LiveConfig;
use levee_proxy::front::Numbers;
use levee_proxy::http::settings::HttpSettings;
use levee_proxy::sip::settings::SipSettings;
use levee_proxy::{http, sip};
use tokio::sync::oneshot;

use super::runtime;

/// What a front is started or reloaded with.
pub(super) enum Settings {
    Sip(Box<SipSettings>),
    Http(Box<HttpSettings>),
}

impl Settings {
    /// Of each front, always in the same order.
    pub(super) fn of(config: &LiveConfig) -> impl Iterator<Item = Settings> {
        let sip = config.sip.iter().cloned();
        let http = config.http.iter().cloned();
        sip.map(|sip| Settings::Sip(Box::new(sip)))
            .chain(http.map(|http| Settings::Http(Box::new(http))))
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Settings::Sip(_) => "sip",
            Settings::Http(_) => "http",
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Settings::Sip(sip) => &sip.name,
            Settings::Http(http) => &http.name,
        }
    }
}

/// A way to ask a front for its numbers.
#[derive(Clone)]
pub(super) enum Watch {
    Sip(sip::Watch),
    Http(http::Watch),
}

impl Watch {
    /// As of now; `None` when the front has stopped.
    pub(super) async fn numbers(&self) -> Option<Numbers> {
        match self {
            Watch::Sip(watch) => watch.snapshot().await.map(Numbers::from),
            Watch::Http(watch) => watch.snapshot().await.map(Numbers::from),
        }
    }
}

/// A front that runs.
pub(super) enum Front {
    Sip(SipThread),
    /// Its workers are threads already.
    Http(http::Running),
}

impl Front {
    pub(super) async fn start(settings: Settings) -> Result<Self> {
        let name = settings.name().to_owned();
        match settings {
            Settings::Sip(settings) => SipThread::start(*settings).await.map(Front::Sip),
            Settings::Http(settings) => {
                let running = http::start(*settings).await;
                let running = running.with_context(|| format!("front `{name}`"))?;
                for listen in running.addrs() {
                    tracing::info!(front = name, %listen, "listens");
                }
                Ok(Front::Http(running))
            }
        }
    }

    pub(super) fn watch(&self) -> Watch {
        match self {
            Front::Sip(front) => Watch::Sip(front.running.watch()),
            Front::Http(running) => Watch::Http(running.watch()),
        }
    }

    /// Takes new settings, or keeps the old ones and says why.
    pub(super) async fn reload(&self, settings: Settings) -> Result<()> {
        match (self, settings) {
            (Front::Sip(front), Settings::Sip(settings)) => {
                Ok(front.running.reload(*settings).await?)
            }
            (Front::Http(running), Settings::Http(settings)) => Ok(running.reload(*settings)?),
            // The fronts of two configurations with the same names and kinds stand in the same order.
            (_, settings) => Err(anyhow::anyhow!(
                "`{}` is another kind of front now: restart Levee",
                settings.name()
            )),
        }
    }

    pub(super) async fn stop(self, drain: Duration) -> Numbers {
        match self {
            Front::Sip(front) => front.stop(drain).await.into(),
            Front::Http(running) => running.stop(drain).await.into(),
        }
    }
}

/// A SIP front on a thread of its own.
pub(super) struct SipThread {
    running: sip::Running,
    /// The thread's runtime runs until this is dropped.
    quit: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl SipThread {
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
        Ok(SipThread {
            running,
            quit,
            thread,
        })
    }

    async fn stop(self, drain: Duration) -> sip::Snapshot {
        let snapshot = self.running.stop(drain).await;
        drop(self.quit);
        // It only has to drop its runtime.
        let _ = self.thread.join();
        snapshot
    }
}
