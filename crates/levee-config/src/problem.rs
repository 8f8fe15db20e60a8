//! What is wrong with a file, for the person who wrote it.

use std::fmt;

use serde::Serialize;

/// One thing that is wrong: where, what was found, what was expected, what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What is there.
    pub found: String,
    /// What may be there.
    pub expected: String,
    /// What to do about it.
    pub remedy: String,
}

/// A place in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key, `sip[0].capacity`; empty when it is not about a key.
    pub key: String,
    /// The text of the line.
    pub source: String,
}

/// `file:line:column: key: found …, expected …`, the line with a mark, and the remedy.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place {
            file,
            line,
            column,
            key,
            source,
        } = &self.place;
        write!(f, "{file}")?;
        if *line > 0 {
            write!(f, ":{line}:{column}")?;
        }
        if !key.is_empty() {
            write!(f, ": `{key}`")?;
        }
        write!(f, ": {}", self.found)?;
        if !self.expected.is_empty() {
            write!(f, ", expected {}", self.expected)?;
        }
        if *line > 0 {
            write!(f, "\n{line:>6} | {source}\n       | {:>column$}", "^")?;
        }
        if !self.remedy.is_empty() {
            write!(f, "\n  remedy: {}", self.remedy)?;
        }
        Ok(())
    }
}

/// Everything that is wrong with one file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// `Err` with these problems, in the order of the file, or `Ok` if there are none.
    pub fn check(mut problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() {
            return Ok(());
        }
        problems.sort_by_key(|problem| (problem.place.line, problem.place.column));
        problems.dedup();
        Err(Problems(problems))
    }

    /// The problems, in the order of the file.
    pub fn list(&self) -> &[Problem] {
        &self.0
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Problems(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
