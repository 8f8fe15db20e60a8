//! A long command that is interrupted leaves what it finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output;

/// Becomes true at the first SIGINT or SIGTERM; the second ends the program at once.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let stop = {
        let _inside = runtime.enter();
        Stop::new()?
    };
    let raised = Arc::clone(&flag);
    std::thread::Builder::new()
        .name("levee-signals".to_owned())
        .spawn(move || runtime.block_on(watch(stop, &raised)))?;
    Ok(flag)
}

async fn watch(mut stop: Stop, raised: &AtomicBool) {
    stop.asked().await;
    raised.store(true, Ordering::Relaxed);
    output::note("stopping; once more to stop without a result");
    stop.asked().await;
    #[expect(
        clippy::exit,
        reason = "the main thread is busy with what the user no longer wants"
    )]
    std::process::exit(130);
}

/// SIGINT and SIGTERM.
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    /// To be called inside a runtime.
    pub(crate) fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Stop {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next of them.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
