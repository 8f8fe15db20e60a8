//! Randomness by named streams.

use rand_pcg::Pcg64;

use crate::schedule::mix;

/// The random streams of one run: a stream is a function of seed, run, name and index, and of nothing else.
///
/// So an actor with a stream of its own draws the same numbers whatever the other actors do, on whatever thread or
/// machine, and two runs that differ by a setting differ by its effect only (common random numbers). To make a stream
/// takes some nanoseconds.
///
/// ```
/// use levee_sim::engine::Streams;
/// use rand_core::Rng as _;
///
/// let streams = Streams::new(1, 17);
/// let mut arrivals = streams.stream("arrivals");
/// let mut third = streams.stream_of("caller", 3);
/// assert_ne!(arrivals.next_u64(), third.next_u64());
/// assert_eq!(streams.stream("arrivals"), Streams::new(1, 17).stream("arrivals"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// Those of run `run` of a check with this seed. A check with the next seed begins one run later.
    #[must_use]
    pub fn new(seed: u64, run: u64) -> Self {
        Self {
            seed: seed.wrapping_add(run),
        }
    }

    /// The stream of this name.
    #[must_use]
    pub fn stream(&self, name: &str) -> Pcg64 {
        self.part(name, 0)
    }

    /// The stream of one among many of this name: `stream_of("caller", 17)`.
    #[must_use]
    pub fn stream_of(&self, name: &str, index: u32) -> Pcg64 {
        self.part(name, u64::from(index) + 1)
    }

    /// Two words that differ for each stream give its state and its increment, 128 bits each; 64 would meet twice among
    /// some thousand million streams.
    fn part(&self, name: &str, part: u64) -> Pcg64 {
        // FNV-1a tells the names of a model apart; the finaliser mixes in the seed.
        let name = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let group = mix(self.seed, name >> 1);
        let one = mix(group, part);
        let wide = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        Pcg64::new(
            wide(mix(one, 1), mix(group ^ one.rotate_left(32), 2)),
            wide(one, group),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand_core::Rng as _;

    use super::*;

    fn first(mut stream: Pcg64) -> u64 {
        stream.next_u64()
    }

    #[test]
    fn streams_are_the_same_on_every_machine_and_in_every_version() {
        // Another value would change the results of every seed that was published.
        for (name, index, expect) in PINNED {
            let streams = Streams::new(1, 2);
            let stream = match index {
                None => streams.stream(name),
                Some(index) => streams.stream_of(name, index),
            };
            assert_eq!(first(stream), expect, "{name} {index:?}");
        }
    }

    const PINNED: [(&str, Option<u32>, u64); 4] = [
        ("arrivals", None, 0xb155_da00_fb4f_9c77),
        ("caller", Some(0), 0xb4ea_28bd_a0d2_88f3),
        ("caller", Some(17), 0x511b_37f5_2587_3b66),
        ("", None, 0xcd7b_7ac5_52b7_41f2),
    ];

    #[test]
    fn seeds_runs_names_and_indices_tell_streams_apart() {
        let mut seen = BTreeSet::new();
        let mut many = 0;
        for run in 0..50 {
            let streams = Streams::new(u64::MAX - 20, run);
            for name in ["", "a", "b", "ab", "ba", "arrivals", "caller", "callers"] {
                seen.insert(first(streams.stream(name)));
                seen.extend((0..50).map(|index| first(streams.stream_of(name, index))));
                many += 51;
            }
        }
        assert_eq!(seen.len(), many);
    }

    #[test]
    fn neighbours_are_not_alike() {
        // Half of the bits of two independent words differ: 32 of 64, with standard deviation 4.
        let n = 4_000;
        let mean = |pair: &dyn Fn(u32) -> (Pcg64, Pcg64)| {
            let differ = (0..n).map(|i| {
                let (one, other) = pair(i);
                (first(one) ^ first(other)).count_ones()
            });
            f64::from(differ.sum::<u32>()) / f64::from(n)
        };
        let streams = Streams::new(1, 1);
        let by_index = mean(&|i| (streams.stream_of("x", i), streams.stream_of("x", i + 1)));
        let by_run = mean(&|i| {
            let run = u64::from(i);
            (
                Streams::new(1, run).stream("x"),
                Streams::new(1, run + 1).stream("x"),
            )
        });
        let tolerance = 5.0 * 4.0 / f64::from(n).sqrt();
        for mean in [by_index, by_run] {
            assert!((mean - 32.0).abs() < tolerance, "{mean}");
        }
    }
}
