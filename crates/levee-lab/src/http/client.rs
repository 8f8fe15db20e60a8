//! One client: its bandwidth, the requests that wait for its window, and its connections.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use levee_sim::model::thinner::{Group, Split};
use levee_sim::schedule::Kind;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;

use super::bucket::Bucket;
use super::wire::{self, Response};

/// What a client sends at most in one piece: this much of a second at its rate. Twice a timer's step of a
/// millisecond is noise then, and fifty clients make some thousand writes a second.
const PIECE_S: f64 = 0.02;
/// Pieces are not smaller or larger than this, whatever the rate.
const PIECE_BYTES: std::ops::RangeInclusive<usize> = 64..=16_384;

/// What a client catches up with when timers were late: a busy machine's delays.
const SLACK: Duration = Duration::from_millis(100);

/// What a client did after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests sent, those sent again too.
    pub tries: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Of them, those on payment channels.
    pub channel: u64,
}

/// A client.
pub(crate) struct Client {
    pub(crate) kind: Kind,
    pub(crate) group: Group,
    /// Requests that wait for the window, by their number among all.
    pub(crate) queue: RefCell<VecDeque<usize>>,
    pub(crate) come: Notify,
    pub(crate) counts: Cell<Counts>,
    /// When counting begins.
    counted: Duration,
    target: SocketAddr,
    source: Ipv4Addr,
    bucket: RefCell<Bucket>,
    hashes: RefCell<Bucket>,
    /// Requests that pay now, by number: the oldest first.
    payers: RefCell<BTreeSet<usize>>,
    turn: Notify,
    piece: usize,
    epoch: Instant,
}

impl Client {
    pub(crate) fn new(
        kind: Kind,
        group: Group,
        target: SocketAddr,
        source: Ipv4Addr,
        (epoch, counted): (Instant, Duration),
    ) -> Self {
        let (least, most) = PIECE_BYTES.into_inner();
        // A rate without a limit makes the largest piece.
        let piece = ((group.up * PIECE_S) as usize).clamp(least, most);
        Self {
            kind,
            group,
            queue: RefCell::default(),
            come: Notify::new(),
            counts: Cell::default(),
            counted,
            target,
            source,
            bucket: RefCell::new(Bucket::new(group.up, SLACK)),
            hashes: RefCell::new(Bucket::new(group.hashes, SLACK)),
            payers: RefCell::default(),
            turn: Notify::new(),
            piece,
            epoch,
        }
    }

    /// Returns when so many hashes may be made.
    pub(crate) async fn hashes(&self, count: u64) {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let at = self.hashes.borrow_mut().grant(self.now(), count);
        // The thread is everyone's, even where the client is fast.
        tokio::task::yield_now().await;
        if at > self.now() {
            tokio::time::sleep_until((self.epoch + at).into()).await;
        }
        self.hashes.borrow_mut().used(self.now());
    }

    /// A request that pays from now on, until what is given is dropped.
    pub(crate) fn payer(&self, number: usize) -> Payer<'_> {
        self.payers.borrow_mut().insert(number);
        self.turn.notify_waiters();
        Payer {
            client: self,
            number,
        }
    }

    /// Whose turn it is, if not everyone's.
    fn chosen(&self) -> Option<usize> {
        let payers = self.payers.borrow();
        match self.group.split {
            Split::Equal => None,
            Split::Oldest => payers.first().copied(),
            Split::Newest => payers.last().copied(),
        }
    }

    /// Counts what happens now, if the warm-up is over.
    pub(crate) fn note(&self, what: impl FnOnce(&mut Counts)) {
        if self.now() >= self.counted {
            let mut counts = self.counts.get();
            what(&mut counts);
            self.counts.set(counts);
        }
    }

    pub(crate) fn piece(&self) -> usize {
        self.piece
    }

    pub(crate) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Returns when `bytes` may be sent. Whoever does not wait for it takes nothing.
    pub(crate) async fn allowance(&self, bytes: usize) {
        let at = self.bucket.borrow_mut().grant(self.now(), bytes);
        let mut grant = Grant {
            bucket: &self.bucket,
            bytes,
        };
        if at > self.now() {
            tokio::time::sleep_until((self.epoch + at).into()).await;
        }
        grant.bytes = 0;
        self.bucket.borrow_mut().used(self.now());
        self.note(|counts| counts.bytes += bytes as u64);
    }

    pub(crate) async fn connect(&self) -> io::Result<Link> {
        let socket = TcpSocket::new_v4()?;
        // Each client has an address of its own, as on a network.
        socket.bind((self.source, 0).into())?;
        let stream = socket.connect(self.target).await?;
        stream.set_nodelay(true)?;
        Ok(Link {
            stream,
            buffer: Vec::new(),
            used: false,
        })
    }
}

/// A request that pays.
pub(crate) struct Payer<'c> {
    client: &'c Client,
    number: usize,
}

impl Payer<'_> {
    /// Returns when the client pays for this request.
    pub(crate) async fn wait(&self) {
        while self.client.chosen().is_some_and(|n| n != self.number) {
            self.client.turn.notified().await;
        }
    }
}

impl Drop for Payer<'_> {
    fn drop(&mut self) {
        self.client.payers.borrow_mut().remove(&self.number);
        self.client.turn.notify_waiters();
    }
}

/// A grant: what is not used of it is given back.
struct Grant<'c> {
    bucket: &'c RefCell<Bucket>,
    bytes: usize,
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        self.bucket.borrow_mut().give_back(self.bytes);
    }
}

/// A connection of a client.
pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
    /// Whether a request has been answered on it.
    pub(crate) used: bool,
}

impl Link {
    /// Sends at the client's rate.
    pub(crate) async fn send(&mut self, client: &Client, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(client.piece()) {
            client.allowance(piece.len()).await;
            self.stream.write_all(piece).await?;
        }
        Ok(())
    }

    pub(crate) async fn response(&mut self) -> io::Result<Response> {
        wire::read_response(&mut self.stream, &mut self.buffer).await
    }

    /// Whether an answer, or the end of the connection, has come.
    pub(crate) fn has_answer(&mut self) -> io::Result<bool> {
        if !self.buffer.is_empty() {
            return Ok(true);
        }
        match self.stream.try_read_buf(&mut self.buffer) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Whether the other side has closed it, or sent what nobody asked for.
    pub(crate) fn is_stale(&self) -> bool {
        let mut byte = [0];
        !matches!(self.stream.try_read(&mut byte), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
    }
}
