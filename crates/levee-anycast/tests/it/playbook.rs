//! The authors' data. It may not be copied here, so where it is not, these tests have nothing to do; the tests beside the code use
//! small data of the same form.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

#[path = "playbook_targets.rs"]
mod targets;

use std::path::PathBuf;

use levee_anycast::playbook::judge::{Control, Verdict, judge};
use levee_anycast::playbook::routing::RoutingFile;
use levee_anycast::playbook::stats::Stats;
use levee_anycast::playbook::{Options, Read, Tables, Unit, fsdb, read, table, tables};
use levee_policy::reroute::Playbook;

fn data(path: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(path);
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

fn open(paths: &[&str]) -> Option<Read> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| data(path)).collect::<Option<_>>()?;
    Some(read(&paths, Options::default()).unwrap())
}

const SEVEN: &str = "anygility/prepend+withdraw-dataframe.csv";

fn site(playbook: &Playbook, name: &str) -> usize {
    playbook.sites().find(name).unwrap().index()
}

/// The share in whole percents.
fn share(playbook: &Playbook, tables: &Tables, play: &str, name: &str) -> u64 {
    let play = playbook.find(play).unwrap();
    (tables.share[play][site(playbook, name)] * 100.0).round() as u64
}

#[test]
fn the_85_configurations_give_tables_5_and_6() {
    let Some(Read { playbook, .. }) = open(&[SEVEN]) else {
        return;
    };
    assert_eq!((playbook.plays().len(), playbook.sites().len()), (85, 7));
    let tables = Tables::of(&playbook);
    assert_eq!(tables.unit, Unit::Blocks);
    for (play, name, percent) in [
        ("baseline", "CDG", 7),
        ("baseline", "IAD", 15),
        ("baseline", "LHR", 23),
        ("baseline", "MIA", 16),
        ("baseline", "POA", 21),
        ("baseline", "SYD", 17),
        ("baseline", "HND", 0),
        ("1xLHR", "LHR", 8),
        ("3xLHR", "LHR", 2),
        ("-1xCDG", "CDG", 46),
        ("-3xCDG", "CDG", 55),
        ("-5xCDG", "CDG", 57),
        ("-2xIAD", "IAD", 83),
        ("-5xIAD", "IAD", 88),
        ("-3xSYD", "SYD", 59),
        ("-5xSYD", "SYD", 59),
    ] {
        assert_eq!(
            share(&playbook, &tables, play, name),
            percent,
            "{play} {name}"
        );
    }
    let name = |play: usize| playbook.plays()[play].routing.name.as_str();
    let permille = |share: f64| (share * 1000.0).round() as u64;
    // Counted by another program: floor and ceiling in thousandths, options, configurations in each bin. The two rows of the
    // authors that sum two measurements count as any other.
    for (site_name, floor, ceiling, options, bins) in [
        (
            "CDG",
            ("3xCDG", 6),
            ("-5xCDG", 571),
            4,
            [66, 14, 0, 0, 1, 4, 0, 0, 0, 0],
        ),
        (
            "HND",
            ("-1xMIA", 0),
            ("0xIAD", 0),
            1,
            [85, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            "IAD",
            ("-5xLHR", 137),
            ("-5xIAD", 881),
            5,
            [1, 65, 14, 0, 1, 0, 0, 0, 4, 0],
        ),
        (
            "LHR",
            ("-4xPOA", 0),
            ("-2xLHR", 646),
            6,
            [24, 10, 42, 4, 0, 1, 4, 0, 0, 0],
        ),
        (
            "MIA",
            ("3xampath-nodes", 23),
            ("-5xMIA", 644),
            6,
            [32, 35, 10, 0, 3, 1, 4, 0, 0, 0],
        ),
        (
            "POA",
            ("-4xLHR", 3),
            ("-5xPOA", 618),
            6,
            [18, 23, 39, 0, 1, 2, 2, 0, 0, 0],
        ),
        (
            "SYD",
            ("-5xMIA", 12),
            ("-5xSYD", 594),
            5,
            [38, 32, 10, 0, 1, 4, 0, 0, 0, 0],
        ),
    ] {
        let i = site(&playbook, site_name);
        let reach = &tables.reach[i];
        let extreme = |extreme: tables::Extreme| (name(extreme.play), permille(extreme.share));
        assert_eq!(extreme(reach.floor), floor, "{site_name}");
        assert_eq!(extreme(reach.ceiling), ceiling, "{site_name}");
        assert_eq!(tables.bins[i].each_ref().map(Vec::len), bins, "{site_name}");
        assert_eq!(reach.options, options, "{site_name}");
        let empty: Vec<usize> = (0..10).filter(|bin| bins[*bin] == 0).collect();
        assert_eq!(reach.empty, empty, "{site_name}");
    }
    assert!(playbook.plays().iter().all(|play| !play.partial));
    assert_eq!(tables.stuck, None);
}

#[test]
fn their_csv_is_written_as_it_was() {
    let (Some(path), Some(Read { playbook, .. })) = (data(SEVEN), open(&[SEVEN])) else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(table::write(&playbook).unwrap(), text);
    let list = fsdb::write(&playbook, &[50_000.0; 7]).unwrap();
    let again = fsdb::parse(&list).unwrap();
    assert_eq!(again.rows.plays.len(), 85);
    for play in &again.rows.plays {
        assert_eq!(play.known(), 100, "{}", play.routing.name);
    }
}

/// What a reader of their two tables sees: poisons of small networks do what the prepend does, those of the largest are filtered.
#[test]
fn their_poisons_are_judged() {
    use Verdict::{Effective, Filtered, Ineffective, Untested};
    let largest = [
        "174", "701", "1239", "1299", "2914", "3257", "3320", "3356", "5511", "6453", "6762",
        "6939", "7018",
    ];
    let small = ["12953", "16735", "1916", "262589", "63221", "1251"];
    for (file, control, of_others) in [
        (
            "anygility/poison-baseline.csv",
            Control::Prepend,
            // 2 of 5 percent are left under 1273 and 24115. 1 under 6461 is too near to none. No control is as long as two ASes.
            [
                ("1273", Effective),
                ("24115", Effective),
                ("6461", Filtered),
                ("63221_24115", Untested),
            ],
        ),
        (
            "anygility/poison-method.csv",
            Control::Baseline,
            // 3, 11, 3 and 2 of 21 percent.
            [
                ("1273", Effective),
                ("24115", Effective),
                ("6461", Effective),
                ("63221_24115", Filtered),
            ],
        ),
    ] {
        let Some(Read { playbook, .. }) = open(&[file]) else {
            return;
        };
        let judged = judge(&playbook, control);
        assert_eq!(judged.len(), 23, "{file}");
        let of = |poison: &str| {
            let name = format!("1149_{poison}_1149");
            let one = judged.iter().find(|j| j.configuration == name).unwrap();
            assert_eq!(one.site, "mia");
            one.verdict
        };
        for poison in small {
            assert_eq!(of(poison), Ineffective, "{file}: {poison}");
        }
        for poison in largest {
            assert_eq!(of(poison), Filtered, "{file}: {poison}");
        }
        for (poison, verdict) in of_others {
            assert_eq!(of(poison), verdict, "{file}: {poison}");
        }
    }
}

/// The raw runs of 2022 have announcements and counts.
#[test]
fn their_raw_poisons_become_a_playbook_and_are_judged() {
    let Some(Read { playbook, .. }) = open(&["tangled-2022-03/poison"]) else {
        return;
    };
    assert_eq!(playbook.plays().len(), 26);
    assert_eq!(playbook.plays()[0].routing.name, "poison-baseline");
    let names: Vec<&str> = playbook.sites().names().collect();
    assert_eq!(
        names,
        ["br-poa-anycast02", "nl-ams-anycast01", "us-mia-anycast01"]
    );
    assert!(playbook.plays().iter().all(|play| !play.partial));
    let judged = judge(&playbook, Control::Prepend);
    assert_eq!(judged.len(), 23);
    for one in &judged {
        assert_eq!(one.site, "us-mia-anycast01");
        assert_eq!(one.control.as_deref(), Some("poison-2xMIA"));
        let small = ["1251", "12953", "16735", "1916", "262589", "63221"];
        let poison: Vec<String> = one.poison.iter().map(ToString::to_string).collect();
        // The prepend keeps 49 of 8,800; the small ones 48 or 49, the others 2 or none.
        let expect = match poison.as_slice() {
            [asn] if small.contains(&asn.as_str()) => Verdict::Ineffective,
            [_] => Verdict::Filtered,
            _ => Verdict::Untested,
        };
        assert_eq!(one.verdict, expect, "{one:?}");
    }
}

/// What is computed from the raw replies is what the authors' tools counted.
#[test]
fn raw_runs_give_the_authors_counts() {
    for folders in [
        &["tangled-2022-03/poison"][..],
        &["tangled-2022-03/baseline", "tangled-2022-03/prepend"],
    ] {
        let Some(Read {
            playbook, notes, ..
        }) = open(folders)
        else {
            return;
        };
        assert_eq!(notes, [""; 0]);
        for (path, text) in folders.iter().flat_map(|folder| files(folder, "stats")) {
            let stats = Stats::parse(&text).unwrap();
            let play = &playbook.plays()[playbook.find(&stats.policy).unwrap()];
            assert_eq!(
                play.known(),
                stats.counts.iter().map(|(_, count)| count).sum::<u64>(),
                "{}",
                path.display()
            );
            for (name, count) in &stats.counts {
                assert_eq!(
                    play.blocks[site(&playbook, name)],
                    *count,
                    "{}: {name}",
                    path.display()
                );
            }
        }
    }
}

fn files(folder: &str, extension: &str) -> Vec<(PathBuf, String)> {
    let folder = std::fs::read_dir(data(folder).unwrap()).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|e| e == extension));
    paths
        .map(|path| (path.clone(), std::fs::read_to_string(&path).unwrap()))
        .collect()
}

#[test]
fn their_announcements_are_read_and_written_again() {
    for folder in ["baseline", "prepend", "poison"].map(|name| format!("tangled-2022-03/{name}")) {
        if data(&folder).is_none() {
            return;
        }
        for (path, text) in files(&folder, "routing") {
            let file = RoutingFile::parse(&text).unwrap();
            assert_eq!(
                file.to_string().trim_end(),
                text.trim_end(),
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn the_prepends_of_2022_leave_blocks_stuck() {
    let Some(Read { playbook, .. }) =
        open(&["tangled-2022-03/baseline", "tangled-2022-03/prepend"])
    else {
        return;
    };
    let tables = Tables::of(&playbook);
    let permille = |play: &str| {
        let play = playbook.find(play).unwrap();
        tables.share[play]
            .iter()
            .map(|share| (share * 1000.0).round() as u64)
            .collect::<Vec<_>>()
    };
    // Sydney, Paris, London.
    for (play, expect) in [
        ("baseline", [898, 51, 50]),
        ("1xSYD", [107, 777, 116]),
        ("3xSYD", [107, 796, 97]),
    ] {
        assert_eq!(permille(play), expect, "{play}");
    }
    let stuck = tables.stuck.unwrap();
    // A tenth of the blocks stays at Sydney however long its path is: what 3xSYD leaves there.
    assert!((stuck[0].stays - 0.107).abs() < 0.005, "{stuck:?}");
    assert!(
        stuck.iter().all(|site| site.stays + site.never < 1.0),
        "{stuck:?}"
    );
}

/// Takes any bytes.
type Target = fn(&[u8]);

/// Runs each file of the corpus that belongs to a target.
fn replay(target: Target, corpus: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(corpus);
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        target(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 0, "{corpus} is empty");
}

#[test]
fn the_corpora_hold() {
    replay(targets::routing, "anycast_routing");
    replay(targets::playbook_csv, "anycast_playbook_csv");
    replay(targets::fsdb, "anycast_fsdb");
}

/// Seeds with a few bytes changed.
#[test]
fn changed_seeds_hold() {
    use rand_core::{Rng as _, SeedableRng as _};
    let mut rng = rand_pcg::Pcg64::seed_from_u64(1);
    let targets: [(Target, &str); 3] = [
        (targets::routing, "anycast_routing"),
        (targets::playbook_csv, "anycast_playbook_csv"),
        (targets::fsdb, "anycast_fsdb"),
    ];
    for (target, corpus) in targets {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz/corpus")
            .join(corpus);
        for entry in std::fs::read_dir(folder).unwrap() {
            let seed = std::fs::read(entry.unwrap().path()).unwrap();
            for _ in 0..300 {
                let mut bytes = seed.clone();
                for _ in 0..1 + rng.next_u32() % 4 {
                    let at = rng.next_u32() as usize % bytes.len();
                    match rng.next_u32() % 3 {
                        0 => bytes[at] = b"\n\t,;[]#:/.0x-\" "[rng.next_u32() as usize % 15],
                        1 => drop(bytes.remove(at)),
                        _ => bytes.insert(
                            at,
                            bytes[rng.next_u32() as usize % seed.len().min(bytes.len())],
                        ),
                    }
                    if bytes.is_empty() {
                        bytes.push(b'x');
                    }
                }
                target(&bytes);
            }
        }
    }
}
