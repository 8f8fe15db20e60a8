//! A client or an attacker: what it sends and takes, and until when it is let.

use levee_policy::{Span, Time};

use super::setup::transfer;
use super::{AttackKind, Bandwidth, Drip, Failure, Setup, Timeouts};
use crate::schedule::Kind;

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not there: before it, between two tries, or over.
    Away,
    Headers,
    Body,
    /// The request is complete; a place is not there yet.
    Ready,
    Working,
    Sending,
    /// It has left the server; the client still reads from the kernel.
    Tail,
}

/// A client or an attacker, and its connection if it has one.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Counts up over all who use this record in a run, so a [`Try`](super::Try) never comes back.
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) stage: Stage,
    /// Holds a place at the server.
    pub(super) placed: bool,
    /// The policy knows it, and waits for its end.
    pub(super) known: bool,
    pub(super) slow: bool,
    pub(super) counted: bool,
    pub(super) retries: u16,
    pub(super) source: u32,
    pub(super) began: Time,
    pub(super) work: Span,
    /// When the stage began, and when something last came through in it.
    pub(super) since: Time,
    pub(super) progress: Time,
    /// Bytes that came through in this stage.
    pub(super) bytes: u64,
    /// When a [`Message::Check`](super::Message::Check) is under way for; the last instant if none is.
    pub(super) check_at: Time,
}

impl Client {
    pub(super) fn new(kind: Kind, now: Time) -> Self {
        Self {
            number: 0,
            kind,
            stage: Stage::Away,
            placed: false,
            known: false,
            slow: false,
            counted: false,
            retries: 0,
            source: 0,
            began: now,
            work: Span::ZERO,
            since: now,
            progress: now,
            bytes: 0,
            check_at: Time::MAX,
        }
    }
}

impl Setup {
    pub(super) fn bandwidth(&self, client: &Client) -> &Bandwidth {
        match &self.clients.slow {
            Some(slow) if client.slow => &slow.bandwidth,
            _ => &self.clients.bandwidth,
        }
    }

    /// What an attacker does; nothing special for a client.
    pub(super) fn attack_of(&self, client: &Client) -> Option<&AttackKind> {
        (client.kind == Kind::Attacker).then_some(&self.attack.kind)
    }

    pub(super) fn body_bytes(&self, client: &Client) -> u64 {
        match self.attack_of(client) {
            None => u64::from(self.clients.body),
            Some(AttackKind::SlowPost(_)) => u64::MAX,
            Some(_) => 0,
        }
    }

    /// How many bytes a stage of reading takes.
    pub(super) fn stage_bytes(&self, client: &Client) -> u64 {
        match (client.stage, self.attack_of(client)) {
            (Stage::Body, _) => self.body_bytes(client),
            (_, Some(AttackKind::Slowloris(_) | AttackKind::Connect)) => u64::MAX,
            _ => u64::from(self.clients.headers),
        }
    }

    pub(super) fn response_bytes(&self, client: &Client) -> u64 {
        u64::from(match client.kind {
            Kind::Honest => self.clients.response,
            Kind::Attacker => self.attack.response,
        })
    }

    /// The next piece of a request, and the time that it takes its sender. None if no more comes.
    pub(super) fn piece_up(&self, client: &Client) -> Option<(u64, Span)> {
        let headers = u64::from(self.clients.headers);
        let dripped = |drip: &Drip| Some((u64::from(drip.bytes), drip.every));
        let most = match (client.stage, self.attack_of(client)) {
            (Stage::Headers, Some(AttackKind::Connect)) => return None,
            (Stage::Headers, Some(AttackKind::Slowloris(drip))) if client.bytes > 0 => {
                return dripped(drip);
            }
            (Stage::Body, Some(AttackKind::SlowPost(drip))) => return dripped(drip),
            // What it sends at once is a whole header but for its last line.
            (Stage::Headers, Some(_)) => headers,
            (Stage::Headers, None) => headers.div_ceil(u64::from(self.clients.header_pieces)),
            (Stage::Body, _) => u64::from(self.segment),
            _ => return None,
        };
        let bytes = most.min(self.stage_bytes(client) - client.bytes);
        Some((bytes, transfer(bytes, self.bandwidth(client).up)))
    }

    /// The next piece of a response, and the time that it takes its reader.
    pub(super) fn piece_down(&self, client: &Client) -> (u64, Span) {
        let rest = self.response_bytes(client) - client.bytes;
        if let Some(AttackKind::SlowRead(drip)) = self.attack_of(client) {
            return (u64::from(drip.bytes).min(rest), drip.every);
        }
        let bytes = u64::from(self.segment).min(rest);
        (bytes, transfer(bytes, self.bandwidth(client).down))
    }

    /// When an honest client tries again after a try has failed.
    pub(super) fn retry_after(&self, how: Failure) -> Span {
        match how {
            Failure::GaveUp => self.clients.retry_wait,
            _ => self.clients.retry_wait + self.delay,
        }
    }
}

impl Timeouts {
    /// When a connection is cut, if nothing comes before.
    pub(super) fn due(&self, client: &Client) -> Option<Time> {
        let (whole, pause) = match client.stage {
            Stage::Headers => (self.header, self.between_reads),
            Stage::Body => (self.body, self.between_reads),
            Stage::Sending => (self.send, self.between_writes),
            _ => return None,
        };
        if !client.placed {
            return None;
        }
        let whole = whole.map(|deadline| client.since + deadline.allows(client.bytes));
        let pause = pause.map(|pause| client.progress + pause);
        whole.into_iter().chain(pause).min()
    }
}
