//! Prefixes with origins, and whose each block is.

use ipnet::IpNet;
use levee_policy::reroute::Asn;

use super::{Blocks, Family, Run, read::PREFIXES_MAX};

/// That a source names this origin of this prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// The number of its first block.
    first: u64,
    length: u8,
    /// Its place among the origins of the first source that names it.
    place: u32,
    asn: Asn,
    sources: u32,
}

/// Prefixes while they are read.
#[derive(Debug)]
pub(super) struct Table {
    family: Family,
    entries: Vec<Entry>,
    pub(super) prefixes: u64,
    pub(super) longer: u64,
    pub(super) shorter: u64,
    pub(super) other_family: u64,
    pub(super) without_origin: u64,
}

/// More than [`PREFIXES_MAX`].
#[derive(Debug)]
pub(super) struct Full;

impl Table {
    pub(super) fn new(family: Family) -> Self {
        Self {
            family,
            entries: Vec::new(),
            prefixes: 0,
            longer: 0,
            shorter: 0,
            other_family: 0,
            without_origin: 0,
        }
    }

    /// A source's origins of a prefix, the likeliest first.
    pub(super) fn add(
        &mut self,
        prefix: IpNet,
        origins: impl IntoIterator<Item = Asn>,
    ) -> Result<(), Full> {
        self.prefixes += 1;
        let (bits, family) = match prefix.network() {
            std::net::IpAddr::V4(address) => (u64::from(u32::from(address) >> 8), Family::Ipv4),
            std::net::IpAddr::V6(address) => ((u128::from(address) >> 80) as u64, Family::Ipv6),
        };
        let length = prefix.prefix_len();
        if family != self.family {
            self.other_family += 1;
            return Ok(());
        } else if length > family.block_length() {
            self.longer += 1;
            return Ok(());
        } else if length < family.length_min() {
            self.shorter += 1;
            return Ok(());
        }
        let mut any = false;
        for (place, asn) in (0..).zip(origins.into_iter().filter(|asn| asn.0 != 0)) {
            any = true;
            self.push(Entry {
                first: bits,
                length,
                place,
                asn,
                sources: 1,
            })?;
        }
        self.without_origin += u64::from(!any);
        Ok(())
    }

    /// Sources of a table follow each other, and most agree: those take no room.
    fn push(&mut self, entry: Entry) -> Result<(), Full> {
        let same = |last: &Entry| {
            (last.first, last.length, last.asn) == (entry.first, entry.length, entry.asn)
        };
        if let Some(last) = self.entries.last_mut()
            && same(last)
        {
            last.sources = last.sources.saturating_add(1);
            return Ok(());
        }
        if self.entries.len() == PREFIXES_MAX {
            return Err(Full);
        }
        self.entries.push(entry);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whose each block is, and how many prefixes have several origins.
    pub(super) fn finish(mut self) -> (Blocks, u64) {
        self.entries
            .sort_unstable_by_key(|e| (e.first, e.length, e.asn, e.place));
        self.entries.dedup_by(|next, kept| {
            let same = (next.first, next.length, next.asn) == (kept.first, kept.length, kept.asn);
            if same {
                kept.sources = kept.sources.saturating_add(next.sources);
            }
            same
        });
        // Of each prefix the origin that most sources name, then the one that stands first, then the lowest.
        self.entries
            .sort_unstable_by_key(|e| (e.first, e.length, !e.sources, e.place, e.asn));
        let mut several = 0;
        let mut counted = None;
        self.entries.dedup_by(|next, kept| {
            let prefix = (kept.first, kept.length);
            let same = (next.first, next.length) == prefix;
            if same && counted != Some(prefix) {
                several += 1;
                counted = Some(prefix);
            }
            same
        });
        let runs = longest_match(&self.entries, self.family);
        (Blocks::of_runs(self.family, runs), several)
    }
}

/// Runs of blocks by the longest prefix that covers them. `entries` has each prefix once, in order: a prefix comes before those
/// within it.
fn longest_match(entries: &[Entry], family: Family) -> Vec<Run> {
    let mut runs = Runs(Vec::new());
    // Prefixes that hold the current place, each within the one before: at most one of each length.
    let mut open: Vec<(u64, Asn)> = Vec::new();
    let mut at = 0;
    let mut close = |open: &mut Vec<(u64, Asn)>, at: &mut u64, upto: u64| {
        while let Some((end, asn)) = open.last().copied() {
            let stop = end.min(upto);
            runs.push(*at, stop, asn);
            *at = stop.max(*at);
            if end > upto {
                break;
            }
            open.pop();
        }
    };
    for entry in entries {
        close(&mut open, &mut at, entry.first);
        at = entry.first;
        let len = 1 << (family.block_length() - entry.length);
        open.push((entry.first + len, entry.asn));
    }
    close(&mut open, &mut at, u64::MAX);
    runs.0
}

struct Runs(Vec<Run>);

impl Runs {
    fn push(&mut self, first: u64, end: u64, asn: Asn) {
        if first >= end {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.asn == asn && last.first + last.len == first => {
                last.len += end - first;
            }
            _ => self.0.push(Run {
                first,
                len: end - first,
                asn,
            }),
        }
    }
}
