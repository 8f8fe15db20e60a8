//! What an HTTP front tells of itself: plain numbers, for the admin page, the lab and the tests.
//!
//! [`Traffic`] is what the workers count, each for itself; the front's is their sum. [`GateSnapshot`] is what the owner of the
//! decisions counts.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use serde::{Serialize, Serializer};

use super::gate::GateSnapshot;
use crate::histogram::Histogram;

/// What a connection is doing. The first five are those of `levee_policy::selective`, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Phase {
    /// Between requests.
    Idle,
    /// The head of a request is being read.
    Headers,
    /// Its body is being read.
    Body,
    /// The server, or the thinner, has it.
    Waiting,
    /// The response is being sent.
    Sending,
    /// PROXY header and TLS.
    Handshake,
    /// A WebSocket or an event stream.
    Tunnel,
}

impl Phase {
    /// Every phase, by its index.
    pub const ALL: [Phase; 7] = [
        Phase::Idle,
        Phase::Headers,
        Phase::Body,
        Phase::Waiting,
        Phase::Sending,
        Phase::Handshake,
        Phase::Tunnel,
    ];

    /// The value of a metric's label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Headers => "headers",
            Phase::Body => "body",
            Phase::Waiting => "waiting",
            Phase::Sending => "sending",
            Phase::Handshake => "handshake",
            Phase::Tunnel => "tunnel",
        }
    }
}

/// A number for each phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByPhase([u64; Phase::ALL.len()]);

impl ByPhase {
    /// Each phase's name with its number.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Phase::ALL.iter().map(|phase| (phase.name(), self[*phase]))
    }

    /// All together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }
}

impl Index<Phase> for ByPhase {
    type Output = u64;

    fn index(&self, phase: Phase) -> &u64 {
        &self.0[phase as usize]
    }
}

impl IndexMut<Phase> for ByPhase {
    fn index_mut(&mut self, phase: Phase) -> &mut u64 {
        &mut self.0[phase as usize]
    }
}

impl Serialize for ByPhase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Counts by cause. Causes are texts of the program, so there are few.
pub type Causes = BTreeMap<&'static str, u64>;

/// Counters that grow and gauges of now.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// The front's name.
    pub name: String,
    /// Worker threads.
    pub workers: u32,
    /// What the workers counted.
    pub traffic: Traffic,
    /// What the owner of the decisions counted.
    pub gate: GateSnapshot,
    /// Lines written to the access log.
    pub access_log_lines: u64,
    /// Lines that it lost, since the disk was slower than the requests.
    pub access_log_lost: u64,
    /// Whether new requests are refused because the front is stopping.
    pub draining: bool,
}

/// What one worker counts, or all of them together.
#[derive(Clone, Debug, Serialize)]
pub struct Traffic {
    /// Connections of clients that are open, by phase. An HTTP/2 connection is in the phase of its furthest stream.
    pub connections: ByPhase,
    /// Connections taken from the kernel.
    pub accepted: u64,
    /// Of them, cut at once or during the handshake, by cause.
    pub cut: Causes,
    /// Connections closed by a deadline, by phase.
    pub timed_out: ByPhase,
    /// TLS handshakes done.
    pub handshakes: u64,
    /// Requests whose head was read, in HTTP/1.
    pub requests_h1: u64,
    /// Requests whose head was read, in HTTP/2.
    pub requests_h2: u64,
    /// Responses of the server passed on, by the first digit of their status.
    pub responses: [u64; 6],
    /// Answers of our own, by status.
    pub replied: BTreeMap<u16, u64>,
    /// Requests that are no HTTP, or beyond a limit, by cause.
    pub bad_requests: Causes,
    /// Requests whose client was gone before the answer was sent.
    pub client_gone: u64,
    /// WebSockets and event streams begun.
    pub tunnels: u64,
    /// What HTTP/2 connections were closed for, by kind.
    pub h2_abuse: Causes,
    /// Bytes read from clients, payment included.
    pub bytes_in: u64,
    /// Bytes sent to clients.
    pub bytes_out: u64,
    /// Connections to the server with a request.
    pub upstream_busy: u64,
    /// Connections to the server without one.
    pub upstream_idle: u64,
    /// Connections to the server that were made.
    pub upstream_connects: u64,
    /// Requests sent on a connection to the server that an earlier one had left.
    pub upstream_reused: u64,
    /// Requests that the server did not answer as it should, by cause.
    pub upstream_errors: Causes,
    /// From the sending of a request's head to the server to the head of its response.
    pub upstream_latency: Histogram,
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic {
            connections: ByPhase::default(),
            accepted: 0,
            cut: Causes::new(),
            timed_out: ByPhase::default(),
            handshakes: 0,
            requests_h1: 0,
            requests_h2: 0,
            responses: [0; 6],
            replied: BTreeMap::new(),
            bad_requests: Causes::new(),
            client_gone: 0,
            tunnels: 0,
            h2_abuse: Causes::new(),
            bytes_in: 0,
            bytes_out: 0,
            upstream_busy: 0,
            upstream_idle: 0,
            upstream_connects: 0,
            upstream_reused: 0,
            upstream_errors: Causes::new(),
            upstream_latency: Histogram::of_waits(),
        }
    }
}

impl Traffic {
    /// Counts a response of the server.
    pub fn note_response(&mut self, status: u16) {
        if let Some(count) = self.responses.get_mut(usize::from(status / 100)) {
            *count += 1;
        }
    }

    /// Counts an answer of our own.
    pub fn note_reply(&mut self, status: u16) {
        *self.replied.entry(status).or_default() += 1;
    }

    /// Adds what another worker counted.
    pub fn add(&mut self, other: &Self) {
        // Whoever adds a field must say here how it adds up.
        let Traffic {
            connections,
            accepted,
            cut,
            timed_out,
            handshakes,
            requests_h1,
            requests_h2,
            responses,
            replied,
            bad_requests,
            client_gone,
            tunnels,
            h2_abuse,
            bytes_in,
            bytes_out,
            upstream_busy,
            upstream_idle,
            upstream_connects,
            upstream_reused,
            upstream_errors,
            upstream_latency,
        } = other;
        self.connections.add(connections);
        self.timed_out.add(timed_out);
        for (sum, more) in [
            (&mut self.accepted, accepted),
            (&mut self.handshakes, handshakes),
            (&mut self.requests_h1, requests_h1),
            (&mut self.requests_h2, requests_h2),
            (&mut self.client_gone, client_gone),
            (&mut self.tunnels, tunnels),
            (&mut self.bytes_in, bytes_in),
            (&mut self.bytes_out, bytes_out),
            (&mut self.upstream_busy, upstream_busy),
            (&mut self.upstream_idle, upstream_idle),
            (&mut self.upstream_connects, upstream_connects),
            (&mut self.upstream_reused, upstream_reused),
        ] {
            *sum += more;
        }
        for (sum, more) in [
            (&mut self.cut, cut),
            (&mut self.bad_requests, bad_requests),
            (&mut self.h2_abuse, h2_abuse),
            (&mut self.upstream_errors, upstream_errors),
        ] {
            add_counts(sum, more);
        }
        add_counts(&mut self.replied, replied);
        for (sum, more) in self.responses.iter_mut().zip(responses) {
            *sum += more;
        }
        self.upstream_latency.add(upstream_latency);
    }
}

fn add_counts<K: Ord + Copy>(sum: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        *sum.entry(*key).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_workers_counted_adds_up() {
        let one = |scale: u64| {
            let mut traffic = Traffic {
                accepted: scale,
                bytes_out: 1_000 * scale,
                upstream_busy: 2 * scale,
                ..Traffic::default()
            };
            traffic.connections[Phase::Body] = 3 * scale;
            traffic.timed_out[Phase::Tunnel] = scale;
            traffic.cut.insert("a", scale);
            traffic
                .h2_abuse
                .insert(if scale == 1 { "reset" } else { "ping" }, 5);
            for status in [200, 204, 503, 99, 600] {
                traffic.note_response(status);
            }
            traffic.note_reply(503);
            traffic.upstream_latency.note(scale);
            traffic
        };
        let mut sum = one(1);
        sum.add(&one(10));
        let json = serde_json::to_value(&sum).unwrap();
        for (pointer, expect) in [
            ("/accepted", 11),
            ("/bytes_out", 11_000),
            ("/upstream_busy", 22),
            ("/connections/body", 33),
            ("/timed_out/tunnel", 11),
            ("/cut/a", 11),
            ("/h2_abuse/reset", 5),
            ("/h2_abuse/ping", 5),
            ("/responses/0", 2),
            ("/responses/2", 4),
            ("/responses/5", 2),
            ("/replied/503", 2),
            ("/upstream_latency/sum_us", 11),
        ] {
            assert_eq!(json.pointer(pointer), Some(&expect.into()), "{pointer}");
        }
        assert_eq!(sum.connections.sum(), 33);
    }

    /// The order is a contract with the policy's phases.
    #[test]
    fn a_phase_has_the_index_of_its_place() {
        for (at, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, at);
        }
    }
}
