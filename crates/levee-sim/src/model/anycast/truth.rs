//! Where each class really goes in each play, in one run.

use rand_core::Rng;

use super::setup::Network;
use super::world::World;
use crate::engine::Streams;
use crate::schedule::unit;

/// The world's table with what is wrong with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    site: Vec<u8>,
    classes: usize,
    /// The sites that some class reaches in the play at hand: kept to allocate nothing.
    open: Vec<u8>,
}

impl Truth {
    /// Draws it anew: first who has drifted, then in which plays the measurement is wrong.
    pub(super) fn draw(&mut self, world: &World, network: &Network, streams: &Streams) {
        self.classes = world.len();
        self.site.clear();
        self.site.extend_from_slice(world.table());
        let mut rng = streams.stream("drift");
        for class in 0..self.classes {
            let (drifts, like) = (unit(&mut rng), pick(self.classes, &mut rng));
            if drifts < network.drift {
                self.copy(world.table(), like, class);
            }
        }
        let mut rng = streams.stream("wrong");
        for (play, row) in self.site.chunks_mut(self.classes).enumerate().skip(1) {
            self.open.clear();
            self.open.extend_from_slice(world.sites(play));
            self.open.sort_unstable();
            self.open.dedup();
            for site in row {
                let (wrong, other) = (unit(&mut rng), unit(&mut rng));
                if wrong >= network.wrong {
                    continue;
                }
                let others = self.open.iter().filter(|open| *open != site);
                let number = (other * others.clone().count() as f64) as usize;
                if let Some(other) = others.copied().nth(number) {
                    *site = other;
                }
            }
        }
    }

    /// The site of each class in a play.
    pub(super) fn sites(&self, play: usize) -> &[u8] {
        self.site
            .get(play * self.classes..(play + 1) * self.classes)
            .unwrap_or_default()
    }

    /// One class comes to behave like another; which it is.
    pub(super) fn churn(&mut self, rng: &mut impl Rng) -> usize {
        let (class, like) = (pick(self.classes, rng), pick(self.classes, rng));
        for row in self.site.chunks_mut(self.classes) {
            row[class] = row[like];
        }
        class
    }

    fn copy(&mut self, from: &[u8], like: usize, class: usize) {
        let rows = self.site.chunks_mut(self.classes);
        for (row, from) in rows.zip(from.chunks(self.classes)) {
            row[class] = from[like];
        }
    }
}

/// One of so many.
fn pick(n: usize, rng: &mut impl Rng) -> usize {
    (unit(rng) * n as f64) as usize
}
