//! What can be seen of a run.

use levee_policy::Time;
use levee_policy::thinner::{Stats, Thinner};

use super::{SpeakUp, UPLINK};
use crate::model::{Observable, Observed};
use crate::schedule::Kind;

/// Counts of a run, of the good and of the bad clients.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) of: [Of; 2],
    pub(super) offered: u64,
    pub(super) refused_by_server: u64,
}

/// Of one kind. The first six are of requests that were wanted in the time that is counted; the others are of what happened in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Of {
    pub(super) attempted: u64,
    pub(super) served: u64,
    pub(super) waited_s: f64,
    pub(super) expired: u64,
    pub(super) gave_up: u64,
    pub(super) refused: u64,

    pub(super) tries: u64,
    pub(super) paid: u64,
    pub(super) admitted: u64,
    pub(super) price: f64,
    pub(super) done: u64,
    pub(super) worked_s: f64,
}

impl Of {
    fn denied(&self) -> u64 {
        self.expired + self.gave_up + self.refused
    }
}

struct Entry {
    what: Observable,
    read: fn(&SpeakUp, Time) -> f64,
}

const fn entry(
    (name, unit, meaning): (&'static str, &'static str, &'static str),
    read: fn(&SpeakUp, Time) -> f64,
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

use Kind::{Attacker as Bad, Honest as Good};

#[rustfmt::skip]
const ENTRIES: [Entry; 57] = [
    entry(("time", "s", "virtual time"), |_, now| now.as_secs_f64()),

    entry(("honest.attempted", "requests", "that good clients wanted after the warm-up"), |m, _| m.of(Good).attempted as f64),
    entry(("honest.served", "requests", "of them, answered"), |m, _| m.of(Good).served as f64),
    entry(("honest.denied", "requests", "of them, not to be answered, by any cause"), |m, _| m.of(Good).denied() as f64),
    entry(("honest.expired", "requests", "denied: waited too long at the client for its window"), |m, _| m.of(Good).expired as f64),
    entry(("honest.gave_up", "requests", "denied: waited too long since they were first sent"), |m, _| m.of(Good).gave_up as f64),
    entry(("honest.refused", "requests", "denied: turned away, and not to come again"), |m, _| m.of(Good).refused as f64),
    entry(("honest.open", "requests", "of those attempted, of which it is not known yet"), |m, _| (m.of(Good).attempted - m.of(Good).served - m.of(Good).denied()) as f64),
    entry(("honest.waited", "s", "from the wish to the answer, summed over honest.served"), |m, _| m.of(Good).waited_s),
    entry(("honest.wait_mean", "s", "honest.waited / honest.served; no number if none was served"), |m, _| ratio(m.of(Good).waited_s, m.of(Good).served as f64)),
    entry(("honest.tries", "tries", "requests of good clients that came to the front, those sent again too"), |m, _| m.of(Good).tries as f64),
    entry(("honest.tries_mean", "", "the papers' r where all are served: honest.tries / honest.done"), |m, _| ratio(m.of(Good).tries as f64, m.of(Good).done as f64)),
    entry(("honest.done", "requests", "of good clients that the server finished"), |m, _| m.of(Good).done as f64),
    entry(("honest.worked", "s", "that the server worked for good clients"), |m, now| m.worked_s_of(Good, now)),
    entry(("honest.paid", "units", "that they paid: bytes, hashes, or retries where the price is told"), |m, _| m.of(Good).paid as f64),
    entry(("honest.price", "units", "that bought places, summed over honest.admitted; with it every quantum"), |m, _| m.of(Good).price),
    entry(("honest.price_mean", "units", "honest.price / honest.admitted; no number if none was admitted"), |m, _| ratio(m.of(Good).price, m.of(Good).admitted as f64)),
    entry(("honest.admitted", "requests", "of good clients that the thinner let pass"), |m, _| m.of(Good).admitted as f64),
    entry(("honest.bytes", "bytes", "that good clients sent"), |m, now| m.sent(Good, now)),
    entry(("honest.fairness", "", "Jain's index of the requests that each good client was served: 1 if all got the same, 1/n if one got all"), |m, _| m.fairness(Good)),

    entry(("attacker.attempted", "requests", "that bad clients wanted after the warm-up"), |m, _| m.of(Bad).attempted as f64),
    entry(("attacker.served", "requests", "of them, answered"), |m, _| m.of(Bad).served as f64),
    entry(("attacker.denied", "requests", "of them, not to be answered, by any cause"), |m, _| m.of(Bad).denied() as f64),
    entry(("attacker.expired", "requests", "denied: waited too long at the client for its window"), |m, _| m.of(Bad).expired as f64),
    entry(("attacker.gave_up", "requests", "denied: waited too long since they were first sent"), |m, _| m.of(Bad).gave_up as f64),
    entry(("attacker.refused", "requests", "denied: turned away, and not to come again"), |m, _| m.of(Bad).refused as f64),
    entry(("attacker.tries", "tries", "requests of bad clients that came to the front, those sent again too"), |m, _| m.of(Bad).tries as f64),
    entry(("attacker.tries_mean", "", "attacker.tries / attacker.done"), |m, _| ratio(m.of(Bad).tries as f64, m.of(Bad).done as f64)),
    entry(("attacker.done", "requests", "of bad clients that the server finished"), |m, _| m.of(Bad).done as f64),
    entry(("attacker.worked", "s", "that the server worked for bad clients"), |m, now| m.worked_s_of(Bad, now)),
    entry(("attacker.paid", "units", "that they paid: bytes, hashes, or retries where the price is told"), |m, _| m.of(Bad).paid as f64),
    entry(("attacker.price", "units", "that bought places, summed over attacker.admitted; with it every quantum"), |m, _| m.of(Bad).price),
    entry(("attacker.price_mean", "units", "attacker.price / attacker.admitted; no number if none was admitted"), |m, _| ratio(m.of(Bad).price, m.of(Bad).admitted as f64)),
    entry(("attacker.admitted", "requests", "of bad clients that the thinner let pass"), |m, _| m.of(Bad).admitted as f64),
    entry(("attacker.bytes", "bytes", "that bad clients sent"), |m, now| m.sent(Bad, now)),

    entry(("server.done", "requests", "that the server finished"), |m, _| (m.of(Good).done + m.of(Bad).done) as f64),
    entry(("server.worked", "s", "that the server worked"), |m, now| m.worked_s_of(Good, now) + m.worked_s_of(Bad, now)),
    entry(("server.good_share", "", "good clients' part of the server's time so far: honest.worked / server.worked; no number before it worked"), |m, now| {
        let good = m.worked_s_of(Good, now);
        ratio(good, good + m.worked_s_of(Bad, now))
    }),
    entry(("server.backlog", "requests", "that wait at the server now"), |m, _| m.backlog.len() as f64),
    entry(("server.offered", "requests", "that came to the server, those of the warm-up too"), |m, _| m.counts.offered as f64),
    entry(("server.refused", "requests", "of them, turned away by the server itself"), |m, _| m.counts.refused_by_server as f64),
    entry(("ideal.share", "", "of the server's time that is good clients' due: G/(G+B), or all that they want if that is less"), |m, _| m.setup.ideal_share()),
    entry(("ideal.worked", "s", "the same of the time so far that is counted"), |m, now| m.setup.ideal_share() * (now - m.counted()).as_secs_f64()),

    entry(("thinner.arrivals", "requests", "that came to the thinner; 0 without one, as all of it"), |m, _| m.stats(|s| s.arrivals)),
    entry(("thinner.held", "requests", "of them, that had to wait"), |m, _| m.stats(|s| s.held)),
    entry(("thinner.admitted", "requests", "passed on to the server"), |m, _| m.stats(|s| s.admitted)),
    entry(("thinner.refused", "requests", "turned away"), |m, _| m.stats(|s| s.refused.total())),
    entry(("thinner.left", "requests", "whose clients left while they waited"), |m, _| m.stats(|s| s.left)),
    entry(("thinner.overloads", "", "times that demand came to exceed capacity"), |m, _| m.stats(|s| s.overloads)),
    entry(("thinner.suspended", "requests", "suspended for one that paid more"), |m, _| m.stats(|s| s.suspended)),
    entry(("thinner.aborted", "requests", "taken from the server for good"), |m, _| m.stats(|s| s.aborted)),
    entry(("thinner.forfeited", "units", "paid that bought nothing"), |m, _| m.stats(|s| s.forfeited)),
    entry(("thinner.contenders", "requests", "that wait now"), |m, _| m.gauge(|t| f64::from(t.contenders()))),
    entry(("thinner.in_service", "requests", "that the thinner has passed on and are not done"), |m, _| m.gauge(|t| f64::from(t.in_service()))),
    entry(("thinner.overloaded", "0/1", "1 if demand exceeds capacity now"), |m, _| m.gauge(|t| f64::from(u8::from(t.is_overloaded())))),
    entry(("thinner.price", "units", "what a newcomer would have to pay now"), |m, _| m.gauge(|t| t.price() as f64)),
    entry(("thinner.inbound_rate", "1/s", "requests a second that ask, as the thinner measures it now"), |m, _| m.gauge(Thinner::inbound_rate)),
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
    name: "honest.waited_s",
    unit: "s",
    meaning: "from the wish to the answer, of each request of honest.served",
}];

fn ratio(of: f64, by: f64) -> f64 {
    if by > 0.0 { of / by } else { f64::NAN }
}

impl SpeakUp {
    fn of(&self, kind: Kind) -> &Of {
        &self.counts.of[kind.index()]
    }

    fn gauge(&self, read: impl Fn(&Thinner) -> f64) -> f64 {
        self.front.as_ref().map_or(0.0, read)
    }

    fn stats(&self, read: impl Fn(&Stats) -> u64) -> f64 {
        self.gauge(|front| read(front.stats()) as f64)
    }

    /// With the work that is going on.
    fn worked_s_of(&self, kind: Kind, now: Time) -> f64 {
        let own = self.serving.filter(|job| {
            let request = self.requests.get(job.of.record as usize);
            request.is_some_and(|request| request.kind == kind)
        });
        self.of(kind).worked_s + own.map_or(0.0, |_| self.worked_s(now, self.began))
    }

    fn sent(&self, kind: Kind, now: Time) -> f64 {
        let counted = self.counted();
        let own = self.clients.iter().filter(|client| client.kind == kind);
        own.map(|client| client.pipes[UPLINK].sent_by(now, counted))
            .sum()
    }

    fn fairness(&self, kind: Kind) -> f64 {
        let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for served in self.served_of(kind).map(f64::from) {
            n += 1.0;
            sum += served;
            squares += served * served;
        }
        ratio(sum * sum, n * squares)
    }
}

impl Observed for SpeakUp {
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
        if index == 0 { &self.waited_s } else { &[] }
    }
}
