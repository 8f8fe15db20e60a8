//! What the papers prove or derive of the thinner, held against the machine.
//!
//! Notation of the papers: `g` good demand, `G` and `B` good and bad bandwidth, `C` capacity, all in requests a second; `r` the
//! price or mean number of retries; `e` the part of the inbound bytes that one client sends.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use levee_policy::{
    Span, StateMachine, Time,
    thinner::{Arrival, Capacity, Config, Input, Mode, Outcome, Output, RequestKey, Thinner},
};
use proptest::{prelude::*, test_runner::RngSeed};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Units that come in between two auctions.
const ROUND_UNITS: u64 = 1_000_000;
const ROUND: Span = Span::from_millis(10);

/// Auctions at regular intervals between a client that pays `e` of each interval's units and others that pay when they like.
struct Auctions {
    thinner: Thinner,
    rng: Pcg64Mcg,
    now: Time,
    rounds: u64,
    /// Who has the server, where auctions are held when it is free.
    active: Option<RequestKey>,
    /// What the client has bid; it always has a request that waits.
    bid: u64,
    wins: u64,
    next_key: u64,
    client: RequestKey,
    others: Vec<RequestKey>,
}

impl Auctions {
    /// At intervals of [`ROUND`].
    fn regular(others: usize) -> Self {
        let mut config = Config::of(Capacity::Rate(100.0));
        config.burst = Some(1);
        Self::new(&config, others)
    }

    /// Whenever the one request is done that the server works on.
    fn by_service(others: usize) -> Self {
        Self::new(&Config::of(Capacity::Concurrency(1)), others)
    }

    fn new(config: &Config, others: usize) -> Self {
        let regular = matches!(config.capacity, Capacity::Rate(_));
        let config = Config {
            patience: Span::from_secs(86_400),
            ..config.clone()
        };
        let mut auctions = Self {
            thinner: Thinner::new(config).unwrap(),
            rng: Pcg64Mcg::seed_from_u64(1),
            now: Time::ZERO,
            rounds: 0,
            active: None,
            bid: 0,
            wins: 0,
            next_key: 0,
            client: RequestKey(0),
            others: Vec::new(),
        };
        // One that finds the server idle, so that all others have to bid.
        let first = auctions.arrive();
        auctions.active = (!regular).then_some(first);
        auctions.others = (0..others).map(|_| auctions.arrive()).collect();
        auctions.client = auctions.arrive();
        auctions
    }

    fn arrive(&mut self) -> RequestKey {
        let request = RequestKey(self.next_key);
        self.next_key += 1;
        let arrival = Arrival {
            request,
            paid: 0,
            can_wait: true,
            group: None,
        };
        self.thinner
            .handle(self.now, Input::Arrive(arrival), &mut self.rng);
        while self.thinner.poll_output().is_some() {}
        request
    }

    fn pay(&mut self, request: RequestKey, units: u64) {
        let input = Input::Pay { request, units };
        self.thinner.handle(self.now, input, &mut self.rng);
        assert_eq!(self.thinner.poll_output(), None);
    }

    /// The client pays, then the others, each what `others` says for it; then comes the auction.
    fn round(&mut self, length: Span, client: u64, others: &[(usize, u64)]) {
        self.pay(self.client, client);
        self.bid += client;
        for (other, units) in others {
            self.pay(self.others[*other], *units);
        }
        self.now = self.now + length;
        self.rounds += 1;
        if let Some(request) = self.active.take() {
            let outcome = Outcome::Answered;
            self.thinner
                .handle(self.now, Input::Done { request, outcome }, &mut self.rng);
            self.active = Some(self.winner());
        } else {
            self.thinner.handle_deadline(self.now, &mut self.rng);
            self.winner();
        }
    }

    /// One place, and so one winner, each time.
    fn winner(&mut self) -> RequestKey {
        let Some(Output::Admit { request, .. }) = self.thinner.poll_output() else {
            panic!("no winner of round {}", self.rounds);
        };
        assert_eq!(self.thinner.poll_output(), None);
        if request == self.client {
            self.wins += 1;
            self.bid = 0;
            self.client = self.arrive();
        } else {
            let other = self.others.iter().position(|other| *other == request);
            let key = self.arrive();
            self.others[other.unwrap()] = key;
        }
        request
    }
}

/// The adversary that makes the bound tight: it banks its bytes and outbids the client whenever it can.
#[test]
fn a_client_with_e_of_the_bytes_gets_e_over_2_minus_e_of_the_server_from_the_worst_adversary() {
    for e in [0.5, 0.3, 0.1, 0.01] {
        let mut auctions = Auctions::regular(1);
        let client = (e * ROUND_UNITS as f64) as u64;
        let rounds = 20_000;
        let mut bank = 0;
        for _ in 0..rounds {
            bank += ROUND_UNITS - client;
            let needed = auctions.bid + client + 1;
            if bank >= needed {
                bank -= needed;
                auctions.round(ROUND, client, &[(0, needed)]);
            } else {
                auctions.round(ROUND, client, &[]);
            }
        }
        let share = auctions.wins as f64 / f64::from(rounds);
        assert!(
            share >= e / (2.0 - e) - 1.0 / f64::from(rounds),
            "e = {e}: {share}"
        );
        // A run of losses is a whole number: with `2 (1 - e) / e` between two of them, both occur so that the bytes suffice.
        let losses = (2.0 * (1.0 - e) / e + 1e-9).floor();
        let longer = ((1.0 - e) * (losses + 1.0) - e * losses * (losses + 1.0) / 2.0)
            / (e * (losses + 1.0) - (1.0 - e));
        let tight = 1.0 / (losses + 1.0 + longer);
        // One run that is not over, and the unit more than the client's bid, a part in `e` millions of it.
        let tolerance = 1.0 / f64::from(rounds) + tight * 1e-3;
        assert!(
            (share - tight).abs() <= tolerance,
            "e = {e}: {share}, expected {tight}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, rng_seed: RngSeed::Fixed(4), failure_persistence: None, ..ProptestConfig::default() })]

    /// The proof's inequality, exactly and for any run: `w` wins in `n` rounds leave `w + 1` runs of losses, the `i`-th loss of
    /// a run costs the others at least `i e`, and they have `(1 - e) n`; by convexity
    /// `2 (1 - e) n (w + 1) >= e (n - w) (n + 1)`.
    #[test]
    fn no_timing_of_the_others_beats_the_bound(
        client in ROUND_UNITS / 100..ROUND_UNITS / 2,
        plan in plan(),
    ) {
        let (n, w, others) = play(Auctions::regular(4), client, &plan, |_| ROUND_UNITS);
        let e = u128::from(client);
        prop_assert!(2 * others * (w + 1) >= e * (n - w) * (n + 1), "{} wins of {}", w, n);
    }

    /// The same where service takes from `1 - d` to `1 + d` of the usual time, `d = 0.1` as in the paper's experiments, as it
    /// suits the others: then the `i`-th loss costs at least `i e (1 - d)`, and the share is at least
    /// `e (1 - d) / (e (1 - d) + 2 (1 - e) (1 + d))`.
    #[test]
    fn nor_does_the_length_of_their_requests(
        client in ROUND_UNITS / 100..ROUND_UNITS / 2,
        plan in plan(),
    ) {
        let length = |plan: &Spending| ROUND_UNITS / 10 * (9 + u64::from(plan.length));
        let (n, w, others) = play(Auctions::by_service(4), client, &plan, length);
        let least = u128::from(client / 10 * 9);
        prop_assert!(2 * others * (w + 1) >= least * (n - w) * (n + 1), "{} wins of {}", w, n);
        let most = u128::from(ROUND_UNITS - client) * n * 11 / 10;
        prop_assert!(others <= most + n);
    }
}

/// What the others do in a round.
#[derive(Clone, Copy, Debug)]
struct Spending {
    other: usize,
    tactic: u8,
    units: u64,
    /// In tenths of the usual time, from nine.
    length: u8,
}

fn plan() -> impl Strategy<Value = Vec<Spending>> {
    let round = (0_usize..4, 0_u8..4, 0_u64..ROUND_UNITS, 0_u8..3);
    let round = round.prop_map(|(other, tactic, units, length)| Spending {
        other,
        tactic,
        units,
        length,
    });
    prop::collection::vec(round, 300)
}

/// The rounds, those that the client won, and the units that the others had. `length` is that of a round, in units.
fn play(
    mut auctions: Auctions,
    client: u64,
    plan: &[Spending],
    length: impl Fn(&Spending) -> u64,
) -> (u128, u128, u128) {
    let (mut bank, mut all) = (0, 0);
    for spending in plan {
        let units = length(spending);
        // Rounded up, for the client sends at least the part that it is said to.
        let from_client = (units * client).div_ceil(ROUND_UNITS);
        bank += units - from_client;
        all += u128::from(units - from_client);
        let other = spending.other;
        let bid = auctions.thinner.bid(auctions.others[other]).unwrap();
        let needed = (auctions.bid + from_client + 1).saturating_sub(bid);
        let spent = match spending.tactic {
            // Some, all, what is enough if there is as much, nothing.
            0 => spending.units.min(bank),
            1 => bank,
            2 if bank >= needed => needed,
            _ => 0,
        };
        bank -= spent;
        let time = Span::from_nanos(ROUND.as_nanos() * units / ROUND_UNITS);
        auctions.round(time, from_client, &[(other, spent)]);
    }
    (auctions.rounds.into(), auctions.wins.into(), all)
}

/// What happens among the clients, by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A side has a new request.
    New(Side),
    /// A request that was refused comes again.
    Again(Side, u64),
    /// A side pays some units for the first of its contenders.
    Pours(Side),
    /// Each contender of a side pays what it can in a round trip.
    Follows(Side),
    /// The server has done a request.
    Done(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Good,
    Bad,
}

/// Clients of one side.
#[derive(Clone, Debug)]
struct Clients {
    /// New requests a second.
    demand: f64,
    /// Whether a refused request comes again after a round trip.
    again: bool,
    /// Units a second, if that is what limits their payment; else they follow the price.
    units: Option<f64>,
    contenders: Vec<u64>,
    asked: u64,
    admitted: u64,
    tries: u64,
}

impl Clients {
    fn new(demand: f64) -> Self {
        Self {
            demand,
            again: false,
            units: None,
            contenders: Vec::new(),
            asked: 0,
            admitted: 0,
            tries: 0,
        }
    }
}

/// Good and bad clients before a thinner.
struct World {
    thinner: Thinner,
    rng: Pcg64Mcg,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    next: u64,
    /// Side and number of tries of each request that waits.
    askers: BTreeMap<u64, (Side, u64)>,
    sides: [Clients; 2],
    prices: Vec<f64>,
    /// When each place of the server is free, where the capacity is one of places.
    places: BinaryHeap<Reverse<u64>>,
}

const C: f64 = 100.0;
/// Places of a server that does `C` requests a second with all of them.
const PLACES: u32 = 10;
const SECOND: u64 = 1_000_000_000;
const ROUND_TRIP: u64 = SECOND / 50;
/// Not counted: the means of the thinner have a time constant of one second.
const WARM_UP: u64 = 20 * SECOND;
/// Counted.
const SECONDS: u64 = 100;
/// Most requests at once of a side whose payment is limited.
const WINDOW: usize = 20;
/// A bucket of 16 is seldom empty when a draw is won, and seldom full: what is admitted is off by less than this part.
const OFF: f64 = 0.02;

impl World {
    fn new(mode: Mode, sides: [Clients; 2]) -> Self {
        Self::with(mode, Capacity::Rate(C), sides)
    }

    fn with(mode: Mode, capacity: Capacity, sides: [Clients; 2]) -> Self {
        let config = Config {
            mode,
            ..Config::of(capacity)
        };
        let mut world = Self {
            thinner: Thinner::new(config).unwrap(),
            rng: Pcg64Mcg::seed_from_u64(3),
            now: 0,
            events: BinaryHeap::new(),
            next: 0,
            askers: BTreeMap::new(),
            sides,
            prices: Vec::new(),
            places: (0..PLACES).map(|_| Reverse(0)).collect(),
        };
        for side in [Side::Good, Side::Bad] {
            world.schedule(0, Event::New(side));
            if mode.takes_payment() {
                let pays = world.sides[side as usize].units.is_some();
                let event = if pays {
                    Event::Pours(side)
                } else {
                    Event::Follows(side)
                };
                world.schedule(0, event);
            }
        }
        world.run();
        world
    }

    fn schedule(&mut self, after: u64, event: Event) {
        self.next += 1;
        self.events
            .push(Reverse((self.now + after, self.next, event)));
    }

    /// Exponential.
    fn gap(&mut self, rate: f64) -> u64 {
        let unit = ((self.rng.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        (-unit.ln() / rate * 1e9) as u64
    }

    fn ask(&mut self, side: Side, tries: u64) {
        self.next += 1;
        let request = self.next;
        self.askers.insert(request, (side, tries));
        self.tell(Input::Arrive(Arrival {
            request: RequestKey(request),
            paid: 0,
            can_wait: self.thinner.config().mode.holds(),
            group: None,
        }));
    }

    fn tell(&mut self, input: Input) {
        self.thinner
            .handle(Time::from_nanos(self.now), input, &mut self.rng);
        self.obey();
    }

    fn obey(&mut self) {
        while let Some(output) = self.thinner.poll_output() {
            match output {
                Output::Admit { request, .. } => {
                    self.serve(request.0);
                    let (side, tries) = self.gone(request);
                    if self.now >= WARM_UP {
                        let clients = &mut self.sides[side as usize];
                        clients.admitted += 1;
                        clients.tries += tries;
                    }
                }
                Output::Hold { request } => {
                    let (side, _) = self.askers[&request.0];
                    self.sides[side as usize].contenders.push(request.0);
                }
                Output::Refuse { request, .. } => {
                    let (side, tries) = self.gone(request);
                    if self.sides[side as usize].again {
                        self.schedule(ROUND_TRIP, Event::Again(side, tries + 1));
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The time of a request is uniform within a tenth of its mean, as in the papers.
    fn serve(&mut self, request: u64) {
        if matches!(self.thinner.config().capacity, Capacity::Rate(_)) {
            return;
        }
        let unit = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let time = (0.9 + 0.2 * unit) * f64::from(PLACES) / C * 1e9;
        let Reverse(free) = self.places.pop().unwrap();
        let end = free.max(self.now) + time as u64;
        self.places.push(Reverse(end));
        self.schedule(end - self.now, Event::Done(request));
    }

    fn gone(&mut self, request: RequestKey) -> (Side, u64) {
        let (side, tries) = self.askers.remove(&request.0).unwrap();
        self.sides[side as usize]
            .contenders
            .retain(|other| *other != request.0);
        (side, tries)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::New(side) => {
                let gap = self.gap(self.sides[side as usize].demand);
                self.schedule(gap, Event::New(side));
                if self.now >= WARM_UP {
                    self.sides[side as usize].asked += 1;
                    self.prices.push(self.thinner.price() as f64);
                }
                let clients = &self.sides[side as usize];
                if clients.units.is_none() || clients.contenders.len() < WINDOW {
                    self.ask(side, 1);
                }
            }
            Event::Again(side, tries) => self.ask(side, tries),
            Event::Done(request) => self.tell(Input::Done {
                request: RequestKey(request),
                outcome: Outcome::Answered,
            }),
            Event::Pours(side) => {
                // A thousand times a second: a small part of any price.
                let rate = self.sides[side as usize].units.unwrap();
                let units = rate as u64 / 1_000;
                let gap = self.gap(1_000.0);
                self.schedule(gap, Event::Pours(side));
                if let Some(request) = self.sides[side as usize].contenders.first() {
                    let request = RequestKey(*request);
                    self.tell(Input::Pay { request, units });
                }
            }
            Event::Follows(side) => {
                self.schedule(ROUND_TRIP, Event::Follows(side));
                for request in self.sides[side as usize].contenders.clone() {
                    let request = RequestKey(request);
                    if let Some(bid) = self.thinner.bid(request) {
                        let left = self.thinner.price().saturating_sub(bid);
                        let units = left.min(self.thinner.price().div_ceil(10));
                        self.tell(Input::Pay { request, units });
                    }
                }
            }
        }
    }

    fn run(&mut self) {
        let until = WARM_UP + SECONDS * SECOND;
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            if time >= until {
                return;
            }
            let due = Time::from_nanos(time);
            while let Some(deadline) = self.thinner.deadline().filter(|deadline| *deadline <= due) {
                self.now = deadline.as_nanos();
                self.thinner.handle_deadline(deadline, &mut self.rng);
                self.obey();
            }
            self.now = time;
            self.happens(event);
        }
    }

    fn good(&self) -> &Clients {
        &self.sides[Side::Good as usize]
    }

    fn admitted(&self) -> f64 {
        self.sides.iter().map(|side| side.admitted as f64).sum()
    }

    fn price(&self) -> f64 {
        self.prices.iter().sum::<f64>() / self.prices.len() as f64
    }

    /// What is admitted is the capacity, and the good part of it is `share` but for five standard deviations of the draws.
    fn check_share(&self, share: f64) {
        let all = self.admitted();
        let capacity = C * SECONDS as f64;
        assert!(
            (all - capacity).abs() <= OFF * capacity,
            "{all} admitted of {capacity}"
        );
        let good = self.good().admitted as f64 / all;
        let tolerance = 5.0 * (share * (1.0 - share) / all).sqrt();
        assert!(
            (good - share).abs() <= tolerance,
            "{good}, expected {share}"
        );
    }
}

/// The papers' status quo: `g / (g + B)`.
#[test]
fn random_drop_shares_the_server_by_the_number_of_requests() {
    for (g, b) in [(50.0, 500.0), (50.0, 5_000.0), (90.0, 30.0)] {
        World::new(Mode::Random, [Clients::new(g), Clients::new(b)]).check_share(g / (g + b));
    }
}

/// The mean number of tries of a good request is `r = B / (C - g)`, and all are served.
#[test]
fn retries_serve_all_good_demand_where_the_server_is_provisioned_for_it() {
    for (g, b) in [(50.0, 500.0), (20.0, 2_000.0), (80.0, 100.0)] {
        let good = Clients {
            again: true,
            ..Clients::new(g)
        };
        let world = World::new(Mode::Retry, [good, Clients::new(b)]);
        world.check_share(g / C);
        // At the rates of this very run: for `g` near `C` the formula multiplies what chance adds to them.
        let [good, bad] = &world.sides;
        let retries = bad.asked as f64 / (world.admitted() - good.asked as f64);
        let tries = good.tries as f64 / good.admitted as f64;
        // Five standard deviations of the means of a geometric distribution on either side.
        let spread = 1.0 / (good.admitted as f64).sqrt() + 1.0 / (bad.admitted as f64).sqrt();
        let tolerance = 5.0 * retries * spread;
        assert!(
            (tries - retries).abs() <= tolerance,
            "{tries}, expected {retries}"
        );
        let nominal = b / (C - g);
        assert!(
            (retries / nominal - 1.0).abs() <= sensitivity(g),
            "{retries}, expected {nominal}"
        );
        // The price is a whole number, rounded up.
        let price = world.price();
        assert!(
            (price - retries - 0.5).abs() <= 0.5 + tolerance,
            "{price}, expected {retries}"
        );
    }
}

/// By which part `1 / (C - g)` may be off in a run, if the capacity is off by [`OFF`] and the demand by five standard deviations.
fn sensitivity(g: f64) -> f64 {
    let left = C * (1.0 - OFF) - g - 5.0 * (g / SECONDS as f64).sqrt();
    (C - g) / left - 1.0
}

/// Good clients that spend all of `G`: share `G / (G + B)`, price `(B + G) / C`.
#[test]
fn retries_share_the_server_by_bandwidth_where_it_is_not() {
    let (g, b) = (300.0, 500.0);
    let world = World::new(Mode::Retry, [Clients::new(g), Clients::new(b)]);
    world.check_share(g / (g + b));
    let price = (b + g) / C;
    assert!(
        (world.price() - price - 0.5).abs() <= 0.5 + 0.05 * price,
        "{}",
        world.price()
    );
}

/// Who follows the price pays what it needs: `r = B / (C - g)`, and all good demand is served.
#[test]
fn the_price_settles_where_good_demand_is_served() {
    for (g, b) in [(50.0, 5_000.0), (20.0, 20_000.0), (80.0, 1_000.0)] {
        let bad = Clients {
            units: Some(b),
            ..Clients::new(1_000.0)
        };
        let world = World::new(Mode::Priced, [Clients::new(g), bad]);
        let served = world.good().admitted as f64 / world.good().asked as f64;
        assert!(served >= 0.97, "{served} of the good demand {g} served");
        let price = b / (C - g);
        assert!(
            (world.price() / price - 1.0).abs() <= 0.1,
            "{}, expected {price}",
            world.price()
        );
    }
}

/// Both sides spend all they have: share `G / (G + B)`, price `(B + G) / C`.
#[test]
fn the_price_settles_where_bandwidth_is_spent() {
    for (g, b) in [(3_000.0, 5_000.0), (2_000.0, 20_000.0)] {
        let side = |units| Clients {
            units: Some(units),
            ..Clients::new(1_000.0)
        };
        let world = World::new(Mode::Priced, [side(g), side(b)]);
        let share = world.good().admitted as f64 / world.admitted();
        let fair = g / (g + b);
        assert!(
            (share / fair - 1.0).abs() <= 0.05,
            "{share}, expected {fair}"
        );
        let price = (g + b) / C;
        assert!(
            (world.price() / price - 1.0).abs() <= 0.05,
            "{}, expected {price}",
            world.price()
        );
    }
}

/// Bytes on payment channels, both sides spending all they have: at least what the theorem says.
#[test]
fn the_auction_shares_the_server_by_bandwidth() {
    for (g, b) in [(100_000.0, 100_000.0), (30_000.0, 270_000.0)] {
        let side = |units| Clients {
            units: Some(units),
            ..Clients::new(1_000.0)
        };
        let world = World::new(Mode::Auction, [side(g), side(b)]);
        let share = world.good().admitted as f64 / world.admitted();
        let e = g / (g + b);
        assert!(share >= e / (2.0 - e), "{share}, {e} of the bytes");
    }
}

/// With places in place of a rate `C` is not told to the thinner: it measures it.
#[test]
fn the_price_settles_where_only_the_places_are_known() {
    for (g, b) in [(50.0, 5_000.0), (20.0, 20_000.0)] {
        let bad = Clients {
            units: Some(b),
            ..Clients::new(1_000.0)
        };
        let capacity = Capacity::Concurrency(PLACES);
        let world = World::with(Mode::Priced, capacity, [Clients::new(g), bad]);
        let served = world.good().admitted as f64 / world.good().asked as f64;
        assert!(served >= 0.97, "{served} of the good demand {g} served");
        let price = b / (C - g);
        assert!(
            (world.price() / price - 1.0).abs() <= 0.1,
            "{}, expected {price}",
            world.price()
        );
    }
}

#[test]
fn draws_keep_a_server_of_places_busy() {
    for mode in [Mode::Random, Mode::Retry] {
        let (g, b) = (50.0, 5_000.0);
        let capacity = Capacity::Concurrency(PLACES);
        let world = World::with(mode, capacity, [Clients::new(g), Clients::new(b)]);
        world.check_share(g / (g + b));
    }
}

/// Neither `C` nor the places are told: the limit goes to where the places are, and the server stays busy.
#[test]
fn an_auction_before_a_server_of_unknown_capacity() {
    let (g, b) = (30_000.0, 70_000.0);
    let side = |units| Clients {
        units: Some(units),
        ..Clients::new(1_000.0)
    };
    let capacity = Capacity::Adaptive {
        least: 1,
        most: 1_000,
    };
    let world = World::with(Mode::Auction, capacity, [side(g), side(b)]);
    let limit = world.thinner.limit().unwrap();
    assert!((PLACES / 2..=PLACES * 2).contains(&limit), "{limit}");
    let part = world.admitted() / (C * SECONDS as f64);
    assert!(part >= 0.9, "{part} of what the server can do");
    let share = world.good().admitted as f64 / world.admitted();
    let e = g / (g + b);
    assert!(share >= e / (2.0 - e), "{share}, {e} of the bytes");
}
