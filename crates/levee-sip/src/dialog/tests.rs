use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::check;
use crate::wire::Scanner;

const VIA: &[u8] = b"SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bKours";

fn invite(lines: &str) -> String {
    format!(
        "INVITE sip:bob@server SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: \"A\" <sip:alice@x>;tag=fa\r\n\
        To: <sip:bob@x>\r\nCall-ID: c1\r\nCSeq: 7 INVITE\r\n{lines}\r\n"
    )
}

fn ok(lines: &str) -> String {
    format!(
        "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP us;branch=z9hG4bK2\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\n\
        From: \"A\" <sip:alice@x>;tag=fa\r\nTo: <sip:bob@x>;tag=tb\r\nCall-ID: c1\r\nCSeq: 7 INVITE\r\n{lines}\r\n"
    )
}

fn caller_of(text: &str) -> Party {
    let mut scanner = Scanner::default();
    let msg = scanner.scan(text.as_bytes()).unwrap();
    let parts = check::request(&msg).unwrap_or_else(|no| panic!("{}: {text}", no.reason));
    caller(&msg, &parts)
}

fn callee_of(text: &str, below: usize) -> Option<Party> {
    let mut scanner = Scanner::default();
    let msg = scanner.scan(text.as_bytes()).unwrap();
    let parts = check::response(&msg).unwrap_or_else(|no| panic!("{no}: {text}"));
    callee(&msg, &parts, below)
}

fn dialog(invite_lines: &str, ok_lines: &str, below: usize) -> Dialog {
    Dialog {
        call_id: (*b"c1").into(),
        caller: caller_of(&invite(invite_lines)),
        callee: callee_of(&ok(ok_lines), below).unwrap(),
    }
}

fn routes(party: &Party) -> Vec<String> {
    party.routes.iter().map(|r| text(r)).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The BYE to one end, which has to pass the check that other proxies and we make.
fn bye(d: &mut Dialog, to: Side) -> String {
    let mut out = Vec::new();
    d.bye(&mut out, to, VIA, b"Reason: SIP;cause=503\r\n");
    accepted(&out);
    text(&out)
}

fn accepted(bytes: &[u8]) {
    let mut scanner = Scanner::default();
    let msg = scanner.scan(bytes).unwrap();
    assert_eq!(msg.defect(), None, "{}", text(bytes));
    if let Err(no) = check::request(&msg) {
        panic!("{}: {}", no.reason, text(bytes));
    }
}

const CONTACT_A: &str = "Contact: <sip:alice@192.0.2.10:5062>\r\n";
const CONTACT_B: &str = "Contact: <sip:bob@192.0.2.20>;expires=9\r\n";

#[test]
fn a_bye_to_each_end_looks_as_from_the_other() {
    let mut d = dialog(CONTACT_A, CONTACT_B, 0);
    let head = "Max-Forwards: 70\r\n";
    assert_eq!(
        bye(&mut d, Side::Callee),
        format!(
            "BYE sip:bob@192.0.2.20 SIP/2.0\r\nVia: {}\r\n{head}From: \"A\" <sip:alice@x>;tag=fa\r\n\
            To: <sip:bob@x>;tag=tb\r\nCall-ID: c1\r\nCSeq: 8 BYE\r\nReason: SIP;cause=503\r\nContent-Length: 0\r\n\r\n",
            text(VIA)
        )
    );
    assert_eq!(
        bye(&mut d, Side::Caller),
        format!(
            "BYE sip:alice@192.0.2.10:5062 SIP/2.0\r\nVia: {}\r\n{head}From: <sip:bob@x>;tag=tb\r\n\
            To: \"A\" <sip:alice@x>;tag=fa\r\nCall-ID: c1\r\nCSeq: 1 BYE\r\nReason: SIP;cause=503\r\nContent-Length: 0\r\n\r\n",
            text(VIA)
        )
    );
    assert_eq!((d.caller.cseq, d.callee.cseq), (8, 1));
}

#[test]
fn the_ack_has_the_number_of_the_invite() {
    let mut d = dialog(CONTACT_A, CONTACT_B, 0);
    d.on_request(Side::Caller, 9, None);
    let mut out = Vec::new();
    d.ack(&mut out, VIA, 7);
    accepted(&out);
    let ack = text(&out);
    assert!(
        ack.starts_with("ACK sip:bob@192.0.2.20 SIP/2.0\r\n"),
        "{ack}"
    );
    assert!(ack.contains("\r\nCSeq: 7 ACK\r\n"), "{ack}");
    assert!(ack.contains("\r\nTo: <sip:bob@x>;tag=tb\r\n"), "{ack}");
    assert_eq!(d.caller.cseq, 9, "an ACK takes no number");
}

/// The first line and the Route lines of a request, in order.
fn way(request: &str) -> Vec<&str> {
    request
        .split("\r\n")
        .enumerate()
        .filter(|(i, l)| *i == 0 || l.starts_with("Route"))
        .map(|(_, l)| l)
        .collect()
}

#[test]
fn each_end_has_the_route_set_of_its_own_side() {
    // p1 stands before us, p2 and p3 behind. The 200 carries them all, the farthest from the caller on top.
    let mut d = dialog(
        &format!("Record-Route: <sip:p1;lr>\r\n{CONTACT_A}"),
        &format!(
            "Record-Route: <sip:p3;lr>,\r\n \"P, 2\" <sip:p2;lr>;x=\",\"\r\n\
            Record-Route: <sip:us;lr>, <sip:p1;lr>\r\n{CONTACT_B}"
        ),
        2,
    );
    assert_eq!(
        way(&bye(&mut d, Side::Callee)),
        [
            "BYE sip:bob@192.0.2.20 SIP/2.0",
            "Route: \"P, 2\" <sip:p2;lr>;x=\",\"",
            "Route: <sip:p3;lr>"
        ]
    );
    assert_eq!(text(d.next_hop(Side::Callee)), "sip:p2;lr");
    assert_eq!(
        way(&bye(&mut d, Side::Caller)),
        [
            "BYE sip:alice@192.0.2.10:5062 SIP/2.0",
            "Route: <sip:p1;lr>"
        ]
    );
    assert_eq!(text(d.next_hop(Side::Caller)), "sip:p1;lr");
}

#[test]
fn what_stood_below_is_counted() {
    let lines = |values: &[&str]| {
        values
            .iter()
            .map(|v| format!("Record-Route: <sip:{v};lr>\r\n"))
            .collect::<String>()
            + CONTACT_B
    };
    let table: &[(&[&str], usize, &[&str])] = &[
        (&[], 0, &[]),
        (&["us", "p1"], 2, &[]),
        (
            &["p3", "p2", "us", "p1"],
            2,
            &["<sip:p2;lr>", "<sip:p3;lr>"],
        ),
        // A spiral: the server sends it back through us. Our name stands in it twice.
        (
            &["us", "server", "us"],
            1,
            &["<sip:server;lr>", "<sip:us;lr>"],
        ),
        // Two of ours, where it changed port.
        (&["server", "us2", "us1"], 2, &["<sip:server;lr>"]),
        // A callee that did not give all of them back.
        (&["p1"], 2, &[]),
        (&[], 2, &[]),
    ];
    for (values, below, want) in table {
        let party = callee_of(&ok(&lines(values)), *below).unwrap();
        assert_eq!(routes(&party), *want, "{values:?} {below}");
    }
}

#[test]
fn of_many_routes_the_nearest_are_kept() {
    let many = |n: usize| {
        (0..n)
            .map(|i| format!("Record-Route: <sip:p{i};lr>\r\n"))
            .collect::<String>()
    };
    let party = caller_of(&invite(&many(20)));
    assert_eq!(party.routes.len(), ROUTES_MAX);
    assert_eq!(routes(&party)[..2], ["<sip:p0;lr>", "<sip:p1;lr>"]);
    // From the callee p19 and p18 stood below.
    let party = callee_of(&ok(&many(20)), 2).unwrap();
    assert_eq!(party.routes.len(), ROUTES_MAX);
    assert_eq!(routes(&party)[..2], ["<sip:p17;lr>", "<sip:p16;lr>"]);
    assert_eq!(routes(&party)[15], "<sip:p2;lr>");
    let party = callee_of(&ok(&many(18)), 2).unwrap();
    assert_eq!(
        routes(&party)[15],
        "<sip:p0;lr>",
        "all of them, where there is room"
    );
}

#[test]
fn a_strict_router_is_the_request_uri_and_the_target_comes_last() {
    let ok_lines = format!(
        "Record-Route: <sip:far;lr>\r\nRecord-Route: <sip:strict:5070;x=1?h=v>;y=2\r\n{CONTACT_B}"
    );
    let mut d = dialog(CONTACT_A, &ok_lines, 0);
    assert_eq!(
        way(&bye(&mut d, Side::Callee)),
        [
            "BYE sip:strict:5070;x=1 SIP/2.0",
            "Route: <sip:far;lr>",
            "Route: <sip:bob@192.0.2.20>"
        ]
    );
    assert_eq!(text(d.next_hop(Side::Callee)), "sip:strict:5070;x=1?h=v");
    // It counts only in the first place, and `lr` may have a value.
    for first in ["sip:p;lr=on", "sip:p;a=b;LR", "sips:p;lr"] {
        let ok_lines = format!("Record-Route: <sip:strict>, <{first}>\r\n{CONTACT_B}");
        let mut d = dialog(CONTACT_A, &ok_lines, 0);
        assert_eq!(
            way(&bye(&mut d, Side::Callee)),
            [
                "BYE sip:bob@192.0.2.20 SIP/2.0".to_string(),
                format!("Route: <{first}>"),
                "Route: <sip:strict>".to_string()
            ]
        );
    }
}

#[test]
fn addresses_of_ipv6_stay_in_their_brackets() {
    let mut d = dialog(
        "Record-Route: <sip:[2001:db8::1]:5070;lr>\r\nContact: <sip:a@[2001:db8::a]:5062;transport=tcp>\r\n",
        "Contact: sip:[2001:db8::b];x=1\r\n",
        0,
    );
    assert_eq!(
        way(&bye(&mut d, Side::Callee)),
        ["BYE sip:[2001:db8::b] SIP/2.0"]
    );
    assert_eq!(
        way(&bye(&mut d, Side::Caller)),
        [
            "BYE sip:a@[2001:db8::a]:5062;transport=tcp SIP/2.0",
            "Route: <sip:[2001:db8::1]:5070;lr>"
        ]
    );
}

#[test]
fn where_a_contact_leads() {
    let table = [
        ("", "sip:bob@x"),
        ("Contact: <sip:b@y>, <sip:c@z>\r\n", "sip:b@y"),
        ("m: \"x\" <sips:b@y;p>;q=1\r\n", "sips:b@y;p"),
        // Headers are for who dials such a URI; in a Request-URI they get 400.
        ("Contact: <sip:b@y;p?Subject=x&a=b>\r\n", "sip:b@y;p"),
        ("Contact: <sip:b?x@y>\r\n", "sip:b?x@y"),
        // Nothing that could stand in a request line.
        ("Contact: <no-scheme>\r\n", "sip:bob@x"),
        ("Contact: <sip:b@y\u{1}>\r\n", "sip:bob@x"),
        ("Contact: <sip:b@y\r\n", "sip:bob@x"),
        ("Contact:\r\n", "sip:bob@x"),
    ];
    for (line, want) in table {
        let party = callee_of(&ok(line), 0).unwrap();
        assert_eq!(text(&party.target), want, "{line:?}");
    }
    assert_eq!(
        text(&caller_of(&invite("")).target),
        "sip:alice@x",
        "of RFC 2543"
    );
}

#[test]
fn ends_without_tags() {
    // A caller of RFC 2543 has none; without one of the callee there is no dialog.
    let no_from_tag = invite(CONTACT_A).replace(";tag=fa", "");
    let mut d = dialog(CONTACT_A, CONTACT_B, 0);
    d.caller = caller_of(&no_from_tag);
    assert_eq!((&*d.caller.tag, d.sender(b"")), (&b""[..], Side::Caller));
    assert!(bye(&mut d, Side::Caller).contains("\r\nTo: \"A\" <sip:alice@x>\r\n"));
    assert_eq!(callee_of(&ok(CONTACT_B).replace(";tag=tb", ""), 0), None);
    assert_eq!(
        callee_of(&ok(CONTACT_B).replace(";tag=tb", ";tag"), 0),
        None
    );
    let odd = callee_of(
        &ok(CONTACT_B).replace(";tag=tb", " ; x=\";tag=no\" ;TAG\r\n = tb"),
        0,
    );
    assert_eq!(text(&odd.unwrap().tag), "tb");
}

#[test]
fn a_request_tells_its_sender_its_number_and_perhaps_its_place() {
    let mut d = dialog(CONTACT_A, CONTACT_B, 0);
    assert_eq!(d.sender(b"fa"), Side::Caller);
    assert_eq!(d.sender(b"tb"), Side::Callee);
    d.on_request(Side::Callee, 100, Some(b"sip:bob@new"));
    d.on_request(Side::Callee, 99, None);
    assert_eq!(
        (d.callee.cseq, d.caller.cseq),
        (100, 7),
        "one's own, and the highest"
    );
    let to_callee = bye(&mut d, Side::Callee);
    assert!(
        to_callee.starts_with("BYE sip:bob@new SIP/2.0\r\n"),
        "{to_callee}"
    );
    assert!(to_callee.contains("\r\nCSeq: 8 BYE\r\n"), "{to_callee}");
    assert!(bye(&mut d, Side::Caller).contains("\r\nCSeq: 101 BYE\r\n"));
    assert!(
        bye(&mut d, Side::Caller).contains("\r\nCSeq: 102 BYE\r\n"),
        "each takes one"
    );
}

/// An end that uses up the numbers is not safe from the BYE that goes in its name: 2^31 would get 400.
#[test]
fn the_last_cseq_number_is_used_again() {
    for used in [(1u32 << 31) - 2, (1 << 31) - 1, u32::MAX] {
        let mut d = dialog(CONTACT_A, CONTACT_B, 0);
        d.on_request(Side::Caller, used, None);
        let bye = bye(&mut d, Side::Callee);
        assert!(bye.contains("\r\nCSeq: 2147483647 BYE\r\n"), "{bye}");
    }
}

#[test]
fn folded_values_are_passed_on_as_they_came() {
    let invite = invite(CONTACT_A).replace(
        "\"A\" <sip:alice@x>;tag=fa",
        "\"A\"\r\n <sip:alice@x>\r\n\t;tag=fa",
    );
    let mut d = dialog(CONTACT_A, CONTACT_B, 0);
    d.caller = caller_of(&invite);
    for side in [Side::Caller, Side::Callee] {
        assert!(bye(&mut d, side).contains(": \"A\"\r\n <sip:alice@x>\r\n\t;tag=fa\r\n"));
    }
}
