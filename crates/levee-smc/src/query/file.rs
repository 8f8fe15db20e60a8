//! Texts to programs: QuaTEx files as PVeStA, MultiVeStA and umaudemc read them. The expressions in them are the parser's.

use std::collections::BTreeMap;

use super::error::{QueryError, Sources, Span};
use super::lexer::{TokenKind, tokens};
use super::parser::Parser;
use super::syntax::{Definition, Expr, Formula, Program, Query};

/// Longest text, in bytes: released files have under 10 kB.
pub const TEXT_MAX: usize = 1 << 20;

/// Most definitions of a query: what is known of them takes their number squared to work out.
pub const DEFINITIONS_MAX: usize = 1000;

/// Most files that one file imports, directly or not.
pub const IMPORTS_MAX: usize = 64;

/// Most values of a parameter of `parametric`: more than a plot can show.
pub const POINTS_MAX: usize = 10_000;

/// Most values of all parameters of a file: each costs a column of every run's row.
pub const QUESTIONS_MAX: usize = 100_000;

/// The last value of a range belongs to it when its steps miss it by no more than this part of a step.
pub(super) const ROUNDING: f64 = 1e-9;

/// Observed always, whatever the model lists: the states before this one, and whether it is the run's last.
pub const STEPS: &str = "steps";
/// See [`STEPS`].
pub const ENDED: &str = "ended";
/// The observable that bounds are compared with. The model lists it; it never falls.
pub const TIME: &str = "time";

/// What a file may refer to outside itself.
#[derive(Clone, Copy)]
pub struct Outside<'a> {
    /// `$name`: umaudemc's `-D name=value`.
    pub constants: &'a BTreeMap<String, f64>,
    /// Gives the text of `import "path"`, or says why not. `None`: importing is refused.
    pub import: Option<&'a Import<'a>>,
}

/// Gives the text at a path, or the cause why there is none.
pub type Import<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// Parses a QuaTEx file.
pub fn program(
    name: &str,
    text: &str,
    outside: Outside<'_>,
    sources: &mut Sources,
) -> Result<Program, QueryError> {
    let mut program = Program::default();
    let mut imported = Vec::new();
    import(name, text, outside, sources, &mut program, &mut imported)?;
    Ok(program)
}

fn import(
    name: &str,
    text: &str,
    outside: Outside<'_>,
    sources: &mut Sources,
    program: &mut Program,
    imported: &mut Vec<String>,
) -> Result<(), QueryError> {
    let source = add(name, text, sources)?;
    let tokens = tokens(sources, source)?;
    // What it imports comes first, as if it stood in its place; definitions are seen from everywhere anyway.
    let mut parser = Parser::new(&tokens, sources, outside, false);
    let mut paths = Vec::new();
    let mut own = Program::default();
    while parser.peek() != &TokenKind::End {
        parser.item(&mut own, &mut paths)?;
    }
    for (path, span) in paths {
        if imported.contains(&path) {
            continue;
        }
        let Some(load) = outside.import else {
            return Err(sources.error(
                span,
                "`import`, which is not open here",
                "",
                "put the definitions into this text, or the queries into a file",
            ));
        };
        if imported.len() == IMPORTS_MAX {
            let found = format!("more than {IMPORTS_MAX} imported files");
            return Err(sources.error(span, found, "", "put them into fewer files"));
        }
        let text = load(&path).map_err(|cause| {
            let found = format!("`{path}` cannot be imported: {cause}");
            sources.error(span, found, "", "")
        })?;
        imported.push(path.clone());
        import(&path, &text, outside, sources, program, imported)?;
    }
    program.definitions.append(&mut own.definitions);
    program.queries.append(&mut own.queries);
    Ok(())
}

/// Parses a short form. What it defines for its temporal operators goes into the program.
pub fn formula(
    name: &str,
    text: &str,
    outside: Outside<'_>,
    sources: &mut Sources,
) -> Result<(Formula, Vec<Definition>), QueryError> {
    let source = add(name, text, sources)?;
    let tokens = tokens(sources, source)?;
    let mut parser = Parser::new(&tokens, sources, outside, true);
    let formula = parser.formula()?;
    Ok((formula, parser.defined))
}

fn add(name: &str, text: &str, sources: &mut Sources) -> Result<u32, QueryError> {
    if text.len() <= TEXT_MAX {
        return Ok(sources.add(name, text));
    }
    let source = sources.add(name, "");
    let found = format!("{} bytes", text.len());
    let mut error = sources.error(
        Span {
            source,
            start: 0,
            end: 0,
        },
        found,
        format!("at most {TEXT_MAX}"),
        "write repeated queries as one with `parametric`",
    );
    error.place.line = 0;
    Err(error)
}

impl Parser<'_> {
    /// A definition, a query or an import.
    fn item(
        &mut self,
        program: &mut Program,
        paths: &mut Vec<(String, Span)>,
    ) -> Result<(), QueryError> {
        if self.accept("import") {
            let span = self.span();
            let TokenKind::Text(path) = self.peek() else {
                return Err(self.unexpected("the path of a file in quotes", ""));
            };
            self.advance();
            paths.push((path.clone(), span));
            return self.expect(";", "`;` after the import", "");
        }
        if self.accept("eval") {
            return self.eval(program);
        }
        let definition = self.definition()?;
        program.definitions.push(definition);
        Ok(())
    }

    fn definition(&mut self) -> Result<Definition, QueryError> {
        let (name, span) =
            self.word("a definition `name(parameters) = expression ;` or `eval E[ … ] ;`")?;
        self.expect(
            "(",
            "`(` and the parameters of the definition",
            "an operator without parameters is written `name() = …`",
        )?;
        let mut parameters: Vec<(String, Span)> = Vec::new();
        while !self.is(")") {
            let (parameter, span) = self.word("the name of a parameter")?;
            if parameters.iter().any(|(other, _)| *other == parameter) {
                let found = format!("`{parameter}` twice");
                return Err(self.error(span, found, "each parameter once", ""));
            }
            parameters.push((parameter, span));
            if !self.accept(",") && !self.is(")") {
                return Err(self.unexpected("`,` or `)`", ""));
            }
        }
        self.advance();
        self.expect("=", "`=` and what the operator is", "")?;
        let body = self.expr()?;
        self.expect(";", "an operator, or `;` after the definition", "")?;
        Ok(Definition {
            name,
            parameters,
            body,
            span,
        })
    }

    fn eval(&mut self, program: &mut Program) -> Result<(), QueryError> {
        if !self.is("parametric") {
            let (asked, expr) = self.asked()?;
            let bound = self.bound()?;
            let delta = self.delta()?;
            self.expect(";", "`;` after the query", "")?;
            program.queries.push(Query {
                asked,
                expr,
                bound,
                parameter: None,
                delta,
            });
            return Ok(());
        }
        self.advance();
        self.expect("(", "`(E[ … ], parameter, from, step, to)`", "")?;
        let mut asked = vec![self.asked()?];
        self.expect(",", "`,` and the parameter", "")?;
        while (self.is("E") || self.is("P")) && self.is_second("[") {
            asked.push(self.asked()?);
            self.expect(",", "`,` and the parameter", "")?;
        }
        let (name, _) = self.word("the name of the parameter")?;
        let span = self.second_span();
        let mut numbers = [0.0; 3];
        for (number, what) in numbers
            .iter_mut()
            .zip(["first value", "step", "last value"])
        {
            let expected = format!("`,` and the parameter's {what}: `x, from, step, to`");
            self.expect(",", &expected, "")?;
            *number = self.constant()?;
        }
        let span = span.to(self.last_span());
        self.expect(")", "`)` after the parameter's last value", "")?;
        let delta = self.delta()?;
        self.expect(";", "`;` after the query", "")?;
        let values = self.values(numbers, asked.len(), span)?;
        program
            .queries
            .extend(asked.into_iter().map(|(asked, expr)| Query {
                asked,
                expr,
                bound: None,
                parameter: Some((name.clone(), values.clone())),
                delta: delta.clone(),
            }));
        Ok(())
    }

    /// The values of a parameter. The last is among them when the step reaches it but for rounding.
    fn values(
        &mut self,
        [from, step, to]: [f64; 3],
        expressions: usize,
        span: Span,
    ) -> Result<Vec<f64>, QueryError> {
        if step <= 0.0 || from > to {
            let found = format!("no values from {from} by {step} to {to}");
            return Err(self.error(
                span,
                found,
                "a step above 0, and a last value not below the first",
                "the order is `x, from, step, to`",
            ));
        }
        let count = ((to - from) / step + ROUNDING).floor() + 1.0;
        if count > POINTS_MAX as f64 {
            let found = format!("{count} values of the parameter");
            return Err(self.error(
                span,
                found,
                format!("at most {POINTS_MAX}"),
                "the order is `x, from, step, to`",
            ));
        }
        self.points += count as usize * expressions;
        if self.points > QUESTIONS_MAX {
            let found = format!("more than {QUESTIONS_MAX} values of parameters in all");
            return Err(self.error(span, found, "", "ask for fewer at once"));
        }
        Ok((0..count as usize)
            .map(|k| from + k as f64 * step)
            .collect())
    }

    fn delta(&mut self) -> Result<Option<Expr>, QueryError> {
        if !self.accept("with") {
            return Ok(None);
        }
        self.expect("delta", "`delta = …`", "")?;
        self.expect("=", "`=` and the half-width of the interval", "")?;
        self.expr().map(Some)
    }
}
