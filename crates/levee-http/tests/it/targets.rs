//! What the fuzzer calls, and what the replay of its corpus calls: each takes any bytes, and asserts what must hold for
//! all of them. The fuzz workspace includes this file by its path.

use std::net::IpAddr;

use levee_http::chunked::{self, Decoder, Step};
use levee_http::edit::{self, Connection, ForwardRequest, ForwardResponse, Hop, Told};
use levee_http::field::{FieldRef, Fields};
use levee_http::forwarded::{self, Source};
use levee_http::proxy_protocol::{self, Header, V2_BYTES_MAX, Versions};
use levee_http::request::{self, Method};
use levee_http::{Bad, Framing, Limits, Parsed, response};

/// How bytes are cut before they are fed: nothing may hang on it.
const CUTS: [usize; 4] = [1, 2, 3, 17];

/// Room for what an edit adds to a head that fills its limits.
const WIDE: Limits = Limits {
    head_bytes_max: Limits::CEILING,
    target_bytes_max: Limits::CEILING,
    headers_max: 200,
};

/// Feeds ever longer beginnings of `bytes` until one is no longer partial.
fn fed<T, E>(
    bytes: &[u8],
    step: usize,
    mut read: impl FnMut(&[u8]) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let mut to = 0;
    loop {
        to = (to + step).min(bytes.len());
        match read(&bytes[..to]) {
            Ok(None) if to < bytes.len() => {}
            other => return other,
        }
    }
}

/// What `httparse` reads where we read a whole head: the same lines with the same values.
fn as_httparse(
    fields: Fields<'_>,
    len: usize,
    status: httparse::Result<usize>,
    theirs: &[httparse::Header<'_>],
) {
    assert_eq!(status, Ok(httparse::Status::Complete(len)));
    assert_eq!(fields.iter().len(), theirs.len());
    for (ours, theirs) in fields.iter().zip(theirs) {
        assert_eq!(ours.text, theirs.name.as_bytes());
        assert_eq!(ours.value, theirs.value);
    }
}

fn ends(fields: Fields<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let owned = |f: FieldRef<'_>| (f.text.to_vec(), f.value.to_vec());
    fields.iter().map(owned).collect()
}

/// Every line of a head ends with CR LF, and nothing else controls.
fn is_clean(head: &[u8]) -> bool {
    head.ends_with(b"\r\n\r\n")
        && head.iter().enumerate().all(|(i, c)| match c {
            b'\r' => head.get(i + 1) == Some(&b'\n'),
            b'\n' => i > 0 && head[i - 1] == b'\r',
            b'\t' => true,
            c => *c >= b' ' && *c != 0x7f,
        })
}

/// Reads a request head whole and in pieces, beside `httparse`, and once more after it was edited.
pub(crate) fn http_request(bytes: &[u8]) {
    let limits = Limits::default();
    let whole = request::Head::parse(bytes, &limits);
    for step in CUTS {
        let mut head = request::Head::default();
        let result = fed(bytes, step, |b| head.read(b, &limits));
        match (&whole, result) {
            (Ok(Parsed::Complete { head: want, len }), Ok(Some(n))) => {
                assert_eq!(*len, n);
                assert_eq!(ends(want.on(bytes).fields()), ends(head.on(bytes).fields()));
                assert_eq!(want.framing(), head.framing());
            }
            (Ok(Parsed::Partial), Ok(None)) => {}
            (Err(want), Err(bad)) => assert_eq!(*want, bad, "in steps of {step}"),
            (want, got) => panic!("{want:?} whole, {got:?} in steps of {step}"),
        }
    }
    let Ok(Parsed::Complete { head, len }) = whole else {
        return;
    };
    let request = head.on(bytes);
    let mut lines = [httparse::EMPTY_HEADER; 128];
    let mut theirs = httparse::Request::new(&mut lines);
    // A raw byte above ASCII in the target and an empty line before the head are read there in ways of their own.
    if request.target().is_ascii()
        && !bytes.starts_with(b"\r\n")
        && !request.target().iter().any(|c| b"\"<>\\^`{|}".contains(c))
    {
        // A later minor version is 1.1 here.
        let status = theirs.parse(bytes);
        if status != Err(httparse::Error::Version) {
            assert_eq!(theirs.path.map(str::as_bytes), Some(request.target()));
            as_httparse(request.fields(), len, status, theirs.headers);
        }
    }
    for trusted in [None, Some(Source::XForwarded), Some(Source::Forwarded)] {
        request_rewritten(request, trusted);
    }
}

fn request_rewritten(request: request::Request<'_>, trusted: Option<Source>) {
    let peer: IpAddr = "10.0.0.1".parse().expect("an address");
    let told = Told {
        x_forwarded: true,
        forwarded: true,
        x_real_ip: true,
    };
    let is_trusted = |a: IpAddr| a == peer && trusted.is_some();
    let hop = Hop::new(peer, true, trusted, told);
    let head = request.head;
    let mut out = Vec::new();
    edit::request(
        &mut out,
        request,
        &ForwardRequest {
            hop: &hop,
            origin: forwarded::origin(
                request.fields(),
                peer,
                trusted.unwrap_or_default(),
                is_trusted,
            ),
            target: None,
            host: None,
            framing: head.framing(),
            connection: if head.websocket() {
                Connection::WebSocket
            } else {
                Connection::Persistent
            },
            expect_continue: head.expect_continue(),
            via: b"levee",
            drop: &[],
            lines: b"",
        },
    );
    assert!(is_clean(&out), "{}", out.escape_ascii());
    // HTTP/1.0 may name no host; the server then is asked without one too, and says 400.
    if request.host().is_empty() {
        return;
    }
    let Ok(Parsed::Complete { head: again, len }) = request::Head::parse(&out, &WIDE) else {
        panic!("{} is not read again", out.escape_ascii());
    };
    assert_eq!(len, out.len());
    let sent = again.on(&out);
    assert_eq!(sent.method(), request.method());
    assert_eq!(sent.host(), request.host());
    assert_eq!(
        (sent.path(), sent.query()),
        (request.path(), request.query())
    );
    assert_eq!(again.framing(), head.framing());
    assert_eq!(again.websocket(), head.websocket());
    assert_eq!(again.expect_continue(), head.expect_continue());
    assert!(again.keep_alive());
    for name in [
        "keep-alive",
        "proxy-connection",
        "http2-settings",
        "content_length",
        "x_forwarded_for",
    ] {
        assert_eq!(sent.fields().get(name), None, "{}", out.escape_ascii());
    }
    let count = |name: &str| {
        let fields = sent.fields().iter();
        fields
            .filter(|f| f.text.eq_ignore_ascii_case(name.as_bytes()))
            .count()
    };
    assert_eq!(
        (
            count("x-forwarded-for"),
            count("forwarded"),
            count("x-real-ip")
        ),
        (1, 1, 1)
    );
    if trusted.is_none() {
        assert_eq!(sent.fields().get("x-forwarded-for"), Some(&b"10.0.0.1"[..]));
        assert_eq!(
            (count("x-forwarded-proto"), count("x-forwarded-host")),
            (1, 1)
        );
    }
}

/// The same for response heads; the first byte chooses the request's method.
pub(crate) fn http_response(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else {
        return;
    };
    let method = if *first == b'h' {
        Method::Head
    } else {
        Method::Get
    };
    let limits = Limits::default();
    let whole = response::Head::parse(bytes, method, &limits);
    for step in CUTS {
        let mut head = response::Head::default();
        let result = fed(bytes, step, |b| head.read(b, method, &limits));
        match (&whole, result) {
            (Ok(Parsed::Complete { head: want, len }), Ok(Some(n))) => {
                assert_eq!(*len, n);
                assert_eq!(ends(want.on(bytes).fields()), ends(head.on(bytes).fields()));
                assert_eq!(
                    (want.status(), want.framing()),
                    (head.status(), head.framing())
                );
            }
            (Ok(Parsed::Partial), Ok(None)) => {}
            (Err(want), Err(bad)) => assert_eq!((want.status, *want), (502, bad)),
            (want, got) => panic!("{want:?} whole, {got:?} in steps of {step}"),
        }
    }
    let Ok(Parsed::Complete { head, len }) = whole else {
        return;
    };
    let response = head.on(bytes);
    let mut lines = [httparse::EMPTY_HEADER; 128];
    let mut theirs = httparse::Response::new(&mut lines);
    let status = theirs.parse(bytes);
    if status != Err(httparse::Error::Version) {
        assert_eq!(theirs.code, Some(head.status()));
        as_httparse(response.fields(), len, status, theirs.headers);
    }
    let websocket = head.websocket();
    let mut out = Vec::new();
    edit::response(
        &mut out,
        response,
        &ForwardResponse {
            framing: head.framing(),
            connection: if websocket {
                Connection::WebSocket
            } else {
                Connection::Persistent
            },
            date: b"Sun, 06 Nov 1994 08:49:37 GMT",
            via: b"levee",
            drop: &["server"],
            lines: b"",
        },
    );
    assert!(is_clean(&out), "{}", out.escape_ascii());
    let Ok(Parsed::Complete { head: again, len }) = response::Head::parse(&out, method, &WIDE)
    else {
        panic!("{} is not read again", out.escape_ascii());
    };
    assert_eq!(len, out.len());
    assert_eq!(
        (again.status(), again.framing()),
        (head.status(), head.framing())
    );
    assert_eq!(again.websocket(), websocket);
    assert_eq!(again.on(&out).fields().get("server"), None);
    assert_eq!(again.on(&out).reason(), response.reason());
}

/// Content, trailers, and the bytes used if the body ended.
type Body = (Vec<u8>, Vec<u8>, Option<usize>);

/// A chunked body as a fold over its buffers.
fn decoded(bytes: &[u8], step: usize) -> Result<Body, Bad> {
    let mut decoder = Decoder::new(chunked::Limits::default());
    let mut content = Vec::new();
    for (n, buffer) in bytes.chunks(step).enumerate() {
        let mut at = 0;
        loop {
            match decoder.decode(&buffer[at..])? {
                Step::Data(range) => {
                    assert!(!range.is_empty(), "a step goes forward");
                    content.extend_from_slice(&buffer[at..][range.clone()]);
                    at += range.end;
                }
                Step::More => break,
                Step::End { used } => {
                    assert!(decoder.is_at_end());
                    assert_eq!(decoder.decode(b"x"), Ok(Step::End { used: 0 }));
                    let used = n * step + at + used;
                    return Ok((content, decoder.trailers().to_vec(), Some(used)));
                }
            }
        }
    }
    Ok((content, Vec::new(), None))
}

/// What RFC 9112 section 7.1 says, in words rather than in states: `None` for what is wrong, the end if it is there.
fn naive(bytes: &[u8]) -> Option<Option<(Vec<u8>, usize)>> {
    let line_end = |at: usize| {
        bytes[at..]
            .windows(2)
            .position(|w| w == b"\r\n")
            .map(|n| at + n)
    };
    let mut content = Vec::new();
    let mut at = 0;
    loop {
        let Some(end) = line_end(at) else {
            return Some(None);
        };
        let line = std::str::from_utf8(&bytes[at..end]).ok();
        let size = bytes[at..end].split(|c| *c == b';').next()?;
        let size = std::str::from_utf8(size).ok()?;
        if line.is_some_and(|l| l.starts_with('+')) || size.len() > 16 {
            return None;
        }
        let size = usize::try_from(u64::from_str_radix(size, 16).ok()?).ok()?;
        at = end + 2;
        if size == 0 {
            break;
        }
        let Some(chunk) = bytes[at..].get(..size) else {
            return Some(None);
        };
        content.extend_from_slice(chunk);
        at += size;
        match bytes.get(at..at + 2) {
            None => return Some(None),
            Some(b"\r\n") => at += 2,
            Some(_) => return None,
        }
    }
    loop {
        let Some(end) = line_end(at) else {
            return Some(None);
        };
        let empty = end == at;
        at = end + 2;
        if empty {
            return Some(Some((content, at)));
        }
    }
}

/// Decodes a chunked body in buffers of several sizes, beside a naive reader; then writes it in chunks and reads it again.
pub(crate) fn http_chunked(bytes: &[u8]) {
    let whole = decoded(bytes, bytes.len().max(1));
    for step in CUTS {
        let cut = decoded(bytes, step);
        match (&whole, cut) {
            // How much was found before an error hangs on the cut, and so does what was found before more came.
            (Ok(whole), Ok(cut)) => assert_eq!(*whole, cut),
            (Err(want), Err(bad)) => assert_eq!(*want, bad),
            (want, got) => panic!("{want:?} whole, {got:?} in steps of {step}"),
        }
    }
    match (naive(bytes), &whole) {
        // Signs of its strictness that the naive reader has not.
        (_, Err(bad)) => assert!(matches!(bad.status, 400 | 413 | 431)),
        (None, Ok((_, _, end))) => assert_eq!(*end, None, "the naive reader refuses it"),
        (Some(None), Ok((_, _, end))) => assert_eq!(*end, None),
        (Some(Some((content, used))), Ok((ours, _, end))) => {
            assert_eq!((&content, Some(used)), (ours, *end));
        }
    }
    let Ok((content, trailers, Some(_))) = whole else {
        return;
    };
    let mut again = Vec::new();
    for chunk in content.chunks(300) {
        again.extend_from_slice(chunked::size_line(chunk.len()).as_bytes());
        again.extend_from_slice(chunk);
        again.extend_from_slice(b"\r\n");
    }
    again.extend_from_slice(chunked::LAST);
    again.extend_from_slice(&trailers);
    again.extend_from_slice(b"\r\n");
    let end = Some(again.len());
    assert_eq!(decoded(&again, 7), Ok((content, trailers, end)));
}

/// Reads a PROXY protocol header: the longest wait is bounded, and what is whole does not hang on what follows.
pub(crate) fn http_proxy_protocol(bytes: &[u8]) {
    for versions in [Versions::V1, Versions::V2, Versions::Any] {
        let whole = proxy_protocol::parse(bytes, versions);
        let in_pieces = fed(bytes, 1, |b| match proxy_protocol::parse(b, versions)? {
            Parsed::Complete { head, len } => Ok(Some((head, len))),
            Parsed::Partial => Ok(None),
        });
        match (whole, in_pieces) {
            (Ok(Parsed::Complete { head, len }), Ok(Some(pieces))) => {
                assert_eq!((head, len), pieces);
                assert!(len <= bytes.len().min(V2_BYTES_MAX));
                as_ppp(&bytes[..len], head);
            }
            (Ok(Parsed::Partial), Ok(None)) => assert!(bytes.len() < V2_BYTES_MAX),
            (Err(want), Err(bad)) => assert_eq!(want, bad),
            (want, got) => panic!("{want:?} whole, {got:?} in pieces"),
        }
    }
}

/// What the `ppp` crate reads: the same addresses.
fn as_ppp(bytes: &[u8], ours: Header) {
    let pair = match ppp::HeaderResult::parse(bytes) {
        ppp::HeaderResult::V1(Ok(header)) => match header.addresses {
            ppp::v1::Addresses::Tcp4(a) => Some((
                (IpAddr::V4(a.source_address), a.source_port),
                (IpAddr::V4(a.destination_address), a.destination_port),
            )),
            ppp::v1::Addresses::Tcp6(a) => Some((
                (IpAddr::V6(a.source_address).to_canonical(), a.source_port),
                (
                    IpAddr::V6(a.destination_address).to_canonical(),
                    a.destination_port,
                ),
            )),
            ppp::v1::Addresses::Unknown => None,
        },
        ppp::HeaderResult::V2(Ok(header)) => match header.addresses {
            _ if header.command == ppp::v2::Command::Local
                || header.protocol != ppp::v2::Protocol::Stream =>
            {
                None
            }
            ppp::v2::Addresses::IPv4(a) => Some((
                (IpAddr::V4(a.source_address), a.source_port),
                (IpAddr::V4(a.destination_address), a.destination_port),
            )),
            ppp::v2::Addresses::IPv6(a) => Some((
                (IpAddr::V6(a.source_address).to_canonical(), a.source_port),
                (
                    IpAddr::V6(a.destination_address).to_canonical(),
                    a.destination_port,
                ),
            )),
            ppp::v2::Addresses::Unix(_) | ppp::v2::Addresses::Unspecified => None,
        },
        // It reads UNKNOWN only where its rest is as it expects, and checks a LOCAL header's addresses.
        ppp::HeaderResult::V1(Err(_)) | ppp::HeaderResult::V2(Err(_)) => {
            assert_eq!(ours, Header::Local, "{}", bytes.escape_ascii());
            return;
        }
    };
    let want = match ours {
        Header::Local => None,
        Header::Proxied {
            source,
            destination,
        } => Some((
            (source.ip(), source.port()),
            (destination.ip(), destination.port()),
        )),
    };
    assert_eq!(pair, want, "{}", bytes.escape_ascii());
}

/// Whatever a client writes into forwarding fields, the address that a trusted hop adds is the client.
pub(crate) fn http_forwarded(bytes: &[u8]) {
    let _ = forwarded::address(bytes);
    let value: Vec<u8> = bytes
        .iter()
        .copied()
        .filter(|c| *c == b'\t' || (*c >= b' ' && *c != 0x7f))
        .collect();
    let client: IpAddr = "2001:db8::7".parse().expect("an address");
    let hop: IpAddr = "10.0.0.1".parse().expect("an address");
    let is_hop = |a: IpAddr| a == hop;
    for (source, name, added) in [
        (Source::XForwarded, "X-Forwarded-For", "2001:db8::7"),
        (
            Source::XForwarded,
            "x-forwarded-for",
            "[2001:db8::7]:80, 10.0.0.1",
        ),
        (
            Source::Forwarded,
            "Forwarded",
            "for=\"[2001:db8::7]\";proto=https",
        ),
        (
            Source::Forwarded,
            "Forwarded",
            "proto=https;For=\"[2001:db8::7]:9\", for=10.0.0.1:1",
        ),
    ] {
        for joint in [&b", "[..], format!("\r\n{name}: ").as_bytes()] {
            let head = [
                format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: ").as_bytes(),
                &value,
                joint,
                added.as_bytes(),
                b"\r\n\r\n",
            ]
            .concat();
            let Ok(Parsed::Complete { head: read, .. }) = request::Head::parse(&head, &WIDE) else {
                panic!("{} is a head", head.escape_ascii());
            };
            let fields = read.on(&head).fields();
            assert_eq!(read.framing(), Framing::None);
            // A backslash before the hop's quote is the one thing that reaches over a comma, and a comma is between.
            let found = forwarded::origin(fields, hop, source, is_hop);
            assert_eq!(found.client, client, "{}", head.escape_ascii());
            // From a stranger none of it counts.
            let found = forwarded::origin(fields, client, source, is_hop);
            assert_eq!((found.client, found.https), (client, None));
        }
    }
}
