//! The cost of queries for each state of a run, beside a walk over the tree.
//!
//! The run has 10,000 states and costs nothing but a look-up: what is measured is the queries. `machine` is what a check runs;
//! `tree` is the reference of the tests, which allocates and recurses, over 500 states: its stack would not hold more. Divide by
//! the states for the cost of an event.
#![expect(
    clippy::unwrap_used,
    reason = "a bench stops at what it did not expect"
)]

#[path = "../tests/query/reference.rs"]
mod reference;
#[path = "../tests/query/trace.rs"]
mod trace;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use levee_smc::query::{Outside, Questions, Sources, Step, program};
use levee_smc::{Measure, Observable, Row};

use self::reference::{Reference, Value, Values};
use self::trace::{Trace, observables, offer};

const STATES: usize = 10_000;
const STATES_OF_TREE: usize = 500;

fn observed() -> Vec<Observable> {
    observables(&[
        ("time", "s"),
        ("server.busy", "lines"),
        ("server.full", "0/1"),
    ])
}

/// A run to the horizon 40; the server is full at the last state alone.
fn trace(states: usize) -> Trace {
    let state = |i: usize| {
        let last = states - 1;
        vec![
            40.0 * i as f64 / last as f64,
            (i % 24) as f64,
            f64::from(i == last),
        ]
    };
    Trace::new((0..states).map(state).collect())
}

/// Queries by name, as QuaTEx.
const QUERIES: [(&str, &str); 5] = [
    (
        "recursion",
        "full() = if s.rval(\"server.full\") == 1 then s.rval(\"time\") else # full() fi ; eval E[ full() ] ;",
    ),
    (
        "sum in a parameter",
        "sum(x) = if s.rval(\"time\") >= 40 then x else # sum(x + s.rval(\"server.busy\")) fi ; eval E[ sum(0) ] ;",
    ),
    (
        "sum in the stack",
        "sum() = if s.rval(\"server.full\") == 1 then 0 else s.rval(\"server.busy\") + # sum() fi ; eval E[ sum() ] ;",
    ),
    (
        "40 points of time",
        "at(x) = if s.rval(\"time\") >= x then s.rval(\"server.busy\") else # at(x) fi ; eval parametric(E[ at(x) ], x, 1, 1, 40) ;",
    ),
    // A condition that is not one of time alone keeps every point awake.
    (
        "40 points awake",
        "at(x) = if s.rval(\"time\") + 0 >= x then s.rval(\"server.busy\") else # at(x) fi ; eval parametric(E[ at(x) ], x, 1, 1, 40) ;",
    ),
];

fn machine(c: &mut Criterion, name: &str, questions: &Questions<'_>, trace: &mut Trace) {
    let mut group = c.benchmark_group("machine");
    group.throughput(Throughput::Elements(trace.states.len() as u64));
    let mut scratch = questions.scratch();
    let mut row = Row::new(questions.columns(), questions.samples());
    group.bench_function(name, |b| {
        b.iter(|| {
            row.clear();
            questions.measure(trace, 0, &mut scratch, &mut row).unwrap();
            black_box(row.values[0])
        });
    });
    group.finish();
}

fn tree(c: &mut Criterion, name: &str, text: &str) {
    let observables = observed();
    let program = program(name, text, Outside::default(), &mut Sources::default()).unwrap();
    let trace = trace(STATES_OF_TREE);
    let reference = Reference {
        program: &program,
        observables: &observables,
        states: &trace.states,
    };
    let query = &program.queries[0];
    let points: Vec<Values> = match &query.parameter {
        None => vec![Values::new()],
        Some((name, values)) => {
            let one = |value: &f64| Values::from([(name.clone(), Value::Number(*value))]);
            values.iter().map(one).collect()
        }
    };
    let mut group = c.benchmark_group("tree");
    group.throughput(Throughput::Elements(STATES_OF_TREE as u64));
    group.bench_function(name, |b| {
        b.iter(|| {
            let value = |values| reference.value(&query.expr, values, 0, 0).unwrap();
            points.iter().map(value).sum::<f64>()
        });
    });
    group.finish();
}

fn queries(c: &mut Criterion) {
    let observables = observed();
    let mut run = trace(STATES);
    for (name, text) in QUERIES {
        let mut questions = Questions::new(offer(&observables));
        questions
            .quatex(name, text, Step::Event, Outside::default())
            .unwrap();
        machine(c, name, &questions, &mut run);
        tree(c, name, text);
    }
    let mut questions = Questions::new(offer(&observables));
    for formula in [
        "server.busy / time",
        "server.full",
        "P[ F<=40 server.full ]",
    ] {
        let mut one = Questions::new(offer(&observables));
        one.formula(formula, formula, Outside::default()).unwrap();
        machine(c, formula, &one, &mut run);
        questions
            .formula(formula, formula, Outside::default())
            .unwrap();
    }
    machine(c, "three formulas", &questions, &mut run);
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    targets = queries
}
criterion_main!(benches);
