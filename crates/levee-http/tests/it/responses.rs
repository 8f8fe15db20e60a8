//! Responses of servers behind us.

use levee_http::request::Method;
use levee_http::response::Head;
use levee_http::{Framing, Limits, Parsed};

fn framing(method: Method, text: &str) -> Result<Framing, u16> {
    match Head::parse(text.as_bytes(), method, &Limits::default()) {
        Ok(Parsed::Complete { head, len }) => {
            assert_eq!(len, text.len());
            Ok(head.framing())
        }
        Ok(Parsed::Partial) => panic!("{text:?} goes on"),
        Err(bad) => Err(bad.status),
    }
}

#[test]
fn the_length_of_a_body() {
    let check = |method, text: &str, expect| assert_eq!(framing(method, text), expect, "{text:?}");
    let get = Method::Get;
    check(
        get,
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
        Ok(Framing::Length(3)),
    );
    check(
        get,
        "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n",
        Ok(Framing::Chunked),
    );
    check(get, "HTTP/1.0 200 OK\r\n\r\n", Ok(Framing::UntilClose));
    check(
        Method::Head,
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
        Ok(Framing::None),
    );
    check(
        get,
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n",
        Ok(Framing::None),
    );
    check(get, "HTTP/1.1 204 No Content\r\n\r\n", Ok(Framing::None));
    check(
        get,
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        Ok(Framing::None),
    );
    check(
        get,
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        Err(502),
    );
    check(
        get,
        "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\n",
        Err(502),
    );
    check(
        get,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        Err(502),
    );
    check(
        get,
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        Err(502),
    );
    check(get, "HTTP/2.0 200 OK\r\n\r\n", Err(502));
    check(get, "HTTP/1.1 20 OK\r\n\r\n", Err(502));
    check(get, "HTTP/1.1 2000 OK\r\n\r\n", Err(502));
    check(get, "HTTP/1.1 200 OK\nA: b\r\n\r\n", Err(502));
    check(get, "HTTP/1.1 101 Switching Protocols\r\n\r\n", Err(502));
}
