//! The machine and the walk over the tree give the same, on random queries of random runs.

use std::collections::BTreeMap;

use levee_smc::query::{Outside, QueryError, Questions, Sources, Step, program};
use levee_smc::{Measure, Row};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::reference::{Reference, Values};
use crate::trace::{Trace, observables, offer};

/// Writes random queries. An operator calls only later ones in its own state, and any in the next.
struct Writer {
    rng: Pcg64,
}

const OPERATORS: usize = 3;
/// How many parameters each has.
const ARITY: [usize; OPERATORS] = [1, 2, 0];

impl Writer {
    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    fn leaf(&mut self, parameters: usize) -> String {
        match self.below(if parameters > 0 { 9 } else { 6 }) {
            0 => format!("{}", self.below(4)),
            1 => format!("{}.5", self.below(3)),
            2 => self
                .pick(&["s.rval(\"time\")", "s.rval(\"steps\")", "s.rval(0)"])
                .into(),
            3 => self
                .pick(&["s.rval(\"a\")", "{ s.rval(2) }", "s.rval(1 + 1)"])
                .into(),
            4 => self
                .pick(&["s.rval(\"flag\")", "s.sat(3)", "s.rval(\"ended\")"])
                .into(),
            5 => self.pick(&["-1", "true", "s.getTime()"]).into(),
            _ => format!("p{}", self.below(parameters as u64)),
        }
    }

    /// An expression of one state.
    fn state(&mut self, depth: u32, parameters: usize) -> String {
        if depth == 0 || self.below(4) == 0 {
            return self.leaf(parameters);
        }
        let part = |w: &mut Self| w.state(depth - 1, parameters);
        let (a, b, c) = (part(self), part(self), part(self));
        match self.below(8) {
            0 => format!("(if {a} then {b} else {c} fi)"),
            1 => format!("({}{a})", self.pick(&["!", "-", "not "])),
            2 | 3 => format!("({a} {} {b})", self.pick(&["&&", "||", "and", "or"])),
            4 => format!("({a} {} {b})", self.pick(&["/", "%"])),
            5 => format!(
                "({a} {} {b})",
                self.pick(&["==", "!=", "<", "<=", ">", ">="])
            ),
            _ => format!("({a} {} {b})", self.pick(&["+", "-", "*"])),
        }
    }

    fn call(&mut self, from: usize, parameters: usize) -> String {
        let to = from + self.below((OPERATORS - from) as u64) as usize;
        let arguments: Vec<_> = (0..ARITY[to]).map(|_| self.state(1, parameters)).collect();
        format!("f{to}({})", arguments.join(", "))
    }

    /// An expression that may look ahead, of the body of operator `own`.
    fn path(&mut self, depth: u32, parameters: usize, own: usize) -> String {
        if depth == 0 {
            return match self.below(4) {
                0 | 1 => format!("# {}", self.call(0, parameters)),
                2 if own + 1 < OPERATORS => self.call(own + 1, parameters),
                _ => self.state(1, parameters),
            };
        }
        let condition = self.state(2, parameters);
        let (a, b) = (
            self.path(depth - 1, parameters, own),
            self.path(depth - 1, parameters, own),
        );
        match self.below(12) {
            0 => format!("(# s.rval({}))", self.pick(&["\"a\"", "2", "\"steps\""])),
            1 => format!("({}{a})", self.pick(&["!", "-"])),
            2 => format!("({a} {} {b})", self.pick(&["&&", "||"])),
            3 => format!("({condition} {} {b})", self.pick(&["&&", "||"])),
            4 => format!("({a} {} {b})", self.pick(&["+", "-", "*", "/", ">="])),
            5 if self.below(4) == 0 => "discard".into(),
            // Mostly ends, so that most queries do.
            6..=8 => format!(
                "if s.rval(\"time\") {} then {condition} else {b} fi",
                self.pick(&[">= 2", "> 1", ">= p0"][..if parameters > 0 { 3 } else { 2 }])
            ),
            9 => format!("if s.rval(\"ended\") then {condition} else {b} fi"),
            _ => format!("if {condition} then {a} else {b} fi"),
        }
    }

    fn query(&mut self) -> String {
        let mut text = String::new();
        for (own, arity) in ARITY.into_iter().enumerate() {
            let parameters: Vec<_> = (0..arity).map(|p| format!("p{p}")).collect();
            let body = self.path(2, arity, own);
            text.push_str(&format!("f{own}({}) = {body} ;\n", parameters.join(", ")));
        }
        let asked = self.path(1, 0, 0);
        text.push_str(&format!("eval E[ {asked} ] ;\n"));
        text
    }

    /// Time goes on, or stands still; the values are small.
    fn states(&mut self) -> Vec<Vec<f64>> {
        let mut time = 0.0;
        let each = (0..1 + self.below(9)).map(|_| {
            time += self.below(3) as f64 / 2.0;
            let a = if self.below(40) == 0 {
                f64::NAN
            } else {
                self.below(5) as f64 - 1.0
            };
            vec![time, a, self.below(2) as f64]
        });
        each.collect()
    }
}

/// The value by the machine; NaN if it is discarded.
fn by_machine(questions: &Questions<'_>, trace: &mut Trace) -> Result<f64, String> {
    let mut row = Row::new(questions.columns(), questions.samples());
    let mut scratch = questions.scratch();
    questions
        .measure(trace, 0, &mut scratch, &mut row)
        .map(|()| row.values[0])
        .map_err(|error| error.message)
}

#[test]
fn the_machine_agrees_with_a_walk_over_the_tree() {
    let observables = observables(&[("time", "s"), ("a", ""), ("flag", "0/1")]);
    let mut writer = Writer {
        rng: Pcg64::seed_from_u64(1),
    };
    let (mut refused, mut valued, mut valueless) = (0, 0, 0);
    for _ in 0..6000 {
        let text = writer.query();
        let mut sources = Sources::default();
        let program = program("random", &text, Outside::default(), &mut sources)
            .unwrap_or_else(|e| panic!("{e}\n{text}"));
        let mut questions = Questions::new(offer(&observables));
        let added: Result<(), QueryError> =
            questions.quatex("random", &text, Step::Event, Outside::default());
        if added.is_err() {
            refused += 1;
            continue;
        }
        let mut trace = Trace::new(writer.states());
        let reference = Reference {
            program: &program,
            observables: &observables,
            states: &trace.states,
        };
        let expected = reference.value(&program.queries[0].expr, &Values::new(), 0, 0);
        let got = by_machine(&questions, &mut trace);
        match (expected, got) {
            (Ok(expected), Ok(got)) => {
                valued += 1;
                assert_eq!(expected, got, "{text}{:?}", trace.states);
            }
            // One operand may never end where the other is discarded: either way there is no value.
            (Err(_), Ok(got)) if got.is_nan() => valueless += 1,
            (Err(_), Err(_)) => valueless += 1,
            (expected, got) => panic!("{expected:?} but {got:?}\n{text}{:?}", trace.states),
        }
    }
    // Most must say something.
    assert!(
        valued > 2000 && valueless > 200 && refused < 3000,
        "{valued} {valueless} {refused}"
    );
}

#[test]
fn parameters_of_points_are_arguments() {
    let text = "f(x, n) = if s.rval(\"time\") >= x then s.rval(n) else # f(x, n) fi ;
                eval parametric(E[ f(x, \"a\") ], E[ f({x}, {2}) + x ], x, 0, 0.5, 3) ;";
    let observables = observables(&[("time", "s"), ("a", "")]);
    let mut questions = Questions::new(offer(&observables));
    questions
        .quatex("points", text, Step::Event, Outside::default())
        .unwrap();
    let constants = BTreeMap::new();
    let outside = Outside {
        constants: &constants,
        import: None,
    };
    let program = program("points", text, outside, &mut Sources::default()).unwrap();
    let mut trace = Trace::new(
        (0..4)
            .map(|t| vec![f64::from(t), f64::from(10 * t)])
            .collect(),
    );
    let mut row = Row::new(questions.columns(), 0);
    questions
        .measure(&mut trace, 0, &mut questions.scratch(), &mut row)
        .unwrap();
    let expected = [0.0, 10.0, 10.0, 20.0, 20.0, 30.0, 30.0];
    assert_eq!(row.values[..7], expected);
    let plus = |k: usize| expected[k] + k as f64 * 0.5;
    assert_eq!(row.values[7..], std::array::from_fn::<_, 7, _>(plus));
    assert_eq!(program.queries.len(), 2);
}
