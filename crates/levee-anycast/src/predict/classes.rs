//! ASes that go together in every play.

use levee_policy::reroute::{Asn, Classes};

use super::Member;

/// ASes with the same sites in all plays, those of most blocks first, and the class of each. `sites` has a list for each play.
pub(super) fn classes(
    ases: &[Member],
    sites: &[Vec<u8>],
    loaded: bool,
) -> (Classes, Vec<(Asn, u32)>) {
    let plays = sites.len();
    let mut rows = vec![0; ases.len() * plays];
    for (play, sites) in sites.iter().enumerate() {
        for (member, site) in sites.iter().enumerate() {
            rows[member * plays + play] = *site;
        }
    }
    let row = |member: usize| &rows[member * plays..(member + 1) * plays];
    let mut order: Vec<usize> = (0..ases.len()).collect();
    order.sort_by(|a, b| row(*a).cmp(row(*b)));
    let blocks = |class: &[usize]| class.iter().map(|m| ases[*m].blocks).sum::<u64>();
    let mut grouped: Vec<(u64, &[usize])> = order
        .chunk_by(|a, b| row(*a) == row(*b))
        .map(|class| (blocks(class), class))
        .collect();
    grouped.sort_by_key(|(blocks, _)| std::cmp::Reverse(*blocks));
    let mut classes = Classes {
        blocks: grouped.iter().map(|(blocks, _)| *blocks).collect(),
        load: Vec::new(),
        site: Vec::with_capacity(grouped.len() * plays),
    };
    if loaded {
        let load = |class: &[usize]| class.iter().map(|m| ases[*m].load).sum();
        classes.load = grouped.iter().map(|(_, class)| load(class)).collect();
    }
    for sites in sites {
        let first = grouped.iter().map(|(_, class)| sites[class[0]]);
        classes.site.extend(first);
    }
    let mut members: Vec<(Asn, u32)> = Vec::with_capacity(ases.len());
    for (class, (_, of)) in (0..).zip(&grouped) {
        members.extend(of.iter().map(|member| (ases[*member].asn, class)));
    }
    members.sort_unstable();
    (classes, members)
}
