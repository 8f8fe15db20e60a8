//! Small files and graphs, and CAIDA's where it lies.

use std::{fs::File, io::Write, path::PathBuf};

use levee_policy::reroute::Asn;

use super::{AsGraph, Builder, Contradiction, Relationship};

/// The real graph, or `None` with the reason.
pub(crate) fn caida() -> Option<AsGraph> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/as-rel-2015-02-01.txt.gz");
    let Ok(file) = File::open(&path) else {
        eprintln!("skipped: CAIDA's file may not be passed on, and is not here");
        return None;
    };
    Some(AsGraph::read("as-rel-2015-02-01.txt.gz", file).unwrap())
}

const SMALL: &str = "# source:topology|BGP|20150201|ripe|rrc00\n# inferred clique: 10 20\n\
    10|20|0\n10|30|-1\n20|40|-1\n30|40|0\n40|7|-1\n";

fn numbers(graph: &AsGraph, indexes: &[u32]) -> Vec<u32> {
    indexes.iter().map(|index| graph.asn(*index).0).collect()
}

#[test]
fn a_small_file_in_every_form() {
    let gz = |text: &str| {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().unwrap()
    };
    let bz2 = |text: &str| {
        let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().unwrap()
    };
    let serial2 = SMALL
        .replace("|0\n", "|0|mlp\n")
        .replace("|-1\n", "|-1|bgp\n");
    let forms = [
        SMALL.as_bytes().to_vec(),
        SMALL.trim_end().as_bytes().to_vec(),
        SMALL.replace('\n', "\r\n").into_bytes(),
        serial2.as_bytes().to_vec(),
        gz(SMALL),
        [gz(&SMALL[..60]), gz(&SMALL[60..])].concat(),
        bz2(&serial2),
    ];
    for form in forms {
        let graph = AsGraph::read("small", form.as_slice()).unwrap();
        let asns: Vec<u32> = graph.asns().iter().map(|asn| asn.0).collect();
        assert_eq!(asns, [7, 10, 20, 30, 40]);
        let forty = graph.find(Asn(40)).unwrap();
        assert_eq!(numbers(&graph, graph.providers(forty)), [20]);
        assert_eq!(numbers(&graph, graph.peers(forty)), [30]);
        assert_eq!(numbers(&graph, graph.customers(forty)), [7]);
        assert_eq!(numbers(&graph, graph.tier1()), [10, 20]);
        assert_eq!((graph.transit_links(), graph.peer_links()), (3, 2));
        assert_eq!(graph.find(Asn(8)), None);
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let check = |text: &[u8], expect: &str| {
        let error = AsGraph::read("f", text).unwrap_err();
        let source = std::error::Error::source(&error);
        let said = source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        assert!(said.starts_with(expect), "{said}\nexpected {expect}");
    };
    check(b"", "f: no link");
    check(b"# nothing\n\n", "f: no link");
    check(b"1|2|-1\n1|2\n", "f:2: the third field is ``; expected -1");
    check(b"1|2|1\n", "f:1: the third field is `1`");
    check(b"1|2|-1 \n1 |2|0", "f:2: the first field is `1 `");
    check(b"+1|2|0", "f:1: the first field is `+1`");
    check(b"1|x|0", "f:1: the second field is `x`");
    check(b"1|4294967296|0", "f:1: the second field is `4294967296`");
    check(b"1|\x1b[2J|0", "f:1: the second field is `\\x1b[2J`");
    check(b"5|5|0", "f:1: AS5 has a link to itself");
    check(b"0|5|0", "f:1: AS0");
    check(
        b"provider,customer\n",
        "f:1: the first field is `provider,customer`",
    );
    check(
        &[b'9'; 100],
        "f:1: the first field is `9999999999999999999999999999999999999999...`",
    );
    check(&[b'#'; super::LINE_MAX + 1], "f:1: a line longer than");
    check(&[0x1f, 0x8b, 8, 0, 0], "f: cannot be read after line 0: ");
    check(b"BZh91AY&SYxxxx", "f: cannot be read after line 0: ");
    AsGraph::read(
        "f",
        [vec![b'#'; super::LINE_MAX - 1], b"\n1|2|0".to_vec()]
            .concat()
            .as_slice(),
    )
    .unwrap();
}

#[test]
fn a_packed_bomb_ends() {
    // 100 MB of empty lines in 100 kB: read on without memory, and then there is no link.
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let lines = vec![b'\n'; 1 << 20];
    for _ in 0..16 {
        writer.write_all(&lines).unwrap();
    }
    let error = AsGraph::read("bomb", writer.finish().unwrap().as_slice()).unwrap_err();
    assert_eq!(error.to_string(), "bomb");
}

#[test]
fn duplicates_contradictions_and_circles_are_reported() {
    let text = "1|2|-1\n2|1|0\n1|2|-1\n2|3|-1\n3|1|-1\n3|4|-1\n5|4|0\n4|5|0\n6|7|-1\n7|6|-1\n";
    let graph = AsGraph::read("odd", text.as_bytes()).unwrap();
    let findings = graph.findings();
    assert_eq!((findings.duplicates, findings.contradictions), (2, 2));
    let first = Contradiction {
        low: Asn(1),
        high: Asn(2),
        first: (1, Relationship::Provider),
        second: (2, Relationship::Peer),
    };
    assert_eq!(findings.contradiction[0], first);
    assert_eq!(findings.circles, 1);
    assert_eq!(findings.circle, [vec![Asn(1), Asn(2), Asn(3)]]);
}

#[test]
fn circles_are_the_groups_whose_members_reach_each_other() {
    // Random links both ways; the naive closure is the oracle.
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    for _ in 0..200 {
        let ases = 3 + draw(9) as usize;
        let mut reach = vec![vec![false; ases]; ases];
        let mut builder = Builder::new();
        let mut linked = vec![vec![false; ases]; ases];
        for _ in 0..draw(20) + 1 {
            let (a, b) = (draw(ases as u64) as usize, draw(ases as u64) as usize);
            if a != b && !linked[a][b] {
                (linked[a][b], linked[b][a], reach[a][b]) = (true, true, true);
                let (a, b) = (Asn(a as u32 + 1), Asn(b as u32 + 1));
                builder.link(a, b, Relationship::Customer).unwrap();
            }
        }
        let Ok(graph) = builder.build() else { continue };
        for via in 0..ases {
            for a in 0..ases {
                for b in 0..ases {
                    reach[a][b] |= reach[a][via] && reach[via][b];
                }
            }
        }
        let mut expect: Vec<Vec<Asn>> = Vec::new();
        for a in (0..ases).filter(|a| reach[*a][*a]) {
            let group = (0..ases).filter(|b| reach[a][*b] && reach[*b][a]);
            let group: Vec<Asn> = group.map(|b| Asn(b as u32 + 1)).collect();
            if !expect.contains(&group) {
                expect.push(group);
            }
        }
        assert_eq!(graph.findings().circle, expect);
    }
}

#[test]
fn the_tier_1_ases_of_the_real_graph_are_inferred_as_its_header_says() {
    let Some(graph) = caida() else { return };
    assert_eq!(
        (graph.len(), graph.transit_links(), graph.peer_links()),
        (49_755, 97_864, 91_973)
    );
    assert_eq!(graph.tier1().len(), 17);
    assert_eq!(
        graph.findings().duplicates + graph.findings().contradictions,
        0
    );
    let mut inferred = super::check::infer_tier1(&graph);
    inferred.sort_unstable();
    assert_eq!(numbers(&graph, &inferred), numbers(&graph, graph.tier1()));
}
