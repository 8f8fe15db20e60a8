//! What the machine must agree with: a walk over the tree, as the definition of the language reads, which may look at any state.

use std::collections::BTreeMap;

use levee_smc::Observable;
use levee_smc::query::syntax::{BinaryOp, Expr, ExprKind, Program, UnaryOp};

/// Why there is no value.
#[derive(Debug, PartialEq)]
pub(crate) enum Stop {
    Discarded,
    Endless,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Number(f64),
    Name(String),
}

pub(crate) type Values = BTreeMap<String, Value>;

/// A program and a run.
pub(crate) struct Reference<'a> {
    pub(crate) program: &'a Program,
    pub(crate) observables: &'a [Observable],
    pub(crate) states: &'a [Vec<f64>],
}

/// More calls in each other than any test's query that ends has.
const DEEP: usize = 1000;

impl Reference<'_> {
    /// The value of an expression in state `at`; the one after the last is the last again, with `ended`.
    pub(crate) fn value(
        &self,
        expr: &Expr,
        values: &Values,
        at: usize,
        depth: usize,
    ) -> Result<f64, Stop> {
        if depth > DEEP {
            return Err(Stop::Endless);
        }
        match &expr.kind {
            ExprKind::Number(number) => Ok(*number),
            ExprKind::Text(_) => panic!("a name is no number"),
            ExprKind::Name(name) => match &values[name] {
                Value::Number(number) => Ok(*number),
                Value::Name(_) => panic!("a name is no number"),
            },
            ExprKind::Observe(argument) => {
                self.observe(self.argument(argument, values, at, depth)?, at)
            }
            ExprKind::Call(..) => self.call(expr, values, at, at, depth),
            ExprKind::Next(inner) => {
                let next = (at + 1).min(self.states.len());
                match &inner.kind {
                    ExprKind::Call(..) => self.call(inner, values, at, next, depth),
                    _ => self.value(inner, values, next, depth + 1),
                }
            }
            ExprKind::If(parts) => {
                let yes = self.value(&parts[0], values, at, depth)? != 0.0;
                self.value(&parts[if yes { 1 } else { 2 }], values, at, depth)
            }
            ExprKind::Unary(op, inner) => Ok(op.apply(self.value(inner, values, at, depth)?)),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), operands) => {
                let [a, b] = &**operands;
                let both = self.ahead(a, 0) && self.ahead(b, 0);
                let (first, second) = if self.ahead(a, 0) && !both {
                    (b, a)
                } else {
                    (a, b)
                };
                let first = self.value(first, values, at, depth)?;
                let decided = (first != 0.0) == (*op == BinaryOp::Or);
                if decided && !both {
                    return Ok(UnaryOp::Truth.apply(first));
                }
                let second = self.value(second, values, at, depth)?;
                Ok(op.apply(first, second).expect("no division"))
            }
            ExprKind::Binary(op, operands) => {
                let a = self.value(&operands[0], values, at, depth)?;
                let b = self.value(&operands[1], values, at, depth)?;
                op.apply(a, b).ok_or(Stop::Discarded)
            }
            ExprKind::Discard => Err(Stop::Discarded),
        }
    }

    fn call(
        &self,
        call: &Expr,
        values: &Values,
        at: usize,
        body_at: usize,
        depth: usize,
    ) -> Result<f64, Stop> {
        let ExprKind::Call(name, arguments) = &call.kind else {
            panic!("not a call")
        };
        let definition = self
            .program
            .definitions
            .iter()
            .find(|d| d.name == *name)
            .expect("defined");
        let mut own = Values::new();
        for ((parameter, _), argument) in definition.parameters.iter().zip(arguments) {
            own.insert(
                parameter.clone(),
                self.argument(argument, values, at, depth)?,
            );
        }
        self.value(&definition.body, &own, body_at, depth + 1)
    }

    fn argument(
        &self,
        argument: &Expr,
        values: &Values,
        at: usize,
        depth: usize,
    ) -> Result<Value, Stop> {
        match &argument.kind {
            ExprKind::Text(name) => Ok(Value::Name(name.clone())),
            ExprKind::Name(name) => Ok(values[name].clone()),
            _ => self.value(argument, values, at, depth).map(Value::Number),
        }
    }

    fn observe(&self, what: Value, at: usize) -> Result<f64, Stop> {
        let state = at.min(self.states.len() - 1);
        let index = match what {
            // Number 0 is `time`, which the tests list first.
            Value::Number(number) => (number as usize).saturating_sub(1),
            Value::Name(name) => match self.observables.iter().position(|o| o.name == name) {
                Some(index) => index,
                None if name == "steps" => return Ok(state as f64),
                None => return Ok(f64::from(at == self.states.len())),
            },
        };
        let value = self.states[state][index];
        if value.is_nan() {
            Err(Stop::Discarded)
        } else {
            Ok(value)
        }
    }

    /// Whether the value may be of later states; by unfolding, so deep that every definition was seen.
    fn ahead(&self, expr: &Expr, depth: usize) -> bool {
        let body = match &expr.kind {
            ExprKind::Next(_) | ExprKind::Discard => return true,
            ExprKind::Call(name, _) if depth <= self.program.definitions.len() => {
                let definition = self.program.definitions.iter().find(|d| d.name == *name);
                self.ahead(&definition.expect("defined").body, depth + 1)
            }
            _ => false,
        };
        let mut any = body;
        expr.kind
            .each(&mut |inner| any = any || self.ahead(inner, depth));
        any
    }
}
