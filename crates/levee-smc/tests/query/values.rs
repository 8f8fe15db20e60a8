//! What queries give, on runs of few states.

use std::collections::BTreeMap;

use levee_smc::estimate::{Kind, Precision, Side, Source, Tested};
use levee_smc::query::{Offer, Outside, Questions, Step};
use levee_smc::{Execution, Measure, Observable, Row};

use crate::trace::{Trace, observables};

/// Time, a count, and whether it is 3 or more, in seven states: the horizon is 5.
const STATES: [[f64; 3]; 7] = [
    [0.0, 0.0, 0.0],
    [1.0, 2.0, 0.0],
    [1.0, 3.0, 1.0],
    [2.5, 1.0, 0.0],
    [3.0, 4.0, 1.0],
    [4.0, 2.0, 0.0],
    [5.0, 2.0, 0.0],
];

fn offered() -> [Vec<Observable>; 2] {
    let own = observables(&[("time", "s"), ("calls.held", "calls"), ("full", "0/1")]);
    [
        own,
        observables(&[("calls.wait", "s"), ("calls.stay", "s")]),
    ]
}

/// Answers of a run, or why there are none.
fn answer(questions: &Questions<'_>) -> Result<Row, String> {
    let mut trace = Trace::new(STATES.iter().map(|state| state.to_vec()).collect());
    trace.samples = vec![vec![0.5, 0.25], vec![7.0]];
    let mut row = Row::new(questions.columns(), questions.samples());
    let mut scratch = questions.scratch();
    // A second run must not see what the first left.
    for _ in 0..2 {
        row.clear();
        questions
            .measure(&mut trace, 7, &mut scratch, &mut row)
            .map_err(|e| e.message)?;
    }
    Ok(row)
}

fn quatex(text: &str, step: Step) -> Result<Vec<f64>, String> {
    let [observables, samples] = offered();
    let mut questions = Questions::new(Offer {
        observables: &observables,
        samples: &samples,
    });
    let constants = BTreeMap::from([("n".to_owned(), 3.0)]);
    let import = |path: &str| match path {
        "at.quatex" => Ok(
            "import \"held.quatex\" ; at(x) = if s.getTime() >= x then held() else # at(x) fi ;"
                .to_owned(),
        ),
        "held.quatex" => Ok("import \"at.quatex\" ; held() = s.rval(\"calls.held\") ;".to_owned()),
        "wrong.quatex" => Ok("\n  held() = s.rval(\"calls.hold\") ;".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let outside = Outside {
        constants: &constants,
        import: Some(&import),
    };
    questions
        .quatex("q.quatex", text, step, outside)
        .map_err(|e| e.to_string())?;
    answer(&questions).map(|row| row.values)
}

#[track_caller]
fn check(text: &str, step: Step, expected: &[f64]) {
    let values = quatex(text, step).unwrap_or_else(|e| panic!("{e}"));
    let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
    let all = values.len() == expected.len() && values.iter().zip(expected).all(same);
    assert!(all, "{values:?}, not {expected:?}: {text}");
}

#[test]
fn files_of_the_other_tools_are_read_unchanged() {
    let table: &[(&str, Step, &[f64])] = &[
        // PVeStA, a model that runs to its end in a step; and the same question for umaudemc.
        ("query( ) = { s.rval(2) } ;\neval E[ # query( ) ] ;\n\n", Step::Run, &[2.0]),
        ("// held at the end\neval E[ s.rval(2) ] ;", Step::Run, &[2.0]),
        ("query( ) = { s.rval(2) } ;\neval E[ # query( ) ] ;", Step::Event, &[2.0]),
        ("query( ) = { s.rval(3) } ;\neval E[ query( ) ] ;", Step::Event, &[0.0]),
        // PVeStA, a race against a bound of time.
        ("Q() = if { s.getTime() > 2.0 } then {0.0} else if { s.sat(3) } then {1.0} else #Q( ) fi fi ;\neval E[ Q() ];", Step::Event, &[1.0]),
        ("Q() = if { s.getTime() > 100.0 } then {0.0} else if { s.rval(2) == 4 } then {s.getTime()} else #Q( ) fi fi ;\neval E[ Q() ];", Step::Event, &[3.0]),
        // MultiVeStA: names as arguments, several expressions, a parameter.
        (
            "at(x,name) =\n if { s.rval(\"time\") >= x }\n  then { s.rval(name) }\n  else # at({x},{name})\n fi ;
             eval parametric(E[ at(x,{\"calls.held\"}) ],E[ at(x,{\"full\"}) ],x,0.0,1.5,4.5) ;",
            Step::Event,
            &[0.0, 1.0, 4.0, 2.0, 0.0, 0.0, 1.0, 0.0],
        ),
        (
            "obs(i,x) = if ( s.rval(\"steps\") == x ) then s.rval(i) else # obs(i,x) fi ; eval parametric(E[ obs(\"calls.held\",x) ],E[ obs(\"time\",x) ], x,1,2,5) ;",
            Step::Event,
            &[2.0, 1.0, 2.0, 1.0, 2.5, 4.0],
        ),
        // umaudemc: an accumulator and a constant; a count down; discarded runs; a definition after its use.
        ("Mean(m, acc) = if (m == $n) then acc / $n else # Mean(m + 1, acc + s.rval(\"calls.held\")) fi ;\neval E[Mean(0, 0.0)] ;", Step::Event, &[5.0 / 3.0]),
        ("eval E[Until(2)] ;\nUntil(n) = if (n == 0) then s.rval(\"steps\") else if (s.rval(\"full\") == 1) then #Until(n - 1) else #Until(n) fi fi;", Step::Event, &[5.0]),
        ("Rise(last) = if (last > s.rval(\"calls.held\")) then discard else if (s.rval(\"time\") >= 3) then 1 else # Rise(s.rval(\"calls.held\")) fi fi ; eval E[Rise(0)] ;", Step::Event, &[f64::NAN]),
        ("Rise(last) = if (last > s.rval(\"calls.held\")) then discard else if (s.rval(\"time\") >= 1) then 1 else # Rise(s.rval(\"calls.held\")) fi fi ; eval E[Rise(0)] ;", Step::Event, &[1.0]),
        // Imports, in a circle.
        ("import \"at.quatex\" ; import \"held.quatex\" ; eval E[ at(3) + 100 * held() ] ;", Step::Event, &[4.0]),
    ];
    for (text, step, expected) in table {
        check(text, *step, expected);
    }
}

#[test]
fn operators_have_the_precedence_of_c() {
    let table: &[(&str, f64)] = &[
        ("1 + 2 * 3 - 4 / 2", 5.0),
        ("8 / 2 / 2 - 1 - 1", 0.0),
        ("1 || 0 && 0", 1.0),
        ("1 + 1 == 2 && 2 * 2 > 3", 1.0),
        ("1 < 2 == 2 > 1", 1.0),
        ("!0 + 1", 2.0),
        ("not 1 == 2 and true", 1.0),
        ("-2 - -3 + - 1", 0.0),
        ("7 % 3 + -7 % 3 + 7 % -3", 1.0),
        ("5 && 3", 1.0),
        ("{ (1 + { 2 }) } * 3", 9.0),
        ("if 0.5 then if 0 then 1 else 2 fi else 3 fi", 2.0),
        ("1 / 0", f64::NAN),
        ("0 && 1 / 0", 0.0),
        ("if 0 % 0 then 1 else 2 fi", f64::NAN),
    ];
    for (text, expected) in table {
        check(&format!("eval E[ {text} ] ;"), Step::Event, &[*expected]);
    }
}

#[test]
fn values_of_later_states_are_operands() {
    let sum = "sum() = if s.rval(\"time\") >= 4 then 0 else s.rval(\"calls.held\") + # sum() fi ;";
    let table: &[(&str, f64)] = &[
        ("eval E[ sum() ] ;", 10.0),
        ("eval E[ # sum() * 2 - sum() ] ;", 10.0),
        (
            "eval E[ # s.rval(\"calls.held\") - s.rval(\"time\") ] ;",
            2.0,
        ),
        // The arguments of what comes next are taken now.
        (
            "p(x) = s.rval(\"calls.held\") - x ; eval E[ # p(s.rval(\"calls.held\")) ] ;",
            2.0,
        ),
        (
            "ev() = s.rval(\"calls.held\") == 4 || # ev() ; eval E[ ev() ] ;",
            1.0,
        ),
        (
            "ev() = # ev() || s.rval(\"calls.held\") == 4 ; eval E[ ev() ] ;",
            1.0,
        ),
        (
            "al() = s.rval(\"calls.held\") < 4 && # al() ; eval E[ al() ] ;",
            0.0,
        ),
        (
            "fact(n) = if n <= 1 then 1 else n * fact(n - 1) fi ; eval E[ fact(5) + # s.rval(1) ] ;",
            121.0,
        ),
        (
            "end() = if s.rval(\"ended\") then s.rval(\"steps\") else # end() fi ; eval E[ end() ] ;",
            6.0,
        ),
        // The last state comes twice, the second time as the end.
        (
            "n(x) = if s.rval(\"ended\") then x else # n(x + 1) fi ; eval E[ n(0) ] ;",
            7.0,
        ),
        (
            "n(x) = if x == 20 then s.rval(\"steps\") else # n(x + 1) fi ; eval E[ n(0) ] ;",
            6.0,
        ),
    ];
    for (text, expected) in table {
        check(&format!("{sum} {text}"), Step::Event, &[*expected]);
    }
}

#[test]
fn what_never_ends_is_said() {
    let table = [
        // Beyond the horizon; in a circle of two; with a sum; with several operands.
        (
            "p(x) = if s.rval(\"time\") >= x then 1 else # p(x) fi ; eval E[ p(6) ] ;",
            "q.quatex:1:1: `p` never ends: at the run's last state (time 5)",
        ),
        (
            "a() = if s.rval(\"time\") > 9 then 1 else # b(1) fi ; b(x) = # a() ; eval E[ a() ] ;",
            "never ends: at the run's last state (time 5)",
        ),
        (
            "s() = if s.rval(\"time\") > 9 then 1 else 1 + # s() fi ; eval E[ s() ] ;",
            "q.quatex:1:1: `s` never ends",
        ),
        (
            "s() = if s.rval(\"time\") > 9 then 1 else # s() + # s() fi ; eval E[ 1 + # s() ] ;",
            "`s` never ends",
        ),
        (
            "n(x) = if s.rval(\"time\") > 9 then 1 else # n(x + 1) fi ; eval E[ n(0) ] ;",
            "`n` never ends",
        ),
        (
            "q() = if s.rval(\"time\") > 9 then 1 else # q() fi ; eval E[ q() ] ;",
            "let it end within the run, or at its end",
        ),
        // In one state.
        (
            "f(n) = if n < 0 then 1 else f(n + 1) fi ; eval E[ f(0) ] ;",
            "`f` calls itself more than 10000 deep within one state (time 0)",
        ),
        (
            "g() = if s.rval(1) < 0 then 1 else g() fi ; eval E[ g() ] ;",
            "`g` calls itself more than 10000 deep",
        ),
        (
            "f(n) = if n < 0 then # g() else f(n + 1) fi ; g() = 1 ; eval E[ f(0) ] ;",
            "`f` does not end: over 1000000 operators within one state (time 0)",
        ),
        // Numbers that are none.
        (
            "f(n) = s.rval(n) ; eval E[ f(1.5) ] ;",
            "q.quatex:1:15: observable number 1.5",
        ),
        (
            "f(n) = s.rval(n) ; eval E[ f(4) ] ;",
            "observable number 4, expected a number that the model lists",
        ),
        // In another file.
        (
            "import \"wrong.quatex\" ; eval E[ held() ] ;",
            "wrong.quatex:2:19: `calls.hold`, which the model does not list",
        ),
        (
            "import \"none.quatex\" ; eval E[ held() ] ;",
            "q.quatex:1:8: `none.quatex` cannot be imported: no such file",
        ),
    ];
    for (text, expected) in table {
        let error = quatex(text, Step::Event).expect_err(text);
        assert!(error.contains(expected), "{error}\nnot: {expected}");
    }
    // Each of these says in which run.
    assert!(quatex(table[0].0, Step::Event).is_err_and(|e| e.ends_with("in run 7")));
}

/// The kind of a formula, and the row of the run.
fn formula(text: &str) -> (Kind, Row, String) {
    let [observables, samples] = offered();
    let mut questions = Questions::new(Offer {
        observables: &observables,
        samples: &samples,
    });
    let added = questions.formula("q", text, Outside::default());
    added.unwrap_or_else(|e| panic!("{e}"));
    let row = answer(&questions).unwrap();
    let asked = &questions.asked()[0];
    (asked.target.kind.clone(), row, asked.remark.clone())
}

#[test]
fn formulas_are_read_at_the_end_of_the_run() {
    let table: &[(&str, &[f64])] = &[
        ("calls.held", &[2.0]),
        ("\"calls.held\" + s.rval(\"time\")", &[7.0]),
        ("calls.held / time", &[2.0, 5.0]),
        ("100 * calls.held / (time - 1)", &[200.0, 4.0]),
        ("calls.held / 4", &[0.5]),
        ("E[ calls.held / time ]", &[0.4]),
        ("E[ calls.held ] / E[ time ]", &[2.0, 5.0]),
        ("steps", &[6.0]),
        ("full", &[0.0]),
        ("calls.held == 2", &[1.0]),
        ("P[ calls.held ]", &[1.0]),
        ("P[ F calls.held == 4 ]", &[1.0]),
        ("P[ F<=2.9 calls.held == 4 ]", &[0.0]),
        ("P[ F<=3 calls.held == 4 ]", &[1.0]),
        ("P[ G<=2.9 calls.held < 4 ]", &[1.0]),
        ("P[ G<=3 calls.held < 4 ]", &[0.0]),
        ("P[ G calls.held <= 4 && time >= 0 ]", &[1.0]),
        ("P[ F<=9 calls.held == 5 ]", &[0.0]),
        ("P[ calls.held < 4 U<=3 calls.held == 4 ]", &[1.0]),
        ("P[ calls.held < 3 U<=3 calls.held == 4 ]", &[0.0]),
        ("P[ true U<=2 calls.held == 4 ]", &[0.0]),
        // Beside a temporal operator, names are still of the end.
        ("P[ (F calls.held == 4) && calls.held == 2 ]", &[1.0]),
        ("P[ !(F calls.held == 4) || calls.held == 4 ]", &[0.0]),
        ("(F full) / calls.held", &[1.0, 2.0]),
    ];
    for (text, expected) in table {
        assert_eq!(formula(text).1.values, *expected, "{text}");
    }
}

#[test]
fn formulas_say_what_they_estimate() {
    let kind = |text: &str| formula(text).0;
    let ratio = Kind::Ratio {
        numerator: 0,
        denominator: 1,
    };
    assert_eq!(kind("calls.held / time"), ratio);
    assert_eq!(kind("E[ calls.held ] / E[ time ]"), ratio);
    assert_eq!(kind("calls.held / 4"), Kind::Mean { column: 0 });
    assert_eq!(kind("E[ calls.held / time ]"), Kind::Mean { column: 0 });
    for text in [
        "full",
        "calls.held == 24",
        "P[ calls.held ]",
        "E[ !full ]",
        "F full",
    ] {
        assert!(
            matches!(kind(text), Kind::Probability { column: 0, .. }),
            "{text}"
        );
    }
    let hypotheses = [
        ("P[ full ] >= 0.9", Side::AtLeast, 0.9),
        ("P[ full ] < 1 / 4", Side::AtMost, 0.25),
        ("E[ calls.held ] <= 20", Side::AtMost, 20.0),
        ("E[ calls.held ] / E[ time ] > 0.5", Side::AtLeast, 0.5),
    ];
    for (text, expected, limit) in hypotheses {
        let Kind::Hypothesis { of, side, bound } = kind(text) else {
            panic!("{text}")
        };
        assert_eq!((side, bound), (expected, limit), "{text}");
        let right = match of {
            Tested::Probability { .. } => text.starts_with('P'),
            Tested::Mean { .. } => text.starts_with("E[ calls.held ] <="),
            Tested::Ratio { .. } => text.contains('/'),
        };
        assert!(right, "{text}: {of:?}");
    }
    // A mean of ratios is remarked on where it was not asked for in so many words.
    for (text, remarked) in [
        ("1 - calls.held / time", true),
        ("E[ 1 - calls.held / time ]", false),
        ("calls.held / time", false),
        ("calls.held / time > 1", false),
    ] {
        assert_eq!(!formula(text).2.is_empty(), remarked, "{text}");
    }
}

#[test]
fn points_have_names_places_and_half_widths() {
    let [observables, samples] = offered();
    let mut questions = Questions::new(Offer {
        observables: &observables,
        samples: &samples,
    });
    let text = "at(x) = if s.rval(\"time\") >= x then s.rval(2) else # at(x) fi ;
  eval parametric(E[ at(x)   + 1 ], x, 1, 0.1, 1.3) with delta = x / 10 ;
  eval E[ s.sat(3) ] ; eval P[ at(2) ] >= 0.5 ; eval E[ # at(1) ] ;";
    questions
        .quatex("q.quatex", text, Step::Event, Outside::default())
        .unwrap();
    let query = "query() = s.rval(1) ; eval E[ # query() ] ;";
    questions
        .quatex("r.quatex", query, Step::Event, Outside::default())
        .unwrap();
    questions
        .quatex("r.quatex", query, Step::Run, Outside::default())
        .unwrap();
    let asked = questions.asked();
    let names: Vec<_> = asked.iter().map(|a| a.target.name.as_str()).collect();
    let points = [
        "E[ at(x) + 1 ] x=1",
        "E[ at(x) + 1 ] x=1.1",
        "E[ at(x) + 1 ] x=1.2",
        "E[ at(x) + 1 ] x=1.3",
    ];
    assert_eq!(names[..4], points);
    assert_eq!(
        names[4..],
        [
            "E[ s.sat(3) ]",
            "P[ at(2) ]",
            "E[ # at(1) ]",
            "E[ # query() ]",
            "E[ # query() ]"
        ]
    );
    assert_eq!(asked[0].target.place, "q.quatex:2:22");
    assert_eq!(
        asked[2].target.precision,
        Some(Precision::Absolute(1.2 / 10.0))
    );
    assert_eq!(asked[2].parameter, Some(("x".to_owned(), 1.2)));
    assert!(matches!(
        asked[4].target.kind,
        Kind::Probability { column: 4, .. }
    ));
    let remarked: Vec<_> = asked.iter().map(|a| !a.remark.is_empty()).collect();
    assert_eq!(
        remarked,
        [false, false, false, false, false, false, false, true, false]
    );
}

#[test]
fn lists_are_filled() {
    let [observables, samples] = offered();
    let mut questions = Questions::new(Offer {
        observables: &observables,
        samples: &samples,
    });
    for text in [
        "steady(calls.held, 1, 1.5, 7, 2)",
        "quantile(0.5, calls.stay)",
        "quantile(0.9, calls.wait)",
        "quantile(0.1, \"calls.stay\")",
    ] {
        questions.formula("q", text, Outside::default()).unwrap();
    }
    let row = answer(&questions).unwrap();
    // From 1: 3 until 2.5; 1 until 3 and 4 until 4; 2 from then on, at the last state too.
    assert_eq!(
        row.samples,
        [vec![3.0, 3.0, 2.0, 2.0], vec![7.0], vec![0.5, 0.25]]
    );
    let lists = questions.asked().iter().map(|a| match a.target.kind {
        Kind::Quantile {
            of: Source::Samples(list),
            ..
        } => list,
        Kind::Steady(steady) => {
            assert_eq!(steady.batches.get(), 2);
            steady.samples
        }
        ref other => panic!("{other:?}"),
    });
    assert_eq!(lists.collect::<Vec<_>>(), [0, 1, 2, 1]);
    assert_eq!(questions.columns(), 0);
}

/// Counts to a horizon, and how it was asked to.
#[derive(Default)]
struct Counter {
    now: u64,
    horizon: u64,
    steps: u64,
    finished: bool,
}

impl Execution for Counter {
    fn start(&mut self, _run: u64) {
        (self.now, self.steps, self.finished) = (0, 0, false);
    }

    fn step(&mut self) -> bool {
        self.steps += 1;
        let more = self.now < self.horizon;
        self.now += u64::from(more);
        more
    }

    fn finish(&mut self) {
        self.finished = true;
        self.now = self.horizon;
    }

    fn observe(&self, _observable: usize) -> f64 {
        self.now as f64
    }
}

#[test]
fn runs_go_no_further_than_asked() {
    let observables = observables(&[("time", "s")]);
    let horizon = 1_000_000;
    let at = "at(x) = if s.rval(\"time\") >= x then s.rval(1) else # at(x) fi ;";
    let sum = "sum() = if s.rval(\"time\") >= 1000000 then 0 else s.rval(1) + # sum() fi ;";
    // Value, steps, whether the rest was skipped.
    let table = [
        ("eval E[ s.rval(1) ] ;".to_owned(), 0.0, 0, false),
        (format!("{at} eval E[ at(1000) ] ;"), 1000.0, 1000, false),
        (
            "end() = if s.rval(\"ended\") then s.rval(1) else # end() fi ; eval E[ end() ] ;"
                .to_owned(),
            1e6,
            0,
            true,
        ),
        (
            format!("{sum} eval E[ sum() ] ;"),
            499_999_500_000.0,
            1_000_000,
            false,
        ),
    ];
    for (text, value, steps, finished) in table {
        let mut questions = Questions::new(crate::trace::offer(&observables));
        questions
            .quatex("q", &text, Step::Event, Outside::default())
            .unwrap();
        let mut counter = Counter {
            horizon,
            ..Counter::default()
        };
        let mut row = Row::new(1, 0);
        questions
            .measure(&mut counter, 0, &mut questions.scratch(), &mut row)
            .unwrap();
        assert_eq!(
            (row.values[0], counter.steps, counter.finished),
            (value, steps, finished),
            "{text}"
        );
    }
}
