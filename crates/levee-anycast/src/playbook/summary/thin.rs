//! Classes within a limit.
//!
//! The half of the limit goes to the classes of most weight (load, or blocks where that is not known), as they are. The rest of the
//! classes are the tail: most are a single block whose replies were lost in some plays. It is *sampled*: within the classes of one
//! site in the baseline, in the order of their first blocks, so that neighbours, which mostly share a route, lie together, it is
//! cut into cells of equal weight, and the class in the middle of a cell stands for all of the cell. That is systematic sampling
//! in proportion to size (Cochran, "Sampling Techniques", chapter 8): the shares of the baseline and the whole weight stay exact,
//! those of the other plays have no bias, and their error falls with the root of the number of cells; it is measured and told.

use levee_policy::reroute::Classes;

use super::columns::Columns;
use super::{Count, Groups, Options, in_pieces};

/// The first `u32` is the group whose sites are those of the class.
struct Class {
    stands_for_it: u32,
    blocks: u64,
    load: f64,
}

/// The classes, and the largest error of a share of all blocks that is counted from them.
pub(super) fn classes(
    columns: &impl Columns,
    groups: &Groups,
    counts: &[Count],
    options: Options,
) -> (Classes, f64) {
    let chosen = choose(columns, groups, options.classes_max.max(1));
    let rows = columns.rows().max(1) as f64;
    let plays = in_pieces(options.threads, columns.plays(), |play| {
        let mut implied = [0u64; 256];
        let mut sites = Vec::with_capacity(chosen.len());
        for class in &chosen {
            let site = columns.site(play, groups.first[class.stands_for_it as usize]);
            implied[usize::from(site)] += class.blocks;
            sites.push(site);
        }
        let off = implied.iter().zip(&counts[play].blocks);
        let off = off.map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0);
        (sites, off as f64 / rows)
    });
    let error = plays.iter().map(|(_, error)| *error).fold(0.0, f64::max);
    let site: Vec<Vec<u8>> = plays.into_iter().map(|(sites, _)| sites).collect();
    let load = (!groups.load.is_empty()).then(|| chosen.iter().map(|class| class.load).collect());
    let classes = Classes {
        blocks: chosen.iter().map(|class| class.blocks).collect(),
        load: load.unwrap_or_default(),
        site: site.concat(),
    };
    (classes, error)
}

/// Which groups are kept or stand for others, those of most weight first.
fn choose(columns: &impl Columns, groups: &Groups, limit: usize) -> Vec<Class> {
    let whole = |group: u32| Class {
        stands_for_it: group,
        blocks: u64::from(groups.blocks[group as usize]),
        load: groups.load.get(group as usize).copied().unwrap_or(0.0),
    };
    let block = |group: &u32| columns.block(groups.first[*group as usize]);
    let mut order: Vec<u32> = (0..groups.len() as u32).collect();
    let kept = if groups.len() > limit {
        limit / 2
    } else {
        limit
    };
    let heavier = |a: &u32, b: &u32| {
        let by_weight = groups
            .weight(*b as usize)
            .total_cmp(&groups.weight(*a as usize));
        by_weight.then_with(|| block(a).cmp(&block(b)))
    };
    if order.len() > kept {
        order.select_nth_unstable_by(kept, heavier);
    }
    order.truncate(kept);
    order.sort_unstable_by(heavier);
    let mut is_kept = vec![false; groups.len()];
    for group in &order {
        is_kept[*group as usize] = true;
    }
    // In the order of their numbers, which mostly is that of their blocks already.
    let tail: Vec<u32> = (0..groups.len() as u32)
        .filter(|group| !is_kept[*group as usize])
        .collect();
    let mut chosen: Vec<Class> = order.into_iter().map(whole).collect();
    if !tail.is_empty() {
        let mut strata: Vec<Vec<u32>> = vec![Vec::new(); 256];
        for group in tail {
            let site = columns.site(0, groups.first[group as usize]);
            strata[usize::from(site)].push(group);
        }
        strata.retain(|stratum| !stratum.is_empty());
        let weights: Vec<f64> = strata.iter().map(|s| weight(groups, s)).collect();
        let all: f64 = weights.iter().sum();
        // Each stratum has a cell, the others go by weight.
        let cells = (limit - kept).saturating_sub(strata.len());
        for (mut stratum, weight) in strata.into_iter().zip(weights) {
            stratum.sort_unstable_by_key(block);
            let part = if all > 0.0 { weight / all } else { 0.0 };
            let cells = 1 + (cells as f64 * part) as usize;
            sample(groups, &stratum, weight, cells, &mut chosen);
        }
    }
    chosen
}

fn weight(groups: &Groups, stratum: &[u32]) -> f64 {
    stratum.iter().map(|g| groups.weight(*g as usize)).sum()
}

/// Cuts a stratum of this weight into cells.
fn sample(groups: &Groups, stratum: &[u32], whole: f64, cells: usize, chosen: &mut Vec<Class>) {
    let width = whole / cells as f64;
    let mut before = 0.0;
    let mut current = None;
    // How far the class that stands for the cell is from its middle.
    let mut nearest = f64::INFINITY;
    for group in stratum {
        let weight = groups.weight(*group as usize);
        let place = if width > 0.0 {
            (before + weight / 2.0) / width
        } else {
            0.0
        };
        before += weight;
        let cell = (place as usize).min(cells - 1);
        let off = (place - (cell as f64 + 0.5)).abs();
        if current != Some(cell) {
            current = Some(cell);
            nearest = f64::INFINITY;
            chosen.push(Class {
                stands_for_it: *group,
                blocks: 0,
                load: 0.0,
            });
        }
        let Some(class) = chosen.last_mut() else {
            continue;
        };
        if off < nearest {
            nearest = off;
            class.stands_for_it = *group;
        }
        class.blocks += u64::from(groups.blocks[*group as usize]);
        class.load += groups.load.get(*group as usize).copied().unwrap_or(0.0);
    }
}
