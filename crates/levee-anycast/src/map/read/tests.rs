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

/// The rows, so many times.
fn long(times: usize) -> String {
    let (header, rows) = VERFPLOETER.split_once('\n').unwrap();
    format!("{header}\n{}", rows.repeat(times))
}

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
    let table = "# levee map, version 1\n# sites: AMS,BOS,CNF\n# measured: 1646261274\nblock,site,rtt_ms,load,seen\n1.0.0.0/24,AMS,12.5,7,\"AMS=5,BOS=2\"\n1.0.1.0/24,BOS,,0.5,\n2001:db8::/48,BOS,655.34,,\"BOS=1,AMS=1\"\n255.255.255.0/24,AMS,0,1,\n";
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
        "# levee map, version 1\n# sites: AMS,BOS,CNF\n# measured: 1646261274\n# source: a test\nblock,site,rtt_ms,load,seen\n1.0.0.0/24,AMS,12.5,7,\"AMS=5,BOS=2\"\n1.0.1.0/24,BOS,,0.5,\n255.255.255.0/24,AMS,0,1,\n2001:db8::/48,BOS,655.34,0,\"BOS=1,AMS=1\"\n"
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

/// An Atlas result with this answer in it.
fn atlas(from: &str, rest: &str) -> String {
    format!(
        "{{\"type\":\"dns\",\"fw\":4700,\"af\":4,\"from\":\"{from}\",\"timestamp\":1700000000,{rest}}}"
    )
}

fn txt(name: &str) -> String {
    format!(
        "\"result\":{{\"rt\":1.5,\"answers\":[{{\"TYPE\":\"TXT\",\"NAME\":\"hostname.bind\",\"RDATA\":{name}}}]}}"
    )
}

/// `hostname.bind CH TXT "ns1.fi-hel"`, as a message.
const ABUF: &str = "EjSEAAABAAEAAAAACGhvc3RuYW1lBGJpbmQAABAAA8AMABAAAwAAAAAACwpuczEuZmktaGVs";

#[test]
fn atlas_results_of_all_firmware() {
    let from = |i: usize| format!("192.0.{i}.1");
    let forms = [
        txt("\"ns1.fi-hel\""),
        txt("[\"ns1.fi-hel\"]"),
        txt("[\"ns1.\",\"fi-hel\"]").replace("hostname.bind", "id.server."),
        txt("\"ns1.fi-hel\"").replace("\"TXT\"", "16"),
        format!("\"result\":{{\"rt\":2,\"abuf\":\"{ABUF}\"}}"),
        format!("\"result\":{{\"answers\":[{{\"TYPE\":1,\"RDLENGTH\":4}}],\"abuf\":\"{ABUF}\"}}"),
        format!(
            "\"resultset\":[{{\"dst_addr\":\"10.0.0.1\",\"error\":{{\"timeout\":5000}}}},{{{}}}]",
            txt("\"ns1.fi-hel\"")
        ),
    ];
    let good_forms = forms.len();
    let others = [
        "\"error\":{\"timeout\":5000}".to_owned(),
        "\"result\":{\"abuf\":\"!\",\"rt\":1}".to_owned(),
        txt("\"ns1.fi-hel\"").replace("hostname.bind", "version.bind"),
        txt("\"ns1.de-fra\""),
        txt("7"),
    ];
    let all = forms.iter().chain(&others).enumerate();
    let mut all: Vec<String> = all.map(|(i, form)| atlas(&from(i), form)).collect();
    all.push("{\"type\":\"ping\",\"from\":\"192.0.2.1\"}".to_owned());
    all.push(atlas("", &txt("\"ns1.fi-hel\"")));
    let options = ReadOptions {
        patterns: vec!["*.fi-hel=HEL".parse().unwrap()],
        ..ReadOptions::default()
    };
    for file in [
        all.join("\n"),
        all.concat(),
        format!("[{}]", all.join(",\n")),
        format!("\u{feff} [\r\n{}\r\n]\n", all.join(" , ")),
        all.join("\n").replace(":{", ": {\n"),
    ] {
        let (map, _, report) = import(file.as_bytes(), &options).unwrap();
        assert_eq!(map.counts(), [good_forms as u64], "{file}");
        assert_eq!(map.sites().names().collect::<Vec<_>>(), ["HEL"]);
        assert_eq!(report.form, Form::Atlas);
        assert_eq!(report.records, all.len() as u64);
        // The error, and the one in the resultset.
        assert_eq!(report.unanswered, Some(2));
        assert_eq!(
            (report.no_site, &report.no_site_names[..]),
            (1, &["ns1.de-fra".to_owned()][..])
        );
        assert_eq!(report.other, 5, "{report:?}");
        assert_eq!(
            map.rtt("192.0.0.1".parse().unwrap())
                .map(super::super::catchment::Rtt::ms),
            Some(1.5)
        );
    }
    let to = txt("\"ns1.fi-hel\"") + ",\"dst_addr\":\"198.51.100.1\"";
    let options = ReadOptions {
        service: vec!["192.0.2.0/24".parse().unwrap()],
        ..ReadOptions::default()
    };
    let file = [atlas("192.0.2.1", &to), atlas("192.0.3.1", &txt("\"a\""))].join("\n");
    let (map, _, report) = import(file.as_bytes(), &options).unwrap();
    assert_eq!(
        (text(&map), report.off_address),
        (vec!["192.0.3.0/24 a 1.5".to_owned()], Some(1))
    );
}

#[test]
fn the_real_atlas_results() {
    let Some(data) = data() else { return };
    let file = std::fs::read_to_string(data.join("atlas-dns-samples.jsonl")).unwrap();
    let lines: Vec<&str> = file.lines().collect();
    for file in [file.clone(), format!("[{}]", lines.join(","))] {
        let (map, _, report) = good(file.as_bytes());
        assert_eq!(report.records, lines.len() as u64);
        assert!(report.records >= 44);
        // One of them asks a root server who it is.
        let names: Vec<&str> = map.sites().names().collect();
        assert!(names.contains(&"ns1.fi-hel.k.ripe.net"), "{names:?}");
        assert_eq!(report.bad, 0);
    }
}

fn ipv4(from: [u8; 4], to: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut out = vec![0x45, 0];
    out.extend(length.to_be_bytes());
    out.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    out.extend(from);
    out.extend(to);
    out.extend(payload);
    out
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x12, 0x34];
    out.extend(port.to_be_bytes());
    out.extend((8 + payload.len() as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(payload);
    out
}

/// To the service: 192.0.2.1.
fn query(last: u8) -> Vec<u8> {
    ipv4(
        [198, 51, 100, last],
        [192, 0, 2, 1],
        17,
        &udp(53, &[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
    )
}

fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut out = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    out.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0]);
    out.extend(link.to_le_bytes());
    for packet in packets {
        let length = (packet.len() as u32).to_le_bytes();
        out.extend(1_700_000_000u32.to_le_bytes());
        out.extend([0; 4]);
        out.extend(length);
        out.extend(length);
        out.extend(packet);
    }
    out
}

/// pcapng in nanoseconds, of enhanced packets.
fn pcapng(link: u16, packets: &[Vec<u8>]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, &body, &length].concat()
    };
    let mut out = block(
        0x0a0d_0d0a,
        &[
            &0x1a2b_3c4d_u32.to_le_bytes()[..],
            &[1, 0, 0, 0],
            &[0xff; 8],
        ]
        .concat(),
    );
    out.extend(block(
        1,
        &[
            &link.to_le_bytes()[..],
            &[0; 6],
            &[9, 0, 1, 0, 9, 0, 0, 0],
            &[0; 4],
        ]
        .concat(),
    ));
    for packet in packets {
        let time: u64 = 1_700_000_000_000_000_000;
        let length = (packet.len() as u32).to_le_bytes();
        let body = [
            &[0; 4][..],
            &((time >> 32) as u32).to_le_bytes(),
            &(time as u32).to_le_bytes(),
            &length,
            &length,
            packet,
        ];
        out.extend(block(6, &body.concat()));
    }
    out
}

fn behind(head: &[u8], packet: &[u8]) -> Vec<u8> {
    [head, packet].concat()
}

fn captured() -> ReadOptions {
    ReadOptions {
        site: Some("AMS".to_owned()),
        service: vec![
            "192.0.2.0/24".parse().unwrap(),
            "2001:db8::/32".parse().unwrap(),
        ],
        ..ReadOptions::default()
    }
}

#[test]
fn captures_of_all_links() {
    let ipv6 = {
        let mut out = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
        out.extend(
            "2001:db9:7::1"
                .parse::<std::net::Ipv6Addr>()
                .unwrap()
                .octets(),
        );
        out.extend(
            "2001:db8::1"
                .parse::<std::net::Ipv6Addr>()
                .unwrap()
                .octets(),
        );
        out.extend(udp(53, &[]));
        out
    };
    let back = ipv4([192, 0, 2, 1], [198, 51, 100, 7], 17, &udp(4_000, &[]));
    let mac = [0u8; 12];
    let sll = |kind: [u8; 2]| [&[0u8; 14][..], &kind].concat();
    let sll2 = |kind: [u8; 2]| [&kind[..], &[0; 18]].concat();
    let heads: [(u32, Vec<u8>, Vec<u8>); 7] = [
        (1, behind(&mac, &[8, 0]), behind(&mac, &[0x86, 0xdd])),
        (
            1,
            behind(&mac, &[0x81, 0, 0, 5, 8, 0]),
            behind(&mac, &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x86, 0xdd]),
        ),
        (101, vec![], vec![]),
        (0, vec![2, 0, 0, 0], vec![10, 0, 0, 0]),
        (113, sll([8, 0]), sll([0x86, 0xdd])),
        (276, sll2([8, 0]), sll2([0x86, 0xdd])),
        (108, vec![0, 0, 0, 2], vec![0, 0, 0, 24]),
    ];
    for (link, v4, v6) in heads {
        // The last is cut inside its IP header.
        let packets = [
            behind(&v4, &query(7)),
            behind(&v4, &query(9)),
            behind(&v6, &ipv6),
            behind(&v4, &back),
            behind(&v4, &query(7)[..12]),
        ];
        for bytes in [
            pcap(link, &packets),
            pcapng(link as u16, &packets),
            gz(&pcap(link, &packets)),
        ] {
            let (map, load, report) = import(&bytes, &captured()).unwrap();
            assert_eq!(
                text(&map),
                ["198.51.100.0/24 AMS", "2001:db9:7::/48 AMS"],
                "link {link}"
            );
            let load = load.unwrap();
            assert_eq!(load.total(), 3.0);
            assert_eq!(load.load("198.51.100.0/24".parse().unwrap()), 2.0);
            assert_eq!(
                (report.records, report.off_address, report.other),
                (5, Some(1), 1),
                "link {link}"
            );
            assert_eq!(report.measured, Some((1_700_000_000, 1_700_000_000)));
        }
    }
}

#[test]
fn what_is_a_query() {
    let to = [192, 0, 2, 1];
    let tcp = |port: u16, payload: &[u8]| {
        let mut out = vec![0x12, 0x34];
        out.extend(port.to_be_bytes());
        out.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x18, 0, 0, 0, 0, 0, 0]);
        out.extend(payload);
        out
    };
    for (protocol, segment, expect) in [
        (17, udp(53, &[0, 1, 1, 0]), 1.0),
        (17, udp(53, &[0, 1, 0x81, 0]), 0.0),
        (17, udp(53, &[]), 1.0),
        (17, udp(54, &[0, 1, 1, 0]), 0.0),
        (6, tcp(53, &[0, 4]), 1.0),
        (6, tcp(53, &[]), 0.0),
        (6, tcp(80, &[0, 4]), 0.0),
        (1, vec![8, 0, 0, 0, 0, 0, 0, 0], 0.0),
    ] {
        let packets = [ipv4([198, 51, 100, 7], to, protocol, &segment), query(8)];
        for (unit, expect) in [
            (LoadUnit::Queries, expect + 1.0),
            (LoadUnit::Packets, 2.0),
            (
                LoadUnit::Bytes,
                (packets[0].len() + packets[1].len()) as f64,
            ),
        ] {
            let options = ReadOptions { unit, ..captured() };
            let (_, load, report) = import(&pcap(101, &packets), &options).unwrap();
            assert_eq!(
                load.unwrap().total(),
                expect,
                "{protocol} {segment:?} {unit:?}"
            );
            let taken = if unit == LoadUnit::Bytes { 2.0 } else { expect };
            assert_eq!(report.other as f64, 2.0 - taken);
        }
    }
}

/// Each says where, what was found, what was expected, and what to do.
#[test]
fn what_is_wrong_with_files() {
    let row = |text: &str| format!("block,site,load\n192.0.2.0/24,AMS,1\n{text}\n");
    let cut = |bytes: Vec<u8>, end: usize| bytes[..bytes.len() - end].to_vec();
    let (map, load, about) = full();
    let mut parquet = Vec::new();
    write_parquet(&map, Some(&load), &about, &mut parquet).unwrap();
    let other_version = {
        let at = parquet
            .windows(17)
            .position(|w| w == b"levee.map.version")
            .unwrap();
        let mut bytes = parquet.clone();
        let one = at + bytes[at..].iter().position(|byte| *byte == b'1').unwrap();
        bytes[one] = b'7';
        bytes
    };
    let mut damaged = parquet.clone();
    for byte in &mut damaged[8..60] {
        *byte = 0xff;
    }
    let packets = [query(1), query(2)];
    let mut wrong = Vec::new();
    let quote = format!("block,site\n1.2.3.4,\"{}", "x\n".repeat(200_000));
    for (bytes, parts) in [
        (vec![], &["f: an empty file; expected a catchment map"][..]),
        (b" \n\t".to_vec(), &["f: an empty file"]),
        (
            b"\x7fELF\x02\x01\x01\0".to_vec(),
            &["bytes of no known form"],
        ),
        (b"hello\n".to_vec(), &["f:1: columns hello; expected"]),
        (b"a,b\n1,2\n".to_vec(), &["f:1: columns a,b; expected"]),
        (b"# only\n".to_vec(), &["a text without a header"]),
        (
            b"rx,hop_addr,ttl,tx,trace_dst,hop_count,rtt\n".to_vec(),
            &["f:1: a traceroute of MAnycastR"],
        ),
        (
            b"# levee map, version 2\nblock,site\n".to_vec(),
            &["f:1: a catchment map of version 2; this program reads version 1"],
        ),
        (
            row("192.0.2.0/23,AMS,1").into(),
            &[
                "f:3: the block is \"192.0.2.0/23\"; expected an IPv4",
                "--skip-bad",
            ],
        ),
        (
            row("192.0.2.0/24,,1").into(),
            &["f:3: the site is \"\"; expected the name of a site"],
        ),
        (
            row("192.0.2.0/24,AMS,many").into(),
            &["f:3: the load is \"many\"; expected a number"],
        ),
        (
            row("192.0.2.0/24,AMS,-3").into(),
            &["f:3: the load is \"-3\"; expected a number of 0 or more"],
        ),
        (
            row("192.0.2.0/24,AMS,NaN").into(),
            &["f:3: the load is \"NaN\""],
        ),
        (row("192.0.2.0/24,a\u{1}b,1").into(), &["f:3", "--rename"]),
        (
            row(&format!("{},AMS,1", "9".repeat(5_000))).into(),
            &["f:3: the block is \"999", "…\""],
        ),
        (
            quote.into_bytes(),
            &["f:2: a record of more than 65536 bytes; a quote"],
        ),
        (
            VERFPLOETER.replace("1646261274266073110", "soon").into(),
            &["f:2: the transmit time is \"soon\"; expected a whole number"],
        ),
        (
            VERFPLOETER.replace("128.481701", "fast").into(),
            &["f:2: the round-trip time is \"fast\"; expected a number"],
        ),
        (
            cut(gz(long(50).as_bytes()), 30),
            &["cut off or damaged", "--skip-bad"],
        ),
        (
            [&gz(b"block,site\n1.2.3.4,AMS\n")[..14], &[0x55; 40]].concat(),
            &["f", "cut off or damaged"],
        ),
        (gz(&parquet), &["Parquet inside a compressed file"]),
        (
            cut(parquet.clone(), 9),
            &["f: no readable Parquet", "use CSV"],
        ),
        (
            other_version,
            &["f: a catchment map of version 7; this program reads version 1"],
        ),
        (damaged, &["f, record 1: no readable Parquet"]),
        (b"PAR1".to_vec(), &["f: no readable Parquet"]),
        (
            b"{\"type\":\"dns\"}\n{\"type\":}\n".to_vec(),
            &["f:2: a result is \"{\\\"type\\\":}\"; expected JSON"],
        ),
        (
            b"[{\"type\":\"dns\"}\n,\n{\"type\":\"dns\"".to_vec(),
            &["f:3", "it ends inside a result"],
        ),
        (
            b"[{\"type\":\"dns\"}\n".to_vec(),
            &["f:2", "the list of results does not end"],
        ),
        (
            atlas("nowhere", &txt("\"a\"")).into(),
            &["f:1: from is \"nowhere\"; expected an address"],
        ),
        (
            [b"[\"".to_vec(), vec![b'x'; 2 << 20]].concat(),
            &["f:1: a record of more than 1048576 bytes"],
        ),
        (
            cut(pcap(101, &packets), 3),
            &["f, record 2", "it ends inside a packet"],
        ),
        (
            cut(pcapng(101, &packets), 3),
            &["f, record 2", "it ends inside a packet"],
        ),
        (
            pcap(147, &packets),
            &[
                "f, record 1: packets of link type 147; expected Ethernet",
                "editcap",
            ],
        ),
        (pcap(101, &[])[..20].to_vec(), &["f", "cut off or damaged"]),
    ] {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        match import(&bytes, &captured()) {
            Ok(_) => wrong.push(format!("{shown}: no error")),
            Err(error) => {
                let all = parts.iter().all(|part| error.contains(part));
                if !all || error.len() > 600 || error.contains('\n') {
                    wrong.push(format!("{shown}: {error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // How a file is read is wrong, not the file.
    for (bytes, options, part) in [
        (
            b"block\n1.2.3.4\n".to_vec(),
            ReadOptions::default(),
            "f:1: columns block; expected",
        ),
        (
            pcap(101, &packets),
            ReadOptions::default(),
            "--service 192.0.2.0/24",
        ),
        (
            pcap(101, &packets),
            ReadOptions {
                site: None,
                ..captured()
            },
            "a capture does not say at which site it was taken; name the site with --site",
        ),
        (
            b"block,load\n1.2.3.4,1\n".to_vec(),
            ReadOptions::default(),
            "name the site with --site",
        ),
    ] {
        let error = import(&bytes, &options).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let missing = read(Path::new("no/such/file"), &ReadOptions::default()).unwrap_err();
    assert!(
        missing
            .to_string()
            .contains("no/such/file: cannot be read; check the name"),
        "{missing}"
    );
}

#[test]
fn what_is_whole_is_taken_if_asked_for() {
    let skip = ReadOptions {
        skip_bad: true,
        ..captured()
    };
    let table = "block,site\n1.2.3.4,AMS\nx,AMS\n1.2.4.4,\n1.2.5.4,BOS\n";
    let (map, _, report) = import(table.as_bytes(), &skip).unwrap();
    assert_eq!(text(&map), ["1.2.3.0/24 AMS", "1.2.5.0/24 BOS"]);
    assert_eq!(
        (report.bad, report.bad_shown.len(), report.records),
        (2, 2, 4)
    );
    assert!(
        report.bad_shown[0].starts_with("f:3: the block is \"x\""),
        "{report:?}"
    );
    let zipped = gz(long(2_000).as_bytes());
    let (_, _, report) = import(&zipped[..zipped.len() - 20], &skip).unwrap();
    assert!(report.bad >= 1 && report.replies > 1_000, "{report:?}");
    let bytes = pcap(101, &[query(1), query(2)]);
    let (_, _, report) = import(&bytes[..bytes.len() - 3], &skip).unwrap();
    assert_eq!((report.records, report.bad), (1, 1));
    let results = [
        atlas("1.2.3.4", &txt("\"a\"")),
        "{\"a\":}".to_owned(),
        atlas("1.2.4.4", &txt("\"a\"")),
    ];
    let (map, _, report) = import(results.join("\n").as_bytes(), &skip).unwrap();
    assert_eq!((map.known(), report.bad), (2, 1));
    // Sites that are not to be are no record to leave out.
    let options = ReadOptions {
        sites: Some(Sites::new(["AMS"]).unwrap()),
        ..skip
    };
    assert!(import(table.as_bytes(), &options).is_err());
}
