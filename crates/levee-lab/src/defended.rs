//! The front in the middle of a defended lane: the one place of the lab that starts Levee.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;

use levee_policy::selective::Config;
use levee_proxy::sip;
use levee_proxy::sip::settings::{Listen, SipSettings, Timers};
use levee_proxy::sip::{Snapshot, StartError};
use tokio::sync::oneshot;

use crate::ua::TransactionTimers;

/// A front at work in a thread of its own, so that it shares nothing with those that load it.
#[derive(Debug)]
pub(crate) struct Front {
    outside: SocketAddr,
    inside: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Snapshot>,
}

impl Front {
    /// Puts a front before `server`, which holds `capacity` calls.
    pub(crate) fn start(
        server: SocketAddr,
        capacity: u32,
        defense: &Config,
        timers: TransactionTimers,
        seed: u64,
    ) -> io::Result<Self> {
        let any = Listen::udp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let defense = defense.clone();
        let mut settings =
            SipSettings::new("lab", vec![any], Listen::udp(server), capacity, defense);
        settings.inside = vec![any];
        settings.timers = Timers {
            t1: timers.t1,
            t2: timers.t2,
            t4: timers.t4,
            ..Timers::default()
        };
        // 0 would be a seed from the system, and the run could not be had again.
        settings.seed = seed.max(1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let (started, addrs) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("lab-front".into())
            .spawn(move || {
                runtime.block_on(async {
                    let front = match sip::start(settings).await {
                        Ok(front) => front,
                        Err(error) => {
                            started.send(Err(error)).ok();
                            return Snapshot::default();
                        }
                    };
                    let addrs = [front.addrs().first(), front.inside_addrs().first()];
                    started.send(Ok(addrs.map(|l| l.map(|l| l.addr)))).ok();
                    stopped.await.ok();
                    front.stop(Duration::ZERO).await
                })
            })?;
        let addrs: Result<_, StartError> = addrs.recv().map_err(io::Error::other)?;
        let [Some(outside), Some(inside)] = addrs.map_err(io::Error::other)? else {
            return Err(io::Error::other("the front has no listener"));
        };
        Ok(Self {
            outside,
            inside,
            stop,
            thread,
        })
    }

    /// Where callers and callees send.
    pub(crate) fn outside(&self) -> SocketAddr {
        self.outside
    }

    /// Where the server sends.
    pub(crate) fn inside(&self) -> SocketAddr {
        self.inside
    }

    /// Ends the front; its counters as they were at the end.
    pub(crate) fn stop(self) -> io::Result<Snapshot> {
        self.stop.send(()).ok();
        self.thread
            .join()
            .map_err(|_| io::Error::other("the front panicked"))
    }
}
