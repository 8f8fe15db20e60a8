//! A text in a file that is read later, by a parser of its own, whose errors still name line and column of the file.

use crate::document::Document;
use crate::problem::{Place, Problem};

/// A text, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text itself.
    pub text: String,
    file: String,
    key: String,
    /// The lines of the file that it stands in.
    lines: String,
    /// Line number of the first of them.
    first_line: usize,
    /// For each piece of the text: its first byte in `text`, and in `lines`. An escape begins a new piece.
    pieces: Vec<(usize, usize)>,
}

impl Text {
    /// A file's whole text.
    #[must_use]
    pub fn of_file(file: &str, text: &str) -> Self {
        Self {
            text: text.to_owned(),
            file: file.to_owned(),
            key: String::new(),
            lines: text.to_owned(),
            first_line: 1,
            pieces: vec![(0, 0)],
        }
    }

    /// The place of the byte `offset` of the text; of its end if there is no such byte.
    #[must_use]
    pub fn place(&self, offset: usize) -> Place {
        let offset = offset.min(self.text.len());
        let piece = self
            .pieces
            .partition_point(|(start, _)| *start <= offset)
            .saturating_sub(1);
        let (text, file) = self.pieces.get(piece).copied().unwrap_or_default();
        let mut at = (file + (offset - text)).min(self.lines.len());
        while !self.lines.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.lines[..at];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place {
            file: self.file.clone(),
            line: self.first_line + before.matches('\n').count(),
            column: before[start..].chars().count() + 1,
            key: self.key.clone(),
            source: self.lines[start..]
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
        }
    }

    /// A problem at the byte `offset` of the text.
    #[must_use]
    pub fn problem(
        &self,
        offset: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        Problem {
            place: self.place(offset),
            found: found.into(),
            expected: expected.into(),
            remedy: remedy.into(),
        }
    }
}

impl Document<'_> {
    /// The text at `key`; `None` if there is none, or another kind of value.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<Text> {
        let (text, span) = self.string(key)?;
        let whole = self.source();
        let begin = whole.get(..span.start)?.rfind('\n').map_or(0, |n| n + 1);
        let end = whole
            .get(span.end..)?
            .find('\n')
            .map_or(whole.len(), |n| span.end + n);
        let pieces = pieces(whole.get(span.clone())?, text);
        Some(Text {
            text: text.to_owned(),
            file: self.file().to_owned(),
            key: key.to_owned(),
            lines: whole.get(begin..end)?.to_owned(),
            first_line: whole.get(..begin)?.matches('\n').count() + 1,
            pieces: pieces
                .into_iter()
                .map(|(text, raw)| (text, raw + span.start - begin))
                .collect(),
        })
    }
}

/// Where the pieces of a TOML string begin: in its value, and in what is written, quotes and all.
fn pieces(raw: &str, text: &str) -> Vec<(usize, usize)> {
    let quotes = if raw.starts_with("\"\"\"") || raw.starts_with("'''") {
        3
    } else {
        1
    };
    let mut at = quotes;
    if quotes == 3 {
        // A line break after the opening quotes is not part of the text.
        at += raw.get(at..).map_or(0, |rest| {
            rest.len()
                - rest
                    .strip_prefix("\r\n")
                    .or(rest.strip_prefix('\n'))
                    .unwrap_or(rest)
                    .len()
        });
    }
    let mut pieces = vec![(0, at)];
    if raw.starts_with('\'') {
        return pieces;
    }
    let mut told = 0;
    while told < text.len() {
        let Some(rest) = raw.get(at..).filter(|rest| !rest.is_empty()) else {
            break;
        };
        let Some(escape) = rest.strip_prefix('\\') else {
            let same = rest.find('\\').unwrap_or(rest.len());
            (at, told) = (at + same, told + same);
            continue;
        };
        let (written, value) = escaped(escape);
        (at, told) = (at + 1 + written, told + value);
        pieces.push((told, at));
    }
    pieces
}

/// Bytes of what follows a backslash, and bytes of what it stands for.
fn escaped(rest: &str) -> (usize, usize) {
    let hex = |digits: usize| {
        let code = rest
            .get(1..=digits)
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let length = code.and_then(char::from_u32).map_or(1, char::len_utf8);
        (1 + digits, length)
    };
    match rest.chars().next() {
        Some('x') => hex(2),
        Some('u') => hex(4),
        Some('U') => hex(8),
        // A backslash at the end of a line: all space up to the next character is left out.
        Some(' ' | '\t' | '\r' | '\n') => {
            let kept = rest.trim_start_matches([' ', '\t', '\r', '\n']);
            (rest.len() - kept.len(), 0)
        }
        Some(c) => (c.len_utf8(), 1),
        None => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each `@` of the text must be placed where the file has it.
    fn check(file: &str) {
        let document = Document::parse("f.toml", file).unwrap();
        let text = document.text("q").unwrap();
        let found: Vec<_> = text
            .text
            .match_indices('@')
            .map(|(offset, _)| text.place(offset))
            .map(|place| (place.line, place.column))
            .collect();
        let lines = file.lines().enumerate();
        let wanted: Vec<_> = lines
            .flat_map(|(line, text)| {
                let columns = text.chars().enumerate().filter(|(_, c)| *c == '@');
                columns.map(move |(column, _)| (line + 1, column + 1))
            })
            .collect();
        assert!(!wanted.is_empty());
        assert_eq!(found, wanted, "{file}");
    }

    #[test]
    fn places_are_those_of_the_file() {
        check("q = \"@a@\"\n");
        check("# one\nq = '@ é @'\nr = 1\n");
        check("q = \"\\t@ \\u00e9 @ \\\" @ \\U0001F600@ \\x41@\\\\@\"");
        check("q = \"\"\"\n@ one\n  two @\\\n    @ three\\n@\n@\"\"\"\n");
        check("q = \"\"\"@ one\r\n@\"\"\"\r\n");
        check("q = '''\r\n@ \\n @\r\n @'''\r\n");
        check("q = \"\"\"a\"@\"\" \\\"@\"\"\"");
    }

    #[test]
    fn a_problem_shows_its_line_and_an_end_past_the_text_is_its_end() {
        let document = Document::parse("f.toml", "a = 1\nq = \"x + \"\n").unwrap();
        let problem = document
            .text("q")
            .unwrap()
            .problem(99, "the end", "a term", "add one");
        assert_eq!(
            problem.to_string(),
            "f.toml:2:10: `q`: the end, expected a term\n     2 | q = \"x + \"\n       |          ^\n  remedy: add one"
        );
        assert!(document.text("a").is_none() && document.text("b").is_none());
        let file = Text::of_file("q.quatex", "one\ntwo");
        assert_eq!((file.place(4).line, file.place(5).column), (2, 2));
    }
}
