//! The socket under HTTP/2, watched: what frames pass is counted before `h2` sees them.
//!
//! `h2` bounds its memory; it does not bound the work that frames make which carry nothing, nor the time that a client takes
//! for a header block. Nine bytes a frame are looked at here, and no payload.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::connection::Link;
use crate::http::io::{Early, Stream};
use crate::http::settings::H2Limits;

const PREFACE_BYTES: usize = 24;
const FRAME_HEAD_BYTES: usize = 9;
const NEVER: u64 = u64::MAX;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// WINDOW_UPDATE frames that a client may answer to one DATA frame: the stream's and the connection's.
const UPDATES_PER_DATA: u32 = 2;
/// Of them, so many may be saved up: what a connection sends in the time of its window.
const UPDATES_MAX: u32 = 10_000;

/// The head of a frame (RFC 9113 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    len: u32,
    kind: u8,
    flags: u8,
}

/// Finds the frames in a stream of bytes.
#[derive(Debug, Default)]
struct Scanner {
    head: [u8; FRAME_HEAD_BYTES],
    have: usize,
    /// Of the payload at hand, or of the preface, which is passed over as one.
    left: usize,
    kind: u8,
}

impl Scanner {
    /// Calls `seen` for each frame whose head is complete in `bytes`.
    fn feed(&mut self, mut bytes: &[u8], mut seen: impl FnMut(Frame)) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let n = self.left.min(bytes.len());
                self.left -= n;
                bytes = &bytes[n..];
                continue;
            }
            let n = (FRAME_HEAD_BYTES - self.have).min(bytes.len());
            self.head[self.have..][..n].copy_from_slice(&bytes[..n]);
            self.have += n;
            bytes = &bytes[n..];
            if self.have == FRAME_HEAD_BYTES {
                let [a, b, c, kind, flags, ..] = self.head;
                let len = u32::from_be_bytes([0, a, b, c]);
                self.have = 0;
                self.left = len as usize;
                self.kind = kind;
                seen(Frame { len, kind, flags });
            }
        }
    }

    /// Whether a frame has begun that is not whole, content left out: a body has a deadline of its own.
    fn is_within_control(&self) -> bool {
        self.have > 0 || (self.left > 0 && self.kind != DATA)
    }
}

/// So many at once, and so many more a second.
#[derive(Debug)]
struct Bucket {
    burst: u64,
    per_second: u64,
    /// In thousandths.
    level: u64,
    at_ms: u64,
}

impl Bucket {
    fn new(burst: u32, per_second: u32, now_ms: u64) -> Self {
        let burst = u64::from(burst) * 1_000;
        Self {
            burst,
            per_second: u64::from(per_second),
            level: burst,
            at_ms: now_ms,
        }
    }

    /// Takes one. Whether there was one.
    fn take(&mut self, now_ms: u64) -> bool {
        let passed = now_ms.saturating_sub(self.at_ms);
        self.at_ms = now_ms;
        let more = passed.saturating_mul(self.per_second);
        self.level = self.level.saturating_add(more).min(self.burst);
        // What there is of the next one stays.
        let taken = self.level.checked_sub(1_000);
        self.level = taken.unwrap_or(self.level);
        taken.is_some()
    }
}

#[derive(Debug)]
struct Counts {
    came: Scanner,
    went: Scanner,
    /// Whether a header block goes on in CONTINUATION frames, and how many have come.
    block: Option<u32>,
    continuations_max: u32,
    resets: Bucket,
    control: Bucket,
    updates: u32,
    abuse: Option<&'static str>,
}

impl Counts {
    fn new(limits: &H2Limits, now_ms: u64) -> Self {
        let came = Scanner {
            left: PREFACE_BYTES,
            ..Scanner::default()
        };
        Self {
            came,
            went: Scanner::default(),
            block: None,
            continuations_max: limits.continuations_max,
            resets: Bucket::new(limits.resets_burst, limits.resets_per_second, now_ms),
            control: Bucket::new(
                limits.control_frames_burst,
                limits.control_frames_per_second,
                now_ms,
            ),
            updates: 0,
            abuse: None,
        }
    }

    fn came(&mut self, bytes: &[u8], now_ms: u64) {
        let mut scanner = std::mem::take(&mut self.came);
        scanner.feed(bytes, |frame| self.frame_came(frame, now_ms));
        self.came = scanner;
    }

    fn frame_came(&mut self, frame: Frame, now_ms: u64) {
        let Frame { len, kind, flags } = frame;
        let ends = flags & END_HEADERS != 0;
        match kind {
            HEADERS => self.block = (!ends).then_some(0),
            CONTINUATION => {
                // One without a block is an error that `h2` sees.
                let count = self.block.unwrap_or(0) + 1;
                self.block = (!ends).then_some(count);
                if count > self.continuations_max {
                    self.abuse = Some("continuations");
                }
            }
            RST_STREAM => self.reset(now_ms),
            DATA if len > 0 || flags & END_STREAM != 0 => {}
            WINDOW_UPDATE if self.updates > 0 => self.updates -= 1,
            // SETTINGS, PING, PRIORITY, GOAWAY, what nobody knows; DATA of nothing.
            _ => {
                if !self.control.take(now_ms) {
                    self.abuse = Some("control_frames");
                }
            }
        }
    }

    fn went(&mut self, bytes: &[u8], now_ms: u64) {
        let mut scanner = std::mem::take(&mut self.went);
        scanner.feed(bytes, |frame| match frame.kind {
            DATA => self.updates = (self.updates + UPDATES_PER_DATA).min(UPDATES_MAX),
            // A client that makes us reset its streams has the same work done as one that resets them.
            RST_STREAM => self.reset(now_ms),
            _ => {}
        });
        self.went = scanner;
    }

    fn reset(&mut self, now_ms: u64) {
        if !self.resets.take(now_ms) {
            self.abuse = Some("resets");
        }
    }

    /// Whether the client is in the middle of something that is no content.
    fn is_within(&self) -> bool {
        self.block.is_some() || self.came.is_within_control()
    }
}

/// What is known of the frames of one connection.
#[derive(Debug)]
pub(super) struct Watch {
    counts: RefCell<Counts>,
    /// Since when a frame or a header block is not whole.
    within_ms: Cell<u64>,
    /// Since when the client takes nothing.
    stalled_ms: Cell<u64>,
}

impl Watch {
    pub(super) fn new(limits: &H2Limits, now_ms: u64) -> Self {
        Self {
            counts: RefCell::new(Counts::new(limits, now_ms)),
            within_ms: Cell::new(NEVER),
            stalled_ms: Cell::new(NEVER),
        }
    }

    /// What the client does too much of.
    pub(super) fn abuse(&self) -> Option<&'static str> {
        self.counts.borrow().abuse
    }

    /// Since when a frame that is not content, or a header block, is not whole.
    pub(super) fn within_ms(&self) -> u64 {
        self.within_ms.get()
    }

    /// Since when the client takes nothing of what there is for it.
    pub(super) fn stalled_ms(&self) -> u64 {
        self.stalled_ms.get()
    }

    fn came(&self, bytes: &[u8], now_ms: u64) {
        let mut counts = self.counts.borrow_mut();
        let was_within = counts.is_within();
        counts.came(bytes, now_ms);
        match (was_within, counts.is_within()) {
            (_, false) => self.within_ms.set(NEVER),
            (false, true) => self.within_ms.set(now_ms),
            // A block that goes on is as old as its beginning. What was begun before may have ended within these bytes, and
            // the next is then thought older than it is, by less than these bytes took to come.
            (true, true) => {}
        }
    }

    fn went(&self, pieces: &[IoSlice<'_>], mut n: usize, now_ms: u64) {
        let mut counts = self.counts.borrow_mut();
        for piece in pieces {
            let here = n.min(piece.len());
            counts.went(&piece[..here], now_ms);
            n -= here;
        }
        self.stalled_ms.set(NEVER);
    }

    fn stalled(&self, now_ms: u64) {
        if self.stalled_ms.get() == NEVER {
            self.stalled_ms.set(now_ms);
        }
    }
}

/// The socket that `h2` is given.
#[derive(Debug)]
pub(super) struct Guard {
    stream: Early<Stream>,
    watch: Rc<Watch>,
    link: Rc<Link>,
}

impl Guard {
    pub(super) fn new(stream: Early<Stream>, watch: &Rc<Watch>, link: &Rc<Link>) -> Self {
        Self {
            stream,
            watch: Rc::clone(watch),
            link: Rc::clone(link),
        }
    }

    fn wrote(
        &self,
        polled: Poll<io::Result<usize>>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let now_ms = self.link.worker.timers.now_ms();
        match &polled {
            Poll::Ready(Ok(n)) => {
                self.link.went(*n);
                self.watch.went(pieces, *n, now_ms);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.watch.stalled(now_ms),
        }
        polled
    }
}

impl AsyncRead for Guard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The connection's task looks at this after each poll: nothing more is read in between.
        if self.watch.abuse().is_some() {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let bytes = &buf.filled()[before..];
        self.link.came(bytes.len());
        self.watch.came(bytes, self.link.worker.timers.now_ms());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Guard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(polled, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(polled, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, len: usize) -> Vec<u8> {
        let mut bytes = (len as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags, 0, 0, 0, 1]);
        bytes.resize(bytes.len() + len, 0);
        bytes
    }

    fn limits() -> H2Limits {
        H2Limits {
            continuations_max: 2,
            resets_burst: 3,
            resets_per_second: 10,
            control_frames_burst: 4,
            control_frames_per_second: 10,
            ..H2Limits::default()
        }
    }

    /// What is seen of these frames, which come in pieces of `step` bytes at a time.
    fn abuse(frames: &[Vec<u8>], step: usize) -> Option<&'static str> {
        let watch = Watch::new(&limits(), 0);
        let mut bytes = vec![0; PREFACE_BYTES];
        bytes.extend(frames.concat());
        for piece in bytes.chunks(step) {
            watch.came(piece, 0);
        }
        watch.abuse()
    }

    #[test]
    fn frames_are_counted_however_they_come() {
        let request = || frame(HEADERS, END_HEADERS | END_STREAM, 30);
        let many = |frame: Vec<u8>, n: usize| vec![frame; n];
        for (frames, expect) in [
            (many(request(), 50), None),
            (many(frame(DATA, 0, 1), 50), None),
            (many(frame(DATA, END_STREAM, 0), 50), None),
            (many(frame(RST_STREAM, 0, 4), 3), None),
            (many(frame(RST_STREAM, 0, 4), 4), Some("resets")),
            (many(frame(6, 0, 8), 4), None),
            (many(frame(6, 0, 8), 5), Some("control_frames")),
            (many(frame(4, 0, 6), 5), Some("control_frames")),
            (many(frame(2, 0, 5), 5), Some("control_frames")),
            (many(frame(200, 0, 5), 5), Some("control_frames")),
            (many(frame(DATA, 0, 0), 5), Some("control_frames")),
            (many(frame(WINDOW_UPDATE, 0, 4), 5), Some("control_frames")),
            (
                [
                    many(frame(HEADERS, 0, 3), 1),
                    many(frame(CONTINUATION, 0, 3), 2),
                ]
                .concat(),
                None,
            ),
            (
                [
                    many(frame(HEADERS, 0, 3), 1),
                    many(frame(CONTINUATION, 0, 3), 3),
                ]
                .concat(),
                Some("continuations"),
            ),
            (
                many(
                    [frame(HEADERS, 0, 3), frame(CONTINUATION, END_HEADERS, 3)].concat(),
                    9,
                ),
                None,
            ),
        ] {
            for step in [1, 7, 1_000] {
                assert_eq!(abuse(&frames, step), expect, "{frames:?} in {step}");
            }
        }
    }

    #[test]
    fn a_bucket_fills_again_and_never_beyond_its_burst() {
        let mut bucket = Bucket::new(2, 10, 1_000);
        let mut takes = |at_ms: u64, n: usize| (0..n).filter(|_| bucket.take(at_ms)).count();
        assert_eq!(takes(1_000, 5), 2);
        assert_eq!(takes(1_099, 5), 0);
        assert_eq!(takes(1_100, 5), 1);
        assert_eq!(takes(60_000, 5), 2);
    }

    #[test]
    fn window_updates_are_earned_by_what_is_sent() {
        let watch = Watch::new(&limits(), 0);
        watch.came(&[0; PREFACE_BYTES], 0);
        let sent = frame(DATA, 0, 100);
        for _ in 0..10 {
            watch.went(
                &[IoSlice::new(&sent[..50]), IoSlice::new(&sent[50..])],
                sent.len(),
                0,
            );
        }
        watch.came(&frame(WINDOW_UPDATE, 0, 4).repeat(24), 0);
        assert_eq!(watch.abuse(), None);
        watch.came(&frame(WINDOW_UPDATE, 0, 4), 0);
        assert_eq!(watch.abuse(), Some("control_frames"));
    }

    #[test]
    fn resets_that_the_client_makes_us_send_count_as_its_own() {
        let watch = Watch::new(&limits(), 0);
        let reset = frame(RST_STREAM, 0, 4);
        let piece = [IoSlice::new(&reset)];
        for _ in 0..3 {
            watch.went(&piece, reset.len(), 0);
        }
        assert_eq!(watch.abuse(), None);
        watch.went(&piece, reset.len(), 0);
        assert_eq!(watch.abuse(), Some("resets"));
    }

    #[test]
    fn what_is_not_whole_has_an_age_and_content_has_none() {
        let watch = Watch::new(&limits(), 0);
        watch.came(&[0; PREFACE_BYTES], 5);
        assert_eq!(watch.within_ms(), NEVER);
        let head = frame(HEADERS, 0, 10);
        watch.came(&head[..4], 10);
        assert_eq!(watch.within_ms(), 10);
        watch.came(&head[4..], 20);
        assert_eq!(watch.within_ms(), 10, "the block goes on");
        watch.came(&frame(CONTINUATION, END_HEADERS, 2), 30);
        assert_eq!(watch.within_ms(), NEVER);
        let data = frame(DATA, 0, 10);
        watch.came(&data[..12], 40);
        assert_eq!(watch.within_ms(), NEVER);
        watch.came(&data[12..], 50);
        watch.came(&frame(4, 0, 6)[..12], 60);
        assert_eq!(watch.within_ms(), 60);
        assert_eq!(watch.stalled_ms(), NEVER);
        watch.stalled(70);
        watch.stalled(80);
        assert_eq!(watch.stalled_ms(), 70);
        watch.went(&[IoSlice::new(b"x")], 1, 90);
        assert_eq!(watch.stalled_ms(), NEVER);
    }
}
