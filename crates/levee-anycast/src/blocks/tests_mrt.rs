//! Routing tables made by hand as RFC 6396 draws them.

use super::*;

/// `TABLE_DUMP` and `TABLE_DUMP_V2`.
const V1: u16 = 12;
const V2: u16 = 13;
/// `BGP4MP`: updates.
const MESSAGES: u16 = 16;

fn record(kind: u16, subtype: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x53, 0x7e, 0xde, 0x60];
    bytes.extend(kind.to_be_bytes());
    bytes.extend(subtype.to_be_bytes());
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn attribute(kind: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x40, kind, value.len() as u8];
    bytes.extend(value);
    bytes
}

/// ORIGIN, AS_PATH and NEXT_HOP; `segments` are pairs of a type (1 a set, 2 a sequence) and ASNs of `width` bytes.
fn attributes(segments: &[(u8, &[u32])], width: usize) -> Vec<u8> {
    let mut path = Vec::new();
    for (kind, asns) in segments {
        path.extend([*kind, asns.len() as u8]);
        for asn in *asns {
            path.extend(&asn.to_be_bytes()[4 - width..]);
        }
    }
    [
        attribute(1, &[0]),
        attribute(2, &path),
        attribute(3, &[192, 0, 2, 1]),
    ]
    .concat()
}

/// One view, one peer (AS 64500, 192.0.2.1, with an ASN of 4 bytes).
fn peers() -> Vec<u8> {
    let mut body = vec![192, 0, 2, 9, 0, 0, 0, 1, 2, 192, 0, 2, 1, 192, 0, 2, 1];
    body.extend(64500_u32.to_be_bytes());
    record(V2, 1, &body)
}

/// `RIB_IPV4_UNICAST` or, with 16 bytes of address, `RIB_IPV6_UNICAST`: an entry for each path.
fn rib(address: &[u8], length: u8, paths: &[&[(u8, &[u32])]]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 1, length];
    body.extend(&address[..usize::from(length.div_ceil(8))]);
    body.extend((paths.len() as u16).to_be_bytes());
    for path in paths {
        let attributes = attributes(path, 4);
        body.extend([0, 0, 0x53, 0x7e, 0xde, 0x60]);
        body.extend((attributes.len() as u16).to_be_bytes());
        body.extend(attributes);
    }
    record(V2, if address.len() == 4 { 2 } else { 4 }, &body)
}

fn table_dump(address: [u8; 4], length: u8, path: &[(u8, &[u32])]) -> Vec<u8> {
    let attributes = attributes(path, 2);
    let mut body = vec![0, 0, 0, 7];
    body.extend(address);
    body.extend([length, 1, 0x53, 0x7e, 0xde, 0x60, 192, 0, 2, 1]);
    body.extend(64500_u16.to_be_bytes());
    body.extend((attributes.len() as u16).to_be_bytes());
    body.extend(attributes);
    record(V1, 1, &body)
}

fn read(bytes: &[u8], family: Family) -> Result<Reading, BlocksError> {
    Blocks::read("rib", bytes, family, Unit::Blocks)
}

fn check(records: &[Vec<u8>], expect: &[(u32, u64)]) -> Reading {
    let reading = read(&records.concat(), Family::Ipv4).unwrap();
    let counts = reading.blocks.counts().iter();
    assert_eq!(
        counts.map(|(asn, n)| (asn.0, *n)).collect::<Vec<_>>(),
        expect
    );
    reading
}

#[test]
fn the_origin_is_the_last_as_of_the_path() {
    let nets = [
        peers(),
        rib(&[10, 0, 0, 0], 22, &[&[(2, &[64500, 3356, 65550])]]),
        rib(&[10, 0, 1, 0], 24, &[&[(2, &[64500, 701])]]),
        rib(&[11, 0, 0, 0], 24, &[&[]]),
    ];
    let reading = check(&nets, &[(701, 1), (65550, 3)]);
    assert_eq!(
        (reading.prefixes, reading.without_origin, reading.cut),
        (3, 1, None)
    );
    check(
        &[
            table_dump([10, 0, 0, 0], 23, &[(2, &[64500, 7018])]),
            table_dump([10, 0, 0, 0], 24, &[(2, &[64500, 7])]),
        ],
        &[(7, 1), (7018, 1)],
    );
}

#[test]
fn of_several_origins_that_of_most_entries_counts_and_of_a_set_the_first() {
    let of = |origins: &[u32]| {
        let paths: Vec<[u32; 2]> = origins.iter().map(|origin| [64500, *origin]).collect();
        let paths: Vec<[(u8, &[u32]); 1]> = paths.iter().map(|path| [(2, &path[..])]).collect();
        let paths: Vec<&[(u8, &[u32])]> = paths.iter().map(|path| &path[..]).collect();
        rib(&[10, 0, 0, 0], 24, &paths)
    };
    let reading = check(&[peers(), of(&[9, 5, 9, 5, 9])], &[(9, 1)]);
    assert_eq!((reading.several_origins, reading.prefixes), (1, 5));
    check(&[peers(), of(&[9, 5])], &[(5, 1)]);
    let set = rib(&[10, 0, 0, 0], 24, &[&[(2, &[64500, 3]), (1, &[12, 11])]]);
    assert_eq!(check(&[peers(), set], &[(12, 1)]).several_origins, 1);
}

#[test]
fn ipv6_has_blocks_of_48_bits() {
    let address: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let bytes = [peers(), rib(&address, 47, &[&[(2, &[64500, 4])]])].concat();
    let reading = read(&bytes, Family::Ipv6).unwrap();
    assert_eq!(reading.blocks.counts(), [(Asn(4), 2)]);
    let none = read(&bytes, Family::Ipv4).unwrap_err().to_string();
    assert!(none.starts_with("rib: no IPv4 prefix"), "{none}");
}

#[test]
fn a_table_that_breaks_off_gives_what_came_before_wherever_it_breaks() {
    let first = [peers(), rib(&[10, 0, 0, 0], 24, &[&[(2, &[64500, 1])]])].concat();
    let whole = [
        first.clone(),
        rib(&[10, 0, 1, 0], 24, &[&[(2, &[64500, 2])]]),
    ]
    .concat();
    for length in first.len() + 1..whole.len() {
        let reading = read(&whole[..length], Family::Ipv4).unwrap();
        assert_eq!(reading.blocks.counts(), [(Asn(1), 1)]);
        let cut = reading.cut.expect("cut");
        assert_eq!(
            cut.after,
            format!("record 2, byte {} (unpacked)", first.len())
        );
    }
    for length in 12..first.len() {
        let error = read(&first[..length], Family::Ipv4)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("rib: "), "{error}");
    }
}

#[test]
fn a_record_that_cannot_be_read_is_passed_over_and_counted() {
    // A prefix of 99 bits.
    let mut bad = rib(&[10, 0, 2, 0], 24, &[&[(2, &[64500, 2])]]);
    bad[16] = 99;
    let good = rib(&[10, 0, 1, 0], 24, &[&[(2, &[64500, 2])]]);
    let reading = check(&[peers(), bad, good], &[(2, 1)]);
    assert_eq!(reading.bad_records, 1);
}

#[test]
fn what_is_no_table_is_refused_with_what_it_is() {
    let check = |bytes: &[u8], expect: &str| {
        let error = read(bytes, Family::Ipv4).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let message = record(MESSAGES, 4, &[0; 40]);
    check(
        &message.repeat(3),
        "3 of 3 records are BGP messages and states; expected a routing table",
    );
    // A length that no record has: nothing is set aside for it.
    let mut long = rib(&[10, 0, 0, 0], 24, &[&[(2, &[64500, 1])]]);
    long[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    check(&long, "breaks off after record 0, byte 0");
    check(&[0; 200], "rib: ");
}
