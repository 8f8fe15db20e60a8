//! What it costs to read a head, beside `httparse` alone and a map of headers made from it, on the same bytes in the
//! same run; then what it costs to send it on, and to find the content of chunks.
//!
//! `read` is all that a front needs before it decides: lines, framing, host, connection. `httparse` finds the lines
//! only, and `http` puts them into the map that most Rust servers use.
#![expect(clippy::unwrap_used, reason = "the messages are good")]

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use levee_http::chunked::{self, Decoder, Step};
use levee_http::edit::{self, Connection, ForwardRequest, Hop, Told};
use levee_http::forwarded::origin;
use levee_http::{Limits, request};

/// As wrk sends it.
const SMALL: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// As curl sends it.
const TOOL: &[u8] = b"GET /api/v1/items?page=3 HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: curl/8.11.0\r\nAccept: */*\r\n\r\n";

/// As a browser sends it.
const BROWSER: &[u8] = b"GET /articles/2026/11/an-article-with-a-name?ref=front HTTP/1.1\r\nHost: www.example.com\r\n\
Connection: keep-alive\r\nsec-ch-ua: \"Chromium\";v=\"142\", \"Not_A Brand\";v=\"99\"\r\nsec-ch-ua-mobile: ?0\r\n\
sec-ch-ua-platform: \"Linux\"\r\nUpgrade-Insecure-Requests: 1\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) \
AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\nAccept: text/html,application/xhtml+xml,\
application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8\r\nSec-Fetch-Site: same-origin\r\n\
Sec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\nReferer: https://www.example.com/\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9\r\nCookie: session=0123456789abcdef0123456789abcdef\
0123456789abcdef; theme=dark; consent=all\r\n\r\n";

fn header_map(bytes: &[u8]) -> http::HeaderMap {
    let mut lines = [httparse::EMPTY_HEADER; 100];
    let mut head = httparse::Request::new(&mut lines);
    head.parse(bytes).unwrap();
    let mut map = http::HeaderMap::with_capacity(head.headers.len());
    for line in head.headers.iter() {
        let name = http::HeaderName::from_bytes(line.name.as_bytes()).unwrap();
        map.append(name, http::HeaderValue::from_bytes(line.value).unwrap());
    }
    map
}

fn heads(c: &mut Criterion) {
    let limits = Limits::default();
    for (name, bytes) in [("small", SMALL), ("tool", TOOL), ("browser", BROWSER)] {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        let mut head = request::Head::default();
        group.bench_function("read", |b| {
            b.iter(|| {
                head.clear();
                assert_eq!(head.read(black_box(bytes), &limits), Ok(Some(bytes.len())));
            });
        });
        group.bench_function("httparse", |b| {
            b.iter(|| {
                let mut lines = [const { std::mem::MaybeUninit::uninit() }; 100];
                let mut head = httparse::Request::new(&mut []);
                let config = httparse::ParserConfig::default();
                let read = config.parse_request_with_uninit_headers(
                    &mut head,
                    black_box(bytes),
                    &mut lines,
                );
                assert!(read.unwrap().is_complete());
                black_box(head.headers.len())
            });
        });
        group.bench_function("httparse+http", |b| b.iter(|| header_map(black_box(bytes))));
        let peer: IpAddr = "192.0.2.1".parse().unwrap();
        let hop = Hop::new(peer, false, None, Told::default());
        let mut out = Vec::new();
        group.bench_function("send on", |b| {
            b.iter(|| {
                out.clear();
                let request = black_box(&head).on(bytes);
                edit::request(
                    &mut out,
                    request,
                    &ForwardRequest {
                        hop: &hop,
                        origin: origin(request.fields(), peer, Default::default(), |_| false),
                        target: None,
                        host: None,
                        framing: head.framing(),
                        connection: Connection::Persistent,
                        expect_continue: false,
                        via: b"levee",
                        drop: &["levee-ticket"],
                        lines: b"",
                    },
                );
                black_box(out.len())
            });
        });
        group.finish();
    }
}

fn chunks(c: &mut Criterion) {
    let mut group = c.benchmark_group("chunks");
    for size in [100usize, 16 << 10] {
        let mut body = Vec::new();
        while body.len() < 256 << 10 {
            body.extend_from_slice(chunked::size_line(size).as_bytes());
            body.resize(body.len() + size, b'x');
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("of {size} bytes"), |b| {
            b.iter(|| {
                let mut decoder = Decoder::new(chunked::Limits::default());
                let (mut at, mut content) = (0, 0);
                while let Step::Data(range) = decoder.decode(black_box(&body[at..])).unwrap() {
                    content += range.len();
                    at += range.end;
                }
                black_box(content)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, heads, chunks);
criterion_main!(benches);
