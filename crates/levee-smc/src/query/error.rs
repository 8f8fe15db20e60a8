//! What is wrong with a query, for the person who wrote it.

use std::fmt;

/// Longest piece of a line that an error shows, in characters: it stays on one row of a terminal.
const SHOWN_MAX: usize = 100;

/// A place in a query's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file or query, as it was named.
    pub source: String,
    /// Line, from 1; 0 when the whole text is meant.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// How many characters are meant.
    pub width: usize,
    /// The text of the line.
    pub text: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        Ok(())
    }
}

impl Place {
    /// The line with carets under what is meant, indented as the errors of configuration files are.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A far column is shown with what stands before it, not with the start of the line.
        let skipped = self.column.saturating_sub(SHOWN_MAX * 3 / 4);
        let skipped = if self.column > SHOWN_MAX { skipped } else { 0 };
        let shown: String = self
            .text
            .chars()
            .skip(skipped)
            .take(SHOWN_MAX)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let before = self.column - 1 - skipped;
        let width = self.width.min(SHOWN_MAX.saturating_sub(before)).max(1);
        let (lead, line) = (if skipped > 0 { "…" } else { "" }, self.line);
        let indent = " ".repeat(before + lead.chars().count());
        write!(f, "\n{line:>6} | {lead}{}", shown.trim_end())?;
        write!(f, "\n       | {indent}{}", "^".repeat(width))
    }
}

/// What is wrong with a query, found before anything is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// Where. Boxed, to keep results small.
    pub place: Box<Place>,
    /// What is there.
    pub found: String,
    /// What may be there; may be empty.
    pub expected: String,
    /// What to do about it; may be empty.
    pub remedy: String,
}

/// `source:line:column: found …, expected …`, the line with a mark, and the remedy.
impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.found)?;
        if !self.expected.is_empty() {
            write!(f, ", expected {}", self.expected)?;
        }
        if self.place.line > 0 {
            self.place.show(f)?;
        }
        if !self.remedy.is_empty() {
            write!(f, "\n  remedy: {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for QueryError {}

/// A piece of a text: bytes `start..end` of one of the [`Sources`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Which text.
    pub source: u32,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// From the start of this one to the end of `last`.
    pub fn to(self, last: Span) -> Span {
        Span {
            end: last.end.max(self.end),
            ..self
        }
    }
}

/// The texts that spans point into.
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<(String, String)>);

impl Sources {
    /// Adds a text with the name to show; gives its number.
    pub fn add(&mut self, name: &str, text: &str) -> u32 {
        self.0.push((name.to_owned(), text.to_owned()));
        u32::try_from(self.0.len() - 1).expect("fewer texts than IMPORTS_MAX")
    }

    /// A text by its number.
    pub fn text(&self, source: u32) -> &str {
        &self.0[source as usize].1
    }

    /// The name of a text.
    pub fn name(&self, source: u32) -> &str {
        &self.0[source as usize].0
    }

    /// The words of a span, blanks as one space.
    pub fn words(&self, span: Span) -> String {
        let text = &self.text(span.source)[span.start as usize..span.end as usize];
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Line and column of a span.
    pub fn place(&self, span: Span) -> Place {
        let text = self.text(span.source);
        let (start, end) = (span.start as usize, span.end as usize);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        Place {
            source: self.name(span.source).to_owned(),
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            width: text[start..end.clamp(start, line_end)].chars().count(),
            text: text[line_start..line_end].to_owned(),
        }
    }

    /// An error at a span.
    pub fn error(
        &self,
        span: Span,
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> QueryError {
        QueryError {
            place: Box::new(self.place(span)),
            found: found.into(),
            expected: expected.into(),
            remedy: remedy.into(),
        }
    }
}
