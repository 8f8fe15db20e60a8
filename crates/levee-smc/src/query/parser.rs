//! Tokens to expressions.
//!
//! Where the tools differ, all are read: braces and parentheses both group, conditions may stand in either;
//! `&&` and `and`, `||` and `or`, `!` and `not` are the same. Precedence is that of C; `not` binds less than a comparison.

use super::error::{QueryError, Sources, Span};
use super::file::{Outside, TIME};
use super::lexer::{Token, TokenKind};
use super::syntax::{Asked, BinaryOp, DEPTH_MAX, Definition, Expr, ExprKind, UnaryOp};

pub(super) struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    sources: &'a Sources,
    outside: Outside<'a>,
    /// In a formula, names are observables.
    pub(super) is_formula: bool,
    /// What the temporal operators of a formula are made of.
    pub(super) defined: Vec<Definition>,
    /// Groups, conditionals and prefixes that are open: they are not in the tree yet, but on this walk's stack.
    open: u16,
    /// How many values all parameters have so far.
    pub(super) points: usize,
}

const WORDS_OF_AND: [&str; 2] = ["&&", "and"];
const WORDS_OF_OR: [&str; 2] = ["||", "or"];

impl<'a> Parser<'a> {
    pub(super) fn new(
        tokens: &'a [Token],
        sources: &'a Sources,
        outside: Outside<'a>,
        is_formula: bool,
    ) -> Self {
        Self {
            tokens,
            at: 0,
            sources,
            outside,
            is_formula,
            defined: Vec::new(),
            open: 0,
            points: 0,
        }
    }

    pub(super) fn peek(&self) -> &'a TokenKind {
        &self.tokens[self.at].kind
    }

    pub(super) fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// Where the token before stands.
    pub(super) fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    pub(super) fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    /// Where the token after the next stands.
    pub(super) fn second_span(&self) -> Span {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)].span
    }

    /// Whether the next token is this symbol or word.
    pub(super) fn is(&self, text: &str) -> bool {
        self.is_at(self.at, text)
    }

    fn is_at(&self, at: usize, text: &str) -> bool {
        match self.tokens.get(at).map(|token| &token.kind) {
            Some(TokenKind::Word(word)) => word == text,
            Some(TokenKind::Symbol(symbol)) => *symbol == text,
            _ => false,
        }
    }

    /// Whether the token after the next is this symbol or word.
    pub(super) fn is_second(&self, text: &str) -> bool {
        self.is_at(self.at + 1, text)
    }

    pub(super) fn accept(&mut self, text: &str) -> bool {
        let is = self.is(text);
        if is {
            self.advance();
        }
        is
    }

    pub(super) fn error(
        &self,
        span: Span,
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> QueryError {
        self.sources.error(span, found, expected, remedy)
    }

    /// The next token is not what may stand here.
    pub(super) fn unexpected(&self, expected: &str, remedy: &str) -> QueryError {
        let remedy = if remedy.is_empty() && self.is("=") {
            "equality is written `==`"
        } else {
            remedy
        };
        self.error(self.span(), self.peek().describe(), expected, remedy)
    }

    pub(super) fn expect(
        &mut self,
        text: &str,
        expected: &str,
        remedy: &str,
    ) -> Result<(), QueryError> {
        if self.accept(text) {
            return Ok(());
        }
        Err(self.unexpected(expected, remedy))
    }

    pub(super) fn word(&mut self, expected: &str) -> Result<(String, Span), QueryError> {
        match self.peek() {
            TokenKind::Word(word) if !is_keyword(word) && !word.starts_with('$') => {
                let span = self.span();
                self.advance();
                Ok((word.clone(), span))
            }
            TokenKind::Word(word) if is_keyword(word) => {
                let remedy = format!("`{word}` is a word of the language: take another name");
                Err(self.unexpected(expected, &remedy))
            }
            _ => Err(self.unexpected(expected, "")),
        }
    }

    /// `E[ … ]` or `P[ … ]`.
    pub(super) fn asked(&mut self) -> Result<(Asked, Expr), QueryError> {
        let asked = match self.peek() {
            TokenKind::Word(word) if word == "E" => Asked::Mean,
            TokenKind::Word(word) if word == "P" => Asked::Probability,
            _ => return Err(self.unexpected("`E[ … ]`, `P[ … ]` or `parametric( … )`", "")),
        };
        self.advance();
        self.expect("[", "`[`", "")?;
        let expr = self.expr()?;
        self.expect("]", "an operator or `]`", "")?;
        Ok((asked, expr))
    }

    /// `>= 0.9`, if anything.
    pub(super) fn bound(&mut self) -> Result<Option<(BinaryOp, f64)>, QueryError> {
        let TokenKind::Symbol(symbol) = self.peek() else {
            return Ok(None);
        };
        let op = match *symbol {
            "<" => BinaryOp::Less,
            "<=" => BinaryOp::LessEqual,
            ">" => BinaryOp::Greater,
            ">=" => BinaryOp::GreaterEqual,
            "==" | "=" | "!=" => {
                return Err(self.unexpected(
                    "`>=`, `>`, `<=` or `<`",
                    "no number of runs can show that two numbers are equal",
                ));
            }
            _ => return Ok(None),
        };
        self.advance();
        Ok(Some((op, self.constant()?)))
    }

    /// A number that is known now.
    pub(super) fn constant(&mut self) -> Result<f64, QueryError> {
        let expr = self.binary(SUM)?;
        evaluate(&expr, None, self.sources)
    }

    /// A number without operators, or a group.
    pub(super) fn bare_constant(&mut self) -> Result<f64, QueryError> {
        let expr = self.unary()?;
        evaluate(&expr, None, self.sources)
    }

    /// An expression, as wide as it goes.
    pub(super) fn expr(&mut self) -> Result<Expr, QueryError> {
        let left = self.binary(LOOSEST)?;
        if self.is_formula && self.is("U") {
            return self.until(left);
        }
        Ok(left)
    }

    /// Operators of at least this level.
    pub(super) fn binary(&mut self, level: u8) -> Result<Expr, QueryError> {
        let mut left = self.unary()?;
        let mut compared = None;
        while let Some((op, own)) = self.operator()
            && own >= level
        {
            if own == RELATION && compared.replace(RELATION) == Some(RELATION)
                || own == EQUALITY && compared.replace(EQUALITY) == Some(EQUALITY)
            {
                return Err(self.unexpected(
                    "`&&`, or the end of the comparison",
                    "write `a < b && b < c`: the other tools would compare the 0 or 1 of `a < b`",
                ));
            }
            self.advance();
            let right = self.binary(own + 1)?;
            let span = left.span.to(right.span);
            left = self.checked(ExprKind::Binary(op, Box::new([left, right])), span)?;
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(BinaryOp, u8)> {
        let text = match self.peek() {
            TokenKind::Symbol(symbol) => *symbol,
            TokenKind::Word(word) => word.as_str(),
            _ => return None,
        };
        Some(match text {
            _ if WORDS_OF_OR.contains(&text) => (BinaryOp::Or, LOOSEST),
            _ if WORDS_OF_AND.contains(&text) => (BinaryOp::And, LOOSEST + 1),
            "==" => (BinaryOp::Equal, EQUALITY),
            "!=" => (BinaryOp::NotEqual, EQUALITY),
            "<" => (BinaryOp::Less, RELATION),
            "<=" => (BinaryOp::LessEqual, RELATION),
            ">" => (BinaryOp::Greater, RELATION),
            ">=" => (BinaryOp::GreaterEqual, RELATION),
            "+" => (BinaryOp::Add, SUM),
            "-" => (BinaryOp::Subtract, SUM),
            "*" => (BinaryOp::Multiply, SUM + 1),
            "/" => (BinaryOp::Divide, SUM + 1),
            "%" => (BinaryOp::Remainder, SUM + 1),
            _ => return None,
        })
    }

    /// An expression that is not nested too deep.
    pub(super) fn checked(&self, kind: ExprKind, span: Span) -> Result<Expr, QueryError> {
        let expr = Expr::new(kind, span);
        if expr.depth <= DEPTH_MAX {
            return Ok(expr);
        }
        Err(self.too_deep(span))
    }

    fn too_deep(&self, span: Span) -> QueryError {
        self.error(
            span,
            format!("more than {DEPTH_MAX} levels of nesting"),
            "",
            "give parts of it names, by definitions",
        )
    }

    /// Runs a part that this walk goes down into.
    pub(super) fn nested<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        if self.open == DEPTH_MAX {
            return Err(self.too_deep(self.span()));
        }
        self.open += 1;
        let result = part(self);
        self.open -= 1;
        result
    }

    fn unary(&mut self) -> Result<Expr, QueryError> {
        let start = self.span();
        let prefix = |op, expr: Expr| {
            let span = start.to(expr.span);
            (ExprKind::Unary(op, Box::new(expr)), span)
        };
        let (kind, span) = if self.accept("-") {
            match self.nested(Self::unary)? {
                // A negative number is one.
                Expr {
                    kind: ExprKind::Number(n),
                    span,
                    ..
                } => (ExprKind::Number(-n), start.to(span)),
                expr => prefix(UnaryOp::Negate, expr),
            }
        } else if self.accept("!") {
            prefix(UnaryOp::Not, self.nested(Self::unary)?)
        } else if self.accept("not") {
            prefix(UnaryOp::Not, self.nested(|p| p.binary(EQUALITY))?)
        } else {
            return self.nested(Self::primary);
        };
        self.checked(kind, span)
    }

    fn primary(&mut self) -> Result<Expr, QueryError> {
        let start = self.span();
        if let Some(close) = [("(", ")"), ("{", "}")]
            .iter()
            .find_map(|(open, close)| self.accept(open).then_some(*close))
        {
            let inner = self.expr()?;
            self.expect(close, &format!("an operator or `{close}`"), "")?;
            return Ok(inner);
        }
        match self.peek() {
            TokenKind::Number(number) => {
                self.advance();
                self.checked(ExprKind::Number(*number), start)
            }
            TokenKind::Text(text) => {
                self.advance();
                let text = self.checked(ExprKind::Text(text.clone()), start)?;
                if self.is_formula {
                    return self.checked(ExprKind::Observe(Box::new(text)), start);
                }
                Ok(text)
            }
            TokenKind::Symbol("#") => self.next(start),
            TokenKind::Word(word) => self.of_word(word, start),
            _ => Err(self.unexpected("an expression", "")),
        }
    }

    /// After `#`: an operator or an observation.
    fn next(&mut self, start: Span) -> Result<Expr, QueryError> {
        if self.is_formula {
            return Err(self.unexpected(
                "names of observables, numbers and operators",
                "a formula has no `#`: write a QuaTEx query, or `F<=t`, `G<=t`, `U<=t` within `P[ … ]`",
            ));
        }
        self.advance();
        let inner = self.nested(Self::unary)?;
        let span = start.to(self.last_span());
        match inner.kind {
            ExprKind::Call(..) => {}
            ExprKind::Observe(ref of)
                if matches!(
                    of.kind,
                    ExprKind::Number(_) | ExprKind::Text(_) | ExprKind::Name(_)
                ) => {}
            _ => {
                let remedy = match &inner.kind {
                    ExprKind::Name(name) => {
                        format!("an operator is written with its arguments: `{name}(…)`")
                    }
                    _ => "give the expression a name, by a definition".into(),
                };
                let found = "an expression after `#`";
                let expected = "an operator with its arguments, as in `# f(x)`";
                return Err(self.error(inner.span, found, expected, remedy));
            }
        }
        self.checked(ExprKind::Next(Box::new(inner)), span)
    }

    fn of_word(&mut self, word: &str, start: Span) -> Result<Expr, QueryError> {
        if let Some(name) = word.strip_prefix('$') {
            let Some(value) = self.outside.constants.get(name) else {
                let known: Vec<_> = self
                    .outside
                    .constants
                    .keys()
                    .map(|k| format!("`${k}`"))
                    .collect();
                let known = if known.is_empty() {
                    "none".into()
                } else {
                    known.join(", ")
                };
                let found = format!("the constant `{word}`, which is not defined");
                return Err(self.error(
                    start,
                    found,
                    "",
                    format!("give it a value; defined: {known}"),
                ));
            };
            self.advance();
            return self.checked(ExprKind::Number(*value), start);
        }
        match word {
            "if" => self.conditional(start),
            "true" | "false" => {
                self.advance();
                self.checked(ExprKind::Number(f64::from(word == "true")), start)
            }
            "discard" if self.is_formula => Err(self.unexpected(
                "an observable",
                "runs are discarded in QuaTEx: give the query as `quatex`",
            )),
            "discard" => {
                self.advance();
                self.checked(ExprKind::Discard, start)
            }
            "s" if self.is_second(".") && (!self.is_formula || self.is_at(self.at + 2, "rval")) => {
                self.observation(start)
            }
            _ if self.is_formula => self.formula_word(word, start),
            "then" | "else" | "fi" => Err(self.unexpected(
                "an expression",
                "a conditional is `if condition then value else value fi`",
            )),
            _ if is_keyword(word) => Err(self.unexpected("an expression", "")),
            _ if self.is_second("(") => {
                self.advance();
                let arguments = self.nested(Self::arguments)?;
                let span = start.to(self.last_span());
                self.checked(ExprKind::Call(word.to_owned(), arguments), span)
            }
            _ => {
                self.advance();
                self.checked(ExprKind::Name(word.to_owned()), start)
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, QueryError> {
        self.advance();
        let mut arguments = Vec::new();
        if self.accept(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expr()?);
            if self.accept(")") {
                return Ok(arguments);
            }
            self.expect(",", "an operator, `,` or `)`", "")?;
        }
    }

    fn conditional(&mut self, start: Span) -> Result<Expr, QueryError> {
        self.advance();
        let line = self.sources.place(start).line;
        let condition = self.expr()?;
        self.expect(
            "then",
            &format!("an operator, or `then` of the `if` in line {line}"),
            "",
        )?;
        let yes = self.expr()?;
        self.expect(
            "else",
            &format!("an operator, or `else` of the `if` in line {line}"),
            "",
        )?;
        let no = self.expr()?;
        let expected = format!("an operator, or `fi` of the `if` in line {line}");
        self.expect("fi", &expected, "each `if` ends with its own `fi`")?;
        let span = start.to(self.last_span());
        self.checked(ExprKind::If(Box::new([condition, yes, no])), span)
    }

    /// `s.rval(…)`, and PVeStA's `s.getTime()` and `s.sat(…)`.
    fn observation(&mut self, start: Span) -> Result<Expr, QueryError> {
        self.advance();
        self.advance();
        let (name, span) = self.word("`rval`")?;
        if !self.is("(") {
            return Err(self.unexpected("`(` and the observable", ""));
        }
        let mut arguments = self.nested(Self::arguments)?;
        let span_all = start.to(self.last_span());
        let count = arguments.len();
        let argument = match (name.as_str(), arguments.pop()) {
            ("getTime", None) => Expr::new(ExprKind::Text(TIME.into()), span_all),
            // In a formula a name by itself was taken for its value.
            ("rval" | "sat", Some(argument)) if count == 1 => match argument.kind {
                ExprKind::Observe(name)
                    if self.is_formula && matches!(name.kind, ExprKind::Text(_)) =>
                {
                    *name
                }
                _ => argument,
            },
            ("rval" | "sat", _) => {
                return Err(self.error(
                    span_all,
                    format!("{count} arguments"),
                    format!("one observable, by name or number: `s.{name}(\"time\")`"),
                    "",
                ));
            }
            _ => {
                return Err(self.error(
                    span,
                    format!("`s.{name}`"),
                    "`s.rval(\"name\")`, `s.rval(number)`, or PVeStA's `s.sat(number)` and `s.getTime()`",
                    "",
                ));
            }
        };
        let observed = self.checked(ExprKind::Observe(Box::new(argument)), span_all)?;
        if name != "sat" {
            return Ok(observed);
        }
        self.checked(
            ExprKind::Unary(UnaryOp::Truth, Box::new(observed)),
            span_all,
        )
    }
}

/// Levels of binary operators.
pub(super) const LOOSEST: u8 = 1;
pub(super) const EQUALITY: u8 = 3;
pub(super) const RELATION: u8 = 4;
pub(super) const SUM: u8 = 5;

/// Words that cannot be names.
fn is_keyword(word: &str) -> bool {
    const KEYWORDS: [&str; 12] = [
        "if", "then", "else", "fi", "eval", "discard", "import", "and", "or", "not", "true",
        "false",
    ];
    KEYWORDS.contains(&word)
}

/// The value of an expression that observes nothing; `parameter` may stand in it.
pub(super) fn evaluate(
    expr: &Expr,
    parameter: Option<(&str, f64)>,
    sources: &Sources,
) -> Result<f64, QueryError> {
    let value = match &expr.kind {
        ExprKind::Number(number) => Some(*number),
        ExprKind::Name(name) => match parameter {
            Some((known, value)) if known == name => Some(value),
            _ => None,
        },
        ExprKind::Unary(op, inner) => Some(op.apply(evaluate(inner, parameter, sources)?)),
        ExprKind::Binary(op, operands) => {
            let [a, b] = &**operands;
            op.apply(
                evaluate(a, parameter, sources)?,
                evaluate(b, parameter, sources)?,
            )
        }
        ExprKind::If(parts) => {
            let [condition, yes, no] = &**parts;
            let is = evaluate(condition, parameter, sources)? != 0.0;
            Some(evaluate(if is { yes } else { no }, parameter, sources)?)
        }
        _ => None,
    };
    value.filter(|value| value.is_finite()).ok_or_else(|| {
        sources.error(
            expr.span,
            format!("`{}`", sources.words(expr.span)),
            "a number that is known before the runs",
            "",
        )
    })
}
