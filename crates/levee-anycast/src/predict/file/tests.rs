use super::*;
use crate::graph::{Builder, Relationship};
use crate::simulate::{AsSet, Tie};

const FULL: &str = r#"
origin = 64500
graph = { generate = { ases = 5000, seed = 7 } }
blocks = { file = "counts.csv", unit = "addresses", family = "ipv4" }
load = "load.csv"

[[site]]
name = "AMS"
capacity = 50000
links = [{ as = 11 }, { as = "AS12", kind = "peer" }]

[[site]]
name = "BOS"
asn = 64501
links = [{ as = 13, kind = "transit" }]

[[site]]
name = "CNF"
candidate = true
links = [{ as = 13 }]

[filters]
tie = "oldest"
tier1 = 0.5
loops_taken = [7, 8]
communities_stripped = "everyone"
path_max_edge = 12
seed = 3

[candidates]
prepend_max = 2
negative = false
withdraw = true
selective = true
poison = [21]

[communities.11]
"11:6001" = { prepend_to = { target = "everyone", times = 1 } }
"#;

fn parse(text: &str) -> Result<DeploymentFile, Problems> {
    DeploymentFile::parse("d.toml", text)
}

#[test]
fn every_key_is_read() {
    let file = parse(FULL).unwrap();
    let graph = GraphSource::Generate {
        ases: 5000,
        seed: 7,
    };
    assert_eq!(file.graph, Some(graph));
    let blocks = file.blocks.clone().unwrap();
    assert_eq!(
        (blocks.file.as_str(), blocks.unit, blocks.family),
        ("counts.csv", Unit::Addresses, Family::Ipv4)
    );
    assert_eq!(file.load.as_deref(), Some("load.csv"));
    let mut communities = CommunityTable::default();
    let target = candidates::Target::Everyone;
    let prepend = candidates::Effect::PrependTo { target, times: 1 };
    communities.insert(Asn(11), "11:6001".parse().unwrap(), prepend);
    let expect = Policies {
        communities,
        tie: Tie::Oldest,
        loops_taken: AsSet::These(vec![Asn(7), Asn(8)]),
        tier1_filter: AsSet::Share {
            share: 0.5,
            seed: 3,
        },
        path_max_edge: 12,
        communities_stripped: AsSet::Everyone,
        ..Policies::default()
    };
    assert_eq!(file.policies, expect);
    let built = file.deployment(false);
    assert_eq!((built.origin, built.sites.len()), (Asn(64500), 2));
    assert_eq!(
        built.sites[0].links[1],
        Link {
            neighbour: Asn(12),
            kind: LinkKind::Peer
        }
    );
    assert_eq!(
        (built.sites[1].asn, built.sites[1].links[0].kind),
        (Some(Asn(64501)), LinkKind::Transit)
    );
    assert_eq!(file.sites(false).next().unwrap().capacity, Some(50_000.0));
    assert!(file.has_candidates());
    assert_eq!(file.deployment(true).sites.len(), 3);

    let names: Vec<String> = file
        .routings(false)
        .unwrap()
        .into_iter()
        .map(|r| r.name)
        .collect();
    for name in ["baseline", "+2xAMS", "0xBOS"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    assert!(
        names
            .iter()
            .all(|name| !name.starts_with('-') && !name.contains("CNF")),
        "{names:?}"
    );
    assert!(
        names.iter().any(|name| name.contains("11:6001")),
        "{names:?}"
    );
    assert!(names.iter().any(|name| name.contains("21")), "{names:?}");
    let after = file.routings(true).unwrap();
    assert!(after.iter().any(|routing| routing.name == "0xCNF"));
}

#[test]
fn a_short_file_has_the_papers_filters_and_a_menu() {
    let file = parse("origin = 1\n[[site]]\nname = \"A\"\nlinks = [{ as = 2 }]\n[[site]]\nname = \"B\"\nlinks = [{ as = 2 }]\n").unwrap();
    assert_eq!(file.policies, Policies::default());
    assert_eq!(
        (
            file.graph.clone(),
            file.blocks.clone(),
            file.has_candidates()
        ),
        (None, None, false)
    );
    // The baseline, three prepends each (which of two sites is also a negative one), and two withdrawals.
    assert_eq!(file.routings(false).unwrap().len(), 9);
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_what_to_do() {
    let check = |from: &str, to: &str, expect: &[(usize, &str, &str)]| {
        assert!(FULL.contains(from), "{from}");
        let problems = parse(&FULL.replacen(from, to, 1)).unwrap_err();
        let found: Vec<(usize, &str, &str)> = problems
            .list()
            .iter()
            .map(|p| (p.place.line, p.place.key.as_str(), p.found.as_str()))
            .collect();
        assert_eq!(found, expect, "{problems}");
        assert!(
            problems.list().iter().all(|p| !p.remedy.is_empty()),
            "{problems}"
        );
    };
    check(
        "origin = 64500",
        "orign = 64500",
        &[
            (1, "", "missing field `origin`"),
            (2, "orign", "unknown field `orign`"),
        ],
    );
    check(
        "kind = \"peer\"",
        "kind = \"peers\"",
        &[(10, "site[0].links[1].kind", "unknown variant `peers`")],
    );
    check(
        "as = 11",
        "as = -11",
        &[(
            10,
            "site[0].links[0].as",
            "expected an ASN of 32 bits, such as 174 or AS174",
        )],
    );
    check(
        "as = \"AS12\"",
        "as = 11",
        &[(10, "site[0].links[1].as", "AS11 a second time")],
    );
    check(
        "links = [{ as = 13, kind = \"transit\" }]",
        "links = []",
        &[(15, "site[1].links", "no neighbour")],
    );
    check(
        "name = \"BOS\"",
        "name = \"AMS\"",
        &[(13, "site[1].name", "\"AMS\", which another site has")],
    );
    check(
        "name = \"BOS\"",
        "name = \"B,S\"",
        &[(13, "site[1].name", "\"B,S\"")],
    );
    check(
        "capacity = 50000",
        "capacity = 0",
        &[(9, "site[0].capacity", "no load")],
    );
    check(
        "ases = 5000",
        "ases = 99",
        &[(3, "graph.generate.ases", "99")],
    );
    check(
        "ases = 5000",
        "ases = 200_001",
        &[(3, "graph.generate.ases", "200001")],
    );
    check(
        "unit = \"addresses\"",
        "unit = \"hosts\"",
        &[(4, "blocks.unit", "unknown variant `hosts`")],
    );
    check(
        "tier1 = 0.5",
        "tier1 = 1.5",
        &[(24, "filters.tier1", "invalid value: floating point `1.5`")],
    );
    check(
        "tier1 = 0.5",
        "tier1 = \"all\"",
        &[(24, "filters.tier1", "invalid value: string \"all\"")],
    );
    check(
        "path_max_edge = 12",
        "path_max_edge = 0",
        &[(27, "filters.path_max_edge", "0")],
    );
    check(
        "prepend_max = 2",
        "prepend_max = 200",
        &[(31, "candidates.prepend_max", "200")],
    );
    check(
        "[communities.11]",
        "[communities.14]",
        &[(37, "communities.14", "AS14, of which no site buys transit")],
    );
    check(
        "[communities.11]",
        "[communities.12]",
        &[(37, "communities.12", "AS12, of which no site buys transit")],
    );
    let all = FULL.replace("name = \"CNF\"\ncandidate = true", "name = \"CNF\"");
    let all = all.replace("links", "candidate = true\nlinks");
    let problems = parse(&all).unwrap_err();
    assert_eq!(problems.list()[0].found, "no site that is built");
}

#[test]
fn what_the_graph_lacks_is_named_with_its_line() {
    let file = parse(FULL).unwrap();
    let mut builder = Builder::new();
    for asn in [11, 13] {
        builder.link(Asn(asn), Asn(1), Relationship::Peer).unwrap();
    }
    let problems = file.check(&builder.clone().build().unwrap()).unwrap_err();
    let found: Vec<(usize, &str)> = problems
        .list()
        .iter()
        .map(|p| (p.place.line, p.place.key.as_str()))
        .collect();
    assert_eq!(
        found,
        [(10, "site[0].links[1].as"), (35, "candidates.poison[0]")]
    );
    for asn in [12, 21] {
        builder.link(Asn(asn), Asn(1), Relationship::Peer).unwrap();
    }
    file.check(&builder.build().unwrap()).unwrap();
}

#[test]
fn a_candidate_needs_a_name_of_its_own() {
    let mut file = parse(FULL).unwrap();
    let site = |name: &str| Site {
        name: name.to_owned(),
        asn: None,
        links: vec![Link {
            neighbour: Asn(13),
            kind: LinkKind::Transit,
        }],
    };
    for name in ["AMS", "CNF", "", "a,b"] {
        assert!(file.add_candidate(site(name)).is_err(), "{name}");
    }
    file.add_candidate(site("SYD")).unwrap();
    assert_eq!(
        (
            file.deployment(true).sites.len(),
            file.deployment(false).sites.len()
        ),
        (4, 2)
    );
}
