//! Datagrams to be sent, kept in one buffer.

use std::net::SocketAddr;
use std::ops::Range;

/// What a role wants to send; the driver empties it.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    datagrams: Vec<(SocketAddr, Range<usize>)>,
}

impl Outbox {
    pub(crate) fn push(&mut self, to: SocketAddr, datagram: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(datagram);
        self.datagrams.push((to, from..self.bytes.len()));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.datagrams
            .iter()
            .map(|(to, range)| (*to, self.bytes.get(range.clone()).unwrap_or_default()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams.clear();
    }
}
