//! One rule a test: what the thinner does, told as an operator would tell it.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use levee_policy::{
    Span, StateMachine, Time,
    thinner::{
        Arrival, Capacity, Config, Input, Mode, Outcome, Output, RefuseCause, RequestKey, Thinner,
    },
};
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;

struct Desk {
    thinner: Thinner,
    rng: Pcg64Mcg,
    now: Time,
}

impl Desk {
    fn new(config: Config) -> Self {
        Self {
            thinner: Thinner::new(config).unwrap(),
            rng: Pcg64Mcg::seed_from_u64(1),
            now: Time::ZERO,
        }
    }

    fn of(mode: Mode, capacity: Capacity) -> Self {
        Self::new(Config {
            mode,
            ..Config::of(capacity)
        })
    }

    /// Goes on to a time, and takes what is due on the way.
    fn at(&mut self, ms: u64) -> Vec<Output> {
        let now = Time::from_nanos(ms * 1_000_000);
        let mut outputs = Vec::new();
        while let Some(due) = self.thinner.deadline().filter(|due| *due <= now) {
            self.now = due;
            self.thinner.handle_deadline(due, &mut self.rng);
            outputs.extend(self.drain());
        }
        self.now = now;
        outputs
    }

    fn drain(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.thinner.poll_output()).collect()
    }

    fn input(&mut self, input: Input) -> Vec<Output> {
        self.thinner.handle(self.now, input, &mut self.rng);
        self.drain()
    }

    fn arrive(&mut self, request: u64) -> Vec<Output> {
        self.arrive_with(request, 0, true)
    }

    fn arrive_with(&mut self, request: u64, paid: u64, can_wait: bool) -> Vec<Output> {
        self.input(Input::Arrive(Arrival {
            request: RequestKey(request),
            paid,
            can_wait,
            group: None,
        }))
    }

    fn pay(&mut self, request: u64, units: u64) -> Vec<Output> {
        self.input(Input::Pay {
            request: RequestKey(request),
            units,
        })
    }

    fn leave(&mut self, request: u64) -> Vec<Output> {
        self.input(Input::Leave {
            request: RequestKey(request),
        })
    }

    fn done(&mut self, request: u64) -> Vec<Output> {
        self.input(Input::Done {
            request: RequestKey(request),
            outcome: Outcome::Answered,
        })
    }
}

fn admit(request: u64, price: u64, waited_ms: u64) -> Output {
    Output::Admit {
        request: RequestKey(request),
        price,
        waited: Span::from_millis(waited_ms),
    }
}

fn hold(request: u64) -> Output {
    Output::Hold {
        request: RequestKey(request),
    }
}

fn refuse(request: u64, cause: RefuseCause, retry_ms: u64, price: u64) -> Output {
    Output::Refuse {
        request: RequestKey(request),
        cause,
        retry_after: Span::from_millis(retry_ms),
        price,
    }
}

#[test]
fn below_capacity_nobody_waits_or_pays_in_any_mode() {
    for mode in Mode::ALL {
        for capacity in [Capacity::Rate(100.0), Capacity::Concurrency(2)] {
            let mut desk = Desk::of(mode, capacity);
            for request in 0..500 {
                desk.at(request * 11);
                let outputs = desk.arrive_with(request, 0, request % 2 == 0);
                assert!(
                    matches!(outputs[..], [Output::Admit { waited, .. }] if waited.is_zero()),
                    "{mode:?} {capacity:?} {outputs:?}"
                );
                assert!(!desk.thinner.is_overloaded());
                assert_eq!(desk.thinner.deadline(), None);
                assert_eq!(desk.done(request), []);
            }
        }
    }
}

#[test]
fn the_highest_bid_wins_the_place_and_pays_it() {
    let mut desk = Desk::of(Mode::Auction, Capacity::Concurrency(1));
    assert_eq!(desk.arrive(1), [admit(1, 0, 0)]);
    assert!(!desk.thinner.is_overloaded());
    for request in [2, 3, 4] {
        assert_eq!(desk.arrive(request), [hold(request)]);
    }
    assert!(desk.thinner.is_overloaded());
    desk.at(5);
    for (request, units) in [(2, 10), (3, 15), (2, 4)] {
        assert_eq!(desk.pay(request, units), []);
    }
    assert_eq!(desk.thinner.price(), 16);
    assert_eq!(desk.done(1), [admit(3, 15, 5)]);
    // The losers keep what they have paid, and the oldest of equals goes first.
    desk.pay(4, 14);
    assert_eq!(desk.done(3), [admit(2, 14, 5)]);
    assert_eq!(desk.done(2), [admit(4, 14, 5)]);
    assert_eq!(desk.done(4), []);
}

#[test]
fn with_a_rate_the_auctions_are_held_at_regular_intervals() {
    let mut desk = Desk::new(Config {
        burst: Some(2),
        ..Config::of(Capacity::Rate(100.0))
    });
    assert_eq!(desk.arrive(1), [admit(1, 0, 0)]);
    assert_eq!(desk.arrive(2), [admit(2, 0, 0)]);
    for request in [3, 4, 5] {
        assert_eq!(desk.arrive(request), [hold(request)]);
    }
    desk.pay(5, 1);
    assert_eq!(desk.at(19), []);
    assert_eq!(desk.at(20), [admit(5, 1, 20)]);
    // The driver is late: two places are due.
    desk.now = Time::from_nanos(43_000_000);
    assert_eq!(desk.arrive(6), [admit(3, 0, 43), admit(4, 0, 43), hold(6)]);
    assert_eq!(desk.at(49), []);
    assert_eq!(desk.at(50), [admit(6, 0, 7)]);
}

#[test]
fn who_has_waited_long_enough_is_refused_and_who_leaves_is_forgotten() {
    let mut desk = Desk::of(Mode::Auction, Capacity::Concurrency(1));
    desk.arrive(1);
    desk.at(1_000);
    desk.arrive(2);
    desk.arrive(3);
    desk.pay(3, 7);
    assert_eq!(desk.leave(3), []);
    assert_eq!(desk.thinner.contenders(), 1);
    assert_eq!(desk.at(10_999), []);
    assert_eq!(desk.at(11_000), [refuse(2, RefuseCause::Outbid, 1_000, 0)]);
    assert_eq!(desk.done(1), []);
    let stats = desk.thinner.stats();
    assert_eq!((stats.paid, stats.forfeited, stats.left), (7, 7, 1));
}

#[test]
fn the_queue_serves_in_the_order_of_arrival_whatever_is_paid() {
    let mut desk = Desk::of(Mode::Queue, Capacity::Concurrency(1));
    desk.arrive(1);
    desk.arrive(2);
    desk.arrive_with(3, 100, true);
    desk.pay(3, 100);
    assert_eq!(desk.done(1), [admit(2, 0, 0)]);
    assert_eq!(desk.done(2), [admit(3, 0, 0)]);
}

#[test]
fn a_refused_request_retries_at_once_in_retry_and_not_in_random() {
    for (mode, retry_ms) in [(Mode::Random, 1_000), (Mode::Retry, 0)] {
        let mut desk = Desk::of(mode, Capacity::Concurrency(1));
        desk.arrive(1);
        let price = u64::from(mode == Mode::Retry);
        assert_eq!(
            desk.arrive(2),
            [refuse(2, RefuseCause::Drawn, retry_ms, price)]
        );
        desk.done(1);
        assert!(matches!(desk.arrive(3)[..], [Output::Admit { .. }]));
    }
}
