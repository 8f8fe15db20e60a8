//! The queries of a check.

use super::analysis::{Offer, Scope};
use super::compile::{Code, Compiler, Root, Series};
use super::error::{QueryError, Sources, Span};
use super::file::{self, Outside, TIME};
use super::machine::{self, Scratch};
use super::parser::evaluate;
use super::short;
use super::syntax::{self, BinaryOp, Expr, ExprKind, Formula, Program, Query, UnaryOp};
use crate::estimate::{
    Kind, Parameter, Precision, ProbabilityMethod, Side, Source, Steady, Target, Test, Tested,
};
use crate::measure::{Measure, MeasureError, Row};

/// What `#` goes on to in a QuaTEx file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// One step of the model; the first state is the run's first. MultiVeStA and umaudemc go so.
    #[default]
    Event,
    /// The end of the run: there is one state, the last, and `#` stays there. For files such as SeVen's, whose model ran to its
    /// end in one step of PVeStA (`E[# query()]`) or before the first state of umaudemc (`E[s.rval(1)]`): both ask for the same here.
    Run,
}

/// A question, and which point of `parametric` it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// What is estimated. A half-width by `with delta` is in it.
    pub target: Target,
    /// Name and value of the parameter.
    pub parameter: Option<(String, f64)>,
    /// What the author may not have meant; empty mostly.
    pub remark: String,
}

/// Queries, compiled; all are answered from the same pass over a run.
#[derive(Clone, Debug)]
pub struct Questions<'a> {
    offer: Offer<'a>,
    code: Code,
    asked: Vec<Asked>,
}

impl<'a> Questions<'a> {
    /// None yet.
    #[must_use]
    pub fn new(offer: Offer<'a>) -> Self {
        Self {
            offer,
            code: Code::new(offer),
            asked: Vec::new(),
        }
    }

    /// What is asked, in order.
    #[must_use]
    pub fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// Adds the queries of a QuaTEx file. `name` stands in messages.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it. Nothing is added then.
    pub fn quatex(
        &mut self,
        name: &str,
        text: &str,
        step: Step,
        outside: Outside<'_>,
    ) -> Result<(), QueryError> {
        let mut sources = Sources::default();
        let program = file::program(name, text, outside, &mut sources)?;
        let scope = Scope::new(&program.definitions, self.offer, &sources)?;
        for query in &program.queries {
            let parameter = query
                .parameter
                .iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>();
            scope.check(&query.expr, &parameter)?;
        }
        if program.queries.is_empty() {
            return Err(sources.error(
                Span::default(),
                "no query",
                "`eval E[ … ] ;`",
                "definitions by themselves ask nothing",
            ));
        }
        let deltas = deltas(&program, &sources)?;
        let mut compiler = Compiler::new(&mut self.code, &scope, self.offer, &sources);
        for (query, delta) in program.queries.iter().zip(deltas) {
            add(
                &mut compiler,
                &mut self.asked,
                query,
                step,
                &delta,
                &sources,
            );
        }
        Ok(())
    }

    /// Adds a short form. `name` is the question's name and stands in messages.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it. Nothing is added then.
    pub fn formula(
        &mut self,
        name: &str,
        text: &str,
        outside: Outside<'_>,
    ) -> Result<(), QueryError> {
        let mut sources = Sources::default();
        let (formula, definitions) = file::formula(name, text, outside, &mut sources)?;
        let scope = Scope::new(&definitions, self.offer, &sources)?;
        let (remark, span) = check(&formula, &scope, self.offer, &sources)?;
        let kind = Compiler::new(&mut self.code, &scope, self.offer, &sources).formula(&formula);
        let mut target = Target::new(name, kind);
        target.place = sources.place(span).to_string();
        self.asked.push(Asked {
            target,
            parameter: None,
            remark,
        });
        Ok(())
    }
}

impl Default for Outside<'_> {
    /// No constants, and no imports.
    fn default() -> Self {
        static NONE: std::collections::BTreeMap<String, f64> = std::collections::BTreeMap::new();
        Self {
            constants: &NONE,
            import: None,
        }
    }
}

impl Measure for Questions<'_> {
    type Scratch = Scratch;

    fn scratch(&self) -> Scratch {
        Scratch::default()
    }

    fn columns(&self) -> usize {
        self.code.roots.len()
    }

    fn samples(&self) -> usize {
        self.code.lists
    }

    fn measure<E: crate::Execution>(
        &self,
        execution: &mut E,
        run: u64,
        scratch: &mut Scratch,
        row: &mut Row,
    ) -> Result<(), MeasureError> {
        machine::measure(&self.code, execution, run, scratch, row)
            .map_err(|error| MeasureError::new(format!("{error}\n  in run {run}")))
    }
}

/// Checks a short form; gives a remark and where it stands.
fn check(
    formula: &Formula,
    scope: &Scope<'_>,
    offer: Offer<'_>,
    sources: &Sources,
) -> Result<(String, Span), QueryError> {
    let mut remark = String::new();
    let span = match formula {
        Formula::Plain(expr) => {
            scope.check(expr, &[])?;
            if shares(expr).is_none() && !scope.truth(expr) && short::divides(expr) {
                remark = "`/` within a larger expression is taken run by run, which gives the mean of ratios; `a / b` by itself, or `E[a] / E[b]`, gives the ratio of means".into();
            }
            expr.span
        }
        Formula::Asked(_, expr, _) => {
            scope.check(expr, &[])?;
            expr.span
        }
        Formula::Ratio(part, whole, _) => {
            scope.check(part, &[])?;
            scope.check(whole, &[])?;
            part.span
        }
        Formula::Quantile(_, name, span) => {
            offer.samples_named(name, *span, sources)?;
            *span
        }
        Formula::Steady { expr, .. } => {
            scope.check(expr, &[])?;
            scope.check(&short::observe(TIME, expr.span), &[])?;
            expr.span
        }
    };
    Ok((remark, span))
}

/// The half-widths of each query's points.
fn deltas(program: &Program, sources: &Sources) -> Result<Vec<Vec<Option<f64>>>, QueryError> {
    let one = |query: &Query, parameter: Option<(&str, f64)>| {
        let Some(expr) = &query.delta else {
            return Ok(None);
        };
        let delta = evaluate(expr, parameter, sources)?;
        if delta > 0.0 {
            return Ok(Some(delta));
        }
        Err(sources.error(
            expr.span,
            format!("a half-width of {delta}"),
            "more than 0",
            "",
        ))
    };
    let all = program.queries.iter().map(|query| match &query.parameter {
        None => Ok(vec![one(query, None)?]),
        Some((name, values)) => values
            .iter()
            .map(|value| one(query, Some((name, *value))))
            .collect(),
    });
    all.collect()
}

/// Adds a query of a file, with all its points.
fn add<'s>(
    compiler: &mut Compiler<'s>,
    asked: &mut Vec<Asked>,
    query: &'s Query,
    step: Step,
    deltas: &[Option<f64>],
    sources: &Sources,
) {
    let parameter = query.parameter.as_ref();
    let block = compiler.block_of(
        query.asked,
        &query.expr,
        parameter.map(|(name, _)| name.as_str()),
    );
    let place = compiler.place(query.expr.span);
    let is_truth = query.asked == syntax::Asked::Probability || compiler.scope.truth(&query.expr);
    let letter = if query.asked == syntax::Asked::Mean {
        'E'
    } else {
        'P'
    };
    let text = format!("{letter}[ {} ]", sources.words(query.expr.span));
    let points: Vec<Option<f64>> = match parameter {
        None => vec![None],
        Some((_, values)) => values.iter().copied().map(Some).collect(),
    };
    let remark = match &*points {
        [Some(_)] => "the parameter has one value; its order is `x, from, step, to`".into(),
        _ if step == Step::Event => remark_on_next(compiler.scope, &query.expr),
        _ => String::new(),
    };
    for (point, delta) in points.into_iter().zip(deltas) {
        let column = compiler.root(block, step == Step::Run, point, place);
        let mut target = Target::new(text.clone(), kind(column, is_truth, query.bound));
        target.place = sources.place(query.expr.span).to_string();
        target.precision = delta.map(Precision::Absolute);
        let parameter = parameter
            .zip(point)
            .map(|((name, _), value)| (name.clone(), value));
        target.parameter = parameter
            .clone()
            .map(|(name, value)| Parameter { name, value });
        if let Some(parameter) = &target.parameter {
            target.name.push_str(&parameter.to_string());
        }
        asked.push(Asked {
            target,
            parameter,
            remark: remark.clone(),
        });
    }
}

/// A first `#` that is the only one is often meant to lead to the end of the run.
fn remark_on_next(scope: &Scope<'_>, expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Next(inner) if !scope.ahead(inner) => {
            "this reads the state after the first event; where one step of the model was its whole run, as in SeVen's files, say `step = \"run\"`".into()
        }
        _ => String::new(),
    }
}

/// What a column is asked for.
fn kind(column: usize, is_truth: bool, bound: Option<(BinaryOp, f64)>) -> Kind {
    match bound {
        None if is_truth => Kind::Probability {
            column,
            method: ProbabilityMethod::default(),
        },
        None => Kind::Mean { column },
        Some(bound) if is_truth => hypothesis(
            Tested::Probability {
                column,
                test: Test::Interval,
            },
            bound,
        ),
        Some(bound) => hypothesis(Tested::Mean { column }, bound),
    }
}

fn hypothesis(of: Tested, (op, bound): (BinaryOp, f64)) -> Kind {
    let side = match op {
        BinaryOp::Greater | BinaryOp::GreaterEqual => Side::AtLeast,
        _ => Side::AtMost,
    };
    Kind::Hypothesis { of, side, bound }
}

impl<'a> Compiler<'a> {
    /// Compiles what is asked of an expression; gives where it starts.
    fn block_of(&mut self, asked: syntax::Asked, expr: &Expr, parameter: Option<&'a str>) -> u32 {
        match asked {
            syntax::Asked::Mean => self.root_block(expr, parameter),
            syntax::Asked::Probability => {
                let truth = ExprKind::Unary(UnaryOp::Truth, Box::new(expr.clone()));
                self.root_block(&Expr::new(truth, expr.span), parameter)
            }
        }
    }

    /// Adds a root; gives its column.
    fn root(&mut self, block: u32, at_end: bool, argument: Option<f64>, place: u32) -> usize {
        self.code.roots.push(Root {
            block,
            at_end,
            arguments: argument.into_iter().collect(),
            place,
        });
        self.code.roots.len() - 1
    }

    /// Adds an expression of a short form; gives its column. What does not look ahead is read at the end.
    fn short(&mut self, asked: syntax::Asked, expr: &Expr) -> usize {
        let block = self.block_of(asked, expr, None);
        let place = self.place(expr.span);
        let at_end = !self.scope.ahead(expr);
        self.root(block, at_end, None, place)
    }

    /// The list of a row that holds samples of the model, by their checked name.
    fn list(&mut self, name: &str) -> usize {
        let samples = self.offer.samples.iter().position(|o| o.name == name);
        let samples = samples.expect("names are checked");
        if let Some((list, _)) = self
            .code
            .samples
            .iter()
            .find(|(_, known)| *known == samples)
        {
            return *list;
        }
        self.code.samples.push((self.code.lists, samples));
        self.code.lists += 1;
        self.code.lists - 1
    }

    /// Adds what a checked short form asks for.
    fn formula(&mut self, formula: &Formula) -> Kind {
        use syntax::Asked::{Mean, Probability};
        match formula {
            Formula::Plain(expr) => match shares(expr) {
                Some([part, whole]) => Kind::Ratio {
                    numerator: self.short(Mean, part),
                    denominator: self.short(Mean, whole),
                },
                None => kind(self.short(Mean, expr), self.scope.truth(expr), None),
            },
            Formula::Asked(asked, expr, bound) => {
                let is_truth = *asked == Probability || self.scope.truth(expr);
                kind(self.short(*asked, expr), is_truth, *bound)
            }
            Formula::Ratio(part, whole, bound) => {
                let (numerator, denominator) = (self.short(Mean, part), self.short(Mean, whole));
                match bound {
                    None => Kind::Ratio {
                        numerator,
                        denominator,
                    },
                    Some(bound) => hypothesis(
                        Tested::Ratio {
                            numerator,
                            denominator,
                        },
                        *bound,
                    ),
                }
            }
            Formula::Quantile(q, name, _) => Kind::Quantile {
                of: Source::Samples(self.list(name)),
                q: *q,
            },
            Formula::Steady {
                expr,
                from,
                step,
                count,
                batches,
            } => {
                let block = self.root_block(expr, None);
                let place = self.place(expr.span);
                let list = self.code.lists;
                self.code.lists += 1;
                self.code.series.push(Series {
                    block,
                    from: *from,
                    step: *step,
                    count: *count,
                    list,
                    place,
                });
                Kind::Steady(Steady {
                    samples: list,
                    warm_up: 0,
                    batches: *batches,
                })
            }
        }
    }
}

/// The part and the whole of `a / b`. By a constant one divides run by run all the same.
fn shares(expr: &Expr) -> Option<&[Expr; 2]> {
    match &expr.kind {
        ExprKind::Binary(BinaryOp::Divide, operands) if short::depends(&operands[1]) => {
            Some(operands)
        }
        _ => None,
    }
}
