//! One rule a test: what the thinner does, told as an operator would tell it.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use levee_policy::{
    Identity, Span, StateMachine, Time,
    thinner::{
        Arrival, Capacity, Config, Input, Mode, Outcome, Output, RefuseCause, RequestKey,
        TRACKED_BEYOND, Thinner,
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
        self.until(Time::from_nanos(ms * 1_000_000))
    }

    fn until(&mut self, now: Time) -> Vec<Output> {
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
    desk.at(1_000);
    for request in 1..=4 {
        desk.arrive(request);
    }
    assert_eq!(desk.pay(4, 100), []);
    // One that came before, was refused and comes again has its old turn.
    desk.at(1_500);
    desk.arrive_with(5, 400_000_000, true);
    desk.arrive_with(6, 500_000_001, true);
    for (last, next, waited) in [(1, 6, 0), (6, 2, 500), (2, 3, 500), (3, 4, 500), (4, 5, 0)] {
        assert_eq!(desk.done(last), [admit(next, 0, waited)]);
    }
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

#[test]
fn the_lowest_bid_makes_room_for_a_newcomer_but_none_of_the_newest_quarter() {
    let mut desk = Desk::new(Config {
        contenders: 8,
        ..Config::of(Capacity::Concurrency(1))
    });
    desk.arrive(0);
    for request in 1..=8 {
        assert_eq!(desk.arrive(request), [hold(request)]);
    }
    for (request, units) in [(1, 5), (2, 3), (3, 3), (4, 9), (5, 9), (6, 9)] {
        desk.pay(request, units);
    }
    // 7 and 8 have paid nothing, but are the newest quarter: 2 is the oldest of those that have paid least.
    assert_eq!(
        desk.arrive(9),
        [refuse(2, RefuseCause::Crowded, 1_000, 10), hold(9)]
    );
    // Now 8 and 9 are.
    assert_eq!(
        desk.arrive(10),
        [refuse(7, RefuseCause::Crowded, 1_000, 10), hold(10)]
    );
    desk.pay(8, 100);
    desk.pay(9, 4);
    assert_eq!(
        desk.arrive(11),
        [refuse(3, RefuseCause::Crowded, 1_000, 101), hold(11)]
    );
    assert_eq!(desk.thinner.contenders(), 8);
}

#[test]
fn a_full_queue_refuses_who_came_last() {
    let mut desk = Desk::new(Config {
        mode: Mode::Queue,
        contenders: 2,
        ..Config::of(Capacity::Concurrency(1))
    });
    desk.at(1_000);
    for request in 1..=3 {
        desk.arrive(request);
    }
    let crowded = |request| refuse(request, RefuseCause::Crowded, 1_000, 0);
    assert_eq!(desk.arrive(4), [crowded(4)]);
    assert_eq!(desk.arrive_with(5, 1, true), [crowded(3), hold(5)]);
    assert_eq!(desk.done(1), [admit(5, 0, 0)]);
    assert_eq!(desk.done(5), [admit(2, 0, 0)]);
}

/// A million spoofed requests that pay nothing, and a client that pays a little each round trip: it is served, and nothing grows.
#[test]
fn a_flood_that_pays_nothing_fills_no_table_and_locks_no_payer_out() {
    for capacity in [Capacity::Rate(100.0), Capacity::Concurrency(10)] {
        let mut desk = Desk::new(Config {
            contenders: 1_000,
            ..Config::of(capacity)
        });
        let mut served = 0;
        let mut payer = None;
        let mut at_server = Vec::new();
        // 100,000 a second for 3 s; the client pays each 1 ms, within the 250 arrivals for which it is young.
        let mut outputs = Vec::new();
        for ms in 0..3_000 {
            outputs.extend(desk.at(ms));
            for request in 0..100 {
                outputs.extend(desk.arrive(1_000_000 + ms * 100 + request));
            }
            let client = *payer.get_or_insert_with(|| {
                outputs.extend(desk.arrive(ms));
                ms
            });
            desk.pay(client, 1);
            for output in outputs.drain(..) {
                match output {
                    Output::Admit { request, .. } => {
                        at_server.push(request.0);
                        if request.0 == client {
                            served += 1;
                            payer = None;
                        }
                    }
                    Output::Refuse { request, .. } => {
                        assert_ne!(request.0, client, "the only one that pays is turned away");
                    }
                    _ => {}
                }
            }
            // A place is free again after 50 ms or so.
            if ms % 5 == 0 && !at_server.is_empty() {
                let request = at_server.remove(0);
                outputs = desk.done(request);
            }
            assert!(desk.thinner.contenders() <= 1_000);
        }
        // It is the only bidder, so each auction is its own, but for those at first when the burst is worked off.
        assert!(served >= 280, "{capacity:?}: {served}");
        let stats = desk.thinner.stats();
        assert!(stats.refused.crowded > 290_000, "{stats:?}");
    }
}

#[test]
fn the_price_is_told_and_who_has_paid_it_is_admitted() {
    // A server of 100 a second, asked 500 times a second by requests that cannot wait.
    let mut desk = Desk::of(Mode::Priced, Capacity::Rate(100.0));
    let mut admitted = 0;
    for request in 0..10_000 {
        desk.at(2 * request);
        let outputs = desk.arrive_with(request, 0, false);
        admitted += u64::from(matches!(outputs[..], [Output::Admit { .. }]));
    }
    // Nobody pays, so the server idles, and the price comes down until someone needs no more than one request.
    let Output::Refuse {
        cause: RefuseCause::Unpaid,
        retry_after,
        price,
        ..
    } = desk.arrive_with(20_000, 0, false)[0]
    else {
        panic!("refused for less than the price");
    };
    assert!(retry_after.is_zero());
    assert_eq!(price, desk.thinner.price());
    assert!(price > 1 && price <= 5, "{price}");
    // The request itself counts as one.
    let unpaid = desk.arrive_with(20_001, price - 2, false);
    assert!(matches!(unpaid[..], [Output::Refuse { .. }]), "{unpaid:?}");
    assert_eq!(
        desk.arrive_with(20_002, price - 1, false),
        [admit(20_002, price, 0)]
    );
    // The server takes the next one after a hundredth of a second.
    desk.at(20_008);
    let price = desk.thinner.price();
    assert!(price > 1, "{price}");
    assert_eq!(desk.arrive_with(20_003, 0, true), [hold(20_003)]);
    assert_eq!(desk.pay(20_003, price - 1), [admit(20_003, price, 0)]);
    assert!(admitted > 0);
}

/// Demand goes through the capacity of 100 a second, up and down.
#[test]
fn an_overload_begins_at_the_capacity_and_ends_below_nine_tenths_of_it() {
    for mode in Mode::ALL {
        let mut desk = Desk::of(mode, Capacity::Rate(100.0));
        let mut request = 0;
        let mut run = |desk: &mut Desk, seconds: u64, per_second: u64| {
            let mut states = Vec::new();
            for _ in 0..seconds * per_second {
                request += 1;
                desk.until(desk.now + Span::from_nanos(1_000_000_000 / per_second));
                desk.arrive_with(request, 0, true);
                states.push(desk.thinner.is_overloaded());
            }
            states
        };
        let calm = run(&mut desk, 20, 90);
        assert!(calm.iter().all(|overloaded| !overloaded), "{mode:?}");
        let high = run(&mut desk, 20, 125);
        assert!(
            high[high.len() / 2..].iter().all(|overloaded| *overloaded),
            "{mode:?}"
        );
        // Between nine tenths and all of the capacity it stays as it is.
        let between = run(&mut desk, 20, 95);
        assert!(between.iter().all(|overloaded| *overloaded), "{mode:?}");
        // Those that wait are served or refused first.
        let low = run(&mut desk, 60, 80);
        eprintln!(
            "{mode:?} {} {} {} {}",
            desk.thinner.contenders(),
            desk.thinner.price(),
            desk.thinner.inbound_rate(),
            desk.thinner.admission_rate()
        );
        assert!(!low[low.len() - 1], "{mode:?}");
        let ended = low.iter().position(|overloaded| !overloaded).unwrap();
        assert!(
            low[ended..].iter().all(|overloaded| !overloaded),
            "{mode:?}: it flaps"
        );
        assert_eq!(desk.thinner.stats().overloads, 1, "{mode:?}");
        assert_eq!(desk.thinner.contenders(), 0);
    }
}

fn quanta(suspended_ms: u64) -> Desk {
    Desk::new(Config {
        quantum: Some(Span::from_millis(10)),
        suspended: Span::from_millis(suspended_ms),
        ..Config::of(Capacity::Concurrency(1))
    })
}

fn suspend(request: u64) -> Output {
    Output::Suspend {
        request: RequestKey(request),
    }
}

fn resume(request: u64, price: u64) -> Output {
    Output::Resume {
        request: RequestKey(request),
        price,
    }
}

fn abort(request: u64) -> Output {
    Output::Abort {
        request: RequestKey(request),
    }
}

#[test]
fn at_the_end_of_a_quantum_who_has_paid_more_gets_the_server() {
    let mut desk = quanta(100);
    assert_eq!(desk.arrive(1), [admit(1, 0, 0)]);
    assert_eq!(desk.arrive(2), [hold(2)]);
    desk.pay(2, 5);
    // One in service pays on; it keeps the server, and its balance is spent.
    desk.pay(1, 5);
    assert_eq!(desk.at(10), []);
    assert_eq!(desk.thinner.bid(RequestKey(1)), Some(0));
    desk.pay(1, 4);
    assert_eq!(desk.at(19), []);
    assert_eq!(desk.at(20), [suspend(1), admit(2, 5, 20)]);
    // The loser keeps its balance, and wins when the other pays no more.
    assert_eq!(desk.thinner.bid(RequestKey(1)), Some(4));
    assert_eq!(desk.at(30), [suspend(2), resume(1, 4)]);
    // A place that becomes free goes to the best contender, be it suspended.
    assert_eq!(desk.done(1), [resume(2, 0)]);
    assert_eq!(desk.done(2), []);
    let stats = desk.thinner.stats();
    assert_eq!((stats.suspended, stats.resumed, stats.renewed), (2, 2, 1));
    assert_eq!((stats.paid, stats.spent, stats.forfeited), (14, 14, 0));
}

#[test]
fn what_stays_suspended_for_too_long_is_aborted() {
    let mut desk = quanta(25);
    desk.arrive(1);
    desk.arrive(2);
    desk.pay(2, 5);
    assert_eq!(desk.at(10), [suspend(1), admit(2, 5, 10)]);
    for ms in [20, 30] {
        desk.pay(2, 5);
        assert_eq!(desk.at(ms), []);
    }
    assert_eq!(desk.at(35), [abort(1)]);
    assert_eq!(
        (desk.thinner.contenders(), desk.thinner.in_service()),
        (0, 1)
    );
    assert_eq!(desk.done(1), []);
    assert_eq!(desk.done(2), []);
    assert_eq!(desk.thinner.stats().ignored.unknown_ends, 0);
}

#[test]
fn a_server_that_cannot_suspend_aborts_and_its_place_is_free_when_it_has_let_go() {
    let mut desk = quanta(0);
    desk.arrive(1);
    desk.arrive(2);
    desk.pay(2, 5);
    assert_eq!(desk.at(10), [abort(1)]);
    assert_eq!(
        (desk.thinner.contenders(), desk.thinner.in_service()),
        (1, 1)
    );
    desk.at(12);
    assert_eq!(desk.done(1), [admit(2, 5, 12)]);
}

/// Clients that pay at the same rate; the requests of half of them take ten quanta, of the others one. By the quantum each has
/// half of the server, so that the long ones are served a tenth as often and pay ten times as much.
#[test]
fn a_request_that_costs_ten_times_as_much_pays_ten_times_as_much() {
    const CLIENTS: u64 = 40;
    let mut desk = quanta(60_000);
    // Request `n` of a client is `n * CLIENTS + client`; odd clients ask for ten quanta of 10 ms.
    let cost = |request: u64| if request % CLIENTS % 2 == 1 { 100 } else { 10 };
    let mut left = std::collections::BTreeMap::new();
    let mut current: Vec<u64> = (0..CLIENTS).collect();
    let (mut paid, mut served) = ([0_u64; 2], [0_u64; 2]);
    let mut active = None;
    let mut obey = |active: &mut Option<(u64, u64)>, outputs: Vec<Output>| {
        for output in outputs {
            match output {
                Output::Admit { request, .. } => *active = Some((request.0, cost(request.0))),
                Output::Resume { request, .. } => {
                    *active = Some((request.0, left.remove(&request.0).unwrap()));
                }
                Output::Suspend { request } => {
                    let (suspended, ms) = active.take().unwrap();
                    assert_eq!(request.0, suspended);
                    left.insert(suspended, ms);
                }
                Output::Hold { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    };
    for request in 0..CLIENTS {
        obey(&mut active, desk.arrive(request));
    }
    for ms in 0..100_000 {
        obey(&mut active, desk.at(ms));
        // A little apart, so that no two bids are the same.
        for client in 0..CLIENTS {
            let units = 50 + client;
            paid[client as usize % 2] += units;
            desk.pay(current[client as usize], units);
        }
        let (request, work) = active.as_mut().unwrap();
        *work -= 1;
        if *work == 0 {
            // Just before the quantum is over.
            desk.now = desk.now + Span::from_nanos(999_999);
            let request = *request;
            let client = (request % CLIENTS) as usize;
            served[client % 2] += 1;
            current[client] = request + CLIENTS;
            obey(&mut active, desk.done(request));
            obey(&mut active, desk.arrive(request + CLIENTS));
        }
    }
    let each = |side: usize| paid[side] as f64 / served[side] as f64;
    let ratio = each(1) / each(0);
    // What a client pays while it has the server is lost with the end of a short request, one part in `CLIENTS`, and the bids are
    // as coarse as a quantum's units.
    assert!((ratio - 10.0).abs() <= 0.5, "{ratio}, {served:?}");
}

#[test]
fn requests_survive_a_new_configuration_and_bids_of_another_currency_do_not() {
    let mut desk = Desk::of(Mode::Auction, Capacity::Concurrency(1));
    for request in 1..=3 {
        desk.arrive(request);
    }
    desk.pay(3, 9);
    let reconfigure = |desk: &mut Desk, mode, limit, patience_ms| {
        let config = Config {
            mode,
            patience: Span::from_millis(patience_ms),
            ..Config::of(Capacity::Concurrency(limit))
        };
        desk.input(Input::Reconfigure(Box::new(config)))
    };
    assert_eq!(reconfigure(&mut desk, Mode::Auction, 0, 10_000), []);
    assert_eq!(desk.thinner.stats().reconfigure_rejected, 1);
    assert_eq!(reconfigure(&mut desk, Mode::Auction, 1, 5_000), []);
    assert_eq!(desk.thinner.bid(RequestKey(3)), Some(9));
    assert_eq!(
        reconfigure(&mut desk, Mode::ProofOfWork, 2, 5_000),
        [admit(2, 0, 0)]
    );
    assert_eq!(desk.thinner.stats().forfeited, 9);
    // Those that wait are served before newcomers, in a mode where nobody waits too.
    assert_eq!(reconfigure(&mut desk, Mode::Random, 2, 5_000), []);
    assert_eq!(desk.arrive(4), [refuse(4, RefuseCause::Drawn, 1_000, 0)]);
    assert_eq!(desk.done(1), [admit(3, 0, 0)]);
    assert_eq!(desk.at(5_000), []);
    assert_eq!(desk.thinner.contenders(), 0);
}

#[test]
fn what_does_not_fit_is_counted_and_has_no_effect() {
    let mut desk = Desk::of(Mode::Auction, Capacity::Concurrency(1));
    desk.arrive(1);
    desk.arrive(2);
    for outputs in [
        desk.arrive(1),
        desk.arrive(2),
        desk.pay(1, 5),
        desk.pay(9, 5),
        desk.leave(1),
        desk.leave(9),
        desk.done(2),
        desk.done(9),
    ] {
        assert_eq!(outputs, []);
    }
    let ignored = desk.thinner.stats().ignored;
    assert_eq!(
        (
            ignored.duplicate_arrivals,
            ignored.late_payments,
            ignored.late_leaves,
            ignored.unknown_ends
        ),
        (2, 2, 2, 2)
    );
    assert_eq!(
        (desk.thinner.contenders(), desk.thinner.in_service()),
        (1, 1)
    );
}

#[test]
fn with_a_rate_requests_beyond_the_bound_pass_untracked() {
    let mut desk = Desk::new(Config {
        contenders: 1,
        ..Config::of(Capacity::Rate(1e6))
    });
    let bound = u64::from(TRACKED_BEYOND) + 1;
    for request in 0..bound + 10 {
        desk.now = Time::from_nanos(request * 1_000);
        let outputs = desk.arrive(request);
        assert!(
            matches!(outputs[..], [Output::Admit { .. }]),
            "{request}: {outputs:?}"
        );
    }
    let stats = desk.thinner.stats();
    assert_eq!((stats.untracked, stats.admitted), (10, bound + 10));
    assert_eq!(u64::from(desk.thinner.in_service()), bound);
}

#[test]
fn fairness_is_told_by_group() {
    let mut desk = Desk::of(Mode::Auction, Capacity::Concurrency(1_000));
    for request in 0..400 {
        desk.input(Input::Arrive(Arrival {
            request: RequestKey(request),
            paid: 2,
            can_wait: true,
            group: (request % 4 != 0).then_some(Identity(request % 4)),
        }));
    }
    let fairness = desk.thinner.fairness();
    assert_eq!((fairness.admitted.total, fairness.paid.total), (300, 600));
    assert_eq!(fairness.admitted.top.len(), 3);
    for top in fairness.admitted.top {
        assert_eq!((top.least, top.most), (1.0 / 3.0, 1.0 / 3.0));
    }
    assert!(fairness.paid.jain > 0.9, "{}", fairness.paid.jain);
}
