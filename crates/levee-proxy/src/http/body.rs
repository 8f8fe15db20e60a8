//! Bodies on their way through: where one ends in the bytes that come ([`Incoming`]), and what is put around one that goes
//! ([`Outgoing`]). Neither holds more than one buffer of it.

use std::task::{Poll, ready};

use levee_http::chunked::{self, Decoder, LAST, size_line};
use levee_http::{Bad, Framing};

use super::buffer::Buf;

/// Content that is copied behind its head so that both go in one piece: a vectored write costs more than a copy so short.
const JOIN_BYTES_MAX: usize = 4096;

/// What the bytes at hand are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// The first so many are content.
    Data(usize),
    /// More has to come.
    More,
    /// The body has ended before them.
    End,
}

#[derive(Debug, Default)]
enum Kind {
    #[default]
    None,
    /// So many bytes are still to come.
    Length(u64),
    Chunked(Box<Decoder>),
    UntilClose,
}

/// A body that comes.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    kind: Kind,
    /// Content at the front of the buffer, its frames taken out.
    ready: usize,
    /// Content that has been found.
    total: u64,
    max: u64,
}

impl Incoming {
    /// A body of at most `max` bytes, framed in this way.
    pub(crate) fn new(framing: Framing, max: u64) -> Self {
        let kind = match framing {
            Framing::None | Framing::Length(0) => Kind::None,
            Framing::Length(n) => Kind::Length(n),
            Framing::Chunked => Kind::Chunked(Box::new(Decoder::new(chunked::Limits::default()))),
            Framing::UntilClose => Kind::UntilClose,
        };
        Self {
            kind,
            ready: 0,
            total: 0,
            max,
        }
    }

    /// Content that has been found so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Looks at what is in `input`. Bytes behind the body stay there.
    ///
    /// # Errors
    /// When it is framed badly, or 413 when it is longer than it may be.
    pub(crate) fn look(&mut self, input: &mut Buf) -> Result<Ready, Bad> {
        let at_hand = match &mut self.kind {
            Kind::None => return Ok(Ready::End),
            Kind::Length(left) => {
                usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()))
            }
            Kind::UntilClose => input.len(),
            Kind::Chunked(decoder) => {
                if !decoder.is_at_end() {
                    let found = unframe(decoder, input, self.ready)?;
                    self.ready += found;
                    self.total += found as u64;
                }
                if self.ready == 0 && decoder.is_at_end() {
                    return Ok(Ready::End);
                }
                self.ready
            }
        };
        if self.total > self.max {
            return Err(Bad {
                status: 413,
                reason: "the body is too long",
            });
        }
        Ok(match at_hand {
            0 => Ready::More,
            n => Ready::Data(n),
        })
    }

    /// The first `n` bytes of `input`, content, have gone where they should.
    pub(crate) fn consume(&mut self, input: &mut Buf, n: usize) {
        input.consume(n);
        self.passed(n as u64);
        if matches!(self.kind, Kind::Chunked(_)) {
            self.ready -= n;
        } else {
            self.total += n as u64;
        }
    }

    /// So many bytes of a body of known length were taken straight from the socket.
    pub(crate) fn sunk(&mut self, n: u64) {
        self.passed(n);
        self.total += n;
    }

    fn passed(&mut self, n: u64) {
        if let Kind::Length(left) = &mut self.kind {
            *left -= n;
            if *left == 0 {
                self.kind = Kind::None;
            }
        }
    }

    /// Bytes still to come, if their number is known.
    pub(crate) fn left(&self) -> Option<u64> {
        match self.kind {
            Kind::None => Some(0),
            Kind::Length(left) => Some(left),
            Kind::Chunked(_) | Kind::UntilClose => None,
        }
    }

    /// Nothing more comes. Whether that is the body's end and not a loss.
    pub(crate) fn close(&mut self) -> bool {
        if matches!(self.kind, Kind::UntilClose) {
            self.kind = Kind::None;
        }
        self.is_over()
    }

    /// Whether all of it has come and was consumed.
    pub(crate) fn is_over(&self) -> bool {
        match &self.kind {
            Kind::None => true,
            Kind::Chunked(decoder) => self.ready == 0 && decoder.is_at_end(),
            Kind::Length(_) | Kind::UntilClose => false,
        }
    }

    /// The trailer lines that may be sent on, when it has ended.
    pub(crate) fn trailers(&self) -> &[u8] {
        match &self.kind {
            Kind::Chunked(decoder) => decoder.trailers(),
            _ => &[],
        }
    }
}

/// Takes the frames out of what stands behind the first `ready` bytes of `input`, and moves the content of small chunks
/// together, so that it can go out in one piece. A chunk that fills a buffer is not moved. Returns the content found.
fn unframe(decoder: &mut Decoder, input: &mut Buf, ready: usize) -> Result<usize, Bad> {
    let (mut write, mut read) = (ready, ready);
    loop {
        let step = decoder.decode(&input.bytes()[read..])?;
        match step {
            chunked::Step::Data(range) => {
                let (from, to) = (read + range.start, read + range.end);
                if write == 0 {
                    input.consume(from);
                    (write, read) = (to - from, to - from);
                } else {
                    input.bytes_mut().copy_within(from..to, write);
                    (write, read) = (write + to - from, to);
                }
            }
            chunked::Step::More => {
                input.truncate(write);
                return Ok(write - ready);
            }
            chunked::Step::End { used } => {
                let rest = read + used..input.len();
                let kept = rest.len();
                if write == 0 {
                    input.consume(rest.start);
                } else {
                    input.bytes_mut().copy_within(rest, write);
                    input.truncate(write + kept);
                }
                return Ok(write - ready);
            }
        }
    }
}

/// A message that goes: its head, and its body in chunks if it is sent so.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// What goes before the next content: the head, the line of a chunk's size.
    before: Vec<u8>,
    /// So much of it has gone.
    at: usize,
    chunked: bool,
    /// Of the chunk that has been announced, so much is still to go.
    left: usize,
    begun: bool,
}

impl Outgoing {
    /// Begins a message. Its head is to be written into what this returns.
    pub(crate) fn begin(&mut self, chunked: bool) -> &mut Vec<u8> {
        self.before.clear();
        self.at = 0;
        self.chunked = chunked;
        self.left = 0;
        self.begun = false;
        &mut self.before
    }

    /// An interim response stands before this one: what is pending stays, and the head is to be written behind it.
    pub(crate) fn begin_behind(&mut self, chunked: bool) -> &mut Vec<u8> {
        self.chunked = chunked;
        &mut self.before
    }

    /// Sends the head again from its beginning. Only while no content has gone.
    pub(crate) fn again(&mut self) {
        debug_assert!(!self.begun);
        self.at = 0;
    }

    /// Writes what goes next when the next content is `data`: `write` is called once with two pieces, unless there is nothing to
    /// write. Returns how much content it took.
    pub(crate) fn poll_write<E>(
        &mut self,
        data: &[u8],
        write: impl FnOnce(&[u8], &[u8]) -> Poll<Result<usize, E>>,
    ) -> Poll<Result<usize, E>> {
        let data = self.announce(data);
        if self.is_written() && data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let polled = if !self.is_written() && !data.is_empty() && data.len() <= JOIN_BYTES_MAX {
            let len = self.before.len();
            self.before.extend_from_slice(data);
            let polled = write(&self.before[self.at..], &[]);
            self.before.truncate(len);
            polled
        } else {
            write(&self.before[self.at..], data)
        };
        let n = ready!(polled)?;
        let before = n.min(self.before.len() - self.at);
        self.at += before;
        let content = n - before;
        if self.chunked {
            self.left -= content;
        }
        self.begun |= content > 0;
        Poll::Ready(Ok(content))
    }

    /// Writes the line of a chunk, if one has to begin: what of `data` can go now.
    fn announce<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        if !self.chunked || data.is_empty() {
            return data;
        }
        if self.left == 0 {
            self.compact();
            if self.begun {
                self.before.extend_from_slice(b"\r\n");
            }
            self.before
                .extend_from_slice(size_line(data.len()).as_bytes());
            self.left = data.len();
            self.begun = true;
        }
        &data[..data.len().min(self.left)]
    }

    /// There is no more content. What is left is written by [`Outgoing::poll_write`] of nothing.
    pub(crate) fn end(&mut self, trailers: &[u8]) {
        if self.chunked {
            debug_assert_eq!(self.left, 0);
            self.compact();
            if self.begun {
                self.before.extend_from_slice(b"\r\n");
            }
            self.before.extend_from_slice(LAST);
            self.before.extend_from_slice(trailers);
            self.before.extend_from_slice(b"\r\n");
            self.chunked = false;
        }
    }

    /// Whether everything has been written but content to come.
    pub(crate) fn is_written(&self) -> bool {
        self.at == self.before.len()
    }

    /// Bytes that wait to be written, content to come aside.
    pub(crate) fn pending(&self) -> usize {
        self.before.len() - self.at
    }

    /// Whether any byte of content has been written.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    fn compact(&mut self) {
        if self.is_written() {
            self.before.clear();
            self.at = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::buffer::{Buffers, SMALL_BYTES};

    /// Feeds `wire` in pieces of `step` bytes; the content found, and what stands behind it.
    fn read(
        framing: Framing,
        max: u64,
        wire: &[u8],
        step: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), u16> {
        let buffers = Buffers::default();
        let (mut body, mut input, mut content) =
            (Incoming::new(framing, max), Buf::default(), Vec::new());
        input.hold(&buffers, SMALL_BYTES);
        let mut wire = wire.chunks(step);
        loop {
            match body.look(&mut input).map_err(|bad| bad.status)? {
                // Half of it, so that content stays in the buffer while more comes behind it.
                Ready::Data(n) => {
                    let half = n.div_ceil(2);
                    content.extend_from_slice(&input.bytes()[..half]);
                    body.consume(&mut input, half);
                    if half < n
                        && let Some(more) = wire.next()
                    {
                        input.room()[..more.len()].copy_from_slice(more);
                        input.filled(more.len());
                    }
                }
                Ready::More => match wire.next() {
                    Some(more) => {
                        input.hold(&buffers, SMALL_BYTES);
                        input.room()[..more.len()].copy_from_slice(more);
                        input.filled(more.len());
                    }
                    None if body.close() => {}
                    None => return Err(0),
                },
                Ready::End => {
                    assert!(body.is_over());
                    assert_eq!(body.total(), content.len() as u64);
                    let mut rest = input.bytes().to_vec();
                    rest.extend(wire.flatten());
                    return Ok((content, rest));
                }
            }
        }
    }

    #[test]
    fn a_body_ends_where_its_frame_says_however_it_is_cut() {
        let chunked = b"3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nA: b\r\n\r\nGET";
        for (framing, wire, expect) in [
            (Framing::None, &b"GET"[..], Ok(("", "GET"))),
            (Framing::Length(0), b"GET", Ok(("", "GET"))),
            (Framing::Length(4), b"abcdGET", Ok(("abcd", "GET"))),
            (Framing::Length(4), b"abc", Err(0)),
            (Framing::UntilClose, b"abc", Ok(("abc", ""))),
            (Framing::Chunked, chunked, Ok(("abcd", "GET"))),
            (Framing::Chunked, b"0\r\n\r\nGET", Ok(("", "GET"))),
            (Framing::Chunked, b"2\r\nab\r\n", Err(0)),
            (Framing::Chunked, b"2\r\nabc\r\n", Err(400)),
        ] {
            let expect = expect.map(|(c, r)| (c.as_bytes().to_vec(), r.as_bytes().to_vec()));
            for step in 1..wire.len() + 1 {
                assert_eq!(
                    read(framing, 4, wire, step),
                    expect,
                    "{framing:?} by {step}"
                );
            }
        }
    }

    #[test]
    fn a_chunked_body_longer_than_it_may_be_is_413() {
        let wire = b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
        assert_eq!(read(Framing::Chunked, 3, wire, 4), Err(413));
        assert!(read(Framing::Chunked, 4, wire, 4).is_ok());
    }

    /// Writes `pieces` as a message, at most `step` bytes a write.
    fn write(chunked: bool, pieces: &[&[u8]], step: usize) -> String {
        let mut out = Outgoing::default();
        out.begin(chunked).extend_from_slice(b"HEAD\r\n\r\n");
        let mut wire = Vec::new();
        let mut put = |out: &mut Outgoing, data: &[u8]| {
            let written = out.poll_write(data, |a, b| {
                let before = wire.len();
                wire.extend(a.iter().chain(b).take(step));
                Poll::Ready(Ok::<_, ()>(wire.len() - before))
            });
            match written {
                Poll::Ready(Ok(n)) => n,
                other => panic!("{other:?}"),
            }
        };
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let n = put(&mut out, rest);
                rest = &rest[n..];
            }
        }
        out.end(b"T: 1\r\n");
        while !out.is_written() {
            put(&mut out, &[]);
        }
        String::from_utf8(wire).unwrap()
    }

    #[test]
    fn what_goes_out_is_framed_however_little_a_write_takes() {
        for step in 1..40 {
            let plain = write(false, &[b"abc", b"d"], step);
            assert_eq!(plain, "HEAD\r\n\r\nabcd", "by {step}");
            let chunked = write(true, &[b"0123456789abcdefg", b"d"], step);
            let expect = "HEAD\r\n\r\n11\r\n0123456789abcdefg\r\n1\r\nd\r\n0\r\nT: 1\r\n\r\n";
            assert_eq!(chunked, expect, "by {step}");
            assert_eq!(write(true, &[], step), "HEAD\r\n\r\n0\r\nT: 1\r\n\r\n");
        }
    }
}
