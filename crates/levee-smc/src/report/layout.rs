//! How a grid of points is laid out on paper: one key goes along the rows, lanes are the columns, and what is left makes
//! panels.

use std::collections::BTreeMap;

use super::{Answer, Coordinate, PointReport, Report};

/// The rows, panels and lanes of a report.
pub(super) struct Layout<'r> {
    /// The key that goes along the rows; none if nothing but lanes differs.
    pub(super) x: Option<&'r str>,
    /// Panels in the order of the points.
    pub(super) panels: Vec<Panel<'r>>,
    /// Names of the queries, in order, but for parametric ones.
    pub(super) queries: Vec<&'r str>,
    /// Parametric queries, in order: each has its parameter along the rows.
    pub(super) curves: Vec<Curve<'r>>,
}

/// A parametric query.
pub(super) struct Curve<'r> {
    pub(super) query: &'r str,
    pub(super) parameter: &'r str,
    /// All points that agree in what is swept, in their order.
    pub(super) panels: Vec<Panel<'r>>,
}

/// All points that agree in every key but that of the rows.
pub(super) struct Panel<'r> {
    /// `honest.duration = lognormal`; empty if there is only one panel.
    pub(super) title: String,
    /// Lanes in order.
    pub(super) lanes: Vec<&'r str>,
    /// Values along the rows.
    pub(super) rows: Vec<Option<Coordinate>>,
    /// The answers of a row and a lane.
    cells: BTreeMap<(usize, usize), &'r [Answer]>,
}

impl<'r> Panel<'r> {
    /// The answer to a query at a row and a lane, if there is one.
    pub(super) fn answer(&self, row: usize, lane: usize, query: &str) -> Option<&'r Answer> {
        let answers = self.cells.get(&(row, lane))?;
        answers.iter().find(|a| a.estimate.question() == query)
    }

    fn add(&mut self, value: Option<Coordinate>, lane: &'r str, answers: &'r [Answer]) {
        let row = push_new(&mut self.rows, value);
        let lane = push_new(&mut self.lanes, lane);
        self.cells.entry((row, lane)).or_insert(answers);
    }

    /// All answers to a query.
    pub(super) fn answers<'q>(&'q self, query: &'q str) -> impl Iterator<Item = &'r Answer> + 'q {
        let cells = self.cells.keys();
        cells.filter_map(move |(row, lane)| self.answer(*row, *lane, query))
    }
}

impl<'r> Layout<'r> {
    pub(super) fn new(report: &'r Report) -> Self {
        let keys = free_keys(report);
        let x = row_key(report, &keys);
        let mut layout = Self {
            x,
            panels: Vec::new(),
            queries: Vec::new(),
            curves: Vec::new(),
        };
        for point in &report.points {
            for answer in &point.queries {
                if answer.estimate.parameter.is_none() {
                    push_new(&mut layout.queries, answer.estimate.name.as_str());
                }
            }
            layout.add_to_curves(point, &keys);
            let others = point
                .at
                .iter()
                .filter(|(key, _)| keys.contains(&key.as_str()) && Some(key.as_str()) != x);
            let value = x.and_then(|x| point.at.iter().find(|(key, _)| key == x));
            let value = value.map(|(_, value)| value.clone());
            panel(&mut layout.panels, others).add(value, &point.name, &point.queries);
        }
        layout
    }

    fn add_to_curves(&mut self, point: &'r PointReport, keys: &[&str]) {
        for answer in &point.queries {
            let Some(parameter) = &answer.estimate.parameter else {
                continue;
            };
            let query = answer.estimate.question();
            let at = self.curves.iter().position(|curve| curve.query == query);
            let at = at.unwrap_or_else(|| {
                self.curves.push(Curve {
                    query,
                    parameter: &parameter.name,
                    panels: Vec::new(),
                });
                self.curves.len() - 1
            });
            let swept = point
                .at
                .iter()
                .filter(|(key, _)| keys.contains(&key.as_str()));
            let value = Some(Coordinate::Number(parameter.value));
            let answers = std::slice::from_ref(answer);
            panel(&mut self.curves[at].panels, swept).add(value, &point.name, answers);
        }
    }
}

/// The panel of these values, new if there was none.
fn panel<'p, 'r, 'k>(
    panels: &'p mut Vec<Panel<'r>>,
    values: impl Iterator<Item = &'k (String, Coordinate)>,
) -> &'p mut Panel<'r> {
    let parts: Vec<String> = values.map(|(k, v)| format!("{k} = {v}")).collect();
    let title = parts.join(", ");
    let at = panels.iter().position(|p| p.title == title);
    let at = at.unwrap_or_else(|| {
        panels.push(Panel {
            title,
            lanes: Vec::new(),
            rows: Vec::new(),
            cells: BTreeMap::new(),
        });
        panels.len() - 1
    });
    &mut panels[at]
}

/// Where `item` is; at the end if it was not there.
fn push_new<T: PartialEq>(all: &mut Vec<T>, item: T) -> usize {
    all.iter()
        .position(|known| *known == item)
        .unwrap_or_else(|| {
            all.push(item);
            all.len() - 1
        })
}

/// Keys that a lane's name does not settle: the strategy of `seven-roulette` need not be said again.
fn free_keys(report: &Report) -> Vec<&str> {
    let mut values: BTreeMap<(&str, &str), &Coordinate> = BTreeMap::new();
    let (mut keys, mut free) = (Vec::new(), Vec::new());
    for point in &report.points {
        for (key, value) in &point.at {
            push_new(&mut keys, key.as_str());
            let known = values.entry((key, &point.name)).or_insert(value);
            if *known != value {
                push_new(&mut free, key.as_str());
            }
        }
    }
    // In the order of the file, not in that of their first difference.
    keys.retain(|key| free.contains(key));
    keys
}

/// The key along the rows: of those with numbers the one with the most values, else any with the most.
fn row_key<'r>(report: &'r Report, keys: &[&'r str]) -> Option<&'r str> {
    let weight = |key: &str| {
        let mut seen: Vec<&Coordinate> = Vec::new();
        for point in &report.points {
            for (_, value) in point.at.iter().filter(|(k, _)| k == key) {
                push_new(&mut seen, value);
            }
        }
        let numbers = seen.iter().all(|v| matches!(v, Coordinate::Number(_)));
        (numbers, seen.len())
    };
    // The first of equals.
    keys.iter().copied().rev().max_by_key(|key| weight(key))
}
