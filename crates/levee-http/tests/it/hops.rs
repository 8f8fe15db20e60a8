//! Who the client is: trusted hops from the right, and the PROXY protocol.

use std::net::IpAddr;

use levee_http::forwarded::{HOPS_MAX, Source, address, origin};
use levee_http::proxy_protocol::{Header, V2_BYTES_MAX, Versions, parse};
use levee_http::request::Head;
use levee_http::{Limits, Parsed};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Hops in 10.0.0.0/8 and fd00::/8 are trusted.
fn trusted(a: IpAddr) -> bool {
    match a {
        IpAddr::V4(a) => a.octets()[0] == 10,
        IpAddr::V6(a) => a.octets()[0] == 0xfd,
    }
}

fn client(source: Source, peer: &str, fields: &[&str]) -> (IpAddr, Option<bool>) {
    let lines: String = fields.iter().map(|f| format!("{f}\r\n")).collect();
    let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let Ok(Parsed::Complete { head, .. }) = Head::parse(bytes.as_bytes(), &Limits::default())
    else {
        panic!("{bytes:?} is good");
    };
    let found = origin(
        head.on(bytes.as_bytes()).fields(),
        ip(peer),
        source,
        trusted,
    );
    (found.client, found.https)
}

#[test]
fn x_forwarded_for_from_the_right() {
    let check = |peer: &str, fields: &[&str], expect: &str| {
        assert_eq!(
            client(Source::XForwarded, peer, fields).0,
            ip(expect),
            "{peer} {fields:?}"
        );
    };
    let xff = "X-Forwarded-For: 198.51.100.1, 198.51.100.2, 10.0.0.9";
    check("192.0.2.1", &[xff], "192.0.2.1");
    check("10.0.0.1", &[], "10.0.0.1");
    check("10.0.0.1", &[xff], "198.51.100.2");
    check("::ffff:10.0.0.1", &[xff], "198.51.100.2");
    check(
        "10.0.0.1",
        &["X-Forwarded-For: 198.51.100.1", "X-Forwarded-For: 10.0.0.2"],
        "198.51.100.1",
    );
    check(
        "10.0.0.1",
        &["X-Forwarded-For: 10.0.0.2", "X-Forwarded-For: 198.51.100.1"],
        "198.51.100.1",
    );
    check(
        "10.0.0.1",
        &["X-Forwarded-For: 10.0.0.3,10.0.0.2"],
        "10.0.0.3",
    );
    check(
        "10.0.0.1",
        &["X-Forwarded-For: 198.51.100.1, unknown, 10.0.0.2"],
        "10.0.0.2",
    );
    check(
        "10.0.0.1",
        &["X-Forwarded-For: 198.51.100.1, <script>"],
        "10.0.0.1",
    );
    check("10.0.0.1", &["X-Forwarded-For: "], "10.0.0.1");
    check(
        "10.0.0.1",
        &["X-Forwarded-For: 198.51.100.1:443"],
        "198.51.100.1",
    );
    check("fd00::1", &["X-Forwarded-For: 2001:db8::1"], "2001:db8::1");
    check(
        "fd00::1",
        &["X-Forwarded-For: [2001:db8::1]:443"],
        "2001:db8::1",
    );
    check(
        "10.0.0.1",
        &["X-Forwarded-For: ::ffff:10.1.1.1, ::ffff:10.0.0.2"],
        "10.1.1.1",
    );
    // The other fields are the client's own words.
    check(
        "10.0.0.1",
        &["Forwarded: for=198.51.100.1", "X-Real-IP: 198.51.100.2"],
        "10.0.0.1",
    );
    let long = format!(
        "X-Forwarded-For: 198.51.100.1{}",
        ", 10.0.0.2".repeat(HOPS_MAX - 1)
    );
    check("10.0.0.1", &[&long], "198.51.100.1");
    check("10.0.0.1", &[&format!("{long}, 10.0.0.2")], "10.0.0.2");
}

#[test]
fn the_scheme_that_a_hop_tells() {
    let check = |source, peer: &str, fields: &[&str], expect| {
        assert_eq!(client(source, peer, fields).1, expect, "{peer} {fields:?}");
    };
    let x = Source::XForwarded;
    check(x, "10.0.0.1", &["X-Forwarded-Proto: https"], Some(true));
    check(x, "10.0.0.1", &["X-Forwarded-Proto: HTTP"], Some(false));
    check(
        x,
        "10.0.0.1",
        &["X-Forwarded-Proto: https, http"],
        Some(false),
    );
    check(x, "10.0.0.1", &["X-Forwarded-Proto: gopher"], None);
    check(x, "192.0.2.1", &["X-Forwarded-Proto: https"], None);
    let f = Source::Forwarded;
    check(
        f,
        "10.0.0.1",
        &["Forwarded: for=192.0.2.1;proto=https"],
        Some(true),
    );
    check(
        f,
        "10.0.0.1",
        &["Forwarded: for=192.0.2.1;proto=https, for=10.0.0.2;proto=http"],
        Some(true),
    );
    check(
        f,
        "10.0.0.1",
        &["Forwarded: for=192.0.2.9;proto=http, for=192.0.2.1;proto=https"],
        Some(true),
    );
    check(
        f,
        "192.0.2.1",
        &["Forwarded: for=192.0.2.1;proto=https"],
        None,
    );
}

#[test]
fn forwarded_from_the_right() {
    let check = |fields: &[&str], expect: &str| {
        assert_eq!(
            client(Source::Forwarded, "10.0.0.1", fields).0,
            ip(expect),
            "{fields:?}"
        );
    };
    check(&["Forwarded: for=192.0.2.43"], "192.0.2.43");
    check(
        &["Forwarded: For=\"[2001:db8:cafe::17]:4711\""],
        "2001:db8:cafe::17",
    );
    check(
        &["Forwarded: for=192.0.2.43, for=198.51.100.17"],
        "198.51.100.17",
    );
    check(
        &[
            "Forwarded: for=192.0.2.43",
            "Forwarded: by=10.0.0.3 ; for=10.0.0.2",
        ],
        "192.0.2.43",
    );
    check(
        &["Forwarded: for=192.0.2.43;host=\"a,b\";proto=http, for=10.0.0.2"],
        "192.0.2.43",
    );
    check(
        &["Forwarded: for=192.0.2.43, for=_hidden, for=10.0.0.2"],
        "10.0.0.2",
    );
    check(&["Forwarded: for=192.0.2.43, for=unknown"], "10.0.0.1");
    check(&["Forwarded: for=192.0.2.43;for=192.0.2.44"], "10.0.0.1");
    check(&["Forwarded: for= 192.0.2.43"], "10.0.0.1");
    check(&["Forwarded: for=\"192.0.2.43"], "10.0.0.1");
    check(&["Forwarded: proto=http"], "10.0.0.1");
    check(&["X-Forwarded-For: 192.0.2.43"], "10.0.0.1");
    // A quote that the client left open hides no hop.
    check(&["Forwarded: for=\"evil, for=192.0.2.43"], "192.0.2.43");
    check(
        &["Forwarded: for=evil\\\", for=\"192.0.2.43:5\""],
        "192.0.2.43",
    );
}

#[test]
fn addresses() {
    let check = |text: &str, expect: Option<&str>| {
        assert_eq!(address(text.as_bytes()), expect.map(ip), "{text:?}");
    };
    check("192.0.2.1", Some("192.0.2.1"));
    check(" 192.0.2.1 ", Some("192.0.2.1"));
    check("192.0.2.1:80", Some("192.0.2.1"));
    check("::1", Some("::1"));
    check("[::1]", Some("::1"));
    check("[::1]:80", Some("::1"));
    check("::ffff:192.0.2.1", Some("192.0.2.1"));
    for bad in [
        "",
        "192.0.2",
        "192.0.2.256",
        "192.0.2.1:x",
        "[192.0.2.1]",
        "unknown",
        "_a",
        "a.example",
        "010.0.0.1",
    ] {
        check(bad, None);
    }
}

fn proxied(source: &str, destination: &str) -> Header {
    Header::Proxied {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
    }
}

#[test]
fn version_1() {
    let check = |line: &str, expect: Result<Header, ()>| {
        let got = match parse(line.as_bytes(), Versions::V1) {
            Ok(Parsed::Complete { head, len }) => {
                assert_eq!(len, line.find("\r\n").unwrap() + 2);
                Ok(head)
            }
            Ok(Parsed::Partial) => panic!("{line:?} goes on"),
            Err(_) => Err(()),
        };
        assert_eq!(got, expect, "{line:?}");
    };
    check(
        "PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\nGET /",
        Ok(proxied("192.0.2.1:56324", "192.0.2.2:443")),
    );
    check(
        "PROXY TCP6 2001:db8::1 ::1 0 65535\r\n",
        Ok(proxied("[2001:db8::1]:0", "[::1]:65535")),
    );
    check(
        "PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n",
        Ok(proxied("192.0.2.1:1", "[::1]:2")),
    );
    check("PROXY UNKNOWN\r\n", Ok(Header::Local));
    check("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", Ok(Header::Local));
    for bad in [
        "PROXY\r\n",
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
        "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 02\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 +2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 \r\n",
        "PROXY TCP4 2001:db8::1 ::1 1 2\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 a.example 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n\r\n",
        "PROXX TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "GET / HTTP/1.1\r\n",
        "\r\n\r\n\0\r\nQUIT\n\r\n",
    ] {
        check(bad, Err(()));
    }
    let long = |n: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(n - 16));
    check(&long(107), Ok(Header::Local));
    check(&long(108), Err(()));
    assert_eq!(
        parse(&long(200).as_bytes()[..106], Versions::Any),
        Ok(Parsed::Partial)
    );
    assert!(parse(&long(200).as_bytes()[..107], Versions::Any).is_err());
    assert!(parse(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", Versions::V2).is_err());
}

fn v2(version_command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    bytes.extend([version_command, family]);
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend(body);
    bytes
}

#[test]
fn version_2() {
    let check = |bytes: &[u8], expect: Result<Header, ()>| {
        let got = match parse(bytes, Versions::Any) {
            Ok(Parsed::Complete { head, len }) => {
                assert_eq!(len, bytes.len());
                Ok(head)
            }
            Ok(Parsed::Partial) => panic!("{} goes on", bytes.escape_ascii()),
            Err(_) => Err(()),
        };
        assert_eq!(got, expect, "{}", bytes.escape_ascii());
    };
    let four = [192, 0, 2, 1, 192, 0, 2, 2, 0x12, 0x34, 0, 80];
    let mut six = [0u8; 36];
    six[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    six[15] = 1;
    six[31] = 2;
    six[33] = 7;
    six[35] = 80;
    let tlv = [&four[..], &[4, 0, 1, 0]].concat();
    check(
        &v2(0x21, 0x11, &four),
        Ok(proxied("192.0.2.1:4660", "192.0.2.2:80")),
    );
    check(
        &v2(0x21, 0x11, &tlv),
        Ok(proxied("192.0.2.1:4660", "192.0.2.2:80")),
    );
    check(
        &v2(0x21, 0x21, &six),
        Ok(proxied("[2001:db8::1]:7", "[::2]:80")),
    );
    check(&v2(0x20, 0x11, &four), Ok(Header::Local));
    check(&v2(0x20, 0, &[]), Ok(Header::Local));
    check(&v2(0x21, 0, &[]), Ok(Header::Local));
    check(&v2(0x21, 0x31, &[0; 216]), Ok(Header::Local));
    check(&v2(0x21, 0x12, &four), Ok(Header::Local));
    check(&v2(0x21, 0x11, &four[..11]), Err(()));
    check(&v2(0x21, 0x21, &six[..35]), Err(()));
    check(&v2(0x11, 0x11, &four), Err(()));
    check(&v2(0x31, 0x11, &four), Err(()));
    check(&v2(0x22, 0x11, &four), Err(()));
    check(&v2(0x21, 0x41, &four), Err(()));
    check(&v2(0x21, 0x13, &four), Err(()));
    check(
        &v2(0x21, 0x11, &[1; V2_BYTES_MAX - 16]),
        Ok(proxied("1.1.1.1:257", "1.1.1.1:257")),
    );
    check(&v2(0x21, 0x11, &[1; V2_BYTES_MAX - 15]), Err(()));
    assert!(parse(&v2(0x21, 0x11, &four), Versions::V1).is_err());
    let whole = v2(0x21, 0x11, &four);
    for cut in 0..whole.len() {
        assert_eq!(parse(&whole[..cut], Versions::V2), Ok(Parsed::Partial));
    }
}
