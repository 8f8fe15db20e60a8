//! The sites of a scenario and its playbook, from a file or from the scenario itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use levee_config::Variant;
use levee_policy::reroute::{Classes, Play, Playbook, Routing, Sites};
use serde::Deserialize;

use super::super::ServiceKind;
use super::super::read::Reader;
use crate::model::anycast::{self as model, World};

/// Blocks into which shares are counted where a play has nothing else.
const BLOCKS: f64 = 1e6;
/// The largest load of a class: blocks stand for it, and all of them together are a number of 64 bits.
const LOAD_MAX: f64 = 1e12;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawService {
    #[expect(dead_code, reason = "it has been looked at before")]
    kind: ServiceKind,
    playbook: Option<String>,
    #[serde(default)]
    site: Vec<RawSite>,
    #[serde(default)]
    class: Vec<RawClass>,
    #[serde(default)]
    play: Vec<RawPlay>,
    #[serde(default = "one")]
    capacity_factor: f64,
}

fn one() -> f64 {
    1.0
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSite {
    name: String,
    capacity: f64,
    ingress: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClass {
    name: String,
    load: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlay {
    name: String,
    site: Option<Vec<String>>,
    share: Option<BTreeMap<String, f64>>,
}

/// The sites and the playbook of one reading.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) playbook: Arc<Playbook>,
    pub(super) world: Arc<World>,
    pub(super) sites: Vec<model::Site>,
    /// Of the classes of the world, where they stand in the scenario.
    pub(super) classes: Vec<String>,
}

pub(super) fn places<'d, 't>(
    reader: &mut Reader<'d, 't>,
    at: &Variant<'d, 't>,
    raw: &RawService,
) -> Option<Places> {
    let (playbook, classes) = match &raw.playbook {
        None => written(reader, at, raw)?,
        Some(path) => {
            if let Some(key) = ["class", "play"].into_iter().find(|key| at.has(key)) {
                let found = format!("both `playbook` and `{key}`");
                let remedy = "take one of the two out";
                reader.refuse(
                    at,
                    key,
                    found,
                    "a file, or a playbook in the scenario",
                    remedy,
                );
                return None;
            }
            (of_file(reader, at, path)?, Vec::new())
        }
    };
    let remedy = "1 leaves the capacities as they are written";
    reader.range(
        at,
        "capacity_factor",
        raw.capacity_factor,
        (1e-6, 1e6),
        remedy,
    );
    let sites = capacities(reader, at, raw, playbook.sites())?;
    Some(Places {
        world: Arc::new(World::of(&playbook)),
        playbook: Arc::new(playbook),
        sites,
        classes,
    })
}

/// The capacity of each site, in the order of the playbook.
fn capacities<'d, 't>(
    reader: &mut Reader<'d, 't>,
    at: &Variant<'d, 't>,
    raw: &RawService,
    names: &Sites,
) -> Option<Vec<model::Site>> {
    let all: Vec<&str> = names.names().collect();
    let unknown = |site: &&RawSite| names.find(&site.name).is_none();
    if let Some(site) = raw.site.iter().find(unknown) {
        let found = format!("a site `{}`", site.name);
        let expected = format!("one of {}", all.join(", "));
        let remedy = "write it as the playbook does";
        reader.refuse(at, "site", found, &expected, remedy);
        return None;
    }
    let mut sites = Vec::new();
    for name in all {
        let mut own = raw.site.iter().filter(|site| site.name == name);
        let (Some(site), None) = (own.next(), own.next()) else {
            let found = format!("no [[service.site]] `{name}`, or two");
            let expected = "one for each site of the playbook";
            let remedy = "add name = \"AMS\", capacity = 50_000 for it";
            reader.refuse(at, "site", found, expected, remedy);
            return None;
        };
        let capacity = site.capacity * raw.capacity_factor;
        sites.push(model::Site {
            capacity,
            ingress: site
                .ingress
                .map_or(capacity, |in_| in_ * raw.capacity_factor),
        });
    }
    Some(sites)
}

fn of_file<'d, 't>(
    reader: &mut Reader<'d, 't>,
    at: &Variant<'d, 't>,
    path: &str,
) -> Option<Playbook> {
    let remedy = "give the path from the folder of the scenario to what `levee anycast playbook show --json` or `levee anycast simulate --json` printed";
    let text = match (reader.read)(path) {
        Ok(text) => text,
        Err(error) => {
            let found = format!("{path}: {error}");
            reader.refuse(at, "playbook", found, "a file", remedy);
            return None;
        }
    };
    match serde_json::from_str(&text) {
        Ok(playbook) => Some(playbook),
        Err(error) => {
            let found = format!("{path}: {error}");
            reader.refuse(at, "playbook", found, "a playbook as JSON", remedy);
            None
        }
    }
}

/// The playbook in the scenario, and the names of its classes.
fn written<'d, 't>(
    reader: &mut Reader<'d, 't>,
    at: &Variant<'d, 't>,
    raw: &RawService,
) -> Option<(Playbook, Vec<String>)> {
    let names = raw.site.iter().map(|site| site.name.as_str());
    let sites = match Sites::new(names) {
        Ok(sites) => sites,
        Err(error) => {
            let remedy = "write [[service.site]] with name = \"AMS\", capacity = 50_000 for each";
            reader.refuse(at, "site", error.value, &error.expected, remedy);
            return None;
        }
    };
    let loads: Vec<f64> = raw.class.iter().map(|class| class.load).collect();
    if let Some(bad) = loads
        .iter()
        .position(|load| !(0.0..=LOAD_MAX).contains(load))
    {
        let expected = format!("a number from 0 to {LOAD_MAX}");
        let remedy = "write the part of the load that comes from it, in any unit";
        let found = loads[bad].to_string();
        reader.refuse(at, &format!("class[{bad}].load"), found, &expected, remedy);
        return None;
    }
    let mut table = Vec::new();
    let mut plays = Vec::new();
    for (i, play) in raw.play.iter().enumerate() {
        let shares = match row(&sites, raw, play) {
            Ok(Row::Classes(row)) => {
                let mut load = vec![0.0; sites.len()];
                for (site, own) in row.iter().zip(&loads) {
                    load[usize::from(*site)] += own;
                }
                table.extend(row);
                load
            }
            Ok(Row::Shares(shares)) => shares,
            Err((found, expected)) => {
                let remedy = "write site = [\"AMS\", …] with the site of each class, or share = { AMS = 0.6, … } for all plays";
                reader.refuse(at, &format!("play[{i}]"), found, &expected, remedy);
                return None;
            }
        };
        plays.push(play_of(&play.name, &sites, shares, loads.is_empty()));
    }
    let known = (!loads.is_empty()).then(|| Classes {
        blocks: loads
            .iter()
            .map(|load| load.round().max(1.0) as u64)
            .collect(),
        load: loads,
        site: table,
    });
    match Playbook::new(sites, plays, known) {
        Ok(playbook) => {
            let classes = raw.class.iter().map(|class| class.name.clone());
            Some((playbook, classes.collect()))
        }
        Err(error) => {
            let remedy = "write [[service.play]] with name = \"baseline\" first, and [[service.class]] with a load";
            let found = format!("{}: {}", error.key, error.value);
            reader.refuse(at, "play", found, &error.expected, remedy);
            None
        }
    }
}

/// Where a play sends what.
enum Row {
    Classes(Vec<u8>),
    Shares(Vec<f64>),
}

/// What stands in one play, or what is wrong with it.
fn row(sites: &Sites, raw: &RawService, play: &RawPlay) -> Result<Row, (String, String)> {
    let find = |name: &String| {
        let names: Vec<&str> = sites.names().collect();
        let error = || {
            (
                format!("a site `{name}`"),
                format!("one of {}", names.join(", ")),
            )
        };
        sites.find(name).ok_or_else(error)
    };
    match (&play.site, &play.share) {
        (Some(row), None) if !raw.class.is_empty() => {
            let row: Vec<u8> = row
                .iter()
                .map(|name| find(name).map(|site| site.0))
                .collect::<Result<_, _>>()?;
            if row.len() != raw.class.len() {
                let expected = format!("{}, one for each [[service.class]]", raw.class.len());
                return Err((format!("{} sites", row.len()), expected));
            }
            Ok(Row::Classes(row))
        }
        (None, Some(shares)) if raw.class.is_empty() => {
            let mut row = vec![0.0; sites.len()];
            for (name, share) in shares {
                if !(0.0..=1e6).contains(share) {
                    let expected = "a number from 0 to 1000000".to_owned();
                    return Err((format!("a share of {share}"), expected));
                }
                row[find(name)?.index()] = *share;
            }
            Ok(Row::Shares(row))
        }
        _ => Err((
            format!("the play `{}`", play.name),
            "`site` where there are classes, `share` where there are none".to_owned(),
        )),
    }
}

fn play_of(name: &str, sites: &Sites, load: Vec<f64>, shares: bool) -> Play {
    let total: f64 = load.iter().sum();
    let blocks = |load: &f64| {
        let blocks = if shares && total > 0.0 {
            load / total * BLOCKS
        } else {
            *load
        };
        blocks.round() as u64
    };
    Play {
        // What is announced counts against the budget: a name of another kind is taken for the worst.
        routing: Routing::parse(name, sites).unwrap_or_else(|_| Routing {
            name: name.to_owned(),
            announcements: None,
        }),
        blocks: load.iter().map(blocks).collect(),
        unknown: 0,
        load: (!shares).then_some(load),
        partial: false,
        ineffective: false,
    }
}
