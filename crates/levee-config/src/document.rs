//! A TOML text that still knows where each key stands.
//!
//! serde stops at the first error. A person who mends a file wants all of them, so [`Document::read`] takes what was
//! refused out of a copy of the tree and tries again. Checks that come later (a number out of range, two tables that
//! do not go together) name their key, and [`Document::place`] finds its line.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, ValueDeserializer};

use crate::problem::{Place, Problem, Problems};

/// Most errors that one table reports: past that, a reader mends and tries again.
const ERRORS_MAX: usize = 20;

/// A parsed file.
pub struct Document<'t> {
    file: &'t str,
    text: &'t str,
    root: Spanned<DeValue<'t>>,
}

/// One step from a table or an array to what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

impl<'t> Document<'t> {
    /// Parses `text`; `file` is the name that problems give.
    ///
    /// # Errors
    ///
    /// Every line that is not TOML.
    pub fn parse(file: &'t str, text: &'t str) -> Result<Self, Problems> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let span = table.span();
        let root = Spanned::new(span, DeValue::Table(table.into_inner()));
        let document = Document { file, text, root };
        let problems = errors
            .iter()
            .take(ERRORS_MAX)
            .map(|error| document.syntax_problem(error))
            .collect();
        Problems::check(problems)?;
        Ok(document)
    }

    /// The table or value at `key` (`""` for the whole document) as a `T`.
    ///
    /// # Errors
    ///
    /// Every key that `T` refuses, as far as one can tell without the others.
    pub fn read<T: DeserializeOwned>(&self, key: &str) -> Result<T, Problems> {
        let base = steps(key);
        let empty = Spanned::new(self.root.span(), DeValue::Table(DeTable::new()));
        let original = find(&self.root, &base).unwrap_or(&empty);
        self.read_value(&base, original, original.clone())
    }

    /// `rest` as a `T`: what of `original`, at `base`, is to be read. Its values keep their spans.
    pub(crate) fn read_value<T: DeserializeOwned>(
        &self,
        base: &[Step],
        original: &Spanned<DeValue<'t>>,
        mut rest: Spanned<DeValue<'t>>,
    ) -> Result<T, Problems> {
        let mut problems = Vec::new();
        let mut removed: Vec<Vec<Step>> = Vec::new();
        while problems.len() < ERRORS_MAX {
            let error = match T::deserialize(ValueDeserializer::from(rest.clone())) {
                Ok(read) => {
                    Problems::check(problems)?;
                    return Ok(read);
                }
                Err(error) => error,
            };
            // Taking an element out of an array moves the later ones, so the key to name is that of the original.
            let at = |tree| {
                error
                    .span()
                    .and_then(|span| locate(tree, &span))
                    .unwrap_or_default()
            };
            let ((path, is_key), (path_in_rest, _)) = (at(original), at(&rest));
            let missing = missing_field(error.message())
                .map(|field| [&path[..], &[Step::Key(field.into())]].concat());
            // A required key that was taken out for its own error is not missing, nor is a list whose value was.
            let taken_out = |path: Vec<Step>| removed.iter().any(|one| one.starts_with(&path));
            if !missing.is_some_and(taken_out) {
                problems.push(self.serde_problem(&error, base, &path, is_key));
            }
            if !remove(&mut rest, &path_in_rest) {
                break;
            }
            removed.push(path);
        }
        Problems::check(problems)?;
        // Not reached: the loop leaves with at least the first error. Said as an error, not as a panic.
        Err(self
            .problem(
                &key_text(base),
                "the table",
                "one that can be read",
                "compare it with the keys in docs/",
            )
            .into())
    }

    pub(crate) fn root(&self) -> &Spanned<DeValue<'t>> {
        &self.root
    }

    pub(crate) fn file(&self) -> &str {
        self.file
    }

    pub(crate) fn source(&self) -> &str {
        self.text
    }

    /// The string at `key`, and where it is written.
    pub(crate) fn string(&self, key: &str) -> Option<(&str, Range<usize>)> {
        let value = find(&self.root, &steps(key))?;
        let text = value.get_ref().as_str()?;
        Some((text, value.span()))
    }

    /// Whether the file itself has this key.
    pub fn has(&self, key: &str) -> bool {
        find(&self.root, &steps(key)).is_some()
    }

    /// How many tables or values the array `key` has; 0 if there is no such array.
    pub fn len(&self, key: &str) -> usize {
        match find(&self.root, &steps(key)).map(Spanned::get_ref) {
            Some(DeValue::Array(array)) => array.len(),
            _ => 0,
        }
    }

    /// Where `key` stands; for a key that the file does not have, the nearest table around it.
    pub fn place(&self, key: &str) -> Place {
        let mut steps = steps(key);
        loop {
            if let Some(value) = find(&self.root, &steps) {
                let at = if steps.is_empty() {
                    None
                } else {
                    Some(value.span().start)
                };
                return self.place_at(at, key);
            }
            steps.pop();
        }
    }

    /// A problem at `key`.
    pub fn problem(
        &self,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        Problem {
            place: self.place(key),
            found: found.into(),
            expected: expected.into(),
            remedy: remedy.into(),
        }
    }

    fn place_at(&self, at: Option<usize>, key: &str) -> Place {
        let mut place = Place {
            file: self.file.to_owned(),
            key: key.to_owned(),
            ..Place::default()
        };
        let Some(before) = at.and_then(|at| self.text.get(..at)) else {
            return place;
        };
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        place.line = before.matches('\n').count() + 1;
        place.column = before.get(start..).unwrap_or_default().chars().count() + 1;
        place.source = self
            .text
            .get(start..)
            .and_then(|rest| rest.lines().next())
            .unwrap_or_default()
            .to_owned();
        place
    }

    fn syntax_problem(&self, error: &toml::de::Error) -> Problem {
        let (found, expected) = halves(error.message());
        let remedy = if found.starts_with("duplicate key") {
            "keep one of the two; a table written twice needs `[[…]]`"
        } else {
            "write it as TOML: key = value, text in quotes, `[table]` and `[[list of tables]]`"
        };
        Problem {
            place: self.place_at(error.span().map(|span| span.start), ""),
            found,
            expected,
            remedy: remedy.into(),
        }
    }

    fn serde_problem(
        &self,
        error: &toml::de::Error,
        base: &[Step],
        path: &[Step],
        is_key: bool,
    ) -> Problem {
        let key = key_text(&[base, path].concat());
        let (found, expected) = halves(error.message());
        let remedy = if let Some(field) = missing_field(error.message()) {
            format!("add `{field} = …` to this table")
        } else if is_key {
            match nearest(path.last(), &expected) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "take it out, or move it to the table that it belongs to".to_owned(),
            }
        } else {
            "write a value of that kind; docs/ has every key's unit and range".to_owned()
        };
        Problem {
            place: self.place_at(error.span().map(|span| span.start), &key),
            found,
            expected,
            remedy,
        }
    }
}

/// serde's messages read "found, expected …".
fn halves(message: &str) -> (String, String) {
    let message = message.trim_end();
    // What the TOML crate says of an enum.
    if message == "wanted string or table" {
        return (
            "another kind of value".to_owned(),
            "one of its names in quotes".to_owned(),
        );
    }
    match message.split_once(", expected ") {
        Some((found, expected)) => (found.to_owned(), plain_type(expected).to_owned()),
        None => (message.to_owned(), String::new()),
    }
}

/// serde's names of types, for people who do not write Rust.
fn plain_type(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more, without quotes",
        "f64" => "a number, without quotes",
        "a boolean" => "true or false, without quotes",
        "a string" => "a text in quotes",
        "a sequence" => "a list in brackets",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

fn missing_field(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

/// The name in `expected` that is at most two edits from the key that was written.
fn nearest<'e>(written: Option<&Step>, expected: &'e str) -> Option<&'e str> {
    let Some(Step::Key(written)) = written else {
        return None;
    };
    // serde quotes each name: every second piece.
    let names = expected.split('`').skip(1).step_by(2);
    names
        .map(|name| (strsim::damerau_levenshtein(written, name), name))
        .filter(|(edits, _)| *edits <= 2)
        .min()
        .map(|(_, name)| name)
}

/// `sip[0].defense` as steps.
pub(crate) fn steps(key: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in key.split('.').filter(|part| !part.is_empty()) {
        let (name, indices) = part
            .split_once('[')
            .map_or((part, ""), |(name, rest)| (name, rest));
        steps.push(Step::Key(name.to_owned()));
        let numbers = indices
            .split(['[', ']'])
            .filter_map(|number| number.parse().ok());
        steps.extend(numbers.map(Step::Index));
    }
    steps
}

pub(crate) fn key_text(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Key(name) if text.is_empty() => text.push_str(name),
            Step::Key(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

pub(crate) fn find<'v, 't>(
    value: &'v Spanned<DeValue<'t>>,
    steps: &[Step],
) -> Option<&'v Spanned<DeValue<'t>>> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    let next = match (value.get_ref(), step) {
        (DeValue::Table(table), Step::Key(name)) => table.get(name.as_str())?,
        (DeValue::Array(array), Step::Index(index)) => array.get(*index)?,
        _ => return None,
    };
    find(next, rest)
}

fn remove(value: &mut Spanned<DeValue<'_>>, steps: &[Step]) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return false;
    };
    match (value.get_mut(), step) {
        (DeValue::Table(table), Step::Key(name)) if rest.is_empty() => {
            table.remove(name.as_str()).is_some()
        }
        (DeValue::Table(table), Step::Key(name)) => table
            .get_mut(name.as_str())
            .is_some_and(|next| remove(next, rest)),
        (DeValue::Array(array), Step::Index(index)) if rest.is_empty() && *index < array.len() => {
            let kept = std::mem::replace(array, DeArray::new())
                .into_iter()
                .enumerate()
                .filter(|(at, _)| at != index);
            *array = kept.map(|(_, value)| value).collect();
            true
        }
        (DeValue::Array(array), Step::Index(index)) => {
            array.get_mut(*index).is_some_and(|next| remove(next, rest))
        }
        _ => false,
    }
}

/// The deepest key or value whose text holds `wanted`, and whether it is the key that does.
fn locate(value: &Spanned<DeValue<'_>>, wanted: &Range<usize>) -> Option<(Vec<Step>, bool)> {
    let holds = |span: Range<usize>| span.start <= wanted.start && wanted.end <= span.end;
    let deeper = |step: Step, child: &Spanned<DeValue<'_>>| {
        let (mut rest, is_key) = locate(child, wanted)?;
        rest.insert(0, step);
        Some((rest, is_key))
    };
    let inside = match value.get_ref() {
        DeValue::Table(table) => table.iter().find_map(|(key, child)| {
            let step = Step::Key(key.get_ref().to_string());
            // The span of a table's header is also that of its name: only a plain key can be meant by it.
            if key.span() == *wanted {
                return Some((vec![step], true));
            }
            deeper(step, child)
        }),
        DeValue::Array(array) => array
            .iter()
            .enumerate()
            .find_map(|(index, child)| deeper(Step::Index(index), child)),
        _ => None,
    };
    inside.or_else(|| holds(value.span()).then(|| (Vec::new(), false)))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read by serde")]
    struct Outer {
        listen: Vec<String>,
        count: u32,
        #[serde(default)]
        inner: Inner,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Inner {
        depth: u8,
        list: Vec<u8>,
    }

    fn check(text: &str, expect: &[(usize, usize, &str, &str)]) {
        let problems = match Document::parse("f.toml", text)
            .and_then(|document| document.read::<Outer>("outer[0]"))
        {
            Ok(read) => panic!("read {read:?}"),
            Err(problems) => problems,
        };
        let found: Vec<_> = problems
            .list()
            .iter()
            .map(|p| {
                (
                    p.place.line,
                    p.place.column,
                    p.place.key.as_str(),
                    p.found.as_str(),
                )
            })
            .collect();
        assert_eq!(found, expect, "{problems}");
    }

    #[test]
    fn every_bad_key_is_named_with_its_line_and_column() {
        check(
            "[[outer]]\nlisten = [\"a\", 3, 4]\ncuont = 1\n[outer.inner]\ndepth = 256\nlist = [1, 300]\n",
            &[
                (1, 1, "outer[0]", "missing field `count`"),
                (2, 16, "outer[0].listen[1]", "invalid type: integer `3`"),
                (2, 19, "outer[0].listen[2]", "invalid type: integer `4`"),
                (3, 1, "outer[0].cuont", "unknown field `cuont`"),
                (5, 9, "outer[0].inner.depth", "invalid value: integer `256`"),
                (
                    6,
                    12,
                    "outer[0].inner.list[1]",
                    "invalid value: integer `300`",
                ),
            ],
        );
    }

    #[test]
    fn a_required_key_with_a_bad_value_is_not_said_to_be_missing() {
        check(
            "[[outer]]\nlisten = 5\ncount = \"x\"\n",
            &[
                (2, 10, "outer[0].listen", "invalid type: integer `5`"),
                (3, 9, "outer[0].count", "invalid type: string \"x\""),
            ],
        );
    }

    #[test]
    fn text_that_is_not_toml_is_placed() {
        check(
            "[[outer]]\ncount = 1 = 2\n\n",
            &[(2, 11, "", "unexpected key or value")],
        );
        check(
            "[[outer]]\ncount = 1\ncount = 2\n",
            &[(3, 1, "", "duplicate key")],
        );
    }

    #[test]
    fn a_near_miss_is_suggested_and_a_far_one_is_not() {
        let read = |text| {
            Document::parse("f", text)
                .unwrap()
                .read::<Outer>("")
                .unwrap_err()
        };
        let near = read("listen = []\ncount = 1\ninnner = {}\n");
        assert_eq!(near.list()[0].remedy, "did you mean `inner`?");
        let far = read("listen = []\ncount = 1\nsomething = {}\n");
        assert!(!far.list()[0].remedy.contains("did you mean"), "{far}");
    }

    #[test]
    fn a_problem_shows_the_line_and_marks_the_column() {
        let document = Document::parse("f.toml", "[[a]]\n\"é\" = { b = 0 }\n").unwrap();
        let problem = document.problem("a[0].é.b", "0", "more", "add one");
        assert_eq!(
            problem.to_string(),
            "f.toml:2:13: `a[0].é.b`: 0, expected more\n     2 | \"é\" = { b = 0 }\n       |             ^\n  remedy: add one"
        );
        assert_eq!(document.place("a[0].absent").line, 1);
        assert_eq!(document.place("b.c").line, 0);
    }
}
