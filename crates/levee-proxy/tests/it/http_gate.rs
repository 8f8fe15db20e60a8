//! The gate over real sockets: requests that wait, pay and are refused, and connections that lose their place.

use std::time::Duration;

use levee_policy::Span;
use levee_policy::selective::{self, Strategy, phases_of_http};
use levee_policy::thinner::{Capacity, Config, Mode};
use levee_proxy::http::settings::{ConnectionSettings, HttpSettings};
use serde_json::Value;

use crate::http_world::{Response, Wire, World, get, header, within};

/// A server that can have one request at a time.
fn one_at_a_time(mode: Mode) -> impl FnOnce(&mut HttpSettings) {
    move |s| {
        let config = serde_json::json!({ "kind": "thinner", "capacity": { "concurrency": 1 }, "mode": mode });
        let config: Config = serde_json::from_value(config).unwrap();
        assert_eq!(config.capacity, Capacity::Concurrency(1));
        s.defense = Some(config);
    }
}

/// A front whose server is busy with the request of the returned connection.
async fn busy(change: impl FnOnce(&mut HttpSettings)) -> (World, Wire) {
    let world = World::with(change).await;
    let mut first = world.connect().await;
    first.send(get("/when-told")).await;
    within("the first", world.seen.came.notified()).await;
    (world, first)
}

/// The ticket that a refused program is given.
fn ticket(answer: &Response) -> String {
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    body["ticket"].as_str().unwrap().to_owned()
}

async fn contenders(world: &World, n: u32) {
    within("the contender", async {
        while world
            .front
            .snapshot()
            .await
            .gate
            .requests
            .unwrap()
            .contenders
            != n
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Case 14: a request that is refused is not told to send its body, and none of it reaches the server.
#[tokio::test]
async fn a_refusal_comes_before_any_100() {
    let (world, mut first) = busy(one_at_a_time(Mode::Random)).await;
    let mut wire = world.connect().await;
    let expect = "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    wire.send(expect).await;
    let answer = wire.answer().await;
    assert_eq!(
        (answer.status, answer.header("connection")),
        (503, Some("close"))
    );
    assert!(answer.header("retry-after").is_some(), "{}", answer.head);
    assert_eq!(world.seen.requests().len(), 1);
    // One without a body keeps its connection, and passes when there is room.
    let mut wire = world.connect().await;
    wire.send(get("/")).await;
    assert_eq!(wire.answer().await.status, 503);
    world.seen.go.one();
    assert_eq!(first.answer().await.body, "told");
    wire.send(get("/")).await;
    assert_eq!(wire.answer().await.status, 200);
}

/// A request that waits in the auction is admitted when it is paid for, by whatever connection; what it paid is told of it, and
/// nothing that was meant for us reaches the server.
#[tokio::test]
async fn an_auction_is_won_by_who_pays() {
    let (world, mut first) = busy(one_at_a_time(Mode::Auction)).await;
    let refused = world.get("/").await;
    assert_eq!(refused.status, 503);
    let ticket = ticket(&refused);
    let bring = format!("Levee-Ticket: {ticket}\r\n");
    let mut waits = world.connect().await;
    waits
        .send(format!(
            "POST /echo HTTP/1.1\r\nHost: a\r\n{bring}Content-Length: 4\r\n\r\nbody"
        ))
        .await;
    let mut poor = world.connect().await;
    poor.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\npoor")
        .await;
    contenders(&world, 2).await;
    let mut pays = world.connect().await;
    let paid = 300_000;
    pays.send(format!(
        "POST /.well-known/levee/pay HTTP/1.1\r\nHost: a\r\n{bring}Content-Length: {paid}\r\n\r\n"
    ))
    .await;
    pays.send(vec![0; paid]).await;
    let receipt: Value = serde_json::from_str(&pays.answer().await.body).unwrap();
    // The heads of its tries have paid too.
    let before = receipt["paid"].as_u64().unwrap();
    assert!(before >= paid as u64, "{receipt}");
    // The payment's connection goes on: a chunked one is counted by its content.
    pays.send(format!("POST /.well-known/levee/pay HTTP/1.1\r\nHost: a\r\n{bring}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")).await;
    let receipt: Value = serde_json::from_str(&pays.answer().await.body).unwrap();
    assert_eq!(receipt["paid"], before + 5, "{receipt}");
    world.seen.go.one();
    assert_eq!(first.answer().await.body, "told");
    assert_eq!(waits.answer().await.body, "body");
    assert_eq!(poor.answer().await.body, "poor");
    let requests = world.seen.requests();
    assert!(requests[1].ends_with("body"), "the payer is the first");
    assert_eq!(header(&requests[1], "levee-ticket"), None);
    assert_eq!(
        world
            .front
            .snapshot()
            .await
            .gate
            .requests
            .unwrap()
            .payment
            .bytes,
        paid as u64 + 5
    );
}

/// Case 26: a payment ends when its request is admitted, however much is still announced, and the connection with it.
#[tokio::test]
async fn a_payment_that_never_ends_is_ended() {
    let (world, mut first) = busy(one_at_a_time(Mode::Auction)).await;
    let ticket = ticket(&world.get("/").await);
    let mut waits = world.connect().await;
    waits
        .send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nLevee-Ticket: {ticket}\r\n\r\n"
        ))
        .await;
    contenders(&world, 1).await;
    let mut pays = world.connect().await;
    pays.send(format!("POST /.well-known/levee/pay?levee-ticket={ticket} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nx")).await;
    within("the payment", async {
        while world
            .front
            .snapshot()
            .await
            .gate
            .requests
            .unwrap()
            .payment
            .bytes
            == 0
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    world.seen.go.one();
    first.answer().await;
    assert_eq!(waits.answer().await.status, 200);
    let answer = pays.answer().await;
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(answer.body.contains("admitted"), "{}", answer.body);
    assert_eq!(pays.rest().await, "");
}

/// Case 23: whoever goes while it waits leaves the auction at once, also if it has sent more than we read ahead, as far
/// as the kernel lets its end come through.
#[tokio::test]
async fn a_client_that_goes_leaves_the_auction() {
    let (world, _first) = busy(one_at_a_time(Mode::Auction)).await;
    for body in [4, 40_000] {
        let mut wire = world.connect().await;
        wire.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {body}\r\n\r\n"
        ))
        .await;
        wire.send(vec![b'x'; body]).await;
        contenders(&world, 1).await;
        drop(wire);
        contenders(&world, 0).await;
    }
    assert_eq!(world.seen.requests().len(), 1);
}

/// Below capacity nothing is added to a request or its answer.
#[tokio::test]
async fn below_capacity_nothing_changes() {
    let plain = World::new().await;
    let defended = World::with(one_at_a_time(Mode::Auction)).await;
    let mut heads = Vec::new();
    for world in [&plain, &defended] {
        let answer = world.get("/a?b=c").await;
        heads.push((
            answer
                .head
                .replace(header(&answer.head, "date").unwrap_or("-"), ""),
            answer.body,
            world.seen.requests(),
        ));
    }
    assert_eq!(heads[0], heads[1]);
}

fn table_of(capacity: u32) -> impl FnOnce(&mut HttpSettings) {
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
