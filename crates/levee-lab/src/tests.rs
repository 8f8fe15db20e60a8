//! Calls from end to end over real sockets: callers, server and callee, and a relay that loses datagrams.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64;

use crate::callee::{Callee, CalleeConfig, CalleeResult, Register};
use crate::driver::{Role, Running, bind};
use crate::lane::{LaneConfig, LaneResult, RunningLane};
use crate::load::{Load, LoadConfig, LoadResult};
use crate::outcome::{Board, Outcome};
use crate::pbx::{HeldSeries, Pbx, PbxConfig, PbxResult};
use crate::stats::Share;
use crate::ua::{Outbox, TransactionTimers};
use levee_sim::schedule::{Arrivals, Calls, Durations, Kind, Plan, Stream};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn plan(honest: f64, attacker: f64, mean: Duration, until: Duration) -> Plan {
    let stream = |rate, durations| Stream {
        calls: Calls::Rate(rate),
        durations,
        callers: 1_000_000,
    };
    Plan {
        honest: stream(honest, Some(Durations::Exponential(mean))),
        attacker: stream(attacker, None),
        arrivals: Arrivals::Poisson,
        until,
        seed: 1,
    }
}

fn count(load: &LoadResult, kind: Kind, outcome: Outcome, from: Duration) -> u64 {
    let of =
        |c: &&crate::outcome::CallRecord| c.kind == kind && c.outcome == outcome && c.start >= from;
    load.calls.iter().filter(of).count() as u64
}

fn run(config: &LaneConfig) -> LaneResult {
    let result = RunningLane::start(config).unwrap().wait().unwrap();
    assert_eq!(result.pbx.held, 0, "the server still holds calls");
    assert_eq!(result.callee.held, 0, "the callee still holds calls");
    assert_eq!(result.load.traffic.malformed, 0);
    assert_eq!(result.pbx.traffic.malformed, 0);
    assert_eq!(result.callee.traffic.malformed, 0);
    result
}

#[test]
fn all_honest_calls_are_complete_when_there_is_room() {
    let mut config = LaneConfig::new(1_000, plan(200.0, 0.0, ms(50), ms(2_000)));
    config.ring = ms(5);
    let result = run(&config);
    let n = result.load.calls.len() as u64;
    assert!(n > 300, "{n}");
    let complete = count(
        &result.load,
        Kind::Honest,
        Outcome::Complete,
        Duration::ZERO,
    );
    assert_eq!(complete, n);
    assert_eq!((result.pbx.answered, result.callee.confirmed), (n, n));
    assert_eq!(result.pbx.ended_by_caller, n);
    assert_eq!(result.callee.bye_answered, n);
    assert_eq!(result.load.bye_failed, 0);
    // A call that ended before the horizon got what it wanted, to the precision of the machine's timers.
    for call in result.load.calls.iter().filter(|c| !c.still_connected) {
        let wanted = call.wanted.unwrap();
        assert!(call.got >= wanted, "{call:?}");
        assert!(call.setup.unwrap() >= ms(5), "{call:?}");
    }
}

#[test]
fn an_overloaded_server_blocks_as_erlang_says() {
    // 12 Erlang on 8 lines: 41.9% blocked. Ringing holds a line too, so it is part of the offered load.
    let (rate, ring, mean) = (240.0, ms(10), ms(40));
    let mut config = LaneConfig::new(8, plan(rate, 0.0, mean, ms(5_000)));
    config.ring = ring;
    let result = run(&config);
    // From ten mean calls on, the start from an empty server is forgotten.
    let warm: Vec<_> = result
        .load
        .calls
        .iter()
        .filter(|c| c.start >= ms(500))
        .collect();
    let n = warm.len() as f64;
    let blocked = warm.iter().filter(|c| c.status == 503).count() as f64;
    let expected = levee_sim::erlang::blocking(8, rate * (ring + mean).as_secs_f64());
    // Blocked arrivals come in clusters of about a mean call: n / (1 + offered load) independent ones, 5 standard errors.
    let error = (expected * (1.0 - expected) / (n / 13.0)).sqrt();
    assert!(
        (blocked / n - expected).abs() < 5.0 * error,
        "{} of {n}, expected {expected} within {error}",
        blocked / n
    );
    assert!(error < 0.06, "too few calls to tell anything");
    assert_eq!(result.pbx.held_max, 8);
}

#[test]
fn attackers_starve_a_bare_server() {
    let mut config = LaneConfig::new(8, plan(60.0, 60.0, ms(60), ms(3_000)));
    config.ring = ms(5);
    let result = run(&config);
    let half = ms(1_500);
    let of = |outcome| count(&result.load, Kind::Honest, outcome, half);
    let all = of(Outcome::Complete) + of(Outcome::Incomplete) + of(Outcome::Unsuccessful);
    let share = Share::of(of(Outcome::Complete), all).unwrap();
    assert!(all > 50 && share.estimate == 0.0, "{share:?}");
    let stayed = count(
        &result.load,
        Kind::Attacker,
        Outcome::Complete,
        Duration::ZERO,
    );
    assert_eq!(stayed, 8, "each place is an attacker's");
}

#[test]
fn a_refused_attacker_calls_again_only_when_told_to() {
    let mut config = LaneConfig::new(2, plan(0.0, 20.0, ms(60), ms(1_000)));
    config.ring = Duration::ZERO;
    let once = run(&config).load.calls.len();
    assert_eq!(once, config.plan.schedule().count());
    config.redial = Some(ms(20));
    let again = run(&config).load.calls.len();
    assert!(again > 3 * once, "{again} after {once}");
}

/// A server and a callee for tests that need other callers.
struct Bench {
    epoch: Instant,
    server: SocketAddr,
    pbx: Running<Pbx>,
    callee: Running<Callee>,
}

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Bench {
    fn start(
        timers: TransactionTimers,
        pbx: impl FnOnce(&mut PbxConfig),
        callee: impl FnOnce(&mut CalleeConfig, SocketAddr),
    ) -> Self {
        let epoch = Instant::now();
        let (server, answers) = (bind(ANY).unwrap(), bind(ANY).unwrap());
        let (at, callee_at) = (server.local_addr().unwrap(), answers.local_addr().unwrap());
        let mut callee_config = CalleeConfig {
            timers,
            ..CalleeConfig::default()
        };
        callee(&mut callee_config, at);
        let mut config = PbxConfig {
            timers,
            ..PbxConfig::new(100, callee_at)
        };
        pbx(&mut config);
        let role = Pbx::new(at, config, HeldSeries::default());
        let pbx = Running::start("server", server, epoch, role).unwrap();
        let role = Callee::new(callee_at, callee_config);
        let callee = Running::start("callee", answers, epoch, role).unwrap();
        Self {
            epoch,
            server: at,
            pbx,
            callee,
        }
    }

    fn callers(
        &self,
        next_hop: SocketAddr,
        plan: &Plan,
        change: impl FnOnce(&mut LoadConfig),
    ) -> Running<Load> {
        let socket = bind(ANY).unwrap();
        let mut config = LoadConfig::new(next_hop, self.server, plan.until);
        change(&mut config);
        let local = socket.local_addr().unwrap();
        let load = Load::new(local, config, plan.schedule(), Board::default());
        Running::start("callers", socket, self.epoch, load).unwrap()
    }

    fn stop(self) -> (PbxResult, CalleeResult) {
        let pbx = self.pbx.stop().unwrap().result();
        (pbx, self.callee.stop().unwrap().result())
    }
}

fn wait(load: Running<Load>) -> LoadResult {
    while !load.is_finished() {
        std::thread::sleep(ms(5));
    }
    load.stop().unwrap().into_result()
}

#[test]
fn a_callee_that_hangs_up_cuts_the_call() {
    let bench = Bench::start(
        TransactionTimers::default(),
        |_| {},
        |c, _| c.hang_up_after = Some(ms(50)),
    );
    let mut plan = plan(50.0, 0.0, ms(1), ms(1_000));
    plan.honest.durations = Some(Durations::Fixed(Duration::from_secs(60)));
    let load = wait(bench.callers(bench.server, &plan, |_| {}));
    let n = load.calls.len() as u64;
    let cut = count(&load, Kind::Honest, Outcome::Incomplete, Duration::ZERO);
    let still = count(&load, Kind::Honest, Outcome::Complete, Duration::ZERO);
    assert!(cut > 0 && cut + still == n, "{cut} + {still} of {n}");
    let (pbx, callee) = bench.stop();
    assert_eq!(
        (pbx.ended_by_callee, load.bye_answered, pbx.bye_failed),
        (n, n, 0)
    );
    assert_eq!((pbx.held, callee.held), (0, 0));
}

#[test]
fn a_caller_that_gives_up_cancels() {
    let bench = Bench::start(
        TransactionTimers::default(),
        |_| {},
        |c, _| c.ring = Duration::from_secs(30),
    );
    let load = wait(
        bench.callers(bench.server, &plan(50.0, 0.0, ms(1), ms(600)), |c| {
            c.ring_timeout = ms(100);
        }),
    );
    let n = load.calls.len() as u64;
    assert!(n > 10);
    assert!(load.calls.iter().all(|c| c.status == 487), "{load:?}");
    let (pbx, callee) = bench.stop();
    assert_eq!((pbx.cancelled, callee.cancelled), (n, n));
    assert_eq!((pbx.held, callee.held), (0, 0));
}

#[test]
fn refusals_reach_the_caller() {
    let bench = Bench::start(
        TransactionTimers::default(),
        |_| {},
        |c, _| c.refuse = Some(486),
    );
    let load = wait(bench.callers(bench.server, &plan(50.0, 0.0, ms(1), ms(400)), |_| {}));
    assert!(load.calls.iter().all(|c| c.status == 486));
    let (pbx, _) = bench.stop();
    assert_eq!((pbx.failed, pbx.held), (load.calls.len() as u64, 0));
}

/// Lets roles talk in virtual time, without sockets: a datagram arrives at once.
fn talk(until: Duration, roles: &mut [(SocketAddr, &mut dyn Role)]) {
    let (mut now, mut out) = (Duration::ZERO, Outbox::default());
    let mut wire = std::collections::VecDeque::new();
    while now < until {
        for (from, role) in roles.iter_mut() {
            role.tick(now, &mut out);
            wire.extend(out.iter().map(|(to, d)| (*from, to, d.to_vec())));
            out.clear();
        }
        while let Some((from, to, datagram)) = wire.pop_front() {
            let Some((_, role)) = roles.iter_mut().find(|(at, _)| *at == to) else {
                continue;
            };
            role.receive(now, from, &datagram, &mut out);
            wire.extend(out.iter().map(|(next, d)| (to, next, d.to_vec())));
            out.clear();
        }
        let next = roles.iter().filter_map(|(_, role)| role.deadline()).min();
        now = next.unwrap_or(until);
    }
}

#[test]
fn only_registered_users_are_found_without_a_default_route() {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let (callers, server, answers) = (at(1), at(2), at(3));
    let users = 5_000;
    let callee = CalleeConfig {
        register: Some(Register {
            server,
            next_hop: server,
            users,
        }),
        ..CalleeConfig::default()
    };
    let mut callee = Callee::new(answers, callee);
    let pbx = PbxConfig {
        default_route: None,
        ..PbxConfig::new(100, answers)
    };
    let mut pbx = Pbx::new(server, pbx, HeldSeries::default());
    let plan = plan(200.0, 0.0, ms(1), ms(7_000));
    let load = LoadConfig::new(server, server, plan.until);
    let mut load = Load::new(callers, load, plan.schedule(), Board::default());
    talk(
        Duration::from_secs(60),
        &mut [
            (callers, &mut load),
            (server, &mut pbx),
            (answers, &mut callee),
        ],
    );
    assert_eq!(callee.result().registered, u64::from(users));
    assert_eq!(pbx.result().contacts, u64::from(users));
    // A user registers each millisecond: by 5 s all have.
    let calls = load.into_result().calls;
    let (mut found, mut not_found) = (0, 0);
    for (arrival, call) in plan.schedule().zip(&calls) {
        if arrival.at >= ms(5_000) {
            let known = arrival.callee < users;
            assert_eq!(call.status, if known { 200 } else { 404 }, "{arrival:?}");
            found += u32::from(known);
            not_found += u32::from(!known);
        }
    }
    assert!(found > 100 && not_found > 100, "{found} {not_found}");
}

#[test]
fn a_run_that_is_stopped_counts_what_is_connected() {
    let config = LaneConfig::new(1_000, plan(0.0, 50.0, ms(1), Duration::from_secs(3_600)));
    let lane = RunningLane::start(&config).unwrap();
    while lane.board().last().attacker.in_call < 10 {
        std::thread::sleep(ms(5));
    }
    let load = lane.finish().unwrap().load;
    let connected = load.calls.iter().filter(|c| c.setup.is_some());
    let (mut n, mut longest) = (0, Duration::ZERO);
    for call in connected {
        assert_eq!(
            (call.outcome, call.still_connected),
            (Outcome::Complete, true)
        );
        longest = longest.max(call.got);
        n += 1;
    }
    assert!(n >= 10 && longest > ms(100), "{n} {longest:?}");
}

#[test]
fn a_server_that_is_gone_is_given_up_after_64_t1() {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // One call, at 1 s.
    let mut plan = plan(1.0, 0.0, ms(1), ms(1_500));
    plan.arrivals = Arrivals::Even;
    let mut config = LoadConfig::new(at(2), at(2), Duration::from_secs(60));
    config.ring_timeout = Duration::from_secs(300);
    let mut load = Load::new(at(1), config, plan.schedule(), Board::default());
    talk(Duration::from_secs(100), &mut [(at(1), &mut load)]);
    let result = load.into_result();
    // Timer A: sendings at 0, 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 s (RFC 3261 section 17.1.1.2).
    assert_eq!(
        (result.calls[0].status, result.traffic.retransmitted),
        (408, 6)
    );
}

/// Passes datagrams between callers and a server, and loses some. It puts itself into the Contact of each, so that the
/// requests inside a dialog come its way too.
struct Lossy {
    own: SocketAddr,
    server: SocketAddr,
    caller: Option<SocketAddr>,
    loss: f64,
    rng: Pcg64,
    lost: u64,
}

impl Role for Lossy {
    fn receive(&mut self, _: Duration, from: SocketAddr, datagram: &[u8], out: &mut Outbox) {
        let to = if from == self.server {
            self.caller
        } else {
            self.caller = Some(from);
            Some(self.server)
        };
        if f64::from(self.rng.next_u32()) < self.loss * f64::from(u32::MAX) {
            self.lost += 1;
        } else if let Some(to) = to {
            let text = String::from_utf8(datagram.to_vec()).unwrap();
            let lines = text.split_inclusive("\r\n").map(|line| {
                if line.starts_with("Contact:") {
                    line.replace(&from.to_string(), &self.own.to_string())
                } else {
                    line.to_owned()
                }
            });
            out.push(to, lines.collect::<String>().as_bytes());
        }
    }

    fn tick(&mut self, _: Duration, _: &mut Outbox) {}

    fn deadline(&self) -> Option<Duration> {
        None
    }
}

#[test]
fn one_datagram_in_five_may_be_lost() {
    // A tenth of RFC 3261's T1, so that the test is short; the ratios of the timers stay.
    let timers = TransactionTimers {
        t1: ms(50),
        t2: ms(400),
        t4: ms(500),
    };
    let bench = Bench::start(timers, |_| {}, |c, _| c.ring = ms(10));
    let socket = bind(ANY).unwrap();
    let relay_at = socket.local_addr().unwrap();
    let relay = Lossy {
        own: relay_at,
        server: bench.server,
        caller: None,
        loss: 0.2,
        rng: Pcg64::seed_from_u64(5),
        lost: 0,
    };
    let relay = Running::start("relay", socket, bench.epoch, relay).unwrap();
    // All calls end well before the horizon, so that each BYE has its time.
    let mut plan = plan(100.0, 0.0, ms(1), ms(5_000));
    plan.honest.durations = Some(Durations::Fixed(ms(300)));
    let mut first_second = plan.clone();
    first_second.until = ms(1_000);
    let load = wait(bench.callers(relay_at, &first_second, |c| {
        c.horizon = plan.until;
        c.timers = timers;
        // A lost CANCEL or BYE must not be hidden by the end of the run.
        c.grace = ms(1_000);
    }));
    let n = load.calls.len() as u64;
    assert!(n > 60, "{n}");
    // RFC 3261 gives a message 7 sendings of an INVITE and 11 of a BYE in 64 T1: all lost with 0.2^7 for a way.
    let complete = count(&load, Kind::Honest, Outcome::Complete, Duration::ZERO);
    assert_eq!(complete, n, "{:?}", load.calls);
    assert_eq!(load.bye_failed, 0);
    let lost = relay.stop().unwrap().lost;
    let (pbx, callee) = bench.stop();
    assert!(lost > n / 2, "{lost}");
    assert!(load.traffic.retransmitted + pbx.traffic.retransmitted > lost / 2);
    assert!(pbx.traffic.repeats > 0 && load.traffic.repeats > 0);
    // Repeats made no second call, and no call was left over.
    assert_eq!((pbx.invited, callee.invited, pbx.answered), (n, n, n));
    assert_eq!((pbx.held, callee.held), (0, 0));
}

#[test]
fn levee_in_the_middle_keeps_honest_calls_alive() {
    // The load of the demo, ten times as fast.
    let mut config = LaneConfig::new(24, plan(25.5, 25.5, ms(300), ms(6_000)));
    config.ring = ms(10);
    let bare = run(&config);
    let mut defense = levee_policy::selective::Config {
        round: levee_policy::Span::from_millis(10),
        ..Default::default()
    };
    defense.drop_factor.mean_call = levee_policy::Span::from_millis(300);
    config.defense = Some(defense);
    let defended = run(&config);
    let share = |result: &LaneResult| {
        let of = |o| count(&result.load, Kind::Honest, o, ms(3_000));
        let all = of(Outcome::Complete) + of(Outcome::Incomplete) + of(Outcome::Unsuccessful);
        Share::of(of(Outcome::Complete), all).unwrap()
    };
    assert!(share(&bare).estimate < 0.05, "{:?}", share(&bare));
    assert!(share(&defended).estimate > 0.7, "{:?}", share(&defended));
    let front = defended.front.unwrap();
    let all = |kind| count(&defended.load, kind, Outcome::Incomplete, Duration::ZERO);
    let cut = all(Kind::Honest) + all(Kind::Attacker);
    // A BYE of the front to each end cuts a call, unless its caller has just hung up itself. That is no count of evictions:
    // a call whose 200 has passed and whose ACK has not is evicted as a waiting one, and is cut after its ACK.
    let to_callers = cut + defended.load.bye_crossed;
    // The callee alone gets one when its 200 crossed our CANCEL: the caller was told 503.
    let crossed_cancel = front.bye_sent.checked_sub(2 * to_callers).unwrap();
    assert!(
        crossed_cancel <= front.evicted_waiting,
        "{} BYEs sent, {cut} cut, {} evicted waiting",
        front.bye_sent,
        front.evicted_waiting
    );
    assert!(front.evicted_in_call + front.evicted_waiting >= cut);
    // Both ends of each evicted call said 200 to the front's BYE, or had said BYE themselves.
    assert_eq!(front.bye_timeout, 0);
    assert_eq!(
        defended.pbx.refused_full, 0,
        "the front never sent more than k"
    );
}

/// Callers, and all that they said.
struct Tapped {
    load: Load,
    said: Vec<(Duration, String)>,
}

impl Tapped {
    fn pass_on(&mut self, now: Duration, own: &Outbox, out: &mut Outbox) {
        for (to, datagram) in own.iter() {
            self.said.push((now, without_names(datagram)));
            out.push(to, datagram);
        }
    }
}

impl Role for Tapped {
    fn receive(&mut self, now: Duration, from: SocketAddr, datagram: &[u8], out: &mut Outbox) {
        let mut own = Outbox::default();
        self.load.receive(now, from, datagram, &mut own);
        self.pass_on(now, &own, out);
    }

    fn tick(&mut self, now: Duration, out: &mut Outbox) {
        let mut own = Outbox::default();
        self.load.tick(now, &mut own);
        self.pass_on(now, &own, out);
    }

    fn deadline(&self) -> Option<Duration> {
        self.load.deadline()
    }
}

/// A message with its tags, which are 16 hexadecimal digits or more, and the number called taken out.
fn without_names(datagram: &[u8]) -> String {
    let text = String::from_utf8(datagram.to_vec()).unwrap();
    let mut found = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| !matches!(c, '0'..='9' | 'a'..='f'));
        let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
        if run.len() >= 16 {
            found.push_str("TAG");
            rest = after;
        } else if found.ends_with("sip:t") && !run.is_empty() {
            found.push('N');
            rest = after;
        } else {
            let whole = run.len().max(first.len_utf8());
            found.push_str(&rest[..whole]);
            rest = &rest[whole..];
        }
    }
    found
}

#[test]
fn both_kinds_of_call_say_the_same_at_the_same_times() {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let said = |kind: Kind| {
        let mut plan = plan(0.0, 0.0, ms(1), ms(1_000));
        plan.arrivals = Arrivals::Even;
        let stream = match kind {
            Kind::Honest => &mut plan.honest,
            Kind::Attacker => &mut plan.attacker,
        };
        (stream.calls, stream.callers) = (Calls::Rate(50.0), 1);
        // Honest callers that would hang up after the run.
        plan.honest.durations = Some(Durations::Fixed(Duration::from_secs(60)));
        let config = CalleeConfig {
            ring: ms(30),
            ..CalleeConfig::default()
        };
        let mut callee = Callee::new(at(3), config);
        // Room for half of them, so that refusals are seen too.
        let config = PbxConfig::new(25, at(3));
        let mut pbx = Pbx::new(at(2), config, HeldSeries::default());
        let load = LoadConfig::new(at(2), at(2), plan.until);
        let mut callers = Tapped {
            load: Load::new(at(1), load, plan.schedule(), Board::default()),
            said: Vec::new(),
        };
        talk(
            ms(999),
            &mut [
                (at(1), &mut callers),
                (at(2), &mut pbx),
                (at(3), &mut callee),
            ],
        );
        callers.said
    };
    let honest = said(Kind::Honest);
    let acks = honest.iter().filter(|(_, m)| m.starts_with("ACK "));
    let invites = honest.iter().filter(|(_, m)| m.starts_with("INVITE "));
    // 25 are answered and the others refused; both are acknowledged.
    assert_eq!((invites.count(), acks.count()), (49, 49));
    assert_eq!(honest, said(Kind::Attacker));
}
