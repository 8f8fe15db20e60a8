//! HTTP/2 with the front: what passes, and what does not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response};
use levee_policy::Span;
use levee_policy::thinner::Mode;
use levee_proxy::http::pages::PAY_PATH;
use levee_proxy::http::snapshot::Phase;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::http_gate::Full;
use crate::http_operated::{certificate, files, with_tls};
use crate::http_world::{HUGE, World, header, within};
use crate::http2_wire::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Ended, Frame, GOAWAY, HEADERS,
    NO_ERROR, PING, PRIORITY, RST_STREAM, Raw, SETTINGS, WINDOW_UPDATE, block, frame, get, request,
};

/// A deadline of the tests, and how often a drip comes: well within it.
const SHORT: Duration = Duration::from_millis(300);
const DRIP: Duration = Duration::from_millis(40);

type Client = SendRequest<Bytes>;

async fn connect(world: &World) -> Client {
    let stream = TcpStream::connect(world.addr()).await.unwrap();
    let (client, connection) = client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client
}

fn to(method: &str, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(format!("http://a.example{path}"))
}

/// Sends a request with a body, and waits for the head of the answer.
async fn ask(
    client: &mut Client,
    request: http::request::Builder,
    body: Option<&[u8]>,
) -> Response<RecvStream> {
    within("an answer", async {
        let mut client = client.clone().ready().await.unwrap();
        let (answer, mut send) = client
            .send_request(request.body(()).unwrap(), body.is_none())
            .unwrap();
        if let Some(body) = body {
            send.send_data(Bytes::copy_from_slice(body), true).unwrap();
        }
        answer.await.unwrap()
    })
    .await
}

/// The rest of an answer.
async fn body(answer: &mut RecvStream) -> (Vec<u8>, Option<HeaderMap>) {
    within("a body", async {
        let mut content = Vec::new();
        while let Some(data) = answer.data().await {
            let data = data.unwrap();
            answer.flow_control().release_capacity(data.len()).unwrap();
            content.extend_from_slice(&data);
        }
        (content, answer.trailers().await.unwrap())
    })
    .await
}

async fn traffic(world: &World) -> levee_proxy::http::snapshot::Traffic {
    world.front.snapshot().await.traffic
}

#[tokio::test]
async fn requests_go_to_the_server_and_answers_come_back() {
    let world = World::new().await;
    let mut client = connect(&world).await;
    for (method, path, sent, status, length, content) in [
        ("GET", "/", None, 200, Some("2"), "ok"),
        ("POST", "/echo", Some("hello"), 200, Some("5"), "hello"),
        ("GET", "/until-close", None, 200, None, "all of it"),
        ("HEAD", "/head", None, 200, Some("1000"), ""),
        ("GET", "/not-modified", None, 304, Some("1000"), ""),
        ("GET", "/no-content", None, 204, None, ""),
        ("GET", "/garbage", None, 502, Some("12"), "Bad Gateway\n"),
        ("GET", "/smuggle", None, 502, Some("12"), "Bad Gateway\n"),
        ("GET", "/hints", None, 200, Some("2"), "ok"),
    ] {
        let mut answer = ask(&mut client, to(method, path), sent.map(str::as_bytes)).await;
        assert_eq!(answer.status(), status, "{path}");
        let got = answer
            .headers()
            .get("content-length")
            .map(|v| v.to_str().unwrap());
        assert_eq!(got, length, "{path}");
        assert!(answer.headers().contains_key("date"), "{path}");
        assert!(
            !answer.headers().contains_key("transfer-encoding"),
            "{path}"
        );
        assert_eq!(
            String::from_utf8(body(answer.body_mut()).await.0).unwrap(),
            content,
            "{path}"
        );
    }
    let mut answer = ask(&mut client, to("GET", "/chunked"), None).await;
    let (content, trailers) = body(answer.body_mut()).await;
    assert_eq!(content, b"Wikipedia");
    assert_eq!(trailers.unwrap().get("x-sum").unwrap(), "9");
    assert_eq!(traffic(&world).await.requests_h2, 10);
    assert_eq!(traffic(&world).await.requests_h1, 0);
}

#[tokio::test]
async fn the_server_is_asked_in_its_own_protocol() {
    let world = World::new().await;
    let mut client = connect(&world).await;
    let request = to("POST", "/echo?q=1")
        .header("cookie", "a=b")
        .header("cookie", "c=d")
        .header("te", "trailers")
        .header("x-forwarded-for", "192.0.2.9")
        .header("x_forwarded_for", "192.0.2.9")
        .header("content-length", "3");
    ask(&mut client, request, Some(b"abc")).await;
    ask(&mut client, to("POST", "/length"), Some(b"abc")).await;
    let seen = world.seen.requests();
    assert!(
        seen[0].starts_with("POST /echo?q=1 HTTP/1.1\r\n"),
        "{}",
        seen[0]
    );
    for (name, value) in [
        ("host", Some("a.example")),
        ("cookie", Some("a=b; c=d")),
        ("content-length", Some("3")),
        ("te", Some("trailers")),
        ("connection", Some("TE")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("x-forwarded-proto", Some("http")),
        ("x_forwarded_for", None),
        ("transfer-encoding", None),
    ] {
        assert_eq!(header(&seen[0], name), value, "{name}: {}", seen[0]);
    }
    assert_eq!(
        header(&seen[1], "transfer-encoding"),
        Some("chunked"),
        "{}",
        seen[1]
    );
    assert_eq!(header(&seen[1], "content-length"), None);
}

#[tokio::test]
async fn streams_do_not_wait_for_each_other() {
    let world = World::new().await;
    let mut client = connect(&world).await;
    let mut slow = client.clone().ready().await.unwrap();
    let (slow, _) = slow
        .send_request(to("GET", "/when-told").body(()).unwrap(), true)
        .unwrap();
    for _ in 0..20 {
        assert_eq!(ask(&mut client, to("GET", "/"), None).await.status(), 200);
    }
    world.seen.go.one();
    let mut answer = within("the slow one", slow).await.unwrap();
    assert_eq!(body(answer.body_mut()).await.0, b"told");
}

#[tokio::test]
async fn a_large_body_flows_both_ways() {
    let world = World::new().await;
    let mut client = connect(&world).await;
    let mut answer = ask(&mut client, to("GET", "/huge"), None).await;
    assert_eq!(body(answer.body_mut()).await.0.len(), HUGE);
    let large = vec![b'y'; 3 << 20];
    let mut answer = ask(&mut client, to("POST", "/length"), Some(&large)).await;
    assert_eq!(
        body(answer.body_mut()).await.0,
        large.len().to_string().as_bytes()
    );
    let traffic = traffic(&world).await;
    assert!(traffic.bytes_in as usize > large.len() && traffic.bytes_out as usize > HUGE);
}

/// Case 21: events come as they happen, and the server hears when nobody listens any more.
#[tokio::test]
async fn events_are_not_held_back() {
    let world = World::new().await;
    let mut client = connect(&world).await;
    let mut answer = ask(&mut client, to("GET", "/events"), None).await;
    for i in 0..3 {
        world.seen.go.one();
        let data = within("an event", answer.body_mut().data())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(data, format!("data: {i}\n\n"));
    }
    drop(answer);
    within("the end at the server", world.seen.cancelled.notified()).await;
}

/// Case 23.
#[tokio::test]
async fn a_reset_lets_the_server_go() {
    let world = World::new().await;
    let mut client = connect(&world).await;
    let mut ready = client.clone().ready().await.unwrap();
    let (_, mut send) = ready
        .send_request(to("POST", "/never").body(()).unwrap(), false)
        .unwrap();
    within("the request", world.seen.came.notified()).await;
    send.send_reset(Reason::CANCEL);
    within("the end at the server", world.seen.cancelled.notified()).await;
    assert_eq!(ask(&mut client, to("GET", "/"), None).await.status(), 200);
    assert_eq!(traffic(&world).await.client_gone, 1);
}

/// Case 14: the answer comes before 100, and before the body.
#[tokio::test]
async fn a_refusal_does_not_wait_for_the_body() {
    let world = World::with(|s| s.limits.body_bytes_max = Some(10)).await;
    let mut client = connect(&world).await;
    let post = to("POST", "/echo")
        .header("content-length", "11")
        .header("expect", "100-continue");
    let mut ready = client.clone().ready().await.unwrap();
    let (answer, mut send) = ready.send_request(post.body(()).unwrap(), false).unwrap();
    assert_eq!(within("413", answer).await.unwrap().status(), 413);
    let reset = std::future::poll_fn(|cx| send.poll_reset(cx));
    assert_eq!(within("a reset", reset).await.unwrap(), Reason::NO_ERROR);
    // Of unknown length it is cut when it is too long.
    let answer = ask(&mut client, to("POST", "/length"), Some(&[b'x'; 11])).await;
    assert_eq!(answer.status(), 413);
    assert_eq!(
        ask(&mut client, to("POST", "/length"), Some(&[b'x'; 10]))
            .await
            .status(),
        200
    );
}

#[tokio::test]
async fn half_an_answer_is_cut() {
    let world = World::new().await;
    let mut raw = Raw::to(world.addr()).await;
    raw.send(&[get(1, "/cut")]).await;
    const INTERNAL_ERROR: u8 = 2;
    loop {
        let got = raw.next().await.expect("the connection to stay");
        match (got.stream, got.kind) {
            (1, RST_STREAM) => {
                assert_eq!(got.payload[3], INTERNAL_ERROR);
                break;
            }
            (1, _) => assert_eq!(got.flags & END_STREAM, 0, "{got:?}"),
            _ => {}
        }
    }
    raw.send(&[get(3, "/")]).await;
    assert_eq!(raw.answer(3).await, Ok(200));
}

/// RFC 9113 section 8: what is malformed never gets to the server.
#[tokio::test]
async fn malformed_requests_are_refused() {
    let world = World::new().await;
    let good = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
    ];
    let and = |more: &[(&'static str, &'static str)]| [&good, more].concat();
    for fields in [
        and(&[("X-Upper", "a")]),
        and(&[("connection", "close")]),
        and(&[("transfer-encoding", "chunked")]),
        and(&[("keep-alive", "5")]),
        and(&[("upgrade", "h2c")]),
        and(&[("te", "gzip")]),
        and(&[("host", "b")]),
        and(&[("content-length", "5")]),
        and(&[("content-length", "0"), ("content-length", "0")]),
        and(&[("content-length", "+0")]),
        and(&[("x", "a\r\nhost: b")]),
        and(&[("x", "a\nb")]),
        and(&[("x", "a\0b")]),
        and(&[("x y", "a")]),
        and(&[("x:y", "a")]),
        and(&[("", "a")]),
        and(&[(":path", "/b")]),
        and(&[(":status", "200")]),
        and(&[(":unknown", "a")]),
        [&[("x", "a")], &good[..]].concat(),
        good[..3].to_vec(),
        good[1..].to_vec(),
        vec![good[0], good[1], good[3]],
        vec![good[0], good[1], good[2], (":path", "")],
        vec![
            good[0],
            good[1],
            good[2],
            (":path", "/ HTTP/1.1\r\nhost: b"),
        ],
        vec![good[0], good[1], good[2], (":path", "x")],
        vec![good[0], good[1], (":authority", "u@a"), good[3]],
        vec![good[0], good[1], (":authority", "a b"), good[3]],
        vec![(":method", "CONNECT"), (":authority", "a:443")],
        vec![(":method", "G T"), good[1], good[2], good[3]],
        vec![(":method", "TRACE"), good[1], good[2], good[3]],
        and(&[(":protocol", "websocket")]),
    ] {
        let mut raw = Raw::to(world.addr()).await;
        raw.send(&[frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&fields))])
            .await;
        // With the stream or with the connection.
        let refused = loop {
            match raw.next().await {
                Some(Frame {
                    kind: HEADERS,
                    payload,
                    ..
                }) => break matches!(payload[0], 0x8c | 0x48),
                Some(Frame {
                    kind: RST_STREAM | GOAWAY,
                    ..
                })
                | None => break true,
                Some(_) => {}
            }
        };
        assert!(refused, "{fields:?}");
    }
    assert_eq!(world.seen.requests(), [""; 0]);
}

/// A body of another length than it says is no request, wherever that is found.
#[tokio::test]
async fn a_body_has_the_length_that_it_says() {
    let world = World::new().await;
    for sent in [4, 6] {
        let mut raw = Raw::to(world.addr()).await;
        let head = request("POST", "/echo", &[("content-length", "5")]);
        raw.send(&[
            frame(HEADERS, END_HEADERS, 1, &head),
            frame(DATA, END_STREAM, 1, &vec![b'x'; sent]),
        ])
        .await;
        assert_ne!(raw.answer(1).await, Ok(200), "{sent}");
    }
}

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

#[tokio::test]
async fn a_stop_lets_streams_end() {
    let world = World::new().await;
    let mut raw = Raw::to(world.addr()).await;
    raw.send(&[get(1, "/when-told")]).await;
    within("the request", world.seen.came.notified()).await;
    let (seen, front) = (Arc::clone(&world.seen), world.front);
    let stop = tokio::spawn(front.stop(Duration::from_secs(5)));
    let goodbye = raw.await_frame(GOAWAY, 0).await;
    assert_eq!(u32::from(goodbye.payload[7]), NO_ERROR);
    seen.go.one();
    assert_eq!(raw.answer(1).await, Ok(200));
    raw.end().await;
    within("the stop", stop).await.unwrap();
}

/// Case 24.
#[tokio::test]
async fn a_connection_has_so_many_requests() {
    let world = World::with(|s| s.limits.keep_alive_requests = 2).await;
    let mut raw = Raw::to(world.addr()).await;
    raw.send(&[get(1, "/"), get(3, "/")]).await;
    assert_eq!(raw.end().await, Ended(Some(NO_ERROR)));
    assert_eq!(world.seen.requests().len(), 2);
}

/// ALPN chooses; what the front offers first is HTTP/2.
#[tokio::test]
async fn over_tls_it_is_chosen_by_alpn() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    certificate(&files);
    let world = with_tls(&files).await;
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(&files.certificate).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    let stream = TcpStream::connect(world.addr()).await.unwrap();
    let name = ServerName::try_from("a.example").unwrap();
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut client, connection) = client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let large = vec![b'z'; 1 << 20];
    let mut answer = ask(&mut client, to("POST", "/length"), Some(&large)).await;
    assert_eq!(
        body(answer.body_mut()).await.0,
        large.len().to_string().as_bytes()
    );
    assert_eq!(
        header(&world.seen.requests()[0], "x-forwarded-proto"),
        Some("https")
    );
}

/// A ticket of the thinner in a field.
fn with(ticket: &str, method: &str, path: &str) -> http::request::Builder {
    to(method, path).header("levee-ticket", ticket)
}

/// Case 26: payment on a stream, more than all windows hold, for a request on another of the same connection.
#[tokio::test]
async fn payment_flows_beyond_the_windows() {
    let mut full = Full::new(Mode::Auction).await;
    let mut client = connect(&full.world).await;
    let refused = ask(&mut client, to("GET", "/"), None).await;
    assert_eq!(refused.status(), 503);
    let ticket = refused.headers()["levee-ticket"]
        .to_str()
        .unwrap()
        .to_owned();
    let mut ready = client.clone().ready().await.unwrap();
    let (waits, _) = ready
        .send_request(with(&ticket, "GET", "/").body(()).unwrap(), true)
        .unwrap();
    full.until("a contender", |seen| seen.contenders == 1).await;
    let mut ready = client.clone().ready().await.unwrap();
    let (paid, mut pays) = ready
        .send_request(with(&ticket, "POST", PAY_PATH).body(()).unwrap(), false)
        .unwrap();
    const BYTES: usize = 8 << 20;
    let mut left = BYTES;
    while left > 0 {
        pays.reserve_capacity(left.min(1 << 16));
        let room = within(
            "room to pay",
            std::future::poll_fn(|cx| pays.poll_capacity(cx)),
        )
        .await;
        let n = room.unwrap().unwrap().min(left);
        pays.send_data(Bytes::from(vec![0; n]), false).unwrap();
        left -= n;
    }
    full.until("the payment", |seen| seen.stats.paid >= BYTES as u64)
        .await;
    full.free().await;
    // The channel is closed when it has won: the client is told so, and need not end its body.
    assert_eq!(within("the answer", waits).await.unwrap().status(), 200);
    assert_eq!(
        within("the channel's end", paid).await.unwrap().status(),
        200
    );
    let seen = full.world.seen.requests();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(header(&seen[1], "levee-ticket"), None);
}

/// Case 14: a refusal comes before any 100, and the body is not awaited.
#[tokio::test]
async fn a_refused_body_is_never_asked_for() {
    let full = Full::with(Mode::Auction, |settings| {
        if let Some(config) = &mut settings.defense {
            config.patience = Span::from_millis(100);
        }
    })
    .await;
    let mut raw = Raw::to(full.world.addr()).await;
    let head = request(
        "POST",
        "/echo",
        &[("content-length", "5"), ("expect", "100-continue")],
    );
    raw.send(&[frame(HEADERS, END_HEADERS, 1, &head)]).await;
    assert_eq!(raw.answer(1).await, Ok(503));
    let reset = raw.await_frame(RST_STREAM, 1).await;
    assert_eq!(u32::from(reset.payload[3]), NO_ERROR);
    assert_eq!(full.world.seen.requests().len(), 1);
}

#[tokio::test]
async fn a_client_that_goes_leaves_the_auction() {
    let full = Full::new(Mode::Auction).await;
    let mut client = connect(&full.world).await;
    let ticket = full.ticket().await;
    let mut ready = client.clone().ready().await.unwrap();
    let (_, mut waits) = ready
        .send_request(with(&ticket, "GET", "/").body(()).unwrap(), true)
        .unwrap();
    full.until("a contender", |seen| seen.contenders == 1).await;
    waits.send_reset(Reason::CANCEL);
    full.until("nobody", |seen| seen.contenders == 0).await;
    assert_eq!(ask(&mut client, to("GET", "/"), None).await.status(), 503);
}

/// Runs a program to its end, which has a minute to come: what it printed.
async fn run(program: &'static str, args: &[&str]) -> String {
    let mut command = std::process::Command::new("timeout");
    command.args(["60", program]).args(args);
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// What others' clients make of it.
#[tokio::test]
#[ignore = "needs nghttp, h2load and curl"]
async fn peers_speak_http_2() {
    let world = World::new().await;
    let url = |path: &str| format!("http://{}{path}", world.addr());
    assert_eq!(run("nghttp", &[&url("/chunked")]).await, "Wikipedia");
    let curl = ["--silent", "--show-error", "--http2-prior-knowledge"];
    for (args, expect) in [
        (&["--data", "hello"][..], "hello"),
        (&["--data", "hello", "--header", "Content-Length:"], "hello"),
        (
            &["--data", "hello", "--header", "Expect: 100-continue"],
            "hello",
        ),
    ] {
        let url = url("/echo");
        let args = [&curl[..], args, &[url.as_str()]].concat();
        assert_eq!(run("curl", &args).await, expect, "{args:?}");
    }
    let status = [
        "--head",
        "--write-out",
        "%{http_version} %{http_code} %{size_download}",
        "--output",
        "/dev/null",
    ];
    let target = url("/head");
    let args = [&curl[..], &status, &[target.as_str()]].concat();
    assert_eq!(run("curl", &args).await, "2 200 0");
    let report = run("h2load", &["-n", "5000", "-c", "5", "-m", "20", &url("/")]).await;
    assert!(report.contains("5000 succeeded, 0 failed"), "{report}");
    assert_eq!(traffic(&world).await.h2_abuse.len(), 0);
}
