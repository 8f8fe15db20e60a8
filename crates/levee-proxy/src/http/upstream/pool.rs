//! Connections to the server that one worker keeps for its next requests.
//!
//! The one that was used last is taken first: it is the least likely to have died, and those that are not needed grow old and
//! are closed. Whether one has died is known without a system call: the driver has seen something to read on it, and a
//! connection without a request has nothing to say.

use std::cell::{Cell, RefCell};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use socket2::SockRef;
use tokio::net::TcpStream;

/// Connections to the server of all workers, against their limit.
#[derive(Debug, Default)]
pub(crate) struct Open(AtomicUsize);

/// One place among [`Open`]; dropped, it is free again.
#[derive(Debug)]
pub(crate) struct Lease {
    open: Arc<Open>,
    /// How many of them are this worker's.
    own: Rc<Cell<usize>>,
}

impl Lease {
    /// `None` when `max` are open.
    pub(crate) fn take(open: &Arc<Open>, own: &Rc<Cell<usize>>, max: usize) -> Option<Self> {
        let room = |n: usize| (n < max).then_some(n + 1);
        open.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room)
            .ok()?;
        own.set(own.get() + 1);
        Some(Self {
            open: Arc::clone(open),
            own: Rc::clone(own),
        })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.open.0.fetch_sub(1, Ordering::Relaxed);
        self.own.set(self.own.get() - 1);
    }
}

/// A connection to the server.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) stream: TcpStream,
    /// Where to; a reload may have changed that since.
    pub(crate) server: SocketAddr,
    /// Whether it has carried a request before.
    pub(crate) reused: bool,
    _lease: Lease,
}

impl Upstream {
    /// Connects.
    pub(crate) async fn connect(server: SocketAddr, lease: Lease) -> io::Result<Self> {
        let stream = TcpStream::connect(server).await?;
        // A body that comes in pieces must not wait for the acknowledgement of its head. Without it, it is only later.
        drop(stream.set_nodelay(true));
        Ok(Self {
            stream,
            server,
            reused: false,
            _lease: lease,
        })
    }

    /// As [`Upstream::is_quiet`], asked of the kernel.
    pub(crate) fn is_quiet_now(&self) -> bool {
        let peeked = SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit()]);
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Nothing has been said on it since it was put away: neither an end nor an answer that nobody asked for.
    fn is_quiet(&self) -> bool {
        // No system call while the driver has seen nothing.
        let read = self.stream.try_read(&mut [0]);
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

#[derive(Debug)]
struct Idle {
    upstream: Upstream,
    /// When it is too old, in the milliseconds of the worker's timers.
    until_ms: u64,
}

/// The idle connections of one worker.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: RefCell<Vec<Idle>>,
    max: Cell<usize>,
}

impl Pool {
    pub(crate) fn new(max: usize) -> Rc<Self> {
        let pool = Self::default();
        pool.max.set(max);
        Rc::new(pool)
    }

    /// From now on keeps up to `max`.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.set(max);
        self.idle.borrow_mut().truncate(max);
    }

    /// One that can be used, to `server`.
    pub(crate) fn take(&self, server: SocketAddr) -> Option<Upstream> {
        let mut idle = self.idle.borrow_mut();
        while let Some(Idle { mut upstream, .. }) = idle.pop() {
            if upstream.server == server && upstream.is_quiet() {
                upstream.reused = true;
                return Some(upstream);
            }
        }
        None
    }

    /// Keeps one until `until_ms`, if there is room.
    pub(crate) fn put(&self, upstream: Upstream, until_ms: u64) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < self.max.get() {
            idle.push(Idle { upstream, until_ms });
        }
    }

    /// Closes those that are too old or have died.
    pub(crate) fn sweep(&self, now_ms: u64) {
        let keep = |i: &Idle| now_ms < i.until_ms && i.upstream.is_quiet();
        self.idle.borrow_mut().retain(keep);
    }

    /// Closes all.
    pub(crate) fn clear(&self) {
        self.idle.borrow_mut().clear();
    }

    /// How many are kept.
    pub(crate) fn len(&self) -> usize {
        self.idle.borrow().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    struct World {
        server: SocketAddr,
        listener: TcpListener,
        open: Arc<Open>,
        own: Rc<Cell<usize>>,
    }

    impl World {
        async fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            Self {
                server: listener.local_addr().unwrap(),
                listener,
                open: Arc::default(),
                own: Rc::default(),
            }
        }

        async fn pair(&self) -> (Upstream, TcpStream) {
            let lease = Lease::take(&self.open, &self.own, 8).unwrap();
            let upstream = Upstream::connect(self.server, lease).await.unwrap();
            (upstream, self.listener.accept().await.unwrap().0)
        }
    }

    #[tokio::test]
    async fn the_last_one_put_away_is_taken_first_and_a_dead_one_never() {
        let world = World::new().await;
        let pool = Pool::new(8);
        let mut ends = Vec::new();
        let mut names = Vec::new();
        for _ in 0..4 {
            let (upstream, end) = world.pair().await;
            names.push(upstream.stream.local_addr().unwrap());
            ends.push(end);
            pool.put(upstream, 1_000);
        }
        // The third says something unasked, the fourth closes.
        ends[2]
            .write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
            .await
            .unwrap();
        drop(ends.pop());
        for i in [3, 2] {
            poll_fn(|cx| pool.idle.borrow()[i].upstream.stream.poll_read_ready(cx))
                .await
                .unwrap();
        }
        let taken = pool.take(world.server).unwrap();
        assert_eq!(taken.stream.local_addr().unwrap(), names[1]);
        assert!(taken.reused);
        assert_eq!((pool.len(), world.own.get()), (1, 2));
        // Of another server there is none.
        assert!(pool.take("127.0.0.1:9".parse().unwrap()).is_none());
        assert_eq!(pool.len(), 0);
    }

    #[tokio::test]
    async fn the_old_ones_are_closed_and_no_more_are_kept_than_allowed() {
        let world = World::new().await;
        let pool = Pool::new(2);
        let mut ends = Vec::new();
        for until_ms in [100, 200, 300] {
            let (upstream, end) = world.pair().await;
            ends.push(end);
            pool.put(upstream, until_ms);
        }
        assert_eq!((pool.len(), world.own.get()), (2, 2));
        pool.sweep(99);
        assert_eq!(pool.len(), 2);
        pool.sweep(100);
        assert_eq!(pool.len(), 1);
        pool.set_max(0);
        assert_eq!((pool.len(), world.own.get()), (0, 0));
    }

    #[test]
    fn a_lease_holds_a_place_until_it_is_dropped() {
        let (open, own) = (Arc::default(), Rc::default());
        let first = Lease::take(&open, &own, 1).unwrap();
        assert!(Lease::take(&open, &own, 1).is_none());
        drop(first);
        assert!(Lease::take(&open, &own, 1).is_some());
    }
}
