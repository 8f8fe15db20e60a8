//! What it costs to read a message, beside the `rsip` crate on the same bytes in the same run.
//!
//! `scan` finds the lines; `scan+check` is all that a proxy reads before it decides; `rsip` is that crate's parse, and
//! `rsip+typed` adds the six values that the check reads as well.
#![expect(clippy::unwrap_used, reason = "the messages are good")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use levee_sip::check;
use levee_sip::wire::{Scanner, StartLine};
use rsip::prelude::{HeadersExt, ToTypedHeader};

const SDP: &str = "v=0\r\no=- 3724394400 3724394401 IN IP4 192.0.2.10\r\ns=-\r\nc=IN IP4 192.0.2.10\r\n\
    t=0 0\r\nm=audio 40376 RTP/AVP 8 0 101\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";

/// Ten headers, as a phone sends them.
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
        Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK7a6b5c4d3e2f1a0b.1\r\n\
        Via: SIP/2.0/UDP 192.0.2.10:5060;rport=5060;branch=z9hG4bKPj3c1f0e2d4b5a69788796a5b4c3d2e1f0\r\n\
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

/// 3.5 kB and 34 headers, most of them Via, like the longest message of RFC 4475.
fn long() -> String {
    use std::fmt::Write;

    let mut text = format!(
        "INVITE sip:user@example.com SIP/2.0\r\n\
        To: \"{}\" <sip:user@example.com:6000;p={}>\r\n\
        From: <sip:{}@example.net>;tag={}\r\n\
        Call-ID: {}\r\nCSeq: 3882340 INVITE\r\nMax-Forwards: 70\r\n\
        X-{}: {}\r\n",
        "n".repeat(120),
        "v".repeat(120),
        "u".repeat(300),
        "t".repeat(300),
        "c".repeat(140),
        "L".repeat(90),
        "x".repeat(900),
    );
    for hop in 0..25 {
        writeln!(text, "Via: SIP/2.0/TCP sip{hop:02}.example.com\r").unwrap();
    }
    write!(
        text,
        "Contact: <sip:{}@host5.example.net>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{SDP}",
        "u".repeat(200),
        SDP.len()
    )
    .unwrap();
    text
}

fn scan_check(scanner: &mut Scanner, bytes: &[u8]) -> bool {
    let msg = scanner.scan(bytes).unwrap();
    match msg.start() {
        StartLine::Request { .. } => black_box(check::request(&msg)).is_ok(),
        StartLine::Response { .. } => black_box(check::response(&msg)).is_ok(),
    }
}

fn rsip_typed(bytes: &[u8]) {
    let msg = rsip::SipMessage::try_from(bytes).unwrap();
    black_box(msg.via_header().unwrap().typed().unwrap());
    black_box(msg.from_header().unwrap().typed().unwrap());
    black_box(msg.to_header().unwrap().typed().unwrap());
    black_box(msg.contact_header().unwrap().typed().unwrap());
    black_box(msg.cseq_header().unwrap().typed().unwrap());
    black_box(msg.call_id_header().unwrap());
}

fn parse(c: &mut Criterion) {
    for (name, text) in [("invite", invite()), ("ok", ok()), ("long", long())] {
        let bytes = text.as_bytes();
        let mut scanner = Scanner::default();
        assert!(scan_check(&mut scanner, bytes), "{name} is good");
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function("scan", |b| {
            b.iter(|| {
                black_box(scanner.scan(black_box(bytes)).unwrap())
                    .body()
                    .len()
            });
        });
        group.bench_function("scan+check", |b| {
            b.iter(|| scan_check(&mut scanner, black_box(bytes)));
        });
        if rsip::SipMessage::try_from(bytes).is_ok() {
            group.bench_function("rsip", |b| {
                b.iter(|| rsip::SipMessage::try_from(black_box(bytes)).unwrap());
            });
            group.bench_function("rsip+typed", |b| b.iter(|| rsip_typed(black_box(bytes))));
        }
        group.finish();
    }
}

criterion_group!(benches, parse);
criterion_main!(benches);
