//! Each form, and what is wrong with files.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::map::{About, Block, write_csv, write_parquet};

fn import(
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<(CatchmentMap, Option<LoadMap>, ReadReport), String> {
    let mut importer = Importer::new(options.clone());
    let report = importer
        .read_bytes(Path::new("f"), bytes)
        .map_err(|e| e.to_string())?;
    let (map, load) = importer.finish().map_err(|e| e.to_string())?;
    Ok((map, load, report))
}

fn good(bytes: &[u8]) -> (CatchmentMap, Option<LoadMap>, ReadReport) {
    import(bytes, &ReadOptions::default()).unwrap()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// `192.0.2.0/24 AMS 1.5`, ... .
fn text(map: &CatchmentMap) -> Vec<String> {
    map.iter()
        .map(|(block, site)| {
            let rtt = map
                .rtt(block)
                .map_or(String::new(), |rtt| format!(" {}", rtt.ms()));
            format!("{block} {}{rtt}", map.sites().name(site))
        })
        .collect()
}

const VERFPLOETER: &str = "task_id,client_id,transmit_time,receive_time,send_receive_time_diff,source_address,destination_address,meta_source_address,meta_destination_address,ttl,source_address_country,source_address_asn
0,syd,1646261274266073110,1646261274394554811,128.481701,1.0.6.6,145.100.118.1,145.100.118.1,1.0.6.6,48,AU,38803
0,cdg,1646261275266096925,1646261274394795376,250.698451,1.0.4.4,145.100.118.1,145.100.118.1,1.0.4.4,48,AU,38803
0,syd,1646261274266096925,1646261274394795376,100.5,1.0.6.9,145.100.118.1,145.100.118.1,1.0.6.9,48,AU,38803
0,cdg,1646261274266096925,1646261274394795376,1.5,1.0.6.9,145.100.118.1,145.100.118.1,1.0.6.9,48,AU,38803
0,syd,1646261274266096925,1646261274394795376,1.5,9.9.9.9,145.100.118.1,145.100.118.1,1.0.7.7,48,AU,38803
0,syd,1646261274266096925,1646261274394795376,1.5,9.9.9.9,145.100.118.2,145.100.118.1,9.9.9.9,48,AU,38803
0,syd,1646261274266096925,1646262174394795376,900128.7,9.9.9.9,145.100.118.1,145.100.118.1,9.9.9.9,48,AU,38803
";

#[test]
fn verfploeter() {
    for bytes in [VERFPLOETER.as_bytes().to_vec(), gz(VERFPLOETER.as_bytes())] {
        let (map, load, report) = good(&bytes);
        assert_eq!(text(&map), ["1.0.4.0/24 cdg 250.7", "1.0.6.0/24 syd 100.5"]);
        assert_eq!(load, None);
        assert_eq!(report.form, Form::Verfploeter);
        assert_eq!(
            (report.records, report.replies, report.duplicates),
            (7, 4, 2)
        );
        assert_eq!((report.late, report.off_address), (Some(1), Some(2)));
        assert_eq!(report.measured, Some((1_646_261_274, 1_646_261_275)));
        assert_eq!(map.conflicts().blocks(), 1);
    }
}

#[test]
fn a_member_of_a_gzip_after_the_other() {
    let (head, rows) = VERFPLOETER.split_at(VERFPLOETER.find('\n').unwrap() + 1);
    let both = [gz(head.as_bytes()), gz(rows.as_bytes())].concat();
    assert_eq!(good(&both).0, good(VERFPLOETER.as_bytes()).0);
}

#[test]
fn manycastr() {
    let catchment = "# Hitlist (shuffled): v4.txt\n# Measurement type: ICMP\n# Probing rate: 1,000\n# Worker interval: 1\n# 3 connected workers:\n# * ams\n# * bos\n# * cnf\n# Configurations:\n# * ALL, source IP: 192.0.2.1, source port: 62321, destination port: 53\nrx,addr,ttl\nams,1.0.0.1,55\nbos,16777985,51\nams,2001:db8::1,40\n";
    let (map, _, report) = good(&gz(catchment.as_bytes()));
    assert_eq!(
        text(&map),
        ["1.0.0.0/24 ams", "1.0.3.0/24 bos", "2001:db8::/48 ams"]
    );
    assert_eq!(map.sites().len(), 3, "a worker without a reply is a site");
    assert_eq!(report.form, Form::Manycastr);
    assert_eq!((report.late, report.off_address), (None, None));

    let (map, ..) = good(b"rx,addr,ttl,rtt\nams,1.0.0.1,55,12.345\n");
    assert_eq!(text(&map), ["1.0.0.0/24 ams 12.35"]);

    // Times of two hosts are no round-trip time; microseconds.
    let laces = b"rx,rx_time,addr,ttl,tx_time,tx,chaos_data\nams,1700000000010500,1.0.0.1,55,1700000000000000,ams,\"a,b\"\nams,1700000000010500,1.0.1.1,55,1700000000000000,bos,x\nbos,77777,1.0.2.1,55,76000,bos,x\n";
    let (map, _, report) = good(laces);
    assert_eq!(
        text(&map),
        ["1.0.0.0/24 ams 10.5", "1.0.1.0/24 ams", "1.0.2.0/24 bos"]
    );
    assert_eq!(report.measured, Some((1_700_000_000, 1_700_000_000)));

    let several = b"rx,addr,ttl,origin_id\nams,1.0.0.1,55,1\nbos,1.0.0.1,55,2\n";
    let error = import(several, &ReadOptions::default()).unwrap_err();
    assert_eq!(
        error,
        "f:3: origin_id 2 after 1: replies to several announcements; choose one of them with --origin"
    );
    let options = ReadOptions {
        origin: Some(2),
        ..ReadOptions::default()
    };
    let (map, _, report) = import(several, &options).unwrap();
    assert_eq!(
        (text(&map), report.other),
        (vec!["1.0.0.0/24 bos".to_owned()], 1)
    );
}

#[test]
fn tables_of_others() {
    for (table, blocks, total) in [
        ("block,site\n192.0.2.0/24,AMS\n", "192.0.2.0/24 AMS", 1.0),
        (
            "Address;Site;RTT\n192.0.2.1;AMS;1.25\n",
            "192.0.2.0/24 AMS 1.25",
            1.0,
        ),
        (
            "src\tcatchment\tbytes\n192.0.2.1\tAMS\t10\n192.0.2.2\tAMS\t2.5\n",
            "192.0.2.0/24 AMS",
            12.5,
        ),
        (
            "\u{feff}\nsite,block\r\nAMS,2001:db8::/48\r\n",
            "2001:db8::/48 AMS",
            1.0,
        ),
        ("192.0.2.0/24,AMS\n", "192.0.2.0/24 AMS", 1.0),
        ("# what I saw\n\n192.0.2.1,AMS", "192.0.2.0/24 AMS", 1.0),
    ] {
        let (map, load, report) = good(table.as_bytes());
        assert_eq!(text(&map), [blocks], "{table}");
        assert_eq!(load.unwrap().total(), total, "{table}");
        assert_eq!(report.form, Form::Plain);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w.csv");
    for (table, expect) in [
        ("1.2.3.0,55\n1.2.3.0,5\n", Ok(60.0)),
        ("netblock,weight\n1.2.3.0/24,0.5\n", Ok(0.5)),
        ("block,site\n1.2.3.0/24,AMS\n", Ok(1.0)),
        (
            "rx,addr,ttl\nams,1.0.0.1,5\n",
            Err("there is no load in it"),
        ),
        (
            "block,load\n1.2.3.0/24,-1\n",
            Err("the load is \"-1\"; expected a number of 0 or more"),
        ),
    ] {
        std::fs::write(&file, table).unwrap();
        let load = read_load(&file, &ReadOptions::default());
        match (load, expect) {
            (Ok((load, _)), Ok(expect)) => assert_eq!(load.total(), expect, "{table}"),
            (Err(error), Err(expect)) => assert!(error.to_string().contains(expect), "{error}"),
            (found, _) => panic!("{table}: {found:?}"),
        }
    }
}

#[test]
fn names_of_sites_are_changed_and_held_to_a_list() {
    let options = ReadOptions {
        sites: Some(Sites::new(["CDG", "SYD"]).unwrap()),
        rename: [("syd", "SYD"), ("cdg", "CDG")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .into(),
        ..ReadOptions::default()
    };
    let (map, ..) = import(VERFPLOETER.as_bytes(), &options).unwrap();
    assert_eq!(map.sites().names().collect::<Vec<_>>(), ["CDG", "SYD"]);
    assert_eq!(map.counts(), [1, 1]);
    let table = VERFPLOETER.replace(",cdg,", ",lhr,");
    let error = import(table.as_bytes(), &options).unwrap_err();
    assert_eq!(
        error,
        "f:3: there is no site \"lhr\"; expected one of CDG, SYD; add it to --sites, or give its name here with --rename"
    );
}

/// A map with everything in it that can be.
fn full() -> (CatchmentMap, LoadMap, About) {
    let table = "# levee map, version 1\n# sites: AMS,BOS,CNF\n# measured: 1646261274\nblock,site,rtt_ms,load,seen\n1.0.0.0/24,AMS,12.5,7,AMS=5 BOS=2\n1.0.1.0/24,BOS,,0.5,\n2001:db8::/48,BOS,655.34,,BOS=1 AMS=1\n255.255.255.0/24,AMS,0,1,\n";
    let (map, load, report) = good(table.as_bytes());
    assert_eq!(report.form, Form::Map);
    let about = About {
        measured: report.measured.map(|(first, _)| first),
        source: "a test".to_owned(),
    };
    (map, load.unwrap(), about)
}

#[test]
fn our_own_forms_come_back_as_they_were() {
    let (map, load, about) = full();
    assert_eq!(map.conflicts().blocks(), 2);
    assert_eq!(map.counts(), [2, 2, 0]);
    let mut csv = Vec::new();
    write_csv(&map, Some(&load), &about, &mut csv).unwrap();
    let mut parquet = Vec::new();
    write_parquet(&map, Some(&load), &about, &mut parquet).unwrap();
    for bytes in [csv.clone(), gz(&csv), parquet] {
        let (again, loads, report) = good(&bytes);
        assert_eq!(again, map);
        assert_eq!(loads.as_ref(), Some(&load));
        assert_eq!(report.form, Form::Map);
        assert_eq!(report.measured, Some((1_646_261_274, 1_646_261_274)));
    }
    let text = String::from_utf8(csv).unwrap();
    assert_eq!(
        text,
        "# levee map, version 1\n# sites: AMS,BOS,CNF\n# measured: 1646261274\n# source: a test\nblock,site,rtt_ms,load,seen\n1.0.0.0/24,AMS,12.5,7,AMS=5 BOS=2\n1.0.1.0/24,BOS,,0.5,\n255.255.255.0/24,AMS,0,1,\n2001:db8::/48,BOS,655.34,0,BOS=1 AMS=1\n"
    );
}

#[test]
fn many_blocks_fill_several_row_groups() {
    let mut map = CatchmentMap::new(Sites::new(["A", "B"]).unwrap());
    for i in 0..300_000u32 {
        map.set_with(
            Block::V4(i * 55),
            levee_policy::reroute::SiteId((i % 2) as u8),
            None,
        );
    }
    let mut bytes = Vec::new();
    write_parquet(&map, None, &About::default(), &mut bytes).unwrap();
    // Prefixes take little room: an equal step costs next to nothing.
    assert!(bytes.len() < 1_000_000, "{}", bytes.len());
    let (again, load, report) = good(&bytes);
    assert_eq!((again, load, report.records), (map, None, 300_000));
}

fn data() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is not here", folder.display());
    None
}

/// Counts and whole percents as the authors' tool gives them: of the share to one decimal the whole part.
#[test]
fn the_authors_statistics() {
    let Some(data) = data() else { return };
    let mut runs = 0;
    for folder in ["baseline", "prepend", "poison"] {
        for file in std::fs::read_dir(data.join("tangled-2022-03").join(folder)).unwrap() {
            let file = file.unwrap().path();
            let name = file.to_str().unwrap();
            let Some(stem) = name.strip_suffix(".csv.gz") else {
                continue;
            };
            let (map, report) = read(&file, &ReadOptions::default()).unwrap();
            assert_eq!(report.off_address, Some(0));
            let total = map.known() as f64;
            let mut found: Vec<String> = map
                .sites()
                .names()
                .zip(map.counts())
                .map(|(site, count)| {
                    let percent = (count as f64 / total * 1000.0).round_ties_even() / 10.0;
                    format!("{site},{count},{}", percent as u32)
                })
                .collect();
            found.sort();
            let stats = std::fs::read_to_string(format!("{stem}.stats")).unwrap();
            let lines = stats
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with('#'));
            let mut expect: Vec<String> = lines.skip(1).map(str::to_owned).collect();
            expect.sort();
            assert_eq!(found, expect, "{name}");
            runs += 1;
        }
    }
    assert_eq!(runs, 36);
}
