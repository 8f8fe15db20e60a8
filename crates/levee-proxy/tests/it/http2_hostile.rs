//! HTTP/2 clients that are slow, or do too much of what carries nothing.

use std::time::{Duration, Instant};

use levee_proxy::http::snapshot::Phase;

use crate::http_slow::table_of;
use crate::http_world::{World, within};
use crate::http2::traffic;
use crate::http2_wire::{
    CONTINUATION, DATA, END_HEADERS, ENHANCE_YOUR_CALM, Ended, Frame, GOAWAY, HEADERS, NO_ERROR,
    PING, PRIORITY, RST_STREAM, Raw, SETTINGS, WINDOW_UPDATE, block, frame, get, request,
};

/// A deadline of the tests, and how often a drip comes: well within it.
const SHORT: Duration = Duration::from_millis(300);
const DRIP: Duration = Duration::from_millis(40);

/// What carries nothing is bounded, and what is too much is told to calm down.
#[tokio::test]
async fn floods_end_the_connection() {
    let world = World::with(|s| {
        s.limits.h2.resets_burst = 50;
        s.limits.h2.resets_per_second = 1;
        s.limits.h2.control_frames_burst = 50;
        s.limits.h2.control_frames_per_second = 1;
    })
    .await;
    let rapid = |n: u32| -> Vec<Frame> {
        (0..n)
            .flat_map(|i| {
                [
                    get(2 * i + 1, "/never"),
                    frame(RST_STREAM, 0, 2 * i + 1, &[0, 0, 0, 8]),
                ]
            })
            .collect()
    };
    // CVE-2025-8671: the client does nothing that is called a reset.
    let made_to = |n: u32| -> Vec<Frame> {
        (0..n)
            .flat_map(|i| {
                [
                    get(2 * i + 1, "/never"),
                    frame(WINDOW_UPDATE, 0, 2 * i + 1, &[0x7f, 0xff, 0xff, 0xff]),
                ]
            })
            .collect()
    };
    let many = |frame: Frame, n: usize| vec![frame; n];
    for (what, frames, kind) in [
        ("rapid reset", rapid(60), "resets"),
        ("resets that we are made to send", made_to(60), "resets"),
        (
            "pings",
            many(frame(PING, 0, 0, &[0; 8]), 60),
            "control_frames",
        ),
        (
            "settings",
            many(frame(SETTINGS, 0, 0, &[]), 60),
            "control_frames",
        ),
        (
            "priorities",
            many(frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1]), 60),
            "control_frames",
        ),
        (
            "window updates",
            many(frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), 60),
            "control_frames",
        ),
        (
            "unknown frames",
            many(frame(0xfa, 0, 0, &[]), 60),
            "control_frames",
        ),
        (
            "continuations",
            [
                vec![frame(HEADERS, 0, 1, &request("GET", "/", &[]))],
                many(frame(CONTINUATION, 0, 1, &block(&[("x", "y")])), 20),
            ]
            .concat(),
            "continuations",
        ),
    ] {
        let before = traffic(&world)
            .await
            .h2_abuse
            .get(kind)
            .copied()
            .unwrap_or(0);
        let mut raw = Raw::to(world.addr()).await;
        raw.send(&frames).await;
        assert_eq!(raw.end().await, Ended(Some(ENHANCE_YOUR_CALM)), "{what}");
        let after = traffic(&world)
            .await
            .h2_abuse
            .get(kind)
            .copied()
            .unwrap_or(0);
        assert_eq!(after, before + 1, "{what}");
    }
    // Below the limits nobody is told anything.
    let mut raw = Raw::to(world.addr()).await;
    raw.send(&rapid(20)).await;
    raw.send(&many(frame(PING, 0, 0, &[0; 8]), 20)).await;
    raw.send(&[get(101, "/")]).await;
    assert_eq!(raw.answer(101).await, Ok(200));
    // No stream is left behind.
    within("the end of all streams", async {
        while traffic(&world).await.upstream_busy > 0 {
            tokio::time::sleep(DRIP).await;
        }
    })
    .await;
}

/// More streams than are allowed are refused without work.
#[tokio::test]
async fn streams_beyond_the_limit_are_refused() {
    let world = World::with(|s| s.limits.h2.streams_max = 3).await;
    let mut raw = Raw::to(world.addr()).await;
    let open: Vec<Frame> = (0..4).map(|i| get(2 * i + 1, "/never")).collect();
    raw.send(&open).await;
    const REFUSED_STREAM: u32 = 7;
    assert_eq!(raw.answer(7).await, Err(REFUSED_STREAM));
}

#[tokio::test]
async fn every_phase_has_its_deadline() {
    let world = World::with(|s| {
        s.timeouts.headers = SHORT;
        s.timeouts.idle = SHORT;
        s.timeouts.send = SHORT;
        s.timeouts.body = SHORT;
    })
    .await;
    let addr = world.addr();
    let late = |phase: Phase| async move { traffic(&world).await.timed_out[phase] };
    let begun = Instant::now();
    let mut raw = Raw::to(addr).await;
    assert_eq!(raw.end().await, Ended(Some(ENHANCE_YOUR_CALM)), "no stream");
    assert!(begun.elapsed() >= SHORT);
    // A header block that goes on and on.
    let mut raw = Raw::to(addr).await;
    raw.send(&[
        get(1, "/never"),
        frame(HEADERS, 0, 3, &request("GET", "/", &[])),
    ])
    .await;
    assert_eq!(
        raw.end().await,
        Ended(Some(ENHANCE_YOUR_CALM)),
        "a block without end"
    );
    // A frame a byte at a time, while another stream is busy.
    let mut raw = Raw::to(addr).await;
    raw.send(&[get(1, "/never")]).await;
    raw.await_frame(SETTINGS, 0).await;
    let mut slow = get(3, "/").bytes();
    slow.resize(9, 0);
    slow[1] = 0x3f;
    slow.extend(vec![0; 16_000]);
    raw.put(&slow[..9]).await;
    let cut = async {
        loop {
            tokio::select! {
                () = tokio::time::sleep(DRIP) => raw.put(&[0]).await,
                got = raw.next() => match got {
                    Some(got) if got.kind == GOAWAY => return got.payload[7],
                    Some(_) => {}
                    None => panic!("a GOAWAY first"),
                }
            }
        }
    };
    assert_eq!(u32::from(within("the cut", cut).await), ENHANCE_YOUR_CALM);
    // Without a stream, pings do not count.
    let mut raw = Raw::to(addr).await;
    raw.send(&[get(1, "/")]).await;
    assert_eq!(raw.answer(1).await, Ok(200));
    let begun = Instant::now();
    let idle = async {
        loop {
            let got = raw.next().await.expect("a GOAWAY first");
            if got.kind == GOAWAY {
                return got.payload[7];
            }
            raw.send(&[frame(PING, 0, 0, &[0; 8])]).await;
            tokio::time::sleep(DRIP).await;
        }
    };
    assert_eq!(u32::from(within("the end", idle).await), NO_ERROR);
    assert!(begun.elapsed() >= SHORT - DRIP);
    assert!(late(Phase::Headers).await >= 3);
}

/// Case 10: a window that stays shut costs the client its stream, and nobody else anything.
#[tokio::test]
async fn a_shut_window_is_reset_and_other_streams_go_on() {
    let world = World::with(|s| s.timeouts.send = SHORT).await;
    let mut raw = Raw::to(world.addr()).await;
    const INITIAL_WINDOW_SIZE: [u8; 6] = [0, 4, 0, 0, 0, 0];
    raw.send(&[
        frame(SETTINGS, 0, 0, &INITIAL_WINDOW_SIZE),
        get(1, "/"),
        get(3, "/no-content"),
    ])
    .await;
    let begun = Instant::now();
    assert_eq!(raw.answer(1).await, Ok(200));
    let got = raw.await_frame(RST_STREAM, 1).await;
    assert_eq!(u32::from(got.payload[3]), ENHANCE_YOUR_CALM);
    assert!(begun.elapsed() >= SHORT);
    assert_eq!(traffic(&world).await.timed_out[Phase::Sending], 1);
    raw.send(&[get(5, "/no-content")]).await;
    assert_eq!(raw.answer(5).await, Ok(204));
}

/// Case 9: a body that stops is 408.
#[tokio::test]
async fn a_body_that_stops_is_408() {
    let world = World::with(|s| s.timeouts.body = SHORT).await;
    let mut raw = Raw::to(world.addr()).await;
    let head = request("POST", "/never", &[]);
    raw.send(&[
        frame(HEADERS, END_HEADERS, 1, &head),
        frame(DATA, 0, 1, b"abc"),
    ])
    .await;
    assert_eq!(raw.answer(1).await, Ok(408));
    within("the end at the server", world.seen.cancelled.notified()).await;
    assert_eq!(traffic(&world).await.timed_out[Phase::Body], 1);
}

/// A client that reads nothing at all, with windows as large as they can be.
#[tokio::test]
async fn a_client_that_reads_nothing_is_cut() {
    let world = World::with(|s| s.timeouts.send = SHORT).await;
    let mut raw = Raw::to(world.addr()).await;
    const LARGEST_WINDOW: [u8; 6] = [0, 4, 0x7f, 0xff, 0xff, 0xff];
    raw.send(&[
        frame(SETTINGS, 0, 0, &LARGEST_WINDOW),
        frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0]),
        get(1, "/huge"),
    ])
    .await;
    within("the cut", async {
        while traffic(&world).await.timed_out[Phase::Sending] == 0 {
            tokio::time::sleep(DRIP).await;
        }
    })
    .await;
    within("the end at the server", world.seen.cancelled.notified()).await;
}

/// However many streams it has, a connection is one place, in the phase of the furthest of them.
#[tokio::test]
async fn a_connection_is_one_place() {
    let world = World::with(table_of(8)).await;
    let mut raw = Raw::to(world.addr()).await;
    let post = frame(HEADERS, END_HEADERS, 1, &request("POST", "/never", &[]));
    let phase_is = async |phase: Phase| {
        within(phase.name(), async {
            while traffic(&world).await.connections[phase] != 1 {
                tokio::time::sleep(DRIP).await;
            }
        })
        .await;
        let snapshot = world.front.snapshot().await;
        assert_eq!(snapshot.traffic.connections.sum(), 1);
        assert_eq!(snapshot.gate.connections.unwrap().held, 1);
    };
    raw.send(&[post]).await;
    phase_is(Phase::Body).await;
    raw.send(&[get(3, "/never")]).await;
    phase_is(Phase::Waiting).await;
    raw.send(&[frame(RST_STREAM, 0, 3, &[0, 0, 0, 8])]).await;
    phase_is(Phase::Body).await;
    raw.send(&[frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])]).await;
    phase_is(Phase::Idle).await;
}

/// A place that is needed for another is given up with a word to the client.
#[tokio::test]
async fn a_slow_connection_loses_its_place() {
    let world = World::with(table_of(1)).await;
    let mut raw = Raw::to(world.addr()).await;
    let head = request("POST", "/never", &[]);
    raw.send(&[
        frame(HEADERS, END_HEADERS, 1, &head),
        frame(DATA, 0, 1, b"abc"),
    ])
    .await;
    within("the request", world.seen.came.notified()).await;
    within("an honest request", async {
        loop {
            let mut wire = world.connect().await;
            wire.send(crate::http_world::get("/")).await;
            if wire.response().await.is_some_and(|r| r.status == 200) {
                break;
            }
        }
    })
    .await;
    assert_eq!(raw.end().await, Ended(Some(ENHANCE_YOUR_CALM)));
    within("the end at the server", world.seen.cancelled.notified()).await;
}
