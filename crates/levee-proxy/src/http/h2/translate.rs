//! Heads of HTTP/2 as heads of HTTP/1.1, and back.
//!
//! The head of a stream is written as HTTP/1.1 has it and read by `levee-http`, so that both protocols are held to the same
//! rules and go the same way from there: what would split or smuggle behind us is refused in one place.

use http::header::{CONTENT_LENGTH, COOKIE, DATE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use levee_http::{Bad, Framing, response};

const MALFORMED: Bad = Bad {
    status: 400,
    reason: "a field of a connection in HTTP/2",
};

/// Writes the head of a request. `ends`: no body follows.
pub(super) fn request(out: &mut Vec<u8>, parts: &Parts, ends: bool) -> Result<(), Bad> {
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let target = parts
        .uri
        .path_and_query()
        .map(http::uri::PathAndQuery::as_str);
    out.clear();
    out.extend_from_slice(parts.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.or(authority).unwrap_or_default().as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    if let Some(authority) = authority {
        line(out, b"host", authority.as_bytes());
    }
    let mut cookies = 0;
    for (name, value) in &parts.headers {
        match name.as_str() {
            // The same host twice is one; another is one too many (RFC 9113 section 8.3.1).
            "host"
                if authority
                    .is_some_and(|a| value.as_bytes().eq_ignore_ascii_case(a.as_bytes())) => {}
            "cookie" => cookies += 1,
            // RFC 9113 section 8.2.2.
            "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => {
                return Err(MALFORMED);
            }
            "te" if value.as_bytes() != b"trailers" => return Err(MALFORMED),
            name => line(out, name.as_bytes(), value.as_bytes()),
        }
    }
    if cookies > 0 {
        // A client may send each pair alone; a server wants them in one line (RFC 9113 section 8.2.3).
        out.extend_from_slice(b"cookie: ");
        for (i, crumb) in parts.headers.get_all(COOKIE).iter().enumerate() {
            if i > 0 {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(crumb.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
    if !ends && !parts.headers.contains_key(CONTENT_LENGTH) {
        line(out, b"transfer-encoding", b"chunked");
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The head of an answer of the server. `date` is for one that has none.
pub(super) fn response(from: response::Response<'_>, date: &[u8; 29]) -> Response<()> {
    let head = from.head;
    let mut to = Response::new(());
    *to.status_mut() = StatusCode::from_u16(head.status()).unwrap_or(StatusCode::BAD_GATEWAY);
    let fields = to.headers_mut();
    for field in from.sent_on() {
        append(fields, field.text, field.value);
    }
    if head.is_interim() {
        return to;
    }
    if let Some(n) = head.content_length().filter(|_| head.status() != 204) {
        fields.insert(CONTENT_LENGTH, n.into());
    }
    dated(fields, date);
    to
}

/// Whether the answer ends with its head.
pub(super) fn ends(from: response::Response<'_>) -> bool {
    matches!(from.head.framing(), Framing::None | Framing::Length(0))
}

/// Adds a Date if there is none.
pub(super) fn dated(fields: &mut HeaderMap, date: &[u8; 29]) {
    if !fields.contains_key(DATE)
        && let Ok(date) = HeaderValue::from_bytes(date)
    {
        fields.insert(DATE, date);
    }
}

/// Lines of trailers as fields.
pub(super) fn trailers(lines: &[u8]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines.split(|c| *c == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(colon) = line.iter().position(|c| *c == b':') {
            append(&mut fields, &line[..colon], line[colon + 1..].trim_ascii());
        }
    }
    fields
}

/// Fields of trailers as lines, those left out that may not stand there.
pub(super) fn trailer_lines(fields: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in fields {
        if levee_http::chunked::may_trail(name.as_str().as_bytes()) {
            line(&mut lines, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    lines
}

fn append(fields: &mut HeaderMap, name: &[u8], value: &[u8]) {
    let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
    else {
        // `levee-http` has read both, and is stricter.
        return;
    };
    // A server may send as many fields as fit its limit; the map has one of its own, far above.
    drop(fields.try_append(name, value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use levee_http::request::{Head, Method};
    use levee_http::{Limits, Parsed};

    fn parts(request: http::request::Builder) -> Parts {
        request.body(()).unwrap().into_parts().0
    }

    fn written(request: http::request::Builder, ends: bool) -> Result<String, u16> {
        let mut out = Vec::new();
        super::request(&mut out, &parts(request), ends).map_err(|bad| bad.status)?;
        match Head::parse(&out, &Limits::default()) {
            Ok(Parsed::Complete { len, .. }) => assert_eq!(len, out.len()),
            Ok(Parsed::Partial) => panic!("{} goes on", out.escape_ascii()),
            Err(bad) => return Err(bad.status),
        }
        Ok(String::from_utf8(out).unwrap())
    }

    fn get(uri: &str) -> http::request::Builder {
        http::Request::get(uri)
    }

    #[test]
    fn requests() {
        let check = |request, ends, expect: Result<&str, u16>| {
            assert_eq!(written(request, ends), expect.map(str::to_owned));
        };
        check(
            get("https://a.example/p?q").header("accept", "*/*"),
            true,
            Ok("GET /p?q HTTP/1.1\r\nhost: a.example\r\naccept: */*\r\n\r\n"),
        );
        check(
            get("https://a.example/").header("host", "A.example"),
            true,
            Ok("GET / HTTP/1.1\r\nhost: a.example\r\n\r\n"),
        );
        check(
            get("/")
                .header("host", "a")
                .header("cookie", "a=b")
                .header("cookie", "c=d"),
            true,
            Ok("GET / HTTP/1.1\r\nhost: a\r\ncookie: a=b; c=d\r\n\r\n"),
        );
        check(
            http::Request::post("https://a/").header("te", "trailers"),
            false,
            Ok("POST / HTTP/1.1\r\nhost: a\r\nte: trailers\r\ntransfer-encoding: chunked\r\n\r\n"),
        );
        check(
            http::Request::post("https://a/").header("content-length", "3"),
            false,
            Ok("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n"),
        );
        check(
            http::Request::options("*").header("host", "a"),
            true,
            Ok("OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n"),
        );
        check(get("https://a/").header("host", "b"), true, Err(400));
        check(get("/"), true, Err(400));
        check(get("https://u@a/"), true, Err(400));
        check(
            get("https://a/").header("connection", "close"),
            true,
            Err(400),
        );
        check(
            get("https://a/").header("transfer-encoding", "chunked"),
            false,
            Err(400),
        );
        check(get("https://a/").header("te", "gzip"), true, Err(400));
        check(
            get("https://a/")
                .header("content-length", "3")
                .header("content-length", "3"),
            false,
            Err(400),
        );
        check(
            get("https://a/").header("content-length", "+3"),
            false,
            Err(400),
        );
        check(
            http::Request::builder().method("CONNECT").uri("a:443"),
            true,
            Err(501),
        );
        check(get("https://a/").header("expect", "x"), true, Err(417));
    }

    #[test]
    fn responses() {
        let check = |text: &str, expect: &[(&str, &str)], ends_at_once| {
            let Ok(Parsed::Complete { head, .. }) =
                response::Head::parse(text.as_bytes(), Method::Get, &Limits::default())
            else {
                panic!("{text:?} is good");
            };
            let from = head.on(text.as_bytes());
            let got = response(from, b"Sun, 06 Nov 1994 08:49:37 GMT");
            let fields: Vec<_> = got
                .headers()
                .iter()
                .map(|(n, v)| (n.as_str(), v.to_str().unwrap()))
                .collect();
            assert_eq!(fields, expect, "{text:?}");
            assert_eq!(ends(from), ends_at_once, "{text:?}");
        };
        check(
            "HTTP/1.1 200 OK\r\nServer: s\r\nConnection: close, X-A\r\nX-A: b\r\nKeep-Alive: 1\r\nContent-Length: 4\r\n\r\n",
            &[
                ("server", "s"),
                ("content-length", "4"),
                ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ],
            false,
        );
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nDate: d\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n",
            &[("date", "d"), ("set-cookie", "a"), ("set-cookie", "b")],
            false,
        );
        check(
            "HTTP/1.1 103 Early Hints\r\nLink: l\r\n\r\n",
            &[("link", "l")],
            true,
        );
        check(
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\nDate: d\r\n\r\n",
            &[("date", "d"), ("content-length", "9")],
            true,
        );
    }

    #[test]
    fn trailers_there_and_back() {
        let lines = b"x-sum: 9\r\ngrpc-status: 0\r\n";
        assert_eq!(trailer_lines(&trailers(lines)), lines);
        let fields = trailers(b"content-length: 3\r\nx: y\r\n");
        assert_eq!(trailer_lines(&fields), b"x: y\r\n");
    }
}
