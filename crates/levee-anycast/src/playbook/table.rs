//! The authors' playbooks as CSV.
//!
//! Two kinds: `bgp;CDG;...;SYD;unknown` with the number of blocks of each site, as pandas writes them (`245800.0`), and
//! `policy,lnd,mia,poa` with percents. The tool `make-playbook` writes the first kind with commas and percents, and maybe a last
//! column `routing_info`. So the first word and the separator say nothing about the unit; see [`super::Unit`].

use levee_policy::reroute::{PLAYS_MAX, Play, Playbook, Routing, SITES_MAX};

use super::error::{Malformed, WriteError};

/// No count that is kept as a float is larger without being rounded.
const WHOLE_MAX: f64 = (1u64 << 53) as f64;

/// Plays in the order of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The names of the sites.
    pub sites: Vec<String>,
    /// The plays; the baseline is somewhere among them.
    pub plays: Vec<Play>,
}

/// Reads either kind.
///
/// # Errors
///
/// Where a line is not as the header says.
pub fn parse(text: &str) -> Result<Rows, Malformed> {
    let head = text.lines().next().unwrap_or_default();
    let separator = if head.contains(';') { b';' } else { b',' };
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(false)
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut records = reader.records();
    let bad = |error: csv::Error| {
        let line = error.position().map_or(1, |p| p.line() as usize);
        Malformed::new(
            line,
            0,
            "what is no CSV",
            "fields that are closed and UTF-8",
        )
    };
    let header = records.next().transpose().map_err(bad)?.unwrap_or_default();
    let columns = Columns::of(&header)?;
    let mut lines = Lines {
        text,
        byte: 0,
        line: 1,
    };
    let mut plays: Vec<Play> = Vec::new();
    let mut names = std::collections::BTreeMap::new();
    for record in records {
        let record = record.map_err(bad)?;
        let line = lines.at(record.position().map_or(0, |p| p.byte() as usize));
        if plays.len() == PLAYS_MAX {
            let expected = format!("{PLAYS_MAX} configurations at most");
            return Err(Malformed::new(line, 0, "one more", expected));
        }
        let play = columns.play(&record, line)?;
        if let Some(first) = names.insert(play.routing.name.clone(), line) {
            let found = format!("{} again", play.routing.name);
            let expected = format!("a name that differs from line {first}");
            return Err(Malformed::new(line, 1, found, expected));
        }
        plays.push(play);
    }
    if plays.is_empty() {
        return Err(Malformed::new(
            2,
            0,
            "no configuration",
            "a line for each configuration",
        ));
    }
    Ok(Rows {
        sites: columns.sites,
        plays,
    })
}

/// The numbers of lines at bytes that only grow.
struct Lines<'t> {
    text: &'t str,
    byte: usize,
    line: usize,
}

impl Lines<'_> {
    /// Of the first line with something in it from this byte on: blank ones belong to the record after them.
    fn at(&mut self, byte: usize) -> usize {
        let bytes = self.text.as_bytes();
        let blank = bytes
            .iter()
            .skip(byte)
            .take_while(|byte| matches!(byte, b'\n' | b'\r'));
        let to = byte + blank.count();
        let passed = bytes.get(self.byte..to).unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.byte = self.byte.max(to);
        self.line
    }
}

struct Columns {
    sites: Vec<String>,
    unknown: bool,
    width: usize,
}

impl Columns {
    fn of(header: &csv::StringRecord) -> Result<Self, Malformed> {
        let first = header.get(0).unwrap_or_default();
        if !matches!(first, "bgp" | "policy") {
            return Err(Malformed::new(1, 1, format!("{first:?}"), "bgp or policy"));
        }
        let mut sites: Vec<String> = header.iter().skip(1).map(str::to_owned).collect();
        if sites.last().is_some_and(|name| name == "routing_info") {
            sites.pop();
        }
        let unknown = sites.last().is_some_and(|name| name == "unknown");
        if unknown {
            sites.pop();
        }
        if sites.is_empty() || sites.len() > SITES_MAX {
            let found = format!("{} sites", sites.len());
            return Err(Malformed::new(
                1,
                2,
                found,
                format!("1 to {SITES_MAX} names of sites"),
            ));
        }
        for (i, site) in sites.iter().enumerate() {
            let usable = !site.is_empty() && !site.chars().any(|c| c.is_control() || c == ',');
            if !usable || sites[..i].contains(site) {
                return Err(Malformed::new(
                    1,
                    i + 2,
                    format!("{site:?}"),
                    "the name of a further site",
                ));
            }
        }
        Ok(Self {
            sites,
            unknown,
            width: header.len(),
        })
    }

    fn play(&self, record: &csv::StringRecord, line: usize) -> Result<Play, Malformed> {
        if record.len() != self.width {
            let found = format!("{} fields", record.len());
            return Err(Malformed::new(
                line,
                0,
                found,
                format!("{}, as the first line has", self.width),
            ));
        }
        let name = &record[0];
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(Malformed::new(
                line,
                1,
                format!("{name:?}"),
                "the name of a configuration",
            ));
        }
        let mut figures = Vec::with_capacity(self.width);
        for column in 1..=self.sites.len() + usize::from(self.unknown) {
            figures.push(figure(&record[column], line, column + 1)?);
        }
        let unknown = if self.unknown { figures.pop() } else { None };
        Ok(play(name, figures, unknown.unwrap_or(0.0)))
    }
}

/// A number of blocks, or a percent.
pub(super) fn figure(text: &str, line: usize, column: usize) -> Result<f64, Malformed> {
    let number = text
        .parse()
        .ok()
        .filter(|n: &f64| (0.0..=WHOLE_MAX).contains(n));
    number.ok_or_else(|| Malformed::new(line, column, format!("{text:?}"), "a number, 0 or more"))
}

/// A play of these figures. Blocks are whole; figures that are not are kept as load as well.
pub(super) fn play(name: &str, figures: Vec<f64>, unknown: f64) -> Play {
    let whole = figures.iter().all(|figure| figure.fract() == 0.0);
    Play {
        routing: Routing {
            name: name.to_owned(),
            announcements: None,
        },
        blocks: figures.iter().map(|figure| figure.round() as u64).collect(),
        unknown: unknown.round() as u64,
        load: (!whole).then_some(figures),
        partial: false,
        ineffective: false,
    }
}

/// As the authors' `bgp;...;unknown` with numbers of blocks.
///
/// # Errors
///
/// With a name that other tools would read as two.
pub fn write(playbook: &Playbook) -> Result<String, WriteError> {
    use std::fmt::Write as _;
    let mut text = String::from("bgp");
    let named = |name: &str| match name.contains([';', '"']) || name.contains(char::is_control) {
        false => Ok(name.to_owned()),
        true => Err(WriteError::Name {
            name: name.to_owned(),
            form: "CSV",
            what: "semicolon, quote or control character",
        }),
    };
    for site in playbook.sites().names() {
        text.push(';');
        text.push_str(&named(site)?);
    }
    text.push_str(";unknown\n");
    for play in playbook.plays() {
        text.push_str(&named(&play.routing.name)?);
        for blocks in play.blocks.iter().chain([&play.unknown]) {
            write!(text, ";{blocks}.0").ok();
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_read() {
        let rows = parse("bgp;A;B;unknown\n1xA;1.0;3.0;6.0\nbaseline;2.0;2.0;5.0\n").unwrap();
        assert_eq!(rows.sites, ["A", "B"]);
        assert_eq!(
            (rows.plays[0].blocks.as_slice(), rows.plays[0].unknown),
            ([1, 3].as_slice(), 6)
        );
        assert!(rows.plays[0].load.is_none());
        let rows = parse("policy,lnd,mia\r\nbaseline,57.5,42.5\r\n1149_701_1149,99,1\r\n").unwrap();
        assert_eq!(rows.plays[0].load.as_deref(), Some([57.5, 42.5].as_slice()));
        assert_eq!(rows.plays[0].blocks, [58, 43]);
        assert_eq!(rows.plays[1].blocks, [99, 1]);
        let rows =
            parse("bgp,AMS,BOS,routing_info\nbaseline,60,40,baseline#ipv4.routing\n").unwrap();
        assert_eq!(rows.sites, ["AMS", "BOS"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, expect) in [
            ("", "line 1, column 1: found \"\", expected bgp or policy"),
            (
                "a,b\n",
                "line 1, column 1: found \"a\", expected bgp or policy",
            ),
            (
                "bgp\n",
                "line 1, column 2: found 0 sites, expected 1 to 250 names of sites",
            ),
            (
                "bgp;unknown\nb;1\n",
                "line 1, column 2: found 0 sites, expected 1 to 250 names of sites",
            ),
            (
                "bgp;A;A\n",
                "line 1, column 3: found \"A\", expected the name of a further site",
            ),
            (
                "bgp;A;;B\n",
                "line 1, column 3: found \"\", expected the name of a further site",
            ),
            (
                "bgp;A\n",
                "line 2: found no configuration, expected a line for each configuration",
            ),
            (
                "bgp;A\nb;1;2\n",
                "line 2: found 3 fields, expected 2, as the first line has",
            ),
            (
                "bgp;A\nb;1\n\nc;x\n",
                "line 4, column 2: found \"x\", expected a number, 0 or more",
            ),
            (
                "bgp;A\nb;-1\n",
                "line 2, column 2: found \"-1\", expected a number, 0 or more",
            ),
            (
                "bgp;A\nb;nan\n",
                "line 2, column 2: found \"nan\", expected a number, 0 or more",
            ),
            (
                "bgp;A\nb;1e300\n",
                "line 2, column 2: found \"1e300\", expected a number, 0 or more",
            ),
            (
                "bgp;A\n;1\n",
                "line 2, column 1: found \"\", expected the name of a configuration",
            ),
            (
                "bgp;A\nb;1\nb;2\n",
                "line 3, column 1: found b again, expected a name that differs from line 2",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expect, "{text:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = "bgp;A;B;unknown\nbaseline;2.0;2.0;5.0\n1xA;1.0;3.0;6.0\n";
        let rows = parse(text).unwrap();
        let sites = levee_policy::reroute::Sites::new(rows.sites).unwrap();
        let playbook = Playbook::new(sites, rows.plays, None).unwrap();
        assert_eq!(write(&playbook).unwrap(), text);
        let sites = levee_policy::reroute::Sites::new(["A;B", "C"]).unwrap();
        let odd = Playbook::new(sites, playbook.plays().to_vec(), None).unwrap();
        assert!(matches!(write(&odd), Err(WriteError::Name { .. })));
    }
}
