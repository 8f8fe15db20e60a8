use std::io::Write as _;

use super::*;

fn read(text: impl AsRef<[u8]>) -> Result<Reading, BlocksError> {
    Blocks::read("f", text.as_ref(), Family::Ipv4, Unit::Blocks)
}

fn counts(reading: &Reading) -> Vec<(u32, u64)> {
    let counts = reading.blocks.counts().iter();
    counts.map(|(asn, count)| (asn.0, *count)).collect()
}

fn block(text: &str) -> Block {
    Block::of(text.parse().unwrap())
}

#[test]
fn a_block_belongs_to_the_longest_prefix_and_is_counted_once() {
    let check = |text: &str, expect: &[(u32, u64)]| {
        assert_eq!(counts(&read(text).unwrap()), expect, "{text}");
    };
    check("10.0.0.0/8 1\n", &[(1, 65536)]);
    check("10.0.0.0/24 1\n10.0.0.0/24 1\n", &[(1, 1)]);
    // Within, at both ends, next to each other, twice as deep, and after it.
    check("10.0.0.0/22 1\n10.0.1.0/24 2\n", &[(1, 3), (2, 1)]);
    check(
        "10.0.0.0/22 1\n10.0.0.0/24 2\n10.0.3.0/24 3\n",
        &[(1, 2), (2, 1), (3, 1)],
    );
    check(
        "10.0.0.0/22 1\n10.0.0.0/23 2\n10.0.2.0/23 3\n",
        &[(2, 2), (3, 2)],
    );
    check(
        "10.0.0.0/16 1\n10.0.0.0/20 2\n10.0.0.0/23 1\n",
        &[(1, 242), (2, 14)],
    );
    check(
        "10.0.1.0/24 2\n10.0.0.0/22 1\n11.0.0.0/24 1\n",
        &[(1, 4), (2, 1)],
    );
    // The last block that there is.
    check("255.255.255.0/24 7\n", &[(7, 1)]);
    // Not on its boundary: the prefix that holds it.
    check("10.0.0.77/23 1\n", &[(1, 2)]);
}

/// The rule itself, block by block.
#[test]
fn runs_are_what_the_rule_says_of_each_block() {
    let mut seed = 7_u64;
    let mut draw = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % n
    };
    for _ in 0..200 {
        let prefixes: Vec<(u64, u8, u32)> = (0..draw(12) + 1)
            .map(|_| {
                let length = 16 + draw(9) as u8;
                let first = draw(256) >> (24 - length) << (24 - length);
                (first, length, draw(4) as u32 + 1)
            })
            .collect();
        let lines: String = prefixes
            .iter()
            .map(|(first, length, asn)| format!("9.0.{first}.0/{length}\t{asn}\n"))
            .collect();
        let reading = read(&lines).unwrap();
        for number in 0..256_u64 {
            // Of the longest: the origin that most lines name, then the lowest.
            let holds = |p: &&(u64, u8, u32)| number >> (24 - p.1) == p.0 >> (24 - p.1);
            let longest = prefixes.iter().filter(holds).map(|p| p.1).max();
            let votes = |asn: u32| {
                let named = prefixes.iter().filter(holds);
                named.filter(|p| Some(p.1) == longest && p.2 == asn).count()
            };
            let best = (1..=4).max_by_key(|asn| (votes(*asn), u32::MAX - asn));
            let expect = longest.and(best).map(Asn);
            let block = block(&format!("9.0.{number}.9"));
            assert_eq!(
                reading.blocks.origin(block),
                expect,
                "{lines}block {number}"
            );
        }
        let runs = reading.blocks.runs().unwrap();
        for pair in runs.windows(2) {
            let touch = pair[0].first + pair[0].len == pair[1].first;
            assert!(pair[0].first + pair[0].len <= pair[1].first);
            assert!(!touch || pair[0].asn != pair[1].asn, "{runs:?}");
        }
    }
}

#[test]
fn what_is_no_route_between_ases_is_counted_and_left_out() {
    let text = "; a file\n0.0.0.0/0 1\n10.0.0.0/7 1\n10.0.0.0/25 2\n10.0.0.0/32 2\n10.0.0.0/24 3\n2001:db8::/32 4\n11.0.0.0/24 0\n";
    let reading = read(text).unwrap();
    assert_eq!(counts(&reading), [(3, 1)]);
    let Reading {
        prefixes,
        longer,
        shorter,
        other_family,
        without_origin,
        ..
    } = reading;
    assert_eq!(
        (prefixes, longer, shorter, other_family, without_origin),
        (7, 2, 2, 1, 1)
    );
    let six = Blocks::read("f", text.as_bytes(), Family::Ipv6, Unit::Blocks).unwrap();
    assert_eq!(counts(&six), [(4, 65536)]);
    assert_eq!(six.blocks.origin(block("2001:db8:7::1")), Some(Asn(4)));
    assert_eq!(six.blocks.origin(block("2001:db9::1")), None);
    assert_eq!(six.blocks.origin(block("10.0.0.1")), None);
}

#[test]
fn caidas_files_name_several_origins() {
    let reading =
        read("1.0.0.0\t24\t13335\n1.0.4.0\t22\t38803_56203\n1.0.8.0\t23\t4,5_6\n").unwrap();
    assert_eq!(counts(&reading), [(4, 2), (13335, 1), (38803, 4)]);
    assert_eq!(reading.several_origins, 2);
}

#[test]
fn counts_are_blocks_or_addresses_as_the_header_or_the_caller_says() {
    let check = |text: &str, unit: Unit, expect: &[(u32, u64)]| {
        let reading = Blocks::read("f", text.as_bytes(), Family::Ipv4, unit).unwrap();
        assert_eq!(counts(&reading), expect, "{text}");
        assert_eq!(reading.blocks.runs(), None);
    };
    check("3,300\n7,0\n", Unit::Blocks, &[(3, 300)]);
    check(
        "3,512\n4,1\n5,257\n",
        Unit::Addresses,
        &[(3, 2), (4, 1), (5, 2)],
    );
    check("asn,addresses\n3,512\n", Unit::Blocks, &[(3, 2)]);
    check(
        "ASN,Blocks\nAS3, 512\nAS3,1\n",
        Unit::Addresses,
        &[(3, 513)],
    );
}

#[test]
fn errors_name_file_line_and_what_was_expected() {
    let check = |text: &[u8], expect: &str| {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with(expect), "{error}");
    };
    let good = "10.0.0.0/24 1\n";
    for (line, shown) in [
        ("10.0.0.0/33 1", "\"10.0.0.0/33 1\""),
        ("10.0.0/24 1", "\"10.0.0/24 1\""),
        ("10.0.0.0/24 -1", "\"10.0.0.0/24 -1\""),
        ("10.0.0.0/24 4294967296", "\"10.0.0.0/24 4294967296\""),
        ("10.0.0.0/24", "\"10.0.0.0/24\""),
        ("10.0.0.0/24 1 2", "\"10.0.0.0/24 1 2\""),
    ] {
        let text = format!("{good}\r\n{line}\n");
        check(
            text.as_bytes(),
            &format!("f:3: {shown}; expected a prefix and its origin"),
        );
    }
    check(
        b"1.0.0.0 24 1\n1.0.0.0 33 1\n",
        "f:2: \"1.0.0.0 33 1\"; expected an address, a prefix length",
    );
    check(
        b"1.0.0.0 24 1\n1.0.0.0 24 1_\n",
        "f:2: \"1.0.0.0 24 1_\"; expected an address",
    );
    check(
        b"1,2\n1,2,3\n",
        "f:2: \"1,2,3\"; expected an AS and its count",
    );
    check(
        b"1,2\n1,-2\n",
        "f:2: \"1,-2\"; expected an AS and its count",
    );
    check(
        b"hello\n",
        "f:1: \"hello\"; expected `prefix asn` as in pyasn's files",
    );
    check(
        b"",
        "f: no IPv4 prefix with an origin among its 0 entries; give a prefix-to-AS file",
    );
    check(
        b"2001:db8::/32 1\n",
        "f: no IPv4 prefix with an origin among its 1 entries",
    );
    check(
        &[b"10.0.0.0/24 1\n\xff\xfe".as_slice(), &[b'x'; 9]].concat(),
        "f:2: bytes that are no text",
    );
    check(
        &[b'1'; LINE_MAX + 1],
        "f:1: a line of more than 4,096 bytes",
    );
    let long = "1".repeat(LINE_MAX - 1) + "\n";
    check(long.as_bytes(), "f:1: \"111111");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut packed = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

#[test]
fn packed_files_are_seen_by_their_first_bytes_and_a_cut_one_gives_what_came_before() {
    let lines: String = (0..20_000_u32)
        .map(|n| {
            format!(
                "{}.{}.{}.0/24 {}\n",
                1 + n / 65536,
                n / 256 % 256,
                n % 256,
                n * 7919 % 65521 + 1
            )
        })
        .collect();
    let whole = read(&lines).unwrap();
    assert_eq!(whole.blocks.total(), 20_000);
    for packed in [gzip(lines.as_bytes()), bzip2(lines.as_bytes())] {
        assert_eq!(read(&packed).unwrap(), whole);
        let cut = read(&packed[..packed.len() - 20]);
        // bzip2 has blocks of 100 kB and more, and gives nothing of one that is not whole.
        let cut = cut.unwrap();
        let Some(Cut { after, reason }) = &cut.cut else {
            panic!("whole");
        };
        assert!(
            cut.blocks.total() < 20_000 && after.starts_with("line "),
            "{after}: {reason}"
        );
        let nothing = read(&packed[..11]).unwrap_err().to_string();
        assert!(nothing.starts_with("f: cannot be read"), "{nothing}");
    }
}

#[test]
fn made_up_blocks_follow_each_other_while_there_is_room() {
    let blocks = Blocks::laid_out([(Asn(9), 2), (Asn(3), 1), (Asn(5), 0)]);
    let at = |text: &str| blocks.origin(block(text)).map(|asn| asn.0);
    let expect = [
        ("0.255.255.1", None),
        ("1.0.0.1", Some(3)),
        ("1.0.2.1", Some(9)),
        ("1.0.3.1", None),
    ];
    for (address, owner) in expect {
        assert_eq!(at(address), owner, "{address}");
    }
    let room = (224 - 1) << 16;
    assert!(Blocks::laid_out([(Asn(1), room)]).runs().is_some());
    assert!(Blocks::laid_out([(Asn(1), room + 1)]).runs().is_none());
}

#[test]
fn a_map_has_the_blocks_of_each_as_that_goes_somewhere() {
    let blocks = read("10.0.0.0/22 1\n10.0.1.0/24 2\n10.0.2.0/24 3\n")
        .unwrap()
        .blocks;
    let sites = Sites::new(["AMS", "BOS"]).unwrap();
    let map = blocks
        .map(&sites, |asn| (asn.0 != 3).then(|| SiteId(asn.0 as u8 - 1)))
        .unwrap();
    let found: Vec<(String, u8)> = map.iter().map(|(b, s)| (b.to_string(), s.0)).collect();
    let expect = [("10.0.0.0/24", 0), ("10.0.1.0/24", 1), ("10.0.3.0/24", 0)];
    assert_eq!(found, expect.map(|(b, s)| (b.to_owned(), s)));
    let many = Blocks::read("f", &b"2001::/20 1\n"[..], Family::Ipv6, Unit::Blocks).unwrap();
    assert!(many.blocks.map(&sites, |_| None).is_none());
    assert!(
        Blocks::of_counts(Family::Ipv4, [(Asn(1), 1)])
            .map(&sites, |_| None)
            .is_none()
    );
}
