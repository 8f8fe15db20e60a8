//! Texts to tokens.

use super::error::{QueryError, Sources, Span};

/// A token and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    /// A name, a keyword, or a constant with its `$`.
    Word(String),
    Number(f64),
    Text(String),
    Symbol(&'static str),
    End,
}

impl TokenKind {
    /// How an error names it.
    pub(super) fn describe(&self) -> String {
        match self {
            TokenKind::Word(word) => format!("`{word}`"),
            TokenKind::Number(number) => format!("the number {number}"),
            TokenKind::Text(text) => format!("the text \"{text}\""),
            TokenKind::Symbol(symbol) => format!("`{symbol}`"),
            TokenKind::End => "the end of the text".into(),
        }
    }
}

/// Symbols, the longer before those that they start with.
const SYMBOLS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", ",", ";", ".", "+", "-", "*",
    "/", "%", "<", ">", "=", "!", "#",
];

/// The tokens of a text; the last one is [`TokenKind::End`].
pub(super) fn tokens(sources: &Sources, source: u32) -> Result<Vec<Token>, QueryError> {
    let text = sources.text(source);
    let mut lexer = Lexer {
        sources,
        source,
        text,
        at: 0,
    };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks()?;
        let token = lexer.token()?;
        let end = token.kind == TokenKind::End;
        tokens.push(token);
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    sources: &'a Sources,
    source: u32,
    text: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    }

    fn span(&self, start: usize) -> Span {
        let byte = |at: usize| u32::try_from(at).expect("texts are shorter than TEXT_MAX");
        Span {
            source: self.source,
            start: byte(start),
            end: byte(self.at),
        }
    }

    fn error(&self, start: usize, found: &str, expected: &str, remedy: &str) -> QueryError {
        self.sources
            .error(self.span(start), found, expected, remedy)
    }

    fn skip_blanks(&mut self) -> Result<(), QueryError> {
        loop {
            // A byte order mark is no blank to Rust.
            self.take_while(|c| c.is_whitespace() || c == '\u{feff}');
            if self.rest().starts_with("//") {
                self.take_while(|c| c != '\n');
            } else if self.rest().starts_with("/*") {
                let start = self.at;
                let Some(length) = self.rest()[2..].find("*/") else {
                    self.at += 2;
                    return Err(self.error(
                        start,
                        "a comment that does not end",
                        "`*/`",
                        "close the comment",
                    ));
                };
                self.at += length + 4;
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<Token, QueryError> {
        let start = self.at;
        let kind = match self.peek() {
            None => TokenKind::End,
            Some('"') => self.quoted()?,
            Some(c) if c.is_ascii_digit() => self.number()?,
            Some(c) if c.is_alphabetic() || c == '_' || c == '$' => self.word()?,
            Some(c) => match SYMBOLS.iter().find(|s| self.rest().starts_with(**s)) {
                Some(symbol) => {
                    self.at += symbol.len();
                    TokenKind::Symbol(symbol)
                }
                None => {
                    self.at += c.len_utf8();
                    let remedy = match c {
                        '&' => "`and` is written `&&`",
                        '|' => "`or` is written `||`",
                        '\'' | '“' | '”' | '‘' | '’' => {
                            "names stand in straight quotes: \"name\""
                        }
                        '≤' => "write `<=`",
                        '≥' => "write `>=`",
                        '≠' => "write `!=`",
                        _ => "",
                    };
                    let found = format!("the character `{}`", c.escape_debug());
                    return Err(self.error(start, &found, "a query", remedy));
                }
            },
        };
        Ok(Token {
            kind,
            span: self.span(start),
        })
    }

    fn word(&mut self) -> Result<TokenKind, QueryError> {
        let start = self.at;
        self.take_while(|c| c.is_alphanumeric() || c == '_' || c == '$');
        let word = &self.text[start..self.at];
        if word == "f" && self.peek() == Some('"') {
            return Err(self.error(
                start,
                "a format string, which umaudemc builds terms of Maude from",
                "the name of an observable in quotes",
                "a model has named observables here, not terms: write each name out, or pass it as an argument of an operator",
            ));
        }
        if word == "$" {
            return Err(self.error(start, "`$` by itself", "a constant such as `$n`", ""));
        }
        Ok(TokenKind::Word(word.to_owned()))
    }

    fn number(&mut self) -> Result<TokenKind, QueryError> {
        let start = self.at;
        let digit = |c: char| c.is_ascii_digit();
        self.take_while(digit);
        if self.peek() == Some('.') {
            self.at += 1;
            self.take_while(digit);
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.at += 1;
            if matches!(self.peek(), Some('+' | '-')) {
                self.at += 1;
            }
            self.take_while(digit);
        }
        if self
            .peek()
            .is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$')
        {
            self.take_while(|c| c.is_alphanumeric() || c == '_' || c == '$');
            let found = format!("`{}`", &self.text[start..self.at]);
            return Err(self.error(
                start,
                &found,
                "a number, or a name that starts with a letter",
                "put an operator between them; units are not written in queries",
            ));
        }
        match self.text[start..self.at].parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(TokenKind::Number(number)),
            Ok(_) => Err(self.error(start, "a number that is too large", "less than 1.8e308", "")),
            Err(_) => Err(self.error(start, "a number without its exponent", "as in `1e3`", "")),
        }
    }

    fn quoted(&mut self) -> Result<TokenKind, QueryError> {
        let start = self.at;
        let mut text = String::new();
        self.at += 1;
        loop {
            let c = self.peek();
            match c {
                None | Some('\n') => {
                    return Err(self.error(
                        start,
                        "a text that does not end on its line",
                        "`\"`",
                        "close the quotes",
                    ));
                }
                Some('"') => {
                    self.at += 1;
                    return Ok(TokenKind::Text(text));
                }
                Some('\\') => {
                    self.at += 1;
                    let Some(escaped @ ('"' | '\\')) = self.peek() else {
                        self.at = start.max(self.at - 1) + 1;
                        return Err(self.error(
                            self.at - 1,
                            "`\\` in a text",
                            "`\\\"` or `\\\\`",
                            "",
                        ));
                    };
                    text.push(escaped);
                    self.at += 1;
                }
                Some(c) => {
                    text.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
    }
}
