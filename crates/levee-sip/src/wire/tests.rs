use super::*;
use alloc::format;
use alloc::string::String;

fn with<T>(text: &str, look: impl Fn(&Message<'_>) -> T) -> T {
    look(&Scanner::default().scan(text.as_bytes()).unwrap())
}

fn defect(text: &str) -> Option<DefectKind> {
    match Scanner::default().scan(text.as_bytes()) {
        Ok(msg) => msg.defect().map(|d| d.kind),
        Err(d) => Some(d.kind),
    }
}

#[test]
fn first_lines() {
    let long = format!("{} sip:a SIP/2.0", "M".repeat(1000));
    let table = [
        ("INVITE sip:a SIP/2.0", None),
        ("invite sip:a SIP/2.0", None),
        ("!%*_+`'~.- sip:a SIP/2.0", None),
        (&long, None),
        ("INVITE sip:a sip/2.0", None),
        ("INVITE sip:a SIP/3.0", None),
        ("INVITE sip:a HTTP/1.1", Some(DefectKind::StartLine)),
        ("INVITE sip:a SIP", Some(DefectKind::StartLine)),
        ("INVITE sip:a", Some(DefectKind::StartLine)),
        ("INVITE", Some(DefectKind::StartLine)),
        ("", Some(DefectKind::StartLine)),
        (" INVITE sip:a SIP/2.0", Some(DefectKind::StartLine)),
        ("INV@TE sip:a SIP/2.0", Some(DefectKind::StartLine)),
        ("INVITE\tsip:a SIP/2.0", Some(DefectKind::StartLine)),
        ("INVITE  sip:a SIP/2.0", Some(DefectKind::StartLineSpaces)),
        ("INVITE sip:a  SIP/2.0", Some(DefectKind::StartLineSpaces)),
        ("INVITE sip:a SIP/2.0 ", Some(DefectKind::StartLineSpaces)),
        ("INVITE sip:a SIP/2.0\t", Some(DefectKind::StartLineSpaces)),
        (
            "INVITE sip:a;\tlr SIP/2.0",
            Some(DefectKind::StartLineSpaces),
        ),
        ("SIP/2.0 100 Trying", None),
        ("sip/2.0 699 X", None),
        ("SIP/2.0 200 ", None),
        ("SIP/2.0 200", None),
        ("SIP/2.0 099 X", Some(DefectKind::StatusCode)),
        ("SIP/2.0 700 X", Some(DefectKind::StatusCode)),
        ("SIP/2.0 0200 X", Some(DefectKind::StatusCode)),
        ("SIP/2.0 20 X", Some(DefectKind::StatusCode)),
        ("SIP/2.0  200 X", Some(DefectKind::StatusCode)),
        ("SIP/2.0 4294967396 X", Some(DefectKind::StatusCode)),
        ("SIP/3.0 200 OK", Some(DefectKind::StartLine)),
    ];
    for (line, want) in table {
        assert_eq!(defect(&format!("{line}\r\n\r\n")), want, "{line:?}");
    }
}

#[test]
fn a_version_is_read_in_any_case_and_a_method_is_not() {
    let start = |line: &str| {
        with(&format!("{line}\r\n\r\n"), |m| match m.start() {
            StartLine::Request {
                method, version_ok, ..
            } => (method, version_ok),
            StartLine::Response { .. } => unreachable!(),
        })
    };
    assert_eq!(start("BYE sip:a sIp/2.0"), (Method::Bye, true));
    assert_eq!(start("bye sip:a SIP/2.0"), (Method::Other, true));
    assert_eq!(start("BYE sip:a SIP/7.0"), (Method::Bye, false));
    assert_eq!(start("BYE sip:a SIP/02.0"), (Method::Bye, false));
}

#[test]
fn headers_and_line_ends() {
    let table = [
        ("X: 1\r\n\r\n", None),
        ("X:\r\n\r\n", None),
        ("X : \t1\r\n\r\n", None),
        ("X\t:1\r\n\r\n", None),
        ("X: 1\r\n  2\r\n\t3\r\n\r\n", None),
        ("X: a\0b\u{fc}\u{7f}\r\n\r\n", None),
        ("", Some(DefectKind::Truncated)),
        ("X: 1\r\n", Some(DefectKind::Truncated)),
        ("X: 1\r\n\r", Some(DefectKind::Truncated)),
        ("X: 1", Some(DefectKind::Truncated)),
        ("X: 1\n\r\n", Some(DefectKind::BareLineEnd)),
        ("X: 1\r\n\n", Some(DefectKind::BareLineEnd)),
        ("X: 1\r2\r\n\r\n", Some(DefectKind::BareLineEnd)),
        ("X: 1\r\r\n\r\n", Some(DefectKind::BareLineEnd)),
        ("\r\r\n\r\n", Some(DefectKind::BareLineEnd)),
        ("X 1\r\n\r\n", Some(DefectKind::HeaderLine)),
        (": 1\r\n\r\n", Some(DefectKind::HeaderLine)),
        (" : 1\r\n\r\n", Some(DefectKind::HeaderLine)),
        (" X: 1\r\n\r\n", Some(DefectKind::HeaderLine)),
        ("X Y: 1\r\n\r\n", Some(DefectKind::HeaderLine)),
        ("X\r\n : 1\r\n\r\n", Some(DefectKind::HeaderLine)),
        ("X\u{fc}: 1\r\n\r\n", Some(DefectKind::HeaderLine)),
        ("X\0: 1\r\n\r\n", Some(DefectKind::HeaderLine)),
    ];
    for (headers, want) in table {
        let text = format!("BYE sip:a SIP/2.0\r\n{headers}");
        assert_eq!(defect(&text), want, "{headers:?}");
    }
    assert_eq!(
        defect("BYE sip:a SIP/2.0\n\r\n"),
        Some(DefectKind::BareLineEnd)
    );
}

#[test]
fn names_in_any_case_and_short() {
    let table = [
        ("Via", Name::Via),
        ("vIA", Name::Via),
        ("V", Name::Via),
        ("F", Name::From),
        ("T", Name::To),
        ("to", Name::To),
        ("i", Name::CallId),
        ("call-id", Name::CallId),
        ("CSEQ", Name::CSeq),
        ("m", Name::Contact),
        ("l", Name::ContentLength),
        ("c", Name::ContentType),
        ("k", Name::Supported),
        ("x", Name::SessionExpires),
        ("r", Name::ReferTo),
        ("P-Asserted-Identity", Name::PAssertedIdentity),
        ("resource-priority", Name::ResourcePriority),
        ("q", Name::Other),
        ("Vial", Name::Other),
        ("C%6Fntact", Name::Other),
        ("Date", Name::Other),
    ];
    for (text, want) in table {
        assert_eq!(Name::of(text.as_bytes()), want, "{text}");
    }
    let all = [
        Name::Via,
        Name::From,
        Name::To,
        Name::CallId,
        Name::CSeq,
        Name::Contact,
        Name::MaxForwards,
        Name::Route,
        Name::RecordRoute,
        Name::ContentLength,
        Name::ContentType,
        Name::Require,
        Name::ProxyRequire,
        Name::Supported,
        Name::Expires,
        Name::SessionExpires,
        Name::MinSe,
        Name::RetryAfter,
        Name::Reason,
        Name::Timestamp,
        Name::ResourcePriority,
        Name::PAssertedIdentity,
        Name::Authorization,
        Name::ProxyAuthorization,
        Name::ReferTo,
    ];
    assert_eq!(all.len(), Name::Other as usize, "every name is tried");
    for name in all {
        assert_eq!(Name::of(name.as_str().as_bytes()), name);
    }
}

#[test]
fn a_value_is_trimmed_and_keeps_its_folds() {
    let text = "BYE sip:a SIP/2.0\r\nSubject \t:\r\n  one\r\n\ttwo \t\r\nEmpty:  \r\n\r\n";
    with(text, |msg| {
        let first = msg.other(b"SUBJECT").unwrap();
        assert_eq!(first.token, b"Subject");
        assert_eq!(first.value, b"one\r\n\ttwo");
        assert_eq!(first.line, b"Subject \t:\r\n  one\r\n\ttwo \t\r\n");
        assert_eq!(&text.as_bytes()[first.value_at..][..3], b"one");
        let second = msg.other(b"empty").unwrap();
        assert_eq!(second.value, b"");
        assert_eq!(second.at, first.at + first.line.len());
        assert_eq!(msg.body_at(), text.len());
    });
}

#[test]
fn content_length_bounds_the_body() {
    let table: &[(&str, &str, Option<&str>)] = &[
        ("", "abc", Some("abc")),
        ("l: 0\r\n", "abc", Some("")),
        ("l: 2\r\n", "abc", Some("ab")),
        ("l: 3\r\n", "abc", Some("abc")),
        ("l: 003\r\n", "abc", Some("abc")),
        ("l:\r\n 3\r\n", "abc", Some("abc")),
        ("l: 2\r\nContent-Length: 2\r\n", "abc", Some("ab")),
        ("l: 4\r\n", "abc", None),
        ("l: -1\r\n", "abc", None),
        ("l: +1\r\n", "abc", None),
        ("l: 1,1\r\n", "abc", None),
        ("l: 1 1\r\n", "abc", None),
        ("l: \r\n", "abc", None),
        ("l: 0x1\r\n", "abc", None),
        ("l: 18446744073709551616\r\n", "abc", None),
        ("l: 1\r\nl: 2\r\n", "abc", None),
    ];
    for (header, body, want) in table {
        let text = format!("BYE sip:a SIP/2.0\r\n{header}\r\n{body}");
        let got = with(&text, |m| {
            m.defect()
                .is_none()
                .then(|| String::from_utf8(m.body().to_vec()).unwrap())
        });
        assert_eq!(got.as_deref(), *want, "{header:?}");
    }
}

#[test]
fn limits_pass_what_they_say_and_refuse_one_more() {
    let text = |headers: usize| format!("BYE sip:a SIP/2.0\r\n{}\r\n", "X: 1\r\n".repeat(headers));
    let mut scanner = Scanner::new(Limits {
        message_bytes_max: text(3).len(),
        headers_max: 2,
    });
    assert_eq!(scanner.scan(text(2).as_bytes()).unwrap().defect(), None);
    let three = text(3);
    let msg = scanner.scan(three.as_bytes()).unwrap();
    assert_eq!(
        msg.defect().map(|d| (d.kind, d.at)),
        Some((DefectKind::TooManyHeaders, text(2).len() - 2))
    );
    assert_eq!(msg.headers().count(), 2);
    assert_eq!(msg.body_at(), three.len());
    assert_eq!(
        scanner.scan(text(4).as_bytes()).unwrap_err().kind,
        DefectKind::TooLarge
    );
}

#[test]
fn a_scanner_forgets_the_message_before() {
    let mut scanner = Scanner::default();
    let first = [b"BYE sip:a SIP/2.0\r\nVia: x\r\n\r\n".as_slice(); 2].concat();
    assert_eq!(scanner.scan(&first).unwrap().headers().count(), 1);
    let second = b"BYE sip:a SIP/2.0\r\n\r\n";
    assert_eq!(scanner.scan(second).unwrap().headers().count(), 0);
}

#[test]
fn a_defect_names_its_byte() {
    let text = "BYE sip:a SIP/2.0\r\nX: 1\r\nbroken\r\n\r\n";
    let d = with(text, |m| m.defect().unwrap());
    assert_eq!(d.at, text.find("broken").unwrap());
    assert_eq!(
        format!("{d}"),
        "a header line without name and colon (byte 25)"
    );
}
