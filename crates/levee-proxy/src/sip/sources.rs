//! How fast one source may send: a token bucket for each, in a table of fixed size.
//!
//! A flood of invented sources must neither fill memory nor push the real ones out at will: the table is cut in sets of
//! four by a keyed hash, and a newcomer takes the place of the one in its set that was quiet longest.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

const WAYS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// 0 when free.
    tag: u64,
    last_ns: u64,
    tokens: f32,
}

/// Token buckets of sources.
#[derive(Debug)]
pub(crate) struct Sources {
    sets: Vec<[Bucket; WAYS]>,
    per_second: u32,
    hasher: RandomState,
}

impl Sources {
    /// `per_second` requests for each source, with a burst of as many; 0 for no limit.
    pub(crate) fn new(per_second: u32, sources_max: usize) -> Self {
        let sets = if per_second == 0 {
            0
        } else {
            sources_max.div_ceil(WAYS).max(1)
        };
        Self {
            sets: vec![[Bucket::default(); WAYS]; sets],
            per_second,
            hasher: RandomState::new(),
        }
    }

    /// Takes a token of `source`; `false` if there is none.
    pub(crate) fn take(&mut self, now_ns: u64, source: IpAddr) -> bool {
        if self.sets.is_empty() {
            return true;
        }
        let hash = self.hasher.hash_one(source);
        let burst = self.per_second as f32;
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(hash % count) as usize];
        let tag = (hash / count).max(1);
        let at = set.iter().position(|b| b.tag == tag).unwrap_or_else(|| {
            let oldest = (0..WAYS).min_by_key(|&i| {
                if set[i].tag == 0 {
                    0
                } else {
                    set[i].last_ns + 1
                }
            });
            let at = oldest.unwrap_or(0);
            set[at] = Bucket {
                tag,
                last_ns: now_ns,
                tokens: burst,
            };
            at
        });
        let bucket = &mut set[at];
        let passed = now_ns.saturating_sub(bucket.last_ns) as f32 / 1e9;
        bucket.tokens = (bucket.tokens + passed * burst).min(burst);
        bucket.last_ns = now_ns;
        let ok = bucket.tokens >= 1.0;
        if ok {
            bucket.tokens -= 1.0;
        }
        ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gets_its_rate_and_not_more() {
        let mut s = Sources::new(10, 100);
        let ip = "192.0.2.1".parse().unwrap();
        let mut passed = 0;
        // 1,000 requests a second for 10 seconds: the burst, and then the rate.
        for ms in 0..10_000u64 {
            passed += u32::from(s.take(ms * 1_000_000, ip));
        }
        assert!((105..=111).contains(&passed), "{passed}");
        assert!(s.take(10_000_000_000, "192.0.2.2".parse().unwrap()));
    }

    #[test]
    fn a_flood_of_sources_takes_no_more_room() {
        let mut s = Sources::new(1, 64);
        for i in 0..100_000u32 {
            assert!(s.take(u64::from(i), IpAddr::V4(i.into())));
        }
        assert_eq!(s.sets.len() * WAYS, 64);
    }

    #[test]
    fn no_limit_passes_all() {
        let mut s = Sources::new(0, 64);
        assert!((0..1000).all(|_| s.take(0, "192.0.2.1".parse().unwrap())));
    }
}
