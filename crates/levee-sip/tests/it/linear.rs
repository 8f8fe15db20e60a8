//! Hostile messages cost time in proportion to their bytes.
#![expect(
    clippy::disallowed_types,
    reason = "the crate must not know a clock; its tests measure with one"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use levee_sip::check;
use levee_sip::header::{name_addrs, vias};
use levee_sip::stream::{self, Next, Progress};
use levee_sip::wire::{Limits, Scanner, StartLine};

const SMALL: usize = 8 * 1024;
const LARGE: usize = 8 * SMALL;

/// Eight times the bytes take 8 times as long if the cost is linear and 64 times if it is quadratic. The bound is the
/// geometric mean of both.
const RATIO_MAX: f64 = 22.6;

/// The best of many runs: what the machine does besides can only add.
fn best(mut work: impl FnMut()) -> Duration {
    (0..30)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .min()
        .unwrap()
}

fn assert_linear(what: &str, mut work: impl FnMut(usize) -> Duration) {
    let (small, large) = (work(SMALL), work(LARGE));
    // Below a microsecond the clock is measured, and such a cost does not depend on the bytes.
    let ratio = large.as_secs_f64() / small.as_secs_f64().max(1e-6);
    assert!(
        ratio < RATIO_MAX,
        "{what}: {small:?} for {SMALL} bytes, {large:?} for {LARGE}"
    );
}

fn read_all(bytes: &[u8]) {
    let mut scanner = Scanner::new(Limits {
        message_bytes_max: usize::MAX,
        headers_max: usize::MAX,
    });
    let msg = scanner.scan(bytes).unwrap();
    for h in msg.headers() {
        black_box(name_addrs(h.value).count());
        black_box(vias(h.value).count());
    }
    match msg.start() {
        StartLine::Request { .. } => {
            let no = check::request(&msg).err();
            black_box(check::unsupported_tags(&msg).count());
            black_box(no);
        }
        StartLine::Response { .. } => {
            black_box(check::response(&msg).err());
        }
    }
}

#[test]
fn messages() {
    const HEAD: &str = "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bKa\r\n\
        From: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n";
    let response = HEAD.replace("INVITE sip:b@x SIP/2.0", "SIP/2.0 200 OK");
    // What stands before the repeated part, the part, what stands after it.
    let table = [
        (HEAD, "Via: SIP/2.0/UDP b\r\n", ""),
        (&response, "Via: SIP/2.0/UDP b\r\n", ""),
        (HEAD, "v:\r\n", ""),
        (HEAD, "X: y\r\n", ""),
        (HEAD, "x\r\n", ""),
        (HEAD, "\r", "\r\n"),
        (HEAD, "\n ", "\r\n"),
        ("BYE sip:a SIP/2.0\r\nVia: ", "SIP/2.0/UDP b,", "\r\n"),
        ("SIP/2.0 200 OK\r\nVia: ", "SIP/2.0/UDP b,", "\r\n"),
        (
            "BYE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP b",
            ";branch=x",
            "\r\n",
        ),
        ("BYE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP b", ";x=\"", "\r\n"),
        ("BYE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP ", "[", "\r\n"),
        ("BYE sip:a SIP/2.0\r\nVia: ", "SIP/", "\r\n"),
        (HEAD, "m: <sip:a>\r\n", ""),
        (&format!("{HEAD}Route: "), "<sip:a>,", "<sip:b>\r\n"),
        (&format!("{HEAD}Route: "), "a ", "<sip:b>\r\n"),
        (&format!("{HEAD}Route: "), "\"\\", "\r\n"),
        (&format!("{HEAD}Route: "), "<", "\r\n"),
        (&format!("{HEAD}Route: <sip:a"), ";x", ">\r\n"),
        (&format!("{HEAD}Route: <sip:a>"), ";x", "\r\n"),
        (&format!("{HEAD}Subject: "), "\r\n ", "x\r\n"),
        (&format!("{HEAD}Subject"), " ", ": x\r\n"),
        (&format!("{HEAD}Proxy-Require: "), "a,", "\r\n"),
        (HEAD, "Proxy-Require: ,\r\n", "Proxy-Require: a\r\n"),
        (HEAD, "l: 0\r\n", ""),
        ("BYE sip:", "a@", " SIP/2.0\r\n"),
        ("BYE sip:a", ";x", " SIP/2.0\r\n"),
        ("BYE", " ", "sip:a SIP/2.0\r\n"),
        ("", "B", " sip:a SIP/2.0\r\n"),
        ("BYE sip:a SIP/2.0\r\nCSeq: ", "0", "1 BYE\r\n"),
        ("BYE sip:a SIP/2.0\r\nMax-Forwards: ", "9", "\r\n"),
    ];
    for (before, part, after) in table {
        assert_linear(&format!("{part:?} after {before:?}"), |n| {
            let bytes = [before, &part.repeat(n / part.len()), after, "\r\n"].concat();
            best(|| read_all(bytes.as_bytes()))
        });
    }
}

/// Feeds a stream in steps of one size, as a socket would, and counts the messages.
fn feed(bytes: &[u8], step: usize) -> usize {
    let (mut from, mut to, mut messages) = (0, 0, 0);
    let mut progress = Progress::default();
    while to < bytes.len() {
        to = bytes.len().min(to + step);
        loop {
            match stream::next(&bytes[from..to], &mut progress, usize::MAX) {
                Ok(Next::More) => break,
                Ok(Next::KeepAlive { bytes, .. }) => from += bytes,
                Ok(Next::Message { bytes }) => {
                    from += bytes;
                    messages += 1;
                }
                Err(_) => return messages,
            }
        }
    }
    messages
}

#[test]
fn streams_in_drips() {
    let table = [
        ("headers that do not end", "", "X: y\r\n", ""),
        (
            "a body that comes slowly",
            "A\r\nl: 65000\r\n",
            "X: y\r\n",
            "\r\n",
        ),
        ("line ends", "", "\r\n", ""),
        ("line ends that are no pings", "", "\n\r\n", ""),
        ("small messages", "", "A\r\nl:0\r\n\r\n", ""),
    ];
    for (what, before, part, after) in table {
        assert_linear(what, |n| {
            let mut bytes = [before, &part.repeat(n / part.len()), after].concat();
            bytes += &".".repeat(n / 2);
            best(|| {
                black_box(feed(bytes.as_bytes(), 1));
            })
        });
    }
}
