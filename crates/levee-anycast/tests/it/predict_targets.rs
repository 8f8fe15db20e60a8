//! What the fuzzer calls, and what the replay of its corpus calls: each takes any bytes, and asserts what must hold for all.

use levee_anycast::blocks::{Blocks, Family, Unit};
use levee_anycast::graph::generate::Generated;
use levee_anycast::predict::{DeploymentFile, GraphSource, Loads};
use levee_anycast::simulate::Internet;

/// A prefix-to-AS file, counts or a routing table. `prefixes` and `mrt` have their own corpora.
pub(crate) fn blocks(bytes: &[u8]) {
    for (family, unit) in [
        (Family::Ipv4, Unit::Blocks),
        (Family::Ipv6, Unit::Addresses),
    ] {
        let reading = match Blocks::read("f", bytes, family, unit) {
            Ok(reading) => reading,
            Err(error) => {
                let text = error.to_string();
                assert!(text.starts_with("f:") && text.len() < 500, "{text}");
                continue;
            }
        };
        let blocks = &reading.blocks;
        assert!(blocks.counts().is_sorted_by(|a, b| a.0 < b.0));
        assert!(blocks.counts().iter().all(|(_, count)| *count > 0));
        let Some(runs) = blocks.runs() else { continue };
        let bits = family.block_length();
        let mut end = 0;
        for run in runs {
            assert!(run.first >= end && run.len > 0 && run.asn.0 > 0, "{run:?}");
            end = run.first + run.len;
        }
        assert!(end <= 1 << bits, "{end}");
        let sum: u64 = runs.iter().map(|run| run.len).sum();
        assert_eq!(sum, blocks.total());
        let left = reading.longer + reading.shorter + reading.other_family;
        assert!(left + reading.without_origin <= reading.prefixes);
    }
    Loads::read("f", bytes).ok();
}

/// A deployment file. What is read can be simulated, or is refused with a place.
pub(crate) fn deployment(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let file = match DeploymentFile::parse("d.toml", text) {
        Ok(file) => file,
        Err(problems) => {
            assert!(!problems.list().is_empty());
            for problem in problems.list() {
                assert_eq!(problem.place.file, "d.toml");
                assert!(!problem.remedy.is_empty(), "{problem}");
            }
            return;
        }
    };
    let seed = match file.graph {
        Some(GraphSource::Generate { seed, .. }) => seed,
        _ => 1,
    };
    let graph = Generated::new(100, seed).graph();
    if file.check(&graph).is_err() {
        return;
    }
    let deployment = file.deployment(true);
    let Ok(internet) = Internet::new(&graph, &deployment, &file.policies) else {
        return;
    };
    let routings = file.routings(true).expect("checked as it was read");
    for routing in routings.iter().take(20) {
        internet
            .catchments(routing)
            .expect("of its own sites and neighbours");
    }
}
