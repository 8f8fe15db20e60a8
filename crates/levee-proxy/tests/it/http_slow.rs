//! Clients that are slow, in every phase, and what is not their fault.

use std::time::{Duration, Instant};

use levee_policy::Span;
use levee_policy::selective::{self, Kind, Strategy, phases_of_http};
use levee_proxy::http::settings::{ConnectionSettings, HttpSettings};
use levee_proxy::http::snapshot::Phase;

use crate::http_world::{World, get, within};

/// A deadline of the tests, and how often a drip comes: well within it.
const SHORT: Duration = Duration::from_millis(300);
const DRIP: Duration = Duration::from_millis(40);

fn short(change: fn(&mut HttpSettings)) -> impl FnOnce(&mut HttpSettings) {
    change
}

/// Sends `bytes` a byte at a time for as long as the other side reads.
async fn drip(wire: &mut crate::http_world::Wire, bytes: &str) -> Duration {
    let begun = Instant::now();
    let mut bytes = bytes.bytes().cycle();
    loop {
        let byte = bytes.next().unwrap();
        tokio::select! {
            () = tokio::time::sleep(DRIP) => wire.send([byte]).await,
            ready = wire.stream.readable() => {
                ready.unwrap();
                return begun.elapsed();
            }
        }
        assert!(
            begun.elapsed() < Duration::from_secs(8),
            "nobody cuts a drip"
        );
    }
}

/// Case 7: who says nothing is not answered, and not kept.
#[tokio::test]
async fn a_silent_connection_is_closed() {
    let world = World::with(short(|s| s.timeouts.headers = SHORT)).await;
    let begun = Instant::now();
    let mut wire = world.connect().await;
    assert_eq!(wire.rest().await, "");
    assert!(begun.elapsed() >= SHORT);
    assert_eq!(
        world.front.snapshot().await.traffic.timed_out[Phase::Headers],
        1
    );
}

/// Case 8: the deadline is for the whole head, however regularly its bytes come.
#[tokio::test]
async fn a_dripped_head_is_408() {
    let world = World::with(short(|s| s.timeouts.headers = SHORT)).await;
    let mut wire = world.connect().await;
    wire.send("GET / HTTP/1.1\r\nHost: a\r\n").await;
    assert!(drip(&mut wire, "X: y\r\n").await >= SHORT - DRIP);
    let answer = wire.answer().await;
    assert_eq!(
        (answer.status, answer.header("connection")),
        (408, Some("close"))
    );
    // A later head of a connection has the same deadline, from its first byte.
    let mut wire = world.connect().await;
    wire.send(get("/")).await;
    assert_eq!(wire.answer().await.status, 200);
    assert!(drip(&mut wire, "G").await >= SHORT);
    assert_eq!(wire.answer().await.status, 408);
    assert_eq!(world.seen.requests().len(), 1);
}

/// Case 9: a body that stops is 408. One that drips is within this deadline; it is the connection table that judges it.
#[tokio::test]
async fn a_body_that_stops_is_408_and_the_server_is_let_go() {
    let world = World::with(short(|s| s.timeouts.body = SHORT)).await;
    let mut wire = world.connect().await;
    wire.send("POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
        .await;
    let begun = Instant::now();
    assert_eq!(wire.answer().await.status, 408);
    assert!(begun.elapsed() >= SHORT);
    within("the cancelling", world.seen.cancelled.notified()).await;
    let traffic = world.front.snapshot().await.traffic;
    assert_eq!(
        (traffic.timed_out[Phase::Body], traffic.replied[&408]),
        (1, 1)
    );
}

/// Case 10.
#[tokio::test]
async fn a_client_that_does_not_read_is_cut() {
    let world = World::with(short(|s| s.timeouts.send = SHORT)).await;
    let mut wire = world.connect().await;
    wire.send(get("/huge")).await;
    within("the cancelling", world.seen.cancelled.notified()).await;
    let traffic = world.front.snapshot().await.traffic;
    assert_eq!(traffic.timed_out[Phase::Sending], 1);
    // What is still in the kernel may be read; it does not look complete.
    assert!(wire.response().await.is_none());
}

/// Case 24: a silence between requests has its own limit, and a connection its number of requests.
#[tokio::test]
async fn a_kept_connection_has_its_limits() {
    let world = World::with(short(|s| {
        s.timeouts.idle = SHORT;
        s.limits.keep_alive_requests = 3;
    }))
    .await;
    let mut wire = world.connect().await;
    wire.send(get("/")).await;
    assert_eq!(wire.answer().await.header("connection"), None);
    let begun = Instant::now();
    assert_eq!(wire.rest().await, "");
    assert!(begun.elapsed() >= SHORT);
    assert_eq!(
        world.front.snapshot().await.traffic.timed_out[Phase::Idle],
        1
    );
    let mut wire = world.connect().await;
    for connection in [None, None, Some("close")] {
        wire.send(get("/")).await;
        assert_eq!(wire.answer().await.header("connection"), connection);
    }
    assert_eq!(wire.rest().await, "");
}

/// Case 25: while the server computes, the client is not slow, whatever its own deadlines are.
#[tokio::test]
async fn a_slow_server_is_not_the_clients_fault() {
    let world = World::with(short(|s| {
        s.timeouts.headers = SHORT;
        s.timeouts.body = SHORT;
        s.timeouts.send = SHORT;
        s.timeouts.idle = SHORT;
    }))
    .await;
    let mut wire = world.connect().await;
    wire.send(get("/when-told")).await;
    within("the request", world.seen.came.notified()).await;
    // A client beside it, which is late in every one of these, tells when the deadlines have passed.
    let mut late = world.connect().await;
    late.send("GET").await;
    assert_eq!(late.answer().await.status, 408);
    world.seen.go.one();
    assert_eq!(wire.answer().await.body, "told");
}

/// A client that waits for the server's 100 is not slow either.
#[tokio::test]
async fn who_waits_for_100_is_not_slow() {
    let world = World::with(short(|s| {
        s.timeouts.body = Duration::from_millis(50);
        s.timeouts.upstream_first_byte = SHORT;
    }))
    .await;
    let mut wire = world.connect().await;
    wire.send(
        "POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    )
    .await;
    assert_eq!(wire.answer().await.status, 504);
}

/// Once it was told to go on it is, if it does not.
#[tokio::test]
async fn who_got_its_100_has_to_send() {
    let world = World::with(short(|s| s.timeouts.body = SHORT)).await;
    let mut wire = world.connect().await;
    wire.send(
        "POST /continue HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    )
    .await;
    let told = wire.until("\r\n\r\n").await;
    assert!(told.starts_with("HTTP/1.1 100 "), "{told}");
    assert_eq!(wire.answer().await.status, 408);
}

/// After an early answer the connection is closed in peace: what the client still sends is read for a while.
#[tokio::test]
async fn lingering_ends() {
    let world = World::with(short(|s| s.timeouts.linger = SHORT)).await;
    let mut wire = world.connect().await;
    wire.send("GET / HTTP/1.1\r\n\r\n").await;
    assert_eq!(wire.answer().await.status, 400);
    // It says that it closes, and then drops what comes: the rest of it is our silence.
    let begun = Instant::now();
    assert_eq!(wire.rest().await, "");
    within("the closing", async {
        while world.front.snapshot().await.traffic.connections.sum() > 0 {
            wire.send("x").await;
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(begun.elapsed() >= SHORT - Duration::from_millis(50));
}

pub(crate) fn table_of(capacity: u32) -> impl FnOnce(&mut HttpSettings) {
    move |s| {
        s.connections = Some(ConnectionSettings {
            capacity,
            defense: selective::Config {
                strategy: Strategy::Uniform,
                phases: phases_of_http(),
                // Every newcomer has good chances: P1 = k / (k + PMod).
                pmod_start: 0,
                round: Span::from_millis(20),
                ..selective::Config::default()
            },
            record: None,
        });
    }
}

/// A full table of slow clients, in three phases: honest ones still come in, and those who lose their place are told so where they
/// can be.
#[tokio::test]
async fn slow_clients_lose_their_places_when_they_are_needed() {
    let world = World::with(table_of(3)).await;
    let mut slow = Vec::new();
    for start in [
        "GET / HTTP/1.1\r\nX: ",
        "POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
        "",
    ] {
        let mut wire = world.connect().await;
        wire.send(start).await;
        slow.push(wire);
    }
    within("the table", async {
        while world.front.snapshot().await.gate.connections.unwrap().held < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Nobody is dropped before a place is needed.
    assert_eq!(
        world
            .front
            .snapshot()
            .await
            .gate
            .connections
            .unwrap()
            .stats
            .p2_used,
        0
    );
    let mut served = 0;
    within("honest requests", async {
        while served < 20 {
            let mut wire = world.connect().await;
            wire.send(get("/")).await;
            served += u32::from(wire.response().await.is_some_and(|r| r.status == 200));
        }
    })
    .await;
    let evicted = world
        .front
        .snapshot()
        .await
        .gate
        .connections
        .unwrap()
        .stats
        .p2_used;
    assert!(evicted >= 1, "somebody had to go");
    // A head or a body that was begun is answered 408; who had said nothing is only closed.
    let mut told = 0;
    for wire in &mut slow {
        let answer = tokio::time::timeout(Duration::from_millis(50), wire.response()).await;
        if let Ok(Some(answer)) = answer {
            assert_eq!(
                (answer.status, answer.header("connection")),
                (408, Some("close"))
            );
            told += 1;
        }
    }
    assert!(told <= evicted);
}

/// Who finds no place is told so, whether it has spoken yet or not.
#[tokio::test]
async fn a_newcomer_that_is_not_let_in_is_told_when_to_come_again() {
    let world = World::with(|s| {
        s.connections = Some(ConnectionSettings {
            capacity: 1,
            defense: selective::Config {
                phases: phases_of_http(),
                ..selective::Config::of_kind(Kind::Refuse)
            },
            record: None,
        });
    })
    .await;
    let mut first = world.connect().await;
    first.send(get("/")).await;
    assert_eq!(first.answer().await.status, 200);
    let mut second = world.connect().await;
    let answer = second.answer().await;
    assert_eq!(answer.status, 503);
    assert!(answer.header("retry-after").is_some(), "{}", answer.head);
    assert_eq!(second.rest().await, "");
    // The place is free when the first has gone.
    drop(first);
    within("a place", async {
        while world.get("/").await.status != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
