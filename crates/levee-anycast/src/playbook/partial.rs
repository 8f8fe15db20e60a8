//! Plays whose measurement is not to be relied on.

use levee_policy::reroute::Play;

/// A play with fewer replies than this, of the median of the other plays, is partial. Our choice: of 125 runs of the authors (85 of
/// seven sites, 40 of three) the lowest whole one has 92% of the median, and the one that broke off has 57%; withdrawn sites and
/// filtered poisons cost replies too, but their blocks go to the other sites.
pub const PARTIAL_BELOW: f64 = 0.8;

/// The median of the replies of all plays but one; `None` where there is no other.
pub(super) fn median_of_others(known: &[u64], play: usize) -> Option<f64> {
    let others = known.iter().enumerate().filter(|(other, _)| *other != play);
    let mut others: Vec<u64> = others.map(|(_, known)| *known).collect();
    others.sort_unstable();
    let middle = others.len() / 2;
    match others.len() {
        0 => None,
        n if n % 2 == 1 => Some(others[middle] as f64),
        _ => Some((others[middle - 1] + others[middle]) as f64 / 2.0),
    }
}

/// Marks the plays that are partial against the others.
pub fn mark(plays: &mut [Play]) {
    let known: Vec<u64> = plays.iter().map(Play::known).collect();
    for (i, play) in plays.iter_mut().enumerate() {
        let below = |median| (known[i] as f64) < PARTIAL_BELOW * median;
        play.partial |= median_of_others(&known, i).is_some_and(below);
    }
}
