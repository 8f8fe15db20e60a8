//! What is asked: the options, and the file behind them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use levee_config::{Document, Problems};
use levee_policy::reroute::{
    Playbook, Range, SiteId,
    planner::{Figures, PlannerConfig, Situation},
};
use serde::Deserialize;

use super::Args;
use super::figures::{Amount, BySite, Load};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    current: Option<String>,
    capacity: BySite<Amount>,
    load: BySite<Load>,
    normal: BySite<Amount>,
    absorb: Vec<String>,
    breakwater: Vec<String>,
    down: Vec<String>,
    forbid: Vec<String>,
    planner: PlannerConfig,
}

/// What was said so far.
struct Asked<'p> {
    playbook: &'p Playbook,
    current: usize,
    capacity: Vec<Option<f64>>,
    load: Vec<Option<Range>>,
    normal: Vec<Option<f64>>,
    absorbers: BTreeSet<SiteId>,
    breakwaters: BTreeSet<SiteId>,
    down: BTreeSet<SiteId>,
    forbidden: BTreeSet<usize>,
}

/// A name that the playbook does not have: where it was said, what it is, what there is.
type Wrong<'a> = &'a dyn Fn(&str, String, String) -> anyhow::Error;

/// `capacities`: those that stand in the playbook's file.
pub(super) fn asked(
    args: &Args,
    playbook: &Playbook,
    capacities: Option<Vec<f64>>,
) -> Result<(Situation, PlannerConfig)> {
    let n = playbook.sites().len();
    let mut asked = Asked {
        playbook,
        current: 0,
        capacity: capacities
            .map_or_else(|| vec![None; n], |all| all.into_iter().map(Some).collect()),
        load: vec![None; n],
        normal: vec![None; n],
        absorbers: BTreeSet::new(),
        breakwaters: BTreeSet::new(),
        down: BTreeSet::new(),
        forbidden: BTreeSet::new(),
    };
    let mut config = PlannerConfig::default();
    if let Some(path) = &args.situation {
        config = asked.read(path)?;
    }
    asked.take_options(args)?;
    if let Some(concentration) = args.concentration {
        config.concentration = concentration;
        config.validate().map_err(|error| {
            anyhow!(
                "--concentration {concentration}: expected {}",
                error.expected
            )
        })?;
    }
    Ok((asked.finish()?, config))
}

impl Asked<'_> {
    fn read(&mut self, path: &Path) -> Result<PlannerConfig> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path)
            .with_context(|| format!("{name}: cannot be read; check the path"))?;
        let document = Document::parse(&name, &text)?;
        let file: File = document.read("")?;
        let wrong = |key: &str, found: String, expected: String| {
            Problems::from(document.problem(key, found, expected, "")).into()
        };
        let config = self.take(file, &wrong)?;
        config.validate().map_err(|error| {
            wrong(
                &format!("planner.{}", error.key),
                error.value,
                error.expected,
            )
        })?;
        Ok(config)
    }

    fn take_options(&mut self, args: &Args) -> Result<()> {
        let file = File {
            current: args.current.clone(),
            capacity: args
                .capacity
                .iter()
                .map(|(site, n)| (site.clone(), Amount(*n)))
                .collect(),
            load: args
                .load
                .iter()
                .map(|(site, load)| (site.clone(), Load(*load)))
                .collect(),
            normal: args
                .normal
                .iter()
                .map(|(site, n)| (site.clone(), Amount(*n)))
                .collect(),
            absorb: args.absorb.clone(),
            breakwater: args.breakwater.clone(),
            down: args.down.clone(),
            forbid: args.forbid.clone(),
            planner: PlannerConfig::default(),
        };
        let wrong = |key: &str, found: String, expected: String| {
            let option = key.split(['.', '[']).next().unwrap_or(key);
            anyhow!("--{option}: {found}, expected {expected}")
        };
        self.take(file, &wrong)?;
        Ok(())
    }

    fn take(&mut self, file: File, wrong: Wrong<'_>) -> Result<PlannerConfig> {
        if let Some(name) = file.current {
            self.current = self.play("current", &name, wrong)?;
        }
        for (name, Amount(capacity)) in file.capacity {
            let site = self.site(&format!("capacity.{name}"), &name, wrong)?;
            self.capacity[site.index()] = Some(capacity);
        }
        for (name, Load(load)) in file.load {
            let site = self.site(&format!("load.{name}"), &name, wrong)?;
            self.load[site.index()] = Some(load);
        }
        for (name, Amount(normal)) in file.normal {
            let site = self.site(&format!("normal.{name}"), &name, wrong)?;
            self.normal[site.index()] = Some(normal);
        }
        for (key, names) in [
            ("absorb", file.absorb),
            ("breakwater", file.breakwater),
            ("down", file.down),
        ] {
            for (i, name) in names.iter().enumerate() {
                let site = self.site(&format!("{key}[{i}]"), name, wrong)?;
                let set = match key {
                    "absorb" => &mut self.absorbers,
                    "breakwater" => &mut self.breakwaters,
                    _ => &mut self.down,
                };
                set.insert(site);
            }
        }
        for (i, name) in file.forbid.iter().enumerate() {
            let play = self.play(&format!("forbid[{i}]"), name, wrong)?;
            self.forbidden.insert(play);
        }
        Ok(file.planner)
    }

    fn site(&self, key: &str, name: &str, wrong: Wrong<'_>) -> Result<SiteId> {
        let sites = self.playbook.sites();
        sites.find(name).ok_or_else(|| {
            let known: Vec<&str> = sites.names().collect();
            wrong(
                key,
                format!("no site {name:?}"),
                format!("one of {}", known.join(", ")),
            )
        })
    }

    fn play(&self, key: &str, name: &str, wrong: Wrong<'_>) -> Result<usize> {
        self.playbook.find(name).ok_or_else(|| {
            wrong(
                key,
                format!("no play {name:?}"),
                format!("one of {}", names(self.playbook)),
            )
        })
    }

    fn finish(self) -> Result<Situation> {
        let sites = self.playbook.sites();
        let missing = |figures: &[bool]| -> Vec<&str> {
            let missing = sites.names().zip(figures).filter(|(_, given)| !**given);
            missing.map(|(name, _)| name).collect()
        };
        let given = |all: &[Option<f64>]| all.iter().map(Option::is_some).collect::<Vec<bool>>();
        if let [first, ..] = missing(&given(&self.capacity)).as_slice() {
            let all = missing(&given(&self.capacity)).join(", ");
            bail!("no capacity of {all}: add --capacity {first}=N, or {first}=0 if it is closed");
        }
        let loads: Vec<bool> = self.load.iter().map(Option::is_some).collect();
        if let [first, ..] = missing(&loads).as_slice() {
            bail!(
                "no load of {}: add --load {first}=N, the load that is offered there now",
                missing(&loads).join(", ")
            );
        }
        let normal = given(&self.normal);
        let some = normal.contains(&true);
        if let ([first, ..], true) = (missing(&normal).as_slice(), some) {
            bail!(
                "no normal load of {}: add --normal {first}=N, or give it for no site",
                missing(&normal).join(", ")
            );
        }
        let capacity = self.capacity.into_iter().flatten().collect();
        let load = self.load.into_iter().flatten().collect();
        Ok(Situation {
            normal: some.then(|| Figures::Sites(self.normal.into_iter().flatten().collect())),
            absorbers: self.absorbers,
            breakwaters: self.breakwaters,
            down: self.down,
            forbidden: self.forbidden,
            ..Situation::new(self.current, capacity, load)
        })
    }
}

/// The plays, as many as a message can hold.
fn names(playbook: &Playbook) -> String {
    const NAMED: usize = 20;
    let plays = playbook.plays();
    let named: Vec<&str> = plays
        .iter()
        .take(NAMED)
        .map(|play| play.routing.name.as_str())
        .collect();
    let more = if plays.len() > NAMED {
        format!(" and {} more", plays.len() - NAMED)
    } else {
        String::new()
    };
    named.join(", ") + &more
}
