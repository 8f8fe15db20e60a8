//! Buffers of one worker. A connection has one only while bytes are in it: ten thousand idle connections hold none.

use std::cell::RefCell;
use std::fmt;

/// A usual buffer: the heads of nearly all requests and answers, and small bodies, fit.
pub(crate) const SMALL_BYTES: usize = 16 * 1024;
/// A buffer for a body that is streamed: what one read and one write move. Larger ones gain nothing on loopback, and fall
/// out of the processor's second cache.
pub(crate) const LARGE_BYTES: usize = 64 * 1024;
/// Free small buffers that a worker keeps, 16 MiB.
const SMALL_KEPT_MAX: usize = 1024;
/// Free large buffers that a worker keeps, 16 MiB.
const LARGE_KEPT_MAX: usize = 256;

/// The free buffers of a worker.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    small: RefCell<Vec<Vec<u8>>>,
    large: RefCell<Vec<Vec<u8>>>,
    #[cfg(test)]
    pub(crate) lent: std::cell::Cell<usize>,
}

impl Buffers {
    fn take(&self, bytes: usize) -> Vec<u8> {
        #[cfg(test)]
        self.lent.set(self.lent.get() + 1);
        let list = if bytes <= SMALL_BYTES {
            &self.small
        } else {
            &self.large
        };
        let kept = if bytes <= LARGE_BYTES {
            list.borrow_mut().pop()
        } else {
            None
        };
        kept.unwrap_or_else(|| vec![0; bytes.max(SMALL_BYTES)])
    }

    fn give(&self, bytes: Vec<u8>) {
        #[cfg(test)]
        self.lent.set(self.lent.get() - 1);
        let (list, max) = match bytes.len() {
            SMALL_BYTES => (&self.small, SMALL_KEPT_MAX),
            LARGE_BYTES => (&self.large, LARGE_KEPT_MAX),
            // Grown for one large head.
            _ => return,
        };
        let mut list = list.borrow_mut();
        if list.len() < max {
            list.push(bytes);
        }
    }
}

/// Bytes between a socket and whoever takes them. Without storage until the first is wanted.
///
/// Storage goes back to the worker by [`Buf::release`]; a buffer that is dropped with storage frees it.
#[derive(Default)]
pub(crate) struct Buf {
    storage: Vec<u8>,
    start: usize,
    end: usize,
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} of {} bytes)", self.len(), self.storage.len())
    }
}

impl Buf {
    /// What is in it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.storage[self.start..self.end]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.end]
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Forgets all but the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        debug_assert!(len <= self.len());
        self.end = self.start + len;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether it has storage of its own.
    pub(crate) fn is_held(&self) -> bool {
        !self.storage.is_empty()
    }

    /// Forgets the first `n` bytes.
    pub(crate) fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.len());
        self.start += n;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Makes sure that there is storage, and room behind what is in it, in all at least `bytes` large.
    pub(crate) fn hold(&mut self, buffers: &Buffers, bytes: usize) {
        if self.storage.is_empty() {
            self.storage = buffers.take(bytes);
        } else if self.storage.len() < bytes {
            let mut larger = buffers.take(bytes);
            let len = self.len();
            larger[..len].copy_from_slice(self.bytes());
            buffers.give(std::mem::replace(&mut self.storage, larger));
            (self.start, self.end) = (0, len);
        } else if self.end == self.storage.len() && self.start > 0 {
            self.storage.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }

    /// Where a read may write.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.storage[self.end..]
    }

    /// Whether a read would have no room, however it is moved.
    pub(crate) fn is_full(&self) -> bool {
        self.is_held() && self.len() == self.storage.len()
    }

    /// A read wrote `n` bytes into [`Buf::room`].
    pub(crate) fn filled(&mut self, n: usize) {
        self.end += n;
        debug_assert!(self.end <= self.storage.len());
    }

    /// Gives the storage back when there is nothing in it.
    pub(crate) fn release_if_empty(&mut self, buffers: &Buffers) {
        if self.is_empty() {
            self.release(buffers);
        }
    }

    /// Forgets what is in it and gives the storage back.
    pub(crate) fn release(&mut self, buffers: &Buffers) {
        (self.start, self.end) = (0, 0);
        if !self.storage.is_empty() {
            buffers.give(std::mem::take(&mut self.storage));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(buf: &mut Buf, bytes: &[u8]) {
        buf.room()[..bytes.len()].copy_from_slice(bytes);
        buf.filled(bytes.len());
    }

    #[test]
    fn what_is_in_it_stays_when_it_moves_and_grows() {
        let buffers = Buffers::default();
        let mut buf = Buf::default();
        buf.hold(&buffers, SMALL_BYTES);
        put(&mut buf, &[7; SMALL_BYTES]);
        assert!(buf.is_full());
        buf.consume(SMALL_BYTES - 3);
        buf.hold(&buffers, SMALL_BYTES);
        assert_eq!(buf.bytes(), [7; 3]);
        assert_eq!(buf.room().len(), SMALL_BYTES - 3);
        put(&mut buf, b"abc");
        buf.hold(&buffers, LARGE_BYTES);
        assert_eq!(buf.bytes(), b"\x07\x07\x07abc");
        assert_eq!(buf.room().len(), LARGE_BYTES - 6);
    }

    #[test]
    fn storage_is_used_again_and_odd_sizes_are_not_kept() {
        let buffers = Buffers::default();
        for bytes in [SMALL_BYTES, LARGE_BYTES, LARGE_BYTES + 1] {
            let mut buf = Buf::default();
            buf.hold(&buffers, bytes);
            put(&mut buf, b"x");
            buf.release(&buffers);
            assert!(!buf.is_held() && buf.is_empty());
        }
        assert_eq!(
            (buffers.small.borrow().len(), buffers.large.borrow().len()),
            (1, 1)
        );
    }
}
