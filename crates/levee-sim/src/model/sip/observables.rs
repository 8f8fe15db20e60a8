//! What can be observed of the SIP model.

use levee_policy::Time;
use levee_policy::selective::Stats;

use super::Sip;
use super::tally::{Counts, Tally};
use crate::model::{Observable, Observed};
use crate::schedule::Kind;

/// When an observable stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// At the horizon.
    Horizon,
    /// At the end of the run: calls that ring at the horizon get their outcome after it.
    End,
}

/// An observable and how it is had.
struct Entry {
    observable: Observable,
    until: Until,
    value: fn(&Sip, Time) -> f64,
}

const fn entry(
    (name, unit, meaning): (&'static str, &'static str, &'static str),
    until: Until,
    value: fn(&Sip, Time) -> f64,
) -> Entry {
    Entry {
        observable: Observable {
            name,
            unit,
            meaning,
        },
        until,
        value,
    }
}

/// The value of the whole of an observable that stands still at the horizon.
#[derive(Clone, Debug)]
pub(super) struct Frozen([f64; TABLE.len()]);

impl Frozen {
    pub(super) fn of(model: &Sip, now: Time) -> Self {
        let mut values = [0.0; TABLE.len()];
        for (value, entry) in values.iter_mut().zip(&TABLE) {
            *value = (entry.value)(model, now);
        }
        Self(values)
    }
}

impl Observed for Sip {
    fn observables() -> &'static [Observable] {
        &OBSERVABLES
    }

    fn observe(&self, now: Time, index: usize) -> f64 {
        match (TABLE.get(index), &self.frozen) {
            (Some(entry), Some(frozen)) if entry.until == Horizon => frozen.0[index],
            (Some(entry), _) => (entry.value)(self, now),
            (None, _) => f64::NAN,
        }
    }

    fn samples() -> &'static [Observable] {
        &SAMPLES
    }

    fn sample(&self, index: usize) -> &[f64] {
        let honest = self.tallies.of(Kind::Honest);
        match index {
            0 => &honest.setups_s,
            1 => &honest.got_shares,
            2 => &self.tallies.of(Kind::Attacker).stays_s,
            _ => &[],
        }
    }
}

static SAMPLES: [Observable; 3] = [
    Observable {
        name: "honest.setup_s",
        unit: "s",
        meaning: "from INVITE to 200 of each honest call that was set up",
    },
    Observable {
        name: "honest.got_share",
        unit: "",
        meaning: "share of its wanted time that each honest call that was cut short got",
    },
    Observable {
        name: "attacker.stay_s",
        unit: "s",
        meaning: "from INVITE to the end of each attacker's call that was set up; the horizon ends it too",
    },
];

static OBSERVABLES: [Observable; TABLE.len()] = {
    let mut all = [TABLE[0].observable; TABLE.len()];
    let mut index = 0;
    while index < all.len() {
        all[index] = TABLE[index].observable;
        index += 1;
    }
    all
};

fn honest(model: &Sip) -> &Tally {
    model.tallies.of(Kind::Honest)
}

fn attacker(model: &Sip) -> &Tally {
    model.tallies.of(Kind::Attacker)
}

fn whole(tally: &Tally) -> &Counts {
    &tally.whole
}

fn half(tally: &Tally) -> &Counts {
    &tally.second_half
}

/// The value without a defence is 0.
fn policy(model: &Sip, value: impl Fn(&Stats) -> u64) -> f64 {
    let front = model.front.as_ref();
    front.map_or(0.0, |front| value(front.policy.stats()) as f64)
}

fn gauge(model: &Sip, value: impl Fn(&super::Front) -> u64) -> f64 {
    model
        .front
        .as_ref()
        .map_or(0.0, |front| value(front) as f64)
}

use Until::{End, Horizon};

#[rustfmt::skip]
const TABLE: [Entry; 75] = [
    entry(("time", "s", "since the start of the run, up to the horizon"), Horizon, |_, now| now.as_secs_f64()),
    entry(("messages", "messages", "SIP messages delivered, over the site's own links too"), Horizon, |m, _| m.messages as f64),

    entry(("honest.attempted", "calls", "honest calls begun after the warm-up: at the end complete + incomplete + unsuccessful"), End, |m, _| whole(honest(m)).attempted as f64),
    entry(("honest.complete", "calls", "of them, lasted as long as wanted, or connected at the horizon"), End, |m, _| whole(honest(m)).complete as f64),
    entry(("honest.incomplete", "calls", "of them, set up and cut short by the defence"), End, |m, _| whole(honest(m)).incomplete as f64),
    entry(("honest.unsuccessful", "calls", "of them, never set up: refused, dropped or given up before the answer"), End, |m, _| whole(honest(m)).unsuccessful as f64),
    entry(("honest.set_up", "calls", "of them, that had a 200"), End, |m, _| whole(honest(m)).set_up as f64),
    entry(("honest.setup_sum", "s", "from INVITE to 200, summed over honest.set_up"), End, |m, _| whole(honest(m)).setup_s),
    entry(("honest.setup_mean", "s", "honest.setup_sum / honest.set_up; not a number without a call"), End, |m, _| whole(honest(m)).setup_s / whole(honest(m)).set_up as f64),
    entry(("honest.stays", "calls", "honest calls that were set up and are over"), End, |m, _| whole(honest(m)).stays as f64),
    entry(("honest.stay_sum", "s", "from INVITE to the end, summed over honest.stays; the horizon ends a call too"), End, |m, _| whole(honest(m)).stay_s),
    entry(("honest.stay_mean", "s", "honest.stay_sum / honest.stays; not a number without a call"), End, |m, _| whole(honest(m)).stay_s / whole(honest(m)).stays as f64),
    entry(("honest.got_share_sum", "", "share of its wanted time that a call got, summed over honest.incomplete"), End, |m, _| whole(honest(m)).got_shares),
    entry(("honest.got_share", "", "honest.got_share_sum / honest.incomplete; not a number without a call"), End, |m, _| whole(honest(m)).got_shares / whole(honest(m)).incomplete as f64),
    entry(("honest.waiting", "calls", "honest calls without a final answer now, those of the warm-up too"), Horizon, |m, _| f64::from(honest(m).waiting)),
    entry(("honest.in_call", "calls", "honest calls connected now, those of the warm-up too"), Horizon, |m, _| f64::from(honest(m).in_call)),

    entry(("honest.second_half.attempted", "calls", "as honest.attempted, of calls begun in the second half of the time after the warm-up"), End, |m, _| half(honest(m)).attempted as f64),
    entry(("honest.second_half.complete", "calls", "as honest.complete, of those"), End, |m, _| half(honest(m)).complete as f64),
    entry(("honest.second_half.incomplete", "calls", "as honest.incomplete, of those"), End, |m, _| half(honest(m)).incomplete as f64),
    entry(("honest.second_half.unsuccessful", "calls", "as honest.unsuccessful, of those"), End, |m, _| half(honest(m)).unsuccessful as f64),
    entry(("honest.second_half.set_up", "calls", "as honest.set_up, of those"), End, |m, _| half(honest(m)).set_up as f64),
    entry(("honest.second_half.setup_sum", "s", "as honest.setup_sum, of those"), End, |m, _| half(honest(m)).setup_s),
    entry(("honest.second_half.stays", "calls", "as honest.stays, of those"), End, |m, _| half(honest(m)).stays as f64),
    entry(("honest.second_half.stay_sum", "s", "as honest.stay_sum, of those"), End, |m, _| half(honest(m)).stay_s),
    entry(("honest.second_half.got_share_sum", "", "as honest.got_share_sum, of those"), End, |m, _| half(honest(m)).got_shares),

    entry(("attacker.attempted", "calls", "attackers' calls begun after the warm-up, each redial being one more"), End, |m, _| whole(attacker(m)).attempted as f64),
    entry(("attacker.complete", "calls", "of them, connected at the horizon: never dropped"), End, |m, _| whole(attacker(m)).complete as f64),
    entry(("attacker.incomplete", "calls", "of them, set up and dropped by the defence"), End, |m, _| whole(attacker(m)).incomplete as f64),
    entry(("attacker.unsuccessful", "calls", "of them, never set up"), End, |m, _| whole(attacker(m)).unsuccessful as f64),
    entry(("attacker.set_up", "calls", "of them, that had a 200"), End, |m, _| whole(attacker(m)).set_up as f64),
    entry(("attacker.setup_sum", "s", "from INVITE to 200, summed over attacker.set_up"), End, |m, _| whole(attacker(m)).setup_s),
    entry(("attacker.stays", "calls", "attackers' calls that were set up and are over"), End, |m, _| whole(attacker(m)).stays as f64),
    entry(("attacker.stay_sum", "s", "from INVITE to the end, summed over attacker.stays; the horizon ends a call too"), End, |m, _| whole(attacker(m)).stay_s),
    entry(("attacker.stay_mean", "s", "attacker.stay_sum / attacker.stays; not a number without a call"), End, |m, _| whole(attacker(m)).stay_s / whole(attacker(m)).stays as f64),
    entry(("attacker.waiting", "calls", "attackers' calls without a final answer now, those of the warm-up too"), Horizon, |m, _| f64::from(attacker(m).waiting)),
    entry(("attacker.in_call", "calls", "attackers' calls connected now, those of the warm-up too"), Horizon, |m, _| f64::from(attacker(m).in_call)),
    entry(("attacker.second_half.attempted", "calls", "as attacker.attempted, of calls begun in the second half of the time after the warm-up"), End, |m, _| half(attacker(m)).attempted as f64),
    entry(("attacker.second_half.complete", "calls", "as attacker.complete, of those"), End, |m, _| half(attacker(m)).complete as f64),
    entry(("attacker.second_half.incomplete", "calls", "as attacker.incomplete, of those"), End, |m, _| half(attacker(m)).incomplete as f64),
    entry(("attacker.second_half.unsuccessful", "calls", "as attacker.unsuccessful, of those"), End, |m, _| half(attacker(m)).unsuccessful as f64),
    entry(("attacker.second_half.set_up", "calls", "as attacker.set_up, of those"), End, |m, _| half(attacker(m)).set_up as f64),
    entry(("attacker.second_half.stays", "calls", "as attacker.stays, of those"), End, |m, _| half(attacker(m)).stays as f64),
    entry(("attacker.second_half.stay_sum", "s", "as attacker.stay_sum, of those"), End, |m, _| half(attacker(m)).stay_s),

    entry(("server.capacity", "lines", "k, all lines"), Horizon, |m, _| f64::from(m.server.capacity)),
    entry(("server.busy", "lines", "taken now"), Horizon, |m, _| f64::from(m.server.busy)),
    entry(("server.busy_max", "lines", "taken at once at most so far"), Horizon, |m, _| f64::from(m.server.busy_max)),
    entry(("server.full", "0/1", "1 if all lines are taken now, else 0"), Horizon, |m, _| f64::from(u8::from(m.server.is_full()))),
    entry(("server.was_full", "0/1", "1 if all lines were taken at some time so far, else 0"), Horizon, |m, _| f64::from(u8::from(m.server.busy_max >= m.server.capacity))),
    entry(("server.busy_seconds", "s", "time that lines were taken so far, summed over lines"), Horizon, |m, now| m.server.busy_s(now)),
    entry(("server.full_seconds", "s", "time so far in which all lines were taken"), Horizon, |m, now| m.server.full_s(now)),
    entry(("server.offered", "calls", "INVITEs that reached the server"), Horizon, |m, _| m.server.offered as f64),
    entry(("server.refused", "calls", "of them, refused by the server since all lines were taken"), Horizon, |m, _| m.server.refused as f64),
    entry(("server.cut", "calls", "ended at the server by a BYE of the front"), Horizon, |m, _| m.server.cut as f64),

    entry(("front.arrivals", "calls", "that asked the defence to come in; 0 without one, as all of front"), Horizon, |m, _| policy(m, |s| s.arrivals)),
    entry(("front.admitted", "calls", "taken into the table"), Horizon, |m, _| policy(m, |s| s.admitted)),
    entry(("front.forwarded", "calls", "passed on to the server"), Horizon, |m, _| policy(m, |s| s.forwarded)),
    entry(("front.held", "calls", "in the table now"), Horizon, |m, _| gauge(m, |f| f.policy.calls_held().into())),
    entry(("front.held_waiting", "calls", "in the table now and WAITING"), Horizon, |m, _| gauge(m, |f| f.policy.calls_waiting().into())),
    entry(("front.held_in_call", "calls", "in the table now and INCALL"), Horizon, |m, _| gauge(m, |f| f.policy.calls_in_call().into())),
    entry(("front.evicting", "calls", "dropped whose slot is not free yet"), Horizon, |m, _| gauge(m, |f| f.policy.calls_evicting().into())),
    entry(("front.pmod", "calls", "PMod: arrivals at a full table in the round of the last input"), Horizon, |m, _| gauge(m, |f| f.policy.pmod())),
    entry(("front.rounds", "rounds", "that had an arrival and are over"), Horizon, |m, _| policy(m, |s| s.rounds)),
    entry(("front.rounds_overloaded", "rounds", "of them, with an arrival at a full table"), Horizon, |m, _| policy(m, |s| s.rounds_overloaded)),
    entry(("front.p1_drawn", "calls", "arrivals at a full table that drew for P1"), Horizon, |m, _| policy(m, |s| s.p1_used)),
    entry(("front.p1_taken", "calls", "of them, that won the draw"), Horizon, |m, _| policy(m, |s| s.p1_used - s.refused.overload)),
    entry(("front.p2_drawn", "calls", "victims drawn (P2)"), Horizon, |m, _| policy(m, |s| s.p2_used)),
    entry(("front.refused.overload", "calls", "that lost the draw for P1"), Horizon, |m, _| policy(m, |s| s.refused.overload)),
    entry(("front.refused.full", "calls", "refused at a full table by a rival of SeVen"), Horizon, |m, _| policy(m, |s| s.refused.full)),
    entry(("front.refused.caller_limit", "calls", "of a caller that held calls_per_caller"), Horizon, |m, _| policy(m, |s| s.refused.caller_limit)),
    entry(("front.refused.source_limit", "calls", "of a source that held calls_per_source; all calls have one source, as in the lab"), Horizon, |m, _| policy(m, |s| s.refused.source_limit)),
    entry(("front.evicted_waiting", "calls", "dropped while WAITING"), Horizon, |m, _| policy(m, |s| s.evicted.waiting_displaced)),
    entry(("front.evicted_in_call", "calls", "dropped while INCALL, for a newcomer or by max_duration"), Horizon, |m, _| policy(m, |s| s.evicted.in_call_displaced + s.evicted.max_duration)),
    entry(("front.evicted_max_duration", "calls", "of those, by max_duration"), Horizon, |m, _| policy(m, |s| s.evicted.max_duration)),
    entry(("front.byes_to_server", "messages", "BYEs of the front for calls that it dropped"), Horizon, |m, _| gauge(m, |f| f.byes_to_server)),
    entry(("front.byes_to_callers", "messages", "the same towards their callers; none for a call whose 200 crossed its CANCEL"), Horizon, |m, _| gauge(m, |f| f.byes_to_callers)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_described() {
        for (index, one) in Sip::observables().iter().enumerate() {
            assert!(!one.meaning.is_empty());
            let before = &Sip::observables()[..index];
            assert!(
                before.iter().all(|other| other.name != one.name),
                "{}",
                one.name
            );
        }
    }
}
