//! What is counted while records are read.

use std::collections::BTreeMap;

use serde::Serialize;

use super::sample::{Rounding, Sample};
use super::stamp::{SECOND, Stamp};

/// Longest call: whatever is longer is a broken record.
pub(super) const CALL_SECONDS_MAX: f64 = 31.0 * 86_400.0;
/// Lines shown of each cause.
const LINES_MAX: usize = 3;
/// Hours that are followed: 22 years.
const HOURS_MAX: usize = 200_000;
/// An hour.
const HOUR: Stamp = 3_600 * SECOND;

/// Why a row is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It has fewer columns than the first rows.
    TooFewColumns,
    /// Where the duration should be is no number.
    NoDuration,
    /// It ends before it begins, or its duration is negative.
    Negative,
    /// It lasts longer than a month.
    TooLong,
    /// An instant cannot be read.
    BadTime,
    /// It is no JSON object of a call.
    NotJson,
    /// A BYE to which no INVITE was seen.
    ByeWithoutInvite,
    /// An answered INVITE to which no BYE was seen.
    InviteWithoutBye,
}

impl Cause {
    /// For people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::TooFewColumns => "too few columns",
            Self::NoDuration => "no duration where one should be",
            Self::Negative => "ends before it begins",
            Self::TooLong => "longer than 31 days",
            Self::BadTime => "a time that cannot be read",
            Self::NotJson => "no JSON object of a call",
            Self::ByeWithoutInvite => "a BYE without its INVITE",
            Self::InviteWithoutBye => "an answered INVITE without its BYE",
        }
    }
}

/// Rows of no use, of one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadRows {
    /// How many.
    pub count: u64,
    /// Lines of the first of them, from 1.
    pub lines: Vec<u64>,
}

/// A call as a record tells it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Call {
    /// When it began.
    pub(super) start: Option<Stamp>,
    /// From the answer to the end, in seconds; `None` if it was not answered.
    pub(super) talk: Option<f64>,
    /// From its beginning to its end, in seconds.
    pub(super) whole: Option<f64>,
    /// From its beginning to the answer, in seconds, if the record says so.
    pub(super) ring: Option<f64>,
}

/// Everything that is counted.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) sample: Sample,
    pub(super) rows: u64,
    pub(super) unanswered: u64,
    /// Durations written with more digits than the first rows had.
    pub(super) finer: u64,
    pub(super) bad: BTreeMap<Cause, BadRows>,
    pub(super) ring_sum: f64,
    pub(super) rings: u64,
    pub(super) traffic: Traffic,
}

impl Tally {
    pub(super) fn new(grain: f64, rounding: Rounding) -> Self {
        Self {
            sample: Sample::new(grain, rounding),
            rows: 0,
            unanswered: 0,
            finer: 0,
            bad: BTreeMap::new(),
            ring_sum: 0.0,
            rings: 0,
            traffic: Traffic::default(),
        }
    }

    pub(super) fn bad(&mut self, cause: Cause, line: u64) {
        let rows = self.bad.entry(cause).or_default();
        rows.count += 1;
        if rows.lines.len() < LINES_MAX {
            rows.lines.push(line);
        }
    }

    /// Takes in one call.
    pub(super) fn call(&mut self, line: u64, call: Call) {
        let lengths = [call.talk, call.whole].into_iter().flatten();
        for length in lengths {
            if length < 0.0 {
                return self.bad(Cause::Negative, line);
            }
            if length.is_nan() || length > CALL_SECONDS_MAX {
                return self.bad(Cause::TooLong, line);
            }
        }
        match call.talk {
            Some(talk) => {
                let grains = self.grains(talk);
                self.sample.add(grains);
                // Two durations that were each cut differ by less than nothing at times; on average they do not.
                if let Some(ring) = call.ring.filter(|ring| ring.abs() <= CALL_SECONDS_MAX) {
                    self.ring_sum += ring;
                    self.rings += 1;
                }
            }
            None => self.unanswered += 1,
        }
        if let Some(start) = call.start {
            let held = call.whole.or(call.talk).unwrap_or_default();
            self.traffic.call(start, held);
        }
    }

    /// To a whole number of grains, as the writer of the records would have done.
    fn grains(&mut self, seconds: f64) -> u64 {
        /// What is left of a decimal fraction as a float.
        const NOISE: f64 = 1e-6;
        let exact = seconds / self.sample.grain();
        let nearest = libm::round(exact);
        if (exact - nearest).abs() < NOISE {
            return nearest as u64;
        }
        self.finer += 1;
        let rounded = match self.sample.rounding() {
            Rounding::Nearest => nearest,
            Rounding::Down | Rounding::Difference => libm::floor(exact),
            Rounding::Up => libm::ceil(exact),
        };
        rounded as u64
    }
}

/// Calls and occupied places over time.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// By hours since 1970.
    hours: BTreeMap<i64, Hour>,
    first: Option<Stamp>,
    last: Stamp,
    calls: u64,
    held_s: f64,
    /// Calls of hours beyond [`HOURS_MAX`].
    pub(super) not_followed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Hour {
    calls: u64,
    /// Seconds for which places were taken by calls that begin or end in this hour.
    partly_s: f64,
    /// Calls more than in the hour before that hold a place all through this one.
    throughout: i64,
}

/// The hour with the most traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Busy {
    /// When it begins, in microseconds since 1970 by the clock of the records.
    pub start: i64,
    /// Its length in seconds: an hour, or all of shorter records.
    pub seconds: f64,
    /// Calls that began in it, answered or not.
    pub calls: u64,
    /// Places that were taken on average, in Erlang.
    pub erlang: f64,
}

impl Traffic {
    fn call(&mut self, start: Stamp, held_s: f64) {
        let end = start + (held_s * SECOND as f64) as i64;
        self.first = Some(self.first.map_or(start, |first| first.min(start)));
        self.last = self.last.max(end);
        self.calls += 1;
        self.held_s += held_s;
        let (from, to) = (start.div_euclid(HOUR), end.div_euclid(HOUR));
        if self.hours.len() >= HOURS_MAX && !self.hours.contains_key(&from) {
            self.not_followed += 1;
            return;
        }
        let seconds = |from: Stamp, to: Stamp| (to - from) as f64 / SECOND as f64;
        let first = self.hours.entry(from).or_default();
        first.calls += 1;
        if from == to {
            first.partly_s += held_s;
            return;
        }
        first.partly_s += seconds(start, (from + 1) * HOUR);
        self.hours.entry(to).or_default().partly_s += seconds(to * HOUR, end);
        if to > from + 1 {
            self.hours.entry(from + 1).or_default().throughout += 1;
            self.hours.entry(to).or_default().throughout -= 1;
        }
    }

    /// The hour with the most traffic, by the clock; all of records that are shorter than an hour. `None` without instants.
    pub(super) fn busy(&self) -> Option<Busy> {
        let first = self.first?;
        let whole_s = ((self.last - first) as f64 / SECOND as f64).max(1.0);
        if whole_s < 3_600.0 {
            return Some(Busy {
                start: first,
                seconds: whole_s,
                calls: self.calls,
                erlang: self.held_s / whole_s,
            });
        }
        let mut throughout = 0;
        let mut busiest: Option<Busy> = None;
        for (hour, counts) in &self.hours {
            throughout += counts.throughout;
            let erlang = throughout as f64 + counts.partly_s / 3_600.0;
            if busiest.is_none_or(|busy| erlang > busy.erlang) {
                busiest = Some(Busy {
                    start: hour * HOUR,
                    seconds: 3_600.0,
                    calls: counts.calls,
                    erlang,
                });
            }
        }
        busiest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_split_over_the_hours_that_a_call_touches() {
        let mut traffic = Traffic::default();
        // From 00:30 for four hours; ten calls of six minutes from 02:10 on.
        traffic.call(HOUR / 2, 4.0 * 3_600.0);
        for i in 0..10 {
            traffic.call(2 * HOUR + HOUR / 6 + i, 360.0);
        }
        let busy = traffic.busy().unwrap();
        assert_eq!((busy.start, busy.calls), (2 * HOUR, 10));
        assert!((busy.erlang - 2.0).abs() < 1e-9, "{busy:?}");
    }

    #[test]
    fn records_shorter_than_an_hour_are_taken_whole() {
        let mut traffic = Traffic::default();
        for i in 0..10 {
            traffic.call(HOUR - 30 * SECOND + i * 10 * SECOND, 30.0);
        }
        let busy = traffic.busy().unwrap();
        assert_eq!((busy.seconds, busy.calls), (120.0, 10));
        assert!((busy.erlang - 2.5).abs() < 1e-9);
    }

    #[test]
    fn rows_that_cannot_be_are_counted_by_cause() {
        let mut tally = Tally::new(1.0, Rounding::Down);
        for (line, talk) in [
            (1, 5.0),
            (2, -1.0),
            (3, 3e6),
            (4, f64::NAN),
            (5, -1.0),
            (6, -1.0),
            (7, -1.0),
        ] {
            let talk = Some(talk);
            tally.call(
                line,
                Call {
                    talk,
                    ..Call::default()
                },
            );
        }
        assert_eq!(tally.sample.len(), 1);
        assert_eq!(
            tally.bad[&Cause::Negative],
            BadRows {
                count: 4,
                lines: vec![2, 5, 6]
            }
        );
        assert_eq!(tally.bad[&Cause::TooLong].lines, [3, 4]);
    }

    #[test]
    fn a_finer_duration_is_rounded_as_the_others_were() {
        for (rounding, grains) in [
            (Rounding::Down, 7),
            (Rounding::Difference, 7),
            (Rounding::Nearest, 8),
            (Rounding::Up, 8),
        ] {
            let mut tally = Tally::new(0.1, rounding);
            assert_eq!(tally.grains(0.3), 3);
            assert_eq!(tally.finer, 0);
            assert_eq!(tally.grains(0.77), grains);
            assert_eq!(tally.finer, 1);
        }
    }
}
