//! Scenario files.

use std::path::Path;

use anyhow::{Context as _, Result};
use levee_proxy::config::read_text;
use levee_sim::scenario::{AtValue, Point, Scenario};
use levee_smc::report::Coordinate;

/// Longest scenario, and longest file that it names: a year of call records of a busy office.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Reads a scenario. It names its files from where it stands.
pub(crate) fn read(path: &Path) -> Result<Scenario> {
    let file = path.display();
    let text = read_text(path, FILE_BYTES_MAX)
        .with_context(|| format!("{file}: cannot be read: check the path and the file"))?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let scenario = Scenario::parse(&file.to_string(), &text, &|name| {
        read_text(&folder.join(name), FILE_BYTES_MAX)
    })?;
    Ok(scenario)
}

/// The swept keys of a point as a report shows them.
pub(crate) fn coordinates(point: &Point) -> Vec<(String, Coordinate)> {
    let coordinate = |value: &AtValue| match value {
        AtValue::Number(number) => Coordinate::Number(*number),
        AtValue::Flag(flag) => Coordinate::Name(flag.to_string()),
        AtValue::Name(name) => Coordinate::Name(name.clone()),
    };
    let at = point.at.iter();
    at.map(|(key, value)| (key.clone(), coordinate(value)))
        .collect()
}
