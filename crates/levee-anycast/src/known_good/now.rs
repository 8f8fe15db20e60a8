//! What arrives while an attack is judged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;

use levee_policy::reroute::{SITES_MAX, SiteId, Sites};

use super::history::HistoryError;
use super::rows::{Row, read_rows};

/// As a source: all that arrives at the site, instead of the sum of its rows.
pub(super) const TOTAL: &str = "*";
/// The most intervals that are judged together: a day of 5 minutes. More is a history.
const SLOTS_MAX: usize = 288;

/// Counts of the intervals that are to be judged together.
#[derive(Clone, Debug)]
pub struct Now {
    /// The length of an interval.
    pub interval_s: i64,
    /// The sites: those that were named first, and then what the file has besides.
    pub sites: Sites,
    /// By site: begins of the intervals in which it reported.
    pub reported: Vec<Vec<i64>>,
    /// By site: all events.
    pub totals: Vec<f64>,
    /// By source, of those that were asked for: events by site.
    pub counts: Vec<BTreeMap<u8, f64>>,
    /// Rows whose time, source and site were there before, of those sources; the larger count holds.
    pub repeated: u64,
    /// The file ends in the middle of a line.
    pub cut_off: bool,
}

impl Now {
    /// Reads it, in bounded memory: of all sources but `sources` only the sum is kept.
    ///
    /// # Errors
    ///
    /// As a history, and if it has more than a day of 5-minute intervals, which is given as
    /// [`HistoryError::Long`].
    pub fn read(
        input: impl Read,
        interval_s: i64,
        sites: &Sites,
        sources: &[&str],
    ) -> Result<Self, HistoryError> {
        let mut reading = Reading {
            interval_s: interval_s.max(1),
            names: sites.names().map(ToOwned::to_owned).collect(),
            sites: sites.names().map(|_| Site::default()).collect(),
            numbers: sources
                .iter()
                .zip(0..)
                .map(|(name, i)| (*name, i))
                .collect(),
            counts: vec![BTreeMap::new(); sources.len()],
            repeated: 0,
            slots: BTreeSet::new(),
            fault: None,
        };
        let end = read_rows(input, |row| {
            reading.add(&row);
            Ok(())
        })?;
        if let Some(fault) = reading.fault {
            return Err(fault);
        }
        if end.rows == 0 {
            return Err(HistoryError::Empty);
        }
        Ok(Self {
            interval_s: reading.interval_s,
            sites: Sites::new(reading.names).map_err(|_| HistoryError::Sites)?,
            totals: reading
                .sites
                .iter()
                .map(|site| site.whole.unwrap_or(site.sum))
                .collect(),
            reported: reading
                .sites
                .into_iter()
                .map(|site| site.slots.into_iter().collect())
                .collect(),
            counts: reading
                .counts
                .into_iter()
                .map(|by_site| {
                    by_site
                        .into_iter()
                        .map(|(site, (count, ..))| (site, count))
                        .collect()
                })
                .collect(),
            repeated: reading.repeated,
            cut_off: end.cut_off,
        })
    }

    /// When the first interval begins.
    #[must_use]
    pub fn from_s(&self) -> i64 {
        self.reported.iter().flatten().copied().min().unwrap_or(0)
    }

    /// When the last interval ends.
    #[must_use]
    pub fn to_s(&self) -> i64 {
        self.reported.iter().flatten().copied().max().unwrap_or(0) + self.interval_s
    }

    /// Events per second that arrive at a site; `None` if it does not report.
    #[must_use]
    pub fn load(&self, site: SiteId) -> Option<f64> {
        let slots = self.reported.get(site.index())?.len();
        (slots > 0).then(|| self.totals[site.index()] / (slots as f64 * self.interval_s as f64))
    }
}

#[derive(Default)]
struct Site {
    slots: BTreeSet<i64>,
    sum: f64,
    whole: Option<f64>,
    last_whole: Option<(i64, u32)>,
}

struct Reading<'s> {
    interval_s: i64,
    names: Vec<String>,
    sites: Vec<Site>,
    numbers: HashMap<&'s str, usize>,
    /// By source and site: the sum, the last time, and what that counted.
    counts: Vec<BTreeMap<u8, (f64, i64, u32)>>,
    repeated: u64,
    slots: BTreeSet<i64>,
    fault: Option<HistoryError>,
}

impl Reading<'_> {
    fn add(&mut self, row: &Row<'_>) {
        if self.fault.is_some() {
            return;
        }
        let number = match self.names.iter().position(|name| name == row.site) {
            Some(number) => number,
            None if self.names.len() == SITES_MAX => {
                self.fault = Some(HistoryError::Sites);
                return;
            }
            None => {
                self.names.push(row.site.to_owned());
                self.sites.push(Site::default());
                self.names.len() - 1
            }
        };
        let slot = row.time_s.div_euclid(self.interval_s) * self.interval_s;
        self.slots.insert(slot);
        if self.slots.len() > SLOTS_MAX {
            self.fault = Some(HistoryError::Long { most: SLOTS_MAX });
            return;
        }
        let site = &mut self.sites[number];
        site.slots.insert(slot);
        let count = f64::from(row.count);
        if row.source == TOTAL {
            let more = match site.last_whole {
                Some((time_s, before)) if time_s == row.time_s => {
                    self.repeated += 1;
                    f64::from(row.count.saturating_sub(before))
                }
                _ => count,
            };
            site.last_whole = Some((row.time_s, row.count));
            *site.whole.get_or_insert(0.0) += more;
            return;
        }
        let Some(&source) = self.numbers.get(row.source) else {
            site.sum += count;
            return;
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "there are at most SITES_MAX"
        )]
        let held = self.counts[source]
            .entry(number as u8)
            .or_insert((0.0, i64::MIN, 0));
        let more = if held.1 == row.time_s {
            self.repeated += 1;
            f64::from(row.count.saturating_sub(held.2))
        } else {
            count
        };
        *held = (
            held.0 + more,
            row.time_s,
            row.count.max(if held.1 == row.time_s { held.2 } else { 0 }),
        );
        site.sum += more;
    }
}
