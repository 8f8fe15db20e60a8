//! What it costs to write what a proxy sends on: a phone's INVITE with ten headers, and the 200 that comes back for it.
//!
//! Scanning is not in these figures; bench `parse` has it. The buffer is used again, as a proxy would.
#![expect(clippy::unwrap_used, reason = "the messages are good")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use levee_sip::edit::{self, Forward, Stamp};
use levee_sip::wire::Scanner;

const SDP: &str = "v=0\r\no=- 3724394400 3724394401 IN IP4 192.0.2.10\r\ns=-\r\nc=IN IP4 192.0.2.10\r\n\
    t=0 0\r\nm=audio 40376 RTP/AVP 8 0 101\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";

const OUR_VIA: &str =
    "SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK00000000000000010123456789abcdef0123456789abcdef";

fn invite() -> String {
    format!(
        "INVITE sip:+4930123456@pbx.example.com;user=phone SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.10:5060;rport;branch=z9hG4bKPj3c1f0e2d4b5a69788796a5b4c3d2e1f0\r\n\
        Max-Forwards: 70\r\n\
        From: \"Alice Example\" <sip:alice@pbx.example.com>;tag=9f8e7d6c5b4a\r\n\
        To: <sip:+4930123456@pbx.example.com>\r\n\
        Contact: <sip:alice@192.0.2.10:5060;ob>\r\n\
        Call-ID: 5d2c1b0a-9f8e-7d6c-5b4a-392817061504\r\n\
        CSeq: 20411 INVITE\r\n\
        Allow: PRACK, INVITE, ACK, BYE, CANCEL, UPDATE, INFO, OPTIONS\r\n\
        Content-Type: application/sdp\r\n\
        Content-Length: {}\r\n\r\n{SDP}",
        SDP.len()
    )
}

fn ok() -> String {
    format!(
        "SIP/2.0 200 OK\r\n\
        Via: {OUR_VIA}\r\n\
        Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bKPj3c1f0e2d4b5a69788796a5b4c3d2e1f0;received=192.0.2.10;rport=5060\r\n\
        Record-Route: <sip:192.0.2.1;lr>\r\n\
        From: \"Alice Example\" <sip:alice@pbx.example.com>;tag=9f8e7d6c5b4a\r\n\
        To: <sip:+4930123456@pbx.example.com>;tag=as1b2c3d4e\r\n\
        Contact: <sip:+4930123456@192.0.2.20:5060>\r\n\
        Call-ID: 5d2c1b0a-9f8e-7d6c-5b4a-392817061504\r\n\
        CSeq: 20411 INVITE\r\n\
        Content-Type: application/sdp\r\n\
        Content-Length: {}\r\n\r\n{SDP}",
        SDP.len()
    )
}

fn forward(c: &mut Criterion) {
    let mut group = c.benchmark_group("forward");
    let mut scanner = Scanner::default();
    let mut out = Vec::new();

    let text = invite();
    let msg = scanner.scan(text.as_bytes()).unwrap();
    let changes = Forward {
        uri: None,
        via: OUR_VIA.as_bytes(),
        stamp: Stamp {
            source: ([192, 0, 2, 10], 5060).into(),
        },
        max_forwards: 69,
        routes_popped: 0,
        last_route_popped: false,
        lines: b"Record-Route: <sip:192.0.2.1;lr>\r\n",
    };
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("request", |b| {
        b.iter(|| {
            out.clear();
            edit::forward_request(&mut out, black_box(&msg), black_box(&changes));
            black_box(out.len())
        });
    });

    let text = ok();
    let msg = scanner.scan(text.as_bytes()).unwrap();
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("response", |b| {
        b.iter(|| {
            out.clear();
            edit::forward_response(&mut out, black_box(&msg), b"");
            black_box(out.len())
        });
    });
    group.finish();
}

criterion_group!(benches, forward);
criterion_main!(benches);
