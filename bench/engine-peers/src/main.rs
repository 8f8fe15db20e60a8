//! Levee's engine beside nexosim, on one queueing model: M/M/k/k, in turns, in one process.
//!
//! Two actors: a source of calls and a server with k lines. Each call is a timer of the source, a message to the server,
//! and, if it is taken, a timer of the server; each of these is an event, on both engines. Both models draw from the same
//! random streams, so they meet the same calls, and must block the same share of them.
//!
//! nexosim runs with one thread: with more it would be slower, for only one actor acts at a time. A figure is events per
//! second of processor time, so that other work on the machine counts little.

mod levee;
mod nexo;

use std::process::ExitCode;

use cpu_time::ProcessTime;
use rand_core::Rng;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

const USAGE: &str = "\
Levee's engine beside nexosim on M/M/k/k: events per second of processor time.

usage: bench/engine [--turns N] [--events N] [--json]
  --turns N    runs of each engine, in turns; a figure is their median (default: 7)
  --events N   events of a run, about (default: 2000000)
  --json       print one JSON document instead of a table";

const TURNS_MAX: usize = 1_000;
const EVENTS_MAX: f64 = 1e10;

/// A server with k lines.
#[derive(Clone, Copy)]
struct Setup {
    lines: u32,
    /// Calls a second.
    rate: f64,
    /// Mean call, in seconds.
    mean_s: f64,
    /// Virtual time, in seconds.
    horizon_s: f64,
    seed: u64,
}

impl Setup {
    /// The load per line of the M/M/24/24 with 4.75 arrivals a second and a mean of 5 s.
    fn new(lines: u32, events: f64) -> Self {
        let rate = 4.75 * f64::from(lines) / 24.0;
        Self {
            lines,
            rate,
            mean_s: 5.0,
            // Three events a call.
            horizon_s: events / (3.0 * rate),
            seed: 0,
        }
    }

    /// A stream for the gaps between calls, and one for their lengths.
    fn streams(&self) -> [Pcg64; 2] {
        let streams = levee_sim::engine::Streams::new(self.seed, 0);
        [streams.stream("gaps"), streams.stream("lengths")]
    }
}

/// Nanoseconds, at least one, exponential with this mean in seconds.
fn exponential_ns(mean_s: f64, rng: &mut impl Rng) -> u64 {
    let unit = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    ((-mean_s * (1.0 - unit).ln() * 1e9) as u64).max(1)
}

/// What the server saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Counts {
    calls: u64,
    blocked: u64,
    ended: u64,
}

impl Counts {
    /// A timer and a message for each call, a timer for each that was taken.
    fn events(&self) -> u64 {
        2 * self.calls + self.ended
    }

    fn blocking(&self) -> f64 {
        self.blocked as f64 / self.calls as f64
    }
}

/// One engine's turns.
#[derive(Default)]
struct Turns {
    events_per_s: Vec<f64>,
    counts: Vec<Counts>,
}

impl Turns {
    fn turn(&mut self, run: impl FnOnce() -> Counts) {
        let begun = ProcessTime::now();
        let counts = run();
        let took = begun.elapsed().as_secs_f64();
        self.events_per_s.push(counts.events() as f64 / took);
        self.counts.push(counts);
    }

    fn median(&self) -> f64 {
        let mut all = self.events_per_s.clone();
        all.sort_by(f64::total_cmp);
        let n = all.len();
        (all[(n - 1) / 2] + all[n / 2]) / 2.0
    }

    fn total(&self) -> Counts {
        self.counts
            .iter()
            .fold(Counts::default(), |sum, one| Counts {
                calls: sum.calls + one.calls,
                blocked: sum.blocked + one.blocked,
                ended: sum.ended + one.ended,
            })
    }
}

#[derive(Serialize)]
struct Engine {
    events_per_s: f64,
    turns: Vec<f64>,
    blocking: f64,
}

#[derive(Serialize)]
struct Point {
    lines: u32,
    calls: u64,
    levee: Engine,
    nexosim: Engine,
    ratio: f64,
    /// Of the long run; a run that begins empty and ends soon blocks less.
    erlang_b: f64,
}

fn point(setup: Setup, turns: usize) -> Result<Point, String> {
    let (mut ours, mut theirs) = (Turns::default(), Turns::default());
    for turn in 0..turns {
        let setup = Setup {
            seed: turn as u64,
            ..setup
        };
        ours.turn(|| levee::run(setup));
        theirs.turn(|| nexo::run(setup));
    }
    let (one, other) = (ours.total(), theirs.total());
    // The calls are the same ones. Two events in one nanosecond may be taken either way round, which moves a call or two:
    // far less than five standard errors of as many independent calls.
    let p = one.blocking();
    let tolerance = 5.0 * (p * (1.0 - p) / one.calls as f64).sqrt();
    if one.calls.abs_diff(other.calls) > 1 || (p - other.blocking()).abs() > tolerance {
        return Err(format!(
            "the engines disagree with {} lines: {one:?} and {other:?}",
            setup.lines
        ));
    }
    let engine = |turns: Turns| Engine {
        events_per_s: turns.median(),
        blocking: turns.total().blocking(),
        turns: turns.events_per_s,
    };
    let (levee, nexosim) = (engine(ours), engine(theirs));
    Ok(Point {
        lines: setup.lines,
        calls: one.calls,
        ratio: levee.events_per_s / nexosim.events_per_s,
        levee,
        nexosim,
        erlang_b: levee_sim::erlang::blocking(setup.lines, setup.rate * setup.mean_s),
    })
}

struct Options {
    turns: usize,
    events: f64,
    json: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        turns: 7,
        events: 2e6,
        json: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = |most: f64| {
            args.next()
                .and_then(|text| text.parse::<f64>().ok())
                .filter(|number| (1.0..=most).contains(number))
                .ok_or_else(|| format!("{arg}: expected a number from 1 to {most}"))
        };
        match arg.as_str() {
            "--turns" => options.turns = number(TURNS_MAX as f64)? as usize,
            "--events" => options.events = number(EVENTS_MAX)?.max(10_000.0),
            "--json" => options.json = true,
            "-h" | "--help" => {
                println!("{USAGE}");
                std::process::exit(0);
            }
            _ => return Err(format!("unknown argument `{arg}`\n{USAGE}")),
        }
    }
    Ok(options)
}

fn table(points: &[Point]) {
    println!("million events per second of processor time, medians\n");
    println!(
        "{:>8} {:>10} {:>10} {:>8}   blocking: levee  nexosim  Erlang B",
        "lines", "levee", "nexosim", "ratio"
    );
    for point in points {
        println!(
            "{:>8} {:>10.2} {:>10.2} {:>7.1}x   {:>15.5} {:>8.5} {:>9.5}",
            point.lines,
            point.levee.events_per_s / 1e6,
            point.nexosim.events_per_s / 1e6,
            point.ratio,
            point.levee.blocking,
            point.nexosim.blocking,
            point.erlang_b,
        );
    }
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let points: Result<Vec<Point>, String> = [24, 100_000]
        .map(|lines| Setup::new(lines, options.events))
        .into_iter()
        .map(|setup| point(setup, options.turns))
        .collect();
    match points {
        Ok(points) if options.json => println!("{:#}", serde_json::json!({ "points": points })),
        Ok(points) => table(&points),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
