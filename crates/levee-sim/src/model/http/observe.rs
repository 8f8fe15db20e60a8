//! What can be seen of a run.

use levee_policy::selective::{Selective, Stats};
use levee_policy::{Span, Time};

use super::{Failure, Http, Kind};
use crate::model::{Observable, Observed};

/// Counts of a run. Those of clients are of clients that began in the time that is counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) attempted: u64,
    pub(super) tries: u64,
    pub(super) served: u64,
    pub(super) served_s: f64,
    pub(super) clients_failed: Failures,
    pub(super) attackers: Attackers,
    /// When the server was full for the first time.
    pub(super) filled: Option<Time>,
    up: [u64; 2],
    down: [u64; 2],
    /// Until when the areas below are counted.
    until: Time,
    busy_area: f64,
    held_area: f64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attackers {
    pub(super) attempted: u64,
    pub(super) served: u64,
    pub(super) failed: Failures,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failures {
    refused: u64,
    dropped: u64,
    timed_out: u64,
    gave_up: u64,
}

impl Failures {
    pub(super) fn note(&mut self, how: Failure) {
        *match how {
            Failure::Refused => &mut self.refused,
            Failure::Dropped => &mut self.dropped,
            Failure::TimedOut => &mut self.timed_out,
            Failure::GaveUp => &mut self.gave_up,
        } += 1;
    }

    fn total(&self) -> u64 {
        self.refused + self.dropped + self.timed_out + self.gave_up
    }
}

impl Counts {
    pub(super) fn up(&mut self, kind: Kind, bytes: u64) {
        self.up[kind.index()] += bytes;
    }

    pub(super) fn down(&mut self, kind: Kind, bytes: u64) {
        self.down[kind.index()] += bytes;
    }

    /// Adds what was held since the last change, as far as it lies in the time that is counted.
    pub(super) fn account(&mut self, now: Time, busy: u32, busy_by: [u32; 2], warmup: Span) {
        let since = self.until.max(Time::ZERO + warmup);
        let passed = (now - since).as_secs_f64();
        self.busy_area += f64::from(busy) * passed;
        self.held_area += f64::from(busy_by[Kind::Attacker.index()]) * passed;
        self.until = now;
    }
}

struct Entry {
    what: Observable,
    read: fn(&Http, Time) -> f64,
}

const fn entry(
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    read: fn(&Http, Time) -> f64,
) -> Entry {
    Entry {
        what: Observable {
            name,
            unit,
            meaning,
        },
        read,
    }
}

const ENTRIES: [Entry; 37] = [
    entry("time", "s", "virtual time", |_, now| now.as_secs_f64()),
    entry(
        "client.attempted",
        "clients",
        "honest clients that began",
        |m, _| m.counts.attempted as f64,
    ),
    entry(
        "client.tries",
        "connections",
        "connections that they tried",
        |m, _| m.counts.tries as f64,
    ),
    entry(
        "client.served",
        "clients",
        "of them, those that have their whole response",
        |m, _| m.counts.served as f64,
    ),
    entry(
        "client.failed",
        "clients",
        "of them, those that went without, by any cause",
        |m, _| m.counts.clients_failed.total() as f64,
    ),
    entry(
        "client.refused",
        "clients",
        "failed: their last try was turned away",
        |m, _| m.counts.clients_failed.refused as f64,
    ),
    entry(
        "client.dropped",
        "clients",
        "failed: their last try was dropped by the policy",
        |m, _| m.counts.clients_failed.dropped as f64,
    ),
    entry(
        "client.timed_out",
        "clients",
        "failed: their last try was cut by a timeout",
        |m, _| m.counts.clients_failed.timed_out as f64,
    ),
    entry(
        "client.gave_up",
        "clients",
        "failed: their patience was over",
        |m, _| m.counts.clients_failed.gave_up as f64,
    ),
    entry(
        "client.open",
        "clients",
        "those of whom it is not known yet",
        |m, _| (m.counts.attempted - m.counts.served - m.counts.clients_failed.total()) as f64,
    ),
    entry(
        "client.success",
        "",
        "served among those of whom it is known; no number if there are none",
        |m, _| {
            let served = m.counts.served as f64;
            ratio(served, served + m.counts.clients_failed.total() as f64)
        },
    ),
    entry(
        "client.tts",
        "s",
        "mean time to service: from the first SYN to the last byte of the response; no number if none was served",
        |m, _| ratio(m.counts.served_s, m.counts.served as f64),
    ),
    entry(
        "attacker.attempted",
        "connections",
        "connections that attackers tried",
        |m, _| m.counts.attackers.attempted as f64,
    ),
    entry(
        "attacker.connections",
        "connections",
        "places that attackers hold now",
        |m, _| f64::from(m.busy_by[Kind::Attacker.index()]),
    ),
    entry(
        "attacker.connections_mean",
        "connections",
        "places that attackers held on average",
        |m, now| m.mean(now, |c| c.held_area),
    ),
    entry(
        "attacker.refused",
        "connections",
        "of theirs, turned away",
        |m, _| m.counts.attackers.failed.refused as f64,
    ),
    entry(
        "attacker.dropped",
        "connections",
        "of theirs, dropped by the policy",
        |m, _| m.counts.attackers.failed.dropped as f64,
    ),
    entry(
        "attacker.timed_out",
        "connections",
        "of theirs, cut by a timeout",
        |m, _| m.counts.attackers.failed.timed_out as f64,
    ),
    entry(
        "attacker.served",
        "connections",
        "of theirs, those that got their whole response",
        |m, _| m.counts.attackers.served as f64,
    ),
    entry("server.busy", "connections", "places taken now", |m, _| {
        f64::from(m.busy)
    }),
    entry(
        "server.busy_mean",
        "connections",
        "places taken on average",
        |m, now| m.mean(now, |c| c.busy_area),
    ),
    entry(
        "server.full",
        "0/1",
        "1 if all places are taken now",
        |m, _| f64::from(u8::from(m.busy >= m.setup.capacity)),
    ),
    entry(
        "server.filled_at",
        "s",
        "when all places were taken for the first time; the time now if they never were",
        |m, now| m.counts.filled.unwrap_or(now).as_secs_f64(),
    ),
    entry(
        "server.backlog",
        "connections",
        "connections that the kernel keeps for the server",
        |m, _| m.backlog.len() as f64,
    ),
    entry(
        "front.held",
        "connections",
        "connections in the policy's table",
        |m, _| m.front(|f| f64::from(f.calls_held())),
    ),
    entry(
        "front.waiting",
        "connections",
        "of them, WAITING",
        |m, _| m.front(|f| f64::from(f.calls_waiting())),
    ),
    entry("front.in_call", "connections", "of them, INCALL", |m, _| {
        m.front(|f| f64::from(f.calls_in_call()))
    }),
    entry(
        "front.arrivals",
        "connections",
        "new connections that asked the policy",
        |m, _| m.stats(|s| s.arrivals),
    ),
    entry(
        "front.admitted",
        "connections",
        "of them, taken into its table",
        |m, _| m.stats(|s| s.admitted),
    ),
    entry(
        "front.refused",
        "connections",
        "of them, turned away",
        |m, _| m.stats(|s| s.refused.total()),
    ),
    entry(
        "front.evicted",
        "connections",
        "connections that it dropped",
        |m, _| m.stats(|s| s.evicted.total()),
    ),
    entry("front.p1_used", "draws", "draws for P1", |m, _| {
        m.stats(|s| s.p1_used)
    }),
    entry("front.p2_used", "draws", "draws of a victim", |m, _| {
        m.stats(|s| s.p2_used)
    }),
    entry(
        "network.up",
        "bytes",
        "bytes of requests that arrived",
        |m, _| m.counts.up.iter().sum::<u64>() as f64,
    ),
    entry(
        "network.up_attack",
        "bytes",
        "of them, from attackers",
        |m, _| m.counts.up[Kind::Attacker.index()] as f64,
    ),
    entry(
        "network.down",
        "bytes",
        "bytes of responses that were sent",
        |m, _| m.counts.down.iter().sum::<u64>() as f64,
    ),
    entry(
        "network.down_attack",
        "bytes",
        "of them, to attackers",
        |m, _| m.counts.down[Kind::Attacker.index()] as f64,
    ),
];

static OBSERVABLES: [Observable; ENTRIES.len()] = {
    let mut all = [ENTRIES[0].what; ENTRIES.len()];
    let mut i = 0;
    while i < ENTRIES.len() {
        all[i] = ENTRIES[i].what;
        i += 1;
    }
    all
};

static READ: [Entry; ENTRIES.len()] = ENTRIES;

static SAMPLES: [Observable; 1] = [Observable {
    name: "client.tts_s",
    unit: "s",
    meaning: "time to service of each client that was served",
}];

fn ratio(of: f64, by: f64) -> f64 {
    if by > 0.0 { of / by } else { f64::NAN }
}

impl Http {
    fn front(&self, read: impl Fn(&Selective) -> f64) -> f64 {
        self.front.as_ref().map_or(0.0, read)
    }

    fn stats(&self, read: impl Fn(&Stats) -> u64) -> f64 {
        self.front(|front| read(front.stats()) as f64)
    }

    /// An area so far over the time that is counted.
    fn mean(&self, now: Time, area: impl Fn(&Counts) -> f64) -> f64 {
        let warmup = self.setup.warmup;
        let mut counts = self.counts;
        counts.account(now, self.busy, self.busy_by, warmup);
        ratio(area(&counts), (now - (Time::ZERO + warmup)).as_secs_f64())
    }
}

impl Observed for Http {
    fn observables() -> &'static [Observable] {
        &OBSERVABLES
    }

    fn observe(&self, now: Time, index: usize) -> f64 {
        READ.get(index)
            .map_or(f64::NAN, |entry| (entry.read)(self, now))
    }

    fn samples() -> &'static [Observable] {
        &SAMPLES
    }

    fn sample(&self, index: usize) -> &[f64] {
        if index == 0 { &self.served_s } else { &[] }
    }
}
