//! What the plays would do to the load.

use alloc::{vec, vec::Vec};

use super::super::{Playbook, Range, SiteId};

/// What a play would do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) play: usize,
    /// Load of each site.
    pub(super) load: Vec<Range>,
    /// Sites over what they can carry.
    pub(super) over: Vec<SiteId>,
    /// Load beyond what can be carried, of all sites, in the worst case.
    pub(super) overload: f64,
}

/// What a play does to loads that are offered under another.
pub(super) fn outcome(
    playbook: &Playbook,
    carries: &[f64],
    from: usize,
    offered: &[Range],
    play: usize,
) -> Outcome {
    let load = if play == from {
        offered.to_vec()
    } else {
        moved(playbook, from, offered, play)
    };
    let mut over = Vec::new();
    let mut overload = 0.0;
    for (site, load) in playbook.sites().ids().zip(&load) {
        let worst = if load.high.is_finite() {
            load.high
        } else {
            load.likely
        };
        let excess = worst - carries[site.index()];
        if excess > 0.0 {
            over.push(site);
            overload += excess;
        }
    }
    Outcome {
        play,
        load,
        over,
        overload,
    }
}

/// All plays, the one with the least overload first; among equals the one that comes first in the playbook.
pub(super) fn rank(
    playbook: &Playbook,
    carries: &[f64],
    from: usize,
    offered: &[Range],
) -> Vec<Outcome> {
    let mut all: Vec<Outcome> = (0..playbook.plays().len())
        .filter(|play| *play == from || !playbook.plays()[*play].partial)
        .map(|play| outcome(playbook, carries, from, offered, play))
        .collect();
    all.sort_by(|a, b| a.overload.total_cmp(&b.overload));
    all
}

fn moved(playbook: &Playbook, from: usize, offered: &[Range], play: usize) -> Vec<Range> {
    let mut load = vec![Range::default(); offered.len()];
    let Some(classes) = playbook.classes().filter(|classes| !classes.is_empty()) else {
        let total = offered
            .iter()
            .fold(Range::default(), |sum, site| sum + *site);
        let play = &playbook.plays()[play];
        return playbook
            .sites()
            .ids()
            .map(|site| total.scale(play.share(site)))
            .collect();
    };
    let mut weights = vec![0.0; offered.len()];
    for class in 0..classes.len() {
        if let Some(site) = classes.site(from, class) {
            weights[site.index()] += classes.weight(class);
        }
    }
    for class in 0..classes.len() {
        let (Some(before), Some(after)) = (classes.site(from, class), classes.site(play, class))
        else {
            continue;
        };
        let part = classes.weight(class) / weights[before.index()];
        if part > 0.0 {
            load[after.index()] = load[after.index()] + offered[before.index()].scale(part);
        }
    }
    load
}
