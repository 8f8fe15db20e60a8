//! SeVen on connections, through the front: who is slow loses its place when another needs it, and not before.

use std::time::Duration;

use levee_policy::Span;
use levee_policy::selective::{self, PhaseId, Strategy, phases_of_http};
use levee_proxy::http::gate::ConnectionsSnapshot;
use levee_proxy::http::settings::{ConnectionSettings, HttpSettings};

use crate::http_world::{Wire, World, get, within};

/// Connections that the table holds.
const K: u32 = 8;
/// A tenth of what is usual, for tests that are quick; rates are ten times what they are.
const USUAL: Duration = Duration::from_millis(100);
/// A drip that is far behind the rate of every phase.
const DRIP: Duration = Duration::from_millis(20);

/// A table whose victim is always the one with the largest drop factor.
fn table(settings: &mut HttpSettings) {
    let mut defense = selective::Config::of_kind(selective::Kind::Seven);
    defense.phases = phases_of_http();
    for phase in &mut defense.phases {
        let tenth = |span: Span| Span::from_nanos(span.as_nanos() / 10);
        phase.usual = phase.usual.map(tenth);
        phase.behind = tenth(phase.behind);
        phase.rate *= 10.0;
    }
    defense.strategy = Strategy::Tournament { size: Some(K) };
    settings.connections = Some(ConnectionSettings {
        capacity: K,
        defense,
        record: None,
    });
}

async fn connections(world: &World) -> ConnectionsSnapshot {
    world.front.snapshot().await.gate.connections.unwrap()
}

async fn until(world: &World, what: &str, is_so: impl Fn(&ConnectionsSnapshot) -> bool) {
    let look = async {
        while !is_so(&connections(world).await) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within(what, look).await;
}

/// Sends a byte now and then until the other side closes: what it says then.
fn drips(mut wire: Wire, bytes: &'static str) -> tokio::task::JoinHandle<String> {
    tokio::spawn(async move {
        let mut bytes = bytes.bytes().cycle();
        loop {
            tokio::select! {
                () = tokio::time::sleep(DRIP) => wire.send([bytes.next().unwrap()]).await,
                ready = wire.stream.readable() => {
                    ready.unwrap();
                    return wire.rest().await;
                }
            }
        }
    })
}

/// An honest request on a connection of its own, tried until it is taken: how often it was refused.
async fn honest(world: &World) -> u32 {
    for refused in 0..200 {
        let mut wire = world.connect().await;
        wire.send(get("/echo")).await;
        if let Some(answer) = wire.response().await {
            assert_eq!(answer.status, 200);
            return refused;
        }
    }
    panic!("an honest client never got in");
}

/// Fills the table but for one place with connections that drip `bytes` after `head`.
async fn slow(
    world: &World,
    head: &str,
    bytes: &'static str,
) -> Vec<tokio::task::JoinHandle<String>> {
    let mut slow = Vec::new();
    for _ in 0..K - 1 {
        let mut wire = world.connect().await;
        wire.send(head).await;
        slow.push(drips(wire, bytes));
    }
    until(world, "the slow ones", |seen| seen.held == K - 1).await;
    slow
}

/// The drip is slower than every phase's rate and keeps every deadline. While there is room it stays; when there is none the honest
/// get in, and it is told 408.
#[tokio::test]
async fn a_drip_loses_its_place_when_it_is_needed_and_not_before() {
    let body = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    for (what, head, bytes, phase) in [
        (
            "headers",
            "GET / HTTP/1.1\r\nHost: a\r\n",
            "X: y\r\n",
            PhaseId::HEADERS,
        ),
        ("body", body, "x", PhaseId::BODY),
    ] {
        let world = World::with(table).await;
        let slow = slow(&world, head, bytes).await;
        tokio::time::sleep(5 * USUAL).await;
        // One place is left, and who leaves it gives it back.
        for _ in 0..3 {
            assert_eq!(honest(&world).await, 0, "{what}");
            until(&world, "that it left", |seen| seen.held == K - 1).await;
        }
        let before = connections(&world).await;
        assert_eq!(before.stats.evicted.total(), 0, "{what}: there was room");
        assert!(slow.iter().all(|slow| !slow.is_finished()), "{what}");
        // An honest one in progress, which stays.
        let mut kept = world.connect().await;
        for _ in 0..4 {
            kept.send(get("/when-told")).await;
            within("its request", world.seen.came.notified()).await;
            honest(&world).await;
            world.seen.go.one();
            let answer = kept.answer().await;
            assert_eq!(answer.status, 200, "{what}: the honest one in progress");
        }
        let seen = connections(&world).await;
        let evicted = seen.stats.evicted.by_phase;
        assert!(evicted[usize::from(phase.0)] >= 1, "{what}: {evicted:?}");
        assert_eq!(
            evicted.iter().sum::<u64>(),
            evicted[usize::from(phase.0)],
            "{what}: {evicted:?}"
        );
        let mut told = 0;
        for slow in slow {
            if slow.is_finished() {
                let answer = slow.await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 408 "), "{what}: {answer}");
                told += 1;
            } else {
                slow.abort();
            }
        }
        assert_eq!(told, evicted[usize::from(phase.0)], "{what}");
    }
}

/// An upload at a good pace keeps its place while those that drip lose theirs.
#[tokio::test]
async fn an_upload_at_a_good_pace_stays() {
    let world = World::with(table).await;
    let body = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    let slow = slow(&world, body, "x").await;
    tokio::time::sleep(5 * USUAL).await;
    let mut upload = world.connect().await;
    let head = "POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
    upload.send(head).await;
    for chunk in 0..20 {
        upload.send([b'x'; 10_000]).await;
        tokio::time::sleep(DRIP / 4).await;
        // In the middle of it: when it is done and answered, its connection is idle and goes first.
        if chunk % 5 == 2 {
            honest(&world).await;
        }
    }
    let answer = upload.answer().await;
    let evicted = connections(&world).await.stats.evicted;
    assert_eq!(answer.body, "200000", "{evicted:?}");
    let bodies = evicted.by_phase[usize::from(PhaseId::BODY.0)];
    assert!(bodies >= 1 && bodies == evicted.total(), "{evicted:?}");
    slow.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A client that does not take its answer is in the phase of sending, and is cut in the middle of it.
#[tokio::test]
async fn who_does_not_read_loses_its_place() {
    let world = World::with(table).await;
    let mut readers = Vec::new();
    for _ in 0..K - 1 {
        let mut wire = world.connect().await;
        wire.send(get("/huge")).await;
        readers.push(wire);
    }
    until(&world, "the readers", |seen| seen.held == K - 1).await;
    let mut kept = world.connect().await;
    kept.send(get("/when-told")).await;
    until(&world, "a full table", |seen| seen.held == K).await;
    tokio::time::sleep(8 * USUAL).await;
    honest(&world).await;
    let seen = connections(&world).await;
    assert!(
        seen.stats.evicted.by_phase[usize::from(PhaseId::SENDING.0)] >= 1,
        "{:?}",
        seen.stats.evicted
    );
    world.seen.go.one();
    assert_eq!(kept.answer().await.status, 200);
}

/// Cases 21 and 25: a tunnel is silent as it likes, and who waits for the server is not slow.
#[tokio::test]
async fn tunnels_and_those_who_wait_for_the_server_stay() {
    let world = World::with(table).await;
    let mut tunnel = world.connect().await;
    tunnel
        .send(
            "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        )
        .await;
    assert!(tunnel.until("\r\n\r\n").await.starts_with("HTTP/1.1 101"));
    let mut waits = world.connect().await;
    waits.send(get("/when-told")).await;
    let mut events = world.connect().await;
    events.send(get("/events")).await;
    events.until("\r\n\r\n").await;
    let mut slow = Vec::new();
    for _ in 0..K - 3 {
        let mut wire = world.connect().await;
        wire.send("GET / HTTP/1.1\r\n").await;
        slow.push(drips(wire, "X: y\r\n"));
    }
    until(&world, "a full table", |seen| seen.held == K).await;
    tokio::time::sleep(5 * USUAL).await;
    for _ in 0..10 {
        honest(&world).await;
    }
    let seen = connections(&world).await;
    let evicted = seen.stats.evicted.by_phase;
    assert!(evicted[usize::from(PhaseId::HEADERS.0)] >= 1, "{evicted:?}");
    assert_eq!(evicted[usize::from(PhaseId::WAITING.0)], 0, "{evicted:?}");
    tunnel.send("still there").await;
    assert_eq!(tunnel.until("still there").await, "");
    // One step for each of the two, in whatever order they take it.
    world.seen.go.one();
    world.seen.go.one();
    assert_eq!(waits.answer().await.status, 200);
    events.until("data: 0").await;
    slow.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A full table of honest clients: some newcomers are refused, and nobody is lost without a word to the counters.
#[tokio::test]
async fn every_connection_is_accounted_for() {
    let world = World::with(table).await;
    let slow = slow(&world, "GET / HTTP/1.1\r\n", "X: y\r\n").await;
    for _ in 0..50 {
        honest(&world).await;
    }
    slow.iter().for_each(tokio::task::JoinHandle::abort);
    drop(slow);
    until(&world, "an empty table", |seen| {
        seen.held == 0 && seen.evicting == 0
    })
    .await;
    let stats = connections(&world).await.stats;
    assert_eq!(stats.arrivals, stats.admitted + stats.refused.total());
    assert_eq!(stats.admitted, stats.ended + stats.evicted.total());
    assert_eq!(
        stats.evictions_done + stats.evicted_unforwarded,
        stats.evicted.total()
    );
}
