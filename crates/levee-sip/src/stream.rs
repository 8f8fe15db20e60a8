//! Messages out of a byte stream (RFC 3261 section 18.3).
//!
//! On TCP a message ends where its Content-Length says, so it must say: without one the stream cannot be followed any
//! more and is closed. Line ends before a message are keep-alives (RFC 5626 section 3.5.1) and are passed over.

use core::fmt;

use memchr::memmem;

/// What the start of a stream's buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing whole yet: read more.
    More,
    /// A keep-alive of this many bytes. A double CR LF (a ping) wants a single one (a pong) as its answer.
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
    /// There is no Content-Length, or one that is not a number.
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

/// Looks for a message at the start of `buffer`. `searched` is what an earlier call on a shorter buffer has already
/// looked through; it is kept up to date, and belongs at 0 when the buffer's start is dropped.
///
/// # Errors
/// When the stream cannot be followed any further; answer nothing and close it.
pub fn next(
    buffer: &[u8],
    searched: &mut usize,
    message_bytes_max: usize,
) -> Result<Next, StreamError> {
    let blank = buffer
        .iter()
        .position(|c| !matches!(c, b'\r' | b'\n'))
        .unwrap_or(buffer.len());
    if blank > 0 {
        // A lone CR may be half of a pair.
        if blank == buffer.len() && blank < 4 && !buffer.ends_with(b"\n") {
            return Ok(Next::More);
        }
        return Ok(Next::KeepAlive {
            bytes: blank,
            ping: buffer.starts_with(b"\r\n\r\n"),
        });
    }
    let from = searched.saturating_sub(3);
    let Some(found) = memmem::find(buffer.get(from..).unwrap_or_default(), b"\r\n\r\n") else {
        *searched = buffer.len();
        return if buffer.len() > message_bytes_max {
            Err(StreamError::HeadersTooLarge)
        } else {
            Ok(Next::More)
        };
    };
    let head = from + found + 4;
    *searched = from + found;
    let length =
        content_length(buffer.get(..head).unwrap_or_default()).ok_or(StreamError::NoLength)?;
    let bytes = head
        .checked_add(length)
        .filter(|n| *n <= message_bytes_max)
        .ok_or(StreamError::MessageTooLarge)?;
    Ok(if buffer.len() < bytes {
        Next::More
    } else {
        Next::Message { bytes }
    })
}

fn content_length(head: &[u8]) -> Option<usize> {
    let mut rest = head;
    while let Some(lf) = memchr::memchr(b'\n', rest) {
        rest = rest.get(lf + 1..)?;
        let line = rest.get(..memchr::memchr(b'\n', rest).unwrap_or(rest.len()))?;
        let Some(colon) = memchr::memchr(b':', line) else {
            continue;
        };
        let name = crate::chars::trim(line.get(..colon)?);
        if name.eq_ignore_ascii_case(b"Content-Length") || name.eq_ignore_ascii_case(b"l") {
            let n = crate::chars::number(crate::chars::trim(line.get(colon + 1..)?))?;
            return usize::try_from(n).ok();
        }
    }
    None
}
