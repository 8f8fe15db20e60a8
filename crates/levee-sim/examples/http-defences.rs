//! Prints the tables of docs/model-http.md: the share of honest clients that are served, for each slow attack and defence.
//!
//! `cargo run --release -p levee-sim --example http-defences [RUNS [TEXT]]`, 20 runs unless given, and of all defences or those that
//! have this text in their names.
#![expect(
    clippy::unwrap_used,
    reason = "an example stops at what it did not expect"
)]

use std::time::Duration;

use levee_policy::Span;
use levee_policy::selective::{Config, DropFactor, Kind, Strategy, phases_of_http};
use levee_sim::engine::{Simulation, TieOrder};
use levee_sim::model::Observed as _;
use levee_sim::model::http::{
    Attack, AttackKind, Bandwidth, Clients, Drip, Fixed, Http, InCall, Setup, Slow, Timeouts,
};
use levee_sim::schedule::{Arrivals, Calls, Durations, Plan, Stream};

/// 100 places; 20 honest clients a second that take 0.3 s of work each, a tenth of them on a bad line.
fn service() -> Setup {
    let stream = |rate, durations| Stream {
        calls: Calls::Rate(rate),
        durations,
        callers: 100_000_000,
    };
    let work = Durations::Exponential(Duration::from_millis(300));
    Setup {
        capacity: 100,
        backlog: 0,
        send_buffer: 65_536,
        segment: 16_384,
        timeouts: Timeouts::default(),
        defense: None,
        in_call: InCall::Request,
        delay: Span::from_millis(25),
        warmup: Span::from_secs(120),
        plan: Plan {
            honest: stream(20.0, Some(work)),
            attacker: stream(0.0, None),
            arrivals: Arrivals::Poisson,
            until: Duration::from_secs(600),
            seed: 1,
        },
        clients: Clients {
            headers: 600,
            header_pieces: 1,
            body: 0,
            response: 50_000,
            bandwidth: Bandwidth {
                up: 125_000.0,
                down: 625_000.0,
            },
            slow: Some(Slow {
                share: 0.1,
                bandwidth: Bandwidth {
                    up: 200.0,
                    down: 4_000.0,
                },
            }),
            patience: Some(Span::from_secs(30)),
            retries: 0,
            retry_wait: Span::ZERO,
        },
        attack: Attack {
            kind: AttackKind::Connect,
            fixed: None,
            redial: None,
            response: 1_000_000,
            service: Span::from_millis(300),
        },
    }
}

fn attacks() -> [(&'static str, AttackKind); 5] {
    let drip = |every, bytes| Drip {
        every: Span::from_millis(every),
        bytes,
    };
    [
        ("connect", AttackKind::Connect),
        ("Slowloris", AttackKind::Slowloris(drip(4_000, 20))),
        ("slow POST", AttackKind::SlowPost(drip(500, 1))),
        ("slow read", AttackKind::SlowRead(drip(1_000, 100))),
        ("GET flood", AttackKind::GetFlood),
    ]
}

type Change = Box<dyn Fn(&mut Setup)>;

fn defences() -> Vec<(&'static str, Change)> {
    fn seven(setup: &mut Setup, strategy: Strategy) {
        setup.defense = Some(Config {
            strategy,
            drop_factor: DropFactor {
                mean_call: setup.mean_connection(),
                ..DropFactor::default()
            },
            ..Config::of_kind(Kind::Seven)
        });
    }
    fn by_source(setup: &mut Setup, addresses: u32) {
        setup.plan.attacker.callers = addresses;
        setup.defense = Some(Config {
            calls_per_source: Some(10),
            ..Config::of_kind(Kind::Refuse)
        });
    }
    fn phases(setup: &mut Setup, strategy: Strategy) {
        setup.defense = Some(Config {
            strategy,
            phases: phases_of_http(),
            ..Config::of_kind(Kind::Seven)
        });
    }
    fn short_rounds(setup: &mut Setup) {
        if let Some(defense) = &mut setup.defense {
            defense.round = Span::from_millis(10);
        }
    }
    let tournament = Strategy::Tournament { size: None };
    vec![
        ("none", Box::new(|_: &mut Setup| {})),
        (
            "nginx's timeouts",
            Box::new(|s| s.timeouts = Timeouts::nginx()),
        ),
        (
            "Apache's timeouts",
            Box::new(|s| s.timeouts = Timeouts::apache()),
        ),
        (
            "HAProxy's timeouts",
            Box::new(|s| s.timeouts = Timeouts::haproxy()),
        ),
        ("10 a source, 5 addresses", Box::new(|s| by_source(s, 5))),
        (
            "10 a source, 1,000 addresses",
            Box::new(|s| by_source(s, 1_000)),
        ),
        ("SeVen, uniform", Box::new(|s| seven(s, Strategy::Uniform))),
        (
            "SeVen, roulette",
            Box::new(|s| seven(s, Strategy::Roulette)),
        ),
        ("SeVen, tournament", Box::new(move |s| seven(s, tournament))),
        (
            "SeVen, roulette, by age alone",
            Box::new(|s| {
                seven(s, Strategy::Roulette);
                s.in_call = InCall::Accept;
            }),
        ),
        (
            "SeVen, tournament, by age alone",
            Box::new(move |s| {
                seven(s, tournament);
                s.in_call = InCall::Accept;
            }),
        ),
        (
            "SeVen, roulette, by phase and progress",
            Box::new(|s| phases(s, Strategy::Roulette)),
        ),
        (
            "SeVen, tournament, by phase and progress",
            Box::new(move |s| phases(s, tournament)),
        ),
        (
            "SeVen, tournament, rounds of 10 ms",
            Box::new(move |s| {
                seven(s, tournament);
                short_rounds(s);
            }),
        ),
        (
            "SeVen, roulette, by phase and progress, rounds of 10 ms",
            Box::new(|s| {
                phases(s, Strategy::Roulette);
                short_rounds(s);
            }),
        ),
        (
            "SeVen, tournament, by phase and progress, rounds of 10 ms",
            Box::new(move |s| {
                phases(s, tournament);
                short_rounds(s);
            }),
        ),
        (
            "SeVen, roulette, with HAProxy's timeouts",
            Box::new(|s| {
                seven(s, Strategy::Roulette);
                s.timeouts = Timeouts::haproxy();
            }),
        ),
    ]
}

fn populations() -> Vec<(&'static str, Change)> {
    vec![
        (
            "Attackers come at 20 a second and stay as long as they can; who is refused or dropped does not come back",
            Box::new(|s: &mut Setup| s.plan.attacker.calls = Calls::Rate(20.0)),
        ),
        (
            "400 attackers, each back one second after it was refused or dropped",
            Box::new(|s| {
                s.attack.fixed = Some(Fixed {
                    attackers: 400,
                    ramp: Span::from_secs(1),
                });
                s.attack.redial = Some(Span::from_secs(1));
            }),
        ),
    ]
}

/// Share of the clients that are served, with the half-width of its 95% interval (delta method), in percent; places that
/// attackers hold; events.
fn measure(setup: Setup, runs: u64) -> (f64, f64, f64, u64) {
    let index = |name: &str| Http::observables().iter().position(|o| o.name == name);
    let [served, failed, held] = [
        "client.served",
        "client.failed",
        "attacker.connections_mean",
    ]
    .map(|name| index(name).unwrap());
    let model = Http::new(setup).unwrap();
    let end = model.end();
    let mut simulation = Simulation::new(model, end, TieOrder::FirstSent);
    let (mut rows, mut places, mut events) = (Vec::new(), 0.0, 0);
    for run in 0..runs {
        simulation.restart(|model| model.restart(run));
        simulation.run().unwrap();
        let get = |index| simulation.model.observe(simulation.now(), index);
        rows.push((get(served), get(served) + get(failed)));
        places += get(held) / runs as f64;
        events += simulation.delivered();
    }
    let n = runs as f64;
    let (a, b) = rows.iter().fold((0.0, 0.0), |s, r| (s.0 + r.0, s.1 + r.1));
    let share = a / b;
    let squares: f64 = rows.iter().map(|r| (r.0 - share * r.1).powi(2)).sum();
    let error = (squares / (n - 1.0) / n).sqrt() / (b / n);
    // Student's t of 19 degrees of freedom; of more it is a little less.
    (100.0 * share, 100.0 * 2.093 * error, places, events)
}

fn main() {
    let runs = std::env::args().nth(1).map_or(20, |n| n.parse().unwrap());
    let only = std::env::args().nth(2).unwrap_or_default();
    let names: Vec<_> = attacks().iter().map(|(name, _)| *name).collect();
    let mut events = 0;
    println!("mean_call {}\n", service().mean_connection());
    for (who, populate) in populations() {
        println!("{who}.\n");
        println!("| defence | {} |", names.join(" | "));
        println!("|---|{}", "---|".repeat(names.len()));
        for (name, defend) in defences() {
            if !name.contains(&only) {
                continue;
            }
            print!("| {name} |");
            for (_, kind) in attacks() {
                let mut setup = service();
                setup.attack.kind = kind;
                populate(&mut setup);
                defend(&mut setup);
                let (share, half_width, places, delivered) = measure(setup, runs);
                print!(" {share:.1} ± {half_width:.1} ({places:.0}) |");
                events += delivered;
            }
            println!();
        }
        println!();
    }
    println!("{events} events");
}
