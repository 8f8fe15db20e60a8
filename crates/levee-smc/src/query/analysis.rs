//! What is known of operators before anything is run: that each name means something, which of them look ahead, and which can end.

use std::collections::BTreeMap;

use super::error::{QueryError, Sources, Span};
use super::file::{DEFINITIONS_MAX, ENDED, STEPS, TIME};
use super::short::shown;
use super::syntax::{BinaryOp, Definition, Expr, ExprKind, UnaryOp};
use crate::trial::Observable;

/// The unit of observables that are 0 or 1.
pub const TRUTH_UNIT: &str = "0/1";

/// What a query may ask a model for.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// See [`Trial::observables`](crate::Trial::observables).
    pub observables: &'a [Observable],
    /// See [`Trial::samples`](crate::Trial::samples).
    pub samples: &'a [Observable],
}

/// What an observation reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    /// An observable of the model, by its index.
    Model(u32),
    /// The number of states before this one.
    Steps,
    /// Whether this is the run's last state.
    Ended,
}

impl Observed {
    /// The number that a name is passed as. Those of the model are counted from 1; 0 is `time`; the others are nothing that one would write.
    pub(super) fn number(self) -> f64 {
        match self {
            Observed::Model(index) => f64::from(index) + 1.0,
            Observed::Steps => -1.5,
            Observed::Ended => -2.5,
        }
    }
}

impl Offer<'_> {
    /// What a name stands for. The model's own come first.
    pub(super) fn named(&self, name: &str) -> Option<Observed> {
        let index = self.observables.iter().position(|o| o.name == name);
        match (index, name) {
            (Some(index), _) => u32::try_from(index).ok().map(Observed::Model),
            (None, STEPS) => Some(Observed::Steps),
            (None, ENDED) => Some(Observed::Ended),
            (None, _) => None,
        }
    }

    /// What a number stands for, as it is written or passed.
    pub(super) fn numbered(&self, number: f64) -> Option<Observed> {
        if number == 0.0 {
            return self.named(TIME);
        }
        let all = self.observables.len();
        (1.0..=all as f64)
            .contains(&number)
            .then_some(number as u32)
            .filter(|whole| f64::from(*whole) == number)
            .map(|whole| Observed::Model(whole - 1))
            .or_else(|| {
                [Observed::Steps, Observed::Ended]
                    .into_iter()
                    .find(|o| o.number() == number)
            })
    }

    fn suggest(&self, name: &str, from: &[Observable]) -> Option<String> {
        let own = [STEPS, ENDED];
        from.iter()
            .map(|o| o.name.as_ref())
            .chain(own)
            .map(|known| (strsim::damerau_levenshtein(name, known), known))
            .min()
            .filter(|(distance, _)| *distance <= 2.max(name.chars().count() / 3))
            .map(|(_, known)| format!("did you mean `{known}`? "))
    }

    /// What is wrong with a name that is none.
    fn unknown(&self, name: &str, span: Span, sources: &Sources) -> QueryError {
        let found = format!("`{name}`, which the model does not list");
        let list = "`--observables` lists what it offers";
        if name == TIME {
            return sources.error(
                span,
                found,
                "",
                "a model whose time is asked for lists an observable `time`",
            );
        }
        if self.samples.iter().any(|o| o.name == name) {
            let found = format!("`{name}`, which is many values a run");
            return sources.error(
                span,
                found,
                "an observable",
                format!("ask for `quantile(0.95, {name})`"),
            );
        }
        if name.contains([' ', '(', '|', '=']) {
            return sources.error(
                span,
                found,
                "the name of an observable",
                format!(
                    "umaudemc reads terms of Maude here; a model has named observables: {list}"
                ),
            );
        }
        let near = self.suggest(name, self.observables).unwrap_or_default();
        sources.error(span, found, "", format!("{near}{list}"))
    }

    /// The list of samples with a name.
    pub(super) fn samples_named(
        &self,
        name: &str,
        span: Span,
        sources: &Sources,
    ) -> Result<usize, QueryError> {
        if let Some(index) = self.samples.iter().position(|o| o.name == name) {
            return Ok(index);
        }
        let known: Vec<_> = self
            .samples
            .iter()
            .map(|o| format!("`{}`", o.name))
            .collect();
        let known = if known.is_empty() {
            "none".into()
        } else {
            known.join(", ")
        };
        let found = if self.named(name).is_some() {
            format!("`{name}`, which is one value a run")
        } else {
            format!("`{name}`, which the model does not list")
        };
        Err(sources.error(
            span,
            found,
            "the name of samples",
            format!("the model collects: {known}"),
        ))
    }
}

/// What is known of a definition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Its value may depend on later states, or be discarded: it cannot stand in a condition or an argument.
    pub(super) ahead: bool,
    /// Its value is 0 or 1.
    pub(super) truth: bool,
    /// It can have a value.
    ends: bool,
}

/// The definitions of a text and what is known of them.
pub(super) struct Scope<'a> {
    pub(super) definitions: &'a [Definition],
    pub(super) facts: Vec<Facts>,
    indices: BTreeMap<&'a str, usize>,
    /// For each parameter, whether it is used as a number.
    numeric: Vec<Vec<bool>>,
    offer: Offer<'a>,
    sources: &'a Sources,
}

impl<'a> Scope<'a> {
    /// Checks the definitions.
    pub(super) fn new(
        definitions: &'a [Definition],
        offer: Offer<'a>,
        sources: &'a Sources,
    ) -> Result<Self, QueryError> {
        if let Some(excess) = definitions.get(DEFINITIONS_MAX) {
            let found = format!("more than {DEFINITIONS_MAX} definitions");
            return Err(sources.error(
                excess.span,
                found,
                "",
                "give one operator parameters, in place of many operators",
            ));
        }
        let mut indices = BTreeMap::new();
        for (index, definition) in definitions.iter().enumerate() {
            if let Some(first) = indices.insert(definition.name.as_str(), index) {
                let line = sources.place(definitions[first].span).line;
                let found = format!("`{}`, which is defined in line {line} too", definition.name);
                return Err(sources.error(definition.span, found, "each operator once", ""));
            }
        }
        let facts = Facts {
            ahead: false,
            truth: true,
            ends: false,
        };
        let mut scope = Self {
            definitions,
            facts: vec![facts; definitions.len()],
            indices,
            numeric: definitions
                .iter()
                .map(|d| vec![false; d.parameters.len()])
                .collect(),
            offer,
            sources,
        };
        for definition in definitions {
            let names: Vec<_> = definition
                .parameters
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            scope.check_names(&definition.body, &names)?;
        }
        scope.settle();
        for (definition, facts) in definitions.iter().zip(&scope.facts) {
            if !facts.ends {
                return Err(scope.endless(definition));
            }
        }
        for definition in definitions {
            scope.check_whole(&definition.body)?;
        }
        Ok(scope)
    }

    /// Checks an expression that is asked for.
    pub(super) fn check(&self, expr: &Expr, parameters: &[&str]) -> Result<(), QueryError> {
        self.check_names(expr, parameters)?;
        self.check_whole(expr)
    }

    pub(super) fn index(&self, name: &str) -> usize {
        self.indices[name]
    }

    /// What an observation with a fixed argument reads.
    pub(super) fn observed(&self, argument: &Expr) -> Option<Observed> {
        match &argument.kind {
            ExprKind::Text(name) => self.offer.named(name),
            ExprKind::Number(number) => self.offer.numbered(*number),
            _ => None,
        }
    }

    /// That each name stands for something, and is given what it takes.
    fn check_names(&self, expr: &Expr, parameters: &[&str]) -> Result<(), QueryError> {
        match &expr.kind {
            ExprKind::Name(name) if !parameters.contains(&name.as_str()) => {
                return Err(self.unknown_name(name, expr.span, parameters));
            }
            ExprKind::Observe(argument) => self.check_observation(argument)?,
            ExprKind::Call(name, arguments) => {
                let Some(&index) = self.indices.get(name.as_str()) else {
                    return Err(self.unknown_operator(name, expr.span));
                };
                let wanted = self.definitions[index].parameters.len();
                if arguments.len() != wanted {
                    let found = match arguments.len() {
                        1 => format!("1 argument of `{name}`"),
                        count => format!("{count} arguments of `{name}`"),
                    };
                    let line = self.sources.place(self.definitions[index].span).line;
                    return Err(self.sources.error(
                        expr.span,
                        found,
                        format!("{wanted}, as defined in line {line}"),
                        "",
                    ));
                }
            }
            _ => {}
        }
        let mut result = Ok(());
        expr.kind.each(&mut |inner| {
            if result.is_ok() {
                result = self.check_names(inner, parameters);
            }
        });
        result
    }

    fn check_observation(&self, argument: &Expr) -> Result<(), QueryError> {
        match &argument.kind {
            ExprKind::Text(name) if self.offer.named(name).is_none() => {
                Err(self.offer.unknown(name, argument.span, self.sources))
            }
            ExprKind::Number(number) if self.offer.numbered(*number).is_none() => {
                let found = format!("observable number {number}");
                let expected = format!("1 to {}, or 0 for `time`", self.offer.observables.len());
                Err(self.sources.error(
                    argument.span,
                    found,
                    expected,
                    "`--observables` lists them in their order",
                ))
            }
            _ => Ok(()),
        }
    }

    fn unknown_name(&self, name: &str, span: Span, parameters: &[&str]) -> QueryError {
        let remedy = if self.indices.contains_key(name) {
            format!("an operator is written with its arguments: `{name}(…)`")
        } else if self.offer.named(name).is_some() {
            format!("an observable is written `s.rval(\"{name}\")`")
        } else if parameters.is_empty() {
            "there are no parameters here".into()
        } else {
            format!("parameters here: `{}`", parameters.join("`, `"))
        };
        self.sources.error(
            span,
            format!("the unknown name `{name}`"),
            "a parameter",
            remedy,
        )
    }

    fn unknown_operator(&self, name: &str, span: Span) -> QueryError {
        let near = self
            .indices
            .keys()
            .map(|known| (strsim::damerau_levenshtein(name, known), known))
            .min()
            .filter(|(distance, _)| *distance <= 2.max(name.chars().count() / 3));
        let remedy = match near {
            Some((_, known)) => format!("did you mean `{known}`?"),
            None => format!("define it: `{name}(…) = … ;`"),
        };
        self.sources.error(
            span,
            format!("the operator `{name}`, which is not defined"),
            "",
            remedy,
        )
    }

    /// [`Scope::check_shape`] of a whole expression.
    fn check_whole(&self, expr: &Expr) -> Result<(), QueryError> {
        match &expr.kind {
            ExprKind::Text(text) => Err(self.text_astray(text, expr.span)),
            _ => self.check_shape(expr),
        }
    }

    /// That nothing looks ahead where it cannot, and no name is taken for a number.
    fn check_shape(&self, expr: &Expr) -> Result<(), QueryError> {
        match &expr.kind {
            ExprKind::If(parts) => self.check_now(&parts[0], "the condition of an `if`")?,
            ExprKind::Observe(argument) => self.check_now(argument, "the argument of `s.rval`")?,
            ExprKind::Call(name, arguments) => {
                for (argument, numeric) in arguments.iter().zip(&self.numeric[self.index(name)]) {
                    self.check_now(argument, "an argument")?;
                    let ExprKind::Text(text) = &argument.kind else {
                        continue;
                    };
                    if *numeric {
                        let found =
                            format!("the name \"{text}\", which `{name}` takes for a number");
                        return Err(self.sources.error(
                            argument.span,
                            found,
                            "a number",
                            format!("its value is `s.rval(\"{text}\")`"),
                        ));
                    }
                    self.check_observation(argument)?;
                }
            }
            _ => {}
        }
        let is_place_of_text = matches!(expr.kind, ExprKind::Observe(_) | ExprKind::Call(..));
        let mut result = Ok(());
        expr.kind.each(&mut |inner| {
            if result.is_err() {
                return;
            }
            result = match &inner.kind {
                ExprKind::Text(text) if !is_place_of_text => {
                    Err(self.text_astray(text, inner.span))
                }
                _ => self.check_shape(inner),
            };
        });
        result
    }

    fn text_astray(&self, text: &str, span: Span) -> QueryError {
        self.sources.error(
            span,
            format!("the name \"{text}\""),
            "a number",
            format!("its value is `s.rval(\"{text}\")`; a name by itself can only be passed to an operator"),
        )
    }

    fn check_now(&self, expr: &Expr, what: &str) -> Result<(), QueryError> {
        if !self.ahead(expr) {
            return Ok(());
        }
        let remedy = "look ahead in a branch, or as an operand: `if now then # f() else …`";
        let mut found = format!("a later state in {what}");
        if let Some(name) = self.temporal(expr) {
            found = format!(
                "`{name}` where a state is needed, in {what} or under another temporal operator"
            );
            return Err(self.sources.error(expr.span, found, "an expression of one state", "temporal operators do not nest; join them with `&&`, `||` and `!`, or write QuaTEx"));
        }
        Err(self.sources.error(
            expr.span,
            found,
            "an expression of this state, without `#` and `discard`",
            remedy,
        ))
    }

    /// The temporal operator of a formula within an expression.
    fn temporal(&self, expr: &Expr) -> Option<String> {
        let mut found = None;
        if let ExprKind::Call(name, _) = &expr.kind
            && name.contains('@')
        {
            return Some(shown(name).into());
        }
        expr.kind.each(&mut |inner| {
            if found.is_none() {
                found = self.temporal(inner);
            }
        });
        found
    }

    fn endless(&self, definition: &Definition) -> QueryError {
        let name = &definition.name;
        self.sources.error(
            definition.span,
            format!("`{name}`, which never ends: whatever the states, it calls itself or another that never ends"),
            "a branch that gives a value",
            format!("`{name}(…) = if condition then value else # {name}(…) fi ;`"),
        )
    }

    /// Whether the value needs later states, or may be discarded.
    pub(super) fn ahead(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Next(_) | ExprKind::Discard => true,
            ExprKind::Call(name, arguments) => {
                self.facts[self.index(name)].ahead || arguments.iter().any(|a| self.ahead(a))
            }
            _ => {
                let mut any = false;
                expr.kind.each(&mut |inner| any = any || self.ahead(inner));
                any
            }
        }
    }

    /// Whether the value is 0 or 1.
    pub(super) fn truth(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Number(number) => *number == 0.0 || *number == 1.0,
            ExprKind::Unary(op, _) => *op != UnaryOp::Negate,
            ExprKind::Binary(op, _) => op.is_truth(),
            ExprKind::If(parts) => self.truth(&parts[1]) && self.truth(&parts[2]),
            ExprKind::Call(name, _) => self.facts[self.index(name)].truth,
            ExprKind::Next(inner) => self.truth(inner),
            ExprKind::Discard => true,
            ExprKind::Observe(argument) => match self.observed(argument) {
                Some(Observed::Model(index)) => {
                    self.offer.observables[index as usize].unit == TRUTH_UNIT
                }
                Some(Observed::Ended) => true,
                _ => false,
            },
            ExprKind::Name(_) | ExprKind::Text(_) => false,
        }
    }

    /// Whether some course of states gives it a value.
    fn ends(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::If(parts) => {
                self.ends(&parts[0]) && (self.ends(&parts[1]) || self.ends(&parts[2]))
            }
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, operands) => {
                // One operand may decide, if it is of this state.
                let [a, b] = &**operands;
                self.ends(a) && (!self.ahead(a) || self.ends(b)) || self.ends(b) && !self.ahead(b)
            }
            ExprKind::Call(name, arguments) => {
                self.facts[self.index(name)].ends && arguments.iter().all(|a| self.ends(a))
            }
            _ => {
                let mut all = true;
                expr.kind.each(&mut |inner| all = all && self.ends(inner));
                all
            }
        }
    }

    /// Works out the facts: the fewest that look ahead, the most that are truths, the fewest that end, the fewest numbers.
    fn settle(&mut self) {
        self.until_settled(|scope, index| {
            let now = scope.ahead(&scope.definitions[index].body);
            std::mem::replace(&mut scope.facts[index].ahead, now) != now
        });
        self.until_settled(|scope, index| {
            let now = scope.truth(&scope.definitions[index].body);
            std::mem::replace(&mut scope.facts[index].truth, now) != now
        });
        self.until_settled(|scope, index| {
            let now = scope.ends(&scope.definitions[index].body);
            std::mem::replace(&mut scope.facts[index].ends, now) != now
        });
        self.until_settled(|scope, index| {
            let definition = &scope.definitions[index];
            let parameters = definition.parameters.iter();
            let now: Vec<_> = parameters
                .map(|(p, _)| scope.numeric_use(&definition.body, p))
                .collect();
            let changed = now != scope.numeric[index];
            scope.numeric[index] = now;
            changed
        });
    }

    /// Takes a step for every definition until none changes anything. Each fact changes at most once.
    fn until_settled(&mut self, mut step: impl FnMut(&mut Self, usize) -> bool) {
        loop {
            let mut changed = false;
            for index in 0..self.definitions.len() {
                changed |= step(self, index);
            }
            if !changed {
                return;
            }
        }
    }

    /// Whether a parameter is used as a number.
    fn numeric_use(&self, expr: &Expr, parameter: &str) -> bool {
        let is = |e: &Expr| matches!(&e.kind, ExprKind::Name(name) if name == parameter);
        match &expr.kind {
            ExprKind::Name(name) => name == parameter,
            ExprKind::Observe(argument) => !is(argument) && self.numeric_use(argument, parameter),
            ExprKind::Call(name, arguments) => {
                let taken = &self.numeric[self.index(name)];
                arguments.iter().zip(taken).any(|(argument, numeric)| {
                    if is(argument) {
                        *numeric
                    } else {
                        self.numeric_use(argument, parameter)
                    }
                })
            }
            _ => {
                let mut any = false;
                expr.kind
                    .each(&mut |inner| any = any || self.numeric_use(inner, parameter));
                any
            }
        }
    }
}
