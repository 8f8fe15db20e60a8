//! HTTP/2 by hand: frames that no library would send, and what comes back.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http_world::within;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = (self.payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Frame {
    Frame {
        kind,
        flags,
        stream,
        payload: payload.to_vec(),
    }
}

/// Fields as literals without an index (RFC 7541 section 6.2.2).
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "one byte of length");
            bytes.push(text.len() as u8);
            bytes.extend(text.as_bytes());
        }
    }
    bytes
}

/// The block of a request for this path, and more fields.
pub(crate) fn request(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [
        (":method", method),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", path),
    ];
    block(&[&pseudo, more].concat())
}

pub(crate) fn get(stream: u32, path: &str) -> Frame {
    frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        stream,
        &request("GET", path, &[]),
    )
}

/// How a connection ended: the reason of its GOAWAY, if there was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended(pub(crate) Option<u32>);

/// A connection.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    have: Vec<u8>,
}

impl Raw {
    /// With preface and SETTINGS sent.
    pub(crate) async fn to(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut raw = Self {
            stream,
            have: Vec::new(),
        };
        raw.put(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        raw.send(&[frame(SETTINGS, 0, 0, &[])]).await;
        raw
    }

    pub(crate) async fn put(&mut self, bytes: &[u8]) {
        // The other side may have closed already.
        drop(self.stream.write_all(bytes).await);
    }

    pub(crate) async fn send(&mut self, frames: &[Frame]) {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
        self.put(&bytes).await;
    }

    /// The next frame; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        within("a frame", async {
            loop {
                if let Some((head, rest)) = self.have.split_at_checked(9) {
                    let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                    if rest.len() >= len {
                        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
                        let got = frame(head[3], head[4], stream, &rest[..len]);
                        self.have.drain(..9 + len);
                        if (got.kind, got.flags) == (PING, 0) {
                            self.send(&[frame(PING, 1, 0, &got.payload)]).await;
                        }
                        return Some(got);
                    }
                }
                match self.stream.read_buf(&mut self.have).await {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => return None,
                }
            }
        })
        .await
    }

    /// The next frame of this kind for this stream; others are passed over.
    pub(crate) async fn await_frame(&mut self, kind: u8, stream: u32) -> Frame {
        loop {
            let got = self.next().await.expect("the connection to stay");
            if (got.kind, got.stream) == (kind, stream) {
                return got;
            }
        }
    }

    /// The status that a stream is answered with, or `None` and the reason that it is reset with.
    pub(crate) async fn answer(&mut self, stream: u32) -> Result<u16, u32> {
        loop {
            let got = self.next().await.expect("the connection to stay");
            match got.kind {
                HEADERS if got.stream == stream => return Ok(status(&got.payload)),
                RST_STREAM if got.stream == stream => return Err(got.number(0)),
                GOAWAY if got.number(4) != NO_ERROR => panic!("GOAWAY {}", got.number(4)),
                _ => {}
            }
        }
    }

    /// Reads to the end.
    pub(crate) async fn end(&mut self) -> Ended {
        let mut reason = None;
        while let Some(got) = self.next().await {
            if got.kind == GOAWAY {
                reason = Some(got.number(4));
            }
        }
        Ended(reason)
    }
}

/// The status of a block of `h2`, which has it first: indexed, or a literal with an indexed name (RFC 7541 appendix A).
fn status(block: &[u8]) -> u16 {
    match block[0] {
        first @ 0x88..=0x8e => [200, 204, 206, 304, 400, 404, 500][usize::from(first - 0x88)],
        0x48 => {
            let len = usize::from(block[1] & 0x7f);
            let text = &block[2..2 + len];
            if block[1] & 0x80 == 0 {
                return std::str::from_utf8(text).unwrap().parse().unwrap();
            }
            // Huffman: digits have five bits (0, 1, 2) or six (3 to 9: 0x19 to 0x1f).
            let mut bits = text
                .iter()
                .flat_map(|b| (0..8).rev().map(move |i| b >> i & 1));
            let mut status = 0;
            for _ in 0..3 {
                let mut take =
                    |n: u32| (0..n).fold(0u16, |v, _| v << 1 | u16::from(bits.next().unwrap()));
                let five = take(5);
                let digit = if five <= 2 {
                    five
                } else {
                    (five << 1 | take(1)) - 0x19 + 3
                };
                status = status * 10 + digit;
            }
            status
        }
        other => panic!("a status, not {other:#x}"),
    }
}
