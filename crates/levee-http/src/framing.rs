//! How long a body is (RFC 9112 section 6).

use alloc::vec::Vec;

use crate::chars::{number, trim};
use crate::field::{Field, Name};
use crate::{Bad, Version};

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    #[default]
    None,
    /// So many bytes.
    Length(u64),
    /// Chunks, read by [`chunked::Decoder`](crate::chunked::Decoder).
    Chunked,
    /// Until the server closes the connection: responses only.
    UntilClose,
}

impl Framing {
    /// Whether no byte of a body follows the head.
    #[must_use]
    pub fn is_empty(self) -> bool {
        matches!(self, Self::None | Self::Length(0))
    }
}

/// What the fields of a head say about its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
}

/// Reads Content-Length and Transfer-Encoding; whatever could be read in two ways is an error.
pub(crate) fn declared(fields: &[Field], bytes: &[u8], version: Version) -> Result<Declared, Bad> {
    let mut found = Declared::default();
    for f in fields {
        match f.name {
            Name::ContentLength => {
                if found.length.is_some() {
                    return Err(Bad::new(400, "more than one Content-Length"));
                }
                // A plus, a list, white space that is not the usual: parsers differ on all of them.
                found.length = number(f.value.of(bytes)).filter(|_| f.is_plain_enough(bytes));
                if found.length.is_none() {
                    return Err(Bad::new(400, "the Content-Length is not a number"));
                }
            }
            Name::TransferEncoding => {
                if found.chunked {
                    return Err(Bad::new(400, "more than one Transfer-Encoding"));
                }
                coding(f, bytes)?;
                found.chunked = true;
            }
            _ => {}
        }
    }
    if found.chunked && version == Version::Http10 {
        return Err(Bad::new(400, "Transfer-Encoding in HTTP/1.0"));
    }
    if found.chunked && found.length.is_some() {
        return Err(Bad::new(
            400,
            "Content-Length and Transfer-Encoding together",
        ));
    }
    Ok(found)
}

/// `chunked` is the one coding that is spoken.
fn coding(field: &Field, bytes: &[u8]) -> Result<(), Bad> {
    let value = field.value.of(bytes);
    if value.eq_ignore_ascii_case(b"chunked") && field.is_plain_enough(bytes) {
        return Ok(());
    }
    let codings: Vec<&[u8]> = value.split(|c| *c == b',').map(trim).collect();
    // A coding before the last one, `chunked`, frames the body well; it is not spoken here (RFC 9112 section 6.1).
    match codings.as_slice() {
        [first @ .., last]
            if !first.is_empty()
                && last.eq_ignore_ascii_case(b"chunked")
                && first.iter().all(|c| {
                    [
                        &b"gzip"[..],
                        b"x-gzip",
                        b"deflate",
                        b"compress",
                        b"x-compress",
                    ]
                    .iter()
                    .any(|known| c.eq_ignore_ascii_case(known))
                }) =>
        {
            Err(Bad::new(501, "a transfer coding other than chunked"))
        }
        _ => Err(Bad::new(400, "the Transfer-Encoding is not chunked")),
    }
}
