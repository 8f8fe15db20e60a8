//! A part of a lane in a thread and a runtime of its own, so that a slow one delays nobody else.

use std::future::Future;
use std::io;
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// A part at work.
#[derive(Debug)]
pub(crate) struct Worker<T> {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<io::Result<T>>,
}

impl<T: Send + 'static> Worker<T> {
    /// Runs `work` in a thread. Its argument is ready when the part is to end.
    pub(crate) fn start<F, W>(name: &str, work: F) -> io::Result<Self>
    where
        F: FnOnce(Stopped) -> W + Send + 'static,
        W: Future<Output = io::Result<T>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(format!("lab-{name}"))
            .spawn(move || {
                // Whatever it has spawned ends with it.
                LocalSet::new().block_on(
                    &runtime,
                    work(Box::pin(async move {
                        stopped.await.ok();
                    })),
                )
            })?;
        Ok(Self { stop, thread })
    }

    /// Whether it has ended by itself.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it; what it came to.
    pub(crate) fn stop(self) -> io::Result<T> {
        self.stop.send(()).ok();
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("a thread of the lab panicked")))
    }
}

/// Ready when a part is to end.
pub(crate) type Stopped = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
