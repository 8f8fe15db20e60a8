use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::wire::Scanner;

fn text(b: &[u8]) -> &str {
    core::str::from_utf8(b).unwrap()
}

fn message<T>(headers: &str, look: impl Fn(&Message<'_>) -> T) -> T {
    let bytes = ["BYE sip:a SIP/2.0\r\n", headers, "\r\n"].concat();
    let mut scanner = Scanner::default();
    let msg = scanner.scan(bytes.as_bytes()).unwrap();
    assert_eq!(msg.defect(), None, "{headers:?}");
    look(&msg)
}

/// Display name, URI, parameters.
fn name_addr(value: &str) -> Result<(&str, &str, &str), Bad> {
    NameAddr::parse(value.as_bytes())
        .map(|n| (text(n.display), text(n.uri), text(n.params.bytes())))
}

#[test]
fn name_addrs_alone() {
    let table = [
        ("<sip:a>", Ok(("", "sip:a", ""))),
        (" <sip:a> ", Ok(("", "sip:a", ""))),
        ("A<sip:a>", Ok(("A", "sip:a", ""))),
        ("A  b. c <sip:a>", Ok(("A  b. c", "sip:a", ""))),
        ("A\r\n b <sip:a>", Ok(("A\r\n b", "sip:a", ""))),
        ("\u{fc} <sip:a>", Ok(("\u{fc}", "sip:a", ""))),
        ("\"\"<sip:a>", Ok(("\"\"", "sip:a", ""))),
        ("\"a<,;\" <sip:a>", Ok(("\"a<,;\"", "sip:a", ""))),
        ("\"a\\\"b\" <sip:a>", Ok(("\"a\\\"b\"", "sip:a", ""))),
        ("\"a\\\\\" <sip:a>", Ok(("\"a\\\\\"", "sip:a", ""))),
        ("<sip:a;lr?x=y>;q", Ok(("", "sip:a;lr?x=y", ";q"))),
        (
            "<sip:a> ; tag = 1 ;\r\n x",
            Ok(("", "sip:a", "; tag = 1 ;\r\n x")),
        ),
        ("sip:a", Ok(("", "sip:a", ""))),
        ("sip:a;tag=1", Ok(("", "sip:a", ";tag=1"))),
        ("sip:a ;tag=1", Ok(("", "sip:a", ";tag=1"))),
        ("tel:+1", Ok(("", "tel:+1", ""))),
        (
            "<sip:a>;x=\"; , \\\" \"",
            Ok(("", "sip:a", ";x=\"; , \\\" \"")),
        ),
        ("<sip:a>;tag=a#b|c{d}=", Ok(("", "sip:a", ";tag=a#b|c{d}="))),
        ("", Err(Bad::DisplayName)),
        ("a@b", Err(Bad::DisplayName)),
        ("A, b <sip:a>", Err(Bad::DisplayName)),
        ("\"A\" sip:a", Err(Bad::DisplayName)),
        ("\"A <sip:a>", Err(Bad::Quote)),
        ("\"A\\\"", Err(Bad::Quote)),
        ("\"A\\", Err(Bad::Quote)),
        ("<sip:a", Err(Bad::Bracket)),
        ("<>", Err(Bad::UriChar)),
        ("< sip:a>", Err(Bad::UriChar)),
        ("<sip:a\r\n >", Err(Bad::UriChar)),
        ("sip:a?x=y", Err(Bad::NeedsBrackets)),
        ("<sip:a>x", Err(Bad::Trailing)),
        ("<sip:a>,<sip:b>", Err(Bad::Trailing)),
        ("sip:a,sip:b", Err(Bad::Trailing)),
        ("<sip:a>;", Err(Bad::Param)),
        ("<sip:a>;;x", Err(Bad::Param)),
        ("<sip:a>;=x", Err(Bad::Param)),
        ("<sip:a>;x=", Err(Bad::Param)),
        ("<sip:a>;x=;y", Err(Bad::Param)),
        ("<sip:a>;x=\"y", Err(Bad::Quote)),
        ("<sip:a>;x=y z", Err(Bad::Trailing)),
    ];
    for (value, want) in table {
        assert_eq!(name_addr(value), want, "{value:?}");
    }
}

#[test]
fn parameters_are_found_by_name_in_any_case() {
    let p = Params::new(b";A;b = c ;d=\"e;f\";g=\"\";lr;b=2");
    assert_eq!(p.get(b"a"), Some(None));
    assert_eq!(p.get(b"B"), Some(Some(&b"c"[..])), "the first counts");
    assert_eq!(p.get(b"d"), Some(Some(&b"e;f"[..])));
    assert_eq!(p.get(b"f"), None, "not inside a quoted string");
    assert_eq!(p.get(b"g"), Some(Some(&b""[..])));
    assert_eq!(p.get(b"l"), None);
    assert_eq!(p.iter().filter(Result::is_ok).count(), 6);
    let broken = Params::new(b";a;;b");
    assert_eq!(broken.get(b"a"), Some(None));
    assert_eq!(broken.get(b"b"), None);
    assert_eq!(broken.iter().count(), 2, "the bad one ends it");
}

fn list(value: &str) -> Vec<Result<String, Bad>> {
    name_addrs(value.as_bytes())
        .map(|l| l.map(|l| value[l.from..l.to].to_string()))
        .collect()
}

#[test]
fn lists_keep_the_place_of_each_value() {
    let ok = |s: &str| Ok(s.to_string());
    let table = [
        ("<sip:a>", &[ok("<sip:a>")][..]),
        (
            "<sip:a;x>;y , \"b, c\" <sip:b>,\r\n sip:c",
            &[ok("<sip:a;x>;y"), ok("\"b, c\" <sip:b>"), ok("sip:c")],
        ),
        ("<sip:a>,", &[ok("<sip:a>"), Err(Bad::DisplayName)]),
        ("<sip:a>,,<sip:b>", &[ok("<sip:a>"), Err(Bad::DisplayName)]),
        (",<sip:a>", &[Err(Bad::DisplayName)]),
        ("<sip:a> <sip:b>", &[Err(Bad::Trailing)]),
        ("", &[Err(Bad::DisplayName)]),
    ];
    for (value, want) in table {
        assert_eq!(list(value), want, "{value:?}");
    }
}

/// Version, transport, host, port, branch.
type ViaParts<'a> = (bool, &'a str, &'a str, Option<u16>, Option<&'a str>);

fn via(value: &str) -> Result<ViaParts<'_>, Bad> {
    vias(value.as_bytes()).next().unwrap().map(|l| {
        let v = l.item;
        let host = v.sent_by;
        (
            v.version_ok,
            text(v.transport),
            text(host.name),
            host.port,
            v.branch().map(text),
        )
    })
}

#[test]
fn via_values() {
    let table = [
        ("SIP/2.0/UDP a", Ok((true, "UDP", "a", None, None))),
        (
            "sip/2.0/udp a:1;branch=b",
            Ok((true, "udp", "a", Some(1), Some("b"))),
        ),
        (
            "SIP\r\n /\t2.0 / UDP\r\n a : 1 ;\r\n branch\r\n =\r\n b ",
            Ok((true, "UDP", "a", Some(1), Some("b"))),
        ),
        (
            "SIP/2.0/TLS [::1]:5061;received=::1;branch=b",
            Ok((true, "TLS", "::1", Some(5061), Some("b"))),
        ),
        ("SIP/2.0/X-9 a;branch", Ok((true, "X-9", "a", None, None))),
        ("SIP/3.0/UDP a", Ok((false, "UDP", "a", None, None))),
        ("SAP/2.0/UDP a", Ok((false, "UDP", "a", None, None))),
        (
            "SIP/2.0/UDP a,SIP/2.0/UDP b",
            Ok((true, "UDP", "a", None, None)),
        ),
        ("SIP/2.0/UDPa", Err(Bad::Via)),
        ("SIP/2.0/UDP", Err(Bad::Via)),
        ("SIP/2.0/ a", Err(Bad::Via)),
        ("SIP/2.0 a", Err(Bad::Via)),
        ("SIP 2.0/UDP a", Err(Bad::Via)),
        ("", Err(Bad::Via)),
        ("SIP/2.0/UDP ;branch=b", Err(Bad::Host)),
        ("SIP/2.0/UDP [::1;branch=b", Err(Bad::Host)),
        ("SIP/2.0/UDP a:65536", Err(Bad::Port)),
        ("SIP/2.0/UDP a:", Err(Bad::Port)),
        ("SIP/2.0/UDP a;;branch=b", Err(Bad::Param)),
        ("SIP/2.0/UDP a;branch=", Err(Bad::Param)),
        ("SIP/2.0/UDP a b", Err(Bad::Trailing)),
    ];
    for (value, want) in table {
        assert_eq!(via(value), want, "{value:?}");
    }
}

#[test]
fn an_answer_reads_a_via_as_far_as_it_can() {
    let answer = |v: &str| {
        message(&["Via: ", v, "\r\n"].concat(), |m| {
            m.answer_via()
                .map(|v| (text(v.sent_by.name).to_string(), v.wants_rport()))
        })
    };
    let some = |host: &str, rport| Some((host.to_string(), rport));
    assert_eq!(answer("SIP/2.0/UDP a;rport;;x"), some("a", true));
    assert_eq!(answer("SIP/2.0/UDP a;;rport"), some("a", false));
    assert_eq!(answer("SIP/2.0/UDP a b c"), some("a", false));
    assert_eq!(answer("SIP/2.0/UDP"), None);
}

#[test]
fn cseq_values() {
    let table = [
        ("0 A", Ok((0, "A"))),
        ("0009\r\n  INVITE", Ok((9, "INVITE"))),
        ("2147483647 A", Ok((2_147_483_647, "A"))),
        ("2147483648 A", Err(Bad::Number)),
        ("36893488147419103232 A", Err(Bad::Number)),
        ("-1 A", Err(Bad::Number)),
        ("A", Err(Bad::Number)),
        ("", Err(Bad::Number)),
        ("1", Err(Bad::Method)),
        ("1 ", Err(Bad::Method)),
        ("1A", Err(Bad::Method)),
        ("1 @", Err(Bad::Method)),
        ("1 A B", Err(Bad::Trailing)),
    ];
    for (value, want) in table {
        let got = CSeq::parse(value.as_bytes()).map(|c| (c.number, text(c.token)));
        assert_eq!(got, want, "{value:?}");
    }
    let method = |v: &str| CSeq::parse(v.as_bytes()).unwrap().method;
    assert_eq!(method("1 INVITE"), Method::Invite);
    assert_eq!(method("1 invite"), Method::Other);
}

#[test]
fn session_expires_values() {
    let table = [
        ("90", Ok((90, None))),
        ("1800;refresher=uac", Ok((1800, Some(Refresher::Uac)))),
        ("1800 ; x;Refresher = UAS", Ok((1800, Some(Refresher::Uas)))),
        ("1800;refresher=me", Ok((1800, None))),
        ("4294967295", Ok((u32::MAX, None))),
        ("4294967296", Err(Bad::Number)),
        ("", Err(Bad::Number)),
        (";refresher=uac", Err(Bad::Number)),
        ("1800 x", Err(Bad::Param)),
        ("1800;", Err(Bad::Param)),
    ];
    for (value, want) in table {
        let got = SessionExpires::parse(value.as_bytes()).map(|s| (s.seconds, s.refresher));
        assert_eq!(got, want, "{value:?}");
    }
}

#[test]
fn call_ids() {
    for good in ["a", "a@b", "w<o>:\\/\"[r]?{d}@x", "\u{fc}"] {
        assert!(parse_call_id(good.as_bytes()).is_ok(), "{good:?}");
    }
    for bad in ["", "a b", "a\tb", "a\r\n b", "a\0", "a\u{7f}"] {
        assert_eq!(parse_call_id(bad.as_bytes()), Err(Bad::CallId), "{bad:?}");
    }
}

#[test]
fn what_stands_once_is_missing_good_or_doubled() {
    assert_eq!(message("", |m| m.from().err()), Some(Bad::Missing));
    assert_eq!(message("", |m| m.top_via().err()), Some(Bad::Missing));
    assert_eq!(message("i: a\r\n", |m| m.call_id().map(<[u8]>::len)), Ok(1));
    let twice = "i: a\r\nCall-ID: a\r\n";
    assert_eq!(message(twice, |m| m.call_id().err()), Some(Bad::Twice));
}

#[test]
fn max_forwards_values() {
    let read = |v: &str| {
        message(&["Max-Forwards: ", v, "\r\n"].concat(), |m| {
            m.max_forwards()
        })
    };
    assert_eq!(message("", |m| m.max_forwards().ok()), Some(None));
    assert_eq!(read("0"), Ok(Some(0)));
    assert_eq!(read("0070"), Ok(Some(70)));
    assert_eq!(read("255"), Ok(Some(255)));
    for bad in ["256", "-1", "", "7 0", "x"] {
        assert_eq!(read(bad), Err(Bad::Number), "{bad:?}");
    }
}

#[test]
fn the_first_contact_that_is_an_address() {
    let uri = |headers: &str| {
        message(headers, |m| {
            m.contact().map(|c| c.map(|c| text(c.uri).to_string()))
        })
    };
    assert_eq!(uri(""), Ok(None));
    assert_eq!(uri("m: *\r\n"), Ok(None));
    assert_eq!(
        uri("m: <sip:a>, <sip:b>\r\n"),
        Ok(Some("sip:a".to_string()))
    );
    assert_eq!(uri("m:\r\n"), Err(Bad::DisplayName));
}

#[test]
fn option_tags_of_all_lines() {
    let has = |tag: &[u8]| {
        message("k: 100rel ,\r\n TIMER\r\nSupported: path\r\n", |m| {
            m.has_option(Name::Supported, tag)
        })
    };
    assert!(has(b"100rel") && has(b"timer") && has(b"path"));
    assert!(!has(b"time") && !has(b""));
}
