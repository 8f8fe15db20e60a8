//! What is odd about a graph's links, and who its Tier-1 ASes are.

use levee_policy::reroute::Asn;

use super::{AsGraph, LinkAt, Relationship};

/// How many findings of a kind are kept; all are counted.
pub const FINDINGS_MAX: usize = 20;

/// Two links between the same two ASes that do not agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The AS with the lower number.
    pub low: Asn,
    /// The AS with the higher number.
    pub high: Asn,
    /// The line of the link that counts, and what `low` is to `high` there. For a graph that was built: which link it was.
    pub first: (u32, Relationship),
    /// The line of the other link, and what `low` is to `high` there.
    pub second: (u32, Relationship),
}

/// What is odd about a graph's links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Links that were given again.
    pub duplicates: usize,
    /// Links between the same two ASes with another relationship; the first counts.
    pub contradictions: usize,
    /// The first [`FINDINGS_MAX`] of them.
    pub contradiction: Vec<Contradiction>,
    /// Groups of ASes in which each is, over others of the group, a provider of itself.
    pub circles: usize,
    /// The first [`FINDINGS_MAX`] of them, each with its first [`FINDINGS_MAX`] ASes.
    pub circle: Vec<Vec<Asn>>,
}

/// Leaves the first link between each two ASes. `links` is sorted.
pub(super) fn one_link_each(links: &mut Vec<LinkAt>, findings: &mut Findings) {
    links.dedup_by(|next, kept| {
        if (next.low, next.high) != (kept.low, kept.high) {
            return false;
        }
        if next.is == kept.is {
            findings.duplicates += 1;
            return true;
        }
        findings.contradictions += 1;
        if findings.contradiction.len() < FINDINGS_MAX {
            findings.contradiction.push(Contradiction {
                low: kept.low,
                high: kept.high,
                first: (kept.at, kept.is),
                second: (next.at, next.is),
            });
        }
        true
    });
}

/// A clique of ASes that buy from nobody: those with most customers and peers first, each that peers with all taken so far.
pub(super) fn infer_tier1(graph: &AsGraph) -> Vec<u32> {
    let all = 0..u32::try_from(graph.len()).unwrap_or(u32::MAX);
    let mut top: Vec<u32> = all
        .filter(|&index| graph.providers(index).is_empty() && !graph.customers(index).is_empty())
        .collect();
    let degree = |index: u32| graph.customers(index).len() + graph.peers(index).len();
    top.sort_by_key(|&index| (core::cmp::Reverse(degree(index)), index));
    let mut clique: Vec<u32> = Vec::new();
    for index in top {
        let peers = graph.peers(index);
        if clique
            .iter()
            .all(|other| peers.binary_search(other).is_ok())
        {
            clique.push(index);
        }
    }
    clique
}

/// Finds the strongly connected components of the links from customer to provider (Tarjan 1972, without recursion).
pub(super) fn find_circles(graph: &mut AsGraph) {
    const UNSEEN: u32 = u32::MAX;
    let count = graph.len();
    // The order in which an AS was met, and the earliest that it reaches on the path.
    let (mut met, mut low) = (vec![UNSEEN; count], vec![0_u32; count]);
    let mut on_path = vec![false; count];
    let (mut path, mut calls) = (Vec::new(), Vec::new());
    let mut next = 0;
    let mut circles: Vec<Vec<u32>> = Vec::new();
    for root in 0..u32::try_from(count).unwrap_or(u32::MAX) {
        if met[root as usize] != UNSEEN {
            continue;
        }
        calls.push((root, 0));
        while let Some((at, done)) = calls.pop() {
            let here = at as usize;
            if done == 0 {
                (met[here], low[here], on_path[here]) = (next, next, true);
                next += 1;
                path.push(at);
            } else {
                let before = graph.providers(at)[done - 1] as usize;
                low[here] = low[here].min(low[before]);
            }
            let mut deeper = false;
            for (place, &provider) in graph.providers(at).iter().enumerate().skip(done) {
                if met[provider as usize] == UNSEEN {
                    calls.extend([(at, place + 1), (provider, 0)]);
                    deeper = true;
                    break;
                }
                if on_path[provider as usize] {
                    low[here] = low[here].min(met[provider as usize]);
                }
            }
            if !deeper && low[here] == met[here] {
                let start = path.iter().rposition(|other| *other == at).unwrap_or(0);
                let component: Vec<u32> = path.drain(start..).collect();
                for member in &component {
                    on_path[*member as usize] = false;
                }
                if component.len() > 1 {
                    circles.push(component);
                }
            }
        }
    }
    for circle in &mut circles {
        circle.sort_unstable();
    }
    circles.sort_unstable();
    graph.findings.circles = circles.len();
    let names = |circle: &Vec<u32>| {
        let first = circle.iter().take(FINDINGS_MAX);
        first.map(|index| graph.asns[*index as usize]).collect()
    };
    graph.findings.circle = circles.iter().take(FINDINGS_MAX).map(names).collect();
}
