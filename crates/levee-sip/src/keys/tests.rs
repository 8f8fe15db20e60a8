use alloc::format;
use alloc::string::String;

use super::*;
use crate::check;
use crate::wire::Scanner;

fn keys() -> Keys {
    Keys::new([7; 16])
}

/// The server key of a request, looked up as of `method`.
fn server_as(text: &str, method: Option<Method>) -> ServerKey {
    let mut scanner = Scanner::default();
    let msg = scanner.scan(text.as_bytes()).unwrap();
    let parts = check::request(&msg).unwrap_or_else(|no| panic!("{}: {text}", no.reason));
    keys().server(&parts, method.unwrap_or(parts.method))
}

fn server(text: &str) -> ServerKey {
    server_as(text, None)
}

const INVITE: &str = "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP h:5060;branch=z9hG4bKq;rport\r\n\
    From: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nl: 0\r\n\r\n";
/// RFC 2543: no magic cookie.
const OLD_INVITE: &str = "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP h:5060\r\n\
    From: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nl: 0\r\n\r\n";

fn changed(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(String::from(text), |t, (from, to)| {
        assert!(t.contains(from), "{from:?} in {t:?}");
        t.replace(from, to)
    })
}

fn as_method(text: &str, method: &str) -> String {
    changed(text, &[("INVITE", method)])
}

#[test]
fn what_belongs_to_a_transaction_with_a_branch() {
    let key = server(INVITE);
    assert_eq!(key, server(&as_method(INVITE, "ACK")), "its ACK");
    let cancel = as_method(INVITE, "CANCEL");
    assert_eq!(key, server_as(&cancel, Some(Method::Invite)), "its CANCEL");
    assert_ne!(key, server(&cancel), "which has a transaction of its own");
    // Branch, sent-by and method decide, and nothing else (section 17.2.3).
    for same in [
        ("INVITE sip:b@x", "INVITE sip:elsewhere@x"),
        ("tag=1", "tag=2"),
        ("To: <sip:b@x>", "To: <sip:b@x>;tag=9"),
        ("Call-ID: c", "Call-ID: d"),
        ("CSeq: 1 ", "CSeq: 2 "),
        (";rport", ";rport=5060;received=192.0.2.1"),
        ("SIP/2.0/UDP", "SIP/2.0/TCP"),
        ("h:5060;branch=z9hG4bKq", "h : 5060 ; BRANCH = z9hG4bKq"),
    ] {
        assert_eq!(key, server(&changed(INVITE, &[same])), "{same:?}");
    }
    for other in [
        ("z9hG4bKq", "z9hG4bKr"),
        ("z9hG4bKq", "z9hG4bKqq"),
        ("h:5060", "i:5060"),
        ("h:5060", "h:5061"),
        ("h:5060", "h"),
    ] {
        assert_ne!(key, server(&changed(INVITE, &[other])), "{other:?}");
    }
    for other in ["OPTIONS", "BYE", "REGISTER", "INFO", "MESSAGE"] {
        assert_ne!(key, server(&as_method(INVITE, other)), "{other}");
    }
    assert_ne!(
        server(&as_method(INVITE, "INFO")),
        server(&as_method(INVITE, "MESSAGE")),
        "methods that no one here knows"
    );
}

#[test]
fn what_belongs_to_a_transaction_of_rfc_2543() {
    for via in [
        "h:5060",
        "h:5060;branch=1",
        "h:5060;branch=z9hg4bk-not",
        "h",
    ] {
        let invite = changed(OLD_INVITE, &[("h:5060", via)]);
        let key = server(&invite);
        assert_eq!(key, server(&invite), "a retransmission");
        let ack = as_method(&invite, "ACK");
        assert_eq!(
            key,
            server(&changed(&ack, &[("To: <sip:b@x>", "To: <sip:b@x>;tag=9")])),
            "its ACK has the tag of the answer"
        );
        let cancel = as_method(&invite, "CANCEL");
        assert_eq!(key, server_as(&cancel, Some(Method::Invite)), "its CANCEL");
        for other in [
            ("INVITE sip:b@x", "INVITE sip:elsewhere@x"),
            ("tag=1", "tag=2"),
            (";tag=1", ""),
            ("Call-ID: c", "Call-ID: d"),
            ("CSeq: 1 ", "CSeq: 2 "),
            ("UDP h", "UDP i"),
        ] {
            assert_ne!(key, server(&changed(&invite, &[other])), "{other:?}");
        }
        assert_ne!(key, server(&as_method(&invite, "OPTIONS")));
    }
}

#[test]
fn a_branch_reads_back_and_a_forged_one_does_not() {
    let keys = keys();
    for (id, loop_hash) in [(42, 0xfeed), (0, 0), (u64::MAX, u64::MAX), (1 << 63, 1)] {
        let mut b = Vec::new();
        keys.branch(&mut b, id, loop_hash);
        assert_eq!(b.len(), BRANCH_LEN);
        assert_eq!(keys.read_branch(&b), Some(Branch { id, loop_hash }));
        assert_eq!(
            Keys::new([8; 16]).read_branch(&b),
            None,
            "of another process"
        );
        // Nothing of what leads to a transaction can be changed.
        for at in 0..MAGIC_COOKIE.len() + 32 {
            for digit in *b"01f+-. \xff" {
                let mut forged = b.clone();
                forged[at] = digit;
                assert!(
                    forged == b || keys.read_branch(&forged).is_none(),
                    "{at} {digit}"
                );
            }
        }
        for odd in [
            &b[..b.len() - 1],
            &b[1..],
            &[&b[..], b"0"].concat(),
            b"",
            MAGIC_COOKIE,
        ] {
            assert_eq!(keys.read_branch(odd), None);
        }
    }
}

#[test]
fn the_digits_of_a_branch_have_no_sign() {
    let keys = keys();
    let mut b = Vec::new();
    keys.branch(&mut b, 0x0123, 0x0fff);
    for part in 0..3 {
        let at = MAGIC_COOKIE.len() + part * 16;
        if b[at] == b'0' {
            let mut signed = b.clone();
            signed[at] = b'+';
            assert_eq!(keys.read_branch(&signed), None, "part {part}");
        }
    }
}

#[test]
fn the_tag_of_our_answers_is_that_of_the_call() {
    let tag = |call_id: &[u8], from: &str| {
        let mut out = Vec::new();
        let from = NameAddr::parse(from.as_bytes()).ok();
        keys().to_tag(&mut out, call_id, from.as_ref());
        out
    };
    assert_eq!(
        tag(b"c", "<sip:a>;tag=1"),
        tag(b"c", "\"A\" <sip:a@x>;x;TAG = 1")
    );
    assert_ne!(tag(b"c", "<sip:a>;tag=1"), tag(b"c", "<sip:a>;tag=2"));
    assert_ne!(tag(b"c", "<sip:a>;tag=1"), tag(b"d", "<sip:a>;tag=1"));
    assert_eq!(tag(b"c", "<sip:a>"), tag(b"c", "\"unreadable"));
    assert!(tag(b"", "").iter().all(u8::is_ascii_alphanumeric));
}

#[test]
fn a_dialog_has_one_name_in_both_directions() {
    let keys = keys();
    let name = keys.dialog(b"id", b"a", b"b");
    assert_eq!(name, keys.dialog(b"id", b"b", b"a"));
    assert_eq!(keys.dialog(b"id", b"", b"b"), keys.dialog(b"id", b"b", b""));
    for (call_id, a, b) in [
        ("ida", "", "b"),
        ("id", "ab", ""),
        ("id", "a", "a"),
        ("id", "A", "b"),
        ("ID", "a", "b"),
    ] {
        let other = keys.dialog(call_id.as_bytes(), a.as_bytes(), b.as_bytes());
        assert_ne!(name, other, "{call_id} {a} {b}");
    }
    assert_ne!(name, Keys::new([8; 16]).dialog(b"id", b"a", b"b"));
}

const LOOPING: &str = "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP h:5060;branch=z9hG4bKq\r\n\
    Route: <sip:p1;lr>, <sip:p2;lr>\r\nProxy-Authorization: Digest x\r\n\
    From: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nMax-Forwards: 9\r\nl: 0\r\n\r\n";

fn loop_hash(text: &str, side: u8) -> u64 {
    let mut scanner = Scanner::default();
    let msg = scanner.scan(text.as_bytes()).unwrap();
    let parts = check::request(&msg).unwrap_or_else(|no| panic!("{}: {text}", no.reason));
    keys().loop_hash(&msg, &parts, side)
}

/// RFC 5393 section 4.2.1, with the fields of RFC 3261 section 16.6 step 8: what makes a second visit a spiral, and what does
/// not and so must not hide a loop.
#[test]
fn what_tells_a_loop_from_a_spiral() {
    let hash = loop_hash(LOOPING, 0);
    for same in [
        // All that each hop changes.
        ("Via: SIP", "Via: SIP/2.0/UDP p;branch=z9hG4bKr\r\nVia: SIP"),
        ("Max-Forwards: 9", "Max-Forwards: 8"),
        ("l: 0", "Record-Route: <sip:p;lr>\r\nl: 0"),
        ("l: 0", "X: y\r\nl: 0"),
        ("Route: <sip:p1;lr>, <", "Route: <sip:p1;lr>\r\nRoute: <"),
        ("<sip:p1;lr>, <", "<sip:p1;lr> ,\r\n <"),
    ] {
        assert_eq!(hash, loop_hash(&changed(LOOPING, &[same]), 0), "{same:?}");
    }
    for other in [
        ("INVITE sip:b@x", "INVITE sip:b@y"),
        ("INVITE sip:b@x", "INVITE sip:b@x;p=1"),
        ("tag=1", "tag=2"),
        ("To: <sip:b@x>", "To: <sip:b@x>;tag=9"),
        ("Call-ID: c", "Call-ID: d"),
        ("CSeq: 1 ", "CSeq: 2 "),
        ("Route: <sip:p1;lr>, <sip:p2;lr>", "Route: <sip:p2;lr>"),
        (
            "Route: <sip:p1;lr>, <sip:p2;lr>",
            "Route: <sip:p2;lr>, <sip:p1;lr>",
        ),
        ("Route: <sip:p1;lr>, <sip:p2;lr>\r\n", ""),
        ("Digest x", "Digest y"),
        ("Proxy-Authorization: Digest x\r\n", ""),
    ] {
        assert_ne!(hash, loop_hash(&changed(LOOPING, &[other]), 0), "{other:?}");
    }
    assert_ne!(hash, loop_hash(LOOPING, 1), "from the other side");
}

#[test]
fn a_value_does_not_pass_for_that_of_another_header() {
    let ack = as_method(
        &changed(LOOPING, &[("Route: <sip:p1;lr>, <sip:p2;lr>\r\n", "")]),
        "ACK",
    );
    let line = "Proxy-Authorization: Digest x";
    let require = changed(&ack, &[(line, "Proxy-Require: Digest x")]);
    assert_ne!(loop_hash(&ack, 0), loop_hash(&require, 0));
    let both = format!("{line}\r\n{line}");
    assert_ne!(
        loop_hash(&ack, 0),
        loop_hash(&changed(&ack, &[(line, &both)]), 0)
    );
}
