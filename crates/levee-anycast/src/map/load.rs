//! How much traffic a block sends in normal times.

use std::collections::BTreeMap;
use std::fmt;

use super::Block;

/// Blocks of a chunk: those of a /16.
const CHUNK: usize = 256;

/// The load of blocks: packets, bytes or queries of a stretch of time, whatever was counted. Only the ratios matter.
///
/// Memory goes with the /16s in use: 2 KiB each, 128 MiB if all are.
#[derive(Clone, Default, PartialEq)]
pub struct LoadMap {
    v4: Vec<Option<Box<[f64; CHUNK]>>>,
    v6: BTreeMap<u64, f64>,
}

/// Its extent: the loads themselves would fill many screens.
impl fmt::Debug for LoadMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("LoadMap");
        out.field("blocks", &self.len())
            .field("total", &self.total());
        out.finish()
    }
}

impl LoadMap {
    /// No load.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds to the load of a block. What is no load, negative or not finite, is left out: `false`.
    pub fn add(&mut self, block: Block, load: f64) -> bool {
        if !(load.is_finite() && load >= 0.0) {
            return false;
        }
        if load == 0.0 {
            return true;
        }
        let cell = match block {
            Block::V4(bits) => {
                if self.v4.is_empty() {
                    self.v4.resize(1 << 16, None);
                }
                let chunk =
                    self.v4[bits as usize / CHUNK].get_or_insert_with(|| Box::new([0.0; CHUNK]));
                &mut chunk[bits as usize % CHUNK]
            }
            Block::V6(bits) => self.v6.entry(bits).or_default(),
        };
        // A sum that would pass the largest number stays there.
        *cell = (*cell + load).min(f64::MAX);
        true
    }

    /// The load of a block; 0 if nothing is known of it.
    #[must_use]
    pub fn load(&self, block: Block) -> f64 {
        match block {
            Block::V4(bits) => {
                let chunk = self.v4.get(bits as usize / CHUNK).and_then(Option::as_ref);
                chunk.map_or(0.0, |chunk| chunk[bits as usize % CHUNK])
            }
            Block::V6(bits) => self.v6.get(&bits).copied().unwrap_or(0.0),
        }
    }

    /// All blocks with a load above 0, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (Block, f64)> {
        let chunks = self.v4.iter().enumerate();
        let v4 = chunks.filter_map(|(i, chunk)| Some((i, chunk.as_ref()?)));
        let v4 = v4.flat_map(|(i, chunk)| {
            let load = chunk.iter().enumerate();
            load.map(move |(j, load)| (Block::V4((i * CHUNK + j) as u32), *load))
        });
        let v6 = self.v6.iter().map(|(bits, load)| (Block::V6(*bits), *load));
        v4.chain(v6).filter(|(_, load)| *load > 0.0)
    }

    /// Of all blocks together.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.iter().map(|(_, load)| load).sum()
    }

    /// How many blocks have a load above 0.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether no block has a load.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_add_up() {
        let mut load = LoadMap::new();
        assert!(load.is_empty());
        let block = |text: &str| text.parse::<Block>().unwrap();
        for (text, amount, taken) in [
            ("192.0.2.1", 2.0, true),
            ("255.255.255.255", 1.0, true),
            ("192.0.2.9", 0.5, true),
            ("2001:db8::", 4.0, true),
            ("0.0.0.0", 0.0, true),
            ("0.0.0.0", -1.0, false),
            ("0.0.0.0", f64::NAN, false),
            ("0.0.0.0", f64::INFINITY, false),
        ] {
            assert_eq!(load.add(block(text), amount), taken, "{text} {amount}");
        }
        let all: Vec<_> = load.iter().map(|(b, l)| (b.to_string(), l)).collect();
        let expect = [
            ("192.0.2.0/24", 2.5),
            ("255.255.255.0/24", 1.0),
            ("2001:db8::/48", 4.0),
        ];
        assert_eq!(all, expect.map(|(b, l)| (b.to_owned(), l)));
        assert_eq!(load.total(), 7.5);
        assert_eq!(load.len(), 3);
        assert_eq!(load.load(block("192.0.3.0")), 0.0);
        load.add(block("192.0.2.1"), f64::MAX);
        load.add(block("192.0.2.1"), f64::MAX);
        assert_eq!(load.load(block("192.0.2.1")), f64::MAX);
    }
}
