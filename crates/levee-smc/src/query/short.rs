//! The short forms of scenarios: `formula`, `E[…]`, `P[…]` with bounds and bounded temporal operators, `quantile`, `steady`.
//!
//! Names are observables at the end of the run; under a temporal operator they are those of the state. A temporal operator
//! is written out as the definition that QuaTEx would need:
//! `F<=t c` is `f() = if time > t then 0 else if c then 1 else if ended then 0 else # f() fi fi fi`.

use std::num::NonZeroUsize;

use super::error::{QueryError, Span};
use super::file::{ENDED, POINTS_MAX, ROUNDING, TIME};
use super::lexer::TokenKind;
use super::parser::{LOOSEST, Parser};
use super::syntax::{Asked, BinaryOp, Definition, Expr, ExprKind, Formula, UnaryOp};

impl Parser<'_> {
    pub(super) fn formula(&mut self) -> Result<Formula, QueryError> {
        for word in ["eval", "import"] {
            if self.is(word) {
                return Err(self.unexpected(
                    "a formula",
                    "this is QuaTEx: give it as `quatex`, not as `formula`",
                ));
            }
        }
        let formula = if (self.is("E") || self.is("P")) && self.is_second("[") {
            self.asked_formula()?
        } else if self.is("quantile") && self.is_second("(") {
            self.quantile()?
        } else if self.is("steady") && self.is_second("(") {
            self.steady()?
        } else {
            let expr = self.expr()?;
            Formula::Plain(self.at_end(expr))
        };
        match self.peek() {
            TokenKind::End => Ok(formula),
            _ if self.is("=") && self.is_second("=") || self.is("=") => {
                Err(self.unexpected("an operator or the end of the formula", ""))
            }
            _ => Err(self.unexpected(
                "an operator or the end of the formula",
                if self.is(";") {
                    "a formula has no `;`"
                } else {
                    ""
                },
            )),
        }
    }

    /// `E[a]`, `P[a]` or `E[a] / E[b]`, perhaps with a bound.
    fn asked_formula(&mut self) -> Result<Formula, QueryError> {
        let (asked, expr) = self.asked()?;
        if asked == Asked::Probability || !self.accept("/") {
            let bound = self.bound()?;
            return Ok(Formula::Asked(asked, self.at_end(expr), bound));
        }
        let span = self.span();
        let (Asked::Mean, whole) = self.asked()? else {
            return Err(self.error(
                span,
                "`P[ … ]` in a ratio",
                "`E[ … ]`",
                "write `E[a] / E[b]`: a condition gives 0 or 1",
            ));
        };
        let bound = self.bound()?;
        Ok(Formula::Ratio(self.at_end(expr), self.at_end(whole), bound))
    }

    fn quantile(&mut self) -> Result<Formula, QueryError> {
        self.advance();
        self.advance();
        let at = self.span();
        let p = self.constant()?;
        if !(p > 0.0 && p < 1.0) {
            let found = format!("the {p} quantile");
            return Err(self.error(
                at,
                found,
                "a share between 0 and 1, as in `quantile(0.95, …)`",
                "",
            ));
        }
        self.expect(",", "`,` and the name of samples", "")?;
        let start = self.span();
        let name = match self.peek() {
            TokenKind::Text(text) => {
                self.advance();
                text.clone()
            }
            _ => self.dotted("the name of samples")?,
        };
        let span = start.to(self.last_span());
        self.expect(
            ")",
            "`)`",
            "quantiles are of samples, such as a time of each call, by their name alone",
        )?;
        Ok(Formula::Quantile(p, name, span))
    }

    fn steady(&mut self) -> Result<Formula, QueryError> {
        self.advance();
        self.advance();
        let expr = self.expr()?;
        if let Some(temporal) = self.defined.first() {
            return Err(self.error(
                temporal.span,
                format!("`{}` in `steady( … )`", shown(&temporal.name)),
                "an expression of one state",
                "",
            ));
        }
        let form = "`steady(expression, from, step, to)`: after the warm-up, one mean a step";
        let mut start = self.span();
        let mut numbers = [0.0; 3];
        for (at, number) in numbers.iter_mut().enumerate() {
            self.expect(",", form, "")?;
            if at == 0 {
                start = self.span();
            }
            *number = self.constant()?;
        }
        let start = start.to(self.last_span());
        let mut at = self.span();
        let mut batches = 1.0;
        if self.accept(",") {
            at = self.span();
            batches = self.constant()?;
        }
        self.expect(")", "`)` after the last time or the number of batches", "")?;
        let [from, step, to] = numbers;
        let count = ((to - from) / step + ROUNDING).floor();
        if !(step > 0.0 && from >= 0.0 && (1.0..=POINTS_MAX as f64).contains(&count)) {
            let found = format!("{} steps of {step} from {from} to {to}", count.max(0.0));
            let expected = format!("1 to {POINTS_MAX} steps, a step above 0, and no time below 0");
            return Err(self.error(
                start,
                found,
                expected,
                "the order is `expression, from, step, to`",
            ));
        }
        match NonZeroUsize::new(batches as usize) {
            Some(whole) if whole.get() as f64 == batches && batches <= count => {
                Ok(Formula::Steady {
                    expr,
                    from,
                    step,
                    count: count as usize,
                    batches: whole,
                })
            }
            _ => Err(self.error(
                at,
                format!("{batches} batches of {count} steps"),
                "a whole number, at most the steps",
                "",
            )),
        }
    }

    /// A name, an operator with a word for a name, or what looks like a function and is none.
    pub(super) fn formula_word(&mut self, word: &str, start: Span) -> Result<Expr, QueryError> {
        if matches!(word, "F" | "G") && !self.is_second(".") {
            return self.eventually(word, start);
        }
        if matches!(word, "E" | "P") && self.is_second("[")
            || matches!(word, "quantile" | "steady") && self.is_second("(")
        {
            let found = format!("`{word}` within an expression");
            return Err(self.error(
                start,
                found,
                "an observable, a number or a group",
                "a formula asks one question: write two formulas",
            ));
        }
        if self.is_second("(") {
            let found = format!("the operator `{word}`");
            return Err(self.error(
                start,
                found,
                "observables, numbers, `if … then … else … fi` and the operators + - * / % < <= > >= == != && || !",
                "operators with names are defined in QuaTEx: give the query as `quatex`",
            ));
        }
        let name = self.dotted("an observable")?;
        let span = start.to(self.last_span());
        let name = self.checked(ExprKind::Text(name), span)?;
        self.checked(ExprKind::Observe(Box::new(name)), span)
    }

    /// `honest.complete`.
    fn dotted(&mut self, expected: &str) -> Result<String, QueryError> {
        let (mut name, _) = self.word(expected)?;
        while self.accept(".") {
            name.push('.');
            name.push_str(&self.word("the rest of the name")?.0);
        }
        Ok(name)
    }

    /// `<=t`, if anything.
    fn time_bound(&mut self) -> Result<Option<f64>, QueryError> {
        if !self.accept("<=") {
            return Ok(None);
        }
        let limit = self.nested(Self::bare_constant)?;
        Ok(Some(limit))
    }

    /// `F<=t c` and `G<=t c`.
    fn eventually(&mut self, word: &str, start: Span) -> Result<Expr, QueryError> {
        self.advance();
        let limit = self.time_bound()?;
        let condition = self.nested(|p| p.binary(LOOSEST))?;
        let span = start.to(condition.span);
        // Always is: not once is it otherwise.
        let found = f64::from(word == "F");
        let number = |value| Expr::new(ExprKind::Number(value), span);
        let condition = if word == "F" {
            condition
        } else {
            self.checked(ExprKind::Unary(UnaryOp::Not, Box::new(condition)), span)?
        };
        let body = vec![
            (condition, number(found)),
            (observe(ENDED, span), number(1.0 - found)),
        ];
        self.define(word, span, limit, 1.0 - found, body)
    }

    /// `a U<=t b`: b by t, and a until then.
    pub(super) fn until(&mut self, left: Expr) -> Result<Expr, QueryError> {
        self.advance();
        let limit = self.time_bound()?;
        let right = self.nested(|p| p.binary(LOOSEST))?;
        let span = left.span.to(right.span);
        let number = |value| Expr::new(ExprKind::Number(value), span);
        let left = self.checked(ExprKind::Unary(UnaryOp::Not, Box::new(left)), span)?;
        let body = vec![
            (right, number(1.0)),
            (left, number(0.0)),
            (observe(ENDED, span), number(0.0)),
        ];
        self.define("U", span, limit, 0.0, body)
    }

    /// Defines an operator that takes the first of the cases that holds, goes on if none does, and is `late` after the limit.
    fn define(
        &mut self,
        word: &str,
        span: Span,
        limit: Option<f64>,
        late: f64,
        mut cases: Vec<(Expr, Expr)>,
    ) -> Result<Expr, QueryError> {
        if let Some(limit) = limit {
            let limit = Expr::new(ExprKind::Number(limit), span);
            let over = Expr::new(
                ExprKind::Binary(BinaryOp::Greater, Box::new([observe(TIME, span), limit])),
                span,
            );
            cases.insert(0, (over, Expr::new(ExprKind::Number(late), span)));
        }
        let name = format!("{word}@{}", self.defined.len());
        let call = Expr::new(ExprKind::Call(name.clone(), Vec::new()), span);
        let mut body = Expr::new(ExprKind::Next(Box::new(call.clone())), span);
        for (condition, value) in cases.into_iter().rev() {
            body = self.checked(ExprKind::If(Box::new([condition, value, body])), span)?;
        }
        self.defined.push(Definition {
            name,
            parameters: Vec::new(),
            body,
            span,
        });
        Ok(call)
    }

    /// Beside temporal operators, what is not under one is read at the end of the run.
    fn at_end(&mut self, expr: Expr) -> Expr {
        if self.defined.is_empty() || !observes(&expr) {
            return expr;
        }
        if calls(&expr) {
            let Expr { kind, span, .. } = expr;
            let kind = match kind {
                ExprKind::Unary(op, inner) => ExprKind::Unary(op, Box::new(self.at_end(*inner))),
                ExprKind::Binary(op, operands) => {
                    ExprKind::Binary(op, Box::new(operands.map(|part| self.at_end(part))))
                }
                ExprKind::If(parts) => ExprKind::If(Box::new(parts.map(|part| self.at_end(part)))),
                other => other,
            };
            return Expr::new(kind, span);
        }
        let span = expr.span;
        let name = format!("end@{}", self.defined.len());
        let call = Expr::new(ExprKind::Call(name.clone(), Vec::new()), span);
        let next = Expr::new(ExprKind::Next(Box::new(call.clone())), span);
        let parts = Box::new([observe(ENDED, span), expr, next]);
        let body = Expr::new(ExprKind::If(parts), span);
        self.defined.push(Definition {
            name,
            parameters: Vec::new(),
            body,
            span,
        });
        call
    }
}

/// The name of a temporal operator as it is written: a definition's name has a number after it.
pub(super) fn shown(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

pub(super) fn observe(name: &str, span: Span) -> Expr {
    let name = Expr::new(ExprKind::Text(name.into()), span);
    Expr::new(ExprKind::Observe(Box::new(name)), span)
}

fn any(expr: &Expr, wanted: fn(&ExprKind) -> bool) -> bool {
    let mut found = wanted(&expr.kind);
    expr.kind
        .each(&mut |inner| found = found || any(inner, wanted));
    found
}

/// Whether it depends on the run.
pub(super) fn depends(expr: &Expr) -> bool {
    observes(expr) || calls(expr)
}

/// Whether something is divided by what depends on the run.
pub(super) fn divides(expr: &Expr) -> bool {
    any(
        expr,
        |kind| matches!(kind, ExprKind::Binary(BinaryOp::Divide, operands) if depends(&operands[1])),
    )
}

fn observes(expr: &Expr) -> bool {
    any(expr, |kind| matches!(kind, ExprKind::Observe(_)))
}

fn calls(expr: &Expr) -> bool {
    any(expr, |kind| matches!(kind, ExprKind::Call(..)))
}
