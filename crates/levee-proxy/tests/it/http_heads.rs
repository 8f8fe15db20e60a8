//! What is refused before the server hears of it, and what the server is told of what is not.

use crate::http_world::{World, get, header};

/// Sends `request`, then a second one behind it. The status of the answer, and whether the connection was closed after it.
async fn probe(world: &World, request: &str) -> (u16, bool) {
    let mut wire = world.connect().await;
    wire.send(format!("{request}{}", get("/second"))).await;
    let first = wire.answer().await.status;
    (first, wire.response().await.is_none())
}

/// Cases 1 to 5 and 13 of the list: each is answered once, the connection is closed, and neither it nor what is smuggled behind
/// it reaches the server.
#[tokio::test]
async fn what_could_be_read_in_two_ways_is_refused() {
    let world = World::new().await;
    let host = "Host: a\r\n";
    let big = "x".repeat(70 << 10);
    let many: String = (0..200).map(|i| format!("X-{i}: 1\r\n")).collect();
    for (request, status) in [
        (
            format!(
                "POST / HTTP/1.1\r\n{host}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            400,
        ),
        (
            format!(
                "POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"
            ),
            400,
        ),
        (
            format!("POST / HTTP/1.1\r\n{host}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
            400,
        ),
        (
            format!("POST / HTTP/1.1\r\n{host}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
            400,
        ),
        (
            format!("POST / HTTP/1.1\r\n{host}Content-Length: +5\r\n\r\nhello"),
            400,
        ),
        (
            format!("POST / HTTP/1.1\r\n{host}Content-Length: 5, 5\r\n\r\nhello"),
            400,
        ),
        (
            format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
            400,
        ),
        (
            format!(
                "POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"
            ),
            400,
        ),
        (
            format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            501,
        ),
        (
            format!("POST / HTTP/1.0\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            400,
        ),
        (format!("GET / HTTP/1.1\r\n{host}X : y\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}X: y\r\n z\r\n\r\n"), 400),
        ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{host}{host}\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}X: \0\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}X: {big}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{host}{many}\r\n"), 431),
        (format!("GET /{} HTTP/1.1\r\n{host}\r\n", &big[..9000]), 414),
        (format!("GET / HTTP/3.0\r\n{host}\r\n"), 505),
        (
            "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n".to_owned(),
            501,
        ),
        (format!("TRACE / HTTP/1.1\r\n{host}\r\n"), 501),
        (
            format!("GET / HTTP/1.1\r\n{host}Expect: a-miracle\r\n\r\n"),
            417,
        ),
    ] {
        let shown: String = request.chars().take(90).collect();
        assert_eq!(probe(&world, &request).await, (status, true), "{shown:?}");
    }
    assert_eq!(world.seen.requests(), [""; 0]);
    let traffic = world.front.snapshot().await.traffic;
    assert_eq!(traffic.bad_requests.values().sum::<u64>(), 23);
    assert_eq!(traffic.replied[&400], 15);
}

/// A chunk that is wrong is found when it comes; what the server has of the request by then is never completed.
#[tokio::test]
async fn a_bad_chunk_is_400_and_the_server_sees_no_end() {
    let world = World::new().await;
    for chunk in [
        "zz\r\n",
        "5\r\nhello!",
        "1\nx\r\n",
        "-1\r\n",
        "11111111111111111\r\n",
    ] {
        let mut wire = world.connect().await;
        let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        wire.send(format!("{head}2\r\nab\r\n{chunk}{}", get("/second")))
            .await;
        let status = wire.answer().await.status;
        assert!(matches!(status, 400 | 413), "{chunk:?}: {status}");
        assert_eq!(wire.rest().await, "", "{chunk:?}");
    }
    for request in world.seen.requests() {
        // The origin notes a body only when it is complete.
        assert!(request.ends_with("\r\n\r\n"), "{request}");
        assert!(!request.contains("/second"), "{request}");
    }
}

#[tokio::test]
async fn a_body_longer_than_allowed_is_413() {
    let world = World::with(|s| s.limits.body_bytes_max = Some(8)).await;
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\n";
    for (request, status) in [
        (format!("{head}Content-Length: 8\r\n\r\n12345678"), 200),
        (format!("{head}Content-Length: 9\r\n\r\n123456789"), 413),
        (
            format!("{head}Transfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n0\r\n\r\n"),
            200,
        ),
        (
            format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n4\r\n6789\r\n0\r\n\r\n"),
            413,
        ),
    ] {
        assert_eq!(world.ask(&request).await.status, status, "{request}");
    }
}

/// A head may be as long as the limit, which is more than one buffer, and come in any pieces.
#[tokio::test]
async fn a_long_head_passes_up_to_the_limit() {
    let world = World::with(|s| s.limits.head_bytes_max = 40_000).await;
    let begin = "GET /a HTTP/1.1\r\nHost: a\r\nX: ";
    for (len, status) in [(40_000, 200), (40_001, 431)] {
        let fill = "x".repeat(len - begin.len() - 4);
        let head = format!("{begin}{fill}\r\n\r\n");
        assert_eq!(head.len(), len);
        let mut wire = world.connect().await;
        for piece in head.as_bytes().chunks(7_001) {
            wire.send(piece).await;
        }
        assert_eq!(wire.answer().await.status, status, "{len}");
    }
    assert_eq!(
        header(&world.seen.requests()[0], "x").map(str::len),
        Some(40_000 - begin.len() - 4)
    );
}

#[tokio::test]
async fn the_server_is_told_who_asks_and_nothing_of_our_connection() {
    let world = World::new().await;
    let request = "GET http://a/x?q=1 HTTP/1.1\r\nHost: a\r\nConnection: X-Mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n\
        Proxy-Connection: keep-alive\r\nUpgrade: h2c\r\nTE: gzip\r\nX-Kept: 2\r\n\r\n";
    assert_eq!(world.ask(request).await.status, 200);
    let head = world.seen.requests().remove(0);
    assert!(head.starts_with("GET /x?q=1 HTTP/1.1\r\n"), "{head}");
    for (name, value) in [
        ("host", Some("a")),
        ("x-kept", Some("2")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("x-forwarded-proto", Some("http")),
        ("x-mine", None),
        ("connection", None),
        ("keep-alive", None),
        ("proxy-connection", None),
        ("upgrade", None),
        ("te", None),
    ] {
        assert_eq!(header(&head, name), value, "{name} in {head}");
    }
}

/// Case 15: what a stranger says of where it comes from is thrown away; what a trusted proxy says is believed and added to.
#[tokio::test]
async fn a_forged_address_is_replaced_and_a_trusted_one_kept() {
    let forged = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\n\
        X_Forwarded_For: 192.0.2.1\r\nForwarded: for=192.0.2.1\r\n\r\n";
    for (trusted, expect) in [
        (vec![], "127.0.0.1"),
        (vec!["127.0.0.0/8".parse().unwrap()], "192.0.2.1, 127.0.0.1"),
    ] {
        let world = World::with(|s| s.forwarded.trusted = trusted).await;
        assert_eq!(world.ask(forged).await.status, 200);
        let head = world.seen.requests().remove(0);
        assert_eq!(header(&head, "x-forwarded-for"), Some(expect), "{head}");
        for name in ["x-real-ip", "forwarded", "x_forwarded_for"] {
            assert_eq!(header(&head, name), None, "{name} in {head}");
        }
    }
}

#[tokio::test]
async fn a_proxy_header_names_the_client_and_is_wanted_where_it_is_on() {
    use levee_proxy::http::settings::ProxyProtocol;
    let trust = |s: &mut levee_proxy::http::settings::HttpSettings| {
        s.forwarded.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        s.forwarded.proxy_protocol = ProxyProtocol::Any;
    };
    let world = World::with(trust).await;
    let v1 = "PROXY TCP4 203.0.113.7 127.0.0.1 4711 80\r\n";
    assert_eq!(world.ask(&format!("{v1}{}", get("/"))).await.status, 200);
    let head = world.seen.requests().remove(0);
    assert_eq!(
        header(&head, "x-forwarded-for"),
        Some("203.0.113.7"),
        "{head}"
    );
    let mut wire = world.connect().await;
    wire.send(get("/")).await;
    assert_eq!(wire.rest().await, "");
    assert_eq!(world.seen.requests().len(), 1);
    assert_eq!(world.front.snapshot().await.traffic.cut["proxy_header"], 1);
}
