//! Messages out of a byte stream (RFC 3261 section 18.3).
//!
//! On TCP a message ends where its Content-Length says, so it must say: without one the stream cannot be followed any
//! more and is closed. Line ends before a message are keep-alives (RFC 5626 section 3.5.1) and are passed over.

use core::fmt;

use memchr::memmem;

use crate::chars::{number, trim};

/// What the start of a stream's buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing whole yet: read more.
    More,
    /// Line ends between messages. A double CR LF (a ping) wants a single one (a pong) as its answer.
    KeepAlive {
        /// Bytes to drop.
        bytes: usize,
        /// Whether a pong is due.
        ping: bool,
    },
    /// A message of this many bytes.
    Message {
        /// Bytes from the buffer's start.
        bytes: usize,
    },
}

/// Why a stream has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// The header part alone passes the limit.
    HeadersTooLarge,
    /// Header and body pass the limit.
    MessageTooLarge,
    /// There is no Content-Length, one that is not a number, or two that differ.
    NoLength,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeadersTooLarge => "the headers pass the limit",
            Self::MessageTooLarge => "the message passes the limit",
            Self::NoLength => "no usable Content-Length",
        })
    }
}

impl core::error::Error for StreamError {}

/// What earlier calls of [`next`] have learnt of a buffer that has only grown since, so that no byte is read twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    searched: usize,
    message_bytes: Option<usize>,
    ping_bytes: usize,
}

/// Looks for a message at the start of `buffer`. After [`Next::More`] the same bytes and further ones are expected,
/// after anything else the bytes it told of are to be dropped; `progress` follows by itself, and starts as its default.
///
/// # Errors
/// When the stream cannot be followed any further; answer nothing and close it.
pub fn next(
    buffer: &[u8],
    progress: &mut Progress,
    message_bytes_max: usize,
) -> Result<Next, StreamError> {
    if buffer.first().copied().is_some_and(is_line_end) {
        return Ok(keep_alive(buffer, progress));
    }
    if progress.message_bytes.is_none() {
        let from = progress.searched.saturating_sub(BLANK.len() - 1);
        let Some(found) = memmem::find(buffer.get(from..).unwrap_or_default(), BLANK) else {
            progress.searched = buffer.len();
            return if buffer.len() > message_bytes_max {
                Err(StreamError::HeadersTooLarge)
            } else {
                Ok(Next::More)
            };
        };
        let head = from + found + BLANK.len();
        let body = content_length(buffer.get(..head).unwrap_or_default())?;
        progress.message_bytes = Some(
            head.checked_add(body)
                .filter(|n| *n <= message_bytes_max)
                .ok_or(StreamError::MessageTooLarge)?,
        );
    }
    match progress.message_bytes {
        Some(bytes) if bytes <= buffer.len() => {
            *progress = Progress::default();
            Ok(Next::Message { bytes })
        }
        _ => Ok(Next::More),
    }
}

/// Two line ends: the end of the headers, and between messages a ping.
const BLANK: &[u8] = b"\r\n\r\n";

/// A buffer that begins with a line end. A ping counts although it comes in two reads.
fn keep_alive(buffer: &[u8], progress: &mut Progress) -> Next {
    let (mut bytes, mut ping) = (0, false);
    for &c in buffer {
        if !is_line_end(c) {
            progress.ping_bytes = 0;
            break;
        }
        bytes += 1;
        if BLANK.get(progress.ping_bytes) == Some(&c) {
            progress.ping_bytes += 1;
        } else {
            progress.ping_bytes = usize::from(c == b'\r');
        }
        if progress.ping_bytes == BLANK.len() {
            progress.ping_bytes = 0;
            ping = true;
        }
    }
    Next::KeepAlive { bytes, ping }
}

fn is_line_end(c: u8) -> bool {
    matches!(c, b'\r' | b'\n')
}

/// Content-Length, found as [`crate::wire`] finds it: a folded line is part of the one before.
fn content_length(head: &[u8]) -> Result<usize, StreamError> {
    let mut found = None;
    for line in Lines(head).skip(1) {
        let Some(colon) = memchr::memchr(b':', line) else {
            continue;
        };
        let (name, value) = line.split_at(colon);
        let name = name.trim_ascii_end();
        if !name.eq_ignore_ascii_case(b"Content-Length") && !name.eq_ignore_ascii_case(b"l") {
            continue;
        }
        let n = number(trim(value.get(1..).unwrap_or_default()))
            .and_then(|n| usize::try_from(n).ok())
            .filter(|n| found.is_none_or(|f| f == *n))
            .ok_or(StreamError::NoLength)?;
        found = Some(n);
    }
    found.ok_or(StreamError::NoLength)
}

/// Lines with their folds.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let end = memchr::memchr_iter(b'\n', self.0)
            .map(|lf| lf + 1)
            .find(|&at| !matches!(self.0.get(at), Some(b' ' | b'\t')))
            .unwrap_or(self.0.len());
        let (line, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[derive(Debug, PartialEq)]
    enum Got {
        Message(usize),
        Ping(usize),
        Blank(usize),
        Left(usize),
        Closed(StreamError),
    }
    use Got::{Blank, Closed, Left, Message, Ping};

    fn follow(bytes: &[u8], max: usize) -> Vec<Got> {
        let (mut at, mut progress, mut out) = (0, Progress::default(), Vec::new());
        loop {
            let (got, n) = match next(&bytes[at..], &mut progress, max) {
                Ok(Next::More) => {
                    out.push(Left(bytes.len() - at));
                    return out;
                }
                Ok(Next::KeepAlive { bytes, ping: true }) => (Ping(bytes), bytes),
                Ok(Next::KeepAlive { bytes, ping: false }) => (Blank(bytes), bytes),
                Ok(Next::Message { bytes }) => (Message(bytes), bytes),
                Err(e) => {
                    out.push(Closed(e));
                    return out;
                }
            };
            out.push(got);
            at += n;
        }
    }

    #[test]
    fn messages_end_where_content_length_says() {
        let table: &[(&str, &[Got])] = &[
            ("", &[Left(0)]),
            ("A\r\nl:0\r\n\r\n", &[Message(10), Left(0)]),
            ("A\r\nl:2\r\n\r\n", &[Left(10)]),
            ("A\r\nl:2\r\n\r\nxyB", &[Message(12), Left(1)]),
            (
                "A\r\nCONTENT-length \t: 1\r\n\r\nx",
                &[Message(27), Left(0)],
            ),
            // The value on a folded line, and a fold that only looks like a header.
            ("A\r\nl:\r\n 1\r\n\r\nx", &[Message(14), Left(0)]),
            (
                "A\r\nX: y\r\n l: 9\r\nl: 0\r\n\r\n",
                &[Message(24), Left(0)],
            ),
            ("A\r\nl:1\r\nl: 1\r\n\r\nx", &[Message(17), Left(0)]),
            (
                "A\r\nl:1\r\nl: 2\r\n\r\nx",
                &[Closed(StreamError::NoLength)],
            ),
            ("A\r\nl:-1\r\n\r\n", &[Closed(StreamError::NoLength)]),
            ("A\r\nl:\r\n\r\n", &[Closed(StreamError::NoLength)]),
            ("A\r\nX:1\r\n\r\n", &[Closed(StreamError::NoLength)]),
            ("l:1\r\n\r\n", &[Closed(StreamError::NoLength)]),
            (
                "A\r\nl:18446744073709551615\r\n\r\n",
                &[Closed(StreamError::MessageTooLarge)],
            ),
            (
                "A\r\nl:18446744073709551616\r\n\r\n",
                &[Closed(StreamError::NoLength)],
            ),
        ];
        for (text, want) in table {
            assert_eq!(&follow(text.as_bytes(), 1000)[..], *want, "{text:?}");
        }
    }

    #[test]
    fn a_ping_is_two_line_ends() {
        let table: &[(&str, &[Got])] = &[
            ("\r\n\r\n", &[Ping(4), Left(0)]),
            ("\r\n\r\n\r\n\r\n", &[Ping(8), Left(0)]),
            ("\r\n\r\n\r\n", &[Ping(6), Left(0)]),
            ("\r", &[Blank(1), Left(0)]),
            ("\r\n", &[Blank(2), Left(0)]),
            ("\r\n\r", &[Blank(3), Left(0)]),
            ("\r\nA", &[Blank(2), Left(1)]),
            ("\r\n\r\nA", &[Ping(4), Left(1)]),
            ("\n\r\r\n\n\r\n", &[Blank(7), Left(0)]),
            ("\r\r\n\r\nA", &[Ping(5), Left(1)]),
        ];
        for (text, want) in table {
            assert_eq!(&follow(text.as_bytes(), 1000)[..], *want, "{text:?}");
        }
    }

    #[test]
    fn a_ping_in_pieces_is_one_ping() {
        let pings = |pieces: &[&str]| {
            let mut progress = Progress::default();
            let got = pieces
                .iter()
                .map(|p| next(p.as_bytes(), &mut progress, 100));
            got.filter(|n| matches!(n, Ok(Next::KeepAlive { ping: true, .. })))
                .count()
        };
        assert_eq!(pings(&["\r\n", "\r\n"]), 1);
        assert_eq!(pings(&["\r", "\n", "\r", "\n", "\r", "\n\r\n"]), 2);
        assert_eq!(pings(&["\r\n", "A\r\nl:0\r\n\r\n", "\r\n"]), 0);
        assert_eq!(pings(&["\r\nA", "A\r\nl:0\r\n\r\n", "\r\n"]), 0);
    }

    #[test]
    fn the_limit_is_the_largest_message_that_passes() {
        let text = b"A\r\nl:2\r\n\r\nxy";
        assert_eq!(follow(text, 12), [Message(12), Left(0)]);
        assert_eq!(follow(text, 11), [Closed(StreamError::MessageTooLarge)]);
        let open = vec![b'a'; 12];
        assert_eq!(follow(&open, 12), [Left(12)]);
        assert_eq!(follow(&open, 11), [Closed(StreamError::HeadersTooLarge)]);
    }

    #[test]
    fn a_message_that_comes_byte_by_byte_is_found_at_its_last_byte() {
        let text = "A\r\nl:5\r\n\r\n12345";
        let mut progress = Progress::default();
        for n in 1..text.len() {
            let got = next(&text.as_bytes()[..n], &mut progress, 100);
            assert_eq!(got, Ok(Next::More), "{n} bytes");
        }
        let got = next(text.as_bytes(), &mut progress, 100);
        assert_eq!(got, Ok(Next::Message { bytes: text.len() }));
    }
}
