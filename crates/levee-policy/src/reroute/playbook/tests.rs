use std::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use proptest::{prelude::*, test_runner::RngSeed};

use super::*;

/// With everything that the format has.
const FULL: &str = r#"{
  "command": "simulate",
  "sites": ["AMS", "BOS"],
  "configurations": [
    {"name": "baseline", "share": {"AMS": 0.6, "BOS": 0.4}, "count": {"AMS": 60, "BOS": 30}, "blocks": 90, "unknown": 10,
     "partial": false, "load": {"AMS": 6, "BOS": 4}, "announcements": {"AMS": {}, "BOS": {}}, "note": "no one reads this"},
    {"name": "odd", "share": {"AMS": 1.0, "BOS": 0.0}, "count": {"AMS": 90}, "blocks": 90, "unknown": 10, "partial": true,
     "ineffective": true, "announcements": {"BOS": {"everyone": null}}},
    {"name": "group", "count": {"BOS": 90}, "announcements": null}
  ],
  "classes": {"blocks": [50, 10, 30, 5, 5], "load": [4, 2, 4, 0, 0],
              "site": [[[0, 2], 1, null, null], [[0, 3], [null, 2]], [[1, 3], null, null]]}
}"#;

fn read(text: &str) -> Result<Playbook, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[test]
fn a_playbook_reads_from_json() {
    let playbook = read(FULL).unwrap();
    assert_eq!(playbook.plays().len(), 3);
    let [baseline, odd, group] = playbook.plays() else {
        unreachable!()
    };
    assert_eq!(baseline.blocks, [60, 30]);
    assert_eq!(baseline.load, Some(vec![6.0, 4.0]));
    assert_eq!(baseline.share(SiteId(0)), 0.6, "of the load");
    assert_eq!(baseline.routing.changes(&Routing::baseline(2)), Some(0));
    assert!(odd.partial && odd.ineffective && !baseline.partial && !baseline.ineffective);
    let withdrawn = Routing::parse("0xBOS", playbook.sites()).unwrap();
    assert_eq!(odd.routing.announcements, withdrawn.announcements);
    assert_eq!(
        (group.routing.announcements.as_ref(), group.unknown),
        (None, 0)
    );
    let classes = playbook.classes().unwrap();
    let sites = |play| -> Vec<Option<u8>> {
        (0..5)
            .map(|class| classes.site(play, class).map(|s| s.0))
            .collect()
    };
    assert_eq!(sites(0), [Some(0), Some(0), Some(1), None, None]);
    assert_eq!(sites(1), [Some(0), Some(0), Some(0), None, None]);
    assert_eq!(sites(2), [Some(1), Some(1), Some(1), None, None]);
}

#[test]
fn shares_and_names_alone_will_do() {
    let text = r#"{"sites": ["AMS", "BOS", "CNF"], "configurations": [
        {"name": "baseline", "share": {"AMS": 0.65, "BOS": 0.14, "CNF": 0.21}, "blocks": 1000, "unknown": 0, "partial": false},
        {"name": "+1xAMS", "share": {"AMS": 0.33, "BOS": 0.33, "CNF": 0.33}, "blocks": 999},
        {"name": "vultr", "share": {"AMS": 1}, "blocks": 10}]}"#;
    let playbook = read(text).unwrap();
    let blocks: Vec<&[u64]> = playbook
        .plays()
        .iter()
        .map(|play| play.blocks.as_slice())
        .collect();
    assert_eq!(blocks, [[650, 140, 210], [333, 333, 333], [10, 0, 0]]);
    let changes = |play: usize| {
        playbook.plays()[play]
            .routing
            .changes(&playbook.plays()[0].routing)
    };
    assert_eq!(
        [changes(0), changes(1), changes(2)],
        [Some(0), Some(1), None]
    );
}

#[test]
fn what_is_no_playbook_is_refused() {
    let with = |from: &str, to: &str| FULL.replacen(from, to, 1);
    for (text, says) in [
        (String::new(), "EOF"),
        (String::from("[]"), "invalid"),
        (
            with(r#""sites": ["AMS", "BOS"],"#, ""),
            "missing field `sites`",
        ),
        (with(r#"["AMS", "BOS"]"#, r#"["AMS", "AMS"]"#), "twice"),
        (with(r#"["AMS", "BOS"]"#, "[]"), "1 to 250 names"),
        (
            with(r#""name": "odd""#, r#""name": "baseline""#),
            "`configurations[1] (baseline)` is baseline, expected names that differ",
        ),
        (
            with(r#"{"BOS": 90}"#, r#"{"LAX": 90}"#),
            "`configurations[2] (group)`: there is no site \"LAX\", expected one of AMS, BOS",
        ),
        (with(r#""AMS": 60"#, r#""AMS": -60"#), "invalid value"),
        (
            with(r#""AMS": 60"#, r#""AMS": 281474976710657"#),
            "another shape",
        ),
        (with(r#""AMS": 6,"#, r#""AMS": -6,"#), "another shape"),
        (with(r#""AMS": 6,"#, r#""AMS": 1e19,"#), "another shape"),
        (
            with(r#""count": {"BOS": 90}"#, r#""blocks": 90"#),
            "needs `count`",
        ),
        (
            with(r#""count": {"AMS": 60, "BOS": 30}, "#, ""),
            "needs `count`",
        ),
        (
            with(r#""count": {"AMS": 90}"#, r#""share": {"AMS": 0.5}"#),
            "duplicate field `share`",
        ),
        (
            with(r#""everyone""#, r#""everybody""#),
            "unknown field `everybody`",
        ),
        (
            with("[50, 10,", "[50, 10, 7,"),
            "list 0 of `site` is of 5 classes, expected 6",
        ),
        (
            with("[1, 3], null, null]", "[1, 3], null]"),
            "list 2 of `site` is of 4 classes, expected 5",
        ),
        (
            with(", [[1, 3], null, null]", ""),
            "`site` has 2 lists, expected one for each of the 3",
        ),
        (
            with("[[1, 3], null", "[[7, 3], null"),
            "`classes` is of another shape",
        ),
        (
            with("[[1, 3], null", "[[255, 3], null"),
            "integer `255`, expected the number of a site",
        ),
        (
            with("[[1, 3], null", "[255, 1, 1, null"),
            "integer `255`, expected the number of a site",
        ),
        (
            with("[[1, 3], null", "[[1, 3, 5], null"),
            "invalid length 3",
        ),
        (with("[[1, 3], null", "[[1], null"), "invalid length 1"),
        (
            with("[[1, 3], null", "[[1, 18446744073709551615], null"),
            "18446744073709551615 classes",
        ),
        (with("[4, 2, 4, 0, 0]", "[4, 2]"), "another shape"),
        (
            with(r#""load": [4"#, r#""loads": [4"#),
            "unknown field `loads`",
        ),
    ] {
        let error = read(&text).map(|_| ()).unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
    }
    let share = r#"{"sites": ["A", "B"], "configurations": [{"name": "baseline", "share": {"A": 0.5, "B": 0.4}, "blocks": 9}]}"#;
    let error = read(share).map(|_| ()).unwrap_err();
    assert!(
        error.contains("the shares are 0.9 together, expected 1"),
        "{error}"
    );
}

#[test]
fn a_few_digits_cannot_ask_for_memory_without_bound() {
    // Each configuration claims four thousand million classes in one run, and the blocks agree on none of it.
    let run = format!("[[0, {}]]", u32::MAX);
    let rows = vec![run; 3].join(",");
    let start = FULL.find(r#""site": [[["#).unwrap();
    let error = read(&format!("{}\"site\": [{rows}]}}}}", &FULL[..start]))
        .map(|_| ())
        .unwrap_err();
    assert!(error.contains("4294967295 classes, expected 5"), "{error}");
}

fn playbooks() -> impl Strategy<Value = Playbook> {
    let shape = (
        1usize..4,
        1usize..5,
        proptest::option::of(0usize..20),
        any::<bool>(),
    );
    shape.prop_flat_map(|(sites, plays, classes, loads)| {
        let vec = proptest::collection::vec::<std::ops::Range<u64>>;
        let load = proptest::collection::vec(0.0..1e9, sites);
        let play = (
            vec(0..1000, sites),
            0..1000u64,
            proptest::option::of(load),
            any::<(bool, bool, bool)>(),
        );
        let n = classes.unwrap_or(0);
        let site = prop_oneof![Just(Classes::NOWHERE), 0..u8::try_from(sites).unwrap()];
        let site = proptest::collection::vec((site, 1usize..6), n * plays);
        let of_class = (
            vec(0..1000, n),
            proptest::collection::vec(0.0..1e9, if loads { n } else { 0 }),
            site,
        );
        (proptest::collection::vec(play, plays), of_class).prop_map(
            move |(plays, (blocks, load, site))| {
                let names = Sites::new((0..sites).map(|i| format!("S{i}"))).unwrap();
                let plays = plays.into_iter().enumerate().map(
                    |(i, (blocks, unknown, load, (known, partial, ineffective)))| {
                        let mut routing = Routing::baseline(sites);
                        if i > 0 {
                            routing.name = format!("+{i}xS0");
                        }
                        routing.announcements = routing.announcements.filter(|_| known);
                        Play {
                            routing,
                            blocks,
                            unknown,
                            load,
                            partial,
                            ineffective,
                        }
                    },
                );
                let plays: Vec<Play> = plays.collect();
                let cells = n * plays.len();
                let site = site
                    .into_iter()
                    .flat_map(|(site, times)| std::iter::repeat_n(site, times));
                let classes = classes.map(|_| Classes {
                    blocks,
                    load,
                    site: site.take(cells).collect(),
                });
                Playbook::new(names, plays, classes).unwrap()
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(3), ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_reads_back(playbook in playbooks()) {
        let text = serde_json::to_string(&playbook).unwrap();
        prop_assert_eq!(&read(&text).unwrap(), &playbook);
        prop_assert_eq!(serde_json::to_string(&read(&text).unwrap()).unwrap(), text);
    }
}
