//! Randomness by named streams.

use rand_core::SeedableRng as _;
use rand_pcg::Pcg64;

/// The random streams of one run: a stream is a function of seed, run and name, and of nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// Those of run `run` of a check with this seed.
    #[must_use]
    pub fn new(seed: u64, run: u64) -> Self {
        Self {
            seed: seed.wrapping_add(run),
        }
    }

    /// The stream of this name.
    #[must_use]
    pub fn stream(&self, name: &str) -> Pcg64 {
        // FNV-1a tells the names of a model apart; the finaliser mixes in the seed.
        let name = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Pcg64::seed_from_u64(crate::schedule::mix(self.seed, name))
    }
}
