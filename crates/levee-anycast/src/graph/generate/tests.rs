use super::*;

#[test]
fn the_same_seed_gives_the_same_graph_and_another_another() {
    let graph = Generated::new(1000, 1);
    assert_eq!(graph, Generated::new(1000, 1));
    assert_ne!(graph, Generated::new(1000, 2));
}

#[test]
fn every_as_is_what_its_number_says() {
    for (ases, seed) in [(ASES_MIN, 1), (101, 7), (1000, 1), (3000, 2)] {
        let generated = Generated::new(ases, seed);
        let graph = generated.graph();
        assert_eq!((graph.len(), generated.len()), (ases, ases));
        assert_eq!(graph.transit_links(), generated.providers.len());
        assert_eq!(graph.peer_links(), generated.peers.len());
        let findings = graph.findings();
        assert_eq!(
            (
                findings.duplicates,
                findings.contradictions,
                findings.circles
            ),
            (0, 0, 0)
        );
        for index in 0..ases as u32 {
            let clique = (index as usize) < generated.clique;
            let transit = (index as usize) < generated.transit;
            assert_eq!(graph.providers(index).is_empty(), clique, "AS{}", index + 1);
            assert_eq!(
                graph.customers(index).is_empty(),
                !transit,
                "AS{}",
                index + 1
            );
            if clique {
                let others = graph.peers(index).iter();
                let in_clique = others.filter(|peer| (**peer as usize) < generated.clique);
                assert_eq!(in_clique.count(), generated.clique - 1);
            }
        }
    }
    for (asked, made) in [(0, ASES_MIN), (ASES_MIN - 1, ASES_MIN)] {
        assert_eq!(Generated::new(asked, 1).len(), made);
    }
}

#[test]
fn large_transit_comes_first_in_its_region() {
    let generated = Generated::new(3000, 1);
    let graph = generated.graph();
    let mut all = 0;
    for region in &REGIONS {
        let found = generated.transit_of(region.name);
        all += found.len();
        assert!(found.is_sorted_by_key(|(_, n)| std::cmp::Reverse(*n)));
        for (asn, customers) in found {
            assert_eq!(generated.region(asn), Some(region));
            assert_eq!(graph.customers(asn.0 - 1).len(), customers);
        }
    }
    assert_eq!(all, generated.transit - generated.clique);
    assert!(generated.transit_of("atlantis").is_empty());
    assert_eq!(generated.region(Asn(0)), None);
    assert_eq!(generated.region(Asn(3001)), None);
}

#[test]
fn blocks_are_laid_out_as_counted() {
    let generated = Generated::new(2000, 3);
    let blocks = generated.laid_out();
    for (asn, count) in (1..).map(Asn).zip(&generated.blocks) {
        assert_eq!(blocks.count(asn), u64::from(*count));
    }
    assert!(blocks.runs().is_some());
}

#[test]
fn a_figure_between_two_measured_ones_is_between_them() {
    let measured = [(0.001, 1000.0), (0.1, 10.0), (0.5, 1.0)];
    let check = |share, expect: f64| {
        let figure = at_share(&measured, share);
        assert!((figure - expect).abs() < 1e-9, "{share}: {figure}");
    };
    for (share, expect) in [
        (1e-9, 1000.0),
        (0.001, 1000.0),
        (0.01, 100.0),
        (0.1, 10.0),
        (0.5, 1.0),
        (0.51, 0.0),
    ] {
        check(share, expect);
    }
}

const PINNED: [u64; 2] = [10724958488547732402, 322657107695758892];

/// What a seed gives is part of every scenario that names it.
#[test]
fn a_graph_is_the_same_on_every_machine_and_in_every_version() {
    let digest = |ases, seed| {
        let generated = Generated::new(ases, seed);
        let ends = generated.providers.iter().chain(&generated.peers);
        let numbers = ends
            .flat_map(|(a, b)| [a.0, b.0])
            .chain(generated.blocks.iter().copied());
        // FNV-1a.
        numbers.fold(0xcbf2_9ce4_8422_2325_u64, |hash, n| {
            (hash ^ u64::from(n)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    assert_eq!([digest(1000, 1), digest(5000, 1)], PINNED);
}
