//! Graphs like the Internet's, of any size and from a seed, since the measured ones may not be handed on.
//!
//! What is copied from the measured graph is its shape: a clique of tier-1 ASes, transit ASes whose numbers of customers follow
//! Zipf's law (who has many gets more: preferential attachment in the limit), stubs, how many providers an AS has, few ASes with
//! very many peers, and blocks of addresses as unevenly spread. Larger ASes peer more and have more blocks. ASes live in
//! regions, and mostly buy and peer at home.
//!
//! The figures were fitted to CAIDA's AS relationships of 2015-02-01 (49,755 ASes) and to the prefixes of 2014-05-13 (pyasn's
//! file); `docs/anycast-predict.md` has the comparison, and `tests/it/generated.rs` holds it. What is *not* copied: exchange
//! points as such, siblings, ASes without any provider below the clique, and how the Internet grew.
//!
//! Same seed and size, same graph, on every machine.

use levee_policy::reroute::Asn;
use rand_core::Rng;
use rand_pcg::Pcg64;

use super::{AsGraph, Builder, Relationship};
use crate::blocks::Blocks;

/// The fewest ASes: below it there is no room for a clique, transit and stubs.
pub const ASES_MIN: usize = 100;
/// The most ASes: more than twice the Internet of 2026.
pub const ASES_MAX: usize = 200_000;

/// ASes of the measured graph; figures that change with size are given for it.
const MEASURED_ASES: f64 = 49_755.0;
/// Members of the measured clique. That they grow slowly with the Internet, as its fourth root, is a guess.
const MEASURED_CLIQUE: f64 = 17.0;
const CLIQUE_GROWTH: f64 = 0.25;
/// ASes with customers: 7,472 of 49,755.
const TRANSIT_SHARE: f64 = 0.150;
/// A transit AS of rank `r` has some `1.75 T / (r + HEAD)` customers of `T` such ASes: Zipf's law, of which the first few fall short.
const HEAD: f64 = 2.5;
/// Of 1, 2, ... providers, for ASes without and with customers, in 10,000. Measured, without the 0.5% that have none.
const STUB_PROVIDERS: &[u32] = &[4273, 4289, 950, 276, 105, 40, 28, 13, 5, 4, 4, 13];
const TRANSIT_PROVIDERS: &[u32] = &[2280, 3180, 2046, 1130, 567, 304, 189, 103, 60, 46, 28, 67];
/// How much less a stub buys of the clique than the clique's customers would have it (measured: 20% of links).
const STUB_CLIQUE: f64 = 0.85;
/// How often a further provider is of the kind of the first, the clique or not: 26% of stubs and 44% of the others are next to
/// the clique, which would be 34% and 57% by chance.
const SAME_KIND: f64 = 0.55;
/// What a doubling of size adds to where a transit AS stands by its number of providers, in standard deviations (measured means:
/// 2.3 with one customer, 4.5 with a hundred).
const PROVIDERS_STEP: f64 = 0.25;
/// Zipf's law ends before the last ASes: 40% have the one customer that all of them have.
const TAIL: f64 = 0.8;
/// A provider or a peer is sought at home so often (our choice: figures for it need locations that the data has not).
const PROVIDER_AT_HOME: f64 = 0.85;
const PEER_AT_HOME: f64 = 0.5;
/// How many standard deviations an AS with customers stands above one without, and what each doubling of customers adds. Of
/// peers and of blocks alike: a fit of the measured share with peers, and of the median of blocks, by customers. ASes without
/// customers differ more: some of the largest networks of content and of homes are among them.
const TRANSIT_STEP: f64 = 1.05;
const DOUBLING_STEP: f64 = 0.3;
const STUB_SPREAD: f64 = 1.2;
/// Peers outside the clique of each of its members (measured: 50).
const CLIQUE_PEERS: f64 = 50.0;
/// How the numbers of peers grow with the Internet: those with thousands have them because there are as many.
const PEERS_GROWTH: f64 = 0.5;
/// Share of ASes with at least so many peers; measured.
const PEERS: &[(f64, f64)] = &[
    (1.0 / MEASURED_ASES, 3054.0),
    (0.000_38, 1000.0),
    (0.001_33, 500.0),
    (0.002_85, 200.0),
    (0.004_28, 100.0),
    (0.013, 50.0),
    (0.034_5, 20.0),
    (0.048_3, 10.0),
    (0.073_5, 5.0),
    (0.089_3, 3.0),
    (0.103, 2.0),
    (0.178, 1.0),
];
/// Share of ASes with at least so many /24s; measured.
const BLOCKS: &[(f64, f64)] = &[
    (1.0 / MEASURED_ASES, 426_409.0),
    (0.000_06, 262_144.0),
    (0.000_2, 131_072.0),
    (0.000_42, 65_536.0),
    (0.002_07, 16_384.0),
    (0.006_8, 4096.0),
    (0.018, 1024.0),
    (0.032_6, 512.0),
    (0.073_6, 256.0),
    (0.099, 128.0),
    (0.139, 64.0),
    (0.21, 32.0),
    (0.304, 16.0),
    (0.419, 8.0),
    (0.555, 4.0),
    (0.69, 2.0),
    (0.91, 1.0),
];
/// Draws for one provider or peer before an AS does with fewer: the small pools of small graphs run dry.
const DRAWS_MAX: usize = 32;
/// More of them for those that seek thousands of peers, and meet the same ones again.
const DRAWS_PER_PEER: usize = 8;

/// A region of a generated graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// Its name.
    pub name: &'static str,
    /// Its share of ASes.
    pub share: f64,
    /// Its share of the clique.
    clique_share: f64,
    /// Round-trip times to each region, itself among them, in ms.
    pub rtt_ms: [f64; 6],
}

/// Regions; shares near those of the five registries in 2015, round-trip times as between their largest exchange points (our
/// figures, for demonstrations).
pub const REGIONS: [Region; 6] = [
    region(
        "europe",
        0.40,
        0.30,
        [18.0, 90.0, 180.0, 200.0, 130.0, 270.0],
    ),
    region(
        "north-america",
        0.32,
        0.60,
        [90.0, 30.0, 150.0, 130.0, 210.0, 160.0],
    ),
    region(
        "asia",
        0.14,
        0.10,
        [180.0, 150.0, 50.0, 300.0, 260.0, 110.0],
    ),
    region(
        "south-america",
        0.09,
        0.0,
        [200.0, 130.0, 300.0, 40.0, 330.0, 290.0],
    ),
    region(
        "africa",
        0.02,
        0.0,
        [130.0, 210.0, 260.0, 330.0, 60.0, 350.0],
    ),
    region(
        "oceania",
        0.03,
        0.0,
        [270.0, 160.0, 110.0, 290.0, 350.0, 25.0],
    ),
];

const fn region(name: &'static str, share: f64, clique_share: f64, rtt_ms: [f64; 6]) -> Region {
    Region {
        name,
        share,
        clique_share,
        rtt_ms,
    }
}

/// A generated graph. ASes are numbered from 1: the clique first, then the others with customers, then stubs; within each kind
/// at random, so that a tie between equals, which goes to the lower number, favours nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Members of the clique: ASes 1 to this.
    pub clique: usize,
    /// ASes with customers, the clique among them: 1 to this.
    pub transit: usize,
    /// Provider and customer of each link, in order.
    pub providers: Vec<(Asn, Asn)>,
    /// Peers of each link, the lower number first, in order.
    pub peers: Vec<(Asn, Asn)>,
    /// The place in [`REGIONS`] of AS `n` at `n - 1`.
    pub regions: Vec<u8>,
    /// The /24s of AS `n` at `n - 1`.
    pub blocks: Vec<u32>,
}

impl Generated {
    /// A graph of this many ASes, between [`ASES_MIN`] and [`ASES_MAX`]; others are taken as the nearest of these.
    #[must_use]
    pub fn new(ases: usize, seed: u64) -> Self {
        let ases = ases.clamp(ASES_MIN, ASES_MAX);
        let growth = libm::pow(ases as f64 / MEASURED_ASES, CLIQUE_GROWTH);
        let clique = libm::round(MEASURED_CLIQUE * growth) as usize;
        let transit = libm::round(TRANSIT_SHARE * ases as f64) as usize;
        let mut world = World::new(ases, clique, transit, seed);
        world.buy(seed);
        world.peer(seed);
        let blocks = world.blocks(seed);
        world.numbered(&blocks, seed)
    }

    /// How many ASes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    /// Whether it has none; never, as it is made here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The ASes and their links, with the clique as Tier-1.
    #[must_use]
    pub fn graph(&self) -> AsGraph {
        let mut builder = Builder::new();
        builder.tier1((1..=self.clique as u32).map(Asn));
        for (kind, links) in [
            (Relationship::Provider, &self.providers),
            (Relationship::Peer, &self.peers),
        ] {
            for (a, b) in links {
                let linked = builder.link(*a, *b, kind);
                debug_assert!(linked.is_ok(), "{a} {b}: {linked:?}");
            }
        }
        // At least ASES_MIN ASes have each a provider or, in the clique, a peer, and ASES_MAX have less than LINKS_MAX links.
        builder.build().expect("links that were made by rule")
    }

    /// Made-up blocks: the numbers of [`Generated::blocks`], one AS after another.
    #[must_use]
    pub fn laid_out(&self) -> Blocks {
        let counts = (1..).map(Asn).zip(&self.blocks);
        Blocks::laid_out(counts.map(|(asn, count)| (asn, u64::from(*count))))
    }

    /// The transit ASes of a region outside the clique, with how many customers each has, the most first.
    #[must_use]
    pub fn transit_of(&self, region: &str) -> Vec<(Asn, usize)> {
        let mut customers = vec![0; self.transit + 1];
        for (provider, _) in &self.providers {
            customers[provider.0 as usize] += 1;
        }
        let there = |asn: &Asn| self.region(*asn).is_some_and(|of| of.name == region);
        let all = (self.clique as u32 + 1..=self.transit as u32).map(Asn);
        let mut found: Vec<(Asn, usize)> = all
            .filter(there)
            .map(|asn| (asn, customers[asn.0 as usize]))
            .collect();
        found.sort_by_key(|(asn, n)| (std::cmp::Reverse(*n), *asn));
        found
    }

    /// The region of an AS.
    #[must_use]
    pub fn region(&self, asn: Asn) -> Option<&'static Region> {
        let place = (asn.0 as usize).checked_sub(1)?;
        REGIONS.get(usize::from(*self.regions.get(place)?))
    }
}

/// What each stage draws from: a change of one does not move the others.
#[derive(Clone, Copy)]
enum Stage {
    Regions,
    Providers,
    PeerScores,
    Peers,
    Blocks,
    Numbers,
}

fn stream(seed: u64, stage: Stage) -> Pcg64 {
    let mut at = seed ^ (stage as u64).rotate_left(56);
    let word = |at: &mut u64| u128::from(split_mix(at));
    let mut wide = || word(&mut at) << 64 | word(&mut at);
    Pcg64::new(wide(), wide())
}

/// The next word of Steele, Lea and Flood's SplitMix64, which makes unlike words of like seeds.
fn split_mix(at: &mut u64) -> u64 {
    *at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (*at ^ (*at >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A number in [0, 1).
fn unit(rng: &mut Pcg64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number below `n`, which is at least 1; off by less than `n / 2^64`.
fn below(rng: &mut Pcg64, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}

/// A normal number (Box and Muller).
fn normal(rng: &mut Pcg64) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - unit(rng)));
    radius * libm::cos(core::f64::consts::TAU * unit(rng))
}

fn shuffle<T>(rng: &mut Pcg64, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(rng, last + 1));
    }
}

/// ASes while they are made, by rank: the clique, then transit from the largest, then stubs.
struct World {
    clique: usize,
    transit: usize,
    regions: Vec<u8>,
    /// Of each AS, its providers and, once [`World::peer`] is done, its peers.
    providers: Vec<Vec<u32>>,
    peers: Vec<Vec<u32>>,
    customers: Vec<u32>,
}

impl World {
    fn new(ases: usize, clique: usize, transit: usize, seed: u64) -> Self {
        let rng = &mut stream(seed, Stage::Regions);
        let regions = (0..ases)
            .map(|rank| {
                let mut at = unit(rng);
                let share = |region: &Region| {
                    if rank < clique {
                        region.clique_share
                    } else {
                        region.share
                    }
                };
                let found = REGIONS.iter().position(|region| {
                    at -= share(region);
                    at < 0.0
                });
                found.unwrap_or(0) as u8
            })
            .collect();
        Self {
            clique,
            transit,
            regions,
            providers: vec![Vec::new(); ases],
            peers: vec![Vec::new(); ases],
            customers: vec![0; ases],
        }
    }

    fn ases(&self) -> usize {
        self.regions.len()
    }

    /// Gives each AS its providers.
    fn buy(&mut self, seed: u64) {
        let rng = &mut stream(seed, Stage::Providers);
        let market = Market::new(self);
        self.first_customers(rng);
        let transit = self.transit_providers(rng);
        for rank in self.clique..self.ases() {
            let count = match transit.get(rank - self.clique) {
                Some(count) => *count,
                None => one_of(rng, STUB_PROVIDERS) + 1,
            };
            let mut draws = DRAWS_MAX;
            while self.providers[rank].len() < count && draws > 0 {
                draws -= 1;
                let first = self.providers[rank].first();
                let kind = first.map(|first| (*first as usize) < self.clique);
                let same = kind.filter(|_| unit(rng) < SAME_KIND);
                let provider = market.draw(rng, self, rank, same);
                self.sell(provider, rank);
            }
        }
    }

    /// How many providers each transit AS below the clique has: more for larger ones.
    fn transit_providers(&self, rng: &mut Pcg64) -> Vec<usize> {
        let n = self.transit - self.clique;
        let mut counts: Vec<usize> = (0..n).map(|_| one_of(rng, TRANSIT_PROVIDERS) + 1).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let order = places((0..n).map(|place| {
            let size = -libm::log2((place + self.clique) as f64 + HEAD);
            PROVIDERS_STEP * size + normal(rng)
        }));
        let mut by_place = vec![0; n];
        for (count, place) in counts.into_iter().zip(order) {
            by_place[place] = count;
        }
        by_place
    }

    /// Gives each transit AS below the clique a stub at home, or elsewhere if there is none, without which it would be none.
    fn first_customers(&mut self, rng: &mut Pcg64) {
        let mut stubs: Vec<usize> = (self.transit..self.ases()).collect();
        shuffle(rng, &mut stubs);
        let mut at_home = vec![Vec::new(); REGIONS.len()];
        for stub in &stubs {
            at_home[usize::from(self.regions[*stub])].push(*stub);
        }
        for rank in self.clique..self.transit {
            let home = usize::from(self.regions[rank]);
            let stub = at_home[home].pop().unwrap_or(stubs[rank % stubs.len()]);
            self.sell(rank, stub);
        }
    }

    fn sell(&mut self, provider: usize, customer: usize) {
        if !self.providers[customer].contains(&(provider as u32)) {
            self.providers[customer].push(provider as u32);
            self.customers[provider] += 1;
        }
    }

    /// ASes from this rank on, in the order of a figure that grows with their customers.
    fn by_size(&self, rng: &mut Pcg64, first: usize) -> impl Iterator<Item = usize> + use<> {
        let scores = self.customers[first..].iter().map(|n| match *n {
            0 => STUB_SPREAD * normal(rng),
            n => TRANSIT_STEP + DOUBLING_STEP * libm::log2(f64::from(n)) + normal(rng),
        });
        places(scores).into_iter().map(move |place| first + place)
    }

    /// Links ASes that agree to peer: the clique with itself, the others by how many peers each is to have.
    fn peer(&mut self, seed: u64) {
        for a in 0..self.clique {
            for b in a + 1..self.clique {
                self.link(a, b);
            }
        }
        let growth = libm::pow(self.ases() as f64 / MEASURED_ASES, PEERS_GROWTH);
        let mut wanted = vec![0_u32; self.ases()];
        let scores = &mut stream(seed, Stage::PeerScores);
        let order: Vec<usize> = self.by_size(scores, self.clique).collect();
        for (place, rank) in order.iter().enumerate() {
            let measured = at_share(PEERS, (place as f64 + 0.5) / self.ases() as f64);
            if measured >= 1.0 {
                wanted[*rank] = libm::floor(1.0 + (measured - 1.0) * growth) as u32;
            }
        }
        wanted[..self.clique].fill(libm::round(CLIQUE_PEERS * growth) as u32);
        let rng = &mut stream(seed, Stage::Peers);
        let mut pool = Pool::new(&wanted);
        // Those who want most choose first, while there are enough others.
        for rank in order.into_iter().chain(0..self.clique) {
            let rest = pool.take(rank, u32::MAX);
            let mut draws = rest as usize * DRAWS_PER_PEER + DRAWS_MAX;
            let mut missing = rest;
            while missing > 0 && draws > 0 {
                draws -= 1;
                let Some(other) = pool.draw(rng) else { break };
                let abroad = self.regions[rank] != self.regions[other];
                if abroad && unit(rng) < PEER_AT_HOME {
                    continue;
                }
                if self.may_peer(rank, other) {
                    self.link(rank, other);
                    pool.take(other, 1);
                    missing -= 1;
                }
            }
        }
    }

    fn may_peer(&self, a: usize, b: usize) -> bool {
        let related = |a: usize, b: usize| {
            self.providers[a].contains(&(b as u32)) || self.peers[a].contains(&(b as u32))
        };
        a != b && !related(a, b) && !related(b, a)
    }

    /// Written down at one end only, the lower rank's or not: [`World::may_peer`] asks both.
    fn link(&mut self, a: usize, b: usize) {
        self.peers[a].push(b as u32);
    }

    fn blocks(&self, seed: u64) -> Vec<u32> {
        let order = self.by_size(&mut stream(seed, Stage::Blocks), 0);
        let mut blocks = vec![0; self.ases()];
        for (place, rank) in order.enumerate() {
            let share = (place as f64 + 0.5) / self.ases() as f64;
            blocks[rank] = libm::floor(at_share(BLOCKS, share)) as u32;
        }
        blocks
    }

    fn numbered(&self, blocks: &[u32], seed: u64) -> Generated {
        let rng = &mut stream(seed, Stage::Numbers);
        let mut number: Vec<u32> = (1..=self.ases() as u32).collect();
        shuffle(rng, &mut number[..self.clique]);
        shuffle(rng, &mut number[self.clique..self.transit]);
        shuffle(rng, &mut number[self.transit..]);
        let mut regions = vec![0; self.ases()];
        let mut numbered_blocks = vec![0; self.ases()];
        let (mut providers, mut peers) = (Vec::new(), Vec::new());
        for rank in 0..self.ases() {
            let place = number[rank] as usize - 1;
            regions[place] = self.regions[rank];
            numbered_blocks[place] = blocks[rank];
            let me = Asn(number[rank]);
            let them = |other: &u32| Asn(number[*other as usize]);
            providers.extend(self.providers[rank].iter().map(|other| (them(other), me)));
            peers.extend(self.peers[rank].iter().map(|other| {
                let other = them(other);
                (me.min(other), me.max(other))
            }));
        }
        providers.sort_unstable();
        peers.sort_unstable();
        Generated {
            clique: self.clique,
            transit: self.transit,
            providers,
            peers,
            regions,
            blocks: numbered_blocks,
        }
    }
}

/// Who sells transit, by weight.
struct Market {
    clique: usize,
    /// Summed weights of all transit ASes by rank.
    all: Vec<f64>,
    /// Below the clique, by region: ranks and their summed weights.
    at_home: Vec<(Vec<u32>, Vec<f64>)>,
}

impl Market {
    fn new(world: &World) -> Self {
        let mut all = Vec::with_capacity(world.transit);
        let mut at_home = vec![(Vec::new(), Vec::new()); REGIONS.len()];
        let last = 1.0 / (TAIL * world.transit as f64 + HEAD);
        let mut sum = 0.0;
        for rank in 0..world.transit {
            // Beside the one customer that each has.
            let weight = (1.0 / (rank as f64 + 1.0 + HEAD) - last).max(0.0);
            sum += weight;
            all.push(sum);
            if rank >= world.clique {
                let (ranks, sums) = &mut at_home[usize::from(world.regions[rank])];
                ranks.push(rank as u32);
                sums.push(sums.last().unwrap_or(&0.0) + weight);
            }
        }
        Self {
            clique: world.clique,
            all,
            at_home,
        }
    }

    /// A provider larger than this AS, of the clique or not where that is said.
    fn draw(&self, rng: &mut Pcg64, world: &World, rank: usize, of_clique: Option<bool>) -> usize {
        let limit = rank.min(world.transit);
        let taste = if limit < rank { STUB_CLIQUE } else { 1.0 };
        let share = taste * self.all[self.clique - 1] / self.all[limit - 1];
        if of_clique.unwrap_or_else(|| unit(rng) < share) || limit == self.clique {
            return by_weight(rng, &self.all[..self.clique], 0.0);
        }
        let (ranks, sums) = &self.at_home[usize::from(world.regions[rank])];
        let known = ranks.partition_point(|rank| (*rank as usize) < limit);
        if known > 0 && unit(rng) < PROVIDER_AT_HOME {
            return ranks[by_weight(rng, &sums[..known], 0.0)] as usize;
        }
        let base = self.all[self.clique - 1];
        by_weight(rng, &self.all[..limit], base).max(self.clique)
    }
}

/// The place that a number between `base` and the last of these sums falls to.
fn by_weight(rng: &mut Pcg64, sums: &[f64], base: f64) -> usize {
    let at = base + unit(rng) * (sums[sums.len() - 1] - base);
    sums.partition_point(|sum| *sum <= at).min(sums.len() - 1)
}

/// Places in the order of their scores, the highest first.
fn places(scores: impl Iterator<Item = f64>) -> Vec<usize> {
    let mut scores: Vec<(f64, usize)> = scores.zip(0..).collect();
    scores.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scores.into_iter().map(|(_, place)| place).collect()
}

/// A place in `counts`, as often as it says.
fn one_of(rng: &mut Pcg64, counts: &[u32]) -> usize {
    let mut at = below(rng, counts.iter().sum::<u32>() as usize) as u32;
    counts
        .iter()
        .position(|count| {
            let here = at < *count;
            at = at.saturating_sub(*count);
            here
        })
        .unwrap_or(0)
}

/// The figure that this share of ASes reaches or passes, on a line between the measured ones (both as logarithms); 0 past the last.
fn at_share(measured: &[(f64, f64)], share: f64) -> f64 {
    let next = measured.partition_point(|(at, _)| *at < share);
    match (next.checked_sub(1).map(|i| measured[i]), measured.get(next)) {
        (None, Some((_, figure))) => *figure,
        (_, None) => 0.0,
        (Some((low, large)), Some((high, small))) => {
            let along = libm::log(share / low) / libm::log(high / low);
            libm::exp(libm::log(large) + along * libm::log(small / large))
        }
    }
}

/// How many links each AS still wants, to draw from by number (a Fenwick tree).
struct Pool {
    tree: Vec<u64>,
    wanted: Vec<u32>,
    total: u64,
}

impl Pool {
    fn new(wanted: &[u32]) -> Self {
        let mut tree = vec![0; wanted.len() + 1];
        for (i, n) in wanted.iter().enumerate() {
            let at = i + 1;
            tree[at] += u64::from(*n);
            let parent = at + (at & at.wrapping_neg());
            if parent < tree.len() {
                tree[parent] += tree[at];
            }
        }
        Self {
            tree,
            wanted: wanted.to_vec(),
            total: wanted.iter().copied().map(u64::from).sum(),
        }
    }

    /// Takes up to `n` off, and says how many.
    fn take(&mut self, index: usize, n: u32) -> u32 {
        let n = n.min(self.wanted[index]);
        self.wanted[index] -= n;
        self.total -= u64::from(n);
        let mut at = index + 1;
        while at < self.tree.len() {
            self.tree[at] -= u64::from(n);
            at += at & at.wrapping_neg();
        }
        n
    }

    /// One of those that want a link, as often as it wants.
    fn draw(&self, rng: &mut Pcg64) -> Option<usize> {
        if self.total == 0 {
            return None;
        }
        let mut rest = below(rng, self.total as usize) as u64;
        let mut at = 0;
        let mut step = self.wanted.len().next_power_of_two();
        while step > 0 {
            let next = at + step;
            if next < self.tree.len() && self.tree[next] <= rest {
                rest -= self.tree[next];
                at = next;
            }
            step /= 2;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests;
