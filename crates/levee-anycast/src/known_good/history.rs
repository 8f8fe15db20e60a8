//! What each source sent to each site, over weeks.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use levee_policy::reroute::{SITES_MAX, Sites};

pub use super::rows::LineError;
use super::rows::{End, Row, RowsError, read_rows};
use super::sketch::Frequent;

/// How many of the heaviest sources are looked at in detail: several times what is taken, since many are not steady.
pub const CANDIDATES_MAX: usize = 512;
/// The most intervals: 8 weeks of 5 minutes. Older ones are left out: traffic of the last season says little of this one.
pub const SLOTS_MAX: usize = 16_384;
/// The most sites that a candidate may be seen at. One that is seen at more is an anycast network itself, or faked everywhere.
pub const SITES_OF_SOURCE_MAX: usize = 8;
/// Sources that are counted exactly while candidates are looked for: with twice that, some 10 MB.
const SKETCH_SOURCES: usize = 1 << 16;
/// Intervals that are recognised, in seconds, longest first.
const INTERVALS_S: [i64; 5] = [3_600, 1_800, 900, 600, 300];
/// Two days of rows with nothing between them for longer than this do not belong to one history: a clock was wrong.
const GAP_DAYS_MAX: i64 = 14;
const DAY_S: i64 = 86_400;

/// What can be read twice.
pub trait Reopen {
    /// Opens it from its beginning.
    ///
    /// # Errors
    ///
    /// As the file system says.
    fn reopen(&self) -> io::Result<Box<dyn Read + '_>>;
}

impl Reopen for Path {
    fn reopen(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(File::open(self)?))
    }
}

impl Reopen for [u8] {
    fn reopen(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(self))
    }
}

/// Why a history cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The file cannot be opened.
    #[error("cannot be opened: check the path")]
    Open(#[source] io::Error),
    /// The file cannot be read.
    #[error("cannot be read after line {line}: is it whole, and packed by gzip if at all?")]
    Read {
        /// The last line that was read.
        line: u64,
        /// The cause.
        source: io::Error,
    },
    /// A line is bad.
    #[error("line {line}: {cause}")]
    Line {
        /// From 1.
        line: u64,
        /// What is wrong.
        cause: LineError,
    },
    /// No rows.
    #[error("no rows: expected lines of time,source,site,count")]
    Empty,
    /// No rows before the end that was asked for.
    #[error(
        "no rows before {until_s} (seconds of Unix): all are from {first_s} on; the history must end before what is judged"
    )]
    Late {
        /// The end that was asked for.
        until_s: i64,
        /// The first row.
        first_s: i64,
    },
    /// Too much for one moment.
    #[error(
        "more than {most} intervals: give only those that are to be judged together, such as the last one or two"
    )]
    Long {
        /// The most.
        most: usize,
    },
    /// Too many sites.
    #[error("more than {SITES_MAX} sites: is the third column the site?")]
    Sites,
}

impl From<RowsError> for HistoryError {
    fn from(error: RowsError) -> Self {
        match error {
            RowsError::Read(line, source) => Self::Read { line, source },
            RowsError::Line(line, cause) => Self::Line { line, cause },
        }
    }
}

/// How a history is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct HistoryOptions {
    /// The length of an interval; `None`: the longest of 60, 30, 15, 10 and 5 minutes on which all times lie, else 5 minutes.
    pub interval_s: Option<u32>,
    /// Rows from here on are left out: what is judged must not be its own forecast. `None`: none.
    pub until_s: Option<i64>,
}

/// What was noticed while reading; all 0 for a clean file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Rows in the file.
    pub rows: u64,
    /// Rows whose time, source and site were there before; the larger count holds.
    pub repeated: u64,
    /// Rows whose time is before the last of the same source and site: a clock was set back, or the file is not sorted.
    pub back_in_time: u64,
    /// Rows that are too old, or apart from the others by two weeks and more: a clock was wrong.
    pub far_off: u64,
    /// Rows from the end that was asked for on.
    pub after_end: u64,
    /// Events by which a source's sum may be too low while candidates are looked for; 0: exact.
    pub sketch_error: u64,
    /// Candidates left out because they were seen at too many sites.
    pub at_many_sites: u64,
    /// The file ends in the middle of a line or of its packed stream.
    pub cut_off: bool,
}

/// A candidate: one of the sources that sent most.
#[derive(Clone, Debug)]
pub struct SourceHistory {
    /// As the file names it: an address, a prefix, a name.
    pub name: String,
    /// Its AS, if the file says.
    pub asn: Option<u32>,
    /// Its country, if the file says.
    pub country: Option<[u8; 2]>,
    /// Counts by interval, by number of site; a site at which it never was has none.
    pub counts: BTreeMap<u8, Vec<u32>>,
    /// The sites that have a tenth of its events, or more.
    pub main: Vec<u8>,
}

impl SourceHistory {
    fn find_main(&mut self) {
        let sum = |counts: &Vec<u32>| counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        let whole: u64 = self.counts.values().map(sum).sum();
        self.main = self
            .counts
            .iter()
            .filter(|(_, counts)| sum(counts) * 10 >= whole)
            .map(|(site, _)| *site)
            .collect();
    }
}

/// What each of the heaviest sources sent to each site, by interval.
#[derive(Clone, Debug)]
pub struct History {
    /// The length of an interval.
    pub interval_s: i64,
    /// Begin of the first.
    pub start_s: i64,
    /// How many there are.
    pub slots: usize,
    /// The sites, by name.
    pub sites: Sites,
    /// By site, by interval: whether the site reported anything at all. Without that nothing is known of the interval.
    pub seen: Vec<Vec<bool>>,
    /// The candidates, heaviest first.
    pub sources: Vec<SourceHistory>,
    /// What was noticed.
    pub notes: Notes,
}

impl History {
    /// Reads it, in two passes: the heaviest sources, then their counts.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, has a bad line, or has no rows before its end.
    pub fn read<I: Reopen + ?Sized>(
        input: &I,
        options: HistoryOptions,
    ) -> Result<Self, HistoryError> {
        let survey = Survey::of(input, options)?;
        let mut history = survey.empty(options)?;
        let mut filling = Filling {
            names: history
                .sources
                .iter()
                .enumerate()
                .map(|(i, source)| (source.name.clone().into_boxed_str(), i))
                .collect(),
            site_numbers: history
                .sites
                .names()
                .zip(0..)
                .map(|(name, number)| (name.into(), number))
                .collect(),
            last: HashMap::new(),
            many: vec![false; history.sources.len()],
            until_s: options.until_s.unwrap_or(i64::MAX),
        };
        let reader = input.reopen().map_err(HistoryError::Open)?;
        read_rows(reader, |row| {
            filling.add(&mut history, &row);
            Ok(())
        })?;
        let mut many = filling.many.iter();
        history
            .sources
            .retain(|source| !many.next().is_some_and(|many| *many) && !source.counts.is_empty());
        history
            .sources
            .iter_mut()
            .for_each(SourceHistory::find_main);
        history.notes.at_many_sites = filling.many.iter().filter(|many| **many).count() as u64;
        Ok(history)
    }

    /// The end of the last interval.
    #[must_use]
    pub fn end_s(&self) -> i64 {
        self.start_s + self.slots as i64 * self.interval_s
    }

    /// The interval of a time.
    fn slot(&self, time_s: i64) -> Option<usize> {
        let slot = usize::try_from((time_s - self.start_s).div_euclid(self.interval_s)).ok()?;
        (slot < self.slots).then_some(slot)
    }

    /// What a source sent in an interval, to all sites; `None` if one of its main sites did not report.
    pub(super) fn sent(&self, source: &SourceHistory, slot: usize) -> Option<f64> {
        let known = source
            .main
            .iter()
            .all(|site| self.seen[*site as usize][slot]);
        known.then(|| {
            source
                .counts
                .values()
                .map(|counts| f64::from(counts[slot]))
                .sum()
        })
    }
}

/// The first pass.
struct Survey {
    heaviest: Frequent,
    sites: BTreeMap<Box<str>, ()>,
    /// By day: rows, first and last time.
    days: BTreeMap<i64, (u64, i64, i64)>,
    /// How many rows lie on each of [`INTERVALS_S`].
    aligned: [u64; INTERVALS_S.len()],
    rows: u64,
    first_s: i64,
    end: End,
}

impl Survey {
    fn of<I: Reopen + ?Sized>(input: &I, options: HistoryOptions) -> Result<Self, HistoryError> {
        let mut survey = Self {
            heaviest: Frequent::new(SKETCH_SOURCES),
            sites: BTreeMap::new(),
            days: BTreeMap::new(),
            aligned: [0; INTERVALS_S.len()],
            rows: 0,
            first_s: i64::MAX,
            end: End::default(),
        };
        let until_s = options.until_s.unwrap_or(i64::MAX);
        let mut too_many = false;
        let reader = input.reopen().map_err(HistoryError::Open)?;
        survey.end = read_rows(reader, |row| {
            survey.first_s = survey.first_s.min(row.time_s);
            if row.time_s < until_s {
                too_many |= !survey.add(&row);
            }
            Ok(())
        })?;
        if too_many {
            return Err(HistoryError::Sites);
        }
        Ok(survey)
    }

    /// Whether there is a place for its site.
    fn add(&mut self, row: &Row<'_>) -> bool {
        self.rows += 1;
        for (aligned, interval) in self.aligned.iter_mut().zip(INTERVALS_S) {
            *aligned += u64::from(row.time_s % interval == 0);
        }
        let day = self
            .days
            .entry(row.time_s.div_euclid(DAY_S))
            .or_insert((0, row.time_s, row.time_s));
        *day = (day.0 + 1, day.1.min(row.time_s), day.2.max(row.time_s));
        self.heaviest.add(row.source, u64::from(row.count));
        if !self.sites.contains_key(row.site) {
            if self.sites.len() == SITES_MAX {
                return false;
            }
            self.sites.insert(row.site.into(), ());
        }
        true
    }

    /// The days that belong together and have the most rows: first and last time.
    fn span(&self) -> Option<(i64, i64)> {
        let mut best: Option<(u64, i64, i64)> = None;
        let mut run: Option<(u64, i64, i64)> = None;
        let mut last = i64::MIN;
        for (day, (rows, first, end)) in &self.days {
            run = match run {
                Some((sum, begin, _)) if day - last <= GAP_DAYS_MAX => {
                    Some((sum + rows, begin, *end))
                }
                _ => Some((*rows, *first, *end)),
            };
            last = *day;
            if run.map(|run| run.0) > best.map(|best| best.0) {
                best = run;
            }
        }
        best.map(|(_, first, last)| (first, last))
    }

    fn interval(&self, options: HistoryOptions) -> i64 {
        // Nearly all: a clock may have stepped.
        let guessed = INTERVALS_S
            .into_iter()
            .zip(self.aligned)
            .find(|(_, aligned)| aligned * 100 >= self.rows * 99)
            .map_or(INTERVALS_S[INTERVALS_S.len() - 1], |(interval, _)| interval);
        options
            .interval_s
            .map_or(guessed, |interval| i64::from(interval.max(1)))
    }

    /// The history with all counts 0.
    fn empty(self, options: HistoryOptions) -> Result<History, HistoryError> {
        let Some((first_s, last_s)) = self.span() else {
            return Err(match options.until_s {
                Some(until_s) if self.end.rows > 0 => HistoryError::Late {
                    until_s,
                    first_s: self.first_s,
                },
                _ => HistoryError::Empty,
            });
        };
        let interval_s = self.interval(options);
        let last_slot = last_s.div_euclid(interval_s);
        let first_slot = first_s
            .div_euclid(interval_s)
            .max(last_slot + 1 - SLOTS_MAX as i64);
        let slots = (last_slot - first_slot + 1) as usize;
        let sites =
            Sites::new(self.sites.keys().map(|name| &**name)).map_err(|_| HistoryError::Sites)?;
        Ok(History {
            interval_s,
            start_s: first_slot * interval_s,
            slots,
            seen: vec![vec![false; slots]; sites.len()],
            sites,
            sources: self
                .heaviest
                .top(CANDIDATES_MAX)
                .into_iter()
                .map(|(name, _)| SourceHistory {
                    name: name.to_owned(),
                    asn: None,
                    country: None,
                    counts: BTreeMap::new(),
                    main: Vec::new(),
                })
                .collect(),
            notes: Notes {
                rows: self.end.rows,
                after_end: self.end.rows - self.rows,
                sketch_error: self.heaviest.error(),
                cut_off: self.end.cut_off,
                ..Notes::default()
            },
        })
    }
}

/// The second pass.
struct Filling {
    names: HashMap<Box<str>, usize>,
    site_numbers: BTreeMap<Box<str>, u8>,
    /// By source and site: the last time, and what it counted.
    last: HashMap<(usize, u8), (i64, u32)>,
    many: Vec<bool>,
    until_s: i64,
}

impl Filling {
    fn add(&mut self, history: &mut History, row: &Row<'_>) {
        if row.time_s >= self.until_s {
            return;
        }
        // The file may have grown since the first pass.
        let Some(&site) = self.site_numbers.get(row.site) else {
            return;
        };
        let Some(slot) = history.slot(row.time_s) else {
            history.notes.far_off += 1;
            return;
        };
        history.seen[site as usize][slot] = true;
        let Some(&number) = self.names.get(row.source) else {
            return;
        };
        let source = &mut history.sources[number];
        source.asn = source.asn.or(row.asn);
        source.country = source.country.or(row.country);
        if !source.counts.contains_key(&site) {
            if row.count == 0 {
                return;
            }
            if source.counts.len() == SITES_OF_SOURCE_MAX {
                self.many[number] = true;
                return;
            }
            source.counts.insert(site, vec![0; history.slots]);
        }
        let Some(counts) = source.counts.get_mut(&site) else {
            return;
        };
        let count = &mut counts[slot];
        let last = self.last.entry((number, site)).or_insert((i64::MIN, 0));
        if row.time_s > last.0 {
            *count = count.saturating_add(row.count);
            *last = (row.time_s, row.count);
        } else if row.time_s == last.0 {
            history.notes.repeated += 1;
            // The larger of the two, in place of the one that is in the sum.
            let more = row.count.saturating_sub(last.1);
            *count = count.saturating_add(more);
            last.1 = last.1.max(row.count);
        } else {
            history.notes.back_in_time += 1;
            // The interval was counted before, or is a hole that this fills.
            *count = (*count).max(row.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: i64 = 1_764_547_200;

    fn read(text: &str) -> History {
        History::read(text.as_bytes(), HistoryOptions::default()).unwrap()
    }

    /// Rows of `(interval of ten minutes, source, site, count)`.
    fn rows(rows: &[(i64, &str, &str, u32)]) -> String {
        rows.iter()
            .map(|(slot, source, site, count)| {
                format!("{},{source},{site},{count}\n", T + slot * 600)
            })
            .collect()
    }

    fn counts(history: &History, source: &str, site: &str) -> Vec<u32> {
        let source = history
            .sources
            .iter()
            .find(|held| held.name == source)
            .unwrap();
        source.counts[&history.sites.find(site).unwrap().0].clone()
    }

    #[test]
    fn counts_by_interval_and_which_intervals_are_missing() {
        let history = read(&rows(&[
            (0, "a", "AMS", 5),
            (0, "b", "BOS", 1),
            (1, "a", "AMS", 6),
            (3, "b", "BOS", 2),
            (3, "a", "BOS", 7),
        ]));
        assert_eq!(
            (history.interval_s, history.start_s, history.slots),
            (600, T, 4)
        );
        assert_eq!(history.end_s(), T + 2_400);
        assert_eq!(counts(&history, "a", "AMS"), [5, 6, 0, 0]);
        assert_eq!(counts(&history, "a", "BOS"), [0, 0, 0, 7]);
        assert_eq!(
            history.seen,
            [
                vec![true, true, false, false],
                vec![true, false, false, true]
            ]
        );
        assert_eq!(history.sources[0].name, "a");
        // A main site that did not report makes the sum unknown, not less.
        let a = &history.sources[0];
        assert_eq!(history.sent(a, 0), Some(5.0));
        assert_eq!(history.sent(a, 1), None);
        assert_eq!(history.sent(a, 2), None);
        assert_eq!(
            history.notes,
            Notes {
                rows: 5,
                ..Notes::default()
            }
        );
    }

    #[test]
    fn the_interval_is_found_out() {
        let check = |step: i64, offset: i64, expect: i64| {
            let text: String = (0..400)
                .map(|i| format!("{},a,AMS,1\n", T + offset + i * step))
                .collect();
            assert_eq!(read(&text).interval_s, expect, "{step} {offset}");
        };
        check(300, 0, 300);
        check(600, 0, 600);
        check(900, 0, 900);
        check(3_600, 0, 3_600);
        check(60, 0, 300);
        check(600, 7, 300);
        // Finer rows are summed.
        let text: String = (0..10)
            .map(|i| format!("{},a,AMS,{i}\n", T + i * 60))
            .collect();
        assert_eq!(counts(&read(&text), "a", "AMS"), [10, 35]);
    }

    #[test]
    fn clock_steps_and_repeats_are_told_and_do_no_harm() {
        // An interval written twice.
        let history = read(&rows(&[
            (0, "a", "AMS", 5),
            (1, "a", "AMS", 6),
            (1, "a", "AMS", 6),
            (1, "a", "AMS", 7),
            (2, "a", "AMS", 8),
        ]));
        assert_eq!(counts(&history, "a", "AMS"), [5, 7, 8]);
        assert_eq!(history.notes.repeated, 2);
        // A clock set back, and a hole that is filled late.
        let history = read(&rows(&[
            (0, "a", "AMS", 5),
            (2, "a", "AMS", 8),
            (1, "a", "AMS", 6),
            (2, "a", "AMS", 3),
            (3, "a", "AMS", 9),
        ]));
        assert_eq!(counts(&history, "a", "AMS"), [5, 6, 8, 9]);
        assert_eq!((history.notes.back_in_time, history.notes.repeated), (1, 1));
        // A clock that was years off.
        let far = rows(&[
            (0, "a", "AMS", 5),
            (1, "a", "AMS", 6),
            (60_000, "a", "AMS", 1),
        ]);
        let history = read(&far);
        assert_eq!((history.slots, history.notes.far_off), (2, 1));
        // Rows from the moment that is judged on.
        let options = HistoryOptions {
            interval_s: None,
            until_s: Some(T + 600),
        };
        let history = History::read(far.as_bytes(), options).unwrap();
        assert_eq!((history.slots, history.notes.after_end), (1, 2));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let check = |text: &str, until_s: Option<i64>, expect: &str| {
            let options = HistoryOptions {
                interval_s: None,
                until_s,
            };
            let error = History::read(text.as_bytes(), options).unwrap_err();
            assert!(error.to_string().contains(expect), "{error}");
        };
        check(
            "",
            None,
            "no rows: expected lines of time,source,site,count",
        );
        check("time,source,site,count\n", None, "no rows");
        check(
            &rows(&[(0, "a", "AMS", 5)]),
            Some(T),
            "no rows before 1764547200",
        );
        check(
            "1764547200,a,AMS,5\n1764547200,a,AMS,x\n",
            None,
            "line 2: count \"x\"",
        );
        let many: String = (0..=SITES_MAX).map(|i| format!("{T},a,S{i},1\n")).collect();
        check(&many, None, "more than 250 sites");
        let error = History::read(Path::new("/nowhere"), HistoryOptions::default()).unwrap_err();
        assert!(error.to_string().contains("check the path"));
    }

    #[test]
    fn memory_is_bounded_by_the_limits() {
        // More intervals than are kept: the oldest go.
        let text: String = (0..SLOTS_MAX as i64 + 10)
            .map(|i| format!("{},a,AMS,1\n", T + i * 300))
            .collect();
        let history = read(&text);
        assert_eq!((history.slots, history.notes.far_off), (SLOTS_MAX, 10));
        // A source everywhere, and more candidates than are looked at.
        let mut text = String::new();
        for site in 0..20 {
            text += &format!("{T},everywhere,S{site},1000\n");
        }
        for source in 0..2 * CANDIDATES_MAX {
            text += &format!("{T},s{source},S0,{}\n", source + 1);
        }
        let history = read(&text);
        assert_eq!(history.notes.at_many_sites, 1);
        assert_eq!(history.sources.len(), CANDIDATES_MAX - 1);
        assert_eq!(
            history.sources[0].name,
            format!("s{}", 2 * CANDIDATES_MAX - 1)
        );
        let huge = rows(&[(0, "a", "AMS", u32::MAX), (0, "b", "AMS", 1)])
            + &format!("{},a,AMS,9\n", T + 1);
        assert_eq!(counts(&read(&huge), "a", "AMS"), [u32::MAX]);
    }
}
