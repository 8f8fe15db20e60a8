//! Requests that two servers could read in two ways are refused; what browsers and programs send is not.

use levee_http::request::{Form, Head, Method};
use levee_http::{Framing, Limits, Parsed, Version};

/// What `bytes` are: the status that refuses them, 0 for a whole head, 100 for a head that goes on.
pub(crate) fn status(bytes: &[u8]) -> u16 {
    match Head::parse(bytes, &Limits::default()) {
        Ok(Parsed::Complete { .. }) => 0,
        Ok(Parsed::Partial) => 100,
        Err(bad) => bad.status,
    }
}

fn parse(bytes: &[u8]) -> Head {
    match Head::parse(bytes, &Limits::default()) {
        Ok(Parsed::Complete { head, len }) => {
            assert_eq!(head.len(), len);
            head
        }
        other => panic!("{other:?}: {}", bytes.escape_ascii()),
    }
}

/// A GET whose head is this and whose first line and Host are good.
fn with(fields: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n").into_bytes()
}

#[test]
fn a_request_is_read() {
    let bytes = b"POST /a/b?c=d HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 5\r\nX-Y:\t z \r\nConnection: close\r\n\r\nhello";
    let head = parse(bytes);
    let request = head.on(bytes);
    assert_eq!(&bytes[head.len()..], b"hello");
    assert_eq!(head.method(), Method::Post);
    assert_eq!(request.method(), b"POST");
    assert_eq!(request.target(), b"/a/b?c=d");
    assert_eq!(request.path(), b"/a/b");
    assert_eq!(request.query(), Some(&b"c=d"[..]));
    assert_eq!(request.host(), b"a.example:8080");
    assert_eq!(head.version(), Version::Http11);
    assert_eq!(head.framing(), Framing::Length(5));
    assert!(!head.keep_alive());
    assert_eq!(request.fields().get("x-y"), Some(&b"z"[..]));
    assert_eq!(request.fields().iter().len(), 4);
    assert_eq!(request.fields().get("x-z"), None);
}

/// The probes of the five proxies' table and the cases around them.
#[test]
fn ambiguous_framing_is_refused() {
    let check = |fields: &str, expect: u16| {
        let bytes = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        assert_eq!(status(bytes.as_bytes()), expect, "{fields:?}");
    };
    check("Content-Length: 5", 0);
    check("Transfer-Encoding: chunked", 0);
    check("Transfer-Encoding: Chunked", 0);
    check("Content-Length: 5\r\nTransfer-Encoding: chunked", 400);
    check("Transfer-Encoding: chunked\r\nContent-Length: 5", 400);
    check("Content-Length: 0\r\nTransfer-Encoding: chunked", 400);
    check("Content-Length: 5\r\nContent-Length: 6", 400);
    check("Content-Length: 5\r\nContent-Length: 5", 400);
    check("Content-Length: 5, 5", 400);
    check("Content-Length: 5,", 400);
    check("Content-Length: +1", 400);
    check("Content-Length: -1", 400);
    check("Content-Length: 0x10", 400);
    check("Content-Length: 1 2", 400);
    check("Content-Length: 1.0", 400);
    check("Content-Length:", 400);
    check("Content-Length: 5 ", 400);
    check("Content-Length:\t5", 400);
    check("Content-Length: \u{b}5", 400);
    check("Content-Length: 9223372036854775807", 0);
    check("Content-Length: 99999999999999999999", 400);
    check("Content-Length : 5", 400);
    check("Transfer-Encoding: xchunked", 400);
    check("Transfer-Encoding: chunked, identity", 400);
    check("Transfer-Encoding: identity", 400);
    check("Transfer-Encoding: identity, chunked", 400);
    check("Transfer-Encoding: chunked,", 400);
    check("Transfer-Encoding: ,chunked", 400);
    check("Transfer-Encoding: chunked ", 400);
    check("Transfer-Encoding: \tchunked", 400);
    check("Transfer-Encoding:\u{b}chunked", 400);
    check("Transfer-Encoding: chunked, chunked", 400);
    check(
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        400,
    );
    check(
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        400,
    );
    check("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", 400);
    check("Transfer-Encoding: \"chunked\"", 400);
    check("Transfer-Encoding: chunked;q=1", 400);
    check("Transfer-Encoding:", 400);
    check("Transfer-Encoding: gzip, chunked", 501);
    check("Transfer-Encoding: gzip", 400);
    check("Transfer-Encoding : chunked", 400);
    check("Transfer\u{c4}Encoding: chunked", 400);
}

#[test]
fn http_1_0() {
    let check = |fields: &str, expect: u16| {
        let bytes = format!("POST / HTTP/1.0\r\n{fields}\r\n");
        assert_eq!(status(bytes.as_bytes()), expect, "{fields:?}");
    };
    check("", 0);
    check("Host: a\r\n", 0);
    check("Transfer-Encoding: chunked\r\n", 400);
    check("Host: a\r\nHost: a\r\n", 400);
    let keeps =
        |fields: &str| parse(format!("GET / HTTP/1.0\r\n{fields}\r\n").as_bytes()).keep_alive();
    assert!(!keeps(""));
    assert!(keeps("Connection: Keep-Alive\r\n"));
    assert!(!keeps("Connection: keep-alive, close\r\n"));
    let expects = parse(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert!(!expects.expect_continue());
}

#[test]
fn lines_and_fields() {
    let check =
        |bytes: &[u8], expect: u16| assert_eq!(status(bytes), expect, "{}", bytes.escape_ascii());
    let field = |field: &str, expect: u16| check(&with(field), expect);
    field("", 0);
    field("A:b\r\n", 0);
    field("A:\r\n", 0);
    field("A: \t b\tc d \t\r\n", 0);
    field("A: b\u{fc}\r\n", 0);
    field("!#$%&'*+-.^_`|~09: b\r\n", 0);
    field("A : b\r\n", 400);
    field("A\t: b\r\n", 400);
    field(" A: b\r\n", 400);
    field("A: b\r\n c\r\n", 400);
    field("A: b\r\n\tc\r\n", 400);
    field("A: b\r\n \r\n", 400);
    field("A\r\n", 400);
    field(": b\r\n", 400);
    field("A(: b\r\n", 400);
    field("A\u{0}: b\r\n", 400);
    field("A: b\u{0}\r\n", 400);
    field("A: b\u{7f}\r\n", 400);
    field("A: b\u{1}c\r\n", 400);
    field("A: b\rc\r\n", 400);
    field("A: b\r\r\n", 400);
    field("A: b\n", 400);
    field("A: b\nB: c\r\n", 400);
    // Each line end in turn without its carriage return.
    let whole = "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\n";
    check(whole.as_bytes(), 0);
    for (at, _) in whole.match_indices("\r\n") {
        let mut bare = whole.to_owned();
        bare.remove(at);
        check(bare.as_bytes(), 400);
        let mut double = whole.to_owned();
        double.insert(at, '\r');
        check(double.as_bytes(), 400);
    }
    check(b"GET / HTTP/1.1\nHost: a\n\n", 400);
}

#[test]
fn request_lines() {
    let check = |line: &str, expect: u16| {
        let bytes = format!("{line}\r\nHost: a.example\r\n\r\n");
        assert_eq!(status(bytes.as_bytes()), expect, "{line:?}");
    };
    check("GET / HTTP/1.1", 0);
    check("\r\nGET / HTTP/1.1", 0);
    check("\r\n\r\nGET / HTTP/1.1", 400);
    check("\nGET / HTTP/1.1", 400);
    check(" GET / HTTP/1.1", 400);
    check("GET  / HTTP/1.1", 400);
    check("GET /  HTTP/1.1", 400);
    check("GET / HTTP/1.1 ", 400);
    check("GET\t/ HTTP/1.1", 400);
    check("GET /a b HTTP/1.1", 400);
    check("GET / http/1.1", 400);
    check("GET / HTTP/1", 400);
    check("GET / HTTP/11", 400);
    check("GET / HTTP/1.x", 400);
    check("GET / HTTP/01.1", 400);
    check("GET / HTCPCP/1.0", 400);
    check("GET /", 400);
    check("GET", 400);
    check("/ HTTP/1.1", 400);
    check("G\u{e4}T / HTTP/1.1", 400);
    check("GET / HTTP/1.2", 0);
    check("GET / HTTP/0.9", 505);
    check("GET / HTTP/2.0", 505);
    check("PRI * HTTP/2.0", 505);
    check("BREW / HTTP/1.1", 0);
    check(&format!("{} / HTTP/1.1", "M".repeat(32)), 0);
    check(&format!("{} / HTTP/1.1", "M".repeat(33)), 501);
    check("GET /\u{0} HTTP/1.1", 400);
    check("GET /\u{7f} HTTP/1.1", 400);
    check("GET /#f HTTP/1.1", 400);
    check("GET /|{}^\"<>\\ HTTP/1.1", 0);
    check("GET /b\u{fc}cher HTTP/1.1", 0);
}

#[test]
fn targets_and_hosts() {
    let check = |line: &str, hosts: &str, expect: u16| {
        let bytes = format!("{line} HTTP/1.1\r\n{hosts}\r\n");
        assert_eq!(status(bytes.as_bytes()), expect, "{line:?} {hosts:?}");
    };
    let a = "Host: a.example\r\n";
    check("GET /", "", 400);
    check("GET /", "Host:\r\n", 400);
    check("GET /", "Host: a\r\nHost: a\r\n", 400);
    check("GET /", "Host: a\r\nhost: b\r\n", 400);
    check("GET /", "Host: a, b\r\n", 400);
    check("GET /", "Host: a b\r\n", 400);
    check("GET /", "Host: u@a\r\n", 400);
    check("GET /", "Host: a/b\r\n", 400);
    check("GET /", "Host: a:99999\r\n", 400);
    check("GET /", "Host: [::1]:80\r\n", 0);
    check("GET http://a.example/", a, 0);
    check("GET http://A.EXAMPLE:80", a, 0);
    check("GET https://a.example?q", a, 0);
    check("GET http://b.example/", a, 400);
    check("GET http://a.example:81/", a, 400);
    check("GET http://u@a.example/", a, 400);
    check("GET http:///", a, 400);
    check("GET http://a.example/", "", 400);
    check("GET ftp://a.example/", a, 400);
    check("GET a.example", a, 400);
    check("GET a.example:80", a, 400);
    check("GET ?q", a, 400);
    check("OPTIONS *", a, 0);
    check("GET *", a, 400);
    check("OPTIONS *x", a, 400);
    check("CONNECT a.example:443", a, 501);
    check("CONNECT /", a, 501);
    check("TRACE /", a, 501);

    let form = |line: &str, form: Form, path: &str, sent: &str| {
        let bytes = format!("{line} HTTP/1.1\r\n{a}\r\n");
        let head = parse(bytes.as_bytes());
        let request = head.on(bytes.as_bytes());
        assert_eq!(head.form(), form, "{line}");
        assert_eq!(request.path(), path.as_bytes(), "{line}");
        let origin_form = request.origin_form();
        assert_eq!(
            [origin_form.root.as_bytes(), origin_form.path].concat(),
            sent.as_bytes(),
            "{line}"
        );
    };
    form("GET /p?q?r", Form::Origin, "/p", "/p?q?r");
    form("GET http://a.example", Form::Absolute, "/", "/");
    form("GET http://a.example?q", Form::Absolute, "/", "/?q");
    form("GET http://a.example/p?q", Form::Absolute, "/p", "/p?q");
    form("OPTIONS http://a.example", Form::Absolute, "*", "*");
    form("OPTIONS *", Form::Asterisk, "*", "*");
}

#[test]
fn connection_options() {
    let head = |fields: &str| parse(&with(fields));
    assert!(head("").keep_alive());
    assert!(!head("Connection: Close\r\n").keep_alive());
    assert!(!head("Connection: keep-alive\r\nConnection: x, close\r\n").keep_alive());
    let upgrade = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n";
    assert!(head(upgrade).websocket());
    assert!(!head("Upgrade: websocket\r\n").websocket());
    assert!(!head("Connection: upgrade\r\n").websocket());
    assert!(!head("Connection: upgrade\r\nUpgrade: h2c\r\n").websocket());
    assert!(!head("Connection: upgrade\r\nUpgrade: websocket, h2c\r\n").websocket());
    assert!(!head(&format!("{upgrade}Upgrade: h2c\r\n")).websocket());
    assert!(!head(&format!("{upgrade}Content-Length: 3\r\n")).websocket());
    assert!(!parse(format!("GET / HTTP/1.0\r\n{upgrade}\r\n").as_bytes()).websocket());
    let options = |n: usize| {
        status(&with(&format!(
            "Connection: {}\r\n",
            vec!["x"; n].join(",")
        )))
    };
    assert_eq!((options(16), options(17)), (0, 431));

    let expects = |fields: &str| head(fields).expect_continue();
    assert!(expects("Expect: 100-Continue\r\nContent-Length: 1\r\n"));
    assert!(expects(
        "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n"
    ));
    assert!(!expects("Expect: 100-continue\r\nContent-Length: 0\r\n"));
    assert!(!expects("Expect: 100-continue\r\n"));
    assert_eq!(status(&with("Expect: 200-ok\r\n")), 417);

    assert!(head("TE: deflate, Trailers\r\n").wants_trailers());
    assert!(!head("TE: deflate\r\n").wants_trailers());
    let forwards = |value: &str| {
        let bytes = format!("OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: {value}\r\n\r\n");
        Head::parse(bytes.as_bytes(), &Limits::default()).map(|p| match p {
            Parsed::Complete { head, .. } => head.max_forwards(),
            Parsed::Partial => None,
        })
    };
    assert_eq!(forwards("0").unwrap(), Some(0));
    assert_eq!(forwards("x").unwrap_err().status, 400);
    assert_eq!(head("Max-Forwards: x\r\n").max_forwards(), None);
}

/// Each limit: the value that passes, and its neighbour that does not.
#[test]
fn limits() {
    let limits = Limits {
        head_bytes_max: 100,
        target_bytes_max: 20,
        headers_max: 3,
    };
    let check = |bytes: &str, expect: u16| {
        let status = match Head::parse(bytes.as_bytes(), &limits) {
            Ok(Parsed::Complete { .. }) => 0,
            Ok(Parsed::Partial) => 100,
            Err(bad) => bad.status,
        };
        assert_eq!(status, expect, "{bytes:?}");
    };
    let head = |target: usize, fields: &str| {
        format!(
            "GET /{} HTTP/1.1\r\nHost: a\r\n{fields}\r\n",
            "t".repeat(target - 1)
        )
    };
    check(&head(20, ""), 0);
    check(&head(21, ""), 414);
    check(&head(1, "A: b\r\nC: d\r\n"), 0);
    check(&head(1, "A: b\r\nC: d\r\nE: f\r\n"), 431);
    let value = |len: usize| head(1, &format!("A: {}\r\n", "v".repeat(len)));
    let fits = 100 - value(0).len();
    check(&value(fits), 0);
    check(&value(fits + 1), 431);
    // Without an end as soon as it cannot fit, not before.
    let cut = |len: usize| value(200)[..len].to_owned();
    check(&cut(99), 100);
    check(&cut(100), 431);
    check(&format!("GET /{}", "t".repeat(95)), 414);
    check(&format!("GET /{}", "t".repeat(15)), 100);
    check("\u{16}\u{3}\u{1}", 400);
    check("", 100);
    check("\r", 100);
    check("\r\n", 100);
    check("G", 100);
}

#[test]
fn the_preface_of_http_2() {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for cut in 0..preface.len() {
        assert_eq!(levee_http::request::is_h2_preface(&preface[..cut]), None);
    }
    assert_eq!(
        levee_http::request::is_h2_preface(&[preface, &b"x"[..]].concat()),
        Some(true)
    );
    assert_eq!(
        levee_http::request::is_h2_preface(b"PRI * HTTP/1.1"),
        Some(false)
    );
    assert_eq!(levee_http::request::is_h2_preface(b"PUT"), Some(false));
}
