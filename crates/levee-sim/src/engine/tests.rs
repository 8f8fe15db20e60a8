//! The engine against a naive one, its links against what they promise, its limits.

use levee_policy::{Span, Time};
use proptest::prelude::*;
use rand_core::SeedableRng as _;
use rand_pcg::Pcg64;

use super::link::Impaired;
use super::*;

const ACTOR: ActorId = ActorId(0);
const BOTH: [TieOrder; 2] = [TieOrder::FirstSent, TieOrder::LastSent];

fn nanos(n: u64) -> Span {
    Span::from_nanos(n)
}

/// A scheduler that keeps a sorted list.
struct Naive {
    ties: TieOrder,
    horizon: Time,
    /// Due when, and which; the first at the end.
    list: Vec<(Time, u32)>,
}

impl Naive {
    fn push(&mut self, at: Time, what: u32) {
        if at > self.horizon {
            return;
        }
        let place = match self.ties {
            TieOrder::FirstSent => self.list.partition_point(|(due, _)| *due > at),
            TieOrder::LastSent => self.list.partition_point(|(due, _)| *due >= at),
        };
        self.list.insert(place, (at, what));
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Over a plain link.
    Send(usize),
    /// Over the impaired one.
    Impaired,
    After(u64),
    /// At the time of the last message, or now if that is over.
    Again,
    Take,
}

/// More delays than there are lanes; some links have the same.
const DELAYS: [u64; 12] = [5, 0, 1_000, 5, 70, 64, 100, 1_000_000, 3, 4, 6, 1 << 40];

/// Plays them to both, and then takes what is left.
fn play(ties: TieOrder, horizon: u64, ops: impl Iterator<Item = Op>) {
    let horizon = Time::from_nanos(horizon);
    let mut ours = Scheduler::new(ties);
    ours.set_horizon(horizon);
    let mut naive = Naive {
        ties,
        horizon,
        list: Vec::new(),
    };
    let links = DELAYS.map(|delay| {
        let delay = nanos(delay);
        ours.link(Link { delay })
    });
    let link = ImpairedLink {
        delay: nanos(30),
        jitter: Jitter::Uniform(nanos(100)),
        loss: 0.2,
        reorder: true,
        ..ImpairedLink::default()
    };
    let stream = Streams::new(1, 1).stream("link");
    let mut twin = Impaired::new(link, stream.clone()).unwrap();
    let impaired = ours.impaired_link(link, stream).unwrap();

    let mut last = Time::ZERO;
    let check_take = |ours: &mut Scheduler<u32>, naive: &mut Naive| {
        let expect = naive.list.pop();
        let taken = ours.take().map(|(_, what)| (ours.now(), what));
        assert_eq!(taken, expect, "{ties:?}");
        expect.is_some()
    };
    for (what, op) in (0..).zip(ops) {
        let now = ours.now();
        let at = match op {
            Op::Send(link) => {
                ours.send(links[link], ACTOR, what);
                Some(now + nanos(DELAYS[link]))
            }
            Op::Impaired => {
                ours.send(impaired, ACTOR, what);
                twin.arrival(now, 0)
            }
            Op::After(delay) => {
                ours.after(nanos(delay), ACTOR, what);
                Some(now + nanos(delay))
            }
            Op::Again => {
                ours.at(last, ACTOR, what);
                Some(last.max(now))
            }
            Op::Take => {
                check_take(&mut ours, &mut naive);
                None
            }
        };
        if let Some(at) = at {
            naive.push(at, what);
            last = at;
        }
        assert_eq!(ours.pending(), naive.list.len() as u64);
    }
    while check_take(&mut ours, &mut naive) {}
    assert_eq!(ours.runaway(), None);
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..DELAYS.len()).prop_map(Op::Send),
        Just(Op::Impaired),
        (0..64_u32, any::<u64>()).prop_map(|(bits, delay)| Op::After(delay >> bits)),
        (0..5_u64).prop_map(Op::After),
        Just(Op::Again),
        Just(Op::Take),
        Just(Op::Take),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_is_that_of_a_sorted_list(
        ops in prop::collection::vec(op(), 0..300),
        horizon in prop_oneof![Just(u64::MAX - 1), Just(1_000_000), Just(0)],
    ) {
        for ties in BOTH {
            play(ties, horizon, ops.iter().copied());
        }
    }
}

/// Holds `pending` messages under way, with delays up to `2^bits`, some of them equal.
fn hold(seed: u64, pending: usize, bits: u32) -> impl Iterator<Item = Op> {
    let mut rng = Pcg64::seed_from_u64(seed);
    (0..20_000_usize).map(move |turn| {
        // Swings around it, so that slots fill and run empty.
        let pending = if turn % 5_000 < 2_500 {
            pending
        } else {
            pending / 8
        };
        let draw = rng.next_u64();
        if turn % (pending + 1) == 0 || draw % 16 == 0 {
            Op::Again
        } else if draw % 2 == 0 && turn > pending {
            Op::Take
        } else if draw % 8 == 1 {
            Op::Send((draw >> 8) as usize % DELAYS.len())
        } else {
            Op::After(rng.next_u64() >> (64 - bits))
        }
    })
}

#[test]
fn the_order_is_that_of_a_sorted_list_for_many() {
    for ties in BOTH {
        for (seed, (pending, bits)) in (0..).zip([
            (10, 3),
            (10, 40),
            (200, 6),
            (200, 24),
            (3_000, 12),
            (3_000, 33),
            (3_000, 62),
        ]) {
            play(ties, u64::MAX - 1, hold(seed, pending, bits));
        }
    }
}

#[test]
fn a_far_timer_does_not_lead_the_wheel_past_what_comes_before() {
    // The wheel goes to the far slot, then thousands come before it, at once and then one by one.
    for ties in BOTH {
        let far = [Op::After(1 << 34), Op::Send(2), Op::Take];
        let burst = (0..3_000).map(|n| Op::After(1 + n * 7_919 % (1 << 20)));
        let later = (0..3_000).flat_map(|n| [Op::After(n * n), Op::Take, Op::After(0)]);
        play(
            ties,
            u64::MAX - 1,
            far.into_iter().chain(burst).chain(later),
        );
    }
}

#[test]
fn many_at_one_instant_take_linear_time() {
    // With a look at all of them for each, by a search from the wrong end or by dealing them out again, it would take minutes.
    for ties in BOTH {
        let mut scheduler = Scheduler::new(ties);
        scheduler.after(nanos(10), ACTOR, 0);
        scheduler.after(nanos(5), ACTOR, 0);
        scheduler.take();
        let n = 300_000_u32;
        for what in 1..n {
            scheduler.at(Time::from_nanos(10), ACTOR, what);
        }
        let mut taken = 0;
        for what in n..2 * n {
            taken += u32::from(scheduler.take().is_some());
            scheduler.after(Span::ZERO, ACTOR, what);
        }
        while scheduler.take().is_some() {
            taken += 1;
        }
        assert_eq!((taken, scheduler.now()), (2 * n, Time::from_nanos(10)));
    }
}

/// Actors that pass messages on at random, and write down what comes.
struct Gossip {
    run: u64,
    actors: Vec<Pcg64>,
    link: LinkId,
    lossy: LinkId,
    log: Vec<(u64, u32, u32)>,
}

impl Gossip {
    fn new() -> Self {
        Self {
            run: 0,
            actors: Vec::new(),
            link: LinkId::default(),
            lossy: LinkId::default(),
            log: Vec::new(),
        }
    }
}

impl Model for Gossip {
    type Message = u32;

    fn start(&mut self, scheduler: &mut Scheduler<u32>) {
        let streams = Streams::new(7, self.run);
        self.log.clear();
        self.actors.clear();
        self.actors
            .extend((0..20).map(|actor| streams.stream_of("actor", actor)));
        self.link = scheduler.link(Link {
            delay: nanos(1_000),
        });
        let lossy = ImpairedLink {
            delay: nanos(500),
            jitter: Jitter::Exponential(nanos(2_000)),
            loss: 0.05,
            rate: Some(Rate {
                bytes_per_s: 10_000_000_000,
                queue_bytes: 10_000,
            }),
            reorder: false,
        };
        let stream = streams.stream("lossy");
        self.lossy = scheduler.impaired_link(lossy, stream).unwrap();
        for actor in 0..20 {
            scheduler.after(nanos(u64::from(actor) / 3), ActorId(actor), actor);
        }
    }

    fn deliver(&mut self, to: ActorId, message: u32, scheduler: &mut Scheduler<u32>) {
        self.log.push((scheduler.now().as_nanos(), to.0, message));
        let draw = self.actors[to.0 as usize].next_u64();
        let next = ActorId((draw >> 32) as u32 % 20);
        match draw % 4 {
            0 => scheduler.send(self.link, next, message + 1),
            1 => scheduler.send_sized(self.lossy, next, message + 1, draw as u32 % 1_500),
            2 => scheduler.after(nanos(draw >> 50), next, message + 1),
            _ => {
                scheduler.after(Span::ZERO, next, message + 1);
                if draw % 16 == 3 {
                    scheduler.send(self.link, next, 0);
                }
            }
        }
    }
}

fn gossip(simulation: &mut Simulation<Gossip>, run: u64) -> Vec<(u64, u32, u32)> {
    simulation.restart(|model| model.run = run);
    simulation.run().unwrap();
    simulation.model.log.clone()
}

#[test]
fn a_run_depends_on_its_number_alone() {
    for ties in BOTH {
        let new = || Simulation::new(Gossip::new(), Time::from_nanos(100_000), ties);
        let mut used = new();
        let first = gossip(&mut used, 3);
        assert!(first.len() > 1_000, "{}", first.len());
        assert_ne!(gossip(&mut used, 4), first);
        // Left in the middle.
        used.restart(|model| model.run = 5);
        for _ in 0..500 {
            used.step();
        }
        assert_eq!(gossip(&mut used, 3), first);
        assert_eq!(gossip(&mut new(), 3), first);
        let elsewhere =
            std::thread::scope(|scope| scope.spawn(|| gossip(&mut new(), 3)).join().unwrap());
        assert_eq!(elsewhere, first);
    }
}

#[test]
fn steps_see_what_a_run_sees() {
    let mut simulation =
        Simulation::new(Gossip::new(), Time::from_nanos(50_000), TieOrder::FirstSent);
    let run = gossip(&mut simulation, 1);
    simulation.restart(|model| model.run = 1);
    let mut times = vec![];
    while simulation.step() {
        times.push(simulation.now().as_nanos());
    }
    assert_eq!(simulation.delivered(), times.len() as u64);
    assert_eq!(times, run.iter().map(|(at, ..)| *at).collect::<Vec<_>>());
    assert_eq!(simulation.now(), Time::from_nanos(50_000));
}

/// Sends `count` messages of 100 bytes over a link, `gap` apart, and gives their arrivals by number.
fn arrivals(link: ImpairedLink, count: u32, gap: u64) -> (Vec<Option<u64>>, Traffic) {
    let mut scheduler = Scheduler::new(TieOrder::FirstSent);
    let stream = Streams::new(1, 0).stream("link");
    let link = scheduler.impaired_link(link, stream).unwrap();
    let clock = scheduler.link(Link { delay: nanos(gap) });
    let mut arrived = vec![None; count as usize];
    scheduler.after(Span::ZERO, ActorId(1), 0);
    while let Some((to, message)) = scheduler.take() {
        if to == ACTOR {
            arrived[message as usize] = Some(scheduler.now().as_nanos());
            continue;
        }
        scheduler.send_sized(link, ACTOR, message, 100);
        if message + 1 < count {
            scheduler.send(clock, ActorId(1), message + 1);
        }
    }
    let traffic = scheduler.traffic(link);
    assert_eq!(traffic.sent, u64::from(count));
    (arrived, traffic)
}

#[test]
fn a_rate_spaces_messages_and_drops_what_does_not_fit() {
    // 100 bytes at 1 GB/s take 100 ns.
    let link = |queue_bytes| ImpairedLink {
        delay: nanos(1_000),
        rate: Some(Rate {
            bytes_per_s: 1_000_000_000,
            queue_bytes,
        }),
        ..ImpairedLink::default()
    };
    let some = |times: &[u64]| times.iter().copied().map(Some).collect::<Vec<_>>();
    let all_at_once = arrivals(link(1_000), 5, 0).0;
    assert_eq!(all_at_once, some(&[1_100, 1_200, 1_300, 1_400, 1_500]));
    let apart = arrivals(link(1_000), 3, 250).0;
    assert_eq!(apart, some(&[1_100, 1_350, 1_600]));
    // Every 50 ns one comes, every 100 ns one goes: the queue holds two.
    let (arrived, traffic) = arrivals(link(200), 6, 50);
    assert_eq!(
        arrived,
        [
            Some(1_100),
            Some(1_200),
            Some(1_300),
            None,
            Some(1_400),
            None
        ]
    );
    assert_eq!(traffic.dropped, 2);
    // A byte less, and the second has no room.
    assert_eq!(arrivals(link(199), 2, 0).1.dropped, 1);
    assert_eq!(arrivals(link(99), 2, 0).1.dropped, 2);
}

#[test]
fn loss_and_jitter_are_what_they_say() {
    let n = 100_000;
    let sqrt_n = f64::from(n).sqrt();
    for (jitter, mean, deviation) in [
        (Jitter::None, 0.0, 0.0),
        (Jitter::Uniform(nanos(600)), 300.0, 600.0 / 12_f64.sqrt()),
        (Jitter::Exponential(nanos(600)), 600.0, 600.0),
    ] {
        let link = ImpairedLink {
            delay: nanos(1_000),
            jitter,
            loss: 0.1,
            reorder: true,
            ..ImpairedLink::default()
        };
        let (arrived, traffic) = arrivals(link, n, 100);
        let extra: Vec<f64> = (0..)
            .zip(&arrived)
            .filter_map(|(sent, at)| at.map(|at| (at - sent * 100) as f64 - 1_000.0))
            .collect();
        assert_eq!(traffic.lost as usize, n as usize - extra.len());
        let lost = traffic.lost as f64 / f64::from(n);
        assert!((lost - 0.1).abs() < 5.0 * 0.3 / sqrt_n, "{lost}");
        let average = extra.iter().sum::<f64>() / extra.len() as f64;
        // 0.5 for the nanosecond that it is rounded to.
        let tolerance = 5.0 * deviation / (extra.len() as f64).sqrt() + 0.5;
        assert!((average - mean).abs() < tolerance, "{jitter:?}: {average}");
        assert!(extra.iter().all(|extra| *extra >= 0.0));

        // Another loss, the same jitter.
        let (again, _) = arrivals(ImpairedLink { loss: 0.0, ..link }, n, 100);
        for (one, other) in arrived.iter().zip(&again) {
            assert!(other.is_some() && (one.is_none() || one == other));
        }
    }
}

#[test]
fn a_link_is_first_in_first_out_unless_it_may_reorder() {
    let link = |reorder| ImpairedLink {
        delay: nanos(1_000),
        jitter: Jitter::Exponential(nanos(500)),
        loss: 0.2,
        reorder,
        ..ImpairedLink::default()
    };
    let in_order = |reorder| {
        let (arrived, _) = arrivals(link(reorder), 2_000, 50);
        arrived.into_iter().flatten().is_sorted()
    };
    assert!(in_order(false));
    assert!(!in_order(true));

    // At one time too: messages that are held back to one arrival keep their order.
    let mut scheduler = Scheduler::new(TieOrder::FirstSent);
    let stream = Streams::new(1, 0).stream("link");
    let link = scheduler.impaired_link(link(false), stream).unwrap();
    (0..1_000).for_each(|n| scheduler.send(link, ACTOR, n));
    let taken: Vec<u32> = std::iter::from_fn(|| scheduler.take().map(|(_, n)| n)).collect();
    assert!(taken.len() > 700 && taken.is_sorted());
}

#[test]
fn a_loss_of_all_or_of_none_is_exact() {
    for (loss, lost) in [(0.0, 0), (1.0, 1_000)] {
        let link = ImpairedLink {
            loss,
            ..ImpairedLink::default()
        };
        assert_eq!(arrivals(link, 1_000, 1).1.lost, lost);
    }
}

#[test]
fn a_link_that_cannot_be_is_refused() {
    let check = |link: ImpairedLink, expect: &str| {
        let mut scheduler = Scheduler::<u32>::new(TieOrder::FirstSent);
        let stream = Streams::new(1, 0).stream("link");
        let error = scheduler.impaired_link(link, stream).unwrap_err();
        assert_eq!(error.to_string(), expect);
    };
    let plain = ImpairedLink::default();
    for (loss, shown) in [(-0.1, "-0.1"), (1.1, "1.1"), (f64::NAN, "NaN")] {
        let expect = format!("the loss of a link is {shown}: expected a share from 0 to 1");
        check(ImpairedLink { loss, ..plain }, &expect);
    }
    let rate = Some(Rate {
        bytes_per_s: 0,
        queue_bytes: 10,
    });
    check(
        ImpairedLink { rate, ..plain },
        "the rate of a link is 0 bytes per second: expected at least 1, or no rate for a link without one",
    );
}

/// Answers each message with `copies` after `delay`.
struct Echo {
    delay: Span,
    copies: u32,
}

impl Model for Echo {
    type Message = ();

    fn start(&mut self, scheduler: &mut Scheduler<()>) {
        scheduler.after(nanos(5), ACTOR, ());
    }

    fn deliver(&mut self, to: ActorId, (): (), scheduler: &mut Scheduler<()>) {
        for _ in 0..self.copies {
            scheduler.after(self.delay, to, ());
        }
    }
}

fn echo(delay: u64, copies: u32, horizon: Time) -> Simulation<Echo> {
    let delay = nanos(delay);
    Simulation::new(Echo { delay, copies }, horizon, TieOrder::FirstSent).with_limits(Limits {
        at_one_instant: 1_000,
        pending: 500,
        delivered: 5_000,
    })
}

#[test]
fn a_run_without_end_is_stopped_and_says_why() {
    for (delay, copies, delivered, expect) in [
        (0, 1, 1_000, "more than 1000 messages at the one time 5ns"),
        (7, 2, 500, "more than 500 messages are under way at 61ns"),
        (1, 1, 5_000, "more than 5000 messages by"),
    ] {
        let mut simulation = echo(delay, copies, Time::MAX);
        let error = simulation.run().unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
        assert_eq!(simulation.runaway(), Some(error));
        assert_eq!(simulation.delivered(), delivered);
        // It stays so, and a restart forgets it.
        let now = simulation.now();
        assert!(!simulation.step() && simulation.now() == now);
        simulation.restart(|echo| echo.copies = 0);
        assert_eq!(simulation.run(), Ok(()));
        assert_eq!(simulation.delivered(), 1);
    }
}

#[test]
fn a_run_within_its_limits_ends_at_the_horizon() {
    // At 5, 6, ... 5004: 5,000 messages; then one more.
    for (horizon, ends) in [(5_004, true), (5_005, false)] {
        let horizon = Time::from_nanos(horizon);
        let mut simulation = echo(1, 1, horizon);
        assert_eq!(simulation.run().is_ok(), ends);
        assert_eq!(simulation.delivered(), 5_000);
        assert_eq!(simulation.now(), horizon);
    }
}

#[test]
fn the_end_of_time_is_never() {
    for ties in BOTH {
        let mut scheduler = Scheduler::new(ties);
        let link = scheduler.link(Link { delay: Span::MAX });
        scheduler.after(nanos(5), ACTOR, 1);
        scheduler.after(nanos(u64::MAX - 1), ACTOR, 2);
        scheduler.after(Span::MAX, ACTOR, 3);
        scheduler.send(link, ACTOR, 4);
        scheduler.at(Time::MAX, ACTOR, 5);
        assert_eq!(scheduler.take(), Some((ACTOR, 1)));
        scheduler.after(nanos(u64::MAX - 2), ACTOR, 6);
        assert_eq!(scheduler.take(), Some((ACTOR, 2)));
        assert_eq!(scheduler.now(), Time::from_nanos(u64::MAX - 1));
        assert_eq!(scheduler.take(), None);
    }
}

#[test]
fn what_is_due_at_the_horizon_is_handed_over_and_what_is_due_after_it_is_not() {
    for (horizon, delivered) in [(4, 0), (5, 1)] {
        let mut simulation = echo(1, 0, Time::from_nanos(horizon));
        simulation.run().unwrap();
        assert_eq!(simulation.delivered(), delivered);
        assert_eq!(simulation.now(), Time::from_nanos(horizon));
    }
}

#[test]
fn what_is_due_in_the_past_is_due_now() {
    for ties in BOTH {
        let mut scheduler = Scheduler::new(ties);
        scheduler.after(nanos(5), ACTOR, 1);
        scheduler.take();
        scheduler.at(Time::from_nanos(3), ACTOR, 2);
        assert_eq!(scheduler.take(), Some((ACTOR, 2)));
        assert_eq!(scheduler.now(), Time::from_nanos(5));
    }
}
