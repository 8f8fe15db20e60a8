//! What can be seen of a run.

use levee_policy::Time;

use super::Anycast;
use super::meter::{Meter, Served};
use crate::model::{Observable, Observed};

struct Entry {
    what: Observable,
    read: fn(&Anycast, Time) -> f64,
}

const fn entry(
    (name, unit, meaning): (&'static str, &'static str, &'static str),
    read: fn(&Anycast, Time) -> f64,
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

#[rustfmt::skip]
const ENTRIES: [Entry; 53] = [
    entry(("time", "s", "virtual time"), |_, now| now.as_secs_f64()),

    entry(("honest.offered", "queries", "that honest clients sent"), |m, _| m.meter.all.offered),
    entry(("honest.answered", "queries", "of them, answered"), |m, _| m.meter.all.answered),
    entry(("honest.share", "", "honest.answered / honest.offered"), |m, _| share(m.meter.all)),
    entry(("honest.attack.offered", "queries", "that honest clients sent while the attack went on"), |m, _| m.meter.attack.offered),
    entry(("honest.attack.answered", "queries", "of them, answered"), |m, _| m.meter.attack.answered),
    entry(("honest.attack.share", "", "honest.attack.answered / honest.attack.offered; no number before an attack"), |m, _| share(m.meter.attack)),
    entry(("honest.after.offered", "queries", "that honest clients sent while the attack went on and no site was over capacity any more"), |m, _| m.meter.after.offered),
    entry(("honest.after.answered", "queries", "of them, answered"), |m, _| m.meter.after.answered),
    entry(("honest.after.share", "", "honest.after.answered / honest.after.offered; no number where no site ever came below its capacity"), |m, _| share(m.meter.after)),

    entry(("attack.sent", "queries", "that attackers sent"), |m, _| m.meter.attackers),
    entry(("attack.on", "0/1", "1 from the beginning of the attack to its end, in its pauses too"), |m, now| flag(m.under_attack(now))),
    entry(("attack.level", "", "which part of its height the attack has now"), |m, _| m.level),

    entry(("overload.sites", "sites", "that are sent more than their capacity now"), |m, _| f64::from(m.flow.over)),
    entry(("overload.time", "s", "in which some site was"), |m, _| m.meter.over_s),
    entry(("overload.site_time", "s", "the same summed over the sites"), |m, _| m.meter.over_site_s.iter().sum()),
    entry(("overload.worst", "s", "of the site that was so longest"), |m, _| m.meter.over_site_s.iter().copied().fold(0.0, f64::max)),
    entry(("overload.excess", "queries", "sent to sites beyond their capacities"), |m, _| m.meter.excess),
    entry(("overload.site1", "s", "in which the first site of the playbook was sent more than its capacity"), |m, _| m.over_site(0)),
    entry(("overload.site2", "s", "the same of the second"), |m, _| m.over_site(1)),
    entry(("overload.site3", "s", "the same of the third"), |m, _| m.over_site(2)),
    entry(("overload.site4", "s", "the same of the fourth"), |m, _| m.over_site(3)),
    entry(("overload.site5", "s", "the same of the fifth"), |m, _| m.over_site(4)),
    entry(("overload.site6", "s", "the same of the sixth"), |m, _| m.over_site(5)),
    entry(("overload.site7", "s", "the same of the seventh; all sites are in the sample overload.site_s"), |m, _| m.over_site(6)),

    entry(("mitigation.done", "0/1", "1 if during the attack the time came from which no site was over capacity for run.calm"), |m, _| flag(m.meter.mitigated)),
    entry(("mitigation.time", "s", "from the beginning of the attack until then; no number without"), |m, _| m.mitigated_after().unwrap_or(f64::NAN)),
    entry(("mitigation.wait", "s", "the same, and without mitigation how long the attack went on: always a number"), Anycast::waited),

    entry(("detect.time", "s", "from the beginning of the attack until the responder says that there is one; no number before"), |m, _| m.detected_after()),
    entry(("detect.false", "", "times that it said so without one"), |m, _| m.meter.false_alarms as f64),

    entry(("change.count", "changes", "of the routes that were made"), |m, _| m.meter.changes as f64),
    entry(("change.failed", "changes", "that could not be made"), |m, _| m.meter.failed as f64),
    entry(("change.flaps", "changes", "of them, back to a play that was left less than run.flap before"), |m, _| m.meter.flaps as f64),
    entry(("change.hour_max", "changes", "the most within an hour"), |m, _| m.meter.hour_max as f64),
    entry(("change.first", "s", "from the beginning of the attack, or of the run without one, to the first change; no number without"), |m, _| m.first_change()),
    entry(("change.moving", "classes", "that have not come to their new site yet"), |m, _| m.moving.iter().filter(|moving| **moving).count() as f64),

    entry(("play.number", "", "the number of the play that is announced, 0 for the first of the playbook"), |m, _| m.play as f64),
    entry(("play.baseline", "0/1", "1 if that is the first"), |m, _| flag(m.play == 0)),

    entry(("next_line.called", "", "times that the responder called the next line of defence"), |m, _| m.meter.next_lines as f64),
    entry(("next_line.on", "0/1", "1 if it is called now"), |m, _| flag(m.meter.next_line_since.is_some())),
    entry(("next_line.time", "s", "in which it was"), Anycast::next_line_s),

    entry(("estimate.count", "", "estimates of a site's offered load, one for each interval that lies in the attack"), |m, _| m.meter.estimates.count as f64),
    entry(("estimate.held", "", "of them, whose interval holds the truth"), |m, _| m.meter.estimates.held as f64),
    entry(("estimate.coverage", "", "estimate.held / estimate.count; no number without any"), |m, _| ratio(m.meter.estimates.held as f64, m.meter.estimates.count as f64)),
    entry(("estimate.known", "", "of estimate.count, those that are a number, where the truth is above 0"), |m, _| m.meter.estimates.finite as f64),
    entry(("estimate.error", "", "mean of |estimate - truth| / truth over estimate.known"), |m, _| m.estimates(|e| e.error)),
    entry(("estimate.bias", "", "mean of (estimate - truth) / truth over estimate.known"), |m, _| m.estimates(|e| e.bias)),
    entry(("report.lost", "reports", "of sites that were lost"), |m, _| m.meter.lost as f64),

    entry(("site1.offered", "queries/s", "sent to the first site of the playbook now"), |m, _| m.offered(0)),
    entry(("site2.offered", "queries/s", "the same of the second"), |m, _| m.offered(1)),
    entry(("site3.offered", "queries/s", "the same of the third"), |m, _| m.offered(2)),
    entry(("offered", "queries/s", "sent to all sites now"), |m, _| m.flow.sites.iter().map(|site| site.offered).sum()),
    entry(("offered.max", "", "the largest ratio of what a site is sent to its capacity now"), |m, _| m.fullest()),
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

static SAMPLES: [Observable; 2] = [
    Observable {
        name: "overload.site_s",
        unit: "s",
        meaning: "in which each site was sent more than its capacity, a number for each site",
    },
    Observable {
        name: "estimate.ratio",
        unit: "",
        meaning: "estimate / truth, for each of estimate.known",
    },
];

fn ratio(of: f64, by: f64) -> f64 {
    if by > 0.0 { of / by } else { f64::NAN }
}

fn share(served: Served) -> f64 {
    ratio(served.answered, served.offered)
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

impl Anycast {
    fn over_site(&self, site: usize) -> f64 {
        self.meter.over_site_s.get(site).copied().unwrap_or(0.0)
    }

    fn offered(&self, site: usize) -> f64 {
        self.flow.sites.get(site).map_or(0.0, |flow| flow.offered)
    }

    fn fullest(&self) -> f64 {
        let all = self.flow.sites.iter().zip(&self.setup.sites);
        all.map(|(flow, site)| flow.offered / site.carries())
            .fold(0.0, f64::max)
    }

    fn attack_began(&self) -> Time {
        let attack = self.setup.attack.as_ref();
        attack.map_or(Time::ZERO, super::Attack::begin)
    }

    fn mitigated_after(&self) -> Option<f64> {
        let Meter {
            mitigated: true,
            calm_since: Some(since),
            ..
        } = self.meter
        else {
            return None;
        };
        Some((since - self.attack_began()).as_secs_f64())
    }

    fn waited(&self, now: Time) -> f64 {
        let Some(attack) = &self.setup.attack else {
            return 0.0;
        };
        let end = now.min(attack.over()).max(attack.begin());
        let gone_on = (end - attack.begin()).as_secs_f64();
        self.mitigated_after().unwrap_or(gone_on)
    }

    fn detected_after(&self) -> f64 {
        let detected = self.meter.detected;
        detected.map_or(f64::NAN, |at| (at - self.attack_began()).as_secs_f64())
    }

    fn first_change(&self) -> f64 {
        let first = self.meter.first_change;
        first.map_or(f64::NAN, |at| {
            at.as_secs_f64() - self.attack_began().as_secs_f64()
        })
    }

    fn next_line_s(&self, now: Time) -> f64 {
        let open = self.meter.next_line_since.map(|since| now - since);
        self.meter.next_line_s + open.unwrap_or_default().as_secs_f64()
    }

    fn estimates(&self, sum: fn(&super::meter::Estimates) -> f64) -> f64 {
        let estimates = &self.meter.estimates;
        sum(estimates) / estimates.finite as f64
    }
}

impl Observed for Anycast {
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
        match index {
            0 => &self.meter.over_site_s,
            1 => &self.meter.ratios,
            _ => &[],
        }
    }
}
