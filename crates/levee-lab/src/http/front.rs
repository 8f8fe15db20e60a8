//! The front in the middle of a lane, the same that `levee run` starts: the one place of the HTTP lab that starts Levee.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;

use levee_proxy::http;
use levee_proxy::http::settings::{HttpSettings, Listen};
use levee_proxy::http::snapshot::Snapshot;
use tokio::sync::oneshot;

/// A front at work. Its workers have threads of their own; this one waits for its end.
#[derive(Debug)]
pub struct Front {
    addr: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Snapshot>,
}

/// What a front of the lab runs with before its defences are set: one worker, as the clients' thread and the origin want the
/// other core.
#[must_use]
pub fn settings(server: SocketAddr, seed: u64) -> HttpSettings {
    let any = Listen::plain(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let mut settings = HttpSettings::new("lab", vec![any], server);
    settings.workers = 1;
    // 0 would be a seed from the system, and the run could not be had again.
    settings.seed = seed.max(1);
    // Clients that retry for a whole run are not to be sent to a new connection now and then.
    settings.limits.keep_alive_requests = u32::MAX;
    settings
}

impl Front {
    /// Starts it.
    ///
    /// # Errors
    /// When a thread or a socket cannot be had, or the settings do not go together.
    pub fn start(settings: HttpSettings) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let (started, addr) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("lab-front".into())
            .spawn(move || {
                runtime.block_on(async {
                    let front = match http::start(settings).await {
                        Ok(front) => front,
                        Err(error) => {
                            started.send(Err(error)).ok();
                            return Snapshot::default();
                        }
                    };
                    let addr = front.addrs().first().map(|listen| listen.addr);
                    started.send(Ok(addr)).ok();
                    stopped.await.ok();
                    front.stop(Duration::ZERO).await
                })
            })?;
        let addr = addr.recv().map_err(io::Error::other)?;
        let addr = addr.map_err(io::Error::other)?;
        let addr = addr.ok_or_else(|| io::Error::other("the front has no listener"))?;
        Ok(Self { addr, stop, thread })
    }

    /// Where clients connect.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Ends it; its counters as they were at the end.
    ///
    /// # Errors
    /// When its thread panicked.
    pub fn stop(self) -> io::Result<Snapshot> {
        self.stop.send(()).ok();
        self.thread
            .join()
            .map_err(|_| io::Error::other("the front panicked"))
    }
}
