//! Poisons, each against a control.
//!
//! A poison `o X o` makes AS X drop the route. But it is also longer than `o` by two, and that alone moves traffic away from the
//! site; so its control is the same announcement with as many repetitions of the origin instead (`o o o`). A poison that does no
//! more than its control has no effect of its own. One under which the site has next to nothing left is as good as a withdrawal
//! from that upstream: filters against route leaks drop paths that name a large network where a customer announces them.
//!
//! How much more is more: two measurements of the same announcement differ, so a difference counts at a site when it is above
//! - the counting noise: [`STANDARD_ERRORS`] standard errors of the difference of two shares of so many replies each (taken as
//!   independent, which is too cautious: both ask the same addresses), or, where a file has whole percents only, 1 percent;
//! - and [`DRIFT`] of the larger share, for blocks that change their site from one measurement to the next whatever is announced.

use std::collections::BTreeMap;

use levee_policy::ConfigError;
use levee_policy::reroute::{Asn, Path, Play, Playbook, SiteId};
use serde::Serialize;

use super::routing::withdraws;
use super::tables::Unit;

/// A false "effective" once in 370 sites of ineffective poisons.
pub const STANDARD_ERRORS: f64 = 3.0;
/// Of a site's blocks, how many change between two measurements (the paper, section 6, on table 7: about 5%).
pub const DRIFT: f64 = 0.05;
/// A site that keeps less than this of what it has under the control is as good as withdrawn. Our choice: what is left comes over
/// peers that do not filter (1 to 2 of 21 percent in the authors' second series).
pub const FILTERED_BELOW: f64 = 0.1;

/// What a poison is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// The prepend of the same length.
    #[default]
    Prepend,
    /// The baseline: for series in which the other sites' paths were made longer by as much.
    Baseline,
}

/// What a poison does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// More than its control.
    Effective,
    /// No more than its control.
    Ineffective,
    /// The site has next to nothing left.
    Filtered,
    /// Cannot be told: there is no control of its length, or a measurement is partial.
    Untested,
}

impl Verdict {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Effective => "effective",
            Self::Ineffective => "ineffective",
            Self::Filtered => "filtered",
            Self::Untested => "untested",
        }
    }
}

/// A poison, and how it compares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// The play, by name.
    pub configuration: String,
    /// The site that poisons.
    pub site: String,
    /// Whom.
    pub poison: Vec<Asn>,
    /// The play that it is compared with.
    pub control: Option<String>,
    /// Whether that has a path of the same length, or is the baseline on purpose.
    pub equal_length: bool,
    /// The site's share.
    pub share: f64,
    /// The same under the control.
    pub control_share: f64,
    /// The largest difference at any site, in units of what is tolerated there.
    pub difference: f64,
    /// What it does.
    pub verdict: Verdict,
    /// Why, for a person.
    pub why: String,
}

/// A play in which one site has a path of its own and all others announce plainly.
#[derive(Debug)]
struct Altered {
    play: usize,
    site: SiteId,
    path: Path,
    /// The path begins with it; the baseline's path is this alone.
    length: usize,
}

/// Judges all poisons of a playbook.
#[must_use]
pub fn judge(playbook: &Playbook, control: Control) -> Vec<Judgement> {
    let altered = altered(playbook);
    let poisons = altered.iter().filter(|one| !one.path.poison.is_empty());
    poisons
        .map(|poison| judge_one(playbook, poison, control, &altered))
        .collect()
}

/// The same playbook with the plays marked that a planner leaves out: they do what a prepend does, at the risk of a poison.
///
/// # Errors
///
/// None in practice: what was a playbook still is one.
pub fn mark(playbook: &Playbook, judgements: &[Judgement]) -> Result<Playbook, ConfigError> {
    let mut plays = playbook.plays().to_vec();
    for judgement in judgements {
        let of_this = |play: &&mut Play| play.routing.name == judgement.configuration;
        if let Some(play) = plays.iter_mut().find(of_this) {
            play.ineffective = judgement.verdict == Verdict::Ineffective;
        }
    }
    Playbook::new(playbook.sites().clone(), plays, playbook.classes().cloned())
}

fn judge_one(
    playbook: &Playbook,
    poison: &Altered,
    control: Control,
    altered: &[Altered],
) -> Judgement {
    let plays = playbook.plays();
    let found = match control {
        Control::Baseline => Some((0, true)),
        Control::Prepend => prepend_control(playbook, poison, altered),
    };
    let play = &plays[poison.play];
    let share = play.share(poison.site);
    let (verdict, why, difference) = match found {
        None => (
            Verdict::Untested,
            "no prepend at this site to compare with".to_owned(),
            0.0,
        ),
        Some((control, equal)) => compare(
            Unit::of(playbook),
            play,
            &plays[control],
            poison.site,
            equal,
        ),
    };
    Judgement {
        configuration: play.routing.name.clone(),
        site: playbook.sites().name(poison.site).to_owned(),
        poison: poison.path.poison.clone(),
        control: found.map(|(control, _)| plays[control].routing.name.clone()),
        equal_length: found.is_some_and(|(_, equal)| equal),
        share,
        control_share: found.map_or(0.0, |(control, _)| plays[control].share(poison.site)),
        difference,
        verdict,
        why,
    }
}

/// The prepend of the same length, or else the longest that is shorter; and whether it is the same.
fn prepend_control(
    playbook: &Playbook,
    poison: &Altered,
    altered: &[Altered],
) -> Option<(usize, bool)> {
    let prepends = altered.iter().filter(|other| {
        other.site == poison.site
            && other.path.poison.is_empty()
            && other.path.communities == poison.path.communities
            && other.length <= poison.length
            && !playbook.plays()[other.play].partial
    });
    let best = prepends.max_by_key(|other| (other.length, std::cmp::Reverse(other.play)))?;
    Some((best.play, best.length == poison.length))
}

fn compare(
    unit: Unit,
    play: &Play,
    control: &Play,
    at: SiteId,
    equal: bool,
) -> (Verdict, String, f64) {
    if play.partial || control.partial {
        return (
            Verdict::Untested,
            "a measurement is partial".to_owned(),
            0.0,
        );
    }
    let noise = |a: f64, b: f64| match unit {
        Unit::Percent => 0.01,
        Unit::Blocks | Unit::Load => {
            let variance = |p: f64, play: &Play| p * (1.0 - p) / play.known().max(1) as f64;
            // A share of none of n replies may still be one of n.
            let least = 1.0 / play.known().min(control.known()).max(1) as f64;
            STANDARD_ERRORS * (variance(a, play) + variance(b, control)).sqrt().max(least)
        }
    };
    let mut difference: f64 = 0.0;
    for site in (0..play.blocks.len()).map(|i| SiteId(i as u8)) {
        let (a, b) = (play.share(site), control.share(site));
        let tolerated = noise(a, b) + DRIFT * a.max(b);
        difference = difference.max((a - b).abs() / tolerated);
    }
    let (share, before) = (play.share(at), control.share(at));
    // Percents of a file are floats, so a difference of one percent may be a hair above it.
    let more = difference > 1.0 + 1e-9;
    // Half of a rounded percent lies in each of the two figures.
    let kept = FILTERED_BELOW * before;
    let unsure = match unit {
        Unit::Percent => 0.005 * (1.0 + FILTERED_BELOW),
        Unit::Blocks | Unit::Load => 0.0,
    };
    let verdict = match (more, equal) {
        (false, _) => Verdict::Ineffective,
        (true, false) => Verdict::Untested,
        (true, true) if share < before && share <= kept + unsure => Verdict::Filtered,
        (true, true) => Verdict::Effective,
    };
    let why = match verdict {
        Verdict::Ineffective => "does no more than its control",
        Verdict::Untested => "does more than a shorter prepend; measure one of its length",
        Verdict::Filtered => "next to nothing is left, as after a withdrawal",
        Verdict::Effective => "does more than its control",
    };
    (verdict, why.to_owned(), difference)
}

/// Plays in which one site is altered: by their announcements, or by names that are paths (`1149_701_1149`).
fn altered(playbook: &Playbook) -> Vec<Altered> {
    let plays = playbook.plays().iter().enumerate();
    let (known, named): (Vec<_>, Vec<_>) =
        plays.partition(|(_, play)| play.routing.announcements.is_some());
    let mut all: Vec<Altered> = known
        .into_iter()
        .filter_map(|(i, _)| announced(playbook, i))
        .collect();
    let named: Vec<(usize, Path)> = named
        .into_iter()
        .filter_map(|(i, play)| Some((i, path_of_name(&play.routing.name)?)))
        .collect();
    if let Some(site) = site_of_names(playbook, &named) {
        all.extend(named.into_iter().map(|(play, path)| Altered {
            play,
            site,
            length: path.length(),
            path,
        }));
    }
    all.sort_by_key(|one| one.play);
    all
}

fn announced(playbook: &Playbook, play: usize) -> Option<Altered> {
    let routing = &playbook.plays()[play].routing;
    let baseline = playbook.plays()[0].routing.announcements.as_ref()?;
    let announcements = routing.announcements.as_ref()?;
    let mut differ = playbook
        .sites()
        .ids()
        .filter(|site| announcements[site.index()] != baseline[site.index()]);
    let (site, None) = (differ.next()?, differ.next()) else {
        return None;
    };
    let announcement = &announcements[site.index()];
    if withdraws(routing, playbook.sites(), site) || !announcement.neighbours.is_empty() {
        return None;
    }
    let path = announcement.everyone.clone()?;
    Some(Altered {
        play,
        site,
        length: path.length(),
        path,
    })
}

/// `1149_1149_1149`, `1149_701_1149`: the path of the one site that the whole file is about.
fn path_of_name(name: &str) -> Option<Path> {
    let path: Option<Vec<Asn>> = name
        .split('_')
        .map(|asn| asn.parse().ok().map(Asn))
        .collect();
    let path = path?;
    let (first, last) = (path.first()?, path.last()?);
    if first != last || path.len() < 2 {
        return None;
    }
    let times = path.iter().take_while(|asn| *asn == first).count();
    Some(Path {
        prepend: u8::try_from(times - 1).ok()?,
        poison: path.get(times..path.len() - 1).unwrap_or_default().to_vec(),
        communities: Vec::new(),
    })
}

/// Names do not tell the site: it is the one that loses most by them.
fn site_of_names(playbook: &Playbook, named: &[(usize, Path)]) -> Option<SiteId> {
    let mut lost: BTreeMap<SiteId, f64> = BTreeMap::new();
    for site in playbook.sites().ids() {
        let baseline = playbook.plays()[0].share(site);
        let sum = named
            .iter()
            .map(|(play, _)| baseline - playbook.plays()[*play].share(site))
            .sum();
        lost.insert(site, sum);
    }
    let most = lost
        .into_iter()
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (most.1 > 0.0).then_some(most.0)
}

#[cfg(test)]
mod tests {
    use levee_policy::reroute::{Announcement, Routing, Sites};

    use super::*;

    fn play(name: &str, blocks: [u64; 3]) -> Play {
        Play {
            routing: Routing {
                name: name.to_owned(),
                announcements: None,
            },
            blocks: blocks.to_vec(),
            unknown: 0,
            load: None,
            partial: false,
            ineffective: false,
        }
    }

    /// At the second site.
    fn announce(mut play: Play, prepend: u8, poison: &[u32]) -> Play {
        let path = Path {
            prepend,
            poison: poison.iter().copied().map(Asn).collect(),
            communities: Vec::new(),
        };
        let mut all = vec![Announcement::default(); 3];
        all[1].everyone = Some(path);
        play.routing.announcements = Some(all);
        play
    }

    fn verdicts(plays: Vec<Play>, control: Control) -> Vec<(String, Verdict, bool)> {
        let playbook =
            Playbook::new(Sites::new(["lnd", "mia", "poa"]).unwrap(), plays, None).unwrap();
        let judged = judge(&playbook, control);
        assert!(
            judged.iter().all(|j| j.site == "mia" && !j.why.is_empty()),
            "{judged:?}"
        );
        judged
            .into_iter()
            .map(|j| (j.configuration, j.verdict, j.equal_length))
            .collect()
    }

    #[test]
    fn percents_are_judged_within_their_rounding() {
        for (share, expect) in [
            ([72, 5, 22], Verdict::Ineffective),
            ([72, 4, 23], Verdict::Ineffective),
            ([74, 2, 22], Verdict::Effective),
            ([75, 1, 23], Verdict::Filtered),
            ([76, 0, 23], Verdict::Filtered),
            ([60, 17, 22], Verdict::Effective),
        ] {
            let plays = vec![
                play("baseline", [57, 20, 21]),
                play("1149_1149_1149", [72, 5, 22]),
                play("1149_701_1149", share),
            ];
            let expect = [("1149_701_1149".to_owned(), expect, true)];
            assert_eq!(verdicts(plays, Control::Prepend), expect, "{share:?}");
        }
    }

    #[test]
    fn counts_are_judged_within_their_noise() {
        let base = || {
            vec![
                announce(play("baseline", [8_436, 400, 113]), 0, &[]),
                announce(play("2xMIA", [8_825, 49, 112]), 2, &[]),
            ]
        };
        for (share, expect) in [
            ([8_749, 49, 109], Verdict::Ineffective),
            // Three standard errors of the difference are 25.
            ([8_700, 24, 112], Verdict::Ineffective),
            ([8_700, 12, 112], Verdict::Effective),
            ([8_770, 0, 112], Verdict::Filtered),
        ] {
            let mut plays = base();
            plays.push(announce(play("x", share), 0, &[701]));
            assert_eq!(verdicts(plays, Control::Prepend)[0].1, expect, "{share:?}");
        }
        // The same shares of a thousandth of the replies say nothing.
        let plays = vec![
            announce(play("baseline", [844, 40, 11]), 0, &[]),
            announce(play("2xMIA", [882, 5, 11]), 2, &[]),
            announce(play("x", [877, 0, 11]), 0, &[701]),
        ];
        assert_eq!(verdicts(plays, Control::Prepend)[0].1, Verdict::Ineffective);
    }

    #[test]
    fn a_control_must_be_as_long() {
        let plays = |share| {
            vec![
                play("baseline", [57, 20, 21]),
                play("1149_1149", [68, 8, 22]),
                play("1149_701_1149", share),
            ]
        };
        let one = |verdict, equal| [("1149_701_1149".to_owned(), verdict, equal)];
        // More than a shorter prepend may be the length; no more than it is no effect for certain.
        assert_eq!(
            verdicts(plays([72, 5, 22]), Control::Prepend),
            one(Verdict::Untested, false)
        );
        assert_eq!(
            verdicts(plays([68, 8, 22]), Control::Prepend),
            one(Verdict::Ineffective, false)
        );
        assert_eq!(
            verdicts(plays([57, 19, 22]), Control::Baseline),
            one(Verdict::Ineffective, true)
        );
        let mut none = plays([72, 5, 22]);
        none.remove(1);
        assert_eq!(
            verdicts(none, Control::Prepend),
            one(Verdict::Untested, false)
        );
        let mut partial = plays([68, 8, 22]);
        partial[2].partial = true;
        assert_eq!(
            verdicts(partial, Control::Prepend),
            one(Verdict::Untested, false)
        );
    }

    #[test]
    fn names_that_are_paths_are_told_from_others() {
        let path = |prepend, poison: &[u32]| {
            Some(Path {
                prepend,
                poison: poison.iter().copied().map(Asn).collect(),
                communities: Vec::new(),
            })
        };
        for (name, expect) in [
            ("1149_1149", path(1, &[])),
            ("1149_63221_24115_1149", path(0, &[63221, 24115])),
            ("baseline", None),
            ("1149", None),
            ("1149_701", None),
            ("-3xMIA", None),
        ] {
            assert_eq!(path_of_name(name), expect, "{name}");
        }
    }

    #[test]
    fn the_planner_is_told_those_without_effect() {
        let plays = vec![
            play("baseline", [57, 20, 21]),
            play("1149_1149_1149", [72, 5, 22]),
            play("1149_1_1149", [72, 5, 22]),
            play("1149_2_1149", [76, 0, 22]),
        ];
        let playbook =
            Playbook::new(Sites::new(["lnd", "mia", "poa"]).unwrap(), plays, None).unwrap();
        let judged = judge(&playbook, Control::Prepend);
        let marked = mark(&playbook, &judged).unwrap();
        let of_no_use: Vec<bool> = marked.plays().iter().map(|play| play.ineffective).collect();
        assert_eq!(of_no_use, [false, false, true, false]);
    }
}
