//! One client: its bandwidth, the requests that wait for its window, and its connections.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use levee_sim::model::thinner::Group;
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

/// A client.
pub(crate) struct Client {
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) group: Group,
    /// Requests that wait for the window, by their number among all.
    pub(crate) queue: RefCell<VecDeque<usize>>,
    pub(crate) come: Notify,
    /// Bytes that it has sent.
    pub(crate) sent: Cell<u64>,
    target: SocketAddr,
    source: Ipv4Addr,
    bucket: RefCell<Bucket>,
    piece: usize,
    epoch: Instant,
}

impl Client {
    pub(crate) fn new(
        number: u32,
        kind: Kind,
        group: Group,
        target: SocketAddr,
        source: Ipv4Addr,
        epoch: Instant,
    ) -> Self {
        let (least, most) = PIECE_BYTES.into_inner();
        // A rate without a limit makes the largest piece.
        let piece = ((group.up * PIECE_S) as usize).clamp(least, most);
        Self {
            number,
            kind,
            group,
            queue: RefCell::default(),
            come: Notify::new(),
            sent: Cell::new(0),
            target,
            source,
            // A timer that is late by a few milliseconds costs no bandwidth.
            bucket: RefCell::new(Bucket::new(group.up, piece as f64)),
            piece,
            epoch,
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
        self.sent.set(self.sent.get() + bytes as u64);
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
        let response = wire::read_response(&mut self.stream, &mut self.buffer).await?;
        self.used = true;
        Ok(response)
    }

    /// Whether the other side has closed it, or sent what nobody asked for.
    pub(crate) fn is_stale(&self) -> bool {
        let mut byte = [0];
        !matches!(self.stream.try_read(&mut byte), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
    }
}
