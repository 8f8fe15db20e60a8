//! The tree of a query.

use std::num::NonZeroUsize;

use super::error::Span;

/// Deepest nesting of an expression: more than anyone writes, and little enough for a walk to recurse on any thread's stack.
pub const DEPTH_MAX: u16 = 256;

/// An expression and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub span: Span,
    /// Levels of nesting, itself included: at most [`DEPTH_MAX`], so a walk may recurse.
    pub depth: u16,
}

/// The kinds of expressions. Truth is a number, as in the other tools: 0 is false, anything else true, and comparisons give 0 or 1.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A number.
    Number(f64),
    /// The name of an observable, in quotes.
    Text(String),
    /// A parameter of the operator.
    Name(String),
    /// `s.rval(…)`: a number counts the observables from 1.
    Observe(Box<Expr>),
    /// An operator with its arguments, in this state.
    Call(String, Vec<Expr>),
    /// `#`: an operator or an observation, in the next state. The arguments are taken in this one.
    Next(Box<Expr>),
    /// `if`, `then`, `else`.
    If(Box<[Expr; 3]>),
    /// One operand.
    Unary(UnaryOp, Box<Expr>),
    /// Two operands.
    Binary(BinaryOp, Box<[Expr; 2]>),
    /// `discard`: the run gives no value.
    Discard,
}

impl Expr {
    /// An expression; its depth is counted.
    pub fn new(kind: ExprKind, span: Span) -> Self {
        let mut deepest = 0;
        kind.each(&mut |inner| deepest = deepest.max(inner.depth));
        Self {
            kind,
            span,
            depth: deepest.saturating_add(1),
        }
    }
}

impl ExprKind {
    /// Its direct parts, in order.
    pub fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match self {
            ExprKind::Number(_) | ExprKind::Text(_) | ExprKind::Name(_) | ExprKind::Discard => {}
            ExprKind::Observe(inner) | ExprKind::Next(inner) | ExprKind::Unary(_, inner) => {
                visit(inner);
            }
            ExprKind::Call(_, arguments) => arguments.iter().for_each(visit),
            ExprKind::If(parts) => parts.iter().for_each(visit),
            ExprKind::Binary(_, operands) => operands.iter().for_each(visit),
        }
    }
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Negate,
    /// `!`, `not`
    Not,
    /// 1 unless the operand is 0. Not written; comes from `&&` and `||`.
    Truth,
}

impl UnaryOp {
    /// Its value.
    pub fn apply(self, value: f64) -> f64 {
        match self {
            UnaryOp::Negate => -value,
            UnaryOp::Not => f64::from(value == 0.0),
            UnaryOp::Truth => f64::from(value != 0.0),
        }
    }
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are what they are called")]
pub enum BinaryOp {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl BinaryOp {
    /// Its value; `None` for a division by zero. The remainder has the divisor's sign, as in umaudemc.
    pub fn apply(self, a: f64, b: f64) -> Option<f64> {
        Some(match self {
            BinaryOp::Or => f64::from(a != 0.0 || b != 0.0),
            BinaryOp::And => f64::from(a != 0.0 && b != 0.0),
            BinaryOp::Equal => f64::from(a == b),
            BinaryOp::NotEqual => f64::from(a != b),
            BinaryOp::Less => f64::from(a < b),
            BinaryOp::LessEqual => f64::from(a <= b),
            BinaryOp::Greater => f64::from(a > b),
            BinaryOp::GreaterEqual => f64::from(a >= b),
            BinaryOp::Add => a + b,
            BinaryOp::Subtract => a - b,
            BinaryOp::Multiply => a * b,
            BinaryOp::Divide | BinaryOp::Remainder if b == 0.0 => return None,
            BinaryOp::Divide => a / b,
            BinaryOp::Remainder => {
                let rest = a % b;
                if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
                    rest + b
                } else {
                    rest
                }
            }
        })
    }

    /// Whether its value is 0 or 1.
    pub fn is_truth(self) -> bool {
        !matches!(
            self,
            BinaryOp::Add
                | BinaryOp::Subtract
                | BinaryOp::Multiply
                | BinaryOp::Divide
                | BinaryOp::Remainder
        )
    }

    /// `a op b` is `b op' a`.
    pub fn flipped(self) -> BinaryOp {
        match self {
            BinaryOp::Less => BinaryOp::Greater,
            BinaryOp::LessEqual => BinaryOp::GreaterEqual,
            BinaryOp::Greater => BinaryOp::Less,
            BinaryOp::GreaterEqual => BinaryOp::LessEqual,
            other => other,
        }
    }
}

/// A temporal operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its parameters, with where each stands.
    pub parameters: Vec<(String, Span)>,
    /// What it is.
    pub body: Expr,
    /// Where its name stands.
    pub span: Span,
}

/// What of an expression is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Its mean: `E[…]`.
    Mean,
    /// How probable it is that it is not 0: `P[…]`.
    Probability,
}

/// `eval` of one expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// What is asked for.
    pub asked: Asked,
    /// Of what.
    pub expr: Expr,
    /// A hypothesis: how the asked relates to a number.
    pub bound: Option<(BinaryOp, f64)>,
    /// The parameter of `parametric`, with its values.
    pub parameter: Option<(String, Vec<f64>)>,
    /// `with delta = …`.
    pub delta: Option<Expr>,
}

/// A QuaTEx file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The temporal operators, in order.
    pub definitions: Vec<Definition>,
    /// The queries, in order.
    pub queries: Vec<Query>,
}

/// A short form of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// An expression by itself.
    Plain(Expr),
    /// `E[…]` or `P[…]`, perhaps with a bound.
    Asked(Asked, Expr, Option<(BinaryOp, f64)>),
    /// `quantile(p, samples)`: the samples' name and where it stands.
    Quantile(f64, String, Span),
    /// `E[a] / E[b]`, perhaps with a bound.
    Ratio(Expr, Expr, Option<(BinaryOp, f64)>),
    /// `steady(…)`: means of an expression over equal steps of time.
    Steady {
        /// Of what.
        expr: Expr,
        /// When the first step begins.
        from: f64,
        /// How long a step is.
        step: f64,
        /// How many steps.
        count: usize,
        /// How many batches they are cut into.
        batches: NonZeroUsize,
    },
}
