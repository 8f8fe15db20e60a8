//! A list where one value could stand: each of its values is tried.
//!
//! [`Document::variants`] gives each reading of a table. A variant is read with the types of single values, and knows
//! where each of its values stands in the file.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::document::{Document, Step, find, key_text, steps};
use crate::problem::{Problem, Problems};

/// One reading of a table.
pub struct Variant<'d, 't> {
    document: &'d Document<'t>,
    base: Vec<Step>,
    value: Spanned<DeValue<'t>>,
    chosen: Vec<Chosen>,
}

/// What a list stands for in one reading.
#[derive(Clone, Debug)]
struct Chosen {
    /// The list's place, as if no list were there.
    path: Vec<Step>,
    index: usize,
    label: AtValue,
}

/// How a value of a swept key is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AtValue {
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
    /// A text, or the name of a table.
    Name(String),
}

impl std::fmt::Display for AtValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl<'t> Document<'t> {
    /// Each reading of the table `key`, the first list of the file changing slowest.
    ///
    /// `lists` are the keys in it that take a list by themselves: only a list of lists is swept there, and nothing in
    /// its tables. At most `max` readings.
    ///
    /// # Errors
    ///
    /// A list without values, one that has a value twice, and too many readings.
    pub fn variants(
        &self,
        key: &str,
        lists: &[&str],
        max: usize,
    ) -> Result<Vec<Variant<'_, 't>>, Problems> {
        let base = steps(key);
        let empty = Spanned::new(0..0, DeValue::Table(DeTable::new()));
        let value = find(self.root(), &base).unwrap_or(&empty);
        let sweep = Sweep {
            document: self,
            base: &base,
            lists,
        };
        let mut problems = Vec::new();
        sweep.check(value, &mut Vec::new(), &mut problems);
        let count = sweep.count(value, &mut Vec::new());
        if count > max {
            problems.push(self.problem(
                key,
                format!("{count} combinations"),
                format!("at most {max}"),
                "shorten the lists, or split the file",
            ));
        }
        Problems::check(problems)?;
        let variants = sweep.expand(value, &mut Vec::new());
        let with_document = |(value, chosen)| Variant {
            document: self,
            base: base.clone(),
            value,
            chosen,
        };
        Ok(variants.into_iter().map(with_document).collect())
    }
}

impl Variant<'_, '_> {
    /// The table as a `T`.
    ///
    /// # Errors
    ///
    /// As [`Document::read`].
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problems> {
        let original = find(self.document.root(), &self.base).unwrap_or(&self.value);
        self.document
            .read_value(&self.base, original, self.value.clone())
    }

    /// Whether the table has this key.
    pub fn has(&self, key: &str) -> bool {
        find(&self.value, &steps(key)).is_some()
    }

    /// The swept keys of the table and what they are here, in the order of the file.
    pub fn at(&self) -> impl Iterator<Item = (String, &AtValue)> {
        self.chosen
            .iter()
            .map(|chosen| (key_text(&chosen.path), &chosen.label))
    }

    /// The key in the document of a key of the table, through the lists that it lies in.
    pub fn key(&self, key: &str) -> String {
        let mut place = self.base.clone();
        let mut plain = Vec::new();
        for step in steps(key) {
            plain.push(step.clone());
            place.push(step);
            if let Some(chosen) = self.chosen.iter().find(|chosen| chosen.path == plain) {
                place.push(Step::Index(chosen.index));
            }
        }
        key_text(&place)
    }

    /// A problem at a key of the table.
    pub fn problem(
        &self,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        self.document
            .problem(&self.key(key), found, expected, remedy)
    }
}

/// A reading: the table with one value in the place of each list, and which ones.
type Reading<'t> = (Spanned<DeValue<'t>>, Vec<Chosen>);

/// How a value may be read.
enum Shape<'v, 't> {
    /// Each entry in its turn, in the order of the file.
    Table(
        Vec<(
            &'v Spanned<toml::de::DeString<'t>>,
            &'v Spanned<DeValue<'t>>,
        )>,
    ),
    /// One of these.
    OneOf(&'v toml::de::DeArray<'t>),
    /// As it stands.
    Plain,
}

/// The rules of one table. Tables in tables are few: the TOML parser has a limit to them.
struct Sweep<'s, 't> {
    document: &'s Document<'t>,
    base: &'s [Step],
    lists: &'s [&'s str],
}

impl<'t> Sweep<'_, 't> {
    fn shape<'v>(&self, value: &'v Spanned<DeValue<'t>>, path: &[Step]) -> Shape<'v, 't> {
        let is_list = self.lists.iter().any(|list| key_text(path) == *list);
        match value.get_ref() {
            DeValue::Array(array) if is_list => {
                let lists = array
                    .iter()
                    .all(|v| matches!(v.get_ref(), DeValue::Array(_)));
                if lists && !array.is_empty() {
                    Shape::OneOf(array)
                } else {
                    Shape::Plain
                }
            }
            // The table itself is one, not a list of them.
            DeValue::Array(array) if !path.is_empty() => Shape::OneOf(array),
            DeValue::Table(table) if !is_list => {
                let mut entries: Vec<_> = table.iter().collect();
                entries.sort_by_key(|(_, value)| value.span().start);
                Shape::Table(entries)
            }
            _ => Shape::Plain,
        }
    }

    /// A value of a list as it stands there: a list in a list is not swept.
    fn is_swept(value: &Spanned<DeValue<'t>>) -> bool {
        matches!(value.get_ref(), DeValue::Table(_))
    }

    fn count(&self, value: &Spanned<DeValue<'t>>, path: &mut Vec<Step>) -> usize {
        match self.shape(value, path) {
            Shape::Table(entries) => entries.iter().fold(1, |product: usize, (key, value)| {
                path.push(Step::Key(key.get_ref().to_string()));
                let count = self.count(value, path);
                path.pop();
                product.saturating_mul(count)
            }),
            Shape::OneOf(array) => array.iter().fold(0, |sum: usize, value| {
                let count = if Self::is_swept(value) {
                    self.count(value, path)
                } else {
                    1
                };
                sum.saturating_add(count)
            }),
            Shape::Plain => 1,
        }
    }

    /// What is wrong with the lists themselves.
    fn check(
        &self,
        value: &Spanned<DeValue<'t>>,
        path: &mut Vec<Step>,
        problems: &mut Vec<Problem>,
    ) {
        match self.shape(value, path) {
            Shape::Table(entries) => {
                for (key, value) in entries {
                    path.push(Step::Key(key.get_ref().to_string()));
                    self.check(value, path, problems);
                    path.pop();
                }
            }
            Shape::OneOf(array) => {
                let place = key_text(&[self.base, &path[..]].concat());
                if array.is_empty() {
                    problems.push(self.document.problem(
                        &place,
                        "an empty list",
                        "one value, or a list of some to sweep",
                        "write what is to be tried, or take the key out",
                    ));
                }
                let labels = labels(array);
                for (index, value) in array.iter().enumerate() {
                    if let Some(label) = labels.get(index)
                        && labels.iter().take(index).any(|earlier| earlier == label)
                    {
                        problems.push(self.document.problem(
                            &format!("{place}[{index}]"),
                            format!("{label} a second time"),
                            "each value once",
                            "take one of the two out",
                        ));
                    }
                    if Self::is_swept(value) {
                        self.check(value, path, problems);
                    }
                }
            }
            Shape::Plain => {}
        }
    }

    fn expand(&self, value: &Spanned<DeValue<'t>>, path: &mut Vec<Step>) -> Vec<Reading<'t>> {
        match self.shape(value, path) {
            Shape::Table(entries) => {
                let mut readings = vec![(DeTable::new(), Vec::new())];
                for (key, value) in entries {
                    path.push(Step::Key(key.get_ref().to_string()));
                    let values = self.expand(value, path);
                    path.pop();
                    let with = |(table, chosen): &(DeTable<'t>, Vec<Chosen>)| {
                        let (table, chosen) = (table.clone(), chosen.clone());
                        values.iter().map(move |(value, more)| {
                            let mut table = table.clone();
                            table.insert(key.clone(), value.clone());
                            (table, [&chosen[..], more].concat())
                        })
                    };
                    readings = readings.iter().flat_map(with).collect();
                }
                let spanned =
                    |(table, chosen)| (Spanned::new(value.span(), DeValue::Table(table)), chosen);
                readings.into_iter().map(spanned).collect()
            }
            Shape::OneOf(array) => {
                let mut readings = Vec::new();
                for (index, (value, label)) in array.iter().zip(labels(array)).enumerate() {
                    let first = Chosen {
                        path: path.clone(),
                        index,
                        label,
                    };
                    let values = if Self::is_swept(value) {
                        self.expand(value, path)
                    } else {
                        vec![(value.clone(), Vec::new())]
                    };
                    for (value, more) in values {
                        let first = std::slice::from_ref(&first);
                        readings.push((value, [first, &more].concat()));
                    }
                }
                readings
            }
            Shape::Plain => vec![(value.clone(), Vec::new())],
        }
    }
}

/// A label for each value of a list: short if that tells them apart.
fn labels(array: &toml::de::DeArray<'_>) -> Vec<AtValue> {
    let short: Vec<AtValue> = array.iter().map(|value| label(value, false)).collect();
    let long = |(index, value)| {
        let own = short.get(index);
        if short.iter().filter(|other| Some(*other) == own).count() > 1 {
            label(value, true)
        } else {
            label(value, false)
        }
    };
    array.iter().enumerate().map(long).collect()
}

/// A number, a text, or for a table its `kind`; in full, or without a `kind`, also its other keys: `lognormal mean=5s sigma=1`.
fn label(value: &Spanned<DeValue<'_>>, in_full: bool) -> AtValue {
    match value.get_ref() {
        DeValue::Table(table) => {
            let mut name = Vec::new();
            let kind = table.get("kind").map(|kind| label(kind, false).to_string());
            let only_kind = kind.is_some() && !in_full;
            name.extend(kind);
            if !only_kind {
                settings(value, "", &mut name);
            }
            AtValue::Name(name.join(" "))
        }
        DeValue::Array(array) if array.is_empty() => AtValue::Name("none".to_owned()),
        DeValue::Array(array) => {
            let names: Vec<_> = array
                .iter()
                .map(|value| label(value, in_full).to_string())
                .collect();
            AtValue::Name(names.join("+"))
        }
        // A number that no float holds is refused when the table is read.
        _ => AtValue::deserialize(ValueDeserializer::from(value.clone()))
            .unwrap_or_else(|_| AtValue::Name(String::new())),
    }
}

/// `erlang.blocking=0.01`: every value of a table, in the order of the file. Of a list only the key: it has its own place in `at`.
fn settings(value: &Spanned<DeValue<'_>>, prefix: &str, out: &mut Vec<String>) {
    let DeValue::Table(table) = value.get_ref() else {
        return;
    };
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(_, value)| value.span().start);
    for (key, value) in entries {
        let key = format!("{prefix}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(_) => settings(value, &format!("{key}."), out),
            DeValue::Array(_) => out.push(key),
            _ if key == "kind" => {}
            _ => out.push(format!("{key}={}", label(value, false))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        #[serde(default)]
        a: u32,
        #[serde(default)]
        b: String,
        #[serde(default)]
        kind: Option<Kind>,
        #[serde(default)]
        names: Vec<String>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read by serde")]
    struct Kind {
        kind: String,
        mean: Option<f64>,
    }

    fn at(text: &str) -> Vec<String> {
        let document = Document::parse("f", text).unwrap();
        let variants = document.variants("t", &["names"], 100).unwrap();
        let shown = |variant: &Variant<'_, '_>| {
            let _: Table = variant.read().unwrap_or_else(|e| panic!("{e}"));
            let keys: Vec<_> = variant.at().map(|(k, v)| format!("{k}={v}")).collect();
            keys.join(", ")
        };
        variants.iter().map(shown).collect()
    }

    #[test]
    fn every_combination_in_the_order_of_the_file() {
        assert_eq!(at("[t]\na = 1\n"), [""]);
        assert_eq!(at(""), [""]);
        assert_eq!(
            at("[t]\nb = [\"x\", \"y\"]\na = [1, 2]\n"),
            ["b=x, a=1", "b=x, a=2", "b=y, a=1", "b=y, a=2"]
        );
        assert_eq!(at("[t]\na = [7]\n"), ["a=7"]);
    }

    #[test]
    fn tables_are_named_by_kind_and_in_full_where_kinds_repeat() {
        assert_eq!(
            at(
                "[t]\nkind = [{ kind = \"x\", mean = 1 }, { kind = \"x\", mean = [2, 3] }, { kind = \"y\", mean = 1.5 }]\n"
            ),
            [
                "kind=x mean=1",
                "kind=x mean, kind.mean=2",
                "kind=x mean, kind.mean=3",
                "kind=y"
            ]
        );
    }

    #[test]
    fn a_list_by_itself_is_not_swept_but_a_list_of_them_is() {
        assert_eq!(at("[t]\nnames = [\"p\", \"q\"]\n"), [""]);
        assert_eq!(at("[t]\nnames = []\n"), [""]);
        assert_eq!(
            at("[t]\nnames = [[], [\"p\"], [\"p\", \"q\"]]\n"),
            ["names=none", "names=p", "names=p+q"]
        );
    }

    #[test]
    fn values_are_those_of_the_combination() {
        let text =
            "[t]\na = [1, 2]\nb = [\"x\", \"y\"]\nkind = [{ kind = \"k\", mean = [1, 2] }]\n";
        let document = Document::parse("f", text).unwrap();
        let read = |v: &Variant<'_, '_>| {
            let table: Table = v.read().unwrap();
            (table.a, table.b, table.kind.unwrap().mean, table.names)
        };
        let variants = document.variants("t", &["names"], 8).unwrap();
        let all: Vec<_> = variants.iter().map(read).collect();
        assert_eq!(all.len(), 8);
        assert_eq!(all[0], (1, "x".to_owned(), Some(1.0), Vec::new()));
        assert_eq!(all[7], (2, "y".to_owned(), Some(2.0), Vec::new()));
        assert_eq!(variants[7].key("kind.mean"), "t.kind[0].mean[1]");
        assert_eq!(variants[7].problem("b", "", "", "").place.column, 11);
    }

    fn refused(text: &str) -> String {
        let document = Document::parse("f", text).unwrap();
        let refused = match document.variants("t", &["names"], 5) {
            Ok(variants) => variants.iter().find_map(|v| v.read::<Table>().err()),
            Err(problems) => Some(problems),
        };
        let problems = refused.expect(text);
        let first = &problems.list()[0];
        format!(
            "{}:{} {}: {}",
            first.place.line, first.place.column, first.place.key, first.found
        )
    }

    #[test]
    fn errors_are_placed_in_the_list() {
        for (text, expect) in [
            ("[t]\na = []\n", "2:5 t.a: an empty list"),
            ("[t]\na = [1, 1.0]\n", "2:9 t.a[1]: 1 a second time"),
            (
                "[t]\na = [1, 2, 3]\nb = [\"x\", \"y\"]\n",
                "1:1 t: 6 combinations",
            ),
            (
                "[t]\na = [1, \"x\"]\n",
                "2:9 t.a[1]: invalid type: string \"x\"",
            ),
            ("[t]\na = [[1, 2]]\n", "2:6 t.a[0]: invalid type: sequence"),
            (
                "[t]\nkind = [{ kind = \"x\" }, { kind = \"y\", men = 1 }]\n",
                "2:39 t.kind[1].men: unknown field `men`",
            ),
            (
                "[t]\nkind = { kind = \"x\", mean = [1, \"z\"] }\n",
                "2:33 t.kind.mean[1]: invalid type: string \"z\"",
            ),
        ] {
            assert_eq!(refused(text), expect, "{text}");
        }
    }
}
