//! From where an attack comes, and how strong it is at which time.

use levee_policy::{Span, Time};

use super::setup::{Attack, Shape, Sources};
use super::world::World;
use crate::engine::Streams;
use crate::schedule::unit;

impl Attack {
    pub(super) fn begin(&self) -> Time {
        Time::ZERO + self.start
    }

    pub(super) fn over(&self) -> Time {
        self.begin().saturating_add(self.length)
    }

    /// Whether it has begun and is not over, be it in a pause.
    pub(super) fn goes_on(&self, now: Time) -> bool {
        (self.begin()..self.over()).contains(&now)
    }

    /// Which part of its height it has.
    pub(super) fn level(&self, now: Time) -> f64 {
        if !self.goes_on(now) {
            return 0.0;
        }
        let since = now - self.begin();
        match self.shape {
            Shape::Constant => 1.0,
            Shape::Pulse { on, off } => {
                let into = since.as_nanos() % on.saturating_add(off).as_nanos();
                if into < on.as_nanos() { 1.0 } else { 0.0 }
            }
            Shape::Ramp { over } => (since.as_secs_f64() / over.as_secs_f64()).min(1.0),
        }
    }

    /// When it begins, pauses, goes on or is over next.
    pub(super) fn next_edge(&self, now: Time) -> Option<Time> {
        if now < self.begin() {
            return Some(self.begin());
        }
        if now >= self.over() {
            return None;
        }
        let pulse = match self.shape {
            Shape::Pulse { on, off } => {
                let period = on.saturating_add(off);
                let into = Span::from_nanos((now - self.begin()).as_nanos() % period.as_nanos());
                let next = if into < on { on } else { period };
                now.saturating_add(next - into)
            }
            Shape::Constant | Shape::Ramp { .. } => self.over(),
        };
        Some(pulse.min(self.over()))
    }

    /// The part of the attack from each class, where each now goes to `at`: the `number`-th drawing of the run.
    pub(super) fn draw(
        &self,
        world: &World,
        at: &[u8],
        (streams, number): (&Streams, u32),
        share: &mut Vec<f64>,
    ) {
        let weights = world.weights();
        share.clear();
        match &self.from {
            Sources::Spread => share.extend_from_slice(weights),
            Sources::Concentrated { classes } => {
                share.resize(weights.len(), 0.0);
                let mut rng = streams.stream_of("sources", number);
                for _ in 0..*classes {
                    let left = weights
                        .iter()
                        .zip(&*share)
                        .filter(|(_, taken)| **taken == 0.0);
                    let total: f64 = left.map(|(weight, _)| weight).sum();
                    let mut rest = unit(&mut rng) * total;
                    let mut free = (0..weights.len()).filter(|class| share[*class] == 0.0);
                    let last = free.clone().next_back();
                    let chosen = free.find(|class| {
                        rest -= weights[*class];
                        rest < 0.0
                    });
                    if let Some(class) = chosen.or(last) {
                        share[class] = 1.0;
                    }
                }
            }
            Sources::Site(site) => {
                let from = weights.iter().zip(at).map(
                    |(weight, at)| {
                        if *at == site.0 { *weight } else { 0.0 }
                    },
                );
                share.extend(from);
            }
            Sources::Shares(of) => {
                let part = |site: &u8| of.get(usize::from(*site)).copied().unwrap_or_default();
                let mut reached = vec![0.0; of.len()];
                for (weight, site) in weights.iter().zip(at) {
                    if let Some(reached) = reached.get_mut(usize::from(*site)) {
                        *reached += weight;
                    }
                }
                let from = weights
                    .iter()
                    .zip(at)
                    .map(|(weight, site)| part(site) * weight / reached[usize::from(*site)]);
                share.extend(from);
            }
            Sources::Classes(of) => share.extend_from_slice(of),
        }
        let total: f64 = share.iter().sum();
        if total > 0.0 {
            share.iter_mut().for_each(|share| *share /= total);
        } else {
            // Nobody is left at the sites that it comes from: it comes from everywhere.
            share.clear();
            share.extend_from_slice(weights);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attack(shape: Shape) -> Attack {
        Attack {
            load: 1.0,
            from: Sources::Spread,
            shape,
            start: Span::from_secs(100),
            length: Span::from_secs(50),
            moves: None,
        }
    }

    #[test]
    fn levels_change_at_edges_only_but_for_a_ramp() {
        let s = Span::from_secs;
        let pulse = Shape::Pulse {
            on: s(20),
            off: s(5),
        };
        let short = Shape::Pulse {
            on: s(20),
            off: s(0),
        };
        for (shape, expect) in [
            (Shape::Constant, &[(100, 1.0), (150, 0.0)][..]),
            (
                pulse,
                &[(100, 1.0), (120, 0.0), (125, 1.0), (145, 0.0), (150, 0.0)],
            ),
            (short, &[(100, 1.0), (120, 1.0), (140, 1.0), (150, 0.0)]),
        ] {
            let attack = attack(shape);
            let mut now = Time::ZERO;
            let mut found = Vec::new();
            while let Some(next) = attack.next_edge(now) {
                assert!(next > now);
                let before = next.saturating_sub(Span::from_nanos(1));
                assert_eq!(attack.level(before), attack.level(now), "{shape:?} {next}");
                now = next;
                found.push((now.as_secs_f64() as u64, attack.level(now)));
            }
            // Of two edges at one time there is one.
            assert_eq!(found, expect, "{shape:?}");
        }
        let ramp = attack(Shape::Ramp { over: s(20) });
        let at = |seconds| ramp.level(Time::ZERO + s(seconds));
        assert_eq!(
            [at(99), at(100), at(105), at(120), at(149), at(150)],
            [0.0, 0.0, 0.25, 1.0, 1.0, 0.0]
        );
    }
}
