//! What a front tells of itself: plain numbers, for the admin page, the lab and the tests.

use std::collections::BTreeMap;

use levee_policy::selective;
use serde::Serialize;

use crate::histogram::Histogram;

/// Counters that grow and gauges of now.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// The front's name.
    pub name: String,
    /// `k`.
    pub capacity: u32,
    /// Calls that are WAITING, held back ones included.
    pub held_waiting: u32,
    /// Calls that are INCALL.
    pub held_in_call: u32,
    /// Calls that are being ended by us.
    pub evicting: u32,
    /// Slots of the server that are taken, as the defence counts them.
    pub in_service: u32,
    /// Arrivals at a full table in this round.
    pub pmod: u64,
    /// `T_S`, the length of a round, in seconds.
    pub round_seconds: f64,
    /// What the defence counted.
    pub policy: selective::Stats,
    /// New calls that asked to come in.
    pub arrivals: u64,
    /// INVITEs of calls passed on to the server.
    pub forwarded: u64,
    /// Calls whose INVITE was acknowledged.
    pub answered: u64,
    /// Calls that were up and ended by a BYE of their own.
    pub completed: u64,
    /// Calls whose INVITE got a final answer other than 2xx from the server, or none.
    pub failed: u64,
    /// Calls whose caller gave up before an answer.
    pub cancelled: u64,
    /// Calls refused, by cause.
    pub refused: BTreeMap<&'static str, u64>,
    /// Calls dropped by the defence while WAITING.
    pub evicted_waiting: u64,
    /// Calls dropped by the defence while INCALL.
    pub evicted_in_call: u64,
    /// What a dry run would have refused or dropped, or bypass for want of room, and did not.
    pub spared: u64,
    /// Calls ended since they were dead, by cause.
    pub died: BTreeMap<&'static str, u64>,
    /// BYEs of our own that were sent.
    pub bye_sent: u64,
    /// Of them, answered.
    pub bye_answered: u64,
    /// Of them, never answered.
    pub bye_timeout: u64,
    /// Messages dropped, by cause.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Answers of our own, by status code.
    pub replied: BTreeMap<u16, u64>,
    /// Transactions alive.
    pub transactions: u32,
    /// Bytes of messages that they keep.
    pub transaction_bytes: u64,
    /// TCP connections open.
    pub connections: u32,
    /// Messages read.
    pub messages_in: u64,
    /// Messages sent.
    pub messages_out: u64,
    /// Messages sent again by a timer of ours.
    pub retransmitted: u64,
    /// Requests that came again and were absorbed.
    pub absorbed: u64,
    /// From a message's reading to the sending of all that it caused.
    pub latency: Histogram,
    /// Lines of the recording that were lost, so that it ended.
    pub recording_lost: u64,
    /// Whether new calls are refused because the front is stopping.
    pub draining: bool,
}

impl Snapshot {
    /// Counts a message that went nowhere.
    pub fn note_dropped(&mut self, cause: &'static str) {
        *self.dropped.entry(cause).or_default() += 1;
    }

    /// All calls in hand.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.held_waiting + self.held_in_call + self.evicting
    }
}
