use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

use super::*;
use crate::wire::{Limits, Scanner};

const OURS: &[u8] = b"SIP/2.0/UDP us:5060;branch=z9hG4bKours";

fn stamp(source: &str) -> Stamp {
    Stamp {
        source: source.parse().unwrap(),
    }
}

fn plain() -> Forward<'static> {
    Forward {
        uri: None,
        via: OURS,
        stamp: stamp("192.0.2.7:5062"),
        max_forwards: 69,
        routes_popped: 0,
        last_route_popped: false,
        lines: b"",
    }
}

/// Scans without the usual limits; what is written has more headers than what came.
fn with<T>(bytes: &[u8], f: impl FnOnce(&Message<'_>) -> T) -> T {
    let mut scanner = Scanner::new(Limits {
        message_bytes_max: usize::MAX,
        headers_max: usize::MAX,
    });
    f(&scanner.scan(bytes).unwrap())
}

fn forward(text: &str, f: &Forward<'_>) -> String {
    let mut out = Vec::new();
    with(text.as_bytes(), |msg| forward_request(&mut out, msg, f));
    String::from_utf8(out).unwrap()
}

/// The request with these header lines, forwarded: the lines after our Via.
fn forwarded_lines(lines: &str, f: &Forward<'_>) -> String {
    let out = forward(&format!("BYE sip:b@x SIP/2.0\r\n{lines}l: 0\r\n\r\n"), f);
    let head = "BYE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP us:5060;branch=z9hG4bKours\r\n";
    let rest = out.strip_prefix(head).unwrap_or_else(|| panic!("{out}"));
    String::from(
        rest.strip_suffix("l: 0\r\n\r\n")
            .unwrap_or_else(|| panic!("{out}")),
    )
}

#[test]
fn the_top_via_is_stamped_and_nothing_else_of_it_changes() {
    // Via line, source, the same line as it goes on (the other way round of `v` and folds stays).
    let table = [
        // Not asked for, and from where it says: untouched.
        (
            "Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1",
            "192.0.2.7:9",
            "",
        ),
        (
            "v:SIP/2.0/UDP 192.0.2.7:5060 ; branch = z9hG4bK1 ;x",
            "192.0.2.7:9",
            "",
        ),
        (
            "Via: SIP/2.0/UDP [2001:DB8:0::7];branch=z9hG4bK1",
            "[2001:db8::7]:9",
            "",
        ),
        (
            "Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1",
            "[::ffff:192.0.2.7]:9",
            "",
        ),
        // From elsewhere, or by name (RFC 3261 section 18.2.1).
        (
            "Via: SIP/2.0/UDP 192.0.2.8;branch=z9hG4bK1",
            "192.0.2.7:9",
            "Via: SIP/2.0/UDP 192.0.2.8;branch=z9hG4bK1;received=192.0.2.7",
        ),
        (
            "Via: SIP/2.0/UDP host",
            "192.0.2.7:9",
            "Via: SIP/2.0/UDP host;received=192.0.2.7",
        ),
        (
            "v : SIP / 2.0 / UDP host : 5060\r\n ;branch=z9hG4bK1",
            "192.0.2.7:9",
            "v : SIP / 2.0 / UDP host : 5060\r\n ;branch=z9hG4bK1;received=192.0.2.7",
        ),
        (
            "Via:\r\n\tSIP/2.0/UDP [2001:db8::8]:5060;branch=z9hG4bK1",
            "[2001:db8::7]:9",
            "Via:\r\n\tSIP/2.0/UDP [2001:db8::8]:5060;branch=z9hG4bK1;received=2001:db8::7",
        ),
        // RFC 3581: empty, with a value of the client's, in any case.
        (
            "Via: SIP/2.0/UDP 192.0.2.7;rport;branch=z9hG4bK1",
            "192.0.2.7:5062",
            "Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1;received=192.0.2.7;rport=5062",
        ),
        (
            "Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1;RPORT = 1",
            "192.0.2.7:5062",
            "Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1;received=192.0.2.7;rport=5062",
        ),
        // A `received` of the client's own goes, wherever the packet came from.
        (
            "Via: SIP/2.0/UDP 192.0.2.7;received=203.0.113.9;branch=z9hG4bK1",
            "192.0.2.7:9",
            "Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1",
        ),
        (
            "Via: SIP/2.0/UDP h;Received=203.0.113.9;branch=z9hG4bK1;received=[::1]",
            "192.0.2.7:9",
            "Via: SIP/2.0/UDP h;branch=z9hG4bK1;received=192.0.2.7",
        ),
        // A branch is what its sender knows its transaction by: not a character may change, token or not.
        (
            "Via: SIP/2.0/UDP h;rport;branch=z9hG4bK/a=b+c==;x=\"a;received=1\\\";\" ;y = [::1]",
            "192.0.2.7:5062",
            "Via: SIP/2.0/UDP h;branch=z9hG4bK/a=b+c==;x=\"a;received=1\\\";\" ;y = [::1];received=192.0.2.7;rport=5062",
        ),
        (
            "Via: SIP/2.0/UDP h;branch=\"z9hG4bK1\"",
            "192.0.2.7:9",
            "Via: SIP/2.0/UDP h;branch=\"z9hG4bK1\";received=192.0.2.7",
        ),
        // Several values in one line: only the first is the sender's.
        (
            "Via: SIP/2.0/UDP h;rport, SIP/2.0/UDP i;rport;received=1.1.1.1,SIP/2.0/TCP j",
            "192.0.2.7:5062",
            "Via: SIP/2.0/UDP h;received=192.0.2.7;rport=5062, SIP/2.0/UDP i;rport;received=1.1.1.1,SIP/2.0/TCP j",
        ),
        (
            "Via: SIP/2.0/UDP h;rport\r\n , SIP/2.0/UDP i",
            "192.0.2.7:5062",
            "Via: SIP/2.0/UDP h;received=192.0.2.7;rport=5062\r\n , SIP/2.0/UDP i",
        ),
        // Unreadable: not ours to mend.
        ("Via: SIP/2.0/UDP h;=x", "192.0.2.7:9", ""),
    ];
    for (line, source, want) in table {
        let want = if want.is_empty() { line } else { want };
        let below = "Via: SIP/2.0/UDP far;rport;received=1.1.1.1\r\nMax-Forwards: 69\r\n";
        let f = Forward {
            stamp: stamp(source),
            ..plain()
        };
        assert_eq!(
            forwarded_lines(&format!("{line}\r\n{below}"), &f),
            format!("{want}\r\n{below}"),
            "{line:?} from {source}"
        );
    }
}

#[test]
fn routes_are_taken_from_both_ends_whatever_their_lines() {
    const A: &str = "<sip:a;lr>";
    const B: &str = "\"B, <b>\" <sip:b;lr>;x=\",\"";
    const C: &str = "<sip:c>";
    // The values on their lines, popped from the top, the last popped; the lines that stay.
    let table: &[(&[&str], usize, bool, &[&str])] = &[
        (&[], 0, false, &[]),
        (&[], 1, true, &[]),
        (&[A], 0, false, &[A]),
        (&[A], 1, false, &[]),
        (&[A], 0, true, &[]),
        (&[A], 1, true, &[]),
        (&[A], 2, true, &[]),
        (
            &["<sip:a;lr> ,\r\n <sip:c>"],
            0,
            false,
            &["<sip:a;lr> ,\r\n <sip:c>"],
        ),
        (&["<sip:a;lr> ,\r\n <sip:c>"], 1, false, &[C]),
        (&["<sip:a;lr> ,\r\n <sip:c>"], 0, true, &[A]),
        (&["<sip:a;lr> ,\r\n <sip:c>"], 1, true, &[]),
        (
            &["<sip:a;lr>,\"B, <b>\" <sip:b;lr>;x=\",\" ,<sip:c>"],
            1,
            false,
            &["\"B, <b>\" <sip:b;lr>;x=\",\" ,<sip:c>"],
        ),
        (
            &["<sip:a;lr>,\"B, <b>\" <sip:b;lr>;x=\",\" ,<sip:c>"],
            1,
            true,
            &[B],
        ),
        (&[A, B, C], 1, true, &[B]),
        (&[A, B, C], 2, false, &[C]),
        (
            &["<sip:a;lr>,<sip:c>", B, "<sip:c>, <sip:a;lr>"],
            1,
            true,
            &[C, B, C],
        ),
        (
            &["<sip:a;lr>,<sip:c>", B, "<sip:c>, <sip:a;lr>"],
            3,
            false,
            &["<sip:c>, <sip:a;lr>"],
        ),
        (
            &["<sip:a;lr>,<sip:c>", B, "<sip:c>, <sip:a;lr>"],
            9,
            true,
            &[],
        ),
    ];
    let lines = |values: &[&str]| {
        values
            .iter()
            .map(|v| format!("Route: {v}\r\n"))
            .collect::<String>()
    };
    for (values, routes_popped, last_route_popped, want) in table {
        let f = Forward {
            routes_popped: *routes_popped,
            last_route_popped: *last_route_popped,
            ..plain()
        };
        let rest = "Via: SIP/2.0/UDP 192.0.2.7\r\nMax-Forwards: 69\r\n";
        assert_eq!(
            forwarded_lines(&(lines(values) + rest), &f),
            lines(want) + rest,
            "{values:?} {routes_popped} {last_route_popped}"
        );
    }
}

#[test]
fn max_forwards_stands_once_where_it_stood() {
    for (lines, want) in [
        (
            "Max-Forwards: 70\r\nVia: SIP/2.0/UDP 192.0.2.7\r\n",
            "Max-Forwards: 69\r\nVia: SIP/2.0/UDP 192.0.2.7\r\n",
        ),
        (
            "Via: SIP/2.0/UDP 192.0.2.7\r\nMAX-FORWARDS :\r\n 070\r\nX: y\r\n",
            "Via: SIP/2.0/UDP 192.0.2.7\r\nMax-Forwards: 69\r\nX: y\r\n",
        ),
    ] {
        assert_eq!(forwarded_lines(lines, &plain()), want);
    }
    let out = forward("BYE sip:b SIP/2.0\r\nX: y\r\nl: 0\r\n\r\n", &plain());
    assert!(
        out.ends_with("X: y\r\nl: 0\r\nMax-Forwards: 69\r\n\r\n"),
        "{out}"
    );
}

#[test]
fn the_first_line_our_lines_and_the_body() {
    let f = Forward {
        uri: Some(b"sip:new@host"),
        lines: b"Record-Route: <sip:us;lr>\r\n",
        ..plain()
    };
    // No Content-Length: all that follows is the body. What follows a shorter one is not (section 18.3).
    for (length, body, sent_length, sent_body) in [
        ("", "v=0", "Content-Length: 3\r\n", "v=0"),
        ("", "", "Content-Length: 0\r\n", ""),
        ("l:2\r\n", "v=0\r\n", "l:2\r\n", "v="),
        (
            "CONTENT-LENGTH : 0\r\n",
            "v=0",
            "CONTENT-LENGTH : 0\r\n",
            "",
        ),
    ] {
        let text = format!(
            "iNVITE sip:b@x sip/2.0\r\nv: SIP/2.0/UDP 192.0.2.7\r\nMax-Forwards: 1\r\nx-ODD :\t\u{e4} \r\n{length}\r\n{body}"
        );
        assert_eq!(
            forward(&text, &f),
            format!(
                "iNVITE sip:new@host SIP/2.0\r\nVia: SIP/2.0/UDP us:5060;branch=z9hG4bKours\r\nRecord-Route: <sip:us;lr>\r\n\
                v: SIP/2.0/UDP 192.0.2.7\r\nMax-Forwards: 69\r\nx-ODD :\t\u{e4} \r\n{sent_length}\r\n{sent_body}"
            )
        );
    }
}

#[test]
fn a_response_goes_up_without_our_via() {
    // The Via lines, what stays of them.
    let table = [
        (
            "Via: SIP/2.0/UDP us\r\nVia: SIP/2.0/UDP a;rport=1\r\n",
            "Via: SIP/2.0/UDP a;rport=1\r\n",
        ),
        (
            "v: SIP/2.0/UDP us;x=\",\" , SIP/2.0/UDP a ;y=\",\"\r\n",
            "Via: SIP/2.0/UDP a ;y=\",\"\r\n",
        ),
        (
            "Via: SIP/2.0/UDP us,\r\n SIP/2.0/UDP a\r\n ,SIP/2.0/UDP b\r\nv: SIP/2.0/UDP c\r\n",
            "Via: SIP/2.0/UDP a\r\n ,SIP/2.0/UDP b\r\nv: SIP/2.0/UDP c\r\n",
        ),
        (
            "X: y\r\nVia: SIP/2.0/UDP us\r\nX: z\r\nVia: SIP/2.0/UDP a\r\n",
            "X: y\r\nX: z\r\nVia: SIP/2.0/UDP a\r\n",
        ),
        ("Via: SIP/2.0/UDP us\r\n", ""),
        (
            "Via: SIP/2.0/UDP us,\r\nVia: SIP/2.0/UDP a\r\n",
            "Via: SIP/2.0/UDP a\r\n",
        ),
    ];
    for (vias, want) in table {
        let mut out = Vec::new();
        let text = format!("sip/2.0 200 Good \u{e4}\r\n{vias}To : b\r\nl: 1\r\n\r\nxyz");
        with(text.as_bytes(), |msg| {
            forward_response(&mut out, msg, b"A: b\r\n");
        });
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!("sip/2.0 200 Good \u{e4}\r\n{want}To : b\r\nl: 1\r\nA: b\r\n\r\nx"),
            "{vias:?}"
        );
    }
}

fn replied(text: &[u8], code: u16, stamp: Option<Stamp>) -> String {
    let mut out = Vec::new();
    let r = Reply {
        code,
        reason: "Because",
        stamp,
        to_tag: b"ours",
        lines: b"A: b\r\n",
    };
    with(text, |msg| reply(&mut out, msg, &r));
    String::from_utf8(out).unwrap()
}

#[test]
fn an_answer_repeats_what_it_must() {
    let request = "INVITE sip:b@x SIP/2.0\r\nv: SIP/2.0/UDP h;rport\r\nf: <sip:a>;tag=1\r\nTimestamp: 5\r\nt: <sip:b>\r\n\
        i: c\r\nVia: SIP/2.0/UDP i\r\nRecord-Route: <sip:p;lr>\r\nCSeq:  1 INVITE\r\nX: y\r\nl: 3\r\n\r\nabc";
    let from = Some(stamp("192.0.2.7:5062"));
    assert_eq!(
        replied(request.as_bytes(), 486, from),
        "SIP/2.0 486 Because\r\nv: SIP/2.0/UDP h;received=192.0.2.7;rport=5062\r\nf: <sip:a>;tag=1\r\n\
        To: <sip:b>;tag=ours\r\ni: c\r\nVia: SIP/2.0/UDP i\r\nCSeq:  1 INVITE\r\nA: b\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(
        replied(request.as_bytes(), 100, from),
        "SIP/2.0 100 Because\r\nv: SIP/2.0/UDP h;received=192.0.2.7;rport=5062\r\nf: <sip:a>;tag=1\r\nTimestamp: 5\r\n\
        t: <sip:b>\r\ni: c\r\nVia: SIP/2.0/UDP i\r\nCSeq:  1 INVITE\r\nA: b\r\nContent-Length: 0\r\n\r\n"
    );
    let sent_on = forward(request, &plain());
    assert_eq!(
        replied(sent_on.as_bytes(), 486, None),
        replied(request.as_bytes(), 486, from),
        "made from what was sent on it is the same"
    );
}

#[test]
fn a_to_gets_a_tag_unless_it_has_one() {
    for (to, tagged) in [
        ("<sip:b>", true),
        ("sip:b", true),
        ("sip:b;x=\"tag=1\"", true),
        ("<sip:b;tag=1>", true),
        ("\"tag=1 <\" <sip:b>\r\n ;x", true),
        ("<sip:b>;tag=1", false),
        ("<sip:b>\r\n ; TAG\t= 1;x", false),
        ("sip:b;x;Tag=1", false),
        // A second tag would not mend these.
        ("<sip:b>;tag", false),
        ("<sip:b>;tag=", false),
        ("\"b <sip:b>", false),
        ("", false),
    ] {
        let text = format!("BYE sip:b SIP/2.0\r\nVia: SIP/2.0/UDP h\r\nTo: {to}\r\n\r\n");
        let out = replied(text.as_bytes(), 400, None);
        let want = if tagged {
            format!("To: {to};tag=ours\r\n")
        } else {
            format!("To: {to}\r\n")
        };
        assert!(out.contains(&want), "{out}");
    }
}

#[test]
fn the_answer_to_bad_line_ends_has_good_ones() {
    let out = replied(
        b"BYE sip:b SIP/2.0\nVia: SIP/2.0/UDP h\r\nFrom: \"a\rb\" <sip:a>\r\r\nTo: <sip:b>\n ;x\nCall-ID: c\r\rd\r\nCSeq: 1\n\tBYE\n\n",
        400,
        Some(stamp("192.0.2.7:5062")),
    );
    assert_eq!(
        out,
        "SIP/2.0 400 Because\r\nVia: SIP/2.0/UDP h;received=192.0.2.7\r\nFrom: \"a b\" <sip:a> \r\nTo: <sip:b>\r\n ;x;tag=ours\r\n\
        Call-ID: c  d\r\nCSeq: 1\r\n\tBYE\r\nA: b\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(with(out.as_bytes(), |m| m.defect().map(|d| d.kind)), None);
}

#[test]
fn cancel_and_ack_go_the_way_of_the_invite() {
    let invite = "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP us;branch=z9hG4bKours , SIP/2.0/UDP h\r\nVia: SIP/2.0/UDP i\r\n\
        Route: <sip:p;lr>,\r\n <sip:q;lr>\r\nRecord-Route: <sip:us;lr>\r\nRoute: <sip:r>\r\nf: <sip:a>;tag=1\r\nt: <sip:b>\r\n\
        i: c\r\nCSeq: 0012\r\n INVITE\r\nRequire: 100rel\r\nProxy-Authorization: x\r\nContact: <sip:a>\r\nl: 3\r\n\r\nabc";
    let made = |method: &str, to: Option<&[u8]>, lines: &[u8]| {
        let mut out = Vec::new();
        with(invite.as_bytes(), |msg| {
            hop_request(&mut out, method, msg, to, lines);
        });
        String::from_utf8(out).unwrap()
    };
    let want = |method: &str, to: &str, lines: &str| {
        format!(
            "{method} sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP us;branch=z9hG4bKours\r\nRoute: <sip:p;lr>,\r\n <sip:q;lr>\r\n\
            Route: <sip:r>\r\nf: <sip:a>;tag=1\r\nTo: {to}\r\ni: c\r\nCSeq: 12 {method}\r\nMax-Forwards: 70\r\n{lines}\
            Content-Length: 0\r\n\r\n"
        )
    };
    assert_eq!(
        made("CANCEL", None, b"Reason: r\r\n"),
        want("CANCEL", "<sip:b>", "Reason: r\r\n")
    );
    assert_eq!(
        made("ACK", Some(b"<sip:b>;tag=2"), b""),
        want("ACK", "<sip:b>;tag=2", "")
    );
}

#[test]
fn addresses_as_a_uri_writes_them() {
    for text in ["192.0.2.1:5060", "[2001:db8::1]:5060", "[::1]:0"] {
        assert_eq!(HostPort(text.parse().unwrap()).to_string(), text);
    }
}

/// Each value is read a fixed number of times: a hundred times as many may cost a hundred times as much, not ten thousand.
#[test]
#[expect(clippy::disallowed_types, reason = "it measures what the code costs")]
fn many_values_cost_in_proportion() {
    let time = |n: usize| {
        let text = format!(
            "BYE sip:b SIP/2.0\r\nVia: SIP/2.0/UDP h;rport{}\r\nRoute: {}<sip:z>\r\n{}l: 0\r\n\r\n",
            ",SIP/2.0/UDP h".repeat(n),
            "<sip:a>,".repeat(n),
            "Route: <sip:b>\r\n".repeat(n),
        );
        let f = Forward {
            routes_popped: n,
            last_route_popped: true,
            ..plain()
        };
        with(text.as_bytes(), |msg| {
            let mut out = Vec::new();
            let best = (0..5).map(|_| {
                out.clear();
                let began = std::time::Instant::now();
                forward_request(&mut out, msg, &f);
                began.elapsed()
            });
            let best = best.min().unwrap();
            let kept = with(&out, |m| m.all(Name::Route).count());
            // <sip:z> and all lines but the last are left.
            assert_eq!(kept, n);
            assert!(out.len() <= msg.bytes().len() + 256);
            best
        })
    };
    let (few, many) = (time(100), time(10_000));
    assert!(
        many < few * 1000 + std::time::Duration::from_millis(5),
        "{few:?} {many:?}"
    );
}

/// Header lines of all kinds, good enough to be scanned.
fn lines() -> impl Strategy<Value = Vec<String>> {
    let via = || {
        let value = (
            select(["SIP/2.0/UDP", "SIP / 2.0 / TCP", "SIP/2.0/TLS"].as_slice()),
            select(
                [
                    "h",
                    "192.0.2.7",
                    "[2001:db8::7]:5061",
                    "h : 99",
                    "192.0.2.8:5060",
                ]
                .as_slice(),
            ),
            prop::collection::vec(
                select(
                    [
                        ";rport",
                        ";rport=9",
                        "; received=1.2.3.4",
                        ";branch=z9hG4bK1",
                        ";b=z=/#",
                        ";q=\"a;b,c\\\"\"",
                        "\r\n ;x",
                        " ; y = 1",
                    ]
                    .as_slice(),
                ),
                0..4,
            ),
        );
        value.prop_map(|(t, h, params)| format!("{t} {h}{}", params.concat()))
    };
    let route = || {
        select(
            [
                "<sip:a;lr>",
                "\"A, \\\"b\" <sip:b@[::1]:5060;lr>;x=\",\"",
                "A B <sip:c>",
            ]
            .as_slice(),
        )
        .prop_map(String::from)
    };
    let comma = || select([",", ", ", " ,\r\n "].as_slice());
    let list = |name: &'static [&'static str], value: BoxedStrategy<String>| {
        (select(name), prop::collection::vec(value, 1..4), comma())
            .prop_map(|(n, v, c)| format!("{n}{}\r\n", v.join(c)))
    };
    let line = prop_oneof![
        3 => list(&["Via: ", "v:", "VIA :\r\n "], via().boxed()),
        3 => list(&["Route: ", "route\t: "], route().boxed()),
        1 => list(&["Record-Route: ", "Record-route:"], route().boxed()),
        2 => "[A-Za-z-]{2,9} ?: ?[ -~\u{e4}\u{20ac}]{0,20}(\r\n [ -~]{1,9})?\r\n".prop_filter("read by name", |l| {
            let name = l.split(':').next().unwrap_or_default().trim();
            !["max-forwards", "content-length", "via", "to", "from", "route", "cseq", "call-id", "l", "v"].contains(&&*name.to_ascii_lowercase())
        }),
    ];
    let max_forwards = prop::option::of((0..300u32, 0..12usize));
    (prop::collection::vec(line, 0..10), max_forwards).prop_map(|(mut lines, max_forwards)| {
        if let Some((n, at)) = max_forwards {
            let at = at.min(lines.len());
            lines.insert(at, format!("Max-Forwards: {n}\r\n"));
        }
        lines
    })
}

fn body() -> impl Strategy<Value = (String, String)> {
    (
        "[ -~\r\n]{0,20}",
        select(["", "l: ", "Content-Length: "].as_slice()),
        0..3usize,
    )
        .prop_map(|(body, name, more)| {
            let length = if name.is_empty() {
                String::new()
            } else {
                format!("{name}{}\r\n", body.len().saturating_sub(more))
            };
            (length, body)
        })
}

/// The Via values of a message, each as written.
fn via_values(msg: &Message<'_>) -> Vec<String> {
    msg.all(Name::Via)
        .flat_map(|h| {
            vias(h.value).map(move |l| l.map(|l| h.value[l.from..l.to].to_vec()).unwrap())
        })
        .map(|v| String::from_utf8(v).unwrap())
        .collect()
}

fn route_values(msg: &Message<'_>) -> Vec<String> {
    msg.all(Name::Route)
        .flat_map(|h| {
            name_addrs(h.value).map(move |l| l.map(|l| h.value[l.from..l.to].to_vec()).unwrap())
        })
        .map(|v| String::from_utf8(v).unwrap())
        .collect()
}

/// All lines that a proxy has no business with.
fn others(msg: &Message<'_>) -> Vec<Vec<u8>> {
    msg.headers()
        .filter(|h| {
            !matches!(
                h.name,
                Name::Via | Name::Route | Name::MaxForwards | Name::ContentLength
            )
        })
        .map(|h| h.line.to_vec())
        .collect()
}

/// A Via value without what we may change, parameter by parameter.
fn unstamped(value: &str) -> (String, Vec<String>) {
    let l = vias(value.as_bytes()).next().unwrap().unwrap();
    let head = value[..l.to - l.item.params.bytes().len()].to_string();
    let params = l.item.params.iter().map(Result::unwrap);
    let params = params
        .filter(|(n, _)| !n.eq_ignore_ascii_case(b"rport") && !n.eq_ignore_ascii_case(b"received"));
    (head, params.map(|p| format!("{p:?}")).collect())
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2_000,
        rng_seed: RngSeed::Fixed(16),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_forwarded_request_is_the_same_but_for_what_is_ours(
        lines in lines(),
        (length, body) in body(),
        routes_popped in 0..4usize,
        last_route_popped: bool,
        source in select(["192.0.2.7:5062", "[2001:db8::7]:5062", "[::ffff:192.0.2.8]:1"].as_slice()),
    ) {
        let text = format!("INFO sip:b@x SIP/2.0\r\n{}{length}\r\n{body}", lines.concat());
        let f = Forward { routes_popped, last_route_popped, stamp: stamp(source), lines: b"Record-Route: <sip:us;lr>\r\n", ..plain() };
        let out = forward(&text, &f);
        with(text.as_bytes(), |before| with(out.as_bytes(), |after| {
            prop_assert_eq!(before.defect(), None);
            prop_assert_eq!(after.defect(), None);
            prop_assert_eq!(after.body(), before.body());
            prop_assert_eq!(out.len(), after.body_at() + after.body().len(), "nothing after the body");
            let mut want = others(before);
            want.insert(0, f.lines.to_vec());
            prop_assert_eq!(others(after), want);
            prop_assert_eq!(after.content_length(), Ok(Some(after.body().len())));
            prop_assert_eq!(after.all(Name::ContentLength).count(), 1);
            let forwards: Vec<_> = after.all(Name::MaxForwards).map(|h| h.value).collect();
            prop_assert_eq!(forwards, [b"69"]);
            let mut routes = route_values(before);
            if last_route_popped && routes.len() > routes_popped {
                routes.pop();
            }
            routes.drain(..routes_popped.min(routes.len()));
            prop_assert_eq!(route_values(after), routes);
            // Ours, the sender's with our stamp, those below untouched.
            let (old, new) = (via_values(before), via_values(after));
            prop_assert_eq!(new[0].as_bytes(), OURS);
            prop_assert_eq!(new.len(), old.len() + 1);
            if let (Some(old_top), Some(new_top)) = (old.first(), new.get(1)) {
                prop_assert_eq!(unstamped(new_top), unstamped(old_top));
                let top = vias(new_top.as_bytes()).next().unwrap().unwrap().item;
                let asked = vias(old_top.as_bytes()).next().unwrap().unwrap().item.wants_rport();
                let source = f.stamp.source;
                let rport = asked.then(|| Some(source.port().to_string()));
                let got = top.params.get(b"rport").map(|v| v.map(|v| String::from_utf8(v.to_vec()).unwrap()));
                prop_assert_eq!(got, rport);
                let received = top.params.get(b"received").flatten();
                let ip = source.ip().to_canonical();
                match received {
                    Some(v) => prop_assert_eq!(core::str::from_utf8(v).unwrap(), ip.to_string()),
                    None => prop_assert!(!asked && top.sent_by.ip() == Some(ip)),
                }
                prop_assert_eq!(&new[2..], &old[1..]);
            }
            Ok(())
        }))?;
    }

    #[test]
    fn a_forwarded_response_has_lost_one_via(lines in lines(), (length, body) in body()) {
        let text = format!("SIP/2.0 183 x\r\n{}{length}\r\n{body}", lines.concat());
        let mut out = Vec::new();
        with(text.as_bytes(), |before| {
            forward_response(&mut out, before, b"A: b\r\n");
            with(&out, |after| {
                prop_assert_eq!(after.defect(), None);
                prop_assert_eq!(after.body(), before.body());
                let mut vias = via_values(before);
                vias.drain(..vias.len().min(1));
                prop_assert_eq!(via_values(after), vias);
                let mut want = others(before);
                want.push(b"A: b\r\n".to_vec());
                prop_assert_eq!(others(after), want);
                prop_assert_eq!(route_values(after), route_values(before));
                let forwards = |m: &Message<'_>| m.value(Name::MaxForwards).map(<[u8]>::to_vec);
                prop_assert_eq!(forwards(after), forwards(before));
                Ok(())
            })
        })?;
    }

    /// However broken the request, what answers it is a message.
    #[test]
    fn an_answer_is_without_defect(
        lines in lines(),
        identity in prop::collection::vec(
            select(["To: <sip:b>\r\n", "t: \"b\n\t\" <sip:b>\r\n", "From: a\rb\n", "i: c\n", "Call-ID : c\r\n", "CSeq: 1 INFO\r\n\n ", "no header\r\n", ": x\r\n"].as_slice()),
            0..6,
        ),
        changes in prop::collection::vec((any::<prop::sample::Index>(), select(b"\r\n \t:;,\"<>\\\0a".as_slice())), 0..6),
        code in select([100u16, 200, 400, 503].as_slice()),
        stamped: bool,
    ) {
        let mut bytes = format!("INFO sip:b@x SIP/2.0\r\n{}{}\r\nbody", lines.concat(), identity.concat()).into_bytes();
        for (at, b) in changes {
            let len = bytes.len() - 22;
            bytes[22 + at.index(len)] = b;
        }
        let stamp = stamped.then(|| stamp("192.0.2.7:5062"));
        let mut out = Vec::new();
        with(&bytes, |msg| reply(&mut out, msg, &Reply { code, reason: "", stamp, to_tag: b"t", lines: b"" }));
        with(&out, |m| {
            prop_assert_eq!(m.defect(), None, "{:?}", m.bytes().escape_ascii().to_string());
            prop_assert_eq!((m.code(), m.body().len(), m.bytes().len()), (Some(code), 0, m.body_at()));
            Ok(())
        })?;
    }
}
