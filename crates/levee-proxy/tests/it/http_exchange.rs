//! Requests on their way to the server and back.

use std::time::Duration;

use crate::http_world::{HUGE, Wire, World, get, header, within};

#[tokio::test]
async fn bodies_pass_however_they_are_framed() {
    let world = World::new().await;
    let mut wire = world.connect().await;
    for (path, body) in [
        ("/", "ok"),
        ("/chunked", "Wikipedia"),
        ("/until-close", "all of it"),
    ] {
        wire.send(get(path)).await;
        let answer = wire.answer().await;
        assert_eq!((answer.status, answer.body.as_str()), (200, body), "{path}");
    }
    for (path, framed) in [
        ("/echo", "Content-Length: 5\r\n\r\nhello"),
        (
            "/echo",
            "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\nX: y\r\n\r\n",
        ),
    ] {
        wire.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{framed}"))
            .await;
        assert_eq!(wire.answer().await.body, "hello", "{framed}");
    }
    // An HTTP/1.0 client is sent no chunks, and its connection is closed where the length is not known.
    let mut old = world.connect().await;
    old.send("GET /chunked HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        .await;
    let answer = old.answer().await;
    assert_eq!(
        (answer.body.as_str(), answer.header("connection")),
        ("Wikipedia", Some("close"))
    );
    old = world.connect().await;
    old.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        .await;
    assert_eq!(old.answer().await.header("connection"), Some("keep-alive"));
}

/// Case 22.
#[tokio::test]
async fn answers_without_a_body_have_none() {
    let world = World::new().await;
    let mut wire = world.connect().await;
    for (method, path, fields, status, length) in [
        ("HEAD", "/head", "", 200, Some("1000")),
        (
            "GET",
            "/not-modified",
            "If-None-Match: \"1\"\r\n",
            304,
            Some("1000"),
        ),
        ("GET", "/no-content", "", 204, None),
        ("GET", "/range", "Range: bytes=0-1\r\n", 206, Some("2")),
        ("GET", "/range", "Range: bytes=9-\r\n", 416, Some("0")),
    ] {
        wire.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"
        ))
        .await;
        let answer = wire.response_to(method).await.unwrap();
        assert_eq!(
            (answer.status, answer.header("content-length")),
            (status, length),
            "{path}"
        );
    }
    // All on one connection: none left bytes behind.
    wire.send(get("/")).await;
    assert_eq!(wire.answer().await.body, "ok");
}

/// Requests that are sent ahead are answered in their order, also those behind a body.
#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let world = World::new().await;
    let mut wire = world.connect().await;
    let post = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    wire.send([&get("/chunked"), post, &get("/hints"), &get("/")].concat())
        .await;
    let mut bodies = Vec::new();
    for _ in 0..5 {
        let answer = wire.answer().await;
        bodies.push((answer.status, answer.body));
    }
    let expect = [
        (200, "Wikipedia"),
        (200, "abc"),
        (103, ""),
        (200, "ok"),
        (200, "ok"),
    ];
    assert_eq!(bodies, expect.map(|(s, b)| (s, b.to_owned())));
    // One connection to the server carried them all.
    assert_eq!(world.seen.connections(), 1);
}

/// Answers of our own to requests that were sent ahead go out together, and still in order and before anything is waited for.
#[tokio::test]
async fn answers_of_our_own_keep_their_place() {
    let world = World::new().await;
    let mut wire = world.connect().await;
    let own = "OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n";
    wire.send([own, own, &get("/when-told"), own, "GET / HT"].concat())
        .await;
    let far = "as far as it may go\n";
    for body in [far, far] {
        assert_eq!(wire.answer().await.body, body);
    }
    world.seen.go.one();
    for body in ["told", far] {
        assert_eq!(wire.answer().await.body, body);
    }
    wire.send("TP/1.1\r\n\r\n").await;
    assert_eq!(wire.answer().await.status, 400);
    assert_eq!(wire.rest().await, "");
}

/// Nothing is held whole: a slow reader stops the server, and a fast one gets all.
#[tokio::test]
async fn a_huge_answer_streams_at_the_pace_of_its_reader() {
    let world = World::new().await;
    let mut wire = world.connect().await;
    wire.send(get("/huge")).await;
    let answer = wire.answer().await;
    assert_eq!(answer.body.len(), HUGE);
    let mut gone = world.connect().await;
    gone.send(get("/huge")).await;
    gone.until("xxxx").await;
    drop(gone);
    within("the cancelling", world.seen.cancelled.notified()).await;
}

#[tokio::test]
async fn a_huge_body_streams_to_the_server() {
    let world = World::new().await;
    let mut wire = world.connect().await;
    wire.send(format!(
        "POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: {HUGE}\r\n\r\n"
    ))
    .await;
    for _ in 0..HUGE / 65536 {
        wire.send([b'y'; 65536]).await;
    }
    assert_eq!(wire.answer().await.body, HUGE.to_string());
    assert!(world.front.snapshot().await.traffic.bytes_in >= HUGE as u64);
}

/// Case 14: the 100 is the server's, and comes before the body; a server that refuses at once is heard at once.
#[tokio::test]
async fn a_client_that_waits_for_100_gets_the_servers_word() {
    let world = World::new().await;
    let head = |path| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        )
    };
    let mut wire = world.connect().await;
    wire.send(head("/continue")).await;
    assert_eq!(wire.answer().await.status, 100);
    wire.send("hello").await;
    assert_eq!(wire.answer().await.body, "hello");
    let mut wire = world.connect().await;
    wire.send(head("/early")).await;
    let answer = wire.answer().await;
    assert_eq!(
        (answer.status, answer.header("connection")),
        (403, Some("close"))
    );
}

#[tokio::test]
async fn a_refusal_before_the_body_is_read_reaches_a_client_that_sends_on() {
    let world = World::new().await;
    let mut wire = world.connect().await;
    wire.send("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
        .await;
    let (mut read, mut write) = wire.stream.into_split();
    let sending = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        while write.write_all(&[0; 65536]).await.is_ok() {}
    });
    let mut text = Vec::new();
    within("the answer", async {
        use tokio::io::AsyncReadExt;
        while !text.ends_with(b"no") {
            assert!(read.read_buf(&mut text).await.unwrap() > 0);
        }
    })
    .await;
    assert!(text.starts_with(b"HTTP/1.1 403 "));
    sending.abort();
}

#[tokio::test]
async fn what_the_server_does_wrong_is_502_or_504() {
    let world = World::with(|s| {
        s.timeouts.upstream_first_byte = Duration::from_millis(150);
        s.timeouts.upstream_between_reads = Duration::from_millis(150);
    })
    .await;
    for (path, status) in [
        ("/drop", 502),
        ("/garbage", 502),
        ("/smuggle", 502),
        ("/never", 504),
    ] {
        // The client did nothing wrong, so its connection stays.
        let mut wire = world.connect().await;
        wire.send(get(path)).await;
        assert_eq!(wire.answer().await.status, status, "{path}");
        wire.send(get("/")).await;
        assert_eq!(wire.answer().await.status, 200, "after {path}");
    }
    // An answer that was begun cannot be taken back: it is cut, and does not look complete.
    for path in ["/cut", "/stall"] {
        let mut wire = world.connect().await;
        wire.send(get(path)).await;
        assert!(wire.response().await.is_none(), "{path}");
    }
    // What it says beyond its answer is nobody's.
    let mut wire = world.connect().await;
    for path in ["/extra", "/"] {
        wire.send(get(path)).await;
        assert_eq!(wire.answer().await.body, "ok");
    }
    let traffic = world.front.snapshot().await.traffic;
    let causes: Vec<_> = traffic.upstream_errors.keys().copied().collect();
    assert_eq!(
        causes,
        [
            "bad_answer",
            "server_closed",
            "server_cut",
            "server_late",
            "server_stalled"
        ]
    );
}

#[tokio::test]
async fn no_server_is_502_and_too_many_requests_for_it_503() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = closed.local_addr().unwrap();
    drop(closed);
    let world = World::with(|s| s.server = nobody).await;
    assert_eq!(world.get("/").await.status, 502);
    let world = World::with(|s| s.limits.upstream_connections_max = 1).await;
    let mut first = world.connect().await;
    first.send(get("/when-told")).await;
    within("the first", world.seen.came.notified()).await;
    assert_eq!(world.get("/").await.status, 503);
    world.seen.go.one();
    assert_eq!(first.answer().await.body, "told");
    assert_eq!(world.get("/").await.status, 200);
}

/// A connection that the server closed while it was kept: nobody notices.
#[tokio::test]
async fn a_kept_connection_that_died_costs_nobody_a_request() {
    let world = World::new().await;
    let mut wire = world.connect().await;
    for _ in 0..3 {
        // The origin closes after the answer, which says nothing of it.
        wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(wire.answer().await.status, 200);
    }
    assert_eq!(world.seen.connections(), 1);
    // On a connection that was used before, one that dies under a request that is safe to repeat is tried once more.
    wire.send(get("/drop")).await;
    assert_eq!(wire.answer().await.status, 502);
    assert_eq!(world.seen.connections(), 2);
    assert_eq!(world.seen.requests().len(), 5);
    // And under one that may have done something it is not.
    wire.send(get("/")).await;
    assert_eq!(wire.answer().await.status, 200);
    wire.send("POST /drop HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        .await;
    assert_eq!(wire.answer().await.status, 502);
    assert_eq!(
        (world.seen.connections(), world.seen.requests().len()),
        (3, 7)
    );
}

/// A client that goes takes its request from the server.
#[tokio::test]
async fn a_client_that_goes_cancels_its_request() {
    let world = World::new().await;
    let mut wire = world.connect().await;
    wire.send(get("/never")).await;
    within("the request", world.seen.came.notified()).await;
    drop(wire);
    within("the cancelling", world.seen.cancelled.notified()).await;
    assert_eq!(world.front.snapshot().await.traffic.client_gone, 1);
}

/// Case 6: the switch is the server's to make, and what is sent ahead of it is not passed over HTTP's head.
#[tokio::test]
async fn an_upgrade_waits_for_the_servers_101() {
    let world = World::new().await;
    let upgrade = |path| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"
        )
    };
    let mut wire = world.connect().await;
    // The server does not switch: what follows is a request like any other, and bad ones are refused.
    wire.send(format!(
        "{}{}GET / HTTP/1.1\r\n\r\n",
        upgrade("/"),
        get("/second")
    ))
    .await;
    for status in [200, 200, 400] {
        assert_eq!(wire.answer().await.status, status);
    }
    assert_eq!(world.seen.requests().len(), 2);
    // It does: bytes pass both ways, also those that were sent ahead.
    let mut wire = world.connect().await;
    wire.send(format!("{}early", upgrade("/socket"))).await;
    let answer = wire.answer().await;
    assert_eq!(
        (answer.status, answer.header("upgrade")),
        (101, Some("websocket"))
    );
    wire.until("early").await;
    for text in ["hello", "\0\u{7f}GET / HTTP/1.1\r\n\r\n"] {
        wire.send(text).await;
        wire.until(text).await;
    }
    let traffic = world.front.snapshot().await.traffic;
    assert_eq!(
        (
            traffic.tunnels,
            traffic.connections[levee_proxy::http::snapshot::Phase::Tunnel]
        ),
        (1, 1)
    );
    assert_eq!(
        header(&world.seen.requests()[2], "connection"),
        Some("Upgrade")
    );
}

/// Case 21: events go out as they come, silence is not slowness, and neither they nor a WebSocket notice a reload.
#[tokio::test]
async fn events_and_sockets_are_not_held_back_and_survive_a_reload() {
    let world =
        World::with(|s| s.timeouts.upstream_between_reads = Duration::from_millis(50)).await;
    let mut events = world.connect().await;
    events.send(get("/events")).await;
    let mut socket = world.connect().await;
    socket
        .send(
            "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        )
        .await;
    assert_eq!(socket.answer().await.status, 101);
    world.seen.go.one();
    events.until("data: 0\n\n").await;
    let mut settings = world.settings.clone();
    settings.limits.keep_alive_requests = 1;
    world.front.reload(settings).unwrap();
    // A silence of three times what an answer may be silent for.
    assert_eq!(slow(&world, 150).await, 200);
    world.seen.go.one();
    events.until("data: 1\n\n").await;
    socket.send("still there").await;
    socket.until("still there").await;
    drop(events);
    within("the cancelling", world.seen.cancelled.notified()).await;
}

/// An exchange that takes so many milliseconds, at least.
async fn slow(world: &World, ms: u64) -> u16 {
    let mut wire = world.connect().await;
    wire.send("GET / HT").await;
    tokio::time::sleep(Duration::from_millis(ms)).await;
    wire.send("TP/1.1\r\nHost: a\r\n\r\n").await;
    wire.answer().await.status
}

/// A stop lets go what is under way, and says so on connections that go on.
#[tokio::test]
async fn a_stop_drains() {
    let world = World::new().await;
    let mut idle = world.connect().await;
    idle.send(get("/")).await;
    idle.answer().await;
    let mut busy = world.connect().await;
    busy.send(get("/when-told")).await;
    within("the request", async {
        while world.seen.requests().len() < 2 {
            world.seen.came.notified().await;
        }
    })
    .await;
    let (addr, seen) = (world.addr(), world.seen.clone());
    let stopping = tokio::spawn(world.front.stop(Duration::from_secs(20)));
    // Idle connections are closed at once, which also tells that the draining has begun.
    assert_eq!(idle.rest().await, "");
    seen.go.one();
    let answer = busy.answer().await;
    assert_eq!(
        (answer.body.as_str(), answer.header("connection")),
        ("told", Some("close"))
    );
    assert_eq!(busy.rest().await, "");
    let last = within("the end", stopping).await.unwrap();
    assert_eq!(
        (
            last.traffic.requests_h1,
            last.traffic.connections.sum(),
            last.draining
        ),
        (2, 0, true)
    );
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn a_stop_ends_in_time_whatever_is_under_way() {
    let world = World::new().await;
    let mut busy = world.connect().await;
    busy.send(get("/never")).await;
    within("the request", world.seen.came.notified()).await;
    within("the end", world.front.stop(Duration::from_millis(100))).await;
    assert_eq!(busy.rest().await, "");
}

/// The port that the first worker is given is everybody's.
#[tokio::test]
async fn workers_share_a_port() {
    let world = World::with(|s| s.workers = 3).await;
    for _ in 0..24 {
        assert_eq!(world.get("/").await.status, 200);
    }
    let snapshot = world.front.snapshot().await;
    assert_eq!((snapshot.workers, snapshot.traffic.accepted), (3, 24));
    assert_eq!(snapshot.traffic.responses[2], 24);
}

/// Another server after a reload: kept connections to the old one are not used.
#[tokio::test]
async fn a_reload_changes_the_server() {
    let world = World::new().await;
    let mut wire: Wire = world.connect().await;
    wire.send(get("/")).await;
    wire.answer().await;
    let (other, seen) = crate::http_world::origin().await;
    let mut settings = world.settings.clone();
    settings.server = other;
    world.front.reload(settings).unwrap();
    // The workers hear of it in their own time.
    within("the new server", async {
        while seen.requests().is_empty() {
            wire.send(get("/")).await;
            assert_eq!(wire.answer().await.status, 200);
        }
    })
    .await;
    let mut fixed = world.settings.clone();
    fixed.name = "other".to_owned();
    let refused = world.front.reload(fixed).unwrap_err().to_string();
    assert_eq!(
        refused,
        "`name` cannot change while the front runs: restart it"
    );
    let _ = world.origin;
}
