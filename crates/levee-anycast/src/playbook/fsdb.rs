//! Playbooks as the authors' `playbook_tuner` takes them.
//!
//! Lines of fields between tabs: the number of sites; their names; their capacities; then for each configuration its name and the
//! percents of its sites. A load is a line of one number for each site (`attack-load.txt`). Lines with `#` are comments, as in
//! FSDB (Fsdb, J. Heidemann, ISI), whose list form this is without the header.

use std::fmt::Write as _;

use levee_policy::reroute::{PLAYS_MAX, Playbook, SITES_MAX};

use super::error::{Malformed, WriteError};
use super::table::{self, Rows};

/// The most lines of a file of loads: a year of one every five minutes.
pub const LOADS_MAX: usize = 120_000;

/// A playbook with the capacities that stand in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuner {
    /// The plays.
    pub rows: Rows,
    /// Of each site, in the unit of the loads.
    pub capacities: Vec<f64>,
}

/// Lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim_end()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Reads a playbook.
///
/// # Errors
///
/// Where a line is not as it should be.
pub fn parse(text: &str) -> Result<Tuner, Malformed> {
    let mut lines = lines(text);
    let end = text.lines().count() + 1;
    let mut next = |expected: &str| {
        lines
            .next()
            .ok_or_else(|| Malformed::new(end, 0, "the end", expected))
    };
    let (line, count) = next("the number of sites")?;
    let n = count
        .trim()
        .parse()
        .ok()
        .filter(|n| (1..=SITES_MAX).contains(n));
    let n: usize = n.ok_or_else(|| {
        Malformed::new(
            line,
            1,
            format!("{count:?}"),
            format!("the number of sites, 1 to {SITES_MAX}"),
        )
    })?;
    let (line, names) = next("the names of the sites")?;
    let sites: Vec<String> = fields(names, line, n)?
        .into_iter()
        .map(str::to_owned)
        .collect();
    for (i, site) in sites.iter().enumerate() {
        let usable = !site.is_empty() && !site.contains(|c: char| c.is_control() || c == ',');
        if !usable || sites[..i].contains(site) {
            return Err(Malformed::new(
                line,
                i + 1,
                format!("{site:?}"),
                "the name of a further site",
            ));
        }
    }
    let (line, limits) = next("the capacities of the sites")?;
    let capacities = figures(&fields(limits, line, n)?, line, 1)?;
    let mut plays = Vec::new();
    let mut names = std::collections::BTreeMap::new();
    for (line, text) in lines {
        if plays.len() == PLAYS_MAX {
            let expected = format!("{PLAYS_MAX} configurations at most");
            return Err(Malformed::new(line, 0, "one more", expected));
        }
        let fields = fields(text, line, n + 1)?;
        let name = fields[0].trim();
        if name.is_empty() || name.contains(char::is_control) {
            return Err(Malformed::new(
                line,
                1,
                format!("{name:?}"),
                "the name of a configuration",
            ));
        }
        if let Some(first) = names.insert(name.to_owned(), line) {
            let expected = format!("a name that differs from line {first}");
            return Err(Malformed::new(line, 1, format!("{name} again"), expected));
        }
        plays.push(table::play(name, figures(&fields[1..], line, 2)?, 0.0));
    }
    if plays.is_empty() {
        return Err(Malformed::new(
            end,
            0,
            "the end",
            "a line for each configuration",
        ));
    }
    Ok(Tuner {
        rows: Rows { sites, plays },
        capacities,
    })
}

/// Reads loads, one number for each of `n` sites in each line.
///
/// # Errors
///
/// Where a line is not as it should be, and without a line.
pub fn parse_loads(text: &str, n: usize) -> Result<Vec<Vec<f64>>, Malformed> {
    let mut loads = Vec::new();
    for (line, text) in lines(text) {
        if loads.len() == LOADS_MAX {
            return Err(Malformed::new(
                line,
                0,
                "one more",
                format!("{LOADS_MAX} lines at most"),
            ));
        }
        loads.push(figures(&fields(text, line, n)?, line, 1)?);
    }
    if loads.is_empty() {
        return Err(Malformed::new(
            1,
            0,
            "no load",
            "a line with the load of each site, between tabs",
        ));
    }
    Ok(loads)
}

fn fields(text: &str, line: usize, n: usize) -> Result<Vec<&str>, Malformed> {
    let fields: Vec<&str> = text.split('\t').map(str::trim).collect();
    if fields.len() == n {
        return Ok(fields);
    }
    let found = format!("{} fields", fields.len());
    Err(Malformed::new(line, 0, found, format!("{n} between tabs")))
}

fn figures(fields: &[&str], line: usize, first: usize) -> Result<Vec<f64>, Malformed> {
    let figures = fields.iter().enumerate();
    figures
        .map(|(i, text)| table::figure(text, line, first + i))
        .collect()
}

/// As `playbook_tuner` reads it: whole percents that sum to 100, and the first play under the name that it looks for.
///
/// # Errors
///
/// Without a capacity for each site, with a name that its lists cannot hold.
pub fn write(playbook: &Playbook, capacities: &[f64]) -> Result<String, WriteError> {
    let n = playbook.sites().len();
    if capacities.len() != n {
        return Err(WriteError::Capacities {
            found: capacities.len(),
            sites: n,
        });
    }
    let named = |name: &str| match name.contains('#') || name.contains(char::is_control) {
        false => Ok(name.to_owned()),
        true => Err(WriteError::Name {
            name: name.to_owned(),
            form: "a list for playbook_tuner",
            what: "tab, # or control character",
        }),
    };
    let names: Vec<String> = playbook
        .sites()
        .names()
        .map(named)
        .collect::<Result<_, _>>()?;
    let limits: Vec<String> = capacities.iter().map(f64::to_string).collect();
    let mut text = format!("{n}\n{}\n{}\n", names.join("\t"), limits.join("\t"));
    for (i, play) in playbook.plays().iter().enumerate() {
        let name = if i == 0 {
            "Baseline"
        } else {
            &play.routing.name
        };
        text.push_str(&named(name)?);
        let shares: Vec<f64> = playbook
            .sites()
            .ids()
            .map(|site| play.share(site))
            .collect();
        for percent in percents(&shares) {
            write!(text, "\t{percent}").ok();
        }
        text.push('\n');
    }
    Ok(text)
}

/// Whole percents with the sum of the shares, by largest remainder (Hamilton's method); of equal ones the first.
pub(super) fn percents(shares: &[f64]) -> Vec<u32> {
    let exact: Vec<f64> = shares.iter().map(|share| share * 100.0).collect();
    let mut percents: Vec<u32> = exact.iter().map(|percent| percent.floor() as u32).collect();
    let whole = exact.iter().sum::<f64>().round() as u32;
    let left = whole.saturating_sub(percents.iter().sum()) as usize;
    let mut order: Vec<usize> = (0..exact.len()).collect();
    order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
    for site in order.into_iter().take(left) {
        percents[site] += 1;
    }
    percents
}

#[cfg(test)]
mod tests {
    use levee_policy::reroute::Sites;

    use super::*;

    const TEXT: &str =
        "3\nAMS\tBOS\tCNF\n50000\t50000\t2500.5\nBaseline\t65\t20\t15\n1AMS\t35\t25\t40\n";

    #[test]
    fn a_playbook_is_read_and_written() {
        let tuner = parse(TEXT).unwrap();
        assert_eq!(tuner.capacities, [50_000.0, 50_000.0, 2_500.5]);
        assert_eq!(tuner.rows.plays[1].blocks, [35, 25, 40]);
        let sites = Sites::new(tuner.rows.sites).unwrap();
        let playbook = Playbook::new(sites, tuner.rows.plays, None).unwrap();
        assert_eq!(write(&playbook, &tuner.capacities).unwrap(), TEXT);
        assert!(matches!(
            write(&playbook, &[1.0]),
            Err(WriteError::Capacities { found: 1, sites: 3 })
        ));
        let commented = TEXT.replace("Baseline", "#fsdb -F t\n\nBaseline");
        assert_eq!(parse(&commented).unwrap().rows.plays.len(), 2);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, expect) in [
            ("", "line 1: found the end, expected the number of sites"),
            (
                "x\n",
                "line 1, column 1: found \"x\", expected the number of sites, 1 to 250",
            ),
            (
                "0\n",
                "line 1, column 1: found \"0\", expected the number of sites, 1 to 250",
            ),
            ("2\nA\n", "line 2: found 1 fields, expected 2 between tabs"),
            (
                "2\nA\tA\n",
                "line 2, column 2: found \"A\", expected the name of a further site",
            ),
            (
                "2\nA\tB\n",
                "line 3: found the end, expected the capacities of the sites",
            ),
            (
                "2\nA\tB\n1\tx\n",
                "line 3, column 2: found \"x\", expected a number, 0 or more",
            ),
            (
                "2\nA\tB\n1\t1\n",
                "line 4: found the end, expected a line for each configuration",
            ),
            (
                "2\nA\tB\n1\t1\nb\t1\n",
                "line 4: found 2 fields, expected 3 between tabs",
            ),
            (
                "2\nA\tB\n1\t1\nb\t1\t-2\n",
                "line 4, column 3: found \"-2\", expected a number, 0 or more",
            ),
            (
                "1\nA\n1\nb\t1\nb\t1\n",
                "line 5, column 1: found b again, expected a name that differs from line 4",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expect, "{text:?}");
        }
    }

    #[test]
    fn loads_are_read() {
        let loads = parse_loads("# packets/s\n85000.2895\t16000.1707\t16978.5398\n", 3).unwrap();
        assert_eq!(loads, [[85000.2895, 16000.1707, 16978.5398]]);
        let error = parse_loads("1\t2\n", 3).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1: found 2 fields, expected 3 between tabs"
        );
        assert!(parse_loads("\n", 3).is_err());
    }

    #[test]
    fn percents_sum_to_the_whole() {
        for (shares, expect) in [
            (vec![1.0 / 3.0; 3], vec![34, 33, 33]),
            (vec![0.655, 0.345], vec![66, 34]),
            (vec![0.0, 1.0], vec![0, 100]),
            (vec![0.0, 0.0], vec![0, 0]),
            (vec![0.998, 0.001, 0.001], vec![100, 0, 0]),
        ] {
            assert_eq!(percents(&shares), expect, "{shares:?}");
        }
    }
}
