//! Random sequences of inputs through the thinner and through a plain one: same outputs, same state. And through every mode and
//! capacity, with a driver that is late: what must hold whatever happens.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::{cmp::Reverse, collections::BTreeMap};

use levee_policy::{
    Span, StateMachine, Time,
    thinner::{
        Arrival, Capacity, Config, Input, Mode, Outcome, Output, RefuseCause, RequestKey, Thinner,
    },
};
use proptest::{prelude::*, test_runner::RngSeed};
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// The auction and the queue as their rules are written, over vectors that are searched from end to end.
struct Naive {
    config: Config,
    now: Time,
    /// When the next place is due, with a rate.
    next: Time,
    waiting: Vec<Request>,
    suspended: Vec<Request>,
    serving: Vec<Request>,
    /// At the server for good reason no more; whether with a place.
    aborting: Vec<(RequestKey, bool)>,
    /// The newest of those that wait, oldest first.
    young: Vec<RequestKey>,
    order: u64,
    outputs: Vec<Output>,
}

#[derive(Clone, Debug)]
struct Request {
    key: RequestKey,
    bid: u64,
    order: u64,
    arrived: Time,
    since: Time,
    was_served: bool,
}

impl Naive {
    fn new(config: Config) -> Self {
        Self {
            config,
            now: Time::ZERO,
            next: Time::ZERO,
            waiting: Vec::new(),
            suspended: Vec::new(),
            serving: Vec::new(),
            aborting: Vec::new(),
            young: Vec::new(),
            order: 0,
            outputs: Vec::new(),
        }
    }

    fn in_service(&self) -> usize {
        self.serving.len() + self.aborting.iter().filter(|(_, place)| *place).count()
    }

    fn interval(&self) -> Option<Span> {
        match self.config.capacity {
            Capacity::Rate(rate) => Span::from_secs_f64(1.0 / rate),
            _ => None,
        }
    }

    fn has_room(&self) -> bool {
        match self.config.capacity {
            Capacity::Concurrency(limit) => self.in_service() < limit as usize,
            _ => self.next <= self.now,
        }
    }

    fn best(&self) -> Option<Request> {
        let queue = self.config.mode == Mode::Queue;
        let all = self.waiting.iter().chain(&self.suspended);
        all.max_by_key(|request| {
            let came = Reverse(if queue { request.since } else { Time::ZERO });
            (came, request.bid, Reverse(request.order))
        })
        .cloned()
    }

    fn price(&self) -> u64 {
        match self.config.mode {
            Mode::Queue => 0,
            _ => self.best().map_or(0, |best| best.bid + 1),
        }
    }

    fn known(&self, key: RequestKey) -> bool {
        let all = self.waiting.iter().chain(&self.suspended);
        all.chain(&self.serving).any(|request| request.key == key)
            || self.aborting.iter().any(|(other, _)| *other == key)
    }

    fn take(list: &mut Vec<Request>, key: RequestKey) -> Option<Request> {
        let place = list.iter().position(|request| request.key == key)?;
        Some(list.remove(place))
    }

    fn serve(&mut self, mut request: Request, waited: bool) {
        if let Some(interval) = self.interval() {
            let from = if waited {
                Time::from_nanos(self.now.as_nanos().saturating_sub(interval.as_nanos()))
            } else {
                self.now
            };
            self.next = self.next.max(from) + interval;
        }
        let price = std::mem::take(&mut request.bid);
        self.outputs.push(if request.was_served {
            Output::Resume {
                request: request.key,
                price,
            }
        } else {
            Output::Admit {
                request: request.key,
                price,
                waited: self.now - request.arrived,
            }
        });
        request.since = self.now;
        request.was_served = true;
        self.serving.push(request);
    }

    fn dispatch(&mut self) {
        while self.has_room()
            && let Some(best) = self.best()
        {
            Self::take(&mut self.waiting, best.key);
            Self::take(&mut self.suspended, best.key);
            self.serve(best, true);
        }
    }

    fn refuse(&mut self, request: RequestKey, cause: RefuseCause) {
        self.outputs.push(Output::Refuse {
            request,
            cause,
            retry_after: self.config.retry_after,
            price: self.price(),
        });
    }

    /// Does what is due at `now`, which is no later than the first of it.
    fn advance(&mut self, now: Time) {
        self.now = now;
        self.advance_waiting();
        self.young
            .retain(|young| self.waiting.iter().any(|request| request.key == *young));
    }

    fn advance_waiting(&mut self) {
        let now = self.now;
        if self.waiting.is_empty() && self.suspended.is_empty() {
            return;
        }
        self.dispatch();
        if let Some(quantum) = self.config.quantum {
            while let Some(active) = self
                .serving
                .iter()
                .find(|active| active.since + quantum <= now)
                .cloned()
                && self.best().is_some()
            {
                self.quantum_over(&active);
            }
        }
        while let Some(old) = self
            .waiting
            .iter()
            .find(|old| old.arrived + self.config.patience <= now)
            .cloned()
        {
            Self::take(&mut self.waiting, old.key);
            self.refuse(old.key, RefuseCause::Outbid);
        }
        while let Some(old) = self
            .suspended
            .iter()
            .find(|old| old.since + self.config.suspended <= now)
            .cloned()
        {
            Self::take(&mut self.suspended, old.key);
            self.aborting.push((old.key, false));
            self.outputs.push(Output::Abort { request: old.key });
        }
    }

    fn quantum_over(&mut self, active: &Request) {
        let best = self.best().unwrap();
        let mut request = Self::take(&mut self.serving, active.key).unwrap();
        request.since = self.now;
        if best.bid <= active.bid {
            request.bid = 0;
            self.serving.push(request);
        } else if self.config.suspended.is_zero() {
            self.aborting.push((active.key, true));
            self.outputs.push(Output::Abort {
                request: active.key,
            });
        } else {
            self.outputs.push(Output::Suspend {
                request: active.key,
            });
            self.dispatch();
            request.order = self.order;
            self.order += 1;
            self.suspended.push(request);
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        if self.known(arrival.request) {
            return;
        }
        let queue = self.config.mode == Mode::Queue;
        let mut request = Request {
            key: arrival.request,
            bid: if queue { 0 } else { arrival.paid },
            order: 0,
            arrived: self.now,
            since: self
                .now
                .saturating_sub(Span::from_nanos(if queue { arrival.paid } else { 0 })),
            was_served: false,
        };
        let others = self.waiting.len() + self.suspended.len();
        if others == 0 && self.has_room() {
            self.serve(request, false);
        } else if !arrival.can_wait {
            let cause = if queue {
                RefuseCause::Crowded
            } else {
                RefuseCause::Outbid
            };
            self.refuse(arrival.request, cause);
        } else if queue
            && others >= self.config.contenders as usize
            && self.last().since <= request.since
        {
            self.refuse(arrival.request, RefuseCause::Crowded);
        } else {
            if others >= self.config.contenders as usize {
                self.make_room();
            }
            self.outputs.push(Output::Hold {
                request: arrival.request,
            });
            request.order = self.order;
            self.order += 1;
            self.young.push(request.key);
            if self.young.len() > self.config.contenders as usize / 4 {
                self.young.remove(0);
            }
            self.waiting.push(request);
        }
    }

    /// The lowest bid, the oldest of equals, but none of the newest quarter.
    fn make_room(&mut self) {
        let old = |request: &&Request| !self.young.contains(&request.key);
        let waiting = self.waiting.iter().filter(old);
        let worst = if self.config.mode == Mode::Queue {
            self.last().clone()
        } else {
            waiting
                .chain(&self.suspended)
                .min_by_key(|request| (request.bid, request.order))
                .cloned()
                .unwrap()
        };
        if Self::take(&mut self.waiting, worst.key).is_some() {
            self.refuse(worst.key, RefuseCause::Crowded);
        } else {
            Self::take(&mut self.suspended, worst.key);
            self.aborting.push((worst.key, false));
            self.outputs.push(Output::Abort { request: worst.key });
        }
    }

    /// Who came last.
    fn last(&self) -> &Request {
        let all = self.waiting.iter();
        all.max_by_key(|request| (request.since, request.order))
            .unwrap()
    }

    fn pay(&mut self, key: RequestKey, units: u64) {
        let contenders = self.waiting.iter_mut().chain(&mut self.suspended);
        let paying = self.config.mode.takes_payment();
        let quantum = self.config.quantum.is_some();
        let all = contenders
            .filter(|_| paying)
            .chain(self.serving.iter_mut().filter(|_| quantum));
        for request in all {
            if request.key == key {
                request.bid += units;
            }
        }
    }

    fn done(&mut self, key: RequestKey) {
        if Self::take(&mut self.serving, key).is_none()
            && Self::take(&mut self.suspended, key).is_none()
        {
            self.aborting.retain(|(other, _)| *other != key);
        }
        self.dispatch();
    }

    fn handle(&mut self, input: &Input) {
        match *input {
            Input::Arrive(arrival) => self.arrive(arrival),
            Input::Pay { request, units } => self.pay(request, units),
            Input::Leave { request } => {
                Self::take(&mut self.waiting, request);
            }
            Input::Done { request, .. } => self.done(request),
            Input::Reconfigure(_) => {}
        }
        self.young
            .retain(|young| self.waiting.iter().any(|request| request.key == *young));
    }

    fn bid(&self, key: RequestKey) -> Option<u64> {
        let all = self.waiting.iter().chain(&self.suspended);
        let mut all = all.chain(&self.serving);
        let aborting = || self.aborting.iter().find(|(other, _)| *other == key);
        all.find(|request| request.key == key)
            .map(|request| request.bid)
            .or_else(|| aborting().map(|_| 0))
    }
}

/// Few keys, so that some are known, some at the server, some unknown.
const KEYS: u64 = 24;

#[derive(Clone, Debug)]
struct Step {
    gap_ms: u64,
    input: Input,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || (0..KEYS).prop_map(RequestKey);
    // In the queue nanoseconds.
    let paid = prop_oneof![4 => Just(0), 1 => 0_u64..10, 1 => 0_u64..50_000_000];
    let arrive = (key(), paid, prop::bool::weighted(0.9)).prop_map(|(request, paid, can_wait)| {
        Input::Arrive(Arrival {
            request,
            paid,
            can_wait,
            group: None,
        })
    });
    let pay = (key(), 0_u64..10).prop_map(|(request, units)| Input::Pay { request, units });
    let outcome = prop::sample::select(vec![Outcome::Answered, Outcome::Failed, Outcome::Broken]);
    let done = (key(), outcome).prop_map(|(request, outcome)| Input::Done { request, outcome });
    let input = prop_oneof![
        4 => arrive,
        4 => pay,
        1 => key().prop_map(|request| Input::Leave { request }),
        2 => done,
    ];
    (
        prop_oneof![2 => Just(0), 2 => 0_u64..4, 1 => 0_u64..40],
        input,
    )
        .prop_map(|(gap_ms, input)| Step { gap_ms, input })
}

fn auctions() -> impl Strategy<Value = Config> {
    let capacity = prop_oneof![
        Just(Capacity::Rate(250.0)),
        (1_u32..4).prop_map(Capacity::Concurrency)
    ];
    let mode = prop::sample::select(vec![Mode::Auction, Mode::ProofOfWork, Mode::Queue]);
    let quantum = prop_oneof![Just(None), (2_u64..10).prop_map(Some)];
    let suspended = prop_oneof![Just(0), 5_u64..20];
    (capacity, mode, quantum, suspended, 1_u32..12, 5_u64..30).prop_map(
        |(capacity, mode, quantum, suspended, contenders, patience)| {
            let quanta = mode.is_auction() && matches!(capacity, Capacity::Concurrency(_));
            Config {
                mode,
                burst: matches!(capacity, Capacity::Rate(_)).then_some(1),
                quantum: quantum.filter(|_| quanta).map(Span::from_millis),
                suspended: Span::from_millis(suspended),
                contenders,
                patience: Span::from_millis(patience),
                ..Config::of(capacity)
            }
        },
    )
}

fn drain(thinner: &mut Thinner) -> Vec<Output> {
    std::iter::from_fn(|| thinner.poll_output()).collect()
}

/// What became of each request, told from inputs and outputs alone.
#[derive(Default)]
struct Ledger {
    state: BTreeMap<RequestKey, Stage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Asking,
    Waiting,
    Serving,
    Suspended,
    Aborting { place: bool },
}

impl Ledger {
    fn input(&mut self, input: &Input) {
        match input {
            Input::Arrive(arrival) => {
                self.state.entry(arrival.request).or_insert(Stage::Asking);
            }
            Input::Leave { request } => {
                if self.state.get(request) == Some(&Stage::Waiting) {
                    self.state.remove(request);
                }
            }
            Input::Done { request, .. } => {
                if self.state.get(request) != Some(&Stage::Waiting) {
                    self.state.remove(request);
                }
            }
            Input::Pay { .. } | Input::Reconfigure(_) => {}
        }
    }

    fn outputs(&mut self, outputs: &[Output]) {
        for output in outputs {
            let (request, from, to): (_, &[Stage], _) = match *output {
                Output::Admit { request, .. } => (
                    request,
                    &[Stage::Asking, Stage::Waiting],
                    Some(Stage::Serving),
                ),
                Output::Hold { request } => (request, &[Stage::Asking], Some(Stage::Waiting)),
                Output::Refuse { request, .. } => (request, &[Stage::Asking, Stage::Waiting], None),
                Output::Suspend { request } => (request, &[Stage::Serving], Some(Stage::Suspended)),
                Output::Resume { request, .. } => {
                    (request, &[Stage::Suspended], Some(Stage::Serving))
                }
                Output::Abort { request } => {
                    let place = self.state.get(&request) == Some(&Stage::Serving);
                    (
                        request,
                        &[Stage::Serving, Stage::Suspended],
                        Some(Stage::Aborting { place }),
                    )
                }
            };
            let state = self.state.get(&request).copied();
            assert!(
                state.is_some_and(|state| from.contains(&state)),
                "{output:?} of one that is {state:?}"
            );
            match to {
                Some(to) => self.state.insert(request, to),
                None => self.state.remove(&request),
            };
        }
    }

    fn count(&self, is: impl Fn(Stage) -> bool) -> u32 {
        self.state.values().filter(|state| is(**state)).count() as u32
    }

    fn check(&self, thinner: &Thinner) {
        assert_eq!(
            self.count(|stage| stage == Stage::Asking),
            0,
            "none is left without a word"
        );
        let contenders = |stage| matches!(stage, Stage::Waiting | Stage::Suspended);
        assert_eq!(self.count(contenders), thinner.contenders());
        let places = |stage| matches!(stage, Stage::Serving | Stage::Aborting { place: true });
        assert_eq!(self.count(places), thinner.in_service());
        let stats = thinner.stats();
        assert_eq!(
            stats.arrivals,
            stats.admitted
                + stats.refused.total()
                + stats.left
                + u64::from(self.count(|stage| stage == Stage::Waiting)),
            "every request is counted once"
        );
        let balances: u64 = self
            .state
            .keys()
            .map(|request| thinner.bid(*request).unwrap())
            .sum();
        assert_eq!(
            stats.paid + stats.brought,
            stats.spent + stats.forfeited + balances,
            "every unit is counted once"
        );
        let at_server = |stage| stage != Stage::Waiting;
        assert_eq!(
            stats.admitted - stats.done.total(),
            u64::from(self.count(at_server))
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, rng_seed: RngSeed::Fixed(4), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_plain_one(config in auctions(), steps in prop::collection::vec(step(), 1..120)) {
        let mut thinner = Thinner::new(config.clone()).unwrap();
        let mut naive = Naive::new(config);
        let mut ledger = Ledger::default();
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut now = Time::ZERO;
        for Step { gap_ms, input } in steps {
            let until = now + Span::from_millis(gap_ms);
            while let Some(due) = thinner.deadline().filter(|due| *due <= until) {
                now = now.max(due);
                thinner.handle_deadline(now, &mut rng);
                naive.advance(now);
                let outputs = drain(&mut thinner);
                prop_assert_eq!(&outputs, &std::mem::take(&mut naive.outputs));
                ledger.outputs(&outputs);
                ledger.check(&thinner);
            }
            now = until;
            naive.advance(now);
            prop_assert!(naive.outputs.is_empty(), "something was due that no deadline told of");
            thinner.handle(now, input.clone(), &mut rng);
            naive.handle(&input);
            let outputs = drain(&mut thinner);
            prop_assert_eq!(&outputs, &std::mem::take(&mut naive.outputs), "{:?}", input);
            ledger.input(&input);
            ledger.outputs(&outputs);
            ledger.check(&thinner);
            prop_assert_eq!(thinner.price(), naive.price());
            prop_assert!(thinner.contenders() <= thinner.config().contenders);
            for key in (0..KEYS).map(RequestKey) {
                prop_assert_eq!(thinner.bid(key), naive.bid(key), "{:?}", key);
            }
        }
    }
}

fn any_config() -> impl Strategy<Value = Config> {
    let capacity = prop_oneof![
        (50_u32..2_000).prop_map(|rate| Capacity::Rate(f64::from(rate))),
        (1_u32..4).prop_map(Capacity::Concurrency),
        (1_u32..4, 0_u32..8).prop_map(|(least, more)| Capacity::Adaptive {
            least,
            most: least + more
        }),
    ];
    (
        auctions(),
        capacity,
        prop::sample::select(Mode::ALL.to_vec()),
        1_u32..6,
    )
        .prop_map(|(config, capacity, mode, burst)| {
            let rate = matches!(capacity, Capacity::Rate(_));
            Config {
                capacity,
                mode,
                burst: rate.then_some(burst),
                quantum: config.quantum.filter(|_| mode.is_auction() && !rate),
                ..config
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, rng_seed: RngSeed::Fixed(4), failure_persistence: None, ..ProptestConfig::default() })]

    /// The driver is late by up to a few milliseconds, and the configuration changes now and then.
    #[test]
    fn holds_in_every_mode(
        config in any_config(),
        steps in prop::collection::vec((step(), 0_u64..5, prop::option::weighted(0.01, any::<u64>()), prop::option::weighted(0.03, any_config())), 1..200),
        seed in any::<u64>(),
    ) {
        let mut thinner = Thinner::new(config.clone()).unwrap();
        let mut again = Thinner::new(config).unwrap();
        again.handle(Time::from_nanos(5), Input::Pay { request: RequestKey(1), units: 1 }, &mut Pcg64Mcg::seed_from_u64(1));
        again.restart();
        let mut ledger = Ledger::default();
        let mut rngs = [Pcg64Mcg::seed_from_u64(seed), Pcg64Mcg::seed_from_u64(seed)];
        let mut now = Time::ZERO;
        let mut most = thinner.config().contenders;
        for (Step { gap_ms, input }, late_ms, long, config) in steps {
            // Now and then centuries, up to the end of time.
            now = now + Span::from_millis(gap_ms) + Span::from_nanos(long.unwrap_or(0));
            if let Some(due) = thinner.deadline().filter(|due| *due + Span::from_millis(late_ms) <= now) {
                thinner.handle_deadline(due + Span::from_millis(late_ms), &mut rngs[0]);
                again.handle_deadline(due + Span::from_millis(late_ms), &mut rngs[1]);
                let outputs = drain(&mut thinner);
                prop_assert_eq!(&outputs, &drain(&mut again));
                ledger.outputs(&outputs);
                ledger.check(&thinner);
            }
            let input = config.map_or(input, |config| {
                most = most.max(config.contenders);
                Input::Reconfigure(Box::new(config))
            });
            // What is due is done first, so the input meets the state after it.
            thinner.handle_deadline(now, &mut rngs[0]);
            again.handle_deadline(now, &mut rngs[1]);
            let due = drain(&mut thinner);
            prop_assert_eq!(&due, &drain(&mut again));
            ledger.outputs(&due);
            let before = thinner.in_service();
            thinner.handle(now, input.clone(), &mut rngs[0]);
            again.handle(now, input.clone(), &mut rngs[1]);
            let outputs = drain(&mut thinner);
            prop_assert_eq!(&outputs, &drain(&mut again));
            ledger.input(&input);
            ledger.outputs(&outputs);
            ledger.check(&thinner);
            prop_assert!(thinner.contenders() <= most);
            if let Some(limit) = thinner.limit() {
                prop_assert!(thinner.in_service() <= limit.max(before), "{} of {}", thinner.in_service(), limit);
                let holds = thinner.config().mode != Mode::Priced;
                prop_assert!(!holds || thinner.contenders() == 0 || thinner.in_service() >= limit, "a free place while some wait");
            }
            let late = thinner.deadline().is_some_and(|due| due < now);
            prop_assert!(!late || thinner.config().quantum.is_some(), "only a quantum may be overdue");
        }
    }
}
